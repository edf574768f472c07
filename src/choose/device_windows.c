/* SPDX-License-Identifier: MIT
 * A sum of products on a GPU that is a product of matrices once loops are fused: several loops are its rows or its
 * columns, or several ranges its terms, as in a convolution,
 *
 *   y[n,h,v,o] = sum(a, b, c, x[n, h + a, v + b, c] * w[o,a,b,c])        rows n h v, columns o, terms a b c
 *
 * Loops that only one of the factors moves with are its rows, or its columns if the store is contiguous along one of
 * them; loops that both move with stand around. The words fuse each group, and the rest is as for any product, but that
 * the copies of blocks are `of` iterations of rows and of terms: what the read is there, with its gate, and so zeros
 * beyond a border. The range of the sum along which operands are contiguous becomes the last one, so that 16 bytes are
 * copied at once where they lie side by side. */
#include "choose/device_product.h"
#include "ranges/ranges.h"

enum {
  MOST_GATHERED = 192,   /* terms that a thread copies one by one: they are written out */
  FEWEST_BYTES = 4,      /* of a copy, else it is of single elements */
  UNGATED = 2,           /* operations of such a copy, whose place is known: a load, and a store or what packs it */
  GATED = 4,             /* and two comparisons */
  TYPICAL = 4096,        /* what an extent that is open until the call counts as, at most */
  OPEN = 65537           /* and what as a factor of strides: a prime, so that nothing divides it */
};

typedef struct { uint32_t n; const tg_uop *range[NEST_MAX]; } group;

typedef struct {
  tg_device_product product;
  const tg_uop *load[2];           /* factors: that of the rows, that of the columns */
  group around, own[2], terms;
} windows;

/* The extent, as it counts; 0: no bounds of it are known. */
static int64_t extent_of(tg_job *j, const tg_uop *range) {
  const tg_uop *e = tg_extent(range);
  if (e->op == TG_OP_CONST) return e->arg > 0 && e->arg < INT32_MAX ? e->arg : 0;
  tg_i128 hi = tg_bounds_of(j, e).hi;
  return hi <= 0 || hi >= INT32_MAX || tg_loads_below(j, e) ? 0 : hi < TYPICAL ? (int64_t)hi : TYPICAL;
}

static int64_t size_of(tg_job *j, const group *g) {
  int64_t n = 1;
  for (uint32_t i = 0; i < g->n && n < INT32_MAX; i++) n *= extent_of(j, g->range[i]);
  return n;
}

/* What is known of an open extent: powers of two that divide it. */
static int64_t factor_of(tg_job *j, const tg_uop *extent) {
  int64_t known = TG_UNIT;
  if (extent->op == TG_OP_CONST) return extent->arg;
  while (known > 1 && !tg_divides(j, known, extent)) known /= 2;
  return known * OPEN;
}

static bool find_factors(windows *c) {
  tg_job *j = c->product.n->j;
  const tg_uop *product = tg_device_product_of(c->product.reduce);
  for (int f = 0; f < 2; f++) {
    const tg_uop *u = product->src[f];
    while (u->op == TG_OP_CAST && u->type == c->product.reduce->type) u = u->src[0];
    if (u->op != TG_OP_LOAD || tg_buffer_info(j, u->src[0])->role != TG_ROLE_IN) return false;
    c->load[f] = u;
  }
  return c->load[0]->src[0] != c->load[1]->src[0];
}

/* Loops by the factors that move with them; columns are those along one of which the store is contiguous. */
static bool find_loops(windows *c, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = c->product.n->j;
  int columns = -1;
  for (uint32_t d = 0; d < depth; d++) {
    const tg_uop *r = chain[d]->src[0];
    bool moves[2] = {tg_uses(j, c->load[0], r), tg_uses(j, c->load[1], r)};
    bool single = tg_extent(r)->op == TG_OP_CONST && tg_extent(r)->arg == 1;
    if (tg_range_kind(r) != TG_LOOP || !extent_of(j, r) || (!moves[0] && !moves[1] && !single)) return false;
    group *g = moves[0] == moves[1] ? &c->around : &c->own[moves[1]];
    g->range[g->n++] = r;
    if (g != &c->around && tg_access_motion(j, c->product.store, r) == TG_CONTIGUOUS) columns = moves[1];
  }
  if (columns == 0) {
    const group rows = c->own[1];
    const tg_uop *load = c->load[1];
    c->own[1] = c->own[0], c->own[0] = rows;
    c->load[1] = c->load[0], c->load[0] = load;
  }
  return columns >= 0 && c->own[0].n && c->own[1].n;
}

static bool find_terms(windows *c) {
  const tg_uop *reduce = c->product.reduce;
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++) {
    const tg_uop *r = tg_reduce_ranges(reduce)[i];
    if (tg_range_kind(r) != TG_REDUCE || !extent_of(c->product.n->j, r) || c->terms.n == NEST_MAX) return false;
    c->terms.range[c->terms.n++] = r;
  }
  return true;
}

/* Where the load's element lies, in elements from the buffer's begin, as far as is known what divides them; false: that
 * is not known. */
static bool place_of(tg_job *j, const tg_uop *load, tg_linear *place) {
  const tg_uop *define = tg_define_of(load->src[0]);
  uint32_t rank = tg_access_rank(load);
  bool strided = define->arg >> 32 & TG_STRIDED;
  int64_t stride = 1;
  *place = (tg_linear){0};
  for (uint32_t d = rank; d-- > 0;) {
    tg_linear all = *place, subscript;
    int64_t apart = strided ? factor_of(j, define->src[rank + d]) : stride, extent = factor_of(j, define->src[d]);
    tg_linear_of(j, load->src[1 + d], &subscript);
    if (!tg_linear_add(j, &all, &subscript, apart, place)) return false;
    if (d && !strided && __builtin_mul_overflow(stride, extent, &stride)) return false;
  }
  return true;
}

/* How many neighbours along the group, fused, lie side by side at a multiple of as many, behind one gate: at most
 * `most`. 0: neighbours do not lie side by side. Those of the last range alone: beyond it subscripts are quotients. */
static uint32_t vector_along(tg_job *j, const tg_uop *load, const group *g, uint32_t most) {
  const tg_uop *last = g->range[g->n - 1];
  tg_linear place;
  if (!place_of(j, load, &place) || tg_linear_coefficient(&place, last) != 1) return 0;
  if (tg_gate(load) && tg_uses(j, tg_gate(load), last)) return 1;
  while (most > 1 && (!tg_divides(j, most, tg_extent(last)) || place.constant % most)) most /= 2;
  for (uint32_t i = 0; i < place.n; i++) {
    if (place.atom[i] == last) continue;
    if (tg_uses(j, place.atom[i], last)) return 0;
    while (most > 1 && place.coefficient[i] % most) most /= 2;
  }
  return most;
}

/* Operations of the read: those of its subscripts and of its gate. */
static uint32_t operations_of(tg_job *j, const tg_uop *load) {
  uint32_t count, all = 1;
  const tg_uop **order = tg_toposort(j, load, &count);
  for (uint32_t i = 0; i < count; i++)
    all += order[i]->op != TG_OP_CONST && order[i]->op != TG_OP_RANGE && order[i]->op != TG_OP_DEFINE;
  return all;
}

static void see_operand(windows *c, int f, uint32_t most) {
  tg_device_operand *o = f ? &c->product.b : &c->product.a;
  tg_job *j = c->product.n->j;
  uint32_t terms = vector_along(j, c->load[f], &c->terms, most), own = vector_along(j, c->load[f], &c->own[f], most);
  const char *name = tg_buffer_info(j, c->load[f]->src[0])->name;
  *o = (tg_device_operand){.load = c->load[f], .loop = c->own[f].range[0], .own = 0, .term = 1,
                           .along_terms = terms > own, .iterations = true,
                           .name = name, .copy = tg_device_new_name(j, tg_format(&j->env, "%s.tile", name))};
  o->vector = terms > own ? terms : own > 1 ? own : 1;
  o->operations = operations_of(j, c->load[f]);
}

/* The range of the sum that stands last: that with the widest copies, and of these the longest, so that fewest blocks
 * of terms begin within others' iterations. */
static void choose_last(windows *c, uint32_t most) {
  uint32_t best = c->terms.n - 1, widest = 0;
  int64_t longest = 0;
  const group written = c->terms;
  for (uint32_t last = c->terms.n; last-- > 0;) {
    c->terms = written;
    for (uint32_t i = last; i + 1 < c->terms.n; i++) c->terms.range[i] = written.range[i + 1];
    c->terms.range[c->terms.n - 1] = written.range[last];
    see_operand(c, 0, most), see_operand(c, 1, most);
    uint32_t width = c->product.a.vector + c->product.b.vector;
    int64_t extent = extent_of(c->product.n->j, written.range[last]);
    if (width > widest || (width == widest && extent > longest)) widest = width, longest = extent, best = last;
  }
  c->terms = written;
  for (uint32_t i = best; i + 1 < c->terms.n; i++) c->terms.range[i] = written.range[i + 1];
  c->terms.range[c->terms.n - 1] = written.range[best];
  see_operand(c, 0, most), see_operand(c, 1, most);
}

/* Coefficients of the terms, if the load's place is a sum of multiples of them, wherever the row lies, and its gate
 * does not move with them; false: it is none. */
static bool steps_of(const windows *c, const tg_uop *load, int64_t *step, tg_linear *place) {
  tg_job *j = c->product.n->j;
  if (!place_of(j, load, place)) return false;
  for (uint32_t i = 0; i < c->terms.n; i++) {
    const tg_uop *r = c->terms.range[i];
    step[i] = tg_linear_coefficient(place, r);
    if (tg_extent(r)->op != TG_OP_CONST) return false;
    if (tg_gate(load) && tg_uses(j, tg_gate(load), r)) return false;
    for (uint32_t k = 0; k < place->n; k++)
      if (place->atom[k] != r && tg_uses(j, place->atom[k], r)) return false;
  }
  return true;
}

/* Puts the terms into the order in which they lie side by side in the factor's rows; false: in no order do they.
 * vector: of them, at most `most` and as far as rows begin at multiples of it. */
static bool order_terms(windows *c, int f, uint32_t most, uint32_t *vector) {
  int64_t step[NEST_MAX], next = 1;
  const group written = c->terms;
  tg_linear place;
  if (!steps_of(c, c->load[f], step, &place)) return false;
  for (uint32_t at = c->terms.n; at-- > 0;) {
    uint32_t i = 0;
    while (i < written.n && (step[i] != next || tg_extent(written.range[i])->arg == 1)) i++;
    if (i == written.n) {
      c->terms = written;
      return false;
    }
    c->terms.range[at] = written.range[i];
    next *= tg_extent(written.range[i])->arg;
  }
  for (*vector = most; *vector > 1; *vector /= 2) {
    bool whole = next % *vector == 0 && place.constant % *vector == 0;
    for (uint32_t k = 0; k < place.n && whole; k++) {
      bool term = false;
      for (uint32_t i = 0; i < c->terms.n; i++) term |= place.atom[k] == c->terms.range[i];
      whole = term || place.coefficient[k] % *vector == 0;
    }
    if (whole) break;
  }
  return true;
}

/* Few terms that lie side by side in no way, as of three channels: all of them are one block, in the order in which one
 * of the factors has them, and the others' elements are gathered. */
static void gather(windows *c, uint32_t most) {
  tg_device_operand *o[2] = {&c->product.a, &c->product.b};
  uint32_t vector[2] = {0};
  int ordered = order_terms(c, 0, most, &vector[0]) ? 0 : order_terms(c, 1, most, &vector[1]) ? 1 : -1;
  c->product.whole = true;
  for (int f = 0; f < 2; f++) {
    o[f]->along_terms = true;
    o[f]->gathered = f != ordered;
    o[f]->vector = f == ordered ? vector[f] : 1;
    o[f]->operations = tg_gate(c->load[f]) ? GATED : UNGATED;
  }
}

/* The instruction for the factors' types; false: there is none, and these are not multiplied as they are. */
static bool find_instruction(windows *c) {
  tg_device_product *p = &c->product;
  uint32_t most = 0;
  const tg_matrix_row *best = NULL;
  for (uint32_t i = 0; tg_matrix_at(i); i++) {
    const tg_matrix_row *r = tg_matrix_at(i);
    uint32_t size = r->m * r->n * r->k;
    if (size <= most || r->a_type != c->load[0]->type || r->b_type != c->load[1]->type) continue;
    if (tg_device_product_fits(p, r)) best = r, most = size;
  }
  p->row = best;
  return best || (c->load[0]->type == p->reduce->type && c->load[1]->type == p->reduce->type);
}

static bool sizes(windows *c) {
  tg_device_product *p = &c->product;
  p->around = (double)size_of(p->n->j, &c->around);
  p->fused[0] = size_of(p->n->j, &c->own[0]), p->fused[1] = size_of(p->n->j, &c->own[1]);
  p->fused[2] = size_of(p->n->j, &c->terms);
  return p->row ? tg_device_product_tiles(p) : tg_device_product_elements(p);
}

/* All terms in one block, of half of LOCAL memory or of all of it, whichever costs less. */
static bool sizes_of_one_block(windows *c, uint32_t most) {
  windows half = *c;
  gather(&half, most);
  windows all = half;
  all.product.alone = true;
  bool fits = sizes(&half), alone = sizes(&all);
  if (alone && (!fits || all.product.cost < half.product.cost)) *c = all;
  else if (fits) *c = half;
  return fits || alone;
}

static bool constant_terms(const windows *c) {
  bool all = true;
  for (uint32_t i = 0; i < c->terms.n; i++) all &= tg_extent(c->terms.range[i])->op == TG_OP_CONST;
  return all;
}

static bool choose_sizes(windows *c) {
  tg_device_product *p = &c->product;
  if (!find_instruction(c)) return false;
  const uint32_t bytes = (uint32_t)tg_type_bytes(c->load[0]->type), most = TG_UNIT / bytes;
  choose_last(c, most);
  bool single = p->a.vector * bytes < FEWEST_BYTES || p->b.vector * bytes < FEWEST_BYTES;
  if (single && !constant_terms(c)) return false;   /* places of single elements, by quotients: too many registers */
  return (p->row && single && size_of(p->n->j, &c->terms) <= MOST_GATHERED && sizes_of_one_block(c, most)) || sizes(c);
}

/* Is it worth it to fuse? Several ranges of the sum have no other way; rows or columns of one loop that fill their
 * tiles need none. */
static bool pays(const windows *c) {
  bool fills = true;
  for (int f = 0; f < 2; f++) {
    const tg_device_product *p = &c->product;
    int64_t one = f ? p->warp_columns : p->warp_rows, threads = f ? p->warps_across : p->warps_down,
            tile = one * (p->row ? threads : TG_SIDE);
    const group *g = &c->own[f];
    fills &= g->n == 1 || tg_divides(p->n->j, tile, tg_extent(g->range[g->n - 1]));
  }
  return c->terms.n > 1 || !fills;
}

/* One range of the group, as x counts its kinds. */
static void fuse(windows *c, tg_words *w, const group *g, int x) {
  tg_nest *n = c->product.n;
  const char *name = tg_device_name(n, g->range[0]), *base = tg_nest_base(n, name);
  for (uint32_t i = 1; i < g->n; i++) {
    const char *both = tg_format(w->env, "%s.f%u", base, i);
    tg_say(w, "fuse %s %s as %s", name, tg_device_name(n, g->range[i]), both);
    name = both;
  }
  c->product.name[x] = name, c->product.base[x] = base;
}

static void say_in_order(windows *c, tg_words *w, uint32_t groups, const group *const *g) {
  tg_str order = tg_str_new(w->env);
  uint32_t ranges = 0;
  for (uint32_t i = 0; i < groups; i++)
    for (uint32_t k = 0; k < g[i]->n; k++, ranges++)
      tg_str_printf(&order, " %s", tg_device_name(c->product.n, g[i]->range[k]));
  if (ranges > 1) tg_say(w, "order%s", order.data);
}

bool tg_device_windows(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  windows c = {.product.n = n};
  tg_words w = {.env = &n->j->env};
  if (n->versioned || !n->l->target->core_registers || !tg_device_product_sum(&c.product, depth, chain)) return false;
  if (!find_factors(&c) || !find_loops(&c, depth, chain) || !find_terms(&c) || !choose_sizes(&c) || !pays(&c))
    return false;
  const group *const loops[] = {&c.around, &c.own[0], &c.own[1]}, *const terms = &c.terms;
  say_in_order(&c, &w, TG_COUNT(loops), loops);
  say_in_order(&c, &w, 1, &terms);
  fuse(&c, &w, &c.own[0], 0);
  fuse(&c, &w, &c.own[1], 1);
  fuse(&c, &w, &c.terms, 2);
  for (uint32_t i = 0; i < c.around.n; i++)
    c.product.outer[c.product.outers++] = tg_device_name(n, c.around.range[i]);
  tg_device_product_words(&c.product, &w);
  return tg_device_try(n, &w);
}
