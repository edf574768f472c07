/* SPDX-License-Identifier: MIT
 * tg_attention_merge as a function: of two results over disjoint sets of keys, on the caller's thread. */
#include "ahead/attention.h"
#include "ahead/function.h"
#include "kit/words.h"

enum { MOST_MEMORY = 4096 };   /* of the kernel, on the stack, as in a merge of a plan */

static const struct { const char *name, *role; bool lse; uint32_t operand; } merged[] = {
    {"first", "in", false, ATTENTION_Q},           {"first_LSE", "in", true, ATTENTION_M},
    {"second", "in", false, ATTENTION_OTHER},      {"second_LSE", "in", true, ATTENTION_OTHER_LSE},
    {"O", "out", false, ATTENTION_O},              {"LSE", "out", true, ATTENTION_LSE}};

static void declare(tg_builder *tg_b_, void *user) {
  const tg_attention *a = user;
  for (uint32_t i = 0; i < TG_COUNT(merged); i++)
    if (merged[i].lse)
      tg_kit_declare(tg_b_, merged[i].role, "%s, f32, [batch, %d, queries]", merged[i].name, a->heads);
    else
      tg_kit_declare(tg_b_, merged[i].role, "%s, %s, [batch, %d, queries, %lld]", merged[i].name,
                     tg_type_name[a->problem.o], a->heads, (long long)a->problem.value_head);
}

static void put_header(tg_wrapper *w, tg_str *o) {
  tg_function_header_begin(w, o, "the merge of two results of attention");
  tg_str_printf(o,
                " *\n * O and LSE over two sets of keys that have none in common, of which first and second are; all\n"
                " * are dense. What is written overlaps nothing else. Returns 0, or what %s_message\n"
                " * explains; then nothing was written. */\nint %s(",
                w->name, w->name);
  tg_wrapper_header_arguments(w, o);
  while (o->n && strchr(" \n,", o->data[o->n - 1])) o->n--;   /* nothing follows the last one */
  tg_str_puts(o, ");\n\n");
  tg_wrapper_header_messages(w, o);
}

void tg_attention_merge_function(tg_wrapper *w, const tg_attention *const *a, const char *name, tg_str *header) {
  tg_function f = {.w = w};
  uint32_t kernel[TG_AHEAD_TARGETS];
  const tg_binding b[] = {{"batch", 0, 1 << 20, 1}, {"queries", a[0]->queries.lo, a[0]->queries.hi, 1}};
  w->name = tg_format(w->env, "%s_merge", name), w->messages = (tg_messages){0};
  const tg_kernel_def def = {.name = w->name, .params = "batch, queries", .body = declare, .file = __FILE__,
                             .line = __LINE__};
  w->signature = tg_function_signature(w->env, &def, b, TG_COUNT(b), (void *)(uintptr_t)a[0]);
  for (uint32_t t = 0; t < w->targets_n; t++) kernel[t] = tg_function_add(&f, &a[t]->join);
  if (f.shared + f.each > MOST_MEMORY) tg_bug(w->env, "%s: a merge wants memory", w->name);
  tg_str_printf(&w->out, "define i32 @%s(", w->name);
  tg_wrapper_arguments(w);
  w->out.n -= strlen(", ");
  tg_str_puts(&w->out, ") {\n");
  tg_wrapper_start(w);
  tg_str_printf(&w->out,
                "  %%o = alloca [%d x ptr]\n  %%v = alloca [%d x i64]\n  %%memory = alloca [%d x i8], align 64\n",
                ATTENTION_OPERANDS, ATTENTION_VALUES, MOST_MEMORY);
  for (uint32_t i = 0; i < w->signature->params_n; i++) tg_str_printf(&w->out, "  %%p%u = add i64 %%a%u, 0\n", i, i);
  tg_wrapper_check_params(w);
  tg_wrapper_check_buffers(w, true);
  tg_ir batch = tg_function_value(w, "batch", 0), queries = tg_function_value(w, "queries", a[0]->queries.lo);
  tg_function_unless_empty(w, batch, queries);
  tg_ir rows = tg_ir_mul(w, tg_ir_mul(w, batch, queries), tg_ir_number(a[0]->heads));
  tg_ir_store(w, "i64", rows, (tg_ir){"%v"}, ATTENTION_ROWS);
  for (uint32_t i = 0; i < TG_COUNT(merged); i++)
    tg_ir_store(w, "ptr", tg_ir_put(w, "getelementptr i8, ptr %%b%u, i64 0", i), (tg_ir){"%o"}, merged[i].operand);
  tg_function_switch(&f);
  for (uint32_t t = 0; t < w->targets_n; t++)
    tg_str_printf(&w->out,
                  "target%u:\n  call void @call.t%u(ptr %%o, ptr %%v, ptr %%memory, i64 1, ptr null, ptr null)\n"
                  "  ret i32 0\n", t, kernel[t]);
  tg_str_puts(&w->out, "}\n");
  tg_function_end(&f);
  put_header(w, header);
}
