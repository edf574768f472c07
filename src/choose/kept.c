/* SPDX-License-Identifier: MIT
 * What comes before all nests: sums that the text asks for again and again, such as the products in a softmax of a
 * product or the inner layer of two, are kept, if computing them again costs more than storing and reading them. So the
 * nest that fills the memory is a product again, and the nest behind it rows. */
#include <math.h>
#include "choose/device_product.h"
#include "dsl/functions.h"
#include "schedule/keep.h"

enum { TILE_ROWS = 8 };   /* of sums in registers, at most: as many vectors side by side as are left for each */

/* Does it take more than an addition? */
static bool is_slow(const tg_uop *u) {
  return u->op == TG_OP_FDIV || u->op == TG_OP_SQRT || tg_is_function(u->op);
}

/* Operations of a value, without those of reductions inside; a product goes with the sum that it is added to. */
static double operations(tg_nest *n, const tg_uop *value) {
  tg_job *j = n->j;
  const tg_machine *m = &n->l->target->machine;
  uint32_t count, inside;
  double all = 0;
  const tg_uop **order = tg_toposort(j, value, &count);
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    if (u->type == TG_INDEX || u->type == TG_BOOL || !u->n || !(tg_ops[u->op].flags & TG_OPF_W)) continue;
    if (tg_is_function(u->op)) {
      tg_toposort(j, tg_function_definition(j, u->op, u->type), &inside);
      all += inside;
    } else if (is_slow(u) && m->divide > 0)
      all += m->divide / tg_nest_cycles(n, m->fma);
    else all++;
  }
  return all;
}

/* Cycles of a core for an operation, and for a byte that is read or written. */
typedef struct { double operation, read, write, launch; } rates;

static rates rates_of(const tg_nest *n, double size, double bytes) {
  const tg_target *t = n->l->target;
  const tg_machine *m = &t->machine;
  if (tg_target_is_device(t)) {   /* all cores at once, and one launch more */
    double byte = t->core_bytes ? 1.0 / t->core_bytes / t->threads : INFINITY;
    return (rates){t->core_macs ? 1.0 / t->core_macs / t->threads : 0, byte, byte, tg_device_launch_cycles(t)};
  }
  rates r = {.operation = tg_nest_cycles(n, m->fma) * size / t->vector_bytes};
  r.read = r.write = 1 / (bytes > tg_target_kept(t) ? m->memory_bandwidth
                          : bytes > (double)t->l2   ? m->l3_bandwidth
                                                    : m->l2_bandwidth);
  return r;
}

/* Bytes that a term reads: on a device, sums that are no product of matrices do not get them from registers. */
static double bytes_of(tg_job *j, const tg_uop *reduce) {
  uint32_t n;
  double bytes = 0;
  const tg_uop **order = tg_toposort(j, reduce->src[0], &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD) bytes += (double)tg_type_bytes(order[i]->type);
  return bytes;
}

/* Cycles of a core for one value. */
static double cycles_of(tg_nest *n, const tg_repeated *k, const rates *r) {
  const tg_uop *term = k->core->src[0];
  double terms = 1;
  if (k->core->op != TG_OP_REDUCE) return operations(n, k->first) * r->operation;
  for (uint32_t i = 0; i < tg_reduce_info(k->core).ranges; i++)
    terms *= tg_repeats_trips(n->j, tg_reduce_ranges(k->core)[i]);
  double computed = fmax(operations(n, term) + (term->op != TG_OP_MUL), 1) * r->operation;
  return terms * (tg_target_is_device(n->l->target) ? fmax(computed, bytes_of(n->j, k->core) * r->read) : computed);
}

/* Computed once in the order of the text, but again in each tile of a product beside it. On CPUs: their tiles take more
 * columns than a thread of a device. */
static bool is_beside(const tg_nest *n, const tg_repeated *k) {
  return k->times <= k->once && k->tiled > k->once && !tg_target_is_device(n->l->target);
}

/* Cycles of a core that a sum beside a product takes in the product's tiles: one vector more for each term, where the
 * product has several. Kept, it is vectors along its terms, but what it reads is read once more. */
static double gain_beside(tg_nest *n, const tg_repeated *k, double size, const rates *r) {
  double terms = 1, vectors = n->l->target->vector_registers / TILE_ROWS;
  for (uint32_t i = 0; i < tg_reduce_info(k->core).ranges; i++)
    terms *= tg_repeats_trips(n->j, tg_reduce_ranges(k->core)[i]);
  double bytes = k->once * terms * bytes_of(n->j, k->core);
  rates again = rates_of(n, size, bytes);
  return (k->tiled / vectors - k->once) * cycles_of(n, k, r) - bytes * again.read -
         size * k->once * (r->read + r->write);
}

/* Of what the sum reads, does each element move with the terms, and with either rows or columns? Then tiles of both
 * share it: a nest of its own is a product for threads. */
static bool is_of_pairs(const tg_nest *n, const tg_repeated *k) {
  tg_job *j = n->j;
  uint32_t count, with[TG_KEEP_RANK] = {0};
  if (k->rank < 2 || tg_reduce_info(k->core).ranges != 1 || tg_reduce_info(k->core).in_order) return false;
  const tg_uop *sum = tg_reduce_ranges(k->core)[0], *columns = k->range[k->rank - 1], *rows = k->range[k->rank - 2];
  const tg_uop **order = tg_toposort(j, k->core->src[0], &count);
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_REDUCE) return false;
    if (u->op != TG_OP_LOAD || !tg_uses(j, u, sum)) continue;
    bool one = tg_uses(j, u, columns);
    if (one == tg_uses(j, u, rows) || tg_buffer_info(j, u->src[0])->role != TG_ROLE_IN) return false;
    if (tg_access_motion(j, u, sum) != TG_CONTIGUOUS && tg_access_motion(j, u, one ? columns : rows) != TG_CONTIGUOUS)
      return false;
    with[one]++;
  }
  double side = 2 * TG_SIDE;   /* of the smallest tile */
  return with[0] && with[1] && tg_repeats_trips(j, rows) >= side && tg_repeats_trips(j, columns) >= side;
}

/* On a device: it stands in another reduction, of which each row goes through all columns' elements by itself. */
static bool is_product_inside(const tg_nest *n, const tg_repeated *k) {
  if (!tg_target_is_device(n->l->target) || k->core->op != TG_OP_REDUCE || k->times > k->once) return false;
  return k->rank && tg_range_kind(k->range[k->rank - 1]) == TG_REDUCE && is_of_pairs(n, k);
}

/* Cycles that tiles of the product save, if each term of it costs what the smallest ones read. */
static double gain_inside(tg_nest *n, const tg_repeated *k, double size, const rates *r) {
  const tg_uop *sum = tg_reduce_ranges(k->core)[0];
  double tiled = tg_repeats_trips(n->j, sum) * bytes_of(n->j, k->core) * r->read / (2 * TG_SIDE);
  rates computed = *r;
  computed.read = 0;
  double now = cycles_of(n, k, r), then = fmax(cycles_of(n, k, &computed), tiled);
  return k->once * (now - then - size * (r->read + r->write)) - r->launch;
}

/* Cycles that are saved, less those of memory. A value around a load stands before vectors, several at a time, along a
 * loop that it does not change with: there it is computed once for them. */
static double gain(tg_nest *n, const tg_repeated *k) {
  const tg_target *t = n->l->target;
  double size = (double)tg_type_bytes(k->first->type), times = k->times, reads = times;
  rates r = rates_of(n, size, size * k->once);
  if (is_beside(n, k)) return gain_beside(n, k, size, &r);
  if (is_product_inside(n, k)) return gain_inside(n, k, size, &r);
  if (k->core->op != TG_OP_REDUCE) times /= t->vector_registers / TILE_ROWS, reads = k->once;
  return (times - k->once) * cycles_of(n, k, &r) - size * (reads * r.read + k->once * r.write) - r.launch;
}

/* Of values around loads those that take more than the loads. */
static bool worth_asking(tg_nest *n, const tg_repeated *k) {
  uint32_t count;
  if (is_beside(n, k) || is_product_inside(n, k)) return true;
  if (k->times <= k->once) return false;
  if (k->core->op == TG_OP_REDUCE) return true;
  const tg_uop **order = tg_toposort(n->j, k->first, &count);
  for (uint32_t i = 0; i < count; i++)
    if (is_slow(order[i])) return k->again;
  return false;
}

/* The one whose keeping gains most; NULL: there is none. */
static const tg_repeated *best_of(tg_nest *n, const tg_repeats *g) {
  const tg_repeated *best = NULL;
  double most = 0;
  for (uint32_t i = 0; i < g->all.n; i++) {
    const tg_repeated *k = &g->all.data[i];
    double gains = worth_asking(n, k) ? gain(n, k) : 0;
    if (gains > most && !tg_keep_hindrance(g, k)) most = gains, best = k;
  }
  return best;
}

static bool keep_in(tg_nest *n, const tg_uop *around, bool loads) {
  tg_job *j = n->j;
  tg_repeats g = tg_repeats_in(&n->s, around, loads);
  const tg_repeated *k = best_of(n, &g);
  uint32_t from = j->opts.n;
  if (!k || !TG_CHOOSE(n, "keep", 1, 0, 1)) return false;
  const tg_uop *core = k->core, *range = loads ? NULL : tg_reduce_ranges(core)[0];
  const char *base = loads ? tg_buffer_info(j, core->src[0])->name
                           : j->ranges.data[j->ranges.data[tg_range_ordinal(range)].from].name;
  bool all = around->op != TG_OP_END;
  tg_nest_emit(n, "keep %s as %.*s.%s%s%s", loads ? base : tg_axis_name(&n->s, range), (int)strcspn(base, "#"), base,
               loads ? "value" : "kept", all ? "" : " at ", all ? "" : tg_axis_name(&n->s, around->src[0]));
  tg_nest_apply(n, from);
  return true;
}

/* For all of the program; else, as for what would be too much, for an iteration of a loop, of outer ones first. */
static bool keep_one(tg_nest *n) {
  if (keep_in(n, n->s.sink, false) || keep_in(n, n->s.sink, true)) return true;
  for (uint32_t i = 0; i < n->s.sites.n && !tg_target_is_device(n->l->target); i++) {
    const tg_uop *end = n->s.sites.data[i].owner;
    if (end->op == TG_OP_END && !tg_is_merge(end) && keep_in(n, end, false)) return true;
  }
  return false;
}

void tg_nest_keep(tg_nest *n) {
  for (uint32_t i = 0; i < TG_NEST_KEPT && keep_one(n); i++) {}
}
