/* SPDX-License-Identifier: MIT
 * What sketches share: words made of numbers, the roles of operands in a tile, and the values of knobs that the first choice picks from. */
#ifndef TG_GEMM_SKETCH_H
#define TG_GEMM_SKETCH_H
#include "gemm/template.h"

enum { GEMM_PLAIN, GEMM_PACKED, GEMM_PANEL, GEMM_STREAM, GEMM_DOT, GEMM_DIRECT, GEMM_BYTES, GEMM_SIGNED_BYTES, GEMM_TILES, GEMM_LONG, GEMM_PAIRS, GEMM_GROUPED, GEMM_WEIGHTS };   /* in tg_gemm_sketches */

/* Values of knobs, ascending; 0 ends. */
extern const int64_t tg_gemm_mr[], tg_gemm_panel_kc[], tg_gemm_packed_kc[], tg_gemm_nb[], tg_gemm_mb[], tg_gemm_stream_nb[], tg_gemm_dot_kc[], tg_gemm_side[];

/* The roles of a product in a tile: rows of one operand against vectors of the other, along C's contiguous dimension or along k. */
typedef struct {
  char r, c;                     /* ranges: rows of the tile, columns */
  char row, column;              /* operands that they read: R[r,k], S[k,c] */
  bool row_k, column_k;          /* is k what is contiguous in it? Where a launch tells, rows are taken to run along k and columns not */
  bool scattered;                /* neighbours along c are not neighbours in C */
  bool row_any, column_any;      /* are its strides known at a launch only? */
} tg_gemm_roles;
tg_gemm_roles tg_gemm_roles_of(const tg_gemm_problem *p);        /* columns are C's contiguous dimension */
tg_gemm_roles tg_gemm_thin_roles_of(const tg_gemm_problem *p);   /* rows are the smaller dimension */

/* estimate.c: cycles of a sketch of floats under its knobs, sizes at their upper ends, one thread. */
typedef struct { int64_t rows, columns, terms, size; bool row_k, column_k, scattered, double_pumped, asks_much; double l1, l2, l3; } tg_gemm_view;
void tg_gemm_look(const tg_gemm_problem *p, const tg_target *t, bool thin, tg_gemm_view *out);
double tg_gemm_beat(const tg_gemm_view *v, int64_t vl);   /* of a multiply-add */
bool tg_gemm_is_crowded(const tg_gemm_view *v);               /* do the rows of the columns' operand share so few sets of the second cache that they push each other out? */
double tg_gemm_direct_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl);
int64_t tg_gemm_sums(int64_t vectors, int64_t terms);     /* that each of a tile's vectors has of its own, so that they do not wait for each other */
/* What becomes of the terms that gemm_dot's vectors leave of so many: nothing is left; a vector under a mask, in a row with the others, or behind their loop; or they are added up one by one. */
typedef enum { GEMM_NO_REST, GEMM_REST_IN_A_ROW, GEMM_REST_BEHIND, GEMM_REST_ONE_BY_ONE } tg_gemm_rest;
tg_gemm_rest tg_gemm_dot_rest(int64_t terms, int64_t vl, int64_t mr, int64_t nc);
double tg_gemm_store_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl);   /* of a tile's sums */
double tg_gemm_panel_cycles(const tg_gemm_view *v, bool both, bool grouped, bool next, int64_t mr, int64_t nu, int64_t vl, int64_t kc, int64_t nb);
enum { TG_GEMM_SHARED_KC = 64 };   /* terms of a block that all rows share, at least: its lines are asked for */
double tg_gemm_stream_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl, int64_t kc, bool asked);
double tg_gemm_dot_cycles(const tg_gemm_view *v, int64_t mr, int64_t nc, int64_t vl, int64_t kc);
double tg_gemm_cycles(const tg_gemm_problem *p, const tg_target *t, uint32_t sketch, const tg_gemm_choice *c);   /* of the five that have an estimate */

void tg_gemm_word(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
/* A knob with the values of a table, the default first. */
void tg_gemm_knob(tg_builder *b, const char *name, int64_t first, const int64_t *values);
const char *tg_gemm_rows_list(char *text, size_t n, int64_t rows);
/* "{28, 4}": a tile, and what is left as one smaller tile where the size is known. */
const char *tg_gemm_tile_and_rest(char *text, size_t n, tg_gemm_dim size, int64_t tile);
/* Knobs VL; of a tile in registers: MR rows by NU vectors of VL columns, UK terms in a row. */
void tg_gemm_lanes(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_tile_knobs(tg_builder *b, const tg_gemm_problem *p);
/* The tile itself, over rows and terms of these names and the columns cv; around: a loop between that goes inside of the tiles' loop, or NULL. */
void tg_gemm_tile(tg_builder *b, const char *rows, const char *terms, const char *around);

/* quantised.c: B of whole numbers with scales, as declarations and as the text of its value at these subscripts. A product's text has room for it. */
enum { TG_GEMM_TEXT = 1024 };
void tg_gemm_quantised(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_weight(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size);
const char *tg_gemm_type(tg_type t);   /* in the language */
const char *tg_gemm_as_type(const tg_gemm_problem *p, tg_type t);   /* of a copy of such elements: " as f32", or "" where they are of the sum's type */

/* Blocks of NB panels of so many columns, of KC terms and of MR times MB rows, as the loops cc kc rc rb cb cv. WHOLE: of all terms, no kc. WAITING: sums that C cannot hold wait beside the
 * blocks of terms, in a tile of GB blocks of rows, which share the panels of columns: so many stand inside the blocks of terms, the others around them (rg). GROUPED: blocks of rows stand outside;
 * GROUPED_WHOLE: of all terms. */
typedef enum { GEMM_BLOCKS, GEMM_BLOCKS_WHOLE, GEMM_BLOCKS_WAITING, GEMM_BLOCKS_GROUPED, GEMM_BLOCKS_GROUPED_WHOLE } tg_gemm_blocks_kind;
void tg_gemm_blocks(tg_builder *b, char rows, char columns, long long panel, tg_gemm_blocks_kind kind);
/* Threads (TEAM): none; blocks of rows, that share the panels of columns; blocks of columns. */
void tg_gemm_share(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);
/* Does the name stand in the expression? */
bool tg_gemm_reads(const char *expression, const char *name);
/* What a tile stores to and what its epilogue reads is asked for while it is computed. */
void tg_gemm_ask(tg_builder *b, const tg_gemm_problem *p, tg_gemm_blocks_kind kind);

/* Copies at the loop `at` of the columns' operand in panels of a tile's columns, of the rows' in panels of a tile's rows; KC terms at most. */
void tg_gemm_stage_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at, const char *space);
void tg_gemm_stage_rows(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at);

/* Bodies (sketches_thin.c, sketches_bytes.c, sketches_tiles.c, sketches_long.c). */
void tg_gemm_stream(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_dot(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_direct(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_bytes(tg_builder *b, const tg_gemm_problem *p);   /* u8 x i8 into i32, C in rows, on a target with VPDPBUSD */
void tg_gemm_signed_bytes(tg_builder *b, const tg_gemm_problem *p);   /* i8 x i8 likewise */
void tg_gemm_pairs(tg_builder *b, const tg_gemm_problem *p);   /* bf16 x bf16, C in rows, where subnormal numbers may count as zero, on a target with VDPBF16PS */
void tg_gemm_tiles(tg_builder *b, const tg_gemm_problem *p);   /* bytes into i32 sums, on a target with AMX-INT8 */
/* quantised.c: B packed ahead and few rows, groups that divide k; any other */
void tg_gemm_grouped(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_weights(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_long(tg_builder *b, const tg_gemm_problem *p);
#endif
