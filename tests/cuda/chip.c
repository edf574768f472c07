/* SPDX-License-Identifier: MIT
 * The numbers of a GPU that tg measure --save keeps: what the probes make of times by the stand-in's clock; files that
 * are read, refused and of another chip; and that choices follow them. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../folder.h"
#include "../devices/corpus.h"
#include "cuda.h"
#include "measure/chip.h"

static char folder[TEST_PATH] = "tg-chip-XXXXXX", library[4096], logged[512];

static void hear(void *user, const char *message) {
  (void)user;
  snprintf(logged, sizeof logged, "%s", message);
}

static bool open_with(machine *m, int chip) {
  logged[0] = 0;
  return machine_open(m, library, chip, &(tg_context_options){.tuned = folder, .log = hear});
}

static void test_probes(void) {
  machine m;
  tg_chip c;
  standin *s = standin_open(library);
  CHECK(s, "%s", library);
  if (!s) return;
  s->major[0] = 9, s->cores = 2, s->operation_ms = 1;
  if (!machine_open_on(&m, s, &(tg_context_options){.tuned = ""})) return;
  const tool_args none = {.device = "cuda:0"};
  bench_device d = {.args = &none, .context = m.context, .device = m.device};
  CHECK(tg_queue_open(m.device, NULL, &d.queue) == TG_OK, "a queue");
  bool measured = measure_chip(&d, (measure_chip_size){.groups = 2, .rounds = 8}, &c);
  CHECK(measured, "%s", tg_error_message(m.context));
  if (measured) {
    /* a launch and the event behind it are two operations; of a core: 2 groups of 128 threads with 16 chains, 2 groups
     * of 64 x 64 x 16, one of 256 words, 8 rounds each, and 128 multiplications in a cycle */
    const double launch = 2e-3, chained = 2 * 128 * 16 * 8, multiplied = 2 * 64 * 64 * 16 * 8, read = 256 * 4 * 8;
    const double hertz = chained / launch / 128;
    CHECK(fabs(c.clock * 1e6 / hertz - 1) < 1e-6, "clock: %g MHz", c.clock);
    CHECK(fabs(c.matrix_macs / (multiplied / launch / hertz) - 1) < 1e-6, "matrix_macs: %g", c.matrix_macs);
    CHECK(fabs(c.core_bytes / (read / launch / hertz) - 1) < 1e-6, "core_bytes: %g", c.core_bytes);
    CHECK(fabs(c.launch_ns / 2e6 - 1) < 1e-6, "launch_ns: %g", c.launch_ns);
  }
  tg_queue_free(d.queue);
  machine_close(&m);
}

/* ---- files ---- */

static const tg_chip kept = {.clock = 1525, .matrix_macs = 9000, .core_bytes = 2, .launch_ns = 2500};

static void keep(const tg_target *t) {
  tg_env env;
  tg_env_init(&env, NULL);
  int err = tg_chip_file_write(&env, folder, t, &kept);
  CHECK(!err, "%s: %d", folder, err);
  tg_env_drop(&env);
}

typedef struct { const machine *m; kit_path path; tg_job j; } lowering;

static void lower(void *arg) {
  lowering *w = arg;
  tg_parse_kernel(&w->j, "product", "kernel product(M = 512, N = 512, K = 512) { in(A, f16, [M, K]); in(B, f16, [N, K]);\n"
                  "  out(C, f32, [M, N]); range(i, M) range(j, N) C[i, j] = sum(k : K, f32(A[i, k]) * f32(B[j, k])); }", 0, NULL);
  corpus_lower(w->m->device, &w->path, &w->j, NULL, NULL);
}

/* Words that are chosen for a product. */
static void choice(const machine *m, char out[4096]) {
  static lowering w;
  int n = 0;
  w.m = m;
  tg_job_init(&w.j, NULL);
  CHECK(kit_path_open(&w.path, m->about.target), "a path for %s", m->about.target);
  CHECK(tg_protect(&w.j.env, lower, &w), "%s", w.j.env.message);
  for (uint32_t i = 0; i < w.j.opts.n && n < 4000; i++)
    n += snprintf(out + n, 4096 - (size_t)n, "%s;", w.j.opts.data[i].text);
  kit_path_close(&w.path);
  tg_job_drop(&w.j);
}

static void test_files(void) {
  static char first[4096], second[4096];
  machine m;
  if (!open_with(&m, 9)) return;
  const tg_target tree = *m.device->target;
  choice(&m, first);
  keep(&tree);
  machine_close(&m);

  if (!open_with(&m, 9)) return;
  const tg_target *t = m.device->target;
  CHECK(t->clock == 1500 && t->matrix_macs == 9000 && t->core_bytes == 2 && t->launch_ns == 2500, "not the file's numbers: %u %u %u %u", t->clock, t->matrix_macs, t->core_bytes, t->launch_ns);
  CHECK(strstr(t->silicon, tree.silicon) == t->silicon && strcmp(t->silicon, tree.silicon), "'%s' does not tell them", t->silicon);
  CHECK(t->core_macs == tree.core_macs && t->threads == tree.threads, "others have changed");
  CHECK(!logged[0], "%s", logged);
  choice(&m, second);
  CHECK(*first && *second && strcmp(first, second), "the choice does not follow: %s", second);
  machine_close(&m);

  if (!open_with(&m, 8)) return;
  CHECK(!strstr(m.device->target->silicon, "measured") && !logged[0], "taken for another chip: %s", logged);
  machine_close(&m);
}

/* A line is changed; then the device has the tree's numbers, and the log says what is wrong. */
static void test_damage(void) {
  static const struct { const char *from, *to, *says; } damage[] = {
      {"tg-chip 1", "tg-chip 2", "another version"}, {"clock = 1525", "clock = -3", "out of range"},
      {"launch_ns", "launch", "no column is named 'launch'"}, {"core_bytes = 2", "", "no line for core_bytes"},
      {"LOCAL", "REMOTE", "on another processor"}};
  char path[4096], name[TG_CHIP_FILE], text[2048], changed[2048];
  machine m;
  if (!open_with(&m, 9)) return;
  machine_close(&m);
  if (!machine_open(&m, library, 9, &(tg_context_options){.tuned = ""})) return;
  tg_chip_file(m.device->target, name);
  machine_close(&m);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  CHECK(f, "%s", path);
  if (!f) return;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
    const char *at = strstr(text, damage[i].from);
    CHECK(at, "no '%s' in %s", damage[i].from, text);
    if (!at) continue;
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, damage[i].to, at + strlen(damage[i].from));
    f = fopen(path, "w");
    fputs(changed, f);
    fclose(f);
    if (!open_with(&m, 9)) return;
    CHECK(!strstr(m.device->target->silicon, "measured"), "%s: taken", damage[i].to);
    CHECK(strstr(logged, damage[i].says), "%s: '%s'", damage[i].to, logged);
    machine_close(&m);
  }
  unlink(path);
}

int main(int argc, char **argv) {
  (void)argc;
  standin_path(library, sizeof library, argv[0]);
  CHECK(test_folder(folder), "a folder");
  test_probes();
  test_files();
  test_damage();
  rmdir(folder);
  return TEST_END();
}
