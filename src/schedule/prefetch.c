/* SPDX-License-Identifier: MIT
 * prefetch B at r ahead n: at the start of each iteration of r (a loop, or the range of a sum), prefetches the cache
 * lines of B that iteration r + n will read. With `of c`: the lines that iteration c + n of an outer loop c will read,
 * shared out among the iterations of r; if r is the range of a sum and nobody knows how many iterations there are, each
 * prefetches what the same one will read then. If c is the range of a sum that stands elsewhere, each iteration of the
 * loop r prefetches what the iteration with its number reads there.
 *
 * In each dimension a subscript is a base, over r and what is constant inside r, plus an offset over the ranges inside;
 * the bounds of the offset give the rows and columns to prefetch. Addresses past the end of B are harmless: a prefetch
 * never faults. */
#include "schedule/opt.h"

enum { LINE = 64, RANK = 16, GROUPS = 32, MOST = 4096, INLINE = 16, SUM_LINES = 64, DEEP = 8, WHOLE = 1 << 26 };

/* Accesses that begin at one base. */
typedef struct { const tg_uop *base[RANK]; int64_t lo[RANK], hi[RANK]; } footprint;

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source;
  const tg_uop *range[DEEP], *to[DEEP];   /* loops whose iteration is another when its lines are read, and which */
  uint32_t ranges;
  uint8_t *inside;            /* by range ordinal */
  uint32_t rank, groups;
  footprint group[GROUPS];
  bool found;
  bool alike;                 /* each `to` has the bounds of its range, and may read what that may */
} prefetching;

static bool varies_inside(const prefetching *p, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(p->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && p->inside[tg_range_ordinal(order[i])]) return true;
  return false;
}

static bool moves_on(const prefetching *p, const tg_uop *u) {
  bool any = false;
  for (uint32_t i = 0; i < p->ranges; i++) any |= tg_uses(p->s->j, u, p->range[i]);
  return any;
}

/* Does u read memory that the kernel writes (inputs: or any memory)? Such memory may have changed by the iteration that
 * the prefetch is for, so subscripts must not be read from it. */
static bool reads_memory(tg_job *j, const tg_uop *u, bool inputs) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && (inputs || tg_buffer_info(j, order[i]->src[0])->role != TG_ROLE_IN)) return true;
  return false;
}

/* Splits subscript d of an access: its value at the start of the prefetched iteration, and bounds of the offset. */
static void measure(prefetching *p, const tg_uop *subscript, uint32_t d, footprint *f) {
  tg_job *j = p->s->j;
  tg_linear all, base = {.n = 0};
  tg_i128 lo, hi;
  tg_linear_of(j, tg_simplified(p->s, subscript), &all);
  lo = hi = all.constant;
  for (uint32_t i = 0; i < all.n; i++) {
    const tg_uop *u = all.atom[i];
    int64_t by = all.coefficient[i];
    /* a range's bounds hold whatever its extent is */
    bool within = varies_inside(p, u), moves = (!within || u->op != TG_OP_RANGE) && moves_on(p, u);
    if (reads_memory(j, u, within || (moves && !p->alike)))
      tg_fail_at(j, p->o->pos, "prefetch %s at %s: where it is read in dimension %u comes from memory", p->o->names[0],
                 p->o->names[1], d);
    tg_bounds b = within ? tg_bounds_of(j, u) : (tg_bounds){0};
    if ((within && moves) || b.lo < -((tg_i128)1 << 40) || b.hi > (tg_i128)1 << 40)
      tg_fail_at(j, p->o->pos, "prefetch %s at %s: the part read in dimension %u has no constant bound: %s",
                 p->o->names[0], p->o->names[1], d, tg_text(j, u));
    lo += by > 0 ? by * b.lo : by * b.hi;
    hi += by > 0 ? by * b.hi : by * b.lo;
    if (within) continue;
    base.atom[base.n] = u;
    base.coefficient[base.n++] = by;
  }
  f->base[d] = tg_substitute(j, tg_linear_build(j, &base), p->ranges, p->range, p->to);
  f->lo[d] = (int64_t)lo;
  f->hi[d] = (int64_t)hi;
}

static void look_ahead(prefetching *p, const tg_uop *range) {
  p->range[0] = range;
  p->to[0] = tg_idx_add(p->s->j, range, tg_index(p->s->j, p->o->number[0]));
  p->ranges = 1;
  p->groups = 0;
}

/* Is it inside a loop without iterations, as a split by a list of sizes may leave one? */
static bool is_never(const prefetching *p, const tg_uop *access) {
  uint32_t n;
  const tg_uop **order = tg_toposort(p->s->j, access, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && tg_bounds_of(p->s->j, order[i]->src[0]).hi <= 0) return true;
  return false;
}

static void see(prefetching *p, const tg_uop *access) {
  footprint f;
  uint32_t g = 0;
  if (is_never(p, access)) return;
  for (uint32_t d = 0; d < p->rank; d++) measure(p, access->src[1 + d], d, &f);
  while (g < p->groups && memcmp(p->group[g].base, f.base, p->rank * sizeof *f.base)) g++;
  if (g == GROUPS)
    tg_fail_at(p->s->j, p->o->pos, "prefetch %s at %s: it is read from more than %d places", p->o->names[0],
               p->o->names[1], GROUPS);
  if (g == p->groups) p->group[p->groups++] = f;
  for (uint32_t d = 0; d < p->rank; d++) {
    if (f.lo[d] < p->group[g].lo[d]) p->group[g].lo[d] = f.lo[d];
    if (f.hi[d] > p->group[g].hi[d]) p->group[g].hi[d] = f.hi[d];
  }
}

/* The step, in elements, that visits every cache line along a dimension; 1 if the stride is unknown, since then each
 * element may be on a line of its own. */
static int64_t step_of(const prefetching *p, uint32_t d) {
  const tg_uop *stride = p->source->arg >> 32 & TG_STRIDED ? p->source->src[p->rank + d] : NULL;
  int64_t by = stride             ? stride->op == TG_OP_CONST ? stride->arg : LINE
               : d + 1 == p->rank ? 1
                                  : LINE,
          line = LINE / tg_type_bytes(p->source->type);
  return by > 0 && by < line ? line / by : 1;
}

/* Number of lines in each dimension, and the step between them in elements. */
static int64_t count_lines(const prefetching *p, const footprint *f, int64_t most, int64_t *count, int64_t *step) {
  int64_t all = 1;
  for (uint32_t d = 0; d < p->rank; d++) {
    step[d] = step_of(p, d);
    count[d] = (f->hi[d] - f->lo[d]) / step[d] + 1;
    if (count[d] > most || (all *= count[d]) > most)
      tg_fail_at(p->s->j, p->o->pos, "prefetch %s at %s: an iteration reads more than %lld lines", p->o->names[0],
                 p->o->names[1], (long long)most);
  }
  return all;
}

static const tg_uop *ask(const prefetching *p, const tg_uop *const *at) {
  const tg_uop *src[RANK + 1] = {p->source};
  memcpy(src + 1, at, p->rank * sizeof *at);
  int64_t flags = (p->o->number[1] ? TG_PREFETCH_L2 : TG_PREFETCH_L1) | (p->o->number[2] ? TG_PREFETCH_WRITE : 0);
  return tg_make(p->s->j, TG_OP_PREFETCH, TG_VOID, 1, flags, 1 + p->rank, src);
}

static const tg_uop *fetch(const prefetching *p, const footprint *f) {
  tg_job *j = p->s->j;
  int64_t count[RANK], step[RANK], all = count_lines(p, f, MOST, count, step);
  const tg_uop *at[RANK], *loop[RANK];
  for (uint32_t d = 0; d < p->rank; d++) {
    const char *name = tg_format(&j->env, "%s.fetch.%u", p->o->names[0], d);
    loop[d] = count[d] > 1 ? tg_range_new(j, name, tg_index(j, count[d]), all <= INLINE ? TG_UNROLL : TG_LOOP,
                                          UINT32_MAX, p->o->pos)
                           : NULL;
    at[d] = tg_idx_add(j, f->base[d], tg_index(j, f->lo[d]));
    if (loop[d]) at[d] = tg_idx_add(j, at[d], tg_idx_mul(j, loop[d], step[d]));
  }
  const tg_uop *u = ask(p, at);
  tg_set_pos(j, u, p->o->pos);
  for (uint32_t d = p->rank; d-- > 0;) {
    if (!loop[d]) continue;
    u = tg_end(j, loop[d], 1, &u);
    tg_set_pos(j, u, p->o->pos);
  }
  return u;
}

static void mark_reduction(prefetching *p, const tg_uop *reduce, uint32_t from) {
  for (uint32_t k = from; k < tg_reduce_info(reduce).ranges; k++)
    p->inside[tg_range_ordinal(tg_reduce_ranges(reduce)[k])] = 1;
}

static bool defined_in(const tg_uop *u, const tg_uop *define) {
  if (u == define) return true;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++)
      if (defined_in(u->src[i], define)) return true;
  return false;
}

static void see_loop(prefetching *p, const tg_uop *end) {
  tg_job *j = p->s->j;
  uint32_t n;
  p->inside = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  const tg_uop **order = tg_toposort(j, end, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_END && u != end) p->inside[tg_range_ordinal(u->src[0])] = 1;
    if (u->op == TG_OP_REDUCE) mark_reduction(p, u, 0);
  }
  if (defined_in(end, p->source))
    tg_fail_at(j, p->o->pos, "prefetch %s at %s: it begins anew in each iteration", p->o->names[0], p->o->names[1]);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if ((u->op == TG_OP_LOAD || (u->op == TG_OP_STORE && p->o->number[2])) && tg_define_of(u->src[0]) == p->source)
      see(p, u);
  }
}

static void fetch_in_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  prefetching *p = user;
  tg_job *j = s->j;
  look_ahead(p, end->src[0]);
  see_loop(p, end);
  tg_statements list = {0};
  for (uint32_t g = 0; g < p->groups; g++) tg_push(&j->env, &list, fetch(p, &p->group[g]));
  for (uint32_t i = 1; i < end->n; i++) tg_push(&j->env, &list, end->src[i]);
  p->found |= p->groups > 0;
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

/* ---- in a reduction ----
 *
 * An AHEAD node around the summed value lists the prefetches of each iteration of the range; pass reduce puts them into
 * the loop. Inside an iteration run: the later ranges of the sum, those that become parallel accumulators, and loops
 * around the statement whose iterations are in lockstep with it. */

typedef struct { const tg_uop *reduce, *asks[1 + SUM_LINES]; uint32_t n; tg_pos pos; } asking;
typedef struct { const prefetching *p; asking *list; uint32_t n; } all_asking;

static bool in_lockstep(tg_kind k) { return k == TG_UPCAST || k == TG_LANE || k == TG_LOCAL; }

static void mark_around(prefetching *p, const tg_site *site) {
  tg_schedule *s = p->s;
  const tg_uop *const *ranges = tg_reduce_ranges(site->owner);
  uint32_t n, count, at = 0;
  p->inside = tg_new(&s->j->env, uint8_t, s->j->ranges.n + 1);
  count = tg_reduce_info(site->owner).ranges;
  while (ranges[at] != site->range) at++;
  mark_reduction(p, site->owner, at + 1);
  for (uint32_t i = 0; i < at; i++)
    if (in_lockstep(tg_range_kind(ranges[i])) || tg_range_kind(ranges[i]) == TG_GROUP)
      p->inside[tg_range_ordinal(ranges[i])] = 1;
  for (uint32_t i = 0; i + count < site->owner->n; i++) {
    const tg_uop **order = tg_toposort(s->j, site->owner->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_REDUCE) mark_reduction(p, order[k], 0);
  }
  for (uint32_t i = site->parent; i != UINT32_MAX; i = s->sites.data[i].parent)
    if (in_lockstep(tg_range_kind(s->sites.data[i].range))) p->inside[tg_range_ordinal(s->sites.data[i].range)] = 1;
}

/* One for each line. */
static void list_lines(const prefetching *p, const footprint *f, asking *a) {
  tg_job *j = p->s->j;
  int64_t count[RANK], step[RANK], i[RANK] = {0};
  const tg_uop *at[RANK];
  if (a->n + count_lines(p, f, SUM_LINES, count, step) > SUM_LINES)
    tg_fail_at(j, p->o->pos, "prefetch %s at %s: an iteration reads more than %d lines", p->o->names[0], p->o->names[1],
               SUM_LINES);
  for (uint32_t d = 0; d != UINT32_MAX;) {
    for (d = 0; d < p->rank; d++) at[d] = tg_idx_add(j, f->base[d], tg_index(j, f->lo[d] + i[d] * step[d]));
    a->asks[1 + a->n++] = ask(p, at);
    while (d-- > 0 && ++i[d] == count[d]) i[d] = 0;
  }
}

/* What an iteration of the site's range reads, when the loop `later` is n iterations further. */
static void fetch_in_sum(prefetching *p, const tg_site *site, const tg_uop *later, asking *a) {
  tg_job *j = p->s->j;
  uint32_t n, ranges = tg_reduce_info(site->owner).ranges;
  *a = (asking){.reduce = site->owner};
  look_ahead(p, later);
  mark_around(p, site);
  for (uint32_t i = 0; i + ranges < site->owner->n; i++) {
    const tg_uop **order = tg_toposort(j, site->owner->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == p->source) see(p, order[k]);
  }
  for (uint32_t g = 0; g < p->groups; g++) list_lines(p, &p->group[g], a);
  p->found |= p->groups > 0;
}

static const tg_uop *ask_ahead(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const all_asking *all = user;
  const asking *a = NULL;
  for (uint32_t i = 0; i < all->n && old->op == TG_OP_REDUCE; i++)
    if (all->list[i].reduce == old && all->list[i].n) a = &all->list[i];
  if (!a) return NULL;
  const tg_uop **with = tg_new(&j->env, const tg_uop *, old->n + 1), *value[1 + SUM_LINES];
  memcpy(with, src, old->n * sizeof *src);
  memcpy(value, a->asks, sizeof value);
  value[0] = src[0];
  with[0] = tg_make(j, TG_OP_AHEAD, src[0]->type, src[0]->lanes, 0, 1 + a->n, value);
  uint32_t ranges = tg_reduce_info(old).ranges;
  return tg_reduce_like(j, old, with, ranges, src + old->n - ranges);
}

static bool comes_in_order(tg_kind k) { return k == TG_LOOP || k == TG_REDUCE || k == TG_GLOBAL || k == TG_UNROLL; }

/* ---- of a loop around ----
 *
 * While iteration c runs, the lines that iteration c + n reads are prefetched one by one, shared evenly among the
 * iterations of r. After the last iteration of c follows its first one in the next iteration of the loop around c. */

static void look_around(prefetching *p, const tg_site *site) {
  tg_schedule *s = p->s;
  tg_job *j = s->j;
  const tg_uop *over = NULL;
  p->ranges = p->groups = 0;
  for (;;) {
    const tg_uop *r = site->range, *by = tg_index(j, p->o->number[0]),
                 *next = tg_idx_add(j, r, over ? tg_op3(j, TG_OP_WHERE, over, tg_index(j, 1), tg_index(j, 0)) : by);
    const tg_site *around = site->parent == UINT32_MAX ? NULL : &s->sites.data[site->parent];
    bool last = !around || !comes_in_order(tg_range_kind(around->range)) || p->ranges + 1 == DEEP;
    p->range[p->ranges] = r;
    if (!last) {
      over = tg_op2(j, TG_OP_LT, tg_idx_sub(j, r->src[0], tg_index(j, 1)), next);
      next = tg_op3(j, TG_OP_WHERE, over, tg_idx_sub(j, next, r->src[0]), next);
    }
    p->to[p->ranges++] = next;
    if (last) return;
    site = around;
  }
}

/* One occurrence of r inside c (a list of tiles may make several). Iterations are counted through r and the loops
 * between r and c, from the inside to the outside, without those in lockstep. */
typedef struct {
  /* the number of the current iteration, and how many there are at most */
  const tg_uop *at;
  int64_t times;
  /* the same, as far as is certain: it ends with the first loop around r whose extent varies, of which the least extent
   * counts; iterations beyond that have the number of the last one */
  const tg_uop *always_at;
  int64_t always;
  /* the same of r alone (of a sum: of r and the sum's ranges before it) */
  const tg_uop *inner_at;
  int64_t inner;
  /* how often r runs, as far as is certain, and the number of this time */
  const tg_uop *outer_at;
  int64_t outer;
  int64_t work;      /* by which occurrences are compared: iterations, lockstep included; 0: it never runs */
  bool varies;       /* the extent of a loop between varies */
  bool maybe;        /* one of these loops may have no iteration */
  const tg_uop *open;   /* one of these loops whose iterations have no constant bound */
} share;

static void pass_range(const prefetching *p, const tg_uop *r, share *h) {
  tg_job *j = p->s->j;
  tg_bounds b = tg_bounds_of(j, r->src[0]);
  int64_t n = b.hi < (tg_i128)1 << 31 ? (int64_t)b.hi : -1;
  if (n == 0) h->work = 0;
  if (n < 0 || (n && h->times > ((int64_t)1 << 31) / n)) h->open = r;
  if (h->open) return;
  h->work *= n <= 1 << 11 && h->work < (int64_t)1 << 50 ? n : 1;
  if (in_lockstep(tg_range_kind(r))) return;
  if (!comes_in_order(tg_range_kind(r)) && tg_range_kind(r) != TG_THREAD)
    tg_fail_at(j, p->o->pos, "prefetch %s at %s: %s is %s, and its iterations do not come one after another",
               p->o->names[0], p->o->names[1], tg_range_text(p->s, r), tg_kind_name[tg_range_kind(r)]);
  h->at = tg_idx_add(j, h->at, tg_idx_mul(j, r, h->times));   /* from the inside to the outside */
  h->times *= n > 0 ? n : 1;
}

static bool find_share(const prefetching *p, const tg_site *site, const tg_uop *c, share *h) {
  tg_schedule *s = p->s;
  *h = (share){.at = tg_index(s->j, 0), .times = 1, .work = 1};
  if (site->owner->op == TG_OP_REDUCE) {
    const tg_uop *const *ranges = tg_reduce_ranges(site->owner);
    uint32_t k = 0;
    while (ranges[k] != site->range) k++;
    for (;; k--) {
      pass_range(p, ranges[k], h);
      if (!k) break;
    }
  } else pass_range(p, site->range, h);
  h->always_at = h->inner_at = h->at, h->always = h->inner = h->times;
  h->outer_at = tg_index(s->j, 0), h->outer = 1;
  for (uint32_t i = site->parent; i != UINT32_MAX; i = s->sites.data[i].parent) {
    const tg_uop *r = s->sites.data[i].range;
    if (r == c) return true;
    pass_range(p, r, h);   /* fails past 2^31 iterations in all, so that what follows is exact */
    tg_bounds b = tg_bounds_of(s->j, r->src[0]);
    int64_t least = b.lo > 0 ? (int64_t)b.lo : 0;
    bool few = least <= INT32_MAX / h->always && least <= INT32_MAX / h->outer;   /* a loop may have no known end */
    if (!h->varies && least && few && !in_lockstep(tg_range_kind(r))) {
      /* iterations beyond the least extent prefetch what the last one does */
      const tg_uop *last = tg_index(s->j, least - 1),
                   *sure = b.lo == b.hi ? r : tg_op3(s->j, TG_OP_WHERE, tg_op2(s->j, TG_OP_LT, r, last), r, last);
      h->always_at = tg_idx_add(s->j, h->always_at, tg_idx_mul(s->j, sure, h->always)), h->always *= least;
      h->outer_at = tg_idx_add(s->j, h->outer_at, tg_idx_mul(s->j, r, h->outer)), h->outer *= least;
    }
    h->varies |= b.lo != b.hi;
    h->maybe |= !least;
  }
  return false;
}

/* The line in a column of a row, counted over all dimensions but the last. */
static const tg_uop *ask_at(const prefetching *p, const footprint *f, const int64_t *count, const int64_t *step,
                            const tg_uop *row, const tg_uop *column) {
  tg_job *j = p->s->j;
  const tg_uop *at[RANK];
  for (uint32_t d = p->rank; d-- > 0;) {
    const tg_uop *i = d + 1 == p->rank ? column : d ? tg_idx_mod(j, row, count[d]) : row;
    if (d + 1 != p->rank) row = tg_idx_div(j, row, count[d]);
    at[d] = tg_idx_add(j, tg_idx_add(j, f->base[d], tg_index(j, f->lo[d])), tg_idx_mul(j, i, step[d]));
  }
  return ask(p, at);
}

/* The lines at `place` of a part, in units of its rows by 1 / WHOLE: divisions are by powers of two. */
static const tg_uop *ask_for(const prefetching *p, const footprint *f, const int64_t *count, const int64_t *step,
                             const tg_uop *place) {
  tg_job *j = p->s->j;
  return ask_at(p, f, count, step, tg_idx_div(j, place, WHOLE),
                tg_idx_div(j, tg_idx_mul(j, tg_idx_mod(j, place, WHOLE), count[p->rank - 1]), WHOLE));
}

/* If the number of iterations is a multiple or a divisor of the number of rows: each iteration prefetches a piece of
 * one row, or some whole rows. The address advances by one addition. */
static bool ask_by_rows(const prefetching *p, const footprint *f, const tg_uop *now, int64_t times, int64_t most,
                        int64_t rows, const int64_t *count, const int64_t *step, asking *a) {
  tg_job *j = p->s->j;
  if (times % rows && rows % times) return false;
  int64_t columns = count[p->rank - 1], turns = times > rows ? times / rows : 1, some = times > rows ? 1 : rows / times,
          each = (columns + turns - 1) / turns;
  if (turns > columns || each * some > most || a->n + each * some > SUM_LINES) return false;
  const tg_uop *row = tg_idx_mul(j, tg_simplified(p->s, tg_idx_mod(j, now, rows)), some),
               *turn = tg_simplified(p->s, tg_idx_div(j, now, rows));
  for (int64_t r = 0; r < some; r++)
    for (int64_t i = 0; i < each; i++)
      a->asks[1 + a->n++] = ask_at(p, f, count, step, tg_idx_add(j, row, tg_index(j, r)),
                                   tg_idx_add(j, tg_idx_mul(j, turn, each), tg_index(j, i)));
  return true;
}

/* If there are few rows, of about as many lines as there are iterations: each iteration prefetches the line at its own
 * position in each row, at a constant distance from what it reads, so no address is computed. A few lines at the ends
 * of rows may be skipped. */
static bool ask_by_columns(const prefetching *p, const footprint *f, const share *h, int64_t rows, const int64_t *count,
                           const int64_t *step, asking *a) {
  enum { FEW = 16, MANY = 4 };   /* lines: one in so many; iterations for each row */
  int64_t columns = count[p->rank - 1], each = (rows + h->outer - 1) / h->outer;
  if (rows * MANY > h->inner || h->inner * FEW < columns * (FEW - 1) || h->inner > 2 * columns || each > FEW ||
      a->n + each > SUM_LINES)
    return false;
  const tg_uop *row = tg_idx_mul(p->s->j, h->outer_at, each);
  for (int64_t r = 0; r < each; r++)
    a->asks[1 + a->n++] = ask_at(p, f, count, step, tg_idx_add(p->s->j, row, tg_index(p->s->j, r)), h->inner_at);
  return true;
}

/* Shares the lines from position `from` up to another among the iterations; a line may be prefetched twice, none is
 * skipped. Step sizes are odd, which keeps the position a single sum that advances by one addition. */
static void ask_share(const prefetching *p, const footprint *f, const tg_uop *now, int64_t times, int64_t from,
                      int64_t to, const int64_t *count, const int64_t *step, asking *a) {
  tg_job *j = p->s->j;
  if (to == from) return;
  int64_t lines = ((to - from) * count[p->rank - 1] + WHOLE - 1) / WHOLE, each = (lines + times - 1) / times,
          by = (to - from) / (times * each) | 1;
  if (a->n + each > SUM_LINES)
    tg_fail_at(j, p->o->pos, "prefetch %s at %s: an iteration asks for more than %d lines", p->o->names[0],
               p->o->names[1], SUM_LINES);
  for (int64_t i = 0; i < each; i++)
    a->asks[1 + a->n++] =
        ask_for(p, f, count, step, tg_idx_add(j, tg_idx_mul(j, now, each * by), tg_index(j, from + i * by)));
}

/* The occurrence of r that does most of the work prefetches everything; if no occurrence is certain to run, each does.
 * If it may run more iterations than is certain, the extra ones repeat a few lines. */
static bool share_rows(const prefetching *p, const footprint *f, const share *h, uint32_t n, int64_t rows,
                       const int64_t *count, const int64_t *step, asking *list) {
  enum { FEW = 8, SOME = 4 };
  uint32_t most = 0;
  bool varies = false;
  for (uint32_t i = 0; i < n; i++) {
    if (h[i].work > h[most].work) most = i;
    varies |= h[i].work && h[i].varies;
  }
  if (!h[most].work) return false;
  if (ask_by_columns(p, f, &h[most], rows, count, step, &list[most])) return true;
  if (!varies) return ask_by_rows(p, f, h[most].at, h[most].times, SUM_LINES, rows, count, step, &list[most]);
  if (h[most].times > SOME * h[most].always) return false;
  if (!ask_by_rows(p, f, h[most].always_at, h[most].always, FEW, rows, count, step, &list[most])) {
    if (h[most].maybe || rows * count[p->rank - 1] > FEW * h[most].always) return false;
    ask_share(p, f, h[most].always_at, h[most].always, 0, rows * WHOLE, count, step, &list[most]);
    return true;
  }
  for (uint32_t i = 0; i < n; i++)
    if (i != most && h[i].work && h[most].maybe)
      ask_by_rows(p, f, h[i].always_at, h[i].always, FEW, rows, count, step, &list[i]);
  return true;
}

/* Nobody knows how many iterations there are: each of r, a sum's, prefetches what the same one reads then. */
static void fetch_alike(prefetching *p, const tg_site *c, const tg_axis *places, const share *h, asking *list) {
  for (uint32_t i = 0; i < places->n; i++)
    if (h[i].work) fetch_in_sum(p, &places->site[i], c->range, &list[i]);
}

/* Are there sums with more lines to prefetch than the iterations that are certain could share out? So it is where the
 * terms' number is open. */
static bool is_too_much(const prefetching *p, const tg_axis *places, const share *h) {
  int64_t count[RANK], step[RANK], lines = 0, most = 0;
  for (uint32_t g = 0; g < p->groups; g++) lines += count_lines(p, &p->group[g], (int64_t)1 << 30, count, step);
  for (uint32_t i = 0; i < places->n; i++) {
    if (places->site[i].owner->op != TG_OP_REDUCE) return false;
    if (h[i].work && h[i].always > most) most = h[i].always;
  }
  return lines > most * SUM_LINES;
}

/* Adds the prefetches for iteration c + n to the lists of all occurrences of r inside c. */
static void share_lines(prefetching *p, const tg_site *c, const tg_axis *places, asking *list) {
  tg_job *j = p->s->j;
  int64_t count[RANK], step[RANK], work = 0;
  share *h = tg_new(&j->env, share, places->n + 1);
  if (c->owner->op != TG_OP_END)
    tg_fail_at(j, p->o->pos, "prefetch %s at %s of %s: that is the range of a sum, not a loop", p->o->names[0],
               p->o->names[1], p->o->names[2]);
  if (!comes_in_order(tg_range_kind(c->range)))
    tg_fail_at(j, p->o->pos, "prefetch %s at %s of %s: that is %s, and its iterations do not come one after another",
               p->o->names[0], p->o->names[1], tg_range_text(p->s, c->range), tg_kind_name[tg_range_kind(c->range)]);
  bool open = false;
  for (uint32_t i = 0; i < places->n; i++) {
    bool inside = find_share(p, &places->site[i], c->range, &h[i]);
    if (h[i].open && places->site[i].owner->op != TG_OP_REDUCE)
      tg_fail_at(j, p->o->pos, "prefetch %s at %s of %s: the iterations of %s within it have no constant bound",
                 p->o->names[0], p->o->names[1], p->o->names[2], tg_range_name(p->s, h[i].open));
    if (!inside) h[i].work = 0;
    open |= h[i].work && h[i].open;
    work += h[i].work;
  }
  if (open) {
    fetch_alike(p, c, places, h, list);
    return;
  }
  if (!work) return;
  look_around(p, c);
  see_loop(p, c->owner);
  if (is_too_much(p, places, h)) {
    fetch_alike(p, c, places, h, list);
    return;
  }
  for (uint32_t g = 0; g < p->groups; g++) {
    int64_t all = count_lines(p, &p->group[g], (int64_t)1 << 30, count, step) / count[p->rank - 1] * WHOLE, from = 0,
            so_far = 0;
    if (share_rows(p, &p->group[g], h, places->n, all / WHOLE, count, step, list)) continue;
    for (uint32_t i = 0; i < places->n; i++) {
      if (!h[i].work) continue;
      so_far += h[i].work;
      int64_t to = (int64_t)((tg_i128)all * so_far / work);
      ask_share(p, &p->group[g], h[i].at, h[i].times, from, to, count, step, &list[i]);
      from = to;
    }
  }
  p->found |= p->groups > 0;
}

static void put_asks(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  const asking *a = user;
  tg_statements list = {0};
  for (uint32_t i = 0; i < a->n; i++) {
    tg_set_pos(s->j, a->asks[1 + i], a->pos);
    tg_push(&s->j->env, &list, a->asks[1 + i]);
  }
  for (uint32_t i = 1; i < end->n; i++) tg_push(&s->j->env, &list, end->src[i]);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

static void prefetch_around(prefetching *p, const tg_axis *around, const tg_axis *places) {
  tg_schedule *s = p->s;
  all_asking sums = {p, tg_new(&s->j->env, asking, places->n + 1), 0};
  asking *list = tg_new(&s->j->env, asking, places->n + 1);
  for (uint32_t i = 0; i < around->n; i++) share_lines(p, &around->site[i], places, list);
  if (!p->found)
    tg_fail_at(s->j, p->o->pos, "prefetch %s at %s of %s: there is no %s in it, or it does not read %s", p->o->names[0],
               p->o->names[1], p->o->names[2], p->o->names[1], p->o->names[0]);
  for (uint32_t i = 0; i < places->n; i++) {
    list[i].pos = p->o->pos;
    list[i].reduce = places->site[i].owner;
    if (list[i].reduce->op == TG_OP_REDUCE && list[i].n) sums.list[sums.n++] = list[i];
  }
  if (sums.n) s->sink = tg_map(s->j, s->sink, ask_ahead, NULL, &sums);
  for (uint32_t i = 0; i < places->n; i++)
    if (list[i].reduce->op == TG_OP_END && list[i].n)
      s->sink = tg_replace_end(s, s->sink, places->site[i].range, put_asks, &list[i]);
}

/* ---- of a sum elsewhere ----
 *
 * Its iterations, and those of r, are counted from the loop that both stand in; r prefetches what the iteration of c
 * with its number, n further, reads in all loops around that sum, which the loops around r are not. */

static bool stands_in(const tg_schedule *s, const tg_site *site, const tg_uop *loop) {
  for (uint32_t i = site->parent; i != UINT32_MAX; i = s->sites.data[i].parent)
    if (s->sites.data[i].range == loop) return true;
  return false;
}

/* The number of r's iteration, from the loop on that c's sum is in, too. */
static const tg_uop *number_of(const prefetching *p, const tg_site *r, const tg_site *c) {
  tg_schedule *s = p->s;
  const tg_uop *number = tg_index(s->j, p->o->number[0]);
  int64_t times = 1;
  for (const tg_site *at = r; !stands_in(s, c, at->range); at = &s->sites.data[at->parent]) {
    tg_bounds b = tg_bounds_of(s->j, at->range->src[0]);
    number = tg_idx_add(s->j, number, tg_idx_mul(s->j, at->range, times));
    if (at->parent == UINT32_MAX || stands_in(s, c, s->sites.data[at->parent].range)) break;
    if (b.lo != b.hi || b.lo < 1 || b.hi > WHOLE || times > WHOLE / (int64_t)b.hi)
      tg_fail_at(s->j, p->o->pos, "prefetch %s at %s of %s: the iterations of %s have no constant number",
                 p->o->names[0], p->o->names[1], p->o->names[2], tg_range_text(s, at->range));
    times *= (int64_t)b.hi;
  }
  return number;
}

/* c's iteration with that number: of c, and of the sum's ranges before it. */
static void look_elsewhere(prefetching *p, const tg_site *c, const tg_uop *number) {
  tg_job *j = p->s->j;
  const tg_uop *const *ranges = tg_reduce_ranges(c->owner);
  uint32_t k = 0;
  while (ranges[k] != c->range) k++;
  p->ranges = 0, p->alike = true;
  for (;; k--) {
    const tg_uop *to = number;
    tg_bounds b = tg_bounds_of(j, ranges[k]->src[0]);
    if (k && (b.lo != b.hi || b.lo < 1 || b.hi > WHOLE || p->ranges + 1 == DEEP))
      tg_fail_at(j, p->o->pos, "prefetch %s at %s of %s: the iterations of %s have no constant number", p->o->names[0],
                 p->o->names[1], p->o->names[2], tg_range_text(p->s, ranges[k]));
    if (k) to = tg_idx_mod(j, number, (int64_t)b.hi), number = tg_idx_div(j, number, (int64_t)b.hi);
    to = tg_simplified(p->s, to), number = tg_simplified(p->s, number);
    p->alike &= to->op == TG_OP_RANGE && to->src[0] == ranges[k]->src[0];
    p->range[p->ranges] = ranges[k];
    p->to[p->ranges++] = to;
    if (!k) return;
  }
}

/* All ranges of c's sum but those that are counted, and all loops around it that are not around r. */
static void see_elsewhere(prefetching *p, const tg_site *r, const tg_site *c) {
  tg_schedule *s = p->s;
  uint32_t n, count = tg_reduce_info(c->owner).ranges;
  p->inside = tg_new(&s->j->env, uint8_t, s->j->ranges.n + 1);
  for (uint32_t i = c->parent; i != UINT32_MAX && !stands_in(s, r, s->sites.data[i].range); i = s->sites.data[i].parent)
    p->inside[tg_range_ordinal(s->sites.data[i].range)] = 1;
  mark_reduction(p, c->owner, 0);
  for (uint32_t i = 0; i < p->ranges; i++) p->inside[tg_range_ordinal(p->range[i])] = 0;
  for (uint32_t i = 0; i + count < c->owner->n; i++) {
    const tg_uop **order = tg_toposort(s->j, c->owner->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == p->source) see(p, order[k]);
  }
}

static void put_fetches(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  tg_statements *list = user;
  for (uint32_t i = 1; i < end->n; i++) tg_push(&s->j->env, list, end->src[i]);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], list->n, list->data));
}

/* Are all of c's places sums outside of the loops r? */
static bool stand_elsewhere(const tg_schedule *s, const tg_axis *sums, const tg_axis *places) {
  for (uint32_t i = 0; i < places->n; i++)
    for (uint32_t k = 0; k < sums->n; k++)
      if (sums->site[k].owner->op != TG_OP_REDUCE || places->site[i].owner->op != TG_OP_END ||
          stands_in(s, &sums->site[k], places->site[i].range))
        return false;
  return true;
}

static void prefetch_elsewhere(prefetching *p, const tg_axis *sums, const tg_axis *places) {
  tg_schedule *s = p->s;
  tg_statements *lists = tg_new(&s->j->env, tg_statements, places->n + 1);
  for (uint32_t i = 0; i < places->n; i++) {
    const tg_site *r = &places->site[i];
    p->groups = 0;
    for (uint32_t k = 0; k < sums->n; k++) {
      look_elsewhere(p, &sums->site[k], number_of(p, r, &sums->site[k]));
      see_elsewhere(p, r, &sums->site[k]);
    }
    for (uint32_t g = 0; g < p->groups; g++) tg_push(&s->j->env, &lists[i], fetch(p, &p->group[g]));
    if (!p->groups)
      tg_fail_at(s->j, p->o->pos, "prefetch %s at %s of %s: that sum does not read it", p->o->names[0],
                 p->o->names[1], p->o->names[2]);
  }
  for (uint32_t i = 0; i < places->n; i++)
    s->sink = tg_replace_end(s, s->sink, places->site[i].range, put_fetches, &lists[i]);
}

static const tg_uop *find_source(tg_job *j, const tg_uop *u, const char *name) {
  if (u->op == TG_OP_DEFINE)
    return tg_buffer_info(j, u)->space == TG_SPACE_REG || strcmp(tg_buffer_info(j, u)->name, name) ? NULL : u;
  const tg_uop *found = NULL;
  for (uint32_t i = u->op == TG_OP_END; i < u->n && !found && (u->op == TG_OP_END || u->op == TG_OP_SINK); i++)
    found = find_source(j, u->src[i], name);
  return found;
}

void tg_opt_prefetch(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_check_contracted(s, o);
  prefetching *p = tg_new(&j->env, prefetching, 1);
  *p = (prefetching){.s = s, .o = o, .source = find_source(j, s->sink, o->names[0])};
  if (!p->source) tg_fail_at(j, o->pos, "prefetch %s: no buffer in memory has that name", o->names[0]);
  if (s->l->target && tg_target_is_device(s->l->target))
    tg_fail_at(j, o->pos, "prefetch %s: this target has no prefetch; leave the opt out", o->names[0]);
  p->rank = tg_buffer_info(j, p->source)->rank;
  if (!p->rank) tg_fail_at(j, o->pos, "prefetch %s: it is one element", o->names[0]);
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  if (o->n > 2) {
    tg_axis around = tg_axis_find(s, o, o->names[2]);
    if (stand_elsewhere(s, &around, &axis)) prefetch_elsewhere(p, &around, &axis);
    else prefetch_around(p, &around, &axis);
    return;
  }
  all_asking all = {p, tg_new(&j->env, asking, axis.n + 1), 0};
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *r = axis.site[i].range;
    if (!comes_in_order(tg_range_kind(r)))
      tg_fail_at(j, o->pos, "prefetch %s at %s: it is %s, and its iterations do not come one after another",
                 o->names[0], tg_range_text(s, r), tg_kind_name[tg_range_kind(r)]);
    if (axis.site[i].owner->op == TG_OP_REDUCE) fetch_in_sum(p, &axis.site[i], r, &all.list[all.n++]);
  }
  if (all.n) s->sink = tg_map(j, s->sink, ask_ahead, NULL, &all);
  for (uint32_t i = 0; i < axis.n; i++)
    if (axis.site[i].owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, axis.site[i].range, fetch_in_loop, p);
  if (!p->found)
    tg_fail_at(j, o->pos, "prefetch %s at %s: %s does not read it%s", o->names[0], o->names[1],
               all.n ? "what is summed" : "the loop", o->number[2] ? " or store to it" : "");
}
