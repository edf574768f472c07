/* SPDX-License-Identifier: MIT
 * What a row of x86-64 says that its code needs is what LLVM has for the processor of that name. LLVM's interface does not tell; its inliner does: it takes a function with one
 * feature into a caller for the processor only if the processor has it. */
#include <stdlib.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "../test.h"
#include "target/processor.h"

static LLVMModuleRef module_of(LLVMContextRef c, const tg_target *t) {
  static char text[1 << 16];
  size_t n = (size_t)snprintf(text, sizeof text, "target triple = \"%s\"\n", t->triple);
  for (uint32_t i = 0; i < TG_X86_FEATURES; i++)
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "define internal i32 @callee%u(i32 %%x) \"target-cpu\"=\"x86-64\" \"target-features\"=\"+%s\" { %%y = mul i32 %%x, %u\n ret i32 %%y }\n"
                          "define i32 @caller%u(i32 %%x) \"target-cpu\"=\"%s\" { %%y = call i32 @callee%u(i32 %%x)\n ret i32 %%y }\n",
                          i, tg_feature_at(t->arch, i)->name, i + 3, i, t->cpu, i);
  LLVMModuleRef m = NULL;
  char *message = NULL;
  LLVMMemoryBufferRef b = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, n, "rows");
  if (LLVMParseIRInContext(c, b, &m, &message)) {
    CHECK(false, "%s", message);
    LLVMDisposeMessage(message);
  }
  return m;
}

static void one(LLVMTargetRef target, const tg_target *t) {
  LLVMContextRef c = LLVMContextCreate();
  LLVMModuleRef m = module_of(c, t);
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, t->triple, t->cpu, "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
  CHECK(m && machine && !LLVMRunPasses(m, "cgscc(inline)", machine, o), "%s: the inliner", t->name);
  for (uint32_t i = 0; i < TG_X86_FEATURES && m; i++) {
    char name[32];
    snprintf(name, sizeof name, "callee%u", i);
    bool has = !LLVMGetNamedFunction(m, name);   /* taken in, and then of no use */
    CHECK(has == (t->needs >> i & 1), "%s: LLVM's processor has %s%s, the row says otherwise", t->name, has ? "" : "no ", tg_feature_at(t->arch, i)->name);
  }
  LLVMDisposePassBuilderOptions(o);
  LLVMDisposeTargetMachine(machine);
  if (m) LLVMDisposeModule(m);
  LLVMContextDispose(c);
}

int main(void) {
  tg_target t;
  LLVMTargetRef target = NULL;
  char *message = NULL;
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  for (uint32_t i = 0; tg_target_name(i); i++) {
    if (!tg_target_row(&t, tg_target_name(i)) || t.arch != TG_ARCH_X86_64) continue;
    if (!target) CHECK(!LLVMGetTargetFromTriple(t.triple, &target, &message), "%s", message);
    one(target, &t);
  }
  return TEST_END();
}
