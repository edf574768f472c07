/* SPDX-License-Identifier: MIT
 * Every program of the corpus in device form, for warps of 32 and of 64: each stage from pass distribute on prints and parses back,
 * and computes what the author's form computes, under the interpreter with its checks of races and barriers; of a second round of sizes, and of the
 * programs of tests/ranges/accept, fma and the last.
 *   distribute [--target=NAME] [PROGRAM.tg ...]      default: all, for sm_80 and gfx90a in turn */
#include <math.h>
#include <stdlib.h>
#include "../test.h"
#include "dsl/value.h"
#include "interp/interp.h"
#include "kit.h"
#include "choose/heuristic.h"

#ifdef TG_SANITIZED
enum { ROUNDS = 1 };
#else
enum { ROUNDS = 2 };
#endif

/* The program at one size of each parameter. A program is lowered once for all of its sizes: they are parameters of the launch. */
typedef struct {
  int64_t params[32];
  bool fixed, large, failed;
  kit_memory start, first, fixed_at;
} sized;

typedef struct {
  tg_job tables, job;
  tg_target target;
  const tg_rules *rules;
  const kit_program *program;
  const char *stage;
  sized size[ROUNDS], *at;     /* at: the size in hand; NULL: what fails does so at every size */
  int sizes;
  bool failed, rounds;         /* failed: at every size */
  kit_memory now;
  const tg_uop *computed;
} run;

static void wrong(run *r) {
  if (r->at) r->at->failed = true;
  else r->failed = true;
  fprintf(stderr, "%s for %s: %s", r->program->path, r->target.name, r->stage);
  for (uint32_t i = 0; r->at && i < r->job.params.n; i++) fprintf(stderr, "%s%s = %lld", i ? ", " : " at ", r->job.params.data[i].name, (long long)r->at->params[i]);
  fprintf(stderr, ": ");
}

#define WRONG(r, ...) (wrong(r), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

static double tolerance(tg_type t) { return t == TG_F64 ? 1e-11 : t == TG_F32 ? 2e-5 : t == TG_BF16 || t == TG_E4M3 || t == TG_E5M2 ? 0.07 : 4e-3; }

static void compare(run *r, const kit_memory *want, bool near) {
  for (uint32_t b = 0; b < want->n; b++) {
    size_t size = (size_t)tg_type_bytes(want->type[b]);
    tg_type t = want->type[b];
    for (size_t i = 0; want->written[b] && i < want->bytes[b] / size; i++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, (char *)r->now.data[b] + i * size, size), memcpy(&y, (char *)want->data[b] + i * size, size);
      if (x == y) continue;
      double f = tg_is_float(t) ? tg_value_from_bits(t, x).f : (double)x, g = tg_is_float(t) ? tg_value_from_bits(t, y).f : (double)y;
      if (tg_is_float(t) && (f == g || (f != f && g != g))) continue;
      if (near && tg_is_float(t) && fabs(f - g) <= tolerance(t) * (1 + fabs(g))) continue;
      WRONG(r, "output %u, element %zu is %.17g and not %.17g", b, i, f, g);
      return;
    }
  }
}

static void interpret(run *r, const tg_uop *sink, kit_memory *m, uint64_t steps, bool threads) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interp in = {.buffers = buffers, .params = r->at->params, .step_limit = steps, .check_uninitialised = true, .check_races = true,
                  .check_promises = true, .check_barriers = threads};
  tg_interpret(&r->job, sink, &in);
}

typedef struct { tg_job *job; const char *text; } reading;

static void read_back(void *user) {
  reading *k = user;
  tg_parse_kernel(k->job, "printed", k->text, 0, NULL);
}

static void round_trip(run *r, const tg_uop *sink) {
  tg_str text = tg_str_new(&r->job.env);
  tg_print(&r->job, &text, sink);
  tg_job *again = malloc(sizeof *again);
  tg_job_init(again, NULL);
  reading k = {again, text.data};
  if (!tg_protect(&again->env, read_back, &k)) WRONG(r, "does not parse again: %s", again->env.message);
  else if (!tg_same_program(&r->job, sink, again, again->sink)) WRONG(r, "parses to another program:\n%s", text.data);
  tg_job_drop(again);
  free(again);
}

static void pack(run *r, const tg_uop *sink) {
  sized *z = r->at;
  if (z->large) return;
  kit_memory_pack(&r->job, sink, z->params, &z->start);
  kit_memory_pack(&r->job, sink, z->params, &z->first);
}

/* The stage in hand at one size. */
static void compute(run *r, const tg_uop *sink) {
  sized *z = r->at;
  bool fixes = !strcmp(r->stage, "fma");
  if (z->large || ((z != r->size || strstr(r->program->path, "/accept/")) && !fixes && strcmp(r->stage, "linear"))) return;   /* other sizes, and programs that are there for the prover: the last stage has what goes wrong between */
  kit_memory_copy(&r->now, &z->start);
  interpret(r, sink, &r->now, 2000000000, true);
  compare(r, z->fixed ? &z->fixed_at : &z->first, r->rounds && !z->fixed);
  if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
  if (!fixes) return;
  z->fixed = true;
  kit_memory_copy(&z->fixed_at, &r->now);
}

static void each_size(run *r, const tg_uop *sink, void (*f)(run *, const tg_uop *)) {
  for (int i = 0; i < r->sizes && !r->failed; i++) {
    r->at = &r->size[i];
    if (!r->at->failed) f(r, sink);
  }
  r->at = NULL;
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  r->stage = pass;
  if (!strcmp(pass, "schedule") && r->job.packings.n) each_size(r, sink, pack);
  if (r->failed || tg_stage_index(pass) < tg_stage_index("distribute")) return;
  round_trip(r, sink);
  if (sink != r->computed || !strcmp(pass, "fma")) each_size(r, sink, compute);
  r->computed = sink;   /* nodes are shared: a pass that changes nothing gives the same program */
}

static void parse(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, r->program->path, r->program->text, 0, NULL);
}

static void author_form(void *user) {
  run *r = user;
  sized *z = r->at;
  if (!kit_memory_make(&r->job, z->params, &z->start)) WRONG(r, "over %d buffers", KIT_BUFFERS);
  kit_memory_copy(&z->first, &z->start);
  interpret(r, r->job.sink, &z->first, 1000000, false);
}

static void make_first(run *r, const tg_uop *sink) {
  (void)sink;
  if (tg_protect(&r->job.env, author_form, r)) return;
  r->at->large = r->job.env.status == TG_ELIMIT;
  r->job.env.status = TG_OK;
  if (!r->at->large) WRONG(r, "%s", r->job.env.message);
}

static void lower(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_lowering l = {.target = &r->target, .rules = r->rules, .verify = true};
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!j->opts.n) tg_heuristic(j, &l, j->sink);
  tg_lower(j, &l, NULL, seen, r);
}

static void free_size(sized *z) {
  kit_memory_free(&z->start), kit_memory_free(&z->first), kit_memory_free(&z->fixed_at);
  memset(z, 0, sizeof *z);
}

static void one(run *r, const kit_program *p, int *large) {
  r->program = p;
  r->failed = false;
  r->at = NULL;
  r->computed = NULL;
  r->stage = "author";
  r->rounds = strstr(p->text, "// rounds") != NULL;
  tg_job_init(&r->job, NULL);
  bool read = tg_protect(&r->job.env, parse, r);
  if (!read) WRONG(r, "%s", r->job.env.message);
  r->sizes = read && r->job.params.n ? ROUNDS : 1;
  for (int s = 0; s < r->sizes; s++) {
    free_size(&r->size[s]);
    kit_params(&r->job, s, r->size[s].params);
  }
  if (read) each_size(r, NULL, make_first);
  if (read && !tg_protect(&r->job.env, lower, r) && !strstr(r->job.env.message, "this target has no")) WRONG(r, "%s", r->job.env.message), r->failed = true;
  r->at = NULL;
  for (int s = 0; s < r->sizes; s++) {
    *large += r->size[s].large;
    if (r->failed || r->size[s].failed) test_failed++;
    else test_passed++;
  }
  tg_job_drop(&r->job);
}

static void compile_rules(void *user) {
  run *r = user;
  r->rules = tg_rules_compile(&r->tables.env);
}

int main(int argc, char **argv) {
  static const char *const targets[] = {"sm_80", "gfx90a"};
  static run r;
  int n, large = 0;
  kit_program *p = kit_programs(&n);
  const char *target = argc > 1 && !strncmp(argv[1], "--target=", 9) ? argv[1] + 9 : NULL;
  if (target) argc--, argv++;
  tg_job_init(&r.tables, NULL);
  CHECK(tg_protect(&r.tables.env, compile_rules, &r), "rules");
  for (size_t t = 0; t < (target ? 1 : sizeof targets / sizeof *targets); t++) {
    CHECK(tg_target_named(&r.target, target ? target : targets[t]), "a target");
    for (int i = 0; i < n; i++) {
      bool wanted = argc < 2;
      for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
      if (argc < 2 && !target) wanted = (size_t)i % TG_COUNT(targets) == t;
      if (wanted) one(&r, &p[i], &large);
    }
  }
  CHECK(large < 16, "%d are too large for the interpreter", large);
  kit_memory_free(&r.now);
  for (int i = 0; i < ROUNDS; i++) free_size(&r.size[i]);
  tg_job_drop(&r.tables);
  kit_programs_free(p, n);
  return TEST_END();
}
