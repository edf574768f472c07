/* SPDX-License-Identifier: MIT
 * stage: the part of a buffer that a loop's body reads is copied to a buffer of its own at the start of the body, and read
 * from there. In each dimension the subscripts are split into a base over what stands outside and an offset over the ranges
 * inside; the bounds of the offset are the extent of the copy. Elements outside of the source become 0. */
#include "lower/opt.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source;            /* the DEFINE */
  uint8_t *inside;                 /* by range ordinal */
  uint32_t rank, loads, copies;
  bool stored;
  const tg_uop *base[16];
  tg_i128 lo[16], hi[16];
  const tg_uop *copy;              /* the new DEFINE */
} staging;

static bool reads_inside(const staging *g, const tg_uop *u) {
  uint32_t n;
  if (u->op == TG_OP_RANGE) return g->inside[tg_range_ordinal(u)];
  const tg_uop **order = tg_toposort(g->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && g->inside[tg_range_ordinal(order[i])]) return true;
  return false;
}

/* subscript = base + offset; constants go to the offset. */
static void divide(const staging *g, const tg_uop *subscript, const tg_uop **base, const tg_uop **offset) {
  tg_job *j = g->s->j;
  struct { const tg_uop *u; int64_t by; } stack[64];
  uint32_t n = 0;
  *base = *offset = tg_index(j, 0);
  stack[n].u = subscript;
  stack[n++].by = 1;
  while (n) {
    const tg_uop *u = stack[--n].u;
    int64_t by = stack[n].by, product;
    bool room = n + 2 <= TG_COUNT(stack);
    if ((u->op == TG_OP_ADD || u->op == TG_OP_SUB) && room) {
      stack[n].u = u->src[1];
      stack[n++].by = u->op == TG_OP_SUB ? -by : by;
      stack[n].u = u->src[0];
      stack[n++].by = by;
    } else if (u->op == TG_OP_MUL && u->src[1]->op == TG_OP_CONST && !__builtin_mul_overflow(by, u->src[1]->arg, &product)) {
      stack[n].u = u->src[0];
      stack[n++].by = product;
    } else if (u->op == TG_OP_MUL && u->src[0]->op == TG_OP_CONST && !__builtin_mul_overflow(by, u->src[0]->arg, &product)) {
      stack[n].u = u->src[1];
      stack[n++].by = product;
    } else {
      const tg_uop **sum = u->op == TG_OP_CONST || reads_inside(g, u) ? offset : base;
      *sum = tg_idx_add(j, *sum, tg_idx_mul(j, u, by));
    }
  }
}

static void mark_inside(const staging *g, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(g->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *x = order[i];
    if (x->op == TG_OP_END) g->inside[tg_range_ordinal(x->src[0])] = 1;
    if (x->op == TG_OP_REDUCE)
      for (uint32_t k = 0; k < tg_reduce_info(x).ranges; k++) g->inside[tg_range_ordinal(tg_reduce_ranges(x)[k])] = 1;
  }
}

/* The offset's bounds; what lies outside of the buffer for every base is never read, whatever the subscript could be (one from memory). */
static tg_bounds part_of(tg_job *j, const tg_uop *base, const tg_uop *offset, const tg_uop *dim) {
  tg_bounds b = tg_bounds_of(j, offset), at = tg_bounds_of(j, base), size = tg_bounds_of(j, dim);
  if (b.lo < -at.hi) b.lo = -at.hi;
  if (b.hi > size.hi - 1 - at.lo) b.hi = size.hi - 1 - at.lo;
  if (b.hi < b.lo) b.hi = b.lo;
  return b;
}

static void measure(staging *g, const tg_uop *load) {
  tg_schedule *s = g->s;
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *base, *offset;
    divide(g, load->src[1 + d], &base, &offset);
    tg_bounds b = part_of(s->j, base, offset, g->source->src[d]);
    if (g->loads && base != g->base[d])
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: its reads begin at different places in dimension %u: %s and %s", g->o->names[0],
                 g->o->names[1], d, tg_text(s->j, g->base[d]), tg_text(s->j, base));
    if (b.lo < -((tg_i128)1 << 40) || b.hi > (tg_i128)1 << 40)
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: the part read in dimension %u has no constant bound: %s", g->o->names[0], g->o->names[1],
                 d, tg_text(s->j, offset));
    g->base[d] = base;
    if (!g->loads || b.lo < g->lo[d]) g->lo[d] = b.lo;
    if (!g->loads || b.hi > g->hi[d]) g->hi[d] = b.hi;
  }
  g->loads++;
}

static const tg_uop *staged_load(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const staging *g = user;
  if (old->op != TG_OP_LOAD || tg_define_of(old->src[0]) != g->source) return NULL;
  const tg_uop *idx[16];
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *base;
    divide(g, src[1 + d], &base, &idx[d]);
    idx[d] = tg_idx_sub(j, idx[d], tg_index(j, (int64_t)g->lo[d]));
  }
  const tg_uop *gate = tg_gate(old) ? src[old->n - 2] : NULL;
  return tg_load(j, g->copy, idx, gate, gate ? src[old->n - 1] : NULL, 0);
}

/* The nest that fills the copy. */
static const tg_uop *fill(staging *g, const tg_uop *end, const char *name) {
  tg_schedule *s = g->s;
  tg_job *j = s->j;
  const tg_uop *idx[16], *from[16], *gate = NULL;
  tg_pos pos = s->j->ranges.data[tg_range_ordinal(end->src[0])].pos;
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *extent = tg_index(j, (int64_t)(g->hi[d] - g->lo[d] + 1)), *dim = g->source->src[d];
    idx[d] = tg_range_new(j, tg_format(&j->env, "%s.%u", name, d), extent, TG_LOOP, UINT32_MAX, pos);
    from[d] = tg_idx_add(j, tg_idx_add(j, g->base[d], tg_index(j, (int64_t)g->lo[d])), idx[d]);
    tg_bounds b = tg_bounds_of(j, from[d]);
    if (b.lo < 0) gate = tg_and(j, gate, tg_op2(j, TG_OP_LE, tg_index(j, 0), from[d]));
    if (dim->op != TG_OP_CONST || b.hi >= dim->arg) gate = tg_and(j, gate, tg_op2(j, TG_OP_LT, from[d], dim));
  }
  const tg_uop *value = tg_load(j, g->source, from, gate, gate ? tg_zero(j, (tg_type)g->source->type) : NULL, 0);
  const tg_uop *u = tg_store(j, g->copy, idx, value, NULL, 0);
  tg_set_pos(j, u, g->o->pos);
  for (uint32_t d = g->rank; d-- > 0;) {
    u = tg_end(j, idx[d], 1, &u);
    tg_set_pos(j, u, g->o->pos);
  }
  return u;
}

static void define_copy(staging *g, const char *name) {
  tg_schedule *s = g->s;
  const tg_uop *dims[16];
  tg_i128 size = 1;
  int64_t pitch = g->o->number[0];
  for (uint32_t d = 0; d < g->rank; d++) {
    int64_t n = (int64_t)(g->hi[d] - g->lo[d] + 1);
    if (d + 1 == g->rank && pitch) {
      if (pitch < n) tg_fail_at(s->j, g->o->pos, "stage %s: a pitch of %lld is below the %lld elements of a row", g->o->names[0], (long long)pitch, (long long)n);
      n = pitch;
    }
    size *= n;
    dims[d] = tg_index(s->j, n);
    if (size > (tg_i128)1 << 26)
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: the copy would have more than 2^26 elements", g->o->names[0], g->o->names[1]);
  }
  tg_buffer info = {.name = name, .space = g->o->number[1] == 2 ? TG_SPACE_REG : TG_SPACE_LOCAL, .role = TG_ROLE_TEMP,
                    .rank = (uint8_t)g->rank, .type = g->source->type, .pos = g->o->pos};
  if (info.space == TG_SPACE_LOCAL) info.align = 64;
  g->copy = tg_define(s->j, info, 1, dims, NULL, true);
}

static bool stores_source(const tg_uop *u, const tg_uop *source) {
  if (u->op == TG_OP_STORE) return tg_define_of(u->src[0]) == source;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++)
      if (stores_source(u->src[i], source)) return true;
  return false;
}

static bool reads_source(tg_job *j, const tg_uop *end, const tg_uop *source) {
  for (uint32_t i = 1; i < end->n; i++) {
    uint32_t n;
    const tg_uop **order = tg_toposort(j, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == source) return true;
  }
  return false;
}

/* Where the part begins is read before the loop's body: nothing in there may change it. */
static void check_begin(staging *g, const tg_uop *end) {
  tg_job *j = g->s->j;
  for (uint32_t d = 0; d < g->rank; d++) {
    uint32_t n;
    const tg_uop **order = tg_toposort(j, g->base[d], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && stores_source(end, tg_define_of(order[k]->src[0])))
        tg_fail_at(j, g->o->pos, "stage %s at %s: where its reads begin in dimension %u depends on %s, which the loop stores to", g->o->names[0], g->o->names[1], d,
                   tg_buffer_info(j, order[k]->src[0])->name);
  }
}

static void stage_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  staging *g = user;
  tg_job *j = s->j;
  const char *wish = g->o->n > 2 ? g->o->names[2] : tg_format(&j->env, "%s.copy", g->o->names[0]);
  g->rank = tg_buffer_info(j, g->source)->rank;
  g->loads = 0;
  if (!reads_source(j, end, g->source)) { /* another loop of the axis does */
    g->stored |= stores_source(end, g->source);
    tg_push(&j->env, out, end);
    return;
  }
  g->copies++;
  if (stores_source(end, g->source)) tg_fail_at(j, g->o->pos, "stage %s at %s: the loop stores to it", g->o->names[0], g->o->names[1]);
  g->inside = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  for (uint32_t i = 1; i < end->n; i++) mark_inside(g, end->src[i]);
  for (uint32_t i = 1; i < end->n; i++) {
    uint32_t n;
    const tg_uop **order = tg_toposort(j, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == g->source) measure(g, order[k]);
  }
  check_begin(g, end);
  define_copy(g, wish);
  const tg_uop **list = tg_new(&j->env, const tg_uop *, end->n + 2);
  list[0] = g->copy;
  list[1] = fill(g, end, tg_buffer_info(j, g->copy)->name);
  for (uint32_t i = 1; i < end->n; i++) list[1 + i] = tg_map(j, end->src[i], staged_load, NULL, g);
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], end->n + 1, list));
}

static const tg_uop *find_define(tg_job *j, const tg_uop *u, const char *name) {
  if (u->op == TG_OP_DEFINE) return strcmp(tg_buffer_info(j, u)->name, name) ? NULL : u;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return NULL;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *d = find_define(j, u->src[i], name);
    if (d) return d;
  }
  return NULL;
}

void tg_opt_stage(tg_schedule *s, const tg_opt *o) {
  staging g = {.s = s, .o = o, .source = find_define(s->j, s->sink, o->names[0])};
  if (!g.source) tg_fail_at(s->j, o->pos, "no buffer '%s' here", o->names[0]);
  if (o->expr) tg_fail_at(s->j, o->pos, "stage %s: a layout is not supported: the copy has the dimensions of %s", o->names[0], o->names[0]);
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  uint32_t loops = 0;
  for (uint32_t i = 0; i < axis.n; i++) { /* an axis may hold reductions as well: copies stand in its loops */
    if (axis.site[i].owner->op != TG_OP_END) continue;
    loops++;
    s->sink = tg_replace_end(s, s->sink, axis.site[i].range, stage_loop, &g);
  }
  if (!loops) tg_fail_at(s->j, o->pos, "stage %s at %s: a copy stands in a loop, not in a reduction", o->names[0], o->names[1]);
  if (!g.copies)
    tg_fail_at(s->j, o->pos, g.stored ? "stage %s at %s: the loop stores to it" : "stage %s at %s: the loop does not read it", o->names[0], o->names[1]);
}
