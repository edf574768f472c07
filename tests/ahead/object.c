/* SPDX-License-Identifier: MIT
 * Objects that are built ahead of time, in tests. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "object.h"
#include "target/target.h"

typedef int64_t word;
typedef int function(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static char folder[TEST_PATH] = "tg-ahead-XXXXXX";

void object_word(object_call *c, int64_t w) {
  if (c->n < OBJECT_WORDS) c->word[c->n++] = w;
}

void object_pointer(object_call *c, const void *p) { object_word(c, (int64_t)(intptr_t)p); }
void object_buffer(object_call *c, const void *p, size_t bytes) { object_pointer(c, p), object_word(c, (int64_t)bytes); }

int object_run(object_function *f, const object_call *c) {
  const word *a = c->word;
  return ((function *)(void (*)(void))f)(
      a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17],
      a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31], a[32], a[33],
      a[34], a[35], a[36], a[37], a[38], a[39], a[40], a[41], a[42], a[43], a[44], a[45], a[46], a[47], a[48], a[49],
      a[50], a[51], a[52], a[53], a[54], a[55], a[56], a[57], a[58], a[59], a[60], a[61], a[62], a[63], a[64], a[65],
      a[66], a[67], a[68], a[69], a[70], a[71], a[72], a[73], a[74], a[75], a[76], a[77], a[78], a[79]);
}

static bool put(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  bool good = f && fwrite(data, 1, n, f) == n;
  return f && !fclose(f) && good;
}

void *object_open(const tg_built *b, const char *what) {
  char object[TEST_PATH + 32], library[TEST_PATH + 32], command[3 * TEST_PATH + 64];
  snprintf(object, sizeof object, "%s/k.o", folder);
  snprintf(library, sizeof library, "%s/k.so", folder);
  snprintf(command, sizeof command, "cc -shared -nostdlib -Wl,-z,defs -o %s %s", library, object);
  if (!put(object, b->object, b->object_bytes) || system(command)) return fprintf(stderr, "%s: not linked\n", what), NULL;
  void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!l) fprintf(stderr, "%s: %s\n", what, dlerror());
  unlink(library);   /* a next one is another file */
  return l;
}

void object_close(void *library) {
  if (library) dlclose(library);
}

object_function *object_find(void *library, const char *name) {
  object_function *f = NULL;
  *(void **)&f = dlsym(library, name);
  return f;
}

uint32_t object_levels(const char *level[OBJECT_LEVELS]) {
  static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  const char *most = getenv("TG_TEST_TARGET");
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tg_target t;
    if (tg_target_named(&t, names[i]) && tg_target_runs_here(&t)) level[n++] = names[i];
    if (most && !strcmp(most, names[i])) break;
  }
  return n;
}

bool object_begin(void) { return test_folder(folder) != NULL; }

void object_end(void) {
  char object[TEST_PATH + 32];
  snprintf(object, sizeof object, "%s/k.o", folder);
  unlink(object), rmdir(folder);
}

void object_last_first(void *user, int64_t n, void (*task)(void *, int64_t), void *argument) {
  if (user) ++*(int64_t *)user;
  for (int64_t i = n; i-- > 0;) task(argument, i);
}
