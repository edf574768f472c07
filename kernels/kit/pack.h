/* SPDX-License-Identifier: MIT
 * Packing a matrix of k rows by n columns before it is used: into panels of `panel` columns, each with all rows, as
 * [ceil(n / panel)][k][panel]. The last panel is padded with zeros. */
#ifndef TG_KIT_PACK_H
#define TG_KIT_PACK_H
#include "base/base.h"

/* The matrix to pack. down: elements from one row to the next; right: from one column to the next. */
typedef struct tg_kit_panels { int64_t n, k, panel, down, right; } tg_kit_panels;

/* Bytes of the packed matrix, whose elements have `unit` bytes; false: more than 2^62. */
bool tg_kit_packed_bytes(int64_t n, int64_t k, int64_t panel, int64_t unit, int64_t *bytes);
/* Packs elements of unit = 1, 2, 4 or 8 bytes. */
void tg_kit_pack(const tg_kit_panels *p, uint32_t unit, const void *from, void *to);
/* Packs 4-bit elements. In `from` element e is in byte e / 2, in the low bits if e is even. A panel consists of 32-bit
 * words, each with eight consecutive elements of one column, the first in the lowest bits; so a panel has
 * tg_kit_words(k) rows of words. */
static inline int64_t tg_kit_words(int64_t k) { return (k + 7) / 8; }
void tg_kit_pack_nibbles(const tg_kit_panels *p, const void *from, void *to);
#endif
