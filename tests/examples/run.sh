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
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
