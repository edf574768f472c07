/* SPDX-License-Identifier: MIT
 * How plans divide products of 1e8 operations and more among 4, 8, 16 and 64 threads: the work of the thread that has
 * most, over the mean: at most 1.10, or, where C's columns are divided, as much as a whole vector makes more than the
 * mean. From the plan, for processors as data; nothing is run.
 *   gemm_balance          a third of the cases, drawn so that each shape, layout, processor and number of threads is among them
 *   gemm_balance all      all */
#include <stdlib.h>
#include <string.h>
#include "../target.h"
#include "../test.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"

static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

/* Rows or columns of the thread that has most of `all`, which are dealt in tasks of `task`. */
static int64_t most_of(int64_t all, int64_t task, int64_t threads) {
  int64_t tasks = up(all, task), rounds = up(tasks, threads);
  return tasks % threads == 1 && rounds * task > all - (tasks - 1) * task + (rounds - 1) * task
             ? (rounds - 1) * task + (tasks > 1 ? 0 : all) + all - (tasks - 1) * task
             : rounds * task < all ? rounds * task : all;
}

/* 0: not known. */
static double busiest(const tg_gemm *g, const tg_kit_part *part, int64_t threads) {
  const tg_gemm_problem *q = &g->problem;
  double all = (double)q->m.lo * (double)q->n.lo, mean = all / (double)threads;
  if (part->strips.n > 1) {
    int64_t along = part->strips.rows ? q->m.lo : q->n.lo;
    return (double)most_of(along, part->strips.size, threads) * (all / (double)along) / mean;
  }
  const tg_kit_choice *c = &part->choice;
  tg_gemm_roles o = c->sketch == tg_gemm_stream.kernel || c->sketch == tg_gemm_dot.kernel ? tg_gemm_thin_roles_of(q)
                                                                                         : tg_gemm_roles_of(q);
  int64_t rows = o.r == 'i' ? q->m.lo : q->n.lo, columns = o.r == 'i' ? q->n.lo : q->m.lo,
          team = tg_kit_knob_of(c, "TEAM", 0), parts = tg_kit_knob_of(c, "PARTS", 0);
  if (parts) return (double)up(parts, threads) * (double)threads / (double)parts;
  if (team == 1)
    return (double)most_of(rows, tg_kit_knob_of(c, "MR", 1) * tg_kit_knob_of(c, "MB", 1), threads) * (double)threads /
           (double)rows;
  int64_t wide = c->sketch == tg_gemm_dot.kernel ? tg_kit_knob_of(c, "NC", 1)
                                                 : tg_kit_knob_of(c, "VL", 1) * tg_kit_knob_of(c, "NU", 1);
  if (team == 2)
    return (double)most_of(columns, wide * tg_kit_knob_of(c, "NB", 1), threads) * (double)threads / (double)columns;
  return (double)threads;
}

int main(int argc, char **argv) {
  const bool whole = argc > 1 && !strcmp(argv[1], "all");
  /* squares, transformers, odd ones, convolutions, tall and thin ones */
  static const int64_t shape[][3] = {{512, 512, 512}, {1024, 1024, 1024}, {1536, 1536, 1536}, {2048, 2048, 2048},
      {512, 2304, 768}, {128, 1024, 4096}, {64, 4096, 1024}, {2048, 3072, 768}, {511, 513, 509}, {1000, 1000, 1000},
      {767, 511, 333}, {1999, 17, 600 * 5}, {64, 3136, 576}, {128, 784, 1152}, {256, 196, 2304}, {512, 49, 4608},
      {16384, 64, 64}, {100000, 32, 32}, {8, 16384, 1024}, {48, 1120, 4569}, {4096, 16, 4096}};
  static const int threads[] = {4, 8, 16, 64};
  static const char *const targets[] = {"znver3", "znver4", "sapphirerapids"};
  double most = 0;
  int all = 0, beyond = 0;
  for (uint32_t t = 0; t < sizeof targets / sizeof *targets; t++)
    for (uint32_t n = 0; n < sizeof threads / sizeof *threads; n++) {
      tg_context *c = NULL;
      if (tg_context_create(&(tg_context_options){.target = targets[t], .threads = threads[n]}, &c) != TG_OK) continue;
      for (uint32_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int layout = 0; layout < 2; layout++) {
          if (!whole && (i + (uint32_t)layout + n + t) % 3) continue;
          const int64_t *s = shape[i];
          tg_gemm g;
          tg_gemm_desc d = {.m = {s[0], 0}, .n = {s[1], 0}, .k = {s[2], 0}, .b_major = (uint8_t)layout, .threads = threads[n]};
          if (2.0 * (double)s[0] * (double)s[1] * (double)s[2] < 1e8) continue;
          bool ok = tg_gemm_lay_out(c, &d, &g) == TG_OK && g.parts_n == 1;
          double part = ok ? busiest(&g, &g.part[0], threads[n]) : 0;
          /* strips of columns are of whole vectors, or of halves where the widest are done as such */
          const double *fma = c->target.machine.fma;
          uint32_t unit = c->target.vector_bytes / (fma[2] > 0 && fma[2] < fma[1] ? 8 : 4);
          bool vector = ok && g.part[0].strips.n > 1 && !g.part[0].strips.rows &&
                        g.part[0].strips.size - s[1] / threads[n] < unit;
          all++, beyond += part > 1.10;
          CHECK(ok && (part <= 1.10 || vector), "%s, %d threads, %lld x %lld x %lld %s: the busiest has %.2f of the mean, in %u strips of %lld, %s", targets[t],
                threads[n], (long long)s[0], (long long)s[1], (long long)s[2], layout ? "NT" : "NN", part, ok ? g.part[0].strips.n : 0,
                ok ? (long long)g.part[0].strips.size : 0, ok ? g.part[0].choice.sketch->name : "");
          most = part > most ? part : most;
        }
      tg_context_free(c);
    }
  printf("at most %.3f of the mean; %d of %d above 1.10\n", most, beyond, all);
  return TEST_END();
}
