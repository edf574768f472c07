#!/bin/sh
# SPDX-License-Identifier: MIT
# Bounds in closed form against the prices of the cost model, at recorded points (tests/bench/model): a bound above its
# price may cost the first choice its best candidate. Without an argument, the products of every eighth recorded set;
# with "all", every point: of 5,055 not more than two bounds are above their price, and none by more than 3 %. In the
# sample none is.
set -u
cd "$(dirname "$0")/../.."
b=${BUILD:-build} every=8 passed=0 failed=0 above=0 all=0 t=$(mktemp -d)
[ "${1:-}" = all ] && every=1
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

for row in znver3 znver4; do
  # the set of a line is its product, the text before the first bar
  awk -v every=$every -F'|' '/^gemm/ { if (!($1 in set)) set[$1] = n++; if (set[$1] % every == 0) print }' \
    tests/bench/model/$row.txt > "$t/points"
  "$b/tg" bench model --sweep "$t/points" --target $row > "$t/out" 2>&1 || wrong "$row: $(tail -n 1 "$t/out")"
  set -- $(sed -n 's/^bounds above their price: \([0-9]*\) of \([0-9]*\), at most \([0-9.]*\) of it$/\1 \2 \3/p' \
    "$t/out")
  [ $# = 3 ] && [ "$2" -gt 100 ] && ok || { wrong "$row: no bounds were compared"; continue; }
  above=$((above + $1)) all=$((all + $2))
  awk "BEGIN { exit !($3 <= 1.03) }" && ok || wrong "$row: a bound is $3 times the price of its point"
done
most=$((every == 1 ? 2 : 0))
[ "$above" -le $most ] && ok || wrong "$above of $all bounds are above the price of their point, more than $most"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
