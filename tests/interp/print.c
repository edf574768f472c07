/* SPDX-License-Identifier: MIT
 * The printer, form by form, and the comparison of programs across jobs. */
#include "build.h"

static const char *expr(U u) {
  tg_str s = tg_str_new(&j->env);
  tg_print_expr(j, &s, u);
  return s.data;
}

static U matmul(int64_t n, const char *i_name) {
  begin();
  j->name = "matmul";
  U a = in_("A", TG_F32, 2, n, n), b = in_("B", TG_F32, 2, n, n), c = out_("C", TG_F32, 2, n, n);
  U i = open_(i_name, n, TG_LOOP), k2 = open_("j", n, TG_LOOP), k = range_("k", n, TG_REDUCE);
  store2(c, i, k2, reduce1(TG_OP_ADD, k, op(TG_OP_MUL, load2(a, i, k), load2(b, k, k2))));
  close_();
  close_();
  return finish();
}

static void test_matmul(void) {
  CHECK_TEXT(printed(matmul(8, "i")),
             "kernel matmul() {\n  stage author;\n  in(A, f32, [8, 8]);\n  in(B, f32, [8, 8]);\n  out(C, f32, [8, 8]);\n  range(i, 8) {\n    range(j, 8) {\n"
             "      C[i, j] = sum(k : 8, A[i, k] * B[k, j]);\n    }\n  }\n}\n");
  tg_job first = J;
  uint64_t h = tg_structural_hash(&first, first.sink);
  matmul(8, "row");
  CHECK(tg_structural_hash(j, j->sink) == h, "names must not count");
  CHECK(tg_same_program(&first, first.sink, j, j->sink), "names must not count");
  tg_job_drop(j);
  matmul(9, "i");
  CHECK(tg_structural_hash(j, j->sink) != h, "extents count");
  CHECK(!tg_same_program(&first, first.sink, j, j->sink), "extents count");
  tg_job_drop(j);
  tg_job_drop(&first);
}

static void test_expressions(void) {
  begin();
  U a = in_("A", TG_F32, 1, 8, 0), h = in_("H", TG_F16, 1, 8, 0), n = in_("I", TG_I32, 1, 8, 0);
  U i = range_("i", 8, TG_LOOP), k = range_("k", 8, TG_LOOP), x = load1(a, i), y = load1(a, k), z = load1(h, i), w = load1(n, i);
  CHECK_TEXT(expr(op(TG_OP_MUL, op(TG_OP_ADD, x, y), x)), "(A[i] + A[k]) * A[i]");
  CHECK_TEXT(expr(op(TG_OP_SUB, x, op(TG_OP_SUB, y, x))), "A[i] - (A[k] - A[i])");
  CHECK_TEXT(expr(op(TG_OP_SUB, op(TG_OP_SUB, x, y), x)), "A[i] - A[k] - A[i]");
  CHECK_TEXT(expr(op(TG_OP_FDIV, x, op(TG_OP_MUL, y, x))), "A[i] / (A[k] * A[i])");
  CHECK_TEXT(expr(op(TG_OP_ADD, i, idx(-5))), "i + -5");
  CHECK_TEXT(expr(op(TG_OP_MOD, op(TG_OP_IDIV, i, idx(3)), idx(2))), "i / 3 % 2");
  CHECK_TEXT(expr(op(TG_OP_AND, op(TG_OP_LE, idx(0), i), op(TG_OP_LT, i, idx(4)))), "0 <= i & i < 4");
  CHECK_TEXT(expr(op(TG_OP_EQ, op(TG_OP_LT, i, k), tg_bool(j, true))), "(i < k) == true");
  CHECK_TEXT(expr(op(TG_OP_OR, op(TG_OP_AND, tg_bool(j, true), tg_bool(j, false)), op(TG_OP_XOR, tg_bool(j, true), tg_bool(j, false)))), "true & false | true ^ false");
  CHECK_TEXT(expr(tg_op1(j, TG_OP_NEG, op(TG_OP_ADD, x, y))), "-(A[i] + A[k])");
  CHECK_TEXT(expr(tg_op1(j, TG_OP_NEG, tg_op1(j, TG_OP_NEG, x))), "-(-A[i])");
  CHECK_TEXT(expr(tg_op1(j, TG_OP_NEG, idx(5))), "NEG(5){0}:index[1]");
  CHECK_TEXT(expr(op(TG_OP_MAX, x, f32c(0.1))), "max(A[i], 0.1f)");
  CHECK_TEXT(expr(op(TG_OP_MUL, x, f32c(1e30))), "A[i] * 1e+30f");
  CHECK_TEXT(expr(f32c(-INFINITY)), "f32(-inf)");
  CHECK_TEXT(expr(f32c(NAN)), "f32(nan)");
  CHECK_TEXT(expr(tg_const_float(j, TG_F64, 1)), "1.0");
  CHECK_TEXT(expr(tg_const_float(j, TG_F16, 0.5)), "f16(0.5)");
  CHECK_TEXT(expr(op(TG_OP_ADD, z, tg_const_float(j, TG_F16, 0.5))), "H[i] + 0.5");
  CHECK_TEXT(expr(op(TG_OP_ADD, w, tg_const_int(j, TG_I32, 7))), "I[i] + 7");
  CHECK_TEXT(expr(op(TG_OP_MAX, w, tg_const_int(j, TG_I32, 7))), "max(I[i], i32(7))");
  CHECK_TEXT(expr(tg_const_int(j, TG_U64, -1)), "u64(18446744073709551615)");
  CHECK_TEXT(expr(tg_cast(j, TG_F32, z)), "f32(H[i])");
  CHECK_TEXT(expr(tg_cast(j, TG_F32, idx(3))), "CAST(3){0}:f32[1]");
  CHECK_TEXT(expr(tg_bitcast(j, TG_I32, x)), "bitcast(i32, A[i])");
  CHECK_TEXT(expr(tg_op3(j, TG_OP_WHERE, op(TG_OP_LT, i, k), x, f32c(0))), "where(i < k, A[i], 0.0f)");
  CHECK_TEXT(expr(tg_op3(j, TG_OP_FMA, x, y, x)), "fma(A[i], A[k], A[i])");
  CHECK_TEXT(expr(tg_iota(j, TG_INDEX, 4)), "iota(4)");
  CHECK_TEXT(expr(tg_iota(j, TG_I32, 4)), "IOTA(){0}:i32[4]");
  U v = load1(a, op(TG_OP_ADD, i, tg_iota(j, TG_INDEX, 4)));
  CHECK_TEXT(expr(tg_make(j, TG_OP_FOLD, TG_F32, 1, TG_OP_ADD, 1, &v)), "fold(add, A[i + iota(4)])");
  U in_bounds = tg_and(j, op(TG_OP_LE, idx(0), k), op(TG_OP_LT, k, idx(8)));
  CHECK_TEXT(expr(op(TG_OP_MUL, tg_load(j, a, &k, in_bounds, f32c(0), 0), x)), "(A[k] else 0.0f) * A[i]");
  CHECK_TEXT(expr(tg_load(j, a, &k, op(TG_OP_LT, k, i), f32c(-1), 0)), "A[k] if (k < i) else (-1.0f)");
  U e = range_("r", 8, TG_REDUCE), up = range_("u", 2, TG_UPCAST);
  CHECK_TEXT(expr(reduce1(TG_OP_MAX, e, reduce1(TG_OP_ADD, up, load1(a, op(TG_OP_ADD, e, up))))), "max(r : 8, sum(u : 2 upcast, A[r + u]))");
  U arg[4], values[2] = {load1(a, e), f32c(1)}, inits[2] = {f32c(-INFINITY), f32c(0)}, one;
  for (int64_t s = 0; s < 4; s++) arg[s] = tg_make(j, TG_OP_ARG, TG_F32, 1, s, 0, NULL);
  U combined[2] = {op(TG_OP_MAX, arg[0], arg[2]), op(TG_OP_ADD, arg[1], arg[3])};
  one = tg_reduce(j, (tg_reduce_arg){.values = 2, .ranges = 1, .generic = true}, values, inits, combined, &e);
  CHECK_TEXT(expr(tg_make(j, TG_OP_GET, TG_F32, 1, 1, 1, &one)),
             "get(reduce(r : 8, (v0, v1) = (f32(-inf), 0.0f), (A[r], 1.0f), (a0, a1), (b0, b1) -> (max(a0, b0), a1 + b1)), 1)");
  tg_job_drop(j);
}

static void test_statements(void) {
  begin();
  tg_push(&j->env, &j->params, ((tg_param){.name = tg_sym(j, "P"), .lo = 16, .hi = 4096, .multiple = 16}));
  U p = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL);
  tg_push(&j->env, &j->requires, op(TG_OP_LT, p, idx(100)));
  U dims[2] = {idx(4), p}, strides[2] = {idx(8), idx(1)};
  add(tg_define(j, (tg_buffer){.name = "X", .role = TG_ROLE_IN, .rank = 2, .type = TG_F32}, 1, dims, strides, false));
  tg_buffer b = {.name = "ids", .role = TG_ROLE_IN, .rank = 1, .type = TG_I32, .lo = idx(0), .hi = op(TG_OP_SUB, p, idx(1))};
  add(tg_define(j, b, 1, dims, NULL, false));
  tg_buffer o = {.name = "C", .role = TG_ROLE_OUT, .rank = 1, .type = TG_F32, .partial = true};
  U c = tg_define(j, o, 1, &p, NULL, false);
  add(c);
  tg_buffer acc = {.name = "acc", .space = TG_SPACE_REG, .rank = 1, .type = TG_F32, .demand = TG_PLACE_SSA};
  U r = tg_define(j, acc, 16, dims, NULL, false);
  add(r);
  U i = open_x("i", p, TG_THREAD), inner = open_("i", 4, TG_UPCAST), at = op(TG_OP_ADD, i, inner);
  U gate = op(TG_OP_LT, at, p);
  add(tg_store(j, c, &at, f32c(1), gate, TG_STREAM));
  add(tg_store(j, c, &at, f32c(1), NULL, TG_ATOMIC));
  close_();
  close_();
  CHECK_TEXT(printed(finish()),
             "kernel test(P in 16..4096 % 16) {\n  stage author;\n  require(P < 100);\n  in(X, f32, [4, P], [8, 1]);\n  in(ids, i32 in 0..P - 1, [4]);\n  out(C, f32, [P], partial);\n"
             "  define_reg(acc, f32[16], [4], ssa);\n  range(i, P, thread) {\n    range(i#2, 4, upcast) {\n      let %0 = i + i#2;\n"
             "      C[%0] = 1.0f stream if %0 < P;\n      atomic C[i + i#2] += 1.0f;\n    }\n  }\n}\n");
  tg_job_drop(j);
}

static void test_sharing(void) {
  begin();
  U a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 8, TG_LOOP), x = load1(a, i), sink, v;
  for (int k = 0; k < 40; k++) x = op(TG_OP_ADD, x, x);
  store1(c, i, x);
  close_();
  const char *text = printed(finish());
  int lines = 0;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  CHECK(lines == 40 + 8, "%d lines", lines);
  CHECK(strstr(text, "let %39 = %38 + %38;\n    C[i] = %39 + %39;") || strstr(text, "C[i] = %39 + %39;"), "%s", text);
  tg_job_drop(j);

  begin(); /* a node shared within a reduction stays within it; what does not use its range goes out */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 8, TG_LOOP);
  U k = range_("k", 8, TG_REDUCE), m = op(TG_OP_MUL, load1(a, k), f32c(2)), o = op(TG_OP_MUL, load1(a, i), f32c(3));
  store1(c, i, reduce1(TG_OP_ADD, k, op(TG_OP_ADD, op(TG_OP_MUL, m, m), op(TG_OP_MUL, o, o))));
  close_();
  text = printed(finish());
  CHECK(strstr(text, "    let %0 = A[i] * 3.0f;\n    C[i] = sum(k : 8, let %1 = A[k] * 2.0f; %1 * %1 + %0 * %0);\n"), "%s", text);
  tg_job_drop(j);

  begin(); /* values as statements */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), i = open_("i", 8, TG_LOOP);
  v = load1(a, i);
  U s = op(TG_OP_MUL, v, v);
  add(v);
  add(s);
  store1(c, i, s);
  close_();
  sink = finish();
  j->stage = "linear";
  CHECK(strstr(printed(sink), "  stage linear;\n"), "%s", printed(sink));
  CHECK(strstr(printed(sink), "    do %0 = A[i];\n    do %1 = %0 * %0;\n    C[i] = %1;\n"), "%s", printed(sink));
  tg_job_drop(j);

  begin(); /* each phase computes the values it needs: one node, named anew, and what stood outside again after it */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0), v = load1(a, idx(3));
  add(v);
  i = open_("i", 8, TG_THREAD);
  add(v);
  store1(c, i, v);
  close_();
  store1(c, idx(0), op(TG_OP_ADD, v, f32c(1)));
  sink = finish();
  j->stage = "linear";
  CHECK(strstr(printed(sink), "  do %0 = A[3];\n  range(i, 8, thread) {\n    do %1 = A[3];\n    C[i] = %1;\n  }\n  C[0] = %0 + 1.0f;\n"), "%s", printed(sink));
  tg_job_drop(j);

  begin(); /* a million operations */
  a = in_("A", TG_F32, 1, 8, 0), c = out_("C", TG_F32, 1, 8, 0);
  x = load1(a, idx(0));
  for (int n = 0; n < 1000000; n++) x = op(TG_OP_ADD, x, f32c(1));
  store1(c, idx(0), x);
  sink = tg_sink(j, counts[0], lists[0]);
  CHECK(strlen(printed(sink)) > 6000000, "too short");
  float data[8] = {5}, result[8];
  tg_interp_buffer buffers[2] = {{data, sizeof data}, {result, sizeof result}};
  CHECK(interpret(sink, (tg_interp){.buffers = buffers}), "%s", j->env.message);
  CHECK(result[0] == 1000005, "%g", (double)result[0]);
  tg_job_drop(j);
}

/* ---- programs at random ---- */

static uint64_t seed;
static uint32_t pick(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}

typedef struct { U u[4000]; uint32_t n; } pool;   /* values in scope, of all types */

static U keep(pool *p, U u) { return p->u[p->n++] = u; }

static U some(const pool *p, tg_type t) {
  for (uint32_t tries = 0; tries < 200; tries++) {
    U u = p->u[p->n - 1 - pick(p->n < 30 || !pick(3) ? p->n : 30)];
    if (u->type == t) return u;
  }
  if (t == TG_BOOL) return tg_bool(j, pick(2));
  if (!tg_is_float(t)) return tg_const_int(j, t, (int64_t)(pick(2) ? pick(9) : seed) - 3);
  static const double values[] = {0, -0.0, 1, -1.5, 0.1, 1e30, -1e-40, INFINITY, -INFINITY, NAN};
  return tg_const_float(j, t, values[pick(10)]);
}

static const tg_type types[] = {TG_F32, TG_I32, TG_INDEX, TG_BOOL, TG_F64, TG_F16, TG_U8, TG_I64, TG_BF16, TG_U64};

static U grown(pool *p) {
  static const tg_op on_all[] = {TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_MAX, TG_OP_MIN, TG_OP_LT, TG_OP_LE, TG_OP_EQ, TG_OP_NE};
  static const tg_op on_int[] = {TG_OP_IDIV, TG_OP_MOD, TG_OP_CDIV, TG_OP_CMOD, TG_OP_AND, TG_OP_OR, TG_OP_XOR, TG_OP_SHL, TG_OP_SHR};
  static const tg_op on_float[] = {TG_OP_SQRT, TG_OP_RSQRT, TG_OP_EXP, TG_OP_EXP2, TG_OP_LOG, TG_OP_LOG2, TG_OP_SIN, TG_OP_COS, TG_OP_TANH, TG_OP_ERF,
                                   TG_OP_FLOOR, TG_OP_CEIL, TG_OP_ROUND, TG_OP_TRUNC, TG_OP_ABS, TG_OP_NEG};
  tg_type t = types[pick(pick(2) ? 3 : TG_COUNT(types))];
  U a = some(p, t), b = some(p, t);
  if (t == TG_BOOL) {
    static const tg_op logic[] = {TG_OP_AND, TG_OP_OR, TG_OP_XOR, TG_OP_EQ};
    return pick(4) ? op(logic[pick(4)], a, b) : tg_op1(j, TG_OP_NOT, a);
  }
  switch (pick(8)) {
  case 0: return tg_cast(j, types[pick(TG_COUNT(types))], a);
  case 1: return tg_op3(j, TG_OP_WHERE, some(p, TG_BOOL), a, b);
  case 2: return tg_is_float(t) ? tg_op1(j, on_float[pick(TG_COUNT(on_float))], a) : op(on_int[pick(TG_COUNT(on_int))], a, b);
  case 3: return tg_is_float(t) ? pick(2) ? op(TG_OP_FDIV, a, b) : tg_op3(j, TG_OP_FMA, a, b, some(p, t)) : tg_op1(j, pick(2) ? TG_OP_NEG : TG_OP_NOT, a);
  default: return op(on_all[pick(TG_COUNT(on_all))], a, b);
  }
}

static U random_load(pool *p, const U *buffers, uint32_t n) {
  U b = buffers[pick(n)], i = some(p, TG_INDEX), gate = NULL, alt = NULL;
  if (pick(2)) {
    alt = some(p, (tg_type)b->type);
    gate = pick(2) ? some(p, TG_BOOL) : op(TG_OP_AND, op(TG_OP_LE, idx(0), i), op(TG_OP_LT, i, b->src[0]));
  }
  return tg_load(j, b, &i, gate, alt, 0);
}

/* A reduction over what grows within it; the pool is cut back, since nothing else may use its ranges. */
static U random_reduce(pool *p, const U *buffers, uint32_t n, uint32_t nest) {
  static const tg_kind kinds[] = {TG_REDUCE, TG_REDUCE, TG_UPCAST, TG_LANE, TG_UNROLL};
  uint32_t start = p->n, ranges = 1 + pick(2);
  U r[2];
  for (uint32_t i = 0; i < ranges; i++) r[i] = keep(p, range_x(pick(2) ? "k" : "i", pick(2) ? idx(4) : i ? r[0] : some(p, TG_INDEX), kinds[pick(5)]));
  for (uint32_t i = 0, m = 3 + pick(12); i < m; i++) keep(p, pick(4) ? grown(p) : random_load(p, buffers, n));
  if (nest && pick(2)) keep(p, random_reduce(p, buffers, n, nest - 1));
  U v[2] = {some(p, TG_F32), some(p, TG_F32)}, result, arg[4], inits[2] = {f32c(0), f32c(-INFINITY)};
  for (int64_t s = 0; s < 4; s++) arg[s] = tg_make(j, TG_OP_ARG, TG_F32, 1, s, 0, NULL);
  U combined[2] = {op(TG_OP_ADD, arg[0], op(TG_OP_MUL, arg[2], arg[3])), op(TG_OP_MAX, arg[1], arg[3])};
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MUL, TG_OP_MAX, TG_OP_MIN};
  bool generic = !pick(3);
  result = generic ? tg_reduce(j, (tg_reduce_arg){.values = 2, .ranges = (uint8_t)ranges, .generic = true}, v, inits, combined, r)
                   : tg_reduce(j, (tg_reduce_arg){.op = (uint16_t)ops[pick(4)], .values = 1, .ranges = (uint8_t)ranges}, v, NULL, NULL, r);
  p->n = start;
  return generic ? tg_make(j, TG_OP_GET, TG_F32, 1, pick(2), 1, &result) : result;
}

static void random_list(pool *p, U *buffers, uint32_t n, uint32_t nest) {
  uint32_t start = p->n;
  for (uint32_t s = 0, m = 1 + pick(4); s < m; s++) {
    for (uint32_t i = 0, g = pick(30); i < g; i++) keep(p, pick(5) ? grown(p) : pick(3) ? random_load(p, buffers, n) : random_reduce(p, buffers, n, 2));
    if (nest && pick(2)) {
      static const tg_kind kinds[] = {TG_LOOP, TG_LOOP, TG_THREAD, TG_LOCAL, TG_UPCAST};
      U e = pick(3) ? idx(4) : some(p, TG_INDEX);
      uint32_t inner = p->n;
      keep(p, open_x(pick(2) ? "i" : "k", e, kinds[pick(5)]));
      random_list(p, buffers, n, nest - 1);
      close_();
      p->n = inner;
    } else {
      U b = buffers[2 + pick(2)];
      U i = some(p, TG_INDEX);
      add(tg_store(j, b, &i, some(p, (tg_type)b->type), pick(3) ? NULL : some(p, TG_BOOL), (pick(4) ? 0 : TG_STREAM)));
    }
    while (p->n > start) /* values must not outlive a store to what they read */
      p->n--;
  }
}

static void test_random(void) {
  static pool p;
  for (uint64_t k = 0; k < 600; k++) {
    seed = k * 77777 + 5;
    begin();
    U buffers[4] = {in_("A", TG_F32, 1, 8, 0), in_("I", TG_I32, 1, 8, 0), out_("C", TG_F32, 1, 8, 0), local_("D", TG_I32, 1, 8, 0)};
    p.n = 0;
    p.u[p.n++] = idx(3);
    random_list(&p, buffers, 4, 3);
    int before = test_failed;
    reads_back(finish(), false, __FILE__, __LINE__);
    if (test_failed != before) printf("seed %llu\n", (unsigned long long)k);
    tg_job_drop(j);
  }
}

int main(void) {
  test_matmul();
  test_expressions();
  test_statements();
  test_sharing();
  test_random();
  return TEST_END();
}
