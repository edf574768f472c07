/* SPDX-License-Identifier: MIT
 * In a copy with faults every file includes this first: the switch that tests/mutants/plant.c puts where a fault is. */
#ifndef TG_MUTANT_H
#define TG_MUTANT_H
#include <stdbool.h>
#ifdef __cplusplus
extern "C"
#endif
/* Is it on? With row: the fault "name: row" of a table; with n >= 0 "name: n". */
bool tg_mutant_on(const char *name, const char *row, long n);
#endif
