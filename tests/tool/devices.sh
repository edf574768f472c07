#!/bin/sh
# SPDX-License-Identifier: MIT
# The tool on other devices than the CPU: their list, their names, and tg run --check --time on the first of OpenCL, if there is one.
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
expect 0 'y: right, the same bits' "$b/tg" run examples/conv.tg --device cpu --check
if "$b/tg" devices | grep '^opencl:0 ' | grep -vq 'cannot be used'; then
  "$b/tg" devices --json | grep -q '"device":"opencl:0","number":' && ok || wrong "no opencl:0 in the list as JSON"
  expect 0 'y: right, the same bits' "$b/tg" run examples/conv.tg --device opencl:0 --check
  expect 0 ' us ' "$b/tg" run examples/conv.tg --device opencl --time --seconds 0.05
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
