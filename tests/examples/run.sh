#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every example that is built, and every .tg file of examples/ against the interpreter; ends with "N passed, N failed".
#   sh tests/examples/run.sh [BUILD]       BUILD: build
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
build=${1:-build} passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

try() {
  name=$1; shift
  timeout 120 "$@" > "$out" 2>&1
  status=$?
  if [ "$status" = 0 ] && [ -s "$out" ]; then passed=$((passed + 1)); return; fi
  failed=$((failed + 1))
  echo "$name: exit status $status"
  cat "$out"
}

for source in examples/*.c examples/*.cc; do
  program=$(basename "${source%.*}")
  [ "${source%.cc}" = "$source" ] || [ ! -f "${source%.cc}.c" ] || program=${program}_cc   # beside a C program of that name
  try "$source" "$build/examples/$program"
done
# On each of the other devices that can be used, if there are any.
for device in $("$build/tg" devices | grep -v 'cannot be used' | sed -n 's/^\([a-z]*:[0-9]*\) .*/\1/p'); do
  try "examples/offload.c $device" "$build/examples/offload" "$device" 2
done
for program in examples/*.tg; do
  # The interpreter takes 100 ns for a term: a line "// check: M=60 N=70" in the file names sizes that it can do.
  sizes=$(sed -n 's|^// check: ||p' "$program")
  # shellcheck disable=SC2086
  try "$program" "$build/tg" run "$program" $sizes --check
done
# With a Python that has NumPy, if there is one: tg needs none.
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy' 2> /dev/null || continue
  TG_LIBRARY=$build/libtg_jit.so.0 PYTHONDONTWRITEBYTECODE=1 try examples/python/demo.py "$python" examples/python/demo.py
done
# With a Rust that makes programs, if there is one.
rust=$(mktemp -d)
trap 'rm -rf "$out" "$rust"' EXIT
echo 'fn main() {}' > "$rust/empty.rs"
if ! command -v rustc > /dev/null; then echo "skipped: examples/rust: there is no rustc"
elif ! rustc "$rust/empty.rs" -o "$rust/empty" 2> "$rust/why"; then echo "skipped: examples/rust: rustc makes no program: $(head -n 1 "$rust/why")"
else
  try "rustc examples/rust/layer.rs" sh -c 'rustc --edition 2018 -D warnings -O "$1" -o "$2" -C link-arg="$3" && echo made' rust examples/rust/layer.rs "$rust/layer" "$build/libtg_jit.so.0"
  LD_LIBRARY_PATH=$build try examples/rust/layer.rs "$rust/layer"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
