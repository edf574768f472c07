/* SPDX-License-Identifier: MIT
 * Layouts of tiles: which register of which lane of which warp holds an element.
 *
 * An index along a dimension is split into mixed-radix digits, the lowest first. Each digit is one part, of a given
 * stride and size, of the register number, the lane number or the warp number. Lane or warp digits that belong to no
 * dimension are copies: all their values hold the same element.
 *
 * As text: "i = l4:8 r2:2, k = r1:2 l1:4 r4:2, * = l16:2". Here the lowest digit of i has 8 values and stride 4 in the
 * lane number, the next one 2 values and stride 2 in the register number; `*` lists the copies. docs/layouts.md draws
 * an example. */
#ifndef TG_LAYOUT_H
#define TG_LAYOUT_H
#include "base/base.h"

enum { TG_LAYOUT_DIMS = 4, TG_LAYOUT_DIGITS = 8 };
typedef enum { TG_IN_REG, TG_IN_LANE, TG_IN_THREAD, TG_PLACES } tg_layout_place;
typedef struct { uint8_t place; uint32_t stride, size; } tg_layout_digit;
typedef struct { char name; uint32_t n; tg_layout_digit digit[TG_LAYOUT_DIGITS]; } tg_dimension;
typedef struct { uint32_t rank; tg_dimension dim[TG_LAYOUT_DIMS], copies; } tg_layout;
typedef struct { uint32_t at[TG_PLACES]; } tg_slot;                  /* register, lane, warp */

/* False if the text is malformed. */
bool tg_layout_parse(const char *text, tg_layout *l);
/* The layout as text; returns the length like snprintf. */
size_t tg_layout_text(const tg_layout *l, char *out, size_t bytes);

uint32_t tg_layout_size(const tg_layout *l, uint32_t dim);            /* extent of a dimension */
uint32_t tg_layout_count(const tg_layout *l, tg_layout_place p);      /* registers, lanes or warps that it fills */
uint32_t tg_layout_copies(const tg_layout *l);                        /* slots that hold the same element */
/* Where an element lies. copy: which of its slots, from 0. */
tg_slot tg_layout_slot(const tg_layout *l, const uint32_t *element, uint32_t copy);
/* Which element a slot holds. */
void tg_layout_element(const tg_layout *l, tg_slot s, uint32_t *element);
/* Does each slot hold exactly one element, and is each element in exactly tg_layout_copies slots? */
bool tg_layout_is_whole(const tg_layout *l);
/* Do both have the same elements in the same slots, even if written with different digits? */
bool tg_layout_equal(const tg_layout *a, const tg_layout *b);
/* The layout of the result of a reduction over dim: lane and warp digits of dim become copies, its register digits
 * vanish and the remaining registers are renumbered. */
tg_layout tg_layout_slice(const tg_layout *l, uint32_t dim);
/* A tile `times` as long along dim: l repeated, by one more digit in registers. */
tg_layout tg_layout_repeat(const tg_layout *l, uint32_t dim, uint32_t times);

/* What it takes to convert a tile from layout `from` to layout `to`. */
typedef enum { TG_CONVERT_IDENTITY, TG_CONVERT_IN_LANE, TG_CONVERT_SHUFFLE, TG_CONVERT_LOCAL } tg_conversion_class;
typedef struct {
  tg_conversion_class class;
  uint32_t shuffles;             /* SHUFFLE: shuffles of one register each */
  uint32_t selects;              /* SHUFFLE: selections between shuffled registers */
  uint32_t stores, loads;        /* LOCAL: of one register each; two barriers come on top */
  uint32_t cost;                 /* in units of one register's arithmetic; 0: registers are only renamed */
} tg_conversion;
tg_conversion tg_layout_convert(const tg_layout *from, const tg_layout *to);
#endif
