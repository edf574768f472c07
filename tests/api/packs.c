/* SPDX-License-Identifier: MIT
 * Packs: kernels, a product's plan and its choices made by one context, used by another that has the pack alone, mapped
 * for reading at any alignment, with no compiler and no folder. Blocks that are cut, longer, or changed in any place are
 * refused, or what was damaged is a miss: never another result. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include "../folder.h"
#include "../pack.h"
#include "../target.h"
#include "../test.h"
#include "tg/gemm.h"

enum { N = 40, FAULTS = 500, KERNELS = 3 };
static const char *const text[KERNELS] = {
  "kernel twice(N in 1..100) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }",
  "kernel total(N in 1..100) { in(x, f32, [N]); out(y, f32, [1]); y[0] = sum(i : N, x[i]); }",
  "kernel outer(N in 1..100) { in(x, f32, [N]); out(y, f32, [N, N]); range(i, N) range(j, N) y[i,j] = x[i] * x[j]; }"};

static float x[N], y[N * N];

static bool right(tg_kernel *k, int which) {
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  for (int i = 0; i < N * N; i++) y[i] = -1;
  if (tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .params = (int64_t[]){N}, .params_n = 1}) != TG_OK) return false;
  float total = 0;
  bool good = true;
  for (int i = 0; i < N; i++) {
    total += x[i];
    if (which == 0) good &= y[i] == 2 * x[i];
    for (int j = 0; j < N && which == 2; j++) good &= y[i * N + j] == x[i] * x[j];
  }
  return good && (which != 1 || y[0] == total);
}

static const tg_gemm_desc product = {.m = {1, N}, .n = {N, 0}, .k = {N, 0}};

static bool product_right(const tg_gemm *g) {
  static float a[N * N], b[N * N], c[N * N], work[1 << 16];
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 5 - 2), b[i] = (float)(i % 7 - 3);
  tg_gemm_call call = {.m = N, .a = a, .b = b, .c = c, .workspace = work, .workspace_bytes = sizeof work};
  if (tg_gemm_workspace(g, &call) > sizeof work || tg_gemm_run(g, &call) != TG_OK) return false;
  bool good = true;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float s = 0;
      for (int k = 0; k < N; k++) s += a[i * N + k] * b[k * N + j];
      good &= c[i * N + j] == s;
    }
  return good;
}

/* How many of the four are found and right; -1: one gives something else. */
static int found(tg_context *c) {
  int n = 0;
  for (int i = 0; i < KERNELS; i++) {
    tg_kernel *k = NULL;
    if (tg_kernel_compile_text(c, "k.tg", text[i], NULL, &k) != TG_OK) continue;
    bool good = right(k, i);
    tg_kernel_free(k);
    if (!good) return -1;
    n++;
  }
  tg_gemm *g = NULL;
  if (tg_gemm_plan(c, &product, &g) == TG_OK) {
    bool good = product_right(g);
    tg_gemm_free(g);
    if (!good) return -1;
    n++;
  }
  return n;
}

static char told[512];
static void hear(void *user, const char *message) { (void)user, snprintf(told, sizeof told, "%s", message); }

/* A context with libtg's side alone; NULL: the block is refused. */
static tg_context *with(const void *pack, size_t bytes) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .threads = 1, .tuned = "", .log = hear, .pack = pack, .pack_bytes = bytes};
  told[0] = 0;
  return tg_context_create_runtime(&o, &c) == TG_OK ? c : NULL;
}

static void faults(const char *data, size_t bytes, char *copy) {
  uint64_t seed = 11;
  int refused = 0, missed = 0, whole = 0;
  for (int i = 0; i < FAULTS; i++) {
    memcpy(copy, data, bytes);
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    size_t at = (size_t)(seed >> 24) % (i % 3 ? bytes : bytes < 2048 ? bytes : 2048), n = bytes;
    if (i % 10 == 9) n = at;                                  /* cut */
    else copy[at] ^= (char)(1 << (seed >> 60 & 7));
    tg_context *c = with(copy, n);
    int got = c ? found(c) : 0;
    CHECK(got >= 0, "fault %d at %zu of %zu: another result", i, at, bytes);
    if (!c) refused++;
    else if (got < KERNELS + 1) missed++;
    else whole++;                                             /* between files */
    if (!c) CHECK(strstr(told, "the pack of the context: "), "fault %d: %s", i, told);
    tg_context_free(c);
  }
  CHECK(refused > 50 && missed > 50, "%d refused, %d missed, %d whole", refused, missed, whole);
}

int main(void) {
  char folder[TEST_PATH] = "tg-packs-XXXXXX";
  size_t bytes;
  tg_env env;
  tg_env_init(&env, NULL);
  if (!test_folder(folder)) {
    CHECK(false, "no folder");
    return TEST_END();
  }
  for (int i = 0; i < N; i++) x[i] = (float)(i % 9 - 4);
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .threads = 1, .tuned = "", .cache = folder};
  CHECK(tg_context_create(&o, &c) == TG_OK && found(c) == KERNELS + 1, "compiled: %s", tg_error_message(c));
  tg_context_free(c);
  const char *data = test_pack_of(&env, folder, &bytes);
  char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *copy = malloc(bytes + 64);
  memcpy(mapped, data, bytes);
  CHECK(!mprotect(mapped, bytes, PROT_READ), "mprotect");
  CHECK((c = with(mapped, bytes)) && found(c) == KERNELS + 1, "from the pack: %s", told);
  tg_kernel *k = NULL;
  CHECK(c && tg_kernel_compile_text(c, "k.tg", "kernel other() { out(y, f32, [4]); range(i, 4) y[i] = 1; }", NULL, &k) == TG_MISS, "what is not in it is a miss");
  tg_context_free(c);
  for (int shift = 1; shift < 64; shift += 13) {
    memcpy(copy + shift, data, bytes);
    CHECK((c = with(copy + shift, bytes)) && found(c) == KERNELS + 1, "at an address + %d: %s", shift, told);
    tg_context_free(c);
  }
  CHECK(!with(data, bytes - 1) && !with(data, 0) && !with("TGPACK", 7), "blocks that are cut");
  memcpy(copy, data, bytes), copy[bytes] = 0;
  CHECK(!with(copy, bytes + 1), "one with more behind it");
  faults(data, bytes, copy);
  size_t none;
  const char *empty = tg_pack_made(&env, NULL, 0, &none);
  CHECK((c = with(empty, none)) && found(c) == 0, "an empty one");
  tg_context_free(c);
  munmap(mapped, bytes);
  free(copy);
  tg_env_drop(&env);
  return TEST_END();
}
