/* SPDX-License-Identifier: MIT
 * What the module keeps for the life of the process: one context of tg, and each plan and kernel that was made, found
 * again by what it was made from. Kernels are kept between processes in a folder.
 *   TG_GGML_CACHE    the folder; empty: none. If not set: XDG_CACHE_HOME/tg, else HOME/.cache/tg */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ggml/module.h"

typedef struct kept {
  struct kept *next;
  void *plan;                  /* NULL: it could not be made */
  int (*make)(const void *want, void **out);
  size_t key_bytes;
  unsigned char key[];
} kept;

enum { LISTS = 1024 };
static struct {
  pthread_mutex_t lock;        /* held while a plan is made */
  tg_context *context;
  kept *list[LISTS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void told(void *user, const char *message) {
  (void)user;
  GGML_LOG_WARN("tg: %s\n", message);
}

static const char *folder(char *out, size_t size) {
  const char *own = getenv("TG_GGML_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (own) return *own ? own : NULL;
  if (cache && *cache) snprintf(out, size, "%s/tg", cache);
  else if (home && *home) snprintf(out, size, "%s/.cache/tg", home);
  else return NULL;
  return out;
}

bool tg_ggml_start(void) {
  char path[4096];
  pthread_mutex_lock(&state.lock);
  if (!state.context) {
    tg_context_options options = {.log = told, .cache = folder(path, sizeof path)};
    if (tg_context_create(&options, &state.context)) state.context = NULL;
  }
  bool started = state.context != NULL;
  pthread_mutex_unlock(&state.lock);
  return started;
}

bool tg_ggml_failed(const char *what) {
  GGML_LOG_ERROR("tg: %s: %s\n", what, tg_error_message(state.context));
  return false;
}

static uint32_t hash_of(const void *key, size_t n) {
  uint32_t h = 2166136261u;    /* FNV-1a */
  for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)key)[i]) * 16777619u;
  return h;
}

static void *find(int (*make)(const void *, void **), const void *want, const void *key, size_t n, const char *what) {
  pthread_mutex_lock(&state.lock);
  kept **list = &state.list[hash_of(key, n) % LISTS], *k = *list;
  while (k && (k->make != make || k->key_bytes != n || memcmp(k->key, key, n) != 0)) k = k->next;
  if (!k && (k = malloc(sizeof *k + n)) != NULL) {
    *k = (kept){.next = *list, .make = make, .key_bytes = n};
    memcpy(k->key, key, n);
    *list = k;
    if (make(want, &k->plan)) {
      tg_ggml_failed(what);
      k->plan = NULL;
    }
  }
  void *plan = k ? k->plan : NULL;
  pthread_mutex_unlock(&state.lock);
  return plan;
}

static int make_gemm(const void *want, void **out) { return tg_gemm_plan(state.context, want, (tg_gemm **)out); }
tg_gemm *tg_ggml_gemm(const tg_gemm_desc *d) { return find(make_gemm, d, d, sizeof *d, "a product"); }

static int make_kernel(const void *want, void **out) {
  return tg_kernel_compile_text(state.context, "ggml", want, NULL, (tg_kernel **)out);
}
tg_kernel *tg_ggml_kernel(const char *text) { return find(make_kernel, text, text, strlen(text), "a kernel"); }

static int make_attention(const void *want, void **out) {
  return tg_attention_plan(state.context, want, (tg_attention **)out);
}
tg_attention *tg_ggml_attention(const tg_attention_desc *d, float scale) {
  struct { tg_attention_desc d; float scale; } key;
  memset(&key, 0, sizeof key);
  memcpy(&key.d, d, sizeof *d);
  key.scale = scale;
  tg_attention_desc want = *d;
  want.scale = &scale;
  return find(make_attention, &want, &key, sizeof key, "attention");
}

/* ---- scratch ---- */

void *tg_ggml_scratch(tg_ggml_session *s, int which, size_t bytes) {
  if (bytes <= s->scratch[which].bytes && s->scratch[which].at) return s->scratch[which].at;
  free(s->scratch[which].at);
  size_t size = (bytes + bytes / 4 + 4095) & ~(size_t)4095;
  s->scratch[which].at = aligned_alloc(64, size);
  s->scratch[which].bytes = s->scratch[which].at ? size : 0;
  if (!s->scratch[which].at) GGML_LOG_ERROR("tg: out of memory: %zu bytes\n", size);
  return s->scratch[which].at;
}

tg_type tg_ggml_type(enum ggml_type t) {
  switch (t) {
    case GGML_TYPE_F32: return TG_F32;
    case GGML_TYPE_F16: return TG_F16;
    case GGML_TYPE_BF16: return TG_BF16;
    case GGML_TYPE_I32: return TG_I32;
    default: return TG_VOID;
  }
}
