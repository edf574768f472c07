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

tg_sizes tg_sizes_of(tg_job *j, const tg_target *target, const tg_uop *program) {
  const double far = 0x1p31, last = target->l3 ? (double)target->l3 : 8 << 20;
  uint32_t n = j->params.n, count;
  bool open = false;
  for (uint32_t i = 0; i < n; i++) open |= j->params.data[i].lo < j->params.data[i].hi;
  if (!open) return (tg_sizes){0};
  int64_t *middle = tg_new(&j->env, int64_t, n), *low = tg_new(&j->env, int64_t, n),
          *high = tg_new(&j->env, int64_t, n);
  const tg_uop **order = tg_toposort(j, program, &count);
  for (double end = 1; end <= far; end *= 2) {
    for (uint32_t i = 0; i < n; i++) high[i] = value_at(&j->params.data[i], end);
    if (bytes_at(j, order, count, high) > 2 * last) break;
  }
  for (uint32_t i = 0; i < n; i++) {
    low[i] = value_at(&j->params.data[i], 1);
    middle[i] = value_at(&j->params.data[i], sqrt(fmax(1, (double)low[i]) * (double)high[i]));
  }
  return (tg_sizes){TG_SIZES, {middle, low, high}};
}
