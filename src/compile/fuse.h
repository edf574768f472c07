/* SPDX-License-Identifier: MIT
 * Two kernels as one (fuse.c), with the shapes that it recognises (fuse_shape.c). */
#ifndef TG_FUSE_H
#define TG_FUSE_H
#include "compile/compile.h"

/* One of both kernels, at constant parameters, after pass raise. */
typedef struct tg_fuse_side {
  tg_job *job;
  tg_context *context;
  const tg_kernel *kernel;
  const int64_t *params;
  tg_kernel_source source;
  tg_compile_options options;
  tg_binding *bindings;
  const tg_uop *plain;         /* in plain form (tg_plain) */
  uint32_t between;            /* ordinal, in the job, of the buffer between both */
  /* A map is one store in a perfect nest of loops, without reductions or memory of its own: the RANGEs, the store.
   * whole: each iteration has an element of the memory between to itself, and together they have all: it writes that,
   * or reads no other (load) */
  bool map, whole;
  uint32_t depth;
  const tg_uop *range[8], *store, *load;
} tg_fuse_side;

/* Looks at s->plain: is it a map? */
void tg_fuse_see(tg_fuse_side *s);
/* fuse_epilogue.c: is what the map stores a sum of an element of this buffer and something? */
bool tg_fuse_adds_to(const tg_fuse_side *map, uint32_t buffer);
/* fuse_epilogue.c: the program of a fused map as an answer to TG_FUSE_EPILOGUE: text, buffers, values. text NULL: it is
 * none that can stand behind a sum. */
void tg_fuse_express(tg_job *j, const tg_lowering *l, const tg_uop *sink, tg_fusion *f);
/* May pass fma find other products to fuse in a map than it finds after this one's own schedule? See fuse.c. */
bool tg_fuse_unsure(const tg_fuse_side *map);
/* Is there a sum of two products? Which of them is fused depends on the order of operands. */
bool tg_fuse_two_products(tg_job *j, const tg_uop *plain);
/* Is it a product, or a negated one, of floats? */
bool tg_fuse_is_product(const tg_uop *u);
/* Is the node an operand of a sum or a difference, or a term of a reduction, below root? */
bool tg_fuse_is_added(tg_job *j, const tg_uop *root, const tg_uop *u);
/* Has the map a product of floats that reads no memory? */
bool tg_fuse_has_bare_product(const tg_fuse_side *map);
/* Has a reduction a term that is a product with what is loaded from the buffer? Terms behind the end of a loop that is
 * split are left out by a `where` around the product, which then is not joined to the sum; but not if they are 0
 * anyway, since loads there give 0. So a term must not be 0 there before, and another value after. */
bool tg_fuse_changes_terms(tg_job *j, const tg_uop *plain, uint32_t buffer);
static inline bool tg_fuse_reads(const tg_uop *u, uint32_t buffer) {
  return u->op == TG_OP_LOAD && tg_buffer_ordinal(u->src[0]) == buffer;
}
#endif
