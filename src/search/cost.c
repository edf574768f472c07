/* SPDX-License-Identifier: MIT
 * What a lowered program should cost. */
#include "search/cost.h"

tg_cost tg_cost_of(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params, int threads) {
  (void)j, (void)target, (void)linear, (void)params, (void)threads;
  return (tg_cost){0};
}
