#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/results.svg is what tg bench kernels --plot writes: the picture of one quick case has a bar for each of its ratios, a legend and the machine; the one in the
# tree has the same legend, and names its machine as README does.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
"$b/tg" bench kernels --case argmax --seconds 0.01 --plot "$t/r.svg" > "$t/out" 2>&1 && ok || wrong "$(tail -n 3 "$t/out")"
ratios=$(grep ' ratio ' "$t/out" | grep -vc 'of one core'); bars=$(grep -c 'height="16"' "$t/r.svg")
[ "$ratios" -gt 0 ] && [ "$bars" = "$ratios" ] && ok || wrong "$bars bars for $ratios ratios"
for f in "$t/r.svg" docs/results.svg; do
  [ "$(grep -c 'width="12" height="12"' "$f")" = 4 ] && grep -q 'Right of the dashed line tg is faster' "$f" && ok || wrong "$f: no legend"
  grep -q 'vectors of [0-9]* bytes), [0-9]* cores' "$f" && ok || wrong "$f names no machine"
done
[ "$(sed -n '/<rect x="12"/,/dashed/p' "$t/r.svg")" = "$(sed -n '/<rect x="12"/,/dashed/p' docs/results.svg)" ] && ok || wrong "docs/results.svg was made by another tg: its legend differs"
machine=$(sed -n 's|.*family \([0-9]*\) model \([0-9]*\).*|family \1 model \2|p' docs/results.svg)
[ -n "$machine" ] && grep -A 3 'results.svg' README.md | grep -q "$machine" && ok || wrong "README names another machine than docs/results.svg: $machine"
"$b/tg" bench kernels --case argmax --seconds 0.01 --plot "$t/nowhere/r.svg" > "$t/out" 2>&1; [ $? = 1 ] && grep -q 'nowhere/r.svg: No such file' "$t/out" && ok || wrong "a folder that is not there: $(tail -n 1 "$t/out")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
