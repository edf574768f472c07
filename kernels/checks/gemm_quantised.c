/* SPDX-License-Identifier: MIT
 * Quantised weights of 4 and 8 bits for the checks, by plain C: their integers, scales and zero points, their values,
 * and their layout in memory. */
#include <math.h>
#include "checks/product.h"

static double least_of(double a, double b) { return a < b ? a : b; }

/* The largest integer q of a quantised B. */
static double largest_of(const tg_gemm_problem *q) { return ldexp(1, q->bits - (q->b == TG_I8)) - 1; }

static double any_number(check_product *p) {
  int64_t n = (int64_t)1 << p->problem->bits;
  return (double)(int64_t)(tg_draw(&p->state) % (uint64_t)n) - (p->problem->b == TG_I8 ? (double)(n / 2) : 0);
}

double tg_check_fill_quantised(check_product *p, double room) {
  const tg_gemm_problem *q = p->problem;
  const tg_check_case *w = &p->which;
  int64_t group = q->group ? q->group : w->k, n = w->n;
  double each = room / (double)w->k, most = fmax(1, floor(sqrt(each) / 4)), number = least_of(most, largest_of(q)),
         zero = q->zero ? least_of(most, 7) : 0, unit = 2 * (number + zero);
  p->groups = (w->k + group - 1) / group;
  p->whole = tg_new(p->env, double, w->k * n), p->b_size = tg_new(p->env, double, w->k * n);
  p->scale = tg_new(p->env, double, p->groups * n), p->zero = tg_new(p->env, double, p->groups * n);
  for (int64_t i = 0; i < p->groups * n; i++) {
    p->scale[i] = room > 0 ? tg_draw_whole(&p->state, q->scale, 2) : tg_draw_unit(&p->state, q->scale);
    if (q->zero)
      p->zero[i] = room > 0               ? tg_draw_whole(&p->state, q->zero, (int64_t)zero)
                   : tg_is_float(q->zero) ? 8 * tg_draw_unit(&p->state, q->zero)
                                          : tg_draw_whole(&p->state, q->zero, 15);
  }
  for (int64_t k = 0; k < w->k; k++)
    for (int64_t j = 0; j < n; j++) {
      int64_t i = k * n + j, g = k / group * n + j;
      p->whole[i] = room > 0 ? tg_draw_whole(&p->state, q->b, (int64_t)number) : any_number(p);
      p->b[i] = p->scale[g] * (p->whole[i] - p->zero[g]);
      p->b_size[i] = fabs(p->scale[g]) * (fabs(p->whole[i]) + fabs(p->zero[g]));
    }
  return each / unit >= 1 ? floor(each / unit) : each / unit;
}

/* Index of the byte that holds the 4-bit element k,j; *high: it is in the high half. */
static size_t nibble(const check_product *p, int64_t ld, int64_t k, int64_t j, bool *high) {
  int64_t panel = p->problem->panel, e = p->problem->b_major == TG_GEMM_COLUMN ? j * ld + k : k * ld + j;
  if (panel) e = ((j / panel * ((p->which.k + 7) / 8) + k / 8) * panel + j % panel) * 8 + k % 8;
  *high = e % 2;
  return (size_t)(e / 2);
}

static size_t byte(const check_product *p, int64_t ld, int64_t k, int64_t j) {
  int64_t panel = p->problem->panel;
  return (size_t)(panel                                   ? (j / panel * p->which.k + k) * panel + j % panel
                  : p->problem->b_major == TG_GEMM_COLUMN ? j * ld + k
                                                          : k * ld + j);
}

size_t tg_check_lay_weights(const check_product *p, int64_t ld, uint8_t *out) {
  int64_t K = p->which.k, n = p->which.n, panel = p->problem->panel, wide = panel ? (n + panel - 1) / panel * panel : 0;
  bool high, four = p->problem->bits == 4;
  if (!out && panel) return (size_t)(four ? wide * ((K + 7) / 8) * 4 : wide * K);
  if (!out) return 1 + (four ? nibble(p, ld, K - 1, n - 1, &high) : byte(p, ld, K - 1, n - 1));
  for (int64_t k = 0; k < K; k++)
    for (int64_t j = 0; j < n; j++) {
      uint8_t v = (uint8_t)(int64_t)p->whole[k * n + j];
      if (!four) out[byte(p, ld, k, j)] = v;
      else {
        uint8_t *to = out + nibble(p, ld, k, j, &high);
        *to = (uint8_t)(high ? (*to & 15) | v << 4 : (*to & 0xf0) | (v & 15));
      }
    }
  return 0;
}
