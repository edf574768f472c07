/* SPDX-License-Identifier: MIT
 * A pack: the files of folders in one block of memory, found by name. It may be mapped from a file, or lie in the
 * program; it is read where it lies. */
#ifndef TG_PACK_H
#define TG_PACK_H
#include "base/base.h"

/* data NULL: there is none. The memory is the caller's, and stays as it is while the pack is used. */
typedef struct tg_pack { const char *data; size_t bytes; } tg_pack;
typedef struct tg_pack_file { const char *name; const void *data; size_t bytes; } tg_pack_file;

/* NULL: the index is whole, and every file lies inside; else what is wrong. Of a file's content nothing is known: it
 * has a checksum of its own. */
const char *tg_pack_wrong(const tg_pack *p);
/* The file of that name; NULL: there is none. p, and p->data, may be NULL. */
const void *tg_pack_find(const tg_pack *p, const char *name, size_t *bytes);
/* The file, else that of the folder if other users cannot write to it (tg_read_private); 16-aligned; NULL: neither.
 * Memory is the pack's or env's. folder may be NULL. */
const char *tg_pack_read(tg_env *env, const tg_pack *p, const char *folder, const char *name, bool root, size_t *bytes);
/* One block of these files; of those with one name the first. Memory is env's. */
const char *tg_pack_made(tg_env *env, const tg_pack_file *files, uint32_t n, size_t *bytes);
#endif
