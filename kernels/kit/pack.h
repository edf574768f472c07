/* SPDX-License-Identifier: MIT
 * A matrix packed ahead as plain data: panels of so many columns, each with all rows, [n / panel][k][panel], zeros
 * behind n. */
#ifndef TG_KIT_PACK_H
#define TG_KIT_PACK_H
#include "base/base.h"

/* Of the matrix that is packed, of k rows by n columns: elements from a row to the next, from a column to the next. */
typedef struct tg_kit_panels { int64_t n, k, panel, down, right; } tg_kit_panels;

/* Bytes of k rows of n columns in units of so many bytes; false: past 2^62. */
bool tg_kit_packed_bytes(int64_t n, int64_t k, int64_t panel, int64_t unit, int64_t *bytes);
/* Elements of 1, 2, 4 or 8 bytes. */
void tg_kit_pack(const tg_kit_panels *p, uint32_t unit, const void *from, void *to);
/* Elements of four bits, element e in byte e / 2, in the low bits where e is even: a word of 32 bits has eight of a
 * column, the first in the lowest bits, and is the unit of a panel; there are tg_kit_words(k) rows of them. */
static inline int64_t tg_kit_words(int64_t k) { return (k + 7) / 8; }
void tg_kit_pack_nibbles(const tg_kit_panels *p, const void *from, void *to);
#endif
