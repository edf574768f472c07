/* SPDX-License-Identifier: MIT
 * What fusion recognises in a kernel after pass raise: maps, and products that pass fma may join to a sum. */
#include "compile/fuse.h"

static bool is_lanewise(const tg_uop *u) {
  bool leaf = u->op == TG_OP_CONST || u->op == TG_OP_DEFINE || u->op == TG_OP_RANGE || u->op == TG_OP_LOAD;
  return u->lanes == 1 && (leaf || tg_ops[u->op].flags & TG_OPF_W);
}

static uint32_t place_of(const tg_fuse_side *s, const tg_uop *range) {
  uint32_t i = 0;
  while (i < s->depth && s->range[i] != range) i++;
  return i;
}

/* Are the access's subscripts the loops, each once, and the buffer's dimensions their extents? */
static bool is_whole(const tg_fuse_side *s, const tg_uop *access) {
  uint32_t seen = 0;
  if (access->arg & TG_GATED || tg_access_rank(access) != s->depth) return false;
  for (uint32_t d = 0; d < s->depth; d++) {
    uint32_t i = place_of(s, access->src[1 + d]);
    if (i == s->depth || seen >> i & 1 || tg_extent(s->range[i]) != tg_define_of(access->src[0])->src[d]) return false;
    seen |= 1u << i;
  }
  return true;
}

/* Does each iteration store to an element of its own? */
static bool is_apart(const tg_fuse_side *s, const tg_uop *access) {
  for (uint32_t i = 0; i < s->depth; i++) {
    uint32_t d = 0, rank = tg_access_rank(access);
    while (d < rank && access->src[1 + d] != s->range[i]) d++;
    if (d == rank && !tg_is_const(tg_extent(s->range[i]), 1)) return false;
  }
  return true;
}

/* The nest around the only statement; false: there are others. */
static bool find_nest(tg_fuse_side *s) {
  const tg_uop *nest = NULL;
  for (uint32_t i = 0; i < s->plain->n; i++) {
    const tg_uop *u = s->plain->src[i];
    if (u->op == TG_OP_DEFINE) {
      if (tg_buffer_info(s->job, u)->space != TG_SPACE_GLOBAL) return false;
    } else if (nest) return false;
    else nest = u;
  }
  for (; nest && nest->op == TG_OP_END; nest = nest->src[1]) {
    const tg_uop *r = nest->src[0];
    if (nest->n != 2 || s->depth == TG_COUNT(s->range) || tg_range_kind(r) != TG_LOOP ||
        tg_extent(r)->op != TG_OP_CONST) return false;
    s->range[s->depth++] = r;
  }
  s->store = nest;
  return nest && nest->op == TG_OP_STORE && !(nest->arg & (TG_GATED | TG_ATOMIC));
}

static bool find_map(tg_fuse_side *s) {
  uint32_t n, loads = 0;
  if (!find_nest(s) || tg_buffer_info(s->job, s->store->src[0])->role != TG_ROLE_OUT) return false;
  const tg_uop **all = tg_toposort(s->job, s->store, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = all[i];
    if (u == s->store) continue;
    if (!is_lanewise(u) || (u->op == TG_OP_RANGE && place_of(s, u) == s->depth)) return false;
    if (u->op == TG_OP_LOAD && tg_buffer_info(s->job, u->src[0])->role != TG_ROLE_IN) return false;
    if (tg_fuse_reads(u, s->between)) loads++, s->load = u;
  }
  /* a reader's iterations take the order of the writer's, so none may overwrite another's element */
  s->whole = loads ? loads == 1 && is_whole(s, s->load) && is_apart(s, s->store) : is_whole(s, s->store);
  return true;
}

void tg_fuse_see(tg_fuse_side *s) {
  uint32_t n;
  const tg_uop **all = tg_toposort(s->job, s->plain, &n);
  s->depth = 0, s->load = s->store = NULL, s->whole = false;
  bool sums = false;
  for (uint32_t i = 0; i < n; i++)
    sums |= all[i]->op == TG_OP_REDUCE ||
            (all[i]->op == TG_OP_DEFINE && tg_buffer_info(s->job, all[i])->space != TG_SPACE_GLOBAL);
  s->map = !sums && find_map(s);
}

/* ---- products and sums of floats ---- */

static bool is_wide(const tg_uop *u) { return u->type == TG_F32 || u->type == TG_F64; }
static bool is_product(const tg_uop *u) { return u->op == TG_OP_MUL && is_wide(u); }
static bool is_sum(const tg_uop *u) { return (u->op == TG_OP_ADD || u->op == TG_OP_SUB) && is_wide(u); }

bool tg_fuse_is_product(const tg_uop *u) {
  return is_product(u) || (u->op == TG_OP_NEG && is_wide(u));
}

bool tg_fuse_is_added(tg_job *j, const tg_uop *root, const tg_uop *u) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, root, &n);
  for (uint32_t i = 0; i < n; i++) {
    bool sum = is_sum(all[i]) || all[i]->op == TG_OP_REDUCE;
    for (uint32_t k = 0; sum && k < all[i]->n; k++)
      if (all[i]->src[k] == u) return true;
  }
  return false;
}

bool tg_fuse_two_products(tg_job *j, const tg_uop *plain) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, plain, &n);
  for (uint32_t i = 0; i < n; i++)
    if (all[i]->op == TG_OP_ADD && is_sum(all[i]) && is_product(all[i]->src[0]) && is_product(all[i]->src[1]))
      return true;
  return false;
}

/* A product that does not depend on every loop is one node in the parts of a loop that a schedule cuts, and so has
 * several uses there. */
bool tg_fuse_unsure(const tg_fuse_side *s) {
  uint32_t n;
  if (tg_fuse_two_products(s->job, s->plain)) return true;
  const tg_uop **all = tg_toposort(s->job, s->store, &n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < 2 && is_sum(all[i]); k++)
      for (uint32_t d = 0; d < s->depth && is_product(all[i]->src[k]); d++)
        if (!tg_is_const(tg_extent(s->range[d]), 1) && !tg_uses(s->job, all[i]->src[k], s->range[d])) return true;
  return false;
}

static bool loads(tg_job *j, const tg_uop *root) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, root, &n);
  for (uint32_t i = 0; i < n; i++)
    if (all[i]->op == TG_OP_LOAD) return true;
  return false;
}

bool tg_fuse_has_bare_product(const tg_fuse_side *s) {
  uint32_t n;
  const tg_uop **all = tg_toposort(s->job, s->store, &n);
  for (uint32_t i = 0; i < n; i++)
    if (is_product(all[i]) && !loads(s->job, all[i])) return true;
  return false;
}

/* Is the value 0 where all that is loaded is 0? NULL entries are not. */
static bool vanishes(const bool *zero, const tg_uop *u) {
  const bool a = u->n > 0 && zero[u->src[0]->id], b = u->n > 1 && zero[u->src[1]->id];
  switch (u->op) {
  case TG_OP_LOAD: return true;
  case TG_OP_CONST: return tg_is_float(u->type) ? tg_const_value(u) == 0 : u->arg == 0;
  case TG_OP_ADD: case TG_OP_SUB: return a && b;
  case TG_OP_MUL: case TG_OP_MIN: case TG_OP_MAX: return a || b;
  case TG_OP_NEG: case TG_OP_ABS: case TG_OP_CAST: return a;
  case TG_OP_WHERE: return b || zero[u->src[2]->id];
  default: return false;
  }
}

bool tg_fuse_changes_terms(tg_job *j, const tg_uop *plain, uint32_t buffer) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, plain, &n);
  bool *zero = tg_new(&j->env, bool, j->uops.n), *reads = tg_new(&j->env, bool, j->uops.n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = all[i];
    zero[u->id] = vanishes(zero, u), reads[u->id] = tg_fuse_reads(u, buffer);
    for (uint32_t k = 0; k < u->n; k++) reads[u->id] |= reads[u->src[k]->id];
    if (u->op != TG_OP_REDUCE) continue;
    tg_reduce_arg a = tg_reduce_info(u);
    for (uint32_t k = 0; k < a.values; k++)
      if (reads[u->src[k]->id] && is_product(u->src[k]) && (a.generic || zero[u->src[k]->id])) return true;
  }
  return false;
}
