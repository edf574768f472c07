/* SPDX-License-Identifier: MIT
 * The bench's functions: open a problem (the kernel as written, and its data); lower a candidate; build and check it;
 * time it. */
#include <stdio.h>
#include "trial/trial.h"
#include "dsl/text.h"
#include "interp/interp.h"
#include "model/cost.h"
#include "choose/heuristic.h"
#include "compile/price.h"

void tg_trial_expect(tg_trial_state *s, tg_env *env, tg_status st) {
  if (st != TG_OK) tg_fail(env, st, "%s", tg_error_message(s->ctx));
}

tg_kernel *tg_trial_compile(tg_trial_state *s, tg_env *env, const char *text, const char *words, uint32_t flags) {
  tg_kernel *k = NULL;
  tg_compile_options o = {.opts = words, .flags = flags};
  tg_trial_expect(s, env, tg_kernel_compile_text(s->ctx, "candidate", text, &o, &k));
  return k;
}

/* ---- open ---- */

static void drop_problem(tg_trial_state *s) {
  if (!s->live) return;
  tg_trial_unshare(s);
  if (s->job) tg_job_drop(s->job);
  tg_context_free(s->ctx);
  tg_env_drop(&s->env);
  *s = (tg_trial_state){.bench = s->bench, .checks = s->checks};
}

void tg_trial_use(tg_trial_state *s, uint32_t launch) {
  s->now = launch;
  s->op = s->launch[launch].op;
  s->params = s->launch[launch].params;
}

/* The range of an operand's integer inputs: for indices the range that they promise; for floats the span that keeps
 * sums exact; the full range of an integer type if the kernel has no floats. */
static void limits_of(const tg_trial_state *s, tg_trial_operand *o, const tg_buffer *spec) {
  int64_t span = s->work.span > 0 ? (int64_t)s->work.span : 3;
  bool sign = tg_is_float(o->type) || tg_is_signed(o->type);
  o->lo = sign ? -span : 0;
  o->hi = o->type == TG_BOOL ? 1 : span;
  if (s->work.integers && tg_is_int(o->type)) {
    int bits = tg_type_bits(o->type);
    o->lo = sign ? INT64_MIN >> (64 - bits) : 0;
    /* the largest u64, as an int64_t, is -1 */
    o->hi = bits - sign > 63 ? -1 : bits - sign == 63 ? INT64_MAX : ((int64_t)1 << (bits - sign)) - 1;
  }
  if (!spec->lo || !spec->hi) return;
  const tg_uop *most = s->params_n ? tg_with_params(s->job, spec->hi, s->params) : spec->hi;
  tg_i128 lo = tg_bounds_of(s->job, spec->lo).hi, hi = tg_bounds_of(s->job, most).lo;
  o->lo = lo < INT64_MIN ? INT64_MIN : (int64_t)lo;
  o->hi = hi > INT64_MAX ? INT64_MAX : hi < lo ? o->lo : (int64_t)hi;
}

/* Reads the operands' sizes under the current parameters. False: the kernel rejects these. */
static bool read_operands(tg_trial_state *s, tg_env *env, tg_kernel *k) {
  const tg_kernel_info *info = tg_kernel_describe(k);
  if (info->buffers_n > TRIAL_BUFFERS) tg_fail(env, TG_ELIMIT, "a kernel of over %d buffers", TRIAL_BUFFERS);
  if (info->params_n != s->params_n)
    tg_fail(env, TG_EINVAL, "the kernel takes %u parameters at a launch, %u are given", info->params_n, s->params_n);
  s->n = info->buffers_n;
  for (uint32_t b = 0; b < s->n; b++) {
    tg_trial_operand *o = &s->op[b];
    *o = (tg_trial_operand){.name = tg_strdup(&s->env, info->buffers[b].name),
                            .type = info->buffers[b].type,
                            .read = info->buffers[b].read,
                            .written = info->buffers[b].written};
    tg_status st = tg_kernel_bytes(k, s->params, b, &o->bytes);
    if (s->now && (st != TG_OK || (o->written && !tg_signature_apart(k->loaded->signature, b, s->params))))
      return false;
    tg_trial_expect(s, env, st);
    o->n = o->bytes / (size_t)tg_type_bytes(o->type);
    limits_of(s, o, &s->job->buffers.data[b]);
  }
  return true;
}

static int64_t within(const tg_param *p, int64_t v) {
  v = v > p->hi ? p->hi : v < p->lo ? p->lo : v;
  int64_t up = v + (p->multiple - (v % p->multiple + p->multiple) % p->multiple) % p->multiple;
  return up <= p->hi ? up : p->hi - p->hi % p->multiple;
}

/* Chooses launches to check besides launch 0: the smallest sizes, sizes with remainders, and a mix of these and
 * launch 0's. */
static void choose_launches(tg_trial_state *s, tg_env *env, tg_kernel *k) {
  uint32_t kept = 1;
  read_operands(s, env, k);
  for (uint32_t l = 1; l < TRIAL_LAUNCHES && s->params_n; l++) {
    tg_trial_use(s, kept);
    for (uint32_t i = 0; i < s->params_n; i++) {
      const tg_param *p = &s->job->params.data[i];
      int64_t tails = within(p, p->lo + 36 + 7 * (int64_t)i), least = within(p, p->lo);
      s->params[i] = l == 1 ? least : l == 2 || i % 2 ? tails : s->launch[0].params[i];
    }
    bool again = false;
    for (uint32_t o = 0; o < kept; o++)
      again |= !memcmp(s->launch[o].params, s->params, s->params_n * sizeof *s->params);
    if (!again && read_operands(s, env, k)) kept++;
  }
  s->launches = kept;
  tg_trial_use(s, 0);
}

typedef struct { tg_trial_state *s; } reading;

/* Runs inside tg_protect of the job. Reads the kernel as written for the ranges that its inputs promise and for its f64
 * and f32 forms, then runs the passes up to raise to count its operations. */
static void read_reference(void *arg) {
  tg_trial_state *s = ((reading *)arg)->s;
  tg_job *j = s->job;
  tg_compile_options none = {0};
  tg_kernel_source src = {.file = "reference", .text = s->text, .options = &none};
  tg_kernel_source_read(j, &src);
  while (s->params_n < j->params.n && s->params_n < TG_TRIAL_PARAMS) { /* by default, the largest values */
    const tg_param *p = &j->params.data[s->params_n];
    s->params[s->params_n++] = p->hi - p->hi % p->multiple;
  }
  const tg_uop *wide = tg_widen(j, j->sink), *narrow = wide ? tg_narrow(j, j->sink) : NULL;
  tg_str text = tg_str_new(&s->env), less = tg_str_new(&s->env);
  j->opts.n = 0;
  if (wide) tg_print(j, &text, wide), s->wide = text.data;
  if (narrow) tg_print(j, &less, narrow), s->narrow = less.data;
  s->author = j->sink;
  s->work = tg_work_of(j, tg_run_passes(j, s->ctx, &src, "raise", NULL, NULL), s->params_n ? s->params : NULL);
  j->stage = "author";
  if (s->work.ops > TG_TRIAL_AS_WRITTEN)
    s->slab = tg_trial_slab(j, &s->env, s->author, TG_TRIAL_AS_WRITTEN / s->work.ops);
}

/* Workers choose as the context that tunes does. */
static void use_machine(tg_context *c, tg_env *env, const char *text) {
  const char *silicon, *why;
  if (!text) return;
  if (!tg_machine_file_parse(env, text, strlen(text), &c->target.machine, &silicon, &why))
    tg_fail(env, TG_INTERNAL, "the row of the machine: %s", why);
  tg_target_derive(&c->target);
}

/* The target of the device, from a worker's program of the same build; else lowering opens the device. */
static void read_target(tg_trial_state *s, const char *text) {
  unsigned char *out = (unsigned char *)&s->target;
  bool whole = text && strlen(text) == 2 * sizeof s->target;
  for (size_t i = 0; whole && i < sizeof s->target; i++) {
    unsigned byte;
    whole = sscanf(text + 2 * i, "%2x", &byte) == 1;
    out[i] = (unsigned char)byte;
  }
  s->closed = (tg_device){.context = s->ctx, .target = whole ? &s->target : NULL};
}

static void open_problem(void *self, tg_env *env, tg_task *t) {
  tg_trial_state *s = self;
  drop_problem(s);
  tg_env_init(&s->env, NULL);
  s->live = true;
  tg_context_options o = {.target = t->target,
                          .cache = t->folder,
                          .tuned = "",
                          .threads = t->pool      ? (int)t->pool
                                     : t->threads ? (int)t->threads
                                                  : 1};
  tg_status st = tg_context_create(&o, &s->ctx);
  if (st != TG_OK) tg_fail(env, st, "no context");
  use_machine(s->ctx, env, t->machine);
  s->env.trap = env->trap;
  s->text = tg_strdup(&s->env, t->trial.text ? t->trial.text : "");
  s->device = t->device ? tg_strdup(&s->env, t->device) : NULL;
  read_target(s, t->device_target);
  s->about = t->checks ? tg_strdup(&s->env, t->checks) : NULL;
  s->roundings = t->roundings;
  s->launch = tg_new(&s->env, tg_trial_launch, TRIAL_LAUNCHES);
  tg_trial_use(s, 0);
  memcpy(s->params, t->params, sizeof t->params);
  s->params_n = t->params_n;
  s->threads = t->threads ? (int)t->threads : 1;
  s->seed = t->seed;
  s->job = tg_new(&s->env, tg_job, 1);
  tg_job_init(s->job, NULL);
  reading r = {s};
  if (!tg_protect(&s->job->env, read_reference, &r)) tg_fail(env, s->job->env.status, "%s", s->job->env.message);
  s->job->env.trap = env->trap;
  tg_kernel *k = tg_trial_compile(s, env, s->text, NULL, 0);
  choose_launches(s, env, k);
  tg_kernel_free(k);
  s->asked[TRIAL_EXACT] = s->work.integers || s->work.span > 0;
  s->asked[TRIAL_ENDLESS] = !s->work.integers && (s->work.span > 0 || s->work.single);
  s->asked[TRIAL_RANDOM] = !s->work.integers;
  tg_trial_share(s, env, t);
  t->exact = s->asked[TRIAL_EXACT];
  t->flops = s->work.ops;
  for (uint32_t b = 0; b < s->n; b++) t->bytes += (double)s->op[b].bytes * (s->op[b].read + s->op[b].written);
  if (t->make) tg_trial_bounds(s, t);
  if (t->make) tg_trial_make(s, env);
  if (!tg_trial_made(s)) tg_fail(env, TG_EINVAL, "the reference has no results");
}

/* ---- lower ---- */

typedef struct { tg_compilation work; tg_trial_state *s; tg_task *t; tg_env *env; } lowering;

static void put_decisions(lowering *l, const tg_decisions *c) {
  tg_str s = tg_str_new(l->env);
  for (uint32_t i = 0; i < c->made.n; i++) {
    const tg_decision *m = &c->made.data[i];
    tg_str_printf(&s, "%s%s=%lld", i ? ";" : "", m->name, (long long)m->value);
    for (uint32_t k = 0; k < m->n; k++) tg_str_printf(&s, "%s%lld", k ? "," : ":", (long long)m->option[k]);
  }
  l->t->decisions = s.data;
}

static void lower_job(void *arg) {
  lowering *l = arg;
  tg_job *j = l->work.job;
  tg_kernel_source_check(j, l->work.source);
  tg_kernel_source_read(j, l->work.source);
  tg_run_passes(j, l->s->ctx, l->work.source, "raise", NULL, NULL);
  tg_decisions decisions = {.given = l->t->trial.given};
  /* the cost model knows CPUs: for text that a device compiles, which has tasks as they have, it gives the order in
   * which candidates are tried; for others there is none */
  const tg_target *t = tg_target_asked(l->s->ctx, l->work.source->options), *cpu = &l->s->ctx->target;
  tg_lowering how = {.target = t, .rules = l->s->ctx->rules, .price = t == cpu ? tg_price_raised : NULL};
  if (!j->opts.n) tg_heuristic_with(j, &how, j->sink, &decisions);
  put_decisions(l, &decisions);
  const tg_uop *linear = tg_lower(j, &how, NULL, NULL, NULL);
  l->t->hash = tg_structural_hash(j, linear);
  if (t == cpu || tg_target_is_source(t))
    l->t->cost = tg_cost_of(j, cpu, linear, l->s->params_n ? l->s->params : NULL, l->s->threads);
  tg_str words = tg_str_new(l->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  l->t->words = words.data;
}

static void lower(void *self, tg_env *env, tg_task *t) {
  tg_trial_state *s = self;
  if (!s->ctx) tg_fail(env, TG_EINVAL, "no problem is open");
  bool known = s->device && s->closed.target;
  tg_compile_options o = {.opts = t->trial.words, .device = known ? &s->closed : tg_trial_device(s, env)};
  tg_kernel_source src = {.file = "candidate", .text = t->trial.text, .options = &o};
  lowering l = {.work = {.context = s->ctx, .source = &src}, .s = s, .t = t, .env = env};
  tg_trial_expect(s, env, tg_compilation_run(&l.work, lower_job, &l));
}

/* ---- build, time ---- */

static void build(void *self, tg_env *env, tg_task *t) {
  tg_trial_state *s = self;
  if (!s->ctx) tg_fail(env, TG_EINVAL, "no problem is open");
  tg_kernel *k = tg_trial_candidate(s, env, &t->trial);
  tg_trial_check(s, env, k, t);
  tg_kernel_free(k);
}

static void time_pair(void *self, tg_env *env, tg_task *t) {
  tg_trial_state *s = self;
  if (!s->ctx) tg_fail(env, TG_EINVAL, "no problem is open");
  tg_kernel *trial = tg_trial_candidate(s, env, &t->trial), *against = tg_trial_candidate(s, env, &t->against);
  tg_trial_time(s, env, trial, against, t);
  tg_kernel_free(trial);
  tg_kernel_free(against);
}

/* Runs the kind's checks. Fails if this worker has none linked in: then no candidate may win. */
static void checks(void *self, tg_env *env, tg_task *t) {
  tg_trial_state *s = self;
  char message[1024] = "";
  const char *about = t->checks ? t->checks : s->about;
  double seconds = 0;
  if (!s->ctx || !about) tg_fail(env, TG_EINVAL, "no problem with checks is open");
  if (!s->checks) tg_fail(env, TG_EBACKEND, "this worker has no checks for it");
  tg_kernel *k = tg_trial_candidate(s, env, &t->trial);
  tg_status st = s->checks(s->ctx, about, k, t->trial.words, s->threads, s->seed, t->give_up > 0 ? &seconds : NULL,
                           message, sizeof message);
  t->seconds = seconds;
  tg_kernel_free(k);
  if (st != TG_OK && st != TG_EINVAL) tg_fail(env, st, "%s", message);
  if (st == TG_EINVAL) t->outcome = TG_TRIAL_WRONG, t->message = tg_strdup(env, message);
}

/* ---- life ---- */

tg_bench *tg_trial_bench_new(tg_trial_checks *of_kind) {
  tg_allocator a = tg_allocator_default();
  tg_trial_state *s = a.alloc(a.user, sizeof *s);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  s->bench = (tg_bench){s, open_problem, lower, build, time_pair, checks};
  s->checks = of_kind;
  return &s->bench;
}

void tg_trial_bench_free(tg_bench *b) {
  if (!b) return;
  tg_allocator a = tg_allocator_default();
  tg_trial_state *s = b->self;
  drop_problem(s);
  a.free(a.user, s, sizeof *s);
}
