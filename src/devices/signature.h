/* SPDX-License-Identifier: MIT
 * What a launch must satisfy, as flat data: it is stored with the code. */
#ifndef TG_SIGNATURE_H
#define TG_SIGNATURE_H
#include "dsl/uop.h"

/* bytes: -1 where dims need parameters */
typedef struct { uint32_t name, first, rank; uint8_t type, role, strided, unused; int64_t bytes; } tg_signature_buffer;
typedef struct { uint32_t name, unused; int64_t lo, hi, multiple; } tg_signature_param;
typedef struct { uint32_t start, n, text, unused; } tg_signature_expr;   /* postfix in code; text of a require */
typedef struct { uint16_t op; uint8_t type, from; uint32_t arity; int64_t arg; } tg_signature_code;

typedef struct tg_signature {
  uint32_t bytes;              /* of it all */
  /* the last requires_n of the exprs are requirements */
  uint32_t buffers_n, params_n, exprs_n, requires_n, code_n, strings_n, name;
  /* then: buffers, params, exprs, code, strings */
} tg_signature;

/* of the author's program; in the job's arena */
const tg_signature *tg_signature_build(tg_job *j);
/* of data from elsewhere: every reference lies inside */
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
/* Bytes of buffer b: NULL, or what is wrong, in out: a size or a stride below 0, bytes past 2^62. */
const char *tg_signature_bytes(const tg_signature *s, uint32_t b, const int64_t *params, int64_t *bytes, char *out,
                               size_t n);
/* False if the strides of buffer b may lay two elements on one place (which no written buffer may). After
 * tg_signature_bytes. */
bool tg_signature_apart(const tg_signature *s, uint32_t b, const int64_t *params);
/* Parameters in their class, and requirements: NULL, or what is wrong, in out. */
const char *tg_signature_check_params(const tg_signature *s, const int64_t *params, char *out, size_t n);
#endif
