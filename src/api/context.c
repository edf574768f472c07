/* SPDX-License-Identifier: MIT
 * The context: target, rules, jit, pool, and each thread's last error. */
#include <stdio.h>
#include "api/api.h"

const char *tg_status_name(tg_status s) {
  static const char *const names[] = {"ok", "invalid", "out of memory", "input/output error", "limit passed", "backend error", "internal error"};
  return (unsigned)s < TG_COUNT(names) ? names[s] : "unknown status";
}

/* ---- errors ---- */

static tg_context_message *message_of(tg_context *c, bool make) {
  uint32_t spare = 0;
  for (uint32_t i = 0; i < MESSAGES; i++) {
    tg_context_message *m = c->messages[i];
    if (m && m->used && pthread_equal(m->thread, pthread_self())) return m;
    if (c->messages[spare] && (!m || m->age < c->messages[spare]->age)) spare = i;
  }
  if (!make) return NULL;
  tg_context_message *m = c->messages[spare];
  if (!m) {
    m = c->env.allocator.alloc(c->env.allocator.user, sizeof *m);
    if (!m) return NULL;
    memset(m, 0, sizeof *m);
    c->messages[spare] = m;
  }
  m->used = true;
  m->thread = pthread_self();
  return m;
}

tg_status tg_context_fail(tg_context *c, tg_status s, const char *message) {
  pthread_mutex_lock(&c->lock);
  tg_context_message *m = message_of(c, true);
  if (m) {
    snprintf(m->text, sizeof m->text, "%s", message);
    m->age = ++c->age;
  }
  pthread_mutex_unlock(&c->lock);
  return s;
}

const char *tg_error_message(tg_context *c) {
  if (!c) return "no context";
  pthread_mutex_lock(&c->lock);
  tg_context_message *m = message_of(c, false);
  const char *text = m ? m->text : "";
  pthread_mutex_unlock(&c->lock);
  return text;
}

/* ---- life ---- */

static void compile_rules(void *arg) {
  tg_context *c = arg;
  c->rules = tg_rules_compile(&c->env);
}

typedef struct { tg_context *c; const tg_context_options *o; } creation;

static void create(void *arg) {
  creation *k = arg;
  tg_context *c = k->c;
  const tg_context_options *o = k->o;
  const char *name = o->target ? o->target : "host";
  if (!tg_target_named(&c->target, name)) tg_fail(&c->env, TG_EINVAL, "unknown target '%s'", name);
  if (o->threads > 0) c->target.threads = (uint32_t)o->threads;
  if (o->cache && *o->cache) c->cache = tg_strdup(&c->env, o->cache);
  c->pool = tg_pool_open(&c->env.allocator, c->target.threads);
  if (!c->pool) tg_fail(&c->env, TG_ENOMEM, "out of memory");
}

tg_status tg_context_create(const tg_context_options *options, tg_context **out) {
  static const tg_context_options none;
  const tg_context_options *o = options ? options : &none;
  tg_allocator a = o->allocator.alloc && o->allocator.free ? o->allocator : tg_allocator_default();
  if (!out) return TG_EINVAL;
  *out = NULL;
  tg_context *c = a.alloc(a.user, sizeof *c);
  if (!c) return TG_ENOMEM;
  memset(c, 0, sizeof *c);
  tg_env_init(&c->env, &a);
  tg_blocks_init(&c->blocks, &a);
  pthread_mutex_init(&c->lock, NULL);
  c->flags = o->flags;
  c->log = o->log;
  c->log_user = o->log_user;
  creation k = {c, o};
  if (!tg_protect(&c->env, create, &k)) {
    tg_status s = c->env.status;
    if (c->log) c->log(c->log_user, c->env.message);
    tg_context_free(c);
    return s;
  }
  *out = c;
  return TG_OK;
}

void tg_context_free(tg_context *c) {
  if (!c) return;
  tg_allocator a = c->env.allocator;
  tg_pool_close(c->pool);
  tg_jit_close(c->jit);
  for (uint32_t i = 0; i < MESSAGES; i++)
    if (c->messages[i]) a.free(a.user, c->messages[i], sizeof *c->messages[i]);
  tg_env_drop(&c->env);
  tg_blocks_drop(&c->blocks);
  pthread_mutex_destroy(&c->lock);
  a.free(a.user, c, sizeof *c);
}

/* Both are made by the first compile that needs them: a program that runs nothing but cached kernels starts neither LLVM nor rules. */
static tg_status first_use(tg_context *c, bool rules) {
  uint32_t flags = (c->flags & TG_CONTEXT_DEBUG ? TG_JIT_DEBUG : 0) | (c->flags & TG_CONTEXT_PERF_MAP ? TG_JIT_PERF_MAP : 0) | (c->flags & TG_CONTEXT_VERIFY ? TG_JIT_VERIFY : 0);
  c->env.status = TG_OK;
  if (rules) return c->rules || tg_protect(&c->env, compile_rules, c) ? TG_OK : c->env.status;
  if (c->jit) return TG_OK;
  tg_status s = tg_jit_open(&c->jit, &c->env.allocator, &c->target, flags, &c->env);
  if (s == TG_OK) c->target = *tg_jit_target(c->jit);
  return s;
}

const tg_rules *tg_context_rules(tg_job *j, tg_context *c) {
  char message[sizeof c->env.message];
  pthread_mutex_lock(&c->lock);
  tg_status s = first_use(c, true);
  memcpy(message, c->env.message, sizeof message);
  pthread_mutex_unlock(&c->lock);
  if (s != TG_OK) tg_fail(&j->env, s, "%s", message);
  return c->rules;
}

tg_status tg_context_jit(tg_context *c, tg_jit **out) {
  pthread_mutex_lock(&c->lock);
  tg_status s = first_use(c, false);
  *out = c->jit;
  char message[sizeof c->env.message];
  memcpy(message, c->env.message, sizeof message);
  pthread_mutex_unlock(&c->lock);
  return s == TG_OK ? s : tg_context_fail(c, s, message);
}
