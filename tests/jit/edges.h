/* SPDX-License-Identifier: MIT
 * The boundary values of each type, for tests of ops. */
#ifndef TG_TEST_JIT_EDGES_H
#define TG_TEST_JIT_EDGES_H
#include <math.h>
#include "dsl/value.h"

static const double float_edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, 65504, 65520, 1e30, -1e30, 2147483647.0, 2147483648.0, -2147483649.0,
                                     9.3e18, 1.9e19, 255.5, 256, -129, 1e-40, 1e-310, 5e-324, 3.3895e38, 1.7e308, INFINITY, -INFINITY, NAN, 0.1, -7.75, 1 + 0x1p-11 + 0x1p-40,
                                     1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-30};   /* ties of bf16, and nearly */
static const int64_t int_edges[] = {0, 1, -1, 2, 3, -3, 5, 7, 8, 31, 32, 63, 64, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2147483647, -2147483648LL,
                                    4294967295LL, INT64_MAX, INT64_MIN, 16777217, 9007199254740993LL, -9007199254740993LL, 2049, 0x7fffffffffffff00LL,
                                    (1LL << 60) + (1LL << 36) + 1, -(1LL << 60) - (3LL << 36) + 1, (1LL << 60) + (1LL << 52) + 1, -(1LL << 60) - (3LL << 52) + 1};   /* nearly ties of f32, of bf16 */

/* Each once; the most are 64. */
static inline uint32_t edges(tg_type t, tg_value *v) {
  uint32_t n = 0;
  if (tg_is_float(t))
    for (uint32_t i = 0; i < TG_COUNT(float_edges); i++) v[n++].f = tg_round_to(t, float_edges[i]);
  else
    for (uint32_t i = 0; i < TG_COUNT(int_edges); i++) v[n++].i = tg_wrap(t, int_edges[i]);
  uint32_t kept = 0; /* each once */
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = 0;
    for (; k < kept && tg_value_bits(t, v[k]) != tg_value_bits(t, v[i]); k++) {}
    if (k == kept) v[kept++] = v[i];
  }
  return kept;
}
#endif
