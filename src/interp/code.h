/* SPDX-License-Identifier: MIT
 * The interpreter's own code. Each statement is compiled once to a flat list of instructions whose operands are
 * numbered slots. A reduction is one instruction with a body of its own; the body has exactly the instructions that
 * depend on the reduction's ranges. Lockstep ranges are local, lane and upcast ranges: a statement runs for all
 * combinations of their values before the next statement starts. */
#ifndef TG_INTERP_CODE_H
#define TG_INTERP_CODE_H
#include "interp/interp.h"

/* C_FADD to C_CMOD are fast paths of common ops, equal in effect to their definition in the table of ops (C_FMA: f32,
 * C_DMA: f64; C_W..: integers that wrap). C_OP runs any other op by the table. */
typedef enum {
  C_OP,
  C_FADD,
  C_FSUB,
  C_FMUL,
  C_FMA,
  C_DMA,
  C_IADD,
  C_ISUB,
  C_IMUL,
  C_WADD,
  C_WSUB,
  C_WMUL,
  C_AND,
  C_OR,
  C_MIN,
  C_MAX,
  C_LT,
  C_LE,
  C_EQ,
  C_NE,
  C_WHERE,
  C_IDIV,
  C_MOD,
  C_CDIV,
  C_CMOD,
  C_CAST,
  C_BITCAST,
  C_LOAD,
  C_REDUCE,
  C_FOLD,
  C_CALL,
  C_SHUFFLE,
  C_PERMUTE,
  C_MATRIX
} tg_code_kind;

typedef struct { uint32_t at; uint32_t step; } tg_operand;   /* slot of lane 0; 1 if each lane has its own, else 0 */

typedef struct tg_instr {
  tg_code_kind code : 8;
  tg_op op : 8;
  tg_type type : 8, from : 8;
  uint32_t lanes, dst;
  tg_operand src[3];
  const void *extra;             /* tg_interp_access, tg_reduction, tg_callee */
} tg_instr;

/* The results of a value statement within lockstep ranges, one for each combination of them (locks: how many). */
typedef struct { uint32_t slot, lanes, locks; tg_value *of; uint64_t cap; } tg_kept;

/* Straight-line code. kept: results that must be put into their slots before it runs. floats, integers, moves: what
 * one run adds to tg_interp_counts. start: of a statement within lockstep ranges, whose code is sorted by the innermost
 * of them that it depends on: start[d] is the first instruction that must run again where range number d - 1 or one
 * within it has moved on, of start[0] .. start[number of ranges]; NULL: all. */
typedef struct {
  tg_instr *code;
  uint32_t n, kept_n;
  tg_kept *const *kept;
  const uint32_t *start;
  uint64_t floats, integers, moves;
} tg_block;

typedef struct {
  const tg_uop *u;               /* the LOAD or STORE */
  uint32_t buffer, rank, lanes;
  /* unsure: only reductions use it, which may all have no iterations, so its subscript may be out of bounds. ahead:
   * runs in all lanes, because another lane may read the result, so the element may be unwritten */
  bool gated, atomic, async, unsure, ahead;
  tg_operand index[16], gate, value;   /* value: of a STORE what is stored, of a LOAD the result if gated off */
} tg_interp_access;

typedef struct { tg_block block; tg_operand result; } tg_formula;

/* ---- matrix instructions (matrix.c) ---- */

typedef struct tg_instruction tg_instruction;
const tg_instruction *tg_instruction_find(const char *name);   /* NULL: unknown here */
uint32_t tg_instruction_lanes(const tg_instruction *x);
uint32_t tg_instruction_registers(const tg_instruction *x, int which);   /* of a lane, of a, b, c */
/* Runs it on operand[which][lane * registers + register], which = 0, 1, 2 for a, b, c; result is laid out like c.
 * Returns NULL, or what is wrong with the operands. */
const char *tg_instruction_run(const tg_instruction *x, tg_value *const operand[3], tg_value *result);
/* Which element of its matrix a register holds: for tests. */
void tg_instruction_element(const tg_instruction *x, int which, uint32_t lane, uint32_t reg, uint32_t *row,
                            uint32_t *column);

/* SHUFFLE over a range, or MATRIX: they read values of other lanes. Their operands are separate code, which is run with
 * the range set to the lane that is read. */
typedef struct tg_exchange {
  const tg_uop *u;
  bool range;                    /* MATRIX: its lanes are a range; false: it has one lane */
  uint32_t ordinal;
  tg_operand index;
  tg_formula value;              /* SHUFFLE */
  tg_block operands;             /* MATRIX */
  tg_operand operand[3];
  const tg_instruction *instruction;
  struct tg_product *product;    /* result for the current statement and warp */
} tg_exchange;

typedef struct {
  const tg_uop *u;
  tg_reduce_arg info;
  uint32_t range[8], ordinal[8]; /* slots */
  tg_kind kind[8];
  tg_formula extent[8];
  tg_block body;
  tg_operand value[8], init[8];
  uint32_t lanes[8], dst[8], left[8], right[8], width;   /* width: lanes of all values */
  tg_type type[8];
  tg_value identity;
  tg_block combine;              /* GENERIC: computes combined from left and right */
  tg_operand combined[8];
  struct tg_remembered *results;          /* NULL: its results are not kept */
} tg_reduction;

typedef struct { tg_op op; tg_type type; tg_block block; uint32_t arg; tg_operand result; bool defined; } tg_callee;

typedef enum { S_DEFINE, S_STORE, S_VALUE, S_LOOP, S_BARRIER, S_WAIT, S_PREFETCH } tg_step_kind;
typedef struct tg_step tg_step;
struct tg_step {
  uint8_t kind;
  const tg_uop *u;
  tg_block block;                /* STORE, VALUE */
  const tg_interp_access *access;
  bool exchanges;                /* STORE: reads other lanes' registers, so all lanes compute before one stores */
  tg_kept *kept;                 /* VALUE within lockstep ranges */
  tg_formula *formulas;          /* DEFINE: dims, strides, lo, hi; LOOP: the extent */
  uint32_t formulas_n;
  uint32_t range, ordinal;       /* LOOP: slot, ordinal */
  tg_kind range_kind;
  tg_step *children;
  uint32_t n;
};

typedef struct { uint32_t at, lanes; tg_value value; bool iota; } tg_preset;

/* a compiled value statement; fixed: the slot that its node had before, to be restored */
typedef struct { uint32_t id, fixed; tg_kept *kept; } tg_done;

typedef struct tg_interp_work tg_interp_work;
typedef struct tg_interp_compiler {
  tg_job *j;
  uint32_t slots, epoch;
  uint32_t *fixed, *slot, *stamp;      /* by id; fixed and slot: + 1 */
  uint8_t *height;                     /* by id; valid if stamp is the epoch */
  uint64_t *mask;
  /* by id: the innermost reduction that contains all uses of the node and may have no iterations; NULL: none */
  const tg_uop **inside;
  uint32_t *walked, walk;              /* by id: the last walk that met the node */
  uint8_t *certain;                    /* by id: computed whenever the code around it runs */
  uint32_t *range_slot;                /* by ordinal, + 1 */
  uint8_t *range_height;
  uint32_t *range_epoch;
  const uint32_t *args;                /* slots of the ARGs of the unit being compiled */
  uint32_t args_n;
  TG_VEC(tg_instr) main, pending[64];
  TG_VEC(const tg_uop *) order;
  TG_VEC(tg_preset) presets;
  TG_VEC(tg_done) done;                /* value statements of the statement lists being compiled */
  TG_VEC(tg_callee *) callees;
  tg_kept **kept;                      /* by id, while fixed; NULL: not within lockstep ranges */
  TG_VEC(tg_kept *) uses;              /* those that the unit being compiled reads */
  uint32_t locks, exchanges;           /* number of lockstep ranges around; SHUFFLEs compiled so far */
  /* by slot: how many of the lockstep ranges, from the outermost, its value depends on; of slots beyond: none */
  TG_VEC(uint8_t) depth;
  /* the value statement being compiled, if it loads a register within lockstep ranges; else NULL */
  const tg_uop *ahead;
  /* the unit being compiled is a SHUFFLE's value: it runs in all lanes, also in lanes that nobody reads and whose
   * registers may be unwritten */
  bool exchanged;
  tg_interp_work *work;
  const int64_t *params;
} tg_interp_compiler;

void tg_compiler_init(tg_interp_compiler *c, tg_job *j, const int64_t *params);
/* Compiles code that computes the roots; results gets their slots. args: the slots of ARG 0, 1, .. */
tg_block tg_compile_roots(tg_interp_compiler *c, uint32_t n, const tg_uop *const *roots, tg_operand *results,
                          uint32_t args_n, const uint32_t *args);
tg_step *tg_compile_list(tg_interp_compiler *c, uint32_t n, const tg_uop *const *statements);
/* The sources that a node's value depends on are those from *from to the result - 1: operands, and for a reduction the
 * extents of its ranges after them. */
uint32_t tg_interp_sources(const tg_uop *u, uint32_t *from);
const tg_uop *tg_interp_source(const tg_uop *u, uint32_t i);
uint32_t tg_interp_slot_of_range(tg_interp_compiler *c, uint32_t ordinal);
/* Allocates all slots, with constants and parameters filled in. */
tg_value *tg_compiled_slots(tg_interp_compiler *c);

/* ---- running ---- */

/* An active parallel construct: a loop of tasks, which runs iteration (first + k * step) mod n as its k-th; or, if loop
 * is NULL, a statement that runs in lockstep. Moments are values of the clock that race.c explains. */
typedef struct tg_tasks {
  const tg_step *loop;
  uint32_t entry, now;           /* moments at which the construct and its current iteration began */
  uint64_t n, first, step, next, turns, begun_cap;
  uint32_t *begun;               /* by k: the moment at which that iteration began */
} tg_tasks;
/* For check_barriers: the last accesses of an element. written, reading: counts of barriers at that time; writer,
 * reader, other: threads of the workgroup + 1; write, read: the statements. */
typedef struct { const tg_uop *write, *read; uint32_t written, reading, writer, reader, other; } tg_interp_touch;

typedef struct {
  bool defined, global, strided, shared;   /* shared: the program writes it, so races are possible */
  tg_type type;
  /* bytes: of a scalar; locks, levels: numbers of lockstep ranges and of loops of tasks around the definition; born:
   * the moment of the definition */
  uint32_t lanes, rank, bytes, locks, levels, born;
  int64_t dim[16], stride[16], first;    /* first: the element of subscripts 0; above 0 if a stride is negative */
  size_t count, cap;                     /* scalars of one instance; scalars allocated */
  char *data;
  uint8_t *written;                      /* by scalar: has it been written? NULL: all have */
  uint32_t *shadow;                      /* for race.c: moments of past accesses; NULL: not needed so far */
  tg_interp_touch *touch;                /* for check_barriers, by scalar */
  /* by scalar: is an asynchronous copy to it still pending? NULL: there was never one */
  uint8_t *flying;
  bool promised;                         /* an input: each value is promised to be in lo..hi */
  tg_i128 lo, hi;
} tg_memory;

/* An active lockstep range. extents: by combination of the ranges around it; NULL: always `extent`. copies: the range
 * is upcast, its iterations are copies in one thread. */
typedef struct { uint32_t slot, ordinal; int64_t extent; int64_t *extents; bool copies; } tg_lock;

typedef struct { uint32_t slot, ordinal; } tg_open_range;

/* A pending asynchronous copy of one element: stored to memory by the WAIT that waits for its group. */
typedef struct { const tg_uop *statement; uint32_t buffer, thread, group; size_t at; tg_value value; } tg_flight;

typedef struct tg_interpreter {
  tg_job *j;
  const tg_interp *in;
  tg_value *v;
  tg_memory *memory;                     /* by buffer ordinal */
  uint64_t steps, shut;      /* shut: number of loads so far whose gate was false */
  tg_interp_counts *counts;  /* NULL: counting is off */
  tg_i128 bytes;             /* counted against memory_limit */
  const tg_uop *statement;
  tg_lock locks[16];
  uint64_t combination[17];              /* [n]: index of the current combination of the first n lockstep ranges */
  uint32_t locks_n, moved;               /* moved: of the ranges in lockstep, those before it stayed at the last step */
  int64_t *extents[16];                  /* by level: room for tg_lock.extents */
  uint64_t extents_cap[16];
  TG_VEC(tg_open_range) open;
  tg_value *scratch;                     /* stack of accumulators */
  uint32_t scratch_n, scratch_cap;
  tg_tasks *level;                       /* active loops of tasks, outermost first, then the statement in lockstep */
  uint32_t levels, levels_most, moment, globals;
  uint64_t entries;                      /* number of loops of tasks entered so far */
  bool adds;                             /* the program has atomic additions */
  uint32_t thread, epoch;                /* current thread of the workgroup; barriers and workgroups so far */
  TG_VEC(tg_flight) flights;             /* pending asynchronous copies, oldest first */
  uint32_t groups;                       /* number of groups of copies closed so far */
  const tg_block *unit;                  /* the running block, if it reads kept values */
  uint64_t serial;                       /* number of statements run */
  tg_value *saved;                       /* operands of all combinations of a statement that exchanges */
  uint64_t saved_cap;
} tg_interpreter;

void tg_run_block(tg_interpreter *m, const tg_block *b);
void tg_run_list(tg_interpreter *m, const tg_step *steps, uint32_t n);
/* Runs a loop of n iterations that carries state; with check_merges also in parts (merge.c). run: runs iterations
 * from .. to - 1. */
typedef void tg_run_iterations(tg_interpreter *m, const tg_step *s, int64_t from, int64_t to);
void tg_run_carried(tg_interpreter *m, const tg_step *s, int64_t n, tg_run_iterations *run);
/* Fails; the error names the current statement and the values of the ranges around it. */
TG_NORETURN void tg_machine_fail(tg_interpreter *m, const char *format, ...) TG_PRINTF(2, 3);
void tg_machine_open(tg_interpreter *m, uint32_t slot, uint32_t ordinal);

void tg_machine_count_steps(tg_interpreter *m, uint64_t n);   /* fails beyond the limit */

/* reduce.c */
void tg_run_reduce(tg_interpreter *m, const tg_instr *x);
int64_t tg_machine_extent(tg_interpreter *m, const tg_formula *f);   /* of a range, 0 or more */
void tg_machine_reserve(tg_interpreter *m, uint32_t n);              /* room for so many values on the scratch stack */

/* race.c */
void tg_tasks_enter(tg_interpreter *m, const tg_step *s, int64_t n);   /* a loop of tasks; it ends with m->levels-- */
int64_t tg_tasks_begin(tg_interpreter *m);                              /* the next iteration */
void tg_lanes_enter(tg_interpreter *m, uint64_t n);                     /* a statement that runs in n combinations */
void tg_lanes_select(tg_interpreter *m, uint64_t combination);          /* whose memory is touched from here on */
void tg_lanes_leave(tg_interpreter *m);
void tg_race_advance(tg_interpreter *m, uint64_t by);
void tg_race_read(tg_interpreter *m, tg_memory *b, size_t at);
void tg_race_write(tg_interpreter *m, tg_memory *b, size_t at, bool atomic);
TG_NORETURN void tg_race_of_lanes(tg_interpreter *m, const tg_memory *b, size_t at, uint32_t lane, uint32_t other);
/* May another parallel iteration access this memory, so that a race is possible? */
static inline bool tg_race_possible(const tg_interpreter *m, const tg_memory *b) {
  return b->shared && m->levels > b->levels &&
         (b->levels + 1 < m->levels || m->level[b->levels].loop || b->locks < m->locks_n);
}

/* remembered.c: results of reductions of inputs, for the last values of the ranges around them */
enum { TG_REMEMBERED_RANGES = 8 };
typedef struct tg_remembered tg_remembered;
tg_remembered *tg_remembered_of(tg_interp_compiler *c, const tg_uop *reduce, uint32_t width);
tg_value *tg_remembered_entry(tg_interpreter *m, tg_remembered *results, bool *held);

/* count.c */
void tg_count_block(tg_block *b);
void tg_count_run(tg_interpreter *m, const tg_block *b);
/* Moves the share shut / lanes of what was counted since the copy `since` was taken to `masked`. */
void tg_count_masked(tg_interpreter *m, const tg_interp_counts *since, uint64_t shut, uint64_t lanes);

/* memory.c */
uint32_t tg_memory_shut(const tg_interpreter *m, const tg_interp_access *a);   /* number of lanes whose gate is false */
/* Counts `elements` times `each` bytes for the buffer `name` against memory_limit. */
void tg_memory_limit(tg_interpreter *m, const char *name, size_t elements, size_t each);
void tg_memory_define(tg_interpreter *m, const tg_uop *define, const int64_t *dims, const int64_t *strides,
                      uint64_t instances);
void tg_memory_load(tg_interpreter *m, const tg_interp_access *a, uint32_t dst);
void tg_memory_store(tg_interpreter *m, const tg_interp_access *a);
/* WAIT: closes a group of the copies started since the last one, then completes all but the `flying` newest groups. */
void tg_memory_wait(tg_interpreter *m, int64_t flying);
/* Fails if an asynchronous copy to the buffer (NULL: to any) is pending. */
void tg_memory_settled(tg_interpreter *m, const tg_memory *b);
#endif
