/* SPDX-License-Identifier: MIT
 * The corpus as PTX: compiled for NVIDIA's targets, run by the interpreter of PTX, and compared with tg's interpreter at
 * stage linear, bit for bit.
 *   ptx_corpus [--target=NAME] [--drawn N] [--seed N] [--report] [PROGRAM.tg ...] */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include "../test.h"
#include "choose/heuristic.h"
#include "interp/interp.h"
#include "launch.h"

typedef struct {
  kit_path path;
  tg_job job;
  const kit_program *program;
  int64_t params[32];
  int round;
  kit_memory start, want, got;
  tg_object object;
  tg_code_info info;
  bool report;
  int compared, lacking;
} run;

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

static void interpret(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, r->round, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  kit_lower(&r->path, j, false, seen, r);
  kit_memory_copy(&r->want, &r->start);
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) buffers[b] = (tg_interp_buffer){r->want.data[b], r->want.bytes[b]};
  tg_interpret(j, j->sink, &(tg_interp){.buffers = buffers, .params = r->params, .step_limit = 100000000});
  r->object = tg_jit_compile(r->path.jit, j, j->sink, &r->info, NULL, NULL);
}

static void compare(const run *r, const char *how) {
  for (uint32_t b = 0; b < r->want.n; b++) {
    tg_difference d;
    char text[256];
    tg_comparison c = {.type = r->want.type[b], .n = r->want.bytes[b] / (size_t)tg_type_bytes(r->want.type[b]), .got = r->got.data[b], .want = r->want.data[b], .exact = true};
    bool same = tg_compare(&c, &d);
    if (!same) tg_difference_text(&d, c.n, text, sizeof text);
    CHECK(same, "%s for %s, %s: %s: %s", r->program->path, r->path.target.name, how, r->want.name[b], text);
  }
}

static void show(void *user, const ptx_launch *l) {
  static char text[1 << 14];
  (void)user;
  ptx_report(l, text, sizeof text);
  fputs(text, stdout);
}

static void launch(run *r, bool drawn, bool unaligned) {
  char message[PTX_MESSAGE], how[64];
  ptx_program p = {.job = &r->job, .object = &r->object, .info = &r->info, .params = r->params, .seed = 7, .drawn = drawn, .unaligned = unaligned};
  snprintf(how, sizeof how, "%s, %s", drawn ? "drawn order" : "in order", unaligned ? "unaligned" : "aligned");
  if (r->report && !drawn && !unaligned) p.seen = show;
  kit_memory_copy(&r->got, &r->start);
  bool ok = ptx_program_run(&p, &r->got, message);
  CHECK(ok, "%s for %s, %s: %s", r->program->path, r->path.target.name, how, message);
  if (!ok) return;
  compare(r, how);
  CHECK(kit_bands_whole(&r->got), "%s: wrote behind a buffer", r->program->path);
  r->compared++;
}

static void one(run *r, const kit_program *p) {
  r->program = p;
  tg_job_init(&r->job, NULL);
  if (tg_protect(&r->job.env, interpret, r)) {
    if (r->report) printf("---- %s\n", p->path);
    launch(r, false, false);
    launch(r, true, r->info.aligned != 0);
  } else if (r->job.env.status == TG_EINVAL && strstr(r->job.env.message, "this target has no ")) r->lacking++;
  else CHECK(r->job.env.status == TG_ELIMIT, "%s: %s", p->path, r->job.env.message);
  tg_job_drop(&r->job);
}

int main(int argc, char **argv) {
  static run r;
  const char *target = "sm_80";
  int n, at = 1;
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--target=", 9)) target = argv[at] + 9;
    else if (!strcmp(argv[at], "--report")) r.report = true;
  static const char *const folders[] = {"examples", "tests/corpus", "tests/polybench", "tests/ptx/programs", "tests/ranges/accept"};
  kit_program *p = kit_programs_of(sizeof folders / sizeof *folders, folders, &n);
  CHECK(kit_path_open(&r.path, target), "a path");
  for (int i = 0; i < n; i++) {
    bool wanted = at == argc;
    for (int k = at; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    clock_t t = clock();
    if (wanted) one(&r, &p[i]);
    if (getenv("T") && clock() - t > CLOCKS_PER_SEC / 5) printf("%s %.2f\n", p[i].path, (double)(clock() - t) / CLOCKS_PER_SEC);
  }
  printf("%d launches compared; %d programs ask for what the target lacks\n", r.compared, r.lacking);
  kit_memory_free(&r.start), kit_memory_free(&r.want), kit_memory_free(&r.got);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  return TEST_END();
}
