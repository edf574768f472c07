/* SPDX-License-Identifier: MIT
 * Masked accesses in the form that the target supports, one register at a time. The emitter writes LLVM's masked
 * intrinsics of any width. Here lanes whose mask is constant false are removed: an access becomes narrower, a register
 * without lanes vanishes, and an access whose mask is constant true becomes a plain one. The others become
 *
 *   AVX-512             masked.load, masked.store, .., of one register, which use k-registers
 *   AVX2                x86.avx.maskload and its kin, whose masks are sign bits, for elements of 32 and 64 bits. Not
 *                       masked.load: LLVM turns that into a plain load where it believes that it knows the mask
 *                       (docs/llvm.md, "Half a mask")
 *   all others          masked.load etc. of one register, which LLVM expands to a branch for each lane before it
 *                       selects instructions
 *
 * so what LLVM infers about a mask never decides which memory is accessed. */
#include "jit/emit_address.h"
#include "jit/emit_registers.h"

enum { MOST_LOOKED_AT = 64, SMALLEST = 16 /* bytes of the narrowest masked access */ };
/* the mask of a lane: known only at run time, true, or false */
typedef enum { LANE_VARIES, LANE_OPEN, LANE_SHUT } lane_state;

/* ---- LLVM's intrinsics ---- */

static void set_align(tg_emitter *e, LLVMValueRef call, unsigned operand, uint32_t align) {
#if TG_LLVM_MASKED_ALIGN_OPERAND
  (void)e, (void)call, (void)operand, (void)align;
#else
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, operand + 1, LLVMCreateEnumAttribute(e->c, kind, align));
#endif
}

LLVMValueRef tg_emit_masked(tg_emitter *e, const char *name, bool store, LLVMValueRef pointer, LLVMValueRef mask,
                            LLVMValueRef value, uint32_t align) {
  if (e->tasks) return tg_tasks_masked(e, store, pointer, mask, value, align);
  LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(pointer)};
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name)), n = 0;
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, id, types, 2), args[4];
  e->uncut = true;
  if (store) args[n++] = value;
  args[n++] = pointer;
  if (TG_LLVM_MASKED_ALIGN_OPERAND) args[n++] = LLVMConstInt(e->integer[32], align, 0);
  args[n++] = mask;
  if (!store) args[n++] = value;
  LLVMValueRef call = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
  set_align(e, call, store ? 1 : 0, align);
  return call;
}

static const char *const names[] = {[MASKED_LOAD] = "llvm.masked.load", [MASKED_STORE] = "llvm.masked.store",
                                    [MASKED_GATHER] = "llvm.masked.gather", [MASKED_SCATTER] = "llvm.masked.scatter"};

static bool stores(masked_access kind) { return kind == MASKED_STORE || kind == MASKED_SCATTER; }

masked_access tg_cut_masked_kind(LLVMValueRef call) {
  unsigned id = LLVMGetIntrinsicID(LLVMGetCalledValue(call));
  if (!id) return MASKED_NONE;
  for (masked_access k = MASKED_LOAD; k <= MASKED_SCATTER; k++)
    if (id == LLVMLookupIntrinsicID(names[k], strlen(names[k]))) return k;
  return MASKED_NONE;
}

LLVMTypeRef tg_cut_masked_type(LLVMValueRef call, masked_access kind) {
  return LLVMTypeOf(stores(kind) ? LLVMGetOperand(call, 0) : call);
}

typedef struct {
  masked_access kind;
  LLVMValueRef pointer, mask, value;   /* value: what is stored, or the result of lanes whose mask is false */
  LLVMTypeRef element;
  uint32_t lanes, bits, align;
  uint8_t *state;              /* of each lane: lane_state */
} access;

static access access_of(cutter *c, LLVMValueRef call, masked_access kind) {
  bool store = stores(kind);
  unsigned n = 0;
  access a = {.kind = kind};
  if (store) a.value = LLVMGetOperand(call, n++);
  a.pointer = LLVMGetOperand(call, n++);
#if TG_LLVM_MASKED_ALIGN_OPERAND
  a.align = (uint32_t)LLVMConstIntGetZExtValue(LLVMGetOperand(call, n++));
#else
  unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
  a.align = (uint32_t)LLVMGetEnumAttributeValue(LLVMGetCallSiteEnumAttribute(call, store ? 2 : 1, align));
#endif
  a.mask = LLVMGetOperand(call, n++);
  if (!store) a.value = LLVMGetOperand(call, n);
  a.lanes = tg_cut_lanes(LLVMTypeOf(a.value));
  a.element = LLVMGetElementType(LLVMTypeOf(a.value));
  a.bits = tg_cut_bits(c, a.element);
  a.state = tg_new(&c->e->j->env, uint8_t, a.lanes);
  return a;
}

/* ---- lanes whose mask is constant ---- */

static lane_state both(uint8_t a, uint8_t b) {
  return a == LANE_SHUT || b == LANE_SHUT ? LANE_SHUT : a == LANE_OPEN && b == LANE_OPEN ? LANE_OPEN : LANE_VARIES;
}

static lane_state either(uint8_t a, uint8_t b) {
  return a == LANE_OPEN || b == LANE_OPEN ? LANE_OPEN : a == LANE_SHUT && b == LANE_SHUT ? LANE_SHUT : LANE_VARIES;
}

/* Finds the states of a mask's n lanes, which are LANE_VARIES before. left: how many more values may be visited. */
static void find_states(cutter *c, LLVMValueRef mask, uint8_t *state, uint32_t n, uint32_t *left) {
  bool and = LLVMIsAInstruction(mask) && LLVMGetInstructionOpcode(mask) == LLVMAnd;
  bool or = LLVMIsAInstruction(mask) && LLVMGetInstructionOpcode(mask) == LLVMOr;
  if (!*left) return;
  --*left;
  for (uint32_t i = 0; LLVMIsConstant(mask) && i < n; i++) {
    LLVMValueRef bit = LLVMGetAggregateElement(mask, i);
    if (bit && LLVMIsAConstantInt(bit)) state[i] = LLVMConstIntGetZExtValue(bit) ? LANE_OPEN : LANE_SHUT;
  }
  if (and || or) {
    uint8_t *a = tg_new(&c->e->j->env, uint8_t, 2 * n), *b = a + n;
    find_states(c, LLVMGetOperand(mask, 0), a, n, left);
    find_states(c, LLVMGetOperand(mask, 1), b, n, left);
    for (uint32_t i = 0; i < n; i++) state[i] = and ? both(a[i], b[i]) : either(a[i], b[i]);
  } else if (LLVMIsAShuffleVectorInst(mask)) {
    LLVMValueRef of = LLVMGetOperand(mask, 0), with = LLVMGetOperand(mask, 1);
    uint32_t m = tg_cut_lanes(LLVMTypeOf(of));
    uint8_t *a = tg_new(&c->e->j->env, uint8_t, 2 * m);
    find_states(c, of, a, m, left);
    find_states(c, with, a + m, m, left);
    for (uint32_t i = 0; i < n; i++)
      if (LLVMGetMaskValue(mask, i) >= 0) state[i] = a[LLVMGetMaskValue(mask, i)];
  }
}

/* ---- forms ---- */

typedef struct { uint32_t from, n, wide; } window;   /* n lanes, padded to `wide` */

static bool takes_signs(const cutter *c, const access *a) {
  const tg_target *t = c->e->target;
  return t->arch == TG_ARCH_X86_64 && t->masked_least == 4 && a->bits >= 32
         && (a->kind == MASKED_LOAD || a->kind == MASKED_STORE);
}

/* Does the target have instructions for a masked access? If not, LLVM turns it into branches. */
static bool in_registers(const cutter *c, const access *a) {
  return takes_signs(c, a) || (c->e->target->masked_least == 1 && c->e->target->vector_bytes >= 64);
}

static const char *const sign_loads[2][2][2] = {/* [elements are floats][of 64 bits][register of 256 bits] */
                                                {{"llvm.x86.avx2.maskload.d", "llvm.x86.avx2.maskload.d.256"},
                                                 {"llvm.x86.avx2.maskload.q", "llvm.x86.avx2.maskload.q.256"}},
                                                {{"llvm.x86.avx.maskload.ps", "llvm.x86.avx.maskload.ps.256"},
                                                 {"llvm.x86.avx.maskload.pd", "llvm.x86.avx.maskload.pd.256"}}};
static const char *const sign_stores[2][2][2] = {{{"llvm.x86.avx2.maskstore.d", "llvm.x86.avx2.maskstore.d.256"},
                                                  {"llvm.x86.avx2.maskstore.q", "llvm.x86.avx2.maskstore.q.256"}},
                                                 {{"llvm.x86.avx.maskstore.ps", "llvm.x86.avx.maskstore.ps.256"},
                                                  {"llvm.x86.avx.maskstore.pd", "llvm.x86.avx.maskstore.pd.256"}}};

static LLVMValueRef by_signs(cutter *c, const access *a, window w, LLVMValueRef pointer, LLVMValueRef value) {
  tg_emitter *e = c->e;
  bool store = a->kind == MASKED_STORE, floats = LLVMGetTypeKind(a->element) != LLVMIntegerTypeKind;
  const char *name = (store ? sign_stores : sign_loads)[floats][a->bits == 64][w.wide * a->bits == 256];
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
  LLVMValueRef args[3] = {pointer, tg_cut_mask(c, a->mask, w.from, w.n, w.wide, a->bits), value};
  LLVMValueRef v = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, store ? 3 : 2, "");
  if (store || LLVMIsNull(value) || LLVMIsUndef(value)) return v;
  return LLVMBuildSelect(e->b, tg_cut_mask(c, a->mask, w.from, w.n, w.wide, 1), v, value, "");
}

/* The value to be stored, or the result of lanes whose mask is false, padded to w.wide lanes. */
static LLVMValueRef widened(cutter *c, const access *a, window w) {
  LLVMValueRef v = tg_cut_part(c, a->value, w.from, w.n);
  if (w.n == w.wide) return v;
  pick *picks = tg_new(&c->e->j->env, pick, w.wide);
  for (uint32_t i = 0; i < w.n; i++) picks[i] = (pick){v, i};
  return tg_cut_assemble(c, picks, w.wide, a->element);
}

static LLVMValueRef pointer_of(cutter *c, const access *a, uint32_t from, uint32_t n) {
  bool apart = LLVMGetTypeKind(LLVMTypeOf(a->pointer)) == LLVMVectorTypeKind;
  return apart ? tg_cut_part(c, a->pointer, from, n) : tg_cut_ahead(c, a->pointer, (uint64_t)from * a->bits / 8);
}

static LLVMValueRef under_mask(cutter *c, const access *a, window w) {
  LLVMValueRef pointer = pointer_of(c, a, w.from, w.n), value = widened(c, a, w);
  if (takes_signs(c, a)) return by_signs(c, a, w, pointer, value);
  bool apart = a->kind == MASKED_GATHER || a->kind == MASKED_SCATTER;
  uint32_t align = apart ? a->align : tg_cut_alignment(a->align, (uint64_t)w.from * a->bits / 8);
  LLVMValueRef mask = tg_cut_mask(c, a->mask, w.from, w.n, w.wide, 1);
  return tg_emit_masked(c->e, names[a->kind], stores(a->kind), pointer, mask, value, align);
}

/* Accesses the lanes w of a register without a mask, since the masks of all are true: as a vector, or as a scalar. */
static LLVMValueRef plain(cutter *c, const access *a, window reg, window w) {
  LLVMBuilderRef b = c->e->b;
  LLVMValueRef pointer = pointer_of(c, a, w.from, w.n), at = LLVMConstInt(c->e->integer[32], w.from - reg.from, 0), v;
  if (!stores(a->kind)) v = LLVMBuildLoad2(b, w.n == 1 ? a->element : LLVMVectorType(a->element, w.n), pointer, "");
  else if (w.n > 1) v = LLVMBuildStore(b, tg_cut_part(c, a->value, w.from, w.n), pointer);
  else v = LLVMBuildStore(b, LLVMBuildExtractElement(b, tg_cut_part(c, a->value, reg.from, reg.n), at, ""), pointer);
  LLVMSetAlignment(v, tg_cut_alignment(a->align, (uint64_t)w.from * a->bits / 8));
  return v;
}

/* ---- one register ---- */

/* Narrows the window to the smallest half, quarter, .. of the register that still contains every lane whose mask may be
 * true. False: there is no such lane. */
static bool find_window(cutter *c, const access *a, window *w) {
  uint32_t first = UINT32_MAX, last = 0, smallest = in_registers(c, a) ? SMALLEST * 8 / a->bits : 2,
           end = w->from + w->n;
  bool apart = a->kind == MASKED_GATHER || a->kind == MASKED_SCATTER;
  for (uint32_t i = w->from; i < end; i++)
    if (a->state[i] != LANE_SHUT) first = first == UINT32_MAX ? i : first, last = i;
  if (first == UINT32_MAX) return false;
  w->wide = w->n;
  if (apart) return true;
  for (w->wide = smallest; w->wide < w->n;) w->wide *= 2;
  while (w->wide > smallest) {
    uint32_t half = w->wide / 2, middle = w->from + half;
    if (last >= middle && first < middle) break;
    if (first >= middle) w->from = middle;
    w->wide = half;
  }
  w->n = end - w->from < w->wide ? end - w->from : w->wide;
  if (!in_registers(c, a)) w->wide = w->n;
  return true;
}

/* Divides a constant mask into runs of true lanes, each of a power of two of lanes, to be accessed without a mask. Only
 * if a masked access would become branches, or has a single lane: LLVM 22 turns an access of one lane into a scalar
 * one, which for 8-bit and 16-bit elements has 32 bits and reaches past the lane (docs/llvm.md, "One lane"). Returns
 * the number of runs; 0: not applicable. */
static uint32_t find_runs(cutter *c, const access *a, window w, window *runs) {
  uint32_t open = 0, n = 0;
  if (a->kind == MASKED_GATHER || a->kind == MASKED_SCATTER) return 0;
  for (uint32_t i = w.from; i < w.from + w.n; i++) {
    if (a->state[i] == LANE_VARIES) return 0;
    open += a->state[i] == LANE_OPEN;
  }
  if (in_registers(c, a) && open != 1 && open != w.wide) return 0;
  for (uint32_t i = w.from; i < w.from + w.n;) {
    uint32_t length = 0, part = 1;
    while (i + length < w.from + w.n && a->state[i + length] == LANE_OPEN) length++;
    while (length && 2 * part <= length) part *= 2;
    if (length) runs[n++] = (window){i, part, part};
    i += part;
  }
  return n;
}

/* Rewrites the access of one register, the lanes reg. Returns the value of a load. */
static LLVMValueRef cut_one(cutter *c, const access *a, window reg) {
  window w = reg, *runs = tg_new(&c->e->j->env, window, reg.n);
  bool load = !stores(a->kind);
  LLVMValueRef other = load ? tg_cut_part(c, a->value, reg.from, reg.n) : NULL, all;
  if (!find_window(c, a, &w)) return other;
  uint32_t count = find_runs(c, a, w, runs);
  if (!count && w.from == reg.from && w.wide == reg.n) return under_mask(c, a, w);
  pick *picks = tg_new(&c->e->j->env, pick, reg.n);
  LLVMValueRef *single = tg_new(&c->e->j->env, LLVMValueRef, reg.n);
  for (uint32_t i = 0; load && i < reg.n; i++) picks[i] = (pick){LLVMIsUndef(other) ? NULL : other, i};
  for (uint32_t r = 0; r < (count ? count : 1); r++) {
    window now = count ? runs[r] : w;
    LLVMValueRef v = count ? plain(c, a, reg, now) : under_mask(c, a, now);
    bool alone = count && now.n == 1;
    if (alone) single[now.from - reg.from] = v;
    for (uint32_t i = 0; load && i < now.n; i++)
      picks[now.from - reg.from + i] = alone ? (pick){NULL, 0} : (pick){v, i};
  }
  if (!load) return NULL;
  all = tg_cut_assemble(c, picks, reg.n, a->element);
  for (uint32_t i = 0; i < reg.n; i++)
    if (single[i]) all = LLVMBuildInsertElement(c->e->b, all, single[i], LLVMConstInt(c->e->integer[32], i, 0), "");
  return all;
}

/* May an access that fits one register stay as it is? */
static bool stays(cutter *c, const access *a) {
  window w = {0, a->lanes, a->lanes}, *runs = tg_new(&c->e->j->env, window, a->lanes);
  return !takes_signs(c, a) && find_window(c, a, &w) && !w.from && w.wide == a->lanes && !find_runs(c, a, w, runs);
}

bool tg_cut_masked(cutter *c, LLVMValueRef call, masked_access kind) {
  access a = access_of(c, call, kind);
  uint32_t room = tg_cut_room(c, a.element), left = MOST_LOOKED_AT;
  const registers *addresses = tg_cut_find(c, a.pointer);
  if (addresses && addresses->per < room) room = addresses->per;
  find_states(c, a.mask, a.state, a.lanes, &left);
  if (a.lanes <= room && stays(c, &a)) return false;
  if (a.lanes <= room) {
    LLVMValueRef v = cut_one(c, &a, (window){0, a.lanes, a.lanes});
    if (!stores(kind)) LLVMReplaceAllUsesWith(call, v);
    return true;
  }
  registers made = {.per = room};
  if (!stores(kind)) made = *tg_cut_new(c, call, room);
  for (uint32_t from = 0; from < a.lanes; from += room) {
    uint32_t n = a.lanes - from < room ? a.lanes - from : room;
    LLVMValueRef v = cut_one(c, &a, (window){from, n, n});
    if (!stores(kind)) made.reg[from / room] = v;
  }
  return true;
}
