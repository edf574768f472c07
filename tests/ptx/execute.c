/* SPDX-License-Identifier: MIT
 * Arithmetic, lane by lane (PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions", "Comparison and
 * Selection Instructions", "Logic and Shift Instructions"). A register holds 64 bits; an instruction reads the low ones
 * that its type has, and writes no others. */
#include <math.h>
#include <string.h>
#include "machine.h"

typedef struct { ptx_machine *m; const ptx_instruction *i; ptx_type t; uint32_t bits; uint64_t v[4]; } op;

static float single(uint64_t v) {
  uint32_t b = (uint32_t)v;
  float f;
  memcpy(&f, &b, 4);
  return f;
}
static double twice(uint64_t v) {
  double f;
  memcpy(&f, &v, 8);
  return f;
}
/* "Floating Point Instructions": a NaN that an instruction makes of f32 is 0x7fffffff. */
static uint64_t of_single(float f) {
  uint32_t b = 0x7fffffff;
  if (f == f) memcpy(&b, &f, 4);
  return b;
}
static uint64_t of_twice(double f) {
  uint64_t b = 0x7fffffffffffffff;
  if (f == f) memcpy(&b, &f, 8);
  return b;
}

_Noreturn static void no_meaning(const op *o) { ptx_fault(o->m, "this instruction has no meaning for its types here"); }

static int64_t sign(const op *o, int k) { return ptx_extend(o->v[k], o->bits); }
static uint64_t plain(const op *o, int k) { return o->v[k] & ptx_mask(o->bits); }

/* ---- floats ---- */

/* The sum of an exact product and c, rounded once to a 16-bit type: what double precision loses is kept as a hint. */
static uint64_t small_fma(ptx_type t, double a, double b, double c) {
  double product = a * b, sum = product + c, part = sum - product, lost = (product - (sum - part)) + (c - part);
  int hint = lost == 0 || lost != lost ? 0 : (lost > 0) == (sum > 0) ? 1 : -1;
  return ptx_round(t, sum, isinf(sum) ? 0 : hint);
}

static double extreme(const op *o, double a, double b) {
  bool less = a < b || (a == b && signbit(a) && !signbit(b));
  if (a != a || b != b) return o->i->field[FIELD_NAN] ? (double)NAN : a != a ? b : a;
  return (o->i->op == PTX_MIN) == less ? a : b;
}

static uint64_t small_float(const op *o) {
  double a = ptx_to_double(o->t, o->v[0]), b = ptx_to_double(o->t, o->v[1]);
  switch (o->i->op) {
  case PTX_ADD: return ptx_round(o->t, a + b, 0);
  case PTX_SUB: return ptx_round(o->t, a - b, 0);
  case PTX_MUL: return ptx_round(o->t, a * b, 0);
  case PTX_FMA: return small_fma(o->t, a, b, ptx_to_double(o->t, o->v[2]));
  case PTX_NEG: return plain(o, 0) ^ 0x8000;
  case PTX_ABS: return plain(o, 0) & 0x7fff;
  case PTX_MIN:
  case PTX_MAX: return ptx_round(o->t, extreme(o, a, b), 0);
  default: no_meaning(o);
  }
}

/* "ex2.approx", "rcp.approx", "rsqrt.approx", "tanh.approx": off by what each may be, up or down or not at all by the bits
 * of the operand, so that no program relies on more. 2^0 is exact. */
static uint64_t approximate(const op *o, float a) {
  double x = (double)(o->i->field[FIELD_FTZ] && fabsf(a) < 0x1p-126f ? copysignf(0, a) : a);
  double exact = o->i->op == PTX_EX2 ? exp2(x) : o->i->op == PTX_LG2 ? log2(x) : o->i->op == PTX_RSQRT ? 1 / sqrt(x)
                 : o->i->op == PTX_TANH ? tanh(x) : 1 / x;
  double most = o->i->op == PTX_TANH ? 0x1p-11 : o->i->op == PTX_RCP ? 0x1p-24 : 0x1p-23;
  uint64_t h = plain(o, 0) * 0x9e3779b97f4a7c15u >> 62;
  double off = x == 0 ? 0 : h == 0 ? most : h == 1 ? -most : 0;
  float v = (float)(exact + exact * off);
  if (o->i->field[FIELD_FTZ] && fabsf(v) < 0x1p-126f) v = copysignf(0, v);
  return of_single(v);
}

static uint64_t single_float(const op *o) {
  float a = single(o->v[0]), b = single(o->v[1]);
  switch (o->i->op) {
  case PTX_ADD: return of_single(a + b);
  case PTX_SUB: return of_single(a - b);
  case PTX_MUL: return of_single(a * b);
  case PTX_FMA: return of_single(fmaf(a, b, single(o->v[2])));
  case PTX_DIV: return of_single(a / b);
  case PTX_SQRT: return of_single(sqrtf(a));
  case PTX_RCP: return o->i->field[FIELD_APPROX] ? approximate(o, a) : of_single(1 / a);
  case PTX_NEG: return plain(o, 0) ^ 0x80000000u;
  case PTX_ABS: return plain(o, 0) & 0x7fffffffu;
  case PTX_MIN:
  case PTX_MAX: return of_single((float)extreme(o, a, b));
  case PTX_EX2:
  case PTX_LG2:
  case PTX_RSQRT:
  case PTX_TANH: return approximate(o, a);
  default: no_meaning(o);
  }
}

static uint64_t twice_float(const op *o) {
  double a = twice(o->v[0]), b = twice(o->v[1]);
  switch (o->i->op) {
  case PTX_ADD: return of_twice(a + b);
  case PTX_SUB: return of_twice(a - b);
  case PTX_MUL: return of_twice(a * b);
  case PTX_FMA: return of_twice(fma(a, b, twice(o->v[2])));
  case PTX_DIV: return of_twice(a / b);
  case PTX_SQRT: return of_twice(sqrt(a));
  case PTX_RCP: return of_twice(1 / a);
  case PTX_NEG: return o->v[0] ^ (uint64_t)1 << 63;
  case PTX_ABS: return o->v[0] & ~((uint64_t)1 << 63);
  case PTX_MIN:
  case PTX_MAX: return of_twice(extreme(o, a, b));
  default: no_meaning(o);
  }
}

/* ---- integers ---- */

static uint64_t product(const op *o) {
  uint32_t part = o->i->field[FIELD_PART], shift = part == PART_HI ? o->bits : 0;
  __int128 p = ptx_is_signed(o->t) ? (__int128)sign(o, 0) * sign(o, 1) : (__int128)((unsigned __int128)plain(o, 0) * plain(o, 1));
  return (uint64_t)((unsigned __int128)p >> shift) & ptx_mask(part == PART_WIDE ? 2 * o->bits : o->bits);
}

/* The addend of mad.wide is as wide as the product. */
static uint64_t product_and_sum(const op *o) {
  bool wide = o->i->field[FIELD_PART] == PART_WIDE;
  return (product(o) + o->v[2]) & ptx_mask(wide ? 2 * o->bits : o->bits);
}

/* A quotient by 0 is "unspecified" ("div", "rem"): something that no correct program looks at. */
static uint64_t quotient(const op *o) {
  uint64_t b = plain(o, 1);
  bool rest = o->i->op == PTX_REM;
  if (!b) return ptx_random(o->m) & ptx_mask(o->bits);
  if (!ptx_is_signed(o->t)) return rest ? plain(o, 0) % b : plain(o, 0) / b;
  if (sign(o, 1) == -1) return rest ? 0 : 0 - o->v[0];
  return (uint64_t)(rest ? sign(o, 0) % sign(o, 1) : sign(o, 0) / sign(o, 1));
}

/* "shl", "shr": a shift by more than the width counts as by the width; the amount is 32 bits wide. */
static uint64_t shifted(const op *o) {
  uint32_t by = (uint32_t)o->v[1];
  if (by > o->bits) by = o->bits;
  if (o->i->op == PTX_SHL) return by == 64 ? 0 : o->v[0] << by;
  if (ptx_is_signed(o->t)) return (uint64_t)(sign(o, 0) >> (by > 63 ? 63 : by));
  return by == 64 ? 0 : plain(o, 0) >> by;
}

static uint64_t funnel(const op *o) {
  uint32_t by = (uint32_t)o->v[2];
  uint64_t both = (o->v[1] & 0xffffffffu) << 32 | (o->v[0] & 0xffffffffu);
  if (o->i->field[FIELD_WRAP] == WRAP_WRAP) by &= 31;
  else if (by > 32) by = 32;
  return (o->i->field[FIELD_SIDE] == 1 ? (by ? both << by : both) >> 32 : both >> by) & 0xffffffffu;
}

/* "bfe": the sign is that of the topmost bit of the field, or of the value where the field ends beyond it. */
static uint64_t extracted(const op *o) {
  uint32_t at = o->v[1] & 0xff, n = o->v[2] & 0xff, top = at + n - 1 < o->bits ? at + n - 1 : o->bits - 1;
  uint64_t v = at < 64 ? plain(o, 0) >> at : 0, fill = ptx_is_signed(o->t) && n && plain(o, 0) >> top & 1 ? ~(uint64_t)0 : 0;
  uint32_t there = at < o->bits ? (n < o->bits - at ? n : o->bits - at) : 0;
  return n ? ((v & ptx_mask(there)) | (there < 64 ? fill << there : 0)) & ptx_mask(o->bits) : 0;
}

static uint64_t inserted(const op *o) {
  uint32_t at = o->v[2] & 0xff, n = o->v[3] & 0xff;
  uint64_t mask = at < 64 ? ptx_mask(n) << at : 0;
  return ((o->v[1] & ~mask) | (at < 64 ? o->v[0] << at & mask : 0)) & ptx_mask(o->bits);
}

/* "prmt", its default mode: each digit of the selector picks a byte of b:a; its highest bit repeats the byte's sign. In
 * mode f4e (forward 4 extract) the four bytes from the one on that the selector's lowest two bits say. */
static uint64_t permuted(const op *o) {
  uint64_t both = (o->v[1] & 0xffffffffu) << 32 | (o->v[0] & 0xffffffffu), d = 0;
  if (o->i->field[FIELD_HOW] == HOW_F4E) return both >> 8 * (o->v[2] & 3) & 0xffffffffu;
  for (uint32_t k = 0; k < 4; k++) {
    uint32_t digit = o->v[2] >> 4 * k & 15, byte = both >> 8 * (digit & 7) & 255;
    if (digit & 8) byte = byte & 128 ? 255 : 0;
    d |= (uint64_t)byte << 8 * k;
  }
  return d;
}

/* "dp4a": the sum of c and the products of the four bytes of a and b, each of the sign that its type says; it wraps. */
static uint64_t four_products(const op *o) {
  int64_t sum = (int64_t)o->v[2];
  for (uint32_t k = 0; k < 32; k += 8) {
    uint64_t a = o->v[0] >> k & 255, b = o->v[1] >> k & 255;
    sum += (o->i->type[0] == PTX_S32 ? ptx_extend(a, 8) : (int64_t)a) * (o->i->type[1] == PTX_S32 ? ptx_extend(b, 8) : (int64_t)b);
  }
  return (uint64_t)sum & 0xffffffffu;
}

/* "lop3": bit 4 a + 2 b + c of the table. */
static uint64_t by_table(const op *o) {
  uint64_t d = 0;
  for (uint32_t k = 0; k < 32; k++) d |= (o->v[3] >> ((o->v[0] >> k & 1) << 2 | (o->v[1] >> k & 1) << 1 | (o->v[2] >> k & 1)) & 1) << k;
  return d;
}

static uint64_t reversed(const op *o) {
  uint64_t d = 0;
  for (uint32_t k = 0; k < o->bits; k++) d |= (o->v[0] >> k & 1) << (o->bits - 1 - k);
  return d;
}

static uint64_t integer_extreme(const op *o) {
  bool less = ptx_is_signed(o->t) ? sign(o, 0) < sign(o, 1) : plain(o, 0) < plain(o, 1);
  uint64_t v = o->v[(o->i->op == PTX_MIN) == less ? 0 : 1];
  return o->i->field[FIELD_RELU] && ptx_extend(v, o->bits) < 0 ? 0 : v;
}

static uint64_t integer(const op *o) {
  switch (o->i->op) {
  case PTX_ADD: return o->v[0] + o->v[1];
  case PTX_SUB: return o->v[0] - o->v[1];
  case PTX_MUL: return product(o);
  case PTX_MAD: return product_and_sum(o);
  case PTX_DIV:
  case PTX_REM: return quotient(o);
  case PTX_MIN:
  case PTX_MAX: return integer_extreme(o);
  case PTX_NEG: return 0 - o->v[0];
  case PTX_ABS: return sign(o, 0) < 0 ? 0 - o->v[0] : o->v[0];
  case PTX_AND: return o->v[0] & o->v[1];
  case PTX_OR: return o->v[0] | o->v[1];
  case PTX_XOR: return o->v[0] ^ o->v[1];
  case PTX_NOT: return ~o->v[0];
  case PTX_SHL:
  case PTX_SHR: return shifted(o);
  case PTX_SHF: return funnel(o);
  case PTX_BFE: return extracted(o);
  case PTX_BFI: return inserted(o);
  case PTX_PRMT: return permuted(o);
  case PTX_LOP3: return by_table(o);
  case PTX_DP4A: return four_products(o);
  case PTX_BREV: return reversed(o);
  case PTX_POPC: return (uint64_t)__builtin_popcountll(plain(o, 0));
  case PTX_CLZ: return plain(o, 0) ? (uint64_t)(__builtin_clzll(plain(o, 0)) - (int)(64 - o->bits)) : o->bits;
  default: no_meaning(o);
  }
}

/* ---- comparisons, moves ---- */

static bool float_compare(const op *o) {
  double a = ptx_to_double(o->t, o->v[0]), b = ptx_to_double(o->t, o->v[1]);
  bool apart = a != a || b != b;
  switch (o->i->field[FIELD_COMPARE]) {
  case COMPARE_LT: return a < b;
  case COMPARE_LE: return a <= b;
  case COMPARE_GT: return a > b;
  case COMPARE_GE: return a >= b;
  case COMPARE_EQ: return a == b;
  case COMPARE_NE: return !apart && a != b;
  case COMPARE_LTU: return apart || a < b;
  case COMPARE_LEU: return apart || a <= b;
  case COMPARE_GTU: return apart || a > b;
  case COMPARE_GEU: return apart || a >= b;
  case COMPARE_EQU: return apart || a == b;
  case COMPARE_NEU: return apart || a != b;
  case COMPARE_NUM: return !apart;
  case COMPARE_NAN: return apart;
  default: no_meaning(o);
  }
}

static bool compare(const op *o) {
  if (ptx_is_float(o->t)) return float_compare(o);
  bool equal = plain(o, 0) == plain(o, 1), less = ptx_is_signed(o->t) ? sign(o, 0) < sign(o, 1) : plain(o, 0) < plain(o, 1);
  switch (o->i->field[FIELD_COMPARE]) {
  case COMPARE_LT: return less;
  case COMPARE_LE: return less || equal;
  case COMPARE_GT: return !less && !equal;
  case COMPARE_GE: return !less;
  case COMPARE_EQ: return equal;
  case COMPARE_NE: return !equal;
  default: no_meaning(o);
  }
}

static op half_of(const op *o, int high) {
  op h = *o;
  h.t = o->t == PTX_F16X2 ? PTX_F16 : o->t == PTX_BF16X2 ? PTX_BF16 : o->t == PTX_S16X2 ? PTX_S16 : PTX_U16;
  h.bits = 16;
  for (int k = 0; k < 3; k++) h.v[k] = o->v[k] >> 16 * high & 0xffff;
  return h;
}

/* setp.f16x2 p|q: p of the low halves, q of the high ones. */
static void compare_pair(const op *o, uint64_t *low, uint64_t *high) {
  op l = half_of(o, 0), h = half_of(o, 1);
  *low = compare(&l);
  *high = compare(&h);
}

/* mov of one value, or between a register and the parts of it. */
static void move(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  const ptx_operand *d = &i->operand[0], *s = &i->operand[1];
  uint32_t bits = ptx_bits[i->type[0]], parts = d->n > s->n ? d->n : s->n, each = bits / parts;
  if (d->n > 1 && s->n > 1) ptx_fault(m, "operands that do not fit");
  PTX_EACH(on, lane) {
    uint64_t v = 0;
    for (uint32_t k = 0; k < s->n; k++) v |= (ptx_row(m, w, s, k)[lane] & ptx_mask(s->n > 1 ? each : bits)) << (s->n > 1 ? each * k : 0);
    for (uint32_t k = 0; k < d->n; k++) ptx_row(m, w, d, k)[lane] = d->n > 1 ? v >> each * k & ptx_mask(each) : v;
  }
}

static uint64_t result_of(const op *o) {
  switch (o->t) {
  case PTX_F16:
  case PTX_BF16: return small_float(o);
  case PTX_F32: return single_float(o);
  case PTX_F64: return twice_float(o);
  case PTX_F16X2:
  case PTX_BF16X2:
  case PTX_U16X2:
  case PTX_S16X2: {
    op low = half_of(o, 0), high = half_of(o, 1);
    return low.t >= PTX_F16 ? small_float(&low) | small_float(&high) << 16 : (integer(&low) & 0xffff) | (integer(&high) & 0xffff) << 16;
  }
  default: return integer(o);
  }
}

void ptx_execute(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  const uint64_t *row[4] = {0};
  switch (i->op) {
  case PTX_LD:
  case PTX_ST:
  case PTX_ATOM:
  case PTX_RED: ptx_execute_memory(m, w, i, on); return;
  case PTX_CP: ptx_execute_copy(m, w, i, on); return;
  case PTX_CVT: ptx_execute_cvt(m, w, i, on); return;
  case PTX_MOV:
  case PTX_CVTA: move(m, w, i, on); return;
  default: break;
  }
  op o = {.m = m, .i = i, .t = i->type[0], .bits = ptx_bits[i->type[0]]};
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0);
  uint32_t n = i->operands - 1u, wide = i->op == PTX_MUL || i->op == PTX_MAD ? 2 : 1;
  m->lane = (uint32_t)__builtin_ctz(on);
  bool pair = i->op == PTX_SETP && ptx_is_pair(o.t);
  if (!i->types || i->operands < 2 || i->operand[0].n != 1u + pair) no_meaning(&o);
  for (uint32_t k = 0; k < n; k++) row[k] = ptx_row(m, w, &i->operand[k + 1], 0);
  PTX_EACH(on, lane) {
    for (uint32_t k = 0; k < n; k++) o.v[k] = row[k][lane];
    if (i->op == PTX_SETP && pair) compare_pair(&o, &to[lane], &ptx_row(m, w, &i->operand[0], 1)[lane]);
    else if (i->op == PTX_SETP) to[lane] = compare(&o);
    else if (i->op == PTX_SELP) to[lane] = o.v[o.v[2] & 1 ? 0 : 1] & ptx_mask(o.bits);
    else to[lane] = result_of(&o) & ptx_mask(o.bits * wide);
  }
}
