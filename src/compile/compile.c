/* SPDX-License-Identifier: MIT
 * The compiler of a context: schedules, lowers and emits a kernel. The rewrite rules and the JIT are created by the
 * first compile that needs them. Also shows a kernel at any stage. */
#include <stdio.h>
#include "compile/compile.h"
#include "compile/price.h"
#include "dsl/text.h"
#include "generator/generator.h"
#include "choose/heuristic.h"
#include "model/cost.h"
#include "prices/prices.h"
#include "source/source.h"

/* ---- created once for each context ---- */

static void make_rules(void *arg) {
  tg_context *c = arg;
  c->rules = tg_rules_compile(&c->env);
}

static void make_jit(void *arg) {
  tg_context *c = arg;
  tg_status s = tg_jit_open(&c->jit, &c->env.allocator, &c->target, tg_jit_flags(c), &c->env);
  if (s != TG_OK) return;
  /* only these three may change here: other threads read the target's other fields without the lock */
  const tg_target *t = tg_jit_target(c->jit);
  memcpy(c->target.triple, t->triple, sizeof t->triple);
  memcpy(c->target.cpu, t->cpu, sizeof t->cpu);
  memcpy(c->target.features, t->features, sizeof t->features);
}

/* Runs under the lock. A failure is reported in the job's env, not left in the context's. */
static void make(tg_job *j, tg_context *c, void (*run)(void *)) {
  char message[sizeof c->env.message];
  pthread_mutex_lock(&c->lock);
  c->env.status = TG_OK;
  if (run == make_rules ? !c->rules : !c->jit) tg_protect(&c->env, run, c);
  tg_status s = c->env.status;
  memcpy(message, c->env.message, sizeof message);
  pthread_mutex_unlock(&c->lock);
  if (s != TG_OK) tg_fail(&j->env, s, "%s", message);
}

static const tg_rules *rules_of(tg_job *j, tg_context *c) {
  make(j, c, make_rules);
  return c->rules;
}

static tg_jit *open_jit(tg_job *j, tg_context *c) {
  tg_generator_need(&j->env);
  make(j, c, make_jit);
  return c->jit;
}

/* The JIT of the target that is wanted: the context's own, or that of a device, which has another target. */
static tg_jit *open_jit_for(tg_job *j, tg_context *c, const tg_compile_options *o) {
  const tg_target *t = tg_target_asked(c, o);
  if (t == &c->target) return open_jit(j, c);
  tg_device *d = o->device;
  tg_env env;
  tg_generator_need(&j->env);
  tg_env_init(&env, &c->env.allocator);
  pthread_mutex_lock(&c->lock);
  tg_status s = d->jit ? TG_OK : tg_jit_open(&d->jit, &c->env.allocator, t, tg_jit_flags(c), &env);
  pthread_mutex_unlock(&c->lock);
  tg_env_drop(&env);
  if (s != TG_OK) tg_fail(&j->env, s, "%s", env.message);
  return d->jit;
}

/* ---- lowering ---- */

/* The heuristic runs between raise and schedule: tg_lower expects a complete list of words. */
const tg_uop *tg_run_passes(tg_job *j, tg_context *c, const tg_kernel_source *s, const char *until, tg_stage_fn *seen,
                            void *user) {
  tg_lowering l = {.target = tg_target_asked(c, s->options),
                   .rules = rules_of(j, c),
                   .verify = (c->flags & TG_CONTEXT_VERIFY) != 0,
                   .formed = (s->options->flags & TG_COMPILE_FORMED) != 0,
                   .log = c->log,
                   .log_user = c->log_user,
                   .price = tg_price_raised};
  int now = tg_stage_index(j->stage), raised = tg_stage_index("raise"),
      last = until ? tg_stage_index(until) : tg_stage_index("linear");
  if (last < 0) {
    tg_str names = tg_str_new(&j->env);
    for (const tg_pass *p = tg_passes; p->name; p++) tg_str_printf(&names, ", %s", p->name);
    tg_fail(&j->env, TG_EINVAL, "error: no stage is named '%s'; there are author%s, llvm, asm, object and cost", until,
            names.data);
  }
  if (now > raised) return tg_lower(j, &l, until, seen, user);
  tg_lower(j, &l, last < raised ? until : "raise", seen, user);
  if (last <= raised) return j->sink;
  if (!(s->options->flags & TG_COMPILE_AS_WRITTEN)) tg_heuristic(j, &l, j->sink);
  return tg_lower(j, &l, until, seen, user);
}

/* ---- compiling ---- */

static void set_signature(tg_job *j, tg_cache_entry *entry) {
  const tg_signature *signature = tg_signature_build(j);
  entry->signature = signature;
  entry->signature_n = signature->bytes;
}

typedef struct {
  tg_job *job;
  tg_context *context;
  const tg_kernel_source *source;
  tg_cache_entry *entry;
  const tg_uop *linear;
} lowering;

static void lower_whole(void *arg) {
  lowering *w = arg;
  tg_job *j = w->job;
  if (tg_stage_index(j->stage) < tg_stage_index("schedule"))
    tg_run_passes(j, w->context, w->source, "schedule", NULL, NULL);
  if (j->packings.n) set_signature(j, w->entry);   /* the buffers now include operands packed ahead of the launch */
  w->linear = tg_run_passes(j, w->context, w->source, NULL, NULL, NULL);
}

/* The caller did not choose the heuristic's words, so they must not make a compile fail: if a pass after schedule fails
 * with them, the kernel is compiled as written. */
static void lower(lowering *w) {
  tg_job *j = w->job;
  const char *message;
  if (j->opts.n || w->source->options->flags & TG_COMPILE_AS_WRITTEN ||
      tg_stage_index(j->stage) > tg_stage_index("raise")) {
    lower_whole(w);
    return;
  }
  tg_run_passes(j, w->context, w->source, "raise", NULL, NULL);
  const tg_uop *raised = j->sink;
  if (tg_job_try(j, lower_whole, w, &message)) return;
  if (w->context->log)
    w->context->log(w->context->log_user,
                    tg_format(&j->env, "%s is compiled as written: %s", j->name ? j->name : "kernel", message));
  tg_compile_options plain = *w->source->options;
  tg_kernel_source again = *w->source;
  plain.flags |= TG_COMPILE_AS_WRITTEN;
  again.options = &plain;
  j->sink = raised;
  j->stage = "raise";
  j->opts.n = 0;
  j->division = NULL;
  w->linear = tg_run_passes(j, w->context, &again, NULL, NULL, NULL);
}

/* Is the object text, which the device compiles? With an LLVM without SPIR-V it is for devices that take both, too. */
static bool is_text(const tg_target *t) { return tg_target_is_source(t) && !tg_jit_knows(t); }

static tg_object source_of(tg_job *j, const tg_target *t, const tg_uop *linear, tg_code_info *info) {
  const char *text = tg_source_opencl(j, t, linear, info);
  return (tg_object){(void *)text, strlen(text) + 1};
}

void tg_compile_program(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price,
                        const char **ir) {
  const tg_target *t = tg_target_asked(c, s->options);
  tg_jit *jit = is_text(t) ? NULL : open_jit_for(j, c, s->options);
  lowering w = {j, c, s, entry, NULL};
  lower(&w);
  tg_job_go_on(j);
  if (price && t->arch <= TG_ARCH_AARCH64) *price = tg_cost_of(j, t, w.linear, NULL, (int)t->threads).seconds;
  tg_object object =
      jit ? tg_jit_compile(jit, j, w.linear, &entry->info, ir, NULL) : source_of(j, t, w.linear, &entry->info);
  entry->object = object.data;
  entry->object_n = object.bytes;
}

/* ---- the kernel that packs an operand: a separate program, in a job of its own ---- */

static const char *packing_of(tg_job *j, tg_context *c, const tg_kernel_source *s) {
  const char *pack = s->options->pack;
  tg_str names = tg_str_new(&j->env);
  tg_run_passes(j, c, s, "schedule", NULL, NULL);
  for (uint32_t i = 0; i < j->packings.n; i++) {
    if (!strcmp(j->packings.data[i].source, pack) || !strcmp(j->packings.data[i].copy, pack))
      return j->packings.data[i].text;
    tg_str_printf(&names, "%s%s", i ? ", " : "; it packs ", j->packings.data[i].source);
  }
  tg_fail(&j->env, TG_EINVAL, "error: the schedule of %s packs no operand '%s'%s", j->name, pack,
          names.n ? names.data : "");
}

typedef struct {
  tg_job *job;
  tg_context *context;
  tg_kernel_source source;
  tg_cache_entry entry;
  double *price;
} packing_work;

static void compile_packing(void *arg) {
  packing_work *w = arg;
  tg_kernel_source_read(w->job, &w->source);
  set_signature(w->job, &w->entry);
  tg_compile_program(w->job, w->context, &w->source, &w->entry, w->price, NULL);
}

static const void *copied(tg_job *j, const void *data, size_t bytes) {
  return memcpy(tg_alloc(&j->env, bytes ? bytes : 1), data, bytes);
}

static void compile(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price) {
  if (!s->options->pack) {
    tg_compile_program(j, c, s, entry, price, NULL);
    return;
  }
  tg_compile_options none = {.device = s->options->device};
  packing_work w = {.job = tg_new(&j->env, tg_job, 1),
                    .context = c,
                    .price = price,
                    .source = {.file = "packing", .text = packing_of(j, c, s), .options = &none}};
  tg_job_init(w.job, &j->env.allocator);
  w.job->env.blocks = &c->blocks;
  w.job->cancel = j->cancel;
  bool ok = tg_protect(&w.job->env, compile_packing, &w);
  tg_status status = w.job->env.status;
  const char *message = tg_strdup(&j->env, w.job->env.message);
  if (ok) {
    entry->signature = copied(j, w.entry.signature, w.entry.signature_n);
    entry->signature_n = w.entry.signature_n;
    entry->object = copied(j, w.entry.object, w.entry.object_n);
    entry->object_n = w.entry.object_n;
    entry->info = w.entry.info;
    if (w.entry.info.launch)
      entry->info.launch = copied(j, w.entry.info.launch, w.entry.info.launch_n * sizeof *w.entry.info.launch);
  }
  tg_job_drop(w.job);
  if (!ok) tg_fail(&j->env, status, "%s", message);
}

/* Runs on tg's own stack: LLVM may need more stack than the caller's thread has. */
static tg_code *link_entry(tg_job *j, tg_context *c, const tg_cache_entry *entry, const char *name) {
  tg_linker linker = tg_jit_linker(open_jit(j, c));
  tg_code *code;
  tg_status s = tg_code_link(&c->env.allocator, &linker, entry->object, entry->object_n, name, &entry->info,
                             tg_jit_flags(c), &code, &j->env);
  if (s != TG_OK) tg_fail(&j->env, s, "%s", name);   /* its own message stands */
  return code;
}

void tg_compiler_close(tg_context *c) {
  for (tg_device *d = c->devices; d; d = d->next) tg_jit_close(d->jit), d->jit = NULL;
  tg_jit_close(c->jit);
}

static void load_compiler(void *arg) {
  tg_compilation *w = arg;
  tg_generator_need(&w->job->env);
}

tg_status tg_compiler_load(tg_context *c) {
  if (!c) return TG_EINVAL;
  if (!c->compiler) return tg_context_fail(c, TG_EINVAL, "the context has no compiler: tg_context_create makes one");
  tg_compilation w = {.context = c};
  return tg_compilation_run(&w, load_compiler, &w);
}

tg_status tg_context_create_sized(const tg_context_options *options, size_t bytes, tg_context **out) {
  static const tg_compiler compiler = {compile, link_entry, tg_compiler_price, tg_compiler_fuse, tg_compiler_close};
  return tg_context_open(options, bytes, &compiler, out);
}

/* ---- showing a kernel at a stage ---- */

typedef struct {
  tg_compilation work;
  tg_show_fn *write;
  void *user;
  const char *stage;
} showing;

/* Prints the rules that fired since the last stage, as comments, and clears the trace. */
static void put_rules(tg_job *j, tg_str *text) {
  uint32_t n;
  const tg_fired *fired = tg_trace_end(j, &n);
  for (uint32_t i = 0; i < n; i++)
    tg_str_printf(text, "// %s: %s -> %s\n", fired[i].rule, tg_text(j, fired[i].before), tg_text(j, fired[i].after));
  tg_trace_begin(j);
}

/* Which sizes have other words, as comments. */
static void put_division(tg_job *j, tg_str *text) {
  const tg_division *d = j->division;
  for (uint32_t i = 0; d && i < d->n; i++) {
    tg_str_printf(text, "//");
    for (uint32_t p = 0; p < j->params.n && p < TG_REGION_SIZES; p++)
      tg_str_printf(text, "%s %s %lld..%lld", p ? "," : "", j->params.data[p].name,
                    (long long)d->part[i].size[p].lo, (long long)d->part[i].size[p].hi);
    tg_str_printf(text, ": %s\n", d->part[i].words[0] ? d->part[i].words : "as written");
  }
}

static void show_stage(void *user, const char *pass, const tg_uop *sink) {
  showing *k = user;
  if (k->stage && strcmp(k->stage, pass)) return;
  tg_str text = tg_str_new(&k->work.job->env);
  tg_print(k->work.job, &text, sink);
  if (!strcmp(pass, "schedule")) put_division(k->work.job, &text);
  if (k->work.source->options->flags & TG_COMPILE_SHOW_RULES) put_rules(k->work.job, &text);
  k->write(k->user, pass, text.data);
}

static void show_packing(showing *k) {
  tg_job *j = k->work.job;
  tg_context *c = k->work.context;
  tg_compile_options o = {.flags = k->work.source->options->flags,
                          .device = k->work.source->options->device,
                          .cancel = j->cancel};
  tg_status s = tg_show_text(c, "packing", packing_of(j, c, k->work.source), &o, k->stage, k->write, k->user);
  if (s != TG_OK) tg_fail(&j->env, s, "%s", tg_error_message(c));
}

static void show_job(void *arg) {
  showing *k = arg;
  tg_job *j = k->work.job;
  tg_kernel_source_check(j, k->work.source);
  tg_kernel_source_read(j, k->work.source);
  if (k->work.source->options->pack) {
    show_packing(k);
    return;
  }
  if (k->work.source->options->flags & TG_COMPILE_SHOW_RULES) tg_trace_begin(j);
  int wanted = k->stage ? tg_stage_index(k->stage) : -1, now = tg_stage_index(j->stage);
  if (wanted >= 0 && wanted < now)
    tg_fail(&j->env, TG_EINVAL, "error: stage %s lies before %s, which this text is at", k->stage, j->stage);
  /* if the text is already at the stage to show, no pass would report it */
  if (wanted >= 0 && wanted == now && now != tg_stage_index("author")) {
    show_stage(k, k->stage, j->sink);
    return;
  }
  if (k->stage && !strcmp(k->stage, "cost")) {
    uint32_t threads = tg_target_asked(k->work.context, k->work.source->options)->threads;
    k->write(k->user, "cost", tg_cost_text(j, k->work.context, k->work.source, NULL, threads, NULL));
    return;
  }
  tg_division_ask(&k->work);
  bool llvm = !k->stage || !strcmp(k->stage, "llvm"), assembly = !k->stage || !strcmp(k->stage, "asm"),
       summary = !k->stage || !strcmp(k->stage, "object");
  const tg_uop *linear = tg_run_passes(j, k->work.context, k->work.source,
                                       k->stage && !llvm && !assembly && !summary ? k->stage : NULL, show_stage, k);
  if (!llvm && !assembly && !summary) return;
  const char *ir = NULL, *text = NULL;
  const tg_target *t = tg_target_asked(k->work.context, k->work.source->options);
  tg_code_info *info = &k->work.entry.info;
  if (is_text(t)) {
    if (assembly) k->write(k->user, "asm", source_of(j, t, linear, info).data);
    return;
  }
  tg_object object = tg_jit_compile(open_jit_for(j, k->work.context, k->work.source->options), j, linear, info,
                                    llvm ? &ir : NULL, assembly && t->arch != TG_ARCH_AMDGPU ? &text : NULL);
  if (assembly && !text) text = tg_object_assembly(j, t, &object, info);
  if (ir) k->write(k->user, "llvm", ir);
  if (text) k->write(k->user, "asm", text);
  if (summary) k->write(k->user, "object", tg_object_summary(j, t, &object, info));
}

typedef struct { tg_context *c; const char *stage; tg_show_fn *write; void *user; } asked;

static tg_status show_source(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss) {
  const asked *a = user;
  (void)tuned, (void)near_miss;
  showing k = {.work = {.context = a->c, .source = s}, .write = a->write, .user = a->user, .stage = a->stage};
  return tg_compilation_run(&k.work, show_job, &k);
}

static tg_status show(tg_context *c, tg_kernel_source s, size_t options_bytes, const char *stage, tg_show_fn *write,
                      void *user) {
  tg_compile_options copy;
  if (!c || TG_WHOLE(c, tg_compile_options, &copy, &s.options, options_bytes) != TG_OK) return TG_EINVAL;
  if (!write) return tg_context_fail(c, TG_EINVAL, "no function is given to write to");
  if (!s.options) s.options = &tg_no_options;
  asked a = {c, stage, write, user};
  return tg_with_choice(c, &s, NULL, 0, show_source, &a);
}

tg_status tg_show_sized(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, size_t options_bytes,
                        const char *stage, tg_show_fn *write, void *user) {
  return show(c, (tg_kernel_source){.def = def, .options = o}, options_bytes, stage, write, user);
}

tg_status tg_show_text_sized(tg_context *c, const char *file, const char *text, const tg_compile_options *o,
                             size_t options_bytes, const char *stage, tg_show_fn *write, void *user) {
  return show(c, (tg_kernel_source){.file = file, .text = text, .options = o}, options_bytes, stage, write, user);
}
