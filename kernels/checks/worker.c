/* SPDX-License-Identifier: MIT
 * The worker of a search: it has the checks of all operations. The text about a problem begins with the operation. */
#include "checks/attention_tune.h"
#include "checks/gemm.h"
#include "trial/trial.h"

static tg_status checks_of_all(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                               uint64_t seed, double *whole, char *message, size_t message_n) {
  bool attention = !strncmp(about, "attention", 9);
  return (attention ? tg_attention_trial : tg_check_trial)(c, about, k, words, threads, seed, whole, message,
                                                           message_n);
}

void tg_tune_worker(int in, int out) {
  tg_bench *b = tg_trial_bench_new(checks_of_all);
  if (b) tg_serve(b, in, out);
  tg_trial_bench_free(b);
}
