/* SPDX-License-Identifier: MIT
 * A pack of a folder of compiled kernels, for tests. */
#ifndef TG_TEST_PACK_H
#define TG_TEST_PACK_H
#include <dirent.h>
#include "base/base.h"
#include "base/pack.h"

/* The files of the folder in one block; memory is env's. */
static inline const char *test_pack_of(tg_env *env, const char *folder, size_t *bytes) {
  TG_VEC(tg_pack_file) file = {0};
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    tg_pack_file f = {.name = tg_strdup(env, e->d_name)};
    f.data = tg_read_private(env, folder, e->d_name, false, &f.bytes);
    if (f.data) tg_push(env, &file, f);
  }
  if (d) closedir(d);
  return tg_pack_made(env, file.data, file.n, bytes);
}
#endif
