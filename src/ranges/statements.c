/* SPDX-License-Identifier: MIT
 * Simplifies a whole program: values and gates by the rules, then removes statements that never run: stores whose gate
 * is false, loops without iterations, empty loops. The program stays versioned or plain, as it came. */
#include "ranges/known.h"

static bool never(const tg_uop *gate) { return gate && gate->op == TG_OP_CONST && !gate->arg; }

static bool idle(tg_job *j, const tg_uop *u) {
  if (u->op == TG_OP_STORE) return never(tg_gate(u));
  return u->op == TG_OP_END && (u->n == 1 || tg_bounds_of(j, tg_extent(u->src[0])).hi <= 0);
}

static bool any_idle(tg_job *j, const tg_uop *u) {
  if (idle(j, u)) return true;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return false;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (any_idle(j, u->src[i])) return true;
  return false;
}

/* NULL: u never runs and is dropped. */
static const tg_uop *without_idle(tg_job *j, const tg_uop *u) {
  if (idle(j, u)) return NULL;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return u;
  uint32_t first = u->op == TG_OP_END, n = first;
  bool same = true;
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n + 1);
  if (first) list[0] = u->src[0];
  for (uint32_t i = first; i < u->n; i++) {
    const tg_uop *s = without_idle(j, u->src[i]);
    same &= s == u->src[i];
    if (s) list[n++] = s;
  }
  if (same) return u;
  if (n == first && first) return NULL;
  const tg_uop *v = tg_make(j, u->op, TG_VOID, 1, u->arg, n, list);
  tg_set_pos(j, v, tg_get_pos(j, u));
  return v;
}

static const tg_uop *spot_after(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)j, (void)src;
  if (old->op == TG_OP_AFTER) *(bool *)user = true;
  return old;
}

const tg_uop *tg_simplify(tg_job *j, const tg_rules *r, const tg_uop *root) {
  const tg_uop *u = tg_rewrite(j, r, TG_RULES_SIMPLIFY, root);
  while (u->op == TG_OP_SINK && any_idle(j, u)) {
    bool versioned = false;
    tg_map(j, u, spot_after, NULL, &versioned);
    if (versioned) u = tg_plain(j, u);
    u = without_idle(j, u);
    if (versioned) u = tg_versioned(j, u);
    u = tg_rewrite(j, r, TG_RULES_SIMPLIFY, u);
  }
  return u;
}
