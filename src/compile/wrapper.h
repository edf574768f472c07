/* SPDX-License-Identifier: MIT
 * The function around a kernel that is built ahead of time (tg/build.h), as LLVM IR in text: checks of the arguments,
 * the choice of a target, phases and tasks. And the C header that declares it. */
#ifndef TG_WRAPPER_H
#define TG_WRAPPER_H
#include "code/code.h"
#include "devices/signature.h"
#include "target/target.h"

/* The kernel compiled for one target. ir: its module, whose functions F are named F.tN in the object, for the N-th
 * target. */
typedef struct tg_wrapped { const tg_target *target; const char *ir; tg_code_info info; } tg_wrapped;

typedef TG_VEC(const char *) tg_messages;

typedef struct tg_wrapper {
  tg_env *env;
  const char *name;            /* of the kernel and of the function */
  const tg_signature *signature;
  const tg_wrapped *of;        /* by rising number of instruction sets */
  uint32_t n;
  tg_str out;                  /* the IR */
  uint32_t values;             /* names given to values so far */
  tg_messages messages;        /* message i belongs to the result i + 1 */
} tg_wrapper;

/* Inside tg_protect. All IR but the modules of the targets. */
void tg_wrapper_write(tg_wrapper *w);
/* wrapper_pick.c: @tg.pick, which returns 1 plus the number of the target to use, or 0. */
void tg_wrapper_pick(tg_wrapper *w);
/* wrapper_run.c: @run.tN for each target: all phases, on checked arguments; 1: out of memory. */
void tg_wrapper_run(tg_wrapper *w, uint32_t target);
/* wrapper_header.c: after tg_wrapper_write. */
const char *tg_wrapper_header(tg_wrapper *w);
/* The C name of a buffer or parameter: a name that C or C++ keeps for itself, or that has dots, is changed. */
const char *tg_wrapper_c_name(tg_wrapper *w, const char *name);
/* Is it a name that C and C++ take for a function? */
bool tg_wrapper_name_fits(const char *name);
#endif
