/* SPDX-License-Identifier: MIT
 * Tuned choices on disk, shared by processes: one file for each key. Needs no LLVM. */
#ifndef TG_STORE_H
#define TG_STORE_H
#include "base/pack.h"

/* TG_STORE_SPACE: version of the search space, part of every key. TG_STORE_KNOBS: most knobs in an entry. */
enum { TG_STORE_SPACE = 1, TG_STORE_KNOBS = 64 };

typedef struct tg_tuned {
  const char *key;             /* everything the choice depends on, as text: program, knobs, machine, LLVM, tg */
  const char *kernel;          /* name of the chosen sketch */
  const tg_binding *knobs;
  uint32_t knobs_n;
  const char *words;           /* NULL: the sketch's own, or the heuristic's */
  const char *text;            /* of a sketch that came as text; NULL: it is one of the program's */
  double seconds, default_seconds, gain_low;   /* gain_low: lower 95 % bound of the speedup, - 1 */
} tg_tuned;

/* Reads the entry with this key, of the pack, else of the folder, which may be NULL; false: there is none, or it is
 * damaged or not safe. Memory is env's. */
bool tg_store_read(tg_env *env, const tg_pack *pack, const char *folder, const char *key, tg_tuned *out);
/* Writes the path of the user's own folder: tg/tuned in $XDG_DATA_HOME, or in ~/.local/share. NULL: neither variable is
 * set, the path is too long, or the program has more rights than its user. */
const char *tg_store_default(char *buffer, size_t n);
/* The path of the file for the key. */
const char *tg_store_path(tg_env *env, const char *folder, const char *key);
/* Returns 0 or an errno. Creates the folder, if need be, with access for the user alone. */
int tg_store_write(tg_env *env, const char *folder, const tg_tuned *t);

/* An entry as text, and back. False: it is damaged, truncated, or of another format. */
void tg_store_print(tg_str *out, const tg_tuned *t);
bool tg_store_parse(tg_env *env, const char *text, size_t bytes, tg_tuned *out);

/* Calls fn for each file with an entry's form of name, sorted by name. t is NULL if the file is damaged, not safe, or
 * of another format. */
typedef void tg_store_fn(void *user, const char *path, const tg_tuned *t);
int tg_store_each(tg_env *env, const char *folder, tg_store_fn *fn, void *user);   /* 0 or an errno */
#endif
