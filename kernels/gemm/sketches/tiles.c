/* SPDX-License-Identifier: MIT
 * Products of bytes, signed or unsigned, on a target whose matrix instructions multiply tiles of 16 rows of 64 bytes
 * (AMX-INT8). Both operands are packed into such tiles and padded with zeros; the columns' tiles have groups of four
 * terms contiguous. Takes all layouts; the tile's columns run along C's contiguous dimension. */
#include <stdio.h>
#include "gemm/sketch.h"

/* SIDE: rows and columns of a tile of sums; TERMS: terms that an instruction multiplies; GROUP: contiguous terms of a
 * column */
enum { SIDE = 16, TERMS = 64, GROUP = 4 };

/* Writes the first subscripts of a packed operand, such as "i/32, k/64, i/16%2": the panel, the block of terms, and, if
 * a panel has several tiles, the tile in the panel. The position inside the tile follows as subscripts n and n + 1, n
 * being the number returned. */
static int tile_of(char *text, size_t size, char range, int64_t tiles) {
  size_t at = (size_t)snprintf(text, size, "%c/%lld, k/%d", range, (long long)(SIDE * tiles), TERMS);
  if (tiles > 1) snprintf(text + at, size - at, ", %c/%d%%%lld", range, SIDE, (long long)tiles);
  return tiles > 1 ? 3 : 2;
}

/* Packs rows: a tile has a line of 64 terms for each row. If k is not contiguous in the operand, blocks of 16 rows by
 * 16 terms are transposed in registers. */
static void stage_tiles_of_rows(tg_builder *tg_b_, const tg_gemm_roles *o) {
  char tile[64];
  int n = tile_of(tile, sizeof tile, o->r, tg_c(TR));
  tg_kit_word(tg_b_, "stage %c at rc as Rp[%s, %c%%%d, k%%%d]", o->row, tile, o->r, SIDE, TERMS);
  if (o->row_k) {
    tg_kit_word(tg_b_, "lane Rp.%d %d", n + 1, TERMS);
  } else {
    tg_kit_word(tg_b_, "split Rp.%d %d as Rt Rl", n + 1, SIDE);
    tg_kit_word(tg_b_, "order Rt Rp.%d", n);
    tg_kit_word(tg_b_, "unroll Rp.%d", n);
    tg_kit_word(tg_b_, "lane Rl");
  }
  tg_kit_word(tg_b_, "cut Rp.0 auto");
  tg_kit_word(tg_b_, "cut Rp.1 auto");
}

static void stage_tiles_of_columns(tg_builder *tg_b_, const tg_gemm_roles *o) {
  char tile[64];
  int n = tile_of(tile, sizeof tile, o->c, tg_c(TC));
  tg_kit_word(tg_b_, "stage %c at kc as Cp[%s, k/%d%%%d, %c%%%d, k%%%d]%s", o->column, tile, GROUP, TERMS / GROUP, o->c,
              SIDE, GROUP, tg_c(TEAM) == 1 ? " space=team" : "");
  tg_kit_word(tg_b_, "fuse Cp.%d Cp.%d as Cl", n + 1, n + 2);
  /* 16 lines of 64 bytes are transposed, four terms at a time */
  if (o->column_k) tg_kit_word(tg_b_, "unroll Cp.%d", n);
  else if (tg_c(TEAM) != 1)
    tg_kit_word(tg_b_,
                n > 2 ? "order Cp.1 Cp.3 Cp.0 Cp.2" : "order Cp.1 Cp.2 Cp.0"); /* reads four rows sequentially */
  tg_kit_word(tg_b_, "lane Cl");
  tg_kit_word(tg_b_, "cut Cp.1 auto");   /* only the last, incomplete tiles need masks */
  if (tg_c(TEAM) != 1) tg_kit_word(tg_b_, "cut Cp.0 auto");
}

/* Blocks of columns (NB panels of TC tiles), of terms (KC) and of rows (MB panels of TR tiles): a panel of rows stays
 * in L1 while panels of columns pass, from L2. */
TG_KERNEL(gemm_tiles, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_roles o = tg_gemm_roles_of(p);
  tg_type row = o.row == 'A' ? p->a : p->b, column = o.column == 'A' ? p->a : p->b;
  tg_knob(TR, 2, 1);
  tg_knob(TC, 2, 1, 3, 4);
  tg_kit_knob(tg_b_, "KC", 512, tg_gemm_panel_kc);
  tg_kit_knob(tg_b_, "NB", 32, tg_gemm_nb);
  tg_kit_knob(tg_b_, "MB", 8, tg_gemm_mb);
  tg_knob(TEAM, 0, 1, 2);
  tg_gemm_product(tg_b_, p);
  tg_kit_word(tg_b_, "split %c %lld as ct cv", o.c, (long long)(SIDE * tg_c(TC)));
  tg_kit_word(tg_b_, "split ct NB clip as cc cb");
  tg_kit_word(tg_b_, "split k KC clip as kc kr");
  tg_kit_word(tg_b_, "split %c %lld clip as rc rb", o.r, (long long)(SIDE * tg_c(TR) * tg_c(MB)));
  tg_kit_word(tg_b_, "order cc kc rc rb cb cv");
  tg_kit_word(tg_b_, "split kr %d as ko ki", TERMS);
  stage_tiles_of_columns(tg_b_, &o);
  stage_tiles_of_rows(tg_b_, &o);
  tg_kit_word(tg_b_, "split rb %lld as ir iu", (long long)(SIDE * tg_c(TR)));
  tg_kit_word(tg_b_, "order cb iu");
  tg_kit_word(tg_b_, "contract tdpb%c%cd i=iu j=cv k=ki", row == TG_U8 ? 'u' : 's', column == TG_U8 ? 'u' : 's');
  tg_kit_word(tg_b_, "cut cb auto");
  tg_kit_word(tg_b_, "cut ir auto");
  if (p->epilogue && p->c == p->acc && p->k.hi > tg_c(KC)) tg_kit_word(tg_b_, "cut kc last");
  if (tg_c(TEAM) == 1) tg_kit_word(tg_b_, "thread rc"), tg_kit_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_kit_word(tg_b_, "thread cc");
}

const tg_gemm_sketch tg_gemm_tiles = {
  .kernel = &gemm_tiles,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_tiles,
};
