#!/bin/sh
# SPDX-License-Identifier: MIT
# The tool on other devices than the CPU: their list, their names, and tg run --check --time and tg tune on the first of OpenCL, if there is one.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export POCL_CACHE_DIR="$t/pocl" TG_TUNED="$t/none"

# An exit code, and a text that the output has.
expect() {
  code=$1 text=$2
  shift 2
  "$@" > "$t/out" 2>&1
  got=$?
  if [ "$got" = "$code" ] && grep -q -- "$text" "$t/out"; then ok; else wrong "$*: $got: $(head -n 3 "$t/out")"; fi
}
expect 2 'opencl:9999: there is no such device' "$b/tg" run examples/matmul.tg --device opencl:9999
expect 2 'a driver and a number are wanted' "$b/tg" run examples/matmul.tg --device gpu
expect 2 'of the CPU, not of a device' "$b/tg" run examples/matmul.tg --device cpu --time --cost
expect 2 'without --device' "$b/tg" bench gemm --device cpu
expect 2 'is for gemm, attention and kernels' "$b/tg" bench launch --device cpu
expect 2 'is of the CPU, not of a device' "$b/tg" measure --device cpu --explain
expect 0 'y: right, the same bits' "$b/tg" run examples/conv.tg --device cpu --check
if "$b/tg" devices | grep '^opencl:0 ' | grep -vq 'cannot be used'; then
  "$b/tg" devices --json | grep -q '"device":"opencl:0","number":' && ok || wrong "no opencl:0 in the list as JSON"
  expect 0 'y: right, the same bits' "$b/tg" run examples/conv.tg --device opencl:0 --check
  expect 0 ' us ' "$b/tg" run examples/conv.tg --device opencl --time --seconds 0.05
  # Candidates are compiled, checked and timed there; which of them wins is the machine's matter. What is kept is found again.
  printf 'kernel mk(M, N, K) { knob(BJ, 1, 8, 16); in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n  range(i, M) range(j, N) C[i, j] = sum(k : K, A[i, k] * B[k, j]);\n  opt(split j BJ as jo ji); opt(upcast ji); opt(thread i); }\n' > "$t/mk.tg"
  expect 0 '"event":"end"' "$b/tg" tune "$t/mk.tg" M=48 N=40 K=33 --device opencl:0 --knobs --candidates 3 --budget 40 --tuned "$t/kept" --json
  grep -q '"timed":[1-9]' "$t/out" && ! grep -qE '"outcome":"(wrong|crashed|hung|limit)"' "$t/out" && ok || wrong "tune: $(cat "$t/out")"
  if grep -q '"kept":true' "$t/out"; then expect 0 'time, tuned' "$b/tg" run "$t/mk.tg" M=48 N=40 K=33 --device opencl:0 --tuned "$t/kept" --check --time --seconds 0.05; fi
  expect 0 '"event":"end"' "$b/tg" tune attention H=2 KV=1 T=20 N=30 D=16 --causal --device opencl:0 --candidates 1 --budget 40 --tuned "$t/kept" --json
  grep -q '"timed":[1-9]' "$t/out" && ! grep -qE '"outcome":"(wrong|crashed|hung|limit)"' "$t/out" && ok || wrong "tune attention: $(cat "$t/out")"
  echo 'small 24 40 16' > "$t/shapes"
  expect 0 'GFLOP/s' "$b/tg" bench gemm --device opencl:0 --shapes "$t/shapes" --seconds 0.02
  expect 0 ' time  ' "$b/tg" run "$t/mk.tg" M=48 N=40 K=33 --tuned "$t/kept" --time --seconds 0.05   # the choice is not the CPU's
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
