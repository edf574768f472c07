#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts of what shall be one, none or few: rooms that price a program, places that compare prices, conditions on a
# processor outside src/target, and numbers with a fraction in what prices and chooses.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

code() {   # files: their lines with the place, without comments and texts
  for f in "$@"; do
    awk -v f="$f" '{
      line = $0
      gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
      if (inside) { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
      gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
      if (sub(/\/\*.*$/, "", line)) inside = 1
      print f ":" FNR ":" line }' "$f"
  done
}
library=$(ls src/*/*.[ch] kernels/*/*.[ch] kernels/*/*/*.[ch])

rooms=$(code $library | sed -n 's|^\([a-z]*/[a-z]*\)/[^:]*:[0-9]*:tg_cost tg_.*{.*|\1|p' | sort -u)
[ "$rooms" = src/model ] && ok || wrong "programs are priced in: $rooms"

# Prices are compared in one place, which asks for them by the function that a question names; what those functions call
# gives a price and compares nothing.
choosers=$(code $library | grep -E '(->price|tg_kernel_price)\(|logs? *\(seconds' | grep -vE ':(static )?(bool|double|void) ' | grep -v ':src/api/' |
  sed -nE 's/^([^:]*):[0-9]*:.*(->price|tg_kernel_price)\(.*/\1 \2/p' | sort -u | tr '\n' ',')
[ "$choosers" = "kernels/gemm/extend.c tg_kernel_price,kernels/kit/choose.c tg_kernel_price,src/api/source.c ->price,src/choose/choose.c ->price,src/prices/prices.c ->price," ] && ok ||
  wrong "prices are asked for in: $choosers"
compared=$(code $library | grep -E 'tg_price_choose\(|[^_]cost\[[a-z]\] *<|seconds *< *(least|best)' | cut -d: -f1 | sort -u | grep -v '/prices[.]h$' | tr '\n' ' ')
[ "$compared" = "kernels/kit/choose.c src/choose/choose.c src/prices/prices.c " ] && ok || wrong "prices are compared in: $compared"

named=$(for f in $library; do case $f in src/target/*) ;; *) echo "$f" ;; esac; done)
cpu=$(grep -nE 'AuthenticAMD|GenuineIntel|"(znver|skylake|icelake|sapphire|haswell|neoverse)|\.silicon *[=!]=|strcmp\([^)]*silicon' $named)
[ -z "$cpu" ] && ok || wrong "conditions on a processor: $cpu"

# 0.5, 1.0, 2.0, exponents and tolerances of rounding are no fitted numbers; what is chosen for GPUs is not counted. Named
# numbers are, whole ones too.
priced=$(code src/model/*.c $(ls src/choose/*.c | grep -v /device) src/prices/*.c kernels/kit/choose.c kernels/gemm/bound.c kernels/gemm/propose.c kernels/gemm/candidates.c)
numbers=$(echo "$priced" | grep -E '[^0-9a-zA-Z_.][0-9]+\.[0-9]+' | sed -E 's/[^0-9a-zA-Z_.](0\.5|1\.0|2\.0|3\.0|0\.25|4\.0|0\.0|0\.999)([^0-9])/ \2/g' |
  grep -E '[^0-9a-zA-Z_.][0-9]+\.[0-9]+'; echo "$priced" | grep -E 'static const double [a-z_]+ = [0-9]+;')
n=$(echo "$numbers" | grep -c .)
MOST=8    # may only fall: that many there shall be at most
[ "$n" -le $MOST ] && ok || wrong "$n lines with numbers that data must stand behind, above $MOST: $numbers"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
