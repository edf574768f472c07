/* SPDX-License-Identifier: MIT
 * tg bench kernels, attention: flash attention of 512 queries over 4096 keys at head dim 64 against this machine's FMA
 * peak and the same algorithm in
 * plain C, whole and causal, and with the keys split over two threads. 4 D operations are counted for each query and
 * key that it sees; the
 * exponentials come on top. Every figure comes from one run in which contestants take turns; each result is checked
 * against C first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/dsl.h>
#include "bench/bench.h"
#include "bench/machine.h"

enum { ROUNDS_MAX = 32, QUERIES = 512, KEYS = 4096, DIM = 64, BLOCK = 64 };

typedef struct { const char *name; int causal; const char *const *words; } variant;   /* words NULL: the heuristic's */

/* Query i sees all keys, or the first Tk - Tq + i + 1. */
TG_KERNEL(flash, Tq, Tk, D) {
  const variant *v = (const variant *)tg_user;
  tg_let(BQ, BLOCK);
  tg_let(BK, BLOCK);
  tg_in(Q, f32, [Tq, D]);
  tg_in(K, f32, [Tk, D]);
  tg_in(V, f32, [Tk, D]);
  tg_out(O, f32, [Tq, D]);
  for (const char *const *w = v->words; w && *w; w++) tg_add_declaration(tg_b_, "opt", *w, __FILE__, __LINE__);
  tg_range(qb, ceildiv(Tq, BQ), global) {
    tg_define_reg(q, f32, [BQ, D]);
    tg_define_reg(o, f32, [BQ, D]);
    tg_define_reg(m, f32, [BQ]);
    tg_define_reg(l, f32, [BQ]);
    tg_range(i, BQ) {
      tg_range(d, D) tg(q[i,d] = 0.18033688f * (Q[qb*BQ + i, d] else 0)); /* log2(e) / sqrt(64) */
      tg_range(d, D) tg(o[i,d] = 0);
      tg(m[i] = -inf);
      tg(l[i] = 0);
    }
    tg_let(past, v->causal ? 0 : KEYS);
    tg_range(kb, min(ceildiv(Tk, BK), ceildiv(qb*BQ + BQ + Tk - Tq + past, BK))) tg_carry(m, l, o) {
      tg_define_reg(s, f32, [BQ, BK]);
      tg_define_reg(p, f32, [BQ, BK]);
      tg_define_reg(m1, f32, [BQ]);
      tg_define_reg(z, f32, [BQ]);
      tg_define_reg(c, f32, [BQ]);
      tg_range(i, BQ) tg_range(j, BK) {
        tg(let t = sum(d : D, q[i,d] * (K[kb*BK + j, d] else 0)));
        if (v->causal) tg(s[i,j] = where(kb*BK + j <= qb*BQ + i + Tk - Tq, t, -inf));
        else tg(s[i,j] = where(kb*BK + j < Tk, t, -inf));
      }
      tg_range(i, BQ) {
        tg(m1[i] = max(m[i], max(j : BK, s[i,j])));
        tg(z[i] = where(m1[i] == -inf, 0, m1[i]));
        tg(c[i] = exp2(m[i] - z[i]));
        tg_range(j, BK) tg(p[i,j] = exp2(s[i,j] - z[i]));
        tg(l[i] = l[i] * c[i] + sum(j : BK, p[i,j]));
        tg_range(d, D) tg(o[i,d] = o[i,d] * c[i] + sum(j : BK, p[i,j] * (V[kb*BK + j, d] else 0)));
        tg(m[i] = m1[i]);
      }
      tg_merge {
        tg_range(i, BQ) {
          tg(m[i] = max(a.m[i], b.m[i]));
          tg(let y = where(m[i] == -inf, 0, m[i]));
          tg(l[i] = a.l[i] * exp2(a.m[i] - y) + b.l[i] * exp2(b.m[i] - y));
          tg_range(d, D) tg(o[i,d] = a.o[i,d] * exp2(a.m[i] - y) + b.o[i,d] * exp2(b.m[i] - y));
        }
      }
    }
    tg_range(i, BQ) tg_range(d, D) tg(O[qb*BQ + i, d] = where(l[i] == 0, 0, o[i,d] / l[i]) if qb*BQ + i < Tq);
  }
}

/* What the heuristic says for rows, with the keys in two parts before it. */
static const char *const split_words[] = {"thread kb 2 as part kr",
                                          "split i 16 as iu iv",
                                          "upcast iu",
                                          "lane iv",
                                          "place q.1 memory",
                                          "place s.1 memory",
                                          "place p.1 memory",
                                          "place o.1 memory",
                                          "place o memory",
                                          "split s.1.j 4 as jo ju",
                                          "upcast ju",
                                          "split o.1.d#2 4 as do du",
                                          "upcast du",
                                          NULL};

typedef struct { float *q, *k, *v, *o, *want; } arrays;

static bool run(tg_context *ctx, tg_kernel *kernel, const arrays *a, int threads, double *seconds) {
  size_t queries = sizeof(float) * QUERIES * DIM, keys = sizeof(float) * KEYS * DIM;
  tg_argument buffers[] = {{a->q, queries}, {a->k, keys}, {a->v, keys}, {a->o, queries}};
  tg_launch l = {.buffers = buffers, .buffers_n = 4, .threads = threads};
  double t = tool_now();
  bool ok = !tg_kernel_run(kernel, &l);
  if (seconds) *seconds = tool_now() - t;
  if (!ok) fprintf(stderr, "%s\n", tg_error_message(ctx));
  return ok;
}

static bool near(const float *got, const float *want) {
  for (size_t i = 0; i < (size_t)QUERIES * DIM; i++)
    if (!(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])))) return false;
  return true;
}

static int attend(tg_context *ctx, const tool_args *args, const variant *v, const arrays *a) {
  char name[64];
  double flops = 4.0 * DIM * QUERIES * (v->causal ? KEYS - (QUERIES - 1) / 2.0 : KEYS), of_peak[ROUNDS_MAX],
         rate[ROUNDS_MAX], peak[ROUNDS_MAX], vs[ROUNDS_MAX], two[ROUNDS_MAX];
  tg_binding b[] = {{"Tq", QUERIES, QUERIES, 1}, {"Tk", KEYS, KEYS, 1}, {"D", DIM, DIM, 1}};
  tg_compile_options options = {.bindings = b, .bindings_n = 3, .user = (void *)(size_t)v};
  tg_kernel *kernel = NULL;
  snprintf(name, sizeof name, "attention %dx%d d%d%s", QUERIES, KEYS, DIM, v->name);
  if (tg_kernel_compile(ctx, &flash, &options, &kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return TOOL_WRONG;
  }
  bench_c_attention(a->q, a->k, a->v, a->want, QUERIES, KEYS, v->causal);
  if (!run(ctx, kernel, a, 1, NULL)) return TOOL_WRONG;
  bool right = near(a->o, a->want);
  memcpy(a->want, a->o, sizeof(float) * QUERIES * DIM);
  memset(a->o, 0xff, sizeof(float) * QUERIES * DIM);
  right = right && run(ctx, kernel, a, 2, NULL) && !memcmp(a->want, a->o, sizeof(float) * QUERIES * DIM);
  if (!right) {
    fprintf(stderr, "tg: %s: wrong result, or one that depends on the threads\n", name);
    return TOOL_WRONG;
  }
  double end = tool_now() + (args->seconds > 0 ? args->seconds : 3);
  int n = 0;
  for (; n < ROUNDS_MAX && (n < 7 || tool_now() < end); n++) {
    double s1, s2, t, before = bench_fma_peak(0.02);
    run(ctx, kernel, a, 1, &s1);
    double after = bench_fma_peak(0.02);
    run(ctx, kernel, a, 2, &s2);
    run(ctx, kernel, a, 2, &s2);
    t = tool_now();
    bench_c_attention(a->q, a->k, a->v, a->want, QUERIES, KEYS, v->causal);
    t = tool_now() - t;
    peak[n] = before > after ? before : after;
    rate[n] = flops / s1 * 1e-9, of_peak[n] = flops / s1 / peak[n], vs[n] = t / s1, two[n] = s1 / s2;
    peak[n] *= 1e-9;
  }
  tool_figure(args->json, "kernels", name, "FMA peak, one core", tool_median(peak, n), "GFLOP/s", NULL);
  tool_figure(args->json, "kernels", name, "one core", tool_median(rate, n), "GFLOP/s", NULL);
  tool_figure(args->json, "kernels", name, "one core", tool_median(of_peak, n), "ratio", "FMA peak");
  tool_figure(args->json, "kernels", name, "one core", tool_median(vs, n), "ratio", "plain C");
  tool_figure(args->json, "kernels", name, "two cores", tool_median(two, n), "ratio", "one core");
  tg_kernel_free(kernel);
  return TOOL_OK;
}

int bench_attention(tg_context *ctx, const tool_args *args) {
  static const variant variants[] = {{"", 0, NULL}, {" causal", 1, NULL}, {" split keys", 0, split_words}};
  size_t queries = (size_t)QUERIES * DIM, keys = (size_t)KEYS * DIM;
  arrays a = {tool_pages(queries * 4), tool_pages(keys * 4), tool_pages(keys * 4), tool_pages(queries * 4),
              tool_pages(queries * 4)};
  uint32_t seed = 7;
  float *all[] = {a.q, a.k, a.v};
  int worst = TOOL_OK;
  for (int t = 0; t < 3; t++)
    for (size_t i = 0; i < (t ? keys : queries); i++)
      all[t][i] = (float)((int32_t)((seed = seed * 1664525u + 1013904223u) >> 16 & 255) - 128) / 64.0f;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    int r = attend(ctx, args, &variants[i], &a);
    worst = r > worst ? r : worst;
  }
  free(a.q), free(a.k), free(a.v), free(a.o), free(a.want);
  return worst;
}
