/* SPDX-License-Identifier: MIT
 * The schedule of a row on a GPU whose elements are sums of their own, which a tile of registers has: the scores of a
 * query against all keys.
 *
 *   for h { for t { s[t] = f(sum(d, q[h,d] * K[h,t,d])) }  m = max(t, s[t]);  ..
 *           for e { o[h,e] = sum(t, s[t] * V[h,t,e]) } }
 *
 * What a sum reads lies side by side along its terms. So lanes have terms, and warps elements of the row: a warp reads
 * whole lines. Behind it, loops whose results lie side by side have lanes, too, and the warps share their sums. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum { MOST_WARPS = 16, MOST_COPIES = 8 };

static bool is_tile(const tg_nest *n, const tg_uop *store) {
  return tg_buffer_info(n->j, store->src[0])->space == TG_SPACE_REG;
}

/* The only store of a loop of the list whose kind is not set; NULL: it is another statement. */
static const tg_uop *store_of(const tg_uop *u) {
  bool one = u->op == TG_OP_END && u->n == 2 && u->src[1]->op == TG_OP_STORE && tg_range_kind(u->src[0]) == TG_LOOP;
  return one ? u->src[1] : NULL;
}

/* The range of the sum for an element of the tile, of which a load lies side by side along its terms, those of the next
 * element elsewhere; NULL: there is none, or another reduction beside it. */
static const tg_uop *terms_of(tg_nest *n, const tg_uop *loop, const tg_uop *store) {
  const tg_uop *terms = NULL, **order;
  uint32_t count;
  bool apart = false;
  order = tg_toposort(n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    if (terms || tg_reduce_info(order[i]).ranges != 1 || tg_reduce_info(order[i]).in_order) return NULL;
    terms = tg_reduce_ranges(order[i])[0];
  }
  for (uint32_t i = 0; i < count && terms; i++)
    if (order[i]->op == TG_OP_LOAD && tg_access_motion(n->j, order[i], terms) == TG_CONTIGUOUS)
      apart |= tg_uses(n->j, order[i], loop) && tg_access_motion(n->j, order[i], loop) != TG_CONTIGUOUS;
  return apart && tg_range_kind(terms) == TG_REDUCE && tg_iterations(terms) >= n->l->target->lanes ? terms : NULL;
}

/* Lanes along a range, whose other iterations are copies if they are few. */
static void say_lanes(tg_nest *n, tg_words *w, const tg_uop *range) {
  const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
  int64_t lanes = n->l->target->lanes;
  if (tg_iterations(range) > lanes) {
    tg_say(w, "split %s %lld as %s.c %s.l", name, (long long)lanes, b, b);
    if (tg_iterations(range) <= MOST_COPIES * lanes) tg_say(w, "upcast %s.c", b);
    name = tg_format(w->env, "%s.l", b);
  }
  tg_say(w, "lane %s", name);
}

bool tg_device_terms(tg_nest *n, const tg_uop *body) {
  const tg_uop *row = NULL, *terms = NULL;
  tg_words w = {.env = &n->j->env};
  const tg_target *t = n->l->target;
  for (uint32_t i = 1; i < body->n && !terms; i++) {
    const tg_uop *store = store_of(body->src[i]);
    if (!store || !is_tile(n, store) || tg_access_rank(store) != 1) continue;
    row = body->src[i]->src[0];
    terms = terms_of(n, row, store);
  }
  if (!terms) return false;
  int64_t warps = t->max_threads / t->lanes;
  while (warps > MOST_WARPS || warps > tg_iterations(row)) warps /= 2;
  if (warps < 2) return false;
  const char *name = tg_device_name(n, row), *b = tg_nest_base(n, name);
  tg_say(&w, "split %s %lld as %s.c %s.w", name, (long long)warps, b, b);
  tg_say(&w, "local %s.w", b);
  say_lanes(n, &w, terms);
  for (uint32_t i = 1; i < body->n; i++) {
    const tg_uop *store = store_of(body->src[i]);
    if (!store || is_tile(n, store) || tg_iterations(body->src[i]->src[0]) < t->lanes) continue;
    if (tg_access_motion(n->j, store, body->src[i]->src[0]) == TG_CONTIGUOUS) say_lanes(n, &w, body->src[i]->src[0]);
  }
  return tg_device_try(n, &w);
}
