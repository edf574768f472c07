/* SPDX-License-Identifier: MIT
 * The schedule of a contraction: a sum of products in which some operand stands still while a row moves, and the others
 * while a
 * column moves. Columns, contiguous in the output, become vectors; a tile of rows x vectors stays in registers; the
 * panel
 * of the operand that the columns read is copied to be contiguous, transposed where its terms are side by side and not
 * its columns, and threads share the panels. */
#include <math.h>
#include "choose/nest.h"

enum { OPEN = 1024 };              /* a size that is open until the call counts as this */

typedef struct { uint32_t rows, vectors; double cost; } tile;

typedef struct {
  const tg_nest_loop *row, *column;
  const tg_nest_reduce *sum;
  const tg_uop *panel;             /* the load that moves with columns */
  bool across;                     /* contiguous along the terms: it must be copied */
  const tg_uop *tall;              /* the load that moves with rows */
  const char *row_name;            /* of the loop over rows, or of the rows of one task */
  int64_t rows;                    /* how many there are in it */
} roles;

/* Cycles of a tile for each term of its sums. */
static double tile_cycles(const tg_nest *n, uint32_t rows, uint32_t vectors, bool rows_conflict) {
  const tg_machine *m = &n->l->target->machine;
  double busy = fmax(rows * vectors * tg_nest_cycles(n, m->fma), (rows + vectors) * tg_nest_cycles(n, m->load));
  busy = fmax(busy, m->fma_latency);
  /* of rows that meet in one set, more than it holds come from the second cache, line by line */
  if (rows_conflict && rows > m->l1_ways) busy += rows * TG_CACHE_LINE / m->l2_bandwidth;
  return busy + 2 / m->issue;   /* the loop's end and counter */
}

/* Tiles of some rows, which follow the whole ones where sizes are open until the call. */
static uint32_t some_rows(uint32_t rows, uint32_t vectors) {
  uint32_t some = (8 + vectors - 1) / vectors;
  return some > rows / 2 ? rows / 2 : some;
}

/* Rows of the single vectors that are left of the columns. */
static uint32_t rows_of_rest(const tg_nest *n, const roles *r, bool rows_conflict) {
  uint32_t rows = n->registers > 16 ? 12 : n->registers > 5 ? n->registers - 4 : 1;
  uint32_t ways = (uint32_t)n->l->target->machine.l1_ways;
  if (rows_conflict && rows > ways) rows = ways ? ways : 1;
  return r->row->extent > 0 && rows > r->row->extent ? (uint32_t)r->row->extent : rows;
}

/* Cycles of all rows of a panel for each term. */
static double panel_cycles(const tg_nest *n, const roles *r, uint32_t rows, uint32_t vectors, bool rows_conflict) {
  int64_t m = r->row->extent;
  bool open = m < 0, whole = open && tg_divides(n->j, rows, tg_extent(r->row->range));
  uint32_t rest = !open ? (uint32_t)(m % rows) : whole ? 0 : rows / 2, some = some_rows(rows, vectors);
  double cycles = (double)((open ? OPEN : m) / rows) * tile_cycles(n, rows, vectors, rows_conflict);
  for (; open && some > 1 && rest >= some; rest -= some) cycles += tile_cycles(n, some, vectors, rows_conflict);
  for (; open && rest; rest--) cycles += tile_cycles(n, 1, vectors, rows_conflict);
  return rest ? cycles + tile_cycles(n, rest, vectors, rows_conflict) : cycles;
}

/* Cycles for each term and element, with what is left over at the edges. Of a size that is open until the call half of
 * a tile is left. */
static double tile_cost(const tg_nest *n, const roles *r, uint32_t rows, uint32_t vectors, bool rows_conflict) {
  int64_t m = r->row->extent, columns = r->column->extent, width = (int64_t)vectors * n->lanes, rest = columns % width;
  if (columns < 0) {
    rest = tg_divides(n->j, width, tg_extent(r->column->range)) ? 0 : width / 2;
    columns = OPEN / width * width + rest;
  }
  if (m < 0) m = OPEN / rows * rows + (tg_divides(n->j, rows, tg_extent(r->row->range)) ? 0 : rows / 2);
  double cycles = (double)(columns / width) * panel_cycles(n, r, rows, vectors, rows_conflict);
  if (rest)
    cycles += (double)((rest + n->lanes - 1) / n->lanes) *
              panel_cycles(n, r, rows_of_rest(n, r, rows_conflict), 1, rows_conflict);
  return cycles / ((double)m * (double)columns);
}

/* Values that all terms of all elements share, such as a factor: each has a register throughout. */
static uint32_t kept_values(const tg_nest *n, const roles *r) {
  uint32_t count, kept = 0;
  const tg_uop **order = tg_toposort(n->j, r->sum->reduce->src[0], &count);
  uint8_t *varies = tg_new(&n->j->env, uint8_t, n->j->uops.n + 1);
  uint8_t *seen = tg_new(&n->j->env, uint8_t, n->j->uops.n + 1);
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    varies[u->id] |= u == r->row->range || u == r->column->range || u == r->sum->range;
    for (uint32_t k = 0; k < u->n; k++) varies[u->id] |= varies[u->src[k]->id];
    for (uint32_t k = 0; k < u->n && varies[u->id]; k++) {
      const tg_uop *s = u->src[k];
      bool value = tg_is_float(s->type) && s->op != TG_OP_CONST && s->op != TG_OP_DEFINE;
      kept += value && !varies[s->id] && !seen[s->id];
      seen[s->id] = 1;
    }
  }
  return kept;
}

static tile choose_tile(const tg_nest *n, const roles *r, bool rows_conflict) {
  int64_t m = r->row->extent, columns = r->column->extent;
  uint32_t kept = kept_values(n, r);
  tile best = {1, 1, 1e30};
  for (uint32_t vectors = 1; vectors <= 4; vectors++) {
    for (uint32_t rows = 1; rows <= 16; rows++) {
      uint32_t room = rows * vectors + vectors + 1 + (rows * vectors > 1 ? kept : 0);
      if (room > n->registers || (m > 0 && rows > m)) continue;
      if (columns > 0 && vectors > 1 && (int64_t)(vectors * n->lanes) > columns) continue;
      double cost = tile_cost(n, r, rows, vectors, rows_conflict);
      if (cost < best.cost * 0.999) best = (tile){rows, vectors, cost};
    }
  }
  return best;
}

static bool is_product(const tg_uop *v) {
  while (v->op == TG_OP_CAST) v = v->src[0];
  return v->op == TG_OP_MUL;
}

/* The one dimension that iterations of the range are neighbours in, or the rank. */
static uint32_t dimension_of(tg_job *j, const tg_uop *load, const tg_uop *range) {
  uint32_t rank = tg_access_rank(load), found = rank;
  tg_linear t;
  for (uint32_t d = 0; d < rank; d++) {
    if (!tg_uses(j, load->src[1 + d], range)) continue;
    if (found < rank) return rank;
    tg_linear_of(j, load->src[1 + d], &t);
    bool neighbours = false;
    for (uint32_t i = 0; i < t.n; i++) neighbours |= t.atom[i] == range && t.coefficient[i] == 1;
    if (!neighbours) return rank;
    found = d;
  }
  return found;
}

/* Side by side along the terms, and of each column elsewhere: then the two change places in a copy. */
static bool is_across(tg_nest *n, const tg_uop *load, const roles *r) {
  uint32_t rank = tg_access_rank(load), column = dimension_of(n->j, load, r->column->range),
           term = dimension_of(n->j, load, r->sum->range);
  return column < rank && term < rank && column != term && tg_access_motion(n->j, load, r->sum->range) == TG_CONTIGUOUS;
}

static bool find_roles(tg_nest *n, roles *r) {
  tg_job *j = n->j;
  if (n->depth < 2 || n->stores.n != 1 || n->reductions.n != 1 || n->loop[n->depth - 1].end->n != 2) return false;
  r->sum = &n->reductions.data[0];
  tg_reduce_arg a = tg_reduce_info(r->sum->reduce);
  if (a.op != TG_OP_ADD || a.generic || a.in_order || !is_product(r->sum->reduce->src[0])) return false;
  for (uint32_t i = 0; i < n->depth; i++) {
    if (!n->loop[i].parallel || n->loop[i].members > 1 || !n->loop[i].extent_text) return false;
    if (tg_access_motion(j, n->stores.data[0], n->loop[i].range) == TG_CONTIGUOUS) r->column = &n->loop[i];
  }
  if (!r->column || !r->column->lockstep || tg_nest_axis_of(n, r->sum->name).members > 1) return false;
  uint32_t count;
  const tg_uop **order = tg_toposort(j, r->sum->reduce->src[0], &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_LOAD) continue;
    tg_motion m = tg_access_motion(j, order[i], r->column->range);
    bool across = m == TG_STRIDES && is_across(n, order[i], r);
    if ((m == TG_STRIDES && !across) || m == TG_BACKWARDS) return false;
    if (m == TG_CONTIGUOUS || across) {
      if (r->panel) return false;
      r->panel = order[i];
      r->across = across;
    }
  }
  for (uint32_t i = n->depth; i-- > 0 && r->panel;) { /* the innermost loop that the panel does not read */
    /* rows of one length, which their copies share */
    if (&n->loop[i] == r->column || !n->loop[i].lockstep || tg_uses(j, r->panel, n->loop[i].range)) continue;
    for (uint32_t k = 0; k < count && !r->row; k++) {
      if (order[k]->op != TG_OP_LOAD || order[k] == r->panel || !tg_uses(j, order[k], n->loop[i].range)) continue;
      r->row = &n->loop[i];
      r->tall = order[k];
    }
    if (r->row) break;
  }
  return r->row != NULL;
}

/* May the rows of the tall operand lie a multiple of a page apart, so that they share sets of the first cache? */
static bool rows_conflict(const tg_uop *load) {
  const tg_uop *define = tg_define_of(load->src[0]);
  uint32_t rank = tg_access_rank(load);
  if (!rank) return false;
  if (define->src[rank - 1]->op != TG_OP_CONST) return true;
  return define->src[rank - 1]->arg * tg_type_bytes(define->type) % 4096 == 0;
}

/* In the loop `outer`: rows of tiles, whole ones first. `columns` names what stands inside the rows. How many are
 * left over is known at launch at the latest: then some in tiles that keep the multipliers busy, the last ones
 * alone. */
static void tile_rows(tg_nest *n, const roles *r, const char *outer, uint32_t rows, uint32_t vectors,
                      const char *suffix) {
  const char *b = tg_format(&n->j->env, "%s%s", r->row->base, suffix);
  const char *name = tg_format(&n->j->env, "%s.%s", outer, r->row_name);
  int64_t m = r->rows, whole = m / rows * rows;
  if (rows == 1) return;
  if (m < 0 && !tg_divides(n->j, rows, tg_extent(r->row->range))) {
    uint32_t some = some_rows(rows, vectors);
    tg_nest_emit(n, some > 1 ? "split %s {%u, %u, 1} as %s.o %s.r" : "split %s {%u, %u} as %s.o %s.r", name, rows, some,
                 b, b);
    tg_nest_emit(n, "upcast %s.r", b);
    return;
  }
  if (m > 0 && m % rows) {
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", name, (long long)whole, b, b);
    name = tg_format(&n->j->env, "%s.m", b);
  }
  tg_nest_emit(n, "split %s %u as %s.o %s.r", name, rows, b, b);
  tg_nest_emit(n, "upcast %s.r", b);
  if (m > 0 && m % rows > 1) tg_nest_emit(n, "upcast %s.e", b);
}

static void order_outside(tg_nest *n, const roles *r) {
  tg_str t = tg_str_new(&n->j->env);
  bool changes = false, column_seen = false;
  for (uint32_t i = 0; i < n->depth; i++) { /* other loops, the columns, the rows */
    const tg_nest_loop *l = &n->loop[i];
    if (l == r->row || l == r->column) {
      column_seen |= l == r->column;
      changes |= l == r->row && !column_seen;
      continue;
    }
    changes |= column_seen || (i && &n->loop[i - 1] == r->row);
    tg_str_printf(&t, " %s", l->name);
  }
  if (changes) tg_nest_emit(n, "order%s %s %s", t.data ? t.data : "", r->column->name, r->row->name);
}

/* Too few columns for all threads: tasks are blocks of rows. */
static bool tasks_of_rows(tg_nest *n, roles *r, tile t, int64_t width) {
  int64_t columns = r->column->extent, rows = r->rows, want = 4 * (int64_t)n->l->target->threads;
  if (n->depth != 2 || !n->threads || n->work < TG_THREAD_WORK || n->l->target->threads < 2 || columns < 0 ||
      columns / width >= want / 2)
    return false;
  int64_t chunk = rows / want;
  while (chunk >= 4 * t.rows && rows % chunk) chunk--;
  if (chunk < 4 * t.rows) return false;
  const char *b = r->row->base;
  tg_nest_emit(n, "split %s %lld as %s.t %s.b", r->row->name, (long long)chunk, b, b);
  r->row_name = tg_format(&n->j->env, "%s.b", b);
  r->rows = chunk;
  return true;
}

/* Is the panel's buffer read elsewhere in the sum, as in A' A? Then the copy is of what the one access reads. */
static bool read_twice(const tg_nest *n, const roles *r) {
  uint32_t loads = 0;
  for (uint32_t i = 0; i < n->loads.n; i++)
    loads += tg_buffer_ordinal(n->loads.data[i]->src[0]) == tg_buffer_ordinal(r->panel->src[0]);
  return loads > 1;
}

bool tg_nest_keeps_blocks(const tg_nest *n, const tg_nest_reduce *sum) {
  const tg_uop *store = sum->store, *reduce = sum->reduce, *value = tg_stored(store),
               *define = tg_define_of(store->src[0]);
  if (store->arg & TG_ATOMIC || define->type != reduce->type || tg_reduce_info(reduce).ranges != 1) return false;
  for (uint32_t i = 0; i < n->loads.n; i++)
    if (tg_define_of(n->loads.data[i]->src[0]) == define &&
        !(value->op == TG_OP_ADD && (value->src[0] == n->loads.data[i] || value->src[1] == n->loads.data[i])))
      return false;
  return true;
}

/* Terms of the sum in a panel: all there may be, or as many as a part of the second cache holds; 0: no panel. */
static int64_t panel_terms(const tg_nest *n, const roles *r, tile t, double width) {
  double row = width * tg_type_bytes(r->panel->type), whole = 4e6;
  tg_i128 most = tg_bounds_of(n->j, tg_extent(r->sum->range)).hi;
  if (!n->l->target->l2 || tg_reduce_info(r->sum->reduce).ranges != 1 || !r->sum->extent_text) return 0;
  /* the copy of one access is of what it reads in each term: nothing where it does not move, as in a sum of one */
  if (read_twice(n, r) && !tg_uses(n->j, r->panel, r->sum->range)) return 0;
  /* without a copy each sum would run along the terms alone */
  if (r->rows >= 0 && r->rows < (r->across ? 8 : 4 * (int64_t)t.rows)) return 0;
  if (row * (double)most < whole) return INT64_MAX;
  if (r->sum->extent >= 0 || !tg_nest_keeps_blocks(n, r->sum)) return 0;
  int64_t terms = 64;
  while (row * (double)terms * 2 <= (double)n->l->target->l2 / 4) terms *= 2;
  return terms;
}

/* The loop at whose start a panel is copied. A sum of a length that only a launch knows is taken in blocks; what was
 * added so far waits in the output. */
static const char *panel_loop(tg_nest *n, const roles *r, int64_t terms, const char *outer, const char *suffix) {
  if (!terms || terms == INT64_MAX) return outer;
  const char *s = tg_format(&n->j->env, "%s%s", r->sum->base, suffix);
  tg_nest_emit(n, "split %s.%s %lld clip as %s.c %s.b", outer, r->sum->name, (long long)terms, s, s);
  tg_nest_emit(n, "order %s.c %s.%s", s, outer, r->row_name);
  return tg_format(&n->j->env, "%s.c", s);
}

/* A layout in which the columns' dimension comes last; "" where it does anyway. */
static const char *columns_last(tg_nest *n, const roles *r) {
  uint32_t rank = tg_access_rank(r->panel), column = 0;
  tg_str layout = tg_str_new(&n->j->env);
  while (column < rank && !tg_uses(n->j, r->panel->src[1 + column], r->column->range)) column++;
  if (column + 1 >= rank) return "";
  tg_str_puts(&layout, "[");
  for (uint32_t d = 0; d < rank; d++)
    if (d != column) tg_str_printf(&layout, "d%u, ", d);
  tg_str_printf(&layout, "d%u]", column);
  return layout.data;
}

/* As many terms as a vector has lanes are transposed at a time. column, term: of the copy's ranges. */
static void transpose(tg_nest *n, const char *copy, uint32_t column, uint32_t term, int64_t width) {
  if (width > n->lanes) tg_nest_emit(n, "lane %s.%u %u", copy, column, n->lanes);
  else tg_nest_emit(n, "lane %s.%u", copy, column);
  tg_nest_emit(n, "split %s.%u {%u, 1} as %s.pt %s.pu", copy, term, n->lanes, copy, copy);
  if (width > n->lanes) tg_nest_emit(n, "order %s.%u.0 %s.pt %s.pu", copy, column, copy, copy);
  else tg_nest_emit(n, "order %s.pt %s.pu", copy, copy);
  tg_nest_emit(n, "unroll %s.pu", copy);
}

/* A panel, copied at the start of loop `at`: what it reads of the buffer, before the rows are tiled what one access
 * reads along `terms` and `columns`. */
typedef struct { const char *at, *terms, *columns, *name; int64_t width; uint32_t vectors; } copied;

static void panel(tg_nest *n, const roles *r, copied c) {
  const char *source = tg_buffer_info(n->j, r->panel->src[0])->name,
             *copy = tg_format(&n->j->env, "%s.%s", source, c.name);
  uint32_t column = tg_access_rank(r->panel) - 1, term = 0;
  if (c.terms) {
    column = 1;
    tg_nest_emit(n, "stage %s at %s of %s %s as %s[d0, d1]", source, c.at, c.terms, c.columns, copy);
  } else {
    term = dimension_of(n->j, r->panel, r->sum->range);
    term -= term > dimension_of(n->j, r->panel, r->column->range);
    tg_nest_emit(n, "stage %s at %s as %s%s", source, c.at, copy, columns_last(n, r));
  }
  const char *last = tg_format(&n->j->env, "%s.%u", copy, column);
  if (r->across) transpose(n, copy, column, term, c.width);
  else tg_nest_vector(n, last, last, c.width, NULL, c.vectors, true);
}

/* The terms of the sum in the loop at whose start a panel is copied. */
static const char *panel_sum(tg_nest *n, const roles *r, int64_t terms, const char *outer, const char *suffix) {
  if (terms == INT64_MAX) return tg_format(&n->j->env, "%s.%s", outer, r->sum->name);
  return tg_format(&n->j->env, "%s%s.b", r->sum->base, suffix);
}

bool tg_nest_contraction(tg_nest *n) {
  roles r = {0};
  if (!find_roles(n, &r)) return false;
  int64_t columns = r.column->extent;
  if (columns > 0 && columns < n->lanes) return false;
  if (!TG_CHOOSE(n, "tile", 1, 0, 1)) return false;
  r.rows = r.row->extent;
  r.row_name = tg_range_name(&n->s, r.row->range);
  tile t = choose_tile(n, &r, rows_conflict(r.tall));
  t.rows = (uint32_t)TG_CHOOSE(n, "rows", t.rows, 1, 2, 4, 6, 8, 10, 12, 14);
  t.vectors = (uint32_t)TG_CHOOSE(n, "vectors", t.vectors, 1, 2, 3, 4);
  if (!t.rows || !t.vectors || (r.rows > 0 && t.rows > r.rows) ||
      (columns > 0 && (int64_t)t.vectors * n->lanes > columns))
    t = choose_tile(n, &r, rows_conflict(r.tall));
  int64_t width = (int64_t)t.vectors * n->lanes, held = panel_terms(n, &r, t, (double)width);
  if (r.across && !held) return false;
  const char *b = r.column->base, *name = r.column->name;
  bool by_rows = n->l->target->threads > 1 && TG_CHOOSE(n, "tasks", 1, 0, 1) && tasks_of_rows(n, &r, t, width);
  if (!by_rows) order_outside(n, &r);
  else tg_nest_emit(n, "order %s %s", name, r.row_name);
  bool rest = columns < 0 ? !tg_divides(n->j, width, tg_extent(r.column->range)) : columns % width != 0;
  if (rest && columns < 0)
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.m %s.e", name, r.column->extent_text, (long long)width,
                 (long long)width, b, b);
  else if (rest) tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", name, (long long)(columns / width * width), b, b);
  if (rest) name = tg_format(&n->j->env, "%s.m", b);
  const char *outer = tg_format(&n->j->env, "%s.o", b);
  tg_nest_emit(n, "split %s %lld as %s %s.r", name, (long long)width, outer, b);
  tg_nest_emit(n, "order %s.%s %s.r", outer, r.row_name, b);
  int64_t terms = held;
  if (terms) terms = TG_CHOOSE(n, "panel", terms == INT64_MAX ? 1 : terms, 0, 1, 128, 256, 384, 512);
  if (!terms && r.across) terms = held;
  if (terms == 1) terms = INT64_MAX;
  if (terms > 1 && terms != INT64_MAX && !tg_nest_keeps_blocks(n, r.sum)) terms = INT64_MAX;
  bool twice = read_twice(n, &r);
  copied c = {panel_loop(n, &r, terms, outer, ""), NULL, NULL, "panel", width, t.vectors};
  if (terms && twice) {
    c.terms = panel_sum(n, &r, terms, outer, "");
    c.columns = tg_format(&n->j->env, "%s.r", b);
    panel(n, &r, c);
  }
  tile_rows(n, &r, outer, t.rows, t.vectors, "");
  tg_nest_emit(n, "split %s.r %u as %s.u %s.v", b, n->lanes, b, b);
  if (t.vectors > 1) tg_nest_emit(n, "upcast %s.u", b);
  tg_nest_emit(n, "lane %s.v", b);
  if (rest) { /* the columns that are left: single vectors, the last one masked */
    uint32_t rows = rows_of_rest(n, &r, rows_conflict(r.tall));
    tg_nest_emit(n, "split %s.e %u as %s.p %s.w", b, n->lanes, b, b);
    tg_nest_emit(n, "order %s.p.%s %s.w", b, r.row_name, b);
    bool whole = columns < 0 || columns % width >= n->lanes || r.across;   /* less than a vector is read as it lies */
    const char *single = tg_format(&n->j->env, "%s.p", b);
    copied e = {panel_loop(n, &r, whole ? terms : 0, single, "e"), NULL, NULL, "rest", n->lanes, 1};
    if (terms && whole && twice) {
      e.terms = panel_sum(n, &r, terms, single, "e");
      e.columns = tg_format(&n->j->env, "%s.w", b);
      panel(n, &r, e);
    }
    tile_rows(n, &r, single, rows, 1, "e");
    tg_nest_emit(n, "lane %s.w", b);
    if (terms && whole && !twice) panel(n, &r, e);
  }
  if (terms && !twice) panel(n, &r, c);
  /* a large tile hides the loop's own work: more copies only cost time to compile */
  uint32_t unroll = t.rows * t.vectors >= 16 ? 2 : 4;
  unroll = (uint32_t)TG_CHOOSE(n, "unroll", unroll, 1, 2, 4, 8);
  /* the panel's vectors of all copies are loaded first */
  if (!unroll || t.vectors * (t.rows + unroll) + 1 > n->registers) unroll = 1;
  if (r.sum->extent > 0 && r.sum->extent % unroll == 0 && r.sum->extent > unroll && unroll > 1) {
    tg_nest_emit(n, "split %s %u as %s.o %s.i", r.sum->name, unroll, r.sum->base, r.sum->base);
    tg_nest_emit(n, "unroll %s.i", r.sum->base);
  }
  const char *shared = outer; /* the outermost loop now */
  for (uint32_t i = n->depth; i-- > 0;)
    if (&n->loop[i] != r.row && &n->loop[i] != r.column) shared = n->loop[i].name;
  if (by_rows) shared = tg_format(&n->j->env, "%s.t", r.row->base);
  if (n->threads && n->work >= TG_THREAD_WORK) tg_nest_emit(n, "thread %s", shared);
  return true;
}
