/* SPDX-License-Identifier: MIT
 * On GPUs: weights of a few bits, several in a word. Runs over a finished function.
 *
 * 1. Four loads of bytes that are a word in memory become one load of it, of which each byte is a part. LLVM would make
 *    one wide load of them too, but take each byte out into a register of its own before any bits are taken out of it.
 * 2. Where instructions take such constants (on NVIDIA conversions of integers also take several times as long as
 *    additions): the f32 of a field of a word, with or without a constant added, is made without a conversion. The
 *    field stays where it is, and becomes the low end of a number between 2^23 and 2^24, whose bits are an f32's: with
 *    p, the field's place, that is 2^23 + n 2^p. One multiply-add gives n + c, and nothing is rounded:
 *
 *      f32(i32(w >> p & 15) + c)    fma((w & 15 << p | 0x4b000000) as f32, 2^-p, c - 2^(23 - p))
 */
#include <math.h>
#include "jit/emit.h"

enum { WORD = 4 /* bytes */, MANTISSA = 23, MAGIC = 0x4b000000, WIDEST = 8 /* bits of a field */, MOST_ADDED = 1 << 16,
       MOST_LOADS = 2048 /* of a block */ };

/* ---- bytes that are a word ---- */

typedef struct {
  LLVMValueRef load, base;
  int64_t offset;
} byte_load;
typedef TG_VEC(byte_load) byte_loads;

/* A load of a byte from memory that nothing writes, as a constant number of bytes behind a pointer. */
static bool byte_of(const tg_emitter *e, LLVMValueRef v, byte_load *b) {
  if (LLVMGetInstructionOpcode(v) != LLVMLoad || LLVMTypeOf(v) != e->integer[8] || LLVMGetVolatile(v) ||
      !LLVMGetMetadata(v, e->invariant_kind))
    return false;
  *b = (byte_load){.load = v, .base = LLVMGetOperand(v, 0)};
  if (LLVMIsAGetElementPtrInst(b->base) && LLVMGetNumOperands(b->base) == 2 &&
      LLVMGetGEPSourceElementType(b->base) == e->integer[8] && LLVMIsAConstantInt(LLVMGetOperand(b->base, 1))) {
    b->offset = LLVMConstIntGetSExtValue(LLVMGetOperand(b->base, 1));
    b->base = LLVMGetOperand(b->base, 0);
  }
  return true;
}

/* The number of that byte in the list; UINT32_MAX: it is not there. */
static uint32_t find(const byte_loads *all, LLVMValueRef base, int64_t offset) {
  for (uint32_t i = 0; i < all->n; i++)
    if (all->data[i].load && all->data[i].base == base && all->data[i].offset == offset) return i;
  return UINT32_MAX;
}

static void as_word(tg_emitter *e, byte_loads *all, uint32_t at) {
  const byte_load first = all->data[at];
  uint32_t part[WORD], earliest = at;
  /* AMD's loads take words at any byte, and LLVM makes them of these bytes by itself */
  bool anywhere = e->target->arch == TG_ARCH_AMDGPU && e->target->wide_constants;
  if (!first.load || (!anywhere && LLVMGetAlignment(first.load) % WORD)) return;
  for (uint32_t i = 0; i < WORD; i++) {
    part[i] = find(all, first.base, first.offset + i);
    if (part[i] == UINT32_MAX) return;
    if (part[i] < earliest) earliest = part[i];
  }
  LLVMPositionBuilderBefore(e->b, all->data[earliest].load);
  LLVMValueRef offset = LLVMConstInt(e->integer[64], (unsigned long long)first.offset, 1),
               p = first.offset ? LLVMBuildGEP2(e->b, e->integer[8], first.base, &offset, 1, "") : first.base,
               word = LLVMBuildLoad2(e->b, e->integer[32], p, "");
  LLVMSetAlignment(word, LLVMGetAlignment(first.load));
  LLVMSetMetadata(word, e->invariant_kind, LLVMMetadataAsValue(e->c, e->empty_node));
  for (uint32_t i = 0; i < WORD; i++) {
    LLVMValueRef v = i ? LLVMBuildLShr(e->b, word, LLVMConstInt(e->integer[32], 8 * i, 0), "") : word;
    LLVMReplaceAllUsesWith(all->data[part[i]].load, LLVMBuildTrunc(e->b, v, e->integer[8], ""));
  }
  for (uint32_t i = 0; i < WORD; i++) {
    LLVMInstructionEraseFromParent(all->data[part[i]].load);
    all->data[part[i]].load = NULL;
  }
}

static void join_bytes(tg_emitter *e, LLVMBasicBlockRef block) {
  byte_loads all = {0};
  byte_load b;
  for (LLVMValueRef v = LLVMGetFirstInstruction(block); v && all.n < MOST_LOADS; v = LLVMGetNextInstruction(v))
    if (byte_of(e, v, &b)) tg_push(&e->j->env, &all, b);
  for (uint32_t i = 0; i < all.n; i++) as_word(e, &all, i);
}

/* ---- fields as f32 ---- */

/* n + added, where n is the field of `width` bits at `place` of the word. */
typedef struct {
  LLVMValueRef word;
  int64_t added;
  uint32_t place, width;
} field;

static bool constant_of(LLVMValueRef v, int64_t *c) {
  if (!LLVMIsAConstantInt(v)) return false;
  *c = LLVMConstIntGetSExtValue(v);
  return true;
}

static bool takes_bits(field *f, uint32_t there) {
  if (f->place >= there) return false;
  if (f->width > there - f->place) f->width = there - f->place;
  return true;
}

/* One operation towards the word: v was (v of before) & mask, >> by, or another width. False: it is neither. */
static bool step(field *f) {
  LLVMValueRef v = f->word, from;
  int64_t c;
  if (!LLVMIsAInstruction(v)) return false;
  LLVMOpcode op = LLVMGetInstructionOpcode(v);
  if (op != LLVMZExt && op != LLVMTrunc && op != LLVMAnd && op != LLVMLShr) return false;
  from = LLVMGetOperand(v, 0);
  uint32_t bits = LLVMGetIntTypeWidth(LLVMTypeOf(v)), less = LLVMGetIntTypeWidth(LLVMTypeOf(from));
  if (op == LLVMZExt || op == LLVMTrunc) {
    if (!takes_bits(f, bits < less ? bits : less)) return false;
  } else if (!constant_of(LLVMGetOperand(v, 1), &c)) return false;
  else if (op == LLVMAnd) {
    uint64_t mask = (uint64_t)c & (bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0);
    if (!mask || mask & (mask + 1) || !takes_bits(f, 64 - (uint32_t)__builtin_clzll(mask))) return false;
  } else {
    f->place += (uint32_t)c;
    if (!takes_bits(f, bits)) return false;
  }
  f->word = from;
  return true;
}

/* Is the conversion that of a field of a word in memory? */
static bool field_of(const tg_emitter *e, LLVMValueRef convert, field *f) {
  LLVMValueRef v = LLVMGetOperand(convert, 0);
  *f = (field){.word = v, .width = 32};
  if (LLVMTypeOf(convert) != e->single || LLVMTypeOf(v) != e->integer[32]) return false;
  bool sum = LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMAdd;
  if (sum && LLVMGetInstructionOpcode(convert) == LLVMSIToFP && constant_of(LLVMGetOperand(v, 1), &f->added))
    f->word = LLVMGetOperand(v, 0);
  while (step(f)) {}
  return LLVMIsALoadInst(f->word) && LLVMTypeOf(f->word) == e->integer[32] && f->width <= WIDEST &&
         f->added > -MOST_ADDED && f->added < MOST_ADDED;
}

/* One instruction, of which LLVM makes two: on NVIDIA always, on AMD where instructions take no wide constants. There
 * the mask and the number's bits wait in registers, of which one may be a scalar one. */
LLVMValueRef tg_emit_masked_magic(tg_emitter *e, LLVMValueRef word, uint32_t mask, uint32_t magic) {
  static const char *const says[] = {"nounwind", "willreturn", "memory"};   /* loads may move across it */
  LLVMTypeRef i32 = e->integer[32], types[3] = {i32, i32, i32}, type = LLVMFunctionType(i32, types, 3, 0);
  LLVMValueRef args[3] = {word, LLVMConstInt(i32, mask, 0), LLVMConstInt(i32, magic, 0)};
  const bool nvidia = e->target->arch == TG_ARCH_NVPTX;
  if (!nvidia && e->target->wide_constants)
    return LLVMBuildOr(e->b, LLVMBuildAnd(e->b, word, args[1], ""), args[2], "");
  const char *text = nvidia ? "lop3.b32 $0, $1, $2, $3, 0xEA;" : "v_and_or_b32 $0, $1, $2, $3",
             *constraints = nvidia ? "=r,r,n,n" : "=v,v,s,v";
  LLVMValueRef fn = LLVMGetInlineAsm(type, (char *)(uintptr_t)text, strlen(text), (char *)(uintptr_t)constraints,
                                     strlen(constraints), 0, 0, LLVMInlineAsmDialectATT, 0),
               v = LLVMBuildCall2(e->b, type, fn, args, 3, "");
  for (size_t i = 0; i < TG_COUNT(says); i++) {
    unsigned kind = LLVMGetEnumAttributeKindForName(says[i], strlen(says[i]));
    LLVMAddCallSiteAttribute(v, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->c, kind, 0));
  }
  return v;
}

static void convert_field(tg_emitter *e, LLVMValueRef convert) {
  field f;
  if (!field_of(e, convert, &f)) return;
  LLVMPositionBuilderBefore(e->b, convert);
  if (f.place + f.width > MANTISSA) {   /* the upper half moves down: once for all its fields */
    if (f.place < 16) return;
    f.word = LLVMBuildLShr(e->b, f.word, LLVMConstInt(e->integer[32], 16, 0), "");
    f.place -= 16;
  }
  double unit = ldexp(1, -(int)f.place), added = (double)f.added - ldexp(1, MANTISSA - (int)f.place);
  if ((double)(float)added != added) return;
  LLVMValueRef bits = tg_emit_masked_magic(e, f.word, ((1u << f.width) - 1) << f.place, MAGIC), r, args[3] = {
    LLVMBuildBitCast(e->b, bits, e->single, ""), LLVMConstReal(e->single, unit), LLVMConstReal(e->single, added)};
  r = f.place ? tg_emit_call(e, "llvm.fma", e->single, args, 3) : LLVMBuildFAdd(e->b, args[0], args[2], "");
  LLVMReplaceAllUsesWith(convert, r);
}

void tg_emit_unpack(tg_emitter *e, LLVMValueRef fn) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    join_bytes(e, b);
    if (!e->target->wide_constants) continue;   /* the mask and the number's bits would be in registers */
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v))
      if (LLVMGetInstructionOpcode(v) == LLVMSIToFP || LLVMGetInstructionOpcode(v) == LLVMUIToFP) convert_field(e, v);
  }
}
