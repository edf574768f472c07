/* SPDX-License-Identifier: MIT
 * Hashing and the clock. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/base.h"

uint64_t tg_hash(const void *data, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(data, n, seed); }

tg_hash128 tg_hash_wide(const void *data, size_t n) {
  XXH128_hash_t h = XXH3_128bits(data, n);
  return (tg_hash128){h.low64, h.high64};
}

double tg_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
