/* SPDX-License-Identifier: MIT
 * Walks in order of node id, and folding of the small integer arithmetic that remains when constants are substituted.
 */
#include "lower/sweep.h"

tg_sweep tg_sweep_of(tg_job *j, const tg_uop *root) {
  uint32_t n = root->id + 1, count = 0;
  uint8_t *mark = tg_new(&j->env, uint8_t, n);
  mark[root->id] = 1;
  for (uint32_t id = n; id-- > 0;) {
    if (!mark[id]) continue;
    const tg_uop *u = j->uops.data[id];
    count++;
    for (uint32_t i = 0; i < u->n; i++) mark[u->src[i]->id] = 1;
  }
  tg_sweep s = {tg_new(&j->env, const tg_uop *, count), 0};
  for (uint32_t id = 0; id < n; id++)
    if (mark[id]) s.u[s.n++] = j->uops.data[id];
  return s;
}

const tg_uop *tg_sweep_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, void *user) {
  tg_sweep s = tg_sweep_of(j, root);
  const tg_uop **to = tg_new(&j->env, const tg_uop *, root->id + 1), *few[32];
  for (uint32_t k = 0; k < s.n; k++) {
    const tg_uop *u = s.u[k], **src = u->n <= TG_COUNT(few) ? few : tg_new(&j->env, const tg_uop *, u->n);
    bool same = true;
    for (uint32_t i = 0; i < u->n; i++) {
      src[i] = to[u->src[i]->id];
      same &= src[i] == u->src[i];
    }
    const tg_uop *v = fn(j, u, src, user);
    if (!v) v = same ? u : tg_with_sources(j, u, src);
    tg_assert(&j->env, (v->type == TG_VOID) == (u->type == TG_VOID));   /* a statement stays one */
    if (v != u && u->type == TG_VOID && u->id < j->pos.n && j->pos.data[u->id].line)
      tg_set_pos(j, v, j->pos.data[u->id]);
    to[u->id] = v;
  }
  return to[root->id];
}

bool tg_loads_from(tg_job *j, const tg_uop *u, uint32_t buffer) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_ordinal(order[i]->src[0]) == buffer) return true;
  return false;
}

bool tg_is_value(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CONST: case TG_OP_PARAM: case TG_OP_RANGE: case TG_OP_IOTA: case TG_OP_ARG: case TG_OP_DEFINE:
  case TG_OP_AFTER:
  case TG_OP_STORE:
  case TG_OP_END:
  case TG_OP_SINK:
  case TG_OP_BARRIER:
  case TG_OP_WAIT:
  case TG_OP_PREFETCH: return false;
  default: return true;
  }
}

static const tg_uop *fold_constants(tg_job *j, const tg_uop *u, const tg_uop *const *src) {
  tg_value v[3], r;
  for (uint32_t i = 0; i < u->n; i++) {
    if (src[i]->op != TG_OP_CONST) return NULL;
    v[i] = tg_value_of(src[i]);
  }
  if (u->op == TG_OP_CAST ? !tg_convert(u->type, src[0]->type, v[0], &r)
                          : !tg_evaluate(u->op, u->type, src[u->n - 1]->type, v, &r))
    return NULL;
  return tg_const_of(j, u->type, r);
}

static bool integral(const tg_uop *u) { return !tg_is_float(u->type) && u->type != TG_VOID; }

static const tg_uop *fold_sum(tg_job *j, const tg_uop *a, const tg_uop *b);

/* scalar + (scalar + vector), scalar + vector: the lanes' part last. */
static const tg_uop *lanes_last(tg_job *j, const tg_uop *scalar, const tg_uop *vector) {
  if (tg_is_const(scalar, 0)) return vector;
  if (vector->op != TG_OP_ADD || vector->src[0]->lanes > 1 || vector->src[1]->lanes == 1)
    return tg_op2(j, TG_OP_ADD, scalar, vector);
  const tg_uop *sum = fold_sum(j, vector->src[0], scalar);
  return tg_op2(j, TG_OP_ADD, sum ? sum : tg_op2(j, TG_OP_ADD, vector->src[0], scalar), vector->src[1]);
}

static const tg_uop *fold_sum(tg_job *j, const tg_uop *a, const tg_uop *b) {
  tg_assert(&j->env, a->type == b->type);
  if (a->type == TG_INDEX && (a->lanes > 1) != (b->lanes > 1))
    return a->lanes > 1 ? lanes_last(j, b, a) : lanes_last(j, a, b);
  if (a->op == TG_OP_CONST) { const tg_uop *t = a; a = b; b = t; }
  if (b->op != TG_OP_CONST || !integral(b)) return NULL;
  if (!b->arg) return a;
  if (a->op == TG_OP_ADD && a->src[1]->op == TG_OP_CONST) {
    tg_value both = {.i = tg_value_of(a->src[1]).i + tg_value_of(b).i};
    both.i = tg_wrap(b->type, both.i);
    const tg_uop *c = tg_const_of(j, b->type, both);
    return !c ? NULL : c->arg ? tg_op2(j, TG_OP_ADD, a->src[0], c) : a->src[0];
  }
  return tg_op2(j, TG_OP_ADD, a, b);
}

static const tg_uop *fold_binary(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b) {
  const tg_uop *c = a->op == TG_OP_CONST ? a : b, *x = c == a ? b : a;
  switch (op) {
  case TG_OP_ADD: return fold_sum(j, a, b);
  case TG_OP_SUB: return b->op == TG_OP_CONST && integral(b) && !b->arg ? a : NULL;
  case TG_OP_MUL:
    if (c->op != TG_OP_CONST || !integral(c)) return NULL;
    return c->arg == 1 ? x : !c->arg ? c : NULL;
  case TG_OP_AND:
    if (c->op != TG_OP_CONST || c->type != TG_BOOL) return a == b ? a : NULL;
    return c->arg ? x : c;
  case TG_OP_OR:
    if (c->op != TG_OP_CONST || c->type != TG_BOOL) return a == b ? a : NULL;
    return c->arg ? c : x;
  default: return NULL;
  }
}

const tg_uop *tg_fold2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b) {
  if (a->op == TG_OP_CONST && b->op == TG_OP_CONST && integral(a)) {
    tg_value v[2] = {tg_value_of(a), tg_value_of(b)}, r;
    tg_type t = tg_ops[op].flags & TG_OPF_B ? TG_BOOL : a->type;
    const tg_uop *k = tg_evaluate(op, t, a->type, v, &r) ? tg_const_of(j, t, r) : NULL;
    if (k) return k;
  }
  const tg_uop *v = fold_binary(j, op, a, b);
  return v ? v : tg_op2(j, op, a, b);
}

static const tg_uop *fold_load(tg_job *j, const tg_uop *u, const tg_uop *const *src) {
  if (!(u->arg & TG_GATED) || src[u->n - 2]->op != TG_OP_CONST) return NULL;
  if (!src[u->n - 2]->arg) return src[u->n - 1];
  return tg_load(j, src[0], src + 1, NULL, NULL, u->arg & ~(int64_t)TG_GATED);
}

const tg_uop *tg_fold(tg_job *j, const tg_uop *u, const tg_uop *const *src) {
  const tg_uop *v = NULL;
  if (u->op == TG_OP_LOAD) v = fold_load(j, u, src);
  else if ((tg_ops[u->op].flags & TG_OPF_W) && u->n && integral(src[u->n - 1])) {
    if (u->lanes == 1 || src[0]->op == TG_OP_CONST) v = u->n <= 3 ? fold_constants(j, u, src) : NULL;
    if (!v && u->n == 2) v = fold_binary(j, u->op, src[0], src[1]);
  }
  if (!v && u->op == TG_OP_WHERE && src[0]->op == TG_OP_CONST) v = src[0]->arg ? src[1] : src[2];
  return v ? v : tg_with_sources(j, u, src);
}

bool tg_has_phases(const tg_uop *end) {
  if (end->op != TG_OP_END || tg_range_kind(end->src[0]) == TG_THREAD) return false;
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i]->op == TG_OP_END && (tg_range_kind(end->src[i]->src[0]) == TG_THREAD || tg_has_phases(end->src[i])))
      return true;
  return false;
}
