/* SPDX-License-Identifier: MIT
 * The cache of code: what was written is read; every damage, however small, is a miss; so is a folder that others may write. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "code/cache.h"

static char folder[TEST_PATH] = "tg-cache-XXXXXX", path[512];

static tg_cache_entry sample(void) {
  return (tg_cache_entry){.key = "key of it", .key_n = 9, .signature = "spec", .signature_n = 5, .object = "the object", .object_n = 11,
                          .info = {.buffers = 3, .params = 2, .phases = 1, .workspace = 128, .shared = 64, .aligned = 6, .in_shares = 9}};
}

static bool hit(tg_env *env, const char *key) {
  tg_mark m = tg_mark_get(env);
  tg_cache_entry e = {.key = key, .key_n = strlen(key)}, s = sample();
  bool found = tg_cache_read(env, NULL, folder, &e);
  if (found) found = e.signature_n == s.signature_n && e.object_n == s.object_n && !memcmp(e.signature, s.signature, 5) && !memcmp(e.object, s.object, 11) && e.info.phases == 1 &&
                     e.info.workspace == 128 && e.info.shared == 64 && e.info.aligned == 6 && e.info.in_shares == 9 && e.info.buffers == 3 && e.info.params == 2;
  tg_mark_release(env, m);
  return found;
}

static void put(const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, n, f);
  fclose(f);
}

/* An entry whose lengths are not those of the file, by one who knows how its sum is made: the sum stands in front of what it is of. */
static void forged(tg_env *env, const char *data, size_t n) {
  char *copy = malloc(n);
  size_t at = 0, summed = 8;
  tg_hash128 sum;
  bool found = false;
  for (; summed < 128 && !found; summed += found ? 0 : 8) {
    sum = tg_hash_wide(data + summed, n - summed);
    for (at = 0; at + 16 <= summed && !found; at += found ? 0 : 8) found = !memcmp(data + at, &sum, sizeof sum);
  }
  CHECK(found, "the sum");
  for (size_t word = summed; found && word + 8 <= 128; word += 8)
    for (int k = 0; k < 2; k++) {
      uint64_t length;
      memcpy(&length, data + word, 8);
      if (length != 5 && length != 11) continue;   /* of the spec, of the object */
      length += k ? 16 : 1 << 20;
      memcpy(copy, data, n);
      memcpy(copy + word, &length, 8);
      sum = tg_hash_wide(copy + summed, n - summed);
      memcpy(copy + at, &sum, sizeof sum);
      put(copy, n);
      tg_cache_entry e = {.key = "key of it", .key_n = 9};
      CHECK(!tg_cache_read(env, NULL, folder, &e), "%llu bytes in a file of %zu", (unsigned long long)length, n);
    }
  put(data, n);
  free(copy);
}

/* The entry of one key under the name of another. */
static void foreign(tg_env *env, const char *data, size_t n) {
  char mine[sizeof path];
  tg_cache_entry s = sample();
  snprintf(mine, sizeof mine, "%s", path);
  s.key = "key of at";
  CHECK(tg_cache_write(env, folder, &s) == 0 && hit(env, "key of at"), "written and read");
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.' && !strstr(mine, e->d_name)) snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  closedir(d);
  CHECK(strcmp(path, mine), "two entries");
  put(data, n);
  CHECK(!hit(env, "key of at") && hit(env, "key of it"), "another key's entry");
  unlink(path);
  snprintf(path, sizeof path, "%s", mine);
}

static void run(void *arg) {
  tg_env *env = arg;
  tg_cache_entry s = sample();
  CHECK(test_folder(folder) != NULL, "a folder");
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
  forged(env, copy, n);
  foreign(env, copy, n);
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
