/* SPDX-License-Identifier: MIT
 * Reading the descriptors and calls of an operation: structs of older headers, sizes, types, strides, arguments of
 * epilogues. An error message names the field that is wrong, such as "tg_gemm_desc.arg[1].type". */
#ifndef TG_KIT_FIELDS_H
#define TG_KIT_FIELDS_H
#include "kit/problem.h"
#include "tg/exec.h"

/* Sets the context's message and returns s. */
tg_status tg_kit_fail(tg_context *c, tg_status s, const char *format, ...) TG_PRINTF(3, 4);

/* Copies a struct of a program that was built against an older or newer header, which may be shorter or longer than
 * ours; fields that it lacks become 0. */
void tg_kit_read_struct(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* tg_kit_read_dim: reads a size of a descriptor; false unless it is within 0..most. tg_kit_read_size: reads that size
 * of a call; false if d is fixed and given is neither 0 nor the fixed size, or if given is outside d's range. */
bool tg_kit_read_dim(tg_dim d, int64_t most, tg_kit_dim *out);
bool tg_kit_read_size(tg_kit_dim d, int64_t given, int64_t *out);

/* Is t one of i8, u8, i32, f16, bf16, f32, f64, which operands may have? */
bool tg_kit_is_element(tg_type t);
bool tg_kit_is_integer(tg_type t);
bool tg_kit_is_float(tg_type t);

/* Reads and checks the arguments of a descriptor's expressions. */
typedef struct tg_kit_given { const char *name; uint8_t type, per; } tg_kit_given;
typedef struct tg_kit_formals {
  const char *desc;             /* name of the descriptor's type in messages, such as "tg_gemm_desc" */
  const char *formals, *spoken; /* names that arguments may not have, "acc, m, n"; the same in a sentence */
  bool read;                    /* is there an expression that reads them? */
  const char *reader;           /* what would, such as "an epilogue" */
  tg_type type;                 /* that an argument whose type is 0 has */
  uint8_t most_per;
  const char *pers;             /* the names of the values of per, in messages */
} tg_kit_formals;
tg_status tg_kit_read_arguments(tg_context *c, const tg_kit_formals *f, const tg_kit_given given[TG_KIT_ARGUMENTS],
                                tg_kit_argument out[TG_KIT_ARGUMENTS], uint32_t *out_n);
#endif
