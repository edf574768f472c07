/* SPDX-License-Identifier: MIT
 * Data for the checks, and the expected results, computed by plain C in doubles. */
#include <math.h>
#include "checks/product.h"

/* The binary exponents of a type's smallest subnormal number, and of its largest number. */
static int least_exponent(tg_type t) { return t == TG_F16 ? -24 : t == TG_BF16 ? -133 : t == TG_F32 ? -149 : -1074; }
static int largest_exponent(tg_type t) { return t == TG_F16 ? 15 : t == TG_F64 ? 1023 : 127; }

/* The smallest exponent to use: if subnormal numbers may be treated as zero, data, products and sums must have none. */
static int least_there(const tg_gemm_problem *p, tg_type t) { return p->flush ? -126 : least_exponent(t); }

static int64_t below(check_product *p, int64_t n) { return (int64_t)(tg_draw(&p->state) % (uint64_t)n); }
static double least_of(double a, double b) { return a < b ? a : b; }

static void fill_c(check_product *p) {
  const tg_check_case *w = &p->which;
  if (!p->problem->beta) return;
  p->c = tg_new(p->env, double, w->m * w->n);
  for (int64_t i = 0; i < w->m * w->n; i++) p->c[i] = tg_draw_whole(&p->state, p->problem->c, 3);
}

enum { ARGUMENT = 127, FRACTION = 32, WHOLE = 7 };   /* floats: multiples of 1/32 up to 127/32; integers: up to 7 */

static void fill_arguments(check_product *p) {
  for (uint32_t q = 0; q < p->problem->arguments_n; q++) {
    uint8_t per = p->problem->argument[q].per;
    tg_type t = p->problem->argument[q].type;
    int64_t n = (per & 1 ? p->which.m : 1) * (per & 2 ? p->which.n : 1);
    p->argument[q] = tg_new(p->env, double, n);
    p->argument_n[q] = n;
    for (int64_t i = 0; i < n; i++)
      p->argument[q][i] =
          tg_is_float(t) ? tg_draw_whole(&p->state, t, ARGUMENT) / FRACTION : tg_draw_whole(&p->state, t, WHOLE);
  }
}

/* ---- exact sums ---- */

/* Keeps `keep` of the k elements of a row of A, at random places, and sets the others to 0, so that sums stay exact. */
static void thin(check_product *p, double *row, int64_t k, int64_t keep) {
  for (int64_t left = k, want = keep, q = 0; q < k; q++, left--) {
    if (below(p, left) < want) want--;
    else row[q] = 0;
  }
}

/* An epilogue f(x + c * acc) may add x before the products, and multiply each partial sum by c (docs/gemm.md). Partial
 * sums then need the integer bits and the fraction bits of x and c too: returns the room that is left for the sum. */
static double beside_arguments(const check_product *p, double room) {
  const tg_gemm_problem *q = p->problem;
  double unit = 1, most = 0;
  for (uint32_t x = 0; x < q->arguments_n; x++) {
    bool fraction = tg_is_float(q->argument[x].type) && tg_is_float(q->acc);
    if (fraction) unit = ARGUMENT + 1;   /* c times an integer is a multiple of 1/32 */
    most += tg_is_float(q->argument[x].type) ? ARGUMENT / FRACTION + 1 : WHOLE;
  }
  return room / unit - most;
}

/* Integers for which |alpha| sum |a b| + |beta c| is below 2^bits, bits being those of the significand of the sum's
 * type, or (into_c) of C's type if these are fewer. */
static void fill_exact(check_product *p, bool into_c) {
  const tg_gemm_problem *q = p->problem;
  const tg_check_case *w = &p->which;
  int bits = tg_significand(q->acc);
  if (into_c && tg_significand(q->c) < bits) bits = tg_significand(q->c);
  double room =
      (beside_arguments(p, ldexp(1, bits > 50 ? 50 : bits)) - (p->c ? 3 * fabs(p->beta) : 0)) / fmax(fabs(p->alpha), 1);
  double each = floor(room / (double)w->k);
  double larger = floor(sqrt(each < 1 ? 1 : each)), most_a = least_of(larger, ldexp(1, tg_significand(q->a)) - 1),
         most_b = least_of(larger, ldexp(1, tg_significand(q->b)) - 1);
  if (q->bits) {
    double largest = tg_check_fill_quantised(p, room);
    each = largest, most_a = least_of(largest < 1 ? 1 : largest, ldexp(1, tg_significand(q->a)) - 1),
    room = largest * (double)w->k;
  }
  for (int64_t i = 0; i < w->m * w->k; i++) p->a[i] = tg_draw_whole(&p->state, q->a, (int64_t)most_a);
  for (int64_t i = 0; !q->bits && i < w->k * w->n; i++) p->b[i] = tg_draw_whole(&p->state, q->b, (int64_t)most_b);
  if (each < 1)
    for (int64_t i = 0; i < w->m; i++) thin(p, p->a + i * w->k, w->k, room < 1 ? 1 : (int64_t)room);
}

/* For a quarter of the seeds sets one element of A to infinity or NaN, and one of B to infinity. Then, whatever the
 * order of the sums, one row and one column of C are infinite or NaN, and no other element is. */
static void fill_endless(check_product *p) {
  const tg_check_case *w = &p->which;
  const tg_gemm_problem *q = p->problem;
  if (w->seed % 4 != 3 || q->bits || !tg_is_float(q->a) || !tg_is_float(q->b)) return;
  uint64_t r = tg_draw(&p->state);
  p->endless = true;
  p->a[below(p, w->m) * w->k + below(p, w->k)] = r & 4 ? NAN : r & 1 ? INFINITY : -INFINITY;
  p->b[below(p, w->k) * w->n + below(p, w->n)] = r & 2 ? INFINITY : -INFINITY;
}

/* ---- one rounding ---- */

static int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }

/* Sets a column of B, and two elements in each row of A, so that each sum in the column has two terms and lies at, just
 * below or just above the midpoint of two neighbouring numbers of C's type. A unit is the distance of the two
 * neighbours. One term is 2^bits - 1 or 2^bits - 2 units, the other half a unit, or 2^-bits units less or more. Unless
 * B's type forbids it, the unit is such that in rows of A with the scale row_scale 2^bits - 1 units are C's largest
 * number: such a sum is rounded to it or to infinity. */
static void fill_ties(check_product *p, int64_t column, const int *scale, int row_scale) {
  const tg_check_case *w = &p->which;
  tg_type t = p->problem->b, c = p->problem->c;
  int bits = tg_significand(c), unit = largest_exponent(c) - bits + 1 - row_scale;
  int lo = least_exponent(t) + bits, least = 0, hi = largest_exponent(t) - bits;
  for (int64_t i = 0; i < w->m; i++)
    if (scale[i] < least) least = scale[i];
  if (p->problem->flush) lo = -126 - least + bits;
  unit = clamp(unit, lo, hi);
  int64_t first = below(p, w->k), second = (first + 1 + below(p, w->k - 1)) % w->k;
  double half = ldexp(1, bits - 1) + (double)(below(p, 3) - 1);
  for (int64_t k = 0; k < w->k; k++) p->b[k * w->n + column] = 0;
  for (int64_t i = 0; i < w->m; i++) p->a[i * w->k + first] = p->a[i * w->k + second] = ldexp(1, scale[i]);
  p->b[first * w->n + column] = ldexp(ldexp(1, bits) - 1 - (double)below(p, 2), unit);
  p->b[second * w->n + column] = ldexp(half, unit - bits);
}

/* Integers, with rows and columns scaled by powers of two: every sum is an integer times a power of two, exact in the
 * sum's type, and has more significant bits than C's type. */
static void fill_rounded(check_product *p) {
  const tg_gemm_problem *q = p->problem;
  const tg_check_case *w = &p->which;
  double room = ldexp(1, tg_significand(q->acc) - 2) / (double)w->k;
  int64_t most = (int64_t)fmax(
      1, least_of(floor(sqrt(room)),
                  least_of(127, ldexp(1, (tg_significand(q->a) < tg_significand(q->b) ? tg_significand(q->a)
                                                                                      : tg_significand(q->b))) -
                                    1)));
  bool fa = tg_is_float(q->a), fb = tg_is_float(q->b);
  int bits = (int)ceil(log2((double)(most * most) * (double)w->k)),
      usual = (int)(log2((double)(most * most) * sqrt((double)w->k)) - 1);
  int base = fb ? -6 : 0, top = largest_exponent(q->a) - 8, overflow = base, *scales = tg_new(p->env, int, w->m);
  for (int64_t k = 0; k < w->k; k++)
    for (int64_t j = 0; j < w->n; j++)
      p->b[k * w->n + j] = ldexp(tg_draw_whole(&p->state, q->b, most), fb ? base - (int)(j % 3) : 0);
  for (int64_t i = 0; i < w->m; i++) {
    int kind = (int)below(p, 3), c = largest_exponent(q->c), least = least_exponent(q->c) + tg_significand(q->c) - 1;
    int scale = kind == 0                       ? least - usual
                : kind == 1                     ? -usual / 2
                : c == largest_exponent(q->acc) ? c - bits
                                                : c - usual + (int)below(p, 3);
    int products = least_there(q, q->acc) + 8 - base,
        lowest = least_there(q, q->a) > products ? least_there(q, q->a) : products;
    scale = fa ? clamp(scale - base, lowest, top) : 0;
    if (kind == 2) overflow = scale;
    scales[i] = scale;
    for (int64_t k = 0; k < w->k; k++) p->a[i * w->k + k] = ldexp(tg_draw_whole(&p->state, q->a, most), scale);
    for (int64_t j = 0; p->c && j < w->n; j++) {
      int e = scale + (fb ? base - (int)(j % 3) : 0);
      p->c[i * w->n + j] =
          e >= least_exponent(q->c) ? tg_round_to(q->c, ldexp(tg_draw_whole(&p->state, q->c, 3), e)) : 0;
      if (isinf(p->c[i * w->n + j])) p->c[i * w->n + j] = 0;
    }
  }
  if (!fa || !fb || w->k < 2 || tg_significand(q->b) < tg_significand(q->c)) return;
  for (int64_t j = 0; j < w->n; j++) {
    if (j % 4 != 3 && j != w->n - 1) continue;
    fill_ties(p, j, scales, overflow);
    for (int64_t i = 0; p->c && i < w->m; i++) p->c[i * w->n + j] = 0;
  }
}

/* ---- 8-bit integers ---- */

/* Divides k into runs of up to 64 terms. In a run each row of A and each column of B is random, or has its type's
 * largest number, or its smallest, in all terms. */
static void fill_extremes(check_product *p) {
  const tg_check_case *w = &p->which;
  const tg_type t[2] = {p->problem->a, p->problem->b};
  double *x[2] = {p->a, p->b};
  int64_t rows[2] = {w->m, w->n}, along[2] = {1, w->n}, across[2] = {w->k, 1};
  for (int64_t from = 0, n; from < w->k; from += n) {
    n = 1 + below(p, 64);
    if (n > w->k - from) n = w->k - from;
    int kind = (int)below(p, 4);   /* 0: random; 1: all the largest; else drawn for each row */
    for (int s = 0; s < 2; s++) {
      double low = tg_is_signed(t[s]) ? -128 : 0, high = tg_is_signed(t[s]) ? 127 : 255;
      for (int64_t i = 0; i < rows[s]; i++) {
        double v = kind == 1 || below(p, 2) ? high : low;
        for (int64_t k = from; k < from + n; k++)
          x[s][i * across[s] + k * along[s]] = kind ? v : low + (double)below(p, 256);
      }
    }
  }
}

/* ---- random ---- */

static void fill_random(check_product *p) {
  const tg_gemm_problem *q = p->problem;
  const tg_check_case *w = &p->which;
  for (int64_t i = 0; i < w->m * w->k; i++)
    p->a[i] = tg_is_float(q->a) ? tg_draw_unit(&p->state, q->a) : tg_draw_whole(&p->state, q->a, 127);
  if (q->bits) tg_check_fill_quantised(p, 0);
  for (int64_t i = 0; !q->bits && i < w->k * w->n; i++)
    p->b[i] = tg_is_float(q->b) ? tg_draw_unit(&p->state, q->b) : tg_draw_whole(&p->state, q->b, 127);
  for (int64_t i = 0; p->c && i < w->m * w->n; i++)
    p->c[i] = tg_is_float(q->c) ? tg_draw_unit(&p->state, q->c) : tg_draw_whole(&p->state, q->c, 127);
}

void tg_check_fill(check_product *p) {
  const tg_check_case *w = &p->which;
  p->state = w->seed * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du;
  p->alpha = p->problem->alpha ? w->alpha : 1;
  p->beta = p->problem->beta ? w->beta : 0;
  p->a = tg_new(p->env, double, w->m * w->k);
  p->b = tg_new(p->env, double, w->k * w->n);
  fill_c(p);
  fill_arguments(p);
  switch (w->kind) {
  case TG_CHECK_ROUNDED:
    if (p->problem->bits) fill_exact(p, false);   /* these sums have more bits than C */
    else fill_rounded(p);
    return;
  case TG_CHECK_EXTREMES: fill_extremes(p); return;
  case TG_CHECK_RANDOM: fill_random(p); return;
  default:
    fill_exact(p, w->kind == TG_CHECK_EXACT || w->kind == TG_CHECK_FREIVALDS);
    if (w->kind != TG_CHECK_FREIVALDS) fill_endless(p);
  }
}

/* ---- what must come out ---- */

static const double *columns_of(const check_product *p, const double *of, const check_block *b) {
  if (!b->columns) return of;
  double *x = tg_new(p->env, double, p->which.k * b->columns_n);
  for (int64_t k = 0; k < p->which.k; k++)
    for (int64_t j = 0; j < b->columns_n; j++) x[k * b->columns_n + j] = of[k * p->which.n + b->columns[j]];
  return x;
}

static double wrapped(tg_type acc, double sum) {
  return tg_is_float(acc) ? sum : (double)(int64_t)tg_wrap(acc, (tg_i128)sum);
}

void tg_check_sum(const check_product *p, const check_block *block, bool wide, double *sum, double *magnitude) {
  int64_t n = block->columns_n, K = p->which.k;
  tg_mark mark = tg_mark_get(p->env);
  const double *b = columns_of(p, p->b, block), *b_size = magnitude && p->b_size ? columns_of(p, p->b_size, block) : b;
  double *row = tg_new(p->env, double, n), *size = tg_new(p->env, double, n);
  long double *wider = wide ? tg_new(p->env, long double, n) : NULL;
  for (int64_t r = 0; r < block->rows_n; r++) {
    int64_t i = block->rows ? block->rows[r] : r;
    memset(row, 0, sizeof *row * (size_t)n), memset(size, 0, sizeof *size * (size_t)n);
    if (wide) memset(wider, 0, sizeof *wider * (size_t)n);
    for (int64_t k = 0; k < K; k++) {
      double x = p->a[i * K + k];
      const double *y = b + k * n;
      if (x == 0 && !p->endless) continue;
      if (wide) for (int64_t j = 0; j < n; j++) wider[j] += (long double)x * y[j];
      else for (int64_t j = 0; j < n; j++) row[j] += x * y[j];
      if (magnitude) for (int64_t j = 0; j < n; j++) size[j] += fabs(x * b_size[k * n + j]);
    }
    for (int64_t j = 0; j < n; j++) {
      double c = p->c && p->beta != 0 ? p->c[i * p->which.n + (block->columns ? block->columns[j] : j)] : 0;
      sum[r * n + j] = wide ? (double)(p->alpha * wider[j] + (long double)p->beta * c)
                            : wrapped(p->problem->acc, p->alpha * row[j] + p->beta * c);
      if (magnitude) magnitude[r * n + j] = fabs(p->alpha) * size[j] + fabs(p->beta * c);
    }
  }
  tg_mark_release(p->env, mark);
}

double tg_check_rounded(const tg_gemm_problem *p, double sum) {
  tg_value from = {0}, to;
  if (tg_is_float(p->acc)) from.f = sum;
  else from.i = (tg_i128)sum;
  if (p->acc == p->c || !tg_convert(p->c, p->acc, from, &to)) return sum;
  return tg_is_float(p->c) ? to.f : (double)(int64_t)to.i;
}

/* ---- Freivalds' check ---- Compares C x with A (B x) modulo the prime 2^61 - 1, for a random vector x of residues. If
 * a row of C is wrong, by integers smaller than the prime, then for each wrong element at most one value of its x_j,
 * given the others, hides the error. So a wrong C passes with a probability of 2^-61; and, as y C is compared for an
 * independent vector y too, it passes both with 2^-122. */

__extension__ typedef unsigned __int128 u128;
#define PRIME (((uint64_t)1 << 61) - 1)
static const double below_prime = 0x1p60;

static uint64_t folded(u128 v) {   /* congruent to v modulo the prime, and below 2^62, but not fully reduced */
  return (uint64_t)(v & PRIME) + (uint64_t)(v >> 61 & PRIME) + (uint64_t)(v >> 122);
}
static uint64_t least(uint64_t v) {
  v = (v & PRIME) + (v >> 61);
  return v >= PRIME ? v - PRIME : v;
}
static uint64_t residue(double v) { return v < 0 ? PRIME - (uint64_t)-v : (uint64_t)v; }

/* out = x M (left) or M x. */
static void times(const double *m, int64_t rows, int64_t columns, const uint64_t *x, bool left, uint64_t *out) {
  enum { TERMS = 32 };   /* terms, each below 2^122, that may be added without reduction */
  if (left) memset(out, 0, sizeof *out * (size_t)columns);
  for (int64_t i = 0; i < rows; i++) {
    const double *row = m + i * columns;
    u128 sum = 0;
    for (int64_t j = 0; left && j < columns; j++) out[j] = folded((u128)x[i] * residue(row[j]) + out[j]);
    for (int64_t j = 0; !left && j < columns; j++) {
      sum += (u128)x[j] * residue(row[j]);
      if (j % TERMS == TERMS - 1) sum = folded(sum);
    }
    if (!left) out[i] = least(folded(sum));
  }
  for (int64_t j = 0; left && j < columns; j++) out[j] = least(out[j]);
}

static int64_t one_side(check_product *p, const double *got, bool left) {
  const tg_check_case *w = &p->which;
  int64_t n = left ? w->m : w->n, out = left ? w->n : w->m;
  uint64_t *x = tg_new(p->env, uint64_t, n), *inner = tg_new(p->env, uint64_t, w->k),
           *want = tg_new(p->env, uint64_t, out), *seen = tg_new(p->env, uint64_t, out),
           *old = tg_new(p->env, uint64_t, out), alpha = residue(p->alpha), beta = residue(p->beta);
  for (int64_t i = 0; i < n; i++) x[i] = least(tg_draw(&p->state) >> 3);
  if (left) times(p->a, w->m, w->k, x, true, inner), times(p->b, w->k, w->n, inner, true, want);
  else times(p->b, w->k, w->n, x, false, inner), times(p->a, w->m, w->k, inner, false, want);
  times(got, w->m, w->n, x, left, seen);
  if (p->c && p->beta != 0) times(p->c, w->m, w->n, x, left, old);
  for (int64_t i = 0; i < out; i++)
    if (seen[i] != least(folded((u128)want[i] * alpha + (u128)old[i] * beta))) return i;
  return -1;
}

bool tg_check_freivalds(check_product *p, const double *got, int64_t *row, int64_t *column) {
  for (int64_t i = 0; i < p->which.m * p->which.n; i++)
    if (!(fabs(got[i]) < below_prime) || got[i] != trunc(got[i]))
      return *row = i / p->which.n, *column = i % p->which.n, false;
  *row = one_side(p, got, false);
  *column = one_side(p, got, true);
  return *row < 0 && *column < 0;
}
