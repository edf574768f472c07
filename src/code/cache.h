/* SPDX-License-Identifier: MIT
 * Compiled kernels on disk, shared by processes: one file for each key. */
#ifndef TG_CACHE_H
#define TG_CACHE_H
#include "base/pack.h"
#include "code/code.h"

typedef struct tg_cache_entry {
  const char *key;             /* everything that the code depends on, as text */
  size_t key_n;
  const void *signature, *object;   /* signature: opaque here, checked by the caller. Both 16-aligned when read */
  size_t signature_n, object_n;
  tg_code_info info;
} tg_cache_entry;

/* Looks up e->key in the pack, then in the folder, and fills in the rest; false: not found, damaged, or writable by
 * other users. folder may be NULL. Memory is the pack's or env's. */
bool tg_cache_read(tg_env *env, const tg_pack *pack, const char *folder, tg_cache_entry *e);
/* The bytes of such a file. Read: fills in all; false: damaged, or, if e->key is set, of another key. data is
 * 16-aligned, and stays in use. */
void *tg_cache_block(tg_env *env, const tg_cache_entry *e, size_t *bytes);
bool tg_cache_block_read(const void *data, size_t bytes, tg_cache_entry *e);
/* Is this a file of the cache, whole, of that name? */
bool tg_cache_file_valid(tg_env *env, const char *name, const void *data, size_t bytes);
/* Returns 0 or an errno. Creates the folder if needed, accessible to this user only. */
int tg_cache_write(tg_env *env, const char *folder, const tg_cache_entry *e);
#endif
