/* SPDX-License-Identifier: MIT
 * The emitter's own state: one module, one function at a time.
 *
 * Values live in a side table by node id. Each has the depth of the loop that it was computed in, so that what derives
 * from it (a splat, a part of an address) is put at that depth, outside of the loops within, and made once. */
#ifndef TG_EMIT_H
#define TG_EMIT_H
#include "jit/jit.h"
#include "jit/llvm.h"

enum {
  MAX_DEPTH = 65,
  BLOCK_STATEMENTS = 1000,
  MANY_STATEMENTS = 1 << 14,
  DUMMY_BYTES = 128 /* at the start of the workspace: what a load whose gate is false reads */
};

/* v NULL: index arithmetic that is made when something asks for it, most is not: addresses take it apart. chain: how
 * many such in a row. */
typedef struct { LLVMValueRef v; uint32_t stamp; uint16_t depth, chain; } emit_value;
/* chain of a FOLD that was made together with one before it, until its statement comes */
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
  uint64_t offset, bytes;      /* in the workspace, the shared memory or LOCAL */
  uint32_t position;           /* of a global buffer, in a launch */
  uint32_t phase, stamp, inside;    /* phase: the only one that uses it, + 1 */
  uint32_t loop;               /* of phases, that it is defined in */
  bool top, many;              /* defined between phases; outlives a phase */
  bool tiles;                  /* cells are registers of tiles */
  emit_cell *cells;
  uint32_t cells_n;
  LLVMValueRef pointer;
} emit_buffer;

typedef struct { const void *a, *b; LLVMValueRef v; uint32_t depth, next; } emit_memo;

/* What no phase stands around: a statement of the SINK or of a loop of phases. */
/* NO_PHASE: computed again in each phase that wants it; NO_LOOP: of the SINK */
typedef struct { const tg_uop *u; uint32_t phase, loop; } emit_item;
enum { NO_PHASE = -1, NO_LOOP = -1 };
/* the loop around; how many are around */
typedef struct { const tg_uop *end; uint32_t outer, depth; } emit_loop_of_phases;
typedef struct {
  const tg_uop *thread;        /* the END of its thread range (device: outermost global range), or NULL */
  uint32_t *list, n;           /* items, by position, that it runs or wants */
  uint32_t loop;               /* around it */
} emit_phase;
/* a value that outlives its phase, in shared memory */
typedef struct { const tg_uop *u; uint64_t offset; } emit_slot;

typedef struct { const char *name; LLVMTypeRef type, fn_type; LLVMValueRef fn; } emit_intrinsic;
typedef struct emit_device emit_device;   /* emit_device.c */

typedef struct tg_emitter {
  tg_job *j;
  const tg_target *target;
  const tg_uop *sink;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMBuilderRef b;
  LLVMTypeRef ptr, integer[65], half, single, twice;
  LLVMValueRef fn, buffers_arg, params_arg, workspace_arg, task_arg;
  /* the function has vectors wider than a register, or masked accesses: tg_emit_registers */
  bool uncut;
  bool nowhere;                /* the function has loads that a condition sends to the start of the workspace */
  emit_value *values;
  uint32_t stamp;              /* of the function */
  emit_buffer *buffers;        /* by ordinal */
  uint32_t globals;
  uint64_t private_at, private_top, shared_at, aligned, in_shares;
  uint32_t depth, mark, in_block;   /* in_block: statements so far, for the length of blocks */
  bool in_short_blocks;
  LLVMValueRef before[MAX_DEPTH];   /* by depth: where that depth's code ends, as the next loop begins */
  TG_VEC(emit_memo) memos;
  uint32_t buckets[1024];
  TG_VEC(uint32_t) made;       /* values that were put off and then made, by id */
  TG_VEC(emit_item) items;
  TG_VEC(emit_loop_of_phases) loops;
  TG_VEC(int64_t) steps;       /* of the launch: see tg_code_info */
  TG_VEC(emit_phase) phases;
  TG_VEC(emit_slot) slots;
  uint32_t *need, wanted;      /* by node id: the last stamp `wanted` it got */
  uint8_t *pure;               /* by node id: recomputed in each phase rather than kept */
  uint8_t *tiled;              /* by node id: a load that a matrix instruction takes as a tile */
  bool streaming, streamed;
  unsigned nontemporal_kind, invariant_kind;
  LLVMMetadataRef empty_node, one_node;
  LLVMDIBuilderRef di;
  LLVMMetadataRef di_file, di_function;
  emit_intrinsic intrinsics[64];
  emit_device *device;         /* NULL on a host */
  uint32_t ptx_version;        /* times 10, that inline PTX needs; 0: what the target says will do */
} tg_emitter;

/* emit.c */
void tg_emit_module(tg_emitter *, tg_code_info *info);
void tg_emit_list(tg_emitter *, const tg_uop *const *list, uint32_t n);
void tg_emit_value_statement(tg_emitter *, const tg_uop *u);
/* the body of a function whose arguments are known */
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
void tg_device_scope(tg_emitter *, LLVMValueRef atomic);                    /* of an atomic access: the device */
/* its branch back: the loop stays as it is */
void tg_device_loop(tg_emitter *, LLVMValueRef back);
void tg_device_launch(tg_emitter *, tg_code_info *info);
/* of a workgroup; 0: it is a single thread */
uint32_t tg_device_warps(const tg_emitter *);
LLVMValueRef tg_device_intrinsic(tg_emitter *, const char *name, LLVMTypeRef *overload, unsigned overloads,
                                 LLVMValueRef *args, unsigned n);

/* emit_threads.c */
void tg_device_barrier(tg_emitter *);
LLVMValueRef tg_device_shuffle(tg_emitter *, const tg_uop *u);

/* emit_copy.c */
/* false: it is a store of a value, which has been emitted */
bool tg_emit_copy(tg_emitter *, const tg_uop *store);
void tg_device_wait(tg_emitter *, const tg_uop *wait);

/* emit_value.c */
LLVMTypeRef tg_emit_type(tg_emitter *, tg_type t, uint32_t lanes);
LLVMTypeRef tg_emit_memory_type(tg_emitter *, tg_type t, uint32_t lanes);   /* bool is a byte */
LLVMValueRef tg_emit_get(tg_emitter *, const tg_uop *u, uint32_t lanes);    /* the value, splat to lanes */
LLVMValueRef tg_emit_raw(tg_emitter *, const tg_uop *u, uint32_t lanes);    /* the same, but a tile remains one */
/* a statement that is not worth an instruction yet */
bool tg_emit_put_off(tg_emitter *, const tg_uop *u);
uint32_t tg_emit_depth(tg_emitter *, const tg_uop *u);
LLVMValueRef tg_emit_splat(tg_emitter *, LLVMValueRef v, uint32_t lanes, uint32_t depth);
LLVMValueRef tg_emit_zero(tg_emitter *, tg_type t, uint32_t lanes);
LLVMValueRef tg_emit_bits(tg_emitter *, tg_type t, uint64_t bits);
LLVMValueRef tg_emit_alu(tg_emitter *, const tg_uop *u);                    /* a lanewise op, FOLD */
LLVMValueRef tg_emit_call(tg_emitter *, const char *intrinsic, LLVMTypeRef overload, LLVMValueRef *args, unsigned n);
LLVMValueRef tg_emit_op2(tg_emitter *, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b);
/* The found or made thing for (a, b); made by the caller where tg_emit_at(depth) puts the builder. */
LLVMValueRef tg_emit_memo_get(tg_emitter *, const void *a, const void *b);
void tg_emit_memo_set(tg_emitter *, const void *a, const void *b, LLVMValueRef v, uint32_t depth);
void tg_emit_memo_drop(tg_emitter *, uint32_t from, uint32_t depth);
LLVMBasicBlockRef tg_emit_at(tg_emitter *, uint32_t depth);                 /* returns the block to come back to */
void tg_emit_back(tg_emitter *, LLVMBasicBlockRef);

/* emit_registers.c */
/* a host's function, whole: its vectors as what the target's registers hold */
void tg_emit_registers(tg_emitter *, LLVMValueRef fn);

/* emit_folds.c */
/* the FOLD that the list begins with together with those like it that follow, if there are any */
void tg_emit_folds(tg_emitter *, const tg_uop *const *list, uint32_t n);

/* emit_matrix.c */
LLVMValueRef tg_emit_matrix(tg_emitter *, const tg_uop *u);
/* before any function: loads and buffers that are registers of tiles */
void tg_emit_find_tiles(tg_emitter *);
static inline bool tg_emit_is_tile(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMX86_AMXTypeKind; }
/* a value of a tile's elements, or of one for all of them, as a tile; NULL: of zeros */
LLVMValueRef tg_emit_tile(tg_emitter *, LLVMValueRef v);
LLVMValueRef tg_emit_elements(tg_emitter *, LLVMValueRef v, LLVMTypeRef type);   /* the other way */
LLVMValueRef tg_emit_load_tile(tg_emitter *, LLVMValueRef pointer);
void tg_emit_store_tile(tg_emitter *, LLVMValueRef pointer, LLVMValueRef tile);

/* emit_convert.c */
LLVMValueRef tg_emit_cast(tg_emitter *, const tg_uop *u);
LLVMValueRef tg_emit_bitcast(tg_emitter *, const tg_uop *u);

/* emit_memory.c */
LLVMValueRef tg_emit_pointer(tg_emitter *, uint32_t buffer);
LLVMValueRef tg_emit_load(tg_emitter *, const tg_uop *u);
void tg_emit_store(tg_emitter *, const tg_uop *u);
void tg_emit_prefetch(tg_emitter *, const tg_uop *u);
/* device, before any function: what to assume of buffers */
void tg_emit_find_aligned(tg_emitter *, const tg_uop *u);
uint32_t tg_emit_store_lanes(const tg_uop *u);
/* where lane 0 of an access without gaps is */
LLVMValueRef tg_emit_contiguous(tg_emitter *, const tg_uop *access, uint32_t lanes, uint32_t *align);
/* the branch around what follows; to be closed */
LLVMBasicBlockRef tg_emit_open_gate(tg_emitter *, LLVMValueRef condition);
void tg_emit_close_gate(tg_emitter *, LLVMBasicBlockRef after);
emit_cell *tg_emit_cell(tg_emitter *, const tg_uop *access);                /* of a REG in SSA form */

/* emit_debug.c */
void tg_emit_debug_module(tg_emitter *);
void tg_emit_debug_function(tg_emitter *, LLVMValueRef fn, const char *name);
void tg_emit_debug_statement(tg_emitter *, const tg_uop *u);
#endif
