/* SPDX-License-Identifier: MIT
 * Code generation through its table, which whoever has a tg_jit has opened before. */
#include <stdio.h>
#include "generator/generator.h"
#include "jit/llvm.h"

static const tg_generator *opened(void) { return tg_generator_open(NULL, 0); }

typedef struct { const tg_generator *table; char message[1024]; } opening;

static void open_table(void *user) {
  opening *o = user;
  o->table = tg_generator_open(o->message, sizeof o->message);
}

void tg_generator_need(tg_env *env) {
  if (opened()) return;
  opening o = {NULL, ""};
  tg_on_callers_stack(env, open_table, &o);
  if (!o.table) tg_fail(env, TG_EBACKEND, "%s", o.message);
}

bool tg_jit_knows(const tg_target *t) { return tg_llvm_compiles_for(t); }

tg_status tg_jit_open(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err) {
  char message[sizeof err->message];
  const tg_generator *g = tg_generator_open(message, sizeof message);
  *out = NULL;
  if (g) return g->open(out, a, t, flags, err);
  if (err->status == TG_OK) {
    err->status = TG_EBACKEND;
    snprintf(err->message, sizeof err->message, "%s", message);
  }
  return TG_EBACKEND;
}

void tg_jit_close(tg_jit *jit) {
  if (jit) opened()->close(jit);
}

const tg_target *tg_jit_target(const tg_jit *jit) { return opened()->target(jit); }

tg_object tg_jit_compile(tg_jit *jit, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                         const char **asm_text) {
  return opened()->compile(jit, j, linear, info, ir_text, asm_text);
}

void tg_jit_build(tg_jit *jit, tg_job *j, const tg_uop *linear, tg_code_info *info) {
  opened()->build_module(jit, j, linear, info);
}

tg_linker tg_jit_linker(tg_jit *jit) { return opened()->linker(jit); }

tg_object tg_jit_assemble(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                          const char *name) {
  tg_generator_need(&j->env);
  return opened()->assemble(j, t, texts, n, around, name);
}

const char *tg_object_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info) {
  tg_generator_need(&j->env);
  return opened()->assembly(j, t, object, info);
}

const char *tg_object_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info) {
  tg_generator_need(&j->env);
  return opened()->summary(j, t, object, info);
}
