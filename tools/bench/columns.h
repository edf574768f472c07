/* SPDX-License-Identifier: MIT
 * What first choices become when a column of the machine's row is moved. */
#ifndef TG_BENCH_COLUMNS_H
#define TG_BENCH_COLUMNS_H
#include "compile/price.h"
#include "tool.h"

enum { COLUMNS_MOST = 64, COLUMNS_MOVES = 4 };   /* halved, doubled, a fifth less, a fifth more */

/* What is asked: sets of recorded points, what plans of their products choose, and texts. */
enum { COLUMNS_SETS, COLUMNS_PLANS, COLUMNS_TEXTS, COLUMNS_KINDS };

/* Of how many the first choice is another when a column is moved. */
typedef struct { uint32_t of[COLUMNS_KINDS][COLUMNS_MOVES]; } columns_count;

/* n: columns. count: by column, shared by the processes that divide among them what is asked; all: how much that is, by
 * kind. turn: of the next thing that is asked. */
typedef struct {
  tg_target moved[COLUMNS_MOST][COLUMNS_MOVES];
  columns_count *count;
  uint32_t n, workers, me, turn;
  uint32_t *all;
} columns;

bool columns_open(columns *c, const tg_target *t);   /* false: no memory */
/* Makes so many processes of this one, which take turns at what comes; and one again, after which it is true in the
 * first of them alone. */
void columns_divide(columns *c, int workers);
bool columns_join(columns *c);
/* Is the next thing this process's? */
bool columns_mine(columns *c);

/* The first choice on each of n targets, as a number; false: there is none on some. */
typedef bool columns_choice(void *user, const tg_target *const *on, uint32_t n, uint64_t *choice);
/* Which columns change the choice; prints a line for each that does. */
void columns_ask(columns *c, uint32_t kind, const char *name, columns_choice *, void *user);
/* The folder's texts, for the target of that name. */
void columns_texts(columns *c, const char *row, const char *folder);
void columns_report(const columns *c);
#endif
