/* SPDX-License-Identifier: MIT
 * Functions around kernels that are built ahead of time (tg/build.h), as LLVM IR in text: checks of arguments, the
 * choice of a target, phases and tasks. And the C headers that declare them. An object has any number of functions,
 * each of which calls any number of kernels. */
#ifndef TG_WRAPPER_H
#define TG_WRAPPER_H
#include "code/code.h"
#include "devices/signature.h"
#include "target/target.h"

/* A kernel compiled for one target. ir: its module, whose functions F are named F.tK in the object, for kernel K. */
typedef struct tg_wrapped {
  const char *name;
  const tg_signature *signature;
  const char *ir;
  size_t ir_n;                 /* bytes of ir; for a device, the object for its driver stands there */
  const tg_code_info *info;
  bool given;                  /* its callers give the workspace: tg_wrapper_add */
} tg_wrapped;

typedef TG_VEC(const char *) tg_messages;

typedef struct tg_wrapper {
  tg_env *env;
  const tg_target *const *target;   /* by rising number of instruction sets */
  uint32_t targets_n;
  TG_VEC(tg_wrapped) of;
  tg_str out;                  /* the IR */
  uint32_t values;             /* names given to values so far */
  bool allocates, declare_allocator;   /* some code calls malloc and free; they are not declared yet */
  /* of the function that is being written: */
  const char *name;
  const tg_signature *signature;
  tg_messages messages;        /* message i belongs to the result i + 1 */
} tg_wrapper;

/* All is called inside tg_protect. Begin: helpers, and @tg.pick, which returns 1 plus the number of the target to use,
 * or 0. End: for each kernel K
 *   i32 @run.tK(ptr buffers, ptr params, ptr memory, i64 threads, ptr parallel_for, ptr user)
 * which runs all phases on checked arguments. buffers has room for one more. parallel_for, if not null, is called with
 * at most `threads` tasks. memory: aligned to 64 bytes, tg_wrapper_memory's number of them; null: each task allocates
 * what it needs. Returns 1 if memory was missing. */
void tg_wrapper_begin(tg_wrapper *w);
uint32_t tg_wrapper_add(tg_wrapper *w, tg_wrapped kernel);   /* K */
void tg_wrapper_end(tg_wrapper *w);
/* Bytes that a kernel wants in memory: for all, and for each thread. What is small lies on the stack instead. */
typedef struct tg_wrapper_bytes { uint64_t shared, each; } tg_wrapper_bytes;
tg_wrapper_bytes tg_wrapper_memory(const tg_wrapped *kernel);

/* A value of the IR: its name, or a number. */
typedef struct tg_ir { char text[24]; } tg_ir;
tg_ir tg_ir_number(int64_t n);
/* The value of an instruction, whose text is what stands behind "=". */
tg_ir tg_ir_put(tg_wrapper *w, const char *format, ...) TG_PRINTF(2, 3);
/* Of 64 bits, without a check of what passes them. divided: by a positive one, of one that is not negative. */
tg_ir tg_ir_add(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_sub(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_mul(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_divided(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_smaller(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_larger(tg_wrapper *w, tg_ir a, tg_ir b);
tg_ir tg_ir_is(tg_wrapper *w, const char *how, tg_ir a, tg_ir b);   /* how: "slt".. of icmp; of type i1 */
tg_ir tg_ir_select(tg_wrapper *w, tg_ir which, tg_ir a, tg_ir b);
/* The i-th element of an array of i64 or of pointers at `array`. */
void tg_ir_store(tg_wrapper *w, const char *type, tg_ir v, tg_ir array, uint32_t i);
tg_ir tg_ir_load(tg_wrapper *w, const char *type, tg_ir array, uint32_t i);

/* The parts of a function, in order. Arguments: "ptr %b0, i64 %n0, .. i64 %a0, .." with a comma behind each: buffers
 * and parameters of the signature; the checks read parameter i as %pi. Start: memory for the checks. */
void tg_wrapper_arguments(tg_wrapper *w);
void tg_wrapper_start(tg_wrapper *w);
/* Returns a result of its own, which stands for the message, unless `right`, an i1, holds. */
void tg_wrapper_check(tg_wrapper *w, tg_ir right, const char *message);
void tg_wrapper_check_params(tg_wrapper *w);
void tg_wrapper_check_buffers(tg_wrapper *w, bool overlaps);   /* overlaps: whether those that are written overlap */
/* The number of the target, checked; and the result that says that memory was missing. */
tg_ir tg_wrapper_picked(tg_wrapper *w);
uint32_t tg_wrapper_no_memory(tg_wrapper *w);

/* wrapper_kernel.c: the function of one kernel alone, K[i] for target i, and its header but what stands behind. */
void tg_wrapper_kernel(tg_wrapper *w, const uint32_t *k, tg_str *header);
/* wrapper_data.c: the same kernel for a device, as data of the object, and what the header says of it. */
void tg_wrapper_data(tg_wrapper *w, const tg_wrapped *kernel, const tg_target *target, tg_str *header);
/* wrapper_pick.c */
void tg_wrapper_pick(tg_wrapper *w);
/* wrapper_run.c */
void tg_wrapper_run(tg_wrapper *w, uint32_t kernel);

/* wrapper_header.c: the parts of a header. before, behind: what surrounds all declarations, once. */
void tg_wrapper_header_before(tg_str *o, const char *guard);
void tg_wrapper_header_behind(tg_str *o);
/* The lines of a comment for the buffers, parameters and requirements. */
void tg_wrapper_header_lines(tg_wrapper *w, tg_str *o);
void tg_wrapper_header_targets(tg_wrapper *w, tg_str *o);
/* "const float *A, size_t A_bytes,\n    int64_t M, " */
void tg_wrapper_header_arguments(tg_wrapper *w, tg_str *o);
void tg_wrapper_header_messages(tg_wrapper *w, tg_str *o);   /* the function NAME_message */
/* The C name of a buffer or parameter: a name that C or C++ keeps for itself, or that has dots, is changed. */
const char *tg_wrapper_c_name(tg_wrapper *w, const char *name);
/* Is it a name that C and C++ take for a function? */
bool tg_wrapper_name_fits(const char *name);
#endif
