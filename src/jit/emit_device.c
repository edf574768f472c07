/* SPDX-License-Identifier: MIT
 * What is specific to GPUs: kernels and their attributes, indices of blocks and threads, LOCAL memory, launch data.
 *
 * Needs device form (docs/ir.md). Phase p is a kernel NAME_p. Its arguments are pointers to the global buffers in order
 * of definition, a pointer to the launch's shared memory if there is any, and the run-time parameters as i64. There are
 * no other arguments and no undefined symbols. */
#include "jit/emit.h"
#include "ranges/ranges.h"
#include "target/matrix.h"

enum { MAX_GLOBAL = 16, GRID_YZ = 65535 };

typedef struct { const tg_uop *range; uint32_t dim; } grid_range;

struct emit_device {
  bool amd;
  uint8_t matrices;                    /* 0: not asked; 1: no matrix instruction; 2: some */
  LLVMTypeRef global_pointer;
  LLVMValueRef loop;           /* metadata of every loop */
  LLVMValueRef local;          /* NVPTX: one array for all LOCAL buffers; its size is given at launch */
  LLVMValueRef lane, warp;
  grid_range grid[MAX_GLOBAL]; /* of the phase being emitted, outermost first */
  uint32_t grid_n;
  uint32_t warps;              /* of a workgroup; 0: a single thread */
  TG_VEC(int64_t) words;       /* the data that describe all launches */
};

LLVMValueRef tg_device_intrinsic(tg_emitter *e, const char *name, LLVMTypeRef *overload, unsigned overloads,
                                 LLVMValueRef *args, unsigned n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) tg_bug(&e->j->env, "LLVM has no %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, id, overload, overloads);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

void tg_device_begin_module(tg_emitter *e) {
  emit_device *d = e->device = tg_new(&e->j->env, emit_device, 1);
  d->amd = e->target->arch == TG_ARCH_AMDGPU;
  d->global_pointer = LLVMPointerTypeInContext(e->c, 1);
  if (d->amd) {
    LLVMValueRef version = LLVMConstInt(e->integer[32], 500, 0);
    LLVMAddModuleFlag(e->m, LLVMModuleFlagBehaviorError, "amdhsa_code_object_version", 26,
                      LLVMValueAsMetadata(version));
  }
}

/* ---- the shape of a launch ---- */

/* Finds the grid: global ranges that stand directly in one another, and the dimension of a launch for each. */
static void find_grid(tg_emitter *e, const tg_uop *end) {
  emit_device *d = e->device;
  d->grid_n = 0;
  while (end && d->grid_n < MAX_GLOBAL) {
    const tg_uop *inner = NULL;
    d->grid[d->grid_n++] = (grid_range){.range = end->src[0]};
    for (uint32_t i = 1; i < end->n; i++) {
      if (!tg_emit_is_effect(end->src[i])) continue;
      bool global = !inner && end->src[i]->op == TG_OP_END && tg_range_kind(end->src[i]->src[0]) == TG_GLOBAL;
      inner = global ? end->src[i] : NULL;
      if (!global) break;
    }
    end = inner;
  }
  /* x: the innermost range, and those that do not fit y or z (CUDA C++ Programming Guide, "Compute Capabilities") */
  bool taken[3] = {true, false, false};
  for (uint32_t i = d->grid_n; i-- > 0;) {
    bool fits = tg_bounds_of(e->j, tg_extent(d->grid[i].range)).hi <= GRID_YZ;
    uint32_t dim = i + 1 == d->grid_n || !fits ? 0 : !taken[1] ? 1 : !taken[2] ? 2 : 0;
    d->grid[i].dim = dim;
    taken[dim] = true;
  }
}

static void find_threads(tg_emitter *e, const tg_uop *u, uint32_t *warps, bool *lanes) {
  if (u->op != TG_OP_END) return;
  const tg_uop *extent = tg_extent(u->src[0]);
  tg_kind kind = tg_range_kind(u->src[0]);
  const char *name = e->j->ranges.data[tg_range_ordinal(u->src[0])].name;
  if (kind == TG_LANE || kind == TG_LOCAL) {
    if (extent->op != TG_OP_CONST || extent->arg < 1)
      tg_bug(&e->j->env, "device form: the extent of %s is not constant", name);
    if (kind == TG_LANE && extent->arg != e->target->lanes)
      tg_bug(&e->j->env, "device form: %s has %lld iterations, a warp %u lanes", name, (long long)extent->arg,
             e->target->lanes);
    if (kind == TG_LOCAL && *warps > 1 && extent->arg != *warps)
      tg_bug(&e->j->env, "device form: workgroups of %u and of %lld warps in one launch", *warps,
             (long long)extent->arg);
    if (kind == TG_LOCAL) *warps = (uint32_t)extent->arg;
    else *lanes = true;
  }
  for (uint32_t i = 1; i < u->n; i++) find_threads(e, u->src[i], warps, lanes);
}

static void find_shape(tg_emitter *e, uint32_t p) {
  emit_device *d = e->device;
  uint32_t warps = 1;
  bool lanes = false;
  find_grid(e, e->phases.data[p].thread);
  for (uint32_t i = 0; i < e->items.n; i++)
    if (e->items.data[i].phase == p) find_threads(e, e->items.data[i].u, &warps, &lanes);
  d->warps = lanes ? warps : 0;
  if (warps > 1 && !lanes) tg_bug(&e->j->env, "device form: warps without lanes");
  if (lanes && warps * e->target->lanes > e->target->max_threads)
    tg_fail(&e->j->env, TG_ELIMIT, "error: a workgroup of %u threads: %s takes %u at most", warps * e->target->lanes,
            e->target->name, e->target->max_threads);
}

uint32_t tg_device_warps(const tg_emitter *e) { return e->device->warps; }

static uint32_t threads_of(const tg_emitter *e) { return e->device->warps ? e->device->warps * e->target->lanes : 1; }

/* ---- LOCAL ---- */

/* Sets the offset of each LOCAL buffer of phase p; returns their bytes in all. */
static uint64_t lay_out_local(tg_emitter *e, uint32_t p) {
  enum { WIDEST = 16 };   /* of an access, in bytes: LLVM may complete the last one */
  uint64_t at = 0;
  for (uint32_t i = 0; i < e->j->buffers.n; i++) {
    emit_buffer *b = &e->buffers[i];
    if (!b->define || b->memory != MEMORY_LOCAL || b->phase != p + 1) continue;
    uint64_t align = e->j->buffers.data[i].align > 64 ? e->j->buffers.data[i].align : 64;
    b->offset = at = (at + align - 1) / align * align;
    at += (b->bytes + WIDEST - 1) / WIDEST * WIDEST;
    if (at > e->target->local_bytes)
      tg_fail_at(e->j, e->j->buffers.data[i].pos,
                 "with '%s' the workgroup has %llu bytes of local memory: %s gives it %llu", e->j->buffers.data[i].name,
                 (unsigned long long)at, e->target->name, (unsigned long long)e->target->local_bytes);
  }
  return at;
}

static LLVMValueRef local_array(tg_emitter *e, const char *name, uint64_t bytes) {
  LLVMTypeRef type = LLVMArrayType2(e->integer[8], bytes);
  LLVMValueRef g = LLVMAddGlobalInAddressSpace(e->m, type, name, 3);
  LLVMSetAlignment(g, 1024);
  return g;
}

/* On NVPTX all buffers share one array, because more than 48 KiB must be requested at launch; on AMD each buffer has an
 * array, so that LLVM knows that they do not alias. */
LLVMValueRef tg_device_local(tg_emitter *e, uint32_t buffer) {
  emit_device *d = e->device;
  emit_buffer *b = &e->buffers[buffer];
  if (d->amd) {
    const char *name = tg_format(&e->j->env, "%s.%s", e->j->name, e->j->buffers.data[buffer].name);
    LLVMValueRef g = LLVMGetNamedGlobal(e->m, name);
    if (g) return g;
    g = local_array(e, name, b->bytes);
    uint32_t align = e->j->buffers.data[buffer].align;
    LLVMSetAlignment(g, align > 64 ? align : 64);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetInitializer(g, LLVMGetPoison(LLVMGlobalGetValueType(g)));
    return g;
  }
  if (!d->local) d->local = local_array(e, tg_format(&e->j->env, "%s_local", e->j->name), 0);
  LLVMValueRef offset = LLVMConstInt(e->integer[32], b->offset, 0);
  return b->offset ? LLVMConstInBoundsGEP2(e->integer[8], d->local, &offset, 1) : d->local;
}

/* ---- kernels ---- */

static void put_words(tg_emitter *e, uint32_t n, const int64_t *w) {
  for (uint32_t i = 0; i < n; i++) tg_push(&e->j->env, &e->device->words, w[i]);
}

/* What the launcher needs to know about the phase: see tg_grid_of. */
static void describe_launch(tg_emitter *e, uint64_t local) {
  emit_device *d = e->device;
  uint32_t start = d->words.n, n = 0, *place = tg_new(&e->j->env, uint32_t, e->j->uops.n),
           *node = tg_new(&e->j->env, uint32_t, MAX_GLOBAL);
  put_words(e, 5, (int64_t[]){0, threads_of(e), (int64_t)local, d->grid_n, 0});
  uint32_t ranges = d->words.n;
  for (uint32_t i = 0; i < d->grid_n; i++) put_words(e, 2, (int64_t[]){d->grid[i].dim, 0});
  for (uint32_t i = 0; i < d->grid_n; i++) {
    uint32_t all;
    const tg_uop **u = tg_toposort(e->j, tg_extent(d->grid[i].range), &all);
    for (uint32_t k = 0; k < all; k++) {
      int code = tg_grid_code(u[k]->op);
      if (place[u[k]->id]) continue;
      if (code < 0 || u[k]->lanes != 1)
        tg_fail(&e->j->env, TG_EINVAL,
                "error: the extent of global range '%s' is not a function of the parameters: a grid is launched before "
                "anything is read",
                e->j->ranges.data[tg_range_ordinal(d->grid[i].range)].name);
      put_words(e, 1, (int64_t[]){code | u[k]->type << 8 | (u[k]->n ? u[k]->src[u[k]->n - 1]->type : 0) << 16});
      if (!u[k]->n) put_words(e, 1, &u[k]->arg);
      for (uint32_t s = 0; s < u[k]->n; s++) put_words(e, 1, (int64_t[]){place[u[k]->src[s]->id] - 1});
      place[u[k]->id] = ++n;
    }
    node[i] = place[tg_extent(d->grid[i].range)->id] - 1;
  }
  if (n > TG_GRID_NODES)
    tg_fail(&e->j->env, TG_ELIMIT, "error: the size of the grid takes %u operations, more than %d", n, TG_GRID_NODES);
  for (uint32_t i = 0; i < d->grid_n; i++) d->words.data[ranges + 2 * i + 1] = node[i];
  d->words.data[start] = d->words.n - start;
  d->words.data[start + 4] = n;
}

/* Do the phase's register tiles leave room in the 256 registers that most instructions of AMD can name? Then matrix
 * instructions take their accumulators there. LLVM would put these into the other half of the register file, which
 * gfx90a and its successors have, and move them to and fro in every iteration. */
static bool in_one_half(const tg_emitter *e, uint32_t p) {
  enum { TILES = 192 };
  uint64_t registers = 0;
  for (uint32_t i = 0; i < e->j->buffers.n; i++) {
    const emit_buffer *b = &e->buffers[i];
    if (b->define && b->memory == MEMORY_CELLS && b->phase == p + 1)
      registers += (uint64_t)b->cells_n * (uint64_t)tg_type_bytes(b->define->type) * b->define->lanes / 4;
  }
  return registers <= TILES;
}

static void amd_attributes(tg_emitter *e, LLVMValueRef fn, uint32_t p) {
  static const char *const none[] = {
      "amdgpu-no-dispatch-ptr",       "amdgpu-no-queue-ptr",         "amdgpu-no-implicitarg-ptr",
      "amdgpu-no-dispatch-id",        "amdgpu-no-heap-ptr",          "amdgpu-no-hostcall-ptr",
      "amdgpu-no-multigrid-sync-arg", "amdgpu-no-lds-kernel-id",     "amdgpu-no-default-queue",
      "amdgpu-no-completion-action",  "amdgpu-no-flat-scratch-init", "amdgpu-no-workitem-id-y",
      "amdgpu-no-workitem-id-z",      "amdgpu-no-cluster-id-x",      "amdgpu-no-cluster-id-y",
      "amdgpu-no-cluster-id-z"};
  bool used[3] = {false, false, false};
  for (uint32_t i = 0; i < TG_COUNT(none); i++) tg_emit_attribute(e, fn, none[i], "");
  for (uint32_t i = 0; i < e->device->grid_n; i++) used[e->device->grid[i].dim] = true;
  if (!used[1]) tg_emit_attribute(e, fn, "amdgpu-no-workgroup-id-y", "");
  if (!used[2]) tg_emit_attribute(e, fn, "amdgpu-no-workgroup-id-z", "");
  if (in_one_half(e, p)) tg_emit_attribute(e, fn, "amdgpu-agpr-alloc", "0");
  tg_emit_attribute(e, fn, "amdgpu-implicitarg-num-bytes", "0");
  tg_emit_attribute(e, fn, "uniform-work-group-size", "true");
  tg_emit_attribute(e, fn, "amdgpu-flat-work-group-size", tg_format(&e->j->env, "%u,%u", threads_of(e), threads_of(e)));
}

static void nvidia_attributes(tg_emitter *e, LLVMValueRef fn) {
  /* otherwise ptxas spills rather than use more than half of the registers */
  tg_emit_attribute(e, fn, "nvvm.minctasm", "1");
  tg_emit_attribute(e, fn, "nvvm.reqntid", tg_format(&e->j->env, "%u", threads_of(e)));
  if (!TG_LLVM_NVVM_ANNOTATIONS) return;
  static const char *const names[] = {"reqntidx", "reqntidy", "reqntidz", "minctasm"};
  for (uint32_t i = 0; i < TG_COUNT(names); i++) {
    LLVMMetadataRef node[3] = {LLVMValueAsMetadata(fn), LLVMMDStringInContext2(e->c, names[i], 8),
                               LLVMValueAsMetadata(LLVMConstInt(e->integer[32], i ? 1 : threads_of(e), 0))};
    LLVMAddNamedMetadataOperand(e->m, "nvvm.annotations",
                                LLVMMetadataAsValue(e->c, LLVMMDNodeInContext2(e->c, node, 3)));
  }
}

static void thread_indices(tg_emitter *e) {
  emit_device *d = e->device;
  LLVMTypeRef word = e->integer[32];
  d->lane = d->warp = LLVMConstNull(word);
  if (!d->warps) return;
  LLVMValueRef t = tg_device_intrinsic(e, d->amd ? "llvm.amdgcn.workitem.id.x" : "llvm.nvvm.read.ptx.sreg.tid.x", NULL,
                                       0, NULL, 0),
               lanes = LLVMConstInt(word, e->target->lanes, 0);
  d->lane = t;
  if (d->warps == 1) return;
  d->lane = LLVMBuildURem(e->b, t, lanes, "");
  d->warp = LLVMBuildUDiv(e->b, t, lanes, "");
  /* the same in all lanes of a warp, so that a scalar register can hold it */
  if (d->amd) d->warp = tg_device_intrinsic(e, "llvm.amdgcn.readfirstlane", &word, 1, &d->warp, 1);
}

void tg_device_begin_phase(tg_emitter *e, uint32_t p, bool unaligned) {
  emit_device *d = e->device;
  const char *name = tg_format(&e->j->env, "%s_%u%s", e->j->name, p, unaligned ? "_unaligned" : "");
  uint32_t n = 0, pointers = e->globals + (e->shared_at ? 1 : 0);
  LLVMTypeRef *types = tg_new(&e->j->env, LLVMTypeRef, pointers + e->j->params.n + 1);
  while (n < pointers) types[n++] = d->global_pointer;
  while (n < pointers + e->j->params.n) types[n++] = e->integer[64];
  find_shape(e, p);
  uint64_t local = lay_out_local(e, p);
  if (!unaligned) describe_launch(e, local);
  LLVMValueRef fn = LLVMAddFunction(e->m, name, LLVMFunctionType(LLVMVoidTypeInContext(e->c), types, n, 0));
  LLVMSetFunctionCallConv(fn, d->amd ? LLVMAMDGPUKERNELCallConv : LLVMPTXKernelCallConv);
  tg_emit_begin(e, fn, name);
  if (d->amd) amd_attributes(e, fn, p);
  else nvidia_attributes(e, fn);
  thread_indices(e);
}

LLVMValueRef tg_device_buffer(tg_emitter *e, uint32_t position) { return LLVMGetParam(e->fn, position); }
LLVMValueRef tg_device_param(tg_emitter *e, uint32_t param) {
  return LLVMGetParam(e->fn, e->globals + (e->shared_at ? 1 : 0) + param);
}

/* ---- ranges ---- */

static void bind(tg_emitter *e, const tg_uop *range, LLVMValueRef v) {
  LLVMTypeRef type = tg_emit_type(e, range->type, 1);
  if (type == e->integer[64]) v = LLVMBuildZExt(e->b, v, type, "");
  e->values[range->id] = (emit_value){v, e->stamp, 0, 0};
}

void tg_device_threads(tg_emitter *e, const tg_uop *end) {
  const tg_uop *range = end->src[0];
  bind(e, range, tg_range_kind(range) == TG_LANE ? e->device->lane : e->device->warp);
  tg_emit_list(e, end->src + 1, end->n - 1);
}

/* An extent, emitted before its place in the program, since it depends on parameters only. */
static LLVMValueRef early_extent(tg_emitter *e, const tg_uop *extent) {
  uint32_t n;
  const tg_uop **u = tg_toposort(e->j, extent, &n);
  for (uint32_t i = 0; i < n; i++)
    if (u[i]->n && e->values[u[i]->id].stamp != e->stamp) tg_emit_value_statement(e, u[i]);
  LLVMValueRef v = tg_emit_get(e, extent, 1);
  return LLVMTypeOf(v) == e->integer[32] ? v : LLVMBuildTrunc(e->b, v, e->integer[32], "");
}

/* Gives global ranges their values. Of ranges that share a dimension the innermost is the lowest digit. */
void tg_device_grid(tg_emitter *e, const tg_uop *end) {
  static const char *const names[2][3] = {
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.ctaid.y", "llvm.nvvm.read.ptx.sreg.ctaid.z"},
      {"llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workgroup.id.y", "llvm.amdgcn.workgroup.id.z"}};
  emit_device *d = e->device;
  LLVMValueRef rest[3] = {NULL, NULL, NULL};
  for (uint32_t i = d->grid_n; i-- > 0;) {
    uint32_t dim = d->grid[i].dim, outer = 0;
    for (uint32_t k = 0; k < i; k++) outer += d->grid[k].dim == dim;
    if (!rest[dim]) rest[dim] = tg_device_intrinsic(e, names[d->amd][dim], NULL, 0, NULL, 0);
    if (!outer) {
      bind(e, d->grid[i].range, rest[dim]);
      continue;
    }
    LLVMValueRef extent = early_extent(e, tg_extent(d->grid[i].range));
    bind(e, d->grid[i].range, LLVMBuildURem(e->b, rest[dim], extent, ""));
    rest[dim] = LLVMBuildUDiv(e->b, rest[dim], extent, "");
  }
  tg_emit_list(e, end->src + 1, end->n - 1);
}

/* Unrolling is the schedule's decision. ptxas would unroll every loop of constant extent, even nests, and then spill
 * registers. */
void tg_device_loop(tg_emitter *e, LLVMValueRef back) {
  emit_device *d = e->device;
  if (!d->loop) { /* LLVM wants the node itself as its first operand */
    LLVMMetadataRef word = LLVMMDStringInContext2(e->c, "llvm.loop.unroll.disable", 24),
                    self = LLVMTemporaryMDNode(e->c, NULL, 0);
    LLVMMetadataRef node[2] = {self, LLVMMDNodeInContext2(e->c, &word, 1)}, loop = LLVMMDNodeInContext2(e->c, node, 2);
    LLVMMetadataReplaceAllUsesWith(self, loop);
    d->loop = LLVMMetadataAsValue(e->c, loop);
  }
  LLVMSetMetadata(back, LLVMGetMDKindIDInContext(e->c, "llvm.loop", 9), d->loop);
}

/* AMD: LLVM 22 drops the branch around a scalar load, which then runs in a wave whose lanes all find the gate shut, at
 * an address that may be outside of its buffer (docs/llvm.md). It leaves a branch around assembly, be that empty. */
void tg_device_keep_branch(tg_emitter *e) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->c), NULL, 0, 0);
  if (!e->device->amd) return;
  LLVMValueRef nothing = LLVMGetInlineAsm(type, "", 0, "", 0, 1, 0, LLVMInlineAsmDialectATT, 0);
  LLVMBuildCall2(e->b, type, nothing, NULL, 0, "");
}

/* One that all lanes compute together. */
static bool has_matrix(const tg_emitter *e) {
  for (uint32_t i = 0; i < e->j->uops.n; i++)
    if (e->j->uops.data[i]->op == TG_OP_MATRIX &&
        tg_matrix_lanes(tg_matrix_find(tg_matrix_name(e->j, e->j->uops.data[i]))) > 1)
      return true;
  return false;
}

LLVMValueRef tg_device_computed(tg_emitter *e, const tg_uop *store, LLVMValueRef v) {
  static const char same[] = "=v,0";
  emit_device *d = e->device;
  if (!d || !d->amd || LLVMIsConstant(v)) return v;
  if (!d->matrices) d->matrices = 1 + has_matrix(e);
  LLVMTypeRef old = LLVMTypeOf(v), word = e->integer[32];
  uint32_t lanes = LLVMGetTypeKind(old) == LLVMVectorTypeKind ? LLVMGetVectorSize(old) : 1;
  uint32_t bits = lanes * 8 * (uint32_t)tg_type_bytes(tg_define_of(store->src[0])->type);
  if (d->matrices == 1 || bits > 512 || (bits > 32 && bits % 32)) return v;
  LLVMTypeRef narrow = bits < 32 ? e->integer[bits] : NULL, type = bits <= 32 ? word : LLVMVectorType(word, bits / 32);
  LLVMTypeRef call = LLVMFunctionType(type, &type, 1, 0);
  v = LLVMBuildBitCast(e->b, v, narrow ? narrow : type, "");
  if (narrow) v = LLVMBuildZExt(e->b, v, word, "");
  LLVMValueRef nothing = LLVMGetInlineAsm(call, "", 0, same, sizeof same - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
  v = LLVMBuildCall2(e->b, call, nothing, &v, 1, "");
  if (narrow) v = LLVMBuildTrunc(e->b, v, narrow, "");
  return LLVMBuildBitCast(e->b, v, old, "");
}

/* ---- atomics ---- */

void tg_device_scope(tg_emitter *e, LLVMValueRef atomic) {
#if TG_LLVM_SCOPES
  const char *scope = e->device->amd ? "agent" : "device";
  LLVMSetAtomicSyncScopeID(atomic, LLVMGetSyncScopeID(e->c, scope, strlen(scope)));
#endif
  /* true, since buffers are in the device's own memory */
  static const char *const facts[] = {"amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory"};
  for (uint32_t i = 0; i < TG_COUNT(facts) && e->device->amd; i++)
    LLVMSetMetadata(atomic, LLVMGetMDKindIDInContext(e->c, facts[i], (unsigned)strlen(facts[i])),
                    LLVMMetadataAsValue(e->c, e->empty_node));
}

void tg_device_launch(tg_emitter *e, tg_code_info *info) {
  info->launch = e->device->words.data;
  info->launch_n = e->device->words.n;
}
