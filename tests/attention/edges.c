/* SPDX-License-Identifier: MIT
 * Where calls of tg/attention.h end: no sequences with tokens, no keys, one query, one key; a head of K and V for very many heads of Q; strides of 0 and beyond 2^31 elements, in memory that is only
 * reserved; as many parts of keys as there may be, and more keys than that; numbers of keys of which a part ends at each place; folders that hold nothing or cannot be. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "checks/attention.h"

static tg_context *context;
static const float one = 1;

static tg_attention *plan_of(const tg_attention_desc *d) {
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(context, d, &a) == TG_OK, "%s", tg_error_message(context));
  return a;
}

static tg_status run(const tg_attention *a, tg_attention_call call) {
  call.workspace_bytes = tg_attention_workspace(a, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  tg_status s = tg_attention_run(a, &call);
  free(call.workspace);
  return s;
}

static void fill(float *x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)(tg_draw_unit(&seed, TG_F32));
}

/* Every check that applies, of a call of this size. */
static void checked(const char *what, const tg_attention_desc *d, int64_t batch, int64_t queries, int64_t keys) {
  tg_attention *a = plan_of(d);
  tg_attention_checks *g = NULL;
  CHECK(tg_attention_checks_open(context, d, &g) == TG_OK, "%s", tg_error_message(context));
  tg_attention_planned by = {.context = context, .plan = a};
  for (int i = 0; a && g && i < 2 * TG_ATTENTION_KINDS; i++) {
    tg_attention_case c = {.kind = (tg_attention_kind)(i / 2), .batch = batch, .queries = queries, .keys = keys, .lie = i % 2 ? TG_ATTENTION_BY_TOKEN : TG_ATTENTION_DENSE, .seed = 3 + (uint64_t)i};
    tg_check_failure f;
    if (!tg_attention_check_applies(d, c.kind)) continue;
    CHECK(tg_attention_check_one(g, tg_attention_check_plan, &by, &c, &f) == TG_OK, "%s: %s", what, f.text);
  }
  tg_attention_checks_close(g);
  tg_attention_free(a);
}

/* ---- sizes ---- */

static void few(void) {
  tg_attention_desc d = {.head = 24, .heads = 4, .kv_heads = 2, .queries = {0, 40}, .keys = {0, 200}, .lse = 1, .base2 = 1, .scale = &one};
  for (int causal = 0; causal < 3; causal++) {
    static const int64_t sizes[][2] = {{0, 0}, {0, 5}, {5, 0}, {1, 0}, {1, 1}, {40, 1}, {3, 2}, {40, 39}, {40, 41}};
    d.causal = (uint8_t)causal;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += 1 + (causal != 0) * 2) checked("few tokens", &d, 2, sizes[i][0], sizes[i][1]);
  }
}

/* More heads of Q for one of K and V than a run has rows, so that they are of several runs. */
static void many_heads(void) {
  static const int heads[] = {16, 17, 40, 96, 97, 128, 200, 333};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    tg_attention_desc d = {.head = 8, .heads = heads[i], .kv_heads = 1, .queries = {1, 0}, .keys = {0, 2000}, .lse = 1, .base2 = 1, .scale = &one};
    if (i % 2) d.queries.hi = 3, d.causal = TG_CAUSAL_BOTTOM_RIGHT;
    if (i == 2) d.heads = 2 * heads[i], d.kv_heads = 2, d.window = 20, d.causal = TG_CAUSAL_BOTTOM_RIGHT;
    checked("many heads", &d, 2, 1, 70);
    if (heads[i] < 100) checked("many heads, keys in parts", &d, 1, 1, 1500);
  }
}

/* What each head has for itself, with a single query, whose heads could be taken as the rows of one run if they had nothing of their own. */
static void own_of_heads(void) {
  for (int which = 0; which < 5; which++) {
    tg_attention_desc d = {.head = 16, .heads = 4, .kv_heads = 1, .queries = {1, 0}, .keys = {0, 2000}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .lse = 1, .base2 = 1, .scale = &one};
    if (which == 0) d.alibi = 1;
    if (which == 1) d.mask = TG_F32, d.mask_per = TG_PER_HEAD | TG_PER_KEY;
    if (which == 2) d.mask = TG_BOOL, d.mask_per = TG_PER_HEAD | TG_PER_KEY | TG_PER_BATCH;
    if (which == 3) d.score_mod = "score - f32(h)";
    if (which == 4) d.mask_mod = "k % 4 <= h";
    checked("heads of their own", &d, 2, 1, 90);
    checked("heads of their own, keys in parts", &d, 1, 1, 1500);
  }
}

/* Which blocks of keys a mask leaves, of sequences of many lengths, some of less than a block. */
static void blocks_of_sequences(void) {
  static const char *const masks[] = {"k <= q + 40", "k + 100 > q", "(k - q) % 100 < 50 + b"};
  for (size_t m = 0; m < 3; m++) {
    tg_attention_desc d = {.head = 8, .heads = 2, .queries = {17, 400}, .keys = {0, 400}, .lse = 1, .base2 = 1, .scale = &one, .mask_mod = masks[m]};
    if (m == 1) d.causal = TG_CAUSAL_BOTTOM_RIGHT;
    tg_attention *a = plan_of(&d);
    tg_attention_checks *g = NULL;
    CHECK(tg_attention_checks_open(context, &d, &g) == TG_OK, "%s", tg_error_message(context));
    for (uint64_t i = 0; a && g && i < 12; i++) {
      tg_attention_planned by = {.context = context, .plan = a, .blocks = i / 2 % 2};
      tg_attention_case c = {.kind = i % 3 ? TG_ATTENTION_EXACT : TG_ATTENTION_SPECIAL, .batch = 4, .queries = 150, .keys = 330, .lie = i % 2 ? TG_ATTENTION_PACKED : TG_ATTENTION_DENSE, .lengths = i % 4 != 1, .seed = 40 + i};
      tg_check_failure f;
      CHECK(tg_attention_check_one(g, tg_attention_check_plan, &by, &c, &f) == TG_OK, "%s: %s", masks[m], f.text);
    }
    tg_attention_checks_close(g);
    tg_attention_free(a);
  }
}

/* Behind 262,144 keys parts grow, and become fewer: what tg_attention_workspace says of any call has to hold for all. */
static void many_keys(void) {
  enum { HEAD = 4, MOST = 300000 };
  static const int64_t sizes[] = {1024, 1025, 262143, 262144, 262145, 263000, MOST};
  tg_attention_desc d = {.head = HEAD, .heads = 2, .kv_heads = 1, .queries = {1, 0}, .keys = {0, MOST}, .lse = 1};
  tg_attention *a = plan_of(&d);
  float *k = malloc(2 * MOST * HEAD * sizeof *k), *v = k + MOST * HEAD, q[2 * HEAD] = {0}, o[2 * HEAD], lse[2];
  size_t bytes = tg_attention_workspace(a, NULL);
  void *memory = malloc(bytes + 1);
  for (size_t i = 0; a && i < sizeof sizes / sizeof *sizes; i++) {
    int64_t n = sizes[i];
    for (int64_t x = 0; x < n * HEAD; x++) k[x] = 1, v[x] = (float)(x / HEAD * 2 < n);
    tg_attention_call c = {.keys = n, .q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace = memory, .workspace_bytes = bytes};
    CHECK(tg_attention_workspace(a, &c) <= bytes, "%lld keys need more than any call", (long long)n);
    CHECK(tg_attention_run(a, &c) == TG_OK, "%s", tg_error_message(context));
    double want = (double)((n + 1) / 2) / (double)n;
    CHECK(fabs((double)o[0] - want) < 1e-5 && fabs((double)o[2 * HEAD - 1] - want) < 1e-5 && fabs((double)lse[1] - log((double)n)) < 1e-4, "%lld keys: %g, %g", (long long)n, (double)o[0], (double)lse[1]);
  }
  free(memory), free(k);
  tg_attention_free(a);
}

/* Each number of keys about where blocks and parts end. */
static void each_length(void) {
  tg_attention_desc d = {.head = 8, .heads = 2, .kv_heads = 1, .queries = {1, 3}, .keys = {0, 3000}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .lse = 1, .base2 = 1, .scale = &one};
  for (int w = 0; w < 3; w++) {
    d.window = w == 0 ? 0 : w == 1 ? 63 : 1100;
    tg_attention *a = plan_of(&d);
    tg_attention_checks *g = NULL;
    CHECK(tg_attention_checks_open(context, &d, &g) == TG_OK, "%s", tg_error_message(context));
    tg_attention_planned by = {.context = context, .plan = a};
    for (int64_t n = 1; a && g && n < 3000; n += n % 64 > 1 && n % 64 < 62 ? 30 : n > 1200 && n < 1900 ? 33 : 1) {
      tg_attention_case c = {.kind = TG_ATTENTION_EXACT, .batch = 1, .queries = 1 + n % 3, .keys = n, .seed = (uint64_t)n};
      tg_check_failure f;
      CHECK(tg_attention_check_one(g, tg_attention_check_plan, &by, &c, &f) == TG_OK, "%s", f.text);
    }
    tg_attention_checks_close(g);
    tg_attention_free(a);
  }
}

/* ---- strides ---- */

enum { B = 2, H = 4, G = 2, T = 6, N = 9, D = 12 };

/* A copy of tokens with these strides. */
static void lay(float *to, const int64_t step[3], const float *from, int heads, int tokens) {
  for (int b = 0; b < B; b++)
    for (int h = 0; h < heads; h++)
      for (int t = 0; t < tokens; t++) memcpy(to + b * step[0] + h * step[1] + t * step[2], from + ((b * heads + h) * tokens + t) * D, D * sizeof *to);
}

/* The same bits, however far apart sequences, heads or tokens lie. */
static void far_apart(void) {
  static float q[B * H * T * D], k[B * G * N * D], v[B * G * N * D], want[B * H * T * D], lse[B * H * T], far_lse[B * H * T];
  static const int64_t far[] = {INT32_MAX, (int64_t)1 << 31, ((int64_t)1 << 32) + 5};
  const size_t reserved = (size_t)160 << 30;
  fill(q, B * H * T * D, 1), fill(k, B * G * N * D, 2), fill(v, B * G * N * D, 3);
  float *room = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return (void)fprintf(stderr, "no room for large strides: not tried\n");
  tg_attention_desc d = {.head = D, .heads = H, .kv_heads = G, .queries = {1, 20}, .keys = {1, 20}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .lse = 1};
  tg_attention *a = plan_of(&d);
  for (int queries = T; a && queries >= 1; queries -= T - 1) {
    tg_attention_call dense = {.batch = B, .queries = queries, .keys = N, .q = q, .k = k, .v = v, .o = want, .lse = lse};
    CHECK(run(a, dense) == TG_OK, "%s", tg_error_message(context));
    for (int which = 0; which < 4; which++)
      for (int axis = 0; axis < 3; axis++)
        for (size_t f = 0; f < sizeof far / sizeof *far; f++) {
          int heads = which == 0 || which == 3 ? H : G, tokens = which == 0 || which == 3 ? queries : N;
          int64_t step[3] = {1024, 256, D};   /* a head has fewer than 256 elements, a sequence than 1024 */
          const float *from[] = {q, k, v, want};
          if ((axis == 2 ? tokens : axis == 1 ? heads : B) < 2) continue;
          step[axis] = far[f];
          if (axis == 2) step[0] = 16 * D * heads, step[1] = 16 * D;
          if (which == 3 && axis == 2) step[0] = 2 * D * heads, step[1] = D;
          float *at = room + 1000;
          tg_attention_call c = dense;
          memcpy(which == 0 ? c.q_strides : which == 1 ? c.k_strides : which == 2 ? c.v_strides : c.o_strides, step, sizeof step);
          *(const void **)(which == 0 ? &c.q : which == 1 ? &c.k : which == 2 ? &c.v : (const void **)(void *)&c.o) = at;
          c.lse = far_lse;
          static float o[B * H * T * D];
          if (which < 3) lay(at, step, from[which], heads, tokens), c.o = o;
          memset(o, 0xff, sizeof o), memset(far_lse, 0xff, sizeof far_lse);
          CHECK(run(a, c) == TG_OK, "%s", tg_error_message(context));
          int wrong = memcmp(lse, far_lse, sizeof *lse * (size_t)(B * H * queries)) != 0;
          for (int b = 0; b < B; b++)
            for (int h = 0; h < H; h++)
              for (int t = 0; t < queries; t++) {
                const float *got = which < 3 ? o + ((b * H + h) * queries + t) * D : at + b * step[0] + h * step[1] + t * step[2];
                wrong += memcmp(got, want + ((b * H + h) * queries + t) * D, D * sizeof *got) != 0;
              }
          CHECK(!wrong, "%c, %d queries, stride %d of %lld: %d rows", "qkvo"[which], queries, axis, (long long)far[f], wrong);
          madvise(room, reserved, MADV_DONTNEED);
        }
  }
  tg_attention_free(a);
  munmap(room, reserved);
}

/* Strides of 0: sequences, heads or tokens that are all the same one; at a page without access, since what lies behind is not part of it. */
static void shared(void) {
  static float all[4][B * H * N * D], want[B * H * T * D], o[B * H * T * D];
  tg_attention_desc d = {.head = D, .heads = H, .kv_heads = G, .queries = {1, 20}, .keys = {1, 20}, .lse = 0};
  tg_attention *a = plan_of(&d);
  for (int way = 0; a && way < 2 * 3 * 8; way++) {
    int queries = way % 2 ? 1 : T, which = way / 2 % 3, same = way / 6, heads = which ? G : H, tokens = which ? N : queries;
    int64_t step[3] = {heads * tokens * D, tokens * D, D};
    if (!same) continue;
    int64_t last = D;
    for (int i = 0; i < 3; i++) {
      if (same >> i & 1) step[i] = 0;
      last += step[i] * ((i == 0 ? B : i == 1 ? heads : tokens) - 1);
    }
    if (!step[0] && !step[1] && !step[2]) continue;   /* that is dense */
    fill(all[0], B * H * queries * D, 4), fill(all[1], B * G * N * D, 5), fill(all[2], B * G * N * D, 6);
    tg_guarded page;
    if (!tg_guard_take(&page, (size_t)last * sizeof(float), 0, false)) return;
    memcpy(page.data, all[which], (size_t)last * sizeof(float));
    const float *from = (const float *)(const void *)page.data;
    for (int b = 0; b < B; b++)
      for (int h = 0; h < heads; h++)
        for (int t = 0; t < tokens; t++) memcpy(all[3] + ((b * heads + h) * tokens + t) * D, from + b * step[0] + h * step[1] + t * step[2], D * sizeof(float));
    const float *p[] = {all[0], all[1], all[2]};
    p[which] = all[3];
    tg_attention_call c = {.batch = B, .queries = queries, .keys = N, .q = p[0], .k = p[1], .v = p[2], .o = want};
    CHECK(run(a, c) == TG_OK, "%s", tg_error_message(context));
    p[which] = from;
    c.q = p[0], c.k = p[1], c.v = p[2], c.o = o;
    memcpy(which == 0 ? c.q_strides : which == 1 ? c.k_strides : c.v_strides, step, sizeof step);
    memset(o, 0xff, sizeof o);
    CHECK(run(a, c) == TG_OK, "%s", tg_error_message(context));
    CHECK(!memcmp(o, want, sizeof *o * (size_t)(B * H * queries * D)), "%c, %d queries, strides {%lld, %lld, %lld}", "qkv"[which], queries, (long long)step[0], (long long)step[1], (long long)step[2]);
    tg_guard_drop(&page);
  }
  tg_attention_free(a);
}

/* ---- folders ---- */

static void folders(void) {
  char empty[TEST_PATH] = "tg-attention-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(empty) != NULL, "a folder");
  const char *const all[] = {NULL, "", empty, "/proc/none", "/dev/null"};
  static float x[4 * 8];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int runtime = 1; runtime >= 0; runtime--) {
      tg_context_options o = {.target = test_target(), .cache = all[i], .tuned = all[i]};
      tg_context *own = NULL;
      tg_attention *a = NULL;
      tg_attention_desc d = {.head = 8, .queries = {1, 0}, .keys = {1, 0}, .flags = TG_ATTENTION_NO_COMPILE};
      CHECK((runtime ? tg_context_create_runtime : tg_context_create)(&o, &own) == TG_OK, "a context");
      CHECK(tg_attention_plan(own, &d, &a) == TG_MISS && !a && strstr(tg_error_message(own), "not in the cache"), "without a kernel: %s", tg_error_message(own));
      d.flags = 0;
      CHECK(tg_attention_plan(own, &d, &a) == (runtime ? TG_MISS : TG_OK), "%s", tg_error_message(own));
      for (int e = 0; e < 8; e++) x[16 + e] = (float)e;
      if (a) CHECK(run(a, (tg_attention_call){.q = x, .k = x + 8, .v = x + 16, .o = x + 24}) == TG_OK && !memcmp(x + 16, x + 24, 32), "folder %d", (int)i);
      tg_attention_free(a);
      tg_context_free(own);
    }
  snprintf(command, sizeof command, "rm -r %s", empty);
  CHECK(!system(command), "%s", command);
}

int main(void) {
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 2}, &context) == TG_OK, "a context");
  few();
  many_heads();
  own_of_heads();
  blocks_of_sequences();
  many_keys();
  each_length();
  far_apart();
  shared();
  folders();
  tg_context_free(context);
  return TEST_END();
}
