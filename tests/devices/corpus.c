/* SPDX-License-Identifier: MIT
 * The loop over programs that the tests of all drivers have. */
#include <stdlib.h>
#include "../test.h"
#include "api/api.h"
#include "choose/heuristic.h"
#include "compile/price.h"
#include "corpus.h"
#include "interp/interp.h"

void corpus_lower(const tg_device *d, const kit_path *p, tg_job *j, tg_stage_fn *seen, void *user) {
  tg_lowering l = {.target = d->target, .rules = p->rules, .price = tg_price_raised};
  j->sink = tg_lower(j, &l, "raise", seen, user);
  if (!j->opts.n) tg_heuristic(j, &l, j->sink);
  j->sink = tg_lower(j, &l, NULL, seen, user);
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  corpus *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

/* What the interpreter makes of what the device's compiler is given. */
static void interpret(void *user) {
  corpus *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  corpus_lower(r->device, &r->path, j, seen, r);
  kit_memory_copy(&r->want, &r->start);
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) buffers[b] = (tg_interp_buffer){r->want.data[b], r->want.bytes[b]};
  tg_interpret(j, j->sink, &(tg_interp){.buffers = buffers, .params = r->params, .step_limit = 100000000});
}

bool corpus_interpret(corpus *r, const kit_program *p) {
  r->program = p;
  tg_job_init(&r->job, NULL);
  return tg_protect(&r->job.env, interpret, r);
}

tg_status corpus_launch(corpus *r, tg_kernel *k, bool beside) {
  tg_argument a[KIT_BUFFERS] = {{NULL, 0}};
  void *memory[KIT_BUFFERS] = {NULL};
  tg_status s = TG_OK;
  kit_memory_copy(&r->got, &r->start);
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) {
    size_t offset = beside ? (size_t)tg_type_bytes(r->start.type[b]) : 0;
    a[b].bytes = r->start.bytes[b];
    s = tg_device_alloc(r->device, a[b].bytes + offset, &memory[b]);
    a[b].data = (char *)memory[b] + offset;
    if (s == TG_OK) s = tg_device_copy(r->device, a[b].data, r->start.data[b], a[b].bytes);
  }
  tg_launch l = {.buffers = a, .buffers_n = r->start.n, .params = r->params, .params_n = tg_kernel_describe(k)->params_n};
  if (s == TG_OK) s = tg_kernel_start(k, &l);
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) s = tg_device_copy(r->device, r->got.data[b], a[b].data, a[b].bytes);
  for (uint32_t b = 0; b < r->start.n; b++) tg_device_free(r->device, memory[b]);
  return s;
}

void corpus_compare(const corpus *r) {
  bool exact = !r->rounds || !strstr(r->program->text, "// rounds");
  for (uint32_t b = 0; b < r->want.n; b++) {
    tg_difference d;
    char text[256];
    size_t n = r->want.bytes[b] / (size_t)tg_type_bytes(r->want.type[b]);
    double *scale = exact ? NULL : kit_scale(r->want.type[b], r->want.data[b], n);
    tg_comparison c = {.type = r->want.type[b], .n = n, .got = r->got.data[b], .want = r->want.data[b], .exact = exact, .terms = 4096, .magnitude = scale};
    bool same = tg_compare(&c, &d);
    free(scale);
    if (!same) tg_difference_text(&d, c.n, text, sizeof text);
    CHECK(same, "%s: buffer %u: %s", r->program->path, b, text);
  }
}

static bool launches(corpus *r, tg_kernel *k) {
  for (int beside = 0; beside <= r->beside; beside++) {
    tg_status s = corpus_launch(r, k, beside);
    const char *fault = r->fault ? r->fault() : "";
    CHECK(s == TG_OK && !fault[0], "%s: %s: %s", r->program->path, s == TG_OK ? "" : tg_error_message(r->context), fault);
    if (s != TG_OK || fault[0]) return false;
    corpus_compare(r);
    r->launched++;
  }
  return true;
}

bool corpus_one(corpus *r, const kit_program *p) {
  tg_kernel *k = NULL;
  bool launched = false;
  if (r->begin) r->begin(r);
  bool interpreted = corpus_interpret(r, p);
  tg_status s = tg_kernel_compile_text(r->context, p->path, p->text, &(tg_compile_options){.device = r->device}, &k);
  if (!r->whole && s == TG_EINVAL && strstr(tg_error_message(r->context), "this target has no ")) r->lacking++;
  else {
    CHECK(interpreted, "%s: %s", p->path, r->job.env.message);
    CHECK(s == TG_OK, "%s: %s", p->path, tg_error_message(r->context));
    if (s == TG_OK && interpreted) launched = launches(r, k);
  }
  tg_kernel_free(k);
  tg_job_drop(&r->job);
  return launched;
}

int corpus_run(corpus *r, int folders, const char *const *folder, int every, int named, char **name) {
  int n, tried = 0;
  kit_program *p = kit_programs_of(folders, folder, &n);
  for (int i = 0; i < n; i++) {
    bool wanted = !named && i % every == 0;
    for (int k = 0; k < named; k++) wanted |= !strcmp(name[k], p[i].path);
    r->number = i;
    if (wanted) corpus_one(r, &p[i]), tried++;
  }
  kit_programs_free(p, n);
  return tried;
}

void corpus_close(corpus *r) {
  kit_memory_free(&r->start), kit_memory_free(&r->want), kit_memory_free(&r->got);
  kit_path_close(&r->path);
}
