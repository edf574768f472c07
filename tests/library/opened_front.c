/* SPDX-License-Identifier: MIT
 * A library whose constructor multiplies by the BLAS front (tests/library/opened.c). */
enum { N = 40 };
void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *, const float *, const int *, const float *, float *, const int *);

__attribute__((visibility("default"))) int opened_front_good;

__attribute__((constructor)) static void multiply(void) {
  static float a[N * N], b[N * N], c[N * N];
  const int n = N;
  const float one = 1, zero = 0;
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 7 - 3), b[i] = (float)(i / N == i % N);
  sgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
  opened_front_good = 1;
  for (int i = 0; i < N * N; i++) opened_front_good &= a[i] == c[i];
}
