/* SPDX-License-Identifier: MIT
 * Bounds and congruences of integer, INDEX and bool nodes: lo <= value <= hi, and value = offset (mod multiple).
 *
 * Numbers have 128 bits and saturate at +-TG_INF, which means unknown. If an op on a wrapping type may wrap, the
 * bounds are the full range of the type; of the congruence only powers of two survive. Each node is computed once, its
 * sources first, on an explicit stack. */
#include <math.h>
#include "dsl/value.h"
#include "ranges/known.h"

tg_known *tg_known_of(tg_job *j) {
  if (!j->known) j->known = tg_new(&j->env, tg_known, 1);
  return j->known;
}

typedef tg_i128 wide;
typedef unsigned __int128 uwide;

static bool known(wide v) { return v > -TG_INF && v < TG_INF; }
static wide clamp(wide v) { return v >= TG_INF ? TG_INF : v <= -TG_INF ? -TG_INF : v; }
static wide least(wide a, wide b) { return a < b ? a : b; }
static wide most(wide a, wide b) { return a > b ? a : b; }

static wide plus(wide a, wide b) {
  if (!known(a)) return a;
  return known(b) ? clamp(a + b) : b;
}

static wide times(wide a, wide b) {
  wide r;
  if (!a || !b) return 0;
  if (!known(a) || !known(b) || __builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? TG_INF : -TG_INF;
  return clamp(r);
}

static wide over(wide a, wide b) { /* floor, b != 0 */
  if (!known(a)) return (b < 0) ? -a : a;
  if (!known(b)) return a == 0 || (a < 0) == (b < 0) ? 0 : -1;
  if (a >= INT64_MIN && a <= INT64_MAX && b > 0 && b <= INT64_MAX) {
    int64_t x = (int64_t)a, y = (int64_t)b;
    return x / y - (x % y < 0);
  }
  return tg_floor_div(a, b);
}

static wide common(wide a, wide b) { /* gcd, 0 for two zeros */
  if (a == 1 || b == 1) return 1;
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b) {
    if ((uwide)a <= UINT64_MAX && (uwide)b <= UINT64_MAX) {
      uint64_t x = (uint64_t)a, y = (uint64_t)b;
      while (y) {
        uint64_t t = x % y;
        x = y;
        y = t;
      }
      return x;
    }
    wide t = a % b;
    a = b;
    b = t;
  }
  return a;
}

static wide residue(wide v, wide m) {
  if (m == 1) return 0;
  return m ? tg_floor_mod(v, m) : v;
}

static tg_bounds interval(wide lo, wide hi) { return (tg_bounds){clamp(lo), clamp(hi), 1, 0}; }
static tg_bounds exactly(wide v) { return (tg_bounds){v, v, 0, v}; }

static tg_bounds of_type(tg_type t) {
  int bits = tg_type_bits(t);
  if (t == TG_BOOL) return interval(0, 1);
  if (!tg_is_int(t)) return interval(-TG_INF, TG_INF);
  return tg_is_signed(t) ? interval(-((wide)1 << (bits - 1)), ((wide)1 << (bits - 1)) - 1)
                         : interval(0, ((wide)1 << bits) - 1);
}

/* Ends agree with the congruence, a single value is a constant, and a type that may wrap is full. */
static tg_bounds settle(tg_type t, tg_bounds b) {
  if (t != TG_INDEX) {
    tg_bounds full = of_type(t);
    if (b.lo < full.lo || b.hi > full.hi) {
      if (b.lo == b.hi && known(b.lo)) return exactly(tg_wrap(t, b.lo));
      full.multiple = t == TG_BOOL ? 1 : common(b.multiple, (wide)1 << tg_type_bits(t));
      full.offset = residue(b.offset, full.multiple);
      b = full;
    }
  }
  if (b.lo == b.hi && known(b.lo)) return exactly(b.lo);
  if (!b.multiple) { /* a constant congruence: cannot be wider than its value */
    return known(b.offset) ? exactly(b.offset) : interval(b.lo, b.hi);
  }
  if (b.multiple >= TG_INF) b.multiple = 1;
  b.offset = residue(b.offset, b.multiple);
  if (b.multiple > 1) {
    if (known(b.lo)) b.lo += residue(b.offset - b.lo, b.multiple);
    if (known(b.hi)) b.hi -= residue(b.hi - b.offset, b.multiple);
    if (b.lo == b.hi && known(b.lo)) return exactly(b.lo);
  }
  return b;
}

static tg_bounds sum_of(tg_bounds a, tg_bounds b) {
  tg_bounds r = {plus(a.lo, b.lo), plus(a.hi, b.hi), common(a.multiple, b.multiple), 0};
  r.offset = r.multiple == 1 ? 0 : a.offset + b.offset;
  return r;
}

static tg_bounds negated(tg_bounds a) { return (tg_bounds){-a.hi, -a.lo, a.multiple, -a.offset}; }

static tg_bounds product_of(tg_bounds a, tg_bounds b) {
  wide w = times(a.lo, b.lo), x = times(a.lo, b.hi), y = times(a.hi, b.lo), z = times(a.hi, b.hi);
  tg_bounds r = interval(least(least(w, x), least(y, z)), most(most(w, x), most(y, z)));
  /* (m s + o)(n t + p) = mn st + mp s + on t + op */
  wide mp = times(a.multiple, b.offset), on = times(a.offset, b.multiple), mn = times(a.multiple, b.multiple),
       op = times(a.offset, b.offset);
  if (known(mp) && known(on) && known(mn) && known(op)) {
    r.multiple = common(common(mn, mp), on);
    r.offset = op;
  }
  return r;
}

static tg_bounds quotient_of(tg_bounds a, tg_bounds b) {
  if (b.lo == b.hi && b.lo) {
    wide c = b.lo, x = over(a.lo, c), y = over(a.hi, c);
    tg_bounds r = interval(least(x, y), most(x, y));
    if (a.multiple && a.multiple % c == 0) {
      r.multiple = a.multiple / (c < 0 ? -c : c);
      r.offset = over(a.offset, c);
    }
    return r;
  }
  if (b.lo < 0) {
    wide far = most(a.hi < 0 ? -a.hi : a.hi, a.lo < 0 ? -a.lo : a.lo);
    return interval(-far, far);
  }
  wide c = most(b.lo, 1), d = most(b.hi, 1), w = over(a.lo, c), x = over(a.lo, d), y = over(a.hi, c), z = over(a.hi, d);
  tg_bounds r = interval(least(least(w, x), least(y, z)), most(most(w, x), most(y, z)));
  if (b.lo <= 0) r = interval(least(r.lo, 0), most(r.hi, 0));
  return r;
}

static tg_bounds remainder_of(tg_bounds a, tg_bounds b) {
  if (b.lo == b.hi && b.lo > 0) {
    wide c = b.lo;
    if (known(a.lo) && known(a.hi) && over(a.lo, c) == over(a.hi, c)) {
      tg_bounds r = {residue(a.lo, c), residue(a.hi, c), a.multiple, 0};
      r.offset = a.multiple ? a.offset - over(a.lo, c) * c : r.lo;
      return r;
    }
    tg_bounds r = {0, c - 1, common(a.multiple, c), 0};
    r.offset = residue(a.offset, r.multiple);
    return r;
  }
  wide lo = b.lo < 0 ? plus(b.lo, 1) : 0, hi = b.hi > 0 ? plus(b.hi, -1) : 0;
  if (a.lo >= 0 && b.lo >= 0) hi = least(hi, a.hi);
  return interval(lo, hi);
}

static tg_bounds truncated(tg_op op, tg_bounds a, tg_bounds b) {
  if (a.lo >= 0 && b.lo >= 0) return op == TG_OP_CDIV ? quotient_of(a, b) : remainder_of(a, b);
  wide far = most(a.hi < 0 ? -a.hi : a.hi, a.lo < 0 ? -a.lo : a.lo);
  if (op == TG_OP_CDIV) {
    if (b.lo == b.hi && b.lo > 0 && known(a.lo) && known(a.hi)) return interval(a.lo / b.lo, a.hi / b.lo);
    return interval(-far, far);
  }
  wide d = most(most(b.hi < 0 ? -b.hi : b.hi, b.lo < 0 ? -b.lo : b.lo) - 1, 0);
  d = least(d, far);
  return interval(a.lo < 0 ? -d : 0, a.hi > 0 ? d : 0);
}

static tg_bounds either(tg_bounds a, tg_bounds b) {
  tg_bounds r = {least(a.lo, b.lo), most(a.hi, b.hi),
                 common(common(a.multiple, b.multiple), clamp(a.offset - b.offset)), a.offset};
  if (!r.multiple) return a;   /* two equal constants */
  return r;
}

static wide ones_above(wide v) { /* 2^k - 1 >= v */
  wide r = 0;
  while (r < v) r = r * 2 + 1;
  return r;
}

static tg_bounds bitwise(tg_op op, tg_type t, tg_bounds a, tg_bounds b) {
  if (a.lo == a.hi && b.lo == b.hi && known(a.lo) && known(b.lo))
    return exactly(op == TG_OP_AND ? a.lo & b.lo : op == TG_OP_OR ? a.lo | b.lo : a.lo ^ b.lo);
  if (t == TG_BOOL) {
    if (op == TG_OP_AND) return interval(least(a.lo, b.lo), least(a.hi, b.hi));
    if (op == TG_OP_OR) return interval(most(a.lo, b.lo), most(a.hi, b.hi));
    return interval(0, 1);
  }
  if (op == TG_OP_AND) {
    if (a.lo < 0 && b.lo < 0) return of_type(t);
    return interval(0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : least(a.hi, b.hi));
  }
  if (a.lo < 0 || b.lo < 0 || !known(a.hi) || !known(b.hi)) return of_type(t);
  return interval(op == TG_OP_OR ? most(a.lo, b.lo) : 0, ones_above(most(a.hi, b.hi)));
}

static tg_bounds shifted(tg_op op, tg_type t, tg_bounds a, tg_bounds b) {
  int bits = t == TG_INDEX ? TG_INDEX_WIDTH : tg_type_bits(t);
  if (op == TG_OP_SHR && b.lo >= 0 && (t != TG_INDEX || b.hi < bits)) {
    wide c = (wide)1 << (int)least(b.lo, bits), d = (wide)1 << (int)least(b.hi, bits);
    tg_bounds x = quotient_of(a, exactly(c)), y = quotient_of(a, exactly(d));
    return b.lo == b.hi ? x : interval(least(x.lo, y.lo), most(x.hi, y.hi));
  }
  if (op == TG_OP_SHL && b.lo == b.hi && b.lo >= 0)
    return b.lo >= bits ? exactly(0) : product_of(a, exactly((wide)1 << (int)b.lo));
  if (op == TG_OP_SHL && t == TG_INDEX)   /* a power of two up to 62, or 0 */
    return product_of(a, interval(0, (wide)1 << (int)(b.hi < 0 ? 0 : least(b.hi, bits - 1))));
  return of_type(t);
}

static tg_bounds compared(tg_op op, tg_bounds a, tg_bounds b) {
  switch (op) {
  case TG_OP_LT: return a.hi < b.lo ? exactly(1) : a.lo >= b.hi && known(a.lo) ? exactly(0) : interval(0, 1);
  case TG_OP_LE: return a.hi <= b.lo && known(a.hi) ? exactly(1) : a.lo > b.hi ? exactly(0) : interval(0, 1);
  default: break;
  }
  wide g = common(a.multiple, b.multiple);
  bool apart = a.hi < b.lo || a.lo > b.hi || (g > 1 && residue(a.offset - b.offset, g) != 0);
  bool same = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo && known(a.lo);
  if (!apart && !same) return interval(0, 1);
  return exactly((op == TG_OP_EQ) == same);
}

/* ---- floats that become integers ---- */

enum { FLOATS_DEEP = 6, LEAVES = 8 };

/* The integers that a float is made of, in the order in which they are met: found when b is NULL, else their bounds. */
typedef struct { const tg_uop *leaf[LEAVES]; uint32_t n; const tg_bounds *b; } leaves;

static bool has_bounds(const tg_uop *u) { return u->type == TG_INDEX || u->type == TG_BOOL || tg_is_int(u->type); }

/* Between which a float lies if it is a number. */
typedef struct { double lo, hi; } reals;

static reals reals_of(const tg_uop *u, leaves *l, uint32_t depth);

/* An integer's ends are exact as doubles, and rounding keeps the order. */
static reals reals_of_cast(const tg_uop *u, leaves *l, uint32_t depth) {
  const wide exact = (wide)1 << 53;
  reals r = {-HUGE_VAL, HUGE_VAL};
  if (!has_bounds(u->src[0])) r = reals_of(u->src[0], l, depth);
  else if (l->n < LEAVES) {
    tg_bounds a = l->b ? l->b[l->n] : interval(-TG_INF, TG_INF);
    l->leaf[l->n++] = u->src[0];
    if (a.lo >= -exact && a.lo <= exact) r.lo = (double)a.lo;
    if (a.hi >= -exact && a.hi <= exact) r.hi = (double)a.hi;
  }
  return (reals){tg_round_to(u->type, r.lo), tg_round_to(u->type, r.hi)};
}

static reals rounded(tg_op op, reals r) {
  double (*f)(double) = op == TG_OP_FLOOR ? floor : op == TG_OP_CEIL ? ceil : op == TG_OP_ROUND ? nearbyint : trunc;
  return (reals){f(r.lo), f(r.hi)};
}

static reals reals_of(const tg_uop *u, leaves *l, uint32_t depth) {
  reals a = {-HUGE_VAL, HUGE_VAL}, b = a;
  if (depth == FLOATS_DEEP) return a;
  switch (u->op) {
  case TG_OP_CONST: {
    double v = tg_const_value(u);
    return v == v ? (reals){v, v} : a;
  }
  case TG_OP_CAST: return reals_of_cast(u, l, depth + 1);
  case TG_OP_MAX: case TG_OP_MIN:
    a = reals_of(u->src[0], l, depth + 1), b = reals_of(u->src[1], l, depth + 1);
    return u->op == TG_OP_MAX ? (reals){fmax(a.lo, b.lo), fmax(a.hi, b.hi)}
                              : (reals){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
  case TG_OP_WHERE:
    a = reals_of(u->src[1], l, depth + 1), b = reals_of(u->src[2], l, depth + 1);
    return (reals){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
  case TG_OP_NEG: a = reals_of(u->src[0], l, depth + 1); return (reals){-a.hi, -a.lo};
  case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC:
    return rounded(u->op, reals_of(u->src[0], l, depth + 1));
  case TG_OP_ABS: case TG_OP_SQRT: return (reals){0, HUGE_VAL};
  default: return a;
  }
}

static wide whole(double v, tg_bounds type) {
  return v <= (double)type.lo ? type.lo : v >= (double)type.hi ? type.hi : (wide)v;
}

/* It truncates, saturates, and makes 0 of NaN. */
static tg_bounds truncated_float(const tg_uop *u, const tg_bounds *b) {
  leaves l = {.b = b};
  tg_bounds type = of_type(u->type);
  if (!tg_is_int(u->type)) return type;
  reals r = reals_of(u->src[0], &l, 0);
  return interval(least(whole(r.lo, type), 0), most(whole(r.hi, type), 0));
}

static tg_bounds converted(const tg_uop *u, const tg_bounds *b) {
  tg_bounds a = b[0];
  if (tg_is_float(u->src[0]->type)) return truncated_float(u, b);
  if (u->type == TG_BOOL)
    return a.lo > 0 || a.hi < 0 ? exactly(1) : a.lo == 0 && a.hi == 0 ? exactly(0) : interval(0, 1);
  return a;
}

static tg_bounds of_leaf(tg_job *j, const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CONST: return exactly(tg_value_of(u).i);
  case TG_OP_PARAM: {
    const tg_param *p = &j->params.data[u->arg];
    return (tg_bounds){p->lo, p->hi, p->multiple > 1 ? p->multiple : 1, 0};
  }
  case TG_OP_IOTA: return interval(0, (wide)u->lanes - 1);
  default: return of_type(u->type);
  }
}

static tg_bounds compute(tg_job *j, const tg_uop *u, const tg_bounds *b) {
  switch (u->op) {
  case TG_OP_RANGE: return interval(0, most(0, plus(b[0].hi, -1)));
  case TG_OP_ADD: return sum_of(b[0], b[1]);
  case TG_OP_SUB: return sum_of(b[0], negated(b[1]));
  case TG_OP_NEG: return negated(b[0]);
  case TG_OP_MUL: return product_of(b[0], b[1]);
  case TG_OP_FMA: return sum_of(product_of(b[0], b[1]), b[2]);
  case TG_OP_IDIV: return quotient_of(b[0], b[1]);
  case TG_OP_MOD: return remainder_of(b[0], b[1]);
  case TG_OP_CDIV: case TG_OP_CMOD: return truncated(u->op, b[0], b[1]);
  case TG_OP_MAX: {
    tg_bounds r = either(b[0], b[1]);
    r.lo = most(b[0].lo, b[1].lo);
    return r;
  }
  case TG_OP_MIN: {
    tg_bounds r = either(b[0], b[1]);
    r.hi = least(b[0].hi, b[1].hi);
    return r;
  }
  case TG_OP_AND: case TG_OP_OR: case TG_OP_XOR: return bitwise(u->op, u->type, b[0], b[1]);
  case TG_OP_NOT:
    return u->type == TG_BOOL      ? sum_of(exactly(1), negated(b[0]))
           : tg_is_signed(u->type) ? sum_of(exactly(-1), negated(b[0]))
                                   : sum_of(exactly(of_type(u->type).hi), negated(b[0]));
  case TG_OP_SHL: case TG_OP_SHR: return shifted(u->op, u->type, b[0], b[1]);
  case TG_OP_LT: case TG_OP_LE: case TG_OP_EQ: case TG_OP_NE:
    return has_bounds(u->src[0]) && has_bounds(u->src[1]) ? compared(u->op, b[0], b[1]) : interval(0, 1);
  case TG_OP_WHERE: return b[0].lo == b[0].hi ? b[b[0].lo ? 1 : 2] : either(b[1], b[2]);
  case TG_OP_CAST: return converted(u, b);
  case TG_OP_ABS: return b[0].lo >= 0 ? b[0] : b[0].hi <= 0 ? negated(b[0]) : interval(0, most(-b[0].lo, b[0].hi));
  case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC: return b[0];
  default: return of_leaf(j, u);
  }
}

static bool looks_below(const tg_uop *u) {
  return u->op == TG_OP_RANGE || (tg_ops[u->op].flags & TG_OPF_W && u->op != TG_OP_BITCAST);
}

/* Bounds of the position that argmax or argmin finds: those of a term's position if there surely is a term, else
 * those of the type. b[0]: of the position; b[1..]: of the extents. */
static tg_bounds place_of(const tg_uop *u, const tg_bounds *b, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (b[i].lo < 1) return of_type(u->type);
  return b[0];
}

/* The nodes from whose bounds those of u are computed; at most 9. */
static uint32_t sources_of(tg_job *j, const tg_uop *u, const tg_uop **src) {
  const tg_uop *extreme = tg_extreme_of(j, u);
  uint32_t n = 0;
  if (extreme) {
    src[n++] = extreme->src[1];
    for (uint32_t i = 0; i < tg_reduce_info(extreme).ranges; i++) src[n++] = tg_extent(tg_reduce_ranges(extreme)[i]);
  } else if (u->op == TG_OP_CAST && tg_is_float(u->src[0]->type)) {
    leaves l = {0};
    reals_of(u->src[0], &l, 0);
    for (; n < l.n; n++) src[n] = l.leaf[n];
  } else if (looks_below(u))
    while (n < u->n && n < 3) src[n] = u->src[n], n++;
  return n;
}

/* Grows the table to cover every node of the job, with slack, since queries come in bursts. */
static void widen(tg_job *j, tg_known *k) {
  uint32_t cap = j->uops.n + j->uops.n / 2 + 64, *wider = tg_new(&j->env, uint32_t, cap);
  if (k->bounds_cap) memcpy(wider, k->bounds_at, k->bounds_cap * sizeof *wider);
  k->bounds_at = wider;
  k->bounds_cap = cap;
}

/* Computes the bounds of u if those of its sources are known; else pushes the sources that are missing. */
static bool step(tg_job *j, tg_known *k, const tg_uop *u) {
  tg_bounds b[9];
  const tg_uop *src[9];
  bool ready = true;
  uint32_t n = sources_of(j, u, src);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *s = src[i];
    if (!has_bounds(s)) b[i] = interval(-TG_INF, TG_INF);
    else if (k->bounds_at[s->id]) b[i] = k->bounds.data[k->bounds_at[s->id] - 1];
    else {
      ready = false;
      tg_push(&j->env, &k->bounds_stack, s);
    }
  }
  if (!ready) return false;
  tg_bounds r = settle(u->type, u->op == TG_OP_GET && n ? place_of(u, b, n) : compute(j, u, b));
  tg_push(&j->env, &k->bounds, r);
  k->bounds_at[u->id] = k->bounds.n;
  return true;
}

tg_bounds tg_bounds_of(tg_job *j, const tg_uop *u) {
  tg_known *k = tg_known_of(j);
  if (!has_bounds(u)) return interval(-TG_INF, TG_INF);
  if (u->id >= k->bounds_cap) widen(j, k);
  if (!k->bounds_at[u->id]) {
    k->bounds_stack.n = 0;
    tg_push(&j->env, &k->bounds_stack, u);
    while (k->bounds_stack.n) {
      const tg_uop *top = k->bounds_stack.data[k->bounds_stack.n - 1];
      if (k->bounds_at[top->id] || step(j, k, top)) k->bounds_stack.n--;
    }
  }
  return k->bounds.data[k->bounds_at[u->id] - 1];
}

tg_bounds tg_linear_bounds(tg_job *j, const tg_linear *l) {
  tg_bounds r = exactly(l->constant);
  for (uint32_t i = 0; i < l->n; i++)
    r = sum_of(r, product_of(tg_bounds_of(j, l->atom[i]), exactly(l->coefficient[i])));
  return settle(TG_INDEX, r);
}
