/* SPDX-License-Identifier: MIT
 * Every pass from reduce to linear keeps the meaning: small kernels under random schedules, interpreted before and after. */
#include "kit.h"

static const tg_kind any[] = {TG_LOOP, TG_UPCAST, TG_LANE, TG_LOCAL, TG_UNROLL, TG_GLOBAL, TG_LOOP};
static const tg_kind copies[] = {TG_LOOP, TG_UNROLL, TG_LOOP};
static const tg_kind folding[] = {TG_REDUCE, TG_UPCAST, TG_LANE, TG_UNROLL, TG_REDUCE};
static const tg_kind in_order[] = {TG_REDUCE, TG_UNROLL};
#define KINDS(k) TG_COUNT(k), k

static node both(node a, node b) { return tg_and(j, a, b); }

static node matmul(const int64_t *params) {
  (void)params;
  int64_t m = 1 + pick(9), n = 1 + pick(9), k = 1 + pick(9);
  node A = GLOBAL("A", TG_ROLE_IN, TG_F32, I(m), I(k)), B = GLOBAL("B", TG_ROLE_IN, TG_F32, I(k), I(n)), C = GLOBAL("C", TG_ROLE_OUT, TG_F32, I(m), I(n));
  split_range si = split("i", m, KINDS(any)), sj = split("j", n, KINDS(any)), sk = split("k", k, KINDS(folding));
  node v = mul(LOAD_IF(A, both(si.gate, sk.gate), si.index, sk.index), LOAD_IF(B, both(sk.gate, sj.gate), sk.index, sj.index));
  node r = sum(TG_OP_ADD, v, sk.n, sk.part);
  const split_range *s[2] = {&si, &sj};
  node st = STORE(C, add(r, F(1)), both(si.gate, sj.gate), si.index, sj.index);
  return tg_sink(j, 4, (node[]){A, B, C, nest(1, &st, 2, s, true)});
}

/* A reduction over a thread range, whose result a second loop uses; and one that nothing encloses. */
static node whole_sum(const int64_t *params) {
  (void)params;
  int64_t n = 1 + pick(30), t = 1 + pick(5), m = 1 + pick(6);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(n * t)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(m));
  node rt = range_of("t", I(t), TG_THREAD);
  split_range sk = split("k", n, KINDS(folding)), si = split("i", m, KINDS(any));
  node ranges[4] = {rt, sk.part[0], sk.n > 1 ? sk.part[1] : NULL, sk.n > 2 ? sk.part[2] : NULL};
  node r = sum(pick(2) ? TG_OP_ADD : TG_OP_MAX, LOAD_IF(X, sk.gate, add(mul(rt, I(n)), sk.index)), 1 + sk.n, ranges);
  node st = STORE(Y, add(r, tg_cast(j, TG_F32, si.index)), si.gate, si.index);
  const split_range *s[1] = {&si};
  return tg_sink(j, 3, (node[]){X, Y, nest(1, &st, 1, s, true)});
}

/* Rows: a maximum, a sum over values less the maximum, and a statement that uses both in an inner loop. */
static node rows(const int64_t *params) {
  (void)params;
  int64_t m = 1 + pick(5), n = 1 + pick(9);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(m), I(n)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(m), I(n));
  split_range si = split("i", m, KINDS(any)), sj = split("j", n, KINDS(any)), sk = split("k", n, KINDS(folding)), sl = split("l", n, KINDS(folding));
  node top = sum(TG_OP_MAX, LOAD_IF(X, both(si.gate, sk.gate), si.index, sk.index), sk.n, sk.part);
  node rest = sub(LOAD_IF(X, both(si.gate, sl.gate), si.index, sl.index), top);
  node total = sum(TG_OP_ADD, sl.gate ? tg_op3(j, TG_OP_WHERE, sl.gate, rest, F(0)) : rest, sl.n, sl.part);
  node v = add(mul(sub(LOAD_IF(X, both(si.gate, sj.gate), si.index, sj.index), top), total), mul(total, F(3)));
  node st = STORE(Y, v, both(si.gate, sj.gate), si.index, sj.index);
  const split_range *outer[1] = {&si}, *inner[1] = {&sj};
  st = nest(1, &st, 1, inner, false);
  return tg_sink(j, 3, (node[]){X, Y, nest(1, &st, 1, outer, true)});
}

static node convolution(const int64_t *params) {
  (void)params;
  int64_t n = 1 + pick(12), w = 1 + pick(5);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(n + w - 1)), W = GLOBAL("W", TG_ROLE_IN, TG_F32, I(w)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(n));
  split_range si = split("i", n, KINDS(any)), sk = split("k", w, KINDS(folding));
  node r = sum(TG_OP_ADD, mul(LOAD_IF(X, both(si.gate, sk.gate), add(si.index, sk.index)), LOAD_IF(W, sk.gate, sk.index)), sk.n, sk.part);
  node st = STORE(Y, r, si.gate, si.index);
  const split_range *s[1] = {&si};
  return tg_sink(j, 4, (node[]){X, W, Y, nest(1, &st, 1, s, true)});
}

static node triangular(const int64_t *params) {
  (void)params;
  int64_t n = 1 + pick(9);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(n), I(n)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(n)), Z = GLOBAL("Z", TG_ROLE_OUT, TG_F32, I(n), I(n));
  split_range si = split("i", n, KINDS(copies));
  node clipped = si.gate ? tg_op3(j, TG_OP_WHERE, si.gate, si.index, I(0)) : si.index;
  node k = range_of("k", add(clipped, I(1)), TG_REDUCE), c = range_of("c", I(n), TG_LOOP), d = range_of("d", I(n), TG_LOOP), lower = range_of("d", clipped, TG_LOOP);
  node st[3] = {STORE(Y, sum(TG_OP_ADD, LOAD_IF(X, si.gate, si.index, k), 1, &k), si.gate, si.index), NULL, NULL};
  st[1] = STORE(Z, F(0), si.gate, si.index, c);
  st[1] = tg_end(j, c, 1, &st[1]);
  st[2] = STORE(Z, add(LOAD_IF(Y, si.gate, si.index), tg_cast(j, TG_F32, lower)), si.gate, si.index, lower);
  st[2] = tg_end(j, lower, 1, &st[2]);
  (void)d;
  const split_range *s[1] = {&si};
  return tg_sink(j, 4, (node[]){X, Y, Z, nest(3, st, 1, s, true)});
}

/* (value, place) of the largest, the lowest place of equals: a reduction of a tuple. */
static node argmax(const int64_t *params) {
  (void)params;
  int64_t m = 1 + pick(4), n = 1 + pick(12);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(m), I(n)), V = GLOBAL("V", TG_ROLE_OUT, TG_F32, I(m)), P = GLOBAL("P", TG_ROLE_OUT, TG_I32, I(m));
  split_range si = split("i", m, KINDS(any)), sk = split("k", n, KINDS(folding));
  node arg[4];
  for (int a = 0; a < 4; a++) arg[a] = tg_make(j, TG_OP_ARG, a & 1 ? TG_I32 : TG_F32, 1, a, 0, NULL);
  node later = tg_op2(j, TG_OP_LT, arg[0], arg[2]), equal = tg_op2(j, TG_OP_EQ, arg[0], arg[2]);
  node take = tg_op2(j, TG_OP_OR, later, tg_op2(j, TG_OP_AND, equal, tg_op2(j, TG_OP_LT, arg[3], arg[1])));
  node combined[2] = {tg_op3(j, TG_OP_WHERE, take, arg[2], arg[0]), tg_op3(j, TG_OP_WHERE, take, arg[3], arg[1])};
  node x = LOAD_IF(X, both(si.gate, sk.gate), si.index, sk.index);
  if (sk.gate) x = tg_op3(j, TG_OP_WHERE, sk.gate, x, F(-100));
  node values[2] = {x, tg_cast(j, TG_I32, sk.index)}, inits[2] = {F(-100), tg_const_int(j, TG_I32, 1000)};
  node r = tg_reduce(j, (tg_reduce_arg){.values = 2, .ranges = (uint8_t)sk.n, .generic = true}, values, inits, combined, sk.part);
  node st[2] = {STORE(V, tg_make(j, TG_OP_GET, TG_F32, 1, 0, 1, &r), si.gate, si.index), STORE(P, tg_make(j, TG_OP_GET, TG_I32, 1, 1, 1, &r), si.gate, si.index)};
  const split_range *s[1] = {&si};
  return tg_sink(j, 4, (node[]){X, V, P, nest(2, st, 1, s, true)});
}

/* Registers, a loop and shared LOCAL memory under lockstep ranges. */
static node lockstep(const int64_t *params) {
  (void)params;
  int64_t m = 1 + pick(8), n = 1 + pick(5);
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(m), I(n)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(m)), Z = GLOBAL("Z", TG_ROLE_OUT, TG_F32, I(m), I(n));
  static const tg_kind lock[] = {TG_UPCAST, TG_LANE, TG_LOCAL};
  node md = I(m), nd = I(n);
  node L = buffer("L", TG_SPACE_LOCAL, TG_ROLE_TEMP, TG_F32, 1, &md), acc = buffer("acc", TG_SPACE_REG, TG_ROLE_TEMP, TG_F32, 0, NULL), tile = buffer("tile", TG_SPACE_REG, TG_ROLE_TEMP, TG_F32, 1, &nd);
  node t = range_of("t", I(m), lock[pick(3)]), k = range_of("k", I(n), pick(2) ? TG_LOOP : TG_UNROLL), k2 = range_of("k", I(n), copies[pick(3)]), once = range_of("once", I(1 + pick(3)), TG_LOOP);
  node first = STORE(L, LOAD(X, t, I(0)), NULL, t), begin = STORE(acc, LOAD(L, sub(I(m - 1), t)), NULL, I(0));
  node step[2] = {STORE(tile, add(LOAD(acc, I(0)), LOAD(X, t, k)), NULL, k), STORE(acc, add(LOAD(acc, I(0)), mul(LOAD(X, t, k), F(2))), NULL, I(0))};
  node last = STORE(Z, LOAD(tile, k2), NULL, t, k2);
  node body[7] = {acc, tile, first, begin, tg_end(j, k, 2, step), tg_end(j, k2, 1, &last), STORE(Y, LOAD(acc, I(0)), NULL, t)};
  node par = tg_end(j, t, 7, body), outer[2] = {L, par};
  return tg_sink(j, 4, (node[]){X, Y, Z, tg_end(j, once, 2, outer)});
}

/* An order that must be kept: each element depends on the one before. */
static node prefix(const int64_t *params) {
  (void)params;
  int64_t n = 2 + pick(9);
  node X = GLOBAL("X", TG_ROLE_INOUT, TG_F32, I(n)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(n));
  node i = range_of("i", I(n - 1), copies[pick(3)]), next = add(i, I(1)), q = range_of("q", I(n), any[pick(5)]);
  node st = STORE(X, add(LOAD(X, i), LOAD(X, next)), NULL, next), copy = STORE(Y, LOAD(X, q), NULL, q);
  return tg_sink(j, 5, (node[]){X, Y, STORE(X, F(2), NULL, I(0)), tg_end(j, i, 1, &st), tg_end(j, q, 1, &copy)});
}

/* Indices from memory: a gather, and an atomic scatter. */
static node gather(const int64_t *params) {
  (void)params;
  int64_t n = 1 + pick(9), v = 1 + pick(5);
  node P = GLOBAL("P", TG_ROLE_IN, TG_I32, I(n)), X = GLOBAL("X", TG_ROLE_IN, TG_F32, I(v)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(n)), H = GLOBAL("H", TG_ROLE_INOUT, TG_I32, I(v));
  split_range si = split("i", n, KINDS(any));
  node at = min2(max2(tg_cast(j, TG_INDEX, LOAD_IF(P, si.gate, si.index)), I(0)), I(v - 1));
  node st[2] = {STORE(Y, LOAD_IF(X, si.gate, at), si.gate, si.index), tg_store(j, H, &at, tg_const_int(j, TG_I32, 1), si.gate, TG_ATOMIC)};
  const split_range *s[1] = {&si};
  return tg_sink(j, 5, (node[]){P, X, Y, H, nest(2, st, 1, s, true)});
}

/* Division of indices and of stored integers, by constants, by loads, by a parameter. */
static node divisions(const int64_t *params) {
  static const tg_type types[] = {TG_I32, TG_I8, TG_U8, TG_I64, TG_U32, TG_I16};
  tg_type type = types[pick(6)];
  int64_t n = 9, c = (int64_t)pick(17) - 8;
  (void)params;
  node A = GLOBAL("A", TG_ROLE_IN, type, I(n)), B = GLOBAL("B", TG_ROLE_IN, type, I(n)), Y = GLOBAL("Y", TG_ROLE_OUT, type, I(n), I(4)), Z = GLOBAL("Z", TG_ROLE_OUT, TG_I64, I(n), I(2));
  node M = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL), i = range_of("i", I(n), any[pick(7)]);
  node a = LOAD(A, i), b = pick(3) ? LOAD(B, i) : tg_const_int(j, type, c), x = sub(mul(i, I(3)), I(11)), d = pick(2) ? I(c) : sub(M, I((int64_t)pick(4)));
  static const tg_op ops[] = {TG_OP_IDIV, TG_OP_MOD, TG_OP_CDIV, TG_OP_CMOD};
  node st[6];
  for (int o = 0; o < 4; o++) st[o] = STORE(Y, tg_op2(j, ops[o], a, b), NULL, i, I(o));
  for (int o = 0; o < 2; o++) st[4 + o] = STORE(Z, tg_cast(j, TG_I64, tg_op2(j, ops[o], pick(2) ? x : i, d)), NULL, i, I(o));
  return tg_sink(j, 5, (node[]){A, B, Y, Z, tg_end(j, i, 6, st)});
}

/* A tile that a loop updates at elements which only outer loops choose: gated or not, beside statements that touch others of it. */
static node recurrence(const int64_t *params) {
  (void)params;
  int64_t rows = 1 + pick(3), columns = 1 + pick(4), outer = 1 + pick(3), steps = 1 + pick(4);
  node M = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL), dims[2] = {I(outer * rows), I(columns + 1)}, all = dims[0];
  node X = GLOBAL("X", TG_ROLE_IN, TG_F32, dims[0], dims[1]), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, dims[0], dims[1]);
  uint32_t idle = pick(4);   /* 0, 1: the loop over k, or one inside it, may not run, and then nothing is there to read */
  if (idle < 2) all = mul(min2(M, I(1)), all);
  node h = buffer("h", pick(2) ? TG_SPACE_REG : TG_SPACE_LOCAL, TG_ROLE_TEMP, TG_F32, 2, dims);
  node i = range_of("i", all, idle < 2 ? TG_LOOP : any[pick(5)]), c = range_of("c", dims[1], any[pick(5)]), p = range_of("p", all, TG_LOOP), q = range_of("q", dims[1], any[pick(3)]);
  node io = range_of("i.0", I(outer), TG_LOOP), ii = range_of("i.1", I(rows), any[1 + pick(4)]), k = range_of("k", idle ? I(steps) : M, TG_LOOP), e = range_of("e", M, TG_LOOP), cc = range_of("c", I(columns), any[1 + pick(4)]);
  node row = add(mul(io, I(rows)), ii), factor = tg_cast(j, TG_F32, sub(k, I(1))), init = STORE(h, LOAD(X, i, c), NULL, i, c), last = STORE(Y, LOAD(h, p, q), NULL, p, q);
  node gates[5] = {NULL, lt(io, I(1)), lt(row, I(2)), lt(k, I(2)), lt(LOAD(X, row, cc), F(1))}, gate = gates[pick(5)], st[3];
  uint32_t n = 0;
  if (!pick(4)) st[n++] = STORE(h, add(LOAD(h, io, I(0)), F(1)), NULL, io, I(0));
  node old = pick(2) ? LOAD(h, row, cc) : LOAD_IF(h, gate, row, cc);
  st[n++] = STORE(h, add(mul(old, pick(2) ? factor : F(-1)), LOAD(X, row, cc)), gate, row, cc);
  node column = add(cc, I(pick(2)));
  if (!pick(3)) st[n++] = STORE(h, sub(LOAD(h, row, column), F(1)), gates[pick(4)], row, column);
  for (uint32_t s = 0; s < n; s++)
    if (tg_uses(j, st[s], ii) || tg_uses(j, st[s], cc)) st[s] = tg_end(j, ii, 1, (node[]){tg_end(j, cc, 1, &st[s])});
  for (uint32_t s = 0; s < n; s++) {   /* loops of their own */
    node from[2] = {ii, cc}, to[2] = {range_of("i.1", I(rows), tg_range_kind(ii)), range_of("c", I(columns), tg_range_kind(cc))};
    if (s) st[s] = tg_substitute(j, st[s], 2, from, to);
  }
  if (idle == 1) st[0] = tg_end(j, e, n, st), n = 1;
  return tg_sink(j, 6, (node[]){X, Y, h, tg_end(j, i, 1, (node[]){tg_end(j, c, 1, &init)}), tg_end(j, io, 1, (node[]){tg_end(j, k, n, st)}),
                                tg_end(j, p, 1, (node[]){tg_end(j, q, 1, &last)})});
}

/* Run-time sizes, strides, a transposed access, a gate that only the parameter decides. */
static node symbolic(const int64_t *params) {
  (void)params;
  node M = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL), K = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 1, 0, NULL);
  node dims[2] = {I(4), I(6)}, strides[2] = {I(2), I(9)};
  node A = GLOBAL("A", TG_ROLE_IN, TG_F32, M, K);
  node S = tg_define(j, (tg_buffer){.name = "S", .role = TG_ROLE_IN, .rank = 2, .type = TG_F32}, 1, dims, strides, false);
  node C = GLOBAL("C", TG_ROLE_OUT, TG_F32, K, M);
  node io = range_of("i.0", tg_op2(j, TG_OP_IDIV, add(M, I(3)), I(4)), TG_LOOP), ii = range_of("i.1", I(4), any[pick(5)]), k = range_of("k", K, TG_LOOP), r = range_of("r", I(4), folding[pick(5)]);
  node i = add(mul(io, I(4)), ii), g = lt(i, M);
  node v = add(LOAD_IF(A, g, i, k), sum(TG_OP_ADD, LOAD(S, r, tg_op2(j, TG_OP_MOD, add(ii, k), I(6))), 1, &r));
  node st = STORE(C, v, g, k, i);
  st = tg_end(j, ii, 1, &st);
  st = pick(2) ? tg_end(j, k, 1, (node[]){tg_end(j, io, 1, &st)}) : tg_end(j, io, 1, (node[]){tg_end(j, k, 1, &st)});
  return tg_sink(j, 4, (node[]){A, S, C, st});
}

/* Vectors as expansion leaves them, and worse: subscripts in any order of their terms, lanes that cancel, one place for all lanes. */
static node lane_place(node base, node iota) {
  switch (pick(8)) {
  case 0: return add(base, iota);
  case 1: return add(mul(iota, I(2)), base);
  case 2: return sub(add(base, iota), iota);                       /* the same in all lanes */
  case 3: return sub(add(mul(iota, I(3)), base), mul(iota, I(3)));
  case 4: return add(sub(mul(iota, I(2)), iota), base);            /* adjacent */
  case 5: return add(sub(I(20), iota), base);
  case 6: return add(iota, sub(base, I(0)));
  default: return add(tg_op2(j, TG_OP_MOD, add(base, iota), I(5)), add(mul(base, I(2)), iota));
  }
}

static node vectors(const int64_t *params) {
  (void)params;
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MUL, TG_OP_MAX, TG_OP_MIN};
  uint32_t lanes = 2u << pick(3);
  node iota = tg_iota(j, TG_INDEX, lanes), i = range_of("i", I(5), TG_LOOP), base = add(mul(i, I(1 + (int)pick(2))), I((int)pick(4)));
  node A = GLOBAL("A", TG_ROLE_IN, TG_I32, I(80)), Y = GLOBAL("Y", TG_ROLE_OUT, TG_I32, I(5), I(16)), Z = GLOBAL("Z", TG_ROLE_OUT, TG_I32, I(5), I(3)), W = GLOBAL("W", TG_ROLE_INOUT, TG_I32, I(5), I(80));
  node st[8], one = tg_op2(j, TG_OP_EQ, iota, I(pick(lanes)));
  uint32_t n = 0;
  for (int k = 0; k < 3; k++) {
    node v = LOAD(A, lane_place(base, iota));
    if (pick(2)) v = add(v, tg_const_int(j, TG_I32, 3));
    st[n++] = STORE(Z, tg_make(j, TG_OP_FOLD, TG_I32, 1, ops[pick(4)], 1, &v), NULL, i, I(k));
    if (!k) st[n++] = STORE(Y, v, NULL, i, iota);
    else st[n++] = STORE(W, v, one, i, lane_place(base, iota));
  }
  return tg_sink(j, 5, (node[]){A, Y, Z, W, tg_end(j, i, n, st)});
}

/* Blocks of gathers, and what only looks like one: places in any order, some left out or taken twice, gates of the lanes and of single gathers, memory that is written between. */
static node blocks(const int64_t *params) {
  (void)params;
  uint32_t lanes = 2u << pick(3), column[20], n = 0, all = lanes + pick(4);
  node iota = tg_iota(j, TG_INDEX, lanes), i = range_of("i", I(3), TG_LOOP), dims[2] = {I(20), I(20)}, strides[2] = {I(1), I(23)};
  bool strided = pick(2), written = pick(3) == 0;
  node A = GLOBAL("A", TG_ROLE_INOUT, TG_F32, I(20), I(20)), S = tg_define(j, (tg_buffer){.name = "S", .role = TG_ROLE_IN, .rank = 2, .type = TG_F32}, 1, dims, strides, false);
  node Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(3), I(20), I(16)), st[64], half = lt(iota, I(1 + pick(lanes))), row = add(i, iota);
  for (uint32_t c = 0; c < all; c++) column[c] = pick(12) ? c : pick(all);
  for (uint32_t c = all; c-- > 1;) {
    uint32_t k = pick(3) ? c : pick(c + 1), x = column[c];
    column[c] = column[k], column[k] = x;
  }
  bool gated = pick(2);
  for (uint32_t c = 0; c < all; c++) {
    node place = add(i, I(column[c] % 17)), gate = gated != (pick(20) == 0) ? half : NULL;
    if (written && c == lanes / 2) st[n++] = STORE(A, F(5), NULL, add(i, I(pick(lanes))), add(i, I(column[pick(all)])));
    node v = strided ? LOAD_IF(S, gate, place, row) : LOAD_IF(A, gate, row, place);
    st[n++] = STORE(Y, pick(6) ? v : add(v, F(2)), NULL, i, I(c), iota);
  }
  return tg_sink(j, 4, (node[]){A, S, Y, tg_end(j, i, n, st)});
}

/* Arithmetic of 32 bits on what has at most 16, any of it, which ends as such again: pass types computes it in 16 where it
 * may. */
static node any_bytes(const node *leaf, uint32_t leaves, uint32_t depth) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_ADD, TG_OP_MUL, TG_OP_AND, TG_OP_OR, TG_OP_XOR, TG_OP_MIN, TG_OP_MAX,
                              TG_OP_IDIV, TG_OP_MOD, TG_OP_CDIV, TG_OP_CMOD, TG_OP_SHR, TG_OP_SHL, TG_OP_NEG, TG_OP_ABS, TG_OP_NOT, TG_OP_WHERE};
  if (!depth || !pick(5)) return pick(4) ? tg_cast(j, TG_I32, leaf[pick(leaves)]) : tg_const_int(j, TG_I32, pick(2) ? (int64_t)pick(300) - 40 : (int64_t)pick(70000));
  tg_op op = ops[pick(TG_COUNT(ops))];
  node a = any_bytes(leaf, leaves, depth - 1), b = any_bytes(leaf, leaves, depth - 1);
  if (op == TG_OP_NEG || op == TG_OP_ABS || op == TG_OP_NOT) return tg_op1(j, op, a);
  if (op == TG_OP_WHERE) return tg_op3(j, op, lt(a, b), b, any_bytes(leaf, leaves, depth - 1));
  if (op == TG_OP_SHR || op == TG_OP_SHL) b = tg_const_int(j, TG_I32, (int64_t)pick(20));
  if (op >= TG_OP_IDIV && op <= TG_OP_CMOD && pick(3)) b = tg_const_int(j, TG_I32, 1 + (int64_t)pick(400));
  return tg_op2(j, op, a, b);
}

static node bytes(const int64_t *params) {
  (void)params;
  static const tg_type types[] = {TG_U8, TG_I8, TG_U16, TG_I16};
  node i = range_of("i", I(16), TG_LANE), N = I(16), A = GLOBAL("A", TG_ROLE_IN, TG_U8, N), B = GLOBAL("B", TG_ROLE_IN, TG_I8, N), C = GLOBAL("C", TG_ROLE_IN, types[2 + pick(2)], N), D = GLOBAL("D", TG_ROLE_IN, TG_U8, N);
  tg_type to = types[pick(4)];
  node Y = GLOBAL("Y", TG_ROLE_OUT, to, N), leaf[4] = {LOAD(A, i), LOAD(D, i), LOAD(B, i), LOAD(C, i)}, v;
  uint32_t leaves = 2 + pick(3);
  if (pick(4)) v = any_bytes(leaf, leaves, 2 + pick(3));
  else {   /* a mean with weights, whose bound is at corners */
    node x = tg_cast(j, TG_I32, leaf[0]), w = tg_cast(j, TG_I32, leaf[1]), all = tg_const_int(j, TG_I32, 250 + (int64_t)pick(8));
    v = add(mul(x, w), mul(tg_cast(j, TG_I32, LOAD(A, sub(I(15), i))), sub(all, w)));
    v = tg_op2(j, pick(2) ? TG_OP_IDIV : TG_OP_SHR, add(v, tg_const_int(j, TG_I32, (int64_t)pick(600))), tg_const_int(j, TG_I32, pick(2) ? 8 : 9));
  }
  node st = STORE(Y, tg_cast(j, to, v), NULL, i);
  return tg_sink(j, 6, (node[]){A, B, C, D, Y, tg_end(j, i, 1, &st)});
}

/* The last column is there only where loop q runs: its gather is none of the others'. */
static node blocks_apart(const int64_t *params) {
  (void)params;
  node M = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL), iota = tg_iota(j, TG_INDEX, 4), A = GLOBAL("A", TG_ROLE_IN, TG_F32, I(7), M), Y = GLOBAL("Y", TG_ROLE_OUT, TG_F32, I(3), I(4), I(4)), st[4];
  node i = range_of("i", tg_op3(j, TG_OP_WHERE, lt(M, I(3)), I(0), I(3)), TG_LOOP), q = range_of("q", tg_op3(j, TG_OP_WHERE, lt(M, I(4)), I(0), I(1)), TG_LOOP);
  for (int c = 0; c < 4; c++) st[c] = STORE(Y, LOAD(A, add(i, iota), I(c)), NULL, i, I(c), iota);
  st[3] = tg_end(j, q, 1, &st[3]);
  return tg_sink(j, 3, (node[]){A, Y, tg_end(j, i, 4, st)});
}

static tg_target kit_target;

int main(int argc, char **argv) {
  uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
  kit_target = (tg_target){.vector_bytes = 64, .vector_registers = 32, .fma = true, .prefer_i64_address = true, .lanes = 1};
  kit_lowering = (tg_lowering){.target = &kit_target, .verify = true};
  static const struct { const char *name; build_fn *build; const char *first; } cases[] = {
    {"matmul", matmul, NULL}, {"whole sum", whole_sum, NULL}, {"rows", rows, NULL}, {"convolution", convolution, NULL}, {"triangular", triangular, NULL},
    {"argmax", argmax, NULL}, {"lockstep", lockstep, NULL}, {"prefix", prefix, NULL}, {"gather", gather, NULL}, {"divisions", divisions, NULL}, {"symbolic", symbolic, NULL},
    {"bytes", bytes, NULL}, {"recurrence", recurrence, NULL}, {"vectors", vectors, "coalesce"}, {"blocks", blocks, "coalesce"}, {"blocks apart", blocks_apart, "coalesce"},
  };
  (void)in_order;
  for (size_t c = 0; c < TG_COUNT(cases); c++)
    for (uint64_t s = argc > 2 ? seeds : 0; s < (argc > 2 ? seeds + 1 : seeds); s++) {
      if (argc > 2 && strcmp(argv[2], cases[c].name)) continue;
      int64_t params[2] = {(int64_t)(s % 7), (int64_t)(s % 5) + 1};
      kit_target.prefer_i64_address = s % 3 != 0;
      kit_target.vector_registers = s % 4 ? 32 : 4;
      kit_check(cases[c].name, cases[c].build, cases[c].first, params, s);
    }
  return TEST_END();
}
