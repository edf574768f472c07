/* SPDX-License-Identifier: MIT
 * online: a maximum, and a sum of exponentials relative to it, in one pass over blocks of terms (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax"). Of the blocks so far, m is the maximum and s the sum
 * relative to it; where m grows, s is scaled.
 *
 *   C[o] = f(max(l, x[l]), sum(k, exp(x[k] - max(l, x[l]))))     online k n as b q     becomes
 *
 *   m = -inf   s = 0
 *   for b { next = max(m, max(q : n, x[b*n + q]))
 *           s = s * where(m == next, 1, exp(m - next)) + sum(q : n, exp(x[b*n + q] - next))
 *           m = next }
 *   C[o] = f(m, s)
 *
 * While a block has nothing but -inf, 0 stands for its maximum, so that its terms are 0 and no NaN. Of a row that has
 * nothing else the sum is what the author's is: one of the terms there. Both reductions are replaced, wherever the
 * nest has them. This changes the order of operations, and scales what was summed: results are within the error bound
 * of the sum, with a factor more for each block.
 *
 * Or a sum, and one of squares of what lies about the mean that follows from it (Chan, Golub and LeVeque, "Updating
 * formulae and a pairwise algorithm for computing sample variances"): of each block both are found about its own mean,
 * and where the means of a block and of those before it differ, the squares of that are added.
 *
 *   C[o] = f(sum(l, x[l]), sum(k, (x[k] - sum(l, x[l])/K)^2))
 *
 *   s = 0   v = 0
 *   for b { next = sum(q : n, x[b*n + q])
 *           v = v + sum(q : n, (x[b*n + q] - next/n)^2) + (next/n - s/max(b*n, 1))^2 * (b*n * n / (b*n + n))
 *           s = s + next }
 *   C[o] = f(s, v) */
#include <math.h>
#include "schedule/opt.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_site *site;
  /* REDUCEs: the sum, and what its terms are relative to: the maximum, or the sum whose mean is (squares) */
  const tg_uop *sum, *maximum;
  bool squares;
  const tg_uop *k, *l;               /* their ranges */
  const tg_uop *inside;              /* range of the loop whose statements have them; NULL: the program's */
  const tg_uop *m, *next, *s_;       /* DEFINEs: of what the terms are relative to, that with this block, of the sum */
  const tg_uop *block, *of_max, *of_sum;   /* new ranges */
  const tg_uop *ahead;               /* terms that the first block has in front of the first; NULL: none */
} online;

TG_NORETURN static void refuse(const online *x, const char *why) {
  tg_fail_at(x->s->j, x->o->pos, "online %s: %s", x->o->names[0], why);
}

static bool plain_reduce(const tg_uop *u, tg_op op) {
  tg_reduce_arg a = tg_reduce_info(u);
  return !a.generic && !a.in_order && a.op == op && a.ranges == 1 && tg_is_float(u->type);
}

/* What the exponential is relative to: the maximum, or that with 0 for -inf. */
static bool is_relative(const tg_uop *u, const tg_uop *maximum) {
  if (u == maximum) return true;
  return u->op == TG_OP_WHERE && u->src[2] == maximum && u->src[1]->op == TG_OP_CONST && !u->src[1]->arg &&
         u->src[0]->op == TG_OP_EQ && (u->src[0]->src[0] == maximum || u->src[0]->src[1] == maximum);
}

static bool is_number(const tg_uop *u, double v) { return u->op == TG_OP_CONST && tg_const_value(u) == v; }

/* Is it the mean: the sum by the number of terms, or times one by that? */
static bool is_mean(const online *x, const tg_uop *u) {
  const tg_uop *n = tg_extent(x->l), *by = u->n == 2 ? u->src[u->src[0] == x->maximum] : NULL;
  if (u->type != TG_F32 || !by || (u->src[0] != x->maximum && u->src[1] != x->maximum)) return false;
  if (u->op == TG_OP_MUL) return n->op == TG_OP_CONST && is_number(by, (double)(1 / (float)n->arg));
  if (u->op != TG_OP_FDIV || u->src[0] != x->maximum) return false;
  return n->op == TG_OP_CONST ? is_number(by, (double)(float)n->arg) : by->op == TG_OP_CAST && by->src[0] == n;
}

/* What the sum is of: exp or exp2 of a difference, or the square of one. Returns the difference. */
static const tg_uop *difference_of(online *x) {
  const tg_uop *e = x->sum->src[0], *d = e->src[0];
  if (d->op != TG_OP_SUB) return NULL;
  if (!x->squares) return (e->op == TG_OP_EXP || e->op == TG_OP_EXP2) && is_relative(d->src[1], x->maximum) ? d : NULL;
  return e->op == TG_OP_MUL && e->src[1] == d && is_mean(x, d->src[1]) ? d : NULL;
}

/* The difference: of what the maximum, or the other sum, is of, and of that. */
static void find_parts(online *x) {
  tg_job *j = x->s->j;
  uint32_t n, found = 0;
  const tg_uop *d;
  const tg_uop **order = tg_toposort(j, x->sum->src[0], &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE) x->maximum = order[i], found++;
  x->squares = found == 1 && plain_reduce(x->maximum, TG_OP_ADD);
  if (found != 1 || !plain_reduce(x->maximum, x->squares ? TG_OP_ADD : TG_OP_MAX) || tg_uses(j, x->maximum, x->k))
    refuse(x, "its terms are not relative to one maximum");
  x->l = tg_reduce_ranges(x->maximum)[0];
  if (!(d = difference_of(x)))
    refuse(x, x->squares ? "its terms are not squares of what lies about the mean"
                         : "its terms are not exponentials of what lies below the maximum");
  const tg_uop *of = tg_substitute(j, x->maximum->src[0], 1, &x->l, &x->k);
  if (of != d->src[0] || tg_extent(x->l) != tg_extent(x->k))
    refuse(x, x->squares ? "the mean is of other terms" : "the maximum is of other terms");
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_info(j, order[i]->src[0])->role != TG_ROLE_IN)
      refuse(x, "its terms are read from what the kernel stores");
}

/* The innermost loop around that the terms depend on. */
static void find_inside(online *x) {
  tg_schedule *s = x->s;
  for (uint32_t p = x->site->parent; p != UINT32_MAX && !x->inside; p = s->sites.data[p].parent)
    if (tg_uses(s->j, x->sum, s->sites.data[p].range)) x->inside = s->sites.data[p].range;
}

static void find_ahead(online *x) {
  const tg_opt *o = x->o;
  if (!o->number[1]) return;
  if (o->number[0] % o->number[1]) refuse(x, "its blocks are no multiples of what they begin at");
  const tg_uop *e = tg_index_around(x->s, o, "online", x->site);
  x->ahead = tg_simplified(x->s, tg_op2(x->s->j, TG_OP_MOD, e, tg_index(x->s->j, o->number[1])));
  if (tg_is_const(x->ahead, 0)) x->ahead = NULL;
}

static const tg_uop *scalar(online *x, const char *part) {
  tg_job *j = x->s->j;
  tg_buffer info = {.name = tg_format(&j->env, "%s.%s", tg_buffer_info(j, x->site->store->src[0])->name, part),
                    .space = TG_SPACE_REG,
                    .type = x->sum->type,
                    .pos = x->o->pos};
  return tg_define(j, info, 1, NULL, NULL, true);
}

static const tg_uop *load(online *x, const tg_uop *define) { return tg_load(x->s->j, define, NULL, NULL, NULL, 0); }

static void store(online *x, const tg_uop *define, const tg_uop *value, tg_statements *out) {
  const tg_uop *u = tg_store(x->s->j, define, NULL, value, NULL, 0);
  tg_set_pos(x->s->j, u, tg_get_pos(x->s->j, x->site->store));
  tg_push(&x->s->j->env, out, u);
}

/* The reduction over a block: `to` instead of its range. */
static const tg_uop *of_block(online *x, const tg_uop *reduce, const tg_uop *from, const tg_uop *to,
                              const tg_uop *term) {
  tg_job *j = x->s->j;
  const tg_uop *value = tg_idx_add(j, tg_idx_mul(j, x->block, x->o->number[0]), to), *extent = tg_extent(from);
  const tg_uop *cond = NULL;
  if (x->ahead) {
    cond = tg_and(j, tg_op2(j, TG_OP_LE, x->ahead, value), tg_op2(j, TG_OP_LT, value, tg_idx_add(j, extent, x->ahead)));
    value = tg_idx_sub(j, value, x->ahead);
  } else if (!tg_divides(j, x->o->number[0], extent)) cond = tg_op2(j, TG_OP_LT, value, extent);
  term = tg_gated_substitute(x->s, term, from, value, cond, NULL);
  if (cond) term = tg_op3(j, TG_OP_WHERE, cond, term, tg_identity(j, tg_reduce_info(reduce).op, reduce->type));
  return tg_reduce_like(j, reduce, &term, 1, &to);
}

static const tg_uop *below(online *x) { return tg_const_float(x->s->j, x->sum->type, -INFINITY); }

/* The maximum so far, 0 where there is none yet. */
static const tg_uop *reached(online *x, const tg_uop *m) {
  tg_job *j = x->s->j;
  return tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, m, below(x)), tg_zero(j, x->sum->type), m);
}

/* The statements of a block, of sums and of squares. */
static void put_squares(online *x, tg_statements *body) {
  tg_job *j = x->s->j;
  const int64_t n = x->o->number[0];
  tg_type t = x->sum->type;
  const tg_uop *before = tg_idx_mul(j, x->block, n), *extent = tg_extent(x->k), *own = tg_index(j, n), *w, *between;
  if (x->ahead) {   /* the first block has fewer, and the last may have none */
    const tg_uop *end = tg_op2(j, TG_OP_MIN, tg_idx_sub(j, tg_idx_add(j, before, own), x->ahead), extent);
    before = tg_op2(j, TG_OP_MAX, tg_idx_sub(j, before, x->ahead), tg_index(j, 0));
    before = tg_op2(j, TG_OP_MIN, before, extent);
    own = tg_idx_sub(j, end, before);
  } else if (!tg_divides(j, n, extent)) own = tg_op2(j, TG_OP_MIN, own, tg_op2(j, TG_OP_SUB, extent, before));
  const tg_uop *so_far = tg_cast(j, t, before), *here = tg_cast(j, t, own), *next = load(x, x->next),
               *some = x->ahead ? tg_cast(j, t, tg_op2(j, TG_OP_MAX, own, tg_index(j, 1))) : here,
               *mean = tg_op2(j, TG_OP_FDIV, next, some), *d = x->sum->src[0]->src[0];
  d = tg_op2(j, TG_OP_SUB, d->src[0], mean);
  store(x, x->next, of_block(x, x->maximum, x->l, x->of_max, x->maximum->src[0]), body);
  between = tg_cast(j, t, tg_op2(j, TG_OP_MAX, before, tg_index(j, 1)));
  between = tg_op2(j, TG_OP_SUB, mean, tg_op2(j, TG_OP_FDIV, load(x, x->m), between));
  w = tg_op2(j, TG_OP_FDIV, tg_op2(j, TG_OP_MUL, so_far, here), tg_op2(j, TG_OP_ADD, so_far, here));
  between = tg_op2(j, TG_OP_MUL, tg_op2(j, TG_OP_MUL, between, between), w);
  store(x, x->s_, tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_ADD, load(x, x->s_), between),
                         of_block(x, x->sum, x->k, x->of_sum, tg_op2(j, TG_OP_MUL, d, d))), body);
  store(x, x->m, tg_op2(j, TG_OP_ADD, load(x, x->m), next), body);
}

/* The statements of a block, of a maximum and of exponentials. */
static void put_exponentials(online *x, tg_statements *body) {
  tg_job *j = x->s->j;
  const tg_uop *sum = load(x, x->s_), *m = load(x, x->m), *next = load(x, x->next);
  tg_op exp = x->sum->src[0]->op;
  store(x, x->next, tg_op2(j, TG_OP_MAX, m, of_block(x, x->maximum, x->l, x->of_max, x->maximum->src[0])), body);
  const tg_uop *scale = tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, m, next), tg_const_float(j, x->sum->type, 1),
                               tg_op1(j, exp, tg_op2(j, TG_OP_SUB, m, next)));
  const tg_uop *term = tg_op1(j, exp, tg_op2(j, TG_OP_SUB, x->sum->src[0]->src[0]->src[0], reached(x, next)));
  store(x, x->s_, tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, sum, scale), of_block(x, x->sum, x->k, x->of_sum, term)),
        body);
  store(x, x->m, next, body);
}

static void put_pass(online *x, tg_statements *out) {
  tg_job *j = x->s->j;
  const tg_uop *defined[] = {x->m, x->next, x->s_}, *zero = tg_zero(j, x->sum->type);
  tg_statements body = {0};
  for (size_t i = 0; i < TG_COUNT(defined); i++) tg_push(&j->env, out, defined[i]);
  store(x, x->m, x->squares ? zero : below(x), out);
  store(x, x->s_, zero, out);
  if (x->squares) put_squares(x, &body);
  else put_exponentials(x, &body);
  tg_push(&j->env, out, tg_end(j, x->block, body.n, body.data));
}

/* What stands for the sum and the maximum behind the pass. */
static const tg_uop *after(online *x, const tg_uop *statement) {
  tg_job *j = x->s->j;
  const tg_uop *m = load(x, x->m), *none = below(x), *term = x->sum->src[0], *found[2] = {load(x, x->s_), m};
  const tg_uop *from[2] = {term->src[0]->src[0], x->maximum}, *to[2] = {none, none};
  const tg_uop *empty = tg_substitute(j, term, 2, from, to);   /* one of the terms where all are -inf */
  const tg_uop *both[2] = {x->sum, x->maximum},
               *now[2] = {tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, m, none), empty, found[0]), m};
  return tg_substitute(j, statement, 2, both, x->squares ? found : now);
}

static bool has(online *x, const tg_uop *u) { return tg_uses(x->s->j, u, x->sum) || tg_uses(x->s->j, u, x->maximum); }

static void rewrite(online *x, uint32_t n, const tg_uop *const *list, tg_statements *out) {
  bool put = false;
  for (uint32_t i = 0; i < n; i++) {
    bool uses = has(x, list[i]);
    if (uses && !put) put_pass(x, out);
    put |= uses;
    tg_push(&x->s->j->env, out, uses ? after(x, list[i]) : list[i]);
  }
}

static void rewrite_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  tg_statements list = {0};
  rewrite(user, end->n - 1, end->src + 1, &list);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

/* The new ranges: of blocks, and one axis for both reductions of a block. */
static void make_ranges(online *x) {
  tg_schedule *s = x->s;
  tg_job *j = s->j;
  const tg_opt *o = x->o;
  const char *base = tg_axis_base(s, x->k), *outer = o->n > 1 ? o->names[1] : tg_format(&j->env, "%s.0", base);
  const char *inner = o->n > 2 ? o->names[2] : tg_format(&j->env, "%s.1", base);
  tg_axis_check_name(s, o, outer);
  tg_axis_check_name(s, o, inner);
  const tg_uop *size = tg_index(j, o->number[0]), *all = tg_extent(x->k);
  if (x->ahead) all = tg_idx_add(j, all, tg_index(j, o->number[1] - 1));
  x->block = tg_axis_range(s, x->k, tg_sym(j, outer), tg_idx_ceildiv(j, all, o->number[0]), TG_LOOP);
  x->of_sum = tg_axis_range(s, x->k, tg_sym(j, inner), size, TG_REDUCE);
  x->of_max = tg_axis_range(s, x->l, tg_sym(j, inner), size, TG_REDUCE);
  tg_axis_tie(s, x->of_max, x->of_sum);
}

void tg_opt_online(tg_schedule *s, const tg_opt *o) {
  online x = {.s = s, .o = o};
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  for (uint32_t i = 0; i < axis.n; i++)
    if (axis.site[i].owner->op == TG_OP_REDUCE && plain_reduce(axis.site[i].owner, TG_OP_ADD)) x.site = &axis.site[i];
  if (!x.site) refuse(&x, "it is no range of a sum of floats");
  x.sum = x.site->owner;
  x.k = tg_reduce_ranges(x.sum)[0];
  if (tg_range_kind(x.k) != TG_REDUCE && tg_range_kind(x.k) != TG_LOOP) refuse(&x, "its kind is set already");
  if (tg_bounds_of(s->j, tg_extent(x.k)).lo < 1) refuse(&x, "there may be no terms");
  find_parts(&x);
  find_inside(&x);
  find_ahead(&x);
  make_ranges(&x);
  x.m = scalar(&x, x.squares ? "sum" : "max");
  x.next = scalar(&x, "next");
  x.s_ = scalar(&x, x.squares ? "squares" : "sum");
  if (x.inside) s->sink = tg_replace_end(s, s->sink, x.inside, rewrite_loop, &x);
  else {
    tg_statements list = {0};
    rewrite(&x, s->sink->n, s->sink->src, &list);
    s->sink = tg_sink(s->j, list.n, list.data);
  }
}
