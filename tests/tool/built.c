/* SPDX-License-Identifier: MIT
 * A program that links a kernel which `tg build` made, and nothing of tg: its result against plain C, on the caller's
 * thread and dealt to threads of its own. C11 and C++. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "k.h"

enum { MOST = 8 };
typedef void task_fn(void *argument, int64_t i);
typedef struct { task_fn *task; void *argument; int64_t from, to; } share;

static void *work(void *user) {
  share *s = (share *)user;
  for (int64_t i = s->from; i < s->to; i++) s->task(s->argument, i);
  return NULL;
}

/* As an engine would deal tasks to its threads. */
static void deal(void *user, int64_t n, task_fn *task, void *argument) {
  pthread_t thread[MOST];
  share of[MOST];
  ++*(int *)user;
  for (int k = 0; k < MOST; k++) {
    of[k].task = task, of[k].argument = argument, of[k].from = n * k / MOST, of[k].to = n * (k + 1) / MOST;
    pthread_create(&thread[k], NULL, work, &of[k]);
  }
  for (int k = 0; k < MOST; k++) pthread_join(thread[k], NULL);
}

int main(void) {
  enum { N = 512, K = 512 };
  static const int64_t rows[] = {1, 7, 64, 333};
  int wrong = 0, dealt = 0;
  float *A = (float *)malloc(333 * K * 4), *B = (float *)malloc(K * N * 4), *C = (float *)malloc(333 * N * 4);
  for (int i = 0; i < 333 * K; i++) A[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; i++) B[i] = (float)(i % 5 - 2);
  for (int t = 0; t < 8; t++) {
    int64_t M = rows[t % 4];
    for (int i = 0; i < 333 * N; i++) C[i] = -1;
    int result = matmul(A, (size_t)M * K * 4, B, K * N * 4, C, (size_t)M * N * 4, M, t < 4 ? NULL : deal, &dealt);
    if (result) wrong++, printf("M = %d: %s\n", (int)M, matmul_message(result));
    for (int64_t i = 0; i < M; i += 13)
      for (int j = 0; j < N; j += 3) {
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
        wrong += C[i * N + j] != s;
      }
    for (int64_t i = M * N; i < 333 * N; i++) wrong += C[i] != -1;
  }
  int few = matmul(A, 4, B, K * N * 4, C, 4, 1, NULL, NULL), many = matmul(A, 0, B, 0, C, 0, 4097, NULL, NULL);
  printf("%d wrong, dealt %d times; %s; %s\n", wrong, dealt, matmul_message(few), matmul_message(many));
  free(A), free(B), free(C);
  return wrong != 0;
}
