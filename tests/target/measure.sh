#!/bin/sh
# SPDX-License-Identifier: MIT
# tg measure, as short as it can be: it writes each column of columns.def, which docs/model.md describes, all of them positive, and keeps the row where it is told to.
# What the values are is not looked at: they are the machine's, and others use it.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

"$b/tg" measure --seconds 1 --save --tuned "$t/kept" > "$t/out" 2> "$t/err" && ok || wrong "exit code $?: $(head -n 3 "$t/err")"
[ ! -s "$t/err" ] && ok || wrong "on stderr: $(head -n 3 "$t/err")"
file=$t/kept/machine.txt
grep -q "^/\* kept as $file \*/" "$t/out" && [ -f "$file" ] && ok || wrong "nothing is kept: $(tail -n 2 "$t/out")"
columns=$(sed -n 's/^[CW](\([a-z0-9_]*\),.*/\1/p' src/target/columns.def)
[ "$(echo "$columns" | wc -l)" -gt 30 ] && ok || wrong "columns.def has next to no columns"
for c in $columns; do
  grep -q "^| \`$c\`" docs/model.md && ok || wrong "$c is not in docs/model.md"
  grep -qE "[ (]\.$c = [{0-9]" "$t/out" && ok || wrong "$c is not in the row"
  # what a crossing costs beside other loads may be nothing; widths that the machine lacks are 0
  case $c in cross_*) least=0 ;; *) least=1e-9 ;; esac
  awk -v c="$c" -v least="$least" '$1 == c && $2 == "=" && $3 >= least { found = 1 } END { exit !found }' "$file" && ok || wrong "$c is not above 0: $(grep "^$c " "$file")"
done
# The probes of the core are instructions of AVX2. Those of two threads find nothing where other programs have the second core all the while.
if [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
  left=$(sed -n 's/.*not measured, but from the row of the tree: \(.*\) \*\/$/\1/p' "$t/out" | tr -d ' ' | tr , '\n' | grep -vx -e launch -e barrier)
  [ -z "$left" ] && ok || wrong "not measured: $left"
fi
"$b/tg" measure --help | grep -q -- --save && "$b/tg" help | grep -q 'tg measure' && ok || wrong "the help does not tell of it"
"$b/tg" measure --rows > /dev/null 2> "$t/err"
[ $? = 2 ] && grep -q "is no option" "$t/err" && ok || wrong "another command's option is taken"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
