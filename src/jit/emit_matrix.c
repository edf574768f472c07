/* SPDX-License-Identifier: MIT
 * Emits MATRIX from the instruction's row (target/matrix.def): one LLVM intrinsic or one line of PTX, whose operands
 * are the lane's elements in the form that the row's `operands` say. */
#include <stdio.h>
#include "jit/emit.h"
#include "target/matrix.h"

static LLVMValueRef as(tg_emitter *e, LLVMValueRef v, LLVMTypeRef type) {
  return LLVMTypeOf(v) == type ? v : LLVMBuildBitCast(e->b, v, type, "");
}
static LLVMTypeRef vector(LLVMTypeRef element, uint32_t n) { return n == 1 ? element : LLVMVectorType(element, n); }

/* The same bits as integers of `bits` bits each. */
static LLVMValueRef pieces(tg_emitter *e, LLVMValueRef v, uint32_t total, uint32_t bits) {
  return as(e, v, vector(e->integer[bits], total / bits));
}

/* Puts each of n elements into the low half of a register of its own; back: takes them out again. */
static LLVMValueRef spread(tg_emitter *e, LLVMValueRef v, uint32_t n, bool back) {
  LLVMValueRef mask[64];
  for (uint32_t i = 0; i < (back ? n : 2 * n); i++) mask[i] = LLVMConstInt(e->integer[32], back ? 2 * i : i / 2, 0);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(mask, back ? n : 2 * n), "");
}

/* Four bytes that are picked from eight are one instruction of AMD's; of every other one LLVM makes nine of 16 bits on
 * gfx11 (docs/llvm.md). NULL: they are not. */
static LLVMValueRef picked(tg_emitter *e, LLVMValueRef v) {
  if (e->target->arch != TG_ARCH_AMDGPU || !LLVMIsAShuffleVectorInst(v)) return NULL;
  LLVMValueRef of = LLVMGetOperand(v, 0), halves[3], fn;
  LLVMTypeRef type = LLVMTypeOf(of);
  if (LLVMGetElementType(type) != e->integer[8] || LLVMGetVectorSize(type) != 8 ||
      LLVMGetVectorSize(LLVMTypeOf(v)) != 4)
    return NULL;
  uint32_t selector = 0;
  for (unsigned i = 0; i < 4; i++) {
    int from = LLVMGetMaskValue(v, i);
    if (from < 0 || from > 7) return NULL;
    selector |= (uint32_t)from << 8 * i;
  }
  LLVMValueRef words = LLVMBuildBitCast(e->b, of, LLVMVectorType(e->integer[32], 2), "");
  for (unsigned i = 0; i < 2; i++)
    halves[i] = LLVMBuildExtractElement(e->b, words, LLVMConstInt(e->integer[32], 1 - i, 0), "");
  halves[2] = LLVMConstInt(e->integer[32], selector, 0);
  unsigned id = LLVMLookupIntrinsicID("llvm.amdgcn.perm", 16);
  fn = LLVMGetIntrinsicDeclaration(e->m, id, NULL, 0);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, halves, 3, "");
}

/* n elements of type t as an operand of an intrinsic. form: a letter of `operands` in target/matrix.def. */
static LLVMValueRef operand(tg_emitter *e, char form, tg_type t, uint32_t n, LLVMValueRef v) {
  uint32_t total = n * (uint32_t)tg_type_bits(t);
  LLVMValueRef bytes = total == 32 && tg_type_bits(t) == 8 ? picked(e, v) : NULL;
  if (bytes) return as(e, bytes, form == 'v' ? LLVMTypeOf(v) : e->integer[32]);
  switch (form) {
  case 'v': return v;
  case 'i': return pieces(e, v, total, 32);
  case 'j': return pieces(e, v, total, 16);
  case 'q': return pieces(e, v, total, 64);
  case 'x': return tg_type_bits(t) >= 32 ? v : pieces(e, v, total, 32);
  case 'e': return spread(e, v, n, false);
  case 's': return tg_emit_splat(e, pieces(e, v, total, 32), 16, e->depth);
  default: tg_bug(&e->j->env, "a matrix instruction has an operand of form '%c'", form);
  }
}

static LLVMValueRef bit(tg_emitter *e, bool v) { return LLVMConstInt(e->integer[1], v, 0); }

/* dp4a in an LLVM without the intrinsic, which came with 20. */
static LLVMValueRef dot_by_assembly(tg_emitter *e, const tg_matrix_row *r, LLVMValueRef *args) {
  static const char constraints[] = "=r,r,r,r";
  LLVMTypeRef word = e->integer[32], types[3] = {word, word, word}, type = LLVMFunctionType(word, types, 3, 0);
  const char *text = tg_format(&e->j->env, "dp4a.%c32.%c32 $0, $1, $2, $3;", tg_is_signed(r->a_type) ? 's' : 'u',
                               tg_is_signed(r->b_type) ? 's' : 'u');
  LLVMValueRef fn = LLVMGetInlineAsm(type, (char *)(uintptr_t)text, strlen(text), (char *)(uintptr_t)constraints,
                                     sizeof constraints - 1, 0, 0, LLVMInlineAsmDialectATT, 0);
  for (int i = 0; i < 3; i++) args[i] = as(e, args[i], word);
  return LLVMBuildCall2(e->b, type, fn, args, 3, "");
}

/* WMMA's intrinsics are overloaded by the types of the result and of a. Operands after the first n choose halves,
 * blocks or lanes; they are 0. */
static LLVMValueRef call(tg_emitter *e, const tg_matrix_row *r, LLVMValueRef *args, unsigned n, LLVMTypeRef result,
                         LLVMTypeRef a) {
  LLVMTypeRef overload[2] = {result, a}, types[8];
  unsigned id = LLVMLookupIntrinsicID(r->code, strlen(r->code));
  if (!id && !strncmp(r->code, "llvm.nvvm.idp4a.", 16)) return dot_by_assembly(e, r, args);
  if (!id)
    tg_fail(&e->j->env, TG_EBACKEND, "LLVM %s has no %s, which is matrix instruction %s", tg_llvm_version(), r->code,
            r->name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, id, overload, LLVMIntrinsicIsOverloaded(id) ? 2 : 0);
  LLVMTypeRef type = LLVMGlobalGetValueType(fn);
  unsigned all = LLVMCountParamTypes(type);
  if (all > TG_COUNT(types)) tg_bug(&e->j->env, "%s takes %u operands", r->code, all);
  LLVMGetParamTypes(type, types);
  /* VPDPBUSD takes bytes or words, depending on LLVM's version */
  for (unsigned i = 0; i < n; i++) args[i] = as(e, args[i], types[i]);
  for (; n < all; n++) args[n] = LLVMConstNull(types[n]);
  return LLVMBuildCall2(e->b, type, fn, args, all, "");
}

static LLVMValueRef by_intrinsic(tg_emitter *e, const tg_matrix_row *r, const LLVMValueRef *v, const uint32_t *n) {
  LLVMValueRef in[3], d;
  char form[3];
  if (sscanf(r->operands, "%c %c %c", &form[0], &form[1], &form[2]) != 3)
    tg_bug(&e->j->env, "matrix instruction %s: operands '%s'", r->name, r->operands);
  for (int i = 0; i < 3; i++) in[i] = operand(e, form[i], tg_matrix_type(r, i), n[i], v[i]);
  LLVMTypeRef result = LLVMTypeOf(in[2]), a = LLVMTypeOf(in[0]);
  if (r->form == TG_MATRIX_WMMA_INT) {
    LLVMValueRef args[8] = {bit(e, tg_is_signed(r->a_type)), in[0], bit(e, tg_is_signed(r->b_type)), in[1], in[2]};
    d = call(e, r, args, 5, result, a);
  } else if (r->form == TG_MATRIX_DOT) {
    LLVMValueRef args[8] = {in[2], in[0], in[1]};
    d = call(e, r, args, 3, result, a);
  } else {
    LLVMValueRef args[8] = {in[0], in[1], in[2]};
    d = call(e, r, args, 3, result, a);
  }
  return form[2] == 'e' ? spread(e, d, n[2], true) : d;
}

/* mnemonic {d..}, {a..}, {b..}, {c..}; operands are 32-bit registers: f32 as floats, everything else as integers. */
static LLVMValueRef by_assembly(tg_emitter *e, const tg_matrix_row *r, const LLVMValueRef *v, const uint32_t *n) {
  enum { MOST = 64 };
  LLVMTypeRef types[MOST], result[MOST];
  LLVMValueRef args[MOST];
  uint32_t words[3], count = 0, outs;
  bool floats = r->c_type == TG_F32;
  tg_str text = tg_str_new(&e->j->env), constraints = tg_str_new(&e->j->env);
  for (int i = 0; i < 3; i++) words[i] = n[i] * (uint32_t)tg_type_bits(tg_matrix_type(r, i)) / 32;
  outs = words[2];
  for (uint32_t i = 0; i < outs; i++) {
    result[i] = floats ? e->single : e->integer[32];
    tg_str_puts(&constraints, i ? floats ? ",=f" : ",=r" : floats ? "=f" : "=r");
  }
  tg_str_printf(&text, "%s ", r->code);
  for (uint32_t i = 0; i < outs; i++) tg_str_printf(&text, "%s$%u", i ? ", " : "{", i);
  for (int k = 0; k < 3; k++) {
    LLVMTypeRef word = k == 2 && floats ? e->single : e->integer[32];
    LLVMValueRef all = as(e, v[k], vector(word, words[k]));
    tg_str_puts(&text, "}, {");
    for (uint32_t i = 0; i < words[k]; i++, count++) {
      args[count] = words[k] == 1 ? all : LLVMBuildExtractElement(e->b, all, LLVMConstInt(e->integer[32], i, 0), "");
      types[count] = word;
      tg_str_puts(&constraints, word == e->single ? ",f" : ",r");
      tg_str_printf(&text, "%s$%u", i ? ", " : "", outs + count);
    }
  }
  tg_str_puts(&text, "};");
  /* PTX ISA, "mma": .e4m3 and .e5m2 came with 8.4 */
  if (tg_type_bits(r->a_type) == 8 && tg_is_float(r->a_type)) e->ptx_version = 84;
  LLVMTypeRef type =
      LLVMFunctionType(outs == 1 ? result[0] : LLVMStructTypeInContext(e->c, result, outs, 0), types, count, 0);
  LLVMValueRef fn = LLVMGetInlineAsm(type, text.data, text.n, constraints.data, constraints.n, 0, 0,
                                     LLVMInlineAsmDialectATT, 0),
               d = LLVMBuildCall2(e->b, type, fn, args, count, "");
  LLVMAddCallSiteAttribute(d, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
  if (outs == 1) return d;
  LLVMValueRef out = LLVMGetPoison(LLVMVectorType(result[0], outs));
  for (uint32_t i = 0; i < outs; i++)
    out = LLVMBuildInsertElement(e->b, out, LLVMBuildExtractValue(e->b, d, i, ""), LLVMConstInt(e->integer[32], i, 0),
                                 "");
  return out;
}

/* ---- tiles ---- LLVM has a type for tile registers. Phis may have this type, constants may not. From the sizes in
 * each call its code generator finds out how to configure the registers; it does that outside of loops, and releases
 * the registers at the end of the function. */

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = TILE_ROWS * TILE_BYTES / 4 };

static LLVMValueRef call_tile(tg_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *args, unsigned n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) tg_fail(&e->j->env, TG_EBACKEND, "LLVM %s has no %s", tg_llvm_version(), name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, id, &overload, overload != NULL);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static LLVMValueRef sixteen(tg_emitter *e, uint64_t v) { return LLVMConstInt(e->integer[16], v, 0); }

LLVMValueRef tg_emit_load_tile(tg_emitter *e, LLVMValueRef pointer) {
  LLVMValueRef args[4] = {sixteen(e, TILE_ROWS), sixteen(e, TILE_BYTES), pointer,
                          LLVMConstInt(e->integer[64], TILE_BYTES, 0)};
  return call_tile(e, "llvm.x86.tileloadd64.internal", NULL, args, 4);
}

void tg_emit_store_tile(tg_emitter *e, LLVMValueRef pointer, LLVMValueRef tile) {
  LLVMValueRef args[5] = {sixteen(e, TILE_ROWS), sixteen(e, TILE_BYTES), pointer,
                          LLVMConstInt(e->integer[64], TILE_BYTES, 0), tile};
  call_tile(e, "llvm.x86.tilestored64.internal", NULL, args, 5);
}

LLVMValueRef tg_emit_tile(tg_emitter *e, LLVMValueRef v) {
  if (v && tg_emit_is_tile(v)) return v;
  if (!v || (LLVMIsConstant(v) && LLVMIsNull(v))) {
    LLVMValueRef args[2] = {sixteen(e, TILE_ROWS), sixteen(e, TILE_BYTES)};
    return call_tile(e, "llvm.x86.tilezero.internal", NULL, args, 2);
  }
  if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVectorTypeKind)
    v = tg_emit_splat(e, v, TILE_ROWS * TILE_BYTES * 8 / LLVMGetIntTypeWidth(LLVMTypeOf(v)), e->depth);
  v = as(e, v, vector(e->integer[32], TILE_WORDS));
  return call_tile(e, "llvm.x86.cast.vector.to.tile", LLVMTypeOf(v), &v, 1);
}

LLVMValueRef tg_emit_elements(tg_emitter *e, LLVMValueRef v, LLVMTypeRef type) {
  return as(e, call_tile(e, "llvm.x86.cast.tile.to.vector", vector(e->integer[32], TILE_WORDS), &v, 1), type);
}

void tg_emit_find_tiles(tg_emitter *e) {
  tg_job *j = e->j;
  e->tiled = tg_new(&j->env, uint8_t, j->uops.n);
  for (uint32_t i = 0; i < j->uops.n && e->target->tile_i8; i++) {
    const tg_uop *u = j->uops.data[i], *m = u->op == TG_OP_STORE ? tg_stored(u) : u;
    const tg_matrix_row *r = m->op == TG_OP_MATRIX ? tg_matrix_find(tg_matrix_name(j, m)) : NULL;
    if (!r || r->form != TG_MATRIX_TILE) continue;
    for (int w = 0; u == m && w < 3; w++) e->tiled[u->src[w]->id] = u->src[w]->op == TG_OP_LOAD;
    emit_buffer *b = u == m ? NULL : &e->buffers[tg_buffer_ordinal(u->src[0])];
    if (b && b->memory == MEMORY_CELLS) b->tiles = true;
  }
}

/* c + a * b. The sizes are: rows of d, bytes of a row of d, bytes of a row of a. */
static LLVMValueRef by_tiles(tg_emitter *e, const tg_matrix_row *r, const tg_uop *u) {
  LLVMValueRef args[6] = {sixteen(e, r->m), sixteen(e, r->n * 4u), sixteen(e, r->k)};
  static const int order[] = {2, 0, 1};
  for (int i = 0; i < 3; i++) {
    const tg_uop *x = u->src[order[i]];
    args[3 + i] = tg_emit_tile(e, tg_emit_raw(e, x, x->lanes));
  }
  return call_tile(e, r->code, NULL, args, 6);
}

LLVMValueRef tg_emit_matrix(tg_emitter *e, const tg_uop *u) {
  const tg_matrix_row *r = tg_matrix_find(tg_matrix_name(e->j, u));
  LLVMValueRef v[3];
  uint32_t n[3];
  if (!r || !tg_matrix_on(r, e->target))
    tg_fail(&e->j->env, TG_EINVAL, "error: %s is not an instruction of %s", tg_matrix_name(e->j, u), e->target->name);
  if (r->form == TG_MATRIX_TILE) return by_tiles(e, r, u);
  for (int i = 0; i < 3; i++) {
    n[i] = tg_matrix_registers(r, i);
    v[i] = tg_emit_get(e, u->src[i], n[i]);
  }
  LLVMValueRef d = r->form == TG_MATRIX_PTX ? by_assembly(e, r, v, n) : by_intrinsic(e, r, v, n);
  return as(e, d, tg_emit_type(e, u->type, u->lanes));
}
