#!/bin/sh
# SPDX-License-Identifier: MIT
# cblas_sgemm through libtg_blas.so beside other libraries, in turns, from C (front.c).
#   sh tests/bench/gemm/front.sh THREADS SECONDS NAME=FILE ..      a library that has cblas_sgemm or dnnl_sgemm
# BUILD: build. SHAPES: tests/bench/gemm/front.txt. TG_BLAS_CACHE: the folder of kernels, else one for this run.
set -eu
cd "$(dirname "$0")/../../.."
[ $# -ge 3 ] || { sed -n '4p' "$0" >&2; exit 2; }
build=${BUILD:-build} threads=$1 seconds=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${CC:-cc} -std=c11 -O2 -Wall -Wextra -Werror -o "$folder/front" tests/bench/gemm/front.c -ldl -lm
for name in TG_BLAS_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS OMP_NUM_THREADS BLIS_NUM_THREADS; do
  export "$name=$threads"
done
# the kernels that calls have once they were worth compiling
export TG_BLAS_COMPILE=first TG_BLAS_CACHE="${TG_BLAS_CACHE:-$folder/kernels}" MKL_THREADING_LAYER=GNU
# Some builds of oneDNN ask no variable but the processors they may run on.
at_most=$(taskset -cp $$ | sed 's/.*: *//' | tr ',' '\n' | awk -F- '{ for (c = $1; c <= ($2 == "" ? $1 : $2); c++) print c }' | head -n "$threads" | paste -sd,)
taskset -c "$at_most" "$folder/front" "$threads" "$seconds" "${SHAPES:-tests/bench/gemm/front.txt}" "tg=$build/libtg_blas.so" "$@"
