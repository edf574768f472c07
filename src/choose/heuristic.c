/* SPDX-License-Identifier: MIT
 * The heuristic: a schedule without a search. Each loop nest of a kernel is classified by the strides of its accesses,
 * and gets the schedule of its class. Contractions such as GEMM are in contraction.c. All other nests are scheduled
 * here: vectors along a range in which memory is contiguous (a loop of the nest, else the range of a reduction),
 * threads over an outer loop, and non-temporal stores if the output is large and not read again. Later nests are
 * scheduled first, so that names with numbers (i#2) keep their meaning in the earlier ones. */
#include "choose/plan.h"
#include <math.h>
#include <stdio.h>

void tg_nest_emit(tg_nest *n, const char *format, ...) {
  va_list ap;
  tg_str t = tg_str_new(&n->j->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  tg_push(&n->j->env, &n->owner, n->index);
  tg_push(&n->j->env, &n->j->opts, ((tg_opt_text){t.data, {.file = "heuristic", .text = t.data, .column = 1}}));
}

/* ---- reading a nest ---- */

/* The stride of dimension d, in elements; 0: unknown until launch, or 2^20 and more. */
static int64_t stride_of(const tg_uop *define, uint32_t rank, uint32_t d) {
  enum { MANY = 1 << 20 };
  if (define->arg >> 32 & TG_STRIDED)
    return define->src[rank + d]->op == TG_OP_CONST && define->src[rank + d]->arg < MANY ? define->src[rank + d]->arg
                                                                                         : 0;
  int64_t times = 1;
  while (++d < rank && times)
    times = define->src[d]->op == TG_OP_CONST && define->src[d]->arg < MANY && times < MANY
                ? times * define->src[d]->arg
                : 0;
  return times < MANY ? times : 0;
}

tg_motion tg_access_motion(tg_job *j, const tg_uop *access, const tg_uop *range) {
  enum { FAR = 1 << 20 };
  uint32_t rank = tg_access_rank(access);
  const tg_uop *define = tg_define_of(access->src[0]);
  int64_t distance = 0;
  bool moves = false;
  for (uint32_t d = 0; d < rank; d++) {
    const tg_uop *u = access->src[1 + d];
    int64_t stride = stride_of(define, rank, d);
    tg_linear f;
    if (!tg_uses(j, u, range)) continue;
    if (!stride) return TG_STRIDES;
    moves = true;
    tg_linear_of(j, u, &f);
    for (uint32_t i = 0; i < f.n; i++) {
      if (f.atom[i] != range && tg_uses(j, f.atom[i], range)) return TG_STRIDES;
      if (f.atom[i] == range && (f.coefficient[i] > FAR || f.coefficient[i] < -FAR)) return TG_STRIDES;
      if (f.atom[i] == range) distance += f.coefficient[i] * stride;
    }
  }
  if (!moves) return TG_STILL;
  if (distance == 1 || distance == -1) return distance == 1 ? TG_CONTIGUOUS : TG_BACKWARDS;
  return distance && distance >= -TG_MOST_STEP && distance <= TG_MOST_STEP ? TG_NEAR : TG_STRIDES;
}

static bool author_fixed(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k != TG_LOOP && k != TG_GLOBAL && k != TG_REDUCE;
}

enum { DONE = 1, LANES = 2 };

tg_axis tg_nest_axis_sites(tg_nest *n, const char *name) {
  tg_opt o = {.word = TG_OPT_LANE, .pos = {.file = "heuristic", .text = name, .column = 1}, .n = 1, .names = {name}};
  return tg_axis_find(&n->s, &o, tg_sym(n->j, name));
}

static bool within_lanes(const tg_nest *n, const tg_site *site) {
  for (uint32_t p = site->parent; p != UINT32_MAX; p = n->s.sites.data[p].parent) {
    const tg_uop *r = n->s.sites.data[p].range;
    if (site->owner->op == TG_OP_REDUCE && !tg_uses(n->j, site->owner, r)) continue;
    if (n->done[tg_range_ordinal(r)] & LANES || tg_range_kind(r) == TG_LANE) return true;
  }
  return false;
}

/* Is some loop or reduction inside this loop vectorised already? */
static bool around_lanes(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->s.sites.n; i++) {
    const tg_site *site = &n->s.sites.data[i];
    if (!(n->done[tg_range_ordinal(site->range)] & LANES) && tg_range_kind(site->range) != TG_LANE) continue;
    if (site->owner->op == TG_OP_REDUCE && !tg_uses(n->j, site->owner, range)) continue;
    for (uint32_t p = site->parent; p != UINT32_MAX; p = n->s.sites.data[p].parent)
      if (n->s.sites.data[p].range == range) return true;
  }
  return false;
}

/* Is a range of the axis nested in another range of the same axis? For example, t[i,i] makes both dimensions of t one
 * axis, and so the loops that fill t. A reduction that does not change with the loop around it (as in softmax) does not
 * count, since it is hoisted out of that loop. */
static bool within_itself(tg_nest *n, const tg_axis *axis) {
  for (uint32_t i = 0; i < axis->n; i++)
    for (uint32_t p = axis->site[i].parent; p != UINT32_MAX; p = n->s.sites.data[p].parent)
      for (uint32_t k = 0; k < axis->n; k++)
        if (n->s.sites.data[p].range == axis->site[k].range &&
            (axis->site[i].owner->op != TG_OP_REDUCE || tg_uses(n->j, axis->site[i].owner, axis->site[k].range)))
          return true;
  return false;
}

tg_nest_axis tg_nest_axis_of(tg_nest *n, const char *name) {
  tg_axis axis = tg_nest_axis_sites(n, name);
  tg_nest_axis a = {.members = axis.n, .lockstep = true, .parallel = true, .cut = true, .alike = true};
  if (within_itself(n, &axis)) return (tg_nest_axis){.members = axis.n};
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *owner = axis.site[i].owner, *range = axis.site[i].range;
    const char *why;
    a.alike &= tg_extent(range) == tg_extent(axis.site[0].range);
    bool free = !author_fixed(range) && !n->done[tg_range_ordinal(range)];
    a.lockstep &= !tg_extent_following(&n->s, range);   /* else another loop's trip count depends on it */
    if (owner->op == TG_OP_REDUCE) {
      tg_reduce_arg r = tg_reduce_info(owner);
      a.cut &= !r.generic && !r.in_order;
      a.lockstep &= !r.in_order && free && !within_lanes(n, &axis.site[i]);
      a.parallel = false;
      continue;
    }
    tg_verdict v = free ? tg_range_verdict(&n->s, owner, &why) : TG_SEQUENTIAL;
    a.parallel &= v == TG_INDEPENDENT;
    a.lockstep &=
        (v == TG_INDEPENDENT || v == TG_LOCKSTEP) && !within_lanes(n, &axis.site[i]) && !around_lanes(n, range);
  }
  return a;
}

void tg_nest_mark(tg_nest *n, const char *name, bool lanes) {
  tg_axis axis = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < axis.n; i++) n->done[tg_range_ordinal(axis.site[i].range)] |= lanes ? DONE | LANES : DONE;
}

static int64_t constant_extent(const tg_uop *range) {
  return tg_extent(range)->op == TG_OP_CONST ? tg_extent(range)->arg : -1;
}

/* The extent as text; NULL if it depends on a loop or on memory, not on parameters and constants alone. */
static const char *extent_text(tg_nest *n, const tg_uop *range) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, tg_extent(range), &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_RANGE || order[i]->op == TG_OP_LOAD) return NULL;
  tg_str t = tg_str_new(&n->j->env);
  tg_print_expr(n->j, &t, tg_extent(range));
  return t.data;
}

const char *tg_nest_base(tg_nest *n, const char *name) { /* "i#2" gives "i2" */
  char *base = tg_strdup(&n->j->env, name), *mark = strchr(base, '#');
  if (mark) memmove(mark, mark + 1, strlen(mark));
  return base;
}

static double trips(int64_t extent) { return extent < 0 ? 1024 : (double)extent; }

static void read_reduce(tg_nest *n, const tg_uop *reduce, const tg_uop *store) {
  tg_job *j = n->j;
  for (uint32_t i = 0; i < n->reductions.n; i++)
    if (n->reductions.data[i].reduce == reduce) return;
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++) { /* kinds set by the author are kept */
    tg_kind kind = tg_range_kind(tg_reduce_ranges(reduce)[i]);
    if (kind != TG_REDUCE && kind != TG_LOOP) return;
  }
  tg_nest_reduce r = {.reduce = reduce, .store = store, .at = tg_reduce_info(reduce).ranges - 1u};
  uint32_t count, best = 0, ranges = tg_reduce_info(reduce).ranges;
  const tg_uop **order = tg_toposort(j, reduce, &count);
  for (uint32_t k = 0; k < ranges; k++) {
    uint32_t contiguous = 0, strided = 0;
    for (uint32_t i = 0; i < count; i++) {
      if (order[i]->op != TG_OP_LOAD) continue;
      tg_motion m = tg_access_motion(j, order[i], tg_reduce_ranges(reduce)[k]);
      contiguous += m == TG_CONTIGUOUS || m == TG_BACKWARDS;
      strided += m == TG_STRIDES;
    }
    if (contiguous > best && !strided) best = contiguous, r.at = k, r.contiguous = true;
  }
  r.range = tg_reduce_ranges(reduce)[r.at];
  r.name = tg_axis_name(&n->s, r.range);
  r.base = tg_nest_base(n, r.name);
  r.extent = constant_extent(r.range);
  r.extent_text = extent_text(n, r.range);
  tg_push(&j->env, &n->reductions, r);
}

/* The loops around a statement, from the inner one to the outer one. */
typedef struct around {
  const struct around *up;
  const tg_uop *range;
} around;

/* How many iterations of the loops around share the value: those of loops that it does not depend on. A reduction is
 * computed outside of them. */
static double shared_by(const tg_nest *n, const tg_uop *value, const around *a) {
  double times = 1;
  for (; a; a = a->up)
    if (!tg_uses(n->j, value, a->range)) times *= trips(constant_extent(a->range));
  return times;
}

static void read_store(tg_nest *n, const tg_uop *store, double times, const around *loops) {
  tg_job *j = n->j;
  uint32_t count, bytes = 1;
  const tg_uop **order = tg_toposort(j, store, &count);
  double ops = 0, terms = 1;
  tg_push(&j->env, &n->stores, store);
  for (uint32_t i = count; i-- > 0;) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_LOAD) tg_push(&j->env, &n->loads, u);
    if (u->type != TG_INDEX && u->type != TG_VOID && u->op != TG_OP_CONST) {
      uint32_t b = (uint32_t)tg_type_bytes(u->type);
      bytes = b > bytes ? b : bytes;
      ops += 1;
    }
    if (u->op != TG_OP_REDUCE) continue;
    read_reduce(n, u, store);
    double all = 1;
    for (uint32_t k = 0; k < tg_reduce_info(u).ranges; k++) all *= trips(constant_extent(tg_reduce_ranges(u)[k]));
    terms = fmax(terms, all / shared_by(n, u, loops));
  }
  n->work += times * terms * (ops + 1);
  uint32_t lanes = n->l->target->vector_bytes / bytes;
  if (lanes < n->lanes) n->lanes = lanes ? lanes : 1;
}

static void read_statements(tg_nest *n, const tg_uop *u, double times, double copies, const around *loops) {
  if (u->op == TG_OP_STORE) read_store(n, u, times, loops);
  if (u->op != TG_OP_END || tg_is_merge(u)) return;
  n->threads &= tg_range_kind(u->src[0]) != TG_THREAD;
  if (author_fixed(u->src[0])) copies = fmin(copies * trips(constant_extent(u->src[0])), 1 << 20);
  if (copies > n->copies) n->copies = (uint32_t)copies;
  around here = {.up = loops, .range = u->src[0]};
  times *= trips(constant_extent(u->src[0]));
  for (uint32_t i = 1; i < u->n; i++) read_statements(n, u->src[i], times, copies, &here);
}

tg_nest_loop tg_nest_read_loop(tg_nest *n, const tg_uop *end) {
  tg_nest_loop l = {.end = end, .range = end->src[0], .name = tg_axis_name(&n->s, end->src[0]),
                    .extent = constant_extent(end->src[0]), .extent_text = extent_text(n, end->src[0])};
  tg_nest_axis a = tg_nest_axis_of(n, l.name);
  l.parallel = a.parallel;
  l.lockstep = a.lockstep;
  l.members = a.members;
  l.base = tg_nest_base(n, l.name);
  return l;
}

static void read_nest(tg_nest *n, const tg_uop *top) {
  n->top = top;
  n->depth = n->stores.n = n->loads.n = n->reductions.n = 0;
  n->work = 0;
  n->lanes = n->l->target->vector_bytes;
  n->registers = n->l->target->vector_registers;
  n->threads = true;
  n->copies = 1;
  read_statements(n, top, 1, 1, NULL);
  for (const tg_uop *u = top; u->op == TG_OP_END && n->depth < NEST_MAX; u = u->src[1]) {
    n->loop[n->depth++] = tg_nest_read_loop(n, u);
    if (u->n != 2) break;
  }
}

/* ---- groups of schedule words ---- */

static uint32_t power_of_two_from(int64_t v) {
  uint32_t p = 1;
  while (p < v) p *= 2;
  return p;
}

static const char *whole_vectors(tg_nest *n, const char *name, const char *base, int64_t extent, uint32_t upcast) {
  const char *outer = extent != (int64_t)n->lanes * upcast ? tg_format(&n->j->env, "%s.o", base) : NULL;
  if (extent != (int64_t)n->lanes * upcast) {
    tg_nest_emit(n, "split %s %u as %s.o %s.i", name, n->lanes * upcast, base, base);
    name = tg_format(&n->j->env, "%s.i", base);
  }
  if (upcast == 1) {
    tg_nest_emit(n, "lane %s", name);
    return outer;
  }
  tg_nest_emit(n, "split %s %u as %s.u %s.v", name, n->lanes, base, base);
  tg_nest_emit(n, "upcast %s.u", base);
  tg_nest_emit(n, "lane %s.v", base);
  return outer;
}

/* Vectorises the remainder of a range, fewer iterations than one block, with masks. */
static void masked_vectors(tg_nest *n, const char *name, const char *base, int64_t extent) {
  if (extent == 1) return;
  uint32_t lanes = extent > 0 && extent < n->lanes ? power_of_two_from(extent) : n->lanes;
  tg_nest_emit(n, "split %s %u as %s.p %s.w", name, lanes, base, base);
  if (extent > lanes) tg_nest_emit(n, "unroll %s.p", base);
  tg_nest_emit(n, "lane %s.w", base);
}

/* The extent of a loop that depends on loops around it (a triangle), as text with their names. NULL: a name is
 * ambiguous, or its loop has been split. */
static const char *text_around(tg_nest *n, const tg_uop *range) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, tg_extent(range), &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op == TG_OP_LOAD) return NULL;
    if (order[i]->op != TG_OP_RANGE) continue;
    const char *name = tg_range_name(&n->s, order[i]);
    if (n->done[tg_range_ordinal(order[i])]) return NULL;
    for (uint32_t k = 0; k < n->s.sites.n; k++)
      if (n->s.sites.data[k].range != order[i] && !strcmp(tg_range_name(&n->s, n->s.sites.data[k].range), name))
        return NULL;
  }
  tg_str t = tg_str_new(&n->j->env);
  tg_print_expr(n->j, &t, tg_extent(range));
  return t.data;
}

/* The extent as text for the word cut. NULL: there is none, or the range is too short for full blocks of vectors. */
const char *tg_nest_cut_text(tg_nest *n, const tg_uop *range, const char *text) {
  if (tg_bounds_of(n->j, tg_extent(range)).hi < 4 * (int64_t)n->lanes) return NULL;
  return text ? text : text_around(n, range);
}

const char *tg_nest_loop_vector(tg_nest *n, const tg_nest_loop *l, uint32_t upcast) {
  tg_nest_axis a = tg_nest_axis_of(n, l->name);
  if (a.alike || n->lanes < 2)
    return tg_nest_vector(n, l->name, l->base, l->extent, tg_nest_cut_text(n, l->range, l->extent_text), upcast, a.cut);
  tg_nest_emit(n, "lane %s %u as %s.p %s.w", l->name, n->lanes, l->base, l->base);
  return tg_format(&n->j->env, "%s.p", l->base);
}

const char *tg_nest_vector(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text,
                           uint32_t upcast, bool may_cut) {
  if (n->lanes < 2 || extent == 0 || extent == 1) return NULL;
  while (upcast > 1 && extent >= 0 && (int64_t)n->lanes * upcast > extent) upcast /= 2;
  int64_t block = (int64_t)n->lanes * upcast;
  if (extent >= 0 && extent % block == 0) return whole_vectors(n, name, base, extent, upcast);
  if (!may_cut || (extent < 0 && !text) || (extent >= 0 && extent < block)) {
    bool loop = extent > 4 * (int64_t)n->lanes || extent < 0;
    if (loop) tg_nest_emit(n, "lane %s %u as %s.p %s.w", name, n->lanes, base, base);
    else masked_vectors(n, name, base, extent);
    return loop ? tg_format(&n->j->env, "%s.p", base) : NULL;
  }
  if (extent >= 0)
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", name, (long long)(extent / block * block), base, base);
  else
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.m %s.e", name, text, (long long)block, (long long)block, base,
                 base);
  const char *outer =
      whole_vectors(n, tg_format(&n->j->env, "%s.m", base), base, extent < 0 ? -1 : extent / block * block, upcast);
  const char *rest = tg_format(&n->j->env, "%s.e", base);
  if (extent < 0) tg_nest_emit(n, "lane %s %u as %s.p %s.w", rest, n->lanes, rest, rest);
  else masked_vectors(n, rest, rest, extent % block);
  return outer;
}

void tg_nest_thread(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text, double each) {
  double task =
      TG_TASK_WORK * (n->l->target->threads > 1 ? (double)TG_CHOOSE(n, "task", 4, 1, 2, 4, 8, 16, 64) / 4 : 1);
  int64_t chunk = each >= task ? 1 : (int64_t)(task / (each < 1 ? 1 : each));
  if (extent == 0 || extent == 1 || (extent < 0 && !text)) {
    if (chunk == 1 && extent < 0) tg_nest_emit(n, "thread %s", name);
    return;
  }
  int64_t fair = extent / (4 * (int64_t)n->l->target->threads);   /* at least 4 tasks for each thread */
  if (extent > 0 && chunk > fair) chunk = fair < 1 ? 1 : fair;
  if (chunk <= 1) {
    tg_nest_emit(n, "thread %s", name);
    return;
  }
  for (int64_t c = chunk; c < 2 * chunk && extent > 0; c++) {
    if (extent % c) continue;
    tg_nest_emit(n, "split %s %lld as %s.t %s.r", name, (long long)c, base, base);
    tg_nest_emit(n, "thread %s.t", base);
    return;
  }
  if (extent > 0) tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", name, (long long)(extent / chunk * chunk), base, base);
  else
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.b %s.c", name, text, (long long)chunk, (long long)chunk, base,
                 base);
  tg_nest_emit(n, "split %s.b %lld as %s.t %s.r", base, (long long)chunk, base, base);
  tg_nest_emit(n, "thread %s.t", base);
}

/* ---- classes of nests ---- */

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

/* Vectors to unroll by: at most `most`, and fewer if the nest's unrolled copies would need over half the registers. */
uint32_t tg_nest_upcast(const tg_nest *n, uint32_t most) {
  while (most > 1 && most * n->copies > n->registers / 2 && n->copies > 1) most /= 2;
  return most;
}

void tg_nest_cut_masks(tg_nest *n, const char *name, const char *blocks) {
  bool pays = false;
  if (!blocks) return;
  tg_axis axis = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < axis.n && !pays; i++) pays = tg_cut_pays(&n->s, &axis.site[i]);
  if (pays) tg_push(&n->j->env, &n->masked, blocks);
}

/* How many sums were one loop of the author's with this one? They share a loop again, and so the registers. */
static uint32_t sums_beside(const tg_nest *n, const tg_uop *range) {
  const tg_range_info *info = n->j->ranges.data;
  uint32_t sums = 0, from = info[tg_range_ordinal(range)].from;
  for (uint32_t i = 0; i < n->reductions.n && info[from].several; i++)
    sums += info[tg_range_ordinal(n->reductions.data[i].range)].from == from;
  return sums;
}

/* Limits the accumulators of a reduction of varying length, as in a triangle: adding them up costs the same for each
 * length, so even the longest must fill all accumulators four times. Accumulators of sums of one loop fill at most half
 * of the registers. */
static uint32_t upcast_of_sum(tg_nest *n, const tg_nest_reduce *r, uint32_t upcast) {
  tg_i128 most = tg_bounds_of(n->j, tg_extent(r->range)).hi;
  while (upcast > 1 && r->extent < 0 && 4 * (tg_i128)n->lanes * upcast > most) upcast /= 2;
  uint32_t beside = sums_beside(n, r->range);
  while (upcast > 1 && beside > 1 && beside * upcast > n->registers / 2) upcast /= 2;
  return upcast;
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
    uint32_t upcast = (uint32_t)TG_CHOOSE(n, "sums", tg_nest_upcast(n, 4), 1, 2, 4, 8);
    if (!upcast) continue;
    upcast = upcast_of_sum(n, r, upcast);
    tg_nest_cut_masks(
        n, r->name,
        tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), upcast, x.cut));
    tg_nest_mark(n, r->name, true);
  }
}

/* Block size, in elements, for data that comes from DRAM: four pages of 4 KiB, read one vector from each in turn. The
 * hardware prefetcher of most cores follows several streams, which together get more bandwidth than one. */
static int64_t pages_block(const tg_nest *n) {
  return n->l->target->vector_bytes >= 16 ? 4 * (4096 / (int64_t)n->l->target->vector_bytes) * n->lanes : 0;
}

static bool wants_pages(const tg_nest *n, int64_t extent, uint32_t streams) {
  int64_t block = pages_block(n);
  double bytes = (double)extent * n->l->target->vector_bytes / n->lanes * streams;
  return !n->l->target->one_stream && extent > 0 && block && extent % block == 0 && n->lanes > 1 && n->copies == 1 &&
         streams <= 6 && bytes > 2.0 * (double)n->l->target->l2;
}

static void page_vectors(tg_nest *n, const char *name, const char *b, int64_t extent, uint32_t upcast, bool loops) {
  int64_t block = pages_block(n);
  if (extent != block) tg_nest_emit(n, "split %s %lld as %s.q %s.s", name, (long long)block, b, b);
  if (extent != block) name = tg_format(&n->j->env, "%s.s", b);
  tg_nest_emit(n, "split %s %lld as %s.p %s.w", name, (long long)(block / 4), b, b);
  tg_nest_emit(n, "split %s.w %u as %s.o %s.x", b, upcast * n->lanes, b, b);
  if (loops) tg_nest_emit(n, "order %s.o %s.p", b, b);
  tg_nest_emit(n, "upcast %s.p", b);
  if (upcast > 1) tg_nest_emit(n, "split %s.x %u as %s.u %s.v", b, n->lanes, b, b);
  if (upcast > 1) tg_nest_emit(n, "upcast %s.u", b);
  tg_nest_emit(n, "lane %s.%s", b, upcast > 1 ? "v" : "x");
}

/* So many elements for a task, at least: whole pages of each array, since prefetchers begin anew at each page, and so
 * that no two tasks store to one line. */
int64_t tg_nest_whole_pages(const tg_nest *n, int64_t elements) {
  uint32_t bytes = 64;
  for (uint32_t i = 0; i < n->stores.n; i++) {
    uint32_t b = (uint32_t)tg_type_bytes(tg_define_of(n->stores.data[i]->src[0])->type);
    if (b < bytes) bytes = b;
  }
  int64_t page = 4096 / bytes;
  return (elements + page - 1) / page * page;
}

/* A single loop that is both shared by threads and vectorised. */
void tg_nest_flat(tg_nest *n, const tg_nest_loop *l, uint32_t upcast) {
  int64_t block = (int64_t)n->lanes * upcast;
  double each = n->work / trips(l->extent);
  int64_t chunk = tg_nest_whole_pages(n, (int64_t)(TG_TASK_WORK / (each < 1 ? 1 : each))),
          most = l->extent / (4 * (int64_t)n->l->target->threads);
  if (l->extent > 0 && chunk > most) chunk = most;
  bool pages =
      wants_pages(n, l->extent < 0 ? -1 : l->extent / pages_block(n) * pages_block(n), n->loads.n + n->stores.n) &&
      !n->reductions.n && chunk >= pages_block(n);
  if (pages) pages = TG_CHOOSE(n, "pages", 1, 0, 1) != 0;
  if (pages) block = pages_block(n);
  if (pages && chunk < 8 * block && most >= 8 * block) chunk = 8 * block;
  if (chunk < block && most >= block && !pages) chunk = block;
  chunk = chunk / block * block;
  bool threads = n->threads && l->parallel && chunk >= block &&
                 (l->extent > 0 ? n->work >= TG_THREAD_WORK : l->extent_text != NULL);
  if (!threads) {
    tg_nest_vector(n, l->name, l->base, l->extent, tg_nest_cut_text(n, l->range, l->extent_text), upcast, true);
    return;
  }
  const char *main_part = l->name, *b = l->base;
  int64_t rest = l->extent < 0 ? -1 : l->extent % chunk;
  if (rest) {
    if (l->extent > 0) tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", l->name, (long long)(l->extent - rest), b, b);
    else
      tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.b %s.c", l->name, l->extent_text, (long long)chunk,
                   (long long)chunk, b, b);
    main_part = tg_format(&n->j->env, "%s.b", b);
    const char *left = tg_format(&n->j->env, "%s.c", b);
    const char *text = l->extent < 0 ? tg_format(&n->j->env, "(%s)%%%lld", l->extent_text, (long long)chunk) : NULL;
    tg_nest_vector(n, left, left, rest, text, upcast, true);
  }
  tg_nest_emit(n, "split %s %lld as %s.t %s.r", main_part, (long long)chunk, b, b);
  tg_nest_emit(n, "thread %s.t", b);
  const char *inner = tg_format(&n->j->env, "%s.r", b);
  if (pages) page_vectors(n, inner, inner, chunk, 1, true);
  else tg_nest_vector(n, inner, inner, chunk, NULL, upcast, true);
}

/* A reduction to one element, without loops around it. It is split in a fixed number of partial results, so that the
 * result does not depend on the number of threads. */
static void whole_reduction(tg_nest *n) {
  for (uint32_t i = n->reductions.n; i-- > 0;) {
    const tg_nest_reduce *r = &n->reductions.data[i];
    tg_reduce_arg a = tg_reduce_info(r->reduce);
    tg_nest_axis x = tg_nest_axis_of(n, r->name);
    enum { PARTS = 64 };
    int64_t block = 4 * (int64_t)n->lanes;
    bool pages = r->extent > 0 &&
                 wants_pages(n, r->extent / PARTS / pages_block(n) * pages_block(n) * PARTS, n->loads.n) &&
                 n->loads.n <= 2;
    if (pages) block = pages_block(n);
    int64_t part = r->extent / PARTS / block * block;
    if (!x.lockstep || !r->contiguous) continue;
    tg_nest_mark(n, r->name, true);
    if (x.members > 1 || !n->threads || n->work < TG_THREAD_WORK * 4 || part < 1024 || a.generic || a.ranges > 1 ||
        n->reductions.n > 1) {
      tg_nest_vector(n, r->name, r->base, r->extent, tg_nest_cut_text(n, r->range, r->extent_text), 4, x.cut);
      continue;
    }
    const char *name = r->name, *b = r->base;
    if (part * PARTS != r->extent) {
      tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", name, (long long)(part * PARTS), b, b);
      const char *left = tg_format(&n->j->env, "%s.c", b);
      tg_nest_vector(n, left, left, r->extent - part * PARTS, NULL, 4, true);
      name = tg_format(&n->j->env, "%s.b", b);
    }
    tg_nest_emit(n, "split %s %lld as %s.t %s.r", name, (long long)part, b, b);
    tg_nest_emit(n, "thread %s.t", b);
    const char *inner = tg_format(&n->j->env, "%s.r", b);
    if (pages) page_vectors(n, inner, inner, part, 2, false);
    else tg_nest_vector(n, inner, inner, part, NULL, 4, true);
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
                   (double)rows_at_once * n->work / trips(l->extent));
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
    else if (!k) tg_nest_thread(n, l->name, l->base, l->extent, l->extent_text, n->work / trips(l->extent));
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

static void schedule_nest(tg_nest *n, const tg_uop *top, uint32_t index) {
  n->index = index;
  tg_rung rung = rung_of(n, index);
  if (rung == TG_RUNG_NOTHING) return;
  read_nest(n, top);
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
  if (n->choice && index < n->rungs && n->choice[index].taken) {
    tg_nest_plan(n, n->choice[index].taken);
    if (!n->reductions.n) stream_outputs(n);
    return;
  }
  if (rung == TG_RUNG_ALL && tg_nest_contraction(n)) return;
  if (rung == TG_RUNG_ALL && tg_nest_movement(n)) return;
  n->masked.n = 0;
  if (rung > TG_RUNG_ALL || !matrix_vector(n)) general_nest(n);
  stream_outputs(n);
  for (uint32_t i = 0; i < n->masked.n; i++) tg_nest_emit(n, "cut %s auto", n->masked.data[i]);
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
  uint32_t buffers = j->buffers.n;
  for (uint32_t i = 0; n->choice && i < n->rungs; i++) n->choice[i].taken = NULL;
  tg_schedule_begin(&n->s, j, n->l, tg_plain(j, raised));
  see(n);
  if (tg_target_is_device(n->l->target)) {
    if (rung_of(n, 0) == TG_RUNG_ALL) tg_nest_device(n);
    return;
  }
  for (uint32_t i = n->s.sink->n; i-- > 0;) {
    if (n->s.sink->src[i]->op != TG_OP_END || rung_of(n, i) > TG_RUNG_ALL) continue;
    n->index = i;
    read_nest(n, n->s.sink->src[i]);
    if (decide_plan(n, i) || !n->reductions.n) continue;
    tg_nest_rows(n, i, buffers);
    tg_nest_blocks(n);
  }
  const tg_uop *plain = n->s.sink;
  for (uint32_t i = plain->n; i-- > 0;)
    if (plain->src[i]->op == TG_OP_END || plain->src[i]->op == TG_OP_STORE) schedule_nest(n, plain->src[i], i);
}
