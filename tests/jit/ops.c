/* SPDX-License-Identifier: MIT
 * Every op of every type, scalar and in vectors, compiled, against its meaning in the opcode table, over all combinations of
 * boundary values; and with each of them as a constant. */
#include "edges.h"
#include "jit.h"

static void store_bits(char *data, tg_type t, size_t i, tg_value v) {
  uint64_t bits = tg_value_bits(t, v);
  memcpy(data + i * (size_t)tg_type_bytes(t), &bits, (size_t)tg_type_bytes(t));
}

static uint64_t load_bits(const char *data, tg_type t, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, data + i * (size_t)tg_type_bytes(t), (size_t)tg_type_bytes(t));
  return bits;
}

typedef struct { tg_op op; tg_type type, from, first; uint32_t lanes; int arity; tg_op before; } one_case;   /* before: of the first operand; 0: nothing */

static bool meaning(const one_case *c, const tg_value *v, tg_value *r) {
  tg_value x = v[0];
  if (c->before && !tg_evaluate(c->before, c->from, c->from, v, &x)) return false;
  if (c->op == TG_OP_CAST) return tg_convert(c->type, c->from, x, r);
  if (c->op == TG_OP_BITCAST) return tg_reinterpret(c->type, c->from, v[0], r);
  return tg_evaluate(c->op, c->type, c->from, v, r);
}

static void build(program *p, const one_case *c, int64_t n) {
  tg_job *j = &p->j;
  const tg_uop *in[3], *arg[3] = {0};
  for (int i = 0; i < c->arity; i++) in[i] = buffer(p, "a", i ? c->from : c->first, TG_ROLE_IN, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, n);
  const tg_uop *out = buffer(p, "r", c->type, TG_ROLE_OUT, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, n);
  const tg_uop *i = range_of(p, "i", i64c(j, n / c->lanes), TG_LOOP), *body[8];
  uint32_t b = 0;
  const tg_uop *at = body[b++] = tg_op2(j, TG_OP_MUL, i, i64c(j, c->lanes));
  if (c->lanes > 1) at = body[b++] = tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I64, c->lanes));
  for (int k = 0; k < c->arity; k++) arg[k] = body[b++] = tg_load(j, in[k], &at, NULL, NULL, 0);
  if (c->before) arg[0] = body[b++] = tg_op1(j, c->before, arg[0]);
  const tg_uop *v = body[b++] = tg_make(j, c->op, c->type, c->lanes, 0, (uint32_t)c->arity, arg);
  body[b++] = tg_store(j, out, &at, v, NULL, 0);
  add(p, tg_end(j, i, b, body));
}

static void check_case(tg_jit *jit, const one_case *c, char *data[4]) {
  tg_value v[3][64], operands[3], want;
  uint32_t counts[3] = {1, 1, 1};
  for (int i = 0; i < c->arity; i++) counts[i] = edges(i ? c->from : c->first, v[i]);
  size_t n = 0, pad;
  for (uint32_t x = 0; x < counts[0]; x++)
    for (uint32_t y = 0; y < counts[1]; y++)
      for (uint32_t z = 0; z < counts[2]; z += c->arity == 3 ? 3 : 1, n++) {
        uint32_t at[3] = {x, y, z};
        for (int i = 0; i < c->arity; i++) store_bits(data[i], i ? c->from : c->first, n, v[i][at[i]]);
      }
  pad = (n + c->lanes - 1) / c->lanes * c->lanes;
  for (; n < pad; n++)
    for (int i = 0; i < c->arity; i++) store_bits(data[i], i ? c->from : c->first, n, v[i][0]);
  program p;
  program_begin(&p, jit);
  build(&p, c, (int64_t)n);
  bool ok = program_load(&p);
  CHECK(ok, "%s %s(%s) x%u", tg_ops[c->op].name, tg_type_name[c->type], tg_type_name[c->from], c->lanes);
  if (ok) {
    void *buffers[5] = {data[0]};
    for (int i = 0; i < c->arity; i++) buffers[i] = data[i];
    buffers[c->arity] = data[3];
    program_run(&p, buffers, NULL);
    uint32_t wrong = 0;
    for (size_t i = 0; i < n && !wrong; i++) {
      for (int k = 0; k < c->arity; k++) operands[k] = tg_value_from_bits(k ? c->from : c->first, load_bits(data[k], k ? c->from : c->first, i));
      if (!meaning(c, operands, &want)) continue;
      uint64_t bits = tg_value_bits(c->type, want), got = load_bits(data[3], c->type, i);
      tg_value g = tg_value_from_bits(c->type, got);
      bool same = bits == got || (tg_is_float(c->type) && want.f != want.f && g.f != g.f);
      if (!same) {
        wrong++;
        CHECK(same, "%s %s(%s) x%u: element %zu (%llx %llx %llx): got %llx, want %llx", tg_ops[c->op].name, tg_type_name[c->type], tg_type_name[c->from], c->lanes, i,
              (unsigned long long)load_bits(data[0], c->first, i), (unsigned long long)load_bits(data[1], c->from, i), (unsigned long long)load_bits(data[2], c->from, i),
              (unsigned long long)got, (unsigned long long)bits);
      }
    }
    CHECK(!wrong, "%s %s(%s) x%u", tg_ops[c->op].name, tg_type_name[c->type], tg_type_name[c->from], c->lanes);
  }
  program_end(&p);
}

/* One operand is a constant, the right or the left one: every edge of the type. */
static void check_constants(tg_jit *jit, tg_op op, tg_type t, uint32_t lanes, char *data, char *result) {
  tg_value v[64];
  uint32_t n = edges(t, v), pad = (n + lanes - 1) / lanes * lanes, wrong = 0;
  tg_type to = tg_ops[op].flags & TG_OPF_B ? TG_BOOL : t;
  program p;
  program_begin(&p, jit);
  tg_job *j = &p.j;
  const tg_uop *in = buffer(&p, "a", t, TG_ROLE_IN, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, pad), *out = buffer(&p, "r", to, TG_ROLE_OUT, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, 2 * n * pad);
  const tg_uop *i = range_of(&p, "i", i64c(j, pad / lanes), TG_LOOP), *body[6 * 64];
  uint32_t b = 0;
  const tg_uop *at = body[b++] = tg_op2(j, TG_OP_MUL, i, i64c(j, lanes));
  if (lanes > 1) at = body[b++] = tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I64, lanes));
  const tg_uop *x = body[b++] = tg_load(j, in, &at, NULL, NULL, 0);
  for (uint32_t k = 0; k < 2 * n; k++) {
    const tg_uop *c = tg_const_of(j, t, v[k % n]), *src[2] = {k < n ? x : c, k < n ? c : x}, *place = k ? body[b++] = tg_op2(j, TG_OP_ADD, at, i64c(j, (int64_t)k * pad)) : at;
    const tg_uop *r = body[b++] = tg_make(j, op, to, lanes, 0, 2, src);
    body[b++] = tg_store(j, out, &place, r, NULL, 0);
  }
  add(&p, tg_end(j, i, b, body));
  for (uint32_t k = 0; k < pad; k++) store_bits(data, t, k, v[k % n]);
  bool ok = program_load(&p);
  CHECK(ok, "%s of %s and constants", tg_ops[op].name, tg_type_name[t]);
  if (ok) program_run(&p, (void *[3]){data, result}, NULL);
  for (uint32_t k = 0; k < 2 * n && ok; k++)
    for (uint32_t e = 0; e < n && wrong < 3; e++) {
      tg_value operands[2] = {k < n ? v[e] : v[k % n], k < n ? v[k % n] : v[e]}, want, got;
      if (!tg_evaluate(op, to, t, operands, &want)) continue;
      got = tg_value_from_bits(to, load_bits(result, to, k * pad + e));
      bool same = tg_value_bits(to, got) == tg_value_bits(to, want) || (tg_is_float(to) && want.f != want.f && got.f != got.f);
      if (same) continue;
      wrong++;
      CHECK(same, "%s of %s x%u, the %s one a constant: %g, %g (%lld, %lld): got %g, %lld", tg_ops[op].name, tg_type_name[t], lanes, k < n ? "right" : "left", operands[0].f, operands[1].f,
            (long long)operands[0].i, (long long)operands[1].i, got.f, (long long)got.i);
    }
  CHECK(!wrong, "%s of %s and constants", tg_ops[op].name, tg_type_name[t]);
  program_end(&p);
}

/* NaNs of every payload stay NaNs. */
static void check_payloads(tg_jit *jit, tg_type to, uint32_t lanes, char *data, char *result) {
  static const uint32_t payloads[] = {0x7f800001, 0x7f807fff, 0x7f80ffff, 0x7fffffff, 0x7fff8000, 0xff800001, 0xffffffff, 0xffff8000, 0x7fc00000, 0xffc00001, 0x7fbfffff, 0xff80ffff};
  one_case c = {TG_OP_CAST, to, TG_F32, TG_F32, lanes, 1, 0};
  uint32_t n = TG_COUNT(payloads) / lanes * lanes;
  program p;
  program_begin(&p, jit);
  build(&p, &c, n);
  bool ok = program_load(&p);
  memcpy(data, payloads, sizeof payloads);
  if (ok) program_run(&p, (void *[3]){data, result}, NULL);
  for (uint32_t i = 0; i < n; i++) {
    tg_value v = tg_value_from_bits(to, load_bits(result, to, i));
    CHECK(ok && v.f != v.f, "%s of the NaN %08x", tg_type_name[to], payloads[i]);
  }
  program_end(&p);
}

static const tg_type types[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F32, TG_F64};
static const tg_type stored[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F16, TG_BF16, TG_F32, TG_F64};

/* Lanes change with each case, so that all widths meet all ops over the types, without compiling every pair. */
static uint32_t lanes_for(uint32_t serial) {
  static const uint32_t widths[] = {1, 16, 4, 8, 2, 32, 3};
  return widths[serial % TG_COUNT(widths)];
}

/* What is emitted in its own way where vectors are as wide as the target's: extrema, and conversions to integers, rounded first
 * as well. */
static void check_whole_vectors(tg_jit *jit, char *data[4]) {
  static const tg_type floats[] = {TG_F32, TG_F64};
  for (uint32_t f = 0; f < TG_COUNT(floats); f++) {
    uint32_t lanes = tg_jit_target(jit)->vector_bytes / (uint32_t)tg_type_bytes(floats[f]);
    for (uint32_t max = 0; max < 2; max++) {
      one_case c = {max ? TG_OP_MAX : TG_OP_MIN, floats[f], floats[f], floats[f], lanes, 2, 0};
      check_case(jit, &c, data);
    }
    for (uint32_t t = 0; t < TG_COUNT(types); t++) {
      if (tg_is_float(types[t]) || types[t] == TG_BOOL) continue;
      one_case c = {TG_OP_CAST, types[t], floats[f], floats[f], lanes, 1, 0};
      check_case(jit, &c, data);
      c.before = TG_OP_ROUND;   /* one instruction for both */
      check_case(jit, &c, data);
    }
  }
}

/* Maxima of maxima of vectors are emitted together: a row, a tree and one that two others share, of NaN, infinity, and
 * zeros of both signs in every place. */
static void check_maxima(tg_jit *jit, tg_type t, char *data[4]) {
  static const double edge[] = {NAN, -INFINITY, -1, -0.0, 0, 1};
  enum { N = TG_COUNT(edge), ALL = N * N * N * N, OPERANDS = 4, RESULTS = 5 };
  uint32_t lanes = tg_jit_target(jit)->vector_bytes / (uint32_t)tg_type_bytes(t), wrong = 0;
  uint32_t pad = (ALL + lanes - 1) / lanes * lanes;
  program p;
  program_begin(&p, jit);
  tg_job *j = &p.j;
  const tg_uop *in[OPERANDS], *x[OPERANDS], *out, *body[64], *r[RESULTS];
  for (int k = 0; k < OPERANDS; k++)
    in[k] = buffer(&p, "a", t, TG_ROLE_IN, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, pad);
  out = buffer(&p, "r", t, TG_ROLE_OUT, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, RESULTS * pad);
  const tg_uop *i = range_of(&p, "i", i64c(j, pad / lanes), TG_LOOP);
  uint32_t b = 0;
  const tg_uop *at = body[b++] = tg_op2(j, TG_OP_MUL, i, i64c(j, lanes));
  at = body[b++] = tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I64, lanes));
  for (int k = 0; k < OPERANDS; k++) x[k] = body[b++] = tg_load(j, in[k], &at, NULL, NULL, 0);
  const tg_uop *pairs[2];
  for (int k = 0; k < 2; k++) pairs[k] = body[b++] = tg_op2(j, TG_OP_MAX, x[2 * k], x[2 * k + 1]);
  r[0] = pairs[0];
  r[1] = body[b++] = tg_op2(j, TG_OP_MAX, pairs[0], x[2]);
  r[2] = body[b++] = tg_op2(j, TG_OP_MAX, x[3], r[1]);
  r[3] = body[b++] = tg_op2(j, TG_OP_MAX, pairs[0], pairs[1]);
  r[4] = body[b++] = tg_op2(j, TG_OP_MAX, r[1], pairs[1]);
  for (int k = 0; k < RESULTS; k++) {
    const tg_uop *place = k ? body[b++] = tg_op2(j, TG_OP_ADD, at, i64c(j, (int64_t)k * pad)) : at;
    body[b++] = tg_store(j, out, &place, r[k], NULL, 0);
  }
  add(&p, tg_end(j, i, b, body));
  char *values[OPERANDS + 1];
  for (int k = 0; k < OPERANDS; k++) values[k] = data[0] + (size_t)k * pad * 8;
  values[OPERANDS] = data[3];
  uint32_t step[OPERANDS] = {1, N, N * N, N * N * N};
  for (uint32_t e = 0; e < pad; e++)
    for (int k = 0; k < OPERANDS; k++) store_bits(values[k], t, e, (tg_value){.f = edge[e / step[k] % N]});
  bool ok = program_load(&p);
  CHECK(ok, "maxima of %s", tg_type_name[t]);
  if (ok) program_run(&p, (void **)values, NULL);
  for (uint32_t e = 0; e < ALL && ok; e++) {
    tg_value v[OPERANDS], want[RESULTS], pair;
    for (int k = 0; k < OPERANDS; k++) v[k].f = edge[e / step[k] % N];
    tg_evaluate(TG_OP_MAX, t, t, v, &want[0]);
    tg_evaluate(TG_OP_MAX, t, t, v + 2, &pair);
    tg_evaluate(TG_OP_MAX, t, t, (tg_value[2]){want[0], v[2]}, &want[1]);
    tg_evaluate(TG_OP_MAX, t, t, (tg_value[2]){v[3], want[1]}, &want[2]);
    tg_evaluate(TG_OP_MAX, t, t, (tg_value[2]){want[0], pair}, &want[3]);
    tg_evaluate(TG_OP_MAX, t, t, (tg_value[2]){want[1], pair}, &want[4]);
    for (int k = 0; k < RESULTS && wrong < 3; k++) {
      tg_value got = tg_value_from_bits(t, load_bits(data[3], t, (size_t)k * pad + e));
      bool nan = want[k].f != want[k].f && got.f != got.f, same = nan || tg_value_bits(t, got) == tg_value_bits(t, want[k]);
      if (same) continue;
      wrong++;
      CHECK(same, "maximum %d of %s: %g %g %g %g: got %g, want %g", k, tg_type_name[t], v[0].f, v[1].f, v[2].f, v[3].f,
            got.f, want[k].f);
    }
  }
  CHECK(!wrong, "maxima of %s", tg_type_name[t]);
  program_end(&p);
}

int main(int argc, char **argv) {
  tg_jit *jit = open_jit(argc > 1 ? argv[1] : test_target());
  char *data[4];
  uint32_t serial = 0;
  for (int i = 0; i < 4; i++) data[i] = calloc(1, 1 << 21);
  for (uint32_t op = TG_OP_CAST; op < TG_OP__COUNT; op++)
    for (uint32_t t = 0; t < TG_COUNT(types) && tg_ops[op].flags & TG_OPF_W && op != TG_OP_CAST && op != TG_OP_BITCAST; t++) {
      if (op == TG_OP_FMA && !tg_jit_target(jit)->fma) continue;   /* pass types leaves none */
      one_case c = {(tg_op)op, tg_ops[op].flags & TG_OPF_B ? TG_BOOL : types[t], types[t], op == TG_OP_WHERE ? TG_BOOL : types[t], lanes_for(serial++), tg_ops[op].arity, 0};
      tg_value probe[3] = {{0}}, r;
      if (!tg_evaluate(c.op, c.type, c.from, probe, &r)) continue;
      check_case(jit, &c, data);
      if (c.arity == 2 && types[t] != TG_BOOL) check_constants(jit, (tg_op)op, types[t], serial % 3 ? 4 : 1, data[0], data[3]);
    }
  for (uint32_t a = 0; a < TG_COUNT(stored); a++)
    for (uint32_t b = 0; b < TG_COUNT(stored); b++) {
      if (!has_type(jit, stored[a]) || !has_type(jit, stored[b])) continue;
      one_case c = {TG_OP_CAST, stored[b], stored[a], stored[a], lanes_for(serial++), 1, 0};
      check_case(jit, &c, data);
      if (tg_type_bits(stored[a]) != tg_type_bits(stored[b]) || a == b) continue;
      c.op = TG_OP_BITCAST;
      check_case(jit, &c, data);
    }
  check_whole_vectors(jit, data);
  check_maxima(jit, TG_F32, data);
  check_maxima(jit, TG_F64, data);
  for (uint32_t lanes = 1; lanes <= 4; lanes *= 4) {
    check_payloads(jit, TG_BF16, lanes, data[0], data[3]);
    if (has_type(jit, TG_F16)) check_payloads(jit, TG_F16, lanes, data[0], data[3]);
    check_payloads(jit, TG_F64, lanes, data[0], data[3]);
  }
  for (int i = 0; i < 4; i++) free(data[i]);
  tg_jit_close(jit);
  return TEST_END();
}
