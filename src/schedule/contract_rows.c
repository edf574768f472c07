/* SPDX-License-Identifier: MIT
 * Before a matrix instruction takes a statement that stores to a register tile: what the statement needs of another
 * reduction, and what is the same in a whole row, is computed beside it, into a tile of rows.
 *
 *   for i { for j { o[i,j] = o[i,j] * f(max(q, s[i,q])) + sum(k, a[i,k] * b[k,j]) } }   becomes
 *   for i { o.row[i] = f(max(q, s[i,q])); for j { o[i,j] = o[i,j] * o.row[i] + sum(k, a[i,k] * b[k,j]) } }
 *
 * The instruction makes vectors of its statement, over which no other reduction can run.
 *
 * And a sum that has no columns gets some, since the instruction has them:
 *
 *   for i { l[i] = f(sum(k, a[i,k])) }   becomes
 *   for i { for column { l.sum[i,column] = sum(k, a[i,k]) } l[i] = f(max(column, l.sum[i,column])) } */
#include "schedule/opt.h"

enum { MOST = 4, MOST_RANK = 17 };

typedef struct {
  tg_schedule *s;
  const tg_uop *store, *product, *columns;
  uint32_t dim;                        /* of the tile, along rows */
  const tg_uop *value[MOST], *tile[MOST];
  uint32_t n;
} splitting_off;

static bool reduces(const splitting_off *a, const tg_uop *u) {
  uint32_t n;
  bool any = false;
  const tg_uop **order = tg_toposort(a->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i] == a->product) return false;
    any |= order[i]->op == TG_OP_REDUCE;
  }
  return any;
}

static const tg_uop *load_of(const splitting_off *a, uint32_t i) {
  return tg_load(a->s->j, a->tile[i], &a->store->src[1 + a->dim], NULL, NULL, 0);
}

/* The largest parts without columns that have a reduction become loads. */
static const tg_uop *split_off(tg_job *j, const tg_uop *old, void *user) {
  splitting_off *a = user;
  if (!tg_is_float(old->type) || old->lanes != 1 || old == a->product || tg_uses(j, old, a->columns)) return NULL;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->value[i] == old) return load_of(a, i);
  if (a->n == MOST || !reduces(a, old)) return NULL;
  tg_buffer info = {.name = tg_format(&j->env, "%s.row", tg_buffer_info(j, a->store->src[0])->name),
                    .space = TG_SPACE_REG,
                    .rank = 1,
                    .type = old->type,
                    .pos = tg_get_pos(j, a->store)};
  a->value[a->n] = old;
  a->tile[a->n] = tg_define(j, info, 1, &tg_define_of(a->store->src[0])->src[a->dim], NULL, true);
  return load_of(a, a->n++);
}

static void put_rows(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  splitting_off *a = user;
  tg_job *j = s->j;
  const tg_uop *value = tg_map(j, tg_stored(a->store), NULL, split_off, a);
  for (uint32_t i = 0; i < a->n; i++) {
    const tg_uop *u = tg_store(j, a->tile[i], &a->store->src[1 + a->dim], a->value[i], NULL, 0);
    tg_set_pos(j, u, tg_get_pos(j, a->store));
    tg_push(&j->env, out, u);
  }
  const tg_uop *store = tg_store(j, a->store->src[0], a->store->src + 1, value, tg_gate(a->store),
                                 a->store->arg & ~(int64_t)TG_GATED);
  tg_set_pos(j, store, tg_get_pos(j, a->store));
  tg_push(&j->env, out, tg_substitute(j, end, 1, &a->store, &store));
}

/* The list with the new tiles behind the old one. */
static tg_statements with_tiles(const splitting_off *a, const tg_uop *list, uint32_t from) {
  tg_statements all = {0};
  for (uint32_t i = from; i < list->n; i++) {
    tg_push(&a->s->j->env, &all, list->src[i]);
    for (uint32_t k = 0; k < a->n && list->src[i] == tg_define_of(a->store->src[0]); k++)
      tg_push(&a->s->j->env, &all, a->tile[k]);
  }
  return all;
}

static void put_tiles(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  tg_statements all = with_tiles(user, end, 1);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], all.n, all.data));
}

/* The loop in whose list the tile is defined; NULL: it is the program's. */
static const tg_uop *defined_in(const tg_uop *u, const tg_uop *define) {
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++) {
    const tg_uop *within = u->src[i] == define ? u : defined_in(u->src[i], define);
    if (within) return within;
  }
  return NULL;
}

static void define_tiles(splitting_off *a) {
  tg_schedule *s = a->s;
  const tg_uop *in = NULL;
  for (uint32_t i = 0; i < s->sink->n && !in; i++) in = defined_in(s->sink->src[i], tg_define_of(a->store->src[0]));
  if (in) s->sink = tg_replace_end(s, s->sink, in->src[0], put_tiles, a);
  else {
    tg_statements all = with_tiles(a, s->sink, 0);
    s->sink = tg_sink(s->j, all.n, all.data);
  }
}

bool tg_rows_apart(tg_schedule *s, const tg_uop *store, const tg_uop *product, const tg_uop *rows,
                   const tg_uop *columns) {
  tg_job *j = s->j;
  splitting_off a = {.s = s, .store = store, .product = product, .columns = columns, .dim = UINT32_MAX};
  uint32_t n, reductions = 0;
  const tg_uop **order = tg_toposort(j, tg_stored(store), &n);
  for (uint32_t i = 0; i < n; i++) reductions += order[i]->op == TG_OP_REDUCE && order[i] != product;
  if (!reductions || !rows || !columns) return false;
  for (uint32_t d = 0; d < tg_access_rank(store); d++)
    if (tg_uses(j, store->src[1 + d], rows) && !tg_uses(j, store->src[1 + d], columns)) a.dim = d;
  if (a.dim == UINT32_MAX) return false;
  s->sink = tg_replace_end(s, s->sink, columns, put_rows, &a);
  if (!a.n) return false;
  define_tiles(&a);
  tg_schedule_sites(s);
  return true;
}

typedef struct { const tg_uop *reduce, *column; splitting_off off; } columns_for;

static void put_columns(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  columns_for *c = user;
  tg_job *j = s->j;
  const tg_uop *store = c->off.store, *tile = c->off.tile[0], *at[MOST_RANK];
  const tg_uop *one = tg_range_new(j, "column", tg_extent(c->column), TG_REDUCE, UINT32_MAX, tg_get_pos(j, store));
  uint32_t rank = tg_access_rank(store);
  tg_statements list = {0};
  memcpy(at, store->src + 1, rank * sizeof *at);
  at[rank] = c->column;
  const tg_uop *sums = tg_store(j, tile, at, c->reduce, NULL, 0), *value;
  tg_set_pos(j, sums, tg_get_pos(j, store));
  at[rank] = one;
  value = tg_load(j, tile, at, NULL, NULL, 0);
  value = tg_reduce(j, (tg_reduce_arg){.op = TG_OP_MAX, .values = 1, .ranges = 1}, &value, NULL, NULL, &one);
  value = tg_substitute(j, store, 1, &c->reduce, &value);
  tg_set_pos(j, value, tg_get_pos(j, store));
  for (uint32_t i = 1; i < end->n; i++) {
    if (end->src[i] == store) tg_push(&j->env, &list, tg_end(j, c->column, 1, &sums));
    tg_push(&j->env, &list, end->src[i] == store ? value : end->src[i]);
  }
  tg_push(&j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

void tg_give_columns(tg_schedule *s, const tg_site *sum, const tg_uop *rows, uint32_t columns, const tg_uop **tile) {
  tg_job *j = s->j;
  const tg_uop *define = tg_define_of(sum->store->src[0]), *dims[MOST_RANK];
  uint32_t rank = tg_access_rank(sum->store);
  columns_for c = {.reduce = sum->owner, .off = {.s = s, .store = sum->store, .n = 1}};
  if (!*tile) {
    tg_buffer info = {.name = tg_sym(j, tg_format(&j->env, "%s.sum", tg_buffer_info(j, define)->name)),
                      .space = TG_SPACE_REG,
                      .rank = (uint8_t)(rank + 1),
                      .type = sum->owner->type,
                      .pos = tg_get_pos(j, sum->store)};
    memcpy(dims, define->src, rank * sizeof *dims);
    dims[rank] = tg_index(j, columns);
    *tile = c.off.tile[0] = tg_define(j, info, 1, dims, NULL, true);
    define_tiles(&c.off);
  }
  c.off.tile[0] = *tile;
  c.column = tg_range_new(j, "column", tg_index(j, columns), TG_LOOP, UINT32_MAX, tg_get_pos(j, sum->store));
  s->sink = tg_replace_end(s, s->sink, rows, put_columns, &c);
}
