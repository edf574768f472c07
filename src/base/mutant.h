/* SPDX-License-Identifier: MIT
 * Faults that tests must notice. In a build configured with --mutants, the site that the environment names (TG_MUTANT=its name) does the wrong thing;
 * in every other build a site is the right expression and nothing else. tests/mutants/run.sh tries them one after another. */
#ifndef TG_MUTANT_H
#define TG_MUTANT_H
#ifdef TG_MUTANTS
#include <stdbool.h>
/* Is it on? With row: the fault "name: row" of a table; with n >= 0 "name: n". Names are unique in the source. */
bool tg_mutant_on(const char *name, const char *row, long n);
#define TG_MUTANT(name, right, wrong) (tg_mutant_on((name), NULL, -1) ? (wrong) : (right))
#define TG_MUTANT_ROW(name, row) tg_mutant_on((name), (row), -1)
#define TG_MUTANT_NTH(name, row, n) tg_mutant_on((name), (row), (long)(n))
#else
#define TG_MUTANT(name, right, wrong) (right)
#define TG_MUTANT_ROW(name, row) false
#define TG_MUTANT_NTH(name, row, n) false
#endif
#endif
