/* SPDX-License-Identifier: MIT
 * The sizes that a program is judged at whose parameters are open until the call. */
#include <math.h>
#include "model/sizes.h"
#include "model/work.h"

/* The value of a parameter that is nearest to x, from below where there is one. */
static int64_t value_at(const tg_param *p, double x) {
  int64_t step = p->multiple > 1 ? p->multiple : 1, least = (p->lo + step - 1) / step * step,
          v = x >= (double)p->hi ? p->hi : x < (double)least ? least : (int64_t)x;
  v -= v % step;
  return v < least ? least : v;
}

/* Bytes of all buffers, at these parameters. */
static double bytes_at(tg_job *j, const tg_uop *const *order, uint32_t n, const int64_t *params) {
  double all = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_DEFINE) continue;
    double bytes = tg_type_bytes(order[i]->type);
    for (uint32_t d = 0; d < tg_buffer_info(j, order[i])->rank; d++) {
      tg_i128 extent = tg_bounds_of(j, tg_with_params(j, order[i]->src[d], params)).hi;
      bytes *= extent < 1 ? 1 : extent > (tg_i128)1 << 50 ? 0x1p50 : (double)extent;
    }
    all += bytes;
  }
  return all;
}

/* One of four launches: bit i % 2 of `at` says which end the i-th open parameter has. If there is one alone, bit 1 says
 * whether it is the end itself or halfway (by ratio) to the middle. */
typedef struct { uint32_t n, open; const int64_t *low, *middle, *high; } ends;

static int64_t *corner(tg_job *j, const ends *e, uint32_t at) {
  int64_t *params = tg_new(&j->env, int64_t, e->n);
  uint32_t k = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    const tg_param *p = &j->params.data[i];
    bool open = p->lo < p->hi, up = at >> (k % 2) & 1, half = e->open == 1 && at >> 1 & 1;
    params[i] = !open ? p->lo : up ? e->high[i] : e->low[i];
    if (open && half) params[i] = value_at(p, sqrt(fmax(1, (double)params[i]) * fmax(1, (double)e->middle[i])));
    k += open;
  }
  return params;
}

tg_sizes tg_sizes_of(tg_job *j, const tg_target *target, const tg_uop *program) {
  const double far = 0x1p31, last = target->l3 ? (double)target->l3 : 8 << 20;
  uint32_t n = j->params.n, count;
  tg_sizes out = {0};
  int64_t *middle = tg_new(&j->env, int64_t, n + 1), *low = tg_new(&j->env, int64_t, n + 1),
          *high = tg_new(&j->env, int64_t, n + 1);
  ends e = {.n = n, .low = low, .middle = middle, .high = high};
  for (uint32_t i = 0; i < n; i++) e.open += j->params.data[i].lo < j->params.data[i].hi;
  if (!e.open) return out;
  const tg_uop **order = tg_toposort(j, program, &count);
  for (double end = 1; end <= far; end *= 2) {
    for (uint32_t i = 0; i < n; i++) high[i] = value_at(&j->params.data[i], end);
    if (bytes_at(j, order, count, high) > 2 * last) break;
  }
  for (uint32_t i = 0; i < n; i++) {
    low[i] = value_at(&j->params.data[i], 1);
    middle[i] = value_at(&j->params.data[i], sqrt(fmax(1, (double)low[i]) * (double)high[i]));
  }
  out.params[out.n++] = middle;
  for (uint32_t at = 0; at < 4; at++) {
    const int64_t *params = corner(j, &e, at);
    bool known = false;
    for (uint32_t i = 0; i < out.n; i++) known |= !memcmp(out.params[i], params, n * sizeof *params);
    if (!known) out.params[out.n++] = params;
  }
  return out;
}
