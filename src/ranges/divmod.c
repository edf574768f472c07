/* SPDX-License-Identifier: MIT
 * Floor division and remainder of INDEX sums by constants, and comparisons of INDEX sums. Everything here holds for
 * negative values too: with c > 0, floor((c*q + r) / c) = q + floor(r / c) and (c*q + r) % c = r % c for all integers.
 *
 * Needs sources in normal form; leaves nodes whose parts the rewriter still normalises. */
#include "ranges/known.h"

static int64_t common(int64_t a, int64_t b) { /* INT64_MIN: 1, which is always sound */
  if (a == INT64_MIN || b == INT64_MIN) return 1;
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

static int64_t floor_of(int64_t a, int64_t c) { return a / c - (a % c < 0); } /* c > 0 */
static int64_t rest_of(int64_t a, int64_t c) { return a % c + (a % c < 0 ? c : 0); }
static bool known(tg_i128 v) { return v > -TG_INF && v < TG_INF; }

static void take(tg_linear *l, const tg_uop *atom, int64_t c) { /* in order already */
  l->atom[l->n] = atom;
  l->coefficient[l->n++] = c;
}

/* value / c or value % c of the sum, the same for all values: *q = floor(value / c). */
static bool one_quotient(tg_job *j, const tg_linear *l, int64_t c, tg_i128 *q) {
  tg_bounds b = tg_linear_bounds(j, l);
  if (!known(b.lo) || !known(b.hi)) return false;
  *q = tg_floor_div(b.lo, c);
  return *q == tg_floor_div(b.hi, c) && *q <= INT64_MAX && *q >= INT64_MIN;
}

/* l = g*y + z with floor(z / g) = t for all values, 1 < g, g | c: y + t. Tries the greatest such g first, as the
 * coefficients suggest them. z gets what is not a multiple, less t*g. */
static int64_t split_multiple(tg_job *j, const tg_linear *l, int64_t c, tg_linear *y, tg_linear *z) {
  int64_t below = INT64_MAX;
  for (;;) {
    int64_t g = 1;
    tg_i128 t;
    for (uint32_t i = 0; i < l->n; i++) {
      int64_t d = common(l->coefficient[i], c);
      if (d < below && d > g) g = d;
    }
    if (g == 1) return 0;
    below = g;
    *y = *z = (tg_linear){.n = 0};
    for (uint32_t i = 0; i < l->n; i++) {
      if (l->coefficient[i] % g) take(z, l->atom[i], l->coefficient[i]);
      else take(y, l->atom[i], l->coefficient[i] / g);
    }
    z->constant = rest_of(l->constant, g);
    y->constant = floor_of(l->constant, g);
    if (!one_quotient(j, z, g, &t)) continue;
    if (__builtin_add_overflow(y->constant, (int64_t)t, &y->constant) ||
        __builtin_sub_overflow(z->constant, (int64_t)t * g, &z->constant))
      return 0;
    return g;
  }
}

static const tg_uop *built(tg_job *j, tg_op op, const tg_linear *l, int64_t c) {
  return c == 1 ? op == TG_OP_IDIV ? tg_linear_build(j, l) : tg_index(j, 0)
                : tg_op2(j, op, tg_linear_build(j, l), tg_index(j, c));
}

static const tg_uop *divided(tg_job *j, const tg_uop *v, const tg_linear *l, int64_t c) {
  tg_linear out = {.n = 0}, rest = {.n = 0}, y, z;
  for (uint32_t i = 0; i < l->n; i++) {
    if (l->coefficient[i] % c) take(&rest, l->atom[i], l->coefficient[i]);
    else take(&out, l->atom[i], l->coefficient[i] / c);
  }
  rest.constant = rest_of(l->constant, c);
  out.constant = floor_of(l->constant, c);
  tg_i128 q;
  if (one_quotient(j, &rest, c, &q)) {
    if (__builtin_add_overflow(out.constant, (int64_t)q, &out.constant)) return NULL;
    return tg_linear_build(j, &out);
  }
  const tg_uop *inner = NULL;
  int64_t g = split_multiple(j, &rest, c, &y, &z), ab, ka;
  if (g) inner = built(j, TG_OP_IDIV, &y, c / g);
  /* (x / a + k) / c = (x + k*a) / (a*c) */
  const tg_uop *x = rest.n ? rest.atom[0] : NULL;
  if (!inner && rest.n == 1 && rest.coefficient[0] == 1 && x->op == TG_OP_IDIV && x->src[1]->op == TG_OP_CONST &&
      x->src[1]->arg > 0 && !__builtin_mul_overflow(x->src[1]->arg, c, &ab) &&
      !__builtin_mul_overflow(x->src[1]->arg, rest.constant, &ka)) {
    tg_linear wide, k = {.constant = ka};
    tg_linear_of(j, x->src[0], &wide);
    if (tg_linear_add(j, &wide, &k, 1, &wide)) inner = built(j, TG_OP_IDIV, &wide, ab);
  }
  if (!inner && rest.n == l->n && rest.constant == l->constant) return NULL;
  if (!inner) inner = built(j, TG_OP_IDIV, &rest, c);
  if (!out.n && !out.constant) return inner == v ? NULL : inner;
  return tg_op2(j, TG_OP_ADD, inner, tg_linear_build(j, &out));
}

/* Coefficients smaller than c in size, of the sign they had; the constant in [0, c). */
static bool reduced(const tg_linear *l, int64_t c, tg_linear *out) {
  bool changed = false;
  *out = (tg_linear){.constant = rest_of(l->constant, c)};
  for (uint32_t i = 0; i < l->n; i++) {
    int64_t d = l->coefficient[i] % c;
    if (d) take(out, l->atom[i], d);
    changed |= d != l->coefficient[i];
  }
  return changed || out->constant != l->constant;
}

static bool needless_mod(const tg_linear *l, int64_t c) { /* an atom x % d where c | d */
  for (uint32_t i = 0; i < l->n; i++)
    if (l->atom[i]->op == TG_OP_MOD && l->atom[i]->src[1]->op == TG_OP_CONST && l->atom[i]->src[1]->arg > 0 &&
        l->atom[i]->src[1]->arg % c == 0)
      return true;
  return false;
}

static const tg_uop *remaindered(tg_job *j, const tg_uop *v, const tg_linear *l, int64_t c) {
  tg_linear r, y, z;
  tg_i128 q;
  if (one_quotient(j, l, c, &q)) { /* before the coefficients are reduced: the value as it stands may fit */
    tg_linear by = {.constant = 1};
    if (q > INT64_MAX / c || q < INT64_MIN / c) return NULL;
    return tg_linear_add(j, l, &by, -(int64_t)q * c, &r) ? tg_linear_build(j, &r) : NULL;
  }
  bool changed = reduced(l, c, &r);
  if (needless_mod(&r, c)) { /* (x % (c*k) + ..) % c = (x + ..) % c */
    tg_linear sum = {.constant = r.constant};
    bool fits = true;
    for (uint32_t i = 0; i < r.n && fits; i++) {
      tg_linear t = {.n = 1, .atom = {r.atom[i]}, .coefficient = {1}};
      const tg_uop *m = r.atom[i];
      if (m->op == TG_OP_MOD && m->src[1]->op == TG_OP_CONST && m->src[1]->arg > 0 && m->src[1]->arg % c == 0)
        tg_linear_of(j, m->src[0], &t);
      fits = tg_linear_add(j, &sum, &t, r.coefficient[i], &sum);
    }
    if (fits) return built(j, TG_OP_MOD, &sum, c);
  }
  if (changed && one_quotient(j, &r, c, &q)) {
    tg_linear by = {.constant = 1};
    return tg_linear_add(j, &r, &by, -(int64_t)q * c, &r) ? tg_linear_build(j, &r) : NULL;
  }
  int64_t g = split_multiple(j, &r, c, &y, &z);
  if (g) { /* (g*y + z) % (g*d) = g * (y % d) + z */
    const tg_uop *m = tg_op2(j, TG_OP_MUL, built(j, TG_OP_MOD, &y, c / g), tg_index(j, g));
    return !z.n && !z.constant ? m : tg_op2(j, TG_OP_ADD, m, tg_linear_build(j, &z));
  }
  if (!changed) return NULL;
  const tg_uop *w = built(j, TG_OP_MOD, &r, c);
  return w == v ? NULL : w;
}

/* (x % (a*c)) / a = (x / a) % c: so that digits of one number look alike. */
static const tg_uop *digit(tg_job *j, const tg_uop *v, int64_t a) {
  const tg_uop *m = v->src[0];
  if (m->op != TG_OP_MOD || m->src[1]->op != TG_OP_CONST || m->src[1]->arg <= 0 || m->src[1]->arg % a) return NULL;
  return tg_op2(j, TG_OP_MOD, tg_op2(j, TG_OP_IDIV, m->src[0], tg_index(j, a)), tg_index(j, m->src[1]->arg / a));
}

const tg_uop *tg_rewrite_divmod(tg_job *j, const tg_uop *v) {
  if (v->src[1]->op != TG_OP_CONST) return NULL;
  int64_t c = v->src[1]->arg;
  bool div = v->op == TG_OP_IDIV;
  if (!c || (c == 1 && !div)) return tg_index(j, 0);
  if (c == 1) return v->src[0];
  if (c == INT64_MIN) return NULL;
  if (c < 0) { /* x / -c = -x / c;  x % -c = -(-x % c) */
    const tg_uop *w = tg_op2(j, v->op, tg_op1(j, TG_OP_NEG, v->src[0]), tg_index(j, -c));
    return div ? w : tg_op1(j, TG_OP_NEG, w);
  }
  const tg_uop *w = div ? digit(j, v, c) : NULL;
  if (w) return w;
  tg_linear l;
  tg_linear_of(j, v->src[0], &l);
  return div ? divided(j, v, &l, c) : remaindered(j, v, &l, c);
}

/* ---- comparisons ---- */

/* a op 0 for the sum a, decided by its bounds or congruence; -1 if it is not. */
static int decided(tg_job *j, tg_op op, const tg_linear *a) {
  tg_bounds b = tg_linear_bounds(j, a);
  bool apart = b.lo > 0 || b.hi < 0 || (b.multiple > 1 && b.offset != 0);
  switch (op) {
  case TG_OP_LT: return b.hi < 0 ? 1 : b.lo >= 0 ? 0 : -1;
  case TG_OP_LE: return b.hi <= 0 ? 1 : b.lo > 0 ? 0 : -1;
  default: return apart ? op == TG_OP_NE : b.lo == 0 && b.hi == 0 ? op == TG_OP_EQ : -1;
  }
}

/* diff op 0 with terms added on the left, terms subtracted on the right, the constant on the right if a term is on the
 * left; without their common factor. For == and != the first atom stands on the left. */
static const tg_uop *sides(tg_job *j, tg_op op, const tg_linear *diff) {
  tg_linear left = {.n = 0}, right = {.n = 0};
  int64_t g = 0;
  for (uint32_t i = 0; i < diff->n; i++) g = common(g, diff->coefficient[i]);
  if (g <= 0 || diff->constant == INT64_MIN) return NULL;
  bool flip = op != TG_OP_LT && diff->coefficient[0] < 0;
  /* g*s + c < 0: s < ceil(-c / g);  g*s + c == 0: s == -c / g, and g | c, else it was decided */
  int64_t k = op == TG_OP_LT ? -floor_of(diff->constant, g) : -(diff->constant / g);
  if (flip) k = -k;
  for (uint32_t i = 0; i < diff->n; i++) {
    int64_t c = diff->coefficient[i] / g;
    if ((c > 0) != flip) take(&left, diff->atom[i], flip ? -c : c);
    else take(&right, diff->atom[i], flip ? c : -c);
  }
  if (left.n) right.constant = k;
  else left.constant = -k;
  return tg_op2(j, op, tg_linear_build(j, &left), tg_linear_build(j, &right));
}

/* LE becomes LT; terms that both sides have go; constants and common factors go to the right. */
const tg_uop *tg_rewrite_compare(tg_job *j, const tg_uop *v) {
  tg_linear a, b, diff, one = {.constant = 1};
  tg_op op = v->op;
  tg_linear_of(j, v->src[0], &a);
  tg_linear_of(j, v->src[1], &b);
  if (!tg_linear_add(j, &a, &b, -1, &diff)) return NULL;
  if (op == TG_OP_LE) {
    if (!tg_linear_add(j, &diff, &one, -1, &diff)) return NULL;
    op = TG_OP_LT;
  }
  int d = decided(j, op, &diff);
  if (d >= 0) return tg_bool(j, d);
  const tg_uop *w = sides(j, op, &diff);
  return w == v ? NULL : w;
}
