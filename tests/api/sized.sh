#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs of other headers than the library's: structs that are shorter, as an older header has them, and longer, as a newer one has (sized.c), over
# libtg_jit.so. With a folder as its argument, over the library there.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${1:-${BUILD:-build}} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
passed=0 failed=0
mkdir "$t/newer"
sh tests/api/newer_headers "$t/newer" given || exit 1
one() {   # what it is called, options of the compiler
  what=$1; shift
  if "$@" -Wall -Wextra -Werror tests/api/sized.c -x none -o "$t/sized" "$b/libtg_jit.so.0" -Wl,-rpath,"$(cd "$b" && pwd)" > "$t/out" 2>&1 &&
     "$t/sized" > "$t/out" 2>&1; then :; else head -n 20 "$t/out"; failed=$((failed + 1)); echo "$what failed"; fi
  n=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$t/out"); passed=$((passed + ${n:-0}))
}
one "C, these headers" ${CC:-gcc} -std=c11 -Iinclude
one "C, newer headers" ${CC:-gcc} -std=c11 -DTEST_NEWER -I"$t/newer"
one "C++, newer headers" ${CXX:-g++} -std=c++17 -x c++ -DTEST_NEWER -I"$t/newer"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
