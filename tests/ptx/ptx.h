/* SPDX-License-Identifier: MIT
 * An interpreter of PTX: runs the text that tg emits for NVIDIA's GPUs, on this CPU, with none of tg's own code.
 *
 *   lex.c, parse.c   the text to a decoded kernel: every mnemonic is known, or the text is refused with its line
 *   memory.c         buffers, LOCAL, parameters: bounds, alignment, races, what was never written, copies in flight
 *   run.c            threads with their own pc, in warps: who runs next, and what they wait for
 *   execute.c        arithmetic; convert.c: conversions and small floats; matrix.c: mma, ldmatrix
 *   count.c          warp instructions, wavefronts of LOCAL, sectors of global memory
 *
 * "PTX ISA" in comments is NVIDIA's document "Parallel Thread Execution ISA", version 8.7, by section names. A word of a
 * mnemonic that the tables here do not have is an error: so a new instruction is never taken for another one.
 *
 * What a run reports, by name, with the line of the text and the thread: an access outside of its buffer or of LOCAL;
 * one that is not aligned to its size; a write to a buffer that the kernel may only read; a race (two threads access
 * one place, one of them writing, with no barrier between them); LOCAL read before it was written; a cp.async whose
 * destination is used before its wait; lanes that wait for lanes which never come. */
#ifndef TG_TEST_PTX_H
#define TG_TEST_PTX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_LANES = 32, PTX_OPERANDS = 5, PTX_MESSAGE = 512 };

/* ---- decoded text ---- */

typedef enum {
  PTX_PRED, PTX_B8, PTX_B16, PTX_B32, PTX_B64, PTX_U8, PTX_U16, PTX_U32, PTX_U64, PTX_S8, PTX_S16, PTX_S32, PTX_S64,
  PTX_U16X2, PTX_S16X2, PTX_F16, PTX_F16X2, PTX_BF16, PTX_BF16X2, PTX_TF32, PTX_E4M3, PTX_E5M2, PTX_F32, PTX_F64, PTX_TYPES
} ptx_type;
extern const uint8_t ptx_bits[PTX_TYPES];
static inline uint32_t ptx_bytes(ptx_type t) { return ptx_bits[t] / 8; }
static inline bool ptx_is_signed(ptx_type t) { return t >= PTX_S8 && t <= PTX_S64; }
static inline bool ptx_is_pair(ptx_type t) { return t == PTX_U16X2 || t == PTX_S16X2 || t == PTX_F16X2 || t == PTX_BF16X2; }
static inline bool ptx_is_float(ptx_type t) { return t >= PTX_F16; }

#define PTX_OP(name, head, words) PTX_##name,
typedef enum {
#include "ops.def"
  PTX_OPS
} ptx_op;
#undef PTX_OP

/* What a word of a mnemonic says, and about what. PLAIN: nothing that changes a result here. */
typedef enum { FIELD_PLAIN, FIELD_ROUND, FIELD_NAN, FIELD_PART, FIELD_COMPARE, FIELD_SPACE, FIELD_VECTOR, FIELD_SHAPE, FIELD_HOW,
               FIELD_APPROX, FIELD_WRAP, FIELD_SIDE, FIELD_COUNT, FIELD_TRANS, FIELD_RELU, FIELD_SAT, FIELD_FTZ, FIELDS } ptx_field;
enum { ROUND_NONE, ROUND_RN, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNI, ROUND_RZI, ROUND_RMI, ROUND_RPI };
enum { PART_LO = 1, PART_HI, PART_WIDE };
enum { COMPARE_LT = 1, COMPARE_LE, COMPARE_GT, COMPARE_GE, COMPARE_EQ, COMPARE_NE, COMPARE_LTU, COMPARE_LEU, COMPARE_GTU,
       COMPARE_GEU, COMPARE_EQU, COMPARE_NEU, COMPARE_NUM, COMPARE_NAN };
enum { SPACE_GLOBAL = 1, SPACE_SHARED, SPACE_PARAM };
enum { WRAP_WRAP = 1, WRAP_CLAMP };
enum { SHAPE_M16N8K4 = 1, SHAPE_M16N8K8, SHAPE_M16N8K16, SHAPE_M16N8K32, SHAPE_M8N8 };
enum { HOW_BFLY = 1, HOW_IDX, HOW_UP, HOW_DOWN, HOW_BALLOT, HOW_ANY, HOW_ALL, HOW_ADD, HOW_MIN, HOW_MAX, HOW_EXCH, HOW_CAS,
       HOW_AND, HOW_OR, HOW_XOR, HOW_COMMIT, HOW_WAIT, HOW_WAIT_ALL, HOW_WARP, HOW_F4E };

/* One operand: values[first .. first + n - 1], each the row of a register (>= 0) or ~ that of a constant. An address
 * is one value plus offset. */
typedef struct { uint32_t first; uint16_t n; bool address; int64_t offset; } ptx_operand;
typedef struct {
  uint16_t op;                          /* ptx_op */
  uint8_t field[FIELDS], type[4], types, operands;
  bool negated;                         /* the guard */
  int32_t guard;                        /* row of a predicate; -1: none */
  uint32_t line, target, loop;          /* target: index of a label; loop: 0 none, else 1 + index into loops */
  ptx_operand operand[PTX_OPERANDS];
  const char *mnemonic;
} ptx_instruction;
typedef struct { uint32_t first, last, label_line; char label[32]; } ptx_loop;
typedef struct { char name[96]; uint32_t bytes; } ptx_param;

/* Rows that hold what PTX calls special registers; and one for results that nobody wants, "_". */
enum { ROW_TID, ROW_NTID = 3, ROW_CTAID = 6, ROW_NCTAID = 9, ROW_LANEID = 12, ROW_WARPID, ROW_NOWHERE, ROWS_SPECIAL };
enum { PTX_LOCAL_BASE = 1024 };         /* address of the first byte of LOCAL in its space */

typedef struct ptx_kernel {
  char name[96];
  uint32_t threads;                     /* .reqntid */
  ptx_param param[96];
  uint32_t params, instructions, loops, rows, constants;
  ptx_instruction *instruction;
  ptx_loop *loop;
  int32_t *value;                       /* of operands */
  uint64_t *constant;
  uint8_t *read;                        /* by row: does any instruction read it? */
  uint32_t values, granule[3];          /* by space: the narrowest access, in bytes */
  uint64_t fixed_local;                 /* bytes of LOCAL that the text itself asks for */
} ptx_kernel;

typedef struct { ptx_kernel *kernel; uint32_t kernels; char *text; char message[PTX_MESSAGE]; } ptx_module;
/* False: message says which line has what. */
bool ptx_parse(ptx_module *m, const char *text);
void ptx_module_free(ptx_module *m);
const ptx_kernel *ptx_find(const ptx_module *m, const char *name);

/* ---- running ---- */

typedef struct { const char *name; void *data; size_t bytes, misaligned; bool written; } ptx_buffer;

/* Sums over a launch. An access of a warp has at least as many wavefronts as its words fill rows of 32 banks, at least
 * as many sectors as its bytes fill 32. */
typedef struct {
  uint64_t warps, lanes;                /* warp instructions, and the lanes that were on in them */
  uint64_t wavefronts, wavefronts_fewest, sectors, sectors_fewest;
} ptx_count;
typedef struct { uint64_t sectors_read, sectors_written, distinct_read, distinct_written; } ptx_traffic;
enum { PTX_BUFFERS = 24 };

typedef struct {
  const ptx_kernel *kernel;
  uint32_t groups[3], threads, buffers, params;
  uint64_t local;                       /* bytes of LOCAL that the launch gives */
  ptx_buffer buffer[PTX_BUFFERS];       /* the first arguments, in order */
  const int64_t *param;                 /* the arguments behind them */
  uint64_t seed;                        /* of registers' first contents, and of the order of threads */
  bool drawn;                           /* threads run in a drawn order; else a warp keeps together, lowest pc first */
  uint64_t limit;                       /* the most warp instructions; 0: no limit */
  /* results */
  ptx_count *count;                     /* for each instruction; malloc'd by the run, freed by ptx_launch_free */
  ptx_traffic traffic[PTX_BUFFERS];
  char message[PTX_MESSAGE];            /* the first fault */
} ptx_launch;
bool ptx_run(ptx_launch *l);
void ptx_launch_free(ptx_launch *l);

/* ---- count.c ---- */

typedef struct {
  ptx_count all, local, global;         /* of every instruction; of those that access LOCAL, global memory */
  uint64_t matrix, diverged;            /* matrix instructions of warps; warp instructions with some lanes off */
} ptx_summary;
/* loop: 0 the whole kernel, else 1 + index of a loop, with the loops in it. */
ptx_summary ptx_summarise(const ptx_launch *l, uint32_t loop);
/* A table for people: each loop, then each buffer. Returns its length. */
size_t ptx_report(const ptx_launch *l, char *text, size_t n);
#endif
