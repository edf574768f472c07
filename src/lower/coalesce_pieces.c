/* SPDX-License-Identifier: MIT
 * Part of pass coalesce: what a lane of a matrix instruction takes from one piece of memory in another order than it
 * lies there, or several times, as two weights of four bits have one byte. A gather would be a load for each register;
 * here the piece, a power of two of elements up to 16 bytes, is loaded as a whole, and a SHUFFLE picks the registers:
 *
 *   q[.. + iota(8) / 2 % 2 * 8, 4 b + iota(8) % 2 * 2 + 1]        two rows, bytes 1 and 3 of a word each, twice
 *   shuffle(q[.. + iota(8) / 4 * 8, 4 b + iota(8) % 4], 8, iota(8) / 2 % 2 * 4 + iota(8) % 2 * 2 + 1)
 *
 * Registers that another instruction takes from the same piece find it loaded. The piece must lie within a row of the
 * buffer for certain, so its bytes may be read. */
#include "lower/sweep.h"

enum { PIECE = 16 /* bytes, at most */, WORD = 4, MOST_REGISTERS = 32, RANK = 16 };

/* A subscript as a scalar and what each register adds to it. */
typedef struct { const tg_uop *scalar; int64_t at[MOST_REGISTERS]; } parts;

static bool value_at(const tg_uop *u, int64_t r, int64_t *v) {
  int64_t a, b;
  if (u->op == TG_OP_CONST || u->op == TG_OP_IOTA) return *v = u->op == TG_OP_CONST ? u->arg : r, true;
  if (u->n != 2 || !value_at(u->src[0], r, &a) || !value_at(u->src[1], r, &b) || a < 0 || b < 0) return false;
  switch (u->op) {
  case TG_OP_ADD: return !__builtin_add_overflow(a, b, v);
  case TG_OP_MUL: return !__builtin_mul_overflow(a, b, v);
  case TG_OP_IDIV: return b && (*v = a / b, true);
  case TG_OP_MOD: return b && (*v = a % b, true);
  default: return false;
  }
}

static bool divide(tg_job *j, const tg_uop *sub, uint32_t registers, parts *p) {
  tg_linear t;
  tg_linear_of(j, sub, &t);
  *p = (parts){.scalar = tg_index(j, t.constant)};
  for (uint32_t i = 0; i < t.n; i++) {
    if (t.atom[i]->lanes == 1) {
      p->scalar = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_MUL, t.atom[i], tg_index(j, t.coefficient[i])), p->scalar);
      continue;
    }
    for (uint32_t r = 0; r < registers; r++) {
      int64_t v;
      if (!value_at(t.atom[i], (int64_t)r, &v) || __builtin_mul_overflow(v, t.coefficient[i], &v) ||
          __builtin_add_overflow(p->at[r], v, &p->at[r]))
        return false;
    }
  }
  return true;
}

/* The pieces of a load: register r takes element `in[r]` of piece `of[r]`, which is r / stride % pieces. */
typedef struct { uint32_t of[MOST_REGISTERS], in[MOST_REGISTERS], pieces, stride, elements; } pieces;

static bool same_row(const parts *p, uint32_t rank, uint32_t a, uint32_t b) {
  for (uint32_t d = 0; d + 1 < rank; d++)
    if (p[d].at[a] != p[d].at[b]) return false;
  return true;
}

/* Is every row of registers in one piece of so many elements? */
static bool divide_into(pieces *x, const parts *p, uint32_t rank, uint32_t registers, int64_t start) {
  uint32_t first[MOST_REGISTERS];
  const int64_t *last = p[rank - 1].at, n = x->elements;
  x->pieces = 0;
  for (uint32_t r = 0; r < registers; r++) {
    int64_t at = start + last[r];
    uint32_t k = 0;
    while (k < x->pieces && !same_row(p, rank, first[k], r)) k++;
    if (k == x->pieces) first[x->pieces++] = r;
    if (at < 0 || at / n != (start + last[first[k]]) / n) return false;
    x->of[r] = k;
    x->in[r] = (uint32_t)(at % n);
  }
  x->stride = x->pieces > 1 ? first[1] : registers;
  for (uint32_t r = 0; r < registers; r++)
    if (x->of[r] != r / x->stride % x->pieces || (r < x->pieces && x->in[first[r]] != x->in[0])) return false;
  return true;
}

static bool is_multiple(tg_job *j, const tg_uop *u, int64_t n) {
  tg_bounds b = tg_bounds_of(j, u);
  return b.multiple % n == 0 && b.offset % n == 0;
}

/* Are elements along the last dimension neighbours, and do rows begin at multiples of n of them? */
static bool has_rows_of(tg_job *j, const tg_uop *define, uint32_t rank, int64_t n) {
  if (!(define->arg >> 32 & TG_STRIDED)) return is_multiple(j, define->src[rank - 1], n);
  for (uint32_t d = 0; d + 1 < rank; d++)
    if (!is_multiple(j, define->src[rank + d], n)) return false;
  return is_multiple(j, define->src[rank - 1], n) && tg_is_const(define->src[2 * rank - 1], 1);
}

/* Pieces of `least` bytes or more, the smallest that there are. */
static bool find_pieces_from(tg_job *j, const tg_uop *load, const parts *p, pieces *x, uint32_t least) {
  uint32_t rank = tg_access_rank(load), registers = load->lanes, bytes = (uint32_t)tg_type_bytes(load->type);
  const tg_uop *define = tg_define_of(load->src[0]);
  tg_bounds b = tg_bounds_of(j, p[rank - 1].scalar);
  for (x->elements = least / bytes < 2 ? 2 : least / bytes; x->elements * bytes <= PIECE; x->elements *= 2) {
    if (b.multiple % x->elements || !has_rows_of(j, define, rank, x->elements)) return false;
    if (!divide_into(x, p, rank, registers, (int64_t)tg_floor_mod((int64_t)b.offset, x->elements))) continue;
    bool straight = x->pieces * x->elements == registers;
    for (uint32_t r = 0; r < registers; r++) straight &= x->of[r] * x->elements + x->in[r] == r;
    /* its neighbours are another instruction's: one load for both */
    if (straight && x->pieces == 1 && b.multiple * bytes % PIECE == 0) continue;
    return !straight && x->pieces * x->elements <= MOST_REGISTERS;
  }
  return false;
}

/* Whole words, if they are there: what two instructions take of one is loaded once. */
static bool find_pieces(tg_job *j, const tg_uop *load, const parts *p, pieces *x) {
  if (!tg_type_bytes(load->type) || tg_define_of(load->src[0])->lanes > 1) return false;
  return find_pieces_from(j, load, p, x, WORD) || find_pieces_from(j, load, p, x, 1);
}

static const tg_uop *picked(tg_job *j, const tg_uop *load) {
  uint32_t rank = tg_access_rank(load), registers = load->lanes;
  const tg_uop *gate = tg_gate(load), *sub[RANK];
  parts p[RANK];
  pieces x;
  if (!rank || rank > RANK || registers > MOST_REGISTERS || load->src[rank]->lanes != registers) return NULL;
  if (gate && (gate->lanes > 1 || tg_alternative(load)->lanes > 1)) return NULL;
  for (uint32_t d = 0; d < rank; d++)
    if (!divide(j, load->src[1 + d], registers, &p[d])) return NULL;
  if (!find_pieces(j, load, p, &x)) return NULL;
  uint32_t all = x.pieces * x.elements;
  const tg_uop *from = tg_iota(j, TG_INDEX, registers), *iota = tg_iota(j, TG_INDEX, all), *n = tg_index(j, x.elements);
  const tg_uop *first = x.pieces == 1 ? tg_index(j, 0) : tg_op2(j, TG_OP_IDIV, iota, n);
  first = tg_fold2(j, TG_OP_MUL, first, tg_index(j, x.stride));
  for (uint32_t d = 0; d < rank; d++) sub[d] = tg_substitute(j, load->src[1 + d], 1, &from, &first);
  const tg_uop *in = x.pieces == 1 ? iota : tg_op2(j, TG_OP_MOD, iota, n);
  sub[rank - 1] = tg_op2(j, TG_OP_ADD, sub[rank - 1], tg_op2(j, TG_OP_ADD, in, tg_index(j, -(int64_t)x.in[0])));
  const tg_uop *piece = tg_load(j, load->src[0], sub, gate, tg_alternative(load), load->arg & ~(int64_t)TG_GATED);
  /* where in its piece: what the register adds, from where the piece begins */
  tg_linear t;
  tg_linear_of(j, load->src[rank], &t);
  const tg_uop *at = tg_index(j, x.in[0] - p[rank - 1].at[0]);
  for (uint32_t i = 0; i < t.n; i++)
    if (t.atom[i]->lanes > 1)
      at = tg_op2(j, TG_OP_ADD, tg_fold2(j, TG_OP_MUL, t.atom[i], tg_index(j, t.coefficient[i])), at);
  at = tg_op2(j, TG_OP_MOD, at, n);
  if (x.pieces > 1) {
    const tg_uop *of = tg_op2(j, TG_OP_MOD, tg_op2(j, TG_OP_IDIV, from, tg_index(j, x.stride)), tg_index(j, x.pieces));
    at = tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, of, n), at);
  }
  return tg_shuffle(j, piece, tg_index(j, all), at);
}

static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const tg_uop *now[4];
  (void)user;
  if (old->op != TG_OP_MATRIX || src[3]->op != TG_OP_RANGE) return NULL;
  for (uint32_t i = 0; i < 4; i++) now[i] = src[i];
  for (uint32_t w = 0; w < 2; w++) {
    uint32_t n, found = 0;
    const tg_uop **order = tg_toposort(j, src[w], &n), *from[8], *to[8];
    for (uint32_t i = 0; i < n && found < 8; i++) {
      const tg_uop *v = order[i]->op == TG_OP_LOAD && order[i]->lanes > 1 ? picked(j, order[i]) : NULL;
      if (v) from[found] = order[i], to[found++] = v;
    }
    if (found) now[w] = tg_substitute(j, src[w], found, from, to);
  }
  return tg_with_sources(j, old, now);
}

const tg_uop *tg_pick_pieces(tg_job *j, const tg_uop *sink) { return tg_sweep_map(j, sink, visit, NULL); }
