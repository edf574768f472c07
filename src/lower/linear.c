/* SPDX-License-Identifier: MIT
 * Pass linear: every value becomes a statement, before its first use, in the outermost loop in which it can be
 * computed: where every range that it uses is open and every store that it reads is done. Within a list values are
 * placed on demand, right before the first statement that needs them.
 *
 * Limits on hoisting: a LOAD leaves a loop only if the loop surely runs, since its bounds were proved for iterations
 * only; at most as many loads are hoisted as vector registers are free beside the accumulators; `x + constant` is
 * recomputed at each use. A phase shares no values with another: nothing leaves a thread loop or a loop around thread
 * loops.
 *
 * Works on the versioned program directly: statements keep their order, so versions map to versions. */
#include "lower/sweep.h"
#include "target/matrix.h"

enum { TILES = 8 };   /* at most this many tile registers */

typedef struct level {
  struct level *outer;
  const tg_uop *range;
  uint32_t depth;
  /* runs: proved to have at least one iteration. thread: a phase, a launch, or a loop of phases */
  bool open, runs, thread;
  uint32_t loads;              /* loads hoisted out of this loop */
  uint32_t live;               /* registers in use: ssa elements of floats and vectors defined here or further out */
  TG_VEC(const tg_uop *) out;
} level;

typedef struct {
  tg_job *j;
  const tg_uop **to;           /* by old id */
  /* by old id: list where the value was last computed, or the outermost in which it may be */
  level **home;
  level **natural;             /* by old id: outermost list in which the value can be computed */
  uint32_t *phase_of, phase;   /* by old id: the phase in which the value was computed */
  /* by old id: a finished loop that computed the value for itself, or the list around several such loops */
  level **kept;
  uint32_t *place;             /* by old id: its position in its list */
  level *sink, *now;
  /* by buffer ordinal: a store to it had a gate, so its elements may be unwritten where a loop does not run */
  uint8_t *unsure;
  uint32_t registers;
  bool device, anywhere;
  TG_VEC(const tg_uop *) stack;
} state;

static level *deeper(level *a, level *b) { return !a ? b : !b || a->depth >= b->depth ? a : b; }

static bool ssa_access(state *s, const tg_uop *u) {
  const tg_buffer *b = tg_buffer_info(s->j, u->src[0]);
  return b->space == TG_SPACE_REG && b->place == TG_PLACE_SSA;
}

static bool is_cheap(const tg_uop *u) {
  return u->op == TG_OP_ADD && u->lanes == 1 && !tg_is_float(u->type) && u->src[1]->op == TG_OP_CONST &&
         !(u->src[0]->op == TG_OP_ADD && u->src[0]->src[1]->op == TG_OP_CONST);
}

/* Has the value been computed where statements of list l can use it? */
static bool computed(state *s, const tg_uop *u, const level *l) {
  const level *h = s->home[u->id];
  return s->to[u->id] && h && h->open && h->depth <= l->depth && s->phase_of[u->id] == s->phase;
}

static bool done(state *s, const tg_uop *u) {
  if (!tg_is_value(u)) return s->to[u->id] != NULL;
  if (is_cheap(u)) return s->to[u->id] && (!tg_is_value(u->src[0]) || computed(s, u->src[0], s->now));
  return computed(s, u, s->now);
}

static level *open_around(level *l) {
  while (!l->open) l = l->outer;
  return l;
}

/* A value computed in a finished loop cannot be hoisted before that loop any more: the innermost list around that
 * loop and l. */
static level *behind(state *s, const tg_uop *u, level *l) {
  level *h = s->home[u->id];
  if (!h || s->phase_of[u->id] != s->phase) return l;
  if (!h->open) l = deeper(l, open_around(h));
  return s->kept[u->id] ? deeper(l, open_around(s->kept[u->id])) : l;
}

/* Computes u in list l. If an inner list that is still open has computed it too, that copy is removed. */
static void compute_at(state *s, const tg_uop *u, level *l) {
  level *h = s->home[u->id];
  tg_assert(&s->j->env, l->open);   /* a closed list has become its END */
  if (h && h->open && h->depth > l->depth && s->phase_of[u->id] == s->phase) {
    tg_assert(&s->j->env, h->out.data[s->place[u->id]] == s->to[u->id]);
    h->out.data[s->place[u->id]] = NULL;
  }
  if (h && s->phase_of[u->id] != s->phase) s->kept[u->id] = NULL;
  else if (h && !h->open) s->kept[u->id] = behind(s, u, s->sink);
  s->place[u->id] = l->out.n;
  tg_push(&s->j->env, &l->out, s->to[u->id]);
  s->home[u->id] = l;
  s->phase_of[u->id] = s->phase;
}

/* Cheap operands of a statement of list l. */
static void cheap_operands(state *s, const tg_uop *u, level *l) {
  for (uint32_t i = 0; i < u->n; i++)
    if (tg_is_value(u->src[i]) && is_cheap(u->src[i]) && !computed(s, u->src[i], l)) compute_at(s, u->src[i], l);
}

/* The outermost list to which a LOAD may be hoisted from its use. */
static level *load_home(state *s, const tg_uop *u, level *outermost) {
  level *l = s->now;
  bool wide = u->lanes > 1 || tg_is_float(u->type);
  while (l != outermost && l->depth > outermost->depth) {
    uint32_t room = s->registers > l->outer->live + 4 ? s->registers - l->outer->live - 4 : 0;
    if (!l->runs) break;
    if (wide && l->loads >= (room > 2 ? room : 2)) break;
    l = l->outer;
  }
  for (level *k = s->now; wide && k != l; k = k->outer) k->loads++;
  return l;
}

/* The outermost list, not beyond `outermost`, from which every loop down to the statement surely runs. */
static level *sure_home(state *s, level *outermost) {
  level *l = s->now;
  while (l->runs && l->depth > outermost->depth) l = l->outer;
  return l;
}

static const tg_uop *rebuild(state *s, const tg_uop *u) {
  const tg_uop *few[32], **src = u->n <= TG_COUNT(few) ? few : tg_new(&s->j->env, const tg_uop *, u->n);
  bool same = true;
  for (uint32_t i = 0; i < u->n; i++) {
    src[i] = s->to[u->src[i]->id];
    same &= src[i] == u->src[i];
  }
  return same ? u : tg_make(s->j, u->op, u->type, u->lanes, u->arg, u->n, src);
}

static void finish(state *s, const tg_uop *u) {
  level *h = s->sink;
  for (uint32_t i = 0; i < u->n; i++) h = deeper(s->natural[u->src[i]->id], h);
  s->natural[u->id] = h;
  if (!s->to[u->id]) s->to[u->id] = rebuild(s, u);
  if (!tg_is_value(u) || is_cheap(u)) return;
  for (uint32_t i = 0; i < u->n; i++)   /* nor further out than its operands were computed */
    if (tg_is_value(u->src[i]) && !is_cheap(u->src[i])) h = deeper(s->home[u->src[i]->id], h);
    else if (tg_is_value(u->src[i]) && tg_is_value(u->src[i]->src[0])) h = deeper(s->home[u->src[i]->src[0]->id], h);
  level *phase = s->now;
  while (phase->depth && !phase->thread) phase = phase->outer;
  h = deeper(h, phase);
  if (u->op == TG_OP_LOAD && ssa_access(s, u) && s->unsure[tg_buffer_ordinal(u->src[0])]) h = sure_home(s, h);
  else if (u->op == TG_OP_LOAD && !ssa_access(s, u)) h = load_home(s, u, h);
  h = behind(s, u, h);
  for (uint32_t i = 0; i < u->n; i++)
    if (tg_is_value(u->src[i]) && is_cheap(u->src[i]) && !computed(s, u->src[i], h)) h = behind(s, u->src[i], h);
  cheap_operands(s, u, h);
  compute_at(s, u, h);
}

/* Computes root and those of its sources that are not computed yet, sources first. */
static void need(state *s, const tg_uop *root) {
  if (done(s, root)) return;
  tg_push(&s->j->env, &s->stack, root);
  while (s->stack.n) {
    const tg_uop *u = s->stack.data[s->stack.n - 1], *missing = NULL;
    uint32_t n = u->op == TG_OP_AFTER ? 1 : u->n;
    if (done(s, u)) {
      s->stack.n--;
      continue;
    }
    if (u->op == TG_OP_RANGE)
      tg_bug(&s->j->env, "pass linear: range %s is used outside of its loop",
             s->j->ranges.data[tg_range_ordinal(u)].name);
    for (uint32_t i = 0; i < n && !missing; i++)
      if (!done(s, u->src[i])) missing = u->src[i];
    if (missing) {
      tg_push(&s->j->env, &s->stack, missing);
      continue;
    }
    s->stack.n--;
    finish(s, u);
  }
}

/* ---- statements ---- */

static void leaves(state *s, const tg_uop *root) {   /* of dims: no statements */
  tg_push(&s->j->env, &s->stack, root);
  while (s->stack.n) {
    const tg_uop *u = s->stack.data[s->stack.n - 1], *missing = NULL;
    for (uint32_t i = 0; i < u->n && !missing; i++)
      if (!s->to[u->src[i]->id]) missing = u->src[i];
    if (missing) {
      tg_push(&s->j->env, &s->stack, missing);
      continue;
    }
    s->stack.n--;
    s->to[u->id] = rebuild(s, u);
    if (!s->natural[u->id]) s->natural[u->id] = s->sink;
  }
}

static uint32_t ssa_elements(state *s, const tg_uop *define) {
  const tg_buffer *b = tg_buffer_info(s->j, define);
  if (b->space != TG_SPACE_REG || b->place != TG_PLACE_SSA || (define->lanes == 1 && !tg_is_float(b->type))) return 0;
  return define->n && define->src[0]->op == TG_OP_CONST ? (uint32_t)define->src[0]->arg : 1;
}

static void drop_moved(level *l) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->out.n; i++)
    if (l->out.data[i]) l->out.data[n++] = l->out.data[i];
  l->out.n = n;
}

static const tg_uop *tile_product(state *s, const tg_uop *u) {
  const tg_uop *m = u->op == TG_OP_STORE && ssa_access(s, u) ? tg_stored(u) : NULL;
  const tg_matrix_row *r = m && m->op == TG_OP_MATRIX ? tg_matrix_find(tg_matrix_name(s->j, m)) : NULL;
  return r && r->form == TG_MATRIX_TILE ? m : NULL;
}

/* Tile registers are not renamed, so a load into one waits for the products that read it. If consecutive products
 * have enough tile registers for all their operands, all are loaded first, each into its own register. */
static void load_tiles(state *s, const tg_uop *end, uint32_t first) {
  const tg_uop *operand[TILES], *m;
  uint32_t n = 0, products = 0;
  if (first > 1 && tile_product(s, end->src[first - 1])) return;
  for (uint32_t i = first; i < end->n && (m = tile_product(s, end->src[i])); i++, products++)
    for (uint32_t w = 0; w < 2; w++) {
      uint32_t k = 0;
      while (k < n && operand[k] != m->src[w]) k++;
      if (k < n) continue;
      if (n == TILES) return;
      operand[n++] = m->src[w];
    }
  for (uint32_t i = 0; i < n && n + products <= TILES; i++) need(s, operand[i]);
}

/* The vector of an input that the statement copies to LOCAL memory through registers; NULL: it is something else. */
static const tg_uop *copied_vector(state *s, const tg_uop *u) {
  const tg_uop *v = s->device && u->op == TG_OP_STORE && !(u->arg & TG_ASYNC) ? tg_stored(u) : NULL;
  bool copy = v && v->op == TG_OP_LOAD && v->lanes > 1 && tg_buffer_info(s->j, u->src[0])->space == TG_SPACE_LOCAL;
  return copy && tg_buffer_info(s->j, v->src[0])->role == TG_ROLE_IN ? v : NULL;
}

/* Loads of copies side by side are all under way before the first is stored; those of the last copies in a list that
 * begins with a barrier, which store for another iteration, while all of the list is computed. */
static void load_copies(state *s, const tg_uop *end, uint32_t first) {
  uint32_t last = end->n;
  while (last > 1 && copied_vector(s, end->src[last - 1])) last--;
  if (first == 1 && end->src[first]->op == TG_OP_BARRIER)
    for (uint32_t i = last; i < end->n; i++) need(s, copied_vector(s, end->src[i]));
  const tg_uop *v;
  if (first > 1 && copied_vector(s, end->src[first - 1])) return;
  for (uint32_t i = first; i < end->n && (v = copied_vector(s, end->src[i])); i++) need(s, v);
}

static void process(state *s, const tg_uop *u) {
  level *l = s->now;
  if (u->op == TG_OP_END) {
    const tg_uop *range = u->src[0];
    bool thread = tg_range_kind(range) == TG_THREAD || (s->device ? !l->depth : tg_has_phases(u));
    need(s, tg_extent(range));
    cheap_operands(s, range, l);
    if (thread) s->phase++;
    level *body = tg_new(&s->j->env, level, 1);
    *body = (level){.outer = l, .range = rebuild(s, range), .depth = l->depth + 1, .open = true, .thread = thread,
                    .runs = tg_bounds_of(s->j, tg_extent(range)).lo >= 1, .live = l->live};
    s->to[range->id] = body->range;
    s->natural[range->id] = body;
    s->now = body;
    for (uint32_t i = 1; i < u->n; i++) {
      load_tiles(s, u, i);
      load_copies(s, u, i);
      process(s, u->src[i]);
    }
    tg_assert(&s->j->env, s->now == body && !s->stack.n);
    s->now = l;
    body->open = false;
    drop_moved(body);
    if (s->device) tg_group_gated(s->j, s->anywhere, body->out.n, body->out.data);
    s->to[u->id] = tg_end(s->j, body->range, body->out.n, body->out.data);
    if (thread) s->phase++;
  } else if (u->op == TG_OP_DEFINE) {
    leaves(s, u);
    l->live += ssa_elements(s, u);
  } else {
    /* the LOAD of an asynchronous copy is part of the copy, not a value of its own */
    const tg_uop *copied = u->op == TG_OP_STORE && u->arg & TG_ASYNC ? tg_stored(u) : NULL;
    for (uint32_t i = 0; copied && i < copied->n; i++) need(s, copied->src[i]);
    if (copied) {
      cheap_operands(s, copied, l);
      if (!s->to[copied->id]) s->to[copied->id] = rebuild(s, copied);
    }
    for (uint32_t i = 0; i < u->n; i++)
      if (u->src[i] != copied) need(s, u->src[i]);
    cheap_operands(s, u, l);
    s->to[u->id] = rebuild(s, u);
    if (u->op == TG_OP_STORE && tg_gate(u)) s->unsure[tg_buffer_ordinal(u->src[0])] = 1;
  }
  s->natural[u->id] = l;
  if (s->to[u->id] != u && tg_get_pos(s->j, u).line) tg_set_pos(s->j, s->to[u->id], tg_get_pos(s->j, u));
  tg_push(&s->j->env, &l->out, s->to[u->id]);
}

const tg_uop *tg_pass_linear(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  uint32_t n = sink->id + 1;
  level top = {.open = true, .runs = true};
  state s = {.j = j,
             .to = tg_new(&j->env, const tg_uop *, n),
             .home = tg_new(&j->env, level *, n),
             .natural = tg_new(&j->env, level *, n),
             .phase_of = tg_new(&j->env, uint32_t, n),
             .place = tg_new(&j->env, uint32_t, n),
             .kept = tg_new(&j->env, level *, n),
             .unsure = tg_new(&j->env, uint8_t, j->buffers.n + 1),
             .sink = &top,
             .now = &top,
             .device = l->target && l->target->lanes > 1,
             .anywhere = l->target && tg_target_loads_anywhere(l->target),
             .registers = l->target && l->target->vector_registers ? l->target->vector_registers : 16};
  for (uint32_t i = 0; i < sink->n; i++) process(&s, sink->src[i]);
  return tg_sink(j, top.out.n, top.out.data);
}
