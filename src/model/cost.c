/* SPDX-License-Identifier: MIT
 * The cost model, in two parts. The core: for each loop, the busiest of the units that the machine has (ports.c), or
 * the longest loop-carried dependence if that is longer; plus what waits for nothing else, and spilled registers
 * (registers.c). Memory (cost_memory.c): the data that stays in each cache between iterations, and so the bytes that
 * miss it. What differs between machines are columns of their rows (target/machines.def). */
#include <math.h>
#include <string.h>
#include "model/walk.h"
#include "model/work.h"

/* How well units of the core overlap, the core with memory, and both with what no prefetcher brings in time, on which
 * the core runs dry now and then: exponents of a norm, 1: not at all, large: wholly. */
enum { OVERLAP = 3, BESIDE = 4, BEHIND = 2 };
static const double end_of_loop = 0.5;   /* how often its end is predicted wrongly */

/* Cycles of the longest dependence chain carried from one iteration to the next in registers. */
static double chain_of(tg_cost_walk *w, const tg_uop *const *list, uint32_t n) {
  typedef struct { uint64_t key; double now; bool carried; } element;
  TG_VEC(element) e = {0};
  double longest = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (u->op == TG_OP_END) continue;
    double d = 0;
    for (uint32_t k = 0; k < u->n; k++) d = fmax(d, w->by_id->depth[u->src[k]->id]);
    bool reg = (u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && tg_cost_in_register(w, u);
    if (!reg) {
      w->by_id->depth[u->id] = d > 0 ? d + tg_cost_latency(w, u) : 0;
      continue;
    }
    uint64_t key =
        (uint64_t)tg_buffer_ordinal(u->src[0]) << 32 | (uint64_t)(u->src[1]->op == TG_OP_CONST ? u->src[1]->arg : 0);
    uint32_t at = 0;
    while (at < e.n && e.data[at].key != key) at++;
    if (at == e.n) tg_push(&w->j->env, &e, ((element){key, 1e-6, u->op == TG_OP_LOAD}));
    if (u->op == TG_OP_LOAD) w->by_id->depth[u->id] = e.data[at].now;
    else e.data[at].now = fmax(1e-6, w->by_id->depth[tg_stored(u)->id]);
    if (e.data[at].carried) longest = fmax(longest, e.data[at].now);
  }
  for (uint32_t i = 0; i < n; i++) w->by_id->depth[list[i]->id] = 0;
  return longest;
}

static double cycles_of(tg_cost_walk *w, const tg_uop *const *list, uint32_t n, uint32_t loop);

/* Cycles of things that overlap: the longest, and somewhat more if others are nearly as long, since they never overlap
 * perfectly. */
static double together(const double *cycles, uint32_t n, double power) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += pow(cycles[i], power);
  return pow(sum, 1 / power);
}

static double known_trips(tg_cost_walk *w, const tg_uop *extent) {
  tg_bounds b = tg_bounds_of(w->j, extent);
  if (b.hi <= 0) return 0;
  double hi = b.hi > ((tg_i128)1 << 50) ? 0x1p50 : (double)b.hi;
  return b.lo == b.hi || b.lo < 0 ? hi : (hi + (double)b.lo) / 2;
}

/* Loops around one whose extent depends on them, the innermost first, and the values at which it is looked at. */
typedef struct { const tg_uop *range[TG_COST_DEPTH], *value[TG_COST_DEPTH]; double trips[TG_COST_DEPTH]; } dependence;

static double at_values(tg_cost_walk *w, const tg_uop *extent, const dependence *d, uint32_t from, uint32_t n) {
  return known_trips(w, tg_substitute(w->j, extent, n - from, d->range + from, d->value + from));
}

/* Iterations of a loop in all iterations of the loops 0 .. k around it, of which some are looked at, spread evenly;
 * those around them (k .. n) have values. of: adds how many iterations these loops have: the extent of a loop may
 * depend on those around it, too. */
static double trips_within(tg_cost_walk *w, const tg_uop *extent, dependence *d, uint32_t k, uint32_t n,
                           uint32_t samples, double *of) {
  if (!k) return *of += 1, at_values(w, extent, d, 0, n);
  const tg_uop *range = d->range[--k];
  tg_bounds b = tg_bounds_of(w->j, tg_extent(range));
  double trips = b.lo == b.hi ? d->trips[k] : at_values(w, tg_extent(range), d, k + 1, n), sum = 0, inner = 0;
  uint32_t some = (uint32_t)fmax(1, fmin(ceil(pow(samples, 1.0 / (k + 1))), trips));
  for (uint32_t i = 0; i < some && trips > 0; i++) {
    d->value[k] = tg_const_int(w->j, range->type, (int64_t)(trips * (i + 0.5) / some));
    sum += trips_within(w, extent, d, k, n, samples / some, &inner);
  }
  return *of += inner * trips / some, sum * trips / some;
}

/* Iterations of a loop. If its extent depends on loops around it (the remainder of a blocked loop, a triangle), the
 * mean over their iterations. */
static double trips_of(tg_cost_walk *w, const tg_uop *range, uint32_t outer) {
  enum { SAMPLES = 16 };
  const tg_uop *extent = tg_extent(range);
  dependence d;
  uint32_t n = 0;
  tg_bounds b = tg_bounds_of(w->j, extent);
  for (; b.lo != b.hi && outer != TG_COST_NONE && n < TG_COST_DEPTH; outer = w->loops->loop.data[outer].outer) {
    const tg_cost_loop_info *o = &w->loops->loop.data[outer];
    if (tg_uses(w->j, extent, o->range)) d.range[n] = o->range, d.trips[n++] = o->trips;
  }
  if (!n) return known_trips(w, extent);
  double of = 0, sum = trips_within(w, extent, &d, n, n, SAMPLES, &of);
  return of > 0 ? sum / of : 0;
}

static double loop_cycles(tg_cost_walk *w, const tg_uop *end, uint32_t outer) {
  double trips = trips_of(w, end->src[0], outer);
  bool thread = tg_range_kind(end->src[0]) == TG_THREAD;
  uint32_t me = tg_cost_loop(w->loops, end->src[0], outer, trips, thread);
  double body = cycles_of(w, end->src + 1, end->n - 1, me);
  /* an incomplete last round takes as long as a full one, and what comes behind waits for all threads */
  if (thread) trips = ceil(trips / w->threads) * 1.0 + 0.02 * w->threads;
  double waits = thread ? w->machine->barrier * (w->threads - 1) * w->machine->clock * 1e-3 : 0;
  w->loops->loop.data[me].rounds = trips;
  return trips * body + end_of_loop * w->machine->mispredict + waits;
}

static tg_cost_line line_of(const tg_cost_walk *w, uint32_t loop) {
  if (loop == TG_COST_NONE) return (tg_cost_line){.trips = 1};
  const tg_cost_loop_info *l = &w->loops->loop.data[loop];
  return (tg_cost_line){.range = l->range, .depth = l->depth + 1, .trips = l->trips};
}

/* Cycles of one execution of a list of statements. */
static double cycles_of(tg_cost_walk *w, const tg_uop *const *list, uint32_t n, uint32_t loop) {
  tg_cost_ports p = {0};
  const tg_machine *m = w->machine;
  double inner = 0;
  bool innermost = true;
  uint32_t line = w->lines ? w->lines->n : 0;
  if (w->lines) tg_push(&w->j->env, w->lines, line_of(w, loop));
  for (uint32_t i = 0; i < n; i++) {
    if (list[i]->op == TG_OP_END) {
      inner += loop_cycles(w, list[i], loop);
      innermost = false;
      continue;
    }
    tg_cost_count(w, &p, list, n, i);
    if (list[i]->op == TG_OP_PREFETCH) tg_cost_prefetch(w->loops, list[i], loop);
    bool memory = list[i]->op == TG_OP_LOAD || list[i]->op == TG_OP_STORE;
    if (memory && !tg_cost_in_register(w, list[i])) tg_cost_access(w->loops, list[i], loop);
  }
  w->code += p.instructions;
  double chain = loop != TG_COST_NONE ? chain_of(w, list, n) : 0;
  tg_cost_spills spilled = {0};
  if (innermost) {
    spilled = tg_cost_spilled(w, list, n);
    if (spilled.forwarded && chain > 0) chain += m->forward;
    double vector = tg_machine_cycles(m->store, w->target->vector_bytes);   /* what is stored, and loaded behind it */
    p.stores += spilled.stores * vector;
    p.loads += spilled.loads * vector;
    p.instructions += spilled.stores + spilled.loads + 2;   /* and the loop's increment and branch */
    w->chain = fmax(w->chain, chain);
  }
  double busy = together((double[]){p.math + p.shuffles / 2, p.loads, p.stores, p.shuffles, p.instructions / m->issue},
                         5, OVERLAP);
  double own = fmax(busy, chain) + p.alone;
  if (loop != TG_COST_NONE) w->loops->loop.data[loop].own = own;
  if (w->lines) {
    tg_cost_line *l = &w->lines->data[line];
    l->cycles = own, l->chain = chain, l->spilled = spilled.loads, l->ports = p;
  }
  return own + inner;
}

#define WIDER(t, from, type, old, cap) (t)->from = wider(e, (t)->from, (old) * sizeof(type), (cap) * sizeof(type))

static void *wider(tg_env *e, const void *old, size_t had, size_t bytes) {
  char *now = tg_new(e, char, bytes);
  if (had) memcpy(now, old, had);
  return now;
}

tg_cost_tables *tg_cost_tables_of(tg_job *j) {
  if (!j->costs) j->costs = tg_new(&j->env, tg_cost_tables, 1);
  tg_cost_tables *t = j->costs;
  tg_env *e = &j->env;
  if (t->cap < j->uops.n) {
    uint32_t old = t->cap, cap = j->uops.n * 2;
    WIDER(t, depth, double, old, cap), WIDER(t, place, tg_cost_place, old, cap), WIDER(t, stride, double, old, cap);
    WIDER(t, needed, bool, old, cap), WIDER(t, divisor, double, old, cap), WIDER(t, fixed, uint8_t, old, cap);
    t->cap = cap;
  }
  if (t->dirty) {
    memset(t->depth, 0, t->cap * sizeof *t->depth);
    memset(t->place, 0, t->cap * sizeof *t->place);
    memset(t->needed, 0, t->cap * sizeof *t->needed);
    t->dirty = false;
  }
  return t;
}

/* ---- phases ---- */

/* The core overlaps with memory as far as it sees ahead: copies of a panel wait for their lines, and what multiplies it
 * comes after. So loops that follow one another are phases, each with its own core and memory; those that are over
 * before memory could answer are of the phase beside them that takes longest, and so is what stands between loops. */
typedef struct { double core, busy, starts; } phase;
typedef struct { double runs, core, all; uint32_t main, phase; bool within; } looped;

/* Cycles of each loop, its own and with the loops inside; `main`: of these the one that takes longest. */
static uint32_t sum_loops(const tg_cost_walk *w, looped *by) {
  const tg_cost_loops *l = w->loops;
  uint32_t main = TG_COST_NONE;
  for (uint32_t i = 0; i < l->loop.n; i++) {
    const tg_cost_loop_info *o = &l->loop.data[i];
    double enters = o->outer == TG_COST_NONE ? 1 : by[o->outer].runs;
    by[i] = (looped){.runs = enters * o->rounds, .main = TG_COST_NONE};
    by[i].core = by[i].all = by[i].runs * o->own + enters * end_of_loop * w->machine->mispredict;
  }
  for (uint32_t i = l->loop.n; i-- > 0;) {
    uint32_t outer = l->loop.data[i].outer, *of = outer == TG_COST_NONE ? &main : &by[outer].main;
    if (*of == TG_COST_NONE || by[i].all > by[*of].all) *of = i;
    if (outer != TG_COST_NONE) by[outer].all += by[i].all;
  }
  return main;
}

static uint32_t phase_of(const tg_cost_walk *w, looped *by, uint32_t main) {
  const tg_cost_loops *l = w->loops;
  uint32_t n = 1;
  for (uint32_t i = 0; i < l->loop.n; i++) {
    uint32_t outer = l->loop.data[i].outer;
    bool top = outer == TG_COST_NONE;
    double enters = top ? 1 : by[outer].runs;
    by[i].within = (!top && by[outer].within) || by[i].all <= enters * w->machine->memory_latency;
    by[i].phase = by[i].within || i == (top ? main : by[outer].main) ? top ? 0 : by[outer].phase : n++;
  }
  return n;
}

/* Cycles of core and memory together. core: of the core; larger: by how much its code's size makes it slower. */
static double of_phases(tg_cost_walk *w, double core, double larger) {
  const tg_cost_loops *l = w->loops;
  if (!l->loop.n) return core * larger;
  looped *by = tg_new(&w->j->env, looped, l->loop.n);
  phase *p = tg_new(&w->j->env, phase, l->loop.n + 1);
  uint32_t n = phase_of(w, by, sum_loops(w, by));
  double sum = 0;
  for (uint32_t i = 0; i < l->loop.n; i++) p[by[i].phase].core += by[i].core, core -= by[i].core;
  p[0].core = fmax(0, p[0].core + core);
  for (uint32_t i = 0; i < l->access.n; i++) {
    const tg_cost_access_info *a = &l->access.data[i];
    uint32_t at = a->loop == TG_COST_NONE ? 0 : by[a->loop].phase,
             asked = a->asker == TG_COST_NONE ? 0 : by[a->asker].phase;
    p[at].busy += a->busy, p[at].starts += a->starts, p[a->asked ? asked : at].busy += a->ahead;
  }
  for (uint32_t i = 0; i < n; i++) {
    double beside = together((double[]){p[i].core * larger, p[i].busy}, 2, BESIDE);
    sum += together((double[]){beside, p[i].starts}, 2, BEHIND);
  }
  return sum;
}

tg_cost tg_cost_walked(tg_cost_walk *w, const tg_uop *linear, const int64_t *params) {
  const double kernels_of_code = 24 << 10;   /* instructions that fit the instruction caches */
  tg_job *j = w->j;
  linear = tg_with_params(j, linear, params);
  w->machine = &w->target->machine;
  w->loops->j = j;
  w->by_id = w->loops->by_id = tg_cost_tables_of(j);
  w->by_id->dirty = true;
  if (w->threads < 1) w->threads = 1;
  double core = cycles_of(w, linear->src, linear->n, TG_COST_NONE);
  tg_cost c = {.chain = w->chain, .spills = w->spills, .code = w->code};
  double memory = tg_cost_memory(w->loops, w->target, linear, w->threads, &c);
  w->by_id->dirty = false;
  double larger = w->code > kernels_of_code ? 1 + 0.2 * log2(w->code / kernels_of_code) : 1;
  c.core = core * larger, c.memory = memory;
  c.cycles = c.waits + of_phases(w, core, larger);
  c.seconds = c.cycles / (w->machine->clock * 1e6);
  return c;
}

tg_cost tg_cost_of(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params, int threads) {
  tg_cost_loops loops = {0};
  tg_cost_walk w = {.j = j, .target = target, .loops = &loops, .threads = threads};
  return tg_cost_walked(&w, linear, params);
}
