/* SPDX-License-Identifier: MIT
 * Attention on a GPU whose products no matrix instruction takes (f32; 16 bits where there is none): both are multiplied
 * and added by threads.
 *
 *   lanes of a warp: columns, keys of the first product and elements of a result of the second; where these are fewer
 *     than lanes, rows too. Each lane has several rows, so that an element of K or V serves as many products
 *   warps: further rows
 *
 * K and V are copied to LOCAL memory, where the target can in a ring of two. Weights pass it as well (`place`), since
 * the second product needs all of a row's: the first product's lanes are their columns, the second's are its own. */
#include "choose/device_attention.h"
#include "choose/device_product.h"
#include "ranges/ranges.h"

enum {
  UNIT = 16,         /* bytes of the widest access */
  WARPS = 4,         /* at least, one for each scheduler of a core */
  MOST_ROWS = 8,     /* of a lane */
  TOGETHER = 4,      /* terms that are written out */
  OWN_REGISTERS = 48 /* for addresses, elements of K, V and weights, and what each row has */
};

typedef struct {
  tg_key_loop found;
  const char *rows, *weights, *query;                /* names: of an axis, and of tiles for memory; NULL: none */
  const char *copy[2];
  uint32_t width, beside, own, warps, stages;        /* lanes of columns; rows in lanes, of a lane; warps */
  int64_t keys;
} scores;

static bool in_registers(const tg_nest *n, const tg_uop *access) {
  return tg_buffer_info(n->j, access->src[0])->space == TG_SPACE_REG;
}

/* ---- sizes ---- */

static uint64_t local_bytes(const scores *c) {
  const tg_key_product *s = &c->found.score, *o = &c->found.result;
  uint64_t pad = UNIT, keys = (uint64_t)c->keys, bytes = (uint64_t)tg_type_bytes(s->b->type);
  uint64_t blocks = keys * ((uint64_t)tg_iterations(s->sum) * bytes + pad) +
                    (uint64_t)tg_iterations(o->sum) * ((uint64_t)tg_iterations(o->columns) * bytes + pad);
  uint64_t rows = (uint64_t)tg_iterations(s->rows), held = rows * keys * (uint64_t)tg_type_bytes(o->a->type);
  if (c->query) held += rows * (uint64_t)tg_iterations(s->sum) * (uint64_t)tg_type_bytes(s->a->type);
  return c->stages * blocks + held;
}

static bool find_sizes(scores *c) {
  const tg_target *t = c->found.n->l->target;
  const tg_key_product *s = &c->found.score, *o = &c->found.result;
  int64_t rows = tg_iterations(s->rows), out = tg_iterations(o->columns), head = tg_iterations(s->sum);
  c->keys = tg_iterations(s->columns);
  if (rows != tg_iterations(o->rows) || tg_iterations(o->sum) != c->keys) return false;
  if (rows < 1 || c->keys < 2 || out < 2 || head < 1) return false;
  for (c->width = t->lanes; c->width > 1 && (c->keys % c->width || out % c->width);) c->width /= 2;
  c->beside = t->lanes / c->width;
  for (c->own = MOST_ROWS; c->own > 1; c->own /= 2)
    if (rows % (c->own * c->beside) == 0 && rows / (c->own * c->beside) >= WARPS) break;
  if (c->width < 8 || rows % (c->own * c->beside)) return false;
  c->warps = (uint32_t)(rows / (c->own * c->beside));
  int64_t held = c->own * (c->keys + out) / c->width * (tg_type_bits(o->b->type) > 32 ? 2 : 1);
  if (c->warps * t->lanes > t->max_threads || held + OWN_REGISTERS > t->vector_registers) return false;
  for (c->stages = t->async_copy ? 2 : 1; c->stages > 1 && local_bytes(c) > t->local_bytes / 2;) c->stages--;
  return local_bytes(c) <= t->local_bytes;
}

/* ---- words ---- */

/* All threads copy a block, 16 bytes each where rows of it begin at such. */
static bool copy(const scores *c, const tg_key_product *p, const char *name) {
  tg_nest *n = c->found.n;
  tg_device_operand at = {.load = p->b, .loop = p->columns};
  if (!tg_device_operand_lies(n->j, &at, p->sum, p->b->type)) return false;
  const bool terms = at.along_terms;   /* rows of the copy are those of memory: along the terms, or the columns */
  uint32_t bytes = (uint32_t)tg_type_bytes(p->b->type), vector = at.vector;
  const char *depth = c->stages > 1 ? tg_format(&n->j->env, " depth=%u", c->stages) : "", *along = "1";
  int64_t length = tg_iterations(terms ? p->sum : p->columns);
  while (vector > 1 && length % vector) vector /= 2;
  if (!tg_device_word(n, "stage %s at %s as %s[d%u, d%u] pitch=%lld%s", tg_buffer_info(n->j, p->b->src[0])->name,
                      tg_axis_name(&n->s, c->found.keys), name, terms ? at.own : at.term, terms ? at.term : at.own,
                      (long long)(length + UNIT / bytes), depth))
    return false;
  if (vector > 1) {
    if (!tg_device_word(n, "split %s.1 %u as %s.p %s.v", name, vector, name, name)) return false;
    tg_device_word(n, "upcast %s.v", name);
    along = "p";
  }
  const uint32_t lanes = n->l->target->lanes;
  return tg_device_word(n, "fuse %s.0 %s.%s as %s.e", name, name, along, name) &&
         tg_device_word(n, "split %s.e %u as %s.c %s.t", name, c->warps * lanes, name, name) &&
         tg_device_word(n, "split %s.t %u as %s.w %s.l", name, lanes, name, name) &&
         tg_device_word(n, "lane %s.l", name) && tg_device_word(n, "local %s.w", name) &&
         tg_device_word(n, "upcast %s.c", name);
}

/* Columns: lanes, each with neighbours, if there are more of them. */
static bool lanes_along(const scores *c, const char *name, int64_t extent) {
  tg_nest *n = c->found.n;
  const char *b = tg_nest_base(n, name);
  if (extent == c->width) return tg_device_word(n, "lane %s", name);
  return tg_device_word(n, "split %s %lld as %s.l %s.v", name, (long long)extent / c->width, b, b) &&
         tg_device_word(n, "upcast %s.v", b) && tg_device_word(n, "lane %s.l", b);
}

static bool rows_along(const scores *c) {
  tg_nest *n = c->found.n;
  const char *i = c->rows, *b = tg_nest_base(n, i);
  if (!tg_device_word(n, "split %s %u as %s.w %s.r", i, c->own * c->beside, b, b)) return false;
  if (c->warps > 1) tg_device_word(n, "local %s.w", b);
  const char *own = tg_format(&n->j->env, "%s.r", b);
  if (c->beside > 1) {
    if (!tg_device_word(n, "split %s %u as %s.l %s.u", own, c->own, b, b) || !tg_device_word(n, "local %s.l", b))
      return false;
    own = tg_format(&n->j->env, "%s.u", b);
  }
  return c->own == 1 || tg_device_word(n, "upcast %s", own);
}

/* A range by which a statement moves along the columns of the scores or of the weights, that is no thread yet; of the
 * statement of the results their own. */
static const tg_uop *next_columns(const scores *c, const tg_uop *score, const tg_uop *weights, const tg_uop *result) {
  tg_nest *n = c->found.n;
  for (uint32_t i = 0; i < n->s.stores.n; i++) {
    uint32_t count;
    const tg_uop *store = n->s.stores.data[i].store, **order = tg_toposort(n->j, store, &count);
    for (uint32_t k = 0; k < count && tg_define_of(store->src[0]) != result; k++) {
      const tg_uop *u = order[k];
      if ((u->op != TG_OP_LOAD && u->op != TG_OP_STORE) || tg_access_rank(u) != 2) continue;
      if (u->src[2]->op != TG_OP_RANGE) continue;
      if (tg_define_of(u->src[0]) != score && tg_define_of(u->src[0]) != weights) continue;
      tg_kind kind = tg_range_kind(u->src[2]);
      if ((kind == TG_LOOP || kind == TG_REDUCE) && tg_iterations(u->src[2]) == c->keys) return u->src[2];
    }
  }
  return NULL;
}

static bool write_out(tg_nest *n, const char *name, int64_t extent) {
  const char *b = tg_nest_base(n, name);
  if (extent <= TOGETHER) return tg_device_word(n, "unroll %s", name);
  return tg_device_word(n, "split %s %d as %s.o %s.u", name, TOGETHER, b, b) && tg_device_word(n, "unroll %s.u", b);
}

/* The range of a sum of `terms` terms in what is stored to the tile; NULL: there is none. */
static const tg_uop *sum_of(const scores *c, const tg_uop *tile, int64_t terms) {
  tg_nest *n = c->found.n;
  for (uint32_t i = 0; i < n->s.stores.n; i++) {
    uint32_t count;
    const tg_uop *store = n->s.stores.data[i].store, **order = tg_toposort(n->j, store, &count);
    for (uint32_t k = 0; k < count && tg_define_of(store->src[0]) == tile; k++) {
      const tg_uop *range = order[k]->op == TG_OP_REDUCE ? tg_reduce_ranges(order[k])[0] : NULL;
      if (range && tg_reduce_info(order[k]).ranges == 1 && tg_iterations(range) == terms &&
          tg_range_kind(range) == TG_REDUCE)
        return range;
    }
  }
  return NULL;
}

static bool write_words(void *user) {
  const scores *c = user;
  const tg_key_product *s = &c->found.score, *o = &c->found.result;
  tg_nest *n = c->found.n;
  const tg_uop *score = tg_define_of(s->store->src[0]), *weights = tg_define_of(o->a->src[0]),
               *result = tg_define_of(o->store->src[0]), *range;
  if (!copy(c, s, c->copy[0]) || !copy(c, o, c->copy[1]) || !rows_along(c)) return false;
  if (c->query && !tg_device_word(n, "place %s memory", c->query)) return false;
  if (!tg_device_word(n, "place %s memory", c->weights)) return false;
  int64_t head = tg_iterations(s->sum), out = tg_iterations(o->columns);
  if (!(range = sum_of(c, score, head)) || !write_out(n, tg_device_name(n, range), head)) return false;
  if (!(range = sum_of(c, result, c->keys)) || !write_out(n, tg_device_name(n, range), c->keys)) return false;
  while ((range = next_columns(c, score, weights, result)))
    if (!lanes_along(c, tg_device_name(n, range), c->keys)) return false;
  return lanes_along(c, tg_device_name(n, o->columns), out);
}

bool tg_device_scores(tg_nest *n, const tg_uop *innermost) {
  scores c = {.found = {.n = n}};
  if (!n->l->target->core_registers || !tg_key_loop_find(&c.found, innermost->src + 1, innermost->n - 1)) return false;
  const tg_key_product *s = &c.found.score, *o = &c.found.result;
  c.rows = tg_device_name(n, s->rows);
  c.weights = tg_buffer_info(n->j, o->a->src[0])->name;
  if (in_registers(n, s->a)) c.query = tg_buffer_info(n->j, s->a->src[0])->name;
  const tg_uop *const from[2] = {s->b->src[0], o->b->src[0]};
  for (int i = 0; i < 2; i++)
    c.copy[i] = tg_device_new_name(n->j, tg_format(&n->j->env, "%s.tile", tg_buffer_info(n->j, from[i])->name));
  return find_sizes(&c) && tg_device_all(n, write_words, &c);
}
