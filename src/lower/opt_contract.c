/* SPDX-License-Identifier: MIT
 * contract: a product summed over k becomes a matrix instruction of the target's table. The ranges that the word names, of the
 * instruction's sizes, disappear: a lane holds the registers that the row's layouts give it, operands are loaded into them as
 * vectors, the accumulator is a register tile of the lane, what else is summed over stays as loops around the instruction, and the
 * rest of the statement (an epilogue, a gate) is computed on the accumulator's registers. */
#include "lower/opt.h"
#include "target/matrix.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_matrix_row *row;
  const tg_uop *range[3];        /* i, j, k; NULL: not named */
  const tg_uop *lane;            /* RANGE; CONST 1 where the instruction has no lanes */
  const tg_uop *outermost;       /* of the loops over i and j */
  const tg_uop *store, *reduce;
  const tg_uop *a, *b;           /* loads */
} contraction;

/* ---- is it that product? ---- */

static const tg_site *site_of(contraction *c, int which, bool in_reduce) {
  static const char letters[] = "ijk";
  const tg_opt *o = c->o;
  tg_axis axis = tg_axis_find(c->s, o, o->names[which]);
  uint32_t want = which == 0 ? c->row->m : which == 1 ? c->row->n : c->row->k;
  if (axis.n != 1) tg_fail_at(c->s->j, o->pos, "contract: %s stands in %u places, and one statement is contracted", o->names[which], axis.n);
  const tg_site *site = &axis.site[0];
  if ((site->owner->op == TG_OP_REDUCE) != in_reduce)
    tg_fail_at(c->s->j, o->pos, in_reduce ? "contract: %s is not summed over" : "contract: %s is summed over, and only k can be", tg_range_text(c->s, site->range));
  if (!tg_is_const(tg_extent(site->range), want))
    tg_fail_at(c->s->j, o->pos, "contract: %s has %s iterations, and %s of %s is %u (split it first)", tg_range_text(c->s, site->range), tg_text(c->s->j, tg_extent(site->range)),
               (char[]){letters[which], 0}, c->row->name, want);
  if (tg_range_kind(site->range) != TG_LOOP && tg_range_kind(site->range) != TG_REDUCE)
    tg_fail_at(c->s->j, o->pos, "contract: %s is %s already", tg_range_text(c->s, site->range), tg_kind_name[tg_range_kind(site->range)]);
  c->range[which] = site->range;
  return site;
}

/* The loops over i and j stand directly around each other and the one statement. */
static void find_nest(contraction *c) {
  tg_job *j = c->s->j;
  const tg_site *k = site_of(c, 2, true), *loop[2];
  uint32_t n = 0;
  c->reduce = k->owner;
  c->store = k->store;
  for (int which = 0; which < 2; which++)
    if (c->o->names[which]) loop[n++] = site_of(c, which, false);
  if (!n) tg_fail_at(j, c->o->pos, "contract: j= is missing");
  const tg_site *outer = loop[0];
  if (n == 2 && loop[0]->owner->n == 2 && loop[0]->owner->src[1] != loop[1]->owner) outer = loop[1];
  c->outermost = outer->range;
  const tg_uop *u = outer->owner;
  for (uint32_t i = 0; i < n; i++) {
    bool own = false;
    for (uint32_t q = 0; q < n; q++) own |= u->op == TG_OP_END && u->src[0] == loop[q]->range;
    if (!own || u->n != 2 || (i + 1 == n && u->src[1]->op == TG_OP_END))
      tg_fail_at(j, c->o->pos, "contract: %s must stand directly around the statement, and alone (order them)", n == 2 ? tg_format(&j->env, "%s and %s", c->o->names[0], c->o->names[1]) : c->o->names[1]);
    u = u->src[1];
  }
  if (u != c->store) tg_fail_at(j, c->o->pos, "contract: %s is summed over in another statement", tg_range_text(c->s, c->range[2]));
  if (u->arg & TG_ATOMIC) tg_fail_at(j, c->o->pos, "contract: the statement is atomic");
}

static bool uses(contraction *c, const tg_uop *u, int which) { return c->range[which] && tg_uses(c->s->j, u, c->range[which]); }

/* The load below one factor: of the operand's type, in the accumulator's type. */
static const tg_uop *factor(contraction *c, const tg_uop *u, tg_type operand) {
  if (operand != c->row->c_type) {
    if (u->op != TG_OP_CAST || u->type != c->row->c_type) return NULL;
    u = u->src[0];
  }
  return u->op == TG_OP_LOAD && u->type == operand ? u : NULL;
}

static void find_product(contraction *c) {
  tg_job *j = c->s->j;
  tg_reduce_arg a = tg_reduce_info(c->reduce);
  const tg_matrix_row *r = c->row;
  const tg_uop *v = c->reduce->src[0];
  if (a.generic || a.op != TG_OP_ADD) tg_fail_at(j, c->o->pos, "contract: only a sum is contracted");
  if (a.in_order) tg_fail_at(j, c->o->pos, "contract: a sum_in_order keeps the order of its terms");
  if (v->op == TG_OP_MUL && v->type == r->c_type)
    for (int turned = 0; turned < 2 && !c->a; turned++) {
      const tg_uop *x = factor(c, v->src[turned], r->a_type), *y = factor(c, v->src[!turned], r->b_type);
      if (!x || !y || uses(c, x, 1) || uses(c, y, 0)) continue;
      c->a = x;
      c->b = y;
    }
  if (!c->a) {
    const char *t = tg_type_name[r->c_type], *x = tg_type_name[r->a_type], *y = tg_type_name[r->b_type];
    bool wide_a = r->a_type != r->c_type, wide_b = r->b_type != r->c_type;
    tg_fail_at(j, c->o->pos, "contract: %s sums products %s%sa[i,k]%s * %s%sb[k,j]%s of %s and %s, and this is the sum of %s", r->name, wide_a ? t : "", wide_a ? "(" : "", wide_a ? ")" : "",
               wide_b ? t : "", wide_b ? "(" : "", wide_b ? ")" : "", x, y, tg_text(j, v));
  }
  for (uint32_t i = 0; i < a.ranges; i++) {
    const tg_uop *x = tg_reduce_ranges(c->reduce)[i];
    if (x != c->range[2] && tg_uses(j, tg_extent(x), c->range[2])) tg_fail_at(j, c->o->pos, "contract: the extent of %s depends on %s", tg_range_text(c->s, x), c->o->names[2]);
    for (int w = 0; w < 2; w++)
      if (uses(c, tg_extent(x), w)) tg_fail_at(j, c->o->pos, "contract: the extent of %s depends on %s", tg_range_text(c->s, x), c->o->names[w]);
  }
}

/* ---- fragments ---- */

/* What a dimension is in each register of a lane. */
static const tg_uop *coordinate(contraction *c, const tg_layout *l, uint32_t dim) {
  tg_job *j = c->s->j;
  uint32_t regs = tg_layout_count(l, TG_IN_REG), lanes = tg_layout_count(l, TG_IN_LANE);
  const tg_uop *sum = tg_index(j, 0);
  int64_t weight = 1;
  for (uint32_t k = 0; k < l->dim[dim].n; k++) {
    const tg_layout_digit *d = &l->dim[dim].digit[k];
    bool reg = d->place == TG_IN_REG;
    const tg_uop *x = reg ? tg_iota(j, TG_INDEX, regs) : c->lane;
    if (d->stride > 1) x = tg_op2(j, TG_OP_IDIV, x, tg_index(j, d->stride));
    if (d->stride * d->size < (reg ? regs : lanes)) x = tg_op2(j, TG_OP_MOD, x, tg_index(j, d->size));
    if (weight > 1) x = tg_op2(j, TG_OP_MUL, x, tg_index(j, weight));
    sum = tg_is_const(sum, 0) ? x : tg_op2(j, TG_OP_ADD, sum, x);
    weight *= d->size;
  }
  return sum;
}

/* u with i, j, k as the registers of an operand have them. */
static const tg_uop *in_registers(contraction *c, const tg_uop *u, int which) {
  tg_layout l = tg_matrix_layout(c->row, which);
  const int first = which == 1 ? 2 : 0, second = which == 0 ? 2 : 1;
  const tg_uop *from[2], *to[2];
  uint32_t n = 0;
  for (uint32_t d = 0; d < 2; d++) {
    const tg_uop *range = c->range[d ? second : first];
    if (!range) continue;
    from[n] = range;
    to[n++] = coordinate(c, &l, d);
  }
  return tg_substitute(c->s->j, u, n, from, to);
}

static void replace(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  contraction *c = user;
  tg_job *j = s->j;
  tg_reduce_arg info = tg_reduce_info(c->reduce);
  tg_pos pos = tg_get_pos(j, c->store);
  tg_buffer b = {.name = "acc", .space = TG_SPACE_REG, .type = (uint8_t)c->row->c_type, .pos = pos};
  const tg_uop *acc = tg_define(j, b, tg_matrix_registers(c->row, 2), NULL, NULL, true), *sum = tg_load(j, acc, NULL, NULL, NULL, 0), *x;
  tg_statements list = {0};
  x = tg_store(j, acc, NULL, tg_zero(j, c->row->c_type), NULL, 0);
  tg_push(&j->env, &list, acc);
  tg_push(&j->env, &list, x);
  tg_set_pos(j, x, pos);
  x = tg_matrix(j, c->row->name, in_registers(c, c->a, 0), in_registers(c, c->b, 1), sum, c->lane);
  x = tg_store(j, acc, NULL, x, NULL, 0);
  tg_set_pos(j, x, pos);
  const tg_uop *from[8], *to[8];
  uint32_t n = 0;
  for (uint32_t i = 0; i < info.ranges; i++) {   /* the loops that stay, with ranges of their own: an equal sum may stand elsewhere */
    const tg_uop *r = tg_reduce_ranges(c->reduce)[i];
    if (r == c->range[2]) continue;
    from[n] = r;
    to[n] = tg_axis_range(s, r, tg_range_name(s, r), tg_substitute(j, tg_extent(r), n, from, to), tg_range_kind(r) == TG_REDUCE ? TG_LOOP : tg_range_kind(r));
    n++;
  }
  x = tg_substitute(j, x, n, from, to);
  while (n) {
    x = tg_end(j, to[--n], 1, &x);
    tg_set_pos(j, x, pos);
  }
  tg_push(&j->env, &list, x);
  x = in_registers(c, tg_substitute(j, c->store, 1, &c->reduce, &sum), 2);
  tg_set_pos(j, x, pos);
  tg_push(&j->env, &list, x);
  if (c->lane->op == TG_OP_RANGE) tg_push(&j->env, out, tg_end_like(s, end, c->lane, list.n, list.data));
  else
    for (uint32_t i = 0; i < list.n; i++) tg_push(&j->env, out, list.data[i]);
}

void tg_opt_contract(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  contraction c = {.s = s, .o = o, .row = tg_matrix_find(o->expr)};
  if (!c.row) tg_fail_at(j, o->pos, "contract: no instruction is named %s", o->expr);
  if (!tg_matrix_on(c.row, s->l->target)) tg_fail_at(j, o->pos, "contract: %s is an instruction of %s, not of %s", o->expr, c.row->targets, s->l->target->name);
  if (!o->names[2]) tg_fail_at(j, o->pos, "contract: k= is missing");
  if (!o->names[0] != (c.row->m == 1)) tg_fail_at(j, o->pos, c.row->m == 1 ? "contract: %s has no i" : "contract: i= is missing: %s has rows", o->expr);
  find_nest(&c);
  find_product(&c);
  uint32_t lanes = tg_matrix_lanes(c.row);
  c.lane = lanes == 1 ? tg_index(j, 1) : tg_range_new(j, "lane", tg_index(j, lanes), TG_LANE, UINT32_MAX, tg_get_pos(j, c.store));
  s->sink = tg_replace_end(s, s->sink, c.outermost, replace, &c);
}

/* What contract has left are vectors; one access of theirs is many elements, in many lanes. */
void tg_check_contracted(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, s->sink, &n);
  bool any = false;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    any |= u->op == TG_OP_MATRIX;
    if (o->word == TG_OPT_LANE || u->op != TG_OP_LOAD || u->lanes == 1 || strcmp(tg_buffer_info(j, u->src[0])->name, o->names[0])) continue;
    tg_fail_at(j, o->pos, "%s: contract has made its loads vectors; %s it before", o->names[0], o->word == TG_OPT_STAGE ? "stage" : "prefetch");
  }
  if (!any || o->word != TG_OPT_LANE) return;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  for (uint32_t i = 0; i < axis.n; i++) {
    order = tg_toposort(j, axis.site[i].owner, &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_MATRIX) tg_fail_at(j, o->pos, "lane %s: a matrix instruction stands within, whose lanes are all in use", tg_range_text(s, axis.site[i].range));
  }
}
