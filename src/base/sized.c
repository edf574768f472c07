/* SPDX-License-Identifier: MIT
 * Structs of the public headers that a program fills in: its header may be older than the library, and then lacks the
 * last fields, or newer, and then has some that the library does not know. */
#include <stdio.h>
#include "base/base.h"

const char *tg_sized_read(const char *type, void *own, size_t own_bytes, const void *given, size_t bytes, char *out,
                          size_t n) {
  const unsigned char *from = given;
  size_t known = bytes < own_bytes ? bytes : own_bytes;
  if (!given) known = bytes = 0;
  if (known) memcpy(own, given, known);
  memset((char *)own + known, 0, own_bytes - known);
  for (size_t i = known; i < bytes; i++)
    if (from[i])
      return snprintf(out, n,
                      "%s: the program's has %zu bytes, of which this library (tg %d.%d.%d) knows %zu, and byte %zu is "
                      "set: the program wants a newer library",
                      type, bytes, TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH, own_bytes, i),
             out;
  return NULL;
}

void tg_sized_write(void *to, size_t bytes, const void *own, size_t own_bytes) {
  size_t known = bytes < own_bytes ? bytes : own_bytes;
  memcpy(to, own, known);
  memset((char *)to + known, 0, bytes - known);
}
