/* SPDX-License-Identifier: MIT
 * The first answer without a search: a sketch by the shape of the problem, its tile by the registers, its blocks by the caches. */
#include "gemm/template.h"

static uint32_t bytes_of(tg_type t) {
  static const uint8_t bytes[TG_TYPE__COUNT] = {[TG_I8] = 1, [TG_U8] = 1, [TG_F16] = 2, [TG_BF16] = 2, [TG_I32] = 4, [TG_F32] = 4, [TG_F64] = 8};
  return bytes[t];
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

static void knob(tg_gemm_choice *c, const char *name, int64_t value) { c->knob[c->knobs_n++] = (tg_binding){name, value, value, 1}; }

/* The largest of the values that a sketch lists which is at most x. */
static int64_t listed(const int64_t *values, int64_t x) {
  int64_t best = values[0];
  for (; *values; values++)
    if (*values <= x && *values > best) best = *values;
  return best;
}

/* Tile rows so that few are computed in vain: the rows in as few tiles as most allows, all alike. */
static int64_t tile_rows(int64_t rows, int64_t most) { return rows <= most ? rows : up(rows, up(rows, most)) >= most - 2 ? up(rows, up(rows, most)) : most; }

static void choose_packed(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_gemm_choice *out) {
  static const int64_t blocks[] = {1, 2, 4, 8, 16, 32, 64, 0}, columns[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 0}, terms[] = {64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 0};
  bool turned = p->c_major == TG_GEMM_COLUMN;
  tg_gemm_dim rows = turned ? p->n : p->m, cols = turned ? p->m : p->n;
  int64_t size = bytes_of(p->acc), vl = smaller(t->vector_bytes / (uint32_t)size, 16), registers = t->vector_registers, l2 = t->l2 ? (int64_t)t->l2 : 1 << 20;
  int64_t nu = smaller(2, up(cols.hi, vl)), most = (registers - nu - 1) / nu;
  int64_t mr = tile_rows(rows.hi, most > 16 ? nu == 1 ? 15 : 16 : most), nr = nu * vl;
  int64_t kc = listed(terms, smaller(256, p->k.hi < 64 ? 64 : p->k.hi));
  int64_t nb = listed(columns, smaller(up(cols.hi, nr), l2 / 2 / (kc * nr * size))), mb = listed(blocks, smaller(up(rows.hi, mr), l2 / 8 / (kc * mr * size)));
  int64_t team = 0;
  if (threads > 1) { /* some four tasks for each thread, of rows where there are enough */
    int64_t tiles = up(rows.hi, mr);
    team = tiles >= 4 * (int64_t)threads || tiles >= up(cols.hi, nr) ? 1 : 2;
    if (team == 1) mb = listed(blocks, smaller(mb, up(tiles, 4 * (int64_t)threads)));
    else nb = listed(columns, smaller(nb, up(up(cols.hi, nr), 4 * (int64_t)threads)));
  }
  knob(out, "VL", vl);
  knob(out, "NU", nu);
  knob(out, "MR", mr);
  knob(out, "KC", kc);
  knob(out, "MB", mb);
  knob(out, "NB", nb);
  knob(out, "TEAM", team);
}

/* Blocks of a sum wait in C: it has the sum's type, and what is added to them is no epilogue that reads it. */
static bool can_block(const tg_gemm_problem *p) {
  return p->c == p->acc && p->a == p->acc && p->b == p->acc && (p->acc == TG_F32 || p->acc == TG_F64) && !(p->alpha && p->beta) && !p->epilogue && p->batch.hi == 1 &&
         p->a_major != TG_GEMM_STRIDES && p->b_major != TG_GEMM_STRIDES && p->c_major != TG_GEMM_STRIDES;
}

void tg_gemm_choose(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_gemm_choice *out) {
  bool packed = can_block(p) && p->m.hi >= 8 && p->n.hi >= 8 && p->k.hi >= 16;
  *out = (tg_gemm_choice){.sketch = tg_gemm_sketches[packed]};
  if (packed) choose_packed(p, t, threads, out);
}
