/* SPDX-License-Identifier: MIT
 * Pass place: where each define_reg lives. ssa: all subscripts of all accesses are constant, all accesses have one
 * width and are aligned to it, and the tile fits the register file; its elements then are values, without memory.
 * Otherwise memory, in the workspace of the task; windowed memory if a loop keeps some elements in registers while it
 * runs (place_window.c).
 *
 * A tile whose last dimension is always accessed as `c + iota` of one width becomes a tile of vectors of that width
 * with constant subscripts. A register that several phases use becomes LOCAL memory, which tasks share. A demand for
 * ssa that cannot be met fails with the reason. Ends with a simplification, if there is anything to simplify. */
#include "lower/sweep.h"

typedef struct {
  const tg_uop *define;
  uint32_t width;              /* lanes of its vector accesses; 0: no access seen yet */
  const char *why;             /* reason why it cannot be ssa; NULL: it can */
  int32_t phase;               /* number of the phase that uses it; -1: none, -2: several */
  uint32_t loop;               /* number of the loop of phases that defines it; 0: the SINK */
  bool between;                /* defined in no phase */
  bool vectors;                /* re-made with vector elements */
  bool carried;                /* some loop reads elements that it stored, in this iteration or an earlier one */
  const tg_uop *remade;
} reg;

typedef struct { tg_job *j; reg *regs; } state;

/* Is sub of the form c, c + iota(width) or iota(width)? at gets c (0 if there is none). */
static bool constant_subscript(tg_job *j, const tg_uop *sub, uint32_t *width, int64_t *at) {
  if (sub->op == TG_OP_CONST) {
    *width = 1;
    *at = sub->arg;
    return true;
  }
  if (sub->op == TG_OP_IOTA) {
    *width = sub->lanes;
    *at = 0;
    return true;
  }
  tg_linear t;
  tg_linear_of(j, sub, &t);
  *width = 1;
  *at = t.constant;
  if (!t.n) return true;
  if (t.n != 1 || t.atom[0]->op != TG_OP_IOTA || t.coefficient[0] != 1) return false;
  *width = t.atom[0]->lanes;
  return true;
}

static void see_access(tg_job *j, reg *r, const tg_uop *u) {
  uint32_t rank = tg_access_rank(u), width = 1, w = 1;
  int64_t at = 0;
  for (uint32_t i = 0; i < rank && !r->why; i++) {
    if (!constant_subscript(j, u->src[1 + i], &w, &at)) r->why = "a subscript is not constant";
    else if (i + 1 < rank && w > 1) r->why = "a vector runs along another dimension than the last";
  }
  if (r->why) return;
  width = w;
  if (u->op == TG_OP_STORE && width == 1 && tg_stored(u)->lanes > r->define->lanes)
    r->why = "a vector is stored to one element";
  else if (width > 1 && r->define->lanes > 1) r->why = "its elements are vectors already";
  else if (r->width && r->width != width) r->why = "it is accessed in several widths";
  else if (width > 1 && at % width) r->why = "a vector access is not aligned to its width";
  r->width = width;
}

static int64_t elements(const tg_uop *define) {
  int64_t n = 1;
  for (uint32_t i = 0; i < define->n; i++)
    if (define->src[i]->op != TG_OP_CONST || __builtin_mul_overflow(n, define->src[i]->arg, &n)) return INT64_MAX;
  return n;
}

/* For a size that depends on parameters: reserves the largest. */
static void bound_size(state *s, reg *r, const tg_buffer *b) {
  const tg_uop *dim[16];
  tg_buffer info = *b;
  tg_i128 n = 1;
  for (uint32_t i = 0; i < r->define->n; i++) {
    tg_bounds e = tg_bounds_of(s->j, r->define->src[i]);
    if (e.hi < 0) e.hi = 0;
    n = e.hi > 1 << 28 || n > 1 << 28 ? (tg_i128)1 << 60 : n * e.hi;
    dim[i] = tg_index(s->j, e.hi > 1 << 28 ? 0 : (int64_t)e.hi);
  }
  if (n > 1 << 28)
    tg_fail_at(s->j, b->pos, "the size of %s has no bound: a parameter's largest value must be given", b->name);
  if (info.space == TG_SPACE_REG) info.place = TG_PLACE_MEMORY;
  if (r->phase == -2) info.space = TG_SPACE_LOCAL;
  r->remade = tg_define(s->j, info, r->define->lanes, dim, NULL, false);
}

static void decide(state *s, const tg_lowering *l, uint32_t ordinal) {
  reg *r = &s->regs[ordinal];
  tg_buffer *b = &s->j->buffers.data[ordinal];
  int64_t n = elements(r->define), w = r->width ? r->width : 1,
          limit = 8 * (int64_t)(l->target && l->target->vector_registers ? l->target->vector_registers : 16);
  if (n == INT64_MAX) {
    if (b->demand == TG_PLACE_SSA) tg_fail_at(s->j, b->pos, "%s cannot be ssa: its size is not constant", b->name);
    bound_size(s, r, b);
    return;
  }
  if (!r->why && w > 1 && r->define->src[r->define->n - 1]->arg % w)
    r->why = "its last dimension is no multiple of the vector's width";
  if (!r->why && n / w > limit)
    r->why = tg_format(&s->j->env, "%lld values are more than the register file holds", (long long)(n / w));
  if (!r->why && r->phase == -2) r->why = "several phases use it";
  if (!r->why && b->demand > TG_PLACE_SSA) r->why = "memory is asked for";
  if (r->why && b->demand == TG_PLACE_SSA) tg_fail_at(s->j, b->pos, "%s cannot be ssa: %s", b->name, r->why);
  if (r->why && l->target && l->target->lanes > 1)
    tg_fail_at(s->j, b->pos, "%s cannot be in registers: %s; %s has no other memory private to a thread", b->name,
               r->why, l->target->name);
  r->vectors = !r->why && w > 1;
  if (r->vectors) {
    const tg_uop *dim[16];
    uint32_t nd = r->define->n;
    for (uint32_t i = 0; i < nd; i++) dim[i] = r->define->src[i];
    dim[nd - 1] = tg_index(s->j, dim[nd - 1]->arg / w);
    if (dim[nd - 1]->arg == 1) nd--;
    tg_buffer info = *b;
    info.rank = (uint8_t)nd;
    info.place = TG_PLACE_SSA;
    r->remade = tg_define(s->j, info, (uint32_t)w, dim, NULL, false);
  } else {
    b->place = r->why ? TG_PLACE_MEMORY : TG_PLACE_SSA;
    if (r->phase == -2) b->space = TG_SPACE_LOCAL;
  }
}

static const tg_uop *replace(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op == TG_OP_DEFINE) return s->regs[tg_buffer_ordinal(old)].remade;
  if (old->op == TG_OP_AFTER) return tg_make(j, TG_OP_AFTER, src[0]->type, src[0]->lanes, 0, 3, src);
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE) return NULL;
  const reg *r = &s->regs[tg_buffer_ordinal(old->src[0])];
  if (!r->vectors) return NULL;
  const tg_uop *sub[16];
  uint32_t rank = tg_access_rank(old), w;
  int64_t at;
  for (uint32_t i = 0; i < rank; i++) sub[i] = src[1 + i];
  bool constant = constant_subscript(j, src[rank], &w, &at);
  tg_assert(&j->env, constant && w == r->width && at % r->width == 0);   /* as see_access has found it */
  sub[rank - 1] = tg_index(j, at / r->width);
  const tg_uop *gate = old->arg & TG_GATED ? src[rank + (old->op == TG_OP_LOAD ? 1 : 2)] : NULL;
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  return old->op == TG_OP_LOAD ? tg_load(j, src[0], sub, gate, gate ? src[old->n - 1] : NULL, flags)
                               : tg_store(j, src[0], sub, src[rank + 1], gate, flags);
}

typedef struct { uint8_t *seen; int32_t phase; uint32_t loops; TG_VEC(const tg_uop *) stack; } phases;

static void see_phase(state *s, phases *p, const tg_uop *root, uint32_t loop) {
  tg_push(&s->j->env, &p->stack, root);
  while (p->stack.n) {
    const tg_uop *u = p->stack.data[--p->stack.n];
    if (p->seen[u->id]++) { p->seen[u->id] = 1; continue; }
    if (u->op == TG_OP_LOAD || u->op == TG_OP_STORE) {
      reg *r = &s->regs[tg_buffer_ordinal(u->src[0])];
      if (r->phase != p->phase) r->phase = r->phase == -1 ? p->phase : -2;
      if (r->between && r->loop != loop) r->phase = -2;
    }
    for (uint32_t k = 0; k < u->n; k++)
      if (u->src[k]->op != TG_OP_AFTER && u->src[k]->op != TG_OP_DEFINE) tg_push(&s->j->env, &p->stack, u->src[k]);
  }
}

/* For registers defined between phases (in the SINK or a loop of phases): does more than one phase use them, or one
 * phase more than once? */
static void see_list(state *s, phases *p, uint32_t n, const tg_uop *const *list, uint32_t loop) {
  bool tasks = true;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    bool t = u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_THREAD, inner = tg_has_phases(u);
    if (t || tasks || inner) {
      p->phase++;
      p->seen = tg_new(&s->j->env, uint8_t, s->j->uops.n);
    }
    tasks = t || inner;
    if (u->op == TG_OP_DEFINE) {
      reg *r = &s->regs[tg_buffer_ordinal(u)];
      r->between = true;
      r->loop = loop;
    } else if (inner) see_list(s, p, u->n - 1, u->src + 1, ++p->loops);
    else see_phase(s, p, u, loop);
  }
}

static void see_phases(state *s, const tg_uop *sink) {
  bool any = false, inside = false, shared = false;
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *u = sink->src[i];
    shared |= u->op == TG_OP_DEFINE && tg_buffer_info(s->j, u)->space == TG_SPACE_REG;
    any |= u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_THREAD;
    inside |= tg_has_phases(u);
  }
  if ((any && shared) || inside) see_list(s, &(phases){.seen = NULL}, sink->n, sink->src, 0);
}

/* Pass expand already folds sums; the rules can still simplify conditions and quotients. */
static bool wants_rules(const tg_uop *u) {
  if (u->type == TG_BOOL) return u->op != TG_OP_LOAD && u->op != TG_OP_DEFINE && u->op != TG_OP_AFTER;
  return u->type == TG_INDEX && (u->op == TG_OP_IDIV || u->op == TG_OP_MOD || u->op == TG_OP_CDIV ||
                                 u->op == TG_OP_CMOD || u->op == TG_OP_MIN || u->op == TG_OP_MAX);
}

/* Tiles in memory that a loop carries may keep the elements that it updates in registers while it runs. */
static const tg_uop *windows(state *s, const tg_lowering *l, uint32_t n, const tg_uop *sink) {
  bool *wanted = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *define = s->regs[i].remade ? s->regs[i].remade : s->regs[i].define;
    if (!s->regs[i].carried || !define || tg_buffer_info(s->j, define)->place == TG_PLACE_SSA) continue;
    if (!wanted) wanted = tg_new(&s->j->env, bool, s->j->buffers.n);
    wanted[tg_buffer_ordinal(define)] = true;
  }
  return wanted ? tg_place_windows(s->j, l->target, wanted, sink) : sink;
}

const tg_uop *tg_pass_place(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  bool any = false, rules = false, device = l->target && l->target->lanes > 1;
  sink = device ? tg_place_pieces(j, sink) : tg_place_turned(j, sink);
  uint32_t n = j->buffers.n;
  state s = {j, tg_new(&j->env, reg, n + 1)};
  tg_sweep w = tg_sweep_of(j, sink);
  for (uint32_t i = 0; i < n; i++) s.regs[i].phase = -1;
  for (uint32_t i = 0; i < w.n; i++) {
    const tg_uop *u = w.u[i];
    rules |= wants_rules(u);
    if (u->op != TG_OP_DEFINE && u->op != TG_OP_LOAD && u->op != TG_OP_STORE) continue;
    uint32_t b = tg_buffer_ordinal(u->op == TG_OP_DEFINE ? u : u->src[0]);
    if (j->buffers.data[b].space == TG_SPACE_GLOBAL) continue;
    s.regs[b].carried |= u->op == TG_OP_LOAD && u->src[0]->op == TG_OP_AFTER && u->src[0]->src[1]->op == TG_OP_RANGE;
    if (u->op == TG_OP_DEFINE) s.regs[b].define = u;
    else if (j->buffers.data[b].space == TG_SPACE_REG) see_access(j, &s.regs[b], u);
  }
  if (!device) see_phases(&s, sink);
  for (uint32_t i = 0; i < n; i++) {
    if (!s.regs[i].define || j->buffers.data[i].space == TG_SPACE_GLOBAL) continue;
    if (j->buffers.data[i].space == TG_SPACE_REG) decide(&s, l, i);
    else if (elements(s.regs[i].define) == INT64_MAX) bound_size(&s, &s.regs[i], &j->buffers.data[i]);
    any |= s.regs[i].remade != NULL;
  }
  if (any) sink = tg_sweep_map(j, sink, replace, &s);
  if (!device) sink = windows(&s, l, n, sink);   /* a thread must not keep LOCAL memory of its workgroup in registers */
  return l->rules && rules ? tg_simplify(j, l->rules, sink) : sink;
}
