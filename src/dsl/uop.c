/* SPDX-License-Identifier: MIT
 * Nodes: made once, found again by structure. Constructors are raw: they type a node but never simplify it. */
#include "dsl/uop.h"
#include "dsl/value.h"

#define C TG_OPF_C
#define A TG_OPF_A
#define B TG_OPF_B
#define W TG_OPF_W
const tg_op_info tg_ops[TG_OP__COUNT] = {
#define OP(name, text, arity, flags, on_int, on_float) [TG_OP_##name] = {#name, text, arity, flags},
#include "dsl/ops.def"
#undef OP
};
#undef C
#undef A
#undef B
#undef W

const char *const tg_kind_name[] = {"loop",   "global", "local",  "lane",   "group",
                                    "reduce", "upcast", "unroll", "thread", "merge"};
_Static_assert(TG_COUNT(tg_kind_name) == TG_KIND__COUNT, "a name for each kind");
#define TYPE(constant, name, bits) #name,
const char *const tg_type_name[] = {
#include "dsl/types.def"
};
#undef TYPE
#define TYPE(constant, name, bits) bits,
static const uint8_t type_bits[] = {
#include "dsl/types.def"
};
#undef TYPE
/* The rows stand in the order of the public enum. */
enum {
#define TYPE(constant, name, bits) ROW_##constant,
#include "dsl/types.def"
#undef TYPE
  ROWS
};
#define TYPE(constant, name, bits)                                                                                     \
  _Static_assert((int)ROW_##constant == (int)TG_##constant, #name " stands elsewhere in tg_type");
#include "dsl/types.def"
#undef TYPE
_Static_assert((int)ROWS == (int)TG_TYPE__COUNT, "types.def and tg_type have as many types");

int tg_type_bits(tg_type t) { return type_bits[t]; }
int tg_type_bytes(tg_type t) { return (type_bits[t] + 7) / 8; }

void tg_job_init(tg_job *j, const tg_allocator *a) {
  memset((char *)j + sizeof j->env, 0, sizeof *j - sizeof j->env);
  tg_env_init(&j->env, a);
  j->stage = "author";
}

void tg_job_drop(tg_job *j) { tg_env_drop(&j->env); }

/* ---- names ---- */

static void grow_symbols(tg_job *j) {
  uint32_t size = j->symbols ? (j->symbols_mask + 1) * 2 : 64;
  const char **old = j->symbols, **wider = tg_new(&j->env, const char *, size);
  for (uint32_t i = 0; old && i <= j->symbols_mask; i++) {
    if (!old[i]) continue;
    uint32_t h = (uint32_t)tg_hash(old[i], strlen(old[i]), 0) & (size - 1);
    while (wider[h]) h = (h + 1) & (size - 1);
    wider[h] = old[i];
  }
  j->symbols = wider;
  j->symbols_mask = size - 1;
}

const char *tg_symbol(tg_job *j, const char *s, size_t n) {
  if (!j->symbols || j->symbols_n * 2 > j->symbols_mask) grow_symbols(j);
  uint32_t h = (uint32_t)tg_hash(s, n, 0) & j->symbols_mask;
  for (; j->symbols[h]; h = (h + 1) & j->symbols_mask)
    if (!strncmp(j->symbols[h], s, n) && !j->symbols[h][n]) return j->symbols[h];
  j->symbols_n++;
  return j->symbols[h] = tg_strndup(&j->env, s, n);
}

/* ---- nodes ---- */

static uint32_t hash_of(tg_op op, tg_type type, uint32_t lanes, int64_t arg, uint32_t n, const tg_uop *const *src) {
  uint64_t h = tg_mix((uint64_t)op | (uint64_t)type << 16 | (uint64_t)lanes << 32, (uint64_t)arg);
  for (uint32_t i = 0; i < n; i++) h = tg_mix(h, src[i]->id);
  return (uint32_t)(h ^ (h >> 32));
}

static bool same_node(const tg_uop *u, const tg_uop *like, const tg_uop *const *src) {
  return u->op == like->op && u->type == like->type && u->lanes == like->lanes && u->arg == like->arg &&
         u->n == like->n && (!u->n || !memcmp(u->src, src, u->n * sizeof *src));
}

/* The table is read by groups of a cache line. The first group of a node stands beside its newest source, so that a
 * pass, which makes nodes in the order of their sources, walks the table as it walks memory; if that is full, the
 * next ones stand anywhere, by the hash. Nothing is ever taken out, so a group that was full stays full. Gives the
 * slot of the node, or the free one where it belongs. */
enum { GROUP = 8 };

static uint32_t slot_of(const tg_job *j, uint32_t hash, const tg_uop *like, const tg_uop *const *src) {
  const uint64_t *slots = j->slots;
  uint32_t at = hash;
  if (like->n) at = src[0]->id;
  for (uint32_t i = 1; i < like->n; i++) at = src[i]->id > at ? src[i]->id : at;
  if (like->n) at *= 2;
  for (uint32_t k = 1;; k++) {
    uint32_t group = at & j->slots_mask & ~(uint32_t)(GROUP - 1);
    for (uint32_t h = group; h < group + GROUP; h++)
      if (!slots[h] || (slots[h] >> 32 == hash && same_node(j->uops.data[(uint32_t)slots[h] - 1], like, src))) return h;
    at = k == 1 ? hash * 0x9E3779B9u : at + GROUP * k;   /* 2, 5, 9, .. groups on: all of them in turn */
  }
}

static void grow_slots(tg_job *j) {
  uint32_t size = j->slots ? (j->slots_mask + 1) * 2 : 1024;
  j->slots = tg_new(&j->env, uint64_t, size);
  j->slots_mask = size - 1;
  for (uint32_t i = 0; i < j->uops.n; i++) {
    const tg_uop *u = j->uops.data[i];
    uint32_t hash = hash_of(u->op, u->type, u->lanes, u->arg, u->n, u->src);
    j->slots[slot_of(j, hash, u, u->src)] = (uint64_t)hash << 32 | (i + 1);
  }
}

/* The hash stands in the table beside the id: a node is read only where it is very likely the one. */
const tg_uop *tg_make(tg_job *j, tg_op op, tg_type type, uint32_t lanes, int64_t arg, uint32_t n,
                      const tg_uop *const *src) {
  if (!j->slots || j->uops.n >= j->slots_mask / 2) grow_slots(j);
  const tg_uop like = {.op = (uint16_t)op, .type = (uint8_t)type, .lanes = lanes, .id = j->uops.n, .n = n, .arg = arg};
  uint32_t hash = hash_of(op, type, lanes, arg, n, src), h = slot_of(j, hash, &like, src);
  if (j->slots[h]) return j->uops.data[(uint32_t)j->slots[h] - 1];
  if (j->uops.n == UINT32_MAX / 4) tg_fail(&j->env, TG_ELIMIT, "a kernel of over 2^30 nodes");
  tg_uop *u = tg_alloc(&j->env, sizeof *u + n * sizeof *src);
  *u = like;
  if (n) memcpy(u->src, src, n * sizeof *src);
  tg_push(&j->env, &j->uops, u);
  j->slots[h] = (uint64_t)hash << 32 | (u->id + 1);
  return u;
}

const tg_uop *tg_const_int(tg_job *j, tg_type t, int64_t v) {
  return tg_make(j, TG_OP_CONST, t, 1, t == TG_INDEX ? v : (int64_t)tg_wrap(t, v), 0, NULL);
}

const tg_uop *tg_const_float(tg_job *j, tg_type t, double v) {
  int64_t bits;
  v = tg_round_to(t, v);
  if (v != v) v = __builtin_nan(""); /* one NaN */
  memcpy(&bits, &v, sizeof bits);
  return tg_make(j, TG_OP_CONST, t, 1, bits, 0, NULL);
}

double tg_const_value(const tg_uop *c) {
  double v;
  memcpy(&v, &c->arg, sizeof v);
  return v;
}

static uint32_t widest(uint32_t n, const tg_uop *const *src) {
  uint32_t w = 1;
  for (uint32_t i = 0; i < n; i++) w = src[i]->lanes > w ? src[i]->lanes : w;
  return w;
}

const tg_uop *tg_op1(tg_job *j, tg_op op, const tg_uop *a) { return tg_make(j, op, a->type, a->lanes, 0, 1, &a); }

const tg_uop *tg_op2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b) {
  const tg_uop *s[2] = {a, b};
  return tg_make(j, op, tg_ops[op].flags & TG_OPF_B ? TG_BOOL : a->type, widest(2, s), 0, 2, s);
}

const tg_uop *tg_op3(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b, const tg_uop *c) {
  const tg_uop *s[3] = {a, b, c};
  return tg_make(j, op, c->type, widest(3, s), 0, 3, s);
}

const tg_uop *tg_cast(tg_job *j, tg_type t, const tg_uop *a) {
  return a->type == t ? a : tg_make(j, TG_OP_CAST, t, a->lanes, 0, 1, &a);
}

const tg_uop *tg_bitcast(tg_job *j, tg_type t, const tg_uop *a) {
  return a->type == t ? a : tg_make(j, TG_OP_BITCAST, t, a->lanes, 0, 1, &a);
}

const tg_uop *tg_and(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (!a || !b || a == b) return a ? a : b;
  return tg_op2(j, TG_OP_AND, a, b);
}

const tg_uop *tg_iota(tg_job *j, tg_type t, uint32_t lanes) { return tg_make(j, TG_OP_IOTA, t, lanes, 0, 0, NULL); }

/* Of SHUFFLE. */
static uint32_t shuffled_lanes(const tg_uop *const *src) {
  return src[1]->op == TG_OP_RANGE && src[0]->lanes > src[2]->lanes ? src[0]->lanes : src[2]->lanes;
}

const tg_uop *tg_with_sources(tg_job *j, const tg_uop *u, const tg_uop *const *src) {
  uint32_t lanes = u->lanes;
  if (tg_ops[u->op].flags & TG_OPF_W) lanes = widest(u->n, src);
  if (u->op == TG_OP_LOAD) {
    lanes = widest(u->n - 1, src + 1);
    if (src[0]->lanes > lanes) lanes = src[0]->lanes;
  }
  if (u->op == TG_OP_SHUFFLE) lanes = shuffled_lanes(src);
  if (u->op == TG_OP_MATRIX) lanes = src[2]->lanes;
  if (u->op == TG_OP_AHEAD) lanes = src[0]->lanes;
  return tg_make(j, u->op, u->type, lanes, u->arg, u->n, src);
}

/* ---- ranges and memory ---- */

const tg_uop *tg_range_new(tg_job *j, const char *name, const tg_uop *extent, tg_kind kind, uint32_t from, tg_pos pos) {
  uint32_t ordinal = j->ranges.n;
  tg_push(&j->env, &j->ranges, ((tg_range_info){tg_sym(j, name), from == UINT32_MAX ? ordinal : from, pos, false}));
  return tg_make(j, TG_OP_RANGE, TG_INDEX, 1, (int64_t)ordinal | (int64_t)kind << 32, 1, &extent);
}

void tg_job_go_on(tg_job *j) {
  if (tg_flag_is_set(j->cancel)) tg_fail(&j->env, TG_CANCELLED, "cancelled");
}

bool tg_job_try(tg_job *j, void (*fn)(void *), void *arg, const char **message) {
  tg_env *e = &j->env;
  uint32_t ranges = j->ranges.n, buffers = j->buffers.n, packings = j->packings.n, fired = j->fired_n;
  tg_buffer *before = tg_new(e, tg_buffer, buffers + 1);
  bool busy[TG_COUNT(j->memos)];
  if (buffers) memcpy(before, j->buffers.data, buffers * sizeof *before);
  for (uint32_t i = 0; i < TG_COUNT(busy); i++) busy[i] = j->memos[i].busy;
  if (tg_protect(e, fn, arg)) return true;
  if (e->status != TG_EINVAL && e->status != TG_ELIMIT) tg_fail(e, e->status, "%s", e->message);
  *message = tg_strdup(e, e->message);
  e->status = TG_OK;
  e->message[0] = 0;
  for (uint32_t i = 0; i < TG_COUNT(busy); i++) j->memos[i].busy = busy[i];   /* walks that were on the way */
  j->ranges.n = ranges;
  j->buffers.n = buffers;
  j->packings.n = packings;
  j->fired_n = fired;   /* their nodes are of those ranges */
  tg_names_free(j);
  if (buffers) memcpy(j->buffers.data, before, buffers * sizeof *before);
  return false;
}

const tg_uop *tg_range_again(tg_job *j, const tg_uop *range, const tg_uop *extent, tg_kind kind) {
  int64_t dealt = kind == TG_THREAD && tg_range_static(range) ? (int64_t)TG_STATIC << 40 : 0;
  return tg_make(j, TG_OP_RANGE, TG_INDEX, 1, (int64_t)tg_range_ordinal(range) | (int64_t)kind << 32 | dealt, 1,
                 &extent);
}

const tg_uop *tg_range_dealt(tg_job *j, const tg_uop *range, bool in_shares) {
  int64_t bit = (int64_t)TG_STATIC << 40;
  return tg_make(j, TG_OP_RANGE, range->type, 1, in_shares ? range->arg | bit : range->arg & ~bit, 1, range->src);
}

/* Names that are taken, interned, with the number that was tried last to make a new one of each. */
typedef struct tg_taken { const char *name; int next; } tg_taken;

static tg_taken *taken_slot(const tg_job *j, const char *symbol) {
  /* never iterated: addresses decide nothing */
  uint32_t h = (uint32_t)tg_mix(0, (uint64_t)(uintptr_t)symbol) & j->taken_mask;
  while (j->taken[h].name && j->taken[h].name != symbol) h = (h + 1) & j->taken_mask;
  return &j->taken[h];
}

static void take_name(tg_job *j, const char *name) {
  if (!j->taken || j->taken_n * 2 > j->taken_mask) {
    tg_taken *old = j->taken;
    uint32_t n = old ? j->taken_mask + 1 : 0, size = n ? n * 2 : 64;
    j->taken = tg_new(&j->env, tg_taken, size);
    j->taken_mask = size - 1;
    for (uint32_t i = 0; i < n; i++)
      if (old[i].name) *taken_slot(j, old[i].name) = old[i];
  }
  tg_taken *t = taken_slot(j, tg_sym(j, name));
  if (t->name) return;
  *t = (tg_taken){tg_sym(j, name), 1};
  j->taken_n++;
}

void tg_names_free(tg_job *j) {
  j->taken = NULL;
  j->taken_n = j->taken_seen[0] = j->taken_seen[1] = j->taken_seen[2] = 0;
}

/* The name itself, or the first of NAME.1, NAME.2, .. that nothing in the job has. */
static const char *free_name(tg_job *j, const char *name) {
  for (uint32_t *i = &j->taken_seen[0]; *i < j->buffers.n; ++*i) take_name(j, j->buffers.data[*i].name);
  for (uint32_t *i = &j->taken_seen[1]; *i < j->params.n; ++*i) take_name(j, j->params.data[*i].name);
  for (uint32_t *i = &j->taken_seen[2]; *i < j->ranges.n; ++*i) take_name(j, j->ranges.data[*i].name);
  tg_taken *t = j->taken ? taken_slot(j, tg_sym(j, name)) : NULL;
  if (!t || !t->name) return name;
  for (;; t->next++) {
    const char *next = tg_sym(j, tg_format(&j->env, "%s.%d", name, t->next));
    if (!taken_slot(j, next)->name) return next;
  }
}

const tg_uop *tg_define(tg_job *j, tg_buffer info, uint32_t lanes, const tg_uop *const *dims,
                        const tg_uop *const *strides, bool unique) {
  info.name = tg_sym(j, unique ? free_name(j, info.name) : info.name);
  uint32_t ordinal = j->buffers.n, n = info.rank;
  tg_push(&j->env, &j->buffers, info);
  const tg_uop *src[2 * 16];
  tg_assert(&j->env, n <= 16);
  for (uint32_t i = 0; i < n; i++) {
    src[i] = dims[i];
    if (strides) src[n + i] = strides[i];
  }
  return tg_make(j, TG_OP_DEFINE, info.type, lanes, (int64_t)ordinal | (int64_t)(strides ? TG_STRIDED : 0) << 32,
                 strides ? 2 * n : n, src);
}

const tg_uop *tg_load(tg_job *j, const tg_uop *version, const tg_uop *const *idx, const tg_uop *gate, const tg_uop *alt,
                      int64_t flags) {
  uint32_t rank = tg_buffer_info(j, version)->rank, n = 0;
  const tg_uop *src[16 + 3];
  src[n++] = version;
  for (uint32_t i = 0; i < rank; i++) src[n++] = idx[i];
  if (gate) {
    src[n++] = gate;
    src[n++] = alt;
    flags |= TG_GATED;
  }
  uint32_t lanes = widest(n - 1, src + 1), element = tg_define_of(version)->lanes;
  return tg_make(j, TG_OP_LOAD, version->type, lanes > element ? lanes : element, flags, n, src);
}

const tg_uop *tg_store(tg_job *j, const tg_uop *version, const tg_uop *const *idx, const tg_uop *value,
                       const tg_uop *gate, int64_t flags) {
  uint32_t rank = tg_buffer_info(j, version)->rank, n = 0;
  const tg_uop *src[16 + 3];
  src[n++] = version;
  for (uint32_t i = 0; i < rank; i++) src[n++] = idx[i];
  src[n++] = value;
  if (gate) {
    src[n++] = gate;
    flags |= TG_GATED;
  }
  return tg_make(j, TG_OP_STORE, TG_VOID, 1, flags, n, src);
}

const tg_uop *tg_end(tg_job *j, const tg_uop *range, uint32_t n, const tg_uop *const *statements) {
  const tg_uop **src = tg_new(&j->env, const tg_uop *, n + 1);
  src[0] = range;
  if (n) memcpy(src + 1, statements, n * sizeof *src);
  return tg_make(j, TG_OP_END, TG_VOID, 1, 0, n + 1, src);
}

const tg_uop *tg_sink(tg_job *j, uint32_t n, const tg_uop *const *statements) {
  return tg_make(j, TG_OP_SINK, TG_VOID, 1, 0, n, statements);
}

/* ---- threads and lanes ---- */

const tg_uop *tg_wait_new(tg_job *j, int64_t flying) {
  return tg_make(j, TG_OP_WAIT, TG_VOID, 1, (int64_t)j->uops.n | flying * ((int64_t)1 << 32), 0, NULL);
}
const tg_uop *tg_barrier_new(tg_job *j) { return tg_make(j, TG_OP_BARRIER, TG_VOID, 1, j->uops.n, 0, NULL); }

const tg_uop *tg_shuffle(tg_job *j, const tg_uop *value, const tg_uop *range, const tg_uop *index) {
  const tg_uop *s[3] = {value, range, index};
  return tg_make(j, TG_OP_SHUFFLE, value->type, shuffled_lanes(s), 0, 3, s);
}

const tg_uop *tg_matrix(tg_job *j, const char *instruction, const tg_uop *a, const tg_uop *b, const tg_uop *c,
                        const tg_uop *range) {
  const tg_uop *s[4] = {a, b, c, range};
  const char *name = tg_sym(j, instruction);
  uint32_t row = 0;
  while (row < j->instructions.n && j->instructions.data[row] != name) row++;
  if (row == j->instructions.n) tg_push(&j->env, &j->instructions, name);
  return tg_make(j, TG_OP_MATRIX, c->type, c->lanes, row, 4, s);
}

/* ---- reductions ---- */

enum { GENERIC_BIT = 1 << 24, ORDER_BIT = 1 << 25 };

tg_reduce_arg tg_reduce_info(const tg_uop *r) {
  return (tg_reduce_arg){.op = (uint16_t)(r->arg & 0xff),
                         .values = (uint8_t)(r->arg >> 8),
                         .ranges = (uint8_t)(r->arg >> 16),
                         .in_order = (r->arg & ORDER_BIT) != 0,
                         .generic = (r->arg & GENERIC_BIT) != 0};
}

/* Equal reductions are found by a twin whose ranges have been renamed to ordinals that no range has: the height
 * of the nest of twins below. The twin's first owner is kept in its position in the table of nodes. */
typedef struct { uint32_t height; } height_of;

static const tg_uop *measure_height(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  height_of *h = user;
  if (old->op == TG_OP_REDUCE) {
    uint32_t below = (uint32_t)(old->arg >> 40) + 1;
    if (below > h->height) h->height = below;
  }
  return NULL;
}

const tg_uop *tg_reduce(tg_job *j, tg_reduce_arg a, const tg_uop *const *values, const tg_uop *const *inits,
                        const tg_uop *const *combined, const tg_uop *const *ranges) {
  uint32_t nv = a.values, n = 0;
  const tg_uop *src[3 * 8 + 8], *twin_ranges[8];
  tg_assert(&j->env, nv <= 8 && a.ranges <= 8 && a.ranges >= 1);
  for (uint32_t i = 0; i < nv; i++) src[n++] = values[i];
  if (a.generic) {
    for (uint32_t i = 0; i < nv; i++) src[n++] = inits[i];
    for (uint32_t i = 0; i < nv; i++) src[n++] = combined[i];
  }
  height_of h = {0};
  for (uint32_t i = 0; i < nv; i++) tg_map(j, values[i], NULL, measure_height, &h);
  uint32_t body = n;
  for (uint32_t i = 0; i < a.ranges; i++) src[n++] = ranges[i];
  int64_t arg = (int64_t)a.op | (int64_t)nv << 8 | (int64_t)a.ranges << 16 | (a.generic ? GENERIC_BIT : 0) |
                (a.in_order ? ORDER_BIT : 0) | (int64_t)h.height << 40;
  tg_type type = a.generic ? TG_VOID : values[0]->type;
  uint32_t lanes = a.generic ? 1 : values[0]->lanes;
  const tg_uop *reduce = tg_make(j, TG_OP_REDUCE, type, lanes, arg, n, src);
  for (uint32_t i = 0; i < a.ranges; i++) { /* a range's extent may name the ranges before it */
    const tg_uop *extent = tg_substitute(j, tg_extent(ranges[i]), i, ranges, twin_ranges);
    uint32_t ordinal = 0x80000000u | h.height << 8 | i;
    twin_ranges[i] =
        tg_make(j, TG_OP_RANGE, TG_INDEX, 1, (int64_t)ordinal | (int64_t)tg_range_kind(ranges[i]) << 32, 1, &extent);
  }
  for (uint32_t i = 0; i < body; i++) src[i] = tg_substitute(j, src[i], a.ranges, ranges, twin_ranges);
  for (uint32_t i = 0; i < a.ranges; i++) src[body + i] = twin_ranges[i];
  uint32_t before = j->uops.n;
  const tg_uop *twin = tg_make(j, TG_OP_REDUCE, type, lanes, arg, n, src);
  /* ARG over the twin, with the owner's id: made right after the twin, so found by its id */
  if (twin->id >= before) return tg_make(j, TG_OP_ARG, TG_VOID, 1, -1 - (int64_t)reduce->id, 1, &twin), reduce;
  const tg_uop *tag = j->uops.data[twin->id + 1];
  tg_assert(&j->env, tag->op == TG_OP_ARG && tag->src[0] == twin);
  return j->uops.data[-1 - tag->arg];
}

const tg_uop *tg_reduce_like(tg_job *j, const tg_uop *reduce, const tg_uop *const *src, uint32_t ranges_n,
                             const tg_uop *const *ranges) {
  const tg_uop *all[3 * 8 + 8];
  uint32_t body = reduce->n - tg_reduce_info(reduce).ranges;
  tg_assert(&j->env, ranges_n >= 1 && ranges_n <= 8);
  for (uint32_t i = 0; i < body; i++) all[i] = src[i];
  for (uint32_t i = 0; i < ranges_n; i++) all[body + i] = ranges[i];
  int64_t arg = (reduce->arg & ~((int64_t)0xff << 16)) | (int64_t)ranges_n << 16;
  return tg_make(j, TG_OP_REDUCE, reduce->type, reduce->type == TG_VOID ? 1 : src[0]->lanes, arg, body + ranges_n, all);
}

const tg_uop *tg_identity(tg_job *j, tg_op op, tg_type t) {
  bool f = tg_is_float(t);
  int bits = tg_type_bits(t);
  switch (op) {
  case TG_OP_ADD: case TG_OP_OR: return f ? tg_const_float(j, t, 0) : tg_const_int(j, t, 0);
  case TG_OP_MUL: return f ? tg_const_float(j, t, 1) : tg_const_int(j, t, 1);
  case TG_OP_AND: return tg_const_int(j, t, -1);
  case TG_OP_MAX:
    if (f) return tg_const_float(j, t, -__builtin_inf());
    return tg_const_int(j, t, tg_is_signed(t) && bits ? INT64_MIN >> (64 - bits) : t == TG_INDEX ? INT64_MIN : 0);
  case TG_OP_MIN:
    if (f) return tg_const_float(j, t, __builtin_inf());
    return tg_const_int(j, t,
                        t == TG_INDEX     ? INT64_MAX
                        : tg_is_signed(t) ? (int64_t)(((uint64_t)1 << (bits - 1)) - 1)
                                          : -1);
  default: tg_bug(&j->env, "no identity for %s", tg_ops[op].name);
  }
}

void tg_extreme_parts(tg_job *j, tg_type t, bool largest, const tg_uop *inits[2], const tg_uop *combined[2]) {
  const tg_uop *arg[4];
  for (int i = 0; i < 4; i++) arg[i] = tg_make(j, TG_OP_ARG, i & 1 ? TG_I32 : t, 1, i, 0, NULL);
  const tg_uop *less = largest ? tg_op2(j, TG_OP_LT, arg[0], arg[2]) : tg_op2(j, TG_OP_LT, arg[2], arg[0]);
  const tg_uop *same = tg_op2(j, TG_OP_EQ, arg[0], arg[2]);
  if (tg_is_float(t)) {   /* NaN wins, as max and min have it */
    const tg_uop *na = tg_op2(j, TG_OP_NE, arg[0], arg[0]), *nb = tg_op2(j, TG_OP_NE, arg[2], arg[2]);
    less = tg_op2(j, TG_OP_OR, less, tg_op2(j, TG_OP_AND, nb, tg_op1(j, TG_OP_NOT, na)));
    same = tg_op2(j, TG_OP_OR, same, tg_op2(j, TG_OP_AND, na, nb));
  }
  const tg_uop *right = tg_op2(j, TG_OP_OR, less, tg_op2(j, TG_OP_AND, same, tg_op2(j, TG_OP_LT, arg[3], arg[1])));
  inits[0] = tg_identity(j, largest ? TG_OP_MAX : TG_OP_MIN, t);
  inits[1] = tg_const_int(j, TG_I32, INT32_MAX);
  combined[0] = tg_op3(j, TG_OP_WHERE, right, arg[2], arg[0]);
  combined[1] = tg_op3(j, TG_OP_WHERE, right, arg[3], arg[1]);
}

const tg_uop *tg_extreme_of(tg_job *j, const tg_uop *get) {
  if (get->op != TG_OP_GET || get->arg != 1 || get->type != TG_I32 || get->src[0]->op != TG_OP_REDUCE) return NULL;
  const tg_uop *r = get->src[0], *parts[4];
  tg_reduce_arg a = tg_reduce_info(r);
  if (!a.generic || a.values != 2) return NULL;
  for (int largest = 0; largest < 2; largest++) {
    tg_extreme_parts(j, r->src[0]->type, largest, parts, parts + 2);
    if (!memcmp(parts, r->src + 2, sizeof parts)) return r;
  }
  return NULL;
}

/* ---- positions ---- */

void tg_set_pos(tg_job *j, const tg_uop *statement, tg_pos p) {
  while (j->pos.n <= statement->id) tg_push(&j->env, &j->pos, (tg_pos){0});
  j->pos.data[statement->id] = p;
}

tg_pos tg_get_pos(const tg_job *j, const tg_uop *statement) {
  return statement->id < j->pos.n ? j->pos.data[statement->id] : (tg_pos){0};
}
