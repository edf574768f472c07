/* SPDX-License-Identifier: MIT
 * The value of an expression over ARG, PARAM and RANGE leaves, from the opcode table alone: what rewrites are held to. */
#ifndef TG_TEST_EVALUATE_H
#define TG_TEST_EVALUATE_H
#include <stdlib.h>
#include "ranges/ranges.h"

typedef struct { tg_value arg[8], param[8], range[8]; } leaves;

/* Nodes with their sources first, to be evaluated often; kept on the heap, for tests make many. */
typedef struct { uint32_t n; const tg_uop **order; tg_value *value; uint32_t (*src)[3]; } program;

static inline void program_drop(program *p) {
  free(p->value);
  free(p->src);
}

static inline program program_of(tg_job *j, const tg_uop *u) {
  program p;
  p.order = tg_toposort(j, u, &p.n);
  p.value = malloc(p.n * sizeof *p.value);
  p.src = malloc(p.n * sizeof *p.src);
  for (uint32_t i = 0; i < p.n; i++)
    for (uint32_t s = 0; s < p.order[i]->n && s < 3; s++) {
      uint32_t k = i;
      while (p.order[k] != p.order[i]->src[s]) k--;
      p.src[i][s] = k;
    }
  return p;
}

/* False if some op has no value. */
static inline bool run_program(const program *p, const leaves *at, tg_value *v) {
  tg_value *value = p->value;
  for (uint32_t i = 0; i < p->n; i++) {
    const tg_uop *u = p->order[i];
    tg_value a[3] = {{0}, {0}, {0}};
    for (uint32_t s = 0; s < u->n && s < 3; s++) a[s] = value[p->src[i][s]];
    bool ok = true;
    switch (u->op) {
    case TG_OP_CONST: value[i] = tg_value_of(u); break;
    case TG_OP_ARG: value[i] = at->arg[u->arg]; break;
    case TG_OP_PARAM: value[i] = at->param[u->arg]; break;
    case TG_OP_RANGE: value[i] = at->range[tg_range_ordinal(u)]; break;
    case TG_OP_CAST: ok = tg_convert(u->type, u->src[0]->type, a[0], &value[i]); break;
    case TG_OP_BITCAST: ok = tg_reinterpret(u->type, u->src[0]->type, a[0], &value[i]); break;
    default: ok = tg_evaluate(u->op, u->type, u->src[u->n - 1]->type, a, &value[i]);
    }
    if (!ok) return false;
  }
  *v = value[p->n - 1];
  return true;
}

static inline bool same_value(tg_type t, tg_value a, tg_value b) {
  if (!tg_is_float(t)) return a.i == b.i;
  return a.f != a.f ? b.f != b.f : a.f == b.f && !__builtin_signbit(a.f) == !__builtin_signbit(b.f);
}

static inline uint64_t next_random(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = *s;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static inline uint32_t below(uint64_t *s, uint32_t n) { return (uint32_t)(next_random(s) >> 33) % n; }

/* Values at which arithmetic goes wrong first. */
static inline tg_value boundary(tg_type t, uint64_t *s) {
  static const double f[] = {0, -0.0, 1, -1, 2, 0.5, 3, -7, 1e-45, -1e-45, 1.17549435e-38, 3.4028234e38, -3.4028234e38, 1e308, -1e308, 5e-324, 65504, 448, 1.5, 2.5, -0.5};
  static const int64_t i[] = {0, 1, -1, 2, -2, 3, 5, 7, -7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 255, 256, 65535, 1 << 20, INT32_MAX, INT32_MIN, (int64_t)1 << 40};
  tg_value v = {0};
  if (tg_is_float(t)) {
    uint32_t k = below(s, TG_COUNT(f) + 4);
    v.f = k < TG_COUNT(f) ? tg_round_to(t, f[k]) : k == TG_COUNT(f) ? __builtin_inf() : k == TG_COUNT(f) + 1 ? -__builtin_inf() : k == TG_COUNT(f) + 2 ? __builtin_nan("") : tg_round_to(t, (double)(int64_t)next_random(s) * 1e-18);
    if (t == TG_E4M3) v.f = tg_round_to(t, v.f);
    return v;
  }
  uint32_t k = below(s, TG_COUNT(i) + 3);
  int bits = tg_type_bits(t);
  if (k < TG_COUNT(i)) v.i = i[k];
  else if (k == TG_COUNT(i)) v.i = t == TG_INDEX ? (int64_t)next_random(s) >> 20 : (tg_i128)next_random(s);
  else if (bits) v.i = k == TG_COUNT(i) + 1 ? (tg_i128)1 << (bits - 1) : ((tg_i128)1 << (bits - 1)) - 1;
  v.i = tg_wrap(t, v.i);
  return v;
}
#endif
