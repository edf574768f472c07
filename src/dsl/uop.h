/* SPDX-License-Identifier: MIT
 * What a program is: immutable, hash-consed nodes in the arena of one job, and the job's tables of names.
 *
 * Structural equality is pointer equality. Nodes have dense ids in order of creation, so side tables are arrays
 * indexed by id. Names are kept in the tables and are never part of a node: a RANGE has the ordinal of a range, a
 * DEFINE the ordinal of a buffer. docs/ir.md says what each form of a program may contain.
 *
 *   op      sources                                        arg
 *   CONST   -                                              integers, INDEX, bool: the value; floats: bits of the double
 *   PARAM   -                                              ordinal in job->params (INDEX)
 *   RANGE   extent                                         ordinal in job->ranges | kind << 32 | TG_STATIC << 40
 *                                                          (INDEX)
 *   IOTA    -                                              0; n lanes: the vector 0, 1, .. n-1 (INDEX; i32 or i64 in
 *                                                          late stages)
 *   ARG     -                                              position (in combiners and definitions of functions)
 *   DEFINE  dims..., then strides... if TG_STRIDED         ordinal in job->buffers | flags << 32; type: of an element;
 *                                                          lanes > 1: elements are vectors
 *   AFTER   version or DEFINE, effect, DEFINE              0: the buffer as the effect (STORE, END, or RANGE: start
 *                                                          of the loop's body) leaves it
 *   LOAD    version, subscripts..., [gate, alternative]    access flags
 *   STORE   version, subscripts..., value, [gate]          access flags; type VOID
 *   END     RANGE, statements...                           0: the loop. Type VOID
 *   SINK    statements...                                  0: the kernel. Type VOID
 *   REDUCE  values.., [inits.., combined..], ranges..      tg_reduce_arg; GENERIC: combined uses ARG 0..nv-1 (left
 *                                                          state) and nv..2nv-1 (right state), for nv values
 *   GET     REDUCE                                         which value of a GENERIC reduce (which has type VOID)
 *   FOLD    vector                                         op: ADD, MUL, MAX, MIN, AND, OR. Reduces the lanes:
 *                                                          v[i] op v[i+n/2] halves the n lanes until one is left
 *   BARRIER -                                              a unique number, so that no two are one node. Type VOID
 *   WAIT    -                                              unique number | groups << 32. The asynchronous copies
 *                                                          (STOREs) of this thread since its previous WAIT form a
 *                                                          group; after the WAIT all but the youngest `groups` groups
 *                                                          have arrived. Type VOID
 *   SHUFFLE value, lane RANGE, index                       0: the value that iteration `index` of the range computes
 *                                                          here
 *           vector, CONST (its lanes), index               0: lane `index` of the vector (form without lane ranges)
 *   MATRIX  a, b, c, lane RANGE (CONST 1 if the            ordinal in job->instructions: c + a*b by that instruction of
 *           instruction has no lanes)                      the target's table; operands are this lane's registers
 *   CAST    value                                          0
 *   others  operands                                       0
 *
 *   PREFETCH version, subscripts...                        TG_PREFETCH_*: prefetches the element; changes no value.
 *                                                          Type VOID
 *   AHEAD   value, PREFETCH...                             0: the value. Within a REDUCE: each iteration executes these
 *                                                          prefetches
 * Statements are DEFINE, STORE, BARRIER, WAIT, PREFETCH and END, in program order; in linear form every value too, at
 * the point where it is computed.
 * lanes is 1 or the width of a vector; an operand of one lane is broadcast to all lanes.
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

/* A loop that carries state from iteration to iteration may say how two states are merged into one, so that its
 * iterations can be split among tasks. Its last statement then is END(RANGE of kind MERGE, extent 1), which is never
 * executed in place. For each carried tile t it begins with DEFINE a.t, DEFINE b.t and stores of the neutral
 * constant into all of a.t, b.t and t; then come the author's statements, which read a.t and b.t and store to t.
 * None is left after pass schedule. */
enum { TG_CARRIED = 16 };
typedef struct { const tg_uop *tile, *a, *b, *neutral; } tg_carried;   /* DEFINEs, and a CONST */
/* end: the END of kind MERGE; n: carried tiles; first: index of its first source that is an author's statement */
typedef struct { const tg_uop *end; uint32_t n, first; tg_carried tile[TG_CARRIED]; } tg_carry;

typedef enum tg_space { TG_SPACE_GLOBAL, TG_SPACE_LOCAL, TG_SPACE_REG } tg_space;
typedef enum tg_role { TG_ROLE_TEMP, TG_ROLE_IN, TG_ROLE_OUT, TG_ROLE_INOUT } tg_role;
/* where a REG buffer lives, decided by pass place */
typedef enum tg_place { TG_PLACE_NONE, TG_PLACE_SSA, TG_PLACE_MEMORY, TG_PLACE_WINDOWED } tg_place;

enum {                       /* LOAD and STORE */
  TG_GATED = 1,              /* the last sources are gate and alternative (LOAD), or gate (STORE) */
  TG_STREAM = 2,             /* non-temporal */
  TG_ATOMIC = 4,             /* STORE: B[..] += value, atomically (ADD only) */
  TG_ASYNC = 8,              /* STORE: asynchronous copy of a LOAD to LOCAL, in flight until a WAIT */
};
enum { TG_PREFETCH_L1 = 16, TG_PREFETCH_L2 = 32, TG_PREFETCH_WRITE = 64 };
enum { TG_STRIDED = 1 };     /* DEFINE */

/* A source position. text: the source line, or if macro is set, the statement after preprocessing. column: position
 * in text, 1-based; 0: unknown. */
typedef struct { const char *file, *text; int line, column, length; bool macro; } tg_pos;

typedef struct {
  const char *name;
  /* ordinal of the author's range that it was split from; its own ordinal: it was not split */
  uint32_t from;
  tg_pos pos;
  bool several;   /* of the author's: pass raise has made several sums of the loop, each with a range split from it */
} tg_range_info;

typedef struct {
  const char *name;
  tg_space space : 8;
  tg_role role : 8;
  bool partial;
  tg_place place : 8, demand : 8;   /* demand: the place that the author requests */
  uint8_t rank;
  tg_type type : 8;
  uint32_t align;            /* bytes the base is aligned to; 0: the element's size */
  const tg_uop *lo, *hi;     /* what an integer input promises: every value is in [lo, hi]; NULL: nothing */
  tg_pos pos;
} tg_buffer;

typedef struct {
  const char *name;
  int64_t lo, hi, multiple;  /* its run-time value is in [lo, hi] and a multiple of `multiple` (>= 1) */
  tg_pos pos;
} tg_param;

/* One word of a schedule, as written. */
typedef struct { const char *text; tg_pos pos; } tg_opt_text;

/* values[0] is the default */
typedef struct { const char *name; int64_t value; const int64_t *values; uint32_t n; } tg_knob;

typedef struct { const tg_uop *node; const tg_uop *stmt; tg_pos pos; } tg_occurrence;

/* An input that a schedule takes packed. source: its name; copy: name of the packed buffer; sink: the program that
 * packs it, in author form; text: the same as the text of a kernel. */
/* sum: name of the buffer of sums that the packing word requests by `with`; NULL: none */
typedef struct { const char *source, *copy, *sum; const tg_uop *sink; const char *text; } tg_packing;

typedef struct tg_memo { uint32_t *stamp; const tg_uop **value; uint32_t cap, epoch; bool busy; } tg_memo;

typedef struct tg_job {
  tg_env env;                                   /* first: a tg_job * is a tg_env * */
  TG_VEC(const tg_uop *) uops;                  /* by id */
  uint64_t *slots;                              /* hash table of nodes: hash << 32 | id + 1; 0: empty slot */
  uint32_t slots_mask;
  TG_VEC(tg_range_info) ranges;
  TG_VEC(tg_buffer) buffers;
  TG_VEC(tg_param) params;
  TG_VEC(tg_pos) pos;                           /* positions of statements, by node id; may be shorter than uops */
  TG_VEC(tg_occurrence) occurrences;            /* positions of nodes within the author's statements */
  TG_VEC(const tg_uop *) requires;              /* facts about parameters (tg_require), bool nodes */
  TG_VEC(tg_opt_text) opts;                     /* the hand-written schedule */
  TG_VEC(tg_packing) packings;                  /* made by pass schedule */
  /* parameters and knobs that were bound to constants; used for printing and for cache keys */
  TG_VEC(struct { const char *name; int64_t value; }) constants;
  /* knobs with their possible values; those that are bound are in `constants` too */
  TG_VEC(tg_knob) knobs;
  TG_VEC(const char *) instructions;            /* names of matrix instructions, by the arg of MATRIX */
  /* name of the kernel; if set before parsing: which kernel of the file to parse */
  const char *name;
  const tg_uop *sink;                           /* the program in its current form */
  const char *stage;                            /* name of the last pass; "author" at first */
  bool given;                                   /* it was read at that stage, and nobody has looked at it yet */
  const char **symbols; uint32_t symbols_n, symbols_mask;  /* interned names */
  /* hash table of the names of buffers, parameters and ranges in use (uop.c); taken_seen: how many of each are in it */
  struct tg_taken *taken; uint32_t taken_n, taken_mask, taken_seen[3];
  tg_memo memos[4];
  tg_pos refused;                               /* position of the last tg_fail_at */
  /* the last trial of the heuristic: pass schedule turned `from` into `to` under that list of words */
  struct { const tg_uop *from, *to; const char *last; uint32_t opts; } tried;
  /* tg_author appends what the body says, as lines of a .tg file; procs and splices are left out. NULL: nowhere */
  tg_str *written;
  /* if sizes are open until the call: what the first choice would be for parts of their range (prices/prices.h); NULL:
   * nobody wants to know, and it is one for all */
  struct tg_division *division;
  const int *cancel;                            /* tg_compile_options.cancel; lowering looks at it between passes */
  void *trace;                                  /* rewrite trace in progress (ranges/ranges.h); NULL: none */
  uint32_t fired_n;                             /* its rewrites */
  /* if lowering verifies: the program whose order later forms must keep (lower/verify.h); else NULL */
  struct tg_authored *authored;
  struct tg_known *known;                       /* cached facts about nodes (ranges/known.h) */
  struct tg_cost_tables *costs;                 /* tables of the cost model (model/walk.h) */
  const tg_uop **functions;                     /* definitions parsed so far (dsl/functions.h) */
  const tg_uop *halves[2];                      /* and those of f16 alone */
} tg_job;

/* All of the following fail by unwinding (base.h). */
/* init allocates nothing; every later use of the job must be inside tg_protect(&j->env, ..) */
void tg_job_init(tg_job *j, const tg_allocator *a);
void tg_job_drop(tg_job *j);

/* Fails with TG_CANCELLED if the caller's flag is set. */
void tg_job_go_on(tg_job *j);
/* Names of buffers and ranges that are no longer in the job may be taken again. */
void tg_names_free(tg_job *j);
/* Runs fn(arg). False if it fails with an author's error or at a limit: *message then has the error, the ranges and
 * buffers made since are dropped, and the job can be used on. Any other failure unwinds further. */
bool tg_job_try(tg_job *j, void (*fn)(void *), void *arg, const char **message);
/* Runs fn(arg), and takes back all that it makes, whether it succeeds or not: nodes, names, facts, memory (trial.c). It
 * may write numbers to memory of before, and set *text, which is copied; NULL at first. What it appends to arrays of
 * before is lost. False and other failures: as tg_job_try. */
bool tg_job_trial(tg_job *j, void (*fn)(void *), void *arg, const char **text);

const char *tg_symbol(tg_job *j, const char *s, size_t n);   /* interned: equal names are equal pointers */
static inline const char *tg_sym(tg_job *j, const char *s) { return tg_symbol(j, s, strlen(s)); }

/* Returns the existing equal node, or makes it. Simplifies and reorders nothing. */
const tg_uop *tg_make(tg_job *j, tg_op op, tg_type type, uint32_t lanes, int64_t arg, uint32_t n,
                      const tg_uop *const *src);
/* u with other sources; for lanewise ops and LOAD the lanes are those of the new sources. */
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

/* Lanewise ops. The type is that of the operands (bool for compares, that of the arms for WHERE), the lanes are
 * those of the widest operand. Nothing is folded. */
const tg_uop *tg_op1(tg_job *j, tg_op op, const tg_uop *a);
const tg_uop *tg_op2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b);
const tg_uop *tg_op3(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b, const tg_uop *c);
const tg_uop *tg_cast(tg_job *j, tg_type t, const tg_uop *a);     /* a itself if it has the type */
const tg_uop *tg_bitcast(tg_job *j, tg_type t, const tg_uop *a);
const tg_uop *tg_and(tg_job *j, const tg_uop *a, const tg_uop *b);    /* of two bools; NULL stands for true */
const tg_uop *tg_iota(tg_job *j, tg_type t, uint32_t lanes);

const tg_uop *tg_range_new(tg_job *j, const char *name, const tg_uop *extent, tg_kind kind,
                           uint32_t from /* UINT32_MAX: its own */, tg_pos pos);
/* the range with another extent and kind but the same ordinal; a thread range keeps TG_STATIC */
const tg_uop *tg_range_again(tg_job *j, const tg_uop *range, const tg_uop *extent, tg_kind kind);
static inline uint32_t tg_range_ordinal(const tg_uop *r) { return (uint32_t)r->arg; }
static inline tg_kind tg_range_kind(const tg_uop *r) { return (tg_kind)(r->arg >> 32 & 0xff); }
/* Flag of a thread range: each thread gets one contiguous, equal share of the tasks, instead of taking tasks one by
 * one. */
enum { TG_STATIC = 1 };
static inline bool tg_range_static(const tg_uop *r) { return r->arg >> 40 & TG_STATIC; }
const tg_uop *tg_range_dealt(tg_job *j, const tg_uop *range, bool in_shares);
static inline const tg_uop *tg_extent(const tg_uop *r) { return r->src[0]; }

/* Makes a buffer and its DEFINE. strides NULL: dense, row-major. unique: the name is made unique in the job ("acc",
 * "acc.1"). */
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
/* How many elements the access v lies behind u, in the same row of memory; false: that is not known. */
static inline bool tg_lies_behind(const tg_uop *u, const tg_uop *v, int64_t *by) {
  const tg_uop *at[2] = {u->src[1], v->src[1]};
  int64_t constant[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    if (at[i]->op == TG_OP_ADD && at[i]->src[1]->op == TG_OP_CONST) {
      constant[i] = at[i]->src[1]->arg;
      at[i] = at[i]->src[0];
    }
  *by = constant[1] - constant[0];
  return at[0] == at[1];
}
static inline const tg_uop *tg_stored(const tg_uop *store) {
  return store->src[store->n - 1 - (store->arg & TG_GATED ? 1 : 0)];
}

/* After the barrier, threads of a workgroup read what the others wrote to LOCAL and GLOBAL before it. Each call
 * makes a new node. */
const tg_uop *tg_barrier_new(tg_job *j);
/* The asynchronous copies since the previous WAIT form a group. After this WAIT all groups have arrived except the
 * `flying` youngest; TG_ALL_FLYING: waits for none. Each call makes a new node. */
enum { TG_ALL_FLYING = 1 << 16 };
const tg_uop *tg_wait_new(tg_job *j, int64_t flying);
static inline int64_t tg_wait_flying(const tg_uop *wait) { return wait->arg >> 32; }
/* range: a RANGE of kind lane, or the CONST that counts the lanes of the vector `value`. */
const tg_uop *tg_shuffle(tg_job *j, const tg_uop *value, const tg_uop *range, const tg_uop *index);
const tg_uop *tg_matrix(tg_job *j, const char *instruction, const tg_uop *a, const tg_uop *b, const tg_uop *c,
                        const tg_uop *range);
static inline const char *tg_matrix_name(const tg_job *j, const tg_uop *u) { return j->instructions.data[u->arg]; }

/* The tiles that a loop carries (dsl/carry.c); false: it has no merge, or a schedule has changed the form of it. */
bool tg_carry_of(tg_job *j, const tg_uop *end, tg_carry *c);
static inline bool tg_is_merge(const tg_uop *u) { return u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_MERGE; }
static inline const tg_uop *tg_merge_of(const tg_uop *end) {
  return end->n > 1 && tg_is_merge(end->src[end->n - 1]) ? end->src[end->n - 1] : NULL;
}

/* REDUCE: op ADD, MUL, MAX, MIN, AND, OR with one value; or GENERIC with nv values, nv inits and nv combined. */
typedef struct { uint16_t op; uint8_t values, ranges; bool in_order, generic; } tg_reduce_arg;
tg_reduce_arg tg_reduce_info(const tg_uop *reduce);
/* If an equal reduction exists (up to the identity of its ranges), it is returned instead of a new node. */
const tg_uop *tg_reduce(tg_job *j, tg_reduce_arg a, const tg_uop *const *values, const tg_uop *const *inits,
                        const tg_uop *const *combined, const tg_uop *const *ranges);
/* A new reduction with other sources (the same number except for the ranges); never merged with an equal one. */
const tg_uop *tg_reduce_like(tg_job *j, const tg_uop *reduce, const tg_uop *const *src, uint32_t ranges_n,
                             const tg_uop *const *ranges);
static inline const tg_uop *const *tg_reduce_ranges(const tg_uop *reduce) {
  return reduce->src + reduce->n - tg_reduce_info(reduce).ranges;
}
const tg_uop *tg_identity(tg_job *j, tg_op op, tg_type t);   /* of ADD, MUL, MAX, MIN, AND, OR */
/* argmax and argmin: a GENERIC reduction of values of type t and their positions (i32). It finds the largest
 * (smallest) term, NaN counting as the largest (smallest), and the first of equal terms. */
void tg_extreme_parts(tg_job *j, tg_type t, bool largest, const tg_uop *inits[2], const tg_uop *combined[2]);
/* If `get` is the position found by an argmax or argmin: its reduction, else NULL. Source 1 of that reduction is the
 * position of a term. */
const tg_uop *tg_extreme_of(tg_job *j, const tg_uop *get);

/* Positions. */
void tg_set_pos(tg_job *j, const tg_uop *statement, tg_pos p);
tg_pos tg_get_pos(const tg_job *j, const tg_uop *statement);
/* Unwinds with file:line:col: error: ..., the source line and a caret (dsl/position.c). Further lines of the message
 * (notes, witnesses, remedies) are printed below the caret with the same indentation. */
TG_NORETURN void tg_fail_at(tg_job *j, tg_pos p, const char *format, ...) TG_PRINTF(3, 4);

/* All nodes reachable from root, each once, sources before users, in an order that depends on structure only. *n
 * gets the count. */
enum { TG_COPY_MOST = 1 << 26 };   /* elements of a copy that a schedule makes, at most */
const tg_uop **tg_toposort(tg_job *j, const tg_uop *root, uint32_t *n);

/* Rebuilds the graph below root from the leaves up: fn gets each node with its new sources and returns its
 * replacement (NULL: the same op with the new sources). enter (may be NULL) is called first, top down: if it returns
 * a node, that is the replacement and nothing below is visited. Iterative; positions of statements are kept. */
typedef const tg_uop *tg_map_fn(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user);
typedef const tg_uop *tg_enter_fn(tg_job *j, const tg_uop *old, void *user);
const tg_uop *tg_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, tg_enter_fn *enter, void *user);
const tg_uop *tg_substitute(tg_job *j, const tg_uop *root, uint32_t n, const tg_uop *const *from,
                            const tg_uop *const *to);
bool tg_uses(tg_job *j, const tg_uop *root, const tg_uop *node);

/* Versions (dsl/version.c). A pass that moves, copies or drops statements works on the plain form, in which LOAD and
 * STORE name the DEFINE itself and mean the buffer's contents at that point of the program; afterwards tg_versioned
 * rebuilds the versions. */
const tg_uop *tg_plain(tg_job *j, const tg_uop *sink);
const tg_uop *tg_versioned(tg_job *j, const tg_uop *plain_sink);
/* does a BARRIER make a new version of the buffer? True for LOCAL, and for GLOBAL that may be written */
bool tg_orders(const tg_job *j, uint32_t buffer);

/* Types: names and sizes. */
extern const char *const tg_type_name[TG_TYPE__COUNT];
static inline bool tg_is_float(tg_type t) { return t >= TG_F16 && t <= TG_E5M2; }
static inline bool tg_is_int(tg_type t) { return t >= TG_I8 && t <= TG_U64; }
static inline bool tg_is_signed(tg_type t) { return (t >= TG_I8 && t <= TG_I64) || t == TG_INDEX; }
int tg_type_bits(tg_type t);    /* 1 for bool; 0 for VOID and INDEX */
int tg_type_bytes(tg_type t);   /* as stored: bool 1 */
#endif
