/* SPDX-License-Identifier: MIT
 * Every op of every type, every conversion, scalar and in vectors, as PTX in the interpreter of PTX, against its meaning
 * in the opcode table, over all combinations of boundary values; f16 too, which these targets compute with. Every matrix
 * instruction against tg's interpreter, on whole numbers and on what rounds. */
#include "../jit/edges.h"
#include "../jit/jit.h"
#include "interp/interp.h"
#include "launch.h"
#include "target/matrix.h"

enum { WARPS = 4, LANES = 32, MOST = 1 << 16 };

typedef struct { tg_op op; tg_type type, from, first; uint32_t lanes; int arity; } one_case;
typedef struct { tg_jit *jit; const char *target; char *data[4]; } run;

static bool meaning(const one_case *c, const tg_value *v, tg_value *r) {
  if (c->op == TG_OP_CAST) return tg_convert(c->type, c->from, v[0], r);
  if (c->op == TG_OP_BITCAST) return tg_reinterpret(c->type, c->from, v[0], r);
  return tg_evaluate(c->op, c->type, c->from, v, r);
}

static tg_type type_of(const one_case *c, int operand) { return operand ? c->from : c->first; }

/* A group of WARPS warps takes WARPS * LANES vectors. */
static void build(program *p, const one_case *c, int64_t groups) {
  tg_job *j = &p->j;
  const tg_uop *in[3], *arg[3] = {0}, *body[12];
  uint32_t b = 0;
  int64_t n = groups * WARPS * LANES * c->lanes;
  for (int i = 0; i < c->arity; i++) in[i] = buffer(p, "a", type_of(c, i), TG_ROLE_IN, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, n);
  const tg_uop *out = buffer(p, "r", c->type, TG_ROLE_OUT, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, n);
  const tg_uop *group = range_of(p, "g", tg_const_int(j, TG_I32, groups), TG_GLOBAL), *warp = range_of(p, "w", tg_const_int(j, TG_I32, WARPS), TG_LOCAL),
               *lane = range_of(p, "l", tg_const_int(j, TG_I32, LANES), TG_LANE);
  const tg_uop *outer = body[b++] = tg_op2(j, TG_OP_MUL, group, tg_const_int(j, TG_I32, WARPS * LANES * c->lanes));
  const tg_uop *middle = body[b++] = tg_op2(j, TG_OP_MUL, warp, tg_const_int(j, TG_I32, LANES * c->lanes)), *at = body[b++] = tg_op2(j, TG_OP_ADD, outer, middle);
  const tg_uop *inner = body[b++] = tg_op2(j, TG_OP_MUL, lane, tg_const_int(j, TG_I32, c->lanes));
  at = body[b++] = tg_op2(j, TG_OP_ADD, at, inner);
  if (c->lanes > 1) at = body[b++] = tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I32, c->lanes));
  for (int k = 0; k < c->arity; k++) arg[k] = body[b++] = tg_load(j, in[k], &at, NULL, NULL, 0);
  const tg_uop *v = body[b++] = tg_make(j, c->op, c->type, c->lanes, 0, (uint32_t)c->arity, arg);
  body[b++] = tg_store(j, out, &at, v, NULL, 0);
  const tg_uop *end = tg_end(j, lane, b, body);
  end = tg_end(j, warp, 1, &end);
  add(p, tg_end(j, group, 1, &end));
}

static void put_bits(char *data, tg_type t, size_t i, tg_value v) {
  uint64_t bits = tg_value_bits(t, v);
  memcpy(data + i * (size_t)tg_type_bytes(t), &bits, (size_t)tg_type_bytes(t));
}

static tg_value value_at(const char *data, tg_type t, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, data + i * (size_t)tg_type_bytes(t), (size_t)tg_type_bytes(t));
  return tg_value_from_bits(t, bits);
}

/* All combinations, and the first of them again to the end of the last group. */
static size_t fill(run *r, const one_case *c) {
  tg_value v[3][64];
  uint32_t count[3] = {1, 1, 1};
  size_t n = 0, each = WARPS * LANES * c->lanes;
  for (int i = 0; i < c->arity; i++) count[i] = edges(type_of(c, i), v[i]);
  for (uint32_t x = 0; x < count[0]; x++)
    for (uint32_t y = 0; y < count[1]; y++)
      for (uint32_t z = 0; z < count[2]; z += c->arity == 3 ? 3 : 1, n++) {
        uint32_t at[3] = {x, y, z};
        for (int i = 0; i < c->arity; i++) put_bits(r->data[i], type_of(c, i), n, v[i][at[i]]);
      }
  for (; n % each; n++)
    for (int i = 0; i < c->arity; i++) put_bits(r->data[i], type_of(c, i), n, v[i][0]);
  return n;
}

static void compare(run *r, const one_case *c, size_t n) {
  for (size_t i = 0; i < n; i++) {
    tg_value operand[3] = {{0}}, want, got = value_at(r->data[3], c->type, i);
    for (int k = 0; k < c->arity; k++) operand[k] = value_at(r->data[k], type_of(c, k), i);
    if (!meaning(c, operand, &want)) continue;
    bool same = tg_is_float(c->type) && want.f != want.f ? got.f != got.f : tg_value_bits(c->type, got) == tg_value_bits(c->type, want);
    if (same) continue;
    CHECK(same, "%s: %s %s(%s) x%u: (%g %g %g; %lld %lld %lld): got %g, %llx, want %g, %llx", r->target, tg_ops[c->op].name, tg_type_name[c->type], tg_type_name[c->from], c->lanes,
          operand[0].f, operand[1].f, operand[2].f, (long long)operand[0].i, (long long)operand[1].i, (long long)operand[2].i, got.f,
          (unsigned long long)tg_value_bits(c->type, got), want.f, (unsigned long long)tg_value_bits(c->type, want));
    return;
  }
  test_passed++;
}

static void check_case(run *r, const one_case *c) {
  char message[PTX_MESSAGE] = "";
  kit_memory m = {.n = 0};
  program p;
  size_t n = fill(r, c);
  program_begin(&p, r->jit);
  build(&p, c, (int64_t)(n / (WARPS * LANES * c->lanes)));
  for (int i = 0; i <= c->arity; i++) {
    tg_type t = i < c->arity ? type_of(c, i) : c->type;
    m.data[i] = r->data[i < c->arity ? i : 3];
    m.bytes[i] = n * (size_t)tg_type_bytes(t);
    m.type[i] = t, m.written[i] = i == c->arity, m.name[i] = i < c->arity ? "a" : "r";
    m.n++;
  }
  bool ok = tg_protect(&p.j.env, program_compile, &p);
  ptx_program launch = {.job = &p.j, .object = &p.object, .info = &p.info, .seed = 5};
  ok = ok && ptx_program_run(&launch, &m, message);
  CHECK(ok, "%s: %s %s(%s) x%u: %s %s", r->target, tg_ops[c->op].name, tg_type_name[c->type], tg_type_name[c->from], c->lanes, p.j.env.message, message);
  if (ok) compare(r, c, n);
  tg_job_drop(&p.j);
}

/* ---- matrix instructions: a lane's operands as they lie in memory, one behind the other ---- */

static void build_matrix(program *p, const tg_matrix_row *row) {
  tg_job *j = &p->j;
  const tg_uop *lane = range_of(p, "l", tg_const_int(j, TG_I32, LANES), TG_LANE), *body[24], *v[4], *at[3];
  uint32_t b = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t n = tg_matrix_registers(row, i < 3 ? i : 2);
    const tg_uop *memory = buffer(p, "m", tg_matrix_type(row, i < 3 ? i : 2), i < 3 ? TG_ROLE_IN : TG_ROLE_OUT, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, (int64_t)n * LANES);
    if (i < 3) {
      at[i] = body[b++] = tg_op2(j, TG_OP_MUL, lane, tg_const_int(j, TG_I32, n));
      if (n > 1) at[i] = body[b++] = tg_op2(j, TG_OP_ADD, at[i], tg_iota(j, TG_I32, n));
      v[i] = body[b++] = tg_load(j, memory, &at[i], NULL, NULL, 0);
    } else {
      v[3] = body[b++] = tg_matrix(j, row->name, v[0], v[1], v[2], tg_matrix_lanes(row) == 1 ? tg_index(j, 1) : lane);
      body[b++] = tg_store(j, memory, &at[2], v[3], NULL, 0);
    }
  }
  add(p, tg_end(j, lane, b, body));
}

typedef struct { program *p; const kit_memory *m; void *result; } interpretation;

static void interpret(void *user) {
  interpretation *k = user;
  tg_interp_buffer buffers[4];
  for (int i = 0; i < 4; i++) buffers[i] = (tg_interp_buffer){i < 3 ? k->m->data[i] : k->result, k->m->bytes[i]};
  tg_interpret(&k->p->j, k->p->j.sink, &(tg_interp){.buffers = buffers});
}

static void check_matrix(run *r, const tg_matrix_row *row, bool rounds) {
  static char result[4096];
  char message[PTX_MESSAGE] = "", difference[256] = "";
  kit_memory m = {.n = 4};
  program p;
  program_begin(&p, r->jit);
  build_matrix(&p, row);
  uint32_t seed = 99;
  for (int i = 0; i < 4; i++) {
    m.type[i] = tg_matrix_type(row, i < 3 ? i : 2), m.name[i] = "m", m.data[i] = r->data[i], m.written[i] = i == 3;
    size_t n = (size_t)tg_matrix_registers(row, i < 3 ? i : 2) * LANES;
    m.bytes[i] = n * (size_t)tg_type_bytes(m.type[i]);
    for (size_t e = 0; i < 3 && e < n; e++) {
      seed = seed * 1664525u + 1013904223u;
      int64_t v = (int64_t)(seed >> 16 & 7) - (tg_is_float(m.type[i]) || tg_is_signed(m.type[i]) ? 3 : 0);
      put_bits(m.data[i], m.type[i], e, tg_is_float(m.type[i]) ? (tg_value){.f = tg_round_to(m.type[i], rounds ? (double)v * 0.3 : (double)v)} : (tg_value){.i = v});
    }
  }
  bool ok = tg_protect(&p.j.env, program_compile, &p) && tg_protect(&p.j.env, interpret, &(interpretation){&p, &m, result});
  ptx_program launch = {.job = &p.j, .object = &p.object, .info = &p.info, .seed = 5};
  ok = ok && ptx_program_run(&launch, &m, message);
  CHECK(ok, "%s: %s: %s %s", r->target, row->name, p.j.env.message, message);
  tg_difference d;
  size_t n = m.bytes[3] / (size_t)tg_type_bytes(m.type[3]);
  bool same = ok && tg_compare(&(tg_comparison){.type = m.type[3], .n = n, .got = m.data[3], .want = result, .exact = true}, &d);
  if (ok && !same) tg_difference_text(&d, n, difference, sizeof difference);
  CHECK(same, "%s: %s: %s", r->target, row->name, difference);
  tg_job_drop(&p.j);
}

static const tg_type types[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F16, TG_F32, TG_F64};
static const tg_type stored[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F16, TG_BF16, TG_F32, TG_F64};

static uint32_t lanes_for(uint32_t serial) {
  static const uint32_t widths[] = {1, 4, 2, 8, 3};
  return widths[serial % TG_COUNT(widths)];
}

static void check_target(run *r) {
  uint32_t serial = 0;
  for (uint32_t op = TG_OP_BITCAST + 1; op < TG_OP__COUNT; op++)
    for (uint32_t t = 0; t < TG_COUNT(types) && tg_ops[op].flags & TG_OPF_W; t++) {
      one_case c = {(tg_op)op, tg_ops[op].flags & TG_OPF_B ? TG_BOOL : types[t], types[t], op == TG_OP_WHERE ? TG_BOOL : types[t], lanes_for(serial++), tg_ops[op].arity};
      tg_value probe[3] = {{0}}, v;
      if (tg_evaluate(c.op, c.type, c.from, probe, &v)) check_case(r, &c);
    }
  for (uint32_t a = 0; a < TG_COUNT(stored); a++)
    for (uint32_t b = 0; b < TG_COUNT(stored); b++) {
      one_case c = {TG_OP_CAST, stored[b], stored[a], stored[a], lanes_for(serial++), 1};
      check_case(r, &c);
      if (tg_type_bits(stored[a]) != tg_type_bits(stored[b]) || a == b) continue;
      c.op = TG_OP_BITCAST;
      check_case(r, &c);
    }
  for (uint32_t i = 0; tg_matrix_at(i); i++)
    for (int rounds = 0; rounds < 2 && tg_matrix_on(tg_matrix_at(i), tg_jit_target(r->jit)); rounds++) check_matrix(r, tg_matrix_at(i), rounds);
}

int main(int argc, char **argv) {
  static const char *const targets[] = {"sm_80", "sm_90a"};
  for (size_t t = 0; t < TG_COUNT(targets); t++) {
    if (argc > 1 && strcmp(argv[1], targets[t])) continue;
    run r = {.jit = open_jit(targets[t]), .target = targets[t]};
    for (int i = 0; i < 4; i++) r.data[i] = calloc(MOST, 8);
    check_target(&r);
    for (int i = 0; i < 4; i++) free(r.data[i]);
    tg_jit_close(r.jit);
  }
  return TEST_END();
}
