/* SPDX-License-Identifier: MIT
 * Pass fma: a * b + c of f32 and f64 becomes FMA(a, b, c), with one rounding instead of two; a * b - c and c - a * b
 * likewise, with one operand negated. Only if the product has no other use, since it would be computed twice, and only
 * on targets with the instruction. From here on the interpreter, too, computes the value that is rounded once.
 * Of a * b + c * d the second product is fused.
 *
 * A matrix instruction of integers that begins at 0 and whose result is added to something begins with that instead;
 * of several, each of which begins with the result of another, the first does. */
#include "lower/sweep.h"

enum { DEEPEST = 16 };

typedef struct {
  uint8_t *uses;
  bool floats;   /* the target has the instruction */
} state;

static bool product(const state *s, const tg_uop *old, const tg_uop *now) {
  return old->op == TG_OP_MUL && now->op == TG_OP_MUL && s->uses[old->id] == 1;
}

static const tg_uop *negated(tg_job *j, const tg_uop *a) {
  if (a->op == TG_OP_CONST) return tg_const_float(j, a->type, -tg_const_value(a));
  return a->op == TG_OP_NEG ? a->src[0] : tg_op1(j, TG_OP_NEG, a);
}

/* Is it a matrix instruction of integers that begins at 0, or with another such one, each used once? */
static bool from_zero(const state *s, const tg_uop *old, const tg_uop *now) {
  while (old->op == TG_OP_MATRIX && now->op == TG_OP_MATRIX && s->uses[old->id] == 1) {
    if (tg_is_const(now->src[2], 0)) return true;
    old = old->src[2], now = now->src[2];
  }
  return false;
}

/* The instructions, the first of which begins with what is added instead of 0. */
static const tg_uop *begun_with(tg_job *j, const tg_uop *m, const tg_uop *added) {
  const tg_uop *chain[DEEPEST];
  uint32_t n = 0;
  for (; m->op == TG_OP_MATRIX && n < DEEPEST; m = m->src[2]) chain[n++] = m;
  if (m->op == TG_OP_MATRIX || m->lanes != added->lanes) return NULL;
  while (n--) {
    m = chain[n];
    added = tg_matrix(j, tg_matrix_name(j, m), m->src[0], m->src[1], added, m->src[3]);
  }
  return added;
}

static const tg_uop *form_fma(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const state *s = user;
  if (old->op == TG_OP_ADD && old->type == TG_I32) {
    for (uint32_t i = 2; i-- > 0;)
      if (from_zero(s, old->src[i], src[i])) return begun_with(j, src[i], src[1 - i]);
    return NULL;
  }
  if (!s->floats) return NULL;
  if ((old->op != TG_OP_ADD && old->op != TG_OP_SUB) || (old->type != TG_F32 && old->type != TG_F64)) return NULL;
  bool minus = old->op == TG_OP_SUB;
  /* Where both are products, the second one of the text is fused, whatever the schedule: rules leave such a sum's
   * operands as they are. */
  for (uint32_t i = 2; i-- > 0;) {
    if (!product(s, old->src[i], src[i])) continue;
    const tg_uop *m = src[i], *c = src[1 - i];
    tg_assert(&j->env, m->type == old->type && c->type == old->type);
    if (minus && i == 0) c = negated(j, c);
    return tg_op3(j, TG_OP_FMA, minus && i == 1 ? negated(j, m->src[0]) : m->src[0], m->src[1], c);
  }
  return NULL;
}

const tg_uop *tg_pass_fma(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  if (l->formed) return sink;
  state s = {tg_new(&j->env, uint8_t, sink->id + 1), !l->target || l->target->fma};
  tg_sweep w = tg_sweep_of(j, sink);
  bool any = false;
  for (uint32_t k = 0; k < w.n; k++) {
    const tg_uop *u = w.u[k];
    any |= (s.floats && u->op == TG_OP_MUL && (u->type == TG_F32 || u->type == TG_F64)) || u->op == TG_OP_MATRIX;
    for (uint32_t i = 0; i < u->n; i++)
      if (s.uses[u->src[i]->id] < 2) s.uses[u->src[i]->id]++;
  }
  return any ? tg_sweep_map(j, sink, form_fma, &s) : sink;
}
