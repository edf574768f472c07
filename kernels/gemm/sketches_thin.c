/* SPDX-License-Identifier: MIT
 * Sketches for products that are thin or small: one operand is read once, where it lies, at the speed of memory; or everything stays in the first cache.
 * Nothing is packed. */
#include <stdio.h>
#include "gemm/sketch.h"

/* Tiles of rows: where the size is known, a tile and a rest; of some rows, as weights meet them, any rest is one tile, since each reads all of the columns' operand; else powers of two. */
static const char *tiles_of_rows(char *text, size_t n, const tg_gemm_problem *p, tg_gemm_dim rows, tg_gemm_dim columns, int64_t mr) {
  enum { MOST = 8, ROWS = 128 };
  if (rows.lo == rows.hi) return tg_gemm_tile_and_rest(text, n, rows, mr < rows.lo ? mr : rows.lo);
  if (rows.hi > ROWS || mr > MOST || columns.lo != columns.hi || p->k.lo != p->k.hi) return tg_gemm_rows_list(text, n, mr);
  size_t at = (size_t)snprintf(text, n, "{%lld", (long long)mr);
  for (int64_t i = mr - 1; i >= 1; i--) at += (size_t)snprintf(text + at, n - at, ", %lld", (long long)i);
  snprintf(text + at, n - at, "}");
  return text;
}

/* Few rows: the columns' operand lies along the vectors. KC of its rows are read side by side, whole, and what was added so far waits in C, which a cache holds. */
void tg_gemm_stream(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  char list[96];
  tg_gemm_lanes(tg_b_, p);
  tg_knob(NU, 8, 1, 2, 3, 4, 6);
  tg_gemm_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_knob(KC, 8, 4, 16, 32, 64, 128, 256);
  tg_knob(UK, 8, 1, 2, 4);   /* terms in a row, at most */
  tg_gemm_knob(tg_b_, "NB", 64, tg_gemm_stream_nb);
  tg_knob(AHEAD, 0, 1, 2, 4);
  tg_knob(TEAM, 0, 2);
  tg_gemm_product(tg_b_, p);
  tg_gemm_word(tg_b_, "split %c %lld as ct cv", o.c, (long long)(tg_c(VL) * tg_c(NU)));
  tg_gemm_word(tg_b_, "split ct NB clip as cc cb");
  if (!o.scattered) tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  tg_gemm_word(tg_b_, o.scattered ? "order cc cb %c cv" : "order cc kc cb %c cv", o.r);
  tg_gemm_word(tg_b_, "split cv VL as cu cl");
  tg_gemm_word(tg_b_, "split %c %s as ir iu", o.r, tg_c(KC) < TG_GEMM_SHARED_KC ? tg_gemm_rows_list(list, sizeof list, tg_c(MR)) : tiles_of_rows(list, sizeof list, p, o.r == 'i' ? p->m : p->n, o.r == 'i' ? p->n : p->m, tg_c(MR)));
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cu");
  tg_gemm_word(tg_b_, "lane cl");
  /* Terms in a row; of columns along k as many as a vector has lanes, which are transposed together, and those that are left. */
  int64_t terms = !o.column_k ? tg_c(KC) < tg_c(UK) ? tg_c(KC) : tg_c(UK) : o.scattered || tg_c(VL) < tg_c(KC) ? tg_c(VL) : tg_c(KC);
  if (o.column_k && p->k.lo == p->k.hi && (o.scattered || p->k.lo <= tg_c(KC))) tg_gemm_tile_and_rest(list, sizeof list, p->k, terms < p->k.lo ? terms : p->k.lo);
  else snprintf(list, sizeof list, "{%lld, 1}", (long long)terms);
  const char *all = o.scattered ? "k" : "kr";
  if (terms > 1) tg_gemm_word(tg_b_, "split %s %s as ko ku", all, list), tg_gemm_word(tg_b_, "unroll ku");
  if (tg_c(TEAM)) tg_gemm_word(tg_b_, "thread cc");
  if (tg_c(AHEAD)) tg_gemm_word(tg_b_, "prefetch %c at %s ahead AHEAD of cb", o.column, terms > 1 ? "ko" : all);
}

/* A copy of rows that lie across k: as many as a vector has lanes are transposed in registers. */
static void transpose_rows(tg_builder *tg_b_, tg_gemm_dim rows) {
  char list[96];
  bool known = rows.lo == rows.hi, many = !known || rows.lo > tg_c(VL);
  tg_gemm_word(tg_b_, "lane Rp.1 VL");
  if (many) tg_gemm_word(tg_b_, "split Rp.0 %s as qt qu", known ? tg_gemm_tile_and_rest(list, sizeof list, rows, tg_c(VL)) : "{VL, 1}");
  tg_gemm_word(tg_b_, many ? "order Rp.1.0 qt qu" : "order Rp.1.0 Rp.0");
  tg_gemm_word(tg_b_, "unroll %s", many ? "qu" : "Rp.0");
}

/* Sums along k in blocks of KC terms: a copy of what the rows have of one stays in the first cache while NB tiles of columns pass, each all rows, and sums wait in C. While a tile is computed the lines
 * of one AHEAD are asked for. */
static void dot_blocks(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o) {
  enum { ROWS = 256 };   /* that a copy is for, at most */
  tg_gemm_dim rows = o->r == 'i' ? p->m : p->n;
  long long mr = tg_c(MR), nc = tg_c(NC), vl = tg_c(VL);
  bool many = rows.hi > ROWS, even = p->k.lo == p->k.hi && p->k.lo % vl == 0;
  char list[96], row[8];
  snprintf(row, sizeof row, many ? "rb" : "%c", o->r);
  if (many) tg_gemm_word(tg_b_, "split %c %d clip as rc rb", o->r, ROWS);
  tg_gemm_word(tg_b_, "split %c %lld as ct cv", o->c, nc);
  tg_gemm_word(tg_b_, "split ct NB clip as cc cb");
  tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  tg_gemm_word(tg_b_, "order %scc kc cb %s cv", many ? "rc " : "", row);
  tg_gemm_word(tg_b_, "stage %c at kc as Rp[%c, k]%s pitch=%lld", o->row, o->r, tg_gemm_as_type(p, o->row == 'A' ? p->a : p->b), (long long)tg_c(KC) + vl);
  if (o->row_k) tg_gemm_word(tg_b_, "lane Rp.1 VL");
  else transpose_rows(tg_b_, many ? (tg_gemm_dim){1, ROWS} : rows);
  tg_gemm_word(tg_b_, "split %s %s as ir iu", row, tg_gemm_rows_list(list, sizeof list, mr));
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cv");
  tg_gemm_word(tg_b_, "split kr VL as ko kl");
  if (!even) tg_gemm_word(tg_b_, "cut ko last");
  tg_gemm_word(tg_b_, "lane kl");
  if (tg_c(AHEAD)) tg_gemm_word(tg_b_, "prefetch %c at %s ahead AHEAD of cb", o->column, even ? "ko" : "ko.main");
}

/* Few rows: k is what lies side by side in the columns' operand. Vectors run along k, MR rows by NC columns of sums at a time. */
void tg_gemm_dot(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  char list[96];
  tg_gemm_lanes(tg_b_, p);
  tg_knob(NC, 4, 1, 2, 3, 6, 8);
  tg_gemm_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_gemm_knob(tg_b_, "NB", 64, tg_gemm_stream_nb);
  tg_gemm_knob(tg_b_, "KC", 0, tg_gemm_dot_kc);   /* 0: all terms, and rows where they lie */
  tg_knob(AHEAD, 8, 0, 1, 2, 4, 16, 24);
  tg_knob(TEAM, 0, 2);
  int64_t mr = tg_c(MR), nc = tg_c(NC), vl = tg_c(VL);
  tg_gemm_dim rows = o.r == 'i' ? p->m : p->n;
  tg_gemm_product(tg_b_, p);
  if (tg_c(KC)) {
    dot_blocks(tg_b_, p, &o);
    if (tg_c(TEAM)) tg_gemm_word(tg_b_, "thread cc");
    return;
  }
  tg_gemm_word(tg_b_, "split %c %lld clip as cc cb", o.c, (long long)(tg_c(NB) * nc));
  tg_gemm_word(tg_b_, "order cc %c cb", o.r);
  if (!o.row_k) {
    tg_gemm_word(tg_b_, "stage %c at cc as Rp[%c, k]", o.row, o.r);
    if (rows.lo == rows.hi && rows.lo > 1 && vl > 1 && p->k.lo >= vl) transpose_rows(tg_b_, rows);
  }
  if (mr > 1) tg_gemm_word(tg_b_, "split %c %s as ir iu", o.r, tg_gemm_rows_list(list, sizeof list, mr)), tg_gemm_word(tg_b_, "order ir cb iu"), tg_gemm_word(tg_b_, "upcast iu");
  if (nc > 1) tg_gemm_word(tg_b_, "split cb {%lld, 1} as jo ju", (long long)nc), tg_gemm_word(tg_b_, "upcast ju");
  tg_gemm_rest rest = p->k.lo == p->k.hi ? tg_gemm_dot_rest(p->k.lo, vl, mr, nc) : GEMM_REST_ONE_BY_ONE;
  if (rest == GEMM_REST_IN_A_ROW) tg_gemm_word(tg_b_, "split k VL as ko kl"), tg_gemm_word(tg_b_, "unroll ko"), tg_gemm_word(tg_b_, "lane kl");
  else if (rest == GEMM_REST_BEHIND) {
    tg_gemm_word(tg_b_, "split k VL as ko kl");
    tg_gemm_word(tg_b_, "cut ko last");
    tg_gemm_word(tg_b_, "lane kl");
    if (tg_c(AHEAD)) tg_gemm_word(tg_b_, "prefetch %c at ko.main ahead AHEAD", o.column);
  } else {
    tg_gemm_word(tg_b_, "split k {VL, 1} as ko kl");
    tg_gemm_word(tg_b_, "lane kl.by%lld", (long long)vl);
    if (tg_c(AHEAD)) tg_gemm_word(tg_b_, "prefetch %c at ko.by%lld ahead AHEAD", o.column, (long long)vl);
  }
  if (tg_c(TEAM)) tg_gemm_word(tg_b_, "thread cc");
}

/* Small: both operands where they lie, tile by tile: all rows of some columns, or (ROWS) all columns of some rows. SUMS of its own for each of as many terms in turn: where tiles are so small that
 * their sums would wait for each other. What tiles leave of sizes that are known are tiles as well; of other sizes, powers of two and single vectors. */
void tg_gemm_direct(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_roles o = tg_gemm_roles_of(p);
  tg_gemm_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  char list[96], rows_list[96];
  tg_gemm_lanes(tg_b_, p);
  tg_knob(NU, 4, 1, 2, 3);
  tg_gemm_knob(tg_b_, "MR", 6, tg_gemm_mr);
  tg_knob(UK, 8, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16);   /* terms in a row; 0: all, where they are known */
  tg_knob(ROWS, 0, 1);
  tg_knob(SUMS, 1, 2, 4, 8);
  int64_t vl = tg_c(VL), wide = vl * tg_c(NU), mr = tg_c(MR), uk = tg_c(UK);
  if (columns.lo == columns.hi && columns.lo < wide) wide = (columns.lo + vl - 1) / vl * vl;
  tg_gemm_product(tg_b_, p);
  const char *tiles = tiles_of_rows(rows_list, sizeof rows_list, p, rows, columns, mr);
  bool rows_outside = tg_c(ROWS) && !o.column_k;
  if (rows_outside) {
    tg_gemm_word(tg_b_, "order %c %c", o.r, o.c);
    tg_gemm_word(tg_b_, "split %c %s as ir iu", o.r, tiles);
    tg_gemm_word(tg_b_, "order ir %c iu", o.c);
  } else tg_gemm_word(tg_b_, "order %c %c", o.c, o.r);
  if (columns.lo == columns.hi) tg_gemm_word(tg_b_, "split %c %s as ct cv", o.c, tg_gemm_tile_and_rest(list, sizeof list, columns, wide));
  else if (wide > vl) tg_gemm_word(tg_b_, "split %c {%lld, VL} as ct cv", o.c, (long long)wide);
  else tg_gemm_word(tg_b_, "split %c VL as ct cv", o.c);
  if (rows_outside) tg_gemm_word(tg_b_, "order iu cv");
  else tg_gemm_word(tg_b_, "order %c cv", o.r);
  if (o.column_k) {
    tg_gemm_word(tg_b_, "stage %c at ct as Cp[k, %c]", o.column, o.c);
    tg_gemm_word(tg_b_, "lane Cp.1 VL");
    if (columns.lo == columns.hi) { /* vectors along k, transposed in registers, and what they leave of terms that are known as a block of fewer */
      const char *around = columns.lo > vl && wide > vl ? "Cp.1.0 " : "";
      bool short_ = p->k.lo == p->k.hi && p->k.lo <= vl;
      if (!short_) tg_gemm_word(tg_b_, "split Cp.0 %s as pt pu", p->k.lo == p->k.hi ? tg_gemm_tile_and_rest(list, sizeof list, p->k, vl) : "{VL, 1}");
      if (*around || !short_) tg_gemm_word(tg_b_, "order %s%s", around, short_ ? "Cp.0" : "pt pu");
      tg_gemm_word(tg_b_, "unroll %s", short_ ? "Cp.0" : "pu");
    }
  }
  tg_gemm_word(tg_b_, "split cv VL as cu cl");
  if (!rows_outside) tg_gemm_word(tg_b_, "split %c %s as ir iu", o.r, tiles);
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cu");
  tg_gemm_word(tg_b_, "lane cl");
  if (tg_c(SUMS) > 1) tg_gemm_word(tg_b_, "split k {SUMS, 1} as ko ku"), tg_gemm_word(tg_b_, "upcast ku.by%lld", (long long)tg_c(SUMS));
  else if (p->k.lo == p->k.hi && (!uk || uk >= p->k.lo)) tg_gemm_word(tg_b_, "unroll k");
  else if (uk > 1) {
    if (p->k.lo == p->k.hi) tg_gemm_word(tg_b_, "split k %s as ko ku", tg_gemm_tile_and_rest(list, sizeof list, p->k, uk));
    else tg_gemm_word(tg_b_, "split k {UK, 1} as ko ku");
    tg_gemm_word(tg_b_, "unroll ku");
  }
}
