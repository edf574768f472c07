/* SPDX-License-Identifier: MIT
 * Values: leaves, lanewise ops, FOLD. Every op gives exactly the bits that the opcode table defines, for every input.
 * So shifts, divisions, conversions and extrema are written out wherever LLVM's own instructions leave cases undefined.
 * No fast-math flags are used, and no value is ever poison. */
#include <math.h>
#include "dsl/value.h"
#include "jit/emit.h"

/* Notes that a vector is wider than a register. Masks do not count: they are cut like the values that they are for. */
static void measure(tg_emitter *e, tg_type t, uint32_t lanes) {
  uint64_t bytes = t == TG_INDEX ? 8 : t == TG_BOOL ? 0 : (uint64_t)tg_type_bytes(t);
  e->uncut |= lanes > 1 && bytes * lanes > e->target->vector_bytes;
}

LLVMTypeRef tg_emit_type(tg_emitter *e, tg_type t, uint32_t lanes) {
  LLVMTypeRef s = t == TG_F64     ? e->twice
                  : t == TG_F32   ? e->single
                  : t == TG_F16   ? e->half
                  : t == TG_INDEX ? e->integer[64]
                                  : e->integer[tg_type_bits(t)];
  if (e->tasks && t == TG_F64) tg_tasks_need_f64(e);
  measure(e, t, lanes);
  return lanes == 1 ? s : LLVMVectorType(s, lanes);
}

LLVMTypeRef tg_emit_memory_type(tg_emitter *e, tg_type t, uint32_t lanes) {
  return tg_emit_type(e, t == TG_BOOL ? TG_U8 : t, lanes);
}

/* ---- placing and sharing ---- */

LLVMBasicBlockRef tg_emit_at(tg_emitter *e, uint32_t depth) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  if (depth < e->depth) LLVMPositionBuilderBefore(e->b, e->before[depth]);
  return here;
}

/* here: the block that was being filled. If it already ends in a branch, code is added before that. */
void tg_emit_back(tg_emitter *e, LLVMBasicBlockRef here) {
  if (LLVMGetInsertBlock(e->b) == here) return;
  LLVMValueRef end = LLVMGetBasicBlockTerminator(here);
  if (end) LLVMPositionBuilderBefore(e->b, end);
  else LLVMPositionBuilderAtEnd(e->b, here);
}

static uint32_t bucket(const void *a, const void *b) {
  uint64_t h = tg_mix((uint64_t)(uintptr_t)a, (uint64_t)(uintptr_t)b);
  return (uint32_t)(h >> 20) & 1023;
}

LLVMValueRef tg_emit_memo_get(tg_emitter *e, const void *a, const void *b) {
  for (uint32_t i = e->buckets[bucket(a, b)]; i; i = e->memos.data[i - 1].next)
    if (e->memos.data[i - 1].a == a && e->memos.data[i - 1].b == b) return e->memos.data[i - 1].v;
  return NULL;
}

void tg_emit_memo_set(tg_emitter *e, const void *a, const void *b, LLVMValueRef v, uint32_t depth) {
  uint32_t h = bucket(a, b);
  tg_push(&e->j->env, &e->memos, ((emit_memo){a, b, v, depth, e->buckets[h]}));
  e->buckets[h] = e->memos.n;
}

/* At the end of a loop: forgets the values that were made in it (after `from`, at this depth or deeper), since they do
 * not dominate the code that follows. */
void tg_emit_memo_drop(tg_emitter *e, uint32_t from, uint32_t depth) {
  for (uint32_t i = e->memos.n; i > from; i--) {
    emit_memo *m = &e->memos.data[i - 1];
    if (m->depth < depth) continue;
    uint32_t *link = &e->buckets[bucket(m->a, m->b)];
    while (*link && *link != i) link = &e->memos.data[*link - 1].next;
    if (*link) *link = m->next;
    m->depth = 0;
  }
}

/* ---- leaves ---- */

LLVMValueRef tg_emit_zero(tg_emitter *e, tg_type t, uint32_t lanes) { return LLVMConstNull(tg_emit_type(e, t, lanes)); }

LLVMValueRef tg_emit_bits(tg_emitter *e, tg_type t, uint64_t bits) {
  LLVMTypeRef type = tg_emit_type(e, t, 1);
  unsigned width = t == TG_INDEX ? 64 : (unsigned)tg_type_bits(t);
  LLVMValueRef v = LLVMConstInt(e->integer[width], bits, 0);
  return t == TG_F16 || t == TG_F32 || t == TG_F64 ? LLVMConstBitCast(v, type) : v;
}

LLVMValueRef tg_emit_splat(tg_emitter *e, LLVMValueRef v, uint32_t lanes, uint32_t depth) {
  if (lanes == 1) return v;
  static const char splats[64];
  const void *key = lanes < 64 ? (const void *)&splats[lanes] : (const void *)LLVMVectorType(e->integer[1], lanes);
  LLVMValueRef s = tg_emit_memo_get(e, v, key);
  if (s) return s;
  if (LLVMIsConstant(v)) {
    LLVMValueRef *all = tg_new(&e->j->env, LLVMValueRef, lanes);
    for (uint32_t i = 0; i < lanes; i++) all[i] = v;
    s = LLVMConstVector(all, lanes);
    depth = 0;
  } else {
    LLVMBasicBlockRef here = tg_emit_at(e, depth);
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(v), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(type), v, LLVMConstInt(e->integer[32], 0, 0), "");
    s = LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(type), LLVMConstNull(LLVMVectorType(e->integer[32], lanes)),
                               "");
    tg_emit_back(e, here);
  }
  tg_emit_memo_set(e, v, key, s, depth);
  return s;
}

static LLVMValueRef iota(tg_emitter *e, const tg_uop *u) {
  LLVMValueRef *all = tg_new(&e->j->env, LLVMValueRef, u->lanes);
  for (uint32_t i = 0; i < u->lanes; i++) all[i] = tg_emit_bits(e, u->type, i);
  return u->lanes == 1 ? all[0] : LLVMConstVector(all, u->lanes);
}

static LLVMValueRef param(tg_emitter *e, const tg_uop *u) {
  LLVMBasicBlockRef here = tg_emit_at(e, 0);
  LLVMValueRef at = LLVMConstInt(e->integer[64], (uint64_t)u->arg, 0), v;
  if (e->tasks) v = tg_tasks_param(e, (uint32_t)u->arg);
  else if (e->device) v = tg_device_param(e, (uint32_t)u->arg);
  else {
    v = LLVMBuildLoad2(e->b, e->integer[64], LLVMBuildGEP2(e->b, e->integer[64], e->params_arg, &at, 1, ""),
                       e->j->params.data[u->arg].name);
    LLVMSetMetadata(v, e->invariant_kind, LLVMMetadataAsValue(e->c, e->empty_node));
  }
  if (u->type != TG_INDEX && tg_type_bits(u->type) < 64) v = LLVMBuildTrunc(e->b, v, tg_emit_type(e, u->type, 1), "");
  tg_emit_back(e, here);
  return v;
}

static LLVMValueRef leaf(tg_emitter *e, const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CONST: return tg_emit_bits(e, u->type, tg_value_bits(u->type, tg_value_of(u)));
  case TG_OP_IOTA: return iota(e, u);
  case TG_OP_PARAM: return param(e, u);
  default: return NULL;
  }
}

static emit_value *found(tg_emitter *e, const tg_uop *u) {
  emit_value *v = &e->values[u->id];
  if (v->stamp == e->stamp) return v;  /* if it was put off, v->v is NULL */
  LLVMValueRef l = leaf(e, u);
  if (!l) tg_bug(&e->j->env, "linear form: %%%u, a %s, is used before it is computed", u->id, tg_ops[u->op].name);
  *v = (emit_value){l, e->stamp, 0, 0};
  return v;
}

bool tg_emit_put_off(tg_emitter *e, const tg_uop *u) {
  enum { LONGEST = 64 };
  if ((u->op != TG_OP_ADD && u->op != TG_OP_SUB && u->op != TG_OP_MUL) || (u->type != TG_I64 && u->type != TG_I32))
    return false;
  uint16_t chain = 0;
  for (uint32_t i = 0; i < 2; i++) {
    emit_value *v = found(e, u->src[i]);
    if (!v->v && v->chain > chain) chain = v->chain;
  }
  if (chain >= LONGEST) return false;
  e->values[u->id] = (emit_value){NULL, e->stamp, (uint16_t)e->depth, (uint16_t)(chain + 1)};
  return true;
}

/* Emits a value that was put off: its operands first (chains are short, so recursion is safe), then itself, at the loop
 * depth that it belongs to. */
static LLVMValueRef made(tg_emitter *e, const tg_uop *u, emit_value *v) {
  if (v->v) return v->v;
  if (u->op == TG_OP_LOAD) return tg_emit_words_now(e, u);   /* in each place where it is used */
  for (uint32_t i = 0; i < u->n; i++) made(e, u->src[i], found(e, u->src[i]));
  LLVMBasicBlockRef here = tg_emit_at(e, v->depth);
  v->v = tg_emit_alu(e, u);
  tg_emit_back(e, here);
  tg_push(&e->j->env, &e->made, u->id);
  return v->v;
}

uint32_t tg_emit_depth(tg_emitter *e, const tg_uop *u) { return found(e, u)->depth; }

LLVMValueRef tg_emit_get(tg_emitter *e, const tg_uop *u, uint32_t lanes) {
  LLVMValueRef v = tg_emit_raw(e, u, lanes);
  return tg_emit_is_tile(v) ? tg_emit_elements(e, v, tg_emit_type(e, u->type, lanes)) : v;
}

LLVMValueRef tg_emit_raw(tg_emitter *e, const tg_uop *u, uint32_t lanes) {
  emit_value *v = found(e, u);
  LLVMValueRef now = made(e, u, v);
  measure(e, u->type, lanes);
  if (u->lanes == lanes) return now;
  if (u->lanes != 1) tg_bug(&e->j->env, "linear form: a value of %u lanes where %u are wanted", u->lanes, lanes);
  return tg_emit_splat(e, now, lanes, v->depth);
}

/* ---- intrinsics ---- */

LLVMValueRef tg_emit_call(tg_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *args, unsigned n) {
  emit_intrinsic *set = &e->intrinsics[(tg_mix((uint64_t)(uintptr_t)name, (uint64_t)(uintptr_t)overload) >> 16) %
                                       TG_COUNT(e->intrinsics)],
                 made;
  if (set->name != name || set->type != overload) { /* the entry is empty, or of another intrinsic */
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    made = (emit_intrinsic){.name = name, .type = overload, .fn = LLVMGetIntrinsicDeclaration(e->m, id, &overload, 1)};
    made.fn_type = LLVMGlobalGetValueType(made.fn);
    *set = made;
  }
  return LLVMBuildCall2(e->b, set->fn_type, set->fn, args, n, "");
}

static LLVMValueRef call1(tg_emitter *e, const char *name, LLVMValueRef a) {
  return tg_emit_call(e, name, LLVMTypeOf(a), &a, 1);
}
static LLVMValueRef call2(tg_emitter *e, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef args[2] = {a, b};
  return tg_emit_call(e, name, LLVMTypeOf(a), args, 2);
}

static LLVMValueRef all_ones(LLVMTypeRef t) { return LLVMConstAllOnes(t); }

static LLVMValueRef number(tg_emitter *e, tg_type t, uint32_t lanes, uint64_t v) {
  return tg_emit_splat(e, tg_emit_bits(e, t, v), lanes, 0);
}

/* ---- integers ---- */

static LLVMValueRef equals(tg_emitter *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(e->b, LLVMIntEQ, a, b, "");
}

/* a / b, or (rest) a % b, rounded toward 0. Where b is 0 the result is 0; a / -1 wraps. known: b is a constant other
 * than 0 and -1. */
static LLVMValueRef divide(tg_emitter *e, bool rest, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b,
                           bool known) {
  bool is_signed = tg_is_signed(t);
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef zero = LLVMConstNull(type), one = number(e, t, lanes, 1), bad = NULL, minus = NULL, d = b;
  if (!known) {
    bad = equals(e, b, zero);
    if (is_signed) {
      minus = equals(e, b, all_ones(type));
      d = LLVMBuildSelect(e->b, LLVMBuildOr(e->b, bad, minus, ""), one, b, "");
    } else d = LLVMBuildSelect(e->b, bad, one, b, "");
  }
  LLVMValueRef r = rest ? is_signed ? LLVMBuildSRem(e->b, a, d, "") : LLVMBuildURem(e->b, a, d, "")
                        : is_signed ? LLVMBuildSDiv(e->b, a, d, "") : LLVMBuildUDiv(e->b, a, d, "");
  if (known || rest) return r; /* where b is 0 or -1, d is 1 and the remainder 0 */
  if (minus) r = LLVMBuildSelect(e->b, minus, LLVMBuildNeg(e->b, a, ""), r, "");
  return LLVMBuildSelect(e->b, bad, zero, r, "");
}

/* The same, rounded toward minus infinity. */
static LLVMValueRef floor_divide(tg_emitter *e, bool rest, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b,
                                 bool known) {
  if (!tg_is_signed(t)) return divide(e, rest, t, lanes, a, b, known);
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a)), r = divide(e, true, t, lanes, a, b, known);
  LLVMValueRef off = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntNE, r, zero, ""),
                                  LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, r, b, ""), zero, ""), "");
  if (rest) return LLVMBuildAdd(e->b, r, LLVMBuildSelect(e->b, off, b, zero, ""), "");
  LLVMValueRef q = divide(e, false, t, lanes, a, b, known);
  return LLVMBuildAdd(e->b, q, LLVMBuildSExt(e->b, off, LLVMTypeOf(a), ""), "");
}

static LLVMValueRef shift(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b,
                          const tg_uop *count) {
  uint64_t bits = t == TG_INDEX ? 64 : (uint64_t)tg_type_bits(t);
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a)), last = number(e, t, lanes, bits - 1);
  bool arithmetic = op == TG_OP_SHR && tg_is_signed(t),
       safe = count && count->op == TG_OP_CONST && count->arg >= 0 && (uint64_t)count->arg < bits;
  LLVMValueRef inside = safe ? NULL : LLVMBuildICmp(e->b, LLVMIntULE, b, last, "");
  LLVMValueRef n = safe ? b : LLVMBuildSelect(e->b, inside, b, arithmetic ? last : zero, "");
  LLVMValueRef r = op == TG_OP_SHL ? LLVMBuildShl(e->b, a, n, "")
                   : arithmetic    ? LLVMBuildAShr(e->b, a, n, "")
                                   : LLVMBuildLShr(e->b, a, n, "");
  return safe || arithmetic ? r : LLVMBuildSelect(e->b, inside, r, zero, "");
}

static LLVMValueRef narrow_op2(tg_emitter *e, tg_op op, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), wide = LLVMInt32TypeInContext(e->c);
  a = LLVMBuildZExt(e->b, a, wide, "");
  b = LLVMBuildZExt(e->b, b, wide, "");
  return LLVMBuildTrunc(e->b, op == TG_OP_AND ? LLVMBuildAnd(e->b, a, b, "") : LLVMBuildLShr(e->b, a, b, ""), type, "");
}

/* Four bytes of a vector are one register of a GPU: bitwise operations, and shifts by one constant, of all at once.
 * NULL: it is no such operation. */
static LLVMValueRef bytes_op2(tg_emitter *e, tg_op op, uint32_t lanes, LLVMValueRef a, LLVMValueRef b,
                              const tg_uop *right) {
  uint64_t by = op == TG_OP_SHR && right && right->op == TG_OP_CONST ? (uint64_t)right->arg : 8;
  if ((op != TG_OP_AND && op != TG_OP_OR && op != TG_OP_XOR && op != TG_OP_SHR) || lanes % 4) return NULL;
  if (op == TG_OP_SHR && by > 7) return NULL;
  LLVMTypeRef type = LLVMTypeOf(a), words = lanes == 4 ? e->integer[32] : LLVMVectorType(e->integer[32], lanes / 4);
  a = LLVMBuildBitCast(e->b, a, words, "");
  b = LLVMBuildBitCast(e->b, b, words, "");
  if (op == TG_OP_SHR) {
    LLVMValueRef n = tg_emit_splat(e, LLVMConstInt(e->integer[32], by, 0), lanes / 4, 0),
                 mask = tg_emit_splat(e, LLVMConstInt(e->integer[32], 0x01010101u * (0xffu >> by), 0), lanes / 4, 0);
    a = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, a, n, ""), mask, "");
  } else a = op == TG_OP_AND ? LLVMBuildAnd(e->b, a, b, "")
             : op == TG_OP_OR ? LLVMBuildOr(e->b, a, b, "")
                              : LLVMBuildXor(e->b, a, b, "");
  return LLVMBuildBitCast(e->b, a, type, "");
}

static LLVMValueRef integer_op2(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b,
                                const tg_uop *right) {
  bool s = tg_is_signed(t), known = right && right->op == TG_OP_CONST && right->arg != 0 && !(s && right->arg == -1);
  /* A GPU's registers have 32 bits: what picks bits out of bytes stays in them, without moves to narrower ones. */
  if (e->device && lanes == 1 && !s && t != TG_BOOL && t != TG_INDEX && tg_type_bits(t) < 32 && right &&
      right->op == TG_OP_CONST && (op == TG_OP_AND || (op == TG_OP_SHR && right->arg < tg_type_bits(t))))
    return narrow_op2(e, op, a, b);
  if (e->device && lanes > 1 && t == TG_U8) {
    LLVMValueRef v = bytes_op2(e, op, lanes, a, b, right);
    if (v) return v;
  }
  switch (op) {
  case TG_OP_ADD: return LLVMBuildAdd(e->b, a, b, "");
  case TG_OP_SUB: return LLVMBuildSub(e->b, a, b, "");
  case TG_OP_MUL: return LLVMBuildMul(e->b, a, b, "");
  case TG_OP_CDIV: return divide(e, false, t, lanes, a, b, known);
  case TG_OP_CMOD: return divide(e, true, t, lanes, a, b, known);
  case TG_OP_IDIV: return floor_divide(e, false, t, lanes, a, b, known);
  case TG_OP_MOD: return floor_divide(e, true, t, lanes, a, b, known);
  case TG_OP_MAX: return t == TG_BOOL ? LLVMBuildOr(e->b, a, b, "") : call2(e, s ? "llvm.smax" : "llvm.umax", a, b);
  case TG_OP_MIN: return t == TG_BOOL ? LLVMBuildAnd(e->b, a, b, "") : call2(e, s ? "llvm.smin" : "llvm.umin", a, b);
  case TG_OP_AND: return LLVMBuildAnd(e->b, a, b, "");
  case TG_OP_OR: return LLVMBuildOr(e->b, a, b, "");
  case TG_OP_XOR: return LLVMBuildXor(e->b, a, b, "");
  case TG_OP_SHL: case TG_OP_SHR: return shift(e, op, t, lanes, a, b, right);
  case TG_OP_LT: return LLVMBuildICmp(e->b, s ? LLVMIntSLT : LLVMIntULT, a, b, "");
  case TG_OP_LE: return LLVMBuildICmp(e->b, s ? LLVMIntSLE : LLVMIntULE, a, b, "");
  case TG_OP_EQ: return equals(e, a, b);
  case TG_OP_NE: return LLVMBuildICmp(e->b, LLVMIntNE, a, b, "");
  default: return NULL;
  }
}

/* Quotients and roots of f16 on a GPU, whose own instructions do not always give the nearest value. f32 has enough bits
 * that the second rounding changes nothing. */
static LLVMValueRef by_single(tg_emitter *e, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef single = tg_emit_type(e, TG_F32, lanes);
  LLVMValueRef x = LLVMBuildFPExt(e->b, a, single, "");
  x = b ? LLVMBuildFDiv(e->b, x, LLVMBuildFPExt(e->b, b, single, ""), "") : call1(e, "llvm.sqrt", x);
  return LLVMBuildFPTrunc(e->b, x, LLVMTypeOf(a), "");
}

/* x of x + 0; NULL: it is no such sum. */
static LLVMValueRef beside_zero(LLVMValueRef v) {
  if (!LLVMIsABinaryOperator(v) || LLVMGetInstructionOpcode(v) != LLVMFAdd) return NULL;
  for (unsigned i = 0; i < 2; i++)
    if (LLVMIsConstant(LLVMGetOperand(v, i)) && LLVMIsNull(LLVMGetOperand(v, i))) return LLVMGetOperand(v, 1 - i);
  return NULL;
}

/* (x + 0) + (y + 0) is (x + y) + 0, for all x and y, -0 among them: accumulators that got one term each. */
static LLVMValueRef device_sum(tg_emitter *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef x = beside_zero(a), y = beside_zero(b);
  if (!x || !y) return LLVMBuildFAdd(e->b, a, b, "");
  return LLVMBuildFAdd(e->b, LLVMBuildFAdd(e->b, x, y, ""), LLVMConstNull(LLVMTypeOf(a)), "");
}

static LLVMValueRef float_op2(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  if (e->device && t == TG_F16 && op == TG_OP_FDIV) return by_single(e, lanes, a, b);
  if (e->device && op == TG_OP_ADD) return device_sum(e, a, b);
  switch (op) {
  case TG_OP_ADD: return LLVMBuildFAdd(e->b, a, b, "");
  case TG_OP_SUB: return LLVMBuildFSub(e->b, a, b, "");
  case TG_OP_MUL: return LLVMBuildFMul(e->b, a, b, "");
  case TG_OP_FDIV: return LLVMBuildFDiv(e->b, a, b, "");
  case TG_OP_MAX: case TG_OP_MIN: return tg_emit_extremum(e, op, t, lanes, a, b);
  case TG_OP_LT: return LLVMBuildFCmp(e->b, LLVMRealOLT, a, b, "");
  case TG_OP_LE: return LLVMBuildFCmp(e->b, LLVMRealOLE, a, b, "");
  case TG_OP_EQ: return LLVMBuildFCmp(e->b, LLVMRealOEQ, a, b, "");
  case TG_OP_NE: return LLVMBuildFCmp(e->b, LLVMRealUNE, a, b, "");
  default: return NULL;
  }
}

static bool arithmetic_float(tg_type t) { return t == TG_F32 || t == TG_F64 || t == TG_F16; }

LLVMValueRef tg_emit_op2(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  return arithmetic_float(t) ? float_op2(e, op, t, lanes, a, b)
         : tg_is_float(t)    ? NULL
                             : integer_op2(e, op, t, lanes, a, b, NULL);
}

static LLVMValueRef lanewise2(tg_emitter *e, const tg_uop *u) {
  tg_type t = u->src[0]->type;
  LLVMValueRef a = tg_emit_get(e, u->src[0], u->lanes), b = tg_emit_get(e, u->src[1], u->lanes);
  if (!tg_is_float(t)) return integer_op2(e, u->op, t, u->lanes, a, b, u->src[1]);
  if (!arithmetic_float(t)) return NULL;
  if (!e->device && (u->op == TG_OP_MAX || u->op == TG_OP_MIN)) {
    LLVMValueRef r = NULL;
    if (u->src[1]->op == TG_OP_CONST) r = tg_emit_extremum_constant(e, u->op, a, u->src[1], b);
    else if (u->src[0]->op == TG_OP_CONST) r = tg_emit_extremum_constant(e, u->op, b, u->src[0], a);
    if (r) return r;
  }
  return float_op2(e, u->op, t, u->lanes, a, b);
}

static LLVMValueRef lanewise1(tg_emitter *e, const tg_uop *u) {
  tg_type t = u->type;
  LLVMValueRef a = tg_emit_get(e, u->src[0], u->lanes);
  if (!tg_is_float(t)) switch (u->op) {
    case TG_OP_NEG: return LLVMBuildNeg(e->b, a, "");
    case TG_OP_NOT: return LLVMBuildNot(e->b, a, "");
    case TG_OP_ABS: return tg_is_signed(t) ? call2(e, "llvm.abs", a, LLVMConstInt(e->integer[1], 0, 0)) : a;
    case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC: return a;
    default: return NULL;
    }
  if (!arithmetic_float(t)) return NULL;
  switch (u->op) {
  case TG_OP_NEG: return LLVMBuildFNeg(e->b, a, "");
  case TG_OP_ABS: return call1(e, "llvm.fabs", a);
  case TG_OP_FLOOR: return call1(e, "llvm.floor", a);
  case TG_OP_CEIL: return call1(e, "llvm.ceil", a);
  case TG_OP_ROUND: return call1(e, "llvm.nearbyint", a);
  case TG_OP_TRUNC: return call1(e, "llvm.trunc", a);
  case TG_OP_FAST_EXP2: case TG_OP_FAST_RCP: case TG_OP_FAST_RSQRT: case TG_OP_FAST_TANH: return tg_emit_fast(e, u, a);
  case TG_OP_SQRT: return e->device && t == TG_F16 ? by_single(e, u->lanes, a, NULL) : call1(e, "llvm.sqrt", a);
  default: return NULL;
  }
}

static LLVMValueRef lanewise3(tg_emitter *e, const tg_uop *u) {
  LLVMValueRef b = tg_emit_get(e, u->src[1], u->lanes), c = tg_emit_get(e, u->src[2], u->lanes);
  if (u->op == TG_OP_WHERE) return LLVMBuildSelect(e->b, tg_emit_get(e, u->src[0], u->lanes), b, c, "");
  LLVMValueRef a = tg_emit_get(e, u->src[0], u->lanes), args[3] = {a, b, c};
  if (!tg_is_float(u->type)) return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, a, b, ""), c, "");
  return arithmetic_float(u->type) ? tg_emit_call(e, "llvm.fma", LLVMTypeOf(a), args, 3) : NULL;
}

/* ---- FOLD ---- */

static LLVMValueRef lanes_of(tg_emitter *e, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMValueRef *mask = tg_new(&e->j->env, LLVMValueRef, n);
  for (uint32_t i = 0; i < n; i++) mask[i] = LLVMConstInt(e->integer[32], from + i, 0);
  if (n == 1) return LLVMBuildExtractElement(e->b, v, mask[0], "");
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(mask, n), "");
}

/* Combines v[i] and v[i + half], half = ceil(n / 2), until one lane is left. If n is odd, the middle lane is kept as it
 * is. */
static LLVMValueRef fold(tg_emitter *e, const tg_uop *u) {
  const tg_uop *s = u->src[0];
  LLVMValueRef v = tg_emit_get(e, s, s->lanes);
  for (uint32_t n = s->lanes; n > 1;) {
    uint32_t half = (n + 1) / 2, pairs = n - half;
    LLVMValueRef r = tg_emit_op2(e, u->arg, s->type, pairs, lanes_of(e, v, 0, pairs), lanes_of(e, v, half, pairs));
    if (!r) return NULL;
    if (pairs < half) {
      LLVMTypeRef type = LLVMVectorType(tg_emit_type(e, s->type, 1), half);
      LLVMValueRef wide = LLVMGetPoison(type);
      for (uint32_t i = 0; i < half; i++) {
        LLVMValueRef at = LLVMConstInt(e->integer[32], i, 0);
        LLVMValueRef x = i < pairs ? pairs == 1 ? r : LLVMBuildExtractElement(e->b, r, at, "")
                                   : LLVMBuildExtractElement(e->b, v, at, "");
        wide = LLVMBuildInsertElement(e->b, wide, x, at, "");
      }
      r = wide;
    }
    v = r;
    n = half;
  }
  return v;
}

/* ---- SHUFFLE of a vector ---- */

/* The index modulo the number of lanes. */
static LLVMValueRef lane_index(tg_emitter *e, LLVMValueRef at, uint32_t n) {
  LLVMTypeRef type = LLVMTypeOf(at);
  if (!(n & (n - 1))) return LLVMBuildAnd(e->b, at, LLVMConstInt(type, n - 1, 0), "");
  LLVMValueRef lanes = LLVMConstInt(type, n, 0), r = LLVMBuildSRem(e->b, at, lanes, "");
  return LLVMBuildSRem(e->b, LLVMBuildAdd(e->b, r, lanes, ""), lanes, "");
}

/* One instruction, which takes the index modulo the number of lanes; NULL if the target has none. */
static LLVMValueRef by_index(tg_emitter *e, const tg_uop *u, LLVMValueRef v, LLVMValueRef index) {
  const char *name =
      tg_type_bits(u->type) == 32 && u->src[1]->arg == u->lanes ? tg_target_shuffle(e->target, u->lanes) : NULL;
  if (!name) return NULL;
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
  LLVMTypeRef words = tg_emit_type(e, TG_I32, u->lanes);
  index = tg_type_bits(u->src[2]->type) == 64 ? LLVMBuildTrunc(e->b, index, words, "") : index;
  if (LLVMTypeOf(index) != words) return NULL;
  LLVMValueRef args[2] = {LLVMBuildBitCast(e->b, v, tg_emit_type(e, TG_F32, u->lanes), ""), index};
  return LLVMBuildBitCast(e->b, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 2, ""), LLVMTypeOf(v), "");
}

static LLVMValueRef shuffle(tg_emitter *e, const tg_uop *u) {
  uint32_t n = (uint32_t)u->src[1]->arg, lanes = u->lanes;
  LLVMValueRef v = tg_emit_get(e, u->src[0], n), index = tg_emit_get(e, u->src[2], lanes),
               *at = tg_new(&e->j->env, LLVMValueRef, lanes), r;
  bool known = true;
  for (uint32_t i = 0; i < lanes; i++) {
    at[i] = lanes == 1 ? index : LLVMBuildExtractElement(e->b, index, LLVMConstInt(e->integer[32], i, 0), "");
    at[i] = lane_index(e, at[i], n);
    known &= LLVMIsAConstantInt(at[i]) != NULL;
  }
  if (lanes == 1) return LLVMBuildExtractElement(e->b, v, at[0], "");
  if (known) {
    for (uint32_t i = 0; i < lanes; i++) at[i] = LLVMConstInt(e->integer[32], LLVMConstIntGetZExtValue(at[i]), 0);
    return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(at, lanes), "");
  }
  if ((r = by_index(e, u, v, index))) return r;
  r = LLVMGetPoison(LLVMVectorType(tg_emit_type(e, u->type, 1), lanes));
  for (uint32_t i = 0; i < lanes; i++)
    r = LLVMBuildInsertElement(e->b, r, LLVMBuildExtractElement(e->b, v, at[i], ""), LLVMConstInt(e->integer[32], i, 0),
                               "");
  return r;
}

LLVMValueRef tg_emit_alu(tg_emitter *e, const tg_uop *u) {
  LLVMValueRef v = NULL;
  if (u->op == TG_OP_FOLD) v = fold(e, u);
  else if (u->op == TG_OP_SHUFFLE)
    v = u->src[1]->op == TG_OP_RANGE && e->device ? tg_device_shuffle(e, u) : shuffle(e, u);
  else if (u->op == TG_OP_MATRIX) v = tg_emit_matrix(e, u);
  else if (u->op == TG_OP_CAST) v = tg_emit_cast(e, u);
  else if (u->op == TG_OP_BITCAST) v = tg_emit_bitcast(e, u);
  else if (tg_ops[u->op].arity == 1) v = lanewise1(e, u);
  else if (tg_ops[u->op].arity == 2) v = lanewise2(e, u);
  else if (tg_ops[u->op].arity == 3) v = lanewise3(e, u);
  if (!v)
    tg_bug(&e->j->env, "linear form: %s of %s is not for this target", tg_ops[u->op].name,
           tg_type_name[u->n ? u->src[0]->type : u->type]);
  return v;
}
