/* SPDX-License-Identifier: MIT
 * Accesses, loops, phases: hand-made linear programs, run by the interpreter and as machine code, must leave the same bytes. Every
 * buffer ends (and, in a second run, begins) at a page that may not be touched. */
#define _GNU_SOURCE
#include "base/guard.h"
#include "interp/interp.h"
#include "jit.h"

enum { MAX = 6 };

typedef struct { tg_interp_buffer b[MAX]; tg_guarded g[MAX]; void *data[MAX + 1]; uint32_t n; program *p; } setting;

static void fill(char *data, tg_type t, size_t bytes, uint32_t seed) {
  uint32_t size = (uint32_t)tg_type_bytes(t);
  for (size_t i = 0; i < bytes / size; i++) {
    seed = seed * 1664525 + 1013904223;
    tg_value v = {.i = 0};
    int64_t small = (int64_t)(seed >> 20) % 17 - (t == TG_I32 || t == TG_I64 ? 0 : 8);
    if (tg_is_float(t)) v.f = (double)small;
    else v.i = small < 0 ? -small : small;
    uint64_t bits = tg_value_bits(t, v);
    memcpy(data + i * size, &bits, size);
  }
}

static void run_interpreter(void *arg) {
  setting *s = arg;
  tg_interpret(&s->p->j, s->p->j.sink, &(tg_interp){.buffers = s->b});
}

static void compare(program *p, const char *name) {
  if (!program_load(p)) {
    CHECK(false, "%s", name);
    program_end(p);
    return;
  }
  for (int at_end = 0; at_end < 2; at_end++) {
    setting s = {.p = p};
    for (uint32_t i = 0; i < p->list.n; i++) {
      const tg_uop *u = p->list.data[i];
      if (u->op != TG_OP_DEFINE || p->j.buffers.data[(uint32_t)u->arg].role == TG_ROLE_TEMP) continue;
      size_t bytes = (size_t)u->src[0]->arg * (size_t)tg_type_bytes(u->type);
      CHECK(tg_guard_take(&s.g[s.n], bytes, 0, !at_end), "memory");
      s.data[s.n] = s.g[s.n].data;
      fill(s.data[s.n], u->type, bytes, 7 * s.n + 1);
      s.b[s.n].bytes = bytes;
      s.b[s.n].data = malloc(bytes);
      memcpy(s.b[s.n].data, s.data[s.n], bytes);
      s.n++;
    }
    bool ok = tg_protect(&p->j.env, run_interpreter, &s);
    CHECK(ok, "%s: interpreter: %s", name, p->j.env.message);
    program_run(p, s.data, NULL);
    for (uint32_t i = 0; i < s.n; i++) {
      size_t at = 0;
      while (at < s.b[i].bytes && ((char *)s.data[i])[at] == ((char *)s.b[i].data)[at]) at++;
      CHECK(at == s.b[i].bytes, "%s: buffer %u differs at byte %zu", name, i, at);
      free(s.b[i].data);
      tg_guard_drop(&s.g[i]);
    }
    if (!ok) break;
  }
  program_end(p);
}

/* ---- programs: statements go to `body`, values are statements of it ---- */

typedef struct { program p; const tg_uop *body[64]; uint32_t n; } scene;

static const tg_uop *put(scene *s, const tg_uop *u) { return s->body[s->n++] = u; }
static const tg_uop *plus(scene *s, const tg_uop *a, const tg_uop *b) { return put(s, tg_op2(&s->p.j, TG_OP_ADD, a, b)); }
static const tg_uop *times(scene *s, const tg_uop *a, int64_t k) { return put(s, tg_op2(&s->p.j, TG_OP_MUL, a, i64c(&s->p.j, k))); }
static const tg_uop *less(scene *s, const tg_uop *a, int64_t k) { return put(s, tg_op2(&s->p.j, TG_OP_LT, a, i64c(&s->p.j, k))); }
static const tg_uop *load(scene *s, const tg_uop *b, const tg_uop *at, const tg_uop *gate, const tg_uop *alt) { return put(s, tg_load(&s->p.j, b, &at, gate, alt, 0)); }
static const tg_uop *store(scene *s, const tg_uop *b, const tg_uop *at, const tg_uop *v, const tg_uop *gate, int64_t flags) { return put(s, tg_store(&s->p.j, b, &at, v, gate, flags)); }
static const tg_uop *global(scene *s, const char *name, tg_type t, tg_role role, int64_t n) { return buffer(&s->p, name, t, role, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, n); }
static void loop(scene *s, const tg_uop *range) {
  add(&s->p, tg_end(&s->p.j, range, s->n, s->body));
  s->n = 0;
}
static const tg_uop *value_of(scene *s, tg_type t, double v) { return tg_is_float(t) ? tg_const_float(&s->p.j, t, v) : tg_const_int(&s->p.j, t, (int64_t)v); }

/* out[i] = in[i] else 3, for rows of `lanes` that reach past the end: masks; scalars: gates without masks. */
static void tails(tg_jit *jit, tg_type t, uint32_t lanes, bool vector_gate) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  int64_t n = 53;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, n), *out = global(&s, "r", t, TG_ROLE_OUT, n);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 56 / lanes + 2), TG_LOOP), *base = times(&s, i, lanes), *at = base;
  if (lanes > 1) at = plus(&s, base, tg_iota(j, TG_I64, lanes));
  const tg_uop *gate = vector_gate ? less(&s, at, n) : less(&s, base, n - lanes + 1);
  const tg_uop *v = load(&s, in, at, gate, value_of(&s, t, 1));
  store(&s, out, at, v, gate, 0);
  loop(&s, i);
  compare(&s.p, "tails");
}

/* out[ix[i] ..] in all shapes: gather, scatter, strided, reversed, splat; in i32 and i64. */
static void indirect(tg_jit *jit, tg_type index, uint32_t lanes, bool gated) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *ix = global(&s, "ix", index, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 256);
  const tg_uop *i = range_of(&s.p, "i", tg_const_int(j, index, 64 / lanes), TG_LOOP), *io = lanes > 1 ? tg_iota(j, index, lanes) : NULL;
  const tg_uop *base = put(&s, tg_op2(j, TG_OP_MUL, i, tg_const_int(j, index, lanes))), *at = io ? plus(&s, base, io) : base;
  const tg_uop *gate = gated ? put(&s, tg_op2(j, TG_OP_LT, at, tg_const_int(j, index, 37))) : NULL, *alt = gated ? value_of(&s, TG_F32, 9) : NULL;
  const tg_uop *x = load(&s, ix, at, NULL, NULL), *g = load(&s, in, x, gate, alt);
  const tg_uop *twice = put(&s, tg_op2(j, TG_OP_MUL, at, tg_const_int(j, index, 2)));
  store(&s, out, twice, g, gate, 0);
  const tg_uop *back = put(&s, tg_op2(j, TG_OP_SUB, tg_const_int(j, index, 255), at));
  const tg_uop *odd = put(&s, tg_op2(j, TG_OP_ADD, twice, tg_const_int(j, index, 1))), *r = load(&s, out, odd, gate, alt);
  store(&s, out, back, put(&s, tg_op2(j, TG_OP_MUL, r, value_of(&s, TG_F32, 2))), gate, 0);
  store(&s, out, put(&s, tg_op2(j, TG_OP_ADD, x, tg_const_int(j, index, 130))), value_of(&s, TG_F32, 5), gate, 0);
  loop(&s, i);
  compare(&s.p, "indirect");
}

/* One place for all lanes: a load under a gate of many lanes, whose place is outside of the buffer where no gate is open, and a
 * store of which one lane's gate is open at most. */
static void one_place(tg_jit *jit, tg_type t, uint32_t lanes) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, 5), *out = global(&s, "r", t, TG_ROLE_INOUT, 16 * lanes), *once = global(&s, "o", t, TG_ROLE_INOUT, 6);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 16), TG_LOOP), *at = plus(&s, times(&s, i, lanes), tg_iota(j, TG_I64, lanes));
  const tg_uop *gate = less(&s, at, 4 * lanes + 1), *v = load(&s, in, i, gate, value_of(&s, t, 1));
  store(&s, out, at, v, NULL, 0);
  const tg_uop *first = put(&s, tg_op2(j, TG_OP_EQ, tg_iota(j, TG_I64, lanes), i64c(j, 1))), *inside = less(&s, i, 6);
  store(&s, once, i, value_of(&s, t, 1), put(&s, tg_op2(j, TG_OP_AND, first, inside)), 0);
  loop(&s, i);
  compare(&s.p, "one place");
}

/* Gates of constants that open one lane: of a row at the very start or end of the buffer no other lane exists. Forwards and backwards, loaded and stored. */
static void one_lane(tg_jit *jit, tg_type t, uint32_t lanes, uint32_t lane, bool backwards) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, 3), *out = global(&s, "r", t, TG_ROLE_INOUT, 3), *rows = global(&s, "v", t, TG_ROLE_INOUT, 3 * lanes);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 3), TG_LOOP), *lane_of = tg_iota(j, TG_I64, lanes);
  const tg_uop *order = backwards ? put(&s, tg_op2(j, TG_OP_SUB, i64c(j, lane), lane_of)) : plus(&s, lane_of, i64c(j, -(int64_t)lane));
  const tg_uop *at = plus(&s, i, order), *gate = put(&s, tg_op2(j, TG_OP_EQ, lane_of, i64c(j, lane)));
  const tg_uop *v = load(&s, in, at, gate, value_of(&s, t, 1));
  store(&s, rows, plus(&s, times(&s, i, lanes), lane_of), v, NULL, 0);
  store(&s, out, at, v, gate, 0);
  loop(&s, i);
  compare(&s.p, "one lane");
}

/* Cells under gates: what is not stored stays, what is not read is the alternative; lane by lane, and all lanes together. */
static void gated_cells(tg_jit *jit, tg_type t, uint32_t lanes, bool together) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, 4 * lanes), *out = global(&s, "r", t, TG_ROLE_INOUT, 8 * lanes), *zero = i64c(j, 0), *one = i64c(j, 1);
  const tg_uop *cells = buffer(&s.p, "c", t, TG_ROLE_TEMP, TG_SPACE_REG, TG_PLACE_SSA, lanes, 2);
  const tg_uop *seven = value_of(&s, t, 7);
  add(&s.p, tg_store(j, cells, &zero, seven, NULL, 0));
  add(&s.p, tg_store(j, cells, &one, seven, NULL, 0));
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 4), TG_LOOP), *at = times(&s, i, lanes);
  if (lanes > 1) at = plus(&s, at, tg_iota(j, TG_I64, lanes));
  const tg_uop *gate = together ? put(&s, tg_op2(j, TG_OP_EQ, i, i64c(j, 2))) : put(&s, tg_op2(j, TG_OP_EQ, put(&s, tg_op2(j, TG_OP_CMOD, at, i64c(j, 3))), one));
  const tg_uop *v = load(&s, in, at, NULL, NULL);
  store(&s, cells, zero, v, gate, 0);
  const tg_uop *whole = load(&s, cells, zero, NULL, NULL), *part = load(&s, cells, zero, gate, value_of(&s, t, 5));
  store(&s, out, at, whole, NULL, 0);
  store(&s, out, plus(&s, at, i64c(j, 4 * lanes)), part, NULL, 0);
  loop(&s, i);
  compare(&s.p, "gated cells");
}

/* Offsets that are negative until the last term is added, in 32 bits as in 64. */
static void negative_offsets(tg_jit *jit, tg_type index, uint32_t lanes, int64_t stride) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_I16, TG_ROLE_IN, 96), *out = global(&s, "r", TG_I16, TG_ROLE_INOUT, 4 * lanes), *shift = global(&s, "n", index, TG_ROLE_IN, 1);
  const tg_uop *zero = i64c(j, 0), *i = range_of(&s.p, "i", tg_const_int(j, index, 4), TG_LOOP);
  const tg_uop *n = load(&s, shift, zero, NULL, NULL);   /* at most 16 */
  const tg_uop *row = put(&s, tg_op2(j, TG_OP_MUL, i, tg_const_int(j, index, lanes))), *to = lanes > 1 ? put(&s, tg_op2(j, TG_OP_ADD, row, tg_iota(j, index, lanes))) : row;
  const tg_uop *at = put(&s, tg_op2(j, TG_OP_SUB, put(&s, tg_op2(j, TG_OP_SUB, i, tg_const_int(j, index, 40))), n));
  if (lanes > 1) at = put(&s, tg_op2(j, TG_OP_ADD, at, put(&s, tg_op2(j, TG_OP_MUL, tg_iota(j, index, lanes), tg_const_int(j, index, stride)))));
  at = put(&s, tg_op2(j, TG_OP_ADD, at, tg_const_int(j, index, 56)));
  store(&s, out, to, load(&s, in, at, NULL, NULL), NULL, 0);
  loop(&s, i);
  compare(&s.p, "negative offsets");
}

/* Lanes some elements apart, upwards and downwards, from the first element of a buffer to the last; and those between them, which stay as they are. gate: 0 none, 1 of the lanes, 2 one for all, 3 both.
 * told: so many more elements, up to 16, are told by memory. */
static void steps(tg_jit *jit, tg_type t, tg_type index, uint32_t lanes, int64_t step, int gate, bool told) {
  enum { ROUNDS = 3, MORE = 16 };
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  int64_t apart = (step < 0 ? -step : step) + (told ? MORE : 0), row = apart * lanes, n = ROUNDS * row - apart + 1;
#define INTEGER(v) tg_const_int(j, index, v)
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, n), *out = global(&s, "r", t, TG_ROLE_INOUT, n), *dense = global(&s, "d", t, TG_ROLE_OUT, ROUNDS * lanes), *i = range_of(&s.p, "i", INTEGER(ROUNDS), TG_LOOP), *lane = tg_iota(j, index, lanes);
  const tg_uop *at = put(&s, tg_op2(j, TG_OP_MUL, i, INTEGER(row))), *g = NULL;
  if (step < 0) at = plus(&s, at, INTEGER(row - apart));
  if (told) {
    const tg_uop *zero = i64c(j, 0), *more = load(&s, global(&s, "n", index, TG_ROLE_IN, 1), zero, NULL, NULL), *by = put(&s, tg_op2(j, step < 0 ? TG_OP_SUB : TG_OP_ADD, INTEGER(step), more));
    at = plus(&s, at, put(&s, gate & 1 ? tg_op2(j, TG_OP_MUL, lane, by) : tg_op2(j, TG_OP_MUL, by, lane)));
  } else at = plus(&s, at, put(&s, tg_op2(j, TG_OP_MUL, lane, INTEGER(step))));
  if (gate & 1) {   /* in the first round all */
    const tg_uop *some = put(&s, tg_op2(j, TG_OP_NE, put(&s, tg_op2(j, TG_OP_CMOD, plus(&s, lane, i), INTEGER(3))), INTEGER(1)));
    g = put(&s, tg_op2(j, TG_OP_OR, some, put(&s, tg_op2(j, TG_OP_EQ, i, INTEGER(0)))));
  }
  if (gate & 2) {
    const tg_uop *all = put(&s, tg_op2(j, TG_OP_NE, i, INTEGER(1)));
    g = g ? put(&s, tg_op2(j, TG_OP_AND, g, all)) : all;
  }
  const tg_uop *v = load(&s, in, at, g, g ? value_of(&s, t, 3) : NULL);
  store(&s, out, at, v, g, 0);
  store(&s, dense, plus(&s, put(&s, tg_op2(j, TG_OP_MUL, i, INTEGER(lanes))), lane), v, NULL, 0);   /* what stands where the gate is shut */
#undef INTEGER
  loop(&s, i);
  compare(&s.p, "steps");
}

/* Buffers of the workspace: fresh ones side by side and one after another do not disturb each other. */
static void scratch(tg_jit *jit, uint32_t lanes) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 64), *dim = i64c(j, 64 / lanes);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 3), TG_LOOP), *local[3], *outer[64];
  uint32_t n = 0;
  tg_buffer info = {.name = "w", .space = TG_SPACE_LOCAL, .rank = 1, .type = TG_F32};
  outer[n++] = local[0] = tg_define(j, info, lanes, &dim, NULL, true);
  for (uint32_t k = 0; k < 3; k++) {
    const tg_uop *r = range_of(&s.p, "k", dim, TG_LOOP), *at = times(&s, r, lanes);
    if (lanes > 1) at = plus(&s, at, tg_iota(j, TG_I64, lanes));
    const tg_uop *v = k == 2 ? load(&s, local[0], r, NULL, NULL) : load(&s, in, at, NULL, NULL);
    if (k == 1) {
      const tg_uop *one = i64c(j, 1), *zero = i64c(j, 0);
      const tg_uop *inner = put(&s, tg_define(j, info, lanes, &one, NULL, true));
      store(&s, inner, zero, put(&s, tg_op2(j, TG_OP_MUL, v, v)), NULL, 0);
      v = load(&s, inner, zero, NULL, NULL);
    }
    if (k == 0) store(&s, local[0], r, v, NULL, 0);
    else store(&s, out, at, plus(&s, load(&s, out, at, NULL, NULL), v), NULL, 0);
    outer[n++] = tg_end(j, r, s.n, s.body);
    s.n = 0;
  }
  add(&s.p, tg_end(j, i, n, outer));
  compare(&s.p, "scratch");
}

/* Accumulators in SSA form over nested loops, also ones that may not run; a fresh one in each iteration; scalar and vector cells. */
static void accumulators(tg_jit *jit, uint32_t lanes, int64_t inner, bool of_memory) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 512), *trip = global(&s, "n", TG_I64, TG_ROLE_IN, 1), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 512);
  const tg_uop *zero = i64c(j, 0), *one = i64c(j, 1);
  const tg_uop *acc = buffer(&s.p, "acc", TG_F32, TG_ROLE_TEMP, TG_SPACE_REG, of_memory ? TG_PLACE_MEMORY : TG_PLACE_SSA, lanes, 2);
  add(&s.p, tg_store(j, acc, &zero, value_of(&s, TG_F32, 1), NULL, 0));
  const tg_uop *count = inner >= 0 ? i64c(j, inner) : add(&s.p, tg_load(j, trip, &zero, NULL, NULL, 0));
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 4), TG_LOOP), *k = range_of(&s.p, "k", count, TG_LOOP);
  const tg_uop *fresh = tg_define(j, (tg_buffer){.name = "f", .space = TG_SPACE_REG, .place = TG_PLACE_SSA, .rank = 1, .type = TG_F32}, lanes, &one, NULL, true);
  scene b = {.p = s.p};
  const tg_uop *at = put(&b, tg_op2(j, TG_OP_MUL, k, i64c(j, lanes)));
  if (lanes > 1) at = put(&b, tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I64, lanes)));
  const tg_uop *v = put(&b, tg_load(j, in, &at, NULL, NULL, 0));
  const tg_uop *a0 = put(&b, tg_load(j, acc, &zero, NULL, NULL, 0)), *f0 = put(&b, tg_load(j, fresh, &zero, NULL, NULL, 0));
  put(&b, tg_store(j, acc, &zero, put(&b, tg_op2(j, TG_OP_ADD, a0, v)), NULL, 0));
  put(&b, tg_store(j, fresh, &zero, put(&b, tg_op2(j, TG_OP_ADD, f0, a0)), NULL, 0));
  put(&s, fresh);
  put(&s, tg_store(j, fresh, &zero, value_of(&s, TG_F32, 2), NULL, 0));
  put(&s, tg_end(j, k, b.n, b.body));
  const tg_uop *f1 = put(&s, tg_load(j, fresh, &zero, NULL, NULL, 0)), *row = times(&s, i, lanes);
  if (lanes > 1) row = plus(&s, row, tg_iota(j, TG_I64, lanes));
  put(&s, tg_store(j, out, &row, f1, NULL, 0));
  put(&s, tg_store(j, acc, &one, f1, NULL, 0));
  add(&s.p, tg_end(j, i, s.n, s.body));
  const tg_uop *last = add(&s.p, tg_load(j, acc, &zero, NULL, NULL, 0)), *second = add(&s.p, tg_load(j, acc, &one, NULL, NULL, 0)), *both = add(&s.p, tg_op2(j, TG_OP_ADD, last, second));
  const tg_uop *sum = lanes > 1 ? add(&s.p, tg_make(j, TG_OP_FOLD, TG_F32, 1, TG_OP_ADD, 1, &both)) : both, *end = i64c(j, 500);
  add(&s.p, tg_store(j, out, &end, sum, NULL, 0));
  compare(&s.p, "accumulators");
}

/* Three phases; a register, a local buffer and a value of the first are used in the second and third. */
static void phases(tg_jit *jit) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 64), *zero = i64c(j, 0), *three = i64c(j, 3);
  const tg_uop *reg = buffer(&s.p, "x", TG_F32, TG_ROLE_TEMP, TG_SPACE_REG, TG_PLACE_SSA, 1, 1), *packed = buffer(&s.p, "p", TG_F32, TG_ROLE_TEMP, TG_SPACE_LOCAL, TG_PLACE_NONE, 1, 64);
  const tg_uop *first = add(&s.p, tg_load(j, in, &three, NULL, NULL, 0)), *old = add(&s.p, tg_load(j, out, &zero, NULL, NULL, 0));
  add(&s.p, tg_store(j, reg, &zero, first, NULL, 0));
  const tg_uop *t = range_of(&s.p, "t", i64c(j, 8), TG_THREAD), *at = times(&s, t, 8);
  at = plus(&s, at, tg_iota(j, TG_I64, 8));
  const tg_uop *v = load(&s, in, at, NULL, NULL), *x = load(&s, reg, zero, NULL, NULL);
  store(&s, packed, at, plus(&s, plus(&s, v, x), old), NULL, 0);
  loop(&s, t);
  const tg_uop *u = range_of(&s.p, "u", i64c(j, 64), TG_THREAD), *rev = put(&s, tg_op2(j, TG_OP_SUB, i64c(j, 63), u));
  const tg_uop *y = load(&s, packed, rev, NULL, NULL);
  store(&s, out, u, plus(&s, y, old), NULL, 0);
  loop(&s, u);
  compare(&s.p, "phases");
}

/* a: 5 { old = r[a]; x = a[a]; b: a + less { t thread: p[..] = .. old, x; x += 1 }; u thread: r[u] += p[..] + old + x }. Counters of type `index`. */
static void loops_of_phases(program *p, tg_jit *jit, tg_type index, int64_t less_than) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 64);
  const tg_uop *packed = buffer(&s.p, "p", TG_F32, TG_ROLE_TEMP, TG_SPACE_LOCAL, TG_PLACE_NONE, 1, 64), *zero = tg_const_int(j, index, 0);
  const tg_uop *i = range_of(&s.p, "i", tg_const_int(j, index, 64), TG_THREAD);
  store(&s, packed, i, value_of(&s, TG_F32, 0), NULL, 0);
  loop(&s, i);
  const tg_uop *a = range_of(&s.p, "a", tg_const_int(j, index, 5), TG_LOOP), *one = tg_const_int(j, index, 1);
  const tg_uop *extent = tg_op2(j, TG_OP_ADD, a, tg_const_int(j, index, less_than)), *b = range_of(&s.p, "b", extent, TG_LOOP);
  const tg_uop *t = range_of(&s.p, "t", tg_const_int(j, index, 32), TG_THREAD), *at = put(&s, tg_op2(j, TG_OP_ADD, t, b)), *dim = i64c(j, 1);
  const tg_uop *reg = tg_define(j, (tg_buffer){.name = "x", .space = TG_SPACE_REG, .role = TG_ROLE_TEMP, .place = TG_PLACE_SSA, .rank = 1, .type = TG_F32}, 1, &dim, NULL, true);
  const tg_uop *old = tg_load(j, out, &a, NULL, NULL, 0), *x = load(&s, reg, zero, NULL, NULL);
  store(&s, packed, at, plus(&s, plus(&s, x, old), load(&s, in, at, NULL, NULL)), NULL, 0);
  const tg_uop *tasks = tg_end(j, t, s.n, s.body);
  s.n = 0;
  put(&s, tasks);
  const tg_uop *y = load(&s, reg, zero, NULL, NULL);
  store(&s, reg, zero, plus(&s, y, value_of(&s, TG_F32, 1)), NULL, 0);
  const tg_uop *inner = tg_end(j, b, s.n, s.body), *u = range_of(&s.p, "u", tg_const_int(j, index, 64), TG_THREAD);
  s.n = 0;
  const tg_uop *z = load(&s, packed, u, NULL, NULL), *w = load(&s, reg, zero, NULL, NULL), *before = load(&s, out, u, NULL, NULL);
  store(&s, out, u, plus(&s, plus(&s, before, old), plus(&s, z, w)), NULL, 0);
  const tg_uop *last = tg_end(j, u, s.n, s.body);
  s.n = 0;
  put(&s, reg);
  put(&s, old);
  store(&s, reg, zero, load(&s, in, a, NULL, NULL), NULL, 0);
  put(&s, extent);
  put(&s, inner);
  put(&s, last);
  loop(&s, a);
  store(&s, out, one, load(&s, packed, one, NULL, NULL), NULL, 0);
  for (uint32_t k = 0; k < s.n; k++) add(&s.p, s.body[k]);
  if (p) *p = s.p;
  else compare(&s.p, "loops of phases");
}

/* Steps of a launch that came from a file: none that leads out of them, of the phases or of the shared memory is taken. */
static void damaged_steps(tg_jit *jit) {
  program p;
  loops_of_phases(&p, jit, TG_I64, 0);
  CHECK(program_load(&p) && p.info.loops == 2 && p.info.launch_n == 10, "%u loops in %llu words", p.info.loops, (unsigned long long)p.info.launch_n);
  tg_allocator a = tg_allocator_default();
  int64_t steps[16], values[] = {-3, -2, -1, 0, 1, 2, 5, 6, 7, 8, 9, INT64_MIN, INT64_MAX};
  tg_code_info info = p.info;
  info.launch = steps;
  for (uint32_t i = 0; i < p.info.launch_n; i++)
    for (uint32_t v = 0; v < TG_COUNT(values); v++) {
      tg_code *code = NULL;
      memcpy(steps, p.info.launch, 8 * p.info.launch_n);
      steps[i] = values[v];
      if (tg_code_load(&a, p.object.data, p.object.bytes, "k", &info, 0, &code, &p.j.env) == TG_OK) tg_code_unload(code);   /* well-formed, if not what was meant */
      else CHECK(!code, "step %u", i);
      bool phase = values[v] >= 0 && values[v] < (int64_t)p.info.phases, outside = i != 2 && i != 5 && !phase && (values[v] < -2 || values[v] > 0);
      CHECK(!outside || !code, "step %u may not be %lld", i, (long long)values[v]);
    }
  memcpy(steps, p.info.launch, 8 * p.info.launch_n);
  tg_code *code = NULL;
  info.shared = 8;
  CHECK(tg_code_load(&a, p.object.data, p.object.bytes, "k", &info, 0, &code, &p.j.env) != TG_OK, "counters outside of the shared memory");
  info.shared = p.info.shared;
  info.launch_n = 8;
  CHECK(tg_code_load(&a, p.object.data, p.object.bytes, "k", &info, 0, &code, &p.j.env) != TG_OK, "a loop longer than the steps");
  program_end(&p);
}

/* Every op that folds, over every width, odd ones too. */
static void folds(tg_jit *jit, tg_type t, uint32_t lanes) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MUL, TG_OP_MAX, TG_OP_MIN, TG_OP_AND, TG_OP_OR};
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, lanes), *out = global(&s, "r", t, TG_ROLE_INOUT, 8), *at = tg_iota(j, TG_I64, lanes);
  const tg_uop *v = add(&s.p, tg_load(j, in, &at, NULL, NULL, 0));
  for (uint32_t i = 0; i < (tg_is_float(t) ? 4 : 6); i++) {
    const tg_uop *f = add(&s.p, tg_make(j, TG_OP_FOLD, t, 1, ops[i], 1, &v)), *to = i64c(j, i);
    add(&s.p, tg_store(j, out, &to, f, NULL, 0));
  }
  compare(&s.p, "folds");
}

/* Sums of a tile, which share their additions: n vectors in registers, each stored where it belongs, and one of them changed and folded again. */
static void folds_together(tg_jit *jit, tg_type t, tg_op op, uint32_t lanes, uint32_t n) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", t, TG_ROLE_IN, lanes * (n + 1)), *out = global(&s, "r", t, TG_ROLE_INOUT, 2 * n + 2), *end = i64c(j, 2 * n + 1), *first = i64c(j, 0);
  const tg_uop *reg = buffer(&s.p, "s", t, TG_ROLE_TEMP, TG_SPACE_REG, TG_PLACE_SSA, lanes, n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *at = add(&s.p, tg_op2(j, TG_OP_ADD, tg_iota(j, TG_I64, lanes), i64c(j, i * lanes))), *cell = i64c(j, i);
    add(&s.p, tg_store(j, reg, &cell, add(&s.p, tg_load(j, in, &at, NULL, NULL, 0)), NULL, 0));
  }
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *cell = i64c(j, i), *at = i64c(j, 2 * i), *v = add(&s.p, tg_load(j, reg, &cell, NULL, NULL, 0)), *f = add(&s.p, tg_make(j, TG_OP_FOLD, t, 1, op, 1, &v));
    const tg_uop *old = add(&s.p, tg_load(j, out, &at, NULL, NULL, 0));
    add(&s.p, tg_store(j, out, &at, add(&s.p, tg_op2(j, TG_OP_ADD, f, old)), NULL, 0));
    if (i != n / 2) continue;
    const tg_uop *more = add(&s.p, tg_op2(j, TG_OP_ADD, tg_iota(j, TG_I64, lanes), i64c(j, n * lanes))), *last = i64c(j, n - 1);
    add(&s.p, tg_store(j, reg, &last, add(&s.p, tg_load(j, in, &more, NULL, NULL, 0)), NULL, 0));
  }
  const tg_uop *new = add(&s.p, tg_op2(j, TG_OP_ADD, tg_iota(j, TG_I64, lanes), i64c(j, n * lanes)));   /* the first one again, of what it holds by then */
  add(&s.p, tg_store(j, reg, &first, add(&s.p, tg_load(j, in, &new, NULL, NULL, 0)), NULL, 0));
  const tg_uop *again = add(&s.p, tg_load(j, reg, &first, NULL, NULL, 0));
  add(&s.p, tg_store(j, out, &end, add(&s.p, tg_make(j, TG_OP_FOLD, t, 1, op, 1, &again)), NULL, 0));
  compare(&s.p, "folds together");
}

/* Elements of a vector by an index that counts modulo its lanes, below zero too: from memory, and known. */
static void shuffles(tg_jit *jit, tg_type index, uint32_t of, uint32_t lanes) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, of), *ix = global(&s, "ix", index, TG_ROLE_IN, lanes), *out = global(&s, "r", TG_F32, TG_ROLE_INOUT, 3 * lanes);
  const tg_uop *iota = tg_iota(j, TG_I64, lanes), *row = tg_iota(j, TG_I64, of), *short_iota = lanes > 1 ? tg_iota(j, index, lanes) : tg_const_int(j, index, 2);
  const tg_uop *v = add(&s.p, tg_load(j, in, &row, NULL, NULL, 0)), *zero = i64c(j, 0), *at = lanes > 1 ? iota : zero;
  const tg_uop *x = add(&s.p, tg_load(j, ix, &at, NULL, NULL, 0)), *turned[3] = {add(&s.p, tg_op2(j, TG_OP_SUB, x, tg_const_int(j, index, 20)))};
  turned[1] = add(&s.p, tg_op2(j, TG_OP_MUL, short_iota, tg_const_int(j, index, -5)));
  turned[2] = add(&s.p, tg_op2(j, TG_OP_ADD, short_iota, tg_const_int(j, index, 3)));
  for (uint32_t k = 0; k < 3; k++) {
    const tg_uop *src[3] = {v, i64c(j, of), turned[k]}, *to = k ? add(&s.p, tg_op2(j, TG_OP_ADD, at, i64c(j, k * lanes))) : at;
    add(&s.p, tg_store(j, out, &to, add(&s.p, tg_make(j, TG_OP_SHUFFLE, TG_F32, lanes, 0, 3, src)), NULL, 0));
  }
  compare(&s.p, "shuffles");
}

static void atomics(tg_jit *jit, tg_type t, uint32_t lanes, bool gated) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *ix = global(&s, "ix", TG_I64, TG_ROLE_IN, 64), *out = global(&s, "r", t, TG_ROLE_INOUT, 32);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 64 / lanes), TG_LOOP), *at = times(&s, i, lanes);
  if (lanes > 1) at = plus(&s, at, tg_iota(j, TG_I64, lanes));
  const tg_uop *x = load(&s, ix, at, NULL, NULL), *gate = gated ? less(&s, at, 41) : NULL;
  store(&s, out, x, value_of(&s, t, 3), gate, TG_ATOMIC);
  loop(&s, i);
  compare(&s.p, "atomics");
}

/* Streaming stores of rows of `lanes`, the first at element `from`: where each of their registers is aligned, there are two entries, the second for any address; else none streams.
 * runs: this machine runs code of the target. */
static void streams(tg_jit *jit, bool runs, uint32_t lanes, uint32_t pitch, uint32_t from) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  uint32_t vector = tg_jit_target(jit)->vector_bytes / 4, piece = lanes < vector ? lanes : vector;   /* a register each */
  bool aligned = pitch % piece == 0 && from % piece == 0;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_OUT, 64 + from);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, (64 - lanes) / pitch + 1), TG_LOOP), *at = plus(&s, times(&s, i, pitch), tg_iota(j, TG_I64, lanes));
  store(&s, out, plus(&s, at, i64c(j, from)), load(&s, in, at, NULL, NULL), NULL, TG_STREAM);
  loop(&s, i);
  CHECK(program_load(&s.p), "streams");
  CHECK(s.p.info.aligned == (aligned ? 2 : 0), "%u lanes every %u from %u: the output is streamed to", lanes, pitch, from);
  if (!runs) {
    program_end(&s.p);
    return;
  }
  float *a = aligned_alloc(64, 512), *r = aligned_alloc(64, 512), workspace[64];
  for (int k = 0; k < 64; k++) a[k] = (float)k;
  for (uint32_t shift = 0; shift < 2; shift++) {
    void *buffers[3] = {a, r + shift, NULL};
    memset(r, 0, 512);
    tg_code_entry(s.p.code, 0, shift)(buffers, NULL, workspace, 0);
    CHECK(!memcmp(a, r + shift + from, 4 * ((64 - lanes) / pitch * pitch + lanes)), "%u lanes every %u from %u, shift %u", lanes, pitch, from, shift);
  }
  CHECK((tg_code_entry(s.p.code, 0, true) != tg_code_entry(s.p.code, 0, false)) == aligned, "two entries");
  free(a);
  free(r);
  program_end(&s.p);
}

static void all_streams(tg_jit *jit, bool runs) {
  for (uint32_t lanes = 4; lanes <= 16; lanes *= 2) {
    streams(jit, runs, lanes, lanes, 0);
    streams(jit, runs, lanes, lanes, 1);
    streams(jit, runs, lanes, lanes, lanes / 2);
    streams(jit, runs, lanes, lanes, lanes);
    streams(jit, runs, lanes, lanes / 2, 0);
  }
}

/* What a condition for all lanes shuts is read from the start of the workspace: that is touched first, for masked loads of memory that is not there yet take hundreds of cycles each. */
static void shut_loads(tg_jit *jit) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 60), *out = global(&s, "r", TG_F32, TG_ROLE_OUT, 64);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 4), TG_LOOP), *at = plus(&s, times(&s, i, 16), tg_iota(j, TG_I64, 16));
  const tg_uop *open = less(&s, i, 3), *within = less(&s, at, 60), *gate = put(&s, tg_op2(j, TG_OP_AND, within, open));
  store(&s, out, at, load(&s, in, at, gate, tg_const_float(j, TG_F32, 7)), NULL, 0);
  loop(&s, i);
  CHECK(program_load(&s.p), "shut loads");
  float *a = aligned_alloc(64, 256), *r = aligned_alloc(64, 256);
  uint64_t workspace[32];
  memset(workspace, 0xff, sizeof workspace);
  for (int k = 0; k < 60; k++) a[k] = (float)k;
  tg_code_entry(s.p.code, 0, false)((void *[]){a, r, NULL}, NULL, workspace, 0);
  for (int k = 0; k < 64; k++) CHECK(r[k] == (k < 48 ? (float)k : 7), "element %d is %g", k, (double)r[k]);
  CHECK(!workspace[0] && workspace[31] == UINT64_MAX, "the start of the workspace is %llx", (unsigned long long)workspace[0]);
  free(a);
  free(r);
  program_end(&s.p);
}

/* Masks that LLVM may take for others never reach it: of a row of 16 lanes, of which a constant opens the first few
 * and, with varies, a bound on the place some of those, one access is made, no wider than what may be open. */
static void cut_masks(const char *target, uint32_t open, bool varies, const char *wanted) {
  tg_jit *jit = open_jit(target);
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 53), *out = global(&s, "r", TG_F32, TG_ROLE_OUT, 64);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 4), TG_LOOP), *lane = tg_iota(j, TG_I64, 16);
  const tg_uop *at = plus(&s, times(&s, i, 16), lane), *gate = less(&s, lane, open);
  if (varies) gate = put(&s, tg_op2(j, TG_OP_AND, gate, less(&s, at, 53)));
  store(&s, out, at, load(&s, in, at, gate, tg_const_float(j, TG_F32, 0)), NULL, 0);
  loop(&s, i);
  bool ok = tg_protect(&j->env, program_compile, &s.p);
  CHECK(ok, "%s: %s", target, j->env.message);
  int masked = 0, right = 0;
  for (const char *line = ok ? s.p.ir : NULL; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    size_t n = strcspn(line, "\n");
    if (!memmem(line, n, " call ", 6) || !memmem(line, n, "mask", 4)) continue;
    masked++;
    right += memmem(line, n, wanted, strlen(wanted)) != NULL;
  }
  CHECK(masked == 1 && right == 1, "%s, %u lanes: not one access by %s:\n%s", target, open, wanted, ok ? s.p.ir : "");
  program_end(&s.p);
  tg_jit_close(jit);
}

/* Where a masked store is dear, a store asks whether its mask is true in all lanes, and is a plain one there: both are
 * made, and the mask is asked once for all stores under it. */
static void asked_masks(const char *target, double masked_store, bool asks) {
  tg_target row;
  CHECK(tg_target_named(&row, target), "%s", target);
  row.machine.masked_store = masked_store;
  tg_jit *jit = open_jit_for(&row);
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", TG_F32, TG_ROLE_IN, 64), *out = global(&s, "r", TG_F32, TG_ROLE_OUT, 64),
               *more = global(&s, "q", TG_F32, TG_ROLE_OUT, 64);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 8), TG_LOOP), *at = plus(&s, times(&s, i, 8), tg_iota(j, TG_I64, 8)),
               *gate = less(&s, at, 53), *v = load(&s, in, at, NULL, NULL);
  store(&s, out, at, v, gate, 0);
  store(&s, more, at, v, gate, 0);
  loop(&s, i);
  bool ok = tg_protect(&j->env, program_compile, &s.p);
  CHECK(ok, "%s: %s", target, j->env.message);
  int plain = 0, asked = 0;
  for (const char *line = ok ? s.p.ir : NULL; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    size_t n = strcspn(line, "\n");
    plain += memmem(line, n, "store <8 x float>", 17) != NULL;
    asked += memmem(line, n, "= call i1 @llvm.vector.reduce.and", 33) != NULL;
  }
  CHECK(plain == (asks ? 2 : 0) && asked == asks, "%s, %g cycles: %d plain stores, %d questions:\n%s", target,
        masked_store, plain, asked, ok ? s.p.ir : "");
  program_end(&s.p);
  tg_jit_close(jit);
}

/* Of elements that no instruction loads by a mask of lanes, a load asks as well. */
static void asked_loads(const char *target, tg_type type, bool asks) {
  tg_jit *jit = open_jit(target);
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *in = global(&s, "a", type, TG_ROLE_IN, 64), *out = global(&s, "r", type, TG_ROLE_OUT, 64),
               *none = tg_is_float(type) ? tg_const_float(j, type, 0) : tg_const_int(j, type, 0);
  const tg_uop *i = range_of(&s.p, "i", i64c(j, 8), TG_LOOP), *at = plus(&s, times(&s, i, 8), tg_iota(j, TG_I64, 8));
  store(&s, out, at, load(&s, in, at, less(&s, at, 53), none), NULL, 0);
  loop(&s, i);
  bool ok = tg_protect(&j->env, program_compile, &s.p), asked = ok && strstr(s.p.ir, "= call i1 @llvm.vector.reduce.and");
  CHECK(ok, "%s: %s", target, j->env.message);
  CHECK(asked == asks, "%s, %s: %s:\n%s", target, tg_type_name[type], asked ? "asked" : "not asked", ok ? s.p.ir : "");
  program_end(&s.p);
  tg_jit_close(jit);
}

/* An operation that the target lacks becomes a call of nothing: an error that names it, not a kernel that jumps into the void. */
static void missing_function(void) {
  tg_jit *jit = open_jit("x86-64-v2");
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *out = global(&s, "r", TG_F64, TG_ROLE_INOUT, 4), *zero = i64c(j, 0), *v = add(&s.p, tg_load(j, out, &zero, NULL, NULL, 0)), *three[3] = {v, v, v};
  add(&s.p, tg_store(j, out, &zero, add(&s.p, tg_make(j, TG_OP_FMA, TG_F64, 1, 0, 3, three)), NULL, 0));
  CHECK(!tg_protect(&j->env, program_compile, &s.p) && j->env.status == TG_EBACKEND && strstr(j->env.message, "'fma'"), "%s", j->env.message);
  program_end(&s.p);
  tg_jit_close(jit);
}

/* A value used before it is computed is our bug, and said so. */
static void misplaced(tg_jit *jit) {
  scene s = {.n = 0};
  program_begin(&s.p, jit);
  tg_job *j = &s.p.j;
  const tg_uop *out = global(&s, "r", TG_F64, TG_ROLE_INOUT, 4), *zero = i64c(j, 0), *v = tg_load(j, out, &zero, NULL, NULL, 0);
  add(&s.p, tg_store(j, out, &zero, v, NULL, 0));
  CHECK(!tg_protect(&j->env, program_compile, &s.p) && j->env.status == TG_INTERNAL, "%s", j->env.message);
  program_end(&s.p);
}

#ifdef TG_SANITIZED
enum { SOME = 1 };   /* a third of the steps: most of the time is LLVM's, which is not instrumented */
#else
enum { SOME = 0 };
#endif

int main(int argc, char **argv) {
  tg_jit *jit = open_jit(argc > 1 ? argv[1] : test_target());
  static const tg_type all[] = {TG_BOOL, TG_I8, TG_U16, TG_I32, TG_I64, TG_F16, TG_BF16, TG_F32, TG_F64, TG_E4M3};
  static const uint32_t widths[] = {1, 2, 3, 4, 8, 16, 64};
  uint32_t serial = 0;
  for (uint32_t t = 0; t < TG_COUNT(all); t++)
    for (uint32_t k = 0; k < 3; k++, serial++) {
      uint32_t lanes = widths[serial % TG_COUNT(widths)];
      tails(jit, all[t], lanes, false);
      if (lanes > 1) tails(jit, all[t], lanes, true);
    }
  for (uint32_t lanes = 1; lanes <= 32; lanes *= 4)
    for (int gated = 0; gated < 2; gated++) {
      indirect(jit, TG_I64, lanes, gated);
      indirect(jit, TG_I32, lanes, gated);
    }
  for (uint32_t lanes = 1; lanes <= 16; lanes *= 16)
    for (int64_t inner = -1; inner < 4; inner++) {
      accumulators(jit, lanes, inner, false);
      accumulators(jit, lanes, inner, true);
    }
  phases(jit);
  for (int64_t less_than = -5; less_than < 2; less_than++) {
    loops_of_phases(NULL, jit, TG_I64, less_than);
    loops_of_phases(NULL, jit, TG_I32, less_than);
  }
  damaged_steps(jit);
  for (uint32_t t = 0; t < TG_COUNT(all); t++)
    for (uint32_t k = 0; k < 3; k++) {
      uint32_t lanes = k % 2 ? 4 : 16;
      one_lane(jit, all[t], lanes, k * (lanes - 1) / 2, t % 2);
    }
  for (uint32_t lanes = 1; lanes <= 16; lanes *= 4)
    for (int together = 0; together < 2; together++) {
      gated_cells(jit, TG_F32, lanes, together);
      gated_cells(jit, TG_I64, lanes, together);
    }
  for (int64_t stride = 1; stride <= 3; stride += 2) {
    negative_offsets(jit, TG_I32, 8, stride);
    negative_offsets(jit, TG_I64, 4, stride);
  }
  negative_offsets(jit, TG_I32, 1, 1);
  tg_jit *other = open_jit_of(argc > 1 ? argv[1] : test_target(), true);
  for (int64_t step = -5; step <= 5; step++)
    for (int gate = 0; gate < 4; gate++)
      for (uint32_t t = 0; step && t < sizeof all / sizeof *all; t++)
        for (int told = SOME ? (int)(step + 5 + gate + (int)t) % 3 : 0; told < 3; told += SOME ? 3 : 1) steps(told == 2 || step * step == 25 ? other : jit, all[t], t % 2 ? TG_I32 : TG_I64, 4u << (t + (uint32_t)gate) % 3, step, gate, told > 0);
  tg_jit_close(other);
  for (uint32_t t = 0; t < TG_COUNT(all); t++) one_place(jit, all[t], t % 2 ? 4 : 16);
  for (uint32_t lanes = 1; lanes <= 16; lanes *= 4) scratch(jit, lanes);
  for (uint32_t lanes = 1; lanes <= 17; lanes += lanes < 8 ? 1 : 3) {
    folds(jit, TG_F32, lanes);
    folds(jit, TG_I16, lanes);
  }
  for (uint32_t lanes = 2; lanes <= 32; lanes *= 2)
    for (uint32_t n = 1; n <= 19; n += 1 + n / 4) {
      folds_together(jit, TG_F32, TG_OP_ADD, lanes, n);
      folds_together(jit, TG_F64, TG_OP_MUL, lanes, n);
      folds_together(jit, TG_I32, TG_OP_MAX, lanes, n);
      if (has_type(jit, TG_F16)) folds_together(jit, TG_F16, TG_OP_MIN, lanes, n);
    }
  for (uint32_t of = 5; of <= 16; of += 1 + of / 2)
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 8) {
      shuffles(jit, TG_I64, of, lanes);
      shuffles(jit, TG_I32, of, lanes);
    }
  for (int gated = 0; gated < 2; gated++) {
    atomics(jit, TG_F32, 1, gated);
    atomics(jit, TG_I32, 8, gated);
    atomics(jit, TG_F64, 4, gated);
    if (has_type(jit, TG_F16)) atomics(jit, TG_F16, 4, gated);
  }
  all_streams(jit, true);
  for (uint32_t i = 0; tg_target_name(i); i++) {   /* whatever the machine is */
    tg_target row;
    tg_jit *named = tg_target_named(&row, tg_target_name(i)) && row.arch == tg_jit_target(jit)->arch ? open_jit(row.name) : NULL;
    if (named) all_streams(named, false), tg_jit_close(named);
  }
  shut_loads(jit);
  for (int varies = 0; varies < 2; varies++) {
    cut_masks("x86-64-v3", 3, varies, "@llvm.x86.avx.maskload.ps(");
    cut_masks("x86-64-v3", 7, varies, "@llvm.x86.avx.maskload.ps.256(");
    cut_masks("x86-64-v4", 3, varies, "@llvm.masked.load.v4f32");
    cut_masks("x86-64-v4", 7, varies, "@llvm.masked.load.v8f32");
  }
  asked_masks("x86-64-v3", 12, true);
  asked_masks("x86-64-v3", 1, false);
  asked_loads("x86-64-v3", TG_F32, false);
  asked_loads("x86-64-v3", TG_BF16, true);
  asked_loads("x86-64-v3", TG_U8, true);
  asked_loads("x86-64-v4", TG_BF16, false);
  asked_loads("x86-64-v2", TG_F32, true);
  asked_loads("armv8-a", TG_F32, true);
  missing_function();
  misplaced(jit);
  tg_jit_close(jit);
  return TEST_END();
}
