#!/bin/sh
# SPDX-License-Identifier: MIT
# A program of libtg.a alone launches a kernel that was built ahead on NVIDIA's stand-in and on OpenCL: no LLVM is linked, and of the makers' software nothing is
# opened but the driver: no libhsa, libamdhip64, libcudart, no compiler of a toolkit. On AMD's stand-in the device is opened, since what runs code is in other tests.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export POCL_CACHE_DIR="$t/pocl"
value() { sed -n "s/^$1 = //p" "$b/config.ninja"; }

echo 'kernel twice(N in 1..100000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }' > "$t/twice.tg"
"$b/tg" build "$t/twice.tg" 'N=1..100000' --target x86-64-v2,sm_80,gfx1100,opencl -o "$t/twice.o" --header "$t/twice.h" > "$t/out" 2>&1 && ok || wrong "$(cat "$t/out")"
cat > "$t/alone.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <tg/device.h>
#include <tg/tg.h>
#include "twice.h"
enum { N = 1000 };
int main(int argc, char **argv) {
  static float x[N], y[N];
  uint32_t i;
  tg_context *c;
  tg_device *d;
  tg_kernel *k = NULL;
  void *at[2];
  int64_t n = N;
  char line[5000];
  if (argc < 2 || tg_device_named(argv[1], &i)) return 77;
  if (tg_context_create_runtime(NULL, &c)) return 1;
  int wrong = tg_device_open(c, i, &d) != TG_OK;
  if (!wrong && strncmp(argv[1], "amd", 3)) {
    const void *data = strncmp(argv[1], "cuda", 4) ? (const void *)twice_opencl : twice_sm_80;
    size_t bytes = strncmp(argv[1], "cuda", 4) ? twice_opencl_bytes : twice_sm_80_bytes;
    for (int e = 0; e < N; e++) x[e] = (float)e;
    wrong = tg_device_load(d, data, bytes, &k) || tg_device_alloc(d, sizeof x, &at[0]) || tg_device_alloc(d, sizeof y, &at[1]) || tg_device_copy(d, at[0], x, sizeof x);
    tg_argument a[] = {{at[0], sizeof x}, {at[1], sizeof y}};
    wrong = wrong || tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1}) || tg_device_copy(d, y, at[1], sizeof y);
    for (int e = 0; e < N; e++) wrong |= y[e] != 2 * x[e];
  }
  if (wrong) fprintf(stderr, "%s\n", tg_error_message(c));
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) fputs(line, stdout);
  if (f) fclose(f);
  tg_kernel_free(k);
  tg_context_free(c);
  return wrong;
}
C
# shellcheck disable=SC2046,SC2086
$(value cc) -std=c11 -Iinclude -I"$t" "$t/alone.c" "$t/twice.o" "$b/libtg.a" $(value ldflags) $(value base_libs) -o "$t/alone" > "$t/out" 2>&1 && ok || wrong "it cannot be linked: $(head -n 5 "$t/out")"
ldd "$t/alone" | grep -qiE 'llvm|cuda|hsa|hip|drm|opencl' && wrong "it is linked with $(ldd "$t/alone")" || ok

# A device, and where its driver lies: what of the maker's is mapped is that driver. What PoCL's own libraries are is theirs.
for d in cuda:0 amd:0 opencl:0; do
  case $d in cuda:*) path=$b/tests/cuda driver='libcuda\.so\.1' ;; amd:*) path=$b/tests/drm driver='libdrm_amdgpu\.so\.1' ;; *) path= driver=libOpenCL ;; esac
  LD_LIBRARY_PATH=$path "$t/alone" $d > "$t/maps" 2> "$t/out"
  status=$?
  [ $status = 77 ] && [ $d = opencl:0 ] && { echo "skipped: there is no $d"; continue; }
  [ $status = 0 ] && ok || wrong "$d: exit status $status: $(cat "$t/out")"
  grep -q "$driver" "$t/maps" && ok || wrong "$d: its driver is not mapped"
  grep -oE '[^ /]*(libhsa|amdhip|rocm|libcudart|libnvrtc|libnvvm|libnvJitLink|libdevice)[^ ]*' "$t/maps" | sort -u > "$t/others"
  [ -s "$t/others" ] && wrong "$d: $(cat "$t/others")" || ok
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
