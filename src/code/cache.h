/* SPDX-License-Identifier: MIT
 * Compiled kernels on disk, shared by processes: one file for each key. */
#ifndef TG_CACHE_H
#define TG_CACHE_H
#include "code/code.h"

typedef struct tg_cache_entry {
  const char *key;             /* all that the code depends on, as text */
  size_t key_n;
  const void *signature, *object;   /* signature: the launcher's own data. 16-aligned when read */
  size_t signature_n, object_n;
  tg_code_info info;
} tg_cache_entry;

/* Fills in what stands under e->key; false: nothing, or nothing that can be trusted. Memory is env's. */
bool tg_cache_read(tg_env *env, const char *folder, tg_cache_entry *e);
/* 0 or an errno. The folder is made, for the user alone. */
int tg_cache_write(tg_env *env, const char *folder, const tg_cache_entry *e);
#endif
