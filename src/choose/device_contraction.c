/* SPDX-License-Identifier: MIT
 * The schedule of a contraction on a GPU: a sum of products of which one operand moves with rows of the output and the
 * other with its columns; by a matrix instruction that takes their types, or else by multiplications and additions.
 *
 *   a workgroup's tile of the output = warps x a warp's tile, in registers, as accumulators of the instruction;
 *     or else 16 x 16 threads x 4 x 4 or 8 x 8 elements
 *   the sum in blocks of terms: each block of both operands is copied to LOCAL memory, in a ring of several blocks
 *   while an earlier one is multiplied
 *
 * The copies are swizzled: 16 bytes are one unit, and units that lie in the same banks of LOCAL memory in lines one
 * below the other change places, so that eight lines' units, which ldmatrix reads at once, are in different banks.
 * Sizes are chosen by what the target's row says: registers, LOCAL memory, and how fast a core multiplies, reads LOCAL
 * memory and is given data from outside. The words are applied together: if one is refused, none stays. */
#include "choose/device.h"
#include "ranges/ranges.h"
#include "target/matrix.h"

enum { UNIT = 16 /* bytes of the widest copy */, LINE = 128 /* bytes of one wavefront of LOCAL memory */ };

/* One operand: its load, the loop that it moves with, and how it lies in memory. */
typedef struct {
  const tg_uop *load, *loop;
  uint32_t own, term;              /* dimensions */
  bool along_terms;                /* contiguous along the sum; else along its own loop */
  const char *name, *copy;
  uint32_t vector;                 /* elements that one copy moves */
} operand;

typedef struct {
  tg_nest *n;
  const tg_matrix_row *row;
  const tg_uop *store, *reduce, *sum;
  operand a, b;                    /* rows, columns */
  uint32_t warp_rows, warp_columns, warps_down, warps_across, terms, stages;
} contraction;

static int64_t extent_of(const tg_uop *range) {
  return tg_extent(range)->op == TG_OP_CONST ? tg_extent(range)->arg : -1;
}

static int64_t blocks(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

/* ---- is it one? ---- */

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
static uint32_t vector_of(tg_job *j, const operand *o, tg_type type) {
  const tg_uop *define = tg_define_of(o->load->src[0]);
  uint32_t most = UNIT / (uint32_t)tg_type_bytes(type), rank = tg_access_rank(o->load);
  uint32_t last = o->along_terms ? o->term : o->own;
  if (last != rank - 1 || define->arg >> 32 & TG_STRIDED) return 1;
  while (most > 1 && !tg_divides(j, most, define->src[last])) most /= 2;
  tg_linear t;   /* and where the tiles begin */
  tg_linear_of(j, o->load->src[1 + last], &t);
  while (most > 1 && t.constant % most) most /= 2;
  return most;
}

static bool find_operand(contraction *c, const tg_uop *factor, tg_type type, const tg_uop *loop, operand *o) {
  tg_job *j = c->n->j;
  while (factor->op == TG_OP_CAST && factor->type == c->reduce->type) factor = factor->src[0];
  if (factor->op != TG_OP_LOAD || factor->type != type || tg_gate(factor) || !tg_uses(j, factor, loop)) return false;
  *o = (operand){.load = factor, .loop = loop, .name = tg_buffer_info(j, factor->src[0])->name};
  if (tg_buffer_info(j, factor->src[0])->role != TG_ROLE_IN || !find_dimension(j, factor, loop, &o->own) ||
      !find_dimension(j, factor, c->sum, &o->term) || o->own == o->term)
    return false;
  o->along_terms = tg_access_motion(j, factor, c->sum) == TG_CONTIGUOUS;
  if (!o->along_terms && tg_access_motion(j, factor, loop) != TG_CONTIGUOUS) return false;
  o->copy = tg_format(&j->env, "%s.tile", o->name);
  o->vector = vector_of(j, o, type);
  return true;
}

static bool find_operands(contraction *c, const tg_uop *rows, const tg_uop *columns) {
  tg_job *j = c->n->j;
  const tg_uop *product = c->reduce->src[0];
  tg_type a = c->row ? c->row->a_type : product->type, b = c->row ? c->row->b_type : product->type;
  for (int turned = 0; turned < 2; turned++)
    if (find_operand(c, product->src[turned], a, rows, &c->a) &&
        find_operand(c, product->src[!turned], b, columns, &c->b))
      return c->a.load->src[0] != c->b.load->src[0] && !tg_uses(j, c->a.load, columns) && !tg_uses(j, c->b.load, rows);
  return false;
}

/* Products that the instruction rounds as the language does: it must widen its operands. */
static bool fits(const contraction *c, const tg_matrix_row *r) {
  const tg_uop *product = c->reduce->src[0];
  return r->m > 1 && r->c_type == c->reduce->type && tg_type_bits(r->a_type) < tg_type_bits(r->c_type) &&
         r->form != TG_MATRIX_TILE && product->type == r->c_type && tg_matrix_on(r, c->n->l->target);
}

/* The instruction that multiplies most at once. */
static bool find_instruction(contraction *c, const tg_uop *rows, const tg_uop *columns) {
  contraction best = {.row = NULL};
  for (uint32_t i = 0; tg_matrix_at(i); i++) {
    c->row = tg_matrix_at(i);
    if (!fits(c, c->row) || !find_operands(c, rows, columns)) continue;
    uint32_t size = c->row->m * c->row->n * c->row->k;
    if (!best.row || size > (uint32_t)best.row->m * best.row->n * best.row->k) best = *c;
  }
  if (best.row) *c = best;
  else c->row = NULL;
  return best.row != NULL;
}

static bool find_product(contraction *c, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = c->n->j;
  const tg_uop *inner = chain[depth - 1], *columns = NULL, *value;
  uint32_t found = 0, count;
  if (depth < 2 || inner->n != 2 || inner->src[1]->op != TG_OP_STORE || tg_gate(inner->src[1])) return false;
  c->store = inner->src[1];
  const tg_uop **order = tg_toposort(j, c->store, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_REDUCE) c->reduce = order[i], found++;
  if (found != 1) return false;
  tg_reduce_arg a = tg_reduce_info(c->reduce);
  value = c->reduce->src[0];
  if (a.generic || a.in_order || a.op != TG_OP_ADD || a.ranges != 1 || value->op != TG_OP_MUL) return false;
  c->sum = tg_reduce_ranges(c->reduce)[0];
  if (tg_range_kind(c->sum) != TG_REDUCE && tg_range_kind(c->sum) != TG_LOOP) return false;
  for (uint32_t k = 0; k < depth; k++)
    if (tg_range_kind(chain[k]->src[0]) != TG_LOOP || tg_loads_below(j, tg_extent(chain[k]->src[0]))) return false;
  for (uint32_t k = depth; k-- > 0 && !columns;)
    if (tg_access_motion(j, c->store, chain[k]->src[0]) == TG_CONTIGUOUS) columns = chain[k]->src[0];
  for (uint32_t k = depth; k-- > 0 && columns;)
    if (chain[k]->src[0] != columns && (find_instruction(c, chain[k]->src[0], columns) ||
                                        find_operands(c, chain[k]->src[0], columns)))
      return true;
  return false;
}

/* ---- sizes ---- */

/* Cycles of a core for one block of terms of a group's tile, where nothing else holds it up. */
static double block_cycles(const contraction *c) {
  const tg_target *t = c->n->l->target;
  double bytes = (double)tg_type_bytes(c->row->a_type), warps = c->warps_down * c->warps_across;
  double rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across, terms = c->terms;
  double macs = rows * columns * terms / t->matrix_macs;
  double fragments = warps * (c->warp_rows + c->warp_columns) * terms * bytes;
  double copies = (rows + columns) * terms * bytes;
  double local = (fragments + copies) / LINE, outside = copies / t->core_bytes;
  double most = macs > local ? macs : local;
  most = most > outside ? most : outside;
  return most + (macs + local + outside) / 16;   /* what overlaps is felt too: at the ends, and where both meet */
}

/* For all groups, as many at a time as there are cores: the last wave may leave cores idle. */
static double cost_of(const contraction *c) {
  const tg_target *t = c->n->l->target;
  int64_t m = extent_of(c->a.loop), n = extent_of(c->b.loop);
  int64_t down = c->warp_rows * c->warps_down, across = c->warp_columns * c->warps_across;
  double groups = (double)blocks(m < 0 ? 4096 : m, down) * (double)blocks(n < 0 ? 4096 : n, across);
  double waves = groups < t->threads ? 1 : groups / t->threads;
  if (waves < 8) waves = (double)(int64_t)(waves + 0.999);
  return waves * block_cycles(c);
}

/* Half of a core's registers and half of its LOCAL memory, so that a second group computes while one waits at its
 * barrier. */
static bool has_room(contraction *c) {
  const tg_target *t = c->n->l->target;
  uint32_t bytes = (uint32_t)tg_type_bytes(c->row->a_type), warps = c->warps_down * c->warps_across;
  uint32_t rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across;
  uint32_t sums = c->warp_rows * c->warp_columns / t->lanes,
           fragments = (c->warp_rows + c->warp_columns) * c->row->k * bytes / 4 / t->lanes;
  uint32_t registers = sums + fragments + (t->vector_registers + 1) / 4;   /* addresses, and loads under way */
  uint64_t stage = (uint64_t)(rows + columns) * c->terms * bytes;
  if (registers > t->vector_registers || registers * warps * t->lanes > t->core_registers / 2) return false;
  if (warps * t->lanes > t->max_threads) return false;
  for (c->stages = 4; c->stages > 2 && c->stages * stage > t->local_bytes / 2; c->stages--) {}
  return c->stages * stage <= t->local_bytes / 2;
}

static bool choose_sizes(contraction *c) {
  const uint32_t m = c->row->m, n = c->row->n, bytes = (uint32_t)tg_type_bytes(c->row->a_type);
  contraction best;
  double least = 0;
  c->terms = 64 / bytes;   /* two sectors of memory, and four units of LOCAL memory */
  if (c->terms < 2u * c->row->k && bytes > 1) c->terms = 2u * c->row->k;
  for (c->warp_rows = 2 * m; c->warp_rows <= 128; c->warp_rows *= 2)
    for (c->warp_columns = 2 * n; c->warp_columns <= 128; c->warp_columns *= 2)
      for (c->warps_down = 1; c->warps_down <= 4; c->warps_down *= 2)
        for (c->warps_across = 1; c->warps_across <= 4; c->warps_across *= 2) {
          if (c->warps_down * c->warps_across < 4 || !has_room(c)) continue;
          double cost = cost_of(c);
          if (least > 0 && cost >= least * 0.999) continue;
          least = cost;
          best = *c;
        }
  if (least > 0) *c = best;
  return least > 0;
}

/* ---- words ---- */

static void TG_PRINTF(2, 3) say(tg_words *w, const char *format, ...) {
  va_list ap;
  tg_str t = tg_str_new(w->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  tg_push(w->env, w, t.data);
}

/* As padded_copy, of an operand that is contiguous along its own loop: loads of 16 bytes, whose elements are stored to
 * a row each. */
static void padded_across(const contraction *c, tg_words *w, const operand *o, uint32_t own, const char *at) {
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = o->copy;
  uint32_t unit = UNIT / (uint32_t)tg_type_bytes(c->row->a_type), vector = o->vector < unit ? o->vector : unit;
  uint32_t across = own / vector, threads = c->warps_down * c->warps_across * c->n->l->target->lanes / across;
  say(w, "stage %s at %s as %s[d%u, d%u] pitch=%u%s", o->name, at, b, o->own, o->term, c->terms + unit, depth);
  say(w, "split %s.0 %u as %s.q %s.v", b, vector, b, b);
  if (vector > 1) say(w, "upcast %s.v", b);
  say(w, "local %s.q", b);
  if (threads < 1) threads = 1;
  if (c->terms <= threads) {
    say(w, "local %s.1", b);
    return;
  }
  say(w, "split %s.1 %u as %s.o %s.i", b, threads, b, b);
  if (threads > 1) say(w, "local %s.i", b);
  say(w, "upcast %s.o", b);
}

/* Where lanes load their own elements, 16 bytes at a time along the terms: rows a unit longer than they are, so that
 * those of a few lanes begin in different banks. */
static void padded_copy(const contraction *c, tg_words *w, const operand *o, uint32_t own, const char *at) {
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = o->copy;
  uint32_t unit = UNIT / (uint32_t)tg_type_bytes(c->row->a_type), vector = o->vector < unit ? o->vector : unit;
  uint32_t all = c->warps_down * c->warps_across * c->n->l->target->lanes;
  if (!o->along_terms) {
    padded_across(c, w, o, own, at);
    return;
  }
  uint32_t along = c->terms / vector, threads = all / along;
  say(w, "stage %s at %s as %s[d%u, d%u] pitch=%u%s", o->name, at, b, o->own, o->term, c->terms + unit, depth);
  say(w, "split %s.1 %u as %s.q %s.v", b, vector, b, b);
  if (vector > 1) say(w, "upcast %s.v", b);
  say(w, "local %s.q", b);
  if (own <= threads) {
    say(w, "local %s.0", b);
    return;
  }
  say(w, "split %s.0 %u as %s.o %s.i", b, threads, b, b);
  say(w, "local %s.i", b);
  say(w, "upcast %s.o", b);
}

/* The copy of an operand: lines of whole units, swizzled, filled by all threads. */
static void copy(const contraction *c, tg_words *w, const operand *o, uint32_t own, uint32_t warp, const char *at) {
  if (!c->n->l->target->loads_matrices) {
    padded_copy(c, w, o, own, at);
    return;
  }
  uint32_t bytes = (uint32_t)tg_type_bytes(c->row->a_type), unit = UNIT / bytes, last, lines;
  uint32_t width = o->along_terms ? c->terms : warp * bytes < LINE ? warp : LINE / bytes, units = width / unit;
  uint32_t along = o->along_terms ? o->term : o->own, across = o->along_terms ? o->own : o->term;
  tg_str layout = tg_str_new(w->env);
  if (!o->along_terms && own > width) tg_str_printf(&layout, "d%u/%u, ", along, width);
  last = (!o->along_terms && own > width) + 2u;
  tg_str_printf(&layout, "d%u, d%u/%u", across, along, unit);
  if (!o->along_terms && own > width) tg_str_printf(&layout, "%%%u", units);
  if (units > 1) {
    uint32_t by = units >= LINE / UNIT ? 1 : LINE / UNIT / units;   /* lines of the copy in one of LOCAL memory */
    tg_str_printf(&layout, " ^ d%u", across);
    if (by > 1) tg_str_printf(&layout, "/%u", by);
    tg_str_printf(&layout, "%%%u", units < LINE / UNIT ? units : LINE / UNIT);
  }
  tg_str_printf(&layout, ", d%u%%%u", along, unit);
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "";
  say(w, "stage %s at %s as %s[%s]%s", o->name, at, o->copy, layout.data, depth);
  uint32_t threads = c->warps_down * c->warps_across * c->n->l->target->lanes / units;
  if (o->vector == unit) say(w, "upcast %s.%u", o->copy, last);
  else {
    say(w, "split %s.%u %u as %s.q %s.v", o->copy, last, o->vector, o->copy, o->copy);
    if (o->vector > 1) say(w, "upcast %s.v", o->copy);
    say(w, "local %s.q", o->copy);
    threads /= unit / o->vector;
  }
  if (units > 1) say(w, "local %s.%u", o->copy, last - 1);
  lines = o->along_terms ? own : c->terms;
  if (threads < 1) threads = 1;
  if (lines <= threads) say(w, "local %s.%u", o->copy, last - 2);
  else {
    say(w, "split %s.%u %u as %s.o %s.i", o->copy, last - 2, threads, o->copy, o->copy);
    if (threads > 1) say(w, "local %s.i", o->copy);
    say(w, "upcast %s.o", o->copy);
  }
  if (last == 3) say(w, "upcast %s.0", o->copy);
}

/* Blocks of terms around the tile, whose sums wait in registers. */
static void say_order(const contraction *c, tg_words *w, uint32_t depth, const tg_uop *const *chain, const char *ib,
                      const char *jb, const char *kb) {
  tg_str order = tg_str_new(w->env);
  for (uint32_t d = 0; d < depth; d++)
    if (chain[d]->src[0] != c->a.loop && chain[d]->src[0] != c->b.loop)
      tg_str_printf(&order, " %s", tg_axis_name(&c->n->s, chain[d]->src[0]));
  const char *output = tg_buffer_info(c->n->j, c->store->src[0])->name;
  say(w, "order%s %s.b %s.b %s.b %s.t %s.t in %s.sum", order.n ? order.data : "", ib, jb, kb, ib, jb, output);
}

static void say_grid(const contraction *c, tg_words *w, uint32_t depth, const tg_uop *const *chain, const char *ib,
                     const char *jb) {
  say(w, "global %s.b", ib);
  say(w, "global %s.b", jb);
  for (uint32_t d = depth; d-- > 0;)
    if (chain[d]->src[0] != c->a.loop && chain[d]->src[0] != c->b.loop)
      say(w, "global %s", tg_axis_name(&c->n->s, chain[d]->src[0]));
}

static void write_words(const contraction *c, tg_words *w, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = c->n;
  const char *i = tg_axis_name(&n->s, c->a.loop), *j = tg_axis_name(&n->s, c->b.loop), *k = tg_axis_name(&n->s, c->sum);
  const char *ib = tg_nest_base(n, i), *jb = tg_nest_base(n, j), *kb = tg_nest_base(n, k);
  uint32_t rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across;
  say(w, "split %s %u as %s.b %s.t", i, rows, ib, ib);
  say(w, "split %s %u as %s.b %s.t", j, columns, jb, jb);
  say(w, "split %s %u as %s.b %s.t", k, c->terms, kb, kb);
  say_order(c, w, depth, chain, ib, jb, kb);
  copy(c, w, &c->a, rows, c->warp_rows, tg_format(w->env, "%s.b", kb));
  copy(c, w, &c->b, columns, c->warp_columns, tg_format(w->env, "%s.b", kb));
  say(w, "split %s.t %u as %s.w %s.u", ib, c->warp_rows, ib, ib);
  say(w, "split %s.t %u as %s.w %s.u", jb, c->warp_columns, jb, jb);
  say(w, "order %s.w %s.w %s.u %s.u", ib, jb, ib, jb);
  if (c->warps_down > 1) say(w, "local %s.w", ib);
  if (c->warps_across > 1) say(w, "local %s.w", jb);
  if (c->terms > c->row->k) {
    say(w, "split %s.t %u as %s.s %s.m", kb, c->row->k, kb, kb);
    say(w, "unroll %s.s", kb);
  }
  say(w, "contract %s i=%s.u j=%s.u k=%s.%s", c->row->name, ib, jb, kb, c->terms > c->row->k ? "m" : "t");
  say_grid(c, w, depth, chain, ib, jb);
}

/* ---- by multiplications and additions ---- */

enum { SIDE = 16 /* threads along rows and along columns */, UNROLLED = 8 /* terms */ };

/* Elements of a thread along rows and along columns: 8, or 4 where tiles of 8 leave cores without work. */
static bool choose_elements(contraction *c) {
  const tg_target *t = c->n->l->target;
  uint32_t bytes = (uint32_t)tg_type_bytes(c->reduce->type);
  int64_t m = extent_of(c->a.loop), n = extent_of(c->b.loop);
  double least = 0, best = 0;
  for (uint32_t e = 8; e >= 4; e /= 2) {
    uint32_t registers = (e * e + 4 * e) * bytes / 4 + 32;   /* sums, two terms of each operand, addresses */
    if (registers * SIDE * SIDE > t->core_registers / 2) continue;
    double groups = (double)blocks(m < 0 ? 4096 : m, SIDE * e) * (double)blocks(n < 0 ? 4096 : n, SIDE * e);
    double waves = groups < t->threads ? 1 : groups / t->threads, cost = waves * e * (e + 2);
    if (best > 0 && cost >= least) continue;
    least = cost;
    best = e;
  }
  c->warp_rows = c->warp_columns = (uint32_t)best;   /* of a thread, here */
  c->terms = 32;
  c->stages = t->async_copy ? 2 : 1;
  return best > 0 && SIDE * SIDE <= t->max_threads && SIDE * SIDE % t->lanes == 0 &&
         2 * (uint64_t)(2 * SIDE * best + 4) * c->terms * bytes * c->stages <= t->local_bytes;
}

/* Rows of terms, each along the operand's own loop, so that a thread reads four neighbours at once. */
static void copy_of_terms(const contraction *c, tg_words *w, const operand *o, uint32_t own, const char *at) {
  uint32_t vector = o->along_terms ? 1 : o->vector < 4 ? o->vector : 4;
  uint32_t first = o->along_terms ? c->terms : own / vector;
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = o->copy;
  say(w, "stage %s at %s as %s[d%u, d%u] pitch=%u%s", o->name, at, b, o->term, o->own, own + 4, depth);
  if (first > SIDE * SIDE) first = SIDE * SIDE;
  uint32_t second = SIDE * SIDE / first;
  if (o->along_terms) {   /* threads along the terms, which are neighbours in memory, and then along rows */
    say(w, "local %s.0", b);
    say(w, "split %s.1 %u as %s.o %s.i", b, second, b, b);
    say(w, "order %s.o %s.i %s.0", b, b, b);
    if (second > 1) say(w, "local %s.i", b);
    say(w, "upcast %s.o", b);
    return;
  }
  const char *along = tg_format(w->env, "%s.1", b);
  if (vector > 1) {
    say(w, "split %s %u as %s.p %s.v", along, vector, b, b);
    say(w, "upcast %s.v", b);
    along = tg_format(w->env, "%s.p", b);
  }
  say(w, "local %s", along);
  if (second >= c->terms) {
    say(w, "local %s.0", b);
    return;
  }
  say(w, "split %s.0 %u as %s.o %s.i", b, second, b, b);
  if (second > 1) say(w, "local %s.i", b);
  say(w, "upcast %s.o", b);
}

/* Element o * 64 + thread * 4 + v of the tile: four neighbours of each 64. */
static void thread_elements(tg_words *w, const char *b, uint32_t elements) {
  const char *name = tg_format(w->env, "%s.t", b);
  if (elements > 4) {
    say(w, "split %s %u as %s.o %s.u", name, SIDE * 4, b, b);
    name = tg_format(w->env, "%s.u", b);
    say(w, "upcast %s.o", b);
  }
  say(w, "split %s 4 as %s.w %s.v", name, b, b);
  say(w, "upcast %s.v", b);
  say(w, "local %s.w", b);
}

static bool by_threads(contraction *c, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = c->n;
  tg_words w = {.env = &n->j->env};
  if (!choose_elements(c)) return false;
  const char *i = tg_axis_name(&n->s, c->a.loop), *j = tg_axis_name(&n->s, c->b.loop), *k = tg_axis_name(&n->s, c->sum);
  const char *ib = tg_nest_base(n, i), *jb = tg_nest_base(n, j), *kb = tg_nest_base(n, k);
  uint32_t size = SIDE * c->warp_rows;
  say(&w, "split %s %u as %s.b %s.t", i, size, ib, ib);
  say(&w, "split %s %u as %s.b %s.t", j, size, jb, jb);
  say(&w, "split %s %u as %s.b %s.t", k, c->terms, kb, kb);
  say_order(c, &w, depth, chain, ib, jb, kb);
  copy_of_terms(c, &w, &c->a, size, tg_format(w.env, "%s.b", kb));
  copy_of_terms(c, &w, &c->b, size, tg_format(w.env, "%s.b", kb));
  thread_elements(&w, ib, c->warp_rows);
  thread_elements(&w, jb, c->warp_columns);
  say(&w, "split %s.t %u as %s.s %s.m", kb, UNROLLED, kb, kb);
  say(&w, "unroll %s.m", kb);
  say_grid(c, &w, depth, chain, ib, jb);
  return tg_device_try(n, &w);
}

bool tg_device_contraction(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  contraction c = {.n = n};
  tg_words w = {.env = &n->j->env};
  if (!n->l->target->core_registers || !find_product(&c, depth, chain)) return false;
  int64_t terms = extent_of(c.sum);
  const tg_target *t = n->l->target;
  bool readable = t->loads_matrices || (c.a.along_terms && c.b.along_terms);   /* fragments in wide loads */
  if (c.row && t->matrix_macs && readable && choose_sizes(&c) && (terms < 0 || blocks(terms, c.terms) > 1)) {
    if (!t->async_copy) c.stages = 1;
    write_words(&c, &w, depth, chain);
    if (tg_device_try(n, &w)) return true;
  }
  if (c.row || (terms >= 0 && terms < 64) || extent_of(c.a.loop) == 1) return false;
  return by_threads(&c, depth, chain);
}

/* ---- for other products ---- */

bool tg_device_stage(tg_nest *n, tg_words *w, const tg_device_tile *t) {
  tg_job *j = n->j;
  contraction c = {.n = n, .row = t->row, .sum = t->sum, .terms = t->terms, .stages = t->stages,
                   .warps_down = t->warps, .warps_across = 1};
  operand o = {.load = t->load, .loop = t->loop, .name = tg_buffer_info(j, t->load->src[0])->name};
  if (!find_dimension(j, t->load, t->loop, &o.own) || !find_dimension(j, t->load, t->sum, &o.term) || o.own == o.term)
    return false;
  o.along_terms = tg_access_motion(j, t->load, t->sum) == TG_CONTIGUOUS;
  if (!o.along_terms && tg_access_motion(j, t->load, t->loop) != TG_CONTIGUOUS) return false;
  o.copy = tg_format(&j->env, "%s.tile", o.name);
  o.vector = vector_of(j, &o, t->row->b_type);
  copy(&c, w, &o, t->own, t->own, t->at);
  return true;
}
