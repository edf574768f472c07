/* SPDX-License-Identifier: MIT
 * Finds the expression, of one element and constants, that the program applies to each read of a staged buffer, so that
 * the copy can hold the expression's values instead of the source's. */
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
