/* SPDX-License-Identifier: MIT
 * Horizontal adds of several vectors at once. A tile ends with one FOLD (horizontal add) for each accumulator; alone, a
 * FOLD of sixteen lanes takes four steps of splitting a vector in halves and adding them. Here two vectors share each
 * addition: their low halves are put into one vector and their high halves into another, and so on with the result,
 * until each lane of one vector is the sum of one accumulator. Each sum is the same tree over the same lanes as in a
 * single FOLD, so the bits are equal. */
#include "jit/emit.h"

enum {
  MOST = 64 /* lanes */,
  AHEAD = 512 /* statements that are looked at */,
  LEAST = 4 /* bytes of an element */,
  BLOCK = 16 /* bytes of a block: shuffles within blocks are fast, and so are those of whole blocks */
};

/* The partial result of each fold is a segment of a vector: `length` lanes at stride `stride`. */
typedef struct { LLVMValueRef v; uint32_t owner[MOST]; } segments;

static LLVMValueRef shuffled(tg_emitter *e, LLVMValueRef a, LLVMValueRef b, const int32_t *from, uint32_t n) {
  LLVMValueRef mask[MOST];
  for (uint32_t i = 0; i < n; i++)
    mask[i] =
        from[i] < 0 ? LLVMGetPoison(e->integer[32]) : LLVMConstInt(e->integer[32], (unsigned long long)from[i], 0);
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, n), "");
}

/* Adds the high half of each segment of two vectors to its low half; all the sums fill one vector. Halves shorter than
 * a block stay in their block. */
static segments fold_two(tg_emitter *e, const tg_uop *u, const segments *a, const segments *b, uint32_t lanes,
                         uint32_t length) {
  uint32_t half = length / 2, block = BLOCK / (uint32_t)tg_type_bytes(u->type), part = half >= block ? lanes : block,
           n = 0;
  int32_t low[MOST], high[MOST];
  segments out;
  for (uint32_t at = 0; at < lanes; at += part)
    for (uint32_t which = 0; which < 2; which++)
      for (uint32_t s = at; s < at + part; s += length) {
        out.owner[n / half] = (which ? b : a)->owner[s / length];
        for (uint32_t i = 0; i < half; i++, n++)
          low[n] = (int32_t)(which * lanes + s + i), high[n] = low[n] + (int32_t)half;
      }
  out.v =
      tg_emit_op2(e, u->arg, u->type, lanes, shuffled(e, a->v, b->v, low, lanes), shuffled(e, a->v, b->v, high, lanes));
  return out;
}

/* The same for one vector: sums take the places of the low halves. */
static void fold_one(tg_emitter *e, const tg_uop *u, segments *a, uint32_t lanes, uint32_t stride, uint32_t length) {
  int32_t high[MOST];
  for (uint32_t i = 0; i < lanes; i++) high[i] = i % stride < length / 2 ? (int32_t)(i + length / 2) : -1;
  a->v = tg_emit_op2(e, u->arg, u->type, lanes, a->v, shuffled(e, a->v, a->v, high, lanes));
}

/* Emits n FOLDs; n is a power of two, and not above the number of lanes. */
static void fold_all(tg_emitter *e, const tg_uop *const *folds, uint32_t n) {
  const tg_uop *first = folds[0];
  uint32_t lanes = first->src[0]->lanes, length = lanes, stride = lanes;
  segments all[MOST];
  for (uint32_t i = 0; i < n; i++) all[i].v = tg_emit_get(e, folds[i]->src[0], lanes), all[i].owner[0] = i;
  for (uint32_t left = n; length > 1; length /= 2)
    if (left > 1) {
      left /= 2, stride = length / 2;
      for (uint32_t i = 0; i < left; i++) all[i] = fold_two(e, first, &all[2 * i], &all[2 * i + 1], lanes, length);
    } else fold_one(e, first, &all[0], lanes, stride, length);
  for (uint32_t s = 0; s < n; s++) {
    LLVMValueRef r =
        LLVMBuildExtractElement(e->b, all[0].v, LLVMConstInt(e->integer[32], (unsigned long long)s * stride, 0), "");
    e->values[folds[all[0].owner[s]]->id] = (emit_value){r, e->stamp, (uint16_t)e->depth, TOGETHER};
  }
}

static bool is_there(const tg_emitter *e, const tg_uop *u) {
  return e->values[u->id].stamp == e->stamp && e->values[u->id].v;
}

static bool is_cell(const tg_emitter *e, const tg_uop *u) {
  const emit_buffer *b = u->op == TG_OP_LOAD && !tg_gate(u) && u->n > 1 && u->src[1]->op == TG_OP_CONST
                             ? &e->buffers[tg_buffer_ordinal(u->src[0])]
                             : NULL;
  return b && b->memory == MEMORY_CELLS && !b->tiles;
}

/* May the later fold be computed here already? A register element may be read early if nothing writes it before that
 * fold; any other value must have been computed and must not change in between. */
static bool comes_early(const tg_emitter *e, const tg_uop *u, const tg_uop *const *list, uint32_t n) {
  if (is_cell(e, u)) return true;
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == u) return false;
  return is_there(e, u);
}

static bool is_alike(const tg_uop *u, const tg_uop *first) {
  return u->op == TG_OP_FOLD && u->arg == first->arg && u->type == first->type &&
         u->src[0]->lanes == first->src[0]->lanes;
}

void tg_emit_folds(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  const tg_uop *first = list[0], *folds[MOST];
  uint32_t lanes = first->src[0]->lanes, found = 0, wanted = 1;
  if ((is_there(e, first) && e->values[first->id].chain == TOGETHER) || e->device || lanes < 2 || lanes > MOST ||
      lanes & (lanes - 1) || tg_type_bytes(first->type) < LEAST || lanes * (uint32_t)tg_type_bytes(first->type) < BLOCK)
    return;
  for (uint32_t i = 0; i < n && i < AHEAD && found < lanes && list[i]->op != TG_OP_END &&
                       list[i]->op != TG_OP_BARRIER && list[i]->op != TG_OP_WAIT;
       i++) {
    if (list[i]->op == TG_OP_STORE && e->buffers[tg_buffer_ordinal(list[i]->src[0])].memory == MEMORY_CELLS) break;
    if (is_alike(list[i], first) && comes_early(e, list[i]->src[0], list, i)) folds[found++] = list[i];
  }
  if (found < 2) return;
  while (wanted * 2 <= found) wanted *= 2;
  for (uint32_t i = 0; i < wanted; i++)
    if (is_cell(e, folds[i]->src[0])) tg_emit_value_statement(e, folds[i]->src[0]);
  fold_all(e, folds, wanted);
}
