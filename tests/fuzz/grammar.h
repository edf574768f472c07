/* SPDX-License-Identifier: MIT
 * What the two halves of the generator share: the open ranges, the buffers, and expressions over them. */
#ifndef TG_FUZZ_GRAMMAR_H
#define TG_FUZZ_GRAMMAR_H
#include "generate.h"
#include "words.h"

typedef enum { F32, F64, F16, BF16, I32, U8, I64, I16, U32, I8, U64, U16, BOOL } type;
extern const char *const type_name[];
enum { FULL = 10, INS = 12, RANK = 6, IN_RANK = 3 };

typedef struct { char *at, *end; } out;

typedef struct {
  char name[16];
  char extent[64];      /* as the loop says it */
  char dim[40];         /* what it surely stays below: no ranges in it */
  int value;            /* of dim, at run time */
  bool constant;        /* extent is a number */
  bool lockstep;
  bool ordered;         /* its iterations are in order: loop, unroll */
  bool lane;
} range;

typedef struct {
  char name[16], dims[RANK][48], strides[96], promise[48];
  type t;
  int rank;
  double size;          /* EXACT: no value is larger */
  enum { WHOLE, PARTIAL, INOUT } role;
  bool unread;          /* by later nests */
  bool private;
  int level;            /* of a tile: the ranges that were open where it is defined */
  double used;          /* of a tile: the bound on what has been stored; size is the bound for those who read */
} buffer;

typedef struct {
  fuzz_source *s;
  fuzz_program *p;
  type main;
  range open[16];
  int n_open, n_names;
  words words;
  buffer in[INS], done[8], tile[6];
  int n_in, n_done, n_tile;
  int depth, reduces;
  int64_t work;         /* product of the open ranges */
  bool large, fixed;    /* a parameter may be large; extents must be constant */
  bool threads;         /* kernels written for threads: threads.c */
  int own;              /* the value of a shuffle over range own - 1: no memory that lanes share */
  int n_tile_names;
  char tile_names[12][16];
} gen;

uint32_t draw(gen *g, uint32_t limit);
void put(out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fresh(gen *g, char *name, char letter);
void has(gen *g, fuzz_feature f);

/* Kernels written for threads. */
void threads_nest(gen *g, out *o);
void threads_opts(gen *g, out *o);
bool load_tile(gen *g, out *o, type t, double *size);
bool load_shuffled(gen *g, out *o, type t, double *size);

buffer *output(gen *g, type t, int rank, int first);
void element(gen *g, out *o, const buffer *b, int first, bool flip);
void opt_name(gen *g, const range *r);

void choose_extent(gen *g, range *r, bool dependent);
range *open_range(gen *g, char letter);
void close_ranges(gen *g, int to);
bool is_float(type t);
double limit_of(const gen *g, type t);

/* Write an expression, or a condition; the result is a bound on absolute values. */
double expression(gen *g, out *o, type t);
double leaf(gen *g, out *o, type t);
void condition(gen *g, out *o);
/* An input of index type whose values stay below dim; written with its subscript. */
bool index_load(gen *g, out *o, const char *dim, bool promised);
#endif
