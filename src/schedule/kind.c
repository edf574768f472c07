/* SPDX-License-Identifier: MIT
 * upcast, unroll, lane, local, group, global and thread set the kind of a range. With a size the range is split first,
 * and the inner part gets the kind (thread, global: the outer part). A global range is moved outermost, if its nest
 * allows. A thread range is moved outward as far as legal; on a host sequential loops may stay around it. */
#include "schedule/opt.h"

static tg_kind kind_of(tg_opt_word w) {
  switch (w) {
  case TG_OPT_UPCAST: return TG_UPCAST;
  case TG_OPT_UNROLL: return TG_UNROLL;
  case TG_OPT_LANE: return TG_LANE;
  case TG_OPT_LOCAL: return TG_LOCAL;
  case TG_OPT_GROUP: return TG_GROUP;
  case TG_OPT_GLOBAL: return TG_GLOBAL;
  default: return TG_THREAD;
  }
}

static bool makes_tasks(tg_kind k) { return k == TG_THREAD || k == TG_GLOBAL; }

static void check_loop(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_kind kind) {
  const char *why = NULL, *word = tg_kind_name[kind];
  if (kind == TG_UNROLL) return;
  if (kind == TG_GROUP)
    tg_fail_at(s->j, o->pos, "group %s: it is no range of a reduction", tg_range_text(s, site->range));
  /* of lockstep only all the kinds together tell: tg_schedule_check */
  if (!makes_tasks(kind) || s->l->unjudged) return;
  if (tg_range_verdict(s, site->owner, &why) != TG_INDEPENDENT)
    tg_fail_at(s->j, o->pos, "%s %s: its iterations depend on one another: %s", word, tg_range_text(s, site->range),
               why ? why : "");
}

static void check_lanes(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_kind kind) {
  if (kind != TG_LANE && kind != TG_THREAD) return;
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent) {
    const tg_uop *r = s->sites.data[p].range;
    /* it will stand outside of that loop */
    if (site->owner->op == TG_OP_REDUCE && !tg_uses(s->j, site->owner, r)) continue;
    if (tg_range_kind(r) == kind)
      tg_fail_at(s->j, o->pos, "%s %s: it stands inside %s, which is %s already", tg_kind_name[kind],
                 tg_range_text(s, site->range), tg_range_text(s, r), tg_kind_name[kind]);
  }
}

/* Iterations in lockstep run the loops inside together, so these have one extent. */
static void check_uniform(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_kind kind) {
  if (makes_tasks(kind) || kind == TG_UNROLL) return;
  const tg_uop *r = tg_extent_following(s, site->range);
  if (r)
    tg_fail_at(s->j, o->pos, "%s %s: the extent of %s depends on it", tg_kind_name[kind], tg_range_text(s, site->range),
               tg_range_text(s, r));
}

static bool of_threads(tg_kind k) { return k == TG_LANE || k == TG_LOCAL || k == TG_GROUP; }

/* On a target of threads all that a reduction has along them is combined at once. */
static void check_threads(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_kind kind) {
  if (site->owner->op != TG_OP_REDUCE || !of_threads(kind) || s->l->target->lanes <= 1) return;
  const tg_uop *const *r = tg_reduce_ranges(site->owner);
  int64_t threads = tg_extent(site->range)->arg;
  for (uint32_t i = 0; i < tg_reduce_info(site->owner).ranges; i++)
    if (r[i] != site->range && of_threads(tg_range_kind(r[i])) && tg_extent(r[i])->op == TG_OP_CONST)
      threads *= tg_extent(r[i])->arg;
  if (threads > TG_REDUCE_THREADS)
    tg_fail_at(s->j, o->pos, "%s %s: a reduction over %lld threads, and %d are the most", tg_kind_name[kind],
               tg_range_text(s, site->range), (long long)threads, TG_REDUCE_THREADS);
}

static void check(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_kind kind) {
  tg_job *j = s->j;
  const tg_uop *r = site->range;
  const char *word = tg_kind_name[kind];
  bool loop = site->owner->op == TG_OP_END;
  tg_kind now = tg_range_kind(r);
  if (now != TG_LOOP && now != TG_REDUCE && now != TG_GLOBAL)
    tg_fail_at(j, o->pos, "%s %s: it is %s already", word, tg_range_text(s, r), tg_kind_name[now]);
  bool parts = kind == TG_THREAD && s->l->target->lanes > 1;   /* of a sum: parts.c */
  if (tg_extent(r)->op != TG_OP_CONST && !(makes_tasks(kind) && (loop || parts)))
    tg_fail_at(j, o->pos, "%s %s: its extent is %s, and a constant is needed (split it first)", word,
               tg_range_text(s, r), tg_text(j, tg_extent(r)));
  if (!makes_tasks(kind) && tg_extent(r)->arg > 4096)
    tg_fail_at(j, o->pos, "%s %s: %lld copies are too many (split it first)", word, tg_range_text(s, r),
               (long long)tg_extent(r)->arg);
  if (!loop && kind == TG_GLOBAL)
    tg_fail_at(j, o->pos, "global %s: workgroups cannot combine what they computed (thread can)", tg_range_text(s, r));
  if (loop) check_loop(s, o, site, kind);
  else if (kind != TG_UNROLL && tg_reduce_info(site->owner).in_order)
    tg_fail_at(j, o->pos, "%s %s: a sum_in_order keeps the order of its terms", word, tg_range_text(s, r));
  check_lanes(s, o, site, kind);
  check_threads(s, o, site, kind);
  check_uniform(s, o, site, kind);
}

void tg_opt_kind(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_kind kind = kind_of(o->word);
  const char *name = o->names[0];
  if (kind == TG_LANE) tg_check_contracted(s, o);
  if (kind == TG_THREAD && tg_opt_carry(s, o)) {
    if (o->number[1])
      tg_fail_at(j, o->pos, "thread %s: static is for loops; the parts of one that carries state are tasks of one size",
                 name);
    return;
  }
  if ((kind == TG_THREAD && tg_scan_in_parts(s, o)) || (kind == TG_GROUP && tg_scan_in_blocks(s, o))) return;
  if (o->number[0]) {
    const char *made[2];
    tg_split_range(s, o, name, o->number[0], o->n > 1 ? o->names[1] : NULL, o->n > 2 ? o->names[2] : NULL, made);
    name = made[!makes_tasks(kind)];
  }
  tg_axis axis = tg_axis_find(s, o, name);
  const tg_uop **from = tg_new(&j->env, const tg_uop *, axis.n), **to = tg_new(&j->env, const tg_uop *, axis.n);
  for (uint32_t i = 0; i < axis.n; i++) {
    check(s, o, &axis.site[i], kind);
    from[i] = axis.site[i].range;
    to[i] = tg_range_again(j, from[i], tg_extent(from[i]), kind);
    if (o->number[1] && axis.site[i].owner->op == TG_OP_REDUCE)
      tg_fail_at(j, o->pos, "thread %s: static is for loops; the parts of a sum are tasks of one size",
                 tg_range_text(s, from[i]));
    if (o->number[1]) to[i] = tg_range_dealt(j, to[i], true);
  }
  if (kind == TG_THREAD && axis.site[0].owner->op == TG_OP_REDUCE && s->l->target->lanes > 1) {
    tg_sum_in_parts(s, o, &axis);
    return;
  }
  for (uint32_t i = 0; i < axis.n && makes_tasks(kind); i++)
    if (axis.site[i].owner->op == TG_OP_END)
      (kind == TG_THREAD && s->l->target->lanes <= 1 ? tg_move_outward : tg_move_outermost)(s, o, &axis.site[i]);
  bool sure = true;
  for (uint32_t i = 0; i < axis.n && !s->finishing; i++)
    sure &= axis.site[i].owner->op == TG_OP_REDUCE || tg_surely_independent(s, axis.site[i].owner);
  s->sink = tg_substitute(j, s->sink, axis.n, from, to);
  if (sure) return;
  tg_schedule_sites(s);
  tg_schedule_check(s, o);
}
