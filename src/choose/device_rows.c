/* SPDX-License-Identifier: MIT
 * The schedule of rows on a GPU: what is stored along a row depends on sums or extrema over the whole row (softmax, a
 * norm), or each row has one result (a sum of rows, a matrix times a vector, a loss). A warp or a workgroup has a row.
 * Each of its threads takes the same elements for every reduction and for the store:
 *
 *   element of a row  =  block * copies * threads * vector  +  copy * threads * vector  +  warp * lanes * vector
 *                        +  lane * vector  +  element of a vector
 *
 * A vector is 16 bytes where rows begin at such. Rows that begin at no sector of memory are counted from the sector in
 * which they begin (`align`), so that no access of a warp shares one with its neighbours. Where the row is needed more
 * than once and a thread's registers hold its elements, there is one block, and memory is read once. Longer rows are
 * read in blocks, once for each reduction and for the store. Rows that a warp has take no exchange through LOCAL
 * memory; then several warps of a group have a row each. A row may take several statements, with what the first find
 * for each element in a tile of registers: a thread has its elements where the loops that fill and read it have. Where
 * not the elements of a row lie side by side, but those of a loop around, each lane has a row of its own, which it
 * shares with that lane of the other warps. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  UNIT = 16,            /* bytes of the widest access */
  SECTOR = 64,          /* of memory: 32 bytes on NVIDIA, 64 on AMD */
  LONG = 8,             /* sectors of a row, at least, for which those that it shares with its neighbours are counted */
  A_WARP_HOLDS = 32,    /* elements that a lane keeps of a row which one warp has */
  A_GROUP_HOLDS = 16,   /* and where a group has it: more threads for more loads under way */
  REGISTERS = 32,       /* of a thread, for addresses, what is computed and loads under way, beside the elements */
  UNDER_WAY = 4,        /* copies of a block of a row that is not kept: loads that a thread has under way */
  MOST_WARPS = 8,       /* of a group with such a row */
  ALL_WARPS = 16,       /* of a group that keeps a row: each reads what all have found */
  MOST_SHARED = 16,     /* terms of a lane, at most, of a reduction that each warp has */
  WRITTEN_OUT = 64,     /* terms at most of a reduction inside another one: they are copies */
  ROWS_A_GROUP = 4,     /* warps of a group that have a row each */
  TOGETHER = 16,        /* results of a thread, at most, along a loop of which the largest input knows nothing */
  SIDE_BY_SIDE = 4,     /* and along the rows */
  CHAINS = 4,           /* sums that a thread has under way: one takes about 4 cycles until it can be added to */
  TYPICAL = 4096        /* what an extent that is not known counts as */
};

typedef struct {
  tg_nest *n;
  /* the innermost loop, or the store without one; where a row takes several statements, the loop around them */
  const tg_uop *body;
  /* ranges of the loops along the row, and the only store of each: none if the innermost has no part in it */
  const tg_uop *along[NEST_MAX], *store[NEST_MAX];
  uint32_t alongs;
  bool statements;                 /* a row takes several */
  const tg_uop *rows;              /* the loop around the row, or NULL */
  /* Where elements of a row lie apart: a loop of which those of an iteration lie side by side, whose iterations are
   * lanes. NULL: they do not */
  const tg_uop *across;
  const tg_uop *range[NEST_MAX];   /* of the reductions */
  const tg_uop *inner[NEST_MAX];   /* of reductions inside of these that depend on them */
  bool floats[NEST_MAX];           /* are these sums of floats? Integers may be summed as instructions take them */
  const tg_uop *shared[NEST_MAX];  /* of reductions that are the same for all rows: each warp has them */
  uint32_t reductions, inners, shareds;
  /* elements that are needed at once for each of a row: of inputs that the reductions read along it, and of tiles;
   * bytes of the widest */
  uint32_t streams, bytes;
  int64_t extent;
  uint32_t vector, warps, copies;
  /* Rows that begin at no sector: what an index along them is counted from, so that accesses of a warp begin at
   * multiples of `block` elements of memory. NULL: they do */
  const tg_uop *lead;
  uint32_t block;
  bool kept;                       /* in registers: there is one block */
  /* A sum of exponentials relative to a maximum, or of squares about a mean, and that: of a row that is not kept both
   * are found in one pass. NULL: there is none */
  const tg_uop *online, *maximum;
  /* Each row has a result: a loop whose iterations a thread has all at once, since they need the same elements of the
   * largest input (the rows of a product with weights), or NULL; how many. And iterations of the loop over rows that it
   * has at once, since they need the same elements of another input. */
  const tg_uop *together;
  uint32_t many, side;
  const tg_uop *reduce;            /* the last of the reductions */
  double results;                  /* iterations of all loops */
} row_nest;

/* The nodes of the nest, and the loops around. */
typedef struct { const tg_uop *const *order, *const *chain; uint32_t count, depth; } seen_nest;

static double typical_extent(const tg_uop *range) {
  int64_t n = tg_iterations(range);
  return n < 0 ? TYPICAL : (double)n;
}

static double results_of(uint32_t depth, const tg_uop *const *chain) {
  double results = 1;
  for (uint32_t d = 0; d < depth; d++) results *= typical_extent(chain[d]->src[0]);
  return results;
}

/* A reduction inside of a row's that is another one for each element of it: short, and written out. */
static bool add_inner(row_nest *r, const tg_uop *reduce) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  const tg_uop *range = tg_reduce_ranges(reduce)[0];
  if (a.ranges != 1 || a.in_order || a.generic || !tg_is_free(range) || r->inners == NEST_MAX) return false;
  if (tg_iterations(range) < 1 || tg_iterations(range) > WRITTEN_OUT) return false;
  r->floats[r->inners] = tg_is_float(reduce->type);
  r->inner[r->inners++] = range;
  return true;
}

static bool add_shared(row_nest *r, const tg_uop *range) {
  for (uint32_t i = 0; i < r->shareds; i++)
    if (r->shared[i] == range) return true;
  if (tg_iterations(range) > (int64_t)r->n->l->target->lanes * MOST_SHARED || r->shareds == NEST_MAX) return false;
  r->shared[r->shareds++] = range;
  return true;
}

static bool within_a_row(row_nest *r, const tg_uop *reduce) {
  for (uint32_t i = 0; i < r->reductions; i++)
    if (tg_uses(r->n->j, reduce, r->range[i])) return true;
  return false;
}

static bool uses_along(const row_nest *r, const tg_uop *u) {
  for (uint32_t i = 0; i < r->alongs; i++)
    if (tg_uses(r->n->j, u, r->along[i])) return true;
  return false;
}

/* Every reduction is over as many elements as the row has, and is the same for all of it. */
static bool add_reduction(row_nest *r, const tg_uop *reduce, uint32_t depth, const tg_uop *const *chain) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  for (uint32_t i = 0; i < r->reductions; i++)
    if (a.ranges == 1 && r->range[i] == tg_reduce_ranges(reduce)[0]) return true;
  if (within_a_row(r, reduce)) return !r->alongs && add_inner(r, reduce);
  if (a.ranges != 1 || a.in_order || (r->alongs && a.generic) || uses_along(r, reduce)) return false;
  const tg_uop *range = tg_reduce_ranges(reduce)[0];
  if (r->extent < 0) r->extent = tg_iterations(range);
  if (!tg_is_free(range) || tg_iterations(range) < 1) return false;
  if (tg_iterations(range) != r->extent) {   /* few terms: each warp finds them, for its row */
    for (uint32_t d = 0; d < depth && tg_iterations(range) > r->n->l->target->lanes; d++)
      if (tg_uses(r->n->j, reduce, chain[d]->src[0])) return false;
    return add_shared(r, range);
  }
  if (r->reductions == NEST_MAX) return false;
  r->reduce = reduce;
  r->range[r->reductions++] = range;
  return true;
}

/* Rows begin at whole vectors in every buffer that is read or written along them. */
static bool begins_aligned(row_nest *r, const tg_uop *access, const tg_uop *range) {
  tg_job *j = r->n->j;
  uint32_t rank = tg_access_rank(access);
  if (tg_access_motion(j, access, range) == TG_STILL) return true;
  const tg_uop *define = tg_define_of(access->src[0]);
  if (tg_access_motion(j, access, range) != TG_CONTIGUOUS || define->arg >> 32 & TG_STRIDED) return false;
  tg_linear t;
  tg_linear_of(j, access->src[rank], &t);
  for (uint32_t i = 0; i < t.n; i++)
    if (t.atom[i] != range && t.coefficient[i] % r->vector) return false;
  return t.constant % r->vector == 0 && (rank == 1 || tg_divides(j, r->vector, define->src[rank - 1]));
}

/* No end of a row, or of a buffer along it, lies within a vector: one condition is enough for all of it. */
static bool ends_aligned(const row_nest *r, const tg_uop *access) {
  const tg_uop *gate = tg_gate(access);
  tg_linear t;
  if (!gate || access->op != TG_OP_LOAD) return true;
  if (gate->op != TG_OP_LT || gate->src[1]->op != TG_OP_CONST || gate->src[1]->arg % r->vector) return false;
  tg_linear_of(r->n->j, gate->src[0], &t);
  for (uint32_t i = 0; i < t.n; i++)
    if (t.coefficient[i] != 1 && t.coefficient[i] % r->vector) return false;
  return t.constant % r->vector == 0;
}

/* A load that lies along a loop around, and a row of another loop's: threads along that loop are better. */
static bool along_a_loop(const row_nest *r, const tg_uop *load, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = r->n->j;
  bool moves = false;
  for (uint32_t i = 0; i < r->reductions; i++) moves |= tg_uses(j, load, r->range[i]);
  for (uint32_t d = 0; d < depth && moves; d++)
    if (tg_access_motion(j, load, chain[d]->src[0]) == TG_CONTIGUOUS) return true;
  return false;
}

/* Does each iteration of the loops have reductions of its own? A loop of one iteration may stand beside others. */
static bool of_its_own(const row_nest *r, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = r->n->j;
  uint32_t count, own = 0;
  const tg_uop **order = tg_toposort(j, r->body, &count);
  for (uint32_t d = 0; d < depth; d++) {
    bool used = false;
    for (uint32_t i = 0; i < count && !used; i++)
      used = order[i]->op == TG_OP_REDUCE && tg_uses(j, order[i], chain[d]->src[0]);
    if (!used && tg_iterations(chain[d]->src[0]) != 1) return false;
    own += used;
  }
  return own || !depth;
}

/* The ranges of the reductions, those outside before those inside. */
static bool find_reductions(row_nest *r, uint32_t count, const tg_uop *const *order, uint32_t depth,
                            const tg_uop *const *chain) {
  for (uint32_t i = count; i-- > 0;)
    if (order[i]->op == TG_OP_REDUCE && !add_reduction(r, order[i], depth, chain)) return false;
  return r->reductions > 0;
}

static void find_vector(row_nest *r, uint32_t count, const tg_uop *const *order) {
  for (r->vector = r->bytes && r->bytes < UNIT ? UNIT / r->bytes : 1; r->vector > 1; r->vector /= 2) {
    bool aligned = r->extent % r->vector == 0;
    for (uint32_t i = 0; i < count && aligned; i++) {
      if (order[i]->op != TG_OP_LOAD && order[i]->op != TG_OP_STORE) continue;
      aligned = ends_aligned(r, order[i]);
      for (uint32_t k = 0; k < r->alongs && aligned; k++) aligned = begins_aligned(r, order[i], r->along[k]);
      for (uint32_t k = 0; k < r->reductions && aligned; k++) aligned = begins_aligned(r, order[i], r->range[k]);
    }
    if (aligned) break;
  }
}

static bool in_registers(const row_nest *r, const tg_uop *access) {
  return tg_buffer_info(r->n->j, access->src[0])->space == TG_SPACE_REG;
}

static bool is_along(const row_nest *r, const tg_uop *u) {
  bool along = false;
  for (uint32_t k = 0; k < r->reductions; k++) along |= u->op == TG_OP_LOAD && tg_uses(r->n->j, u, r->range[k]);
  return along;
}

/* The inputs that the reductions read along the row, and the widest element: where each row has a result, that of the
 * largest input. */
static void find_streams(row_nest *r, uint32_t count, const tg_uop *const *order, const tg_uop *largest) {
  const tg_uop *seen[NEST_MAX];
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    if (u->op != TG_OP_LOAD && u->op != TG_OP_STORE) continue;
    bool along = is_along(r, u);
    uint32_t bytes = (uint32_t)tg_type_bytes(tg_define_of(u->src[0])->type), s = 0;
    if (along || r->alongs) r->bytes = bytes > r->bytes ? bytes : r->bytes;
    if (r->statements) continue;
    while (s < r->streams && seen[s] != tg_define_of(u->src[0])) s++;
    if (along && s == r->streams && s < NEST_MAX) seen[r->streams++] = tg_define_of(u->src[0]);
  }
  if (!r->alongs && largest) r->bytes = (uint32_t)tg_type_bytes(tg_define_of(largest->src[0])->type);
}

/* ---- a row that takes several statements ---- */

/* A buffer that statements access along the row: the first and the last that need its elements. A tile's come to be at
 * the end of the statement that stores them, when an input's last use is over. */
typedef struct { const tg_uop *define; uint32_t first, last; } needed;

static void note_needed(const row_nest *r, const tg_uop *u, uint32_t at, needed *list, uint32_t *n) {
  const tg_uop *define = tg_define_of(u->src[0]);
  uint32_t i = 0, from = at + (u->op == TG_OP_STORE);
  if (u->op == TG_OP_STORE ? !in_registers(r, u) : !is_along(r, u) && !(uses_along(r, u) && in_registers(r, u))) return;
  while (i < *n && list[i].define != define) i++;
  if (i == *n) {
    if (*n == NEST_MAX) return;
    list[(*n)++] = (needed){define, from, from};
  }
  if (from < list[i].first) list[i].first = from;
  if (at > list[i].last) list[i].last = at;
}

/* r->streams: the most elements of buffers that are needed at once. */
static void find_needed(row_nest *r) {
  needed list[NEST_MAX];
  uint32_t n = 0, count;
  for (uint32_t at = 1; at < r->body->n; at++) {
    const tg_uop **order = tg_toposort(r->n->j, r->body->src[at], &count);
    for (uint32_t i = 0; i < count; i++)
      if (order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_STORE) note_needed(r, order[i], at, list, &n);
  }
  for (uint32_t at = 1; at < r->body->n; at++) {
    uint32_t now = 0;
    for (uint32_t i = 0; i < n; i++) now += list[i].first <= at && at <= list[i].last;
    if (now > r->streams) r->streams = now;
  }
}

/* A tile with an element for each of the row. */
static bool is_tile(const row_nest *r, const tg_uop *define) {
  return tg_buffer_info(r->n->j, define)->space == TG_SPACE_REG && define->n == 1 &&
         define->src[0]->op == TG_OP_CONST && define->src[0]->arg == tg_iterations(r->along[0]);
}

/* Loops of one store each, as long as the row, and tiles; between them what a row has once. */
static bool find_statements(row_nest *r) {
  r->statements = true;
  for (uint32_t i = 1; i < r->body->n; i++) {
    const tg_uop *u = r->body->src[i];
    if (u->op == TG_OP_DEFINE || u->op == TG_OP_STORE) continue;
    if (u->op != TG_OP_END || u->n != 2 || u->src[1]->op != TG_OP_STORE || r->alongs == NEST_MAX) return false;
    if (r->alongs && tg_iterations(u->src[0]) != tg_iterations(r->along[0])) return false;
    r->along[r->alongs] = u->src[0];
    r->store[r->alongs++] = u->src[1];
  }
  for (uint32_t i = 1; i < r->body->n && r->alongs; i++)
    if (r->body->src[i]->op == TG_OP_DEFINE && r->body->src[i]->n && !is_tile(r, r->body->src[i])) return false;
  return r->alongs > 0;
}

/* ---- results that need the same elements ---- */

/* Bytes that loads along the row read in all iterations of the loops around that they know. largest: the load that
 * reads most. without: of those loads only that do not know this loop, or NULL. */
static double bytes_along(const row_nest *r, const seen_nest *s, const tg_uop *without, const tg_uop **largest) {
  double all = 0, most = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    const tg_uop *u = s->order[i];
    if (!is_along(r, u) || (without && tg_uses(r->n->j, u, without))) continue;
    double bytes = (double)tg_type_bytes(tg_define_of(u->src[0])->type);
    for (uint32_t d = 0; d < s->depth; d++)
      if (tg_uses(r->n->j, u, s->chain[d]->src[0])) bytes *= typical_extent(s->chain[d]->src[0]);
    all += bytes;
    if (bytes > most) {
      most = bytes;
      *largest = u;
    }
  }
  return all;
}

/* The loop of a few iterations that need the same elements, those that are most; the loop over rows is then another
 * one. Of the rows too some need the same elements of another input. */
static void find_together(row_nest *r, const seen_nest *s, const tg_uop **largest) {
  double most = 0;
  const tg_uop *any = NULL;
  r->many = r->side = 1;
  bytes_along(r, s, NULL, largest);
  if (r->alongs || r->reductions > 1 || !r->rows || tg_reduce_info(r->reduce).generic) return;
  for (uint32_t d = 0; d < s->depth; d++) {
    const tg_uop *loop = s->chain[d]->src[0], *same = NULL;
    int64_t extent = tg_iterations(loop);
    if (tg_range_kind(loop) != TG_LOOP || extent < 2 || extent > TOGETHER) continue;
    double saved = bytes_along(r, s, loop, &same) * (double)(extent - 1);
    if (saved <= most) continue;
    most = saved;
    r->together = loop;
    r->many = (uint32_t)extent;
    *largest = same;
  }
  if (r->rows == r->together) r->rows = NULL;
  for (uint32_t d = s->depth; d-- > 0 && !r->rows;)
    if (tg_range_kind(s->chain[d]->src[0]) == TG_LOOP && s->chain[d]->src[0] != r->together)
      r->rows = s->chain[d]->src[0];
  if (r->rows && tg_iterations(r->rows) > 1 && bytes_along(r, s, r->rows, &any) > 0) r->side = SIDE_BY_SIDE;
}

/* ---- rows that begin anywhere ---- */

/* Elements of the buffer in front of the row that the access moves along; NULL: it does not, or not as rows do. */
static const tg_uop *begin_of(const row_nest *r, const tg_uop *access) {
  tg_job *j = r->n->j;
  const tg_uop *define = tg_define_of(access->src[0]), *range = NULL, *e = tg_index(j, 0), *zero = e;
  uint32_t rank = tg_access_rank(access);
  for (uint32_t k = 0; k < r->alongs && (!range || !tg_uses(j, access, range)); k++) range = r->along[k];
  for (uint32_t k = 0; k < r->reductions && (!range || !tg_uses(j, access, range)); k++) range = r->range[k];
  if (define->arg >> 32 & TG_STRIDED || !range || tg_access_motion(j, access, range) != TG_CONTIGUOUS) return NULL;
  for (uint32_t d = 0; d < rank; d++) {
    if (d && define->src[d]->op != TG_OP_CONST) return NULL;
    e = tg_idx_add(j, d ? tg_idx_mul(j, e, define->src[d]->arg) : e, access->src[1 + d]);
  }
  return tg_simplify(j, r->n->l->rules, tg_substitute(j, e, 1, &range, &zero));
}

/* Do all of them that move with loops around begin alike, and at no sector? */
static void find_lead(row_nest *r, uint32_t count, const tg_uop *const *order) {
  tg_job *j = r->n->j;
  const tg_uop *lead = NULL, *rest = NULL;
  uint32_t n = r->bytes && r->bytes < SECTOR ? SECTOR / r->bytes : 1;
  if (r->vector > 1 || n == 1 || r->many * r->side > 1 || r->extent < n * LONG) return;
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_LOAD && order[i]->op != TG_OP_STORE) continue;
    const tg_uop *e = begin_of(r, order[i]), *own;
    if (!e || e->op == TG_OP_CONST) continue;
    own = tg_simplify(j, r->n->l->rules, tg_op2(j, TG_OP_MOD, e, tg_index(j, n)));
    if (lead && own != rest) return;
    lead = e, rest = own;
  }
  if (!lead || rest->op == TG_OP_CONST) return;
  r->lead = lead;
  r->block = n;
  r->extent += n - 1;
}

/* The loop along which what is stored lies side by side, where along the row it does not: a lane has a row of its own,
 * or with the same lane of other warps. NULL: there is none with an iteration for each lane. */
static const tg_uop *loop_across(const row_nest *r, uint32_t depth, const tg_uop *const *chain) {
  for (uint32_t d = 0; d + 1 < depth && r->alongs == 1 && !r->statements; d++) {
    const tg_uop *loop = chain[d]->src[0];
    if (tg_range_kind(loop) == TG_LOOP && tg_iterations(loop) >= r->n->l->target->lanes &&
        tg_access_motion(r->n->j, r->store[0], loop) == TG_CONTIGUOUS)
      return loop;
  }
  return NULL;
}

static bool find_rows(row_nest *r, uint32_t depth, const tg_uop *const *chain) {
  tg_job *j = r->n->j;
  uint32_t count;
  r->extent = r->alongs ? tg_iterations(r->along[0]) : -1;
  for (uint32_t i = 0; i < r->alongs; i++) {
    if (!tg_is_free(r->along[i]) || r->extent < 2) return false;
    if (tg_access_motion(j, r->store[i], r->along[i]) == TG_CONTIGUOUS) continue;
    if (!(r->across = loop_across(r, depth, chain))) return false;
  }
  uint32_t outside = depth - (r->alongs && !r->statements);
  if (outside && tg_range_kind(chain[outside - 1]->src[0]) == TG_LOOP) r->rows = chain[outside - 1]->src[0];
  const tg_uop **order = tg_toposort(j, r->body, &count);
  if (!find_reductions(r, count, order, depth, chain) || r->extent < 2) return false;
  if (!r->alongs && !of_its_own(r, depth, chain)) return false;
  for (uint32_t i = 0; i < count && !r->alongs; i++)
    if (order[i]->op == TG_OP_LOAD && along_a_loop(r, order[i], depth, chain)) return false;
  const tg_uop *largest = NULL;
  seen_nest seen = {order, chain, count, depth};
  find_together(r, &seen, &largest);
  find_streams(r, count, order, largest);
  if (r->statements) find_needed(r);
  find_vector(r, count, order);
  find_lead(r, count, order);
  r->results = results_of(depth, chain);
  return true;
}

/* 32-bit registers of a thread for the elements that it keeps. */
static int64_t registers_for(const row_nest *r, uint32_t warps) {
  const tg_target *t = r->n->l->target;
  int64_t most = t->vector_registers;
  if (t->core_registers && most > t->core_registers / (warps * t->lanes)) most = t->core_registers / (warps * t->lanes);
  return most - REGISTERS;
}

/* Lanes of a warp that have a row. */
static uint32_t lanes_of(const row_nest *r) { return r->across ? 1 : r->n->l->target->lanes; }

static uint32_t copies_of(const row_nest *r, uint32_t warps) {
  int64_t at_once = (int64_t)warps * lanes_of(r) * r->vector;
  return (uint32_t)((r->extent + at_once - 1) / at_once);
}

static bool holds(const row_nest *r, uint32_t warps) {
  int64_t each = r->bytes > 4 ? r->bytes / 4 : 1;
  return (int64_t)copies_of(r, warps) * r->vector * r->streams * each <= registers_for(r, warps);
}

/* A row's elements are needed once: a warp has a row where rows are enough to fill the cores with such warps. As many
 * results of the same elements at once as leave a core ALL_WARPS warps. */
static void choose_results(row_nest *r) {
  const tg_target *t = r->n->l->target;
  int64_t registers = t->core_registers ? t->core_registers / (ALL_WARPS * (int64_t)t->lanes) - REGISTERS : 0;
  double warps = (double)t->threads * 2 * ROWS_A_GROUP;
  int64_t rows = r->rows ? tg_iterations(r->rows) : 1, terms = r->vector;   /* of each row, and of what they share */
  bool packed = r->inners > 0;   /* dot products of bytes take four in a register */
  for (uint32_t i = 0; i < r->inners; i++) terms *= tg_iterations(r->inner[i]), packed &= !r->floats[i];
  if (packed) terms = (terms + 3) / 4;
  for (; r->side > 1; r->side /= 2)
    if (rows % r->side == 0 && r->results / (r->many * r->side) >= warps &&
        r->many * r->side + (r->side + 1) * terms <= registers)
      break;
  for (r->warps = 1; r->warps < MOST_WARPS && r->results / (r->many * r->side) * r->warps < warps; r->warps *= 2)
    if (r->extent <= (int64_t)r->warps * t->lanes * (r->warps == 1 ? A_WARP_HOLDS : A_GROUP_HOLDS)) break;
  r->copies = copies_of(r, r->warps);
  if (r->copies > UNDER_WAY) r->copies = UNDER_WAY;
  if (r->inners || r->many * r->side > 1) r->copies = 1;
}

static const tg_uop *only_range(const tg_uop *reduce) {
  return tg_reduce_info(reduce).ranges == 1 ? tg_reduce_ranges(reduce)[0] : NULL;
}

/* A sum over the row of exponentials of what lies below a maximum over it, or of squares of what lies about its
 * mean. */
static void find_online(row_nest *r) {
  uint32_t count, n;
  const tg_uop **order = tg_toposort(r->n->j, r->body, &count);
  for (uint32_t i = 0; i < count && !r->statements; i++) {
    const tg_uop *sum = order[i], *e = sum->src[0];
    if (sum->op != TG_OP_REDUCE || tg_reduce_info(sum).op != TG_OP_ADD || !only_range(sum)) continue;
    bool squares = e->op == TG_OP_MUL && e->src[0] == e->src[1];
    if (!squares && e->op != TG_OP_EXP && e->op != TG_OP_EXP2) continue;
    if (tg_iterations(only_range(sum)) + (r->lead ? (int64_t)r->block - 1 : 0) != r->extent) continue;
    const tg_uop **within = tg_toposort(r->n->j, e, &n);
    for (uint32_t k = 0; k < n; k++)
      if (within[k]->op == TG_OP_REDUCE && tg_reduce_info(within[k]).op == (squares ? TG_OP_ADD : TG_OP_MAX) &&
          only_range(within[k])) {
        r->online = only_range(sum);
        r->maximum = only_range(within[k]);
      }
  }
}

/* As many elements of a block as registers hold while a core has two groups. */
static void choose_block(row_nest *r) {
  const tg_target *t = r->n->l->target;
  int64_t each = r->bytes > 4 ? r->bytes / 4 : 1, threads = (int64_t)r->warps * t->lanes, most = copies_of(r, r->warps);
  int64_t held = t->core_registers / (2 * threads) - REGISTERS, copies = held / (each * r->vector * r->streams);
  r->copies = (uint32_t)(copies < 1 ? 1 : copies < most ? copies : most);
}

static void choose_threads(row_nest *r) {
  const tg_target *t = r->n->l->target;
  uint32_t lanes = lanes_of(r), most = t->max_threads / t->lanes;
  if (most > ALL_WARPS) most = ALL_WARPS;
  bool again = r->alongs || r->reductions > 1;   /* the row is needed more than once */
  if (!again) {
    choose_results(r);
    return;
  }
  r->warps = 1;
  if (r->extent > lanes * A_WARP_HOLDS)
    while (r->warps < most && r->extent > (int64_t)r->warps * lanes * A_GROUP_HOLDS) r->warps *= 2;
  uint32_t best = 0;   /* of those that hold the row: few idle ends; else more threads */
  for (uint32_t w = r->warps; w >= 1 && w >= r->warps / 4; w /= 2)
    if (holds(r, w) && (!best || w * copies_of(r, w) * 17 < best * copies_of(r, best) * 16)) best = w;
  if (best) {
    r->kept = true;
    r->warps = best;
    r->copies = copies_of(r, best);
    return;
  }
  if (r->statements) r->vector = 1;   /* loads and stores of one buffer, in turns, are not joined */
  r->copies = copies_of(r, r->warps);
  if (r->copies > UNDER_WAY) r->copies = UNDER_WAY;
  if (r->inners) r->copies = 1;
  else if (t->core_registers) find_online(r);
  if (r->online) choose_block(r);
}

static void spread(const row_nest *r, tg_words *w, const tg_uop *range, bool reduction) {
  tg_nest *n = r->n;
  const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
  uint32_t lanes = lanes_of(r), at_once = r->warps * lanes * r->vector;
  const bool online = range == r->online;
  if (r->lead && !online) tg_say(w, "align %s %u at %s", name, r->block, tg_text(n->j, r->lead));
  const char *terms = r->many * r->side > 1 ? "unroll" : "upcast";   /* a sum for each result, or one for each term */
  if (online) {
    const char *begin = r->lead ? tg_format(w->env, " %u at %s", r->block, tg_text(n->j, r->lead)) : "";
    tg_say(w, "online %s %u%s as %s.o %s.b", name, r->copies * at_once, begin, b, b);
    name = tg_format(w->env, "%s.b", b);
  } else if (!r->kept && r->extent > (int64_t)r->copies * at_once) {
    tg_say(w, "split %s %u as %s.o %s.b", name, r->copies * at_once, b, b);
    name = tg_format(w->env, "%s.b", b);
  }
  if (r->copies > 1) {
    tg_say(w, "split %s %u as %s.c %s.t", name, at_once, b, b);
    tg_say(w, "upcast %s.c", b);
    name = tg_format(w->env, "%s.t", b);
  }
  if (r->vector > 1) {
    tg_say(w, "split %s %u as %s.p %s.v", name, r->vector, b, b);
    tg_say(w, "%s %s.v", terms, b);
    name = tg_format(w->env, "%s.p", b);
  }
  if (r->across) {
    if (r->warps > 1) tg_say(w, "%s %s", reduction ? "group" : "local", name);
    return;
  }
  if (r->warps > 1) {
    tg_say(w, "split %s %u as %s.w %s.l", name, lanes, b, b);
    tg_say(w, "%s %s.w", reduction ? "group" : "local", b);
    name = tg_format(w->env, "%s.l", b);
  }
  tg_say(w, "lane %s", name);
}

static void spread_shared(const row_nest *r, tg_words *w, const tg_uop *range) {
  tg_nest *n = r->n;
  const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
  if (tg_iterations(range) > n->l->target->lanes) {
    tg_say(w, "split %s %u as %s.c %s.l", name, n->l->target->lanes, b, b);
    tg_say(w, "upcast %s.c", b);
    name = tg_format(w->env, "%s.l", b);
  }
  tg_say(w, "lane %s", name);
}

/* Has a word for another range of its axis scheduled it, too? A tile ties them. */
static bool is_tied(const row_nest *r, const tg_uop *range, const tg_uop *const *to, uint32_t n) {
  tg_axis axis = tg_nest_axis_sites(r->n, tg_device_name(r->n, range));
  for (uint32_t i = 0; i < axis.n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (axis.site[i].range == to[k]) return true;
  return false;
}

static bool stands_in(tg_job *j, const tg_uop *u, const tg_uop *in) {
  uint32_t count;
  const tg_uop **order = tg_toposort(j, in, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i] == u) return true;
  return false;
}

/* Does a range's axis reach beyond the row, to another statement of the program? A word for it is one for both, and may
 * have been said already. */
static bool reaches_out(const row_nest *r, const tg_uop *range) {
  tg_nest *n = r->n;
  tg_axis axis = tg_nest_axis_sites(n, tg_device_name(n, range));
  for (uint32_t i = 0; i < axis.n; i++) {
    if (!stands_in(n->j, axis.site[i].owner, r->body)) return true;
    for (uint32_t k = 0; k < n->s.sink->n; k++)
      if (n->s.sink->src[k] != n->top && stands_in(n->j, axis.site[i].owner, n->s.sink->src[k])) return true;
  }
  return false;
}

static void spread_row(const row_nest *r, tg_words *w) {
  const tg_uop *said[2 * NEST_MAX];
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->reductions + r->alongs; i++) {
    const tg_uop *range = i < r->alongs ? r->along[i] : r->range[i - r->alongs];
    if (is_tied(r, range, said, n) || (r->online && range == r->maximum)) continue;
    spread(r, w, range, i >= r->alongs);
    said[n++] = range;
  }
  for (uint32_t i = 0; i < r->shareds; i++) spread_shared(r, w, r->shared[i]);
}

static void say_words(const row_nest *r, tg_words *w, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = r->n;
  for (uint32_t i = 0; i < r->inners; i++) {
    const char *name = tg_device_name(n, r->inner[i]), *b = tg_nest_base(n, name);
    bool chains = r->floats[i] && r->many * r->side < CHAINS && tg_iterations(r->inner[i]) > CHAINS;
    if (chains && tg_iterations(r->inner[i]) % CHAINS == 0) {
      tg_say(w, "split %s %u as %s.o %s.c", name, CHAINS, b, b);
      tg_say(w, "upcast %s.c", b);
      name = tg_format(w->env, "%s.o", b);
    }
    tg_say(w, "unroll %s", name);
  }
  spread_row(r, w);
  int64_t rows = r->rows ? tg_iterations(r->rows) / r->side : 1;
  bool several = r->warps == 1 && !r->across && rows > (int64_t)n->l->target->threads * ROWS_A_GROUP &&
                 rows % ROWS_A_GROUP == 0;
  for (uint32_t d = depth - (r->alongs && !r->statements); d-- > 0;) {
    const char *name = tg_device_name(n, chain[d]->src[0]), *b = tg_nest_base(n, name);
    if (tg_range_kind(chain[d]->src[0]) != TG_LOOP) continue;
    if (chain[d]->src[0] == r->together) {
      tg_say(w, "upcast %s", name);
      continue;
    }
    if (r->side > 1 && chain[d]->src[0] == r->rows) {
      tg_say(w, "split %s %u as %s.r %s.s", name, r->side, b, b);
      tg_say(w, "upcast %s.s", b);
      name = tg_format(w->env, "%s.r", b);
    }
    if (chain[d]->src[0] == r->across) {
      tg_say(w, "split %s %u as %s.o %s.l", name, n->l->target->lanes, b, b);
      tg_say(w, "lane %s.l", b);
      name = tg_format(w->env, "%s.o", b);
    }
    if (several && chain[d]->src[0] == r->rows) {
      tg_say(w, "split %s %u as %s.b %s.w", name, ROWS_A_GROUP, b, b);
      tg_say(w, "local %s.w", b);
      name = tg_format(w->env, "%s.b", b);
    }
    tg_say(w, "global %s", name);
  }
}

/* Of which is the row? One of the innermost loop, of the loops inside of it, or (neither) of reductions alone. */
typedef enum { OF_LOOP, OF_STATEMENTS, OF_REDUCTIONS } row_form;

/* Does a tile of registers have an element for each of the row? */
static bool has_tile(const row_nest *r) {
  for (uint32_t i = 1; i < r->body->n && r->statements; i++)
    if (r->body->src[i]->op == TG_OP_DEFINE && r->body->src[i]->n) return true;
  return false;
}

static bool find_threads(row_nest *r, tg_nest *n, row_form form, const tg_uop *body, uint32_t depth,
                         const tg_uop *const *chain) {
  *r = (row_nest){.n = n, .body = body};
  if (form == OF_LOOP) {
    if (!depth || body->n != 2) return false;
    r->along[0] = body->src[0];
    r->store[r->alongs++] = body->src[1];
  }
  if (form == OF_STATEMENTS && !find_statements(r)) return false;
  if (!find_rows(r, depth, chain)) return false;
  for (uint32_t i = 0; i < r->reductions; i++)
    if (reaches_out(r, r->range[i])) return false;
  choose_threads(r);
  return r->kept || (!r->across && !has_tile(r));
}

static bool schedule_rows(tg_nest *n, row_form form, const tg_uop *body, uint32_t depth, const tg_uop *const *chain) {
  row_nest r;
  tg_words w = {.env = &n->j->env}, other = w;
  if (!find_threads(&r, n, form, body, depth, chain)) return false;
  say_words(&r, &w, depth, chain);
  if (tg_device_try(n, &w)) return true;
  if (!r.online) return false;
  r.online = NULL;   /* it is none */
  say_words(&r, &other, depth, chain);
  return tg_device_try(n, &other);
}

bool tg_device_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *top) {
  const tg_uop *body = depth ? chain[depth - 1] : top;
  return schedule_rows(n, OF_LOOP, body, depth, chain) || schedule_rows(n, OF_REDUCTIONS, body, depth, chain);
}

bool tg_device_rows_in_tiles(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  return schedule_rows(n, OF_STATEMENTS, chain[depth - 1], depth, chain);
}

/* Does a pass for both and one for what is stored take no longer than three with all cores, in parts, and two launches
 * more? */
static bool passes_pay(const row_nest *r, uint32_t rows) {
  const tg_target *t = r->n->l->target;
  double pass = (double)r->extent * r->bytes * r->streams / t->core_bytes, groups = 1, waves;
  if (!r->online || !t->core_bytes) return false;
  groups = r->results / (rows ? 1 : (double)r->extent);
  waves = groups < t->threads ? 1 : groups / t->threads;
  return 2 * pass * waves <= 3 * pass * groups / t->threads + 2 * tg_device_launch_cycles(t);
}

bool tg_device_keeps_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *top) {
  const tg_uop *body = depth ? chain[depth - 1] : top;
  row_nest r;
  if (find_threads(&r, n, OF_LOOP, body, depth, chain)) return r.kept || passes_pay(&r, 0);
  return find_threads(&r, n, OF_REDUCTIONS, body, depth, chain) && (r.kept || passes_pay(&r, 1));
}
