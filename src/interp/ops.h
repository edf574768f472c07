/* SPDX-License-Identifier: MIT
 * Fast paths for common ops on scalars (tg_code_kind C_FADD to C_CMOD); dsl/value.h implements all ops. */
#ifndef TG_INTERP_OPS_H
#define TG_INTERP_OPS_H
#include <math.h>
#include "interp/code.h"

TG_NORETURN static inline void fail_value(tg_interpreter *m, const tg_instr *x) {
  tg_machine_fail(m, "'%s' passes 128 bits, or has no value at %s", tg_ops[x->op].name, tg_type_name[x->from]);
}

/* Is |v| about 2^120 or more? */
static inline bool far(tg_i128 v) { return (uint64_t)((int64_t)(v >> 64) + ((int64_t)1 << 56)) >> 57 != 0; }

/* Do both fit 64 bits, and the quotient too? */
static inline bool narrow(tg_i128 a, tg_i128 b) {
  return a == (int64_t)a && b == (int64_t)b && b && (int64_t)a != INT64_MIN;
}

static inline tg_i128 checked(tg_interpreter *m, const tg_instr *x, tg_i128 v) {
  if (far(v)) fail_value(m, x);
  return v;
}

/* Runs a common op, with the table's meaning. False: it must be done by the table. */
__attribute__((always_inline)) static inline bool at_once(tg_interpreter *m, const tg_instr *x, tg_value a, tg_value b,
                                                          tg_value c, tg_value *d) {
  switch (x->code) {
  case C_FADD: d->f = (float)(a.f + b.f); return true;
  case C_FSUB: d->f = (float)(a.f - b.f); return true;
  case C_FMUL: d->f = (float)(a.f * b.f); return true;
  case C_FMA: d->f = fmaf((float)a.f, (float)b.f, (float)c.f); return true;
  case C_DMA: d->f = fma(a.f, b.f, c.f); return true;
  case C_IADD: d->i = checked(m, x, a.i + b.i); return true;
  case C_ISUB: d->i = checked(m, x, a.i - b.i); return true;
  case C_IMUL:
    if (a.i != (int64_t)a.i || b.i != (int64_t)b.i) return false;
    d->i = checked(m, x, a.i * b.i);
    return true;
  case C_WADD: d->i = tg_wrap(x->type, a.i + b.i); return true;
  case C_WSUB: d->i = tg_wrap(x->type, a.i - b.i); return true;
  case C_WMUL: d->i = tg_wrap(x->type, (tg_i128)((uint64_t)a.i * (uint64_t)b.i)); return true;
  case C_AND: d->i = a.i & b.i; return true;
  case C_OR: d->i = a.i | b.i; return true;
  case C_MIN: d->i = a.i < b.i ? a.i : b.i; return true;
  case C_MAX: d->i = a.i > b.i ? a.i : b.i; return true;
  case C_LT: d->i = a.i < b.i; return true;
  case C_LE: d->i = a.i <= b.i; return true;
  case C_EQ: d->i = a.i == b.i; return true;
  case C_NE: d->i = a.i != b.i; return true;
  case C_WHERE: *d = a.i ? b : c; return true;
  case C_IDIV: case C_MOD: case C_CDIV: case C_CMOD: {
    if (!narrow(a.i, b.i)) return false;
    int64_t n = (int64_t)a.i, by = (int64_t)b.i, r = n % by;
    bool below = (x->code == C_IDIV || x->code == C_MOD) && r && (r < 0) != (by < 0);
    d->i = x->code == C_IDIV || x->code == C_CDIV ? tg_wrap(x->type, n / by - below) : below ? r + by : r;
    return true;
  }
  default: return false;
  }
}
#endif
