/* SPDX-License-Identifier: MIT
 * Opens a driver's library, and finds its functions. */
#include <dlfcn.h>
#include "devices/library.h"

void *tg_library_open(const char *file, const tg_entry_point *p, uint32_t n, void *functions, const char **missing) {
  /* NODELETE: drivers have threads that run on after the library is closed */
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (uint32_t i = 0; library && i < n; i++) {
    void *at = dlsym(library, p[i].name);
    memcpy((char *)functions + p[i].at, &at, sizeof at);
    if (!at && !p[i].optional && !*missing) *missing = p[i].name;
  }
  return library;
}
