/* SPDX-License-Identifier: MIT
 * What a sketch takes at least under its knobs, in cycles of one thread, in closed form: what the tiles and what they
 * leave keep busy of the machine's units, copies and transposes, and the bytes that tiles read from each cache. Columns
 * of the machine's row and the sizes of its caches are all that it knows. It takes less than a microsecond, orders
 * thousands of points, and leaves a few to the cost model, whose price it is never above. */
#include <math.h>
#include "gemm/sketch.h"

typedef tg_gemm_view view;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

/* ---- the core ---- */

/* Cycles that kinds of units are busy, and instructions. */
typedef struct { double math, loads, stores, shuffles, instructions; } work;

/* Units work side by side, though not perfectly: the norm of src/model/cost.c. */
static double cycles_of(const view *v, work w) {
  const double part[] = {w.math + w.shuffles / 2, w.loads, w.stores, w.shuffles, w.instructions / v->m->issue};
  double sum = 0;
  for (uint32_t i = 0; i < TG_COUNT(part); i++) sum += part[i] * part[i] * part[i];
  return cbrt(sum);
}

static double at(const view *v, const double rate[TG_MACHINE_WIDTHS], int64_t vl) {
  return tg_machine_cycles(rate, (double)(vl * v->size));
}

/* Vectors of vl lanes for these columns. Fewer columns than lanes are a vector of their own, as wide as they need. */
static double vectors_of(const view *v, int64_t columns, int64_t vl) {
  int64_t lanes = 1;
  while (lanes < columns) lanes *= 2;
  return columns < vl ? at(v, v->m->fma, lanes) / at(v, v->m->fma, vl) : (double)up(columns, vl);
}

/* A term of a tile: mr elements of the rows' operand, each for all of its lanes, and nu vectors of the columns'. What
 * is not of the sum's type is converted as it is loaded (columns), or before it is spread (rows). */
static work term_of_tile(const view *v, int64_t mr, double n, int64_t vl) {
  const tg_machine *m = v->m;
  double r = (double)mr, converted = (v->row_converted ? r : 0) + (v->column_converted ? n : 0);
  /* numbers that no multiply-add takes as a lane go to all lanes by an instruction of their own */
  double copies = v->t->lane_bytes && vl * v->size > v->t->lane_bytes ? r : 0;
  return (work){.math = r * n * at(v, m->fma, vl),
                .loads = r / m->load[0] + n * at(v, m->load, vl),
                .shuffles = converted / m->convert + copies * at(v, m->shuffle, vl),
                .instructions = r * n + n + converted + copies};
}

/* What is done together: the units of both are busy beside each other. */
static work plus(work a, double times, work b) {
  return (work){a.math * times + b.math, a.loads * times + b.loads, a.stores * times + b.stores,
                a.shuffles * times + b.shuffles, a.instructions * times + b.instructions};
}

/* Loads in each tile of what all tiles of a loop read: of `most` those that registers cannot keep beside the tile. */
static double again(const view *v, double most, double tile) {
  return fmin(most, fmax(0, most + tile - v->t->vector_registers));
}

/* What a tile's sums take once: they are stored, and read first if they are added to. */
static work sums_of_tile(const view *v, int64_t mr, double vectors, int64_t vl, bool read) {
  double n = (double)mr * vectors;
  return (work){
      .stores = n * at(v, v->m->store, vl), .loads = read ? n * at(v, v->m->load, vl) : 0, .instructions = n};
}

/* Are the terms of a tile a loop? Once around is none. */
static bool loops(double terms, double unrolled) { return terms >= 2 * unrolled; }

/* Cycles of a tile with all its terms, `unrolled` at a time: a loop, if there are more. sums: accumulators for each of
 * its vectors. From one iteration to the next a chain of additions is as long as the terms that it has; without a loop
 * other tiles are computed beside it. Terms that fill no iteration come behind the loop, with what is done once. */
static double tile_of(const view *v, work term, double terms, double unrolled, double sums, work once) {
  if (!loops(terms, unrolled)) return cycles_of(v, plus(term, terms, once));
  double looped = floor(terms / unrolled) * unrolled;
  return looped * fmax(cycles_of(v, term), v->m->fma_latency / sums) + cycles_of(v, plus(term, terms - looped, once)) +
         v->m->mispredict / 2;
}

/* Too few registers: what is over is loaded again in each term, and passes through memory. */
static double spilled(const view *v, int64_t registers) {
  int64_t over = registers - v->t->vector_registers;
  return over > 0 ? (double)over * tg_machine_cycles(v->m->store, v->t->vector_bytes) : 0;
}

/* The work of a copy of so many vectors. turned: blocks of vl by vl are transposed in registers, by as many shuffles
 * for each vector as its lanes have binary digits. */
static work copy_of(const view *v, double vectors, int64_t vl, bool turned, bool converted) {
  double digits = turned ? log2((double)vl) : 0;
  return (work){.loads = vectors * at(v, v->m->load, vl),
                .stores = vectors * at(v, v->m->store, vl),
                .shuffles = vectors * (digits * at(v, v->m->shuffle, vl) + (converted ? 1 / v->m->convert : 0)),
                .instructions = vectors * (2 + digits + converted)};
}

/* ---- memory ---- */

/* Cycles to read so many bytes that were last touched `between` bytes ago. */
static double from(const view *v, double bytes, double between) {
  return between <= v->l1 ? 0
         : between <= v->l2 ? bytes / v->m->l2_bandwidth
         : between <= v->l3 ? bytes / v->m->l3_bandwidth
                            : bytes / v->m->memory_bandwidth;
}

/* Cycles in which arithmetic waits for what memory sends: the starts of runs of `run` bytes, unless instructions
 * prefetch them. What was touched twice the last cache ago is surely gone. */
static double waits(const view *v, double bytes, double between, double run) {
  run = fmin(4096, fmax(TG_CACHE_LINE, run));
  return between <= 2 * v->l3 ? 0 : bytes / run * fmin(v->m->memory_latency, run / v->m->memory_bandwidth);
}

/* Cycles in which stores of strips, each `strip` columns wide, wait for each run's first line, one behind another;
 * `between`: bytes since C was last touched. What was touched twice a cache ago is surely not in it. Where a strip
 * leaves no line of C out, its rows are one run; of few rows each goes on in the next strip. */
static double stored(const view *v, double between, int64_t strip) {
  bool on = (double)(v->columns - strip) * v->c_size < TG_CACHE_LINE || (double)v->rows <= v->m->streams;
  double run = on ? INFINITY : (double)strip * v->c_size;
  double latency = between <= 2 * v->l1   ? 0
                   : between <= 2 * v->l2 ? v->m->l2_latency
                   : between <= 2 * v->l3 ? v->m->l3_latency
                                          : v->m->memory_latency;
  return (double)(v->rows * v->columns) * v->c_size / fmin(4096, fmax(TG_CACHE_LINE, run)) * latency;
}

static double all_bytes(const view *v) {
  return (double)(v->rows * v->terms) * v->row_size + (double)(v->columns * v->terms) * v->column_size +
         (double)(v->rows * v->columns) * v->c_size;
}

/* Core and memory, as src/model/cost.c puts them together. */
static double together(double core, double memory) { return pow(pow(core, 4) + pow(memory, 4), 0.25); }

/* ---- tiles of rows ---- */

enum { SOME = 8 };
typedef struct { int64_t mr, times; } some_rows;

/* Tiles of mr, then powers of two. */
static int list_of(int64_t rows, int64_t mr, some_rows out[SOME]) {
  int n = 0;
  int64_t power = 1;
  if (rows >= mr) out[n++] = (some_rows){mr, rows / mr};
  while (power * 2 < mr) power *= 2;
  for (rows %= mr; rows && n < SOME; rows %= power, power /= 2)
    if (rows >= power) out[n++] = (some_rows){power, rows / power};
  return n;
}

/* Tiles of mr, and one of what they leave. */
static int rest_of(int64_t rows, int64_t mr, some_rows out[SOME]) {
  int n = 0;
  if (rows >= mr) out[n++] = (some_rows){mr, rows / mr};
  if (rows % mr) out[n++] = (some_rows){rows % mr, 1};
  return n;
}

/* ---- sketches ---- */

static int64_t knob(const tg_kit_choice *c, const char *name, int64_t otherwise) {
  return tg_kit_knob_of(c, name, otherwise);
}

/* Nothing is copied but columns that lie along k: all rows of nu vectors, then the next columns. */
double tg_gemm_bound_direct(const view *v, const tg_kit_choice *c) {
  some_rows list[SOME];
  int64_t vl = knob(c, "VL", 1), nu = knob(c, "NU", 1), mr = knob(c, "MR", 1), wide = nu * vl;
  bool rows_outside = knob(c, "ROWS", 0) && !v->o.column_k;
  double uk = (double)knob(c, "UK", 1), sums = (double)knob(c, "SUMS", 1), terms = (double)v->terms,
         unrolled = uk > 0 ? fmax(uk, sums) : terms, core = 0, memory = 0,
         strips[2] = {(double)(v->columns / wide), v->columns % wide ? 1 : 0};
  int n = v->known ? rest_of(v->rows, mr, list) : list_of(v->rows, mr, list);
  for (int part = 0; part < 2; part++) {
    int64_t vectors = part ? up(v->columns % wide, vl) : nu;
    double strip = terms * (double)(part ? v->columns % wide : wide) * v->column_size, tiles = 0;
    for (int i = 0; i < n && strips[part] > 0; i++) {
      double wide_n = part ? vectors_of(v, v->columns % wide, vl) : (double)nu, tile = (double)(list[i].mr * vectors);
      work term = term_of_tile(v, list[i].mr, wide_n, vl),
           once = sums_of_tile(v, list[i].mr, wide_n, vl, v->reads_c);
      term.instructions += uk > 0 ? 2 / uk : 0;
      /* of several sums each term adds to one */
      if (loops(terms, unrolled))
        term.loads += spilled(v, (int64_t)sums * list[i].mr * vectors + vectors + 1) / sums;
      else {   /* the sums of an element are one as soon as it is done; what other tiles read as well is in registers */
        once.loads += spilled(v, list[i].mr * vectors + vectors + 1);
        double columns_n = terms * wide_n, rows_n = terms * (double)list[i].mr;
        if (!rows_outside) once.loads -= (columns_n - again(v, columns_n, tile)) * at(v, v->m->load, vl);
        if (rows_outside || (n == 1 && list[0].times == 1))
          once.loads -= (rows_n - again(v, rows_n, tile)) / v->m->load[0];
      }
      double each = tile_of(v, term, terms, unrolled, sums, once);
      core += strips[part] * (double)list[i].times * each;
      tiles += (double)list[i].times;
    }
    /* read by one tile after another */
    if (!rows_outside) memory += strips[part] * (tiles - 1) * from(v, strip, strip);
    if (v->o.column_k && strips[part] > 0)
      core += strips[part] * cycles_of(v, copy_of(v, terms * (double)vectors, vl, true, v->column_converted));
  }
  double all = all_bytes(v), columns_all = (double)(v->columns * v->terms) * v->column_size,
         rows_all = (double)(v->rows * v->terms) * v->row_size, rows_run = terms * v->row_size, wait = 0;
  bool few = terms <= v->m->streams || v->o.column_k;   /* rows of columns, so that runs go on from strip to strip */
  memory += from(v, columns_all, all) + from(v, rows_all, all) +
            stored(v, all, rows_outside ? v->columns : smaller(wide, v->columns));
  if (rows_outside) memory += ((double)up(v->rows, mr) - 1) * from(v, columns_all, columns_all);
  else memory += (strips[0] - 1) * from(v, rows_all, rows_all);
  wait += waits(v, columns_all, all, few ? INFINITY : (double)wide * v->column_size);
  if (!knob(c, "AHEAD", 0)) wait += waits(v, rows_all, all, rows_run);
  if (!rows_outside) wait += fmax(0, strips[0] - 1) * waits(v, rows_all, rows_all, rows_run);
  return together(core, fmax(0, memory)) + wait;
}

/* Panels of columns are copied once for all rows, or for each group of rows; rows are copied as well (both), or read in
 * place. */
static double panels(const view *v, const tg_kit_choice *c, bool both) {
  some_rows list[SOME];
  int64_t vl = knob(c, "VL", v->lanes), nu = knob(c, "NU", 1), mr = knob(c, "MR", 1), kc = knob(c, "KC", v->terms),
          wide = nu * vl, of = smaller(kc, v->terms), groups = 1;
  double uk = (double)knob(c, "UK", 1), panels_n = (double)up(v->columns, wide), blocks = (double)up(v->terms, kc),
         terms = (double)v->terms / blocks,
         core = 0, memory = 0, panel = (double)(of * smaller(wide, v->columns)) * v->packed_size,
         row_bytes = (double)(v->rows * v->terms) * v->row_size;
  /* each tile of rows passes all panels of a block before the next one does; half, since the price finds some of what
   * is a little larger than a cache in it */
  double block = panel * fmin((double)knob(c, "NB", 1), panels_n);
  bool grouped = knob(c, "GROUPED", 0);
  if (grouped) groups = up(up(v->rows, mr), knob(c, "MB", 1));
  view w = *v;
  w.column_converted = false, w.row_converted = v->row_converted && !both;
  /* each panel is computed as a whole, the last one too, unless it is the only one */
  int64_t vectors = v->columns < wide ? up(v->columns, vl) : nu;
  double wide_n = v->columns < wide ? vectors_of(v, v->columns, vl) : (double)nu;
  int n = list_of(v->rows, mr, list);
  /* lines of the next tile's rows that a round of the loop prefetches: one, or more where they are longer */
  double asked = knob(c, "AHEAD", 0) ? fmax(1, (double)mr * uk * v->row_size / TG_CACHE_LINE) : 0;
  for (int i = 0; i < n; i++) {
    work term = term_of_tile(&w, list[i].mr, wide_n, vl);
    if (knob(c, "SIDE", 0)) term.loads -= (double)list[i].mr * (1 - 1 / (double)vl) / v->m->load[0];
    term.instructions += (2.0 + asked) / uk;
    term.loads += spilled(v, list[i].mr * vectors + vectors + 1) + asked / uk / v->m->load[0];
    double first = tile_of(v, term, terms, uk, 1, sums_of_tile(v, list[i].mr, wide_n, vl, v->reads_c)),
           other = tile_of(v, term, terms, uk, 1, sums_of_tile(v, list[i].mr, wide_n, vl, true));
    core += (double)list[i].times * panels_n * (first + (blocks - 1) * other);
    memory += (double)list[i].times * blocks *
              from(v, (double)v->columns * terms * v->packed_size,
                   fmax(panel, block / 2) + (double)(list[i].mr * of) * v->row_size);
  }
  double copies = (double)(v->terms * up(v->columns, vl)) * (double)groups;
  if (!v->p->panel) core += cycles_of(v, copy_of(v, copies, vl, v->o.column_k, v->column_converted));
  /* how often all rows pass, and where they are by then */
  double passes = (double)up((int64_t)panels_n, knob(c, "NB", 1)),
         again = grouped ? row_bytes / (double)groups : row_bytes;
  if (both) {
    double rows = (double)(v->rows * up(v->terms, vl)) * (grouped ? 1 : passes);
    core += cycles_of(v, copy_of(v, rows, vl, !v->o.row_k, v->row_converted));
  }
  memory += passes * from(v, row_bytes, again + panel) +
            from(v, (double)(v->columns * v->terms) * v->column_size, all_bytes(v)) * (double)groups +
            (2 * blocks - 1) * from(v, (double)(v->rows * v->columns) * v->c_size, all_bytes(v));
  double wait = 0;
  if (!knob(c, "AHEAD", 0))
    wait += waits(v, row_bytes, all_bytes(v), (double)of * v->row_size) +
            (passes - 1) * waits(v, row_bytes, again + panel, (double)of * v->row_size);
  if (!v->p->panel && !v->o.column_k && !knob(c, "NEXT", 0))
    wait += (double)groups * waits(v, (double)(v->columns * v->terms) * v->column_size, all_bytes(v),
                                   (double)(wide * knob(c, "NB", 1)) * v->column_size);
  return together(core, memory) + wait;
}

double tg_gemm_bound_panel(const view *v, const tg_kit_choice *c) { return panels(v, c, false); }
double tg_gemm_bound_packed(const view *v, const tg_kit_choice *c) { return panels(v, c, true); }

/* The large operand is read once, a block of terms at a time; sums wait in C from block to block. */
double tg_gemm_bound_stream(const view *v, const tg_kit_choice *c) {
  some_rows list[SOME];
  int64_t vl = knob(c, "VL", 1), nu = knob(c, "NU", 1), mr = knob(c, "MR", 1), wide = nu * vl;
  int64_t kc = v->o.scattered ? v->terms : smaller(knob(c, "KC", 8), v->terms);
  double blocks = (double)up(v->terms, kc), terms = (double)v->terms / blocks, core = 0,
         uk = v->o.column_k ? (double)smaller(vl, kc) : (double)smaller(knob(c, "UK", 1), kc),
         tiles = (double)(v->columns / wide) +
                 (v->columns % wide ? vectors_of(v, v->columns % wide, vl) / (double)nu : 0),
         bytes = (double)(v->columns * v->terms) * v->column_size;
  int n = list_of(v->rows, mr, list);
  for (int i = 0; i < n; i++) {
    work term = term_of_tile(v, list[i].mr, (double)nu, vl),
         once = sums_of_tile(v, list[i].mr, (double)nu, vl, v->reads_c);
    term.instructions += 2 / uk;
    term.loads += spilled(v, list[i].mr * nu + nu + 1);
    if (v->o.column_k) {   /* transposed in registers, for each tile of rows: blocks of uk terms, and what they leave */
      double left = fmod(terms, uk), digits = (terms - left) * log2((double)vl) + left * log2(fmax(1, left));
      term.shuffles += (double)nu * digits / terms * at(v, v->m->shuffle, vl);
    }
    if (v->o.scattered) {   /* element by element, or a few vectors where lines of C are as short */
      double elements = (double)(list[i].mr * wide), each = 1 / v->m->store[0] + v->m->insert_lane,
             near = v->rows <= TG_MOST_STEP ? (double)v->rows * at(v, v->m->store, vl) / (double)vl : each;
      once = (work){.stores = elements * fmin(each, near),
                    .instructions = near < each ? elements / (double)vl : 2 * elements};
    }
    double first = tile_of(v, term, terms, uk, 1, once);
    if (v->o.scattered) first *= (double)v->columns / (tiles * (double)wide);
    core += tiles * (double)list[i].times *
            (first + (blocks - 1) * tile_of(v, term, terms, uk, 1, sums_of_tile(v, list[i].mr, (double)nu, vl, true)));
  }
  double near = terms * (double)smaller(wide, v->columns) * v->column_size;   /* all rows pass a tile of columns */
  double run = (double)kc <= v->m->streams ? (double)(wide * knob(c, "NB", 1)) : (double)wide, wait = 0;
  if (!v->o.column_k && !v->o.scattered && !knob(c, "AHEAD", 0))
    wait = waits(v, bytes, all_bytes(v), run * v->column_size);
  return together(core, from(v, bytes, all_bytes(v)) + ((double)up(v->rows, mr) - 1) * from(v, bytes, near)) + wait;
}

/* Vectors along k: a tile has mr by nc sums of a vector each, whose lanes are added up at the end of each block. */
double tg_gemm_bound_dot(const view *v, const tg_kit_choice *c) {
  some_rows list[SOME];
  int64_t vl = knob(c, "VL", 1), nc = knob(c, "NC", 1), mr = knob(c, "MR", 1), kc = knob(c, "KC", 0),
          blocks = kc ? up(v->terms, kc) : 1, of = up(v->terms, blocks);
  double core = 0, bytes = (double)(v->columns * v->terms) * v->column_size, tiles = 0,
         block = (double)(smaller(knob(c, "NB", 1) * nc, v->columns) * of) * v->column_size;
  tg_gemm_rest rest = v->known ? tg_gemm_dot_rest(of, vl, mr, nc) : GEMM_REST_ONE_BY_ONE;
  if (kc) rest = of % vl ? GEMM_REST_BEHIND : GEMM_NO_REST;
  view w = *v;
  if (kc) w.row_converted = false;
  int n = list_of(v->rows, mr, list);
  for (int i = 0; i < n; i++) tiles += (double)list[i].times;
  for (int i = 0; i < n; i++)
    for (int part = 0; part < 2; part++) {
      int64_t m = list[i].mr, wide = part && !kc ? 1 : nc, left = v->columns % nc,
              times = !part ? v->columns / nc : kc ? left != 0 : left;
      bool whole = rest == GEMM_REST_UNROLLED ||
                   (!kc && v->known && (double)(up(of, vl) * m * wide) <= TG_GEMM_DOT_WHOLE);
      double vectors = rest == GEMM_REST_UNROLLED ? vectors_of(v, of, vl) : (double)(of / vl);
      double sums = (double)(m * wide), lanes = of < vl ? (double)of : (double)vl, group = fmin(sums, lanes);
      double adds = (group - 1 + log2(lanes / group)) / group + 1 / group;
      work term = {.math = sums * at(v, v->m->fma, vl),
                   .loads = (double)(m + wide) * at(v, v->m->load, vl),
                   .shuffles =
                       ((w.row_converted ? (double)m : 0) + (w.column_converted ? (double)wide : 0)) / v->m->convert,
                   .instructions = sums + (double)smaller(m, wide) + 2};
      term.loads += spilled(v, m * wide + smaller(m, wide) + 1);
      work fold = {.math = sums * adds * at(v, v->m->add, vl),
                   .shuffles = 2 * sums * adds * at(v, v->m->shuffle, vl),
                   .stores = sums / v->m->store[0],
                   .loads = blocks > 1 ? sums / v->m->load[0] : 0,
                   .instructions = sums * (3 * adds + 1)};
      double rows_n = (double)m * vectors;   /* without a loop, what all columns read stays in registers */
      if (!loops(vectors, whole ? vectors : 1))
        fold.loads -= (rows_n - again(v, rows_n, sums)) * at(v, v->m->load, vl);
      /* terms that fill no vector: a masked one behind the others, or one by one, of which adding is the least */
      if (rest == GEMM_REST_BEHIND) fold = plus(term, 1, fold);
      if (rest == GEMM_REST_ONE_BY_ONE) fold.math += (double)(of % vl) * sums / v->m->fma[0];
      core += (double)(times * list[i].times * blocks) * tile_of(v, term, vectors, whole ? vectors : 1, 1, fold);
    }
  double copies = (double)(v->rows * up(v->terms, vl));
  if (kc || !v->o.row_k) core += cycles_of(v, copy_of(v, copies, vl, !v->o.row_k, v->row_converted));
  /* each tile of rows reads a block of columns, which the one before has left where there was room */
  return together(core, from(v, bytes, all_bytes(v)) + fmax(0, tiles - 1) * from(v, bytes, block));
}

/* Instructions that multiply groups of terms: of four bytes, or of two bf16. */
double tg_gemm_bound_dwords(const view *v, const tg_kit_choice *c) {
  view w = *v;
  int64_t group = v->p->a == TG_BF16 ? 2 : 4;
  w.terms = up(v->terms, group);
  w.row_size = w.column_size = w.packed_size = 4;
  w.row_converted = w.column_converted = false;
  return panels(&w, c, w.p->a == TG_I8 || w.p->a_major != TG_GEMM_ROW);
}

/* ---- the problem ---- */

static double bytes_of(tg_type t) { return fmax(1, (double)tg_type_bytes(t)); }

int64_t tg_gemm_end(const tg_gemm_problem *p, const tg_target *t, tg_kit_dim d) {
  double last = t->l3 ? (double)t->l3 : 8 << 20;
  int64_t side = (int64_t)sqrt(last / tg_type_bytes(p->acc)), hi = smaller(d.hi, side);
  return hi > d.lo ? hi : d.lo;
}

int64_t tg_gemm_middle(const tg_gemm_problem *p, const tg_target *t, tg_kit_dim d) {
  double lo = d.lo > 1 ? (double)d.lo : 1;
  return d.lo == d.hi ? d.lo : (int64_t)(sqrt(lo * (double)tg_gemm_end(p, t, d)) + 0.5);
}

void tg_gemm_look(const tg_gemm_problem *p, const tg_target *t, const int64_t at[3], bool thin, view *v) {
  tg_gemm_roles o = thin ? tg_gemm_thin_roles_of(p) : tg_gemm_roles_of(p);
  tg_type row = o.row == 'A' ? p->a : p->b, column = o.column == 'A' ? p->a : p->b;
  int64_t m = at ? at[0] : tg_gemm_middle(p, t, p->m), n = at ? at[1] : tg_gemm_middle(p, t, p->n),
          lanes = t->vector_bytes / tg_type_bytes(p->acc);
  *v = (view){.p = p,
              .t = t,
              .m = &t->machine,
              .o = o,
              .rows = o.r == 'i' ? m : n,
              .columns = o.r == 'i' ? n : m,
              .terms = at ? at[2] : tg_gemm_middle(p, t, p->k),
              .size = tg_type_bytes(p->acc),
              .lanes = lanes < 1 ? 1 : smaller(lanes, 16),
              .row_size = bytes_of(row),
              .column_size = bytes_of(column),
              .packed_size = bytes_of(p->acc),
              .c_size = bytes_of(p->c),
              .row_converted = row != p->acc,
              .column_converted = column != p->acc,
              .reads_c = p->beta,
              .known = p->m.lo == p->m.hi && p->n.lo == p->n.hi && p->k.lo == p->k.hi,
              .l1 = t->l1 ? (double)t->l1 : 32 << 10,
              .l2 = t->l2 ? (double)t->l2 : 1 << 20,
              .l3 = tg_target_kept(t)};
}
