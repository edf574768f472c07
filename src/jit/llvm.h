/* SPDX-License-Identifier: MIT
 * LLVM's C API and the differences between its versions 19 to 22. No other file of tg tests the version. */
#ifndef TG_LLVM_H
#define TG_LLVM_H
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>
#include <string.h>
#include "target/target.h"
#if __has_include(<llvm/Config/Targets.h>)
#include <llvm/Config/Targets.h>
#endif

#if LLVM_VERSION_MAJOR < 19
#error "LLVM 19 or later"
#endif

/* Does this LLVM know the processor? It prints to stderr if it is given another. */
static inline int tg_llvm_knows(const char *cpu) {
  return LLVM_VERSION_MAJOR >= 20 || (strncmp(cpu, "sm_1", 4) && strcmp(cpu, "gfx950"));
}

/* llvm.masked.*: the alignment is an operand up to 21, an attribute of the pointer from 22 on. */
#define TG_LLVM_MASKED_ALIGN_OPERAND (LLVM_VERSION_MAJOR < 22)

/* Can the C API set the scope of atomics and fences? Before 20 all have system scope, which is stronger. */
#define TG_LLVM_SCOPES (LLVM_VERSION_MAJOR >= 20)

/* Does it end the process where more than four numbers of f32 that were loaded are made f64 on NVIDIA's GPUs? */
#define TG_LLVM_WIDE_EXTENSION (LLVM_VERSION_MAJOR < 22)

/* Was it built with the back end for SPIR-V? */
#ifdef LLVM_HAS_SPIRV_TARGET
#define TG_LLVM_SPIRV LLVM_HAS_SPIRV_TARGET
#else
#define TG_LLVM_SPIRV 0
#endif

static inline bool tg_llvm_compiles_for(const tg_target *t) {
  return t->arch == TG_ARCH_OPENCL ? TG_LLVM_SPIRV && tg_target_takes_spirv(t) : tg_llvm_knows(t->cpu);
}

/* Up to 21, launch bounds of a CUDA kernel are module metadata; from 22 on, function attributes. */
#define TG_LLVM_NVVM_ANNOTATIONS (LLVM_VERSION_MAJOR < 22)
#endif
