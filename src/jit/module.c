/* SPDX-License-Identifier: MIT
 * LLVM's side of a compile: context, target machine, diagnostics, and the object.
 *
 * Each compile has its own LLVM context, so any number of threads may compile. Target machines are kept and lent to one
 * compile at a time. LLVM reports some errors only to the diagnostic handler and still writes an object, so it is the
 * handler that decides whether a compile failed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "jit/emit.h"
#include "jit/orc.h"
#include "code/object.h"

enum { MAX_IDLE = 64 };

struct tg_jit {
  tg_allocator allocator;
  tg_target target;
  uint32_t flags;
  _Atomic(tg_orc *) orc;       /* made when first needed */
  pthread_mutex_t lock;        /* guards idle */
  LLVMTargetMachineRef idle[MAX_IDLE];
  uint32_t idle_n;
};

/* LLVM's target registry is global; each target that is used must be registered there, once per process. */
static void register_x86(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser();   /* CPUID in code that is built ahead of time */
}

static void register_aarch64(void) {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

static void register_nvptx(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

static void register_amdgpu(void) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  LLVMInitializeAMDGPUAsmParser();   /* of instructions that the emitter writes itself */
  LLVMInitializeAMDGPUDisassembler();
}

static void register_spirv(void) {
#if TG_LLVM_SPIRV
  LLVMInitializeSPIRVTargetInfo();
  LLVMInitializeSPIRVTarget();
  LLVMInitializeSPIRVTargetMC();
  LLVMInitializeSPIRVAsmPrinter();
#endif
}

static void register_target(tg_arch arch) {
  static pthread_once_t once[] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                  PTHREAD_ONCE_INIT};
  static void (*const fill[])(void) = {[TG_ARCH_X86_64] = register_x86,
                                       [TG_ARCH_AARCH64] = register_aarch64,
                                       [TG_ARCH_NVPTX] = register_nvptx,
                                       [TG_ARCH_AMDGPU] = register_amdgpu,
                                       [TG_ARCH_OPENCL] = register_spirv};
  pthread_once(&once[arch], fill[arch]);
}

static tg_status open_failed(tg_env *err, tg_status s, const char *what) {
  if (err->status == TG_OK) {
    err->status = s;
    snprintf(err->message, sizeof err->message, "%s", what);
  }
  return s;
}

static void fill_in_host(tg_target *t) {
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  snprintf(t->cpu, sizeof t->cpu, "%s", cpu);
  snprintf(t->features, sizeof t->features, "%s", features);
  if (strlen(features) >= sizeof t->features) *strrchr(t->features, ',') = 0;
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
}

static tg_status open_jit(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err) {
  *out = NULL;
  tg_jit *jit = a->alloc(a->user, sizeof *jit);
  if (!jit) return open_failed(err, TG_ENOMEM, "out of memory");
  memset(jit, 0, sizeof *jit);
  jit->allocator = *a;
  jit->target = *t;
  jit->flags = flags;
  pthread_mutex_init(&jit->lock, NULL);
  if (!t->cpu[0]) fill_in_host(&jit->target);
  if (!t->triple[0]) snprintf(jit->target.triple, sizeof jit->target.triple, "x86_64-unknown-linux-gnu");
  *out = jit;
  return TG_OK;
}

static void close_jit(tg_jit *jit) {
  tg_orc_close(jit->orc, true);
  for (uint32_t i = 0; i < jit->idle_n; i++) LLVMDisposeTargetMachine(jit->idle[i]);
  pthread_mutex_destroy(&jit->lock);
  jit->allocator.free(jit->allocator.user, jit, sizeof *jit);
}

static const tg_target *target_of(const tg_jit *jit) { return &jit->target; }

LLVMTargetMachineRef tg_llvm_machine(const tg_target *t, LLVMCodeGenOptLevel level) {
  LLVMTargetRef target;
  char *message = NULL;
  if (!tg_llvm_compiles_for(t)) return NULL;
  register_target(t->arch);
  if (LLVMGetTargetFromTriple(t->triple, &target, &message)) {
    LLVMDisposeMessage(message);
    return NULL;
  }
  /* no processor; and at a higher level loop strength reduction gives wrong code (docs/llvm.md) */
  if (t->arch == TG_ARCH_OPENCL)
    return LLVMCreateTargetMachine(target, t->triple, "", "", LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelSmall);
  return LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, level, LLVMRelocPIC, LLVMCodeModelSmall);
}

/* SPIR-V: its target machine keeps what belongs to a module, and is good for one (docs/llvm.md). */
static bool keeps_machines(const tg_jit *jit) { return jit->target.arch != TG_ARCH_OPENCL; }

static LLVMTargetMachineRef borrow_machine(tg_jit *jit) {
  LLVMTargetMachineRef m = NULL;
  pthread_mutex_lock(&jit->lock);
  if (jit->idle_n) m = jit->idle[--jit->idle_n];
  pthread_mutex_unlock(&jit->lock);
  return m ? m : tg_llvm_machine(&jit->target, LLVMCodeGenLevelDefault);
}

static void return_machine(tg_jit *jit, LLVMTargetMachineRef m) {
  if (!m) return;
  pthread_mutex_lock(&jit->lock);
  bool kept = jit->idle_n < MAX_IDLE && keeps_machines(jit);
  if (kept) jit->idle[jit->idle_n++] = m;
  pthread_mutex_unlock(&jit->lock);
  if (!kept) LLVMDisposeTargetMachine(m);
}

/* ---- linking ---- */

/* Uses no lock, because the child of a fork might find it held for ever. If two threads create a session at once, the
 * first is kept. */
static tg_status orc_of(tg_jit *jit, tg_orc **out, char *message, size_t message_n) {
  tg_orc *before = atomic_load(&jit->orc);
  *out = before;
  if (before && !tg_orc_is_inherited(before)) return TG_OK;
  LLVMTargetMachineRef m = tg_llvm_machine(&jit->target, LLVMCodeGenLevelDefault);
  if (!m) {
    snprintf(message, message_n, "LLVM has no target '%s'", jit->target.triple);
    return TG_EBACKEND;
  }
  tg_status s = tg_orc_open(out, &jit->allocator, m, before, message, message_n);
  if (s != TG_OK || atomic_compare_exchange_strong(&jit->orc, &before, *out)) return s;
  tg_orc_close(*out, false);
  *out = before;               /* another thread was first */
  return TG_OK;
}

static tg_status link_object(void *user, const void *object, size_t bytes, const char *const *names, uint32_t n,
                             void **addresses, void **linked, char *message, size_t message_n) {
  tg_orc *orc;
  tg_status s = orc_of(user, &orc, message, message_n);
  return s == TG_OK ? tg_orc_link(orc, object, bytes, names, n, addresses, linked, message, message_n) : s;
}

static void unlink_object(void *user, void *linked) { tg_orc_unlink(&((tg_jit *)user)->allocator, linked); }

static tg_linker linker_of(tg_jit *jit) { return (tg_linker){link_object, unlink_object, jit}; }

/* ---- compiling ---- */

typedef struct {
  tg_jit *jit;
  tg_job *j;
  const tg_uop *linear;
  tg_code_info *info;
  const char **ir_text, **asm_text;
  tg_emitter *e;
  LLVMContextRef c;
  LLVMTargetMachineRef machine;
  LLVMMemoryBufferRef buffer;
  LLVMModuleRef copy;
  char *message, *text;        /* LLVM's strings: the first error; the text being shown */
  bool only_build;
  tg_object object;
} compile;

static void on_diagnostic(LLVMDiagnosticInfoRef d, void *user) {
  compile *c = user;
  if (LLVMGetDiagInfoSeverity(d) == LLVMDSError && !c->message) c->message = LLVMGetDiagInfoDescription(d);
}

static uint64_t statements_in(const tg_uop *u) {
  uint64_t n = 1;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++)
    n += statements_in(u->src[i]);
  return n;
}

static void set_up(compile *k) {
  tg_emitter *e = k->e = tg_new(&k->j->env, tg_emitter, 1);
  *e = (tg_emitter){.j = k->j, .target = &k->jit->target, .sink = k->linear};
  e->tasks = tg_target_takes_spirv(e->target);
  LLVMContextRef c = e->c = k->c = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(c, on_diagnostic, k);
  LLVMContextSetDiscardValueNames(c, !k->ir_text);
  e->m = LLVMModuleCreateWithNameInContext(k->j->name ? k->j->name : "kernel", c);
  e->b = LLVMCreateBuilderInContext(c);
  static const int widths[] = {1, 8, 16, 32, 64};
  for (unsigned i = 0; i < TG_COUNT(widths); i++) e->integer[widths[i]] = LLVMIntTypeInContext(c, (unsigned)widths[i]);
  e->ptr = LLVMPointerTypeInContext(c, e->tasks);
  /* of a device without f16 these are bits: passes have replaced what computes in them */
  e->half = e->tasks ? e->integer[16] : LLVMHalfTypeInContext(c);
  e->single = LLVMFloatTypeInContext(c);
  e->twice = LLVMDoubleTypeInContext(c);
  e->nontemporal_kind = LLVMGetMDKindIDInContext(c, "nontemporal", 11);
  e->invariant_kind = LLVMGetMDKindIDInContext(c, "invariant.load", 14);
  e->empty_node = LLVMMDNodeInContext2(c, NULL, 0);
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->integer[32], 1, 0));
  e->one_node = LLVMMDNodeInContext2(c, &one, 1);
  e->in_short_blocks = !tg_target_is_device(&k->jit->target) && statements_in(k->linear) > MANY_STATEMENTS;
  k->machine = e->in_short_blocks ? tg_llvm_machine(&k->jit->target, LLVMCodeGenLevelNone) : borrow_machine(k->jit);
  if (!k->machine) tg_fail(&k->j->env, TG_EBACKEND, "this LLVM, %s, has no processor '%s' of '%s'", tg_llvm_version(),
                           k->jit->target.cpu, k->jit->target.triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(k->machine);
  LLVMSetModuleDataLayout(e->m, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(e->m, k->jit->target.triple);
}

static void verify(compile *k) {
  if (!LLVMVerifyModule(k->e->m, LLVMReturnStatusAction, &k->text)) {
    LLVMDisposeMessage(k->text);
    k->text = NULL;
  } else tg_bug(&k->j->env, "LLVM rejects the module: %s", k->text);
}

static void check_diagnostics(compile *k) {
  if (k->message) tg_fail(&k->j->env, TG_EBACKEND, "LLVM: %s", k->message);
}

/* LLVM's back end for SPIR-V keeps what it finds out about a module in one place for the whole process
 * (docs/llvm.md). */
static pthread_mutex_t spirv_lock = PTHREAD_MUTEX_INITIALIZER;

static LLVMMemoryBufferRef emit_file(compile *k, LLVMModuleRef m, LLVMCodeGenFileType type) {
  char *message = NULL;
  k->buffer = NULL;
  if (k->e->tasks) pthread_mutex_lock(&spirv_lock);
  if (LLVMTargetMachineEmitToMemoryBuffer(k->machine, m, type, &message, &k->buffer)) {
    if (!k->message) k->message = message;
    else LLVMDisposeMessage(message);
  }
  if (k->e->tasks) pthread_mutex_unlock(&spirv_lock);
  return k->buffer;
}

/* LLVM writes PTX for the lowest version that its own code needs, so that old drivers take it. Inline PTX may need a
 * higher one, which is then written into the text. */
static void raise_version(compile *k, char *ptx) {
  char *at = k->e->ptx_version ? strstr(ptx, ".version ") : NULL;
  if (!at) return;
  at += strlen(".version ");
  if (at[1] != '.' || (uint32_t)(10 * (at[0] - '0') + at[2] - '0') >= k->e->ptx_version) return;
  at[0] = (char)('0' + k->e->ptx_version / 10);
  at[2] = (char)('0' + k->e->ptx_version % 10);
}

static void emit_assembly(compile *k) {
  if (k->copy) LLVMDisposeModule(k->copy);
  k->copy = LLVMCloneModule(k->e->m); /* code generation changes a module */
  bool emitted = emit_file(k, k->copy, LLVMAssemblyFile) != NULL;
  if (!keeps_machines(k->jit)) {
    return_machine(k->jit, k->machine);
    k->machine = borrow_machine(k->jit);
  }
  if (!emitted) return;
  *k->asm_text = tg_strndup(&k->j->env, LLVMGetBufferStart(k->buffer), LLVMGetBufferSize(k->buffer));
  LLVMDisposeMemoryBuffer(k->buffer);
  k->buffer = NULL;
}

/* A module whose blocks cannot be told apart is written again, while memory is taken so that LLVM's objects come to lie
 * elsewhere than those that it remembers. */
static void emit_spirv(compile *k) {
  enum { TRIES = 8, PIECES = 512, STEP = 16 };
  void *taken[TRIES][PIECES] = {{NULL}};
  bool mended = false;
  for (uint32_t i = 0; i < TRIES && !mended && !k->message; i++) {
    for (uint32_t p = 0; i && p < PIECES; p++) taken[i][p] = malloc((size_t)(PIECES - p) * STEP);
    if (k->copy) LLVMDisposeModule(k->copy);
    k->copy = LLVMCloneModule(k->e->m);
    if (i) return_machine(k->jit, k->machine), k->machine = borrow_machine(k->jit);
    if (!emit_file(k, k->copy, LLVMObjectFile)) break;
    k->object.bytes = LLVMGetBufferSize(k->buffer);
    k->object.data = tg_alloc(&k->j->env, k->object.bytes);
    memcpy(k->object.data, LLVMGetBufferStart(k->buffer), k->object.bytes);
    mended = tg_spirv_mend(&k->j->env, k->object.data, k->object.bytes);
    LLVMDisposeMemoryBuffer(k->buffer);
    k->buffer = NULL;
  }
  for (uint32_t i = 0; i < TRIES; i++)
    for (uint32_t p = 0; p < PIECES; p++) free(taken[i][p]);
  check_diagnostics(k);
  if (!mended) tg_fail(&k->j->env, TG_EBACKEND, "LLVM writes SPIR-V whose blocks have ids of another module's");
}

/* An AMD kernel may need its arguments and nothing else, and no scratch memory for a thread. */
static void check_device_object(compile *k) {
  enum { KNOWN = 1 << 0 | 1 << 3 | 1 << 10 };   /* private segment buffer (gfx90a always has it), arguments, wave32 */
  tg_object_view o;
  tg_amdgpu_kernel a;
  for (uint32_t p = 0; p < k->info->phases; p++) {
    const char *name = tg_format(&k->j->env, "%s_%u", k->j->name, p);
    if (!tg_object_open(&o, k->object.data, k->object.bytes) || !tg_amdgpu_kernel_of(&o, name, &a) || !a.entry_known)
      tg_bug(&k->j->env, "the object has no descriptor of %s", name);
    if (a.properties & ~KNOWN)
      tg_bug(&k->j->env, "%s wants more than its arguments: properties %04x", name, a.properties);
    if (a.scratch)
      tg_fail(&k->j->env, TG_ELIMIT,
              "error: %s keeps more alive than the registers of %s hold: %u bytes a thread; smaller tiles need fewer",
              name, k->jit->target.name, a.scratch);
  }
}

static void run_compile(void *p) {
  compile *k = p;
  set_up(k);
  if (k->jit->flags & TG_JIT_DEBUG) tg_emit_debug_module(k->e);
  tg_emit_module(k->e, k->info);
  if (k->e->di) LLVMDIBuilderFinalize(k->e->di);
  if (k->jit->flags & TG_JIT_VERIFY) verify(k);
  if (k->ir_text) {
    k->text = LLVMPrintModuleToString(k->e->m);
    *k->ir_text = tg_strdup(&k->j->env, k->text);
    LLVMDisposeMessage(k->text);
    k->text = NULL;
  }
  if (k->only_build) return;
  if (k->e->tasks && (k->message = tg_tasks_scalars(k->e->m, k->machine))) check_diagnostics(k);
  bool text = k->jit->target.arch == TG_ARCH_NVPTX;
  if (k->asm_text && !text) emit_assembly(k);
  check_diagnostics(k);
  if (k->e->tasks) {
    emit_spirv(k);
    return;
  }
  emit_file(k, k->e->m, text ? LLVMAssemblyFile : LLVMObjectFile);
  check_diagnostics(k);
  size_t n = LLVMGetBufferSize(k->buffer);
  k->object.bytes = n + text;
  k->object.data = tg_alloc(&k->j->env, k->object.bytes);
  memcpy(k->object.data, LLVMGetBufferStart(k->buffer), n);
  if (text) {
    raise_version(k, k->object.data);
    if (k->asm_text) *k->asm_text = k->object.data;   /* the object of such a target is its text */
    return;
  }
  const char *missing = tg_object_undefined(k->object.data, k->object.bytes);
  if (!missing && tg_target_is_device(&k->jit->target)) check_device_object(k);
  if (missing)
    tg_fail(&k->j->env, TG_EBACKEND,
            "LLVM calls a function that does not exist here, '%s': an operation that this target lacks was not lowered",
            missing);
}

static void clean_up(compile *k) {
  if (k->buffer) LLVMDisposeMemoryBuffer(k->buffer);
  if (k->message) LLVMDisposeMessage(k->message);
  if (k->text) LLVMDisposeMessage(k->text);
  if (k->copy) LLVMDisposeModule(k->copy);
  if (k->e && k->e->di) LLVMDisposeDIBuilder(k->e->di);
  if (k->e && k->e->b) LLVMDisposeBuilder(k->e->b);
  if (k->e && k->e->m) LLVMDisposeModule(k->e->m);
  if (k->c) LLVMContextDispose(k->c);
  if (k->e && k->e->in_short_blocks && k->machine) LLVMDisposeTargetMachine(k->machine);
  else return_machine(k->jit, k->machine);
}

static void guarded_compile(compile *k) {
  bool ok = tg_protect(&k->j->env, run_compile, k);
  clean_up(k);
  if (!ok) tg_fail(&k->j->env, k->j->env.status, "compile failed"); /* keeps the first message */
}

static tg_object compile_program(tg_jit *jit, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                                 const char **asm_text) {
  compile k = {.jit = jit, .j = j, .linear = linear, .info = info, .ir_text = ir_text, .asm_text = asm_text};
  guarded_compile(&k);
  return k.object;
}

static void build_module(tg_jit *jit, tg_job *j, const tg_uop *linear, tg_code_info *info) {
  compile k = {.jit = jit, .j = j, .linear = linear, .info = info, .only_build = true};
  guarded_compile(&k);
}

const tg_generator *tg_llvm_generator(void) {
  static const tg_generator table = {.build = tg_build_hash,
                                     .open = open_jit,
                                     .close = close_jit,
                                     .target = target_of,
                                     .compile = compile_program,
                                     .build_module = build_module,
                                     .linker = linker_of,
                                     .assemble = tg_llvm_assemble,
                                     .assembly = tg_llvm_assembly,
                                     .summary = tg_llvm_summary};
  return &table;
}
