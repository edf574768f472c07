#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/gpu-check with a driver of our own, which runs PTX in the interpreter of tests/ptx: the launches are right, a wrong kernel is told, and so is that there is no driver.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
check() { # what, whether
  if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$1"; fi
}
TG_TEST_CUDA=build/tests/cuda/libcuda.so.1 build/tests/cuda_gpu --small --report="$folder/report" > "$folder/out" 2>&1
check "programs on the interpreter: $(grep -a WRONG "$folder/out")" $?
[ "$(grep -c '^  small: ok' "$folder/report")" -ge 20 ]
check "fewer than 20 programs are right: $(cat "$folder/report")" $?
TG_TEST_CUDA=build/tests/cuda/libcuda.so.1 TG_TEST_CUDA_WRONG=1 build/tests/cuda_gpu --small --report="$folder/report" tests/ptx/gpu/axpy.tg > "$folder/out" 2>&1
[ $? = 1 ] && grep -q 'WRONG: y: first at 0: 1 of 5000 differ' "$folder/report" && grep -q '^0 programs right, 1 wrong' "$folder/report"
check "a wrong result: $(cat "$folder/report")" $?
# The script's own parts: one by one, into one report, and a part that is wrong ends it as wrong.
sh tools/gpu-check --stand-in --parts='chip products attention' --seconds=6000 --report="$folder/whole" > "$folder/out" 2>&1
check "products and attention by the script: $(tail -n 12 "$folder/out")" $?
[ "$(grep -c "^What answers is the tests' stand-in" "$folder/whole")" = 1 ] && grep -q '^not tried over the stand-in.*: chip$' "$folder/whole" && grep -q '^right, .*bench attention' "$folder/whole"
check "the report says what answers, what was not tried, and that attention is right: $(cat "$folder/whole")" $?
[ "$(grep -c ' NT .* of cublas' "$folder/whole")" = 3 ] && [ "$(grep -c '^right, .*bench gemm' "$folder/whole")" = 3 ]
check "products of two types against the library, and one before: $(cat "$folder/whole")" $?
sh tools/gpu-check --stand-in --parts=suite --seconds=0 --report="$folder/whole" > "$folder/out" 2>&1
[ $? = 1 ] && [ "$(grep -c '^not run, no time left: ' "$folder/whole")" = 4 ]
check "parts without time: $(cat "$folder/out")" $?
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda[.]so[.]1'; then
  build/tests/cuda_gpu --report="$folder/none" > "$folder/out" 2>&1
  [ $? = 77 ] && [ "$(wc -l < "$folder/out")" = 1 ] && grep -q '^skipped: there is no GPU' "$folder/out" && [ ! -f "$folder/none" ]
  check "without a driver: $(cat "$folder/out")" $?
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
