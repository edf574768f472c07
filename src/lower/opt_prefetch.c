/* SPDX-License-Identifier: MIT
 * prefetch B at r ahead n: at the start of each iteration of r, the lines of B that iteration r + n will read are asked for. In each
 * dimension the subscripts are a base over what stands outside of r and r itself, plus an offset over the ranges inside, whose bounds
 * are the rows and columns of the part. Addresses behind the end of B are harmless: a prefetch reads nothing. */
#include "lower/opt.h"

enum { LINE = 64, RANK = 16, GROUPS = 32, MOST = 4096, INLINE = 16 };

/* Accesses that begin at one base. */
typedef struct { const tg_uop *base[RANK]; int64_t lo[RANK], hi[RANK]; } footprint;

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source, *range;
  uint8_t *inside;            /* by range ordinal */
  uint32_t rank, groups;
  footprint group[GROUPS];
  bool found;
} prefetching;

static bool varies_inside(const prefetching *p, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(p->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && p->inside[tg_range_ordinal(order[i])]) return true;
  return false;
}

/* Memory that the kernel writes may be another's by the time, whatever its subscripts; of inputs any will do if asked for. */
static bool reads_memory(tg_job *j, const tg_uop *u, bool inputs) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && (inputs || tg_buffer_info(j, order[i]->src[0])->role != TG_ROLE_IN)) return true;
  return false;
}

/* subscript d of an access: what it is at the start of iteration r + n, and the bounds of the rest. */
static void measure(prefetching *p, const tg_uop *subscript, uint32_t d, footprint *f) {
  tg_job *j = p->s->j;
  tg_linear all, base = {.n = 0};
  tg_i128 lo, hi;
  tg_linear_of(j, subscript, &all);
  lo = hi = all.constant;
  const tg_uop *ahead = tg_idx_add(j, p->range, tg_index(j, p->o->number[0]));
  for (uint32_t i = 0; i < all.n; i++) {
    const tg_uop *u = all.atom[i];
    int64_t by = all.coefficient[i];
    bool moves = tg_uses(j, u, p->range), within = varies_inside(p, u);
    if (reads_memory(j, u, moves || within))
      tg_fail_at(j, p->o->pos, "prefetch %s at %s: where it is read in dimension %u comes from memory", p->o->names[0], p->o->names[1], d);
    tg_bounds b = within ? tg_bounds_of(j, u) : (tg_bounds){0};
    if ((within && moves) || b.lo < -((tg_i128)1 << 40) || b.hi > (tg_i128)1 << 40)
      tg_fail_at(j, p->o->pos, "prefetch %s at %s: the part read in dimension %u has no constant bound: %s", p->o->names[0], p->o->names[1], d, tg_text(j, u));
    lo += by > 0 ? by * b.lo : by * b.hi;
    hi += by > 0 ? by * b.hi : by * b.lo;
    if (within) continue;
    base.atom[base.n] = u;
    base.coefficient[base.n++] = by;
  }
  f->base[d] = tg_substitute(j, tg_linear_build(j, &base), 1, &p->range, &ahead);
  f->lo[d] = (int64_t)lo;
  f->hi[d] = (int64_t)hi;
}

static void see(prefetching *p, const tg_uop *access) {
  footprint f;
  uint32_t g = 0;
  for (uint32_t d = 0; d < p->rank; d++) measure(p, access->src[1 + d], d, &f);
  while (g < p->groups && memcmp(p->group[g].base, f.base, p->rank * sizeof *f.base)) g++;
  if (g == GROUPS) tg_fail_at(p->s->j, p->o->pos, "prefetch %s at %s: it is read from more than %d places", p->o->names[0], p->o->names[1], GROUPS);
  if (g == p->groups) p->group[p->groups++] = f;
  for (uint32_t d = 0; d < p->rank; d++) {
    if (f.lo[d] < p->group[g].lo[d]) p->group[g].lo[d] = f.lo[d];
    if (f.hi[d] > p->group[g].hi[d]) p->group[g].hi[d] = f.hi[d];
  }
}

static const tg_uop *fetch(prefetching *p, const footprint *f) {
  tg_job *j = p->s->j;
  uint32_t last = p->rank - 1;
  int64_t count[RANK], step[RANK], all = 1;
  bool dense = !(p->source->arg >> 32 & TG_STRIDED) || tg_is_const(p->source->src[p->rank + last], 1);
  for (uint32_t d = 0; d < p->rank; d++) {
    step[d] = d == last && dense ? LINE / tg_type_bytes((tg_type)p->source->type) : 1;
    count[d] = (f->hi[d] - f->lo[d]) / step[d] + 1;
    if (count[d] > MOST || (all *= count[d]) > MOST)
      tg_fail_at(j, p->o->pos, "prefetch %s at %s: an iteration reads more than %d lines", p->o->names[0], p->o->names[1], MOST);
  }
  const tg_uop *src[RANK + 1] = {p->source}, *loop[RANK];
  for (uint32_t d = 0; d < p->rank; d++) {
    const char *name = tg_format(&j->env, "%s.fetch.%u", p->o->names[0], d);
    loop[d] = count[d] > 1 ? tg_range_new(j, name, tg_index(j, count[d]), all <= INLINE ? TG_UNROLL : TG_LOOP, UINT32_MAX, p->o->pos) : NULL;
    src[1 + d] = tg_idx_add(j, f->base[d], tg_index(j, f->lo[d]));
    if (loop[d]) src[1 + d] = tg_idx_add(j, src[1 + d], tg_idx_mul(j, loop[d], step[d]));
  }
  int64_t flags = (p->o->number[1] == 2 ? TG_PREFETCH_L2 : TG_PREFETCH_L1) | (p->o->number[2] ? TG_PREFETCH_WRITE : 0);
  const tg_uop *u = tg_make(j, TG_OP_PREFETCH, TG_VOID, 1, flags, 1 + p->rank, src);
  tg_set_pos(j, u, p->o->pos);
  for (uint32_t d = p->rank; d-- > 0;) {
    if (!loop[d]) continue;
    u = tg_end(j, loop[d], 1, &u);
    tg_set_pos(j, u, p->o->pos);
  }
  return u;
}

static void fetch_in_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  prefetching *p = user;
  tg_job *j = s->j;
  uint32_t n;
  p->groups = 0;
  p->range = end->src[0];
  p->inside = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  const tg_uop **order = tg_toposort(j, end, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_END && u != end) p->inside[tg_range_ordinal(u->src[0])] = 1;
    for (uint32_t k = 0; u->op == TG_OP_REDUCE && k < tg_reduce_info(u).ranges; k++) p->inside[tg_range_ordinal(tg_reduce_ranges(u)[k])] = 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if ((u->op == TG_OP_LOAD || (u->op == TG_OP_STORE && p->o->number[2])) && tg_define_of(u->src[0]) == p->source) see(p, u);
  }
  tg_statements list = {0};
  for (uint32_t g = 0; g < p->groups; g++) tg_push(&j->env, &list, fetch(p, &p->group[g]));
  for (uint32_t i = 1; i < end->n; i++) tg_push(&j->env, &list, end->src[i]);
  p->found |= p->groups > 0;
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

void tg_opt_prefetch(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  prefetching *p = tg_new(&j->env, prefetching, 1);
  *p = (prefetching){.s = s, .o = o};
  for (uint32_t i = 0; i < s->sink->n; i++)
    if (s->sink->src[i]->op == TG_OP_DEFINE && !strcmp(tg_buffer_info(j, s->sink->src[i])->name, o->names[0])) p->source = s->sink->src[i];
  if (!p->source || tg_buffer_info(j, p->source)->space != TG_SPACE_GLOBAL) tg_fail_at(j, o->pos, "prefetch %s: no buffer of global memory has that name", o->names[0]);
  if (s->l->target && tg_target_is_device(s->l->target)) tg_fail_at(j, o->pos, "prefetch %s: this target has no prefetch; leave the opt out", o->names[0]);
  p->rank = tg_buffer_info(j, p->source)->rank;
  if (!p->rank) tg_fail_at(j, o->pos, "prefetch %s: it is one element", o->names[0]);
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range;
    tg_kind kind = tg_range_kind(r);
    if (axis.site[i].owner->op != TG_OP_END)
      tg_fail_at(j, o->pos, "prefetch %s at %s: a prefetch stands in a loop, not in a reduction", o->names[0], tg_range_text(s, r));
    if (kind != TG_LOOP && kind != TG_GLOBAL && kind != TG_UNROLL)
      tg_fail_at(j, o->pos, "prefetch %s at %s: it is %s, and its iterations do not come one after another", o->names[0], tg_range_text(s, r), tg_kind_name[kind]);
    s->sink = tg_replace_end(s, s->sink, r, fetch_in_loop, p);
  }
  if (!p->found) tg_fail_at(j, o->pos, "prefetch %s at %s: the loop does not read it%s", o->names[0], o->names[1], o->number[2] ? " or store to it" : "");
}
