/* SPDX-License-Identifier: MIT
 * Kernels for AArch64, compiled here, run under qemu-aarch64 by a program that tg's loader and a cross compiler make: every program of the corpus must
 * leave what the interpreter leaves of its linear form. Without those two only the objects are looked at.
 *   aarch64 [PROGRAM.tg ...] */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "../test.h"
#include "aarch64.h"
#include "interp/interp.h"
#include "jit/object.h"
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

static void run_there(const char *folder, int written) {
  char command[2048], line[512] = "", last[512] = "";
  int passed = 0, failed = 0;
  snprintf(command, sizeof command,
           "aarch64-linux-gnu-gcc -std=gnu11 -O1 -static -w -Iinclude -Isrc -Itests/library -idirafter /usr/include -o %s/run tests/library/aarch64_run.c "
           "src/jit/load.c src/jit/object.c src/jit/debug.c src/base/*.c -lpthread -lm 2>&1 && qemu-aarch64 %s/run %s/kernels 2>&1", folder, folder, folder);
  FILE *f = popen(command, "r");
  while (f && fgets(line, sizeof line, f)) {
    if (strlen(last)) fputs(last, stderr);
    memcpy(last, line, sizeof last);
  }
  int status = f ? pclose(f) : -1;
  CHECK(sscanf(last, "%d passed, %d failed", &passed, &failed) == 2 && !status && !failed && passed == written, "%d kernels: %s", written, last);
  test_passed += passed;
}

int main(int argc, char **argv) {
  static run r;
  char folder[] = "/tmp/tg-aarch64-XXXXXX", file[256];
  int n, written = 0;
  kit_program *p = kit_programs(&n);
  CHECK(mkdtemp(folder) && kit_path_open(&r.path, "armv8-a"), "a folder and a path");
  snprintf(file, sizeof file, "%s/kernels", folder);
  FILE *f = fopen(file, "wb");
  for (int i = 0; i < n && f; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    r.program = &p[i];
    if (wanted) written += one(&r, f);
  }
  CHECK(f && !fclose(f), "%s cannot be written", file);
  bool can = !system("command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null");
  if (can) run_there(folder, written);
  else printf("%d kernels not run: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed\n", written);
  kit_memory_free(&r.before), kit_memory_free(&r.after);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  kit_remove(folder);
  return TEST_END();
}
