/* SPDX-License-Identifier: MIT
 * stage: at the start of a loop's body, the part of a buffer that the body reads is copied to a buffer of its own, and
 * is read from there. In each dimension a subscript is split into a base, over what is constant in the body, and an
 * offset over the ranges inside. The bounds of the offset give the size of the copied part; digits of the offsets are
 * the subscripts of the copy. Elements outside of the source get the value of fill. With a depth the copy is a ring
 * buffer: an iteration fills the slot of a later one.
 *
 * `of` ranges inside the loop: the copy has what the read is in each of their iterations, however its subscripts and
 * its gate compute that, as windows of a convolution, whose border a gate keeps away. Of several reads it is the one
 * that moves with these ranges and no others: each operand of a product of a matrix with itself has a copy of its own.
 *
 * Where all reads are clamped to what the source promises, the copy holds what they are clamped to. If the copy's type
 * cannot hold the source's values, it must be that of an expression around each read; the copy
 * then holds the values of that expression (through.c). */
#include "schedule/stage.h"
#include "lower/sweep.h"
#include <stdlib.h>

/* ---- the copy ---- */

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source;            /* the DEFINE */
  uint8_t *inside;                 /* by range ordinal */
  uint32_t rank, loads, copies;    /* rank: of the part */
  bool stored, clipped;            /* clipped: iterations behind a gate have offsets beyond the copy */
  const tg_uop *base[16];
  tg_i128 lo[16], hi[16];
  /* how much of the dimension is read in this iteration, where that is one range's extent; else NULL: all of the
   * part */
  const tg_uop *span[16];
  const tg_uop *first;             /* a load of the source inside */
  /* `of`: the axes, and of each the range in the read: the part's dimensions. NULL: the source's are */
  tg_axis axis[TG_STAGE_RANGES];
  const tg_uop *iteration[TG_STAGE_RANGES];
  const tg_uop *copy;              /* the new DEFINE */
  const tg_uop *fill;              /* of the copy's type */
  /* the copy has the values of this expression around a load; NULL: of the source's elements */
  const tg_uop *through;
  const tg_uop *clamp;             /* around each read, and the copy holds its values; NULL: there is none */
  bool expression, bare;           /* there is to be one; a read stands outside of it */
  tg_type type;                    /* the copy's */
  int64_t depth;
  const tg_uop *range;             /* of the loop */
  tg_digits layout;
} staging;

static bool is_around(const staging *g, const tg_uop *u) {   /* the range of a loop around the body */
  return u->op == TG_OP_RANGE && !g->inside[tg_range_ordinal(u)];
}

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
    } else if (u->op == TG_OP_MUL && u->src[1]->op == TG_OP_CONST &&
               !__builtin_mul_overflow(by, u->src[1]->arg, &product)) {
      stack[n].u = u->src[0];
      stack[n++].by = product;
    } else if (u->op == TG_OP_MUL && u->src[0]->op == TG_OP_CONST &&
               !__builtin_mul_overflow(by, u->src[0]->arg, &product)) {
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

/* Bounds of the offset, limited to those that can lie inside the buffer for some base: others are never read, even if
 * the subscript comes from memory and so has no bounds of its own. */
static tg_bounds part_of(tg_job *j, const tg_uop *base, const tg_uop *offset, const tg_uop *dim) {
  tg_bounds b = tg_bounds_of(j, offset), at = tg_bounds_of(j, base), size = tg_bounds_of(j, dim);
  if (b.lo < -at.hi) b.lo = -at.hi;
  if (b.hi > size.hi - 1 - at.lo) b.hi = size.hi - 1 - at.lo;
  if (b.hi < b.lo) b.hi = b.lo;
  return b;
}

bool tg_loads_below(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD) return true;
  return false;
}

/* The extent of the range that the offset is, if it is known where the copy is made. */
static const tg_uop *span_of(const staging *g, const tg_uop *offset) {
  if (offset->op != TG_OP_RANGE || g->depth > 1) return NULL;
  const tg_uop *extent = tg_extent(offset);
  return extent->op == TG_OP_CONST || reads_inside(g, extent) || tg_loads_below(g->s->j, extent) ? NULL : extent;
}

/* The range of the axis inside of the loop that the load moves with, or NULL. */
static const tg_uop *moving(const staging *g, const tg_axis *axis, const tg_uop *load) {
  for (uint32_t i = 0; i < axis->n; i++) {
    const tg_uop *r = axis->site[i].range;
    if (g->inside[tg_range_ordinal(r)] && tg_uses(g->s->j, load, r)) return r;
  }
  return NULL;
}

static bool is_iteration(const staging *g, const tg_uop *range) {
  for (uint32_t d = 0; d < g->rank; d++)
    if (g->iteration[d] == range) return true;
  return false;
}

/* `of`: does the read move with the ranges that are named, and with no other ones inside? */
static bool is_of_iterations(const staging *g, const tg_uop *load) {
  const tg_uop *range[TG_STAGE_RANGES];
  uint32_t n;
  for (uint32_t d = 0; d < g->rank; d++)
    if (!(range[d] = moving(g, &g->axis[d], load))) return false;
  const tg_uop **order = tg_toposort(g->s->j, load, &n);
  for (uint32_t i = 0; i < n; i++) {
    bool named = order[i]->op != TG_OP_RANGE || !g->inside[tg_range_ordinal(order[i])];
    for (uint32_t d = 0; d < g->rank; d++) named |= order[i] == range[d];
    if (!named) return false;
  }
  return true;
}

/* `of`: one read, of the ranges that are named and of no other ones inside. */
static void measure_iterations(staging *g, const tg_uop *load) {
  tg_job *j = g->s->j;
  const char *b = g->o->names[0], *at = g->o->names[1];
  uint32_t n;
  if (g->loads++ && load != g->first)
    tg_fail_at(j, g->o->pos, "stage %s at %s: it is read at several places, and the copy has one", b, at);
  g->first = load;
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *r = g->iteration[d] = moving(g, &g->axis[d], load);
    if (!r) tg_fail_at(j, g->o->pos, "stage %s at %s: its read is the same in all of %s", b, at, g->o->of[d]);
    tg_i128 most = tg_bounds_of(j, tg_extent(r)).hi;
    g->span[d] = span_of(g, r);
    if (tg_extent(r)->op != TG_OP_CONST && (!g->span[d] || most > (tg_i128)1 << 40))
      tg_fail_at(j, g->o->pos, "stage %s at %s: the extent of %s %s", b, at, g->o->of[d],
                 g->span[d] ? "has no constant bound" : "is not known where the copy is made");
    g->base[d] = tg_index(j, 0);
    g->lo[d] = 0;
    g->hi[d] = most < 1 ? 0 : most - 1;
  }
  const tg_uop **order = tg_toposort(j, load, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && g->inside[tg_range_ordinal(order[i])] && !is_iteration(g, order[i]))
      tg_fail_at(j, g->o->pos, "stage %s at %s: its read moves with %s, too", b, at, tg_range_text(g->s, order[i]));
}

static void measure(staging *g, const tg_uop *load) {
  tg_schedule *s = g->s;
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *base, *offset;
    divide(g, load->src[1 + d], &base, &offset);
    tg_bounds b = tg_bounds_of(s->j, offset), within = part_of(s->j, base, offset, g->source->src[d]);
    /* of a layout: one size of tiles, whatever the buffer has */
    bool tile = g->o->expr && !tg_loads_below(s->j, offset);
    g->clipped |= !tile && (within.lo > b.lo || within.hi < b.hi);
    if (!tile) b = within;
    if (g->loads && base != g->base[d])
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: its reads begin at different places in dimension %u: %s and %s",
                 g->o->names[0], g->o->names[1], d, tg_text(s->j, g->base[d]), tg_text(s->j, base));
    if (b.lo < -((tg_i128)1 << 40) || b.hi > (tg_i128)1 << 40)
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: the part read in dimension %u has no constant bound: %s",
                 g->o->names[0], g->o->names[1], d, tg_text(s->j, offset));
    g->base[d] = base;
    const tg_uop *span = span_of(g, offset);
    g->span[d] = !g->loads || g->span[d] == span ? span : NULL;
    if (!g->loads || b.lo < g->lo[d]) g->lo[d] = b.lo;
    if (!g->loads || b.hi > g->hi[d]) g->hi[d] = b.hi;
  }
  if (!g->loads++) g->first = load;
}

/* The ring slot of iteration r: the first subscript of the copy. */
static const tg_uop *slot(const staging *g, const tg_uop *r) {
  return tg_op2(g->s->j, TG_OP_MOD, r, tg_index(g->s->j, g->depth));
}

/* Does it hold inside? Below the least of two is below both. */
static bool holds_inside(tg_job *j, const tg_facts *inside, const tg_uop *gate) {
  if (gate->op != TG_OP_LT || gate->src[1]->op != TG_OP_MIN) return tg_proves(j, inside, gate);
  return holds_inside(j, inside, tg_op2(j, TG_OP_LT, gate->src[0], gate->src[1]->src[0])) &&
         holds_inside(j, inside, tg_op2(j, TG_OP_LT, gate->src[0], gate->src[1]->src[1]));
}

/* A gate without the conjuncts that only keep subscripts inside the source: outside of it the copy holds fill, so they
 * are not needed. */
static const tg_uop *gate_left(const staging *g, const tg_uop *gate, const tg_facts *inside) {
  tg_job *j = g->s->j;
  if (gate->op != TG_OP_AND || gate->type != TG_BOOL) return holds_inside(j, inside, gate) ? NULL : gate;
  const tg_uop *a = gate_left(g, gate->src[0], inside), *b = gate_left(g, gate->src[1], inside);
  return a == gate->src[0] && b == gate->src[1] ? gate : a ? tg_and(j, b, a) : b;
}

static const tg_uop *within_source(const staging *g, const tg_uop *const *subscripts) {
  tg_job *j = g->s->j;
  const tg_uop *all = NULL;
  for (uint32_t d = 0; d < g->rank; d++) {
    all = tg_and(j, all, tg_op2(j, TG_OP_LE, tg_index(j, 0), subscripts[d]));
    all = tg_and(j, all, tg_op2(j, TG_OP_LT, subscripts[d], g->source->src[d]));
  }
  return all;
}

/* What the copy has for a value of the source, a constant or not. */
static const tg_uop *converted(const staging *g, const tg_uop *x) {
  tg_job *j = g->s->j;
  if (g->through) return tg_through_apply(j, g->s->l->rules, g->through, x);
  if (x->type == g->type && !g->clamp) return x;
  const tg_uop *v = tg_cast(j, g->type, g->clamp ? tg_clamp_apply(j, g->clamp, x) : x);
  return x->op == TG_OP_CONST ? tg_simplified(g->s, v) : v;
}

/* The copy's element for a load of the source, whose sources are src by now. */
static const tg_uop *load_of_copy(const staging *g, const tg_uop *old, const tg_uop *const *src) {
  tg_job *j = g->s->j;
  const tg_uop *offset[16], *idx[17];
  uint32_t at = 0;
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *base;
    offset[d] = g->iteration[d];
    if (offset[d]) continue;
    divide(g, src[1 + d], &base, &offset[d]);
    offset[d] = tg_idx_sub(j, offset[d], tg_index(j, (int64_t)g->lo[d]));
  }
  if (g->depth > 1) idx[at++] = slot(g, g->range);
  for (uint32_t i = 0; i < g->layout.n; i++)
    idx[at++] = tg_digits_place(g->s, &g->layout.digit[i], offset);
  const tg_uop *gate = tg_gate(old) && !*g->o->of ? src[old->n - 2] : NULL,
               *alternative = gate ? converted(g, src[old->n - 1]) : NULL;
  if (gate && alternative == g->fill && g->rank && !g->clipped) {
    tg_facts inside = {NULL, within_source(g, src + 1)};
    gate = gate_left(g, gate, &inside);
  }
  return tg_load(j, g->copy, idx, gate, gate ? alternative : NULL, 0);
}

/* The load of the copy that a factor is, or a conversion of which between integers. */
static const tg_uop *below_casts(const tg_uop *u) {
  while (u->op == TG_OP_CAST && tg_is_int(u->type) && tg_is_int(u->src[0]->type)) u = u->src[0];
  return u->op == TG_OP_LOAD ? u : NULL;
}

static const tg_uop *below_all_casts(const tg_uop *u) {
  while (u->op == TG_OP_CAST) u = u->src[0];
  return u->op == TG_OP_LOAD ? u : NULL;
}

/* Does the copy hold 0 wherever the condition is false? */
static bool zero_unless(const staging *g, const tg_uop *load, const tg_uop *condition) {
  tg_job *j = g->s->j;
  tg_facts inside = {NULL, *g->o->of ? tg_gate(load) : within_source(g, load->src + 1)};
  if (!*g->o->of) return !gate_left(g, condition, &inside);
  return inside.fact && tg_alternative(load) == tg_zero(j, load->type) && tg_proves(j, &inside, condition);
}

/* `of` copies one of several reads. */
static bool is_copied(const staging *g, const tg_uop *load) {
  return tg_define_of(load->src[0]) == g->source && (!*g->o->of || load == g->first);
}

/* where(cond, x * y, 0) of floats: 0 * inf is none, but if both copies hold 0 wherever cond is false, so does the
 * product. The copy that is made first is noted. */
static const tg_uop *float_product_left(staging *g, const tg_uop *old, const tg_uop *const *src) {
  tg_job *j = g->s->j;
  const tg_uop *product = src[1];
  if (!tg_is_float(old->type) || src[2] != tg_zero(j, old->type) || product->op != TG_OP_MUL ||
      old->src[1]->op != TG_OP_MUL || g->clipped || g->fill != tg_zero(j, g->type))
    return NULL;
  for (uint32_t f = 0; f < 2; f++) {
    const tg_uop *now = below_all_casts(product->src[f]), *before = below_all_casts(old->src[1]->src[f]),
                 *other = below_all_casts(product->src[!f]);
    if (!now || !before || !other || tg_define_of(now->src[0]) != g->copy || !is_copied(g, before)) continue;
    if (!zero_unless(g, before, src[0])) continue;
    for (uint32_t i = 0; i < g->s->zeros.n; i++)
      if (g->s->zeros.data[i].copy == tg_define_of(other->src[0]) && g->s->zeros.data[i].condition == src[0])
        return product;
    tg_push(&j->env, &g->s->zeros, ((tg_zero_unless){g->copy, src[0]}));
  }
  return NULL;
}

/* where(cond, x * y, 0) of integers: outside of the source the copy has 0, so the product is 0 there by itself. */
static const tg_uop *product_left(const staging *g, const tg_uop *old, const tg_uop *const *src) {
  tg_job *j = g->s->j;
  const tg_uop *product = src[1];
  if (!tg_is_int(old->type) || !tg_is_const(src[2], 0) || product->op != TG_OP_MUL || old->src[1]->op != TG_OP_MUL ||
      g->clipped || *g->o->of || !tg_is_const(g->fill, 0))
    return NULL;
  for (uint32_t f = 0; f < 2; f++) {
    const tg_uop *now = below_casts(product->src[f]), *before = below_casts(old->src[1]->src[f]);
    if (!now || !before || tg_define_of(now->src[0]) != g->copy || tg_define_of(before->src[0]) != g->source) continue;
    tg_facts inside = {NULL, within_source(g, before->src + 1)};
    const tg_uop *left = gate_left(g, src[0], &inside);
    if (left == src[0]) continue;
    return left ? tg_op3(j, TG_OP_WHERE, left, product, src[2]) : product;
  }
  return NULL;
}

static const tg_uop *staged_through(tg_job *j, const tg_uop *old, void *user) {
  const staging *g = user;
  if (is_around(g, old)) return old;
  const tg_uop *load = g->clamp ? tg_clamped_load(j, old, g->source) : NULL;
  if (load && is_copied(g, load)) return tg_cast(j, TG_INDEX, load_of_copy(g, load, load->src));
  load = g->through && old->type == g->type ? tg_through_load(old, g->source) : NULL;
  return load && is_copied(g, load) && tg_through_same(old, g->through) ? load_of_copy(g, load, load->src) : NULL;
}

static const tg_uop *staged_load(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  staging *g = user;
  /* the conversion back, put around the load just now */
  bool converts = old->op == TG_OP_CAST && old->src[0]->op == TG_OP_LOAD && src[0]->op == TG_OP_CAST;
  if (converts && old->type == g->type && src[0]->src[0]->op == TG_OP_LOAD && src[0]->src[0]->src[0] == g->copy)
    return src[0]->src[0];
  if (old->op == TG_OP_WHERE && tg_is_float(old->type)) return float_product_left(g, old, src);
  if (old->op == TG_OP_WHERE) return product_left(g, old, src);
  if (old->op != TG_OP_LOAD || !is_copied(g, old)) return NULL;
  g->bare = true;
  return g->through ? NULL : tg_cast(j, old->type, load_of_copy(g, old, src));
}

/* The source's element for a place of the part; outside of the source, fill. whole: no extent of the part changes. */
static const tg_uop *element(staging *g, const tg_uop *const *offset, bool whole) {
  tg_job *j = g->s->j;
  const tg_uop *from[16], *gate = NULL;
  for (uint32_t d = 0; d < g->rank; d++)
    from[d] = tg_idx_add(j, tg_idx_add(j, g->base[d], tg_index(j, (int64_t)g->lo[d])), offset[d]);
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *dim = g->source->src[d];
    tg_bounds b = tg_bounds_of(j, from[d]);
    const tg_uop *below = tg_op2(j, TG_OP_LT, from[d], dim);
    bool inside = dim->op == TG_OP_CONST ? b.hi < dim->arg : whole && tg_proves(j, NULL, below);
    if (b.lo < 0) gate = tg_and(j, gate, tg_op2(j, TG_OP_LE, tg_index(j, 0), from[d]));
    if (!inside) gate = tg_and(j, gate, below);
  }
  /* fill is a value of the copy's type: outside it stands as it is, the source's elements are converted */
  const tg_uop *zero = tg_zero(j, g->source->type),
               *value = converted(g, tg_load(j, g->source, from, gate, gate ? zero : NULL, 0));
  return gate && g->fill != converted(g, zero) ? tg_op3(j, TG_OP_WHERE, gate, value, g->fill) : value;
}

/* `of`: the read in an iteration of its ranges, as it is there; what a digit rounds up is 0. whole: as above. */
static const tg_uop *iteration(staging *g, const tg_uop *const *offset, bool whole) {
  tg_job *j = g->s->j;
  const tg_uop *load = tg_substitute(j, g->first, g->rank, g->iteration, offset), *gate = tg_gate(load);
  const tg_uop *beyond = gate ? tg_alternative(load) : tg_zero(j, load->type);
  for (uint32_t d = 0; d < g->rank; d++) {
    const tg_uop *inside = tg_op2(j, TG_OP_LT, offset[d], tg_extent(g->iteration[d]));
    if (!tg_proves(j, NULL, inside)) gate = tg_and(j, inside, gate);
  }
  if (!whole) gate = tg_and(j, within_source(g, load->src + 1), gate);
  if (gate != tg_gate(load)) load = tg_load(j, load->src[0], load->src + 1, gate, beyond, 0);
  return converted(g, load);
}

/* The nest that fills the copy for the loop's present iteration. again: ranges of a nest that it is a twin of, or
 * NULL. */
static const tg_uop *fill_nest(staging *g, const tg_uop *const *again, const tg_uop **ranges) {
  tg_schedule *s = g->s;
  tg_job *j = s->j;
  const char *name = tg_buffer_info(j, g->copy)->name;
  const tg_uop *offset[16], *idx[17];
  tg_pos pos = j->ranges.data[tg_range_ordinal(g->range)].pos;
  uint32_t at = 0;
  bool whole = true;   /* extents that are known: none grows with a loop around that another word changes */
  if (g->depth > 1) idx[at++] = slot(g, g->range);
  for (uint32_t d = 0; d < g->rank; d++) offset[d] = tg_index(j, 0);
  for (uint32_t i = 0; i < g->layout.n; i++) {
    const tg_digit *e = &g->layout.digit[i];
    const char *own = tg_format(&j->env, "%s.%u", name, i);
    const tg_uop *room = tg_index(j, e->extent),
                 *extent = g->span[e->dim] && e->div == 1 && !e->mod ? g->span[e->dim] : room;
    /* iterations that a pad adds would reach on */
    if (tg_bounds_of(j, extent).hi > e->extent) extent = tg_idx_min(j, extent, room);
    whole &= extent->op == TG_OP_CONST;
    ranges[i] = again ? tg_axis_range(s, again[i], own, extent, TG_LOOP)
                      : tg_range_new(j, own, extent, TG_LOOP, UINT32_MAX, pos);
    offset[e->dim] = tg_idx_add(j, offset[e->dim], tg_idx_mul(j, ranges[i], e->div));
  }
  for (uint32_t i = 0; i < g->layout.n; i++)
    idx[at++] = tg_digits_swizzled(s, &g->layout.digit[i], ranges[i], offset);
  const tg_uop *value = *g->o->of ? iteration(g, offset, whole) : element(g, offset, whole);
  const tg_uop *u = tg_store(j, g->copy, idx, value, NULL, 0);
  tg_set_pos(j, u, g->o->pos);
  for (uint32_t i = g->layout.n; i-- > 0;) {
    u = tg_end(j, ranges[i], 1, &u);
    tg_set_pos(j, u, g->o->pos);
  }
  return u;
}

static void define_copy(staging *g, const char *name) {
  tg_schedule *s = g->s;
  const tg_uop *dims[17];
  tg_i128 size = g->depth;
  int64_t pitch = g->o->number[0];
  uint32_t at = 0;
  if (g->depth > 1) dims[at++] = tg_index(s->j, g->depth);
  for (uint32_t i = 0; i < g->layout.n; i++) {
    int64_t n = g->layout.digit[i].extent;
    if (i + 1 == g->layout.n && pitch) {
      if (pitch < n)
        tg_fail_at(s->j, g->o->pos, "stage %s: a pitch of %lld is below the %lld elements of a row", g->o->names[0],
                   (long long)pitch, (long long)n);
      n = pitch;
    }
    size *= n;
    dims[at++] = tg_index(s->j, n);
    if (size > TG_COPY_MOST)
      tg_fail_at(s->j, g->o->pos, "stage %s at %s: the copy would have more than 2^26 elements", g->o->names[0],
                 g->o->names[1]);
  }
  tg_buffer info = {.name = name,
                    .space = g->o->number[1] == TG_STAGE_REG ? TG_SPACE_REG : TG_SPACE_LOCAL,
                    .role = TG_ROLE_TEMP,
                    .rank = (uint8_t)at,
                    .type = (uint8_t)g->type,
                    .pos = g->o->pos};
  if (info.space == TG_SPACE_LOCAL) info.align = g->o->number[2] ? (uint32_t)g->o->number[2] : 64;
  g->copy = tg_define(s->j, info, 1, dims, NULL, true);
}

/* Ring buffer: the parts of the first iterations are copied before the loop, then each iteration copies the part of a
 * later one. */
static void fill_ahead(staging *g, const tg_uop *end, const tg_uop **list, tg_statements *out) {
  tg_schedule *s = g->s;
  tg_job *j = s->j;
  const tg_uop *ranges[16], *twins[16], *extent = tg_extent(end->src[0]);
  const tg_uop *nest = fill_nest(g, NULL, ranges), *start = fill_nest(g, ranges, twins);
  const uint8_t *marks = tg_new(&j->env, uint8_t, j->buffers.n + 1);
  const tg_uop *later = tg_idx_add(j, g->range, tg_index(j, g->depth - 1));
  const tg_uop *first = tg_range_new(j, tg_format(&j->env, "%s.first", tg_buffer_info(j, g->copy)->name),
                                     tg_index(j, g->depth - 1), TG_LOOP, UINT32_MAX, g->o->pos);
  bool all = tg_bounds_of(j, extent).lo >= g->depth - 1;
  start = tg_gated_substitute(s, start, g->range, first, all ? NULL : tg_op2(j, TG_OP_LT, first, extent),
                              all ? NULL : marks);
  start = tg_end(j, first, 1, &start);
  tg_set_pos(j, start, g->o->pos);
  list[0] = tg_gated_substitute(s, nest, g->range, later, tg_op2(j, TG_OP_LT, later, extent), marks);
  tg_push(&j->env, out, g->copy);
  tg_push(&j->env, out, start);
  tg_push(&j->env, &s->rings, g->copy);
}

static bool stores_source(const tg_uop *u, const tg_uop *source) {
  if (u->op == TG_OP_STORE) return tg_buffer_ordinal(u->src[0]) == tg_buffer_ordinal(source);
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++)
      if (stores_source(u->src[i], source)) return true;
  return false;
}

/* What one statement of the body computes, sources before users: all below it but the extents of loops around, which
 * are computed before the body begins. */
static const tg_uop **computed_by(const staging *g, const tg_uop *statement, uint32_t *n) {
  tg_job *j = g->s->j;
  uint32_t all, kept = 0;
  const tg_uop **order = tg_toposort(j, statement, &all);
  bool *computed = tg_new(&j->env, bool, statement->id + 1);
  computed[statement->id] = true;
  for (uint32_t i = all; i-- > 0;)
    for (uint32_t k = 0; k < order[i]->n && computed[order[i]->id] && !is_around(g, order[i]); k++)
      computed[order[i]->src[k]->id] = true;
  for (uint32_t i = 0; i < all; i++)
    if (computed[order[i]->id]) order[kept++] = order[i];
  *n = kept;
  return order;
}

/* Finds the source as the loop reads it: specialize has made one with sizes that it knows. False: not read. */
static bool reads_source(staging *g, const tg_uop *end) {
  for (uint32_t i = 1; i < end->n; i++) {
    uint32_t n;
    const tg_uop **order = computed_by(g, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++) {
      if (order[k]->op != TG_OP_LOAD || tg_buffer_ordinal(order[k]->src[0]) != tg_buffer_ordinal(g->source)) continue;
      g->source = tg_define_of(order[k]->src[0]);
      return true;
    }
  }
  return false;
}

/* Where the part begins is read before the loop's body: nothing in there may change it. */
static void check_begin(staging *g, const tg_uop *end) {
  tg_job *j = g->s->j;
  const uint32_t rank = *g->o->of ? tg_access_rank(g->first) : g->rank;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t n;
    const tg_uop **order = tg_toposort(j, *g->o->of ? g->first->src[1 + d] : g->base[d], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && stores_source(end, tg_define_of(order[k]->src[0])))
        tg_fail_at(j, g->o->pos,
                   "stage %s at %s: where its reads begin in dimension %u depends on %s, which the loop stores to",
                   g->o->names[0], g->o->names[1], d, tg_buffer_info(j, order[k]->src[0])->name);
  }
}

static bool has_threads(const tg_uop *u) {
  if (u->op != TG_OP_END) return false;
  if (tg_range_kind(u->src[0]) == TG_THREAD) return true;
  for (uint32_t i = 1; i < u->n; i++)
    if (has_threads(u->src[i])) return true;
  return false;
}

/* Is the loop a thread range, or within one? */
static bool in_threads(tg_schedule *s, const tg_uop *range) {
  tg_schedule_sites(s);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    if (s->sites.data[i].range != range) continue;
    for (uint32_t p = i; p != UINT32_MAX; p = s->sites.data[p].parent)
      if (tg_range_kind(s->sites.data[p].range) == TG_THREAD) return true;
  }
  return false;
}

/* A shuffle reads other lanes' registers, so it cannot read a copy that the lanes share. */
static void check_shuffle(const staging *g, const tg_uop *shuffle) {
  tg_sweep value = tg_sweep_of(g->s->j, shuffle->src[0]);
  for (uint32_t i = 0; i < value.n && g->o->number[1] != TG_STAGE_REG; i++)
    if (value.u[i]->op == TG_OP_LOAD && tg_define_of(value.u[i]->src[0]) == g->source)
      tg_fail_at(g->s->j, g->o->pos,
                 "stage %s at %s: a shuffle between lanes reads it, and the copy would be memory that they share",
                 g->o->names[0], g->o->names[1]);
}

static void check_space(staging *g, const tg_uop *end) {
  tg_job *j = g->s->j;
  const tg_uop *r = end->src[0];
  const char *b = g->o->names[0], *at = g->o->names[1];
  tg_kind k = tg_range_kind(r);
  bool inside = false;
  for (uint32_t i = 1; i < end->n; i++) inside |= has_threads(end->src[i]);
  if (inside && (g->o->number[1] == TG_STAGE_THREAD || g->o->number[1] == TG_STAGE_REG))
    tg_fail_at(j, g->o->pos, "stage %s at %s: tasks inside the loop share the copy: space=team", b, at);
  if (g->o->number[1] == TG_STAGE_TEAM && in_threads(g->s, r))
    tg_fail_at(j, g->o->pos,
               "stage %s at %s: the copy would be one task's own: a team's stands outside of its thread range", b, at);
  if (g->depth > 1 && k != TG_LOOP && k != TG_REDUCE)
    tg_fail_at(j, g->o->pos, "stage %s at %s: depth=%lld needs iterations one after another, and %s is %s", b, at,
               (long long)g->depth, at, tg_kind_name[k]);
}

TG_NORETURN static void no_expression(const staging *g) {
  const char *t = tg_type_name[g->type];
  tg_fail_at(g->s->j, g->o->pos,
             "stage %s: %s does not hold every value of %s: a rounding has to be a statement of the kernel, or one "
             "expression of %s, of it and constants, around all of its reads",
             g->o->names[0], t, tg_type_name[g->source->type], t);
}

/* Is every read of the source in the loop clamped in one way, and for nothing else? That of this node; else NULL. */
static const tg_uop *clamp_of(const staging *g, const tg_uop *end) {
  tg_job *j = g->s->j;
  uint32_t n;
  const tg_uop **order = computed_by(g, end, &n), *clamp = NULL;
  uint8_t *within = tg_new(&j->env, uint8_t, j->uops.n + 1);   /* a clamp, or the conversion below one */
  for (uint32_t k = n; k-- > 0;) {   /* users before sources */
    const tg_uop *u = order[k];
    bool outer = !within[u->id] && tg_clamped_load(j, u, g->source);
    if (outer && clamp && !tg_clamp_same(u, clamp)) return NULL;
    if (outer) clamp = u;
    within[u->id] |= outer;
    if (within[u->id] && u->src[0]->op != TG_OP_LOAD) within[u->src[0]->id] = 1;
  }
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t q = 0; q < order[k]->n; q++) {
      const tg_uop *u = order[k], *x = u->src[q];
      bool part = x != clamp && within[x->id] && !tg_clamp_same(x, clamp);
      bool read = x->op == TG_OP_LOAD && tg_define_of(x->src[0]) == g->source;
      if ((part || read) && !within[u->id]) return NULL;
    }
  return clamp;
}

/* Does any read move with the ranges of `of` alone? Else the first one is refused by what is wrong with it. */
static bool has_of_iterations(const staging *g, const tg_uop *end) {
  for (uint32_t i = 1; i < end->n; i++) {
    uint32_t n;
    const tg_uop **order = computed_by(g, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == g->source && is_of_iterations(g, order[k]))
        return true;
  }
  return false;
}

static void measure_reads(staging *g, const tg_uop *end) {
  bool all = *g->o->of && !has_of_iterations(g, end);
  for (uint32_t i = 1; i < end->n; i++) {
    uint32_t n;
    const tg_uop **order = computed_by(g, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == g->source) {
        if (!*g->o->of) measure(g, order[k]);
        else if (all || is_of_iterations(g, order[k])) measure_iterations(g, order[k]);
      } else if (g->expression && !g->through && order[k]->type == g->type && tg_through_load(order[k], g->source))
        g->through = order[k];
      else if (order[k]->op == TG_OP_SHUFFLE) check_shuffle(g, order[k]);
  }
}

static void stage_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  staging *g = user;
  tg_job *j = s->j;
  const char *wish = g->o->n > 2 ? g->o->names[2] : tg_format(&j->env, "%s.copy", g->o->names[0]);
  g->rank = 0;
  while (g->rank < TG_STAGE_RANGES && g->o->of[g->rank]) g->rank++;
  if (!g->rank) g->rank = tg_buffer_info(j, g->source)->rank;
  g->loads = 0;
  g->clipped = false;
  g->inside = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  for (uint32_t i = 1; i < end->n; i++) mark_inside(g, end->src[i]);
  if (!reads_source(g, end)) { /* another loop of the axis does */
    g->stored |= stores_source(end, g->source);
    tg_push(&j->env, out, end);
    return;
  }
  g->copies++;
  if (stores_source(end, g->source))
    tg_fail_at(j, g->o->pos, "stage %s at %s: the loop stores to it", g->o->names[0], g->o->names[1]);
  measure_reads(g, end);
  g->clamp = !g->expression && tg_is_int(g->source->type) ? clamp_of(g, end) : NULL;
  check_begin(g, end);
  check_space(g, end);
  g->range = end->src[0];
  tg_stage_part part = {.subscript = *g->o->of ? g->iteration : g->first->src + 1, .rank = g->rank};
  for (uint32_t d = 0; d < g->rank; d++) part.extent[d] = (int64_t)(g->hi[d] - g->lo[d] + 1);
  g->layout = tg_digits_parse(s, g->o, &part);
  if (g->expression && !g->through) no_expression(g);
  define_copy(g, wish);
  const tg_uop **list = tg_new(&j->env, const tg_uop *, end->n + 2), *ranges[16];
  uint32_t n = 0;
  if (g->depth > 1) fill_ahead(g, end, &list[n++], out);
  else {
    list[n++] = g->copy;
    list[n++] = fill_nest(g, NULL, ranges);
  }
  g->bare = false;
  for (uint32_t i = 1; i < end->n; i++) list[n++] = tg_map(j, end->src[i], staged_load, staged_through, g);
  if (g->expression && g->bare) no_expression(g);
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], n, list));
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

/* Does every value of one type exist in the other? */
static bool holds(tg_type to, tg_type from) {
  static const struct { uint8_t mantissa, exponent;
  } shape[TG_TYPE__COUNT] = {[TG_F16] = {11, 5},  [TG_BF16] = {8, 8}, [TG_F32] = {24, 8},
                             [TG_F64] = {53, 11}, [TG_E4M3] = {4, 4}, [TG_E5M2] = {3, 5}};
  if (to == from) return true;
  if (from == TG_INDEX || to == TG_INDEX || to == TG_BOOL) return false;
  if (tg_is_float(from))
    return tg_is_float(to) && shape[to].mantissa >= shape[from].mantissa && shape[to].exponent >= shape[from].exponent;
  int bits = tg_type_bits(from) - tg_is_signed(from);
  if (tg_is_float(to)) return bits <= shape[to].mantissa && bits < 1 << (shape[to].exponent - 1);
  return bits <= tg_type_bits(to) - tg_is_signed(to) && (tg_is_signed(to) || !tg_is_signed(from));
}

static tg_type type_of(tg_schedule *s, const tg_opt *o, tg_type from) {
  uint32_t t = 0;
  if (!o->type) return from;
  while (t < TG_TYPE__COUNT && (t == TG_VOID || t == TG_INDEX || strcmp(tg_type_name[t], o->type))) t++;
  if (t == TG_TYPE__COUNT) tg_fail_at(s->j, o->pos, "stage %s: no type is named '%s'", o->names[0], o->type);
  return (tg_type)t;
}

tg_type tg_stage_type(tg_schedule *s, const tg_opt *o, tg_type from) {
  tg_type t = type_of(s, o, from);
  if (!holds(t, from))
    tg_fail_at(s->j, o->pos,
               "stage %s: %s does not hold every value of %s: a rounding has to be a statement of the kernel",
               o->names[0], o->type, tg_type_name[from]);
  return t;
}

const tg_uop *tg_stage_fill(tg_schedule *s, const tg_opt *o, tg_type t) {
  if (!o->fill) return tg_zero(s->j, t);
  char *end;
  const tg_uop *v;
  if (tg_is_float(t)) v = tg_const_float(s->j, t, tg_read_double(o->fill, &end));
  else {
    long long n = strtoll(o->fill, &end, 10);
    v = tg_const_int(s->j, t, n);
    if (v->arg != n) end = (char *)o->fill;
  }
  if (end == o->fill || *end)
    tg_fail_at(s->j, o->pos, "stage %s: fill=%s is no value of %s", o->names[0], o->fill, tg_type_name[t]);
  return v;
}

static void check_options(tg_schedule *s, const tg_opt *o) {
  int64_t align = o->number[2], depth = o->number[3];
  if (align && (align > 64 || (align & (align - 1))))
    tg_fail_at(s->j, o->pos, "stage %s: align=%lld: 1, 2, 4, .. 64 bytes", o->names[0], (long long)align);
  if (align && o->number[1] == TG_STAGE_REG)
    tg_fail_at(s->j, o->pos, "stage %s: a register buffer has no address to align", o->names[0]);
  if (*o->of && o->fill)
    tg_fail_at(s->j, o->pos, "stage %s: a copy of iterations has what its read is there, and no fill", o->names[0]);
  if (depth > 16) tg_fail_at(s->j, o->pos, "stage %s: depth=%lld: at most 16", o->names[0], (long long)depth);
}

void tg_opt_stage(tg_schedule *s, const tg_opt *o) {
  tg_check_contracted(s, o);
  staging g = {.s = s, .o = o, .source = find_define(s->j, s->sink, o->names[0])};
  if (!g.source) tg_fail_at(s->j, o->pos, "no buffer '%s' here", o->names[0]);
  if (o->number[1] == TG_STAGE_PACKED) {
    if (*o->of) tg_fail_at(s->j, o->pos, "stage %s: what is packed ahead is all of it: no `of`", o->names[0]);
    tg_stage_packed(s, o, g.source);
    return;
  }
  if (o->with)
    tg_fail_at(s->j, o->pos, "stage %s: a reduction is made where an operand is packed ahead: space=packed",
               o->names[0]);
  check_options(s, o);
  for (uint32_t d = 0; d < TG_STAGE_RANGES && o->of[d]; d++) g.axis[d] = tg_axis_find(s, o, o->of[d]);
  if (!*o->of && tg_stage_sums(s, o, g.source)) return;
  g.type = type_of(s, o, g.source->type);
  g.expression = !holds(g.type, g.source->type);
  g.fill = tg_stage_fill(s, o, g.type);
  g.depth = o->number[3] > 1 ? o->number[3] : 1;
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  uint32_t loops = 0;
  for (uint32_t i = 0; i < axis.n; i++) { /* an axis may hold reductions as well: copies stand in its loops */
    if (axis.site[i].owner->op != TG_OP_END) continue;
    loops++;
    s->sink = tg_replace_end(s, s->sink, axis.site[i].range, stage_loop, &g);
  }
  if (!loops)
    tg_fail_at(s->j, o->pos, "stage %s at %s: a copy stands in a loop, not in a reduction", o->names[0], o->names[1]);
  if (!g.copies)
    tg_fail_at(s->j, o->pos,
               g.stored ? "stage %s at %s: the loop stores to it" : "stage %s at %s: the loop does not read it",
               o->names[0], o->names[1]);
}
