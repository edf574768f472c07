/* SPDX-License-Identifier: MIT
 * Pass reduce: sums of products of bytes become dot products of neighbours, where the target's table has an instruction
 * for one (a row of one lane, one row and one column). Four terms that are next to each other in memory are one
 * instruction:
 *
 *   sum(k : 16, i32(a[k]) * i32(b[k]))    sum(k : 4, matrix(dp4a.s8, a[k*4 + iota(4)], b[k*4 + iota(4)], 0, 1))
 *
 * Integers wrap at 32 bits in both, so the sum is the same in any order. Of `(i32(a[k]) + c) * i32(b[k])`, as weights
 * have it that are stored without a sign, c times the sum of b is a dot product of its own, with a constant. Where
 * terms are written out it is a sum of its own, which those results of a thread share that share b. Pass fma makes the
 * addition of such a product to a sum part of the instruction.
 *
 * Where several terms share a byte, as two weights of four bits do, an instruction takes one of each of four bytes, so
 * that these are loaded, shifted and masked as one word; the other factor's bytes are picked to match:
 *
 *   sum(k : 8, i32(q[k/2] >> u8(k%2*4) & 15) * i32(b[k]))
 *     q   bytes 0 1 2 3   =   weights 0,1  2,3  4,5  6,7
 *     dot(q & 15, b[0,2,4,6]) + dot(q >> 4 & 15, b[1,3,5,7]) */
#include "lower/sweep.h"
#include "target/matrix.h"

enum { RANGES = 8, PARTS = 2, MOST_SHARED = 8 /* terms of a byte */, MOST_GATES = 8 };

typedef struct {
  tg_job *j;
  const tg_target *target;
} state;

/* A factor as i32(bytes) + added; bytes NULL: it is another one. share: terms that have a byte in memory together. */
typedef struct {
  const tg_uop *bytes;
  int64_t added;
  uint32_t share;
} factor;

static bool is_byte(tg_type t) { return t == TG_I8 || t == TG_U8; }

static factor factor_of(const tg_uop *u) {
  factor f = {.added = 0};
  if (u->op == TG_OP_ADD && u->src[1]->op == TG_OP_CONST) f.added = u->src[1]->arg, u = u->src[0];
  if (u->op == TG_OP_CAST && u->type == TG_I32 && is_byte(u->src[0]->type)) f.bytes = u->src[0];
  return f;
}

/* Do the loads of the factor lie side by side along the range, or along the quotient of it by a number? At least one
 * must depend on it. */
static bool lies_along(tg_job *j, factor *f, const tg_uop *range) {
  uint32_t n, loads = 0;
  const tg_uop **order = tg_toposort(j, f->bytes, &n);
  f->share = 1;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *load = order[i];
    if (load->op == TG_OP_REDUCE) return false;
    if (load->op != TG_OP_LOAD || !tg_uses(j, load, range)) continue;
    uint32_t rank = tg_access_rank(load), share = 1;
    tg_linear t;
    if (!rank) return false;
    for (uint32_t d = 0; d + 1 < rank; d++)
      if (tg_uses(j, load->src[1 + d], range)) return false;
    tg_linear_of(j, load->src[rank], &t);
    for (uint32_t k = 0; k < t.n; k++) {
      const tg_uop *x = t.atom[k];
      if (!tg_uses(j, x, range)) continue;
      bool quotient = x->op == TG_OP_IDIV && x->src[0] == range && x->src[1]->op == TG_OP_CONST;
      if ((x != range && !quotient) || t.coefficient[k] != 1) return false;
      if (quotient && (x->src[1]->arg < 2 || x->src[1]->arg > MOST_SHARED)) return false;
      if (quotient) share = (uint32_t)x->src[1]->arg;
    }
    if (loads++ && share != f->share) return false;
    f->share = share;
  }
  return loads > 0;
}

/* Is each gate of the factor's loads the same for `terms` neighbours along the range, which begin at a multiple? */
static bool gates_whole(tg_job *j, const factor *f, const tg_uop *range, uint32_t terms) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, f->bytes, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *gate = order[i]->op == TG_OP_LOAD ? tg_gate(order[i]) : NULL;
    tg_linear t;
    if (!gate || !tg_uses(j, gate, range)) continue;
    if (gate->op != TG_OP_LT || gate->src[1]->op != TG_OP_CONST || gate->src[1]->arg % terms) return false;
    tg_linear_of(j, gate->src[0], &t);
    if (t.constant % terms) return false;
    for (uint32_t k = 0; k < t.n; k++)
      if (t.atom[k] == range ? t.coefficient[k] != 1
                             : t.coefficient[k] % terms || tg_uses(j, t.atom[k], range)) return false;
  }
  return true;
}

/* The factor's bytes with gates as the first of the neighbours has them. */
static const tg_uop *gated_at(tg_job *j, const tg_uop *bytes, const tg_uop *range, const tg_uop *first) {
  uint32_t n, found = 0;
  const tg_uop **order = tg_toposort(j, bytes, &n), *from[MOST_GATES], *to[MOST_GATES];
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *load = order[i], *gate = load->op == TG_OP_LOAD ? tg_gate(load) : NULL;
    if (!gate || !tg_uses(j, gate, range)) continue;
    if (found == MOST_GATES) return NULL;
    from[found] = load;
    to[found++] = tg_load(j, load->src[0], load->src + 1, tg_substitute(j, gate, 1, &range, &first),
                          tg_alternative(load), load->arg & ~(int64_t)TG_GATED);
  }
  return found ? tg_substitute(j, bytes, found, from, to) : bytes;
}

/* The instruction; turned: it takes the operands the other way round. */
static const tg_matrix_row *row_for(const tg_target *t, tg_type a, tg_type b, bool *turned) {
  const tg_matrix_row *r;
  for (uint32_t i = 0; (r = tg_matrix_at(i)); i++) {
    if (r->m != 1 || r->n != 1 || r->c_type != TG_I32 || !tg_matrix_on(r, t)) continue;
    *turned = r->a_type != a || r->b_type != b;
    if (!*turned || (r->a_type == b && r->b_type == a)) return r;
  }
  return NULL;
}

/* Bytes without a sign that are never above 127 are the same with one: for targets that take none beside signed
 * ones. */
static void with_signs(const state *s, factor *f) {
  bool turned;
  if (row_for(s->target, f[0].bytes->type, f[1].bytes->type, &turned)) return;
  for (uint32_t i = 0; i < PARTS; i++)
    if (f[i].bytes->type == TG_U8 && tg_bounds_of(s->j, f[i].bytes).hi <= 127)
      f[i].bytes = tg_bitcast(s->j, TG_I8, f[i].bytes);
}

/* A range of the sum whose neighbours instructions of k terms take, `share` of them at a time. */
static const tg_uop *range_for(tg_job *j, const tg_uop *reduce, factor *f, uint32_t k, uint32_t *share) {
  for (uint32_t i = tg_reduce_info(reduce).ranges; i-- > 0;) {
    const tg_uop *r = tg_reduce_ranges(reduce)[i];
    tg_kind kind = tg_range_kind(r);
    if (kind != TG_UPCAST && kind != TG_UNROLL && kind != TG_REDUCE && kind != TG_LOOP) continue;
    if (tg_extent(r)->op != TG_OP_CONST) continue;
    bool used = false;   /* by the extent of another range */
    for (uint32_t o = 0; o < tg_reduce_info(reduce).ranges; o++)
      used |= tg_uses(j, tg_extent(tg_reduce_ranges(reduce)[o]), r);
    if (used || !lies_along(j, &f[0], r) || !lies_along(j, &f[1], r)) continue;
    *share = f[0].share > f[1].share ? f[0].share : f[1].share;
    for (uint32_t w = 0; w < PARTS; w++)
      if (f[w].share != 1 && f[w].share != *share) *share = 0;
    if (!*share || !tg_extent(r)->arg || tg_extent(r)->arg % (k * *share)) continue;
    if (gates_whole(j, &f[0], r, k * *share) && gates_whole(j, &f[1], r, k * *share)) return r;
  }
  return NULL;
}

static const tg_uop *dot(const state *s, const tg_matrix_row *row, bool turned, const tg_uop *a, const tg_uop *b,
                         const tg_uop *c) {
  tg_job *j = s->j;
  return tg_matrix(j, row->name, turned ? b : a, turned ? a : b, c, tg_index(j, 1));
}

/* c + added * sum(bytes), likewise: the constant as bytes of either sign. NULL: there is no such instruction. */
static const tg_uop *constant_part(const state *s, int64_t added, const tg_uop *bytes, const tg_uop *c) {
  bool turned;
  for (tg_type t = TG_I8; t <= TG_U8; t++) {
    if (!is_byte(t) || (t == TG_I8 ? added < -128 || added > 127 : added < 0 || added > 255)) continue;
    const tg_matrix_row *row = row_for(s->target, t, bytes->type, &turned);
    if (row) return dot(s, row, turned, tg_const_int(s->j, t, added), bytes, c);
  }
  return NULL;
}

/* A sum of products of neighbours, and of what constants in the factors add to it, of which a thread's own results may
 * share the latter. */
typedef struct { const tg_uop *dots, *constants; } sums;

/* More of both, from the factors as vectors; not apart: all of it to the first. False: the table lacks an
 * instruction. */
static bool add_product(const state *s, const factor *f, sums *c, bool apart) {
  tg_job *j = s->j;
  bool turned;
  const tg_matrix_row *row = row_for(s->target, f[0].bytes->type, f[1].bytes->type, &turned);
  const tg_uop **constants = apart ? &c->constants : &c->dots;
  if (f[0].added && f[1].added) {
    int64_t both = (int64_t)row->k * f[0].added * f[1].added;
    *constants = tg_op2(j, TG_OP_ADD, *constants, tg_const_int(j, TG_I32, both));
  }
  c->dots = dot(s, row, turned, f[0].bytes, f[1].bytes, c->dots);
  for (uint32_t i = 0; i < PARTS && *constants; i++)
    if (f[i].added) *constants = constant_part(s, f[i].added, f[!i].bytes, *constants);
  return *constants;
}

/* Are all terms of the sum a thread's own, without a loop? */
static bool is_written_out(const tg_uop *reduce) {
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++)
    if (tg_range_kind(tg_reduce_ranges(reduce)[i]) != TG_UNROLL) return false;
  return true;
}

/* The factor's bytes of which an instruction takes k: those at `which` of each `share` terms. NULL: too many gates. */
static const tg_uop *picked(tg_job *j, const factor *f, const tg_uop *range, const tg_uop *own, uint32_t k,
                            uint32_t share, uint32_t which) {
  bool apart = share > 1 && f->share == 1;
  const tg_uop *first = tg_fold2(j, TG_OP_MUL, own, tg_index(j, k * share)), *iota, *at;
  const tg_uop *bytes = gated_at(j, f->bytes, range, first);
  if (!bytes) return NULL;
  iota = tg_iota(j, TG_INDEX, apart ? k * share : k);
  if (share > 1 && !apart) {
    iota = tg_op2(j, TG_OP_MUL, iota, tg_index(j, share));
    first = tg_fold2(j, TG_OP_ADD, first, tg_index(j, which));
  }
  at = tg_op2(j, TG_OP_ADD, first, iota);
  const tg_uop *v = tg_substitute(j, bytes, 1, &range, &at);
  if (!apart) return v;
  at = tg_op2(j, TG_OP_MUL, tg_iota(j, TG_INDEX, k), tg_index(j, share));
  at = tg_fold2(j, TG_OP_ADD, at, tg_index(j, which));
  return tg_shuffle(j, v, tg_index(j, k * share), at);
}

static const tg_uop *with_dots(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const state *s = user;
  if (old->op != TG_OP_REDUCE || old->type != TG_I32) return NULL;
  const tg_uop *reduce = tg_with_sources(j, old, src), *value = reduce->src[0], *ranges[RANGES];
  tg_reduce_arg a = tg_reduce_info(reduce);
  bool turned;
  if (a.generic || a.op != TG_OP_ADD || a.ranges > RANGES || value->op != TG_OP_MUL || value->lanes != 1) return reduce;
  factor f[PARTS] = {factor_of(value->src[0]), factor_of(value->src[1])};
  if (!f[0].bytes || !f[1].bytes) return reduce;
  with_signs(s, f);
  const tg_matrix_row *row = row_for(s->target, f[0].bytes->type, f[1].bytes->type, &turned);
  uint32_t share = 1;
  const tg_uop *range = row ? range_for(j, reduce, f, row->k, &share) : NULL;
  const tg_uop *zero = tg_const_int(j, TG_I32, 0);
  sums sum = {zero, zero};
  if (!range) return reduce;
  const tg_range_info *info = &j->ranges.data[tg_range_ordinal(range)];
  const tg_uop *own = tg_range_new(j, info->name, tg_index(j, tg_extent(range)->arg / (row->k * share)),
                                   tg_range_kind(range), info->from, info->pos);
  bool apart = is_written_out(reduce);
  for (uint32_t which = 0; which < share; which++) {
    factor some[PARTS] = {f[0], f[1]};
    for (uint32_t i = 0; i < PARTS; i++)
      if (!(some[i].bytes = picked(j, &f[i], range, own, row->k, share, which))) return reduce;
    if (!add_product(s, some, &sum, apart)) return reduce;
  }
  for (uint32_t i = 0; i < a.ranges; i++)
    ranges[i] = tg_reduce_ranges(reduce)[i] == range ? own : tg_reduce_ranges(reduce)[i];
  const tg_uop *dots = tg_reduce_like(j, reduce, &sum.dots, a.ranges, ranges);
  if (!apart || sum.constants == zero) return dots;
  return tg_op2(j, TG_OP_ADD, tg_reduce_like(j, reduce, &sum.constants, a.ranges, ranges), dots);
}

const tg_uop *tg_dot_products(tg_job *j, const tg_target *t, const tg_uop *sink) {
  state s = {j, t};
  bool any = false, turned;
  for (int i = 0; i < 4 && t && !any; i++)
    any = row_for(t, i & 1 ? TG_I8 : TG_U8, i & 2 ? TG_I8 : TG_U8, &turned) != NULL;
  return any ? tg_sweep_map(j, sink, with_dots, &s) : sink;
}
