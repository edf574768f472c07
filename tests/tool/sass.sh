#!/bin/sh
# SPDX-License-Identifier: MIT
# tg show --stage sass: machine code of GPUs where what prints it is installed, and what is said elsewhere.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

# programs that stand for NVIDIA's: what is handed on, and what is done where one fails
cat > "$t/ptxas" <<'X'
#!/bin/sh
echo "$1" > "$(dirname "$0")/arch"
cp "$4" "$3"
X
printf '#!/bin/sh\necho printed "$1"\ngrep -c "^.target" "$2"\n' > "$t/nvdisasm"
printf '#!/bin/sh\necho "it is too much"; exit 1\n' > "$t/fails"
chmod +x "$t/ptxas" "$t/nvdisasm" "$t/fails"
show() { TMPDIR=$t TG_PTXAS=$1 TG_NVDISASM=$2 TG_CUOBJDUMP=$t/none "$b/tg" show examples/matmul.tg M=64 N=64 K=64 --target "$3" --stage sass > "$t/out" 2> "$t/err"; }
show "$t/ptxas" "$t/nvdisasm" sm_80 && [ "$(cat "$t/out")" = "printed -c
1" ] && [ "$(cat "$t/arch")" = "-arch=sm_80" ] && ok || wrong "handed on: $(cat "$t/out" "$t/err")"
show "$t/fails" "$t/nvdisasm" sm_80; [ $? = 3 ] && grep -q "fails failed" "$t/err" && grep -q "it is too much" "$t/err" && [ ! -s "$t/out" ] && ok || wrong "ptxas fails: $(cat "$t/err")"
show "$t/ptxas" "$t/none" sm_80; [ $? = 3 ] && grep -q "needs nvdisasm or cuobjdump" "$t/err" && ok || wrong "no nvdisasm: $(cat "$t/err")"
show "$t/none" "$t/none" sm_80; [ $? = 3 ] && grep -q "needs ptxas, and nvdisasm" "$t/err" && ok || wrong "neither: $(cat "$t/err")"
[ -z "$(find "$t" -name 'tg-sass-*')" ] && ok || wrong "left behind: $(ls "$t")"
show "$t/none" "$t/none" gfx1100 && grep -q "s_endpgm" "$t/out" && ok || wrong "gfx1100: $(cat "$t/err")"
show "$t/none" "$t/none" x86-64-v3; [ $? = 2 ] && grep -q "see --stage asm" "$t/err" && ok || wrong "x86-64-v3: $(cat "$t/err")"
"$b/tg" show examples/matmul.tg --stage sass 2> "$t/err"; [ $? = 2 ] && grep -q "the host" "$t/err" && ok || wrong "the host: $(cat "$t/err")"

# the real ones
"$b/tg" show examples/matmul.tg M=64 N=64 K=64 --target sm_80 --stage sass > "$t/out" 2> "$t/err"
case $? in
0) grep -q "EXIT" "$t/out" && ok || wrong "no EXIT in the machine code" ;;
3) grep -q "needs" "$t/err" && echo "sass: $(head -c 80 "$t/err")..: skipped" || wrong "$(cat "$t/err")" ;;
*) wrong "sass: $(cat "$t/err")" ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
