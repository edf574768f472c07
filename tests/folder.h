/* SPDX-License-Identifier: MIT
 * Folders and files of a test's own, where there is room for them: /tmp may be full, or another's. */
#ifndef TG_TEST_FOLDER_H
#define TG_TEST_FOLDER_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { TEST_PATH = 160 };

static inline bool test_has_room(const char *place) {
  struct statvfs s;
  return strlen(place) < TEST_PATH - 64 && !access(place, W_OK | X_OK) && !statvfs(place, &s) && (unsigned long long)s.f_bavail * s.f_frsize >= 64ull << 20 && s.f_favail > 1000;
}

/* Puts a place before the name "tg-..-XXXXXX". */
static inline void test_place(char path[TEST_PATH]) {
  const char *given = getenv("TMPDIR"), *const places[] = {given ? given : "/tmp", "/tmp", "/var/tmp", "/dev/shm", "build"};
  size_t i = 0, name = strlen(path) + 1, n;
  while (i < sizeof places / sizeof *places - 1 && !test_has_room(places[i])) i++;
  n = strlen(places[i]);
  if (name > 64 || n + 1 + name > TEST_PATH) abort();
  memmove(path + n + 1, path, name);
  memcpy(path, places[i], n);
  path[n] = '/';
}

/* path: the name, then the folder that was made; NULL: none can be. */
static inline char *test_folder(char path[TEST_PATH]) {
  test_place(path);
  return mkdtemp(path);
}
#endif
