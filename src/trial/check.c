/* SPDX-License-Identifier: MIT
 * Is a candidate's result correct? It runs on several sets of inputs: integers so small that every order of summation
 * gives the same bits, compared bit for bit; the same with some infinities and NaNs; and random numbers, compared with
 * the kernel as written in f64, within twice the error that the kernel as written has in its own types. Operands are
 * placed right before a guard page, then right behind one. Inputs are write-protected, outputs are filled with garbage
 * first, and the memory around operands must not change.
 * The scheduled program is also run in the interpreter, if that is quick, to find races: two tasks that access the same
 * element, one of them writing, even if machine code happens to give the right result. */
#include <math.h>
#include <stdio.h>
#include "trial/trial.h"
#include "dsl/functions.h"
#include "dsl/text.h"
#include "interp/interp.h"

enum { POISON = 0xff };

/* ---- the reference ---- */

typedef struct {
  tg_trial_state *s;
  tg_kernel *k;
  tg_env *env;
  tg_guarded g[TRIAL_BUFFERS];
  tg_trial_kind kind;
  bool at_end;
} running;

static void run_reference(void *arg) {
  running *r = arg;
  tg_trial_state *s = r->s;
  tg_trial_run_guarded(s, r->env, r->k, r->kind, tg_trial_at_end(s, r->kind), r->g);
  for (uint32_t b = 0; b < s->n; b++)
    if (s->op[b].written) memcpy(s->shared + s->op[b].want[r->kind], r->g[b].data, s->op[b].bytes);
}

/* ---- the reference by the interpreter ----
 * The interpreter shares no pass and no instruction with the code that is checked. The functions return false if it
 * would take too long. */

typedef struct { tg_job *job; const tg_uop *program; const char *text; tg_interp in; } interpreting;

static void interpret(void *arg) {
  interpreting *x = arg;
  if (x->text) tg_parse_kernel(x->job, "reference", x->text, 0, NULL);
  tg_interpret(x->job, x->text ? x->job->sink : x->program, &x->in);
}

enum { STEPS = 3000000 };
/* the operation count is that of launch 0; for other launches the interpreter's own step limit decides */
static bool may_interpret(const tg_trial_state *s) { return s->now || s->work.ops <= STEPS; }

static bool interprets(const tg_trial_state *s, tg_job *j, const tg_uop *program, const char *text,
                       const tg_interp_buffer *buffers, bool host_functions) {
  const uint64_t bytes = 1 << 26;
  interpreting x = {j,
                    program,
                    text,
                    {.buffers = buffers,
                     .params = s->params,
                     .step_limit = STEPS,
                     .memory_limit = bytes,
                     .host_functions = host_functions}};
  bool ok = tg_protect(&j->env, interpret, &x);
  if (!ok) j->env.status = TG_OK;
  return ok;
}

static void *aligned(tg_env *env, size_t bytes) {
  char *data = tg_alloc(env, bytes + 64);
  return data + (-(uintptr_t)data & 63);
}

static bool interpret_own(tg_trial_state *s, tg_env *env, tg_trial_kind kind, bool host_functions,
                          tg_interp_buffer *buffers) {
  if (!may_interpret(s)) return false;
  for (uint32_t b = 0; b < s->n; b++) {
    const tg_trial_operand *o = &s->op[b];
    buffers[b] = (tg_interp_buffer){aligned(env, o->bytes), o->bytes};
    if (o->read) tg_trial_fill(s, b, kind, buffers[b].data);
    else memset(buffers[b].data, POISON, o->bytes);
  }
  return interprets(s, s->job, s->author, NULL, buffers, host_functions);
}

static bool interpret_reference(tg_trial_state *s, tg_env *env, tg_trial_kind kind) {
  tg_interp_buffer buffers[TRIAL_BUFFERS];
  if (!interpret_own(s, env, kind, false, buffers)) return false;
  for (uint32_t b = 0; b < s->n; b++)
    if (s->op[b].written) memcpy(s->shared + s->op[b].want[kind], buffers[b].data, s->op[b].bytes);
  return true;
}

static bool interpret_retyped(const tg_trial_state *s, const char *text, const tg_argument *args) {
  tg_interp_buffer buffers[TRIAL_BUFFERS];
  tg_job j;
  for (uint32_t b = 0; b < s->n; b++) buffers[b] = (tg_interp_buffer){args[b].data, args[b].bytes};
  tg_job_init(&j, NULL);
  bool ok = interprets(s, &j, NULL, text, buffers, true);
  tg_job_drop(&j);
  return ok;
}

static double value_at(tg_type t, const void *data, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)data + i * (size_t)tg_type_bytes(t), (size_t)tg_type_bytes(t));
  return tg_value_from_bits(t, bits).f;
}

static void fill_retyped(const tg_trial_state *s, tg_env *env, uint32_t b, tg_type type, void *out) {
  const tg_trial_operand *o = &s->op[b];
  if (!tg_is_float(o->type)) {
    tg_trial_fill(s, b, TRIAL_RANDOM, out);
    return;
  }
  const void *own = tg_trial_input(s, b, TRIAL_RANDOM);
  if (!own) {
    void *copy = tg_alloc(env, o->bytes + 1);
    tg_trial_fill(s, b, TRIAL_RANDOM, copy);
    own = copy;
  }
  for (size_t i = 0; o->type == TG_F32 && i < o->n; i++) {   /* a fast path: most operands are f32, and large */
    if (type == TG_F64) ((double *)out)[i] = (double)((const float *)own)[i];
    else ((float *)out)[i] = ((const float *)own)[i];
  }
  for (size_t i = 0; o->type != TG_F32 && i < o->n; i++) {
    if (type == TG_F64) ((double *)out)[i] = value_at(o->type, own, i);
    else ((float *)out)[i] = (float)value_at(o->type, own, i);
  }
}

/* Runs the kernel as written with each float type replaced by `type`, on the same inputs. out: each operand after
 * it. */
static void run_retyped(tg_trial_state *s, tg_env *env, const char *text, tg_type type, uint32_t flags, void **out) {
  tg_argument args[TRIAL_BUFFERS];
  /* if the interpreter gives up it has written some operands: they are refilled in the second turn */
  for (int turn = may_interpret(s) ? 0 : 1; turn < 2; turn++) {
    for (uint32_t b = 0; b < s->n; b++) {
      const tg_trial_operand *o = &s->op[b];
      size_t bytes = tg_is_float(o->type) ? o->n * (size_t)tg_type_bytes(type) : o->bytes;
      args[b] = (tg_argument){out[b] = tg_trial_room(s, env, b, bytes), bytes};
      if (o->read) fill_retyped(s, env, b, type, out[b]);
      else memset(out[b], POISON, bytes);   /* what a partial output leaves out is as in the candidate's: NaN */
    }
    if (!turn && interpret_retyped(s, text, args)) return;
  }
  tg_kernel *k = tg_trial_compile(s, env, text, NULL, flags);
  tg_launch l = {
      .buffers = args, .buffers_n = s->n, .params = s->params, .params_n = s->params_n, .threads = s->threads};
  tg_status st = tg_kernel_run(k, &l);
  tg_kernel_free(k);
  tg_trial_expect(s, env, st);
}

static void make_wide(tg_trial_state *s, tg_env *env, uint32_t flags) {
  void *got[TRIAL_BUFFERS];
  run_retyped(s, env, s->wide, TG_F64, flags, got);
  for (uint32_t b = 0; b < s->n; b++)
    if (s->op[b].wide) memcpy(s->shared + s->op[b].wide, got[b], s->op[b].n * 8);
}

/* The error of f64 results, for which there is no wider type to compare with: the error of the kernel run in f32,
 * scaled by 2^-29; or, if that happens to be small, the rounding error expected from the operations per element. */
static void measure_narrow(tg_trial_state *s, tg_env *env, uint32_t flags) {
  void *got[TRIAL_BUFFERS];
  run_retyped(s, env, s->narrow, TG_F32, flags, got);
  for (uint32_t b = 0; b < s->n; b++) {
    if (s->op[b].type != TG_F64 || !s->op[b].wide) continue;
    double e = tg_block_error(TG_F32, got[b], (double *)(void *)(s->shared + s->op[b].wide), s->op[b].n);
    double terms = s->work.ops / (double)(s->op[b].n ? s->op[b].n : 1);
    double *own = tg_trial_own_error(s, b);
    *own = fmax(*own, fmax(isfinite(e) ? e * 0x1p-29 : 0, (sqrt(terms) + 8) * 0x1p-53));
  }
}

/* Without an f64 form of the kernel, its results in its own types are the expected ones. */
static void widen_results(tg_trial_state *s) {
  for (uint32_t b = 0; b < s->n; b++) {
    const tg_trial_operand *o = &s->op[b];
    for (size_t i = 0; o->wide && i < o->n; i++)
      ((double *)(void *)(s->shared + o->wide))[i] = value_at(o->type, s->shared + o->want[TRIAL_RANDOM], i);
  }
}

static void run_slab(void *arg) {
  running *r = arg;
  tg_trial_run_guarded(r->s, r->env, r->k, r->kind, tg_trial_at_end(r->s, r->kind), r->g);
}

static void check_slab(tg_trial_state *s, tg_env *env) {
  tg_trial_kind kind = s->asked[TRIAL_EXACT] ? TRIAL_EXACT : TRIAL_RANDOM;
  running r = {.s = s, .k = tg_trial_compile(s, env, s->slab, NULL, TG_COMPILE_AS_WRITTEN), .env = env, .kind = kind};
  bool ok = tg_protect(env, run_slab, &r);
  const char *message = NULL;
  for (uint32_t b = 0; ok && b < s->n && !message; b++)
    if (s->op[b].written && !s->op[b].read) message = tg_trial_judge_slab(s, env, b, kind, r.g[b].data);
  tg_trial_drop(r.g, s->n);
  tg_kernel_free(r.k);
  if (!ok) tg_fail(env, env->status, "%s", env->message);
  if (message) tg_fail(env, TG_INTERNAL, "the heuristic's schedule differs from the kernel as written: %s", message);
}

static bool has_functions(const tg_trial_state *s) {
  for (uint32_t id = 0; s->author && id < s->job->uops.n; id++)
    if (tg_is_function(s->job->uops.data[id]->op)) return true;
  return false;
}

/* Measures the error of the kernel as written in its own types; the largest over all data so far is kept. Functions
 * such as exp are then the C library's: with tg's own, a fault in one of these would raise the error allowed to
 * candidates with the same fault. The C library's are themselves off by an ulp or two, so the error is doubled. */
static void measure(tg_trial_state *s, tg_env *env, uint32_t flags) {
  bool finest = false;
  tg_interp_buffer exactly[TRIAL_BUFFERS];
  bool host = s->wide && has_functions(s) && interpret_own(s, env, TRIAL_RANDOM, true, exactly);
  if (s->wide) make_wide(s, env, flags);
  else widen_results(s);
  for (uint32_t b = 0; b < s->n; b++) {
    const tg_trial_operand *o = &s->op[b];
    finest |= o->wide && o->type == TG_F64;
    if (!o->wide || o->type == TG_F64) continue;
    double e = (host ? 2 : 1) * tg_block_error(o->type, host ? exactly[b].data : s->shared + o->want[TRIAL_RANDOM],
                                               (double *)(void *)(s->shared + o->wide), o->n),
           *own = tg_trial_own_error(s, b);
    *own = fmax(*own, e);
  }
  if (finest && s->narrow) measure_narrow(s, env, flags);
}

/* Measures the error on other random data too, since on one set of data it may be untypically small. */
static void measure_others(tg_trial_state *s, tg_env *env, uint32_t flags) {
  enum { OTHERS = 2 };
  uint64_t seed = s->seed;
  for (s->seed++; s->seed <= seed + OTHERS && interpret_reference(s, env, TRIAL_RANDOM); s->seed++) {
    measure(s, env, flags);
    for (uint32_t b = 0; b < s->n; b++)
      if (!isfinite(*tg_trial_own_error(s, b))) *tg_trial_own_error(s, b) = 0;   /* NaN or infinite: not usable */
  }
  s->seed = seed;
}

static void make_launch(tg_trial_state *s, tg_env *env, tg_kernel *k, uint32_t flags) {
  bool random = tg_trial_asks(s, s->now, TRIAL_RANDOM);
  if (random && s->wide) measure_others(s, env, flags);
  for (int g = 0; g < TRIAL_KINDS; g++) {
    /* without an f64 form the compiled code is the reference, as its fused multiply-adds are part of the result */
    if (!tg_trial_asks(s, s->now, (tg_trial_kind)g) ||
        ((g != TRIAL_RANDOM || s->wide || s->work.single) && interpret_reference(s, env, (tg_trial_kind)g)))
      continue;
    running r = {.s = s, .k = k, .env = env, .kind = (tg_trial_kind)g};
    bool ok = tg_protect(env, run_reference, &r);
    tg_trial_drop(r.g, s->n);
    if (!ok) tg_fail(env, env->status, "%s", env->message);
  }
  if (random) measure(s, env, flags);
}

void tg_trial_make(tg_trial_state *s, tg_env *env) {
  uint32_t flags = s->work.ops <= TG_TRIAL_AS_WRITTEN ? TG_COMPILE_AS_WRITTEN : 0;
  tg_kernel *k = tg_trial_compile(s, env, s->text, NULL, flags);
  for (uint32_t l = s->launches; l-- > 0;) {
    tg_trial_use(s, l);
    make_launch(s, env, k, flags);
  }
  tg_kernel_free(k);
  if (!flags && s->slab) check_slab(s, env);
  tg_trial_done(s);
}

/* ---- races ---- Machine code with a race may give the right result each time it is run. So the scheduled program is
 * also interpreted, with its tasks in a shuffled order and a check of each access. */

enum { RACE_STEPS = 1000000, RACE_BYTES = 1 << 26 };

typedef struct { tg_trial_state *s; tg_job job; const char *text; } scheduled;

static void keep_text(void *user, const char *stage, const char *text) {
  scheduled *x = user;
  (void)stage;
  x->text = tg_strdup(&x->job.env, text);
}

static bool has_tasks(const tg_job *j) {
  for (uint32_t id = 0; id < j->uops.n; id++) {
    const tg_uop *u = j->uops.data[id];
    if (u->op == TG_OP_END && (tg_range_kind(u->src[0]) == TG_THREAD || tg_range_kind(u->src[0]) == TG_GLOBAL))
      return true;
  }
  return false;
}

static void interpret_scheduled(void *user) {
  scheduled *x = user;
  const tg_trial_state *s = x->s;
  tg_interp_buffer buffers[TRIAL_BUFFERS];
  uint32_t n = 0;
  tg_trial_kind kind = s->asked[TRIAL_EXACT] ? TRIAL_EXACT : TRIAL_RANDOM;
  tg_parse_kernel(&x->job, "candidate", x->text, 0, NULL);
  if (!has_tasks(&x->job)) return;
  for (uint32_t i = 0; i < x->job.sink->n; i++) {
    const tg_uop *d = x->job.sink->src[i];
    uint32_t b = 0;
    if (d->op != TG_OP_DEFINE || tg_buffer_info(&x->job, d)->role == TG_ROLE_TEMP) continue;
    while (b < s->n && strcmp(s->op[b].name, tg_buffer_info(&x->job, d)->name)) b++;
    if (b == s->n || n == TRIAL_BUFFERS) return;
    buffers[n] = (tg_interp_buffer){aligned(&x->job.env, s->op[b].bytes), s->op[b].bytes};
    if (s->op[b].read) tg_trial_fill(s, b, kind, buffers[n].data);
    else memset(buffers[n].data, POISON, s->op[b].bytes);
    n++;
  }
  tg_interpret(&x->job, x->job.sink,
               &(tg_interp){.buffers = buffers,
                            .params = s->params,
                            .step_limit = RACE_STEPS,
                            .memory_limit = RACE_BYTES,
                            .check_races = true});
}

/* Does the scheduled program race? Beyond the limits of steps or memory no race is reported. */
static bool races(tg_trial_state *s, tg_env *env, tg_task *t) {
  scheduled x = {.s = s, .text = t->trial.text};   /* in case the text is already at that stage */
  tg_compile_options o = {.opts = t->trial.words, .device = s->opened};
  size_t bytes = 0;
  for (uint32_t b = 0; b < s->n; b++) bytes += s->op[b].bytes;
  if (bytes > RACE_BYTES) return false;
  tg_job_init(&x.job, NULL);
  tg_status st = tg_show_text(s->ctx, "candidate", t->trial.text, &o, "schedule", keep_text, &x);
  bool ok = st != TG_OK || tg_protect(&x.job.env, interpret_scheduled, &x) || x.job.env.status == TG_ELIMIT;
  if (!ok) t->outcome = TG_TRIAL_WRONG, t->message = tg_strdup(env, x.job.env.message);
  tg_job_drop(&x.job);
  tg_trial_expect(s, env, st);
  return !ok;
}

/* ---- a candidate ---- */

const char *tg_trial_judge(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind, const void *data) {
  const tg_trial_operand *o = &s->op[b];
  const char *want = s->shared + o->want[kind];
  if (kind == TRIAL_RANDOM && o->wide) {
    double error = tg_block_error(o->type, data, (const double *)(const void *)(s->shared + o->wide), o->n),
           walk = 2 * sqrt((double)s->roundings) * 0x1p-24,
           allowed = tg_block_bound(o->type, *tg_trial_own_error(s, b)) + walk;
    return error <= allowed ? NULL
                            : tg_format(env, "%s is off by %.3g of the largest value nearby, %.3g is allowed", o->name,
                                        error, allowed);
  }
  if (!memcmp(data, want, o->bytes)) return NULL;
  tg_comparison c = {.type = o->type, .n = o->n, .got = data, .want = want, .exact = true};
  tg_difference d;
  char text[512];
  if (tg_compare(&c, &d)) return NULL;
  tg_difference_text(&d, o->n, text, sizeof text);
  return tg_format(env, "%s: %s", o->name, text);
}

static void run_candidate(void *arg) {
  running *r = arg;
  tg_trial_run_guarded(r->s, r->env, r->k, r->kind, r->at_end, r->g);
}

static const char *wrong(running *r, tg_env *env) {
  tg_trial_state *s = r->s;
  if (s->beside) return s->beside;
  for (uint32_t b = 0; b < s->n; b++) {
    if (!tg_trial_untouched(&r->g[b])) return tg_format(env, "writes beside %s", s->op[b].name);
    const char *message = s->op[b].written ? tg_trial_judge(s, env, b, r->kind, r->g[b].data) : NULL;
    if (message) return message;
  }
  return NULL;
}

static bool check_run(running *r, tg_env *env, tg_task *t) {
  bool ok = tg_protect(env, run_candidate, r);
  const char *message = ok ? wrong(r, env) : NULL;
  tg_trial_drop(r->g, r->s->n);
  if (!ok) tg_fail(env, env->status, "%s", env->message);
  if (!message) return true;
  t->outcome = TG_TRIAL_WRONG, t->message = message;
  return false;
}

/* Checks one launch with each kind of data, at the end of the pages where its shared inputs are. If that was the same
 * end for all kinds, the last kind is checked at the other end as well. */
static void check_launch(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_task *t) {
  bool end[2] = {false, false};
  tg_trial_kind last = TRIAL_EXACT;
  for (int g = 0; g < TRIAL_KINDS; g++) {
    if (!tg_trial_asks(s, s->now, (tg_trial_kind)g)) continue;
    running r = {
        .s = s, .k = k, .env = env, .kind = last = (tg_trial_kind)g, .at_end = tg_trial_at_end(s, (tg_trial_kind)g)};
    if (!check_run(&r, env, t)) return;
    if (!s->now && (t->seconds <= 0 || s->run_seconds < t->seconds)) t->seconds = s->run_seconds;
    if (!s->now && t->give_up > 0 && t->seconds > t->give_up) {
      t->outcome = TG_TRIAL_SLOW, t->message = tg_format(env, "%.4g us in its first run", t->seconds * 1e6);
      return;
    }
    end[r.at_end] = true;
  }
  running r = {.s = s, .k = k, .env = env, .kind = last, .at_end = !end[1]};
  if (!s->now && end[0] != end[1]) check_run(&r, env, t);
}

void tg_trial_check(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_task *t) {
  s->warm = NULL;
  /* launch 0, the timed one, is the largest and goes last; but if there is a limit for its first run (give_up), it goes
   * first, so that a slow candidate is dropped early */
  for (uint32_t i = 0; i < s->launches && t->outcome == TG_TRIAL_OK; i++) {
    tg_trial_use(s, t->give_up > 0 ? i : s->launches - 1 - i);
    if (races(s, env, t)) break;
    check_launch(s, env, k, t);
  }
  tg_trial_use(s, 0);
}
