/* SPDX-License-Identifier: MIT
 * Reading the descriptors and calls of an operation: sizes, types, strides, arguments of
 * epilogues. An error message names the field that is wrong, such as "tg_gemm_desc.arg[1].type". */
#ifndef TG_KIT_FIELDS_H
#define TG_KIT_FIELDS_H
#include "kit/problem.h"
#include "tg/exec.h"

/* Sets the context's message and returns s. */
tg_status tg_kit_fail(tg_context *c, tg_status s, const char *format, ...) TG_PRINTF(3, 4);

/* tg_kit_read_dim: reads a size of a descriptor; false unless it is within 0..most. tg_kit_read_size: reads that size
 * of a call; false if d is fixed and given is neither 0 nor the fixed size, or if given is outside d's range.
 * read_dims and check_size are the same, for sizes within 0..2^31, with a message. */
bool tg_kit_read_dim(tg_dim d, int64_t most, tg_kit_dim *out);
bool tg_kit_read_size(tg_kit_dim d, int64_t given, int64_t *out);
typedef struct tg_kit_sized { const char *name; tg_dim given; tg_kit_dim *to; } tg_kit_sized;
tg_status tg_kit_read_dims(tg_context *c, const char *desc, const tg_kit_sized *sizes, uint32_t n);
tg_status tg_kit_check_size(tg_context *c, const char *call, const char *name, tg_kit_dim d, int64_t given,
                            int64_t *out);

/* TG_EINVAL if a field of a descriptor is none of the types in `names`, "f32, f16, bf16"; if a bit of its flags means
 * nothing. */
#define TG_KIT_ELEMENTS "i8, u8, i32, f16, bf16, f32, f64"
tg_status tg_kit_check_type(tg_context *c, const char *desc, const char *field, tg_type t, const char *names);
tg_status tg_kit_check_flags(tg_context *c, const char *desc, uint32_t flags, uint32_t known);

bool tg_kit_is_integer(tg_type t);
bool tg_kit_is_float(tg_type t);

/* Reads and checks the arguments of a descriptor's expressions. */
typedef struct tg_kit_given { const char *name; uint8_t type, per; } tg_kit_given;
typedef struct tg_kit_formals {
  const char *desc;             /* name of the descriptor's type in messages, such as "tg_gemm_desc" */
  const char *formals;          /* names that arguments may not have: "acc, m, n, epilogue" */
  const char *spoken;           /* those of them that the text may read, in a sentence */
  bool read;                    /* is there an expression that reads them? */
  const char *reader;           /* what would, such as "an epilogue" */
  tg_type type;                 /* that an argument whose type is 0 has */
  uint8_t most_per;
  const char *pers;             /* the names of the values of per, in messages */
} tg_kit_formals;
tg_status tg_kit_read_arguments(tg_context *c, const tg_kit_formals *f, const tg_kit_given given[TG_KIT_ARGUMENTS],
                                tg_kit_argument out[TG_KIT_ARGUMENTS], uint32_t *out_n);
#endif
