/* SPDX-License-Identifier: MIT
 * Nests on GPUs whose iterations each keep a few states over a loop that needs its steps in order, as the recurrence of
 * a state space model does: inner loops shorter than a warp, around which they stand.
 *
 *   for c { for t { for s { h[s] = f(h[s], x[t,c], ..) }  y[t,c] = sum(s, h[s] * ..) } }
 *
 * Lanes have the states, and what they leave of a warp further iterations of the loop around. A lane has as many
 * states as leave every core its warps: what it does once for all of them is then shared. Four steps are written out,
 * so that those after wait for no loads. */
#include "choose/device.h"

enum {
  WARPS_A_CORE = 2,   /* at least, so that one computes while another waits */
  MOST_WARPS = 4,     /* of a group, whose warps read the same lines */
  MOST_OWN = 8,       /* states of a lane */
  STEPS = 4
};

typedef struct {
  tg_nest *n;
  const tg_uop *around, *list, *in_order;   /* the loop around, and its END; the loop of steps */
  int64_t states, own, together, steps;
} states;

/* Innermost loops of one length, loops of steps around them, and tiles of that length or of one element. */
static bool find(states *c, const tg_uop *u, uint32_t depth) {
  for (uint32_t i = 1; i < u->n; i++) {
    const tg_uop *v = u->src[i];
    if (v->op == TG_OP_DEFINE && v->n && (v->n > 1 || v->src[0]->op != TG_OP_CONST)) return false;
    if (v->op != TG_OP_END) continue;
    int64_t extent = tg_iterations(v->src[0]);
    if (tg_range_kind(v->src[0]) != TG_LOOP) return false;
    if (!tg_stores_only(v)) {
      if (depth || c->steps) return false;
      c->steps = extent, c->in_order = v->src[0];
      if (!find(c, v, depth + 1)) return false;
      continue;
    }
    if (extent < 2 || (c->states && extent != c->states)) return false;
    c->states = extent;
  }
  return true;
}

/* The first innermost loop that has no threads yet; NULL: there is none. */
static const tg_uop *next_states(const states *c, const tg_uop *u) {
  for (uint32_t i = 1; i < u->n; i++) {
    const tg_uop *v = u->src[i], *range;
    if (v->op != TG_OP_END) continue;
    bool is_loop = tg_range_kind(v->src[0]) == TG_LOOP;
    if (is_loop && tg_stores_only(v) && tg_iterations(v->src[0]) == c->states) return v->src[0];
    if ((range = next_states(c, v))) return range;
  }
  return NULL;
}

/* Terms of each sum are states: exchanges between lanes add them. */
static bool sums_of_states(const states *c) {
  uint32_t count;
  const tg_uop **order = tg_toposort(c->n->j, c->list, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    tg_reduce_arg a = tg_reduce_info(order[i]);
    if (a.ranges != 1 || a.in_order || a.generic) return false;
    if (tg_iterations(tg_reduce_ranges(order[i])[0]) != c->states) return false;
  }
  return true;
}

static bool find_sizes(states *c, double iterations) {
  const tg_target *t = c->n->l->target;
  double wanted = (double)t->threads * WARPS_A_CORE, threads = iterations * (double)c->states;
  int64_t lanes = t->lanes, warps = 1;
  if (c->states & (c->states - 1) || c->states > lanes || !c->steps) return false;
  for (c->own = 1; 2 * c->own <= MOST_OWN && 2 * c->own <= c->states; c->own *= 2)
    if (threads / (double)(2 * c->own * lanes) < wanted) break;
  while (warps < MOST_WARPS && threads / (double)(2 * warps * c->own * lanes) >= wanted) warps *= 2;
  c->together = warps * lanes * c->own / c->states;
  return c->together > 1 && tg_iterations(c->around) % c->together == 0;
}

static bool write_words(void *user) {
  const states *c = user;
  tg_nest *n = c->n;
  const tg_uop *range;
  const char *name = tg_device_name(n, c->around), *around = tg_nest_base(n, name), *b;
  while ((range = next_states(c, tg_nest_loop_of(n, c->around)))) {
    name = tg_device_name(n, range), b = tg_nest_base(n, name);
    if (c->own > 1) {
      if (!tg_device_word(n, "split %s %lld as %s.l %s.u", name, (long long)c->own, b, b)) return false;
      if (!tg_device_word(n, "upcast %s.u", b)) return false;
      name = tg_format(&n->j->env, "%s.l", b);
    }
    if (c->own < c->states && !tg_device_word(n, "lane %s", name)) return false;
  }
  name = tg_device_name(n, c->in_order), b = tg_nest_base(n, name);
  if (c->steps % STEPS == 0) {
    if (!tg_device_word(n, "split %s %d as %s.o %s.u", name, STEPS, b, b)) return false;
    if (!tg_device_word(n, "unroll %s.u", b)) return false;
  }
  name = tg_device_name(n, c->around);
  return tg_device_word(n, "split %s %lld as %s.o %s.l", name, (long long)c->together, around, around) &&
         tg_device_word(n, "%s %s.l", c->own < c->states ? "local" : "lane", around) &&
         tg_device_word(n, "global %s.o", around);
}

bool tg_device_states(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  states c = {.n = n, .around = chain[depth - 1]->src[0], .list = chain[depth - 1]};
  const char *why;
  double iterations = 1;
  for (uint32_t d = 0; d < depth; d++) {
    if (tg_iterations(chain[d]->src[0]) < 1 || tg_range_kind(chain[d]->src[0]) != TG_LOOP) return false;
    iterations *= (double)tg_iterations(chain[d]->src[0]);
  }
  return !n->versioned && find(&c, c.list, 0) && c.states && sums_of_states(&c) && find_sizes(&c, iterations) &&
         tg_range_verdict(&n->s, c.list, &why) == TG_INDEPENDENT && tg_device_all(n, write_words, &c);
}
