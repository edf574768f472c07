/* SPDX-License-Identifier: MIT
 * The schedule of attention on a GPU: a loop over blocks of keys with two products, whose tiles are registers.
 *
 *   for kb { s[i,j] = f(sum(d, Q[i,d] * K[kb,j,d]));  ..;  o[i,e] = g(o[i,e]) + sum(j, p[i,j] * V[kb,j,e]);  .. }
 *
 * Both are computed by matrix instructions. A warp has as many rows i as the instruction, so what the text says about
 * rows (maxima, sums, factors) stays in its registers, and exchanges between lanes combine it. Scores become weights
 * where they lie, if the layout of the accumulator is that of the second product's operand. The blocks of K and V are
 * copied to LOCAL memory, where the target can in a ring of two, so that the next ones are under way meanwhile. */
#include "choose/device_attention.h"
#include "ranges/ranges.h"
#include "target/matrix.h"

/* Registers for addresses and for what each row has; and those of exponentials that are polynomials, several at a
 * time. */
enum { DEEPEST = 8, OWN_REGISTERS = 40, POLYNOMIALS = 24 };

typedef tg_key_product product;

typedef struct {
  tg_key_loop found;
  const tg_matrix_row *row;
  bool polynomials;
  uint32_t warp_rows, warps;       /* rows of a warp; warps of a workgroup */
} attention;

/* ---- is it one? ---- */

static const tg_uop *factor_of(const tg_key_loop *t, const tg_uop *u) {
  while (u->op == TG_OP_CAST && tg_is_float(u->type)) u = u->src[0];
  return u->op == TG_OP_LOAD && tg_is_float(u->type) && (!t->bits || tg_type_bits(u->type) == t->bits) ? u : NULL;
}

static tg_space space_of(const tg_nest *n, const tg_uop *access) { return tg_buffer_info(n->j, access->src[0])->space; }

/* Is the reduction a sum of products of such loads, the innermost loop moving with columns and another with rows? */
static bool is_product(const tg_key_loop *t, const tg_uop *store, const tg_uop *reduce, uint32_t depth,
                       const tg_uop *const *loop, product *p) {
  tg_job *j = t->n->j;
  tg_reduce_arg info = tg_reduce_info(reduce);
  const tg_uop *value = reduce->src[0], *columns = loop[depth - 1];
  if (info.generic || info.in_order || info.op != TG_OP_ADD || info.ranges != 1 || value->op != TG_OP_MUL) return false;
  const tg_uop *sum = tg_reduce_ranges(reduce)[0];
  for (uint32_t turned = 0; turned < 2; turned++) {
    const tg_uop *a = factor_of(t, value->src[turned]), *b = factor_of(t, value->src[!turned]);
    if (!a || !b || a->type != b->type || !tg_uses(j, a, sum) || !tg_uses(j, b, sum)) continue;
    if (tg_uses(j, a, columns) || !tg_uses(j, b, columns) || !tg_uses(j, b, t->keys)) continue;
    if (tg_buffer_info(j, b->src[0])->role != TG_ROLE_IN) continue;
    for (uint32_t d = 0; d + 1 < depth; d++)
      if (tg_uses(j, a, loop[d]) && !tg_uses(j, b, loop[d])) {
        *p = (product){store, sum, loop[d], columns, a, b};
        return true;
      }
  }
  return false;
}

/* The only such reduction of a store to a tile of registers. */
static bool find_product(const tg_key_loop *t, const tg_uop *store, uint32_t depth, const tg_uop *const *loop,
                         product *p) {
  uint32_t count, found = 0;
  if (depth < 2 || tg_access_rank(store) != 2 || tg_gate(store) || space_of(t->n, store) != TG_SPACE_REG) return false;
  const tg_uop **order = tg_toposort(t->n->j, store, &count);
  for (uint32_t i = 0; i < count; i++)
    found += order[i]->op == TG_OP_REDUCE && is_product(t, store, order[i], depth, loop, p);
  return found == 1;
}

/* A sum of the rows of the result's product, for each row: the range, or NULL. */
static const tg_uop *sum_of_rows(const tg_key_loop *t, const tg_uop *store) {
  uint32_t count;
  const tg_uop **order, *found = NULL;
  if (tg_access_rank(store) != 1 || tg_gate(store) || space_of(t->n, store) != TG_SPACE_REG) return NULL;
  order = tg_toposort(t->n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    tg_reduce_arg info = tg_reduce_info(order[i]);
    const tg_uop *weight = factor_of(t, order[i]->src[0]);
    if (found || info.generic || info.in_order || info.op != TG_OP_ADD || info.ranges != 1 || !weight) return NULL;
    if (space_of(t->n, weight) != TG_SPACE_REG) return NULL;
    found = tg_reduce_ranges(order[i])[0];
  }
  return found;
}

static void look(tg_key_loop *t, const tg_uop *u, uint32_t depth, const tg_uop **loop) {
  if (u->op == TG_OP_END && depth < DEEPEST) {
    loop[depth] = u->src[0];
    for (uint32_t i = 1; i < u->n; i++) look(t, u->src[i], depth + 1, loop);
  }
  product p;
  if (u->op == TG_OP_STORE && t->score.store && !t->weights) t->weights = sum_of_rows(t, u);
  if (u->op != TG_OP_STORE || !find_product(t, u, depth, loop, &p)) return;
  bool weights = space_of(t->n, p.a) == TG_SPACE_REG && t->score.store;
  if (!t->score.store) t->score = p;
  else if (weights && !t->result.store) t->result = p;
}

bool tg_key_loop_find(tg_key_loop *t, const tg_uop *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *loop[DEEPEST], *end = list[i];
    if (end->op != TG_OP_END || tg_range_kind(end->src[0]) != TG_LOOP) continue;
    t->keys = end->src[0];
    t->score.store = t->result.store = t->weights = NULL;
    for (uint32_t k = 1; k < end->n; k++) look(t, end->src[k], 0, loop);
    if (t->score.store && t->result.store) return true;
  }
  return false;
}

/* ---- the instruction ---- */

/* 32-bit registers of a lane: scores, weights, results, and, where copies leave room for them, the rows of the first
 * product, which stay. */
static uint32_t registers_of(const attention *t, int64_t rows) {
  int64_t keys = tg_iterations(t->found.score.columns), head = tg_iterations(t->found.score.sum),
          out = tg_iterations(t->found.result.columns);
  uint32_t lanes = t->found.n->l->target->lanes;
  int64_t stay = t->found.n->l->target->async_copy ? head : 0;
  uint32_t tiles = (uint32_t)(rows * (2 * keys + keys + 2 * out + stay) / 2 / lanes);
  int64_t threads = tg_iterations(t->found.score.rows) / rows * lanes;
  if (!t->found.n->l->target->async_copy) /* blocks under way */
    tiles += (uint32_t)(keys * (head + out) / 2 / threads);
  return tiles + OWN_REGISTERS + (t->polynomials ? POLYNOMIALS : 0);
}

/* Where copies pass through registers (no asynchronous ones), these and what LLVM loads ahead take a quarter. */
static uint32_t room_of(const tg_target *t) {
  return t->async_copy ? t->vector_registers : t->vector_registers - t->vector_registers / 4;
}

/* LOCAL memory: blocks of K and V, in a ring of two where copies are asynchronous; rows are padded by 16 bytes at most.
 * Where copies are not, weights may go through it too. */
static bool has_local(const attention *t) {
  enum { PAD = 8, RING = 2 };
  const tg_target *target = t->found.n->l->target;
  int64_t rows = tg_iterations(t->found.score.rows), keys = tg_iterations(t->found.score.columns),
          head = tg_iterations(t->found.score.sum), out = tg_iterations(t->found.result.columns);
  int64_t blocks = keys * (head + PAD) + out * (keys + PAD);
  return (uint64_t)(2 * (target->async_copy ? RING * blocks : blocks + rows * (keys + PAD))) <= target->local_bytes;
}

/* LLVM's order of loads and products without a ring, of over 64 keys at once, takes several times the registers of the
 * tiles (gfx90a: some thousand bytes of scratch for 128). */
static bool few_keys(const attention *t) {
  enum { MOST_KEYS = 64 };
  return t->found.n->l->target->async_copy || tg_iterations(t->found.score.columns) <= MOST_KEYS;
}

static bool fits(const attention *t, const tg_matrix_row *r) {
  const tg_target *target = t->found.n->l->target;
  const product *s = &t->found.score, *o = &t->found.result;
  /* rows in a tile go through LOCAL memory too, and more registers */
  if (!target->async_copy && tg_buffer_info(t->found.n->j, s->a->src[0])->role != TG_ROLE_IN) return false;
  if (!tg_matrix_on(r, target) || !tg_matrix_is_plain(r) || r->m < 2 || r->form == TG_MATRIX_TILE) return false;
  if (r->a_type != s->a->type || r->b_type != s->a->type || r->a_type != o->a->type) return false;
  if (r->c_type != TG_F32 || tg_stored(s->store)->type != TG_F32 || tg_stored(o->store)->type != TG_F32) return false;
  int64_t rows = tg_iterations(s->rows), keys = tg_iterations(s->columns), head = tg_iterations(s->sum),
          out = tg_iterations(o->columns);
  if (tg_iterations(o->rows) != rows || tg_iterations(o->sum) != keys || rows < 1 || keys < 1 || head < 1 || out < 1)
    return false;
  if (!has_local(t) || !few_keys(t)) return false;
  if (rows % r->m || keys % r->n || keys % r->k || head % r->k || out % r->n) return false;
  return rows / r->m * target->lanes <= target->max_threads && registers_of(t, r->m) <= room_of(target);
}

/* Where copies pass registers a warp waits for its own. So two groups of a core should have a warp for each part of its
 * registers, of which one warp may have the whole. */
static bool fills_core(const attention *t, int64_t rows) {
  const tg_target *target = t->found.n->l->target;
  uint32_t parts = target->core_registers / (target->vector_registers * target->lanes);
  return target->async_copy || 2 * (tg_iterations(t->found.score.rows) / rows) >= parts;
}

static bool find_instruction(attention *t) {
  for (uint32_t i = 0; tg_matrix_at(i); i++) {
    const tg_matrix_row *r = tg_matrix_at(i);
    if (!fits(t, r)) continue;
    if (!t->row || r->m * r->n * r->k > t->row->m * t->row->n * t->row->k) t->row = r;
  }
  if (!t->row) return false;
  /* twice the rows, and each fragment of K and V serves two instructions */
  int64_t rows = tg_iterations(t->found.score.rows);
  bool twice = rows % (2 * t->row->m) == 0 && registers_of(t, 2 * t->row->m) <= room_of(t->found.n->l->target) &&
               fills_core(t, 2 * t->row->m);
  t->warp_rows = twice ? 2 * t->row->m : t->row->m;
  t->warps = (uint32_t)(rows / t->warp_rows);
  return true;
}

/* ---- words ---- */

static bool say_copy(const attention *t, tg_words *w, const product *p, uint32_t stages) {
  tg_device_tile c = {.load = p->b,
                      .loop = p->columns,
                      .sum = p->sum,
                      .row = t->row,
                      .own = (uint32_t)tg_iterations(p->columns),
                      .terms = (uint32_t)tg_iterations(p->sum),
                      .warps = t->warps,
                      .stages = stages,
                      .at = tg_axis_name(&t->found.n->s, t->found.keys)};
  return tg_device_stage(t->found.n, w, &c);
}

/* unrolled: the sum of the first product, so that the rows' operand stays in registers. summed: the sums of weights by
 * the instruction, too. */
static bool write_words(const attention *t, tg_words *w, uint32_t stages, bool unrolled, bool summed) {
  tg_schedule *s = &t->found.n->s;
  const char *i = tg_axis_name(s, t->found.score.rows), *ib = tg_nest_base(t->found.n, i),
             *d = tg_axis_name(s, t->found.score.sum), *db = tg_nest_base(t->found.n, d);
  if (!say_copy(t, w, &t->found.score, stages) || !say_copy(t, w, &t->found.result, stages)) return false;
  tg_say(w, "split %s %u as %s.w %s.u", i, t->warp_rows, ib, ib);
  if (t->warps > 1) tg_say(w, "local %s.w", ib);
  if (tg_iterations(t->found.score.sum) > t->row->k && unrolled) {
    tg_say(w, "split %s %u as %s.s %s.m", d, t->row->k, db, db);
    tg_say(w, "unroll %s.s", db);
    d = tg_format(w->env, "%s.m", db);
  }
  tg_say(w, "contract %s i=%s.u j=%s k=%s", t->row->name, ib, tg_axis_name(s, t->found.score.columns), d);
  if (summed && t->found.weights)
    tg_say(w, "contract %s i=%s.u k=%s", t->row->name, ib, tg_axis_name(s, t->found.weights));
  tg_say(w, "contract %s i=%s.u j=%s k=%s", t->row->name, ib, tg_axis_name(s, t->found.result.columns),
      tg_axis_name(s, t->found.result.sum));
  return true;
}

static bool has_polynomials(const tg_nest *n, const tg_uop *u) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  bool has = false;
  for (uint32_t i = 0; i < count; i++) has |= order[i]->op == TG_OP_EXP || order[i]->op == TG_OP_EXP2;
  return has && !n->fast;
}

bool tg_device_attention(tg_nest *n, const tg_uop *innermost) {
  attention t = {.found = {.n = n, .bits = 16}, .polynomials = has_polynomials(n, innermost)};
  const tg_target *target = n->l->target;
  if (!tg_key_loop_find(&t.found, innermost->src + 1, innermost->n - 1) || !find_instruction(&t)) return false;
  /* with rows in a tile of registers, several loops would have the name of its rows when the sums are contracted */
  bool sums = t.found.weights && tg_buffer_info(n->j, t.found.score.a->src[0])->role == TG_ROLE_IN;
  for (uint32_t stages = target->async_copy ? 2 : 1; stages; stages--)
    for (int form = target->async_copy ? 0 : 2; form < 4; form++) {   /* not so if the results share its range */
      tg_words w = {.env = &n->j->env};
      bool summed = !(form & 1) && t.row->form == TG_MATRIX_PTX && sums;
      if (!(form & 1) != summed) continue;
      if (write_words(&t, &w, stages, form < 2, summed) && tg_device_try(n, &w)) return true;
    }
  return false;
}
