/* SPDX-License-Identifier: MIT
 * Part of pass place: windows. If a loop updates the same elements of a tile in memory in all its iterations, they are
 * loaded into registers before the loop and stored after it. Works on the plain form.
 *
 * An element can be in a window only if the first access that surely happens to it in an iteration is a load: then it
 * is in bounds whenever the loop runs at all. It may be stored back although no iteration stored to it, since another
 * task that touched it would conflict with the loop's own stores. Elements are told apart by the constants of their
 * subscripts; a loop that also touches the tile at another kind of subscript keeps it in memory. Of the loops that
 * qualify, the outermost is taken whose body leaves enough vector registers. */
#include "lower/sweep.h"

enum { MAX_RANK = 16, SPARE_REGISTERS = 4 };

typedef struct {
  int64_t at[MAX_RANK];
  const tg_uop *access;        /* its first access */
  const tg_uop *gate;          /* condition under which the element may be accessed; NULL: always */
  /* read_first: a load surely comes first in an iteration; apart: it stays in memory */
  bool read_first, stored, apart;
  uint32_t number;             /* index in the window */
} element;

typedef struct {               /* how one loop touches one tile */
  uint32_t epoch, rank, width, along;   /* along: the dimension that vectors run in */
  bool mixed;                  /* accessed by different kinds of subscripts, or defined inside the loop: no window */
  tg_linear base[MAX_RANK];    /* of the first access */
  TG_VEC(element) elements;
  const tg_uop *define, *window;
} use;

typedef struct {
  tg_job *j;
  const bool *wanted;          /* by buffer ordinal */
  use *uses;
  uint8_t *open;               /* by range ordinal: 1 if it is a loop around the current one */
  uint32_t *seen, seen_n, visit, epoch;
  uint32_t registers, bytes, in_loop;   /* in_loop: registers taken by what is defined inside */
  uint32_t buffers, limit;
  TG_VEC(const tg_uop *) stack, atoms;
} state;

typedef TG_VEC(const tg_uop *) list;

static bool in_registers(state *s, const tg_uop *define) {
  const tg_buffer *b = tg_buffer_info(s->j, define);
  return b->space == TG_SPACE_REG && b->place == TG_PLACE_SSA;
}

static uint32_t registers_of(const state *s, const tg_uop *define, uint32_t n) {
  if (define->lanes == 1 && !tg_is_float(define->type)) return 0;
  return n * (uint32_t)((define->lanes * (uint64_t)tg_type_bytes(define->type) + s->bytes - 1) / s->bytes);
}

static uint32_t registers_defined(state *s, const tg_uop *define) {
  int64_t n = 1;
  if (!in_registers(s, define)) return 0;
  for (uint32_t i = 0; i < define->n; i++) n *= define->src[i]->arg;
  return registers_of(s, define, (uint32_t)n);
}

/* Is the value invariant in the current loop and the loops inside it (those that are not `open`)? */
static bool invariant(state *s, const tg_uop *root) {
  bool yes = true;
  tg_push(&s->j->env, &s->atoms, root);
  while (s->atoms.n) {
    const tg_uop *u = s->atoms.data[--s->atoms.n];
    yes &= u->op != TG_OP_LOAD && (u->op != TG_OP_RANGE || s->open[tg_range_ordinal(u)]);
    for (uint32_t i = 0; i < u->n && yes && u->op != TG_OP_RANGE; i++) tg_push(&s->j->env, &s->atoms, u->src[i]);
  }
  return yes;
}

/* ---- what a loop does with a tile ---- */

static bool same_base(const tg_linear *a, const tg_linear *b) {
  bool same = a->n == b->n;
  for (uint32_t i = 0; i < a->n && same; i++) same = a->atom[i] == b->atom[i] && a->coefficient[i] == b->coefficient[i];
  return same;
}

/* The first access sets the form that all must have: at most one dimension with lanes, which are adjacent. */
static void begin_use(state *s, use *t, const tg_uop *u, uint32_t rank) {
  t->rank = rank;
  t->define = u->src[0];
  t->width = t->define->lanes;
  t->along = rank;
  for (uint32_t d = 0; d < rank; d++)
    for (uint32_t i = 0; i < t->base[d].n; i++) {
      const tg_uop *atom = t->base[d].atom[i];
      t->mixed |= !invariant(s, atom);
      if (atom->lanes == 1) continue;
      t->mixed |= atom->op != TG_OP_IOTA || t->base[d].coefficient[i] != 1 || t->along < rank || t->width > 1;
      t->along = d;
      t->width = atom->lanes;
    }
}

static element *element_of(state *s, use *t, const tg_uop *u) {
  uint32_t rank = tg_access_rank(u);
  element e = {.number = UINT32_MAX};
  if (rank > MAX_RANK || (u->arg & ~(int64_t)TG_GATED)) t->mixed = true;
  for (uint32_t d = 0; d < rank && !t->mixed; d++) {
    tg_linear x;
    tg_linear_of(s->j, u->src[1 + d], &x);
    if (!t->define) t->base[d] = x;
    else t->mixed |= !same_base(&x, &t->base[d]);
    e.at[d] = x.constant;
  }
  if (t->mixed) return NULL;
  if (!t->define) begin_use(s, t, u, rank);
  for (uint32_t i = 0; i < t->elements.n && !t->mixed; i++)
    if (!memcmp(t->elements.data[i].at, e.at, rank * sizeof *e.at)) return &t->elements.data[i];
  if (t->along < rank && t->elements.n) t->mixed |= (e.at[t->along] - t->elements.data[0].at[t->along]) % t->width != 0;
  if (t->mixed || t->elements.n >= s->limit) {
    t->mixed = true;
    return NULL;
  }
  tg_push(&s->j->env, &t->elements, e);
  return &t->elements.data[t->elements.n - 1];
}

static use *use_of(const state *s, const tg_uop *define) {
  uint32_t b = tg_buffer_ordinal(define);
  return b < s->buffers && s->wanted[b] ? &s->uses[b] : NULL;
}

static void see_access(state *s, const tg_uop *u, const tg_uop *statement_gate, bool sure) {
  use *t = use_of(s, u->src[0]);
  if (!t) return;
  if (t->epoch != s->epoch) *t = (use){.epoch = s->epoch, .elements = {t->elements.data, 0, t->elements.cap}};
  element *e = t->mixed ? NULL : element_of(s, t, u);
  if (!e) return;
  const tg_uop *gate = tg_gate(u) ? tg_gate(u) : statement_gate;
  bool first = e->number == UINT32_MAX, conditional = gate != statement_gate && statement_gate;
  e->number = 0;
  if (first) {
    e->access = u;
    e->read_first = u->op == TG_OP_LOAD && sure && !conditional && (!gate || (gate->lanes == 1 && invariant(s, gate)));
    e->gate = gate;
  }
  e->apart |= e->gate && (gate != e->gate || conditional);
  e->stored |= u->op == TG_OP_STORE;
}

static void see_values(state *s, const tg_uop *const *root, uint32_t n, const tg_uop *gate, bool sure) {
  if (s->seen_n < s->j->uops.n) s->seen = tg_new(&s->j->env, uint32_t, s->seen_n = 2 * s->j->uops.n);
  s->visit++;
  for (uint32_t i = n; i-- > 0;) tg_push(&s->j->env, &s->stack, root[i]);
  while (s->stack.n) {
    const tg_uop *u = s->stack.data[--s->stack.n];
    if (s->seen[u->id] == s->visit || u->op == TG_OP_DEFINE) continue;
    s->seen[u->id] = s->visit;
    if (u->op == TG_OP_LOAD) see_access(s, u, gate, sure);
    for (uint32_t i = 0; i < u->n; i++) tg_push(&s->j->env, &s->stack, u->src[i]);
  }
}

static bool runs(state *s, const tg_uop *range) { return tg_bounds_of(s->j, tg_extent(range)).lo >= 1; }

static void see_statements(state *s, const tg_uop *end, bool sure) {
  for (uint32_t i = 1; i < end->n; i++) {
    const tg_uop *u = end->src[i];
    if (u->op == TG_OP_DEFINE) {
      use *t = use_of(s, u);
      if (t) *t = (use){.epoch = s->epoch, .mixed = true, .elements = {t->elements.data, 0, t->elements.cap}};
      s->in_loop += registers_defined(s, u);
    } else if (u->op == TG_OP_STORE) {
      see_values(s, u->src + 1, u->n - 1, tg_gate(u), sure);
      see_access(s, u, tg_gate(u), sure);
    } else if (u->op == TG_OP_END) {
      see_values(s, u->src[0]->src, 1, NULL, sure);
      see_statements(s, u, sure && runs(s, u->src[0]));
    }
  }
}

/* ---- windows ---- */

static bool windowed(const element *e) {
  return e->read_first && e->stored && !e->apart;
}

/* Numbers the elements of the window and defines its register tile; false: no elements, or too few registers. */
static bool open_window(state *s, use *t, uint32_t *used) {
  uint32_t n = 0;
  if (t->epoch != s->epoch || t->mixed) return false;
  for (uint32_t i = 0; i < t->elements.n; i++) {
    element *e = &t->elements.data[i];
    e->number = windowed(e) ? n++ : UINT32_MAX;
  }
  if (!n) return false;
  const tg_uop like = {.type = t->define->type, .lanes = t->width};
  uint32_t cost = registers_of(s, &like, n);
  if (*used + cost + SPARE_REGISTERS > s->registers) return false;
  *used += cost;
  tg_buffer *b = tg_buffer_info(s->j, t->define);
  if (b->space == TG_SPACE_REG) b->place = TG_PLACE_WINDOWED;
  tg_buffer info = {.name = tg_format(&s->j->env, "%s.w", b->name),
                    .space = TG_SPACE_REG,
                    .rank = 1,
                    .type = b->type,
                    .place = TG_PLACE_SSA,
                    .pos = b->pos};
  const tg_uop *dim = tg_index(s->j, n);
  t->window = tg_define(s->j, info, t->width, &dim, NULL, true);
  return true;
}

/* Copies between memory and the window: loads before the loop, stores after it (back). */
static void move_window(state *s, const use *t, const tg_uop *loop, bool back, list *out) {
  const tg_uop *extent = tg_extent(loop->src[0]),
               *some = runs(s, loop->src[0]) ? NULL : tg_op2(s->j, TG_OP_LT, tg_index(s->j, 0), extent);
  for (uint32_t i = 0; i < t->elements.n; i++) {
    const element *e = &t->elements.data[i];
    if (e->number == UINT32_MAX) continue;
    const tg_uop *const *sub = e->access->src + 1, *at = tg_index(s->j, e->number),
                        *gate = some && e->gate ? tg_and(s->j, some, e->gate)
                                : some          ? some
                                                : e->gate,
                        *zero = NULL;
    if (gate && !back)
      zero = tg_is_float(t->define->type) ? tg_const_float(s->j, t->define->type, 0)
                                          : tg_const_int(s->j, t->define->type, 0);
    const tg_uop *st = back ? tg_store(s->j, t->define, sub, tg_load(s->j, t->window, &at, NULL, NULL, 0), gate, 0)
                            : tg_store(s->j, t->window, &at, tg_load(s->j, t->define, sub, gate, zero, 0), NULL, 0);
    if (tg_get_pos(s->j, loop).line) tg_set_pos(s->j, st, tg_get_pos(s->j, loop));
    tg_push(&s->j->env, out, st);
  }
}

static const tg_uop *through_window(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE) return NULL;
  use *t = use_of(s, old->src[0]);
  if (!t || !t->window || t->epoch != s->epoch) return NULL;
  uint32_t seen = t->elements.n;
  const element *e = element_of(s, t, old);
  /* an access that the decision did not see could touch what is in registers now */
  tg_assert(&j->env, e && t->elements.n == seen);
  if (e->number == UINT32_MAX) return NULL;
  const tg_uop *at = tg_index(j, e->number),
               *gate = old->arg & TG_GATED ? src[old->n - (old->op == TG_OP_LOAD ? 2 : 1)] : NULL;
  return old->op == TG_OP_LOAD ? tg_load(j, t->window, &at, gate, gate ? src[old->n - 1] : NULL, 0)
                               : tg_store(j, t->window, &at, src[t->rank + 1], gate, 0);
}

/* One task runs all of it. */
static bool sequential(const tg_uop *end) {
  return tg_range_kind(end->src[0]) != TG_THREAD && tg_range_kind(end->src[0]) != TG_GLOBAL && !tg_has_phases(end);
}

static bool place_statements(state *s, uint32_t n, const tg_uop *const *statement, uint32_t used, list *out);

static bool place_loop(state *s, const tg_uop *end, uint32_t used, list *out) {
  list after = {0}, body = {0};
  bool any = false;
  if (sequential(end) && invariant(s, tg_extent(end->src[0]))) {
    s->epoch++;
    s->in_loop = 0;
    see_statements(s, end, true);
    uint32_t inside = s->in_loop;
    used += inside;
    for (uint32_t b = 0; b < s->buffers; b++) {
      use *t = &s->uses[b];
      if (!s->wanted[b] || !open_window(s, t, &used)) continue;
      any = true;
      tg_push(&s->j->env, out, t->window);
      move_window(s, t, end, false, out);
      move_window(s, t, end, true, &after);
    }
    used -= inside;
    if (any) end = tg_map(s->j, end, through_window, NULL, s);
  }
  s->open[tg_range_ordinal(end->src[0])] = 1;
  bool deeper = place_statements(s, end->n - 1, end->src + 1, used, &body);
  s->open[tg_range_ordinal(end->src[0])] = 0;
  if (deeper) {
    const tg_uop *old = end;
    end = tg_end(s->j, old->src[0], body.n, body.data);
    tg_set_pos(s->j, end, tg_get_pos(s->j, old));
  }
  tg_push(&s->j->env, out, end);
  for (uint32_t i = 0; i < after.n; i++) tg_push(&s->j->env, out, after.data[i]);
  return any || deeper;
}

static bool place_statements(state *s, uint32_t n, const tg_uop *const *statement, uint32_t used, list *out) {
  bool any = false;
  for (uint32_t i = 0; i < n; i++) {
    if (statement[i]->op == TG_OP_END) any |= place_loop(s, statement[i], used, out);
    else tg_push(&s->j->env, out, statement[i]);
    if (statement[i]->op == TG_OP_DEFINE) used += registers_defined(s, statement[i]);
  }
  return any;
}

const tg_uop *tg_place_windows(tg_job *j, const tg_target *target, const bool *wanted, const tg_uop *sink) {
  const tg_uop *plain = tg_plain(j, sink);
  uint32_t n = j->buffers.n;
  state s = {.j = j,
             .wanted = wanted,
             .uses = tg_new(&j->env, use, n + 1),
             .open = tg_new(&j->env, uint8_t, j->ranges.n + 1),
             .buffers = n,
             .registers = target && target->vector_registers ? target->vector_registers : 16,
             .bytes = target && target->vector_bytes ? target->vector_bytes : 16};
  s.limit = 8 * s.registers;
  list out = {0};
  if (!place_statements(&s, plain->n, plain->src, 0, &out)) return sink;
  return tg_versioned(j, tg_sink(j, out.n, out.data));
}
