/* SPDX-License-Identifier: MIT
 * From a kernel's text to code that can be called: reads the text, looks in the cache, compiles on a miss, and loads
 * the object. Each compile has a job of its own, which is freed at its end. */
#include <stdio.h>
#include "api/api.h"
#include "dsl/text.h"
#include "store/store.h"

const tg_compile_options tg_no_options;

/* ---- reading ---- */

void tg_kernel_source_check(tg_job *j, const tg_kernel_source *s) {
  const tg_compile_options *o = s->options;
  if (!s->def && !s->text) tg_fail(&j->env, TG_EINVAL, "no kernel is given");
  if (s->def && (!s->def->name || !s->def->body)) tg_fail(&j->env, TG_EINVAL, "a kernel without a name or a body");
  if (o->bindings_n && !o->bindings)
    tg_fail(&j->env, TG_EINVAL, "bindings_n is %u, and there are no bindings", o->bindings_n);
  for (uint32_t i = 0; i < o->bindings_n; i++)
    if (!o->bindings[i].name) tg_fail(&j->env, TG_EINVAL, "a binding without a name");
}

/* Reads the schedule words passed in the options, separated by ';' or newlines. */
static void append_opts(tg_job *j, const char *opts) {
  while (*opts) {
    size_t n = strcspn(opts, ";\n"), skip = strspn(opts, " \t\r");
    size_t end = n;
    while (end > skip && strchr(" \t\r", opts[end - 1])) end--;
    if (end > skip) {
      const char *text = tg_strndup(&j->env, opts + skip, end - skip);
      tg_push(
          &j->env, &j->opts,
          ((tg_opt_text){text, {.file = "opts", .text = text, .line = 1, .column = 1, .length = (int)(end - skip)}}));
    }
    opts += opts[n] ? n + 1 : n;
  }
}

void tg_kernel_source_read(tg_job *j, const tg_kernel_source *s) {
  const tg_compile_options *o = s->options;
  if (s->def) tg_author(j, s->def, o->bindings_n, o->bindings, o->user);
  else {
    j->name = o->kernel;
    tg_parse_kernel(j, s->file ? s->file : "text", s->text, o->bindings_n, o->bindings);
  }
  if (o->flags & TG_COMPILE_OPTS_ONLY) j->opts.n = 0;
  if (o->opts) append_opts(j, o->opts);
}

/* The key names the compiler and the machine, then the program in the job. */
static const char *key_of(tg_job *j, const tg_target *t, uint32_t threads, const char *more) {
  tg_str k = tg_str_new(&j->env);
  tg_str_printf(&k, "tg %d.%d.%d\nbuild %s\nllvm %s\ntarget %s\nsilicon %s\nthreads %u\ncaches %llu %llu %llu\n"
                "machine %016llx\n%s\n",
                TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH, tg_build_hash, tg_llvm_version(), t->name,
                t->silicon, threads, (unsigned long long)t->l1, (unsigned long long)t->l2, (unsigned long long)t->l3,
                (unsigned long long)tg_machine_hash(&t->machine), more);
  tg_str_printf(&k, "stage %s\n", j->stage);
  for (uint32_t i = 0; i < j->params.n; i++)
    tg_str_printf(&k, "param %s %lld..%lld by %lld\n", j->params.data[i].name, (long long)j->params.data[i].lo,
                  (long long)j->params.data[i].hi, (long long)j->params.data[i].multiple);
  for (uint32_t i = 0; i < j->constants.n; i++)
    tg_str_printf(&k, "const %s %lld\n", j->constants.data[i].name, (long long)j->constants.data[i].value);
  for (uint32_t i = 0; i < j->requires.n; i++) tg_str_printf(&k, "require %s\n", tg_text(j, j->requires.data[i]));
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&k, "opt %s\n", j->opts.data[i].text);
  tg_print(j, &k, j->sink);
  return k.data;
}

const char *tg_cache_key(tg_job *j, tg_context *c, const tg_kernel_source *s) {
  const char *pack = s->options->pack;
  uint32_t flags = s->options->flags & (TG_COMPILE_AS_WRITTEN | TG_COMPILE_ONE | TG_COMPILE_FORMED);
  const tg_target *t = tg_target_asked(c, s->options);
  return key_of(j, t, t->threads,
                tg_format(&j->env, "flags %u %u%s%s", c->flags & TG_CONTEXT_DEBUG, flags, pack ? "\npack " : "",
                          pack ? pack : ""));
}

const char *tg_tuned_key(tg_job *j, tg_context *c, const tg_compile_options *o, uint32_t threads) {
  const tg_target *t = tg_target_asked(c, o);
  tg_str k = tg_str_new(&j->env);
  tg_str_printf(&k, "space %d", TG_STORE_SPACE);
  for (uint32_t i = 0; i < j->knobs.n; i++) {
    const tg_knob *b = &j->knobs.data[i];
    tg_str_printf(&k, "\nknob %s", b->name);
    for (uint32_t v = 0; v < b->n; v++) tg_str_printf(&k, " %lld", (long long)b->values[v]);
  }
  return key_of(j, t, t == &c->target ? threads : t->threads, k.data);
}

/* ---- loading ---- */

tg_kernel *tg_kernel_new(tg_context *c, tg_device_kernel *loaded, bool from_cache, bool tuned) {
  const tg_signature *s = loaded->signature;
  const tg_code_info *code = &loaded->info;
  size_t bytes = sizeof(tg_kernel) + s->buffers_n * sizeof(tg_buffer_desc) + s->params_n * sizeof(tg_param_info);
  tg_kernel *k = c->env.allocator.alloc(c->env.allocator.user, bytes);
  if (!k) return NULL;
  tg_buffer_desc *buffers = (tg_buffer_desc *)(k + 1);
  tg_param_info *params = (tg_param_info *)(buffers + s->buffers_n);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_signature_buffer *b = &tg_signature_buffers(s)[i];
    buffers[i] =
        (tg_buffer_desc){tg_signature_strings(s) + b->name, b->type, b->role != TG_ROLE_OUT, b->role != TG_ROLE_IN};
  }
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_signature_param *p = &tg_signature_params(s)[i];
    params[i] = (tg_param_info){tg_signature_strings(s) + p->name, p->lo, p->hi, p->multiple};
  }
  *k = (tg_kernel){.context = c,
                   .loaded = loaded,
                   .bytes = bytes,
                   .info = {.name = tg_signature_strings(s) + s->name,
                            .buffers = buffers,
                            .params = params,
                            .buffers_n = s->buffers_n,
                            .params_n = s->params_n,
                            .phases = code->phases,
                            .workspace = code->workspace + code->shared,
                            .from_cache = from_cache,
                            .tuned = tuned}};
  return k;
}

bool tg_kernel_keep_text(tg_kernel *k, const char *text, const char *words, uint32_t flags) {
  const tg_allocator *a = &k->context->env.allocator;
  size_t n = strlen(text) + 1, more = words ? strlen(words) + 1 : 0;
  char *copy = a->alloc(a->user, n + more);
  if (!copy) return false;
  memcpy(copy, text, n);
  k->text = copy, k->text_bytes = n + more, k->text_flags = flags;
  k->words = words ? memcpy(copy + n, words, more) : NULL;
  return true;
}

void tg_kernel_drop_text(tg_kernel *k) {
  const tg_allocator *a = &k->context->env.allocator;
  if (k->text) a->free(a->user, k->text, k->text_bytes);
  k->text = NULL, k->words = NULL;
}

/* What programs may fuse: kernels of the CPU without words of the caller's or the author's. */
static const char *text_to_keep(tg_job *j, const tg_compilation *w) {
  const tg_compile_options *o = w->source->options;
  bool chosen = o->opts || o->pack || j->opts.n || w->tuned ||
                o->flags & (TG_COMPILE_AS_WRITTEN | TG_COMPILE_OPTS_ONLY);
  if (chosen || (o->device && o->device != w->context->devices) || w->context->ahead || strcmp(j->stage, "author"))
    return NULL;
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, j->sink);
  return text.data;
}

static tg_status load(tg_compilation *k, tg_kernel **out) {
  tg_context *c = k->context;
  tg_device *d = k->source->options->device ? k->source->options->device : c->devices;
  tg_device_object o = {k->entry.object,    k->entry.object_n, &k->entry.info,
                        k->entry.signature, k->code,           tg_jit_flags(c)};
  tg_device_kernel *loaded;
  tg_status s = d->driver->load(d, &o, &loaded, &k->job->env);
  if (s != TG_OK) return s;
  k->code = NULL;              /* now owned by the loaded kernel */
  *out = tg_kernel_new(c, loaded, k->from_cache, k->tuned);
  uint32_t flags = k->source->options->flags & TG_COMPILE_ONE;
  if (*out && (!k->text || tg_kernel_keep_text(*out, k->text, NULL, flags))) return TG_OK;
  if (*out) tg_kernel_free(*out), *out = NULL;
  else tg_device_unload(loaded);
  k->job->env.status = TG_ENOMEM;
  snprintf(k->job->env.message, sizeof k->job->env.message, "out of memory");
  return TG_ENOMEM;
}

/* The caller's thread may have a small stack. So the job, which is large, is on the heap, and texts, which may nest
 * deeply, are read and compiled on a stack that tg allocates. For kernels in C, the body runs on the caller's stack, as
 * it is the caller's own code; all after it runs on tg's. */
static bool is_text(const tg_compilation *w) { return w->source && !w->source->def && w->source->text; }

typedef struct { tg_compilation *work; void (*run)(void *); void *arg; } deep;

static void run_on_own_stack(void *user) {
  deep *d = user;
  tg_on_own_stack(&d->work->job->env, d->run, d->arg);
}

static bool protect(tg_compilation *w, void (*run)(void *), void *arg) {
  deep d = {w, run, arg};
  return is_text(w) ? tg_protect(&w->job->env, run_on_own_stack, &d) : tg_protect(&w->job->env, run, arg);
}

/* The words of the job's schedule; NULL: a kernel of the cache, and the heuristic's words are not kept there. */
static const char *words_of(tg_job *j, const tg_compilation *w) {
  tg_str words = tg_str_new(&j->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  return words.n || !w->from_cache || w->source->options->flags & TG_COMPILE_AS_WRITTEN ? words.data : NULL;
}

typedef struct { tg_compilation *w; tg_compile_report report; } telling;

static void gather_report(void *arg) {
  telling *t = arg;
  t->report.words = words_of(t->w->job, t->w);
}

/* Calls the hook of compiles. Choices that a kernel is compiled with are looked up by jobs of their own: these are no
 * compiles. */
static void tell(tg_compilation *w, tg_status s) {
  tg_context *c = w->context;
  if (!c->compiled || !w->start) return;
  telling t = {w, {.kernel = w->job->name ? w->job->name : w->source->def ? w->source->def->name : "",
                   .status = s,
                   .message = s == TG_OK ? NULL : w->job->env.message,
                   .from_cache = s == TG_OK && w->from_cache,
                   .tuned = w->tuned,
                   .price = w->price,
                   .near_miss = w->near_miss,
                   .seconds = tg_now() - w->start}};
  if (s == TG_OK) tg_protect(&w->job->env, gather_report, &t);
  c->compiled(c->log_user, &t.report);
}

static tg_status with_job(tg_compilation *w, void (*run)(void *), void *arg, tg_kernel **out) {
  tg_context *c = w->context;
  tg_allocator *a = &c->env.allocator;
  w->job = a->alloc(a->user, sizeof *w->job);
  if (!w->job) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  tg_job_init(w->job, a);
  w->job->env.blocks = &c->blocks;
  w->job->cancel = w->source ? w->source->options->cancel : NULL;
  tg_status s = protect(w, run, arg) ? out ? load(w, out) : TG_OK : w->job->env.status;
  if (s != TG_OK) tg_context_fail(c, s, w->job->env.message);
  tell(w, s);
  tg_code_unload(w->code);     /* not NULL only if loading failed after linking */
  tg_job_drop(w->job);
  a->free(a->user, w->job, sizeof *w->job);
  return s;
}

tg_status tg_compilation_run(tg_compilation *w, void (*run)(void *), void *arg) { return with_job(w, run, arg, NULL); }

/* ---- prices ---- */

typedef struct { tg_compilation work; const tg_launches *launches; double *seconds; } pricing;

static void lower_and_price(void *arg) {
  pricing *p = arg;
  tg_context *c = p->work.context;
  c->compiler->price(p->work.job, c, p->work.source, p->launches, p->seconds);
}

static void price(void *arg) {
  pricing *p = arg;
  tg_kernel_source_check(p->work.job, p->work.source);
  tg_kernel_source_read(p->work.job, p->work.source);
  tg_on_own_stack(&p->work.job->env, lower_and_price, p);
}

bool tg_kernel_price(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, const tg_launches *launches,
                     double *seconds) {
  tg_kernel_source s = {.def = def, .options = o};
  pricing p = {.work = {.context = c, .source = &s}, .launches = launches, .seconds = seconds};
  return c->compiler && tg_compilation_run(&p.work, price, &p) == TG_OK;
}

/* ---- kernels ---- */

static void compile_entry(void *arg) {
  tg_compilation *w = arg;
  const tg_compiler *compiler = w->context->compiler;
  compiler->compile(w->job, w->context, w->source, &w->entry, w->context->compiled ? &w->price : NULL);
  /* other devices load the object by their own driver */
  if (w->source->options->device && w->source->options->device != w->context->devices) return;
  const tg_signature *s = w->entry.signature;
  w->code = compiler->link(w->job, w->context, &w->entry, tg_signature_strings(s) + s->name);
}

static void find_or_compile(void *arg) {
  tg_compilation *w = arg;
  tg_job *j = w->job;
  tg_context *c = w->context;
  uint32_t flags = w->source->options->flags;
  bool cache = tg_context_keeps(c) && !(flags & TG_COMPILE_NO_CACHE);
  const tg_target *t = tg_target_asked(c, w->source->options);
  if (!c->ahead && !tg_target_runs_here(t))
    tg_fail(&j->env, TG_EINVAL, "kernels for %s do not run here: %s; tg_show has their code", t->name, t->lacks);
  tg_kernel_source_check(j, w->source);
  tg_kernel_source_read(j, w->source);
  w->text = text_to_keep(j, w);
  if (cache) {
    w->entry.key = tg_cache_key(j, c, w->source);
    w->entry.key_n = strlen(w->entry.key);
    w->from_cache =
        tg_cache_read(&j->env, &c->pack, c->cache, &w->entry) &&
        tg_signature_valid(w->entry.signature, w->entry.signature_n);
    if (w->from_cache) tg_division_take(w, false);
    if (w->from_cache) return;
  }
  if (flags & TG_COMPILE_CACHED_ONLY)
    tg_fail(&j->env, TG_MISS, "%s is not in the cache%s", j->name, cache ? "" : ": there is none");
  if (!c->compiler)
    tg_fail(&j->env, TG_MISS,
            "%s is not in the cache%s, and this program has no compiler: that is tg_context_create of libtg_jit",
            j->name, cache ? "" : " (there is none)");
  const tg_signature *signature = tg_signature_build(j);
  w->entry.signature = signature;
  w->entry.signature_n = signature->bytes;
  tg_division_ask(w);
  if (is_text(w)) compile_entry(w);
  else tg_on_own_stack(&j->env, compile_entry, w);
  tg_division_take(w, true);
  int err = cache && c->cache ? tg_cache_write(&j->env, c->cache, &w->entry) : 0;
  if (err && c->log)
    c->log(c->log_user, tg_format(&j->env, "the cache %s cannot be written: %s", c->cache, strerror(err)));
}

/* ---- tuned choices ---- */

typedef struct {
  tg_compilation work;
  tg_env *env;
  const tg_kernel_def *const *defs;
  uint32_t n;
  tg_tuned found;
  bool hit;
  char near_miss[512];
} looking;

static void look_up(void *arg) {
  looking *l = arg;
  tg_job *j = l->work.job;
  tg_kernel_source_check(j, l->work.source);
  tg_kernel_source_read(j, l->work.source);
  tg_context *c = l->work.context;
  const char *key = tg_tuned_key(j, c, l->work.source->options, c->target.threads);
  l->hit = tg_store_read(l->env, &c->pack, c->tuned, key, &l->found);
  if (l->hit || !(c->log || c->compiled) || !tg_near_miss(j, c, key, l->near_miss, sizeof l->near_miss)) return;
  if (c->log) c->log(c->log_user, tg_format(&j->env, "%s: %s", j->name ? j->name : "kernel", l->near_miss));
}

typedef struct {
  looking l;
  const tg_kernel_source *s;
  tg_env env;
  tg_source_fn *then;
  void *user;
  tg_status status;
} choosing;

/* The sketch that the tuned choice names, with its knobs and words. */
static void with_choice(void *arg) {
  choosing *k = arg;
  tg_compile_options o = *k->s->options;
  tg_kernel_source s = *k->s;
  const tg_tuned *t = &k->l.found;
  tg_binding *b = tg_new(&k->env, tg_binding, o.bindings_n + t->knobs_n + 1);
  if (o.bindings_n) memcpy(b, o.bindings, o.bindings_n * sizeof *b);
  for (uint32_t i = 0; i < t->knobs_n; i++) b[o.bindings_n++] = t->knobs[i];
  o.bindings = b;
  o.opts = t->words;
  o.flags = (o.flags & ~(uint32_t)(TG_COMPILE_TUNED | TG_COMPILE_TUNED_ONLY)) | TG_COMPILE_UNTUNED |
            (t->words ? TG_COMPILE_OPTS_ONLY : 0);
  if (k->l.n || t->text) s.def = NULL;
  for (uint32_t i = 0; i < k->l.n && !t->text; i++)
    if (!strcmp(k->l.defs[i]->name, t->kernel)) s.def = k->l.defs[i];
  if (t->text) s.text = t->text, s.file = "tuned choice", o.kernel = NULL;
  if (k->l.n && !s.def && !s.text) {   /* the choice names none of these sketches: its words may not fit them */
    k->status = TG_EINVAL;
    return;
  }
  s.options = &o;
  k->status = k->then(k->user, &s, true, NULL);
}

/* A context with a folder of tuned choices uses them, except for kernels whose options say their schedule. */
static bool may_be_tuned(const tg_context *c, const tg_compile_options *o) {
  uint32_t flags = o->flags;
  bool wanted = (flags & (TG_COMPILE_TUNED | TG_COMPILE_TUNED_ONLY)) ||
                (!(flags & (TG_COMPILE_UNTUNED | TG_COMPILE_AS_WRITTEN | TG_COMPILE_OPTS_ONLY)) && !o->pack);
  return wanted && tg_context_has_choices(c) && !o->opts;
}

tg_status tg_with_choice(tg_context *c, const tg_kernel_source *s, const tg_kernel_def *const *defs, uint32_t n,
                         tg_source_fn *then, void *user) {
  choosing k = {.s = s,
                .then = then,
                .user = user,
                .l = {.work = {.context = c, .source = s}, .env = &k.env, .defs = defs, .n = n}};
  tg_status status = TG_MISS;
  bool done = false;
  tg_env_init(&k.env, &c->env.allocator);
  if (may_be_tuned(c, s->options) && with_job(&k.l.work, look_up, &k.l, NULL) == TG_OK && k.l.hit) {
    done = tg_protect(&k.env, with_choice, &k) &&
           (k.status == TG_OK || k.status == TG_MISS || k.status == TG_ENOMEM || k.status == TG_CANCELLED);
    if (done) status = k.status;
    else snprintf(k.l.near_miss, sizeof k.l.near_miss, "the tuned choice in %s is not used: %s",
                  c->tuned ? c->tuned : "the pack", tg_error_message(c));
  }
  tg_env_drop(&k.env);
  if (done) return status;
  return then(user, s, false, k.l.near_miss[0] ? k.l.near_miss : NULL);
}

typedef struct { tg_context *c; tg_kernel **out; double start; } compiling;

static tg_status compile_version(void *user, const tg_kernel_source *s, tg_kernel **out) {
  tg_compilation w = {.context = user, .source = s, .start = tg_now()};
  return with_job(&w, find_or_compile, &w, out);
}

static tg_status compile_source(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss) {
  compiling *k = user;
  tg_compilation w = {.context = k->c, .source = s, .tuned = tuned, .near_miss = near_miss, .start = k->start};
  if (!tuned && s->options->flags & TG_COMPILE_TUNED_ONLY)
    return tg_context_fail(k->c, TG_MISS, "there is no tuned choice for this kernel");
  tg_status status = with_job(&w, find_or_compile, &w, k->out);
  if (status == TG_OK && w.division) tg_kernel_divide(*k->out, s, w.division, compile_version, k->c);
  if (status == TG_OK && w.division && tg_flag_is_set(s->options->cancel)) {   /* it may lack versions */
    tg_kernel_free(*k->out), *k->out = NULL;
    status = tg_context_fail(k->c, TG_CANCELLED, "cancelled");
  }
  if (w.division) k->c->env.allocator.free(k->c->env.allocator.user, w.division, TG_DIVISION_TEXT);
  return status;
}

static tg_status compile_any(tg_context *c, tg_kernel_source s, const tg_kernel_def *const *defs, uint32_t n,
                             tg_kernel **out) {
  if (!c) return TG_EINVAL;
  if (!out) return tg_context_fail(c, TG_EINVAL, "no place is given for the kernel");
  *out = NULL;
  if (!s.options) s.options = &tg_no_options;
  if (s.options->device && s.options->device->context != c)
    return tg_context_fail(c, TG_EINVAL, "the device is another context's");
  compiling k = {c, out, tg_now()};
  return tg_with_choice(c, &s, defs, n, compile_source, &k);
}

static tg_status compile(tg_context *c, tg_kernel_source s, size_t options_bytes, tg_kernel **out) {
  tg_compile_options copy;
  if (c && TG_WHOLE(c, tg_compile_options, &copy, &s.options, options_bytes) != TG_OK) return TG_EINVAL;
  return compile_any(c, s, NULL, 0, out);
}

tg_status tg_kernel_compile_sized(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, size_t bytes,
                                  tg_kernel **out) {
  return compile(c, (tg_kernel_source){.def = def, .options = o}, bytes, out);
}

tg_status tg_kernel_compile_tuned_sized(tg_context *c, const tg_kernel_def *const *defs, uint32_t n,
                                        const tg_compile_options *o, size_t bytes, tg_kernel **out) {
  tg_compile_options tuned;
  if (!c) return TG_EINVAL;
  if (TG_READ(c, tg_compile_options, &tuned, o, bytes) != TG_OK) return TG_EINVAL;
  bool given = defs && n;
  for (uint32_t i = 0; given && i < n; i++) given = defs[i] && defs[i]->name && defs[i]->body;
  if (!given) return tg_context_fail(c, TG_EINVAL, "no kernel is given, or one of them is NULL");
  tuned.flags |= TG_COMPILE_TUNED;
  return compile_any(c, (tg_kernel_source){.def = defs[0], .options = &tuned}, defs, n, out);
}

tg_status tg_kernel_compile_text_sized(tg_context *c, const char *file, const char *text, const tg_compile_options *o,
                                       size_t bytes, tg_kernel **out) {
  return compile(c, (tg_kernel_source){.file = file, .text = text, .options = o}, bytes, out);
}
