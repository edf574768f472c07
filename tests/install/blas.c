/* SPDX-License-Identifier: MIT
 * A program that links a BLAS: one product, right or wrong. LLVM is in the process afterwards if, and only if, an argument says so. */
#include <stdio.h>
#include <string.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *, const float *, const int *, const float *, float *, const int *);

int main(int argc, char **argv) {
  enum { N = 40 };
  static float a[N * N], b[N * N], c[N * N];
  const int n = N;
  const float one = 1, zero = 0;
  int wrong = 0, llvm = 0;
  char line[512];
  (void)argv;
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 7 - 3), b[i] = (float)(i % 5 - 2);
  sgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
  for (int j = 0; j < N; j++)
    for (int i = 0; i < N; i++) {
      float s = 0;
      for (int k = 0; k < N; k++) s += a[k * N + i] * b[k * N + j];
      wrong += c[j * N + i] != s;
    }
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) llvm |= strstr(line, "libLLVM") != NULL;
  if (f) fclose(f);
  printf("%d wrong, LLVM %s\n", wrong, llvm ? "loaded" : "not loaded");
  return wrong || llvm != (argc > 1);
}
