/* SPDX-License-Identifier: MIT
 * Contexts that keep modules of LLVM in place of loaded code, and objects made of them.
 *
 * Such a context has the compiler's functions, of which the one that compiles gives the text of the module, and the
 * CPU's device, of which the one that loads keeps that text. Whatever makes kernels by a context, plans of operations
 * among them, makes them so without knowing. */
#include <stdio.h>
#include "compile/ahead.h"
#include "compile/price.h"
#include "generator/generator.h"
#include "target/processor.h"

/* ---- kernels that are kept as modules ---- */

typedef struct {
  tg_device_kernel head;
  tg_allocator allocator;
  size_t bytes;                /* of this block */
  const char *ir;              /* the module's text; of a device: the object, of ir_n bytes */
  size_t ir_n;
  /* followed by the signature, the steps of a launch, the text */
} module_kernel;

static void *keep(char **at, const void *from, size_t bytes) {
  void *to = *at;
  if (bytes) memcpy(to, from, bytes);
  *at += (bytes + 15) & ~(size_t)15;
  return to;
}

static tg_status load(tg_device *d, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  const tg_allocator *a = &d->allocator;
  size_t launch = o->info->launch ? o->info->launch_n * sizeof *o->info->launch : 0,
         bytes = sizeof(module_kernel) + o->signature->bytes + launch + o->bytes + 64;
  module_kernel *k = a->alloc(a->user, bytes);
  if (!k) return snprintf(err->message, sizeof err->message, "out of memory"), err->status = TG_ENOMEM;
  char *at = (char *)k;
  *k = (module_kernel){.head = {.driver = d->driver, .device = d, .info = *o->info}, .allocator = *a, .bytes = bytes};
  at += (sizeof *k + 15) & ~(size_t)15;
  k->head.signature = keep(&at, o->signature, o->signature->bytes);
  if (launch) k->head.info.launch = keep(&at, o->info->launch, launch);
  k->ir = keep(&at, o->data, o->bytes), k->ir_n = o->bytes;
  *out = &k->head;
  return TG_OK;
}

static void unload(tg_device_kernel *head) {
  module_kernel *k = (module_kernel *)head;
  tg_allocator a = k->allocator;
  a.free(a.user, k, k->bytes);
}

static void compile(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price) {
  const char *ir = NULL;
  if (s->options->pack) tg_fail(&j->env, TG_EINVAL, "pack is for kernels of a context that runs them");
  bool host = c->target.arch <= TG_ARCH_AARCH64;
  tg_compile_program(j, c, s, entry, price, host ? &ir : NULL);
  if (!host) return;            /* the driver takes the object as it is */
  entry->object = ir;
  entry->object_n = strlen(ir) + 1;
}

static tg_code *link_nothing(tg_job *j, tg_context *c, const tg_cache_entry *entry, const char *name) {
  return (void)j, (void)c, (void)entry, (void)name, NULL;
}

static tg_status open_context(tg_context_options *o, tg_context **out, tg_driver *driver) {
  static const tg_compiler compiler = {compile, link_nothing, tg_compiler_price, NULL, tg_compiler_close};
  tg_status s = tg_context_open(o, sizeof *o, &compiler, out);
  if (s != TG_OK) return s;
  *driver = *(*out)->devices->driver;
  driver->load = load, driver->unload = unload;
  (*out)->devices->driver = driver;
  (*out)->ahead = true;
  return TG_OK;
}

tg_wrapped tg_ahead_wrapped(const tg_kernel *k) {
  const tg_device_kernel *d = k->loaded;
  return (tg_wrapped){.name = k->info.name,
                      .signature = d->signature,
                      .ir = ((const module_kernel *)d)->ir,
                      .ir_n = ((const module_kernel *)d)->ir_n,
                      .info = &d->info};
}

/* ---- the targets ---- */

typedef struct {
  tg_ahead *b;
  tg_driver driver[TG_AHEAD_TARGETS];
} building;

static const char *unfit(tg_job *j, const tg_target *t, const tg_target *first) {
  if (t->arch > TG_ARCH_AARCH64) return tg_format(&j->env, "%s is no processor that runs programs", t->name);
  if (t->arch == TG_ARCH_X86_64 && t->needs >> TG_X86_AMX_TILE & 1)
    return tg_format(&j->env, "code for %s uses AMX tiles, for which a program must ask its system first", t->name);
  if (first->arch != t->arch)
    return tg_format(&j->env, "%s and %s are of two families of processors: an object is for one", first->name,
                     t->name);
  return NULL;
}

static void open_target(building *k, const char *name) {
  tg_ahead *b = k->b;
  tg_context *c = b->work.context, *own;
  tg_job *j = b->work.job;
  tg_target t;
  if (!tg_target_named(&t, name)) tg_fail(&j->env, TG_EINVAL, "no target is named '%s'", name);
  bool device = t.arch > TG_ARCH_AARCH64 && b->takes_devices;
  const char *why = device ? NULL : unfit(j, &t, b->n ? b->target[0] : &t);
  if (why) tg_fail(&j->env, t.arch > TG_ARCH_AARCH64 ? TG_EINVAL : TG_ELIMIT, "%s", why);
  tg_context_options o = {.allocator = c->env.allocator,
                          .target = name,
                          .tuned = c->tuned ? c->tuned : "",
                          .threads = (int)c->target.threads,
                          .flags = c->flags & ~(uint32_t)TG_CONTEXT_DEBUG,
                          .log = c->log,
                          .log_user = c->log_user};
  if (open_context(&o, &own, &k->driver[b->n + b->devices_n]) != TG_OK)
    tg_fail(&j->env, TG_EINVAL, "a context for %s", name);
  if (device) {
    b->device[b->devices_n++] = own;
    return;
  }
  uint32_t at = b->n++, sets = (uint32_t)__builtin_popcountll(own->target.needs);
  for (; at && (uint32_t)__builtin_popcountll(b->target[at - 1]->needs) > sets; at--)
    b->context[at] = b->context[at - 1], b->target[at] = b->target[at - 1];
  b->context[at] = own, b->target[at] = &own->target;
}

void tg_ahead_check(tg_ahead *b, const tg_context *c, tg_status s) {
  if (s == TG_OK) return;
  tg_env *e = &b->work.job->env;
  tg_fail(e, s, "%s", tg_format(e, "%s", tg_error_message((tg_context *)(uintptr_t)c)));
}

/* ---- the object ---- */

typedef struct {
  tg_built built;
  tg_allocator allocator;
  size_t bytes;
} block;

static void deliver(tg_ahead *b, const tg_object *object, const char *header) {
  tg_allocator *a = &b->work.context->env.allocator;
  size_t bytes = sizeof(block) + object->bytes + strlen(header) + strlen(b->called) + 2;
  block *k = a->alloc(a->user, bytes);
  if (!k) tg_fail(&b->work.job->env, TG_ENOMEM, "out of memory");
  char *at = (char *)(k + 1), *text = at + object->bytes;
  memcpy(at, object->data, object->bytes);
  strcpy(text, header);
  char *own = strcpy(text + strlen(header) + 1, b->called);
  *k = (block){.built = {.object = at, .object_bytes = object->bytes, .header = text, .name = own},
               .allocator = *a,
               .bytes = bytes};
  b->built = &k->built;
}

static void assemble(void *arg) {
  tg_ahead *b = arg;
  tg_job *j = b->work.job;
  tg_wrapper w = {.env = &j->env, .target = b->target, .targets_n = b->n, .out = tg_str_new(&j->env)};
  tg_str header = tg_str_new(&j->env);
  tg_wrapper_begin(&w);
  b->write(b, &w, &header);
  tg_wrapper_end(&w);
  const char **texts = tg_new(&j->env, const char *, w.of.n + 1);
  for (uint32_t i = 0; i < w.of.n; i++) texts[i] = w.of.data[i].ir;
  tg_object object = tg_jit_assemble(j, b->target[0], texts, w.of.n, w.out.data, b->called);
  deliver(b, &object, header.data);
}

static void build_all(void *arg) {
  building *k = arg;
  tg_ahead *b = k->b;
  tg_job *j = b->work.job;
  if (!b->names_n || b->names_n > TG_AHEAD_TARGETS)
    tg_fail(&j->env, TG_EINVAL, "%u targets are given; an object takes 1 to %d", b->names_n, TG_AHEAD_TARGETS);
  for (uint32_t i = 0; i < b->names_n; i++) {
    if (!b->names[i]) tg_fail(&j->env, TG_EINVAL, "target %u is NULL", i);
    open_target(k, b->names[i]);
  }
  if (!b->n)
    tg_fail(&j->env, TG_EINVAL, "%s is no processor that runs programs: name one beside it, for whose programs the "
            "object is", b->names[0]);
  b->compile(b);
  tg_job_go_on(j);
  tg_on_own_stack(&j->env, assemble, b);
}

tg_status tg_ahead_build(tg_ahead *b, tg_built **out) {
  tg_context *c = b->work.context;
  if (out) *out = NULL;
  if (!c) return TG_EINVAL;
  if (!out || (b->names_n && !b->names)) return tg_context_fail(c, TG_EINVAL, "targets and out must not be NULL");
  tg_kernel_source none = {.options = &tg_no_options};
  if (!b->work.source) b->work.source = &none;
  building k = {.b = b};
  tg_status status = tg_compilation_run(&b->work, build_all, &k);
  b->drop(b);
  for (uint32_t i = 0; i < b->n; i++) tg_context_free(b->context[i]);
  for (uint32_t i = 0; i < b->devices_n; i++) tg_context_free(b->device[i]);
  *out = b->built;
  return status;
}

void tg_built_free(tg_built *built) {
  if (!built) return;
  block *k = (block *)built;
  tg_allocator a = k->allocator;
  a.free(a.user, k, k->bytes);
}
