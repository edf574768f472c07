/* SPDX-License-Identifier: MIT
 * How a call whose sizes the plan did not know is divided among threads: into pieces of its rows, columns and terms,
 * one for a thread at most, each computed by the kernel of one thread, which has the plan's ranges. From the sizes, the
 * machine's row and the plan's threads, so that a call with fewer threads has the same pieces and the same bits. */
#include <math.h>
#include "dsl/uop.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"

enum { ROWS, COLUMNS, TERMS };

static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

/* What all divisions of one call have in common. */
typedef struct {
  const tg_gemm_problem *q;
  const tg_target *t;
  const int64_t *size;
  int64_t unit[3];             /* pieces are a multiple of it: vectors of sums, lines of terms */
  double vector, lanes;        /* cycles of a multiply-add of the widest vector, and its lanes */
  double bytes[3];             /* of an element of A, of B, of a sum */
  bool far;                    /* the operands fill more than what is kept of the last cache */
} call;

static call call_of(const tg_gemm *g, const int64_t size[3]) {
  const tg_gemm_problem *q = &g->problem;
  const tg_target *t = &g->plan.context->target;
  call c = {.q = q, .t = t, .size = size,
            .bytes = {(double)tg_type_bytes(q->a), (double)tg_type_bytes(q->b), (double)tg_type_bytes(q->acc)}};
  int64_t lanes = t->vector_bytes / tg_type_bytes(q->acc);
  bool turned = q->c_major == TG_GEMM_COLUMN;   /* vectors lie along the rows */
  c.unit[ROWS] = c.unit[COLUMNS] = 1;
  c.unit[turned ? ROWS : COLUMNS] = lanes;
  c.unit[TERMS] = TG_CACHE_LINE / tg_type_bytes(q->acc);
  c.vector = tg_machine_cycles(t->machine.fma, (double)t->vector_bytes), c.lanes = (double)lanes;
  double all = (double)size[0] * (double)size[2] * c.bytes[0] + (double)size[2] * (double)size[1] * c.bytes[1];
  c.far = all > tg_target_kept(t);
  return c;
}

/* The pieces of a division into so many parts of rows, of columns and of terms. */
static tg_gemm_pieces pieces_of(const call *c, const int64_t parts[3]) {
  tg_gemm_pieces p = {.n = 1};
  for (uint32_t i = 0; i < 3; i++) {
    p.size[i] = up(up(c->size[i], parts[i]), c->unit[i]) * c->unit[i];
    p.parts[i] = (uint32_t)up(c->size[i], p.size[i]);
    if (p.parts[i] == 1) p.size[i] = c->size[i];
    p.n *= p.parts[i];
  }
  return p;
}

/* The kernel is for the plan's sizes: of no more, and of no fewer. */
static bool has_kernel(const call *c, const tg_gemm_pieces *p) {
  const tg_kit_dim dims[3] = {c->q->m, c->q->n, c->q->k};
  for (uint32_t i = 0; i < 3; i++)
    if (c->size[i] - (p->parts[i] - 1) * p->size[i] < dims[i].lo) return false;
  return true;
}

/* Cycles of a launch of so many tasks and until the last has ended. */
static double meeting(const tg_machine *m, double threads) {
  return threads > 1 ? (m->launch + m->barrier * (threads - 1)) * m->clock * 1e-3 : 0;
}

/* Cycles in which partial sums are written, and added up by all threads. */
static double merging(const call *c, const tg_gemm_pieces *p, double threads) {
  const tg_machine *m = &c->t->machine;
  double sums = (double)c->size[0] * (double)c->size[1] * c->bytes[2], parts = p->parts[TERMS];
  if (parts < 2) return 0;
  return meeting(m, threads) + sums * parts / p->n / m->l2_bandwidth +
         sums * (parts + 1) / threads / m->l3_bandwidth;
}

/* Cycles of a call in these pieces, about: each thread computes one, and reads its operands once. */
static double cycles_of(const call *c, const tg_gemm_pieces *p) {
  const tg_machine *m = &c->t->machine;
  uint32_t across = c->q->c_major == TG_GEMM_COLUMN ? ROWS : COLUMNS;
  double of[3] = {(double)p->size[0], (double)p->size[1], (double)p->size[2]}, threads = p->n,
         all = fmax(m->memory_bandwidth, m->memory_bandwidth_all),
         bandwidth = c->far ? fmin(m->memory_bandwidth, all / threads) : m->l3_bandwidth;
  double core = ceil(of[across] / c->lanes) * of[1 - across] * of[TERMS] * c->vector,
         read = of[TERMS] * (of[ROWS] * c->bytes[0] + of[COLUMNS] * c->bytes[1]);
  return core + read / bandwidth + meeting(m, threads) + merging(c, p, threads);
}

/* Partial sums of more bytes are in no cache when they are added up. */
size_t tg_gemm_partial_most(const tg_gemm *g) {
  return g->plan.most * (size_t)(g->plan.context->target.l2 / 4);
}

size_t tg_gemm_partial(const tg_gemm *g, const tg_gemm_pieces *p, const int64_t size[3]) {
  double bytes = p->parts[TERMS] * (double)size[0] * (double)size[1] * tg_type_bytes(g->problem.acc);
  return p->parts[TERMS] < 2 ? 0 : bytes > (double)SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)bytes;
}

tg_gemm_pieces tg_gemm_divide(const tg_gemm *g, const int64_t size[3], bool terms) {
  enum { MOST = 256 };   /* threads, so that a call is soon divided */
  const call c = call_of(g, size);
  tg_gemm_pieces best = pieces_of(&c, (const int64_t[]){1, 1, 1});
  double least = cycles_of(&c, &best), one = meeting(&c.t->machine, 3) - meeting(&c.t->machine, 2);
  /* threads whose waiting alone takes as long as one thread's work gain nothing */
  const int64_t most = (int64_t)fmin(fmin(g->plan.most, MOST), one > 0 ? 2 + least / one : MOST);
  for (int64_t n = most; n > 1; n /= 2)
    for (int64_t k = 1; k <= (terms ? n : 1); k = k < n && 2 * k > n ? n : 2 * k)
      for (int64_t rows = 1; rows * k <= n; rows++) {
        tg_gemm_pieces p = pieces_of(&c, (const int64_t[]){rows, n / k / rows, k});
        if (!has_kernel(&c, &p) || tg_gemm_partial(g, &p, size) > tg_gemm_partial_most(g)) continue;
        double cycles = cycles_of(&c, &p);
        if (cycles < least) least = cycles, best = p;
      }
  return best;
}

double tg_gemm_meeting(const tg_gemm *g, const tg_gemm_pieces *p, const int64_t size[3]) {
  const call c = call_of(g, size);
  const tg_machine *m = &c.t->machine;
  return (meeting(m, p->n) + merging(&c, p, p->n)) / (m->clock * 1e6);
}

/* ---- which plans have pieces ---- */

/* A piece does not know its place in C. */
bool tg_gemm_has_pieces(const tg_gemm *g, const tg_gemm_problem *q) {
  bool place = q->epilogue && (tg_kit_reads(q->epilogue, "m") || tg_kit_reads(q->epilogue, "n"));
  return g->open && !g->whole && g->plan.most > 1 && !place && !q->bits && !q->panel;
}

/* Partial sums are dense, as C may be. */
bool tg_gemm_may_divide_terms(const tg_gemm *g, const tg_gemm_problem *q) {
  return tg_gemm_has_pieces(g, q) && q->c_major != TG_GEMM_STRIDES && q->c_step <= 1;
}

bool tg_gemm_is_alone(const tg_kit_choice *c) {
  static const tg_gemm_sketch *const shared[] = {&tg_gemm_panel, &tg_gemm_packed, &tg_gemm_stream, &tg_gemm_dot};
  for (uint32_t i = 0; i < TG_COUNT(shared); i++)
    if (c->sketch == shared[i]->kernel) return !tg_kit_knob_of(c, "TEAM", 0);
  return c->sketch == tg_gemm_direct.kernel;
}

/* ---- partial sums ---- */

tg_gemm_problem tg_gemm_partial_of(const tg_gemm_problem *p) {
  tg_gemm_problem q = *p;
  q.c = q.acc, q.alpha = q.beta = false;
  q.epilogue = NULL, q.arguments_n = 0;
  return q;
}

tg_gemm_problem tg_gemm_merge_of(const tg_gemm *g, const tg_gemm_problem *p) {
  tg_gemm_problem q = *p;
  q.a = q.b = q.acc, q.a_major = TG_GEMM_STRIDES, q.b_major = TG_GEMM_ROW;
  q.a_step = q.b_step = 0;
  q.k = (tg_kit_dim){2, g->plan.most};
  return q;
}

TG_KERNEL(gemm_merge, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_kit_declare(tg_b_, "in", "A, %s, [K, M, N], [stepa, %s]", tg_type_name[p->acc],
                 p->c_major == TG_GEMM_COLUMN ? "1, lda" : "lda, 1");
  tg_gemm_declare_result(tg_b_, p);
  tg_range(i, M) tg_range(j, N) tg_gemm_store(tg_b_, p, "j", "sum(k : K, A[k,i,j])", "");
}

const tg_kernel_def *const tg_gemm_merge = &gemm_merge;
