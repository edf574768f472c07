/* SPDX-License-Identifier: MIT
 * What tests of drawn programs share: numbers drawn from the seed of their state r, and calls that must succeed. */
#ifndef TG_TEST_DRAWN_H
#define TG_TEST_DRAWN_H
#include <stdint.h>
#include "../fine.h"

static inline uint32_t test_draw(uint32_t *seed, uint32_t n) {
  return (uint32_t)((uint64_t)(*seed = *seed * 1664525u + 1013904223u) * n >> 32);
}
#define draw(r, n) test_draw(&(r)->seed, n)
#endif
