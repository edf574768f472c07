/* SPDX-License-Identifier: MIT
 * Accesses whose lanes are digits of several subscripts, as a copy into another layout has after `fuse` and `lane`. For
 * example B[k + iota % 4, j + iota / 4] of 64 lanes reads four runs of sixteen contiguous elements each. Each run is
 * loaded as a vector; the vectors are concatenated and permuted by one shuffle. A gather would be one load per lane.
 * On a device stores go by runs too: an accumulator's registers lie side by side in pairs.
 * Other lanes that lie near one another, as x[k + iota / 4 * 4 + 3], are picked out of two vectors. */
#include <stdlib.h>
#include "jit/emit_address.h"

/* FEWEST: elements of the shortest run that is worth a load of its own. A device has no gather to compare with: there
 * two elements in one load are better than two loads, as in the fragments of matrix instructions. */
enum { FEWEST = 4, FEWEST_ON_DEVICE = 2, MOST_FACTORS = 2, MOST_LANES = 64 };

/* The element that a lane reads: at `offset`, plus factor[i] times the i-th scalar. */
typedef struct { uint32_t lane; int64_t factor[MOST_FACTORS], offset; } element;

static int by_place(const void *x, const void *y) {
  const element *a = x, *b = y;
  for (int i = 0; i < MOST_FACTORS; i++)
    if (a->factor[i] != b->factor[i]) return a->factor[i] < b->factor[i] ? -1 : 1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The value of u in lane l; false: it is not known. */
static bool value_at(const tg_uop *u, uint32_t l, int64_t *v) {
  int64_t a, b;
  if (u->op == TG_OP_CONST || u->op == TG_OP_IOTA) return *v = u->op == TG_OP_CONST ? u->arg : l, true;
  /* from one integer type to another: lane numbers are small enough for both */
  if (u->op == TG_OP_CAST && tg_is_int(u->src[0]->type)) return value_at(u->src[0], l, v);
  if (tg_ops[u->op].arity != 2 || !value_at(u->src[0], l, &a) || !value_at(u->src[1], l, &b) || a < 0 || b < 0 ||
      a > INT32_MAX || b > INT32_MAX)
    return false;
  switch (u->op) {
  case TG_OP_ADD: return *v = a + b, true;
  case TG_OP_MUL: return !__builtin_mul_overflow(a, b, v);
  case TG_OP_AND: return *v = a & b, true;
  case TG_OP_SHR: return b < 31 && (*v = a >> b, true);
  case TG_OP_CDIV: return b && (*v = a / b, true);
  case TG_OP_CMOD: return b && (*v = a % b, true);
  default: return false;
  }
}

/* The elements that the lanes read, in the order of their addresses. factor: the scalars that vectors are multiplied
 * by. */
static bool find_elements(const sum *s, uint32_t lanes, element *of, const tg_uop **factor) {
  uint32_t factors = 0;
  memset(of, 0, lanes * sizeof *of);
  for (uint32_t l = 0; l < lanes; l++) of[l] = (element){.lane = l, .offset = s->iota * l};
  for (uint32_t i = 0; i < s->vectors_n; i++) {
    const tg_uop *u = s->vectors[i].u, *digits = u, *times = NULL;
    int64_t v, scaled;
    if (u->op == TG_OP_MUL && !value_at(u, 0, &v)) {
      times = u->src[0]->lanes == 1 ? u->src[0] : u->src[1];
      digits = u->src[u->src[0]->lanes == 1];
      if (times->lanes > 1 || factors == MOST_FACTORS) return false;
      factor[factors++] = times;
    }
    for (uint32_t l = 0; l < lanes; l++)
      if (!value_at(digits, l, &v) || __builtin_mul_overflow(v, s->vectors[i].scale, &scaled)) return false;
      else if (times) of[l].factor[factors - 1] = scaled;
      else if (__builtin_add_overflow(of[l].offset, scaled, &of[l].offset)) return false;
  }
  qsort(of, lanes, sizeof *of, by_place);
  return true;
}

static bool follows(const element *a, const element *b) {
  return !memcmp(a->factor, b->factor, sizeof a->factor) && b->offset == a->offset + 1;
}

/* The length of the runs, if they have one length, which is a power of two. 0: the load is a gather. */
static uint32_t length_of(const element *of, uint32_t lanes, uint32_t fewest) {
  uint32_t n = 1;
  while (n < lanes && follows(&of[n - 1], &of[n])) n++;
  if (n < fewest || n & (n - 1) || n == lanes || lanes % n) return 0;
  for (uint32_t i = 1; i < lanes; i++)
    if (follows(&of[i - 1], &of[i]) != (i % n != 0)) return 0;
  return n;
}

static LLVMValueRef pick(tg_emitter *e, LLVMValueRef a, LLVMValueRef b, const uint32_t *at, uint32_t n) {
  LLVMValueRef mask[2 * MOST_LANES];
  for (uint32_t i = 0; i < n; i++) mask[i] = LLVMConstInt(e->integer[32], at[i], 0);
  return LLVMBuildShuffleVector(e->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(mask, n), "");
}

/* The runs of an access: `count` of `n` elements each. */
typedef struct { element of[MOST_LANES]; const tg_uop *factor[MOST_FACTORS]; uint32_t n, count; sum s; } runs;

static bool find_lanes(tg_emitter *e, const tg_uop *u, uint32_t lanes, runs *r) {
  *r = (runs){.n = 0};
  if (lanes > MOST_LANES || lanes & (lanes - 1) || u->src[1]->lanes != lanes) return false;
  tg_emit_take_apart(e, &r->s, u->src[1]);
  return find_elements(&r->s, lanes, r->of, r->factor) && r->s.scalars_n + MOST_FACTORS <= MAX_TERMS;
}

static bool find_runs(tg_emitter *e, const tg_uop *u, uint32_t lanes, runs *r) {
  if (!find_lanes(e, u, lanes, r)) return false;
  r->n = length_of(r->of, lanes, e->device ? FEWEST_ON_DEVICE : FEWEST);
  r->count = r->n ? lanes / r->n : 0;
  return r->n;
}

/* How far apart the first and the last element are, that included, if no scalar moves lanes against one another and two
 * vectors hold as many. 0: else. */
static uint32_t span_of(const runs *r, uint32_t lanes) {
  for (uint32_t l = 0; l < lanes; l++)
    for (int i = 0; i < MOST_FACTORS; i++)
      if (r->of[l].factor[i]) return 0;
  int64_t span;
  return __builtin_sub_overflow(r->of[lanes - 1].offset, r->of[0].offset, &span) || span < 1 || span >= 2 * lanes
             ? 0
             : (uint32_t)span + 1;
}

/* The address of run g, as terms. */
static sum run_at(tg_emitter *e, const runs *r, uint32_t g) {
  const element *first = &r->of[g * r->n];
  sum own = r->s;
  own.vectors_n = 0;
  own.iota = 0;
  own.constant = (int64_t)((uint64_t)r->s.constant + (uint64_t)first->offset);
  for (int i = 0; i < MOST_FACTORS; i++)
    if (first->factor[i]) tg_emit_add_term(e, &own, r->factor[i], first->factor[i]);
  return own;
}

static LLVMValueRef run_pointer(tg_emitter *e, const tg_uop *u, const sum *own, uint32_t *align) {
  const tg_uop *define = tg_define_of(u->src[0]);
  uint32_t bytes = (uint32_t)tg_type_bytes(define->type), buffer = (uint32_t)define->arg;
  *align = e->device ? tg_emit_device_alignment(e, buffer, own, bytes, bytes) : bytes;
  return tg_emit_scalar_pointer(e, buffer, own, u->src[1]->type, tg_emit_memory_type(e, define->type, 1), bytes);
}

uint32_t tg_emit_runs_alignment(tg_emitter *e, const tg_uop *u, uint32_t lanes, uint32_t widest) {
  runs *r = tg_new(&e->j->env, runs, 1);
  uint32_t bytes = (uint32_t)tg_type_bytes(tg_define_of(u->src[0])->type), least = widest;
  if (!find_runs(e, u, lanes, r)) return bytes;
  for (uint32_t g = 0; g < r->count; g++) {
    sum own = run_at(e, r, g);
    uint32_t align = tg_emit_known_alignment(e, &own, bytes, widest);
    least = align < least ? align : least;
  }
  return least;
}

/* Lanes in any order that lie within two vectors, as those of one channel of four that all four multiply: two loads,
 * from the first element and up to the last, and a shuffle. Nothing outside is touched. */
static LLVMValueRef within_two(tg_emitter *e, const tg_uop *u, const runs *r) {
  uint32_t lanes = u->lanes, span = span_of(r, lanes), wide = 1, at[MOST_LANES], align;
  if (!span || e->device) return NULL;
  while (2 * wide <= span && 2 * wide <= lanes) wide *= 2;
  LLVMTypeRef type = tg_emit_memory_type(e, tg_define_of(u->src[0])->type, wide);
  LLVMValueRef half[2];
  for (uint32_t i = 0; i < 2; i++) {
    sum own = run_at(e, r, 0);
    own.constant = (int64_t)((uint64_t)own.constant + (i ? span - wide : 0));
    LLVMValueRef p = run_pointer(e, u, &own, &align);
    LLVMSetAlignment(half[i] = LLVMBuildLoad2(e->b, type, p, ""), align);
  }
  for (uint32_t l = 0; l < lanes; l++) {
    uint32_t offset = (uint32_t)(r->of[l].offset - r->of[0].offset);
    at[r->of[l].lane] = offset < wide ? offset : wide + offset - (span - wide);
  }
  return pick(e, half[0], half[1], at, lanes);
}

LLVMValueRef tg_emit_runs(tg_emitter *e, const tg_uop *u, LLVMValueRef mask, LLVMValueRef other) {
  runs *r = tg_new(&e->j->env, runs, 1);
  LLVMValueRef part[MOST_LANES];
  uint32_t at[MOST_LANES], lanes = u->lanes, align;
  if (e->device && mask) return NULL;
  if (!find_runs(e, u, lanes, r)) return mask || !find_lanes(e, u, lanes, r) ? NULL : within_two(e, u, r);
  LLVMTypeRef type = tg_emit_memory_type(e, tg_define_of(u->src[0])->type, r->n);
  for (uint32_t g = 0; g < r->count; g++) {
    sum own = run_at(e, r, g);
    LLVMValueRef p = run_pointer(e, u, &own, &align);
    for (uint32_t i = 0; i < r->n; i++) at[i] = r->of[g * r->n + i].lane;
    if (mask)
      part[g] = tg_emit_masked_load(e, p, pick(e, mask, NULL, at, r->n),
                                    LLVMIsNull(other) ? LLVMConstNull(type) : pick(e, other, NULL, at, r->n), align);
    else LLVMSetAlignment(part[g] = LLVMBuildLoad2(e->b, type, p, ""), align);
  }
  for (uint32_t parts = r->count, wide = 2 * r->n; parts > 1; parts /= 2, wide *= 2) {
    for (uint32_t i = 0; i < wide; i++) at[i] = i;
    for (uint32_t g = 0; g < parts / 2; g++) part[g] = pick(e, part[2 * g], part[2 * g + 1], at, wide);
  }
  for (uint32_t i = 0; i < lanes; i++) at[r->of[i].lane] = i;
  return pick(e, part[0], NULL, at, lanes);
}

bool tg_emit_store_runs(tg_emitter *e, const tg_uop *u, LLVMValueRef value, uint32_t lanes) {
  runs *r = tg_new(&e->j->env, runs, 1);
  uint32_t at[MOST_LANES], align;
  if (!e->device || !find_runs(e, u, lanes, r)) return false;
  for (uint32_t g = 0; g < r->count; g++) {
    sum own = run_at(e, r, g);
    LLVMValueRef p = run_pointer(e, u, &own, &align);
    for (uint32_t i = 0; i < r->n; i++) at[i] = r->of[g * r->n + i].lane;
    LLVMSetAlignment(LLVMBuildStore(e->b, pick(e, value, NULL, at, r->n), p), align);
  }
  return true;
}
