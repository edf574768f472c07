/* SPDX-License-Identifier: MIT
 * Pass distribute: reductions across threads. Pass reduce leaves `result = FOLD(acc[.., iota, ..])`, where the
 * accumulators acc are a tile whose elements lie in different threads.
 *
 * Within a warp the FOLD is a butterfly: each lane combines its value with that of lane ^ 16, then ^ 8, ^ 4, ^ 2, ^ 1.
 * Both lanes of a pair combine the same two values by a commutative op, so all lanes end with the same bits. Across
 * warps, one partial result per warp goes through LOCAL memory, from which every thread combines them in the same
 * order. */
#include "lower/distribute/distribute.h"

typedef struct {
  tg_workgroup *w;
  tg_group_item *item;               /* the store of the FOLD; new statements are inserted before it */
  tg_op op;
  const tg_uop *value;         /* first the vector that is folded; later the partial result that the thread holds */
  uint32_t n, par[TG_PARS];    /* n: number of pars that are folded; par: their indices */
} folding;

static bool is_fold(const tg_uop *u) { return u && u->op == TG_OP_STORE && tg_stored(u)->op == TG_OP_FOLD; }

/* The par whose iteration is the subscript of this dimension in the stores to the tile. */
static bool par_of_dim(tg_workgroup *w, const tg_uop *load, uint32_t dim, uint32_t *par) {
  const tg_uop *size = tg_define_of(load->src[0])->src[dim];
  for (uint32_t i = 0; i < w->touched.n; i++) {
    const tg_group_touch *a = &w->touched.data[i];
    if (a->u->op != TG_OP_STORE || a->digits.irregular ||
        tg_buffer_ordinal(a->u->src[0]) != tg_buffer_ordinal(load->src[0]))
      continue;
    for (uint32_t k = 0; k < a->digits.n; k++) {
      const tg_group_digit *d = &a->digits.d[k];
      if (d->dim != dim || d->weight != 1 || d->step != 1 || !tg_is_const(size, d->extent)) continue;
      *par = d->par;
      return true;
    }
    return false;
  }
  return false;
}

/* Finds the folded pars and the loads along them; false if any other operand of the FOLD is a vector too. */
static bool find_ranges(folding *f) {
  tg_workgroup *w = f->w;
  uint32_t n;
  const tg_uop **order = tg_toposort(w->j, f->value, &n);
  bool first = true;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op != TG_OP_LOAD || u->lanes == 1) continue;
    if ((tg_gate(u) && (tg_gate(u)->lanes > 1 || tg_alternative(u)->lanes > 1)) ||
        tg_buffer_info(w->j, u->src[0])->space != TG_SPACE_REG || tg_define_of(u->src[0])->lanes > 1)
      return false;
    uint32_t count = 0;
    int64_t all = 1;
    for (uint32_t d = 0; d < tg_access_rank(u); d++) {
      uint32_t par;
      if (u->src[1 + d]->lanes == 1) continue;
      if (!par_of_dim(w, u, d, &par) || count == TG_PARS) return false;
      if (!first && (count >= f->n || f->par[count] != par)) return false;
      f->par[count++] = par;
      all *= w->par.data[par].extent;
    }
    if (all != u->lanes || (!first && count != f->n)) return false;
    f->n = count;
    first = false;
  }
  return !first;
}

static const tg_uop *own_element(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  folding *f = user;
  const tg_uop *now[16];
  uint32_t at = 0;
  if (old->op != TG_OP_LOAD || old->lanes == 1) return NULL;
  memcpy(now, src, old->n * sizeof *src);
  for (uint32_t d = 0; d < tg_access_rank(old); d++)
    if (src[1 + d]->lanes > 1) {
      tg_assert(&j->env, at < f->n);
      now[1 + d] = f->w->par.data[f->par[at++]].range;
    }
  tg_assert(&j->env, at == f->n);   /* each folded range has become the thread's own iteration */
  return tg_with_sources(j, old, now);
}

static folding folding_of(tg_workgroup *w, tg_group_item *item) {
  return (folding){.w = w, .item = item, .op = tg_stored(item->u)->arg, .value = tg_stored(item->u)->src[0]};
}

static void mark_ranges(tg_workgroup *w, tg_group_item *at) {
  if (is_fold(at->u)) {
    folding f = folding_of(w, at);
    if (find_ranges(&f))
      for (uint32_t i = 0; i < f.n; i++) w->par.data[f.par[i]].folded = true;
  }
  for (uint32_t i = 0; i < at->list.n; i++) mark_ranges(w, at->list.data[i]);
}

void tg_fold_ranges(tg_workgroup *w) { mark_ranges(w, w->body); }

/* ---- statements before the item ---- */

static void add_par(tg_workgroup *w, tg_group_item *item, uint32_t par) {
  if (item->n == TG_PARS) tg_fail_at(w->j, item->pos, "over %d parallel ranges around one statement", TG_PARS);
  item->par[item->n++] = par;
}

static tg_group_item *statement(folding *f, const tg_uop *store, bool folded) {
  tg_group_item *item = tg_item_new(f->w, f->item->outer, store, f->item->pos);
  for (uint32_t i = 0; i < f->item->n; i++) add_par(f->w, item, f->item->par[i]);
  for (uint32_t i = 0; i < f->n && folded; i++) add_par(f->w, item, f->par[i]);
  tg_insert_before(f->w, f->item, item);
  return item;
}

static const tg_uop *keep(folding *f, const tg_uop *value, bool folded) {
  tg_job *j = f->w->j;
  const tg_uop *reg =
      tg_define(j, (tg_buffer){.name = "fold", .space = TG_SPACE_REG, .type = value->type, .pos = f->item->pos}, 1,
                NULL, NULL, true);
  tg_tile_of(f->w, reg)->whole = true;
  tg_insert_before(f->w, f->item, tg_item_new(f->w, f->item->outer, reg, f->item->pos));
  tg_group_item *item = statement(f, tg_store(j, reg, NULL, value, NULL, 0), folded);
  tg_touch_item(f->w, item);
  return tg_load(j, reg, NULL, NULL, NULL, 0);
}

/* ---- the steps ---- */

typedef struct { int64_t stride, size; } part;
/* lanes: number of lanes of a warp that are already combined */
typedef struct { uint32_t n; part p[TG_PARS]; int64_t lanes; } parts;

static bool power_of_two(int64_t v) { return v > 0 && !(v & (v - 1)); }

static void fold_lanes(folding *f, parts *far) {
  tg_workgroup *w = f->w;
  tg_job *j = w->j;
  far->lanes = 1;
  for (uint32_t i = f->n; i-- > 0;) {
    const tg_par *p = &w->par.data[f->par[i]];
    int64_t near = power_of_two(p->stride) && power_of_two(p->room) && p->stride < w->lanes ? w->lanes / p->stride : 1;
    if (near > p->room) near = p->room;
    for (int64_t half = near / 2; half; half /= 2) {
      const tg_uop *other = tg_op2(j, TG_OP_XOR, w->lane, tg_index(j, half * p->stride));
      f->value = keep(f, tg_op2(j, f->op, f->value, tg_shuffle(j, f->value, w->lane, other)), true);
    }
    far->lanes *= near;
    if (near < p->room) far->p[far->n++] = (part){p->stride * near, p->room / near};
  }
}

/* The number of threads that have an iteration of the statement; threads beyond it repeat these iterations. */
static int64_t reach(const folding *f) {
  int64_t n = 1;
  for (uint32_t i = 0; i < f->n + f->item->n; i++) {
    const tg_par *p = &f->w->par.data[i < f->n ? f->par[i] : f->item->par[i - f->n]];
    if (p->stride * p->room > n) n = p->stride * p->room;
  }
  return n;
}

/* Through LOCAL memory: one element per warp if all its lanes hold the same value, else one per thread. */
static void fold_warps(folding *f, parts *far) {
  tg_workgroup *w = f->w;
  tg_job *j = w->j;
  bool warps = far->lanes == w->lanes;
  int64_t unit = warps ? w->lanes : 1, n = 1;
  const tg_uop *cells = tg_index(j, w->threads / unit), *t = w->thread,
               *cell = warps ? tg_op2(j, TG_OP_IDIV, t, tg_index(j, unit)) : t;
  const tg_uop *memory = tg_define(
      j,
      (tg_buffer){.name = "partial", .space = TG_SPACE_LOCAL, .rank = 1, .type = f->value->type, .pos = f->item->pos},
      1, &cells, NULL, true);
  tg_group_item *define = tg_item_new(w, f->item->outer, memory, f->item->pos);
  tg_insert_before(w, f->item, define);
  tg_note_copies(w, define);
  const tg_uop *gate = warps ? tg_op2(j, TG_OP_EQ, tg_op2(j, TG_OP_MOD, t, tg_index(j, unit)), tg_index(j, 0)) : NULL;
  tg_group_item *store = tg_item_new(w, f->item->outer, tg_store(j, memory, &cell, f->value, gate, 0), f->item->pos);
  add_par(w, store, w->par_of.data[tg_range_ordinal(t)] - 1);
  tg_insert_before(w, f->item, store);
  if (w->threads / unit % (reach(f) / unit)) cell = tg_op2(j, TG_OP_MOD, cell, tg_index(j, reach(f) / unit));
  const tg_uop *base = cell;
  for (uint32_t i = 0; i < far->n; i++) {
    const tg_uop *stride = tg_index(j, far->p[i].stride / unit);
    tg_assert(&j->env, far->p[i].stride % unit == 0 && far->p[i].size > 0);
    base =
        tg_op2(j, TG_OP_SUB, base,
               tg_op2(j, TG_OP_MUL,
                      tg_op2(j, TG_OP_MOD, tg_op2(j, TG_OP_IDIV, cell, stride), tg_index(j, far->p[i].size)), stride));
    n *= far->p[i].size;
  }
  const tg_uop **v = tg_new(&j->env, const tg_uop *, n);
  for (int64_t k = 0; k < n; k++) {
    int64_t at = 0, rest = k;
    for (uint32_t i = 0; i < far->n; i++, rest /= far->p[i - 1].size)
      at += rest % far->p[i].size * (far->p[i].stride / unit);
    const tg_uop *sub = tg_fold2(j, TG_OP_ADD, base, tg_index(j, at));
    v[k] = tg_load(j, memory, &sub, NULL, NULL, 0);
  }
  for (; n > 1; n = (n + 1) / 2)
    for (int64_t i = 0, half = (n + 1) / 2; i + half < n; i++) v[i] = tg_op2(j, f->op, v[i], v[i + half]);
  f->value = v[0];
}

static const tg_uop *at_lane(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  return old->op == TG_OP_IOTA ? tg_index(j, *(const int64_t *)user) : tg_fold(j, old, src);
}

/* For any other layout of the tile: combines one value after another. */
static void fold_in_thread(folding *f) {
  tg_job *j = f->w->j;
  int64_t n = f->value->lanes;
  const tg_uop **v = tg_new(&j->env, const tg_uop *, n);
  for (int64_t i = 0; i < n; i++) v[i] = tg_map(j, f->value, at_lane, NULL, &i);
  for (; n > 1; n = (n + 1) / 2)
    for (int64_t i = 0, half = (n + 1) / 2; i + half < n; i++) v[i] = tg_op2(j, f->op, v[i], v[i + half]);
  f->value = v[0];
}

static void fold_item(tg_workgroup *w, tg_group_item *item) {
  tg_job *j = w->j;
  folding f = folding_of(w, item);
  parts far = {.n = 0};
  if (!find_ranges(&f)) fold_in_thread(&f);
  else {
    f.value = tg_map(j, f.value, own_element, NULL, &f);
    for (uint32_t i = 0; i < f.n; i++) {   /* reserved threads beyond the range contribute the identity */
      const tg_par *p = &w->par.data[f.par[i]];
      if (p->room == p->extent) continue;
      const tg_uop *inside = tg_op2(j, TG_OP_LT, tg_thread_digit(w, p->stride, p->room), tg_index(j, p->extent));
      f.value = tg_op3(j, TG_OP_WHERE, inside, f.value, tg_identity(j, f.op, f.value->type));
    }
    f.value = keep(&f, f.value, true);
    fold_lanes(&f, &far);
    if (far.n) fold_warps(&f, &far);
  }
  item->u =
      tg_store(j, item->u->src[0], item->u->src + 1, f.value, tg_gate(item->u), item->u->arg & ~(int64_t)TG_GATED);
  tg_touch_item(w, item);
}

static void fold_items(tg_workgroup *w, tg_group_item *at) {
  if (is_fold(at->u)) fold_item(w, at);
  for (uint32_t i = 0; i < at->list.n; i++) fold_items(w, at->list.data[i]);   /* the list grows before the item */
}

void tg_fold_across(tg_workgroup *w) { fold_items(w, w->body); }
