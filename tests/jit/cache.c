/* SPDX-License-Identifier: MIT
 * The cache of code: what was written is read; every damage, however small, is a miss; so is a folder that others may write. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../test.h"
#include "jit/cache.h"

static char folder[] = "/tmp/tg-cache-XXXXXX", path[512];

static tg_cache_entry sample(void) {
  return (tg_cache_entry){.key = "key of it", .key_n = 9, .spec = "spec", .spec_n = 5, .object = "the object", .object_n = 11,
                          .info = {.buffers = 3, .params = 2, .phases = 1, .workspace = 128, .shared = 64, .aligned = 5}};
}

static bool hit(tg_env *env, const char *key) {
  tg_mark m = tg_mark_get(env);
  tg_cache_entry e = {.key = key, .key_n = strlen(key)}, s = sample();
  bool found = tg_cache_read(env, folder, &e);
  if (found) found = e.spec_n == s.spec_n && e.object_n == s.object_n && !memcmp(e.spec, s.spec, 5) && !memcmp(e.object, s.object, 11) && e.info.phases == 1 &&
                     e.info.workspace == 128 && e.info.shared == 64 && e.info.aligned == 5 && e.info.buffers == 3 && e.info.params == 2;
  tg_mark_release(env, m);
  return found;
}

static void put(const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, n, f);
  fclose(f);
}

static void run(void *arg) {
  tg_env *env = arg;
  tg_cache_entry s = sample();
  CHECK(mkdtemp(folder) != NULL, "a folder");
  CHECK(!hit(env, "key of it"), "empty");
  CHECK(tg_cache_write(env, folder, &s) == 0 && hit(env, "key of it"), "written and read");
  CHECK(!hit(env, "key of at") && !hit(env, "key"), "another key");
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  closedir(d);
  struct stat st;
  CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600, "the user's own file");
  size_t n;
  char *data = tg_read_file(env, path, &n), *copy = malloc(n + 1);
  memcpy(copy, data, n);
  for (size_t i = 0; i < n; i++) {
    copy[i] = (char)(copy[i] ^ (1 << i % 8));
    put(copy, n);
    if (hit(env, "key of it")) CHECK(false, "byte %zu changed", i);
    copy[i] = data[i];
    put(copy, i);
    if (hit(env, "key of it")) CHECK(false, "cut at byte %zu", i);
  }
  copy[n] = 0;
  put(copy, n + 1);
  CHECK(!hit(env, "key of it"), "a byte more");
  put(copy, n);
  CHECK(hit(env, "key of it"), "whole again");
  chmod(path, 0666);
  CHECK(!hit(env, "key of it"), "a file that others may write");
  chmod(path, 0600);
  chmod(folder, 0777);
  CHECK(!hit(env, "key of it") && tg_cache_write(env, folder, &s), "a folder that others may write");
  chmod(folder, 0700);
  CHECK(hit(env, "key of it"), "whole again");
  unlink(path);
  CHECK(!mkdir(path, 0700) && !hit(env, "key of it") && tg_cache_write(env, folder, &s), "a folder in its place");
  rmdir(path);
  rmdir(folder);
  free(copy);
}

int main(void) {
  tg_env env;
  tg_env_init(&env, NULL);
  CHECK(tg_protect(&env, run, &env), "%s", env.message);
  tg_env_drop(&env);
  return TEST_END();
}
