/* SPDX-License-Identifier: MIT
 * Sizes of a product's tiles on a target with warps, and the parts of its sum, by what the target's row says:
 * registers, LOCAL memory, how fast a core multiplies, reads LOCAL memory and is given data from outside, and what a
 * launch costs. */
#include "choose/device_product.h"
#include "ranges/ranges.h"

enum {
  TYPICAL = 4096,            /* what a size that is not known counts as */
  MOST_ELEMENTS = 1 << 26,   /* of the memory of all parts */
  MOST_GROUPS_A_CORE = 8,    /* beyond as many, further parts of a sum give idle cores nothing */
  THREAD_TERMS = 32,         /* of a block, where threads multiply and add */
  FEWEST_TERMS = 8,
  MANY_BLOCKS = 8,           /* of terms, so that a sum may be taken in parts */
  NARROW = 16                /* rows, at most, that a thread has at once */
};

#define STEP 0.05   /* by which a further part must be better: less is within what the model tells apart */

static int64_t blocks(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

/* Cycles to issue what copies `of` iterations compute, beside which others are a few instructions. */
static double issue_cycles(const tg_device_product *c, double rows, double columns) {
  const double rate = c->n->l->target->core_macs, terms = c->terms;
  double a = c->a.operations ? rows * terms / c->a.vector * c->a.operations : 0,
         b = c->b.operations ? columns * terms / c->b.vector * c->b.operations : 0;
  return rate > 0 ? (a + b) / rate : 0;
}

/* Cycles of a core for one block of terms of a group's tile, where nothing else holds it up. */
static double block_cycles(const tg_device_product *c) {
  const tg_target *t = c->n->l->target;
  double bytes = (double)tg_type_bytes(c->row->a_type), warps = c->warps_down * c->warps_across;
  double rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across, terms = c->terms;
  double macs = rows * columns * terms / t->matrix_macs;
  double fragments = warps * (c->warp_rows + c->warp_columns) * terms * bytes;
  double copies = (rows + columns) * terms * bytes;
  double local = (fragments + copies) / TG_LINE, outside = copies / t->core_bytes;
  double most = macs > local ? macs : local, issue = issue_cycles(c, rows, columns);
  if (c->alone) return macs + local + outside + issue;   /* nothing overlaps */
  most = most > outside ? most : outside;
  most = most > issue ? most : issue;
  /* what overlaps is felt too: at the ends, and where both meet */
  return most + (macs + local + outside + issue) / 16;
}

/* Cycles for parts of the sum that a second launch adds: the launch, and the parts written and read by all cores. */
static double cycles_to_add(const tg_device_product *c, double results, uint32_t parts) {
  const tg_target *t = c->n->l->target;
  double bytes = 2 * results * parts * (double)tg_type_bytes(c->reduce->type);
  return tg_device_launch_cycles(t) + bytes / ((double)t->core_bytes * t->threads);
}

static double waves_of(const tg_target *t, double groups) {
  double waves = groups < t->threads ? 1 : groups / t->threads;
  return waves < 8 ? (double)(int64_t)(waves + 0.999) : waves;   /* the last one may leave cores idle */
}

/* An extent as it counts: what it is typically, or the most that it is, if that is less. most: likewise, unless 0. */
static int64_t counted(const tg_device_product *c, const tg_uop *range, int64_t most) {
  tg_i128 hi = tg_bounds_of(c->n->j, tg_extent(range)).hi;
  int64_t extent = tg_iterations(range);
  if (extent < 0) extent = hi > 0 && hi < TYPICAL ? (int64_t)hi : TYPICAL;
  return most && most < extent ? most : extent;
}

static int64_t rows_of(const tg_device_product *c) {
  return c->fused[0] ? c->fused[0] : counted(c, c->a.loop, c->most_rows);
}
static int64_t columns_of(const tg_device_product *c) {
  return c->fused[1] ? c->fused[1] : counted(c, c->b.loop, c->most_columns);
}
int64_t tg_device_product_terms(const tg_device_product *c) {
  return c->fused[2] ? c->fused[2] : counted(c, c->sum, 0);
}

/* The most elements that the parts of `terms` terms can have: their memory. */
static double elements_of_parts(const tg_device_product *c, int64_t terms) {
  tg_job *j = c->n->j;
  double m = (double)tg_bounds_of(j, tg_extent(c->a.loop)).hi, n = (double)tg_bounds_of(j, tg_extent(c->b.loop)).hi;
  if (c->most_rows && m > (double)c->most_rows) m = (double)c->most_rows;
  if (c->most_columns && n > (double)c->most_columns) n = (double)c->most_columns;
  return m * n * c->around * (double)(tg_bounds_of(j, tg_extent(c->sum)).hi + terms - 1) / (double)terms;
}

/* May the sum be taken in parts? All of them have whole blocks of terms. */
static bool may_part(const tg_device_product *c) {
  if (c->fused[2] || c->sums > 1) return false;
  tg_kind kind = tg_range_kind(c->sum);
  return tg_divides(c->n->j, c->terms, tg_extent(c->sum)) && c->around > 0 && !c->tasks &&
         (kind == TG_REDUCE || kind == TG_LOOP);
}

/* Cycles for all groups of rows x columns results, of which a block of terms takes each `block` cycles, as many at a
 * time as there are cores; and the number of parts of the sum with which that is least. A group waits for the blocks
 * that fill its ring. */
static double cost_of(tg_device_product *c, int64_t rows, int64_t columns, double block) {
  const tg_target *t = c->n->l->target;
  int64_t m = rows_of(c), n = columns_of(c);
  int64_t terms = tg_device_product_terms(c), all = blocks(terms, c->terms);
  double around = c->around > 0 ? c->around : 1, filling = t->async_copy ? c->stages - 1 : 0;
  double groups = (double)blocks(m, rows) * (double)blocks(n, columns) * around;
  double least = waves_of(t, groups) * ((double)all + filling) * block;
  c->parts = 1;
  if (!may_part(c)) return least;
  for (uint32_t p = 2; 2 * p <= all && p * groups <= MOST_GROUPS_A_CORE * t->threads; p++) {
    const int64_t each = blocks(all, p);
    if (blocks(all, each) != p || elements_of_parts(c, each * c->terms) > MOST_ELEMENTS) continue;
    double cost = waves_of(t, groups * p) * ((double)each + filling) * block +
                  cycles_to_add(c, (double)m * (double)n * around, p);
    const bool whole = all % p == 0 && all % c->parts;   /* all parts alike, where they were not: no gates */
    if (cost * (whole ? 1 : 1 + STEP) >= least) continue;
    least = cost;
    c->parts = p;
  }
  return least;
}

/* Registers of a thread for elements under way that are loaded one by one: bytes of a row that begins anywhere take one
 * each until they are packed, and where each is of another row, one for its place. Asynchronous copies pass none. */
static uint32_t single_loads(const tg_device_product *c, const tg_device_operand *o, uint32_t own, uint32_t threads) {
  bool single = o->vector == 1 && tg_type_bytes(c->row->a_type) == 1;
  return single && !c->n->l->target->async_copy ? own * c->terms / threads * (o->along_terms ? 1 : 2) : 0;
}

/* All terms that the sum may have; -1: as many as are not known. */
static int64_t most_terms(const tg_device_product *c) {
  if (c->fused[2]) return c->fused[2];
  tg_i128 hi = tg_bounds_of(c->n->j, tg_extent(c->sum)).hi;
  return hi > 0 && hi < INT32_MAX ? (int64_t)hi : -1;
}

static bool is_one_block(const tg_device_product *c) {
  int64_t all = most_terms(c);
  return all > 0 && all <= c->terms;
}

/* Half of a core's registers and half of its LOCAL memory, so that a second group computes while one waits at its
 * barrier. */
static bool has_room(tg_device_product *c) {
  const tg_target *t = c->n->l->target;
  uint32_t bytes = (uint32_t)tg_type_bytes(c->row->a_type), warps = c->warps_down * c->warps_across;
  uint32_t rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across;
  uint32_t sums = c->warp_rows * c->warp_columns / t->lanes * c->sums,
           fragments = (c->warp_rows + c->warp_columns) * c->row->k * bytes / 4 / t->lanes;
  uint32_t registers = sums + fragments + (t->vector_registers + 1) / 4;   /* addresses, and loads under way */
  registers += single_loads(c, &c->a, rows, warps * t->lanes) + single_loads(c, &c->b, columns, warps * t->lanes);
  uint64_t stage = (uint64_t)(rows + columns) * (c->terms * bytes + (c->whole ? TG_UNIT : 0)) * c->sums;
  if (registers > t->vector_registers || registers * warps * t->lanes > t->core_registers / 2) return false;
  if (warps * t->lanes > t->max_threads) return false;
  const uint64_t room = c->alone ? t->local_bytes : t->local_bytes / 2;
  uint32_t least = c->stages = is_one_block(c) ? 1 : 4;
  if (least > 2) least = 2;
  for (; c->stages > least && c->stages * stage > room; c->stages--) {}
  return c->stages * stage <= room;
}

/* Of a block: two sectors of memory, and four units of LOCAL memory; fewer if that is the whole sum. An even number of
 * units: padded rows are then odd ones, which begin in different banks. */
static uint32_t terms_of_block(const tg_device_product *c) {
  uint32_t bytes = (uint32_t)tg_type_bytes(c->row->a_type), k = c->row->k, terms = 64 / bytes;
  if (terms < 2 * k && bytes > 1) terms = 2 * k;
  int64_t all = most_terms(c);
  if (k * bytes < 2 * TG_UNIT) k = 2 * TG_UNIT / bytes;
  return all > 0 && (all <= terms || c->whole) ? (uint32_t)blocks(all, k) * k : terms;
}

bool tg_device_product_tiles(tg_device_product *c) {
  const uint32_t m = c->row->m, n = c->row->n;
  tg_device_product best;
  double least = 0;
  if (!c->row || !c->n->l->target->matrix_macs) return false;
  c->terms = terms_of_block(c);
  for (c->warp_rows = m; c->warp_rows <= 128; c->warp_rows *= 2)
    for (c->warp_columns = n; c->warp_columns <= 128; c->warp_columns *= 2)
      for (c->warps_down = 1; c->warps_down <= 4; c->warps_down *= 2)
        for (c->warps_across = 1; c->warps_across <= 4; c->warps_across *= 2) {
          if (c->warps_down * c->warps_across < 4 || !has_room(c)) continue;
          double cost = cost_of(c, c->warp_rows * c->warps_down, c->warp_columns * c->warps_across, block_cycles(c));
          if (least > 0 && cost >= least * 0.999) continue;
          least = cost;
          best = *c;
        }
  if (least > 0) *c = best;
  c->cost = least;
  return least > 0;
}

/* Bytes of the operands' elements, of rows or of columns, for a term. */
static double bytes_of_term(const tg_device_product *c, uint32_t rows, uint32_t columns) {
  double bytes = (double)rows * (double)tg_type_bytes(c->a.load->type) +
                 (double)columns * (double)tg_type_bytes(c->b.load->type);
  for (uint32_t i = 0; i < c->mores; i++)
    bytes += (double)(c->more[i].loop == c->a.loop ? rows : columns) * (double)tg_type_bytes(c->more[i].load->type);
  return bytes;
}

/* The same without an instruction, for 16 x 16 threads of e x e elements: each term takes a thread e * e
 * multiplications and 2 e elements of LOCAL memory, which come four at a time; and it loads and stores e / 8 of
 * them. */
static double thread_block_cycles(const tg_device_product *c, uint32_t e) {
  const tg_target *t = c->n->l->target;
  const uint32_t size = TG_SIDE * e;
  double side = size, macs = side * side * c->terms / t->core_macs;
  double outside = bytes_of_term(c, size, size) * c->terms / t->core_bytes;
  double reads = 2.0 * ((e + 3) / 4) / (e * e), copied = 0.25 / e;   /* instructions for each multiplication */
  double issued = macs * (1 + reads + copied) + issue_cycles(c, size, size);
  return (issued > outside ? issued : outside) + (issued + outside) / 16;
}

/* Whole blocks of terms have no conditions: as many as divide the sum, of those that LOCAL memory has room for. */
static uint32_t thread_terms(const tg_device_product *c, int64_t terms, uint64_t term) {
  const uint64_t room = c->n->l->target->local_bytes / 2;   /* two groups have room */
  uint32_t most = THREAD_TERMS;
  while (most > FEWEST_TERMS && (term * most > room || (terms >= 0 && terms <= most / 2))) most /= 2;
  if (term * most > room) return 0;
  for (uint32_t n = most; n >= most / 2 && n >= FEWEST_TERMS; n /= 2)
    if (terms >= 0 ? terms % n == 0 : tg_divides(c->n->j, n, tg_extent(c->sum))) return n;
  return most;
}

/* So few rows that most of a tile of them would be empty, where a thread has all of them otherwise: by rows along the
 * terms (device_rows.c), or by warps that share the sum (device_plain.c). */
static bool is_narrow(const tg_device_product *c) {
  int64_t rows = c->fused[0] ? c->fused[0] : tg_iterations(c->a.loop);
  int64_t columns = c->fused[1] ? c->fused[1] : tg_iterations(c->b.loop);
  bool terms = c->a.along_terms && c->b.along_terms;
  if (rows_of(c) == 1) return true;
  return !c->fused[2] && ((rows > 0 && rows <= (terms ? NARROW : NARROW / 2)) ||
                          (terms && columns > 0 && columns <= NARROW));
}

/* Elements of a thread along rows and along columns: 8, or fewer where tiles of 8 leave cores without work. */
bool tg_device_product_elements(tg_device_product *c) {
  const tg_target *t = c->n->l->target;
  uint32_t bytes = (uint32_t)tg_type_bytes(c->reduce->type), threads = TG_SIDE * TG_SIDE, best = 0;
  int64_t terms = c->fused[2] ? c->fused[2] : tg_iterations(c->sum);
  double least = 0;
  uint32_t parts = 1, block = 0;
  if (c->row || (terms >= 0 && terms < (c->fused[2] ? 2 * THREAD_TERMS : FEWEST_TERMS)) || !t->core_macs) return false;
  if (is_narrow(c)) return false;
  if (threads > t->max_threads || threads % t->lanes) return false;
  for (uint32_t e = 8; e >= 2; e /= 2) {
    uint32_t registers = (c->sums * e * e + 4 * e) * bytes / 4 + 32;   /* sums, two terms of each operand, addresses */
    if (registers * threads > t->core_registers / 2) continue;
    c->stages = t->async_copy ? 2 : 1;
    uint64_t term = (uint64_t)bytes_of_term(c, TG_SIDE * e + 4, TG_SIDE * e + 4) * c->stages * c->sums;
    c->terms = thread_terms(c, terms, term);
    if (!c->terms) continue;
    /* long sums fill the cores in parts, without tiles that read more for each result */
    if (e == 2 && best && may_part(c) && blocks(tg_device_product_terms(c), c->terms) >= MANY_BLOCKS) continue;
    double cost = cost_of(c, TG_SIDE * e, TG_SIDE * e, thread_block_cycles(c, e));
    if (best && cost >= least) continue;
    least = cost;
    best = e;
    block = c->terms;
    parts = c->parts;
  }
  c->warp_rows = c->warp_columns = best;
  c->terms = block;
  c->parts = parts;
  if (terms >= 0 && blocks(terms, block) == 1) c->stages = 1;
  return best != 0;
}
