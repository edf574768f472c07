/* SPDX-License-Identifier: MIT
 * Every program of the corpus and of PolyBench, at two sizes each: each stage prints and parses back to the same program, computes what
 * the author's form computes (under the interpreter, with its checks), and so does the machine code, on 1, 2, 3 and 7 threads and as tasks one after another.
 * Machine code of the program as written and of the heuristic's choice runs with every buffer directly before a page
 * without access, and directly behind one, as well. A program is lowered and compiled once for all of its sizes: they are
 * parameters of the launch, of which neither knows anything.
 * Inputs are small integers, so that every order of a sum gives the same bits. Programs with "// rounds" on a line are not exact: there the bits
 * must be equal from pass fma on, and near the author's form before.
 *   corpus [--target=NAME] [PROGRAM.tg ...]      default: the host; all */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../test.h"
#include "api/api.h"
#include "dsl/value.h"
#include "interp/interp.h"
#include "kit.h"

#ifdef TG_SANITIZED
enum { ROUNDS = 1 };
#else
enum { ROUNDS = 2 };
#endif

/* The program at one size of each parameter. */
typedef struct {
  int64_t params[32];
  bool fixed, failed, large;   /* large: more than the interpreter can do; stages are printed and parsed only */
  kit_memory start, first, from_fma;   /* inputs; what the author's form gave */
  kit_memory unpacked, first_unpacked;   /* the same of a program that takes operands packed, before they were */
} sized;

typedef struct {
  kit_path path;
  tg_context *context;
  const kit_program *program;
  tg_job job;
  bool rounds, own_words, failed;   /* failed: at every size */
  sized size[ROUNDS], *at;     /* at: the size in hand; NULL: what fails does so at every size */
  int sizes;
  kit_memory now;
  const char *stage;
  const tg_uop *sink;
} run;

static bool failed(const run *r) { return r->failed || (r->at && r->at->failed); }

static void wrong(run *r) {
  if (r->at) r->at->failed = true;
  else r->failed = true;
  fprintf(stderr, "%s: %s", r->program->path, r->stage);
  for (uint32_t i = 0; r->at && i < r->job.params.n; i++) fprintf(stderr, "%s%s = %lld", i ? ", " : " at ", r->job.params.data[i].name, (long long)r->at->params[i]);
  fprintf(stderr, ": ");
}

#define WRONG(r, ...) (wrong(r), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

static void each_size(run *r, void (*f)(run *)) {
  for (int i = 0; i < r->sizes; i++) {
    r->at = &r->size[i];
    if (!failed(r)) f(r);
  }
  r->at = NULL;
}

static long pages_runs;

/* ---- comparing ---- */

static double tolerance(tg_type t) { return t == TG_F64 ? 1e-11 : t == TG_F32 ? 2e-5 : t == TG_BF16 || t == TG_E4M3 || t == TG_E5M2 ? 0.07 : 4e-3; }

static void compare(run *r, const kit_memory *got, const kit_memory *want, bool near) {
  for (uint32_t b = 0; b < want->n; b++) {
    size_t size = (size_t)tg_type_bytes(want->type[b]);
    tg_type t = want->type[b];
    for (size_t i = 0; want->written[b] && i < want->bytes[b] / size; i++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, (char *)got->data[b] + i * size, size), memcpy(&y, (char *)want->data[b] + i * size, size);
      if (x == y) continue;
      double f = tg_is_float(t) ? tg_value_from_bits(t, x).f : (double)x, g = tg_is_float(t) ? tg_value_from_bits(t, y).f : (double)y;
      if (tg_is_float(t) && (f == g || (f != f && g != g))) continue;   /* zeros of two signs, NaNs */
      if (near && tg_is_float(t) && fabs(f - g) <= tolerance(t) * (1 + fabs(g))) continue;
      WRONG(r, "output %u, element %zu is %.17g and not %.17g", b, i, f, g);
      return;
    }
  }
}

/* ---- stages ---- */

static void interpret(run *r, const tg_uop *sink, kit_memory *m, uint64_t steps) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interp in = {.buffers = buffers, .params = r->at->params, .step_limit = steps, .check_uninitialised = true, .check_races = true, .check_promises = true, .check_merges = true};
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

/* Of the stage in hand, at one size. */
static void stage(run *r) {
  sized *z = r->at;
  if (z->large) return;
#if defined TG_SANITIZED || defined TG_OTHER_LLVM   /* slow here, or the same objects: the other stages are done in the plain build */
  if (strcmp(r->stage, "schedule") && strcmp(r->stage, "fma") && strcmp(r->stage, "linear")) return;
#endif
  if (!strcmp(r->stage, "schedule") && r->job.packings.n) {
    kit_memory_copy(&z->unpacked, &z->start);
    kit_memory_copy(&z->first_unpacked, &z->first);
    kit_memory_pack(&r->job, r->sink, z->params, &z->start);
    kit_memory_pack(&r->job, r->sink, z->params, &z->first);
  }
  kit_memory_copy(&r->now, &z->start);
  interpret(r, r->sink, &r->now, 1000000000);
  compare(r, &r->now, z->fixed ? &z->from_fma : &z->first, r->rounds && !z->fixed);
  if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
  if (strcmp(r->stage, "fma")) return;
  z->fixed = true;
  kit_memory_copy(&z->from_fma, &r->now);
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  bool same = r->sink == sink;   /* nodes are shared: a pass that changed nothing gives the same program, which has been run */
  r->stage = pass;
  r->sink = sink;
  if (r->failed || !strcmp(pass, "author")) return;
  round_trip(r, sink);
  if (!same || !strcmp(pass, "schedule") || !strcmp(pass, "fma")) each_size(r, stage);
}

static void author(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  round_trip(r, j->sink);
}

static void author_form(void *user) {
  run *r = user;
  if (!kit_memory_make(&r->job, r->at->params, &r->at->start)) WRONG(r, "over %d buffers", KIT_BUFFERS);
  kit_memory_copy(&r->at->first, &r->at->start);
  interpret(r, r->job.sink, &r->at->first, 1000000);
}

static void make_first(run *r) {
  if (tg_protect(&r->job.env, author_form, r)) return;
  r->at->large = r->job.env.status == TG_ELIMIT;
  r->job.env.status = TG_OK;
  if (!r->at->large) WRONG(r, "%s", r->job.env.message);
}

static void lower(void *user) {
  run *r = user;
  kit_lower(&r->path, &r->job, true, seen, r);
}

/* ---- machine code ---- */

/* The caller's own threads, at their most awkward: tasks one after another, the last first. */
static void last_first(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  (void)user;
  while (n-- > 0) task(arg, n);
}

/* An operand packed by its kernel: the interpreter's bytes. */
static void packs_as_interpreted(run *r, const tg_packing *p, tg_kernel *k) {
  uint32_t from = 0, to = 0;
  const kit_memory *unpacked = &r->at->unpacked, *start = &r->at->start;
  kit_memory *now = &r->now;
  while (strcmp(unpacked->name[from], p->source)) from++;
  while (strcmp(start->name[to], p->copy)) to++;
  kit_memory_copy(now, start);
  memset(now->data[to], 0x5a, now->bytes[to]);
  uint32_t sum = p->sum ? to + 1 : to;
  if (p->sum) memset(now->data[sum], 0x5a, now->bytes[sum]);
  tg_argument a[3] = {{unpacked->data[from], unpacked->bytes[from]}, {now->data[to], now->bytes[to]}, {now->data[sum], now->bytes[sum]}};
  const tg_kernel_info *info = tg_kernel_describe(k);
  int64_t params[KIT_BUFFERS];
  for (uint32_t n = 0; n < info->params_n; n++)
    for (uint32_t q = 0; q < r->job.params.n; q++)
      if (!strcmp(info->params[n].name, r->job.params.data[q].name)) params[n] = r->at->params[q];
  tg_launch l = {.buffers = a, .buffers_n = p->sum ? 3 : 2, .params = params, .params_n = info->params_n, .threads = 3};
  if (tg_kernel_run(k, &l)) WRONG(r, "%s", tg_error_message(r->context));
  else if (memcmp(now->data[to], start->data[to], now->bytes[to]) || memcmp(now->data[sum], start->data[sum], now->bytes[sum])) WRONG(r, "%s is not what the interpreter packs", p->copy);
  if (!kit_bands_whole(now)) WRONG(r, "wrote behind a buffer");
}

static tg_kernel *compiled(run *r, const char *stage, const tg_compile_options *o) {
  tg_kernel *k = NULL;
  r->stage = stage;
  if (tg_kernel_compile_text(r->context, r->program->path, r->program->text, o, &k)) WRONG(r, "%s", tg_error_message(r->context));
  return k;
}

static void machine_packs(run *r) {
  for (uint32_t i = 0; i < r->job.packings.n; i++) {
    const tg_packing *p = &r->job.packings.data[i];
    tg_kernel *k = compiled(r, "machine code of a packing", &(tg_compile_options){.pack = p->source});
    for (int s = 0; k && s < r->sizes; s++) {
      r->at = &r->size[s];
      if (!failed(r) && !r->at->large) packs_as_interpreted(r, p, k);
    }
    r->at = NULL;
    tg_kernel_free(k);
  }
}

static void machine(run *r, tg_kernel *k) {
  const sized *z = r->at;
  const tg_kernel_info *info = tg_kernel_describe(k);
  static const int ways[] = {1, 2, 3, 7, 0};   /* threads; 0: last_first */
  r->stage = "machine code";
  for (size_t w = 0; w < TG_COUNT(ways); w++) {
    tg_argument a[KIT_BUFFERS];
    kit_memory_copy(&r->now, &z->start);
    for (uint32_t b = 0; b < r->now.n; b++) {
      size_t bytes = 0;
      if (tg_kernel_bytes(k, z->params, b, &bytes) || bytes != r->now.bytes[b]) WRONG(r, "buffer %u has %zu bytes, not %zu", b, bytes, r->now.bytes[b]);
      a[b] = (tg_argument){r->now.data[b], r->now.bytes[b]};
    }
    tg_launch l = {.buffers = a, .buffers_n = r->now.n, .params = z->params, .params_n = info->params_n, .threads = ways[w], .parallel_for = ways[w] ? NULL : last_first};
    if (tg_kernel_run(k, &l)) WRONG(r, "%s", tg_error_message(r->context));
    else compare(r, &r->now, z->fixed ? &z->from_fma : &z->first, r->rounds && !z->fixed);
    if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
  }
}

/* ---- machine code beside pages without access ---- */

static struct { const run *r; const char *schedule; bool front; } running;   /* for the handler; r NULL: none */

/* That the program ends is the failure; this line tells which, and where. */
static void touched(int signal, siginfo_t *info, void *frame) {
  char where[200];
  const run *r = running.r;
  (void)frame;
  if (!r) _exit(128 + signal);
  kit_memory_at(&r->now, info->si_addr, where, sizeof where);
  const char *text[] = {r->program->path, ": machine code ", running.schedule,
                        running.front ? ", buffers behind a page" : ", buffers before a page",
                        ": an access ", where, "\n"};
  for (size_t i = 0; i < TG_COUNT(text); i++)
    if (write(2, text[i], strlen(text[i])) < 0) break;
  _exit(1);
}

static void catch_accesses(void) {
  struct sigaction a = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &a, NULL);
  sigaction(SIGBUS, &a, NULL);
}

/* k: the program under one schedule. start, want: the buffers that it takes; what the author's form leaves there. */
static void between_pages(run *r, tg_kernel *k, const char *schedule, const kit_memory *start, const kit_memory *want) {
  const tg_kernel_info *info = tg_kernel_describe(k);
  static const int ways[] = {1, 3};   /* threads */
  r->stage = schedule;
  for (int i = 0; i < 2 * (int)TG_COUNT(ways); i++) {
    tg_argument a[KIT_BUFFERS];
    bool front = i & 1;
    if (!kit_memory_guard(&r->now, start, front)) {
      WRONG(r, "no memory");
      return;
    }
    for (uint32_t b = 0; b < r->now.n; b++) a[b] = (tg_argument){r->now.data[b], r->now.bytes[b]};
    tg_launch l = {.buffers = a, .buffers_n = r->now.n, .params = r->at->params, .params_n = info->params_n,
                   .threads = ways[i / 2]};
    running.r = r, running.schedule = schedule, running.front = front;
    tg_status s = tg_kernel_run(k, &l);
    running.r = NULL;
    if (s) WRONG(r, "%s", tg_error_message(r->context));
    else compare(r, &r->now, want, r->rounds);
    if (!kit_bands_whole(&r->now)) WRONG(r, "wrote beside a buffer");
    pages_runs++;
  }
}

/* Every size of one schedule's code. */
static void run_machine(run *r, tg_kernel *k, const char *schedule, bool usual) {
  const tg_kernel_info *info = tg_kernel_describe(k);
  for (int s = 0; s < r->sizes; s++) {
    sized *z = r->at = &r->size[s];
    if (failed(r) || z->large) continue;
    bool packed = false;   /* this schedule takes the copies that the other stages have */
    for (uint32_t b = 0; b < info->buffers_n && z->unpacked.n; b++)
      for (uint32_t p = 0; p < r->job.packings.n; p++)
        packed |= !strcmp(info->buffers[b].name, r->job.packings.data[p].copy);
    bool plain = z->unpacked.n && !packed;
    if (usual) machine(r, k);
    between_pages(r, k, schedule, plain ? &z->unpacked : &z->start, plain ? &z->first_unpacked : &z->first);
  }
  r->at = NULL;
}

/* The schedule that the stages had, which are the program's own words, or the heuristic's where it has none; and the other one: as written, or the
 * heuristic's words in place of its own. */
static void run_schedules(run *r) {
  const bool own = r->own_words;
  /* one code: those of parts of open sizes have schedules of their own, whose sums are in other orders */
  tg_kernel *usual = compiled(r, "machine code", &(tg_compile_options){.flags = TG_COMPILE_ONE});
  if (usual) run_machine(r, usual, own ? "as written" : "under the heuristic's schedule", true);
  tg_kernel_free(usual);
  const char *name = own ? "under the heuristic's schedule" : "as written";
  tg_kernel *other = compiled(r, name, &(tg_compile_options){.flags = own ? TG_COMPILE_OPTS_ONLY : TG_COMPILE_AS_WRITTEN});
  if (other) run_machine(r, other, name, false);
  tg_kernel_free(other);
}

static void free_size(sized *z) {
  kit_memory_free(&z->start), kit_memory_free(&z->first), kit_memory_free(&z->from_fma);
  kit_memory_free(&z->unpacked), kit_memory_free(&z->first_unpacked);
  memset(z, 0, sizeof *z);
}

static bool any_small(const run *r) {
  for (int s = 0; s < r->sizes; s++)
    if (!r->size[s].large && !r->size[s].failed) return true;
  return false;
}

static void one(run *r, const kit_program *p, int *large) {
  r->program = p;
  r->failed = false;
  r->at = NULL;
  r->sink = NULL;
  r->stage = "author";
  r->rounds = strstr(p->text, "// rounds") != NULL;
  tg_job_init(&r->job, NULL);
  if (!tg_protect(&r->job.env, author, r)) WRONG(r, "%s", r->job.env.message), r->failed = true;
  r->sizes = !r->failed && r->job.params.n ? ROUNDS : 1;
  r->own_words = r->job.opts.n > 0;
  for (int s = 0; s < r->sizes; s++) {
    free_size(&r->size[s]);
    kit_params(&r->job, s, r->size[s].params);
  }
  if (!r->failed) each_size(r, make_first);
  if (!r->failed && !tg_protect(&r->job.env, lower, r)) WRONG(r, "%s", r->job.env.message), r->failed = true;
  r->at = NULL;
  if (!r->failed && any_small(r)) machine_packs(r), run_schedules(r);
  for (int s = 0; s < r->sizes; s++) {
    *large += r->size[s].large;
    if (r->failed || r->size[s].failed) test_failed++;
    else test_passed++;
  }
  tg_job_drop(&r->job);
}

int main(int argc, char **argv) {
  static run r;
  int n, large = 0;
  kit_program *p = kit_programs(&n);
  const char *target = argc > 1 && !strncmp(argv[1], "--target=", 9) ? argv[1] + 9 : NULL;
  if (target) argc--, argv++;
  target = target ? test_target_or(target) : test_target();
  tg_context_options o = {.target = target, .threads = KIT_THREADS, .flags = TG_CONTEXT_VERIFY};
  CHECK(kit_path_open(&r.path, target) && tg_context_create(&o, &r.context) == TG_OK, "a path and a context");
  catch_accesses();
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 2 && (!test_part() || (unsigned)i % 2 == test_part() % 2);
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (wanted) one(&r, &p[i], &large);
  }
  CHECK(large <= 12, "%d are too large for the interpreter", large);
  kit_memory_free(&r.now);
  for (int i = 0; i < ROUNDS; i++) free_size(&r.size[i]);
  tg_context_free(r.context);
  printf("%ld runs beside pages without access\n", pages_runs);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  return TEST_END();
}
