/* SPDX-License-Identifier: MIT
 * From a descriptor to a plan: defaults, the problem, its kernels' texts, which the context compiles or takes from its
 * cache. */
#include <math.h>
#include <stdio.h>
#include "nn/plan.h"

static const char desc_name[] = "tg_nn_desc";

static const char *const value_names[NN_VALUES] = {
    [NN_M] = "M", [NN_N] = "N", [NN_P] = "P",
#define TG_NN_OPERAND(NAME, ...) [NN_LD + NN_##NAME] = #NAME "_ld",
#include "nn/operands.def"
#undef TG_NN_OPERAND
};
static const char *const operand_names[NN_OPERANDS] = {
#define TG_NN_OPERAND(NAME, ...) [NN_##NAME] = #NAME,
#include "nn/operands.def"
#undef TG_NN_OPERAND
};
static const tg_kit_names names = {operand_names, value_names, NN_OPERANDS, NN_VALUES};

typedef struct { tg_nn *nn; const tg_nn_desc *desc; const tg_nn_operation *operation; } planning;

#define wrong(p, ...) tg_kit_fail((p)->nn->plan.context, TG_EINVAL, __VA_ARGS__)

/* ---- the descriptor ---- */

static tg_status read_types(planning *p) {
  const tg_nn_desc *d = p->desc;
  tg_context *c = p->nn->plan.context;
  tg_type *type = p->nn->problem.type;
  type[NN_OF_X] = d->x ? d->x : TG_F32;
  type[NN_OF_Y] = d->y ? d->y : type[NN_OF_X];
  type[NN_OF_WEIGHT] = d->weight, type[NN_OF_BIAS] = d->bias;
  type[NN_FLOAT] = TG_F32, type[NN_INTEGER] = TG_I32;
  const struct { const char *name; uint8_t of, needs; } types[] = {{"x", NN_OF_X, NN_ALWAYS},
                                                                   {"y", NN_OF_Y, NN_ALWAYS},
                                                                   {"weight", NN_OF_WEIGHT, NN_WITH_WEIGHT},
                                                                   {"bias", NN_OF_BIAS, NN_WITH_BIAS}};
  for (uint32_t i = 0; i < TG_COUNT(types); i++) {
    if (!type[types[i].of]) continue;
    tg_status s = tg_kit_check_type(c, desc_name, types[i].name, type[types[i].of], "f32, f16, bf16");
    if (s != TG_OK) return s;
    if (types[i].needs && !tg_nn_takes(p->operation, types[i].needs))
      return wrong(p, "tg_nn_desc.%s: %s has none", types[i].name, p->operation->name);
  }
  return TG_OK;
}

/* Fields that belong to some operations only. */
static tg_status read_special(planning *p) {
  const tg_nn_desc *d = p->desc;
  tg_nn_problem *q = &p->nn->problem;
  const char *name = p->operation->name;
  bool acts = tg_nn_says(p->operation, "act") || tg_nn_says(p->operation, "slope");
  if (d->activation > TG_NN_RELU)
    return wrong(p, "tg_nn_desc.activation: %u is none of TG_NN_GELU..TG_NN_RELU", d->activation);
  if (d->activation && !acts) return wrong(p, "tg_nn_desc.activation: %s has none", name);
  if (d->statistics > 1) return wrong(p, "tg_nn_desc.statistics: %u is neither 0 nor 1", d->statistics);
  if (d->statistics && !tg_nn_takes(p->operation, NN_WITH_STATISTICS))
    return wrong(p, "tg_nn_desc.statistics: %s has none", name);
  if (d->epsilon && !q->backward && !tg_nn_says(p->operation, "epsilon"))
    return wrong(p, "tg_nn_desc.epsilon: %s has none", name);
  q->epsilon = d->epsilon ? *d->epsilon : 1e-5f;
  if (!(q->epsilon >= 0) || isinf(q->epsilon))
    return wrong(p, "tg_nn_desc.epsilon: %g is no number from 0 on", (double)q->epsilon);
  q->activation = d->activation, q->statistics = d->statistics;
  q->in_place = d->flags & TG_NN_IN_PLACE, q->interleaved = d->flags & TG_NN_INTERLEAVED;
  if (q->in_place && p->operation->place == p->operation->taken)
    return wrong(p, "tg_nn_desc.flags: TG_NN_IN_PLACE: %s has no result that could take an operand's place", name);
  tg_type from = q->type[tg_nn_operands[p->operation->place].type],
          to = q->type[tg_nn_operands[p->operation->taken].type];
  return q->in_place && from != to
             ? wrong(p, "tg_nn_desc.flags: TG_NN_IN_PLACE: x and y have different types")
             : TG_OK;
}

static tg_status read_heads(planning *p) {
  const tg_nn_desc *d = p->desc;
  tg_nn_problem *q = &p->nn->problem;
  if (d->op != TG_NN_ROPE) {
    bool given = d->head || d->rotary || q->interleaved;
    return given ? wrong(p, "tg_nn_desc: head, rotary and TG_NN_INTERLEAVED are for TG_NN_ROPE") : TG_OK;
  }
  if (q->columns.lo != q->columns.hi) return wrong(p, "tg_nn_desc.columns: those of TG_NN_ROPE are fixed");
  if (q->columns.lo < 2) return wrong(p, "tg_nn_desc.columns: %lld are no pair", (long long)q->columns.lo);
  q->head = d->head ? d->head : q->columns.lo;
  if (q->head < 2 || q->columns.lo % q->head)
    return wrong(p, "tg_nn_desc.head: %d is no divisor of the %lld columns, of 2 and more", d->head,
                 (long long)q->columns.lo);
  q->rotary = d->rotary ? d->rotary : q->head;
  if (q->rotary < 2 || q->rotary % 2 || q->rotary > q->head)
    return wrong(p, "tg_nn_desc.rotary: %lld is no even number within 2..%lld", (long long)q->rotary,
                 (long long)q->head);
  return TG_OK;
}

static tg_status read_descriptor(planning *p) {
  const tg_nn_desc *d = p->desc;
  tg_nn *nn = p->nn;
  tg_nn_problem *q = &nn->problem;
  tg_context *c = nn->plan.context;
  nn->flags = d->flags;
  tg_status s = tg_kit_check_flags(c, desc_name, d->flags, TG_NN_NO_COMPILE | TG_NN_IN_PLACE | TG_NN_INTERLEAVED);
  if (s != TG_OK) return s;
  if (d->backward > 1) return wrong(p, "tg_nn_desc.backward: %u is neither 0 nor 1", d->backward);
  p->operation = tg_nn_operation_of(d->op, d->backward);
  if (!p->operation) return wrong(p, "tg_nn_desc.op: %u is none of TG_NN_SOFTMAX..TG_NN_GATE", d->op);
  q->op = d->op, q->backward = d->backward;
  const tg_kit_sized sizes[] = {{"rows", d->rows, &q->rows}, {"columns", d->columns, &q->columns}};
  if ((s = tg_kit_read_dims(c, desc_name, sizes, TG_COUNT(sizes))) != TG_OK) return s;
  if ((s = read_types(p)) != TG_OK || (s = read_special(p)) != TG_OK || (s = read_heads(p)) != TG_OK) return s;
  if ((s = tg_kit_plan_open(&nn->plan, c, desc_name, d->threads)) != TG_OK) return s;
  nn->plan.cancel = d->cancel;
  if (!d->device || d->device->driver->immediate) return TG_OK;
  if (d->device->context != c) return wrong(p, "tg_nn_desc.device is another context's");
  nn->plan.device = d->device, q->device = true;
  return TG_OK;
}

/* ---- kernels ---- */

static tg_status compile(planning *p, const char *name, const char *body, uint32_t k) {
  tg_nn *nn = p->nn;
  tg_context *c = nn->plan.context;
  size_t n = strlen(nn->text);
  if (!body) return TG_OK;
  if (!tg_nn_write(&nn->problem, name, body, nn->text + n, sizeof nn->text - n, &nn->used))
    return tg_kit_fail(c, TG_INTERNAL, "internal error: the text of %s is too long", name);
  tg_compile_options o = {.flags = TG_COMPILE_ONE | (nn->flags & TG_NN_NO_COMPILE ? TG_COMPILE_CACHED_ONLY : 0),
                          .device = nn->plan.device,
                          .cancel = nn->plan.cancel};
  tg_status s = tg_kernel_compile_text(c, "<nn>", nn->text + n, &o, &nn->kernel[k].kernel);
  return s == TG_OK ? tg_kit_connect(&nn->plan, &names, &nn->kernel[k]) : s;
}

static tg_status make(planning *p) {
  tg_nn *nn = p->nn;
  tg_nn_problem *q = &nn->problem;
  tg_status s = read_descriptor(p);
  if (s != TG_OK) return s;
  const tg_nn_operation *o = p->operation;
  bool fused = o->fused && !q->device && nn->plan.context->target.fma;
  const char *rows = fused                                     ? o->fused
                     : q->device && o->device                  ? o->device
                     : o->narrow && q->type[NN_OF_Y] != TG_F32 ? o->narrow
                                                               : o->rows;
  bool sums = tg_nn_has(q, NN_dweight) || tg_nn_has(q, NN_dbias);
  char name[64];
  snprintf(name, sizeof name, "%s_columns", o->name);
  s = compile(p, name, sums ? o->columns : NULL, NN_BY_COLUMNS);
  if (s == TG_OK) s = compile(p, o->name, rows, NN_BY_ROWS);
  for (uint32_t k = 0; k < NN_KERNELS && s == TG_OK; k++)
    for (uint32_t i = 0; nn->kernel[k].kernel && i < nn->kernel[k].operands_n; i++)
      if (tg_kernel_describe(nn->kernel[k].kernel)->buffers[i].written) nn->written |= 1u << nn->kernel[k].operand[i];
  return s;
}

tg_status tg_nn_plan_sized(tg_context *c, const tg_nn_desc *desc, size_t desc_bytes, tg_nn **out) {
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  tg_nn_desc d;
  if (TG_READ(c, tg_nn_desc, &d, desc, desc_bytes) != TG_OK) return TG_EINVAL;
  tg_nn *nn = tg_kit_new(c, sizeof *nn);
  if (!nn) return TG_ENOMEM;
  nn->plan.context = c;
  tg_status s = make(&(planning){.nn = nn, .desc = &d});
  nn->plan.cancel = NULL;
  if (s == TG_OK) *out = nn;
  else tg_nn_free(nn);
  return s;
}

void tg_nn_free(tg_nn *nn) {
  if (!nn) return;
  for (uint32_t k = 0; k < NN_KERNELS; k++) tg_kernel_free(nn->kernel[k].kernel);
  tg_kit_delete(nn->plan.context, nn, sizeof *nn);
}

const char *tg_nn_text(const tg_nn *nn) { return nn ? nn->text : ""; }

void tg_nn_describe_sized(const tg_nn *nn, tg_nn_info *out, size_t info_bytes) {
  tg_nn_info info = {0};
  if (!out) return;
  if (nn)
    info = (tg_nn_info){.kernels = nn->plan.compiled,
                        .from_cache = nn->plan.found,
                        .workspace = nn->plan.per_thread,
                        .tuned = nn->plan.tuned};
  tg_sized_write(out, info_bytes, &info, sizeof info);
}
