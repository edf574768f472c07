/* SPDX-License-Identifier: MIT
 * The memory part of the cost model: which bytes come from which cache. The strides of an access say which bytes it
 * touches in one run of a loop. If everything that one iteration touches fits a cache, then data that the next
 * iteration touches again hits that cache; otherwise it misses in each iteration. */
#include <math.h>
#include "model/walk.h"

enum { LINE = TG_CACHE_LINE, PAGE = 4096 };

/* Of a cache. The rest is taken by what else runs. */
static const double used = 0.8;

/* Walks through the tables of pages that are under way at once: what page_miss takes, which is of walks one behind
 * another, over what it takes in strips of columns (docs/model.md). */
static const double walks = 4;

uint32_t tg_cost_loop(tg_cost_loops *l, const tg_uop *range, uint32_t outer, double trips, bool thread) {
  tg_cost_loop_info i = {.range = range,
                         .outer = outer,
                         .depth = outer == TG_COST_NONE ? 0 : l->loop.data[outer].depth + 1,
                         .trips = trips,
                         .thread = thread};
  tg_push(&l->j->env, &l->loop, i);
  return l->loop.n - 1;
}

/* Elements between the lanes of an access: 1: contiguous; NAN: not by a constant stride. */
static double lane_stride(const tg_uop *at) {
  if (at->lanes == 1 || at->op == TG_OP_IOTA) return 1;
  if (at->op == TG_OP_CAST) return lane_stride(at->src[0]);
  if (at->op == TG_OP_ADD || at->op == TG_OP_SUB) {
    bool first = at->src[0]->lanes > 1, second = at->src[1]->lanes > 1;
    return first && second ? NAN : lane_stride(at->src[second]);
  }
  if (at->op == TG_OP_MUL && at->src[1]->op == TG_OP_CONST) return lane_stride(at->src[0]) * (double)at->src[1]->arg;
  return NAN;
}

void tg_cost_access(tg_cost_loops *l, const tg_uop *u, uint32_t loop) {
  const tg_uop *value = u->op == TG_OP_STORE ? tg_stored(u) : u, *define = tg_define_of(u->src[0]);
  double each = fmax(1, tg_type_bytes(define->type)) * define->lanes, size = each;
  for (uint32_t d = 0; d < tg_buffer_info(l->j, define)->rank; d++) {
    tg_bounds extent = tg_bounds_of(l->j, define->src[d]);
    size *= extent.hi < 1 ? 1 : extent.hi > (tg_i128)1 << 50 ? 0x1p50 : (double)extent.hi;
  }
  tg_cost_access_info a = {.access = u,
                           .loop = loop,
                           .bytes = fmax(each, (double)value->lanes * tg_type_bytes(value->type)),
                           .size = size,
                           .same = 1};
  double lanes = u->src[1]->lanes, stride = fabs(lane_stride(u->src[1])) * each;
  if (lanes > 1 && !(stride * lanes <= fmax(LINE, a.bytes))) {   /* lanes in lines of their own */
    a.bytes = each, a.same = lanes;
    a.apart = isnan(stride) ? 0 : stride;
  } else if (lanes > 1) a.bytes = fmax(a.bytes, stride * (lanes - 1) + each);
  if (loop == TG_COST_NONE || l->loop.data[loop].depth < TG_COST_DEPTH) tg_push(&l->j->env, &l->access, a);
}

void tg_cost_prefetch(tg_cost_loops *l, const tg_uop *prefetch, uint32_t loop) {
  const tg_uop *define = tg_define_of(prefetch->src[0]);
  for (uint32_t i = 0; i < l->asked.n; i++)
    if (l->asked.data[i].define == define) return;
  tg_push(&l->j->env, &l->asked, ((tg_cost_asked){define, loop}));
}

static void find_asked(tg_cost_loops *l) {
  for (uint32_t i = 0; i < l->access.n; i++)
    for (uint32_t k = 0; k < l->asked.n; k++)
      if (tg_define_of(l->access.data[i].access->src[0]) == l->asked.data[k].define)
        l->access.data[i].asked = true, l->access.data[i].asker = l->asked.data[k].loop;
}

static double element(const tg_cost_access_info *a) { return tg_type_bytes(tg_define_of(a->access->src[0])->type); }

/* ---- strides ---- */

/* The value of a constant expression (parameters have been replaced by constants). NAN: it is not constant. */
static double value_of(tg_job *j, const tg_uop *u) {
  tg_bounds b = tg_bounds_of(j, u);
  return b.lo == b.hi ? (double)b.lo : NAN;
}

/* How much u grows with one iteration of the range, given the strides s of its sources by id. NAN: not affine in it. */
static double stride_of(tg_job *j, const tg_uop *u, const tg_uop *range, const double *s) {
  double a = u->n ? s[u->src[0]->id] : 0, b = u->n > 1 ? s[u->src[1]->id] : 0;
  switch (u->op) {
  case TG_OP_RANGE: return u == range;
  case TG_OP_ADD: return a + b;
  case TG_OP_SUB: return a - b;
  case TG_OP_MUL:
    if (a == 0 && b == 0) return 0;
    return b == 0 ? a * value_of(j, u->src[1]) : a == 0 ? b * value_of(j, u->src[0]) : NAN;
  case TG_OP_SHL:
    if (u->src[1]->op == TG_OP_CONST) return ldexp(a, (int)(u->src[1]->arg & 63));
    break;
  case TG_OP_CAST: return a;
  case TG_OP_AFTER: case TG_OP_DEFINE: case TG_OP_END: return 0;
  default: break;
  }
  for (uint32_t k = 0; k < u->n; k++)
    if (s[u->src[k]->id] != 0) return NAN;
  return 0;
}

/* The value of u with all ranges 0. NAN: it is loaded from memory, or is no integer. */
static double origin_of(tg_job *j, const tg_uop *u, const double *o) {
  double a = u->n ? o[u->src[0]->id] : 0, b = u->n > 1 ? o[u->src[1]->id] : 0;
  switch (u->op) {
  case TG_OP_CONST: return (double)u->arg;
  case TG_OP_RANGE: case TG_OP_IOTA: return 0;
  case TG_OP_ADD: return a + b;
  case TG_OP_SUB: return a - b;
  case TG_OP_MUL: return a * b;
  case TG_OP_MIN: return fmin(a, b);
  case TG_OP_MAX: return fmax(a, b);
  case TG_OP_IDIV: case TG_OP_CDIV: return a == 0 ? 0 : floor(a / b);
  case TG_OP_SHL: return ldexp(a, (int)fmin(b, 62));
  case TG_OP_CAST: return a;
  default: return tg_is_int(u->type) && u->op != TG_OP_LOAD ? value_of(j, u) : NAN;
  }
}

static bool within(const tg_cost_loops *l, uint32_t loop, uint32_t outer) {
  while (loop != TG_COST_NONE && loop != outer) loop = l->loop.data[loop].outer;
  return loop == outer;
}

/* What addresses are computed from, in order. */
static uint32_t of_addresses(tg_cost_loops *l, const tg_uop **order, uint32_t n) {
  uint32_t kept = 0, from = n;
  bool *needed = l->by_id->needed;
  for (uint32_t i = 0; i < l->access.n; i++) needed[l->access.data[i].access->src[1]->id] = true;
  for (uint32_t i = n; i-- > 0;) {
    if (!needed[order[i]->id]) continue;
    for (uint32_t k = 0; k < order[i]->n; k++) needed[order[i]->src[k]->id] = true;
    order[--from] = order[i];
  }
  for (; from < n; from++) needed[order[from]->id] = false, order[kept++] = order[from];
  return kept;
}

static void find_strides(tg_cost_loops *l, const tg_uop *linear) {
  uint32_t n;
  const tg_uop **order = tg_toposort(l->j, linear, &n);
  n = of_addresses(l, order, n);
  double *s = l->by_id->stride;
  for (uint32_t r = 0; r < l->loop.n; r++) {
    for (uint32_t i = 0; i < n; i++) s[order[i]->id] = stride_of(l->j, order[i], l->loop.data[r].range, s);
    for (uint32_t i = 0; i < l->access.n; i++) {
      tg_cost_access_info *a = &l->access.data[i];
      if (l->loop.data[r].depth < TG_COST_DEPTH && within(l, a->loop, r))
        a->stride[l->loop.data[r].depth] = s[a->access->src[1]->id];
    }
  }
  for (uint32_t i = 0; i < n; i++) s[order[i]->id] = origin_of(l->j, order[i], s);
  for (uint32_t i = 0; i < l->access.n; i++)
    l->access.data[i].at = s[l->access.data[i].access->src[1]->id] * element(&l->access.data[i]);
}

static bool same_buffer(const tg_cost_access_info *a, const tg_cost_access_info *b) {
  return tg_define_of(a->access->src[0]) == tg_define_of(b->access->src[0]);
}

/* Do both access one buffer, with the same strides in this loop and in all loops around it? */
static bool moves_alike(const tg_cost_loops *l, const tg_cost_access_info *a, const tg_cost_access_info *b,
                        uint32_t loop) {
  uint32_t depth = loop == TG_COST_NONE ? 0 : l->loop.data[loop].depth + 1;
  return same_buffer(a, b) && !memcmp(a->stride, b->stride, depth * sizeof *a->stride);
}

/* Merges accesses of one loop with the same strides (unrolled copies). The first pass joins those in the same or
 * adjacent lines to one longer access; the second counts those farther apart in `same` and `apart`. */
static void join_alike(tg_cost_loops *l) {
  enum { BACK = 256 };
  for (int apart = 0; apart <= 1; apart++) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->access.n; i++) {
      tg_cost_access_info *a = &l->access.data[i];
      bool found = false;
      for (uint32_t k = kept > BACK ? kept - BACK : 0; k < kept && !found; k++) {
        tg_cost_access_info *b = &l->access.data[k];
        double between = fabs(a->at - b->at);
        if (a->loop != b->loop || !moves_alike(l, a, b, a->loop)) continue;
        if (apart && fabs(a->bytes - b->bytes) < LINE) {
          found = true;
          b->same += a->same;
          if (a->apart > 0 && (b->apart == 0 || a->apart < b->apart)) b->apart = a->apart;
          if (between > 0 && (b->apart == 0 || between < b->apart)) b->apart = between;
        } else if (!apart && a->at <= b->at + b->bytes + LINE && b->at <= a->at + a->bytes + LINE) {
          double end = fmax(a->at + a->bytes, b->at + b->bytes);
          found = true;
          b->at = fmin(a->at, b->at);
          b->bytes = end - b->at;
        }
      }
      if (!found) l->access.data[kept++] = *a;
    }
    l->access.n = kept;
  }
}

static uint32_t common_loop(const tg_cost_loops *l, uint32_t a, uint32_t b) {
  while (a != b) {
    if (a == TG_COST_NONE || b == TG_COST_NONE) return TG_COST_NONE;
    if (l->loop.data[a].depth >= l->loop.data[b].depth) a = l->loop.data[a].outer;
    else b = l->loop.data[b].outer;
  }
  return a;
}

/* Finds data that one loop has fetched and a later loop uses, within one iteration of a loop around both: the loop over
 * remainder rows reads the same panel as the main loop; a packed copy is read after it was written. */
static void find_twins(tg_cost_loops *l) {
  for (uint32_t i = 1; i < l->access.n; i++) {
    tg_cost_access_info *b = &l->access.data[i];
    for (uint32_t k = i; k-- > 0 && !b->twin;) {
      const tg_cost_access_info *a = &l->access.data[k];
      uint32_t loop = common_loop(l, a->loop, b->loop);
      if (fabs(a->at - b->at) < LINE && moves_alike(l, a, b, loop)) b->twin = k + 1, b->twin_loop = loop;
    }
  }
}

/* How many threads share the executions of each access: those of the loop around it that is divided among them. Of
 * tasks that they cannot share alike, the last takes as long as all of them. */
static void find_threads(tg_cost_loops *l, double threads) {
  for (uint32_t i = 0; i < l->access.n; i++) {
    tg_cost_access_info *a = &l->access.data[i];
    a->threads = 1;
    for (uint32_t r = a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
      double trips = l->loop.data[r].trips;
      if (l->loop.data[r].thread && trips > 0) a->threads = fmax(a->threads, trips / ceil(trips / threads));
    }
  }
}

/* ---- bytes ---- */

/* A stride in bytes, and the number of times that it is taken. */
typedef struct { double step, trips; } moves;

/* Bytes that the access touches in one run of the loop `outer`, with all loops inside it; NONE: in one execution.
 * Strides are taken from the smallest to the largest. A stride within the piece so far extends it; a stride within the
 * rows so far adds rows; any other multiplies the number of pieces. Pieces that lie apart are whole units: lines, or
 * pages. */
static double touched(const tg_cost_loops *l, const tg_cost_access_info *a, uint32_t outer, double unit) {
  moves by[TG_COST_DEPTH + 1];
  uint32_t n = 0;
  double piece = a->bytes, pieces = 1, row = 0, rows = 1;
  if (a->same > 1 && a->apart > 0) by[n++] = (moves){a->apart, a->same};
  else pieces = a->same;
  for (uint32_t r = outer == TG_COST_NONE ? TG_COST_NONE : a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
    double step = fabs(a->stride[l->loop.data[r].depth]) * element(a), trips = l->loop.data[r].trips;
    uint32_t at = n;
    if (isnan(step)) pieces *= trips, piece = fmax(piece, unit);
    else if (step > 0) {
      for (; at && by[at - 1].step > step; at--) by[at] = by[at - 1];
      by[at] = (moves){step, trips};
      n++;
    }
    if (r == outer) break;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (by[i].step <= fmax(piece, unit)) piece += by[i].step * (by[i].trips - 1);
    else if (row > 0 && by[i].step <= row * rows) rows += (by[i].trips - 1) * by[i].step / row;
    else pieces *= rows, row = by[i].step, rows = by[i].trips;
  }
  pieces *= rows;
  if (pieces > 1) piece = fmax(piece, unit);
  return fmin(piece * pieces, fmax(a->size, a->bytes));
}

/* The outermost loop around the access that is inside `outer`; NONE: the access itself is directly inside it. */
static uint32_t within_loop(const tg_cost_loops *l, const tg_cost_access_info *a, uint32_t outer) {
  uint32_t r = a->loop;
  if (r == outer) return TG_COST_NONE;
  while (r != TG_COST_NONE && l->loop.data[r].outer != outer) r = l->loop.data[r].outer;
  return r;
}

/* Bytes that the access adds to those an iteration of the loop touches. once: bytes that it touches in one iteration;
 * those that its twin touches too are not counted again. */
static double adds(const tg_cost_loops *l, const tg_cost_access_info *a, double once, uint32_t loop, double unit) {
  if (!a->twin || (loop != a->twin_loop && !(a->twin_loop != TG_COST_NONE && within(l, a->twin_loop, loop))))
    return once;
  const tg_cost_access_info *twin = &l->access.data[a->twin - 1];
  return fmax(0, once - touched(l, twin, within_loop(l, twin, loop), unit));
}

/* Probability that data is still in a cache of `cache` bytes after `between` other bytes were touched. It falls
 * gradually, since caches are not perfectly LRU. */
static double stays(double between, double cache) { return fmin(1, fmax(0, 1.75 - between / cache)); }

/* Of a cache. iteration: bytes that one iteration of each loop touches. all: bytes of the whole program; both in units
 * of `unit` bytes. cache: size in bytes; ways: of its sets, each of `way` bytes. What is prefetched: streams, that come
 * into L1, whose sets have l1_ways, each of l1_way bytes. */
typedef struct {
  const tg_cost_loops *l;
  const double *iteration;
  double all, unit, cache, ways, way, streams, l1_ways, l1_way;
} level;

/* The longest run of consecutive lines that the hardware prefetcher can follow: at most a page, and with at most
 * `streams` rows accessed in turn, since it can track only so many (the machine's column), and with no more rows whose
 * lines meet in one set of L1 than it has ways: what is brought there for one of more is gone before it is read. */
static double run_of(const level *v, const tg_cost_access_info *a) {
  const double page = 4096;
  const tg_cost_loops *l = v->l;
  bool meet = a->same > 1 && a->apart > 0 && v->l1_way > 0 && fmod(a->apart, v->l1_way) == 0;
  double piece = a->bytes, rows = a->same, most = v->l1_way > 0 ? v->l1_ways : INFINITY, one = meet ? a->same : 1;
  for (uint32_t r = a->loop; r != TG_COST_NONE && rows <= v->streams && one <= most; r = l->loop.data[r].outer) {
    double step = fabs(a->stride[l->loop.data[r].depth]) * element(a), trips = l->loop.data[r].trips;
    if (step > 0 && step < piece + LINE) piece += step * (trips - 1);   /* no line is left out */
    else if (step != 0) {
      rows *= isnan(step) ? v->streams : trips;
      if (v->l1_way > 0 && fmod(step, v->l1_way) == 0) one *= trips;
    }
  }
  return fmin(page, fmax(piece, LINE));
}

/* Extra cycles at the start of each run, where the hardware has prefetched nothing yet: its latency, or, since misses
 * of short runs overlap, as long as the run takes at the level's bandwidth. */
static double starts(double bytes, double run, double latency, double bandwidth) {
  return bytes / run * fmin(latency, run / bandwidth);
}

/* Aliasing. Pieces that lie a multiple of a large power of two apart meet in few sets of a cache, which hold as many of
 * them as it has ways. The bytes that would crowd the whole cache as one run of the loop (NONE: of its own execution)
 * crowds these sets. */
static double crowded(const level *v, const tg_cost_access_info *a, uint32_t loop) {
  const tg_cost_loops *l = v->l;
  moves by[TG_COST_DEPTH + 1];
  uint32_t n = 0;
  double piece = a->bytes, pieces = 1, sets = 1;
  if (v->ways < 1) return 0;
  if (a->same > 1 && a->apart > 0) by[n++] = (moves){a->apart, a->same};
  for (uint32_t r = loop == TG_COST_NONE ? loop : a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
    double step = fabs(a->stride[l->loop.data[r].depth]) * element(a), trips = l->loop.data[r].trips;
    if (step > 0 && step <= fmax(piece, LINE)) piece += step * (trips - 1);
    else if (step > 0 && step < 0x1p40) by[n++] = (moves){step, trips};
    if (r == loop) break;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint64_t step = (uint64_t)by[i].step;
    pieces *= by[i].trips;
    sets *= fmin(by[i].trips, v->way / fmin(v->way, fmax(LINE, (double)(step & -step))));
  }
  double lines = fmax(1, ceil(piece / LINE)), taken = fmin(v->way / LINE, sets * lines);
  return pieces * lines / taken / v->ways * v->cache;
}

/* Bytes of one execution: whole units where its pieces lie apart, and all between them where they do not. */
static double of_execution(const tg_cost_access_info *a, double unit) {
  if (a->same > 1 && a->apart > 0 && a->apart < unit)
    return fmax(a->same * a->bytes, (a->same - 1) * a->apart + a->bytes);
  return a->same * (a->same > 1 ? fmax(a->bytes, unit) : a->bytes);
}

/* Bytes of the access that miss the cache in one iteration of the loop `outer`, or in the whole program (NONE). Data of
 * an iteration is still cached in the next one if everything that the iteration touches fits. */
static double fetched(const level *v, const tg_cost_access_info *a, uint32_t outer) {
  const tg_cost_loops *l = v->l;
  double run = of_execution(a, v->unit);
  for (uint32_t r = a->loop, inner = TG_COST_NONE;; inner = r, r = l->loop.data[r].outer) {
    double kept = stays(fmax(r == TG_COST_NONE ? v->all : v->iteration[r], crowded(v, a, inner)), v->cache);
    if (a->twin && r == a->twin_loop && r != outer)
      run -= kept * fmin(run, fetched(v, &l->access.data[a->twin - 1], r));
    if (r == outer || r == TG_COST_NONE) return run;
    double trips = l->loop.data[r].trips, step = fabs(a->stride[l->loop.data[r].depth]) * element(a);
    run = fmax(run, step < v->unit ? step : v->unit);
    run = kept * fmin(touched(l, a, r, v->unit), run * trips) + (1 - kept) * run * trips;
  }
}

/* Bytes that miss a cache of this size. Adds what starts of runs take: to `busy` and `ahead` of each access what passes
 * beside arithmetic, to waits what does not, to `starts` what passes beside both arithmetic and what memory sends. A
 * core goes on while L2 or L3 brings what a load wants, and while memory brings what instructions prefetch; of what
 * memory brings else it has not as much to do ahead. Stores are done in order, so that each new run is waited for, and
 * nothing else waits for that. */
static double misses(tg_cost_loops *l, uint32_t which, const level *given, double size, double ways, double latency,
                     double bandwidth, double *waits) {
  level v = *given;
  v.cache = used * size, v.ways = used * ways, v.way = ways > 0 ? size / ways : 0;
  double all = v.all, cache = v.cache;
  double bytes = 0, again = 1 - stays(all, cache);   /* if all data fits, it is cached from the run before */
  for (uint32_t i = 0; i < l->access.n; i++) {
    tg_cost_access_info *a = &l->access.data[i];
    double run = fetched(&v, a, TG_COST_NONE);
    if (a->twin && a->twin_loop == TG_COST_NONE)
      run -= stays(all, cache) * fmin(run, fetched(&v, &l->access.data[a->twin - 1], TG_COST_NONE));
    bytes += run;
    a->missed[which] = run * again;
    bool far = which + 1 == TG_COST_LEVELS, store = a->access->op == TG_OP_STORE;
    double each = run_of(&v, a);
    if (store) a->busy += again * run / each * latency;
    else if (far && !a->asked) *waits += again * starts(run, each, latency, bandwidth) / a->threads;
    else *(far ? &a->ahead : &a->starts) += again * starts(run, each, latency, bandwidth);
  }
  return bytes * again;
}

/* Bytes that the iterations of each loop touch, and the whole program, in units. */
static level level_of(tg_cost_loops *l, double unit, const tg_target *t) {
  double *iteration = tg_new(&l->j->env, double, l->loop.n), all = 0;
  for (uint32_t i = 0; i < l->access.n; i++) {
    const tg_cost_access_info *a = &l->access.data[i];
    double once = of_execution(a, unit);
    for (uint32_t r = a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
      iteration[r] += adds(l, a, once, r, unit);
      once = touched(l, a, r, unit);
    }
    all += adds(l, a, once, TG_COST_NONE, unit);
  }
  double ways = t->machine.l1_ways, size = (double)(t->l1 ? t->l1 : 32 << 10);
  return (level){.l = l,
                 .iteration = iteration,
                 .all = all,
                 .unit = unit,
                 .streams = t->machine.streams,
                 .l1_ways = ways,
                 .l1_way = ways > 0 ? size / ways : 0};
}

/* Adds the cycles for addresses of pages that are not at hand. Those that are, are a cache whose lines are pages. */
static void add_walks(tg_cost_loops *l, const tg_target *t) {
  const tg_machine *m = &t->machine;
  level v = level_of(l, PAGE, t);
  v.cache = used * m->pages * PAGE;
  double missed = 1 - stays(v.all, v.cache);
  for (uint32_t i = 0; i < l->access.n && missed > 0; i++)
    l->access.data[i].busy += fetched(&v, &l->access.data[i], TG_COST_NONE) / PAGE * missed * m->page_miss / walks;
}

/* Adds the cycles of transfers: a bandwidth is of the whole way into the core, so that each byte counts once, where it
 * comes from. What instructions prefetch is on its way while they run. */
static void add_transfers(tg_cost_loops *l, const tg_machine *m) {
  for (uint32_t i = 0; i < l->access.n; i++) {
    tg_cost_access_info *a = &l->access.data[i];
    double l2 = fmax(0, a->missed[0] - a->missed[1]), l3 = fmax(0, a->missed[1] - a->missed[2]), n = a->threads,
           all = fmax(m->memory_bandwidth, m->memory_bandwidth_all),
           far = l3 / m->l3_bandwidth + a->missed[2] * n / fmin(m->memory_bandwidth * n, all);
    a->busy += l2 / m->l2_bandwidth;
    *(a->asked ? &a->ahead : &a->busy) += far;
    a->busy /= n, a->ahead /= n, a->starts /= n;
  }
}

double tg_cost_memory(tg_cost_loops *l, const tg_target *t, const tg_uop *linear, int threads, tg_cost *c) {
  const tg_machine *m = &t->machine;
  if (!l->loop.n || l->loop.n > 256) return 0;
  if (!l->by_id) l->by_id = tg_cost_tables_of(l->j);   /* loops that were not walked for the core's part */
  find_strides(l, linear);
  join_alike(l);
  find_twins(l);
  find_asked(l);
  find_threads(l, fmax(1, threads));
  double waits = 0, busy = 0;
  level v = level_of(l, LINE, t);
  c->l2_bytes = misses(l, 0, &v, (double)(t->l1 ? t->l1 : 32 << 10), m->l1_ways, m->l2_latency, m->l2_bandwidth,
                       &waits);
  c->l3_bytes = misses(l, 1, &v, (double)(t->l2 ? t->l2 : 1 << 20), m->l2_ways, m->l3_latency, m->l3_bandwidth,
                       &waits);
  c->memory_bytes = misses(l, 2, &v, tg_target_kept(t), 0, m->memory_latency, m->memory_bandwidth, &waits);
  c->waits = waits;
  add_walks(l, t);
  add_transfers(l, m);
  for (uint32_t i = 0; i < l->access.n; i++) {
    busy += l->access.data[i].busy + l->access.data[i].ahead;
    c->starts += l->access.data[i].starts;
  }
  return busy;
}
