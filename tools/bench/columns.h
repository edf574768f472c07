/* SPDX-License-Identifier: MIT
 * What first choices become when a column of the machine's row is moved. */
#ifndef TG_BENCH_COLUMNS_H
#define TG_BENCH_COLUMNS_H
#include "compile/price.h"
#include "tool.h"

enum { COLUMNS_MOST = 256 };

/* A target with one column moved; in how many sets of points, and texts, the first choice is another then. */
typedef struct { tg_target target; const tg_machine_column *column; uint32_t sets, texts; } columns_moved;
typedef struct { columns_moved moved[COLUMNS_MOST]; uint32_t n, sets, texts; } columns;

bool columns_open(columns *c, const tg_target *t);   /* false: there are too many */
/* A set of points: their prices on the machine as it is, and on each moved one (points times c->n); and what they took
 * when they were recorded. */
void columns_set(columns *c, uint32_t points, const double *base, const double *seconds, const double *measured);
/* The folder's texts, for the target of that name. */
void columns_texts(columns *c, const char *row, const char *folder);
void columns_report(const columns *c);
#endif
