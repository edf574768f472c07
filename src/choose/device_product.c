/* SPDX-License-Identifier: MIT
 * Recognises a product of matrices in a perfect nest, for targets with warps: its operands, how they lie in memory, and
 * the matrix instruction that takes their types. */
#include "choose/device_product.h"
#include "ranges/ranges.h"

/* The one dimension in which the load moves with the range, one element at a time. */
static bool find_dimension(tg_job *j, const tg_uop *load, const tg_uop *range, uint32_t *dimension) {
  uint32_t found = 0;
  tg_linear t;
  for (uint32_t d = 0; d < tg_access_rank(load); d++) {
    if (!tg_uses(j, load->src[1 + d], range)) continue;
    *dimension = d;
    found++;
    tg_linear_of(j, load->src[1 + d], &t);
    bool steps = false;
    for (uint32_t i = 0; i < t.n; i++) steps |= t.atom[i] == range && t.coefficient[i] == 1;
    if (!steps) return false;
  }
  return found == 1;
}

/* How many elements from a multiple of which on rows begin: what one copy may move. */
static uint32_t vector_of(tg_job *j, const tg_device_operand *o, tg_type type) {
  const tg_uop *define = tg_define_of(o->load->src[0]);
  uint32_t most = TG_UNIT / (uint32_t)tg_type_bytes(type), rank = tg_access_rank(o->load);
  uint32_t last = o->along_terms ? o->term : o->own;
  bool strided = define->arg >> 32 & TG_STRIDED;
  if (strided ? !tg_is_const(define->src[rank + last], 1) : last != rank - 1) return 1;
  for (uint32_t i = 0; i < rank; i++)
    if (strided ? i != last : i == last)
      while (most > 1 && !tg_divides(j, most, define->src[strided ? rank + i : i])) most /= 2;
  tg_linear t;   /* and where the tiles begin */
  tg_linear_of(j, o->load->src[1 + last], &t);
  while (most > 1 && t.constant % most) most /= 2;
  return most;
}

bool tg_device_operand_lies(tg_job *j, tg_device_operand *o, const tg_uop *sum, tg_type type) {
  o->name = tg_buffer_info(j, o->load->src[0])->name;
  if (!find_dimension(j, o->load, o->loop, &o->own) || !find_dimension(j, o->load, sum, &o->term) || o->own == o->term)
    return false;
  o->along_terms = tg_access_motion(j, o->load, sum) == TG_CONTIGUOUS;
  if (!o->along_terms && tg_access_motion(j, o->load, o->loop) != TG_CONTIGUOUS) return false;
  o->copy = tg_device_new_name(j, tg_format(&j->env, "%s.tile", o->name));
  o->vector = vector_of(j, o, type);
  return true;
}

/* What the sum adds: without the condition of a split, which is on the factors too. */
const tg_uop *tg_device_product_of(const tg_uop *reduce) {
  const tg_uop *value = reduce->src[0];
  bool split = value->op == TG_OP_WHERE && value->src[2]->op == TG_OP_CONST && !value->src[2]->arg;
  return split ? value->src[1] : value;
}

/* Is the load gated at most by being inside of the buffer, and 0 outside? So is a copy of it. */
static bool is_whole(tg_job *j, const tg_uop *load) {
  const tg_uop *define = tg_define_of(load->src[0]), *within = NULL;
  if (!tg_gate(load)) return true;
  if (tg_alternative(load)->op != TG_OP_CONST || tg_alternative(load)->arg) return false;
  for (uint32_t d = 0; d < tg_access_rank(load); d++) {
    within = tg_and(j, within, tg_op2(j, TG_OP_LE, tg_index(j, 0), load->src[1 + d]));
    within = tg_and(j, within, tg_op2(j, TG_OP_LT, load->src[1 + d], define->src[d]));
  }
  tg_facts facts = {NULL, within};
  return tg_proves(j, &facts, tg_gate(load));
}

static bool is_stored(tg_job *j, const tg_uop *u, const tg_uop *define) {
  if (u->op == TG_OP_STORE) return tg_define_of(u->src[0]) == define;
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++)
    if (is_stored(j, u->src[i], define)) return true;
  return false;
}

/* An input, or what launches before have stored. */
static bool is_read_alone(tg_nest *n, const tg_uop *load) {
  const tg_buffer *b = tg_buffer_info(n->j, load->src[0]);
  return b->role == TG_ROLE_IN ||
         (b->space != TG_SPACE_REG && !is_stored(n->j, n->top, tg_define_of(load->src[0])));
}

static bool find_operand(tg_device_product *c, const tg_uop *factor, tg_type type, const tg_uop *loop,
                         tg_device_operand *o) {
  tg_job *j = c->n->j;
  while (factor->op == TG_OP_CAST && factor->type == c->reduce->type) factor = factor->src[0];
  if (factor->op != TG_OP_LOAD || factor->type != type || !tg_uses(j, factor, loop) || !is_whole(j, factor))
    return false;
  *o = (tg_device_operand){.load = factor, .loop = loop};
  return is_read_alone(c->n, factor) && tg_device_operand_lies(j, o, c->sum, type);
}

/* Reads of one buffer each have a copy of their own, `of` their ranges: of a name of its own. */
static void tell_apart(tg_device_product *c) {
  tg_device_operand *all[2 + TG_MORE_OPERANDS] = {&c->a, &c->b};
  for (uint32_t i = 0; i < c->mores; i++) all[2 + i] = &c->more[i];
  for (uint32_t i = 0; i < 2 + c->mores; i++)
    for (uint32_t k = 0; k < i; k++)
      if (tg_define_of(all[i]->load->src[0]) == tg_define_of(all[k]->load->src[0])) {
        all[i]->iterations = all[k]->iterations = true;
        all[i]->copy = tg_device_new_name(c->n->j, tg_format(&c->n->j->env, "%s.tile%u", all[i]->name, i));
      }
}

static bool find_operands(tg_device_product *c, const tg_uop *rows, const tg_uop *columns) {
  tg_job *j = c->n->j;
  const tg_uop *product = tg_device_product_of(c->reduce);
  tg_type a = c->row ? c->row->a_type : product->type, b = c->row ? c->row->b_type : product->type;
  c->mores = 0;
  for (int turned = 0; turned < 2; turned++)
    if (find_operand(c, product->src[turned], a, rows, &c->a) &&
        find_operand(c, product->src[!turned], b, columns, &c->b) && !tg_uses(j, c->a.load, columns) &&
        !tg_uses(j, c->b.load, rows)) {
      tell_apart(c);
      return true;
    }
  return false;
}

/* ---- any reduction of what is computed of operands ---- */

/* Where the read belongs: it moves with the terms and with rows or with columns. True too: it need not be copied, since
 * it is the same for all terms, or for all rows and columns. */
static bool add_read(tg_device_product *c, const tg_uop *load, const tg_uop *rows, const tg_uop *columns) {
  tg_job *j = c->n->j;
  bool moves[2] = {tg_uses(j, load, rows), tg_uses(j, load, columns)};
  if (!tg_uses(j, load, c->sum) || (!moves[0] && !moves[1])) return true;
  if (moves[0] == moves[1] || !is_whole(j, load) || !is_read_alone(c->n, load)) return false;
  tg_device_operand *first = moves[0] ? &c->a : &c->b, o = {.load = load, .loop = moves[0] ? rows : columns};
  if (!tg_device_operand_lies(j, &o, c->sum, load->type)) return false;
  if (first->load && c->mores == TG_MORE_OPERANDS) return false;
  *(first->load ? &c->more[c->mores++] : first) = o;
  return true;
}

static bool find_reads(tg_device_product *c, const tg_uop *rows, const tg_uop *columns) {
  uint32_t count;
  const tg_uop **order = tg_toposort(c->n->j, c->reduce->src[0], &count);
  c->a.load = c->b.load = NULL;
  c->mores = 0;
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_REDUCE || (order[i]->op == TG_OP_LOAD && !add_read(c, order[i], rows, columns)))
      return false;
  if (!c->a.load || !c->b.load) return false;
  tell_apart(c);
  return true;
}

/* Products that the instruction rounds as the language does: it must widen its operands. */
bool tg_device_product_fits(const tg_device_product *c, const tg_matrix_row *r) {
  const tg_uop *product = tg_device_product_of(c->reduce);
  return r->m > 1 && r->c_type == c->reduce->type && tg_type_bits(r->a_type) < tg_type_bits(r->c_type) &&
         r->form != TG_MATRIX_TILE && product->type == r->c_type && tg_matrix_on(r, c->n->l->target);
}

/* The instruction that multiplies most at once. */
static bool find_instruction(tg_device_product *c, const tg_uop *rows, const tg_uop *columns) {
  tg_device_product best = {.row = NULL};
  for (uint32_t i = 0; tg_matrix_at(i); i++) {
    c->row = tg_matrix_at(i);
    if (!tg_device_product_fits(c, c->row) || !find_operands(c, rows, columns)) continue;
    uint32_t size = c->row->m * c->row->n * c->row->k;
    if (!best.row || size > (uint32_t)best.row->m * best.row->n * best.row->k) best = *c;
  }
  if (best.row) *c = best;
  else c->row = NULL;
  return best.row != NULL;
}

static bool find_factors(tg_device_product *c, const tg_uop *rows, const tg_uop *columns) {
  return find_instruction(c, rows, columns) || find_operands(c, rows, columns);
}

static bool is_loop(const tg_uop *end) { return tg_range_kind(end->src[0]) == TG_LOOP; }

static void see_around(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  c->around = 1;
  for (uint32_t k = 0; k < depth; k++) {
    const tg_uop *r = chain[k]->src[0];
    if (r != c->a.loop && r != c->b.loop) c->around *= (double)tg_iterations(r);
    c->tasks |= !is_loop(chain[k]);
  }
}

static bool find_store(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  const tg_uop *inner = depth < 2 ? NULL : chain[depth - 1];
  if (!inner || inner->n != 2 || inner->src[1]->op != TG_OP_STORE || tg_gate(inner->src[1])) return false;
  c->store = inner->src[1];
  return true;
}

static bool any_order(const tg_uop *reduce) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  return !a.generic && !a.in_order;
}

/* The only store of the nest, of one reduction that may be taken in any order. */
static bool find_reduction(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  uint32_t found = 0, count;
  if (!find_store(c, depth, chain)) return false;
  c->sums = 1;
  const tg_uop **order = tg_toposort(c->n->j, c->store, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_REDUCE) c->reduce = order[i], found++;
  return found == 1 && any_order(c->reduce);
}

static bool is_of_products(const tg_device_product *c) {
  return tg_reduce_info(c->reduce).op == TG_OP_ADD && tg_device_product_of(c->reduce)->op == TG_OP_MUL;
}

bool tg_device_product_sum(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  return find_reduction(c, depth, chain) && is_of_products(c);
}

/* Is the store's reduction one, of which loops are the rows and the columns? */
static bool find_loops(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = c->n->j;
  const tg_uop *columns = NULL;
  if (tg_reduce_info(c->reduce).ranges != 1) return false;
  c->sum = tg_reduce_ranges(c->reduce)[0];
  const bool products = is_of_products(c);
  if (tg_range_kind(c->sum) != TG_REDUCE && tg_range_kind(c->sum) != TG_LOOP) return false;
  for (uint32_t k = 0; k < depth; k++) {
    tg_kind kind = tg_range_kind(chain[k]->src[0]);
    if ((kind != TG_LOOP && kind != TG_GLOBAL) || tg_loads_below(j, tg_extent(chain[k]->src[0]))) return false;
  }
  for (uint32_t k = depth; k-- > 0 && !columns;)
    if (is_loop(chain[k]) && tg_access_motion(j, c->store, chain[k]->src[0]) == TG_CONTIGUOUS)
      columns = chain[k]->src[0];
  for (uint32_t k = depth; k-- > 0 && columns;)
    if (is_loop(chain[k]) && chain[k]->src[0] != columns &&
        ((products && find_factors(c, chain[k]->src[0], columns)) || find_reads(c, chain[k]->src[0], columns))) {
      see_around(c, depth, chain);
      return true;
    }
  return false;
}

bool tg_device_product_find(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  return find_reduction(c, depth, chain) && find_loops(c, depth, chain);
}

/* In one tile with the first: by the same instruction, and neither is a term of the other. */
static bool goes_with(const tg_device_product *first, const tg_device_product *c) {
  tg_job *j = c->n->j;
  return c->row == first->row && c->a.loop == first->a.loop && c->b.loop == first->b.loop &&
         tg_extent(c->sum) == tg_extent(first->sum) && !tg_uses(j, c->reduce, first->reduce) &&
         !tg_uses(j, first->reduce, c->reduce);
}

bool tg_device_product_several(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = c->n;
  uint32_t found = 0, count;
  if (!find_store(c, depth, chain)) return false;
  const tg_uop *store = c->store, **order = tg_toposort(n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    if (found == TG_MOST_SUMS || !any_order(order[i])) return false;
    tg_device_product *one = &c[found];
    *one = (tg_device_product){.n = n, .store = store, .reduce = order[i]};
    if (!find_loops(one, depth, chain)) return false;
    for (uint32_t k = 0; k < found; k++)
      if (!goes_with(&c[k], one)) return false;
    if (found++) c[found - 2].next = one;
  }
  c->sums = found;
  return found > 1;
}
