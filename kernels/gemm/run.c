/* SPDX-License-Identifier: MIT
 * Runs a call of a plan: checks every field, picks the kernel for its sizes, gathers its operands, and gives the tasks
 * to the threads. Takes no lock, allocates nothing, and cannot fail once the checks are passed. */
#include "api/program.h"
#include "gemm/plan.h"
#include "kit/operands.h"

typedef struct {
  const tg_gemm *g;
  const tg_gemm_call *call;
  int64_t m, n, k, batch;
  tg_kit_layout at[3];                 /* layouts of A, B, C */
  tg_kit_tensor of[3];                 /* A, B, C in memory: of a batch all of each, or of a list one of each */
  int64_t b_rows, b_columns;           /* size of B in memory, where two 4-bit elements are one byte */
  int64_t apart[3];                    /* bytes from A, B, C of one product to those of the next */
  const void *const *list[3];          /* a_list, b_list, c_list of the call, each may be NULL */
  void *operand[GEMM_OPERANDS];
  int64_t value[GEMM_VALUES];
  bool nothing, update;                /* nothing: neither A nor B is read; update: C is read */
  char *workspace;
  tg_kit_exec exec;
  tg_kit_deal deal;                    /* of products to threads */
  tg_kit_puts puts;                    /* on a device */
} run;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static const char call_name[] = "tg_gemm_call";

#define wrong(g, ...) tg_kit_fail((g)->plan.context, TG_EINVAL, __VA_ARGS__)

/* ---- checks ---- */

/* Reads the strides of operand i, of rows by columns; defaults come from its major and from the plan. */
static tg_status read_layout(run *r, uint32_t i, const int64_t given[2], uint8_t major, int64_t step, int64_t rows,
                             int64_t columns) {
  static const char *const names[] = {"a", "b", "c"};
  const tg_kit_operand o = {call_name, names[i], major, i == 2, step, r->g->ld[i].lo, rows, columns};
  return tg_kit_read_layout(r->g->plan.context, &o, given, &r->at[i], &r->value[GEMM_ROW_STEP + i],
                            &r->value[GEMM_COLUMN_STEP + i]);
}

/* The operands, without addresses. */
static tg_status shape_operands(run *r) {
  static const char *const names[] = {"a", "b", "c"};
  const int64_t rows[3] = {r->m, r->b_rows, r->m}, columns[3] = {r->k, r->b_columns, r->n};
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < 3 && s == TG_OK; i++) {
    r->of[i] = tg_kit_matrix(names[i], &r->at[i], rows[i], columns[i]);
    if (i == 1 && r->g->problem.panel)
      r->of[1] = tg_kit_vector("b", (int64_t)r->g->packed / r->at[1].size, r->at[1].size);
    s = tg_kit_reach(r->g->plan.context, call_name, &r->of[i]);
  }
  return s;
}

/* Checks pointers, alignment and overlap of A, B and C at p. */
static tg_status check_operands(run *r, void *const p[3]) {
  const tg_gemm *g = r->g;
  tg_context *c = g->plan.context;
  tg_status s = tg_kit_place_known(c, call_name, &r->of[2], p[2]);
  for (uint32_t i = 0; i < 2 && s == TG_OK && !r->nothing; i++) {
    s = tg_kit_place_known(c, call_name, &r->of[i], p[i]);
    if (s == TG_OK && !(g->flags & TG_GEMM_OVERLAP_UNCHECKED))
      s = tg_kit_check_overlap(c, call_name, &r->of[2], &r->of[i]);
  }
  return s;
}

/* A fast test that nearly all products of a batch pass: pointers are not NULL, elements are aligned, and the span of C
 * overlaps neither that of A nor that of B. */
static inline bool is_far_apart(const run *r, void *const p[3]) {
  uintptr_t a = (uintptr_t)p[0], b = (uintptr_t)p[1], c = (uintptr_t)p[2],
            ends[3] = {a + (uintptr_t)r->of[0].bytes, b + (uintptr_t)r->of[1].bytes, c + (uintptr_t)r->of[2].bytes};
  return a && b && c && !((a & (r->at[0].size - 1)) | (b & (r->at[1].size - 1)) | (c & (r->at[2].size - 1))) &&
         (ends[2] <= a || ends[0] <= c) && (ends[2] <= b || ends[1] <= c);
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
  if (call->alpha && !g->problem.alpha)
    return wrong(g, "tg_gemm_call.alpha is given, and the plan multiplies by none: tg_gemm_desc.alpha = 1");
  if (call->beta && !g->problem.beta)
    return wrong(g, "tg_gemm_call.beta is given, and the plan never reads C: tg_gemm_desc.beta = 1");
  bool device = g->plan.device != NULL;   /* its memory is not read here */
  if (device && ((g->problem.alpha && !call->alpha) || (g->problem.beta && !call->beta)))
    return wrong(g, "tg_gemm_call.%s is NULL: on a device it is memory of the device",
                 g->problem.alpha && !call->alpha ? "alpha" : "beta");
  r->update = call->beta && (device || !is_zero(t, call->beta));
  r->nothing = r->k == 0 || (!device && call->alpha && is_zero(t, call->alpha));
  if (g->flags & TG_GEMM_NOT_ZERO && (r->nothing || r->update != g->problem.beta))
    return wrong(g, "tg_gemm_call.%s = 0, and the plan is for others: TG_GEMM_NOT_ZERO",
                 r->k == 0     ? "k"
                 : r->nothing ? "alpha"
                              : "beta");
  const void *one = t == TG_F32   ? (const void *)&one_f32
                    : t == TG_F64 ? (const void *)&one_f64
                                  : (const void *)&one_i32;
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
  if (g->problem.bits && (r->batch != 1 || call->group_m || r->list[0] || r->list[1] || r->list[2]))
    return wrong(g, "tg_gemm_call: products with B of %u bits are one at a time", g->problem.bits);
  if (!call->group_m) return TG_OK;
  tg_kit_dim d = g->problem.m;
  int64_t all = 0;
  if (call->batch_strides) return wrong(g, "tg_gemm_call: batch_strides beside group_m, which says where groups lie");
  for (int64_t i = 0; i < r->batch; i++) {
    int64_t rows = group_rows(r, i);
    if (rows && (rows < d.lo || rows > d.hi))
      return wrong(g, "tg_gemm_call.group_m[%lld] = %lld, but the plan is for %lld..%lld", (long long)i,
                   (long long)rows, (long long)d.lo, (long long)d.hi);
    if (__builtin_add_overflow(all, rows, &all)) return wrong(g, "tg_gemm_call.group_m: too many rows");
  }
  r->m = all;   /* rows of A and of C over all groups */
  return TG_OK;
}

static tg_status read_sizes(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  const tg_gemm_problem *p = &g->problem;
  tg_status s;
  int64_t m = call->group_m ? p->m.lo : call->m;   /* each group has its own m */
  if ((s = tg_kit_check_size(g->plan.context, call_name, "m", p->m, m, &r->m)) != TG_OK ||
      (s = tg_kit_check_size(g->plan.context, call_name, "n", p->n, call->n, &r->n)) != TG_OK ||
      (s = tg_kit_check_size(g->plan.context, call_name, "k", p->k, call->k, &r->k)) != TG_OK)
    return s;
  return read_batch(r);
}

/* Reads the strides of a B of 4-bit elements, in bytes. */
static tg_status read_nibbles(run *r) {
  const tg_gemm *g = r->g;
  const int64_t *given = r->call->b_strides;
  uint32_t outer = g->problem.b_major == TG_COLUMN_MAJOR;
  int64_t bytes[2] = {given[0], given[1]}, *side = outer ? &r->b_rows : &r->b_columns;
  if (given[outer] % 2)
    return wrong(g, "tg_gemm_call.b_strides = {%lld, %lld}: %lld elements of four bits are no whole bytes",
                 (long long)given[0], (long long)given[1], (long long)given[outer]);
  if (given[outer] && g->ld[1].lo && given[outer] / 2 != g->ld[1].lo)
    return wrong(g, "tg_gemm_call.b_strides = {%lld, %lld}, but the plan is for a leading dimension of %lld",
                 (long long)given[0], (long long)given[1], (long long)g->ld[1].lo * 2);
  bytes[outer] /= 2;
  *side = (*side + 1) / 2;
  return read_layout(r, 1, bytes, g->problem.b_major, 1, r->b_rows, r->b_columns);
}

/* Reads and checks scales and zero points. */
static tg_status read_groups(run *r) {
  static const char *const names[] = {"b_scale", "b_zero"};
  const tg_gemm *g = r->g;
  const tg_gemm_problem *p = &g->problem;
  const void *at[] = {r->call->b_scale, r->call->b_zero};
  const tg_type type[] = {p->scale, p->zero};
  bool by_column = p->group_major == TG_COLUMN_MAJOR;
  if (!p->bits) return TG_OK;
  int64_t groups = p->group ? (r->k + p->group - 1) / p->group : 1, rows = by_column ? r->n : groups,
          columns = by_column ? groups : r->n, ld = r->call->b_group_ld;
  if (!ld || rows <= 1) ld = columns > ld ? columns > 1 ? columns : 1 : ld;
  if (ld < 1 || ld > (int64_t)1 << 31)
    return wrong(g, "tg_gemm_call.b_group_ld = %lld is negative or past 2^31", (long long)r->call->b_group_ld);
  r->value[GEMM_GROUP_LD] = ld;
  for (uint32_t i = 0; i < (p->zero ? 2 : 1); i++) {
    tg_kit_tensor t =
        tg_kit_matrix(names[i], &(tg_kit_layout){{ld, 1}, (uint32_t)tg_type_bytes(type[i])}, rows, columns);
    r->operand[GEMM_SCALE + i] = (void *)(uintptr_t)at[i];
    tg_status s = r->nothing ? TG_OK : tg_kit_check_read(g->plan.context, call_name, &t, at[i], &r->of[2]);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

/* The operands of the products of a batch, from those of one. */
static tg_status read_products(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  bool lists = r->list[0] || r->list[1] || r->list[2];
  int64_t of_c = r->of[2].bytes;
  for (uint32_t i = 0; i < 3; i++) {
    if (!call->group_m || i == 1) r->apart[i] = r->of[i].bytes;   /* each group has a B of its own */
    if (call->batch_strides && __builtin_mul_overflow(call->batch_strides[i], (int64_t)r->at[i].size, &r->apart[i]))
      return wrong(g, "tg_gemm_call.batch_strides: too long");
    if (r->apart[i] < 0) return wrong(g, "tg_gemm_call.batch_strides: negative");
    tg_kit_tensor all = r->of[i];
    all.extent[2] = r->batch, all.step[2] = r->apart[i] / all.size;
    tg_status s = tg_kit_reach(g->plan.context, call_name, &all);
    if (s != TG_OK) return s;
    if (!lists) r->of[i] = all;
  }
  if (!lists && !call->group_m && r->apart[2] < of_c)
    return wrong(g, "tg_gemm_call.batch_strides: the products' C overlap");
  if (!lists) return check_operands(r, r->operand);
  for (int64_t b = 0; b < r->batch; b++) {
    void *p[3];
    for (uint32_t i = 0; i < 3; i++)
      p[i] = r->list[i] ? (void *)(uintptr_t)r->list[i][b] : tg_kit_behind(r->operand[i], b * r->apart[i]);
    if (is_far_apart(r, p) || (call->group_m && !group_rows(r, b))) continue;
    tg_status s = check_operands(r, p);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

static tg_status read_operands(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  const tg_gemm_problem *p = &g->problem;
  const int64_t *strides[3] = {call->a_strides, call->b_strides, call->c_strides};
  const tg_type type[3] = {p->a, p->b, p->c};
  const uint8_t major[3] = {p->a_major, p->b_major, p->c_major};
  const int64_t step[3] = {p->a_step, p->b_step, p->c_step};
  const int64_t rows[3] = {r->m, r->k, r->m}, columns[3] = {r->k, r->n, r->n};
  r->operand[0] = (void *)(uintptr_t)call->a, r->operand[1] = (void *)(uintptr_t)call->b, r->operand[2] = call->c;
  r->b_rows = r->k, r->b_columns = r->n;
  for (uint32_t i = 0; i < 3; i++) {
    r->at[i].size = (uint32_t)tg_type_bytes(type[i]);
    if (i == 1 && p->bits == 4) r->at[1].size = p->panel ? 4 : 1;
    if (i == 1 && p->panel) {
      r->at[1].step[0] = r->at[1].step[1] = 0;
      continue;
    }
    tg_status s = i == 1 && p->bits == 4 ? read_nibbles(r)
                                         : read_layout(r, i, strides[i], major[i], step[i], rows[i], columns[i]);
    if (s != TG_OK) return s;
  }
  tg_status s = shape_operands(r);
  if (s != TG_OK) return s;
  if (p->c_major == TG_ANY_STRIDES && !tg_kit_is_apart(&r->of[2]))
    return wrong(g, "tg_gemm_call.c_strides = {%lld, %lld} lay two elements on one place",
                 (long long)call->c_strides[0], (long long)call->c_strides[1]);
  return r->batch == 1 && !r->list[0] && !r->list[1] && !r->list[2] ? check_operands(r, r->operand) : read_products(r);
}

static tg_status read_arguments(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_problem *p = &g->problem;
  const tg_kit_tensor *c = r->list[2] ? NULL : &r->of[2];
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    const void *x = r->call->arg[a];
    r->value[GEMM_ARG_LD + a] = r->call->arg_ld[a];
    tg_status s = tg_kit_check_argument(g->plan.context, call_name, a, &p->argument[a], x, r->m, r->n, c,
                                        &r->value[GEMM_ARG_LD + a]);
    if (s != TG_OK) return s;
    r->operand[GEMM_ARG + a] = (void *)(uintptr_t)x;
  }
  return TG_OK;
}

/* ---- running ---- */

/* A kernel with the arguments of its call. Between the products of a batch only the buffers A, B and C change. */
typedef struct {
  const tg_kit_kernel *kernel;
  const tg_kit_part *part;     /* the part whose kernel computes `pieces` of the product; NULL: it is one */
  int64_t m, n;
  tg_gemm_pieces pieces;
  void *buffers[GEMM_OPERANDS + 1];
  int64_t values[GEMM_VALUES];
  uint8_t place[3];            /* indices of A, B and C among the buffers; GEMM_OPERANDS: the kernel has no such one */
} ready;

static void take_kernel(const run *r, const tg_kit_kernel *k, int64_t m, int64_t n, int64_t terms, ready *out) {
  out->kernel = k;
  out->place[0] = out->place[1] = out->place[2] = GEMM_OPERANDS;
  tg_kit_take(k, r->operand, r->value, out->buffers, out->values);
  for (uint32_t i = 0; i < k->operands_n; i++)
    if (k->operand[i] < 3) out->place[k->operand[i]] = (uint8_t)i;
  const int64_t size[] = {m, n, terms};        /* of the group or the piece */
  for (uint32_t i = 0; i < k->values_n; i++)
    if (k->value[i] <= GEMM_K) out->values[i] = size[k->value[i]];
}

/* Do the lines of the rows' operand meet in one set of L1? */
static bool is_aliased(const run *r) {
  uint32_t x = r->g->problem.c_major == TG_GEMM_COLUMN;
  int64_t bytes = r->value[GEMM_ROW_STEP + x] * r->at[x].size;
  return r->g->open && bytes && bytes % r->g->way == 0;
}

/* Products of a batch, which threads may take whole, have no partial sums side by side. */
static bool may_divide_terms(const run *r, const tg_kit_part *part) {
  return part->terms && r->batch == 1 && !r->call->group_m;
}

/* Strips are known to the plan; other pieces the call's sizes tell. */
static tg_gemm_pieces pieces_of(const run *r, const tg_kit_part *part, int64_t m, int64_t n) {
  const tg_kit_strips *s = &part->strips;
  const int64_t size[3] = {m, n, r->k};
  if (part->pieces) return tg_gemm_divide(r->g, size, may_divide_terms(r, part));
  tg_gemm_pieces all = {.n = s->n, .parts = {1, 1, 1}, .size = {m, n, r->k}};
  all.parts[!s->rows] = s->n;
  if (s->n > 1) all.size[!s->rows] = s->size;
  return all;
}

static void get_ready(const run *r, int64_t m, int64_t n, ready *out) {
  const tg_kit_part *part =
      r->nothing ? NULL
                 : tg_kit_part_for(r->g->part, r->g->parts_n, (int64_t[]){m, n, r->k, is_aliased(r)}, GEMM_SIZES);
  out->part = part && (part->strips.n > 1 || part->pieces) ? part : NULL;
  out->m = m, out->n = n;
  if (out->part) out->pieces = pieces_of(r, part, m, n);
  if (out->part && out->pieces.n < 2) out->part = NULL;
  if (!out->part) take_kernel(r, part ? &part->kernel[r->update] : &r->g->nothing[r->update], m, n, r->k, out);
}

/* ---- pieces ---- */

/* sums: where partial sums are kept, one dense C for each part of the terms; NULL: the terms are not divided. */
typedef struct {
  const run *r;
  const tg_kit_part *part;
  const tg_gemm_pieces *by;
  int64_t m, n;
  void *product[3];
  char *sums;
} division;

/* Bytes of a panel of a packed B. */
static int64_t panel_bytes(const tg_gemm *g) {
  return (int64_t)g->packed / ((g->problem.n.lo + g->problem.panel - 1) / g->problem.panel);
}

static int64_t offset(const tg_kit_layout *at, int64_t row, int64_t column) {
  return (row * at->step[0] + column * at->step[1]) * at->size;
}

/* Moves the operands beside A, B and C, of which a piece that begins at this row and column has a part. */
static void move_others(const run *r, const int64_t from[3], ready *w) {
  const tg_gemm_problem *p = &r->g->problem;
  for (uint32_t x = 0; x < w->kernel->operands_n; x++) {
    uint32_t operand = w->kernel->operand[x];
    if (operand == GEMM_SCALE || operand == GEMM_ZERO)
      w->buffers[x] = tg_kit_behind(
          w->buffers[x], from[1] * (p->group_major == TG_COLUMN_MAJOR ? r->value[GEMM_GROUP_LD] : 1) *
                             tg_type_bytes(operand == GEMM_SCALE ? p->scale : p->zero));
    if (operand < GEMM_ARG) continue;
    uint32_t a = operand - GEMM_ARG;
    uint8_t per = p->argument[a].per;
    int64_t elements = per == TG_PER_ELEMENT  ? from[0] * r->value[GEMM_ARG_LD + a] + from[1]
                       : per == TG_PER_ROW    ? from[0]
                       : per == TG_PER_COLUMN ? from[1]
                                              : 0;
    w->buffers[x] = tg_kit_behind(w->buffers[x], elements * tg_type_bytes(p->argument[a].type));
  }
}

/* Where a piece's C is, or its partial sums, whose lines lie one behind another. */
static void place_result(const division *d, uint32_t part, const int64_t from[3], ready *w) {
  const run *r = d->r;
  bool turned = r->g->problem.c_major == TG_GEMM_COLUMN;
  if (!d->sums) {
    w->buffers[w->place[2]] = tg_kit_behind(d->product[2], offset(&r->at[2], from[0], from[1]));
    return;
  }
  int64_t line = turned ? d->m : d->n, at = part * d->m * d->n + (turned ? from[1] * line + from[0]
                                                                        : from[0] * line + from[1]);
  w->buffers[w->place[2]] = d->sums + at * tg_type_bytes(r->g->problem.acc);
  for (uint32_t i = 0; i < w->kernel->values_n; i++)
    if (w->kernel->value[i] == GEMM_ROW_STEP + 2) w->values[i] = line;
}

static void run_piece(void *arg, uint32_t i, char *workspace) {
  const division *d = arg;
  const run *r = d->r;
  const tg_gemm_pieces *by = d->by;
  const uint32_t at[3] = {i / by->parts[2] / by->parts[1], i / by->parts[2] % by->parts[1], i % by->parts[2]};
  const int64_t all[3] = {d->m, d->n, r->k};
  int64_t from[3], size[3];
  for (uint32_t x = 0; x < 3; x++) from[x] = at[x] * by->size[x], size[x] = smaller(all[x] - from[x], by->size[x]);
  bool last = i + 1 == by->n && d->part->last[r->update].kernel;
  ready w;
  take_kernel(r, d->sums ? &d->part->partial : last ? &d->part->last[r->update] : &d->part->kernel[r->update], size[0],
              size[1], size[2], &w);
  w.buffers[w.place[0]] = tg_kit_behind(d->product[0], offset(&r->at[0], from[0], from[2]));
  w.buffers[w.place[1]] =
      tg_kit_behind(d->product[1], r->g->problem.panel ? from[1] / r->g->problem.panel * panel_bytes(r->g)
                                                       : offset(&r->at[1], from[2], from[1]));
  place_result(d, at[2], from, &w);
  if (!d->sums) move_others(r, from, &w);
  tg_kit_launch(&r->exec, 1, w.kernel, w.buffers, w.values, workspace);
}

/* Adds up partial sums, in the order of their terms. */
static void merge(const division *d, uint32_t threads, char *workspace) {
  const run *r = d->r;
  void *operand[GEMM_OPERANDS], *buffers[GEMM_OPERANDS + 1];
  int64_t value[GEMM_VALUES], values[GEMM_VALUES];
  memcpy(operand, r->operand, sizeof operand), memcpy(value, r->value, sizeof value);
  operand[GEMM_A] = d->sums, operand[GEMM_C] = d->product[2];
  value[GEMM_M] = d->m, value[GEMM_N] = d->n, value[GEMM_K] = d->by->parts[2];
  value[GEMM_ROW_STEP] = r->g->problem.c_major == TG_GEMM_COLUMN ? d->m : d->n;
  value[GEMM_COLUMN_STEP] = d->m * d->n;
  const tg_kit_kernel *k = &r->g->merge[r->update];
  tg_kit_take(k, operand, value, buffers, values);
  tg_kit_launch(&r->exec, threads, k, buffers, values, workspace);
}

/* Partial sums lie behind what threads need. */
static void run_pieces(const run *r, const ready *w, void *const product[3], uint32_t threads, char *workspace) {
  size_t behind = tg_kit_needed(&r->g->plan, r->exec.threads, r->batch > 1);
  division d = {.r = r, .part = w->part, .by = &w->pieces, .m = w->m, .n = w->n,
                .product = {product[0], product[1], product[2]},
                .sums = w->pieces.parts[2] > 1 ? workspace + behind : NULL};
  tg_kit_run_strips(&r->g->plan, &r->exec, threads, w->pieces.n, workspace, run_piece, &d);
  if (d.sums) merge(&d, threads, workspace);
}

/* Products from..to - 1, all of one size, with a kernel that is one task. A short loop, because small products take
 * only as long as a few steps of run_products. */
static void run_evenly(const run *r, ready *w, int64_t from, int64_t to, char *workspace) {
  tg_kit_code *code = w->kernel->code;
  void **a = &w->buffers[w->place[0]], **b = &w->buffers[w->place[1]], **c = &w->buffers[w->place[2]];
  const int64_t apart[3] = {r->apart[0], r->apart[1], r->apart[2]};
  char *const at[3] = {r->operand[0], r->operand[1], r->operand[2]};
  const void *const *const as = r->list[0], *const *const bs = r->list[1], *const *const cs = r->list[2];
  for (int64_t i = from; i < to; i++) {
    *a = as ? (void *)(uintptr_t)as[i] : tg_kit_behind(at[0], i * apart[0]);
    *b = bs ? (void *)(uintptr_t)bs[i] : tg_kit_behind(at[1], i * apart[1]);
    *c = cs ? (void *)(uintptr_t)cs[i] : tg_kit_behind(at[2], i * apart[2]);
    code(w->buffers, w->values, workspace, 0);
  }
}

/* Products from..to - 1 on `threads` threads. *first: rows of the groups before `from`, advanced to those before
 * `to`. */
static void run_products(const run *r, int64_t from, int64_t to, int64_t *first, char *workspace, uint32_t threads) {
  const int64_t *group = r->call->group_m;
  void *product[3];
  ready w;
  if (!group) get_ready(r, r->m, r->n, &w);
  if (!group && !w.part && w.kernel->code) {
    run_evenly(r, &w, from, to, workspace);
    return;
  }
  for (int64_t b = from; b < to; b++) {
    if (group && !group[b]) continue;
    if (group) get_ready(r, group[b], r->n, &w);
    for (uint32_t i = 0; i < 3; i++) {
      int64_t before = group && i != 1 ? *first * r->at[i].step[0] * r->at[i].size : b * r->apart[i];
      product[i] = r->list[i] ? (void *)(uintptr_t)r->list[i][b] : tg_kit_behind(r->operand[i], before);
      if (!w.part) w.buffers[w.place[i]] = product[i];
    }
    if (w.part) run_pieces(r, &w, product, threads, workspace);
    else tg_kit_launch(&r->exec, threads, w.kernel, w.buffers, w.values, workspace);
    if (group) *first += group[b];
  }
}

/* The task of one thread in a batch, which runs each product alone. */
static void take_products(void *arg, int64_t task, uint32_t worker) {
  run *r = arg;
  (void)task;
  char *mine = tg_kit_own(&r->g->plan, r->workspace, worker);
  const int64_t *group = r->call->group_m;
  int64_t first = 0, seen = 0;
  for (tg_kit_hand hand = {.worker = worker}; tg_kit_deal_next(&r->deal, &hand); seen = hand.to) {
    if (hand.from < seen) first = seen = 0;
    for (; group && seen < hand.from; seen++) first += group[seen];
    run_products(r, hand.from, hand.to, &first, mine, 1);
  }
}

static void run_all(void *arg, char *workspace) {
  run *r = arg;
  uint32_t teams = r->exec.threads;
  int64_t first = 0;
  r->workspace = workspace;
  if (teams < 2 || r->batch < 2 * (int64_t)teams) {
    run_products(r, 0, r->batch, &first, workspace, teams);
    return;
  }
  /* several products at a time, since an atomic counter costs more than a small one; but groups, whose sizes differ,
   * one at a time */
  tg_kit_deal_open(&r->deal, r->batch, r->call->group_m ? 1 : (r->batch - 1) / (8 * (int64_t)teams) + 1, teams);
  tg_kit_tasks(&r->exec, teams, take_products, r);
}

/* Bytes of partial sums of a call of these sizes (0: the plan's), NULL: of any. */
static size_t of_partial(const tg_gemm *g, const int64_t *size) {
  const tg_kit_dim dims[3] = {g->problem.m, g->problem.n, g->problem.k};
  int64_t of[3];
  if (!g->merge[GEMM_FRESH].kernel && !g->merge[GEMM_UPDATE].kernel) return 0;
  if (!size) return tg_gemm_partial_most(g);
  for (uint32_t i = 0; i < 3; i++) of[i] = size[i] ? size[i] : dims[i].lo;
  if (of[0] < 1 || of[1] < 1 || of[2] < 1) return 0;
  const tg_gemm_pieces by = tg_gemm_divide(g, of, true);
  return tg_gemm_partial(g, &by, of);
}

size_t tg_gemm_workspace_sized(const tg_gemm *g, const tg_gemm_call *given, size_t call_bytes) {
  tg_gemm_call call;
  if (!g) return 0;
  if (TG_READ(g->plan.context, tg_gemm_call, &call, given, call_bytes) != TG_OK) return 0;
  if (g->plan.device) return g->plan.shared;
  uint32_t threads = given ? tg_kit_exec_of(&g->plan, call.exec, call.threads).threads : g->plan.most;
  const int64_t size[] = {call.m, call.n, call.k};
  size_t partial = given && call.batch > 1 ? 0 : of_partial(g, given ? size : NULL);
  return tg_kit_workspace(tg_kit_needed(&g->plan, threads, !given || call.batch > 1) + partial);
}

static tg_status put_all(run *r) {
  const tg_gemm *g = r->g;
  const tg_gemm_call *call = r->call;
  tg_status s = tg_kit_puts_open(&g->plan, call_name, call->queue, call->workspace, call->workspace_bytes, &r->puts);
  if (s != TG_OK) return s;
  r->exec = (tg_kit_exec){.threads = 1, .puts = &r->puts};
  run_all(r, NULL);
  return tg_kit_puts_end(&g->plan, &r->puts);
}

/* Reads all of a call. Of no rows or no columns (m or n 0) no more is looked at. */
static tg_status read_call(run *r, const tg_gemm *g, const tg_gemm_call *call) {
  r->g = g, r->call = call;
  tg_status s = read_sizes(r);
  if (s != TG_OK || !r->m || !r->n) return s;
  if ((s = read_scalars(r)) != TG_OK || (s = read_operands(r)) != TG_OK || (s = read_groups(r)) != TG_OK ||
      (s = read_arguments(r)) != TG_OK)
    return s;
  r->value[GEMM_M] = r->m, r->value[GEMM_N] = r->n, r->value[GEMM_K] = r->k;
  return TG_OK;
}

tg_status tg_gemm_run_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes) {
  tg_gemm_call copy;
  run r;
  if (!g) return TG_EINVAL;
  if (!call) return wrong(g, "no call is given");
  tg_status s = TG_WHOLE(g->plan.context, tg_gemm_call, &copy, &call, call_bytes);
  if (s != TG_OK) return s;
  s = read_call(&r, g, call);
  if (s != TG_OK || !r.m || !r.n) return s;
  if (g->plan.device) return put_all(&r);
  if (call->queue) return wrong(g, "tg_gemm_call.queue is given, and the plan is for the CPU: tg_gemm_desc.device");
  r.exec = tg_kit_exec_of(&g->plan, call->exec, call->threads);
  size_t needed = tg_kit_needed(&g->plan, r.exec.threads, r.batch > 1) +
                  (r.batch > 1 || call->group_m ? 0 : of_partial(g, (int64_t[]){r.m, r.n, r.k}));
  return tg_kit_run_in(&g->plan, call_name, needed, call->workspace, call->workspace_bytes, r.exec.threads, run_all,
                       &r);
}

/* ---- in a program ---- */

static tg_status run_put(const void *plan, const void *call) { return tg_gemm_run(plan, call); }

static int64_t argument_elements(const run *r, uint32_t a) {
  switch (r->g->problem.argument[a].per) {
    case TG_PER_ROW: return r->m;
    case TG_PER_COLUMN: return r->n;
    case TG_PER_ELEMENT: return (r->m - 1) * r->value[GEMM_ARG_LD + a] + r->n;
    default: return 1;
  }
}

static tg_program_access reads(const void *at, int64_t elements, tg_type t) {
  uint32_t size = (uint32_t)tg_type_bytes(t);
  return (tg_program_access){(uintptr_t)at, (size_t)elements * size, size, true, false};
}

/* What the call reads and writes. out has room for ACCESSES. */
enum { ACCESSES = 7 + TG_GEMM_ARGS };
static uint32_t find_accesses(const run *r, tg_program_access *out) {
  const tg_gemm_problem *p = &r->g->problem;
  const tg_gemm_call *c = r->call;
  uint32_t n = 0;
  for (uint32_t i = 0; i < 3; i++)
    if (i == 2 || !r->nothing)
      out[n++] = (tg_program_access){(uintptr_t)r->operand[i], (size_t)r->of[i].bytes, r->at[i].size,
                                     i < 2 || r->update, i == 2};
  int64_t groups = !p->bits ? 0 : p->group ? (r->k + p->group - 1) / p->group : 1,
          lines = p->group_major == TG_COLUMN_MAJOR ? r->n : groups,
          each = p->group_major == TG_COLUMN_MAJOR ? groups : r->n;
  int64_t of_groups = groups && !r->nothing ? (lines - 1) * r->value[GEMM_GROUP_LD] + each : 0;
  if (of_groups) out[n++] = reads(c->b_scale, of_groups, p->scale);
  if (of_groups && p->zero) out[n++] = reads(c->b_zero, of_groups, p->zero);
  if (r->g->plan.device && c->alpha) out[n++] = reads(c->alpha, 1, p->acc);
  if (r->g->plan.device && c->beta) out[n++] = reads(c->beta, 1, p->acc);
  for (uint32_t a = 0; a < p->arguments_n; a++)
    out[n++] = reads(c->arg[a], argument_elements(r, a), p->argument[a].type);
  return n;
}

const tg_kit_part *tg_gemm_part_of(const tg_gemm *g, const tg_gemm_call *c, int64_t size[3], int64_t ld[3]) {
  run r;
  if (read_call(&r, g, c) != TG_OK || !r.m || !r.n || !r.k || r.batch != 1) return NULL;
  size[0] = r.m, size[1] = r.n, size[2] = r.k;
  memcpy(ld, r.value + GEMM_ROW_STEP, 3 * sizeof *ld);
  return tg_kit_part_for(g->part, g->parts_n, (int64_t[]){r.m, r.n, r.k, is_aliased(&r)}, GEMM_SIZES);
}

tg_status tg_gemm_put_call(tg_program *program, const tg_gemm *g, tg_gemm_call *c, tg_program_step **out) {
#define AT(field) (uint16_t)offsetof(tg_gemm_call, field)
  enum { SCALARS = 5, POINTERS = SCALARS + 2 + TG_GEMM_ARGS };
  tg_program_access accesses[ACCESSES];
  run r;
  bool device = g->plan.device != NULL;
  if (c->a_list || c->b_list || c->c_list || c->group_m)
    return wrong(g, "tg_gemm_put: a program has no lists of products, and no groups: put them one by one");
  if (!device && ((c->alpha && tg_program_stands_for(program, c->alpha)) ||
                  (c->beta && tg_program_stands_for(program, c->beta))))
    return wrong(g, "tg_gemm_put: alpha and beta are read now, and cannot be memory of the program");
  uint16_t pointers[POINTERS] = {AT(a), AT(b), AT(c), AT(b_scale), AT(b_zero)};
  for (uint32_t a = 0; a < TG_GEMM_ARGS; a++) pointers[SCALARS + a] = (uint16_t)(AT(arg) + a * sizeof c->arg[0]);
  pointers[POINTERS - 2] = AT(alpha), pointers[POINTERS - 1] = AT(beta);
  size_t of_acc = (size_t)tg_type_bytes(g->problem.acc);
  const struct tg_program_copy copies[] = {{AT(batch_strides), c->batch_strides, 3 * sizeof *c->batch_strides},
                                           {AT(alpha), c->alpha, of_acc},
                                           {AT(beta), c->beta, of_acc}};
  tg_program_operation op = {.name = "tg_gemm_put",
                             .context = g->plan.context,
                             .device = g->plan.device,
                             .plan = g,
                             .call = c,
                             .call_bytes = sizeof *c,
                             .fields = TG_PROGRAM_FIELDS(tg_gemm_call),
                             .pointers = pointers,
                             .pointers_n = device ? POINTERS : POINTERS - 2,
                             .copies = copies,
                             .copies_n = device ? 1 : TG_COUNT(copies),
                             .accesses = accesses,
                             .run = run_put,
                             .ends = device ? NULL : &tg_gemm_ends};
  tg_status s = tg_program_lend(program, &op);
  if (s == TG_OK) s = read_call(&r, g, c);
  if (s != TG_OK || !r.m || !r.n) return s;
  op.accesses_n = find_accesses(&r, accesses);
  op.workspace = device ? 0 : tg_gemm_workspace(g, c);
  return out ? tg_program_operation_step(program, &op, out) : tg_program_add(program, &op);
#undef AT
}

tg_status tg_gemm_put_sized(tg_program *program, const tg_gemm *g, const tg_gemm_call *given, size_t call_bytes) {
  tg_gemm_call c;
  if (!g || !program) return TG_EINVAL;
  if (!given) return wrong(g, "no call is given");
  if (TG_READ(g->plan.context, tg_gemm_call, &c, given, call_bytes) != TG_OK) return TG_EINVAL;
  return tg_gemm_put_call(program, g, &c, NULL);
}
