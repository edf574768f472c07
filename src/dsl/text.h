/* SPDX-License-Identifier: MIT
 * The text form, both ways. One grammar: statements, kernels (.tg), rules, everything printed. */
#ifndef TG_TEXT_H
#define TG_TEXT_H
#include "dsl/uop.h"

/* Parses a .tg program (all of it, one kernel) into j: name, tables, sink, opts, stage. Fails with an error at its place.
 * Takes every stage that tg_print writes. file is for messages. Unbound parameters are an error that names them. */
void tg_parse_kernel(tg_job *j, const char *file, const char *text, uint32_t n, const tg_binding *bindings);
/* Number of kernels and their names in a file: for `tg run FILE.tg` (a file may hold several; name picks one in parse). */

/* The program as text, parsable. */
void tg_print(tg_job *j, tg_str *out, const tg_uop *sink);
/* One expression on one line, shared nodes repeated. Names as in the program. */
void tg_print_expr(tg_job *j, tg_str *out, const tg_uop *u);
/* One statement or expression as text in the arena: for messages. */
const char *tg_text(tg_job *j, const tg_uop *u);

/* Parses an expression over leaves given by name: for definitions of functions, rules and tests. Unknown names are ARGs? No: an error. */
const tg_uop *tg_parse_expr(tg_job *j, const char *text, uint32_t n, const char *const *names, const tg_uop *const *values);

/* Structure, with names and the numbering of ranges, buffers and nodes left out: equal programs in different jobs have equal hashes. */
uint64_t tg_structural_hash(tg_job *j, const tg_uop *sink);
/* True if a (of job ja) and b (of job jb) are the same program up to that numbering. */
bool tg_same_program(tg_job *ja, const tg_uop *a, tg_job *jb, const tg_uop *b);
#endif
