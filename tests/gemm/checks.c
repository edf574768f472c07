/* SPDX-License-Identifier: MIT
 * The checks pass a right product and catch wrong ones: a table of faults, each planted into plain C, each with the check that is there for
 * it. Accesses outside of an operand are caught in a process of their own. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../target.h"
#include "../rows.h"
#include "../test.h"
#include "dsl/text.h"
#include "dsl/value.h"
#include "checks/gemm.h"
#include "gemm/sketch.h"
#include "compile/pipeline.h"
#include "ranges/ranges.h"

/* ---- products in plain C, right but for one fault ---- */

typedef enum fault {
  NONE,
  ROW_LEFT_OUT, COLUMN_LEFT_OUT, TAIL_OF_TILE, LAST_K_DROPPED, FIRST_K_DROPPED, K_TWICE, K_BEYOND_256, ONE_ELEMENT, FRACTION, ROWS_SWAPPED, TWO_SWAPPED,
  STRIDE_OF_C, STRIDE_OF_A, TRANSPOSED_B, WRITES_PADDING, WRITES_BEFORE, READS_PADDING, WRITES_INPUT, NOT_INITIALISED, ADDS_TO_OLD, NOTHING,
  ALPHA_IGNORED, ALPHA_ON_BOTH, BETA_IGNORED, BETA_ONE, BETA_EACH_BLOCK, BETA_KEEPS_NAN,
  LESS_PRECISE, SUM_IN_F32, MODERATE, TRUNCATED, TIES_AWAY, FLUSHED, SATURATES, ROUNDED_TWICE, BLOCKS_IN_C,
  PAIRS_SATURATE, SUM_IN_16, SIGN_LOST,
  EPILOGUE_LEFT_OUT, EPILOGUE_EACH_BLOCK, EPILOGUE_ONE_OFF, EPILOGUE_OF_TAIL,
  ENDLESS_LOST,
  READS_BEHIND, READS_BEFORE, WRITES_BEHIND,
  FAULTS
} fault;

typedef struct { const tg_gemm_problem *p; fault f; } planted;

static double load(tg_type t, const void *at, int64_t i) {
  uint64_t bits = 0;
  if (t == TG_F32) return (double)((const float *)at)[i];
  if (t == TG_I8) return ((const int8_t *)at)[i];
  if (t == TG_U8) return ((const uint8_t *)at)[i];
  size_t size = (size_t)tg_type_bytes(t);
  memcpy(&bits, (const char *)at + i * (int64_t)size, size);
  tg_value v = tg_value_from_bits(t, bits);
  return tg_is_float(t) ? v.f : (double)(int64_t)v.i;
}

static void store(tg_type t, void *at, int64_t i, double v) {
  tg_value x = {0};
  if (tg_is_float(t)) x.f = tg_round_to(t, v);
  else x.i = tg_wrap(t, (tg_i128)v);
  uint64_t bits = tg_value_bits(t, x);
  size_t size = (size_t)tg_type_bytes(t);
  memcpy((char *)at + i * (int64_t)size, &bits, size);
}

static int64_t at(uint8_t major, int64_t ld, int64_t i, int64_t j) { return major == TG_GEMM_COLUMN ? j * ld + i : i * ld + j; }

/* As the accumulator of type acc keeps it. */
static double kept(tg_type acc, double v) { return tg_is_float(acc) ? tg_round_to(acc, v) : (double)(int64_t)tg_wrap(acc, (tg_i128)v); }

static double narrow(fault f, tg_type c, double v) {
  if (!tg_is_float(c)) return v;
  double r = tg_round_to(c, v), unit = c == TG_F16 ? 0x1p-10 : 0x1p-7, least = c == TG_F16 ? 0x1p-14 : 0x1p-126;
  int e;
  if (f == SATURATES && isinf(r) && !isinf(v)) return copysign(c == TG_F16 ? 65504 : 0x1.fep127, r);
  if (f == FLUSHED && fabs(r) < least) return 0;
  if ((f == TRUNCATED || f == TIES_AWAY) && v != 0 && fabs(v) >= least && isfinite(r)) {
    frexp(v, &e);
    double step = ldexp(unit, e - 1);
    return f == TRUNCATED ? trunc(v / step) * step : round(v / step) * step;
  }
  if (f == ROUNDED_TWICE && v != 0 && fabs(v) >= least && isfinite(r)) {
    frexp(v, &e);
    double step = ldexp(unit, e - 1) / 4;
    return tg_round_to(c, rint(v / step) * step);
  }
  return r;
}

static double sum_of(const planted *x, const tg_gemm_operands *o, int64_t i, int64_t j) {
  const tg_gemm_problem *p = x->p;
  double sum = 0, pair = 0;
  int64_t lda = x->f == STRIDE_OF_A ? (p->a_major == TG_GEMM_COLUMN ? o->m : o->k) : o->lda, k = o->k;
  if (x->f == LAST_K_DROPPED && k > 1) k--;
  if (x->f == K_BEYOND_256 && k > 256) k = 256;
  for (int64_t q = x->f == FIRST_K_DROPPED && k > 1 && i == o->m - 1; q < k; q++) {
    double a = load(p->a, o->a.data, at(p->a_major, lda, i, q));
    double b = load(p->b, o->b.data, x->f == TRANSPOSED_B && o->k == o->n ? at(p->b_major, o->ldb, j, q) : at(p->b_major, o->ldb, q, j)), ab = a * b;
    if (x->f == ENDLESS_LOST && !isfinite(a)) ab = copysign(16, a) * b;
    if (x->f == LESS_PRECISE && p->a == TG_F32) ab = (double)(float)(tg_round_to(TG_BF16, a) * b);
    if (x->f == SIGN_LOST && p->a == TG_U8 && a > 127) ab = (a - 256) * b;
    if (x->f == PAIRS_SATURATE || x->f == SUM_IN_16) {
      pair = q % 2 ? pair + ab : ab;
      if (q % 2 == 0 && q + 1 < k) continue;
      ab = pair;
      if (x->f == PAIRS_SATURATE) ab = fmin(fmax(ab, -32768), 32767);
      else ab = (double)(int16_t)(int64_t)ab;
    }
    sum = kept(x->f == SUM_IN_F32 ? TG_F32 : p->acc, sum + ab);
    if (x->f == K_TWICE && q == 0 && j == o->n - 1) sum = kept(p->acc, sum + ab);
    if (x->f == BLOCKS_IN_C && q % 8 == 7) sum = tg_round_to(p->c, sum);
    if (x->f == MODERATE && q % 16 == 15) sum = (double)(float)(sum * (1 + 0x1p-17));
  }
  if (x->f == READS_PADDING && o->lda > o->k && p->a_major == TG_GEMM_ROW && i + 1 < o->m) sum += 0 * load(p->a, o->a.data, i * o->lda + o->k);
  if (x->f == READS_BEHIND) sum += 0 * load(p->b, (const char *)o->b.data + o->b.bytes, 0);
  if (x->f == READS_BEFORE) sum += 0 * load(p->a, o->a.data, -1);
  return sum;
}

static double epilogue(const tg_gemm_operands *o, int64_t i, int64_t j, double acc, bool off) {
  float v = (float)acc, bias = (float)load(TG_F32, o->argument[0].data, off && j > 0 ? j - 1 : j), rest = (float)load(TG_F32, o->argument[1].data, i * o->ld_arg[1] + j);
  v = v + bias;
  return (double)((v > 0 || v != v ? v : 0) + rest);
}

static double element(const planted *x, const tg_gemm_operands *o, int64_t i, int64_t j, int64_t place) {
  const tg_gemm_problem *p = x->p;
  double alpha = p->alpha ? load(p->acc, o->alpha.data, 0) : 1, beta = p->beta ? load(p->acc, o->beta.data, 0) : 0, sum = sum_of(x, o, i, j), c;
  if (x->f == ALPHA_IGNORED) alpha = 1;
  if (x->f == BETA_IGNORED) beta = 0;
  if (x->f == BETA_ONE && beta != 0) beta = 1;
  double old = beta != 0 || x->f == BETA_KEEPS_NAN || x->f == ADDS_TO_OLD || x->f == NOT_INITIALISED ? load(p->c, o->c.data, place) : 0;
  if (x->f == ADDS_TO_OLD && beta == 0) beta = 1;
  c = kept(p->acc, alpha * sum + beta * old);
  if (x->f == NOT_INITIALISED && i == o->m - 1) c = kept(p->acc, c + old);
  if (x->f == ALPHA_ON_BOTH) c = kept(p->acc, alpha * (sum + beta * old));
  if (x->f == BETA_EACH_BLOCK && o->k > 8) c = kept(p->acc, alpha * sum + beta * beta * old);
  if (!p->epilogue) return c;
  if (x->f == EPILOGUE_LEFT_OUT || (x->f == EPILOGUE_OF_TAIL && i >= o->m / 8 * 8)) return c;
  if (x->f == EPILOGUE_EACH_BLOCK && o->k > 8) c = epilogue(o, i, j, c, false);
  return epilogue(o, i, j, c, x->f == EPILOGUE_ONE_OFF);
}

static tg_status product(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  const planted *x = user;
  const tg_gemm_problem *p = x->p;
  (void)message, (void)n;
  if (x->f == NOTHING) return TG_OK;
  int64_t ldc = x->f == STRIDE_OF_C ? (p->c_major == TG_GEMM_COLUMN ? o->m : o->n) : o->ldc;
  for (int64_t i = 0; i < o->m; i++)
    for (int64_t j = 0; j < o->n; j++) {
      if ((x->f == ROW_LEFT_OUT && i == o->m - 1) || (x->f == COLUMN_LEFT_OUT && j == o->n - 1) || (x->f == TAIL_OF_TILE && i >= o->m / 4 * 4)) continue;
      int64_t row = x->f == ROWS_SWAPPED && o->m > 1 && i < 2 ? 1 - i : i, column = x->f == TWO_SWAPPED && i == o->m / 2 && o->n > 1 && j < 2 ? 1 - j : j;
      int64_t place = at(p->c_major, ldc, i, j);
      double v = element(x, o, row, column, place);
      if (x->f == ONE_ELEMENT && i == o->m * 2 / 3 && j == o->n / 3) v += 1;
      if (x->f == FRACTION && i == o->m * 2 / 3 && j == o->n / 3) v += v < 0 ? -0.25 : 0.25;
      store(p->c, o->c.data, place, narrow(x->f, p->c, v));
    }
  if (x->f == WRITES_PADDING && o->ldc > o->n && o->m > 1) store(p->c, o->c.data, o->n, 0);
  if (x->f == WRITES_BEFORE) ((char *)o->c.data)[-1] ^= 1;
  if (x->f == WRITES_BEHIND) ((char *)o->c.data)[o->c.bytes] ^= 1;
  if (x->f == WRITES_INPUT) ((char *)o->a.data)[o->a.bytes - 1] ^= 1;
  return TG_OK;
}

/* ---- problems ---- */

#define ANY {1, 1 << 20}
#define DIMS .m = ANY, .n = ANY, .k = ANY, .batch = {1, 1}
static const tg_gemm_problem problems[] = {
  {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .alpha = true, .beta = true, DIMS},
  {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .b_major = TG_GEMM_COLUMN, .a_major = TG_GEMM_COLUMN, .c_major = TG_GEMM_COLUMN, .beta = true, DIMS},
  {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, DIMS},
  {.a = TG_F64, .b = TG_F64, .c = TG_F64, .acc = TG_F64, .alpha = true, .beta = true, DIMS},
  {.a = TG_F16, .b = TG_F16, .c = TG_F16, .acc = TG_F32, .alpha = true, .beta = true, DIMS},
  {.a = TG_BF16, .b = TG_BF16, .c = TG_BF16, .acc = TG_F32, DIMS},
  {.a = TG_BF16, .b = TG_BF16, .c = TG_F32, .acc = TG_F32, .alpha = true, DIMS},
  {.a = TG_U8, .b = TG_I8, .c = TG_I32, .acc = TG_I32, .beta = true, DIMS},
  {.a = TG_I8, .b = TG_I8, .c = TG_I32, .acc = TG_I32, .b_major = TG_GEMM_COLUMN, DIMS},
  {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .epilogue = "max(acc + bias, 0) + rest", .argument = {{"bias", TG_F32, 2}, {"rest", TG_F32, 3}}, .arguments_n = 2, DIMS},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

#define IS(i) (1u << (i))
enum { ALL = (1u << PROBLEMS) - 1, PLAIN = ALL & ~(1u << 9), BETAS = IS(0) | IS(1) | IS(3) | IS(4) | IS(7), ALPHAS = IS(0) | IS(3) | IS(4) | IS(6), NARROW = IS(4) | IS(5), BYTES = IS(7) | IS(8) };

static const struct { fault f; const char *name; unsigned in; tg_check_kind check; } faults[] = {
  {ROW_LEFT_OUT, "the last row is not computed", PLAIN, TG_CHECK_EXACT},
  {COLUMN_LEFT_OUT, "the last column is not computed", PLAIN, TG_CHECK_EXACT},
  {TAIL_OF_TILE, "rows behind the last tile are not computed", PLAIN, TG_CHECK_EXACT},
  {TAIL_OF_TILE, "the same, with an epilogue", IS(9), TG_CHECK_EPILOGUE},
  {LAST_K_DROPPED, "one k too few", PLAIN, TG_CHECK_EXACT},
  {FIRST_K_DROPPED, "one k too few in one row", PLAIN, TG_CHECK_EXACT},
  {K_TWICE, "one k twice in one column", PLAIN, TG_CHECK_EXACT},
  {K_BEYOND_256, "a second block of k is left out", PLAIN, TG_CHECK_EXACT},
  {K_BEYOND_256, "a second block of k is left out", PLAIN, TG_CHECK_FREIVALDS},
  {ONE_ELEMENT, "one element is off by one", PLAIN & ~NARROW, TG_CHECK_EXACT},
  {ONE_ELEMENT, "one element of many is off by one", PLAIN & ~NARROW, TG_CHECK_FREIVALDS},
  {FRACTION, "one element of many has a fraction", PLAIN & ~NARROW & ~BYTES, TG_CHECK_FREIVALDS},
  {ROWS_SWAPPED, "two rows are swapped", PLAIN & ~BETAS, TG_CHECK_EXACT},
  {TWO_SWAPPED, "two elements are swapped", PLAIN & ~BETAS, TG_CHECK_FREIVALDS},
  {STRIDE_OF_C, "rows of C are taken to be dense", PLAIN, TG_CHECK_EXACT},
  {STRIDE_OF_A, "rows of A are taken to be dense", PLAIN, TG_CHECK_EXACT},
  {TRANSPOSED_B, "B is transposed", PLAIN, TG_CHECK_EXACT},
  {WRITES_PADDING, "writes between rows", PLAIN & ~IS(1), TG_CHECK_EXACT},
  {WRITES_INPUT, "writes to A", ALL & ~IS(9), TG_CHECK_EXACT},
  {READS_PADDING, "multiplies what lies between rows by 0", PLAIN & ~BYTES & ~IS(1), TG_CHECK_EXACT},
  {NOT_INITIALISED, "adds to what was in the last row", PLAIN & ~BETAS, TG_CHECK_EXACT},
  {ADDS_TO_OLD, "adds to what was in C", PLAIN & ~BETAS, TG_CHECK_EXACT},
  {NOTHING, "computes nothing", PLAIN, TG_CHECK_EXACT},
  {NOTHING, "computes nothing", IS(9), TG_CHECK_EPILOGUE},
  {ALPHA_IGNORED, "alpha is ignored", ALPHAS, TG_CHECK_EXACT},
  {ALPHA_ON_BOTH, "alpha multiplies C as well", ALPHAS & BETAS, TG_CHECK_EXACT},
  {BETA_IGNORED, "beta is ignored", BETAS, TG_CHECK_EXACT},
  {BETA_ONE, "beta is taken for 1", BETAS, TG_CHECK_EXACT},
  {BETA_EACH_BLOCK, "each block of k multiplies C by beta", BETAS, TG_CHECK_EXACT},
  {BETA_KEEPS_NAN, "C is read where beta is 0", BETAS & ~BYTES, TG_CHECK_EXACT},
  {ENDLESS_LOST, "infinity and NaN in A are taken for numbers", PLAIN & ~BYTES, TG_CHECK_EXACT},
  {ENDLESS_LOST, "the same, with an epilogue", IS(9), TG_CHECK_EPILOGUE},
  {LESS_PRECISE, "A is rounded to bf16", IS(0) | IS(1) | IS(2), TG_CHECK_RANDOM},
  {SUM_IN_F32, "f64 summed in f32", IS(3), TG_CHECK_RANDOM},
  {SUM_IN_F32, "f64 summed in f32", IS(3), TG_CHECK_EXACT},
  {MODERATE, "each sixteenth k scales by 1 + 2^-17", IS(0) | IS(1) | IS(2), TG_CHECK_RANDOM},
  {TRUNCATED, "C is rounded towards zero", NARROW, TG_CHECK_ROUNDED},
  {TIES_AWAY, "ties of C are rounded away from zero", NARROW, TG_CHECK_ROUNDED},
  {FLUSHED, "subnormals of C are zero", NARROW, TG_CHECK_ROUNDED},
  {SATURATES, "C stays at its largest number", NARROW, TG_CHECK_ROUNDED},
  {ROUNDED_TWICE, "C is rounded twice", NARROW, TG_CHECK_ROUNDED},
  {BLOCKS_IN_C, "the sums of blocks are rounded to C", NARROW, TG_CHECK_ROUNDED},
  {PAIRS_SATURATE, "the sum of two products saturates at 16 bits", BYTES, TG_CHECK_EXTREMES},
  {SUM_IN_16, "the sum of two products wraps at 16 bits", BYTES, TG_CHECK_EXTREMES},
  {SIGN_LOST, "u8 is taken for i8", IS(7), TG_CHECK_EXTREMES},
  {SIGN_LOST, "u8 is taken for i8", IS(7), TG_CHECK_EXACT},
  {EPILOGUE_LEFT_OUT, "no epilogue", IS(9), TG_CHECK_EPILOGUE},
  {EPILOGUE_OF_TAIL, "no epilogue behind the last tile", IS(9), TG_CHECK_EPILOGUE},
  {EPILOGUE_EACH_BLOCK, "the epilogue of each block of k", IS(9), TG_CHECK_EPILOGUE},
  {EPILOGUE_ONE_OFF, "the argument of the column before", IS(9), TG_CHECK_EPILOGUE},
  {LAST_K_DROPPED, "one k too few, with an epilogue", IS(9), TG_CHECK_EPILOGUE},
};

static const tg_check_size small[] = {{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {31, 16, 64}, {32, 32, 32}, {65, 33, 129}, {5, 6, 1100}}, large[] = {{130, 67, 270}};

static tg_context *context;
static tg_target row[ROWS];   /* what is chosen is chosen for these, and runs here */
static uint32_t rows;

/* ---- what must be caught, and what must not ---- */

/* One check alone, at several sizes, pads and factors. */
static bool caught_by(tg_checks *g, planted *x, tg_check_kind check, tg_check_failure *f) {
  static const double factors[][2] = {{1, 0}, {-1, 1}, {2, -2}};
  bool big = check == TG_CHECK_FREIVALDS;
  for (unsigned s = 0; s < (big ? 1 : sizeof small / sizeof *small); s++)
    for (int v = 0; v < 6; v++) {
      const tg_check_size *z = big ? &large[s] : &small[s];
      const double *by = factors[check == TG_CHECK_ROUNDED ? v % 2 : v % 3];
      tg_check_case c = {.kind = check, .m = z->m, .n = z->n, .k = z->k, .pad_a = v % 2 * 3, .pad_b = v % 2, .pad_c = v % 2 * 5, .alpha = by[0], .beta = by[1], .poison = true, .front = v == 4, .seed = 31 + (unsigned)v};
      tg_status status = tg_check_one(g, product, x, &c, f);
      CHECK(status == TG_OK || status == TG_EINVAL, "%s: %s", tg_status_name(status), f->text);
      if (status != TG_OK) return true;
    }
  return false;
}

static void right_passes(void) {
  static const tg_check_size deep[] = {{3, 2, 1 << 16}};
  for (int i = 0; i < PROBLEMS; i++) {
    tg_checks *g;
    tg_check_failure f;
    planted x = {&problems[i], NONE};
    if (tg_checks_open(context, &problems[i], 1 << 21, &g)) abort();
    for (uint64_t seed = 1; seed <= 2; seed++) CHECK(tg_checks_run(g, product, &x, small, sizeof small / sizeof *small, seed, &f) == TG_OK, "problem %d: %s", i, f.text);
    CHECK(tg_checks_run(g, product, &x, large, 1, 5, &f) == TG_OK, "problem %d: %s", i, f.text);
    if (IS(i) & (BYTES | NARROW | IS(2))) CHECK(tg_checks_run(g, product, &x, deep, 1, 6, &f) == TG_OK, "problem %d: %s", i, f.text);
    tg_checks_close(g);
  }
}

static void faults_are_caught(void) {
  for (unsigned q = 0; q < sizeof faults / sizeof *faults; q++)
    for (int i = 0; i < PROBLEMS; i++) {
      if (!(faults[q].in & IS(i))) continue;
      tg_checks *g;
      tg_check_failure f = {.row = -1};
      planted x = {&problems[i], faults[q].f};
      if (tg_checks_open(context, &problems[i], 1 << 21, &g)) abort();
      bool caught = caught_by(g, &x, faults[q].check, &f);
      CHECK(caught, "%s: check '%s' lets it pass in problem %d", faults[q].name, tg_check_name(faults[q].check), i);
      CHECK(!caught || strstr(f.text, tg_check_name(faults[q].check)), "%s", f.text);
      if (caught) CHECK(tg_checks_run(g, product, &x, faults[q].check == TG_CHECK_FREIVALDS ? large : small, faults[q].check == TG_CHECK_FREIVALDS ? 1 : sizeof small / sizeof *small, 77, &f) == TG_EINVAL,
                        "%s: all checks together let it pass in problem %d", faults[q].name, i);
      tg_checks_close(g);
    }
}

/* An epilogue that adds an argument may add it first, or behind a block of terms: the check's numbers are exact in every order. */
static tg_status begins_with_argument(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  int64_t block = *(const int64_t *)user;
  (void)message, (void)n;
  for (int64_t i = 0; i < o->m; i++)
    for (int64_t j = 0; j < o->n; j++) {
      float sum = 0, rest = ((const float *)o->argument[0].data)[i * o->ld_arg[0] + j];
      for (int64_t k = 0; k < o->k; k++) {
        if (k == block) sum += rest;
        sum += ((const float *)o->a.data)[i * o->lda + k] * ((const float *)o->b.data)[k * o->ldb + j];
      }
      ((float *)o->c.data)[i * o->ldc + j] = block < o->k ? sum : sum + rest;
    }
  return TG_OK;
}

static void arguments_in_any_order(void) {
  static const tg_check_size sizes[] = {{15, 37, 385}, {5, 6, 1100}, {3, 2, 40000}};
  static const tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .epilogue = "acc + rest", .argument = {{"rest", TG_F32, 3}}, .arguments_n = 1, DIMS};
  static const int64_t blocks[] = {0, 1, 128, 384, 1 << 20};
  tg_checks *g;
  tg_check_failure f;
  if (tg_checks_open(context, &p, 1 << 21, &g)) abort();
  for (uint32_t i = 0; i < TG_COUNT(sizes) * TG_COUNT(blocks) * 4; i++) {
    const tg_check_size *z = &sizes[i / 4 % TG_COUNT(sizes)];
    int64_t block = blocks[i / 4 / TG_COUNT(sizes)];
    tg_check_case c = {.kind = TG_CHECK_EPILOGUE, .m = z->m, .n = z->n, .k = z->k, .alpha = 1, .poison = true, .seed = i % 4};
    CHECK(tg_check_one(g, begins_with_argument, &block, &c, &f) == TG_OK, "before term %lld: %s", (long long)block, f.text);
  }
  tg_checks_close(g);
}

/* The message says where, what came and what was wanted. */
static void messages(void) {
  tg_checks *g;
  tg_check_failure f;
  planted x = {&problems[2], ONE_ELEMENT};
  tg_check_case c = {.kind = TG_CHECK_EXACT, .m = 9, .n = 12, .k = 4, .alpha = 1, .seed = 1};
  if (tg_checks_open(context, &problems[2], 0, &g)) abort();
  CHECK(tg_check_one(g, product, &x, &c, &f) == TG_EINVAL && f.row == 6 && f.column == 4 && f.got == f.want + 1 && strstr(f.text, "C[6,4]"), "%s", f.text);
  c.kind = TG_CHECK_FREIVALDS;
  CHECK(tg_check_one(g, product, &x, &c, &f) == TG_EINVAL && f.row == 6 && f.column == 4, "%s", f.text);
  c.kind = TG_CHECK_EPILOGUE;
  CHECK(tg_check_one(g, product, &x, &c, &f) == TG_INTERNAL && strstr(f.text, "nothing to check"), "%s", f.text);
  tg_checks_close(g);
}

/* ---- accesses outside ---- */

static tg_checks *guarded_checks;
static int told;

static void fault_seen(int signal, siginfo_t *info, void *frame) {
  char text[200] = "elsewhere";
  (void)signal, (void)frame;
  tg_check_at(guarded_checks, info->si_addr, text, sizeof text);
  if (write(told, text, strlen(text)) < 0) _exit(2);
  _exit(1);
}

static void outside(fault x, bool front, const char *text) {
  int ends[2], status;
  char got[201] = "";
  if (pipe(ends)) abort();
  pid_t child = fork();
  if (!child) {
    tg_check_failure f;
    planted p = {&problems[0], x};
    struct sigaction a = {.sa_sigaction = fault_seen, .sa_flags = SA_SIGINFO};
    tg_check_case c = {.kind = TG_CHECK_EXACT, .m = 3, .n = 5, .k = 7, .pad_a = 1, .pad_b = 2, .pad_c = 3, .alpha = 1, .beta = 1, .front = front, .seed = 1};
    told = ends[1];
    if (tg_checks_open(context, &problems[0], 0, &guarded_checks)) _exit(3);
    sigaction(SIGSEGV, &a, NULL);
    tg_check_one(guarded_checks, product, &p, &c, &f);
    _exit(0);
  }
  close(ends[1]);
  ssize_t n = read(ends[0], got, 200);
  close(ends[0]);
  waitpid(child, &status, 0);
  CHECK(n > 0 && !strcmp(got, text), "got '%s' instead of '%s'", got, text);
}

/* ---- choices ---- */

/* A sketch that is wrong where N passes a vector by one. */
static void wrong_words(tg_builder *tg_b_, void *user) {
  tg_gemm_product(tg_b_, user);
  tg_range(i, M) tg_if(N > 16 & N % 16 == 1) tg(C[i, N - 1] = 0);
}

static void choices(void) {
  const tg_kernel_def wrong_sketch = {"wrong_words", "M, N, K, lda, ldb, ldc", __FILE__, __LINE__, wrong_words};
  tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {96, 96}, .n = {112, 112}, .k = {200, 200}, .batch = {1, 1}};
  tg_check_failure f;
  for (int dynamic = 0; dynamic < 2; dynamic++) {
    tg_kit_choice c;
    if (dynamic) p.m = (tg_kit_dim){1, 500}, p.n = (tg_kit_dim){3, 300};
    for (uint32_t r = 0; r < rows; r += 5) {
      tg_gemm_choose(&p, &row[r], 2, &c);
      CHECK(tg_checks_pass(context, &p, &c, NULL, 2, 1, &f) == TG_OK, "for %s: %s", row[r].name, f.text);
    }
    const tg_kit_choice plain = {.sketch = tg_gemm_plain.kernel};
    CHECK(tg_checks_pass(context, &p, &plain, "split j {16, 1} as jo ji; lane ji; split i {3, 1} as io iu; upcast iu", 2, 1, &f) == TG_OK, "%s", f.text);
    CHECK(tg_checks_pass(context, &p, &plain, "split nothing 4 as a b", 2, 1, &f) == TG_EINVAL && strstr(f.text, "nothing"), "%s", f.text);
    c = (tg_kit_choice){.sketch = &wrong_sketch, .knob = {{"V", 16, 16, 1}}, .knobs_n = 0};
    tg_status s = TG_OK;
    for (uint64_t seed = 1; seed < 60 && s == TG_OK; seed++) s = tg_checks_pass(context, &p, &c, NULL, 1, seed, &f);
    CHECK(s == TG_EINVAL && f.column >= 16 && f.column % 16 == 0, "%s: %s", tg_status_name(s), f.text);
  }
}

/* Is it what was chosen for one of the rows before? */
static bool chosen_before(const tg_kit_choice *c, uint32_t r) {
  for (uint32_t b = 0; b < r; b++)
    if (c[b].sketch == c[r].sketch && c[b].knobs_n == c[r].knobs_n && !memcmp(c[b].knob, c[r].knob, c[r].knobs_n * sizeof *c[r].knob)) return true;
  return false;
}

/* What is chosen for each of the processors. */
static void chosen_for_rows(void) {
  static const struct { int64_t m, n, k; uint8_t a_major, b_major; } shapes[] = {{1, 1000, 70, 0, 0}, {1, 50, 600, 0, 1}, {4, 70, 500, 0, 1}, {3, 1100, 40, 1, 0}, {600, 2, 90, 0, 0}, {24, 24, 24, 0, 0}, {23, 31, 40, 1, 1}, {130, 75, 66, 0, 0}};
  static tg_kit_choice c[ROWS];
  tg_check_failure f;
  for (uint32_t i = 0; i < TG_COUNT(shapes); i++)
    for (uint32_t r = 0; r < rows; r++) {
      tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .a_major = shapes[i].a_major, .b_major = shapes[i].b_major, .m = {shapes[i].m, shapes[i].m}, .n = {shapes[i].n, shapes[i].n},
                           .k = {shapes[i].k, shapes[i].k}, .batch = {1, 1}};
      tg_gemm_choose(&p, &row[r], 1, &c[r]);
      if (!chosen_before(c, r)) CHECK(tg_checks_pass(context, &p, &c[r], NULL, 1, 1, &f) == TG_OK, "for %s: %s: %s", row[r].name, c[r].sketch->name, f.text);
    }
}

/* What is chosen for bytes compiles as it is: a plan would take the plain sketch instead, and be slow. */
static void chosen_bytes(void) {
  static tg_kit_choice c[ROWS];
  tg_check_failure f;
  tg_target host;
  int left = 0;
  tg_target_named(&host, test_target());
  for (uint32_t i = 0; i < 32; i++) {
    tg_gemm_problem p = {.a = i & 1 ? TG_I8 : TG_U8, .b = TG_I8, .c = TG_I32, .acc = TG_I32, .a_major = i >> 1 & 1, .b_major = i >> 2 & 1, .m = {37, 37}, .n = {i & 8 ? 5 : 145, i & 8 ? 5 : 145}, .k = {i & 16 ? 128 : 67, i & 16 ? 128 : 67}, .batch = {1, 1}};
    for (uint32_t r = 0; r < rows; r++) {
      tg_gemm_choose(&p, &row[r], 1, &c[r]);
      CHECK(!row[r].dot_u8s8 || c[r].sketch != tg_gemm_plain.kernel, "bytes for %s, %u: the plain sketch", row[r].name, i);
      if ((i + r) % 3 || chosen_before(c, r)) continue;
      bool runs = (!row[r].dot_u8s8 || host.dot_u8s8) && (!row[r].tile_i8 || host.tile_i8);
      left += !runs;
      if (runs) CHECK(tg_checks_pass(context, &p, &c[r], NULL, 1, 1, &f) == TG_OK, "for %s: %s, %u: %s", row[r].name, c[r].sketch->name, i, f.text);
    }
  }
  if (left) printf("%d choices for bytes are not run: this processor lacks their instructions\n", left);
}

/* Pairs of bf16 are chosen, and pass, where subnormal numbers may count as zero, and nowhere else. */
static void pairs_where_allowed(void) {
  static tg_kit_choice c[ROWS];
  tg_check_failure f;
  tg_target host;
  int left = 0, with = 0;
  tg_target_named(&host, test_target());
  for (uint32_t i = 0; i < 16; i++)
    for (uint32_t r = 0; r < rows; r++) {
      tg_gemm_problem p = {.a = TG_BF16, .b = TG_BF16, .c = i & 4 ? TG_F32 : TG_BF16, .acc = TG_F32, .flush = true, .a_major = i & 1, .b_major = i >> 1 & 1, .m = {37, 37}, .n = {145, 145}, .k = {i & 8 ? 1187 : 66, i & 8 ? 1187 : 66}, .batch = {1, 1}}, q = p;
      q.flush = false;
      tg_gemm_choose(&q, &row[r], 1, &c[r]);
      CHECK(c[r].sketch != tg_gemm_pairs.kernel, "pairs for %s, %u, are chosen though subnormal numbers count", row[r].name, i);
      tg_gemm_choose(&p, &row[r], 1, &c[r]);
      CHECK((c[r].sketch == tg_gemm_pairs.kernel) == row[r].dot_bf16, "pairs for %s, %u: the sketch is %s", row[r].name, i, c[r].sketch->name);
      with += row[r].dot_bf16;
      if (!row[r].dot_bf16 || chosen_before(c, r)) continue;
      left += !host.dot_bf16;
      if (!host.dot_bf16) continue;
      CHECK(tg_checks_pass(context, &p, &c[r], NULL, 1, 1, &f) == TG_OK, "pairs for %s, %u: %s", row[r].name, i, f.text);
      if (i & 12) continue;   /* that it is refused: a result of bf16, once for each way that the operands lie */
      tg_status s = tg_checks_pass(context, &q, &c[r], NULL, 1, 1, &f);
      CHECK(s == TG_EINVAL && f.kind == TG_CHECK_ROUNDED, "pairs for %s, %u, though subnormal numbers count: %s %s", row[r].name, i, tg_status_name(s), f.text);
    }
  CHECK(with, "no row multiplies pairs of bf16");
  if (left) printf("%d choices of pairs of bf16 are not run: this processor lacks the instruction\n", left);
}

/* Small ones, whose tiles, rests and copies are made for their sizes: what is chosen compiles, and is right. And a panel whose epilogue has an argument for each element. */
static void chosen_small(void) {
  static const int64_t sizes[][3] = {{2, 156, 10}, {4, 99, 3}, {9, 40, 2}, {2, 11, 139}, {97, 73, 2}, {16, 6, 90}, {49, 52, 86}, {37, 1, 180}, {7, 34, 47}, {31, 31, 31}};
  tg_check_failure f;
  tg_kit_choice c;
  for (uint32_t i = 0; i < 4 * TG_COUNT(sizes); i++) {
    const int64_t *s = sizes[i / 4];
    tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .a_major = i & 1, .b_major = i >> 1 & 1, .m = {s[0], s[0]}, .n = {s[1], s[1]}, .k = {s[2], s[2]}, .batch = {1, 1}};
    for (uint32_t r = 0; r < rows; r++) {
      tg_gemm_choose(&p, &row[r], 1, &c);
      CHECK(c.sketch != tg_gemm_plain.kernel, "small for %s, %u: the plain sketch", row[r].name, i);
    }
    const tg_target *t = &row[(i / 4 * 3 + i) % rows];
    tg_gemm_choose(&p, t, 1, &c);
    if (c.sketch == tg_gemm_dot.kernel && !tg_gemm_thin_roles_of(&p).row_k) continue;   /* copies all terms of the rows: not for the checks' sizes of any length */
    CHECK(tg_checks_pass(context, &p, &c, NULL, 1, 1, &f) == TG_OK, "for %s: %s, %u: %s", t->name, c.sketch->name, i, f.text);
  }
  tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {130, 130}, .n = {200, 200}, .k = {300, 300}, .batch = {1, 1}, .epilogue = "acc + rest", .argument = {{"rest", TG_F32, 3}}, .arguments_n = 1};
  for (uint32_t r = 0; r < rows; r += 3) {
    tg_gemm_choose_knobs(&p, &row[r], 1, &tg_gemm_panel, &c);
    CHECK(tg_checks_pass(context, &p, &c, NULL, 1, 1, &f) == TG_OK, "for %s: %s: %s", row[r].name, c.sketch->name, f.text);
  }
}

/* Sums along k in blocks of terms, beside copies of what the rows have of one: rows that lie along k or not, columns and terms that blocks leave, sums that C cannot hold, an epilogue. */
static void dot_blocks(bool all) {
  static const tg_type types[][2] = {{TG_F32, TG_F32}, {TG_F64, TG_F64}, {TG_BF16, TG_BF16}, {TG_F16, TG_F32}};
  tg_check_failure f;
  tg_kit_choice c;
  for (uint32_t i = 0; i < 64; i += all ? 1 : 3) {   /* each value of each, and most pairs */
    const tg_type *type = types[i & 3];
    int64_t m = i & 16 ? 7 : 18, n = i & 8 ? 131 : 60, k = i & 32 ? 300 : 512;
    tg_gemm_problem p = {.a = type[0], .b = type[0], .c = type[1], .acc = type[0] == TG_F64 ? TG_F64 : TG_F32, .a_major = i >> 2 & 1, .b_major = TG_GEMM_COLUMN, .m = {m, m}, .n = {n, n}, .k = {k, k}, .batch = {1, 1}};
    if (i % 5 == 0) p.epilogue = "max(acc, rest)", p.argument[0].name = "rest", p.argument[0].type = TG_F32, p.argument[0].per = 3, p.arguments_n = 1;
    tg_gemm_choose_knobs(&p, &row[i % rows], 1, &tg_gemm_dot, &c);
    for (uint32_t x = 0; x < c.knobs_n; x++) {
      int64_t value = !strcmp(c.knob[x].name, "KC") ? 128 : !strcmp(c.knob[x].name, "NB") ? 1 + i % 2 : !strcmp(c.knob[x].name, "AHEAD") ? 1 + i % 2 : !strcmp(c.knob[x].name, "NC") ? 2 + i % 3 : !strcmp(c.knob[x].name, "MR") ? 4 : c.knob[x].lo;
      c.knob[x].lo = c.knob[x].hi = value;
    }
    CHECK(tg_checks_pass(context, &p, &c, NULL, 1, 1, &f) == TG_OK, "blocks, %u: %s", i, f.text);
  }
}

/* A row or a few against many columns that lie along k, long or short: nothing is copied but rows. */
static void chosen_rows(void) {
  tg_kit_choice c;
  for (uint32_t r = 0, i = 0; i < 6 * 4 * 3 * rows; r = ++i / (6 * 4 * 3)) {
    if (row[r].vector_bytes < 32) continue;   /* their vectors share little */
    int64_t m = 1 + i % 6, n = (int64_t[]){3000, 6000, 9001, 20000}[i / 6 % 4], k = (int64_t[]){100, 512, 1000}[i / 24 % 3];
    tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .b_major = TG_GEMM_COLUMN, .m = {m, m}, .n = {n, n}, .k = {k, k}, .batch = {1, 1}};
    tg_gemm_choose(&p, &row[r], 1, &c);
    CHECK(c.sketch == tg_gemm_dot.kernel, "for %s: %lld x %lld x %lld: %s", row[r].name, (long long)m, (long long)n, (long long)k, c.sketch->name);
  }
}

/* The first choice gives each knob one of its values: a body refuses others, and a plan would take the plain sketch instead. */
typedef struct { tg_job job; const tg_kit_choice *choice; const tg_gemm_problem *problem; } authoring;

static void author(void *arg) {
  authoring *a = arg;
  const tg_gemm_problem *p = a->problem;
  tg_binding b[6 + TG_GEMM_KNOBS] = {{"M", p->m.lo, p->m.hi, 1}, {"N", p->n.lo, p->n.hi, 1}, {"K", p->k.lo, p->k.hi, 1}, {"lda", 1, 1 << 20, 1}, {"ldb", 1, 1 << 20, 1}, {"ldc", 1, 1 << 20, 1}};
  tg_gemm_def d;
  memcpy(b + 6, a->choice->knob, a->choice->knobs_n * sizeof *b);
  tg_gemm_kernel_of(p, a->choice->sketch, &d);
  tg_author(&a->job, &d.def, 6 + a->choice->knobs_n, b, (void *)(uintptr_t)p);
}

static void chosen_values(void) {
  static const int64_t sizes[] = {1, 3, 6, 17, 64, 131, 500, 2048};
  authoring *a = calloc(1, sizeof *a);
  tg_kit_choice c;
  for (int64_t i = 0; a && i < 8 * 8 * 4 * 16; i++) {
    int64_t m = sizes[i % 8], n = sizes[i / 8 % 8], k = 1 + i * 37 % 211;
    tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .a_major = i / 64 % 2, .b_major = i / 128 % 2, .m = {m, m}, .n = {n, n}, .k = {k, k}, .batch = {1, 1}};
    const tg_target *t = &row[(i + i / rows) % rows];
    tg_gemm_choose(&p, t, 1, &c);
    a->choice = &c, a->problem = &p;
    tg_job_init(&a->job, NULL);
    bool fine = tg_protect(&a->job.env, author, a);
    CHECK(fine, "for %s: %s of %lld x %lld x %lld: %s", t->name, c.sketch->name, (long long)m, (long long)n, (long long)k, a->job.env.message);
    tg_job_drop(&a->job);
  }
  free(a);
}

/* And its words hold: a schedule that refuses one would cost the plan its choice as well. */
typedef struct { authoring author; tg_job job; tg_lowering lowering; } scheduling;

static void compile_rules(void *arg) {
  scheduling *s = arg;
  s->lowering.rules = tg_rules_compile(&s->job.env);
}

static void schedule(void *arg) {
  scheduling *s = arg;
  author(&s->author);
  tg_lower(&s->author.job, &s->lowering, "schedule", NULL, NULL);
}

static void chosen_words(void) {
  static const int64_t sizes[][3] = {{4, 512, 512}, {16, 2048, 700}, {1000, 32, 100}, {24, 2048, 2048}, {300, 200, 250}, {512, 512, 512}, {1024, 1000, 1024}, {700, 3000, 1500}, {4096, 128, 1024}, {128, 4096, 4096}, {4096, 4096, 4096}, {5000, 7000, 9000}};
  static const tg_type types[][2] = {{TG_F32, TG_F32}, {TG_BF16, TG_BF16}, {TG_F16, TG_F32}, {TG_F64, TG_F64}};
  scheduling *s = calloc(1, sizeof *s);
  tg_kit_choice c;
  if (!s) abort();
  tg_job_init(&s->job, NULL);
  bool good = tg_protect(&s->job.env, compile_rules, s);
  CHECK(good, "%s", s->job.env.message);
  for (uint32_t i = 0; good && i < TG_COUNT(sizes) * TG_COUNT(types) * 24; i++) {
    const int64_t *n = sizes[i % TG_COUNT(sizes)];
    const tg_type *type = types[i / TG_COUNT(sizes) % TG_COUNT(types)];
    uint32_t way = i / TG_COUNT(sizes) / TG_COUNT(types), threads = 1u << way % 3;
    int64_t step = way / 12 ? 2 : 1;
    tg_gemm_problem p = {.a = type[0], .b = type[0], .c = type[1], .acc = type[0] == TG_F64 ? TG_F64 : TG_F32, .a_major = way / 3 & 1, .b_major = way / 6 & 1, .m = {n[0], n[0]}, .n = {n[1], n[1]}, .k = {n[2], n[2]},
                         .batch = {1, 1}, .a_step = step, .b_step = step, .c_step = step};
    const tg_target *t = s->lowering.target = &row[(i + i / rows) % rows];
    tg_gemm_choose(&p, t, threads, &c);
    s->author.choice = &c, s->author.problem = &p;
    tg_job_init(&s->author.job, NULL);
    bool fine = tg_protect(&s->author.job.env, schedule, s);
    CHECK(fine, "for %s: %s of %lld x %lld x %lld, %s, %c%c, step %lld, %u threads: %s", t->name, c.sketch->name, (long long)n[0], (long long)n[1], (long long)n[2], tg_type_name[type[0]], "NT"[p.a_major], "NT"[p.b_major], (long long)step, threads, s->author.job.env.message);
    tg_job_drop(&s->author.job);
  }
  tg_job_drop(&s->job);
  free(s);
}

/* Strips make up all of C, once; rows of a range stay whole; the smallest products have none. */
static void strips(void) {
  static const int64_t sizes[] = {1, 17, 64, 129, 700, 2048};
  static const tg_type types[] = {TG_F32, TG_BF16, TG_I8, TG_F64};
  int many = 0;
  for (uint32_t i = 0; i < 6 * 6 * 4 * 4; i++) {
    int64_t m = sizes[i % 6], n = sizes[i / 6 % 6], all = 0;
    tg_type type = types[i / 36 % 4], sum = type == TG_I8 ? TG_I32 : type == TG_F64 ? TG_F64 : TG_F32;
    bool open_rows = i / 144 & 1;
    tg_gemm_problem p = {.a = type, .b = type, .c = sum, .acc = sum, .m = {m, m}, .n = {n, n}, .k = {300, 300}, .c_major = i / 288 & 1, .batch = {1, 1}};
    tg_kit_strips s = tg_gemm_choose_strips(&p, &row[(i + i / rows) % rows], 2 + i % 3, open_rows);
    CHECK(s.n >= 1 && s.n <= 2 + i % 3 && !(open_rows && s.rows), "%lld x %lld: %u strips", (long long)m, (long long)n, s.n);
    for (uint32_t k = 0; k < s.n && s.n > 1; k++) {
      tg_gemm_problem q = tg_gemm_strip(&p, &s, k);
      all += s.rows ? q.m.lo : q.n.lo;
      CHECK(q.m.lo >= 1 && q.n.lo >= 1 && q.m.lo == q.m.hi && q.n.lo == q.n.hi && (s.rows ? q.n.lo == n : q.m.lo == m), "%lld x %lld, strip %u", (long long)m, (long long)n, k);
    }
    CHECK(s.n == 1 || all == (s.rows ? m : n), "%lld x %lld: strips of %lld in all", (long long)m, (long long)n, (long long)all);
    many += s.n > 1;
    p.k = (tg_kit_dim){10, 10};   /* at most 170 multiply-adds take less than waking a thread */
    s = tg_gemm_choose_strips(&p, &row[(i + i / rows) % rows], 2 + i % 3, open_rows);
    CHECK(s.n == 1 || m * n > 17, "%lld x %lld x 10 in strips", (long long)m, (long long)n);
  }
  CHECK(many > 250, "%d of 576 in strips", many);
}

/*   gemm_checks [all] */
int main(int argc, char **argv) {
  if (tg_context_create(&(tg_context_options){.target = test_target()}, &context)) return 1;
  rows = rows_of_processors(row);
  right_passes();
  arguments_in_any_order();
  faults_are_caught();
  messages();
  choices();
  chosen_for_rows();
  chosen_bytes();
  pairs_where_allowed();
  chosen_small();
  dot_blocks(argc > 1 && !strcmp(argv[1], "all"));
  chosen_rows();
  chosen_values();
  chosen_words();
  strips();
  outside(READS_BEHIND, false, "0 bytes behind the end of B");
  outside(READS_BEFORE, true, "4 bytes before the beginning of A");
  outside(WRITES_BEHIND, false, "0 bytes behind the end of C");
  outside(WRITES_BEFORE, true, "1 bytes before the beginning of C");
  tg_context_free(context);
  return TEST_END();
}
