#!/bin/sh
# SPDX-License-Identifier: MIT
# tg run --time --cost: the model's lines are those of tg show --cost, its sum stands beside what was measured, and what makes no sense is refused.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

for f in examples/conv.tg examples/spmv.tg; do
  sizes=$(sed -n 's|^// check: ||p' "$f")
  # shellcheck disable=SC2086
  "$b/tg" run "$f" $sizes --time --seconds 0.01 --cost > "$t/run" 2>&1 && ok || wrong "$f: $(tail -n 3 "$t/run")"
  # shellcheck disable=SC2086
  "$b/tg" show "$f" $sizes --cost > "$t/show" || wrong "$f: tg show"
  # loops and accesses are the same ones: their first columns, whatever the number of threads that the cost is of
  names() { awk '/^loop / { on = 1 } /^the model/ { on = 0 } on { print $1, $2 }' "$1" | sed 's/ [0-9.]*$//'; }
  names "$t/run" > "$t/a"; names "$t/show" > "$t/b"
  [ "$(wc -l < "$t/a")" -gt 4 ] && cmp -s "$t/a" "$t/b" && ok || wrong "$f: other lines than tg show --cost: $(diff "$t/a" "$t/b" | head -n 5)"
  awk '/^the model / { m = $3 } /^measured / { t = $2; r = $4 } END { d = t / m / r; exit !(m > 0 && t > 0 && d > 0.98 && d < 1.02) }' "$t/run" && ok || wrong "$f: $(grep -E '^(the model|measured)' "$t/run")"
done
"$b/tg" run examples/conv.tg --cost > "$t/run" 2>&1; [ $? = 2 ] && grep -q 'tg show --cost' "$t/run" && ok || wrong "--cost alone: $(cat "$t/run")"
"$b/tg" run examples/conv.tg --time --cost --json > "$t/run" 2>&1; [ $? = 2 ] && ok || wrong "--cost for programs: $(cat "$t/run")"

# of GPUs: the loop's matrix instructions and the bytes of its accesses are those of the text, and a target of texts has none
for row in sm_80 gfx1100 gfx90a; do
  "$b/tg" show tests/ptx/gpu/matmul_f16_nt.tg M=4096 N=4096 K=4096 --target $row --cost > "$t/show" 2>&1 && ok || wrong "$row: $(cat "$t/show")"
  head -n 1 "$t/show" | grep -q "us at least on $row (.*bound by " && ok || wrong "$row: $(head -n 1 "$t/show")"
  awk '$1 == "matrix" && $5 == "of" { c = $3 } /^loop / { on = 1; next } /^access / { on = 0 } on { m += $2 * $4 } END { exit !(m > 0 && c > 0) }' "$t/show" && ok || wrong "$row: $(cat "$t/show")"
  [ "$(grep -c '^load  [AB] ' "$t/show")" = 2 ] && ok || wrong "$row: A and B are not read once each: $(grep '^load' "$t/show")"
done
# accumulators of 128 registers, and fragments: not their copies of both sides of the loop
room() { sed -n 's/^  about \([0-9]*\) registers a thread: a core has room for \([0-9]*\) of its groups at once$/\1 \2/p' "$t/show"; }
"$b/tg" show tests/ptx/gpu/matmul_f16_nt.tg M=4096 N=4096 K=4096 --target sm_80 --cost > "$t/show" 2>&1
room | awk '{ r = $1; g = $2 } END { exit !(r >= 160 && r <= 256 && g == 2) }' && ok || wrong "registers: $(room)"
"$b/tg" show tests/ptx/gpu/axpy.tg --target sm_80 --cost > "$t/show" 2>&1
room | awk '{ r = $1; g = $2 } END { exit !(r >= 8 && r <= 40 && g >= 6) }' && ok || wrong "registers: $(room)"
awk '$1 == "store" && $2 == "y" && $4 == 4 && $5 == "4.0" && $6 == "sectors" { y = 1 } END { exit !y }' "$t/show" && ok || wrong "axpy stores y by 4 sectors a warp: $(cat "$t/show")"

# parts of sums that one launch leaves to the next are in memory: no core has as much LOCAL memory
cat > "$t/parts.tg" << 'END'
kernel parts(M = 2048, K = 2048) {
  in(x, f32, [M, K]); in(y, f32, [M, K]); out(g, f32, [M, M]);
  range(i, M) range(j, M) g[i,j] = sum(k : K, x[i,k] * y[j,k]);
}
END
"$b/tg" show "$t/parts.tg" --target sm_80 --cost > "$t/show" 2>&1
awk '/ 2 launches, / { for (i = 2; i < NF; i++) if ($(i + 1) == "of" && $i == "bytes") l = $(i - 1) } $1 == "store" && $2 == "g.parts" && $6 == "sectors" { s = 1 }
     END { exit !(l > 0 && l < 170000 && s) }' "$t/show" && ok || wrong "parts are taken for LOCAL memory: $(cat "$t/show")"

# no word divides this among threads: it takes as long on two
cat > "$t/alone.tg" << 'END'
kernel alone(N) {
  in(x, f32, [N]);
  out(y, f32, [N]);
  range(i, N) y[i] = x[i] + 1.0;
  opt(split i 16 as io il);
  opt(lane il);
}
END
for n in 1 2; do
  "$b/tg" run "$t/alone.tg" N=4194304 --time --seconds 0.001 --cost --threads $n > "$t/run" 2>&1
  sed -n 's/^the model *//p' "$t/run" > "$t/on$n"
done
[ -s "$t/on1" ] && cmp -s "$t/on1" "$t/on2" && ok || wrong "on one thread $(cat "$t/on1"), on two $(cat "$t/on2")"

# strips of columns: each of their rows lies half a page behind the one before. Of 8192 pages, more than are at hand,
# each tile of rows looks up all anew: that takes more than eight times as long as of 1024
cat > "$t/strips.tg" << 'END'
kernel strips(M, N, K) {
  in(A, f32, [M, K]);
  in(B, f32, [K, N]);
  out(C, f32, [M, N]);
  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]);
  opt(order j i);
  opt(split j 16 as ct cv);
  opt(order i cv);
  opt(split cv 8 as cu cl);
  opt(split i 5 as ir iu);
  opt(upcast iu);
  opt(upcast cu);
  opt(lane cl);
  opt(split k 8 as ko ku);
  opt(unroll ku);
}
END
memory() { "$b/tg" show "$t/strips.tg" M=50 N=512 K="$1" --target znver5 --cost | sed -n '1s/.*cycles, memory \([0-9.e+]*\) cycles.*/\1/p'; }
few=$(memory 2048) many=$(memory 16384)
awk "BEGIN { exit !($few > 0 && $many > 20 * $few) }" && ok || wrong "strips: memory takes $many cycles in 8192 pages, and $few in 1024"
# blocks of blocks, of which the last are short: each row is counted once (two groups of four blocks and one, the last of 47 rows)
cat > "$t/blocks.tg" << 'END'
kernel blocks(M) {
  in(x, f32, [64]);
  out(y, f32, [2]);
  range(g, 2) y[g] = sum(c : (min(M - g * 192, 192) + 47) / 48, sum(i : max(min(min(M - g * 192, 192) - c * 48, 48), 0), x[i]));
}
END
"$b/tg" show "$t/blocks.tg" M=239 --target znver3 --cost > "$t/show" 2>&1
awk '$1 == "c" && $2 == 5 { c = 1 } $1 == "i" && $2 == 239 { i = 1 } END { exit !(c && i) }' "$t/show" && ok || wrong "blocks of 239 rows: $(cat "$t/show")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
