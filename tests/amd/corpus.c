/* SPDX-License-Identifier: MIT
 * The corpus as machine code of AMD's processors: compiled for a target, run by the interpreter of its bytes, and compared
 * with tg's interpreter at stage linear, bit for bit: under the words that it is given or that are chosen for it, and
 * under drawn ones. Without arguments every program as it is; long runs take --drawn 5.
 *   amd_corpus [--target=NAME] [--drawn N] [--seed N] [--report] [--words 'WORD; WORD'] [--sizes 'M=64 N=128'] [FILE.tg ...]
 * --report: of each launch its instructions, wavefronts of LOCAL, sectors. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../test.h"
#include "choose/heuristic.h"
#include "interp/interp.h"
#include "launch.h"
#include "../ptx/schedule.h"

typedef struct {
  kit_path path;
  tg_job job;
  const kit_program *program;
  int64_t params[32];
  const char *words;            /* behind the program's own */
  tg_binding size[8];
  uint32_t sizes;
  int call;                     /* which of the program's calls */
  bool last;                    /* and there are no more */
  uint64_t steps;               /* that the interpreter may take */
  kit_memory start, want, got;
  tg_object object;
  tg_code_info info;
  bool report;
  int compared, lacking, large;
} run;

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

static void interpret_stage(run *r, kit_memory *m) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interpret(&r->job, r->job.sink, &(tg_interp){.buffers = buffers, .params = r->params, .step_limit = r->steps});
}

static void interpret(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, r->sizes, r->size);
  schedule_push(j, r->words);
  kit_params(j, 0, r->params);
  kit_call(j, r->program->text, r->call, r->params);
  r->last = !strstr(r->program->text, "// calls:") || !kit_call(j, r->program->text, r->call + 1, r->params + 16);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  kit_memory written = {.n = 0};
  if (!r->last || r->call) {   /* products of small integers: any order of the sum has the same bits */
    kit_memory_copy(&written, &r->start);
    interpret_stage(r, &written);
  }
  kit_lower(&r->path, j, false, seen, r);
  kit_memory_copy(&r->want, &r->start);
  interpret_stage(r, &r->want);
  for (uint32_t b = 0; b < written.n; b++)
    CHECK(!memcmp(written.data[b], r->want.data[b], written.bytes[b]), "%s: %s is not what the text says in call %d",
          r->program->path, r->want.name[b], r->call);
  kit_memory_free(&written);
  r->object = tg_jit_compile(r->path.jit, j, j->sink, &r->info, NULL, NULL);
}

static void compare(const run *r, const char *how) {
  for (uint32_t b = 0; b < r->want.n; b++) {
    char text[256];
    bool same = kit_same(&r->job, r->want.type[b], r->want.bytes[b], r->got.data[b], r->want.data[b], text);
    CHECK(same, "%s --words '%s' for %s, %s: %s: %s", r->program->path, r->words, r->path.target.name, how, r->want.name[b], text);
  }
}

static void show(void *user, const amd_dispatch *d) {
  const amd_count *c = &d->count;
  (void)user;
  printf("%llu instructions, %llu matrix; LOCAL: %llu accesses, %llu wavefronts (%llu at least); global: %llu accesses, %llu sectors (%llu at least)\n",
         (unsigned long long)c->instructions, (unsigned long long)c->matrix, (unsigned long long)c->local, (unsigned long long)c->wavefronts, (unsigned long long)c->wavefronts_fewest,
         (unsigned long long)c->global, (unsigned long long)c->sectors, (unsigned long long)c->sectors_fewest);
}

static void launch(run *r, bool drawn, bool unaligned) {
  char message[AMD_MESSAGE], how[64];
  amd_program p = {.processor = r->path.target.name, .job = &r->job, .object = &r->object, .info = &r->info, .params = r->params, .seed = 7, .drawn = drawn, .unaligned = unaligned};
  snprintf(how, sizeof how, "%s, %s", drawn ? "drawn order" : "in order", unaligned ? "unaligned" : "aligned");
  if (r->report && !drawn && !unaligned) p.seen = show;
  kit_memory_copy(&r->got, &r->start);
  bool ok = amd_program_run(&p, &r->got, message);
  CHECK(ok, "%s --words '%s' for %s, %s: %s", r->program->path, r->words, r->path.target.name, how, message);
  if (!ok) return;
  compare(r, how);
  CHECK(kit_bands_whole(&r->got), "%s: wrote behind a buffer", r->program->path);
  r->compared++;
}

/* Of a drawn schedule what is legal by its words and asks for too much of the target, or of the interpreter, is no
 * failure. A program's own schedule must fit the registers. */
static void one(run *r, const kit_program *p, const char *words, bool drawn_order) {
  r->program = p;
  r->words = words;
  r->steps = *words ? 3000000 : r->sizes ? 10000000000 : 100000000;
  tg_job_init(&r->job, NULL);
  if (tg_protect(&r->job.env, interpret, r)) {
    if (r->report) printf("---- %s\n", p->path);
    launch(r, *words && drawn_order, false);
    if (!*words) launch(r, drawn_order, r->info.aligned != 0);
  } else if (r->job.env.status == TG_EINVAL && strstr(r->job.env.message, "this target has no ")) r->lacking++;
  else if (r->job.env.status == TG_ELIMIT && (*words || !strstr(r->job.env.message, "keeps more alive"))) r->large++;
  else CHECK(*words && r->job.env.status == TG_EINVAL, "%s --words '%s': %s", p->path, words, r->job.env.message);
  tg_job_drop(&r->job);
}

typedef struct { const char *target, *words, *sizes; int drawn; uint32_t seed; bool report; } options;

static void read_sizes(run *r, const char *text) {
  static char name[8][32];
  long long v;
  int n;
  for (; r->sizes < 8 && sscanf(text, " %31[A-Za-z0-9_]=%lld%n", name[r->sizes], &v, &n) == 2; text += n) {
    r->size[r->sizes] = (tg_binding){name[r->sizes], v, v, 1};
    r->sizes++;
  }
}

static int read_options(options *o, int argc, char **argv) {
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--target=", 9)) o->target = argv[at] + 9;
    else if (!strcmp(argv[at], "--report")) o->report = true;
    else if (!strcmp(argv[at], "--drawn") && at + 1 < argc) o->drawn = atoi(argv[++at]);
    else if (!strcmp(argv[at], "--seed") && at + 1 < argc) o->seed = (uint32_t)strtoul(argv[++at], NULL, 0);
    else if (!strcmp(argv[at], "--words") && at + 1 < argc) o->words = argv[++at];
    else if (!strcmp(argv[at], "--sizes") && at + 1 < argc) o->sizes = argv[++at];
  return at;
}

static void program(run *r, const options *o, const kit_program *p, int number, int drawn) {
  char list[SCHEDULE_WORDS];
  for (r->call = 0, r->last = false; !r->last; r->call++) {
    r->last = true;
    one(r, p, o->words ? o->words : "", true);
  }
  r->call = 0;
  for (int k = 0; k < drawn; k++) {
    schedule_draw(&r->path, p, o->seed * 1000003u + (uint32_t)(number * 31 + k), list);
    if (*list) one(r, p, list, k & 1);
  }
}

/* A file of any folder. */
static void named(run *r, const options *o, const char *path) {
  static char text[1 << 16];
  kit_program p = {.text = text};
  FILE *f = fopen(path, "rb");
  snprintf(p.path, sizeof p.path, "%s", path);
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  CHECK(n, "%s cannot be read", path);
  if (n) program(r, o, &p, 0, o->drawn > 0 ? o->drawn : 0);
}

int main(int argc, char **argv) {
  static run r;
  options o = {.target = "gfx1100", .drawn = -1, .seed = 1};
  static const char *const folders[] = {"examples", "tests/corpus", "tests/polybench", "tests/ptx/fast", "tests/amd/programs", "tests/ranges/accept"};
  int n = 0, at = read_options(&o, argc, argv);
  kit_program *p = at < argc ? NULL : kit_programs_of(sizeof folders / sizeof *folders, folders, &n);
  r.report = o.report;
  if (o.sizes) read_sizes(&r, o.sizes);
  CHECK(kit_path_open(&r.path, o.target), "a path");
  for (int i = 0; i < n; i++) program(&r, &o, &p[i], i, o.drawn > 0 ? o.drawn : 0);
  for (; at < argc; at++) named(&r, &o, argv[at]);
  printf("%d launches compared; %d ask for what the target lacks, %d for too many steps or too much memory\n", r.compared, r.lacking, r.large);
  CHECK(r.compared >= n, "%d launches of %d programs", r.compared, n);
  kit_memory_free(&r.start), kit_memory_free(&r.want), kit_memory_free(&r.got);
  kit_path_close(&r.path);
  if (p) kit_programs_free(p, n);
  return TEST_END();
}
