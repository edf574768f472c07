/* SPDX-License-Identifier: MIT
 * Sketches: what each is, and what they share: the roles of operands in a tile, and the values of knobs that the first
 * choice picks from. */
#ifndef TG_GEMM_SKETCH_H
#define TG_GEMM_SKETCH_H
#include "gemm/template.h"
#include "kit/words.h"

/* A sketch is one file, sketches/NAME.c, whose last line is its row of this type, and one line of the list. */
typedef struct tg_gemm_sketch {
  /* the body: mathematics and words whose sizes are knobs */
  const tg_kernel_def *kernel;
  bool (*takes)(const tg_gemm_problem *p, const tg_target *t);            /* may it be tried at all? */
  /* by its shape, is the problem this sketch's? The first in the list that says so has it */
  bool (*first)(const tg_gemm_problem *p, const tg_target *t, uint32_t threads);
  /* adds them; NULL: it has none */
  void (*knobs)(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out);
  /* of one thread; NULL: no estimate */
  double (*cycles)(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c);
} tg_gemm_sketch;

#define TG_GEMM_SKETCHES(S) \
  S(grouped)                \
  S(weights)                \
  S(tiles)                  \
  S(bytes)                  \
  S(signed_bytes)           \
  S(pairs)                  \
  S(plain)                  \
  S(long)                   \
  S(direct)                 \
  S(panel)                  \
  S(packed)                 \
  S(stream)                 \
  S(dot)
#define TG_GEMM_SKETCH(name) extern const tg_gemm_sketch tg_gemm_##name;
TG_GEMM_SKETCHES(TG_GEMM_SKETCH)
#undef TG_GEMM_SKETCH
extern const tg_gemm_sketch *const tg_gemm_sketches[];                    /* NULL ends */
bool tg_gemm_takes_numbers(const tg_gemm_problem *p, const tg_target *t);   /* B is not of few bits */

/* The knobs that the first choice would give this sketch. */
void tg_gemm_choose_knobs(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, const tg_gemm_sketch *sketch,
                          tg_kit_choice *out);

/* Values of knobs, ascending; 0 ends. */
extern const int64_t tg_gemm_mr[], tg_gemm_panel_kc[], tg_gemm_packed_kc[], tg_gemm_nb[], tg_gemm_mb[],
    tg_gemm_stream_nb[], tg_gemm_dot_kc[], tg_gemm_side[];

/* The roles of a product in a tile: rows of one operand against vectors of the other, along C's contiguous dimension
 * or along k. */
typedef struct {
  char r, c;                     /* ranges: rows of the tile, columns */
  char row, column;              /* operands that they read: R[r,k], S[k,c] */
  /* is k what is contiguous in it? Where a launch tells, rows are taken to run along k and columns not */
  bool row_k, column_k;
  bool scattered;                /* neighbours along c are not neighbours in C */
  bool row_any, column_any;      /* are its strides known at a launch only? */
} tg_gemm_roles;
tg_gemm_roles tg_gemm_roles_of(const tg_gemm_problem *p);        /* columns are C's contiguous dimension */
tg_gemm_roles tg_gemm_thin_roles_of(const tg_gemm_problem *p);   /* rows are the smaller dimension */

/* estimate.c: cycles of a sketch of floats under its knobs, sizes at their upper ends, one thread. */
typedef struct {
  int64_t rows, columns, terms, size;
  bool row_k, column_k, scattered, double_pumped, asks_much;
  double l1, l2, l3;
} tg_gemm_view;
void tg_gemm_look(const tg_gemm_problem *p, const tg_target *t, bool thin, tg_gemm_view *out);
double tg_gemm_beat(const tg_gemm_view *v, int64_t vl);   /* of a multiply-add */
/* do the rows of the columns' operand share so few sets of the second cache that they push each other out? */
bool tg_gemm_is_crowded(const tg_gemm_view *v);
double tg_gemm_direct_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl);
/* that each of a tile's vectors has of its own, so that they do not wait for each other */
int64_t tg_gemm_sums(int64_t vectors, int64_t terms);
/* What becomes of the terms that gemm_dot's vectors leave of so many: nothing is left; a vector under a mask, in a
 * row with the others, or behind their loop; or they are added up one by one. */
typedef enum { GEMM_NO_REST, GEMM_REST_IN_A_ROW, GEMM_REST_BEHIND, GEMM_REST_ONE_BY_ONE } tg_gemm_rest;
tg_gemm_rest tg_gemm_dot_rest(int64_t terms, int64_t vl, int64_t mr, int64_t nc);
double tg_gemm_store_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl);   /* of a tile's sums */
double tg_gemm_panel_cycles(const tg_gemm_view *v, bool both, bool grouped, bool next, int64_t mr, int64_t nu,
                            int64_t vl, int64_t kc, int64_t nb);
enum { TG_GEMM_SHARED_KC = 64 };   /* terms of a block that all rows share, at least: its lines are asked for */
double tg_gemm_stream_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl, int64_t kc, bool asked);
double tg_gemm_dot_cycles(const tg_gemm_view *v, int64_t mr, int64_t nc, int64_t vl, int64_t kc);

/* Of the rows of sketches: their `knobs` and `first` (choose.c), and their `cycles` (estimate.c). */
#define TG_GEMM_KNOBS_(name)                                                                                           \
  void tg_gemm_knobs_##name(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out);
TG_GEMM_KNOBS_(panels)
TG_GEMM_KNOBS_(tiles) TG_GEMM_KNOBS_(thin) TG_GEMM_KNOBS_(direct) TG_GEMM_KNOBS_(long) TG_GEMM_KNOBS_(quantised)
#undef TG_GEMM_KNOBS_
#define TG_GEMM_FIRST_(name) bool tg_gemm_first_##name(const tg_gemm_problem *p, const tg_target *t, uint32_t threads);
    TG_GEMM_SKETCHES(TG_GEMM_FIRST_)
#undef TG_GEMM_FIRST_
#define TG_GEMM_CYCLES_(name)                                                                                          \
  double tg_gemm_cycles_##name(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c);
        TG_GEMM_CYCLES_(direct) TG_GEMM_CYCLES_(panel) TG_GEMM_CYCLES_(packed) TG_GEMM_CYCLES_(stream)
            TG_GEMM_CYCLES_(dot)
#undef TG_GEMM_CYCLES_

    /* quantised.c: B of whole numbers with scales, as declarations and as the text of its value at these subscripts. A
 * product's text has room for it. */
    enum {
      TG_GEMM_TEXT = 1024
    };
void tg_gemm_quantised(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_weight(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size);
/* The whole number q[k,j] as a float, and "f32(scale[g,j])". */
void tg_gemm_whole(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size);
void tg_gemm_of_group(const tg_gemm_problem *p, const char *name, tg_type t, const char *g, const char *j, char *out,
                      size_t size);

/* Blocks of NB panels of so many columns, of KC terms and of MR times MB rows, as the loops cc kc rc rb cb cv.
 * WHOLE: of all terms, no kc. WAITING: sums that C cannot hold wait beside the blocks of terms, in a tile of GB
 * blocks of rows, which share the panels of columns: so many stand inside the blocks of terms, the others around
 * them (rg). GROUPED: blocks of rows stand outside; GROUPED_WHOLE: of all terms. */
typedef enum {
  GEMM_BLOCKS,
  GEMM_BLOCKS_WHOLE,
  GEMM_BLOCKS_WAITING,
  GEMM_BLOCKS_GROUPED,
  GEMM_BLOCKS_GROUPED_WHOLE
} tg_gemm_blocks_kind;
void tg_gemm_blocks(tg_builder *b, char rows, char columns, long long panel, tg_gemm_blocks_kind kind);
/* Threads (TEAM): none; blocks of rows, that share the panels of columns; blocks of columns. */
void tg_gemm_share(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);
/* What a tile stores to and what its epilogue reads is asked for while it is computed. */
void tg_gemm_ask(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);

/* tg_kit_stage_columns and _rows, of the operands in these roles. */
void tg_gemm_stage_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at,
                           const char *space);
void tg_gemm_stage_rows(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at);
bool tg_gemm_waits(const tg_gemm_problem *p);
/* The words of panel and of packed (both: rows are packed as well). */
void tg_gemm_panels(tg_builder *b, const tg_gemm_problem *p, bool both);
/* Tiles of mr of these rows, as a list, and what they leave. */
const char *tg_gemm_rows_tiles(char *text, size_t n, const tg_gemm_problem *p, tg_kit_dim rows, tg_kit_dim columns,
                               int64_t mr);

/* dwords.c */
void tg_gemm_dword_knobs(tg_builder *b);
const char *tg_gemm_team_space(tg_builder *b);
/* The tiles, of the columns cv in panels, within loops over blocks of rows; k: the terms of a block; at: the loop
 * over blocks. */
void tg_gemm_dword_tiles(tg_builder *b, const tg_gemm_problem *p, const char *k, const char *at, const char *space);
void tg_gemm_byte_tiles(tg_builder *b, const tg_gemm_problem *p, const char *blocks);
#endif
