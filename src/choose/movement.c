/* SPDX-License-Identifier: MIT
 * The schedule of a movement: elements that are read along one loop and written along another, as in a transpose.
 * Vectors run along what is written; a block of as many rows as a line has elements is read at once, so that each line
 * that is read is used whole, and pass coalesce makes its gathers loads of whole vectors, transposed in registers. */
#include "choose/nest.h"

/* The loop along which all stores are contiguous; depth: there is none. */
static uint32_t written_along(const tg_nest *n) {
  for (uint32_t k = 0; k < n->depth; k++) {
    uint32_t i = 0;
    while (i < n->stores.n && tg_access_motion(n->j, n->stores.data[i], n->loop[k].range) == TG_CONTIGUOUS) i++;
    if (i == n->stores.n) return k;
  }
  return n->depth;
}

/* The loop along which a load is contiguous that jumps along the loop `written`; depth: there is none, and the nest is
 * no movement. */
static uint32_t read_along(const tg_nest *n, uint32_t written) {
  for (uint32_t i = 0; i < n->loads.n; i++) {
    if (tg_access_motion(n->j, n->loads.data[i], n->loop[written].range) != TG_STRIDES) continue;
    for (uint32_t k = 0; k < n->depth; k++)
      if (k != written && tg_access_motion(n->j, n->loads.data[i], n->loop[k].range) == TG_CONTIGUOUS) return k;
  }
  return n->depth;
}

uint32_t tg_nest_in_any_order(tg_nest *n) {
  const tg_uop *inner = n->loop[n->depth - 1].end;
  const char *why;
  uint32_t from = 0;
  for (uint32_t i = 1; i < inner->n; i++)
    if (inner->src[i]->op != TG_OP_STORE) return n->depth;
  for (uint32_t k = 0; k < n->depth; k++) {
    const tg_nest_loop *l = &n->loop[k];
    if (!l->parallel || l->members > 1) from = k + 1;
  }
  for (uint32_t k = n->depth; k-- > from;)
    for (uint32_t i = k + 1; i < n->depth; i++)
      if (tg_uses(n->j, tg_extent(n->loop[i].range), n->loop[k].range) ||
          !tg_may_swap(n->j, n->s.sink, n->loop[k].end, n->loop[i].end, &why))
        return k + 1;
  return from;
}

static bool may_be_ordered(tg_nest *n) {
  for (uint32_t k = 0; k < n->depth; k++)
    if (!n->loop[k].lockstep) return false;
  return !tg_nest_in_any_order(n);
}

static int64_t least_element(const tg_nest *n) {
  int64_t bytes = 8;
  for (uint32_t i = 0; i < n->loads.n; i++) {
    int64_t b = tg_type_bytes(n->loads.data[i]->type);
    if (b < bytes) bytes = b;
  }
  return bytes < 1 ? 1 : bytes;
}

bool tg_nest_movement(tg_nest *n) {
  if (n->depth < 2 || n->reductions.n || n->lanes < 2 || !may_be_ordered(n)) return false;
  uint32_t along = written_along(n), read = along < n->depth ? read_along(n, along) : n->depth;
  if (read == n->depth) return false;
  const tg_nest_loop *l = &n->loop[along], *k = &n->loop[read];
  int64_t line = TG_CACHE_LINE / least_element(n), lanes = n->lanes;
  while (k->extent >= 0 && line > lanes && line > k->extent) line /= 2;
  if ((l->extent >= 0 && l->extent < lanes) || (k->extent >= 0 && k->extent < line)) return false;
  long long rows = TG_CHOOSE(n, "block", line, lanes, 2 * lanes, 4 * lanes, 0);
  if (rows < 2) return false;
  const char *a = l->base, *b = k->base;
  tg_str outer = tg_str_new(&n->j->env);
  for (uint32_t i = 0; i < n->depth; i++)
    if (i != along && i != read) tg_str_printf(&outer, "%s ", n->loop[i].name);
  tg_nest_emit(n, "order %s%s %s", outer.data ? outer.data : "", k->name, l->name);
  tg_nest_emit(n, "split %s {%lld, 1} as %s.o %s.i", k->name, rows, b, b);
  tg_nest_emit(n, "order %s %s.i", l->name, b);
  tg_nest_emit(n, "split %s {%lld, 1} as %s.o %s.v", l->name, (long long)lanes, a, a);
  tg_nest_emit(n, "order %s.i %s.v", b, a);
  tg_nest_emit(n, "lane %s.v.by%lld", a, (long long)lanes);
  tg_nest_emit(n, "unroll %s.i.by%lld", b, rows);
  tg_nest_mark(n, l->name, true);
  tg_nest_mark(n, k->name, false);
  if (n->work < TG_THREAD_WORK || !n->threads) return true;
  if (outer.n) {
    for (uint32_t i = 0; i < n->depth; i++)
      if (i != along && i != read) {
        tg_nest_emit(n, "thread %s", n->loop[i].name);
        break;
      }
  } else tg_nest_emit(n, "thread %s.o.by%lld", b, rows);
  return true;
}
