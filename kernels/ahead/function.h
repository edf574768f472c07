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
/* Begins the function: its arguments, the memory of its checks, and %t, the number of threads that share the work. */
void tg_function_open(tg_wrapper *w);
/* Returns 0 if one of the two sizes is 0: nothing is to be written then, and nothing is checked further. */
void tg_function_unless_empty(tg_wrapper *w, tg_ir a, tg_ir b);
/* Checks that %workspace has `needed` bytes, and returns its address, up to the next multiple of 64. */
tg_ir tg_function_workspace(tg_wrapper *w, tg_ir needed);
/* Likewise for what NAME_workspace says for %t threads; then %memory points there. */
void tg_function_memory(tg_function *f);
/* Writes the adaptors of all kernels, behind the function, and NAME.side, the bytes of one thread that runs kernels
 * apart from the others. */
void tg_function_end(tg_function *f);
/* The function NAME_workspace of the number of threads alone. */
void tg_function_put_workspace(tg_function *f);

/* The signature of a kernel that only declares, in the job of the object. */
const tg_signature *tg_function_signature(tg_env *env, const tg_kernel_def *def, const tg_binding *b, uint32_t n,
                                          void *user);
/* The number of the name in a list; n: it is not there. */
uint32_t tg_function_number(const char *name, const char *const *names, uint32_t n);
/* The signature's parameter of that name; its constant value if it has none. */
tg_ir tg_function_value(const tg_wrapper *w, const char *name, int64_t otherwise);
/* Begins a switch on the target: blocks %target0.. must follow, one for each. */
void tg_function_switch(tg_function *f);
/* The header: what the function is, with its arguments; the caller's own lines; its declaration, and that of
 * NAME_workspace, which takes `sizes` before the number of threads. */
void tg_function_header_begin(tg_wrapper *w, tg_str *o, const char *what);
void tg_function_header_end(tg_wrapper *w, tg_str *o, const char *sizes);
#endif
