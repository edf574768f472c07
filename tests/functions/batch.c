/* SPDX-License-Identifier: MIT
 * The evaluator of batch.h. Small floats are encoded by searching the table of all their values. */
#include <math.h>
#include "batch.h"

static const struct { int mantissa, exponent; } shape[TG_TYPE__COUNT] = {[TG_F16] = {10, 5}, [TG_BF16] = {7, 8}, [TG_E4M3] = {3, 4}, [TG_E5M2] = {2, 5}};

double batch_decode(tg_type t, uint32_t bits) {
  int m = shape[t].mantissa, e = shape[t].exponent, bias = (1 << (e - 1)) - 1;
  uint32_t top = bits >> m & ((1u << e) - 1), low = bits & ((1u << m) - 1);
  double s = bits >> (m + e) & 1 ? -1 : 1;
  if (t == TG_E4M3 && (bits & 0x7f) == 0x7f) return NAN;
  if (t != TG_E4M3 && top == (1u << e) - 1) return low ? NAN : s * INFINITY;
  return s * (top ? ldexp(1 + ldexp(low, -m), (int)top - bias) : ldexp(low, 1 - bias - m));
}

uint32_t batch_encode(tg_type t, double v) {
  int all = shape[t].mantissa + shape[t].exponent;
  uint32_t sign = (uint32_t)(signbit(v) != 0) << all, last = t == TG_E4M3 ? 0x7e : ((1u << shape[t].exponent) - 1) << shape[t].mantissa;
  if (v != v) return sign | (t == TG_E4M3 ? 0x7f : last | 1u << (shape[t].mantissa - 1));
  double a = fabs(v);
  uint32_t lo = 0, hi = last;   /* value(lo) <= a; the search ends with hi = lo + 1 */
  if (t == TG_E4M3 && a >= 448) return sign | last;
  if (isinf(v)) return sign | last;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (batch_decode(t, mid) <= a) lo = mid;
    else hi = mid;
  }
  double below = batch_decode(t, lo), above = batch_decode(t, hi);
  if (isinf(above)) above = 2 * ldexp(1, ilogb(below));
  double half = below + (above - below) / 2;
  return sign | (a < half || (a == half && !(lo & 1)) ? lo : hi);
}

static bool small(tg_type t) { return t == TG_F16 || t == TG_BF16 || t == TG_E4M3 || t == TG_E5M2; }

static int64_t wrap(tg_type t, uint64_t v) {
  switch (t) {
  case TG_BOOL: return v & 1;
  case TG_I8: return (int8_t)v;
  case TG_I16: return (int16_t)v;
  case TG_I32: return (int32_t)v;
  case TG_U8: case TG_E4M3: case TG_E5M2: return (uint8_t)v;
  case TG_U16: case TG_F16: case TG_BF16: return (uint16_t)v;
  case TG_U32: return (uint32_t)v;
  default: return (int64_t)v;
  }
}

static batch_value cast(tg_type to, tg_type from, batch_value v) {
  batch_value r = {.u = 0};
  bool is_float = tg_is_float(from), wide = from == TG_U64;
  double d = from == TG_F32 ? v.f : from == TG_F64 ? v.d : small(from) ? batch_decode(from, (uint32_t)v.u) : wide ? (double)v.u : (double)v.i;
  if (to == TG_F32) r.f = is_float ? (float)d : wide ? (float)v.u : (float)v.i;
  else if (to == TG_F64) r.d = d;
  else if (small(to)) r.u = batch_encode(to, d);
  else if (is_float && to == TG_BOOL) r.i = d != 0;
  else if (is_float) r.i = d != d ? 0 : (int64_t)d;
  else r.i = to == TG_BOOL ? v.i != 0 : wrap(to, v.u);
  return r;
}

static batch_value bitcast(tg_type to, tg_type from, batch_value v) {
  batch_value r = {.u = 0};
  if (from == TG_F32) {
    uint32_t b;
    memcpy(&b, &v.f, 4);
    v.u = b;
  }
  if (to == TG_F32) {
    uint32_t b = (uint32_t)v.u;
    memcpy(&r.f, &b, 4);
    return r;
  }
  if (to == TG_F64 || from == TG_F64) return v;
  r.i = wrap(to, v.u);
  return r;
}

#define EACH(member, e) for (int p = 0; p < n; p++) { batch_value a = x[p], b = y ? y[p] : a, c = z ? z[p] : a; (void)b, (void)c; r[p].member = (e); } return true

static bool on_f32(tg_op op, const batch_value *x, const batch_value *y, const batch_value *z, batch_value *r, int n) {
  switch (op) {
  case TG_OP_ADD: EACH(f, a.f + b.f);
  case TG_OP_SUB: EACH(f, a.f - b.f);
  case TG_OP_MUL: EACH(f, a.f * b.f);
  case TG_OP_FDIV: EACH(f, a.f / b.f);
  case TG_OP_NEG: EACH(f, -a.f);
  case TG_OP_FMA: EACH(f, fmaf(a.f, b.f, c.f));
  case TG_OP_ABS: EACH(f, fabsf(a.f));
  case TG_OP_SQRT: EACH(f, sqrtf(a.f));
  case TG_OP_TRUNC: EACH(f, truncf(a.f));
  case TG_OP_ROUND: EACH(f, rintf(a.f));
  case TG_OP_FLOOR: EACH(f, floorf(a.f));
  case TG_OP_LT: EACH(i, a.f < b.f);
  case TG_OP_LE: EACH(i, a.f <= b.f);
  case TG_OP_EQ: EACH(i, a.f == b.f);
  case TG_OP_NE: EACH(i, a.f != b.f);
  case TG_OP_MAX: EACH(f, a.f != a.f ? a.f : b.f != b.f ? b.f : a.f > b.f || (a.f == b.f && !signbit(a.f)) ? a.f : b.f);
  case TG_OP_MIN: EACH(f, a.f != a.f ? a.f : b.f != b.f ? b.f : a.f < b.f || (a.f == b.f && signbit(a.f)) ? a.f : b.f);
  default: return false;
  }
}

static bool on_f64(tg_op op, const batch_value *x, const batch_value *y, const batch_value *z, batch_value *r, int n) {
  switch (op) {
  case TG_OP_ADD: EACH(d, a.d + b.d);
  case TG_OP_SUB: EACH(d, a.d - b.d);
  case TG_OP_MUL: EACH(d, a.d * b.d);
  case TG_OP_FDIV: EACH(d, a.d / b.d);
  case TG_OP_NEG: EACH(d, -a.d);
  case TG_OP_FMA: EACH(d, fma(a.d, b.d, c.d));
  case TG_OP_ABS: EACH(d, fabs(a.d));
  case TG_OP_SQRT: EACH(d, sqrt(a.d));
  case TG_OP_TRUNC: EACH(d, trunc(a.d));
  case TG_OP_ROUND: EACH(d, rint(a.d));
  case TG_OP_LT: EACH(i, a.d < b.d);
  case TG_OP_LE: EACH(i, a.d <= b.d);
  case TG_OP_EQ: EACH(i, a.d == b.d);
  case TG_OP_NE: EACH(i, a.d != b.d);
  default: return false;
  }
}

static bool on_integers(tg_op op, tg_type t, const batch_value *x, const batch_value *y, batch_value *r, int n) {
  const batch_value *z = NULL;
  bool u = t == TG_U64;
  switch (op) {
  case TG_OP_ADD: EACH(i, wrap(t, a.u + b.u));
  case TG_OP_SUB: EACH(i, wrap(t, a.u - b.u));
  case TG_OP_MUL: EACH(i, wrap(t, a.u * b.u));
  case TG_OP_AND: EACH(i, a.i & b.i);
  case TG_OP_OR: EACH(i, a.i | b.i);
  case TG_OP_XOR: EACH(i, a.i ^ b.i);
  case TG_OP_NOT: EACH(i, wrap(t, ~a.u));
  case TG_OP_SHL: EACH(i, b.u < 64 ? wrap(t, a.u << b.u) : 0);
  case TG_OP_SHR: EACH(i, u ? (int64_t)(a.u >> b.u) : a.i >> b.i);
  case TG_OP_LT: EACH(i, u ? a.u < b.u : a.i < b.i);
  case TG_OP_LE: EACH(i, u ? a.u <= b.u : a.i <= b.i);
  case TG_OP_EQ: EACH(i, a.i == b.i);
  case TG_OP_NE: EACH(i, a.i != b.i);
  case TG_OP_MIN: EACH(i, (u ? a.u < b.u : a.i < b.i) ? a.i : b.i);
  case TG_OP_MAX: EACH(i, (u ? a.u < b.u : a.i < b.i) ? b.i : a.i);
  default: return false;
  }
}

static batch_value constant(const tg_uop *u) {
  batch_value v = {.i = u->arg};
  if (u->type == TG_F32) v.f = (float)tg_const_value(u);
  else if (small((tg_type)u->type)) v.u = batch_encode((tg_type)u->type, tg_const_value(u));
  else if (tg_is_int((tg_type)u->type)) v.i = wrap((tg_type)u->type, v.u);
  return v;
}

batch_program batch_prepare(tg_job *j, const tg_uop *root) {
  batch_program b = {.root = root};
  b.order = tg_toposort(j, root, &b.n);
  b.at = tg_new(&j->env, batch_value *, j->uops.n);
  for (uint32_t k = 0; k < b.n; k++) {
    const tg_uop *u = b.order[k];
    b.at[u->id] = tg_new(&j->env, batch_value, BATCH);
    for (int p = 0; u->op == TG_OP_CONST && p < BATCH; p++) b.at[u->id][p] = constant(u);
  }
  return b;
}

const batch_value *batch_run(const batch_program *b, const batch_value *const *args, int n) {
  for (uint32_t k = 0; k < b->n; k++) {
    const tg_uop *u = b->order[k];
    batch_value *r = b->at[u->id];
    const batch_value *s[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < u->n && i < 3; i++) s[i] = b->at[u->src[i]->id];
    tg_type t = (tg_type)(u->n ? u->src[0]->type : u->type);
    bool ok = true;
    if (u->op == TG_OP_CONST) continue;
    else if (u->op == TG_OP_ARG) memcpy(r, args[u->arg], (size_t)n * sizeof *r);
    else if (u->op == TG_OP_WHERE) for (int p = 0; p < n; p++) r[p] = s[0][p].i ? s[1][p] : s[2][p];
    else if (u->op == TG_OP_CAST) for (int p = 0; p < n; p++) r[p] = cast((tg_type)u->type, t, s[0][p]);
    else if (u->op == TG_OP_BITCAST) for (int p = 0; p < n; p++) r[p] = bitcast((tg_type)u->type, t, s[0][p]);
    else if (t == TG_F32) ok = on_f32((tg_op)u->op, s[0], s[1], s[2], r, n);
    else if (t == TG_F64) ok = on_f64((tg_op)u->op, s[0], s[1], s[2], r, n);
    else ok = !small(t) && on_integers((tg_op)u->op, t, s[0], s[1], r, n);
    if (!ok) return NULL;
  }
  return b->at[b->root->id];
}
