/* SPDX-License-Identifier: MIT
 * Choices that were made once: kept by the context for this process, and beside the objects in the cache's folder for
 * others, so that a plan that was made before chooses nothing, and libtg alone finds what the compiler's side chose. */
#include <stdio.h>
#include "api/api.h"

enum { BUCKETS = 256 };
typedef struct kept { struct kept *next; const char *key, *text; } kept;
struct tg_answers { kept *bucket[BUCKETS]; };

/* With what the choice depends on beside its question. */
static const char *whole_key(tg_env *env, tg_context *c, const char *key) {
  const tg_target *t = &c->target;
  return tg_format(env, "choice\nbuild %s\ntarget %s\nsilicon %s\nmachine %llx\nthreads %u\ncaches %llu %llu %llu\n%s",
                   tg_choice_hash, t->name, t->silicon, (unsigned long long)tg_machine_hash(&t->machine), t->threads,
                   (unsigned long long)t->l1, (unsigned long long)t->l2, (unsigned long long)t->l3, key);
}

typedef struct { tg_context *c; const char *key, *text; tg_env *env; char *out; size_t n; bool found; } question;

static uint32_t bucket_of(const char *key) { return (uint32_t)tg_hash(key, strlen(key), 0) % BUCKETS; }

static bool in_process(question *q, const char *key) {
  bool found = false;
  pthread_mutex_lock(&q->c->lock);
  for (const kept *k = q->c->kept ? q->c->kept->bucket[bucket_of(key)] : NULL; k && !found; k = k->next) {
    found = !strcmp(k->key, key) && strlen(k->text) < q->n;
    if (found) strcpy(q->out, k->text);
  }
  pthread_mutex_unlock(&q->c->lock);
  return found;
}

static void remember(void *arg) {
  question *q = arg;
  tg_context *c = q->c;
  if (!c->kept) c->kept = tg_new(&c->env, struct tg_answers, 1);
  kept *k = tg_new(&c->env, kept, 1);
  k->key = tg_strdup(&c->env, q->key), k->text = tg_strdup(&c->env, q->text);
  k->next = c->kept->bucket[bucket_of(k->key)];
  c->kept->bucket[bucket_of(k->key)] = k;
}

/* Under the lock. Without memory for it nothing is kept. */
static void keep_in_process(question *q, const char *key, const char *text) {
  question inner = {.c = q->c, .key = key, .text = text};
  pthread_mutex_lock(&q->c->lock);
  tg_status before = q->c->env.status;
  q->c->env.status = TG_OK;
  tg_protect(&q->c->env, remember, &inner);
  q->c->env.status = before;
  pthread_mutex_unlock(&q->c->lock);
}

static void look(void *arg) {
  question *q = arg;
  const char *key = whole_key(q->env, q->c, q->key);
  if (in_process(q, key)) {
    q->found = true;
    return;
  }
  tg_cache_entry e = {.key = key, .key_n = strlen(key)};
  if (!tg_context_keeps(q->c) || !tg_cache_read(q->env, &q->c->pack, q->c->cache, &e) || e.object_n >= q->n) return;
  memcpy(q->out, e.object, e.object_n);
  q->out[e.object_n] = 0;
  q->found = true;
  keep_in_process(q, key, q->out);
}

static void write(void *arg) {
  question *q = arg;
  const char *key = whole_key(q->env, q->c, q->key);
  keep_in_process(q, key, q->text);
  tg_cache_entry e = {.key = key,
                      .key_n = strlen(key),
                      .signature = "",
                      .object = q->text,
                      .object_n = strlen(q->text)};
  int err = q->c->cache ? tg_cache_write(q->env, q->c->cache, &e) : 0;
  if (err && q->c->log)
    q->c->log(q->c->log_user, tg_format(q->env, "the cache %s cannot be written: %s", q->c->cache, strerror(err)));
}

/* The environment has room for a message, and a caller's thread may have a small stack. */
static bool ask(question *q, void (*run)(void *)) {
  const tg_allocator *a = &q->c->env.allocator;
  q->env = a->alloc(a->user, sizeof *q->env);
  if (!q->env) return false;
  tg_env_init(q->env, a);
  bool ok = tg_protect(q->env, run, q);
  tg_env_drop(q->env);
  a->free(a->user, q->env, sizeof *q->env);
  return ok;
}

bool tg_kept_read(tg_context *c, const char *key, char *out, size_t n) {
  question q = {.c = c, .key = key, .out = out, .n = n};
  return ask(&q, look) && q.found;
}

void tg_kept_write(tg_context *c, const char *key, const char *text) {
  question q = {.c = c, .key = key, .text = text};
  ask(&q, write);
}
