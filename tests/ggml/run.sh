#!/bin/sh
# SPDX-License-Identifier: MIT
# The back end of ggml, where ggml's sources are: it is built, exports one function, and passes ggml's own tests of the operations that it has.
#   TG_GGML       the folder of ggml's sources (include/ggml.h, src/ggml-impl.h)
#   TG_GGML_OPS   ggml's program test-backend-ops, built from these sources with GGML_BACKEND_DL=ON; not set: the module is only built
#   sh tests/ggml/run.sh [OPERATION ...]      by default those whose tests take seconds
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
[ -n "${TG_GGML:-}" ] || { echo "skipped: TG_GGML does not name ggml's sources"; exit 77; }
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
end() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ]; exit; }

sh kernels/ggml/build.sh "$t/libggml-tg.so" > "$t/out" 2>&1 && ok || { wrong "the module cannot be built: $(head -n 20 "$t/out")"; end; }
names=$(nm -D --defined-only "$t/libggml-tg.so" | awk '{ print $3 }')
[ "$names" = ggml_backend_init ] && ok || wrong "libggml-tg.so exports other names: $names"
[ -n "${TG_GGML_OPS:-}" ] || { echo "TG_GGML_OPS does not name test-backend-ops: the module is only built"; end; }

ops=$(cd "$(dirname "$TG_GGML_OPS")" && pwd)
for o in ${*:-NORM RMS_NORM SOFT_MAX SWIGLU GEGLU_ERF GELU ADD}; do
  (cd "$ops" && GGML_BACKEND_PATH="$t/libggml-tg.so" TG_GGML_CACHE="$t/cache" LD_LIBRARY_PATH="$ops" timeout 3000 "./$(basename "$TG_GGML_OPS")" test -b TG -o "$o") > "$t/out" 2>&1
  status=$?
  line=$(grep -a -E '^ *[0-9]+/[0-9]+ tests passed' "$t/out" | tail -n 1 | tr -d ' ')
  p=${line%%/*} all=${line#*/} all=${all%%t*}
  if [ "$status" = 0 ] && [ "${p:-0}" -gt 0 ] && [ "$p" = "$all" ]; then passed=$((passed + p))
  else wrong "$o: ${line:-no tests} (exit status $status)"; grep -a FAIL "$t/out" | head -n 5; fi
  echo "$o: $line, not supported: $(grep -a -c 'not supported \[TG\]' "$t/out")"
done
end
