/* SPDX-License-Identifier: MIT
 * What differs between machines, as measured quantities: the rows of machines.def. The cost model and the first choice
 * read them; what is legal never depends on them, so a wrong row makes a kernel slow and never wrong. */
#ifndef TG_TARGET_MACHINE_H
#define TG_TARGET_MACHINE_H
#include "base/base.h"

enum { TG_MACHINE_WIDTHS = 3 };   /* vectors of 16, 32 and 64 bytes */

typedef struct tg_machine {
  char name[32];            /* of the row; of a row measured here: "measured" */
#define C(name, unit, what) double name;
#define W(name, unit, what) double name[TG_MACHINE_WIDTHS];
#include "target/columns.def"
#undef C
#undef W
} tg_machine;

/* A column: its name, its unit, what it says, and where it is in the struct; widths: 3, or 1 if it does not depend
 * on the width. NULL after the last. */
typedef struct tg_machine_column { const char *name, *unit, *what; size_t at; uint32_t widths; } tg_machine_column;
const tg_machine_column *tg_machine_column_at(uint32_t i);
static inline double *tg_machine_value(tg_machine *m, const tg_machine_column *c) {
  return (double *)(void *)((char *)m + c->at);
}

/* The row of that name in the tree; NULL: there is none. */
const tg_machine *tg_machine_row(const char *name);
/* The i-th row; NULL after the last. */
const tg_machine *tg_machine_at(uint32_t i);
/* A number that two rows share only if all their values are equal; part of the cache's key. */
uint64_t tg_machine_hash(const tg_machine *m);
#endif
