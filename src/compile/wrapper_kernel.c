/* SPDX-License-Identifier: MIT
 * The function of one kernel: its arguments are those of a launch. */
#include "compile/wrapper.h"

static void gather_arguments(tg_wrapper *w) {
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->buffers_n; i++)
    tg_ir_store(w, "ptr", tg_ir_put(w, "getelementptr i8, ptr %%b%u, i64 0", i), (tg_ir){"%buffers"}, i);
  for (uint32_t i = 0; i < s->params_n; i++)
    tg_ir_store(w, "i64", tg_ir_put(w, "add i64 %%p%u, 0", i), (tg_ir){"%params"}, i);
}

static void pick_and_run(tg_wrapper *w, const uint32_t *k) {
  tg_ir pick = tg_wrapper_picked(w);
  uint32_t memory = tg_wrapper_no_memory(w);
  tg_str_printf(&w->out, "  switch i32 %s, label %%run0 [", pick.text);
  for (uint32_t i = 1; i < w->targets_n; i++) tg_str_printf(&w->out, " i32 %u, label %%run%u", i + 1, i);
  tg_str_puts(&w->out, " ]\n");
  for (uint32_t i = 0; i < w->targets_n; i++) {
    tg_str_printf(&w->out, "run%u:\n", i);
    tg_ir failed = tg_ir_put(w, "call i32 @run.t%u(ptr %%buffers, ptr %%params, ptr null, i64 %lld, ptr %%each, "
                             "ptr %%user)", k[i], (long long)INT64_MAX);
    tg_ir out = tg_ir_put(w, "mul i32 %s, %u", failed.text, memory);
    tg_str_printf(&w->out, "  ret i32 %s\n", out.text);
  }
}

static void put_header(tg_wrapper *w, tg_str *o) {
  tg_str_printf(o, "/* %s, a kernel of tg %d.%d.%d for", w->name, TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH);
  tg_wrapper_header_targets(w, o);
  tg_str_puts(o, ": the last of these that the processor can run is used.\n *\n");
  tg_wrapper_header_lines(w, o);
  tg_str_printf(
      o,
      " *\n * NAME_bytes: that the memory has, at least as many as the elements take. Buffers that are written overlap "
      "no\n"
      " * others. parallel_for(user, n, task, argument) must call task(argument, i) once for each i of 0..n-1, on any\n"
      " * threads in any order, and return when all have ended; NULL: tasks run one after another on the caller's "
      "thread.\n"
      " * The result has the same bits either way. May be called from several threads at a time.\n"
      " * Returns 0, or what %s_message explains; then nothing was run, or memory was missing for some of it. */\n",
      w->name);
  tg_wrapper_header_before(o, w->name);
  tg_str_printf(o, "int %s(", w->name);
  tg_wrapper_header_arguments(w, o);
  tg_str_puts(o, "void (*parallel_for)(void *user, int64_t n, void (*task)(void *argument, int64_t i), void *argument),"
                 "\n    void *user);\n\n");
  tg_wrapper_header_messages(w, o);
}

void tg_wrapper_kernel(tg_wrapper *w, const uint32_t *k, tg_str *header) {
  const tg_signature *s = w->signature;
  tg_str_printf(&w->out, "define i32 @%s(", w->name);
  tg_wrapper_arguments(w);
  tg_str_puts(&w->out, "ptr %each, ptr %user) {\n");
  tg_wrapper_start(w);
  tg_str_printf(&w->out, "  %%buffers = alloca [%u x ptr]\n  %%params = alloca [%u x i64]\n", s->buffers_n + 1,
                s->params_n + 1);
  for (uint32_t i = 0; i < s->params_n; i++) tg_str_printf(&w->out, "  %%p%u = add i64 %%a%u, 0\n", i, i);
  tg_wrapper_check_params(w);
  tg_wrapper_check_buffers(w, true);
  gather_arguments(w);
  pick_and_run(w, k);
  tg_str_puts(&w->out, "}\n");
  put_header(w, header);
}
