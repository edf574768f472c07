/* SPDX-License-Identifier: MIT
 * Faults planted in what is kept about compiled code of the CPU: ELF tables of its object, the signature of its
 * launches, what the cache's file says of both. In a file each fault is a miss, since a checksum is over all of it.
 * Behind the checksum nothing is trusted either: the loader, and the checks of a launch, take or refuse what is given,
 * and reach for nothing outside of it, which lies between guard pages. (What they take is not run: that it is code of
 * tg is what the checksum says.) */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "base/guard.h"
#include "code/cache.h"
#include "code/object.h"
#include "devices/signature.h"
#include "tg/tg.h"

enum { FAULTS = 500, BITS = 8 };

/* Two phases and a loop of phases, strides, a requirement, a promise. */
static const char text[] =
    "kernel planted(N, L) {\n"
    "  require(N % 2 == 0);\n"
    "  in(x, f32, [N, 8], [L, 1]);\n"
    "  in(which, i32 in 0..7, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  define_local(total, f32, [1]);\n"
    "  total[0] = sum_in_order(i : N, x[i,0]);\n"
    "  range(j, N) y[j] = x[j,which[j]] - total[0];\n"
    "  opt(split j 64 as jo ji);\n"
    "  opt(thread jo);\n"
    "}\n";
static const tg_binding sizes[] = {{"N", 2, 1000, 2}, {"L", 8, 100, 1}};

static uint64_t seed = 7;
static uint32_t draw(size_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

/* Changes a bit, a byte, or a word of 4 or 8 bytes, to any value or to one at the end of its range. */
static void plant(char *data, size_t bytes) {
  static const uint64_t ends[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 31, UINT32_MAX, 0x7fffffff};
  size_t width = (size_t[]){1, 1, 4, 8}[draw(4)], at = bytes > 8 ? draw(bytes - 7) / width * width : 0;
  uint64_t v = draw(2) ? seed >> 8 : ends[draw(sizeof ends / sizeof *ends)];
  if (width == 1) data[at] = (char)(data[at] ^ (1 << draw(BITS)));
  else memcpy(data + at, &v, width);
}

static bool compile(const char *cache, uint32_t flags, tg_status *status) {
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  tg_context_options o = {.target = test_target(), .threads = 1, .cache = cache};
  if (tg_context_create(&o, &c) != TG_OK) return false;
  *status = tg_kernel_compile_text(c, "planted", text,
                                   &(tg_compile_options){.bindings = sizes, .bindings_n = 2, .flags = flags}, &k);
  if (*status != TG_OK && *status != TG_MISS) fprintf(stderr, "%s\n", tg_error_message(c));
  tg_kernel_free(k), tg_context_free(c);
  return true;
}

/* The places of ELF tables in an object: its head, the heads of sections, and the contents of those with tables. */
static size_t find_tables(const tg_object_view *o, size_t at[64], size_t bytes[64]) {
  size_t n = 0;
  at[n] = 0, bytes[n++] = sizeof *o->head;
  at[n] = o->head->e_shoff, bytes[n++] = o->sections_n * sizeof *o->sections;
  for (uint32_t i = 0; i < o->sections_n && n < 64; i++) {
    uint32_t type = o->sections[i].sh_type;
    if ((type == SHT_SYMTAB || type == SHT_STRTAB || type == SHT_RELA) && o->sections[i].sh_size)
      at[n] = o->sections[i].sh_offset, bytes[n++] = o->sections[i].sh_size;
  }
  return n;
}

static void in_objects(const tg_cache_entry *e) {
  tg_env env;
  tg_guarded g;
  tg_object_view o;
  size_t at[64], bytes[64];
  const tg_allocator a = tg_allocator_default();
  int taken = 0, refused = 0;
  size_t whole = (e->object_n + 7) / 8 * 8;
  if (!tg_guard_take(&g, whole, 0, false)) { CHECK(false, "memory"); return; }
  memcpy(g.data, e->object, e->object_n);
  CHECK(tg_object_open(&o, g.data, e->object_n), "the object");
  size_t n = find_tables(&o, at, bytes);
  for (int i = -1; i < FAULTS; i++) {
    tg_code *code = NULL;
    memcpy(g.data, e->object, e->object_n);
    size_t t = draw(n);
    if (i >= 0) plant(g.data + at[t], bytes[t]);
    tg_env_init(&env, NULL);
    tg_status s = tg_code_load(&a, g.data, e->object_n, "planted", &e->info, 0, &code, &env);
    CHECK((s == TG_OK) == (code != NULL), "fault %d: %s", i, env.message);
    if (i < 0) CHECK(code, "without a fault: %s", env.message);
    else if (code) taken++;
    else refused++;
    if (code) tg_code_unload(code);
    tg_env_drop(&env);
  }
  printf("objects: %d refused, %d loaded\n", refused, taken);
  CHECK(refused > FAULTS / 10, "%d refused", refused);
  tg_guard_drop(&g);
}

static void in_signatures(const tg_cache_entry *e) {
  tg_guarded g;
  int taken = 0, refused = 0;
  if (!tg_guard_take(&g, e->signature_n, 0, false)) { CHECK(false, "memory"); return; }
  const tg_signature *s = (const tg_signature *)(void *)g.data;
  for (int i = -1; i < FAULTS; i++) {
    const int64_t params[2][2] = {{100, 8}, {INT64_MAX, INT64_MIN}};
    char message[512];
    memcpy(g.data, e->signature, e->signature_n);
    if (i >= 0) plant(g.data, e->signature_n);
    if (!tg_signature_valid(s, e->signature_n)) { refused++; continue; }
    taken++;
    for (int k = 0; k < 2 && s->params_n <= 2; k++) {
      tg_signature_check_params(s, params[k], message, sizeof message);
      for (uint32_t b = 0; b < s->buffers_n; b++) {
        int64_t bytes, before;
        if (!tg_signature_bytes(s, b, params[k], &bytes, &before, message, sizeof message))
          tg_signature_apart(s, b, params[k]);
      }
    }
  }
  printf("signatures: %d refused, %d taken\n", refused, taken);
  CHECK(refused > FAULTS / 10 && taken > 0, "%d refused, %d taken", refused, taken);
  tg_guard_drop(&g);
}

/* In the file: in front of the code, and in the tables behind it. */
static void in_files(const char *folder, const char *path, char *data, size_t bytes, const tg_cache_entry *e) {
  char *copy = malloc(bytes);
  size_t code = (size_t)((const char *)e->object - data), at[64], lengths[64];
  tg_object_view o;
  CHECK(tg_object_open(&o, e->object, e->object_n), "the object");
  size_t n = find_tables(&o, at, lengths);
  for (int i = 0; i <= FAULTS; i++) {   /* the last: no fault */
    tg_status s = TG_INTERNAL;
    size_t t = draw(n);
    memcpy(copy, data, bytes);
    while (i < FAULTS && !memcmp(copy, data, bytes))
      if (i % 2) plant(copy, code);
      else plant(copy + code + at[t], lengths[t]);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(copy, 1, bytes, f) == bytes, "written");
    if (f) fclose(f);
    CHECK(compile(folder, TG_COMPILE_CACHED_ONLY, &s) && s == (i < FAULTS ? TG_MISS : TG_OK), "fault %d: %s", i, tg_status_name(s));
  }
  free(copy);
}

int main(void) {
  char folder[TEST_PATH] = "tg-planted-XXXXXX", path[TEST_PATH + 300], command[TEST_PATH + 32];
  tg_env env;
  tg_status s = TG_INTERNAL;
  bool found = false;
  tg_env_init(&env, NULL);
  CHECK(test_folder(folder) && compile(folder, 0, &s) && s == TG_OK, "a kernel in a folder: %s", tg_status_name(s));
  DIR *d = opendir(folder);
  for (struct dirent *x; d && !found && (x = readdir(d));) {
    size_t bytes;
    tg_cache_entry e = {.key = NULL};
    if (x->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
    char *data = tg_read_file(&env, path, &bytes);
    if (!data || !tg_cache_block_read(data, bytes, &e)) continue;
    found = true;
    in_objects(&e), in_signatures(&e), in_files(folder, path, data, bytes, &e);
  }
  if (d) closedir(d);
  CHECK(found, "an entry in %s", folder);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (system(command)) CHECK(false, "%s", command);
  tg_env_drop(&env);
  return TEST_END();
}
