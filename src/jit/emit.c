/* SPDX-License-Identifier: MIT
 * A linear program to an LLVM module: phases become functions, loops become basic blocks, and register buffers in SSA
 * form become phis.
 *
 * Needs the form that docs/ir.md calls linear. The module is final: it needs no further pass. Each phase is emitted
 * independently. A value computed between phases that depends only on parameters, inputs and the counters of loops
 * around is recomputed in each phase that needs it; other values, and buffers that several phases use, are kept in the
 * shared memory. */
#include <stdio.h>
#include "jit/emit.h"

/* ---- what is where ---- */

static uint64_t round64(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

static uint64_t constant_size(tg_emitter *e, const tg_uop *define, uint64_t *elements) {
  const tg_buffer *info = &e->j->buffers.data[(uint32_t)define->arg];
  uint64_t n = 1;
  for (uint32_t i = 0; i < info->rank; i++) {
    if (define->src[i]->op != TG_OP_CONST)
      tg_fail_at(e->j, info->pos, "the size of '%s' must be known when the kernel is compiled", info->name);
    n *= define->src[i]->arg > 0 ? (uint64_t)define->src[i]->arg : 0;
    if (n > (uint64_t)1 << 40) tg_fail_at(e->j, info->pos, "'%s' is too large", info->name);
  }
  *elements = n;
  return round64(n * define->lanes * (uint64_t)tg_type_bytes(define->type));
}

static void survey(tg_emitter *e, const tg_uop *u, uint32_t loop, bool top) {
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) survey(e, u->src[i], loop, false);
  if (u->op != TG_OP_DEFINE) return;
  uint32_t ordinal = (uint32_t)u->arg;
  const tg_buffer *info = &e->j->buffers.data[ordinal];
  emit_buffer *b = &e->buffers[ordinal];
  b->define = u;
  b->top = top;
  b->loop = loop;
  if (info->role != TG_ROLE_TEMP) b->position = e->globals++;
  else if (e->device && info->space == TG_SPACE_LOCAL) b->memory = MEMORY_LOCAL;
  else b->memory = info->space == TG_SPACE_REG && info->place == TG_PLACE_SSA ? MEMORY_CELLS : MEMORY_PRIVATE;
}

static bool is_leaf(const tg_uop *u) { return u->op == TG_OP_CONST || u->op == TG_OP_PARAM || u->op == TG_OP_IOTA; }
static bool is_value(const tg_uop *u) {
  return !tg_emit_is_effect(u) && !is_leaf(u) && u->op != TG_OP_DEFINE && u->op != TG_OP_AFTER && u->op != TG_OP_RANGE;
}

static bool purity(const tg_emitter *e, const tg_uop *u) {
  uint32_t first = u->op == TG_OP_LOAD;
  if (first && e->j->buffers.data[tg_buffer_ordinal(u->src[0])].role != TG_ROLE_IN) return false;
  for (uint32_t i = first; i < u->n; i++)
    if (!is_leaf(u->src[i]) && !e->pure[u->src[i]->id]) return false;
  return true;
}

static bool is_phase(const tg_emitter *e, const tg_uop *u) {
  return u->op == TG_OP_END && tg_range_kind(u->src[0]) == (e->device ? TG_GLOBAL : TG_THREAD);
}

/* Is it a loop around phases? Only on a host: there the launcher runs it. */
static bool has_phases(const tg_emitter *e, const tg_uop *u) {
  if (e->device || u->op != TG_OP_END || tg_range_kind(u->src[0]) == TG_THREAD) return false;
  for (uint32_t i = 1; i < u->n; i++)
    if (is_phase(e, u->src[i]) || has_phases(e, u->src[i])) return true;
  return false;
}

static void find_phases(tg_emitter *e, const tg_uop *const *list, uint32_t n, uint32_t loop);

static void find_phases_of_loop(tg_emitter *e, const tg_uop *u, uint32_t outer) {
  uint32_t loop = e->loops.n, at = e->steps.n, depth = outer == (uint32_t)NO_LOOP ? 0 : e->loops.data[outer].depth + 1;
  tg_push(&e->j->env, &e->loops, ((emit_loop_of_phases){u, outer, depth}));
  tg_push(&e->j->env, &e->items, ((emit_item){u, (uint32_t)NO_PHASE, outer}));
  tg_push(&e->j->env, &e->steps, ~(int64_t)loop);
  tg_push(&e->j->env, &e->steps, 0);
  e->pure[u->src[0]->id] = true;
  find_phases(e, u->src + 1, u->n - 1, loop);
  e->steps.data[at + 1] = e->steps.n - at - 2;
}

/* Each thread loop that has only loops of phases around it is a phase (on a GPU: each outermost global range, as one
 * launch). The statements between two of them form a phase with a single task. */
static void find_phases(tg_emitter *e, const tg_uop *const *list, uint32_t n, uint32_t loop) {
  bool open = false;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (has_phases(e, u)) {
      find_phases_of_loop(e, u, loop);
      open = false;
      continue;
    }
    survey(e, u, loop, true);
    tg_push(&e->j->env, &e->items, ((emit_item){u, (uint32_t)NO_PHASE, loop}));
    if (is_value(u)) e->pure[u->id] = purity(e, u);
    /* a phase begins after the one before has ended, so barriers are dropped; pure values belong to no phase */
    if (u->op == TG_OP_BARRIER || (!tg_emit_is_effect(u) && !(is_value(u) && !e->pure[u->id]))) continue;
    bool thread = is_phase(e, u);
    if (thread || !open) {
      tg_push(&e->j->env, &e->steps, (int64_t)e->phases.n);
      tg_push(&e->j->env, &e->phases, ((emit_phase){.thread = thread ? u : NULL, .loop = loop}));
    }
    if (thread && tg_range_static(u->src[0]) && e->phases.n <= 64) e->in_shares |= (uint64_t)1 << (e->phases.n - 1);
    open = !thread;
    e->items.data[e->items.n - 1].phase = e->phases.n - 1;
  }
}

/* Marks all nodes below root that phase p needs with e->wanted. */
static void mark_needed(tg_emitter *e, const tg_uop *root, uint32_t p) {
  TG_VEC(const tg_uop *) stack = {0};
  tg_push(&e->j->env, &stack, root);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (e->need[u->id] == e->wanted || u->op == TG_OP_DEFINE) continue;
    e->need[u->id] = e->wanted;
    bool access = u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH;
    if (access) {
      emit_buffer *b = &e->buffers[tg_buffer_ordinal(u->src[0])];
      if (!b->phase) b->phase = p + 1;
      if (b->phase != p + 1 || (b->top && (e->phases.data[p].thread || e->phases.data[p].loop != b->loop)))
        b->many = true;
    }
    if (u->op == TG_OP_RANGE && e->pure[u->id]) continue;   /* counted by the launcher */
    for (uint32_t i = access; i < u->n; i++)
      if (e->need[u->src[i]->id] != e->wanted && u->src[i]->n) tg_push(&e->j->env, &stack, u->src[i]);
  }
}

static emit_slot *slot_of(tg_emitter *e, const tg_uop *u) {
  for (uint32_t i = 0; i < e->slots.n; i++)
    if (e->slots.data[i].u == u) return &e->slots.data[i];
  return NULL;
}

static void mark_phase(tg_emitter *e, uint32_t p) {
  e->wanted++;
  for (uint32_t i = 0; i < e->items.n; i++)
    if (e->items.data[i].phase == p) mark_needed(e, e->items.data[i].u, p);
}

static void find_memory(tg_emitter *e) {
  for (uint32_t i = 0; i < e->loops.n; i++)
    /* room for the counters that the launcher keeps */
    if (e->shared_at < round64(8 * (e->loops.data[i].depth + 1)))
      e->shared_at = round64(8 * (e->loops.data[i].depth + 1));
  for (uint32_t p = 0; p < e->phases.n; p++) {
    mark_phase(e, p);
    e->phases.data[p].list = tg_new(&e->j->env, uint32_t, e->items.n);
    for (uint32_t i = 0; i < e->items.n; i++) {
      const tg_uop *u = e->items.data[i].u;
      uint32_t at = e->items.data[i].phase;
      bool mine = at == p, before = at == (uint32_t)NO_PHASE || at < p;
      if (u->op == TG_OP_DEFINE || mine || (before && is_value(u) && e->need[u->id] == e->wanted))
        e->phases.data[p].list[e->phases.data[p].n++] = i;
      if (at == (uint32_t)NO_PHASE || mine || !is_value(u) || e->need[u->id] != e->wanted || e->pure[u->id] ||
          slot_of(e, u))
        continue;
      tg_push(&e->j->env, &e->slots, ((emit_slot){u, e->shared_at}));
      e->shared_at += round64((uint64_t)tg_type_bytes(u->type) * u->lanes);
    }
  }
  bool alone = e->phases.n == 1 && !e->phases.data[0].thread && !e->loops.n;   /* the kernel is a single task */
  for (uint32_t i = 0; i < e->j->buffers.n; i++) {
    emit_buffer *b = &e->buffers[i];
    uint64_t elements, bytes;
    if (!b->define || b->memory == MEMORY_GLOBAL) continue;
    if (b->top && (b->many || (b->memory != MEMORY_CELLS && !e->device && !alone))) b->memory = MEMORY_SHARED;
    if (e->device && b->memory == MEMORY_PRIVATE)
      tg_fail_at(e->j, e->j->buffers.data[i].pos,
                 "'%s' does not fit the registers of a thread of %s, and threads have no memory of their own there\n"
                 "make the tile smaller, or split and unroll what indexes it so that every subscript is constant",
                 e->j->buffers.data[i].name, e->target->name);
    bytes = b->bytes = constant_size(e, b->define, &elements);
    if (b->memory == MEMORY_SHARED) {
      b->offset = e->shared_at;
      e->shared_at += bytes;
    } else if (b->memory == MEMORY_CELLS) {
      if (elements > 1 << 16)
        tg_bug(&e->j->env, "linear form: %s has %llu elements in SSA form", e->j->buffers.data[i].name,
               (unsigned long long)elements);
      b->cells = tg_new(&e->j->env, emit_cell, elements + 1);   /* one for gated accesses beyond */
      b->cells_n = (uint32_t)elements;
    }
  }
}

/* ---- statements ---- */

static void emit_define(tg_emitter *e, const tg_uop *u) {
  emit_buffer *b = &e->buffers[(uint32_t)u->arg];
  if (b->memory == MEMORY_CELLS)
    for (uint32_t i = 0; i <= b->cells_n && b->cells; i++) b->cells[i].now = NULL;
  if (b->memory != MEMORY_PRIVATE) return;
  uint64_t elements;
  b->offset = e->private_at;
  b->stamp = 0;
  e->private_at += constant_size(e, u, &elements);
  if (e->private_at > e->private_top) e->private_top = e->private_at;
}

void tg_emit_value_statement(tg_emitter *e, const tg_uop *u) {
  emit_value *known = &e->values[u->id];
  /* Emitted together with an earlier FOLD. That counts once: the node may be a statement again later, when a register
   * that it reads has changed. */
  if (u->op == TG_OP_FOLD && known->stamp == e->stamp && known->chain == TOGETHER) {
    known->chain = 0;
    return;
  }
  if (tg_emit_put_off(e, u)) return;
  LLVMValueRef v = u->op == TG_OP_LOAD ? tg_emit_load(e, u) : tg_emit_alu(e, u);
  e->values[u->id] = (emit_value){v, e->stamp, (uint16_t)e->depth, 0};
}

/* A cell that the loop changes: its value before the loop and its phi at the loop's head. After the loop it has the
 * value of the last iteration or, if the loop may be skipped, a phi of that and of the value before. */
typedef struct { emit_cell *cell; LLVMValueRef before, phi; } carried;
typedef TG_VEC(carried) carried_list;

static void find_carried(tg_emitter *e, const tg_uop *u, uint32_t mark, carried_list *list) {
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) find_carried(e, u->src[i], mark, list);
  if (u->op == TG_OP_DEFINE) e->buffers[(uint32_t)u->arg].inside = mark;
  if (u->op != TG_OP_STORE) return;
  emit_buffer *b = &e->buffers[tg_buffer_ordinal(u->src[0])];
  if (b->memory != MEMORY_CELLS || b->inside == mark) return;
  emit_cell *c = tg_emit_cell(e, u);
  if (c->mark == mark) return;
  c->mark = mark;
  LLVMTypeRef type = tg_emit_type(e, b->define->type, tg_emit_store_lanes(u));
  if (b->tiles) {
    tg_push(&e->j->env, list, ((carried){c, c->now ? c->now : tg_emit_tile(e, NULL), NULL}));
    return;
  }
  if (c->now && LLVMTypeOf(c->now) != type)
    tg_bug(&e->j->env, "linear form: %s in SSA form is written in two widths",
           e->j->buffers.data[(uint32_t)b->define->arg].name);
  tg_push(&e->j->env, list, ((carried){c, c->now ? c->now : LLVMConstNull(type), NULL}));
}

/* pre: the block before the loop. ready: the block for values hoisted out of the loop: one behind the guard if the loop
 * may be skipped and is inside another loop; else pre. */
typedef struct {
  LLVMBasicBlockRef pre, ready, head, exit;
  LLVMValueRef i, extent;
  carried_list carried;
  bool guarded;
  uint32_t memos, made;
} loop;

static void open_loop(tg_emitter *e, const tg_uop *u, loop *l) {
  const tg_uop *range = u->src[0], *extent = tg_extent(range);
  uint32_t mark = ++e->mark;
  for (uint32_t i = 1; i < u->n; i++) find_carried(e, u->src[i], mark, &l->carried);
  l->extent = tg_emit_get(e, extent, 1);
  l->guarded = extent->op != TG_OP_CONST;
  l->pre = LLVMGetInsertBlock(e->b);
  l->head = LLVMAppendBasicBlockInContext(e->c, e->fn, e->j->ranges.data[tg_range_ordinal(range)].name);
  l->exit = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  LLVMTypeRef type = LLVMTypeOf(l->extent);
  LLVMValueRef zero = LLVMConstNull(type);
  if (e->depth + 1 >= MAX_DEPTH) tg_fail(&e->j->env, TG_ELIMIT, "loops nested more than %d deep", MAX_DEPTH - 1);
  l->ready = l->pre;
  l->memos = e->memos.n, l->made = e->made.n;
  if (l->guarded && e->depth) l->ready = LLVMInsertBasicBlockInContext(e->c, l->head, "");
  if (l->guarded)
    e->before[e->depth] = LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, l->extent, zero, ""),
                                          l->ready == l->pre ? l->head : l->ready, l->exit);
  LLVMPositionBuilderAtEnd(e->b, l->ready);
  if (!l->guarded || l->ready != l->pre) e->before[e->depth] = LLVMBuildBr(e->b, l->head);
  e->depth++;
  LLVMPositionBuilderAtEnd(e->b, l->head);
  l->i = LLVMBuildPhi(e->b, type, e->j->ranges.data[tg_range_ordinal(range)].name);
  LLVMAddIncoming(l->i, &zero, &l->ready, 1);
  for (uint32_t i = 0; i < l->carried.n; i++) {
    carried *c = &l->carried.data[i];
    c->phi = LLVMBuildPhi(e->b, LLVMTypeOf(c->before), "");
    LLVMAddIncoming(c->phi, &c->before, &l->ready, 1);
    c->cell->now = c->phi;
  }
  e->values[range->id] = (emit_value){l->i, e->stamp, (uint16_t)e->depth, 0};
}

static void close_loop(tg_emitter *e, loop *l) {
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
  LLVMValueRef next = LLVMBuildAdd(e->b, l->i, LLVMConstInt(LLVMTypeOf(l->i), 1, 0), "");
  LLVMSetNSW(next, 1); /* no overflow: it is at most the extent */
  LLVMSetNUW(next, 1);
  LLVMValueRef back = LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l->extent, ""), l->head, l->exit);
  if (e->device) tg_device_loop(e, back);
  LLVMAddIncoming(l->i, &next, &latch, 1);
  tg_emit_memo_drop(e, l->memos, e->depth);
  e->depth--;
  if (l->ready != l->pre) {   /* values in that block do not dominate the code after the loop */
    tg_emit_memo_drop(e, l->memos, e->depth);
    for (uint32_t i = l->made; i < e->made.n; i++)
      if (e->values[e->made.data[i]].depth == e->depth) e->values[e->made.data[i]].v = NULL;
  }
  LLVMPositionBuilderAtEnd(e->b, l->exit);
  for (uint32_t i = 0; i < l->carried.n; i++) {
    carried *c = &l->carried.data[i];
    LLVMValueRef last = c->cell->now;
    LLVMAddIncoming(c->phi, &last, &latch, 1);
    if (!l->guarded) continue;
    c->cell->now = LLVMBuildPhi(e->b, LLVMTypeOf(last), "");
    LLVMAddIncoming(c->cell->now, &last, &latch, 1);
    LLVMAddIncoming(c->cell->now, &c->before, &l->pre, 1);
  }
}

static void emit_loop(tg_emitter *e, const tg_uop *u) {
  const tg_uop *range = u->src[0], *extent = tg_extent(range);
  if (extent->op == TG_OP_CONST && extent->arg <= 0) return;
  if (e->device && (tg_range_kind(range) == TG_LOCAL || tg_range_kind(range) == TG_LANE)) {
    tg_device_threads(e, u);
    return;
  }
  /* a block index already, so no loop */
  if (e->device && tg_range_kind(range) == TG_GLOBAL && e->values[range->id].stamp == e->stamp) {
    tg_emit_list(e, u->src + 1, u->n - 1);
    return;
  }
  uint64_t private_at = e->private_at;
  if (extent->op == TG_OP_CONST && extent->arg == 1) {
    e->values[range->id] =
        (emit_value){LLVMConstNull(tg_emit_type(e, extent->type, 1)), e->stamp, (uint16_t)e->depth, 0};
    tg_emit_list(e, u->src + 1, u->n - 1);
  } else {
    loop l = {.head = NULL};
    open_loop(e, u, &l);
    tg_emit_list(e, u->src + 1, u->n - 1);
    close_loop(e, &l);
  }
  e->private_at = private_at;
}

static void emit_statement(tg_emitter *e, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE) emit_define(e, u);
  else if (u->op == TG_OP_STORE) tg_emit_store(e, u);
  else if (u->op == TG_OP_PREFETCH) tg_emit_prefetch(e, u);
  else if (u->op == TG_OP_END) emit_loop(e, u);
  else if (u->op == TG_OP_BARRIER && e->device) tg_device_barrier(e);
  else if (u->op == TG_OP_WAIT && e->device) tg_device_wait(e, u);
  else if (is_value(u)) tg_emit_value_statement(e, u);
}

/* LLVM's instruction selection takes time quadratic in the length of a basic block, so very long code is divided into
 * short blocks. */
static void end_long_block(tg_emitter *e) {
  if (!e->in_short_blocks || ++e->in_block % BLOCK_STATEMENTS) return;
  LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  LLVMBuildBr(e->b, next);
  LLVMPositionBuilderAtEnd(e->b, next);
}

void tg_emit_list(tg_emitter *e, const tg_uop *const *list, uint32_t n) {
  emit_rounds rounds = tg_emit_find_rounds(e, list, n);
  for (uint32_t i = 0, next = 0; i < n; i++) {
    if (rounds.keeps && rounds.keeps[i]) tg_emit_keep_order(e, &rounds);
    if (e->di) { /* a value gets the line of the next statement that has an effect */
      if (next < i) next = i;
      while (next < n && !tg_emit_is_effect(list[next])) next++;
      if (next < n) tg_emit_debug_statement(e, list[next]);
    }
    uint32_t gated = tg_emit_gated(e, list + i, n - i);
    if (gated) {
      i += gated - 1;
      continue;
    }
    if (list[i]->op == TG_OP_FOLD) tg_emit_folds(e, list + i, n - i);
    if (tg_emit_is_effect(list[i]) && !(list[i]->op == TG_OP_STORE && list[i]->arg & TG_ASYNC)) tg_emit_copies(e);
    emit_statement(e, list[i]);
    end_long_block(e);
  }
  tg_emit_copies(e);
}

/* ---- functions ---- */

void tg_emit_attribute(tg_emitter *e, LLVMValueRef fn, const char *name, const char *value) {
  LLVMAddAttributeAtIndex(
      fn, LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(e->c, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void tg_emit_begin(tg_emitter *e, LLVMValueRef fn, const char *name) {
  e->fn = fn;
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
  if (!e->tasks) tg_emit_attribute(e, fn, "target-cpu", e->target->cpu);
  if (!e->tasks) tg_emit_attribute(e, fn, "target-features", e->target->features);
  if (e->target->tune[0]) tg_emit_attribute(e, fn, "tune-cpu", e->target->tune);
  if (e->target->vector_bytes == 64) tg_emit_attribute(e, fn, "prefer-vector-width", "512");
  /* Without it the places of spilled vectors are aligned to 16 bytes alone, as the stack is, and most of wider ones
   * cross a line. */
  if (!e->device && !e->tasks && e->target->arch == TG_ARCH_X86_64 && e->target->vector_bytes > 16)
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("alignstack", 10),
                                                    e->target->vector_bytes));
  /* A frame of many spilled registers may be larger than the guard page below a thread's stack: each page is touched in
   * turn, so that a small stack ends in a fault and never in memory of others. */
  if (!e->device && !e->tasks) tg_emit_attribute(e, fn, "probe-stack", "inline-asm");
  if (e->target->sve_bytes) {   /* lets vectors of fixed length use SVE registers, which have at least sve_bytes */
    enum { SVE_UNIT = 16, SVE_MOST = 16 };
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("vscale_range", 12),
                                                    (uint64_t)(e->target->sve_bytes / SVE_UNIT) << 32 | SVE_MOST));
  }
  e->stamp++;
  e->uncut = false;
  e->depth = 0;
  e->private_at = DUMMY_BYTES;
  e->memos.n = e->made.n = 0;
  memset(e->buckets, 0, sizeof e->buckets);
  for (uint32_t i = 0; i < e->j->buffers.n; i++) e->buffers[i].pointer = NULL;
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->c, fn, "entry"));
  if (e->di) tg_emit_debug_function(e, fn, name);
}

static void begin_function(tg_emitter *e, const char *name, LLVMTypeRef result, unsigned n) {
  LLVMTypeRef types[4] = {e->ptr, e->ptr, e->ptr, e->integer[64]};
  LLVMValueRef fn = LLVMAddFunction(e->m, name, LLVMFunctionType(result, types, n, 0));
  tg_emit_begin(e, fn, name);
  e->buffers_arg = LLVMGetParam(fn, 0);
  e->params_arg = LLVMGetParam(fn, 1);
  e->workspace_arg = LLVMGetParam(fn, n > 2 ? 2 : 0); /* or any readable address, for gated loads */
  e->task_arg = n > 3 ? LLVMGetParam(fn, 3) : NULL;
}

static LLVMValueRef shared_pointer(tg_emitter *e, uint64_t bytes) {
  LLVMValueRef at = LLVMConstInt(e->integer[64], e->globals, 0), offset = LLVMConstInt(e->integer[64], bytes, 0);
  LLVMValueRef p = e->device || e->tasks
                       ? tg_device_buffer(e, e->globals)
                       : LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, e->buffers_arg, &at, 1, ""), "");
  return LLVMBuildGEP2(e->b, e->integer[8], p, &offset, 1, "");
}

/* Gives the ranges of the loops of phases around their values: the counters that the launcher keeps at the start of the
 * shared memory. */
static void emit_counters(tg_emitter *e, uint32_t inner) {
  for (uint32_t l = inner; l != (uint32_t)NO_LOOP; l = e->loops.data[l].outer) {
    const tg_uop *range = e->loops.data[l].end->src[0];
    LLVMTypeRef type = tg_emit_type(e, range->type, 1);
    LLVMValueRef i = LLVMBuildLoad2(e->b, e->integer[64], shared_pointer(e, 8 * e->loops.data[l].depth),
                                    e->j->ranges.data[tg_range_ordinal(range)].name);
    e->values[range->id] = (emit_value){type == e->integer[64] ? i : LLVMBuildTrunc(e->b, i, type, ""), e->stamp, 0, 0};
  }
}

/* Emits item i, which is on the list of phase p. */
static void emit_top(tg_emitter *e, uint32_t i, uint32_t p) {
  const tg_uop *u = e->items.data[i].u;
  bool mine = e->items.data[i].phase == p;
  if (e->di && tg_emit_is_effect(u)) tg_emit_debug_statement(e, u);
  if (u->op == TG_OP_DEFINE) emit_define(e, u);
  else if (is_value(u) && (mine || e->pure[u->id])) {
    emit_statement(e, u);
    emit_slot *s = mine ? slot_of(e, u) : NULL;
    if (s) LLVMSetAlignment(LLVMBuildStore(e->b, tg_emit_get(e, u, u->lanes), shared_pointer(e, s->offset)), 64);
  } else if (is_value(u)) {
    LLVMValueRef v =
        LLVMBuildLoad2(e->b, tg_emit_type(e, u->type, u->lanes), shared_pointer(e, slot_of(e, u)->offset), "");
    LLVMSetAlignment(v, 64);
    e->values[u->id] = (emit_value){v, e->stamp, 0, 0};
  } else if (mine && e->device && is_phase(e, u)) tg_device_grid(e, u);
  else if (mine && is_phase(e, u)) {
    LLVMTypeRef type = tg_emit_type(e, tg_extent(u->src[0])->type, 1);
    LLVMValueRef t = type == e->integer[64] ? e->task_arg : LLVMBuildTrunc(e->b, e->task_arg, type, "");
    e->values[u->src[0]->id] = (emit_value){t, e->stamp, 0, 0};
    tg_emit_list(e, u->src + 1, u->n - 1);
  } else if (mine) emit_statement(e, u);
}

/* Emits the FOLD at place i of phase p's list together with similar ones that follow, among the phase's own
 * statements. */
static void emit_top_folds(tg_emitter *e, uint32_t i, uint32_t p) {
  const emit_phase *phase = &e->phases.data[p];
  TG_VEC(const tg_uop *) run = {0};
  for (; i < phase->n; i++)
    if (e->items.data[phase->list[i]].phase == p) tg_push(&e->j->env, &run, e->items.data[phase->list[i]].u);
  if (run.n) tg_emit_folds(e, run.data, run.n);
}

/* Writes to the start of the workspace once, so that its page is mapped: masked loads from an untouched page would be
 * as slow as from an unmapped one. */
static void touch_workspace(tg_emitter *e) {
  LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(e->fn));
  if (!e->nowhere || !first) return;
  LLVMPositionBuilderBefore(e->b, first);
  LLVMBuildStore(e->b, LLVMConstInt(e->integer[64], 0, 0), e->workspace_arg);
}

static void emit_phase_function(tg_emitter *e, uint32_t p, bool unaligned) {
  e->nowhere = false;
  if (e->device) tg_device_begin_phase(e, p, unaligned);
  else if (e->tasks) tg_tasks_begin_task(e, p);
  else
    begin_function(e, tg_format(&e->j->env, "%s.%u%s", e->j->name, p, unaligned ? ".unaligned" : ""),
                   LLVMVoidTypeInContext(e->c), 4);
  emit_counters(e, e->phases.data[p].loop);
  for (uint32_t i = 0; i < e->phases.data[p].n; i++) {
    uint32_t item = e->phases.data[p].list[i];
    if (e->items.data[item].u->op == TG_OP_FOLD && e->items.data[item].phase == p) emit_top_folds(e, i, p);
    emit_top(e, item, p);
    end_long_block(e);
  }
  /* the next phase must see streamed data, on whichever core it runs */
  if (e->streaming && e->streamed && e->target->arch == TG_ARCH_X86_64) {
    unsigned id = LLVMLookupIntrinsicID("llvm.x86.sse.sfence", 19);
    LLVMValueRef fence = LLVMGetIntrinsicDeclaration(e->m, id, NULL, 0);
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fence), fence, NULL, 0, "");
  }
  LLVMBuildRetVoid(e->b);
  if (e->target->arch == TG_ARCH_AMDGPU) tg_emit_products(e, e->fn);
  if (e->target->arch == TG_ARCH_NVPTX) tg_emit_halves(e, e->fn);
  if (e->device) tg_emit_unpack(e, e->fn);
  if (e->device || e->tasks) return;
  if (e->uncut) tg_emit_registers(e, e->fn);
  touch_workspace(e);
}

/* How many tasks a phase has, or how many turns a loop of phases: the extent of end's range, within the loop of phases
 * `around`. end NULL: 1. At the start of a function. */
static LLVMValueRef count_of(tg_emitter *e, const tg_uop *end, uint32_t around) {
  if (!end) return LLVMConstInt(e->integer[64], 1, 0);
  e->wanted++;
  mark_needed(e, tg_extent(end->src[0]), 0);
  emit_counters(e, around);
  for (uint32_t i = 0; e->items.data[i].u != end; i++) {
    const tg_uop *u = e->items.data[i].u;
    if (!is_value(u) || e->need[u->id] != e->wanted) continue;
    if (!e->pure[u->id]) tg_bug(&e->j->env, "linear form: the number of tasks depends on what the kernel writes");
    tg_emit_value_statement(e, u);
  }
  LLVMValueRef n = tg_emit_get(e, tg_extent(end->src[0]), 1);
  return LLVMTypeOf(n) == e->integer[64] ? n : LLVMBuildSExt(e->b, n, e->integer[64], "");
}

/* A function that returns that number. */
static void emit_count_function(tg_emitter *e, const char *name, const tg_uop *end, uint32_t around) {
  begin_function(e, name, e->integer[64], 2);
  LLVMBuildRet(e->b, count_of(e, end, around));
}

static void emit_count_functions(tg_emitter *e) {
  for (uint32_t p = 0; p < e->phases.n; p++)
    emit_count_function(e, tg_format(&e->j->env, "%s.%u.tasks", e->j->name, p), e->phases.data[p].thread,
                        e->phases.data[p].loop);
  for (uint32_t i = 0; i < e->loops.n; i++)
    emit_count_function(e, tg_format(&e->j->env, "%s.%u.turns", e->j->name, i), e->loops.data[i].end,
                        e->loops.data[i].outer);
}

/* Kernels that run the tasks of each phase, and that store the number of turns of each loop of phases in the place of
 * its counter. */
static void emit_kernels(tg_emitter *e) {
  for (uint32_t p = 0; p < e->phases.n; p++) {
    tg_tasks_begin_kernel(e, "phase", p);
    tg_tasks_run(e, p, count_of(e, e->phases.data[p].thread, e->phases.data[p].loop), round64(e->private_top));
    LLVMBuildRetVoid(e->b);
  }
  for (uint32_t i = 0; i < e->loops.n; i++) {
    tg_tasks_begin_kernel(e, "turns", i);
    LLVMValueRef n = count_of(e, e->loops.data[i].end, e->loops.data[i].outer);
    LLVMBuildStore(e->b, n, shared_pointer(e, 8 * e->loops.data[i].depth));
    LLVMBuildRetVoid(e->b);
  }
}

static void prepare(tg_emitter *e) {
  uint32_t n = e->j->uops.n;
  e->values = tg_new(&e->j->env, emit_value, n);
  e->need = tg_new(&e->j->env, uint32_t, n);
  e->pure = tg_new(&e->j->env, uint8_t, n);
  e->buffers = tg_new(&e->j->env, emit_buffer, e->j->buffers.n + 1);
  find_phases(e, e->sink->src, e->sink->n, (uint32_t)NO_LOOP);
  find_memory(e);
  tg_emit_find_tiles(e);
  tg_emit_find_fragments(e);
  if (e->target->arch == TG_ARCH_NVPTX) e->words = tg_new(&e->j->env, emit_words *, n);
  e->private_top = DUMMY_BYTES;
  for (uint32_t i = 0; i < e->sink->n && e->target->arch == TG_ARCH_NVPTX; i++)
    tg_emit_find_aligned(e, e->sink->src[i]);
}

void tg_emit_module(tg_emitter *e, tg_code_info *info) {
  if (tg_target_is_device(e->target)) tg_device_begin_module(e);
  prepare(e);
  for (uint32_t pass = e->tasks; pass < 2; pass++) {
    e->streaming = pass == 0;
    for (uint32_t p = 0; p < e->phases.n; p++) emit_phase_function(e, p, pass == 1);
    if (!e->streamed) break;
  }
  if (e->tasks) emit_kernels(e);
  else if (!e->device) emit_count_functions(e);
  *info = (tg_code_info){.buffers = e->globals,
                         .params = e->j->params.n,
                         .phases = e->phases.n,
                         .workspace = e->device ? 0 : round64(e->private_top),
                         .shared = round64(e->shared_at),
                         .aligned = e->aligned,
                         .loops = e->loops.n,
                         .in_shares = e->in_shares};
  if (e->loops.n) {
    info->launch = e->steps.data;
    info->launch_n = e->steps.n;
  }
  if (e->device) tg_device_launch(e, info);
  if (e->tasks) tg_tasks_launch(e, info);
}
