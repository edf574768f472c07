/* SPDX-License-Identifier: MIT
 * The sketches for instructions that sum several neighbouring terms at a time, a dword of them: the columns' operand is packed with as many side by side.
 * Pairs of bf16: two of them. Their instruction takes subnormal numbers for zero, so the problem has to allow it.
 * Bytes, the first operand's unsigned: four. Signed bytes times signed ones are that as well: x is u8(x ^ -128) - 128, so their sum is that of unsigned bytes, and -128 times the sum of a column
 * beside it; the rows' operand is packed as u8 then. All of it wraps as the sum itself does. */
#include "gemm/sketch.h"

static void knobs(tg_builder *tg_b_) {
  tg_knob(NU, 4, 1, 2, 3);
  tg_gemm_knob(tg_b_, "MR", 6, tg_gemm_mr);
  tg_gemm_knob(tg_b_, "KC", 1024, tg_gemm_panel_kc);
  tg_gemm_knob(tg_b_, "NB", 8, tg_gemm_nb);
  tg_gemm_knob(tg_b_, "MB", 1024, tg_gemm_mb);
  tg_knob(TEAM, 0, 1, 2);
}

static long long terms_of(const tg_gemm_problem *p) { return p->a == TG_BF16 ? 2 : 4; }

/* Rows of bytes in place are read a dword at a time, so their ends must be those of the operand. A last term that is no pair is multiplied by itself. */
static bool packs_rows(const tg_gemm_problem *p) { return p->a == TG_I8 || p->a_major != TG_GEMM_ROW || p->a_step > 1 || (p->a == TG_U8 && (p->k.lo != p->k.hi || p->k.lo % 4)); }

/* Rows of a panel's columns, as many as a dword has terms, side by side in memory, whose elements take turns in it: vectors of as many columns as a row's load has, each of a part of them. */
static void interleave(tg_builder *tg_b_, long long terms) {
  long long nu = tg_c(NU);
  tg_gemm_word(tg_b_, "split Cp.2 %lld as cq cr", terms == 2 ? 16 : nu & (nu - 1) ? 4 : 4 * nu);   /* a vector has a power of two of lanes */
  tg_gemm_word(tg_b_, "fuse cr Cp.3 as cx");
  tg_gemm_word(tg_b_, "lane cx");
  tg_gemm_word(tg_b_, "upcast cq");
}

/* Columns whose terms are side by side in memory: dwords of them change places, sixteen by sixteen. */
static void transpose(tg_builder *tg_b_) {
  tg_gemm_word(tg_b_, "split Cp.2 16 as cq cr");
  tg_gemm_word(tg_b_, "fuse cr Cp.3 as cx");
  tg_gemm_word(tg_b_, "lane cx");
  tg_gemm_word(tg_b_, "split Cp.1 {16, 1} as pt pu");
  tg_gemm_word(tg_b_, "order cq pt pu");
  tg_gemm_word(tg_b_, "unroll pu");
}

/* Rows that are neighbours in memory: elements change places, sixteen by sixteen. */
static void transpose_rows(tg_builder *tg_b_) {
  tg_gemm_word(tg_b_, "lane Rp.1 16");
  tg_gemm_word(tg_b_, "split Rp.0 {16, 1} as rt ru");
  tg_gemm_word(tg_b_, "order Rp.1.0 rt ru");
  tg_gemm_word(tg_b_, "unroll ru");
}

/* Likewise, of pairs: they lie side by side for 32 rows, as the columns' panels have them, which needs two loads for two vectors. */
static void interleave_rows(tg_builder *tg_b_) {
  tg_gemm_word(tg_b_, "stage A at rc as Rp[d0/32, d1/2, d0%%32, d1%%2]");
  tg_gemm_word(tg_b_, "split Rp.2 16 as rq rr");
  tg_gemm_word(tg_b_, "fuse rr Rp.3 as rx");
  tg_gemm_word(tg_b_, "lane rx");
  tg_gemm_word(tg_b_, "upcast rq");
  tg_gemm_word(tg_b_, "order Rp.1 Rp.0");
}

static const char *team_of(tg_builder *tg_b_) { return tg_c(TEAM) == 1 ? " space=team" : ""; }

/* The tiles, of the columns cv in panels of nr, within loops over blocks of rows; k: the terms of a block; at: the loop over blocks. */
static void tiles(tg_builder *tg_b_, const tg_gemm_problem *p, const char *k, const char *at, const char *space) {
  char list[96];
  long long nr = 16 * tg_c(NU), mr = tg_c(MR), terms = terms_of(p);
  tg_gemm_word(tg_b_, "split cv 16 as cu cl");
  tg_gemm_word(tg_b_, "stage B at %s as Cp[d1/%lld, d0/%lld, d1%%%lld, d0%%%lld]%s", at, nr, terms, nr, terms, space);
  bool turned = terms == 2 && p->a_major == TG_GEMM_COLUMN;
  if (turned) interleave_rows(tg_b_);
  else if (packs_rows(p)) tg_gemm_word(tg_b_, "stage A at rc as Rp[d0, d1]%s pitch=%lld", p->a == TG_I8 ? " as u8 fill=128" : "", (long long)tg_c(KC) + 64);
  if (packs_rows(p) && p->a_major == TG_GEMM_ROW) tg_gemm_word(tg_b_, "lane Rp.1 %lld", 16 * terms);
  if (!turned && p->a_major == TG_GEMM_COLUMN) transpose_rows(tg_b_);
  tg_gemm_word(tg_b_, terms == 2 && (p->k.lo != p->k.hi || p->k.lo % 2) ? "split %s {2, 1} as ko ki" : "split %s %lld as ko ki", k, terms);
  tg_gemm_word(tg_b_, "split rb %s as ir iu", tg_gemm_rows_list(list, sizeof list, mr));
  tg_gemm_word(tg_b_, "order cb iu");
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cu");
  if (p->b_major == TG_GEMM_ROW) interleave(tg_b_, terms);
  if (p->b_major == TG_GEMM_COLUMN) transpose(tg_b_);
}

/* ---- bytes ---- */

/* blocks: the loop over blocks of columns. */
static void tiles_of_bytes(tg_builder *tg_b_, const tg_gemm_problem *p, const char *blocks) {
  tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  tg_gemm_word(tg_b_, "split i %lld clip as rc rb", (long long)(tg_c(MR) * tg_c(MB)));
  tg_gemm_word(tg_b_, "order %skc rc rb cb cv", p->a == TG_I8 ? "" : "cc ");
  tiles(tg_b_, p, "kr", "kc", team_of(tg_b_));
  tg_gemm_word(tg_b_, "contract vpdpbusd n=cl k=ki");
  if (tg_c(TEAM) == 1) tg_gemm_word(tg_b_, "thread rc"), tg_gemm_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_gemm_word(tg_b_, "thread %s", blocks);
}

void tg_gemm_bytes(tg_builder *tg_b_, const tg_gemm_problem *p) {
  knobs(tg_b_);
  tg_gemm_product(tg_b_, p);
  tg_gemm_word(tg_b_, "split j %lld as ct cv", (long long)(16 * tg_c(NU)));
  tg_gemm_word(tg_b_, "split ct NB clip as cc cb");
  tiles_of_bytes(tg_b_, p, "cc");
}

/* The sums of a block's columns, 64 at a time, or along the columns. */
static void sums(tg_builder *tg_b_, const tg_gemm_problem *p) {
  if (p->b_major == TG_GEMM_COLUMN) {
    tg_gemm_word(tg_b_, "split q 64 as qo qi");
    tg_gemm_word(tg_b_, "split qi 16 as qu ql");
    tg_gemm_word(tg_b_, "unroll qu");
    tg_gemm_word(tg_b_, "lane ql");
    return;
  }
  tg_gemm_word(tg_b_, "split js 64 as jo ji");
  tg_gemm_word(tg_b_, "split ji 16 as ju jl");
  tg_gemm_word(tg_b_, "upcast ju");
  tg_gemm_word(tg_b_, "lane jl");
}

void tg_gemm_signed_bytes(tg_builder *tg_b_, const tg_gemm_problem *p) {
  knobs(tg_b_);
  tg_let(W, 16 * tg_c(NU) * tg_c(NB));
  tg_gemm_declare(tg_b_, p);
  tg_range(jc, ceildiv(N, W)) {
    tg_define_local(shift, i32, [W]);
    tg_range(js, min(W, N - jc*W)) tg(shift[js] = -128 * sum(q : K, i32(B[q, jc*W + js])));
    tg_range(i, M) tg_range(jj, min(W, N - jc*W))
      tg_gemm_store(tg_b_, p, "jc*W + jj", p->alpha ? "sum(k : K, i32(u8(A[i,k] ^ -128)) * i32(B[k, jc*W + jj])) + alpha[0] * shift[jj]" : "sum(k : K, i32(u8(A[i,k] ^ -128)) * i32(B[k, jc*W + jj])) + shift[jj]", "");
  }
  tg_gemm_word(tg_b_, "split jj %lld as cb cv", (long long)(16 * tg_c(NU)));
  sums(tg_b_, p);
  tiles_of_bytes(tg_b_, p, "jc");
}

/* ---- pairs ---- */

void tg_gemm_pairs(tg_builder *tg_b_, const tg_gemm_problem *p) {
  knobs(tg_b_);
  if (p->c != p->acc) tg_gemm_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows whose sums wait at a time */
  bool whole = p->k.hi <= tg_c(KC), waits = p->c != p->acc;
  tg_gemm_blocks_kind kind = whole ? GEMM_BLOCKS_WHOLE : waits ? GEMM_BLOCKS_WAITING : GEMM_BLOCKS;
  tg_gemm_product(tg_b_, p);
  tg_gemm_blocks(tg_b_, 'i', 'j', 16 * tg_c(NU), kind);
  tiles(tg_b_, p, whole ? "k" : "kr", whole ? "cc" : "kc", kind == GEMM_BLOCKS_WAITING ? "" : team_of(tg_b_));
  if (!whole && (waits || p->epilogue)) tg_gemm_word(tg_b_, "cut kc last");   /* which stores elsewhere, or something else */
  tg_gemm_ask(tg_b_, p, kind);
  tg_gemm_word(tg_b_, "contract vdpbf16ps n=cl k=ki");
  tg_gemm_share(tg_b_, p, kind);
}
