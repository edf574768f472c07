/* SPDX-License-Identifier: MIT
 * A kernel's signature: what the arguments of a launch must satisfy, as one block of flat data without pointers, which
 * is stored with the code in the cache. `name` and `text` fields are offsets into its strings. */
#ifndef TG_SIGNATURE_H
#define TG_SIGNATURE_H
#include "dsl/uop.h"

/* first: index of the buffer's first expr: `rank` dimensions, then, if it is strided, `rank` strides, then, if it is
 * promised, the least and the largest value that its elements may have. bytes: the buffer's size; -1: it depends on
 * parameters. before: of a size that does not, its bytes before the element of subscripts 0. place: of the promise, as
 * "file:line" */
typedef struct {
  uint32_t name, first, rank;
  uint8_t type, role, strided, promised;
  int64_t bytes, before;
  uint32_t place, unused;
} tg_signature_buffer;
typedef struct { uint32_t name, unused; int64_t lo, hi, multiple; } tg_signature_param;
/* n operations in postfix order, from code[start] on; text: of a requirement, its source text */
typedef struct { uint32_t start, n, text, unused; } tg_signature_expr;
/* an operation on the last `arity` values of a stack. type: of its result; from: of its last operand; arg: a constant's
 * value, or the number of a parameter */
typedef struct { uint16_t op; uint8_t type, from; uint32_t arity; int64_t arg; } tg_signature_code;

typedef struct tg_signature {
  uint32_t bytes;              /* of the whole block */
  /* numbers of elements in the arrays that follow, strings_n in bytes; the last requires_n of the exprs are
   * requirements. name: of the kernel */
  uint32_t buffers_n, params_n, exprs_n, requires_n, code_n, strings_n, name;
  /* the arrays follow in memory: buffers, params, exprs, code, strings */
} tg_signature;

/* The signature of the author's program, in the job's arena. */
const tg_signature *tg_signature_build(tg_job *j);
/* Checks data read from a file: does every index and offset lie inside? */
bool tg_signature_valid(const tg_signature *s, size_t bytes);
static inline const tg_signature_buffer *tg_signature_buffers(const tg_signature *s) {
  return (const tg_signature_buffer *)(s + 1);
}
static inline const tg_signature_param *tg_signature_params(const tg_signature *s) {
  return (const tg_signature_param *)(tg_signature_buffers(s) + s->buffers_n);
}
static inline const tg_signature_expr *tg_signature_exprs(const tg_signature *s) {
  return (const tg_signature_expr *)(tg_signature_params(s) + s->params_n);
}
static inline const tg_signature_code *tg_signature_codes(const tg_signature *s) {
  return (const tg_signature_code *)(tg_signature_exprs(s) + s->exprs_n);
}
static inline const char *tg_signature_strings(const tg_signature *s) {
  return (const char *)(tg_signature_codes(s) + s->code_n);
}
/* Sets *bytes to the size of buffer b, from its first element in memory to its last, and *before to the bytes of it
 * that lie before the element of subscripts 0, whose strides are negative. Returns NULL, or an error text (written to
 * out): a negative dimension, or a size above 2^62. */
const char *tg_signature_bytes(const tg_signature *s, uint32_t b, const int64_t *params, int64_t *bytes,
                               int64_t *before, char *out, size_t n);
/* The first element of buffer b, whose first element in memory is at `data`, that is not within what is promised.
 * Returns NULL: there is none, or nothing is promised; or an error text (written to out). */
const char *tg_signature_check_promise(const tg_signature *s, uint32_t b, const int64_t *params, const void *data,
                                       char *out, size_t n);
/* False if the strides of buffer b may place two elements at one address, which is not allowed for buffers that are
 * written. Call tg_signature_bytes first. */
bool tg_signature_apart(const tg_signature *s, uint32_t b, const int64_t *params);
/* Checks ranges and multiples of the parameters, and the requirements. Returns NULL, or an error text (written to
 * out). */
const char *tg_signature_check_params(const tg_signature *s, const int64_t *params, char *out, size_t n);
#endif
