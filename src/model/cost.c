/* SPDX-License-Identifier: MIT
 * The cost model, in two parts. The core: for each loop, the busiest of multipliers, load ports, store ports and issue,
 * or the longest loop-carried dependence if that is longer; plus the stores and loads of spilled registers. Memory
 * (cost_memory.c): the data that stays in each cache between iterations, and so the bytes that miss it. The model only
 * orders candidates; timing decides. */
#include <math.h>
#include "model/cost.h"
#include "model/cost_memory.h"
#include "model/work.h"

typedef struct { double flops, loads, stores, shuffles, slow, ops; } ports;

typedef struct {
  tg_job *j;
  const tg_target *target;
  tg_cost_loops *loops;
  double *depth;               /* by id: latency from the start of the iteration */
  double *divisor;             /* by id: largest known power of two that divides the value; 0: not computed yet */
  double spills, code, chain;
  int threads;
} walk;

static double pieces(const walk *w, const tg_uop *u) {   /* registers that a value takes */
  double bytes = (double)u->lanes * fmax(1, tg_type_bytes(u->type));
  return fmax(1, ceil(bytes / w->target->vector_bytes));
}

static bool in_register(const walk *w, const tg_uop *access) {
  const tg_buffer *b = tg_buffer_info(w->j, access->src[0]);
  return b->space == TG_SPACE_REG && b->place == TG_PLACE_SSA;
}

/* True: a scalar, or lanes that are adjacent in memory. False: a gather or scatter, or strided lanes. */
static bool contiguous(const tg_uop *access) {
  const tg_uop *at = access->src[1];
  return at->lanes == 1 || at->op == TG_OP_IOTA ||
         (at->op == TG_OP_ADD && (at->src[0]->op == TG_OP_IOTA || at->src[1]->op == TG_OP_IOTA));
}

/* For lanes with a small constant stride (of elements): the stride, which is how many times as many vectors are loaded
 * or stored as for contiguous lanes. 0: another access, done lane by lane. */
static int64_t steps_of(const tg_uop *access) {
  const tg_uop *at = access->src[1], *by = at->op == TG_OP_ADD ? at->src[at->src[0]->lanes == 1] : at;
  int64_t step =
      by->op == TG_OP_MUL && by->src[0]->op == TG_OP_IOTA && by->src[1]->op == TG_OP_CONST ? by->src[1]->arg : 0;
  if (step < 0) step = -step;
  return step > 1 && step <= TG_MOST_STEP ? step : 0;
}

/* The largest power of two known to divide an index, ignoring its IOTA. Parameters have been replaced by constants. */
static double divisor_of(walk *w, const tg_uop *u) {
  const double most = 1 << 20;
  double *d = &w->divisor[u->id];
  if (*d > 0) return *d;
  switch (u->op) {
  case TG_OP_CONST: *d = u->arg ? (double)((uint64_t)u->arg & -(uint64_t)u->arg) : most; break;
  case TG_OP_IOTA: *d = most; break;
  case TG_OP_CAST: *d = divisor_of(w, u->src[0]); break;
  case TG_OP_MUL: *d = divisor_of(w, u->src[0]) * divisor_of(w, u->src[1]); break;
  case TG_OP_ADD: case TG_OP_SUB: *d = fmin(divisor_of(w, u->src[0]), divisor_of(w, u->src[1])); break;
  default: *d = 1;
  }
  return *d = fmin(most, fmax(1, *d));
}

/* Cost of a vector access, in accesses: one that crosses a line takes the port twice, and once more to merge the parts.
 * Buffers are aligned to lines. */
static double crossing(walk *w, const tg_uop *access, double bytes) {
  const double line = 64, again = 2;
  double at = divisor_of(w, access->src[1]) * tg_type_bytes(tg_define_of(access->src[0])->type);
  double size = fmin(bytes, w->target->vector_bytes);
  return 1 + again * fmax(0, size - at) / line;
}

static double latency(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_FMA:
  case TG_OP_ADD:
  case TG_OP_SUB:
  case TG_OP_MUL:
  case TG_OP_MAX:
  case TG_OP_MIN: return tg_is_float(u->type) ? 4 : u->op == TG_OP_MUL ? 4 : 1;
  case TG_OP_FDIV: case TG_OP_SQRT: return 14;
  case TG_OP_SHUFFLE: return 3;
  case TG_OP_FOLD: return 4 * log2(fmax(2, u->src[0]->lanes));
  case TG_OP_MATRIX: return 5;
  case TG_OP_CONST: case TG_OP_DEFINE: case TG_OP_AFTER: case TG_OP_RANGE: case TG_OP_PARAM: return 0;
  default: return 1;
  }
}

static void count(walk *w, ports *p, const tg_uop *u) {
  const double gather = 2;   /* cost of an element, in loads: it is also inserted into its lane */
  double n = pieces(w, u), steps = 0;
  switch (u->op) {
  case TG_OP_LOAD:
    if (in_register(w, u)) return;
    steps = u->src[1]->lanes > 1 ? (double)steps_of(u) : 0;
    p->loads += contiguous(u) ? n * crossing(w, u, (double)u->lanes * tg_type_bytes(u->type))
                : steps > 0   ? n * steps
                              : gather * u->lanes;
    p->shuffles += steps > 0 ? n * (steps - 1) : 0;
    break;
  case TG_OP_STORE:
    if (in_register(w, u)) return;
    n = pieces(w, tg_stored(u));
    steps = u->src[1]->lanes > 1 ? (double)steps_of(u) : 0;
    p->stores += contiguous(u) ? n * crossing(w, u, (double)tg_stored(u)->lanes * tg_type_bytes(tg_stored(u)->type))
                 : steps > 0   ? n * steps
                               : tg_stored(u)->lanes;
    p->shuffles += n * steps;
    break;
  case TG_OP_FDIV:
  case TG_OP_SQRT:
  case TG_OP_IDIV:
  case TG_OP_MOD:
  case TG_OP_CDIV:
  case TG_OP_CMOD: p->slow += 10 * n; break;
  case TG_OP_SHUFFLE: p->shuffles += n; break;
  case TG_OP_FOLD: p->shuffles += log2(fmax(2, u->src[0]->lanes)), p->flops += log2(fmax(2, u->src[0]->lanes)); break;
  case TG_OP_CONST: case TG_OP_DEFINE: case TG_OP_AFTER: case TG_OP_RANGE: case TG_OP_PARAM: case TG_OP_IOTA: return;
  default:
    if (u->lanes > 1 && u->type != TG_I64) p->flops += n;      /* i64 vectors are offsets, folded into addresses */
    else if (tg_is_float(u->type)) p->flops += 1;
    else if (u->lanes == 1) p->ops += 0.3;
    return;
  }
  p->ops += n;
}

/* Vector registers of a loop. through: live across iterations (elements of register tiles, and values computed before
 * the loop). between: the most that are live at once within an iteration. updates: stores to each element of a tile. */
typedef struct { double through, between, updates; } pressure;

/* Does a value need a vector register of its own? A load with one use becomes a memory operand of that use, and a value
 * only stored to a register tile is in the tile's register. */
static bool takes_register(walk *w, const tg_uop *u, const tg_uop *user, uint32_t uses) {
  if (u->op == TG_OP_CONST || u->op == TG_OP_IOTA || u->op == TG_OP_RANGE || u->op == TG_OP_DEFINE ||
      u->op == TG_OP_AFTER)
    return false;
  if (u->type == TG_VOID || u->type == TG_I64 || u->type == TG_INDEX || (u->lanes == 1 && !tg_is_float(u->type)))
    return false;
  if (u->op == TG_OP_LOAD) return !in_register(w, u) && (uses > 1 || u->lanes == 1);
  return uses > 1 || user->op != TG_OP_STORE || !in_register(w, user);
}

static pressure pressure_of(walk *w, const tg_uop *const *list, uint32_t n) {
  enum { OUTSIDE, INSIDE, LIVE, COUNTED };
  pressure r = {0};
  TG_VEC(uint64_t) seen = {0};
  const tg_uop **last = tg_new(&w->j->env, const tg_uop *, w->j->uops.n + 1);
  uint32_t *uses = tg_new(&w->j->env, uint32_t, w->j->uops.n + 1);
  uint8_t *state = tg_new(&w->j->env, uint8_t, w->j->uops.n + 1);
  double stores = 0, live = 0;
  for (uint32_t i = 0; i < n; i++) {
    state[list[i]->id] = INSIDE;
    for (uint32_t k = 0; k < list[i]->n; k++) last[list[i]->src[k]->id] = list[i], uses[list[i]->src[k]->id]++;
  }
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    for (uint32_t k = 0; k < u->n; k++) {
      const tg_uop *s = u->src[k];
      if (state[s->id] == OUTSIDE && takes_register(w, s, u, 2)) r.through += pieces(w, s), state[s->id] = COUNTED;
      if (state[s->id] == LIVE && last[s->id] == u) live -= pieces(w, s), state[s->id] = COUNTED;
    }
    if ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && in_register(w, u) && u->src[1]->op == TG_OP_CONST) {
      uint64_t key = (uint64_t)tg_buffer_ordinal(u->src[0]) << 32 | (uint64_t)u->src[1]->arg;
      bool known = false;
      for (uint32_t k = 0; k < seen.n && !known; k++) known = seen.data[k] == key;
      stores += u->op == TG_OP_STORE;
      if (known) continue;
      tg_push(&w->j->env, &seen, key);
      r.through += pieces(w, u->op == TG_OP_STORE ? tg_stored(u) : u);
    } else if (uses[u->id] && takes_register(w, u, last[u->id], uses[u->id])) {
      state[u->id] = LIVE;
      r.between = fmax(r.between, live += pieces(w, u));
    }
  }
  r.updates = seen.n ? fmax(1, stores / seen.n) : 1;
  return r;
}

/* Cycles of the longest dependence chain carried from one iteration to the next in registers. */
static double chain_of(walk *w, const tg_uop *const *list, uint32_t n) {
  typedef struct { uint64_t key; double now; bool carried; } element;
  TG_VEC(element) e = {0};
  double longest = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (u->op == TG_OP_END) continue;
    double d = 0;
    for (uint32_t k = 0; k < u->n; k++) d = fmax(d, w->depth[u->src[k]->id]);
    bool reg = (u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && in_register(w, u);
    if (!reg) {
      w->depth[u->id] = d > 0 ? d + latency(u) : 0;
      continue;
    }
    uint64_t key =
        (uint64_t)tg_buffer_ordinal(u->src[0]) << 32 | (uint64_t)(u->src[1]->op == TG_OP_CONST ? u->src[1]->arg : 0);
    uint32_t at = 0;
    while (at < e.n && e.data[at].key != key) at++;
    if (at == e.n) tg_push(&w->j->env, &e, ((element){key, 1e-6, u->op == TG_OP_LOAD}));
    if (u->op == TG_OP_LOAD) w->depth[u->id] = e.data[at].now;
    else e.data[at].now = fmax(1e-6, w->depth[tg_stored(u)->id]);
    if (e.data[at].carried) longest = fmax(longest, e.data[at].now);
  }
  for (uint32_t i = 0; i < n; i++) w->depth[list[i]->id] = 0;
  return longest;
}

/* An address without its constant offsets; NULL: it is nothing but constants. */
static const tg_uop *address_root(const tg_uop *u) {
  while (u->op == TG_OP_ADD) {
    const tg_uop *a = u->src[0], *b = u->src[1];
    if (b->op == TG_OP_CONST || b->op == TG_OP_IOTA) u = a;
    else if (a->op == TG_OP_CONST || a->op == TG_OP_IOTA) u = b;
    else break;
  }
  return u->op == TG_OP_CONST || u->op == TG_OP_IOTA ? NULL : u;
}

/* Cost, in stores, of vectors spilled for lack of address registers. If a buffer's stride is known only at launch, each
 * of its rows needs about half a general register (x86 addresses can add an index once or doubled). If these run out in
 * an unrolled loop, compilers load all copies of a row while its address is at hand, and spill the values. */
static double address_spills(walk *w, const tg_uop *const *list, uint32_t n) {
  enum { BUFFERS = 8, ROOM = 12, ROOTS = 256 };
  const tg_uop *root[ROOTS];
  uint32_t roots = 0, ordinal[BUFFERS], rows[BUFFERS], loads[BUFFERS], buffers = 0, most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if ((u->op != TG_OP_LOAD && u->op != TG_OP_STORE) || in_register(w, u)) continue;
    const tg_uop *r = address_root(u->src[1]);
    uint32_t k = 0, b = 0, which = tg_buffer_ordinal(u->src[0]);
    while (b < buffers && ordinal[b] != which) b++;
    if (b == buffers && b == BUFFERS) continue;
    if (b == buffers) ordinal[b] = which, rows[b] = loads[b] = 0, buffers++;
    loads[b]++;
    while (k < roots && root[k] != r) k++;
    if (k < roots || roots == ROOTS) continue;
    root[roots++] = r;
    rows[b]++;
  }
  double registers = 0;
  for (uint32_t b = 0; b < buffers; b++) {
    if (rows[b] > rows[most]) most = b;
    registers += ceil(rows[b] / 2.0);
  }
  if (!buffers || rows[most] < 2) return 0;
  registers += rows[most] / 2;
  double copies = (double)loads[most] / rows[most], shortage = fmin(1, fmax(0, (registers - ROOM) / 1.5 + 0.3));
  return copies < 2 ? 0 : shortage * rows[most] * (1 + copies / 2);
}

static double cycles_of(walk *w, const tg_uop *const *list, uint32_t n, uint32_t loop);

/* Cycles of things that overlap: the longest, and somewhat more if others are nearly as long, since they never overlap
 * perfectly. */
static double together(const double *cycles, uint32_t n, double power) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += pow(cycles[i], power);
  return pow(sum, 1 / power);
}

static double known_trips(walk *w, const tg_uop *extent) {
  tg_bounds b = tg_bounds_of(w->j, extent);
  if (b.hi <= 0) return 0;
  double hi = b.hi > ((tg_i128)1 << 50) ? 0x1p50 : (double)b.hi;
  return b.lo == b.hi || b.lo < 0 ? hi : (hi + (double)b.lo) / 2;
}

/* Iterations of a loop. If its extent depends on loops around it (the remainder of a blocked loop, a triangle), the
 * mean over their iterations. */
static double trips_of(walk *w, const tg_uop *range, uint32_t outer) {
  enum { SAMPLES = 16 };
  const tg_uop *extent = tg_extent(range), *from[TG_COST_DEPTH], *to[TG_COST_DEPTH];
  double trips[TG_COST_DEPTH], sum = 0, most = 1;
  uint32_t n = 0;
  tg_bounds b = tg_bounds_of(w->j, extent);
  for (; b.lo != b.hi && outer != TG_COST_NONE && n < TG_COST_DEPTH; outer = w->loops->loop.data[outer].outer) {
    const tg_cost_loop_info *o = &w->loops->loop.data[outer];
    if (!tg_uses(w->j, extent, o->range)) continue;
    from[n] = o->range;
    trips[n] = o->trips;
    most = fmax(most, o->trips);
    n++;
  }
  if (!n) return known_trips(w, extent);
  uint32_t samples = (uint32_t)fmin(SAMPLES, most);
  for (uint32_t i = 0; i < samples; i++) {
    for (uint32_t k = 0; k < n; k++)
      to[k] = tg_const_int(w->j, from[k]->type, (int64_t)(trips[k] * (i + 0.5) / samples));
    sum += known_trips(w, tg_substitute(w->j, extent, n, from, to));
  }
  return sum / samples;
}

static double loop_cycles(walk *w, const tg_uop *end, uint32_t outer) {
  double trips = trips_of(w, end->src[0], outer);
  bool thread = tg_range_kind(end->src[0]) == TG_THREAD;
  uint32_t me = tg_cost_loop(w->loops, end->src[0], outer, trips, thread);
  double body = cycles_of(w, end->src + 1, end->n - 1, me);
  /* an incomplete last round takes as long as a full one */
  if (thread) trips = ceil(trips / w->threads) * 1.0 + 0.02 * w->threads;
  return trips * body + 8;
}

/* Cycles of one execution of a list of statements. */
static double cycles_of(walk *w, const tg_uop *const *list, uint32_t n, uint32_t loop) {
  ports p = {0};
  double inner = 0;
  bool innermost = true;
  for (uint32_t i = 0; i < n; i++) {
    if (list[i]->op == TG_OP_END) {
      inner += loop_cycles(w, list[i], loop);
      innermost = false;
      continue;
    }
    count(w, &p, list[i]);
    bool memory = list[i]->op == TG_OP_LOAD || list[i]->op == TG_OP_STORE;
    if (memory && !in_register(w, list[i])) tg_cost_access(w->loops, list[i], loop);
  }
  w->code += p.flops + p.loads + p.stores + p.shuffles + p.ops;
  double chain = loop != TG_COST_NONE ? chain_of(w, list, n) : 0;
  if (innermost && loop != TG_COST_NONE) {
    /* cost of a spill, in stores: the stack is aligned to less than a vector, so a spill may cross a line, which also
     * delays the load that reads it back */
    const double spill = 2.5;
    pressure r = pressure_of(w, list, n);
    double over = r.through + r.between - w->target->vector_registers;
    if (over > 0) {
      w->spills += over;
      p.slow += over * r.updates * spill;
    }
    p.slow += address_spills(w, list, n);
    p.ops += 2;   /* the loop's increment and branch */
    w->chain = fmax(w->chain, chain);
  }
  double issue = (p.flops + p.loads + p.stores + p.shuffles + p.ops) / 5;
  double busy = together((double[]){p.flops / 2 + p.shuffles / 2, p.loads / 2, p.stores, p.shuffles, issue}, 5, 3);
  return fmax(busy, chain) + p.slow + inner;
}

tg_cost tg_cost_of(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params, int threads) {
  /* hertz: clock rate. kernels_of_code: instructions that fit the instruction caches */
  const double hertz = 2.5e9, kernels_of_code = 24 << 10;
  linear = tg_with_params(j, linear, params);
  tg_cost_loops loops = {.j = j};
  walk w = {.j = j,
            .target = target,
            .loops = &loops,
            .depth = tg_new(&j->env, double, j->uops.n + 1),
            .divisor = tg_new(&j->env, double, j->uops.n + 1),
            .threads = threads < 1 ? 1 : threads};
  double core = cycles_of(&w, linear->src, linear->n, TG_COST_NONE);
  tg_cost c = {.chain = w.chain, .spills = w.spills, .code = w.code};
  double memory = tg_cost_memory(&loops, target, linear, w.threads, &c);
  if (w.code > kernels_of_code) core *= 1 + 0.2 * log2(w.code / kernels_of_code);
  c.core = core, c.memory = memory;
  c.cycles = together((double[]){core, memory}, 2, 4);   /* prefetch overlaps memory with the core */
  c.seconds = c.cycles / hertz;
  return c;
}
