/* SPDX-License-Identifier: MIT
 * tg bench nn: the operations of tg/nn.h on rows of 100 to 50,257 elements, one and two threads, in turns with PyTorch
 * in a process of its own (tests/bench/nn/peer.py says what it is asked). Without PyTorch: seconds, and bytes of x and
 * y in each. Results are checked by tests/nn; here only the time counts. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/bench.h"
#include "bench/turns.h"
#include "target/target.h"
#include "tg/nn.h"

/* ELEMENTS of x: what a layer's activations are, beyond the second-level cache of one core. */
enum { THREADS = 2, ELEMENTS = 1 << 20, HEAD = 128, POSITIONS = 1024 };
static const double usual_seconds = 1;
static const char driver[] = "tests/bench/nn/peer.py";

static const struct { const char *name; uint8_t op, activation; } operations[] = {
    {"softmax", TG_NN_SOFTMAX, 0},
    {"log_softmax", TG_NN_LOG_SOFTMAX, 0},
    {"layernorm", TG_NN_LAYERNORM, 0},
    {"rmsnorm", TG_NN_RMSNORM, 0},
    {"rotary", TG_NN_ROPE, 0},
    {"cross_entropy", TG_NN_CROSS_ENTROPY, 0},
    {"gelu", TG_NN_ACTIVATION, TG_NN_GELU},
    {"silu", TG_NN_ACTIVATION, TG_NN_SILU},
    {"swiglu", TG_NN_GATE, TG_NN_SILU},
};

/* ---- PyTorch ---- */

typedef struct { FILE *to, *from; pid_t process; bool here; char about[256]; } peer;

static bool hear(peer *p, char *answer, size_t n) {
  if (!p->from || !fgets(answer, (int)n, p->from)) {
    snprintf(p->about, sizeof p->about, "its process ended");
    return p->here = false;
  }
  answer[strcspn(answer, "\n")] = 0;
  if (strncmp(answer, "none", 4)) return true;
  snprintf(p->about, sizeof p->about, "%.200s", answer + 5);
  return false;
}

/* vs: "torch=PYTHON", or NULL. */
static void peer_open(peer *p, const char *vs) {
  const char *python = vs && !strncmp(vs, "torch=", 6) ? vs + 6 : "python3";
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  char answer[512];
  *p = (peer){.here = false};
  snprintf(p->about, sizeof p->about, "%s is not found: it lies in the source, where tg bench is to run", driver);
  if (access(driver, R_OK) || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC) || (p->process = fork()) < 0) return;
  if (!p->process) {
    if (dup2(to[0], 0) >= 0 && dup2(from[1], 1) >= 0) execlp(python, python, driver, (char *)NULL);
    dprintf(1, "none %s cannot be started\n", python);
    _exit(1);
  }
  close(to[0]), close(from[1]);
  p->to = fdopen(to[1], "w"), p->from = fdopen(from[0], "r");
  p->here = p->to && p->from && hear(p, answer, sizeof answer);
  if (p->here) snprintf(p->about, sizeof p->about, "PyTorch %.200s", answer + strlen("ready "));
}

static void peer_close(peer *p) {
  if (p->to) fclose(p->to);
  if (p->from) fclose(p->from);
  if (p->process > 0) waitpid(p->process, NULL, 0);
}

typedef struct { peer *p; const char *operation; int64_t rows, columns; int threads; } asking;

static double peer_timed(void *user, int repeat) {
  const asking *a = user;
  char answer[512];
  fprintf(a->p->to, "%s %lld %lld %d %d\n", a->operation, (long long)a->rows, (long long)a->columns, a->threads,
          repeat);
  fflush(a->p->to);
  return hear(a->p, answer, sizeof answer) ? strtod(answer, NULL) : -1;
}
static bool peer_run(void *user) { return peer_timed(user, 1) >= 0; }

/* ---- tg ---- */

typedef struct { tg_nn *plan; tg_nn_call call; } own;

static bool own_run(void *user) {
  own *o = user;
  return !tg_nn_run(o->plan, &o->call);
}

typedef struct {
  const tool_args *args;
  tg_context *ctx[THREADS + 1];
  double peak[THREADS + 1];
  peer torch;
  float *x, *gate, *y, *weight, *bias, *cosine, *sine, *rows;
  int32_t *number;             /* of each row: a target, a position */
  double product[THREADS + 1], least[THREADS + 1];
  int result, ran, compared[THREADS + 1];
} bench;

static float *numbers(size_t n, float from, float to) {
  float *at = tool_pages(n * sizeof *at);
  uint32_t state = 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    at[i] = from + (to - from) * (float)(state >> 8) / 16777216.0f;
  }
  return at;
}

static void operands_open(bench *b) {
  b->x = numbers(ELEMENTS, -4, 4), b->gate = numbers(ELEMENTS, -4, 4), b->y = numbers(ELEMENTS, 0, 0);
  b->weight = numbers(ELEMENTS, -1, 1), b->bias = numbers(ELEMENTS, -1, 1), b->rows = numbers(ELEMENTS, 0, 0);
  b->cosine = numbers(POSITIONS * 512, -1, 1), b->sine = numbers(POSITIONS * 512, -1, 1);
  b->number = tool_pages(ELEMENTS * sizeof *b->number);
  for (int i = 0; i < ELEMENTS; i++) b->number[i] = i % 100;
}

static void operands_close(bench *b) {
  free(b->x), free(b->gate), free(b->y), free(b->weight), free(b->bias), free(b->rows);
  free(b->cosine), free(b->sine), free(b->number);
}

static tg_nn_desc desc_of(int i, int64_t columns, int threads) {
  bool layernorm = operations[i].op == TG_NN_LAYERNORM, norm = layernorm || operations[i].op == TG_NN_RMSNORM;
  return (tg_nn_desc){.op = operations[i].op,
                      .activation = operations[i].activation,
                      .weight = norm ? TG_F32 : 0,
                      .bias = layernorm ? TG_F32 : 0,
                      .rows = {1, INT32_MAX},
                      .columns = {columns, 0},
                      .head = operations[i].op == TG_NN_ROPE && columns % HEAD == 0 ? HEAD : 0,
                      .threads = threads};
}

static tg_nn_call call_of(const bench *b, int i, int64_t rows) {
  tg_nn_call c = {.rows = rows, .x = b->x};
  switch (operations[i].op) {
    case TG_NN_CROSS_ENTROPY: c.target = b->number, c.loss = b->rows; return c;
    case TG_NN_ROPE: c.position = b->number, c.cosine = b->cosine, c.sine = b->sine, c.positions = POSITIONS; break;
    case TG_NN_LAYERNORM: c.weight = b->weight, c.bias = b->bias; break;
    case TG_NN_RMSNORM: c.weight = b->weight; break;
    case TG_NN_GATE: c.gate = b->gate; break;
    default: break;
  }
  c.y = b->y;
  return c;
}

/* ---- cases ---- */

static void wrong(bench *b, const char *name, const char *what) {
  fprintf(stderr, "tg bench nn: %s: %s\n", name, what);
  b->result = TOOL_WRONG;
}

static void compare(bench *b, const char *name, own *o, asking *a) {
  bench_ratio r;
  int threads = a->threads;
  double seconds = b->args->seconds > 0 ? b->args->seconds : usual_seconds;
  bench_contest contest = {.side = {{own_run, o}, {peer_run, a}}, .timed = {NULL, peer_timed},
                           .threads = threads, .seconds = seconds};
  if (!b->torch.here) contest.side[1] = contest.side[0], contest.timed[1] = NULL;
  if (!bench_contest_run(&contest, &b->peak[threads], &r)) return wrong(b, name, b->torch.about);
  double bytes = 2.0 * sizeof(float) * (double)(a->rows * a->columns), times = 1 / r.ratio;
  tool_figure(b->args->json, "nn", name, "", bytes / r.seconds[0] * 1e-9, "GB/s", NULL);
  if (!b->torch.here) return;
  tool_figure(b->args->json, "nn", name, "", times, "times as fast", "PyTorch");
  b->product[threads] += log(times);
  if (!b->compared[threads]++ || times < b->least[threads]) b->least[threads] = times;
}

static void one(bench *b, int i, int64_t columns, int threads) {
  char name[128];
  snprintf(name, sizeof name, "%s %lld, %d thread%s", operations[i].name, (long long)columns, threads,
           threads > 1 ? "s" : "");
  /* a row of one head in pairs: an even number, and as many as the tables have */
  bool whole = columns % HEAD == 0 || (columns % 2 == 0 && columns <= 1024);
  if ((operations[i].op == TG_NN_ROPE && !whole) || (b->args->cases && !strstr(name, b->args->cases))) return;
  int64_t rows = ELEMENTS / columns;
  tg_nn_desc d = desc_of(i, columns, threads);
  own o = {.call = call_of(b, i, rows)};
  b->ran++;
  if (tg_nn_plan(b->ctx[threads], &d, &o.plan)) return wrong(b, name, tg_error_message(b->ctx[threads]));
  o.call.workspace_bytes = tg_nn_workspace(o.plan, &o.call);
  o.call.workspace = tool_pages(o.call.workspace_bytes + 64);
  asking a = {&b->torch, operations[i].name, rows, columns, threads};
  if (own_run(&o)) compare(b, name, &o, &a);
  else wrong(b, name, tg_error_message(b->ctx[threads]));
  free(o.call.workspace);
  tg_nn_free(o.plan);
}

int bench_nn(const tool_args *a) {
  static const int64_t columns[] = {100, 1000, 4096, 50257};
  bench b = {.args = a};
  tg_target host;
  tg_target_host(&host, 0);
  int most = host.threads < THREADS ? 1 : THREADS;
  for (int t = 1; t <= most; t++)
    if (tg_context_create(&(tg_context_options){.threads = t, .cache = a->cache, .tuned = a->tuned}, &b.ctx[t]))
      return TOOL_BROKEN;
  operands_open(&b);
  peer_open(&b.torch, a->vs);
  if (!a->json) printf("against %s%s\n", b.torch.here ? "" : "nothing: ", b.torch.about);
  for (int t = 1; t <= most; t++)
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
      for (size_t n = 0; n < sizeof columns / sizeof *columns; n++) one(&b, (int)i, columns[n], t);
  for (int t = 1; t <= most; t++) {
    char name[64];
    snprintf(name, sizeof name, "%d cases, %d thread%s", b.compared[t], t, t > 1 ? "s" : "");
    if (b.compared[t]) {
      tool_figure(a->json, "nn", name, "geomean", exp(b.product[t] / b.compared[t]), "times as fast", "PyTorch");
      tool_figure(a->json, "nn", name, "least", b.least[t], "times as fast", "PyTorch");
    }
    tg_context_free(b.ctx[t]);
  }
  peer_close(&b.torch);
  operands_close(&b);
  if (!b.ran) return fprintf(stderr, "tg bench nn: no case contains '%s'\n", a->cases), TOOL_USAGE;
  return b.result;
}
