/* SPDX-License-Identifier: MIT
 * Start of pass place, on targets with warps: if one statement takes several elements of a register tile at once (an
 * operand or accumulator of a matrix instruction) and another takes single elements, all accesses become single
 * elements. The subscripts are constant in each lane of the vector, so a vector is assembled from its elements and
 * taken apart into them. This only renames registers; no instruction remains. */
#include "lower/sweep.h"

typedef struct { bool *mixed; tg_job *j; } state;

static bool in_pieces(const state *s, const tg_uop *access) {
  return (access->op == TG_OP_LOAD || access->op == TG_OP_STORE) && s->mixed[tg_buffer_ordinal(access->src[0])];
}

static uint32_t width_of(const tg_uop *access) {
  uint32_t n = 1;
  for (uint32_t i = 0; i < tg_access_rank(access); i++)
    if (access->src[1 + i]->lanes > n) n = access->src[1 + i]->lanes;
  return n;
}

static const tg_uop *lane_of(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  return old->op == TG_OP_IOTA ? tg_const_int(j, old->type, *(const uint32_t *)user) : tg_fold(j, old, src);
}

/* The subscripts in one lane of the vector; false if one is not constant. */
static bool element(tg_job *j, const tg_uop *access, uint32_t lane, const tg_uop **sub) {
  for (uint32_t i = 0; i < tg_access_rank(access); i++) {
    sub[i] = tg_map(j, access->src[1 + i], lane_of, NULL, &lane);
    if (sub[i]->op != TG_OP_CONST) return false;
  }
  return true;
}

static const tg_uop *together(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const state *s = user;
  uint32_t n = old->op == TG_OP_LOAD ? width_of(old) : 1;
  const tg_uop *sub[16], *v = NULL;
  if (n == 1 || !in_pieces(s, old)) return NULL;
  for (uint32_t i = 0; i < n; i++) {
    element(j, old, i, sub);
    const tg_uop *x = tg_load(j, old->src[0], sub, NULL, NULL, old->arg & ~(int64_t)TG_GATED);
    v = v ? tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, tg_iota(j, TG_I32, n), tg_const_int(j, TG_I32, i)), x, v) : x;
  }
  return tg_gate(old) ? tg_op3(j, TG_OP_WHERE, src[old->n - 2], v, src[old->n - 1]) : v;
}

static void apart(state *s, const tg_uop *u, const tg_uop ***list, uint32_t *n, uint32_t *cap) {
  tg_job *j = s->j;
  const tg_uop *sub[16], *whole = u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH ? tg_map(j, u, together, NULL, s) : u;
  uint32_t width = u->op == TG_OP_STORE && in_pieces(s, u) ? width_of(u) : 1;
  if (u->op == TG_OP_END) {
    const tg_uop **inner = NULL;
    uint32_t m = 0, room = 0;
    for (uint32_t i = 1; i < u->n; i++) apart(s, u->src[i], &inner, &m, &room);
    whole = tg_end(j, u->src[0], m, inner);
  }
  if (*n + width > *cap) {
    uint32_t more = 2 * (*n + width) + 8;
    const tg_uop **to = tg_new(&j->env, const tg_uop *, more);
    if (*n) memcpy(to, *list, *n * sizeof *to);
    *list = to;
    *cap = more;
  }
  tg_pos pos = tg_get_pos(j, u);
  for (uint32_t i = 0; i < width; i++) {
    const tg_uop *x = whole, *v;
    if (width > 1) {
      element(j, u, i, sub);
      v = tg_stored(whole);
      x = tg_store(j, u->src[0], sub, v->lanes > 1 ? tg_shuffle(j, v, tg_index(j, width), tg_index(j, i)) : v, NULL,
                   u->arg);
    }
    if (pos.line && u->op != TG_OP_DEFINE) tg_set_pos(j, x, pos);
    (*list)[(*n)++] = x;
  }
}

/* A store is split into one store per element. Does its value load the same tile, so that later ones would read what
 * the first have written? */
static bool reads_itself(tg_job *j, const tg_uop *store) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, tg_stored(store), &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_ordinal(order[i]->src[0]) == tg_buffer_ordinal(store->src[0]))
      return true;
  return false;
}

const tg_uop *tg_place_pieces(tg_job *j, const tg_uop *sink) {
  state s = {tg_new(&j->env, bool, j->buffers.n + 1), j};
  bool *never = tg_new(&j->env, bool, j->buffers.n + 1), any = false;
  sink = tg_plain(j, sink);
  tg_sweep w = tg_sweep_of(j, sink);
  for (uint32_t i = 0; i < w.n; i++) {
    const tg_uop *u = w.u[i], *sub[16];
    if (u->op != TG_OP_LOAD && u->op != TG_OP_STORE) continue;
    uint32_t b = tg_buffer_ordinal(u->src[0]), n = width_of(u);
    if (j->buffers.data[b].space != TG_SPACE_REG) continue;
    if (n > 1) s.mixed[b] = true;
    never[b] |= u->src[0]->lanes > 1 || (n > 1 && u->op == TG_OP_STORE && (tg_gate(u) || reads_itself(j, u)));
    for (uint32_t k = 0; k < n && n > 1 && !never[b]; k++) never[b] = !element(j, u, k, sub);
  }
  for (uint32_t b = 0; b < j->buffers.n; b++) any |= s.mixed[b] = s.mixed[b] && !never[b];
  if (any) {
    const tg_uop **list = NULL;
    uint32_t n = 0, cap = 0;
    for (uint32_t i = 0; i < sink->n; i++) apart(&s, sink->src[i], &list, &n, &cap);
    sink = tg_sink(j, n, list);
  }
  return tg_versioned(j, sink);
}
