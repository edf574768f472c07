/* SPDX-License-Identifier: MIT
 * The heuristic: a schedule without a search. Each loop nest of a kernel is classified by the strides of its accesses,
 * and gets the schedule of its class. Contractions such as GEMM are in contraction.c. All other nests are scheduled
 * here: vectors along a range in which memory is contiguous (a loop of the nest, else the range of a reduction),
 * threads over an outer loop, and non-temporal stores if the output is large and not read again. Later nests are
 * scheduled first, so that names with numbers (i#2) keep their meaning in the earlier ones. */
#include "choose/plan.h"
#include <math.h>

static bool reduces_over(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->reductions.n; i++)
    if (tg_uses(n->j, n->reductions.data[i].reduce, range)) return true;
  return false;
}

/* Is it legal, and worth it, to vectorise the nest's statements along the loop? */
bool tg_nest_vectorises(tg_nest *n, const tg_nest_loop *l, const tg_uop *const *stores, uint32_t count) {
  if (!l->lockstep) return false;
  for (uint32_t i = 0; i < count; i++) {
    tg_motion m = tg_access_motion(n->j, stores[i], l->range);
    if ((m != TG_CONTIGUOUS && m != TG_BACKWARDS && m != TG_NEAR) || stores[i]->arg & TG_ATOMIC) return false;
  }
  for (uint32_t i = 0; i < n->loads.n; i++) {
    if (tg_access_motion(n->j, n->loads.data[i], l->range) == TG_STRIDES && reduces_over(n, l->range)) return false;
  }
  return true;
}

/* Stores past the caches, of outputs that the last cache would not hold: of others they cost the way to memory. */
static void stream_outputs(tg_nest *n) {
  tg_job *j = n->j;
  const tg_target *t = n->l->target;
  double last = t->l3 ? (double)t->l3 : (double)t->l2;
  for (uint32_t i = 0; i < n->stores.n; i++) {
    const tg_uop *define = tg_define_of(n->stores.data[i]->src[0]);
    const tg_buffer *b = tg_buffer_info(j, define);
    double bytes = (double)tg_type_bytes(define->type);
    bool whole = b->role == TG_ROLE_OUT && define->lanes == 1 && b->rank && !(define->arg >> 32 & TG_STRIDED);
    for (uint32_t d = 0; d < b->rank && whole; d++) {
      whole = define->src[d]->op == TG_OP_CONST;
      if (whole) bytes *= (double)define->src[d]->arg;
    }
    if (!whole || bytes <= last || (b->rank > 1 && define->src[b->rank - 1]->arg % n->lanes))
      continue;
    uint32_t writers = 0;
    for (uint32_t k = 0; k < n->s.stores.n; k++) writers += tg_define_of(n->s.stores.data[k].store->src[0]) == define;
    uint32_t count;
    const tg_uop **order = tg_toposort(j, n->s.sink, &count);
    for (uint32_t k = 0; k < count; k++)
      writers += order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == define;
    if (writers == 1 && TG_CHOOSE(n, "stream", 1, 0, 1)) tg_nest_emit(n, "stream %s", b->name);
  }
}

/* How many sums were one loop of the author's with this one? They share a loop again, and so the registers. */
static uint32_t sums_beside(const tg_nest *n, const tg_uop *range) {
  const tg_range_info *info = n->j->ranges.data;
  uint32_t sums = 0, from = info[tg_range_ordinal(range)].from;
  for (uint32_t i = 0; i < n->reductions.n && info[from].several; i++)
    sums += info[tg_range_ordinal(n->reductions.data[i].range)].from == from;
  return sums;
}

/* Accumulators of sums of one loop fill at most half of the registers. */
static uint32_t upcast_beside(const tg_nest *n, const tg_nest_reduce *r, uint32_t upcast) {
  uint32_t beside = sums_beside(n, r->range);
  while (upcast > 1 && beside > 1 && beside * upcast > n->registers / 2) upcast /= 2;
  return upcast;
}

/* Limits the accumulators of a reduction of varying length, as in a triangle: adding them up costs the same for each
 * length, so even the longest must fill all accumulators four times. */
static uint32_t upcast_of_sum(tg_nest *n, const tg_nest_reduce *r, uint32_t upcast) {
  tg_i128 most = tg_bounds_of(n->j, tg_extent(r->range)).hi;
  while (upcast > 1 && r->extent < 0 && 4 * (tg_i128)n->lanes * upcast > most) upcast /= 2;
  return upcast_beside(n, r, upcast);
}

static void vector_reductions(tg_nest *n, const tg_nest_loop *vector) {
  for (uint32_t i = n->reductions.n; i-- > 0;) {
    const tg_nest_reduce *r = &n->reductions.data[i];
    bool nested = false;
    for (uint32_t k = 0; k < n->reductions.n; k++) { /* inside another reduction, and not invariant in it */
      const tg_uop *other = n->reductions.data[k].reduce;
      if (k == i || !tg_uses(n->j, other, r->reduce)) continue;
      for (uint32_t q = 0; q < tg_reduce_info(other).ranges; q++)
        nested |= tg_uses(n->j, r->reduce, tg_reduce_ranges(other)[q]);
    }
    if (tg_nest_small_reduction(n, r) || !r->contiguous || nested ||
        (vector && tg_uses(n->j, r->reduce, vector->range)))
      continue;
    tg_nest_axis x = tg_nest_axis_of(n, r->name);
    if (!x.lockstep) continue;
    uint32_t upcast = (uint32_t)TG_CHOOSE(n, "sums", tg_nest_upcast(n, n->sums ? n->sums : 4), 1, 2, 4, 8);
    if (!upcast) continue;
    upcast = upcast_of_sum(n, r, upcast);
    tg_nest_cut_masks(
        n, r->name,
        tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), upcast, x.cut));
    tg_nest_mark(n, r->name, true);
  }
}

/* Are all ranges of the axis those of sums without loops around them, and all sums of this statement along it? Several
 * are what was one loop of the author's, and one loop of tasks serves them. */
static bool sums_alone(tg_nest *n, const char *name) {
  tg_axis a = tg_nest_axis_sites(n, name);
  bool alone = a.n > 0;
  for (uint32_t i = 0; i < a.n && alone; i++) {
    const tg_uop *owner = a.site[i].owner;
    alone = owner->op == TG_OP_REDUCE && a.site[i].parent == UINT32_MAX && !tg_reduce_info(owner).generic &&
            tg_reduce_info(owner).ranges == 1 && tg_extent(a.site[i].range) == tg_extent(a.site[0].range);
  }
  for (uint32_t i = 0; i < n->reductions.n; i++) alone &= !strcmp(n->reductions.data[i].name, name);
  return alone;
}

/* A reduction to one element, without loops around it. It is split in a fixed number of partial results, so that the
 * result does not depend on the number of threads. */
static void whole_reduction(tg_nest *n) {
  for (uint32_t i = n->reductions.n; i-- > 0;) {
    const tg_nest_reduce *r = &n->reductions.data[i];
    tg_nest_axis x = tg_nest_axis_of(n, r->name);
    enum { PARTS = 64 };
    int64_t block = 4 * (int64_t)n->lanes;
    int64_t four = tg_nest_pages_block(n);
    bool pages = r->extent > 0 && four &&
                 tg_nest_wants_pages(n, r->extent / PARTS / four * four * PARTS, n->loads.n) && n->loads.n <= 2;
    if (pages) block = four;
    int64_t part = r->extent / PARTS / block * block;
    if (!x.lockstep || !r->contiguous) continue;
    uint32_t upcast = upcast_beside(n, r, 4);
    bool alone = sums_alone(n, r->name);
    tg_nest_mark(n, r->name, true);
    if (!alone || !n->threads || n->work < TG_THREAD_WORK * 4 || part < 1024) {
      tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), upcast, x.cut);
      continue;
    }
    const char *name = r->name, *b = r->base;
    if (part * PARTS != r->extent) {
      tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", name, (long long)(part * PARTS), b, b);
      const char *left = tg_format(&n->j->env, "%s.c", b);
      tg_nest_vector(n, left, left, r->extent - part * PARTS, NULL, upcast, true);
      name = tg_format(&n->j->env, "%s.b", b);
    }
    tg_nest_emit(n, "split %s %lld as %s.t %s.r", name, (long long)part, b, b);
    tg_nest_emit(n, "thread %s.t", b);
    const char *inner = tg_format(&n->j->env, "%s.r", b);
    if (pages) tg_nest_page_vectors(n, inner, inner, part, 2, false);
    else tg_nest_vector(n, inner, inner, part, NULL, upcast, true);
  }
}

/* Matrix times vector: each load of the vector is used for several rows, each of which has its own accumulators. */
static bool matrix_vector(tg_nest *n) {
  if (n->depth != 1 || n->stores.n != 1 || n->reductions.n != 1 || n->loop[0].end->n != 2) return false;
  const tg_nest_loop *l = &n->loop[0];
  const tg_nest_reduce *r = &n->reductions.data[0];
  tg_reduce_arg a = tg_reduce_info(r->reduce);
  bool shared = false, rows = false;
  if (l->members > 1 || tg_nest_axis_of(n, r->name).members > 1) return false;
  for (uint32_t i = 0; i < n->loads.n; i++) {
    tg_motion by_row = tg_access_motion(n->j, n->loads.data[i], l->range);
    bool by_term = tg_access_motion(n->j, n->loads.data[i], r->range) != TG_STILL;
    shared |= by_term && by_row == TG_STILL;
    rows |= by_term && by_row == TG_STRIDES;
  }
  if (!l->lockstep || !shared || !rows || !r->contiguous || a.in_order || a.generic ||
      (l->extent >= 0 && l->extent < 8) || !l->extent_text)
    return false;
  if (!TG_CHOOSE(n, "matvec", 1, 0, 1)) return false;
  uint32_t vectors = (uint32_t)TG_CHOOSE(n, "sums", 2, 1, 2, 4, 8);
  long long rows_at_once = TG_CHOOSE(n, "rows", 4, 2, 3, 4, 6, 8);
  if (rows_at_once < 2 || !vectors || (l->extent >= 0 && rows_at_once > l->extent)) rows_at_once = 4, vectors = 2;
  tg_nest_cut_masks(
      n, r->name,
      tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), vectors, true));
  const char *b = l->base, *main_part = l->name;
  if (l->extent < 0)
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.m %s.e", l->name, l->extent_text, rows_at_once, rows_at_once, b, b);
  else if (l->extent % rows_at_once)
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", l->name, (long long)(l->extent / rows_at_once * rows_at_once), b, b);
  if (l->extent < 0 || l->extent % rows_at_once) main_part = tg_format(&n->j->env, "%s.m", b);
  tg_nest_emit(n, "split %s %lld as %s.o %s.i", main_part, rows_at_once, b, b);
  tg_nest_emit(n, "upcast %s.i", b);
  const char *outer = tg_format(&n->j->env, "%s.o", b),
             *text = tg_format(&n->j->env, "(%s)/%lld", l->extent_text, rows_at_once);
  if (l->parallel && n->threads && n->work >= TG_THREAD_WORK)
    tg_nest_thread(n, outer, outer, l->extent < 0 ? -1 : l->extent / rows_at_once, text,
                   (double)rows_at_once * n->work / tg_nest_trips(l->extent));
  return true;
}

static const tg_nest_loop *choose_vector_loop(tg_nest *n) {
  const tg_nest_loop *innermost = &n->loop[n->depth - 1];
  for (uint32_t i = 1; i < innermost->end->n; i++)
    if (innermost->end->src[i]->op != TG_OP_STORE) return NULL;
  for (uint32_t k = n->depth; k-- > 0;) {
    const char *why;
    tg_nest_loop *l = &n->loop[k];
    if (!tg_nest_vectorises(n, l, n->stores.data, n->stores.n)) continue;
    bool movable = true;
    for (uint32_t i = k + 1; i < n->depth && movable; i++)
      movable = !tg_uses(n->j, tg_extent(n->loop[i].range), l->range) &&
                tg_may_swap(n->j, n->s.sink, l->end, n->loop[i].end, &why);
    if (!movable) continue;
    if (k + 1 < n->depth) {
      tg_str t = tg_str_new(&n->j->env);
      for (uint32_t i = k + 1; i < n->depth; i++) tg_str_printf(&t, " %s", n->loop[i].name);
      tg_nest_emit(n, "order%s %s", t.data, l->name);
    }
    return l;
  }
  return NULL;
}

uint32_t tg_nest_class_vectors(const tg_nest *n) {
  return tg_nest_upcast(n, n->loads.n > 4 || n->reductions.n ? 2 : 4);
}

static void general_nest(tg_nest *n) {
  const tg_nest_loop *vector = choose_vector_loop(n);
  uint32_t upcast = (uint32_t)TG_CHOOSE(n, "vectors", tg_nest_class_vectors(n), 1, 2, 4, 8);
  if (!upcast) upcast = 1;
  tg_nest_axis axis = vector ? tg_nest_axis_of(n, vector->name) : (tg_nest_axis){0};
  if (vector && n->depth == 1 && axis.cut && axis.alike) {
    tg_nest_mark(n, vector->name, true);
    vector_reductions(n, vector);
    tg_nest_flat(n, vector, upcast);
    return;
  }
  if (vector) tg_nest_mark(n, vector->name, true);
  vector_reductions(n, vector);
  if (vector) tg_nest_cut_masks(n, vector->name, tg_nest_loop_vector(n, vector, upcast));
  else if (tg_nest_inner(n)) return;
  if (n->work < TG_THREAD_WORK || !n->threads) return;
  for (uint32_t k = 0; k < n->depth; k++) { /* threads: the outermost parallel loop with enough iterations */
    const tg_nest_loop *l = &n->loop[k];
    if (!l->parallel || n->done[tg_range_ordinal(l->range)]) return;
    if (l == vector || (l->extent >= 0 && l->extent < 2 * (int64_t)n->l->target->threads && k + 1 < n->depth &&
                        &n->loop[k + 1] != vector && n->loop[k + 1].parallel))
      continue;
    if (l->members > 1) tg_nest_mark(n, l->name, false); /* the axis's other loops become thread loops with it */
    if (k && l->extent_text) tg_nest_emit(n, "thread %s", l->name);
    else if (!k) tg_nest_thread(n, l->name, l->base, l->extent, l->extent_text, n->work / tg_nest_trips(l->extent));
    return;
  }
}

/* The rung (how simple the schedule is) for a nest. Targets that get source code have a compiler that vectorises by
 * itself, so their nests get threads alone. */
static tg_rung rung_of(const tg_nest *n, uint32_t index) {
  tg_rung rung = index < n->rungs ? (tg_rung)n->rung[index] : TG_RUNG_ALL;
  return tg_target_is_source(n->l->target) && rung < TG_RUNG_THREADS ? TG_RUNG_THREADS : rung;
}

/* Makes the outermost loop, if there is one, a thread loop, and does nothing else. */
static void threads_alone(tg_nest *n) {
  const tg_nest_loop *l = &n->loop[0];
  if (n->depth && l->parallel && n->threads && (n->work >= TG_THREAD_WORK || tg_target_is_source(n->l->target)) &&
      l->members == 1)
    tg_nest_emit(n, "thread %s", l->name);
}

static void cut_masked(tg_nest *n) {
  for (uint32_t i = 0; i < n->masked.n; i++) tg_nest_emit(n, "cut %s auto", n->masked.data[i]);
}

static void schedule_nest(tg_nest *n, const tg_uop *top, uint32_t index) {
  n->index = index;
  tg_rung rung = rung_of(n, index);
  if (rung == TG_RUNG_NOTHING) return;
  tg_nest_read(n, top);
  if (!n->stores.n) return;
  if (rung == TG_RUNG_THREADS) {
    threads_alone(n);
    return;
  }
  if (rung >= TG_RUNG_LOOPS) n->reductions.n = 0;
  if (!n->depth) {
    whole_reduction(n);
    return;
  }
  const tg_plan *plan = n->choice && index < n->rungs ? n->choice[index].taken : NULL;
  n->sums = plan && plan->kind == TG_PLAN_ROWS ? plan->vectors : 0;
  n->wide = plan && plan->kind == TG_PLAN_ROWS ? plan->wide : 0;
  n->masked.n = 0;
  if (plan && plan->kind != TG_PLAN_ROWS) {
    tg_nest_plan(n, plan);
    if (!n->reductions.n) stream_outputs(n);
    cut_masked(n);
    return;
  }
  if (rung == TG_RUNG_ALL && tg_nest_contraction(n)) return;
  if (rung == TG_RUNG_ALL && tg_nest_movement(n)) return;
  if (rung > TG_RUNG_ALL || !matrix_vector(n)) general_nest(n);
  stream_outputs(n);
  cut_masked(n);
}

static void see(tg_nest *n) {
  tg_schedule_sites(&n->s);
  n->done = tg_new(&n->j->env, uint8_t, n->j->ranges.n + 1);
}

void tg_nest_apply(tg_nest *n, uint32_t from) {
  for (uint32_t i = from; i < n->j->opts.n; i++) {
    tg_opt o = tg_opt_parse(n->j, n->j->opts.data[i].text, n->j->opts.data[i].pos);
    tg_schedule_apply(&n->s, &o);
  }
  see(n);
}

/* The candidate that is taken for the nest that was read; NULL: its class. Which one it is, a search may decide. */
static const tg_plan *decide_plan(tg_nest *n, uint32_t index) {
  static const int64_t all[TG_PLANS + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  tg_nest_choice *c = n->choice && index < n->rungs ? &n->choice[index] : NULL;
  if (!c) return NULL;
  if (!c->made) c->plans = tg_nest_plans(n, c->plan_of);
  c->made = true;
  int64_t plan = c->plans ? tg_nest_choose(n, "plan", c->plan, c->plans + 1, all) : 0;
  return c->taken = plan > 0 && plan <= c->plans ? &c->plan_of[plan - 1] : NULL;
}

void tg_nest_choose_all(tg_nest *n, const tg_uop *raised) {
  tg_job *j = n->j;
  for (uint32_t i = 0; n->choice && i < n->rungs; i++) n->choice[i].taken = NULL;
  tg_schedule_begin(&n->s, j, n->l, tg_plain(j, raised));
  see(n);
  n->index = n->rungs ? n->rungs - 1 : 0;   /* for all nests */
  if (!tg_target_is_source(n->l->target) && rung_of(n, n->index) == TG_RUNG_ALL) tg_nest_keep(n);
  if (tg_target_is_device(n->l->target)) {
    if (rung_of(n, 0) == TG_RUNG_ALL) tg_nest_device(n);
    return;
  }
  uint32_t buffers = j->buffers.n;
  for (uint32_t i = n->s.sink->n; i-- > 0;) {
    if (n->s.sink->src[i]->op != TG_OP_END || rung_of(n, i) > TG_RUNG_ALL) continue;
    n->index = i;
    tg_nest_read(n, n->s.sink->src[i]);
    const tg_plan *plan = decide_plan(n, i);
    if (plan && plan->kind == TG_PLAN_ROWS) {
      uint32_t from = j->opts.n;
      tg_nest_plan(n, plan);
      tg_nest_apply(n, from);
      continue;
    }
    if (!plan) tg_nest_join_rows(n);
    if (plan || !n->reductions.n) continue;
    tg_nest_rows(n, i, buffers);
    tg_nest_blocks(n);
  }
  const tg_uop *plain = n->s.sink;
  for (uint32_t i = plain->n; i-- > 0;)
    if (plain->src[i]->op == TG_OP_END || plain->src[i]->op == TG_OP_STORE) schedule_nest(n, plain->src[i], i);
}
