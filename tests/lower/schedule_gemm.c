/* SPDX-License-Identifier: MIT
 * The words of a schedule that matrix products need: sums in blocks that wait in the output or in a tile, lines asked for ahead of a sum's terms, operands packed
 * by a kernel of their own, strides known in one of two versions. Programs after each word to the letter, results for many sizes, refusals. */
#include "schedule_kit.h"
#include "schedule_gemm_cases.h"

static const char *const blocked_schedules[] = {
    "order k i j",
    "split k 4 clip as kc kr\norder kc j i\nlane i 4",
    "split k 3 as kc kr\norder kc i j\ncut kc first\nlane j 4",
    "split k 3 clip as kc kr\norder i kc j\ncut kc last\nlane j 4",
    "split k 2 clip as kc kr\norder kc i j\ncut kc first\ncut kc.main last\nsplit i {4, 2, 1} as ir iu\nupcast iu\nlane j 4",
    "split j 4 clip as jo jv\nsplit k 4 clip as kc kr\norder jo kc i jv\nthread jo\nstage B at kc as Bp[k, j]\nupcast i 2",
};

static void blocked(void) {
  static const int sizes[] = {1, 2, 3, 4, 7, 8, 9, 13};
  char text[64];
  for (uint32_t q = 0; q < TG_COUNT(blocked_kernels); q++)
    for (uint32_t s = 0; s < TG_COUNT(blocked_schedules); s++)
      for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
        int m = sizes[i], n = sizes[(i * 3 + s) % TG_COUNT(sizes)], k = sizes[(i * 5 + 2 * s + 1) % TG_COUNT(sizes)];
        snprintf(text, sizeof text, "M=%d N=%d K=%d", m, n, k);
        equal(blocked_kernels[q], blocked_schedules[s], text);
        snprintf(text, sizeof text, "M=1..%d N=1..%d K=1..%d", m, n, k);
        equal(blocked_kernels[q], blocked_schedules[s], text);
      }
}

static const char *const packed_schedules[] = {
    "stage B at i space=packed",
    "split j 4 as jo jv\norder jo i jv\nstage B at jo as Bp[j/4, k, j%4] space=packed\nlane jv\nstage A at i as Ap[i/3, k, i%3] pitch=5 space=packed",
    "split j 8 as jo jv\nsplit k 3 clip as kc kr\norder kc jo i jv\nstage B at kc as Bp[k/2, j/8, k%2, j%8] space=packed fill=3\nsplit i {4, 2, 1} as ir iu\nupcast iu\nlane jv",
    "split j 8 clip as jo jv\norder jo i jv\nstage B at i as Bp[j/4, k, j%4] space=packed\nstage Bp at jo as Bl",
};

static void packed(void) {
  static const int sizes[] = {1, 2, 3, 4, 7, 8, 9, 13};
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(packed_schedules); s++)
    for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
      int m = sizes[i], n = sizes[(i * 3 + s) % TG_COUNT(sizes)], k = sizes[(i * 5 + 2 * s + 1) % TG_COUNT(sizes)];
      snprintf(text, sizeof text, "M=%d N=%d K=%d", m, n, k);
      equal(matmul_kernel, packed_schedules[s], text);
      if (s < 3) equal(half_kernel, packed_schedules[s], text);
      snprintf(text, sizeof text, "M=1..%d N=1..%d K=1..%d", m, n, k);
      if (s < 3) equal(matmul_kernel, packed_schedules[s], text);
      equal(zero_kernel, "split j 4 as jo jv\nstage B at i as Bp[j/4, d0/4, j%4, d0%4] space=packed with S[n] = sum(k, i32(B[k,n]))\nlane jv\nupcast i 2", text);
    }
}

static const char *const asking_schedules[] = {
    "prefetch A at k ahead 3\nprefetch B at k ahead 1 to l2",
    "lane j 8\nupcast i 2\nsplit k 4 as ko ku\nunroll ku\nprefetch B at ku ahead 8\nprefetch A at ko ahead 1",
    "split j 8 as jo jv\nstage B at jo as Bp[k, j]\nsplit i {3, 2, 1} as ir iu\nupcast iu\nlane jv\nprefetch Bp at k ahead 2\nprefetch C at ir ahead 0 rw",
    "lane k 8 as ko kl\nprefetch A at ko ahead 2",
};

static void asking(void) {
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(asking_schedules); s++)
    for (int n = 1; n < 20; n += 3) {
      snprintf(text, sizeof text, "M=%d N=%d K=%d", n % 7 + 1, n, n % 5 + 2);
      equal(matmul_kernel, asking_schedules[s], text);
      equal(half_kernel, asking_schedules[s], text);
    }
}

int main(void) {
  for (uint32_t i = 0; i < TG_COUNT(word_cases); i++) expect(&word_cases[i], false);
  for (uint32_t i = 0; i < TG_COUNT(refusal_cases); i++) expect(&refusal_cases[i], true);
  blocked();
  asking();
  packed();
  return TEST_END();
}
