/* SPDX-License-Identifier: MIT
 * On NVIDIA's GPUs: vectors of elements of one or two bytes that begin anywhere. An access there is aligned to its
 * size, so that such a vector would be as many loads as it has elements. Instead the aligned pairs of words around it
 * are loaded, one more than it has, and shifted into place:
 *
 *   address p, of 16 bytes    pairs at p & ~7, + 8, and the one with the last byte: the third, or the second once more
 *                             where p is a multiple of eight
 *   word i of the vector      bytes p % 4 .. p % 4 + 3 of words i and i + 1, from word 1 on where p & 4:
 *                             shf.r.wrap by 8 p bits
 *
 * Each pair has a byte of the vector in it, so that its memory is mapped. (A load of a warp whose lanes lie 16 bytes
 * apart takes four cycles of L1, whether each takes 4 bytes or 8: so pairs, 12 cycles, and not words, 20.) Only inputs
 * are read so, since others may be written meanwhile. The shifts wait for the loads, so they stand where the vector is
 * used, and loads of others are under way until then. A vector whose gate does not hold in all lanes, as at the end of
 * a row, is loaded by elements. */
#include "jit/emit_address.h"

/* WAYS: whole, by elements, none */
enum { WORD = 4, PAIR = 2 * WORD, MOST_WORDS = 4, WAYS = 3 };

/* n: of the vector; loaded: around it, from a multiple of that many bytes on; at: the vector's address */
struct emit_words { LLVMValueRef word[MOST_WORDS + PAIR / WORD], at; uint32_t n, loaded; };

bool tg_emit_takes_words(const tg_emitter *e, const tg_uop *u, uint32_t align) {
  const tg_uop *define = tg_define_of(u->src[0]);
  const emit_buffer *b = &e->buffers[(uint32_t)define->arg];
  uint32_t element = (uint32_t)tg_type_bytes(define->type), bytes = u->lanes * element;
  return e->words && b->memory == MEMORY_GLOBAL && e->j->buffers.data[(uint32_t)define->arg].role == TG_ROLE_IN &&
         define->lanes == 1 && define->type != TG_BOOL && align < WORD && bytes % PAIR == 0 &&
         bytes <= MOST_WORDS * WORD && bytes / WORD + 1 < u->lanes;
}

/* ---- gates ---- */

static LLVMValueRef lane_of(tg_emitter *e, const tg_uop *u, uint32_t lane) {
  if (u->lanes == 1) return tg_emit_get(e, u, 1);
  if (u->op == TG_OP_IOTA) return tg_emit_bits(e, u->type, lane);
  const bool computes = u->op == TG_OP_AND || u->op == TG_OP_OR || u->op == TG_OP_LT || u->op == TG_OP_LE ||
                        u->op == TG_OP_ADD || u->op == TG_OP_SUB || u->op == TG_OP_MUL;
  if (!computes)
    return LLVMBuildExtractElement(e->b, tg_emit_get(e, u, u->lanes), LLVMConstInt(e->integer[32], lane, 0), "");
  LLVMValueRef a = lane_of(e, u->src[0], lane), b = lane_of(e, u->src[1], lane);
  return tg_emit_op2(e, u->op, u->src[1]->type, 1, a, b);
}

static bool slope_of(tg_emitter *e, const tg_uop *u, int64_t *slope) {
  sum s;
  if (u->lanes == 1) return *slope = 0, true;
  tg_emit_take_apart(e, &s, u);
  *slope = s.iota;
  return !s.vectors_n;
}

/* Is the gate true in all lanes; or else, may it be in one? A comparison that changes with the lane along a line is
 * decided at one end. */
static LLVMValueRef over_lanes(tg_emitter *e, const tg_uop *gate, bool all) {
  int64_t left, right;
  if (gate->op == TG_OP_AND)
    return LLVMBuildAnd(e->b, over_lanes(e, gate->src[0], all), over_lanes(e, gate->src[1], all), "");
  if ((gate->op == TG_OP_LT || gate->op == TG_OP_LE) && !tg_is_float(gate->src[0]->type) &&
      slope_of(e, gate->src[0], &left) && slope_of(e, gate->src[1], &right))
    return lane_of(e, gate, (left >= right) == all ? gate->lanes - 1 : 0);
  LLVMValueRef r = lane_of(e, gate, 0);
  for (uint32_t i = 1; i < gate->lanes; i++)
    r = all ? LLVMBuildAnd(e->b, r, lane_of(e, gate, i), "") : LLVMBuildOr(e->b, r, lane_of(e, gate, i), "");
  return r;
}

/* ---- loads ---- */

static LLVMValueRef behind(tg_emitter *e, LLVMValueRef p, int64_t bytes) {
  LLVMValueRef by = LLVMConstInt(e->integer[64], (uint64_t)bytes, 1);
  return bytes ? LLVMBuildGEP2(e->b, e->integer[8], p, &by, 1, "") : p;
}

static LLVMValueRef masked_pointer(tg_emitter *e, LLVMValueRef p) {
  LLVMTypeRef types[2] = {LLVMTypeOf(p), e->integer[64]};
  LLVMValueRef args[2] = {p, LLVMConstInt(e->integer[64], (uint64_t)-PAIR, 1)};
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID("llvm.ptrmask", 12), types, 2);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
}

/* The pointer's part that is no constant, and of the constant a part that is a multiple of a word: vectors that lie
 * apart by such share the rest. */
static LLVMValueRef apart(tg_emitter *e, LLVMValueRef p, int64_t *words) {
  *words = 0;
  if (!LLVMIsAGetElementPtrInst(p) || LLVMGetNumOperands(p) != 2 ||
      LLVMSizeOfTypeInBits(LLVMGetModuleDataLayout(e->m), LLVMGetGEPSourceElementType(p)) != 8)
    return p;
  LLVMValueRef by = LLVMGetOperand(p, 1), from = LLVMGetOperand(p, 0);
  if (!LLVMIsAConstantInt(by)) return p;
  int64_t bytes = LLVMConstIntGetSExtValue(by), rest = (int64_t)((uint64_t)bytes % PAIR);
  *words = bytes - rest;
  return behind(e, from, rest);
}

static LLVMValueRef load(tg_emitter *e, const tg_uop *define, LLVMTypeRef type, LLVMValueRef p, uint32_t align) {
  LLVMValueRef v = LLVMBuildLoad2(e->b, type, p, "");
  LLVMSetAlignment(v, align);
  tg_emit_mark_load(e, v, define);
  return v;
}

static void load_around(tg_emitter *e, const tg_uop *define, LLVMValueRef p, emit_words *w) {
  int64_t apart_by, last = (int64_t)w->n * WORD - tg_type_bytes(define->type);
  LLVMValueRef from = apart(e, p, &apart_by), first = masked_pointer(e, from),
               end = masked_pointer(e, behind(e, from, last));
  for (uint32_t i = 0; i < w->loaded; i += 2) {
    LLVMValueRef at = i + 2 < w->loaded ? behind(e, first, apart_by + (int64_t)i * WORD) : behind(e, end, apart_by);
    LLVMValueRef pair = load(e, define, LLVMVectorType(e->integer[32], 2), at, PAIR);
    for (uint32_t k = 0; k < 2; k++)
      w->word[i + k] = LLVMBuildExtractElement(e->b, pair, LLVMConstInt(e->integer[32], k, 0), "");
  }
  w->at = LLVMBuildTrunc(e->b, LLVMBuildPtrToInt(e->b, from, e->integer[64], ""), e->integer[32], "");
}

/* The same vector in words that need no shift, of those elements whose lane of the gate is true. */
static void load_elements(tg_emitter *e, const tg_uop *u, LLVMValueRef p, LLVMValueRef other, emit_words *w) {
  const tg_uop *define = tg_define_of(u->src[0]), *gate = tg_gate(u);
  const uint32_t bytes = (uint32_t)tg_type_bytes(define->type), in_word = WORD / bytes;
  LLVMTypeRef type = e->integer[8 * bytes];
  for (uint32_t i = 0; i < u->lanes; i++) {
    LLVMValueRef at = LLVMConstInt(e->integer[32], i, 0), in[2];
    in[0] = LLVMBuildExtractElement(e->b, other, at, "");
    LLVMValueRef open = lane_of(e, gate, i);
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->b), NULL}, after = tg_emit_open_gate(e, open);
    in[1] = load(e, define, type, behind(e, p, (int64_t)i * bytes), bytes);
    from[1] = LLVMGetInsertBlock(e->b);
    tg_emit_close_gate(e, after);
    LLVMValueRef one = LLVMBuildPhi(e->b, type, "");
    LLVMAddIncoming(one, in, from, 2);
    one = LLVMBuildZExt(e->b, one, e->integer[32], "");
    LLVMValueRef place = LLVMConstInt(e->integer[32], i % in_word * 8 * bytes, 0), *word = &w->word[i / in_word];
    *word = i % in_word ? LLVMBuildOr(e->b, *word, LLVMBuildShl(e->b, one, place, ""), "") : one;
  }
}

/* phis of what the ways have */
static void join(tg_emitter *e, emit_words *w, const emit_words *way, LLVMBasicBlockRef *from, uint32_t ways) {
  for (uint32_t i = 0; i <= w->loaded; i++) {
    LLVMValueRef in[WAYS];
    for (uint32_t k = 0; k < ways; k++) in[k] = i == w->loaded ? way[k].at : way[k].word[i];
    LLVMValueRef phi = LLVMBuildPhi(e->b, e->integer[32], "");
    LLVMAddIncoming(phi, in, from, ways);
    *(i == w->loaded ? &w->at : &w->word[i]) = phi;
  }
}

/* What stands there where no lane is loaded. */
static emit_words no_element(tg_emitter *e, LLVMValueRef other, uint32_t n) {
  emit_words w = {.n = n, .loaded = n + PAIR / WORD};
  other = LLVMBuildBitCast(e->b, other, LLVMVectorType(e->integer[32], n), "");
  for (uint32_t i = 0; i < n; i++)
    w.word[i] = LLVMBuildExtractElement(e->b, other, LLVMConstInt(e->integer[32], i, 0), "");
  w.word[n] = w.word[n + 1] = w.at = LLVMConstNull(e->integer[32]);
  return w;
}

void tg_emit_words(tg_emitter *e, const tg_uop *u, LLVMValueRef p) {
  const tg_uop *define = tg_define_of(u->src[0]), *gate = tg_gate(u);
  const uint32_t element = (uint32_t)tg_type_bytes(define->type);
  emit_words *w = e->words[u->id] = tg_new(&e->j->env, emit_words, 1);
  w->n = u->lanes * element / WORD;
  w->loaded = w->n + PAIR / WORD;
  if (!gate || gate->op == TG_OP_CONST) {
    load_around(e, define, p, w);
    return;
  }
  uint32_t ways = 0;
  LLVMValueRef other = tg_emit_get(e, tg_alternative(u), u->lanes), all = over_lanes(e, gate, true);
  LLVMBasicBlockRef from[WAYS], after = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  emit_words way[WAYS] = {*w, no_element(e, other, w->n), no_element(e, other, w->n)};
  LLVMBasicBlockRef rest = tg_emit_open_gate(e, all);
  load_around(e, define, p, &way[ways]);
  from[ways++] = LLVMGetInsertBlock(e->b);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, rest);
  if (gate->lanes > 1) {
    LLVMTypeRef bits = LLVMVectorType(e->integer[8 * element], u->lanes);
    rest = tg_emit_open_gate(e, over_lanes(e, gate, false));
    load_elements(e, u, p, LLVMBuildBitCast(e->b, other, bits, ""), &way[ways]);
    from[ways++] = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, rest);
  }
  from[ways++] = LLVMGetInsertBlock(e->b);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
  join(e, w, way, from, ways);
}

LLVMValueRef tg_emit_words_now(tg_emitter *e, const tg_uop *u) {
  const emit_words *w = e->words[u->id];
  LLVMValueRef v = LLVMGetPoison(LLVMVectorType(e->integer[32], w->n)), word[MOST_WORDS + 1];
  LLVMValueRef odd = LLVMBuildAnd(e->b, w->at, LLVMConstInt(e->integer[32], WORD, 0), "");
  odd = LLVMBuildICmp(e->b, LLVMIntNE, odd, LLVMConstNull(e->integer[32]), "");
  LLVMValueRef shift = LLVMBuildShl(e->b, w->at, LLVMConstInt(e->integer[32], 3, 0), "");
  for (uint32_t i = 0; i <= w->n; i++) word[i] = LLVMBuildSelect(e->b, odd, w->word[i + 1], w->word[i], "");
  for (uint32_t i = 0; i < w->n; i++) {
    LLVMValueRef both[3] = {word[i + 1], word[i], shift};
    LLVMValueRef one = tg_emit_call(e, "llvm.fshr", e->integer[32], both, 3);
    v = LLVMBuildInsertElement(e->b, v, one, LLVMConstInt(e->integer[32], i, 0), "");
  }
  return LLVMBuildBitCast(e->b, v, tg_emit_memory_type(e, tg_define_of(u->src[0])->type, u->lanes), "");
}
