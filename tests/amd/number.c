/* SPDX-License-Identifier: MIT
 * Small floats, and numbers as bits. */
#include <math.h>
#include <string.h>
#include "machine.h"

float amd_single(uint32_t b) {
  float f;
  memcpy(&f, &b, 4);
  return f;
}
uint32_t amd_single_bits(float f) {
  uint32_t b = 0x7fc00000;
  if (f == f) memcpy(&b, &f, 4);
  return b;
}
double amd_double(uint64_t b) {
  double f;
  memcpy(&f, &b, 8);
  return f;
}
uint64_t amd_double_bits(double f) {
  uint64_t b = 0x7ff8000000000000;
  if (f == f) memcpy(&b, &f, 8);
  return b;
}

/* A float of `exponent` and `mantissa` bits with this bias; the types differ in what their topmost codes mean. */
static double small(uint32_t bits, int exponent, int mantissa, int bias) {
  int e = (int)(bits >> mantissa) & ((1 << exponent) - 1), f = (int)bits & ((1 << mantissa) - 1);
  double v = e ? ldexp(1 + ldexp(f, -mantissa), e - bias) : ldexp(f, 1 - bias - mantissa);
  return bits >> (exponent + mantissa) & 1 ? -v : v;
}

double amd_half(uint32_t b) {
  if ((b >> 10 & 31) == 31) return b & 1023 ? (double)NAN : b >> 15 & 1 ? -(double)INFINITY : (double)INFINITY;
  return small(b & 0xffff, 5, 10, 15);
}

double amd_small(char type, uint32_t b) {
  switch (type) {
  case 'b': return (double)amd_single(b << 16);
  case '4': return (b & 127) == 127 ? (double)NAN : small(b & 255, 4, 3, 7);
  case '5': return (b & 124) == 124 ? (b & 3 ? (double)NAN : b & 128 ? -(double)INFINITY : (double)INFINITY) : small(b & 255, 5, 2, 15);
  case 'n': return (b & 255) == 128 ? (double)NAN : small(b & 255, 4, 3, 8);
  case 'z': return (b & 255) == 128 ? (double)NAN : small(b & 255, 5, 2, 16);
  default: return amd_half(b);
  }
}

/* To nearest even; odd_below: the value lies a little above v in magnitude, if it is > 0, or below, if < 0. */
uint32_t amd_round_half(double v, int odd_below, bool to_zero) {
  uint32_t sign = signbit(v) ? 0x8000 : 0;
  int e;
  if (v != v) return 0x7e00;
  v = fabs(v);
  if (isinf(v)) return sign | 0x7c00;
  frexp(v, &e);
  int unit = e - 11 < -24 ? -24 : e - 11;       /* of the last place */
  double scaled = ldexp(v, -unit), down = floor(scaled), rest = scaled - down;
  bool up = rest > 0.5 || (rest == 0.5 && (odd_below > 0 || (!odd_below && fmod(down, 2) != 0)));
  if (to_zero) up = false;
  double r = ldexp(down + up, unit);
  if (r >= 65536) return sign | (to_zero ? 0x7bff : 0x7c00);
  if (r < ldexp(1, -14)) return sign | (uint32_t)ldexp(r, 24);
  frexp(r, &e);
  return sign | ((uint32_t)(e + 14) << 10) | ((uint32_t)ldexp(r, 11 - e) & 1023);
}

uint32_t amd_round_bf16(float f) {
  uint32_t b = amd_single_bits(f);
  return f != f ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
