/* SPDX-License-Identifier: MIT
 * Sums of products on GPUs that are no product of matrices, such as convolutions: a thread has several iterations of
 * the loops around, so that what it loads serves several products. Each doubling is of the loop that leaves the fewest
 * loads for a product, while registers hold the sums and the elements of a term, and each core keeps its groups. Short
 * ranges of the sum are written out: what neighbours of a window share is then loaded once. */
#include "choose/device.h"

enum {
  GROUPS_A_CORE = 2,   /* at least, so that one computes while another waits for memory */
  MOST_LOADS = 8,
  SHARE = 4,           /* of a thread's registers: the others have addresses, conditions, loads under way */
  WRITTEN_OUT = 16     /* terms, at most */
};

typedef struct {
  tg_nest *n;
  const tg_uop *sum, *load[MOST_LOADS], *range[NEST_MAX];
  int64_t times[NEST_MAX];   /* iterations of the loop that a thread has */
  uint32_t loads_n, ranges_n;
} reuse;

/* The only sum of the store, of products, and its loads. */
static bool find_sum(reuse *c, const tg_uop *store) {
  uint32_t count;
  const tg_uop **order = tg_toposort(c->n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    tg_reduce_arg info = tg_reduce_info(order[i]);
    if (c->sum || info.generic || info.in_order || info.op != TG_OP_ADD || order[i]->src[0]->op != TG_OP_MUL)
      return false;
    c->sum = order[i];
  }
  if (!c->sum) return false;
  order = tg_toposort(c->n->j, c->sum, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_LOAD) continue;
    if (c->loads_n == MOST_LOADS) return false;
    c->load[c->loads_n++] = order[i];
  }
  return c->loads_n > 1;
}

/* Elements that a thread loads for a term. */
static double loads_of(const reuse *c) {
  double all = 0;
  for (uint32_t i = 0; i < c->loads_n; i++) {
    double n = 1;
    for (uint32_t x = 0; x < c->ranges_n; x++)
      if (tg_uses(c->n->j, c->load[i], c->range[x])) n *= (double)c->times[x];
    all += n;
  }
  return all;
}

static double products_of(const reuse *c) {
  double n = 1;
  for (uint32_t x = 0; x < c->ranges_n; x++) n *= (double)c->times[x];
  return n;
}

/* groups: before any thread has several iterations. */
static bool double_one(reuse *c, double groups) {
  const tg_target *t = c->n->l->target;
  uint32_t best = UINT32_MAX;
  double least = loads_of(c) / products_of(c);
  for (uint32_t x = 0; x < c->ranges_n; x++) {
    if (tg_iterations(c->range[x]) % (2 * c->times[x])) continue;
    c->times[x] *= 2;
    double products = products_of(c), loads = loads_of(c);
    if (products + loads <= t->vector_registers / SHARE && groups / products >= GROUPS_A_CORE * (double)t->threads &&
        (best == UINT32_MAX ? loads / products < least : loads / products <= least))
      least = loads / products, best = x;
    c->times[x] /= 2;
  }
  if (best == UINT32_MAX) return false;
  c->times[best] *= 2;
  return true;
}

static void write_out(const reuse *c) {
  int64_t terms = 1;
  for (uint32_t i = tg_reduce_info(c->sum).ranges; i-- > 0;) {
    const tg_uop *range = tg_reduce_ranges(c->sum)[i];
    int64_t extent = tg_iterations(range);
    if (extent < 2 || terms * extent > WRITTEN_OUT) continue;
    if (tg_device_word(c->n, "unroll %s", tg_device_name(c->n, range))) terms *= extent;
  }
}

void tg_device_reuse(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *threads, double groups) {
  reuse c = {.n = n};
  const tg_uop *inner = chain[depth - 1];
  if (n->versioned || inner->n != 2 || inner->src[1]->op != TG_OP_STORE || !find_sum(&c, inner->src[1])) return;
  for (uint32_t d = 0; d < depth; d++) {
    const tg_uop *range = chain[d]->src[0];
    if (range == threads) continue;
    if (tg_iterations(range) < 1 || tg_range_kind(range) != TG_LOOP) return;
    groups *= (double)tg_iterations(range);
    c.times[c.ranges_n] = 1, c.range[c.ranges_n++] = range;
  }
  while (double_one(&c, groups)) {}
  if (products_of(&c) < 2) return;
  write_out(&c);
  for (uint32_t x = 0; x < c.ranges_n; x++) {
    const char *name = tg_device_name(n, c.range[x]), *b = tg_nest_base(n, name);
    if (c.times[x] < 2 || !tg_device_word(n, "split %s %lld as %s.o %s.u", name, (long long)c.times[x], b, b)) continue;
    tg_device_word(n, "upcast %s.u", b);
    tg_device_word(n, "global %s.o", b);
  }
}
