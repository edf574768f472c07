/* SPDX-License-Identifier: MIT
 * Tuned choices on disk, shared by processes: one file for each key. Needs no LLVM. */
#ifndef TG_STORE_H
#define TG_STORE_H
#include "base/base.h"

enum { TG_STORE_SPACE = 1, TG_STORE_KNOBS = 64 };   /* of the search space: part of every key */

typedef struct tg_tuned {
  const char *key;             /* all that the choice depends on, as text: program, knobs, machine, LLVM, tg */
  const char *kernel;          /* which sketch */
  const tg_binding *knobs;
  uint32_t knobs_n;
  const char *words;           /* NULL: the sketch's own, or the heuristic's */
  double seconds, default_seconds, gain_low;
} tg_tuned;

/* What stands under the key; false: nothing, or nothing that can be trusted. Memory is env's. */
bool tg_store_read(tg_env *env, const char *folder, const char *key, tg_tuned *out);
/* Is there a file for the key? Whether it can be trusted is not asked. */
bool tg_store_has(tg_env *env, const char *folder, const char *key);
/* Where it stands. */
const char *tg_store_path(tg_env *env, const char *folder, const char *key);
/* 0 or an errno. The folder is made, for the user alone. */
int tg_store_write(tg_env *env, const char *folder, const tg_tuned *t);

/* An entry as text, and back; false: damaged, cut short, of another format. */
void tg_store_print(tg_str *out, const tg_tuned *t);
bool tg_store_parse(tg_env *env, const char *text, size_t bytes, tg_tuned *out);

/* Calls fn for each file that is named like an entry, in order of names. t is NULL where it is damaged, foreign, or
 * of a format of the future. */
typedef void tg_store_fn(void *user, const char *path, const tg_tuned *t);
int tg_store_each(tg_env *env, const char *folder, tg_store_fn *fn, void *user);   /* 0 or an errno */
#endif
