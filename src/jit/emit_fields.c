/* SPDX-License-Identifier: MIT
 * On GPUs: f16 of fields of a few bits, as weights of four bits are before a matrix instruction takes them. Two at a
 * time, without a conversion: the field stays where it is in its word, and becomes the low end of a number between 2^10
 * and 2^11, whose bits are an f16's; with p, the field's place, that is 2^10 + n 2^p. One multiply-add gives n + c, and
 * nothing is rounded:
 *
 *   f16(i32(w >> p & 15) + c)    fma((w & 15 << p | 0x6400) as f16, 2^-p, c - 2^(10 - p))
 *
 * Where the fields of a pair lie 16 bits apart in one word, this is two instructions for both: so a sum over weights
 * that lie in their order takes them in another one (docs/layouts.md). Else the bytes of both are brought there by a
 * permutation of bytes. */
#include <math.h>
#include "jit/emit.h"

enum { WORD = 32, HALF = 16, MANTISSA = 10, MAGIC = 0x64006400, MOST = 32, MOST_ADDED = 1024 };

/* n + added, where n has `width` bits, the lowest at bit `place` of the vector `from`, in each register. */
typedef struct {
  const tg_uop *from;
  int64_t added;
  uint32_t place[MOST], width;
} fields;

static bool known_at(const tg_uop *u, uint32_t r, int64_t *v) {
  int64_t a, b;
  if (u->op == TG_OP_CONST || u->op == TG_OP_IOTA) return *v = u->op == TG_OP_CONST ? u->arg : r, true;
  if (u->op == TG_OP_CAST && tg_is_int(u->type) && tg_is_int(u->src[0]->type)) return known_at(u->src[0], r, v);
  if (u->n != 2 || !known_at(u->src[0], r, &a) || !known_at(u->src[1], r, &b) || a < 0 || b < 0 || a > INT32_MAX ||
      b > INT32_MAX)
    return false;
  switch (u->op) {
  case TG_OP_ADD: return *v = a + b, true;
  case TG_OP_MUL: return *v = a * b, true;
  case TG_OP_AND: return *v = a & b, true;
  case TG_OP_SHR: return b < 31 && (*v = a >> b, true);
  case TG_OP_SHL: return b < 31 && (*v = a << b, true);
  case TG_OP_CDIV: return b && (*v = a / b, true);
  case TG_OP_CMOD: return b && (*v = a % b, true);
  default: return false;
  }
}

/* u >> by, in each register. */
static bool shifted(fields *f, const tg_uop *u, uint32_t registers) {
  uint32_t bits = (uint32_t)tg_type_bits(u->type), width = f->width;
  for (uint32_t r = 0; r < registers; r++) {
    int64_t by;
    if (!known_at(u->src[1], r, &by) || by < 0 || by >= bits || f->place[r] + (uint32_t)by >= bits) return false;
    f->place[r] += (uint32_t)by;
    uint32_t left = bits - f->place[r], w = left < f->width ? left : f->width;
    if ((w < f->width && tg_is_signed(u->type)) || (r && w != width)) return false;
    width = w;
  }
  f->width = width;
  return true;
}

/* The bits of an integer that is made wider are zeros behind its own, where it has no sign. */
static bool widened(fields *f, const tg_uop *from, uint32_t registers) {
  uint32_t bits = (uint32_t)tg_type_bits(from->type);
  for (uint32_t r = 0; r < registers; r++) {
    if (f->place[r] + f->width <= bits) continue;
    if (f->place[r] || tg_is_signed(from->type)) return false;
  }
  f->width = f->width < bits ? f->width : bits;
  return true;
}

/* Of integers, as far as the bits of a field come from one element. */
static bool find_fields(fields *f, const tg_uop *u, uint32_t registers) {
  *f = (fields){.width = WORD};
  if (u->op == TG_OP_ADD && u->src[1]->op == TG_OP_CONST) f->added = u->src[1]->arg, u = u->src[0];
  if (f->added < -MOST_ADDED || f->added > MOST_ADDED) return false;
  for (;; u = u->src[0]) {
    uint32_t bits = (uint32_t)tg_type_bits(u->type);
    if (u->lanes != registers || !tg_is_int(u->type) || bits > WORD) return false;
    if (u->op == TG_OP_CAST) {
      if (!tg_is_int(u->src[0]->type) || !widened(f, u->src[0], registers)) return false;
    } else if (u->op == TG_OP_AND && u->src[1]->op == TG_OP_CONST) {
      int64_t mask = u->src[1]->arg;
      if (mask <= 0 || mask & (mask + 1)) return false;
      uint32_t width = WORD - (uint32_t)__builtin_clz((uint32_t)mask);
      if (width < f->width) f->width = width;
    } else if (u->op == TG_OP_SHR) {
      if (!shifted(f, u, registers)) return false;
    } else break;
  }
  f->from = u;
  return f->width <= 8;
}

/* Where each register's field lies in all of the bits of a vector of bytes, and that vector. */
static const tg_uop *find_bytes(fields *f, uint32_t registers) {
  const tg_uop *u = f->from;
  bool picks = u->op == TG_OP_SHUFFLE && u->src[1]->op == TG_OP_CONST;
  const tg_uop *v = picks ? u->src[0] : u;
  if (tg_type_bits(v->type) != 8 || v->lanes % 4) return NULL;
  for (uint32_t r = 0; r < registers; r++) {
    int64_t at = r;
    if (picks && (!known_at(u->src[2], r, &at) || at < 0 || at >= v->lanes)) return NULL;
    if (f->place[r] + f->width > 8) return NULL;
    f->place[r] += 8 * (uint32_t)at;
  }
  return v;
}

static LLVMValueRef word(tg_emitter *e, uint32_t v) { return LLVMConstInt(e->integer[32], v, 0); }

static LLVMValueRef half(tg_emitter *e, double v) { return LLVMConstReal(tg_emit_type(e, TG_F16, 1), v); }

/* Two numbers n + added, from a word whose halves have their fields at places p. */
static LLVMValueRef pair(tg_emitter *e, LLVMValueRef w, const uint32_t p[2], const fields *f) {
  uint32_t mask = (1u << f->width) - 1;
  LLVMTypeRef type = tg_emit_type(e, TG_F16, 2);
  LLVMValueRef bits = tg_emit_masked_magic(e, w, mask << p[0] | mask << p[1] << HALF, MAGIC), scale[2], added[2];
  for (int i = 0; i < 2; i++) {
    scale[i] = half(e, ldexp(1, -(int)p[i]));
    added[i] = half(e, (double)f->added - ldexp(1, MANTISSA - (int)p[i]));
  }
  LLVMValueRef args[3] = {LLVMBuildBitCast(e->b, bits, type, ""), LLVMConstVector(scale, 2), LLVMConstVector(added, 2)};
  return p[0] || p[1] ? tg_emit_call(e, "llvm.fma", type, args, 3) : LLVMBuildFAdd(e->b, args[0], args[2], "");
}

/* The halves of it are the bytes with the two fields, each with another byte behind it. */
static LLVMValueRef brought(tg_emitter *e, LLVMValueRef bytes, const uint32_t place[2]) {
  LLVMValueRef at[4];
  for (uint32_t i = 0; i < 4; i++) at[i] = word(e, place[i / 2] / 8);
  LLVMValueRef v = LLVMBuildShuffleVector(e->b, bytes, LLVMGetPoison(LLVMTypeOf(bytes)), LLVMConstVector(at, 4), "");
  return LLVMBuildBitCast(e->b, v, e->integer[32], "");
}

LLVMValueRef tg_emit_fields(tg_emitter *e, const tg_uop *u) {
  fields f;
  uint32_t n = u->lanes;
  if (!e->device || u->type != TG_F16 || n < 2 || n % 2 || n > MOST || !find_fields(&f, u->src[0], n)) return NULL;
  const tg_uop *v = find_bytes(&f, n);
  if (!v) return NULL;
  LLVMValueRef bytes = tg_emit_get(e, v, v->lanes),
               words = LLVMBuildBitCast(e->b, bytes, tg_emit_type(e, TG_I32, v->lanes / 4), ""),
               all = LLVMGetPoison(tg_emit_type(e, TG_I32, n / 2));
  for (uint32_t r = 0; r < n; r += 2) {
    const uint32_t *at = &f.place[r];
    uint32_t p[2] = {at[0] % 8, at[1] % 8};
    LLVMValueRef w;
    if (at[1] == at[0] + HALF && at[0] / WORD == at[1] / WORD) {
      w = v->lanes == 4 ? words : LLVMBuildExtractElement(e->b, words, word(e, at[0] / WORD), "");
      if (at[0] % WORD / 8) w = LLVMBuildLShr(e->b, w, word(e, at[0] % WORD / 8 * 8), "");
    } else w = brought(e, bytes, at);
    LLVMValueRef x = LLVMBuildBitCast(e->b, pair(e, w, p, &f), e->integer[32], "");
    all = n == 2 ? x : LLVMBuildInsertElement(e->b, all, x, word(e, r / 2), "");
  }
  return LLVMBuildBitCast(e->b, all, tg_emit_type(e, TG_F16, n), "");
}
