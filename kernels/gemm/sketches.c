/* SPDX-License-Identifier: MIT
 * Sketches for products with work enough to pack operands for it, and what all sketches share: words made of numbers, the tile in registers. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "gemm/sketch.h"

/* ---- words made of numbers ---- */

void tg_gemm_word(tg_builder *b, const char *format, ...) {
  char text[192];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  tg_add_declaration(b, "opt", text, __FILE__, __LINE__);
}

const int64_t tg_gemm_mr[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 28, 0}, tg_gemm_panel_kc[] = {128, 256, 384, 512, 768, 1024, 1536, 2048, 0},
              tg_gemm_packed_kc[] = {64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024, 0}, tg_gemm_nb[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 0},
              tg_gemm_stream_nb[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 0}, tg_gemm_dot_kc[] = {128, 256, 384, 512, 768, 1024, 0}, tg_gemm_side[] = {1, 2, 4, 8, 0}, tg_gemm_mb[] = {1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 0};

/* A knob with the values of a table, the default first. */
void tg_gemm_knob(tg_builder *b, const char *name, int64_t first, const int64_t *values) {
  char text[192];
  size_t n = (size_t)snprintf(text, sizeof text, "%s, %lld", name, (long long)first);
  for (; *values; values++)
    if (*values != first) n += (size_t)snprintf(text + n, sizeof text - n, ", %lld", (long long)*values);
  tg_add_declaration(b, "knob", text, __FILE__, __LINE__);
}

tg_gemm_roles tg_gemm_roles_of(const tg_gemm_problem *p) {
  if (p->c_major == TG_GEMM_COLUMN) return (tg_gemm_roles){'j', 'i', 'B', 'A', p->b_major != TG_GEMM_ROW, p->a_major == TG_GEMM_ROW, false, p->b_major == TG_GEMM_STRIDES, p->a_major == TG_GEMM_STRIDES};
  return (tg_gemm_roles){'i', 'j', 'A', 'B', p->a_major != TG_GEMM_COLUMN, p->b_major == TG_GEMM_COLUMN, false, p->a_major == TG_GEMM_STRIDES, p->b_major == TG_GEMM_STRIDES};
}

tg_gemm_roles tg_gemm_thin_roles_of(const tg_gemm_problem *p) {
  tg_gemm_problem q = *p;
  q.c_major = p->n.hi < p->m.hi ? TG_GEMM_COLUMN : TG_GEMM_ROW;
  tg_gemm_roles o = tg_gemm_roles_of(&q);
  o.scattered = q.c_major != p->c_major;
  return o;
}

/* "{14, 8, 4, 2, 1}": the tile, then powers of two for the rows that are left. */
const char *tg_gemm_rows_list(char *text, size_t n, int64_t rows) {
  size_t at = (size_t)snprintf(text, n, "{%lld", (long long)rows);
  int64_t power = 1;
  while (power * 2 < rows) power *= 2;
  for (; power >= 1 && power < rows; power /= 2) at += (size_t)snprintf(text + at, n - at, ", %lld", (long long)power);
  snprintf(text + at, n - at, "}");
  return text;
}

void tg_gemm_lanes(tg_builder *b, const tg_gemm_problem *p) { tg_add_declaration(b, "knob", p->acc == TG_F64 ? "VL, 8, 4, 2" : "VL, 16, 8, 4", __FILE__, __LINE__); }

void tg_gemm_tile_knobs(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_lanes(tg_b_, p);
  tg_knob(NU, 4, 1, 2, 3);
  tg_gemm_knob(tg_b_, "MR", 6, tg_gemm_mr);
  tg_knob(UK, 2, 1, 4, 8);
}

const char *tg_gemm_tile_and_rest(char *text, size_t n, tg_gemm_dim size, int64_t tile) {
  int64_t rest = size.lo % tile;
  if (rest && size.lo > tile) snprintf(text, n, "{%lld, %lld}", (long long)tile, (long long)rest);
  else snprintf(text, n, "%lld", (long long)tile);
  return text;
}

void tg_gemm_tile(tg_builder *tg_b_, const char *rows, const char *terms, const char *around) {
  char list[96];
  tg_gemm_word(tg_b_, "split cv VL as cu cl");
  tg_gemm_word(tg_b_, "split %s %s as ir iu", rows, tg_gemm_rows_list(list, sizeof list, tg_c(MR)));
  if (around) tg_gemm_word(tg_b_, "order %s iu", around);
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cu");
  tg_gemm_word(tg_b_, "lane cl");
  if (tg_c(UK) == 1) return;
  tg_gemm_word(tg_b_, "split %s {UK, 1} as ko ku", terms);
  tg_gemm_word(tg_b_, "unroll ku");
}

const char *tg_gemm_as_type(const tg_gemm_problem *p, tg_type t) { return t == p->acc ? "" : p->acc == TG_F64 ? " as f64" : p->acc == TG_I32 ? " as i32" : " as f32"; }

/* A sum that C cannot hold waits beside the blocks of terms. */
static bool waits(const tg_gemm_problem *p) { return p->c != p->acc; }

/* As many terms as a vector has lanes, which are transposed together. What they leave of all terms, where these are one block, is a block of fewer; else they are gathered one by one. */
static const char *terms_of_a_block(tg_builder *tg_b_, const tg_gemm_problem *p, char *list, size_t size) {
  int64_t vl = tg_c(VL);
  bool one = p->k.lo == p->k.hi && p->k.lo <= tg_c(KC);
  return one ? tg_gemm_tile_and_rest(list, size, p->k, vl < p->k.lo ? vl : p->k.lo) : "{VL, 1}";
}

void tg_gemm_stage_columns(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at, const char *space) {
  int64_t vl = tg_c(VL), nr = vl * tg_c(NU);
  char list[96];
  tg_gemm_word(tg_b_, "stage %c at %s as Cp[%c/%lld, k, %c%%%lld]%s%s", o->column, at, o->c, (long long)nr, o->c, (long long)nr, tg_gemm_as_type(p, o->column == 'A' ? p->a : p->b), space);
  tg_gemm_word(tg_b_, "lane Cp.2 VL");
  if (o->column_k) { /* vectors along k, transposed: as many terms as a vector has lanes, in copies */
    tg_gemm_word(tg_b_, "split Cp.1 %s as pt pu", terms_of_a_block(tg_b_, p, list, sizeof list));
    tg_gemm_word(tg_b_, nr > vl ? "order Cp.2.0 pt pu" : "order pt pu");
    tg_gemm_word(tg_b_, "unroll pu");
    return;
  }
  if (o->column_any) {   /* whichever lie side by side: blocks of some terms of a vector of columns */
    tg_gemm_word(tg_b_, "split Cp.1 VL clip as pt pu");
    tg_gemm_word(tg_b_, nr > vl ? "order pt Cp.2.0 pu" : "order pt pu");
    return;
  }
  if (nr > vl) tg_gemm_word(tg_b_, "upcast Cp.2.0");
}

/* Rows of a tile, with k contiguous: k runs along each, and tiles take as many as they like. Where rows are neighbours in memory they are transposed on the way; where a launch says what
 * lies side by side, blocks of some rows and some terms come one after another, which is good either way. */
void tg_gemm_stage_rows(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o, const char *at) {
  int64_t vl = tg_c(VL), mr = tg_c(MR);
  char rows[48];
  bool by_tiles = mr > 1 && o->row_k && !o->row_any;
  snprintf(rows, sizeof rows, !by_tiles ? "%c" : "%c/%lld, %c%%%lld", o->r, (long long)mr, o->r, (long long)mr);
  tg_gemm_word(tg_b_, "stage %c at %s as Rp[%s, k]%s pitch=%lld", o->row, at, rows, tg_gemm_as_type(p, o->row == 'A' ? p->a : p->b), (long long)(tg_c(KC) + vl));
  tg_gemm_word(tg_b_, "lane Rp.%d VL", by_tiles ? 2 : 1);
  if (o->row_any) {
    tg_gemm_word(tg_b_, "split Rp.0 8 clip as qt qu");
    tg_gemm_word(tg_b_, "order qt Rp.1.0 qu");
  }
  bool apart = (o->row == 'A' ? p->a_step : p->b_step) > 1;
  if (o->row_k && apart) tg_gemm_word(tg_b_, "prefetch %c at Rp.%d.0 ahead 8", o->row, by_tiles ? 2 : 1);   /* pieces of lines are read faster than they come by themselves */
  if (o->row_k) return;
  tg_gemm_word(tg_b_, "split Rp.0 {VL, 1} as qt qu");
  tg_gemm_word(tg_b_, "order Rp.1.0 qt qu");
  tg_gemm_word(tg_b_, "unroll qu");
}

void tg_gemm_blocks(tg_builder *tg_b_, char rows, char columns, long long panel, tg_gemm_blocks_kind kind) {
  long long block = tg_c(MR) * (long long)tg_c(MB);
  tg_gemm_word(tg_b_, "split %c %lld as ct cv", columns, panel);
  tg_gemm_word(tg_b_, "split ct NB clip as cc cb");
  if (kind != GEMM_BLOCKS_WHOLE && kind != GEMM_BLOCKS_GROUPED_WHOLE) tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  if (kind == GEMM_BLOCKS_WAITING) {
    tg_gemm_word(tg_b_, "split %c %lld clip as rg rs", rows, block * (long long)tg_c(GB));
    tg_gemm_word(tg_b_, "split rs %lld clip as rc rb", block);
    tg_gemm_word(tg_b_, tg_c(TEAM) == 1 ? "order rg cc kc rc rb cb cv" : "order cc rg kc rc rb cb cv");
  } else {
    tg_gemm_word(tg_b_, "split %c %lld clip as rc rb", rows, block);
    static const char *const orders[] = {[GEMM_BLOCKS] = "order cc kc rc rb cb cv", [GEMM_BLOCKS_WHOLE] = "order cc rc rb cb cv", [GEMM_BLOCKS_GROUPED] = "order rc kc cc rb cb cv",
                                         [GEMM_BLOCKS_GROUPED_WHOLE] = "order rc cc rb cb cv"};
    tg_gemm_word(tg_b_, "%s", orders[kind]);
  }
}

void tg_gemm_share(tg_builder *tg_b_, const tg_gemm_problem *p, tg_gemm_blocks_kind kind) {
  if (tg_c(TEAM) == 1) tg_gemm_word(tg_b_, kind == GEMM_BLOCKS_WAITING ? "thread rg" : "thread rc");
  if (tg_c(TEAM) == 1 && !p->panel && kind <= GEMM_BLOCKS_WHOLE) tg_gemm_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_gemm_word(tg_b_, "thread cc");
}

bool tg_gemm_reads(const char *expression, const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t n = strlen(name);
  for (const char *at = expression; *at;) {
    size_t word = strspn(at, letters);
    if (word == n && !memcmp(at, name, n)) return true;
    at += word ? word : 1;
  }
  return false;
}

void tg_gemm_ask(tg_builder *tg_b_, const tg_gemm_problem *p, tg_gemm_blocks_kind kind) {
  bool sums = p->c != p->acc && p->k.hi > tg_c(KC);
  if (kind == GEMM_BLOCKS_GROUPED && !sums && p->c_major != TG_GEMM_STRIDES) tg_gemm_word(tg_b_, "prefetch C at cb ahead 0 rw");
  for (uint32_t i = 0; i < p->arguments_n; i++)   /* of each element: pieces of rows, which come while the sum is computed */
    if (p->argument[i].per == 3 && tg_gemm_reads(p->epilogue, p->argument[i].name)) tg_gemm_word(tg_b_, "prefetch arg%u at cb ahead 0", i);
  if ((kind == GEMM_BLOCKS_WAITING || kind == GEMM_BLOCKS_GROUPED) && sums) tg_gemm_word(tg_b_, "prefetch C.sum at cb ahead 0 rw");
}

/* Of strides that a launch brings: in a version of its own rows are as most are, their elements side by side. */
static void known_steps(tg_builder *tg_b_, const tg_gemm_problem *p) {
  const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
  char text[96];
  size_t n = 0;
  for (uint32_t i = 0; i < 3; i++)
    if (majors[i] == TG_GEMM_STRIDES) n += (size_t)snprintf(text + n, sizeof text - n, "%sstep%c == 1", n ? " & " : "", "abc"[i]);
  if (n) tg_gemm_word(tg_b_, "specialize(%s)", text);
}

/* Blocks of columns (NB panels), of terms (KC) and of rows (MB tiles). The columns' operand in panels, for all rows; the rows' operand where it lies, or packed as well.
 * GROUPED: blocks of rows stand outside, and what a block of terms has of their operand stays in the third cache while all columns pass, which are packed for each; C comes from afar then.
 * NEXT: while the tiles of a block are computed the next block of columns is brought nearer.
 * Sums that wait have a tile of GB blocks of rows, which share the panels of columns: so many stand inside the blocks of terms, the others around them. */
static void panels(tg_builder *tg_b_, const tg_gemm_problem *p, bool both) {
  tg_gemm_roles o = tg_gemm_roles_of(p);
  bool grouped = !p->panel && tg_c(GROUPED), whole = grouped && waits(p) && p->k.hi <= tg_c(KC);
  tg_gemm_blocks_kind kind = whole ? GEMM_BLOCKS_GROUPED_WHOLE : grouped ? GEMM_BLOCKS_GROUPED : waits(p) ? GEMM_BLOCKS_WAITING : GEMM_BLOCKS;
  tg_gemm_product(tg_b_, p);
  if (p->panel) tg_gemm_word(tg_b_, "stage B at i as Bp[j/%u, k, j%%%u] space=packed", p->panel, p->panel);
  tg_gemm_blocks(tg_b_, o.r, o.c, (long long)(tg_c(VL) * tg_c(NU)), kind);
  if (!p->panel) tg_gemm_stage_columns(tg_b_, p, &o, grouped ? "cc" : "kc", tg_c(TEAM) == 1 && kind == GEMM_BLOCKS ? " space=team" : "");
  if (!p->panel && !o.column_k && !o.column_any && tg_c(NB) > 1 && tg_c(TEAM) != 1) tg_gemm_word(tg_b_, "order Cp.1 Cp.0");   /* a row of all panels is read from end to end */
  if (both) tg_gemm_stage_rows(tg_b_, p, &o, grouped && !whole ? "kc" : "rc");
  tg_gemm_tile(tg_b_, "rb", whole ? "k" : "kr", "cb");
  if (p->epilogue && !waits(p) && p->k.hi > tg_c(KC)) tg_gemm_word(tg_b_, "cut kc last");   /* it is computed once, not in each block of terms */
  tg_gemm_share(tg_b_, p, kind);
  if (tg_c(NEXT)) tg_gemm_word(tg_b_, "prefetch %c at %s ahead 1 of %s to l2", o.column, tg_c(UK) > 1 ? "ko" : whole ? "k" : "kr", grouped ? "cc" : "kc");
  tg_gemm_ask(tg_b_, p, kind);
  if (both) known_steps(tg_b_, p);
}

/* The panels of columns stay in the second cache while the rows pass, which are read where they lie: k is what is contiguous in them. */
static void panel(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_tile_knobs(tg_b_, p);
  tg_gemm_knob(tg_b_, "KC", 1024, tg_gemm_panel_kc);
  tg_gemm_knob(tg_b_, "NB", 2, tg_gemm_nb);         /* panels of columns in a block */
  tg_gemm_knob(tg_b_, "MB", 1024, tg_gemm_mb);      /* tiles of rows in a block */
  if (waits(p)) tg_gemm_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows whose sums wait at a time */
  tg_knob(TEAM, 0, 1, 2);
  tg_knob(NEXT, 0, 1);
  tg_knob(GROUPED, 0, 1);
  panels(tg_b_, p, false);
}

/* Both operands in panels: one of rows stays in the first cache while those of the columns pass, from the second. */
static void packed(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_gemm_tile_knobs(tg_b_, p);
  tg_gemm_knob(tg_b_, "KC", 256, tg_gemm_packed_kc);
  tg_gemm_knob(tg_b_, "NB", 16, tg_gemm_nb);
  tg_gemm_knob(tg_b_, "MB", 16, tg_gemm_mb);
  if (waits(p)) tg_gemm_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows whose sums wait at a time */
  tg_knob(TEAM, 0, 1, 2);
  tg_knob(NEXT, 0, 1);
  tg_knob(GROUPED, 0, 1);
  panels(tg_b_, p, true);
}

/* ---- all sketches ---- */

/* No words: the compiler's heuristic chooses. */
TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) { tg_gemm_product(tg_b_, tg_user); }
TG_KERNEL(gemm_packed, M, N, K, lda, ldb, ldc) { packed(tg_b_, tg_user); }
TG_KERNEL(gemm_panel, M, N, K, lda, ldb, ldc) { panel(tg_b_, tg_user); }
TG_KERNEL(gemm_stream, M, N, K, lda, ldb, ldc) { tg_gemm_stream(tg_b_, tg_user); }
TG_KERNEL(gemm_dot, M, N, K, lda, ldb, ldc) { tg_gemm_dot(tg_b_, tg_user); }
TG_KERNEL(gemm_direct, M, N, K, lda, ldb, ldc) { tg_gemm_direct(tg_b_, tg_user); }
TG_KERNEL(gemm_bytes, M, N, K, lda, ldb, ldc) { tg_gemm_bytes(tg_b_, tg_user); }
TG_KERNEL(gemm_signed_bytes, M, N, K, lda, ldb, ldc) { tg_gemm_signed_bytes(tg_b_, tg_user); }
TG_KERNEL(gemm_pairs, M, N, K, lda, ldb, ldc) { tg_gemm_pairs(tg_b_, tg_user); }
TG_KERNEL(gemm_tiles, M, N, K, lda, ldb, ldc) { tg_gemm_tiles(tg_b_, tg_user); }
TG_KERNEL(gemm_long, M, N, K, lda, ldb, ldc) { tg_gemm_long(tg_b_, tg_user); }
TG_KERNEL(gemm_grouped, M, N, K, lda, ldb, ldc) { tg_gemm_grouped(tg_b_, tg_user); }
TG_KERNEL(gemm_weights, M, N, K, lda, ldb, ldc) { tg_gemm_weights(tg_b_, tg_user); }

const tg_kernel_def *const tg_gemm_sketches[] = {&gemm_plain, &gemm_packed, &gemm_panel, &gemm_stream, &gemm_dot, &gemm_direct, &gemm_bytes, &gemm_signed_bytes, &gemm_tiles, &gemm_long, &gemm_pairs, &gemm_grouped, &gemm_weights, NULL};
