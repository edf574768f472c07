#!/bin/sh
# SPDX-License-Identifier: MIT
# The code that the corpus compiles to, against the hashes of tests/replay.txt: a refactor shows no difference, and a change of code is
# declared by new hashes (docs/testing.md). Every program of the corpus must be in the list.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
for f in tests/corpus/*.tg examples/*.tg; do
  name=${f#tests/}
  [ "$name" = "$f" ] && name=../$f
  if grep -q "^$name " tests/replay.txt; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$f is not in tests/replay.txt"; fi
done
out=$("${BUILD:-build}/tg" replay tests/replay.txt 2>&1)
status=$?
line=$(echo "$out" | tail -n 1)
same=${line%% *}
case $line in
  *" the same, "*) passed=$((passed + same)) ;;
  *) failed=$((failed + 1)) ;;
esac
if [ "$status" != 0 ]; then
  echo "$out"
  n=$(echo "$line" | sed -n 's/.*the same, \([0-9]*\) changed, \([0-9]*\) do.*/\1 + \2/p')
  failed=$((failed + ${n:-1}))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
