/* SPDX-License-Identifier: MIT
 * What the functions of all plans have in common. */
#include <stdio.h>
#include "ahead/function.h"
#include "dsl/text.h"

enum { ALIGN = 64 };

uint32_t tg_function_add(tg_function *f, const tg_kit_kernel *k) {
  tg_wrapped of = tg_ahead_wrapped(k->kernel);
  of.given = true;
  tg_wrapper_bytes bytes = tg_wrapper_memory(&of);
  if (bytes.shared > f->shared) f->shared = bytes.shared;
  if (bytes.each > f->each) f->each = bytes.each;
  uint32_t n = tg_wrapper_add(f->w, of);
  tg_push(f->w->env, &f->calls, ((tg_function_call){n, k}));
  return n;
}

/* ---- memory ---- */

static const char *needed_name(const tg_wrapper *w) { return tg_format(w->env, "%s.needed", w->name); }

tg_ir tg_function_workspace(tg_wrapper *w, tg_ir needed) {
  tg_ir enough = tg_ir_put(w, "icmp uge i64 %%workspace_bytes, %s", needed.text);
  tg_wrapper_check(w, enough, tg_format(w->env, "workspace_bytes is less than %s_workspace says", w->name));
  tg_ir is = tg_ir_put(w, "icmp ne ptr %%workspace, null"), none = tg_ir_put(w, "icmp eq i64 %s, 0", needed.text);
  tg_wrapper_check(w, tg_ir_put(w, "or i1 %s, %s", is.text, none.text), "workspace is NULL");
  tg_ir at = tg_ir_put(w, "ptrtoint ptr %%workspace to i64"), up = tg_ir_put(w, "add i64 %s, %d", at.text, ALIGN - 1);
  return tg_ir_put(w, "and i64 %s, %d", up.text, -ALIGN);
}

void tg_function_memory(tg_function *f) {
  tg_wrapper *w = f->w;
  tg_ir low = tg_function_workspace(w, tg_ir_put(w, "call i64 @%s(i64 %%t)", needed_name(w)));
  tg_str_printf(&w->out, "  %%memory = inttoptr i64 %s to ptr\n", low.text);
}

/* NAME.needed: bytes for so many threads, with those for the alignment; 0 if none are needed. */
void tg_function_put_workspace(tg_function *f) {
  tg_wrapper *w = f->w;
  const char *needed = needed_name(w);
  uint64_t each = f->each + (f->side_by_side ? f->shared : 0), all = f->side_by_side ? 0 : f->shared;
  if (!each && !all)
    tg_str_printf(&w->out, "define internal i64 @%s(i64 %%threads) {\n  ret i64 0\n}\n", needed);
  else
    tg_str_printf(&w->out,
                  "define internal i64 @%s(i64 %%threads) {\n  %%each = mul i64 %%threads, %llu\n"
                  "  %%all = add i64 %%each, %llu\n  ret i64 %%all\n}\n",
                  needed, (unsigned long long)each, (unsigned long long)all + ALIGN);
  tg_str_printf(&w->out,
                "define i64 @%s_workspace(i32 %%threads) {\n  %%few = icmp slt i32 %%threads, 1\n"
                "  %%some = select i1 %%few, i32 1, i32 %%threads\n  %%n = zext i32 %%some to i64\n"
                "  %%bytes = call i64 @%s(i64 %%n)\n  ret i64 %%bytes\n}\n",
                w->name, needed);
}

/* ---- kernels ---- */

static void put_adaptor(tg_wrapper *w, const tg_function_call *c) {
  const tg_kit_kernel *k = c->kernel;
  tg_str_printf(&w->out,
                "define internal void @call.t%u(ptr %%o, ptr %%v, ptr %%memory, i64 %%threads, ptr %%each, ptr %%user) "
                "{\n  %%buffers = alloca [%u x ptr]\n  %%params = alloca [%u x i64]\n",
                c->k, k->operands_n + 1u, k->values_n + 1u);
  const tg_ir o = {"%o"}, v = {"%v"}, buffers = {"%buffers"}, params = {"%params"};
  for (uint32_t i = 0; i < k->operands_n; i++)
    tg_ir_store(w, "ptr", tg_ir_load(w, "ptr", o, k->operand[i]), buffers, i);
  for (uint32_t i = 0; i < k->values_n; i++)
    tg_ir_store(w, "i64", tg_ir_load(w, "i64", v, k->value[i]), params, i);
  tg_ir r = tg_ir_put(w, "call i32 @run.t%u(ptr %%buffers, ptr %%params, ptr %%memory, i64 %%threads, ptr %%each, "
                      "ptr %%user)", c->k);
  (void)r;                     /* memory is given, so none can be missing */
  tg_str_puts(&w->out, "  ret void\n}\n");
}

void tg_function_end(tg_function *f) {
  for (uint32_t i = 0; i < f->calls.n; i++) put_adaptor(f->w, &f->calls.data[i]);
  tg_str_printf(&f->w->out, "define internal i64 @%s.side() {\n  ret i64 %llu\n}\n", f->w->name,
                (unsigned long long)(f->each + f->shared));
}

/* ---- the function ---- */

void tg_function_open(tg_wrapper *w) {
  tg_str_printf(&w->out, "define i32 @%s(", w->name);
  tg_wrapper_arguments(w);
  tg_str_puts(&w->out, "ptr %workspace, i64 %workspace_bytes, i32 %threads, ptr %each, ptr %user) {\n");
  tg_wrapper_start(w);
  tg_str_puts(&w->out, "  %several = icmp sgt i32 %threads, 1\n  %dealt = icmp ne ptr %each, null\n"
                       "  %both = and i1 %several, %dealt\n  %wide = sext i32 %threads to i64\n"
                       "  %t = select i1 %both, i64 %wide, i64 1\n");
}

void tg_function_unless_empty(tg_wrapper *w, tg_ir a, tg_ir b) {
  tg_ir zero = tg_ir_number(0), some = tg_ir_is(w, "ne", a, zero), any = tg_ir_is(w, "ne", b, zero);
  tg_str_printf(&w->out, "  %%elements = and i1 %s, %s\n  br i1 %%elements, label %%full, label %%empty\n"
                         "empty:\n  ret i32 0\nfull:\n", some.text, any.text);
}

void tg_function_switch(tg_function *f) {
  tg_wrapper *w = f->w;
  tg_ir pick = tg_wrapper_picked(w);
  tg_str_printf(&w->out, "  switch i32 %s, label %%target0 [", pick.text);
  for (uint32_t i = 1; i < w->targets_n; i++) tg_str_printf(&w->out, " i32 %u, label %%target%u", i + 1, i);
  tg_str_puts(&w->out, " ]\n");
}

/* ---- arguments ---- */

typedef struct {
  tg_job *job;
  const tg_kernel_def *def;
  const tg_binding *b;
  uint32_t n;
  void *user;
  const tg_signature *signature;
} declaring;

static void declare(void *arg) {
  declaring *d = arg;
  tg_author(d->job, d->def, d->n, d->b, d->user);
  d->signature = tg_signature_build(d->job);
}

const tg_signature *tg_function_signature(tg_env *env, const tg_kernel_def *def, const tg_binding *b, uint32_t n,
                                          void *user) {
  declaring d = {.job = tg_new(env, tg_job, 1), .def = def, .b = b, .n = n, .user = user};
  tg_job_init(d.job, &env->allocator);
  bool good = tg_protect(&d.job->env, declare, &d);
  void *own = good ? memcpy(tg_alloc(env, d.signature->bytes), d.signature, d.signature->bytes) : NULL;
  tg_status s = d.job->env.status;
  const char *why = good ? NULL : tg_strdup(env, d.job->env.message);
  tg_job_drop(d.job);
  if (!good) tg_fail(env, s, "%s", why);
  return own;
}

uint32_t tg_function_number(const char *name, const char *const *names, uint32_t n) {
  uint32_t i = 0;
  while (i < n && strcmp(names[i], name)) i++;
  return i;
}

tg_ir tg_function_value(const tg_wrapper *w, const char *name, int64_t otherwise) {
  const tg_signature *s = w->signature;
  tg_ir v = tg_ir_number(otherwise);
  for (uint32_t i = 0; i < s->params_n; i++)
    if (!strcmp(tg_signature_strings(s) + tg_signature_params(s)[i].name, name))
      snprintf(v.text, sizeof v.text, "%%p%u", i);
  return v;
}

/* ---- the header ---- */

static const char note[] =
    " *\n * NAME_bytes: that the memory has, at least as many as the elements take. What is written overlaps nothing "
    "else.\n"
    " * workspace: as many bytes as NAME_workspace(threads) says, at any alignment; NULL if that is 0. Nothing is\n"
    " * allocated. parallel_for(user, n, task, argument), with n of at most `threads`, must call task(argument, i)\n"
    " * once for each i of 0..n-1, on any threads in any order, and return when all have ended; NULL: all is done\n"
    " * on the caller's thread. The result has the same bits either way, and those of a plan of the same descriptor.\n"
    " * May be called from several threads at a time, each with its own workspace.\n"
    " * Returns 0, or what NAME_message explains; then nothing was written. */\n";

void tg_function_header_begin(tg_wrapper *w, tg_str *o, const char *what) {
  tg_str_printf(o, "/* %s: %s, a plan of tg %d.%d.%d for", w->name, what, TG_VERSION_MAJOR, TG_VERSION_MINOR,
                TG_VERSION_PATCH);
  tg_wrapper_header_targets(w, o);
  tg_str_puts(o, ": the last of these that the processor can run is used.\n *\n");
  tg_wrapper_header_lines(w, o);
}

void tg_function_header_end(tg_wrapper *w, tg_str *o, const char *sizes) {
  tg_str_puts(o, note);
  tg_str_printf(o, "int %s(", w->name);
  tg_wrapper_header_arguments(w, o);
  tg_str_printf(o,
                "void *workspace, size_t workspace_bytes, int threads,\n"
                "    void (*parallel_for)(void *user, int64_t n, void (*task)(void *argument, int64_t i), void "
                "*argument),\n    void *user);\nsize_t %s_workspace(%sint threads);\n\n",
                w->name, sizes);
  tg_wrapper_header_messages(w, o);
}
