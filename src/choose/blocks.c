/* SPDX-License-Identifier: MIT
 * Loops with a loop-carried dependence, over the rows of a matrix that several of their statements read:
 *
 *   for i { q[i] = sum(j: A[i,j] * p[j]); for j { s[j] += A[i,j] * r[i] } }
 *
 * A few rows are taken at a time, and each statement goes over them in its own loop: they are read from memory once for
 * all statements, each vector of p serves all of the rows, and s is read and written once for them. */
#include "ranges/depend.h"
#include "choose/nest.h"

/* The same element, but for what runs along it? */
static bool same_row(const tg_uop *a, const tg_uop *b) {
  uint32_t rank = tg_access_rank(a);
  if (rank != tg_access_rank(b) || tg_buffer_ordinal(a->src[0]) != tg_buffer_ordinal(b->src[0])) return false;
  for (uint32_t d = 0; d + 1 < rank; d++)
    if (a->src[1 + d] != b->src[1 + d]) return false;
  return true;
}

/* The load of a row of `rows` among the sources of u, along the range; NULL: there is none. */
static const tg_uop *row_along(tg_nest *n, const tg_uop *u, const tg_uop *rows, const tg_uop *along) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_info(n->j, order[i]->src[0])->space == TG_SPACE_GLOBAL &&
        tg_access_motion(n->j, order[i], rows) == TG_STRIDES &&
        tg_access_motion(n->j, order[i], along) == TG_CONTIGUOUS)
      return order[i];
  return NULL;
}

/* What a statement of the loop sums along a row of. */
static const tg_uop *summed(tg_nest *n, const tg_uop *u, const tg_uop *rows) {
  uint32_t count;
  if (u->op != TG_OP_STORE) return NULL;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    tg_reduce_arg a = tg_reduce_info(order[i]);
    const tg_uop *row =
        a.ranges == 1 && !a.generic && !a.in_order ? row_along(n, order[i], rows, tg_reduce_ranges(order[i])[0]) : NULL;
    if (row) return row;
  }
  return NULL;
}

/* What a statement of the loop adds to something that stands still. */
static const tg_uop *added(tg_nest *n, const tg_uop *u, const tg_uop *rows) {
  if (u->op != TG_OP_END || u->n != 2 || u->src[1]->op != TG_OP_STORE) return NULL;
  const tg_uop *store = u->src[1];
  if (tg_accumulates(n->j, store) != TG_OP_ADD || tg_access_motion(n->j, store, rows) != TG_STILL ||
      tg_access_motion(n->j, store, u->src[0]) != TG_CONTIGUOUS)
    return NULL;
  return row_along(n, store, rows, u->src[0]);
}

/* The statement that sums along the rows of the loop which another one adds; NULL: there are no such two. */
static const tg_uop *find_pair(tg_nest *n, const tg_uop *loop) {
  const tg_uop *rows = loop->src[0];
  for (uint32_t i = 1; i < loop->n; i++) {
    const tg_uop *sum = summed(n, loop->src[i], rows);
    for (uint32_t k = 1; sum && k < loop->n; k++) {
      const tg_uop *add = added(n, loop->src[k], rows);
      if (add && same_row(sum, add)) return loop->src[i];
    }
  }
  return NULL;
}

static const tg_uop *find_loop(tg_nest *n, const tg_uop *u) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return NULL;
  if (tg_range_kind(u->src[0]) == TG_LOOP && find_pair(n, u)) return u;
  const tg_uop *found = NULL;
  for (uint32_t i = 1; i < u->n && !found; i++) found = find_loop(n, u->src[i]);
  return found;
}

/* The loop of a name in the program now, and the one around a store. */
static const tg_uop *loop_of(tg_nest *n, const char *name) {
  const tg_axis a = tg_nest_axis_sites(n, name);
  return a.n == 1 && a.site[0].owner->op == TG_OP_END ? a.site[0].owner : NULL;
}

static const tg_uop *loop_around(tg_nest *n, const tg_uop *buffer, const char *range) {
  for (uint32_t i = 0; i < n->s.stores.n; i++) {
    uint32_t at = n->s.stores.data[i].parent;
    if (tg_buffer_ordinal(n->s.stores.data[i].store->src[0]) != tg_buffer_ordinal(buffer) || at == UINT32_MAX) continue;
    if (!strcmp(tg_range_name(&n->s, n->s.sites.data[at].range), range)) return n->s.sites.data[at].owner;
  }
  return NULL;
}

void tg_nest_blocks(tg_nest *n) {
  const tg_uop *loop = n->copies > 1 || n->lanes < 2 ? NULL : find_loop(n, n->top);
  if (!loop || !tg_may_fission(&n->s, loop)) return;
  tg_nest_loop l = tg_nest_read_loop(n, loop);
  uint32_t applied = n->j->opts.n, rows = (uint32_t)TG_CHOOSE(n, "block", 4, 1, 2, 4, 8);
  if (rows < 2 || l.members > 1 || !l.extent_text || (l.extent >= 0 && l.extent < 2 * (int64_t)rows)) return;
  const tg_uop *stored = find_pair(n, loop)->src[0];
  const char *name = l.name, *b = l.base, *inner = tg_format(&n->j->env, "%s.y", b);
  if (l.extent < 0) tg_nest_emit(n, "cut %s at (%s)/%u*%u as %s.g %s.h", name, l.extent_text, rows, rows, b, b);
  else if (l.extent % rows)
    tg_nest_emit(n, "cut %s at %lld as %s.g %s.h", name, (long long)(l.extent / rows * rows), b, b);
  if (l.extent < 0 || l.extent % rows) name = tg_format(&n->j->env, "%s.g", b);
  tg_nest_emit(n, "split %s %u as %s.b %s", name, rows, b, inner);
  tg_nest_apply(n, applied);
  applied = n->j->opts.n;
  loop = loop_of(n, inner);
  if (!loop || !tg_may_fission(&n->s, loop)) return;
  tg_nest_emit(n, "fission %s", inner);
  tg_nest_apply(n, applied);
  applied = n->j->opts.n;
  loop = loop_around(n, stored, inner);
  const char *why;
  if (!loop || tg_range_verdict(&n->s, loop, &why) != TG_INDEPENDENT) return;
  tg_nest_emit(n, "upcast %s", tg_axis_name(&n->s, loop->src[0]));
  tg_nest_apply(n, applied);
}
