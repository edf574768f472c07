#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels of C files in tg show, run and tune: the text of TG_KERNEL as a program would have it; comments, strings and other definitions around it; what is C and no text
# of tg's is an error at its line of the C file.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

# Kernels of the examples without C in their bodies are right.
for k in matmul.c:matmul,M=20,N=30,K=10 matmul.c,M=20,N=30,K=10 threads.c:softmax,R=5,D=16 flash.c:flash,H=1,T=20,D=16 carry.c:decode,H=1,T=20,D=16 schedule.c:matmul,M=64,N=64,K=16; do
  "$b/tg" run examples/$(echo $k | tr , ' ') --check > "$t/out" 2>&1 && grep -q ': right' "$t/out" && ok || wrong "$k: $(head -n 5 "$t/out")"
done

cat > "$t/mine.c" << 'C'
#define KERNEL(name) TG_KERNEL(name, N) \
  { tg_in(x, f32, [N]); }
#include <tg/dsl.h>
/* TG_KERNEL(not_this, N) { it is a comment } */
static const char *text = "TG_KERNEL(nor_this, N) { \" }";   // TG_KERNEL(nor, N) {
static const char quote = '"';
TG_PROC(twice, dst, src, i) { tg(dst[i] = src[i] * 2); }
TG_KERNEL(first, N) {
  tg_in (x, f32, [N]);  /* a comment with ) and
                           two lines */
  tg_out(y, f32, [N]);
  tg_let(one, 1); tg_let(scale, factor());
  tg_range(i, N) tg(y[i] = x[i] * 3   // )
                     + one * 1.0f);
}
int factor(void) { return 7; }
TG_KERNEL(second, N) {
  tg_in(x, f32, [N]); tg_out(y, f32, [N]);
  tg_range(i, N) { tg_call(twice, y, x, i); }
}
TG_KERNEL(third, N) {
  tg_out(y, f32, [N]);
  for (int u = 0; u < 2; u++) tg_range(i, N) tg(y[i] = 0);
}
TG_KERNEL(fourth, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4)
    tg(y[i] = z[i]);
}
C
"$b/tg" run "$t/mine.c:second" N=9 --check > "$t/out" 2>&1 && grep -q 'y: right' "$t/out" && ok || wrong "second: $(cat "$t/out")"
"$b/tg" run "$t/mine.c:first" N=9 scale=7 --check > "$t/out" 2>&1 && grep -q 'y: right' "$t/out" && ok || wrong "first: $(cat "$t/out")"
"$b/tg" show "$t/mine.c" N=9 scale=7 --stage author > "$t/out" 2>&1 && grep -q 'y\[i\] = x\[i\] \* 3' "$t/out" && ok || wrong "the first one: $(cat "$t/out")"
says() {   # words of the message, arguments
  want=$1; shift
  "$b/tg" show "$@" > "$t/out" 2>&1; [ $? = 1 ] && grep -qF -- "$want" "$t/out" && ok || wrong "tg show $*: '$(cat "$t/out")' instead of '$want'"
}
says "mine.c:12: error: tg_let(scale, factor()) takes a value that only the C program has: give it as scale=NUMBER" "$t/mine.c:first" N=9
says "mine.c:23: error: 'for' is C, and the tool does not run the bodies of kernels" "$t/mine.c:third" N=9
says "mine.c:28:15: error: unknown name 'z'" "$t/mine.c:fourth"
says "no kernel is named 'fifth'; there are first, second, third, fourth" "$t/mine.c:fifth" N=9
says "no kernel is named 'fifth'" "$t/mine.c" --kernel fifth N=9
says "matmul has no parameter or knob 'Q'" examples/matmul.c M=2 N=2 K=2 Q=2
echo 'int main(void) { return 0; }' > "$t/none.c"
says "none.c: there is no TG_KERNEL(name, ..)" "$t/none.c"
printf 'TG_KERNEL(open, N) {\n  tg_out(y, f32, [N]);\n' > "$t/open.c"
says "open.c:1: error: the body of open is not closed" "$t/open.c"
printf 'TG_KERNEL(half, N) {\n  tg_out(y, f32, [N];\n}\n' > "$t/half.c"
says "half.c:" "$t/half.c" N=4
"$b/tg" tune "$t/mine.c:second" N=4096 --budget 2 --tuned "$t/tuned" > "$t/out" 2>&1 && grep -q '^second: ' "$t/out" && ok || wrong "tg tune: $(tail -n 4 "$t/out")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
