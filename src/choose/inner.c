/* SPDX-License-Identifier: MIT
 * Loops inside a nest that is not perfect. The innermost ones become vectors where memory and dependences allow it,
 * with several rows of a stencil at a time. If none can, because each iteration needs the one before, the iterations of
 * a loop around them run side by side: as lanes, or as copies in registers if lanes would need gathers and the work is
 * cheap. */
#include "choose/nest.h"
#include "dsl/functions.h"

enum { SMALL = 4, SMALL_TERMS = 16 };

/* Does any innermost loop below run as vectors? */
static bool vectors_below(tg_nest *n, const tg_uop *u) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return false;
  if (tg_stores_only(u)) {
    tg_nest_loop l = tg_nest_read_loop(n, u);
    return tg_nest_vectorises(n, &l, u->src + 1, u->n - 1);
  }
  for (uint32_t i = 1; i < u->n; i++)
    if (vectors_below(n, u->src[i])) return true;
  return false;
}

typedef struct { bool strides, slow, atomic; } body;

/* How what stands in the loop moves with its range; are there operations that cost much more than a gather? */
static void read_body(tg_nest *n, const tg_uop *u, const tg_uop *range, body *b) {
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) read_body(n, u->src[i], range, b);
  if (u->op != TG_OP_STORE) return;
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  b->atomic |= (u->arg & TG_ATOMIC) != 0;
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_STORE)
      b->strides |= tg_access_motion(n->j, order[i], range) == TG_STRIDES;
    b->slow |= order[i]->op == TG_OP_FDIV || order[i]->op == TG_OP_SQRT || tg_is_function(order[i]->op);
  }
}

static bool constant_sizes(const tg_uop *u) {
  if (u->op == TG_OP_DEFINE)
    for (uint32_t d = 0; d < u->n; d++)
      if (u->src[d]->op != TG_OP_CONST) return false;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++)
      if (!constant_sizes(u->src[i])) return false;
  return true;
}

/* Copies of the loop's iterations, `by` at a time; those left over alone. */
static void copies(tg_nest *n, const tg_nest_loop *l, uint32_t by) {
  const char *name = l->name, *b = l->base;
  if (l->extent < 0) tg_nest_emit(n, "cut %s at (%s)/%u*%u as %s.g %s.h", name, l->extent_text, by, by, b, b);
  else if (l->extent % by) tg_nest_emit(n, "cut %s at %lld as %s.g %s.h", name, (long long)(l->extent / by * by), b, b);
  if (l->extent < 0 || l->extent % by) name = tg_format(&n->j->env, "%s.g", b);
  tg_nest_emit(n, "split %s %u as %s.y %s.z", name, by, b, b);
  tg_nest_emit(n, "upcast %s.z", b);
}

/* The iterations of the loop u side by side. */
static bool lanes_around(tg_nest *n, const tg_uop *u, bool *threads) {
  tg_nest_loop l = tg_nest_read_loop(n, u);
  body b = {0};
  if (!l.lockstep || n->copies > 1 || n->lanes < 2 || !l.extent_text || (l.extent >= 0 && l.extent < 4) ||
      !constant_sizes(u))
    return false;
  read_body(n, u, l.range, &b);
  if (b.atomic) return false;
  tg_nest_mark(n, l.name, true);
  if (b.strides && !b.slow) {
    copies(n, &l, SMALL);
    if (u != n->top) return true;
    const char *outer = tg_format(&n->j->env, "%s.y", l.base),
               *rows = tg_format(&n->j->env, "(%s)/%u", l.extent_text, SMALL);
    if (l.parallel && n->threads && n->work >= TG_THREAD_WORK)
      tg_nest_thread(n, outer, outer, l.extent < 0 ? -1 : l.extent / SMALL, rows,
                     SMALL * n->work / (l.extent < 0 ? 1024 : (double)l.extent));
    *threads = true;
    return true;
  }
  const char *text = tg_nest_cut_text(n, l.range, l.extent_text);
  bool cut = tg_nest_axis_of(n, l.name).cut;
  *threads = u == n->top;
  if (u == n->top && cut) tg_nest_flat(n, &l, 1);
  else tg_nest_vector(n, l.name, l.base, l.extent, text, 1, cut);
  return true;
}

/* Do two loads read the same elements in different iterations of the loop? */
static bool rows_share(tg_nest *n, const tg_uop *const *loads, uint32_t count, const tg_uop *range) {
  for (uint32_t a = 0; a < count; a++)
    for (uint32_t b = 0; b < a; b++) {
      if (tg_define_of(loads[a]->src[0]) != tg_define_of(loads[b]->src[0])) continue;
      bool shifted = false, same = true;
      for (uint32_t d = 0; d < tg_access_rank(loads[a]); d++) {
        const tg_uop *x = loads[a]->src[1 + d], *y = loads[b]->src[1 + d];
        tg_linear f;
        if (x == y) continue;
        tg_linear_of(n->j, tg_op2(n->j, TG_OP_SUB, x, y), &f);
        same &= !f.n && tg_uses(n->j, x, range);
        shifted |= !f.n;
      }
      if (shifted && same) return true;
    }
  return false;
}

/* Rows of a stencil: what neighbours read is loaded once for all of them. */
static void stencil_rows(tg_nest *n, const tg_uop *parent, const tg_uop *u) {
  if (!parent || parent->n != 2 || u->n != 2 || n->copies > 1) return;
  tg_nest_loop l = tg_nest_read_loop(n, parent);
  uint32_t count, loads = 0;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op == TG_OP_REDUCE) return;
    if (order[i]->op == TG_OP_LOAD) order[loads++] = order[i];
  }
  if (!l.extent_text || (l.extent >= 0 && l.extent < 8) || !rows_share(n, order, loads, l.range)) return;
  tg_verdict v;
  const char *why;
  v = tg_range_verdict(&n->s, parent, &why);
  if (v != TG_INDEPENDENT || l.members > 1) return;
  uint32_t rows = (uint32_t)TG_CHOOSE(n, "stencil", 2, 1, 2, 3, 4);
  if (rows < 2) return;
  copies(n, &l, rows);
  tg_nest_mark(n, l.name, false);
}

static bool inner_loops(tg_nest *n, const tg_uop *parent, const tg_uop *u) {
  bool threads = false;
  if (u->op != TG_OP_END || tg_is_merge(u)) return false;
  if (!tg_stores_only(u)) {
    if (!vectors_below(n, u) && lanes_around(n, u, &threads)) return threads;
    for (uint32_t i = u->n; i-- > 1;) inner_loops(n, u, u->src[i]);
    return false;
  }
  if (u == n->top) return false;
  tg_nest_loop l = tg_nest_read_loop(n, u);
  if (!tg_nest_vectorises(n, &l, u->src + 1, u->n - 1)) return false;
  uint32_t upcast = (uint32_t)TG_CHOOSE(n, "vectors", tg_nest_upcast(n, n->wide ? n->wide : 2), 1, 2, 4, 8);
  tg_nest_cut_masks(n, l.name, tg_nest_loop_vector(n, &l, upcast ? upcast : 1));
  stencil_rows(n, parent, u);
  tg_nest_mark(n, l.name, true);
  return false;
}

bool tg_nest_inner(tg_nest *n) { return inner_loops(n, NULL, n->top); }

uint32_t tg_nest_small_ranges(tg_nest *n, const tg_uop *reduce, int64_t most) {
  uint32_t ranges = tg_reduce_info(reduce).ranges, small = 0;
  for (int64_t terms = 1; small < ranges; small++) {
    const tg_uop *range = tg_reduce_ranges(reduce)[ranges - 1 - small], *extent = tg_extent(range);
    if (extent->op != TG_OP_CONST || extent->arg < 1 || extent->arg > most / terms) break;
    if (tg_nest_axis_of(n, tg_axis_name(&n->s, range)).members != 1) break;
    terms *= extent->arg;
  }
  return small;
}

bool tg_nest_small_reduction(tg_nest *n, const tg_nest_reduce *r) {
  tg_reduce_arg a = tg_reduce_info(r->reduce);
  int64_t most = 2 * SMALL_TERMS / (n->copies > 2 ? n->copies : 2);
  if (tg_nest_small_ranges(n, r->reduce, most) < a.ranges || !TG_CHOOSE(n, "unrolled", 1, 0, 1)) return false;
  for (uint32_t k = a.ranges; k-- > 0;) {
    const char *name = tg_axis_name(&n->s, tg_reduce_ranges(r->reduce)[k]);
    tg_nest_emit(n, "unroll %s", name);
    tg_nest_mark(n, name, false);
  }
  return true;
}
