/* SPDX-License-Identifier: MIT
 * One object file of several modules, for code that is built ahead of time: a kernel for several targets and the
 * function around it. Each module's functions carry their processor and its features as attributes, so that LLVM makes
 * the same code of them as alone. */
#include <stdio.h>
#include "jit/emit.h"
#include "jit/jit.h"

typedef struct {
  tg_job *j;
  const tg_target *target;
  const char *const *texts, *around, *name;
  uint32_t n;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMTargetMachineRef machine;
  LLVMMemoryBufferRef buffer;
  TG_VEC(const char *) shown;  /* functions that stay global */
  char *message; /* LLVM's: the first error */
  tg_object object;
} assembly;

static void on_diagnostic(LLVMDiagnosticInfoRef d, void *user) {
  assembly *a = user;
  if (LLVMGetDiagInfoSeverity(d) == LLVMDSError && !a->message) a->message = LLVMGetDiagInfoDescription(d);
}

static void check(assembly *a, bool failed, const char *what) {
  if (failed || a->message)
    tg_bug(&a->j->env, "%s of %s: LLVM: %s", what, a->name, a->message ? a->message : "it does not say why");
}

static LLVMModuleRef parse(assembly *a, const char *text) {
  LLVMModuleRef m = NULL;
  char *message = NULL;
  LLVMMemoryBufferRef b = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), a->name);
  bool failed = LLVMParseIRInContext(a->c, b, &m, &message); /* takes the buffer */
  if (message && !a->message)
    a->message = message;
  else
    LLVMDisposeMessage(message);
  check(a, failed, "the text");
  return m;
}

static bool is_defined(LLVMValueRef f) { return !LLVMIsDeclaration(f); }

static void number_functions(assembly *a, LLVMModuleRef m, uint32_t number) {
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
    size_t n;
    if (!is_defined(f)) continue;
    const char *name = tg_format(&a->j->env, "%s.t%u", LLVMGetValueName2(f, &n), number);
    LLVMSetValueName2(f, name, strlen(name));
  }
}

/* The functions of the text `around` that may be called from outside. */
static void note_public(assembly *a) {
  size_t n;
  for (LLVMValueRef f = LLVMGetFirstFunction(a->m); f; f = LLVMGetNextFunction(f))
    if (is_defined(f) && LLVMGetLinkage(f) == LLVMExternalLinkage)
      tg_push(&a->j->env, &a->shown, tg_strdup(&a->j->env, LLVMGetValueName2(f, &n)));
}

static void hide(assembly *a) {
  for (LLVMValueRef f = LLVMGetFirstFunction(a->m); f; f = LLVMGetNextFunction(f)) {
    size_t n;
    const char *name = LLVMGetValueName2(f, &n);
    bool shown = !is_defined(f);
    for (uint32_t i = 0; i < a->shown.n && !shown; i++) shown = !strcmp(name, a->shown.data[i]);
    if (!shown) LLVMSetLinkage(f, LLVMInternalLinkage);
  }
}

static void run(void *p) {
  assembly *a = p;
  tg_target base = *a->target;
  snprintf(base.cpu, sizeof base.cpu, base.arch == TG_ARCH_X86_64 ? "x86-64" : "generic");
  base.features[0] = 0;
  a->c = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(a->c, on_diagnostic, a);
  a->machine = tg_llvm_machine(&base, LLVMCodeGenLevelDefault);
  if (!a->machine) tg_fail(&a->j->env, TG_EBACKEND, "LLVM has no target '%s'", base.triple);
  a->m = parse(a, a->around);
  note_public(a);
  for (uint32_t i = 0; i < a->n; i++) {
    LLVMModuleRef m = parse(a, a->texts[i]);
    number_functions(a, m, i);
    if (!i) LLVMSetDataLayout(a->m, LLVMGetDataLayoutStr(m)), LLVMSetTarget(a->m, base.triple);
    check(a, LLVMLinkModules2(a->m, m), "the link"); /* takes the module */
  }
  hide(a);
  char *message = NULL;
  bool failed = LLVMVerifyModule(a->m, LLVMReturnStatusAction, &message);
  if (failed && !a->message)
    a->message = message;
  else
    LLVMDisposeMessage(message);
  check(a, failed, "the module");
  message = NULL;
  failed = LLVMTargetMachineEmitToMemoryBuffer(a->machine, a->m, LLVMObjectFile, &message, &a->buffer);
  if (failed && !a->message) a->message = message;
  check(a, failed, "the code");
  a->object.bytes = LLVMGetBufferSize(a->buffer);
  a->object.data = tg_alloc(&a->j->env, a->object.bytes);
  memcpy(a->object.data, LLVMGetBufferStart(a->buffer), a->object.bytes);
}

tg_object tg_llvm_assemble(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                           const char *name) {
  assembly a = {.j = j, .target = t, .texts = texts, .n = n, .around = around, .name = name};
  bool ok = tg_protect(&j->env, run, &a);
  if (a.buffer) LLVMDisposeMemoryBuffer(a.buffer);
  if (a.message) LLVMDisposeMessage(a.message);
  if (a.m) LLVMDisposeModule(a.m);
  if (a.c) LLVMContextDispose(a.c);
  if (a.machine) LLVMDisposeTargetMachine(a.machine);
  if (!ok) tg_fail(&j->env, j->env.status, "%s", name); /* keeps the first message */
  return a.object;
}
