#!/bin/sh
# SPDX-License-Identifier: MIT
# tg run --time --cost: the model's lines are those of tg show --cost, its sum stands beside what was measured, and what makes no sense is refused.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

for f in examples/conv.tg examples/spmv.tg; do
  sizes=$(sed -n 's|^// check: ||p' "$f")
  # shellcheck disable=SC2086
  "$b/tg" run "$f" $sizes --time --seconds 0.01 --cost > "$t/run" 2>&1 && ok || wrong "$f: $(tail -n 3 "$t/run")"
  # shellcheck disable=SC2086
  "$b/tg" show "$f" $sizes --cost > "$t/show" || wrong "$f: tg show"
  # loops and accesses are the same ones: their first columns, whatever the number of threads that the cost is of
  names() { awk '/^loop / { on = 1 } /^the model/ { on = 0 } on { print $1, $2 }' "$1" | sed 's/ [0-9.]*$//'; }
  names "$t/run" > "$t/a"; names "$t/show" > "$t/b"
  [ "$(wc -l < "$t/a")" -gt 4 ] && cmp -s "$t/a" "$t/b" && ok || wrong "$f: other lines than tg show --cost: $(diff "$t/a" "$t/b" | head -n 5)"
  awk '/^the model / { m = $3 } /^measured / { t = $2; r = $4 } END { d = t / m / r; exit !(m > 0 && t > 0 && d > 0.98 && d < 1.02) }' "$t/run" && ok || wrong "$f: $(grep -E '^(the model|measured)' "$t/run")"
done
"$b/tg" run examples/conv.tg --cost > "$t/run" 2>&1; [ $? = 2 ] && grep -q 'tg show --cost' "$t/run" && ok || wrong "--cost alone: $(cat "$t/run")"
"$b/tg" run examples/conv.tg --time --cost --json > "$t/run" 2>&1; [ $? = 2 ] && ok || wrong "--cost for programs: $(cat "$t/run")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
