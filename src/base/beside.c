/* SPDX-License-Identifier: MIT
 * Opens a library of tg's own, which lies beside the one that needs it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/base.h"

/* A name without a folder is looked for where the system looks, also by the run path of the library that this is part
 * of. The path is not on the stack, of which callers may have 16 KiB, and the system's loader needs some. */
void *tg_open_beside(const void *address, const char *file) {
  Dl_info here;
  const char *end = dladdr(address, &here) && here.dli_fname ? strrchr(here.dli_fname, '/') : NULL;
  size_t folder = end ? (size_t)(end + 1 - here.dli_fname) : 0;
  char *path = end ? malloc(folder + strlen(file) + 1) : NULL;
  void *library = NULL;
  bool there = false;
  if (path) {
    memcpy(path, here.dli_fname, folder);
    strcpy(path + folder, file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    there = library || !access(path, F_OK);   /* it is there and lacks something: dlerror names that */
    free(path);
  }
  return there ? library : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}
