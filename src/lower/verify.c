/* SPDX-License-Identifier: MIT
 * The spec: what a program may contain at each stage (docs/ir.md), checked after every pass. All violations are shown
 * inside the printed program, as an internal error: no matter what the author wrote, it is a bug of the compiler. */
#include "dsl/functions.h"
#include "dsl/text.h"
#include "lower/verify.h"
#include "lower/sweep.h"
#include "target/matrix.h"

typedef struct {
  tg_job *j;
  const char *stage;
  int rank;                    /* of the stage, in the order of the passes */
  tg_str out;
  uint32_t violations;
  uint32_t *scope;             /* by node id: number of the list that it needs, 0 the SINK's */
  uint32_t lists, open[64], depth;
  uint32_t sequential;         /* loops around that are no part of a grid of threads */
  uint32_t others;             /* ranges around that are not of kind loop */
  const tg_uop **current;      /* by buffer ordinal */
  uint8_t *range_seen;         /* by ordinal */
  uint32_t *placed;            /* by node id, linear: 1 + list where the value stands */
  uint32_t *list_parent;
  TG_VEC(const tg_uop *) stack;
  uint8_t *checked;
  uint32_t ordinals;
  uint8_t *remote;             /* by node id: reads memory that other threads may write */
} state;

static const char *const order[] = {"author", "prove", "raise",     "schedule", "reduce",   "distribute", "fma",
                                    "expand", "place", "functions", "types",    "coalesce", "index",      "linear"};
enum {
  AUTHOR,
  PROVE,
  RAISE,
  SCHEDULE,
  REDUCED,
  DISTRIBUTED,
  FMA,
  EXPANDED,
  PLACED,
  FUNCTIONS,
  TYPES,
  COALESCED,
  INDEXED,
  LINEAR
};
_Static_assert(TG_COUNT(order) == LINEAR + 1, "a rank for each stage");

int tg_stage_index(const char *stage) {
  for (unsigned i = 0; i < TG_COUNT(order); i++)
    if (!strcmp(order[i], stage)) return (int)i;
  return -1;
}

static void TG_PRINTF(3, 4) complain(state *s, const tg_uop *u, const char *format, ...) {
  va_list ap;
  if (++s->violations > 20) return;
  tg_str_printf(&s->out, "  %%%u %s: ", u->id, tg_ops[u->op].name);
  va_start(ap, format);
  tg_str_vprintf(&s->out, format, ap);
  va_end(ap);
  tg_str_puts(&s->out, "\n");
}

/* ---- one node ---- */

static bool lanes_agree(const tg_uop *u, const tg_uop *v) { return v->lanes == 1 || v->lanes == u->lanes; }

static void check_lanewise(state *s, const tg_uop *u) {
  if ((int)u->n != tg_ops[u->op].arity) {
    complain(s, u, "%u sources", u->n);
    return;
  }
  uint32_t widest = 1;
  for (uint32_t i = 0; i < u->n; i++) {
    if (u->src[i]->lanes > widest) widest = u->src[i]->lanes;
    if (!lanes_agree(u, u->src[i]))
      complain(s, u, "operand %u has %u lanes, the result %u", i, u->src[i]->lanes, u->lanes);
    if (u->src[i]->type == TG_VOID) complain(s, u, "operand %u has no value", i);
  }
  if (widest != u->lanes) complain(s, u, "%u lanes of operands of %u", u->lanes, widest);
  if (u->op == TG_OP_CAST || u->op == TG_OP_BITCAST) {
    if (u->op == TG_OP_BITCAST && tg_type_bits(u->type) != tg_type_bits(u->src[0]->type))
      complain(s, u, "bitcast between widths");
    return;
  }
  uint32_t first = u->op == TG_OP_WHERE;
  if (first && u->src[0]->type != TG_BOOL) complain(s, u, "the condition is %s", tg_type_name[u->src[0]->type]);
  for (uint32_t i = first + 1; i < u->n; i++)
    if (u->src[i]->type != u->src[first]->type)
      complain(s, u, "operands of types %s and %s", tg_type_name[u->src[first]->type], tg_type_name[u->src[i]->type]);
  tg_type want = tg_ops[u->op].flags & TG_OPF_B ? TG_BOOL : u->src[first]->type;
  if (u->type != want) complain(s, u, "type %s, of operands of %s", tg_type_name[u->type], tg_type_name[want]);
}

/* An asynchronous copy must store an element of an input to LOCAL memory unchanged. */
static void check_copy(state *s, const tg_uop *u) {
  const tg_uop *v = tg_stored(u);
  if (s->rank < DISTRIBUTED) complain(s, u, "asynchronous before pass distribute");
  if (tg_buffer_info(s->j, u->src[0])->space != TG_SPACE_LOCAL || u->arg & (TG_STREAM | TG_ATOMIC))
    complain(s, u, "asynchronous, and not a copy to LOCAL memory");
  if (s->rank < INDEXED) return;
  int bytes = tg_type_bytes(v->type) * (int)v->lanes;
  if (v->op != TG_OP_LOAD || tg_buffer_info(s->j, v->src[0])->role != TG_ROLE_IN)
    complain(s, u, "asynchronous, and what is stored is no element of an input");
  else if (tg_gate(v) && (tg_alternative(v)->op != TG_OP_CONST || tg_alternative(v)->arg))
    complain(s, u, "an asynchronous copy has 0 in the place of elements that are not there");
  if (bytes != 4 && bytes != 8 && bytes != 16) complain(s, u, "an asynchronous copy of %d bytes", bytes);
  if ((tg_gate(u) && tg_gate(u)->lanes > 1) || (v->op == TG_OP_LOAD && tg_gate(v) && tg_gate(v)->lanes > 1))
    complain(s, u, "lanes of an asynchronous copy have gates of their own");
}

static void check_access(state *s, const tg_uop *u) {
  const tg_uop *v = u->src[0];
  uint32_t extra = (u->op == TG_OP_STORE) + (u->arg & TG_GATED ? (u->op == TG_OP_LOAD ? 2 : 1) : 0);
  if ((v->op != TG_OP_AFTER && v->op != TG_OP_DEFINE) || u->n < 1 + extra) {
    complain(s, u, "no buffer");
    return;
  }
  const tg_uop *define = tg_define_of(v);
  if (define->op != TG_OP_DEFINE) {
    complain(s, u, "of a %s", tg_ops[define->op].name);
    return;
  }
  uint32_t rank = tg_access_rank(u), dims = define->arg >> 32 & TG_STRIDED ? define->n / 2 : define->n;
  if (rank != dims)
    complain(s, u, "%u subscripts of %s, which has %u", rank, s->j->buffers.data[tg_buffer_ordinal(v)].name, dims);
  for (uint32_t i = 0; i < rank; i++) {
    tg_type t = u->src[1 + i]->type;
    if (s->rank < INDEXED ? t != TG_INDEX : t != TG_I32 && t != TG_I64)
      complain(s, u, "subscript %u is %s", i, tg_type_name[t]);
  }
  if (s->rank >= INDEXED && rank != 1) complain(s, u, "%u subscripts", rank);
  if (tg_gate(u) && tg_gate(u)->type != TG_BOOL) complain(s, u, "the gate is %s", tg_type_name[tg_gate(u)->type]);
  const tg_uop *value = u->op == TG_OP_STORE ? tg_stored(u) : tg_alternative(u);
  if (value && value->type != define->type)
    complain(s, u, "%s into %s", tg_type_name[value->type], tg_type_name[define->type]);
  if (u->op == TG_OP_LOAD && u->type != define->type)
    complain(s, u, "type %s of a buffer of %s", tg_type_name[u->type], tg_type_name[define->type]);
  uint32_t w = define->lanes;
  for (uint32_t i = 1; i < u->n; i++) {
    if (u->src[i]->lanes == 1) continue;
    if (w > 1 && u->src[i]->lanes != w) complain(s, u, "%u lanes beside %u", u->src[i]->lanes, w);
    w = u->src[i]->lanes;
  }
  if (u->op == TG_OP_STORE && u->arg & TG_ASYNC) check_copy(s, u);
  if (u->op == TG_OP_LOAD && u->lanes != w) complain(s, u, "%u lanes, of subscripts of %u", u->lanes, w);
}

static void check_wait(state *s, const tg_uop *u) {
  if (s->rank < DISTRIBUTED) complain(s, u, "before pass distribute");
  if (tg_wait_flying(u) < 0 || tg_wait_flying(u) > TG_ALL_FLYING)
    complain(s, u, "%lld groups in flight", (long long)tg_wait_flying(u));
}

static void check_reduce(state *s, const tg_uop *u) {
  tg_reduce_arg a = tg_reduce_info(u);
  if (u->n != (a.generic ? 3u : 1u) * a.values + a.ranges) complain(s, u, "%u sources", u->n);
  else
    for (uint32_t i = 0; i < a.ranges; i++)
      if (tg_reduce_ranges(u)[i]->op != TG_OP_RANGE)
        complain(s, u, "no range but a %s", tg_ops[tg_reduce_ranges(u)[i]->op].name);
  if (s->rank >= REDUCED) complain(s, u, "left after pass reduce");
}

/* A SHUFFLE may read another lane's value only if it is computed from that lane's own registers and inputs. */
static void check_exchange(state *s, const tg_uop *u) {
  const tg_uop *range = u->src[u->n - 1 - (u->op == TG_OP_SHUFFLE)];
  if (range->op == TG_OP_RANGE ? tg_range_kind(range) != TG_LANE : range->op != TG_OP_CONST)
    complain(s, u, "not over a lane range");
  if (u->op == TG_OP_MATRIX) {
    const tg_matrix_row *r = tg_matrix_find(tg_matrix_name(s->j, u));
    if (!r) complain(s, u, "no row of the table is named %s", tg_matrix_name(s->j, u));
    for (int i = 0; r && i < 3; i++)
      if (u->src[i]->type != tg_matrix_type(r, i) ||
          (u->src[i]->lanes != 1 && u->src[i]->lanes != tg_matrix_registers(r, i)))
        complain(s, u, "%c is %s[%u], where %s has %s[%u]", "abc"[i], tg_type_name[u->src[i]->type],
                 u -> src[i] -> lanes, r -> name, tg_type_name[tg_matrix_type(r, i)], tg_matrix_registers(r, i));
    if (r && (range->op == TG_OP_CONST) != (tg_matrix_lanes(r) == 1))
      complain(s, u, "%s has %u lanes", r->name, tg_matrix_lanes(r));
    return;
  }
  if (u->type != u->src[0]->type)
    complain(s, u, "type %s, of a value of %s", tg_type_name[u->type], tg_type_name[u->src[0]->type]);
  if (tg_is_float(u->src[2]->type) || u->src[2]->type == TG_BOOL)
    complain(s, u, "the index is %s", tg_type_name[u->src[2]->type]);
  if (range->op == TG_OP_RANGE && s->remote[u->src[0]->id])
    complain(s, u, "a value that depends on memory which lanes share");
  if (range->op == TG_OP_CONST && u->src[0]->lanes != 1 && range->arg != u->src[0]->lanes)
    complain(s, u, "%lld lanes, of a vector of %u", (long long)range->arg, u->src[0]->lanes);
}

static void check_stage(state *s, const tg_uop *u) {
  if (s->rank >= REDUCED && u->op == TG_OP_GET) complain(s, u, "left after pass reduce");
  if (s->rank >= FUNCTIONS && tg_is_function(u->op) && !(tg_is_fast(u->op) && u->type == TG_F32))
    complain(s, u, "left after pass functions");
  if (s->rank >= INDEXED && u->type == TG_INDEX) complain(s, u, "of type index after pass index");
  if (s->rank >= INDEXED && (u->op == TG_OP_IDIV || u->op == TG_OP_MOD)) complain(s, u, "left after pass index");
  if (s->rank < SCHEDULE && u->lanes > 1) complain(s, u, "%u lanes before pass schedule", u->lanes);
  if (u->op == TG_OP_DEFINE && s->rank >= PLACED) {
    const tg_buffer *b = tg_buffer_info(s->j, u);
    if (b->space == TG_SPACE_REG && b->place == TG_PLACE_NONE) complain(s, u, "%s has no place", b->name);
  }
}

static void check_node(state *s, const tg_uop *u) {
  check_stage(s, u);
  if (tg_ops[u->op].flags & TG_OPF_W) check_lanewise(s, u);
  else if (u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH) check_access(s, u);
  else if (u->op == TG_OP_REDUCE) check_reduce(s, u);
  else if (u->op == TG_OP_WAIT) check_wait(s, u);
  else if (u->op == TG_OP_FOLD && (u->n != 1 || u->src[0]->lanes < 2 || u->lanes != 1))
    complain(s, u, "of %u lanes to %u", u->n ? u->src[0]->lanes : 0, u->lanes);
  else if (u->op == TG_OP_RANGE && (u->n != 1 || u->src[0]->type != u->type || u->lanes != 1)) complain(s, u, "extent");
  else if (u->op == TG_OP_AFTER &&
           (u->n != 3 || u->src[2]->op != TG_OP_DEFINE || tg_define_of(u->src[0]) != u->src[2] ||
            u->lanes != u->src[0]->lanes || u->type != u->src[0]->type ||
            (u->src[1]->op != TG_OP_STORE && u->src[1]->op != TG_OP_END && u->src[1]->op != TG_OP_RANGE &&
             u->src[1]->op != TG_OP_BARRIER && u->src[1]->op != TG_OP_WAIT)))
    complain(s, u, "effect");
  else if (u->op == TG_OP_SHUFFLE || u->op == TG_OP_MATRIX) {
    if ((int)u->n != tg_ops[u->op].arity) complain(s, u, "%u sources", u->n);
    else check_exchange(s, u);
  } else if (u->op == TG_OP_AHEAD) {
    if (u->n < 2 || u->type != u->src[0]->type || u->lanes != u->src[0]->lanes)
      complain(s, u, "type %s", tg_type_name[u->type]);
    for (uint32_t i = 1; i < u->n; i++)
      if (u->src[i]->op != TG_OP_PREFETCH) complain(s, u, "a %s where a prefetch stands", tg_ops[u->src[i]->op].name);
    if (s->rank >= REDUCED) complain(s, u, "left after pass reduce");
  } else if (u->op == TG_OP_IOTA && u->lanes < 1) complain(s, u, "no lanes");
}

/* ---- statements: scopes, versions, and in linear form the order of values ---- */

static bool list_open(const state *s, uint32_t list) {
  for (uint32_t i = 0; i <= s->depth; i++)
    if (s->open[i] == list) return true;
  return false;
}

/* Operands of a statement: every range is open or bound by a REDUCE, every version the current one. Each node is
 * visited once per statement list at most: what held there holds as long as no store changes a buffer. */
static void check_operands(state *s, const tg_uop *statement, uint32_t from) {
  TG_VEC(const tg_uop *) bound = {0};
  uint32_t epoch = ++s->ordinals;
  /* no value of its own */
  const tg_uop *copied = statement->op == TG_OP_STORE && statement->arg & TG_ASYNC ? tg_stored(statement) : NULL;
  for (uint32_t i = from; i < statement->n; i++) tg_push(&s->j->env, &s->stack, statement->src[i]);
  while (s->stack.n) {
    const tg_uop *u = s->stack.data[--s->stack.n];
    if (s->placed[u->id] == epoch) continue;
    s->placed[u->id] = epoch;
    if (u->op == TG_OP_REDUCE)
      for (uint32_t i = 0; i < tg_reduce_info(u).ranges; i++) tg_push(&s->j->env, &bound, tg_reduce_ranges(u)[i]);
    if (u->op == TG_OP_RANGE && !list_open(s, s->scope[u->id])) {
      bool is_bound = false;
      for (uint32_t i = 0; i < bound.n; i++) is_bound |= bound.data[i] == u;
      if (!is_bound)
        complain(s, statement, "range %s is used outside of its loop", s->j->ranges.data[tg_range_ordinal(u)].name);
    }
    if ((u->op == TG_OP_LOAD || u->op == TG_OP_PREFETCH) && s->current[tg_buffer_ordinal(u->src[0])] != u->src[0])
      complain(s, statement, "reads %s at a version that is not the current one",
               tg_buffer_info(s->j, u->src[0])->name);
    bool stop =
        u->op == TG_OP_AFTER || u->op == TG_OP_DEFINE || (u->op == TG_OP_RANGE && list_open(s, s->scope[u->id]));
    if (s->rank == LINEAR && tg_is_value(u) && u != copied) {
      if (!s->scope[u->id] || !list_open(s, s->scope[u->id]))
        complain(s, statement, "uses %%%u, which is no statement before it", u->id);
      stop = true;
    }
    for (uint32_t i = 0; i < u->n && !stop; i++) tg_push(&s->j->env, &s->stack, u->src[i]);
  }
}

static void note_effect(state *s, const tg_uop *version, const tg_uop *effect) {
  const tg_uop *src[3] = {version, effect, tg_define_of(version)};
  s->current[tg_buffer_ordinal(version)] = tg_make(s->j, TG_OP_AFTER, version->type, version->lanes, 0, 3, src);
}

static void mark_stored(const tg_job *j, const tg_uop *u, uint8_t *stored) {
  if (u->op == TG_OP_BARRIER || u->op == TG_OP_WAIT)
    for (uint32_t b = 0; b < j->buffers.n; b++) stored[b] |= tg_orders(j, b);
  if (u->op == TG_OP_STORE) stored[tg_buffer_ordinal(u->src[0])] = 1;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) mark_stored(j, u->src[i], stored);
}

static void check_statement(state *s, const tg_uop *u);

static void check_end(state *s, const tg_uop *u) {
  if (!u->n || u->src[0]->op != TG_OP_RANGE) {
    complain(s, u, "without a range");
    return;
  }
  const tg_uop *range = u->src[0];
  tg_kind k = tg_range_kind(range);
  if (s->range_seen[tg_range_ordinal(range)]++)
    complain(s, u, "two loops over range %s", s->j->ranges.data[tg_range_ordinal(range)].name);
  if (k == TG_MERGE && (s->rank >= SCHEDULE || !tg_is_const(tg_extent(range), 1)))
    complain(s, u, s->rank >= SCHEDULE ? "a merge after pass schedule" : "a merge is one block");
  for (uint32_t i = 1; i + 1 < u->n; i++)
    if (tg_is_merge(u->src[i])) complain(s, u, "a merge stands before other statements");
  if (s->rank >= EXPANDED && (k == TG_UPCAST || k == TG_UNROLL || ((k == TG_LANE || k == TG_LOCAL) && s->sequential)))
    complain(s, u, "a range of kind %s after pass expand", tg_kind_name[k]);
  if (s->rank >= REDUCED && k == TG_THREAD && s->others)
    complain(s, u, "a thread range inside a range of another kind than loop");
  check_operands(s, range, 0);
  if (s->depth + 1 == TG_COUNT(s->open)) return;
  uint8_t *stored = tg_new(&s->j->env, uint8_t, s->j->buffers.n + 1);
  const tg_uop **before = tg_new(&s->j->env, const tg_uop *, s->j->buffers.n + 1);
  memcpy(before, s->current, s->j->buffers.n * sizeof *before);
  mark_stored(s->j, u, stored);
  bool sequential = k != TG_GLOBAL && k != TG_LOCAL && k != TG_LANE;
  s->sequential += sequential;
  s->others += k != TG_LOOP;
  s->open[++s->depth] = ++s->lists;
  s->scope[range->id] = s->lists;
  for (uint32_t b = 0; b < s->j->buffers.n; b++)
    if (stored[b] && before[b]) note_effect(s, before[b], range);
  for (uint32_t i = 1; i < u->n; i++) check_statement(s, u->src[i]);
  s->depth--;
  s->sequential -= sequential;
  s->others -= k != TG_LOOP;
  for (uint32_t b = 0; b < s->j->buffers.n; b++)
    if (stored[b] && before[b]) note_effect(s, before[b], u);
}

static void check_statement(state *s, const tg_uop *u) {
  switch (u->op) {
  case TG_OP_DEFINE: s->current[tg_buffer_ordinal(u)] = u; return;
  case TG_OP_END: check_end(s, u); return;
  case TG_OP_BARRIER: case TG_OP_WAIT:
    if (s->scope[u->id]) complain(s, u, "stands in two places");
    s->scope[u->id] = s->open[s->depth];
    for (uint32_t b = 0; b < s->j->buffers.n; b++)
      if (s->current[b] && tg_orders(s->j, b)) note_effect(s, s->current[b], u);
    return;
  case TG_OP_PREFETCH:
    check_operands(s, u, 1);
    if (s->current[tg_buffer_ordinal(u->src[0])] != u->src[0])
      complain(s, u, "a prefetch of a version that is not the current one");
    return;
  case TG_OP_STORE:
    check_operands(s, u, 1);
    if (s->current[tg_buffer_ordinal(u->src[0])] != u->src[0])
      complain(s, u, "to %s at a version that is not the current one", tg_buffer_info(s->j, u->src[0])->name);
    else note_effect(s, u->src[0], u);
    return;
  default:
    if (s->rank != LINEAR || !tg_is_value(u)) {
      complain(s, u, "is no statement");
      return;
    }
    check_operands(s, u, u->op == TG_OP_LOAD);
    if (u->op == TG_OP_LOAD && s->current[tg_buffer_ordinal(u->src[0])] != u->src[0])
      complain(s, u, "a load of a version that is not the current one");
    s->scope[u->id] = s->open[s->depth];
  }
}

static void check_order(state *s, const tg_uop *sink, tg_authored *author) {
  /* after these stages other faults are searched, so an unchanged program is checked again */
  if (author && author->held == sink && s->rank != SCHEDULE && s->rank != EXPANDED && s->rank != LINEAR) return;
  tg_order_faults found;
  tg_find_order_faults(s->j, sink, s->stage, author, &found);
  for (uint32_t i = 0; i < found.n; i++) complain(s, found.at[i], "%s", found.text[i]);
  if (author && !found.n) author->held = sink;
}

/* The violations as text, and how many there are. ordered: those of order, too. */
static uint32_t find_violations(tg_job *j, const tg_uop *sink, const char *stage, bool ordered, tg_authored *author,
                                tg_str *out) {
  uint32_t n = j->uops.n;
  state s = {.j = j,
             .stage = stage,
             .rank = AUTHOR,
             .out = tg_str_new(&j->env),
             .scope = tg_new(&j->env, uint32_t, n),
             .lists = 1,
             .current = tg_new(&j->env, const tg_uop *, j->buffers.n + 1),
             .range_seen = tg_new(&j->env, uint8_t, j->ranges.n + 1),
             .placed = tg_new(&j->env, uint32_t, n)};
  if (tg_stage_index(stage) > AUTHOR) s.rank = tg_stage_index(stage);
  s.open[0] = 1;
  if (sink->op != TG_OP_SINK) tg_bug(&j->env, "after pass %s: the root is a %s", stage, tg_ops[sink->op].name);
  tg_sweep w = tg_sweep_of(j, sink);
  s.remote = tg_new(&j->env, uint8_t, n);
  for (uint32_t i = 0; i < w.n; i++) {
    const tg_uop *u = w.u[i];
    s.remote[u->id] = u->op == TG_OP_LOAD && tg_orders(j, tg_buffer_ordinal(u->src[0]));
    for (uint32_t k = u->op == TG_OP_LOAD; k < u->n && u->op != TG_OP_AFTER && u->op != TG_OP_END; k++)
      s.remote[u->id] |= s.remote[u->src[k]->id];
    check_node(&s, u);
  }
  if (!s.violations)
    for (uint32_t i = 0; i < sink->n; i++) check_statement(&s, sink->src[i]);
  /* the author's program may be wrong, which pass prove reports */
  if (ordered && !s.violations && s.rank >= RAISE) check_order(&s, sink, author);
  *out = s.out;
  return s.violations;
}

void tg_verify(tg_job *j, const tg_uop *sink, const char *stage, tg_authored *author) {
  tg_str out;
  uint32_t n = find_violations(j, sink, stage, true, author, &out);
  if (!n) return;
  tg_str_puts(&out, "in\n");
  tg_print(j, &out, sink);
  tg_bug(&j->env, "after pass %s, %u violations:\n%s", stage, n, out.data);
}

void tg_take_given(tg_job *j, const tg_uop *sink, const char *stage) {
  tg_str out;
  for (uint32_t i = 0; i < j->buffers.n && tg_stage_index(stage) >= PLACED; i++)
    if (!j->buffers.data[i].place) j->buffers.data[i].place = j->buffers.data[i].demand;
  /* whether iterations may run at a time was said before the text was written: the interpreter sees races */
  if (!find_violations(j, sink, stage, false, NULL, &out)) return;
  tg_fail(&j->env, TG_EINVAL, "error: %s: this is no program of stage %s, which only tg writes:\n%s", j->name, stage,
          out.data);
}
