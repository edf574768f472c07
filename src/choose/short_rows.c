/* SPDX-License-Identifier: MIT
 * Rows shorter than a vector, such as the channels of a pixel, that follow one another in memory: the loop over them
 * and the loop around it become one (`fuse`), along which vectors are full. What all of a row reads, as its alpha, is
 * then a few elements that a vector's lanes share; the code generator loads those once and shuffles them
 * (src/jit/emit_runs.c). */
#include "choose/nest.h"

/* Do the lanes of a vector along both loops read neighbours, or elements that lie within two vectors? whole: only
 * neighbours, since vectors begin anywhere in a row. */
static bool stays_near(const tg_nest *n, const tg_uop *access, const tg_nest_loop *row, const tg_nest_loop *rows,
                       bool whole) {
  int64_t along, across, lanes = n->lanes;
  if (tg_gate(access) || access->arg & TG_ATOMIC || !tg_access_distance(n->j, access, row->range, &along) ||
      !tg_access_distance(n->j, access, rows->range, &across))
    return false;
  if (along == 1 && across == row->extent) return true;
  return !whole && access->op == TG_OP_LOAD && along >= 0 && across >= 0 &&
         (lanes / row->extent - 1) * across + (row->extent - 1) * along < 2 * lanes;
}

void tg_nest_join_rows(tg_nest *n) {
  if (n->depth < 2 || n->reductions.n || n->lanes < 2) return;
  const tg_nest_loop *row = &n->loop[n->depth - 1], *rows = row - 1;
  bool free = row->lockstep && rows->lockstep && row->members == 1 && rows->members == 1;
  if (!free || row->extent < 2 || 2 * row->extent > (int64_t)n->lanes) return;
  if (rows->extent >= 0 && rows->extent * row->extent < (int64_t)n->lanes) return;
  for (uint32_t i = 1; i < row->end->n; i++)
    if (row->end->src[i]->op != TG_OP_STORE) return;
  bool whole = (int64_t)n->lanes % row->extent != 0;
  for (uint32_t i = 0; i < n->stores.n; i++)
    if (!stays_near(n, n->stores.data[i], row, rows, true)) return;
  for (uint32_t i = 0; i < n->loads.n; i++)
    if (!stays_near(n, n->loads.data[i], row, rows, whole)) return;
  if (!TG_CHOOSE(n, "join", 1, 0, 1)) return;
  uint32_t from = n->j->opts.n;
  tg_nest_emit(n, "fuse %s %s as %s.%s", rows->name, row->name, rows->base, row->base);
  tg_nest_apply(n, from);
}
