#!/bin/sh
# SPDX-License-Identifier: MIT
# NumPy's products over the BLAS front (products.py): in a process that compiles its kernels, in one that finds them. Where there is no
# NumPy, or one that brings a BLAS of its own, only what the front exports is checked: tg needs no Python.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=$(cd "${BUILD:-build}" && pwd) t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
end() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ]; exit; }

[ "$(nm -D --defined-only "$b/libtg_blas.so" | awk '{ print $3 }' | sort | tr '\n' ' ')" = "cblas_dgemm cblas_sgemm dgemm_ sgemm_ " ] && ok || wrong "libtg_blas.so exports other names"
python=
for p in python3 /usr/bin/python3; do
  [ -n "$python" ] || ! module=$("$p" -c 'import numpy.core._multiarray_umath as m; print(m.__file__)' 2> /dev/null) || ! nm -D --undefined-only "$module" | grep -q ' cblas_sgemm$' || python=$p
done
[ -n "$python" ] || { echo "no NumPy that calls the system's BLAS (python3-numpy): its products are not tried"; end; }

try() {
  if env "$@" TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/libtg_blas.so" timeout 400 "$python" tests/blas/products.py > "$t/out" 2>&1; then status=0; else status=$?; fi
  line=$(tail -n 1 "$t/out" | grep -E '^[0-9]+ passed, [0-9]+ failed$') || line="0 passed, 1 failed"
  p=${line%% *} f=${line#*, }
  passed=$((passed + p)) failed=$((failed + ${f%% *}))
  [ "$status" = 0 ] || { wrong "NumPy with $*: exit status $status"; head -n 20 "$t/out"; }
}
try TG_BLAS_THREADS=3
n=$(find "$t/cache" -name '*.tgo' 2> /dev/null | wc -l)
[ "$n" -gt 20 ] && ok || wrong "the cache has $n kernels: NumPy calls another library"
try TG_BLAS_THREADS=3 OPENBLAS_NUM_THREADS=1
[ "$(find "$t/cache" -name '*.tgo' | wc -l)" = "$n" ] && ok || wrong "the second process compiled"
end
