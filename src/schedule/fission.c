/* SPDX-License-Identifier: MIT
 * fission: splits a loop so that each statement of its body gets a loop, and an axis, of its own.
 *
 *   for r { S; for j { s[j] += e } }    fission r    for r { S }  for j { s[j] += sum(r, e) }
 *
 * Legal if no statement depends, in a later iteration, on memory that a statement after it reads or writes. Statements
 * that share memory defined inside the loop stay together. An accumulation that then stands alone in its loop is
 * converted to a reduction, as in the author's program (raise.c). */
#include "schedule/opt.h"
#include "lower/sweep.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop **like;      /* by part: its range in the places before, NULL if there is none */
  uint32_t *part, parts;    /* by statement, from 1: which loop it goes to, from 1 */
  uint32_t most;            /* of like */
} fission;

/* Statements from the first to the last that touches memory defined in the loop are one part. */
static void group(fission *f, const tg_uop *end) {
  tg_job *j = f->s->j;
  uint32_t n = end->n - 1, *last = tg_new(&j->env, uint32_t, end->n + 1), reach = 0;
  f->part = tg_new(&j->env, uint32_t, end->n + 1);
  for (uint32_t i = 1; i <= n; i++) last[i] = i;
  for (uint32_t i = 1; i <= n; i++)
    for (uint32_t k = i + 1; end->src[i]->op == TG_OP_DEFINE && k <= n; k++)
      if (tg_uses(j, end->src[k], end->src[i])) last[i] = k;
  f->parts = 0;
  for (uint32_t i = 1; i <= n; i++) {
    f->parts += i > reach;
    f->part[i] = f->parts;
    if (last[i] > reach) reach = last[i];
  }
}

static void part_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  fission *f = user;
  tg_job *j = s->j;
  const tg_uop *r = end->src[0], **list = tg_new(&j->env, const tg_uop *, end->n);
  for (uint32_t p = 1, i = 1; p <= f->parts; p++) {
    const tg_uop *fresh = f->like[p] ? tg_axis_range(s, f->like[p], tg_range_name(s, r), tg_extent(r), TG_LOOP)
                                     : tg_range_new(j, tg_range_name(s, r), tg_extent(r), TG_LOOP, UINT32_MAX,
                                                    j->ranges.data[tg_range_ordinal(r)].pos);
    tg_axis_join(s, fresh, tg_axis_base(s, r));
    if (!f->like[p]) tg_axis_made_of(s, fresh, r, NULL);
    uint32_t n = 0;
    for (; i < end->n && f->part[i] == p; i++) list[n++] = tg_substitute(j, end->src[i], 1, &r, &fresh);
    const tg_uop *loop = tg_end_like(s, end, fresh, n, list), *raised = tg_raise_accumulation(j, loop);
    tg_push(&j->env, out, raised ? raised : loop);
    if (!f->like[p]) f->like[p] = fresh;
  }
}

/* Why it may not; NULL: it may. */
static const char *hindrance(const fission *f, const tg_uop *end) {
  tg_schedule *s = f->s;
  const tg_uop *r = end->src[0];
  const char *why = NULL;
  if (tg_range_kind(r) != TG_LOOP) return tg_format(&s->j->env, "it is %s already", tg_kind_name[tg_range_kind(r)]);
  if (tg_merge_of(end)) return "it carries state";
  if (tg_ring_stored(s, end)) return "copies are made ahead in it: stage afterwards";
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i]->op != TG_OP_STORE && end->src[i]->op != TG_OP_END && end->src[i]->op != TG_OP_DEFINE)
      return tg_format(&s->j->env, "`%s` in it concerns the statements around", tg_text(s->j, end->src[i]));
  if (f->parts > 1) tg_may_part(s->j, s->sink, end, f->part, &why);
  return why;
}

bool tg_may_fission(tg_schedule *s, const tg_uop *end) {
  fission f = {.s = s};
  group(&f, end);
  return f.parts > 1 && !hindrance(&f, end);
}

void tg_opt_fission(tg_schedule *s, const tg_opt *o) {
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  fission f = {.s = s, .o = o};
  bool several = false;
  for (uint32_t i = 0; i < axis.n; i++) {
    if (axis.site[i].owner->op != TG_OP_END)
      tg_fail_at(s->j, o->pos, "fission %s: it is a range of a reduction", tg_range_text(s, axis.site[i].range));
    group(&f, axis.site[i].owner);
    const char *why = hindrance(&f, axis.site[i].owner);
    if (why) tg_fail_at(s->j, o->pos, "fission %s: %s", tg_range_text(s, axis.site[i].range), why);
    several |= f.parts > 1;
    if (f.parts > f.most) f.most = f.parts;
  }
  if (!several)
    tg_fail_at(s->j, o->pos, "fission %s: it holds one statement, or several that share memory defined in it",
               tg_range_text(s, axis.site[0].range));
  f.like = tg_new(&s->j->env, const tg_uop *, f.most + 1);
  for (uint32_t i = 0; i < axis.n; i++) {
    group(&f, axis.site[i].owner);
    if (f.parts > 1) s->sink = tg_replace_end(s, s->sink, axis.site[i].range, part_loop, &f);
  }
}
