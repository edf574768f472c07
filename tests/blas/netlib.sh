#!/bin/sh
# SPDX-License-Identifier: MIT
# The reference's own programs for level 3 (Debian: libblas-test) over the BLAS front: sgemm and dgemm, Fortran and C, both layouts, error exits,
# N up to 65. That the front is what they call is read from the dynamic linker.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=$(cd "${BUILD:-build}" && pwd) t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
programs=
for d in /usr/lib/*/blas /usr/lib64/blas; do [ -x "$d/xblat3s" ] && programs=$d; done
[ -n "$programs" ] || { echo "no xblat3s: sh tools/install --test"; echo "0 passed, 1 failed"; exit 1; }

# letter, routine, form of the input: Fortran's has names of files first, C's asks for layouts.
input() {
  [ "$3" = c ] || printf "'%s'\n6\n" "$t/summary"
  printf "'%s'\n-1\nF\nF\nT\n" "$t/snap"
  [ "$3" = c ] && echo 2
  printf '16.0\n9\n0 1 2 3 15 16 33 64 65\n3\n0.0 1.0 0.7\n3\n0.0 1.0 1.3\n'
  x=$1
  for r in GEMM SYMM TRMM TRSM SYRK SYR2K; do
    flag=F; [ $r = GEMM ] && flag=T
    if [ "$3" = c ]; then printf '%-12s %s\n' "cblas_$x$(echo $r | tr A-Z a-z)" $flag; else printf '%-6s %s\n' "$(echo "$x" | tr sd SD)$r" $flag; fi
  done
}

try() {
  name=$1 letter=$2 form=$3; shift 3
  rm -f "$t/summary" "$t/snap"
  input "$letter" GEMM "$form" > "$t/in"
  if env "$@" LD_LIBRARY_PATH="$programs" LD_PRELOAD="$b/libtg_blas.so" timeout 300 "$programs/$name" < "$t/in" > "$t/out" 2>&1; then ok; else wrong "$name $*: exit status $?"; fi
  [ -f "$t/summary" ] && cat "$t/summary" >> "$t/out"
  n=2; [ "$form" = c ] && n=3   # computational tests of each layout
  [ "$(grep -c 'PASSED THE .*\(COMPUTATIONAL TESTS\|TESTS OF ERROR-EXITS\)' "$t/out")" = $n ] && ! grep -qE 'FAIL|\*\*\*' "$t/out" && ok || wrong "$name $*: $(grep -vE '^ *$' "$t/out" | tail -n 12)"
}

for x in s d; do   # the first of each compiles, the second finds its kernels
  try "xblat3$x" $x fortran TG_BLAS_THREADS=3 TG_BLAS_CACHE="$t/cache"
  try "x${x}cblat3" $x c TG_BLAS_THREADS=3 TG_BLAS_CACHE="$t/cache"
done
[ "$(find "$t/cache" -name '*.tgo' 2> /dev/null | wc -l)" -gt 20 ] && ok || wrong "the cache is empty"
[ "$(stat -c %a "$t/cache")" = 700 ] && ok || wrong "the cache's folder is not the user's alone"
input s GEMM fortran > "$t/in"
TG_BLAS_CACHE="$t/cache" TG_BLAS_THREADS=3 LD_DEBUG=bindings LD_DEBUG_OUTPUT="$t/bindings" LD_PRELOAD="$b/libtg_blas.so" "$programs/xblat3s" < "$t/in" > /dev/null 2>&1
grep -q "to .*libtg_blas.so.*sgemm_" "$t"/bindings* && ok || wrong "the program calls another sgemm_"
grep -qi "llvm" "$t"/bindings* && wrong "LLVM is loaded though every kernel is in the cache" || ok
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
