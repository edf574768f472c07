/* SPDX-License-Identifier: MIT
 * The corpus on an AMD device through tg/device.h, over the stand-in for libdrm_amdgpu, which runs each dispatch in the
 * interpreter of AMD's machine code (tests/amd): placed in the device's memory, launched by its packets, through the
 * caches of the model, and compared with tg's interpreter at stage linear, bit for bit.
 *   drm_corpus [--chip=NAME] [--every N] [FILE.tg ...]      --every: each N-th program of the corpus; 1 without */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "../library/kit.h"
#include "../test.h"
#include "api/api.h"
#include "choose/heuristic.h"
#include "dispatch.h"
#include "interp/interp.h"
#include "tg/device.h"

static drm_model *m;

/* ---- the corpus ---- */

typedef struct {
  tg_context *context;
  tg_device *device;
  kit_path path;
  tg_job job;
  const kit_program *program;
  int64_t params[32];
  kit_memory start, want, got;
  int launched, lacking;
} run;

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

static void interpret(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  tg_lowering l = {.target = r->device->target, .rules = r->path.rules};
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!j->opts.n) tg_heuristic(j, &l, j->sink);
  j->sink = tg_lower(j, &l, NULL, seen, r);
  kit_memory_copy(&r->want, &r->start);
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) buffers[b] = (tg_interp_buffer){r->want.data[b], r->want.bytes[b]};
  tg_interpret(j, j->sink, &(tg_interp){.buffers = buffers, .params = r->params, .step_limit = 100000000});
}

static tg_status launch(run *r, tg_kernel *k) {
  tg_argument a[KIT_BUFFERS] = {{NULL, 0}};
  tg_status s = TG_OK;
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) {
    a[b].bytes = r->start.bytes[b];
    s = tg_device_alloc(r->device, a[b].bytes, &a[b].data);
    if (s == TG_OK) s = tg_device_copy(r->device, a[b].data, r->start.data[b], a[b].bytes);
  }
  tg_launch l = {.buffers = a, .buffers_n = r->start.n, .params = r->params, .params_n = tg_kernel_describe(k)->params_n};
  if (s == TG_OK) s = tg_kernel_start(k, &l);
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) s = tg_device_copy(r->device, r->got.data[b], a[b].data, a[b].bytes);
  for (uint32_t b = 0; b < r->start.n; b++) tg_device_free(r->device, a[b].data);
  return s;
}

static void compare(const run *r) {
  for (uint32_t b = 0; b < r->want.n; b++) {
    tg_difference d;
    char text[256];
    tg_comparison c = {.type = r->want.type[b], .n = r->want.bytes[b] / (size_t)tg_type_bytes(r->want.type[b]), .got = r->got.data[b], .want = r->want.data[b], .exact = true};
    bool same = tg_compare(&c, &d);
    if (!same) tg_difference_text(&d, c.n, text, sizeof text);
    CHECK(same, "%s on %s: buffer %u: %s", r->program->path, m->chip, b, text);
  }
}

static void one(run *r, const kit_program *p) {
  tg_kernel *k = NULL;
  r->program = p;
  m->faults = 0, m->trace_n = 0;
  tg_job_init(&r->job, NULL);
  bool interpreted = tg_protect(&r->job.env, interpret, r);
  tg_status s = tg_kernel_compile_text(r->context, p->path, p->text, &(tg_compile_options){.device = r->device}, &k);
  bool lacking = s == TG_EINVAL && strstr(tg_error_message(r->context), "this target has no ");
  CHECK(lacking || (s == TG_OK && interpreted), "%s: %s; %s", p->path, s == TG_OK ? "" : tg_error_message(r->context), interpreted ? "" : r->job.env.message);
  if (s == TG_OK && interpreted) {
    kit_memory_copy(&r->got, &r->start);
    s = launch(r, k);
    CHECK(s == TG_OK && !m->faults, "%s on %s: %s; %s", p->path, m->chip, s == TG_OK ? "" : tg_error_message(r->context), m->message);
    if (s == TG_OK && !m->faults) compare(r);
    r->launched++;
  }
  r->lacking += lacking;
  tg_kernel_free(k);
  tg_job_drop(&r->job);
}

int main(int argc, char **argv) {
  static run r;
  int n, at = 1, every = 1;
  const char *chip = "gfx1100";
  void *library = dlopen("build/tests/drm/libdrm_amdgpu.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return printf("%s: %s\n0 passed, 1 failed\n", argv[0], dlerror()), 1;
  drm_model *(*of)(void);
  void *found = dlsym(library, "drm_model_of");
  memcpy(&of, &found, sizeof of);
  m = of();
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--chip=", 7)) chip = argv[at] + 7;
    else if (!strcmp(argv[at], "--every") && at + 1 < argc) every = atoi(argv[++at]);
  m->chip = chip, m->run = drm_dispatch_run, m->seed = 1;
  uint32_t number = 0;
  CHECK(tg_device_named("amd:0", &number) == TG_OK && tg_context_create(NULL, &r.context) == TG_OK && tg_device_open(r.context, number, &r.device) == TG_OK, "%s", tg_error_message(r.context));
  CHECK(kit_path_open(&r.path, chip), "a path");
  static const char *const folders[] = {"tests/corpus"};
  kit_program *p = kit_programs_of(1, folders, &n);
  for (int i = 0; i < n; i++) {
    bool wanted = at >= argc && i % every == 0;
    for (int k = at; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (wanted) one(&r, &p[i]);
  }
  printf("%s: %d programs launched, %d ask for what the target lacks; %lld dispatches, %lld copies\n", chip, r.launched, r.lacking, (long long)m->dispatches, (long long)m->copies);
  CHECK(r.launched > 0, "nothing was launched");
  kit_memory_free(&r.start), kit_memory_free(&r.want), kit_memory_free(&r.got);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  tg_context_free(r.context);
  CHECK(!m->live, "%lld objects live", (long long)m->live);
  return TEST_END();
}
