/* SPDX-License-Identifier: MIT
 * Peers of tg bench attention: which there are, and the unfused path over a BLAS: scores of a head as a product, their
 * softmax, and a product with V. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/attention.h"
#include "bench/machine.h"
#include "bench/bench.h"
#include "bench/peers.h"

double attention_clock(int threads) {
  struct timespec t;
  if (threads > 1) return tool_now();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the unfused path ---- */

enum { SOFTMAX_THREADS = 16 };
typedef struct {
  bench_peer blas[BENCH_PEERS];
  int blas_n, which[ATTENTION_ENTRIES];
  float *scores;
  size_t scores_bytes;
} unfused;

typedef struct { float *scores; int64_t from, to, columns, stands; float scale; } softmax_part;

static void *softmax_rows(void *arg) {
  softmax_part *p = arg;
  for (int64_t i = p->from; i < p->to; i++)
    bench_c_softmax_row(p->scores + i * p->columns, (size_t)(p->stands < 0 ? p->columns : p->stands + i + 1),
                        (size_t)p->columns, p->scale);
  return NULL;
}

/* Threads of its own, each a part of the rows. */
static void softmax(const attention_case *c, float *scores, int64_t rows) {
  pthread_t id[SOFTMAX_THREADS];
  softmax_part part[SOFTMAX_THREADS];
  int64_t n = c->threads < SOFTMAX_THREADS ? c->threads : SOFTMAX_THREADS, made = 1;
  for (int64_t i = 0; i < n; i++)
    part[i] = (softmax_part){scores,
                             rows * i / n,
                             rows * (i + 1) / n,
                             c->of.keys,
                             c->of.causal && c->of.queries > 1 ? c->of.keys - c->of.queries : -1,
                             1 / sqrtf((float)c->of.head)};
  for (; made < n && !pthread_create(&id[made], NULL, softmax_rows, &part[made]); made++) {
  }
  softmax_rows(&part[0]);
  for (int64_t i = made; i < n; i++) softmax_rows(&part[i]);
  for (int64_t i = 1; i < made; i++) pthread_join(id[i], NULL);
}

static void unfused_run(attention_peer *p, int copy) {
  const attention_case *c = p->of;
  const attention_shape *s = &c->of;
  unfused *u = p->state[0];
  bench_peer *b = &u->blas[u->which[p->used]];
  int group = s->heads / s->kv_heads, rows = (int)s->queries * group;   /* one query: heads of a group are its rows */
  size_t kv = c->kv_bytes / 4 * (size_t)copy, keys = (size_t)s->keys, d = (size_t)s->head;
  bench_product x = {.type = tool_types_named("f32"), .m = rows, .threads = c->threads};
  for (size_t h = 0; h < (size_t)(s->batch * s->kv_heads); h++) {
    x.n = (int)s->keys, x.k = s->head, x.lda = x.ldb = s->head, x.ldc = x.n, x.tb = true;
    x.a = (float *)c->q + h * (size_t)rows * d, x.b = (float *)c->k + kv + h * keys * d, x.c = u->scores;
    b->entry[0].run(b, &x);
    softmax(c, u->scores, rows);
    x.n = s->head, x.k = (int)s->keys, x.lda = x.k, x.ldb = x.ldc = s->head, x.tb = false;
    x.a = u->scores, x.b = (float *)c->v + kv + h * keys * d, x.c = c->result + h * (size_t)rows * d;
    b->entry[0].run(b, &x);
  }
}

static bool unfused_open(attention_peer *p, const attention_case *c) {
  const attention_shape *s = &c->of;
  unfused *u = p->state[0];
  p->of = c, p->entries = 0;
  if (s->type != TG_F32) return snprintf(p->about, sizeof p->about, "no products of 16-bit types"), false;
  if (s->queries > 1 && s->heads > s->kv_heads)
    return snprintf(p->about, sizeof p->about, "heads that share K and V, with more than one query"), false;
  size_t bytes = (size_t)s->queries * (size_t)(s->heads / s->kv_heads) * (size_t)s->keys * sizeof(float);
  if (bytes > u->scores_bytes) {
    free(u->scores);
    u->scores = tool_pages(u->scores_bytes = bytes);
  }
  for (int i = 0; i < u->blas_n; i++) {
    if (!u->blas[i].f32 || p->entries == ATTENTION_ENTRIES) continue;
    snprintf(p->entry[p->entries], sizeof p->entry[0], "unfused over %s", u->blas[i].name);
    u->which[p->entries++] = i;
    bench_peers_threads(&u->blas[i], c->threads);
  }
  return p->entries > 0;
}

static bool unfused_use(attention_peer *p, int entry) { return p->used = entry, true; }

static double unfused_time(attention_peer *p, int repeat) {
  double start = attention_clock(p->of->threads);
  for (int r = 0; r < repeat; r++)
    for (int i = 0; i < p->of->copies; i++) unfused_run(p, i);
  return attention_clock(p->of->threads) - start;
}

static bool unfused_result(attention_peer *p) { return unfused_run(p, 0), true; }

static void unfused_close(attention_peer *p) {
  unfused *u = p->state[0];
  free(u->scores);
  u->scores = NULL, u->scores_bytes = 0;
}

void attention_blas(attention_peer *p, const char *file) {
  static unfused u;
  char vs[600];
  snprintf(vs, sizeof vs, "openblas=%s", file ? file : "");
  u.blas_n = bench_peers_open(u.blas, file ? vs : NULL);
  *p = (attention_peer){.name = "unfused",
                        .open = unfused_open,
                        .use = unfused_use,
                        .run = unfused_time,
                        .result = unfused_result,
                        .close = unfused_close,
                        .state = {&u}};
  for (int i = 0; i < u.blas_n; i++)
    if (u.blas[i].f32)
      snprintf(p->about + strlen(p->about), sizeof p->about - strlen(p->about), "%s%s", p->here ? ", " : "over ",
               u.blas[i].name),
          p->here = true;
  if (!p->here) snprintf(p->about, sizeof p->about, "none of openblas, blis and mkl is found");
}

/* ---- all ---- */

static const struct { const char *name; void (*fill)(attention_peer *, const char *file); } known[ATTENTION_PEERS] = {
    {"torch", attention_python},
    {"onnxruntime", attention_python},
    {"onednn", attention_onednn},
    {"ggml", attention_ggml},
    {"unfused", attention_blas}};

int attention_peers_open(attention_peer *peers, const char *vs) {
  int n = 0;
  for (int k = 0; !vs && k < ATTENTION_PEERS; k++) {
    peers[k].name = known[k].name;
    known[k].fill(&peers[k], NULL);
  }
  if (!vs) return ATTENTION_PEERS;
  for (const char *at = vs; *at;) {
    size_t whole = strcspn(at, ","), name = strcspn(at, ",=");
    char path[512] = "";
    int k = 0;
    while (k < ATTENTION_PEERS && (strlen(known[k].name) != name || strncmp(known[k].name, at, name))) k++;
    if (name < whole) snprintf(path, sizeof path, "%.*s", (int)(whole - name - 1), at + name + 1);
    if (k == ATTENTION_PEERS || n == ATTENTION_PEERS)
      return fprintf(stderr, "tg bench attention: '%.*s' is none of torch, onnxruntime, onednn, ggml, unfused\n",
                     (int)name, at),
             -1;
    peers[n].name = known[k].name;
    known[k].fill(&peers[n++], path[0] ? path : NULL);
    at += whole + (at[whole] == ',');
  }
  return n;
}

void attention_peers_leave(attention_peer *peers, int n) {
  for (int i = 0; i < n; i++) {
    if (peers[i].to) fclose(peers[i].to);
    if (peers[i].from) fclose(peers[i].from);
  }
}
