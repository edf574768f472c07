/* SPDX-License-Identifier: MIT
 * About how many 32-bit registers a thread of a launch has at once, and so how many of its groups a core has room for.
 *
 * What is live is found backwards: a value from where it is made to its last use, an element of a tile of registers
 * from each store to the last load of it; what a loop needs from its last iteration, or from outside, lives all through
 * it. Addresses are counted by buffer, as the emitter makes them: one that steps, and immediate offsets. The order of
 * statements is the program's; compilers put loads nearer to their use, and so have less, or further ahead. */
#include <math.h>
#include "lower/sweep.h"
#include "model/device.h"

enum {
  ADDRESS = 2, LOCAL_ADDRESS = 1,   /* registers of an address, which has 64 bits or 32 */
  EACH = 8,                         /* registers that a thread has in any case: where it is, and what it counts */
  GRAIN = 8                         /* in such steps registers are given */
};

/* A value, by node id, or, behind these, an element of a tile. data: it is more than a part of addresses */
typedef struct { double words; bool live, data; } life;

typedef struct {
  tg_job *j;
  life *of;
  uint32_t n;
  uint32_t *first, *elements;       /* by buffer: of its elements in `of`; 0 elements: it is no tile of registers */
  bool *seen;                       /* by buffer: its address is counted */
  double now, most, fixed;
} lives;

static void find_data(lives *l, const tg_sweep *s) {
  for (uint32_t i = s->n; i-- > 0;) {
    const tg_uop *u = s->u[i];
    if (u->op == TG_OP_STORE) l->of[tg_stored(u)->id].data = true;
    if (u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_END) continue;
    bool data = l->of[u->id].data || tg_is_float(u->type) || u->op == TG_OP_MATRIX;
    for (uint32_t k = 0; k < u->n && data; k++) l->of[u->src[k]->id].data = true;
  }
}

static double words_of(const lives *l, const tg_uop *u) {
  if (u->op == TG_OP_CONST || u->op == TG_OP_DEFINE || u->op == TG_OP_IOTA) return 0;
  if (u->op == TG_OP_RANGE) return tg_range_kind(u) == TG_LOOP;
  if (u->type == TG_VOID || u->type == TG_BOOL || (!tg_is_float(u->type) && !l->of[u->id].data)) return 0;
  return ceil(tg_type_bytes(u->type) * u->lanes / 4.0);
}

static void begin_or_end(lives *l, uint32_t at, bool live) {
  life *v = &l->of[at];
  if (v->live == live) return;
  v->live = live;
  l->now += live ? v->words : -v->words;
  if (l->now > l->most) l->most = l->now;
}

/* The elements that the access may be of. */
static uint32_t elements_of(const lives *l, const tg_uop *access, uint32_t *from) {
  uint32_t b = tg_buffer_ordinal(access->src[0]), n = l->elements[b];
  bool known = n && tg_access_rank(access) && access->src[1]->op == TG_OP_CONST;
  int64_t at = known ? access->src[1]->arg : 0;
  *from = l->first[b] + (at >= 0 && at < n ? (uint32_t)at : 0);
  return known ? 1 : n;
}

static void address(lives *l, const tg_uop *access) {
  uint32_t b = tg_buffer_ordinal(access->src[0]);
  if (l->elements[b] || l->seen[b]) return;
  l->seen[b] = true;
  l->fixed += tg_buffer_info(l->j, access->src[0])->space == TG_SPACE_LOCAL ? LOCAL_ADDRESS : ADDRESS;
}

/* A statement, from behind: what it makes is not live before it, and what it uses is. */
static void statement(lives *l, const tg_uop *u) {
  bool access = u->op == TG_OP_LOAD || u->op == TG_OP_STORE;
  uint32_t from = 0, n = access ? elements_of(l, u, &from) : 0;
  if (access) address(l, u);
  if (u->op == TG_OP_STORE && n == 1 && !tg_gate(u)) begin_or_end(l, from, false);
  begin_or_end(l, u->id, false);
  for (uint32_t k = access; k < u->n; k++) begin_or_end(l, u->src[k]->id, true);
  for (uint32_t i = 0; u->op == TG_OP_LOAD && i < n; i++) begin_or_end(l, from + i, true);
}

static void walk(lives *l, const tg_uop *const *list, uint32_t n);

/* Twice: what the body needs at its start is live at its end, too. */
static void loop(lives *l, const tg_uop *end) {
  bool *after = tg_alloc(&l->j->env, l->n);
  for (uint32_t i = 0; i < l->n; i++) after[i] = l->of[i].live;
  begin_or_end(l, end->src[0]->id, true);
  walk(l, end->src + 1, end->n - 1);
  for (uint32_t i = 0; i < l->n; i++)
    if (after[i]) begin_or_end(l, i, true);
  walk(l, end->src + 1, end->n - 1);
  begin_or_end(l, end->src[0]->id, false);
}

static void walk(lives *l, const tg_uop *const *list, uint32_t n) {
  for (uint32_t i = n; i-- > 0;) {
    const tg_uop *u = list[i];
    if (u->op != TG_OP_DEFINE && u->op != TG_OP_END) statement(l, u);
    else if (u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_LOOP) loop(l, u);
    else if (u->op == TG_OP_END) walk(l, u->src + 1, u->n - 1);
    else
      for (uint32_t b = tg_buffer_ordinal(u), k = 0; k < l->elements[b]; k++) begin_or_end(l, l->first[b] + k, false);
  }
}

/* Tiles of registers; their elements stand behind the nodes. */
static void find_tiles(lives *l, const tg_sweep *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const tg_uop *u = s->u[i];
    if (u->op != TG_OP_DEFINE || tg_buffer_info(l->j, u)->space != TG_SPACE_REG) continue;
    double n = 1;
    for (uint32_t d = 0; d < tg_buffer_info(l->j, u)->rank; d++) n *= (double)tg_bounds_of(l->j, u->src[d]).hi;
    l->first[tg_buffer_ordinal(u)] = l->n;
    l->elements[tg_buffer_ordinal(u)] = (uint32_t)fmin(n, UINT16_MAX);
    l->n += l->elements[tg_buffer_ordinal(u)];
  }
}

double tg_device_registers(tg_job *j, const tg_uop *top) {
  tg_sweep s = tg_sweep_of(j, top);
  lives l = {.j = j, .n = j->uops.n, .fixed = EACH};
  l.first = tg_alloc(&j->env, sizeof *l.first * j->buffers.n);
  l.elements = tg_alloc(&j->env, sizeof *l.elements * j->buffers.n);
  l.seen = tg_alloc(&j->env, j->buffers.n);
  find_tiles(&l, &s);
  l.of = tg_alloc(&j->env, sizeof *l.of * l.n);
  find_data(&l, &s);
  for (uint32_t i = 0; i < s.n; i++) {
    const tg_uop *u = s.u[i];
    l.of[u->id].words = words_of(&l, u);
    uint32_t b = u->op == TG_OP_DEFINE ? tg_buffer_ordinal(u) : 0;
    for (uint32_t k = 0; u->op == TG_OP_DEFINE && k < l.elements[b]; k++)
      l.of[l.first[b] + k].words = ceil(tg_type_bytes(u->type) * u->lanes / 4.0);
  }
  walk(&l, &top, 1);
  return ceil((l.most + l.fixed) / GRAIN) * GRAIN;
}
