/* SPDX-License-Identifier: MIT
 * Data of products in benches, and whether a C is right: whole numbers, so every order of summation gives the same; C x
 * = A (B x). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/product.h"

size_t bench_bytes(tg_type t) {
  return t == TG_F64 ? 8 : t == TG_F32 || t == TG_I32 ? 4 : t == TG_F16 || t == TG_BF16 ? 2 : 1;
}

static uint32_t random_next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

/* Numbers of -3..4: exact in every type. */
static void put(tg_type t, void *x, size_t i, int v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  switch (t) {
  case TG_F64: ((double *)x)[i] = v; return;
  case TG_F32: ((float *)x)[i] = f; return;
  case TG_BF16: ((uint16_t *)x)[i] = (uint16_t)(bits >> 16); return;
  case TG_F16:
    ((uint16_t *)x)[i] =
        v ? (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023)) : 0;
    return;
  default: ((int8_t *)x)[i] = (int8_t)v;
  }
}

static double at(tg_type t, const void *x, size_t i) {
  uint32_t h, bits;
  float f;
  switch (t) {
  case TG_F64: return ((const double *)x)[i];
  case TG_F32: return (double)((const float *)x)[i];
  case TG_I32: return ((const int32_t *)x)[i];
  case TG_I8: return ((const int8_t *)x)[i];
  case TG_U8: return ((const uint8_t *)x)[i];
  case TG_BF16: bits = (uint32_t)((const uint16_t *)x)[i] << 16; break;
  default:   /* f16; sums of whole numbers are no subnormals */
    h = ((const uint16_t *)x)[i];
    bits = (h & 0x8000) << 16 | ((h & 0x7fff) ? (h & 0x7c00) == 0x7c00 ? 0x7f800000 | (h & 1023) << 13
                                                                       : ((h >> 10 & 31) + 112) << 23 | (h & 1023) << 13
                                              : 0);
  }
  memcpy(&f, &bits, 4);
  return (double)f;
}

/* To nearest even with so many bits. */
static double rounded(double v, int bits) {
  int e;
  frexp(v, &e);
  double unit = ldexp(1, e - bits);
  return v == 0 ? 0 : rint(v / unit) * unit;
}

void bench_fill(tg_type t, void *x, size_t n, uint32_t seed) {
  int low = t == TG_U8 ? 0 : -3;
  for (size_t i = 0; i < n; i++) put(t, x, i, (int)(random_next(&seed) >> 16 & 7) + low);
}

static size_t place(int i, int j, int ld, int step, bool turned) {
  return (size_t)(turned ? j : i) * (size_t)ld + (size_t)(turned ? i : j) * (size_t)(step ? step : 1);
}

/* out = M x, in the order that M lies in memory. */
static void times(tg_type t, const void *m, int rows, int columns, int ld, int step, bool turned, const double *x,
                  double *out) {
  memset(out, 0, sizeof *out * (size_t)rows);
  for (int p = 0; p < (turned ? columns : rows); p++)
    for (int q = 0; q < (turned ? rows : columns); q++) {
      size_t where = place(p, q, ld, step, false);
      double v = t == TG_F32 ? (double)((const float *)m)[where] : at(t, m, where);
      out[turned ? q : p] += v * x[turned ? p : q];
    }
}

/* C that rounds its sums: some elements of some rows. */
static bool rows_verified(const bench_product *p, int bits) {
  for (int i = 0; i < p->m; i += 1 + p->m / 11)
    for (int j = 0; j < p->n; j += 1 + p->n / 61) {
      double s = 0;
      for (int k = 0; k < p->k; k++)
        s += at(p->type->a, p->a, place(i, k, p->lda, p->step, p->ta)) *
             at(p->type->b, p->b, place(k, j, p->ldb, p->step, p->tb));
      if (at(p->type->c, p->c, place(i, j, p->ldc, p->step, false)) != rounded(s, bits)) return false;
    }
  return true;
}

/* x, and A (B x), which C x must be; NULL: no memory. */
double *bench_sums(const bench_product *p) {
  double *x = calloc((size_t)p->n + (size_t)p->m + (size_t)p->k, sizeof *x);
  uint32_t seed = 77;
  if (!x) return NULL;
  for (int j = 0; j < p->n; j++) x[j] = (double)((int)(random_next(&seed) >> 12 & 0xfffff) - 0x80000);
  times(p->type->b, p->b, p->k, p->n, p->ldb, p->step, p->tb, x, x + p->n + p->m);
  times(p->type->a, p->a, p->m, p->k, p->lda, p->step, p->ta, x + p->n + p->m, x + p->n);
  return x;
}

bool bench_verified(const bench_product *p, const double *sums) {
  if (p->type->c == TG_F16 || p->type->c == TG_BF16) return rows_verified(p, p->type->c == TG_F16 ? 11 : 8);
  double *got = calloc((size_t)p->m, sizeof *got);
  bool good = got && sums;
  if (good) times(p->type->c, p->c, p->m, p->n, p->ldc, p->step, false, sums, got);
  for (int i = 0; good && i < p->m; i++) good = got[i] == sums[p->n + i];
  free(got);
  return good;
}

void bench_poison(const bench_product *p) {
  memset(p->c, 0xff, (size_t)p->m * (size_t)p->ldc * bench_bytes(p->type->c));
}
