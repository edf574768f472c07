/* SPDX-License-Identifier: MIT
 * Finds the expression, of one element and constants, that the program applies to each read of a staged buffer, so that
 * the copy can hold the expression's values instead of the source's: a rounding, or the bounds that an input promises
 * of what reaches a subscript, so that vectors are clamped where elements one by one would be. */
#include "schedule/stage.h"

/* The source that an op adds constants to, or NULL. */
static const tg_uop *varies(const tg_uop *u) {
  const tg_uop *one = NULL;
  if (!(tg_ops[u->op].flags & TG_OPF_W) || u->lanes != 1 || u->type == TG_INDEX) return NULL;
  for (uint32_t i = 0; i < u->n; i++) {
    if (u->src[i]->op == TG_OP_CONST) continue;
    if (one) return NULL;
    one = u->src[i];
  }
  return one;
}

const tg_uop *tg_through_load(const tg_uop *u, const tg_uop *source) {
  while (u && u->op != TG_OP_LOAD) u = varies(u);
  return u && tg_define_of(u->src[0]) == source ? u : NULL;
}

bool tg_through_same(const tg_uop *a, const tg_uop *b) {
  for (;; a = varies(a), b = varies(b)) {
    if (a->op != b->op || a->type != b->type || a->lanes != b->lanes) return false;
    if (a->op == TG_OP_LOAD) return true;
    const tg_uop *va = varies(a), *vb = varies(b);
    if (!va || !vb || a->arg != b->arg || a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++)
      if ((a->src[i] == va) != (b->src[i] == vb) || (a->src[i] != va && a->src[i] != b->src[i])) return false;
  }
}

const tg_uop *tg_through_apply(tg_job *j, const tg_rules *rules, const tg_uop *through, const tg_uop *x) {
  const tg_uop *stack[64], *src[4];
  uint32_t n = 0;
  bool folds = x->op == TG_OP_CONST;
  for (const tg_uop *u = through; u->op != TG_OP_LOAD; u = varies(u)) {
    if (n == TG_COUNT(stack)) return NULL;
    stack[n++] = u;
  }
  while (n) {
    const tg_uop *u = stack[--n], *v = varies(u);
    for (uint32_t i = 0; i < u->n; i++) src[i] = u->src[i] == v ? x : u->src[i];
    x = tg_with_sources(j, u, src);
  }
  return folds ? tg_simplify(j, rules, x) : x;
}

/* min(max(index(load), lo), hi), as the parser writes it of an input that promises lo..hi, or what is left of it where
 * the type alone keeps one of the two. NULL: something else, or a bound that is no value of the type. */
const tg_uop *tg_clamped_load(tg_job *j, const tg_uop *u, const tg_uop *source) {
  if (u->type != TG_INDEX || u->lanes != 1 || (u->op != TG_OP_MIN && u->op != TG_OP_MAX)) return NULL;
  for (; u->op == TG_OP_MIN || u->op == TG_OP_MAX; u = u->src[0])
    if (u->src[1]->op != TG_OP_CONST || tg_const_int(j, source->type, u->src[1]->arg)->arg != u->src[1]->arg)
      return NULL;
  return u->op == TG_OP_CAST && u->src[0]->op == TG_OP_LOAD && tg_define_of(u->src[0]->src[0]) == source ? u->src[0]
                                                                                                          : NULL;
}

const tg_uop *tg_clamp_apply(tg_job *j, const tg_uop *clamp, const tg_uop *x) {
  const tg_uop *below = clamp->src[0];
  if (below->op != TG_OP_CAST) x = tg_clamp_apply(j, below, x);
  return tg_op2(j, clamp->op, x, tg_const_int(j, x->type, clamp->src[1]->arg));
}

/* The same but for the load. */
bool tg_clamp_same(const tg_uop *a, const tg_uop *b) {
  for (; a->op == b->op && a->op != TG_OP_CAST && a->src[1] == b->src[1]; a = a->src[0], b = b->src[0]) {}
  return a->op == TG_OP_CAST && b->op == TG_OP_CAST;
}
