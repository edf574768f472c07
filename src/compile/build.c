/* SPDX-License-Identifier: MIT
 * tg/build.h: a kernel compiled for several targets, each by a context of its own, as one object with the function
 * around them (wrapper.c), and the header of that function. */
#include <stdio.h>
#include "compile/compile.h"
#include "compile/wrapper.h"
#include "jit/jit.h"
#include "target/processor.h"
#include "tg/build.h"

/* The result of one target's compile, in one block of the caller's allocator. */
typedef struct {
  size_t bytes;
  char *ir;
  tg_signature *signature;
  tg_code_info info;
  tg_target target;
} part;

enum { MOST_TARGETS = 32 };

typedef struct {
  tg_compilation work; /* of the caller's context: its job holds texts and arrays */
  const char *const *names;
  uint32_t names_n, n;
  part *parts[MOST_TARGETS];
  tg_context *context; /* of the target that is being compiled */
  tg_built *built;
} build;

/* ---- one target ---- */

typedef struct {
  tg_compilation work;
  part *part;
} compiling;

static void keep(compiling *k, const char *ir) {
  tg_job *j = k->work.job;
  tg_allocator *a = &k->work.context->env.allocator;
  const tg_cache_entry *e = &k->work.entry;
  size_t text = (strlen(ir) + 8) & ~(size_t)7, launch = e->info.launch ? e->info.launch_n * sizeof *e->info.launch : 0;
  size_t head = (sizeof(part) + 15) & ~(size_t)15, bytes = head + text + e->signature_n + launch;
  char *block = a->alloc(a->user, bytes);
  if (!block) tg_fail(&j->env, TG_ENOMEM, "out of memory");
  part *p = k->part = (part *)(void *)block;
  *p = (part){.bytes = bytes, .info = e->info, .target = k->work.context->target};
  p->signature = (tg_signature *)(void *)(block + head); /* as aligned as its numbers of 64 bits want */
  memcpy(p->signature, e->signature, e->signature_n);
  if (launch) p->info.launch = memcpy(block + head + e->signature_n, e->info.launch, launch);
  p->ir = strcpy(block + head + e->signature_n + launch, ir);
}

static void compile_part(void *arg) {
  compiling *k = arg;
  const char *ir = NULL;
  tg_compile_module(k->work.job, k->work.context, k->work.source, &k->work.entry, &ir);
  keep(k, ir);
}

static void compile_on_own_stack(void *arg) {
  compiling *k = arg;
  tg_on_own_stack(&k->work.job->env, compile_part, k);
}

static tg_status compile_source(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss) {
  build *b = user;
  compiling k = {.work = {.context = b->context, .source = s, .tuned = tuned, .near_miss = near_miss}};
  tg_status status = tg_compilation_run(&k.work, compile_on_own_stack, &k);
  if (status == TG_OK) b->parts[b->n++] = k.part;
  return status;
}

static const char *unfit(tg_job *j, const tg_target *t, const tg_target *first) {
  if (t->arch > TG_ARCH_AARCH64) return tg_format(&j->env, "%s is no processor that runs programs", t->name);
  if (t->arch == TG_ARCH_X86_64 && t->needs >> TG_X86_AMX_TILE & 1)
    return tg_format(&j->env, "code for %s uses AMX tiles, for which a program must ask its system first", t->name);
  if (first->arch != t->arch)
    return tg_format(&j->env, "%s and %s are of two families of processors: an object is for one", first->name,
                     t->name);
  return NULL;
}

static void one_target(build *b, const char *name) {
  tg_context *c = b->work.context;
  tg_job *j = b->work.job;
  tg_target t;
  if (!tg_target_named(&t, name)) tg_fail(&j->env, TG_EINVAL, "no target is named '%s'", name);
  const char *why = unfit(j, &t, b->n ? &b->parts[0]->target : &t);
  if (why) tg_fail(&j->env, t.arch > TG_ARCH_AARCH64 ? TG_EINVAL : TG_ELIMIT, "%s", why);
  tg_context_options o = {.allocator = c->env.allocator,
                          .target = name,
                          .tuned = c->tuned ? c->tuned : "",
                          .threads = (int)c->target.threads,
                          .flags = c->flags & ~(uint32_t)TG_CONTEXT_DEBUG,
                          .log = c->log,
                          .log_user = c->log_user};
  if (tg_context_create(&o, &b->context) != TG_OK) tg_fail(&j->env, TG_EINVAL, "a context for %s", name);
  tg_status s = tg_with_choice(b->context, b->work.source, NULL, 0, compile_source, b);
  char message[sizeof j->env.message];
  snprintf(message, sizeof message, "%s", tg_error_message(b->context));
  tg_context_free(b->context);
  b->context = NULL;
  if (s != TG_OK) tg_fail(&j->env, s, "%s", message);
}

/* ---- all of them ---- */

static void by_instruction_sets(build *b) {
  for (uint32_t i = 1; i < b->n; i++)
    for (uint32_t k = i;
         k && __builtin_popcountll(b->parts[k - 1]->target.needs) > __builtin_popcountll(b->parts[k]->target.needs);
         k--) {
      part *p = b->parts[k];
      b->parts[k] = b->parts[k - 1];
      b->parts[k - 1] = p;
    }
}

typedef struct {
  tg_built built;
  tg_allocator allocator;
  size_t bytes;
} block;

static void deliver(build *b, const tg_object *object, const char *header, const char *name) {
  tg_allocator *a = &b->work.context->env.allocator;
  size_t bytes = sizeof(block) + object->bytes + strlen(header) + strlen(name) + 2;
  block *k = a->alloc(a->user, bytes);
  if (!k) tg_fail(&b->work.job->env, TG_ENOMEM, "out of memory");
  char *at = (char *)(k + 1), *text = at + object->bytes;
  memcpy(at, object->data, object->bytes);
  strcpy(text, header);
  char *own = strcpy(text + strlen(header) + 1, name);
  *k = (block){{at, object->bytes, text, own}, *a, bytes};
  b->built = &k->built;
}

static void assemble(void *arg) {
  build *b = arg;
  tg_job *j = b->work.job;
  by_instruction_sets(b);
  const tg_signature *s = b->parts[0]->signature;
  const char *name = tg_signature_strings(s) + s->name, **texts = tg_new(&j->env, const char *, b->n);
  if (!tg_wrapper_name_fits(name))
    tg_fail(&j->env, TG_EINVAL, "'%s' is no name that a function of C and C++ can have", name);
  tg_wrapped *of = tg_new(&j->env, tg_wrapped, b->n);
  for (uint32_t i = 0; i < b->n; i++) {
    texts[i] = b->parts[i]->ir;
    of[i] = (tg_wrapped){&b->parts[i]->target, b->parts[i]->ir, b->parts[i]->info};
  }
  tg_wrapper w = {.env = &j->env, .name = name, .signature = s, .of = of, .n = b->n, .out = tg_str_new(&j->env)};
  tg_wrapper_write(&w);
  tg_object object = tg_jit_assemble(j, &b->parts[0]->target, texts, b->n, w.out.data, name);
  deliver(b, &object, tg_wrapper_header(&w), name);
}

static void build_all(void *arg) {
  build *b = arg;
  tg_job *j = b->work.job;
  if (!b->names_n || b->names_n > MOST_TARGETS)
    tg_fail(&j->env, TG_EINVAL, "%u targets are given; an object takes 1 to %d", b->names_n, MOST_TARGETS);
  if (b->work.source->options->device || b->work.source->options->pack)
    tg_fail(&j->env, TG_EINVAL, "device and pack are for kernels of a context");
  for (uint32_t i = 0; i < b->names_n; i++) {
    if (!b->names[i]) tg_fail(&j->env, TG_EINVAL, "target %u is NULL", i);
    one_target(b, b->names[i]);
  }
  tg_on_own_stack(&j->env, assemble, b);
}

static tg_status build_source(tg_context *c, tg_kernel_source s, const char *const *targets, uint32_t n,
                              tg_built **out) {
  if (out) *out = NULL;
  if (!c) return TG_EINVAL;
  if (!out || (n && !targets)) return tg_context_fail(c, TG_EINVAL, "targets and out must not be NULL");
  if (!s.options) s.options = &tg_no_options;
  build b = {.work = {.context = c, .source = &s}, .names = targets, .names_n = n};
  tg_status status = tg_compilation_run(&b.work, build_all, &b);
  tg_allocator *a = &c->env.allocator;
  for (uint32_t i = 0; i < b.n; i++) a->free(a->user, b.parts[i], b.parts[i]->bytes);
  *out = b.built;
  return status;
}

tg_status tg_build(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, const char *const *targets,
                   uint32_t n, tg_built **out) {
  return build_source(c, (tg_kernel_source){.def = def, .options = o}, targets, n, out);
}

tg_status tg_build_text(tg_context *c, const char *file, const char *text, const tg_compile_options *o,
                        const char *const *targets, uint32_t n, tg_built **out) {
  return build_source(c, (tg_kernel_source){.file = file, .text = text, .options = o}, targets, n, out);
}

void tg_built_free(tg_built *built) {
  if (!built) return;
  block *k = (block *)built;
  tg_allocator a = k->allocator;
  a.free(a.user, k, k->bytes);
}
