#!/bin/sh
# SPDX-License-Identifier: MIT
# Generated code against the hashes of tests/replay: a refactor shows no difference, and a change of code is declared by
# new hashes (docs/testing.md). Every program of the corpus must be in the list, for each of its targets, and so must
# every example, every kernel of PolyBench and every sketch of a matrix product.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
listed() {   # program, list, targets
  for target in $3; do
    if grep -q "^$1 $target [^ ]* [^ ]* [^ ]" "tests/replay/$2"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "$1 for $target is not in tests/replay/$2"; fi
  done
}
rows="x86-64-v3 x86-64-v4 armv8-a neoverse-v1 sm_80 gfx1100 gfx90a"
for f in tests/corpus/*.tg; do listed "../${f#tests/}" corpus.txt "$rows"; done
for f in examples/*.tg; do listed "../../$f" corpus.txt "$rows"; done
for f in tests/polybench/*.tg; do listed "../${f#tests/}" polybench.txt "x86-64-v3 x86-64-v4"; done
for name in $("${BUILD:-build}/tg" replay gemm); do listed "$name" gemm.txt "x86-64-v3 sapphirerapids znver5"; done
reached=$(grep -v refused tests/replay/gemm.txt |
  sed -n 's/^gemm:[^: ]*:\([^ ]*\) .*/\1/p' | sort -u)
for sketch in $("${BUILD:-build}/tg" replay gemm | sed -n 's/^gemm:[^: ]*:\([^ ]*\)$/\1/p' | sort -u); do
  if echo "$reached" | grep -qx "$sketch"; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "no descriptor reaches $sketch"; fi
done
if grep '^[^#].* | ' tests/replay/schedules.txt | grep -q ' refused:'; then
  failed=$((failed + 1)); echo "a schedule in tests/replay/schedules.txt is refused"
fi
out=$("${BUILD:-build}/tg" replay tests/replay 2>&1)
status=$?
line=$(echo "$out" | tail -n 1)
same=${line%% *}
case $line in
  *" the same, "*) passed=$((passed + same)) ;;
  *) failed=$((failed + 1)) ;;
esac
if [ "$status" != 0 ]; then
  echo "$out"
  n=$(echo "$line" | sed -n 's/.*the same, \([0-9]*\) changed, \([0-9]*\) broken.*/\1 + \2/p')
  failed=$((failed + ${n:-1}))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
