/* SPDX-License-Identifier: MIT
 * The gates: operands in guarded memory, the candidate's run, and the verdict. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include "base/guard.h"
#include "gates/gate.h"
#include "interp/interp.h"
#include "search/trial.h"

/* ---- memory ---- */

enum { SCALE = 5 + TG_GEMM_ARGUMENTS, ZERO, PARTS };   /* A, B, C, alpha, beta, the arguments; of B, scales and zero points */
enum { FILLING = 1 << 16 };   /* of the pattern: its period */

typedef struct { const char *name; tg_guarded in; uint64_t hash; } guarded;

struct tg_gates {
  tg_context *context;
  const tg_gemm_problem *problem;
  double work;
  int64_t ld[3];               /* of A, B, C; 0: any */
  tg_kernel *epilogue;         /* the problem's, by itself; compiled when first asked for */
  guarded part[PARTS];
  /* of the check at hand */
  tg_env env;
  tg_gemm_candidate *run;
  void *user;
  const tg_gate_case *which;
  tg_gate_failure *failure;
  bool wrong;
  double seconds;              /* of its run */
  char filling[FILLING];       /* the pattern around operands, over and over */
};

static char filling(size_t at) { return (char)(at * 167 + (at >> 8) * 31 + 13); }

/* Bytes from..to of a map's data get the pattern, or where it is disturbed: `to` where nowhere. */
static void fill(const tg_gates *g, char *data, size_t from, size_t to) {
  for (size_t n; from < to; from += n) {
    n = FILLING - from % FILLING;
    if (n > to - from) n = to - from;
    memcpy(data + from, g->filling + from % FILLING, n);
  }
}

static size_t disturbed(const tg_gates *g, const char *data, size_t from, size_t to) {
  for (size_t n; from < to; from += n) {
    n = FILLING - from % FILLING;
    if (n > to - from) n = to - from;
    if (!memcmp(data + from, g->filling + from % FILLING, n)) continue;
    while (data[from] == filling(from)) from++;
    return from;
  }
  return to;
}

static void guard(tg_gates *g, int part, const char *name, size_t bytes, bool front) {
  guarded *p = &g->part[part];
  p->name = name;
  if (!tg_guard_take(&p->in, bytes, 64, front)) tg_fail(&g->env, TG_ENOMEM, "error: no memory for %zu bytes between two pages without access", bytes);
  fill(g, p->in.room, 0, p->in.room_bytes);
}

static void drop_parts(tg_gates *g) {
  for (int i = 0; i < PARTS; i++)
    tg_guard_drop(&g->part[i].in);
  memset(g->part, 0, sizeof g->part);
}

bool tg_gate_at(const tg_gates *g, const void *address, char *out, size_t n) {
  const char *x = address;
  for (int i = 0; i < PARTS; i++) {
    const guarded *p = &g->part[i];
    const char *at = p->in.data;
    if (!p->in.map || x < p->in.map || x >= p->in.map + p->in.map_bytes) continue;
    if (x < at) snprintf(out, n, "%zu bytes before the beginning of %s", (size_t)(at - x), p->name);
    else if (x < at + p->in.bytes) snprintf(out, n, "in %s", p->name);
    else snprintf(out, n, "%zu bytes behind the end of %s", (size_t)(x - at) - p->in.bytes, p->name);
    return true;
  }
  return false;
}

static void put(tg_type t, char *at, size_t i, double v) {
  tg_value x = {0};
  switch (t) {
  case TG_F32: ((float *)(void *)at)[i] = (float)v; return;
  case TG_F64: ((double *)(void *)at)[i] = v; return;
  case TG_I32: ((int32_t *)(void *)at)[i] = (int32_t)v; return;
  case TG_I8: ((int8_t *)at)[i] = (int8_t)v; return;
  case TG_U8: ((uint8_t *)at)[i] = (uint8_t)v; return;
  default: break;
  }
  if (tg_is_float(t)) x.f = v;
  else x.i = (tg_i128)v;
  uint64_t bits = tg_value_bits(t, x);
  size_t size = (size_t)tg_type_bytes(t);
  memcpy(at + i * size, &bits, size);
}

static double get(tg_type t, const char *at, size_t i) {
  uint64_t bits = 0;
  switch (t) {
  case TG_F32: return (double)((const float *)(const void *)at)[i];
  case TG_F64: return ((const double *)(const void *)at)[i];
  case TG_I32: return ((const int32_t *)(const void *)at)[i];
  case TG_I8: return ((const int8_t *)at)[i];
  case TG_U8: return ((const uint8_t *)at)[i];
  default: break;
  }
  size_t size = (size_t)tg_type_bytes(t);
  memcpy(&bits, at + i * size, size);
  tg_value v = tg_value_from_bits(t, bits);
  return tg_is_float(t) ? v.f : (double)(int64_t)v.i;
}

/* How a matrix lies: elements from a row to the next, and from a column to the next. */
typedef struct { int64_t rows, columns, row, column; } lying;

static lying lie(uint8_t major, int64_t by, int64_t rows, int64_t columns, int64_t pad) {
  int64_t step = major == TG_GEMM_STRIDES ? 1 + pad % 3 : by > 1 ? by : 1;
  bool turned = major == TG_GEMM_COLUMN || (major == TG_GEMM_STRIDES && pad % 2);
  return (lying){rows, columns, turned ? step : columns * step + pad, turned ? rows * step + pad : step};
}

static size_t place(const lying *l, int64_t r, int64_t c) { return (size_t)(r * l->row + c * l->column); }
static size_t bytes_of(const lying *l, tg_type t) { return (place(l, l->rows - 1, l->columns - 1) + 1) * (size_t)tg_type_bytes(t); }
/* From a line of a matrix to the next; or from a row. */
static int64_t leading(uint8_t major, const lying *l) { return major == TG_GEMM_COLUMN ? l->column : l->row; }

static void put_all(tg_type t, char *at, const lying *l, const double *x) {
  for (int64_t r = 0; r < l->rows; r++)
    for (int64_t c = 0; c < l->columns; c++) put(t, at, place(l, r, c), x[r * l->columns + c]);
}

/* Poison between rows: NaN where there is one. */
static void lay(tg_gates *g, int part, const char *name, tg_type t, const lying *l, const double *x) {
  guard(g, part, name, bytes_of(l, t), g->which->front);
  memset(g->part[part].in.data, 0xff, g->part[part].in.bytes);
  put_all(t, g->part[part].in.data, l, x);
}

/* Weights of few bits, in memory of their own form, and what belongs to them. */
static void lay_weights(tg_gates *g, const gate_product *p, const lying *b, tg_gemm_operands *o) {
  const tg_gemm_problem *q = g->problem;
  bool by_column = q->group_major == TG_GEMM_COLUMN;
  int64_t n = g->which->n, ld = b->row > b->column ? b->row : b->column;
  if (q->bits == 4) ld += ld % 2;
  if (q->b_major == TG_GEMM_STRIDES && !q->panel) lay(g, 1, "B", q->b, b, p->whole), ld = b->row;
  else {
    guard(g, 1, "B", tg_gate_lay_weights(p, ld, NULL), g->which->front);
    memset(g->part[1].in.data, 0xff, g->part[1].in.bytes);
    tg_gate_lay_weights(p, ld, (uint8_t *)g->part[1].in.data);
  }
  lying l = {p->groups, n, by_column ? 1 : n + g->which->pad_b, by_column ? p->groups + g->which->pad_b : 1};
  lay(g, SCALE, "scale", q->scale, &l, p->scale);
  if (q->zero) lay(g, ZERO, "zero", q->zero, &l, p->zero);
  o->ldb = q->bits == 4 ? ld / 2 : ld;
  o->ld_group = by_column ? l.column : l.row;
}

/* C's elements get the pattern that is around them, or NaN. */
static void each_byte(tg_gates *g, const lying *l, bool poison) {
  size_t size = (size_t)tg_type_bytes(g->problem->c), first = (size_t)(g->part[2].in.data - g->part[2].in.room);
  bool turned = l->row < l->column;   /* by lines of neighbours */
  int64_t lines = turned ? l->columns : l->rows, along = turned ? l->rows : l->columns, step = turned ? l->row : l->column;
  char *base = g->part[2].in.room;
  for (int64_t i = 0; i < lines; i++)
    for (int64_t k = 0, n = step == 1 ? along : 1; k < along; k += n) {
      size_t at = first + (turned ? place(l, k, i) : place(l, i, k)) * size, bytes = (size_t)n * size;
      if (poison) memset(base + at, 0xff, bytes);
      else fill(g, base, at, at + bytes);
    }
}

/* C: what is read, or poison; between its rows a pattern that must stay. */
static void lay_c(tg_gates *g, const lying *l, const double *x) {
  guard(g, 2, "C", bytes_of(l, g->problem->c), g->which->front);
  if (x) put_all(g->problem->c, g->part[2].in.data, l, x);
  else each_byte(g, l, true);
}

/* ---- verdicts ---- */

static void wrong(tg_gates *g, int64_t row, int64_t column, double got, double want, const char *format, ...) TG_PRINTF(6, 7);
static void wrong(tg_gates *g, int64_t row, int64_t column, double got, double want, const char *format, ...) {
  const tg_gate_case *w = g->which;
  tg_gate_failure *f = g->failure;
  if (g->wrong) return;
  g->wrong = true;
  *f = (tg_gate_failure){.which = *w, .row = row, .column = column, .got = got, .want = want};
  int n = snprintf(f->text, sizeof f->text, "gate '%s', M %lld, N %lld, K %lld, alpha %g, beta %g, pads %lld %lld %lld%s, seed %llu: ", tg_gate_name(w->gate), (long long)w->m, (long long)w->n,
                   (long long)w->k, w->alpha, w->beta, (long long)w->pad_a, (long long)w->pad_b, (long long)w->pad_c, w->front ? ", behind a page" : "", (unsigned long long)w->seed);
  va_list v;
  va_start(v, format);
  vsnprintf(f->text + n, sizeof f->text - (size_t)n, format, v);
  va_end(v);
}

static void wrong_element(tg_gates *g, int64_t i, int64_t j, double got, double want) {
  wrong(g, i, j, got, want, "C[%lld,%lld] is %.17g instead of %.17g", (long long)i, (long long)j, got, want);
}

/* What lies around C and between its rows is as it was. C's own elements are given up. */
static void judge_padding(tg_gates *g, const lying *l) {
  const guarded *p = &g->part[2];
  size_t size = (size_t)tg_type_bytes(g->problem->c), first = (size_t)(p->in.data - p->in.room), data = p->in.room_bytes;
  const char *base = p->in.room;
  each_byte(g, l, false);
  size_t i = disturbed(g, base, 0, data);
  if (i == data) return;
  if (i < first) wrong(g, -1, -1, 0, 0, "written %zu bytes before C", first - i);
  else if (i >= first + p->in.bytes) wrong(g, -1, -1, 0, 0, "written %zu bytes behind the end of C", i - first - p->in.bytes);
  else {
    int64_t at = (int64_t)((i - first) / size), step = l->row > l->column ? l->row : l->column;
    wrong(g, -1, -1, 0, 0, "written between the elements of C, %lld elements behind the beginning of %s %lld", (long long)(at % step), l->row >= l->column ? "row" : "column", (long long)(at / step));
  }
}

static void judge_inputs(tg_gates *g) {
  for (int i = 0; i < PARTS; i++) {
    const guarded *p = &g->part[i];
    if (i != 2 && p->in.map && tg_hash(p->in.room, p->in.room_bytes, 0) != p->hash) wrong(g, -1, -1, 0, 0, "%s was written", p->name);
  }
}

/* ---- one run ---- */

static tg_argument argument(const guarded *p) { return (tg_argument){p->in.data, p->in.bytes}; }

/* Runs the candidate on p; what must hold of memory is judged, C comes back. */
static double *run(tg_gates *g, gate_product *p) {
  const tg_gemm_problem *q = g->problem;
  const tg_gate_case *w = g->which;
  lying a = lie(q->a_major, q->a_step, w->m, w->k, w->pad_a), b = lie(q->b_major, q->b_step, w->k, w->n, w->pad_b), c = lie(q->c_major, q->c_step, w->m, w->n, w->pad_c), one = {1, 1, 1, 1};
  char message[512] = "";
  lay(g, 0, "A", q->a, &a, p->a);
  if (!q->bits) lay(g, 1, "B", q->b, &b, p->b);
  lay_c(g, &c, p->beta != 0 || !w->poison ? p->c : NULL);
  if (q->alpha) lay(g, 3, "alpha", q->acc, &one, &p->alpha);
  if (q->beta) lay(g, 4, "beta", q->acc, &one, &p->beta);
  tg_gemm_operands o = {.m = w->m, .n = w->n, .k = w->k, .lda = leading(q->a_major, &a), .ldb = leading(q->b_major, &b), .ldc = leading(q->c_major, &c), .stepa = a.column, .stepb = b.column,
                        .stepc = c.column};
  if (q->bits) lay_weights(g, p, &b, &o);
  o.scale = argument(&g->part[SCALE]), o.zero = argument(&g->part[ZERO]);
  for (uint32_t i = 0; i < q->arguments_n; i++) {
    int64_t columns = q->argument[i].per == 3 ? w->n : p->argument_n[i];
    lying l = lie(TG_GEMM_ROW, 1, p->argument_n[i] / columns, columns, q->argument[i].per == 3 ? w->pad_c : 0);
    o.ld_arg[i] = l.row;
    lay(g, 5 + (int)i, q->argument[i].name, q->argument[i].type, &l, p->argument[i]);
    o.argument[i] = argument(&g->part[5 + i]);
  }
  o.a = argument(&g->part[0]), o.b = argument(&g->part[1]), o.c = argument(&g->part[2]), o.alpha = argument(&g->part[3]), o.beta = argument(&g->part[4]);
  for (int i = 0; i < PARTS; i++)
    if (g->part[i].in.map) g->part[i].hash = tg_hash(g->part[i].in.room, g->part[i].in.room_bytes, 0);
  bool alone = g->run == tg_gate_run_kernel && (((const tg_gate_kernel *)g->user)->threads | 1) == 1;
  double (*clock)(void) = alone ? tg_thread_now : tg_now, start = clock();   /* on one thread its own time */
  tg_status status = g->run(g->user, &o, message, sizeof message);
  g->seconds = clock() - start;
  if (status != TG_OK) return wrong(g, -1, -1, 0, 0, "it cannot be run: %s", message), NULL;
  double *got = tg_new(&g->env, double, w->m * w->n);
  for (int64_t i = 0; i < w->m; i++)
    for (int64_t j = 0; j < w->n; j++) got[i * w->n + j] = get(q->c, g->part[2].in.data, place(&c, i, j));
  judge_padding(g, &c);
  judge_inputs(g);
  return got;
}

/* ---- blocks of C that are compared ---- */

enum { SAMPLES = 12 };

static const int64_t *sample(gate_product *p, int64_t n, int64_t *count) {
  if (n <= SAMPLES) return *count = n, NULL;
  int64_t *x = tg_new(p->env, int64_t, SAMPLES);
  for (int i = 0; i < SAMPLES; i++) x[i] = i == 0 ? 0 : i == 1 ? n - 1 : (int64_t)(tg_gate_random(p) % (uint64_t)n);
  return *count = SAMPLES, x;
}

/* All of C, or some rows and some columns of it. */
static int blocks_of(tg_gates *g, gate_product *p, gate_block block[2]) {
  const tg_gate_case *w = g->which;
  block[0] = block[1] = (gate_block){.rows_n = w->m, .columns_n = w->n};
  if ((double)w->m * (double)w->n * (double)w->k <= g->work) return 1;
  block[0].rows = sample(p, w->m, &block[0].rows_n);
  block[1].columns = sample(p, w->n, &block[1].columns_n);
  return 2;
}

static double in_block(const gate_block *b, const double *got, int64_t n, int64_t r, int64_t s, int64_t *i, int64_t *j) {
  *i = b->rows ? b->rows[r] : r, *j = b->columns ? b->columns[s] : s;
  return got[*i * n + *j];
}

static bool same(double got, double want) { return got == want || (got != got && want != want); }   /* the sign of zero depends on the order of a sum */

static void judge_exact(tg_gates *g, const gate_product *p, const gate_block *b, const double *got) {
  double *sum = tg_new(&g->env, double, b->rows_n * b->columns_n);
  tg_gate_sum(p, b, false, sum, NULL);
  for (int64_t r = 0; r < b->rows_n; r++)
    for (int64_t s = 0; s < b->columns_n; s++) {
      int64_t i, j;
      double v = in_block(b, got, g->which->n, r, s, &i, &j), want = tg_gate_rounded(g->problem, sum[r * b->columns_n + s]);
      if (!same(v, want)) return wrong_element(g, i, j, v, want);
    }
}

static void judge_random(tg_gates *g, const gate_product *p, const gate_block *b, const double *got) {
  size_t n = (size_t)(b->rows_n * b->columns_n);
  double *want = tg_new(&g->env, double, n), *magnitude = tg_new(&g->env, double, n);
  tg_type t = g->problem->c;
  char *seen = tg_alloc(&g->env, n * (size_t)tg_type_bytes(t));
  tg_gate_sum(p, b, g->problem->acc == TG_F64, want, magnitude);
  int64_t i, j;
  for (size_t e = 0; e < n; e++) {
    put(t, seen, e, in_block(b, got, g->which->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j));
    magnitude[e] = ldexp(magnitude[e], tg_gate_bits(t) - tg_gate_bits(g->problem->acc));   /* eps of the type that sums */
  }
  tg_difference d;
  tg_comparison c = {.type = t, .want_type = TG_F64, .n = n, .got = seen, .want = want, .terms = (double)g->which->k, .magnitude = magnitude};
  if (tg_compare(&c, &d)) return;
  in_block(b, got, g->which->n, (int64_t)d.worst / b->columns_n, (int64_t)d.worst % b->columns_n, &i, &j);
  wrong(g, i, j, d.got, d.want, "%zu of %zu differ; C[%lld,%lld] is %.17g instead of %.17g: %.3g away, %.3g allowed", d.wrong, n, (long long)i, (long long)j, d.got, d.want, d.error, d.bound);
}

/* ---- the epilogue by itself ---- */

/* The caller's m and n are j and i in a problem of transposes. */
static void compile_epilogue(tg_gates *g) {
  const tg_gemm_problem *q = g->problem;
  const char *const dims[] = {"[1]", "[R]", "[S]", "[R, S], [LD, 1]"}, *const places[] = {"0", "m", "n", "m,n"};
  tg_str s = tg_str_new(&g->env);
  tg_str_printf(&s, "kernel epilogue(R, S, LD) { in(gate_sum, %s, [R, S]);", tg_type_name[q->acc]);
  for (uint32_t i = 0; i < q->arguments_n; i++) tg_str_printf(&s, " in(gate_arg%u, %s, %s);", i, tg_type_name[q->argument[i].type], dims[q->argument[i].per & 3]);
  tg_str_printf(&s, " out(gate_c, %s, [R, S]);\nrange(m, R) range(n, S) { let acc = gate_sum[m,n];", tg_type_name[q->c]);
  for (uint32_t i = 0; i < q->arguments_n; i++) tg_str_printf(&s, " let %s = %s(gate_arg%u[%s]);", q->argument[i].name, tg_type_name[q->acc], i, places[q->argument[i].per & 3]);
  tg_str_printf(&s, " gate_c[m,n] = %s(%s); } }\n", tg_type_name[q->c], q->epilogue);
  tg_binding b[] = {{"R", 1, INT32_MAX, 1}, {"S", 1, INT32_MAX, 1}, {"LD", 1, INT32_MAX, 1}};
  tg_compile_options o = {.bindings = b, .bindings_n = 3, .flags = TG_COMPILE_AS_WRITTEN | TG_COMPILE_NO_CACHE};
  tg_status status = tg_kernel_compile_text(g->context, "epilogue", s.data, &o, &g->epilogue);
  if (status) tg_fail(&g->env, status, "%s", tg_error_message(g->context));
}

static void judge_epilogue(tg_gates *g, const gate_product *p, const gate_block *b, const double *got) {
  const tg_gemm_problem *q = g->problem;
  const tg_gate_case *w = g->which;
  if (!g->epilogue) compile_epilogue(g);
  size_t n = (size_t)(b->rows_n * b->columns_n), all = (size_t)(w->m * w->n), acc = (size_t)tg_type_bytes(q->acc), size = (size_t)tg_type_bytes(q->c);
  double *sum = tg_new(&g->env, double, n);
  char *in = tg_alloc(&g->env, all * acc), *out = tg_alloc(&g->env, all * size);   /* whole: it may read m and n themselves */
  int64_t i, j;
  tg_gate_sum(p, b, false, sum, NULL);
  for (size_t e = 0; e < n; e++) {
    in_block(b, got, w->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j);
    put(q->acc, in, (size_t)(i * w->n + j), sum[e]);
  }
  tg_argument buffers[TG_GEMM_ARGUMENTS + 2] = {{in, all * acc}};
  for (uint32_t x = 0; x < q->arguments_n; x++) buffers[1 + x] = argument(&g->part[5 + x]);
  buffers[1 + q->arguments_n] = (tg_argument){out, all * size};
  int64_t rows = w->m, columns = w->n, params[] = {rows, columns, columns + w->pad_c};
  tg_launch l = {.buffers = buffers, .buffers_n = q->arguments_n + 2, .params = params, .params_n = 3};
  tg_status status = tg_kernel_run(g->epilogue, &l);
  if (status) tg_fail(&g->env, status, "%s", tg_error_message(g->context));
  for (size_t e = 0; e < n; e++) {
    double v = in_block(b, got, w->n, (int64_t)e / b->columns_n, (int64_t)e % b->columns_n, &i, &j), want = get(q->c, out, (size_t)(i * w->n + j));
    if (!same(v, want)) return wrong_element(g, i, j, v, want);
  }
}

/* ---- a check ---- */

static void check(void *arg) {
  tg_gates *g = arg;
  const tg_gate_case *w = g->which;
  gate_product p = {.env = &g->env, .problem = g->problem, .which = *w};
  gate_block block[2];
  if (w->m < 1 || w->n < 1 || w->k < 1 || !tg_gate_applies(g->problem, w->gate))
    tg_fail(&g->env, TG_EINVAL, "error: gate '%s' has nothing to check at M %lld, N %lld, K %lld of this problem", tg_gate_name(w->gate), (long long)w->m, (long long)w->n, (long long)w->k);
  tg_gate_fill(&p);
  const double *got = run(g, &p);
  if (!got || g->wrong) return;
  int n = blocks_of(g, &p, block);
  for (int i = 0; i < n && !g->wrong; i++) {
    if (w->gate == TG_GATE_EPILOGUE) judge_epilogue(g, &p, &block[i], got);
    else if (w->gate == TG_GATE_RANDOM) judge_random(g, &p, &block[i], got);
    else judge_exact(g, &p, &block[i], got);
  }
  int64_t row = -1, column = -1;
  if (w->gate != TG_GATE_FREIVALDS || g->wrong || tg_gate_freivalds(&p, got, &row, &column)) return;
  if (row >= 0 && column >= 0) {
    double sum;
    gate_block b = {&row, &column, 1, 1};
    tg_gate_sum(&p, &b, false, &sum, NULL);
    wrong(g, row, column, got[row * w->n + column], sum, "row %lld and column %lld are wrong; C[%lld,%lld] is %.17g instead of %.17g", (long long)row, (long long)column, (long long)row,
          (long long)column, got[row * w->n + column], sum);
  } else wrong(g, row, column, 0, 0, "%s %lld of C is wrong", row >= 0 ? "row" : "column", (long long)(row >= 0 ? row : column));
}

tg_status tg_gate_check(tg_gates *g, tg_gemm_candidate *candidate, void *user, const tg_gate_case *c, tg_gate_failure *failure) {
  tg_env_init(&g->env, &g->context->env.allocator);
  g->env.blocks = &g->context->blocks;
  g->run = candidate, g->user = user, g->which = c, g->failure = failure, g->wrong = false;
  *failure = (tg_gate_failure){.which = *c, .row = -1, .column = -1};
  bool decided = tg_protect(&g->env, check, g);
  if (!decided) snprintf(failure->text, sizeof failure->text, "%.1000s", g->env.message);
  tg_status s = g->env.status;
  drop_parts(g);
  tg_env_drop(&g->env);
  return !decided ? s == TG_EINVAL ? TG_INTERNAL : s : g->wrong ? TG_EINVAL : TG_OK;
}

/* ---- all that applies ---- */

const char *tg_gate_name(tg_gemm_gate g) {
  static const char *const names[TG_GATE__COUNT] = {"exact", "freivalds", "rounded", "extremes", "epilogue", "random"};
  return g < TG_GATE__COUNT ? names[g] : "none";
}

bool tg_gate_applies(const tg_gemm_problem *p, tg_gemm_gate gate) {
  bool bytes = tg_type_bits(p->a) == 8 && tg_type_bits(p->b) == 8 && !tg_is_float(p->a) && !tg_is_float(p->b) && !tg_is_float(p->acc);
  bool narrower = tg_is_float(p->c) && tg_is_float(p->acc) && tg_gate_bits(p->c) < tg_gate_bits(p->acc);
  if (p->epilogue) return gate == TG_GATE_EPILOGUE;
  switch (gate) {
  case TG_GATE_EXACT: return true;
  case TG_GATE_FREIVALDS: return true;
  case TG_GATE_ROUNDED: return narrower;
  case TG_GATE_EXTREMES: return bytes;
  case TG_GATE_RANDOM: return tg_is_float(p->acc) && tg_is_float(p->c);
  default: return false;
  }
}

void tg_gates_leading(tg_gates *g, const int64_t ld[3]) { memcpy(g->ld, ld, sizeof g->ld); }

/* The elements between rows (or columns): as they come, or what the leading dimension leaves. */
static int64_t pad_of(const tg_gates *g, int which, uint8_t major, int64_t step, int64_t rows, int64_t columns, int64_t any) {
  return g->ld[which] && major != TG_GEMM_STRIDES ? g->ld[which] - (major == TG_GEMM_COLUMN ? rows : columns) * (step > 1 ? step : 1) : any;
}

/* The case of a size: leading dimensions as they must be, or as they come. */
static tg_gate_case case_of(const tg_gates *g, tg_gemm_gate gate, const tg_gate_size *z, const int64_t *pad, const double *factors, uint64_t seed) {
  const tg_gemm_problem *p = g->problem;
  return (tg_gate_case){.gate = gate, .m = z->m, .n = z->n, .k = z->k, .pad_a = pad_of(g, 0, p->a_major, p->a_step, z->m, z->k, pad[0]), .pad_b = pad_of(g, 1, p->b_major, p->b_step, z->k, z->n, pad[1]),
                        .pad_c = pad_of(g, 2, p->c_major, p->c_step, z->m, z->n, pad[2]), .alpha = factors[0], .beta = factors[1], .seed = seed};
}

tg_status tg_gates_check_once(tg_gates *g, tg_gemm_candidate *candidate, void *user, const tg_gate_size *size, uint64_t seed, double *seconds, tg_gate_failure *failure) {
  static const int64_t dense[3] = {0, 0, 0};
  static const double factors[2] = {1, 1};
  tg_gate_case c = case_of(g, g->problem->epilogue ? TG_GATE_EPILOGUE : TG_GATE_FREIVALDS, size, dense, factors, seed & ~(uint64_t)3);   /* nothing endless */
  tg_status s = tg_gate_check(g, candidate, user, &c, failure);
  *seconds = g->seconds;
  return s;
}

tg_status tg_gates_check(tg_gates *g, tg_gemm_candidate *candidate, void *user, const tg_gate_size *sizes, uint32_t sizes_n, uint64_t seed, tg_gate_failure *failure) {
  static const double factors[][2] = {{1, 0}, {-1, 1}, {2, -2}, {1, 1}, {-2, 0}};
  static const int64_t pads[][3] = {{0, 0, 0}, {1, 3, 7}, {5, 1, 2}};
  uint64_t turn = seed;
  for (uint32_t s = 0; s < sizes_n; s++) {
    const tg_gate_size *z = &sizes[s];
    bool large = (double)z->m * (double)z->n * (double)z->k > g->work;
    for (int gate = 0; gate < TG_GATE__COUNT; gate++) {
      if (!tg_gate_applies(g->problem, (tg_gemm_gate)gate) || (gate == TG_GATE_EXACT && large) || (gate == TG_GATE_FREIVALDS && !large)) continue;
      int rounds = gate == TG_GATE_EXACT || gate == TG_GATE_EPILOGUE ? 3 : gate == TG_GATE_ROUNDED ? 2 : 1;
      for (int i = 0; i < rounds; i++, turn++) {
        const double *f = factors[gate == TG_GATE_ROUNDED ? turn % 2 : turn % TG_COUNT(factors)];
        const int64_t *pad = pads[turn % TG_COUNT(pads)];
        tg_gate_case c = case_of(g, (tg_gemm_gate)gate, z, pad, f, tg_mix(seed, turn));
        c.poison = candidate != tg_gate_run_kernel, c.front = turn % 4 == 3;
        tg_status status = tg_gate_check(g, candidate, user, &c, failure);
        if (status) return status;
      }
    }
  }
  return TG_OK;
}

tg_status tg_gates_open(tg_context *c, const tg_gemm_problem *problem, double work, tg_gates **out) {
  tg_allocator a = c->env.allocator;
  tg_gates *g = a.alloc(a.user, sizeof *g);
  *out = g;
  if (!g) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  memset(g, 0, sizeof *g);
  for (size_t i = 0; i < FILLING; i++) g->filling[i] = filling(i);
  g->context = c, g->problem = problem, g->work = work > 0 ? work : 1 << 25;
  return TG_OK;
}

void tg_gates_close(tg_gates *g) {
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
  const struct { const char *name; int64_t v; } all[] = {{"M", o->m}, {"N", o->n}, {"K", o->k}, {"lda", o->lda}, {"ldb", o->ldb}, {"ldc", o->ldc},
                                                        {"ld_group", o->ld_group}, {"stepa", o->stepa}, {"stepb", o->stepb}, {"stepc", o->stepc}};
  for (unsigned i = 0; i < TG_COUNT(all); i++)
    if (!strcmp(all[i].name, name)) return *v = all[i].v, true;
  uint32_t i;
  if (numbered(name, "ld_arg", &i)) return *v = o->ld_arg[i], true;
  return false;
}

static bool buffer(const tg_gemm_operands *o, const char *name, tg_argument *out) {
  const struct { const char *name; tg_argument v; } all[] = {{"A", o->a}, {"B", o->b}, {"C", o->c}, {"alpha", o->alpha}, {"beta", o->beta}, {"Bp", o->b}, {"scale", o->scale}, {"zero", o->zero}};
  for (unsigned i = 0; i < TG_COUNT(all); i++)
    if (!strcmp(all[i].name, name)) return *out = all[i].v, true;
  uint32_t i;
  if (numbered(name, "arg", &i)) return *out = o->argument[i], true;
  return false;
}

tg_status tg_gate_run_kernel(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  const tg_gate_kernel *k = user;
  const tg_kernel_info *info = tg_kernel_describe(k->kernel);
  enum { MOST = 32 };
  int64_t params[MOST];
  tg_argument buffers[MOST];
  if (!info || info->params_n > MOST || info->buffers_n > MOST) return snprintf(message, n, "the kernel is none of a product"), TG_EINVAL;
  for (uint32_t i = 0; i < info->params_n; i++)
    if (!parameter(o, info->params[i].name, &params[i])) return snprintf(message, n, "its parameter %s is none of a product", info->params[i].name), TG_EINVAL;
  for (uint32_t i = 0; i < info->buffers_n; i++)
    if (!buffer(o, info->buffers[i].name, &buffers[i])) return snprintf(message, n, "its buffer %s is none of a product", info->buffers[i].name), TG_EINVAL;
  tg_launch l = {.buffers = buffers, .buffers_n = info->buffers_n, .params = params, .params_n = info->params_n, .threads = k->threads, .parallel_for = k->parallel_for,
                 .parallel_user = k->parallel_user};
  tg_status s = tg_kernel_run(k->kernel, &l);
  if (s) snprintf(message, n, "%s", tg_error_message(k->context));
  return s;
}
