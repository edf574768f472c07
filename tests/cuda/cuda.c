/* SPDX-License-Identifier: MIT
 * A CUDA device through tg/device.h, over the stand-in of this folder or over NVIDIA's own driver: each program of the
 * corpus is compiled for it, launched there on memory of its own, and compared with the interpreter at stage linear, bit
 * for bit. Then, over the stand-in, what its control can bring about: faults.c.
 *   cuda_device [--chip=8|9] [--hardware] [PROGRAM.tg ...]        --hardware: libcuda.so.1 as the system finds it */
#include <stdlib.h>
#include "cuda.h"
#include "interp/interp.h"

typedef struct {
  machine m;
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

/* What the interpreter makes of what the driver's compiler is given. */
static void interpret(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  machine_lower(&r->m, &r->path, j, seen, r);
  kit_memory_copy(&r->want, &r->start);
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) buffers[b] = (tg_interp_buffer){r->want.data[b], r->want.bytes[b]};
  tg_interpret(j, j->sink, &(tg_interp){.buffers = buffers, .params = r->params, .step_limit = 100000000});
}

/* offset: bytes by which buffers stand beside what allocation aligns: an element, for the entry of unaligned buffers. */
static tg_status launch(run *r, tg_kernel *k, bool beside) {
  const tg_kernel_info *info = tg_kernel_describe(k);
  tg_argument a[KIT_BUFFERS];
  void *memory[KIT_BUFFERS] = {NULL};
  tg_status s = TG_OK;
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) {
    size_t offset = beside ? (size_t)tg_type_bytes(r->start.type[b]) : 0;
    a[b].bytes = r->start.bytes[b];
    s = tg_device_alloc(r->m.device, a[b].bytes + offset, &memory[b]);
    if (s != TG_OK) break;
    a[b].data = (char *)memory[b] + offset;
    s = tg_device_copy(r->m.device, a[b].data, r->start.data[b], a[b].bytes);
  }
  tg_launch l = {.buffers = a, .buffers_n = r->start.n, .params = r->params, .params_n = info->params_n};
  if (s == TG_OK) s = tg_kernel_start(k, &l);
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) s = tg_device_copy(r->m.device, r->got.data[b], a[b].data, a[b].bytes);
  for (uint32_t b = 0; b < r->start.n; b++) tg_device_free(r->m.device, memory[b]);
  return s;
}

static void compare(const run *r) {
  for (uint32_t b = 0; b < r->want.n; b++) {
    tg_difference d;
    char text[256];
    /* a chip's matrix instructions add as no document says */
    bool exact = r->m.standin || !strstr(r->program->text, "// rounds");
    size_t n = r->want.bytes[b] / (size_t)tg_type_bytes(r->want.type[b]);
    double *scale = exact ? NULL : kit_scale(r->want.type[b], r->want.data[b], n);
    tg_comparison c = {.type = r->want.type[b], .n = n, .got = r->got.data[b], .want = r->want.data[b], .exact = exact, .terms = 4096, .magnitude = scale};
    bool same = tg_compare(&c, &d);
    free(scale);
    if (!same) tg_difference_text(&d, c.n, text, sizeof text);
    CHECK(same, "%s: buffer %u: %s", r->program->path, b, text);
  }
}

static void one(run *r, const kit_program *p) {
  tg_kernel *k = NULL;
  r->program = p;
  tg_job_init(&r->job, NULL);
  bool interpreted = tg_protect(&r->job.env, interpret, r);
  tg_status s = tg_kernel_compile_text(r->m.context, p->path, p->text, &(tg_compile_options){.device = r->m.device}, &k);
  if (!interpreted && r->job.env.status == TG_EINVAL && strstr(r->job.env.message, "this target has no ")) {
    CHECK(s == TG_EINVAL, "%s: %s", p->path, tg_status_name(s));
    r->lacking++;
  } else {
    CHECK(interpreted, "%s: %s", p->path, r->job.env.message);
    CHECK(s == TG_OK, "%s: %s", p->path, tg_error_message(r->m.context));
  }
  for (int beside = 0; beside < 2 && s == TG_OK && interpreted; beside++) {
    kit_memory_copy(&r->got, &r->start);
    s = launch(r, k, beside);
    CHECK(s == TG_OK, "%s: %s%s%s", p->path, tg_error_message(r->m.context), r->m.standin ? ": " : "", r->m.standin ? r->m.standin->fault : "");
    if (s == TG_OK) compare(r), r->launched++;
  }
  tg_kernel_free(k);
  tg_job_drop(&r->job);
}

static void corpus(const char *library, int chip, int argc, char **argv) {
  static run whole;
  static const char *const folders[] = {"tests/corpus", "tests/ptx/gpu"};
  run *r = &whole;
  int n;
  r->launched = r->lacking = 0;
  kit_program *p = kit_programs_of(2, folders, &n);
  if (!machine_open(&r->m, library, chip, NULL)) return;
  CHECK(kit_path_open(&r->path, r->m.about.target), "a path for %s", r->m.about.target);
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 1;
    for (int k = 0; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (wanted) one(r, &p[i]);
  }
  printf("%s for %s: %d launches compared, %d programs ask for what it lacks\n", r->m.about.name, r->m.about.target, r->launched, r->lacking);
  CHECK(r->launched > (argc ? 0 : n), "%d launches of %d programs", r->launched, n);
  kit_memory_free(&r->start), kit_memory_free(&r->want), kit_memory_free(&r->got);
  kit_path_close(&r->path);
  kit_programs_free(p, n);
  machine_close(&r->m);
}

int main(int argc, char **argv) {
  char path[256];
  const char *library = path;
  int chip = 0, at = 1;
  standin_path(path, sizeof path, argv[0]);
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--chip=", 7)) chip = atoi(argv[at] + 7);
    else if (!strcmp(argv[at], "--hardware")) library = NULL;
  if (!library || chip) corpus(library, chip, argc - at, argv + at);
  else
    for (chip = 8; chip < 10; chip++) corpus(library, chip, argc - at, argv + at);
  return TEST_END();
}
