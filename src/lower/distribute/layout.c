/* SPDX-License-Identifier: MIT
 * Pass distribute: which threads run which iterations, and which elements of a REG tile each thread holds.
 *
 * Pars that index the same digit of a tile get one place, so that a thread finds its elements where it stored them. If
 * all stores of a tile have the same digits at the same threads, the tile is private: each thread holds its part in
 * registers, with those digits removed from the subscripts. A load of a digit that another lane holds becomes a
 * SHUFFLE. The subscripts that remain must be constant after unrolling. Any other tile goes to LOCAL memory, where
 * barriers keep the order. */
#include "lower/distribute/distribute.h"

/* ---- digits ---- */

bool tg_par_of(const tg_workgroup *w, const tg_uop *u, uint32_t *par) {
  if (u->op != TG_OP_RANGE) return false;
  uint32_t o = tg_range_ordinal(u);
  if (o >= w->par_of.n || !w->par_of.data[o]) return false;
  *par = w->par_of.data[o] - 1;
  return true;
}

static bool uses_par(tg_workgroup *w, const tg_uop *u) {
  uint32_t n, p;
  if (u->op == TG_OP_CONST) return false;
  if (u->op == TG_OP_RANGE) return tg_par_of(w, u, &p);
  const tg_uop **order = tg_toposort(w->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (tg_par_of(w, order[i], &p)) return true;
  return false;
}

/* Is the atom r, r / c, r % c or (r / c) % d of a par r? Sets par, step and extent of the digit. */
static bool atom_digit(tg_workgroup *w, const tg_uop *atom, tg_group_digit *d) {
  int64_t modulus = INT64_MAX;
  d->step = 1;
  if (atom->op == TG_OP_MOD && atom->src[1]->op == TG_OP_CONST && atom->src[1]->arg > 0) {
    modulus = atom->src[1]->arg;
    atom = atom->src[0];
  }
  if (atom->op == TG_OP_IDIV && atom->src[1]->op == TG_OP_CONST && atom->src[1]->arg > 0) {
    d->step = atom->src[1]->arg;
    atom = atom->src[0];
  }
  if (!tg_par_of(w, atom, &d->par)) return false;
  d->extent = (w->par.data[d->par].extent + d->step - 1) / d->step;
  if (modulus < d->extent && d->extent % modulus) return false;
  if (modulus < d->extent) d->extent = modulus;
  return true;
}

static int64_t rest_of(int64_t a, int64_t c) { return a % c + (a % c < 0 ? c : 0); }

/* Is (sum / weight) % extent decided by term `at` alone? The terms below it must add up to less than the weight, and
 * those above it must be multiples of weight * extent. */
static bool stands_alone(tg_job *j, const tg_linear *f, uint32_t at, int64_t weight, int64_t extent) {
  tg_linear low = {.n = 0};
  int64_t span;
  if (__builtin_mul_overflow(weight, extent, &span)) return false;
  for (uint32_t i = 0; i < f->n; i++) {
    if (i == at || f->coefficient[i] % span == 0) continue;
    low.atom[low.n] = f->atom[i];
    low.coefficient[low.n++] = f->coefficient[i];
  }
  low.constant = rest_of(f->constant, span);
  tg_bounds b = tg_linear_bounds(j, &low);
  return b.lo >= 0 && b.hi < weight;
}

tg_group_digits tg_digits_of(tg_workgroup *w, const tg_uop *access) {
  tg_group_digits out = {.n = 0};
  for (uint32_t dim = 0; dim < tg_access_rank(access); dim++) {
    tg_linear f;
    tg_linear_of(w->j, access->src[1 + dim], &f);
    for (uint32_t i = 0; i < f.n; i++) {
      tg_group_digit d = {.dim = dim, .weight = f.coefficient[i]};
      if (!uses_par(w, f.atom[i])) continue;
      if (out.n < TG_DIGITS && d.weight > 0 && atom_digit(w, f.atom[i], &d) &&
          stands_alone(w->j, &f, i, d.weight, d.extent))
        out.d[out.n++] = d;
      else out.irregular = true;
    }
  }
  return out;
}

/* ---- places ---- */

static uint32_t group_of(tg_workgroup *w, uint32_t par) {
  while (w->par.data[par].group != par) par = w->par.data[par].group = w->par.data[w->par.data[par].group].group;
  return par;
}

static void each_store(tg_workgroup *w, tg_group_item *at, void (*fn)(tg_workgroup *, tg_group_item *, void *),
                       void *user) {
  if (at->u && at->u->op == TG_OP_STORE) fn(w, at, user);
  for (uint32_t i = 0; i < at->list.n; i++) each_store(w, at->list.data[i], fn, user);
}

typedef struct { uint32_t a, b; bool together; } meeting;

static void see_together(tg_workgroup *w, tg_group_item *item, void *user) {
  meeting *m = user;
  bool a = false, b = false;
  for (uint32_t i = 0; i < item->n; i++) {
    a |= group_of(w, item->par[i]) == m->a;
    b |= group_of(w, item->par[i]) == m->b;
  }
  m->together |= a && b;
}

static void unite(tg_workgroup *w, uint32_t p, uint32_t q) {
  meeting m = {group_of(w, p), group_of(w, q), false};
  if (m.a == m.b || w->par.data[m.a].extent != w->par.data[m.b].extent) return;
  /* as in t[i,k] with i and k around one store: one place cannot hold both */
  each_store(w, w->body, see_together, &m);
  if (m.together) return;
  tg_par *a = &w->par.data[m.a], *b = &w->par.data[m.b];
  a->lane |= b->lane;
  a->folded |= b->folded;
  b->group = m.a;
}

/* Pars that index the same digit of a tile with their whole range share a place. */
static void unite_by_tiles(tg_workgroup *w) {
  for (uint32_t i = 0; i < w->touched.n; i++)
    for (uint32_t k = 0; k < i; k++) {
      const tg_group_touch *a = &w->touched.data[i], *b = &w->touched.data[k];
      if (tg_buffer_ordinal(a->u->src[0]) != tg_buffer_ordinal(b->u->src[0])) continue;
      for (uint32_t x = 0; x < a->digits.n; x++)
        for (uint32_t y = 0; y < b->digits.n; y++) {
          const tg_group_digit *d = &a->digits.d[x], *e = &b->digits.d[y];
          if (d->dim != e->dim || d->weight != e->weight || d->extent != e->extent || d->step != 1 || e->step != 1)
            continue;
          if (d->extent == w->par.data[d->par].extent && e->extent == w->par.data[e->par].extent)
            unite(w, d->par, e->par);
        }
    }
}

typedef struct { TG_VEC(tg_group_item *) all; } collected;

static void collect(tg_workgroup *w, tg_group_item *item, void *user) {
  collected *c = user;
  tg_push(&w->j->env, &c->all, item);
}

static int64_t iterations(const tg_workgroup *w, const tg_group_item *item) {
  int64_t n = 1;
  for (uint32_t i = 0; i < item->n; i++) n *= w->par.data[item->par[i]].extent;
  return n;
}

static int64_t power_of_two_from(int64_t v) {
  int64_t p = 1;
  while (p < v) p *= 2;
  return p;
}

static bool fits(int64_t stride, int64_t room, const tg_par *other) {
  int64_t end = stride * room, far = other->stride * other->room;
  return end <= other->stride ? other->stride % end == 0 : far <= stride && stride % far == 0;
}

static bool may_stand(tg_workgroup *w, const collected *c, uint32_t group, int64_t stride, int64_t room) {
  for (uint32_t i = 0; i < c->all.n; i++) {
    const tg_group_item *item = c->all.data[i];
    bool member = false;
    for (uint32_t k = 0; k < item->n; k++) member |= group_of(w, item->par[k]) == group;
    for (uint32_t k = 0; k < item->n && member; k++) {
      uint32_t g = group_of(w, item->par[k]);
      if (g != group && w->par.data[g].stride && !fits(stride, room, &w->par.data[g])) return false;
    }
  }
  return stride * room <= w->limit;
}

static void place_group(tg_workgroup *w, const collected *c, uint32_t group) {
  tg_par *p = &w->par.data[group];
  if (p->stride) return;
  p->room = p->lane || p->folded ? power_of_two_from(p->extent) : p->extent;
  int64_t best = 0;
  for (int64_t stride = 1; stride * p->room <= w->limit && !best; stride++)
    if (may_stand(w, c, group, stride, p->room)) best = stride;
  if (!best)
    tg_fail_at(w->j, w->j->ranges.data[tg_range_ordinal(p->range)].pos,
               "no %lld threads are left for %s: a workgroup has at most %lld", (long long)p->room,
               w->j->ranges.data[tg_range_ordinal(p->range)].name, (long long)w->limit);
  p->stride = best;
}

static void pin(tg_workgroup *w, uint32_t par, int64_t stride) {
  tg_par *p = &w->par.data[group_of(w, par)];
  if (p->stride) return;
  p->room = p->extent;
  p->stride = stride;
}

/* The lane range of a matrix instruction must be the lanes of the warp: stride 1. */
static void pin_matrices(tg_workgroup *w, tg_group_item *item, void *user) {
  uint32_t n, par;
  bool *any = user;
  const tg_uop **order = tg_toposort(w->j, item->u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_MATRIX || !tg_par_of(w, order[i]->src[3], &par)) continue;
    pin(w, par, 1);
    *any = true;
  }
}

/* If a placed par p indexes a digit of a tile with a part of itself (p / 4, say), and an unplaced par q indexes the
 * same digit with its whole range, q gets the threads of that part. */
static bool pin_by_tiles(tg_workgroup *w) {
  bool more = false;
  for (uint32_t i = 0; i < w->touched.n; i++)
    for (uint32_t k = 0; k < w->touched.n; k++) {
      const tg_group_touch *a = &w->touched.data[i], *b = &w->touched.data[k];
      if (tg_buffer_ordinal(a->u->src[0]) != tg_buffer_ordinal(b->u->src[0])) continue;
      for (uint32_t x = 0; x < a->digits.n; x++)
        for (uint32_t y = 0; y < b->digits.n; y++) {
          const tg_group_digit *d = &a->digits.d[x], *e = &b->digits.d[y];
          const tg_par *p = &w->par.data[group_of(w, d->par)], *q = &w->par.data[group_of(w, e->par)];
          if (!p->stride || q->stride || d->dim != e->dim || d->weight != e->weight || d->extent != e->extent ||
              e->step != 1 || e->extent != q->extent)
            continue;
          pin(w, e->par, p->stride * d->step);
          more = true;
        }
    }
  return more;
}

/* Order of assignment: lanes of matrix instructions; then by statement, those with most iterations first, and within
 * each the lane ranges before the local ones, the innermost range first. */
void tg_assign_places(tg_workgroup *w) {
  collected c = {{0}};
  unite_by_tiles(w);
  each_store(w, w->body, collect, &c);
  bool matrices = false;
  each_store(w, w->body, pin_matrices, &matrices);
  while (matrices && pin_by_tiles(w)) continue;
  for (uint32_t i = 1; i < c.all.n; i++)
    for (uint32_t k = i; k && iterations(w, c.all.data[k]) > iterations(w, c.all.data[k - 1]); k--) {
      tg_group_item *t = c.all.data[k];
      c.all.data[k] = c.all.data[k - 1], c.all.data[k - 1] = t;
    }
  for (uint32_t i = 0; i < c.all.n; i++)
    for (uint32_t lanes = 2; lanes-- > 0;)
      for (uint32_t k = c.all.data[i]->n; k-- > 0;) {
        uint32_t g = group_of(w, c.all.data[i]->par[k]);
        if (w->par.data[g].lane == (lanes == 1)) place_group(w, &c, g);
      }
  w->threads = 1;
  for (uint32_t i = 0; i < w->par.n; i++) {
    const tg_par *g = &w->par.data[group_of(w, i)];
    w->par.data[i].stride = g->stride;
    w->par.data[i].room = g->room;
    if (g->stride && g->stride * g->room > w->threads) w->threads = g->stride * g->room;
  }
  w->threads = (w->threads + w->lanes - 1) / w->lanes * w->lanes;
}

/* ---- layouts ---- */

static tg_group_place placed(const tg_workgroup *w, const tg_group_digit *d) {
  const tg_par *p = &w->par.data[d->par];
  bool whole = d->extent * d->step >= p->extent;
  return (tg_group_place){d->dim, d->weight, d->extent, p->stride * d->step,
                          whole && d->step == 1 ? p->room : d->extent};
}

static bool same_placed(const tg_group_place *a, const tg_group_place *b) {
  return a->dim == b->dim && a->weight == b->weight && a->extent == b->extent && a->stride == b->stride &&
         a->room == b->room;
}

static bool has(const tg_workgroup *w, const tg_group_digits *digits, const tg_group_place *d) {
  for (uint32_t i = 0; i < digits->n; i++) {
    tg_group_place p = placed(w, &digits->d[i]);
    if (same_placed(&p, d)) return true;
  }
  return false;
}

/* Will the subscript be constant once upcast and unroll ranges are expanded? */
static bool becomes_constant(tg_workgroup *w, const tg_uop *sub) {
  uint32_t n;
  const tg_uop **order = tg_toposort(w->j, sub, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_LOAD || u->op == TG_OP_PARAM) return false;
    if (u->op == TG_OP_RANGE && tg_range_kind(u) != TG_UPCAST && tg_range_kind(u) != TG_UNROLL) return false;
  }
  return true;
}

static bool stays_private(tg_workgroup *w, const tg_tile *t, const tg_group_touch *a) {
  const tg_uop *sub[16], *through;
  const tg_group_place *asked;
  if (!tg_private_subscripts(w, t, a->u, a->u->src, sub, &through, &asked)) return false;
  if (through && a->u->op == TG_OP_STORE) return false;
  for (uint32_t i = 0; i < tg_access_rank(a->u); i++)
    if (!becomes_constant(w, sub[i])) return false;
  return true;
}

/* Does each thread hold more elements than it has registers? */
static bool too_large(const tg_workgroup *w, const tg_tile *t) {
  int64_t n = t->define->lanes, held = 1, registers = w->l->target->vector_registers;
  for (uint32_t i = 0; i < t->define->n; i++)
    if (t->define->src[i]->op != TG_OP_CONST || __builtin_mul_overflow(n, t->define->src[i]->arg, &n)) return true;
  for (uint32_t k = 0; k < t->n; k++) held *= t->d[k].extent;
  return n / held > registers;
}

/* Threads that differ in a par which no digit of the subscripts names hold copies of one element. Does the gate
 * depend on such a par? Then the copies would differ. */
static bool parts_copies(tg_workgroup *w, const tg_group_touch *a) {
  const tg_uop *gate = tg_gate(a->u);
  for (uint32_t i = 0; gate && i < a->item->n; i++) {
    const tg_par *p = &w->par.data[a->item->par[i]];
    bool named = p->extent == 1;
    for (uint32_t k = 0; k < a->digits.n && !named; k++)
      named = a->digits.d[k].par == a->item->par[i] && a->digits.d[k].step == 1 && a->digits.d[k].extent == p->extent;
    if (!named && tg_uses(w->j, gate, p->range)) return true;
  }
  return false;
}

/* `place memory`: the memory of a workgroup is LOCAL. */
static bool memory_asked(const tg_workgroup *w, const tg_tile *t) {
  return tg_buffer_info(w->j, t->define)->demand == TG_PLACE_MEMORY;
}

void tg_assign_layouts(tg_workgroup *w) {
  /* a tile stays private if all its stores have the same digits at the same threads */
  for (uint32_t i = 0; i < w->touched.n; i++) {
    const tg_group_touch *a = &w->touched.data[i];
    tg_tile *t = tg_tile_of(w, a->u->src[0]);
    if (a->u->op != TG_OP_STORE) continue;
    t->shared |= memory_asked(w, t) || a->digits.irregular || parts_copies(w, a);
    if (!t->stored) {
      for (uint32_t k = 0; k < a->digits.n; k++) t->d[t->n++] = placed(w, &a->digits.d[k]);
      t->stored = true;
    }
    if (t->n != a->digits.n) t->shared = true;
    for (uint32_t k = 0; k < t->n && !t->shared; k++) t->shared = !has(w, &a->digits, &t->d[k]);
  }
  for (uint32_t i = 0; i < w->touched.n; i++) {
    const tg_group_touch *a = &w->touched.data[i];
    tg_tile *t = tg_tile_of(w, a->u->src[0]);
    if (!t->shared && (too_large(w, t) || !stays_private(w, t, a))) t->shared = true;
  }
}

/* ---- accesses of a private tile ---- */

/* Removes the digit from the subscript: the terms above it are divided by its extent. own: index of the digit's
 * term, -1: the subscript has none. */
static void drop_digit(tg_linear *f, const tg_group_place *d, int own) {
  int64_t span = d->weight * d->extent, low = rest_of(f->constant, span);
  f->constant = (f->constant - low) / d->extent + low;
  if (own >= 0) {
    f->n--;
    memmove(f->atom + own, f->atom + own + 1, (f->n - (uint32_t)own) * sizeof *f->atom);
    memmove(f->coefficient + own, f->coefficient + own + 1, (f->n - (uint32_t)own) * sizeof *f->coefficient);
  }
  for (uint32_t i = 0; i < f->n; i++)
    if (f->coefficient[i] % span == 0) f->coefficient[i] /= d->extent;
}

static int own_term(tg_workgroup *w, const tg_linear *f, const tg_group_place *d) {
  for (uint32_t i = 0; i < f->n; i++) {
    tg_group_digit e = {.dim = d->dim, .weight = f->coefficient[i]};
    if (f->coefficient[i] != d->weight || !uses_par(w, f->atom[i]) || !atom_digit(w, f->atom[i], &e)) continue;
    tg_group_place p = placed(w, &e);
    if (same_placed(&p, d) && stands_alone(w->j, f, i, d->weight, d->extent)) return (int)i;
  }
  return -1;
}

/* x / c, a constant if x's bounds decide it. */
static const tg_uop *quotient(tg_job *j, const tg_uop *x, int64_t c) {
  tg_bounds b = tg_bounds_of(j, x);
  if (b.lo > -TG_INF && b.hi < TG_INF && tg_floor_div(b.lo, c) == tg_floor_div(b.hi, c))
    return tg_index(j, (int64_t)tg_floor_div(b.lo, c));
  return tg_fold2(j, TG_OP_IDIV, x, tg_index(j, c));
}

/* The lane that holds x's digit d, if it is in the same warp: this lane's number with its own digit replaced. Leaves
 * x without the digit. False: another warp may hold it, or a SHUFFLE is needed already. */
static bool ask_lane(tg_workgroup *w, const tg_group_place *d, const tg_uop **x, const tg_uop **through) {
  tg_job *j = w->j;
  if (*through || d->stride * d->room > w->lanes || w->lanes % (d->stride * d->room)) return false;
  const tg_uop *weight = tg_index(j, d->weight), *wanted = d->weight == 1 ? *x : quotient(j, *x, d->weight);
  if (!tg_is_const(quotient(j, wanted, d->extent), 0)) wanted = tg_fold2(j, TG_OP_MOD, wanted, tg_index(j, d->extent));
  const tg_uop *own = tg_thread_digit(w, d->stride, d->room), *stride = tg_index(j, d->stride);
  *through = tg_fold2(j, TG_OP_ADD, tg_op2(j, TG_OP_SUB, w->lane, tg_fold2(j, TG_OP_MUL, own, stride)),
                      tg_fold2(j, TG_OP_MUL, wanted, stride));
  const tg_uop *low = d->weight == 1 ? tg_index(j, 0) : tg_fold2(j, TG_OP_MOD, *x, weight);
  *x = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_MUL, quotient(j, *x, d->weight * d->extent), weight), low);
  return true;
}

bool tg_private_subscripts(tg_workgroup *w, const tg_tile *t, const tg_uop *access, const tg_uop *const *src,
                           const tg_uop **sub, const tg_uop **through, const tg_group_place **asked) {
  tg_job *j = w->j;
  *through = NULL;
  *asked = NULL;
  for (uint32_t dim = 0; dim < tg_access_rank(access); dim++) {
    const tg_uop *x = src[1 + dim];
    bool done[TG_DIGITS] = {false};
    for (;;) {   /* the digit of the largest weight first */
      int at = -1;
      for (uint32_t k = 0; k < t->n; k++)
        if (t->d[k].dim == dim && !done[k] && (at < 0 || t->d[k].weight > t->d[at].weight)) at = (int)k;
      if (at < 0) break;
      done[at] = true;
      tg_linear f;
      tg_linear_of(j, x, &f);
      int own = own_term(w, &f, &t->d[at]);
      if (own >= 0) {
        drop_digit(&f, &t->d[at], own);
        x = tg_linear_build(j, &f);
      } else if (!ask_lane(w, &t->d[at], &x, through)) return false;
      else *asked = &t->d[at];
    }
    if (uses_par(w, x)) return false;
    sub[dim] = x;
  }
  return true;
}

/* Does cond have the same value in all lanes that differ only in the digit? */
static bool agrees(tg_workgroup *w, const tg_uop *cond, const tg_group_place *d) {
  uint32_t n, par;
  const tg_uop **order = tg_toposort(w->j, cond, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_SHUFFLE) return false;
    if (order[i] == w->lane || order[i] == w->warp) return false;
    if (!tg_par_of(w, order[i], &par)) continue;
    const tg_par *p = &w->par.data[par];
    if (p->stride * p->room > d->stride && p->stride < d->stride * d->room) return false;
  }
  return true;
}

const tg_uop *tg_agreed_gate(tg_workgroup *w, const tg_uop *gate, const tg_group_place *d) {
  const tg_uop *left = NULL, *stack[32] = {gate};
  uint32_t n = gate ? 1 : 0;
  while (n) {
    const tg_uop *c = stack[--n];
    if (c->op == TG_OP_AND && c->type == TG_BOOL && n + 2 <= TG_COUNT(stack)) {
      stack[n++] = c->src[1];
      stack[n++] = c->src[0];
    } else if (agrees(w, c, d)) left = tg_and(w->j, left, c);
  }
  return left;
}
