#!/bin/sh
# SPDX-License-Identifier: MIT
# GEMM's inner loop as machine code for rows of machines.def, whatever machine this is: on AArch64 the share of multiply-adds, and that nothing is spilled; and
# for named processors a second opinion on its cycles, llvm-mca's, which the cost model's are within a factor of.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
FACTOR=1.5   # the largest seen is 1.47: znver4 with its measured row; why is not known
SHARE=0.85   # least part of multiply-adds on AArch64 (seen: 0.885, a tile of 12 x 8)

# llvm-mca of the newest LLVM that there is.
mca=
for m in $(ls /usr/bin/llvm-mca-[0-9]* 2>/dev/null | sort -t- -k3 -n) llvm-mca; do
  [ -n "$mca" ] && [ "$m" = llvm-mca ] || ! command -v "$m" > /dev/null || mca=$m
done

size=512
loop_of() {   # target: the loop in $t/loop, what the model says of it in $cycles
  "$b/tg" show --sketch packed --target "$1" M=$size N=$size K=$size > "$t/g.tg" &&
  "$b/tg" show "$t/g.tg" M=$size N=$size K=$size lda=$size ldb=$size ldc=$size --target "$1" --stage asm > "$t/g.s" &&
  awk -f tests/tool/loop.awk "$t/g.s" > "$t/loop" &&
  cycles=$("$b/tg" show "$t/g.tg" M=$size N=$size K=$size lda=$size ldb=$size ldc=$size --target "$1" --cost |
    awk '/^access/ { exit } /^ .*%/ && $4 + 0 > most { most = $4 + 0; c = $3 } END { print c }')
}

for target in armv8-a neoverse-n1 neoverse-v1 neoverse-v2; do
  loop_of $target && ok || { wrong "$target: no loop"; continue; }
  head -n 1 "$t/loop" | awk -v least=$SHARE '{ exit $1 / $2 < least }' && ok || wrong "$target: of so many multiply-adds in all: $(head -n 1 "$t/loop")"
  ! grep -q '\[sp' "$t/loop" && ok || wrong "$target: spilled in the loop: $(grep -m 1 '\[sp' "$t/loop")"
done

# A tile that takes all registers, six terms in a row, each with addresses of its own: no vector waits in memory (docs/llvm.md).
cat > "$t/rounds.tg" << 'END'
kernel rounds(M = 4, N = 24, K = 811, lda in 1..2147483648, ldb in 1..2147483648) {
  in(A, f32, [M, K], [1, lda]);
  in(B, f32, [K, N], [ldb, 1]);
  out(C, f32, [M, N]);
  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]);
  opt(split k {6, 1} as ko ku);
  opt(unroll ku);
  opt(split j 24 as ct cv);
  opt(order ct i cv);
  opt(split cv 8 as cu cl);
  opt(upcast i);
  opt(upcast cu);
  opt(lane cl);
}
END
for target in x86-64-v3 znver4; do
  "$b/tg" show "$t/rounds.tg" --target $target --stage asm > "$t/g.s" && awk -f tests/tool/loop.awk "$t/g.s" > "$t/loop" &&
    [ "$(head -n 1 "$t/loop" | cut -d' ' -f1)" = 72 ] && ok || { wrong "$target: no loop of six terms"; continue; }
  ! grep -q '(%rsp)' "$t/loop" && ok || wrong "$target: $(grep -c '(%rsp)' "$t/loop") vectors of six terms wait in memory: $(grep -m 1 '(%rsp)' "$t/loop")"
done
# of vectors wider than inline assembly takes them, it compiles as well
"$b/tg" show "$t/rounds.tg" --target neoverse-v1 --stage asm > "$t/g.s" 2>&1 && grep -q fmla "$t/g.s" && ok || wrong "neoverse-v1: six terms: $(head -n 1 "$t/g.s")"

if [ -z "$mca" ]; then echo "skipped: cycles by ports, since there is no llvm-mca (Debian's package llvm)"
else
  for target in znver3 znver4 skylake-avx512 neoverse-n1 neoverse-v1 neoverse-v2; do
    loop_of $target || { wrong "$target: no loop"; continue; }
    case $target in neoverse*) triple=aarch64 ;; *) triple=x86_64 ;; esac
    sed 1d "$t/loop" | grep -v '\.L' > "$t/body"
    if ! "$mca" -mtriple=$triple -mcpu=$target -iterations=200 "$t/body" > "$t/mca" 2>&1; then
      echo "skipped: $target, which $mca does not know: $(head -n 1 "$t/mca")"; continue
    fi
    awk -v model="$cycles" -v factor=$FACTOR '/^Total Cycles/ { m = $3 / 200 } END { r = m / model; exit !(model > 0 && r < factor && 1 / r < factor) }' "$t/mca" && ok ||
      wrong "$target: $cycles cycles by the model, $(awk '/^Total Cycles/ { print $3 / 200 }' "$t/mca") by llvm-mca"
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
