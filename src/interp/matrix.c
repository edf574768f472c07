/* SPDX-License-Identifier: MIT
 * Matrix instructions as the vendors' documents describe them: which row and column each register of each lane holds.
 *
 * This table is independent of the compiler's (target/matrix.def) and deliberately written in another form, so that a
 * misreading would have to be made twice to go unnoticed. Arithmetic: products are exact and are added to c in double
 * precision, k ascending; the sum is rounded once to the type of c. (The vendors define neither order nor inner
 * precision; on exact data all orders agree.) f64 is a chain of FMAs. Integer sums are exact and wrap at 32 bits. */
#include <math.h>
#include "interp/code.h"

typedef void place_fn(int which, uint32_t lane, uint32_t reg, uint32_t *row, uint32_t *column);
typedef enum { AS_FLOAT, AS_NORMAL, AS_TF32, AS_F64, AS_INT, AS_E4M3FNUZ, AS_E5M2FNUZ } arithmetic;

struct tg_instruction {
  const char *name;
  uint32_t m, n, k, lanes, registers[3];
  place_fn *place;
  arithmetic how;
  tg_type result;
};

/* ---- PTX ISA: a warp is 8 groups of 4 threads ---- */

static void accumulator_16x8(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  *row = i < 2 ? group : group + 8;
  *column = thread * 2 + (i & 1);
}

static void m16n8k16_half(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    *column = i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
  } else {
    *row = i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
    *column = group;
  }
}

static void m16n8k8_half(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i < 2 ? group : group + 8;
    *column = thread * 2 + (i & 1);
  } else {
    *row = thread * 2 + i;
    *column = group;
  }
}

static void m16n8k8_tf32(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i == 0 || i == 2 ? group : group + 8;
    *column = i < 2 ? thread : thread + 4;
  } else {
    *row = i == 0 ? thread : thread + 4;
    *column = group;
  }
}

static void m16n8k4_tf32(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i == 0 ? group : group + 8;
    *column = thread;
  } else {
    *row = thread;
    *column = group;
  }
}

static void m16n8k32_byte(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
    *column = i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16;
  } else {
    *row = i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16;
    *column = group;
  }
}

static void m16n8k16_byte(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t group = lane >> 2, thread = lane % 4;
  if (which == 2) accumulator_16x8(lane, i, row, column);
  else if (which == 0) {
    *row = i < 4 ? group : group + 8;
    *column = thread * 4 + (i & 3);
  } else {
    *row = thread * 4 + i;
    *column = group;
  }
}

/* ---- RDNA ---- */

static void rdna3(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  if (which == 2) {
    *row = 2 * i + lane / 16;
    *column = lane % 16;
  } else {
    *row = which == 0 ? lane % 16 : i;
    *column = which == 0 ? i : lane % 16;
  }
}

static void rdna4(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t other = lane < 16 ? i : 8 + i, own = lane & 15;
  *row = which == 0 ? own : other;
  *column = which == 0 ? other : own;
}

/* ---- CDNA: blocks of 16 or 32 lanes ---- */

static void cdna(int which, uint32_t size, uint32_t each, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t block = lane / size, own = lane - block * size, blocks = 64 / size;
  if (which == 2) {
    *row = i / 4 * 4 * blocks + 4 * block + i % 4;   /* four rows of each block in turn */
    *column = own;
  } else {
    *row = which == 0 ? own : each * block + i;
    *column = which == 0 ? each * block + i : own;
  }
}

static void cdna16x4(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 16, 1, lane, i, row, column);
}
static void cdna16x16(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 16, 4, lane, i, row, column);
}
static void cdna16x32(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 16, 8, lane, i, row, column);
}
static void cdna32x2(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 32, 1, lane, i, row, column);
}
static void cdna32x8(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 32, 4, lane, i, row, column);
}
static void cdna32x16(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 32, 8, lane, i, row, column);
}

/* In double precision the registers of a lane hold every fourth row. */
static void cdna_f64(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  cdna(which, 16, 1, lane, i, row, column);
  if (which == 2) *row = 4 * i + lane / 16;
}

/* ---- AVX-512 ---- */

static void dwords(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  (void)lane;
  *row = which == 1 ? i & 3 : 0;
  *column = which == 1 ? i >> 2 : i;
}

static void pairs(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  (void)lane;
  *row = which == 1 ? i & 1 : 0;
  *column = which == 1 ? i >> 1 : i;
}

/* ---- AMX: bytes of a row of a tile, four of each dword ---- */

static void tile_rows(int which, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
  uint32_t m = i >> 6, byte = i & 63;
  (void)lane;
  *row = which == 0 ? m : which == 1 ? 4 * m + (byte & 3) : i >> 4;
  *column = which == 0 ? byte : which == 1 ? byte >> 2 : i & 15;
}

#define AMX(name) {name, 16, 16, 64, 1, {1024, 1024, 256}, tile_rows, AS_INT, TG_I32}
#define DOT4(name) {name, 1, 1, 4, 1, {4, 4, 1}, dwords, AS_INT, TG_I32}
#define PTX(name, k, a, b, place, how, result) {name, 16, 8, k, 32, {a, b, 4}, place, how, result}
#define RDNA3(name, how, result) {"wmma11.16x16x16." name, 16, 16, 16, 32, {16, 16, 8}, rdna3, how, result}
#define RDNA4(name, how, result) {"wmma12.16x16x16." name, 16, 16, 16, 32, {8, 8, 8}, rdna4, how, result}
#define CDNA(name, size, k, ab, place, how, result)                                                                    \
  { "mfma." name, size, size, k, 64, {ab, ab, size * size / 64}, place, how, result }

static const tg_instruction instructions[] = {
    PTX("mma.m16n8k16.f16", 16, 8, 4, m16n8k16_half, AS_FLOAT, TG_F32),
    PTX("mma.m16n8k16.f16.f16", 16, 8, 4, m16n8k16_half, AS_FLOAT, TG_F16),
    PTX("mma.m16n8k16.bf16", 16, 8, 4, m16n8k16_half, AS_FLOAT, TG_F32),
    PTX("mma.m16n8k8.f16", 8, 4, 2, m16n8k8_half, AS_FLOAT, TG_F32),
    PTX("mma.m16n8k8.bf16", 8, 4, 2, m16n8k8_half, AS_FLOAT, TG_F32),
    PTX("mma.m16n8k8.tf32", 8, 4, 2, m16n8k8_tf32, AS_TF32, TG_F32),
    PTX("mma.m16n8k4.tf32", 4, 2, 1, m16n8k4_tf32, AS_TF32, TG_F32),
    PTX("mma.m16n8k32.s8", 32, 16, 8, m16n8k32_byte, AS_INT, TG_I32),
    PTX("mma.m16n8k32.u8", 32, 16, 8, m16n8k32_byte, AS_INT, TG_I32),
    PTX("mma.m16n8k32.u8.s8", 32, 16, 8, m16n8k32_byte, AS_INT, TG_I32),
    PTX("mma.m16n8k16.s8", 16, 8, 4, m16n8k16_byte, AS_INT, TG_I32),
    PTX("mma.m16n8k16.u8", 16, 8, 4, m16n8k16_byte, AS_INT, TG_I32),
    PTX("mma.m16n8k32.e4m3", 32, 16, 8, m16n8k32_byte, AS_FLOAT, TG_F32),
    PTX("mma.m16n8k32.e5m2", 32, 16, 8, m16n8k32_byte, AS_FLOAT, TG_F32),
    RDNA3("f16", AS_FLOAT, TG_F32),
    RDNA3("bf16", AS_FLOAT, TG_F32),
    RDNA3("f16.f16", AS_FLOAT, TG_F16),
    RDNA3("s8", AS_INT, TG_I32),
    RDNA3("u8", AS_INT, TG_I32),
    RDNA4("f16", AS_FLOAT, TG_F32),
    RDNA4("bf16", AS_FLOAT, TG_F32),
    RDNA4("f16.f16", AS_FLOAT, TG_F16),
    RDNA4("s8", AS_INT, TG_I32),
    RDNA4("u8", AS_INT, TG_I32),
    RDNA4("e4m3", AS_FLOAT, TG_F32),
    RDNA4("e5m2", AS_FLOAT, TG_F32),
    CDNA("16x16x16.f16", 16, 16, 4, cdna16x16, AS_FLOAT, TG_F32),
    CDNA("32x32x8.f16", 32, 8, 4, cdna32x8, AS_FLOAT, TG_F32),
    CDNA("16x16x16.bf16", 16, 16, 4, cdna16x16, AS_FLOAT, TG_F32),
    CDNA("32x32x8.bf16", 32, 8, 4, cdna32x8, AS_FLOAT, TG_F32),
    CDNA("16x16x4.f32", 16, 4, 1, cdna16x4, AS_FLOAT, TG_F32),
    CDNA("32x32x2.f32", 32, 2, 1, cdna32x2, AS_FLOAT, TG_F32),
    CDNA("16x16x4.f64", 16, 4, 1, cdna_f64, AS_F64, TG_F64),
    CDNA("16x16x16.s8", 16, 16, 4, cdna16x16, AS_INT, TG_I32),
    CDNA("32x32x8.s8", 32, 8, 4, cdna32x8, AS_INT, TG_I32),
    CDNA("16x16x32.s8", 16, 32, 8, cdna16x32, AS_INT, TG_I32),
    CDNA("32x32x16.s8", 32, 16, 8, cdna32x16, AS_INT, TG_I32),
    CDNA("16x16x32.e4m3fnuz", 16, 32, 8, cdna16x32, AS_E4M3FNUZ, TG_F32),
    CDNA("32x32x16.e4m3fnuz", 32, 16, 8, cdna32x16, AS_E4M3FNUZ, TG_F32),
    CDNA("16x16x32.e5m2fnuz", 16, 32, 8, cdna16x32, AS_E5M2FNUZ, TG_F32),
    CDNA("32x32x16.e5m2fnuz", 32, 16, 8, cdna32x16, AS_E5M2FNUZ, TG_F32),
    {"vpdpbusd", 1, 16, 4, 1, {4, 64, 16}, dwords, AS_INT, TG_I32},
    {"vdpbf16ps", 1, 16, 2, 1, {2, 32, 16}, pairs, AS_NORMAL, TG_F32},
    DOT4("dp4a.s8"),
    DOT4("dp4a.u8"),
    DOT4("dp4a.u8.s8"),
    DOT4("v_dot4_i32_i8"),
    DOT4("v_dot4_u32_u8"),
    DOT4("v_dot4_i32_iu8.s8"),
    DOT4("v_dot4_i32_iu8.u8.s8"),
    AMX("tdpbssd"),
    AMX("tdpbsud"),
    AMX("tdpbusd"),
    AMX("tdpbuud"),
};

const tg_instruction *tg_instruction_find(const char *name) {
  for (uint32_t i = 0; i < TG_COUNT(instructions); i++)
    if (!strcmp(instructions[i].name, name)) return &instructions[i];
  return NULL;
}

uint32_t tg_instruction_lanes(const tg_instruction *x) { return x->lanes; }
uint32_t tg_instruction_registers(const tg_instruction *x, int which) { return x->registers[which]; }

void tg_instruction_element(const tg_instruction *x, int which, uint32_t lane, uint32_t reg, uint32_t *row,
                            uint32_t *column) {
  x->place(which, lane, reg, row, column);
}

/* ---- running ---- */

enum { LARGEST = 64 };   /* rows, columns, k */

static double fnuz(uint32_t byte, uint32_t mantissa, int bias) {
  uint32_t low = byte & ((1u << mantissa) - 1), exponent = (byte & 127) >> mantissa;
  if (byte == 128) return NAN;
  double v =
      exponent ? ldexp(1 + ldexp(low, -(int)mantissa), (int)exponent - bias) : ldexp(low, 1 - bias - (int)mantissa);
  return byte & 128 ? -v : v;
}

static double as_double(const tg_instruction *x, tg_value v) {
  float f;
  uint32_t bits;
  switch (x->how) {
  case AS_NORMAL: return fabs(v.f) < 0x1p-126 ? 0 : v.f;
  case AS_TF32:   /* the low 13 bits are ignored */
    f = (float)v.f;
    memcpy(&bits, &f, 4);
    bits &= ~(uint32_t)0x1fff;
    memcpy(&f, &bits, 4);
    return f;
  case AS_E4M3FNUZ: return fnuz((uint32_t)v.i, 3, 8);
  case AS_E5M2FNUZ: return fnuz((uint32_t)v.i, 2, 16);
  default: return v.f;
  }
}

static tg_value element(const tg_instruction *x, const tg_value *a, const tg_value *b, tg_value c) {
  tg_value d = c;
  if (x->how == AS_NORMAL) d.f = as_double(x, c);
  for (uint32_t k = 0; k < x->k; k++) {
    if (x->how == AS_INT) d.i += a[k].i * b[k * LARGEST].i;
    else if (x->how == AS_F64) d.f = fma(a[k].f, b[k * LARGEST].f, d.f);
    else d.f += as_double(x, a[k]) * as_double(x, b[k * LARGEST]);
  }
  if (x->how == AS_INT) d.i = tg_wrap(x->result, d.i);
  else d.f = tg_round_to(x->result, d.f);
  if (x->how == AS_NORMAL) d.f = as_double(x, d);
  return d;
}

const char *tg_instruction_run(const tg_instruction *x, tg_value *const operand[3], tg_value *result) {
  tg_value matrix[3][LARGEST * LARGEST];
  uint8_t held[LARGEST * LARGEST];
  uint32_t row, column;
  for (int w = 0; w < 3; w++) {
    memset(held, 0, sizeof held);
    for (uint32_t lane = 0; lane < x->lanes; lane++)
      for (uint32_t r = 0; r < x->registers[w]; r++) {
        tg_value v = operand[w][lane * x->registers[w] + r], *at;
        x->place(w, lane, r, &row, &column);
        at = &matrix[w][row * LARGEST + column];
        if (held[row * LARGEST + column]++ && memcmp(at, &v, x->how == AS_INT ? sizeof v.i : sizeof v.f))
          return "lanes that repeat each other hold different values";
        *at = v;
      }
  }
  for (uint32_t lane = 0; lane < x->lanes; lane++)
    for (uint32_t r = 0; r < x->registers[2]; r++) {
      x->place(2, lane, r, &row, &column);
      result[lane * x->registers[2] + r] =
          element(x, &matrix[0][row * LARGEST], &matrix[1][column], matrix[2][row * LARGEST + column]);
    }
  return NULL;
}
