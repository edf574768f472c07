/* SPDX-License-Identifier: MIT
 * What a program is: immutable, hash-consed nodes in the arena of one job, and the job's tables of names.
 *
 * Structural equality is pointer equality. Nodes carry a dense id in order of creation, so side tables are
 * arrays. Names are attributes kept in the tables, never part of a node: a RANGE is an ordinal, a DEFINE is
 * the ordinal of a buffer. docs/ir.md says what each form of a program may contain.
 *
 *   op      sources                                        arg
 *   CONST   -                                              integers, INDEX, bool: the value; floats: bits of the double
 *   PARAM   -                                              ordinal in job->params (INDEX)
 *   RANGE   extent                                         ordinal in job->ranges | kind << 32 | TG_STATIC << 40
 *                                                          (INDEX)
 *   IOTA    -                                              0; lanes n: the vector 0, 1, .. n-1 (INDEX, or i32, i64
 *                                                          late)
 *   ARG     -                                              position (combiners, definitions of functions)
 *   DEFINE  dims..., then strides... if TG_STRIDED         ordinal in job->buffers | flags << 32; type = element
 *                                                          (lanes: vector)
 *   AFTER   version or DEFINE, effect, DEFINE                  0: the buffer as the effect (STORE, END, or RANGE: loop
 *                                                              entry) leaves it
 *   LOAD    version, subscripts..., [gate, alternative]    access flags
 *   STORE   version, subscripts..., value, [gate]          access flags; type VOID
 *   END     RANGE, statements...                           0: the loop. Type VOID
 *   SINK    statements...                                  0: the kernel. Type VOID
 *   REDUCE  values.., [inits.., combined..], ranges..      tg_reduce_arg; GENERIC: combined is over ARG 0..nv-1 (left),
 *                                                          nv.. (right)
 *   GET     REDUCE                                         which value of a GENERIC reduce (which has type VOID)
 *   FOLD    vector                                         op: ADD, MUL, MAX, MIN, AND, OR; halves: v[i] op v[i+n/2],
 *                                                          until one is left
 *   BARRIER -                                              a number of its own: no two are one node. Type VOID
 *   WAIT    -                                              a number of its own | groups << 32: asynchronous copies
 *                                                          (STOREs) of this thread since the last WAIT are a
 *                                                          group, and all groups but that many of the youngest have
 *                                                          arrived. Type VOID
 *   SHUFFLE value, lane RANGE, index                       0: what iteration index of the range computes for value,
 *                                                          here.
 *           vector, CONST of its lanes, index              0: lane index of the vector (no range is left)
 *   MATRIX  a, b, c, lane RANGE (CONST 1 where the         ordinal in job->instructions: c + a*b as that instruction of
 *                                                          the
 *           instruction has no lanes)                      target's table has it; operands are this lane's registers
 *   CAST    value                                          0
 *   others  operands                                       0
 *
 *   PREFETCH version, subscripts...                        TG_PREFETCH_*: that element will be wanted; changes nothing.
 *                                                          Type VOID
 *   AHEAD   value, PREFETCH...                             0: the value; what is summed over stands in it, and each
 *                                                          iteration asks for those elements
 * Statements are DEFINE, STORE, BARRIER, WAIT, PREFETCH and END, in program order; in linear form also every value,
 * where it is computed.
 * lanes is 1 or the width of a vector; an operand of one lane stands for all lanes.
 */
#ifndef TG_UOP_H
#define TG_UOP_H
#include "base/base.h"

typedef enum tg_op {
#define OP(name, text, arity, flags, on_int, on_float) TG_OP_##name,
#include "dsl/ops.def"
#undef OP
  TG_OP__COUNT
} tg_op;

enum { TG_OPF_C = 1, TG_OPF_A = 2, TG_OPF_B = 4, TG_OPF_W = 8 };
typedef struct { const char *name, *text; int8_t arity; uint8_t flags; } tg_op_info;
extern const tg_op_info tg_ops[TG_OP__COUNT];

typedef struct tg_uop tg_uop;
struct tg_uop {
  tg_op op : 16;
  tg_type type : 8;
  uint32_t unused : 8;
  uint32_t lanes;
  uint32_t id, n;
  int64_t arg;
  const tg_uop *src[];
};

typedef enum tg_kind {   /* of a RANGE */
  TG_LOOP, TG_GLOBAL, TG_LOCAL, TG_LANE, TG_GROUP, TG_REDUCE, TG_UPCAST, TG_UNROLL, TG_THREAD, TG_MERGE, TG_KIND__COUNT
} tg_kind;
extern const char *const tg_kind_name[TG_KIND__COUNT];

/* The last statement of a loop that carries state which can be merged is END(RANGE of kind MERGE, extent 1): never
 * executed where it stands, it says how two states become one. For each carried tile t it begins with DEFINE a.t,
 * DEFINE b.t and stores of the constant that is neutral into all of a.t, b.t and t; then the author's statements,
 * which read the a.t and b.t and store to the t. Gone after pass schedule. */
enum { TG_CARRIED = 16 };
typedef struct { const tg_uop *tile, *a, *b, *neutral; } tg_carried;   /* DEFINEs, and a CONST */
/* end: the END of kind MERGE; first: of its sources that merges */
typedef struct { const tg_uop *end; uint32_t n, first; tg_carried tile[TG_CARRIED]; } tg_carry;

typedef enum tg_space { TG_SPACE_GLOBAL, TG_SPACE_LOCAL, TG_SPACE_REG } tg_space;
typedef enum tg_role { TG_ROLE_TEMP, TG_ROLE_IN, TG_ROLE_OUT, TG_ROLE_INOUT } tg_role;
/* of REG, by pass place */
typedef enum tg_place { TG_PLACE_NONE, TG_PLACE_SSA, TG_PLACE_MEMORY, TG_PLACE_WINDOWED } tg_place;

enum {                       /* LOAD and STORE */
  TG_GATED = 1,              /* the last sources are gate and alternative, or gate */
  TG_STREAM = 2,             /* non-temporal */
  TG_ATOMIC = 4,             /* STORE: B[..] += value, atomically (ADD only) */
  TG_ASYNC = 8,              /* STORE: of a LOAD to LOCAL, in flight until a WAIT */
};
enum { TG_PREFETCH_L1 = 16, TG_PREFETCH_L2 = 32, TG_PREFETCH_WRITE = 64 };
enum { TG_STRIDED = 1 };     /* DEFINE */

/* text: the line of the source, and column (1-based, 0 unknown) is the file's; macro: the statement as the
 * preprocessor left it, column counts in it. */
typedef struct { const char *file, *text; int line, column, length; bool macro; } tg_pos;

typedef struct {
  const char *name;
  uint32_t from;             /* ordinal of the author's range that it came from by splits; its own if none */
  tg_pos pos;
} tg_range_info;

typedef struct {
  const char *name;
  tg_space space : 8;
  tg_role role : 8;
  bool partial;
  tg_place place : 8, demand : 8;   /* demand: that the author asks for */
  uint8_t rank;
  tg_type type : 8;
  uint32_t align;            /* bytes the base is aligned to; 0: the element's size */
  const tg_uop *lo, *hi;     /* contract of an index input: every value in [lo, hi]; NULL if none */
  tg_pos pos;
} tg_buffer;

typedef struct {
  const char *name;
  int64_t lo, hi, multiple;  /* a run-time value in [lo, hi], a multiple of multiple (>= 1) */
  tg_pos pos;
} tg_param;

/* One word of a schedule, as written. names: ranges or buffers it mentions, as text; n: numbers. lower/schedule.h
 * reads it. */
typedef struct { const char *text; tg_pos pos; } tg_opt_text;

/* values[0] is the default */
typedef struct { const char *name; int64_t value; const int64_t *values; uint32_t n; } tg_knob;

typedef struct { const tg_uop *node; const tg_uop *stmt; tg_pos pos; } tg_occurrence;

/* An input that a schedule takes packed: the author's form of the program that packs it, as nodes of this job, and
 * as the text of a kernel of its own. */
/* sum: of `with`, or NULL */
typedef struct { const char *source, *copy, *sum; const tg_uop *sink; const char *text; } tg_packing;

typedef struct tg_memo { uint32_t *stamp; const tg_uop **value; uint32_t cap, epoch; bool busy; } tg_memo;

typedef struct tg_job {
  tg_env env;                                   /* first: a tg_job * is a tg_env * */
  TG_VEC(const tg_uop *) uops;                  /* by id */
  uint64_t *slots;                              /* hash table: hash << 32 | id + 1 */
  uint32_t slots_mask;
  TG_VEC(tg_range_info) ranges;
  TG_VEC(tg_buffer) buffers;
  TG_VEC(tg_param) params;
  TG_VEC(tg_pos) pos;                           /* of statements, by uop id; may be shorter than uops */
  TG_VEC(tg_occurrence) occurrences;            /* of nodes within author statements */
  TG_VEC(const tg_uop *) requires;              /* tg_require: facts on parameters, bool */
  TG_VEC(tg_opt_text) opts;                     /* the schedule given by hand */
  TG_VEC(tg_packing) packings;                  /* left by pass schedule */
  /* parameters and knobs bound to constants: for printing and keys */
  TG_VEC(struct { const char *name; int64_t value; }) constants;
  /* with the values to choose from; bound ones are among the constants too */
  TG_VEC(tg_knob) knobs;
  TG_VEC(const char *) instructions;            /* names in the table of matrix instructions, by what MATRIX says */
  const char *name;                             /* of the kernel; set before parsing: the one of the file to take */
  const tg_uop *sink;                           /* the program, in its present form */
  const char *stage;                            /* the form: name of the last pass, "author" at first */
  const char **symbols; uint32_t symbols_n, symbols_mask;  /* interned names */
  /* names of buffers, parameters, ranges, as far as they have been seen (uop.c) */
  struct tg_taken *taken; uint32_t taken_n, taken_mask, taken_seen[3];
  tg_memo memos[4];
  tg_pos refused;                               /* where the last tg_fail_at was */
  /* what pass schedule makes of from under that list: the heuristic tries its own */
  struct { const tg_uop *from, *to; const char *last; uint32_t opts; } tried;
  void *trace;                                  /* rewrite trace, if one is being taken (ranges/ranges.h) */
  /* what lowering, if it verifies, holds later forms against (lower/spec.h) */
  struct tg_authored *authored;
  struct tg_known *known;                       /* what ranges has found out about nodes */
  const tg_uop **functions;                     /* definitions parsed so far (dsl/functions.h) */
} tg_job;

/* All of these fail by unwinding (base.h). */
/* inside tg_protect(&j->env, ..) from then on; init itself allocates nothing */
void tg_job_init(tg_job *j, const tg_allocator *a);
void tg_job_drop(tg_job *j);

/* Runs fn(arg). False if it fails as an author's mistake would, or at a limit: *message says how, and the job goes
 * on, with the ranges and the buffers that it had. Any other failure unwinds further. */
bool tg_job_try(tg_job *j, void (*fn)(void *), void *arg, const char **message);

const char *tg_symbol(tg_job *j, const char *s, size_t n);   /* interned: equal names are equal pointers */
static inline const char *tg_sym(tg_job *j, const char *s) { return tg_symbol(j, s, strlen(s)); }

/* The node, found or made. Nothing is simplified or reordered. */
const tg_uop *tg_make(tg_job *j, tg_op op, tg_type type, uint32_t lanes, int64_t arg, uint32_t n,
                      const tg_uop *const *src);
/* The same node over other sources; lanes follow the sources for lanewise ops, LOAD. */
const tg_uop *tg_with_sources(tg_job *j, const tg_uop *u, const tg_uop *const *src);

const tg_uop *tg_const_int(tg_job *j, tg_type t, int64_t v);      /* wrapped to t */
const tg_uop *tg_const_float(tg_job *j, tg_type t, double v);     /* rounded to t */
static inline const tg_uop *tg_index(tg_job *j, int64_t v) { return tg_const_int(j, TG_INDEX, v); }
static inline const tg_uop *tg_bool(tg_job *j, bool v) { return tg_const_int(j, TG_BOOL, v); }
double tg_const_value(const tg_uop *c);                           /* of a float CONST */
static inline bool tg_is_const(const tg_uop *u, int64_t v) {
  return u->op == TG_OP_CONST && u->type != TG_F32 && u->type != TG_F64 && u->type != TG_F16 && u->type != TG_BF16 &&
         u->arg == v;
}

/* Lanewise ops: the type follows the operands (bool for compares; WHERE, the arms'), lanes the widest. Raw: no
 * folding. */
const tg_uop *tg_op1(tg_job *j, tg_op op, const tg_uop *a);
const tg_uop *tg_op2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b);
const tg_uop *tg_op3(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b, const tg_uop *c);
const tg_uop *tg_cast(tg_job *j, tg_type t, const tg_uop *a);     /* a itself if it has the type */
const tg_uop *tg_bitcast(tg_job *j, tg_type t, const tg_uop *a);
const tg_uop *tg_and(tg_job *j, const tg_uop *a, const tg_uop *b);    /* of two bools; NULL stands for true */
const tg_uop *tg_iota(tg_job *j, tg_type t, uint32_t lanes);

const tg_uop *tg_range_new(tg_job *j, const char *name, const tg_uop *extent, tg_kind kind,
                           uint32_t from /* UINT32_MAX: its own */, tg_pos pos);
/* same ordinal; TG_STATIC stays on a thread range */
const tg_uop *tg_range_again(tg_job *j, const tg_uop *range, const tg_uop *extent, tg_kind kind);
static inline uint32_t tg_range_ordinal(const tg_uop *r) { return (uint32_t)r->arg; }
static inline tg_kind tg_range_kind(const tg_uop *r) { return (tg_kind)(r->arg >> 32 & 0xff); }
/* Of a thread range: tasks go to threads as contiguous equal shares, and not one by one. */
enum { TG_STATIC = 1 };
static inline bool tg_range_static(const tg_uop *r) { return r->arg >> 40 & TG_STATIC; }
const tg_uop *tg_range_dealt(tg_job *j, const tg_uop *range, bool in_shares);
static inline const tg_uop *tg_extent(const tg_uop *r) { return r->src[0]; }

/* A buffer and its DEFINE. strides NULL: dense, row-major. The name is made unique in the job if unique is set
 * ("acc", "acc.1"). */
const tg_uop *tg_define(tg_job *j, tg_buffer info, uint32_t lanes, const tg_uop *const *dims,
                        const tg_uop *const *strides, bool unique);
static inline const tg_uop *tg_define_of(const tg_uop *version) {
  return version->op == TG_OP_AFTER ? version->src[2] : version;
}
static inline uint32_t tg_buffer_ordinal(const tg_uop *version) { return (uint32_t)tg_define_of(version)->arg; }
static inline tg_buffer *tg_buffer_info(tg_job *j, const tg_uop *version) {
  return &j->buffers.data[tg_buffer_ordinal(version)];
}

const tg_uop *tg_load(tg_job *j, const tg_uop *version, const tg_uop *const *idx, const tg_uop *gate, const tg_uop *alt,
                      int64_t flags);
const tg_uop *tg_store(tg_job *j, const tg_uop *version, const tg_uop *const *idx, const tg_uop *value,
                       const tg_uop *gate, int64_t flags);
const tg_uop *tg_end(tg_job *j, const tg_uop *range, uint32_t n, const tg_uop *const *statements);
const tg_uop *tg_sink(tg_job *j, uint32_t n, const tg_uop *const *statements);
static inline uint32_t tg_access_rank(const tg_uop *u) {   /* subscripts of a LOAD, STORE or PREFETCH */
  if (u->op == TG_OP_PREFETCH) return u->n - 1;
  return u->op == TG_OP_LOAD ? u->n - 1 - (u->arg & TG_GATED ? 2 : 0) : u->n - 2 - (u->arg & TG_GATED ? 1 : 0);
}
static inline const tg_uop *tg_gate(const tg_uop *u) {
  return !(u->arg & TG_GATED) ? NULL : u->op == TG_OP_LOAD ? u->src[u->n - 2] : u->src[u->n - 1];
}
static inline const tg_uop *tg_alternative(const tg_uop *load) {
  return load->arg & TG_GATED ? load->src[load->n - 1] : NULL;
}
static inline const tg_uop *tg_stored(const tg_uop *store) {
  return store->src[store->n - 1 - (store->arg & TG_GATED ? 1 : 0)];
}

/* What threads of a workgroup wrote before it to LOCAL and GLOBAL, they read behind it. A node of its own each time. */
const tg_uop *tg_barrier_new(tg_job *j);
/* The asynchronous copies since the last WAIT are a group. All groups have arrived but the `flying` youngest;
 * TG_ALL_FLYING: none need have. A node of its own. */
enum { TG_ALL_FLYING = 1 << 16 };
const tg_uop *tg_wait_new(tg_job *j, int64_t flying);
static inline int64_t tg_wait_flying(const tg_uop *wait) { return wait->arg >> 32; }
/* range: a RANGE of kind lane, or the CONST that counts the lanes of the vector `value`. */
const tg_uop *tg_shuffle(tg_job *j, const tg_uop *value, const tg_uop *range, const tg_uop *index);
const tg_uop *tg_matrix(tg_job *j, const char *instruction, const tg_uop *a, const tg_uop *b, const tg_uop *c,
                        const tg_uop *range);
static inline const char *tg_matrix_name(const tg_job *j, const tg_uop *u) { return j->instructions.data[u->arg]; }

/* What a loop carries (dsl/carry.c); false: it has no merge, or one whose form a schedule has changed. */
bool tg_carry_of(tg_job *j, const tg_uop *end, tg_carry *c);
static inline bool tg_is_merge(const tg_uop *u) { return u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_MERGE; }
static inline const tg_uop *tg_merge_of(const tg_uop *end) {
  return end->n > 1 && tg_is_merge(end->src[end->n - 1]) ? end->src[end->n - 1] : NULL;
}

/* REDUCE. op ADD, MUL, MAX, MIN, AND, OR with one value; or GENERIC with nv of each. */
typedef struct { uint16_t op; uint8_t values, ranges; bool in_order, generic; } tg_reduce_arg;
tg_reduce_arg tg_reduce_info(const tg_uop *reduce);
/* Equal reductions, up to the identity of their ranges, are one node: the one made first is returned. */
const tg_uop *tg_reduce(tg_job *j, tg_reduce_arg a, const tg_uop *const *values, const tg_uop *const *inits,
                        const tg_uop *const *combined, const tg_uop *const *ranges);
/* A reduction of its own over other sources (as many but for the ranges): never merged with an equal one. */
const tg_uop *tg_reduce_like(tg_job *j, const tg_uop *reduce, const tg_uop *const *src, uint32_t ranges_n,
                             const tg_uop *const *ranges);
static inline const tg_uop *const *tg_reduce_ranges(const tg_uop *reduce) {
  return reduce->src + reduce->n - tg_reduce_info(reduce).ranges;
}
const tg_uop *tg_identity(tg_job *j, tg_op op, tg_type t);   /* of ADD, MUL, MAX, MIN, AND, OR */
/* argmax and argmin: a GENERIC reduction of values of this type and their places, i32. Of all terms the largest
 * (smallest), NaN before all, the first of equals: so the place of a term, if there is one. */
void tg_extreme_parts(tg_job *j, tg_type t, bool largest, const tg_uop *inits[2], const tg_uop *combined[2]);
/* The place found by an argmax or argmin: its reduction, else NULL. The place of term i.. is the reduction's source
 * 1. */
const tg_uop *tg_extreme_of(tg_job *j, const tg_uop *get);

/* Positions. */
void tg_set_pos(tg_job *j, const tg_uop *statement, tg_pos p);
tg_pos tg_get_pos(const tg_job *j, const tg_uop *statement);
/* Unwinds with file:line:col: error: ..., the source line and a caret (dsl/position.c). Lines of the message after
 * its first stand below the caret, indented alike: notes, witnesses, remedies. */
TG_NORETURN void tg_fail_at(tg_job *j, tg_pos p, const char *format, ...) TG_PRINTF(3, 4);

/* Nodes below root, sources first, each once, in an order that depends on structure only. *n gets the count. */
const tg_uop **tg_toposort(tg_job *j, const tg_uop *root, uint32_t *n);

/* Rebuilds the graph below root from the leaves: fn gets each node with its new sources and returns what stands
 * for it (NULL: the same op over the new sources). enter, if given, is asked first, top down: a node that it
 * returns is taken as it is and nothing below is visited. Iterative; positions of statements carry over. */
typedef const tg_uop *tg_map_fn(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user);
typedef const tg_uop *tg_enter_fn(tg_job *j, const tg_uop *old, void *user);
const tg_uop *tg_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, tg_enter_fn *enter, void *user);
const tg_uop *tg_substitute(tg_job *j, const tg_uop *root, uint32_t n, const tg_uop *const *from,
                            const tg_uop *const *to);
bool tg_uses(tg_job *j, const tg_uop *root, const tg_uop *node);

/* Versions (dsl/version.c). A pass that moves, copies or drops statements works on the plain form, in which LOAD and
 * STORE name the DEFINE itself and mean the buffer as it is where the statement stands; then has versions threaded. */
const tg_uop *tg_plain(tg_job *j, const tg_uop *sink);
const tg_uop *tg_versioned(tg_job *j, const tg_uop *plain_sink);
/* does a BARRIER make a version of it? LOCAL, and GLOBAL that may be written */
bool tg_orders(const tg_job *j, uint32_t buffer);

/* Text of types. */
extern const char *const tg_type_name[TG_TYPE__COUNT];
static inline bool tg_is_float(tg_type t) { return t >= TG_F16 && t <= TG_E5M2; }
static inline bool tg_is_int(tg_type t) { return t >= TG_I8 && t <= TG_U64; }
static inline bool tg_is_signed(tg_type t) { return (t >= TG_I8 && t <= TG_I64) || t == TG_INDEX; }
int tg_type_bits(tg_type t);    /* 1 for bool; 0 for VOID and INDEX */
int tg_type_bytes(tg_type t);   /* as stored: bool 1 */
#endif
