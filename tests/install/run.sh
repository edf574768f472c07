#!/bin/sh
# SPDX-License-Identifier: MIT
# The library as a foreign project meets it: installed under a prefix, under DESTDIR, moved, found by pkg-config and by CMake, used from C and
# C++; and a program that links libtg.a alone has no LLVM in it and runs a kernel from the cache.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
must() { what=$1; shift; if "$@" > "$t/out" 2>&1; then ok; else wrong "$what: $(head -n 5 "$t/out")"; fi; }
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

must "install" sh tools/deploy --build="$b" --prefix="$t/usr"
must "install under DESTDIR" env DESTDIR="$t/stage" sh tools/deploy --build="$b" --prefix=/opt/tg
(cd "$t/usr" && find . -type f | sort) > "$t/plain"
(cd "$t/stage/opt/tg" && find . -type f | sort) > "$t/staged"
[ "$(wc -l < "$t/plain")" -gt 10 ] && cmp -s "$t/plain" "$t/staged" && ok || wrong "DESTDIR gives other files"
[ ! -e /opt/tg/lib/libtg.a ] && ok || wrong "DESTDIR was not heeded"
grep -rqF "$t" "$t/usr/lib/pkgconfig" "$t/usr/lib/cmake" && wrong "an installed file names the place it was installed to" || ok
# every link of an installed page to another file leads to one
for page in "$t"/usr/share/doc/tg/README.md "$t"/usr/share/doc/tg/docs/*.md; do
  for link in $(grep -oE '\]\([^)]*\)' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v '^http' | sort -u); do
    [ -e "${page%/*}/$link" ] && ok || wrong "${page##*/} links to $link, which is not installed"
  done
done
mv "$t/usr" "$t/moved"
export PKG_CONFIG_PATH="$t/moved/lib/pkgconfig"
p=tests/install
for c in "gcc -std=c11" "g++ -std=c++17"; do
  x=; [ "${c%% *}" = gcc ] || x="-x c++"
  # shellcheck disable=SC2046,SC2086
  must "$c, tg_jit by pkg-config" $c $x "$p/compiles.c" -x none $(pkg-config --cflags --libs tg_jit) -o "$t/compiles"
  # shellcheck disable=SC2046,SC2086
  must "$c, tg by pkg-config" $c $x "$p/runs.c" -x none $(pkg-config --cflags --libs tg) -o "$t/runs"
  rm -rf "$t/cache"
  must "a miss without a compiler" "$t/runs" "$t/cache" miss
  grep -q 'libtg_jit' "$t/out" && ok || wrong "the miss does not say what is missing: $(cat "$t/out")"
  must "compiling" "$t/compiles" "$t/cache"
  must "again, from the cache" "$t/compiles" "$t/cache" again
  must "running without LLVM" "$t/runs" "$t/cache"
  if nm -a "$t/runs" | grep -q LLVM || ldd "$t/runs" | grep -qi llvm; then wrong "LLVM is in a program that links libtg.a alone"; else ok; fi
done
# The shared libraries: a program of each, and what they export: what is in the list stays, what is new is appended to it.
for l in tg tg_jit tg_llvm; do
  nm -D --defined-only "$t/moved/lib/lib$l.so.0" | awk -v l=$l '$2 != "A" { sub(/@.*/, "", $3); print l, $3 }'
done | sort > "$t/exported"
bad=$(comm -13 "$t/exported" "$p/exported.txt" | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "the shared libraries no longer export: $bad"
bad=$(comm -23 "$t/exported" "$p/exported.txt" | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "exported, and not in $p/exported.txt: $bad"
rm -rf "$t/cache"
# shellcheck disable=SC2046
must "libtg_jit.so by pkg-config" gcc -std=c11 "$p/compiles.c" $(pkg-config --cflags --libs tg_jit_shared) -o "$t/compiles"
# shellcheck disable=SC2046
must "libtg.so by pkg-config" gcc -std=c11 "$p/runs.c" $(pkg-config --cflags --libs tg_shared) -o "$t/runs"
must "compiling by libtg_jit.so" env LD_LIBRARY_PATH="$t/moved/lib" "$t/compiles" "$t/cache"
must "running by libtg.so" env LD_LIBRARY_PATH="$t/moved/lib" "$t/runs" "$t/cache"
for x in runs compiles; do
  LD_LIBRARY_PATH="$t/moved/lib" ldd "$t/$x" | grep -q "libLLVM" && wrong "LLVM is in a program that links the shared libraries: $x" || ok
done
# shellcheck disable=SC2046
must "the BLAS front by pkg-config" gcc -std=c11 "$p/blas.c" $(pkg-config --libs tg_blas) -o "$t/blas"
must "a product without a cache" env LD_LIBRARY_PATH="$t/moved/lib" TG_BLAS_CACHE= "$t/blas" compiles
must "a product compiled" env LD_LIBRARY_PATH="$t/moved/lib" TG_BLAS_CACHE="$t/blas_cache" "$t/blas" compiles
must "a product from the cache" env LD_LIBRARY_PATH="$t/moved/lib" TG_BLAS_CACHE="$t/blas_cache" "$t/blas"
if command -v cmake > /dev/null; then
  must "cmake" cmake -S "$p" -B "$t/cmake" -DCMAKE_PREFIX_PATH="$t/moved"
  must "cmake --build" cmake --build "$t/cmake"
  rm -rf "$t/cache"
  must "compiling" "$t/cmake/compiles" "$t/cache"
  must "running without LLVM" "$t/cmake/runs" "$t/cache"
  must "the BLAS front" env TG_BLAS_CACHE="$t/blas_cache" "$t/cmake/blas"
else
  wrong "no cmake: sh tools/install --test"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
