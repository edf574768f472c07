/* SPDX-License-Identifier: MIT
 * On a device: accesses of single elements under one gate that stand side by side in their list (linear_gates.c) get
 * one branch. In it LLVM joins those that are neighbours in memory. */
#include "jit/emit_address.h"

enum { MOST = 32 };

static bool is_gated(const tg_emitter *e, const tg_uop *u, tg_op op) {
  const tg_uop *gate = u->op == op ? tg_gate(u) : NULL;
  if (!gate || gate->op == TG_OP_CONST || gate->lanes > 1 || u->src[1]->lanes > 1) return false;
  const tg_uop *define = tg_define_of(u->src[0]);
  if (define->lanes > 1 || define->type == TG_BOOL || u->arg & (TG_ASYNC | TG_ATOMIC)) return false;
  if (e->buffers[(uint32_t)define->arg].memory == MEMORY_CELLS) return false;
  return op == TG_OP_STORE ? tg_stored(u)->lanes == 1 : u->lanes == 1 && !(e->fragments && e->fragments[u->id]);
}

/* How many statements, from the first on, are accesses of one kind, buffer and gate; loads of inputs only. */
static uint32_t run_of(const tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  tg_op op = list[0]->op;
  uint32_t k = 0;
  if (op != TG_OP_LOAD && op != TG_OP_STORE) return 0;
  if (op == TG_OP_LOAD && e->j->buffers.data[tg_buffer_ordinal(list[0]->src[0])].role != TG_ROLE_IN) return 0;
  while (k < n && k < MOST && is_gated(e, list[k], op) && tg_gate(list[k]) == tg_gate(list[0]) &&
         tg_define_of(list[k]->src[0]) == tg_define_of(list[0]->src[0]))
    k++;
  return k;
}

static void load_all(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  LLVMValueRef p[MOST], in[2][MOST];
  uint32_t align[MOST];
  const tg_uop *define = tg_define_of(list[0]->src[0]);
  LLVMTypeRef type = tg_emit_memory_type(e, define->type, 1);
  for (uint32_t i = 0; i < n; i++) {
    p[i] = tg_emit_contiguous(e, list[i], 1, &align[i]);
    in[0][i] = tg_emit_get(e, tg_alternative(list[i]), 1);
  }
  LLVMValueRef open = tg_emit_get(e, tg_gate(list[0]), 1);
  LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->b), NULL}, after = tg_emit_open_gate(e, open);
  tg_device_keep_branch(e);
  for (uint32_t i = 0; i < n; i++) {
    LLVMSetAlignment(in[1][i] = LLVMBuildLoad2(e->b, type, p[i], ""), align[i]);
    tg_emit_mark_load(e, in[1][i], define);
  }
  from[1] = LLVMGetInsertBlock(e->b);
  tg_emit_close_gate(e, after);
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef phi = LLVMBuildPhi(e->b, type, ""), each[2] = {in[0][i], in[1][i]};
    LLVMAddIncoming(phi, each, from, 2);
    e->values[list[i]->id] = (emit_value){phi, e->stamp, (uint16_t)e->depth, 0};
  }
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
