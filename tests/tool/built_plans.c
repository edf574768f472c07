/* SPDX-License-Identifier: MIT
 * A program that links products which `tg build gemm` made, and nothing of tg: their results against plain C, with
 * weights packed by the object's own function. C11 and C++. */
#include <stdio.h>
#include <stdlib.h>
#include "plans.h"

static void one_after_another(void *user, int64_t n, void (*task)(void *argument, int64_t i), void *argument) {
  ++*(int *)user;
  for (int64_t i = n; i-- > 0;) task(argument, i);
}

int main(void) {
  enum { M = 70, N = 96, K = 128 };
  int wrong = 0, dealt = 0;
  float *A = (float *)malloc(M * K * 4), *B = (float *)malloc(K * N * 4), *C = (float *)malloc(M * N * 4), bias[N];
  void *packed = malloc(up_packed_bytes), *workspace = malloc(up_workspace(2) + 1);
  for (int i = 0; i < M * K; i++) A[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; i++) B[i] = (float)(i % 5 - 2);
  for (int i = 0; i < N; i++) bias[i] = (float)(i % 3);
  wrong += up_pack(B, 0, 0, packed) != 0;
  for (int round = 0; round < 4; round++) {
    int m = round % 2 ? M : 1;
    int r = up(A, (size_t)m * K * 4, (const float *)packed, up_packed_bytes, C, (size_t)m * N * 4, bias, sizeof bias, m, 0, 0,
               workspace, up_workspace(2), 2, round < 2 ? NULL : one_after_another, &dealt);
    if (r) wrong++, printf("%s\n", up_message(r));
    for (int i = 0; i < m; i++)
      for (int j = 0; j < N; j++) {
        float s = bias[j];
        for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
        wrong += C[i * N + j] != (s > 0 ? s : 0);
      }
  }
  int many = up(A, 0, (const float *)packed, 0, C, 0, bias, sizeof bias, M + 1, 0, 0, NULL, 0, 1, NULL, NULL);
  int few = small(A, 4 * 5 * 4, B, 5 * 6 * 4, C, 4 * 6 * 4 - 1, 0, 0, 0, NULL, 0, 1, NULL, NULL);
  printf("%d wrong; %s; %s\n", wrong, up_message(many), small_message(few));
  free(A), free(B), free(C), free(packed), free(workspace);
  return wrong != 0;
}
