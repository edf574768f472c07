/* SPDX-License-Identifier: MIT
 * Values of nodes for chosen values of ranges and parameters, for the spec of order. */
#include <stdlib.h>
#include "lower/verify_values.h"

enum { NODES = 1 << 12 };   /* of one program, at most */

tg_node_values tg_node_values_of(tg_job *j) {
  return (tg_node_values){.j = j,
                          .seen = tg_new(&j->env, uint32_t, j->uops.n),
                          .slot = tg_new(&j->env, uint32_t, j->uops.n),
                          .range = tg_new(&j->env, int64_t, j->ranges.n + 1),
                          .param = tg_new(&j->env, int64_t, j->params.n + 1)};
}

static bool is_known_leaf(const tg_uop *u) {
  return u->op == TG_OP_CONST || u->op == TG_OP_RANGE || u->op == TG_OP_PARAM || u->op == TG_OP_IOTA;
}

static void give_slot(tg_node_values *s, const tg_uop *u) {
  if (s->slot[u->id]) return;
  s->slot[u->id] = s->value.n + 1;
  if (u->op == TG_OP_PARAM) tg_push(&s->j->env, &s->params, u);
  for (uint32_t l = 0; l < u->lanes; l++) {
    tg_value v = u->op == TG_OP_CONST ? tg_value_of(u)
                                      : (tg_value){.i = u->op == TG_OP_IOTA    ? l
                                                        : u->op == TG_OP_PARAM ? s->param[u->arg]
                                                                               : 0};
    tg_push(&s->j->env, &s->value, v);
    tg_push(&s->j->env, &s->known, (uint8_t)is_known_leaf(u));
  }
}

static int by_id(const void *a, const void *b) {
  uint32_t x = (*(const tg_uop *const *)a)->id, y = (*(const tg_uop *const *)b)->id;
  return x < y ? -1 : x > y;
}

/* Nodes are made after their sources: by id, sources come first. */
bool tg_node_plan(tg_node_values *s, uint32_t n, const tg_uop *const *roots, tg_node_program *p) {
  TG_VEC(const tg_uop *) all = {0};
  s->stamp++;
  s->stack.n = 0;
  for (uint32_t i = 0; i < n; i++) tg_push(&s->j->env, &s->stack, roots[i]);
  while (s->stack.n) {
    const tg_uop *u = s->stack.data[--s->stack.n];
    if (s->seen[u->id] == s->stamp) continue;
    s->seen[u->id] = s->stamp;
    give_slot(s, u);
    bool computed = tg_ops[u->op].flags & TG_OPF_W;
    if (computed || u->op == TG_OP_RANGE) tg_push(&s->j->env, &all, u);
    for (uint32_t i = 0; computed && i < u->n; i++) tg_push(&s->j->env, &s->stack, u->src[i]);
    if (all.n > NODES) return false;
  }
  if (all.n) qsort(all.data, all.n, sizeof *all.data, by_id);
  *p = (tg_node_program){all.n, all.data};
  return true;
}

static uint32_t cell(const tg_node_values *s, const tg_uop *u, uint32_t lane) {
  return s->slot[u->id] - 1 + (u->lanes > 1 ? lane : 0);
}

static bool compute(const tg_node_values *s, const tg_uop *u, uint32_t lane, tg_value *out) {
  tg_value v[3];
  bool known[3], all = true;
  if (u->n > 3 || !u->n) return false;
  for (uint32_t i = 0; i < u->n; i++) {
    uint32_t c = cell(s, u->src[i], lane);
    v[i] = s->value.data[c];
    all &= known[i] = s->known.data[c];
  }
  if (!all && u->op == TG_OP_AND && u->type == TG_BOOL) {   /* false whatever the other is */
    out->i = 0;
    return (known[0] && !v[0].i) || (known[1] && !v[1].i);
  }
  if (!all && u->op == TG_OP_WHERE && known[0] && known[v[0].i ? 1 : 2]) {
    *out = v[v[0].i ? 1 : 2];
    return true;
  }
  if (!all || u->op == TG_OP_BITCAST) return false;
  if (u->op == TG_OP_CAST) return tg_convert(u->type, u->src[0]->type, v[0], out);
  return tg_evaluate(u->op, u->type, u->src[u->n - 1]->type, v, out);
}

void tg_node_run(tg_node_values *s, const tg_node_program *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    const tg_uop *u = p->u[i];
    uint32_t at = s->slot[u->id] - 1;
    if (u->op == TG_OP_RANGE) s->value.data[at].i = s->range[tg_range_ordinal(u)];
    else
      for (uint32_t l = 0; l < u->lanes; l++) s->known.data[at + l] = compute(s, u, l, &s->value.data[at + l]);
  }
}

bool tg_node_read(const tg_node_values *s, const tg_uop *u, uint32_t lane, int64_t *out) {
  uint32_t c = cell(s, u, lane);
  tg_i128 v = s->value.data[c].i;
  if (!s->known.data[c] || v > (tg_i128)1 << 61 || v < -((tg_i128)1 << 61)) return false;
  *out = (int64_t)v;
  return true;
}

bool tg_node_value(tg_node_values *s, const tg_uop *u, int64_t *value) {
  tg_node_program p;
  if (!tg_node_plan(s, 1, &u, &p)) return false;
  tg_node_run(s, &p);
  return tg_node_read(s, u, 0, value);
}

void tg_node_take_params(tg_node_values *s) {
  for (uint32_t i = 0; i < s->params.n; i++)
    s->value.data[s->slot[s->params.data[i]->id] - 1].i = s->param[s->params.data[i]->arg];
}
