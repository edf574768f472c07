#!/bin/sh
# SPDX-License-Identifier: MIT
# Several sums of one loop: they stay one loop, and their accumulators fill at most half of the target's registers.
set -u
cd "$(dirname "$0")/../.."
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

# a kernel with $1 sums in one loop: of x, x*x, x*x*x ..
kernel() {
  awk -v n="$1" 'BEGIN {
    printf "kernel powers(R = 64, D = 1024) { in(x, f32, [R, D]); out(y, f32, [R, %d]); range(r, R) {", n
    for (i = 0; i < n; i++) printf " define_reg(s%d, f32, []); s%d = 0;", i, i
    printf " range(d, D) {"
    for (i = 0; i < n; i++) { printf " s%d += x[r,d]", i; for (k = 0; k < i; k++) printf " * x[r,d]"; printf ";" }
    printf " }"
    for (i = 0; i < n; i++) printf " y[r,%d] = s%d;", i, i
    print " } }" }'
}

for row in x86-64-v3:16 x86-64-v4:32; do
  for sums in 2 3 4 6; do
    kernel $sums > "$t/powers.tg"
    "$b/tg" show "$t/powers.tg" --target ${row%:*} --stage schedule > "$t/words" 2>&1 ||
      { wrong "$row, $sums sums: $(tail -n 1 "$t/words")"; continue; }
    copies=$(sed -n 's/.*[^a-z]d[a-z.]*u : \([0-9]*\) upcast.*/\1/p' "$t/words" | sort -n | tail -n 1)
    [ $((${copies:-1} * sums)) -le $((${row#*:} / 2)) ] && ok ||
      wrong "$row: $sums sums with $copies vectors each are more than half of the registers"
    [ $((${copies:-1} * 2 * sums)) -gt $((${row#*:} / 2)) ] || [ "${copies:-1}" = 4 ] && ok ||
      wrong "$row: $sums sums have ${copies:-1} vectors each, and there is room for twice as many"
    "$b/tg" show "$t/powers.tg" --target ${row%:*} --stage linear > "$t/linear" 2>&1
    loops=$(grep -c '^ *range(d' "$t/linear")
    [ "$loops" = 1 ] && ok || wrong "$row: $sums sums of one loop are $loops loops"
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
