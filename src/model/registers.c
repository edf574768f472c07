/* SPDX-License-Identifier: MIT
 * The core's part of the cost model: vector registers, and what is spilled if there are too few. */
#include <math.h>
#include "model/walk.h"

/* Vector registers of a loop. tile: elements of register tiles. through: other values that live across iterations,
 * since they were computed before the loop. between: the most that are live at once within an iteration; computed:
 * of these without loads, which may be repeated. updates: stores to each element of a tile. */
typedef struct { double tile, through, between, computed, updates; } pressure;

/* Does a value need a vector register of its own? A load with one use becomes a memory operand of that use, and a value
 * only stored to a register tile is in the tile's register. */
static bool takes_register(tg_cost_walk *w, const tg_uop *u, const tg_uop *user, uint32_t uses) {
  if (u->op == TG_OP_RANGE || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_PARAM) return false;
  if (u->type == TG_VOID || u->type == TG_I64 || u->type == TG_INDEX || (u->lanes == 1 && !tg_is_float(u->type)))
    return false;
  if (tg_cost_is_fixed(w, u)) return false;
  if (u->op == TG_OP_LOAD) return !tg_cost_in_register(w, u) && (uses > 1 || u->lanes == 1);
  return uses > 1 || user->op != TG_OP_STORE || !tg_cost_in_register(w, user);
}

/* Statements in the order in which they need the fewest registers: each value is computed where it is first used, which
 * is about what LLVM's scheduler makes of them. */
static void place(tg_cost_place *at, const tg_uop *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) at[list[i]->id].late = UINT32_MAX, at[list[i]->id].inside = true;
  for (uint32_t i = n; i-- > 0;) {
    const tg_uop *u = list[i];
    tg_cost_place *p = &at[u->id];
    if (u->op == TG_OP_STORE || u->op == TG_OP_END || p->late == UINT32_MAX) p->late = i;
    for (uint32_t k = 0; k < u->n; k++) {
      tg_cost_place *s = &at[u->src[k]->id];
      if (p->late < s->late) s->late = p->late;
      if (p->late > s->last) s->last = p->late;
      s->user = u, s->uses++;
    }
  }
}

/* A loop that cleared arrays as long as the program would cost more than its statements do. */
static void clear(tg_cost_place *at, const tg_uop *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    at[list[i]->id] = (tg_cost_place){0};
    for (uint32_t k = 0; k < list[i]->n; k++) at[list[i]->src[k]->id] = (tg_cost_place){0};
  }
}

static pressure pressure_of(tg_cost_walk *w, const tg_uop *const *list, uint32_t n) {
  tg_env *env = &w->j->env;
  pressure r = {0};
  TG_VEC(uint64_t) seen = {0};
  tg_cost_place *at = w->by_id->place;
  double *change = tg_new(env, double, n + 1), *loaded = tg_new(env, double, n + 1), stores = 0, live = 0, apart = 0;
  place(at, list, n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    const tg_cost_place *p = &at[u->id];
    for (uint32_t k = 0; k < u->n; k++) {
      const tg_uop *s = u->src[k];
      if (at[s->id].inside || !takes_register(w, s, u, 2)) continue;
      r.through += tg_cost_pieces(w, s), at[s->id].inside = true;
    }
    if ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && tg_cost_in_register(w, u) && u->src[1]->op == TG_OP_CONST) {
      uint64_t key = (uint64_t)tg_buffer_ordinal(u->src[0]) << 32 | (uint64_t)u->src[1]->arg;
      bool known = false;
      for (uint32_t k = 0; k < seen.n && !known; k++) known = seen.data[k] == key;
      stores += u->op == TG_OP_STORE;
      if (known) continue;
      tg_push(env, &seen, key);
      r.tile += tg_cost_pieces(w, u->op == TG_OP_STORE ? tg_stored(u) : u);
    } else if (p->uses && takes_register(w, u, p->user, p->uses)) {
      double pieces = tg_cost_pieces(w, u), *to = u->op == TG_OP_LOAD ? loaded : change;
      to[p->late] += pieces, to[p->last] -= pieces;
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    live += change[i], apart += loaded[i];
    r.computed = fmax(r.computed, live), r.between = fmax(r.between, live + apart);
  }
  r.updates = seen.n ? fmax(1, stores / seen.n) : 1;
  clear(at, list, n);
  return r;
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
 * an unrolled loop, compilers load all copies of a row while its address is at hand, and spill those values for which
 * there is no vector register (spare) until they are used. */
static double address_spills(tg_cost_walk *w, const tg_uop *const *list, uint32_t n, double spare) {
  enum { BUFFERS = 8, ROOTS = 256 };
  const tg_uop *root[ROOTS];
  uint32_t roots = 0, ordinal[BUFFERS], rows[BUFFERS], loads[BUFFERS], buffers = 0, most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if ((u->op != TG_OP_LOAD && u->op != TG_OP_STORE) || tg_cost_in_register(w, u)) continue;
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
  double copies = (double)loads[most] / rows[most];
  double shortage = fmin(1, fmax(0, (registers - TG_COST_ADDRESSES) / 1.5 + 0.3));
  double kept = shortage * rows[most] * (copies - 1);
  return copies < 2 || kept <= spare ? 0 : (1 - spare / kept) * shortage * rows[most] * (1 + copies / 2);
}

tg_cost_spills tg_cost_spilled(tg_cost_walk *w, const tg_uop *const *list, uint32_t n) {
  pressure r = pressure_of(w, list, n);
  double registers = w->target->vector_registers, over = fmax(0, r.tile + r.through + r.between - registers),
         stored = fmax(0, r.tile + r.through + r.computed - registers),
         addresses = address_spills(w, list, n, fmax(0, registers - r.tile - r.through - r.between));
  w->spills += over;
  /* An element of the tile that is in no register is updated by way of memory; another register is for what is added.
   * What is loaded once for several rows keeps its registers, which LLVM gives to what is used most. */
  bool forwarded = r.tile + 1 > registers || (over > 0 && r.tile > 0);
  return (tg_cost_spills){stored * r.updates + addresses, over * r.updates + addresses, forwarded};
}
