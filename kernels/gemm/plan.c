/* SPDX-License-Identifier: MIT
 * From a descriptor to a plan: defaults, the problem, the division of sizes into parts with one choice each, and a
 * kernel for each part, without and with beta. Kernels are compiled by the context, or taken from its cache. */
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"

static const int64_t most_elements = (int64_t)1 << 31, most_ld = (int64_t)1 << 31, most_step = (int64_t)1 << 20;
static const char desc_name[] = "tg_gemm_desc";

/* as_chosen: kernels are those of the parts' choices */
/* partial: the kernel of partial sums that is being compiled */
typedef struct {
  tg_gemm *g;
  const tg_gemm_desc *desc;
  bool as_chosen;
  const tg_kit_kernel *partial;
} planning;

#define wrong(p, status, ...) tg_kit_fail((p)->g->plan.context, status, __VA_ARGS__)

/* ---- the descriptor ---- */

static tg_status read_types(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  q->a = d->a ? d->a : TG_F32;
  q->b = d->b ? d->b : d->b_bits ? TG_I8 : q->a;
  bool integers = tg_kit_is_integer(q->a) && tg_kit_is_integer(q->b);
  q->acc = d->acc ? d->acc : integers ? TG_I32 : q->a == TG_F64 || q->b == TG_F64 ? TG_F64 : TG_F32;
  q->c = d->c ? d->c : integers ? TG_I32 : q->a;
  const struct { const char *name; tg_type t; } types[] = {{"a", q->a}, {"b", q->b}, {"c", q->c}, {"acc", q->acc}};
  for (uint32_t i = 0; i < TG_COUNT(types); i++) {
    tg_status s = tg_kit_check_type(p->g->plan.context, desc_name, types[i].name, types[i].t, TG_KIT_ELEMENTS);
    if (s != TG_OK) return s;
  }
  if (tg_kit_is_integer(q->a) != tg_kit_is_integer(q->b) && !tg_kit_is_integer(q->b))
    return wrong(p, TG_EINVAL,
                 "tg_gemm_desc.a is of integers and b of floats: only b may be of integers beside floats");
  if (tg_kit_is_integer(q->acc) && !integers)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.acc is of integers, and the operands are not");
  if (q->acc == TG_F16 || q->acc == TG_BF16 || q->acc == TG_I8 || q->acc == TG_U8)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.acc is a type of 8 or 16 bits: i32, f32 or f64");
  return TG_OK;
}

/* Reads b_bits, b_scale, b_zero, b_group of a quantised B. */
static tg_status read_quantised(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  if (!d->b_bits)
    return d->b_scale || d->b_zero || d->b_group || d->b_group_major
               ? wrong(p, TG_EINVAL, "tg_gemm_desc: scales, zero points or groups of B without b_bits")
               : TG_OK;
  q->bits = d->b_bits;
  q->scale = d->b_scale ? d->b_scale : TG_F32;
  q->zero = d->b_zero;
  q->group = d->b_group;
  q->group_major = d->b_group_major;
  if (d->b_bits != 4 && d->b_bits != 8)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b_bits: %u is none of 0, 4, 8", d->b_bits);
  if (q->b != TG_I8 && q->b != TG_U8)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b: with b_bits it is i8 or u8, whether signed or not");
  if (q->a != TG_F32 && q->a != TG_F16 && q->a != TG_BF16)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.a: with b_bits it is f32, f16 or bf16");
  if (q->acc != TG_F32) return wrong(p, TG_EINVAL, "tg_gemm_desc.acc: with b_bits it is f32");
  tg_status s = tg_kit_check_type(p->g->plan.context, desc_name, "b_scale", q->scale, "f32, f16, bf16");
  if (s == TG_OK && q->zero)
    s = tg_kit_check_type(p->g->plan.context, desc_name, "b_zero", q->zero, "i8, u8, f32, f16, bf16");
  if (s != TG_OK) return s;
  if (q->group_major > TG_COLUMN_MAJOR)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b_group_major: %u is none of TG_ROW_MAJOR, TG_COLUMN_MAJOR",
                 q->group_major);
  if (q->group < 0 || q->group > most_elements)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b_group: %lld is no number of terms within 0..2^31", (long long)q->group);
  if (q->bits == 4 && d->b_major == TG_ANY_STRIDES)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b_major: elements of four bits lie side by side in rows or in columns");
  if (q->bits == 4 && d->b_ld.lo % 2)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.b_ld: %lld elements of four bits are no whole bytes",
                 (long long)d->b_ld.lo);
  return TG_OK;
}

static tg_status read_sizes(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm *g = p->g;
  const tg_kit_sized sizes[] = {{"m", d->m, &g->problem.m}, {"n", d->n, &g->problem.n}, {"k", d->k, &g->problem.k}};
  const struct {
    const char *name;
    tg_dim d;
    uint8_t major;
    int64_t step;
  } lds[] = {{"a", d->a_ld, d->a_major, d->a_step},
             {"b", d->b_ld, d->b_major, d->b_step},
             {"c", d->c_ld, d->c_major, d->c_step}};
  tg_status s = tg_kit_read_dims(g->plan.context, desc_name, sizes, TG_COUNT(sizes));
  if (s != TG_OK) return s;
  for (uint32_t i = 0; i < TG_COUNT(lds); i++) {
    if (lds[i].major > TG_ANY_STRIDES)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_major: %u is none of TG_ROW_MAJOR, TG_COLUMN_MAJOR, TG_ANY_STRIDES",
                   lds[i].name, lds[i].major);
    if (lds[i].d.lo < 0 || lds[i].d.lo > most_ld || (lds[i].d.hi && lds[i].d.hi != lds[i].d.lo))
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: %lld..%lld is no fixed leading dimension within 1..2^31",
                   lds[i].name, (long long)lds[i].d.lo, (long long)lds[i].d.hi);
    if (lds[i].d.lo && lds[i].major == TG_ANY_STRIDES)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: of an operand with strides of its own there is none",
                   lds[i].name);
    if (lds[i].step < 0 || lds[i].step > most_step)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_step: %lld is no number of elements within 1..2^20", lds[i].name,
                   (long long)lds[i].step);
    if (lds[i].step > 1 && (lds[i].major == TG_ANY_STRIDES || (i == 1 && g->problem.bits)))
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_step: %s", lds[i].name,
                   lds[i].major == TG_ANY_STRIDES ? "of an operand with strides of its own there is none"
                                                  : "weights of few bits have none");
    int64_t least = i == 0       ? d->a_major ? g->problem.m.hi : g->problem.k.hi
                    : i == 1     ? d->b_major ? g->problem.k.hi : g->problem.n.hi
                    : d->c_major ? g->problem.m.hi
                                 : g->problem.n.hi;
    if (lds[i].step > 1 && least > 0) least = (least - 1) * lds[i].step + 1;
    if (lds[i].d.lo && lds[i].d.lo < least)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: %lld is less than the %lld elements that lie side by side",
                   lds[i].name, (long long)lds[i].d.lo, (long long)least);
    int64_t ld = i == 1 && g->problem.bits == 4 ? lds[i].d.lo / 2 : lds[i].d.lo;   /* 4-bit elements: bytes */
    g->ld[i] = (tg_kit_dim){ld, ld};
  }
  g->problem.a_major = d->a_major;
  g->problem.b_major = d->b_major;
  g->problem.c_major = d->c_major;
  g->problem.a_step = d->a_step, g->problem.b_step = d->b_step, g->problem.c_step = d->c_step;
  g->problem.batch = (tg_kit_dim){1, 1};
  g->problem.alpha = d->alpha;
  g->problem.beta = d->beta;
  g->problem.flush = d->flags & TG_GEMM_FLUSH_SUBNORMALS && g->problem.a == TG_BF16 && g->problem.b == TG_BF16 &&
                     g->problem.acc == TG_F32;
  return TG_OK;
}

static tg_status read_mostly(planning *p) {
  tg_gemm *g = p->g;
  const tg_kit_dim of[] = {g->problem.m, g->problem.n, g->problem.k};
  for (uint32_t i = 0; i < TG_COUNT(of); i++) {
    tg_dim d = p->desc->mostly[i];
    if (!d.lo && !d.hi) continue;
    int64_t hi = d.hi ? d.hi : d.lo;
    if (d.lo < 1 || d.lo > hi || d.lo < of[i].lo || hi > of[i].hi)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.mostly[%u]: %lld..%lld is no part of the sizes %lld..%lld of %c", i,
                   (long long)d.lo, (long long)d.hi, (long long)of[i].lo, (long long)of[i].hi, "mnk"[i]);
    g->mostly[i] = (tg_kit_dim){d.lo, hi};
  }
  return TG_OK;
}

static tg_status read_packing(planning *p) {
  const tg_gemm_packing *k = p->desc->packing;
  tg_gemm_problem *q = &p->g->problem;
  if (!k) return TG_OK;
  if (!tg_gemm_packing_valid(k))
    return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is not what tg_gemm_packing_choose makes");
  if (k->type != q->b || (k->format == TG_GEMM_NIBBLES) != (q->bits == 4))
    return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is of another type than b");
  if (q->n.lo != k->n || q->n.hi != k->n || q->k.lo != k->k || q->k.hi != k->k)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is of %lld columns and %lld terms: n and k are fixed at these",
                 (long long)k->n, (long long)k->k);
  if (q->c_major != TG_ROW_MAJOR) return wrong(p, TG_EINVAL, "tg_gemm_desc.c_major: beside a packing, C is row major");
  q->panel = k->panel;
  q->b_major = TG_ROW_MAJOR;
  q->b_step = 0;
  p->g->ld[1] = (tg_kit_dim){k->n, k->n};
  p->g->packed = k->bytes;
  return TG_OK;
}

static tg_status read_epilogue(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  tg_kit_given given[TG_GEMM_ARGS];
  for (uint32_t a = 0; a < TG_GEMM_ARGS; a++) given[a] = (tg_kit_given){d->arg[a].name, d->arg[a].type, d->arg[a].per};
  q->epilogue = d->epilogue;
  const tg_kit_formals formals = {.desc = desc_name,
                                  .formals = "acc, m, n, epilogue",
                                  .spoken = "acc, m and n",
                                  .read = d->epilogue != NULL,
                                  .reader = "an epilogue",
                                  .type = q->acc,
                                  .most_per = TG_PER_ELEMENT,
                                  .pers = "TG_PER_ALL, TG_PER_ROW, TG_PER_COLUMN, TG_PER_ELEMENT"};
  return tg_kit_read_arguments(p->g->plan.context, &formals, given, q->argument, &q->arguments_n);
}

/* ---- kernels ---- */

#define OPERANDS(B)                                                                                                    \
  { "A", B, "C", "alpha", "beta", "scale", "zero", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7" }
/* B and Bp are different names so that a packed B is never taken for an unpacked one */
static const char *const operand_names[GEMM_OPERANDS] = OPERANDS("B"), *const panel_names[GEMM_OPERANDS] =
                                                                           OPERANDS("Bp");
static const char *const value_names[GEMM_VALUES] = {"M",       "N",       "K",       "lda",     "ldb",     "ldc",
                                                     "stepa",   "stepb",   "stepc",   "ld_arg0", "ld_arg1", "ld_arg2",
                                                     "ld_arg3", "ld_arg4", "ld_arg5", "ld_arg6", "ld_arg7", "ld_group"};

const tg_kit_names *tg_gemm_names(const tg_gemm_problem *q) {
  static const tg_kit_names names[] = {{operand_names, value_names, GEMM_OPERANDS, GEMM_VALUES},
                                       {panel_names, value_names, GEMM_OPERANDS, GEMM_VALUES}};
  return &names[q->panel != 0];
}

uint32_t tg_gemm_bind(const tg_gemm *g, const tg_gemm_problem *q, tg_binding *b) {
  const uint8_t majors[3] = {q->a_major, q->b_major, q->c_major};
  const tg_binding any = {NULL, 1, most_ld, 1},
                   size[] = {{NULL, q->m.lo, q->m.hi, 1}, {NULL, q->n.lo, q->n.hi, 1}, {NULL, q->k.lo, q->k.hi, 1}};
  uint32_t n = 0;
  for (uint32_t i = 0; i < GEMM_VALUES; i++) {
    if (i < GEMM_ROW_STEP) b[n] = size[i];
    else if (i < GEMM_COLUMN_STEP)
      b[n] = g->ld[i - GEMM_ROW_STEP].lo
                 ? (tg_binding){NULL, g->ld[i - GEMM_ROW_STEP].lo, g->ld[i - GEMM_ROW_STEP].lo, 1}
                 : any;
    else if (i < GEMM_ARG_LD ? majors[i - GEMM_COLUMN_STEP] == TG_GEMM_STRIDES
             : i == GEMM_GROUP_LD
                 ? q->bits != 0
                 : i - GEMM_ARG_LD < q->arguments_n && q->argument[i - GEMM_ARG_LD].per == TG_PER_ELEMENT)
      b[n] = any;
    else continue;
    if (i >= GEMM_ROW_STEP && majors[(i - GEMM_ROW_STEP) % 3] == TG_GEMM_STRIDES && i < GEMM_ARG_LD) b[n].lo = 0;
    b[n++].name = value_names[i];
  }
  return n;
}

uint32_t tg_gemm_sketches_for(const tg_gemm *g, const tg_gemm_problem *q, const tg_kit_choice *choice, tg_gemm_def *def,
                              const tg_kernel_def **defs) {
  const tg_target *t = g->plan.device ? g->plan.device->target : &g->plan.context->target;
  uint32_t n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; tg_gemm_sketches[i] && n < GEMM_SKETCHES; i++) {
      const tg_gemm_sketch *s = tg_gemm_sketches[i];
      if (tg_target_is_device(t) && s != &tg_gemm_plain) continue;   /* the others' words are for vectors */
      if (!s->takes(q, t) || (s->kernel == choice->sketch) != (pass == 0)) continue;
      tg_gemm_kernel_of(q, s->kernel, &def[n]);
      defs[n] = &def[n].def, n++;
    }
  return n;
}

/* Lines of an operand that lie as far apart as the call has them, whatever the plan says of that of the same name. */
static void open_line(tg_binding *b, uint32_t n, uint32_t value) {
  for (uint32_t i = 0; i < n; i++)
    if (b[i].name == value_names[value]) b[i].lo = 1, b[i].hi = most_ld;
}

static tg_status compile_choice(planning *p, const tg_gemm_problem *q, const tg_kit_choice *choice,
                                tg_kit_kernel *out) {
  tg_gemm *g = p->g;
  tg_binding b[GEMM_VALUES];
  tg_gemm_def own, def[GEMM_SKETCHES];
  const tg_kernel_def *defs[GEMM_SKETCHES];
  uint32_t bindings_n = tg_gemm_bind(g, q, b);
  bool merges = choice->sketch == tg_gemm_merge;
  if (merges) open_line(b, bindings_n, GEMM_ROW_STEP);
  if (out == p->partial) open_line(b, bindings_n, GEMM_ROW_STEP + 2);
  tg_gemm_kernel_of(q, choice->sketch, &own);
  tg_kit_source s = {.names = tg_gemm_names(q),
                     .def = &own.def,
                     .binding = b,
                     .bindings_n = bindings_n,
                     .choice = choice,
                     .user = (void *)(uintptr_t)q,
                     .cached_only = g->flags & TG_GEMM_NO_COMPILE};
  /* look for a choice that tg_gemm_tune has kept */
  if (tg_context_has_choices(g->plan.context) && !q->panel && !p->as_chosen && !merges)
    s.others = defs, s.others_n = tg_gemm_sketches_for(g, q, choice, def, defs);
  return tg_kit_compile(&g->plan, &s, out);
}

/* If the sketch cannot be compiled for these sizes (a copy would be too large, for example), compiles gemm_plain, which
 * takes any sizes. A mistake in an epilogue is reported there as well. */
static tg_status compile(planning *p, const tg_gemm_problem *q, const tg_kit_choice *choice, tg_kit_kernel *out) {
  const tg_kit_choice plain = {.sketch = tg_gemm_plain.kernel};
  tg_status s = compile_choice(p, q, choice, out);
  bool plain_takes = (!q->panel || q->bits || p->g->plan.device) && choice->sketch != tg_gemm_merge;
  return (s == TG_EINVAL || s == TG_ELIMIT) && !p->as_chosen && choice->sketch != plain.sketch && plain_takes
             ? compile_choice(p, q, &plain, out)
             : s;
}

/* ---- parts ---- */

static bool same_size(const tg_gemm_problem *a, const tg_gemm_problem *b) {
  return a->m.lo == b->m.lo && a->n.lo == b->n.lo;
}

/* Elements from one line of an operand to the next, if its lines lie one behind another. */
static int64_t line_of(uint8_t major, int64_t step, int64_t rows, int64_t columns) {
  return (major == TG_GEMM_COLUMN ? rows : columns) * (step > 1 ? step : 1);
}

void tg_gemm_lines(const tg_gemm_problem *q, const int64_t size[3], int64_t ld[3]) {
  int64_t m = size[0], n = size[1], k = size[2];
  ld[0] = line_of(q->a_major, q->a_step, m, k), ld[1] = line_of(q->b_major, q->b_step, k, n);
  ld[2] = line_of(q->c_major, q->c_step, m, n);
}

uint32_t tg_gemm_params(const tg_gemm_problem *q, const int64_t size[3], const int64_t given[3], const tg_binding *b,
                        uint32_t bindings_n, int64_t *params) {
  int64_t n = size[1], groups = q->group ? (size[2] + q->group - 1) / q->group : 1, ld[3];
  tg_gemm_lines(q, size, ld);
  for (uint32_t i = 0; given && i < TG_COUNT(ld); i++)
    if (given[i]) ld[i] = given[i];
  const int64_t value[] = {size[0], n, size[2], ld[0], q->bits == 4 ? (ld[1] + 1) / 2 : ld[1], ld[2]};
  uint32_t out = 0;
  for (uint32_t i = 0; i < bindings_n; i++)
    /* after the three leading dimensions: those of arguments per element, then that of the groups */
    if (b[i].lo != b[i].hi)
      params[out++] = i < TG_COUNT(value)                                                      ? value[i]
                      : q->bits && i + 1 == bindings_n && q->group_major == TG_GEMM_COLUMN ? groups
                                                                                               : n;
  return out;
}

/* Chooses one kernel, or strips. Strips are not possible if the epilogue reads m or n, since a strip does not know its
 * place in C, nor with TG_GEMM_BATCH_INVARIANT, since rows of different strips may have different kernels. */
static void choose(const tg_gemm *g, const tg_gemm_problem *q, bool open_rows, tg_kit_part *part) {
  const tg_target *t = &g->plan.context->target;
  bool whole = g->flags & (TG_GEMM_BATCH_INVARIANT | TG_GEMM_ONE_KERNEL) ||
               (q->epilogue && (tg_kit_reads(q->epilogue, "m") || tg_kit_reads(q->epilogue, "n")));
  part->strips = whole ? (tg_kit_strips){.n = 1} : tg_gemm_choose_strips(q, t, g->plan.most, open_rows);
  if (part->strips.n < 2) {
    tg_gemm_choose_kernel(g, q, q, g->plan.most, &part->choice);
    return;
  }
  tg_gemm_problem first = tg_gemm_strip(q, &part->strips, 0),
                  last = tg_gemm_strip(q, &part->strips, part->strips.n - 1);
  tg_gemm_choose_kernel(g, q, &first, 1, &part->choice);
  tg_gemm_choose_kernel(g, q, &last, 1, &part->last_choice);
}

/* Does the choice prefetch? The prefetches of a block are divided among its tiles of rows, as many as the upper end of
 * the range has; so with a wide range of rows, calls with few rows would prefetch too few lines. */
static bool asks_ahead(const tg_kit_choice *c) { return tg_kit_knob_of(c, "NEXT", 0) || tg_kit_knob_of(c, "AHEAD", 0); }

/* One range alone, of rows or of columns, is divided at sizes where another sketch may be better, and neighbouring
 * parts with the same choice are joined again: each of the smallest numbers of rows has a kernel of its own, with one
 * tile for all rows, so that the large operand, such as weights, is read only once. */
static void cut(tg_gemm *g, const tg_gemm_problem *all) {
  enum { SMALL = 64, MANY = 4096 };
  static const int64_t ends[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24, 32, 64, 128, 191};
  _Static_assert(TG_COUNT(ends) < GEMM_PARTS, "a part behind the last end");
  tg_gemm_problem q = *all;
  bool rows = q.m.lo < q.m.hi, invariant = g->flags & TG_GEMM_BATCH_INVARIANT,
       one = invariant || g->flags & TG_GEMM_ONE_KERNEL;
  tg_kit_dim whole = rows ? q.m : q.n;
  int64_t from = whole.lo;
  for (uint32_t i = 0; i <= TG_COUNT(ends) && from <= whole.hi; i++) {
    int64_t to = i < TG_COUNT(ends) && ends[i] < whole.hi && !one ? ends[i] : whole.hi;
    if (to < from) continue;
    tg_gemm_problem part = q;
    *(rows ? &part.m : &part.n) = (tg_kit_dim){from, to};
    tg_kit_part next = {.size = {part.m, part.n, part.k, {0, 1}}},
                *last = g->parts_n ? &g->part[g->parts_n - 1] : NULL;
    /* choose for the largest size of the part, which suits most of it; made even, except for gemm_dot, whose tiles
     * have one size */
    int64_t last_rows = from < to && !tg_gemm_thin_roles_of(&part).column_k ? to + to % 2 : to;
    if (rows && !one) part.m.lo = part.m.hi = last_rows < MANY ? last_rows : MANY;
    /* the blocks of terms, and so the bits, must not depend on the plan's m: choose for a standard range of rows, a
     * smaller one for small products */
    if (invariant) part.m = (tg_kit_dim){1, part.m.hi <= SMALL ? SMALL : MANY};
    choose(g, &part, rows, &next);
    g->plan.strips |= next.strips.n > 1;
    /* parts of a range of rows can be joined even with strips, since these are strips of columns */
    tg_kit_add_part(g->part, &g->parts_n, &next, rows ? 0 : 1,
                    !(rows && last && asks_ahead(&next.choice) && 2 * to > 3 * last->size[0].lo));
    from = to + 1;
  }
}

/* Ranges of several sizes are divided where prices tell to. Sizes of 0 have no part. */
static void divide(tg_gemm *g) {
  tg_gemm_problem q = g->problem;
  tg_kit_dim *const dims[] = {&q.m, &q.n, &q.k};
  uint32_t open = 0;
  for (uint32_t i = 0; i < TG_COUNT(dims); i++) {
    if (!dims[i]->hi) return;
    if (!dims[i]->lo) dims[i]->lo = 1;
    open += dims[i]->lo < dims[i]->hi;
  }
  g->open = (open > 1 || q.k.lo < q.k.hi) && !(g->flags & TG_GEMM_BATCH_INVARIANT);
  if (g->open) g->parts_n = tg_gemm_choose_parts(g, &q, g->part);
  else cut(g, &q);
  for (uint32_t i = 0; i < g->parts_n; i++) g->plan.strips |= g->part[i].pieces;
}

tg_gemm_problem tg_gemm_of_part(const tg_gemm *g, const tg_kit_part *part) {
  tg_gemm_problem q = g->problem;
  tg_kit_dim *const dims[] = {&q.m, &q.n, &q.k};
  for (uint32_t i = 0; i < TG_COUNT(dims); i++) {
    if (!g->open) *dims[i] = part->size[i];
    if (!dims[i]->lo) dims[i]->lo = 1;
  }
  return q;
}

static tg_status compile_cases(planning *p, tg_gemm_problem q, const tg_kit_choice *choice, tg_kit_kernel *out) {
  tg_status s = TG_OK;
  uint32_t first = p->desc->beta && p->g->flags & TG_GEMM_NOT_ZERO ? GEMM_UPDATE : GEMM_FRESH;
  for (uint32_t beta = first; beta < (p->desc->beta ? GEMM_CASES : GEMM_UPDATE) && s == TG_OK; beta++) {
    q.beta = beta;
    s = compile(p, &q, choice, &out[beta]);
  }
  return s;
}

/* Kernels for calls whose sums are divided. */
static tg_status compile_terms(planning *p, tg_gemm_problem q, tg_kit_part *part) {
  const tg_kit_choice merge = {.sketch = tg_gemm_merge};
  tg_gemm_problem partial = tg_gemm_partial_of(&q), merged = tg_gemm_merge_of(p->g, &q);
  p->partial = &part->partial;
  tg_status s = compile(p, &partial, &part->choice, &part->partial);
  p->partial = NULL;
  bool has = p->g->merge[GEMM_FRESH].kernel || p->g->merge[GEMM_UPDATE].kernel;
  return s == TG_OK && !has ? compile_cases(p, merged, &merge, p->g->merge) : s;
}

static tg_status compile_part(planning *p, tg_kit_part *part) {
  tg_gemm_problem q = tg_gemm_of_part(p->g, part);
  if (part->strips.n < 2) {
    tg_status s = compile_cases(p, q, &part->choice, part->kernel);
    return s == TG_OK && part->terms ? compile_terms(p, q, part) : s;
  }
  tg_gemm_problem first = tg_gemm_strip(&q, &part->strips, 0),
                  last = tg_gemm_strip(&q, &part->strips, part->strips.n - 1);
  tg_status s = compile_cases(p, first, &part->choice, part->kernel);
  return s == TG_OK && !same_size(&first, &last) ? compile_cases(p, last, &part->last_choice, part->last) : s;
}

tg_status tg_gemm_compile_part(tg_gemm *g, tg_kit_part *part) {
  return compile_part(&(planning){.g = g, .desc = &(tg_gemm_desc){0}, .as_chosen = true}, part);
}

/* Compiles the kernels for k = 0 or alpha = 0, for all sizes: C = epilogue(beta C). */
static tg_status compile_nothing(planning *p) {
  tg_gemm_problem q = p->g->problem;
  const tg_kit_choice plain = {.sketch = tg_gemm_plain.kernel};
  if ((!q.alpha && q.k.lo) || !q.m.hi || !q.n.hi || p->g->flags & TG_GEMM_NOT_ZERO) return TG_OK;
  q.k = (tg_kit_dim){0, 0};
  q.alpha = false;
  if (q.bits) q.bits = 0, q.b = q.a;
  q.panel = 0;   /* B has no elements, packed or not */
  for (uint32_t beta = 0; beta < (p->desc->beta ? GEMM_CASES : GEMM_UPDATE); beta++) {
    q.beta = beta;
    tg_status s = compile(p, &q, &plain, &p->g->nothing[beta]);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

static tg_status read_descriptor(planning *p) {
  const uint32_t known =
      TG_GEMM_NO_COMPILE | TG_GEMM_BATCH_INVARIANT | TG_GEMM_OVERLAP_UNCHECKED | TG_GEMM_FLUSH_SUBNORMALS |
      TG_GEMM_ONE_KERNEL | TG_GEMM_NOT_ZERO;
  tg_status s = tg_kit_check_flags(p->g->plan.context, desc_name, p->desc->flags, known);
  if (s == TG_OK) s = read_types(p);
  if (s == TG_OK) s = read_quantised(p);
  if (s == TG_OK) s = read_sizes(p);
  if (s == TG_OK) s = read_mostly(p);
  if (s == TG_OK) s = read_epilogue(p);
  return s == TG_OK ? read_packing(p) : s;
}

void tg_gemm_target_of(const tg_context *c, const tg_device *d, tg_target *out) {
  enum { VECTOR = 16 /* bytes: float4 */, VECTORS = 16 };
  *out = d && !d->driver->immediate ? *d->target : c->target;
  if (!tg_target_is_source(out)) return;
  out->machine = c->target.machine;
  out->vector_bytes = out->access_bytes = VECTOR, out->vector_registers = VECTORS;
}

/* Devices with warps get the compiler's own choice. */
static tg_kit_choice choice_for(const tg_gemm *g) {
  tg_kit_choice c = {.sketch = tg_gemm_plain.kernel};
  tg_target t;
  tg_gemm_target_of(g->plan.context, g->plan.device, &t);
  if (tg_target_is_source(&t)) tg_gemm_choose(&g->problem, &t, t.threads, &c);
  return c;
}

/* On a device one kernel serves all sizes. */
static void whole_part(tg_gemm *g) {
  tg_kit_dim size[] = {g->problem.m, g->problem.n, g->problem.k};
  for (uint32_t i = 0; i < TG_COUNT(size); i++) {
    if (!size[i].hi) return;
    if (!size[i].lo) size[i].lo = 1;
  }
  g->part[g->parts_n++] = (tg_kit_part){
      .size = {size[0], size[1], size[2], {0, 1}}, .choice = choice_for(g), .strips = {.n = 1}};
}

static tg_status take_device(planning *p) {
  tg_context *c = p->g->plan.context;
  tg_device *d = p->desc->device;
  if (!d || d->driver->immediate) return TG_OK;
  if (d->context != c) return tg_kit_fail(c, TG_EINVAL, "%s.device is another context's", desc_name);
  p->g->plan.device = d;
  return TG_OK;
}

/* A packing may have been chosen for a machine with wider vectors than this target has registers for. */
static tg_status check_choices(planning *p) {
  const tg_gemm *g = p->g;
  for (uint32_t i = 0; i < g->parts_n; i++)
    if (!g->part[i].choice.sketch)
      return wrong(p, TG_EINVAL,
                   "tg_gemm_desc.packing: %s has no kernel for panels of %u columns; they are for another target",
                   g->plan.context->target.name, g->problem.panel);
  return TG_OK;
}

/* Reads the descriptor and divides its sizes into parts with one choice each. Compiles nothing. */
static tg_status lay_out(planning *p) {
  tg_gemm *g = p->g;
  tg_status s = read_descriptor(p);
  if (s != TG_OK) return s;
  g->flags = p->desc->flags;
  memcpy(g->likely, p->desc->likely, sizeof g->likely);
  s = tg_kit_plan_open(&g->plan, g->plan.context, desc_name, p->desc->threads);
  g->plan.cancel = p->desc->cancel;
  if (s == TG_OK) s = take_device(p);
  g->way = g->plan.context->target.machine.l1_ways > 0
               ? (int64_t)((double)g->plan.context->target.l1 / g->plan.context->target.machine.l1_ways)
               : 0;
  if (s == TG_OK && g->plan.device) whole_part(g);
  else if (s == TG_OK) divide(g);
  return s == TG_OK ? check_choices(p) : s;
}

tg_status tg_gemm_lay_out(tg_context *c, const tg_gemm_desc *d, tg_gemm *out) {
  *out = (tg_gemm){.plan.context = c};
  return lay_out(&(planning){.g = out, .desc = d});
}

static const char *keep_text(char **to, const char *text) {
  if (!text) return NULL;
  size_t n = strlen(text) + 1;
  char *copy = memcpy(*to, text, n);
  *to += n;
  return copy;
}

tg_status tg_gemm_keep_texts(tg_gemm *g) {
  tg_gemm_problem *q = &g->problem;
  size_t n = q->epilogue ? strlen(q->epilogue) + 1 : 0;
  for (uint32_t a = 0; a < q->arguments_n; a++) n += strlen(q->argument[a].name) + 1;
  g->texts = n ? tg_kit_new(g->plan.context, n) : NULL;
  if (n && !g->texts) return TG_ENOMEM;
  char *to = g->texts;
  g->texts_n = n;
  q->epilogue = keep_text(&to, q->epilogue);
  for (uint32_t a = 0; a < q->arguments_n; a++) q->argument[a].name = keep_text(&to, q->argument[a].name);
  return TG_OK;
}

static tg_status make(planning *p) {
  tg_gemm *g = p->g;
  tg_status s = lay_out(p);
  for (uint32_t i = 0; i < g->parts_n && s == TG_OK; i++) s = compile_part(p, &g->part[i]);
  if (s == TG_OK) s = compile_nothing(p);
  return s == TG_OK ? tg_gemm_keep_texts(g) : s;
}

tg_status tg_gemm_problem_of(tg_context *c, const tg_gemm_desc *d, tg_gemm_problem *out) {
  tg_gemm g = {.plan.context = c};
  tg_status s = read_descriptor(&(planning){.g = &g, .desc = d});
  *out = g.problem;
  return s;
}

static tg_status plan(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, bool whole, tg_gemm **out) {
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  tg_gemm_desc d;
  if (TG_READ(c, tg_gemm_desc, &d, desc, desc_bytes) != TG_OK) return TG_EINVAL;
  tg_gemm *g = tg_kit_new(c, sizeof *g);
  if (!g) return TG_ENOMEM;
  g->plan.context = c;
  g->whole = whole;
  tg_status s = make(&(planning){.g = g, .desc = &d});
  g->plan.cancel = NULL;
  if (s == TG_OK) *out = g;
  else tg_gemm_free(g);
  return s;
}

tg_status tg_gemm_plan_sized(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, tg_gemm **out) {
  return plan(c, desc, desc_bytes, false, out);
}

tg_status tg_gemm_plan_whole(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, tg_gemm **out) {
  return plan(c, desc, desc_bytes, true, out);
}

void tg_gemm_free(tg_gemm *g) {
  if (!g) return;
  for (uint32_t beta = 0; beta < GEMM_CASES; beta++)
    tg_kernel_free(g->nothing[beta].kernel), tg_kernel_free(g->merge[beta].kernel);
  for (uint32_t i = 0; i < g->parts_n; i++) tg_kit_part_free(&g->part[i]);
  if (g->texts) tg_kit_delete(g->plan.context, g->texts, g->texts_n);
  tg_kit_delete(g->plan.context, g, sizeof *g);
}

void tg_gemm_describe_sized(const tg_gemm *g, tg_gemm_info *out, size_t info_bytes) {
  tg_gemm_info info = {0};
  if (!out) return;
  if (g)
    info = (tg_gemm_info){.kernels = g->plan.compiled,
                          .from_cache = g->plan.found,
                          .workspace = g->plan.per_thread,
                          .tuned = g->plan.tuned};
  tg_sized_write(out, info_bytes, &info, sizeof info);
}

tg_gemm_code *tg_gemm_function(const tg_gemm *g) {
  if (!g || g->parts_n != 1 || g->plan.strips) return NULL;
  const tg_kit_kernel *k = &g->part[0].kernel[g->problem.beta];
  if (!k->kernel || k->requirements) return NULL;
  for (uint32_t i = 0; i < k->values_n; i++)   /* the order in tg/gemm.h */
    if (k->value[i] >= GEMM_COLUMN_STEP || (i && k->value[i] <= k->value[i - 1])) return NULL;
  return tg_device_entry(k->kernel->loaded, TG_GEMM_SCRATCH);
}
