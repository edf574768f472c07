/* SPDX-License-Identifier: MIT
 * Pass index: one subscript per access, the element's offset, and machine integers instead of INDEX.
 *
 * The offset is a sum of constant * atom * stride, atoms of outer loops first and the constant last: copies then share
 * the address up to a constant, and the part that an inner loop does not change can be hoisted. A vector offset is
 * ADD(base, IOTA) if the lanes are adjacent, else one vector (a gather or scatter). DEFINEs get rank 1. A stride that
 * is a parameter is replaced by a constant inside loops that run only if the parameter has that value, as in one of
 * the two versions that specialize(lda == 1) makes.
 *
 * INDEX scalars become i64 if the target prefers that for addresses, else i32 if every value and operand provably
 * fits; vectors become i32 if they fit, and comparisons of lanes that do not are written so that they do. Integer
 * division of every type becomes machine operations: shifts and masks; CDIV and CMOD where floor and truncation agree;
 * else these with a correction, and a guard against a zero divisor.
 * (The one quotient that overflows wraps and leaves remainder 0, as the language says.) */
#include "lower/sweep.h"

/* stride = times * by; by in machine type, or NULL */
typedef struct { bool made; int64_t times[16]; const tg_uop *by[16]; } strides;

/* Facts from the extents of the loops around: unless param == value, some loop has no iteration; or unless
 * param % divisor == 0, a power of two (0: the fact is the value). */
typedef struct fact { const struct fact *outer; const tg_uop *param; int64_t value, divisor; } fact;

typedef struct {
  tg_job *j;
  const tg_rules *rules;
  bool prefer64;
  /* by old id: of the innermost loop that the node depends on; NULL: no fact is known of any loop */
  const fact **facts;
  const tg_uop **to;       /* by old id */
  uint8_t *need, *depth;   /* by old id: loops around */
  uint8_t *known;          /* likewise: those around the loop that facts are of */
  strides *of;             /* by old buffer ordinal */
  uint32_t nodes;
} state;

typedef struct { const tg_uop *atom, *by; int64_t times; uint32_t depth; } term;
typedef struct { term t[16 * TG_TERMS]; uint32_t n; int64_t constant; } terms;

/* ---- machine types ---- */

static bool fits(state *s, const tg_uop *u) {
  tg_bounds b = tg_bounds_of(s->j, u);
  return b.lo >= INT32_MIN && b.hi <= INT32_MAX;
}

/* In which type an op over INDEX is computed: of its value and all of its operands. */
static tg_type type_of(state *s, const tg_uop *u) {
  if (u->lanes == 1 && s->prefer64) return TG_I64;
  bool small = u->type != TG_INDEX || fits(s, u);
  for (uint32_t i = 0; i < u->n && small; i++) small = u->src[i]->type != TG_INDEX || fits(s, u->src[i]);
  return small ? TG_I32 : TG_I64;
}

static const tg_uop *as(state *s, const tg_uop *old, tg_type t) {
  if (old->op == TG_OP_CONST) return tg_const_int(s->j, t, old->arg);
  if (old->op == TG_OP_IOTA) return tg_iota(s->j, t, old->lanes);
  return tg_cast(s->j, t, s->to[old->id]);
}

static const tg_uop *bin(state *s, tg_op op, const tg_uop *a, const tg_uop *b) { return tg_fold2(s->j, op, a, b); }
static const tg_uop *integer(state *s, const tg_uop *like, int64_t v) { return tg_const_int(s->j, like->type, v); }

/* ---- division ---- */

typedef struct { bool zero, nonnegative; } divisor;   /* what cannot be excluded; floor and truncation agree */

static divisor judge(state *s, const tg_uop *a, const tg_uop *b) {
  tg_bounds x = tg_bounds_of(s->j, a), y = tg_bounds_of(s->j, b);
  return (divisor){.zero = y.lo <= 0 && y.hi >= 0, .nonnegative = x.lo >= 0 && y.lo >= 0};
}

static const tg_uop *divide(state *s, const tg_uop *u, const tg_uop *a, const tg_uop *b) {
  tg_job *j = s->j;
  bool mod = u->op == TG_OP_MOD || u->op == TG_OP_CMOD, floors = u->op == TG_OP_IDIV || u->op == TG_OP_MOD;
  divisor d = judge(s, u->src[0], u->src[1]);
  tg_assert(&j->env, a->type == b->type && a->type != TG_INDEX && !tg_is_float(a->type));
  if (b->op == TG_OP_CONST && (floors || d.nonnegative)) {
    const tg_uop *cheap = tg_rewrite_one(j, s->rules, TG_RULES_STRENGTH, tg_op2(j, mod ? TG_OP_MOD : TG_OP_IDIV, a, b));
    if (cheap) return cheap;
  }
  const tg_uop *by = b, *zero = integer(s, b, 0), *one = integer(s, b, 1), *is_zero = NULL;
  if (d.zero && floors && !d.nonnegative) {   /* CDIV and CMOD give 0 themselves; the correction below would not */
    is_zero = bin(s, TG_OP_EQ, b, zero);
    by = tg_op3(j, TG_OP_WHERE, is_zero, one, b);
  }
  if (mod && (!floors || d.nonnegative)) return tg_op2(j, TG_OP_CMOD, a, b);
  const tg_uop *q = tg_op2(j, TG_OP_CDIV, a, by);
  if (floors && !d.nonnegative) {
    const tg_uop *r = tg_op2(j, TG_OP_SUB, a, tg_op2(j, TG_OP_MUL, q, by));
    const tg_uop *fix =
        tg_op2(j, TG_OP_AND, tg_op2(j, TG_OP_NE, r, zero), tg_op2(j, TG_OP_LT, tg_op2(j, TG_OP_XOR, r, by), zero));
    if (mod) return tg_op2(j, TG_OP_ADD, r, tg_op3(j, TG_OP_WHERE, fix, by, zero));
    q = tg_op2(j, TG_OP_SUB, q, tg_op3(j, TG_OP_WHERE, fix, one, zero));
  }
  return is_zero ? tg_op3(j, TG_OP_WHERE, is_zero, zero, q) : q;
}

/* ---- offsets ---- */

/* A power of two that divides the parameter where the access stands; 1: none is known. */
static int64_t divisor_of(const state *s, const tg_uop *access, const tg_uop *param) {
  if (!s->facts || !access || param->op != TG_OP_PARAM) return 1;
  for (const fact *f = s->facts[access->id]; f; f = f->outer)
    if (f->param == param && f->divisor) return f->divisor;
  return 1;
}

static void made_strides(state *s, const tg_uop *define, const tg_uop *access, strides *st) {
  bool strided = (define->arg >> 32 & TG_STRIDED) != 0;
  uint32_t rank = strided ? define->n / 2 : define->n;
  tg_assert(&s->j->env, rank <= TG_COUNT(st->times) && (!strided || define->n == 2 * rank));
  int64_t times = 1;
  const tg_uop *by = NULL;
  st->made = true;
  for (uint32_t i = rank; i-- > 0;) {
    const tg_uop *d = define->src[strided ? rank + i : i], *open = NULL;
    int64_t known = d->op == TG_OP_CONST ? d->arg : divisor_of(s, access, d);
    if (d->op != TG_OP_CONST) open = as(s, d, TG_I64);
    if (open && known > 1) open = bin(s, TG_OP_SHR, open, tg_const_int(s->j, TG_I64, __builtin_ctzll((uint64_t)known)));
    st->times[i] = strided ? known : times;
    st->by[i] = strided ? open : by;
    if (strided) continue;
    if (open) by = by ? tg_op2(s->j, TG_OP_MUL, open, by) : open;
    if (__builtin_mul_overflow(times, known, &times))
      tg_fail(&s->j->env, TG_ELIMIT, "%s has more than 2^63 elements", tg_buffer_info(s->j, define)->name);
  }
}

static const strides *strides_of(state *s, const tg_uop *define) {
  strides *st = &s->of[tg_buffer_ordinal(define)];
  if (!st->made) made_strides(s, define, NULL, st);
  return st;
}

/* Those of one access, where facts tell more of it; work: memory for them. */
static const strides *strides_at(state *s, const tg_uop *define, const tg_uop *access, strides *work) {
  bool more = false;
  for (uint32_t i = 0; i < define->n; i++) more |= divisor_of(s, access, define->src[i]) > 1;
  if (!more) return strides_of(s, define);
  made_strides(s, define, access, work);
  return work;
}

static bool known_stride(const state *s, const tg_uop *access, const tg_uop *stride, int64_t *value) {
  if (!s->facts || stride->op != TG_OP_PARAM) return false;
  for (const fact *f = s->facts[access->id]; f; f = f->outer)
    if (f->param == stride && !f->divisor) return *value = f->value, true;
  return false;
}

static void add_offset(state *s, terms *t, const tg_uop *sub, int64_t times, const tg_uop *by) {
  tg_linear x;
  bool over = false;
  if (sub->op == TG_OP_CONST && !by) {
    int64_t c;
    if (!__builtin_mul_overflow(sub->arg, times, &c) && !__builtin_add_overflow(t->constant, c, &t->constant)) return;
  }
  tg_linear_of(s->j, sub, &x);
  for (uint32_t i = 0; i < x.n + 1; i++) {
    const tg_uop *atom = i < x.n ? x.atom[i] : NULL;
    int64_t c;
    uint32_t k = 0;
    over |= __builtin_mul_overflow(atom ? x.coefficient[i] : x.constant, times, &c);
    if (!atom && !by) {
      over |= __builtin_add_overflow(t->constant, c, &t->constant);
      continue;
    }
    if (!c) continue;
    while (k < t->n && (t->t[k].atom != atom || t->t[k].by != by)) k++;
    if (k < t->n) over |= __builtin_add_overflow(t->t[k].times, c, &t->t[k].times);
    else {
      tg_assert(&s->j->env, t->n < TG_COUNT(t->t));
      t->t[t->n++] = (term){atom, by, c, atom ? s->depth[atom->id] : 0};
    }
  }
  if (over) tg_fail(&s->j->env, TG_ELIMIT, "an offset beyond 2^63 elements");
}

static void sort_terms(terms *t) {   /* outer loops first; stable */
  for (uint32_t i = 1; i < t->n; i++) {
    term x = t->t[i];
    uint32_t k = i;
    for (; k && t->t[k - 1].depth > x.depth; k--) t->t[k] = t->t[k - 1];
    t->t[k] = x;
  }
}

static const tg_uop *product(state *s, const term *t, tg_type type) {
  const tg_uop *x = t->atom ? as(s, t->atom, type) : NULL;
  if (t->by) x = x ? tg_op2(s->j, TG_OP_MUL, x, tg_cast(s->j, type, t->by)) : tg_cast(s->j, type, t->by);
  return t->times == 1 ? x : bin(s, TG_OP_MUL, x, integer(s, x, t->times));
}

/* Do all partial sums stay within 32 bits? */
static bool sum_fits(state *s, const terms *t) {
  tg_i128 most = t->constant < 0 ? -(tg_i128)t->constant : t->constant;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->t[i].by) return false;
    tg_bounds b = tg_bounds_of(s->j, t->t[i].atom);
    tg_i128 lo = b.lo < 0 ? -b.lo : b.lo, hi = b.hi < 0 ? -b.hi : b.hi,
            times = t->t[i].times < 0 ? -(tg_i128)t->t[i].times : t->t[i].times;
    if (lo > INT32_MAX || hi > INT32_MAX || times > INT32_MAX) return false;
    most += (lo > hi ? lo : hi) * times;
  }
  return most <= INT32_MAX;
}

static bool by_constant(const tg_uop *u, tg_op op) {
  return u->op == op && u->src[1]->op == TG_OP_CONST && u->src[1]->arg > 0;
}

/* x / c and x % c; or x / (a * c) and x / a % c. */
static bool are_neighbours(const tg_uop *high, const tg_uop *low) {
  const tg_uop *x = low->src[0];
  int64_t c = low->src[1]->arg;
  if (high->src[0] == x) return high->src[1]->arg == c;
  return by_constant(x, TG_OP_IDIV) && high->src[0] == x->src[0] && !__builtin_mul_overflow(c, x->src[1]->arg, &c) &&
         high->src[1]->arg == c;
}

/* Digits of lanes in several dimensions that lie as the lanes do: x / c * (c * times) + x % c * times is x * times. */
static void rejoin_digits(terms *t) {
  for (uint32_t i = 0; i < t->n; i++)
    for (uint32_t k = 0; k < t->n; k++) {
      const tg_uop *high = t->t[i].atom, *low = t->t[k].atom;
      if (!high || !low || high->lanes == 1 || !by_constant(high, TG_OP_IDIV) || !by_constant(low, TG_OP_MOD) ||
          !are_neighbours(high, low))
        continue;
      if (t->t[i].by || t->t[k].by || t->t[i].times != t->t[k].times * low->src[1]->arg) continue;
      t->t[k].atom = low->src[0];
      t->t[i] = t->t[--t->n];
      i = UINT32_MAX;
      break;
    }
}

/* Offsets count from the first element in memory: a dimension of a negative stride counts down from its last element.
 * known: what the stride is in this access, unless NULL. */
static void add_origin(state *s, terms *t, const tg_uop *define, uint32_t i, const int64_t *known) {
  const tg_uop *d = define->src[i], *stride = define->src[define->n / 2 + i];
  const tg_uop *none = tg_const_int(s->j, TG_I64, 0), *by;
  if (known ? *known >= 0 : tg_bounds_of(s->j, stride).lo >= 0) return;
  if (known) by = tg_const_int(s->j, TG_I64, -*known);
  else by = bin(s, TG_OP_MAX, bin(s, TG_OP_SUB, none, as(s, stride, TG_I64)), none);
  by = bin(s, TG_OP_MUL, bin(s, TG_OP_ADD, as(s, d, TG_I64), tg_const_int(s->j, TG_I64, -1)), by);
  if (by->op != TG_OP_CONST) {
    tg_assert(&s->j->env, t->n < TG_COUNT(t->t));
    t->t[t->n++] = (term){NULL, by, 1, 0};
  } else if (__builtin_add_overflow(t->constant, by->arg, &t->constant))
    tg_fail(&s->j->env, TG_ELIMIT, "an offset beyond 2^63 elements");
}

static const tg_uop *offset_of(state *s, const tg_uop *u, const tg_uop *define) {
  strides own;
  const strides *st = strides_at(s, define, u, &own);
  uint32_t rank = tg_access_rank(u), vectors = 0;
  int64_t constant;
  terms t;
  tg_assert(&s->j->env, rank == (define->arg >> 32 & TG_STRIDED ? define->n / 2 : define->n));
  t.n = 0;
  t.constant = 0;
  for (uint32_t i = 0; i < rank; i++) {
    bool strided = define->arg >> 32 & TG_STRIDED,
         known = st->by[i] && strided && known_stride(s, u, define->src[rank + i], &constant);
    if (strided) add_origin(s, &t, define, i, known ? &constant : st->by[i] ? NULL : &st->times[i]);
    if (known) add_offset(s, &t, u->src[1 + i], constant, NULL);
    else add_offset(s, &t, u->src[1 + i], st->times[i], st->by[i]);
  }
  rejoin_digits(&t);
  sort_terms(&t);
  bool adjacent = true;
  for (uint32_t i = 0; i < t.n; i++) {
    if (!t.t[i].times || !t.t[i].atom || t.t[i].atom->lanes == 1) continue;
    vectors++;
    /* few elements apart are loaded as vectors, too */
    adjacent &=
        t.t[i].atom->op == TG_OP_IOTA && t.t[i].times >= -TG_MOST_STEP && t.t[i].times <= TG_MOST_STEP && !t.t[i].by;
  }
  bool gather = vectors && (vectors > 1 || !adjacent);
  tg_type type = s->prefer64 && !gather ? TG_I64 : sum_fits(s, &t) ? TG_I32 : TG_I64;
  const tg_uop *base = NULL, *lanes = NULL;
  for (uint32_t i = 0; i < t.n; i++) {
    if (!t.t[i].times) continue;
    const tg_uop *x = product(s, &t.t[i], type), **sum = x->lanes > 1 ? &lanes : &base;
    *sum = *sum ? tg_op2(s->j, TG_OP_ADD, *sum, x) : x;
  }
  const tg_uop *c = tg_const_int(s->j, type, t.constant);
  base = !base ? c : bin(s, TG_OP_ADD, base, c);
  return lanes ? tg_op2(s->j, TG_OP_ADD, base, lanes) : base;
}

/* ---- nodes ---- */

static const tg_uop *flat_define(state *s, const tg_uop *u) {
  tg_buffer info = *tg_buffer_info(s->j, u);
  bool strided = (u->arg >> 32 & TG_STRIDED) != 0;
  uint32_t rank = strided ? u->n / 2 : u->n;
  const strides *st = strides_of(s, u);
  const tg_uop *size = tg_const_int(s->j, TG_I64, 1), *empty = NULL, *none = tg_const_int(s->j, TG_I64, 0);
  for (uint32_t i = 0; i < rank; i++) {
    const tg_uop *d = as(s, u->src[i], TG_I64);
    if (strided && tg_bounds_of(s->j, u->src[i]).lo <= 0) {   /* without elements, whatever the strides */
      const tg_uop *is = bin(s, TG_OP_EQ, d, none);
      empty = empty ? tg_op2(s->j, TG_OP_OR, empty, is) : is;
    }
    if (!strided) {
      size = bin(s, TG_OP_MUL, size, d);
      continue;
    }
    const tg_uop *step = bin(s, TG_OP_MUL, bin(s, TG_OP_ADD, d, tg_const_int(s->j, TG_I64, -1)),
                             tg_const_int(s->j, TG_I64, st->times[i] < 0 ? -st->times[i] : st->times[i])),
                 *by = st->by[i];
    if (by && tg_bounds_of(s->j, u->src[rank + i]).lo < 0) by = bin(s, TG_OP_MAX, by, bin(s, TG_OP_SUB, none, by));
    size = bin(s, TG_OP_ADD, by ? tg_op2(s->j, TG_OP_MUL, step, by) : step, size);
  }
  if (empty) size = tg_op3(s->j, TG_OP_WHERE, empty, none, size);
  info.rank = 1;
  if (info.type == TG_INDEX) info.type = TG_I64;
  return tg_define(s->j, info, u->lanes, &size, NULL, false);
}

static const tg_uop *access(state *s, const tg_uop *u) {
  const tg_uop *define = tg_define_of(u->src[0]), *offset = offset_of(s, u, define), *version = s->to[u->src[0]->id];
  const tg_uop *gate = tg_gate(u) ? s->to[tg_gate(u)->id] : NULL;
  bool index = define->type == TG_INDEX;
  if (u->op == TG_OP_PREFETCH)
    return tg_make(s->j, TG_OP_PREFETCH, TG_VOID, 1, u->arg, 2, (const tg_uop *[]){version, offset});
  int64_t flags = u->arg & ~(int64_t)TG_GATED;
  const tg_uop *other = u->op == TG_OP_STORE ? tg_stored(u) : tg_alternative(u);
  if (other) other = index ? as(s, other, TG_I64) : s->to[other->id];
  return u->op == TG_OP_LOAD ? tg_load(s->j, version, &offset, gate, other, flags)
                             : tg_store(s->j, version, &offset, other, gate, flags);
}

static const tg_uop *cast(state *s, const tg_uop *u) {
  const tg_uop *a = u->src[0];
  if (u->type != TG_INDEX) return tg_cast(s->j, u->type, s->to[a->id]);
  const tg_uop *x = s->to[a->id];
  if (a->type == TG_U64 && tg_bounds_of(s->j, a).hi > INT64_MAX)
    x = tg_op2(s->j, TG_OP_MIN, x, tg_const_int(s->j, TG_U64, INT64_MAX));
  return tg_cast(s->j, type_of(s, u), x);
}

/* x + c: x. */
static const tg_uop *without_constant(const tg_uop *u, int64_t *c) {
  *c = u->op == TG_OP_ADD && u->src[1]->op == TG_OP_CONST ? u->src[1]->arg : 0;
  return *c ? u->src[0] : u;
}

/* base + IOTA < end, where lanes do not fit 32 bits: IOTA < end - base, whose right side is cut off at what no lane
 * reaches. So the lanes are half as wide, the gates of neighbouring vectors share it, and only constants are compared
 * with it. NULL: no such comparison. */
static const tg_uop *gate_of_lanes(state *s, const tg_uop *u) {
  const int64_t far = 1 << 30, near = 1 << 29;
  if (u->op != TG_OP_LT || u->lanes == 1 || u->src[1]->lanes > 1 || u->src[0]->op != TG_OP_ADD) return NULL;
  const tg_uop *left = u->src[0], *iota = left->src[left->src[1]->op == TG_OP_IOTA], *other, *end;
  int64_t behind, before;
  if (iota->op != TG_OP_IOTA) return NULL;
  other = without_constant(left->src[iota == left->src[0]], &before), end = without_constant(u->src[1], &behind);
  if (other->lanes > 1 || before - behind > near || behind - before > near) return NULL;
  tg_bounds a = tg_bounds_of(s->j, other), b = tg_bounds_of(s->j, end);
  if (b.lo - a.hi < INT64_MIN || b.hi - a.lo > INT64_MAX) return NULL;
  const tg_uop *rest = bin(s, TG_OP_SUB, as(s, end, TG_I64), as(s, other, TG_I64));
  if (b.hi - a.lo > far) rest = bin(s, TG_OP_MIN, rest, tg_const_int(s->j, TG_I64, far));
  if (b.lo - a.hi < -far) rest = bin(s, TG_OP_MAX, rest, tg_const_int(s->j, TG_I64, -far));
  const tg_uop *lanes = tg_iota(s->j, TG_I32, u->lanes), *c = tg_const_int(s->j, TG_I32, before - behind);
  return tg_op2(s->j, TG_OP_LT, before == behind ? lanes : bin(s, TG_OP_ADD, lanes, c), tg_cast(s->j, TG_I32, rest));
}

static const tg_uop *lanewise(state *s, const tg_uop *u, bool index) {
  const tg_uop *src[3];
  tg_type t = index ? type_of(s, u) : TG_VOID;
  const tg_uop *gate = t == TG_I64 ? gate_of_lanes(s, u) : NULL;
  if (gate) return gate;
  for (uint32_t i = 0; i < u->n; i++) src[i] = u->src[i]->type == TG_INDEX ? as(s, u->src[i], t) : s->to[u->src[i]->id];
  switch (u->op) {
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD: return divide(s, u, src[0], src[1]);
  default: break;
  }
  if (!index) return tg_with_sources(s->j, u, src);
  /* 63 is past the width of an index, and not past that of its machine type */
  if (u->op == TG_OP_SHL && tg_bounds_of(s->j, u->src[1]).hi >= TG_INDEX_WIDTH)
    return tg_op3(s->j, TG_OP_WHERE, bin(s, TG_OP_LT, src[1], integer(s, src[1], TG_INDEX_WIDTH)),
                  bin(s, u->op, src[0], src[1]), integer(s, src[0], 0));
  if (u->n == 2) return bin(s, u->op, src[0], src[1]);
  return u->n == 1 ? tg_op1(s->j, u->op, src[0]) : tg_op3(s->j, u->op, src[0], src[1], src[2]);
}

static const tg_uop *convert(state *s, const tg_uop *u) {
  const tg_uop *few[32], **src = u->n <= TG_COUNT(few) ? few : tg_new(&s->j->env, const tg_uop *, u->n), *e;
  bool index = u->type == TG_INDEX, same = true;
  tg_type t;
  switch (u->op) {
  case TG_OP_CONST: return index ? tg_const_int(s->j, TG_I64, u->arg) : u;
  case TG_OP_PARAM: return index ? tg_make(s->j, TG_OP_PARAM, TG_I64, 1, u->arg, 0, NULL) : u;
  case TG_OP_IOTA: return index ? tg_iota(s->j, TG_I32, u->lanes) : u;
  case TG_OP_RANGE:
    if (!index) return u;
    t = s->prefer64 || !fits(s, tg_extent(u)) ? TG_I64 : TG_I32;
    e = as(s, tg_extent(u), t);
    return tg_make(s->j, TG_OP_RANGE, t, 1, u->arg, 1, &e);
  case TG_OP_DEFINE: return flat_define(s, u);
  case TG_OP_LOAD: case TG_OP_STORE: case TG_OP_PREFETCH: return access(s, u);
  case TG_OP_CAST: return cast(s, u);
  case TG_OP_AFTER:
    src[0] = s->to[u->src[0]->id];
    src[1] = s->to[u->src[1]->id];
    src[2] = s->to[u->src[2]->id];
    return tg_make(s->j, TG_OP_AFTER, src[0]->type, src[0]->lanes, 0, 3, src);
  case TG_OP_SHUFFLE: return tg_shuffle(s->j, s->to[u->src[0]->id], s->to[u->src[1]->id], s->to[u->src[2]->id]);
  case TG_OP_FOLD:
    src[0] = s->to[u->src[0]->id];
    return tg_make(s->j, TG_OP_FOLD, src[0]->type, 1, u->arg, 1, src);
  default: break;
  }
  for (uint32_t i = 0; i < u->n; i++) {
    index |= u->src[i]->type == TG_INDEX && (tg_ops[u->op].flags & TG_OPF_W);
    src[i] = s->to[u->src[i]->id];
    same &= src[i] == u->src[i];
  }
  if (tg_ops[u->op].flags & TG_OPF_W) {
    bool division = u->op == TG_OP_IDIV || u->op == TG_OP_MOD || u->op == TG_OP_CDIV || u->op == TG_OP_CMOD;
    if (index || division) return lanewise(s, u, index);
  }
  return same ? u : tg_with_sources(s->j, u, src);
}

static const fact *facts_of(state *s, const tg_uop *extent, const fact *outer) {
  uint32_t n;
  if (extent->op == TG_OP_CONST || extent->op == TG_OP_PARAM) return outer;
  const tg_uop **order = tg_toposort(s->j, extent, &n), *no = tg_bool(s->j, false);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *c = order[i];
    if (c->op != TG_OP_EQ || c->src[0]->type != TG_INDEX) continue;
    int at = c->src[1]->op == TG_OP_CONST ? 0 : 1;
    const tg_uop *x = c->src[at];
    bool divides = x->op == TG_OP_MOD && x->src[1]->op == TG_OP_CONST && x->src[1]->arg > 0;
    divides &= tg_is_const(c->src[!at], 0);
    if (divides) x = x->src[0];
    if (x->op != TG_OP_PARAM || c->src[!at]->op != TG_OP_CONST) continue;
    if (tg_bounds_of(s->j, tg_simplify(s->j, s->rules, tg_substitute(s->j, extent, 1, &c, &no))).hi > 0) continue;
    fact *f = tg_new(&s->j->env, fact, 1);
    int64_t by = divides ? c->src[at]->src[1]->arg : 0;
    *f = (fact){outer, x, c->src[!at]->arg, by & -by};
    outer = f;
  }
  return outer;
}

/* Computes the depth of each range, and the facts that hold in its loop. */
static void depths(state *s, const tg_uop *u, uint8_t depth, const fact *facts) {
  if (u->op == TG_OP_END) {
    s->depth[u->src[0]->id] = ++depth;
    facts = facts_of(s, tg_extent(u->src[0]), facts);
    if (facts && !s->facts) s->facts = tg_new(&s->j->env, const fact *, s->nodes);
    if (facts) s->facts[u->src[0]->id] = facts;
  }
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (u->src[i]->op == TG_OP_END) depths(s, u->src[i], depth, facts);
}

/* Marks the nodes that are still needed below u; of a subscript only its atoms. */
static void mark(state *s, const tg_uop *u) {
  uint32_t rank = u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH ? tg_access_rank(u) : 0;
  for (uint32_t i = 0; i < u->n; i++) {
    if (!i || i > rank) {
      s->need[u->src[i]->id] = 1;
      continue;
    }
    if (u->src[i]->op == TG_OP_CONST) continue;
    tg_linear t;
    tg_linear_of(s->j, u->src[i], &t);
    for (uint32_t k = 0; k < t.n; k++) s->need[t.atom[k]->id] = 1;
  }
}

/* Node id gets the facts of the innermost loop that its source `from` depends on; for a subscript, that its atoms
 * depend on. */
static void learn(state *s, uint32_t id, const tg_uop *from) {
  tg_linear t = {.n = 1, .atom = {from}};
  if (!s->need[from->id]) tg_linear_of(s->j, from, &t);
  for (uint32_t i = 0; i < t.n; i++) {
    uint32_t atom = t.atom[i]->id;
    if (s->facts[atom] && (!s->facts[id] || s->depth[atom] > s->known[id]))
      s->facts[id] = s->facts[atom], s->known[id] = s->depth[atom];
  }
}

const tg_uop *tg_pass_index(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  uint32_t n = sink->id + 1;
  state s = {.j = j,
             .rules = l->rules,
             .prefer64 = !l->target || l->target->prefer_i64_address,
             .to = tg_new(&j->env, const tg_uop *, n),
             .need = tg_new(&j->env, uint8_t, n),
             .depth = tg_new(&j->env, uint8_t, n),
             .known = tg_new(&j->env, uint8_t, n),
             .of = tg_new(&j->env, strides, j->buffers.n + 1),
             .nodes = n};
  depths(&s, sink, 0, NULL);
  s.need[sink->id] = 1;
  for (uint32_t id = n; id-- > 0;)
    if (s.need[id]) mark(&s, j->uops.data[id]);
  for (uint32_t id = 0; id < n; id++) {
    if (!s.need[id]) continue;
    const tg_uop *u = j->uops.data[id];
    uint8_t d = s.depth[id];
    for (uint32_t i = 0; i < u->n; i++) {
      const tg_uop *from = u->src[i];
      /* a version does not depend on the loops inside its effect */
      if (u->op == TG_OP_AFTER && i && from->op != TG_OP_RANGE) continue;
      if (s.depth[from->id] > d) d = s.depth[from->id];
      if (s.facts && u->op != TG_OP_AFTER && u->op != TG_OP_RANGE) learn(&s, id, from);
    }
    s.depth[id] = d;
    s.to[id] = convert(&s, u);
    tg_assert(&j->env, s.to[id]->type != TG_INDEX);
    if (s.to[id] != u && u->type == TG_VOID && tg_get_pos(j, u).line) tg_set_pos(j, s.to[id], tg_get_pos(j, u));
  }
  bool copies = false;
  for (uint32_t id = 0; id < n; id++)
    copies |= s.need[id] && j->uops.data[id]->op == TG_OP_STORE && j->uops.data[id]->arg & TG_ASYNC;
  return copies ? tg_widen_copies(j, s.to[sink->id]) : s.to[sink->id];
}
