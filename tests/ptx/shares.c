/* SPDX-License-Identifier: MIT
 * Shares of a processor's peak that the first choice for a product of f16 matrices, 4096 x 4096 x 4096, can reach, from
 * counts: one tile of its words, with 1024 terms, runs in the interpreters of PTX and of AMD's code. For each matrix
 * instruction a core takes
 *
 *   tensor    its multiplications / those of a cycle
 *   issue     instructions of warps / schedulers of a core (AMD: those of a SIMD; waits and hints count here too)
 *   LOCAL     wavefronts, of which a core has one a cycle
 *   outside   bytes of memory / those that a core is given in a cycle
 *
 * and the largest of these bounds it. Four fifths of that are expected: the rest is latency, and the ends. Rates are
 * the vendors': NVIDIA's whitepapers of GA100, AD102 and GH100, AMD's of RDNA 3, RDNA 4 and CDNA 2 and its ISA guides.
 * The cost model's share (model/device.h), from the program of all 4096 terms alone, is within ten points of that.
 *   gpu_shares [--report] */
#include "../test.h"
#include "../amd/launch.h"
#include "launch.h"
#include "choose/heuristic.h"
#include "model/device.h"
#include "schedule.h"

enum { TILE = 128, TERMS = 1024, LARGE = 4096 };
static const char text[] =
    "kernel product(M, N, K) { in(A, f16, [M, K]); in(B, f16, [N, K]); out(C, f16, [M, N]);\n"
    "  range(i, M) range(j, N) C[i,j] = f16(sum(k : K, f32(A[i,k]) * f32(B[j,k]))); }";

/* peak, macs: multiplications of a core in a cycle at the peak that is published, and by the instruction of the row;
 * least: the share that is asked for, in percent */
typedef struct { const char *name, *target; double peak, macs, issue, outside, sector, least; } processor;
static const processor list[] = {
    {"A100", "sm_80", 1024, 1024, 4, 48, 32, 65},      {"RTX 4090", "sm_89", 256, 256, 4, 32, 32, 65},
    {"H100", "sm_90a", 2048, 1280, 4, 48, 32, 40},     {"RX 7900 XTX", "gfx1100", 256, 256, 2, 64, 64, 65},
    {"RX 9070 XT", "gfx1201", 512, 512, 2, 64, 64, 65}, {"MI210", "gfx90a", 512, 512, 4, 64, 64, 60},
};

typedef struct {
  kit_path path;
  tg_job job;
  const processor *p;
  tg_str words;
  int64_t params[32];
  kit_memory memory;
  tg_object object;
  tg_code_info info;
  double matrix, instructions, wavefronts, sectors, modelled;
} run;

static void sized(tg_job *j, int64_t size, int64_t terms) {
  const tg_binding b[] = {{"M", size, size, 1}, {"N", size, size, 1}, {"K", terms, terms, 1}};
  tg_parse_kernel(j, "product", text, 3, b);
}

/* The words for the large product. */
static void choose(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_lowering l = {.target = tg_jit_target(r->path.jit), .rules = r->path.rules};
  sized(j, LARGE, LARGE);
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  tg_heuristic(j, &l, j->sink);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&r->words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  const tg_uop *linear = tg_lower(j, &l, NULL, NULL, NULL);
  double peak = (double)LARGE * LARGE * LARGE / r->p->peak / l.target->threads;
  r->modelled = 80 * peak / tg_device_cost_of(j, l.target, linear, NULL).cycles;
}

static void compile(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  sized(j, TILE, TERMS);
  schedule_push(j, r->words.data ? r->words.data : "");
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->memory)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  kit_lower(&r->path, j, false, NULL, NULL);
  r->object = tg_jit_compile(r->path.jit, j, j->sink, &r->info, NULL, NULL);
}

static void add_ptx(void *user, const ptx_launch *l) {
  run *r = user;
  ptx_summary s = ptx_summarise(l, 0);
  r->matrix += (double)s.matrix, r->instructions += (double)s.all.warps;
  r->wavefronts += (double)s.all.wavefronts, r->sectors += (double)s.all.sectors;
}

static void add_amd(void *user, const amd_dispatch *d) {
  run *r = user;
  r->matrix += (double)d->count.matrix, r->instructions += (double)d->count.instructions;
  r->wavefronts += (double)d->count.wavefronts, r->sectors += (double)d->count.sectors;
}

static bool launch(run *r) {
  char message[PTX_MESSAGE + AMD_MESSAGE];   /* room for either */
  bool ok;
  if (r->p->target[0] == 's') {
    ptx_program p = {.job = &r->job, .object = &r->object, .info = &r->info, .params = r->params, .seed = 1,
                     .seen = add_ptx, .user = r};
    ok = ptx_program_run(&p, &r->memory, message);
  } else {
    amd_program p = {.processor = r->p->target, .job = &r->job, .object = &r->object, .info = &r->info,
                     .params = r->params, .seed = 1, .seen = add_amd, .user = r};
    ok = amd_program_run(&p, &r->memory, message);
  }
  CHECK(ok, "%s: %s", r->p->name, message);
  return ok;
}

static void judge(const run *r, bool report) {
  const processor *p = r->p;
  double all = (double)TILE * TILE * TERMS, tensor = all / p->macs, issue = r->instructions / p->issue;
  double outside = r->sectors * p->sector / p->outside, most = tensor;
  most = issue > most ? issue : most;
  most = r->wavefronts > most ? r->wavefronts : most;
  most = outside > most ? outside : most;
  double share = 80 * (all / p->peak) / most;
  CHECK(r->matrix > 0 && share >= p->least, "%s: %.0f %% of the peak, below %.0f", p->name, share, p->least);
  CHECK(r->modelled > share - 10 && r->modelled < share + 10,
        "%s: %.0f %% of the peak by the cost model, %.0f by counts", p->name, r->modelled, share);
  if (report)
    printf("| %s | %s | %.2f | %.2f | %.0f : %.0f : %.0f : %.0f | %.0f %% | %.0f %% |\n", p->name, p->target,
           r->instructions / r->matrix, r->wavefronts / r->matrix, tensor, issue, r->wavefronts, outside, share,
           r->modelled);
}

static void one(const processor *p, bool report) {
  static run r;
  r = (run){.p = p};
  tg_env words;
  tg_env_init(&words, NULL);
  r.words = tg_str_new(&words);
  CHECK(kit_path_open(&r.path, p->target), "a path");
  tg_job_init(&r.job, NULL);
  bool ok = tg_protect(&r.job.env, choose, &r);
  CHECK(ok, "%s: %s", p->name, r.job.env.message);
  tg_job_drop(&r.job);
  tg_job_init(&r.job, NULL);
  ok = ok && tg_protect(&r.job.env, compile, &r);
  CHECK(ok, "%s: %s", p->name, r.job.env.message);
  if (ok && launch(&r)) judge(&r, report);
  tg_job_drop(&r.job);
  tg_env_drop(&words);
  kit_memory_free(&r.memory);
  kit_path_close(&r.path);
}

int main(int argc, char **argv) {
  bool report = argc > 1 && !strcmp(argv[1], "--report");
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) one(&list[i], report);
  return TEST_END();
}
