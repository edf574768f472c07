/* SPDX-License-Identifier: MIT
 * order: permutes the loops of a perfect nest, which is legal if each pair of loops that changes places is
 * interchangeable; or the ranges of a reduction, unless the sum must be taken in order. A reduction's range listed
 * before a loop becomes a loop around it (block.c). Each nest that holds copies of the axes is permuted.
 * swap: two ranges of a launch change places, which changes the order of launch. */
#include "schedule/opt.h"

static bool is_member(const tg_axis *a, const tg_uop *range) {
  for (uint32_t i = 0; i < a->n; i++)
    if (a->site[i].range == range) return true;
  return false;
}

static int axis_of_range(uint32_t n, const tg_axis *axes, const tg_uop *range) {
  for (uint32_t i = 0; i < n; i++)
    if (is_member(&axes[i], range)) return (int)i;
  return -1;
}

static const char *word_of(const tg_opt *o) { return tg_opt_rows[o->word].word; }

/* The nest below end, outermost first, as far as it is perfect. */
static uint32_t perfect_nest(const tg_uop *end, const tg_uop **nest, uint32_t max) {
  uint32_t n = 0;
  while (end->op == TG_OP_END && n < max) {
    nest[n++] = end;
    if (end->n != 2) break;
    end = end->src[1];
  }
  return n;
}

typedef struct { const tg_uop *const *nest, *const *order; uint32_t n; } reordered;

static void rebuild_nest(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  (void)end;
  const reordered *r = user;
  const tg_uop *const *body = r->nest[r->n - 1]->src + 1;
  uint32_t count = r->nest[r->n - 1]->n - 1;
  for (uint32_t i = r->n; i-- > 0;) {
    const tg_uop **loop = tg_new(&s->j->env, const tg_uop *, 1);
    *loop = tg_end_like(s, r->order[i], r->order[i]->src[0], count, body);
    body = loop;
    count = 1;
  }
  tg_push(&s->j->env, out, *body);
}

/* Do no iterations of these two loops of a perfect nest ever meet? What the extents between read, only the outer one
 * knows. */
static bool surely_exchangeable(tg_schedule *s, const tg_uop *outer, const tg_uop *inner) {
  if (tg_surely_independent(s, outer)) return true;
  for (const tg_uop *u = outer; u != inner; u = u->src[1])
    if (tg_loads_below(s->j, tg_extent(u->src[1]->src[0]))) return false;
  return tg_surely_independent(s, inner);
}

static void check_pairs(tg_schedule *s, const tg_opt *o, uint32_t n, const tg_uop *const *nest,
                        const tg_uop *const *order) {
  for (uint32_t a = 0; a < n; a++) {
    for (uint32_t b = a + 1; b < n; b++) { /* nest[a] outside nest[b]; in order? */
      uint32_t at_a = 0, at_b = 0;
      while (order[at_a] != nest[a]) at_a++;
      while (order[at_b] != nest[b]) at_b++;
      if (at_a < at_b) continue;
      const char *outer = tg_range_text(s, nest[a]->src[0]), *inner = tg_range_text(s, nest[b]->src[0]), *why = NULL;
      if (tg_uses(s->j, tg_extent(nest[b]->src[0]), nest[a]->src[0]))
        tg_fail_at(s->j, o->pos, "%s: the extent of %s depends on %s", word_of(o), inner, outer);
      if (surely_exchangeable(s, nest[a], nest[b])) continue;
      if (!s->l->unjudged && !tg_may_swap(s->j, s->sink, nest[a], nest[b], &why))
        tg_fail_at(s->j, o->pos, "%s: %s may not run outside %s: %s", word_of(o), inner, outer,
                   why ? why : "the iterations depend on one another");
    }
  }
}

/* Fills the places that the named ranges hold in the nest with them in the order of the names. */
static bool order_nest(tg_schedule *s, const tg_opt *o, const tg_uop *top, uint32_t n, const tg_axis *axes) {
  const tg_uop *nest[64], *order[64], *named[16] = {0};
  uint32_t count = perfect_nest(top, nest, 64), last = 0, found = 0, put = 0;
  for (uint32_t i = 0; i < count; i++) {
    int a = axis_of_range(n, axes, nest[i]->src[0]);
    if (a < 0) continue;
    if (named[a]) return false;
    named[a] = nest[i];
    last = i + 1;
    found++;
  }
  if (found != n) return false;
  for (uint32_t i = 0; i < last; i++) order[i] = axis_of_range(n, axes, nest[i]->src[0]) < 0 ? nest[i] : named[put++];
  for (uint32_t i = 1; i < last; i++)
    if (tg_range_kind(order[i]->src[0]) == TG_THREAD)
      tg_fail_at(s->j, o->pos, "%s: the thread range %s must stay outermost", word_of(o),
                 tg_range_text(s, order[i]->src[0]));
  check_pairs(s, o, last, nest, order);
  reordered r = {nest, order, last};
  s->sink = tg_replace_end(s, s->sink, top->src[0], rebuild_nest, &r);
  return true;
}

typedef struct { tg_schedule *s; const tg_opt *o; uint32_t n; const tg_axis *axes; bool found; } reduce_order;

static const tg_uop *order_reduce(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  reduce_order *r = user;
  if (old->op != TG_OP_REDUCE) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  const tg_uop *const *ranges = tg_reduce_ranges(old), *named[16] = {0}, *fresh[8];
  uint32_t found = 0, put = 0;
  for (uint32_t i = 0; i < a.ranges; i++) {
    int k = axis_of_range(r->n, r->axes, ranges[i]);
    if (k >= 0 && !named[k]) named[k] = src[old->n - a.ranges + i], found++;
  }
  if (!found) return NULL;
  const char *word = word_of(r->o);
  if (found != r->n) tg_fail_at(j, r->o->pos, "%s: not all of these are ranges of one reduction", word);
  if (a.in_order) tg_fail_at(j, r->o->pos, "%s: a sum_in_order keeps the order of its ranges", word);
  for (uint32_t i = 0; i < a.ranges; i++)
    fresh[i] = axis_of_range(r->n, r->axes, ranges[i]) < 0 ? src[old->n - a.ranges + i] : named[put++];
  for (uint32_t i = 0; i < a.ranges; i++)
    for (uint32_t k = i + 1; k < a.ranges; k++)
      if (tg_uses(j, fresh[i], fresh[k]) && fresh[i] != fresh[k])
        tg_fail_at(j, r->o->pos, "%s: the extent of %s depends on %s", word, tg_range_text(r->s, fresh[i]),
                   tg_range_text(r->s, fresh[k]));
  r->found = true;
  return tg_reduce_like(j, old, src, a.ranges, fresh);
}

static const tg_uop *loop_over(const tg_uop *u, const tg_uop *range) {
  if (u->op == TG_OP_END && u->src[0] == range) return u;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return NULL;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *e = loop_over(u->src[i], range);
    if (e) return e;
  }
  return NULL;
}

static void order_from(tg_schedule *s, const tg_opt *o, const tg_uop *range, uint32_t n, const tg_axis *axes) {
  const tg_uop *top = loop_over(s->sink, range);
  if (top && order_nest(s, o, top, n, axes)) return;
  tg_str text = tg_str_new(&s->j->env);
  for (uint32_t q = 0; q < n; q++) tg_str_printf(&text, "%s%s", q ? ", " : "", tg_range_text(s, axes[q].site[0].range));
  if (o->word == TG_OPT_THREAD && s->l->target && tg_target_is_device(s->l->target))
    tg_fail_at(s->j, o->pos, "thread: %s are no perfect nest, and this target has no phases inside loops", text.data);
  tg_fail_at(s->j, o->pos, "%s: %s are no perfect nest: a statement stands between them, or one is not there",
             word_of(o), text.data);
}

static const tg_site *parent_site(const tg_schedule *s, uint32_t p) { return &s->sites.data[p]; }

/* ---- the word ---- */

/* The loops in their order first, then each of the reduction's ranges around the loop that follows it. */
static void order_blocked(tg_schedule *s, const tg_opt *o, uint32_t n, const char *const *names, const tg_axis *axes) {
  const char *loops[16];
  uint32_t count = 0;
  bool is_loop[16];
  for (uint32_t i = 0; i < n; i++) {
    is_loop[i] = axes[i].site[0].owner->op == TG_OP_END;
    if (is_loop[i]) loops[count++] = names[i];
  }
  if (!is_loop[n - 1])
    tg_fail_at(s->j, o->pos, "%s: %s is a reduction's, and stands inside all loops anyway", word_of(o),
               names[n - 1]);
  if (count > 1) tg_order_ranges(s, o, count, loops);
  for (uint32_t i = n - 1; i-- > 0;)
    if (!is_loop[i]) tg_block_reduction(s, o, names[i], names[i + 1]);
}

void tg_order_ranges(tg_schedule *s, const tg_opt *o, uint32_t n, const char *const *names) {
  tg_axis axes[16];
  uint32_t loops = 0;
  tg_assert(&s->j->env, n <= 16);
  s->moved = true;
  for (uint32_t i = 0; i < n; i++) axes[i] = tg_axis_find(s, o, names[i]);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (axes[i].site[0].range == axes[k].site[0].range)
        tg_fail_at(s->j, o->pos, "%s: %s is named twice", word_of(o), names[i]);
  for (uint32_t i = 0; i < n; i++) loops += axes[i].site[0].owner->op == TG_OP_END;
  if (loops && loops < n) {
    order_blocked(s, o, n, names, axes);
    return;
  }
  if (!loops) {
    reduce_order r = {s, o, n, axes, false};
    s->sink = tg_map(s->j, s->sink, order_reduce, NULL, &r);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < axes[i].n; k++) { /* the outermost loops of the named ones */
      const tg_site *site = &axes[i].site[k];
      bool outermost = true;
      for (uint32_t p = site->parent; p != UINT32_MAX && outermost; p = parent_site(s, p)->parent)
        outermost = axis_of_range(n, axes, parent_site(s, p)->range) < 0;
      if (outermost) order_from(s, o, site->range, n, axes);
    }
  }
}

void tg_move_outermost(tg_schedule *s, const tg_opt *o, const tg_site *site) {
  tg_axis axes[16];
  uint32_t depth = 0;
  s->moved = true;
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent) depth++;
  if (!depth) return;
  if (depth >= TG_COUNT(axes))
    tg_fail_at(s->j, o->pos, "%s stands too deep to move outermost", tg_range_text(s, site->range));
  axes[0] = (tg_axis){1, site, NULL};
  uint32_t n = depth + 1;
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent)
    axes[depth--] = (tg_axis){1, &s->sites.data[p], NULL};
  order_from(s, o, axes[1].site->range, n, axes);
}

static bool may_pass(tg_schedule *s, const tg_uop *outer, const tg_uop *inner) {
  const char *why = NULL;
  if (!outer || !inner) return false;
  if (s->l->unjudged) return outer->n == 2 && !tg_uses(s->j, tg_extent(inner->src[0]), outer->src[0]);
  if (outer->n != 2 || tg_uses(s->j, tg_extent(inner->src[0]), outer->src[0])) return false;
  if (surely_exchangeable(s, outer, inner)) return true;
  return tg_may_swap(s->j, s->sink, outer, inner, &why);
}

/* Do the iterations of the loop over range, where it stands in that program, depend on one another? */
static bool stands_free(tg_schedule *s, const tg_uop *sink, const tg_uop *range) {
  const tg_uop *end = loop_over(sink, range);
  const char *why;
  return s->l->unjudged || tg_surely_independent(s, end) || tg_loop_verdict(s->j, sink, end, &why) == TG_INDEPENDENT;
}

/* Loops of phases around a thread range: their turns are known before, one comes after another. */
static bool are_phases(tg_schedule *s, uint32_t p) {
  for (; p != UINT32_MAX; p = parent_site(s, p)->parent)
    if (tg_range_kind(parent_site(s, p)->range) != TG_LOOP ||
        !tg_known_before(s->j, tg_extent(parent_site(s, p)->range)))
      return false;
  return true;
}

/* As far as it is still a loop of tasks there: what is independent within a loop need not be so around it. */
void tg_move_outward(tg_schedule *s, const tg_opt *o, const tg_site *site) {
  tg_axis axes[16];
  s->moved = true;
  /* beyond[n]: what stays around if it passes n - 1 loops */
  uint32_t p = site->parent, beyond[TG_COUNT(axes) + 1] = {0, p}, n = 1;
  /* the loops as they stand: another copy of the axis may have been moved already */
  const tg_uop *end = loop_over(s->sink, site->range);
  for (; p != UINT32_MAX && n < TG_COUNT(axes) && may_pass(s, loop_over(s->sink, parent_site(s, p)->range), end);
       beyond[++n] = p)
    p = parent_site(s, p)->parent;
  const tg_uop *before = s->sink;
  for (; n && are_phases(s, beyond[n]) && tg_known_before(s->j, tg_extent(site->range)); n--) {
    axes[0] = (tg_axis){1, site, NULL};
    for (uint32_t i = 1; i < n; i++) axes[n - i] = (tg_axis){1, parent_site(s, beyond[i]), NULL};
    if (n > 1) order_from(s, o, axes[1].site->range, n, axes);
    if (stands_free(s, s->sink, site->range)) return;
    s->sink = before;
  }
  tg_move_outermost(s, o, site);   /* which says why it cannot */
}

void tg_opt_order(tg_schedule *s, const tg_opt *o) {
  bool loop = false, sum = false;
  for (uint32_t i = 0; i < o->n && o->tile; i++) {
    const tg_uop *owner = tg_axis_find(s, o, o->names[i]).site[0].owner;
    loop |= owner->op == TG_OP_END;
    sum |= owner->op == TG_OP_REDUCE;
  }
  if (o->tile && !(loop && sum))
    tg_fail_at(s->j, o->pos, "order: no sum's range is listed before a loop, and only a sum in blocks waits in %s",
               o->tile);
  tg_order_ranges(s, o, o->n, o->names);
}

/* Does a range of the axis stand around the site? */
static bool stands_inside(const tg_schedule *s, const tg_site *site, const tg_axis *axis) {
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent)
    if (is_member(axis, s->sites.data[p].range)) return true;
  return false;
}

void tg_opt_swap(tg_schedule *s, const tg_opt *o) {
  tg_axis axes[2];
  for (uint32_t i = 0; i < 2; i++) {
    axes[i] = tg_axis_find(s, o, o->names[i]);
    for (uint32_t k = 0; k < axes[i].n; k++) {
      const tg_uop *r = axes[i].site[k].range;
      tg_kind kind = tg_range_kind(r);
      if (kind != TG_GLOBAL && kind != TG_THREAD)
        tg_fail_at(s->j, o->pos, "swap: %s is of kind %s, and not of the launch (global or thread): see order",
                   tg_range_text(s, r), tg_kind_name[kind]);
    }
  }
  bool inside = stands_inside(s, &axes[0].site[0], &axes[1]);
  const char *names[2] = {o->names[!inside], o->names[inside]};
  tg_order_ranges(s, o, 2, names);
}
