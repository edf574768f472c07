/* SPDX-License-Identifier: MIT
 * The core's part of the cost model, node by node: which units a node keeps busy, for how many cycles. */
#include <math.h>
#include "model/walk.h"

double tg_cost_pieces(const tg_cost_walk *w, const tg_uop *u) {
  double bytes = (double)u->lanes * fmax(1, tg_type_bytes(u->type));
  return fmax(1, ceil(bytes / w->target->vector_bytes));
}

/* of a value, by the widest vectors that the target's code has */
static double by_width(const tg_cost_walk *w, const double rate[TG_MACHINE_WIDTHS], const tg_uop *u) {
  double bytes = (double)u->lanes * fmax(1, tg_type_bytes(u->type)), pieces = tg_cost_pieces(w, u);
  return pieces * tg_machine_cycles(rate, bytes / pieces);
}

bool tg_cost_in_register(const tg_cost_walk *w, const tg_uop *access) {
  const tg_buffer *b = tg_buffer_info(w->j, access->src[0]);
  return b->space == TG_SPACE_REG && b->place == TG_PLACE_SSA;
}

bool tg_cost_is_lane(const tg_cost_walk *w, const tg_uop *u) {
  return w->target->lane_bytes && u->op == TG_OP_SHUFFLE && u->lanes == 1 && u->src[2]->op == TG_OP_CONST;
}

bool tg_cost_is_fixed(tg_cost_walk *w, const tg_uop *u) {
  uint8_t *f = &w->by_id->fixed[u->id];
  if (*f) return *f == 1;
  bool fixed = u->op == TG_OP_CONST || u->op == TG_OP_IOTA || u->op == TG_OP_CAST;
  if (u->op >= TG_OP_ADD && u->op <= TG_OP_WHERE) fixed = true;
  for (uint32_t k = 0; k < u->n && fixed; k++) fixed = tg_cost_is_fixed(w, u->src[k]);
  *f = fixed ? 1 : 2;
  return fixed;
}

/* ---- accesses ---- */

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
static double divisor_of(tg_cost_walk *w, const tg_uop *u) {
  const double most = 1 << 20;
  double *d = &w->by_id->divisor[u->id];
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

/* What a vector's accesses take longer, by the part of them that crosses a line: each such is two, of half as many
 * bytes; by rates of the widest kind. Buffers are aligned to lines. */
static double crossing(tg_cost_walk *w, const tg_uop *access, const double rate[TG_MACHINE_WIDTHS], double bytes) {
  double at = divisor_of(w, access->src[1]) * tg_type_bytes(tg_define_of(access->src[0])->type);
  double wide = w->target->vector_bytes, part = fmax(0, fmin(bytes, wide) - at) / TG_CACHE_LINE;
  return part * fmax(0, 2 * tg_machine_cycles(rate, wide / 2) - tg_machine_cycles(rate, wide));
}

/* A gate that is the same for all lanes chooses between two addresses, of which none has an offset folded in. Those of
 * a list are chosen before it begins to load: what no general register holds waits in memory. */
static void count_choice(tg_cost_walk *w, tg_cost_ports *p) {
  const tg_machine *m = w->machine;
  p->instructions += 3;
  if (++p->chosen <= TG_COST_ADDRESSES) return;
  p->instructions += 2, p->stores += 1 / m->store[0], p->loads += 1 / m->load[0];
}

/* Is there such a gate, alone or together with lanes that are always the same? */
static bool chosen_by(const tg_uop *gate) {
  if (!gate || gate->lanes == 1) return gate;
  return gate->op == TG_OP_AND && (gate->src[0]->lanes == 1 || gate->src[1]->lanes == 1);
}

/* The part of its executions in which a mask is true in all lanes, of steps of a vector along what it compares: lanes
 * that stand side by side with a bound. If only the bound moves, it moves by such steps. Of another mask nothing is
 * known: 0. */
static double open_part(tg_cost_walk *w, const tg_uop *mask) {
  if (mask->lanes == 1) return 1;
  if (mask->op == TG_OP_AND) return fmin(open_part(w, mask->src[0]), open_part(w, mask->src[1]));
  if (mask->op != TG_OP_LT || mask->src[1]->lanes > 1) return 0;
  tg_bounds of = tg_bounds_of(w->j, mask->src[0]), below = tg_bounds_of(w->j, mask->src[1]);
  double lanes = mask->lanes, from = (double)of.lo, most = (double)below.lo, moves = (double)of.hi + 1 - from;
  if (tg_cost_is_fixed(w, mask->src[0])) moves += (double)(below.hi - below.lo), most = (double)below.hi;
  return fmin(1, fmax(0, floor((most - from) / lanes) / ceil(moves / lanes)));
}

/* A number goes to all lanes of a vector by an instruction of its own where vectors are wider than those of which
 * multiply-adds take a lane. */
static void count_copy(tg_cost_walk *w, tg_cost_ports *p) {
  uint32_t bytes = w->target->vector_bytes;
  if (bytes <= w->target->lane_bytes) return;
  p->shuffles += tg_machine_cycles(w->machine->shuffle, bytes), p->instructions++;
}

/* A load by a mask: as one of the widest kind; of elements that the target has none for, lane by lane, where the mask
 * is not true in all lanes (jit/emit_memory.c): a question and a load that is put into the vector for each. */
static double masked_load(tg_cost_walk *w, const tg_uop *u, double load, double n, tg_cost_ports *p) {
  const tg_machine *m = w->machine;
  if (tg_target_masks(w->target, (uint32_t)tg_type_bytes(u->type)))
    return fmax(load, n * tg_machine_cycles(m->load, w->target->vector_bytes));
  double open = open_part(w, tg_gate(u)), lanes = (1 - open) * u->lanes;
  p->instructions += 2 + 3 * lanes;
  return open * load + lanes * fmax(m->insert_lane, 1 / m->load[0]);
}

static void count_load(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *u) {
  const tg_machine *m = w->machine;
  double n = tg_cost_pieces(w, u), bytes = (double)u->lanes * tg_type_bytes(u->type), load = by_width(w, m->load, u);
  double steps = u->src[1]->lanes > 1 ? (double)steps_of(u) : 0;
  const tg_uop *gate = tg_gate(u);
  if (chosen_by(gate)) count_choice(w, p);
  if (contiguous(u)) {
    bool masked = gate && gate->lanes > 1;
    p->loads += (masked ? masked_load(w, u, load, n, p) : load) + n * crossing(w, u, m->load, bytes);
    p->instructions += masked ? 2 * n : n;
    if (u->lanes == 1 && tg_is_float(u->type) && w->target->lane_bytes) count_copy(w, p);
  } else if (steps > 0) {
    p->loads += load * steps;
    p->shuffles += by_width(w, m->shuffle, u) * (steps - 1);
    p->instructions += n * (2 * steps - 1);
  } else {
    double lane = fmin(m->gather_lane, m->insert_lane);
    p->loads += fmax(lane, 1 / m->load[0]) * u->lanes;
    p->shuffles += lane * u->lanes;
    p->instructions += 2.0 * u->lanes;
  }
}

/* Code may ask whether the mask is true in all lanes (jit/emit_memory.c): a test and a branch more. */
static double masked_store(tg_cost_walk *w, const tg_uop *mask, double store, double n, tg_cost_ports *p) {
  const tg_machine *m = w->machine;
  double masked = fmax(store, n * m->masked_store), open = tg_machine_asks_masks(m) ? open_part(w, mask) : 0;
  if (tg_machine_asks_masks(m)) p->instructions += 2;
  return open * store + (1 - open) * masked;
}

static void count_store(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *u) {
  const tg_machine *m = w->machine;
  const tg_uop *v = tg_stored(u), *gate = tg_gate(u);
  double n = tg_cost_pieces(w, v), bytes = (double)v->lanes * tg_type_bytes(v->type), store = by_width(w, m->store, v);
  double steps = u->src[1]->lanes > 1 ? (double)steps_of(u) : 0;
  if (contiguous(u)) {
    bool masked = gate && gate->lanes > 1;
    p->stores += (masked ? masked_store(w, gate, store, n, p) : store) + n * crossing(w, u, m->store, bytes);
    p->instructions += masked ? 2 * n : n;
  } else if (steps > 0) {
    p->stores += steps * fmax(store, n * m->masked_store);
    p->shuffles += by_width(w, m->shuffle, v) * steps;
    p->instructions += 2 * n * steps;
  } else {
    p->stores += v->lanes * (1 / m->store[0] + m->insert_lane);
    p->shuffles += v->lanes / m->shuffle[0];
    p->instructions += 2.0 * v->lanes;
  }
}

/* ---- arithmetic ---- */

/* Folds of one kind that stand side by side share their additions (docs/ir.md): n of them of L lanes take about
 * n - 1 + log2(L / n) additions, and two shuffles for each. */
static void count_fold(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *const *list, uint32_t n, uint32_t i) {
  double lanes = fmax(2, list[i]->src[0]->lanes), together = 1;
  for (uint32_t k = i + 1; k < n && k < i + 64; k++)
    together += list[k]->op == TG_OP_FOLD && list[k]->src[0]->lanes == list[i]->src[0]->lanes;
  for (uint32_t k = i; k-- > 0 && i - k < 64;)
    together += list[k]->op == TG_OP_FOLD && list[k]->src[0]->lanes == list[i]->src[0]->lanes;
  double group = fmin(together, lanes), adds = (group - 1 + log2(lanes / group)) / group + 1 / group;
  double pieces = tg_cost_pieces(w, list[i]->src[0]);
  p->math += (adds + pieces - 1) * tg_machine_cycles(w->machine->add, w->target->vector_bytes);
  p->shuffles += 2 * adds * tg_machine_cycles(w->machine->shuffle, w->target->vector_bytes);
  p->instructions += 3 * adds + pieces - 1;
}

static bool is_multiply(tg_op op) { return op == TG_OP_FMA || op == TG_OP_MUL; }

/* A choice among lanes by a constant mask whose arms were shuffled is one instruction with the shuffle. */
static bool joins_shuffle(tg_cost_walk *w, const tg_uop *u) {
  return u->op == TG_OP_WHERE && tg_cost_is_fixed(w, u->src[0]) &&
         (u->src[1]->op == TG_OP_SHUFFLE || u->src[2]->op == TG_OP_SHUFFLE);
}

typedef struct { double math, shuffles, instructions; } extremum;

/* What a maximum or minimum of floats, which knows NaN and the sign of 0, takes of vectors (jit/emit_extremum.c). The
 * target's own knows the sign: it, a comparison for NaN, whose mask the unit of shuffles makes, and a choice. Else both
 * ways round and their bits together; of a maximum, also where an operand is NaN; of maxima, the greatest, its sign and
 * half of a comparison for each further operand. Against a constant it is one. */
static extremum extremum_of(const tg_cost_walk *w, const tg_uop *u) {
  if (u->src[0]->op == TG_OP_CONST || u->src[1]->op == TG_OP_CONST || tg_target_has_extremum(w->target))
    return (extremum){1, 0, 1};
  if (tg_target_extremum(w->target, (uint32_t)tg_type_bits(u->type), u->lanes)) return (extremum){1, 1, 3};
  if (u->op == TG_OP_MIN) return (extremum){2, 0, 3};
  uint32_t further = (u->src[0]->op != TG_OP_MAX) + (u->src[1]->op != TG_OP_MAX);
  return further == 2 ? (extremum){3, 0, 5} : (extremum){1 + further / 2.0, 0, 2 + further};
}

/* Each waits for the one before: both ways round at once, then their bits; the choice behind a comparison. */
static double extremum_latency(const tg_cost_walk *w, const tg_uop *u) {
  extremum x = extremum_of(w, u);
  return w->machine->add_latency * (x.math + x.shuffles > 1 ? 2 : 1);
}

static bool is_extremum(const tg_uop *u) { return tg_is_float(u->type) && (u->op == TG_OP_MAX || u->op == TG_OP_MIN); }

/* A conversion between sizes, of vectors of the wider. On processors the bits of bf16 are those of an f32 shifted,
 * which the units of shuffles do, and are rounded by instructions for integers: two shifts, two additions, a bit, NaN's
 * choice of three, and a shuffle that joins two halves (jit/emit_convert.c). */
static void count_conversion(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *u) {
  const tg_uop *from = u->src[0], *wide = tg_type_bytes(from->type) > tg_type_bytes(u->type) ? from : u;
  bool to_brain = u->type == TG_BF16, brain = to_brain || from->type == TG_BF16;
  double n = tg_cost_pieces(w, wide), math = to_brain ? 6 : 0, moves = to_brain ? 3 : brain;
  p->shuffles += n / w->machine->convert + moves * by_width(w, w->machine->shuffle, wide);
  p->math += math * by_width(w, w->machine->add, wide);
  p->instructions += n * (1 + math + moves);
}

static void count_math(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *u) {
  const double scalar = 0.3;   /* of scalar integers: most are folded into addresses */
  const tg_machine *m = w->machine;
  double n = tg_cost_pieces(w, u);
  bool is_float = tg_is_float(u->type);
  if (u->lanes == 1 && !is_float) {
    /* a choice is a comparison and a conditional move, which no address folds */
    bool chooses = u->op == TG_OP_MIN || u->op == TG_OP_MAX || u->op == TG_OP_WHERE;
    p->instructions += chooses ? 2 : scalar;
    return;
  }
  if (u->lanes > 1 && u->type == TG_I64) return;   /* offsets, folded into addresses */
  if (joins_shuffle(w, u)) return;
  if (u->op == TG_OP_CAST && tg_type_bytes(u->type) != tg_type_bytes(u->src[0]->type)) {
    count_conversion(w, p, u);
    return;
  }
  extremum x = is_extremum(u) ? extremum_of(w, u) : (extremum){1, 0, 1};
  p->math += x.math * by_width(w, is_float && is_multiply(u->op) ? m->fma : m->add, u);
  p->shuffles += x.shuffles * by_width(w, m->shuffle, u);
  p->instructions += x.instructions * n;
}

void tg_cost_count(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *const *list, uint32_t count, uint32_t i) {
  const double scalar_division = 10;
  const tg_uop *u = list[i];
  const tg_machine *m = w->machine;
  double n = tg_cost_pieces(w, u), wide = w->target->vector_bytes;
  if (tg_cost_is_fixed(w, u)) return;
  switch (u->op) {
  case TG_OP_LOAD:
    if (!tg_cost_in_register(w, u)) count_load(w, p, u);
    return;
  case TG_OP_STORE:
    if (!tg_cost_in_register(w, u)) count_store(w, p, u);
    return;
  case TG_OP_FDIV: case TG_OP_SQRT: {
    /* a narrower vector takes as much less as it has fewer 16 bytes */
    double part = u->lanes == 1 ? 16 / wide : fmin(1, (double)u->lanes * tg_type_bytes(u->type) / wide);
    p->math += n * part * m->divide;
    p->instructions += n;
    return;
  }
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD:
    p->alone += scalar_division * (u->lanes > 1 ? u->lanes : 1);
    return;
  case TG_OP_SHUFFLE:
    if (tg_cost_is_lane(w, u)) return;
    p->shuffles += by_width(w, m->shuffle, u);
    p->instructions += n;
    return;
  case TG_OP_FOLD: count_fold(w, p, list, count, i); return;
  case TG_OP_PREFETCH:
    p->loads += 1 / m->load[0];
    p->instructions += 1;
    return;
  case TG_OP_CONST: case TG_OP_DEFINE: case TG_OP_AFTER: case TG_OP_RANGE: case TG_OP_PARAM: case TG_OP_IOTA: return;
  default: count_math(w, p, u);
  }
}

/* A shuffle between halves of a vector takes about as long as an addition of floats. */
double tg_cost_latency(const tg_cost_walk *w, const tg_uop *u) {
  const tg_machine *m = w->machine;
  switch (u->op) {
  case TG_OP_FMA: case TG_OP_MUL: return m->fma_latency;
  case TG_OP_MAX: case TG_OP_MIN: return is_extremum(u) ? extremum_latency(w, u) : 1;
  case TG_OP_ADD: case TG_OP_SUB: return tg_is_float(u->type) ? m->add_latency : 1;
  case TG_OP_FDIV: case TG_OP_SQRT: return m->fma_latency + m->divide;
  case TG_OP_SHUFFLE: return tg_cost_is_lane(w, u) ? 0 : m->add_latency;
  case TG_OP_FOLD: return 2 * m->add_latency * log2(fmax(2, u->src[0]->lanes));
  case TG_OP_MATRIX: return m->fma_latency;
  case TG_OP_CONST: case TG_OP_DEFINE: case TG_OP_AFTER: case TG_OP_RANGE: case TG_OP_PARAM: return 0;
  default: return 1;
  }
}
