/* SPDX-License-Identifier: MIT
 * The context: its target, thread pool, compiler state, and each thread's last error. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "api/api.h"
#include "store/store.h"

int tg_version(void) { return TG_VERSION; }

const char *tg_status_name(tg_status s) {
  static const char *const names[] = {"ok",           "invalid",       "out of memory",  "input/output error",
                                      "limit passed", "backend error", "internal error", "not in the cache",
                                      "out of time",  "device lost",   "cancelled"};
  _Static_assert(TG_COUNT(names) == TG_CANCELLED + 1, "a name for each status");
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

tg_status tg_context_read(tg_context *c, const char *type, void *own, size_t own_bytes, const void *given,
                          size_t bytes) {
  char message[512];
  const char *why = tg_sized_read(type, own, own_bytes, given, bytes, message, sizeof message);
  return why ? tg_context_fail(c, TG_EINVAL, why) : TG_OK;
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

typedef struct { tg_context *c; const tg_context_options *o; } creation;

/* Uses the row that `tg measure --save` left in the folder of tuned choices, if it is for this processor. */
static void take_machine(tg_context *c) {
  const char *why;
  if (tg_machine_file_read(&c->env, c->tuned, c->target.silicon, &c->target.machine, &why))
    tg_target_derive(&c->target);
  else if (why && c->log)
    c->log(c->log_user, tg_format(&c->env, "%s/" TG_MACHINE_FILE " is not used: %s", c->tuned, why));
}

/* The folder given, or the variable's, or the user's own if there is one. */
static const char *tuned_folder(const char *given, char *path, size_t n) {
  if (!given) given = secure_getenv("TG_TUNED");
  if (given) return given;
  const char *own = tg_store_default(path, n);
  return own && !access(own, R_OK | X_OK) ? own : NULL;
}

static void create(void *arg) {
  creation *k = arg;
  char path[4096];
  tg_context *c = k->c;
  const tg_context_options *o = k->o;
  const char *name = o->target ? o->target : "host";
  if (!tg_target_named(&c->target, name)) {
    tg_str names = tg_str_new(&c->env);
    for (uint32_t i = 0; tg_target_name(i); i++) tg_str_printf(&names, ", %s", tg_target_name(i));
    tg_fail(&c->env, TG_EINVAL, "no target is named '%s'; there are host%s", name, names.data);
  }
  if (o->threads > 0 && !tg_target_is_device(&c->target)) c->target.threads = (uint32_t)o->threads;
  if (o->cache && *o->cache) c->cache = tg_strdup(&c->env, o->cache);
  c->pack = (tg_pack){o->pack, o->pack ? o->pack_bytes : 0};
  const char *wrong = c->pack.data ? tg_pack_wrong(&c->pack) : NULL;
  if (wrong) tg_fail(&c->env, TG_EINVAL, "the pack of the context: %s", wrong);
  const char *tuned = tuned_folder(o->tuned, path, sizeof path);
  if (tuned && *tuned) c->tuned = tg_strdup(&c->env, tuned);
  if (c->tuned && !strcmp(name, "host")) take_machine(c);
  c->pool = tg_pool_open(&c->env.allocator, tg_target_is_device(&c->target) ? 1 : c->target.threads);
  if (!c->pool) tg_fail(&c->env, TG_ENOMEM, "out of memory");
  tg_device *device;
  tg_status s = tg_device_add(c, &tg_driver_cpu, 0, 0, NULL, &device, c->env.message, sizeof c->env.message);
  if (s != TG_OK) tg_fail(&c->env, s, "out of memory");
}

tg_status tg_context_open(const tg_context_options *options, size_t bytes, const tg_compiler *compiler,
                          tg_context **out) {
  tg_context_options given, *o = &given;
  char message[512];
  const char *why = tg_sized_read("tg_context_options", o, sizeof *o, options, bytes, message, sizeof message);
  tg_allocator a = o->allocator.alloc && o->allocator.free ? o->allocator : tg_allocator_default();
  if (!out) return TG_EINVAL;
  *out = NULL;
  if (why && o->log) o->log(o->log_user, why);
  if (why) return TG_EINVAL;
  tg_context *c = a.alloc(a.user, sizeof *c);
  if (!c) return TG_ENOMEM;
  memset(c, 0, sizeof *c);
  tg_env_init(&c->env, &a);
  tg_blocks_init(&c->blocks, &a);
  pthread_mutex_init(&c->lock, NULL);
  c->compiler = compiler;
  c->flags = o->flags;
  c->log = o->log;
  c->compiled = o->compiled;
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
  if (c->compiler) c->compiler->close(c);   /* first: it has something of each device */
  for (tg_device *d = c->devices, *next; d; d = next) next = d->next, tg_device_end(d);
  tg_pool_close(c->pool);
  for (uint32_t i = 0; i < MESSAGES; i++)
    if (c->messages[i]) a.free(a.user, c->messages[i], sizeof *c->messages[i]);
  tg_env_drop(&c->env);
  tg_blocks_drop(&c->blocks);
  pthread_mutex_destroy(&c->lock);
  a.free(a.user, c, sizeof *c);
}

tg_status tg_context_create_runtime_sized(const tg_context_options *options, size_t bytes, tg_context **out) {
  return tg_context_open(options, bytes, NULL, out);
}
