#!/bin/sh
# SPDX-License-Identifier: MIT
# tg bench gemm --device cuda:0 --vs cublas, with stand-ins for the driver and for cuBLAS: both contestants are right and in the list, a wrong product of the library is told, and so is what is missing.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
check() { # what, whether
  if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$1: $(head -n 20 "$t/out")"; fi
}
export LD_LIBRARY_PATH="$PWD/$b/tests/cuda"
unset TG_CUBLAS
bench() { "$b/tg" bench gemm --device cuda:0 --shapes "$t/shapes" --seconds 0.01 --cache "$t/cache" "$@" > "$t/out" 2>&1; }

printf 'few 24 40 16\nfew 20 24 12 NT\nmore 12 16 20 TN\n' > "$t/shapes"
for types in f32 f16 bf16; do
  bench --vs cublas --types $types --json
  check "$types" $?
  [ "$(grep -c '"metric":"rate of tg","value":[0-9.e+-]*,"unit":"ratio","of":"cublas"' "$t/out")" = 3 ]
  check "$types: three ratios" $?
  [ "$(grep -cE '"case":"(few|more) [^"]*","metric":"(cublasGemmEx|cublasLtMatmul, choice [12])"' "$t/out")" = 3 ]
  check "$types: the library's way is named" $?
  grep -q "\"case\":\"few $types\",\"metric\":\"geometric mean\"" "$t/out"
  check "$types: a mean of its class" $?
done
bench --vs "cublas=$b/tests/cuda/libcublas.so.13" --types f32,i8i8
check "a library by its name, two types" $?
grep -q 'against cuBLAS 13.0.0' "$t/out" && [ "$(grep -c 'few 20x24x12 NT i8i8 .*of cublas' "$t/out")" = 1 ] && [ "$(grep -c 'few 24x40x16 NN i8i8 .*of cublas' "$t/out")" = 0 ]
check "8-bit products only where the library has them" $?
TG_TEST_CUBLAS_WRONG=1 bench --vs cublas --case 24x40
[ $? = 1 ] && grep -q 'few 24x40x16 NN f32: cublasGemmEx: wrong result' "$t/out" && ! grep -q 'of cublas' "$t/out"
check "a wrong product of the library's" $?
bench --vs cublas=/nowhere/libcublas.so.13
[ $? = 2 ] && grep -q 'no libcublas.so.13 or .12 was opened' "$t/out"
check "a library that is not there" $?
bench --vs mkl
[ $? = 2 ] && grep -q "'mkl' is none that a device is measured against: cublas" "$t/out"
check "another library" $?
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
