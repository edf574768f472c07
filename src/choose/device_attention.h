/* SPDX-License-Identifier: MIT
 * Attention as the first choices for targets with warps see it: a loop over blocks of keys with two products. */
#ifndef TG_CHOOSE_DEVICE_ATTENTION_H
#define TG_CHOOSE_DEVICE_ATTENTION_H
#include "choose/device.h"

/* a: the load that moves with rows; b: with columns. */
typedef struct { const tg_uop *store, *sum, *rows, *columns, *a, *b; } tg_key_product;

typedef struct {
  tg_nest *n;
  int bits;                        /* of the operands' floats; 0: any */
  const tg_uop *keys;              /* the range over blocks of keys */
  tg_key_product score, result;
  const tg_uop *weights;           /* the range of a sum of the result's rows, or NULL */
} tg_key_loop;

/* Is a loop over keys a statement of the list? n and bits are given. */
bool tg_key_loop_find(tg_key_loop *t, const tg_uop *const *list, uint32_t n);
#endif
