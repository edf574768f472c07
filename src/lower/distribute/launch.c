/* SPDX-License-Identifier: MIT
 * Pass distribute, entry: cuts a program into launches, one after another. Each is a nest of global ranges around one
 * workgroup, whose statements distribute.c puts into device form. Statements between such nests become a launch of one
 * workgroup. A temporary that several launches use stays outside of them, as LOCAL memory of the SINK: the memory that
 * launches of a kernel share. If the size of one is not constant, all statements become one workgroup instead. On
 * targets without warps the pass changes nothing. */
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
static const tg_uop *grid(tg_job *j, const tg_lowering *l, const tg_uop *end, const tg_outside *kept,
                          tg_form *defines) {
  const tg_uop *only = NULL;
  tg_form body = {{0}};
  uint32_t others = 0;
  for (uint32_t i = 1; i < end->n; i++) {
    if (end->src[i]->op == TG_OP_DEFINE) tg_push(&j->env, &defines->list, end->src[i]);
    else if (!others++) only = end->src[i];
  }
  if (others == 1 && is_grid(j, only)) {
    const tg_uop *inner = grid(j, l, only, kept, defines);
    if (inner) tg_push(&j->env, &body.list, inner);
  } else {
    tg_form all = {{0}};
    for (uint32_t i = 0; i < defines->list.n; i++) tg_push(&j->env, &all.list, defines->list.data[i]);
    for (uint32_t i = 1; i < end->n; i++)
      if (end->src[i]->op != TG_OP_DEFINE) tg_push(&j->env, &all.list, end->src[i]);
    tg_workgroup_form(j, l, all.list.n, all.list.data, kept, &body);
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

static bool constant_size(const tg_uop *define) {
  for (uint32_t i = 0; i < define->n; i++)
    if (define->src[i]->op != TG_OP_CONST) return false;
  return true;
}

/* Marks the temporaries of the SINK that more than one launch uses. launch: number of the launch, by statement. False:
 * the size of one is not constant. */
static bool find_shared(tg_job *j, const tg_uop *sink, const uint32_t *launch, uint8_t *shared) {
  for (uint32_t d = 0; d < sink->n; d++) {
    uint32_t user = 0;
    if (sink->src[d]->op != TG_OP_DEFINE || tg_buffer_info(j, sink->src[d])->space == TG_SPACE_GLOBAL) continue;
    for (uint32_t i = 0; i < sink->n; i++) {
      if (!launch[i] || !uses_buffer(j, sink->src[i], sink->src[d])) continue;
      if (user && user != launch[i]) shared[d] = 1;
      user = launch[i];
    }
    if (shared[d] && !constant_size(sink->src[d])) return false;
  }
  return true;
}

/* The program with shared temporaries in LOCAL memory; kept: their buffers. */
static const tg_uop *keep_shared(tg_job *j, const tg_uop *sink, const uint8_t *shared, tg_outside *kept) {
  const tg_uop **from = tg_new(&j->env, const tg_uop *, sink->n), **to = tg_new(&j->env, const tg_uop *, sink->n);
  uint32_t n = 0;
  for (uint32_t d = 0; d < sink->n; d++) {
    if (!shared[d]) continue;
    tg_buffer info = *tg_buffer_info(j, sink->src[d]);
    from[n] = to[n] = sink->src[d];
    if (info.space == TG_SPACE_REG) {
      info.space = TG_SPACE_LOCAL;
      info.demand = TG_PLACE_NONE;
      to[n] = tg_define(j, info, sink->src[d]->lanes, sink->src[d]->src, NULL, true);
    }
    tg_push(&j->env, kept, to[n++]);
  }
  return tg_substitute(j, sink, n, from, to);
}

static void one_launch(tg_job *j, const tg_lowering *l, const tg_uop *sink, const uint32_t *launch, uint32_t which,
                       const tg_outside *kept, tg_form *out) {
  tg_form list = {{0}}, defines = {{0}};
  const tg_uop *first = NULL;
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *u = sink->src[i];
    bool mine = launch[i] == which;
    if (u->op == TG_OP_DEFINE && tg_buffer_info(j, u)->space != TG_SPACE_GLOBAL && !tg_is_outside(kept, u))
      for (uint32_t k = 0; k < sink->n && !mine; k++) mine = launch[k] == which && uses_buffer(j, sink->src[k], u);
    if (!mine) continue;
    if (!first && launch[i]) first = u;
    tg_push(&j->env, u->op == TG_OP_DEFINE ? &defines.list : &list.list, u);
  }
  if (list.list.n == 1 && is_grid(j, first)) {
    const tg_uop *end = grid(j, l, first, kept, &defines);
    if (end) tg_push(&j->env, &out->list, end);
    return;
  }
  for (uint32_t i = 0; i < list.list.n; i++) tg_push(&j->env, &defines.list, list.list.data[i]);
  tg_workgroup_form(j, l, defines.list.n, defines.list.data, kept, out);
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
  uint8_t *shared = tg_new(&j->env, uint8_t, sink->n + 1);
  tg_outside kept = {0};
  if (find_shared(j, sink, launch, shared)) sink = keep_shared(j, sink, shared, &kept);
  else {
    for (uint32_t i = 0; i < sink->n; i++) launch[i] = launch[i] != 0;
    launches = launches != 0;
  }
  tg_form out = {{0}};
  for (uint32_t i = 0; i < sink->n; i++)
    if (sink->src[i]->op == TG_OP_DEFINE &&
        (tg_buffer_info(j, sink->src[i])->space == TG_SPACE_GLOBAL || tg_is_outside(&kept, sink->src[i])))
      tg_push(&j->env, &out.list, sink->src[i]);
  for (uint32_t k = 1; k <= launches; k++) one_launch(j, l, sink, launch, k, &kept, &out);
  sink = tg_versioned(j, tg_sink(j, out.list.n, out.list.data));
  return l->rules ? tg_simplify(j, l->rules, sink) : sink;
}
