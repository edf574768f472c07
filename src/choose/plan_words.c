/* SPDX-License-Identifier: MIT
 * The words of a candidate for the first choice of a nest (plan.c). */
#include <math.h>
#include "choose/plan.h"

/* As many neighbours of the source as a vector has lanes are transposed at a time, where it has as many and they fill
 * vectors: of narrower elements the copy is the least of the work. */
static void transpose(tg_nest *n, const tg_uop *load, const char *copy, int64_t width) {
  uint32_t rank = tg_access_rank(load);
  const tg_uop *size = tg_define_of(load->src[0])->src[rank - 1];
  if (rank < 2 || width < n->lanes || size->op != TG_OP_CONST || size->arg < n->lanes ||
      tg_type_bytes(load->type) * (int64_t)n->lanes < n->l->target->vector_bytes)
    return;
  tg_nest_emit(n, "lane %s.%u %u", copy, rank - 1, n->lanes);
  tg_nest_emit(n, "split %s.%u {%u, 1} as %s.pt %s.pu", copy, rank - 2, n->lanes, copy, copy);
  if (width > n->lanes) tg_nest_emit(n, "order %s.%u.0 %s.pt %s.pu", copy, rank - 1, copy, copy);
  tg_nest_emit(n, "unroll %s.pu", copy);
}

/* A copy for a block of the loop's iterations, which lie side by side in it. */
static void stage(tg_nest *n, const tg_uop *load, const tg_uop *along, const char *at, int64_t width) {
  uint32_t rank = tg_access_rank(load), dimension = tg_nest_dimension_along(n->j, load, along);
  const char *source = tg_buffer_info(n->j, load->src[0])->name;
  tg_str layout = tg_str_new(&n->j->env);
  for (uint32_t d = 0; d < rank; d++)
    if (d != dimension) tg_str_printf(&layout, "d%u, ", d);
  tg_nest_emit(n, "stage %s at %s as %s.block[%sd%u]", source, at, source, layout.n ? layout.data : "", dimension);
  if (dimension + 1 < rank) transpose(n, load, tg_format(&n->j->env, "%s.block", source), width);
}

/* What a plan would gather: the reads that jump along the loop and that a copy may serve. */
static void stage_all(tg_nest *n, const tg_uop *along, const char *at, int64_t width) {
  for (uint32_t i = 0; i < n->loads.n; i++)
    if (tg_access_motion(n->j, n->loads.data[i], along) == TG_STRIDES && tg_nest_may_stage(n, n->loads.data[i], along))
      stage(n, n->loads.data[i], along, at, width);
}

/* Does the loop stand outside of the copies? All do where there are none. */
static bool outside_copies(tg_nest *n, const tg_uop *along, const tg_uop *range) {
  bool any = false;
  for (uint32_t i = 0; i < n->loads.n; i++) {
    if (tg_access_motion(n->j, n->loads.data[i], along) != TG_STRIDES ||
        !tg_nest_may_stage(n, n->loads.data[i], along))
      continue;
    if (tg_uses(n->j, n->loads.data[i], range)) return true;
    any = true;
  }
  return !any;
}

/* The block of a loop as vectors side by side. */
static void block_vectors(tg_nest *n, const char *base, uint32_t vectors) {
  if (vectors > 1) {
    tg_nest_emit(n, "split %s.r %u as %s.u %s.v", base, n->lanes, base, base);
    tg_nest_emit(n, "upcast %s.u", base);
    tg_nest_emit(n, "lane %s.v", base);
  } else tg_nest_emit(n, "lane %s.r", base);
}

/* May the last block of the loop be a part? */
static bool has_last(const tg_nest_loop *l, int64_t block) {
  return l->extent < 0 || (l->extent % block && l->extent > block);
}

/* The last block of a loop, which may be a part, by itself. */
static void cut_last(tg_nest *n, const tg_nest_loop *l, int64_t block) {
  if (has_last(l, block)) tg_nest_emit(n, "cut %s.o last", l->base);
}

/* What threads share: the outermost loop that has enough iterations for all of them, else the outermost one. name: of
 * the loop, each iteration of which is `block` iterations of the author's loop; work: of one iteration. */
typedef struct {
  const tg_nest_loop *loop;
  const char *name;
  int64_t block;
  double work, outside;        /* outside: iterations of the loops around the one that comes next; 0: none has come */
  bool enough;
} shared;

static double trips_of(const tg_nest_loop *l, int64_t block) {
  return fmax(1, (l->extent < 0 ? 1024 : (double)l->extent) / (double)block);
}

static void may_share(const tg_nest *n, shared *s, const tg_nest_loop *l, int64_t block) {
  int64_t blocks = l->extent < 0 ? -1 : (l->extent + block - 1) / block;
  bool enough = blocks < 0 || blocks >= 4 * (int64_t)n->l->target->threads;
  double outside = fmax(1, s->outside) * trips_of(l, block);
  s->outside = outside;
  if (s->name && (!enough || s->enough)) return;
  const char *name = block > 1 ? tg_format(&n->j->env, "%s.o", l->base) : l->name;
  *s = (shared){l, name, block, n->work / outside, outside, enough};
}

/* Iterations of the loop for a task, which must be worth handing out. */
static int64_t task_of(tg_nest *n, const shared *s, const tg_nest_loop *lane) {
  const tg_nest_loop *l = s->loop;
  int64_t task = s->work < TG_TASK_WORK ? (int64_t)(TG_TASK_WORK / fmax(1, s->work)) : 1;
  if (l == lane && n->depth == 1) task = (tg_nest_whole_pages(n, task * s->block) + s->block - 1) / s->block;
  if (l->extent >= 0) {   /* at least 4 tasks for each thread */
    int64_t fair = l->extent / s->block / (4 * (int64_t)n->l->target->threads);
    if (task > fair) task = fair;
  } else if (!l->extent_text) task = 1;
  return task < 1 ? 1 : task;
}

/* Threads, and what is left of both blocked loops by itself. The loop that was split into tasks, or NULL. */
static const tg_nest_loop *share(tg_nest *n, const shared *s, const tg_nest_loop *lane, int64_t width,
                                 const tg_nest_loop *row, int64_t rows) {
  bool threads = n->threads && (tg_nest_is_open(n) || n->work >= TG_THREAD_WORK) && n->l->target->threads > 1;
  int64_t task = threads ? task_of(n, s, lane) : 1;
  const tg_nest_loop *l = task > 1 ? s->loop : NULL;
  if (l) {
    const char *b = s->block > 1 ? s->name : l->base, *full = s->name;
    bool whole = l->extent >= 0 && l->extent % (s->block * task) == 0;
    if (!whole && l->extent >= 0)
      tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", full, (long long)(l->extent / s->block / task * task), b, b);
    else if (!whole)
      tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.b %s.c", full, l->extent_text, (long long)(s->block * task),
                   (long long)task, b, b);
    if (!whole) full = tg_format(&n->j->env, "%s.b", b);
    tg_nest_emit(n, "split %s %lld as %s.t %s.q", full, (long long)task, b, b);
    tg_nest_emit(n, "thread %s.t", b);
    if (l->extent < 0 ? s->block > 1 : !whole && l->extent % s->block) tg_nest_emit(n, "cut %s.c last", b);
  } else if (threads) tg_nest_emit(n, "thread %s", s->name);
  if (lane && lane != l) cut_last(n, lane, width);
  if (row && row != l) cut_last(n, row, rows);
  return l;
}

static void unroll_small_sums(tg_nest *n, bool whole) {
  for (uint32_t i = n->reductions.n; i-- > 0;) {
    const tg_uop *reduce = n->reductions.data[i].reduce;
    uint32_t ranges = tg_reduce_info(reduce).ranges,
             small = tg_nest_small_ranges(n, reduce, whole ? TG_TERMS_MOST : TG_TERMS_SOME);
    for (uint32_t k = 0; k < small && (!k || whole); k++)
      tg_nest_emit(n, "unroll %s", tg_axis_name(&n->s, tg_reduce_ranges(reduce)[ranges - 1 - k]));
  }
}

/* Rows in blocks outside of the vectors' blocks: c h.o v.o h.i v.r. */
static void window(tg_nest *n, const tg_plan *p) {
  const tg_nest_loop *lane = &n->loop[p->lane], *row = &n->loop[p->row];
  int64_t width = (int64_t)p->vectors * n->lanes;
  tg_str order = tg_str_new(&n->j->env);
  shared first = {0};
  tg_nest_emit(n, "split %s %lld as %s.o %s.r", lane->name, (long long)width, lane->base, lane->base);
  tg_nest_emit(n, "split %s %u as %s.o %s.i", row->name, p->rows, row->base, row->base);
  for (uint32_t k = p->from; k < n->depth; k++) {
    const tg_nest_loop *l = &n->loop[k];
    tg_str_printf(&order, " %s%s", l == lane || l == row ? l->base : l->name, l == lane || l == row ? ".o" : "");
    may_share(n, &first, l, l == lane ? width : l == row ? p->rows : 1);
  }
  tg_nest_emit(n, "order%s %s.i %s.r", order.data, row->base, lane->base);
  tg_nest_emit(n, "upcast %s.i", row->base);
  unroll_small_sums(n, true);
  block_vectors(n, lane->base, p->vectors);
  share(n, &first, lane, width, row, p->rows);
}

static void columns(tg_nest *n, const tg_plan *p) {
  if (p->window) {
    window(n, p);
    return;
  }
  const tg_nest_loop *lane = &n->loop[p->lane], *row = p->row < NEST_MAX ? &n->loop[p->row] : NULL;
  int64_t width = (int64_t)p->vectors * n->lanes;
  tg_str order = tg_str_new(&n->j->env);
  const char *b = lane->base;
  shared first = {0};
  tg_nest_emit(n, "split %s %lld as %s.o %s.r", lane->name, (long long)width, b, b);
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t k = p->from; k < n->depth; k++) {
      const tg_nest_loop *l = &n->loop[k];
      if (l == lane || l == row || outside_copies(n, lane->range, l->range) == (pass == 1)) continue;
      tg_str_printf(&order, " %s", l->name);
      may_share(n, &first, l, 1);
    }
    if (pass) continue;
    tg_str_printf(&order, " %s.o", b);
    may_share(n, &first, lane, width);
  }
  if (row) tg_str_printf(&order, " %s", row->name);
  tg_nest_emit(n, "order%s %s.r", order.data, b);
  stage_all(n, lane->range, tg_format(&n->j->env, "%s.o", b), width);
  if (row && p->rows > 1) {
    tg_nest_emit(n, "split %s %u as %s.o %s.i", row->name, p->rows, row->base, row->base);
    tg_nest_emit(n, "upcast %s.i", row->base);
  }
  unroll_small_sums(n, p->whole);
  block_vectors(n, b, p->vectors);
  if (row && p->rows > 1) may_share(n, &first, row, p->rows);
  if (share(n, &first, lane, width, row, p->rows) != lane)
    tg_nest_cut_masks(n, lane->name, tg_format(&n->j->env, has_last(lane, width) ? "%s.o.main" : "%s.o", b));
}

static void terms(tg_nest *n, const tg_plan *p) {
  const tg_nest_reduce *r = &n->reductions.data[p->lane];
  const tg_nest_loop *row = p->row < NEST_MAX ? &n->loop[p->row] : NULL;
  const tg_nest_loop *first = &n->loop[0];
  bool blocks = row && p->rows > 1;
  tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), p->vectors, true);
  if (blocks) {
    if (row != &n->loop[n->depth - 1]) {
      tg_str order = tg_str_new(&n->j->env);
      for (uint32_t k = 0; k < n->depth; k++)
        if (&n->loop[k] != row) tg_str_printf(&order, " %s", n->loop[k].name);
      tg_nest_emit(n, "order%s %s", order.data, row->name);
      if (row == first) first = &n->loop[1];
    }
    tg_nest_emit(n, "split %s %u as %s.o %s.i", row->name, p->rows, row->base, row->base);
    tg_nest_emit(n, "upcast %s.i", row->base);
  }
  shared s = {0};
  may_share(n, &s, first, blocks && n->depth == 1 ? p->rows : 1);
  share(n, &s, NULL, 1, row, p->rows);
}

static void write_around(tg_nest *n, const tg_plan *p) {
  const tg_nest_loop *l = &n->loop[p->lane];
  const char *b = l->base, *outer = tg_format(&n->j->env, "%s.o", b);
  int64_t width = (int64_t)p->vectors * n->lanes;
  tg_nest_emit(n, "split %s %lld as %s.o %s.r", l->name, (long long)width, b, b);
  for (uint32_t i = n->reductions.n; i-- > 0;) tg_nest_small_reduction(n, &n->reductions.data[i]);
  stage_all(n, l->range, outer, width);
  block_vectors(n, b, p->vectors);
  shared s = {0};
  may_share(n, &s, &n->loop[0], p->lane ? 1 : width);
  share(n, &s, l, width, NULL, 1);
}

static void write_flat(tg_nest *n, const tg_plan *p) {
  tg_nest_mark(n, n->loop[p->lane].name, true);
  tg_nest_flat(n, &n->loop[p->lane], p->vectors);
}

static void write_subscripts(tg_nest *n, const tg_plan *p) {
  enum { AT_ONCE = 8 };
  const tg_nest_loop *l = &n->loop[p->lane];
  const tg_uop *load = tg_nest_subscript(n);
  const char *b = l->base, *name = l->name, *source = tg_buffer_info(n->j, load->src[0])->name;
  int64_t block = (int64_t)p->vectors * n->lanes;
  uint32_t along = tg_access_rank(load) - 1;
  if (l->extent < 0)
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.m %s.e", name, l->extent_text, (long long)block, (long long)block,
                 b, b);
  else if (l->extent % block)
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", name, (long long)(l->extent / block * block), b, b);
  if (l->extent < 0 || l->extent % block) name = tg_format(&n->j->env, "%s.m", b);
  tg_nest_emit(n, "split %s %lld as %s.o %s.i", name, (long long)block, b, b);
  stage(n, load, l->range, tg_format(&n->j->env, "%s.o", b), block);
  tg_nest_emit(n, "lane %s.block.%u %u", source, along, n->lanes);
  tg_nest_emit(n, "unroll %s.i %d", b, AT_ONCE);
  if (p->lane && n->loop[0].parallel && n->threads && n->work >= TG_THREAD_WORK)
    tg_nest_thread(n, n->loop[0].name, n->loop[0].base, n->loop[0].extent, n->loop[0].extent_text,
                   n->work / tg_nest_trips(n->loop[0].extent));
}

int64_t tg_nest_line(const tg_nest *n) {
  int64_t line = TG_CACHE_LINE / tg_type_bytes(tg_define_of(n->stores.data[0]->src[0])->type);
  return line > n->lanes ? line : n->lanes;
}

/* A task has its columns of all terms. */
static void write_outside(tg_nest *n, const tg_plan *p) {
  const tg_nest_loop *l = &n->loop[p->lane];
  const tg_nest_reduce *s = &n->reductions.data[0];
  const char *b = l->base, *inner = l->name;
  int64_t line = tg_nest_line(n), lines = (l->extent + line - 1) / line, threads = n->l->target->threads;
  bool tasks = n->threads && threads > 1 && n->work >= TG_THREAD_WORK;
  if (tasks && n->depth == 1 && lines > 1) {
    tg_nest_emit(n, "split %s %lld as %s.t %s.r", l->name, (long long)((lines + threads - 1) / threads * line), b, b);
    tg_nest_emit(n, "thread %s.t", b);
    inner = tg_format(&n->j->env, "%s.r", b);
  } else if (tasks && n->depth > 1) tg_nest_emit(n, "thread %s", n->loop[0].name);
  const char *terms = s->name;
  int64_t rest = s->extent % p->rows;
  if (rest) {
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", terms, (long long)(s->extent - rest), s->base, s->base);
    tg_nest_emit(n, "unroll %s.e", s->base);
    terms = tg_format(&n->j->env, "%s.m", s->base);
  }
  tg_nest_emit(n, "split %s %u as %s.o %s.i", terms, p->rows, s->base, s->base);
  tg_nest_emit(n, "order %s.o %s", s->base, inner);
  /* what is done with the whole sum is done in its last block alone */
  if (tg_stored(s->store) != s->reduce || rest) tg_nest_emit(n, "cut %s.o last", s->base);
  tg_nest_emit(n, "split %s %u as %s.q %s.v", inner, n->lanes, b, b);
  tg_nest_emit(n, "lane %s.v", b);
  tg_nest_emit(n, "unroll %s.i", s->base);
  if (l->extent % n->lanes || inner != l->name) tg_nest_emit(n, "cut %s.q auto", b);
}

/* What follows are the words of the nest's class. */
static void write_rows(tg_nest *n, const tg_plan *p) {
  const tg_nest_loop *l = &n->loop[0];
  if (p->apart) tg_nest_place_tiles(n, n->top, 1, true);
  if (p->rows < 2) return;
  tg_nest_emit(n, "split %s %u as %s.y %s.z", l->name, p->rows, l->base, l->base);
  tg_nest_emit(n, "upcast %s.z", l->base);
}

void tg_nest_plan(tg_nest *n, const tg_plan *p) {
  static void (*const write[])(tg_nest *, const tg_plan *) = {
      [TG_PLAN_COLUMNS] = columns, [TG_PLAN_TERMS] = terms, [TG_PLAN_AROUND] = write_around,
      [TG_PLAN_FLAT] = write_flat, [TG_PLAN_OUTSIDE] = write_outside, [TG_PLAN_ROWS] = write_rows,
      [TG_PLAN_SUBSCRIPTS] = write_subscripts};
  write[p->kind](n, p);
}
