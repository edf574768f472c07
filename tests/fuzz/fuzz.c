/* SPDX-License-Identifier: MIT
 * Differential test of the whole path on generated kernels: author form under the interpreter, every later stage
 * under the interpreter, and machine code on one and several threads must agree.
 *   fuzz [--threads] [--steps N] [COUNT [SEED [TARGET]]]     default 1000 kernels for the host; for a target with warps all stages, and no machine code
 * With --threads: kernels written for threads, for the host and, where no target is named, in device form as well.
 * With --steps: the limit of the interpreter for the author's form (30,000); a kernel beyond it is drawn and not counted, so that
 * the time goes to many kernels instead of to a few large ones. COUNT counts kernels that ran.
 * Exact and integer programs: all bits equal. Random floats: bits equal from pass `place` on (order of operations and
 * FMAs are in the graph by then), and against the same program in f64 within the bound. Every stage is printed,
 * parsed and compared with itself. A failure is shrunk and printed with its seed. */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include "../target.h"
#include "dsl/text.h"
#include "generate.h"
#include "interp/interp.h"
#include "compile/pipeline.h"
#include "ranges/ranges.h"
#include "choose/heuristic.h"
#include "tg/tg.h"

enum { BUFFERS = 24, OPTS = 8, MESSAGE = 6000 };
static const uint64_t MEMORY = 1 << 28;

typedef struct { uint32_t n; void *data[BUFFERS]; size_t bytes[BUFFERS]; bool out[BUFFERS], inout[BUFFERS]; tg_type type[BUFFERS]; int64_t lo[BUFFERS], hi[BUFFERS]; } memory;

typedef struct {
  tg_context *ctx;
  tg_job *rules_job;
  const tg_rules *rules;
  tg_target target, targets[2];
  uint32_t targets_n;
  bool threads;
  uint64_t steps;               /* of one stage in the interpreter; a device's forms may take 64 times as many */
  /* one case */
  const fuzz_program *p;
  char *source;                 /* text with opts put in */
  tg_job job;
  memory start, first, now;     /* before; what the author's form gave; scratch */
  bool exact_order;             /* a stage from which bits of random floats must agree has been reached */
  memory fixed;                 /* what that stage gave */
  bool failed, skipped;
  const char *stage;            /* the pass that was left last */
  const tg_uop *computed;       /* the program that the interpreter ran last */
  char message[MESSAGE];
} run;

typedef struct { long kernels, opts, illegal_opts, skipped, feature[FUZZ_FEATURES_N]; } totals;

/* ---- memory ---- */

static void memory_free(memory *m) {
  for (uint32_t i = 0; i < m->n; i++) free(m->data[i]);
  memset(m, 0, sizeof *m);
}

static void memory_copy(memory *to, const memory *from) {
  memory_free(to);
  *to = *from;
  for (uint32_t i = 0; i < from->n; i++) {
    to->data[i] = malloc(from->bytes[i] + 64);
    memcpy(to->data[i], from->data[i], from->bytes[i]);
  }
}

static void copy_outputs(memory *to, const memory *from) {
  for (uint32_t i = 0; i < from->n; i++)
    if (from->out[i]) memcpy(to->data[i], from->data[i], from->bytes[i]);
}

static void put_value(void *at, tg_type t, tg_value v) {
  uint64_t bits = tg_value_bits(t, v);
  memcpy(at, &bits, (size_t)tg_type_bytes(t));
}

/* The same values whatever the type, so that a program and its wide twin see the same inputs. */
static void memory_fill(memory *m, fuzz_mode mode) {
  uint32_t seed = 99;
  for (uint32_t b = 0; b < m->n; b++) {
    size_t size = (size_t)tg_type_bytes(m->type[b]), n = m->bytes[b] / size;
    for (size_t i = 0; i < n; i++) {
      seed = seed * 1664525u + 1013904223u;
      int k = (int)(seed >> 20) % 9 - 4;
      tg_value v;
      if (tg_is_float(m->type[b])) v.f = mode == FUZZ_RANDOM ? (double)(float)((double)(seed >> 8) / (1 << 24) * 2 - 1) : k;
      else v.i = tg_wrap(m->type[b], mode == FUZZ_INTEGER ? (seed >> 28 ? k : (int32_t)seed) : k);
      if (tg_is_float(m->type[b])) v.f = tg_round_to(m->type[b], v.f);
      if (m->lo[b] <= m->hi[b] && (seed >> 8) % 40) v.i = m->lo[b] + (seed >> 8) % (m->hi[b] - m->lo[b] + 1); /* else outside: it must be clamped */
      if (m->out[b] && !m->inout[b]) memset((char *)m->data[b] + i * size, 0xff, size);
      else put_value((char *)m->data[b] + i * size, m->type[b], v);
    }
  }
}

static int64_t number(tg_job *j, const tg_uop *u, uint32_t n, const tg_uop *const *from, const tg_uop *const *to) {
  return (int64_t)tg_bounds_of(j, tg_substitute(j, u, n, from, to)).hi;
}

/* Sizes come from the program: dims are constants and parameters, evaluated by the bounds of their substitution. */
static void memory_layout(tg_job *j, const fuzz_program *p, memory *m) {
  memory_free(m);
  const tg_uop *from[2], *to[2];
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->params.n && i < 2; i++, n++) {
    from[n] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, i, 0, NULL);
    to[n] = tg_index(j, p->param[i]);
  }
  for (uint32_t i = 0; i < j->sink->n; i++) {
    const tg_uop *d = j->sink->src[i];
    if (d->op != TG_OP_DEFINE || j->buffers.data[tg_buffer_ordinal(d)].space != TG_SPACE_GLOBAL) continue;
    const tg_buffer *info = &j->buffers.data[tg_buffer_ordinal(d)];
    int64_t elements = 1, last = 0;
    for (uint32_t k = 0; k < info->rank; k++) {
      int64_t dim = number(j, d->src[k], n, from, to);
      elements *= dim;
      if (d->n > info->rank) last += (dim - 1) * number(j, d->src[info->rank + k], n, from, to);
    }
    if (d->n > info->rank) elements = last >= 0 ? last + 1 : 0;
    uint32_t b = m->n++;
    m->lo[b] = 0, m->hi[b] = -1;
    if (info->lo) m->lo[b] = number(j, info->lo, n, from, to), m->hi[b] = number(j, info->hi, n, from, to);
    m->type[b] = (tg_type)d->type;
    m->out[b] = info->role != TG_ROLE_IN;
    m->inout[b] = info->role == TG_ROLE_INOUT;
    m->bytes[b] = (size_t)elements * (size_t)tg_type_bytes(m->type[b]);
    m->data[b] = calloc(1, m->bytes[b] + 64);
  }
  memory_fill(m, p->mode);
}

/* ---- comparing ---- */

__attribute__((format(printf, 2, 3))) static void fail(run *r, const char *format, ...) {
  if (r->failed) return;
  va_list ap;
  va_start(ap, format);
  vsnprintf(r->message, sizeof r->message, format, ap);
  va_end(ap);
  r->failed = true;
}

static void compare_bits(run *r, const memory *got, const memory *want, const char *what) {
  for (uint32_t b = 0; b < want->n && !r->failed; b++) {
    size_t size = (size_t)tg_type_bytes(want->type[b]);
    for (size_t i = 0; want->out[b] && i < want->bytes[b] / size; i++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, (char *)got->data[b] + i * size, size), memcpy(&y, (char *)want->data[b] + i * size, size);
      if (x == y) continue;
      if (tg_is_float(want->type[b])) {
        double f = tg_value_from_bits(want->type[b], x).f, g = tg_value_from_bits(want->type[b], y).f;
        if ((f != f && g != g) || (f == g && r->p->mode != FUZZ_RANDOM)) continue;
        if (f == 0 && g == 0) continue; /* max(-0, +0) may come in any order after a split */
        fail(r, "%s: output %u, element %zu: %.17g, wanted %.17g", what, b, i, f, g);
      } else fail(r, "%s: output %u, element %zu: %#llx, wanted %#llx", what, b, i, (unsigned long long)x, (unsigned long long)y);
      return;
    }
  }
}

/* Random floats against f64: the error of the tested form at most twice that of the author's form, plus rounding. */
static void compare_wide(run *r, const memory *got, const memory *narrow, const memory *wide) {
  for (uint32_t b = 0; b < got->n && !r->failed; b++) {
    if (!got->out[b] || got->type[b] != TG_F32) continue;
    double worst = 0, allowed = 0, size = 0;
    size_t n = got->bytes[b] / 4, at = 0;
    for (size_t i = 0; i < n; i++) {
      double w = ((double *)wide->data[b])[i], g = ((float *)got->data[b])[i], a = ((float *)narrow->data[b])[i];
      if (isnan(w) || isinf(w) || fabs(w) > 1e30 || isnan(a)) return;
      if (fabs(w) > size) size = fabs(w);
      if (fabs(a - w) > allowed) allowed = fabs(a - w);
      if (!(fabs(g - w) <= worst)) worst = fabs(g - w), at = i;
    }
    if (!(worst <= 2 * allowed + 64 * 6e-8 * (size + 1)))
      fail(r, "machine code: output %u, element %zu is off by %g; the author's form in its own type by at most %g", b, at, worst, allowed);
  }
}

/* ---- stages ---- */

static void interpret(run *r, const tg_uop *sink, memory *m) {
  tg_interp_buffer buffers[BUFFERS];
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  bool threads = r->stage && r->target.lanes > 1 && tg_stage_index(r->stage) >= tg_stage_index("distribute");
  tg_interp in = {.buffers = buffers, .params = r->p->param, .step_limit = r->steps << 6 * threads, .check_barriers = threads, .memory_limit = MEMORY, .check_uninitialised = true, .check_races = true, .check_merges = true};
  tg_interpret(&r->job, sink, &in);
}

typedef struct { tg_job *job; const char *text; } reparse;

static void parse_again(void *user) {
  reparse *p = user;
  tg_parse_kernel(p->job, "printed", p->text, 0, NULL);
}

static void round_trip(run *r, const char *pass, const tg_uop *sink) {
  tg_str text = tg_str_new(&r->job.env);
  tg_print(&r->job, &text, sink);
  static tg_job again;
  tg_job_init(&again, NULL);
  reparse p = {&again, text.data};
  if (!tg_protect(&again.env, parse_again, &p)) fail(r, "%s does not parse again: %s\n%s", pass, again.env.message, text.data);
  else if (!tg_same_program(&r->job, sink, &again, again.sink)) {
    fail(r, "%s parses to another program:\n%s", pass, text.data);
  }
  tg_job_drop(&again);
}

typedef struct { run *r; bool trip; } seen_state;

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = ((seen_state *)user)->r;
  r->stage = pass;
  if (((seen_state *)user)->trip) round_trip(r, pass, sink);
  if (r->failed || !strcmp(pass, "author")) return;
  bool same = sink == r->computed && strcmp(pass, "distribute") && strcmp(pass, "fma");   /* nodes are shared: the pass changed nothing */
  r->computed = sink;
  if (same) return;
  copy_outputs(&r->now, &r->start);
  interpret(r, sink, &r->now);
  char what[64];
  snprintf(what, sizeof what, "after pass %s", pass);
  if (r->p->mode != FUZZ_RANDOM) compare_bits(r, &r->now, &r->first, what);
  else if (r->exact_order) compare_bits(r, &r->now, &r->fixed, what);
  else if (!strcmp(pass, "fma")) {
    r->exact_order = true;
    memory_copy(&r->fixed, &r->now);
  }
}

static void author(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, "fuzz.tg", r->source, 0, NULL);
  memory_layout(&r->job, r->p, &r->start);
  memory_copy(&r->first, &r->start);
  memory_copy(&r->now, &r->start);
  interpret(r, r->job.sink, &r->first);
}

static void lower(void *user) {
  seen_state *s = user;
  run *r = s->r;
  tg_lowering l = {.target = &r->target, .rules = r->rules, .verify = true};
  r->job.sink = tg_lower(&r->job, &l, "raise", seen, s);
  if (!r->job.opts.n) tg_heuristic(&r->job, &l, r->job.sink);
  r->job.sink = tg_lower(&r->job, &l, NULL, seen, s);
}

/* ---- machine code ---- */

static void machine(run *r) {
  tg_kernel *k = NULL;
  tg_compile_options o = {.flags = TG_COMPILE_NO_CACHE};
  if (tg_kernel_compile_text(r->ctx, "fuzz.tg", r->source, &o, &k)) {
    fail(r, "machine code: %s", tg_error_message(r->ctx));
    return;
  }
  for (int threads = 1; threads <= 3 && !r->failed; threads += 2) {
    copy_outputs(&r->now, &r->start);
    tg_argument a[BUFFERS];
    for (uint32_t b = 0; b < r->now.n; b++) {
      memset((char *)r->now.data[b] + r->now.bytes[b], 0xa5, 64); /* a band that no kernel may touch */
      a[b] = (tg_argument){r->now.data[b], r->now.bytes[b]};
    }
    tg_launch l = {.buffers = a, .buffers_n = r->now.n, .params = r->p->param, .params_n = (uint32_t)r->p->params, .threads = threads};
    if (tg_kernel_run(k, &l)) fail(r, "machine code: %s", tg_error_message(r->ctx));
    for (uint32_t b = 0; b < r->now.n; b++)
      for (int i = 0; i < 64; i++)
        if (((uint8_t *)r->now.data[b])[r->now.bytes[b] + (size_t)i] != 0xa5) fail(r, "machine code wrote %d bytes behind buffer %u", i, b);
    compare_bits(r, &r->now, r->p->mode == FUZZ_RANDOM ? &r->fixed : &r->first, threads == 1 ? "machine code" : "machine code, threads");
  }
  tg_kernel_free(k);
}

static void wide_reference(run *r) {
  fuzz_program *w = malloc(sizeof *w);
  *w = *r->p;
  run *q = calloc(1, sizeof *q);
  q->p = w;
  q->steps = r->steps;
  q->source = w->wide;
  tg_job_init(&q->job, NULL);
  if (tg_protect(&q->job.env, author, q)) compare_wide(r, &r->now, &r->first, &q->first);
  tg_job_drop(&q->job);
  memory_free(&q->first), memory_free(&q->start), memory_free(&q->now);
  free(q), free(w);
}

/* ---- one case ---- */

static void put_source(run *r, uint32_t n, char *const *opts) {
  const fuzz_program *p = r->p;
  const char *body = strchr(p->text, '{') + 1;
  static char source[FUZZ_TEXT + 2048];
  size_t at = (size_t)snprintf(source, sizeof source, "%.*s\n", (int)(body - p->text), p->text);
  for (uint32_t i = 0; i < n; i++) at += (size_t)snprintf(source + at, sizeof source - at, "%s;", opts[i]);
  snprintf(source + at, sizeof source - at, "%s", body);
  r->source = source;
}

static void try_schedule(void *user) {
  run *r = user;
  tg_lowering l = {.target = &r->target, .rules = r->rules};
  tg_parse_kernel(&r->job, "fuzz.tg", r->source, 0, NULL);
  tg_lower(&r->job, &l, "place", NULL, NULL);   /* where `place` may still be refused */
}

/* The opts that are legal, each after those before it. What is an error of ours stays in: the run will meet it again. */
static void choose_source(run *r, totals *t) {
  static char text[2048];
  char *kept[OPTS] = {0};
  uint32_t n = 0;
  snprintf(text, sizeof text, "%s", r->p->opts);
  put_source(r, 0, kept);
  for (char *w = strtok(text, ";"); w && n < OPTS; w = strtok(NULL, ";")) {
    if (!strchr(w, '(')) continue;
    if (r->target.lanes > 1 && strstr(w, "(place ")) continue;   /* a thread has no memory of its own */
    kept[n++] = w;
    put_source(r, n, kept);
    tg_job_init(&r->job, NULL);
    bool ok = tg_protect(&r->job.env, try_schedule, r);
    t->opts++;
    if (!ok && r->job.env.status == TG_EINVAL) t->illegal_opts++, n--;
    tg_job_drop(&r->job);
    if (!ok && r->job.env.status != TG_EINVAL) return;
  }
  put_source(r, n, kept);
}

/* What a workgroup or a thread has no room for, and says so. */
static bool too_large(const char *message) { return strstr(message, "threads are left") || strstr(message, "more than the register file holds"); }

/* All stages on the way to r->target, and the machine code of a host. */
static void lowered_for_target(run *r, totals *t) {
  r->exact_order = false;
  r->computed = NULL;
  r->stage = "author";
  choose_source(r, t);
  tg_job_init(&r->job, NULL);
  if (!tg_protect(&r->job.env, author, r)) {
    if (r->job.env.status == TG_ELIMIT) r->skipped = true;
    else fail(r, "author form: %s", r->job.env.message);
  } else {
    seen_state s = {r, t->kernels % 4 == 0};
    if (!tg_protect(&r->job.env, lower, &s)) {
      if (r->job.env.status == TG_ELIMIT || (r->target.lanes > 1 && too_large(r->job.env.message))) r->skipped = true;
      else fail(r, "%s at %s: %s", r->job.env.status == TG_EINVAL && !strcmp(r->stage, "author") ? "rejected" : "failure", r->stage, r->job.env.message);
    } else if (!r->failed) {
      if (r->target.lanes < 2) machine(r);
      if (!r->failed && r->p->wide[0]) wide_reference(r);
    }
  }
  tg_job_drop(&r->job);
}

static void one(run *r, const fuzz_program *p, totals *t) {
  r->p = p;
  r->failed = r->skipped = false;
  for (uint32_t i = 0; i < r->targets_n && !r->failed; i++) {
    r->target = r->targets[i];
    lowered_for_target(r, t);
  }
  t->skipped += r->skipped;
  t->kernels++;
  for (int i = 0; i < FUZZ_FEATURES_N; i++) t->feature[i] += p->features >> i & 1;
}

/* Drop spans of choices, then lower single ones, as long as it still fails. */
static void shrink(run *r, fuzz_source *s, fuzz_program *p) {
  totals ignored = {0};
  s->replay = true;
  for (int round = 0; round < 4; round++) {
    for (int span = s->n / 2; span >= 1; span /= 2)
      for (int at = 0; at + span <= s->n;) {
        fuzz_source shorter = *s;
        memmove(shorter.choice + at, shorter.choice + at + span, (size_t)(shorter.n - at - span));
        shorter.n -= span;
        fuzz_generate(&shorter, p, r->threads);
        one(r, p, &ignored);
        if (r->failed) *s = shorter;
        else at += span;
      }
    for (int at = 0; at < s->n; at++)
      while (s->choice[at]) {
        fuzz_source lowered = *s;
        lowered.choice[at] = round ? lowered.choice[at] - 1 : 0;
        fuzz_generate(&lowered, p, r->threads);
        one(r, p, &ignored);
        if (!r->failed) break;
        *s = lowered;
      }
  }
  fuzz_generate(s, p, r->threads);
  one(r, p, &ignored);
}

static void compile_rules(void *user) {
  run *r = user;
  r->rules = tg_rules_compile(&r->rules_job->env);
}

static volatile sig_atomic_t seed_now[2];

/* A kernel that ends the process, or never ends, is named before it goes. */
static void on_signal(int number) {
  char text[64];
  int n = snprintf(text, sizeof text, "fuzz: seed %lld: signal %d\n", (long long)seed_now[0] * 1000000 + seed_now[1], number);
  if (write(2, text, (size_t)n) == n) signal(number, SIG_DFL);
  raise(number);
  _exit(1);
}

int main(int argc, char **argv) {
  bool threads = argc > 1 && !strcmp(argv[1], "--threads");
  argc -= threads, argv += threads;
  uint64_t steps = 30000;
  if (argc > 2 && !strcmp(argv[1], "--steps")) steps = strtoull(argv[2], NULL, 0), argc -= 2, argv += 2;
  long count = argc > 1 ? atol(argv[1]) : 1000, failed = 0;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  static run r;
  static tg_job rules_job;
  static fuzz_program p;
  totals t = {0};
  tg_job_init(&rules_job, NULL);
  r.rules_job = &rules_job;
  r.threads = threads, r.steps = steps, r.targets_n = 1;
  const char *target = argc > 3 ? argv[3] : test_target();
  if (!tg_target_named(&r.targets[0], target)) return 2;
  r.targets[0].threads = 2;
  if (argc <= 3 && threads && tg_target_named(&r.targets[1], "sm_80")) r.targets_n = 2;
  if (!tg_protect(&rules_job.env, compile_rules, &r) || tg_context_create(&(tg_context_options){.target = target, .threads = 3}, &r.ctx)) {
    fprintf(stderr, "no rules or no context: %s\n0 passed, 1 failed\n", rules_job.env.message);
    return 1;
  }
  static char alternate[1 << 16];
  sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL);
  for (int i = 0; i < 5; i++) {
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction((int[]){SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPROF}[i], &a, NULL);
  }
  long most = getenv("FUZZ_FAILURES") ? atol(getenv("FUZZ_FAILURES")) : 5;
  for (long i = 0; t.kernels - t.skipped < count && failed < most; i++) {
    seed_now[0] = (sig_atomic_t)((seed + (uint64_t)i) / 1000000), seed_now[1] = (sig_atomic_t)((seed + (uint64_t)i) % 1000000);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = 120}, NULL); /* of processor time: a busy machine is no fault */
    fuzz_source s = {.state = (seed + (uint64_t)i + 1) * 0x9E3779B97F4A7C15u};
    for (int k = 0; k < 12; k++) s.state ^= s.state << 13, s.state ^= s.state >> 7, s.state ^= s.state << 17;
    fuzz_generate(&s, &p, r.threads);
    one(&r, &p, &t);
    if (!r.failed) continue;
    failed++;
    char first[400];
    snprintf(first, sizeof first, "%s%s%.360s", threads ? r.target.name : "", threads ? ": " : "", r.message);
    if (!getenv("FUZZ_NO_SHRINK")) shrink(&r, &s, &p);
    fprintf(stderr, "fuzz: seed %llu%s: %s\nshrunk to: %s\n%s\nP0 = %lld, P1 = %lld\n\n", (unsigned long long)(seed + (uint64_t)i), threads ? " of threads" : "", first, r.message, r.source,
            (long long)p.param[0], (long long)p.param[1]);
  }
  memory_free(&r.start), memory_free(&r.first), memory_free(&r.now), memory_free(&r.fixed);
  tg_context_free(r.ctx);
  tg_job_drop(&rules_job);
  fprintf(stderr, "fuzz: %ld kernels with %ld words of schedules, %ld of which were not legal; %ld over the step limit\n", t.kernels, t.opts, t.illegal_opts, t.skipped);
  static const char *const feature[] = {
#define F(name) #name,
    FUZZ_FEATURES(F)
#undef F
  };
  for (int i = 0; i < FUZZ_FEATURES_N && getenv("FUZZ_FEATURES"); i++) fprintf(stderr, "%-18s %ld\n", feature[i], t.feature[i]);
  printf("%ld passed, %ld failed\n", t.kernels - t.skipped - failed, failed);
  return failed != 0;
}
