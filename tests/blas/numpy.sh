#!/bin/sh
# SPDX-License-Identifier: MIT
# NumPy's products over the BLAS front (products.py): in a process that compiles its kernels, in one that finds them. A NumPy over the system's BLAS, and one that brings a BLAS of its own (PyPI's): whichever
# python3 and /usr/bin/python3 have. Every call of a sgemm or dgemm, counted on its way (count.c), must be computed by tg, and the dynamic linker must know no other one; syrk, gemv and dot stay with
# the library below. Where there is no NumPy, only what the front exports is checked: tg needs no Python.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=$(cd "${BUILD:-build}" && pwd) t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
end() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ]; exit; }
gemm='(scipy_)?(cblas_[sd]gemm(64_|_64)?|[sd]gemm_(64_)?)'

names=$(nm -D --defined-only "$b/libtg_blas.so" | awk '{ print $3 }')
[ "$(echo "$names" | wc -l)" = 18 ] && [ "$(echo "$names" | grep -cxE "$gemm")" = 18 ] && ok || wrong "libtg_blas.so exports other names: $names"

try() {
  if env "$@" TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/libtg_blas.so" timeout 900 "$python" tests/blas/products.py > "$t/out" 2>&1; then status=0; else status=$?; fi
  line=$(tail -n 1 "$t/out" | grep -E '^[0-9]+ passed, [0-9]+ failed$') || line="0 passed, 1 failed"
  p=${line%% *} f=${line#*, }
  passed=$((passed + p)) failed=$((failed + ${f%% *}))
  [ "$status" = 0 ] || { wrong "$python with $*: exit status $status"; head -n 20 "$t/out"; }
}

# The calls that the shim saw, and those that tg says it computed. TG_BLAS_VERBOSE's lines go to stderr.
count() {
  env TG_COUNT_FILE="$t/count" TG_BLAS_VERBOSE=1 TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/tests/blas/libcount.so $b/libtg_blas.so" "$python" tests/blas/products.py --one-process > "$t/out" 2> "$t/told"
  seen=$(awk '{ s += $2 } END { print s + 0 }' "$t/count") computed=$(sed -n 's/.*calls, \([0-9]*\) computed by tg$/\1/p' "$t/told" | awk '{ s += $1 } END { print s + 0 }')
  [ "$seen" -gt 500 ] && [ "$seen" = "$computed" ] && ok || wrong "$python: $seen calls, $computed computed by tg"
  grep -q 'first .* computed by tg; below is /' "$t/told" && ok || wrong "$python: TG_BLAS_VERBOSE names no library below: $(cat "$t/told")"
  rm -f "$t/count"
  env LD_DEBUG=bindings LD_DEBUG_OUTPUT="$t/bindings" TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/libtg_blas.so" "$python" tests/blas/products.py --one-process > /dev/null 2>&1
  cat "$t"/bindings* > "$t/all"; rm -f "$t"/bindings*
  sed -n 's/.*binding file \([^ ]*\) .* to \([^ ]*\) .*symbol `\([^'"'"']*\).*/\1 \2 \3/p' "$t/all" > "$t/bound"
  grep -E " $gemm\$" "$t/bound" | awk '$1 != $2' > "$t/gemm"
  grep -q . "$t/gemm" && ! grep -v ' [^ ]*/libtg_blas.so ' "$t/gemm" | grep -v '^[^ ]*/libtg_blas.so ' && ok || wrong "$python: a gemm is bound to another library"
  grep -E ' (scipy_)?(cblas_)?[sd](syrk|gemv|dot)[_0-9]*$' "$t/bound" > "$t/others"
  for r in syrk gemv dot; do grep -q "$r" "$t/others" && ok || wrong "$python: $r is bound nowhere"; done
  grep -q ' [^ ]*/libtg_blas.so ' "$t/others" && wrong "$python: the front has taken what it does not have" || ok
}

tried=
for python in python3 /usr/bin/python3; do
  module=$("$python" -W ignore -c '
try: import numpy._core._multiarray_umath as m
except ImportError: import numpy.core._multiarray_umath as m
print(m.__file__)' 2> /dev/null) || continue
  nm -D --undefined-only "$module" | awk '{ print $2 }' | grep -qxE "$gemm" || continue
  case " $tried " in *" $module "*) continue ;; esac
  tried="$tried $module"
  rm -rf "$t/cache"
  try TG_BLAS_THREADS=3
  n=$(find "$t/cache" -name '*.tgo' 2> /dev/null | wc -l)
  [ "$n" -gt 20 ] && ok || wrong "$python: the cache has $n kernels: NumPy calls another library"
  try TG_BLAS_THREADS=3 OPENBLAS_NUM_THREADS=1
  [ "$(find "$t/cache" -name '*.tgo' | wc -l)" = "$n" ] && ok || wrong "$python: the second process compiled"
  count
done
[ -n "$tried" ] || echo "no NumPy that calls a BLAS under a name that is known (python3-numpy, or PyPI's): its products are not tried"
end
