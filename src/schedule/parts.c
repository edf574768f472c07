/* SPDX-License-Identifier: MIT
 * `thread` on a range of a sum, on a target with warps: workgroups cannot combine what they computed, so each iteration
 * of the range is a task that stores its part of the sum to memory which the launches of the kernel share, and the
 * statement sums the parts, always in one order.
 *
 *   for o { C[o] = f(sum(k, r, e)) }   becomes   for k, global { for o.parts { C.parts[k, o.parts] = sum(r, e) } }
 *                                                for o { C[o] = f(sum(k.merge, C.parts[k.merge, o])) }
 *
 * o: the loops around the statement that the sum depends on; none of them if it depends on none. Extents need not be
 * known, but their bounds: the memory is as large as the most parts of the most results. */
#include "schedule/opt.h"

enum { MOST_PARTS = 1 << 16, MOST_ELEMENTS = 1 << 26, DEEPEST = 15, MOST_VALUES = 8, MOST_RANGES = 8 };

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_site *site;
  const tg_uop *range, *reduce;
  tg_reduce_arg info;
  uint32_t depth;
  int64_t most;                      /* parts */
  const tg_uop *outer[DEEPEST];      /* ranges of the loops that the sum depends on, outermost first */
  const tg_uop *parts[MOST_VALUES];  /* the memory of each value */
} parting;

TG_NORETURN static void refuse(const parting *p, const char *why) {
  tg_fail_at(p->s->j, p->o->pos, "thread %s: %s", tg_range_text(p->s, p->range), why);
}

/* The most that an extent is; beyond what any memory holds: one more than that. */
static int64_t most_of(const parting *p, const tg_uop *extent) {
  tg_i128 hi = tg_bounds_of(p->s->j, extent).hi;
  return hi < 1 ? 1 : hi > MOST_ELEMENTS ? MOST_ELEMENTS + 1 : (int64_t)hi;
}

static bool reads_a_range(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE || order[i]->op == TG_OP_LOAD) return true;
  return false;
}

static void find_loops(parting *p) {
  tg_schedule *s = p->s;
  tg_job *j = s->j;
  uint32_t found = 0;
  tg_i128 elements = p->most;
  for (uint32_t q = p->site->parent; q != UINT32_MAX; q = s->sites.data[q].parent) {
    const tg_uop *r = s->sites.data[q].range;
    if (!tg_uses(j, p->reduce, r)) continue;
    tg_kind k = tg_range_kind(r);
    if (k != TG_LOOP && k != TG_GLOBAL && k != TG_THREAD)
      refuse(p, tg_format(&j->env, "it stands inside %s, which is %s already", tg_range_text(s, r), tg_kind_name[k]));
    if (found == DEEPEST) refuse(p, "over 15 loops stand around it");
    if (reads_a_range(j, tg_extent(r)))
      refuse(p, tg_format(&j->env, "the extent of %s around it is %s, and the parts need memory whose size is known",
                          tg_range_text(s, r), tg_text(j, tg_extent(r))));
    elements *= most_of(p, tg_extent(r));
    if (elements > MOST_ELEMENTS) refuse(p, "its parts would have more than 2^26 elements");
    p->outer[found++] = r;
  }
  for (uint32_t i = 0; i < found / 2; i++) {
    const tg_uop *r = p->outer[i];
    p->outer[i] = p->outer[found - 1 - i];
    p->outer[found - 1 - i] = r;
  }
  p->depth = found;
}

static bool stores_to(const tg_uop *u, uint32_t buffer) {
  if (u->op == TG_OP_STORE) return tg_buffer_ordinal(u->src[0]) == buffer;
  if (u->op != TG_OP_END) return false;
  for (uint32_t i = 1; i < u->n; i++)
    if (stores_to(u->src[i], buffer)) return true;
  return false;
}

/* The parts are computed before the first nest with the sum: what they read must be there by then, and must still be so
 * where the sum is used. */
static void check_reads(const parting *p, const tg_uop *nest, bool several) {
  tg_job *j = p->s->j;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, p->reduce, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_SHUFFLE || order[i]->op == TG_OP_MATRIX) refuse(p, "it holds an exchange between lanes");
    if (order[i]->op != TG_OP_LOAD) continue;
    const tg_uop *define = tg_define_of(order[i]->src[0]);
    if (tg_buffer_info(j, define)->role == TG_ROLE_IN) continue;
    if (several) refuse(p, "several nests have this sum, and it reads what the kernel stores");
    bool outside = tg_buffer_info(j, define)->role != TG_ROLE_TEMP;
    for (uint32_t k = 0; k < p->s->sink->n; k++) outside |= p->s->sink->src[k] == define;
    if (!outside || stores_to(nest, tg_buffer_ordinal(define)))
      refuse(p, tg_format(&j->env, "it reads %s, which the statements around it store",
                          tg_buffer_info(j, define)->name));
  }
}

static void check_site(parting *p, const tg_axis *axis) {
  tg_schedule *s = p->s;
  for (uint32_t i = 1; i < axis->n; i++)
    if (axis->site[i].owner != p->reduce) refuse(p, "several sums have this range: name one of them");
  if (tg_extent(p->range)->op == TG_OP_CONST && tg_extent(p->range)->arg < 1) refuse(p, "there are no parts");
  p->most = most_of(p, tg_extent(p->range));
  if (p->most > MOST_PARTS) refuse(p, tg_format(&s->j->env, "%lld parts, and 65536 are the most", (long long)p->most));
  if (p->info.ranges < 2) refuse(p, "nothing of the sum is left for a task: split it first");
  if (p->info.ranges > MOST_RANGES || p->info.values > MOST_VALUES) refuse(p, "the reduction has too many ranges");
  if (tg_gate(p->site->store)) refuse(p, "the statement is not stored in every iteration");
  find_loops(p);
  for (uint32_t i = 0; i < p->info.ranges; i++)
    if (tg_uses(s->j, tg_extent(tg_reduce_ranges(p->reduce)[i]), p->range))
      refuse(p, "the extent of another range of the sum depends on it");
}

/* for k, global { for o.parts { parts[k, o.parts] = sum(r, e) } }, behind the DEFINEs. */
static void put_tasks(parting *p, tg_statements *out) {
  tg_schedule *s = p->s;
  tg_job *j = s->j;
  const tg_uop *from[DEEPEST + 1], *to[DEEPEST + 1], *dim[DEEPEST + 1], *rest[MOST_RANGES];
  uint32_t n = 0, nv = p->info.values;
  for (uint32_t i = 0; i < p->info.ranges; i++)
    if (tg_reduce_ranges(p->reduce)[i] != p->range) rest[n++] = tg_reduce_ranges(p->reduce)[i];
  for (uint32_t i = 0; i < p->depth; i++) {
    const tg_uop *r = from[i] = p->outer[i];
    to[i] = tg_range_new(j, tg_format(&j->env, "%s.parts", tg_range_name(s, r)), tg_extent(r), TG_LOOP, UINT32_MAX,
                         (tg_pos){0});
    dim[1 + i] = tg_index(j, most_of(p, tg_extent(r)));
  }
  from[p->depth] = p->range;
  to[p->depth] = tg_range_again(j, p->range, tg_extent(p->range), TG_GLOBAL);
  dim[0] = tg_index(j, p->most);
  const tg_uop *sum = tg_substitute(j, tg_reduce_like(j, p->reduce, p->reduce->src, n, rest), p->depth + 1, from, to);
  const tg_uop *sub[DEEPEST + 1], *store[MOST_VALUES];
  sub[0] = to[p->depth];
  memcpy(sub + 1, to, p->depth * sizeof *sub);
  for (uint32_t v = 0; v < nv; v++) {
    tg_type type = p->reduce->src[v]->type;
    tg_buffer info = {.name = tg_format(&j->env, "%s.parts", tg_buffer_info(j, p->site->store->src[0])->name),
                      .space = TG_SPACE_LOCAL,
                      .rank = (uint8_t)(1 + p->depth),
                      .type = type,
                      .align = 64,
                      .pos = p->o->pos};
    p->parts[v] = tg_define(j, info, 1, dim, NULL, true);
    tg_push(&j->env, out, p->parts[v]);
    const tg_uop *value = p->info.generic ? tg_make(j, TG_OP_GET, type, 1, v, 1, &sum) : sum;
    store[v] = tg_store(j, p->parts[v], sub, value, NULL, 0);
    tg_set_pos(j, store[v], tg_get_pos(j, p->site->store));
  }
  const tg_uop *u = p->depth ? tg_end(j, to[p->depth - 1], nv, store) : tg_end(j, to[p->depth], nv, store);
  for (uint32_t i = p->depth; i-- > 0;) u = tg_end(j, i ? to[i - 1] : to[p->depth], 1, &u);
  tg_push(&j->env, out, u);
}

static const tg_uop *merge_of(const parting *p) {
  tg_job *j = p->s->j;
  const tg_uop *sub[DEEPEST + 1], *src[3 * MOST_VALUES];
  uint32_t nv = p->info.values;
  const tg_uop *q = tg_range_new(j, tg_format(&j->env, "%s.merge", tg_range_name(p->s, p->range)), tg_extent(p->range),
                                 TG_REDUCE, UINT32_MAX, (tg_pos){0});
  sub[0] = q;
  memcpy(sub + 1, p->outer, p->depth * sizeof *sub);
  for (uint32_t v = 0; v < nv; v++) src[v] = tg_load(j, p->parts[v], sub, NULL, NULL, 0);
  if (p->info.generic) memcpy(src + nv, p->reduce->src + nv, 2 * nv * sizeof *src);
  return tg_reduce_like(j, p->reduce, src, 1, &q);
}

static bool holds(tg_job *j, const tg_uop *u, const tg_uop *reduce) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i] == reduce) return true;
  return false;
}

void tg_sum_in_parts(tg_schedule *s, const tg_opt *o, const tg_axis *axis) {
  tg_job *j = s->j;
  parting p = {.s = s, .o = o, .site = &axis->site[0], .range = axis->site[0].range, .reduce = axis->site[0].owner};
  const tg_uop *sum = NULL;
  tg_statements out = {0};
  uint32_t nests = 0;
  p.info = tg_reduce_info(p.reduce);
  check_site(&p, axis);
  for (uint32_t i = 0; i < s->sink->n; i++) nests += holds(j, s->sink->src[i], p.reduce);
  for (uint32_t i = 0; i < s->sink->n; i++) {
    const tg_uop *nest = s->sink->src[i];
    if (holds(j, nest, p.reduce)) {
      check_reads(&p, nest, nests > 1);
      if (!sum) {
        put_tasks(&p, &out);
        sum = merge_of(&p);
      }
      nest = tg_substitute(j, nest, 1, &p.reduce, &sum);
    }
    tg_push(&j->env, &out, nest);
  }
  s->sink = tg_sink(j, out.n, out.data);
}
