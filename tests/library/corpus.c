/* SPDX-License-Identifier: MIT
 * Every program of the corpus and of PolyBench, at two sizes each: each stage prints and parses back to the same program, computes what
 * the author's form computes (under the interpreter, with its checks), and so does the machine code, on 1, 2, 3 and 7 threads and as tasks one after another.
 * Machine code of the program as written and of the heuristic's choice runs with every buffer directly before a page
 * without access, and directly behind one, as well.
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
#include "dsl/value.h"
#include "interp/interp.h"
#include "kit.h"

#ifdef TG_SANITIZED
enum { ROUNDS = 1 };
#else
enum { ROUNDS = 2 };
#endif

typedef struct {
  kit_path path;
  tg_context *context;
  const kit_program *program;
  tg_job job;
  int64_t params[32];
  bool rounds, fixed, failed, large;   /* large: more than the interpreter can do; stages are printed and parsed only */
  kit_memory start, first, now, from_fma;   /* inputs; what the author's form gave */
  kit_memory unpacked, first_unpacked;   /* the same of a program that takes operands packed, before they were */
  const char *stage;
} run;

#define WRONG(r, ...) ((r)->failed = true, fprintf(stderr, "%s: %s: ", (r)->program->path, (r)->stage), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

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
  tg_interp in = {.buffers = buffers, .params = r->params, .step_limit = steps, .check_uninitialised = true, .check_races = true, .check_promises = true, .check_merges = true};
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

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  r->stage = pass;
  if (r->failed || !strcmp(pass, "author")) return;
  round_trip(r, sink);
  if (r->large) return;
#if defined TG_SANITIZED || !defined __OPTIMIZE__   /* the interpreter is slow here, and has done the other stages in a build where it is not */
  if (strcmp(pass, "schedule") && strcmp(pass, "fma") && strcmp(pass, "linear")) return;
#endif
  if (!strcmp(pass, "schedule") && r->job.packings.n) {
    kit_memory_copy(&r->unpacked, &r->start);
    kit_memory_copy(&r->first_unpacked, &r->first);
    kit_memory_pack(&r->job, sink, r->params, &r->start);
    kit_memory_pack(&r->job, sink, r->params, &r->first);
  }
  kit_memory_copy(&r->now, &r->start);
  interpret(r, sink, &r->now, 100000000);
  compare(r, &r->now, r->fixed ? &r->from_fma : &r->first, r->rounds && !r->fixed);
  if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
  if (strcmp(pass, "fma")) return;
  r->fixed = true;
  kit_memory_copy(&r->from_fma, &r->now);
}

static void author(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  round_trip(r, j->sink);
  if (!kit_memory_make(j, r->params, &r->start)) WRONG(r, "over %d buffers", KIT_BUFFERS);
  kit_memory_copy(&r->first, &r->start);
  interpret(r, j->sink, &r->first, 1000000);
}

static void lower(void *user) {
  run *r = user;
  kit_lower(&r->path, &r->job, true, seen, r);
}

static void parse(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, r->program->path, r->program->text, 0, NULL);
}

/* ---- machine code ---- */

/* The caller's own threads, at their most awkward: tasks one after another, the last first. */
static void last_first(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  (void)user;
  while (n-- > 0) task(arg, n);
}

/* Each operand packed by its kernel: the interpreter's bytes. */
static void machine_packs(run *r) {
  for (uint32_t i = 0; i < r->job.packings.n; i++) {
    const tg_packing *p = &r->job.packings.data[i];
    tg_compile_options o = {.pack = p->source};
    uint32_t from = 0, to = 0;
    tg_kernel *k = NULL;
    r->stage = "machine code of a packing";
    if (tg_kernel_compile_text(r->context, r->program->path, r->program->text, &o, &k)) {
      WRONG(r, "%s", tg_error_message(r->context));
      return;
    }
    while (strcmp(r->unpacked.name[from], p->source)) from++;
    while (strcmp(r->start.name[to], p->copy)) to++;
    kit_memory_copy(&r->now, &r->start);
    memset(r->now.data[to], 0x5a, r->now.bytes[to]);
    uint32_t sum = p->sum ? to + 1 : to;
    if (p->sum) memset(r->now.data[sum], 0x5a, r->now.bytes[sum]);
    tg_argument a[3] = {{r->unpacked.data[from], r->unpacked.bytes[from]}, {r->now.data[to], r->now.bytes[to]}, {r->now.data[sum], r->now.bytes[sum]}};
    const tg_kernel_info *info = tg_kernel_describe(k);
    int64_t params[KIT_BUFFERS];
    for (uint32_t n = 0; n < info->params_n; n++)
      for (uint32_t q = 0; q < r->job.params.n; q++)
        if (!strcmp(info->params[n].name, r->job.params.data[q].name)) params[n] = r->params[q];
    tg_launch l = {.buffers = a, .buffers_n = p->sum ? 3 : 2, .params = params, .params_n = info->params_n, .threads = 3};
    if (tg_kernel_run(k, &l)) WRONG(r, "%s", tg_error_message(r->context));
    else if (memcmp(r->now.data[to], r->start.data[to], r->now.bytes[to]) || memcmp(r->now.data[sum], r->start.data[sum], r->now.bytes[sum])) WRONG(r, "%s is not what the interpreter packs", p->copy);
    if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
    tg_kernel_free(k);
  }
}

static void machine(run *r) {
  tg_kernel *k = NULL;
  r->stage = "machine code";
  if (tg_kernel_compile_text(r->context, r->program->path, r->program->text, NULL, &k)) {
    WRONG(r, "%s", tg_error_message(r->context));
    return;
  }
  const tg_kernel_info *info = tg_kernel_describe(k);
  static const int ways[] = {1, 2, 3, 7, 0};   /* threads; 0: last_first */
  for (size_t w = 0; w < TG_COUNT(ways); w++) {
    tg_argument a[KIT_BUFFERS];
    kit_memory_copy(&r->now, &r->start);
    for (uint32_t b = 0; b < r->now.n; b++) {
      size_t bytes = 0;
      if (tg_kernel_bytes(k, r->params, b, &bytes) || bytes != r->now.bytes[b]) WRONG(r, "buffer %u has %zu bytes, not %zu", b, bytes, r->now.bytes[b]);
      a[b] = (tg_argument){r->now.data[b], r->now.bytes[b]};
    }
    tg_launch l = {.buffers = a, .buffers_n = r->now.n, .params = r->params, .params_n = info->params_n, .threads = ways[w], .parallel_for = ways[w] ? NULL : last_first};
    if (tg_kernel_run(k, &l)) WRONG(r, "%s", tg_error_message(r->context));
    else compare(r, &r->now, r->fixed ? &r->from_fma : &r->first, r->rounds && !r->fixed);
    if (!kit_bands_whole(&r->now)) WRONG(r, "wrote behind a buffer");
  }
  tg_kernel_free(k);
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
    tg_launch l = {.buffers = a, .buffers_n = r->now.n, .params = r->params, .params_n = info->params_n,
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

/* As written, which is the program under its own words if it has some, and under the heuristic's, which it gets if it
 * has none, or here in place of its own. */
static void beside_pages(run *r) {
  for (int heuristic = 0; heuristic < 2; heuristic++) {
    tg_compile_options o = {.flags = heuristic ? TG_COMPILE_OPTS_ONLY : TG_COMPILE_AS_WRITTEN};
    tg_kernel *k = NULL;
    r->stage = heuristic ? "under the heuristic's schedule" : "as written";
    if (tg_kernel_compile_text(r->context, r->program->path, r->program->text, &o, &k)) {
      WRONG(r, "%s", tg_error_message(r->context));
      return;
    }
    const tg_kernel_info *info = tg_kernel_describe(k);
    bool packed = false;   /* this schedule takes the copies that the other stages have */
    for (uint32_t b = 0; b < info->buffers_n && r->unpacked.n; b++)
      for (uint32_t p = 0; p < r->job.packings.n; p++)
        packed |= !strcmp(info->buffers[b].name, r->job.packings.data[p].copy);
    bool plain = r->unpacked.n && !packed;
    between_pages(r, k, r->stage, plain ? &r->unpacked : &r->start, plain ? &r->first_unpacked : &r->first);
    tg_kernel_free(k);
  }
}

static void one(run *r, const kit_program *p, int round, int *large) {
  r->program = p;
  r->failed = r->fixed = false;
  r->stage = "author";
  r->rounds = strstr(p->text, "// rounds") != NULL;
  tg_job_init(&r->job, NULL);
  bool read = tg_protect(&r->job.env, parse, r);
  if (!read) WRONG(r, "%s", r->job.env.message);
  kit_params(&r->job, round, r->params);
  uint32_t params = r->job.params.n;
  tg_job_drop(&r->job);
  if (!read || (round && !params)) {
    test_failed += !read;
    return;
  }
  tg_job_init(&r->job, NULL);
  kit_memory_free(&r->unpacked), kit_memory_free(&r->first_unpacked);
  r->large = false;
  if (!tg_protect(&r->job.env, author, r)) {
    r->large = r->job.env.status == TG_ELIMIT;
    r->job.env.status = TG_OK;
    if (!r->large) WRONG(r, "%s", r->job.env.message);
  }
  if (!r->failed && !tg_protect(&r->job.env, lower, r)) WRONG(r, "%s", r->job.env.message);
  if (!r->failed && !r->large) machine_packs(r), machine(r), beside_pages(r);
  *large += r->large;
  if (r->failed) test_failed++;
  else test_passed++;
  tg_job_drop(&r->job);
}

int main(int argc, char **argv) {
  static run r;
  int n, large = 0;
  kit_program *p = kit_programs(&n);
  const char *target = argc > 1 && !strncmp(argv[1], "--target=", 9) ? argv[1] + 9 : NULL;
  if (target) argc--, argv++;
  target = target ? test_target_or(target) : test_target();
  tg_context_options o = {.target = target, .threads = 7, .flags = TG_CONTEXT_VERIFY};
  CHECK(kit_path_open(&r.path, target) && tg_context_create(&o, &r.context) == TG_OK, "a path and a context");
  catch_accesses();
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    for (int round = 0; round < ROUNDS && wanted; round++) one(&r, &p[i], round, &large);
  }
  CHECK(large < 8, "%d are too large for the interpreter", large);
  kit_memory_free(&r.start), kit_memory_free(&r.first), kit_memory_free(&r.now), kit_memory_free(&r.from_fma), kit_memory_free(&r.unpacked);
  kit_memory_free(&r.first_unpacked);
  tg_context_free(r.context);
  printf("%ld runs beside pages without access\n", pages_runs);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  return TEST_END();
}
