/* SPDX-License-Identifier: MIT
 * A layer of an engine: y = max(x W^T + bias, 0) for any number of tokens, on the engine's own threads and memory. One plan serves a single token
 * and a prompt of hundreds; after it is made nothing is compiled or allocated. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tg/gemm.h>

enum { IN = 192, OUT = 160, TOKENS = 300, THREADS = 2 };

/* ---- the engine's scheduler: a thread for each task but the first ---- */

typedef struct { void (*task)(void *arg, int64_t i); void *arg; int64_t i; } errand;

static void *run_errand(void *p) {
  errand *e = p;
  e->task(e->arg, e->i);
  return NULL;
}

static void parallel_for(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  pthread_t threads[THREADS];
  errand errands[THREADS];
  int64_t started = 0;
  (void)user;
  for (int64_t i = 1; i < n; i++) {
    errands[i] = (errand){task, arg, i};
    if (pthread_create(&threads[i], NULL, run_errand, &errands[i])) break;
    started = i;
  }
  task(arg, 0);
  for (int64_t i = started + 1; i < n; i++) task(arg, i);
  for (int64_t i = 1; i <= started; i++) pthread_join(threads[i], NULL);
}

static float x[TOKENS][IN], weights[OUT][IN], bias[OUT], y[TOKENS][OUT];

static int is_wrong(int64_t tokens) {
  for (int64_t t = 0; t < tokens; t++)
    for (int o = 0; o < OUT; o++) {
      float want = bias[o];
      for (int i = 0; i < IN; i++) want += x[t][i] * weights[o][i];   /* small integers: exact in any order */
      if (y[t][o] != (want > 0 ? want : 0)) return 1;
    }
  return 0;
}

int main(void) {
  for (int i = 0; i < TOKENS * IN; i++) x[i / IN][i % IN] = (float)(i % 7 - 3);
  for (int i = 0; i < OUT * IN; i++) weights[i / IN][i % IN] = (float)(i % 5 - 2);
  for (int i = 0; i < OUT; i++) bias[i] = (float)(i % 9);

  tg_context *context;
  if (tg_context_create(NULL, &context)) return 1;
  tg_gemm_desc d = {.m = {1, TOKENS}, .n = {OUT, 0}, .k = {IN, 0}, .b_major = TG_COLUMN_MAJOR, .threads = THREADS,
                    .epilogue = "max(acc + bias, 0)", .arg = {{"bias", TG_F32, TG_PER_COLUMN}}};
  tg_gemm *layer;
  if (tg_gemm_plan(context, &d, &layer)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;

  tg_exec exec = {THREADS, parallel_for, NULL};
  size_t bytes = tg_gemm_workspace(layer, NULL);
  void *workspace = malloc(bytes + 1);
  tg_gemm_call call = {.a = x, .b = weights, .c = y, .arg = {bias}, .workspace = workspace, .workspace_bytes = bytes, .exec = &exec};
  int wrong = 0;
  for (call.m = 1; call.m <= TOKENS; call.m = 4 * call.m + 3) {
    if (tg_gemm_run(layer, &call)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
    wrong |= is_wrong(call.m);
    printf("%3lld tokens: %s\n", (long long)call.m, wrong ? "wrong" : "right");
  }
  free(workspace);
  tg_gemm_free(layer);
  tg_context_free(context);
  return wrong;
}
