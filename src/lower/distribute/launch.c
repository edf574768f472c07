/* SPDX-License-Identifier: MIT
 * Pass distribute, entry: cuts a program into launches, one after another. Each is a nest of global ranges around one
 * workgroup, whose statements distribute.c puts into device form. Statements between such nests become a launch of one
 * workgroup. If two launches would share a temporary, all statements become one workgroup instead. On targets without
 * warps the pass changes nothing. */
#include "lower/distribute/distribute.h"

static bool is_grid(tg_job *j, const tg_uop *u) {
  if (u->op != TG_OP_END || (tg_range_kind(u->src[0]) != TG_GLOBAL && tg_range_kind(u->src[0]) != TG_THREAD))
    return false;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, tg_extent(u->src[0]), &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE || order[i]->op == TG_OP_LOAD) return false;
  return true;
}

/* Descends through global ranges as long as each list holds only one loop; DEFINEs met on the way belong to the
 * workgroup. */
static const tg_uop *grid(tg_job *j, const tg_lowering *l, const tg_uop *end, tg_form *defines) {
  const tg_uop *only = NULL;
  tg_form body = {{0}};
  uint32_t others = 0;
  for (uint32_t i = 1; i < end->n; i++) {
    if (end->src[i]->op == TG_OP_DEFINE) tg_push(&j->env, &defines->list, end->src[i]);
    else if (!others++) only = end->src[i];
  }
  if (others == 1 && is_grid(j, only)) {
    const tg_uop *inner = grid(j, l, only, defines);
    if (inner) tg_push(&j->env, &body.list, inner);
  } else {
    tg_form all = {{0}};
    for (uint32_t i = 0; i < defines->list.n; i++) tg_push(&j->env, &all.list, defines->list.data[i]);
    for (uint32_t i = 1; i < end->n; i++)
      if (end->src[i]->op != TG_OP_DEFINE) tg_push(&j->env, &all.list, end->src[i]);
    tg_workgroup_form(j, l, all.list.n, all.list.data, &body);
  }
  return body.list.n ? tg_end(j, end->src[0], body.list.n, body.list.data) : NULL;
}

/* The range as kind global, whether the schedule made it `global` or `thread`. */
static const tg_uop *as_global(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  return old->op == TG_OP_RANGE && tg_range_kind(old) == TG_THREAD ? tg_range_again(j, old, src[0], TG_GLOBAL) : NULL;
}

static bool uses_buffer(tg_job *j, const tg_uop *u, const tg_uop *define) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if ((order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_STORE) && order[i]->src[0] == define) return true;
  return false;
}

/* Is a temporary of the SINK used by more than one launch? launch: number of the launch, by statement. */
static bool crosses(tg_job *j, const tg_uop *sink, const uint32_t *launch) {
  for (uint32_t d = 0; d < sink->n; d++) {
    uint32_t user = 0;
    if (sink->src[d]->op != TG_OP_DEFINE || tg_buffer_info(j, sink->src[d])->space == TG_SPACE_GLOBAL) continue;
    for (uint32_t i = 0; i < sink->n; i++) {
      if (!launch[i] || !uses_buffer(j, sink->src[i], sink->src[d])) continue;
      if (user && user != launch[i]) return true;
      user = launch[i];
    }
  }
  return false;
}

static void one_launch(tg_job *j, const tg_lowering *l, const tg_uop *sink, const uint32_t *launch, uint32_t which,
                       tg_form *out) {
  tg_form list = {{0}}, defines = {{0}};
  const tg_uop *first = NULL;
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *u = sink->src[i];
    bool mine = launch[i] == which;
    if (u->op == TG_OP_DEFINE && tg_buffer_info(j, u)->space != TG_SPACE_GLOBAL)
      for (uint32_t k = 0; k < sink->n && !mine; k++) mine = launch[k] == which && uses_buffer(j, sink->src[k], u);
    if (!mine) continue;
    if (!first && launch[i]) first = u;
    tg_push(&j->env, u->op == TG_OP_DEFINE ? &defines.list : &list.list, u);
  }
  if (list.list.n == 1 && is_grid(j, first)) {
    const tg_uop *end = grid(j, l, first, &defines);
    if (end) tg_push(&j->env, &out->list, end);
    return;
  }
  for (uint32_t i = 0; i < list.list.n; i++) tg_push(&j->env, &defines.list, list.list.data[i]);
  tg_workgroup_form(j, l, defines.list.n, defines.list.data, out);
}

const tg_uop *tg_pass_distribute(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  if (!l->target || l->target->lanes < 2) return sink;
  sink = tg_map(j, tg_plain(j, sink), as_global, NULL, NULL);
  uint32_t *launch = tg_new(&j->env, uint32_t, sink->n + 1), launches = 0;
  bool open = false;
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *u = sink->src[i];
    if (u->op == TG_OP_DEFINE) continue;
    bool tasks = is_grid(j, u);
    if (tasks || !open) launches++;
    open = !tasks;
    launch[i] = launches;
  }
  if (crosses(j, sink, launch)) {
    for (uint32_t i = 0; i < sink->n; i++) launch[i] = launch[i] != 0;
    launches = launches != 0;
  }
  tg_form out = {{0}};
  for (uint32_t i = 0; i < sink->n; i++)
    if (sink->src[i]->op == TG_OP_DEFINE && tg_buffer_info(j, sink->src[i])->space == TG_SPACE_GLOBAL)
      tg_push(&j->env, &out.list, sink->src[i]);
  for (uint32_t k = 1; k <= launches; k++) one_launch(j, l, sink, launch, k, &out);
  sink = tg_versioned(j, tg_sink(j, out.list.n, out.list.data));
  return l->rules ? tg_simplify(j, l->rules, sink) : sink;
}
