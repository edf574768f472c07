/* SPDX-License-Identifier: MIT
 * The first choice of words and knobs, from the registers, the caches and the sizes: no search, no allocation. */
#include "attention/template.h"

static void set(tg_kit_choice *c, const char *name, int64_t value) {
  c->knob[c->knobs_n++] = (tg_binding){name, value, value, 1};
}

/* A tile of nv vectors of rows by kt keys takes nv + kt loads for nv * kt multiply-adds in each step, and nv * kt + nv
 * + 1 registers. Of those that fit, the one with the fewest loads for a multiply-add whose rows waste the fewest lanes;
 * one whose operands leave L1 counts for less. of: the rows of a mask's blocks, which runs do not cross; 0: none */
static void choose_tile(const tg_attention_problem *p, const tg_target *t, int64_t vl, int64_t of, int64_t *nv,
                        int64_t *kt) {
  static const int64_t vectors[] = {1, 2, 3, 4, 6}, keys[] = {4, 8};
  enum { BK = 64 };
  double best = 0;
  for (uint32_t i = 0; i < TG_COUNT(vectors); i++)
    for (uint32_t k = 0; k < TG_COUNT(keys); k++) {
      int64_t v = vectors[i], n = keys[k], bq = v * vl, rows = p->rows.hi, blocks = (rows + bq - 1) / bq;
      if (v * n + v + 1 > t->vector_registers) continue;
      if (of % vl == 0 && of % bq && bq > vl) continue;
      double bytes = 4.0 * (double)(bq * (p->head + BK) + BK * p->head), l1 = t->l1 ? (double)t->l1 : 32768,
             work = (double)(v * n) / (double)(v + n) * (double)rows / (double)(blocks * bq);
      if (bytes > l1) work *= 0.5 + 0.5 * l1 / bytes;
      if (work > best) best = work, *nv = v, *kt = n;
    }
}

/* The least number of groups, of those that the knob may have, for n groups, or for `most` if there are more. of: the
 * groups of a mask's block of rows, 0: none; runs do not cross it. */
static int64_t groups_for(int64_t n, int64_t most, int64_t of) {
  static const int64_t values[] = {1, 2, 3, 4, 6, 8, 12, 24};
  int64_t g = 1;
  for (uint32_t i = 0; i < TG_COUNT(values) && g < n && values[i] <= most; i++)
    if (!of || of % values[i] == 0) g = values[i];
  return g;
}

/* Bytes of K and V of a key. */
static double bytes_of_key(const tg_attention_problem *p) {
  double bytes = (double)(p->head * tg_type_bytes(p->k) + p->value_head * tg_type_bytes(p->v));
  return p->kv_bits == 4 ? bytes / 2 : bytes;
}

/* Rows that share a block of K and V, which is read once for them. Twice as many where a head's K and V leave L2, if
 * Q and O of these rows stay there beside two blocks: what then comes from L3 is read half as often. More gain little,
 * and leave threads fewer pieces. A mask that is known only at a call says which keys all rows of a run leave out. */
static int64_t rows_of_run(const tg_attention_problem *p, const tg_target *t) {
  enum { ROWS = 96 };
  double l2 = (double)t->l2, row = 4.0 * (double)(p->head + p->value_head), blocks = 2 * ATTENTION_BLOCK * row;
  bool far = (double)p->keys.hi * bytes_of_key(p) > l2 && !p->backward && !tg_attention_is_masked(p);
  return far && 2 * ROWS * row + blocks <= l2 ? 2 * ROWS : ROWS;
}

/* The groups of a run, of bq rows each. Runs are rows of a mask's blocks (of), unless that leaves them so short that
 * the caller asks again without: keys may be divided for up to ATTENTION_FEW rows, and parts of one run alone are
 * merged. */
static int64_t choose_run(const tg_attention_problem *p, const tg_target *t, int64_t vl, int64_t of, int64_t *nv,
                          int64_t *kt, int64_t *bq) {
  choose_tile(p, t, vl, of, nv, kt);
  *bq = *nv * vl;
  return groups_for((p->rows.hi + *bq - 1) / *bq, rows_of_run(p, t) / *bq, of / *bq);
}

/* Lanes of the decode words: the largest power of two up to vl that divides both sizes of heads. */
static int64_t head_lanes(const tg_attention_problem *p, int64_t vl) {
  if (p->neighbours) return 1;
  int64_t parts = p->kv_bits == 4 ? 2 : 1;   /* low and high halves of bytes; a vector has one scale */
  while (p->head / parts % vl || p->value_head / parts % vl ||
         (p->rotary / 2 % vl) || (p->kv_bits && (p->k_group / parts % vl || p->v_group / parts % vl)))
    vl /= 2;
  return vl;
}

/* Keys of a block that comes from memory: V of it is fetched while K is read, and both stay in L1. */
static int64_t streamed_keys(const tg_attention_problem *p, const tg_target *t) {
  return ATTENTION_BLOCK * bytes_of_key(p) > (t->l1 ? (double)t->l1 : 32768) ? ATTENTION_BLOCK / 2 : ATTENTION_BLOCK;
}

/* Vectors that are added up side by side, as the latency of a multiply-add asks for. */
enum { SUMS = 8 };

/* Of 4 bits, whose conversions have a mask and the weights of several groups in registers besides, as few as are enough
 * where the next vector is not converted before that. */
static int64_t sums_for(const tg_attention_problem *p, const tg_target *t, int64_t rows, int64_t lanes) {
  const tg_machine *m = &t->machine;
  double fma = m->fma[lanes >= 16 ? 2 : lanes >= 8 ? 1 : 0], fed = (double)rows * m->convert;
  return p->kv_bits == 4 && fed > 0 && fed < fma ? (int64_t)(SUMS * fed / fma) : SUMS;
}

/* Rows whose sums of V are in registers, of so many vectors at a time. Each step loads a weight of each row, and
 * vectors of V, which are converted besides if they are no f32: as little as there can be for a multiply-add. */
static int64_t rows_of_v(const tg_attention_problem *p, const tg_target *t, int64_t bq, int64_t lanes,
                         int64_t *vectors) {
  int64_t rows = 1, cost = p->v == TG_F32 ? 1 : 2;
  *vectors = sums_for(p, t, 1, lanes);
  for (int64_t r = 2; r <= bq && r <= 4; r *= 2) {
    int64_t v = sums_for(p, t, r, lanes) / r;
    if ((cost * v + r) * *vectors * rows < (cost * *vectors + rows) * v * r) rows = r, *vectors = v;
  }
  return rows;
}

/* Of one row of K in 8 bits, the sums of two vectors stand side by side where one chain of them would be longer than a
 * core looks ahead, as each step has two conversions besides. */
static int64_t lanes_of_sums(const tg_attention_problem *p, int64_t bq, int64_t lanes) {
  enum { MOST_LANES = 16 };   /* of the knob */
  bool divides = !(p->head % (2 * lanes) || p->value_head % (2 * lanes) || p->k_group % (2 * lanes) ||
                   p->v_group % (2 * lanes));
  return p->kv_bits == 8 && bq == 1 && divides && p->head > SUMS * lanes && 2 * lanes <= MOST_LANES ? 2 * lanes : lanes;
}

/* Vectors of a head that dV and dK are summed for side by side, for each of four keys. */
static int64_t vectors_of_sums(const tg_attention_problem *p, const tg_target *t, int64_t vl) {
  int64_t most = t->vector_registers >= 32 ? 4 : 2, all = (p->head + vl - 1) / vl;
  return all < most ? all : most;
}

int64_t tg_attention_choose(const tg_attention_problem *p, const tg_target *t, tg_kit_choice *out) {
  int64_t vl = t->vector_bytes >= 16 ? t->vector_bytes / 4 : 4, rows = p->rows.hi, nv = 1, kt = 4,
          lanes = head_lanes(p, vl);
  *out = (tg_kit_choice){.sketch = tg_attention_prefill};
  set(out, "VL", vl);
  if (rows <= ATTENTION_DECODE_ROWS && lanes >= 4 && !p->backward && !p->dropout) {
    int64_t bq = 1;
    while (bq < rows) bq *= 2;
    out->sketch = tg_attention_decode;
    set(out, "BQ", bq);
    set(out, "BK", streamed_keys(p, t));
    set(out, "KT", vl > 8 ? vl : 8);
    int64_t side = lanes_of_sums(p, bq, lanes), vectors, of_v = rows_of_v(p, t, bq, lanes, &vectors);
    set(out, "DL", side);
    set(out, "DU", vectors * lanes / side);
    set(out, "VR", of_v);
    return bq;
  }
  set(out, "BK", ATTENTION_BLOCK);
  if (p->backward) out->sketch = tg_attention_backward, set(out, "EV", vectors_of_sums(p, t, vl));
  int64_t bq, groups = choose_run(p, t, vl, p->block_rows, &nv, &kt, &bq);
  if (groups * bq < (rows < ATTENTION_FEW ? rows : ATTENTION_FEW)) groups = choose_run(p, t, vl, 0, &nv, &kt, &bq);
  set(out, "NV", nv);
  set(out, "KT", kt);
  set(out, "G", groups);
  return groups * bq;
}
