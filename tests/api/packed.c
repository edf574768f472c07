/* SPDX-License-Identifier: MIT
 * Operands packed ahead: the kernel that packs them is compiled from the same text, one layout serves kernels for one row and for many, constant sizes and
 * sizes of the launch; what has been compiled comes from the cache without a compiler. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/base.h"
#include "tg/tg.h"
#include "../target.h"
#include "../folder.h"
#include "../test.h"

static const char text[] =
    "kernel weights(M in 1..2048, N in 1..300, K in 1..200) {\n"
    "  in(A, f32, [M, K]); in(B, f16, [K, N]); out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * f32(B[k,j]));\n"
    "}\n";
static const char one_row[] = "split j 32 as jo jv; order jo i jv; stage B at jo as Bp[j/32, k, j%32] as f32 space=packed; lane jv 16; upcast jv.0; thread jo";
static const char many_rows[] = "stage B at i as Bp[j/32, k, j%32] as f32 space=packed; split j 32 as jo jv; split i {6, 2, 1} as ir iu; order jo iu; upcast iu; lane jv 16; upcast jv.0; thread ir";

static uint16_t half_of(int v) {   /* -4..4 */
  static const uint16_t h[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400};
  return (uint16_t)(h[v < 0 ? -v : v] | (v < 0 ? 0x8000 : 0));
}

static int weight(int64_t k, int64_t j) { return (int)((k * 7 + j * 3) % 9) - 4; }

static void run(tg_context *c, tg_kernel *k, tg_argument *buffers, uint32_t n, const int64_t *params, uint32_t params_n) {
  tg_launch l = {.buffers = buffers, .buffers_n = n, .params = params, .params_n = params_n, .threads = 2};
  tg_status s = tg_kernel_run(k, &l);
  CHECK(s == TG_OK, "%s", s == TG_OK ? "" : tg_error_message(c));
}

static tg_kernel *compiled(tg_context *c, const tg_compile_options *o) {
  tg_kernel *k = NULL;
  tg_status s = tg_kernel_compile_text(c, "packed.tg", text, o, &k);
  CHECK(s == TG_OK, "%s", s == TG_OK ? "" : tg_error_message(c));
  return k;
}

static void product(tg_context *c, tg_kernel *k, const tg_argument *packed, int64_t m, int64_t n, int64_t kk, bool fixed) {
  float *a = malloc((size_t)(m * kk) * sizeof *a), *got = malloc((size_t)(m * n) * sizeof *got);
  for (int64_t i = 0; i < m * kk; i++) a[i] = (float)(i % 5 - 2);
  tg_argument buffers[] = {{a, (size_t)(m * kk) * sizeof *a}, *packed, {got, (size_t)(m * n) * sizeof *got}};
  int64_t params[] = {m, n, kk};
  run(c, k, buffers, 3, params, fixed ? 1 : 3);
  int64_t wrong = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float want = 0;
      for (int64_t q = 0; q < kk; q++) want += a[i * kk + q] * (float)weight(q, j);
      wrong += got[i * n + j] != want;
    }
  CHECK(!wrong, "%lld of %lld x %lld x %lld elements", (long long)wrong, (long long)m, (long long)n, (long long)kk);
  free(a), free(got);
}

/* Packed once, by the kernel that either schedule derives; used by both. */
static void shapes(tg_context *c, int64_t n, int64_t kk, bool fixed) {
  tg_binding bound[] = {{"N", n, n, 1}, {"K", kk, kk, 1}};
  tg_compile_options o[2] = {{.bindings = bound, .bindings_n = fixed ? 2 : 0, .opts = one_row}, {.bindings = bound, .bindings_n = fixed ? 2 : 0, .opts = many_rows}};
  tg_kernel *main_kernel[2], *pack[2];
  size_t elements = (size_t)((n + 31) / 32 * kk * 32), bytes;
  float *packed[2];
  uint16_t *b = malloc((size_t)(n * kk) * 2);
  for (int64_t q = 0; q < kk; q++)
    for (int64_t j = 0; j < n; j++) b[q * n + j] = half_of(weight(q, j));
  int64_t params[] = {n, kk};
  for (int i = 0; i < 2; i++) {
    main_kernel[i] = compiled(c, &o[i]);
    o[i].pack = "B";
    pack[i] = compiled(c, &o[i]);
    if (!main_kernel[i] || !pack[i]) return;
    const tg_kernel_info *info = tg_kernel_describe(main_kernel[i]), *packs = tg_kernel_describe(pack[i]);
    CHECK(info->buffers_n == 3 && !strcmp(info->buffers[1].name, "Bp") && info->buffers[1].type == TG_F32, "the packed operand is in the place of B");
    CHECK(packs->buffers_n == 2 && packs->params_n == (fixed ? 0 : 2) && !strcmp(packs->buffers[0].name, "B") && !strcmp(packs->buffers[1].name, "Bp"), "B and Bp");
    CHECK(tg_kernel_bytes(pack[i], params, 1, &bytes) == TG_OK && bytes == elements * 4, "%zu bytes", bytes);
    packed[i] = aligned_alloc(64, (elements * 4 + 63) / 64 * 64);
    tg_argument buffers[] = {{b, (size_t)(n * kk) * 2}, {packed[i], elements * 4}};
    run(c, pack[i], buffers, 2, params, fixed ? 0 : 2);
  }
  CHECK(!memcmp(packed[0], packed[1], elements * 4), "both schedules pack alike");
  tg_argument p = {packed[0], elements * 4};
  product(c, main_kernel[0], &p, 1, n, kk, fixed);
  product(c, main_kernel[1], &p, 1, n, kk, fixed);
  product(c, main_kernel[0], &p, 45, n, kk, fixed);
  product(c, main_kernel[1], &p, 45, n, kk, fixed);
  if (n == 70) product(c, main_kernel[1], &p, 2048, n, kk, fixed);
  for (int i = 0; i < 2; i++) tg_kernel_free(main_kernel[i]), tg_kernel_free(pack[i]), free(packed[i]);
  free(b);
}

static void refused(tg_context *c) {
  tg_kernel *k;
  tg_compile_options o = {.opts = one_row, .pack = "A"};
  CHECK(tg_kernel_compile_text(c, "packed.tg", text, &o, &k) == TG_EINVAL, "A is not packed");
  CHECK_TEXT(tg_error_message(c), "error: the schedule of weights packs no operand 'A'; it packs B");
  o = (tg_compile_options){.pack = "B"};
  CHECK(tg_kernel_compile_text(c, "packed.tg", text, &o, &k) == TG_EINVAL, "nothing is packed");
  CHECK_TEXT(tg_error_message(c), "error: the schedule of weights packs no operand 'B'");
}

static void remove_all(const char *folder) {
  char command[256];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  CHECK(!system(command), "%s", folder);
}

static void cached(void) {
  char folder[TEST_PATH] = "tg-packed-XXXXXX";
  tg_context *c;
  CHECK(test_folder(folder) != NULL, "a folder");
  for (int round = 0; round < 2; round++) {   /* the second without a compiler */
    tg_context_options co = {.target = test_target(), .cache = folder};
    if ((round ? tg_context_create_runtime : tg_context_create)(&co, &c)) return;
    tg_compile_options o = {.opts = many_rows};
    for (int pack = 0; pack < 2; pack++) {
      o.pack = pack ? "B" : NULL;
      tg_kernel *k = compiled(c, &o);
      CHECK(k && tg_kernel_describe(k)->from_cache == round && tg_kernel_describe(k)->buffers_n == (pack ? 2 : 3), "round %d", round);
      tg_kernel_free(k);
    }
    tg_context_free(c);
  }
  remove_all(folder);
}

static void stage(void *user, const char *name, const char *shown) {
  if (!strcmp(name, "author")) snprintf(user, 4096, "%s", shown);
}

static void shown(tg_context *c) {
  char out[4096] = "";
  tg_compile_options o = {.opts = one_row, .pack = "B"};
  CHECK(tg_show_text(c, "packed.tg", text, &o, "author", stage, out) == TG_OK, "%s", tg_error_message(c));
  CHECK_TEXT(out, "kernel weights_pack_B(N in 1..300, K in 1..200) {\n"
                  "  stage author;\n"
                  "  in(B, f16, [K, N]);\n"
                  "  out(Bp, f32, [(N + 31) / 32, K, 32]);\n"
                  "  range(Bp_0, (N + 31) / 32) {\n"
                  "    range(Bp_1, K) {\n"
                  "      range(Bp_2, 32) {\n"
                  "        Bp[Bp_0, Bp_1, Bp_2] = f32(B[Bp_1, Bp_0 * 32 + Bp_2] else f16(0.0));\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
}

int main(void) {
  tg_context *c;
  tg_context_options o = {.target = test_target(), .threads = 2};
  if (tg_context_create(&o, &c)) return 1;
  for (int fixed = 0; fixed < 2; fixed++) {
    shapes(c, 70, 19, fixed);
    shapes(c, 1, 1, fixed);
    shapes(c, 64, 200, fixed);
  }
  shapes(c, 33, 50, false);
  refused(c);
  shown(c);
  tg_context_free(c);
  cached();
  return TEST_END();
}
