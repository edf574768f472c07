/* SPDX-License-Identifier: MIT
 * The schedule of a few rows times weights of four bits, by a matrix instruction of f16, on a GPU:
 *
 *   y[m,n] = sum(g, scale[n,g] * sum(k : 32, f32(i32(q[n, g*16 + k/2] >> u8(k%2*4) & 15) - 8) * f32(x[m, g*32 + k])))
 *
 * They are unpacked in the registers of the operand. A word is eight weights, of which pairs that lie 16 bits apart are
 * unpacked at once (src/jit/emit_fields.c). So the terms are taken in another order than they lie in, which the
 * instruction cannot tell, and a sum may:
 *
 *   term 8 w + 4 r + q                   w: the word; r: low or high half of it; q: which of the half's four
 *
 * Where lanes load matrices (NVIDIA), weights are the instruction's rows, so that eight rows of x fill its columns. 32
 * of them are 16 bytes, a row of a matrix load, which hands each of four lanes a word: half of a word's pairs are one
 * instruction's, and x is picked in that order from the pieces that lanes load:
 *
 *   taken as  16 t + 8 f + 2 w + r       q = 2 t + f; t: the instruction; f: its first or second register
 *
 * With more rows of x it is cheaper to bring the bytes of neighbours to both halves of a register, and to take x as it
 * lies:
 *
 *   term 8 w + 4 t + 2 f + r, taken as  16 t + 8 f + 2 w + r
 *
 * Where lanes load their own elements (AMD), weights are its columns, of which a lane has one, and its scale, too. What
 * a lane has of a column are neighbours, as many as are two words, one, or half of one. The copy of x has the terms of
 * each word in the order 2 q + r, so that a lane's are one load:
 *
 *   taken as  8 w + 2 q + r              of two words, or of one
 *   taken as  16 t + 4 w + 2 f + r       of half a word */
#include "choose/device.h"
#include "ranges/ranges.h"
#include "schedule/opt.h"
#include "target/matrix.h"

enum {
  MOST_ROWS = 64,     /* of x that one group takes */
  UNIT = 16,          /* bytes of the widest copy, and of a row of a matrix load */
  PIECE = 2 * UNIT,   /* weights of such a row */
  MOST_TERMS = 256,   /* of a block: 128 bytes of weights, a line of memory */
  GROUPS_A_CORE = 2,
  STAGES = 4
};

typedef struct {
  tg_nest *n;
  const tg_matrix_row *row;
  const tg_uop *store, *outer, *inner;      /* REDUCEs; outer NULL: there is one */
  const tg_uop *weights, *x, *scale;        /* loads; scale NULL: none that is copied */
  const tg_uop *m, *n_, *g, *k;             /* ranges: rows of x, rows of weights, groups, terms of a group */
  int64_t group, block;                     /* terms of a group; groups of a block */
  uint32_t rows, warps, tiles, stages;      /* rows of x of a group; warps, and instructions of one along weights */
  bool columns;                             /* weights are the instruction's columns, else its rows */
  uint32_t own;                             /* neighbours along the terms that a lane has of a column */
} weights;

/* ---- is it that product? ---- */

static bool is_sum(const tg_uop *u) {
  if (u->op != TG_OP_REDUCE || u->type != TG_F32) return false;
  tg_reduce_arg a = tg_reduce_info(u);
  tg_kind kind = tg_range_kind(tg_reduce_ranges(u)[0]);
  return !a.generic && !a.in_order && a.op == TG_OP_ADD && a.ranges == 1 && (kind == TG_REDUCE || kind == TG_LOOP) &&
         tg_iterations(tg_reduce_ranges(u)[0]) > 0;
}

static bool find_sums(weights *c) {
  uint32_t n, found = 0;
  const tg_uop **order = tg_toposort(c->n->j, c->store, &n);   /* operands come first */
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    if (!is_sum(order[i]) || ++found > 2) return false;
    if (found == 1) c->inner = order[i];
    else c->outer = order[i];
  }
  if (!found || (c->outer && !tg_uses(c->n->j, c->outer, c->inner))) return false;
  c->k = tg_reduce_ranges(c->inner)[0];
  c->g = c->outer ? tg_reduce_ranges(c->outer)[0] : NULL;
  return true;
}

/* The coefficient of the atom in the last subscript, which must be all that uses `range` there. */
static int64_t along(tg_job *j, const tg_uop *load, const tg_uop *atom, const tg_uop *range) {
  tg_linear t;
  int64_t by = 0;
  uint32_t rank = tg_access_rank(load);
  for (uint32_t d = 1; d < rank; d++)
    if (tg_uses(j, load->src[d], range)) return 0;
  tg_linear_of(j, load->src[rank], &t);
  for (uint32_t i = 0; i < t.n; i++) {
    if (t.atom[i] == atom) by = t.coefficient[i];
    else if (tg_uses(j, t.atom[i], range)) return 0;
  }
  return by;
}

static bool is_input(const weights *c, const tg_uop *load) {
  const tg_uop *define = tg_define_of(load->src[0]);
  return tg_buffer_info(c->n->j, load->src[0])->role == TG_ROLE_IN && !(define->arg >> 32 & TG_STRIDED) &&
         !tg_gate(load) && tg_access_rank(load) > 1;
}

/* The only load of what the factor is computed of; NULL: there are others. */
static const tg_uop *only_load(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n), *found = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_LOAD) continue;
    if (found) return NULL;
    found = order[i];
  }
  return found;
}

/* Weights of four bits, two in a byte, along the terms; rows of whole 16 bytes. */
static bool are_weights(weights *c, const tg_uop *u) {
  tg_job *j = c->n->j;
  if (u->op != TG_OP_CAST || !tg_is_int(u->src[0]->type) || !(c->weights = only_load(j, u))) return false;
  const tg_uop *load = c->weights, *byte = tg_op2(j, TG_OP_IDIV, c->k, tg_index(j, 2));
  const tg_uop *row = tg_define_of(load->src[0])->src[tg_access_rank(load) - 1];
  tg_bounds b = tg_bounds_of(j, u->src[0]);
  return tg_type_bits(load->type) == 8 && is_input(c, load) && along(j, load, byte, c->k) == 1 &&
         b.lo >= -1024 && b.hi <= 1024 && b.hi - b.lo < 16 && tg_divides(j, UNIT, row) &&
         (!c->g || along(j, load, c->g, c->g) == c->group / 2);
}

static bool is_other(weights *c, const tg_uop *u) {
  tg_job *j = c->n->j;
  if (u->op != TG_OP_CAST || u->src[0]->op != TG_OP_LOAD || u->src[0]->type != TG_F16) return false;
  c->x = u->src[0];
  return is_input(c, c->x) && along(j, c->x, c->k, c->k) == 1 && (!c->g || along(j, c->x, c->g, c->g) == c->group) &&
         tg_divides(j, 8, tg_define_of(c->x->src[0])->src[tg_access_rank(c->x) - 1]);
}

static bool find_factors(weights *c) {
  const tg_uop *product = c->inner->src[0];
  c->group = tg_iterations(c->k);
  if (product->op != TG_OP_MUL || c->group % PIECE) return false;
  for (int turned = 0; turned < 2; turned++)
    if (are_weights(c, product->src[turned]) && is_other(c, product->src[!turned])) return true;
  return false;
}

/* Neighbours along the terms that a lane has of a column; 0: they are no digit of their own. */
static uint32_t neighbours(const tg_matrix_row *row) {
  tg_layout l = tg_matrix_layout(row, 1);
  const tg_layout_digit *d = l.dim[0].digit;
  return l.dim[0].n && d[0].place == TG_IN_REG && d[0].stride == 1 ? d[0].size : 0;
}

/* f16 in, f32 out, 16 terms; where lanes load matrices 16 x 8 results, in four of which a lane's neighbours are a word
 * apart, else 16 x 16, of which a lane has neighbours along one column. */
static bool find_instruction(weights *c) {
  const tg_target *t = c->n->l->target;
  for (uint32_t i = 0; (c->row = tg_matrix_at(i)); i++) {
    const tg_matrix_row *r = c->row;
    if (r->a_type != TG_F16 || r->c_type != TG_F32 || r->m != 16 || r->k != 16 || !tg_matrix_on(r, t)) continue;
    c->columns = r->form != TG_MATRIX_PTX;
    c->own = neighbours(r);
    if (c->columns ? r->n == 16 && c->own >= 4 : r->n == 8 && t->loads_matrices && t->async_copy) return true;
  }
  return false;
}

/* What stands beside the inner sum and is another value for each row of weights and each group, copied if those of a
 * block lie side by side. */
static void find_scale(weights *c) {
  tg_job *j = c->n->j;
  uint32_t n;
  if (!c->g) return;
  const tg_uop **order = tg_toposort(j, c->outer->src[0], &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op != TG_OP_LOAD || u == c->weights || u == c->x || !is_input(c, u) || tg_uses(j, u, c->k)) continue;
    int64_t bytes = c->block * tg_type_bytes(u->type);
    if (along(j, u, c->g, c->g) != 1 || !tg_uses(j, u, c->n_) || tg_uses(j, u, c->m) || bytes < 4 || bytes > 16 ||
        !tg_divides(j, c->block, tg_define_of(u->src[0])->src[tg_access_rank(u) - 1]))
      continue;
    c->scale = u;
    return;
  }
}

static bool find(weights *c, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = c->n->j;
  const tg_uop *inner = depth < 2 ? NULL : chain[depth - 1];
  if (!inner || inner->n != 2 || inner->src[1]->op != TG_OP_STORE || tg_gate(inner->src[1])) return false;
  c->store = inner->src[1];
  if (!find_sums(c) || !find_factors(c) || !find_instruction(c)) return false;
  for (uint32_t d = 0; d < depth; d++) {
    const tg_uop *r = chain[d]->src[0];
    bool of_x = tg_uses(j, c->x, r), of_weights = tg_uses(j, c->weights, r);
    bool one = !of_x && !of_weights && tg_iterations(r) == 1;   /* the only row of x */
    if (tg_range_kind(r) != TG_LOOP || tg_loads_below(j, tg_extent(r)) || (of_x == of_weights && !one)) return false;
    if ((of_weights ? c->n_ : c->m)) return false;
    if (of_weights) c->n_ = r;
    else c->m = r;
  }
  return c->m && c->n_;
}

/* ---- sizes ---- */

/* Bytes of an element of the scale's copy: where a lane has a column, it is made f32 once, for all rows of x. */
static int64_t scale_bytes(const weights *c) { return c->columns ? 4 : tg_type_bytes(c->scale->type); }

static uint64_t bytes_of_stage(const weights *c) {
  int64_t terms = c->block * c->group;
  uint64_t rows = (uint64_t)c->warps * c->tiles * 16, scale = 0;
  if (c->scale) scale = rows * (uint64_t)c->block * (uint64_t)scale_bytes(c);
  return rows * ((uint64_t)terms / 2 + UNIT) + (uint64_t)c->rows * ((uint64_t)terms * 2 + 64) + scale;
}

/* Registers of a thread: half of them for the sums of a group and of all; and where lanes load their own elements, for
 * all that it multiplies of a block, weights as words and unpacked, since LLVM may load that first. */
static bool has_registers(const weights *c) {
  const tg_target *t = c->n->l->target;
  int64_t terms = c->block * c->group, of_row = terms * c->own / c->row->k, rows = c->rows / 16;
  int64_t operands = of_row * (rows + c->tiles) / 2 + of_row * c->tiles / 8;
  int64_t sums = 2 * 16 * (int64_t)c->rows * c->tiles / t->lanes;
  return 2 * sums <= t->vector_registers && (!c->columns || operands + sums <= t->vector_registers);
}

static bool has_room(const weights *c) {
  return c->stages * bytes_of_stage(c) <= c->n->l->target->local_bytes / 2 && has_registers(c);
}

/* The longest block that has room, of groups, or of terms where there are none. */
static bool find_block(weights *c) {
  const tg_target *t = c->n->l->target;
  const int64_t all = tg_iterations(c->g ? c->g : c->k), least = c->g ? 1 : PIECE, of = c->g ? c->group : 1;
  for (int64_t size = MOST_TERMS / of; size >= least; size /= 2) {
    if (size > least && all % size) continue;
    if (c->g) c->block = size;
    else c->block = 1, c->group = size;
    c->scale = NULL;
    find_scale(c);
    for (c->stages = t->async_copy ? STAGES : 1; c->stages > 2 && !has_room(c); c->stages--) {}
    if (has_room(c)) return true;
  }
  return false;
}

/* Half of LOCAL memory, so that a second group computes while one waits; as large a tile as leaves each core two. */
static bool choose(weights *c) {
  const tg_target *t = c->n->l->target;
  int64_t rows = (int64_t)tg_bounds_of(c->n->j, tg_extent(c->m)).hi, most = MOST_ROWS, all = tg_iterations(c->n_);
  if (rows < most) most = rows;
  const uint32_t side = c->columns ? c->row->m : c->row->n;
  c->rows = (uint32_t)(most + side - 1) / side * side;
  static const struct { uint32_t warps, tiles; } sizes[] = {{4, 2}, {4, 1}, {2, 1}};
  bool found = false;
  for (size_t i = 0; i < TG_COUNT(sizes); i++) {
    c->warps = sizes[i].warps;
    c->tiles = sizes[i].tiles;
    if (!(found = find_block(c))) continue;
    if (all < 0 || all / (16 * c->warps * c->tiles) >= GROUPS_A_CORE * (int64_t)t->threads) return true;
  }
  return found;
}

/* ---- words ---- */

/* The rows of the copy, its dimension `own`, by at most so many threads. */
static void by_threads(tg_words *w, const char *copy, uint32_t own, int64_t rows, int64_t threads) {
  if (rows > threads) {
    tg_say(w, "split %s.%u %lld as %s.o %s.i", copy, own, (long long)threads, copy, copy);
    if (threads > 1) tg_say(w, "local %s.i", copy);
    tg_say(w, "upcast %s.o", copy);
  } else tg_say(w, "local %s.%u", copy, own);
}

/* The dimension of the rows, the other than that of the terms, which is the last. */
static uint32_t rows_of(const weights *c, const tg_uop *load, const tg_uop *range) {
  for (uint32_t d = 0; d + 1 < tg_access_rank(load); d++)
    if (tg_uses(c->n->j, load->src[1 + d], range)) return d;
  return 0;
}

static const char *in_ring(const weights *c, tg_words *w) {
  return c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "";
}

/* A copy of rows that are `padding` bytes longer than they are, so that a matrix load's rows, or those that eight lanes
 * read 16 bytes of, lie in different banks at constant distances; 16 bytes by each thread. */
static void copy(const weights *c, tg_words *w, const char *at, const tg_uop *load, const tg_uop *range, int64_t rows,
                 int64_t elements, int64_t padding) {
  int64_t unit = UNIT / tg_type_bytes(load->type), threads = (int64_t)c->warps * c->n->l->target->lanes;
  const char *name = tg_buffer_info(c->n->j, load->src[0])->name,
             *b = tg_device_new_name(c->n->j, tg_format(w->env, "%s.tile", name));
  uint32_t last = tg_access_rank(load) - 1;
  const char *wider = c->columns && load == c->scale && load->type != TG_F32 ? " as f32" : "";
  tg_say(w, "stage %s at %s as %s[d%u, d%u]%s pitch=%lld%s", name, at, b, rows_of(c, load, range), last, wider,
         (long long)(elements + padding / tg_type_bytes(load->type)), in_ring(c, w));
  if (elements > unit) {
    tg_say(w, "split %s.1 %lld as %s.q %s.v", b, (long long)unit, b, b);
    tg_say(w, "upcast %s.v", b);
    tg_say(w, "local %s.q", b);
    threads /= elements / unit;
  } else tg_say(w, "upcast %s.1", b);
  by_threads(w, b, 0, rows, threads);
}

/* Of x, with the terms of each word of weights in the order in which these are unpacked. Units of 16 bytes change
 * places, so that those of eight rows lie in different banks; where a lane has several, they are that many copies. */
static void copy_in_order(const weights *c, tg_words *w, const char *at, int64_t rows, int64_t terms) {
  int64_t units = terms / 8, several = c->own / 8, threads = (int64_t)c->warps * c->n->l->target->lanes / units;
  const char *name = tg_buffer_info(c->n->j, c->x->src[0])->name,
             *b = tg_device_new_name(c->n->j, tg_format(w->env, "%s.tile", name));
  uint32_t last = tg_access_rank(c->x) - 1, own = rows_of(c, c->x, c->m), first = several > 1;
  tg_str layout = tg_str_new(w->env);
  if (first) {
    tg_str_printf(&layout, "d%u/8%%%lld, ", last, (long long)several);
    units /= several;
  }
  tg_str_printf(&layout, "d%u, d%u/%lld", own, last, first ? 8 * (long long)several : 8);
  if (units > 1) tg_str_printf(&layout, " ^ d%u%%%d", own, units < 8 ? (int)units : 8);
  tg_say(w, "stage %s at %s as %s[%s, d%u%%4, d%u/4%%2]%s", name, at, b, layout.data, last, last, in_ring(c, w));
  tg_say(w, "upcast %s.%u", b, first + 3);
  tg_say(w, "upcast %s.%u", b, first + 2);
  if (first) tg_say(w, "local %s.0", b);
  if (units > 1) tg_say(w, "local %s.%u", b, first + 1);
  by_threads(w, b, first, rows, threads);
}

static void copies(const weights *c, tg_words *w, const char *at) {
  int64_t tile = 16 * c->warps * c->tiles, terms = c->block * c->group;
  int64_t rows = tg_uses(c->n->j, c->x, c->m) ? c->rows : 1;
  copy(c, w, at, c->weights, c->n_, tile, terms / 2, terms > PIECE ? UNIT : 0);
  if (c->columns) copy_in_order(c, w, at, rows, terms);
  else copy(c, w, at, c->x, c->m, rows, terms, terms % 64 ? 0 : 64);
  if (c->scale) copy(c, w, at, c->scale, c->n_, tile, c->block, 0);
}

/* Where lanes load matrices: are the pairs of a register neighbours? That is three permutations of bytes a word more,
 * for the weights, where x is as it lies; else x is brought into order by four for each eight of its rows. */
static bool takes_neighbours(const weights *c) { return !c->columns && 3 * c->tiles < 4 * (c->rows / 8); }

/* The terms of a piece in the order in which instructions take them; kb.terms: those of one. */
static void say_terms(const weights *c, tg_words *w, const char *terms, const char *kb) {
  const bool whole = c->columns && c->own >= 8;   /* words in one instruction */
  if (whole) {
    tg_say(w, "split %s %u as %s.t %s.i", terms, c->row->k, kb, kb);
    terms = tg_format(w->env, "%s.i", kb);
  }
  tg_say(w, "split %s 8 as %s.w %s.e", terms, kb, kb);
  const bool near = takes_neighbours(c);
  tg_say(w, "split %s.e 4 as %s.%s %s.q", kb, kb, near ? "t" : "r", kb);
  const char *q = whole ? "q" : "f";
  if (!whole) tg_say(w, "split %s.q 2 as %s.%s %s.%s", kb, kb, near ? "f" : "t", kb, near ? "r" : "f");
  if (c->columns) {
    tg_say(w, "order %s.t %s.w %s.%s %s.r", kb, kb, kb, q, kb);
    tg_say(w, "fuse %s.w %s.%s as %s.wq", kb, kb, q, kb);
    tg_say(w, "fuse %s.wq %s.r as %s.terms", kb, kb, kb);
  } else {
    tg_say(w, "order %s.t %s.f %s.w %s.r", kb, kb, kb, kb);
    tg_say(w, "fuse %s.f %s.w as %s.fw", kb, kb, kb);
    tg_say(w, "fuse %s.fw %s.r as %s.terms", kb, kb, kb);
  }
  tg_say(w, "unroll %s.t", kb);
}

/* A warp's tiles, each with all rows of x. */
static void say_tiles(const weights *c, tg_words *w, const char *nb, const char *mb, const char *kb) {
  if (c->tiles > 1) {
    tg_say(w, "split %s.t %u as %s.w %s.h", nb, 16 * c->tiles, nb, nb);
    tg_say(w, "split %s.h 16 as %s.r %s.u", nb, nb, nb);
    tg_say(w, "order %s.w %s.r %s.t %s.u", nb, nb, mb, nb);
  } else {
    tg_say(w, "split %s.t 16 as %s.w %s.u", nb, nb, nb);
    tg_say(w, "order %s.w %s.t %s.u", nb, mb, nb);
  }
  const char *i = tg_format(w->env, "%s.u", nb), *j = tg_format(w->env, "%s.t", mb);
  tg_say(w, "contract %s i=%s j=%s k=%s.terms", c->row->name, c->columns ? j : i, c->columns ? i : j, kb);
  if (c->tiles > 1) tg_say(w, "upcast %s.r", nb);
  tg_say(w, "local %s.w", nb);
}

static void write_words(const weights *c, tg_words *w) {
  tg_nest *n = c->n;
  const char *nb = tg_nest_base(n, tg_device_name(n, c->n_)), *mb = tg_nest_base(n, tg_device_name(n, c->m)),
             *kb = tg_nest_base(n, tg_device_name(n, c->k)),
             *gb = c->g ? tg_nest_base(n, tg_device_name(n, c->g)) : NULL;
  const char *at = c->g ? tg_device_name(n, c->g) : tg_format(w->env, "%s.b", kb), *terms = tg_device_name(n, c->k);
  tg_say(w, "split %s %u as %s.b %s.t", tg_device_name(n, c->m), c->rows, mb, mb);
  tg_say(w, "split %s %u as %s.b %s.t", tg_device_name(n, c->n_), 16 * c->warps * c->tiles, nb, nb);
  if (!c->g) tg_say(w, "split %s %lld as %s.b %s.k", terms, (long long)c->group, kb, kb);
  tg_say(w, "order %s.b %s.b %s %s.t %s.t in %s", nb, mb, at, mb, nb,
         tg_device_new_name(n->j, tg_format(w->env, "%s.sum", tg_buffer_info(n->j, c->store->src[0])->name)));
  if (!c->g) terms = tg_format(w->env, "%s.k", kb);
  if (c->block > 1) {
    tg_say(w, "split %s %lld as %s.b %s.s", at, (long long)c->block, gb, gb);
    at = tg_format(w->env, "%s.b", gb);
  }
  copies(c, w, at);
  if (c->group > PIECE) {
    tg_say(w, "split %s %d as %s.c %s.p", terms, PIECE, kb, kb);
    tg_say(w, "unroll %s.c", kb);
    terms = tg_format(w->env, "%s.p", kb);
  }
  say_terms(c, w, terms, kb);
  say_tiles(c, w, nb, mb, kb);
  if (c->block > 1) tg_say(w, "unroll %s.s", gb);
  tg_say(w, "global %s.b", nb);
  tg_say(w, "global %s.b", mb);
}

bool tg_device_weights(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  const tg_target *t = n->l->target;
  weights c = {.n = n};
  tg_words w = {.env = &n->j->env};
  if (n->versioned || !t->local_bytes || !find(&c, depth, chain) || !choose(&c)) return false;
  write_words(&c, &w);
  return tg_device_try(n, &w);
}
