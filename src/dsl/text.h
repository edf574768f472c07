/* SPDX-License-Identifier: MIT
 * The text form, both ways. One grammar: statements, kernels (.tg), rules, everything printed. */
#ifndef TG_TEXT_H
#define TG_TEXT_H
#include "dsl/uop.h"

/* Parses a .tg program into j: name, tables, sink, opts, stage. Fails with an error at its place. Of a file with
 * several kernels it takes the one that j->name names, the first if that is NULL. Takes every stage that tg_print
 * writes: behind `stage NAME;` text is meant as it stands, that is, no condition is pushed into gates, no load is
 * clamped or converted, no value is kept, 1 alone is an INDEX and 1.0 alone an f64. file is for messages. Unbound
 * parameters are an error that names them. */
void tg_parse_kernel(tg_job *j, const char *file, const char *text, uint32_t n, const tg_binding *bindings);
/* The names of the kernels in a file, in order. */
const char **tg_kernel_names(tg_job *j, const char *file, const char *text, uint32_t *n);
uint32_t tg_count_kernels(tg_job *j, const char *file, const char *text);

/* Runs the body of a kernel written with tg/dsl.h: leaves the same as tg_parse_kernel. Call it inside tg_protect;
 * the body's own calls never unwind through it. */
struct tg_kernel_def;
void tg_author(tg_job *j, const struct tg_kernel_def *k, uint32_t n, const tg_binding *bindings, void *user);

/* The program as text, parsable. */
void tg_print(tg_job *j, tg_str *out, const tg_uop *sink);
/* One expression on one line, shared nodes repeated. Names as in the program. */
void tg_print_expr(tg_job *j, tg_str *out, const tg_uop *u);
/* One statement or expression as text in the arena: for messages. */
const char *tg_text(tg_job *j, const tg_uop *u);
/* The same, and any text, cut at TG_BRIEF characters: for messages that say more than that one thing. */
enum { TG_BRIEF = 80 };
const char *tg_brief(tg_job *j, const tg_uop *u);
const char *tg_brief_text(tg_job *j, const char *text);

/* The word that was most likely meant, or NULL if none is near. words ends with NULL. */
const char *tg_nearest(const char *name, const char *const *words);

/* Why nothing can have this name, as the end of a sentence that it begins; NULL: it can. */
const char *tg_name_refused(const char *symbol);

/* Parses an expression over leaves given by name (DEFINEs are buffers): for definitions of functions, rules and
 * tests. An unknown name is an error. Literals take the type of what they meet; nothing is implied, as behind
 * `stage`. */
const tg_uop *tg_parse_expr(tg_job *j, const char *text, uint32_t n, const char *const *names,
                            const tg_uop *const *values);

/* Structure, with names and the numbering of ranges, buffers and nodes left out: equal programs in different jobs
 * have equal hashes. */
uint64_t tg_structural_hash(tg_job *j, const tg_uop *sink);
/* True if a (of job ja) and b (of job jb) are the same program up to that numbering. */
bool tg_same_program(tg_job *ja, const tg_uop *a, tg_job *jb, const tg_uop *b);
#endif
