/* SPDX-License-Identifier: MIT
 * tg replay's calls of the BLAS front: the front's own code (replay_front.h) makes a descriptor of a call; here it is
 * taken down, and the plan replayed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "replay.h"
#include "replay_front.h"
#include "blas/front.h"

/* Under the front's names for them; the prototypes of the public headers were read without. */
tg_status tg_context_create_runtime_sized(const tg_context_options *options, size_t bytes, tg_context **out);
tg_status tg_gemm_plan_sized(tg_context *c, const tg_gemm_desc *d, size_t desc_bytes, tg_gemm **out);
size_t tg_gemm_workspace_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes);
tg_status tg_gemm_run_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes);
tg_gemm_code *tg_gemm_function(const tg_gemm *g);
void tg_gemm_describe_sized(const tg_gemm *g, tg_gemm_info *out, size_t info_bytes);

static const tg_gemm_desc *asked; /* by the call that ran last: the front's plans are descriptors here, kept for good */

tg_status tg_context_create_runtime_sized(const tg_context_options *options, size_t bytes, tg_context **out) {
  static char any;
  (void)options, (void)bytes;
  *out = (tg_context *)(void *)&any; /* it is handed back, and not looked into */
  return TG_OK;
}

tg_status tg_gemm_plan_sized(tg_context *c, const tg_gemm_desc *d, size_t desc_bytes, tg_gemm **out) {
  tg_gemm_desc *kept = malloc(sizeof *kept);
  (void)c;
  if (!kept || desc_bytes != sizeof *kept) abort();
  *kept = *d;
  memset(kept->likely, 0, sizeof kept->likely); /* else the first call of a class in the list would decide */
  *out = (tg_gemm *)(void *)kept;
  return TG_OK;
}

size_t tg_gemm_workspace_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes) {
  (void)g, (void)call, (void)call_bytes;
  return 0;
}

tg_status tg_gemm_run_sized(const tg_gemm *g, const tg_gemm_call *call, size_t call_bytes) {
  (void)call, (void)call_bytes;
  asked = (const tg_gemm_desc *)(const void *)g;
  return TG_OK;
}

tg_gemm_code *tg_gemm_function(const tg_gemm *g) {
  (void)g;
  return NULL;
}

void tg_gemm_describe_sized(const tg_gemm *g, tg_gemm_info *out, size_t info_bytes) {
  (void)g;
  memset(out, 0, info_bytes);
}

void tg_blas_say(const char *format, ...) { (void)format; }
void tg_blas_flags_hold(tg_blas_flags *f) { (void)f; }
void tg_blas_flags_settle(tg_blas_flags *f, const tg_blas_product *p, int fresh) { (void)f, (void)p, (void)fresh; }

bool replay_front(replay_code *r, const char *name) {
  static const double wide[2] = {1, 2};
  static const float narrow[2] = {1, 2}, none = 0;
  static const double wide_none = 0;
  char type, ta, tb, alpha, beta, end;
  long long m, n, k, threads = REPLAY_THREADS;
  char text[16];
  if (sscanf(name, "%c%c%c%c%c:%lldx%lldx%lld%c", &type, &ta, &tb, &alpha, &beta, &m, &n, &k, &end) != 8) return false;
  if (!strchr("sd", type) || !strchr("NT", ta) || !strchr("NT", tb) || !strchr("-a", alpha) || !strchr("-b", beta) ||
      m < 1 || n < 1 || k < 1)
    return false;
  snprintf(text, sizeof text, "%lld", threads);
  setenv("TG_BLAS_THREADS", text, 1); /* read by the first call */
  unsetenv("TG_BLAS_TARGET");
  setenv("TG_BLAS_COMPILE", "first", 1);   /* the classes' own plans are what is looked at */
  bool f64 = type == 'd';
  tg_blas_product p = {.wide = f64,
      .ta = ta == 'T',
      .tb = tb == 'T',
      .m = m,
      .n = n,
      .k = k,
      .lda = m > k ? m : k,
      .ldb = n > k ? n : k,
      .ldc = m};
  p.alpha = f64 ? (const void *)&wide[alpha == 'a'] : &narrow[alpha == 'a'];
  p.beta = beta == 'b' ? (f64 ? (const void *)&wide[0] : &narrow[0]) : f64 ? (const void *)&wide_none : &none;
  asked = NULL;
  if (!tg_blas_compute(&p) || !asked) return false;
  replay_plan(r, asked);
  return true;
}
