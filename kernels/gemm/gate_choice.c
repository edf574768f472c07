/* SPDX-License-Identifier: MIT
 * A choice through the gates: the very kernel that the problem asks for, and, where its sizes are fixed, the same words at sizes around their
 * tiles, where tails are. */
#include <stdio.h>
#include "gemm/gate.h"

enum { TILES = 64, SIZES = 10 };

typedef struct {
  tg_context *context;
  const tg_gemm_problem *problem;
  const tg_gemm_choice *choice;
  int threads;
  uint64_t state;
  int64_t tile[TILES];
  uint32_t tiles;
  tg_gate_failure *failure;
} passing;

static uint64_t next(passing *p) { return p->state = tg_mix(p->state + 0x9E3779B97F4A7C15u, p->state >> 7); }

/* Whatever the words cut by: knobs, and products of two of them. */
static void find_tiles(passing *p) {
  const tg_gemm_choice *c = p->choice;
  for (uint32_t i = 0; i < c->knobs_n; i++)
    for (uint32_t j = i; j < c->knobs_n; j++) {
      int64_t v = j == i ? c->knob[i].lo : c->knob[i].lo * c->knob[j].lo;
      if (v > 1 && v <= 600 && p->tiles < TILES) p->tile[p->tiles++] = v;
    }
}

/* 1, a tile, one more or one less, within the dimension. */
static int64_t size_of(passing *p, tg_gemm_dim d) {
  uint64_t r = next(p) >> 16;
  int64_t v = r % 8 == 0 || !p->tiles ? 1 + (int64_t)(r >> 8 & 63) * (r % 8 != 0) : p->tile[(r >> 8) % p->tiles] + (int64_t)(r >> 40) % 3 - 1;
  return v < d.lo ? d.lo : v > d.hi ? d.hi : v;
}

static void bind(tg_binding *b, uint32_t *n, const char *name, int64_t lo, int64_t hi) { b[(*n)++] = (tg_binding){name, lo, hi, 1}; }

static tg_status compile(passing *p, const tg_gemm_problem *q, tg_kernel **out) {
  static const char *const lds[] = {"lda", "ldb", "ldc"}, *const steps[] = {"stepa", "stepb", "stepc"};
  static const char *const args[TG_GEMM_ARGUMENTS] = {"ld_arg0", "ld_arg1", "ld_arg2", "ld_arg3", "ld_arg4", "ld_arg5", "ld_arg6", "ld_arg7"};
  const int64_t most = (int64_t)1 << 31;
  const uint8_t majors[] = {q->a_major, q->b_major, q->c_major};
  tg_binding b[9 + TG_GEMM_ARGUMENTS + TG_GEMM_KNOBS];
  uint32_t n = 0;
  bind(b, &n, "M", q->m.lo, q->m.hi), bind(b, &n, "N", q->n.lo, q->n.hi), bind(b, &n, "K", q->k.lo, q->k.hi);
  for (int i = 0; i < 3; i++) {
    bind(b, &n, lds[i], 1, most);
    if (majors[i] == TG_GEMM_STRIDES) bind(b, &n, steps[i], 1, most);
  }
  for (uint32_t i = 0; i < q->arguments_n; i++)
    if (q->argument[i].per == 3) bind(b, &n, args[i], 1, most);
  for (uint32_t i = 0; i < p->choice->knobs_n; i++) b[n++] = p->choice->knob[i];
  tg_gemm_def def;
  tg_gemm_kernel_of(q, p->choice->sketch, &def);
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = (void *)(uintptr_t)q};
  return tg_kernel_compile(p->context, &def.def, &o, out);
}

static bool fixed(tg_gemm_dim d) { return d.lo == d.hi; }

/* The problem's kernel at these sizes. */
static tg_status pass(passing *p, const tg_gemm_problem *q, const tg_gate_size *sizes, uint32_t n) {
  tg_gates *g = NULL;
  tg_gate_kernel k = {.context = p->context, .threads = p->threads};
  tg_status s = compile(p, q, &k.kernel);
  if (s == TG_OK) s = tg_gates_open(p->context, q, 0, &g);
  if (s != TG_OK) snprintf(p->failure->text, sizeof p->failure->text, "%.1000s", tg_error_message(p->context));
  else s = tg_gates_check(g, tg_gate_run_kernel, &k, sizes, n, next(p), p->failure);
  tg_gates_close(g);
  tg_kernel_free(k.kernel);
  return s;
}

tg_status tg_gates_pass(tg_context *c, const tg_gemm_problem *problem, const tg_gemm_choice *choice, int threads, uint64_t seed, tg_gate_failure *failure) {
  passing p = {.context = c, .problem = problem, .choice = choice, .threads = threads, .state = seed, .failure = failure};
  tg_gate_size sizes[SIZES + 1];
  tg_gemm_problem any = *problem;
  tg_status s = TG_OK;
  *failure = (tg_gate_failure){.row = -1, .column = -1};
  find_tiles(&p);
  if (fixed(any.m) && fixed(any.n) && fixed(any.k)) {
    sizes[0] = (tg_gate_size){any.m.lo, any.n.lo, any.k.lo};
    s = pass(&p, problem, sizes, 1);
    any.m = any.n = any.k = (tg_gemm_dim){1, 1 << 20};
  }
  if (s != TG_OK) return s;
  for (uint32_t i = 0; i < SIZES; i++) {
    sizes[i] = (tg_gate_size){size_of(&p, any.m), size_of(&p, any.n), size_of(&p, any.k)};
    double work = (double)sizes[i].m * (double)sizes[i].n * (double)sizes[i].k;   /* one of them may be large at a time */
    if (work > 1 << 23 && !fixed(any.m)) sizes[i].m = any.m.lo + (int64_t)(next(&p) >> 20) % 5;
    if (sizes[i].m > any.m.hi) sizes[i].m = any.m.hi;
  }
  return pass(&p, &any, sizes, SIZES);
}
