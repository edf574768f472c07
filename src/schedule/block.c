/* SPDX-License-Identifier: MIT
 * order, with a reduction's range listed before a loop: the range becomes a loop around it, so the sum is taken in
 * blocks, and the partial sum is kept in memory between blocks.
 *
 *   i { C[i] = sum(kc, kr: e) }    order kc i    kc { i { C[i] = (C[i] if 0 < kc else 0) + sum(kr: e) } }
 *
 * The partial sum is kept in the output itself if that has the sum's type and the statement is f(x + c * sum(..)),
 * where only x reads the output, and only the element that is stored. Then the first block starts with x, each block
 * adds c times its part, and the last block applies f. Otherwise it is kept in a temporary buffer defined before the
 * new loop, and the last block stores f(sum).
 *
 * With `in acc` the sum waits in registers: the whole of it in a tile over the loops inside, which is filled before the
 * new loop and stored by f behind it, so that the loop itself has nothing but sums.
 *
 *   acc[i] = 0    kc { i { acc[i] = acc[i] + sum(kr: e) } }    i { C[i] = f(acc[i]) }
 *
 * Legal if the iterations of the loops that become inner are independent and the range has at least one iteration, so
 * that each element of the output belongs to one iteration. If an earlier split gated another range of the sum, the
 * gate becomes that range's extent. */
#include "schedule/opt.h"

enum { DEEPEST = 64, ROOM = 1 << 26 };

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *range, *loop;        /* of the reduction; the loop instead of it */
  const uint8_t *marks;              /* by buffer ordinal: does the nest store to it? */
  const tg_uop *inside[DEEPEST];     /* ranges of the loops around the statement in work, within the new one */
  uint32_t depth;
  tg_statements tiles, behind;       /* DEFINEs and statements before the new loop, and statements behind it */
  uint32_t reductions;
} blocking;

/* value as f(first + factor * sum), where f is `value` with `top` replaced. first NULL: 0; factor NULL: 1. */
typedef struct { const tg_uop *first, *factor, *top; } affine;

static const tg_uop *reduction_over(tg_job *j, const tg_uop *u, const tg_uop *range, uint32_t *found) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n), *reduce = NULL;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; order[i]->op == TG_OP_REDUCE && k < tg_reduce_info(order[i]).ranges; k++)
      if (tg_reduce_ranges(order[i])[k] == range) {
        if (reduce != order[i]) ++*found;
        reduce = order[i];
      }
  return reduce;
}

/* Is it evaluated several times within one evaluation of root? */
static bool within_another(tg_job *j, const tg_uop *root, const tg_uop *reduce) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, root, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE && order[i] != reduce && tg_uses(j, order[i], reduce)) return true;
  return false;
}

TG_NORETURN static void refuse(const blocking *b, const char *why) {
  tg_fail_at(b->s->j, b->o->pos, "order: the sum over %s cannot be taken in blocks: %s", tg_range_text(b->s, b->range),
             why);
}

/* where(loop * n + r < K, v, none) for r: n   is   v for r: min(n, K - loop * n). */
static const tg_uop *bounded(const blocking *b, const tg_uop *value, const tg_uop *none, uint32_t n,
                             const tg_uop **ranges) {
  tg_job *j = b->s->j;
  if (value->op != TG_OP_WHERE || value->src[2] != none) return value;
  const tg_uop *cond = value->src[0];
  if (cond->op != TG_OP_LT || cond->src[0]->op != TG_OP_ADD || tg_uses(j, cond->src[1], b->range)) return value;
  const tg_uop *start = cond->src[0]->src[0];
  for (uint32_t i = 0; i < n; i++) {
    if (cond->src[0]->src[1] != ranges[i] || !tg_uses(j, start, b->range) || tg_uses(j, start, ranges[i])) continue;
    for (uint32_t k = 0; k < n; k++)
      if (tg_uses(j, start, ranges[k]) || tg_uses(j, cond->src[1], ranges[k])) return value;
    const tg_uop *extent = tg_idx_min(j, tg_extent(ranges[i]), tg_idx_sub(j, cond->src[1], start));
    const tg_uop *r = tg_range_again(j, ranges[i], extent, tg_range_kind(ranges[i]));
    value = tg_substitute(j, value->src[1], 1, &ranges[i], &r);
    ranges[i] = r;
    return value;
  }
  return value;
}

static const tg_uop *part_of_sum(const blocking *b, const tg_uop *reduce) {
  tg_job *j = b->s->j;
  tg_reduce_arg a = tg_reduce_info(reduce);
  const tg_uop *ranges[8], *value = reduce->src[0];
  uint32_t n = 0;
  for (uint32_t i = 0; i < a.ranges; i++) {
    const tg_uop *r = tg_reduce_ranges(reduce)[i];
    if (r != b->range && tg_uses(j, tg_extent(b->range), r))
      refuse(b, "its extent depends on another range of the sum");
    if (r != b->range) ranges[n++] = r;
  }
  /* for a tile in registers each block has all its terms, of which the last may be the identity */
  if (!b->o->tile) value = bounded(b, value, tg_identity(j, a.op, reduce->type), n, ranges);
  if (n) value = tg_reduce_like(j, reduce, &value, n, ranges);
  return tg_substitute(j, value, 1, &b->range, &b->loop);
}

/* ---- the statement as f(x + c * sum) ---- */

/* The one node below root that has u as an operand; NULL if several have. */
static const tg_uop *only_user(tg_job *j, const tg_uop *root, const tg_uop *u) {
  uint32_t n, users = 0;
  const tg_uop **order = tg_toposort(j, root, &n), *user = NULL;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < order[i]->n; k++)
      if (order[i]->src[k] == u) user = order[i], users++;
  return users == 1 ? user : NULL;
}

/* Does u, but for what lies below `without`, read the buffer? but: at another element than that store's. */
static bool reads(tg_job *j, const tg_uop *u, const tg_uop *without, const tg_uop *define, const tg_uop *but) {
  uint32_t n;
  if (without) {
    const tg_uop *nothing = tg_zero(j, without->type);
    u = tg_substitute(j, u, 1, &without, &nothing);
  }
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_LOAD || tg_define_of(order[i]->src[0]) != define) continue;
    if (!but || memcmp(order[i]->src + 1, but->src + 1, tg_access_rank(but) * sizeof *but->src)) return true;
  }
  return false;
}

/* Moves one more operation of f into x and c. False: impossible. */
static bool widen(tg_job *j, affine *a, tg_op op, const tg_uop *value) {
  const tg_uop *u = a->top == value ? NULL : only_user(j, value, a->top);
  if (!u || u->type != a->top->type) return false;
  bool left = u->n > 0 && u->src[0] == a->top;
  const tg_uop *other = u->n == 2 ? u->src[left] : NULL, *minus = NULL;
  if (u->op == op && (op != TG_OP_MUL))
    a->first = !a->first ? other : left ? tg_op2(j, op, a->first, other) : tg_op2(j, op, other, a->first);
  else if (op != TG_OP_ADD) return false;
  else if (u->op == TG_OP_SUB && left)
    a->first = a->first ? tg_op2(j, TG_OP_SUB, a->first, other) : tg_op1(j, TG_OP_NEG, other);
  else if (u->op == TG_OP_SUB || u->op == TG_OP_NEG) {
    minus = a->factor              ? tg_op1(j, TG_OP_NEG, a->factor)
            : tg_is_float(u->type) ? tg_const_float(j, u->type, -1)
                                   : tg_const_int(j, u->type, -1);
    if (u->op == TG_OP_SUB) a->first = a->first ? tg_op2(j, TG_OP_SUB, other, a->first) : other;
    else if (a->first) a->first = tg_op1(j, TG_OP_NEG, a->first);
    a->factor = minus;
  } else if (u->op == TG_OP_MUL) {
    a->factor = a->factor ? tg_op2(j, TG_OP_MUL, a->factor, other) : other;
    if (a->first) a->first = tg_op2(j, TG_OP_MUL, a->first, other);
  } else return false;
  a->top = u;
  return true;
}

/* Can the output itself hold the partial sum? Moves as few operations as possible into the blocks. */
static bool waits_in_output(tg_job *j, const tg_uop *store, const tg_uop *reduce, affine *a) {
  const tg_uop *value = tg_stored(store), *define = tg_define_of(store->src[0]);
  tg_op op = tg_reduce_info(reduce).op;
  *a = (affine){NULL, NULL, reduce};
  if (reduce->type != define->type || reads(j, reduce, NULL, define, NULL)) return false;
  for (uint32_t i = 1; i < store->n; i++)
    if (store->src[i] != value && reads(j, store->src[i], NULL, define, NULL)) return false;
  if (value->op == op && (value->src[0] == reduce || value->src[1] == reduce)) widen(j, a, op, value);
  while (reads(j, value, a->top, define, NULL))
    if (!widen(j, a, op, value)) return false;
  if (a->first && (reads(j, a->first, NULL, define, store) || tg_uses(j, a->first, reduce))) return false;
  return !a->factor || (!reads(j, a->factor, NULL, define, NULL) && !tg_uses(j, a->factor, reduce));
}

/* ---- the statement in blocks ---- */

static void add_store(const blocking *b, tg_statements *out, const tg_uop *like, const tg_uop *define,
                      const tg_uop *const *at, const tg_uop *value, const tg_uop *gate) {
  tg_job *j = b->s->j;
  const tg_uop *u = tg_store(j, define, at, value, gate, like->arg & ~(int64_t)TG_GATED);
  tg_set_pos(j, u, tg_get_pos(j, like));
  tg_push(&j->env, out, u);
}

static void block_in_output(const blocking *b, const tg_uop *store, const tg_uop *reduce, const affine *a,
                            tg_statements *out) {
  tg_job *j = b->s->j;
  tg_op op = tg_reduce_info(reduce).op;
  const tg_uop *value = tg_stored(store), *define = tg_define_of(store->src[0]), *gate = tg_gate(store);
  const tg_uop *later = tg_op2(j, TG_OP_LT, tg_index(j, 0), b->loop), *part = part_of_sum(b, reduce);
  const tg_uop *none = tg_identity(j, op, reduce->type);
  const tg_uop *so_far = tg_load(j, define, store->src + 1, tg_and(j, gate, later), none, 0), *first = a->first;
  /* C += ..: no block is another */
  bool itself = first && first->op == TG_OP_LOAD && tg_define_of(first->src[0]) == define && tg_gate(first) == gate;
  if (first) so_far = itself ? first : tg_op3(j, TG_OP_WHERE, later, so_far, first);
  if (a->factor) part = tg_op2(j, TG_OP_MUL, a->factor, part);
  const tg_uop *sum = tg_op2(j, op, so_far, part);
  if (value != a->top) {
    const tg_uop *more = tg_op2(j, TG_OP_LT, tg_idx_add(j, b->loop, tg_index(j, 1)), tg_extent(b->loop));
    sum = tg_op3(j, TG_OP_WHERE, more, sum, tg_substitute(j, value, 1, &a->top, &sum));
  }
  add_store(b, out, store, define, store->src + 1, sum, gate);
}

static const tg_uop *tile_for(blocking *b, const tg_uop *store, const tg_uop *reduce, const char *in_registers) {
  tg_job *j = b->s->j;
  const tg_buffer *output = tg_buffer_info(j, store->src[0]);
  const tg_uop *dims[16];
  tg_i128 room = 1;
  const char *need = reduce->type == tg_define_of(store->src[0])->type
                         ? "the statement reads it otherwise than as x of x + c * sum"
                         : tg_format(&j->env, "it has the type %s", tg_type_name[tg_define_of(store->src[0])->type]);
  if (in_registers) need = "it waits in registers";
  if (b->depth > TG_COUNT(dims)) refuse(b, "more than 16 loops stand inside");
  for (uint32_t i = 0; i < b->depth; i++) {
    tg_i128 most = tg_bounds_of(j, tg_extent(b->inside[i])).hi;
    most = most < 1 ? 1 : most;
    room = most > ROOM || room > ROOM ? (tg_i128)ROOM + 1 : room * most;
    dims[i] = tg_index(j, room > ROOM ? 1 : (int64_t)most);
    if (room > ROOM)
      refuse(b, tg_format(
                    &j->env,
                    "%s cannot hold what was added so far (%s), and a tile of %s over the loops inside, down to %s, "
                    "would have more than 2^26 elements: split them, and leave the outer parts outside of the blocks",
                    output->name, need, tg_type_name[reduce->type], tg_range_text(b->s, b->inside[b->depth - 1])));
  }
  tg_buffer info = {.name = in_registers ? tg_sym(j, in_registers) : tg_format(&j->env, "%s.sum", output->name),
                    .space = in_registers ? TG_SPACE_REG : TG_SPACE_LOCAL,
                    .role = TG_ROLE_TEMP,
                    .rank = (uint8_t)b->depth,
                    .type = reduce->type,
                    .align = in_registers ? 0 : 64,
                    .pos = b->o->pos};
  const tg_uop *tile = tg_define(j, info, 1, dims, NULL, true);
  tg_push(&j->env, &b->tiles, tile);
  return tile;
}

static void block_in_tile(blocking *b, const tg_uop *store, const tg_uop *reduce, tg_statements *out) {
  tg_job *j = b->s->j;
  tg_op op = tg_reduce_info(reduce).op;
  const tg_uop *value = tg_stored(store), *gate = tg_gate(store), *tile = tile_for(b, store, reduce, NULL);
  const tg_uop *next = tg_idx_add(j, b->loop, tg_index(j, 1)), *extent = tg_extent(b->loop);
  const tg_uop *later = tg_op2(j, TG_OP_LT, tg_index(j, 0), b->loop), *more = tg_op2(j, TG_OP_LT, next, extent),
               *last = tg_op2(j, TG_OP_LE, extent, next);
  const tg_uop *so_far = tg_load(j, tile, b->inside, tg_and(j, gate, later), tg_identity(j, op, reduce->type), 0);
  const tg_uop *sum = tg_op2(j, op, so_far, part_of_sum(b, reduce));
  const tg_uop *plain = tg_store(j, tile, b->inside, sum, tg_and(j, gate, more), 0);
  tg_set_pos(j, plain, tg_get_pos(j, store));
  tg_push(&j->env, out, plain);
  add_store(b, out, store, tg_define_of(store->src[0]), store->src + 1, tg_substitute(j, value, 1, &reduce, &sum),
            tg_and(j, gate, last));
}

/* The statement once more, over ranges of its own: that stores `value` to `to`, or, where that is NULL, as itself. */
static const tg_uop *around_the_blocks(const blocking *b, const tg_uop *store, const tg_uop *to, const tg_uop *value) {
  tg_schedule *s = b->s;
  tg_job *j = s->j;
  const tg_uop *own[DEEPEST], *u;
  if (to) u = tg_store(j, to, b->inside, value, NULL, 0);
  else u = tg_store(j, store->src[0], store->src + 1, value, tg_gate(store), store->arg & ~(int64_t)TG_GATED);
  for (uint32_t i = 0; i < b->depth; i++) {
    const tg_uop *r = b->inside[i], *extent = tg_substitute(j, tg_extent(r), i, b->inside, own);
    own[i] = tg_axis_range(s, r, tg_range_name(s, r), extent, tg_range_kind(r));
    tg_axis_tie(s, own[i], r);
  }
  u = tg_substitute(j, u, b->depth, b->inside, own);
  tg_set_pos(j, u, tg_get_pos(j, store));
  for (uint32_t i = b->depth; i-- > 0;) u = tg_end(j, own[i], 1, &u);
  return u;
}

static void block_in_registers(blocking *b, const tg_uop *store, const tg_uop *reduce, tg_statements *out) {
  tg_job *j = b->s->j;
  tg_op op = tg_reduce_info(reduce).op;
  const tg_uop *tile = tile_for(b, store, reduce, b->o->tile);
  const tg_uop *so_far = tg_load(j, tile, b->inside, NULL, NULL, 0), *before, *behind;
  before = around_the_blocks(b, store, tile, tg_identity(j, op, reduce->type));
  tg_push(&j->env, &b->tiles, before);
  add_store(b, out, store, tile, b->inside, tg_op2(j, op, so_far, part_of_sum(b, reduce)), NULL);
  const tg_uop *value = tg_substitute(j, tg_stored(store), 1, &reduce, &so_far);
  behind = around_the_blocks(b, store, NULL, value);
  tg_push(&j->env, &b->behind, behind);
}

/* Refuses if another statement of the nest would read a partial sum. */
static void check_others(const blocking *b, const tg_uop *store) {
  tg_job *j = b->s->j;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, store, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_define_of(order[i]->src[0]) != tg_define_of(store->src[0]) &&
        b->marks[tg_buffer_ordinal(order[i]->src[0])])
      refuse(b, tg_format(&j->env, "`%s` inside reads %s, which is complete in the last block only", tg_text(j, store),
                          tg_buffer_info(j, order[i]->src[0])->name));
}

static void blocked_store(blocking *b, const tg_uop *store, tg_statements *out) {
  tg_job *j = b->s->j;
  uint32_t found = 0;
  affine a;
  const tg_uop *reduce = reduction_over(j, store, b->range, &found);
  if (!found) refuse(b, tg_format(&j->env, "`%s` inside is not part of it", tg_text(j, store)));
  if (found > 1) refuse(b, "it stands in the statement twice");
  for (uint32_t i = 1; i < store->n; i++)
    if (store->src[i] != tg_stored(store) && tg_uses(j, store->src[i], reduce))
      refuse(b, "it says where or whether the statement stores");
  if (tg_reduce_info(reduce).in_order) refuse(b, "a sum_in_order keeps the order of its terms");
  if (tg_reduce_info(reduce).generic) refuse(b, "it is a general reduction");
  if (within_another(j, store, reduce)) refuse(b, "it stands inside another reduction");
  if (tg_bounds_of(j, tg_extent(b->range)).lo < 1)
    refuse(b, "it may have no iteration, and then nothing would be stored");
  if (store->arg & TG_ATOMIC) refuse(b, "the statement is an atomic update");
  check_others(b, store);
  if (b->o->tile && b->reductions) refuse(b, "several statements have it, and one tile is named");
  if (b->o->tile) block_in_registers(b, store, reduce, out);
  else if (waits_in_output(j, store, reduce, &a)) block_in_output(b, store, reduce, &a, out);
  else block_in_tile(b, store, reduce, out);
  b->reductions++;
}

static void blocked(blocking *b, const tg_uop *u, tg_statements *out) {
  tg_job *j = b->s->j;
  const char *why;
  if (u->op == TG_OP_STORE) {
    blocked_store(b, u, out);
    return;
  }
  if (u->op != TG_OP_END) refuse(b, "a buffer is defined inside: stage after the order");
  if (tg_range_verdict(b->s, u, &why) != TG_INDEPENDENT)
    refuse(b, tg_format(&j->env, "the iterations of %s depend on one another: %s", tg_range_text(b->s, u->src[0]),
                        why ? why : ""));
  if (tg_uses(j, tg_extent(b->range), u->src[0]))
    refuse(b, tg_format(&j->env, "its extent depends on %s", tg_range_text(b->s, u->src[0])));
  if (b->depth == DEEPEST) refuse(b, "too many loops stand inside");
  tg_statements list = {0};
  b->inside[b->depth++] = u->src[0];
  for (uint32_t i = 1; i < u->n; i++) blocked(b, u->src[i], &list);
  b->depth--;
  tg_push(&j->env, out, tg_end_like(b->s, u, u->src[0], list.n, list.data));
}

static void block_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  blocking *b = user;
  uint32_t found = 0;
  for (uint32_t i = 1; i < end->n; i++) reduction_over(s->j, end->src[i], b->range, &found);
  if (!found) {
    tg_push(&s->j->env, out, end);
    return;
  }
  if (tg_range_kind(end->src[0]) == TG_THREAD)
    refuse(b, tg_format(&s->j->env, "%s is a thread range, and its tasks would begin anew for each block",
                        tg_range_text(s, end->src[0])));
  b->loop = tg_axis_range(s, b->range, tg_range_name(s, b->range), tg_extent(b->range), TG_LOOP);
  b->marks = tg_marked_buffers(s, end);
  b->tiles.n = b->behind.n = 0;
  tg_statements inner = {0};
  blocked(b, end, &inner);
  for (uint32_t i = 0; i < b->tiles.n; i++) tg_push(&s->j->env, out, b->tiles.data[i]);
  tg_push(&s->j->env, out, tg_end_like(s, end, b->loop, inner.n, inner.data));
  for (uint32_t i = 0; i < b->behind.n; i++) tg_push(&s->j->env, out, b->behind.data[i]);
}

void tg_block_reduction(tg_schedule *s, const tg_opt *o, const char *name, const char *loop) {
  tg_axis sum = tg_axis_find(s, o, name), around = tg_axis_find(s, o, loop);
  blocking *b = tg_new(&s->j->env, blocking, 1);
  *b = (blocking){.s = s, .o = o, .range = sum.site[0].range};
  for (uint32_t i = 0; i < sum.n; i++) {
    if (sum.site[i].owner->op != TG_OP_REDUCE)
      tg_fail_at(s->j, o->pos, "order: %s is a loop in one place and a sum's range in another", name);
    tg_kind k = tg_range_kind(sum.site[i].range);
    b->range = sum.site[i].range;
    if (k != TG_REDUCE && k != TG_LOOP) refuse(b, tg_format(&s->j->env, "it is %s already", tg_kind_name[k]));
    for (uint32_t e = 0; e < around.n; e++)
      if (around.site[e].owner->op == TG_OP_END)
        s->sink = tg_replace_end(s, s->sink, around.site[e].range, block_loop, b);
  }
  if (!b->reductions) refuse(b, tg_format(&s->j->env, "%s does not stand around it", loop));
}
