/* SPDX-License-Identifier: MIT
 * split, pad, align and tile: a range becomes r0 * n + r1 (split, tile), or its extent is rounded up (pad), or it
 * begins up to n - 1 iterations earlier, so that where r + e is a multiple of n, so is the new range (align). If the
 * new ranges cover more than the old one, its stores and the loads whose subscripts use it are gated; simplification
 * removes gates that are always true. A split by a list of sizes makes sibling loops, one after another: each covers
 * what the larger sizes before it leave over. */
#include "schedule/opt.h"

typedef struct {
  const tg_uop *range, *outer, *inner;   /* inner NULL: pad */
  const tg_uop *value, *cond;            /* cond NULL: exact */
} splitting;

static void split_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  const splitting *p = user;
  const uint8_t *marks = p->cond ? tg_marked_buffers(s, end) : NULL;
  const tg_uop **list = tg_new(&s->j->env, const tg_uop *, end->n);
  uint32_t n = end->n - 1;
  const tg_uop *merge = tg_merge_of(end);
  if (merge) n--; /* what merges is the outer loop's state, and knows no range of either */
  for (uint32_t i = 1; i <= n; i++)
    list[i - 1] = tg_gated_substitute(s, end->src[i], p->range, p->value, p->cond, marks);
  if (merge && !p->inner) list[n++] = merge;
  const tg_uop *loop = tg_end_like(s, end, p->inner ? p->inner : p->outer, n, list), *both[2] = {loop, merge};
  if (p->inner) loop = tg_end_like(s, end, p->outer, merge ? 2 : 1, both);
  tg_push(&s->j->env, out, loop);
}

typedef struct { tg_schedule *s; const splitting *p; } reduce_splitting;

static bool reduces_over(const tg_uop *u, const tg_uop *range) {
  if (u->op != TG_OP_REDUCE) return false;
  for (uint32_t i = 0; i < tg_reduce_info(u).ranges; i++)
    if (tg_reduce_ranges(u)[i] == range) return true;
  return false;
}

static const tg_uop *split_reduce(tg_job *j, const tg_uop *old, const tg_uop *const *unused, void *user) {
  (void)unused;
  const reduce_splitting *r = user;
  const splitting *p = r->p;
  if (!reduces_over(old, p->range)) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  const tg_uop *const *ranges = tg_reduce_ranges(old), *src[3 * 8 + 8], *fresh[8];
  uint32_t n = 0, at = 0, body = old->n - a.ranges;
  while (ranges[at] != p->range) at++;
  if (a.ranges - 1 + (p->inner ? 2 : 1) > 8) tg_fail(&j->env, TG_ELIMIT, "a reduction over more than 8 ranges");
  for (uint32_t i = 0; i < a.ranges; i++) {
    fresh[n++] = ranges[i];
    if (i == at) fresh[n - 1] = p->outer;
    if (i == at && p->inner) fresh[n++] = p->inner;
  }
  for (uint32_t i = at + 1; i < a.ranges; i++) /* extents that read the range */
    fresh[n - a.ranges + i] = tg_gated_substitute(r->s, fresh[n - a.ranges + i], p->range, p->value, p->cond, NULL);
  for (uint32_t i = 0; i < body; i++) {
    src[i] = tg_gated_substitute(r->s, old->src[i], p->range, p->value, p->cond, NULL);
    if (p->cond && i < a.values) {
      const tg_uop *none = a.generic ? old->src[a.values + i] : tg_identity(j, a.op, old->type);
      src[i] = tg_op3(j, TG_OP_WHERE, p->cond, src[i], none);
    }
  }
  return tg_reduce_like(j, old, src, n, fresh);
}

static void apply(tg_schedule *s, const tg_site *site, splitting *p) {
  if (site->owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, site->range, split_loop, p);
  else {
    reduce_splitting r = {s, p};
    s->sink = tg_map(s->j, s->sink, split_reduce, NULL, &r);
  }
}

static void check_splittable(tg_schedule *s, const tg_opt *o, const char *word, const tg_uop *r) {
  tg_kind kind = tg_range_kind(r);
  if (kind != TG_LOOP && kind != TG_REDUCE && kind != TG_THREAD && kind != TG_GLOBAL)
    tg_fail_at(s->j, o->pos, "%s %s: it is %s already", word, tg_range_text(s, r),
               tg_kind_name[kind]);
}

static void check_names(tg_schedule *s, const tg_opt *o, const char *outer, const char *inner) {
  if (outer) tg_axis_check_name(s, o, outer);
  if (inner) tg_axis_check_name(s, o, inner);
  if (outer && inner && !strcmp(outer, inner)) tg_fail_at(s->j, o->pos, "the name '%s' is given twice", outer);
}

static const char *const halves[] = {"0", "1"};

/* Chooses the names for all ranges of an axis before any is split, so that ranges of equal name get parts of equal
 * names. */
static tg_naming *name_parts(tg_schedule *s, const tg_axis *axis) {
  tg_naming *names = tg_new(&s->j->env, tg_naming, axis->n);
  for (uint32_t i = 0; i < axis->n; i++) names[i] = tg_axis_naming(s, axis->site[i].range, 2, halves);
  return names;
}

static const tg_uop *make_part(tg_schedule *s, const tg_uop *like, const char *name, const tg_naming *names,
                               uint32_t half, const tg_uop *extent, tg_kind kind) {
  return name ? tg_axis_range(s, like, name, extent, kind) : tg_axis_part(s, like, names, halves[half], extent, kind);
}

/* The extent within the loop over blocks, which has no iteration where the extent of a specialized version is 0. */
static const tg_uop *extent_inside(const tg_uop *extent) {
  while (extent->op == TG_OP_WHERE && (tg_is_const(extent->src[1], 0) || tg_is_const(extent->src[2], 0)))
    extent = extent->src[tg_is_const(extent->src[2], 0) ? 1 : 2];
  return extent;
}

void tg_split_range(tg_schedule *s, const tg_opt *o, const char *name, int64_t n, const char *outer, const char *inner,
                    const char **made) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, name);
  const tg_uop **parts = tg_new(&j->env, const tg_uop *, 2 * axis.n);
  check_names(s, o, outer, inner);
  const tg_naming *names = name_parts(s, &axis);
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range, *extent = tg_extent(r);
    tg_kind kind = tg_range_kind(r);
    check_splittable(s, o, "split", r);
    splitting p = {.range = r};
    p.outer = make_part(s, r, outer, &names[i], 0, tg_idx_ceildiv(j, extent, n), kind);
    const tg_uop *start = tg_idx_mul(j, p.outer, n);
    bool clip = o->word == TG_OPT_SPLIT && o->number[1] && !tg_divides(j, n, extent);
    const tg_uop *size = tg_index(j, n);
    if (clip) size = tg_idx_min(j, size, tg_idx_sub(j, extent_inside(extent), start));
    p.inner = make_part(s, r, inner, &names[i], 1, size, kind == TG_REDUCE ? kind : TG_LOOP);
    p.value = tg_idx_add(j, start, p.inner);
    for (uint32_t k = 0; k < i; k++) { /* what a register tile ties stays tied */
      if (axis.group[k] != axis.group[i]) continue;
      tg_axis_tie(s, p.outer, parts[2 * k]);
      tg_axis_tie(s, p.inner, parts[2 * k + 1]);
      break;
    }
    parts[2 * i] = p.outer;
    parts[2 * i + 1] = p.inner;
    if (!clip && !tg_divides(j, n, extent)) p.cond = tg_op2(j, TG_OP_LT, p.value, extent_inside(extent));
    apply(s, &axis.site[i], &p);
  }
  for (uint32_t half = 0; half < 2 && made; half++) made[half] = tg_range_name(s, parts[half]);
}

/* ---- a list of sizes ---- */

typedef struct { splitting piece[8]; uint32_t n; const tg_opt *o; } listing;

/* How many tiles of a size a remainder gets: as many as fit; the last size takes all of it. cover: a rest that lacks
 * less than the last size is a tile too, so that no more is computed than in tiles of the last size alone. */
static const tg_uop *tiles_in(tg_job *j, const tg_uop *rest, const tg_opt *o, uint32_t i, bool cover) {
  int64_t n = o->size[i];
  if (i + 1 == o->sizes) return tg_idx_ceildiv(j, rest, n);
  return tg_idx_div(j, cover ? tg_idx_add(j, rest, tg_index(j, o->size[o->sizes - 1] - 1)) : rest, n);
}

/* The pieces of one range: tiles of each size in the remainder of the sizes before. Each piece gets its name even if it
 * is empty, so that later words are valid for every extent. */
static listing pieces_of(tg_schedule *s, const tg_opt *o, const tg_uop *r, const tg_naming *names) {
  tg_job *j = s->j;
  tg_kind kind = tg_range_kind(r);
  const tg_uop *extent = tg_idx_not_negative(j, tg_extent(r)), *rest = extent, *start = tg_index(j, 0);
  const char *outer = o->n > 1 ? o->names[1] : tg_sym(j, tg_format(&j->env, "%s.0", names->base));
  const char *inner = o->n > 2 ? o->names[2] : tg_sym(j, tg_format(&j->env, "%s.1", names->base));
  bool plainly = o->n < 2 && strcmp(names->base, names->plain), cover = o->number[2] != 0;
  listing l = {.o = o};
  for (uint32_t i = 0; i < o->sizes; i++) {
    int64_t n = o->size[i];
    bool last = i + 1 == o->sizes;
    const tg_uop *count = tiles_in(j, rest, o, i, cover), *covered = tg_idx_mul(j, count, n);
    splitting *p = &l.piece[l.n++];
    p->range = r;
    p->outer = tg_axis_range(s, r, tg_format(&j->env, "%s.by%lld", outer, (long long)n), count, kind);
    p->inner = tg_axis_range(s, r, tg_format(&j->env, "%s.by%lld", inner, (long long)n), tg_index(j, n),
                             kind == TG_REDUCE ? kind : TG_LOOP);
    tg_axis_join(s, p->outer, outer);
    tg_axis_join(s, p->inner, inner);
    if (plainly) tg_axis_call_plainly(s, p->outer, tg_format(&j->env, "%s.0", names->plain));
    if (plainly) tg_axis_call_plainly(s, p->inner, tg_format(&j->env, "%s.1", names->plain));
    p->value = tg_idx_add(j, tg_idx_add(j, start, tg_idx_mul(j, p->outer, n)), p->inner);
    if ((last || cover) && !tg_divides(j, n, rest)) p->cond = tg_op2(j, TG_OP_LT, p->value, extent);
    start = tg_idx_add(j, start, covered);
    rest = cover ? tg_idx_not_negative(j, tg_idx_sub(j, rest, covered)) : tg_idx_mod(j, rest, n);
  }
  return l;
}

static void list_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  const listing *l = user;
  uint32_t n = end->n - 1;
  for (uint32_t i = 0; i < l->n; i++) {
    const splitting *p = &l->piece[i];
    const uint8_t *marks = p->cond ? tg_marked_buffers(s, end) : NULL;
    const tg_uop **list = tg_new(&s->j->env, const tg_uop *, n + 1);
    for (uint32_t k = 0; k < n; k++)
      list[k] = tg_gated_substitute(s, end->src[1 + k], p->range, p->value, p->cond, marks);
    if (i) tg_copy_statements(s, n, list, list);
    const tg_uop *loop = tg_end_like(s, end, p->inner, n, list);
    tg_push(&s->j->env, out, tg_end_like(s, end, p->outer, 1, &loop));
  }
}

typedef struct { tg_schedule *s; const listing *l; } reduce_listing;

static const tg_uop *list_reduce(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const reduce_listing *x = user;
  const tg_uop *range = x->l->piece[0].range, *sum = NULL;
  if (!reduces_over(old, range)) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  if (a.in_order && x->l->n > 1)
    tg_fail_at(j, x->l->o->pos, "split %s: a sum_in_order keeps the order of its terms", tg_range_text(x->s, range));
  if (a.generic && x->l->n > 1)
    tg_fail_at(j, x->l->o->pos, "split %s: a general reduction cannot be cut into parts", tg_range_text(x->s, range));
  for (uint32_t i = 0; i < x->l->n; i++) {
    reduce_splitting r = {x->s, &x->l->piece[i]};
    const tg_uop *part = split_reduce(j, old, src, &r);
    if (i) part = tg_copy_reduction(x->s, part);
    sum = sum ? tg_op2(j, a.op, sum, part) : part;
  }
  return sum;
}

static void split_list(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  listing *lists = tg_new(&j->env, listing, axis.n);
  check_names(s, o, o->n > 1 ? o->names[1] : NULL, o->n > 2 ? o->names[2] : NULL);
  const tg_naming *names = name_parts(s, &axis);
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range;
    check_splittable(s, o, "split", r);
    lists[i] = pieces_of(s, o, r, &names[i]);
    for (uint32_t k = 0; k < i; k++) { /* the same piece of one register tile stays one axis */
      if (axis.group[k] != axis.group[i] || lists[k].n != lists[i].n) continue;
      for (uint32_t p = 0; p < lists[i].n; p++) {
        tg_axis_tie(s, lists[i].piece[p].outer, lists[k].piece[p].outer);
        tg_axis_tie(s, lists[i].piece[p].inner, lists[k].piece[p].inner);
      }
      break;
    }
    if (axis.site[i].owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, r, list_loop, &lists[i]);
    else {
      reduce_listing x = {s, &lists[i]};
      s->sink = tg_map(j, s->sink, list_reduce, NULL, &x);
    }
  }
}

void tg_opt_split(tg_schedule *s, const tg_opt *o) {
  if (o->sizes) split_list(s, o);
  else
    tg_split_range(s, o, o->names[0], o->number[0], o->n > 1 ? o->names[1] : NULL, o->n > 2 ? o->names[2] : NULL, NULL);
}

/* What a register tile ties stays tied. now: what each range of the axis has become so far, NULL: it stays. */
static void stay_tied(tg_schedule *s, const tg_axis *axis, uint32_t at, const tg_uop **now, const tg_uop *range) {
  now[at] = range;
  for (uint32_t k = 0; k < at; k++) {
    if (axis->group[k] != axis->group[at] || !now[k]) continue;
    tg_axis_tie(s, range, now[k]);
    return;
  }
}

void tg_opt_pad(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  const tg_uop **whole = tg_new(&j->env, const tg_uop *, axis.n);
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range, *extent = tg_extent(r);
    if (tg_divides(j, o->number[0], extent)) continue;
    const tg_uop *wide = tg_idx_mul(j, tg_idx_ceildiv(j, extent, o->number[0]), o->number[0]);
    splitting p = {.range = r, .outer = tg_axis_range(s, r, tg_range_name(s, r), wide, tg_range_kind(r))};
    stay_tied(s, &axis, i, whole, p.outer);
    p.value = p.outer;
    p.cond = tg_op2(j, TG_OP_LT, p.outer, extent);
    apply(s, &axis.site[i], &p);
  }
}

/* r is r' - e % n: e + r is then n times something more than r'. */
void tg_opt_align(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  const tg_uop **whole = tg_new(&j->env, const tg_uop *, axis.n);
  tg_earlier *earlier = tg_new(&j->env, tg_earlier, axis.n);
  uint32_t count = 0;
  int64_t n = o->number[0];
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range, *extent = tg_extent(r);
    check_splittable(s, o, "align", r);
    const tg_uop *before = tg_op2(j, TG_OP_MOD, tg_index_around(s, o, "align", &axis.site[i]), tg_index(j, n));
    before = tg_simplified(s, before);
    const tg_uop *wide = tg_idx_add(j, extent, tg_index(j, n - 1));
    if (before->op == TG_OP_CONST && !before->arg) continue;
    splitting p = {.range = r, .outer = tg_axis_range(s, r, tg_range_name(s, r), wide, tg_range_kind(r))};
    stay_tied(s, &axis, i, whole, p.outer);
    p.value = tg_idx_sub(j, p.outer, before);
    p.cond = tg_and(j, tg_op2(j, TG_OP_LE, before, p.outer),
                    tg_op2(j, TG_OP_LT, p.outer, tg_idx_add(j, extent, before)));
    apply(s, &axis.site[i], &p);
    earlier[count++] = (tg_earlier){p.outer, before};
  }
  if (count) tg_widen_tiles(s, count, earlier);
}

void tg_opt_tile(tg_schedule *s, const tg_opt *o) {
  const char *order[8], *made[2];
  uint32_t m = 0;
  while (m < 4 && o->number[m]) m++;
  for (uint32_t i = 0; i < m; i++) {
    bool named = o->n > m;
    tg_split_range(s, o, o->names[i], o->number[i], named ? o->names[m + i] : NULL, named ? o->names[2 * m + i] : NULL,
                   made);
    order[i] = made[0];
    order[m + i] = made[1];
  }
  if (m > 1) tg_order_ranges(s, o, 2 * m, order);
}
