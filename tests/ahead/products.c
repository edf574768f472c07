/* SPDX-License-Identifier: MIT
 * Plans of products that are built ahead of time (tg_build_gemm): for each level of x86-64 that this machine runs the
 * functions give the bits of tg_gemm_run with a plan for that level, in one task and dealt to several, with dense and
 * with padded operands; packed operands have the bytes of tg_gemm_pack; what is wrong is refused by name with nothing
 * written. The object calls nothing: it is linked with no library at all. */
#include <stdlib.h>
#include "../test.h"
#include "object.h"

enum { CASES = 14, PAD = 5, ROOM = 9 << 18 };

typedef struct { const char *name; tg_gemm_desc d; bool packed; int64_t size[4][3]; } product;

static product products[CASES] = {
    {"square", {.m = {1, 70}, .n = {48}, .k = {33}}, false, {{1}, {7}, {64}, {70}}},
    {"fixed", {.m = {17}, .n = {40}, .k = {24}, .b_major = TG_COLUMN_MAJOR, .alpha = 1, .beta = 1}, false, {{0}}},
    {"thin", {.m = {1, 9}, .n = {512}, .k = {256}, .b_major = TG_COLUMN_MAJOR}, false, {{1}, {2}, {9}}},
    {"open", {.m = {0, 300}, .n = {0, 300}, .k = {0, 300}, .beta = 1}, false, {{33, 65, 17}, {300, 300, 300}, {5, 0, 9}, {7, 9, 0}}},
    {"columns", {.m = {20}, .n = {30}, .k = {40}, .a_major = TG_COLUMN_MAJOR, .c_major = TG_COLUMN_MAJOR}, false, {{0}}},
    {"strides", {.m = {1, 33}, .n = {20}, .k = {16}, .a_major = TG_ANY_STRIDES, .c_major = TG_ANY_STRIDES}, false, {{1}, {33}}},
    {"halves", {.a = TG_F16, .m = {1, 64}, .n = {64}, .k = {64}, .alpha = 1}, false, {{1}, {12}, {64}}},
    {"bytes", {.a = TG_U8, .b = TG_I8, .m = {1, 48}, .n = {64}, .k = {64}}, false, {{1}, {48}}},
    {"wide", {.a = TG_F64, .m = {9}, .n = {1, 50}, .k = {31}, .beta = 1}, false, {{0, 1}, {0, 50}}},
    {"packed", {.m = {1, 80}, .n = {100}, .k = {64}, .epilogue = "max(acc + bias, 0) * gain + rest",
                .arg = {{"bias", 0, TG_PER_COLUMN}, {"gain", 0, TG_PER_ROW}, {"rest", 0, TG_PER_ELEMENT}}},
     true, {{1}, {6}, {80}}},
    {"weights", {.m = {1, 16}, .n = {96}, .k = {128}, .b_bits = 4, .b_group = 32, .b_scale = TG_F16, .b_zero = TG_U8}, false, {{1}, {16}}},
    {"weights_packed", {.m = {1, 16}, .n = {96}, .k = {100}, .b_bits = 4, .b_group = 32}, true, {{1}, {16}}},
    {"strips", {.m = {1, 256}, .n = {768}, .k = {256}, .threads = 3}, false, {{1}, {40}, {256}}},
    {"strips_packed", {.m = {1, 64}, .n = {1024}, .k = {512}, .threads = 2, .epilogue = "acc + bias", .arg = {{"bias", 0, TG_PER_COLUMN}}},
     true, {{1}, {64}}},
};

/* ---- memory ---- */

static uint64_t state = 1;

static uint32_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

static void fill(char *p, size_t bytes, uint8_t type) {
  for (size_t i = 0; i < bytes; i++) p[i] = (char)next();
  for (size_t i = 0; i + 4 <= bytes && type == TG_F32; i += 4) memcpy(p + i, &(float){(float)(next() % 33) / 8 - 2}, 4);
  for (size_t i = 0; i + 8 <= bytes && type == TG_F64; i += 8) memcpy(p + i, &(double){(double)(next() % 33) / 8 - 2}, 8);
  for (size_t i = 0; i + 2 <= bytes && type == TG_F16; i += 2)
    memcpy(p + i, &(uint16_t){(uint16_t)(0x3800 + next() % 1024 + (next() % 2 << 15))}, 2);
}

static size_t bytes_of(uint8_t t) { return t == TG_F64 ? 8 : t == TG_F32 || t == TG_I32 ? 4 : t == TG_F16 || t == TG_BF16 ? 2 : 1; }

/* ---- one call, both ways ---- */

typedef struct {
  const product *p;
  tg_gemm_desc d;              /* with all types, and the packing */
  tg_gemm_packing packing;
  int64_t m, n, k, ld[3], step[3], arg_ld[TG_GEMM_ARGS];
  char *a, *b, *c, *want, *packed, *scale, *zero, *arg[TG_GEMM_ARGS], alpha[8], beta[8], *workspace;
  size_t c_bytes, workspace_bytes;
} call;

static uint8_t major_of(const call *x, int i) { return i == 0 ? x->d.a_major : i == 1 ? x->d.b_major : x->d.c_major; }

static int64_t side(const call *x, int i) {
  const int64_t rows[] = {x->m, x->k, x->m}, columns[] = {x->k, x->n, x->n};
  return major_of(x, i) == TG_COLUMN_MAJOR ? rows[i] : columns[i];
}

static void place(call *x, int64_t m, int64_t n, int64_t k, bool padded) {
  x->m = x->d.m.hi ? m : x->d.m.lo, x->n = x->d.n.hi ? n : x->d.n.lo, x->k = x->d.k.hi ? k : x->d.k.lo;
  for (int i = 0; i < 3; i++) {
    x->step[i] = major_of(x, i) == TG_ANY_STRIDES ? padded ? 2 : 0 : 1;
    x->ld[i] = padded ? side(x, i) * (x->step[i] > 1 ? 2 : 1) + (x->d.b_bits == 4 && i == 1 ? 4 : PAD) : 0;
  }
  for (int i = 0; i < TG_GEMM_ARGS; i++) x->arg_ld[i] = padded ? x->n + PAD : 0;
}

static tg_status run_plan(const tg_gemm *g, call *x) {
  tg_gemm_call c = {.a = x->a, .b = x->d.packing ? x->packed : x->b, .c = x->want, .workspace = x->workspace, .workspace_bytes = x->workspace_bytes};
  c.m = x->d.m.hi ? x->m : 0, c.n = x->d.n.hi ? x->n : 0, c.k = x->d.k.hi ? x->k : 0;
  int64_t *const strides[] = {c.a_strides, c.b_strides, c.c_strides};
  for (int i = 0; i < 3; i++) {
    int outer = major_of(x, i) == TG_COLUMN_MAJOR;
    strides[i][outer] = x->ld[i];
    if (major_of(x, i) == TG_ANY_STRIDES) strides[i][1] = x->step[i];
  }
  if (x->d.packing) c.b_strides[0] = c.b_strides[1] = 0;
  if (x->d.alpha) c.alpha = x->alpha;
  if (x->d.beta) c.beta = x->beta;
  if (x->d.b_bits) c.b_scale = x->scale, c.b_zero = x->d.b_zero ? x->zero : NULL;
  for (int i = 0; i < TG_GEMM_ARGS; i++) c.arg[i] = x->d.arg[i].name ? x->arg[i] : NULL, c.arg_ld[i] = x->arg_ld[i];
  return tg_gemm_run(g, &c);
}

/* The words in the order of the header. short_of: the buffer that has a byte less than it needs; -1: none. */
static object_call words_of(const call *x, int threads, int64_t *dealt) {
  object_call c = {.n = 0};
  bool any[] = {x->d.a_major == TG_ANY_STRIDES, x->d.b_major == TG_ANY_STRIDES, x->d.c_major == TG_ANY_STRIDES};
  object_buffer(&c, x->a, ROOM);
  object_buffer(&c, x->d.packing ? x->packed : x->b, ROOM);
  if (x->d.b_bits) object_buffer(&c, x->scale, ROOM);
  if (x->d.b_zero) object_buffer(&c, x->zero, ROOM);
  object_buffer(&c, x->c, x->c_bytes);
  if (x->d.alpha) object_buffer(&c, x->alpha, 8);
  if (x->d.beta) object_buffer(&c, x->beta, 8);
  for (int i = 0; i < TG_GEMM_ARGS; i++)
    if (x->d.arg[i].name) object_buffer(&c, x->arg[i], ROOM);
  if (x->d.m.hi) object_word(&c, x->m);
  if (x->d.n.hi) object_word(&c, x->n);
  if (x->d.k.hi) object_word(&c, x->k);
  for (int i = 0; i < 3; i++)
    if (i != 1 || !x->d.packing) object_word(&c, x->ld[i]);
  for (int i = 0; i < 3; i++)
    if (any[i]) object_word(&c, x->step[i]);
  for (int i = 0; i < TG_GEMM_ARGS; i++)
    if (x->d.arg[i].name && x->d.arg[i].per == TG_PER_ELEMENT) object_word(&c, x->arg_ld[i]);
  if (x->d.b_bits) object_word(&c, 0);
  object_buffer(&c, x->workspace, x->workspace_bytes);
  object_word(&c, threads);
  object_pointer(&c, threads > 1 ? (void *)object_last_first : NULL);
  object_pointer(&c, dealt);
  return c;
}

static void compare(call *x, const tg_gemm *g, object_function *f, const char *level) {
  static const int teams[] = {1, 3, 2};
  char *start = malloc(x->c_bytes);
  memcpy(start, x->c, x->c_bytes);
  for (int round = 0; round < 3; round++) {
    int64_t dealt = 0;
    memcpy(x->c, start, x->c_bytes), memcpy(x->want, start, x->c_bytes);
    tg_status s = run_plan(g, x);
    object_call c = words_of(x, teams[round], &dealt);
    int got = object_run(f, &c);
    CHECK(s == TG_OK && got == 0 && !memcmp(x->c, x->want, x->c_bytes), "%s, %s: %d x %d x %d, lda %d, threads %d: plan %d, function %d",
          x->p->name, level, (int)x->m, (int)x->n, (int)x->k, (int)x->ld[0], teams[round], (int)s, got);
  }
  memcpy(x->c, start, x->c_bytes);
  free(start);
}

/* ---- one product ---- */

static void make_memory(call *x) {
  char **const all[] = {&x->a, &x->b, &x->c, &x->want, &x->packed, &x->scale, &x->zero, &x->workspace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = aligned_alloc(64, ROOM), memset(*all[i], 0x5a, ROOM);
  for (int i = 0; i < TG_GEMM_ARGS; i++) x->arg[i] = aligned_alloc(64, ROOM), fill(x->arg[i], ROOM, TG_F32);
  x->c_bytes = ROOM, x->workspace_bytes = ROOM;
  fill(x->a, ROOM, x->d.a), fill(x->b, ROOM, x->d.b), fill(x->c, ROOM, x->d.c);
  fill(x->scale, ROOM, x->d.b_scale ? x->d.b_scale : TG_F32), fill(x->zero, ROOM, x->d.b_zero);
}

static void drop_memory(call *x) {
  char *all[] = {x->a, x->b, x->c, x->want, x->packed, x->scale, x->zero, x->workspace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  for (int i = 0; i < TG_GEMM_ARGS; i++) free(x->arg[i]);
}

static void set_scalar(const call *x, char *p, double v) {
  if (x->d.a == TG_F64) memcpy(p, &v, 8);
  else memcpy(p, &(float){(float)v}, 4);
}

static void refusals(call *x, object_function *f, const char *level) {
  char *start = malloc(x->c_bytes);
  int64_t dealt = 0;
  memcpy(start, x->c, x->c_bytes);
  object_call good = words_of(x, 1, &dealt);
  for (uint32_t i = 0; i < 6; i++) {   /* A, B and what follows it, which is C or a scale */
    object_call c = good;
    c.word[i] = i % 2 ? 3 : i == 0 ? (int64_t)0 : 1;   /* too few bytes; NULL, or not aligned */
    bool of_bytes = i / 2 == 1 && bytes_of(x->d.b) == 1 && !x->d.packing && !(i % 2);
    if (of_bytes || (i / 2 == 0 && bytes_of(x->d.a) == 1 && i % 2 && false)) continue;
    CHECK(object_run(f, &c) > 0, "%s, %s: word %u", x->p->name, level, i);
  }
  object_call c = good;
  if (!x->d.b_bits) {
    c.word[4] = c.word[0];
    CHECK(object_run(f, &c) > 0, "%s, %s: C on A", x->p->name, level);
  }
  CHECK(!memcmp(start, x->c, x->c_bytes), "%s, %s: a refused call wrote", x->p->name, level);
  free(start);
}

static void one(const product *p, const char *const *levels, uint32_t n) {
  const char *level = levels[n - 1];
  call *x = calloc(1, sizeof *x);
  tg_context *c = NULL;
  tg_gemm *g = NULL;
  tg_built *b = NULL;
  void *library = NULL;
  x->p = p, x->d = p->d;
  CHECK(tg_context_create(&(tg_context_options){.target = level, .threads = 3}, &c) == TG_OK, "%s", level);
  if (p->packed) {
    CHECK(tg_build_packing(c, &p->d, levels, n, &x->packing) == TG_OK, "%s", tg_error_message(c));
    x->d.packing = &x->packing;
  }
  tg_status planned = tg_gemm_plan(c, &x->d, &g);
  CHECK(planned == TG_OK, "%s: %s", p->name, tg_error_message(c));
  tg_status s = tg_build_gemm(c, &p->name, &x->d, 1, levels, n, &b);
  CHECK(s == TG_OK, "%s: %s", p->name, tg_error_message(c));
  if (b) library = object_open(b, p->name);
  CHECK(library, "%s", p->name);
  char name[64];
  snprintf(name, sizeof name, "%s_pack", p->name);
  object_function *f = library ? object_find(library, p->name) : NULL, *pack = library ? object_find(library, name) : NULL;
  snprintf(name, sizeof name, "%s_workspace", p->name);
  object_function *workspace = library ? object_find(library, name) : NULL;
  CHECK(f && workspace && (pack != NULL) == p->packed, "%s: its functions", p->name);
  if (!x->d.a) x->d.a = TG_F32;
  if (!x->d.b) x->d.b = x->d.b_bits ? TG_I8 : x->d.a;
  if (!x->d.c) x->d.c = x->d.a == TG_U8 ? TG_I32 : x->d.a;
  make_memory(x);
  if (p->packed && pack) {
    object_call words = {.n = 0};
    char *by_plan = calloc(1, ROOM);
    object_pointer(&words, x->b), object_word(&words, 0), object_word(&words, 0), object_pointer(&words, x->packed);
    int got = object_run(pack, &words);
    CHECK(!got && tg_gemm_pack(&x->packing, x->b, NULL, by_plan) == TG_OK && !memcmp(by_plan, x->packed, x->packing.bytes), "%s: packed", p->name);
    int64_t down = p->d.b_bits == 4 ? 1 : p->d.n.lo + 3, right = p->d.b_bits == 4 ? p->d.k.lo : 1;
    words.word[1] = down, words.word[2] = right;
    CHECK(!object_run(pack, &words) && tg_gemm_pack(&x->packing, x->b, (int64_t[]){down, right}, by_plan) == TG_OK &&
              !memcmp(by_plan, x->packed, x->packing.bytes), "%s: packed, with strides", p->name);
    free(by_plan);
  }
  for (int i = 0; i < 8 && g && f && workspace; i++) {
    const int64_t *at = p->size[i / 2];
    static const double scalars[][2] = {{1.5, -0.5}, {1.5, 0}, {0, 2}};
    if (i / 2 && !at[0] && !at[1] && !at[2]) break;
    place(x, at[0], at[1], at[2], i % 2);
    for (int v = 0; v < (p->d.alpha || p->d.beta ? 3 : 1); v++) {
      set_scalar(x, x->alpha, scalars[v][0]), set_scalar(x, x->beta, scalars[v][1]);
      compare(x, g, f, level);
    }
    if (i == 0 && x->m && x->n) refusals(x, f, level);
  }
  if (library) {
    object_call words = {.n = 1, .word = {3}};
    size_t bytes = (size_t)(unsigned)object_run(workspace, &words);
    place(x, p->size[0][0], p->size[0][1], p->size[0][2], false);
    x->workspace_bytes = bytes ? bytes - 1 : 0;
    words = words_of(x, 3, NULL);
    CHECK(!bytes || object_run(f, &words) > 0, "%s: a byte less of workspace", p->name);
  }
  drop_memory(x);
  object_close(library);
  tg_built_free(b);
  tg_gemm_free(g);
  tg_context_free(c);
  free(x);
}

static void wrong_calls(const char *const *levels, uint32_t n) {
  tg_context *c = NULL;
  tg_built *b;
  CHECK(tg_context_create(NULL, &c) == TG_OK, "a context");
  const tg_gemm_desc d = {.m = {4}, .n = {4}, .k = {4}}, bad = {.m = {-1}, .n = {4}, .k = {4}}, two[] = {d, d};
  const char *name = "mm", *keyword = "while", *twice[] = {"mm", "mm"};
  CHECK(tg_build_gemm(c, &name, &bad, 1, levels, n, &b) == TG_EINVAL && !b && strstr(tg_error_message(c), "mm: tg_gemm_desc.m"), "%s", tg_error_message(c));
  CHECK(tg_build_gemm(c, &keyword, &d, 1, levels, n, &b) == TG_EINVAL && strstr(tg_error_message(c), "'while'"), "%s", tg_error_message(c));
  CHECK(tg_build_gemm(c, twice, two, 2, levels, n, &b) == TG_EINVAL && strstr(tg_error_message(c), "two functions"), "%s", tg_error_message(c));
  CHECK(tg_build_gemm(c, &name, &d, 0, levels, n, &b) == TG_EINVAL, "no function");
  CHECK(tg_build_gemm(c, NULL, &d, 1, levels, n, &b) == TG_EINVAL, "no names");
  CHECK(tg_build_gemm(c, &name, &d, 1, levels, 0, &b) == TG_EINVAL, "no target");
  CHECK(tg_build_gemm(c, &name, &d, 1, levels, n, NULL) == TG_EINVAL, "no place");
  CHECK(tg_build_gemm(NULL, &name, &d, 1, levels, n, &b) == TG_EINVAL, "no context");
  const char *arm[] = {"armv8-a", "neoverse-v1"};
  CHECK(tg_build_gemm(c, &name, &d, 1, arm, 2, &b) == TG_OK && b && b->object_bytes > 1000, "%s", tg_error_message(c));
  tg_built_free(b);
  tg_context_free(c);
}

int main(int argc, char **argv) {
  const char *level[OBJECT_LEVELS];
  uint32_t levels = object_levels(level);
  CHECK(object_begin(), "a folder");
  if (!levels) return printf("skipped: no level of x86-64 runs here\n"), TEST_END();
  wrong_calls(level, levels);
  /* a third of the products with code for all levels, the others for one, each level in its turn; "all": all for all */
  const bool all = argc > 1 && !strcmp(argv[1], "all");
  for (int i = 0; i < CASES; i++) {
    if (argc > 1 && !all && strcmp(argv[1], products[i].name)) continue;
    uint32_t at = (uint32_t)i / 3 % levels;
    if (i % 3 == 0 || all) one(&products[i], level, levels);
    if (!all && (i % 3 || at + 1 < levels)) one(&products[i], &level[at], 1);
    for (uint32_t k = 0; k + 1 < levels && all; k++) one(&products[i], &level[k], 1);
  }
  object_end();
  return TEST_END();
}
