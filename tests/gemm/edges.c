/* SPDX-License-Identifier: MIT
 * Where products of tg/gemm.h end: no rows, columns or terms, fixed and within ranges, packed or not; rows of A that overlap, strides of nothing; leading dimensions about 2^31
 * and 2^32 elements, in memory that is only reserved; groups without rows; folders that hold nothing or cannot be. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "tg/gemm.h"

static tg_context *ctx;

static void fill(float *x, int64_t n, int mod) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7 % mod - mod / 2);
}

static tg_gemm *plan(const tg_gemm_desc *d) {
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(ctx, d, &g) == TG_OK, "%s", tg_error_message(ctx));
  return g;
}

static tg_status run(const tg_gemm *g, tg_gemm_call call) {
  call.workspace_bytes = tg_gemm_workspace(g, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  tg_status s = tg_gemm_run(g, &call);
  free(call.workspace);
  return s;
}

/* Elements of C = scale A B + more that are wrong. */
static int wrong(const tg_gemm_call *x, int64_t m, int64_t n, int64_t k, float scale, float more) {
  const float *a = x->a, *b = x->b, *c = x->c;
  const int64_t *p = x->a_strides, *q = x->b_strides, *r = x->c_strides;
  int count = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float want = 0;
      for (int64_t t = 0; t < k && scale != 0; t++) want += a[i * p[0] + t * p[1]] * b[t * q[0] + j * q[1]];
      count += c[i * r[0] + j * r[1]] != scale * want + more;
    }
  return count;
}

static float a[6000], b[8000], c[20000];

/* ---- nothing ---- */

/* which: bits for no rows, no columns, no terms; with NaN in C, which counts where beta does. */
static void nothing(int which, bool fixed) {
  static const float zero = 0, two = 2, one = 1;
  static const struct { const float *alpha, *beta; float scale; bool reads; } ways[] = {{NULL, NULL, 1, true}, {&zero, NULL, 0, false}, {&two, &zero, 2, true}, {&zero, &zero, 0, false}};
  int64_t m = which & 1 ? 0 : 5, n = which & 2 ? 0 : 6, k = which & 4 ? 0 : 7;
  tg_gemm_desc d = {.m = {fixed ? m : 0, fixed ? 0 : 64}, .n = {fixed ? n : 0, fixed ? 0 : 64}, .k = {fixed ? k : 0, fixed ? 0 : 64}, .alpha = 1, .beta = 1, .epilogue = "acc + one", .arg = {{"one", 0, TG_PER_ALL}}};
  tg_gemm *g = plan(&d);
  for (size_t w = 0; g && w < sizeof ways / sizeof *ways; w++) {
    for (int i = 0; i < 100; i++) c[i] = NAN;
    bool reads = k && ways[w].reads;
    tg_gemm_call call = {.m = m, .n = n, .k = k, .a = reads ? a : NULL, .b = reads ? b : NULL, .c = c, .a_strides = {k, 1}, .b_strides = {n, 1}, .c_strides = {n, 1}, .alpha = ways[w].alpha, .beta = ways[w].beta, .arg = {&one}};
    CHECK(run(g, call) == TG_OK, "%s", tg_error_message(ctx));
    CHECK(!wrong(&call, m, n, k, ways[w].scale, 1) && isnan(c[m * n]), "%d x %d x %d, way %d%s", (int)m, (int)n, (int)k, (int)w, fixed ? ", fixed" : "");
  }
  tg_gemm_free(g);
}

static void nothing_packed(int which, uint8_t bits) {
  static float packed[2000];
  int64_t n = which & 2 ? 0 : 20, k = which & 4 ? 0 : 30;
  tg_gemm_desc d = {.m = {0, 9}, .n = {n, 0}, .k = {k, 0}, .b_bits = bits, .b_group = bits ? 10 : 0};
  tg_gemm_packing packing;
  CHECK(tg_gemm_packing_choose(ctx, &d, 1, &packing) == TG_OK && packing.bytes <= sizeof packed, "%s", tg_error_message(ctx));
  CHECK(tg_gemm_pack(&packing, b, NULL, packed) == TG_OK, "packing");
  d.packing = &packing;
  tg_gemm *g = plan(&d);
  for (int64_t m = 0; g && m <= 9; m += 9) {
    for (int i = 0; i < 200; i++) c[i] = NAN;
    tg_gemm_call call = {.m = m, .a = a, .b = packed, .c = c, .b_scale = a, .c_strides = {n, 1}};
    CHECK(run(g, call) == TG_OK && isnan(c[m * n]), "%s", tg_error_message(ctx));
    if (!k) CHECK(!wrong(&call, m, n, 0, 1, 0), "packed, %d bits: sums of nothing", bits);
  }
  tg_gemm_free(g);
}

static void nothing_tuned(void) {
  tg_tune_result *r = NULL;
  for (int which = 1; which < 8; which++) {
    tg_gemm_desc d = {.m = {which & 1 ? 0 : 5, 0}, .n = {which & 2 ? 0 : 6, 0}, .k = {which & 4 ? 0 : 7, 0}};
    CHECK(tg_gemm_tune(ctx, &d, 0, 0, 0, NULL, &r) == TG_EINVAL && !r, "a product of nothing is tuned");
  }
}

/* Groups of rows, none of them, or some. */
static void groups(void) {
  static const int64_t none[] = {0, 0, 0, 0}, some[] = {0, 3, 0, 30}, negative[] = {-1, 3}, large[] = {31, 0}, endless[] = {INT64_MAX, INT64_MAX};
  tg_gemm_desc d = {.m = {0, 30}, .n = {10, 0}, .k = {12, 0}, .threads = 2};
  tg_gemm *g = plan(&d);
  tg_gemm_call call = {.a = a, .b = b, .c = c, .group_m = none, .batch = 4};
  for (int i = 0; i < 400; i++) c[i] = NAN;
  CHECK(run(g, call) == TG_OK && isnan(c[0]), "groups without rows");
  call.group_m = some;
  CHECK(run(g, call) == TG_OK && isnan(c[330]), "groups with rows and without");
  tg_gemm_call first = {.a = a, .b = b + 120, .c = c, .a_strides = {12, 1}, .b_strides = {10, 1}, .c_strides = {10, 1}}, second = first;
  second.a = a + 36, second.b = b + 360, second.c = c + 30;
  CHECK(!wrong(&first, 3, 10, 12, 1, 0) && !wrong(&second, 30, 10, 12, 1, 0), "groups with rows and without");
  call.batch = 2;
  const int64_t *const bad[] = {negative, large, endless};
  for (int i = 0; i < 3; i++) {
    call.group_m = bad[i];
    CHECK(run(g, call) == TG_EINVAL, "groups of %lld rows", (long long)bad[i][0]);
  }
  tg_gemm_free(g);
}

/* ---- strides ---- */

/* Rows of A closer than they are long: each begins inside the one before. */
static void overlapping_rows(bool turned) {
  enum { N = 96, K = 70 };
  static const int rows[] = {1, 5, 40, 64};
  tg_gemm_desc d = {.m = {1, 64}, .n = {N, 0}, .k = {K, 0}, .b_major = turned};
  tg_gemm *g = plan(&d);
  for (int r = 0; g && r < 4; r++)
    for (int64_t ld = 1; ld < 80; ld += 13) {
      tg_gemm_call call = {.m = rows[r], .a = a, .b = b, .c = c, .a_strides = {ld, 1}, .b_strides = {turned ? 1 : N, turned ? K : 1}, .c_strides = {N, 1}};
      CHECK(run(g, call) == TG_OK && !wrong(&call, rows[r], N, K, 1, 0), "%d rows, %d apart%s", rows[r], (int)ld, turned ? ", B in columns" : "");
    }
  tg_gemm_free(g);
}

static void odd_strides(void) {
  enum { M = 37, N = 41, K = 29 };
  static const struct { int64_t a[2], b[2], c[2]; bool good; } all[] = {
    {{0, 1}, {1, K}, {N, 1}, true}, {{1, 0}, {0, 1}, {1, M}, true}, {{2, 3}, {3, 2}, {2 * N, 2}, true}, {{0, 1}, {1, 0}, {1, 64}, true}, {{5, 1}, {1, 5}, {3, 200}, true},
    {{5, 1}, {1, 5}, {N, 0}, false}, {{5, 1}, {1, 5}, {0, 1}, false}, {{5, 1}, {1, 5}, {2, 3}, false}, {{-5, 1}, {1, 5}, {N, 1}, false}};
  tg_gemm_desc d = {.m = {1, 64}, .n = {N, 0}, .k = {K, 0}, .a_major = TG_ANY_STRIDES, .b_major = TG_ANY_STRIDES, .c_major = TG_ANY_STRIDES};
  tg_gemm *g = plan(&d);
  for (size_t i = 0; g && i < sizeof all / sizeof *all; i++) {
    tg_gemm_call call = {.m = M, .a = a, .b = b, .c = c, .a_strides = {all[i].a[0], all[i].a[1]}, .b_strides = {all[i].b[0], all[i].b[1]}, .c_strides = {all[i].c[0], all[i].c[1]}};
    for (int q = 0; q < 20000; q++) c[q] = NAN;
    tg_status s = run(g, call);
    if (all[i].good) CHECK(s == TG_OK && !wrong(&call, M, N, K, 1, 0), "strides %d: %s", (int)i, s ? tg_error_message(ctx) : "wrong");
    else CHECK(s == TG_EINVAL && isnan(c[0]), "strides %d are taken", (int)i);
  }
  tg_gemm_free(g);
}

/* Neighbours that the plan knows to be apart, as the real parts of complex numbers are: what lies between those of C stays. Strides given in full, in part, and dense. */
static void known_steps(void) {
  enum { M = 37, N = 41, K = 29, ROOM = 5 * 64 * 64 };
  static float out[ROOM];
  for (int way = 0; way < 30; way++) {
    bool ta = way & 1, tb = way & 2, tc = way & 4;
    int64_t step = 1 + way / 6 % 5, given = way % 3, fixed = way % 2;
    int64_t ld[3] = {(ta ? M : K) * step, (tb ? K : N) * step, (tc ? M : N) * step};
    if (given) ld[0] += 1 - step, ld[1] += 5, ld[2] += 3;
    tg_gemm_desc d = {.m = {M, 0}, .n = {N, 0}, .k = {K, 0}, .a_major = ta, .b_major = tb, .c_major = tc, .a_step = step, .b_step = step, .c_step = step};
    if (fixed) d.a_ld.lo = ld[0], d.b_ld.lo = ld[1], d.c_ld.lo = ld[2];
    tg_gemm *g = plan(&d);
    if (!g) return;
    tg_gemm_call call = {.a = a, .b = b, .c = out, .a_strides = {ta ? step : ld[0], ta ? ld[0] : step}, .b_strides = {tb ? step : ld[1], tb ? ld[1] : step}, .c_strides = {tc ? step : ld[2], tc ? ld[2] : step}}, passed = call;
    if (given == 1) passed.a_strides[!ta] = passed.b_strides[!tb] = passed.c_strides[!tc] = 0;
    if (!given) memset(passed.a_strides, 0, sizeof passed.a_strides), memset(passed.b_strides, 0, sizeof passed.b_strides), memset(passed.c_strides, 0, sizeof passed.c_strides);
    for (int q = 0; q < ROOM; q++) out[q] = 1e9f;
    CHECK(run(g, passed) == TG_OK && !wrong(&call, M, N, K, 1, 0), "steps, way %d: %s", way, tg_error_message(ctx));
    for (int64_t i = 0; i < M; i++)
      for (int64_t j = 0; j < N; j++) out[i * call.c_strides[0] + j * call.c_strides[1]] = 1e9f;
    int disturbed = 0;
    for (int q = 0; q < ROOM; q++) disturbed += out[q] != 1e9f;
    CHECK(!disturbed, "steps, way %d: %d elements between those of C are written", way, disturbed);
    tg_gemm_free(g);
  }
}

/* Two lines of an operand, so far apart that 32 bits do not count it. */
static void far_apart(void) {
  static const int64_t lds[] = {INT32_MAX, (int64_t)1 << 31, ((int64_t)1 << 32) + 3};
  size_t reserved = (size_t)40 << 30;
  float *room = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return (void)fprintf(stderr, "no room for large leading dimensions: not tried\n");
  for (int way = 0; way < 4; way++) {
    bool ta = way & 1, tb = way & 2;
    tg_gemm_desc d = {.m = {1, 500}, .n = {1, 600}, .k = {1, 600}, .a_major = ta, .b_major = tb, .flags = TG_GEMM_BATCH_INVARIANT};
    tg_gemm *g = plan(&d);
    for (int which = 0; g && which < 3; which++)
      for (size_t l = 0; l < sizeof lds / sizeof *lds; l++) {
        int64_t m = (which == 0 && !ta) || which == 2 ? 2 : 19, n = which == 1 && tb ? 2 : 21, k = (which == 0 && ta) || (which == 1 && !tb) ? 2 : 18, ld[] = {ta ? m : k, tb ? k : n, n};
        float *p[] = {a, b, c}, *far = room + 1000;
        ld[which] = lds[l], p[which] = far;
        for (int64_t i = 0; i < 2; i++)
          for (int64_t j = 0; j < 64; j++) far[i * lds[l] + j] = (float)((i * 5 + j * 3) % 7 - 3);
        tg_gemm_call call = {.m = m, .n = n, .k = k, .a = p[0], .b = p[1], .c = p[2], .a_strides = {ta ? 1 : ld[0], ta ? ld[0] : 1}, .b_strides = {tb ? 1 : ld[1], tb ? ld[1] : 1}, .c_strides = {ld[2], 1}};
        CHECK(run(g, call) == TG_OK && !wrong(&call, m, n, k, 1, 0), "%c with lines %lld apart, %c%c", "ABC"[which], (long long)lds[l], "NT"[ta], "NT"[tb]);
        madvise(room, reserved, MADV_DONTNEED);
      }
    tg_gemm_free(g);
  }
  munmap(room, reserved);
}

/* ---- folders ---- */

static void folders(void) {
  char empty[TEST_PATH] = "tg-edges-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(empty) != NULL, "a folder");
  const char *const all[] = {NULL, "", empty, "/proc/none", "/dev/null"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int runtime = 1; runtime >= 0; runtime--) {
      tg_context_options o = {.target = test_target(), .cache = all[i], .tuned = all[i]};
      tg_context *own = NULL;
      tg_gemm *g = NULL;
      tg_gemm_desc d = {.m = {16, 0}, .n = {16, 0}, .k = {16, 0}, .flags = TG_GEMM_NO_COMPILE};
      CHECK((runtime ? tg_context_create_runtime : tg_context_create)(&o, &own) == TG_OK, "a context");
      CHECK(tg_gemm_plan(own, &d, &g) == TG_MISS && !g && strstr(tg_error_message(own), "not in the cache"), "without a kernel: %s", tg_error_message(own));
      d.flags = 0;
      CHECK(tg_gemm_plan(own, &d, &g) == (runtime ? TG_MISS : TG_OK), "%s", tg_error_message(own));
      tg_gemm_call call = {.a = a, .b = b, .c = c, .a_strides = {16, 1}, .b_strides = {16, 1}, .c_strides = {16, 1}};
      if (g) CHECK(run(g, call) == TG_OK && !wrong(&call, 16, 16, 16, 1, 0), "folder %d", (int)i);
      tg_gemm_free(g);
      tg_context_free(own);
    }
  snprintf(command, sizeof command, "rm -r %s", empty);
  CHECK(!system(command), "%s", command);
}

int main(void) {
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 2}, &ctx) == TG_OK, "a context");
  fill(a, sizeof a / sizeof *a, 11), fill(b, sizeof b / sizeof *b, 7);
  for (int which = 0; which < 8; which++) nothing(which, true), nothing(which, false);
  for (int which = 0; which < 8; which += test_part() ? 4 : 2) nothing_packed(which, 0), nothing_packed(which, 4), nothing_packed(which, 8);
  nothing_tuned();
  groups();
  overlapping_rows(false), overlapping_rows(true);
  odd_strides();
  known_steps();
  far_apart();
  folders();
  tg_gemm_desc unknown = {.m = {4, 0}, .n = {4, 0}, .k = {4, 0}, .flags = 1u << 31};
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(ctx, &unknown, &g) == TG_EINVAL && strstr(tg_error_message(ctx), "tg_gemm_desc.flags"), "%s", tg_error_message(ctx));
  tg_context_free(ctx);
  return TEST_END();
}
