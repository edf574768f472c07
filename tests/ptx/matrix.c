/* SPDX-License-Identifier: MIT
 * mma.sync and ldmatrix (PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix"). The places
 * of elements are computed from the document's formulas, in a form of its own: neither tg's table of layouts nor its
 * interpreter is used. The order of a sum is not defined there; here c comes first, then k ascending, in double
 * precision, rounded once. */
#include <string.h>
#include "machine.h"

enum { MOST_K = 32, ROWS = 16, COLUMNS = 8 };

typedef struct { ptx_type d, a, b, c; uint32_t k; } shape;

static uint32_t k_of(const ptx_instruction *i) {
  static const uint32_t k[] = {[SHAPE_M16N8K4] = 4, [SHAPE_M16N8K8] = 8, [SHAPE_M16N8K16] = 16, [SHAPE_M16N8K32] = 32};
  uint32_t s = i->field[FIELD_SHAPE];
  return s && s <= SHAPE_M16N8K32 ? k[s] : 0;
}

/* A register of 32 bits holds `per` elements of A or B, consecutive along k. Registers of A: the rows g and g + 8 in
 * turn, then the next stretch of k; where a register of A spans half of k or all of it, the same rule. B: the stretches
 * of k. The thread's place in its group of four says which elements of a stretch. */
static void place(uint32_t lane, uint32_t reg, uint32_t element, uint32_t per, bool is_a, uint32_t *line, uint32_t *k) {
  uint32_t group = lane / 4, thread = lane % 4, stretch = is_a ? reg / 2 : reg;
  *line = is_a ? group + 8 * (reg % 2) : group;
  *k = stretch * 4 * per + thread * per + element;
}

static void gather(ptx_machine *m, ptx_warp *w, const ptx_operand *o, ptx_type t, uint32_t k, bool is_a, double *to) {
  uint32_t bits = ptx_bits[t], per = 32 / bits, registers = (is_a ? ROWS : COLUMNS) * k / per / PTX_LANES, line, at;
  if (o->n != registers) ptx_fault(m, "%u registers of %s, not %u", o->n, is_a ? "a" : "b", registers);
  for (uint32_t r = 0; r < registers; r++) {
    const uint64_t *row = ptx_row(m, w, o, r);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++)
      for (uint32_t e = 0; e < per; e++) {
        uint64_t v = row[lane] >> bits * e & ptx_mask(bits);
        place(lane, r, e, per, is_a, &line, &at);
        to[line * MOST_K + at] = ptx_is_float(t) ? ptx_to_double(t, v) : t == PTX_S8 ? (double)ptx_extend(v, 8) : (double)v;
      }
  }
}

/* Accumulators: row g or g + 8, columns 2 thread and 2 thread + 1. */
static void result(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, const shape *s, double (*a)[MOST_K], double (*b)[MOST_K]) {
  uint32_t per = 32 / ptx_bits[s->d], out[4][PTX_LANES];
  const ptx_operand *d = &i->operand[0], *c = &i->operand[3];
  if (d->n != 4 / per || c->n != 4 / per) ptx_fault(m, "%u registers of accumulators", d->n);
  memset(out, 0, sizeof out);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t e = 0; e < 4; e++) {
      uint32_t r = e / per, shift = e % per * ptx_bits[s->d], row = lane / 4 + 8 * (e / 2), column = lane % 4 * 2 + e % 2;
      uint64_t old = ptx_row(m, w, c, r)[lane] >> shift & ptx_mask(ptx_bits[s->d]);
      double sum = s->d == PTX_S32 ? (double)ptx_extend(old, 32) : ptx_to_double(s->d, old);
      for (uint32_t k = 0; k < s->k; k++) sum += a[row][k] * b[column][k];
      uint64_t v = s->d == PTX_S32 ? (uint64_t)(int64_t)sum & 0xffffffffu : ptx_round(s->d, sum, 0);
      out[r][lane] |= (uint32_t)v << shift;
    }
  for (uint32_t r = 0; r < d->n; r++)
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) ptx_row(m, w, d, r)[lane] = out[r][lane];
}

static bool known(const shape *s) {
  bool integers = (s->a == PTX_S8 || s->a == PTX_U8) && (s->b == PTX_S8 || s->b == PTX_U8);
  if (integers) return s->d == PTX_S32 && (s->k == 16 || s->k == 32);
  if (s->a != s->b) return false;
  if (s->a == PTX_F16) return (s->d == PTX_F32 || s->d == PTX_F16) && (s->k == 8 || s->k == 16);
  if (s->a == PTX_BF16) return s->d == PTX_F32 && (s->k == 8 || s->k == 16);
  if (s->a == PTX_TF32) return s->d == PTX_F32 && (s->k == 4 || s->k == 8);
  return (s->a == PTX_E4M3 || s->a == PTX_E5M2) && s->d == PTX_F32 && s->k == 32;
}

void ptx_execute_mma(ptx_machine *m, ptx_warp *w, const ptx_instruction *i) {
  static double a[ROWS][MOST_K], b[COLUMNS][MOST_K];
  shape s = {.d = i->type[0], .a = i->type[1], .b = i->type[2], .c = i->type[3], .k = k_of(i)};
  if (i->types != 4 || i->operands != 4 || s.c != s.d || !known(&s)) ptx_fault(m, "no such matrix instruction");
  gather(m, w, &i->operand[1], s.a, s.k, true, a[0]);
  gather(m, w, &i->operand[2], s.b, s.k, false, b[0]);
  result(m, w, i, &s, a, b);
}

/* Lane 8 j + r has the address of row r of matrix j, 16 bytes. Lane l gets of each matrix, as register j, the two
 * elements of 16 bits at row l / 4, columns 2 (l % 4) and the next; .trans: of the matrix transposed. */
void ptx_execute_ldmatrix(ptx_machine *m, ptx_warp *w, const ptx_instruction *i) {
  uint32_t n = i->field[FIELD_COUNT];
  const uint64_t *row = ptx_row(m, w, &i->operand[1], 0);
  uint64_t address[PTX_LANES];
  uint16_t matrix[4][8][8];
  if (!n || i->operand[0].n != n || w->there != UINT32_MAX) ptx_fault(m, "operands that do not fit");
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) address[lane] = row[lane] + (uint64_t)i->operand[1].offset;
  ptx_count_access(m, i, SPACE_SHARED, address, 16, (uint32_t)ptx_mask(8 * n), false);
  for (m->lane = 0; m->lane < 8 * n; m->lane++) memcpy(matrix[m->lane / 8][m->lane % 8], ptx_reach(m, SPACE_SHARED, address[m->lane], 16, ACCESS_READ), 16);
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint32_t r = lane / 4, c = lane % 4 * 2;
      const uint16_t (*x)[8] = (const uint16_t (*)[8])matrix[j];
      ptx_row(m, w, &i->operand[0], j)[lane] = i->field[FIELD_TRANS] ? x[c][r] | (uint32_t)x[c + 1][r] << 16 : x[r][c] | (uint32_t)x[r][c + 1] << 16;
    }
}
