/* SPDX-License-Identifier: MIT
 * Pass expand: removes the lockstep kinds. Since `par t {S1; S2}` is `par t S1; par t S2`, the parallel ranges around
 * a statement move inward to it. A loop inside them keeps one body (its extent must not depend on them), and each
 * STORE becomes copies (upcast), a vector statement (lane) or loops of its own (local). An unroll range becomes copies
 * of its whole body, in order. Memory defined inside gains a leading dimension for each upcast and local range around
 * it; for a lane range it gains vector elements, or a trailing dimension if some statement runs in single lanes.
 *
 * On a target whose threads are lane and local ranges (device form) these ranges stay, with their BARRIERs and
 * SHUFFLEs.
 *
 * Needs a program without REDUCE. Leaves only ranges of kind loop, global, reduce, thread and group. No BARRIER is
 * left, since a statement is finished in all lanes before the next begins; a SHUFFLE picks from the vector of its
 * lanes.
 *
 * A copy of a node depends only on the iterations of the expanding ranges that the node uses (its mask), so copies are
 * cached by node and these iterations. The work is proportional to the size of the result, even if many statements
 * share a node. */
#include "lower/sweep.h"

typedef unsigned __int128 key;
enum { MAX_DEPTH = 63, MAX_STATEMENTS = 1 << 16, MAX_LANES = 4096 /* LLVM has no vectors of over 65,535 */ };
static const key LOCAL_COPIES = (key)1 << 24;
/* mask bit: contains a SHUFFLE, so it must be copied even if it uses no range */
static const uint64_t COPIED = (uint64_t)1 << MAX_DEPTH;

typedef struct {
  const tg_uop *range;
  tg_kind kind;
  uint32_t n;               /* extent of upcast, unroll and lane */
  /* current iteration; lane range: 0 is the whole vector, 1 + c is lane c; local range: number of its new loop */
  uint32_t at;
  key stride;
  const tg_uop *loop;       /* local: RANGE of its current loop */
} digit;

typedef struct { uint32_t id; key k; const tg_uop *value; } slot;
typedef struct { const tg_uop *u; uint32_t next; } frame;
typedef TG_VEC(const tg_uop *) list;

typedef struct {
  tg_job *j;
  digit path[MAX_DEPTH + 1];  /* expanding ranges around the statement; the last entry stands for bit COPIED */
  uint32_t depth, statements, locals, shuffles;   /* shuffles: nesting depth of SHUFFLEs in the copy being made */
  bool threads;             /* the target runs lanes and locals as threads: a BARRIER stays */
  /* memory private to lanes has vector elements; else a trailing dimension, so that one lane can be named */
  bool vectors;
  /* some statement ran in single lanes, or lanes access different elements of a private tile */
  bool apart;
  uint64_t *mask;           /* by node id of the old program: bit i is set if the node depends on path[i] */
  uint8_t *known;
  uint64_t *private;        /* by buffer ordinal: bits of the parallel ranges around its DEFINE */
  slot *slots;
  uint32_t used, slots_mask;
  TG_VEC(frame) stack;
} state;

static uint64_t bit(uint32_t i) { return (uint64_t)1 << i; }

static const char *name_of(const state *s, const tg_uop *range) {
  return s->j->ranges.data[tg_range_ordinal(range)].name;
}
static bool shuffles(const state *s, const tg_uop *u) {
  return !s->threads && u->op == TG_OP_SHUFFLE && u->src[1]->op == TG_OP_RANGE;
}

/* ---- what depends on which expanding range ---- */

static uint64_t mask_of(state *s, const tg_uop *root) {
  if (s->known[root->id]) return s->mask[root->id];
  uint32_t bottom = s->stack.n;
  tg_push(&s->j->env, &s->stack, ((frame){root, 0}));
  while (s->stack.n > bottom) {
    frame *f = &s->stack.data[s->stack.n - 1];
    const tg_uop *u = f->u;
    while (f->next < u->n && s->known[u->src[f->next]->id]) f->next++;
    if (!s->known[u->id] && f->next < u->n) {
      const tg_uop *next = u->src[f->next++];
      tg_push(&s->j->env, &s->stack, ((frame){next, 0}));
      continue;
    }
    s->stack.n--;
    if (s->known[u->id]) continue;
    uint64_t m = u->op == TG_OP_LOAD || u->op == TG_OP_STORE ? s->private[tg_buffer_ordinal(u->src[0])] : 0;
    for (uint32_t i = 0; i < u->n; i++) m |= s->mask[u->src[i]->id];
    /* the value of one lane, the same for every lane that reads it */
    if (shuffles(s, u)) m = (s->mask[u->src[0]->id] & ~s->mask[u->src[1]->id]) | s->mask[u->src[2]->id] | COPIED;
    s->mask[u->id] = m;
    s->known[u->id] = 1;
  }
  return s->mask[root->id];
}

static void set_mask(state *s, const tg_uop *u, uint64_t m) {
  s->mask[u->id] = m;
  s->known[u->id] = 1;
}

static uint64_t kinds_on_path(const state *s, bool unroll) {
  uint64_t m = 0;
  for (uint32_t i = 0; i < s->depth; i++)
    if ((s->path[i].kind == TG_UNROLL) == unroll) m |= bit(i);
  return m;
}

/* ---- copies ---- */

static key key_of(const state *s, uint64_t m) {
  key k = 0, local = 0;
  for (; m; m &= m - 1) {
    const digit *d = &s->path[__builtin_ctzll(m)];
    if (d->kind == TG_LOCAL) local = d->at;   /* all local loops of one statement share a number */
    else k += d->stride * d->at;
  }
  return k + local;
}

static uint32_t slot_hash(uint32_t id, key k) {
  uint64_t h = tg_mix(tg_mix(id, (uint64_t)k), (uint64_t)(k >> 64));
  return (uint32_t)(h ^ h >> 32);
}

static slot *slot_find(state *s, uint32_t id, key k) {
  uint32_t h = slot_hash(id, k) & s->slots_mask;
  while (s->slots[h].value && (s->slots[h].id != id || s->slots[h].k != k)) h = (h + 1) & s->slots_mask;
  return &s->slots[h];
}

static void slot_set(state *s, uint32_t id, key k, const tg_uop *value) {
  if (s->used * 2 >= s->slots_mask) {
    slot *old = s->slots;
    uint32_t n = s->slots_mask + 1;
    s->slots = tg_new(&s->j->env, slot, 2 * n);
    s->slots_mask = 2 * n - 1;
    for (uint32_t i = 0; i < n; i++)
      if (old[i].value) *slot_find(s, old[i].id, old[i].k) = old[i];
  }
  slot *t = slot_find(s, id, k);
  s->used += !t->value;
  *t = (slot){id, k, value};
}

/* The value of the digit's range in the copy being made. */
static const tg_uop *iteration(state *s, const digit *d) {
  tg_assert(&s->j->env, d->kind == TG_LOCAL ? d->loop != NULL : d->at < d->n + (d->kind == TG_LANE) || !d->at);
  if (d->kind == TG_LOCAL) return d->loop;
  if (d->kind == TG_LANE) return d->at ? tg_index(s->j, d->at - 1) : tg_iota(s->j, TG_INDEX, d->n);
  return tg_index(s->j, d->at);
}

/* Subscripts of memory that gained dimensions: those of upcast and local ranges in front, of the lane range at the
 * end. */
static uint32_t widen_subscripts(state *s, uint64_t private, uint32_t rank, const tg_uop *const *sub,
                                 const tg_uop **out) {
  uint32_t n = 0;
  tg_assert(&s->j->env, rank + (uint32_t)__builtin_popcountll(private) <= 16);   /* as expand_define has refused more */
  for (uint64_t m = private; m; m &= m - 1)
    if (s->path[__builtin_ctzll(m)].kind != TG_LANE) out[n++] = iteration(s, &s->path[__builtin_ctzll(m)]);
  for (uint32_t i = 0; i < rank; i++) out[n++] = sub[i];
  for (uint64_t m = s->vectors ? 0 : private; m; m &= m - 1)
    if (s->path[__builtin_ctzll(m)].kind == TG_LANE) out[n++] = iteration(s, &s->path[__builtin_ctzll(m)]);
  return n;
}

static const tg_uop *copy_access(state *s, const tg_uop *u, const tg_uop *const *src) {
  const tg_uop *sub[16], *gate = u->arg & TG_GATED ? src[u->n - (u->op == TG_OP_LOAD ? 2 : 1)] : NULL;
  int64_t flags = u->arg & ~(int64_t)TG_GATED;
  uint32_t rank = tg_access_rank(u);
  if (gate && gate->op == TG_OP_CONST) {
    if (!gate->arg) return u->op == TG_OP_LOAD ? src[u->n - 1] : tg_sink(s->j, 0, NULL);
    gate = NULL;
  }
  uint32_t n = widen_subscripts(s, s->private[tg_buffer_ordinal(u->src[0])], rank, src + 1, sub);
  /* each lane accesses a different element */
  for (uint32_t i = 0; i < n && s->vectors && src[0]->lanes > 1; i++) s->apart |= sub[i]->lanes > 1;
  return u->op == TG_OP_LOAD ? tg_load(s->j, src[0], sub, gate, gate ? src[u->n - 1] : NULL, flags)
                             : tg_store(s->j, src[0], sub, src[rank + 1], gate, flags);
}

static const tg_uop *found(state *s, const tg_uop *u) {
  uint64_t m = mask_of(s, u);
  if (u->op == TG_OP_RANGE)
    for (uint64_t rest = m; rest; rest &= rest - 1)
      if (s->path[__builtin_ctzll(rest)].range == u) return iteration(s, &s->path[__builtin_ctzll(rest)]);
  if (!m && u->op != TG_OP_DEFINE) return u;
  const tg_uop *v = slot_find(s, u->id, key_of(s, m))->value;
  return v || u->op != TG_OP_DEFINE ? v : u;
}

static const tg_uop *copy(state *s, const tg_uop *root);

/* Computes the value in all lanes as one vector, from which the index picks. */
static const tg_uop *copy_shuffle(state *s, const tg_uop *u) {
  uint64_t m = s->mask[u->src[1]->id];
  digit *d = m ? &s->path[__builtin_ctzll(m)] : NULL;
  if (!d || (d->kind != TG_LANE && d->n != 1))
    tg_fail(&s->j->env, TG_EINVAL, "a shuffle over %s, which stands within another lane range", name_of(s, u->src[1]));
  uint32_t at = d->at;
  if (at && ++s->shuffles > 64)
    tg_fail(&s->j->env, TG_ELIMIT, "over 64 shuffles within each other in a statement of single lanes");
  d->at = 0;
  const tg_uop *value = copy(s, u->src[0]);
  d->at = at;
  s->shuffles -= at != 0;
  return value->lanes == 1 || d->n == 1 ? value : tg_shuffle(s->j, value, tg_index(s->j, d->n), copy(s, u->src[2]));
}

static const tg_uop *copy(state *s, const tg_uop *root) {
  const tg_uop *v = found(s, root);
  if (v) return v;
  uint32_t bottom = s->stack.n;
  tg_push(&s->j->env, &s->stack, ((frame){root, 0}));
  while (s->stack.n > bottom) {
    frame *f = &s->stack.data[s->stack.n - 1];
    const tg_uop *u = f->u, *few[32], **src = u->n <= TG_COUNT(few) ? few : tg_new(&s->j->env, const tg_uop *, u->n);
    uint32_t missing = u->n;
    if (u->op == TG_OP_RANGE)
      tg_bug(&s->j->env, "pass expand: range %s is used outside of its loop",
             s->j->ranges.data[tg_range_ordinal(u)].name);
    if (u->op == TG_OP_MATRIX && !s->threads && u->src[3]->op == TG_OP_RANGE)
      tg_fail(&s->j->env, TG_EINVAL, "%s is not an instruction of this target", tg_matrix_name(s->j, u));
    /* its value is computed in another lane */
    bool apart = shuffles(s, u) && mask_of(s, u->src[1]) && s->path[__builtin_ctzll(mask_of(s, u->src[1]))].at;
    for (uint32_t i = apart ? 2 : 0; i < u->n && missing == u->n; i++)
      if (!(src[i] = found(s, u->src[i]))) missing = i;
    if (missing < u->n) {
      tg_push(&s->j->env, &s->stack, ((frame){u->src[missing], 0}));
      continue;
    }
    s->stack.n--;
    v = u->op == TG_OP_LOAD || u->op == TG_OP_STORE ? copy_access(s, u, src)
        : shuffles(s, u)                            ? copy_shuffle(s, u)
                                                    : tg_fold(s->j, u, src);
    slot_set(s, u->id, key_of(s, mask_of(s, u)), v);
  }
  return v;
}

/* ---- statements ---- */

static const tg_uop *fresh_range(state *s, const tg_uop *old, const tg_uop *extent, tg_kind kind) {
  const tg_range_info info = s->j->ranges.data[tg_range_ordinal(old)];
  return tg_range_new(s->j, info.name, extent, kind, info.from, info.pos);
}

static void put(state *s, list *out, const tg_uop *statement, tg_pos pos) {
  if (++s->statements > MAX_STATEMENTS)
    tg_fail_at(s->j, pos, "more than %d statements after upcast and unroll", MAX_STATEMENTS);
  if (pos.line) tg_set_pos(s->j, statement, pos);
  tg_push(&s->j->env, out, statement);
}

static void expand_define(state *s, list *out, const tg_uop *u) {
  uint64_t unrolled = kinds_on_path(s, true), parallel = kinds_on_path(s, false);
  tg_buffer info = *tg_buffer_info(s->j, u);
  const tg_uop *dim[16], *v = u;
  uint32_t n = 0, lanes = u->lanes;
  set_mask(s, u, unrolled);
  s->private[tg_buffer_ordinal(u)] = parallel;
  if (parallel || key_of(s, unrolled)) {
    if (info.rank + (uint32_t)__builtin_popcountll(parallel) > TG_COUNT(dim))
      tg_fail_at(s->j, info.pos, "%s has more than %zu dimensions in lockstep", info.name, TG_COUNT(dim));
    const tg_uop *old[16];
    for (uint32_t i = 0; i < info.rank; i++) old[i] = copy(s, u->src[i]);
    for (uint32_t pass = 0; pass < 2; pass++) {
      for (uint32_t i = 0; i < s->depth; i++) {
        const digit *d = &s->path[i];
        if (d->kind == TG_UNROLL || (d->kind == TG_LANE) != (pass == 1)) continue;
        if (d->kind == TG_LANE && s->vectors) {
          lanes = d->n;
          continue;
        }
        const tg_uop *extent = tg_extent(d->range);
        if (extent->op != TG_OP_CONST)
          tg_fail_at(s->j, info.pos,
                     "%s is private to each iteration of the local range %s, whose extent is not constant", info.name,
                     name_of(s, d->range));
        dim[n++] = extent;
      }
      if (!pass)
        for (uint32_t i = 0; i < info.rank; i++) dim[n++] = old[i];
    }
    info.rank = (uint8_t)n;
    v = tg_define(s->j, info, lanes, dim, NULL, true);
    slot_set(s, u->id, key_of(s, unrolled), v);
  }
  put(s, out, v, (tg_pos){0});
}

/* The copies of one statement over the digits of m from bit i on, outermost first. */
static void copies(state *s, list *out, const tg_uop *u, uint64_t m, uint64_t lanes_apart, tg_pos pos) {
  uint32_t n = 0, which[MAX_DEPTH];
  for (uint64_t rest = m; rest; rest &= rest - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(rest);
    digit *d = &s->path[i];
    if (d->kind != TG_UPCAST && !(lanes_apart & bit(i))) continue;
    if (!d->n) return;
    d->at = d->kind == TG_LANE;
    which[n++] = i;
  }
  for (;;) {
    const tg_uop *v = copy(s, u);
    if (v->op == TG_OP_STORE || v->op == TG_OP_PREFETCH) put(s, out, v, pos);
    uint32_t i = n;
    while (i-- > 0) {
      digit *d = &s->path[which[i]];
      if (++d->at < d->n + (d->kind == TG_LANE)) break;
      d->at = d->kind == TG_LANE;
    }
    if (i == UINT32_MAX) break;
  }
  for (uint32_t i = 0; i < n; i++) s->path[which[i]].at = 0;
}

/* The bit of the lane range if a STORE must run lane by lane; 0: it runs as a vector, or, if *last, in the last lane
 * only, since all lanes store to one element. A PREFETCH runs in the last lane. */
static uint64_t lanes_apart(state *s, const tg_uop *u, uint64_t m, bool *last) {
  uint64_t lane = 0, subscripts = s->private[tg_buffer_ordinal(u->src[0])];
  *last = false;
  for (uint32_t i = 0; i < s->depth; i++)
    if (s->path[i].kind == TG_LANE) tg_assert(&s->j->env, !lane), lane = bit(i);   /* one vector: open_digit */
  if (!(m & lane)) return 0;
  if (u->arg & TG_ATOMIC) return lane;
  if (u->op == TG_OP_PREFETCH) return *last = true, 0;
  for (uint32_t i = 0; i < tg_access_rank(u); i++) subscripts |= mask_of(s, u->src[1 + i]);
  if (subscripts & lane) return 0;
  if (tg_gate(u) && mask_of(s, tg_gate(u)) & lane) return lane;
  *last = true;
  return 0;
}

static void expand_store(state *s, list *out, const tg_uop *u) {
  uint64_t parallel = kinds_on_path(s, false), m = (u->arg & TG_ATOMIC ? parallel : mask_of(s, u)) & parallel;
  tg_pos pos = tg_get_pos(s->j, u);
  bool last;
  uint64_t apart = lanes_apart(s, u, m, &last);
  s->apart |= (apart || last) && u->op == TG_OP_STORE;
  if (u->arg & TG_ATOMIC) set_mask(s, u, mask_of(s, u) | parallel);
  list inner = {0}, *to = out;
  for (uint64_t rest = m; rest; rest &= rest - 1) {
    digit *d = &s->path[__builtin_ctzll(rest)];
    if (d->kind == TG_LANE && last) d->at = d->n;
    if (d->kind != TG_LOCAL) continue;
    to = &inner;
    if (++s->locals >= (uint32_t)LOCAL_COPIES) tg_fail_at(s->j, pos, "too many statements in local ranges");
    d->at = s->locals;
    d->loop = fresh_range(s, d->range, copy(s, tg_extent(d->range)), TG_LOOP);
  }
  copies(s, to, u, m, apart, pos);
  for (uint64_t rest = m; rest; rest &= ~bit(63 - (uint32_t)__builtin_clzll(rest))) {   /* innermost loop first */
    digit *d = &s->path[63 - __builtin_clzll(rest)];
    d->at = 0;
    if (d->kind != TG_LOCAL || !inner.n) continue;
    const tg_uop *end = tg_end(s->j, d->loop, inner.n, inner.data);
    inner.n = 0;
    put(s, &inner, end, pos);
  }
  if (to == &inner)
    for (uint32_t i = 0; i < inner.n; i++) tg_push(&s->j->env, out, inner.data[i]);
}

static void expand_list(state *s, list *out, uint32_t n, const tg_uop *const *statements);

static void expand_loop(state *s, list *out, const tg_uop *u) {
  const tg_uop *range = u->src[0], *extent = tg_extent(range), *loop = range;
  uint64_t m = mask_of(s, extent), parallel = kinds_on_path(s, false), unrolled = kinds_on_path(s, true);
  for (uint64_t rest = m & parallel; rest; rest &= rest - 1)
    tg_fail_at(s->j, tg_get_pos(s->j, u),
               "the extent of %s depends on the %s range %s, but iterations in lockstep run %s together",
               name_of(s, range), tg_kind_name[s->path[__builtin_ctzll(rest)].kind],
               name_of(s, s->path[__builtin_ctzll(rest)].range), name_of(s, range));
  set_mask(s, range, unrolled);
  extent = copy(s, extent);
  if (key_of(s, unrolled)) loop = fresh_range(s, range, extent, tg_range_kind(range));
  else if (extent != tg_extent(range)) loop = tg_range_again(s->j, range, extent, tg_range_kind(range));
  if (unrolled) slot_set(s, range->id, key_of(s, unrolled), loop);
  list body = {0};
  expand_list(s, &body, u->n - 1, u->src + 1);
  if (body.n) put(s, out, tg_end(s->j, loop, body.n, body.data), tg_get_pos(s->j, u));
}

static void open_digit(state *s, const tg_uop *u) {
  const tg_uop *range = u->src[0], *extent = tg_extent(range);
  tg_kind kind = tg_range_kind(range);
  tg_pos pos = tg_get_pos(s->j, u);
  if (s->depth == MAX_DEPTH) tg_fail_at(s->j, pos, "expanding ranges nested more than %d deep", MAX_DEPTH);
  for (uint32_t i = 0; i < s->depth && kind == TG_LANE; i++)
    /* only one lane range can be the vector; another becomes copies */
    if (s->path[i].kind == TG_LANE) kind = TG_UPCAST;
  digit *d = &s->path[s->depth], *above = s->depth ? d - 1 : NULL;
  *d = (digit){.range = range, .kind = kind};
  if (kind != TG_LOCAL) {
    extent = copy(s, extent);
    if (extent->op != TG_OP_CONST)
      tg_fail_at(s->j, pos, "the %s range %s needs a constant extent", tg_kind_name[kind], name_of(s, range));
    if (kind == TG_LANE && extent->arg > MAX_LANES)
      tg_fail_at(s->j, pos,
                 "the lane range %s has %lld iterations, over the limit of %d: split it and take the inner part",
                 name_of(s, range), (long long)extent->arg, MAX_LANES);
    if (extent->arg > MAX_STATEMENTS)
      tg_fail_at(s->j, pos, "the %s range %s has %lld iterations, over the limit of %d", tg_kind_name[kind],
                 name_of(s, range), (long long)extent->arg, MAX_STATEMENTS);
    d->n = extent->arg > 0 ? (uint32_t)extent->arg : 0;
    if (kind == TG_LANE && d->n == 1) d->kind = TG_UPCAST;
  }
  d->stride = above ? above->stride * (above->kind == TG_LOCAL ? 1 : (key)above->n + 2) : LOCAL_COPIES;
  if (d->stride >> 104) tg_fail_at(s->j, pos, "too many copies in nested expanding ranges");
  /* what is cached of the range is cached by this bit */
  tg_assert(&s->j->env, !s->known[range->id] || s->mask[range->id] == bit(s->depth));
  set_mask(s, range, bit(s->depth++));
}

static void expand_parallel(state *s, list *out, const tg_uop *u) {
  uint32_t depth = s->depth;
  open_digit(s, u);
  digit *d = &s->path[depth];
  if (d->kind == TG_UNROLL) {
    for (d->at = 0; d->at < d->n; d->at++) expand_list(s, out, u->n - 1, u->src + 1);
  } else if (d->kind == TG_LOCAL || d->n) {
    expand_list(s, out, u->n - 1, u->src + 1);
  }
  tg_assert(&s->j->env, s->depth == depth + 1);
  s->depth = depth;
}

static bool expands(const tg_uop *range, bool threads) {
  tg_kind k = tg_range_kind(range);
  return k == TG_UPCAST || k == TG_UNROLL || (!threads && (k == TG_LANE || k == TG_LOCAL));
}

static void expand_list(state *s, list *out, uint32_t n, const tg_uop *const *statements) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = statements[i];
    if (u->op == TG_OP_DEFINE) expand_define(s, out, u);
    else if (u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH) expand_store(s, out, u);
    else if (u->op == TG_OP_BARRIER && s->threads)
      put(s, out, kinds_on_path(s, true) ? tg_barrier_new(s->j) : u, (tg_pos){0});
    else if (u->op == TG_OP_WAIT && s->threads)
      put(s, out, kinds_on_path(s, true) ? tg_wait_new(s->j, tg_wait_flying(u)) : u, (tg_pos){0});
    else if (u->op == TG_OP_BARRIER) continue;
    else if (u->op != TG_OP_END) tg_bug(&s->j->env, "pass expand: a %s is no statement here", tg_ops[u->op].name);
    else {
      if (expands(u->src[0], s->threads)) expand_parallel(s, out, u);
      else expand_loop(s, out, u);
    }
  }
}

static bool has_work(const tg_uop *u, bool threads) {
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *v = u->src[i];
    if (v->op == TG_OP_BARRIER && !threads) return true;
    if (v->op != TG_OP_END) continue;
    if (expands(v->src[0], threads) || has_work(v, threads)) return true;
  }
  return false;
}

static bool expand_program(tg_job *j, state *s, list *out, const tg_uop *sink, bool threads, bool vectors) {
  *s = (state){.j = j,
               .threads = threads,
               .vectors = vectors,
               .mask = tg_new(&j->env, uint64_t, sink->id + 1),
               .known = tg_new(&j->env, uint8_t, sink->id + 1),
               .private = tg_new(&j->env, uint64_t, j->buffers.n),
               .slots = tg_new(&j->env, slot, 4096),
               .slots_mask = 4095};
  out->n = 0;
  expand_list(s, out, sink->n, sink->src);
  return !vectors || !s->apart;
}

const tg_uop *tg_pass_expand(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  bool threads = l->target && l->target->lanes > 1;
  if (!has_work(sink, threads)) return sink;
  sink = tg_plain(j, sink);
  state *s = tg_new(&j->env, state, 1);
  list out = {0};
  if (!expand_program(j, s, &out, sink, threads, true)) expand_program(j, s, &out, sink, threads, false);
  return tg_versioned(j, tg_sink(j, out.n, out.data));
}
