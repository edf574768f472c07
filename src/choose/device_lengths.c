/* SPDX-License-Identifier: MIT
 * Perfect nests on GPUs with sums of a length that each iteration has for itself, as rows of a sparse matrix or of a
 * triangle: threads of a group run in lockstep, so those along such a loop would need one length. A group has an
 * iteration, and its threads the terms: a warp, or more of them where the length is known to be long. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  MOST_WARPS = 8,
  TERMS = 8      /* of a lane, at least, before a further warp shares the sum */
};

/* Does the extent change with a loop, or is it read from memory? */
static bool varies(tg_nest *n, const tg_uop *range, uint32_t depth, const tg_uop *const *chain) {
  bool varies = tg_loads_below(n->j, tg_extent(range));
  for (uint32_t d = 0; d < depth; d++) varies |= tg_uses(n->j, tg_extent(range), chain[d]->src[0]);
  return varies;
}

/* Warps that share the sum. A length that is read may be any: it has one. */
static int64_t warps_of(tg_nest *n, const tg_uop *range) {
  int64_t lanes = n->l->target->lanes, warps = 1;
  double most = tg_loads_below(n->j, tg_extent(range)) ? 0 : (double)tg_bounds_of(n->j, tg_extent(range)).hi;
  while (warps < MOST_WARPS && most / 2 >= (double)(2 * warps * lanes * TERMS)) warps *= 2;
  return warps;
}

static void say_terms(tg_nest *n, tg_words *w, const tg_uop *range) {
  const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
  int64_t lanes = n->l->target->lanes, warps = warps_of(n, range);
  tg_say(w, "split %s %lld as %s.o %s.t", name, (long long)(warps * lanes), b, b);
  if (warps > 1) {
    tg_say(w, "split %s.t %lld as %s.w %s.l", b, (long long)lanes, b, b);
    tg_say(w, "group %s.w", b);
    tg_say(w, "lane %s.l", b);
  } else tg_say(w, "lane %s.t", b);
}

/* Has no word split one of the loops? */
static bool are_whole(const tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  for (uint32_t d = 0; d < depth; d++) {
    bool there = false;
    for (uint32_t i = 0; i < n->s.sites.n && !there; i++) there = n->s.sites.data[i].range == chain[d]->src[0];
    if (!there) return false;
  }
  return true;
}

/* Is another one that has threads among what it adds? They are those of a group already. */
static bool is_around(tg_nest *n, const tg_uop *reduce, uint32_t count, const tg_uop *const *taken) {
  for (uint32_t i = 0; i < count; i++)
    if (tg_uses(n->j, reduce->src[0], taken[i])) return true;
  return false;
}

bool tg_device_lengths(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  tg_words w = {.env = &n->j->env};
  const tg_uop *taken[NEST_MAX];
  uint32_t count, found = 0;
  if (n->versioned || !are_whole(n, depth, chain)) return false;
  const tg_uop **order = tg_toposort(n->j, chain[depth - 1], &count);
  for (uint32_t i = 0; i < count && found < NEST_MAX; i++) {   /* those inside others first */
    if (order[i]->op != TG_OP_REDUCE || tg_reduce_info(order[i]).in_order || tg_reduce_info(order[i]).ranges != 1)
      continue;
    const tg_uop *range = tg_reduce_ranges(order[i])[0];
    if (tg_range_kind(range) != TG_REDUCE || !varies(n, range, depth, chain)) continue;
    if (is_around(n, order[i], found, taken)) continue;
    say_terms(n, &w, range);
    taken[found++] = order[i];
  }
  for (uint32_t d = depth; d-- > 0;)
    if (tg_range_kind(chain[d]->src[0]) == TG_LOOP) tg_say(&w, "global %s", tg_device_name(n, chain[d]->src[0]));
  return found && tg_device_try(n, &w);
}
