/* SPDX-License-Identifier: MIT
 * A call of a plan: every field checked, the kernel for its sizes chosen, its operands gathered, and the tasks given to whoever runs them.
 * No lock, no memory, no failure once the checks are passed. */
#include <stdatomic.h>
#include <stdio.h>
#include "gemm/plan.h"

enum { ALIGN = 64, SHARES = 16, SMALL = 4096 };   /* workspaces up to SMALL come from the stack */

typedef struct { int64_t step[2]; uint32_t size; } layout;   /* elements from a row to the next, from a column to the next; bytes of one */

typedef struct {
  const tg_gemm *g;
  const tg_gemm_call *call;
  int64_t m, n, k, batch;
  layout at[3];                        /* of A, B, C */
  int64_t b_rows, b_columns;           /* of B in memory: two elements of four bits are one */
  int64_t apart[3];                    /* bytes from one product's to the next's */
  const void *const *list[3];
  void *operand[GEMM_OPERANDS];
  int64_t value[GEMM_VALUES];
  bool nothing, update;                /* neither A nor B is read; C is read */
  char *workspace;
  uint32_t threads;
  tg_parallel_for *parallel_for;
  void *user;
  struct { _Alignas(ALIGN) atomic_llong n; } taken[SHARES];   /* products of each share that somebody has taken */
} run;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t shares_of(uint32_t threads) { return smaller(threads, SHARES); }

static tg_status wrong(const tg_gemm *g, const char *format, ...) TG_PRINTF(2, 3);
static tg_status wrong(const tg_gemm *g, const char *format, ...) {
  char message[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  return tg_context_fail(g->context, TG_EINVAL, message);
}

/* ---- checks ---- */

static bool read_size(const tg_gemm *g, char name, tg_gemm_dim d, int64_t given, int64_t *out, tg_status *s) {
  *out = d.lo;
  if (d.lo == d.hi ? !given || given == d.lo : given >= d.lo && given <= d.hi) {
    if (d.lo != d.hi) *out = given;
    return true;
  }
  *s = wrong(g, "tg_gemm_call.%c = %lld, but the plan is for %lld..%lld", name, (long long)given, (long long)d.lo, (long long)d.hi);
  return false;
}

/* Strides of one operand, rows by columns: defaults, and what its major and the plan fix. */
static tg_status read_layout(run *r, uint32_t i, const int64_t given[2], uint8_t major, int64_t step, int64_t rows, int64_t columns) {
  const tg_gemm *g = r->g;
  layout *o = &r->at[i];
  int64_t s[2] = {given[0], given[1]};
  uint32_t inner = major == TG_COLUMN_MAJOR ? 0 : 1;
  int64_t by = step > 1 ? step : 1, side = inner ? columns : rows, dense = (side > 1 ? side : 1) * by, least = dense - by + 1, fixed = g->ld[i].lo;
  if (s[0] < 0 || s[1] < 0 || s[0] > (int64_t)1 << 40 || s[1] > (int64_t)1 << 40) return wrong(g, "tg_gemm_call.%c_strides = {%lld, %lld}: a stride is negative or past 2^40", "abc"[i], (long long)given[0], (long long)given[1]);
  if (major == TG_ANY_STRIDES) {
    if (!s[0] && !s[1]) s[0] = columns > 1 ? columns : 1, s[1] = 1;   /* dense, in rows */
  } else {
    if (s[inner] && s[inner] != by && by > 1) return wrong(g, "tg_gemm_call.%c_strides = {%lld, %lld}, but the plan has neighbours %lld elements apart", "abc"[i], (long long)given[0], (long long)given[1], (long long)by);
    if (s[inner] > by) return wrong(g, "tg_gemm_call.%c_strides = {%lld, %lld}, but the plan has neighbours side by side: one of them is 1", "abc"[i], (long long)given[0], (long long)given[1]);
    s[inner] = by;
    int64_t *ld = &s[!inner], others = inner ? rows : columns;
    if (!*ld || others <= 1) *ld = fixed ? fixed : *ld < least ? dense : *ld;
    if (fixed && *ld != fixed) return wrong(g, "tg_gemm_call.%c_strides = {%lld, %lld}, but the plan is for a leading dimension of %lld", "abc"[i], (long long)given[0], (long long)given[1], (long long)fixed);
    if (*ld < least && i == 2) return wrong(g, "tg_gemm_call.c_strides = {%lld, %lld}: rows or columns of %lld elements would overlap", (long long)given[0], (long long)given[1], (long long)side);
  }
  o->step[0] = s[0], o->step[1] = s[1];
  r->value[GEMM_ROW_STEP + i] = s[!inner];
  r->value[GEMM_COLUMN_STEP + i] = s[inner];
  return TG_OK;
}

/* Bytes that the elements of a matrix reach over; false: past 2^62. */
static bool reach(const layout *o, int64_t rows, int64_t columns, int64_t *bytes) {
  int64_t down, right, all;
  *bytes = 0;
  if (rows <= 0 || columns <= 0) return true;
  if (__builtin_mul_overflow(rows - 1, o->step[0], &down) || __builtin_mul_overflow(columns - 1, o->step[1], &right) || __builtin_add_overflow(down, right, &all)) return false;
  if (all >= ((int64_t)1 << 62) / o->size) return false;
  *bytes = (all + 1) * o->size;
  return true;
}

/* The elements of C on places of their own: the longer step beyond all that the shorter one reaches. */
static bool is_apart(const layout *o, int64_t rows, int64_t columns) {
  if (rows <= 1 || columns <= 1) return (rows <= 1 || o->step[0]) && (columns <= 1 || o->step[1]);
  bool tall = o->step[0] > o->step[1];
  int64_t shorter = o->step[tall], n = tall ? columns : rows;
  return shorter > 0 && o->step[!tall] > (n - 1) * shorter;
}

/* A matrix as bytes: lines of `width`, each `pitch` behind the last; pitch 0: it has no such form. */
typedef struct { uintptr_t at; int64_t bytes, width, pitch; } lines;

static lines lines_of(const void *p, const layout *o, int64_t rows, int64_t columns) {
  lines l = {.at = (uintptr_t)p};
  reach(o, rows, columns, &l.bytes);
  bool across = o->step[1] == 1 && (o->step[0] >= columns || rows == 1);   /* a line is a row */
  if (across || o->step[0] == 1) {
    l.width = (across ? columns : rows) * o->size;
    l.pitch = o->step[!across] * o->size;
  }
  return l;
}

/* Do they share no byte? Blocks of one larger matrix may lie between each other's lines. */
static bool is_disjoint(const lines *x, const lines *y) {
  if (!x->bytes || !y->bytes || x->at + (uintptr_t)x->bytes <= y->at || y->at + (uintptr_t)y->bytes <= x->at) return true;
  if (x->pitch != y->pitch || x->pitch <= 0) return false;
  uintptr_t d = x->at < y->at ? (y->at - x->at) % (uintptr_t)x->pitch : (uintptr_t)x->pitch - 1 - (x->at - y->at - 1) % (uintptr_t)x->pitch;   /* from a line of x to one of y */
  return (int64_t)d >= x->width && (int64_t)d + y->width <= x->pitch;
}

static tg_status check_pointer(const tg_gemm *g, uint32_t i, const void *p, int64_t bytes, uint32_t size) {
  if (!p && bytes) return wrong(g, "tg_gemm_call.%c is NULL", "abc"[i]);
  if ((uintptr_t)p & (size - 1)) return wrong(g, "tg_gemm_call.%c is not aligned to its elements of %u bytes", "abc"[i], size);
  return TG_OK;
}

/* What operands of these layouts reach over, wherever they are; bytes: of one product, or of all that lie one behind the other, which have no lines. */
static void shape_operands(const run *r, const int64_t bytes[3], lines out[3]) {
  const int64_t rows[3] = {r->m, r->k, r->m}, columns[3] = {r->k, r->n, r->n};
  for (uint32_t i = 0; i < 3; i++) {
    out[i] = lines_of(NULL, &r->at[i], rows[i], columns[i]);
    if (out[i].bytes != bytes[i]) out[i].bytes = bytes[i], out[i].pitch = 0;
  }
}

/* of: their shape, and room for where they are. */
static tg_status check_operands(const run *r, void *const p[3], lines of[3]) {
  const tg_gemm *g = r->g;
  of[2].at = (uintptr_t)p[2];
  for (uint32_t i = r->nothing ? 2 : 0; i < 3; i++) {
    tg_status s = check_pointer(g, i, p[i], of[i].bytes, r->at[i].size);
    if (s != TG_OK) return s;
    of[i].at = (uintptr_t)p[i];
    if (i < 2 && !(g->flags & TG_GEMM_OVERLAP_UNCHECKED) && !is_disjoint(&of[2], &of[i])) return wrong(g, "tg_gemm_call.c overlaps %c", "abc"[i]);
  }
  return TG_OK;
}

/* What nearly all products are, told in a few instructions: pointers to aligned elements, nothing of C between the ends of A or of B. */
static inline bool is_far_apart(const run *r, void *const p[3], const lines of[3]) {
  uintptr_t a = (uintptr_t)p[0], b = (uintptr_t)p[1], c = (uintptr_t)p[2], ends[3] = {a + (uintptr_t)of[0].bytes, b + (uintptr_t)of[1].bytes, c + (uintptr_t)of[2].bytes};
  return a && b && c && !((a & (r->at[0].size - 1)) | (b & (r->at[1].size - 1)) | (c & (r->at[2].size - 1))) && (ends[2] <= a || ends[0] <= c) && (ends[2] <= b || ends[1] <= c);
}

static bool is_zero(tg_type t, const void *p) {
  float f;
  double d;
  int32_t i;
  if (t == TG_F32) return memcpy(&f, p, sizeof f), f == 0;
  if (t == TG_F64) return memcpy(&d, p, sizeof d), d == 0;
  return memcpy(&i, p, sizeof i), i == 0;
}

static const double one_f64 = 1;
static const float one_f32 = 1;
static const int32_t one_i32 = 1;

static tg_status read_scalars(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  tg_type t = g->problem.acc;
  if (call->alpha && !g->problem.alpha) return wrong(g, "tg_gemm_call.alpha is given, and the plan multiplies by none: tg_gemm_desc.alpha = 1");
  if (call->beta && !g->problem.beta) return wrong(g, "tg_gemm_call.beta is given, and the plan never reads C: tg_gemm_desc.beta = 1");
  r->update = call->beta && !is_zero(t, call->beta);
  r->nothing = r->k == 0 || (call->alpha && is_zero(t, call->alpha));
  const void *one = t == TG_F32 ? (const void *)&one_f32 : t == TG_F64 ? (const void *)&one_f64 : (const void *)&one_i32;
  r->operand[GEMM_ALPHA] = (void *)(uintptr_t)(call->alpha ? call->alpha : one);
  r->operand[GEMM_BETA] = (void *)(uintptr_t)(call->beta ? call->beta : one);
  return TG_OK;
}

static int64_t group_rows(const run *r, int64_t i) { return r->call->group_m ? r->call->group_m[i] : -1; }

static tg_status read_batch(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  r->batch = call->batch ? call->batch : 1;
  if (r->batch < 0) return wrong(g, "tg_gemm_call.batch = %lld", (long long)call->batch);
  r->apart[0] = r->apart[1] = r->apart[2] = 0;
  r->list[0] = call->a_list, r->list[1] = call->b_list, r->list[2] = (const void *const *)call->c_list;
  if (g->problem.bits && (r->batch != 1 || call->group_m || r->list[0] || r->list[1] || r->list[2])) return wrong(g, "tg_gemm_call: products with B of %u bits are one at a time", g->problem.bits);
  if (!call->group_m) return TG_OK;
  tg_gemm_dim d = g->problem.m;
  int64_t all = 0;
  if (call->batch_strides) return wrong(g, "tg_gemm_call: batch_strides beside group_m, which says where groups lie");
  for (int64_t i = 0; i < r->batch; i++) {
    int64_t rows = group_rows(r, i);
    if (rows && (rows < d.lo || rows > d.hi)) return wrong(g, "tg_gemm_call.group_m[%lld] = %lld, but the plan is for %lld..%lld", (long long)i, (long long)rows, (long long)d.lo, (long long)d.hi);
    if (__builtin_add_overflow(all, rows, &all)) return wrong(g, "tg_gemm_call.group_m: too many rows");
  }
  r->m = all;   /* of A and of C as wholes */
  return TG_OK;
}

static tg_status read_sizes(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  const tg_gemm_problem *p = &g->problem;
  tg_status s;
  int64_t m = call->group_m ? p->m.lo : call->m;   /* each group has its own */
  if (!read_size(g, 'm', p->m, m, &r->m, &s) || !read_size(g, 'n', p->n, call->n, &r->n, &s) || !read_size(g, 'k', p->k, call->k, &r->k, &s)) return s;
  return read_batch(r);
}

/* B of four bits, as the bytes that it is. */
static tg_status read_nibbles(run *r) {
  const tg_gemm *g = r->g;
  const int64_t *given = r->call->b_strides;
  uint32_t outer = g->problem.b_major == TG_COLUMN_MAJOR;
  int64_t bytes[2] = {given[0], given[1]}, *side = outer ? &r->b_rows : &r->b_columns;
  if (given[outer] % 2) return wrong(g, "tg_gemm_call.b_strides = {%lld, %lld}: %lld elements of four bits are no whole bytes", (long long)given[0], (long long)given[1], (long long)given[outer]);
  if (given[outer] && g->ld[1].lo && given[outer] / 2 != g->ld[1].lo)
    return wrong(g, "tg_gemm_call.b_strides = {%lld, %lld}, but the plan is for a leading dimension of %lld", (long long)given[0], (long long)given[1], (long long)g->ld[1].lo * 2);
  bytes[outer] /= 2;
  *side = (*side + 1) / 2;
  return read_layout(r, 1, bytes, g->problem.b_major, 1, r->b_rows, r->b_columns);
}

/* Scales and zero points. */
static tg_status read_groups(run *r) {
  static const char *const names[] = {"b_scale", "b_zero"};
  const tg_gemm *g = r->g;
  const tg_gemm_problem *p = &g->problem;
  const void *at[] = {r->call->b_scale, r->call->b_zero};
  const tg_type type[] = {p->scale, p->zero};
  bool by_column = p->group_major == TG_COLUMN_MAJOR;
  if (!p->bits) return TG_OK;
  int64_t groups = p->group ? (r->k + p->group - 1) / p->group : 1, rows = by_column ? r->n : groups, columns = by_column ? groups : r->n, ld = r->call->b_group_ld, bytes;
  if (!ld || rows <= 1) ld = columns > ld ? columns > 1 ? columns : 1 : ld;
  if (ld < 1 || ld > (int64_t)1 << 31) return wrong(g, "tg_gemm_call.b_group_ld = %lld is negative or past 2^31", (long long)r->call->b_group_ld);
  r->value[GEMM_GROUP_LD] = ld;
  lines c = lines_of(r->operand[2], &r->at[2], r->m, r->n);
  for (uint32_t i = 0; i < 2; i++) {
    if (i && !p->zero) continue;
    layout l = {{ld, 1}, (uint32_t)tg_type_bytes(type[i])};
    r->operand[GEMM_SCALE + i] = (void *)(uintptr_t)at[i];
    if (r->nothing) continue;
    if (!at[i]) return wrong(g, "tg_gemm_call.%s is NULL", names[i]);
    if ((uintptr_t)at[i] % l.size) return wrong(g, "tg_gemm_call.%s is not aligned to its elements of %u bytes", names[i], l.size);
    if (!reach(&l, rows, columns, &bytes)) return wrong(g, "tg_gemm_call.%s reaches over more than 2^62 bytes", names[i]);
    lines x = lines_of(at[i], &l, rows, columns);
    if (!is_disjoint(&c, &x)) return wrong(g, "tg_gemm_call.c overlaps %s", names[i]);
  }
  return TG_OK;
}

/* An operand of no elements may have no address, and then nothing lies behind it. */
static void *behind(void *p, int64_t bytes) { return bytes ? (char *)p + bytes : p; }

static tg_status read_operands(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  const tg_gemm_problem *p = &g->problem;
  const int64_t *strides[3] = {call->a_strides, call->b_strides, call->c_strides};
  const tg_type type[3] = {p->a, p->b, p->c};
  const uint8_t major[3] = {p->a_major, p->b_major, p->c_major};
  const int64_t step[3] = {p->a_step, p->b_step, p->c_step};
  const int64_t rows[3] = {r->m, r->k, r->m}, columns[3] = {r->k, r->n, r->n};
  int64_t bytes[3];
  r->operand[0] = (void *)(uintptr_t)call->a, r->operand[1] = (void *)(uintptr_t)call->b, r->operand[2] = call->c;
  r->b_rows = r->k, r->b_columns = r->n;
  for (uint32_t i = 0; i < 3; i++) {
    r->at[i].size = (uint32_t)tg_type_bytes(type[i]);
    if (i == 1 && p->bits == 4) r->at[1].size = p->panel ? 4 : 1;
    if (i == 1 && p->panel) {
      r->at[1].step[0] = r->at[1].step[1] = 0;
      bytes[1] = (int64_t)g->packed;
      continue;
    }
    tg_status s = i == 1 && p->bits == 4 ? read_nibbles(r) : read_layout(r, i, strides[i], major[i], step[i], rows[i], columns[i]);
    if (s != TG_OK) return s;
    if (!reach(&r->at[i], i == 1 ? r->b_rows : rows[i], i == 1 ? r->b_columns : columns[i], &bytes[i])) return wrong(g, "tg_gemm_call.%c reaches over more than 2^62 bytes", "abc"[i]);
  }
  if (p->c_major == TG_ANY_STRIDES && !is_apart(&r->at[2], r->m, r->n)) return wrong(g, "tg_gemm_call.c_strides = {%lld, %lld} lay two elements on one place", (long long)call->c_strides[0], (long long)call->c_strides[1]);
  for (uint32_t i = 0; i < 3 && !call->group_m; i++) {
    r->apart[i] = bytes[i];
    if (call->batch_strides && __builtin_mul_overflow(call->batch_strides[i], (int64_t)r->at[i].size, &r->apart[i])) return wrong(g, "tg_gemm_call.batch_strides: too long");
    if (r->apart[i] < 0) return wrong(g, "tg_gemm_call.batch_strides: negative");
  }
  if (call->group_m) r->apart[1] = bytes[1];   /* a B for each group */
  lines of[3];
  shape_operands(r, bytes, of);
  if (r->batch == 1 && !r->list[0] && !r->list[1] && !r->list[2]) return check_operands(r, r->operand, of);
  void *p3[3];
  int64_t all[3];
  for (uint32_t i = 0; i < 3; i++) {
    p3[i] = r->operand[i];
    if (__builtin_mul_overflow(r->apart[i], r->batch - 1, &all[i]) || __builtin_add_overflow(all[i], bytes[i], &all[i])) return wrong(g, "tg_gemm_call.%c reaches over more than 2^62 bytes", "abc"[i]);
  }
  if (!r->list[0] && !r->list[1] && !r->list[2]) {
    if (r->batch > 1 && !call->group_m && r->apart[2] < bytes[2]) return wrong(g, "tg_gemm_call.batch_strides: the products' C overlap");
    shape_operands(r, all, of);
    return check_operands(r, p3, of);
  }
  for (int64_t b = 0; b < r->batch; b++) {
    for (uint32_t i = 0; i < 3; i++) p3[i] = r->list[i] ? (void *)(uintptr_t)r->list[i][b] : behind(r->operand[i], b * r->apart[i]);
    if (is_far_apart(r, p3, of) || (call->group_m && !group_rows(r, b))) continue;
    tg_status s = check_operands(r, p3, of);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

static tg_status read_arguments(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_problem *p = &g->problem;
  int64_t m = r->m, n = r->n;
  lines c = p->arguments_n ? lines_of(r->operand[2], &r->at[2], r->m, r->n) : (lines){0};
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    const void *x = r->call->arg[a];
    int64_t ld = r->call->arg_ld[a], rows = p->argument[a].per == TG_PER_ELEMENT ? m : 1, columns = p->argument[a].per == TG_PER_ALL ? 1 : p->argument[a].per == TG_PER_ROW ? m : n, bytes;
    if (!ld) ld = n > 1 ? n : 1;
    layout at = {{ld, 1}, (uint32_t)tg_type_bytes(p->argument[a].type)};
    if (p->argument[a].per == TG_PER_ELEMENT && (ld < 0 || ld > (int64_t)1 << 31)) return wrong(g, "tg_gemm_call.arg_ld[%u] = %lld is negative or past 2^31", a, (long long)ld);
    if (!reach(&at, rows, columns, &bytes)) return wrong(g, "tg_gemm_call.arg[%u] reaches over more than 2^62 bytes", a);
    if (!x) return wrong(g, "tg_gemm_call.arg[%u] is NULL", a);
    if ((uintptr_t)x % at.size) return wrong(g, "tg_gemm_call.arg[%u] is not aligned to its elements of %u bytes", a, at.size);
    lines l = lines_of(x, &at, rows, columns);
    if (r->batch == 1 && !r->list[2] && !is_disjoint(&c, &l)) return wrong(g, "tg_gemm_call.c overlaps arg[%u]", a);
    r->operand[GEMM_ARG + a] = (void *)(uintptr_t)x;
    r->value[GEMM_ARG_LD + a] = ld;
  }
  return TG_OK;
}

/* ---- running ---- */

static bool within(tg_gemm_dim d, int64_t x) { return x >= d.lo && x <= d.hi; }

static const tg_gemm_part *part_for(const run *r, int64_t m, int64_t n) {
  const tg_gemm *g = r->g;
  for (uint32_t i = 0; i < g->parts_n; i++)
    if (within(g->part[i].m, m) && within(g->part[i].n, n)) return &g->part[i];
  return NULL;
}

/* A kernel and what it is called with; one product's A, B and C differ from the next's. */
typedef struct {
  const tg_gemm_kernel *kernel;
  const tg_gemm_part *strips;  /* the part whose strips make up the product, of m by n; NULL: the kernel is all of it */
  int64_t m, n;
  void *buffers[GEMM_OPERANDS + 1];
  int64_t values[GEMM_VALUES];
  uint8_t place[3];            /* of A, B and C among the buffers; GEMM_OPERANDS: none */
} ready;

static void take_kernel(const run *r, const tg_gemm_kernel *k, int64_t m, int64_t n, ready *out) {
  int64_t mine[2] = {m, n};
  out->kernel = k;
  out->place[0] = out->place[1] = out->place[2] = GEMM_OPERANDS;
  for (uint32_t i = 0; i < k->operands_n; i++) {
    out->buffers[i] = r->operand[k->operand[i]];
    if (k->operand[i] < 3) out->place[k->operand[i]] = (uint8_t)i;
  }
  for (uint32_t i = 0; i < k->values_n; i++) out->values[i] = k->value[i] < 2 ? mine[k->value[i]] : r->value[k->value[i]];
}

static void get_ready(const run *r, int64_t m, int64_t n, ready *out) {
  const tg_gemm_part *part = r->nothing ? NULL : part_for(r, m, n);
  out->strips = part && part->strips.n > 1 ? part : NULL;
  out->m = m, out->n = n;
  if (!out->strips) take_kernel(r, part ? &part->kernel[r->update] : &r->g->nothing[r->update], m, n, out);
}

/* One product, with its operands in place, on so many threads. */
static void launch(const run *r, ready *w, char *workspace, uint32_t threads) {
  if (w->kernel->code) {
    w->kernel->code(w->buffers, w->values, workspace, 0);
    return;
  }
  tg_device_call(w->kernel->kernel->loaded, &(tg_work){.buffers = w->buffers, .params = w->values, .workspace = workspace, .threads = threads, .parallel_for = threads > 1 ? r->parallel_for : NULL, .parallel_user = r->user});
}

/* ---- strips ---- */

typedef struct { const run *r; const tg_gemm_part *part; int64_t m, n; void *product[3]; char *workspace; uint32_t workers; } stripping;

/* Of a packed B. */
static int64_t panel_bytes(const tg_gemm *g) { return (int64_t)g->packed / ((g->problem.n.lo + g->problem.panel - 1) / g->problem.panel); }

static void run_strip(const stripping *s, uint32_t i, char *workspace) {
  const run *r = s->r;
  const tg_gemm_problem *p = &r->g->problem;
  const tg_gemm_strips *all = &s->part->strips;
  int64_t from = (int64_t)i * all->size, m = all->rows ? smaller(s->m - from, all->size) : s->m, n = all->rows ? s->n : smaller(s->n - from, all->size);
  bool last = i + 1 == all->n && s->part->last[r->update].kernel;
  ready w;
  take_kernel(r, last ? &s->part->last[r->update] : &s->part->kernel[r->update], m, n, &w);
  for (uint32_t x = 0; x < 3; x++) {
    bool moves = x == 2 || (x == 0) == all->rows;   /* a strip of rows has all of B, one of columns all of A */
    int64_t bytes = x == 1 && p->panel ? from / p->panel * panel_bytes(r->g) : from * r->at[x].step[!all->rows] * r->at[x].size;
    w.buffers[w.place[x]] = behind(s->product[x], moves ? bytes : 0);
  }
  for (uint32_t x = 0; x < w.kernel->operands_n; x++) {
    bool scale = w.kernel->operand[x] == GEMM_SCALE || w.kernel->operand[x] == GEMM_ZERO;
    if (scale && !all->rows) w.buffers[x] = behind(w.buffers[x], from * (p->group_major == TG_COLUMN_MAJOR ? r->value[GEMM_GROUP_LD] : 1) * tg_type_bytes(w.kernel->operand[x] == GEMM_SCALE ? p->scale : p->zero));
    if (w.kernel->operand[x] < GEMM_ARG) continue;
    uint32_t a = w.kernel->operand[x] - GEMM_ARG;
    uint8_t per = p->argument[a].per;
    int64_t elements = !(per & (all->rows ? TG_PER_ROW : TG_PER_COLUMN)) ? 0 : per == TG_PER_ELEMENT && all->rows ? from * r->value[GEMM_ARG_LD + a] : from;
    w.buffers[x] = behind(w.buffers[x], elements * tg_type_bytes(p->argument[a].type));
  }
  launch(r, &w, workspace, 1);
}

/* Every worker has memory of its own, and every so-manieth strip. */
static void take_strips(void *arg, int64_t worker) {
  const stripping *s = arg;
  for (uint32_t i = (uint32_t)worker; i < s->part->strips.n; i += s->workers) run_strip(s, i, s->workspace + (size_t)worker * (s->r->g->per_thread + s->r->g->shared));
}

static void pool_strips(void *arg, int64_t i, uint32_t worker) {
  (void)worker;
  take_strips(arg, i);
}

static void run_strips(const run *r, const ready *w, void *const product[3], char *workspace, uint32_t threads) {
  stripping s = {r, w->strips, w->m, w->n, {product[0], product[1], product[2]}, workspace, (uint32_t)smaller(threads, w->strips->strips.n)};
  if (s.workers < 2) take_strips(&s, 0);
  else if (r->parallel_for) r->parallel_for(r->user, s.workers, take_strips, &s);
  else tg_pool_run(r->g->context->pool, s.workers, s.workers, pool_strips, &s);
}

/* Those of one size, of a kernel that is one task: a small one is done in the time of a few of the steps below. */
static void run_evenly(const run *r, ready *w, int64_t from, int64_t to, char *workspace) {
  tg_gemm_code *code = w->kernel->code;
  void **a = &w->buffers[w->place[0]], **b = &w->buffers[w->place[1]], **c = &w->buffers[w->place[2]];
  const int64_t apart[3] = {r->apart[0], r->apart[1], r->apart[2]};
  char *const at[3] = {r->operand[0], r->operand[1], r->operand[2]};
  const void *const *const as = r->list[0], *const *const bs = r->list[1], *const *const cs = r->list[2];
  for (int64_t i = from; i < to; i++) {
    *a = as ? (void *)(uintptr_t)as[i] : behind(at[0], i * apart[0]);
    *b = bs ? (void *)(uintptr_t)bs[i] : behind(at[1], i * apart[1]);
    *c = cs ? (void *)(uintptr_t)cs[i] : behind(at[2], i * apart[2]);
    code(w->buffers, w->values, workspace, 0);
  }
}

/* Products from..to on so many threads; first: the groups' rows before them, moved on. */
static void run_products(const run *r, int64_t from, int64_t to, int64_t *first, char *workspace, uint32_t threads) {
  const int64_t *group = r->call->group_m;
  void *product[3];
  ready w;
  if (!group) get_ready(r, r->m, r->n, &w);
  if (!group && !w.strips && w.kernel->code) {
    run_evenly(r, &w, from, to, workspace);
    return;
  }
  for (int64_t b = from; b < to; b++) {
    if (group && !group[b]) continue;
    if (group) get_ready(r, group[b], r->n, &w);
    for (uint32_t i = 0; i < 3; i++) {
      int64_t before = group && i != 1 ? *first * r->at[i].step[0] * r->at[i].size : b * r->apart[i];
      product[i] = r->list[i] ? (void *)(uintptr_t)r->list[i][b] : behind(r->operand[i], before);
      if (!w.strips) w.buffers[w.place[i]] = product[i];
    }
    if (w.strips) run_strips(r, &w, product, workspace, threads);
    else launch(r, &w, workspace, threads);
    if (group) *first += group[b];
  }
}

/* Products one after another, each by one thread: those of a share of its own, which are in its caches if it had them before, then what others have left. Several at a time, as
 * a counter costs more than a small product; but groups differ. */
static void take_products(void *arg, int64_t worker) {
  run *r = arg;
  const tg_gemm *g = r->g;
  char *mine = r->workspace + (size_t)worker * (g->per_thread + g->shared);
  const int64_t *group = r->call->group_m;
  int64_t first = 0, seen = 0, shares = shares_of(r->threads), some = group ? 1 : (r->batch - 1) / (8 * (int64_t)r->threads) + 1;
  for (int64_t i = 0; i < shares; i++) {
    int64_t share = (worker + i) % shares, from = r->batch / shares * share + smaller(share, r->batch % shares), to = from + r->batch / shares + (share < r->batch % shares);
    for (int64_t b; (b = from + atomic_fetch_add_explicit(&r->taken[share].n, some, memory_order_relaxed)) < to;) {
      if (b < seen) first = seen = 0;
      for (; group && seen < b; seen++) first += group[seen];
      run_products(r, b, smaller(b + some, to), &first, mine, 1);
      seen = b + some;
    }
  }
}

static void pool_products(void *arg, int64_t i, uint32_t worker) {
  (void)i;
  take_products(arg, worker);
}

static void run_all(run *r) {
  uint32_t teams = r->threads;
  if (teams > 1 && r->batch >= 2 * (int64_t)teams) {
    for (int64_t i = 0; i < shares_of(teams); i++) atomic_store_explicit(&r->taken[i].n, 0, memory_order_relaxed);
    if (r->parallel_for) r->parallel_for(r->user, teams, take_products, r);
    else tg_pool_run(r->g->context->pool, teams, teams, pool_products, r);
    return;
  }
  int64_t first = 0;
  run_products(r, 0, r->batch, &first, r->workspace, teams);
}

static uint32_t threads_of(const tg_gemm *g, const tg_gemm_call *call) {
  uint32_t n = !call->exec ? g->threads : call->exec->parallel_for && call->exec->threads > 1 ? (uint32_t)call->exec->threads : 1;
  return call->threads > 0 && (uint32_t)call->threads < n ? (uint32_t)call->threads : n;
}

/* A team of threads on one product has one shared memory; products side by side, and strips, have one each. */
static size_t workspace_bytes(const tg_gemm *g, uint32_t threads, bool batched) {
  return threads * g->per_thread + (batched || g->strips ? threads : 1) * g->shared;
}

size_t tg_gemm_workspace_sized(const tg_gemm *g, const tg_gemm_call *given, size_t call_bytes) {
  tg_gemm_call call = {0};
  if (!g) return 0;
  if (given) memcpy(&call, given, call_bytes < sizeof call ? call_bytes : sizeof call);
  size_t n = workspace_bytes(g, given ? threads_of(g, &call) : g->most, !given || call.batch > 1);
  return n <= SMALL ? 0 : n + ALIGN;
}

static tg_status run_in(run *r, char *memory) {
  r->workspace = memory + (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN;
  run_all(r);
  return TG_OK;
}

static tg_status run_on_stack(run *r) {
  char memory[SMALL + ALIGN];
  return run_in(r, memory);
}

tg_status tg_gemm_run_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes) {
  tg_gemm_call copy;
  if (!g) return TG_EINVAL;
  if (!call) return wrong(g, "no call is given");
  if (call_bytes < sizeof copy) {   /* of a program built against an older header */
    memset(&copy, 0, sizeof copy);
    memcpy(&copy, call, call_bytes);
    call = &copy;
  }
  run r;
  r.g = g, r.call = call;
  tg_status s = read_sizes(&r);
  if (s != TG_OK || !r.m || !r.n) return s;
  if ((s = read_scalars(&r)) != TG_OK || (s = read_operands(&r)) != TG_OK || (s = read_groups(&r)) != TG_OK || (s = read_arguments(&r)) != TG_OK) return s;
  r.value[GEMM_M] = r.m, r.value[GEMM_N] = r.n, r.value[GEMM_K] = r.k;
  r.threads = threads_of(g, call);
  r.parallel_for = call->exec ? call->exec->parallel_for : NULL;
  r.user = call->exec ? call->exec->user : NULL;
  size_t needed = workspace_bytes(g, r.threads, r.batch > 1);
  if (needed <= SMALL) return run_on_stack(&r);
  if (!call->workspace || call->workspace_bytes < needed + ALIGN) return wrong(g, "tg_gemm_call.workspace has %zu bytes, %zu are needed on %u threads", call->workspace ? call->workspace_bytes : 0, needed + ALIGN, r.threads);
  return run_in(&r, call->workspace);
}
