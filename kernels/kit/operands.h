/* SPDX-License-Identifier: MIT
 * Checks of a call's operands in memory: their strides, the bytes that they span, their alignment, and that the result
 * does not overlap an operand that is read. */
#ifndef TG_KIT_OPERANDS_H
#define TG_KIT_OPERANDS_H
#include "kit/fields.h"

/* step[0]: elements from one row to the next; step[1]: from one column to the next; size: bytes of an element. */
typedef struct tg_kit_layout { int64_t step[2]; uint32_t size; } tg_kit_layout;

/* What a plan knows of an operand whose strides a call gives. call and name are for messages, such as "tg_gemm_call"
 * and "a". */
typedef struct tg_kit_operand {
  const char *call, *name;
  uint8_t major;                 /* TG_ROW_MAJOR.. */
  bool written;                  /* the operand is written, so its rows (or columns) may not overlap */
  /* step: stride within a row (column major: within a column); 0 or 1: contiguous. fixed: the leading dimension, if
   * the plan fixes it; 0: the call gives it */
  int64_t step, fixed;
  int64_t rows, columns;
} tg_kit_operand;
/* Completes and checks the strides of a call: {0, 0} is dense, and strides that the plan fixes may be 0. *ld: elements
 * from one row to the next (column major: from one column to the next); *next: the other stride. */
tg_status tg_kit_read_layout(tg_context *c, const tg_kit_operand *o, const int64_t given[2], tg_kit_layout *out,
                             int64_t *ld, int64_t *next);

/* An operand of a call in memory: extent[i] elements in dimension i, step[i] elements apart, none of them negative. */
enum { TG_KIT_DIMS = 4 };
typedef struct tg_kit_tensor {
  const char *name;              /* the field of the call, for messages */
  uint32_t nth;                  /* 1 + the index into the field, if it is an array; else 0 */
  uint32_t size;                 /* bytes of an element */
  int64_t extent[TG_KIT_DIMS], step[TG_KIT_DIMS];
  /* what tg_kit_place finds: the address, and the bytes from the first element to the end of the last, 0 if there is
   * none */
  uintptr_t at;
  int64_t bytes;
} tg_kit_tensor;
tg_kit_tensor tg_kit_matrix(const char *name, const tg_kit_layout *o, int64_t rows, int64_t columns);
/* n elements side by side */
tg_kit_tensor tg_kit_vector(const char *name, int64_t n, uint32_t size);

/* TG_EINVAL: a stride is negative, or past 2^40 though there is something to step over. x->step[i] is what the call
 * gives in its field <name>_strides[i]. */
tg_status tg_kit_check_strides(tg_context *c, const char *call, const tg_kit_tensor *x);
/* Finds x->bytes. TG_EINVAL: they are more than 2^62. */
tg_status tg_kit_reach(tg_context *c, const char *call, tg_kit_tensor *x);
/* Has each element an address of its own? Sufficient test: each step is beyond what the smaller ones reach. */
bool tg_kit_is_apart(const tg_kit_tensor *x);
/* Puts x, whose bytes are known, at p. TG_EINVAL: p is NULL though there are elements, or is not aligned to them.
 * tg_kit_place finds the bytes first. */
tg_status tg_kit_fail_pointer(tg_context *c, const char *call, const tg_kit_tensor *x);
static inline tg_status tg_kit_place_known(tg_context *c, const char *call, tg_kit_tensor *x, const void *p) {
  x->at = (uintptr_t)p;
  return (p || !x->bytes) && !(x->at & (x->size - 1)) ? TG_OK : tg_kit_fail_pointer(c, call, x);
}
tg_status tg_kit_place(tg_context *c, const char *call, tg_kit_tensor *x, const void *p);

/* Do x and y share no byte? Parts of one larger tensor may be disjoint although their spans overlap, as the elements of
 * one lie between those of the other (is_interleaved): so if, modulo one of the steps, both keep to ranges of addresses
 * that are disjoint. False if it cannot be told. */
bool tg_kit_is_interleaved(const tg_kit_tensor *x, const tg_kit_tensor *y);
static inline bool tg_kit_is_disjoint(const tg_kit_tensor *x, const tg_kit_tensor *y) {
  return !x->bytes || !y->bytes || x->at + (uintptr_t)x->bytes <= y->at || y->at + (uintptr_t)y->bytes <= x->at ||
         tg_kit_is_interleaved(x, y);
}
/* TG_EINVAL: x, which is written, and y overlap, or it cannot be told. */
tg_status tg_kit_fail_overlap(tg_context *c, const char *call, const tg_kit_tensor *x, const tg_kit_tensor *y);
static inline tg_status tg_kit_check_overlap(tg_context *c, const char *call, const tg_kit_tensor *x,
                                             const tg_kit_tensor *y) {
  return tg_kit_is_disjoint(x, y) ? TG_OK : tg_kit_fail_overlap(c, call, x, y);
}
/* Places an operand that is read, which must not overlap the result (NULL: this is not checked). */
tg_status tg_kit_check_read(tg_context *c, const char *call, tg_kit_tensor *x, const void *p,
                            const tg_kit_tensor *result);
/* The same for argument a of an epilogue, for a result of m by n. *ld: leading dimension that the call gives; 0 is
 * replaced by the default. */
tg_status tg_kit_check_argument(tg_context *c, const char *call, uint32_t a, const tg_kit_argument *x, const void *p,
                                int64_t m, int64_t n, const tg_kit_tensor *result, int64_t *ld);

/* p + bytes. p may be NULL if bytes is 0: adding to NULL is undefined. */
static inline void *tg_kit_behind(void *p, int64_t bytes) { return bytes ? (char *)p + bytes : p; }
#endif
