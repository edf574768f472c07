/* SPDX-License-Identifier: MIT
 * The core's part of the cost model: vector registers, and what is spilled if there are too few. */
#include <math.h>
#include "model/walk.h"

/* A value that wants vector registers: how many. kept: it lives from one iteration to the next, as an element of a
 * register tile, or what was computed before the loop. held: it is in its registers. length: touches while it is. */
typedef struct { double pieces; bool tile, kept, held, spilled; uint32_t next, touches, length; } value;
/* An instruction uses or sets a value. clean: what sets it is a load, which may be repeated. next: the place of the
 * value's next touch, in the next iteration, too; NEVER: what it holds is not used again. */
typedef struct { uint32_t value, next; bool sets, clean; } touch;
enum { NEVER = UINT32_MAX };
/* One iteration of a loop. */
typedef struct {
  tg_cost_walk *w;
  TG_VEC(value) values;
  TG_VEC(touch) touches;
  TG_VEC(uint64_t) elements;       /* of register tiles: buffer and place; */
  TG_VEC(uint32_t) element_values; /* their values */
} iteration;

/* Does a value need a vector register of its own? A load with one use becomes a memory operand of that use, and a value
 * only stored to a register tile is in the tile's register. */
static bool takes_register(tg_cost_walk *w, const tg_uop *u, const tg_uop *user, uint32_t uses) {
  if (u->op == TG_OP_RANGE || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_PARAM) return false;
  if (u->type == TG_VOID || u->type == TG_I64 || u->type == TG_INDEX || (u->lanes == 1 && !tg_is_float(u->type)))
    return false;
  if (tg_cost_is_fixed(w, u) || tg_cost_is_lane(w, u)) return false;
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

static uint32_t add_value(iteration *it, value v) {
  tg_push(&it->w->j->env, &it->values, v);
  return it->values.n - 1;
}

static uint32_t element_of(iteration *it, const tg_uop *access) {
  uint64_t key = (uint64_t)tg_buffer_ordinal(access->src[0]) << 32 | (uint64_t)access->src[1]->arg;
  for (uint32_t k = 0; k < it->elements.n; k++)
    if (it->elements.data[k] == key) return it->element_values.data[k];
  double pieces = tg_cost_pieces(it->w, access->op == TG_OP_STORE ? tg_stored(access) : access);
  tg_push(&it->w->j->env, &it->elements, key);
  tg_push(&it->w->j->env, &it->element_values, it->values.n);
  return add_value(it, (value){.pieces = pieces, .tile = true, .kept = true});
}

static bool is_element(const tg_cost_walk *w, const tg_uop *u) {
  return (u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && tg_cost_in_register(w, u) && u->src[1]->op == TG_OP_CONST;
}

static void add_touch(iteration *it, uint32_t v, bool sets, bool clean) {
  tg_push(&it->w->j->env, &it->touches, ((touch){.value = v, .sets = sets, .clean = clean}));
}

/* What the node uses, and what it sets. */
static void touch_node(iteration *it, const tg_uop *u) {
  tg_cost_walk *w = it->w;
  tg_cost_place *at = w->by_id->place, *p = &at[u->id];
  for (uint32_t k = 0; k < u->n; k++) {
    const tg_uop *s = tg_cost_is_lane(w, u->src[k]) ? u->src[k]->src[0] : u->src[k];
    tg_cost_place *q = &at[s->id];
    if (is_element(w, s)) {
      if (s->op == TG_OP_LOAD) add_touch(it, element_of(it, s), false, false);
      continue;
    }
    if (!q->inside && takes_register(w, s, u, 2))
      q->value = 1 + add_value(it, (value){.pieces = tg_cost_pieces(w, s), .kept = true});
    q->inside = true;
    if (q->value) add_touch(it, q->value - 1, false, false);
  }
  if (is_element(w, u)) {
    if (u->op == TG_OP_STORE) add_touch(it, element_of(it, u), true, false);
  } else if (p->uses && takes_register(w, u, p->user, p->uses)) {
    p->value = 1 + add_value(it, (value){.pieces = tg_cost_pieces(w, u)});
    add_touch(it, p->value - 1, true, u->op == TG_OP_LOAD);
  }
}

/* The touches of an iteration, in the order of place(). */
static void read_iteration(iteration *it, const tg_uop *const *list, uint32_t n) {
  tg_cost_place *at = it->w->by_id->place;
  uint32_t *first = tg_new(&it->w->j->env, uint32_t, n + 2), *order = tg_new(&it->w->j->env, uint32_t, n + 1);
  place(at, list, n);
  for (uint32_t i = 0; i < n; i++) first[at[list[i]->id].late + 1]++;
  for (uint32_t i = 0; i < n; i++) first[i + 1] += first[i];
  for (uint32_t i = 0; i < n; i++) order[first[at[list[i]->id].late]++] = i;
  for (uint32_t i = 0; i < n; i++) touch_node(it, list[order[i]]);
  clear(at, list, n);
}

/* When each value is touched next. */
static void find_next(iteration *it) {
  uint32_t n = it->touches.n;
  for (uint32_t v = 0; v < it->values.n; v++) it->values.data[v].next = NEVER;
  for (uint32_t round = 0; round < 2; round++)   /* the next iteration's first touches, then this one */
    for (uint32_t i = n; i-- > 0;) {
      touch *t = &it->touches.data[i];
      value *v = &it->values.data[t->value];
      t->next = v->next, v->next = t->sets || (!round && !v->kept) ? NEVER : round ? i : i + n;
    }
}

/* Vectors that are live at each touch, of spilled values the one that is touched; where they are the most. */
static uint32_t find_live(iteration *it, double *live) {
  uint32_t n = it->touches.n, most = 0;
  double now = 0;
  for (uint32_t k = 0; k < it->values.n; k++) {
    value *v = &it->values.data[k];
    v->held = v->next != NEVER, v->touches = v->length = 0;
    now += v->held && !v->spilled ? v->pieces : 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    const touch *t = &it->touches.data[i];
    value *v = &it->values.data[t->value];
    now += v->held || v->spilled ? 0 : v->pieces;
    live[i] = now + (v->spilled ? v->pieces : 0);
    v->held = t->next != NEVER, v->touches++;
    v->length += v->held ? t->next - i : 1;
    now -= v->held || v->spilled ? 0 : v->pieces;
    if (live[i] > live[most]) most = i;
  }
  return most;
}

/* Is the value live at the touch? */
static bool *live_at(iteration *it, uint32_t touch_at) {
  bool *live = tg_new(&it->w->j->env, bool, it->values.n + 1);
  for (uint32_t k = 0; k < it->values.n; k++) live[k] = it->values.data[k].next != NEVER;
  for (uint32_t i = 0; i <= touch_at; i++) {
    const touch *t = &it->touches.data[i];
    live[t->value] = i == touch_at || t->next != NEVER;
  }
  return live;
}

/* What a value costs that has no register: it is loaded for those of its uses that lie together, no further apart than
 * a register could wait, and stored behind what sets it. */
static void spill(const iteration *it, uint32_t which, double registers, tg_cost_spills *s) {
  const value *v = &it->values.data[which];
  uint32_t last = NEVER;
  bool stored = false;
  for (uint32_t i = 0; i < it->touches.n; i++) {
    const touch *t = &it->touches.data[i];
    if (t->value != which) continue;
    if (last == NEVER || i - last > registers) {
      s->loads += t->sets ? 0 : v->pieces, stored = false;
      s->forwarded |= v->tile && !t->sets;
    }
    if (t->sets && !t->clean && !stored) s->stores += v->pieces, stored = true;
    last = i;
  }
}

/* Where too many are live, the value with the fewest touches for the time that it lives goes: that is how LLVM's
 * allocator weighs them (lib/CodeGen/CalcSpillWeights.cpp). */
static tg_cost_spills spill_all(iteration *it, double *live, double registers) {
  tg_cost_spills s = {0};
  uint32_t most;
  while (live[most = find_live(it, live)] > registers) {
    const bool *there = live_at(it, most);
    value *least = NULL;
    uint32_t which = 0;
    for (uint32_t k = 0; k < it->values.n; k++) {
      value *v = &it->values.data[k];
      if (there[k] && !v->spilled &&
          (!least || (double)v->touches * least->length < (double)least->touches * v->length))
        least = v, which = k;
    }
    if (!least) break;
    least->spilled = true;
    spill(it, which, registers, &s);
  }
  return s;
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
  double registers = w->target->vector_registers;
  iteration it = {.w = w};
  read_iteration(&it, list, n);
  find_next(&it);
  double *live = tg_new(&w->j->env, double, it.touches.n + 1), most = live[find_live(&it, live)];
  double addresses = address_spills(w, list, n, fmax(0, registers - most));
  tg_cost_spills s = spill_all(&it, live, registers);
  w->spills += fmax(0, most - registers);
  s.stores += addresses, s.loads += addresses;
  return s;
}
