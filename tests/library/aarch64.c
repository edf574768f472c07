/* SPDX-License-Identifier: MIT
 * Kernels for AArch64, with NEON and with SVE, compiled here, run under qemu-aarch64 by a program that tg's loader and a cross compiler make: every program of the corpus must
 * leave what the interpreter leaves of its linear form. Without those two only the objects are looked at.
 *   aarch64 [--target=ROW] [PROGRAM.tg ...] */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "aarch64.h"
#include "interp/interp.h"
#include "code/object.h"
#include "kit.h"

typedef struct {
  kit_path path;
  const kit_program *program;
  tg_job job;
  aarch64_kernel k;
  tg_object object;
  tg_code_info info;
  kit_memory before, after;
} run;

/* Operands that it takes packed, from the schedule on. */
static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->k.value, &r->before);
}

static void make(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, 0, r->k.value);
  bool made = kit_memory_make(j, r->k.value, &r->before);
  tg_assert(&j->env, made && j->params.n <= AARCH64_PARAMS);
  kit_lower(&r->path, j, true, seen, r);
  r->object = tg_jit_compile(r->path.jit, j, j->sink, &r->info, NULL, NULL);
}

static void interpret(void *user) {
  run *r = user;
  tg_interp_buffer buffers[KIT_BUFFERS];
  kit_memory_copy(&r->after, &r->before);
  for (uint32_t b = 0; b < r->after.n; b++) buffers[b] = (tg_interp_buffer){r->after.data[b], r->after.bytes[b]};
  tg_interpret(&r->job, r->job.sink, &(tg_interp){.buffers = buffers, .params = r->k.value, .step_limit = 20000000, .memory_limit = 64 << 20});
}

static void write_kernel(run *r, FILE *f) {
  snprintf(r->k.path, sizeof r->k.path, "%s", r->program->path);
  snprintf(r->k.name, sizeof r->k.name, "%s", r->job.name);
  r->k.phases = r->info.phases, r->k.buffers = r->info.buffers, r->k.params = r->info.params;
  r->k.workspace = r->info.workspace, r->k.shared = r->info.shared, r->k.object = r->object.bytes;
  r->k.loops = r->info.loops, r->k.steps_n = r->info.launch_n;
  if (r->info.launch_n && r->info.launch_n <= AARCH64_STEPS) memcpy(r->k.steps, r->info.launch, 8 * r->info.launch_n);
  for (uint32_t b = 0; b < r->before.n; b++) r->k.bytes[b] = r->before.bytes[b], r->k.type[b] = r->before.type[b];
  fwrite(&r->k, sizeof r->k, 1, f);
  fwrite(r->object.data, 1, r->object.bytes, f);
  for (uint32_t b = 0; b < r->before.n; b++) fwrite(r->before.data[b], 1, r->before.bytes[b], f);
  for (uint32_t b = 0; b < r->after.n; b++) fwrite(r->after.data[b], 1, r->after.bytes[b], f);
}

/* Whether it was written: what is too large for the interpreter is not. */
static bool one(run *r, FILE *f) {
  tg_object_view o;
  bool written = false;
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, make, r);
  CHECK(ok, "%s: %s", r->program->path, r->job.env.message);
  if (ok) {
    CHECK(tg_object_open(&o, r->object.data, r->object.bytes) && o.head->e_machine == EM_AARCH64 && !tg_object_undefined(r->object.data, r->object.bytes), "%s: the object", r->program->path);
    ok = tg_protect(&r->job.env, interpret, r);
    CHECK(ok || r->job.env.status == TG_ELIMIT, "%s: %s", r->program->path, r->job.env.message);
    if (ok) write_kernel(r, f), written = true;
  }
  tg_job_drop(&r->job);
  return written;
}

/* ---- under qemu ---- */

static bool build_runner(const char *folder) {
  char command[1024];
  snprintf(command, sizeof command,
           "aarch64-linux-gnu-gcc -std=gnu11 -O1 -static -w -Iinclude -Isrc -Itests/library -idirafter /usr/include -o %s/run tests/library/aarch64_run.c "
           "src/code/load.c src/code/object.c src/code/debug.c src/target/machine.c src/target/processor.c src/target/target.c src/base/*.c -lpthread -lm >&2", folder);
  return !system(command);
}

/* The last line; those before go to stderr. */
static int in_qemu(const char *folder, const char *processor, const char *arguments, char *last, int bytes) {
  char command[1024], line[512] = "";
  snprintf(command, sizeof command, "qemu-aarch64 -cpu %s %s/run %s 2>&1", processor, folder, arguments);
  FILE *f = popen(command, "r");
  last[0] = 0;
  while (f && fgets(line, sizeof line, f)) {
    if (strlen(last)) fputs(last, stderr);
    snprintf(last, (size_t)bytes, "%s", line);
  }
  return f ? pclose(f) : -1;
}

static void run_there(const char *folder, const char *target, const char *processor, int written) {
  char last[512], file[256];
  int passed = 0, failed = 0;
  snprintf(file, sizeof file, "%s/kernels", folder);
  int status = in_qemu(folder, processor, file, last, sizeof last);
  CHECK(sscanf(last, "%d passed, %d failed", &passed, &failed) == 2 && !status && !failed && passed == written, "%d kernels for %s on %s: %s", written, target, processor, last);
  test_passed += passed;
}

/* Each has a name of its own in the cache's key, and knows which rows it runs. */
static void processors(const char *folder) {
  static const struct { const char *processor, *runs; } there[] = {
    {"cortex-a57", "armv8-a"}, {"neoverse-n1", "armv8-a neoverse-n1"}, {"a64fx", "armv8-a"}, {"max,sve=off", "armv8-a neoverse-n1"},
    {"max,sve-max-vq=1", "armv8-a neoverse-n1 neoverse-v2"}, {"max,sve-max-vq=2", "armv8-a neoverse-n1 neoverse-v1 neoverse-v2"}};
  char line[TG_COUNT(there)][512];
  for (size_t i = 0; i < TG_COUNT(there); i++) {
    int status = in_qemu(folder, there[i].processor, "--processor", line[i], sizeof line[i]);
    char *rows = strstr(line[i], " runs: ");
    CHECK(!status && rows, "%s: %s", there[i].processor, line[i]);
    if (!rows) continue;
    *rows = 0, rows[strcspn(rows + 1, "\n") + 1] = 0;
    CHECK(!strcmp(rows + 7, there[i].runs), "%s runs %s, not %s", there[i].processor, rows + 7, there[i].runs);
    for (size_t k = 0; k < i; k++) CHECK(strcmp(line[i], line[k]), "%s and %s are both '%s'", there[i].processor, there[k].processor, line[i]);
  }
}

/* The same code wherever it must be right: with and without SVE, with registers as long as the row says, and longer. `all`: every program; else every third, and where it is named. */
static const struct { const char *target, *processor[2]; bool all; } runs[] = {
  {"armv8-a", {"max,sve=off", "max,sve-max-vq=2"}, true}, {"neoverse-v1", {"max,sve-max-vq=2", "max,sve-max-vq=4"}, true}, {"neoverse-v2", {"max,sve-max-vq=1", "max,sve-max-vq=4"}, false}};

static void one_target(size_t t, const kit_program *p, int n, int argc, char **argv, const char *folder, bool can) {
  static run r;
  char file[256];
  int written = 0;
  CHECK(kit_path_open(&r.path, runs[t].target), "%s", runs[t].target);
  snprintf(file, sizeof file, "%s/kernels", folder);
  FILE *f = fopen(file, "wb");
  for (int i = 0; i < n && f; i++) {
    bool wanted = argc < 2 && (runs[t].all || i % 3 == 0);
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    r.program = &p[i];
    if (wanted) written += one(&r, f);
  }
  CHECK(f && !fclose(f), "%s cannot be written", file);
  for (size_t k = 0; k < TG_COUNT(runs[t].processor) && can; k++) run_there(folder, runs[t].target, runs[t].processor[k], written);
  kit_memory_free(&r.before), kit_memory_free(&r.after);
  kit_path_close(&r.path);
}

int main(int argc, char **argv) {
  char folder[TEST_PATH] = "tg-aarch64-XXXXXX";
  int n;
  const char *only = argc > 1 && !strncmp(argv[1], "--target=", 9) ? argv[1] + 9 : NULL;
  if (only) argc--, argv++;
  kit_program *p = kit_programs(&n);
  CHECK(test_folder(folder) != NULL, "a folder");
  bool can = !system("command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null");
  if (can) {
    can = build_runner(folder);
    CHECK(can, "the program that runs them");
    if (argc < 2 && can) processors(folder);
  } else printf("not run: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed\n");
  for (size_t t = 0; t < TG_COUNT(runs); t++)
    if (!only || !strcmp(only, runs[t].target)) one_target(t, p, n, argc, argv, folder, can);
  kit_programs_free(p, n);
  kit_remove(folder);
  return TEST_END();
}
