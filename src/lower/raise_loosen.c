/* SPDX-License-Identifier: MIT
 * End of pass raise: a load in an arm of `where(c, x, y)` has c, or in y its opposite, as its gate, since that may be
 * what keeps it in bounds. Conditions that its bounds do not need are dropped from the gate: where they are false the
 * loaded value is not used. A causal mask then becomes a choice between values, and the masked keys are still loaded
 * once for all queries. Only for inputs, and for register tiles that were filled before: other memory may be unwritten
 * where c is false. */
#include "dsl/parse.h"
#include "lower/sweep.h"

enum { CONDITIONS = 32 };

typedef struct { uint32_t n; const tg_uop *c[CONDITIONS]; const uint8_t *filled; } conditions;

static void flatten(const tg_uop *u, conditions *out) {
  const tg_uop *stack[CONDITIONS] = {u};
  uint32_t n = u ? 1 : 0;
  while (n) {
    const tg_uop *c = stack[--n];
    if (c->op == TG_OP_AND && c->type == TG_BOOL && n + 2 <= CONDITIONS) {
      stack[n++] = c->src[1];
      stack[n++] = c->src[0];
    } else if (out->n < CONDITIONS) out->c[out->n++] = c;
  }
}

bool tg_surely_in_bounds(tg_job *j, const tg_uop *load, const tg_uop *gate) {
  const tg_uop *define = tg_define_of(load->src[0]);
  tg_facts facts = {NULL, gate};
  for (uint32_t d = 0; d < tg_access_rank(load); d++) {
    const tg_uop *sub = load->src[1 + d];
    if (!tg_proves(j, gate ? &facts : NULL, tg_op2(j, TG_OP_LE, tg_index(j, 0), sub)) ||
        !tg_proves(j, gate ? &facts : NULL, tg_op2(j, TG_OP_LT, sub, define->src[d]))) return false;
  }
  return true;
}

/* The gate without those of the conditions that it can do without; gate itself if it needs all. */
static const tg_uop *needed(tg_job *j, const tg_uop *load, const conditions *spare) {
  const tg_uop *gate = tg_gate(load);
  conditions all = {0};
  bool dropped = false;
  flatten(gate, &all);
  if (all.n == CONDITIONS) return gate;
  for (uint32_t i = 0; i < all.n; i++) {
    const tg_uop *rest = NULL;
    bool known = false;
    for (uint32_t k = 0; k < spare->n; k++) known |= spare->c[k] == all.c[i];
    for (uint32_t k = 0; k < all.n; k++)
      if (k != i && all.c[k]) rest = tg_and(j, rest, all.c[k]);
    if (!known || !tg_surely_in_bounds(j, load, rest)) continue;
    all.c[i] = NULL;
    dropped = true;
  }
  const tg_uop *left = NULL;
  for (uint32_t i = 0; i < all.n; i++)
    if (all.c[i]) left = tg_and(j, left, all.c[i]);
  return dropped ? left : gate;
}

static const tg_uop *loosen_load(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const conditions *c = user;
  /* a RANGE is one node for all its uses, also where the condition is false, so loads in its extent keep their gates */
  if (old->op == TG_OP_RANGE) return old;
  if (old->op != TG_OP_LOAD || !tg_gate(old) ||
      (tg_buffer_info(j, old->src[0])->role != TG_ROLE_IN && !c->filled[tg_buffer_ordinal(old->src[0])]))
    return NULL;
  for (uint32_t i = 0; i < old->n; i++)
    if (src[i] != old->src[i]) return NULL; /* a load in its subscripts or gate has changed: leave it alone */
  const tg_uop *gate = needed(j, old, c);
  if (gate == tg_gate(old)) return NULL;
  return tg_load(j, src[0], src + 1, gate, gate ? tg_alternative(old) : NULL, old->arg & ~(int64_t)TG_GATED);
}

static const tg_uop *loosen_arm(tg_job *j, const tg_uop *arm, const tg_uop *path, const uint8_t *filled) {
  conditions c = {.filled = filled};
  flatten(path, &c);
  return c.n < CONDITIONS ? tg_map(j, arm, loosen_load, NULL, &c) : arm;
}

static const tg_uop *loosen_where(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  if (old->op != TG_OP_WHERE || src[0]->op == TG_OP_CONST) return NULL;
  const tg_uop *yes = loosen_arm(j, src[1], src[0], user), *no = loosen_arm(j, src[2], tg_negate(j, src[0]), user);
  return yes == src[1] && no == src[2] ? NULL : tg_op3(j, TG_OP_WHERE, src[0], yes, no);
}

/* Marks the tiles that a nest of loops fills: each element stored to, once, under no gate. */
static void mark_filled(tg_job *j, const tg_uop *u, const tg_uop **loop, uint32_t depth, uint8_t *filled) {
  if (u->op == TG_OP_END && depth < 16) {
    loop[depth] = u->src[0];
    for (uint32_t i = 1; i < u->n; i++) mark_filled(j, u->src[i], loop, depth + 1, filled);
  }
  if (u->op != TG_OP_STORE || tg_gate(u) || tg_buffer_info(j, u->src[0])->space != TG_SPACE_REG ||
      tg_access_rank(u) != depth)
    return;
  for (uint32_t d = 0; d < depth; d++) {
    bool found = false;
    for (uint32_t k = 0; k < depth; k++)
      found |= u->src[1 + d] == loop[k] && tg_extent(loop[k]) == tg_define_of(u->src[0])->src[d];
    for (uint32_t k = 0; k < d; k++) found &= u->src[1 + d] != u->src[1 + k];
    if (!found) return;
  }
  filled[tg_buffer_ordinal(u->src[0])] = 1;
}

/* A tile that is filled inside a loop counts as filled only in the rest of the body, since the loop may not run. A
 * tile that a whole statement fills counts as filled after it. */
static const tg_uop *walk(tg_job *j, const tg_uop *u, uint8_t *filled) {
  const tg_uop *loop[16];
  if (u->op == TG_OP_STORE) return tg_map(j, u, loosen_where, NULL, filled);
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return u;
  uint8_t *inside = tg_new(&j->env, uint8_t, j->buffers.n + 1);
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n + 1);
  memcpy(inside, filled, j->buffers.n);
  bool same = true;
  for (uint32_t i = 0; i < u->n; i++) {
    list[i] = walk(j, u->src[i], inside);
    same &= list[i] == u->src[i];
    mark_filled(j, u->src[i], loop, 0, inside);
  }
  if (same) return u;
  const tg_uop *v = tg_make(j, u->op, TG_VOID, 1, u->arg, u->n, list);
  tg_set_pos(j, v, tg_get_pos(j, u));
  return v;
}

const tg_uop *tg_loosen_gates(tg_job *j, const tg_uop *plain) {
  uint32_t n;
  bool where = false, gated = false;
  const tg_uop **order = tg_toposort(j, plain, &n);
  for (uint32_t i = 0; i < n; i++) {
    where |= order[i]->op == TG_OP_WHERE;
    gated |= order[i]->op == TG_OP_LOAD && tg_gate(order[i]);
  }
  return where && gated ? walk(j, plain, tg_new(&j->env, uint8_t, j->buffers.n + 1)) : plain;
}
