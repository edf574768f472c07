/* SPDX-License-Identifier: MIT
 * cut r auto: if a condition in a loop or reduction is monotone in its range r, the range is cut at the points where
 * the condition becomes surely true and surely false. A condition here is a conjunct of a gate, or of a `where` that
 * compares indices, of the form c*r + rest <= 0 with a constant c. Let [low, high] bound rest over everything that
 * varies inside the loop. Then for c > 0
 *
 *   r < full = floor(-high / c) + 1     the condition holds        r.main: it is removed
 *   r < any  = floor(-low / c) + 1      it may hold                r.last: it stays
 *   r >= any                            it does not hold           r.none: it is replaced by false
 *
 * For c < 0 the parts come in the opposite order: r.none, r.first, r.main. full and any are clamped to 0 .. extent
 * unless the prover finds them there. Parts that are surely empty are omitted. Then r.main is cut for the next
 * condition. The min or max of a subscript that keeps to a buffer's edge is a choice by such a condition, too: where it
 * holds, one operand is left, and what is read lies side by side. */
#include "schedule/opt.h"

typedef struct { const tg_uop *low, *high; int64_t c; } slope;

/* What varies while the loop stands still: by range ordinal. */
static uint8_t *inner_ranges(tg_schedule *s, const tg_site *site) {
  tg_job *j = s->j;
  uint8_t *inner = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  uint32_t n;
  const tg_uop **order = tg_toposort(j, site->owner, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_END) inner[tg_range_ordinal(u->src[0])] = 1;
    if (u->op != TG_OP_REDUCE) continue;
    bool before = u == site->owner;   /* of its own reduction: the ranges before it stand outside */
    for (uint32_t k = 0; k < tg_reduce_info(u).ranges; k++) {
      before &= tg_reduce_ranges(u)[k] != site->range;
      inner[tg_range_ordinal(tg_reduce_ranges(u)[k])] = !before || tg_range_kind(tg_reduce_ranges(u)[k]) != TG_REDUCE;
    }
  }
  inner[tg_range_ordinal(site->range)] = 0;
  /* iterations in lockstep run the parts together */
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent) {
    tg_kind k = tg_range_kind(s->sites.data[p].range);
    if (k == TG_LANE || k == TG_UPCAST || k == TG_LOCAL) inner[tg_range_ordinal(s->sites.data[p].range)] = 1;
  }
  return inner;
}

enum { OUTSIDE, INSIDE, UNFIT };

/* Does the node vary within the loop? Expressions of r itself, or of memory that is stored to, cannot be handled. */
static int place_of(tg_schedule *s, const tg_uop *u, const tg_uop *r, const uint8_t *inner) {
  uint32_t n;
  int place = OUTSIDE;
  const tg_uop **order = tg_toposort(s->j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *x = order[i];
    if (x == r || x->op == TG_OP_REDUCE) return UNFIT;
    if (x->op == TG_OP_LOAD && tg_buffer_info(s->j, x->src[0])->role != TG_ROLE_IN) return UNFIT;
    if (x->op == TG_OP_RANGE && inner[tg_range_ordinal(x)]) place = INSIDE;
  }
  return place;
}

/* The least or greatest value of an atom that varies inside, over nothing that does; NULL if it has none. */
static const tg_uop *extreme(tg_schedule *s, const tg_uop *atom, bool greatest, const tg_uop *r, const uint8_t *inner) {
  tg_job *j = s->j;
  if (atom->op == TG_OP_RANGE && !greatest) return tg_index(j, 0);
  if (atom->op == TG_OP_RANGE && place_of(s, tg_extent(atom), r, inner) == OUTSIDE)
    return tg_idx_sub(j, tg_extent(atom), tg_index(j, 1));
  tg_bounds b = tg_bounds_of(j, atom);
  tg_i128 v = greatest ? b.hi : b.lo;
  if (v < -((tg_i128)1 << 40) || v > (tg_i128)1 << 40) return NULL;
  return tg_index(j, (int64_t)v);
}

static bool is_clamp(const tg_uop *u) {
  return (u->op == TG_OP_MIN || u->op == TG_OP_MAX) && u->type == TG_INDEX && u->lanes == 1;
}

/* A clamp's condition is the one by which its first operand is taken. */
static bool slope_of(tg_schedule *s, const tg_uop *cond, const tg_uop *r, const uint8_t *inner, slope *out) {
  tg_job *j = s->j;
  tg_linear a, b, f;
  bool compares = (cond->op == TG_OP_LT || cond->op == TG_OP_LE) && cond->lanes == 1 && cond->src[0]->type == TG_INDEX;
  if (!compares && !is_clamp(cond)) return false;
  tg_linear_of(j, cond->src[cond->op == TG_OP_MAX], &a);
  tg_linear_of(j, cond->src[cond->op != TG_OP_MAX], &b);
  if (!tg_linear_add(j, &a, &b, -1, &f)) return false;
  *out = (slope){.low = tg_index(j, f.constant + (cond->op == TG_OP_LT))};
  out->high = out->low;
  for (uint32_t i = 0; i < f.n; i++) {
    int64_t by = f.coefficient[i];
    if (f.atom[i] == r) {
      out->c = by;
      continue;
    }
    int place = place_of(s, f.atom[i], r, inner);
    const tg_uop *low = f.atom[i], *high = f.atom[i];
    if (place == UNFIT) return false;
    if (place == INSIDE) low = extreme(s, f.atom[i], by < 0, r, inner), high = extreme(s, f.atom[i], by > 0, r, inner);
    if (!low || !high) return false;
    out->low = tg_idx_add(j, out->low, tg_idx_mul(j, low, by));
    out->high = tg_idx_add(j, out->high, tg_idx_mul(j, high, by));
  }
  return out->c && out->c != INT64_MIN;
}

/* The min or max in a subscript that the range decides; of clamps within clamps an inner one. */
static const tg_uop *find_clamp(tg_schedule *s, const tg_uop *subscript, const tg_site *site, const uint8_t *inner,
                                slope *out) {
  tg_linear f;
  if (!tg_uses(s->j, subscript, site->range)) return NULL;
  tg_linear_of(s->j, subscript, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    const tg_uop *u = f.atom[i];
    if (!is_clamp(u) || !tg_uses(s->j, u, site->range)) continue;
    if (slope_of(s, u, site->range, inner, out)) return u;
    for (uint32_t k = 0; k < 2; k++) {
      const tg_uop *within = find_clamp(s, u->src[k], site, inner, out);
      if (within) return within;
    }
  }
  return NULL;
}

/* A condition that the range decides, and how it does. */
static const tg_uop *find_condition(tg_schedule *s, const tg_site *site, const uint8_t *inner, slope *out) {
  tg_job *j = s->j;
  const tg_uop *owner = site->owner;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, owner, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i], *stack[32];
    uint32_t depth = 0;
    if (u->op == TG_OP_WHERE) stack[depth++] = u->src[0];
    else if ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && tg_gate(u)) stack[depth++] = tg_gate(u);
    while (depth) {
      const tg_uop *c = stack[--depth];
      if (c->op == TG_OP_AND && depth + 2 <= TG_COUNT(stack)) {
        stack[depth++] = c->src[1];
        stack[depth++] = c->src[0];
      } else if (tg_uses(j, c, site->range) && slope_of(s, c, site->range, inner, out)) return c;
    }
    for (uint32_t d = 0; (u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && d < tg_access_rank(u); d++) {
      const tg_uop *clamp = find_clamp(s, u->src[1 + d], site, inner, out);
      if (clamp) return clamp;
    }
  }
  return NULL;
}

static bool demands(const tg_uop *gate, const tg_uop *cond) {
  const tg_uop *stack[32];
  uint32_t depth = 0;
  stack[depth++] = gate;
  while (depth) {
    const tg_uop *c = stack[--depth];
    if (c == cond) return true;
    if (c->op != TG_OP_AND || depth + 2 > TG_COUNT(stack)) continue;
    stack[depth++] = c->src[1];
    stack[depth++] = c->src[0];
  }
  return false;
}

/* Is the value of a reduction its identity where the condition is false? */
static bool contributes_nothing(tg_job *j, const tg_uop *reduce, const tg_uop *cond) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  const tg_uop *value = reduce->src[0];
  if (a.generic || value->op != TG_OP_WHERE || value->src[2] != tg_identity(j, a.op, reduce->type)) return false;
  return demands(value->src[0], cond);
}

/* Is the extent the same for all iterations of loops around? Those of parts are too many choices otherwise. */
static bool same_extent(tg_job *j, const tg_uop *range) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, tg_extent(range), &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE) return false;
  return true;
}

/* Terms of a sum that are its identity, a sum that only one arm of a `where` computes, or elements that are gathered
 * for the sake of an edge. */
bool tg_cut_pays(tg_schedule *s, const tg_site *site) {
  tg_job *j = s->j;
  slope f;
  uint32_t n;
  if (site->owner->op == TG_OP_REDUCE && (tg_reduce_info(site->owner).in_order || tg_reduce_info(site->owner).generic))
    return false;
  const tg_uop *cond = find_condition(s, site, inner_ranges(s, site), &f);
  if (!cond) return false;
  if (is_clamp(cond)) return same_extent(j, site->range);
  if (site->owner->op == TG_OP_REDUCE) return contributes_nothing(j, site->owner, cond);
  const tg_uop **order = tg_toposort(j, site->owner, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_WHERE || !demands(order[i]->src[0], cond)) continue;
    uint32_t m;
    const tg_uop **arm = tg_toposort(j, order[i]->src[1], &m);
    for (uint32_t k = 0; k < m; k++)
      if (arm[k]->op == TG_OP_REDUCE) return true;
  }
  return false;
}

static const tg_uop *floor_div(tg_job *j, const tg_uop *a, int64_t c) {
  return c == 1 ? a : tg_op2(j, TG_OP_IDIV, a, tg_index(j, c));
}

/* Simplified, over the same ranges: simplifying the extent of one makes it another node. */
static const tg_uop *simplified(tg_schedule *s, const tg_uop *u) {
  tg_job *j = s->j;
  uint32_t n, m, count = 0;
  const tg_uop **before = tg_toposort(j, u, &n), *v = tg_simplify(j, s->l->rules, u), **after = tg_toposort(j, v, &m);
  const tg_uop **from = tg_new(&j->env, const tg_uop *, m), **to = tg_new(&j->env, const tg_uop *, m);
  for (uint32_t i = 0; i < m; i++)
    for (uint32_t k = 0; k < n && after[i]->op == TG_OP_RANGE; k++) {
      if (before[k]->op != TG_OP_RANGE || before[k] == after[i] ||
          tg_range_ordinal(before[k]) != tg_range_ordinal(after[i]))
        continue;
      from[count] = after[i];
      to[count++] = before[k];
      break;
    }
  return tg_substitute(j, v, count, from, to);
}

/* Within [from, extent]. */
static const tg_uop *clamped(tg_schedule *s, const tg_uop *at, const tg_uop *from, const tg_uop *extent) {
  tg_job *j = s->j;
  at = simplified(s, at);
  if (!tg_proves(j, NULL, tg_op2(j, TG_OP_LE, from, at))) at = tg_op2(j, TG_OP_MAX, at, from);
  if (!tg_proves(j, NULL, tg_op2(j, TG_OP_LE, at, extent))) at = tg_op2(j, TG_OP_MIN, at, extent);
  return simplified(s, at);
}

static tg_cutting cutting_of(tg_schedule *s, const tg_site *site, const tg_uop *cond, const slope *f) {
  tg_job *j = s->j;
  const tg_uop *zero = tg_index(j, 0), *extent = tg_idx_not_negative(j, tg_extent(site->range)),
               *at[4] = {zero, NULL, NULL, extent};
  int64_t c = f->c > 0 ? f->c : -f->c;
  if (f->c > 0) {
    at[1] = clamped(s, tg_idx_add(j, floor_div(j, tg_idx_sub(j, zero, f->high), c), tg_index(j, 1)), zero, extent);
    at[2] = clamped(s, tg_idx_add(j, floor_div(j, tg_idx_sub(j, zero, f->low), c), tg_index(j, 1)), at[1], extent);
  } else { /* ceil(x / c) */
    at[1] = clamped(s, floor_div(j, tg_idx_add(j, f->low, tg_index(j, c - 1)), c), zero, extent);
    at[2] = clamped(s, floor_div(j, tg_idx_add(j, f->high, tg_index(j, c - 1)), c), at[1], extent);
  }
  static const char *const up[] = {"main", "last", "none"}, *const down[] = {"none", "first", "main"};
  tg_cutting cut = {.range = site->range, .cond = cond, .n = 3, .copied = f->c > 0 ? 6 : 3};
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t which = f->c > 0 ? i : 2 - i;
    cut.part[i] = (tg_part){.name = (f->c > 0 ? up : down)[i], .start = at[i]};
    cut.part[i].extent = simplified(s, tg_idx_sub(j, at[i + 1], at[i]));
    if (which != 1) cut.part[i].known = is_clamp(cond) ? cond->src[which == 2] : tg_bool(j, which == 0);
    cut.part[i].nothing = which && tg_bounds_of(j, cut.part[i].extent).hi <= 0;
    if (which == 2 && site->owner->op == TG_OP_REDUCE) cut.part[i].nothing |= contributes_nothing(j, site->owner, cond);
  }
  return cut;
}

/* The site of a range, again: sites are those of the program now. */
static const tg_site *site_of(tg_schedule *s, const tg_uop *range) {
  tg_schedule_sites(s);
  for (uint32_t i = 0; i < s->sites.n; i++)
    if (s->sites.data[i].range == range) return &s->sites.data[i];
  return NULL;
}

/* Names go by the range that was there first: r.main, not r.main.main. */
static tg_naming *name_parts(tg_schedule *s, const tg_axis *axis) {
  static const char *const suffix[] = {"none", "first", "main", "last"};
  tg_naming *names = tg_new(&s->j->env, tg_naming, axis->n);
  for (uint32_t i = 0; i < axis->n; i++) names[i] = tg_axis_naming(s, axis->site[i].range, TG_COUNT(suffix), suffix);
  return names;
}

/* Each thread's part of a sum is fixed before its other ranges run, so a cut of it must not depend on those. */
static bool decided_within(tg_schedule *s, const tg_site *site, const tg_uop *cond) {
  if (site->owner->op != TG_OP_REDUCE || tg_range_kind(site->range) == TG_REDUCE) return false;
  for (uint32_t i = 0; i < tg_reduce_info(site->owner).ranges; i++) {
    const tg_uop *other = tg_reduce_ranges(site->owner)[i];
    if (other != site->range && tg_uses(s->j, cond, other)) return true;
  }
  return false;
}

/* Without such a condition the whole range is named r.main, so that later words are valid for every size. */
void tg_cut_auto(tg_schedule *s, const tg_opt *o) {
  enum { CONDITIONS = 4 };
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  const tg_naming *names = name_parts(s, &axis);
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *range = axis.site[i].range;
    for (uint32_t k = 0; k < CONDITIONS; k++) {
      const tg_site *site = site_of(s, range);
      slope f;
      const tg_uop *cond = site ? find_condition(s, site, inner_ranges(s, site), &f) : NULL;
      if (cond && decided_within(s, site, cond)) cond = NULL;
      if (!site || (!cond && k)) break;
      tg_cutting c = {
          .range = range, .n = 1, .part = {{.name = "main", .start = tg_index(s->j, 0), .extent = tg_extent(range)}}};
      if (cond) c = cutting_of(s, site, cond, &f);
      c.names = names[i];
      tg_cut_site(s, o, site, &c);
      if (!cond) break;
      range = c.made[f.c > 0 ? 0 : 2];
    }
  }
}
