#!/bin/sh
# SPDX-License-Identifier: MIT
# Benchmarks of operations compute what they time, and verify it: one short case of each, of which no time is looked at. And what they refuse.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
figures() { grep -c "\"case\": *\"$1[^\"]*1 thread\".*\"unit\": *\"$2\"" "$t/out"; }

printf 'prefill 2 4 2 50 70 40 causal f32\nprefill 1 2 2 33 33 64 full bf16\ndecode 1 2 2 1 64 64 causal f32\n' > "$t/shapes"
"$b/tg" bench attention --backward --shapes "$t/shapes" --seconds 0.01 --json > "$t/out" 2>&1 && ok || wrong "attention --backward: $(tail -n 3 "$t/out")"
for case in "gradients B2 H4 KV2 T50 N70 D40 causal f32" "gradients B1 H2 T33 D64 full bf16"; do
  [ "$(figures "$case" GFLOP/s)" -gt 0 ] && [ "$(figures "$case" ratio)" -gt 0 ] && ok || wrong "no figures of '$case'"
done
grep -q decode "$t/out" && wrong "attention --backward has a case of decode" || ok
"$b/tg" bench attention --backward --shapes "$t/shapes" --case decode > "$t/out" 2>&1; [ $? = 2 ] && grep -q "no case contains 'decode'" "$t/out" && ok || wrong "a case that is not there: $(tail -n 1 "$t/out")"

# points of products: a stage that there is, and times of this machine alone (no machine runs the code of both rows)
printf 'gemm f32 64 96 80 NT | gemm_direct VL=8 NU=3 MR=4 UK=8 ROWS=0 SUMS=1 | 11.76 us\n' > "$t/points"
"$b/tg" bench model --sweep "$t/points" --stage frist > "$t/out" 2>&1; [ $? = 2 ] && grep -q "no stage 'frist'" "$t/out" && ok || wrong "a stage that is not there: $(tail -n 1 "$t/out")"
for stage in again first confirm; do
  refused=0
  for row in neoverse-n1 znver5; do
    "$b/tg" bench model --sweep "$t/points" --target $row --stage $stage > "$t/out" 2>&1; [ $? = 2 ] && grep -q 'cannot run code' "$t/out" && refused=1
  done
  [ $refused = 1 ] && ok || wrong "--stage $stage times what does not run here: $(tail -n 1 "$t/out")"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
