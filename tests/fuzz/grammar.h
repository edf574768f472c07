/* SPDX-License-Identifier: MIT
 * What the two halves of the generator share: the open ranges, the buffers, and expressions over them. */
#ifndef TG_FUZZ_GRAMMAR_H
#define TG_FUZZ_GRAMMAR_H
#include "generate.h"

typedef enum { F32, F64, F16, BF16, I32, U8, I64, I16, U32, I8, U64, U16, BOOL } type;
extern const char *const type_name[];
enum { FULL = 10, INS = 12 };

typedef struct { char *at, *end; } out;

typedef struct {
  char name[16];
  char extent[64];      /* as the loop says it */
  char dim[40];         /* what it surely stays below: no ranges in it */
  int value;            /* of dim, at run time */
  bool constant;        /* extent is a number */
  bool lockstep;
} range;

typedef struct {
  char name[16], dims[3][48], strides[96], contract[48];
  type t;
  int rank;
  double size;          /* EXACT: no value is larger */
  enum { WHOLE, PARTIAL, INOUT } role;
  bool unread;          /* by later nests */
} buffer;

typedef struct {
  fuzz_source *s;
  fuzz_program *p;
  type main;
  range open[16];
  int n_open, n_names, n_opt_names;
  struct { char name[16]; bool constant, loop; } opt_names[32];
  buffer in[INS], done[8], tile[6];
  int n_in, n_done, n_tile;
  int depth, reduces;
  int64_t work;         /* product of the open ranges */
  bool large, fixed;    /* a parameter may be large; extents must be constant */
} gen;

uint32_t draw(gen *g, uint32_t limit);
void put(out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fresh(gen *g, char *name, char letter);
void has(gen *g, fuzz_feature f);

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
