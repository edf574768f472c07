/* SPDX-License-Identifier: MIT
 * Perfect nests on GPUs of which no other file knows more: threads along the loop in which the stores lie side by side,
 * or as close as any, and of loops around where it is short; the other loops are the grid. But
 *
 *   results that are too few for the cores, each with a long sum along which nothing lies side by side (sums of
 *   columns, a few rows times a matrix): warps share the sum
 *   values that take most of the work and are the same in all iterations of a loop (the mean of a pixel's channels, an
 *   angle): a thread has several of these iterations, as many as leave the cores their threads */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  MOST_THREADS = 256,
  GROUPS_A_CORE = 2,   /* at least, so that one computes while another waits for memory */
  ALL_WARPS = 16,      /* of a group that shares a sum */
  UNDER_WAY = 4,       /* terms of a thread */
  SUMS = 16,           /* of a thread, for iterations that need the same elements */
  WRITTEN_OUT = 8      /* iterations of a thread; more of them are a loop */
};

static int64_t power_of_two_from(int64_t v) {
  int64_t p = 1;
  while (p < v) p *= 2;
  return p;
}

bool tg_device_spread(tg_nest *n, const tg_uop *range, const char *warps, const char **outer) {
  const char *name = tg_device_name(n, range), *base = tg_nest_base(n, name);
  int64_t extent = tg_iterations(range), lanes = n->l->target->lanes, most = MOST_THREADS;
  *outer = NULL;
  if (extent == 1 || extent == 0) return false;
  if (extent > 0 && extent <= lanes) return tg_device_word(n, "lane %s", name);
  if (extent > 0 && extent < most) most = power_of_two_from(extent);
  if (!tg_device_word(n, "split %s %lld as %s.o %s.t", name, (long long)most, base, base)) return false;
  if (most == lanes) {
    if (!tg_device_word(n, "lane %s.t", base)) return false;
  } else {
    if (!tg_device_word(n, "split %s.t %lld as %s.w %s.l", base, (long long)lanes, base, base) ||
        !tg_device_word(n, "lane %s.l", base))
      return false;
    tg_device_word(n, "%s %s.w", warps, base);
  }
  *outer = tg_format(&n->j->env, "%s.o", base);
  return true;
}

uint32_t tg_device_contiguous(tg_nest *n, const tg_uop *in, const tg_uop *along, const tg_uop **ranges) {
  uint32_t count, found = 0;
  const tg_uop **order = tg_toposort(n->j, in, &count);
  for (uint32_t i = 0; i < count && found < NEST_MAX; i++) {
    const tg_uop *u = order[i], *range = NULL;
    if (u->op != TG_OP_REDUCE || tg_reduce_info(u).in_order || (along && tg_uses(n->j, u, along))) continue;
    for (uint32_t k = 0; k < tg_reduce_info(u).ranges; k++) {
      const tg_uop *r = tg_reduce_ranges(u)[k];
      bool contiguous = false;
      for (uint32_t q = 0; q < count && tg_is_free(r); q++)
        contiguous |= order[q]->op == TG_OP_LOAD && tg_access_motion(n->j, order[q], r) == TG_CONTIGUOUS;
      if (contiguous) range = r;
    }
    if (range && tg_iterations(range) != 1) ranges[found++] = range;
  }
  return found;
}

/* ---- the loop with the threads ---- */

static bool stores_move(tg_nest *n, const tg_uop *innermost, const tg_uop *range, tg_motion how) {
  for (uint32_t i = 1; i < innermost->n; i++)
    if (innermost->src[i]->op != TG_OP_STORE || tg_access_motion(n->j, innermost->src[i], range) != how) return false;
  return true;
}

typedef struct {
  tg_nest *n;
  uint32_t depth;
  const tg_uop *const *chain, *inner, *threads;
  int64_t extent;                  /* of the loop with the threads; -1: open */
  double others;                   /* iterations of the other loops; 0: not known */
  const tg_uop *inside;            /* the loop of which a thread has several iterations; NULL: none */
  int64_t several;
} plain;

static void see_others(plain *c) {
  c->others = 1;
  for (uint32_t k = 0; k < c->depth; k++) {
    const tg_uop *r = c->chain[k]->src[0];
    if (r == c->threads) continue;
    if (tg_iterations(r) < 1 || (tg_range_kind(r) != TG_LOOP && tg_range_kind(r) != TG_GLOBAL)) c->others = 0;
    c->others *= (double)tg_iterations(r);
  }
}

/* ---- warps that share a sum ---- */

/* The only reduction, of one range that nothing lies along; NULL: there is none, or more. */
static const tg_uop *long_sum(const plain *c) {
  const tg_uop *sum = NULL, *range;
  uint32_t count;
  const tg_uop **order = tg_toposort(c->n->j, c->inner, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    if (sum || tg_reduce_info(order[i]).ranges != 1 || tg_reduce_info(order[i]).in_order) return NULL;
    sum = order[i];
  }
  range = sum && tg_uses(c->n->j, sum, c->threads) ? tg_reduce_ranges(sum)[0] : NULL;
  return range && tg_is_free(range) && tg_iterations(range) >= ALL_WARPS * UNDER_WAY ? range : NULL;
}

/* A loop of a few iterations that do not move what lies along the threads. */
static bool needs_the_same(const plain *c, const tg_uop *loop) {
  uint32_t count;
  const tg_uop **order = tg_toposort(c->n->j, c->inner, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_LOAD && tg_uses(c->n->j, order[i], c->threads) && tg_uses(c->n->j, order[i], loop))
      return false;
  return tg_iterations(loop) > 1 && tg_iterations(loop) <= SUMS && tg_range_kind(loop) == TG_LOOP;
}

static void say_shared_sum(const plain *c, tg_words *w, const tg_uop *sum, int64_t warps, int64_t copies) {
  const char *k = tg_device_name(c->n, sum), *kb = tg_nest_base(c->n, k);
  const char *r = tg_device_name(c->n, c->threads), *rb = tg_nest_base(c->n, r);
  if (tg_iterations(sum) > warps * copies) {
    tg_say(w, "split %s %lld as %s.o %s.b", k, (long long)(warps * copies), kb, kb);
    k = tg_format(w->env, "%s.b", kb);
  }
  if (copies > 1) {
    tg_say(w, "split %s %lld as %s.u %s.w", k, (long long)warps, kb, kb);
    tg_say(w, "upcast %s.u", kb);
    k = tg_format(w->env, "%s.w", kb);
  }
  tg_say(w, "group %s", k);
  if (c->extent > c->n->l->target->lanes) {
    tg_say(w, "split %s %u as %s.o %s.l", r, c->n->l->target->lanes, rb, rb);
    tg_say(w, "lane %s.l", rb);
    tg_say(w, "global %s.o", rb);
  } else tg_say(w, "lane %s", r);
  for (uint32_t d = c->depth; d-- > 0;) {
    const tg_uop *loop = c->chain[d]->src[0];
    if (loop == c->threads || tg_iterations(loop) == 1 || tg_range_kind(loop) == TG_GLOBAL) continue;
    tg_say(w, "%s %s", needs_the_same(c, loop) ? "upcast" : "global", tg_device_name(c->n, loop));
  }
}

static bool shared_sum(const plain *c) {
  const tg_target *t = c->n->l->target;
  const tg_uop *sum = c->extent > 0 && c->others > 0 && !c->n->versioned ? long_sum(c) : NULL;
  double groups = (double)((c->extent + t->lanes - 1) / t->lanes), wanted = (double)t->threads * ALL_WARPS;
  int64_t warps = 1, sums = 1, copies = UNDER_WAY;
  if (!sum) return false;
  for (uint32_t d = 0; d < c->depth; d++) {
    const tg_uop *loop = c->chain[d]->src[0];
    if (loop == c->threads) continue;
    if (needs_the_same(c, loop)) sums *= tg_iterations(loop);
    else groups *= (double)tg_iterations(loop);
  }
  if (sums > SUMS) return false;
  while (copies > 1 && copies * sums > SUMS) copies /= 2;
  while (warps < ALL_WARPS && groups * (double)warps < wanted && tg_iterations(sum) >= 2 * warps * copies) warps *= 2;
  if (warps < 2) return false;
  while (copies > 1 && tg_iterations(sum) % (warps * copies)) copies /= 2;
  tg_words w = {.env = &c->n->j->env};
  say_shared_sum(c, &w, sum, warps, copies);
  return tg_device_try(c->n, &w);
}

/* ---- work that is the same in all iterations of a loop ---- */

/* Operations, roughly: functions are polynomials. */
static double work_of(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CONST: case TG_OP_PARAM: case TG_OP_RANGE: case TG_OP_DEFINE: case TG_OP_END: case TG_OP_REDUCE: return 0;
  case TG_OP_SQRT: case TG_OP_FDIV: case TG_OP_RSQRT: return 8;
  case TG_OP_EXP: case TG_OP_EXP2: case TG_OP_TANH: case TG_OP_ERF: case TG_OP_LOG: case TG_OP_LOG2: return 16;
  case TG_OP_SIN: case TG_OP_COS: case TG_OP_POW: return 32;
  default: return u->type == TG_INDEX ? 0 : 1;
  }
}

/* Work of an iteration: all, and what is the same for all iterations of the loop. */
static void work_without(const plain *c, const tg_uop *loop, double *all, double *same) {
  tg_job *j = c->n->j;
  uint32_t count;
  const tg_uop **order = tg_toposort(j, c->inner, &count);
  *all = *same = 0;
  for (uint32_t i = 0; i < count; i++) {
    double work = work_of(order[i]);
    for (uint32_t q = 0; q < count && work > 0; q++)
      for (uint32_t k = 0; order[q]->op == TG_OP_REDUCE && k < tg_reduce_info(order[q]).ranges; k++) {
        const tg_uop *r = tg_reduce_ranges(order[q])[k];
        if (tg_uses(j, order[i], r)) work *= tg_iterations(r) > 0 ? (double)tg_iterations(r) : 1;
      }
    *all += work;
    if (!tg_uses(j, order[i], loop)) *same += work;
  }
}

/* Iterations of the loop that a thread has best, by the work and the threads that are left. */
static int64_t iterations_of(const plain *c, const tg_uop *loop, double *gain) {
  const tg_target *t = c->n->l->target;
  double all, same, iterations = (double)c->extent * c->others, least = 0, first = 0;
  double wanted = (double)t->threads * GROUPS_A_CORE * MOST_THREADS;
  int64_t best = 1;
  work_without(c, loop, &all, &same);
  if (2 * same < all) return 1;
  for (int64_t n = 1; n <= tg_iterations(loop); n *= 2) {
    if (tg_iterations(loop) % n) break;
    double idle = wanted * (double)n / iterations, cost = (same / (double)n + all - same) * (idle > 1 ? idle : 1);
    if (n == 1) first = least = cost;
    if (cost < least) least = cost, best = n;
  }
  *gain = least > 0 ? first / least : 1;
  return best;
}

static void find_inside(plain *c) {
  double most = 1, gain = 1;
  for (uint32_t k = 0; k < c->depth && c->others > 0 && c->extent > 0 && !c->n->versioned; k++) {
    const tg_uop *loop = c->chain[k]->src[0];
    if (loop == c->threads || tg_range_kind(loop) != TG_LOOP) continue;
    int64_t several = iterations_of(c, loop, &gain);
    if (several > 1 && gain > most) most = gain, c->inside = loop, c->several = several;
  }
}

/* The loop's iterations of a thread stand inside of that with the threads, so that what is the same is there once. */
static void keep_inside(plain *c) {
  tg_nest *n = c->n;
  const char *name = tg_device_name(n, c->inside), *b = tg_nest_base(n, name);
  tg_str order = tg_str_new(&n->j->env);
  if (!tg_device_word(n, "split %s %lld as %s.o %s.u", name, (long long)c->several, b, b)) return;
  if (c->several <= WRITTEN_OUT) {
    tg_device_word(n, "upcast %s.u", b);
  } else {
    for (uint32_t k = 0; k < c->depth; k++) {
      const tg_uop *loop = c->chain[k]->src[0];
      if (loop != c->inside && loop != c->threads) tg_str_printf(&order, " %s", tg_device_name(n, loop));
      if (loop == c->inside) tg_str_printf(&order, " %s.o", b);
    }
    tg_device_word(n, "order%s %s %s.u", order.data, tg_device_name(n, c->threads), b);
  }
  tg_device_word(n, "global %s.o", b);
}

/* ---- words ---- */

/* Has no word split it? */
static bool is_there(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->s.sites.n; i++)
    if (n->s.sites.data[i].range == range && n->s.sites.data[i].owner->op == TG_OP_END) return true;
  return false;
}

/* What is left of the loops becomes the grid, innermost first: each moves outside the one before. */
static void grid(const plain *c) {
  for (uint32_t k = c->depth; k-- > 0;) {
    const tg_uop *loop = c->chain[k]->src[0];
    if (tg_range_kind(loop) == TG_LOOP && is_there(c->n, loop))
      tg_device_word(c->n, "global %s", tg_device_name(c->n, loop));
  }
}

/* Where the loop with the threads has few, iterations of the next one around are warps of the group. */
static void further_warps(const plain *c) {
  int64_t lanes = c->n->l->target->lanes, warps = MOST_THREADS / lanes;
  if (c->extent < 1 || c->extent > MOST_THREADS / 2 || c->n->versioned) return;
  warps /= power_of_two_from((c->extent + lanes - 1) / lanes);
  for (uint32_t k = c->depth; k-- > 0;) {
    const tg_uop *loop = c->chain[k]->src[0];
    int64_t extent = tg_iterations(loop), many = warps;
    if (loop == c->threads || loop == c->inside || tg_range_kind(loop) != TG_LOOP || extent < 2) continue;
    if (!is_there(c->n, loop)) continue;
    while (many > 1 && extent % many) many /= 2;
    if (many < 2) continue;
    const char *name = tg_device_name(c->n, loop), *b = tg_nest_base(c->n, name);
    tg_words w = {.env = &c->n->j->env};
    tg_say(&w, "split %s %lld as %s.o %s.w", name, (long long)many, b, b);
    tg_say(&w, "local %s.w", b);
    tg_say(&w, "global %s.o", b);
    for (uint32_t i = 0; i < w.n; i++)
      if (!tg_device_word(c->n, "%s", w.data[i])) return;
    return;
  }
}

static bool along(plain *c) {
  tg_nest *n = c->n;
  const tg_uop *reductions[NEST_MAX];
  const char *outer;
  c->extent = tg_iterations(c->threads);
  see_others(c);
  uint32_t alike = tg_device_contiguous(n, c->inner, c->threads, reductions);
  if (!alike && shared_sum(c)) return true;
  if (!alike) find_inside(c);
  if (c->inside) keep_inside(c);
  if (!tg_device_spread(n, c->threads, "local", &outer)) return false;
  if (outer) tg_device_word(n, "global %s", outer);
  for (uint32_t i = 0; i < alike; i++) tg_device_spread(n, reductions[i], "group", &outer);
  if (c->extent > 0 && !alike && !c->inside)
    tg_device_reuse(n, c->depth, c->chain, c->threads,
                    c->extent > MOST_THREADS ? (double)c->extent / MOST_THREADS : 1);
  if (c->extent > 0 && !alike) further_warps(c);
  grid(c);
  return true;
}

static bool independent(tg_nest *n, const tg_uop *end) {
  const char *why;
  return tg_range_verdict(&n->s, end, &why) == TG_INDEPENDENT;
}

bool tg_device_plain(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  static const tg_motion how[] = {TG_CONTIGUOUS, TG_NEAR, TG_BACKWARDS, TG_STRIDES};
  const tg_uop *inner = chain[depth - 1], *reductions[NEST_MAX];
  for (uint32_t m = 0; m < TG_COUNT(how); m++) {
    if (m && tg_device_contiguous(n, inner, NULL, reductions)) return tg_device_lengths(n, depth, chain);
    for (uint32_t k = depth; k-- > 0;) {
      const tg_uop *r = chain[k]->src[0];
      int64_t extent = tg_iterations(r);
      if (tg_extent_following(&n->s, r)) continue;   /* of threads in lockstep loops inside have one length */
      if (!tg_is_free(r) || extent == 1 || !stores_move(n, inner, r, how[m])) continue;
      if (m && !independent(n, chain[k])) continue;
      /* the loop is short: threads along the reductions are better */
      if (extent > 0 && extent < 8 && tg_device_contiguous(n, inner, NULL, reductions)) continue;
      plain c = {.n = n, .depth = depth, .chain = chain, .inner = inner, .threads = r};
      if (along(&c)) return true;
    }
  }
  return tg_device_lengths(n, depth, chain);
}
