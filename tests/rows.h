/* SPDX-License-Identifier: MIT
 * The rows of processors as data, for tests of what is chosen: the same on every machine. Those that run what was chosen run it here, whatever row it was chosen for. */
#ifndef TG_TEST_ROWS_H
#define TG_TEST_ROWS_H
#include "target/target.h"

enum { ROWS = 64 };

/* All of them, and how many. */
static inline uint32_t rows_of_processors(tg_target rows[ROWS]) {
  uint32_t n = 0;
  const char *name;
  for (uint32_t i = 0; (name = tg_target_name(i)) && n < ROWS; i++)
    if (tg_target_row(&rows[n], name) && !tg_target_is_device(&rows[n]) && !tg_target_is_source(&rows[n])) n++;
  return n;
}
#endif
