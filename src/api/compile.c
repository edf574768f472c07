/* SPDX-License-Identifier: MIT
 * From a kernel to code: read, look into the cache, else schedule, lower, compile; load. One job a compile, dropped at its end. */
#include <stdio.h>
#include "api/api.h"
#include "dsl/text.h"
#include "jit/cache.h"
#include "search/heuristic.h"

static const tg_compile_options no_options;

/* ---- reading ---- */

/* Words of a schedule given beside the kernel: ';' or a new line parts them. */
static void append_opts(tg_job *j, const char *opts) {
  while (*opts) {
    size_t n = strcspn(opts, ";\n"), skip = strspn(opts, " \t\r");
    size_t end = n;
    while (end > skip && strchr(" \t\r", opts[end - 1])) end--;
    if (end > skip) {
      const char *text = tg_strndup(&j->env, opts + skip, end - skip);
      tg_push(&j->env, &j->opts, ((tg_opt_text){text, {.file = "opts", .text = text, .line = 1, .column = 1, .length = (int)(end - skip)}}));
    }
    opts += opts[n] ? n + 1 : n;
  }
}

void tg_read_source(tg_job *j, const tg_source *s) {
  const tg_compile_options *o = s->options;
  if (s->def) tg_author(j, s->def, o->bindings_n, o->bindings, o->user);
  else {
    j->name = o->kernel;
    tg_parse_kernel(j, s->file ? s->file : "text", s->text, o->bindings_n, o->bindings);
  }
  if (o->opts) append_opts(j, o->opts);
}

const char *tg_cache_key(tg_job *j, tg_context *c, const tg_source *s) {
  tg_str k = tg_str_new(&j->env);
  tg_str_printf(&k, "tg %d.%d.%d\nllvm %s\ntarget %s\nfeatures %s\nthreads %u\ncaches %llu %llu %llu\nflags %u %u\n", TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH,
                tg_jit_llvm_version(), c->target.cpu, c->target.features, c->target.threads, (unsigned long long)c->target.l1, (unsigned long long)c->target.l2,
                (unsigned long long)c->target.l3, c->flags & TG_CONTEXT_DEBUG, s->options->flags & TG_COMPILE_AS_WRITTEN);
  tg_str_printf(&k, "stage %s\n", j->stage);
  for (uint32_t i = 0; i < j->params.n; i++)
    tg_str_printf(&k, "param %s %lld..%lld by %lld\n", j->params.data[i].name, (long long)j->params.data[i].lo, (long long)j->params.data[i].hi, (long long)j->params.data[i].multiple);
  for (uint32_t i = 0; i < j->constants.n; i++) tg_str_printf(&k, "const %s %lld\n", j->constants.data[i].name, (long long)j->constants.data[i].value);
  for (uint32_t i = 0; i < j->requires.n; i++) tg_str_printf(&k, "require %s\n", tg_text(j, j->requires.data[i]));
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&k, "opt %s\n", j->opts.data[i].text);
  tg_print(j, &k, j->sink);
  return k.data;
}

/* ---- lowering ---- */

/* The schedule is chosen between raise and schedule: lower takes a finished list of words. */
const tg_uop *tg_run_passes(tg_job *j, tg_context *c, const tg_source *s, const char *until, tg_stage_fn *seen, void *user) {
  tg_lowering l = {.target = &c->target, .rules = tg_context_rules(j, c), .verify = (c->flags & TG_CONTEXT_VERIFY) != 0};
  int now = tg_stage_index(j->stage), raised = tg_stage_index("raise"), last = until ? tg_stage_index(until) : tg_stage_index("linear");
  if (last < 0) {
    tg_str names = tg_str_new(&j->env);
    for (const tg_pass *p = tg_passes; p->name; p++) tg_str_printf(&names, ", %s", p->name);
    tg_fail(&j->env, TG_EINVAL, "error: no stage is named '%s'; there are author%s, llvm and asm", until, names.data);
  }
  if (now > raised) return tg_lower(j, &l, until, seen, user);
  tg_lower(j, &l, last < raised ? until : "raise", seen, user);
  if (last <= raised) return j->sink;
  if (!(s->options->flags & TG_COMPILE_AS_WRITTEN)) tg_heuristic(j, &l, j->sink);
  return tg_lower(j, &l, until, seen, user);
}

/* ---- compiling ---- */

typedef struct {
  tg_context *c;
  tg_jit *jit;
  const tg_source *source;
  tg_job *j;
  tg_cache_entry entry;
  bool from_cache;
  tg_show_fn *write;
  void *user;
  const char *stage;
} compilation;

static bool wants_cache(const compilation *k) { return k->c->cache && !(k->source->options->flags & TG_COMPILE_NO_CACHE); }

static void check_options(tg_job *j, const tg_source *s) {
  const tg_compile_options *o = s->options;
  if (!s->def && !s->text) tg_fail(&j->env, TG_EINVAL, "no kernel is given");
  if (o->bindings_n && !o->bindings) tg_fail(&j->env, TG_EINVAL, "bindings_n is %u, and there are no bindings", o->bindings_n);
  for (uint32_t i = 0; i < o->bindings_n; i++)
    if (!o->bindings[i].name) tg_fail(&j->env, TG_EINVAL, "a binding without a name");
}

static void compile_job(void *arg) {
  compilation *k = arg;
  tg_job *j = k->j;
  check_options(j, k->source);
  tg_read_source(j, k->source);
  if (wants_cache(k)) {
    k->entry.key = tg_cache_key(j, k->c, k->source);
    k->entry.key_n = strlen(k->entry.key);
    k->from_cache = tg_cache_read(&j->env, k->c->cache, &k->entry) && tg_spec_valid(k->entry.spec, k->entry.spec_n);
    if (k->from_cache) return;
  }
  const tg_spec *spec = tg_spec_build(j);
  const tg_uop *linear = tg_run_passes(j, k->c, k->source, NULL, NULL, NULL);
  tg_object object = tg_jit_compile(k->jit, j, linear, &k->entry.info, NULL, NULL);
  k->entry.spec = spec;
  k->entry.spec_n = spec->bytes;
  k->entry.object = object.data;
  k->entry.object_n = object.bytes;
  if (!wants_cache(k)) return;
  int err = tg_cache_write(&j->env, k->c->cache, &k->entry);
  if (err && k->c->log) k->c->log(k->c->log_user, tg_format(&j->env, "the cache %s cannot be written: %s", k->c->cache, strerror(err)));
}

static tg_kernel *new_kernel(tg_context *c, tg_cpu_kernel *cpu, bool from_cache) {
  const tg_spec *s = tg_cpu_kernel_spec(cpu);
  const tg_code_info *code = tg_cpu_kernel_info(cpu);
  size_t bytes = sizeof(tg_kernel) + s->buffers_n * sizeof(tg_buffer_desc) + s->params_n * sizeof(tg_param_info);
  tg_kernel *k = c->env.allocator.alloc(c->env.allocator.user, bytes);
  if (!k) return NULL;
  tg_buffer_desc *buffers = (tg_buffer_desc *)(k + 1);
  tg_param_info *params = (tg_param_info *)(buffers + s->buffers_n);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_spec_buffer *b = &tg_spec_buffers(s)[i];
    buffers[i] = (tg_buffer_desc){tg_spec_strings(s) + b->name, (tg_type)b->type, b->role != TG_ROLE_OUT, b->role != TG_ROLE_IN};
  }
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_spec_param *p = &tg_spec_params(s)[i];
    params[i] = (tg_param_info){tg_spec_strings(s) + p->name, p->lo, p->hi, p->multiple};
  }
  *k = (tg_kernel){.context = c, .cpu = cpu, .bytes = bytes,
                   .info = {.name = tg_spec_strings(s) + s->name, .buffers = buffers, .params = params, .buffers_n = s->buffers_n, .params_n = s->params_n,
                            .phases = code->phases, .workspace = code->workspace + code->shared, .from_cache = from_cache}};
  return k;
}

static tg_status load(compilation *k, tg_kernel **out) {
  tg_context *c = k->c;
  const tg_allocator *a = &c->env.allocator;
  const tg_spec *spec = k->entry.spec;
  uint32_t flags = (c->flags & TG_CONTEXT_DEBUG ? TG_JIT_DEBUG : 0) | (c->flags & TG_CONTEXT_PERF_MAP ? TG_JIT_PERF_MAP : 0);
  tg_code *code;
  tg_status s = tg_code_load(a, k->entry.object, k->entry.object_n, tg_spec_strings(spec) + spec->name, &k->entry.info, flags, &code, &k->j->env);
  if (s != TG_OK) return s;
  tg_cpu_kernel *cpu = tg_cpu_kernel_new(a, code, &k->entry.info, spec);
  if (!cpu) tg_code_unload(code);
  *out = cpu ? new_kernel(c, cpu, k->from_cache) : NULL;
  if (cpu && !*out) tg_cpu_kernel_free(cpu);
  if (*out) return TG_OK;
  k->j->env.status = TG_ENOMEM;
  snprintf(k->j->env.message, sizeof k->j->env.message, "out of memory");
  return TG_ENOMEM;
}

/* A job is large and lives on the heap of the caller's allocator: compiles may come from threads with small stacks. */
static tg_status with_job(compilation *k, void (*run)(void *), tg_kernel **out) {
  tg_context *c = k->c;
  tg_allocator *a = &c->env.allocator;
  tg_status s = tg_context_jit(c, &k->jit);
  if (s != TG_OK) return s;
  k->j = a->alloc(a->user, sizeof *k->j);
  if (!k->j) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  tg_job_init(k->j, a);
  k->j->env.blocks = &c->blocks;
  s = tg_protect(&k->j->env, run, k) ? out ? load(k, out) : TG_OK : k->j->env.status;
  if (s != TG_OK) tg_context_fail(c, s, k->j->env.message);
  tg_job_drop(k->j);
  a->free(a->user, k->j, sizeof *k->j);
  return s;
}

static tg_status compile(tg_context *c, tg_source s, tg_kernel **out) {
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!s.options) s.options = &no_options;
  compilation k = {.c = c, .source = &s};
  return with_job(&k, compile_job, out);
}

tg_status tg_kernel_compile(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, tg_kernel **out) {
  return compile(c, (tg_source){.def = def, .options = o}, out);
}

tg_status tg_kernel_compile_text(tg_context *c, const char *file, const char *text, const tg_compile_options *o, tg_kernel **out) {
  return compile(c, (tg_source){.file = file, .text = text, .options = o}, out);
}

/* ---- showing ---- */

/* The rules that fired since the last stage, as comments; the trace starts anew. */
static void put_rules(tg_job *j, tg_str *text) {
  uint32_t n;
  const tg_fired *fired = tg_trace_end(j, &n);
  for (uint32_t i = 0; i < n; i++) tg_str_printf(text, "// %s: %s -> %s\n", fired[i].rule, tg_text(j, fired[i].before), tg_text(j, fired[i].after));
  tg_trace_begin(j);
}

static void show_stage(void *user, const char *pass, const tg_uop *sink) {
  compilation *k = user;
  if (k->stage && strcmp(k->stage, pass)) return;
  tg_str text = tg_str_new(&k->j->env);
  tg_print(k->j, &text, sink);
  if (k->source->options->flags & TG_COMPILE_SHOW_RULES) put_rules(k->j, &text);
  k->write(k->user, pass, text.data);
}

static void show_job(void *arg) {
  compilation *k = arg;
  tg_job *j = k->j;
  check_options(j, k->source);
  tg_read_source(j, k->source);
  if (k->source->options->flags & TG_COMPILE_SHOW_RULES) tg_trace_begin(j);
  bool llvm = !k->stage || !strcmp(k->stage, "llvm"), assembly = !k->stage || !strcmp(k->stage, "asm");
  const tg_uop *linear = tg_run_passes(j, k->c, k->source, k->stage && !llvm && !assembly ? k->stage : NULL, show_stage, k);
  if (!llvm && !assembly) return;
  const char *ir = NULL, *text = NULL;
  tg_jit_compile(k->jit, j, linear, &k->entry.info, llvm ? &ir : NULL, assembly ? &text : NULL);
  if (ir) k->write(k->user, "llvm", ir);
  if (text) k->write(k->user, "asm", text);
}

static tg_status show(tg_context *c, tg_source s, const char *stage, tg_show_fn *write, void *user) {
  if (!c || !write) return TG_EINVAL;
  if (!s.options) s.options = &no_options;
  compilation k = {.c = c, .source = &s, .write = write, .user = user, .stage = stage};
  return with_job(&k, show_job, NULL);
}

tg_status tg_show(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, const char *stage, tg_show_fn *write, void *user) {
  return show(c, (tg_source){.def = def, .options = o}, stage, write, user);
}

tg_status tg_show_text(tg_context *c, const char *file, const char *text, const tg_compile_options *o, const char *stage, tg_show_fn *write, void *user) {
  return show(c, (tg_source){.file = file, .text = text, .options = o}, stage, write, user);
}
