/* SPDX-License-Identifier: MIT
 * cvt (PTX ISA, "cvt"), and floats of 8 and 16 bits. */
#include <math.h>
#include <string.h>
#include "machine.h"

/* Bits of the mantissa, and the exponent of the smallest normal number. */
typedef struct { int mantissa, least, most; } format;

static format format_of(ptx_type t) {
  switch (t) {
  case PTX_F16:
  case PTX_F16X2: return (format){10, -14, 15};
  case PTX_BF16:
  case PTX_BF16X2: return (format){7, -126, 127};
  case PTX_E5M2: return (format){2, -14, 15};
  case PTX_E4M3: return (format){3, -6, 8};
  default: return (format){23, -126, 127};
  }
}

double ptx_to_double(ptx_type t, uint64_t bits) {
  float f;
  double d;
  uint32_t b = (uint32_t)bits;
  if (t == PTX_F64) {
    memcpy(&d, &bits, 8);
    return d;
  }
  if (t == PTX_BF16) b <<= 16;
  if (t == PTX_TF32) b &= ~(uint32_t)0x1fff;
  if (t == PTX_F32 || t == PTX_BF16 || t == PTX_TF32) {
    memcpy(&f, &b, 4);
    return f;
  }
  format x = format_of(t);
  uint32_t width = ptx_bits[t], exponent = (b & ((1u << (width - 1)) - 1)) >> x.mantissa, low = b & ((1u << x.mantissa) - 1), all = (1u << (width - 1 - (uint32_t)x.mantissa)) - 1;
  if (t == PTX_E4M3 ? exponent == all && low == 7 : exponent == all) d = low ? (double)NAN : (double)INFINITY;
  else d = exponent ? ldexp((1 << x.mantissa) + (int)low, (int)exponent - 1 + x.least - x.mantissa) : ldexp(low, x.least - x.mantissa);
  return b >> (width - 1) & 1 ? -d : d;
}

uint64_t ptx_round(ptx_type t, double v, int odd_below) {
  format x = format_of(t);
  uint64_t sign = signbit(v) ? (uint64_t)1 << (t == PTX_F32 || t == PTX_TF32 ? 31 : ptx_bits[t] - 1) : 0, bits;
  int e, infinite = x.most - x.least + 2;
  if (t == PTX_F64) {
    memcpy(&bits, &v, 8);
    return v != v ? 0x7fffffffffffffff : bits;
  }
  if (v != v) return t == PTX_F32 ? 0x7fffffff : 0x7fff;
  if (isinf(v)) return sign | (uint64_t)infinite << x.mantissa;
  double a = fabs(v);
  frexp(a, &e);
  int unit = (a == 0 || e - 1 < x.least ? x.least : e - 1) - x.mantissa;
  double scaled = ldexp(a, -unit), whole = floor(scaled), rest = scaled - whole;
  bool up = rest > 0.5 || (rest == 0.5 && (odd_below ? odd_below > 0 : fmod(whole, 2) != 0));
  uint64_t units = (uint64_t)whole + up;   /* a carry goes on into the exponent */
  bits = units + ((uint64_t)(unit + x.mantissa - x.least) << x.mantissa);
  if (bits >= (uint64_t)infinite << x.mantissa) bits = (uint64_t)infinite << x.mantissa;
  return sign | bits;
}

/* ---- cvt ---- */

static double rounded(const ptx_instruction *i, double v) {
  switch (i->field[FIELD_ROUND]) {
  case ROUND_RNI:
  case ROUND_RN: return nearbyint(v);
  case ROUND_RMI:
  case ROUND_RM: return floor(v);
  case ROUND_RPI:
  case ROUND_RP: return ceil(v);
  default: return trunc(v);
  }
}

/* To an integer: out of range is the nearest that there is, NaN is 0. */
static uint64_t to_integer(const ptx_instruction *i, ptx_type t, double v) {
  uint32_t bits = ptx_bits[t];
  double least = ptx_is_signed(t) ? -ldexp(1, (int)bits - 1) : 0, beyond = ldexp(1, (int)bits - ptx_is_signed(t));
  v = rounded(i, v);
  if (v != v) return 0;
  if (v < least) v = least;
  if (v >= beyond) return ptx_mask(bits - ptx_is_signed(t));
  return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t from_integer(ptx_type t, ptx_type from, uint64_t v) {
  int64_t s = (int64_t)v;
  float f = ptx_is_signed(from) ? (float)s : (float)v;
  double d = ptx_is_signed(from) ? (double)s : (double)v;
  uint32_t b;
  uint64_t w;
  if (t == PTX_F32) {
    memcpy(&b, &f, 4);
    return b;
  }
  if (t == PTX_F64) {
    memcpy(&w, &d, 8);
    return w;
  }
  /* beyond 2^53 every 16-bit float is far below half of a unit away from its neighbours, or infinite */
  return ptx_round(t, d, 0);
}

static uint64_t between_floats(ptx_machine *m, const ptx_instruction *i, ptx_type t, ptx_type from, uint64_t v) {
  double d = ptx_to_double(from, v);
  uint32_t how = i->field[FIELD_ROUND], b;
  uint64_t w;
  if (how >= ROUND_RNI) d = rounded(i, d);
  else if (how > ROUND_RN) ptx_fault(m, "this rounding is not known here");
  if (i->field[FIELD_RELU] && d < 0) d = 0;
  if (t == PTX_F64) {
    memcpy(&w, &d, 8);
    return d != d ? 0x7fffffffffffffff : w;
  }
  if (t == PTX_F32) {
    float f = (float)d;
    memcpy(&b, &f, 4);
    return f != f ? 0x7fffffff : b;
  }
  return ptx_round(t, d, 0);
}

static uint64_t between_integers(const ptx_instruction *i, ptx_type t, ptx_type from, uint64_t v) {
  uint32_t bits = ptx_bits[t];
  if (!i->field[FIELD_SAT]) return v & ptx_mask(ptx_bits[t]);
  __int128 x = ptx_is_signed(from) ? (__int128)(int64_t)v : (__int128)v, least = ptx_is_signed(t) ? -((__int128)1 << (bits - 1)) : 0, most = (__int128)ptx_mask(bits - ptx_is_signed(t));
  return (uint64_t)(x < least ? least : x > most ? most : x);
}

static uint64_t converted(ptx_machine *m, const ptx_instruction *i, ptx_type t, ptx_type from, uint64_t v) {
  if (ptx_is_float(from)) {
    if (ptx_is_float(t)) return between_floats(m, i, t, from, v);
    /* NaN of f64 to an integer of 64 bits: 2^63 ("cvt") for targets before; 0 is what all others give */
    return to_integer(i, t, ptx_to_double(from, v));
  }
  v = ptx_is_signed(from) ? (uint64_t)ptx_extend(v, ptx_bits[from]) : v & ptx_mask(ptx_bits[from]);
  return ptx_is_float(t) ? from_integer(t, from, v) : between_integers(i, t, from, v);
}

/* cvt.rn.f16x2.f32 d, a, b: a is the upper half. */
static void pair(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  ptx_type t = i->type[0] == PTX_F16X2 ? PTX_F16 : PTX_BF16;
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0);
  const uint64_t *a = ptx_row(m, w, &i->operand[1], 0), *b = ptx_row(m, w, &i->operand[2], 0);
  PTX_EACH(on, lane) to[lane] = converted(m, i, t, i->type[1], b[lane]) | converted(m, i, t, i->type[1], a[lane]) << 16;
}

void ptx_execute_cvt(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0);
  const uint64_t *from = ptx_row(m, w, &i->operand[1], 0);
  m->lane = (uint32_t)__builtin_ctz(on);
  if (i->types == 2 && i->operands == 3 && (i->type[0] == PTX_F16X2 || i->type[0] == PTX_BF16X2) && i->type[1] == PTX_F32) {
    pair(m, w, i, on);
    return;
  }
  if (i->types != 2 || i->operands != 2 || (ptx_is_float(i->type[0]) && ptx_bits[i->type[0]] == 8)) ptx_fault(m, "no meaning");
  ptx_type t = i->type[0];   /* a signed result fills the register, however wide that is */
  PTX_EACH(on, lane) {
    uint64_t v = converted(m, i, t, i->type[1], from[lane]);
    to[lane] = ptx_is_signed(t) ? (uint64_t)ptx_extend(v, ptx_bits[t]) : v;
  }
}
