/* SPDX-License-Identifier: MIT
 * Tuning a product: searches all sketches for the kernel that a plan would compile, and keeps the choice under the key
 * that the plan looks up. */
#include <math.h>
#include <stdio.h>
#include "trial/trial.h"
#include "checks/gemm.h"
#include "gemm/plan.h"

tg_status tg_gemm_space_of(tg_context *c, const tg_gemm_desc *d, int64_t m, int64_t n, int64_t k, tg_gemm_space *out) {
  char message[192];
  tg_status s = tg_gemm_lay_out(c, d, &out->plan);
  if (s != TG_OK) return s;
  const tg_gemm *g = &out->plan;
  tg_gemm_problem q = g->problem;
  m = q.m.lo == q.m.hi && !m ? q.m.lo : m, n = q.n.lo == q.n.hi && !n ? q.n.lo : n,
  k = q.k.lo == q.k.hi && !k ? q.k.lo : k;
  const tg_kit_part *part = tg_kit_part_for(g->part, g->parts_n, (int64_t[]){m, n, k, 0}, GEMM_SIZES);
  if (!part || m < 1 || n < 1 || k < 1) {
    snprintf(message, sizeof message, "tg_gemm_tune: no plan of this descriptor serves %lld x %lld x %lld",
             (long long)m, (long long)n, (long long)k);
    return tg_context_fail(c, TG_EINVAL, message);
  }
  if (q.panel || q.a_major == TG_GEMM_STRIDES || q.b_major == TG_GEMM_STRIDES || q.c_major == TG_GEMM_STRIDES)
    return tg_context_fail(
        c, TG_EINVAL,
        "tg_gemm_tune: products with B packed ahead, or with strides that each call gives, are not tuned");
  q = tg_gemm_of_part(g, part);
  out->strips = part->strips.n > 1 ? part->strips.n : 0;
  memcpy(out->size, (int64_t[]){m, n, k}, sizeof out->size);
  if (out->strips) { /* a kernel computes one strip; all strips but the last have the same size */
    q = tg_gemm_strip(&q, &part->strips, 0);
    out->size[0] = q.m.lo, out->size[1] = q.n.lo;
  }
  out->problem = q;
  out->choice = &part->choice;
  out->bindings_n = tg_gemm_bind(g, &q, out->binding);
  out->params_n = tg_gemm_params(&q, (int64_t[]){m, n, k}, NULL, out->binding, out->bindings_n, out->params);
  out->defs_n = tg_gemm_sketches_for(g, &out->problem, &part->choice, out->def, out->defs);
  return TG_OK;
}

/* ---- on a part of the rows ---- */

/* The number of rows of C that candidates are timed on. K and N are those of the whole product, so that B is copied and
 * read in the same way. Rows: as many as fit a share of the budget with which some dozens of candidates can be timed,
 * but
 * - at least BLOCKS blocks (or tiles) for each thread;
 * - at least REUSE rows for each byte of an element, so that the copy of B, made once for all rows, weighs little.
 *   Copying moves 2 bytes for each byte of B; at 10 FLOP per byte of memory bandwidth this takes as long as 10 rows
 *   per byte of an element, a fifth of the time of REUSE = 50.
 * If this is more than half of the rows, all rows are used. */
static int64_t rows_of_part(const tg_gemm_space *w, uint32_t threads, double budget) {
  enum { RUNS = 960, BLOCKS = 3, REUSE = 50, LIKE = 48 };   /* LIKE: keeps the remainder of rows of the whole */
  const tg_gemm_problem *q = &w->problem;
  int64_t m = w->size[0], tile = tg_kit_knob_of(w->choice, "MR", 8),
          block = threads > 1 ? tile * tg_kit_knob_of(w->choice, "MB", 1) : tile;
  /* no part if m is known at launch only, where one kernel serves all m; nor with an epilogue, for which there is no
   * check of all of C; nor on a device, whose rate is not known here */
  if (q->m.lo != q->m.hi || q->epilogue || w->plan.plan.device) return m;
  int bytes = tg_type_bytes(q->b) < tg_type_bytes(q->a) ? tg_type_bytes(q->b) : tg_type_bytes(q->a);
  double rate = tg_trial_rate(&w->plan.plan.context->target, bytes) * threads,
         row = 2.0 * (double)w->size[1] * (double)w->size[2] / rate;
  if (row * (double)m <= budget / RUNS) return m;
  double rows = fmax(budget / RUNS / row, fmax(REUSE * tg_type_bytes(q->b), (double)(BLOCKS * block * threads)));
  if (rows > (double)m / 2) return m;
  int64_t p = (int64_t)rows;
  return p + ((m - p) % LIKE + LIKE) % LIKE;
}

tg_status tg_gemm_tune_sized(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, int64_t m, int64_t n,
                             int64_t k, const tg_tune_options *options, size_t options_bytes, tg_tune_result **out) {
  tg_gemm_desc d;
  tg_tune_options o;
  tg_gemm_space w;
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  if (TG_READ(c, tg_gemm_desc, &d, desc, desc_bytes) != TG_OK ||
      TG_READ(c, tg_tune_options, &o, options, options_bytes) != TG_OK)
    return TG_EINVAL;
  tg_status s = tg_gemm_space_of(c, &d, m, n, k, &w);
  if (s != TG_OK) return s;
  if (!o.threads || o.threads > w.plan.plan.most) o.threads = w.plan.plan.most;   /* the plan uses no more threads */
  if (w.strips || w.plan.plan.device) o.threads = 1;
  o.device = d.device;
  o.bindings = w.binding, o.bindings_n = w.bindings_n, o.user = &w.problem, o.params = w.params,
  o.params_n = w.params_n;
  if (!o.start && !o.start_kernel) o.start = w.choice->knob, o.start_n = w.choice->knobs_n;
  const tg_check_size at = {w.size[0], w.size[1], w.size[2]};
  const int64_t ld[3] = {w.plan.ld[0].lo, w.plan.ld[1].lo, w.plan.ld[2].lo};
  char about[4096], part_about[4096];
  uint32_t threads = o.threads && o.threads < c->target.threads ? o.threads : c->target.threads;
  int64_t rows = rows_of_part(&w, threads, o.seconds > 0 ? o.seconds : 20);
  tg_gemm_problem some = w.problem;
  tg_binding part[GEMM_VALUES];
  memcpy(part, w.binding, sizeof part);
  some.m = (tg_kit_dim){rows, rows};
  for (uint32_t i = 0; i < w.bindings_n; i++)
    if (!strcmp(part[i].name, "M")) part[i].lo = part[i].hi = rows;
  const tg_check_size at_part = {rows, w.size[1], w.size[2]};
  if (tg_check_about(&w.problem, &at, ld, about, sizeof about) >= sizeof about ||
      tg_check_about(&some, &at_part, ld, part_about, sizeof part_about) >= sizeof part_about)
    return tg_context_fail(c, TG_ELIMIT, "tg_gemm_tune: the epilogue is too long");
  const tg_tune_kind kind = {.checks = tg_check_trial,
                             .about = about,
                             .part = rows < w.size[0] ? part : NULL,
                             .part_user = &some,
                             .part_about = part_about,
                             .share = (double)rows / (double)w.size[0]};
  s = tg_tune_checked(c, w.defs, w.defs_n, &o, &kind, out);
  if (*out) (*out)->strips = w.strips;
  return s;
}
