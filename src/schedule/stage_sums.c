/* SPDX-License-Identifier: MIT
 * stage of a buffer that the loop only adds to atomically, as a histogram does: the copy has what an iteration adds,
 * which is added to the buffer at its end.
 *
 *   for r { for i { atomic h[e] += v } }     stage h at r as hb     becomes
 *
 *   for r { for hb.0 { hb[hb.0] = 0 }  for i { atomic hb[e] += v }  for hb.0 { atomic h[hb.0] += hb[hb.0] } }
 *
 * Integers alone: their sums are the same in any order. The copy has all of the buffer, whose size must be constant. */
#include "schedule/stage.h"

enum { MOST_RANK = 8 };

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source, *copy;
  uint32_t adds, others;         /* accesses in the loop: atomic additions, and all others */
  uint32_t copies;
  const tg_uop *tied[MOST_RANK];
} summing;

TG_NORETURN static void refuse(const summing *g, const char *why) {
  tg_fail_at(g->s->j, g->o->pos, "stage %s at %s: %s", g->o->names[0], g->o->names[1], why);
}

static void count(summing *g, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(g->s->j, u, &n);
  g->adds = g->others = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *a = order[i];
    if (a->op != TG_OP_STORE && a->op != TG_OP_LOAD && a->op != TG_OP_PREFETCH) continue;
    if (tg_define_of(a->src[0]) != g->source) continue;
    if (a->op == TG_OP_STORE && a->arg & TG_ATOMIC) g->adds++;
    else g->others++;
  }
}

/* A loop over all elements of the copy, around one statement. */
static const tg_uop *over_copy(summing *g, const tg_uop *end, bool add) {
  tg_schedule *s = g->s;
  tg_job *j = s->j;
  const tg_uop *range[MOST_RANK];
  uint32_t rank = g->source->n;
  for (uint32_t d = 0; d < rank; d++) {
    const char *name = tg_sym(j, tg_format(&j->env, "%s.%u", tg_buffer_info(j, g->copy)->name, d));
    range[d] = tg_range_new(j, name, g->source->src[d], TG_LOOP, UINT32_MAX, g->o->pos);
    if (g->tied[d]) tg_axis_tie(s, range[d], g->tied[d]);
    g->tied[d] = range[d];
  }
  const tg_uop *value = add ? tg_load(j, g->copy, range, NULL, NULL, 0) : tg_zero(j, g->source->type);
  const tg_uop *u = tg_store(j, add ? g->source : g->copy, range, value, NULL, add ? TG_ATOMIC : 0);
  tg_set_pos(j, u, tg_get_pos(j, end));
  for (uint32_t d = rank; d-- > 0;) u = tg_end(j, range[d], 1, &u);
  return u;
}

static void sum_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  summing *g = user;
  tg_job *j = s->j;
  count(g, end);
  if (!g->adds) {   /* another loop of the axis */
    tg_push(&j->env, out, end);
    return;
  }
  if (g->others) refuse(g, "the loop reads it, too, or stores to it otherwise");
  tg_buffer info = {.name = g->o->n > 2 ? g->o->names[2] : tg_format(&j->env, "%s.copy", g->o->names[0]),
                    .space = TG_SPACE_LOCAL,
                    .rank = (uint8_t)g->source->n,
                    .type = g->source->type,
                    .align = 64,
                    .pos = g->o->pos};
  g->copy = tg_define(j, info, 1, g->source->src, NULL, true);
  tg_statements list = {0};
  tg_push(&j->env, &list, g->copy);
  tg_push(&j->env, &list, over_copy(g, end, false));
  for (uint32_t i = 1; i < end->n; i++) tg_push(&j->env, &list, tg_substitute(j, end->src[i], 1, &g->source, &g->copy));
  tg_push(&j->env, &list, over_copy(g, end, true));
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
  g->copies++;
}

bool tg_stage_sums(tg_schedule *s, const tg_opt *o, const tg_uop *source) {
  summing g = {.s = s, .o = o, .source = source};
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  bool adds = false;
  for (uint32_t i = 0; i < axis.n && !adds; i++) {
    count(&g, axis.site[i].owner);
    adds = g.adds > 0;
  }
  if (!adds || axis.site[0].owner->op != TG_OP_END) return false;
  if (!tg_is_int(source->type)) refuse(&g, "sums of floats are not the same in any order");
  if (o->expr || o->type || o->fill || o->number[3] > 1) refuse(&g, "a copy of what is added has no options");
  if (source->arg >> 32 & TG_STRIDED || source->n > MOST_RANK) refuse(&g, "its rows do not lie one behind another");
  for (uint32_t d = 0; d < source->n; d++)
    if (source->src[d]->op != TG_OP_CONST) refuse(&g, "its size is not constant");
  for (uint32_t i = 0; i < axis.n; i++) s->sink = tg_replace_end(s, s->sink, axis.site[i].range, sum_loop, &g);
  return true;
}
