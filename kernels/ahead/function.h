/* SPDX-License-Identifier: MIT
 * A plan as a function of an object (tg/build.h): what products and attention have in common. The function checks its
 * arguments, picks the code of a target, and calls kernels with the operands and values of the call, from which each
 * takes its own, as in a run of the plan (kit/plan.h). */
#ifndef TG_AHEAD_FUNCTION_H
#define TG_AHEAD_FUNCTION_H
#include "compile/ahead.h"
#include "kit/plan.h"

typedef struct tg_function_call { uint32_t k; const tg_kit_kernel *kernel; } tg_function_call;

typedef struct tg_function {
  tg_wrapper *w;
  TG_VEC(tg_function_call) calls;
  uint64_t shared, each;       /* most bytes of workspace that a kernel wants: for all threads, for each */
  bool side_by_side;           /* threads run kernels apart, each with its own `shared` bytes */
} tg_function;

/* Adds a kernel, and returns its K: it is called as
 *   void @call.tK(ptr operands, ptr values, ptr memory, i64 threads, ptr parallel_for, ptr user) */
uint32_t tg_function_add(tg_function *f, const tg_kit_kernel *k);
/* Writes the adaptors of all kernels, behind the function, and the function NAME_workspace. */
void tg_function_end(tg_function *f, uint64_t more);
void tg_function_adaptor(tg_wrapper *w, const tg_function_call *c);   /* of one kernel */
/* Inside the function: %memory, aligned to 64 bytes, in %workspace, which is checked to have what NAME_workspace says
 * for %t threads. */
void tg_function_memory(tg_function *f, uint64_t more);

/* The signature of a kernel that only declares, in the job of the object. */
const tg_signature *tg_function_signature(tg_env *env, const tg_kernel_def *def, const tg_binding *b, uint32_t n,
                                          void *user);
/* The number of the name in a list; n: it is not there. */
uint32_t tg_function_number(const char *name, const char *const *names, uint32_t n);
/* The signature's parameter of that name; its constant value if it has none. */
tg_ir tg_function_value(const tg_wrapper *w, const char *name, int64_t otherwise);
/* Begins a switch on the target: blocks %target0.. must follow, one for each. */
void tg_function_switch(tg_function *f);
/* The declaration of the function's last arguments, and what a comment says of them. */
void tg_function_header_end(tg_wrapper *w, tg_str *o);
extern const char tg_function_header_note[];
#endif
