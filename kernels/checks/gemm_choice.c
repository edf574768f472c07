/* SPDX-License-Identifier: MIT
 * Runs all checks on a choice: on the kernel of the problem itself, and, if its sizes are fixed, on the same words
 * compiled for sizes around those of the tiles, where remainders occur. Also checks candidates of a search, in the
 * worker process. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "checks/product.h"

enum { SIZES = 10 };

typedef struct {
  tg_context *context;
  const tg_gemm_problem *problem;
  const tg_kit_choice *choice;
  const char *words;             /* used instead of the sketch's words; NULL: the sketch's words */
  int threads;
  tg_cuts cuts;
  tg_check_failure *failure;
} passing;

static uint64_t next(passing *p) {
  return p->cuts.state = tg_mix(p->cuts.state + 0x9E3779B97F4A7C15u, p->cuts.state >> 7);
}

static uint32_t numbers_of_choice(const tg_kit_choice *c, int64_t *v) {
  for (uint32_t i = 0; i < c->knobs_n; i++) v[i] = c->knob[i].lo;
  return c->knobs_n;
}

static int64_t size_of(passing *p, tg_kit_dim d) { return tg_cuts_size(&p->cuts, d.lo, d.hi); }

static bool fixed(tg_kit_dim d) { return d.lo == d.hi; }

static void bind(tg_binding *b, uint32_t *n, const char *name, int64_t lo, int64_t hi) {
  b[(*n)++] = (tg_binding){name, lo, hi, 1};
}

static tg_status compile(passing *p, const tg_gemm_problem *q, tg_kernel **out) {
  static const char *const lds[] = {"lda", "ldb", "ldc"}, *const steps[] = {"stepa", "stepb", "stepc"};
  static const char *const args[TG_GEMM_ARGUMENTS] = {"ld_arg0", "ld_arg1", "ld_arg2", "ld_arg3",
                                                      "ld_arg4", "ld_arg5", "ld_arg6", "ld_arg7"};
  const int64_t most = (int64_t)1 << 31;
  const uint8_t majors[] = {q->a_major, q->b_major, q->c_major};
  tg_binding b[10 + TG_GEMM_ARGUMENTS + TG_GEMM_KNOBS];
  uint32_t n = 0;
  bind(b, &n, "M", q->m.lo, q->m.hi), bind(b, &n, "N", q->n.lo, q->n.hi), bind(b, &n, "K", q->k.lo, q->k.hi);
  for (int i = 0; i < 3; i++) {
    bind(b, &n, lds[i], 1, most);
    if (majors[i] == TG_GEMM_STRIDES) bind(b, &n, steps[i], 1, most);
  }
  for (uint32_t i = 0; i < q->arguments_n; i++)
    if (q->argument[i].per == 3) bind(b, &n, args[i], 1, most);
  if (q->bits) bind(b, &n, "ld_group", 1, most);
  for (uint32_t i = 0; i < p->choice->knobs_n; i++) b[n++] = p->choice->knob[i];
  tg_gemm_def def;
  tg_gemm_kernel_of(q, p->choice->sketch, &def);
  tg_compile_options o = {.bindings = b,
                          .bindings_n = n,
                          .user = (void *)(uintptr_t)q,
                          .opts = p->words,
                          .flags = p->words ? TG_COMPILE_OPTS_ONLY : 0};
  return tg_kernel_compile(p->context, &def.def, &o, out);
}

/* Runs all checks on a kernel of the problem at these sizes. */
static tg_status pass(passing *p, const tg_gemm_problem *q, tg_kernel *kernel, const int64_t ld[3],
                      const tg_check_size *sizes, uint32_t n) {
  tg_checks *g = NULL;
  tg_check_kernel k = {.context = p->context, .kernel = kernel, .threads = p->threads};
  tg_status s = tg_checks_open(p->context, q, 0, &g);
  if (s != TG_OK) snprintf(p->failure->text, sizeof p->failure->text, "%.1000s", tg_error_message(p->context));
  else {
    if (ld) tg_checks_leading(g, ld);
    s = tg_checks_run(g, tg_check_run_kernel, &k, sizes, n, next(p), p->failure);
  }
  tg_checks_close(g);
  return s;
}

static double elements(const tg_check_size *z) {
  return (double)z->m * (double)z->k + (double)z->k * (double)z->n + (double)z->m * (double)z->n;
}

/* Writes sizes within the problem's ranges: at least one, at most `room`, until their operands have `most` elements
 * together. In each only one of m, n, k is large. */
static uint32_t choose_sizes(passing *p, const tg_gemm_problem *q, double most, tg_check_size *sizes, uint32_t room) {
  double sum = 0;
  uint32_t n = 0;
  for (; n < room && sum < most; n++) {
    tg_check_size *z = &sizes[n];
    *z = (tg_check_size){size_of(p, q->m), size_of(p, q->n), size_of(p, q->k)};
    if ((double)z->m * (double)z->n * (double)z->k > 1 << 23 && !fixed(q->m))
      z->m = q->m.lo + (int64_t)(next(p) >> 20) % 5;
    if (z->m > q->m.hi) z->m = q->m.hi;
    sum += elements(z);
  }
  return n;
}

static tg_status compile_and_pass(passing *p, const tg_gemm_problem *q, const tg_check_size *sizes, uint32_t n,
                                  bool may_be_illegal) {
  tg_kernel *k = NULL;
  tg_status s = compile(p, q, &k);
  if (may_be_illegal && (s == TG_EINVAL || s == TG_ELIMIT)) return TG_OK;
  if (s != TG_OK) snprintf(p->failure->text, sizeof p->failure->text, "%.1000s", tg_error_message(p->context));
  else s = pass(p, q, k, NULL, sizes, n);
  tg_kernel_free(k);
  return s;
}

tg_status tg_checks_pass(tg_context *c, const tg_gemm_problem *problem, const tg_kit_choice *choice, const char *words,
                         int threads, uint64_t seed, tg_check_failure *failure) {
  passing p = {.context = c,
               .problem = problem,
               .choice = choice,
               .words = words,
               .threads = threads,
               .cuts.state = seed,
               .failure = failure};
  tg_check_size sizes[SIZES];
  int64_t v[TG_GEMM_KNOBS + TG_CUT_NUMBERS];
  tg_gemm_problem any = *problem;
  bool constant = fixed(any.m) && fixed(any.n) && fixed(any.k);
  *failure = (tg_check_failure){.row = -1, .column = -1};
  uint32_t n = numbers_of_choice(choice, v);
  tg_cuts_add(&p.cuts, v, n + tg_numbers_in(words, v + n, TG_CUT_NUMBERS));
  if (constant) {
    sizes[0] = (tg_check_size){any.m.lo, any.n.lo, any.k.lo};
    tg_status s = compile_and_pass(&p, problem, sizes, 1, false);
    if (s != TG_OK) return s;
    any.m = any.n = any.k = (tg_kit_dim){1, 1 << 20};
  }
  return compile_and_pass(&p, &any, sizes, choose_sizes(&p, &any, INFINITY, sizes, SIZES), constant && words);
}

/* ---- of a search ---- */

tg_status tg_checks_pass_built(tg_context *c, const tg_gemm_problem *q, const tg_check_built *b, uint64_t seed,
                               tg_check_failure *failure) {
  const double most = 0x1p25;   /* elements; they keep the checks to some seconds */
  passing p = {.context = c, .problem = q, .threads = b->threads, .cuts.state = seed, .failure = failure};
  enum { MORE = 24 };
  tg_check_size sizes[MORE + 1] = {b->at};
  int64_t v[TG_CUT_NUMBERS];
  *failure = (tg_check_failure){.row = -1, .column = -1};
  tg_cuts_add(&p.cuts, v, tg_numbers_in(b->words, v, TG_CUT_NUMBERS));
  bool constant = fixed(q->m) && fixed(q->n) && fixed(q->k);
  return pass(&p, q, b->kernel, b->ld, sizes, constant ? 1 : 1 + choose_sizes(&p, q, most, sizes + 1, MORE));
}

tg_status tg_checks_pass_once(tg_context *c, const tg_gemm_problem *q, const tg_check_built *b, uint64_t seed,
                              double *seconds, tg_check_failure *failure) {
  tg_checks *g = NULL;
  tg_check_kernel k = {.context = c, .kernel = b->kernel, .threads = b->threads};
  tg_status s = tg_checks_open(c, q, 0, &g);
  *failure = (tg_check_failure){.row = -1, .column = -1};
  if (s != TG_OK) snprintf(failure->text, sizeof failure->text, "%.1000s", tg_error_message(c));
  else {
    tg_checks_leading(g, b->ld);
    s = tg_checks_run_once(g, tg_check_run_kernel, &k, &b->at, seed, seconds, failure);
  }
  tg_checks_close(g);
  return s;
}

/* The text: the numbers v in this order, the arguments with their names, and the epilogue on a new line. */
size_t tg_check_about(const tg_gemm_problem *p, const tg_check_size *at, const int64_t ld[3], char *out, size_t n) {
  const int64_t v[] = {p->a,    p->b,     p->c,    p->acc,         p->a_major, p->b_major, p->c_major, p->alpha,
                       p->beta, p->panel, p->bits, p->group_major, p->scale,   p->zero,    p->group,   p->m.lo,
                       p->m.hi, p->n.lo,  p->n.hi, p->k.lo,        p->k.hi,    at->m,      at->n,      at->k,
                       ld[0],   ld[1],    ld[2],   p->flush,       p->a_step,  p->b_step,  p->c_step,  p->arguments_n};
  size_t k = (size_t)snprintf(out, n, "gemm");
  for (uint32_t i = 0; i < TG_COUNT(v); i++)
    k += (size_t)snprintf(k < n ? out + k : NULL, k < n ? n - k : 0, " %lld", (long long)v[i]);
  for (uint32_t i = 0; i < p->arguments_n; i++)
    k += (size_t)snprintf(k < n ? out + k : NULL, k < n ? n - k : 0, " %d %d %s", p->argument[i].type,
                          p->argument[i].per, p->argument[i].name);
  return k + (size_t)snprintf(k < n ? out + k : NULL, k < n ? n - k : 0, "\n%s", p->epilogue ? p->epilogue : "");
}

/* Reads the next number of the text; false: there is none, or it is not within lo..hi. */
static bool number(const char **at, int64_t lo, int64_t hi, int64_t *v) {
  char *end;
  *v = strtoll(*at, &end, 10);
  bool ok = end != *at && *v >= lo && *v <= hi;
  *at = end;
  return ok;
}

typedef struct { tg_gemm_problem problem; tg_check_built built; char name[TG_GEMM_ARGUMENTS][64]; } described;

static bool read_about(const char *at, described *d) {
  tg_gemm_problem *p = &d->problem;
  int64_t v[31], arguments, type, per;
  if (strncmp(at, "gemm", 4)) return false;
  at += 4;
  for (uint32_t i = 0; i < TG_COUNT(v); i++)
    if (!number(&at, i < 15 || i > 23 ? 0 : 1, i < 4 || i == 12 || i == 13 ? TG_TYPE__COUNT - 1 : INT64_MAX, &v[i]))
      return false;
  *p = (tg_gemm_problem){.a = v[0],
                         .b = v[1],
                         .c = v[2],
                         .acc = v[3],
                         .a_major = (uint8_t)v[4],
                         .b_major = (uint8_t)v[5],
                         .c_major = (uint8_t)v[6],
                         .alpha = v[7],
                         .beta = v[8],
                         .panel = (uint32_t)v[9],
                         .bits = (uint8_t)v[10],
                         .group_major = (uint8_t)v[11],
                         .scale = v[12],
                         .zero = v[13],
                         .group = v[14],
                         .m = {v[15], v[16]},
                         .n = {v[17], v[18]},
                         .k = {v[19], v[20]},
                         .batch = {1, 1},
                         .flush = v[27],
                         .a_step = v[28],
                         .b_step = v[29],
                         .c_step = v[30]};
  d->built.at = (tg_check_size){v[21], v[22], v[23]};
  memcpy(d->built.ld, v + 24, sizeof d->built.ld);
  if (!number(&at, 0, TG_GEMM_ARGUMENTS, &arguments)) return false;
  for (int64_t i = 0; i < arguments; i++) {
    if (!number(&at, 0, TG_TYPE__COUNT - 1, &type) || !number(&at, 0, 3, &per) || *at != ' ') return false;
    size_t n = strcspn(++at, " \n");
    if (n >= sizeof d->name[i]) return false;
    memcpy(d->name[i], at, n), d->name[i][n] = 0;
    at += n;
    p->argument[i].name = d->name[i], p->argument[i].type = (tg_type)type, p->argument[i].per = (uint8_t)per;
  }
  p->arguments_n = (uint32_t)arguments;
  if (*at++ != '\n') return false;
  p->epilogue = *at ? at : NULL;
  return true;
}

tg_status tg_check_trial(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads, uint64_t seed,
                         double *whole, char *message, size_t message_n) {
  described d = {.built = {.kernel = k, .words = words, .threads = threads}};
  tg_check_failure f;
  if (!read_about(about, &d)) return snprintf(message, message_n, "'%.100s' is no product", about), TG_EBACKEND;
  tg_status s = whole ? tg_checks_pass_once(c, &d.problem, &d.built, seed, whole, &f)
                      : tg_checks_pass_built(c, &d.problem, &d.built, seed, &f);
  if (s != TG_OK) snprintf(message, message_n, "%s", f.text);
  return s;
}
