/* SPDX-License-Identifier: MIT
 * Hand-made linear programs, compiled and called. */
#ifndef TG_TEST_JIT_H
#define TG_TEST_JIT_H
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "dsl/value.h"
#include "generator/generator.h"

typedef struct { tg_job j; tg_jit *jit; TG_VEC(const tg_uop *) list; tg_code *code; tg_code_info info; tg_object object; const char *ir, *assembly; bool show; } program;

static inline const tg_uop *i64c(tg_job *j, int64_t v) { return tg_const_int(j, TG_I64, v); }

static inline void program_begin(program *p, tg_jit *jit) {
  memset(p, 0, sizeof *p);
  p->jit = jit;
  tg_job_init(&p->j, NULL);
  p->j.name = "k";
}

static inline const tg_uop *add(program *p, const tg_uop *u) {
  tg_push(&p->j.env, &p->list, u);
  return u;
}

static inline const tg_uop *buffer(program *p, const char *name, tg_type t, tg_role role, tg_space space, tg_place place, uint32_t lanes, int64_t n) {
  const tg_uop *dim = i64c(&p->j, n);
  return add(p, tg_define(&p->j, (tg_buffer){.name = name, .space = (uint8_t)space, .role = (uint8_t)role, .place = (uint8_t)place, .rank = 1, .type = (uint8_t)t}, lanes, &dim, NULL, true));
}

static inline const tg_uop *range_of(program *p, const char *name, const tg_uop *extent, tg_kind kind) {
  const tg_uop *r = tg_range_new(&p->j, name, extent, kind, UINT32_MAX, (tg_pos){0});
  return tg_make(&p->j, TG_OP_RANGE, (tg_type)extent->type, 1, r->arg, 1, &extent);
}

static inline void program_compile(void *arg) {
  program *p = arg;
  p->j.sink = tg_sink(&p->j, p->list.n, p->list.data);
  p->object = tg_jit_compile(p->jit, &p->j, p->j.sink, &p->info, &p->ir, p->show ? &p->assembly : NULL);
}

static inline bool program_load(program *p) {
  tg_allocator a = tg_allocator_default();
  bool ok = tg_protect(&p->j.env, program_compile, p) && tg_code_load(&a, p->object.data, p->object.bytes, "k", &p->info, 0, &p->code, &p->j.env) == TG_OK;
  if (!ok) fprintf(stderr, "%s\n%s\n", p->j.env.message, p->ir ? p->ir : "");
  return ok;
}

typedef struct { program *p; void **buffers; const int64_t *params; void *workspace; } program_launch;

static inline void program_phase(void *user, uint32_t phase) {
  program_launch *l = user;
  int64_t n = tg_code_tasks(l->p->code, phase, l->buffers, l->params);
  for (int64_t t = 0; t < n; t++) tg_code_entry(l->p->code, phase, true)(l->buffers, l->params, l->workspace, t);
}

/* Phases in order, tasks in order; buffers has room for one more. */
static inline void program_run(program *p, void **buffers, const int64_t *params) {
  void *workspace = aligned_alloc(64, p->info.workspace), *shared = aligned_alloc(64, p->info.shared + 64);
  memset(workspace, 0xff, p->info.workspace);
  memset(shared, 0xff, p->info.shared + 64);
  buffers[p->info.buffers] = shared;
  tg_code_walk(p->code, buffers, params, program_phase, &(program_launch){p, buffers, params, workspace});
  free(workspace);
  free(shared);
}

static inline void program_end(program *p) {
  tg_code_unload(p->code);
  tg_job_drop(&p->j);
}

/* gathers: as if it had the other kind. */
static inline tg_jit *open_jit_for(const tg_target *t) {
  tg_env e;
  tg_allocator a = tg_allocator_default();
  tg_jit *jit = NULL;
  tg_env_init(&e, NULL);
  if (tg_jit_open(&jit, &a, t, TG_JIT_VERIFY, &e) != TG_OK) fprintf(stderr, "%s: %s\n", t->name, e.message);
  tg_env_drop(&e);
  return jit;
}

static inline tg_jit *open_jit_of(const char *target, bool gathers) {
  tg_target t;
  if (!tg_target_named(&t, target)) return fprintf(stderr, "%s: no such target\n", target), NULL;
  t.gathers_slowly ^= gathers;
  return open_jit_for(&t);
}

/* Ops of f16 reach the emitter where the target converts it alone: elsewhere pass `types` has made them code of integers. */
static inline bool has_type(const tg_jit *jit, tg_type t) { return t != TG_F16 || tg_jit_target(jit)->f16_convert; }

static inline tg_jit *open_jit(const char *target) { return open_jit_of(target, false); }
#endif
