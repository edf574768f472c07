/* SPDX-License-Identifier: MIT
 * Operands of matrix instructions that lie in LOCAL memory, by ldmatrix: one instruction reads up to four 8 x 8
 * matrices of 16-bit elements, each as eight rows of 16 bytes. Lane l says where row l % 8 of matrix l / 8 begins, and
 * receives the pair 2 * (l % 4) of row l / 4 of each matrix; with .trans, of the matrix transposed.
 *
 * A program says only which element each lane holds, by a load whose subscript f(lane, register) is an ordinary
 * expression. It is computed here for every lane and register. If it is what ldmatrix delivers, the load becomes that
 * instruction, and the rows' addresses follow from f:
 *
 *   straight    f(l, r) = f(l & ~3, r of the word's first) + (l % 4) * elements of a word + r in the word
 *               row m, i begins at f(4 i, first register of word m)
 *   transposed  f(l, r) = f(l % 4, r) + l / 4
 *               row m, i begins at f(i / 2, 2 m + i % 2)
 *
 * No layout is asked for: any one, padded or swizzled, that has the rows in whole 16 bytes is found. What the lanes'
 * addresses differ in is a function of the lane's five bits, either a sum or an exclusive or of one number for each
 * bit; it is computed outside of all loops, and loads that differ in a constant share it. */
#include "jit/emit_address.h"
#include "ranges/ranges.h"
#include "target/matrix.h"

enum { LANES = 32, ROW_BYTES = 16, MOST_REGISTERS = 16, MOST_INDEPENDENT = 16, DEEPEST = 48 };

/* A subscript: terms in which lanes and registers do not occur, a constant, and f for every lane and register. */
typedef struct {
  struct { const tg_uop *u; int64_t scale; } term[MOST_INDEPENDENT];
  uint32_t terms;
  int64_t constant;
  int32_t f[LANES][MOST_REGISTERS];
} subscript;

/* Where each lane's row begins, in bytes, besides the terms and the constant. */
typedef struct { int64_t constant; int32_t at[LANES]; bool transposed; } rows;

/* ---- f ---- */

static bool value(const tg_uop *u, const tg_uop *lane, int64_t l, int64_t r, uint32_t depth, int64_t *v) {
  int64_t a, b;
  if (u->op == TG_OP_CONST) return *v = u->arg, true;
  if (u->op == TG_OP_IOTA) return *v = r, true;
  if (u == lane) return *v = l, true;
  if (depth == DEEPEST) return false;
  if (u->op == TG_OP_CAST && tg_is_int(u->type) && tg_is_int(u->src[0]->type))
    return value(u->src[0], lane, l, r, depth + 1, v);
  if (u->n != 2 || !value(u->src[0], lane, l, r, depth + 1, &a) || !value(u->src[1], lane, l, r, depth + 1, &b) ||
      a < 0 || b < 0 || a > INT32_MAX || b > INT32_MAX)
    return false;
  switch (u->op) {
  case TG_OP_ADD: return *v = a + b, true;
  case TG_OP_MUL: return *v = a * b, true;
  case TG_OP_AND: return *v = a & b, true;
  case TG_OP_OR: return *v = a | b, true;
  case TG_OP_XOR: return *v = a ^ b, true;
  case TG_OP_SHR: return b < 31 && (*v = a >> b, true);
  case TG_OP_SHL: return b < 31 && (*v = a << b, true);
  case TG_OP_CDIV: return b && (*v = a / b, true);
  case TG_OP_CMOD: return b && (*v = a % b, true);
  default: return false;
  }
}

static bool add_dependent(subscript *s, const tg_uop *u, const tg_uop *lane, int64_t scale, uint32_t registers) {
  int64_t v;
  for (uint32_t l = 0; l < LANES; l++)
    for (uint32_t r = 0; r < registers; r++) {
      if (!value(u, lane, l, r, 0, &v) || __builtin_mul_overflow(v, scale, &v) || v > INT32_MAX / 64 || v < 0)
        return false;
      s->f[l][r] += (int32_t)v;
      if (s->f[l][r] > INT32_MAX / 64) return false;
    }
  return true;
}

static bool add_independent(subscript *s, const tg_uop *u, int64_t scale) {
  uint32_t i = 0;
  while (i < s->terms && s->term[i].u != u) i++;
  if (i == MOST_INDEPENDENT) return false;
  if (i == s->terms) s->term[s->terms].u = u, s->term[s->terms++].scale = 0;
  s->term[i].scale += scale;
  return true;
}

static bool take_apart(tg_job *j, subscript *s, const tg_uop *u, const tg_uop *lane, int64_t scale, uint32_t registers,
                       uint32_t depth) {
  if (u->op == TG_OP_CONST) return s->constant += scale * u->arg, true;
  if (u->op == TG_OP_ADD && depth < DEEPEST)
    return take_apart(j, s, u->src[0], lane, scale, registers, depth + 1) &&
           take_apart(j, s, u->src[1], lane, scale, registers, depth + 1);
  if (u->op == TG_OP_MUL && u->src[1]->op == TG_OP_CONST && u->src[0]->op == TG_OP_ADD && depth < DEEPEST)
    return take_apart(j, s, u->src[0], lane, scale * u->src[1]->arg, registers, depth + 1);
  if (u->lanes == 1 && !tg_uses(j, u, lane)) return add_independent(s, u, scale);
  return add_dependent(s, u, lane, scale, registers);
}

/* ---- is it a load of matrices? ---- */

static uint32_t bytes_of(const tg_uop *load) { return (uint32_t)tg_type_bytes(load->type); }
static uint32_t words_of(const tg_uop *load) { return load->lanes * bytes_of(load) / 4; }

static bool is_straight(const subscript *s, uint32_t registers, uint32_t word) {
  for (uint32_t l = 0; l < LANES; l++)
    for (uint32_t r = 0; r < registers; r++)
      if (s->f[l][r] != s->f[l & ~3u][r / word * word] + (int32_t)(l % 4 * word + r % word)) return false;
  return true;
}

static bool is_transposed(const subscript *s, uint32_t registers, uint32_t word) {
  for (uint32_t l = 0; l < LANES && word == 2; l++)
    for (uint32_t r = 0; r < registers; r++)
      if (s->f[l][r] != s->f[l % 4][r] + (int32_t)(l / 4)) return false;
  return word == 2;
}

static bool is_aligned(tg_emitter *e, const subscript *s, const rows *r, uint32_t bytes) {
  uint64_t low = (uint64_t)r->constant;
  for (uint32_t i = 0; i < s->terms; i++) {
    tg_bounds b = tg_bounds_of(e->j, s->term[i].u);
    low |= ((uint64_t)b.multiple | (uint64_t)b.offset) * (uint64_t)s->term[i].scale * bytes;
  }
  for (uint32_t l = 0; l < LANES; l++) low |= (uint64_t)r->at[l];
  return low % ROW_BYTES == 0;
}

static bool find_rows(tg_emitter *e, const tg_uop *load, const tg_uop *lane, subscript *s, rows *r) {
  uint32_t bytes = bytes_of(load), word = 4 / bytes, matrices = words_of(load);
  memset(s, 0, sizeof *s);
  if (load->lanes > MOST_REGISTERS || !take_apart(e->j, s, load->src[1], lane, 1, load->lanes, 0)) return false;
  r->transposed = !is_straight(s, load->lanes, word);
  if (r->transposed && !is_transposed(s, load->lanes, word)) return false;
  for (uint32_t l = 0; l < LANES; l++) {   /* where there are fewer matrices, the lanes beyond repeat them */
    uint32_t m = l / 8 % matrices, i = l % 8;
    r->at[l] = (int32_t)bytes * (r->transposed ? s->f[i / 2][2 * m + i % 2] : s->f[4 * i][m * word]);
  }
  r->constant = s->constant * bytes;
  return is_aligned(e, s, r, bytes);
}

/* ---- addresses ---- */

/* What each bit of the lane stands for; joined by + or ^ to `start`. */
typedef struct { int32_t bit[5], start; bool exclusive; } combination;

static bool combine(const rows *r, bool exclusive, combination *c) {
  *c = (combination){.start = r->at[0], .exclusive = exclusive};
  for (uint32_t b = 0; b < 5; b++) c->bit[b] = exclusive ? r->at[1u << b] ^ r->at[0] : r->at[1u << b] - r->at[0];
  for (uint32_t l = 0; l < LANES; l++) {
    int32_t v = c->start;
    for (uint32_t b = 0; b < 5; b++)
      if (l >> b & 1) v = exclusive ? v ^ c->bit[b] : v + c->bit[b];
    if (v != r->at[l]) return false;
  }
  return true;
}

/* The part of the lanes' addresses that is not the same for all; the constant takes what is. */
static LLVMValueRef lane_offset(tg_emitter *e, const tg_uop *lane, combination *c, int64_t *constant, uint32_t *depth) {
  int32_t all = c->exclusive ? 0 : -1;
  for (uint32_t b = 0; b < 5 && c->exclusive; b++) all |= c->bit[b];
  *constant += c->exclusive ? c->start & ~all : c->start;
  c->start = c->exclusive ? c->start & all : 0;
  *depth = tg_emit_depth(e, lane);
  for (uint32_t i = 0; i < e->lane_offsets.n; i++)
    if (e->lane_offsets.data[i].stamp == e->stamp && !memcmp(&e->lane_offsets.data[i].c, c, sizeof *c))
      return e->lane_offsets.data[i].v;
  LLVMValueRef l = tg_emit_get(e, lane, 1), v = NULL;
  LLVMBasicBlockRef here = tg_emit_at(e, *depth);
  LLVMTypeRef type = LLVMTypeOf(l);
  for (uint32_t b = 0; b < 5; b++) {
    if (!c->bit[b]) continue;
    LLVMValueRef x = LLVMBuildLShr(e->b, l, LLVMConstInt(type, b, 0), "");
    x = LLVMBuildAnd(e->b, x, LLVMConstInt(type, 1, 0), "");
    x = LLVMBuildMul(e->b, x, LLVMConstInt(type, (uint64_t)(int64_t)c->bit[b], 1), "");
    v = !v ? x : c->exclusive ? LLVMBuildXor(e->b, v, x, "") : LLVMBuildAdd(e->b, v, x, "");
  }
  LLVMValueRef start = LLVMConstInt(type, (uint64_t)c->start, 0);
  if (c->start) v = v ? LLVMBuildXor(e->b, v, start, "") : start;
  if (v && LLVMGetIntTypeWidth(type) != 32) v = LLVMBuildIntCast2(e->b, v, e->integer[32], 0, "");
  tg_emit_back(e, here);
  tg_push(&e->j->env, &e->lane_offsets, ((emit_lane_offset){.v = v, .stamp = e->stamp}));
  memcpy(&e->lane_offsets.data[e->lane_offsets.n - 1].c, c, sizeof *c);
  return v;
}
_Static_assert(sizeof(combination) == sizeof(((emit_lane_offset *)0)->c), "the key of a lane's offset");

static LLVMValueRef address(tg_emitter *e, const tg_uop *load, const tg_uop *lane, const subscript *s, const rows *r) {
  combination c;
  sum own = {.scalars_n = 0};
  int64_t constant = r->constant;
  uint32_t depth, bytes = bytes_of(load);
  if (!combine(r, true, &c) && !combine(r, false, &c)) return NULL;
  LLVMValueRef by = lane_offset(e, lane, &c, &constant, &depth);
  for (uint32_t i = 0; i < s->terms; i++)
    if (s->term[i].scale) tg_emit_add_term(e, &own, s->term[i].u, s->term[i].scale);
  LLVMValueRef p = tg_emit_scalar_pointer(e, (uint32_t)tg_define_of(load->src[0])->arg, &own, load->src[1]->type,
                                          tg_emit_memory_type(e, load->type, 1), bytes);
  for (uint32_t i = 0; i < s->terms; i++) {
    uint32_t d = tg_emit_depth(e, s->term[i].u);
    depth = d > depth ? d : depth;
  }
  LLVMValueRef q = by ? tg_emit_memo_get(e, p, by) : p;
  if (!q) {
    LLVMBasicBlockRef here = tg_emit_at(e, depth);
    q = LLVMBuildGEP2(e->b, e->integer[8], p, &by, 1, "");
    tg_emit_back(e, here);
    tg_emit_memo_set(e, p, by, q, depth);
  }
  LLVMValueRef k = LLVMConstInt(e->integer[32], (uint64_t)constant, 1);
  return constant ? LLVMBuildGEP2(e->b, e->integer[8], q, &k, 1, "") : q;
}

/* ---- the instruction ---- */

/* A lane that reads by itself reads what it stored by itself, so no barrier stands between: but this instruction hands
 * it what other lanes of the warp stored. */
static void meet(tg_emitter *e, const tg_uop *load) {
  emit_buffer *b = &e->buffers[tg_buffer_ordinal(load->src[0])];
  LLVMValueRef all = LLVMConstInt(e->integer[32], UINT32_MAX, 0);
  if (b->unseen) tg_device_intrinsic(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
  b->unseen = false;
}

/* The words of one lane, of all matrices. */
static void load_matrices(tg_emitter *e, LLVMValueRef pointer, uint32_t matrices, bool transposed, LLVMValueRef *word) {
  const char *name = tg_format(&e->j->env, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%u%s.b16", matrices,
                               transposed ? ".trans" : "");
  LLVMTypeRef type = LLVMTypeOf(pointer);
  LLVMValueRef v = tg_device_intrinsic(e, name, &type, 1, &pointer, 1);
  for (uint32_t i = 0; i < matrices; i++) word[i] = matrices == 1 ? v : LLVMBuildExtractValue(e->b, v, i, "");
}

static LLVMValueRef elements(tg_emitter *e, const tg_uop *load, const LLVMValueRef *word) {
  uint32_t n = words_of(load);
  LLVMValueRef out = n == 1 ? word[0] : LLVMGetPoison(LLVMVectorType(e->integer[32], n));
  for (uint32_t i = 0; i < n && n > 1; i++)
    out = LLVMBuildInsertElement(e->b, out, word[i], LLVMConstInt(e->integer[32], i, 0), "");
  return LLVMBuildBitCast(e->b, out, tg_emit_memory_type(e, load->type, load->lanes), "");
}

static bool is_fragment(tg_emitter *e, const tg_uop *u) {
  return u->op == TG_OP_LOAD && e->fragments && e->fragments[u->id] && !tg_gate(u) &&
         e->buffers[tg_buffer_ordinal(u->src[0])].memory == MEMORY_LOCAL &&
         (words_of(u) == 1 || words_of(u) == 2 || words_of(u) == 4);
}

/* Are both at one place but for a constant? Then one instruction loads both: the matrices of b behind those of a. */
static bool join(const subscript *a, const subscript *b, rows *r, const rows *second, uint32_t matrices) {
  if (a->terms != b->terms || r->transposed != second->transposed) return false;
  for (uint32_t i = 0; i < a->terms; i++) {
    uint32_t k = 0;
    while (k < b->terms && b->term[k].u != a->term[i].u) k++;
    if (k == b->terms || b->term[k].scale != a->term[i].scale) return false;
  }
  int64_t least = r->constant < second->constant ? r->constant : second->constant;
  if (r->constant - least > INT32_MAX / 4 || second->constant - least > INT32_MAX / 4) return false;
  for (uint32_t l = 0; l < LANES; l++) {
    uint32_t m = l / 8 % (2 * matrices);
    r->at[l] += m < matrices ? (int32_t)(r->constant - least) : 0;
    if (m >= matrices) r->at[l] = second->at[(m - matrices) * 8 + l % 8] + (int32_t)(second->constant - least);
  }
  r->constant = least;
  return true;
}

LLVMValueRef tg_emit_fragment(tg_emitter *e, const tg_uop *load) {
  if (!is_fragment(e, load)) return NULL;
  const tg_uop *lane = e->fragments[load->id], *other = e->partners[load->id];
  LLVMValueRef word[4], v = tg_emit_memo_get(e, load, &e->fragments);
  if (v) return v;   /* its partner has loaded it */
  subscript *s = tg_new(&e->j->env, subscript, 2);
  rows r, second;
  uint32_t matrices = words_of(load);
  if (!find_rows(e, load, lane, s, &r)) return NULL;
  if (other && !(find_rows(e, other, lane, s + 1, &second) && join(s, s + 1, &r, &second, matrices))) other = NULL;
  LLVMValueRef p = address(e, load, lane, s, &r);
  if (!p) return NULL;
  meet(e, load);
  load_matrices(e, p, other ? 2 * matrices : matrices, r.transposed, word);
  if (other) tg_emit_memo_set(e, other, &e->fragments, elements(e, other, word + matrices), e->depth);
  return elements(e, load, word);
}

/* Loads of one or two matrices: each with the next one that no store to LOCAL and no barrier parts it from. */
static void find_partners(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  const tg_uop *waiting = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (u->op == TG_OP_END) find_partners(e, u->src + 1, u->n - 1);
    if (tg_emit_is_effect(u) && !(u->op == TG_OP_STORE && tg_buffer_info(e->j, u->src[0])->space == TG_SPACE_REG))
      waiting = NULL;
    if (!is_fragment(e, u) || words_of(u) > 2) continue;
    if (waiting && waiting->src[0] == u->src[0] && waiting->lanes == u->lanes) {
      e->partners[waiting->id] = u;
      waiting = NULL;
    } else waiting = u;
  }
}

/* The only load of an operand: the operand itself, or what it is computed of. */
static const tg_uop *loaded(const tg_uop *u) {
  while (u->op == TG_OP_CAST || u->op == TG_OP_SHUFFLE || (tg_ops[u->op].arity == 2 && u->src[1]->op != TG_OP_LOAD))
    u = u->src[0];
  return u->op == TG_OP_LOAD && u->lanes > 1 ? u : NULL;
}

void tg_emit_find_fragments(tg_emitter *e) {
  tg_job *j = e->j;
  if (!e->target->loads_matrices) return;
  e->fragments = tg_new(&j->env, const tg_uop *, j->uops.n);
  for (uint32_t i = 0; i < j->uops.n; i++) {
    const tg_uop *u = j->uops.data[i];
    const tg_matrix_row *r = u->op == TG_OP_MATRIX ? tg_matrix_find(tg_matrix_name(j, u)) : NULL;
    for (int w = 0; r && r->form == TG_MATRIX_PTX && w < 2; w++) {
      const tg_uop *load = loaded(u->src[w]);
      if (load && u->src[3]->op == TG_OP_RANGE) e->fragments[load->id] = u->src[3];
    }
  }
  e->partners = tg_new(&j->env, const tg_uop *, j->uops.n);
  find_partners(e, e->sink->src, e->sink->n);
}
