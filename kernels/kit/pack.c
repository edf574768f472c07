/* SPDX-License-Identifier: MIT
 * Packing a matrix into panels. */
#include "kit/pack.h"

bool tg_kit_packed_bytes(int64_t n, int64_t k, int64_t panel, int64_t unit, int64_t *bytes) {
  if (__builtin_mul_overflow((n + panel - 1) / panel * panel, k, bytes) || *bytes >= ((int64_t)1 << 62) / unit)
    return false;
  *bytes *= unit;
  return true;
}

#define COPY(T)                                                           \
  for (int64_t j = 0; j < p->n; j += p->panel) {                          \
    int64_t wide = p->n - j < p->panel ? p->n - j : p->panel;             \
    T *out = (T *)to + j * p->k;                                          \
    for (int64_t k = 0; k < p->k; k++, out += p->panel) {                 \
      const T *in = (const T *)from + k * p->down + j * p->right;         \
      for (int64_t v = 0; v < wide; v++) out[v] = in[v * p->right];       \
      for (int64_t v = wide; v < p->panel; v++) out[v] = 0;               \
    }                                                                     \
  }

void tg_kit_pack(const tg_kit_panels *p, uint32_t unit, const void *from, void *to) {
  switch (unit) {
  case 1: COPY(uint8_t) break;
  case 2: COPY(uint16_t) break;
  case 4: COPY(uint32_t) break;
  default: COPY(uint64_t) break;
  }
}

void tg_kit_pack_nibbles(const tg_kit_panels *p, const void *from, void *to) {
  enum { WORD = 8 };
  const uint8_t *in = from;
  uint32_t *out = to;
  for (int64_t j = 0; j < p->n; j += p->panel)
    for (int64_t k = 0; k < p->k; k += WORD)
      for (int64_t v = j; v < j + p->panel; v++) {
        uint32_t word = 0;
        for (int64_t r = k; r < k + WORD && r < p->k && v < p->n; r++) {
          int64_t e = r * p->down + v * p->right;
          word |= (uint32_t)(in[e / 2] >> e % 2 * 4 & 15) << (r - k) * 4;
        }
        *out++ = word;
      }
}
