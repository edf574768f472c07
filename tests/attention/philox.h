/* SPDX-License-Identifier: MIT
 * Dropout as tg/attention.h defines it, in plain steps: Philox4x32-10, and what a weight is multiplied by. */
#ifndef TEST_ATTENTION_PHILOX_H
#define TEST_ATTENTION_PHILOX_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline void philox(const uint32_t counter[4], uint64_t seed, uint32_t out[4]) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  memcpy(out, counter, 4 * sizeof *out);
  for (int round = 0; round < 10; round++, key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u) {
    uint64_t x = (uint64_t)out[0] * 0xD2511F53u, y = (uint64_t)out[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(y >> 32) ^ out[1] ^ key[0], (uint32_t)y, (uint32_t)(x >> 32) ^ out[3] ^ key[1], (uint32_t)x};
    memcpy(out, next, sizeof next);
  }
}

static inline double philox_kept(double dropout, uint64_t seed, uint32_t offset, int64_t stream, int64_t query, int64_t key) {
  const uint32_t counter[4] = {(uint32_t)(key / 8), (uint32_t)query, (uint32_t)stream, offset};
  uint32_t words[4];
  double share = rint(dropout * 65536);
  philox(counter, seed, words);
  return (double)(words[key % 8 / 2] >> 16 * (key % 2) & 65535) < share ? 0 : 65536 / (65536 - share);
}
#endif
