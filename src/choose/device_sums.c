/* SPDX-License-Identifier: MIT
 * The schedule of additions on a GPU whose places are read from memory, as of a histogram: atomic ones, and those of
 * integers, which the word `atomic` makes so. Threads run along the loop, each with neighbours that one load brings.
 * Where the buffer fits LOCAL memory, each workgroup adds to a copy of its own there, which is added to the buffer
 * once: integers alone, whose sums are the same in any order. */
#include "choose/device.h"
#include "ranges/depend.h"
#include "ranges/ranges.h"

enum {
  UNIT = 16,           /* bytes of the widest load */
  WARPS = 8,           /* of a group */
  UNDER_WAY = 4,       /* loads of a thread */
  GROUPS_A_CORE = 2,
  ADDS_AN_ELEMENT = 16 /* of a group, at least, for each element of its copy, which is filled and added as well */
};

typedef struct {
  tg_nest *n;
  const tg_uop *store, *range;
  int64_t extent, elements;   /* of the loop, -1: open; of the buffer, -1: open */
  uint32_t vector;
} sums;

static int64_t elements_of(const tg_uop *define) {
  int64_t all = 1;
  if (define->arg >> 32 & TG_STRIDED) return -1;
  for (uint32_t d = 0; d < define->n; d++) {
    if (define->src[d]->op != TG_OP_CONST || __builtin_mul_overflow(all, define->src[d]->arg, &all)) return -1;
  }
  return all;
}

/* Elements of the widest input that one load brings. */
static uint32_t vector_of(const sums *c) {
  tg_job *j = c->n->j;
  uint32_t count, bytes = 0;
  const tg_uop **order = tg_toposort(j, c->store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_LOAD || tg_access_motion(j, order[i], c->range) != TG_CONTIGUOUS) continue;
    uint32_t b = (uint32_t)tg_type_bytes(tg_define_of(order[i]->src[0])->type);
    bytes = b > bytes ? b : bytes;
  }
  uint32_t vector = bytes && bytes < UNIT ? UNIT / bytes : 1;
  while (vector > 1 && c->extent >= 0 && c->extent % vector) vector /= 2;
  return c->extent < 0 ? 1 : vector;
}

/* Is it atomic, or may it be? */
static bool adds(tg_job *j, const tg_uop *store) {
  tg_type type = tg_define_of(store->src[0])->type;
  bool read = false;
  if (store->arg & TG_ATOMIC) return true;
  for (uint32_t d = 0; d < tg_access_rank(store); d++) read |= tg_loads_below(j, store->src[1 + d]);
  return read && tg_is_int(type) && tg_type_bits(type) >= 32 &&
         tg_buffer_info(j, store->src[0])->space != TG_SPACE_REG && tg_accumulates(j, store) == TG_OP_ADD;
}

static bool find(sums *c, uint32_t depth, const tg_uop *const *chain) {
  const tg_uop *inner = depth ? chain[depth - 1] : NULL;
  if (!inner || inner->n != 2 || inner->src[1]->op != TG_OP_STORE || !adds(c->n->j, inner->src[1])) return false;
  c->store = inner->src[1];
  c->range = inner->src[0];
  if (tg_range_kind(c->range) != TG_LOOP || !tg_loads_below(c->n->j, c->store) ||
      tg_access_motion(c->n->j, c->store, c->range) == TG_STILL)
    return false;
  c->extent = tg_iterations(c->range);
  c->elements = elements_of(tg_define_of(c->store->src[0]));
  c->vector = vector_of(c);
  return true;
}

/* Iterations of a group; 0: it adds to the buffer itself. */
static int64_t block_of(const sums *c, int64_t at_once) {
  const tg_target *t = c->n->l->target;
  const tg_uop *define = tg_define_of(c->store->src[0]);
  int64_t least = c->elements * ADDS_AN_ELEMENT, groups = (int64_t)t->threads * GROUPS_A_CORE;
  if (!tg_is_int(define->type) || c->elements < 1 ||
      c->elements * tg_type_bytes(define->type) > (int64_t)t->local_bytes / GROUPS_A_CORE)
    return 0;
  int64_t block = c->extent > 0 ? (c->extent + groups - 1) / groups : least;
  if (block < least) block = least;
  if (c->extent > 0 && 2 * block > c->extent) return 0;
  return (block + at_once - 1) / at_once * at_once;
}

static void say_threads(const sums *c, tg_words *w, const char *name, const char *b, int64_t block, int64_t at_once) {
  uint32_t lanes = c->n->l->target->lanes;
  int64_t copies = UNDER_WAY;
  while (copies > 1 && block && block % (copies * at_once)) copies /= 2;
  if (copies > 1) {
    tg_say(w, "split %s %lld as %s.o %s.r", name, (long long)(copies * at_once), b, b);
    tg_say(w, "split %s.r %lld as %s.c %s.t", b, (long long)at_once, b, b);
    tg_say(w, "unroll %s.c", b);
  } else tg_say(w, "split %s %lld as %s.o %s.t", name, (long long)at_once, b, b);
  const char *threads = tg_format(w->env, "%s.t", b);
  if (c->vector > 1) {
    tg_say(w, "split %s %u as %s.p %s.v", threads, c->vector, b, b);
    tg_say(w, "unroll %s.v", b);
    threads = tg_format(w->env, "%s.p", b);
  }
  tg_say(w, "split %s %u as %s.w %s.l", threads, lanes, b, b);
  tg_say(w, "local %s.w", b);
  tg_say(w, "lane %s.l", b);
}

/* The copy's elements, along its last dimension. */
static void say_copy(const sums *c, tg_words *w, const char *copy) {
  const tg_uop *define = tg_define_of(c->store->src[0]);
  uint32_t last = define->n - 1, lanes = c->n->l->target->lanes;
  int64_t extent = define->src[last]->arg;
  const char *name = tg_format(w->env, "%s.%u", copy, last);
  if (extent <= lanes) {
    tg_say(w, "lane %s", name);
    return;
  }
  if (extent > (int64_t)WARPS * lanes) {
    tg_say(w, "split %s %u as %s.o %s.t", name, WARPS * lanes, copy, copy);
    name = tg_format(w->env, "%s.t", copy);
  }
  tg_say(w, "split %s %u as %s.w %s.l", name, lanes, copy, copy);
  tg_say(w, "local %s.w", copy);
  tg_say(w, "lane %s.l", copy);
}

bool tg_device_sums(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  sums c = {.n = n};
  tg_words w = {.env = &n->j->env};
  if (n->versioned || !find(&c, depth, chain)) return false;
  const char *name = tg_device_name(n, c.range), *b = tg_nest_base(n, name);
  const char *buffer = tg_buffer_info(n->j, c.store->src[0])->name;
  if (!(c.store->arg & TG_ATOMIC)) tg_say(&w, "atomic %s", buffer);
  int64_t at_once = (int64_t)WARPS * n->l->target->lanes * c.vector, block = depth == 1 ? block_of(&c, at_once) : 0;
  if (block) {
    const char *copy = tg_format(w.env, "%s.sums", buffer);
    tg_say(&w, "split %s %lld as %s.g %s.b", name, (long long)block, b, b);
    tg_say(&w, "stage %s at %s.g as %s", buffer, b, copy);
    say_threads(&c, &w, tg_format(w.env, "%s.b", b), b, block, at_once);
    say_copy(&c, &w, copy);
    tg_say(&w, "global %s.g", b);
  } else {
    say_threads(&c, &w, name, b, 0, at_once);
    tg_say(&w, "global %s.o", b);
  }
  for (uint32_t d = depth - 1; d-- > 0;)
    if (tg_range_kind(chain[d]->src[0]) == TG_LOOP) tg_say(&w, "global %s", tg_device_name(n, chain[d]->src[0]));
  return tg_device_try(n, &w);
}
