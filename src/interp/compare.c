/* SPDX-License-Identifier: MIT
 * Compares two results: bit for bit, or within the error that another order of summation may cause. */
#include <math.h>
#include <stdio.h>
#include "interp/interp.h"

static tg_value element(tg_type t, const void *data, size_t i) {
  uint64_t bits = 0;
  size_t bytes = t == TG_INDEX ? 8 : (size_t)tg_type_bytes(t);
  memcpy(&bits, (const char *)data + i * bytes, bytes);
  return tg_value_from_bits(t, bits);
}

static double number(tg_type t, tg_value v) { return tg_is_float(t) ? v.f : (double)v.i; }

/* Bits of the mantissa after the point, and the exponent of the smallest normal number. */
static void format_of(tg_type t, int *mantissa, int *least) {
  switch (t) {
  case TG_F16: *mantissa = 10, *least = -14; return;
  case TG_BF16: *mantissa = 7, *least = -126; return;
  case TG_F32: *mantissa = 23, *least = -126; return;
  case TG_E4M3: *mantissa = 3, *least = -6; return;
  case TG_E5M2: *mantissa = 2, *least = -14; return;
  default: *mantissa = 52, *least = -1022;
  }
}

static double ulp(tg_type t, double v) {
  int mantissa, least, e;
  format_of(t, &mantissa, &least);
  if (v == 0 || !isfinite(v)) return ldexp(1, least - mantissa);
  frexp(v, &e);
  return ldexp(1, (e - 1 < least ? least : e - 1) - mantissa);
}

/* The error of element i, and its bound. The error is infinite for values such as a NaN and a number. */
static void judge(const tg_comparison *c, tg_type wt, size_t i, double *error, double *bound) {
  tg_value g = element(c->type, c->got, i), w = element(wt, c->want, i);
  double a = number(c->type, g), b = number(wt, w);
  *bound = 0;
  if (c->exact || !tg_is_float(c->type)) {
    bool same = tg_is_float(c->type) && a != a ? b != b
                : c->type == wt                ? tg_value_bits(wt, g) == tg_value_bits(wt, w)
                                               : tg_is_float(c->type) == tg_is_float(wt) &&
                                      (tg_is_float(wt) ? a == b && !signbit(a) == !signbit(b) : g.i == w.i);
    double away = fabs(a - b);
    *error = same ? 0 : away > 0 ? away : INFINITY;
    return;
  }
  if (a != a || b != b || isinf(a) || isinf(b)) {
    /* a reference in a wider type may be beyond the range of got */
    double rounded = isfinite(b) ? tg_round_to(c->type, b) : b;
    *error = (a != a && b != b) || a == rounded ? 0 : INFINITY;
    return;
  }
  int mantissa, least;
  format_of(c->type, &mantissa, &least);
  double size = c->magnitude ? c->magnitude[i] : fabs(b);
  *bound = (2 * sqrt(c->terms) + 16) * ldexp(1, -mantissa - 1) * size + ulp(c->type, b);
  *error = fabs(a - b);
}

bool tg_compare(const tg_comparison *c, tg_difference *report) {
  tg_type wt = c->want_type == TG_VOID ? c->type : c->want_type;
  tg_difference d = {.ratio = -1};
  for (size_t i = 0; i < c->n; i++) {
    double error, bound;
    judge(c, wt, i, &error, &bound);
    bool wrong = !(error <= bound);
    double ratio = error == 0 ? 0 : bound > 0 ? error / bound : INFINITY;
    d.wrong += wrong;
    if (!(ratio > d.ratio) && !(ratio == d.ratio && error > d.error)) continue;
    d.worst = i;
    d.got = number(c->type, element(c->type, c->got, i));
    d.want = number(wt, element(wt, c->want, i));
    d.error = error;
    d.bound = bound;
    d.ratio = ratio;
  }
  if (!c->n) d.ratio = 0;
  if (report) *report = d;
  return !d.wrong;
}

int tg_difference_text(const tg_difference *d, size_t n, char *out, size_t bytes) {
  return snprintf(out, bytes, "%zu of %zu differ; worst at %zu: %.9g instead of %.9g (error %.3g, allowed %.3g)",
                  d->wrong, n, d->worst, d->got, d->want, d->error, d->bound);
}

double tg_block_error(tg_type type, const void *got, const double *want, size_t n) {
  enum { BLOCK = 64 };
  double most = 0;
  for (size_t from = 0; from < n; from += BLOCK) {
    double away = 0, size = 0;
    for (size_t i = from; i < n && i < from + BLOCK; i++) {
      double g = number(type, element(type, got, i)), w = want[i];
      if (isfinite(g) && isfinite(w)) {
        away = fmax(away, fabs(g - w));
        size = fmax(size, fabs(w));
      } else if (!(g != g && w != w) && g != (w != w ? w : tg_round_to(type, w))) return INFINITY;
    }
    if (away > 0) most = fmax(most, away / fmax(size, ulp(type, 0)));
  }
  return most;
}

double tg_block_bound(tg_type type, double unscheduled) {
  int mantissa, least;
  format_of(type, &mantissa, &least);
  return 2 * unscheduled + 2 * ldexp(1, -mantissa);
}
