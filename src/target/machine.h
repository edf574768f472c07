/* SPDX-License-Identifier: MIT
 * What differs between machines, as measured quantities: the rows of machines.def. The cost model and the first choice
 * read them; what is legal never depends on them, so a wrong row makes a kernel slow and never wrong. */
#ifndef TG_TARGET_MACHINE_H
#define TG_TARGET_MACHINE_H
#include "base/base.h"

enum { TG_MACHINE_WIDTHS = 3 };   /* vectors of 16, 32 and 64 bytes */
enum { TG_CACHE_LINE = 64 };      /* bytes, of all processors that have a row */

typedef struct tg_machine {
  char name[32];            /* of the row; of a row of the user's own: "measured" */
  const char *processors;   /* that take the row, as in machines.def; of a row of the user's own: "" */
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
/* Cycles of a rate of instructions per cycle for a value of that many bytes: of fewer than 16 as of 16; of more than
 * the widest vector as many as it has pieces. */
double tg_machine_cycles(const double rate[TG_MACHINE_WIDTHS], double bytes);
/* Are masked stores so dear that code asks first whether the mask is true in all lanes, and then stores without it?
 * They are if one costs more than a store and what the end of a loop does, where the answer is another. */
static inline bool tg_machine_asks_masks(const tg_machine *m) {
  return m->store[0] > 0 && m->masked_store > 1 / m->store[0] + m->mispredict / 2;
}
/* A number that two rows share only if all their values are equal; part of the cache's key. */
uint64_t tg_machine_hash(const tg_machine *m);
/* Is the processor in the row's list? For AArch64: maker "arm", the implementer as family, the part as model. */
bool tg_machine_takes(const tg_machine *m, const char *maker, uint32_t family, uint32_t model);

/* machine_text.c: rows as text. */

/* v to two significant digits, as rows have it. */
double tg_machine_round(double v);
/* Appends the row in the form of machines.def. */
void tg_machine_print(tg_str *out, const tg_machine *m);

/* A file of a row that was measured: lines NAME = VALUE for each column, and the identification of the processor or
 * chip that it counts on (tg_target.silicon). */
typedef struct tg_row_form { const char *magic,
    *about; const tg_machine_column *column; uint32_t columns; } tg_row_form;
void tg_row_file_print(const tg_row_form *, tg_str *out, const void *row, const char *silicon);
/* False: *why says what is wrong, and in which line; *row may be filled in part. *silicon: of which processor; both are
 * env's. */
bool tg_row_file_parse(const tg_row_form *, tg_env *env, const char *text, size_t bytes, void *row,
                       const char **silicon, const char **why);
/* Returns 0 or an errno. Creates the folder, if need be, with access for the user alone. */
int tg_row_file_write(const tg_row_form *, tg_env *env, const char *folder, const char *name, const void *row,
                      const char *silicon);
/* Reads the folder's file if it is for this processor. False: there is none (*why is NULL), or it is not for this
 * processor, damaged, or other users could have written it (*why says so); *row may be filled in part. */
bool tg_row_file_read(const tg_row_form *, tg_env *env, const char *folder, const char *name, const char *silicon,
                      void *row, const char **why);

/* That of the host's processor, in the folder of tuned choices. Where these give false, *m is unchanged. */
#define TG_MACHINE_FILE "machine.txt"
void tg_machine_file_print(tg_str *out, const tg_machine *m, const char *silicon);
bool tg_machine_file_parse(tg_env *env, const char *text, size_t bytes, tg_machine *m, const char **silicon,
                           const char **why);
int tg_machine_file_write(tg_env *env, const char *folder, const tg_machine *m, const char *silicon);
bool tg_machine_file_read(tg_env *env, const char *folder, const char *silicon, tg_machine *m, const char **why);
#endif
