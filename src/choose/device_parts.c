/* SPDX-License-Identifier: MIT
 * Sums whose terms are many and whose results are few, so that a workgroup for each result would leave most of a GPU
 * idle: they are taken in parts, each by a group of its own, which a second launch adds in order (`thread` on the
 * range of a sum). So are sums over everything, and products of matrices with few tiles and many terms (split-K), of
 * which the sizes of the tiles decide with the parts: src/choose/device_tiles.c. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  GROUPS_A_CORE = 2,   /* at least, so that one computes while another waits for memory */
  BLOCK = 4096,        /* terms that a group has under way: 256 threads, four times 16 bytes of f32 */
  SHARED = 64          /* and where nothing lies along the terms: 16 warps, four each */
};

/* Results of the reduction: iterations of the loops that it depends on; 0: not known before the launch. */
static double results_of(tg_nest *n, const tg_uop *reduce, uint32_t depth, const tg_uop *const *chain) {
  double results = 1;
  for (uint32_t d = 0; d < depth; d++) {
    int64_t extent = tg_iterations(chain[d]->src[0]);
    if (!tg_uses(n->j, reduce, chain[d]->src[0])) continue;
    if (extent < 0 || tg_range_kind(chain[d]->src[0]) != TG_LOOP) return 0;
    results *= (double)extent;
  }
  return results;
}

/* Where nothing lies along the range, but something along a loop around, lanes have that loop's iterations, and all
 * that need the same elements: how many warps. 0: threads run along the range. */
static double warps_of(tg_nest *n, const tg_uop *reduce, const tg_uop *range, uint32_t depth,
                       const tg_uop *const *chain) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, reduce, &count);
  double most = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_LOAD || !tg_uses(n->j, order[i], range)) continue;
    bool across = false;
    double warps = 1;
    for (uint32_t d = 0; d < depth; d++) {
      const tg_uop *loop = chain[d]->src[0];
      if (!tg_uses(n->j, order[i], loop)) continue;
      bool lanes = !across && tg_access_motion(n->j, order[i], loop) == TG_CONTIGUOUS;
      int64_t extent = tg_iterations(loop), width = n->l->target->lanes;
      warps *= (double)(lanes ? (extent + width - 1) / width : extent);
      across |= lanes;
    }
    if (across && warps > most) most = warps;
  }
  return most;
}

/* Bytes that it reads for one result. */
static double bytes_of(tg_nest *n, const tg_uop *reduce, const tg_uop *range) {
  uint32_t count;
  double bytes = 0;
  const tg_uop **order = tg_toposort(n->j, reduce, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_LOAD && tg_uses(n->j, order[i], range))
      bytes += (double)tg_type_bytes(tg_define_of(order[i]->src[0])->type);
  return bytes * (double)tg_iterations(range);
}

/* Terms of a part, as many as leave each core its groups; those of whole blocks that divide the sum, if there are some.
 * 0: one part. */
static int64_t terms_of_part(int64_t terms, double results, double wanted, int64_t block) {
  int64_t most = terms / block, parts = (int64_t)(wanted / results + 0.999);
  if (parts > most) parts = most;
  if (parts < 2) return 0;
  for (int64_t p = parts; p <= 2 * parts && p <= most; p++)
    if (terms % (p * block) == 0) return terms / p;
  return (terms / parts + block - 1) / block * block;
}

static int64_t part_of(tg_nest *n, const tg_uop *reduce, uint32_t depth, const tg_uop *const *chain) {
  const tg_target *t = n->l->target;
  tg_reduce_arg a = tg_reduce_info(reduce);
  if (a.ranges != 1 || a.in_order) return 0;
  const tg_uop *range = tg_reduce_ranges(reduce)[0];
  tg_kind kind = tg_range_kind(range);
  double cores = t->threads, results = results_of(n, reduce, depth, chain);
  double warps = warps_of(n, reduce, range, depth, chain), groups = warps > 0 ? warps : results;
  int64_t block = warps > 0 ? SHARED : BLOCK;
  if (kind != TG_REDUCE && kind != TG_LOOP) return 0;
  if (tg_iterations(range) < 2 * block || results < 1 || !t->core_bytes) return 0;
  /* cycles of one core for all of it */
  double all = bytes_of(n, reduce, range) * (warps > 0 ? warps * t->lanes : results) / t->core_bytes;
  double busy = groups < cores ? groups : cores;
  if (all / busy < all / cores + tg_device_launch_cycles(t)) return 0;
  return terms_of_part(tg_iterations(range), groups, GROUPS_A_CORE * cores, block);
}

/* Is it another one for each term of a reduction around it? */
static bool is_inside(tg_nest *n, const tg_uop *reduce, uint32_t count, const tg_uop *const *order) {
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE || tg_uses(n->j, reduce, order[i]) || !tg_uses(n->j, order[i], reduce)) continue;
    for (uint32_t k = 0; k < tg_reduce_info(order[i]).ranges; k++)
      if (tg_uses(n->j, reduce, tg_reduce_ranges(order[i])[k])) return true;
  }
  return false;
}

static bool take(tg_nest *n, const tg_uop *range, int64_t terms) {
  const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
  return tg_device_word(n, "thread %s %lld as %s.p %s.q", name, (long long)terms, b, b);
}

bool tg_device_parts(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *store) {
  uint32_t count;
  const tg_uop *sum;
  int64_t all, part = tg_device_product_part(n, depth, chain, &sum, &all);
  if (part) return part < all && take(n, sum, part);
  if (tg_device_keeps_rows(n, depth, chain, store)) return false;   /* parts would read them again for each use */
  const tg_uop **order = tg_toposort(n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {   /* those inside others first */
    int64_t terms = order[i]->op == TG_OP_REDUCE ? part_of(n, order[i], depth, chain) : 0;
    if (!terms || is_inside(n, order[i], count, order)) continue;
    if (take(n, tg_reduce_ranges(order[i])[0], terms)) return true;
  }
  return false;
}
