/* SPDX-License-Identifier: MIT
 * Opens a driver's library, and finds its functions. */
#include <dlfcn.h>
#include "devices/library.h"

void *tg_library_open(const char *file, bool stays, const tg_entry_point *p, uint32_t n, void *functions,
                      const char **missing) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | (stays ? RTLD_NODELETE : 0));
  for (uint32_t i = 0; library && i < n; i++) {
    void *at = dlsym(library, p[i].name);
    memcpy((char *)functions + p[i].at, &at, sizeof at);
    if (!at && !p[i].optional && !*missing) *missing = p[i].name;
  }
  return library;
}
