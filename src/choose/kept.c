/* SPDX-License-Identifier: MIT
 * What comes before all nests: sums that the text asks for again and again, such as the products in a softmax of a
 * product or the inner layer of two, are kept, if computing them again costs more than storing and reading them. So the
 * nest that fills the memory is a product again, and the nest behind it rows. */
#include <math.h>
#include "choose/device.h"
#include "schedule/keep.h"

/* Operations that a term takes, its addition included; a product goes with that. */
static double operations(tg_job *j, const tg_uop *reduce) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, reduce->src[0], &n);
  double count = reduce->src[0]->op == TG_OP_MUL ? 0 : 1;
  for (uint32_t i = 0; i < n; i++)
    count += order[i]->type != TG_INDEX && order[i]->type != TG_BOOL && order[i]->n &&
             (tg_ops[order[i]->op].flags & TG_OPF_W || order[i]->op == TG_OP_REDUCE);
  return count;
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
  r.read = 1 / (bytes > (double)t->l2 ? m->l3_bandwidth : m->l2_bandwidth), r.write = r.read;
  if (bytes > tg_target_kept(t)) r.read = 1 / m->memory_bandwidth, r.write = 1 / m->memory_write;
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

/* Cycles that are saved, less those of memory. */
static double gain(const tg_nest *n, const tg_kept *k) {
  double size = (double)tg_type_bytes(k->first->type), saved = (k->times - k->once) * k->terms;
  rates r = rates_of(n, size, size * k->once);
  double term = operations(n->j, k->first) * r.operation;
  if (tg_target_is_device(n->l->target)) term = fmax(term, bytes_of(n->j, k->first) * r.read);
  return saved * term - size * (k->times * r.read + k->once * r.write) - r.launch;
}

/* The one whose keeping gains most; NULL: there is none. */
static const tg_kept *best_of(const tg_nest *n, const tg_kept_scope *g) {
  const tg_kept *best = NULL;
  for (uint32_t i = 0; i < g->kept.n; i++) {
    const tg_kept *k = &g->kept.data[i];
    if (k->times > k->once && gain(n, k) > (best ? gain(n, best) : 0) && !tg_keep_hindrance(g, k)) best = k;
  }
  return best;
}

static bool keep_in(tg_nest *n, const tg_uop *around) {
  tg_job *j = n->j;
  tg_kept_scope g = tg_keep_scope(&n->s, around);
  const tg_kept *k = best_of(n, &g);
  uint32_t from = j->opts.n;
  if (!k || !TG_CHOOSE(n, "keep", 1, 0, 1)) return false;
  const tg_uop *range = tg_reduce_ranges(k->first)[0];
  const char *base = j->ranges.data[j->ranges.data[tg_range_ordinal(range)].from].name;
  bool all = around->op != TG_OP_END;
  tg_nest_emit(n, "keep %s as %.*s.kept%s%s", tg_axis_name(&n->s, range), (int)strcspn(base, "#"), base,
               all ? "" : " at ", all ? "" : tg_axis_name(&n->s, around->src[0]));
  tg_nest_apply(n, from);
  return true;
}

/* For all of the program; else, as for what would be too much, for an iteration of a loop, of outer ones first. */
static bool keep_one(tg_nest *n) {
  if (keep_in(n, n->s.sink)) return true;
  for (uint32_t i = 0; i < n->s.sites.n && !tg_target_is_device(n->l->target); i++) {
    const tg_uop *end = n->s.sites.data[i].owner;
    if (end->op == TG_OP_END && !tg_is_merge(end) && keep_in(n, end)) return true;
  }
  return false;
}

void tg_nest_keep(tg_nest *n) {
  for (uint32_t i = 0; i < TG_NEST_KEPT && keep_one(n); i++) {}
}
