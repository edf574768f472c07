#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs of these headers over the library of a later release: one that is built from this tree with two fields more in each struct that may grow
# (tests/api/newer_headers). Builds libtg_jit.so.0 anew, which takes minutes.
set -u
cd "$(dirname "$0")/../.."
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
mkdir "$t/tree" && cp -R configure rooms rooms.ninja build.ninja include src kernels tools tests examples LICENSE "$t/tree" 2> /dev/null
rm -rf "$t/tree/include/tg" && mkdir -p "$t/tree/include"
sh tests/api/newer_headers "$t/tree/include" all || exit 1
(cd "$t/tree" && sh configure && ninja build/libtg_jit.so.0) > "$t/out" 2>&1 || { tail -n 20 "$t/out"; echo "0 passed, 1 failed"; exit 1; }
passed=0 failed=0
one() {   # what it is called, the compiler and its options
  what=$1; shift
  if "$@" -Wall -Wextra -Werror -Iinclude tests/api/sized.c -x none -o "$t/sized" "$t/tree/build/libtg_jit.so.0" -Wl,-rpath,"$t/tree/build" > "$t/out" 2>&1 &&
     "$t/sized" > "$t/out" 2>&1; then :; else head -n 20 "$t/out"; failed=$((failed + 1)); echo "$what failed"; fi
  n=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$t/out"); passed=$((passed + ${n:-0}))
}
one "C" ${CC:-gcc} -std=c11
one "C++" ${CXX:-g++} -std=c++17 -x c++
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
