/* SPDX-License-Identifier: MIT
 * Layouts of tiles: which register of which lane of which thread holds an element.
 *
 * Each dimension is a mixed-radix list of digits, the lowest first; each digit lies in the register number, the lane or
 * the warp
 * of the workgroup, at a stride. Digits of lanes and warps that no dimension has are copies: every value of theirs
 * holds the same.
 * As text: "i = l4:8 r2:2, k = r1:2 l1:4 r4:2, * = l16:2" (place, stride, size; `*` for copies). docs/layouts.md draws
 * one. */
#ifndef TG_LAYOUT_H
#define TG_LAYOUT_H
#include "base/base.h"

enum { TG_LAYOUT_DIMS = 4, TG_LAYOUT_DIGITS = 8 };
typedef enum { TG_IN_REG, TG_IN_LANE, TG_IN_THREAD, TG_PLACES } tg_layout_place;
typedef struct { uint8_t place; uint32_t stride, size; } tg_layout_digit;
typedef struct { char name; uint32_t n; tg_layout_digit digit[TG_LAYOUT_DIGITS]; } tg_dimension;
typedef struct { uint32_t rank; tg_dimension dim[TG_LAYOUT_DIMS], copies; } tg_layout;
typedef struct { uint32_t at[TG_PLACES]; } tg_slot;                  /* register, lane, warp */

/* False if the text is none. */
bool tg_layout_parse(const char *text, tg_layout *l);
/* The text again; the length as of snprintf. */
size_t tg_layout_text(const tg_layout *l, char *out, size_t bytes);

uint32_t tg_layout_size(const tg_layout *l, uint32_t dim);            /* extent of a dimension */
uint32_t tg_layout_count(const tg_layout *l, tg_layout_place p);      /* registers, lanes or warps that it fills */
uint32_t tg_layout_copies(const tg_layout *l);                        /* slots of each element */
/* Where an element lies; copy counts its slots. */
tg_slot tg_layout_slot(const tg_layout *l, const uint32_t *element, uint32_t copy);
/* Which element a slot holds. */
void tg_layout_element(const tg_layout *l, tg_slot s, uint32_t *element);
/* Each slot holds one element, and each element is in as many slots as there are copies. */
bool tg_layout_is_whole(const tg_layout *l);
/* The same elements in the same slots, however the digits are written. */
bool tg_layout_equal(const tg_layout *a, const tg_layout *b);
/* Without a dimension: what a reduction over it leaves, its digits in lanes and warps as copies. Registers are
 * counted anew. */
tg_layout tg_layout_slice(const tg_layout *l, uint32_t dim);
/* A tile of times as many elements along the dimension, behind each other: one more digit in registers. */
tg_layout tg_layout_repeat(const tg_layout *l, uint32_t dim, uint32_t times);

/* What it takes to read a tile of layout `from` as one of layout `to`. */
typedef enum { TG_CONVERT_IDENTITY, TG_CONVERT_IN_LANE, TG_CONVERT_SHUFFLE, TG_CONVERT_LOCAL } tg_conversion_class;
typedef struct {
  tg_conversion_class class;
  uint32_t shuffles;             /* SHUFFLE: of a register each, the fewest that this way takes */
  uint32_t selects;              /* among registers shuffled */
  uint32_t stores, loads;        /* LOCAL: of a register each; and two barriers */
  uint32_t cost;                 /* comparable with one register's arithmetic: 0 where names change only */
} tg_conversion;
tg_conversion tg_layout_convert(const tg_layout *from, const tg_layout *to);
#endif
