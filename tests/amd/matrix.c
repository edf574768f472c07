/* SPDX-License-Identifier: MIT
 * Matrix instructions. Their layouts are those of AMD's documents ("RDNA3 ISA", 7.9 "Wave Matrix Multiply Accumulate";
 * "RDNA4 ISA", 7.12; "CDNA2 / CDNA3 ISA", chapter "Matrix Arithmetic Instructions"), but were written with tg's own table
 * (src/target/matrix.def) known and not held against the documents again, so a mistake may stand in both. Of an element
 * of A, B or C each layout says in which lane, which register and which part of it the element stands. Sums are made in double precision and rounded once: exact for data
 * whose sums are, within the documents' bound for all. */
#include <math.h>
#include <string.h>
#include "machine.h"

typedef struct {
  amd_operation operation;
  uint16_t rows, columns, depth;
  char type, sum;                       /* of A and B: h, b, i (bytes), f, d, 4, 5, n, z; of C and D: f, i, d, h, b */
  uint8_t a_words, c_words;             /* registers */
} shape;

static const shape shapes[] = {
    {AMD_WMMA_F32_16X16X16_F16, 16, 16, 16, 'h', 'f', 8, 8}, {AMD_WMMA_F32_16X16X16_BF16, 16, 16, 16, 'b', 'f', 8, 8},
    {AMD_WMMA_F16_16X16X16_F16, 16, 16, 16, 'h', 'h', 8, 8}, {AMD_WMMA_BF16_16X16X16_BF16, 16, 16, 16, 'b', 'b', 8, 8},
    {AMD_WMMA_I32_16X16X16_IU8, 16, 16, 16, 'i', 'i', 4, 8},
    {AMD_WMMA_F32_16X16X16_FP8_FP8, 16, 16, 16, '4', 'f', 2, 8}, {AMD_WMMA_F32_16X16X16_BF8_BF8, 16, 16, 16, '5', 'f', 2, 8},
    {AMD_MFMA_F32_32X32X8F16, 32, 32, 8, 'h', 'f', 2, 16}, {AMD_MFMA_F32_16X16X16F16, 16, 16, 16, 'h', 'f', 2, 4},
    {AMD_MFMA_F32_32X32X8BF16_1K, 32, 32, 8, 'b', 'f', 2, 16}, {AMD_MFMA_F32_16X16X16BF16_1K, 16, 16, 16, 'b', 'f', 2, 4},
    {AMD_MFMA_F32_32X32X2F32, 32, 32, 2, 'f', 'f', 1, 16}, {AMD_MFMA_F32_16X16X4F32, 16, 16, 4, 'f', 'f', 1, 4},
    {AMD_MFMA_F64_16X16X4F64, 16, 16, 4, 'd', 'd', 2, 8}, {AMD_MFMA_I32_32X32X8I8, 32, 32, 8, 'i', 'i', 1, 16},
    {AMD_MFMA_I32_16X16X16I8, 16, 16, 16, 'i', 'i', 1, 4}, {AMD_MFMA_I32_16X16X32_I8, 16, 16, 32, 'i', 'i', 2, 4},
    {AMD_MFMA_I32_32X32X16_I8, 32, 32, 16, 'i', 'i', 2, 16}, {AMD_MFMA_F32_16X16X32_FP8_FP8, 16, 16, 32, 'n', 'f', 2, 4},
    {AMD_MFMA_F32_16X16X32_BF8_BF8, 16, 16, 32, 'z', 'f', 2, 4}, {AMD_MFMA_F32_32X32X16_FP8_FP8, 32, 32, 16, 'n', 'f', 2, 16},
    {AMD_MFMA_F32_32X32X16_BF8_BF8, 32, 32, 16, 'z', 'f', 2, 16}};

typedef struct { uint32_t lane, word, part; } spot;      /* part: of a register: its half or byte */

static uint32_t parts(char type) { return type == 'h' || type == 'b' ? 2 : type == 'f' || type == 'd' ? 1 : 4; }

/* Element k of row i of A, and of column i of B alike. */
static spot factor(const amd_machine *m, const shape *s, uint32_t i, uint32_t k) {
  uint32_t p = parts(s->type), element = k, lane = i;
  if (m->f == AMD_RDNA4) element = k % 8, lane = i + 16 * (k / 8);       /* 8 consecutive k a half of the wave */
  else if (m->f != AMD_RDNA3) {                                          /* blocks of k beside each other in the lanes */
    uint32_t block = s->depth / (m->lanes / s->rows);
    element = k % block, lane = i + s->rows * (k / block);
  }
  return (spot){lane, element / p * (s->type == 'd' ? 2 : 1), element % p};
}

static spot sum_of(const amd_machine *m, const shape *s, uint32_t i, uint32_t j) {
  if (m->f == AMD_RDNA3) return (spot){j + 16 * (i & 1), i / 2, 0};      /* even rows in lanes 0 to 15, odd ones behind */
  if (m->f == AMD_RDNA4) {
    bool half = s->sum == 'h' || s->sum == 'b';
    return (spot){j + 16 * (i / 8), half ? i % 8 / 2 : i % 8, half ? i % 2 : 0};
  }
  if (s->sum == 'd') return (spot){j + 16 * (i % 4), 2 * (i / 4), 0};
  if (s->rows == 32) return (spot){j + 32 * (i / 4 % 2), i % 4 + 4 * (i / 8), 0};
  return (spot){j + 16 * (i / 4), i % 4, 0};
}

static double read_factor(amd_machine *m, const shape *s, uint32_t which, spot p) {
  const amd_operand *o = &m->i->source[which];
  uint32_t r = amd_vector(m, o->code + p.word), v = m->w->v[r][p.lane], bits = 32 / parts(s->type);
  if (m->w->v_unknown[r][p.lane] >> (parts(s->type) > 1 ? bits * p.part : 0) & (bits == 32 ? ~0u : (1u << bits) - 1))
    amd_fault(m, "a matrix operand in v%u of lane %u was never written", r, p.lane);
  switch (s->type) {
  case 'h': return amd_half(v >> 16 * p.part & 0xffff);
  case 'b': return amd_small('b', v >> 16 * p.part & 0xffff);
  case 'f': return (double)amd_single(v);
  case 'd': return amd_double(v | (uint64_t)m->w->v[amd_vector(m, o->code + p.word + 1)][p.lane] << 32);
  case 'i': {
    uint32_t b = v >> 8 * p.part & 255;
    return amd_rdna(m) && !o->negate ? (double)b : (double)(int8_t)b;    /* WMMA: NEG says whether it has a sign */
  }
  default: return amd_small(s->type, v >> 8 * p.part & 255);
  }
}

static bool high_half(const amd_machine *m, const shape *s) {            /* RDNA3: 16-bit sums stand in one half of each register */
  return m->f == AMD_RDNA3 && (s->sum == 'h' || s->sum == 'b') && m->i->low_sources >> 2 & 1;
}

static double read_sum(amd_machine *m, const shape *s, spot p) {
  const amd_operand *o = &m->i->source[2];
  uint32_t shift = high_half(m, s) ? 16 : 16 * p.part, mask = s->sum == 'h' || s->sum == 'b' ? 0xffffu << shift : ~0u;
  uint64_t v, u;
  if (o->code >= AMD_V0) {
    uint32_t r = amd_vector(m, o->code + p.word);
    v = m->w->v[r][p.lane], u = m->w->v_unknown[r][p.lane] & mask;
    if (s->sum == 'd') v |= (uint64_t)m->w->v[amd_vector(m, o->code + p.word + 1)][p.lane] << 32;
  } else v = amd_scalar(m, o, s->sum == 'd' ? 2 : 1, &u), shift = 0;
  if (u) amd_fault(m, "a matrix sum was never written");
  double d = s->sum == 'f' ? (double)amd_single((uint32_t)v) : s->sum == 'd' ? amd_double(v) : s->sum == 'i' ? (double)(int32_t)v : s->sum == 'h' ? amd_half(v >> shift & 0xffff) : amd_small('b', v >> shift & 0xffff);
  if (s->sum != 'i' && o->negate_high) d = fabs(d);
  return s->sum != 'i' && o->negate ? -d : d;
}

static void write_sum(amd_machine *m, const shape *s, spot p, double d) {
  uint32_t r = amd_vector(m, m->i->result[0].code + p.word), shift = high_half(m, s) ? 16 : 16 * p.part, mask = ~0u;
  uint64_t v = 0;
  switch (s->sum) {
  case 'f': v = amd_single_bits((float)d); break;
  case 'd': v = amd_double_bits(d); break;
  case 'i': v = (uint32_t)(int64_t)d; break;
  default: v = (s->sum == 'h' ? amd_round_half(d, 0, false) : amd_round_bf16((float)d)) << shift, mask = 0xffffu << shift; break;
  }
  m->w->v[r][p.lane] = (m->w->v[r][p.lane] & ~mask) | (uint32_t)v, m->w->v_unknown[r][p.lane] &= ~mask;
  if (s->sum != 'd') return;
  r = amd_vector(m, m->i->result[0].code + p.word + 1);
  m->w->v[r][p.lane] = (uint32_t)(v >> 32), m->w->v_unknown[r][p.lane] = 0;
}

static void multiply(amd_machine *m, const shape *s) {
  static _Thread_local double a[32][32], b[32][32], c[32][32];
  for (uint32_t i = 0; i < s->rows; i++)
    for (uint32_t k = 0; k < s->depth; k++) {
      spot p = factor(m, s, i, k);
      a[i][k] = read_factor(m, s, 0, p), b[i][k] = read_factor(m, s, 1, p);
      spot copy = {p.lane + 16, p.word, p.part};         /* RDNA3: lanes 16 to 31 repeat the others */
      if (m->f == AMD_RDNA3 && (read_factor(m, s, 0, copy) != a[i][k] || read_factor(m, s, 1, copy) != b[i][k]) && a[i][k] == a[i][k] && b[i][k] == b[i][k])
        amd_fault(m, "lanes %u and %u of a matrix operand differ", p.lane, copy.lane);
    }
  for (uint32_t i = 0; i < s->rows; i++)
    for (uint32_t j = 0; j < s->columns; j++) {
      c[i][j] = read_sum(m, s, sum_of(m, s, i, j));
      for (uint32_t k = 0; k < s->depth; k++) c[i][j] += a[i][k] * b[j][k];
    }
  for (uint32_t i = 0; i < s->rows; i++) for (uint32_t j = 0; j < s->columns; j++) write_sum(m, s, sum_of(m, s, i, j), c[i][j]);
}

bool amd_execute_matrix(amd_machine *m) {
  if (m->i->row->format != AMD_MFMA && *m->i->row->types != 'W') return false;
  uint64_t all = m->lanes == 64 ? ~(uint64_t)0 : 0xffffffffu;
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    if (shapes[k].operation != m->i->operation) continue;
    if (amd_exec(m) != all) amd_fault(m, "a matrix instruction with lanes off");
    if (m->i->clamp && shapes[k].sum == 'i') amd_fault(m, "a matrix instruction that clamps");
    m->d->count.matrix++;
    multiply(m, &shapes[k]);
    return true;
  }
  return false;
}
