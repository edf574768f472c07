/* SPDX-License-Identifier: MIT
 * What emit_registers.c and emit_masks.c share: vectors as tuples of registers. */
#ifndef TG_EMIT_REGISTERS_H
#define TG_EMIT_REGISTERS_H
#include "jit/emit.h"

/* A vector in registers of `per` lanes, the last one perhaps of fewer. */
typedef struct { LLVMValueRef v; uint32_t lanes, per; LLVMValueRef *reg; } registers;
/* Lanes of a value that is not cut there (form 0), or a mask in a form that accesses take; made once, behind the
 * value. */
typedef struct { LLVMValueRef v, piece; uint32_t from, n, form; } piece;

typedef struct {
  tg_emitter *e;
  LLVMValueRef at;             /* the instruction in work: what replaces it stands before it */
  registers *tuples;           /* by the vector that was cut: an open hash table, as is the next */
  piece *pieces;
  uint32_t tuples_n, tuples_mask, pieces_n, pieces_mask;
  TG_VEC(LLVMValueRef) old, joins;   /* what was cut; vectors' phis that were not */
} cutter;

uint32_t tg_cut_bits(const cutter *, LLVMTypeRef element);
uint32_t tg_cut_room(const cutter *, LLVMTypeRef element);   /* elements of a register */
uint32_t tg_cut_lanes(LLVMTypeRef type);                     /* 1: it is no vector */
registers *tg_cut_find(cutter *, LLVMValueRef v);            /* NULL: v is one register, or a constant */
registers *tg_cut_new(cutter *, LLVMValueRef v, uint32_t per);
/* Lanes from..from+n-1 of a vector, however it is cut. */
LLVMValueRef tg_cut_part(cutter *, LLVMValueRef v, uint32_t from, uint32_t n);
/* The same of a mask, with shut lanes behind up to `wide`: one bit each, or all ones, of `bits`, in a lane that is
 * open. */
LLVMValueRef tg_cut_mask(cutter *, LLVMValueRef mask, uint32_t from, uint32_t n, uint32_t wide, uint32_t bits);
/* n lanes, each out of some register. */
typedef struct { LLVMValueRef reg; uint32_t lane; } pick;   /* reg NULL: any value */
LLVMValueRef tg_cut_assemble(cutter *, const pick *from, uint32_t n, LLVMTypeRef element);
LLVMValueRef tg_cut_ahead(cutter *, LLVMValueRef pointer, uint64_t bytes);
static inline uint32_t tg_cut_alignment(uint64_t align, uint64_t bytes) {
  return (uint32_t)((align | bytes) & -(align | bytes));
}

/* emit_masks.c: an access of the masked intrinsics, cut, without the lanes that a constant shuts, in the form that
 * the target has. */
typedef enum { MASKED_NONE, MASKED_LOAD, MASKED_STORE, MASKED_GATHER, MASKED_SCATTER } masked_access;
masked_access tg_cut_masked_kind(LLVMValueRef call);
LLVMTypeRef tg_cut_masked_type(LLVMValueRef call, masked_access kind);   /* of the data */
bool tg_cut_masked(cutter *, LLVMValueRef call, masked_access kind);     /* false: it stays as it is */
#endif
