#!/bin/sh
# SPDX-License-Identifier: MIT
# tg build: an object and a header that C and C++ programs use with nothing of tg, also for AArch64 under qemu; what is refused. tg pack: folders as
# one file, without what is damaged.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
is() { what=$1; shift; if "$@" > "$t/out" 2>&1; then ok; else wrong "$what: $(head -n 5 "$t/out")"; fi; }
says() { grep -q "$2" "$t/out" && ok || wrong "$1: no '$2' in: $(head -n 3 "$t/out")"; }
tg=${BUILD:-build}/tg t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export TG_TUNED=

is "build" "$tg" build examples/matmul.tg M=1..4096 N=512 K=512 -o "$t/k.o" --header "$t/k.h"
[ "$(nm -g --defined-only "$t/k.o" | wc -l)" = 1 ] && ok || wrong "more symbols than one: $(nm -g "$t/k.o")"
bad=$(nm -u "$t/k.o" | awk '{ print $2 }' | grep -vxE 'malloc|free' | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "it calls $bad"
[ "$(wc -c < "$t/k.o")" -le 200000 ] && ok || wrong "$(wc -c < "$t/k.o") bytes"
for c in "gcc -std=c11 -pedantic -Wall -Wextra -Werror" "g++ -std=c++17 -x c++ -Wall -Wextra -Werror"; do
  # shellcheck disable=SC2086
  is "$c" $c -I"$t" -c tests/tool/built.c -o "$t/built.o"
  is "link" gcc "$t/built.o" "$t/k.o" -o "$t/built" -lpthread
  is "run" env -i "$t/built"
  says "the result" '^0 wrong, dealt [1-4] times'
  says "few bytes" "'A' has too few bytes"
  says "many rows" 'M is not within 1..4096'
done
ldd "$t/built" | grep -qE 'LLVM|libtg' && wrong "it needs $(ldd "$t/built")" || ok
# the same bytes again, from the same text
is "again" "$tg" build examples/matmul.tg M=1..4096 N=512 K=512 -o "$t/again.o" --header "$t/again.h"
cmp -s "$t/k.o" "$t/again.o" && ok || wrong "the object differs from one build to the next"
if command -v qemu-aarch64 > /dev/null && command -v aarch64-linux-gnu-gcc > /dev/null; then
  is "for AArch64" "$tg" build examples/matmul.tg M=1..4096 N=512 K=512 --target armv8-a,neoverse-n1,neoverse-v1 -o "$t/k.o" --header "$t/k.h"
  is "link for AArch64" aarch64-linux-gnu-gcc -std=gnu11 -static -I"$t" tests/tool/built.c "$t/k.o" -o "$t/arm" -lpthread
  for cpu in cortex-a57 neoverse-n1 max; do
    qemu-aarch64 -cpu $cpu true 2>&1 | grep -q 'unable to find CPU' && continue
    is "run on $cpu" qemu-aarch64 -cpu $cpu "$t/arm"
    says "the result on $cpu" '^0 wrong, dealt [1-4] times'
  done
fi
# for devices, as data beside the function
is "for devices" "$tg" build examples/matmul.tg M=1..4096 N=512 K=512 --target x86-64-v3,sm_80,gfx1100,opencl -o "$t/d.o" --header "$t/d.h"
cat > "$t/d.c" <<'EOF'
#include <string.h>
#include "d.h"
int main(void) {
  /* phases of versions for other sizes have no groups */
  int64_t g[3], threads = 0, local = 0, many = 0, one = 0, other = 0;
  for (int p = 0; p < matmul_sm_80_phases; p++) {
    matmul_sm_80_geometry(p, 4096, g, &threads, &local), many += g[0] * g[1] * g[2];
    if (threads < 32 || threads % 32) return 1;
    matmul_sm_80_geometry(p, 1, g, &threads, &local), one += g[0] * g[1] * g[2];
  }
  if (many <= one || one < 1) return 1;
  for (int p = 0; p < matmul_gfx1100_phases; p++) matmul_gfx1100_geometry(p, 4096, g, &threads, &local), other += g[0] * g[1] * g[2];
  if (other < 2 || threads < 32) return 2;
  if (memcmp(matmul_gfx1100 + matmul_gfx1100_code, "\177ELF", 4)) return 3;
  const char *ptx = (const char *)matmul_sm_80 + matmul_sm_80_code, *cl = (const char *)matmul_opencl + matmul_opencl_code;
  if (strlen(ptx) + 1 != matmul_sm_80_code_bytes || !strstr(ptx, ".target sm_80") || !strstr(ptx, "matmul_0")) return 4;
  return strlen(cl) + 1 != matmul_opencl_code_bytes || !strstr(cl, "__kernel");
}
EOF
for c in "gcc -std=c11 -pedantic -Wall -Wextra -Werror" "g++ -std=c++17 -x c++ -Wall -Wextra -Werror"; do
  # shellcheck disable=SC2086
  is "for devices, $c" $c -I"$t" -c "$t/d.c" -o "$t/built.o"
  is "for devices, link" gcc "$t/built.o" "$t/d.o" -o "$t/built"
  is "for devices, run" "$t/built"
done
# plans of products: a function a line, with nothing that they call
printf 'up 1..70 96 128 NN packed bias:f32:column epilogue=max(acc + bias, 0)  # a layer\n\nsmall 4 6 5\n' > "$t/shapes"
is "plans" "$tg" build gemm --shapes "$t/shapes" --threads 2 -o "$t/plans.o" --header "$t/plans.h"
says "plans" "2 functions: up, small"
[ "$(wc -c < "$t/plans.o")" -le 200000 ] && ok || wrong "plans: $(wc -c < "$t/plans.o") bytes"
[ -z "$(nm -u "$t/plans.o")" ] && ok || wrong "plans call $(nm -u "$t/plans.o")"
[ "$(nm -g --defined-only "$t/plans.o" | awk '{ print $3 }' | sort | tr '\n' ' ')" = "small small_workspace up up_pack up_workspace " ] && ok || wrong "plans define $(nm -g "$t/plans.o")"
for c in "gcc -std=c11 -pedantic -Wall -Wextra -Werror" "g++ -std=c++17 -x c++ -Wall -Wextra -Werror"; do
  # shellcheck disable=SC2086
  is "plans, $c" $c -I"$t" -c tests/tool/built_plans.c -o "$t/built.o"
  is "plans, link" gcc "$t/built.o" "$t/plans.o" -o "$t/plans"
  is "plans, run" env -i "$t/plans"
  says "plans" '^0 wrong; M is not within 1..70.*; .C. has too few bytes'
done
if command -v qemu-aarch64 > /dev/null && command -v aarch64-linux-gnu-gcc > /dev/null; then
  is "plans for AArch64" "$tg" build gemm --shapes "$t/shapes" --threads 2 --target armv8-a,neoverse-v1 -o "$t/plans.o" --header "$t/plans.h"
  is "plans, link for AArch64" aarch64-linux-gnu-gcc -std=gnu11 -static -I"$t" tests/tool/built_plans.c "$t/plans.o" -o "$t/arm"
  for cpu in cortex-a57 max; do
    is "plans, run on $cpu" qemu-aarch64 -cpu $cpu "$t/arm"
    says "plans on $cpu" '^0 wrong; M is not within 1..70'
  done
fi
printf 'attend queries=1..64 keys=1..512 head=32 heads=4 kv_heads=2 causal lse\n' > "$t/shapes"
is "attention" "$tg" build attention --shapes "$t/shapes" --target x86-64-v3 -o "$t/attend.o" --header "$t/attend.h"
says "attention" "one function: attend"
grep -q 'attend_merge(const float \*first,' "$t/attend.h" && ok || wrong "the header of a merge: $(cat "$t/attend.h")"
[ -z "$(nm -u "$t/attend.o")" ] && ok || wrong "attention calls $(nm -u "$t/attend.o")"
printf '#include "attend.h"\n' > "$t/attend.c"
is "the header of attention" gcc -std=c11 -pedantic -Wall -Wextra -Werror -I"$t" -c "$t/attend.c" -o "$t/x.attend"
refused() { says=$1; shift; "$tg" build "$@" > "$t/out" 2>&1 && wrong "not refused: $*" || says "$*" "$says"; }
printf '%s\n' 'paged queries=1 keys=1..64 head=32 heads=4 kv_heads=2 causal page_size=16 lengths kv_bits=4 kv_group=32 kv_scale=f16' \
  'docs queries=1 keys=1..64 head=16 doc:i32:batch+key mask=f32:head+key score_mod=score * 2.0f mask_mod=doc == i32(q / 8 + b)' \
  'back queries=4 keys=4 head=16 backward dropout=0.1 blocks=32x64:head' \
  'behind queries=1..4 keys=1..64 head=16 bias:f32:query+packed query_starts key_starts score_mod=score + bias' > "$t/shapes"
is "attention with variants" "$tg" build attention --shapes "$t/shapes" --target x86-64-v3 -o "$t/more.o" --header "$t/more.h"
says "attention with variants" "4 functions: paged, docs, back, behind"
[ -z "$(nm -u "$t/more.o")" ] && ok || wrong "attention with variants calls $(nm -u "$t/more.o")"
printf '#include "more.h"\n' > "$t/more.c"
is "the header of variants" gcc -std=c11 -pedantic -Wall -Wextra -Werror -I"$t" -c "$t/more.c" -o "$t/x.more"
grep -q 'const int32_t \*page_table' "$t/more.h" && grep -q 'const int32_t \*doc,' "$t/more.h" && grep -q 'float \*dQ' "$t/more.h" && grep -q 'const int32_t \*query_starts, ' "$t/more.h" && grep -q 'behind_workspace(.* int64_t query_tokens, int threads' "$t/more.h" && ok || wrong "the header of variants: $(cat "$t/more.h")"
refused_word() { printf 'a queries=4 keys=4 head=16 %s\n' "$1" > "$t/shapes"; refused "shapes:1: '$2'" attention --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"; }
refused 'where the object goes (-o FILE.o) is missing' examples/matmul.tg
refused "no target is named 'x87'" examples/matmul.tg M=4 N=4 K=4 --target x87 -o "$t/x.o" --header "$t/x.h"
refused 'sm_80 is no processor' examples/matmul.tg M=4 N=4 K=4 --target sm_80 -o "$t/x.o" --header "$t/x.h"
refused 'No such file' examples/matmul.tg M=4 N=4 K=4 -o "$t/none/x.o" --header "$t/x.h"
refused "4..1'" examples/matmul.tg M=4..1 N=4 K=4 -o "$t/x.o" --header "$t/x.h"
refused 'the list of plans (--shapes FILE) is missing' gemm -o "$t/x.o" --header "$t/x.h"
printf 'a 4 4 4\nb 4 4\n' > "$t/shapes"
refused "shapes:2: '4'" gemm --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"
printf 'a 4 4 4 types=f32 wide\n' > "$t/shapes"
refused "shapes:1: 'wide'" gemm --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"
printf 'a 4 4 4 epilogue=max(acc, 0\n' > "$t/shapes"
refused 'a: <epilogue>' gemm --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"
printf 'a queries=4 keys=4\n' > "$t/shapes"
refused 'a: tg_attention_desc.head' attention --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"
refused_word 'mask=f31' 'mask=f31'
refused_word 'kv_bits=5' 'kv_bits=5'
refused_word 'doc:i32:row' 'doc'
refused_word 'blocks=64' 'blocks=64'
refused_word 'wide' 'wide'
printf 'a queries=4 keys=4 head=16 page_size=16 key_starts\n' > "$t/shapes"
refused 'a: TG_ATTENTION_KEY_STARTS' attention --shapes "$t/shapes" -o "$t/x.o" --header "$t/x.h"
refused 'No such file' gemm --shapes "$t/none" -o "$t/x.o" --header "$t/x.h"
[ ! -e "$t/x.o" ] && ok || wrong "a refused build left a file"
is "a folder of kernels" "$tg" run examples/conv.tg --cache "$t/cache"
is "and another" "$tg" run examples/matmul.tg M=8 N=8 K=8 --cache "$t/cache"
is "pack" "$tg" pack "$t/cache" -o "$t/kernels.pack"
n=$(ls "$t/cache" | grep -c 'tgo$')
says "pack" "kernels.pack: $n kernels, 0 choices, $(wc -c < "$t/kernels.pack") bytes"
first=$(ls "$t"/cache/*.tgo | head -n 1)
printf 'x' | dd of="$first" bs=1 seek=300 conv=notrunc 2> /dev/null
is "pack, of which one is damaged" "$tg" pack "$t/cache" -o "$t/kernels.pack"
says "the damaged one" "is damaged, or others can write to it: left out"
says "the others" "kernels.pack: $((n - 1)) kernels"
"$tg" pack "$t/none" -o "$t/none.pack" > "$t/out" 2>&1 && wrong "a pack of no folder" || says "no folder" 'No such file'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
