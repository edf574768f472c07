#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs that people compute with, over libtg_blas.so: R and Octave, where they are installed. Their products must be right and computed by tg, as TG_BLAS_VERBOSE counts them.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0 tried=
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=$(cd "${BUILD:-build}" && pwd) t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

try() {   # least calls of products, command
  least=$1; shift
  command -v "$1" > /dev/null || { echo "skipped: there is no $1"; return; }
  tried=1
  env TG_BLAS_THREADS=3 TG_BLAS_VERBOSE=1 TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/libtg_blas.so" timeout 300 "$@" > "$t/out" 2> "$t/told"
  status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$t/out" | tail -n 1)
  [ -n "$line" ] || line="0 passed, 1 failed"
  p=${line%% *} f=${line#*, }
  passed=$((passed + p)) failed=$((failed + ${f%% *}))
  [ "$status" = 0 ] && [ "$p" -gt 0 ] && ok || { wrong "$1: exit status $status"; head -n 20 "$t/out" "$t/told"; }
  calls=$(sed -n 's/.* \([0-9]*\) calls, [0-9]* computed by tg$/\1/p' "$t/told" | awk '{ s += $1 } END { print s + 0 }')
  computed=$(sed -n 's/.* calls, \([0-9]*\) computed by tg$/\1/p' "$t/told" | awk '{ s += $1 } END { print s + 0 }')
  [ "$calls" -ge "$least" ] && [ "$calls" = "$computed" ] && ok || wrong "$1: $calls calls, $computed computed by tg: $(tail -n 5 "$t/told")"
}

try 18 Rscript --vanilla tests/clients/products.R
try 60 octave-cli --norc --quiet tests/clients/products.m
[ -n "$tried" ] || exit 77
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
