/* SPDX-License-Identifier: MIT
 * Random points of the space of products through the checks: a sketch, values from its knobs' lists, types, majors and strides, alpha and beta,
 * epilogues, sizes that are constants or known at launch, one to three threads; at sizes around tiles and vectors. Some with other words than the
 * sketch's, changed at random: most are illegal, and the rest must be right as well. And plans of tg/gemm.h.
 *   gemm_points [--each E] [N [SEED [FAILURES]]]   about N points, E for each kernel that takes sizes at launch (20); ends after so many failures (20)
 *   gemm_points [--each E] --group SEED            one kernel again, as a failure names it, and what it is
 * A point is a compiled kernel at one size, under one or two checks; of a kernel of constant sizes, under four.
 * Kernels run in a child, so that one that crashes or hangs is told and the others go on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../target.h"
#include "../test.h"
#include "dsl/text.h"
#include "base/guard.h"
#include "checks/gemm.h"
#include "gemm/sketch.h"
#include "tg/gemm.h"

enum { SKETCHES = 32, TILES = 64, BINDINGS = 9 + TG_GEMM_ARGUMENTS + TG_GEMM_KNOBS, CHUNK = 40, SECONDS = 60, PATIENCE = 15 };   /* a kernel: of processor time; and, for one that sleeps for ever, so many times as long */

/* What a child leaves. */
typedef struct {
  uint64_t group;                     /* at work */
  char at[6000];                      /* what it is, for the message of a crash */
  long passed, failed, refused, compiled;
  long changed, legal;                /* with other words */
  long absent;                        /* of instructions that this machine has not */
  long packed;                        /* plans for a B packed ahead */
  struct { char name[48]; long tried, compiled, passed; char refusal[400]; } sketch[SKETCHES];
} ledger;

static ledger *shared;
static tg_checks *checks;
static bool verbose;
static long failures = 20, each = 20;

/* ---- random choices ---- */

static uint64_t state;

static uint64_t next(void) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }
static bool often(int percent) { return below(100) < percent; }

static int64_t size(const int64_t *tile, uint32_t tiles) {
  static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  if (tiles && often(30)) {
    int64_t v = tile[below(tiles)] + below(3) - 1;
    if (v >= 1 && v <= 520) return v;
  }
  return sizes[below(sizeof sizes / sizeof *sizes)];
}

static const struct { tg_type a, b, c, acc; } types[] = {
  {TG_F32, TG_F32, TG_F32, TG_F32}, {TG_F32, TG_F32, TG_F32, TG_F32}, {TG_F64, TG_F64, TG_F64, TG_F64}, {TG_F16, TG_F16, TG_F16, TG_F32}, {TG_F16, TG_F16, TG_F32, TG_F32},
  {TG_BF16, TG_BF16, TG_BF16, TG_F32}, {TG_BF16, TG_BF16, TG_F32, TG_F32}, {TG_U8, TG_I8, TG_I32, TG_I32}, {TG_I8, TG_I8, TG_I32, TG_I32}};

static const struct { const char *text; bool integers; struct { const char *name; uint8_t per; } argument[2]; } epilogues[] = {
  {"max(acc + bias, 0)", true, {{"bias", 2}}},
  {"acc * scale + rest", true, {{"scale", 1}, {"rest", 3}}},
  {"where(n <= m, acc, offset)", true, {{"offset", 0}}},
  {"acc / (1 + exp(-(acc / 64 + bias))) + rest", false, {{"bias", 2}, {"rest", 3}}},
  {"max(acc, 0) * scale + bias", true, {{"scale", 0}, {"bias", 1}}},
};

static uint8_t major(int columns) { return often(15) ? TG_GEMM_STRIDES : often(columns) ? TG_GEMM_COLUMN : TG_GEMM_ROW; }

/* a: of the first operand, where the sketch takes bytes only, and C in rows; else TG_VOID. */
static void choose_problem(tg_gemm_problem *p, tg_type a) {
  unsigned t = (unsigned)below(sizeof types / sizeof *types);
  for (unsigned i = 0; a && i < sizeof types / sizeof *types; i++)
    if (types[i].a == a) t = i;
  unsigned e = (unsigned)below(sizeof epilogues / sizeof *epilogues);
  *p = (tg_gemm_problem){.a = types[t].a, .b = types[t].b, .c = types[t].c, .acc = types[t].acc, .a_major = major(30), .b_major = major(30), .c_major = a ? TG_GEMM_ROW : major(20),
                         .alpha = often(40), .beta = often(40), .batch = {1, 1}};
  if (often(12)) { /* neighbours apart, by steps that are vectors and by one that is not */
    int64_t *const step[] = {&p->a_step, &p->b_step, &p->c_step};
    const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
    for (int i = 0; i < 3; i++)
      if (majors[i] != TG_GEMM_STRIDES && often(60)) *step[i] = 2 + below(4);
  }
  if (!often(25) || (!epilogues[e].integers && !tg_is_float(p->acc))) return;
  p->epilogue = epilogues[e].text;
  for (int i = 0; i < 2 && epilogues[e].argument[i].name; i++, p->arguments_n++) {
    p->argument[i].name = epilogues[e].argument[i].name;
    p->argument[i].per = epilogues[e].argument[i].per;
    p->argument[i].type = tg_is_float(p->acc) && often(20) ? p->c : p->acc;
  }
}

/* B of few bits. */
static void choose_quantised(tg_gemm_problem *p) {
  static const tg_type floats[] = {TG_F32, TG_F16, TG_BF16}, zeros[] = {TG_VOID, TG_VOID, TG_U8, TG_I8, TG_F32, TG_F16, TG_BF16};
  static const int64_t groups[] = {0, 8, 32, 32, 128, 24, 5};
  p->bits = often(70) ? 4 : 8, p->b_step = 0;
  p->a = floats[below(3)], p->acc = TG_F32, p->c = often(50) ? TG_F32 : p->a;
  p->b = often(50) ? TG_I8 : TG_U8;
  if (p->bits == 4 && p->b_major == TG_GEMM_STRIDES) p->b_major = TG_GEMM_ROW;
  p->scale = floats[below(3)], p->zero = zeros[below(7)];
  p->group = groups[below(7)], p->group_major = often(70) ? TG_GEMM_ROW : TG_GEMM_COLUMN;
  for (uint32_t i = 0; i < p->arguments_n; i++) p->argument[i].type = TG_F32;
}

/* ---- a kernel ---- */

enum { WORDS = 64 };
typedef struct { char word[WORDS][200]; uint32_t n; } words;

typedef struct {
  tg_job job;
  const tg_kernel_def *def;
  const char *name;
  tg_gemm_problem *problem;
  int64_t holds;               /* 32-bit elements in all vector registers */
  tg_binding bind[BINDINGS];
  uint32_t n;
  char knob[TG_GEMM_KNOBS][32];
  uint32_t knobs;
  int64_t tile[TILES];
  uint32_t tiles;
  words words;
  char *text;
  const char *opts;            /* NULL: the sketch's own words */
} choice;

static int64_t value_of(const choice *c, const char *name, int64_t otherwise) {
  for (uint32_t i = c->n - c->knobs; i < c->n; i++)
    if (!strcmp(c->bind[i].name, name)) return c->bind[i].lo;
  return otherwise;
}

/* A tile of far more elements than the registers hold is legal, and takes LLVM seconds: a few of them are enough. Fewer rows, from its list. */
static int64_t rows_within(const choice *c, const tg_knob *k, int64_t rows) {
  int64_t columns = c->problem->panel ? c->problem->panel : value_of(c, "NU", 1) * value_of(c, "VL", 1);
  int64_t most = 0, least = rows;
  for (uint32_t i = 0; i < k->n; i++) {
    if (k->values[i] < least) least = k->values[i];
    if (k->values[i] <= rows && k->values[i] * columns <= c->holds && k->values[i] > most) most = k->values[i];
  }
  return most ? most : least;
}

static void read_knobs(void *arg) {
  choice *c = arg;
  tg_author(&c->job, c->def, c->n, c->bind, c->problem);
  for (uint32_t i = 0; i < c->job.knobs.n && c->knobs < TG_GEMM_KNOBS && c->n < BINDINGS; i++) {
    const tg_knob *k = &c->job.knobs.data[i];
    int64_t v = k->values[often(40) ? 0 : below(k->n)];
    if (!strcmp(k->name, "MR") && !often(5)) v = rows_within(c, k, v);
    char *name = c->knob[c->knobs++];   /* it outlives the job */
    snprintf(name, sizeof *c->knob, "%.31s", k->name);
    c->bind[c->n++] = (tg_binding){name, v, v, 1};
  }
  for (uint32_t i = c->n - c->knobs; i < c->n; i++)   /* what words cut by: knobs, and products of two */
    for (uint32_t j = i; j < c->n; j++) {
      int64_t v = c->bind[i].lo * (j == i ? 1 : c->bind[j].lo);
      if (c->tiles < TILES && v > 1 && v <= 512) c->tile[c->tiles++] = v;
    }
}

static void bind(choice *c, const char *name, tg_kit_dim d) { c->bind[c->n++] = (tg_binding){name, d.lo, d.hi, 1}; }

/* ---- other words ---- */

static void collect(void *arg) {
  choice *c = arg;
  tg_str text = tg_str_new(&c->job.env);
  tg_author(&c->job, c->def, c->n, c->bind, c->problem);
  for (uint32_t i = 0; i < c->job.opts.n && i < WORDS - 4; i++) snprintf(c->words.word[c->words.n++], sizeof *c->words.word, "%.199s", c->job.opts.data[i].text);
  c->job.opts.n = 0;
  tg_print(&c->job, &text, c->job.sink);
  c->text = strdup(text.data);
}

/* The n-th name or number of a word, from its beginning; NULL: it has fewer. */
static char *part_of(char *word, int64_t n, size_t *length) {
  for (char *at = word; *at; at += *length) {
    *length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.#");
    if (*length && !n--) return at;
    if (!*length) *length = 1;
  }
  return NULL;
}

static void replace(char *word, char *at, size_t length, const char *by) {
  char rest[200];
  snprintf(rest, sizeof rest, "%s", at + length);
  snprintf(at, (size_t)(200 - (at - word)), "%s%s", by, rest);
}

/* One word has another number or name, two change places, one goes, one comes. */
static void change(words *w) {
  static const char *const kinds[] = {"upcast", "lane", "unroll", "thread", "group"};
  char number[24], name[64];
  uint32_t i = (uint32_t)below(w->n), j = (uint32_t)below(w->n);
  size_t length = 0, other = 0;
  char *at = part_of(w->word[i], 1 + below(5), &length), *from = part_of(w->word[j], 1 + below(5), &other);
  char swap[200];
  switch (below(6)) {
  case 0: case 1:
    for (int64_t p = 1; (at = part_of(w->word[i], p, &length)); p++)
      if (*at >= '0' && *at <= '9' && often(60)) {
        snprintf(number, sizeof number, "%lld", (long long)(often(50) ? 1 + below(20) : 1 << below(7)));
        replace(w->word[i], at, length, number);
        return;
      }
    return;
  case 2:
    if (!at || !from || other >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)other, from);
    replace(w->word[i], at, length, name);
    return;
  case 3:
    memcpy(swap, w->word[i], sizeof swap), memcpy(w->word[i], w->word[j], sizeof swap), memcpy(w->word[j], swap, sizeof swap);
    return;
  case 4:
    memmove(w->word[i], w->word[i + 1], (w->n - i - 1) * sizeof *w->word), w->n--;
    return;
  default:
    if (!from || w->n == WORDS) return;
    snprintf(w->word[w->n++], sizeof *w->word, "%s %.*s", kinds[below(5)], (int)other, from);
  }
}

/* The kernel's text, and its words after a few changes, in c; false: it has none. */
static bool other_words(choice *c) {
  static char joined[WORDS * 204];
  tg_job_drop(&c->job);
  tg_job_init(&c->job, NULL);
  if (!tg_protect(&c->job.env, collect, c) || c->words.n < 3) return false;
  for (int64_t n = 1 + below(3); n > 0 && c->words.n > 2; n--) change(&c->words);
  size_t at = 0;
  for (uint32_t i = 0; i < c->words.n; i++) at += (size_t)snprintf(joined + at, sizeof joined - at, "%s; ", c->words.word[i]);
  c->opts = joined;
  return true;
}

/* What is at work, for messages. */
static void describe(const choice *c, int threads) {
  const tg_gemm_problem *p = c->problem;
  size_t n = sizeof shared->at;
  int at = snprintf(shared->at, n, "%s %s%c x %s%c -> %s%c (%s)%s%s %s, %d threads;", c->name, tg_type_name[p->a], "NTS"[p->a_major], tg_type_name[p->b], "NTS"[p->b_major],
                    tg_type_name[p->c], "NTS"[p->c_major], tg_type_name[p->acc], p->alpha ? " alpha" : "", p->beta ? " beta" : "", p->epilogue ? p->epilogue : "", threads);
  if (p->bits) at += snprintf(shared->at + at, n - (size_t)at, " %u bits, scale %s%c, zero %s, group %lld, panel %u;", p->bits, tg_type_name[p->scale], "NT"[p->group_major], p->zero ? tg_type_name[p->zero] : "none", (long long)p->group, p->panel);
  for (uint32_t i = 0; i < c->n && (size_t)at < n; i++)
    at += c->bind[i].lo == c->bind[i].hi ? snprintf(shared->at + at, n - (size_t)at, " %s=%lld", c->bind[i].name, (long long)c->bind[i].lo)
                                         : snprintf(shared->at + at, n - (size_t)at, " %s=%lld..%lld", c->bind[i].name, (long long)c->bind[i].lo, (long long)c->bind[i].hi);
  if (c->opts && (size_t)at < n) snprintf(shared->at + at, n - (size_t)at, "\n  words: %s", c->opts);
}

static void fail(const char *why) {
  shared->failed++;
  fprintf(stderr, "gemm_points --each %ld --group %llu: %s\n  %s\n", each, (unsigned long long)shared->group, shared->at, why);
}

/* ---- points ---- */

static tg_check_kind some_check(const tg_gemm_problem *p) {
  for (;;) {
    tg_check_kind kind = (tg_check_kind)below(TG_CHECK__COUNT);
    if (tg_check_applies(p, kind)) return kind;
  }
}

/* A plan as a candidate. */
typedef struct {
  tg_context *context;
  tg_gemm *gemm;
  const tg_gemm_problem *problem;
  int threads;
  bool packed;                 /* B is packed ahead, into memory that ends at a page without access */
  tg_gemm_packing packing;
  tg_guarded held;             /* its memory */
  char *b;
  char workspace[1 << 22];
} planned;

static void strides(uint8_t major_of, int64_t by, int64_t ld, int64_t step, int64_t out[2]) {
  if (by < 1) by = 1;
  out[0] = major_of == TG_GEMM_COLUMN ? by : ld;
  out[1] = major_of == TG_GEMM_COLUMN ? ld : major_of == TG_GEMM_ROW ? by : step;
}

static tg_status run_plan(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  planned *x = user;
  const tg_gemm_problem *p = x->problem;
  tg_gemm_call call = {.m = o->m, .n = o->n, .k = o->k, .a = o->a.data, .b = o->b.data, .c = o->c.data, .alpha = o->alpha.data, .beta = o->beta.data};
  strides(p->a_major, p->a_step, o->lda, o->stepa, call.a_strides);
  strides(p->b_major, p->b_step, p->bits == 4 ? 2 * o->ldb : o->ldb, o->stepb, call.b_strides);
  call.b_scale = o->scale.data, call.b_zero = o->zero.data, call.b_group_ld = o->ld_group;
  strides(p->c_major, p->c_step, o->ldc, o->stepc, call.c_strides);
  if (x->packed) {
    tg_status s = tg_gemm_pack(&x->packing, o->b.data, call.b_strides, x->b);
    if (s) return snprintf(message, n, "packing: %s", tg_error_message(x->context)), s;
    call.b = x->b;
    memset(call.b_strides, 0, sizeof call.b_strides);
  }
  for (uint32_t i = 0; i < p->arguments_n; i++) call.arg[i] = o->argument[i].data, call.arg_ld[i] = p->argument[i].per == 3 ? o->ld_arg[i] : 0;
  call.workspace_bytes = tg_gemm_workspace(x->gemm, &call);
  call.workspace = call.workspace_bytes <= sizeof x->workspace ? x->workspace : malloc(call.workspace_bytes);
  tg_status s = tg_gemm_run(x->gemm, &call);
  if (call.workspace != x->workspace) free(call.workspace);
  if (s) snprintf(message, n, "%s", tg_error_message(x->context));
  return s;
}

static tg_status make_plan(tg_context *ctx, const tg_gemm_problem *p, int threads, planned **out) {
  tg_gemm_desc d = {.a = (uint8_t)p->a, .b = (uint8_t)p->b, .c = (uint8_t)p->c, .acc = (uint8_t)p->acc, .a_major = p->a_major, .b_major = p->b_major, .c_major = p->c_major, .alpha = p->alpha, .a_step = p->a_step, .b_step = p->b_step, .c_step = p->c_step,
                    .beta = p->beta, .m = {p->m.lo, p->m.hi}, .n = {p->n.lo, p->n.hi}, .k = {p->k.lo, p->k.hi}, .epilogue = p->epilogue, .threads = threads, .b_bits = p->bits,
                    .b_scale = (uint8_t)p->scale, .b_zero = (uint8_t)p->zero, .b_group = p->group, .b_group_major = p->group_major, .flags = p->flush ? TG_GEMM_FLUSH_SUBNORMALS : 0};
  for (uint32_t i = 0; i < p->arguments_n; i++) d.arg[i].name = p->argument[i].name, d.arg[i].type = (uint8_t)p->argument[i].type, d.arg[i].per = p->argument[i].per;
  planned *x = calloc(1, sizeof *x);
  if (!x) abort();
  x->context = ctx, x->problem = p, x->threads = threads;
  *out = x;
  x->packed = p->k.lo == p->k.hi && p->n.lo == p->n.hi && p->c_major == TG_GEMM_ROW && often(50);
  if (x->packed) {
    tg_status s = tg_gemm_packing_choose(ctx, &d, 1, &x->packing);
    if (s) return s;
    if (!tg_guard_take(&x->held, x->packing.bytes, 0, false)) abort();
    x->b = x->held.data;
    d.packing = &x->packing;
    shared->packed++;
    snprintf(shared->at + strlen(shared->at), sizeof shared->at - strlen(shared->at), " packed");
  }
  return tg_gemm_plan(ctx, &d, &x->gemm);
}

static bool one_point(const choice *c, tg_gemm_candidate *run, void *user, const int64_t size_of[3], const int64_t pad[3], bool fixed) {
  static const double factors[][2] = {{1, 0}, {-1, 1}, {2, -2}, {1, 1}, {-2, 0}};
  int checks_n = fixed ? 4 : often(50) ? 2 : 1;
  for (int i = 0; i < checks_n; i++) {
    tg_check_failure f;
    tg_check_case w = {.kind = i == 0 && often(50) ? tg_check_applies(c->problem, TG_CHECK_EPILOGUE) ? TG_CHECK_EPILOGUE : TG_CHECK_EXACT : some_check(c->problem), .m = size_of[0], .n = size_of[1],
                      .k = size_of[2], .poison = run == run_plan, .front = often(25), .seed = next()};
    const double *by = factors[below(w.kind == TG_CHECK_ROUNDED ? 2 : 5)];
    w.alpha = by[0], w.beta = by[1];
    w.pad_a = fixed ? pad[0] : often(30) ? 0 : 1 + below(9), w.pad_b = fixed ? pad[1] : often(30) ? 0 : 1 + below(9), w.pad_c = fixed ? pad[2] : often(30) ? 0 : 1 + below(9);
    tg_status s = tg_check_one(checks, run, user, &w, &f);
    if (verbose) printf("  %s %lldx%lldx%lld: %s\n", tg_check_name(w.kind), (long long)w.m, (long long)w.n, (long long)w.k, s ? f.text : "passed");
    if (s) return fail(f.text), false;
  }
  return true;
}

/* halves: of four bits, in bytes. */
static tg_kit_dim leading(uint8_t major_of, int64_t step, int64_t rows, int64_t columns, int64_t pad, bool fixed, bool halves) {
  int64_t ld = (major_of == TG_GEMM_COLUMN ? rows : columns) * (step > 1 ? step : 1) + pad;
  if (fixed && halves) ld = (ld + 1) / 2;
  return fixed && major_of != TG_GEMM_STRIDES ? (tg_kit_dim){ld, ld} : (tg_kit_dim){1, 1 << 20};
}

static void bind_all(choice *c, const int64_t sizes[3], const int64_t pad[3], bool fixed) {
  const tg_gemm_problem *p = c->problem;
  static const char *const steps[] = {"stepa", "stepb", "stepc"}, *const lds[] = {"ld_arg0", "ld_arg1"};
  const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
  bind(c, "M", p->m), bind(c, "N", p->n), bind(c, "K", p->k);
  bind(c, "lda", leading(p->a_major, p->a_step, sizes[0], sizes[2], pad[0], fixed, false));
  bind(c, "ldb", leading(p->b_major, p->b_step, sizes[2], sizes[1], pad[1], fixed, p->bits == 4));
  bind(c, "ldc", leading(p->c_major, p->c_step, sizes[0], sizes[1], pad[2], fixed, false));
  for (int i = 0; i < 3; i++)
    if (majors[i] == TG_GEMM_STRIDES) bind(c, steps[i], (tg_kit_dim){1, 1 << 20});
  for (uint32_t i = 0; i < p->arguments_n; i++)
    if (p->argument[i].per == 3) bind(c, lds[i], (tg_kit_dim){1, 4096});
  if (p->bits) bind(c, "ld_group", (tg_kit_dim){1, 1 << 20});
}

/* The sizes of a point: sums and rows around tiles, mostly products that plain C computes in a moment. */
static void choose_sizes(const choice *c, tg_kit_dim *const dim[3], int64_t sizes[3]) {
  for (int d = 0; d < 3; d++)
    if (dim[d]->lo < dim[d]->hi)
      do sizes[d] = size(c->tile, c->tiles);
      while (sizes[d] > dim[d]->hi);
  if (dim[2]->hi > 4096 && dim[2]->lo < dim[2]->hi && often(15)) {   /* a long sum */
    sizes[0] = 1 + below(9), sizes[1] = 1 + below(9);
    sizes[2] = often(50) ? 65536 - below(3) : 4096 + below(9000);
  }
  if ((double)sizes[0] * (double)sizes[1] * (double)sizes[2] > 0x1p22 && often(80)) sizes[below(3)] = 1 + below(9);
  for (int d = 0; d < 3; d++)
    if (dim[d]->lo == dim[d]->hi) sizes[d] = dim[d]->lo;
}

static uint32_t index_of(const tg_gemm_sketch *sketch) {
  uint32_t i = 0;
  while (tg_gemm_sketches[i] && tg_gemm_sketches[i] != sketch) i++;
  return i;
}

/* One kernel or plan, and several sizes if it takes them at launch. */
static void group(tg_context *ctx, uint64_t seed) {
  tg_gemm_problem p;
  choice c = {.problem = &p, .holds = ctx->target.vector_registers * ctx->target.vector_bytes / 4};
  int64_t sizes[3], pad[3];
  uint32_t count = 0;
  state = seed, shared->group = seed;
  shared->at[0] = 0;
  while (tg_gemm_sketches[count] && count < SKETCHES - 1) count++;
  const uint32_t grouped = index_of(&tg_gemm_grouped), weights = index_of(&tg_gemm_weights);
  uint32_t sketch = count;   /* which stands for plans */
  if (!often(15))
    do sketch = (uint32_t)below(count);
    while (sketch == grouped || sketch == weights);   /* for B of few bits */
  const char *name = sketch < count ? tg_gemm_sketches[sketch]->kernel->name : "";
  bool tiles = !strcmp(name, "gemm_tiles") && often(95);
  choose_problem(&p, !strcmp(name, "gemm_bytes") || (tiles && often(50)) ? TG_U8 : !strcmp(name, "gemm_signed_bytes") || tiles ? TG_I8 : TG_VOID);
  if (tiles) p.c_major = major(20);
  if (often(15)) choose_quantised(&p), sketch = (uint32_t[]){index_of(&tg_gemm_plain), grouped, grouped, weights, weights, count, count}[below(7)];
  bool plan = sketch == count;
  if (p.bits && !plan && (often(50) || sketch == grouped)) p.panel = often(50) ? 64 : 16 << below(3), p.c_major = TG_GEMM_ROW, p.b_major = TG_GEMM_ROW;
  if (!p.bits && !plan && tg_gemm_sketches[sketch] == &tg_gemm_bytes && often(90)) p.a = TG_U8, p.b = TG_I8, p.c = p.acc = TG_I32, p.c_major = TG_GEMM_ROW, p.epilogue = NULL, p.arguments_n = 0;
  if (!p.bits && !plan && tg_gemm_sketches[sketch] == &tg_gemm_pairs && often(95)) p.a = p.b = TG_BF16, p.acc = TG_F32, p.c = (tg_type[]){TG_BF16, TG_BF16, TG_F32, TG_F16}[below(4)], p.c_major = TG_GEMM_ROW, p.flush = true;
  if (p.a == TG_BF16 && p.b == TG_BF16 && p.acc == TG_F32) {
    if (plan) p.flush = often(50);
    else if (tg_gemm_sketches[sketch] == &tg_gemm_pairs) p.flush = true;   /* else nothing takes that sketch */
  }
  tg_gemm_def def = {0};
  if (!plan) tg_gemm_kernel_of(&p, tg_gemm_sketches[sketch]->kernel, &def);
  c.def = &def.def, c.name = plan ? "plan" : def.def.name;
  snprintf(shared->sketch[sketch].name, sizeof shared->sketch[sketch].name, "%s", c.name);
  for (int i = 0; i < 3; i++) sizes[i] = size(NULL, 0), pad[i] = often(40) ? 0 : 1 + below(7);
  bool fixed = often(30);
  int64_t most = often(50) ? 4096 : 300;
  tg_kit_dim *dim[] = {&p.m, &p.n, &p.k};
  for (int i = 0; i < 3; i++) *dim[i] = fixed || often(15) ? (tg_kit_dim){sizes[i], sizes[i]} : (tg_kit_dim){1, most};
  if (p.k.lo < p.k.hi && often(12)) p.k.hi = 65536;
  if (plan && often(50)) p.n = (tg_kit_dim){sizes[1], sizes[1]}, p.k = (tg_kit_dim){sizes[2], sizes[2]};   /* where B may be packed ahead */
  if (sketch == grouped) {   /* groups that divide the terms */
    if (p.bits == 4) p.group = (p.group + 7) / 8 * 8;
    int64_t group = p.group ? p.group : 8;
    sizes[2] = (sizes[2] + group - 1) / group * group;
    p.k = (tg_kit_dim){sizes[2], sizes[2]};
  }
  bind_all(&c, sizes, pad, fixed);
  tg_job_init(&c.job, NULL);
  if (!plan) tg_protect(&c.job.env, read_knobs, &c);
  int threads = 1 + (int)below(3);
  bool changed = !plan && !c.job.env.status && often(35) && other_words(&c);
  describe(&c, threads);
  if (!changed) shared->sketch[sketch].tried++;
  tg_kernel *kernel = NULL;
  planned *x = NULL;
  tg_compile_options o = {.bindings = c.bind, .bindings_n = c.n, .user = &p, .flags = TG_COMPILE_NO_CACHE};
  if (changed) o = (tg_compile_options){.opts = c.opts, .flags = TG_COMPILE_NO_CACHE};
  tg_status s = c.job.env.status ? c.job.env.status : changed ? tg_kernel_compile_text(ctx, "words", c.text, &o, &kernel) : plan ? make_plan(ctx, &p, threads, &x) : tg_kernel_compile(ctx, c.def, &o, &kernel);
  const char *why = c.job.env.status ? c.job.env.message : tg_error_message(ctx);
  if (verbose) printf("%s\n%s\n", shared->at, s ? why : "compiled");
  shared->changed += changed, shared->legal += changed && !s;
  if (changed && (s == TG_EINVAL || s == TG_ELIMIT)) s = TG_MISS;
  else if (s == TG_EINVAL && strstr(why, " is an instruction of ")) shared->sketch[sketch].tried--, shared->absent++, s = TG_MISS;   /* which this machine lacks */
  else if (s == TG_EINVAL && !plan) {
    if (strstr(why, "unknown name")) fail(why);   /* a sketch that does not know its own knobs */
    shared->refused++;
    snprintf(shared->sketch[sketch].refusal, sizeof shared->sketch[sketch].refusal, "%.399s", why);
  } else if (s) fail(why);
  if (!s && tg_checks_open(ctx, &p, 0, &checks)) abort();
  if (!s) {
    tg_check_kernel k = {.context = ctx, .kernel = kernel, .threads = threads};
    int64_t points = fixed ? 1 : each * 3 / 5 + below(each * 9 / 10);
    bool good = true;
    if (!changed) shared->compiled++, shared->sketch[sketch].compiled++;
    for (int64_t i = 0; i < points && good; i++) {
      choose_sizes(&c, dim, sizes);
      good = plan ? one_point(&c, run_plan, x, sizes, pad, fixed) : one_point(&c, tg_check_run_kernel, &k, sizes, pad, fixed);
      if (good) shared->passed++, shared->sketch[sketch].passed++;
    }
    tg_checks_close(checks);
    checks = NULL;
  }
  if (kernel) tg_kernel_free(kernel);
  if (x) tg_guard_drop(&x->held);
  if (x) tg_gemm_free(x->gemm), free(x);
  free(c.text);
  tg_job_drop(&c.job);
}

/* ---- children ---- */

static void crashed(int signal, siginfo_t *info, void *frame) {
  char where[200] = "outside of all operands", text[7000];
  (void)frame;
  if (checks) tg_check_at(checks, info->si_addr, where, sizeof where);
  int n = signal == SIGALRM || signal == SIGPROF ? snprintf(text, sizeof text, "gemm_points --each %ld --group %llu: %s\n  takes longer than %d seconds\n", each, (unsigned long long)shared->group, shared->at, SECONDS)
                            : snprintf(text, sizeof text, "gemm_points --each %ld --group %llu: %s\n  signal %d: an access %s\n", each, (unsigned long long)shared->group, shared->at, signal, where);
  if (write(2, text, (size_t)n) < 0) _exit(9);
  _exit(8);
}

static void watch(void) {
  struct sigaction a = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
  int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGPROF};
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &a, NULL);
}

static void child(uint64_t seed, long until) {
  tg_context *ctx;
  watch();
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3, .flags = TG_CONTEXT_VERIFY}, &ctx)) _exit(7);
  for (int i = 0; i < CHUNK && shared->passed < until && shared->failed < failures; i++) {
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = SECONDS}, NULL);
    alarm(SECONDS * PATIENCE);
    group(ctx, seed + (uint64_t)i);
  }
  _exit(0);
}

int main(int argc, char **argv) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  if (argc > 2 && !strcmp(argv[1], "--each")) each = strtol(argv[2], NULL, 10), argc -= 2, argv += 2;
  if (argc > 2 && !strcmp(argv[1], "--group")) {
    tg_context *ctx;
    verbose = true;
    watch();
    if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3, .flags = TG_CONTEXT_VERIFY}, &ctx)) return 1;
    group(ctx, strtoull(argv[2], NULL, 10));
    return shared->failed != 0;
  }
  long points = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  if (argc > 3) failures = strtol(argv[3], NULL, 10);
  uint64_t seed = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) << 32;
  for (int chunk = 0; shared->passed < points && shared->failed < failures && chunk < points; chunk++) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) child(seed + (uint64_t)chunk * CHUNK, points);
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
      shared->failed++;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 8) fprintf(stderr, "gemm_points --each %ld --group %llu: %s\n  the process died\n", each, (unsigned long long)shared->group, shared->at);
    }
  }
  for (int i = 0; i < SKETCHES; i++) {
    if (!shared->sketch[i].tried) continue;
    printf("%-24s %6ld kernels tried, %6ld compiled, %8ld points passed\n", shared->sketch[i].name, shared->sketch[i].tried, shared->sketch[i].compiled, shared->sketch[i].passed);
    if (shared->sketch[i].compiled < shared->sketch[i].tried) printf("  refused, for instance: %s\n", shared->sketch[i].refusal);
    CHECK(shared->sketch[i].compiled > 0 || shared->sketch[i].tried < 20, "no kernel of %s is legal: %s", shared->sketch[i].name, shared->sketch[i].refusal);
  }
  if (shared->absent) printf("%-24s %6ld kernels tried\n", "not of this machine", shared->absent);
  printf("%-24s %6ld kernels tried, %6ld legal\n", "with other words", shared->changed, shared->legal);
  printf("%-24s %6ld plans\n", "B packed ahead", shared->packed);
  CHECK(shared->passed >= points || shared->failed, "%ld points only", shared->passed);
  CHECK(shared->compiled > 3 * shared->refused, "%ld of %ld kernels are refused", shared->refused, shared->refused + shared->compiled);
  test_passed += (int)shared->passed, test_failed += (int)shared->failed;
  return TEST_END();
}
