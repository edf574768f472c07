/* SPDX-License-Identifier: MIT
 * What must come out for gradients of attention, by plain C in doubles, from Q, K, V, O, LSE and dO as they are given:
 *
 *     P = exp(s - LSE)    dP = dO.V    delta = dO.O    dS = P (dP - delta) s' change
 *     dQ = sum over keys dS K    dK = sum over queries dS Q    dV = sum over queries P dO
 *
 * How far a kernel in f32 may be away, u = 2^-24, for a query and a key that it sees:
 * - P: exp turns the absolute error of its argument into a relative one: that of the score (attention_data.c), and 4 u
 *   of both terms of the difference, whose factors are rounded; and 4 u of its own. This is e.
 * - dP and delta: sums of E products, (2 sqrt(E) + 24) u of the sum of their sizes, since roundings add up as a random
 *   walk, with a few factors.
 * - s': by its own bound (tg_attended_slopes), times |dP| + |delta|.
 * - dS: its size times e and a few u, and P times what dP, delta and s' are away by.
 * - dQ, dK and dV: for each term what dS (or P) is away by, and sums of n terms, (2 sqrt(n) + 24) u of the sum of their
 *   sizes: dQ has as many as there are keys, dK and dV as there are queries of all heads of a group.
 * Where a weight is below 2^-126, a kernel may take it for 0. */
#include <math.h>
#include "checks/attended.h"

static const double u = 0x1p-24, log2e = 1.4426950408889634;

static double walk(int64_t n) { return u * (2 * sqrt((double)n) + 24); }

/* O and LSE of a head of a sequence, as a forward run rounds them. */
static void forward(const attended *p, int64_t b, int64_t h, const double *s, attended_gradients *out) {
  const tg_attention_desc *d = p->d;
  int64_t E = d->value_head;
  attended_row r = {tg_new(p->env, double, E), tg_new(p->env, double, E), .loose = tg_new(p->env, bool, E)};
  for (int64_t i = 0; i < p->nq[b]; i++) {
    int64_t row = h * p->total_q + p->q0[b] + i;
    tg_mark mark = tg_mark_get(p->env);
    tg_attended_row(p, b, h, i, s, NULL, &r);
    for (int64_t e = 0; e < E; e++) out->o[row * E + e] = tg_round_to(d->o, r.o[e]);
    out->lse[row] = (double)(float)r.lse;
    tg_mark_release(p->env, mark);
  }
}

/* A head of a sequence: its scores and their derivatives, and how far these may be away. */
typedef struct head { const attended *p; int64_t b, h; double *s, *s_away, *slope, *slope_away; } head;

/* What a query and a key add: to[e] += by * of[e], where `by` may be away. */
static void add(double *to, double *to_away, double by, double away, const double *of, int64_t n, double sum) {
  for (int64_t e = 0; e < n; e++) {
    double x = by * of[e];
    to[e] += x, to_away[e] += away * fabs(of[e]) + sum * fabs(x);
  }
}

static void add_row(const head *x, int64_t i, attended_gradients *out) {
  const attended *p = x->p;
  const tg_attention_desc *d = p->d;
  int64_t D = d->head, E = d->value_head, n = p->nk[x->b], group = d->heads / d->kv_heads,
          row = x->h * p->total_q + p->q0[x->b] + i, first = x->h / group * p->total_k + p->k0[x->b];
  const double *d_o = out->d_o + row * E, *o = out->o + row * E, lse = out->lse[row], base = d->base2 ? 1 : log2e,
               change = p->scale * base / log2e, of_keys = walk(n), of_rows = walk(p->nq[x->b] * group);
  const uint8_t *seen = p->seen[x->b * d->heads + x->h] + i * n;
  double delta = 0, size_of_delta = 0;
  if (!isfinite(lse)) return;   /* it sees no key */
  for (int64_t e = 0; e < E; e++) delta += d_o[e] * o[e], size_of_delta += fabs(d_o[e] * o[e]);
  for (int64_t j = 0; j < n; j++) {
    int64_t at = i * n + j, key = first + j;
    double s = x->s[at], slope = x->slope[at], by = 0, size = 0;
    if (!seen[j] || isinf(s)) continue;
    const double *v = p->v + key * E;
    for (int64_t e = 0; e < E; e++) by += d_o[e] * v[e], size += fabs(d_o[e] * v[e]);
    double kept = tg_attended_kept(p, x->b, x->h, i, j), weight = exp2((s - lse) * base),
           off = (x->s_away[at] + 4 * u * (fabs(lse) + fabs(s))) * base / log2e + 4 * u;
    by *= kept, size *= kept;
    double ds = weight * (by - delta) * slope * change,
           away = fabs(ds) * (off + 8 * u) +
                  weight * fabs(change) * (fabs(slope) * walk(E) * (size + size_of_delta) +
                                           x->slope_away[at] * (fabs(by) + fabs(delta)));
    add(out->want[ATTENDED_DQ] + row * D, out->away[ATTENDED_DQ] + row * D, ds, away, p->k + key * D, D, of_keys);
    add(out->want[ATTENDED_DK] + key * D, out->away[ATTENDED_DK] + key * D, ds, away, p->q + row * D, D, of_rows);
    add(out->want[ATTENDED_DV] + key * E, out->away[ATTENDED_DV] + key * E, weight * kept, weight * kept * off, d_o, E,
        of_rows);
  }
}

void tg_attended_gradients(attended *p, attended_gradients *out) {
  const tg_attention_desc *d = p->d;
  int64_t rows = d->heads * p->total_q, keys = d->kv_heads * p->total_k;
  const int64_t elements[ATTENDED_GRADIENTS] = {rows * d->head, keys * d->head, keys * d->value_head};
  out->o = tg_new(p->env, double, rows * d->value_head), out->d_o = tg_new(p->env, double, rows * d->value_head);
  out->lse = tg_new(p->env, double, rows);
  for (uint32_t t = 0; t < ATTENDED_GRADIENTS; t++)
    out->want[t] = tg_new(p->env, double, elements[t]), out->away[t] = tg_new(p->env, double, elements[t]);
  for (int64_t x = 0; x < rows * d->value_head; x++) out->d_o[x] = tg_draw_unit(&p->state, d->o);
  for (int64_t b = 0; b < p->which->batch; b++)
    for (int64_t h = 0; h < d->heads; h++) {
      int64_t all = p->nq[b] * p->nk[b];
      tg_mark mark = tg_mark_get(p->env);
      head x = {p, b, h, tg_new(p->env, double, all), tg_new(p->env, double, all), tg_new(p->env, double, all),
                tg_new(p->env, double, all)};
      tg_attended_scores(p, b, h, false, x.s, x.s_away);
      tg_attended_slopes(p, b, h, x.slope, x.slope_away);
      forward(p, b, h, x.s, out);
      for (int64_t i = 0; i < p->nq[b]; i++) add_row(&x, i, out);
      tg_mark_release(p->env, mark);
    }
}
