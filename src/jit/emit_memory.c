/* SPDX-License-Identifier: MIT
 * Memory accesses: addresses, loads, stores, masks, gathers, register buffers in SSA form. Lanes that descend in memory
 * are accessed as a contiguous vector too, which is then reversed in a register.
 *
 * A subscript is decomposed into terms, so that an address is built with the outermost term first. Each partial sum is
 * computed once, hoisted out of the loops that it does not depend on. The constant is added last, because the addresses
 * of a tile's elements differ only in it. Reordering is safe: 64-bit sums wrap as addresses do, and 32-bit sums are
 * proved in bounds for every lane that accesses memory. */
#include "jit/emit_address.h"
#include "ranges/ranges.h"

typedef struct {
  LLVMValueRef pointer, offsets;   /* offsets: each lane's address; NULL: contiguous from pointer, or splat */
  bool splat, backwards;           /* splat: all lanes at pointer; backwards: lanes descend, the last at pointer */
  /* small constant stride between lanes, in elements (emit_steps.c); 0: none */
  uint32_t step;
  /* stride between lanes, in elements, lane 0 at pointer, if each lane is to be a scalar access (emit_apart.c); NULL:
   * no. offsets is set too, for use with a mask */
  LLVMValueRef apart;
  uint32_t align, streamed;        /* known alignment in bytes: for any buffer; if the buffer is 64-aligned */
} address;

void tg_emit_add_term(tg_emitter *e, sum *s, const tg_uop *u, int64_t scale) {
  term *list = u->lanes == 1 ? s->scalars : s->vectors;
  uint32_t *n = u->lanes == 1 ? &s->scalars_n : &s->vectors_n, i = 0;
  for (; i < *n && list[i].u != u; i++) {}
  if (i < *n) {
    list[i].scale += scale;
    return;
  }
  if (*n == MAX_TERMS) tg_bug(&e->j->env, "linear form: a subscript of over %d terms", MAX_TERMS);
  term t = {u, scale, e->fn && u->lanes == 1 ? tg_emit_depth(e, u) : 0};
  for (i = (*n)++; i && (list[i - 1].depth > t.depth || (list[i - 1].depth == t.depth && list[i - 1].u->id > u->id));
       i--)
    list[i] = list[i - 1];
  list[i] = t;
}

/* not the arrays, which are large */
static void clear(sum *s) { s->scalars_n = s->vectors_n = 0, s->constant = s->iota = 0; }

/* Decomposes a subscript, whose nodes all have its type. A term is split only while there is room for its parts. */
void tg_emit_take_apart(tg_emitter *e, sum *s, const tg_uop *root) {
  struct { const tg_uop *u; int64_t scale; } stack[MAX_TERMS];
  uint32_t n = 0;
  clear(s);
  stack[n].u = root;
  stack[n++].scale = 1;
  while (n) {
    const tg_uop *u = stack[--n].u;
    int64_t k = stack[n].scale;
    bool room = n + 2 + s->scalars_n + s->vectors_n <= MAX_TERMS;
    if (u->op == TG_OP_CONST) s->constant = (int64_t)((uint64_t)s->constant + (uint64_t)k * (uint64_t)u->arg);
    else if (u->op == TG_OP_IOTA) s->iota += k;
    else if (room && (u->op == TG_OP_ADD || u->op == TG_OP_SUB)) {
      stack[n].u = u->src[0];
      stack[n++].scale = k;
      stack[n].u = u->src[1];
      stack[n++].scale = u->op == TG_OP_ADD ? k : -k;
    } else if (room && u->op == TG_OP_MUL && u->src[1]->op == TG_OP_CONST &&
               (u->src[0]->op == TG_OP_ADD || u->src[0]->op == TG_OP_IOTA || u->src[0]->op == TG_OP_SUB)) {
      stack[n].u = u->src[0];
      stack[n++].scale = (int64_t)((uint64_t)k * (uint64_t)u->src[1]->arg);
    } else tg_emit_add_term(e, s, u, k);
  }
}

/* ---- pointers ---- */

LLVMValueRef tg_emit_pointer(tg_emitter *e, uint32_t buffer) {
  emit_buffer *b = &e->buffers[buffer];
  if (b->stamp == e->stamp && b->pointer) return b->pointer;
  LLVMBasicBlockRef here = tg_emit_at(e, 0);
  uint32_t position = b->memory == MEMORY_GLOBAL ? b->position : e->globals;
  LLVMValueRef p = e->workspace_arg, at = LLVMConstInt(e->integer[64], position, 0),
               offset = LLVMConstInt(e->integer[64], b->offset, 0);
  if (e->tasks) p = b->memory == MEMORY_PRIVATE ? p : tg_device_buffer(e, position);
  else if (e->device) p = b->memory == MEMORY_LOCAL ? tg_device_local(e, buffer) : tg_device_buffer(e, position);
  else if (b->memory != MEMORY_PRIVATE) {
    LLVMValueRef slot = LLVMBuildGEP2(e->b, e->ptr, e->buffers_arg, &at, 1, "");
    p = LLVMBuildLoad2(e->b, e->ptr, slot, e->j->buffers.data[buffer].name);
    LLVMSetMetadata(p, e->invariant_kind, LLVMMetadataAsValue(e->c, e->empty_node));
  }
  if (b->memory != MEMORY_GLOBAL && b->memory != MEMORY_LOCAL && b->offset)
    p = LLVMBuildGEP2(e->b, e->integer[8], p, &offset, 1, "");
  tg_emit_back(e, here);
  b->pointer = p;
  b->stamp = e->stamp;
  return p;
}

/* value * scale, emitted once, at the value's loop depth. */
static LLVMValueRef scaled(tg_emitter *e, const term *t) {
  LLVMValueRef v = tg_emit_get(e, t->u, t->u->lanes);
  if (t->scale == 1) return v;
  LLVMValueRef k =
      tg_emit_splat(e, LLVMConstInt(tg_emit_type(e, t->u->type, 1), (uint64_t)t->scale, 1), t->u->lanes, 0);
  LLVMValueRef r = tg_emit_memo_get(e, v, k);
  if (r) return r;
  uint32_t depth = t->u->lanes == 1 ? t->depth : tg_emit_depth(e, t->u);
  LLVMBasicBlockRef here = tg_emit_at(e, depth);
  r = LLVMBuildMul(e->b, v, k, "");
  tg_emit_back(e, here);
  tg_emit_memo_set(e, v, k, r, depth);
  return r;
}

/* p + by elements, emitted once. Constants are converted to bytes, so that a pair (pointer, constant) in the table
 * means one address, whatever the element. */
static LLVMValueRef step(tg_emitter *e, LLVMTypeRef element, uint64_t bytes, LLVMValueRef p, LLVMValueRef by,
                         uint32_t depth) {
  if (LLVMIsAConstantInt(by)) {
    by = LLVMConstInt(e->integer[64], (uint64_t)LLVMConstIntGetSExtValue(by) * bytes, 1);
    element = e->integer[8];
  }
  LLVMValueRef q = tg_emit_memo_get(e, p, by);
  if (q) return q;
  LLVMBasicBlockRef here = tg_emit_at(e, depth);
  q = LLVMBuildGEP2(e->b, element, p, &by, 1, "");
  tg_emit_back(e, here);
  tg_emit_memo_set(e, p, by, q, depth);
  return q;
}

/* a + v, emitted once; a may be NULL. */
static LLVMValueRef plus(tg_emitter *e, LLVMValueRef a, LLVMValueRef v, uint32_t depth) {
  LLVMValueRef both = a ? tg_emit_memo_get(e, a, v) : v;
  if (both) return both;
  LLVMBasicBlockRef here = tg_emit_at(e, depth);
  both = LLVMBuildAdd(e->b, a, v, "");
  tg_emit_back(e, here);
  tg_emit_memo_set(e, a, v, both, depth);
  return both;
}

/* On a GPU: (sum of the terms) * bytes as a 32-bit offset, without the constant, if it surely lies in 0 .. 2^32 - 1:
 * this fits addressing modes of the form base + 32-bit offset + constant. What one loop changes is added up by itself:
 * accesses of several rows share that. Else NULL. */
static LLVMValueRef device_pointer(tg_emitter *e, LLVMValueRef base, const sum *s, uint64_t bytes) {
  tg_i128 lo = 0, hi = 0;
  LLVMValueRef all = NULL;
  uint32_t depth = 0;
  for (uint32_t i = 0; i < s->scalars_n; i++) {
    tg_bounds b = tg_bounds_of(e->j, s->scalars[i].u);
    tg_i128 k = s->scalars[i].scale;
    lo += (k < 0 ? b.hi : b.lo) * k;
    hi += (k < 0 ? b.lo : b.hi) * k;
  }
  if (lo < 0 || hi > UINT32_MAX / (tg_i128)bytes) return NULL;
  for (uint32_t i = 0; i < s->scalars_n;) {
    LLVMValueRef same = NULL;
    depth = s->scalars[i].depth;
    for (; i < s->scalars_n && s->scalars[i].depth == depth; i++)
      same = plus(e, same, scaled(e, &s->scalars[i]), depth);
    all = plus(e, all, same, depth);
  }
  if (all && !(LLVMIsAConstantInt(all) && !LLVMConstIntGetZExtValue(all))) {
    bool local = LLVMGetPointerAddressSpace(LLVMTypeOf(base)) == 3;
    LLVMValueRef key = LLVMConstInt(e->integer[local ? 32 : 64], bytes, 0), offset = tg_emit_memo_get(e, all, key);
    if (!offset) {
      LLVMBasicBlockRef here = tg_emit_at(e, depth);
      offset = bytes == 1 ? all : LLVMBuildMul(e->b, all, LLVMConstInt(e->integer[32], bytes, 0), "");
      if (!local) offset = LLVMBuildZExt(e->b, offset, e->integer[64], "");
      tg_emit_back(e, here);
      tg_emit_memo_set(e, all, key, offset, depth);
    }
    base = step(e, e->integer[8], 1, base, offset, depth);
  }
  return s->constant
             ? step(e, e->integer[8], bytes, base, LLVMConstInt(e->integer[64], (uint64_t)s->constant, 1), depth)
             : base;
}

/* base + scalar terms + constant, in elements of `bytes`. */
LLVMValueRef tg_emit_scalar_pointer(tg_emitter *e, uint32_t buffer, const sum *s, tg_type index, LLVMTypeRef element,
                                    uint64_t bytes) {
  LLVMValueRef p = tg_emit_pointer(e, buffer);
  uint32_t depth = 0;
  if (e->device && index == TG_I32) {
    LLVMValueRef q = device_pointer(e, p, s, bytes);
    if (q) return q;
  }
  if (index == TG_I32) { /* the whole sum is extended to 64 bits, not its parts: they may exceed 32 bits */
    LLVMValueRef all = NULL;
    for (uint32_t i = 0; i < s->scalars_n; i++) {
      LLVMValueRef v = scaled(e, &s->scalars[i]);
      all = all ? LLVMBuildAdd(e->b, all, v, "") : v;
      depth = s->scalars[i].depth > depth ? s->scalars[i].depth : depth;
    }
    LLVMValueRef c = LLVMConstInt(e->integer[32], (uint64_t)s->constant, 1);
    all = all ? s->constant ? LLVMBuildAdd(e->b, all, c, "") : all : c;
    if (s->scalars_n + (s->constant != 0) > 1) depth = e->depth;
    LLVMValueRef wide = tg_emit_memo_get(e, all, &e->integer);
    if (!wide) {
      LLVMBasicBlockRef here = tg_emit_at(e, depth);
      wide = LLVMBuildSExt(e->b, all, e->integer[64], "");
      tg_emit_back(e, here);
      tg_emit_memo_set(e, all, &e->integer, wide, depth);
    }
    return step(e, element, bytes, p, wide, depth);
  }
  for (uint32_t i = 0; i < s->scalars_n; i++) {
    depth = s->scalars[i].depth > depth ? s->scalars[i].depth : depth;
    p = step(e, element, bytes, p, scaled(e, &s->scalars[i]), depth);
  }
  if (!s->constant) return p;
  LLVMValueRef offset = LLVMConstInt(e->integer[64], (uint64_t)s->constant, 1);
  return step(e, element, bytes, p, offset, depth);
}

uint32_t tg_emit_known_alignment(tg_emitter *e, const sum *s, uint64_t bytes, uint64_t base) {
  uint64_t low = base | (uint64_t)s->constant * bytes;   /* the lowest bit set bounds the alignment */
  for (uint32_t i = 0; i < s->scalars_n; i++) {
    tg_bounds b = tg_bounds_of(e->j, s->scalars[i].u);
    low |= ((uint64_t)b.multiple | (uint64_t)b.offset) * (uint64_t)s->scalars[i].scale * bytes;
  }
  return (uint32_t)(low & -low);
}

/* ---- alignment on a GPU ---- LLVM merges adjacent accesses into one of up to 16 bytes if the first is aligned to that
 * size; on AMD global accesses need no alignment. On NVIDIA, global buffers with such accesses are assumed to be
 * 16-aligned, and a second entry is emitted for those that are not. LOCAL memory and workspaces are 64-aligned. */

enum { WIDEST = 16 };

uint32_t tg_emit_device_alignment(tg_emitter *e, uint32_t buffer, const sum *s, uint64_t bytes, uint32_t element) {
  const emit_buffer *b = &e->buffers[buffer];
  bool assumed = b->memory == MEMORY_LOCAL || b->memory == MEMORY_SHARED ||
                 (b->memory == MEMORY_GLOBAL && e->streaming && b->position < 64 && e->aligned >> b->position & 1);
  uint32_t align = assumed ? tg_emit_known_alignment(e, s, bytes, WIDEST) : element;
  return align > element ? align : element;
}

/* Finds accesses in u that can become wide ones if the buffer is 16-aligned, and marks the buffers: vectors, and
 * elements at a constant distance from an address that is aligned to more than an element. */
void tg_emit_find_aligned(tg_emitter *e, const tg_uop *u) {
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++) tg_emit_find_aligned(e, u->src[i]);
  if (u->op != TG_OP_LOAD && u->op != TG_OP_STORE) return;
  if (u->op == TG_OP_STORE && u->arg & TG_ASYNC) tg_emit_find_aligned(e, tg_stored(u));
  const tg_uop *define = tg_define_of(u->src[0]);
  const emit_buffer *b = &e->buffers[(uint32_t)define->arg];
  uint64_t bytes = (uint64_t)tg_type_bytes(define->type) * define->lanes;
  sum s;
  if (b->memory != MEMORY_GLOBAL || b->position >= 64 || u->arg & TG_ATOMIC || e->aligned >> b->position & 1 ||
      tg_access_rank(u) != 1)
    return;
  tg_emit_take_apart(e, &s, u->src[1]);
  if (s.vectors_n) {   /* runs of elements */
    if (define->lanes > 1 || tg_emit_runs_alignment(e, u, u->src[1]->lanes, WIDEST) <= bytes) return;
  } else {
    if (s.iota > 1 || s.iota < 0 || (!s.iota && !((uint64_t)s.constant * bytes % WIDEST))) return;
    if (!s.iota) s.constant = 0;
    if (tg_emit_known_alignment(e, &s, bytes, WIDEST) <= bytes) return;
  }
  e->aligned |= (uint64_t)1 << b->position;
  e->streamed = true;
}

/* The common stride between lanes, constant or not; NULL: there is none, or a gather is as good. */
static LLVMValueRef distance_of(tg_emitter *e, const tg_uop *u, const sum *s, uint32_t lanes) {
  const tg_uop *by = NULL;
  LLVMTypeRef i64 = e->integer[64];
  if (e->device || !e->target->gathers_slowly || u->arg & TG_ATOMIC || lanes > TG_MOST_APART || s->vectors_n > 1)
    return NULL;
  if (s->vectors_n) {
    const tg_uop *product = s->vectors[0].u;
    if (product->op != TG_OP_MUL || (product->src[0]->op == TG_OP_IOTA) == (product->src[1]->op == TG_OP_IOTA))
      return NULL;
    by = product->src[product->src[0]->op == TG_OP_IOTA];
    if (by->lanes > 1) return NULL;
  }
  if (!by) return LLVMConstInt(i64, (uint64_t)s->iota, 1);
  uint32_t depth = tg_emit_depth(e, by);
  LLVMBasicBlockRef here = tg_emit_at(e, depth);
  LLVMValueRef v = tg_emit_get(e, by, 1), wide = by->type == TG_I64 ? v : LLVMBuildSExt(e->b, v, i64, "");
  wide = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, wide, LLVMConstInt(i64, (uint64_t)s->vectors[0].scale, 1), ""),
                      LLVMConstInt(i64, (uint64_t)s->iota, 1), "");
  tg_emit_back(e, here);
  return wide;
}

static address address_of(tg_emitter *e, const tg_uop *u, uint32_t lanes, bool want_alignment) {
  const tg_uop *define = tg_define_of(u->src[0]), *sub = u->src[1];
  uint32_t buffer = (uint32_t)define->arg;
  uint64_t bytes = (uint64_t)tg_type_bytes(define->type) * define->lanes;
  if (tg_access_rank(u) != 1)
    tg_bug(&e->j->env, "linear form: %s has %u subscripts", e->j->buffers.data[buffer].name, tg_access_rank(u));
  sum s;
  tg_emit_take_apart(e, &s, sub);
  LLVMTypeRef element = tg_emit_memory_type(e, define->type, 1);
  if (define->lanes > 1) {
    if (sub->lanes > 1) tg_bug(&e->j->env, "linear form: vectors of %s gathered", e->j->buffers.data[buffer].name);
    element = LLVMArrayType2(element, define->lanes);
  }
  address a = {.align = (uint32_t)tg_type_bytes(define->type)};
  if (lanes > 1 && sub->lanes == lanes && define->lanes == 1 && !s.vectors_n) {
    a.step = u->arg & TG_ATOMIC ? 0 : tg_emit_step(e, s.iota, lanes);
    a.backwards = s.iota == -1 || (a.step && s.iota < 0);
    if (a.backwards) s.constant += s.iota * (lanes - 1);
  }
  a.pointer = tg_emit_scalar_pointer(e, buffer, &s, sub->type, element, bytes);
  if (want_alignment) a.streamed = tg_emit_known_alignment(e, &s, bytes, 64);
  if (e->device && !s.vectors_n && (!s.iota || s.iota == 1))
    a.align = tg_emit_device_alignment(e, buffer, &s, bytes, a.align);
  if (lanes == 1 || define->lanes > 1 || (s.iota == 1 && !s.vectors_n) || a.backwards || a.step) return a;
  if (!s.iota && !s.vectors_n) {
    a.splat = true;
    return a;
  }
  a.apart = distance_of(e, u, &s, lanes);
  if (a.apart && (!tg_gate(u) || tg_gate(u)->lanes == 1)) return a;
  LLVMValueRef offsets = NULL, from = a.pointer;
  if (s.iota) {
    LLVMValueRef *all = tg_new(&e->j->env, LLVMValueRef, lanes);
    for (uint32_t i = 0; i < lanes; i++)
      all[i] = LLVMConstInt(tg_emit_type(e, sub->type, 1), (uint64_t)i * (uint64_t)s.iota, 1);
    offsets = LLVMConstVector(all, lanes);
  }
  for (uint32_t i = 0; i < s.vectors_n; i++) {
    LLVMValueRef v = scaled(e, &s.vectors[i]);
    offsets = offsets ? LLVMBuildAdd(e->b, offsets, v, "") : v;
  }
  /* only the whole sum is proved to be in bounds: the scalar part alone may be negative, so it is added in each lane */
  if (sub->type == TG_I32) {
    sum none;
    clear(&none);
    for (uint32_t i = 0; i < s.scalars_n; i++)
      offsets = LLVMBuildAdd(e->b, offsets, tg_emit_splat(e, scaled(e, &s.scalars[i]), lanes, s.scalars[i].depth), "");
    if (s.constant)
      offsets = LLVMBuildAdd(e->b, offsets,
                             tg_emit_splat(e, LLVMConstInt(e->integer[32], (uint64_t)s.constant, 1), lanes, 0), "");
    offsets = LLVMBuildSExt(e->b, offsets, tg_emit_type(e, TG_I64, lanes), "");
    from = tg_emit_scalar_pointer(e, buffer, &none, TG_I64, element, bytes);
  }
  a.offsets = LLVMBuildGEP2(e->b, element, from, &offsets, 1, "");
  return a;
}

LLVMValueRef tg_emit_contiguous(tg_emitter *e, const tg_uop *u, uint32_t lanes, uint32_t *align) {
  address a = address_of(e, u, lanes, false);
  *align = a.align;
  return a.pointer;
}

/* ---- gates as branches ---- */

static LLVMValueRef full_mask(tg_emitter *e, uint32_t lanes) {
  return LLVMConstAllOnes(tg_emit_type(e, TG_BOOL, lanes));
}

static LLVMValueRef any(tg_emitter *e, LLVMValueRef mask) {
  LLVMTypeRef t = LLVMTypeOf(mask);
  if (e->tasks && LLVMGetTypeKind(t) == LLVMVectorTypeKind) return tg_tasks_reduce(e, false, mask);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? tg_emit_call(e, "llvm.vector.reduce.or", t, &mask, 1) : mask;
}

LLVMBasicBlockRef tg_emit_open_gate(tg_emitter *e, LLVMValueRef condition) {
  LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->c, e->fn, ""),
                    after = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  LLVMBuildCondBr(e->b, condition, then, after);
  LLVMPositionBuilderAtEnd(e->b, then);
  return after;
}

void tg_emit_close_gate(tg_emitter *e, LLVMBasicBlockRef after) {
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* Branches on whether the mask is true in all lanes, which is asked once for accesses with one mask; what is built next
 * goes to the block where it is. */
static void open_both(tg_emitter *e, LLVMValueRef mask, LLVMBasicBlockRef *all, LLVMBasicBlockRef *some,
                      LLVMBasicBlockRef *after) {
  static const char asked;
  LLVMValueRef open = tg_emit_memo_get(e, mask, &asked);
  if (!open) {
    open = e->tasks ? tg_tasks_reduce(e, true, mask)
                    : tg_emit_call(e, "llvm.vector.reduce.and", LLVMTypeOf(mask), &mask, 1);
    tg_emit_memo_set(e, mask, &asked, open, e->depth);
  }
  *all = LLVMAppendBasicBlockInContext(e->c, e->fn, ""), *some = LLVMAppendBasicBlockInContext(e->c, e->fn, ""),
  *after = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  LLVMBuildCondBr(e->b, open, *all, *some);
  LLVMPositionBuilderAtEnd(e->b, *all);
}

/* The lanes in reverse order. */
static LLVMValueRef reversed(tg_emitter *e, LLVMValueRef v) {
  unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(v));
  LLVMValueRef *order = tg_new(&e->j->env, LLVMValueRef, lanes);
  for (unsigned i = 0; i < lanes; i++) order[i] = LLVMConstInt(e->integer[32], lanes - 1 - i, 0);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(order, lanes), "");
}

/* ---- loads ---- */

static LLVMValueRef from_memory(tg_emitter *e, tg_type t, uint32_t lanes, LLVMValueRef v) {
  return t == TG_BOOL ? LLVMBuildTrunc(e->b, v, tg_emit_type(e, t, lanes), "") : v;
}

static LLVMValueRef to_memory(tg_emitter *e, tg_type t, uint32_t lanes, LLVMValueRef v) {
  return t == TG_BOOL ? LLVMBuildZExt(e->b, v, tg_emit_memory_type(e, t, lanes), "") : v;
}

void tg_emit_mark_load(tg_emitter *e, LLVMValueRef v, const tg_uop *define) {
  if (e->j->buffers.data[define->arg & UINT32_MAX].role == TG_ROLE_IN)
    LLVMSetMetadata(v, e->invariant_kind, LLVMMetadataAsValue(e->c, e->empty_node));
}

static LLVMValueRef plain_load(tg_emitter *e, const tg_uop *define, LLVMValueRef pointer, uint32_t lanes,
                               uint32_t align) {
  LLVMValueRef v = LLVMBuildLoad2(e->b, tg_emit_memory_type(e, define->type, lanes), pointer, "");
  LLVMSetAlignment(v, align);
  tg_emit_mark_load(e, v, define);
  return v;
}

/* open_one, close_one: a value that is in[1] if the branch between them is taken, else in[0]. */
static LLVMBasicBlockRef open_one(tg_emitter *e, const tg_uop *define, LLVMValueRef condition,
                                  LLVMBasicBlockRef from[2]) {
  from[0] = LLVMGetInsertBlock(e->b);
  LLVMBasicBlockRef after = tg_emit_open_gate(e, condition);
  if (e->device && e->buffers[(uint32_t)define->arg].memory == MEMORY_GLOBAL) tg_device_keep_branch(e);
  return after;
}

static LLVMValueRef close_one(tg_emitter *e, LLVMBasicBlockRef after, LLVMValueRef in[2], LLVMBasicBlockRef from[2]) {
  from[1] = LLVMGetInsertBlock(e->b);
  tg_emit_close_gate(e, after);
  LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(in[1]), "");
  LLVMAddIncoming(phi, in, from, 2);
  return phi;
}

/* Where no instruction loads such elements by a mask, LLVM asks for each lane and loads it alone: without the mask if
 * it is true in all lanes. */
static LLVMValueRef load_lanes(tg_emitter *e, const tg_uop *define, const address *a, LLVMValueRef mask,
                               LLVMValueRef pass) {
  LLVMBasicBlockRef from[2], all, some, after;
  LLVMValueRef in[2];
  open_both(e, mask, &all, &some, &after);
  in[0] = plain_load(e, define, a->pointer, LLVMGetVectorSize(LLVMTypeOf(pass)), a->align), from[0] = all;
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, some);
  in[1] = tg_emit_masked(e, "llvm.masked.load", false, a->pointer, mask, pass, a->align);
  return close_one(e, after, in, from);
}

/* A load in a branch, which a device's assembler turns into predicated instructions. */
static LLVMValueRef branch_load(tg_emitter *e, const tg_uop *define, LLVMValueRef pointer, uint32_t lanes,
                                uint32_t align, LLVMValueRef condition) {
  LLVMBasicBlockRef from[2], after = open_one(e, define, condition, from);
  LLVMValueRef v = plain_load(e, define, pointer, lanes, align), in[2] = {LLVMGetPoison(LLVMTypeOf(v)), v};
  return close_one(e, after, in, from);
}

/* A load whose result does not matter if the condition is false. On a host there is no branch: the load then reads from
 * the start of the workspace. */
static LLVMValueRef safe_load(tg_emitter *e, const tg_uop *define, LLVMValueRef pointer, uint32_t lanes, uint32_t align,
                              LLVMValueRef condition) {
  if (e->device) return branch_load(e, define, pointer, lanes, align, condition);
  LLVMValueRef p = LLVMBuildSelect(e->b, condition, pointer, e->workspace_arg, "");
  LLVMValueRef v = LLVMBuildLoad2(e->b, tg_emit_memory_type(e, define->type, lanes), p, "");
  LLVMSetAlignment(v, align);
  return v;
}

/* The cell of a constant subscript, for one element or a vector of them. Behind a gate it may lie outside of the
 * buffer: the gate then never holds, and a spare cell stands for it. */
emit_cell *tg_emit_cell(tg_emitter *e, const tg_uop *u) {
  const tg_uop *define = tg_define_of(u->src[0]);
  emit_buffer *b = &e->buffers[(uint32_t)define->arg];
  sum s;
  const tg_uop *sub = u->src[1];
  if (sub->op == TG_OP_CONST && (uint64_t)sub->arg < b->cells_n) return &b->cells[sub->arg];
  if (sub->op == TG_OP_CONST && tg_gate(u)) return &b->cells[b->cells_n];
  tg_emit_take_apart(e, &s, sub);
  if (s.scalars_n || s.vectors_n || s.iota > 1 || s.iota < 0 || s.constant < 0 || s.constant >= b->cells_n)
    tg_bug(&e->j->env, "linear form: %s in SSA form has a subscript that is no constant",
           e->j->buffers.data[(uint32_t)define->arg].name);
  return &b->cells[s.constant];
}

static LLVMValueRef load_cell(tg_emitter *e, const tg_uop *u) {
  emit_cell *c = tg_emit_cell(e, u);
  LLVMTypeRef type = tg_emit_type(e, u->type, u->lanes);
  LLVMValueRef v = c->now ? c->now : LLVMConstNull(type);
  if (tg_emit_is_tile(v) && !tg_gate(u)) return v;
  if (tg_emit_is_tile(v)) v = tg_emit_elements(e, v, type);
  /* the cell holds one element, and the gate has lanes */
  if (u->lanes > 1 && LLVMTypeOf(v) == tg_emit_type(e, u->type, 1)) v = tg_emit_splat(e, v, u->lanes, e->depth);
  if (LLVMTypeOf(v) != type)
    tg_bug(&e->j->env, "linear form: %s in SSA form is read in another width than written",
           tg_buffer_info(e->j, u->src[0])->name);
  const tg_uop *gate = tg_gate(u);
  return gate
             ? LLVMBuildSelect(e->b, tg_emit_get(e, gate, u->lanes), v, tg_emit_get(e, tg_alternative(u), u->lanes), "")
             : v;
}

/* A masked load with no active lane never faults, but on an unmapped page it takes hundreds of cycles. So if one
 * condition disables all lanes, the load is redirected to the workspace. */
static LLVMValueRef mapped(tg_emitter *e, const tg_uop *gate, LLVMValueRef pointer) {
  if (gate->lanes == 1)
    return e->nowhere = true, LLVMBuildSelect(e->b, tg_emit_get(e, gate, 1), pointer, e->workspace_arg, "");
  return gate->op == TG_OP_AND ? mapped(e, gate->src[1], mapped(e, gate->src[0], pointer)) : pointer;
}

static LLVMValueRef gated_load(tg_emitter *e, const tg_uop *u, const tg_uop *gate, const address *a) {
  const tg_uop *define = tg_define_of(u->src[0]);
  uint32_t lanes = u->lanes;
  uint64_t bytes = (uint64_t)lanes * (uint64_t)tg_type_bytes(define->type);
  LLVMValueRef other = tg_emit_get(e, tg_alternative(u), lanes);
  if (a->splat) {
    LLVMValueRef cond = tg_emit_get(e, gate, gate->lanes);
    LLVMValueRef v = from_memory(e, define->type, 1, safe_load(e, define, a->pointer, 1, a->align, any(e, cond)));
    return LLVMBuildSelect(e->b, tg_emit_get(e, gate, lanes), tg_emit_splat(e, v, lanes, e->depth), other, "");
  }
  if (a->apart && !a->offsets) {
    LLVMValueRef in[2] = {to_memory(e, define->type, lanes, other), NULL};
    LLVMBasicBlockRef from[2], after = open_one(e, define, tg_emit_get(e, gate, 1), from);
    in[1] = tg_emit_load_apart(e, LLVMTypeOf(in[0]), a->pointer, a->apart, a->align);
    return from_memory(e, define->type, lanes, close_one(e, after, in, from));
  }
  if (gate->lanes == 1 && !a->offsets && !a->step && (e->device || bytes <= DUMMY_BYTES)) {
    LLVMValueRef cond = tg_emit_get(e, gate, 1);
    LLVMValueRef v = from_memory(e, define->type, lanes, safe_load(e, define, a->pointer, lanes, a->align, cond));
    return LLVMBuildSelect(e->b, cond, a->backwards ? reversed(e, v) : v, other, "");
  }
  LLVMValueRef mask = tg_emit_get(e, gate, lanes), pass = to_memory(e, define->type, lanes, other);
  if (a->backwards) mask = reversed(e, mask), pass = reversed(e, pass);
  LLVMValueRef runs = a->offsets ? tg_emit_runs(e, u, mask, pass) : NULL;
  if (runs) return from_memory(e, define->type, lanes, runs);
  if (a->step) {
    LLVMValueRef v = from_memory(e, define->type, lanes,
                                 tg_emit_load_steps(e, a->step, mapped(e, gate, a->pointer), mask, pass, a->align));
    return a->backwards ? reversed(e, v) : v;
  }
  if (a->apart) {   /* scalar loads if the mask is true in all lanes, else a masked gather */
    LLVMBasicBlockRef from[2], all, some, after;
    LLVMValueRef in[2];
    open_both(e, mask, &all, &some, &after);
    in[0] = tg_emit_load_apart(e, LLVMTypeOf(pass), a->pointer, a->apart, a->align), from[0] = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, some);
    in[1] = tg_emit_masked(e, "llvm.masked.gather", false, a->offsets, mask, pass, a->align);
    return from_memory(e, define->type, lanes, close_one(e, after, in, from));
  }
  if (!e->device && !e->tasks && !a->offsets && !LLVMIsConstant(mask) &&
      !tg_target_masks(e->target, (uint32_t)tg_type_bytes(define->type))) {
    LLVMValueRef v = load_lanes(e, define, a, mask, pass);
    return from_memory(e, define->type, lanes, a->backwards ? reversed(e, v) : v);
  }
  LLVMValueRef from = a->offsets                         ? a->offsets
                      : e->device || bytes > DUMMY_BYTES ? a->pointer
                                                         : mapped(e, gate, a->pointer);
  LLVMValueRef v =
      tg_emit_masked(e, a->offsets ? "llvm.masked.gather" : "llvm.masked.load", false, from, mask, pass, a->align);
  return from_memory(e, define->type, lanes, a->backwards ? reversed(e, v) : v);
}

LLVMValueRef tg_emit_load(tg_emitter *e, const tg_uop *u) {
  const tg_uop *define = tg_define_of(u->src[0]), *gate = tg_gate(u);
  if (e->buffers[(uint32_t)define->arg].memory == MEMORY_CELLS) return load_cell(e, u);
  if (gate && gate->op == TG_OP_CONST && !gate->arg) return tg_emit_get(e, tg_alternative(u), u->lanes);
  LLVMValueRef fragment = tg_emit_fragment(e, u);
  if (fragment) return fragment;
  address a = address_of(e, u, u->lanes, false);
  if (!a.offsets && !a.splat && !a.backwards && !a.step && !a.apart && tg_emit_takes_words(e, u, a.align)) {
    tg_emit_words(e, u, a.pointer);
    return NULL;
  }
  if (gate && gate->op != TG_OP_CONST) return gated_load(e, u, gate, &a);
  if (e->tiled[u->id] && !a.offsets && !a.splat && !a.backwards && !a.step && !a.apart)
    return tg_emit_load_tile(e, a.pointer);
  LLVMValueRef runs = a.offsets ? tg_emit_runs(e, u, NULL, NULL) : NULL;
  if (runs) return from_memory(e, define->type, u->lanes, runs);
  if (a.step) {
    LLVMValueRef v =
        from_memory(e, define->type, u->lanes,
                    tg_emit_load_steps(e, a.step, a.pointer, NULL,
                                       LLVMConstNull(tg_emit_memory_type(e, define->type, u->lanes)), a.align));
    return a.backwards ? reversed(e, v) : v;
  }
  if (a.apart)
    return from_memory(
        e, define->type, u->lanes,
        tg_emit_load_apart(e, tg_emit_memory_type(e, define->type, u->lanes), a.pointer, a.apart, a.align));
  if (a.offsets) {
    LLVMValueRef zero = LLVMConstNull(tg_emit_memory_type(e, define->type, u->lanes));
    return from_memory(
        e, define->type, u->lanes,
        tg_emit_masked(e, "llvm.masked.gather", false, a.offsets, full_mask(e, u->lanes), zero, a.align));
  }
  uint32_t lanes = a.splat ? 1 : u->lanes;
  LLVMValueRef v = from_memory(e, define->type, lanes, plain_load(e, define, a.pointer, lanes, a.align));
  return a.splat ? tg_emit_splat(e, v, u->lanes, e->depth) : a.backwards ? reversed(e, v) : v;
}

/* ---- stores ---- */

static void plain_store(tg_emitter *e, const tg_uop *u, const address *a, LLVMValueRef value, uint32_t lanes) {
  LLVMValueRef s = LLVMBuildStore(e->b, value, a->pointer);
  LLVMSetAlignment(s, a->align);
  const tg_uop *define = tg_define_of(u->src[0]);
  emit_buffer *b = &e->buffers[(uint32_t)define->arg];
  uint64_t bytes = (uint64_t)lanes * (uint64_t)tg_type_bytes(define->type), vector = e->target->vector_bytes;
  if (e->device) {
    if (u->arg & TG_STREAM) LLVMSetMetadata(s, e->nontemporal_kind, LLVMMetadataAsValue(e->c, e->one_node));
    return;
  }
  if (!(u->arg & TG_STREAM) || b->memory != MEMORY_GLOBAL || b->position >= 64 || bytes < 16 ||
      a->streamed < (bytes < vector ? bytes : vector))
    return;
  e->streamed = true;
  e->aligned |= (uint64_t)1 << b->position;
  if (!e->streaming) return;
  LLVMSetAlignment(s, a->streamed);
  LLVMSetMetadata(s, e->nontemporal_kind, LLVMMetadataAsValue(e->c, e->one_node));
}

static void atomic_store(tg_emitter *e, const tg_uop *u, const address *a, LLVMValueRef value, uint32_t lanes,
                         LLVMValueRef mask) {
  tg_type t = u->src[0]->type;
  if (e->tasks && (t == TG_F16 || t == TG_BF16 || t == TG_E4M3 || t == TG_E5M2 || t == TG_BOOL))
    tg_fail_at(e->j, tg_get_pos(e->j, u), "this target has no atomic add to %s", tg_type_name[t]);
  if (t == TG_BF16 || t == TG_E4M3 || t == TG_E5M2 || t == TG_BOOL)
    tg_fail_at(e->j, tg_get_pos(e->j, u), "an atomic add to %s is not possible on this target", tg_type_name[t]);
  LLVMAtomicRMWBinOp op = tg_is_float(t) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
  for (uint32_t i = 0; i < lanes; i++) {
    LLVMValueRef at = LLVMConstInt(e->integer[32], i, 0), p = a->pointer, one = value;
    LLVMValueRef index = LLVMConstInt(e->integer[64], i, 0);
    if (lanes > 1) one = LLVMBuildExtractElement(e->b, value, at, "");
    if (a->offsets) p = LLVMBuildExtractElement(e->b, a->offsets, at, "");
    else if (lanes > 1 && !a->splat) p = LLVMBuildGEP2(e->b, tg_emit_memory_type(e, t, 1), p, &index, 1, "");
    LLVMBasicBlockRef after =
        mask ? tg_emit_open_gate(e, lanes > 1 ? LLVMBuildExtractElement(e->b, mask, at, "") : mask) : NULL;
    if (e->tasks) tg_tasks_add(e, u, p, one);
    else {
      LLVMValueRef atomic = LLVMBuildAtomicRMW(e->b, op, p, one, LLVMAtomicOrderingMonotonic, 0);
      if (e->device) tg_device_scope(e, atomic);
    }
    if (after) tg_emit_close_gate(e, after);
  }
}

static void store_cell(tg_emitter *e, const tg_uop *u, uint32_t lanes) {
  emit_cell *c = tg_emit_cell(e, u);
  const tg_uop *gate = tg_gate(u);
  bool tiles = e->buffers[tg_buffer_ordinal(u->src[0])].tiles;
  if (tiles && !gate) {
    c->now = tg_emit_tile(e, tg_emit_raw(e, tg_stored(u), tg_stored(u)->lanes));
    return;
  }
  LLVMValueRef v = tg_emit_get(e, tg_stored(u), lanes);
  if (tiles && c->now) c->now = tg_emit_elements(e, c->now, LLVMTypeOf(v));
  if (gate)
    v = LLVMBuildSelect(e->b, tg_emit_get(e, gate, lanes), v, c->now ? c->now : LLVMConstNull(LLVMTypeOf(v)), "");
  c->now = tiles ? tg_emit_tile(e, v) : v;
}

uint32_t tg_emit_store_lanes(const tg_uop *u) {
  const tg_uop *gate = tg_gate(u), *value = tg_stored(u);
  uint32_t lanes = tg_define_of(u->src[0])->lanes;
  if (u->src[1]->lanes > lanes) lanes = u->src[1]->lanes;
  if (value->lanes > lanes) lanes = value->lanes;
  return gate && gate->lanes > lanes ? gate->lanes : lanes;
}

/* A store whose mask is not known: without it if it is true in all lanes, where masked ones are dear. */
static void masked_store(tg_emitter *e, const tg_uop *u, const address *a, LLVMValueRef mask, LLVMValueRef value,
                         uint32_t lanes) {
  LLVMBasicBlockRef all, some, behind;
  if (e->device || e->tasks || LLVMIsConstant(mask) || !tg_machine_asks_masks(&e->target->machine)) {
    tg_emit_masked_store(e, a->pointer, mask, value, a->align);
    return;
  }
  open_both(e, mask, &all, &some, &behind);
  plain_store(e, u, a, value, lanes);
  LLVMBuildBr(e->b, behind);
  LLVMPositionBuilderAtEnd(e->b, some);
  tg_emit_masked_store(e, a->pointer, mask, value, a->align);
  LLVMBuildBr(e->b, behind);
  LLVMPositionBuilderAtEnd(e->b, behind);
}

void tg_emit_store(tg_emitter *e, const tg_uop *u) {
  const tg_uop *define = tg_define_of(u->src[0]), *gate = tg_gate(u), *value = tg_stored(u);
  if (gate && gate->op == TG_OP_CONST && !gate->arg) return;
  if (gate && gate->op == TG_OP_CONST) gate = NULL;
  if (u->arg & TG_ASYNC && tg_emit_copy(e, u)) return;
  uint32_t lanes = tg_emit_store_lanes(u);
  e->buffers[(uint32_t)define->arg].unseen = true;
  if (e->buffers[(uint32_t)define->arg].memory == MEMORY_CELLS) {
    store_cell(e, u, lanes);
    return;
  }
  address a = address_of(e, u, lanes, !e->device && (u->arg & TG_STREAM));
  LLVMValueRef tile = tg_emit_raw(e, value, value->lanes);
  if (tg_emit_is_tile(tile) && !gate && !a.offsets && !a.splat && !a.backwards && !a.step && !a.apart &&
      !(u->arg & TG_ATOMIC)) {
    tg_emit_store_tile(e, a.pointer, tile);
    return;
  }
  LLVMValueRef v = to_memory(e, define->type, lanes, tg_emit_get(e, value, lanes));
  if (gate) v = tg_device_computed(e, u, v);
  bool branch = gate && (gate->lanes == 1 || lanes == 1);
  LLVMValueRef mask = !gate ? NULL : tg_emit_get(e, gate, branch ? 1 : lanes);
  if (a.backwards) v = reversed(e, v);
  if (a.backwards && mask && !branch) mask = reversed(e, mask);
  if (u->arg & TG_ATOMIC) {
    atomic_store(e, u, &a, v, lanes,
                 mask ? branch && lanes > 1 ? tg_emit_splat(e, mask, lanes, e->depth) : mask : NULL);
    return;
  }
  if (a.splat) { /* all lanes store to one address: at most one has its gate open, or their values are equal */
    a.offsets = tg_emit_splat(e, a.pointer, lanes, e->depth);
    if (branch) mask = tg_emit_splat(e, mask, lanes, e->depth), branch = false;
  }
  LLVMBasicBlockRef after = branch ? tg_emit_open_gate(e, mask) : NULL;
  if (a.apart && mask && !branch) {   /* scalar stores if the mask is true in all lanes, else a masked scatter */
    LLVMBasicBlockRef all, some, behind;
    open_both(e, mask, &all, &some, &behind);
    tg_emit_store_apart(e, a.pointer, a.apart, v, a.align);
    LLVMBuildBr(e->b, behind);
    LLVMPositionBuilderAtEnd(e->b, some);
    tg_emit_masked(e, "llvm.masked.scatter", true, a.offsets, mask, v, a.align);
    LLVMBuildBr(e->b, behind);
    LLVMPositionBuilderAtEnd(e->b, behind);
  } else if (a.apart) tg_emit_store_apart(e, a.pointer, a.apart, v, a.align);
  else if (a.offsets && (!mask || branch) && tg_emit_store_runs(e, u, v, lanes)) ;
  else if (a.offsets)
    tg_emit_masked(e, "llvm.masked.scatter", true, a.offsets, mask && !branch ? mask : full_mask(e, lanes), v, a.align);
  else if (a.step) tg_emit_store_steps(e, a.step, a.pointer, mask && !branch ? mask : NULL, v, a.align);
  else if (mask && !branch) masked_store(e, u, &a, mask, v, lanes);
  else plain_store(e, u, &a, v, lanes);
  if (after) tg_emit_close_gate(e, after);
}

/* A prefetch never faults, whatever the address, so it needs no gate; the address must not be computed with
 * inbounds. */
void tg_emit_prefetch(tg_emitter *e, const tg_uop *u) {
  if (e->tasks) return;        /* OpenCL's prefetch is of whole workgroups, and devices ignore it */
  address a = address_of(e, u, 1, false);
  LLVMTypeRef type = LLVMTypeOf(a.pointer);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID("llvm.prefetch", 13), &type, 1);
  LLVMValueRef args[4] = {a.pointer, LLVMConstInt(e->integer[32], (u->arg & TG_PREFETCH_WRITE) != 0, 0),
                          LLVMConstInt(e->integer[32], u->arg & TG_PREFETCH_L2 ? 2 : 3, 0),
                          LLVMConstInt(e->integer[32], 1, 0)};
  LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}
