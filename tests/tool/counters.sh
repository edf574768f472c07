#!/bin/sh
# SPDX-License-Identifier: MIT
# tg run --time --counters: a line for each counter, with a count or the reason that there is none, whatever the machine; what makes no sense is refused.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

for more in "" "--cost" "--threads 2"; do
  # shellcheck disable=SC2046,SC2086
  "$b/tg" run examples/conv.tg $(sed -n 's|^// check: ||p' examples/conv.tg) --time --seconds 0.01 --counters $more > "$t/run" 2>&1 && ok || wrong "$more: $(tail -n 3 "$t/run")"
  for name in cycles instructions "L1 load misses" "last level misses" branches "branch misses" "stalled, front" "stalled, back"; do
    [ "$(grep -cE "^$name +([0-9.e+]+ +([0-9.e+]+|-)( |\$)|- +([0-9.e+]+|-)  not counted: [a-zA-Z])" "$t/run")" = 1 ] && ok || wrong "$more: $name: $(grep "^$name" "$t/run")"
  done
  # the model's cycles stand there whether or not the machine counts
  awk '/^cycles / { m = $3 } END { exit !(m > 0) }' "$t/run" && ok || wrong "$more: no cycles of the model's: $(grep '^cycles' "$t/run")"
  [ "$more" = --cost ] && want=1 || want=0
  [ "$(grep -c '^loop ' "$t/run")" = "$want" ] && ok || wrong "$more: the report of --cost: $want times"
done
"$b/tg" run examples/conv.tg --counters > "$t/run" 2>&1; [ $? = 2 ] && grep -q -- '--time' "$t/run" && ok || wrong "--counters alone: $(cat "$t/run")"
"$b/tg" run examples/conv.tg --time --counters --json > "$t/run" 2>&1; [ $? = 2 ] && ok || wrong "--counters for programs: $(cat "$t/run")"
"$b/tg" run examples/conv.tg --time --counters --device opencl:0 > "$t/run" 2>&1; [ $? = 2 ] && ok || wrong "--counters of a device: $(cat "$t/run")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
