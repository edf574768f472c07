/* SPDX-License-Identifier: MIT
 * contract: turns a sum of products into a matrix instruction of the target's table. The ranges that the word names
 * must have the instruction's sizes, and disappear: the row's layouts say which elements each lane holds in registers.
 * Without j the sum is of one factor, and the other one is 1 everywhere: all columns of the accumulator are alike.
 * Operands are loaded into these registers as vectors; the accumulator is a register tile of the lane. Other ranges of
 * the sum stay as loops around the instruction, and the rest of the statement (an epilogue, a gate) is computed on the
 * accumulator's registers.
 *
 * If the statement stores to a register tile, other statements use the tile's axes too (they fill it, scale it, store
 * it). They keep their loops, which tg_finish_tiles later distributes over the accumulator's lanes. An operand that is
 * a register tile is used as it is if its layout is the operand's; if it only holds elements of an input, these are
 * loaded instead; otherwise it is copied through LOCAL memory first. */
#include "dsl/parse.h"
#include "ranges/rules.h"
#include "schedule/opt.h"
#include "target/matrix.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_matrix_row *row;
  tg_axis axis[3];               /* i, j, k as named */
  const tg_site *site[3];        /* of the statement; NULL: not named */
  const tg_uop *range[3];
  /* RANGE over instructions where a range has several times the instruction's size; NULL: once */
  const tg_uop *outer[3];
  const tg_uop *lane;            /* RANGE; CONST 1 where the instruction has no lanes */
  const tg_uop *outermost;       /* of the loops over i and j */
  const tg_uop *store, *reduce;
  const tg_uop *a, *b;           /* loads */
  bool ones;                     /* b is 1 everywhere */
} contraction;

static uint32_t size_of(const contraction *c, int which) {
  return which == 0 ? c->row->m : which == 1 ? c->row->n : c->row->k;
}

/* ---- is it that product? ---- */

static const tg_site *around(contraction *c, const tg_site *k, int which) {
  for (uint32_t p = k->parent; p != UINT32_MAX; p = c->s->sites.data[p].parent)
    for (uint32_t i = 0; i < c->axis[which].n; i++)
      if (c->axis[which].site[i].range == c->s->sites.data[p].range) return &c->axis[which].site[i];
  return NULL;
}

/* Finds the statement to contract: among those that sum over k, the one inside i and j. Several are allowed if they are
 * copies of one, made by a list of sizes, a cut or specialize: then the first is taken. Returns how many there are. A
 * cut of a blocked sum also yields statements that store it to different buffers, each in loops of its own. */
static uint32_t find_statement(contraction *c) {
  const tg_opt *o = c->o;
  const tg_uop *stores = NULL, *within_last = NULL;
  uint32_t found = 0;
  bool one = true;
  for (int w = 0; w < 3; w++) {
    if (!o->names[w]) continue;
    c->axis[w] = tg_axis_find(c->s, o, o->names[w]);
    one &= c->axis[w].n == 1;
  }
  for (uint32_t i = 0; i < c->axis[2].n; i++) {
    const tg_site *k = &c->axis[2].site[i], *s[3] = {NULL, NULL, k};
    const tg_uop *extent = tg_extent(k->range);
    /* what a list leaves is added as it is */
    bool within = k->owner->op == TG_OP_REDUCE &&
                  (c->axis[2].n == 1 || extent->op != TG_OP_CONST || extent->arg % c->row->k == 0);
    for (int w = 0; w < 2 && within; w++)
      if (o->names[w] && !(s[w] = around(c, k, w))) within = false;
    if (!within) continue;
    const tg_uop *buffer = tg_define_of(k->store->src[0]), *j = s[1] ? s[1]->range : NULL;
    if (found && buffer != stores && (!o->names[1] || j == within_last))
      tg_fail_at(c->s->j, o->pos, "contract: several statements within %s sum over %s", o->names[1], o->names[2]);
    stores = buffer;
    within_last = j;
    if (!found++) memcpy(c->site, s, sizeof s);
  }
  for (int w = 0; w < 3 && !found && one; w++)
    if (o->names[w]) c->site[w] = &c->axis[w].site[0];
  if (!found && !one)
    tg_fail_at(c->s->j, o->pos, "contract: no statement within %s%s%s sums over %s", o->names[0] ? o->names[0] : "",
               o->names[0] ? " and " : "", o->names[1] ? o->names[1] : "j", o->names[2]);
  return found;
}

static const tg_site *site_of(contraction *c, int which, bool in_reduce) {
  static const char letters[] = "ijk";
  const tg_opt *o = c->o;
  uint32_t want = size_of(c, which);
  const tg_site *site = c->site[which];
  const tg_uop *extent = tg_extent(site->range);
  if ((site->owner->op == TG_OP_REDUCE) != in_reduce)
    tg_fail_at(c->s->j, o->pos,
               in_reduce ? "contract: %s is not summed over" : "contract: %s is summed over, and only k can be",
               tg_range_text(c->s, site->range));
  if (extent->op != TG_OP_CONST || extent->arg < want || extent->arg % want)
    tg_fail_at(c->s->j, o->pos, "contract: %s has %s iterations, and %s of %s is %u (split it first)",
               tg_range_text(c->s, site->range), tg_text(c->s->j, extent), (char[]){letters[which], 0}, c->row->name,
               want);
  if (tg_range_kind(site->range) != TG_LOOP && tg_range_kind(site->range) != TG_REDUCE)
    tg_fail_at(c->s->j, o->pos, "contract: %s is %s already", tg_range_text(c->s, site->range),
               tg_kind_name[tg_range_kind(site->range)]);
  c->range[which] = site->range;
  return site;
}

static const tg_uop *child_with(const tg_uop *end, const tg_uop *wanted) {
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i] == wanted) return wanted;
  return NULL;
}

/* The loops over i and j must be directly nested, the inner one around the single statement. Other statements of the
 * outer one move to loops of their own before and after, if its iterations are independent. */
static uint32_t find_nest(contraction *c) {
  tg_job *j = c->s->j;
  uint32_t found = find_statement(c);
  const tg_site *k = site_of(c, 2, true), *outer = NULL, *inner = NULL;
  const char *both = c->o->names[0] ? tg_format(&j->env, "%s and %s", c->o->names[0], c->o->names[1]) : c->o->names[1];
  c->reduce = k->owner;
  c->store = k->store;
  for (int which = 0; which < 2; which++) {
    if (!c->o->names[which]) continue;
    const tg_site *site = site_of(c, which, false);
    if (!outer) outer = site;
    else inner = site;
  }
  if (inner && !child_with(outer->owner, inner->owner)) {
    const tg_site *t = outer;
    outer = inner, inner = t;
  }
  c->outermost = outer->range;
  const tg_uop *last = inner ? inner->owner : outer->owner;
  if ((inner && !child_with(outer->owner, inner->owner)) || last->n != 2 || last->src[1]->op == TG_OP_END)
    tg_fail_at(j, c->o->pos, "contract: %s must stand directly around the statement, and alone (order them)", both);
  if (last->src[1] != c->store)
    tg_fail_at(j, c->o->pos, "contract: %s is summed over in another statement", tg_range_text(c->s, c->range[2]));
  if (c->store->arg & TG_ATOMIC) tg_fail_at(j, c->o->pos, "contract: the statement is atomic");
  if (!inner || outer->owner->n == 2) return found;
  const char *why = NULL;
  tg_verdict v = tg_range_verdict(c->s, outer->owner, &why);
  if (v != TG_INDEPENDENT && v != TG_LOCKSTEP)
    tg_fail_at(j, c->o->pos, "contract: other statements stand in %s, whose iterations depend on one another: %s",
               tg_range_text(c->s, outer->range), why ? why : "");
  for (uint32_t i = 1; i < outer->owner->n; i++)
    if (outer->owner->src[i]->op == TG_OP_DEFINE)
      tg_fail_at(j, c->o->pos, "contract: %s is defined within %s, with other statements (define it outside)",
                 tg_buffer_info(j, outer->owner->src[i])->name, tg_range_text(c->s, outer->range));
  return found;
}

static bool uses(contraction *c, const tg_uop *u, int which) {
  return c->range[which] && tg_uses(c->s->j, u, c->range[which]);
}

static bool reads_registers(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE ||
        (order[i]->op == TG_OP_LOAD && tg_buffer_info(j, order[i]->src[0])->space == TG_SPACE_REG))
      return true;
  return false;
}

/* One factor as the operand: a load of the operand's type below a conversion to the accumulator's, or what is computed
 * of loads, where each of its values is one of the operand's type: weights of four bits, say. That is computed in the
 * registers of the operand. */
static const tg_uop *factor(contraction *c, const tg_uop *u, tg_type operand) {
  tg_job *j = c->s->j;
  const tg_uop *v = u->op == TG_OP_CAST ? u->src[0] : u;
  if (operand == c->row->c_type && u->op == TG_OP_LOAD) return u;
  if (operand != c->row->c_type && u->op == TG_OP_CAST && v->op == TG_OP_LOAD && v->type == operand) return v;
  if (u->type != c->row->c_type || operand == c->row->c_type || reads_registers(j, u)) return NULL;
  if (u->op == TG_OP_CAST && v->type == operand) return v;
  if (tg_is_int(u->type)) v = u;
  tg_bounds b = tg_bounds_of(j, v);
  return tg_is_int(v->type) && tg_type_has(operand, b.lo, b.hi) ? tg_cast(j, operand, v) : NULL;
}

/* 0 where the condition does not hold. */
static const tg_uop *gated(contraction *c, const tg_uop *x, const tg_uop *cond) {
  tg_job *j = c->s->j;
  const tg_uop *zero = tg_zero(j, x->type);
  if (x->op != TG_OP_LOAD) return tg_op3(j, TG_OP_WHERE, cond, x, zero);
  if (tg_gate(x) && tg_alternative(x) != zero)
    tg_fail_at(j, c->o->pos, "contract: terms are left out, and %s is not 0 there", tg_text(j, x));
  return tg_load(j, x->src[0], x->src + 1, tg_and(j, tg_gate(x), cond), zero, x->arg & ~(int64_t)TG_GATED);
}

static void find_product(contraction *c) {
  tg_job *j = c->s->j;
  tg_reduce_arg a = tg_reduce_info(c->reduce);
  const tg_matrix_row *r = c->row;
  const tg_uop *v = c->reduce->src[0], *cond = NULL;
  /* terms that a split has gated: a factor of 0 instead, of floats both */
  if (v->op == TG_OP_WHERE && v->src[2] == tg_zero(j, v->type)) cond = v->src[0], v = v->src[1];
  if (a.generic || a.op != TG_OP_ADD) tg_fail_at(j, c->o->pos, "contract: only a sum is contracted");
  if (a.in_order) tg_fail_at(j, c->o->pos, "contract: a sum_in_order keeps the order of its terms");
  if (c->ones) {
    if ((c->a = factor(c, v, r->a_type))) c->b = tg_const_float(j, r->b_type, 1);
  } else if (v->op == TG_OP_MUL && v->type == r->c_type)
    for (int turned = 0; turned < 2 && !c->a; turned++) {
      const tg_uop *x = factor(c, v->src[turned], r->a_type), *y = factor(c, v->src[!turned], r->b_type);
      if (!x || !y || uses(c, x, 1) || uses(c, y, 0)) continue;
      c->a = x;
      c->b = y;
    }
  if (!c->a) {
    const char *t = tg_type_name[r->c_type], *x = tg_type_name[r->a_type], *y = tg_type_name[r->b_type];
    bool wide_a = r->a_type != r->c_type, wide_b = r->b_type != r->c_type;
    v = c->reduce->src[0];
    tg_fail_at(j, c->o->pos,
               "contract: %s sums products %s%sa[i,k]%s * %s%sb[k,j]%s of %s and %s, and this is the sum of %s",
               r->name, wide_a ? t : "", wide_a ? "(" : "", wide_a ? ")" : "", wide_b ? t : "", wide_b ? "(" : "",
               wide_b ? ")" : "", x, y, tg_text(j, v));
  }
  if (cond) c->a = gated(c, c->a, cond);
  if (cond && tg_is_float(r->c_type)) c->b = gated(c, c->b, cond);
  for (uint32_t i = 0; i < a.ranges; i++) {
    const tg_uop *x = tg_reduce_ranges(c->reduce)[i];
    if (x != c->range[2] && tg_uses(j, tg_extent(x), c->range[2]))
      tg_fail_at(j, c->o->pos, "contract: the extent of %s depends on %s", tg_range_text(c->s, x), c->o->names[2]);
    for (int w = 0; w < 2; w++)
      if (uses(c, tg_extent(x), w))
        tg_fail_at(j, c->o->pos, "contract: the extent of %s depends on %s", tg_range_text(c->s, x), c->o->names[w]);
  }
}

/* ---- fragments ---- */

/* Neighbours of a lane along a row of the accumulator: its lowest digit, in registers. */
static uint32_t neighbours(const tg_matrix_row *row) {
  tg_layout l = tg_matrix_layout(row, 2);
  const tg_layout_digit *d = l.dim[1].digit;
  return l.dim[1].n > 1 && d[0].place == TG_IN_REG && d[0].stride == 1 && d[1].place == TG_IN_LANE ? d[0].size : 0;
}

/* The digit that holds the boundary between n values and the rest, as two. */
static void part_digits(tg_dimension *dim, uint32_t n) {
  uint32_t weight = 1, k = 0;
  while (k < dim->n && weight * dim->digit[k].size <= n) weight *= dim->digit[k++].size;
  if (weight == n || k == dim->n) return;
  memmove(&dim->digit[k + 1], &dim->digit[k], (dim->n++ - k) * sizeof *dim->digit);
  uint32_t low = n / weight;
  dim->digit[k].size = low;
  dim->digit[k + 1].stride *= low;
  dim->digit[k + 1].size /= low;
}

/* What a dimension, the one that range w runs along, is in each register of a lane. Several instructions have a part of
 * the range each: one behind the other, or interleaved, so that a lane's neighbours in all of them are neighbours. */
static const tg_uop *coordinate(contraction *c, const tg_layout *l, uint32_t dim, int w) {
  tg_job *j = c->s->j;
  uint32_t regs = tg_layout_count(l, TG_IN_REG), lanes = tg_layout_count(l, TG_IN_LANE);
  const tg_uop *sum = tg_index(j, 0);
  tg_dimension of = l->dim[dim];
  int64_t weight = 1, below = size_of(c, w);   /* of the instructions' digit */
  if (c->outer[w] && w == 1 && c->o->number[0]) part_digits(&of, (uint32_t)(below = neighbours(c->row)));
  for (uint32_t k = 0; k < of.n; k++) {
    const tg_layout_digit *d = &of.digit[k];
    bool reg = d->place == TG_IN_REG;
    const tg_uop *x = reg ? tg_iota(j, TG_INDEX, regs) : c->lane;
    if (d->stride > 1) x = tg_op2(j, TG_OP_IDIV, x, tg_index(j, d->stride));
    if (d->stride * d->size < (reg ? regs : lanes)) x = tg_op2(j, TG_OP_MOD, x, tg_index(j, d->size));
    if (c->outer[w] && weight == below) weight *= tg_extent(c->outer[w])->arg;
    if (weight > 1) x = tg_op2(j, TG_OP_MUL, x, tg_index(j, weight));
    sum = tg_is_const(sum, 0) ? x : tg_op2(j, TG_OP_ADD, sum, x);
    weight *= d->size;
  }
  return c->outer[w] ? tg_op2(j, TG_OP_ADD, tg_idx_mul(j, c->outer[w], below), sum) : sum;
}

/* u with i, j, k as the registers of an operand have them. */
static const tg_uop *in_registers(contraction *c, const tg_uop *u, int which) {
  tg_layout l = tg_matrix_layout(c->row, which);
  const int first = which == 1 ? 2 : 0, second = which == 0 ? 2 : 1;
  const tg_uop *from[2], *to[2];
  uint32_t n = 0;
  for (uint32_t d = 0; d < 2; d++) {
    int w = d ? second : first;
    if (!c->range[w]) continue;
    from[n] = c->range[w];
    to[n++] = coordinate(c, &l, d, w);
  }
  return tg_substitute(c->s->j, u, n, from, to);
}

static bool in_register_tile(contraction *c, const tg_uop *access) {
  return (access->op == TG_OP_LOAD || access->op == TG_OP_STORE) && c->lane->op == TG_OP_RANGE &&
         tg_buffer_info(c->s->j, access->src[0])->space == TG_SPACE_REG;
}

/* ---- operands in register tiles ---- */

/* Can the operand's register tile be used without moving data, at most by renaming registers? Its layout is that of an
 * accumulator. */
static bool lies_right(contraction *c, int which) {
  const int dims[2] = {which == 1 ? 2 : 0, which == 0 ? 2 : 1};
  const tg_uop *tile = tg_define_of((which ? c->b : c->a)->src[0]);
  for (uint32_t i = 0; i < c->s->tiles.n; i++)
    if (c->s->tiles.data[i].define == tile && c->s->tiles.data[i].interleaved) return false;
  tg_layout acc = tg_matrix_layout(c->row, 2), from = {.rank = 2}, to = tg_matrix_layout(c->row, which);
  for (uint32_t d = 0; d < 2; d++) {
    int as = dims[d] < 2 ? dims[d] : tg_tile_dimension(c->s, &c->axis[2], c->row);
    if (as < 0 || !c->range[dims[d]]) return false;
    int64_t extent = tg_extent(c->range[dims[d]])->arg;
    if (extent % tg_layout_size(&acc, (uint32_t)as)) return false;
    from.dim[d] = acc.dim[as];
    if (extent > tg_layout_size(&acc, (uint32_t)as))
      from.dim[d].digit[from.dim[d].n++] =
          (tg_layout_digit){TG_IN_REG, d ? 1 << 12 : 1 << 8, (uint32_t)extent / tg_layout_size(&acc, (uint32_t)as)};
    to = tg_layout_repeat(&to, d, (uint32_t)extent / tg_layout_size(&to, d));
  }
  return tg_layout_convert(&from, &to).class <= TG_CONVERT_IN_LANE;
}

/* ---- tiles that hold what an input has ---- */

enum { MOST_BOUND = 16 };
typedef struct { const tg_uop *from[MOST_BOUND], *to[MOST_BOUND]; uint32_t n; } binding;

/* Are both one expression, if ranges of the first are taken for ranges of the second? */
static bool matches(const tg_uop *a, const tg_uop *b, binding *k) {
  if (a->op != b->op || a->type != b->type || a->n != b->n) return false;
  if (a->op != TG_OP_RANGE) {
    if (a->arg != b->arg) return false;
    for (uint32_t i = 0; i < a->n; i++)
      if (!matches(a->src[i], b->src[i], k)) return false;
    return true;
  }
  for (uint32_t i = 0; i < k->n; i++)
    if (k->from[i] == a || k->to[i] == b) return k->from[i] == a && k->to[i] == b;
  if (k->n == MOST_BOUND || tg_extent(a) != tg_extent(b)) return false;
  k->from[k->n] = a;
  k->to[k->n++] = b;
  return true;
}

static void find_stores(const tg_uop *u, uint32_t buffer, const tg_uop **store, uint32_t *n) {
  if (u->op == TG_OP_STORE && tg_buffer_ordinal(u->src[0]) == buffer) *store = u, ++*n;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++)
    find_stores(u->src[i], buffer, store, n);
}

static bool stands_around(const contraction *c, const tg_uop *range) {
  for (const tg_site *s = c->site[2]; s && s->parent != UINT32_MAX; s = &c->s->sites.data[s->parent])
    if (c->s->sites.data[s->parent].range == range) return true;
  return false;
}

/* Where the tile is only filled with elements of an input, once: the load of that element; else NULL. */
static const tg_uop *of_input(contraction *c, const tg_uop *load) {
  tg_job *j = c->s->j;
  const tg_uop *store = NULL;
  uint32_t stores = 0, n;
  binding k = {.n = 0};
  find_stores(c->s->sink, tg_buffer_ordinal(load->src[0]), &store, &stores);
  if (stores != 1 || tg_gate(store) || tg_gate(load) || tg_stored(store)->op != TG_OP_LOAD) return NULL;
  const tg_uop *value = tg_stored(store);
  if (tg_buffer_info(j, value->src[0])->role != TG_ROLE_IN || value->type != load->type) return NULL;
  for (uint32_t d = 0; d < tg_access_rank(store); d++)
    if (!matches(store->src[1 + d], load->src[1 + d], &k)) return NULL;
  const tg_uop **order = tg_toposort(j, value, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_LOAD && order[i] != value) return NULL;
    bool bound = order[i]->op != TG_OP_RANGE || stands_around(c, order[i]);
    for (uint32_t b = 0; b < k.n && !bound; b++) bound = k.from[b] == order[i];
    if (!bound) return NULL;
  }
  return tg_substitute(j, value, k.n, k.from, k.to);
}

/* A copy of the operand in LOCAL memory, whose name says what it is for. */
static const tg_uop *converted(contraction *c, const tg_uop *load, int which, tg_statements *out) {
  tg_job *j = c->s->j;
  const int dims[2] = {which == 1 ? 2 : 0, which == 0 ? 2 : 1};
  const tg_uop *input = of_input(c, load);
  if (input) return input;
  tg_buffer b = *tg_buffer_info(j, load->src[0]);
  b = (tg_buffer){.name = tg_sym(j, tg_format(&j->env, "%s.%c", b.name, "ab"[which])),
                  .space = TG_SPACE_LOCAL,
                  .type = b.type,
                  .rank = 2,
                  .pos = b.pos};
  const tg_uop *from[2], *to[2], *extent[2];
  for (uint32_t d = 0; d < 2; d++) {
    from[d] = c->range[dims[d]];
    extent[d] = tg_extent(from[d]);
    to[d] = tg_axis_range(c->s, from[d], tg_range_name(c->s, from[d]), extent[d], TG_LOOP);
    tg_axis_tie(c->s, to[d], from[d]);
  }
  const tg_uop *copy = tg_define(j, b, 1, extent, NULL, true),
               *x = tg_store(j, copy, to, tg_substitute(j, load, 2, from, to), NULL, 0);
  tg_set_pos(j, x, tg_get_pos(j, c->store));
  for (uint32_t d = 2; d-- > 0;) x = tg_end(j, to[d], 1, &x);
  tg_push(&j->env, out, copy);
  tg_push(&j->env, out, x);
  return tg_load(j, copy, from, NULL, NULL, 0);
}

/* ---- the statement ---- */

/* The other statements of the outermost loop, from the first-th to before the last-th, in a loop of their own. */
static void keep(contraction *c, const tg_uop *end, uint32_t first, uint32_t last, tg_statements *out) {
  tg_job *j = c->s->j;
  if (first >= last) return;
  const tg_uop **list = tg_new(&j->env, const tg_uop *, last - first),
               *own = tg_axis_range(c->s, end->src[0], tg_range_name(c->s, end->src[0]), tg_extent(end->src[0]),
                                    tg_range_kind(end->src[0]));
  tg_axis_tie(c->s, own, end->src[0]);
  for (uint32_t i = first; i < last; i++) {
    list[i - first] = tg_substitute(j, end->src[i], 1, &end->src[0], &own);
    if (end->src[i]->op == TG_OP_STORE) tg_set_pos(j, list[i - first], tg_get_pos(j, end->src[i]));
  }
  tg_push(&j->env, out, tg_end_like(c->s, end, own, last - first, list));
}

static const tg_uop *summed(contraction *c, const tg_uop *acc, const tg_uop *sum) {
  tg_schedule *s = c->s;
  tg_job *j = s->j;
  tg_reduce_arg info = tg_reduce_info(c->reduce);
  tg_pos pos = tg_get_pos(j, c->store);
  const tg_uop *x = tg_matrix(j, c->row->name, in_registers(c, c->a, 0), in_registers(c, c->b, 1), sum, c->lane),
               *from[8], *to[8];
  uint32_t n = 0, loops = 0;
  x = tg_store(j, acc, NULL, x, NULL, 0);
  tg_set_pos(j, x, pos);
  /* the loops that stay, with ranges of their own: an equal sum may stand elsewhere */
  for (uint32_t i = 0; i < info.ranges; i++) {
    const tg_uop *r = tg_reduce_ranges(c->reduce)[i];
    if (r == c->range[2]) continue;
    from[n] = r;
    to[n] = tg_axis_range(s, r, tg_range_name(s, r), tg_substitute(j, tg_extent(r), n, from, to),
                          tg_range_kind(r) == TG_REDUCE ? TG_LOOP : tg_range_kind(r));
    n++;
  }
  x = tg_substitute(j, x, n, from, to);
  loops = n;
  if (c->outer[2]) to[loops++] = c->outer[2];
  while (loops) {
    x = tg_end(j, to[--loops], 1, &x);
    tg_set_pos(j, x, pos);
  }
  return x;
}

/* What the sum is added to, where the statement adds it to something. */
static const tg_uop *begins_with(contraction *c) {
  const tg_uop *v = tg_stored(c->store);
  if (v->op != TG_OP_ADD || (v->src[0] != c->reduce && v->src[1] != c->reduce)) return NULL;
  const tg_uop *x = v->src[v->src[0] == c->reduce];
  return tg_uses(c->s->j, x, c->reduce) ? NULL : x;
}

/* Tiles go to memory as a whole, and what else the statement does is done there, in vectors of a row's elements. */
static void by_rows(contraction *c, const tg_uop *acc, tg_statements *list) {
  tg_job *j = c->s->j;
  tg_pos pos = tg_get_pos(j, c->store);
  const tg_uop *elements = tg_index(j, tg_matrix_registers(c->row, 2)),
               *all = tg_iota(j, TG_INDEX, tg_matrix_registers(c->row, 2)), *x = c->store;
  tg_buffer b = {.name = "tile", .space = TG_SPACE_LOCAL, .type = (uint8_t)c->row->c_type, .rank = 1, .pos = pos};
  const tg_uop *tile = tg_define(j, b, 1, &elements, NULL, true), *from[3] = {c->reduce, c->range[0], c->range[1]},
               *to[3], *own[2], *at;
  tg_push(&j->env, list, tile);
  tg_push(&j->env, list, tg_store(j, tile, &all, tg_load(j, acc, NULL, NULL, NULL, 0), NULL, 0));
  for (int w = 0; w < 2; w++) {
    own[w] = tg_axis_range(c->s, c->range[w], tg_range_name(c->s, c->range[w]), tg_index(j, size_of(c, w)),
                           w ? TG_LANE : TG_LOOP);
    to[1 + w] = c->outer[w] ? tg_op2(j, TG_OP_ADD, tg_idx_mul(j, c->outer[w], size_of(c, w)), own[w]) : own[w];
  }
  at = tg_op2(j, TG_OP_ADD, tg_idx_mul(j, own[0], c->row->n), own[1]);
  to[0] = tg_load(j, tile, &at, NULL, NULL, 0);
  x = tg_substitute(j, x, 3, from, to);
  for (int w = 2; w-- > 0;) {
    tg_set_pos(j, x, pos);
    x = tg_end(j, own[w], 1, &x);
  }
  tg_push(&j->env, list, x);
}

/* All of it for each of the instructions, in each lane. */
static void repeated(contraction *c, const tg_uop *end, tg_statements *list, tg_statements *out) {
  tg_job *j = c->s->j;
  for (uint32_t i = 1; i < list->n; i++) tg_set_pos(j, list->data[i], tg_get_pos(j, c->store));
  for (int w = 3; w-- > 0;) {   /* 2: the lanes */
    const tg_uop *range = w < 2 ? c->outer[w] : c->lane->op == TG_OP_RANGE ? c->lane : NULL;
    if (!range) continue;
    list->data[0] = tg_end_like(c->s, end, range, list->n, list->data);
    list->n = 1;
  }
  for (uint32_t i = 0; i < list->n; i++) tg_push(&j->env, out, list->data[i]);
}

static void instructions(contraction *c, const tg_uop *end, tg_statements *out) {
  tg_schedule *s = c->s;
  tg_job *j = s->j;
  tg_pos pos = tg_get_pos(j, c->store);
  tg_buffer b = {.name = "acc", .space = TG_SPACE_REG, .type = (uint8_t)c->row->c_type, .pos = pos};
  const tg_uop *acc = tg_define(j, b, tg_matrix_registers(c->row, 2), NULL, NULL, true),
               *sum = tg_load(j, acc, NULL, NULL, NULL, 0),
               *init = c->row->form == TG_MATRIX_TILE ? NULL : begins_with(c), *x = c->store;
  tg_statements list = {0};
  tg_push(&j->env, &list, acc);
  tg_push(&j->env, &list,
          tg_store(j, acc, NULL, init ? in_registers(c, init, 2) : tg_zero(j, c->row->c_type), NULL, 0));
  tg_push(&j->env, &list, summed(c, acc, sum));
  if (c->row->form == TG_MATRIX_TILE) {
    by_rows(c, acc, &list);
    repeated(c, end, &list, out);
    return;
  }
  const tg_uop *whole = tg_stored(x), *value = init ? sum : tg_substitute(j, whole, 1, &c->reduce, &sum);
  if (in_register_tile(c, x) && value != sum) {   /* first all of it, then into the tile, which it may read */
    if (value->type == c->row->c_type) {
      tg_push(&j->env, &list, tg_store(j, acc, NULL, in_registers(c, value, 2), NULL, 0));
      value = sum;
    }
  }
  x = tg_store(j, x->src[0], x->src + 1, value, tg_gate(x) ? tg_substitute(j, tg_gate(x), 1, &c->reduce, &sum) : NULL,
               x->arg & ~(int64_t)TG_GATED);
  tg_push(&j->env, &list, in_registers(c, x, 2));
  repeated(c, end, &list, out);
}

static void replace(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  contraction *c = user;
  uint32_t at = 1;
  while (at < end->n && !tg_uses(s->j, end->src[at], c->store)) at++;
  keep(c, end, 1, at, out);
  if (in_register_tile(c, c->a) && !lies_right(c, 0)) c->a = converted(c, c->a, 0, out);
  if (in_register_tile(c, c->b) && !lies_right(c, 1)) c->b = converted(c, c->b, 1, out);
  instructions(c, end, out);
  keep(c, end, at + 1, end->n, out);
}

/* Makes the ranges that repeat the instruction. Registers cannot be indexed at run time, so a range along a register
 * tile is unrolled into copies. */
static void repeat(contraction *c) {
  tg_job *j = c->s->j;
  bool tile = in_register_tile(c, c->a) || in_register_tile(c, c->b);
  for (int w = 0; w < 3; w++) {
    if (!c->range[w] || tg_is_const(tg_extent(c->range[w]), size_of(c, w))) continue;
    const char *name = tg_sym(j, tg_format(&j->env, "%s.tile", tg_range_name(c->s, c->range[w])));
    c->outer[w] = tg_range_new(j, name, tg_index(j, tg_extent(c->range[w])->arg / size_of(c, w)),
                               w < 2  ? TG_UPCAST
                               : tile ? TG_UNROLL
                                      : TG_LOOP,
                               UINT32_MAX, tg_get_pos(j, c->store));
  }
}

/* The first of the statements; how many there were. */
static uint32_t contract_one(tg_schedule *s, const tg_opt *o, const tg_matrix_row *row, bool ones) {
  tg_job *j = s->j;
  contraction c = {.s = s, .o = o, .row = row, .ones = ones};
  uint32_t found = find_nest(&c);
  find_product(&c);
  if (found == 1 && tg_buffer_info(j, c.store->src[0])->space == TG_SPACE_REG &&
      tg_rows_apart(s, c.store, c.reduce, c.range[0], c.range[1])) {
    c = (contraction){.s = s, .o = o, .row = row, .ones = ones};
    find_nest(&c);
    find_product(&c);
  }
  uint32_t lanes = tg_matrix_lanes(c.row);
  c.lane = lanes == 1 ? tg_index(j, 1)
                      : tg_range_new(j, "lane", tg_index(j, lanes), TG_LANE, UINT32_MAX, tg_get_pos(j, c.store));
  repeat(&c);
  s->sink = tg_replace_end(s, s->sink, c.outermost, replace, &c);
  if (in_register_tile(&c, c.store)) tg_note_tile(s, o, c.row, c.store, c.range);
  return found;
}

/* ---- stores that never happen ---- A cut leaves both of a sum that waits in each part: where the sum waits, and
 * where it goes in the last block of terms. */

static bool is_never(tg_job *j, const tg_uop *gate) {
  if (gate->op == TG_OP_AND) return is_never(j, gate->src[0]) || is_never(j, gate->src[1]);
  return tg_proves(j, NULL, tg_negate(j, gate));
}

static bool is_alive(tg_job *j, const tg_uop *u) {
  return u->op != TG_OP_STORE || !tg_gate(u) || !is_never(j, tg_gate(u));
}

static void without_dead(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  (void)user;
  tg_statements list = {0};
  for (uint32_t i = 1; i < end->n; i++)
    if (is_alive(s->j, end->src[i])) tg_push(&s->j->env, &list, end->src[i]);
  tg_push(&s->j->env, out, list.n && list.n + 1 < end->n ? tg_end_like(s, end, end->src[0], list.n, list.data) : end);
}

static void drop_dead(tg_schedule *s, const tg_opt *o) {
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  for (uint32_t i = 0; i < axis.n; i++)
    if (axis.site[i].owner->op == TG_OP_END && axis.site[i].owner->n > 2)
      s->sink = tg_replace_end(s, s->sink, axis.site[i].range, without_dead, NULL);
  tg_schedule_sites(s);
}

/* A sum without columns, in statements of the loop over i itself, gets some, in all copies. The word that is left. */
static tg_opt with_columns(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  const uint32_t columns = tg_matrix_find(o->expr)->n;
  tg_opt with = *o;
  tg_axis k = tg_axis_find(s, o, o->names[2]), i = tg_axis_find(s, o, o->names[0]);
  const tg_uop *tile = NULL, *of = NULL;
  for (uint32_t a = 0; a < k.n; a++) {
    const tg_site *x = &k.site[a];
    if (x->owner->op != TG_OP_REDUCE || x->parent == UINT32_MAX) continue;
    if (of && of != tg_define_of(x->store->src[0])) continue;
    tg_reduce_arg sum = tg_reduce_info(x->owner);
    const tg_uop *around = s->sites.data[x->parent].range;
    for (uint32_t b = 0; b < i.n && !sum.generic && sum.op == TG_OP_ADD; b++)
      if (around == i.site[b].range) {
        of = tg_define_of(x->store->src[0]);
        tg_give_columns(s, x, around, columns, &tile);
        with.names[2] = tg_range_name(s, x->range);
      }
  }
  if (!tile)
    tg_fail_at(j, o->pos, "contract: no statement of %s itself sums over %s, and j= is missing", o->names[0],
               o->names[2]);
  with.names[1] = tg_format(&j->env, "%s.column", tg_buffer_info(j, tile)->name);
  with.names[2] = tg_format(&j->env, "%s.%s", tg_buffer_info(j, tile)->name, with.names[2]);
  return with;
}

void tg_opt_contract(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  const tg_matrix_row *row = tg_matrix_find(o->expr);
  if (!row) tg_fail_at(j, o->pos, "contract: no instruction is named %s", o->expr);
  if (!tg_matrix_on(row, s->l->target))
    tg_fail_at(j, o->pos, "contract: %s is an instruction of %s, not of %s", o->expr, row->targets, s->l->target->name);
  if (row->n == 1) tg_fail_at(j, o->pos, "contract: %s needs no word: pass reduce takes it by itself", o->expr);
  if (!o->names[2]) tg_fail_at(j, o->pos, "contract: k= is missing");
  if (!o->names[1] && (!o->names[0] || !tg_is_float(row->b_type) || row->form == TG_MATRIX_TILE))
    tg_fail_at(j, o->pos, "contract: j= is missing");
  if (!o->names[0] != (row->m == 1))
    tg_fail_at(j, o->pos, row->m == 1 ? "contract: %s has no i" : "contract: i= is missing: %s has rows", o->expr);
  if (o->number[0] && (!o->names[1] || row->form == TG_MATRIX_TILE || !neighbours(row)))
    tg_fail_at(j, o->pos, "contract: interleaved: a lane has no neighbours along a row of %s", row->name);
  if (o->names[1]) drop_dead(s, o);
  bool ones = o->names[0] && !o->names[1];
  tg_opt with = ones ? with_columns(s, o) : *o;
  for (uint32_t left = contract_one(s, &with, row, ones); left > 1; left--) {
    tg_schedule_sites(s);
    contract_one(s, &with, row, ones);
  }
}

/* After contract, accesses are vectors that cover many elements in many lanes, which the word cannot handle. */
void tg_check_contracted(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, s->sink, &n);
  bool any = false;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    any |= u->op == TG_OP_MATRIX;
    if (o->word == TG_OPT_LANE || u->op != TG_OP_LOAD || u->lanes == 1 ||
        strcmp(tg_buffer_info(j, u->src[0])->name, o->names[0]))
      continue;
    tg_fail_at(j, o->pos, "%s: contract has made its loads vectors; %s it before", o->names[0],
               tg_opt_rows[o->word].word);
  }
  if (!any || o->word != TG_OPT_LANE) return;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  for (uint32_t i = 0; i < axis.n; i++) {
    order = tg_toposort(j, axis.site[i].owner, &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_MATRIX)
        tg_fail_at(j, o->pos, "lane %s: a matrix instruction stands within, whose lanes are all in use",
                   tg_range_text(s, axis.site[i].range));
  }
}
