/* SPDX-License-Identifier: MIT
 * Pass distribute, after places are assigned: the author's SHUFFLEs that one shuffle instruction cannot do. If their
 * lanes lie in several warps, the values go through LOCAL memory. If the shuffled value reads a tile that went to
 * LOCAL memory, each lane first loads its own value into a register. Both are statements of their own before the one
 * with the SHUFFLE, so every lane has given its value before any lane reads one. */
#include "lower/distribute/distribute.h"

static bool reads_shared(tg_workgroup *w, const tg_uop *value) {
  uint32_t n;
  const tg_uop **order = tg_toposort(w->j, value, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_in_memory(w, order[i]->src[0]) &&
        tg_buffer_info(w->j, order[i]->src[0])->role != TG_ROLE_IN)
      return true;
  return false;
}

static bool within_warp(const tg_workgroup *w, uint32_t par) {
  int64_t end = w->par.data[par].stride * w->par.data[par].room;
  return end <= w->lanes && w->lanes % end == 0;
}

/* The innermost SHUFFLE (sources before users) that needs a statement before it; NULL: none. */
static const tg_uop *next_exchange(tg_workgroup *w, const tg_uop *store, uint32_t *par) {
  uint32_t n;
  const tg_uop **order = tg_toposort(w->j, store, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_SHUFFLE && tg_par_of(w, order[i]->src[1], par) &&
        (!within_warp(w, *par) || reads_shared(w, order[i]->src[0])))
      return order[i];
  return NULL;
}

/* Where value is stored: a register, or the element of LOCAL memory whose subscripts are the ranges around the item. */
static void give(tg_workgroup *w, tg_group_item *item, const tg_uop *define, uint32_t n, const tg_uop *const *sub,
                 const tg_uop *value) {
  tg_group_item *d = tg_item_new(w, item->outer, define, item->pos),
                *store = tg_item_new(w, item->outer, tg_store(w->j, define, n ? sub : NULL, value, NULL, 0), item->pos);
  tg_insert_before(w, item, d);
  tg_tile_of(w, define)->whole = !n;
  if (n) tg_note_copies(w, d);
  store->n = item->n;
  memcpy(store->par, item->par, sizeof item->par);
  tg_insert_before(w, item, store);
}

static void keep_exchanged(tg_workgroup *w, tg_group_item *item) {
  tg_job *j = w->j;
  uint32_t par;
  for (const tg_uop *x; (x = next_exchange(w, item->u, &par));) {
    tg_buffer info = {.name = "given", .space = TG_SPACE_REG, .type = x->src[0]->type, .pos = item->pos};
    const tg_uop *dim[TG_PARS], *sub[TG_PARS], *got;
    if (within_warp(w, par)) {
      const tg_uop *reg = tg_define(j, info, x->src[0]->lanes, NULL, NULL, true);
      give(w, item, reg, 0, NULL, x->src[0]);
      got = tg_shuffle(j, tg_load(j, reg, NULL, NULL, NULL, 0), x->src[1], x->src[2]);
    } else {
      info.space = TG_SPACE_LOCAL;
      info.rank = (uint8_t)item->n;
      for (uint32_t i = 0; i < item->n; i++) {
        sub[i] = w->par.data[item->par[i]].range;
        dim[i] = tg_index(j, w->par.data[item->par[i]].extent);
      }
      const tg_uop *memory = tg_define(j, info, x->src[0]->lanes, dim, NULL, true);
      give(w, item, memory, item->n, sub, x->src[0]);
      for (uint32_t i = 0; i < item->n; i++)
        if (item->par[i] == par) sub[i] = tg_op2(j, TG_OP_MOD, x->src[2], dim[i]);
      got = tg_load(j, memory, sub, NULL, NULL, 0);
    }
    item->u = tg_substitute(j, item->u, 1, &x, &got);
  }
}

static void collect(tg_workgroup *w, tg_group_item *at, void *all) {
  TG_VEC(tg_group_item *) *list = all;
  if (at->u && at->u->op == TG_OP_STORE) tg_push(&w->j->env, list, at);
  for (uint32_t i = 0; i < at->list.n; i++) collect(w, at->list.data[i], all);
}

void tg_keep_exchanged(tg_workgroup *w) {
  TG_VEC(tg_group_item *) all = {0};
  collect(w, w->body, &all);
  for (uint32_t i = 0; i < all.n; i++) keep_exchanged(w, all.data[i]);
}
