/* SPDX-License-Identifier: MIT
 * What a nest of loops is: its perfect part, its stores, loads and reductions, how each access moves with a range, and
 * what may happen to an axis. */
#include "choose/nest.h"
#include "lower/sweep.h"
#include <math.h>

void tg_nest_emit(tg_nest *n, const char *format, ...) {
  va_list ap;
  tg_str t = tg_str_new(&n->j->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  tg_push(&n->j->env, &n->owner, n->index);
  tg_push(&n->j->env, &n->j->opts, ((tg_opt_text){t.data, {.file = "heuristic", .text = t.data, .column = 1}}));
}

/* The stride of dimension d, in elements; 0: unknown until launch, or 2^20 and more. */
static int64_t stride_of(const tg_uop *define, uint32_t rank, uint32_t d) {
  enum { MANY = 1 << 20 };
  if (define->arg >> 32 & TG_STRIDED)
    return define->src[rank + d]->op == TG_OP_CONST && define->src[rank + d]->arg < MANY ? define->src[rank + d]->arg
                                                                                         : 0;
  int64_t times = 1;
  while (++d < rank && times)
    times = define->src[d]->op == TG_OP_CONST && define->src[d]->arg < MANY && times < MANY
                ? times * define->src[d]->arg
                : 0;
  return times < MANY ? times : 0;
}

/* The offset of an access as one sum; false: some stride is not known, or there are too many terms. */
static bool offset_of(tg_job *j, const tg_uop *access, tg_linear *all) {
  uint32_t rank = tg_access_rank(access);
  const tg_uop *define = tg_define_of(access->src[0]);
  *all = (tg_linear){.n = 0};
  for (uint32_t d = 0; d < rank; d++) {
    int64_t stride = stride_of(define, rank, d);
    tg_linear own, sum;
    tg_linear_of(j, access->src[1 + d], &own);
    if (!stride || !tg_linear_add(j, all, &own, stride, &sum)) return false;
    *all = sum;
  }
  return true;
}

enum { FAR = 1 << 20 };

/* Adds how far apart two iterations of the range are in the sum, times stride; false: that differs, or is far. */
static bool distance_within(tg_job *j, const tg_linear *f, int64_t stride, const tg_uop *range, int64_t *distance) {
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->atom[i] != range && tg_uses(j, f->atom[i], range)) return false;
    if (f->atom[i] == range && (f->coefficient[i] > FAR || f->coefficient[i] < -FAR)) return false;
    if (f->atom[i] == range) *distance += f->coefficient[i] * stride;
  }
  return true;
}

/* The same where two digits of the range are what moves, m * (range % c) + m * c * (range / c): m. */
static bool distance_of_digits(tg_job *j, const tg_linear *f, const tg_uop *range, int64_t *distance) {
  int64_t part = 0, times = 0, c = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    const tg_uop *u = f->atom[i];
    if (!tg_uses(j, u, range)) continue;
    bool digit = (u->op == TG_OP_MOD || u->op == TG_OP_IDIV) && u->src[0] == range && u->src[1]->op == TG_OP_CONST;
    int64_t *to = u->op == TG_OP_MOD ? &part : &times;
    bool far = f->coefficient[i] > FAR || f->coefficient[i] < -FAR;
    if (!digit || *to || (c && u->src[1]->arg != c) || far) return false;
    c = u->src[1]->arg;
    *to = f->coefficient[i];
  }
  *distance = part;
  return part && c > 0 && c < FAR && times == part * c;
}

bool tg_access_distance(tg_job *j, const tg_uop *access, const tg_uop *range, int64_t *distance) {
  uint32_t rank = tg_access_rank(access), digits = 0;
  const tg_uop *define = tg_define_of(access->src[0]);
  tg_linear f;
  bool known = true;
  *distance = 0;
  for (uint32_t d = 0; d < rank; d++) {
    const tg_uop *u = access->src[1 + d];
    int64_t stride = stride_of(define, rank, d);
    if (!tg_uses(j, u, range)) continue;
    digits++;
    tg_linear_of(j, u, &f);
    known = known && stride && distance_within(j, &f, stride, range, distance);
  }
  return known || (digits > 1 && offset_of(j, access, &f) && distance_of_digits(j, &f, range, distance));
}

tg_motion tg_access_motion(tg_job *j, const tg_uop *access, const tg_uop *range) {
  int64_t distance;
  bool moves = false;
  for (uint32_t d = 0; d < tg_access_rank(access); d++) moves |= tg_uses(j, access->src[1 + d], range);
  if (!moves) return TG_STILL;
  if (!tg_access_distance(j, access, range, &distance)) return TG_STRIDES;
  if (distance == 1 || distance == -1) return distance == 1 ? TG_CONTIGUOUS : TG_BACKWARDS;
  return distance && distance >= -TG_MOST_STEP && distance <= TG_MOST_STEP ? TG_NEAR : TG_STRIDES;
}

static bool author_fixed(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k != TG_LOOP && k != TG_GLOBAL && k != TG_REDUCE;
}

enum { DONE = 1, LANES = 2 };

tg_axis tg_nest_axis_sites(tg_nest *n, const char *name) {
  tg_opt o = {.word = TG_OPT_LANE, .pos = {.file = "heuristic", .text = name, .column = 1}, .n = 1, .names = {name}};
  return tg_axis_find(&n->s, &o, tg_sym(n->j, name));
}

static bool within_lanes(const tg_nest *n, const tg_site *site) {
  for (uint32_t p = site->parent; p != UINT32_MAX; p = n->s.sites.data[p].parent) {
    const tg_uop *r = n->s.sites.data[p].range;
    if (site->owner->op == TG_OP_REDUCE && !tg_uses(n->j, site->owner, r)) continue;
    if (n->done[tg_range_ordinal(r)] & LANES || tg_range_kind(r) == TG_LANE) return true;
  }
  return false;
}

/* Is some loop or reduction inside this loop vectorised already? */
static bool around_lanes(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->s.sites.n; i++) {
    const tg_site *site = &n->s.sites.data[i];
    if (!(n->done[tg_range_ordinal(site->range)] & LANES) && tg_range_kind(site->range) != TG_LANE) continue;
    if (site->owner->op == TG_OP_REDUCE && !tg_uses(n->j, site->owner, range)) continue;
    for (uint32_t p = site->parent; p != UINT32_MAX; p = n->s.sites.data[p].parent)
      if (n->s.sites.data[p].range == range) return true;
  }
  return false;
}

/* Is a range of the axis nested in another range of the same axis? For example, t[i,i] makes both dimensions of t one
 * axis, and so the loops that fill t. A reduction that does not change with the loop around it (as in softmax) does not
 * count, since it is hoisted out of that loop. */
static bool within_itself(tg_nest *n, const tg_axis *axis) {
  for (uint32_t i = 0; i < axis->n; i++)
    for (uint32_t p = axis->site[i].parent; p != UINT32_MAX; p = n->s.sites.data[p].parent)
      for (uint32_t k = 0; k < axis->n; k++)
        if (n->s.sites.data[p].range == axis->site[k].range &&
            (axis->site[i].owner->op != TG_OP_REDUCE || tg_uses(n->j, axis->site[i].owner, axis->site[k].range)))
          return true;
  return false;
}

tg_nest_axis tg_nest_axis_of(tg_nest *n, const char *name) {
  tg_axis axis = tg_nest_axis_sites(n, name);
  tg_nest_axis a = {.members = axis.n, .lockstep = true, .parallel = true, .cut = true, .alike = true};
  if (within_itself(n, &axis)) return (tg_nest_axis){.members = axis.n};
  for (uint32_t i = 0; i < axis.n; i++) {
    const tg_uop *owner = axis.site[i].owner, *range = axis.site[i].range;
    const char *why;
    a.alike &= tg_extent(range) == tg_extent(axis.site[0].range);
    bool free = !author_fixed(range) && !n->done[tg_range_ordinal(range)];
    a.lockstep &= !tg_extent_following(&n->s, range);   /* else another loop's trip count depends on it */
    if (owner->op == TG_OP_REDUCE) {
      tg_reduce_arg r = tg_reduce_info(owner);
      a.cut &= !r.generic && !r.in_order;
      a.lockstep &= !r.in_order && free && !within_lanes(n, &axis.site[i]);
      a.parallel = false;
      continue;
    }
    tg_verdict v = free ? tg_range_verdict(&n->s, owner, &why) : TG_SEQUENTIAL;
    a.parallel &= v == TG_INDEPENDENT;
    a.lockstep &=
        (v == TG_INDEPENDENT || v == TG_LOCKSTEP) && !within_lanes(n, &axis.site[i]) && !around_lanes(n, range);
  }
  return a;
}

void tg_nest_mark(tg_nest *n, const char *name, bool lanes) {
  tg_axis axis = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < axis.n; i++) n->done[tg_range_ordinal(axis.site[i].range)] |= lanes ? DONE | LANES : DONE;
}

/* The extent as text; NULL if it depends on a loop or on memory, not on parameters and constants alone. */
static const char *extent_text(tg_nest *n, const tg_uop *range) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, tg_extent(range), &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_RANGE || order[i]->op == TG_OP_LOAD) return NULL;
  tg_str t = tg_str_new(&n->j->env);
  tg_print_expr(n->j, &t, tg_extent(range));
  return t.data;
}

const char *tg_nest_base(tg_nest *n, const char *name) { /* "i#2" gives "i2" */
  char *base = tg_strdup(&n->j->env, name), *mark = strchr(base, '#');
  if (mark) memmove(mark, mark + 1, strlen(mark));
  return base;
}

static void read_reduce(tg_nest *n, const tg_uop *reduce, const tg_uop *store) {
  tg_job *j = n->j;
  for (uint32_t i = 0; i < n->reductions.n; i++)
    if (n->reductions.data[i].reduce == reduce) return;
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++) { /* kinds set by the author are kept */
    tg_kind kind = tg_range_kind(tg_reduce_ranges(reduce)[i]);
    if (kind != TG_REDUCE && kind != TG_LOOP) return;
  }
  tg_nest_reduce r = {.reduce = reduce, .store = store, .at = tg_reduce_info(reduce).ranges - 1u};
  uint32_t count, best = 0, ranges = tg_reduce_info(reduce).ranges;
  const tg_uop **order = tg_toposort(j, reduce, &count);
  for (uint32_t k = 0; k < ranges; k++) {
    uint32_t contiguous = 0, strided = 0;
    for (uint32_t i = 0; i < count; i++) {
      if (order[i]->op != TG_OP_LOAD) continue;
      tg_motion m = tg_access_motion(j, order[i], tg_reduce_ranges(reduce)[k]);
      contiguous += m == TG_CONTIGUOUS || m == TG_BACKWARDS;
      strided += m == TG_STRIDES;
    }
    if (contiguous > best && !strided) best = contiguous, r.at = k, r.contiguous = true;
  }
  r.range = tg_reduce_ranges(reduce)[r.at];
  r.name = tg_axis_name(&n->s, r.range);
  r.base = tg_nest_base(n, r.name);
  r.extent = tg_iterations(r.range);
  r.extent_text = extent_text(n, r.range);
  tg_push(&j->env, &n->reductions, r);
}

/* The loops around a statement, from the inner one to the outer one. */
typedef struct around {
  const struct around *up;
  const tg_uop *range;
} around;

/* How many iterations of the loops around share the value: those of loops that it does not depend on. A reduction is
 * computed outside of them. */
static double shared_by(const tg_nest *n, const tg_uop *value, const around *a) {
  double times = 1;
  for (; a; a = a->up)
    if (!tg_uses(n->j, value, a->range)) times *= tg_nest_trips(tg_iterations(a->range));
  return times;
}

/* Bytes of the widest element that a statement computes with, on a host: what needs 16 bits is computed in 16. */
static uint32_t widest_of(tg_job *j, const tg_target *t, const tg_uop *store) {
  uint32_t count, bytes = 1;
  const tg_uop **order = tg_toposort(j, t->lanes > 1 ? store : tg_narrow_integers(j, store, 1), &count);
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    if (u->type == TG_INDEX || u->type == TG_VOID || u->op == TG_OP_CONST) continue;
    bytes = (uint32_t)tg_type_bytes(u->type) > bytes ? (uint32_t)tg_type_bytes(u->type) : bytes;
  }
  return bytes;
}

static void read_store(tg_nest *n, const tg_uop *store, double times, const around *loops) {
  tg_job *j = n->j;
  uint32_t count, bytes = widest_of(j, n->l->target, store);
  const tg_uop **order = tg_toposort(j, store, &count);
  double ops = 0, terms = 1;
  tg_push(&j->env, &n->stores, store);
  for (uint32_t i = count; i-- > 0;) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_LOAD) tg_push(&j->env, &n->loads, u);
    if (u->type != TG_INDEX && u->type != TG_VOID && u->op != TG_OP_CONST) ops += 1;
    if (u->op != TG_OP_REDUCE) continue;
    read_reduce(n, u, store);
    double all = 1;
    for (uint32_t k = 0; k < tg_reduce_info(u).ranges; k++)
      all *= tg_nest_trips(tg_iterations(tg_reduce_ranges(u)[k]));
    terms = fmax(terms, all / shared_by(n, u, loops));
  }
  n->work += times * terms * (ops + 1);
  uint32_t lanes = n->l->target->vector_bytes / bytes;
  if (lanes < n->lanes) n->lanes = lanes ? lanes : 1;
}

static void read_statements(tg_nest *n, const tg_uop *u, double times, double copies, const around *loops) {
  if (u->op == TG_OP_STORE) read_store(n, u, times, loops);
  if (u->op != TG_OP_END || tg_is_merge(u)) return;
  n->threads &= tg_range_kind(u->src[0]) != TG_THREAD;
  if (author_fixed(u->src[0])) copies = fmin(copies * tg_nest_trips(tg_iterations(u->src[0])), 1 << 20);
  if (copies > n->copies) n->copies = (uint32_t)copies;
  around here = {.up = loops, .range = u->src[0]};
  times *= tg_nest_trips(tg_iterations(u->src[0]));
  for (uint32_t i = 1; i < u->n; i++) read_statements(n, u->src[i], times, copies, &here);
}

tg_nest_loop tg_nest_read_loop(tg_nest *n, const tg_uop *end) {
  tg_nest_loop l = {.end = end, .range = end->src[0], .name = tg_axis_name(&n->s, end->src[0]),
                    .extent = tg_iterations(end->src[0]), .extent_text = extent_text(n, end->src[0])};
  tg_nest_axis a = tg_nest_axis_of(n, l.name);
  l.parallel = a.parallel;
  l.lockstep = a.lockstep;
  l.members = a.members;
  l.base = tg_nest_base(n, l.name);
  return l;
}

void tg_nest_read(tg_nest *n, const tg_uop *top) {
  n->top = top;
  n->depth = n->stores.n = n->loads.n = n->reductions.n = 0;
  n->work = 0;
  n->lanes = n->l->target->vector_bytes;
  n->registers = n->l->target->vector_registers;
  n->threads = true;
  n->copies = 1;
  read_statements(n, top, 1, 1, NULL);
  for (const tg_uop *u = top; u->op == TG_OP_END && n->depth < NEST_MAX; u = u->src[1]) {
    n->loop[n->depth++] = tg_nest_read_loop(n, u);
    if (u->n != 2) break;
  }
}
