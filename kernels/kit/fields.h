/* SPDX-License-Identifier: MIT
 * Descriptors and calls as their callers write them: structs of older headers, sizes, types, strides, arguments of
 * epilogues. What is wrong is told by the field's name; nothing is written then. */
#ifndef TG_KIT_FIELDS_H
#define TG_KIT_FIELDS_H
#include "kit/problem.h"
#include "tg/exec.h"

/* The context's message, and the status. */
tg_status tg_kit_fail(tg_context *c, tg_status s, const char *format, ...) TG_PRINTF(3, 4);

/* A struct of a program that was built against an older header, or a newer one: zeros where it has no fields. */
void tg_kit_read_struct(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* A descriptor's size, within 0..most; and a call's, of the plan's: 0 stands for one that is fixed. False: none. */
bool tg_kit_read_dim(tg_dim d, int64_t most, tg_kit_dim *out);
bool tg_kit_read_size(tg_kit_dim d, int64_t given, int64_t *out);

/* i8, u8, i32, f16, bf16, f32, f64 */
bool tg_kit_is_element(tg_type t);
bool tg_kit_is_integer(tg_type t);
bool tg_kit_is_float(tg_type t);

/* The arguments of a descriptor's epilogue. desc: its name, "tg_gemm_desc"; formals: names that the epilogue has
 * already, "acc, m, n", and as they are spoken of, "acc, m and n". Types are acc's where the field is 0. */
typedef struct tg_kit_given { const char *name; uint8_t type, per; } tg_kit_given;
tg_status tg_kit_read_arguments(tg_context *c, const char *desc, const char *formals, const char *spoken,
                                const char *epilogue, tg_type acc, const tg_kit_given given[TG_KIT_ARGUMENTS],
                                tg_kit_argument out[TG_KIT_ARGUMENTS], uint32_t *out_n);
#endif
