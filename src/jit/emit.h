/* SPDX-License-Identifier: MIT
 * The emitter's state (tg_emitter) and the functions that its files share. One module is emitted, one function at a
 * time.
 *
 * LLVM values are kept in a table by node id, each with the loop depth at which it was computed. Values derived from it
 * (a splat, a part of an address) are emitted at that same depth, so they are hoisted out of inner loops and made
 * once. */
#ifndef TG_EMIT_H
#define TG_EMIT_H
#include "jit/jit.h"
#include "jit/llvm.h"

enum {
  MAX_DEPTH = 65,
  BLOCK_STATEMENTS = 1000,
  MANY_STATEMENTS = 1 << 14,
  DUMMY_BYTES = 128 /* at the start of the workspace: a load whose gate is false reads from here */
};

/* The LLVM value of a node, valid if stamp is the function's. v NULL: index arithmetic whose emission is put off until
 * it is used; most never is, since addresses decompose it. chain: length of the chain of such nodes below it. */
typedef struct { LLVMValueRef v; uint32_t stamp; uint16_t depth, chain; } emit_value;
/* value of chain for a FOLD that was emitted early, together with an earlier one, until its own statement is reached */
enum { TOGETHER = UINT16_MAX };
typedef struct { LLVMValueRef now; uint32_t mark; } emit_cell;   /* an element of a REG in SSA form */
typedef enum {
  MEMORY_GLOBAL,
  MEMORY_CELLS,
  MEMORY_PRIVATE,
  MEMORY_SHARED,
  MEMORY_LOCAL /* of a GPU's workgroup */
} emit_memory;

typedef struct {
  emit_memory memory;
  const tg_uop *define;
  uint64_t offset, bytes;      /* place in the workspace, the shared memory or LOCAL */
  uint32_t position;           /* of a global buffer: its index in a launch's buffers */
  uint32_t phase, stamp, inside;    /* phase: the first phase that uses it, + 1; 0: none */
  uint32_t loop;               /* loop of phases in which it is defined, NO_LOOP: none */
  /* top: defined outside of phases; many: used by several phases, or by several tasks or runs of one phase */
  bool top, many;
  bool tiles;                  /* cells are AMX tile registers */
  bool unseen;                 /* LOCAL, stored to since the last barrier: other lanes may not see it yet */
  emit_cell *cells;
  uint32_t cells_n;
  LLVMValueRef pointer;
} emit_buffer;

typedef struct { const void *a, *b; LLVMValueRef v; uint32_t depth, next; } emit_memo;

/* A statement outside of all phases, directly in the SINK or in a loop of phases. phase: the phase that runs it;
 * NO_PHASE: it is recomputed in each phase that needs it. loop: the loop of phases around it; NO_LOOP: it is in the
 * SINK. */
typedef struct { const tg_uop *u; uint32_t phase, loop; } emit_item;
enum { NO_PHASE = -1, NO_LOOP = -1 };
/* outer: the loop of phases around this one; depth: how many are around it */
typedef struct { const tg_uop *end; uint32_t outer, depth; } emit_loop_of_phases;
typedef struct {
  const tg_uop *thread;        /* the END of its thread range (device: outermost global range), or NULL */
  uint32_t *list, n;           /* indices of the items that it runs or whose values it needs */
  uint32_t loop;               /* loop of phases around it, or NO_LOOP */
} emit_phase;
/* a value that a later phase needs; it is kept at this offset of the shared memory */
typedef struct { const tg_uop *u; uint64_t offset; } emit_slot;

typedef struct { const char *name; LLVMTypeRef type, fn_type; LLVMValueRef fn; } emit_intrinsic;
/* An asynchronous copy that is put off. size: of what is read, NULL: all; gate: NULL: none. */
typedef struct { LLVMValueRef to, from, size, gate; uint32_t piece, bytes; } emit_copy;
typedef struct emit_device emit_device;   /* emit_device.c */
typedef struct emit_words emit_words;     /* emit_words.c */
/* An offset that depends on the lane: one number for each of its bits (emit_fragments.c). */
typedef struct {
  struct { int32_t bit[5], start; bool exclusive; } c;
  LLVMValueRef v;
  uint32_t stamp;
} emit_lane_offset;

typedef struct tg_emitter {
  tg_job *j;
  const tg_target *target;
  const tg_uop *sink;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMBuilderRef b;
  LLVMTypeRef ptr, integer[65], half, single, twice;
  LLVMValueRef fn, buffers_arg, params_arg, workspace_arg, task_arg;
  /* the function has vectors wider than a register, or masked accesses: tg_emit_registers must rewrite it */
  bool uncut;
  bool nowhere;                /* the function has loads that read the dummy bytes of the workspace if gated off */
  emit_value *values;          /* by node id */
  uint32_t stamp;              /* number of the function being emitted */
  emit_buffer *buffers;        /* by ordinal */
  uint32_t globals;
  uint64_t private_at, private_top, shared_at, aligned, in_shares;
  uint32_t depth, mark, in_block;   /* in_block: statements so far; every BLOCK_STATEMENTS a new block begins */
  bool in_short_blocks;        /* the program is so large that basic blocks are kept short */
  /* by depth: the branch into the loop inside it, before which hoisted code of that depth is inserted */
  LLVMValueRef before[MAX_DEPTH];
  TG_VEC(emit_memo) memos;
  uint32_t buckets[1024];
  TG_VEC(uint32_t) made;       /* ids of nodes that were put off and emitted later */
  TG_VEC(emit_item) items;
  TG_VEC(emit_loop_of_phases) loops;
  TG_VEC(int64_t) steps;       /* tg_code_info.launch of a host */
  TG_VEC(emit_phase) phases;
  TG_VEC(emit_slot) slots;
  uint32_t *need, wanted;      /* need: by node id; equal to `wanted` if the phase in hand needs the node */
  uint8_t *pure;               /* by node id: recomputed in each phase rather than kept in shared memory */
  uint8_t *tiled;              /* by node id: a load whose result a matrix instruction takes as an AMX tile */
  /* by node id of a load that a matrix instruction takes: the lane, and a load to be emitted with it; NULL: none */
  const tg_uop **fragments, **partners;
  /* by node id of a load: its words, which are not shifted into place yet; NULL: a target that has none */
  emit_words **words;
  TG_VEC(emit_lane_offset) lane_offsets;
  TG_VEC(emit_copy) copies;    /* put off, all with one gate */
  /* streaming: the entry being emitted may assume aligned buffers and use non-temporal stores; streamed: it does, so
   * an `unaligned` entry is needed as well */
  bool streaming, streamed;
  unsigned nontemporal_kind, invariant_kind;
  LLVMMetadataRef empty_node, one_node;
  LLVMDIBuilderRef di;
  LLVMMetadataRef di_file, di_function;
  emit_intrinsic intrinsics[64];
  emit_device *device;         /* NULL on a host */
  bool tasks;                  /* tasks are work-items of kernels (emit_tasks.c) */
  uint32_t ptx_version;        /* PTX version * 10 that inline PTX needs; 0: the target's is enough */
} tg_emitter;

/* module.c. NULL: LLVM has no such target. */
LLVMTargetMachineRef tg_llvm_machine(const tg_target *t, LLVMCodeGenOptLevel level);
/* emit.c */
void tg_emit_module(tg_emitter *, tg_code_info *info);
void tg_emit_list(tg_emitter *, const tg_uop *const *list, uint32_t n);
void tg_emit_value_statement(tg_emitter *, const tg_uop *u);
/* emit_gated.c: the accesses from the first on that share its gate, in one branch; how many, 0: none */
uint32_t tg_emit_gated(tg_emitter *, const tg_uop *const *list, uint32_t n);
/* emit_words.c: is the load, of neighbours with that alignment, one of aligned words around it? Loads them, from the
 * address of the first lane; and shifts them into place, where the vector is used. */
bool tg_emit_takes_words(const tg_emitter *, const tg_uop *load, uint32_t align);
void tg_emit_words(tg_emitter *, const tg_uop *load, LLVMValueRef pointer);
LLVMValueRef tg_emit_words_now(tg_emitter *, const tg_uop *load);
/* emit_products.c: products that are rounded to f16 keep the sign of zero on AMD */
void tg_emit_products(tg_emitter *, LLVMValueRef fn);
void tg_emit_halves(tg_emitter *, LLVMValueRef fn);
void tg_emit_unpack(tg_emitter *, LLVMValueRef fn);   /* weights of a few bits: emit_unpack.c */
/* word & mask | magic */
LLVMValueRef tg_emit_masked_magic(tg_emitter *, LLVMValueRef word, uint32_t mask, uint32_t magic);
/* f16 of fields of a few bits in bytes; NULL: the conversion is of something else. emit_fields.c */
LLVMValueRef tg_emit_fields(tg_emitter *, const tg_uop *cast);
/* begins the body of a function whose arguments are set */
void tg_emit_begin(tg_emitter *, LLVMValueRef fn, const char *name);
void tg_emit_attribute(tg_emitter *, LLVMValueRef fn, const char *name, const char *value);
static inline bool tg_emit_is_effect(const tg_uop *u) {
  return u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH || u->op == TG_OP_END || u->op == TG_OP_BARRIER ||
         u->op == TG_OP_WAIT;
}

/* emit_device.c */
void tg_device_begin_module(tg_emitter *);
void tg_device_begin_phase(tg_emitter *, uint32_t p, bool unaligned);       /* its function */
void tg_device_grid(tg_emitter *, const tg_uop *end);                       /* global ranges: a block index each */
/* a local or lane range: the thread's index */
void tg_device_threads(tg_emitter *, const tg_uop *end);
/* global buffers; e->globals: the shared memory */
LLVMValueRef tg_device_buffer(tg_emitter *, uint32_t position);
LLVMValueRef tg_device_param(tg_emitter *, uint32_t param);
LLVMValueRef tg_device_local(tg_emitter *, uint32_t buffer);
void tg_device_scope(tg_emitter *, LLVMValueRef atomic);                    /* sets an atomic access to device scope */
/* tells ptxas not to unroll the loop of this back edge */
void tg_device_loop(tg_emitter *, LLVMValueRef back);
void tg_device_launch(tg_emitter *, tg_code_info *info);
/* At the start of what a gate guards: the branch around it stays, where all lanes of a wave may find the gate shut. */
void tg_device_keep_branch(tg_emitter *e);
/* What is stored under a gate: it is computed before the branch. Where a matrix instruction computes it, LLVM would
 * move that behind the branch, on AMD, where lanes are off then. */
LLVMValueRef tg_device_computed(tg_emitter *e, const tg_uop *store, LLVMValueRef v);
/* warps per workgroup; 0: it is a single thread */
uint32_t tg_device_warps(const tg_emitter *);
LLVMValueRef tg_device_intrinsic(tg_emitter *, const char *name, LLVMTypeRef *overload, unsigned overloads,
                                 LLVMValueRef *args, unsigned n);

/* emit_tasks.c */
void tg_tasks_begin_task(tg_emitter *, uint32_t p);                         /* the function of one task of phase p */
void tg_tasks_begin_kernel(tg_emitter *, const char *kind, uint32_t i);     /* "phase" or "turns" */
/* the rest of a phase's kernel. workspace: bytes of a work-item */
void tg_tasks_run(tg_emitter *, uint32_t p, LLVMValueRef tasks, uint64_t workspace);
LLVMValueRef tg_tasks_param(tg_emitter *, uint32_t param);
void tg_tasks_need_f64(const tg_emitter *);                                 /* fails if the target has none */
void tg_tasks_add(tg_emitter *, const tg_uop *store, LLVMValueRef p, LLVMValueRef v);   /* an atomic add */
LLVMValueRef tg_tasks_reduce(tg_emitter *, bool all, LLVMValueRef mask);    /* whether all lanes, or any, are true */
/* What tg_emit_masked emits for other targets; for a load the result, for a store nothing of use. */
LLVMValueRef tg_tasks_masked(tg_emitter *, bool store, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value,
                             uint32_t align);
void tg_tasks_launch(tg_emitter *, tg_code_info *info);
/* Makes the module's vectors scalars. LLVM's message if it fails, to be disposed of; NULL: done. */
char *tg_tasks_scalars(LLVMModuleRef m, LLVMTargetMachineRef machine);

/* spirv.c: gives the blocks of a module ids of its own. False: the module is of no use. */
bool tg_spirv_mend(tg_env *, void *data, size_t bytes);

/* emit_threads.c */
void tg_device_barrier(tg_emitter *);
LLVMValueRef tg_device_shuffle(tg_emitter *, const tg_uop *u);

/* emit_extremum.c: the greater or the less of floats, or of floats and a constant k, c's value; NULL: by the first */
LLVMValueRef tg_emit_extremum(tg_emitter *, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tg_emit_extremum_constant(tg_emitter *, tg_op op, LLVMValueRef a, const tg_uop *c, LLVMValueRef k);

/* emit_fast.c */
LLVMValueRef tg_emit_fast(tg_emitter *, const tg_uop *u, LLVMValueRef a);   /* NULL: the target has no instruction */

/* emit_copy.c */
/* Emits the store as an asynchronous copy. False: it cannot be one; the loaded value has been emitted instead and the
 * caller must store it. */
bool tg_emit_copy(tg_emitter *, const tg_uop *store);
void tg_emit_copies(tg_emitter *);   /* those that were put off */
void tg_device_wait(tg_emitter *, const tg_uop *wait);

/* emit_value.c */
LLVMTypeRef tg_emit_type(tg_emitter *, tg_type t, uint32_t lanes);
LLVMTypeRef tg_emit_memory_type(tg_emitter *, tg_type t, uint32_t lanes);   /* bool is a byte */
LLVMValueRef tg_emit_get(tg_emitter *, const tg_uop *u, uint32_t lanes);    /* the value, splat to lanes */
LLVMValueRef tg_emit_raw(tg_emitter *, const tg_uop *u, uint32_t lanes);    /* the same, but a tile remains one */
/* Puts off the emission of index arithmetic until it is used; false: u must be emitted now. */
bool tg_emit_put_off(tg_emitter *, const tg_uop *u);
uint32_t tg_emit_depth(tg_emitter *, const tg_uop *u);
LLVMValueRef tg_emit_splat(tg_emitter *, LLVMValueRef v, uint32_t lanes, uint32_t depth);
LLVMValueRef tg_emit_zero(tg_emitter *, tg_type t, uint32_t lanes);
LLVMValueRef tg_emit_bits(tg_emitter *, tg_type t, uint64_t bits);
LLVMValueRef tg_emit_alu(tg_emitter *, const tg_uop *u);                    /* a lanewise op, FOLD */
LLVMValueRef tg_emit_call(tg_emitter *, const char *intrinsic, LLVMTypeRef overload, LLVMValueRef *args, unsigned n);
LLVMValueRef tg_emit_op2(tg_emitter *, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b);
/* A table of values derived from pairs (a, b), NULL if absent. The caller emits a missing one where tg_emit_at(depth)
 * puts the builder, then sets it. */
LLVMValueRef tg_emit_memo_get(tg_emitter *, const void *a, const void *b);
void tg_emit_memo_set(tg_emitter *, const void *a, const void *b, LLVMValueRef v, uint32_t depth);
void tg_emit_memo_drop(tg_emitter *, uint32_t from, uint32_t depth);
/* Moves the builder to the end of the code of an outer depth; returns the block to go back to with tg_emit_back. */
LLVMBasicBlockRef tg_emit_at(tg_emitter *, uint32_t depth);
void tg_emit_back(tg_emitter *, LLVMBasicBlockRef);

/* emit_registers.c */
/* Rewrites a complete host function so that no vector is wider than the target's registers. */
void tg_emit_registers(tg_emitter *, LLVMValueRef fn);

/* emit_folds.c */
/* If the list begins with a FOLD, emits it together with similar FOLDs that follow, sharing additions. */
void tg_emit_folds(tg_emitter *, const tg_uop *const *list, uint32_t n);

/* emit_matrix.c */
LLVMValueRef tg_emit_matrix(tg_emitter *, const tg_uop *u);
/* Call before any function: finds the loads and buffers that become AMX tile registers. */
void tg_emit_find_tiles(tg_emitter *);
static inline bool tg_emit_is_tile(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMX86_AMXTypeKind; }
/* Converts a vector of a tile's elements, or one element to be broadcast, to an AMX tile. NULL: a tile of zeros. */
LLVMValueRef tg_emit_tile(tg_emitter *, LLVMValueRef v);
LLVMValueRef tg_emit_elements(tg_emitter *, LLVMValueRef v, LLVMTypeRef type);   /* a tile as a vector */
LLVMValueRef tg_emit_load_tile(tg_emitter *, LLVMValueRef pointer);
void tg_emit_store_tile(tg_emitter *, LLVMValueRef pointer, LLVMValueRef tile);

/* emit_fragments.c */
/* Call before any function: finds the loads that matrix instructions take. */
void tg_emit_find_fragments(tg_emitter *);
LLVMValueRef tg_emit_fragment(tg_emitter *, const tg_uop *load);   /* by ldmatrix; NULL: it has another form */

/* emit_convert.c */
LLVMValueRef tg_emit_cast(tg_emitter *, const tg_uop *u);
LLVMValueRef tg_emit_bitcast(tg_emitter *, const tg_uop *u);

/* emit_memory.c */
LLVMValueRef tg_emit_pointer(tg_emitter *, uint32_t buffer);
LLVMValueRef tg_emit_load(tg_emitter *, const tg_uop *u);
void tg_emit_store(tg_emitter *, const tg_uop *u);
void tg_emit_prefetch(tg_emitter *, const tg_uop *u);
/* GPU, before any function: finds the buffers that must be assumed to be 16-aligned. */
void tg_emit_find_aligned(tg_emitter *, const tg_uop *u);
uint32_t tg_emit_store_lanes(const tg_uop *u);
/* The address of lane 0 of a contiguous access, and the alignment known for it in bytes. */
LLVMValueRef tg_emit_contiguous(tg_emitter *, const tg_uop *access, uint32_t lanes, uint32_t *align);
/* Emits a branch around the code that follows, up to tg_emit_close_gate. */
LLVMBasicBlockRef tg_emit_open_gate(tg_emitter *, LLVMValueRef condition);
void tg_emit_close_gate(tg_emitter *, LLVMBasicBlockRef after);
emit_cell *tg_emit_cell(tg_emitter *, const tg_uop *access);                /* of a REG in SSA form */

/* emit_rounds.c */
/* Of a list with several rounds of multiply-adds of one tile of registers. keeps: by place, before which statements the
 * order is kept; NULL: it need not be. element: the stores to the tile's elements in the first round. */
typedef struct { const bool *keeps; const tg_uop **element; uint32_t n; } emit_rounds;
emit_rounds tg_emit_find_rounds(const tg_emitter *, const tg_uop *const *list, uint32_t n);
void tg_emit_keep_order(tg_emitter *, const emit_rounds *);

/* emit_debug.c */
void tg_emit_debug_module(tg_emitter *);
void tg_emit_debug_function(tg_emitter *, LLVMValueRef fn, const char *name);
void tg_emit_debug_statement(tg_emitter *, const tg_uop *u);
#endif
