/* SPDX-License-Identifier: MIT
 * `fast`: the fast functions (docs/functions.md) in place of exp, exp2, rsqrt, tanh and quotients of f32 and narrower
 * floats. exp(x) becomes fast_exp2(x * log2 e), and a / b becomes a * fast_rcp(b). */
#include "dsl/functions.h"
#include "schedule/opt.h"

enum { ALL, EXP, DIVIDE, RSQRT, TANH };   /* as in opts.def */

typedef struct { int64_t which; uint32_t found; } quickening;

static bool wanted(quickening *q, int64_t which) {
  bool is = q->which == ALL || q->which == which;
  q->found += is;
  return is;
}

static const tg_uop *quick(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  quickening *q = user;
  if (!tg_is_float(old->type) || old->type == TG_F64) return NULL;
  switch (old->op) {
  case TG_OP_EXP2: return wanted(q, EXP) ? tg_op1(j, TG_OP_FAST_EXP2, src[0]) : NULL;
  case TG_OP_EXP: {
    if (!wanted(q, EXP)) return NULL;
    const tg_uop *log2_e = tg_const_float(j, TG_F32, 1.4426950408889634);
    const tg_uop *x = tg_op2(j, TG_OP_MUL, tg_cast(j, TG_F32, src[0]), log2_e);
    return tg_cast(j, old->type, tg_op1(j, TG_OP_FAST_EXP2, x));
  }
  case TG_OP_FDIV: {
    if (old->src[1]->op == TG_OP_CONST || !wanted(q, DIVIDE)) return NULL;
    const tg_uop *r = tg_op1(j, TG_OP_FAST_RCP, tg_cast(j, TG_F32, src[1]));
    return tg_cast(j, old->type, tg_op2(j, TG_OP_MUL, tg_cast(j, TG_F32, src[0]), r));
  }
  case TG_OP_RSQRT: return wanted(q, RSQRT) ? tg_op1(j, TG_OP_FAST_RSQRT, src[0]) : NULL;
  case TG_OP_TANH: return wanted(q, TANH) ? tg_op1(j, TG_OP_FAST_TANH, src[0]) : NULL;
  default: return NULL;
  }
}

void tg_opt_fast(tg_schedule *s, const tg_opt *o) {
  static const char *const what[] = {"no function of f32 or narrower floats", "no exp or exp2 of f32",
                                     "no quotient of f32 by what varies", "no rsqrt of f32", "no tanh of f32"};
  quickening q = {o->number[0], 0};
  s->sink = tg_map(s->j, s->sink, quick, NULL, &q);
  if (!q.found) tg_fail_at(s->j, o->pos, "fast: the kernel has %s", what[o->number[0]]);
}
