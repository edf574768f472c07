/* SPDX-License-Identifier: MIT
 * The schedule of rows on a GPU: what is stored along a row depends on sums or extrema over the whole row (softmax, a
 * norm). A warp or a workgroup has a row. Each of its threads keeps the same elements for every reduction and for the
 * store, in registers, so that memory is read once and written once, 16 bytes at a time where rows begin there:
 *
 *   element of a row  =  copy * threads * vector  +  warp * lanes * vector  +  lane * vector  +  element of a vector
 *
 * Rows that a warp holds take no exchange through LOCAL memory; then several warps of a group have a row each. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  UNIT = 16,            /* bytes of the widest access */
  A_WARP_HOLDS = 32,    /* elements that a lane keeps of a row which one warp has */
  A_GROUP_HOLDS = 16,   /* and where a group has it: more threads for more loads under way */
  MOST_HELD = 48,       /* beyond these there are too few registers for addresses and what is computed */
  ROWS_A_GROUP = 4      /* warps of a group that have a row each */
};

typedef struct {
  tg_nest *n;
  const tg_uop *along, *rows;      /* the innermost loop, and the one around it or NULL */
  const tg_uop *range[NEST_MAX];   /* of the reductions */
  uint32_t reductions, bytes;      /* bytes of the widest element that is loaded or stored */
  int64_t extent;
  uint32_t vector, warps, copies;
} row_nest;

static int64_t extent_of(const tg_uop *range) {
  return tg_extent(range)->op == TG_OP_CONST ? tg_extent(range)->arg : -1;
}

/* Every reduction is over as many elements as the row has, reads along it, and is the same for all of it. */
static bool add_reduction(row_nest *r, const tg_uop *reduce) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  if (a.ranges != 1 || a.in_order || a.generic || tg_uses(r->n->j, reduce, r->along)) return false;
  const tg_uop *range = tg_reduce_ranges(reduce)[0];
  tg_kind kind = tg_range_kind(range);
  if (extent_of(range) != r->extent || (kind != TG_REDUCE && kind != TG_LOOP)) return false;
  for (uint32_t i = 0; i < r->reductions; i++)
    if (r->range[i] == range) return true;
  if (r->reductions == NEST_MAX) return false;
  r->range[r->reductions++] = range;
  return true;
}

/* Rows begin at whole vectors in every buffer that is read or written along them. */
static bool begins_aligned(row_nest *r, const tg_uop *access, const tg_uop *range) {
  tg_job *j = r->n->j;
  uint32_t rank = tg_access_rank(access);
  if (tg_access_motion(j, access, range) == TG_STILL) return true;
  const tg_uop *define = tg_define_of(access->src[0]);
  if (tg_access_motion(j, access, range) != TG_CONTIGUOUS || define->arg >> 32 & TG_STRIDED) return false;
  tg_linear t;
  tg_linear_of(j, access->src[rank], &t);
  for (uint32_t i = 0; i < t.n; i++)
    if (t.atom[i] != range && t.coefficient[i] % r->vector) return false;
  return t.constant % r->vector == 0 && (rank == 1 || tg_divides(j, r->vector, define->src[rank - 1]));
}

static bool find_rows(row_nest *r, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = r->n->j;
  const tg_uop *inner = chain[depth - 1];
  uint32_t count;
  bool aligned = true;
  r->along = inner->src[0];
  r->extent = extent_of(r->along);
  if (inner->n != 2 || inner->src[1]->op != TG_OP_STORE || tg_range_kind(r->along) != TG_LOOP || r->extent < 2 ||
      tg_access_motion(j, inner->src[1], r->along) != TG_CONTIGUOUS)
    return false;
  if (depth > 1 && tg_range_kind(chain[depth - 2]->src[0]) == TG_LOOP) r->rows = chain[depth - 2]->src[0];
  const tg_uop **order = tg_toposort(j, inner->src[1], &count);
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_REDUCE && !add_reduction(r, u)) return false;
    if (u->op != TG_OP_LOAD && u->op != TG_OP_STORE) continue;
    uint32_t bytes = (uint32_t)tg_type_bytes(tg_define_of(u->src[0])->type);
    r->bytes = bytes > r->bytes ? bytes : r->bytes;
  }
  for (r->vector = r->bytes && r->bytes < UNIT ? UNIT / r->bytes : 1; r->vector > 1; r->vector /= 2) {
    aligned = r->extent % r->vector == 0;
    for (uint32_t i = 0; i < count && aligned; i++)
      if (order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_STORE) {
        aligned = begins_aligned(r, order[i], r->along);
        for (uint32_t k = 0; k < r->reductions && aligned; k++) aligned = begins_aligned(r, order[i], r->range[k]);
      }
    if (aligned) break;
  }
  return r->reductions > 0;
}

static bool choose_threads(row_nest *r) {
  const tg_target *t = r->n->l->target;
  int64_t lanes = t->lanes, most = t->max_threads / t->lanes;
  r->warps = 1;
  if (r->extent > lanes * A_WARP_HOLDS)
    while (r->warps < most && r->extent > r->warps * lanes * A_GROUP_HOLDS) r->warps *= 2;
  int64_t at_once = r->warps * lanes * r->vector;
  r->copies = (uint32_t)((r->extent + at_once - 1) / at_once);
  return r->copies * r->vector <= MOST_HELD;
}

static void TG_PRINTF(2, 3) say(tg_words *w, const char *format, ...) {
  va_list ap;
  tg_str t = tg_str_new(w->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  tg_push(w->env, w, t.data);
}

static void spread(const row_nest *r, tg_words *w, const tg_uop *range, bool reduction) {
  tg_nest *n = r->n;
  const char *name = tg_axis_name(&n->s, range), *b = tg_nest_base(n, name);
  uint32_t lanes = n->l->target->lanes;
  if (r->copies > 1) {
    say(w, "split %s %u as %s.c %s.t", name, r->warps * lanes * r->vector, b, b);
    say(w, "upcast %s.c", b);
    name = tg_format(w->env, "%s.t", b);
  }
  if (r->vector > 1) {
    say(w, "split %s %u as %s.p %s.v", name, r->vector, b, b);
    say(w, "upcast %s.v", b);
    name = tg_format(w->env, "%s.p", b);
  }
  if (r->warps > 1) {
    say(w, "split %s %u as %s.w %s.l", name, lanes, b, b);
    say(w, "%s %s.w", reduction ? "group" : "local", b);
    name = tg_format(w->env, "%s.l", b);
  }
  say(w, "lane %s", name);
}

bool tg_device_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  row_nest r = {.n = n};
  tg_words w = {.env = &n->j->env};
  if (!find_rows(&r, depth, chain) || !choose_threads(&r)) return false;
  for (uint32_t i = 0; i < r.reductions; i++) spread(&r, &w, r.range[i], true);
  spread(&r, &w, r.along, false);
  int64_t rows = r.rows ? extent_of(r.rows) : 1;
  bool several = r.warps == 1 && rows > (int64_t)n->l->target->threads * ROWS_A_GROUP && rows % ROWS_A_GROUP == 0;
  for (uint32_t d = depth - 1; d-- > 0;) {
    const char *name = tg_axis_name(&n->s, chain[d]->src[0]), *b = tg_nest_base(n, name);
    if (tg_range_kind(chain[d]->src[0]) != TG_LOOP) continue;
    if (several && chain[d]->src[0] == r.rows) {
      say(&w, "split %s %u as %s.b %s.w", name, ROWS_A_GROUP, b, b);
      say(&w, "local %s.w", b);
      name = tg_format(w.env, "%s.b", b);
    }
    say(&w, "global %s", name);
  }
  return tg_device_try(n, &w);
}
