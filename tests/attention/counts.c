/* SPDX-License-Identifier: MIT
 * What blocks that a causal mask cuts cost on a GPU: warp instructions of a causal run against half of those of a full
 * one, as the interpreter of PTX counts them, for V that is finite. What is computed is attention_device's to check. */
#include "../library/kit.h"
#include "../ptx/launch.h"
#include "../test.h"
#include "attention/template.h"

enum { KEYS = 512 };

typedef struct {
  kit_path path;
  tg_job job;
  tg_attention_problem problem;
  tg_attention_def def;
  kit_memory memory;
  int64_t params[ATTENTION_VALUES];
  ptx_summary sum;
  char message[PTX_MESSAGE];
} run;

/* One head, dense; `at`, the key at which row 0 stands, is 0. */
static void fill_params(run *r, const tg_binding *b, uint32_t n) {
  const int64_t head = r->problem.head, all = KEYS * head;
  const struct { const char *name; int64_t value; } values[] = {
      {"M", KEYS}, {"N", KEYS}, {"B", 1}, {"H", 1}, {"ldq", head}, {"ldk", head}, {"ldv", head}, {"ldo", head},
      {"q_b", all}, {"q_h", all}, {"k_b", all}, {"k_h", all}, {"v_b", all}, {"v_h", all}, {"o_b", all}, {"o_h", all}};
  for (uint32_t i = 0, at = 0; i < n; i++) {
    if (b[i].lo == b[i].hi) continue;   /* a constant */
    r->params[at] = 0;
    for (uint32_t k = 0; k < TG_COUNT(values); k++)
      if (!strcmp(b[i].name, values[k].name)) r->params[at] = values[k].value;
    at++;
  }
}

static void add(void *user, const ptx_launch *l) {
  run *r = user;
  ptx_summary s = ptx_summarise(l, 0);
  r->sum.all.warps += s.all.warps, r->sum.matrix += s.matrix;
}

static void launch(void *user) {
  run *r = user;
  tg_binding b[ATTENTION_VALUES];
  tg_code_info info;
  uint32_t n = tg_attention_bind(&r->problem, tg_attention_device, b);
  tg_author(&r->job, &r->def.def, n, b, &r->problem);
  fill_params(r, b, n);
  if (!kit_memory_make(&r->job, r->params, &r->memory)) tg_fail(&r->job.env, TG_ELIMIT, "no memory");
  kit_lower(&r->path, &r->job, false, NULL, NULL);
  tg_object object = tg_jit_compile(r->path.jit, &r->job, r->job.sink, &info, NULL, NULL);
  const ptx_program p = {.job = &r->job, .object = &object, .info = &info, .params = r->params, .seed = 1, .seen = add,
                         .user = r};
  if (!ptx_program_run(&p, &r->memory, r->message)) tg_fail(&r->job.env, TG_EINVAL, "%s", r->message);
}

static double instructions(run *r, int64_t head, bool causal) {
  r->problem = (tg_attention_problem){.q = TG_F16, .k = TG_F16, .v = TG_F16, .o = TG_F16, .head = head,
                                      .value_head = head, .rows = {KEYS, KEYS}, .keys = {KEYS, KEYS}, .base2 = true,
                                      .grid = true, .group = 1, .causal = causal};
  r->sum = (ptx_summary){.matrix = 0};
  tg_attention_device_tiles(&r->path.target, &r->problem);
  tg_attention_kernel_of(&r->problem, tg_attention_device, &r->def);
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, launch, r);
  CHECK(ok && r->sum.matrix, "head %lld: %s", (long long)head, ok ? "no matrix instructions" : r->job.env.message);
  tg_job_drop(&r->job);
  return (double)r->sum.all.warps;
}

int main(void) {
  static run r;
  static const struct { int64_t head; double most; } all[] = {{64, 1.45}, {128, 1.55}};
  CHECK(kit_path_open(&r.path, "sm_90a"), "no path");
  for (size_t i = 0; i < TG_COUNT(all); i++) {
    double full = instructions(&r, all[i].head, false), causal = instructions(&r, all[i].head, true);
    CHECK(causal <= all[i].most * full / 2, "head %lld: %.0f causal, %.0f full", (long long)all[i].head, causal, full);
  }
  kit_memory_free(&r.memory);
  kit_path_close(&r.path);
  return TEST_END();
}
