/* SPDX-License-Identifier: MIT
 * Sketches: their type and their list, and what they share: the roles of operands in a tile, and the values of knobs
 * that the first choice picks from. */
#ifndef TG_GEMM_SKETCH_H
#define TG_GEMM_SKETCH_H
#include "gemm/template.h"
#include "kit/words.h"

typedef struct tg_gemm_view tg_gemm_view;
typedef struct tg_gemm_points tg_gemm_points;

/* A sketch is one file, sketches/NAME.c, whose last line is its row of this type, and one line of the list. */
typedef struct tg_gemm_sketch {
  /* the body: the mathematics, and the words of a schedule, whose sizes are knobs */
  const tg_kernel_def *kernel;
  bool (*takes)(const tg_gemm_problem *p, const tg_target *t);            /* can it compute this problem at all? */
  /* offers the points of the sketch that suit a problem's sizes */
  void (*propose)(tg_gemm_points *to);
  /* least cycles of a point on one thread; NULL: there is one point */
  double (*bound)(const tg_gemm_view *v, const tg_kit_choice *c);
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
bool tg_gemm_takes_numbers(const tg_gemm_problem *p, const tg_target *t);   /* a `takes`: B is not quantised */

/* Values of knobs, ascending; 0 ends each list. */
extern const int64_t tg_gemm_mr[], tg_gemm_panel_kc[], tg_gemm_packed_kc[], tg_gemm_nb[], tg_gemm_mb[],
    tg_gemm_stream_nb[], tg_gemm_dot_kc[], tg_gemm_side[];

/* Which operand of a product has which role in a tile. A tile multiplies rows of one operand by columns of the other,
 * whose vectors run along C's contiguous dimension or along k. With a column-major C the rows are those of B^T. */
typedef struct {
  char r, c;                     /* ranges of the tile's rows and columns, 'i' or 'j' */
  char row, column;              /* operands that they read, 'A' or 'B': R[r,k], S[k,c] */
  /* is k contiguous in the operand? If strides are known at launch only: true for rows, false for columns */
  bool row_k, column_k;
  bool scattered;                /* c is not the contiguous dimension of C */
  bool row_any, column_any;      /* the operand's strides are known at launch only */
} tg_gemm_roles;
tg_gemm_roles tg_gemm_roles_of(const tg_gemm_problem *p);        /* columns: C's contiguous dimension */
tg_gemm_roles tg_gemm_thin_roles_of(const tg_gemm_problem *p);   /* rows: the smaller dimension of C */

/* ---- the first choice ---- */

/* A problem as bounds see it, at given sizes. */
struct tg_gemm_view {
  const tg_gemm_problem *p;
  const tg_target *t;
  const tg_machine *m;
  tg_gemm_roles o;
  int64_t rows, columns, terms, size /* bytes of a sum */, lanes /* of the widest vector of sums */;
  double row_size, column_size, packed_size, c_size;   /* bytes of an element: of the operands, of copies, of C */
  bool row_converted, column_converted, reads_c, known /* all sizes */;
  double l1, l2, l3;
};
/* Sizes that a range is judged by. end: its upper end, but of a range that reaches far the side of a square that fills
 * the last cache, behind which little changes, or the lower end. middle: the geometric middle from the lower end to
 * there. */
int64_t tg_gemm_end(const tg_gemm_problem *p, const tg_target *t, tg_kit_dim d);
int64_t tg_gemm_middle(const tg_gemm_problem *p, const tg_target *t, tg_kit_dim d);
/* at: m, n, k; NULL: the middle of each. */
void tg_gemm_look(const tg_gemm_problem *p, const tg_target *t, const int64_t at[3], bool thin, tg_gemm_view *out);

/* Points of a problem at the sizes `at`, those with the least bounds first. sketch, first: whose turn it is, and where
 * its points begin. */
enum { TG_GEMM_POINTS = 8, TG_GEMM_OPEN_POINTS = 12, TG_GEMM_OF_A_SKETCH = 4 };
typedef struct { tg_kit_choice choice; const tg_gemm_sketch *sketch; double bound; } tg_gemm_point;
struct tg_gemm_points {
  const tg_gemm_problem *p;
  const tg_target *t;
  const int64_t *at;
  uint32_t threads, first, n;
  const tg_gemm_sketch *sketch;
  tg_gemm_point point[TG_GEMM_OF_A_SKETCH * 5 + 1];   /* of panel, packed, direct, stream, dot, plain */
};
/* At most TG_GEMM_POINTS points of all sketches; sketch: of this one alone. at: as in tg_gemm_look. */
void tg_gemm_propose(const tg_gemm_problem *p, const tg_target *t, const int64_t at[3], uint32_t threads,
                     const tg_gemm_sketch *sketch, tg_gemm_points *out);
/* The same but for its blocks? */
bool tg_gemm_same_tile(const tg_kit_choice *a, const tg_kit_choice *b);
/* The point of this sketch with the least bound. */
void tg_gemm_choose_knobs(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, const tg_gemm_sketch *sketch,
                          tg_kit_choice *out);

/* Do the registers hold a tile and what a term of it needs? If they do not, LLVM keeps no sum in a register from one
 * round of an unrolled loop to the next. */
bool tg_gemm_fits(const tg_target *t, const tg_kit_choice *c);

enum { TG_GEMM_SHARED_KC = 64 };   /* least KC for which gemm_stream lets all rows share a block, and prefetches it */
enum { TG_GEMM_DOT_WHOLE = 256 };   /* multiply-adds of vectors that gemm_dot writes without a loop */
/* What gemm_dot does with the last terms, if `terms` is not a multiple of vl. */
typedef enum {
  GEMM_NO_REST,            /* it is a multiple */
  GEMM_REST_UNROLLED,      /* all vectors are unrolled, the last one masked: no loop */
  GEMM_REST_BEHIND,        /* a masked vector after the loop of full vectors */
  GEMM_REST_ONE_BY_ONE     /* scalar additions after that loop */
} tg_gemm_rest;
tg_gemm_rest tg_gemm_dot_rest(int64_t terms, int64_t vl, int64_t mr, int64_t nc);

/* Functions for the fields of tg_gemm_sketch: propose.c, bound.c. */
#define TG_GEMM_PROPOSE_(name) void tg_gemm_propose_##name(tg_gemm_points *to);
TG_GEMM_PROPOSE_(panels)
TG_GEMM_PROPOSE_(tiles) TG_GEMM_PROPOSE_(stream) TG_GEMM_PROPOSE_(dot) TG_GEMM_PROPOSE_(direct) TG_GEMM_PROPOSE_(plain)
    TG_GEMM_PROPOSE_(long) TG_GEMM_PROPOSE_(grouped) TG_GEMM_PROPOSE_(weights)
#undef TG_GEMM_PROPOSE_
#define TG_GEMM_BOUND_(name) double tg_gemm_bound_##name(const tg_gemm_view *v, const tg_kit_choice *c);
        TG_GEMM_BOUND_(direct) TG_GEMM_BOUND_(panel) TG_GEMM_BOUND_(packed) TG_GEMM_BOUND_(stream) TG_GEMM_BOUND_(dot)
            TG_GEMM_BOUND_(dwords)
#undef TG_GEMM_BOUND_

    /* quantised.c: a quantised B. tg_gemm_quantised declares its buffers; tg_gemm_weight writes the text of its value
     * at the subscripts k, j. TG_GEMM_TEXT: bytes that suffice for such a text. */
    enum {
      TG_GEMM_TEXT = 1024
    };
void tg_gemm_quantised(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_weight(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size);
/* tg_gemm_whole writes the text of the integer q[k,j] as a float; tg_gemm_of_group that of a scale or zero point as a
 * float, such as "f32(scale[g,j])". */
void tg_gemm_whole(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size);
void tg_gemm_of_group(const tg_gemm_problem *p, const char *name, tg_type t, const char *g, const char *j, char *out,
                      size_t size);

/* Nests of loops over blocks of NB panels of `panel` columns (cc), of KC terms (kc), and of MR times MB rows (rc).
 * BLOCKS: in the order cc kc rc rb cb cv.
 * WHOLE: without kc; each block has all terms.
 * WAITING: for a C whose type is not acc. Partial sums are kept in a buffer from one block of terms to the next. The
 *   buffer has GB blocks of rows, which share each copy of a panel: the loop rc over them is inside kc, the loop rg
 *   over groups of GB blocks is outside kc.
 * GROUPED: the loop over blocks of rows is outermost.
 * GROUPED_WHOLE: the same without kc. */
typedef enum {
  GEMM_BLOCKS,
  GEMM_BLOCKS_WHOLE,
  GEMM_BLOCKS_WAITING,
  GEMM_BLOCKS_GROUPED,
  GEMM_BLOCKS_GROUPED_WHOLE
} tg_gemm_blocks_kind;
void tg_gemm_blocks(tg_builder *b, char rows, char columns, long long panel, tg_gemm_blocks_kind kind);
/* What threads divide, by the knob TEAM. 0: nothing; 1: blocks of rows, which share the panels; 2: blocks of
 * columns. */
void tg_gemm_share(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);
/* Prefetches the part of C that a tile stores to, and the arguments that its epilogue reads, while the tile is
 * computed. */
void tg_gemm_ask(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);

/* tg_kit_stage_columns and tg_kit_stage_rows for the operands that have these roles. */
void tg_gemm_stage_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at,
                           const char *space);
void tg_gemm_stage_rows(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at,
                        bool side);
/* Is C's type not acc, so that partial sums need a buffer beside C? */
bool tg_gemm_waits(const tg_gemm_problem *p);
/* The words of gemm_panel, and (both: rows are packed as well) of gemm_packed. */
void tg_gemm_panels(tg_builder *b, const tg_gemm_problem *p, bool both);
/* Sizes to split the rows by, as a list: tiles of mr, then sizes for the remainder. */
const char *tg_gemm_rows_tiles(char *text, size_t n, const tg_gemm_problem *p, tg_kit_dim rows, tg_kit_dim columns,
                               int64_t mr);

/* Columns whose number is open: tiles of `wide`, then single vectors. Vectors of 64 bytes have masks of their own, so
 * that gates cost nothing: there half a vector is the last size, and no more is computed than in halves, which take
 * half the time where a processor takes vectors in halves. least: the last size. Words that split the range `columns`
 * as ct cv, with the rows between them, and that make tiles of those; what has fewer vectors has more rows. */
typedef struct { int64_t wide, vl, least; } tg_gemm_open_columns;
tg_gemm_open_columns tg_gemm_split_open_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o,
                                               const char *columns, int64_t wide);
void tg_gemm_tile_open_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, tg_kit_dim rows,
                               const tg_gemm_open_columns *all);

/* dwords.c */
void tg_gemm_dword_knobs(tg_builder *b);
const char *tg_gemm_team_space(tg_builder *b);
/* Words for the tiles: panels of the columns cv, inside loops over blocks of rows. k: the range of a block's terms; at:
 * the loop over blocks, where operands are copied. */
void tg_gemm_dword_tiles(tg_builder *b, const tg_gemm_problem *p, const char *k, const char *at, const char *space);
void tg_gemm_byte_tiles(tg_builder *b, const tg_gemm_problem *p, const char *blocks);
#endif
