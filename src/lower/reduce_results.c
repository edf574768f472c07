/* SPDX-License-Identifier: MIT
 * Pass reduce, results: the accumulators of a reduction's copies, lanes, threads and tasks become one value, by halving
 * (docs/ir.md has the order). */
#include "lower/reduce.h"

typedef tg_reduce_level level;
typedef tg_reduce_state state;
typedef tg_reduce_plan plan;

/* Combines n tuples of nv values, at a stride of `step` tuples, by halving in place; the result is at t. */
static void halve(plan *p, const tg_uop **t, uint32_t n, uint32_t step) {
  uint32_t nv = p->info.values;
  for (; n > 1; n = (n + 1) / 2)
    for (uint32_t i = 0, h = (n + 1) / 2; i + h < n; i++) {
      const tg_uop *next[TG_REDUCE_VALUES], **left = t + (size_t)i * step * nv,
                                            **right = t + (size_t)(i + h) * step * nv;
      for (uint32_t v = 0; v < nv; v++) next[v] = tg_reduce_combine(p, v, left, right);
      for (uint32_t v = 0; v < nv; v++) left[v] = next[v];
    }
}

static const tg_uop *vector_register(plan *p, const char *name, uint32_t v, uint32_t lanes, uint32_t elements) {
  tg_job *j = p->s->j;
  const tg_uop *dim = tg_index(j, elements);
  tg_buffer info = {
      .name = name, .space = TG_SPACE_REG, .rank = elements > 0, .type = p->acc[v]->type, .pos = p->s->pos};
  return tg_define(j, info, lanes, &dim, NULL, true);
}

/* Lanes `from`.. of a tile of w elements. */
static const tg_uop *lanes_at(plan *p, const tg_uop *tile, uint32_t from, uint32_t lanes) {
  tg_job *j = p->s->j;
  const tg_uop *at = tg_index(j, from);
  if (lanes > 1) at = from ? tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_INDEX, lanes)) : tg_iota(j, TG_INDEX, lanes);
  return tg_load(j, tile, &at, NULL, NULL, 0);
}

/* FOLD for tuples: after the loops the lanes are stored to memory once, and their halves are combined as vectors. */
static void fold_tuples(plan *p, level *l, const tg_uop **value, uint32_t w) {
  state *s = p->s;
  uint32_t nv = p->info.values;
  const tg_uop *part[TG_REDUCE_VALUES], *left[TG_REDUCE_VALUES], *right[TG_REDUCE_VALUES], *kept[TG_REDUCE_VALUES],
      *at = tg_iota(s->j, TG_INDEX, w);
  for (uint32_t v = 0; v < nv; v++) {
    part[v] = vector_register(p, "part", v, 1, w);
    tg_reduce_put(s, l, part[v]);
    tg_reduce_put(s, l, tg_store(s->j, part[v], &at, value[v], NULL, 0));
  }
  for (uint32_t n = w; n > 1; n = (n + 1) / 2) {
    uint32_t half = (n + 1) / 2, lanes = n - half;
    for (uint32_t v = 0; v < nv; v++) {
      left[v] = lanes_at(p, part[v], 0, lanes);
      right[v] = lanes_at(p, part[v], half, lanes);
    }
    for (uint32_t v = 0; v < nv; v++) {
      kept[v] = vector_register(p, "next", v, lanes, 0);
      tg_reduce_put(s, l, kept[v]);
      tg_reduce_put(s, l, tg_store(s->j, kept[v], NULL, tg_reduce_combine(p, v, left, right), NULL, 0));
    }
    at = lanes > 1 ? tg_iota(s->j, TG_INDEX, lanes) : tg_index(s->j, 0);
    for (uint32_t v = 0; v < nv; v++)
      tg_reduce_put(s, l, tg_store(s->j, part[v], &at, tg_load(s->j, kept[v], NULL, NULL, NULL, 0), NULL, 0));
  }
  for (uint32_t v = 0; v < nv; v++) value[v] = lanes_at(p, part[v], 0, 1);
}

/* Combines the accumulators of all upcast copies, at subscripts `sub` of the other ranges, by halving; the result is
 * the first tuple. */
static void halve_copies(plan *p, uint32_t copies, const tg_uop **t, const tg_uop **sub) {
  state *s = p->s;
  uint32_t nv = p->info.values;
  for (uint32_t c = 0; c < copies; c++) {
    for (uint32_t i = p->nupcast, rest = c; i-- > 0; rest /= p->extent[i]) sub[i] = tg_index(s->j, rest % p->extent[i]);
    for (uint32_t v = 0; v < nv; v++) t[(size_t)c * nv + v] = tg_load(s->j, p->acc[v], sub, NULL, NULL, 0);
  }
  uint32_t step = copies;
  for (uint32_t i = 0; i < p->nupcast; i++) {
    step /= p->extent[i];
    for (uint32_t rest = 0; rest < step; rest++) halve(p, t + (size_t)rest * nv, p->extent[i], step);
  }
  tg_assert(&s->j->env, step == 1);   /* each copy is in the result */
}

/* Tuples on a target with warps: a tile over the threads is halved range by range, in lockstep. */
static void halve_threads(plan *p, level *at, uint32_t copies, const tg_uop **value) {
  state *s = p->s;
  tg_job *j = s->j;
  uint32_t nv = p->info.values, rank = p->nwide - p->nupcast;
  const tg_uop *part[TG_REDUCE_VALUES], *next[TG_REDUCE_VALUES], *sub[TG_REDUCE_RANGES], *left[TG_REDUCE_VALUES],
      *right[TG_REDUCE_VALUES];
  level *opened[TG_REDUCE_RANGES], *l;
  for (uint32_t v = 0; v < nv; v++)
    tg_reduce_put(s, at, part[v] = tg_reduce_register(p, "part", p->acc[v]->type, 1, rank, p->extent + p->nupcast));
  l = tg_reduce_open_wide(p, at, p->nupcast, opened, sub);
  halve_copies(p, copies, value, sub);
  for (uint32_t v = 0; v < nv; v++) tg_reduce_put(s, l, tg_store(j, part[v], sub + p->nupcast, value[v], NULL, 0));
  for (uint32_t i = p->nwide; i-- > p->nupcast;) tg_reduce_close(s, opened[i]);
  for (uint32_t k = p->nupcast; k < p->nwide; k++)
    for (uint32_t n = p->extent[k]; n > 1; n = (n + 1) / 2) {
      for (uint32_t v = 0; v < nv; v++)
        tg_reduce_put(s, at, next[v] = tg_reduce_register(p, "part", p->acc[v]->type, 1, rank, p->extent + p->nupcast));
      l = tg_reduce_open_wide(p, at, p->nupcast, opened, sub);
      const tg_uop *own = sub[k], *far = tg_op2(j, TG_OP_ADD, own, tg_index(j, (n + 1) / 2)),
                   *paired = tg_op2(j, TG_OP_LT, far, tg_index(j, n));
      for (uint32_t v = 0; v < nv; v++) left[v] = tg_load(j, part[v], sub + p->nupcast, NULL, NULL, 0);
      sub[k] = tg_op2(j, TG_OP_MIN, far, tg_index(j, p->extent[k] - 1));
      for (uint32_t v = 0; v < nv; v++) right[v] = tg_load(j, part[v], sub + p->nupcast, NULL, NULL, 0);
      sub[k] = own;
      for (uint32_t v = 0; v < nv; v++)
        tg_reduce_put(s, l,
            tg_store(j, next[v], sub + p->nupcast,
                     tg_op3(j, TG_OP_WHERE, paired, tg_reduce_combine(p, v, left, right), left[v]), NULL, 0));
      for (uint32_t i = p->nwide; i-- > p->nupcast;) tg_reduce_close(s, opened[i]);
      for (uint32_t v = 0; v < nv; v++) part[v] = next[v];
    }
  for (uint32_t i = p->nupcast; i < p->nwide; i++) sub[i] = tg_index(j, 0);
  for (uint32_t v = 0; v < nv; v++) value[v] = tg_load(j, part[v], sub + p->nupcast, NULL, NULL, 0);
}

/* Results on a target with warps: halve_threads for tuples, FOLD of the whole tile for single values. The result is
 * stored in a register, so that it is not computed again. */
static void results_of_threads(plan *p, level *l, uint32_t copies, const tg_uop **result) {
  state *s = p->s;
  tg_job *j = s->j;
  uint32_t nv = p->info.values, lanes = 1, inner = 1;
  const tg_uop **t = tg_new(&j->env, const tg_uop *, (size_t)copies * nv), *sub[TG_REDUCE_RANGES];
  for (uint32_t i = p->nupcast; i < p->nwide; i++) lanes *= p->extent[i];
  if (lanes > TG_REDUCE_THREADS)
    tg_fail_at(j, s->pos, "a reduction over %u threads, and %d are the most", lanes, TG_REDUCE_THREADS);
  for (uint32_t i = p->nwide; i-- > p->nupcast; inner *= p->extent[i]) {
    sub[i] = tg_index(j, 0);
    if (p->extent[i] == 1) continue;
    sub[i] = tg_iota(j, TG_INDEX, lanes);
    if (inner > 1) sub[i] = tg_op2(j, TG_OP_IDIV, sub[i], tg_index(j, inner));
    if (inner * p->extent[i] < lanes) sub[i] = tg_op2(j, TG_OP_MOD, sub[i], tg_index(j, p->extent[i]));
  }
  if (p->info.generic && lanes > 1) halve_threads(p, l, copies, t);
  else halve_copies(p, copies, t, sub);
  if (t[0]->lanes > 1) t[0] = tg_make(j, TG_OP_FOLD, t[0]->type, 1, p->info.op, 1, t);
  for (uint32_t v = 0; v < nv; v++) {
    const tg_uop *kept = tg_reduce_register(p, "result", t[v]->type, 1, 0, NULL);
    tg_reduce_put(s, l, kept);
    tg_reduce_put(s, l, tg_store(j, kept, NULL, t[v], NULL, 0));
    result[v] = tg_load(j, kept, NULL, NULL, NULL, 0);
  }
}

/* Combines the accumulators of all upcast copies by halving, first range first, then the lanes by FOLD. */
void tg_reduce_results(plan *p, level *l, const tg_uop **result) {
  state *s = p->s;
  uint32_t nv = p->info.values, copies = 1;
  for (uint32_t i = 0; i < p->nupcast; i++) copies *= p->extent[i];
  for (uint32_t i = p->nupcast; i < p->nwide; i++)
    if (!p->extent[i]) copies = 0;
  if (!copies) {
    for (uint32_t v = 0; v < nv; v++)
      result[v] = p->info.generic ? tg_reduce_rewrite(s, p->reduce->src[nv + v])
                                  : tg_identity(s->j, p->info.op, p->acc[v]->type);
    return;
  }
  if (copies > 1 << 16) tg_fail_at(s->j, s->pos, "a reduction of more than 65536 accumulators");
  if (s->device && p->nwide > p->nupcast) {
    results_of_threads(p, l, copies, result);
    return;
  }
  const tg_uop **t = tg_new(&s->j->env, const tg_uop *, (size_t)copies * nv), *sub[TG_REDUCE_RANGES];
  for (uint32_t i = p->nupcast; i < p->nwide; i++)
    sub[i] = p->extent[i] == 1 ? tg_index(s->j, 0) : tg_iota(s->j, TG_INDEX, p->extent[i]);
  halve_copies(p, copies, t, sub);
  uint32_t lanes = t[0]->lanes;
  for (uint32_t v = 0; v < nv; v++) {
    result[v] = t[v];
    if (lanes < t[v]->lanes) lanes = t[v]->lanes;
    if (!p->info.generic && p->acc[v]->lanes == 1 && result[v]->lanes > 1)
      result[v] = tg_make(s->j, TG_OP_FOLD, result[v]->type, 1, p->info.op, 1, &result[v]);
  }
  if (p->info.generic && lanes > 1) fold_tuples(p, l, result, lanes);
}

/* In the thread loop: each task stores its result to LOCAL memory. */
void tg_reduce_store_part(plan *p, level *tasks, const tg_uop *const *result) {
  state *s = p->s;
  uint32_t n = tg_reduce_extent(s, p->thread);
  if (!n) tg_fail_at(s->j, s->pos, "a reduction over a thread range of no iterations");
  if (tasks->outer->depth)
    tg_fail_at(s->j, s->pos, "a reduction over the thread range %s stands inside a loop",
               s->j->ranges.data[tg_range_ordinal(p->thread)].name);
  const tg_uop *dim = tg_index(s->j, n);
  for (uint32_t v = 0; v < p->info.values; v++) {
    p->part[v] = tg_define(
        s->j,
        (tg_buffer){.name = "partial", .space = TG_SPACE_LOCAL, .rank = 1, .type = p->acc[v]->type, .pos = s->pos}, 1,
        &dim, NULL, true);
    tg_reduce_put(s, tasks->outer, p->part[v]);
    tg_reduce_put(s, tasks, tg_store(s->j, p->part[v], &tasks->range, result[v], NULL, 0));
  }
}

/* Behind it: the tasks' results are combined. */
void tg_reduce_combine_parts(plan *p, const tg_uop **result) {
  state *s = p->s;
  uint32_t n = tg_reduce_extent(s, p->thread), nv = p->info.values;
  const tg_uop **t = tg_new(&s->j->env, const tg_uop *, (size_t)n * nv + nv);
  for (uint32_t v = 0; v < nv; v++)
    for (uint32_t i = 0; i < n; i++) {
      const tg_uop *at = tg_index(s->j, i);
      t[(size_t)i * nv + v] = tg_load(s->j, p->part[v], &at, NULL, NULL, 0);
    }
  halve(p, t, n, 1);
  for (uint32_t v = 0; v < nv; v++) result[v] = t[v];
}
