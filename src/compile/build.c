/* SPDX-License-Identifier: MIT
 * tg/build.h: a kernel compiled for several targets, as one object with the function around them, and the header of
 * that function. */
#include "compile/ahead.h"

typedef struct {
  tg_ahead ahead;
  tg_kernel *kernel[TG_AHEAD_TARGETS], *there[TG_AHEAD_TARGETS];   /* of processors, of devices */
} build;

static void compile(tg_ahead *a) {
  build *b = (build *)a;
  const tg_kernel_source *s = a->work.source;
  if (s->options->device || s->options->pack)
    tg_fail(&a->work.job->env, TG_EINVAL, "device and pack are for kernels of a context");
  for (uint32_t i = 0; i < a->n + a->devices_n; i++) {
    tg_context *c = i < a->n ? a->context[i] : a->device[i - a->n];
    tg_kernel **k = i < a->n ? &b->kernel[i] : &b->there[i - a->n];
    tg_ahead_check(a, c, s->def ? tg_kernel_compile(c, s->def, s->options, k)
                                : tg_kernel_compile_text(c, s->file, s->text, s->options, k));
  }
}

static void write(tg_ahead *a, tg_wrapper *w, tg_str *header) {
  build *b = (build *)a;
  uint32_t k[TG_AHEAD_TARGETS];
  for (uint32_t i = 0; i < a->n; i++) k[i] = tg_wrapper_add(w, tg_ahead_wrapped(b->kernel[i]));
  w->name = a->called = b->kernel[0]->info.name;
  w->signature = b->kernel[0]->loaded->signature;
  if (!tg_wrapper_name_fits(w->name))
    tg_fail(w->env, TG_EINVAL, "'%s' is no name that a function of C and C++ can have", w->name);
  tg_wrapper_kernel(w, k, header);
  for (uint32_t i = 0; i < a->devices_n; i++) {
    tg_wrapped there = tg_ahead_wrapped(b->there[i]);
    tg_wrapper_data(w, &there, &a->device[i]->target, header);
  }
  tg_wrapper_header_behind(header);
}

static void drop(tg_ahead *a) {
  build *b = (build *)a;
  for (uint32_t i = 0; i < a->n; i++) tg_kernel_free(b->kernel[i]);
  for (uint32_t i = 0; i < a->devices_n; i++) tg_kernel_free(b->there[i]);
}

static tg_status build_source(tg_context *c, tg_kernel_source s, size_t options_bytes, const char *const *targets,
                              uint32_t n, tg_built **out) {
  tg_compile_options copy;
  if (out) *out = NULL;
  if (c && TG_WHOLE(c, tg_compile_options, &copy, &s.options, options_bytes) != TG_OK) return TG_EINVAL;
  if (!s.options) s.options = &tg_no_options;
  build b = {.ahead = {.work = {.context = c, .source = &s},
                       .names = targets,
                       .names_n = n,
                       .takes_devices = true,
                       .compile = compile,
                       .write = write,
                       .drop = drop}};
  return tg_ahead_build(&b.ahead, out);
}

tg_status tg_build_sized(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, size_t options_bytes,
                         const char *const *targets, uint32_t n, tg_built **out) {
  return build_source(c, (tg_kernel_source){.def = def, .options = o}, options_bytes, targets, n, out);
}

tg_status tg_build_text_sized(tg_context *c, const char *file, const char *text, const tg_compile_options *o,
                              size_t options_bytes, const char *const *targets, uint32_t n, tg_built **out) {
  return build_source(c, (tg_kernel_source){.file = file, .text = text, .options = o}, options_bytes, targets, n, out);
}
