/* SPDX-License-Identifier: MIT
 * The interpreter: ops against plain C, lockstep, reductions of every kind, gates, vectors, and what it reports. */
#include "build.h"

#define B(a) {(a), sizeof(a)}

static void expect_error(U sink, tg_interp in, const char *part, int line) {
  bool ok = interpret(sink, in);
  CHECK(!ok && strstr(j->env.message, part), "(line %d) %s", line, ok ? "no error" : j->env.message);
}

/* ---- ops ---- */

static int64_t floor_div(int64_t a, int64_t b) { return b ? (int64_t)floor((double)a / (double)b) : 0; }

static int64_t on_i8(tg_op o, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (o) {
  case TG_OP_ADD: r = a + b; break;
  case TG_OP_SUB: r = a - b; break;
  case TG_OP_MUL: r = a * b; break;
  case TG_OP_IDIV: r = floor_div(a, b); break;
  case TG_OP_MOD: r = b ? a - floor_div(a, b) * b : 0; break;
  case TG_OP_CDIV: r = b ? a / b : 0; break;
  case TG_OP_CMOD: r = b ? a % b : 0; break;
  case TG_OP_MAX: r = a > b ? a : b; break;
  case TG_OP_MIN: r = a < b ? a : b; break;
  case TG_OP_AND: r = a & b; break;
  case TG_OP_OR: r = a | b; break;
  case TG_OP_XOR: r = a ^ b; break;
  case TG_OP_SHL: r = b < 0 || b > 7 ? 0 : a * (1 << b); break;
  case TG_OP_SHR: r = b < 0 || b > 7 ? (a < 0 ? -1 : 0) : a >> b; break;
  case TG_OP_LT: return a < b;
  case TG_OP_LE: return a <= b;
  case TG_OP_EQ: return a == b;
  case TG_OP_NE: return a != b;
  default: break;
  }
  return (int8_t)(uint8_t)r;
}

static void test_integers(void) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_IDIV, TG_OP_MOD, TG_OP_CDIV, TG_OP_CMOD, TG_OP_MAX, TG_OP_MIN, TG_OP_AND,
                              TG_OP_OR, TG_OP_XOR, TG_OP_SHL, TG_OP_SHR, TG_OP_LT, TG_OP_LE, TG_OP_EQ, TG_OP_NE};
  begin();
  for (size_t o = 0; o < TG_COUNT(ops); o++) {
    U arg[2] = {tg_make(j, TG_OP_ARG, TG_I8, 1, 0, 0, NULL), tg_make(j, TG_OP_ARG, TG_I8, 1, 1, 0, NULL)};
    tg_interp_function *f = tg_interpret_prepare(j, op(ops[o], arg[0], arg[1]), 2);
    int wrong = 0;
    for (int a = -128; a < 128; a++)
      for (int b = -128; b < 128; b++) {
        tg_value v[2] = {{.i = a}, {.i = b}};
        wrong += tg_interpret_call(f, v).i != on_i8(ops[o], a, b);
      }
    CHECK(!wrong, "%s: %d of 65536", tg_ops[ops[o]].name, wrong);
  }
  tg_value v[2] = {{.i = (tg_i128)1 << 100}, {.i = (tg_i128)1 << 100}}, r;
  U x = tg_make(j, TG_OP_ARG, TG_INDEX, 1, 0, 0, NULL), y = tg_make(j, TG_OP_ARG, TG_INDEX, 1, 1, 0, NULL);
  CHECK(!tg_interpret_expr(j, op(TG_OP_MUL, x, y), 2, v, &r), "128 bits are passed");
  CHECK(tg_interpret_expr(j, op(TG_OP_ADD, x, y), 2, v, &r) && r.i == (tg_i128)1 << 101, "index arithmetic is unbounded");
  tg_job_drop(j);
}

static void test_floats(void) {
  static const float values[] = {0, -0.0f, 1, -1, 0.5f, 3.25f, 1e30f, -1e30f, 1e-40f, 16777217.0f, INFINITY, -INFINITY, NAN, 2147483648.0f, -129.5f};
  enum { N = TG_COUNT(values) };
  begin();
  U a = in_("A", TG_F32, 1, N, 0), c = out_("C", TG_F32, 2, 10, N * N), d = out_("D", TG_I8, 1, N, 0);
  U i = open_("i", N, TG_LOOP), k = open_("k", N, TG_LOOP), x = load1(a, i), y = load1(a, k), at = op(TG_OP_ADD, op(TG_OP_MUL, i, idx(N)), k);
  U results[10] = {op(TG_OP_ADD, x, y), op(TG_OP_SUB, x, y), op(TG_OP_MUL, x, y), op(TG_OP_FDIV, x, y), op(TG_OP_MAX, x, y), op(TG_OP_MIN, x, y),
                   tg_op3(j, TG_OP_FMA, x, y, x), tg_op1(j, TG_OP_NEG, x), tg_op1(j, TG_OP_SQRT, x),
                   tg_op3(j, TG_OP_WHERE, op(TG_OP_LT, x, y), x, y)};
  for (int r = 0; r < 10; r++) store2(c, idx(r), at, results[r]);
  close_();
  store1(d, i, tg_cast(j, TG_I8, x));
  close_();
  static float got[10][N * N];
  int8_t cast[N];
  finish();
  tg_interp_buffer buffers[] = {{(void *)values, sizeof values}, {got, sizeof got}, {cast, sizeof cast}};
  CHECK(interpret(j->sink, (tg_interp){.buffers = buffers}), "%s", j->env.message);
  for (int p = 0; p < N; p++)
    for (int q = 0; q < N; q++) {
      volatile float f = values[p], g = values[q];
      float max = f != f || g != g ? NAN : f > g || (f == g && !signbit(f)) ? f : g, min = f != f || g != g ? NAN : f < g || (f == g && signbit(f)) ? f : g;
      float want[10] = {f + g, f - g, f * g, f / g, max, min, fmaf(f, g, f), -f, sqrtf(f), f < g ? f : g};
      for (int r = 0; r < 10; r++) {
        float w = want[r], h = got[r][p * N + q];
        CHECK((w != w && h != h) || !memcmp(&w, &h, 4), "op %d of %g, %g: %g, not %g", r, (double)f, (double)g, (double)h, (double)w);
      }
    }
  static const int8_t casts[] = {0, 0, 1, -1, 0, 3, 127, -128, 0, 127, 127, -128, 0, 127, -128};
  for (int p = 0; p < N; p++) CHECK(cast[p] == casts[p], "i8(%g) = %d", (double)values[p], cast[p]);
  tg_job_drop(j);
}

/* ---- order ---- */

static void test_lockstep(void) {
  for (int kind = 0; kind < 2; kind++) {
    begin();
    U a = in_("A", TG_F32, 1, 256, 0), c = out_("C", TG_F32, 1, 256, 0), as = local_("As", TG_F32, 1, 256, 0);
    U t = open_("t", 256, kind ? TG_LOCAL : TG_UPCAST), x;
    x = reg("x", TG_F32, 1, 1, 0);
    store1(as, t, load1(a, t));
    store1(x, idx(0), load1(as, op(TG_OP_SUB, idx(255), t)));
    store1(c, t, op(TG_OP_ADD, load1(x, idx(0)), f32c(1)));
    close_();
    float in[256], out[256];
    for (int i = 0; i < 256; i++) in[i] = (float)i;
    tg_interp_buffer buffers[] = {B(in), B(out)};
    U sink = finish();
    CHECK(interpret(sink, (tg_interp){.buffers = buffers, .check_uninitialised = true, .check_races = true}), "%s", j->env.message);
    int wrong = 0;
    for (int i = 0; i < 256; i++) wrong += out[i] != (float)(255 - i) + 1;
    CHECK(!wrong, "%d", wrong);
    tg_job_drop(j);
  }
  begin(); /* through a loop: rotating within shared memory */
  U c = out_("C", TG_I32, 1, 8, 0), s = local_("S", TG_I32, 2, 2, 8), t = open_("t", 8, TG_LOCAL);
  store2(s, idx(0), t, tg_cast(j, TG_I32, t));
  U k = open_("k", 4, TG_LOOP), from = op(TG_OP_MOD, k, idx(2)), to = op(TG_OP_SUB, idx(1), from);
  store2(s, to, t, load2(s, from, op(TG_OP_MOD, op(TG_OP_ADD, t, idx(1)), idx(8))));
  close_();
  store1(c, t, load2(s, idx(0), t));
  close_();
  int32_t out[8];
  tg_interp_buffer buffers[] = {B(out)};
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers, .check_uninitialised = true, .check_races = true}), "%s", j->env.message);
  for (int i = 0; i < 8; i++) CHECK(out[i] == (i + 4) % 8, "%d: %d", i, out[i]);
  tg_job_drop(j);

  begin(); /* an extent that differs between lockstep iterations: fine for another lockstep range, not for a loop */
  c = out_("C", TG_I32, 1, 8, 0), t = open_("t", 4, TG_LOCAL);
  U u = open_x("u", op(TG_OP_ADD, t, idx(1)), TG_LOCAL);
  add(tg_store(j, c, &t, tg_cast(j, TG_I32, u), NULL, 0));
  close_();
  close_();
  memset(out, 9, sizeof out);
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers}), "%s", j->env.message);
  for (int i = 0; i < 4; i++) CHECK(out[i] == i, "%d: %d", i, out[i]);
  expect_error(j->sink, (tg_interp){.buffers = buffers, .check_races = true}, "race", __LINE__);
  tg_job_drop(j);
  begin();
  c = out_("C", TG_I32, 1, 8, 0), t = open_("t", 4, TG_LOCAL);
  open_x("k", t, TG_LOOP);
  store1(c, t, tg_const_int(j, TG_I32, 1));
  close_();
  close_();
  expect_error(finish(), (tg_interp){.buffers = buffers}, "differs between iterations that run in lockstep", __LINE__);
  tg_job_drop(j);
}

static float noise(unsigned n) { return (float)((int)(n * 2654435761u >> 9) - (1 << 22)) * 0x1p-20f; }

/* What the order of a reduction is, written again: accumulators, then halves. */
static float halved(float *v, int n) {
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i + (n + 1) / 2 < n; i++) v[i] += v[i + (n + 1) / 2];
  return v[0];
}

static void test_reductions(void) {
  static const tg_kind kinds[] = {TG_REDUCE, TG_UPCAST, TG_LANE, TG_THREAD, TG_LOOP};
  float in[60], out[1];
  for (unsigned i = 0; i < 60; i++) in[i] = noise(i);
  for (size_t x = 0; x < TG_COUNT(kinds); x++)
    for (size_t y = 0; y < TG_COUNT(kinds); y++) {
      begin();
      U a = in_("A", TG_F32, 1, 60, 0), c = out_("C", TG_F32, 1, 1, 0), r[2] = {range_("p", 10, kinds[x]), range_("q", 6, kinds[y])};
      U v = load1(a, op(TG_OP_ADD, op(TG_OP_MUL, r[0], idx(6)), r[1]));
      store1(c, idx(0), tg_reduce(j, (tg_reduce_arg){.op = TG_OP_ADD, .values = 1, .ranges = 2}, &v, NULL, NULL, r));
      tg_interp_buffer buffers[] = {B(in), B(out)};
      CHECK(interpret(finish(), (tg_interp){.buffers = buffers}), "%s", j->env.message);
      bool px = x >= 1 && x <= 3, py = y >= 1 && y <= 3;
      float acc[10][6] = {{0}}, want, rows[10];
      for (int p = 0; p < 10; p++)
        for (int q = 0; q < 6; q++) acc[px ? p : 0][py ? q : 0] += in[p * 6 + q];
      if (px && py && x <= y) { /* p is folded first, for each q */
        float column[10], row[6];
        for (int q = 0; q < 6; q++) {
          for (int p = 0; p < 10; p++) column[p] = acc[p][q];
          row[q] = halved(column, 10);
        }
        want = halved(row, 6);
      } else {
        for (int p = 0; p < 10; p++) rows[p] = py ? halved(acc[p], 6) : acc[p][0];
        want = px ? halved(rows, 10) : rows[0];
      }
      CHECK(!memcmp(out, &want, 4), "%s, %s: %.9g, not %.9g", tg_kind_name[kinds[x]], tg_kind_name[kinds[y]], (double)out[0], (double)want);
      tg_job_drop(j);
    }
}

/* A sum that is the same for all iterations of a loop inside is computed once, if nothing writes what it reads; in
 * lockstep, too, where iterations of the loop around come in turns. */
static void test_sums_of_rows(void) {
  enum { R = 24, N = 200 };
  static float in[R * N], out[R * N];
  for (unsigned i = 0; i < R * N; i++) in[i] = noise(i);
  for (int kind = 0; kind < 3; kind++) {
    static const tg_kind kinds[] = {TG_LOOP, TG_LANE, TG_THREAD};
    begin();
    U x = in_("x", TG_F32, 2, R, N), y = out_("y", TG_F32, 2, R, N);
    U r = open_("r", R, kinds[kind]), i = open_("i", N, TG_LOOP), k = range_("k", N, TG_REDUCE), v = load2(x, r, k);
    U sum = tg_reduce(j, (tg_reduce_arg){.op = TG_OP_ADD, .values = 1, .ranges = 1}, &v, NULL, NULL, &k);
    store2(y, r, i, op(TG_OP_MUL, load2(x, r, i), sum));
    close_(), close_();
    tg_interp_buffer buffers[] = {B(in), B(out)};
    CHECK(interpret(finish(), (tg_interp){.buffers = buffers, .step_limit = R * N * 16}), "%s", j->env.message);
    for (int p = 0; p < R; p++) {
      float s = 0;
      for (int q = 0; q < N; q++) s += in[p * N + q];
      for (int q = 0; q < N; q++) CHECK(out[p * N + q] == in[p * N + q] * s, "kind %d, row %d, %d", kind, p, q);
    }
    tg_job_drop(j);
  }
  begin();
  U x = in_("x", TG_F32, 1, N, 0), y = out_("y", TG_F32, 1, N, 0), i = open_("i", N, TG_LOOP);
  store1(y, i, load1(x, i));
  close_();
  i = open_("i", N, TG_LOOP);
  U k = range_("k", N, TG_REDUCE), v = load1(y, k);
  store1(y, i, tg_reduce(j, (tg_reduce_arg){.op = TG_OP_MAX, .values = 1, .ranges = 1}, &v, NULL, NULL, &k));
  store1(y, i, op(TG_OP_ADD, load1(y, i), f32c(1)));
  close_();
  tg_interp_buffer buffers[] = {{in, N * sizeof *in}, {out, N * sizeof *out}};
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers}), "%s", j->env.message);
  float most = in[0];
  for (int q = 1; q < N; q++) most = in[q] > most ? in[q] : most;
  for (int q = 0; q < N; q++) CHECK(out[q] == (most += 1), "%d: %g, not %g", q, (double)out[q], (double)most);
  tg_job_drop(j);
}

static void test_generic(void) {
  begin(); /* the softmax pair, and an extent that depends on a range of a reduction around */
  U a = in_("A", TG_F64, 1, 16, 0), c = out_("C", TG_F64, 1, 3, 0), k = range_("k", 16, TG_REDUCE), arg[4];
  U values[2] = {load1(a, k), tg_const_float(j, TG_F64, 1)}, inits[2] = {tg_const_float(j, TG_F64, -INFINITY), tg_const_float(j, TG_F64, 0)};
  for (int64_t s = 0; s < 4; s++) arg[s] = tg_make(j, TG_OP_ARG, TG_F64, 1, s, 0, NULL);
  U m = op(TG_OP_MAX, arg[0], arg[2]), left = tg_op3(j, TG_OP_WHERE, op(TG_OP_EQ, arg[0], m), arg[1], tg_const_float(j, TG_F64, 0));
  U right = tg_op3(j, TG_OP_WHERE, op(TG_OP_EQ, arg[2], m), arg[3], tg_const_float(j, TG_F64, 0)), combined[2] = {m, op(TG_OP_ADD, left, right)};
  U r = tg_reduce(j, (tg_reduce_arg){.values = 2, .ranges = 1, .generic = true}, values, inits, combined, &k);
  store1(c, idx(0), tg_make(j, TG_OP_GET, TG_F64, 1, 0, 1, &r));
  store1(c, idx(1), tg_make(j, TG_OP_GET, TG_F64, 1, 1, 1, &r));
  U outer = range_("o", 16, TG_REDUCE), inner = range_x("n", outer, TG_REDUCE);
  store1(c, idx(2), reduce1(TG_OP_ADD, outer, op(TG_OP_MUL, load1(a, outer), reduce1(TG_OP_ADD, inner, load1(a, inner)))));
  double in[16], out[3], max = -INFINITY, n = 0, sum = 0;
  for (int i = 0; i < 16; i++) {
    in[i] = i % 5;
    if (in[i] == max) n++;
    if (in[i] > max) max = in[i], n = 1;
    double below = 0;
    for (int p = 0; p < i; p++) below += in[p];
    sum += in[i] * below;
  }
  tg_interp_buffer buffers[] = {B(in), B(out)};
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers}), "%s", j->env.message);
  CHECK(out[0] == max && out[1] == n && out[2] == sum, "%g %g %g", out[0], out[1], out[2]);
  tg_job_drop(j);
}

/* The flash loop over blocks of one row, against a softmax in double. */
static void test_flash(void) {
  enum { T = 12, BK = 4, D = 3 };
  begin();
  U s = in_("S", TG_F32, 1, T, 0), v = in_("V", TG_F32, 2, T, D), out = out_("O", TG_F32, 1, D, 0);
  U m = reg("m", TG_F32, 1, 1, 0), m1 = reg("m1", TG_F32, 1, 1, 0), cor = reg("c", TG_F32, 1, 1, 0), l = reg("l", TG_F32, 1, 1, 0), p = reg("p", TG_F32, 1, BK, 0), o = reg("o", TG_F32, 1, D, 0);
  U zero = idx(0), d, jj, kb;
  store1(m, zero, f32c(-INFINITY));
  store1(l, zero, f32c(0));
  d = open_("d", D, TG_LOOP);
  store1(o, d, f32c(0));
  close_();
  kb = open_("kb", T / BK, TG_LOOP);
  U r = range_("j", BK, TG_REDUCE), base = op(TG_OP_MUL, kb, idx(BK));
  store1(m1, zero, op(TG_OP_MAX, load1(m, zero), reduce1(TG_OP_MAX, r, load1(s, op(TG_OP_ADD, base, r)))));
  store1(cor, zero, tg_op1(j, TG_OP_EXP2, op(TG_OP_SUB, load1(m, zero), load1(m1, zero))));
  jj = open_("j", BK, TG_LOOP);
  store1(p, jj, tg_op1(j, TG_OP_EXP2, op(TG_OP_SUB, load1(s, op(TG_OP_ADD, base, jj)), load1(m1, zero))));
  close_();
  store1(l, zero, op(TG_OP_ADD, op(TG_OP_MUL, load1(l, zero), load1(cor, zero)), reduce1(TG_OP_ADD, r, load1(p, r))));
  d = open_("d", D, TG_LOOP);
  store1(o, d, op(TG_OP_ADD, op(TG_OP_MUL, load1(o, d), load1(cor, zero)), reduce1(TG_OP_ADD, r, op(TG_OP_MUL, load1(p, r), load2(v, op(TG_OP_ADD, base, r), d)))));
  close_();
  store1(m, zero, load1(m1, zero));
  close_();
  d = open_("d", D, TG_LOOP);
  store1(out, d, op(TG_OP_FDIV, load1(o, d), load1(l, zero)));
  close_();
  float score[T], value[T][D], got[D];
  for (unsigned i = 0; i < T; i++) {
    score[i] = noise(i);
    for (unsigned k = 0; k < D; k++) value[i][k] = noise(100 + i * D + k);
  }
  tg_interp_buffer buffers[] = {B(score), B(value), B(got)};
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers, .check_uninitialised = true, .check_races = true}), "%s", j->env.message);
  double sum = 0, want[D] = {0};
  for (int i = 0; i < T; i++) {
    sum += exp2(score[i]);
    for (int k = 0; k < D; k++) want[k] += exp2(score[i]) * (double)value[i][k];
  }
  for (int k = 0; k < D; k++) CHECK(fabs((double)got[k] - want[k] / sum) < 1e-6 * (1 + fabs(want[k] / sum)), "%d: %g, not %g", k, (double)got[k], want[k] / sum);
  tg_job_drop(j);
}

/* ---- accesses ---- */

static void test_gates_and_vectors(void) {
  begin();
  U a = in_("A", TG_F32, 1, 6, 0), c = out_("C", TG_F32, 1, 8, 0), d = out_("D", TG_F32, 1, 6, 0);
  U i = open_("i", 8, TG_LOOP), in_bounds = op(TG_OP_LT, i, idx(6));
  store1(c, i, tg_load(j, a, &i, in_bounds, f32c(-1), 0));
  add(tg_store(j, d, &i, f32c(7), in_bounds, 0));
  close_();
  float in[6] = {1, 2, 3, 4, 5, 6}, out[8], other[6];
  tg_interp_buffer buffers[] = {B(in), B(out), B(other)};
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers, .check_uninitialised = true}), "%s", j->env.message);
  for (int k = 0; k < 8; k++) CHECK(out[k] == (k < 6 ? in[k] : -1), "%d: %g", k, (double)out[k]);
  for (int k = 0; k < 6; k++) CHECK(other[k] == 7, "%d: %g", k, (double)other[k]);
  tg_job_drop(j);

  begin(); /* vectors: contiguous with a mask, a gather, elements of a vector register, a fold */
  a = in_("A", TG_F32, 1, 6, 0), c = out_("C", TG_F32, 1, 8, 0), d = out_("D", TG_F32, 1, 6, 0);
  U iota = tg_iota(j, TG_INDEX, 4), r = buffer("r", TG_SPACE_REG, TG_ROLE_TEMP, TG_F32, 4, 1, idx(2), NULL);
  U at = op(TG_OP_ADD, idx(4), iota), mask = op(TG_OP_LT, at, idx(6)), back = op(TG_OP_SUB, idx(3), iota);
  store1(r, idx(1), tg_load(j, a, &at, mask, f32c(0), 0));
  store1(r, idx(0), load1(a, back));
  U sum = load1(r, idx(0)), total = tg_make(j, TG_OP_FOLD, TG_F32, 1, TG_OP_ADD, 1, &sum);
  store1(c, iota, load1(r, idx(1)));
  store1(c, at, op(TG_OP_MUL, load1(r, idx(0)), f32c(2)));
  add(tg_store(j, d, &at, total, mask, 0));
  CHECK(interpret(finish(), (tg_interp){.buffers = buffers}), "%s", j->env.message);
  static const float want[8] = {5, 6, 0, 0, 8, 6, 4, 2};
  for (int k = 0; k < 8; k++) CHECK(out[k] == want[k], "%d: %g", k, (double)out[k]);
  CHECK(other[4] == 10 && other[5] == 10, "%g %g", (double)other[4], (double)other[5]);
  tg_job_drop(j);
}

static void test_reports(void) {
  float in[8] = {0}, out[8];
  int32_t ids[2] = {0, 9};
  tg_interp_buffer buffers[] = {B(in), B(out), B(ids)};
  tg_interp plain = {.buffers = buffers}, careful = {.buffers = buffers, .check_uninitialised = true, .check_races = true, .check_promises = true};
  begin();
  U a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 8, TG_LOOP);
  store1(c, i, load1(a, op(TG_OP_ADD, i, idx(1))));
  close_();
  expect_error(finish(), plain, "A: index 0 is 8, outside of 0..7 (i = 7)", __LINE__);
  tg_job_drop(j);

  begin();
  a = in_("A", TG_F32, 1, 9, 0);
  expect_error(finish(), plain, "A holds 8 elements, the kernel needs 9", __LINE__);
  tg_job_drop(j);

  begin();
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 8, TG_LOOP);
  U x = reg("x", TG_F32, 1, 2, 0); /* fresh in each iteration */
  add(tg_store(j, x, (U[]){idx(0)}, f32c(1), op(TG_OP_EQ, i, idx(0)), 0));
  store1(c, i, load1(x, idx(0)));
  close_();
  expect_error(finish(), careful, "x is read where nothing has been written: element 0 (i = 1)", __LINE__);
  tg_job_drop(j);

  for (int atomic = 0; atomic < 2; atomic++) {
    begin();
    a = in_("A", TG_F32, 1, 8, 0), c = buffer("C", TG_SPACE_GLOBAL, TG_ROLE_INOUT, TG_F32, 1, 1, idx(8), NULL), i = open_("i", 8, TG_GLOBAL);
    U half = op(TG_OP_IDIV, i, idx(2));
    add(tg_store(j, c, &half, f32c(1), NULL, atomic ? TG_ATOMIC : 0));
    close_();
    memset(out, 0, sizeof out);
    U sink = finish();
    if (!atomic) expect_error(sink, careful, "race", __LINE__);
    else CHECK(interpret(sink, careful) && out[3] == 2, "%s %g", j->env.message, (double)out[3]);
    CHECK(interpret(sink, plain), "%s", j->env.message);
    tg_job_drop(j);
  }

  begin(); /* threads within a loop: the team's memory goes from one phase to the next */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0);
  U s = local_("S", TG_F32, 1, 8, 0), k = open_("k", 3, TG_LOOP), t = open_("t", 8, TG_THREAD);
  store1(s, t, f32c(1));
  close_();
  U u = open_("u", 8, TG_THREAD);
  store1(c, u, load1(s, op(TG_OP_SUB, idx(7), u)));
  close_();
  close_();
  (void)k;
  CHECK(interpret(finish(), careful), "%s", j->env.message);
  tg_job_drop(j);

  begin(); /* read of one thread's element by another, without a phase between */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), s = local_("S", TG_F32, 1, 8, 0), t = open_("t", 8, TG_THREAD);
  store1(s, t, f32c(1));
  store1(c, t, load1(s, op(TG_OP_IDIV, t, idx(2))));
  close_();
  tg_interp written = careful;
  written.check_uninitialised = false;   /* which of the two it is hangs on the order of the tasks */
  expect_error(finish(), written, "race", __LINE__);
  tg_job_drop(j);

  begin();
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0);
  U dim = idx(2);
  tg_buffer b = {.name = "ids", .role = TG_ROLE_IN, .rank = 1, .type = TG_I32, .lo = idx(0), .hi = idx(7)};
  U id = tg_define(j, b, 1, &dim, NULL, false), v;
  add(id);
  i = open_("i", 2, TG_LOOP);
  v = tg_cast(j, TG_INDEX, load1(id, i));
  store1(c, i, load1(a, op(TG_OP_MIN, op(TG_OP_MAX, v, idx(0)), idx(7))));
  close_();
  expect_error(finish(), careful, "ids: element 1 is 9, outside of the promised 0..7", __LINE__);
  CHECK(interpret(j->sink, plain), "%s", j->env.message);
  tg_interp limited = plain;
  limited.step_limit = 5;
  expect_error(j->sink, limited, "stopped after 5 steps", __LINE__);
  tg_job_drop(j);
}

static void test_memory(void) {
  begin(); /* a long run must not grow the job */
  U a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 20000, TG_LOOP), x = reg("x", TG_F32, 1, 8, 0), t = open_("t", 8, TG_LOCAL);
  U r = range_("r", 8, TG_UPCAST);
  store1(x, t, reduce1(TG_OP_ADD, r, load1(a, r)));
  store1(c, t, load1(x, t));
  close_();
  close_();
  (void)i;
  float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
  tg_interp_buffer buffers[] = {B(in), B(out)};
  U sink = finish();
  size_t before = j->env.arena.total;
  CHECK(interpret(sink, (tg_interp){.buffers = buffers, .check_uninitialised = true}), "%s", j->env.message);
  CHECK(out[7] == 36, "%g", (double)out[7]);
  CHECK(j->env.arena.total == before, "%zu bytes more", j->env.arena.total - before);
  tg_job_drop(j);
}

/* A load that uses no range of its reduction happens only if that has an iteration. */
static void test_idle_reduction(void) {
  begin();
  U a = in_("A", TG_F32, 1, 8, 0), n = in_("n", TG_I32, 1, 1, 0), c = out_("C", TG_F32, 1, 2, 0);
  U r = tg_range_new(j, "r", tg_cast(j, TG_INDEX, load1(n, idx(0))), TG_REDUCE, UINT32_MAX, (tg_pos){0}), q = range_("q", 3, TG_REDUCE);
  U far = load1(a, idx(99)), near = load1(a, idx(2)), both[2] = {r, q};
  U inner = reduce1(TG_OP_ADD, r, op(TG_OP_MUL, far, near)), outer = tg_reduce(j, (tg_reduce_arg){.op = TG_OP_ADD, .values = 1, .ranges = 2}, &far, NULL, NULL, both);
  store1(c, idx(0), op(TG_OP_ADD, op(TG_OP_ADD, inner, outer), near));
  store1(c, idx(1), near);
  U sink = finish();
  float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[2] = {0};
  int32_t none[1] = {0}, one[1] = {1};
  tg_interp_buffer buffers[] = {B(in), B(none), B(out)}, run[] = {B(in), B(one), B(out)};
  CHECK(interpret(sink, (tg_interp){.buffers = buffers}), "%s", j->env.message);
  CHECK(out[0] == 3 && out[1] == 3, "%g %g", (double)out[0], (double)out[1]);
  CHECK(interpret(sink, (tg_interp){.buffers = run}) && isnan(out[0]), "what is shared by several shows: %g", (double)out[0]);
  tg_job_drop(j);
  begin();
  a = in_("A", TG_F32, 1, 8, 0), n = in_("n", TG_I32, 1, 1, 0), c = out_("C", TG_F32, 1, 1, 0);
  r = tg_range_new(j, "r", tg_cast(j, TG_INDEX, load1(n, idx(0))), TG_REDUCE, UINT32_MAX, (tg_pos){0});
  store1(c, idx(0), reduce1(TG_OP_ADD, r, load1(a, idx(99))));
  sink = finish();
  CHECK(interpret(sink, (tg_interp){.buffers = buffers}) && out[0] == 0, "%s", j->env.message);
  expect_error(sink, (tg_interp){.buffers = run}, "A: index 0 is 99, outside of 0..7", __LINE__);
  tg_job_drop(j);
}

static void test_limits(void) {
  begin();
  U c = out_("C", TG_F32, 1, 1, 0), big = local_("big", TG_F32, 1, 1 << 20, 0);
  store1(big, idx(5), f32c(1));
  store1(c, idx(0), load1(big, idx(5)));
  U sink = finish();
  float out[1];
  tg_interp_buffer buffers[] = {B(out)};
  CHECK(interpret(sink, (tg_interp){.buffers = buffers, .memory_limit = 8 << 20}), "%s", j->env.message);
  expect_error(sink, (tg_interp){.buffers = buffers, .memory_limit = 1 << 20}, "big is too large to interpret: 1048576 elements, where 1048576 bytes are allowed", __LINE__);
  CHECK(j->env.status == TG_ELIMIT, "status %d", j->env.status);
  tg_job_drop(j);
}

static void test_compare(void) {
  float got[4] = {1, 2, NAN, -0.0f}, want[4] = {1, 2, NAN, -0.0f};
  tg_comparison c = {.type = TG_F32, .n = 4, .got = got, .want = want, .exact = true};
  tg_difference d;
  char text[200];
  CHECK(tg_compare(&c, &d), "equal");
  got[3] = 0;
  CHECK(!tg_compare(&c, &d) && d.wrong == 1 && d.worst == 3, "-0 is not 0: %zu", d.worst);
  got[3] = -0.0f;
  got[1] = 2.0f + 0x1p-22f * 8;
  double reference[4] = {1, 2, NAN, -0.0};
  c = (tg_comparison){.type = TG_F32, .want_type = TG_F64, .n = 4, .got = got, .want = reference, .terms = 1};
  CHECK(tg_compare(&c, &d) && d.worst == 1 && d.ratio > 0, "8 ulp are within 18 eps of 2");
  got[1] = 2.0f + 0x1p-22f * 20;
  CHECK(!tg_compare(&c, &d) && d.wrong == 1 && d.ratio > 1, "20 ulp are not");
  tg_difference_text(&d, 4, text, sizeof text);
  CHECK(!strncmp(text, "1 of 4 differ; worst at 1: 2.00000", 34), "%s", text);
  got[1] = 2, got[2] = 3;
  CHECK(!tg_compare(&c, &d) && d.worst == 2, "a number for NaN");
}

static void test_blocks(void) {
  enum { N = 100 };
  static float got[N];
  static double want[N];
  for (int i = 0; i < N; i++) want[i] = got[i] = i < 64 ? 1024 : 1;
  CHECK(tg_block_error(TG_F32, got, want, N) == 0, "equal");
  want[3] = 0x1p-20, got[3] = 0;
  CHECK(tg_block_error(TG_F32, got, want, N) == 0x1p-30, "small beside what is large in its block");
  got[99] = 0.5f;
  CHECK(tg_block_error(TG_F32, got, want, N) == 0.5, "each block by itself");
  got[99] = NAN;
  CHECK(isinf(tg_block_error(TG_F32, got, want, N)), "NaN for a number");
  want[99] = NAN;
  CHECK(tg_block_error(TG_F32, got, want, N) == 0x1p-30, "NaN for NaN");
  got[98] = INFINITY, want[98] = 1e300;
  CHECK(tg_block_error(TG_F32, got, want, N) == 0x1p-30, "beyond the type's range");
  want[98] = 1;
  CHECK(isinf(tg_block_error(TG_F32, got, want, N)), "infinity for a number");
  CHECK(tg_block_bound(TG_F32, 1e-3) == 2e-3 + 0x1p-22 && tg_block_bound(TG_F16, 0) == 0x1p-9, "twice, and 2 ulp");
}

/* y[0] = sum(x) / 2 in f32, with 1 lost beside 1e8; widened, with f64 buffers, nothing is. */
static void test_widen(void) {
  begin();
  U x = in_("x", TG_F32, 1, 3, 0), y = out_("y", TG_F32, 1, 1, 0), k = range_("k", 3, TG_REDUCE), value = load1(x, k);
  U sum = tg_reduce(j, (tg_reduce_arg){.op = TG_OP_ADD, .values = 1, .ranges = 1, .in_order = true}, &value, NULL, NULL, &k);
  store1(y, idx(0), op(TG_OP_MUL, sum, f32c(0.5)));
  U sink = finish();
  float a[3] = {1e8f, 1, -1e8f}, b[1];
  double wide_a[3] = {1e8f, 1, -1e8f}, wide_b[1];
  CHECK(interpret(sink, (tg_interp){.buffers = (tg_interp_buffer[]){B(a), B(b)}}) && b[0] == 0, "%s %g", j->env.message, (double)b[0]);
  U wide = tg_widen(j, sink);
  CHECK(wide && interpret(wide, (tg_interp){.buffers = (tg_interp_buffer[]){B(wide_a), B(wide_b)}}) && wide_b[0] == 0.5, "%s %g", j->env.message, wide_b[0]);
  U bits = tg_bitcast(j, TG_F32, op(TG_OP_ADD, tg_bitcast(j, TG_I32, sum), tg_const_int(j, TG_I32, 1)));
  store1(y, idx(0), bits);
  CHECK(!tg_widen(j, finish()), "bits of floats have no wider form");
  tg_job_drop(j);
}

int main(void) {
  test_integers();
  test_blocks();
  test_widen();
  test_floats();
  test_lockstep();
  test_reductions();
  test_sums_of_rows();
  test_generic();
  test_flash();
  test_gates_and_vectors();
  test_reports();
  test_memory();
  test_idle_reduction();
  test_limits();
  test_compare();
  return TEST_END();
}
