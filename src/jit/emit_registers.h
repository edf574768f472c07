/* SPDX-License-Identifier: MIT
 * Shared by emit_registers.c, emit_registers_room.c and emit_masks.c, which cut vectors into tuples of registers. */
#ifndef TG_EMIT_REGISTERS_H
#define TG_EMIT_REGISTERS_H
#include "jit/emit.h"

/* Vector v, of `lanes` lanes, as registers of `per` lanes each; the last one may have fewer. */
typedef struct { LLVMValueRef v; uint32_t lanes, per; LLVMValueRef *reg; } registers;
/* Lanes from .. from + n - 1 of value v, as a vector (form 0), or as a mask in the form that accesses need. Each is
 * emitted once, right after v. */
typedef struct { LLVMValueRef v, piece; uint32_t from, n, form; } piece;

typedef struct {
  tg_emitter *e;
  LLVMValueRef at;             /* the instruction being rewritten; its replacement is inserted before it */
  registers *tuples;           /* open hash table, by the vector that was cut */
  piece *pieces;               /* open hash table */
  uint32_t tuples_n, tuples_mask, pieces_n, pieces_mask;
  TG_VEC(LLVMValueRef) old, joins;   /* instructions that were cut; phis of vectors that were not */
} cutter;

/* emit_registers_room.c: of types, and of values. Lanes of a register: of vectors of these elements; of the gathers and
 * scatters that use addresses v; of a mask with no width of its own, the fewest among the data that it is used for; of
 * an instruction that works lane by lane; of a load of so many lanes: if it is only extended to wider elements, those
 * of the parts that the extensions take. */
static inline LLVMTypeRef element_of(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}
static inline bool is_bit(LLVMTypeRef element) {
  return LLVMGetTypeKind(element) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(element) == 1;
}
static inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
uint32_t tg_cut_bits(const cutter *, LLVMTypeRef element);
uint32_t tg_cut_lanes(LLVMTypeRef type);                     /* 1 if it is not a vector */
uint32_t tg_cut_room(const cutter *, LLVMTypeRef element);
uint32_t tg_cut_room_of_addresses(cutter *, LLVMValueRef v);
uint32_t tg_cut_room_of_mask(cutter *, LLVMValueRef mask, uint32_t depth);
uint32_t tg_cut_room_of_lanewise(cutter *, LLVMValueRef v);
uint32_t tg_cut_room_of_load(cutter *, LLVMValueRef v, uint32_t lanes);
/* Lanes per register required by a mask operand of so many lanes: that of the value it was computed from; any for a
 * scalar or a constant. */
uint32_t tg_cut_asked_by_mask(cutter *, LLVMValueRef v, uint32_t lanes);
bool tg_cut_is_tile(const cutter *, LLVMValueRef v);         /* an AMX tile as a vector, which is never cut */
bool tg_cut_is_call_of(LLVMValueRef v, const char *prefix);
/* If v has one scalar in all lanes: the scalar, from which a part of any width is made; else NULL. */
LLVMValueRef tg_cut_splat_scalar(LLVMValueRef v);
registers *tg_cut_find(cutter *, LLVMValueRef v);            /* NULL: v is one register, or a constant */
registers *tg_cut_new(cutter *, LLVMValueRef v, uint32_t per);
/* Lanes from..from+n-1 of a vector, however it is cut. */
LLVMValueRef tg_cut_part(cutter *, LLVMValueRef v, uint32_t from, uint32_t n);
/* Likewise for a mask, padded with false lanes to `wide` lanes. bits 1: one bit per lane; else each true lane is an
 * integer of `bits` bits, all ones. */
LLVMValueRef tg_cut_mask(cutter *, LLVMValueRef mask, uint32_t from, uint32_t n, uint32_t wide, uint32_t bits);
/* Assembles a vector of n lanes, each picked out of some register. */
typedef struct { LLVMValueRef reg; uint32_t lane; } pick;   /* reg NULL: the lane may have any value */
LLVMValueRef tg_cut_assemble(cutter *, const pick *from, uint32_t n, LLVMTypeRef element);
LLVMValueRef tg_cut_ahead(cutter *, LLVMValueRef pointer, uint64_t bytes);
static inline uint32_t tg_cut_alignment(uint64_t align, uint64_t bytes) {
  return (uint32_t)((align | bytes) & -(align | bytes));
}

/* emit_masks.c: rewrites a call of a masked intrinsic as accesses of single registers in the form that the target has,
 * without the lanes whose mask is constant false. */
typedef enum { MASKED_NONE, MASKED_LOAD, MASKED_STORE, MASKED_GATHER, MASKED_SCATTER } masked_access;
masked_access tg_cut_masked_kind(LLVMValueRef call);
LLVMTypeRef tg_cut_masked_type(LLVMValueRef call, masked_access kind);   /* of the data */
bool tg_cut_masked(cutter *, LLVMValueRef call, masked_access kind);     /* false: it stays as it is */
#endif
