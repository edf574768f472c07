/* SPDX-License-Identifier: MIT
 * From the graph to flat code. Each statement is a unit: its nodes are listed operands first, each gets a slot, and is
 * put into the main block or into the body of the innermost reduction whose ranges it uses. Extents and combiners are
 * units of their own, compiled after the unit that needs them. */
#include <math.h>
#include "dsl/functions.h"
#include "interp/code.h"

struct tg_interp_work {
  tg_interp_work *next;
  uint32_t n, args_n;
  const tg_uop *const *roots;
  const uint32_t *args;
  tg_block *block;
  tg_operand *results;
  bool exchanged;
};

void tg_compiler_init(tg_interp_compiler *c, tg_job *j, const int64_t *params) {
  uint32_t n = j->uops.n + 1, r = j->ranges.n + 1;
  *c = (tg_interp_compiler){.j = j, .params = params};
  c->fixed = tg_new(&j->env, uint32_t, n);
  c->slot = tg_new(&j->env, uint32_t, n);
  c->stamp = tg_new(&j->env, uint32_t, n);
  c->height = tg_new(&j->env, uint8_t, n);
  c->mask = tg_new(&j->env, uint64_t, n);
  c->certain = tg_new(&j->env, uint8_t, n);
  c->inside = tg_new(&j->env, const tg_uop *, n);
  c->walked = tg_new(&j->env, uint32_t, n);
  c->range_slot = tg_new(&j->env, uint32_t, r);
  c->range_height = tg_new(&j->env, uint8_t, r);
  c->range_epoch = tg_new(&j->env, uint32_t, r);
  c->kept = tg_new(&j->env, tg_kept *, n);
}

static uint32_t new_slots(tg_interp_compiler *c, uint32_t lanes) {
  uint32_t at = c->slots;
  if (lanes > (1u << 30) - at) tg_fail(&c->j->env, TG_ELIMIT, "the interpreter's program needs over 2^30 values");
  c->slots += lanes;
  return at;
}

uint32_t tg_interp_slot_of_range(tg_interp_compiler *c, uint32_t ordinal) {
  if (!c->range_slot[ordinal]) c->range_slot[ordinal] = new_slots(c, 1) + 1;
  return c->range_slot[ordinal] - 1;
}

uint32_t tg_interp_sources(const tg_uop *u, uint32_t *from) {
  *from = u->op == TG_OP_LOAD || u->op == TG_OP_STORE;
  if (u->op == TG_OP_RANGE || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_ARG) return 0;
  if (u->op == TG_OP_SHUFFLE) return u->src[1]->op == TG_OP_RANGE ? 1 : 2;
  if (u->op == TG_OP_MATRIX) return 0;
  if (u->op == TG_OP_AHEAD) return 1;
  if (u->op != TG_OP_REDUCE) return u->n;
  tg_reduce_arg a = tg_reduce_info(u);
  return a.values * (a.generic ? 2u : 1u) + a.ranges;
}

const tg_uop *tg_interp_source(const tg_uop *u, uint32_t i) {
  if (u->op == TG_OP_SHUFFLE) return u->src[u->src[1]->op == TG_OP_RANGE ? 2 : 2 * i];
  if (u->op != TG_OP_REDUCE) return u->src[i];
  tg_reduce_arg a = tg_reduce_info(u);
  uint32_t values = a.values * (a.generic ? 2u : 1u);
  return i < values ? u->src[i] : tg_extent(tg_reduce_ranges(u)[i - values]);
}

typedef struct { const tg_uop *u; uint32_t next, end; } frame;

static void push_frame(tg_interp_compiler *c, void *stack, const tg_uop *u) {
  TG_VEC(frame) *s = stack;
  frame f = {.u = u};
  f.end = tg_interp_sources(u, &f.next);
  c->stamp[u->id] = c->epoch;
  tg_push(&c->j->env, s, f);
}

static void list_nodes(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots) {
  TG_VEC(frame) stack = {0};
  c->order.n = 0;
  for (uint32_t r = 0; r < n; r++) {
    if (c->fixed[roots[r]->id] || c->stamp[roots[r]->id] == c->epoch) continue;
    push_frame(c, &stack, roots[r]);
    while (stack.n) {
      frame *f = &stack.data[stack.n - 1];
      if (f->next >= f->end) {
        tg_push(&c->j->env, &c->order, f->u);
        stack.n--;
        continue;
      }
      const tg_uop *s = tg_interp_source(f->u, f->next++);
      if (!c->fixed[s->id] && c->stamp[s->id] != c->epoch) push_frame(c, &stack, s);
    }
  }
}

static const tg_uop unvisited;

static const tg_uop *innermost_of_both(const tg_interp_compiler *c, const tg_uop *a, const tg_uop *b) {
  while (a != b) {
    const tg_uop **lower = !b || (a && c->height[a->id] <= c->height[b->id]) ? &a : &b;
    *lower = c->inside[(*lower)->id];
  }
  return a;
}

static bool may_be_idle(const tg_uop *u) {
  for (uint32_t i = 0; u->op == TG_OP_REDUCE && i < tg_reduce_info(u).ranges; i++) {
    const tg_uop *extent = tg_extent(tg_reduce_ranges(u)[i]);
    if (extent->op != TG_OP_CONST || extent->arg <= 0) return true;
  }
  return false;
}

/* Where u uses its source number k: inside u itself, if u is a reduction that may be idle (have no iteration) and the
 * source is its value. */
static const tg_uop *place_of_use(const tg_interp_compiler *c, const tg_uop *u, uint32_t k) {
  return may_be_idle(u) && k < tg_reduce_info(u).values ? u : c->inside[u->id];
}

/* Goes from users to sources. A node that several reductions use which may be idle is computed outside of them, and it
 * is not certain that its value is used. */
static void find_insides(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots) {
  for (uint32_t i = 0; i < c->order.n; i++)
    c->inside[c->order.data[i]->id] = &unvisited, c->certain[c->order.data[i]->id] = 0;
  for (uint32_t i = 0; i < n; i++) c->inside[roots[i]->id] = NULL, c->certain[roots[i]->id] = 1;
  for (uint32_t pass = 0; pass < 2; pass++)
    for (uint32_t i = c->order.n; i-- > 0;) {
      const tg_uop *u = c->order.data[i];
      uint32_t from, end = tg_interp_sources(u, &from);
      for (uint32_t k = from; k < end; k++) {
        const tg_uop *v = tg_interp_source(u, k), *in = place_of_use(c, u, k);
        if (c->fixed[v->id]) continue;
        if (!pass) c->inside[v->id] = c->inside[v->id] == &unvisited ? in : innermost_of_both(c, c->inside[v->id], in);
        else c->certain[v->id] |= (in == u || c->certain[u->id]) && in == c->inside[v->id];
      }
    }
}

/* A load inside a reduction that may be idle is not moved out of it: perhaps only an iteration makes its subscripts
 * legal. */
static uint64_t held_by(const tg_interp_compiler *c, const tg_uop *load) {
  uint64_t m = 0;
  for (const tg_uop *r = c->inside[load->id]; r; r = c->inside[r->id]) m |= (uint64_t)1 << c->height[r->id];
  return m;
}

/* A SHUFFLE's value is separate code, run at the SHUFFLE: so that must be in the reductions whose ranges it uses. */
static uint64_t exchanged_ranges(tg_interp_compiler *c, const tg_uop *u) {
  TG_VEC(const tg_uop *) stack = {0};
  uint64_t m = 0;
  c->walk++;
  tg_push(&c->j->env, &stack, u->src[0]);
  while (stack.n) {
    const tg_uop *v = stack.data[--stack.n];
    if (c->walked[v->id] == c->walk) continue;
    c->walked[v->id] = c->walk;
    uint32_t o = v->op == TG_OP_RANGE ? tg_range_ordinal(v) : 0;
    if (v->op == TG_OP_RANGE && c->range_epoch[o] == c->epoch) m |= (uint64_t)1 << c->range_height[o];
    for (uint32_t i = v->op == TG_OP_LOAD; i < v->n; i++) tg_push(&c->j->env, &stack, v->src[i]);
  }
  return m;
}

/* Which reductions' ranges each node uses, as a set of heights of reductions: those in one nest have different
 * heights. */
static void find_bodies(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots) {
  for (uint32_t i = 0; i < c->order.n; i++) {
    const tg_uop *u = c->order.data[i];
    uint32_t from, end = tg_interp_sources(u, &from);
    uint8_t h = 0;
    for (uint32_t k = from; k < end; k++) {
      const tg_uop *v = tg_interp_source(u, k);
      if (!c->fixed[v->id] && c->height[v->id] > h) h = c->height[v->id];
    }
    if (u->op == TG_OP_REDUCE) {
      if (++h >= 63) tg_fail(&c->j->env, TG_ELIMIT, "reductions nested more than 62 deep");
      for (uint32_t k = 0; k < tg_reduce_info(u).ranges; k++) {
        uint32_t o = tg_range_ordinal(tg_reduce_ranges(u)[k]);
        c->range_height[o] = h;
        c->range_epoch[o] = c->epoch;
      }
    }
    c->height[u->id] = h;
  }
  find_insides(c, n, roots);
  for (uint32_t i = 0; i < c->order.n; i++) {
    const tg_uop *u = c->order.data[i];
    uint32_t from, end = tg_interp_sources(u, &from), o = u->op == TG_OP_RANGE ? tg_range_ordinal(u) : 0;
    uint64_t m = u->op == TG_OP_RANGE && c->range_epoch[o] == c->epoch ? (uint64_t)1 << c->range_height[o] : 0;
    for (uint32_t k = from; k < end; k++)
      if (!c->fixed[tg_interp_source(u, k)->id]) m |= c->mask[tg_interp_source(u, k)->id];
    if (u->op == TG_OP_REDUCE) m &= ~((uint64_t)1 << c->height[u->id]);
    if (u->op == TG_OP_SHUFFLE && u->src[1]->op == TG_OP_RANGE) m |= exchanged_ranges(c, u) | held_by(c, u);
    if (u->op == TG_OP_LOAD) m |= held_by(c, u);
    c->mask[u->id] = m;
  }
}

static tg_operand operand(tg_interp_compiler *c, const tg_uop *u) {
  if (c->fixed[u->id] && c->kept[u->id]) {
    uint32_t i = 0;
    while (i < c->uses.n && c->uses.data[i] != c->kept[u->id]) i++;
    if (i == c->uses.n) tg_push(&c->j->env, &c->uses, c->kept[u->id]);
  }
  uint32_t at = c->fixed[u->id] ? c->fixed[u->id] : c->slot[u->id];
  if (!at) tg_bug(&c->j->env, "interpreter: %s has no value where it is used", tg_ops[u->op].name);
  return (tg_operand){at - 1, u->lanes > 1};
}

static void later(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots, tg_block *block, tg_operand *results,
                  uint32_t args_n, const uint32_t *args) {
  tg_interp_work *w = tg_new(&c->j->env, tg_interp_work, 1);
  *w = (tg_interp_work){c->work, n, args_n, roots, args, block, results, false};
  c->work = w;
}

static const tg_callee *callee_of(tg_interp_compiler *c, tg_op op, tg_type type) {
  for (uint32_t i = 0; i < c->callees.n; i++)
    if (c->callees.data[i]->op == op && c->callees.data[i]->type == type) return c->callees.data[i];
  tg_callee *f = tg_new(&c->j->env, tg_callee, 1);
  *f = (tg_callee){.op = op, .type = type, .arg = new_slots(c, 2)};
  tg_push(&c->j->env, &c->callees, f);
  const tg_uop **root = tg_new(&c->j->env, const tg_uop *, 1);
  uint32_t *args = tg_new(&c->j->env, uint32_t, 2);
  args[0] = f->arg;
  args[1] = f->arg + 1;
  *root = tg_function_definition(c->j, op, type);
  if (!*root) tg_bug(&c->j->env, "interpreter: %s has no definition at %s", tg_ops[op].name, tg_type_name[type]);
  later(c, 1, root, &f->block, &f->result, 2, args);
  return f;
}

static bool in_register(tg_job *j, const tg_uop *access) {
  return tg_buffer_info(j, access->src[0])->space == TG_SPACE_REG;
}

static const tg_interp_access *access_of(tg_interp_compiler *c, const tg_uop *u) {
  tg_interp_access *a = tg_new(&c->j->env, tg_interp_access, 1);
  *a = (tg_interp_access){.u = u,
                          .buffer = tg_buffer_ordinal(u->src[0]),
                          .rank = tg_access_rank(u),
                          .gated = tg_gate(u) != NULL,
                          .unsure = u->op == TG_OP_LOAD && !c->certain[u->id],
                          .atomic = u->op == TG_OP_STORE && u->arg & TG_ATOMIC,
                          .async = u->op == TG_OP_STORE && u->arg & TG_ASYNC,
                          .lanes = 1,
                          .ahead = u == c->ahead || (c->exchanged && in_register(c->j, u))};
  tg_assert(&c->j->env, a->rank <= 16);
  for (uint32_t i = 0; i < a->rank; i++) {
    a->index[i] = operand(c, u->src[1 + i]);
    if (u->src[1 + i]->lanes > a->lanes) a->lanes = u->src[1 + i]->lanes;
  }
  const tg_uop *value = u->op == TG_OP_STORE ? tg_stored(u) : tg_alternative(u), *gate = tg_gate(u);
  if (value) a->value = operand(c, value);
  if (gate) {
    a->gate = operand(c, gate);
    if (gate->lanes > a->lanes) a->lanes = gate->lanes;
  }
  uint32_t element = tg_define_of(u->src[0])->lanes, most = u->op == TG_OP_LOAD ? u->lanes : value->lanes;
  if (most > a->lanes) a->lanes = most;
  if (element > a->lanes) a->lanes = element;
  return a;
}

/* The value of tg_identity, without making a node: the run's memory is freed at its end. */
static tg_value identity_of(tg_op op, tg_type t) {
  bool is_float = tg_is_float(t), is_signed = tg_is_signed(t);
  int bits = t == TG_INDEX ? 64 : tg_type_bits(t);
  tg_i128 low = is_signed ? -((tg_i128)1 << (bits - 1)) : 0, high = ((tg_i128)1 << (bits - is_signed)) - 1;
  tg_value v = {0};
  switch (op) {
  case TG_OP_MUL:
    if (is_float) v.f = 1;
    else v.i = 1;
    return v;
  case TG_OP_AND: v.i = t == TG_INDEX ? -1 : tg_wrap(t, -1); return v;
  case TG_OP_MAX: case TG_OP_MIN:
    if (is_float) v.f = op == TG_OP_MAX ? tg_round_to(t, -INFINITY) : tg_round_to(t, INFINITY);
    else v.i = op == TG_OP_MAX ? low : high;
    return v;
  default: return v;
  }
}

static tg_reduction *reduction_of(tg_interp_compiler *c, const tg_uop *u, tg_block body, uint32_t dst) {
  tg_job *j = c->j;
  tg_reduction *r = tg_new(&j->env, tg_reduction, 1);
  tg_reduce_arg a = tg_reduce_info(u);
  r->u = u;
  r->info = a;
  r->body = body;
  for (uint32_t i = 0; i < a.ranges; i++) {
    const tg_uop *range = tg_reduce_ranges(u)[i];
    r->ordinal[i] = tg_range_ordinal(range);
    r->range[i] = tg_interp_slot_of_range(c, r->ordinal[i]);
    r->kind[i] = tg_range_kind(range);
    later(c, 1, &range->src[0], &r->extent[i].block, &r->extent[i].result, 0, NULL);
  }
  uint32_t *args = tg_new(&j->env, uint32_t, 2 * a.values);
  for (uint32_t i = 0; i < a.values; i++) {
    r->value[i] = operand(c, u->src[i]);
    r->lanes[i] = u->src[i]->lanes;
    r->type[i] = u->src[i]->type;
    r->dst[i] = dst + r->width;
    r->width += r->lanes[i];
    if (!a.generic) continue;
    r->init[i] = operand(c, u->src[a.values + i]);
    args[i] = r->left[i] = new_slots(c, r->lanes[i]);
    args[a.values + i] = r->right[i] = new_slots(c, r->lanes[i]);
  }
  if (a.generic) later(c, a.values, u->src + 2 * a.values, &r->combine, r->combined, 2u * a.values, args);
  else r->identity = identity_of(a.op, r->type[0]);
  return r;
}

static void preset(tg_interp_compiler *c, const tg_uop *u) {
  tg_preset p = {.at = new_slots(c, u->lanes), .lanes = u->lanes, .iota = u->op == TG_OP_IOTA};
  if (u->op == TG_OP_CONST) p.value = tg_value_of(u);
  if (u->op == TG_OP_PARAM) {
    if (!c->params)
      tg_fail(&c->j->env, TG_EINVAL, "the interpreter has no value for parameter %s", c->j->params.data[u->arg].name);
    p.value.i = c->params[u->arg];
  }
  tg_push(&c->j->env, &c->presets, p);
  c->fixed[u->id] = p.at + 1;
}

static tg_code_kind code_of(const tg_uop *u) {
  if (u->op == TG_OP_LOAD) return C_LOAD;
  if (u->op == TG_OP_CAST) return C_CAST;
  if (u->op == TG_OP_BITCAST) return C_BITCAST;
  if (u->op == TG_OP_FOLD) return C_FOLD;
  if (u->op == TG_OP_REDUCE) return C_REDUCE;
  if (u->op == TG_OP_SHUFFLE) return u->src[1]->op == TG_OP_RANGE ? C_SHUFFLE : C_PERMUTE;
  if (u->op == TG_OP_MATRIX) return C_MATRIX;
  if (tg_is_function(u->op)) return C_CALL;
  if (u->op == TG_OP_WHERE) return C_WHERE;
  if (u->op == TG_OP_FMA) return u->type == TG_F32 ? C_FMA : u->type == TG_F64 ? C_DMA : C_OP;
  if (u->n && tg_is_float(u->src[u->n - 1]->type))
    return u->type != TG_F32    ? C_OP
           : u->op == TG_OP_ADD ? C_FADD
           : u->op == TG_OP_SUB ? C_FSUB
           : u->op == TG_OP_MUL ? C_FMUL
                                : C_OP;
  bool index = u->type == TG_INDEX;
  switch (u->op) {
  case TG_OP_ADD: return index ? C_IADD : C_WADD;
  case TG_OP_SUB: return index ? C_ISUB : C_WSUB;
  case TG_OP_MUL: return index ? C_IMUL : C_WMUL;
  case TG_OP_AND: return C_AND;
  case TG_OP_OR: return C_OR;
  case TG_OP_MIN: return C_MIN;
  case TG_OP_MAX: return C_MAX;
  case TG_OP_LT: return C_LT;
  case TG_OP_LE: return C_LE;
  case TG_OP_EQ: return C_EQ;
  case TG_OP_NE: return C_NE;
  case TG_OP_IDIV: return C_IDIV;
  case TG_OP_MOD: return C_MOD;
  case TG_OP_CDIV: return C_CDIV;
  case TG_OP_CMOD: return C_CMOD;
  default: return C_OP;
  }
}

static const tg_exchange *exchange_of(tg_interp_compiler *c, const tg_uop *u) {
  tg_exchange *x = tg_new(&c->j->env, tg_exchange, 1);
  c->exchanges++;
  *x = (tg_exchange){.u = u};
  if (u->op == TG_OP_SHUFFLE) {
    x->ordinal = tg_range_ordinal(u->src[1]);
    x->index = operand(c, u->src[2]);
    later(c, 1, u->src, &x->value.block, &x->value.result, 0, NULL);
    c->work->exchanged = true;
    return x;
  }
  x->range = u->src[3]->op == TG_OP_RANGE;
  if (x->range) x->ordinal = tg_range_ordinal(u->src[3]);
  x->instruction = tg_instruction_find(tg_matrix_name(c->j, u));
  if (!x->instruction) tg_fail(&c->j->env, TG_EINVAL, "'%s' is no matrix instruction", tg_matrix_name(c->j, u));
  for (int i = 0; i < 3; i++)
    if (u->src[i]->lanes != 1 && u->src[i]->lanes != tg_instruction_registers(x->instruction, i))
      tg_fail(&c->j->env, TG_EINVAL, "%s has %u elements of %c in each lane, not %u", tg_matrix_name(c->j, u),
              tg_instruction_registers(x->instruction, i), "abc"[i], u -> src[i] -> lanes);
  later(c, 3, u->src, &x->operands, x->operand, 0, NULL);
  return x;
}

static void emit_get(tg_interp_compiler *c, const tg_uop *u) {
  uint32_t at = operand(c, u->src[0]).at;
  for (int64_t i = 0; i < u->arg; i++) at += u->src[0]->src[i]->lanes;
  c->slot[u->id] = at + 1;
}

static void emit(tg_interp_compiler *c, const tg_uop *u) {
  tg_job *j = c->j;
  switch (u->op) {
  case TG_OP_CONST: case TG_OP_PARAM: case TG_OP_IOTA: preset(c, u); return;
  case TG_OP_RANGE: c->slot[u->id] = tg_interp_slot_of_range(c, tg_range_ordinal(u)) + 1; return;
  case TG_OP_ARG:
    if (u->arg < 0 || u->arg >= c->args_n)
      tg_bug(&j->env, "interpreter: ARG %lld outside of a combiner", (long long)u->arg);
    c->slot[u->id] = c->args[u->arg] + 1;
    return;
  case TG_OP_GET: emit_get(c, u); return;
  case TG_OP_AHEAD: c->slot[u->id] = operand(c, u->src[0]).at + 1; return;
  case TG_OP_STORE: return;
  default: break;
  }
  tg_instr x = {.code = (uint8_t)code_of(u), .op = (uint8_t)u->op, .type = u->type, .lanes = u->lanes};
  uint32_t width = u->lanes, home = c->mask[u->id] ? (uint32_t)__builtin_ctzll(c->mask[u->id]) : 0;
  if (u->op == TG_OP_REDUCE && tg_reduce_info(u).generic)
    for (uint32_t i = width = 0; i < tg_reduce_info(u).values; i++) width += u->src[i]->lanes;
  x.dst = new_slots(c, width);
  if (x.code == C_REDUCE) {
    uint32_t h = c->height[u->id];
    tg_block body = {.n = c->pending[h].n};
    body.code = tg_new(&j->env, tg_instr, body.n + 1);
    if (body.n) memcpy(body.code, c->pending[h].data, sizeof *body.code * body.n);
    c->pending[h].n = 0;
    tg_count_block(&body);
    tg_reduction *r = reduction_of(c, u, body, x.dst);
    r->results = home ? NULL : tg_remembered_of(c, u, r->width);
    x.extra = r;
  } else if (x.code == C_LOAD) x.extra = access_of(c, u);
  else if (x.code == C_SHUFFLE || x.code == C_MATRIX) x.extra = exchange_of(c, u);
  else if (x.code == C_PERMUTE) {
    x.src[0] = operand(c, u->src[0]);
    x.src[1] = operand(c, u->src[2]);
    x.extra = u->src[1];
  }
  else {
    if (!(tg_ops[u->op].flags & TG_OPF_W) && u->op != TG_OP_FOLD)
      tg_bug(&j->env, "interpreter: %s is no value", tg_ops[u->op].name);
    tg_assert(&j->env, u->n <= 3 && u->n >= 1);
    for (uint32_t i = 0; i < u->n; i++) x.src[i] = operand(c, u->src[i]);
    x.from = u->src[u->n - 1]->type;
    if (x.code == C_CALL) x.extra = callee_of(c, u->op, u->type);
    if (x.code == C_FOLD) {
      x.op = (uint8_t)u->arg;
      x.lanes = u->src[0]->lanes;
    }
  }
  c->slot[u->id] = x.dst + 1;
  if (home) tg_push(&j->env, &c->pending[home], x);
  else tg_push(&j->env, &c->main, x);
}

/* ---- what need not be computed in each combination ---- */

static uint32_t depth_of(const tg_interp_compiler *c, uint32_t slot) {
  return slot < c->depth.n ? c->depth.data[slot] : 0;
}

static void set_depth(tg_interp_compiler *c, uint32_t slot, uint32_t lanes, uint32_t depth) {
  while (depth && c->depth.n < slot + lanes) tg_push(&c->j->env, &c->depth, 0);
  for (uint32_t l = 0; l < lanes && slot + l < c->depth.n; l++) c->depth.data[slot + l] = (uint8_t)depth;
}

/* Loads, and what reads other lanes or counts what it does, run in each combination. */
static uint32_t depth_of_instruction(const tg_interp_compiler *c, const tg_instr *x) {
  bool one = x->code == C_CAST || x->code == C_BITCAST;
  uint32_t depth = 0, n = one ? 1 : x->code <= C_CMOD ? (uint32_t)tg_ops[x->op].arity : 0;
  for (uint32_t i = 0; i < n; i++)
    if (depth_of(c, x->src[i].at) > depth) depth = depth_of(c, x->src[i].at);
  return n && depth < c->locks ? depth : c->locks;   /* a slot may have been a deeper statement's value before */
}

/* Sorts the code of a statement by depth; what is of one depth stays in its order. An instruction's operands are of no
 * greater depth. */
static void sort_by_depth(tg_interp_compiler *c, tg_block *b) {
  if (!c->locks) return;
  tg_instr *sorted = tg_new(&c->j->env, tg_instr, b->n + 1);
  uint32_t *start = tg_new(&c->j->env, uint32_t, c->locks + 1), n = 0;
  uint8_t *depth = tg_new(&c->j->env, uint8_t, b->n + 1);
  for (uint32_t i = 0; i < b->n; i++) {
    const tg_instr *x = &b->code[i];
    uint32_t width = x->code == C_REDUCE ? ((const tg_reduction *)x->extra)->width : x->code == C_FOLD ? 1 : x->lanes;
    depth[i] = (uint8_t)depth_of_instruction(c, x);
    set_depth(c, x->dst, width, depth[i]);
  }
  for (uint32_t d = 0; d <= c->locks; d++) {
    start[d] = n;
    for (uint32_t i = 0; i < b->n; i++)
      if (depth[i] == d) sorted[n++] = b->code[i];
  }
  b->code = sorted, b->start = start;
}

/* Lists the kept values that the unit's operands use. */
static void unit_uses(tg_interp_compiler *c, tg_block *b) {
  tg_kept **kept = tg_new(&c->j->env, tg_kept *, c->uses.n + 1);
  if (c->uses.n) memcpy(kept, c->uses.data, c->uses.n * sizeof *kept);
  b->kept = kept;
  b->kept_n = c->uses.n;
}

static tg_block compile_unit(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots, tg_operand *results,
                             uint32_t args_n, const uint32_t *args) {
  c->epoch++;
  c->args = args;
  c->args_n = args_n;
  c->main.n = c->uses.n = 0;
  list_nodes(c, n, roots);
  find_bodies(c, n, roots);
  for (uint32_t i = 0; i < c->order.n; i++) emit(c, c->order.data[i]);
  tg_block b = {.n = c->main.n};
  b.code = tg_new(&c->j->env, tg_instr, b.n + 1);
  if (b.n) memcpy(b.code, c->main.data, sizeof *b.code * b.n);
  tg_count_block(&b);
  for (uint32_t i = 0; results && i < n; i++) results[i] = operand(c, roots[i]);
  unit_uses(c, &b);
  return b;
}

static void finish_work(tg_interp_compiler *c) {
  while (c->work) {
    tg_interp_work *w = c->work;
    c->work = w->next;
    c->exchanged = w->exchanged;
    *w->block = compile_unit(c, w->n, w->roots, w->results, w->args_n, w->args);
    c->exchanged = false;
  }
}

tg_block tg_compile_roots(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots, tg_operand *results,
                          uint32_t args_n, const uint32_t *args) {
  tg_block b = compile_unit(c, n, roots, results, args_n, args);
  finish_work(c);
  return b;
}

static tg_formula formula(tg_interp_compiler *c, const tg_uop *u) {
  tg_formula f;
  f.block = tg_compile_roots(c, 1, &u, &f.result, 0, NULL);
  return f;
}

/* A loop: what was computed in its statements is not at hand behind it. */
static void loop_of(tg_interp_compiler *c, const tg_uop *u, tg_step *s) {
  const tg_uop *r = u->src[0];
  s->kind = S_LOOP;
  s->formulas = tg_new(&c->j->env, tg_formula, 1);
  s->formulas[s->formulas_n++] = formula(c, tg_extent(r));
  s->ordinal = tg_range_ordinal(r);
  s->range = tg_interp_slot_of_range(c, s->ordinal);
  s->range_kind = tg_range_kind(r);
  uint32_t done = c->done.n;
  bool lockstep = s->range_kind == TG_LOCAL || s->range_kind == TG_LANE || s->range_kind == TG_UPCAST;
  c->locks += lockstep;
  if (lockstep) set_depth(c, s->range, 1, c->locks);
  s->children = tg_compile_list(c, u->n - 1, u->src + 1);
  if (lockstep) set_depth(c, s->range, 1, 0);
  c->locks -= lockstep;
  for (; c->done.n > done; c->done.n--) {
    const tg_done *d = &c->done.data[c->done.n - 1];
    c->fixed[d->id] = d->fixed;
    c->kept[d->id] = d->kept;
  }
  s->n = u->n - 1;
}

static tg_step compile_step(tg_interp_compiler *c, const tg_uop *u) {
  tg_job *j = c->j;
  tg_step s = {.u = u, .kind = S_VALUE};
  if (u->op == TG_OP_DEFINE) {
    const tg_buffer *b = tg_buffer_info(j, u);
    s.kind = S_DEFINE;
    s.formulas = tg_new(&j->env, tg_formula, u->n + 3);
    for (uint32_t i = 0; i < u->n; i++) s.formulas[s.formulas_n++] = formula(c, u->src[i]);
    if (b->lo) {
      s.formulas[s.formulas_n++] = formula(c, b->lo);
      s.formulas[s.formulas_n++] = formula(c, b->hi);
    }
  } else if (u->op == TG_OP_END) {
    loop_of(c, u, &s);
  } else if (u->op == TG_OP_STORE) {
    uint32_t exchanges = c->exchanges;
    s.kind = S_STORE;
    s.block = compile_unit(c, u->n - 1, u->src + 1, NULL, 0, NULL);
    s.access = access_of(c, u);
    unit_uses(c, &s.block);
    sort_by_depth(c, &s.block);
    finish_work(c);
    s.exchanges = c->exchanges > exchanges;
  } else if (u->op == TG_OP_BARRIER || u->op == TG_OP_PREFETCH || u->op == TG_OP_WAIT)
    s.kind = u->op == TG_OP_BARRIER ? S_BARRIER : u->op == TG_OP_WAIT ? S_WAIT : S_PREFETCH;
  else {
    tg_operand at;
    tg_push(&j->env, &c->done, ((tg_done){u->id, c->fixed[u->id], c->kept[u->id]}));
    c->fixed[u->id] = 0;
    c->ahead = c->locks && u->op == TG_OP_LOAD && in_register(j, u) ? u : NULL;
    s.block = tg_compile_roots(c, 1, &u, &at, 0, NULL);
    c->ahead = NULL;
    c->fixed[u->id] = at.at + 1;
    c->kept[u->id] = NULL;
    if (c->locks) {
      s.kept = tg_new(&j->env, tg_kept, 1);
      *s.kept = (tg_kept){.slot = at.at, .lanes = u->lanes, .locks = c->locks};
      c->kept[u->id] = s.kept;
      sort_by_depth(c, &s.block);
      set_depth(c, at.at, u->lanes, c->locks);
    }
  }
  return s;
}

tg_step *tg_compile_list(tg_interp_compiler *c, uint32_t n, const tg_uop *const *statements) {
  tg_step *s = tg_new(&c->j->env, tg_step, n + 1);
  for (uint32_t i = 0; i < n; i++) s[i] = compile_step(c, statements[i]);
  return s;
}

tg_value *tg_compiled_slots(tg_interp_compiler *c) {
  tg_value *v = tg_new(&c->j->env, tg_value, c->slots + 1);
  for (uint32_t i = 0; i < c->presets.n; i++) {
    const tg_preset *p = &c->presets.data[i];
    for (uint32_t l = 0; l < p->lanes; l++)
      if (p->iota) v[p->at + l].i = l;
      else v[p->at + l] = p->value;
  }
  return v;
}
