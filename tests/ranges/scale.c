/* SPDX-License-Identifier: MIT
 * The rewriter's cost: chains and balanced trees of n nodes, of wrapping, index and float ops: nothing in it is quadratic, which twice
 * the nodes would show as four times the processor time (every leaf is another one, but for INDEX, which has 256 ranges); `tg bench lower`
 * measures how far from linear it is. And a chain 1 M deep is rewritten on a thread with a stack of 256 KiB. */
#define _GNU_SOURCE
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <time.h>
#include "ranges/ranges.h"
#include "../test.h"

typedef struct { tg_job *j; uint32_t n; int shape; tg_type type; double seconds; } work;

static const tg_uop *leaf(tg_job *j, tg_type t, uint32_t i) {
  if (t != TG_INDEX) return tg_make(j, TG_OP_ARG, t, 1, i, 0, NULL);
  return j->ranges.n > i % 256 ? tg_make(j, TG_OP_RANGE, TG_INDEX, 1, i % 256, 1, (const tg_uop *const[]){tg_index(j, 64)})
                               : tg_range_new(j, "r", tg_index(j, 64), TG_LOOP, UINT32_MAX, (tg_pos){0});
}

static const tg_uop *join(tg_job *j, const tg_uop *a, const tg_uop *b, uint32_t i) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MAX, TG_OP_ADD, TG_OP_MIN, TG_OP_SUB};
  return tg_op2(j, ops[i % 5], a, b);
}

static const tg_uop *chain(tg_job *j, tg_type t, uint32_t n) {
  const tg_uop *u = leaf(j, t, 0);
  for (uint32_t i = 1; i < n; i++) u = join(j, u, leaf(j, t, i), i);
  return u;
}

static const tg_uop *sum_chain(tg_job *j, tg_type t, uint32_t n) {
  const tg_uop *u = leaf(j, t, 0);
  for (uint32_t i = 1; i < n; i++) u = tg_op2(j, TG_OP_ADD, u, leaf(j, t, i * 7));
  return u;
}

static const tg_uop *tree(tg_job *j, tg_type t, uint32_t n) {
  const tg_uop **level = tg_new(&j->env, const tg_uop *, n);
  for (uint32_t i = 0; i < n; i++) level[i] = tg_op2(j, TG_OP_MUL, leaf(j, t, i), leaf(j, t, i / 1024 + 1));
  for (; n > 1; n = (n + 1) / 2)
    for (uint32_t i = 0; i < n / 2; i++) level[i] = join(j, level[2 * i], level[2 * i + 1], i + n);
  return level[0];
}

static double processor_time(void) { /* others may share the machine */
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rewrite(void *arg) {
  work *w = arg;
  tg_job *j = w->j;
  const tg_rules *r = tg_rules_compile(&j->env);
  const tg_uop *u = (w->shape == 0 ? chain : w->shape == 1 ? sum_chain : tree)(j, w->type, w->n);
  double t = processor_time();
  const tg_uop *s = tg_simplify(j, r, u);
  w->seconds = processor_time() - t;
  CHECK(tg_simplify(j, r, s) == s, "simplifying twice");
}

static double measure(int shape, tg_type type, uint32_t n) {
  static tg_job j;
  double best = 1e9;
  for (int i = 0; i < 2; i++) {
    work w = {&j, n, shape, type, 0};
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, rewrite, &w), "%s", j.env.message);
    if (w.seconds < best) best = w.seconds;
    tg_job_drop(&j);
  }
  return best;
}

static void *deep(void *arg) {
  static tg_job j;
  for (int shape = 0; shape < 2; shape++) {
    work w = {&j, 1 << 20, shape, shape ? TG_INDEX : TG_F32, 0};
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, rewrite, &w), "%s", j.env.message);
    tg_job_drop(&j);
  }
  return arg;
}

int main(void) {
  static const char *const shapes[] = {"chain", "sum", "tree"};
  static const tg_type types[] = {TG_I32, TG_INDEX, TG_F32};
  /* The heap is kept between runs: what is measured is the rewriter, not the kernel's first touch of a page. */
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  const uint32_t least = 1 << 15, most = 1 << 17;
  for (int shape = 0; shape < 3; shape++)
    for (unsigned t = 0; t < TG_COUNT(types); t++) {
      double first = 1e9, last = 1e9, growth = 9;
      for (int i = 0; i < 3 && growth > 3; i++) {
        double t0 = measure(shape, types[t], least), t1 = measure(shape, types[t], most);
        first = t0 < first ? t0 : first;
        last = t1 < last ? t1 : last;
        growth = pow(last / first, 1 / log2(most / least));
      }
      CHECK(growth <= 3, "%s of %s: %.2f times as long for twice the nodes (%.1f ms to %.1f ms)", shapes[shape], tg_type_name[types[t]], growth, first * 1e3, last * 1e3);
    }
  pthread_attr_t a;
  pthread_t thread = {0};
  pthread_attr_init(&a);
  CHECK(!pthread_attr_setstacksize(&a, 256 << 10) && !pthread_create(&thread, &a, deep, NULL), "a thread");
  pthread_join(thread, NULL);
  return TEST_END();
}
