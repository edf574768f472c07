#!/bin/sh
# SPDX-License-Identifier: MIT
# tg show --sketch: the text of every sketch of products parses again, in all layouts that it is for, and lowers; and the lines of docs/tuning.md that go on from one
# do what they say.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=$(cd "${BUILD:-build}" && pwd) passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

parses() {   # file, what: its own sizes
  # shellcheck disable=SC2046
  "$b/tg" show "$1" $(sed -n 's|^// Sizes, for example:||p' "$1") --stage author > "$t/out" 2>&1 && grep -q '^kernel my_' "$t/out" && ok || wrong "$2: $(head -n 5 "$t/out")"
}
for f in kernels/gemm/sketches/*.c; do
  s=$(basename "$f" .c)
  "$b/tg" show --sketch "$s" > "$t/s.tg" 2> "$t/err" && ok || wrong "$s: $(cat "$t/err")"
  parses "$t/s.tg" "$s"
  for l in NT TN TT; do
    "$b/tg" show --sketch "$s" --transposes $l M=100 N=72 K=96 > "$t/s.tg" 2> "$t/err" || { wrong "$s $l: $(cat "$t/err")"; continue; }
    parses "$t/s.tg" "$s $l"
  done
done
# what floats are made with is legal as it stands
for s in plain direct panel packed stream dot; do
  "$b/tg" show --sketch $s M=100 N=72 K=96 > "$t/s.tg"
  "$b/tg" show "$t/s.tg" M=100 N=72 K=96 lda=96 ldb=72 ldc=72 --stage linear > /dev/null 2> "$t/err" && ok || wrong "$s: $(head -n 3 "$t/err")"
done
says() {   # words of the message, arguments
  want=$1; shift
  "$b/tg" show "$@" > "$t/out" 2>&1; [ $? = 2 ] && grep -q -- "$want" "$t/out" && ok || wrong "tg show $*: $(cat "$t/out")"
}
says "no 'pack'; there are grouped, weights" --sketch pack
says "no types 'f33'" --sketch packed --types f33
says "NN, NT, TN or TT" --sketch packed --transposes NX
says "'L=3'" --sketch packed L=3
says "no target 'pdp-11'" --sketch packed --target pdp-11
says "weights is for other products than f32" --sketch weights --types f32
says "no file is wanted" --sketch packed mine.tg
"$b/tg" tune attention H=1 T=8 N=8 D=16 --with mine.tg > "$t/out" 2>&1; [ $? = 2 ] && ok || wrong "tg tune attention --with: $(cat "$t/out")"
"$b/tg" tune gemm M=8 N=8 K=8 --with "$t/none.tg" > "$t/out" 2>&1; [ $? = 1 ] && grep -q 'none.tg: No such file' "$t/out" && ok || wrong "--with a file that is not there: $(cat "$t/out")"

# The lines of the page, as they stand there.
awk '/^## / { on = 0 } /^## A kernel of your own/ { on = 1 } on && /^```/ { code = !code; next } on && code' docs/tuning.md > "$t/lines"
[ "$(grep -c '^tg ' "$t/lines")" -ge 4 ] && ok || wrong "docs/tuning.md has no such lines: $(cat "$t/lines")"
mkdir "$t/home"
(cd "$t/home" && PATH="$b:$PATH" XDG_DATA_HOME="$t/home/data" && export PATH XDG_DATA_HOME && unset TG_TUNED && mkdir -p data/tg/tuned && sh -eu ../lines) > "$t/out" 2>&1 && ok || wrong "the lines fail: $(tail -n 5 "$t/out")"
grep -q ' s  my_packed ' "$t/out" && ok || wrong "mine is not among the candidates: $(grep ' s  ' "$t/out" | head -n 3)"
grep -q 'split i 60 clip' "$t/home/mine.tg" && ok || wrong "the change is not in mine.tg"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
