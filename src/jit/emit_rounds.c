/* SPDX-License-Identifier: MIT
 * CPU: keeps the rounds of an unrolled sum of a tile of registers apart.
 *
 * LLVM orders the instructions of a block by their latencies. Where a pointer steps by a stride that is known at launch
 * only, it loads the vectors of all rounds while their addresses are at hand, and then has no registers for them: it
 * stores the vectors, and loads them again (docs/llvm.md). From the second round on an empty instruction stands before
 * each load behind a multiply-add. It takes all elements of the tile and gives them back, so no multiply-add passes it,
 * and no load. */
#include "jit/emit.h"

enum { LEAST = 16 };   /* bytes of a vector, and of the one kind that AArch64's inline assembly takes */

static bool is_cell(const tg_emitter *e, const tg_uop *access) {
  return e->buffers[(uint32_t)tg_define_of(access->src[0])->arg].memory == MEMORY_CELLS;
}

/* Is an element of a tile set to a sum? */
static bool sets_element(const tg_emitter *e, const tg_uop *u) {
  return u->op == TG_OP_STORE && u->src[1]->op == TG_OP_CONST && tg_stored(u)->op == TG_OP_FMA && is_cell(e, u);
}

static bool is_register(const tg_emitter *e, const tg_uop *value) {
  uint64_t bytes = (uint64_t)tg_type_bytes(value->type) * value->lanes;
  uint32_t most = e->target->arch == TG_ARCH_X86_64 ? e->target->vector_bytes : LEAST;
  bool type = value->type == TG_F32 || value->type == TG_F64;
  return type && bytes >= LEAST && bytes <= most && !(bytes & (bytes - 1));
}

static bool same_element(const tg_uop *a, const tg_uop *b) {
  return a->src[1]->arg == b->src[1]->arg && tg_define_of(a->src[0]) == tg_define_of(b->src[0]);
}

/* Vectors that are live at once beside the tile's elements. A load with one use becomes a memory operand of that. */
static uint32_t live_beside(const tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  typedef struct { uint32_t last, uses; } use;
  use *of = tg_new(&e->j->env, use, e->j->uops.n);
  uint32_t *ends = tg_new(&e->j->env, uint32_t, n), live = 0, most = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < list[i]->n; k++) of[list[i]->src[k]->id].last = i, of[list[i]->src[k]->id].uses++;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    bool load = u->op == TG_OP_LOAD, value = tg_is_float(u->type) && u->op != TG_OP_STORE && u->op != TG_OP_FMA;
    if (value && of[u->id].last > i && (!load || (!is_cell(e, u) && of[u->id].uses > 1)))
      live++, ends[of[u->id].last]++;
    if (live > most) most = live;
    live -= ends[i];
  }
  return most;
}

/* An address without its constant offsets. */
static const tg_uop *root_of(const tg_uop *at) {
  while (at->op == TG_OP_ADD) {
    bool fixed = at->src[1]->op == TG_OP_CONST || at->src[1]->op == TG_OP_IOTA;
    if (!fixed && at->src[0]->op != TG_OP_CONST && at->src[0]->op != TG_OP_IOTA) break;
    at = at->src[!fixed];
  }
  return at;
}

/* Have later rounds addresses that are no constant offsets from those of the first? first: its length. */
static bool has_own_addresses(const tg_emitter *e, const tg_uop *const *list, uint32_t n, uint32_t first) {
  const tg_uop **root = tg_new(&e->j->env, const tg_uop *, first + 1);
  uint32_t roots = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (list[i]->op != TG_OP_LOAD || is_cell(e, list[i])) continue;
    const tg_uop *r = root_of(list[i]->src[1]);
    uint32_t k = 0;
    while (k < roots && root[k] != r) k++;
    if (k == roots && i >= first) return true;
    if (k == roots) root[roots++] = r;
  }
  return false;
}

emit_rounds tg_emit_find_rounds(const tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  emit_rounds r = {.keeps = NULL};
  uint32_t last = 0, first = 0;
  bool *keeps = NULL, loads = false;
  if (e->device) return r;
  for (uint32_t i = 0; i < n; i++) {
    loads |= list[i]->op == TG_OP_LOAD && !is_cell(e, list[i]);
    if (!sets_element(e, list[i])) continue;
    if (!is_register(e, tg_stored(list[i]))) return r;
    if (!r.element) r.element = tg_new(&e->j->env, const tg_uop *, n), keeps = tg_new(&e->j->env, bool, n + 1);
    if (r.n && !first && same_element(r.element[0], list[i])) first = last + 1;
    if (!first) r.element[r.n++] = list[i];
    else if (loads) keeps[last + 1] = true;
    loads = false, last = i;
  }
  if (first && r.n > 1 && r.n + live_beside(e, list, n) <= e->target->vector_registers &&
      has_own_addresses(e, list, n, first))
    r.keeps = keeps;
  return r;
}

void tg_emit_keep_order(tg_emitter *e, const emit_rounds *r) {
  LLVMTypeRef *type = tg_new(&e->j->env, LLVMTypeRef, r->n);
  LLVMValueRef *value = tg_new(&e->j->env, LLVMValueRef, r->n);
  tg_str constraints = tg_str_new(&e->j->env);
  for (uint32_t i = 0; i < r->n; i++) {
    value[i] = tg_emit_cell(e, r->element[i])->now;
    type[i] = LLVMTypeOf(value[i]);
    tg_str_puts(&constraints, e->target->arch == TG_ARCH_X86_64 ? "=v," : "=w,");
  }
  for (uint32_t i = 0; i < r->n; i++) tg_str_printf(&constraints, "%s%u", i ? "," : "", i);
  LLVMTypeRef call = LLVMFunctionType(LLVMStructTypeInContext(e->c, type, r->n, 0), type, r->n, 0);
  LLVMValueRef nothing =
      LLVMGetInlineAsm(call, "", 0, constraints.data, constraints.n, 1, 0, LLVMInlineAsmDialectATT, 0);
  LLVMValueRef same = LLVMBuildCall2(e->b, call, nothing, value, r->n, "");
  for (uint32_t i = 0; i < r->n; i++)
    tg_emit_cell(e, r->element[i])->now = LLVMBuildExtractValue(e->b, same, i, "");
}
