/* SPDX-License-Identifier: MIT
 * Pass linear, on targets with warps: accesses of neighbours under one gate become neighbours in their list, so that
 * they are emitted in one branch and can be joined to wide ones.
 *
 * A load of an input moves up, behind an earlier one of the same buffer and gate, with the index arithmetic that it
 * needs; where loads may begin anywhere, whole 16 bytes also under several gates. A store moves down, before a later
 * one of the same buffer and gate, if nothing between reads the buffer. Nothing passes a loop, a barrier or a wait. */
#include "lower/sweep.h"

enum {
  WINDOW = 512,   /* statements between the first of a group and the last */
  LOADS = 16,     /* of a group: each holds registers from there on */
  UNIT = 16       /* bytes of the widest store */
};

typedef struct {
  tg_job *j;
  bool anywhere;                  /* loads of whatever width may begin at any element */
  const tg_uop **list;
  uint32_t n;
  uint32_t *place, *epoch, now;   /* by node id: its place in the window, if epoch is now */
  uint8_t *taken;                 /* by place in the list: moves up */
} grouping;

static bool stops(const tg_uop *u) {
  return u->op == TG_OP_END || u->op == TG_OP_BARRIER || u->op == TG_OP_WAIT || u->op == TG_OP_PREFETCH;
}

static bool in_memory(tg_job *j, const tg_uop *access) {
  return tg_buffer_info(j, access->src[0])->space != TG_SPACE_REG;
}

/* One element, under one condition that is not known. */
static bool is_gated(tg_job *j, const tg_uop *u) {
  const tg_uop *gate = tg_gate(u);
  return gate && gate->op != TG_OP_CONST && gate->lanes == 1 && u->src[1]->lanes == 1 && in_memory(j, u) &&
         tg_define_of(u->src[0])->lanes == 1 && !(u->arg & (TG_ASYNC | TG_ATOMIC));
}

static bool may_move_up(tg_job *j, const tg_uop *u) {
  return u->op == TG_OP_LOAD && u->lanes == 1 && is_gated(j, u) && tg_alternative(u)->op == TG_OP_CONST &&
         tg_buffer_info(j, u->src[0])->role == TG_ROLE_IN;
}

static bool may_move_down(tg_job *j, const tg_uop *u) {
  return u->op == TG_OP_STORE && is_gated(j, u) && tg_stored(u)->lanes == 1;
}

static bool together(const tg_uop *a, const tg_uop *b) {
  return a->op == b->op && tg_gate(a) == tg_gate(b) && tg_define_of(a->src[0]) == tg_define_of(b->src[0]);
}

static bool in_unit(const grouping *g, const tg_uop *a, const tg_uop *b) {
  int64_t by;
  return g->anywhere && tg_define_of(a->src[0]) == tg_define_of(b->src[0]) && tg_lies_behind(a, b, &by) && by > 0 &&
         by < UNIT / tg_type_bytes(a->type);
}

static bool is_arithmetic(const tg_uop *u) {
  return u->n && !tg_is_float(u->type) && u->lanes == 1 && u->op != TG_OP_LOAD && u->op != TG_OP_SHUFFLE &&
         u->op != TG_OP_FOLD && u->op != TG_OP_MATRIX && tg_ops[u->op].arity > 0;
}

/* Marks what of the list u needs and stands behind `from`; false: something that cannot move. */
static bool take_operands(grouping *g, const tg_uop *u, uint32_t from, uint32_t depth) {
  for (uint32_t i = 0; i < u->n; i++) {
    const tg_uop *x = u->src[i];
    if (g->epoch[x->id] != g->now || g->place[x->id] <= from || g->taken[g->place[x->id]]) continue;
    if (!depth || !is_arithmetic(x) || !take_operands(g, x, from, depth - 1)) return false;
    g->taken[g->place[x->id]] = 1;
  }
  return true;
}

/* Moves what is taken: arithmetic before place `at`, loads behind it. */
static void move_up(grouping *g, uint32_t at, uint32_t end) {
  const tg_uop **old = tg_new(&g->j->env, const tg_uop *, end - at);
  uint32_t n = at;
  memcpy(old, g->list + at, (end - at) * sizeof *old);
  for (uint32_t i = at + 1; i < end; i++)
    if (g->taken[i] && old[i - at]->op != TG_OP_LOAD) g->list[n++] = old[i - at];
  g->list[n++] = old[0];
  for (uint32_t i = at + 1; i < end; i++)
    if (g->taken[i] && old[i - at]->op == TG_OP_LOAD) g->list[n++] = old[i - at];
  for (uint32_t i = at + 1; i < end; i++)
    if (!g->taken[i]) g->list[n++] = old[i - at];
  memset(g->taken + at, 0, end - at);
}

/* The loads that belong to the one at place `at`. How many places are settled then. */
static uint32_t group_loads(grouping *g, uint32_t at) {
  uint32_t loads = 1, end = at + 1, moved = 0;
  g->now++;
  for (; end < g->n && end - at < WINDOW && !stops(g->list[end]); end++) {
    g->place[g->list[end]->id] = end;
    g->epoch[g->list[end]->id] = g->now;
  }
  uint32_t unit = 1;
  for (uint32_t i = at + 1; i < end; i++) unit += may_move_up(g->j, g->list[i]) && in_unit(g, g->list[at], g->list[i]);
  const bool whole = unit == UNIT / (uint32_t)tg_type_bytes(g->list[at]->type);
  for (uint32_t i = at + 1; i < end && loads < LOADS; i++) {
    const tg_uop *u = g->list[i];
    if (!may_move_up(g->j, u) || !(together(g->list[at], u) || (whole && in_unit(g, g->list[at], u)))) continue;
    uint8_t *before = tg_new(&g->j->env, uint8_t, end - at);
    memcpy(before, g->taken + at, end - at);
    if (!take_operands(g, u, at, 8)) {
      memcpy(g->taken + at, before, end - at);
      continue;
    }
    g->taken[i] = 1;
    loads++;
  }
  for (uint32_t i = at + 1; i < end; i++) moved += g->taken[i];
  if (loads > 1) move_up(g, at, end);
  return moved + 1;
}

static bool reads(const tg_uop *u, const tg_uop *define) {
  return u->op == TG_OP_LOAD && tg_define_of(u->src[0]) == define;
}

/* Moves the store at place `at` down to the next one that it belongs to, unless so many stand there already. */
static void move_down(grouping *g, uint32_t at) {
  const tg_uop *u = g->list[at], *define = tg_define_of(u->src[0]);
  uint32_t most = UNIT / (uint32_t)tg_type_bytes(define->type), before = 1;
  while (before <= at && may_move_down(g->j, g->list[at - before]) && together(g->list[at - before], u)) before++;
  before = most ? (before - 1) % most + 1 : 1;   /* of a group that is not full */
  if (before >= most) return;
  for (uint32_t i = at + 1; i < g->n && i - at < WINDOW && !stops(g->list[i]); i++) {
    const tg_uop *v = g->list[i];
    if (reads(v, define)) return;
    if (v->op != TG_OP_STORE || tg_define_of(v->src[0]) != define) continue;
    if (!may_move_down(g->j, v) || !together(u, v)) return;
    const tg_uop **first = g->list + at + 1 - before;   /* and those that have come to it */
    uint32_t between = i - at - 1;
    const tg_uop **moving = tg_new(&g->j->env, const tg_uop *, before);
    memcpy(moving, first, before * sizeof *moving);
    memmove(first, g->list + at + 1, between * sizeof *first);
    memcpy(first + between, moving, before * sizeof *moving);
    return;
  }
}

void tg_group_gated(tg_job *j, bool anywhere, uint32_t n, const tg_uop **list) {
  grouping g = {.j = j, .anywhere = anywhere, .list = list, .n = n};
  bool any = false;
  for (uint32_t i = 0; i < n && !any; i++) any = may_move_up(j, list[i]) || may_move_down(j, list[i]);
  if (!any) return;
  g.place = tg_new(&j->env, uint32_t, j->uops.n);
  g.epoch = tg_new(&j->env, uint32_t, j->uops.n);
  g.taken = tg_new(&j->env, uint8_t, n + 1);
  for (uint32_t i = 0; i < n; i++)
    if (may_move_up(j, list[i])) i += group_loads(&g, i) - 1;
  for (uint32_t i = 0; i < n; i++)
    if (may_move_down(j, list[i])) move_down(&g, i);
}
