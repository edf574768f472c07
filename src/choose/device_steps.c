/* SPDX-License-Identifier: MIT
 * Steps on GPUs: a loop whose iterations need the one before, such as time around the sweep of a stencil, as the whole
 * of a nest. Cores cannot wait for one another within a launch, so the nest would be one workgroup. Instead each
 * iteration is a launch of its own, or one for each nest inside (`cut`, `fission`): words for a loop of the nests
 * inside are for all its copies. So it is for as many iterations as make a small program, where a launch takes less
 * than what all cores save. */
#include "choose/device.h"

enum { MOST_STEPS = 64 };   /* each is code of its own */

/* How many terms of sums around have a load of their own. */
static double terms_of(tg_nest *n, const tg_uop *load, uint32_t count, const tg_uop *const *order) {
  double terms = 1;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; order[i]->op == TG_OP_REDUCE && k < tg_reduce_info(order[i]).ranges; k++)
      if (tg_uses(n->j, load, tg_reduce_ranges(order[i])[k]))
        terms *= tg_nest_trips(tg_iterations(tg_reduce_ranges(order[i])[k]));
  return terms;
}

/* Bytes that all iterations of the loops of a nest access; 0: there is a statement that is no loop or store. */
static double bytes_of(tg_nest *n, const tg_uop *u, double times) {
  double bytes = 0, one;
  uint32_t count;
  if (u->op == TG_OP_END) {
    for (uint32_t i = 1; i < u->n; i++) {
      if (!(one = bytes_of(n, u->src[i], times * tg_nest_trips(tg_iterations(u->src[0]))))) return 0;
      bytes += one;
    }
    return bytes;
  }
  if (u->op != TG_OP_STORE) return 0;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_LOAD || order[i] == u)
      bytes += (double)tg_type_bytes(tg_define_of(order[i]->src[0])->type) * terms_of(n, order[i], count, order);
  return bytes * times;
}

/* Do the launches take less than one workgroup? */
static bool pays(tg_nest *n, const tg_uop *end) {
  const tg_target *t = n->l->target;
  double bytes = 0, one, launches = end->n - 1;
  for (uint32_t i = 1; i < end->n; i++) {
    if (end->src[i]->op != TG_OP_END || !(one = bytes_of(n, end->src[i], 1))) return false;
    bytes += one;
  }
  if (!t->core_bytes) return false;
  return bytes / t->core_bytes > launches * tg_device_launch_cycles(t) + bytes / t->core_bytes / t->threads;
}

static bool is_steps(tg_nest *n, const tg_uop *end) {
  const char *why;
  if (end->op != TG_OP_END || tg_range_kind(end->src[0]) != TG_LOOP || tg_is_merge(end)) return false;
  int64_t extent = tg_iterations(end->src[0]);
  if (extent < 2 || extent > MOST_STEPS || !pays(n, end)) return false;
  for (uint32_t i = 1; i < end->n; i++) {
    const tg_uop *inner = end->src[i];
    if (tg_range_kind(inner->src[0]) != TG_LOOP || tg_range_verdict(&n->s, inner, &why) != TG_INDEPENDENT) return false;
  }
  return tg_range_verdict(&n->s, end, &why) != TG_INDEPENDENT;
}

typedef struct { tg_nest *n; const tg_uop *top; } steps;

static bool write_words(void *user) {
  const steps *c = user;
  tg_nest *n = c->n;
  const char *name = tg_device_name(n, c->top->src[0]), *b = tg_nest_base(n, name);
  const bool several = c->top->n > 2;
  for (int64_t i = 0; i + 1 < tg_iterations(c->top->src[0]); i++) {
    if (!tg_device_word(n, "cut %s first as %s.%lld %s.on%lld", name, b, (long long)i, b, (long long)i)) return false;
    if (several && !tg_device_word(n, "fission %s.%lld", b, (long long)i)) return false;
    name = tg_format(&n->j->env, "%s.on%lld", b, (long long)i);
  }
  return !several || tg_device_word(n, "fission %s", name);
}

bool tg_device_steps(tg_nest *n, const tg_uop *top) {
  return is_steps(n, top) && tg_device_all(n, write_words, &(steps){n, top});
}
