/* SPDX-License-Identifier: MIT
 * Cuts vectors that are wider than a register into tuples of registers, before LLVM's code generator sees them.
 *
 * The emitter writes vectors of as many lanes as the schedule says. If a function has vectors wider than the target's
 * registers, or masked accesses, its instructions are visited once, definitions before uses, and each is rewritten for
 * each register. The number of lanes per register follows from the widest element type among an instruction's operands
 * and result; so a vector may be defined in registers of eight lanes and used in registers of four, and is then
 * regrouped, once, right after its definition. A mask has no width of its own: it is cut like the value it is computed
 * from. Vectors that fit a register stay as they are.
 *
 * Two kinds of vectors are never cut: AMX tiles, which are an LLVM type (emit_matrix.c), and the addresses of a gather,
 * which is cut by its data. */
#include "jit/emit_registers.h"

enum { FIRST = 256 };

/* ---- tables ---- */

static uint32_t hash(const void *v, uint64_t more) {
  uint64_t h = tg_mix((uint64_t)(uintptr_t)v, more);
  return (uint32_t)(h ^ h >> 32);
}

static registers *tuple_slot(const cutter *c, LLVMValueRef v) {
  uint32_t h = hash(v, 0) & c->tuples_mask;
  while (c->tuples[h].v && c->tuples[h].v != v) h = (h + 1) & c->tuples_mask;
  return &c->tuples[h];
}

registers *tg_cut_find(cutter *c, LLVMValueRef v) {
  registers *t = tuple_slot(c, v);
  return t->v ? t : NULL;
}

registers *tg_cut_new(cutter *c, LLVMValueRef v, uint32_t per) {
  tg_env *env = &c->e->j->env;
  if (2 * ++c->tuples_n > c->tuples_mask) {
    registers *old = c->tuples;
    uint32_t n = c->tuples_mask + 1;
    c->tuples = tg_new(env, registers, 2 * n);
    c->tuples_mask = 2 * n - 1;
    for (uint32_t i = 0; i < n; i++)
      if (old[i].v) *tuple_slot(c, old[i].v) = old[i];
  }
  registers *t = tuple_slot(c, v);
  *t = (registers){.v = v, .lanes = tg_cut_lanes(LLVMTypeOf(v)), .per = per};
  t->reg = tg_new(env, LLVMValueRef, (t->lanes + per - 1) / per);
  return t;
}

static piece *piece_slot(const cutter *c, LLVMValueRef v, uint32_t from, uint32_t n, uint32_t form) {
  uint32_t h = hash(v, tg_mix(from, (uint64_t)n << 32 | form)) & c->pieces_mask;
  for (;; h = (h + 1) & c->pieces_mask) {
    piece *p = &c->pieces[h];
    if (!p->v || (p->v == v && p->from == from && p->n == n && p->form == form)) return p;
  }
}

static LLVMValueRef keep_piece(cutter *c, piece p) {
  if (2 * ++c->pieces_n > c->pieces_mask) {
    piece *old = c->pieces;
    uint32_t n = c->pieces_mask + 1;
    c->pieces = tg_new(&c->e->j->env, piece, 2 * n);
    c->pieces_mask = 2 * n - 1;
    for (uint32_t i = 0; i < n; i++)
      if (old[i].v) *piece_slot(c, old[i].v, old[i].from, old[i].n, old[i].form) = old[i];
  }
  *piece_slot(c, p.v, p.from, p.n, p.form) = p;
  return p.piece;
}

/* ---- vectors from lanes ---- */

/* One shuffle of two registers, the narrower one made as wide as the other. */
static LLVMValueRef shuffle_two(cutter *c, LLVMValueRef a, LLVMValueRef b, const int32_t *at, uint32_t n) {
  tg_emitter *e = c->e;
  uint32_t wide = tg_cut_lanes(LLVMTypeOf(a)), other = b ? tg_cut_lanes(LLVMTypeOf(b)) : wide;
  LLVMValueRef *mask = tg_new(&e->j->env, LLVMValueRef, (n > wide ? n : wide) + other),
               any = LLVMGetPoison(e->integer[32]);
  for (int side = 0; side < 2 && wide != other; side++) {
    LLVMValueRef *v = side ? &b : &a;
    uint32_t has = side ? other : wide, wants = wide > other ? wide : other;
    for (uint32_t i = 0; i < wants; i++) mask[i] = i < has ? LLVMConstInt(e->integer[32], i, 0) : any;
    if (has < wants)
      *v = LLVMBuildShuffleVector(e->b, *v, LLVMGetPoison(LLVMTypeOf(*v)), LLVMConstVector(mask, wants), "");
  }
  uint32_t second = tg_cut_lanes(LLVMTypeOf(a));
  for (uint32_t i = 0; i < n; i++) {   /* in `at`, lanes of b begin at a's width before it was changed */
    uint32_t l = (uint32_t)at[i];
    mask[i] = at[i] < 0 ? any : LLVMConstInt(e->integer[32], l < wide ? l : l - wide + second, 0);
  }
  return LLVMBuildShuffleVector(e->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(mask, n), "");
}

/* Each register is added to the result by one shuffle; the first shuffle takes two registers. */
LLVMValueRef tg_cut_assemble(cutter *c, const pick *from, uint32_t n, LLVMTypeRef element) {
  LLVMValueRef first = NULL, all = NULL;
  int32_t *at = tg_new(&c->e->j->env, int32_t, n);
  uint8_t *done = tg_new(&c->e->j->env, uint8_t, n);
  for (uint32_t next = 0; next < n; next++) {
    LLVMValueRef reg = from[next].reg;
    if (done[next] || !reg) continue;
    uint32_t base = all ? n : first ? tg_cut_lanes(LLVMTypeOf(first)) : 0;
    for (uint32_t i = 0; i < n; i++) {
      if (from[i].reg == reg) at[i] = (int32_t)(base + from[i].lane), done[i] = 1;
      else at[i] = !done[i] ? -1 : all ? (int32_t)i : (int32_t)from[i].lane;
    }
    if (first || all) all = shuffle_two(c, all ? all : first, reg, at, n);
    first = all ? NULL : reg;
  }
  if (all) return all;
  if (!first) return LLVMGetPoison(LLVMVectorType(element, n));
  bool same = n == tg_cut_lanes(LLVMTypeOf(first));
  for (uint32_t i = 0; i < n; i++) same &= !from[i].reg || from[i].lane == i;
  return same ? first : shuffle_two(c, first, NULL, at, n);
}

/* Concatenates `count` registers, a power of two. */
static LLVMValueRef join(cutter *c, const registers *t, uint32_t from, uint32_t count) {
  LLVMValueRef *all = tg_new(&c->e->j->env, LLVMValueRef, count);
  int32_t *at = tg_new(&c->e->j->env, int32_t, count * t->per);
  for (uint32_t i = 0; i < count * t->per; i++) at[i] = (int32_t)i;
  memcpy(all, t->reg + from, count * sizeof *all);
  for (uint32_t n = 2 * t->per; count > 1; count /= 2, n *= 2)
    for (uint32_t i = 0; i < count / 2; i++) all[i] = shuffle_two(c, all[2 * i], all[2 * i + 1], at, n);
  return all[0];
}

static LLVMValueRef constant_part(cutter *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMTypeRef type = LLVMVectorType(LLVMGetElementType(LLVMTypeOf(v)), n);
  if (LLVMIsNull(v)) return LLVMConstNull(type);
  if (LLVMIsUndef(v)) return LLVMGetPoison(type);
  LLVMValueRef *all = tg_new(&c->e->j->env, LLVMValueRef, n);
  for (uint32_t i = 0; i < n; i++) all[i] = LLVMGetAggregateElement(v, from + i);
  return LLVMConstVector(all, n);
}

static LLVMValueRef build_splat(cutter *c, LLVMValueRef scalar, uint32_t n) {
  tg_emitter *e = c->e;
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), n);
  LLVMValueRef zero = LLVMConstInt(e->integer[32], 0, 0);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(type), scalar, zero, "");
  LLVMValueRef first = LLVMConstNull(LLVMVectorType(e->integer[32], n));
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(type), first, "");
}

static void go_behind(cutter *c, LLVMValueRef v) {
  LLVMValueRef next = LLVMGetNextInstruction(v);
  while (LLVMIsAPHINode(next)) next = LLVMGetNextInstruction(next);
  LLVMPositionBuilderBefore(c->e->b, next);
}

static void go_back(cutter *c) {
  if (c->at) LLVMPositionBuilderBefore(c->e->b, c->at);
}

static pick pick_of(const registers *t, LLVMValueRef v, uint32_t lane) {
  return t ? (pick){t->reg[lane / t->per], lane % t->per} : (pick){v, lane};
}

LLVMValueRef tg_cut_part(cutter *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v));
  if (LLVMIsConstant(v)) return n == lanes ? v : constant_part(c, v, from, n);
  const registers *t = tg_cut_find(c, v);
  if (!t && n == lanes) return v;
  if (t && from % t->per == 0 && n == (t->lanes - from < t->per ? t->lanes - from : t->per))
    return t->reg[from / t->per];
  piece *known = piece_slot(c, v, from, n, 0);
  if (known->v) return known->piece;
  LLVMValueRef scalar = tg_cut_splat_scalar(v), p;
  go_behind(c, v);
  uint32_t count = t && from % t->per == 0 && n % t->per == 0 ? n / t->per : 0;
  if (scalar) p = build_splat(c, scalar, n);
  else if (count && !(count & (count - 1))) p = join(c, t, from / t->per, count);
  else {
    pick *picks = tg_new(&c->e->j->env, pick, n);
    for (uint32_t i = 0; i < n; i++) picks[i] = pick_of(t, v, from + i);
    p = tg_cut_assemble(c, picks, n, LLVMGetElementType(LLVMTypeOf(v)));
  }
  go_back(c);
  return keep_piece(c, (piece){v, p, from, n, 0});
}

LLVMValueRef tg_cut_mask(cutter *c, LLVMValueRef mask, uint32_t from, uint32_t n, uint32_t wide, uint32_t bits) {
  tg_emitter *e = c->e;
  uint32_t form = bits << 16 | wide;
  bool constant = LLVMIsConstant(mask) != 0;
  if (n == wide && bits == 1) return tg_cut_part(c, mask, from, n);
  piece *known = constant ? NULL : piece_slot(c, mask, from, n, form);
  if (known && known->v) return known->piece;
  LLVMValueRef part = tg_cut_part(c, mask, from, n);
  if (LLVMIsAInstruction(part)) go_behind(c, part);
  if (n < wide) {
    LLVMValueRef shut = LLVMConstNull(LLVMVectorType(e->integer[1], wide));
    pick *picks = tg_new(&e->j->env, pick, wide);
    for (uint32_t i = 0; i < wide; i++) picks[i] = i < n ? (pick){part, i} : (pick){shut, i};
    part = tg_cut_assemble(c, picks, wide, e->integer[1]);
  }
  LLVMTypeRef type = LLVMVectorType(e->integer[bits], wide);
  if (bits > 1) part = LLVMBuildSExt(e->b, part, type, "");
  go_back(c);
  return constant ? part : keep_piece(c, (piece){mask, part, from, n, form});
}

/* A vector of n lanes: lane i is lane at[i] of the lanes of a followed by those of b; at[i] below 0: any value. */
static LLVMValueRef shuffled(cutter *c, LLVMValueRef a, LLVMValueRef b, const int32_t *at, uint32_t n) {
  const registers *ta = tg_cut_find(c, a), *tb = tg_cut_find(c, b);
  int32_t lanes = (int32_t)tg_cut_lanes(LLVMTypeOf(a));
  bool no_a = LLVMIsUndef(a), no_b = LLVMIsUndef(b);
  pick *picks = tg_new(&c->e->j->env, pick, n);
  for (uint32_t i = 0; i < n; i++)
    if (at[i] >= 0 && at[i] < lanes && !no_a) picks[i] = pick_of(ta, a, (uint32_t)at[i]);
    else if (at[i] >= lanes && !no_b) picks[i] = pick_of(tb, b, (uint32_t)(at[i] - lanes));
  return tg_cut_assemble(c, picks, n, LLVMGetElementType(LLVMTypeOf(a)));
}

LLVMValueRef tg_cut_ahead(cutter *c, LLVMValueRef pointer, uint64_t bytes) {
  LLVMValueRef by = LLVMConstInt(c->e->integer[64], bytes, 0);
  return bytes ? LLVMBuildGEP2(c->e->b, c->e->integer[8], pointer, &by, 1, "") : pointer;
}

/* ---- instructions ---- */

static uint32_t lanes_at(const registers *t, uint32_t from) {
  return least(t->per, t->lanes - from);
}

static LLVMValueRef call_part(cutter *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMValueRef fn = LLVMGetCalledValue(v), args[8];
  unsigned id = LLVMGetIntrinsicID(fn), count = LLVMGetNumArgOperands(v);
  LLVMTypeRef result = LLVMGetElementType(LLVMTypeOf(v)), types[2] = {LLVMVectorType(result, n)};
  if (!id || !LLVMIntrinsicIsOverloaded(id) || count > TG_COUNT(args))
    tg_bug(&c->e->j->env, "a call of a vector that is wider than a register");
  for (unsigned i = 0; i < count; i++) {
    args[i] = LLVMGetOperand(v, i);
    if (LLVMGetTypeKind(LLVMTypeOf(args[i])) == LLVMVectorTypeKind) args[i] = tg_cut_part(c, args[i], from, n);
  }
  types[1] = LLVMTypeOf(args[0]);
  LLVMValueRef part = LLVMGetIntrinsicDeclaration(c->e->m, id, types, LLVMGetElementType(types[1]) == result ? 1 : 2);
  return LLVMBuildCall2(c->e->b, LLVMGlobalGetValueType(part), part, args, count, "");
}

/* Lanes from..from+n-1 of a bitcast to elements of another width; they must be whole elements on both sides. */
static LLVMValueRef bitcast_part(cutter *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMValueRef src = LLVMGetOperand(v, 0);
  LLVMTypeRef to = LLVMGetElementType(LLVMTypeOf(v)), type = LLVMVectorType(to, n);
  uint32_t bits = tg_cut_bits(c, to), had = tg_cut_bits(c, element_of(LLVMTypeOf(src)));
  if (LLVMGetTypeKind(LLVMTypeOf(src)) != LLVMVectorTypeKind || n * bits % had || from * bits % had)
    tg_bug(&c->e->j->env, "bits of a vector that is wider than a register, in parts of %u", n * bits);
  return LLVMBuildBitCast(c->e->b, tg_cut_part(c, src, from * bits / had, n * bits / had), type, "");
}

static LLVMValueRef lanewise_part(cutter *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMBuilderRef b = c->e->b;
  LLVMOpcode op = LLVMGetInstructionOpcode(v);
  LLVMValueRef in[3] = {NULL};
  if (op == LLVMCall) return call_part(c, v, from, n);
  if (op == LLVMBitCast) return bitcast_part(c, v, from, n);
  for (int i = 0; i < LLVMGetNumOperands(v) && i < 3; i++) {
    in[i] = LLVMGetOperand(v, (unsigned)i);
    if (LLVMGetTypeKind(LLVMTypeOf(in[i])) == LLVMVectorTypeKind) in[i] = tg_cut_part(c, in[i], from, n);
  }
  if (LLVMIsACastInst(v)) return LLVMBuildCast(b, op, in[0], LLVMVectorType(LLVMGetElementType(LLVMTypeOf(v)), n), "");
  switch (op) {
  case LLVMICmp: return LLVMBuildICmp(b, LLVMGetICmpPredicate(v), in[0], in[1], "");
  case LLVMFCmp: return LLVMBuildFCmp(b, LLVMGetFCmpPredicate(v), in[0], in[1], "");
  case LLVMFNeg: return LLVMBuildFNeg(b, in[0], "");
  case LLVMSelect: return LLVMBuildSelect(b, in[0], in[1], in[2], "");
  case LLVMGetElementPtr: return LLVMBuildGEP2(b, LLVMGetGEPSourceElementType(v), in[0], &in[1], 1, "");
  default: return LLVMBuildBinOp(b, op, in[0], in[1], "");
  }
}

static void cut_lanewise(cutter *c, LLVMValueRef v) {
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v)), room = tg_cut_room_of_lanewise(c, v);
  if (lanes <= room || tg_cut_is_tile(c, v)) return;
  registers *t = tg_cut_new(c, v, room);
  registers made = *t;   /* a copy: cutting operands may move the table */
  for (uint32_t from = 0; from < lanes; from += room)
    made.reg[from / room] = lanewise_part(c, v, from, lanes_at(&made, from));
  tg_push(&c->e->j->env, &c->old, v);
}

static void cut_phi(cutter *c, LLVMValueRef v) {
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(v));
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v)), room = tg_cut_room(c, element);
  for (unsigned i = 0; is_bit(element) && i < LLVMCountIncoming(v); i++) {
    const registers *in = tg_cut_find(c, LLVMGetIncomingValue(v, i));
    if (in) room = in->per;
  }
  if (lanes <= room || tg_cut_is_tile(c, v)) {
    tg_push(&c->e->j->env, &c->joins, v);
    return;
  }
  registers made = *tg_cut_new(c, v, room);
  for (uint32_t from = 0; from < lanes; from += room)
    made.reg[from / room] = LLVMBuildPhi(c->e->b, LLVMVectorType(element, lanes_at(&made, from)), "");
  tg_push(&c->e->j->env, &c->old, v);
}

static void fill_phi(cutter *c, LLVMValueRef v) {
  const registers *found = tg_cut_find(c, v);
  if (!found) return;
  registers t = *found;
  for (unsigned i = 0; i < LLVMCountIncoming(v); i++) {
    LLVMBasicBlockRef block = LLVMGetIncomingBlock(v, i);
    for (uint32_t from = 0; from < t.lanes; from += t.per) {
      LLVMValueRef in = tg_cut_part(c, LLVMGetIncomingValue(v, i), from, lanes_at(&t, from));
      LLVMAddIncoming(t.reg[from / t.per], &in, &block, 1);
    }
  }
}

static void copy_metadata(cutter *c, LLVMValueRef to, LLVMValueRef from) {
  const unsigned kinds[] = {c->e->invariant_kind, c->e->nontemporal_kind};
  for (unsigned i = 0; i < TG_COUNT(kinds); i++) {
    LLVMValueRef m = LLVMGetMetadata(from, kinds[i]);
    if (m) LLVMSetMetadata(to, kinds[i], m);
  }
}

static void cut_load(cutter *c, LLVMValueRef v) {
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(v));
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v)), room = tg_cut_room_of_load(c, v, lanes),
           bytes = tg_cut_bits(c, element) / 8;
  if (lanes <= room || tg_cut_is_tile(c, v)) return;
  registers made = *tg_cut_new(c, v, room);
  for (uint32_t from = 0; from < lanes; from += room) {
    LLVMValueRef p = tg_cut_ahead(c, LLVMGetOperand(v, 0), (uint64_t)from * bytes);
    LLVMValueRef one = LLVMBuildLoad2(c->e->b, LLVMVectorType(element, lanes_at(&made, from)), p, "");
    LLVMSetAlignment(one, tg_cut_alignment(LLVMGetAlignment(v), (uint64_t)from * bytes));
    copy_metadata(c, one, v);
    made.reg[from / room] = one;
  }
  tg_push(&c->e->j->env, &c->old, v);
}

/* A store is cut as its value is, even if the registers are not full. */
static void cut_store(cutter *c, LLVMValueRef v) {
  LLVMValueRef value = LLVMGetOperand(v, 0);
  if (LLVMGetTypeKind(LLVMTypeOf(value)) != LLVMVectorTypeKind) return;
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(value));
  const registers *t = tg_cut_find(c, value);
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(value)), bytes = tg_cut_bits(c, element) / 8;
  uint32_t room = t ? t->per : LLVMIsConstant(value) ? tg_cut_room(c, element) : lanes;
  if (lanes <= room) return;
  for (uint32_t from = 0; from < lanes; from += room) {
    LLVMValueRef part = tg_cut_part(c, value, from, least(room, lanes - from));
    LLVMValueRef p = tg_cut_ahead(c, LLVMGetOperand(v, 1), (uint64_t)from * bytes);
    LLVMValueRef one = LLVMBuildStore(c->e->b, part, p);
    LLVMSetAlignment(one, tg_cut_alignment(LLVMGetAlignment(v), (uint64_t)from * bytes));
    copy_metadata(c, one, v);
  }
  tg_push(&c->e->j->env, &c->old, v);
}

static void cut_shuffle(cutter *c, LLVMValueRef v) {
  LLVMValueRef a = LLVMGetOperand(v, 0), b = LLVMGetOperand(v, 1);
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(v));
  const registers *ta = tg_cut_find(c, a), *tb = tg_cut_find(c, b);
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v)), room = tg_cut_room(c, element);
  if (is_bit(element)) {
    uint32_t asked = least(tg_cut_asked_by_mask(c, a, lanes), tg_cut_asked_by_mask(c, b, lanes));
    room = asked < UINT32_MAX ? asked : tg_cut_room_of_mask(c, v, 0);
  }
  if (LLVMGetTypeKind(element) == LLVMPointerTypeKind) room = tg_cut_room_of_addresses(c, v);
  if (lanes > room && tg_cut_is_tile(c, v)) return;
  if (lanes <= room && !ta && !tb) return;
  LLVMValueRef scalar = tg_cut_splat_scalar(v), last = NULL;
  registers made = *tg_cut_new(c, v, least(room, lanes));
  int32_t *at = tg_new(&c->e->j->env, int32_t, 2 * made.per), *before = at + made.per;
  for (uint32_t from = 0; from < lanes; from += made.per) {
    uint32_t n = lanes_at(&made, from);
    for (uint32_t i = 0; i < n; i++) at[i] = LLVMGetMaskValue(v, from + i);
    bool again = last && tg_cut_lanes(LLVMTypeOf(last)) == n && !memcmp(at, before, n * sizeof *at);
    if (!again) last = scalar ? build_splat(c, scalar, n) : shuffled(c, a, b, at, n);
    made.reg[from / made.per] = last;
    memcpy(before, at, n * sizeof *at);
  }
  tg_push(&c->e->j->env, &c->old, v);
}

static void cut_insert(cutter *c, LLVMValueRef v) {
  LLVMValueRef into = LLVMGetOperand(v, 0), value = LLVMGetOperand(v, 1), at = LLVMGetOperand(v, 2);
  LLVMTypeRef element = LLVMTypeOf(value);
  const registers *t = tg_cut_find(c, into);
  uint32_t lanes = tg_cut_lanes(LLVMTypeOf(v)), room = tg_cut_room(c, element);
  if (is_bit(element) && lanes > room) room = tg_cut_room_of_mask(c, v, 0);
  if (t) room = t->per;
  if (LLVMGetTypeKind(element) == LLVMPointerTypeKind && lanes > room) room = tg_cut_room_of_addresses(c, v);
  if (lanes <= room || tg_cut_is_tile(c, v)) return;
  if (!LLVMIsAConstantInt(at))
    tg_bug(&c->e->j->env, "an element put into a vector that is wider than a register, anywhere");
  uint32_t lane = (uint32_t)LLVMConstIntGetZExtValue(at);
  registers made = *tg_cut_new(c, v, room);
  for (uint32_t from = 0; from < lanes; from += room) {
    LLVMValueRef part = tg_cut_part(c, into, from, lanes_at(&made, from));
    LLVMValueRef within = LLVMConstInt(c->e->integer[32], lane - from, 0);
    made.reg[from / room] =
        lane / room == from / room ? LLVMBuildInsertElement(c->e->b, part, value, within, "") : part;
  }
  tg_push(&c->e->j->env, &c->old, v);
}

static void replace(cutter *c, LLVMValueRef v, LLVMValueRef by) {
  LLVMReplaceAllUsesWith(v, by);
  tg_push(&c->e->j->env, &c->old, v);
}

/* Stores the registers of a vector to the stack, once, right after its definition, so that a lane can be selected by a
 * run-time index. */
static LLVMValueRef in_a_row(cutter *c, LLVMValueRef v, const registers *t) {
  enum { ROW = UINT32_MAX };
  tg_emitter *e = c->e;
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(v));
  bool bits = is_bit(element);
  uint32_t bytes = bits ? 1 : tg_cut_bits(c, element) / 8;
  piece *known = piece_slot(c, v, 0, t->lanes, ROW);
  if (known->v) return known->piece;
  LLVMPositionBuilderBefore(
      e->b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(LLVMGetInstructionParent(v)))));
  LLVMValueRef row = LLVMBuildAlloca(e->b, LLVMArrayType2(e->integer[8], (uint64_t)bytes * t->lanes), "");
  LLVMSetAlignment(row, e->target->vector_bytes);
  go_behind(c, v);
  for (uint32_t from = 0; from < t->lanes; from += t->per) {
    LLVMValueRef one = t->reg[from / t->per];
    if (bits) one = LLVMBuildZExt(e->b, one, LLVMVectorType(e->integer[8], tg_cut_lanes(LLVMTypeOf(one))), "");
    one = LLVMBuildStore(e->b, one, tg_cut_ahead(c, row, (uint64_t)from * bytes));
    LLVMSetAlignment(one, tg_cut_alignment(e->target->vector_bytes, (uint64_t)from * bytes));
  }
  go_back(c);
  return keep_piece(c, (piece){v, row, 0, t->lanes, ROW});
}

static void cut_extract(cutter *c, LLVMValueRef v) {
  LLVMBuilderRef b = c->e->b;
  LLVMValueRef from = LLVMGetOperand(v, 0), at = LLVMGetOperand(v, 1);
  const registers *t = tg_cut_find(c, from);
  if (!t) return;
  if (LLVMIsAConstantInt(at)) {
    uint32_t lane = (uint32_t)LLVMConstIntGetZExtValue(at);
    LLVMValueRef within = LLVMConstInt(c->e->integer[32], lane % t->per, 0);
    replace(c, v, LLVMBuildExtractElement(b, t->reg[lane / t->per], within, ""));
    return;
  }
  LLVMTypeRef type = is_bit(LLVMTypeOf(v)) ? c->e->integer[8] : LLVMTypeOf(v);
  LLVMValueRef row = in_a_row(c, from, t);
  at = LLVMBuildZExt(b, at, c->e->integer[64], "");
  LLVMValueRef one = LLVMBuildLoad2(b, type, LLVMBuildGEP2(b, type, row, &at, 1, ""), "");
  replace(c, v, type == LLVMTypeOf(v) ? one : LLVMBuildTrunc(b, one, LLVMTypeOf(v), ""));
}

/* One bit from all lanes of a mask. Registers of the same width are combined first. */
static void cut_reduce(cutter *c, LLVMValueRef v, bool all) {
  const registers *t = tg_cut_find(c, LLVMGetOperand(v, 0));
  LLVMBuilderRef b = c->e->b;
  if (!t) return;
  LLVMValueRef sum = t->reg[0], result = NULL;
  for (uint32_t i = 1; i <= (t->lanes - 1) / t->per + 1; i++) {
    LLVMValueRef next = i * t->per < t->lanes ? t->reg[i] : NULL;
    if (next && LLVMTypeOf(next) == LLVMTypeOf(sum)) {
      sum = all ? LLVMBuildAnd(b, sum, next, "") : LLVMBuildOr(b, sum, next, "");
      continue;
    }
    LLVMTypeRef type = LLVMTypeOf(sum);
    LLVMValueRef one = tg_emit_call(c->e, all ? "llvm.vector.reduce.and" : "llvm.vector.reduce.or", type, &sum, 1);
    result = !result ? one : all ? LLVMBuildAnd(b, result, one, "") : LLVMBuildOr(b, result, one, "");
    sum = next;
  }
  replace(c, v, result);
}

/* For an instruction that was not cut: puts those of its operands together that were. */
static void take_whole(cutter *c, LLVMValueRef v) {
  for (int i = 0; i < LLVMGetNumOperands(v); i++) {
    LLVMValueRef operand = LLVMGetOperand(v, (unsigned)i);
    if (!LLVMIsAInstruction(operand) || !tg_cut_find(c, operand)) continue;
    LLVMSetOperand(v, (unsigned)i, tg_cut_part(c, operand, 0, tg_cut_lanes(LLVMTypeOf(operand))));
  }
}

static void cut_call(cutter *c, LLVMValueRef v) {
  masked_access kind = tg_cut_masked_kind(v);
  if (kind) {
    if (tg_cut_masked(c, v, kind)) tg_push(&c->e->j->env, &c->old, v);
  } else if (tg_cut_is_call_of(v, "llvm.vector.reduce.and")) cut_reduce(c, v, true);
  else if (tg_cut_is_call_of(v, "llvm.vector.reduce.or")) cut_reduce(c, v, false);
  else if (!tg_cut_is_call_of(v, "llvm.x86.") && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind)
    cut_lanewise(c, v);
}

static void cut(cutter *c, LLVMValueRef v) {
  bool vector = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
  uint32_t cuts = c->old.n;
  LLVMPositionBuilderBefore(c->e->b, c->at = v);
  switch (LLVMGetInstructionOpcode(v)) {
  case LLVMStore: cut_store(c, v); break;
  case LLVMExtractElement: cut_extract(c, v); break;
  case LLVMCall: cut_call(c, v); break;
  case LLVMPHI: if (vector) cut_phi(c, v); return;
  case LLVMLoad: if (vector) cut_load(c, v); break;
  case LLVMShuffleVector: cut_shuffle(c, v); break;
  case LLVMInsertElement: cut_insert(c, v); break;
  case LLVMBr: case LLVMRet: case LLVMSwitch: case LLVMAtomicRMW: break;
  default: if (vector) cut_lanewise(c, v);
  }
  if (c->old.n == cuts) take_whole(c, v);
}

/* ---- the function ---- */

typedef struct { LLVMBasicBlockRef block; unsigned next; } visit;

/* The blocks in reverse postorder, so that definitions come before uses. */
static LLVMBasicBlockRef *order_blocks(cutter *c, LLVMValueRef fn, uint32_t *n) {
  tg_env *env = &c->e->j->env;
  uint32_t count = LLVMCountBasicBlocks(fn), size = 4, at = count;
  while (size < 2 * count) size *= 2;
  LLVMBasicBlockRef *seen = tg_new(env, LLVMBasicBlockRef, size), *order = tg_new(env, LLVMBasicBlockRef, count);
  TG_VEC(visit) stack = {0};
  LLVMBasicBlockRef next = LLVMGetEntryBasicBlock(fn);
  while (next || stack.n) {
    if (next) {
      uint32_t h = hash(next, 0) & (size - 1);
      while (seen[h] && seen[h] != next) h = (h + 1) & (size - 1);
      if (!seen[h]) tg_push(env, &stack, ((visit){next, 0}));
      seen[h] = next;
      next = NULL;
      continue;
    }
    visit *top = &stack.data[stack.n - 1];
    LLVMValueRef end = LLVMGetBasicBlockTerminator(top->block);
    if (top->next < LLVMGetNumSuccessors(end)) next = LLVMGetSuccessor(end, top->next++);
    else order[--at] = top->block, stack.n--;
  }
  *n = count - at;
  memmove(order, order + at, *n * sizeof *order);
  return order;
}

/* Removes the instructions that were cut, and those that nothing uses any more. */
static void clear_away(cutter *c, LLVMBasicBlockRef *order, uint32_t n) {
  for (uint32_t i = c->old.n; i-- > 0;) {
    LLVMValueRef v = c->old.data[i];
    if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVoidTypeKind) LLVMReplaceAllUsesWith(v, LLVMGetPoison(LLVMTypeOf(v)));
    LLVMInstructionEraseFromParent(v);
  }
  while (n-- > 0)
    for (LLVMValueRef v = LLVMGetLastInstruction(order[n]), before; v; v = before) {
      before = LLVMGetPreviousInstruction(v);
      bool pure = LLVMIsAShuffleVectorInst(v) || LLVMIsAInsertElementInst(v) || LLVMIsAExtractElementInst(v)
                  || LLVMIsACastInst(v) || LLVMIsACmpInst(v) || LLVMIsABinaryOperator(v) || LLVMIsASelectInst(v)
                  || LLVMIsAGetElementPtrInst(v);
      if (pure && !LLVMGetFirstUse(v)) LLVMInstructionEraseFromParent(v);
    }
}

void tg_emit_registers(tg_emitter *e, LLVMValueRef fn) {
  cutter c = {.e = e, .tuples = tg_new(&e->j->env, registers, FIRST), .tuples_mask = FIRST - 1,
              .pieces = tg_new(&e->j->env, piece, FIRST), .pieces_mask = FIRST - 1};
  uint32_t n;
  LLVMBasicBlockRef *order = order_blocks(&c, fn, &n);
  for (uint32_t i = 0; i < n; i++)
    for (LLVMValueRef v = LLVMGetFirstInstruction(order[i]), next; v; v = next) {
      next = LLVMGetNextInstruction(v);
      cut(&c, v);
    }
  c.at = NULL;
  uint32_t cuts = c.old.n;
  for (uint32_t i = 0; i < cuts; i++)
    if (LLVMIsAPHINode(c.old.data[i])) fill_phi(&c, c.old.data[i]);
  for (uint32_t i = 0; i < c.joins.n; i++) take_whole(&c, c.joins.data[i]);
  if (cuts) clear_away(&c, order, n);
  LLVMPositionBuilderAtEnd(e->b, LLVMGetLastBasicBlock(fn));
}
