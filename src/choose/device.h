/* SPDX-License-Identifier: MIT
 * What the files share that choose schedules for targets with warps. */
#ifndef TG_CHOOSE_DEVICE_H
#define TG_CHOOSE_DEVICE_H
#include "choose/nest.h"

typedef struct {
  const char **data;
  uint32_t n, cap;
  tg_env *env;
} tg_words;

/* Adds all the words to the list if they are legal together, else none. The program that the heuristic reads stays as
 * it was before them. */
bool tg_device_try(tg_nest *n, const tg_words *words);
/* True if the perfect nest is a contraction that a matrix instruction computes, and was scheduled as one. chain: its
 * ENDs, outermost first. */
bool tg_device_contraction(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* True if the perfect nest, whose only statement is the store, stores along rows what depends on reductions over them,
 * or one result of each row, and was scheduled so. */
bool tg_device_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *store);
#endif
