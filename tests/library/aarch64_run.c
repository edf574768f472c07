/* SPDX-License-Identifier: MIT
 * Runs on AArch64: loads the objects that library_aarch64 wrote, with tg's own loader, and compares what they leave with what the interpreter left. */
#include <stdio.h>
#include <stdlib.h>
#include "aarch64.h"
#include "code/code.h"
#include "target/processor.h"

static void read_all(FILE *f, void *p, size_t n) {
  if (n && fread(p, 1, n, f) != n) {
    printf("cut short\n0 passed, 1 failed\n");
    exit(1);
  }
}

static void *memory(size_t n) { return aligned_alloc(64, (n + 127) / 64 * 64); }

static int is_nan(uint32_t type, const char *p) {
  uint64_t bits = 0;
  if (type == TG_F64) return memcpy(&bits, p, 8), (bits & INT64_MAX) > 0x7ff0000000000000;
  if (type == TG_F32) return memcpy(&bits, p, 4), (bits & 0x7fffffff) > 0x7f800000;
  if (type == TG_F16) return memcpy(&bits, p, 2), (bits & 0x7fff) > 0x7c00;
  return type == TG_BF16 && (memcpy(&bits, p, 2), (bits & 0x7fff) > 0x7f80);
}

static int same(const aarch64_kernel *k, uint32_t b, const char *got, const char *want) {
  size_t size = k->type[b] == TG_F64 || k->type[b] == TG_I64 || k->type[b] == TG_U64 ? 8 : k->type[b] == TG_F32 ? 4 : k->type[b] == TG_F16 || k->type[b] == TG_BF16 ? 2 : 1;
  for (size_t i = 0; i + size <= k->bytes[b]; i += size)
    if (memcmp(got + i, want + i, size) && !(is_nan(k->type[b], got + i) && is_nan(k->type[b], want + i))) {
      printf("%s: buffer %u differs at byte %zu of %llu\n", k->path, b, i, (unsigned long long)k->bytes[b]);
      return 0;
    }
  return 1;
}

typedef struct { const aarch64_kernel *k; tg_code *code; void **buffers, *workspace; } launch;

static void phase(void *user, uint32_t p) {
  launch *l = user;
  int64_t n = tg_code_tasks(l->code, p, l->buffers, l->k->value);
  for (int64_t t = 0; t < n; t++) tg_code_entry(l->code, p, true)(l->buffers, l->k->value, l->workspace, t);
}

static int run(const aarch64_kernel *k, const void *object, void **buffers) {
  tg_code_info info = {.buffers = k->buffers, .params = k->params, .phases = k->phases, .workspace = k->workspace, .shared = k->shared,
                       .launch = k->loops ? k->steps : NULL, .launch_n = k->steps_n, .loops = k->loops};
  tg_allocator a = tg_allocator_default();
  tg_code *code;
  static tg_env env;
  tg_env_init(&env, NULL);
  if (tg_code_load(&a, object, k->object, k->name, &info, 0, &code, &env) != TG_OK) return printf("%s: %s\n", k->path, env.message), 0;
  void *workspace = memory(k->workspace);
  buffers[k->buffers] = memory(k->shared);
  tg_code_walk(code, buffers, k->value, phase, &(launch){k, code, buffers, workspace});
  tg_code_unload(code);
  free(buffers[k->buffers]);
  free(workspace);
  return 1;
}

/* What it is called in the cache's key, and the rows that it runs. */
static int tell(void) {
  tg_target t;
  tg_target_host(&t, 1);
  printf("%s runs:", t.silicon);
  for (uint32_t i = 0; tg_target_name(i); i++)
    if (tg_target_named(&t, tg_target_name(i)) && tg_target_runs_here(&t)) printf(" %s", t.name);
  putchar('\n');
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--processor")) return tell();
  static aarch64_kernel k;
  int passed = 0, failed = 0;
  FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
  while (f && fread(&k, sizeof k, 1, f) == 1) {
    void *buffers[AARCH64_BUFFERS + 1], *object = memory(k.object);
    read_all(f, object, k.object);
    for (uint32_t b = 0; b < k.buffers; b++) read_all(f, buffers[b] = memory(k.bytes[b]), k.bytes[b]);
    int ok = run(&k, object, buffers);
    for (uint32_t b = 0; b < k.buffers; b++) {
      char *want = memory(k.bytes[b]);
      read_all(f, want, k.bytes[b]);
      if (ok) ok = same(&k, b, buffers[b], want);
      free(want);
      free(buffers[b]);
    }
    free(object);
    passed += ok;
    failed += !ok;
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
