/* SPDX-License-Identifier: MIT
 * On a device: accesses of single elements under one gate that stand side by side in their list (linear_gates.c) get
 * one branch. In it LLVM joins those that are neighbours in memory. Where loads may begin anywhere, neighbours under
 * several gates get a branch that is taken where all gates hold, as everywhere but at the end of a row; else each gate
 * has its own. */
#include "jit/emit_address.h"

enum { MOST = 32, UNIT = 16 /* bytes of the widest load */ };

static bool is_gated(const tg_emitter *e, const tg_uop *u, tg_op op) {
  const tg_uop *gate = u->op == op ? tg_gate(u) : NULL;
  if (!gate || gate->op == TG_OP_CONST || gate->lanes > 1 || u->src[1]->lanes > 1) return false;
  const tg_uop *define = tg_define_of(u->src[0]);
  if (define->lanes > 1 || define->type == TG_BOOL || u->arg & (TG_ASYNC | TG_ATOMIC)) return false;
  if (e->buffers[(uint32_t)define->arg].memory == MEMORY_CELLS) return false;
  return op == TG_OP_STORE ? tg_stored(u)->lanes == 1 : u->lanes == 1 && !(e->fragments && e->fragments[u->id]);
}

static bool in_unit(const tg_emitter *e, const tg_uop *u, const tg_uop *v) {
  int64_t by;
  return u->op == TG_OP_LOAD && tg_target_loads_anywhere(e->target) && tg_lies_behind(u, v, &by) && by > 0 &&
         by < UNIT / tg_type_bytes(u->type);
}

/* Do loads of the whole unit begin here? */
static bool begins_unit(const tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  uint32_t found = 1;
  for (uint32_t i = 1; i < n && i < MOST && is_gated(e, list[i], TG_OP_LOAD); i++)
    found += tg_define_of(list[i]->src[0]) == tg_define_of(list[0]->src[0]) && in_unit(e, list[0], list[i]);
  return found == UNIT / (uint32_t)tg_type_bytes(list[0]->type);
}

/* How many statements, from the first on, are accesses of one kind, buffer and gate, or of the same whole unit; loads
 * of inputs only. */
static uint32_t run_of(const tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  tg_op op = list[0]->op;
  uint32_t k = 0;
  if (op != TG_OP_LOAD && op != TG_OP_STORE) return 0;
  if (op == TG_OP_LOAD && e->j->buffers.data[tg_buffer_ordinal(list[0]->src[0])].role != TG_ROLE_IN) return 0;
  const bool unit = op == TG_OP_LOAD && begins_unit(e, list, n);
  while (k < n && k < MOST && is_gated(e, list[k], op) &&
         tg_define_of(list[k]->src[0]) == tg_define_of(list[0]->src[0]) &&
         (tg_gate(list[k]) == tg_gate(list[0]) || (unit && in_unit(e, list[0], list[k]))))
    k++;
  return k;
}

/* Loads side by side: n of them, with their places, and what each has where its gate does not hold. */
typedef struct {
  tg_emitter *e;
  const tg_uop *define, *const *list;
  LLVMTypeRef type;
  LLVMValueRef p[MOST], other[MOST], open[MOST];
  uint32_t align[MOST], n;
} loads;

static void load_open(const loads *r, uint32_t first, uint32_t end, LLVMValueRef *v) {
  tg_device_keep_branch(r->e);
  for (uint32_t i = first; i < end; i++) {
    LLVMSetAlignment(v[i] = LLVMBuildLoad2(r->e->b, r->type, r->p[i], ""), r->align[i]);
    tg_emit_mark_load(r->e, v[i], r->define);
  }
}

/* v of what two blocks have. */
static void join(const loads *r, uint32_t first, uint32_t end, LLVMValueRef *v, const LLVMValueRef *in[2],
                 LLVMBasicBlockRef from[2]) {
  for (uint32_t i = first; i < end; i++) {
    LLVMValueRef each[2] = {in[0][i], in[1][i]};
    LLVMAddIncoming(v[i] = LLVMBuildPhi(r->e->b, r->type, ""), each, from, 2);
  }
}

/* Those of one gate each in one branch. */
static void load_by_gates(const loads *r, LLVMValueRef *v) {
  for (uint32_t first = 0, end; first < r->n; first = end) {
    for (end = first + 1; end < r->n && r->open[end] == r->open[first];) end++;
    LLVMValueRef loaded[MOST];
    const LLVMValueRef *in[2] = {r->other, loaded};
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(r->e->b), NULL}, after = tg_emit_open_gate(r->e, r->open[first]);
    load_open(r, first, end, loaded);
    from[1] = LLVMGetInsertBlock(r->e->b);
    tg_emit_close_gate(r->e, after);
    join(r, first, end, v, in, from);
  }
}

static void load_whole_or_by_gates(const loads *r, LLVMValueRef all, LLVMValueRef *v) {
  LLVMValueRef whole[MOST], parts[MOST];
  const LLVMValueRef *in[2] = {whole, parts};
  LLVMBasicBlockRef from[2], after = LLVMAppendBasicBlockInContext(r->e->c, r->e->fn, "");
  LLVMBasicBlockRef rest = tg_emit_open_gate(r->e, all);
  load_open(r, 0, r->n, whole);
  from[0] = LLVMGetInsertBlock(r->e->b);
  LLVMBuildBr(r->e->b, after);
  LLVMPositionBuilderAtEnd(r->e->b, rest);
  load_by_gates(r, parts);
  from[1] = LLVMGetInsertBlock(r->e->b);
  LLVMBuildBr(r->e->b, after);
  LLVMPositionBuilderAtEnd(r->e->b, after);
  join(r, 0, r->n, v, in, from);
}

static void load_all(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  const tg_uop *define = tg_define_of(list[0]->src[0]);
  loads r = {.e = e, .define = define, .list = list, .type = tg_emit_memory_type(e, define->type, 1), .n = n};
  LLVMValueRef all = NULL, v[MOST];
  for (uint32_t i = 0; i < n; i++) {
    r.p[i] = tg_emit_contiguous(e, list[i], 1, &r.align[i]);
    r.other[i] = tg_emit_get(e, tg_alternative(list[i]), 1);
    r.open[i] = tg_emit_get(e, tg_gate(list[i]), 1);
    if (!i || r.open[i] != r.open[i - 1]) all = all ? LLVMBuildAnd(e->b, all, r.open[i], "") : r.open[i];
  }
  if (all == r.open[0]) load_by_gates(&r, v);
  else load_whole_or_by_gates(&r, all, v);
  for (uint32_t i = 0; i < n; i++) e->values[list[i]->id] = (emit_value){v[i], e->stamp, (uint16_t)e->depth, 0};
}

static void store_all(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  LLVMValueRef p[MOST], v[MOST];
  uint32_t align[MOST];
  for (uint32_t i = 0; i < n; i++) {
    p[i] = tg_emit_contiguous(e, list[i], 1, &align[i]);
    v[i] = tg_device_computed(e, list[i], tg_emit_get(e, tg_stored(list[i]), 1));
  }
  LLVMBasicBlockRef after = tg_emit_open_gate(e, tg_emit_get(e, tg_gate(list[0]), 1));
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef s = LLVMBuildStore(e->b, v[i], p[i]);
    LLVMSetAlignment(s, align[i]);
    if (list[i]->arg & TG_STREAM) LLVMSetMetadata(s, e->nontemporal_kind, LLVMMetadataAsValue(e->c, e->one_node));
  }
  tg_emit_close_gate(e, after);
}

uint32_t tg_emit_gated(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  uint32_t run = e->device ? run_of(e, list, n) : 0;
  if (run < 2) return 0;
  if (list[0]->op == TG_OP_LOAD) load_all(e, list, run);
  else {
    tg_emit_copies(e);
    store_all(e, list, run);
  }
  return run;
}
