/* SPDX-License-Identifier: MIT
 * The checks: places operands between guard pages, runs the candidate, compares the results. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "checks/product.h"
#include "interp/interp.h"
#include "search/trial.h"
#include "trial/there.h"

/* ---- memory ---- */

enum { A, B, C, ALPHA, BETA, ARGUMENT, SCALE = ARGUMENT + TG_GEMM_ARGUMENTS, ZERO, PARTS };
/* ARGUMENT is the first of the epilogue's arguments; SCALE and ZERO belong to a quantised B */
_Static_assert((int)PARTS <= (int)TG_PLACED_MOST, "more operands than places");

struct tg_checks {
  tg_context *context;
  const tg_gemm_problem *problem;
  double work;
  int64_t ld[3];               /* leading dimensions of A, B, C that the kernel needs; 0: any */
  tg_kernel *epilogue;         /* the epilogue alone as a kernel; compiled when first needed */
  tg_places at;
  /* for the current check */
  tg_env env;
  tg_gemm_candidate *run;
  void *user;
  const tg_check_case *which;
  tg_check_failure *failure;
  bool wrong;
  double seconds;              /* time of the candidate's run */
};

static tg_lying lie(uint8_t major, int64_t by, int64_t rows, int64_t columns, int64_t pad) {
  int64_t step = major == TG_GEMM_STRIDES ? 1 + pad % 3 : by > 1 ? by : 1;
  bool turned = major == TG_GEMM_COLUMN || (major == TG_GEMM_STRIDES && pad % 2);
  return (tg_lying){rows, columns, turned ? step : columns * step + pad, turned ? rows * step + pad : step};
}

/* Elements from one row to the next; column major: from one column to the next. */
static int64_t leading(uint8_t major, const tg_lying *l) { return major == TG_GEMM_COLUMN ? l->column : l->row; }

bool tg_check_at(const tg_checks *g, const void *address, char *out, size_t n) {
  return tg_places_at(&g->at, address, out, n);
}

static void lay(tg_checks *g, uint32_t part, const char *name, tg_type t, const tg_lying *l, const double *x) {
  tg_place_input(&g->at, &g->env, part, name, t, l, x, g->which->front);
}

/* Places quantised weights, packed if the problem has a panel, with scales and zero points. */
static void lay_weights(tg_checks *g, const check_product *p, const tg_lying *b, tg_gemm_operands *o) {
  const tg_gemm_problem *q = g->problem;
  bool by_column = q->group_major == TG_GEMM_COLUMN;
  int64_t n = g->which->n, ld = b->row > b->column ? b->row : b->column;
  if (q->bits == 4) ld += ld % 2;
  if (q->b_major == TG_GEMM_STRIDES && !q->panel) lay(g, B, "B", q->b, b, p->whole), ld = b->row;
  else {
    size_t bytes = tg_check_lay_weights(p, ld, NULL);
    char *at = tg_place_operand(&g->at, &g->env, B, "B", bytes, g->which->front);
    memset(at, 0xff, bytes);
    tg_check_lay_weights(p, ld, (uint8_t *)at);
  }
  tg_lying l = {p->groups, n, by_column ? 1 : n + g->which->pad_b, by_column ? p->groups + g->which->pad_b : 1};
  lay(g, SCALE, "scale", q->scale, &l, p->scale);
  if (q->zero) lay(g, ZERO, "zero", q->zero, &l, p->zero);
  o->ldb = q->bits == 4 ? ld / 2 : ld;
  o->ld_group = by_column ? l.column : l.row;
}

/* ---- verdicts ---- */

static void wrong(tg_checks *g, int64_t row, int64_t column, double got, double want, const char *format, ...)
    TG_PRINTF(6, 7);
static void wrong(tg_checks *g, int64_t row, int64_t column, double got, double want, const char *format, ...) {
  const tg_check_case *w = g->which;
  char which[320], text[512];
  va_list v;
  if (g->wrong) return;
  g->wrong = true;
  snprintf(
      which, sizeof which, "check '%s', M %lld, N %lld, K %lld, alpha %g, beta %g, pads %lld %lld %lld%s, seed %llu",
      tg_check_name(w->kind), (long long)w->m, (long long)w->n, (long long)w->k, w->alpha, w->beta, (long long)w->pad_a,
      (long long)w->pad_b, (long long)w->pad_c, w->front ? ", behind a page" : "", (unsigned long long)w->seed);
  va_start(v, format);
  vsnprintf(text, sizeof text, format, v);
  va_end(v);
  tg_check_fail(g->failure, which, row, column, got, want, "%s", text);
}

static void wrong_element(tg_checks *g, int64_t i, int64_t j, double got, double want) {
  wrong(g, i, j, got, want, "C[%lld,%lld] is %.17g instead of %.17g", (long long)i, (long long)j, got, want);
}

/* Fails the check if bytes beside or between C's elements, or another operand, were written. Destroys C's elements. */
static void judge_memory(tg_checks *g, const tg_lying *c) {
  char text[160];
  const char *changed = tg_places_changed(&g->at, C);
  if (tg_place_disturbed(&g->at, C, g->problem->c, c, text, sizeof text)) wrong(g, -1, -1, 0, 0, "%s", text);
  if (changed) wrong(g, -1, -1, 0, 0, "%s was written", changed);
}

/* ---- one run ---- */

static tg_argument argument(const tg_checks *g, uint32_t part) { return tg_placed_argument(&g->at, part); }

/* Runs the candidate on p, checks that it wrote only to C, and returns C. NULL: the check has failed. */
static double *run(tg_checks *g, check_product *p) {
  const tg_gemm_problem *q = g->problem;
  const tg_check_case *w = g->which;
  tg_lying a = lie(q->a_major, q->a_step, w->m, w->k, w->pad_a), b = lie(q->b_major, q->b_step, w->k, w->n, w->pad_b),
           c = lie(q->c_major, q->c_step, w->m, w->n, w->pad_c), one = {1, 1, 1, 1};
  char message[512] = "";
  lay(g, A, "A", q->a, &a, p->a);
  if (!q->bits) lay(g, B, "B", q->b, &b, p->b);
  tg_place_result(&g->at, &g->env, C, "C", q->c, &c, p->beta != 0 || !w->poison ? p->c : NULL, w->front);
  if (q->alpha) lay(g, ALPHA, "alpha", q->acc, &one, &p->alpha);
  if (q->beta) lay(g, BETA, "beta", q->acc, &one, &p->beta);
  tg_gemm_operands o = {.m = w->m,
                        .n = w->n,
                        .k = w->k,
                        .lda = leading(q->a_major, &a),
                        .ldb = leading(q->b_major, &b),
                        .ldc = leading(q->c_major, &c),
                        .stepa = a.column,
                        .stepb = b.column,
                        .stepc = c.column};
  if (q->bits) lay_weights(g, p, &b, &o);
  o.scale = argument(g, SCALE), o.zero = argument(g, ZERO);
  for (uint32_t i = 0; i < q->arguments_n; i++) {
    int64_t columns = q->argument[i].per == 3 ? w->n : p->argument_n[i];
    tg_lying l = lie(TG_GEMM_ROW, 1, p->argument_n[i] / columns, columns, q->argument[i].per == 3 ? w->pad_c : 0);
    o.ld_arg[i] = l.row;
    lay(g, ARGUMENT + i, q->argument[i].name, q->argument[i].type, &l, p->argument[i]);
    o.argument[i] = argument(g, ARGUMENT + i);
  }
  o.a = argument(g, A), o.b = argument(g, B), o.c = argument(g, C), o.alpha = argument(g, ALPHA),
  o.beta = argument(g, BETA);
  tg_places_seal(&g->at);
  bool alone = g->run == tg_check_run_kernel && (((const tg_check_kernel *)g->user)->threads | 1) == 1;
  double (*clock)(void) = alone ? tg_thread_now : tg_now, start = clock();   /* on one thread: the thread's CPU time */
  tg_status status = g->run(g->user, &o, message, sizeof message);
  g->seconds = clock() - start;
  if (status != TG_OK) return wrong(g, -1, -1, 0, 0, "it cannot be run: %s", message), NULL;
  double *got = tg_new(&g->env, double, w->m * w->n);
  for (int64_t i = 0; i < w->m; i++)
    for (int64_t j = 0; j < w->n; j++)
      got[i * w->n + j] = tg_number_get(q->c, g->at.part[C].in.data, tg_lying_at(&c, i, j));
  judge_memory(g, &c);
  return got;
}

/* ---- blocks of C that are compared ---- */

enum { SAMPLES = 12 };

static const int64_t *sample(check_product *p, int64_t n, int64_t *count) {
  if (n <= SAMPLES) return *count = n, NULL;
  int64_t *x = tg_new(p->env, int64_t, SAMPLES);
  for (int i = 0; i < SAMPLES; i++) x[i] = i == 0 ? 0 : i == 1 ? n - 1 : (int64_t)(tg_draw(&p->state) % (uint64_t)n);
  return *count = SAMPLES, x;
}

/* The blocks of C to compare: all of it, or, if it is too large, some rows and some columns. Returns their number. */
static int blocks_of(tg_checks *g, check_product *p, check_block block[2]) {
  const tg_check_case *w = g->which;
  block[0] = block[1] = (check_block){.rows_n = w->m, .columns_n = w->n};
  if ((double)w->m * (double)w->n * (double)w->k <= g->work) return 1;
  block[0].rows = sample(p, w->m, &block[0].rows_n);
  block[1].columns = sample(p, w->n, &block[1].columns_n);
  return 2;
}

static double in_block(const check_block *b, const double *got, int64_t n, int64_t r, int64_t s, int64_t *i,
                       int64_t *j) {
  *i = b->rows ? b->rows[r] : r, *j = b->columns ? b->columns[s] : s;
  return got[*i * n + *j];
}

/* 0 equals -0, since the sign of a sum that is zero depends on its order */
static bool same(double got, double want) { return got == want || (got != got && want != want); }

static void judge_exact(tg_checks *g, const check_product *p, const check_block *b, const double *got) {
  double *sum = tg_new(&g->env, double, b->rows_n * b->columns_n);
  tg_check_sum(p, b, false, sum, NULL);
  for (int64_t r = 0; r < b->rows_n; r++)
    for (int64_t s = 0; s < b->columns_n; s++) {
      int64_t i, j;
      double v = in_block(b, got, g->which->n, r, s, &i, &j),
             want = tg_check_rounded(g->problem, sum[r * b->columns_n + s]);
      if (!same(v, want)) return wrong_element(g, i, j, v, want);
    }
}

static void judge_random(tg_checks *g, const check_product *p, const check_block *b, const double *got) {
  size_t n = (size_t)(b->rows_n * b->columns_n);
  double *want = tg_new(&g->env, double, n), *magnitude = tg_new(&g->env, double, n);
  tg_type t = g->problem->c;
  char *seen = tg_alloc(&g->env, n * (size_t)tg_type_bytes(t));
  tg_check_sum(p, b, g->problem->acc == TG_F64, want, magnitude);
  int64_t i, j;
  for (size_t e = 0; e < n; e++) {
    tg_number_put(t, seen, e,
                  in_block(b, got, g->which->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j));
    /* the tolerance counts in eps of the type of the sum */
    magnitude[e] = ldexp(magnitude[e], tg_significand(t) - tg_significand(g->problem->acc));
  }
  tg_difference d;
  tg_comparison c = {.type = t,
                     .want_type = TG_F64,
                     .n = n,
                     .got = seen,
                     .want = want,
                     .terms = (double)g->which->k,
                     .magnitude = magnitude};
  if (tg_compare(&c, &d)) return;
  in_block(b, got, g->which->n, (int64_t)d.worst / b->columns_n, (int64_t)d.worst % b->columns_n, &i, &j);
  wrong(g, i, j, d.got, d.want, "%zu of %zu differ; C[%lld,%lld] is %.17g instead of %.17g: %.3g away, %.3g allowed",
        d.wrong, n, (long long)i, (long long)j, d.got, d.want, d.error, d.bound);
}

/* ---- the epilogue by itself ---- */

/* In a problem that computes the transpose of the caller's, the caller's m and n are j and i. */
static void compile_epilogue(tg_checks *g) {
  const tg_gemm_problem *q = g->problem;
  const char *const dims[] = {"[1]", "[R]", "[S]", "[R, S], [LD, 1]"}, *const places[] = {"0", "m", "n", "m,n"};
  tg_str s = tg_str_new(&g->env);
  tg_str_printf(&s, "kernel epilogue(R, S, LD) { in(check_acc, %s, [R, S]);", tg_type_name[q->acc]);
  for (uint32_t i = 0; i < q->arguments_n; i++)
    tg_str_printf(&s, " in(check_arg%u, %s, %s);", i, tg_type_name[q->argument[i].type], dims[q->argument[i].per & 3]);
  tg_str_printf(&s, " out(check_c, %s, [R, S]);\nrange(m, R) range(n, S) { let acc = check_acc[m,n];",
                tg_type_name[q->c]);
  for (uint32_t i = 0; i < q->arguments_n; i++)
    tg_str_printf(&s, " let %s = %s(check_arg%u[%s]);", q->argument[i].name, tg_type_name[q->acc], i,
                  places[q->argument[i].per & 3]);
  tg_str_printf(&s, " check_c[m,n] = %s(%s); } }\n", tg_type_name[q->c], q->epilogue);
  tg_binding b[] = {{"R", 1, INT32_MAX, 1}, {"S", 1, INT32_MAX, 1}, {"LD", 1, INT32_MAX, 1}};
  tg_compile_options o = {.bindings = b, .bindings_n = 3, .flags = TG_COMPILE_AS_WRITTEN | TG_COMPILE_NO_CACHE};
  tg_status status = tg_kernel_compile_text(g->context, "epilogue", s.data, &o, &g->epilogue);
  if (status) tg_fail(&g->env, status, "%s", tg_error_message(g->context));
}

static void judge_epilogue(tg_checks *g, const check_product *p, const check_block *b, const double *got) {
  const tg_gemm_problem *q = g->problem;
  const tg_check_case *w = g->which;
  if (!g->epilogue) compile_epilogue(g);
  size_t n = (size_t)(b->rows_n * b->columns_n), all = (size_t)(w->m * w->n), acc = (size_t)tg_type_bytes(q->acc),
         size = (size_t)tg_type_bytes(q->c);
  double *sum = tg_new(&g->env, double, n);
  /* for all of C, since the epilogue may read the subscripts m and n */
  char *in = tg_alloc(&g->env, all * acc), *out = tg_alloc(&g->env, all * size);
  int64_t i, j;
  tg_check_sum(p, b, false, sum, NULL);
  for (size_t e = 0; e < n; e++) {
    in_block(b, got, w->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j);
    tg_number_put(q->acc, in, (size_t)(i * w->n + j), sum[e]);
  }
  tg_argument buffers[TG_GEMM_ARGUMENTS + 2] = {{in, all * acc}};
  for (uint32_t x = 0; x < q->arguments_n; x++) buffers[1 + x] = argument(g, ARGUMENT + x);
  buffers[1 + q->arguments_n] = (tg_argument){out, all * size};
  int64_t rows = w->m, columns = w->n, params[] = {rows, columns, columns + w->pad_c};
  tg_launch l = {.buffers = buffers, .buffers_n = q->arguments_n + 2, .params = params, .params_n = 3};
  tg_status status = tg_kernel_run(g->epilogue, &l);
  if (status) tg_fail(&g->env, status, "%s", tg_error_message(g->context));
  for (size_t e = 0; e < n; e++) {
    double v = in_block(b, got, w->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j),
           want = tg_number_get(q->c, out, (size_t)(i * w->n + j));
    if (!same(v, want)) return wrong_element(g, i, j, v, want);
  }
}

/* ---- a check ---- */

static void check(void *arg) {
  tg_checks *g = arg;
  const tg_check_case *w = g->which;
  check_product p = {.env = &g->env, .problem = g->problem, .which = *w};
  check_block block[2];
  if (w->m < 1 || w->n < 1 || w->k < 1 || !tg_check_applies(g->problem, w->kind))
    tg_fail(&g->env, TG_EINVAL, "error: check '%s' has nothing to check at M %lld, N %lld, K %lld of this problem",
            tg_check_name(w->kind), (long long)w->m, (long long)w->n, (long long)w->k);
  tg_check_fill(&p);
  const double *got = run(g, &p);
  if (!got || g->wrong) return;
  int n = blocks_of(g, &p, block);
  for (int i = 0; i < n && !g->wrong; i++) {
    if (w->kind == TG_CHECK_EPILOGUE) judge_epilogue(g, &p, &block[i], got);
    else if (w->kind == TG_CHECK_RANDOM) judge_random(g, &p, &block[i], got);
    else judge_exact(g, &p, &block[i], got);
  }
  int64_t row = -1, column = -1;
  if (w->kind != TG_CHECK_FREIVALDS || g->wrong || tg_check_freivalds(&p, got, &row, &column)) return;
  if (row >= 0 && column >= 0) {
    double sum;
    check_block b = {&row, &column, 1, 1};
    tg_check_sum(&p, &b, false, &sum, NULL);
    wrong(g, row, column, got[row * w->n + column], sum,
          "row %lld and column %lld are wrong; C[%lld,%lld] is %.17g instead of %.17g", (long long)row,
          (long long)column, (long long)row, (long long)column, got[row * w->n + column], sum);
  } else
    wrong(g, row, column, 0, 0, "%s %lld of C is wrong", row >= 0 ? "row" : "column",
          (long long)(row >= 0 ? row : column));
}

tg_status tg_check_one(tg_checks *g, tg_gemm_candidate *candidate, void *user, const tg_check_case *c,
                       tg_check_failure *failure) {
  tg_env_init(&g->env, &g->context->env.allocator);
  g->env.blocks = &g->context->blocks;
  g->run = candidate, g->user = user, g->which = c, g->failure = failure, g->wrong = false;
  *failure = (tg_check_failure){.kind = (int)c->kind, .row = -1, .column = -1};
  bool decided = tg_protect(&g->env, check, g);
  if (!decided) snprintf(failure->text, sizeof failure->text, "%.1000s", g->env.message);
  tg_status s = g->env.status;
  tg_places_drop(&g->at);
  tg_env_drop(&g->env);
  return !decided ? s == TG_EINVAL ? TG_INTERNAL : s : g->wrong ? TG_EINVAL : TG_OK;
}

/* ---- all that applies ---- */

const char *tg_check_name(tg_check_kind kind) {
  static const char *const names[TG_CHECK__COUNT] = {"exact", "freivalds", "rounded", "extremes", "epilogue", "random"};
  return kind < TG_CHECK__COUNT ? names[kind] : "none";
}

bool tg_check_applies(const tg_gemm_problem *p, tg_check_kind check) {
  bool bytes = tg_type_bits(p->a) == 8 && tg_type_bits(p->b) == 8 && !tg_is_float(p->a) && !tg_is_float(p->b) &&
               !tg_is_float(p->acc);
  bool narrower = tg_is_float(p->c) && tg_is_float(p->acc) && tg_significand(p->c) < tg_significand(p->acc);
  if (p->epilogue) return check == TG_CHECK_EPILOGUE;
  switch (check) {
  case TG_CHECK_EXACT: return true;
  case TG_CHECK_FREIVALDS: return true;
  case TG_CHECK_ROUNDED: return narrower;
  case TG_CHECK_EXTREMES: return bytes;
  case TG_CHECK_RANDOM: return tg_is_float(p->acc) && tg_is_float(p->c);
  default: return false;
  }
}

void tg_checks_leading(tg_checks *g, const int64_t ld[3]) { memcpy(g->ld, ld, sizeof g->ld); }

/* Padding between rows (or columns) of operand `which`: `any`, or what the kernel's leading dimension requires. */
static int64_t pad_of(const tg_checks *g, int which, uint8_t major, int64_t step, int64_t rows, int64_t columns,
                      int64_t any) {
  return g->ld[which] && major != TG_GEMM_STRIDES
             ? g->ld[which] - (major == TG_GEMM_COLUMN ? rows : columns) * (step > 1 ? step : 1)
             : any;
}

/* A case at a size, with the padding `pad` except for leading dimensions that the kernel fixes. */
static tg_check_case case_of(const tg_checks *g, tg_check_kind check, const tg_check_size *z, const int64_t *pad,
                             const double *factors, uint64_t seed) {
  const tg_gemm_problem *p = g->problem;
  return (tg_check_case){.kind = check,
                         .m = z->m,
                         .n = z->n,
                         .k = z->k,
                         .pad_a = pad_of(g, 0, p->a_major, p->a_step, z->m, z->k, pad[0]),
                         .pad_b = pad_of(g, 1, p->b_major, p->b_step, z->k, z->n, pad[1]),
                         .pad_c = pad_of(g, 2, p->c_major, p->c_step, z->m, z->n, pad[2]),
                         .alpha = factors[0],
                         .beta = factors[1],
                         .seed = seed};
}

tg_status tg_checks_run_once(tg_checks *g, tg_gemm_candidate *candidate, void *user, const tg_check_size *size,
                             uint64_t seed, double *seconds, tg_check_failure *failure) {
  static const int64_t dense[3] = {0, 0, 0};
  static const double factors[2] = {1, 1};
  /* clear the bits of the seed that could put infinities or NaN into the data */
  tg_check_case c = case_of(g, g->problem->epilogue ? TG_CHECK_EPILOGUE : TG_CHECK_FREIVALDS, size, dense, factors,
                            seed & ~(uint64_t)3);
  tg_status s = tg_check_one(g, candidate, user, &c, failure);
  *seconds = g->seconds;
  return s;
}

tg_status tg_checks_run(tg_checks *g, tg_gemm_candidate *candidate, void *user, const tg_check_size *sizes,
                        uint32_t sizes_n, uint64_t seed, tg_check_failure *failure) {
  static const double factors[][2] = {{1, 0}, {-1, 1}, {2, -2}, {1, 1}, {-2, 0}};
  static const int64_t pads[][3] = {{0, 0, 0}, {1, 3, 7}, {5, 1, 2}};
  uint64_t turn = seed;
  for (uint32_t s = 0; s < sizes_n; s++) {
    const tg_check_size *z = &sizes[s];
    bool large = (double)z->m * (double)z->n * (double)z->k > g->work;
    for (tg_check_kind check = TG_CHECK_EXACT; check < TG_CHECK__COUNT; check++) {
      if (!tg_check_applies(g->problem, check) || (check == TG_CHECK_EXACT && large) ||
          (check == TG_CHECK_FREIVALDS && !large))
        continue;
      int rounds = check == TG_CHECK_EXACT || check == TG_CHECK_EPILOGUE ? 3 : check == TG_CHECK_ROUNDED ? 2 : 1;
      for (int i = 0; i < rounds; i++, turn++) {
        const double *f = factors[check == TG_CHECK_ROUNDED ? turn % 2 : turn % TG_COUNT(factors)];
        const int64_t *pad = pads[turn % TG_COUNT(pads)];
        tg_check_case c = case_of(g, check, z, pad, f, tg_mix(seed, turn));
        c.poison = candidate != tg_check_run_kernel, c.front = turn % 4 == 3;
        tg_status status = tg_check_one(g, candidate, user, &c, failure);
        if (status) return status;
      }
    }
  }
  return TG_OK;
}

tg_status tg_checks_open(tg_context *c, const tg_gemm_problem *problem, double work, tg_checks **out) {
  tg_allocator a = c->env.allocator;
  tg_checks *g = a.alloc(a.user, sizeof *g);
  *out = g;
  if (!g) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  memset(g, 0, sizeof *g);
  tg_places_init(&g->at);
  g->context = c, g->problem = problem, g->work = work > 0 ? work : 1 << 25;
  return TG_OK;
}

void tg_checks_close(tg_checks *g) {
  if (!g) return;
  tg_allocator a = g->context->env.allocator;
  if (g->epilogue) tg_kernel_free(g->epilogue);
  a.free(a.user, g, sizeof *g);
}

/* ---- a kernel as a candidate ---- */

static bool numbered(const char *name, const char *prefix, uint32_t *i) {
  size_t n = strlen(prefix);
  *i = (uint32_t)(name[n < strlen(name) ? n : 0] - '0');
  return !strncmp(name, prefix, n) && *i < TG_GEMM_ARGUMENTS && !name[n + 1];
}

static bool parameter(const tg_gemm_operands *o, const char *name, int64_t *v) {
  const struct {
    const char *name;
    int64_t v;
  } all[] = {{"M", o->m},
             {"N", o->n},
             {"K", o->k},
             {"lda", o->lda},
             {"ldb", o->ldb},
             {"ldc", o->ldc},
             {"ld_group", o->ld_group},
             {"stepa", o->stepa},
             {"stepb", o->stepb},
             {"stepc", o->stepc}};
  for (unsigned i = 0; i < TG_COUNT(all); i++)
    if (!strcmp(all[i].name, name)) return *v = all[i].v, true;
  uint32_t i;
  if (numbered(name, "ld_arg", &i)) return *v = o->ld_arg[i], true;
  return false;
}

static bool buffer(const tg_gemm_operands *o, const char *name, tg_argument *out) {
  const struct {
    const char *name;
    tg_argument v;
  } all[] = {{"A", o->a},       {"B", o->b},  {"C", o->c},         {"alpha", o->alpha},
             {"beta", o->beta}, {"Bp", o->b}, {"scale", o->scale}, {"zero", o->zero}};
  for (unsigned i = 0; i < TG_COUNT(all); i++)
    if (!strcmp(all[i].name, name)) return *out = all[i].v, true;
  uint32_t i;
  if (numbered(name, "arg", &i)) return *out = o->argument[i], true;
  return false;
}

/* On a device, on copies of the operands there. */
static tg_status run_there(const tg_check_kernel *k, const tg_kernel_info *info, const tg_launch *here, char *message,
                           size_t n) {
  tg_there *t = malloc(sizeof *t);
  bool written[TG_THERE_MOST], beside = false;
  uint32_t wrong = 0;
  if (!t) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  for (uint32_t i = 0; i < info->buffers_n; i++) written[i] = info->buffers[i].written;
  tg_status s = tg_there_open(k->kernel->loaded->device, here->buffers, here->buffers_n, t);
  tg_launch l = *here;
  l.buffers = t->args;
  if (s == TG_OK) s = tg_kernel_run(k->kernel, &l);
  if (s == TG_OK) s = tg_there_fetch(t, here->buffers, written, &wrong, &beside);
  if (s != TG_OK) snprintf(message, n, "%s", tg_error_message(k->context));
  else if (wrong < t->n) {
    const char *name = info->buffers[wrong].name;
    snprintf(message, n, beside ? "it writes beside %s" : "it writes to %s, which it only reads", name);
    s = TG_EINVAL;
  }
  tg_there_close(t);
  free(t);
  return s;
}

tg_status tg_check_run_kernel(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  const tg_check_kernel *k = user;
  const tg_kernel_info *info = tg_kernel_describe(k->kernel);
  enum { MOST = 32 };
  int64_t params[MOST];
  tg_argument buffers[MOST];
  if (!info || info->params_n > MOST || info->buffers_n > MOST)
    return snprintf(message, n, "the kernel is none of a product"), TG_EINVAL;
  for (uint32_t i = 0; i < info->params_n; i++)
    if (!parameter(o, info->params[i].name, &params[i]))
      return snprintf(message, n, "its parameter %s is none of a product", info->params[i].name), TG_EINVAL;
  for (uint32_t i = 0; i < info->buffers_n; i++)
    if (!buffer(o, info->buffers[i].name, &buffers[i]))
      return snprintf(message, n, "its buffer %s is none of a product", info->buffers[i].name), TG_EINVAL;
  tg_launch l = {.buffers = buffers,
                 .buffers_n = info->buffers_n,
                 .params = params,
                 .params_n = info->params_n,
                 .threads = k->threads,
                 .parallel_for = k->parallel_for,
                 .parallel_user = k->parallel_user};
  if (!k->kernel->loaded->driver->immediate) return run_there(k, info, &l, message, n);
  tg_status s = tg_kernel_run(k->kernel, &l);
  if (s) snprintf(message, n, "%s", tg_error_message(k->context));
  return s;
}
