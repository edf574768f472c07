/* SPDX-License-Identifier: MIT
 * Shared by the sketches: the values of knobs, the roles of operands in a tile, loops over blocks of panels and their
 * division among threads. */
#include <stdio.h>
#include <string.h>
#include "gemm/sketch.h"

const int64_t tg_gemm_mr[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 28, 0},
              tg_gemm_panel_kc[] = {128, 256, 384, 512, 768, 1024, 1536, 2048, 0},
              tg_gemm_packed_kc[] = {64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024, 0},
              tg_gemm_nb[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 0},
              tg_gemm_stream_nb[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 0},
              tg_gemm_dot_kc[] = {128, 256, 384, 512, 768, 1024, 0}, tg_gemm_side[] = {1, 2, 4, 8, 0},
              tg_gemm_mb[] = {1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 0};

bool tg_gemm_takes_numbers(const tg_gemm_problem *p, const tg_target *t) {
  (void)t;
  return !p->bits;
}

bool tg_gemm_waits(const tg_gemm_problem *p) { return p->c != p->acc; }

tg_gemm_roles tg_gemm_roles_of(const tg_gemm_problem *p) {
  if (p->c_major == TG_GEMM_COLUMN)
    return (tg_gemm_roles){'j',
                           'i',
                           'B',
                           'A',
                           p->b_major != TG_GEMM_ROW,
                           p->a_major == TG_GEMM_ROW,
                           false,
                           p->b_major == TG_GEMM_STRIDES,
                           p->a_major == TG_GEMM_STRIDES};
  return (tg_gemm_roles){'i',
                         'j',
                         'A',
                         'B',
                         p->a_major != TG_GEMM_COLUMN,
                         p->b_major == TG_GEMM_COLUMN,
                         false,
                         p->a_major == TG_GEMM_STRIDES,
                         p->b_major == TG_GEMM_STRIDES};
}

tg_gemm_roles tg_gemm_thin_roles_of(const tg_gemm_problem *p) {
  tg_gemm_problem q = *p;
  q.c_major = p->n.hi < p->m.hi ? TG_GEMM_COLUMN : TG_GEMM_ROW;
  tg_gemm_roles o = tg_gemm_roles_of(&q);
  o.scattered = q.c_major != p->c_major;
  return o;
}

static tg_type type_of(const tg_gemm_problem *p, char operand) { return operand == 'A' ? p->a : p->b; }

void tg_gemm_stage_columns(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at,
                           const char *space) {
  const char *as = tg_kit_as(type_of(p, o->column), p->acc);
  const tg_kit_copy copy = {.operand = o->column, .range = o->c, .term = 'k', .as = as, .along = o->column_k,
                            .any = o->column_any, .terms = p->k};
  tg_kit_stage_columns(b, &copy, at, space);
}

void tg_gemm_stage_rows(tg_builder *b, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at, bool side) {
  const tg_kit_copy copy = {.operand = o->row, .range = o->r, .term = 'k', .as = tg_kit_as(type_of(p, o->row), p->acc),
                            .along = o->row_k, .any = o->row_any, .side = side,
                            .apart = (o->row == 'A' ? p->a_step : p->b_step) > 1, .terms = p->k};
  tg_kit_stage_rows(b, &copy, at);
}

void tg_gemm_blocks(tg_builder *tg_b_, char rows, char columns, long long panel, tg_gemm_blocks_kind kind) {
  long long block = tg_c(MR) * (long long)tg_c(MB);
  tg_kit_word(tg_b_, "split %c %lld as ct cv", columns, panel);
  tg_kit_word(tg_b_, "split ct NB clip as cc cb");
  if (kind != GEMM_BLOCKS_WHOLE && kind != GEMM_BLOCKS_GROUPED_WHOLE) tg_kit_word(tg_b_, "split k KC clip as kc kr");
  if (kind == GEMM_BLOCKS_WAITING) {
    tg_kit_word(tg_b_, "split %c %lld clip as rg rs", rows, block * (long long)tg_c(GB));
    tg_kit_word(tg_b_, "split rs %lld clip as rc rb", block);
    tg_kit_word(tg_b_, tg_c(TEAM) == 1 ? "order rg cc kc rc rb cb cv" : "order cc rg kc rc rb cb cv");
  } else {
    tg_kit_word(tg_b_, "split %c %lld clip as rc rb", rows, block);
    static const char *const orders[] = {[GEMM_BLOCKS] = "order cc kc rc rb cb cv",
                                         [GEMM_BLOCKS_WHOLE] = "order cc rc rb cb cv",
                                         [GEMM_BLOCKS_GROUPED] = "order rc kc cc rb cb cv",
                                         [GEMM_BLOCKS_GROUPED_WHOLE] = "order rc cc rb cb cv"};
    tg_kit_word(tg_b_, "%s", orders[kind]);
  }
}

void tg_gemm_share(tg_builder *tg_b_, const tg_gemm_problem *p, tg_gemm_blocks_kind kind) {
  if (tg_c(TEAM) == 1) tg_kit_word(tg_b_, kind == GEMM_BLOCKS_WAITING ? "thread rg" : "thread rc");
  if (tg_c(TEAM) == 1 && !p->panel && kind <= GEMM_BLOCKS_WHOLE) tg_kit_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_kit_word(tg_b_, "thread cc");
}

void tg_gemm_ask(tg_builder *tg_b_, const tg_gemm_problem *p, tg_gemm_blocks_kind kind) {
  bool sums = p->c != p->acc && p->k.hi > tg_c(KC);
  /* C of a tile: where columns are the inner loop it was last touched a whole pass of the terms' blocks ago */
  if ((kind == GEMM_BLOCKS_GROUPED || (kind == GEMM_BLOCKS && p->k.hi > tg_c(KC))) && !sums &&
      p->c_major != TG_GEMM_STRIDES)
    tg_kit_word(tg_b_, "prefetch C at cb ahead 0 rw");
  /* arguments per element: the part beside the tile is prefetched while the sum is computed */
  for (uint32_t i = 0; i < p->arguments_n; i++)
    if (p->argument[i].per == 3 && tg_kit_reads(p->epilogue, p->argument[i].name))
      tg_kit_word(tg_b_, "prefetch arg%u at cb ahead 0", i);
  if ((kind == GEMM_BLOCKS_WAITING || kind == GEMM_BLOCKS_GROUPED) && sums)
    tg_kit_word(tg_b_, "prefetch C.sum at cb ahead 0 rw");
}

/* A fixed number of rows: a tile, and the remainder as one tile. Up to ROWS rows with fixed columns and terms, as in
 * products with weights: any remainder below mr is one tile, since each tile reads the whole columns' operand. Else:
 * remainders of powers of two. */
const char *tg_gemm_rows_tiles(char *text, size_t n, const tg_gemm_problem *p, tg_kit_dim rows, tg_kit_dim columns,
                               int64_t mr) {
  enum { MOST = 8, ROWS = 128 };
  if (rows.lo == rows.hi) return tg_kit_tile_and_rest(text, n, rows, mr < rows.lo ? mr : rows.lo);
  if (rows.hi > ROWS || mr > MOST || columns.lo != columns.hi || p->k.lo != p->k.hi)
    return tg_kit_rows_list(text, n, mr);
  size_t at = (size_t)snprintf(text, n, "{%lld", (long long)mr);
  for (int64_t i = mr - 1; i >= 1; i--) at += (size_t)snprintf(text + at, n - at, ", %lld", (long long)i);
  snprintf(text + at, n - at, "}");
  return text;
}

tg_gemm_open_columns tg_gemm_split_open_columns(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o,
                                               const char *columns, int64_t wide) {
  int64_t vl = tg_c(VL);
  bool halves = vl * tg_type_bytes(p->acc) == 64 && !o->column_k;
  tg_gemm_open_columns all = {wide, vl, halves ? vl / 2 : vl};
  char list[64];
  size_t n = (size_t)snprintf(list, sizeof list, "{%lld", (long long)wide);
  for (long long size = wide > vl ? vl : vl / 2; size >= all.least; size /= 2)
    n += (size_t)snprintf(list + n, sizeof list - n, ", %lld", size);
  tg_kit_word(tg_b_, "split %s %s}%s as ct cv", columns, list, halves ? " cover" : "");
  tg_kit_word(tg_b_, "order %c cv", o->r);
  return all;
}

void tg_gemm_tile_open_columns(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o, tg_kit_dim rows,
                               const tg_gemm_open_columns *all) {
  enum { CHAINS = 8 };   /* multiply-adds at a time that hide their latency: two ports, four cycles */
  for (long long size = all->wide; size >= all->least; size = size > all->vl ? all->vl : size / 2) {
    int64_t vectors = size > all->vl ? size / all->vl : 1, least = (CHAINS + vectors - 1) / vectors, mr = tg_c(MR);
    char list[96];
    tg_kit_word(tg_b_, "split ct.by%lld.%c %s as ir%lld iu%lld", size, o->r,
                tg_gemm_rows_tiles(list, sizeof list, p, rows, p->k, mr < least ? least : mr), size, size);
    tg_kit_word(tg_b_, "upcast iu%lld", size);
    if (size > all->vl) tg_kit_word(tg_b_, "split cv.by%lld VL as cu cl", size), tg_kit_word(tg_b_, "upcast cu");
    if (size > all->vl) tg_kit_word(tg_b_, "lane cl");
    else tg_kit_word(tg_b_, "lane cv.by%lld", size);
  }
}

/* Operands whose strides are known at launch only: compiles a second version for contiguous rows, the usual case. */
static void known_steps(tg_builder *tg_b_, const tg_gemm_problem *p) {
  const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
  char text[96];
  size_t n = 0;
  for (uint32_t i = 0; i < 3; i++)
    if (majors[i] == TG_GEMM_STRIDES)
      n += (size_t)snprintf(text + n, sizeof text - n, "%sstep%c == 1", n ? " & " : "", "abc"[i]);
  if (n) tg_kit_word(tg_b_, "specialize(%s)", text);
}

/* Blocks of columns (NB panels), of terms (KC) and of rows (MB tiles). The columns' operand is packed in panels, once
 * for all rows; the rows' operand is read in place, or (both) packed as well. GROUPED: the loop over blocks of rows is
 * outermost. The part of the rows' operand for one block of terms stays in L3 while all columns pass, whose panels are
 * packed again for each block of rows; the tiles' part of C is then in no near cache, and is prefetched. NEXT: while
 * the tiles of a block are computed, the next block of columns is prefetched to L2. Partial sums of a C that is not of
 * type acc: see GEMM_BLOCKS_WAITING. */
void tg_gemm_panels(tg_builder *tg_b_, const tg_gemm_problem *p, bool both) {
  tg_gemm_roles o = tg_gemm_roles_of(p);
  bool grouped = !p->panel && tg_c(GROUPED), whole = grouped && tg_gemm_waits(p) && p->k.hi <= tg_c(KC);
  tg_gemm_blocks_kind kind = whole              ? GEMM_BLOCKS_GROUPED_WHOLE
                             : grouped          ? GEMM_BLOCKS_GROUPED
                             : tg_gemm_waits(p) ? GEMM_BLOCKS_WAITING
                                                : GEMM_BLOCKS;
  tg_gemm_product(tg_b_, p);
  if (p->panel) tg_kit_word(tg_b_, "stage B at i as Bp[j/%u, k, j%%%u] space=packed", p->panel, p->panel);
  tg_gemm_blocks(tg_b_, o.r, o.c, (long long)(tg_c(VL) * tg_c(NU)), kind);
  if (!p->panel)
    tg_gemm_stage_columns(tg_b_, p, &o, grouped ? "cc" : "kc",
                          tg_c(TEAM) == 1 && kind == GEMM_BLOCKS ? " space=team" : "");
  /* copy row by row through all panels, so that B is read sequentially */
  if (!p->panel && !o.column_k && !o.column_any && tg_c(NB) > 1 && tg_c(TEAM) != 1)
    tg_kit_word(tg_b_, "order Cp.1 Cp.0");
  if (both) tg_gemm_stage_rows(tg_b_, p, &o, grouped && !whole ? "kc" : "rc", tg_c(SIDE));
  tg_kit_tile(tg_b_, "rb", whole ? "k" : "kr", "cb");
  /* the epilogue is applied in the last block of terms only */
  if (p->epilogue && !tg_gemm_waits(p) && p->k.hi > tg_c(KC)) tg_kit_word(tg_b_, "cut kc last");
  tg_gemm_share(tg_b_, p, kind);
  if (tg_c(NEXT))
    tg_kit_word(tg_b_, "prefetch %c at %s ahead 1 of %s to l2", o.column,
                tg_c(UK) > 1 ? "ko"
                : whole      ? "k"
                             : "kr",
                grouped ? "cc" : "kc");
  if (!both && tg_c(AHEAD))
    tg_kit_word(tg_b_, "prefetch %c at %s ahead 1 of ir", o.row, tg_c(UK) > 1 ? "ko" : whole ? "k" : "kr");
  tg_gemm_ask(tg_b_, p, kind);
  if (both) known_steps(tg_b_, p);
}
