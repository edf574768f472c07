/* SPDX-License-Identifier: MIT
 * The normal form of INDEX arithmetic: a sum of constant * atom, in the order of order.c, plus a constant, written as
 * the left-leaning chain ((c1*a1 + c2*a2) + ..) + c. A product of atoms is a left-leaning chain in the same order, its
 * constant factored out. Chains longer than TG_TERMS (TG_FACTORS for products) are not merged: the longer one becomes
 * an atom of the other, which bounds the cost of a node.
 *
 * Needs sources in normal form; leaves normal form, and marks the parts of a chain as normal. */
#include "ranges/known.h"

enum { TG_FACTORS = 6 };

/* ---- linear forms ---- */

static bool plus_to(int64_t *a, int64_t b) { return !__builtin_add_overflow(*a, b, a); }

static int find(const tg_linear *l, const tg_uop *atom) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->atom[i] == atom) return (int)i;
  return -1;
}

static void drop(tg_linear *l, uint32_t i) {
  l->n--;
  memmove(l->atom + i, l->atom + i + 1, (l->n - i) * sizeof *l->atom);
  memmove(l->coefficient + i, l->coefficient + i + 1, (l->n - i) * sizeof *l->coefficient);
}

static bool insert(tg_job *j, tg_linear *l, const tg_uop *atom, int64_t c) {
  int at = find(l, atom);
  if (!c) return true;
  if (at >= 0) {
    if (!plus_to(&l->coefficient[at], c)) return false;
    if (!l->coefficient[at]) drop(l, (uint32_t)at);
    return true;
  }
  if (l->n == TG_TERMS) return false;
  uint32_t i = l->n++;
  for (; i && tg_order(j, l->atom[i - 1], atom) > 0; i--) {
    l->atom[i] = l->atom[i - 1];
    l->coefficient[i] = l->coefficient[i - 1];
  }
  l->atom[i] = atom;
  l->coefficient[i] = c;
  return true;
}

bool tg_linear_add(tg_job *j, const tg_linear *a, const tg_linear *b, int64_t factor, tg_linear *out) {
  tg_linear r = {.constant = 0};
  int64_t c;
  uint32_t x = 0, y = 0;
  if (__builtin_mul_overflow(b->constant, factor, &c) || __builtin_add_overflow(a->constant, c, &r.constant))
    return false;
  while (x < a->n || y < b->n) {
    int order = x == a->n ? 1 : y == b->n ? -1 : tg_order(j, a->atom[x], b->atom[y]);
    int64_t sum = 0;
    const tg_uop *atom = order <= 0 ? a->atom[x] : b->atom[y];
    if (order >= 0 && __builtin_mul_overflow(b->coefficient[y++], factor, &sum)) return false;
    if (order <= 0 && !plus_to(&sum, a->coefficient[x++])) return false;
    if (!sum) continue;
    if (r.n == TG_TERMS) return false;
    r.atom[r.n] = atom;
    r.coefficient[r.n++] = sum;
  }
  *out = r;
  return true;
}

static void term_of(const tg_uop *u, const tg_uop **atom, int64_t *c) {
  bool scaled = u->op == TG_OP_MUL && u->src[1]->op == TG_OP_CONST;
  *atom = scaled ? u->src[0] : u;
  *c = scaled ? u->src[1]->arg : 1;
}

/* Any node, in normal form or not; a chain that has too many terms is taken as one atom. */
void tg_linear_of(tg_job *j, const tg_uop *u, tg_linear *out) {
  struct { const tg_uop *u; int64_t c; } stack[TG_TERMS + 2];
  uint32_t n = 0, visits = 0;
  *out = (tg_linear){.n = 0};
  if (u->type != TG_INDEX) goto atom;
  stack[n].u = u;
  stack[n++].c = 1;
  while (n) {
    const tg_uop *x = stack[--n].u, *a;
    int64_t c = stack[n].c, d, e;
    if (visits++ > 4 * TG_TERMS) goto atom;
    if (x->op == TG_OP_CONST) {
      if (__builtin_mul_overflow(x->arg, c, &d) || !plus_to(&out->constant, d)) goto atom;
    } else if (x->op == TG_OP_ADD || x->op == TG_OP_SUB) {
      if (n + 2 > TG_COUNT(stack) || c == INT64_MIN) goto atom;
      stack[n].u = x->src[1];
      stack[n++].c = x->op == TG_OP_SUB ? -c : c;
      stack[n].u = x->src[0];
      stack[n++].c = c;
    } else if (x->op == TG_OP_NEG && c != INT64_MIN) {
      stack[n].u = x->src[0];
      stack[n++].c = -c;
    } else {
      term_of(x, &a, &d);
      if (__builtin_mul_overflow(c, d, &e)) goto atom;
      if (a != x && (a->op == TG_OP_ADD || a->op == TG_OP_SUB || a->op == TG_OP_NEG || a->op == TG_OP_CONST ||
                     (a->op == TG_OP_MUL && a->src[1]->op == TG_OP_CONST))) {
        stack[n].u = a;
        stack[n++].c = e;
      } else if (!insert(j, out, a, e)) goto atom;
    }
  }
  return;
atom:
  *out = (tg_linear){.n = 1, .atom = {u}, .coefficient = {1}};
}

const tg_uop *tg_linear_build(tg_job *j, const tg_linear *l) {
  const tg_uop *sum = NULL;
  for (uint32_t i = 0; i < l->n; i++) {
    const tg_uop *t = l->atom[i];
    if (l->coefficient[i] != 1) t = tg_op2(j, TG_OP_MUL, t, tg_index(j, l->coefficient[i]));
    sum = sum ? tg_op2(j, TG_OP_ADD, sum, t) : t;
  }
  if (!sum) return tg_index(j, l->constant);
  return l->constant ? tg_op2(j, TG_OP_ADD, sum, tg_index(j, l->constant)) : sum;
}

/* The same, saying of every part of the chain that it is normal. */
static const tg_uop *build_normal(tg_job *j, const tg_linear *l) {
  const tg_uop *sum = NULL, *c;
  for (uint32_t i = 0; i < l->n; i++) {
    const tg_uop *t = l->atom[i];
    if (l->coefficient[i] != 1) {
      tg_mark_normal(j, c = tg_index(j, l->coefficient[i]));
      tg_mark_normal(j, t = tg_op2(j, TG_OP_MUL, t, c));
    }
    sum = sum ? tg_op2(j, TG_OP_ADD, sum, t) : t;
    if (sum != t) tg_mark_normal(j, sum);
  }
  if (l->constant || !sum) {
    tg_mark_normal(j, c = tg_index(j, l->constant));
    sum = sum ? tg_op2(j, TG_OP_ADD, sum, c) : c;
    tg_mark_normal(j, sum);
  }
  return sum;
}

/* ---- m * (x % c) + m * c * (x / c) -> m * x ---- */

static bool recombine_at(tg_job *j, tg_linear *l, uint32_t i) {
  const tg_uop *mod = l->atom[i], *x = mod->src[0];
  int64_t c = mod->src[1]->arg, m = l->coefficient[i], want;
  if (__builtin_mul_overflow(m, c, &want)) return false;
  for (uint32_t q = 0; q < l->n; q++) {
    const tg_uop *div = l->atom[q];
    if (div->op != TG_OP_IDIV || l->coefficient[q] != want || div->src[1]->op != TG_OP_CONST) continue;
    bool same = div->src[0] == x && div->src[1]->arg == c;
    /* x may be a quotient itself: (y / a) % c goes with y / (a*c) */
    int64_t ac;
    if (!same && x->op == TG_OP_IDIV && x->src[1]->op == TG_OP_CONST && div->src[0] == x->src[0] && x->src[1]->arg > 0)
      same = !__builtin_mul_overflow(x->src[1]->arg, c, &ac) && div->src[1]->arg == ac;
    if (!same) continue;
    tg_linear rest = *l, whole;
    drop(&rest, i > q ? i : q);
    drop(&rest, i > q ? q : i);
    tg_linear_of(j, x, &whole);
    return tg_linear_add(j, &rest, &whole, m, l);
  }
  return false;
}

static void recombine(tg_job *j, tg_linear *l) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->atom[i]->op == TG_OP_MOD && l->atom[i]->src[1]->op == TG_OP_CONST && l->atom[i]->src[1]->arg > 0 &&
        recombine_at(j, l, i))
      i = UINT32_MAX;
}

/* ---- products ---- */

static uint32_t factors_of(const tg_uop *u, const tg_uop **out, uint32_t n) {
  uint32_t count = 1;
  for (const tg_uop *x = u; x->op == TG_OP_MUL; x = x->src[0]) count++;
  if (n + count > TG_FACTORS) count = 1;
  for (uint32_t i = count; i-- > 1; u = u->src[0]) out[n + i] = u->src[1];
  out[n] = u;
  return n + count;
}

static bool single(const tg_linear *l) { return l->n == 1 && !l->constant; }

/* x * y, neither of them a constant: moves constants to the front and sorts the factors. NULL: v already has this
 * form. */
static const tg_uop *product(tg_job *j, const tg_uop *v, const tg_linear *a, const tg_linear *b) {
  const tg_uop *f[TG_FACTORS];
  int64_t c = 1;
  const tg_uop *x = v->src[0], *y = v->src[1];
  if (single(a)) c = a->coefficient[0], x = a->atom[0];
  if (single(b)) {
    if (__builtin_mul_overflow(c, b->coefficient[0], &c)) return NULL;
    y = b->atom[0];
  }
  uint32_t n = factors_of(x, f, 0);
  n = n == TG_FACTORS ? (f[0] = x, f[1] = y, 2) : factors_of(y, f, n);
  for (uint32_t i = 1; i < n; i++) {
    const tg_uop *t = f[i];
    uint32_t k = i;
    for (; k && tg_order(j, f[k - 1], t) > 0; k--) f[k] = f[k - 1];
    f[k] = t;
  }
  const tg_uop *p = f[0];
  for (uint32_t i = 1; i < n; i++) {
    p = tg_op2(j, TG_OP_MUL, p, f[i]);
    tg_mark_normal(j, p);
  }
  tg_linear l = {.n = 1, .atom = {p}, .coefficient = {c}};
  p = build_normal(j, &l);
  return p == v ? NULL : p;
}

static bool scaled(const tg_linear *a, int64_t c, tg_linear *out) {
  *out = (tg_linear){.n = c ? a->n : 0};
  for (uint32_t i = 0; i < out->n; i++) {
    out->atom[i] = a->atom[i];
    if (__builtin_mul_overflow(a->coefficient[i], c, &out->coefficient[i])) return false;
  }
  return !__builtin_mul_overflow(a->constant, c, &out->constant);
}

const tg_uop *tg_rewrite_sum(tg_job *j, const tg_uop *v) {
  tg_linear a, b, r;
  tg_linear_of(j, v->src[0], &a);
  if (v->op == TG_OP_NEG) {
    if (!scaled(&a, -1, &r)) return NULL;
  } else {
    tg_linear_of(j, v->src[1], &b);
    if (v->op == TG_OP_MUL && a.n && b.n) return product(j, v, &a, &b);
    if (v->op == TG_OP_MUL) {
      if (!(b.n ? scaled(&b, a.constant, &r) : scaled(&a, b.constant, &r))) return NULL;
    } else if (!tg_linear_add(j, &a, &b, v->op == TG_OP_SUB ? -1 : 1, &r)) {
      /* too long to merge: the two sides as atoms, in order */
      a = (tg_linear){.n = 1, .atom = {v->src[0]}, .coefficient = {1}};
      b = (tg_linear){.n = 1, .atom = {v->src[1]}, .coefficient = {1}};
      if (v->src[0]->op == TG_OP_CONST || v->src[1]->op == TG_OP_CONST) return NULL;
      if (!tg_linear_add(j, &a, &b, v->op == TG_OP_SUB ? -1 : 1, &r)) return NULL;
    }
  }
  recombine(j, &r);
  const tg_uop *w = build_normal(j, &r);
  return w == v ? NULL : w;
}

int64_t tg_linear_coefficient(const tg_linear *l, const tg_uop *atom) {
  int i = find(l, atom);
  return i < 0 ? 0 : l->coefficient[i];
}
