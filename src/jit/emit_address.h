/* SPDX-License-Identifier: MIT
 * Shared by the files that emit memory accesses: a subscript decomposed into terms, and addresses built from it. */
#ifndef TG_EMIT_ADDRESS_H
#define TG_EMIT_ADDRESS_H
#include "jit/emit.h"

enum { MAX_TERMS = 24 };

typedef struct { const tg_uop *u; int64_t scale; uint32_t depth; } term;
typedef struct {
  term scalars[MAX_TERMS], vectors[MAX_TERMS];
  uint32_t scalars_n, vectors_n;
  int64_t constant, iota;      /* constant + iota * (0, 1, ..) + terms */
} sum;

void tg_emit_take_apart(tg_emitter *, sum *s, const tg_uop *root);
void tg_emit_add_term(tg_emitter *, sum *s, const tg_uop *u, int64_t scale);   /* the caller ensures there is room */
/* base + scalar terms + constant, in elements of `bytes`. */
LLVMValueRef tg_emit_scalar_pointer(tg_emitter *, uint32_t buffer, const sum *s, tg_type index, LLVMTypeRef element,
                                    uint64_t bytes);
/* What is known of that address, in bytes, in a buffer aligned to `base`. */
uint32_t tg_emit_known_alignment(tg_emitter *, const sum *s, uint64_t bytes, uint64_t base);
/* What a device may assume of that address, in bytes, up to its widest access; at least `element`. */
uint32_t tg_emit_device_alignment(tg_emitter *, uint32_t buffer, const sum *s, uint64_t bytes, uint32_t element);

/* of an input: what it loads is invariant */
void tg_emit_mark_load(tg_emitter *, LLVMValueRef load, const tg_uop *define);

/* emit_masks.c: LLVM's masked accesses, of any width and with any mask; tg_emit_registers later turns them into
 * instructions that the target has. */
LLVMValueRef tg_emit_masked(tg_emitter *, const char *name, bool store, LLVMValueRef pointer, LLVMValueRef mask,
                            LLVMValueRef value, uint32_t align);
static inline LLVMValueRef tg_emit_masked_load(tg_emitter *e, LLVMValueRef pointer, LLVMValueRef mask,
                                               LLVMValueRef other, uint32_t align) {
  return tg_emit_masked(e, "llvm.masked.load", false, pointer, mask, other, align);
}
static inline void tg_emit_masked_store(tg_emitter *e, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value,
                                        uint32_t align) {
  tg_emit_masked(e, "llvm.masked.store", true, pointer, mask, value, align);
}

/* emit_steps.c: lanes at a small constant stride. Returns the stride if it pays to load whole vectors and pick the
 * lanes out of them; 0: gather the lanes. */
uint32_t tg_emit_step(const tg_emitter *, int64_t distance, uint32_t lanes);
/* Lane 0 is at pointer, the others follow at the stride; there are as many as `other` (the result where the mask is
 * false) or `value` has. mask: one bit per lane; NULL: all lanes. */
LLVMValueRef tg_emit_load_steps(tg_emitter *, uint32_t step, LLVMValueRef pointer, LLVMValueRef mask,
                                LLVMValueRef other, uint32_t align);
void tg_emit_store_steps(tg_emitter *, uint32_t step, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value,
                         uint32_t align);

/* emit_apart.c: at most TG_MOST_APART lanes at a run-time stride `distance`, in elements; lane 0 is at pointer. */
enum { TG_MOST_APART = 16 };
LLVMValueRef tg_emit_load_apart(tg_emitter *, LLVMTypeRef type, LLVMValueRef pointer, LLVMValueRef distance,
                                uint32_t align);
void tg_emit_store_apart(tg_emitter *, LLVMValueRef pointer, LLVMValueRef distance, LLVMValueRef value, uint32_t align);

/* emit_runs.c: a load of several contiguous runs of elements. Returns NULL if the load has another form. mask: one bit
 * per lane, NULL: all lanes; other: the result where the mask is false. */
LLVMValueRef tg_emit_runs(tg_emitter *, const tg_uop *load, LLVMValueRef mask, LLVMValueRef other);
/* The same for a store on a device: false, and nothing done, if it has another form. */
bool tg_emit_store_runs(tg_emitter *, const tg_uop *store, LLVMValueRef value, uint32_t lanes);
/* The alignment, in bytes, that each run of the access has if the buffer has `widest`; an element's if there are no
 * runs. */
uint32_t tg_emit_runs_alignment(tg_emitter *, const tg_uop *access, uint32_t lanes, uint32_t widest);
#endif
