#!/bin/sh
# SPDX-License-Identifier: MIT
# LAPACK's own test programs and HPL (of the HPC Challenge benchmark) over libtg_blas.so, where they are installed (in Debian: liblapack-test, hpcc).
# Each of LAPACK's tests must pass its threshold (or fail without tg, too), HPL's residual its own, and every product that reaches the front must be computed by tg.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0 tried=
ok() { passed=$((passed + ${1:-1})); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=$(cd "${BUILD:-build}" && pwd) t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

over() {   # least calls of products, command; runs in $t
  least=$1; shift
  (cd "$t" && env TG_BLAS_THREADS=2 TG_BLAS_VERBOSE=1 TG_BLAS_CACHE="$t/cache" LD_PRELOAD="$b/libtg_blas.so" timeout 600 "$@" > out 2> told)
  status=$?
  [ "$status" = 0 ] && ok || wrong "$1: exit status $status"
  calls=$(sed -n 's/.* \([0-9]*\) calls, [0-9]* computed by tg$/\1/p' "$t/told" | awk '{ s += $1 } END { print s + 0 }')
  computed=$(sed -n 's/.* calls, \([0-9]*\) computed by tg$/\1/p' "$t/told" | awk '{ s += $1 } END { print s + 0 }')
  [ "$calls" -ge "$least" ] && [ "$calls" = "$computed" ] && ok || wrong "$1: $calls calls, $computed computed by tg: $(tail -n 5 "$t/told")"
}

lapack() {   # least calls, program, its input
  tried=1
  cp "$where/$3" "$t/input"
  over "$1" sh -c "'$where/$2' < input"
  n=$(sed -n 's/.*passed the threshold *( *\([0-9]*\) tests run).*/\1/p' "$t/out" | awk '{ s += $1 } END { print s + 0 }')
  [ "$n" -gt 1000 ] && ok "$n" || wrong "$2 < $3: $n tests"
  grep -E 'failed to pass|did not pass|failed the tests|\*\*\*' "$t/out" > "$t/bad"
  if [ -s "$t/bad" ]; then   # the same without tg are LAPACK's, or the compiler's that it was built with
    (cd "$t" && timeout 600 "$where/$2" < input > plain 2> /dev/null)
    grep -E 'failed to pass|did not pass|failed the tests|\*\*\*' "$t/plain" | cmp -s - "$t/bad" && echo "$2 < $3: with and without tg: $(cat "$t/bad")" || wrong "$2 < $3: $(head -n 5 "$t/bad")"
  fi
  grep -q 'End of tests' "$t/out" && ok || wrong "$2 < $3 does not end"
}

where=
for f in /usr/lib/*/lapack; do [ -x "$f/xlintstd" ] && where=$f; done
if [ -n "$where" ]; then
  lapack 100000 xlintsts stest.in
  lapack 100000 xlintstd dtest.in
  for f in nep sep svd; do lapack 1000 xeigtsts $f.in; lapack 1000 xeigtstd $f.in; done
else echo "skipped: LAPACK's test programs are not installed"
fi

example=/usr/share/doc/hpcc/examples/_hpccinf.txt
if command -v hpcc > /dev/null && [ -f "$example" ]; then
  tried=1
  sed 's/^1000         Ns/600          Ns/; s/^2            Ps/1            Ps/; s/^2            Qs/1            Qs/' "$example" > "$t/hpccinf.txt"
  over 100 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 hpcc
  n=$(grep -c '^||Ax-b||.*PASSED' "$t/hpccoutf.txt") && ok "$n" || wrong "HPL: no residual has passed"
  if grep FAILED "$t/hpccoutf.txt" > "$t/bad"; then wrong "hpcc: $(head -n 5 "$t/bad")"; fi
else echo "skipped: there is no hpcc"
fi
[ -n "$tried" ] || exit 77
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
