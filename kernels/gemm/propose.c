/* SPDX-License-Identifier: MIT
 * What a product may be computed with: for each sketch that suits its types and layouts the tiles that the registers
 * hold, with blocks as large as the caches, ordered by their bound (bound.c). What is left after that is priced by the
 * cost model (candidates.c). */
#include <math.h>
#include "dsl/uop.h"
#include "gemm/sketch.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }
static bool is_fixed(tg_kit_dim d) { return d.lo == d.hi; }
static bool is_float(tg_type t) { return t == TG_F16 || t == TG_BF16 || t == TG_F32 || t == TG_F64; }
static bool is_byte(tg_type t) { return t == TG_I8 || t == TG_U8; }

/* Of the values that a sketch lists, 0 ends: the largest that is at most x, or the smallest. */
static int64_t listed(const int64_t *values, int64_t x) {
  int64_t best = values[0];
  for (; *values; values++)
    if (*values <= x) best = *values;
  return best;
}

/* The smallest that is at least x, or the largest. */
static int64_t listed_above(const int64_t *values, int64_t x) {
  for (; values[1] && *values < x;) values++;
  return *values;
}

static void put(tg_kit_choice *c, const char *name, int64_t value) {
  c->knob[c->knobs_n++] = (tg_binding){name, value, value, 1};
}

bool tg_gemm_fits(const tg_target *t, const tg_kit_choice *c) {
  int64_t mr = tg_kit_knob_of(c, "MR", 1), nu = tg_kit_knob_of(c, "NU", 1), nc = tg_kit_knob_of(c, "NC", 0),
          sums = tg_kit_knob_of(c, "SUMS", 1);
  int64_t needed = nc ? mr * nc + smaller(mr, nc) + 1 : sums * mr * nu + nu + 1;
  return needed <= (int64_t)t->vector_registers;
}

/* ---- the points ---- */

static const char *const tile_knobs[] = {"VL", "NU", "NC", "MR", "SUMS", "TR", "TC"};

bool tg_gemm_same_tile(const tg_kit_choice *a, const tg_kit_choice *b) {
  if (a->sketch != b->sketch) return false;
  for (uint32_t i = 0; i < TG_COUNT(tile_knobs); i++)
    if (tg_kit_knob_of(a, tile_knobs[i], 0) != tg_kit_knob_of(b, tile_knobs[i], 0)) return false;
  return true;
}

/* Of each tile the best blocks are kept, and of each sketch the best tiles. */
static void offer(tg_gemm_points *to, const tg_gemm_view *v, const tg_kit_choice *c) {
  const tg_gemm_sketch *s = to->sketch;
  double bound = s->bound ? s->bound(v, c) : 0;
  uint32_t first = to->first, at = first;
  while (at < to->n && !tg_gemm_same_tile(&to->point[at].choice, c)) at++;
  bool more = at == to->n && to->n - first < TG_GEMM_OF_A_SKETCH;
  if (at == to->n && !more) at--;
  if (!more && bound >= to->point[at].bound) return;
  to->n += more;
  for (; at > first && to->point[at - 1].bound > bound; at--) to->point[at] = to->point[at - 1];
  to->point[at] = (tg_gemm_point){*c, s, bound};
}

/* Widths of vectors that are worth a try: the widest; narrower ones leave less of few columns. */
static int64_t narrowest(const tg_gemm_view *v, int divisor) {
  int64_t least = 16 / v->size;
  return larger(least < 1 ? 1 : smaller(least, v->lanes), v->lanes / divisor);
}

static tg_kit_choice begin(const tg_gemm_points *to) { return (tg_kit_choice){.sketch = to->sketch->kernel}; }

/* Do the rows come from beyond L2, so that it pays to ask for them ahead? */
static bool is_far(const tg_gemm_view *v) { return (double)(v->rows * v->terms) * v->row_size > v->l2; }

static bool is_far_columns(const tg_gemm_view *v) {
  return (double)(v->columns * v->terms) * v->column_size > v->l2;
}

/* ---- panels ---- */

/* Blocks of columns and of rows for L2: the panels of a block take half of it, copied rows a quarter. Rows that are
 * shared by all columns, a third of L3. */
typedef struct { int64_t vl, nu, mr, kc; bool grouped, next; int team; bool ahead; } panel_point;

/* Do rows of a tile lie side by side, so that multiply-adds take lanes of their vectors? They fill those. */
static bool is_side(const tg_gemm_view *v, const panel_point *x) {
  return x->vl * v->size == v->t->lane_bytes && x->mr % x->vl == 0 && !v->o.row_any;
}

/* Terms that a tile takes at a time. In pairs a loop's own two instructions come half as often; but where the number of
 * terms is open, what pairs leave is a loop with sums of its own, for which no registers are left: in each tile those
 * are stored, loaded again and added. A round that prefetches would ask for twice as much in single terms. */
static int64_t terms_at_a_time(const tg_gemm_view *v, const panel_point *x, bool side) {
  double bytes = (double)(x->vl * v->size), sums = (double)(x->nu * x->mr),
         left = sums * (tg_machine_cycles(v->m->store, bytes) + tg_machine_cycles(v->m->load, bytes) +
                        tg_machine_cycles(v->m->add, bytes)),
         saved = (double)smaller(x->kc, v->terms) / v->m->issue;
  if (v->p->k.hi < 8) return 1;
  if (side && is_fixed(v->p->k)) return 8;   /* there the loop's own instructions are the most of what is left */
  return is_fixed(v->p->k) || x->next || x->ahead || saved > left ? 2 : 1;
}

static void offer_panels(tg_gemm_points *to, const tg_gemm_view *v, const panel_point *x) {
  enum { TASKS = 4 /* for each thread, so that none waits long for the last */, WAITING = 64, ROWS = 2048 };
  const tg_gemm_problem *p = v->p;
  bool dwords = to->sketch->bound == tg_gemm_bound_dwords, both = to->sketch != &tg_gemm_panel, waits = p->c != p->acc,
       side = to->sketch == &tg_gemm_packed && is_side(v, x);
  int64_t nr = x->nu * x->vl, panels = up(v->columns, nr), tiles = up(v->rows, x->mr);
  double size = v->packed_size / (dwords ? p->a == TG_BF16 ? 2 : 4 : 1), kc = (double)smaller(x->kc, v->terms);
  int64_t nb = larger(1, smaller(panels, (int64_t)(v->l2 / 2 / (kc * (double)nr * size)))),
          mb = both ? (int64_t)(v->l2 / 4 / (kc * (double)x->mr * size)) : 1 << 20;
  if (x->grouped) mb = (int64_t)(v->l3 / 3 / (kc * (double)x->mr * size));
  if (x->grouped && both) nb = 1;
  if (waits && !both) mb = smaller(mb, WAITING);
  if (x->team == 2) nb = larger(1, smaller(nb, panels / (TASKS * (int64_t)to->threads)));
  if (x->team == 1) mb = smaller(mb, up(tiles, TASKS * (int64_t)to->threads));
  mb = mb >= tiles ? listed_above(tg_gemm_mb, tiles) : listed(tg_gemm_mb, mb);
  tg_kit_choice c = begin(to);
  if (!dwords) put(&c, "VL", x->vl);
  put(&c, "NU", x->nu), put(&c, "MR", x->mr);
  if (!dwords) put(&c, "UK", terms_at_a_time(v, x, side));
  put(&c, "KC", x->kc), put(&c, "MB", mb), put(&c, "NB", listed(tg_gemm_nb, nb));
  if (waits && (!dwords || p->a == TG_BF16))
    put(&c, "GB", x->team == 1 ? 1 : listed_above(tg_gemm_nb, up(up(tiles, mb), up(v->rows, ROWS))));
  put(&c, "TEAM", x->team);
  if (!dwords) put(&c, "NEXT", x->next), put(&c, "GROUPED", x->grouped);
  if (to->t->lane_bytes && to->sketch == &tg_gemm_packed) put(&c, "SIDE", side);
  if (!both) put(&c, "AHEAD", x->ahead);
  offer(to, v, &c);
}

void tg_gemm_propose_panels(tg_gemm_points *to) {
  const tg_gemm_problem *p = to->p;
  bool dwords = to->sketch->bound == tg_gemm_bound_dwords, both = to->sketch != &tg_gemm_panel;
  const int64_t *terms = both && !dwords ? tg_gemm_packed_kc : tg_gemm_panel_kc;
  tg_gemm_view v;
  tg_gemm_look(p, to->t, to->at, false, &v);
  for (int64_t vl = v.lanes; vl >= (dwords ? v.lanes : narrowest(&v, 2)); vl /= 2)
    for (int64_t nu = 1; nu <= 4; nu++)
      for (const int64_t *mr = tg_gemm_mr; *mr && *mr * nu + nu + 1 <= (int64_t)to->t->vector_registers; mr++) {
        if ((p->panel && nu * vl != p->panel) || (nu > 1 && (nu - 1) * vl >= v.columns && !p->panel)) break;
        for (const int64_t *kc = terms; *kc; kc++) {
          for (int grouped = 0; grouped <= (!dwords && !p->panel); grouped++)
            for (int team = to->threads > 1 ? 1 : 0; team <= (to->threads > 1 ? 2 : 0); team++)
              /* at equal bounds the first stays; blocks of columns that are tasks have no next one */
              for (int next = grouped && team != 2 && is_far_columns(&v); next >= 0; next--)
                for (int ahead = !both && is_far(&v); ahead >= 0; ahead--)
                  offer_panels(to, &v, &(panel_point){vl, nu, *mr, *kc, grouped, next, team, ahead});
          if (*kc >= v.terms) break;
        }
        if (*mr >= v.rows) break;
      }
}

/* ---- tiles of bytes ---- */

/* A panel of rows for half of L1, panels of columns for half of L2, and rows for a quarter of it. */
void tg_gemm_propose_tiles(tg_gemm_points *to) {
  enum { SIDE = 16, TERMS = 512, TASKS = 4 };
  tg_gemm_view v;
  tg_gemm_look(to->p, to->t, to->at, false, &v);
  int64_t tr = v.rows <= SIDE ? 1 : 2,
          tc = tr == 1              ? larger(1, smaller(4, up(v.columns, SIDE)))
               : v.columns <= SIDE ? 1
                                    : 2,
          kc = listed_above(tg_gemm_panel_kc, to->p->c == to->p->acc ? smaller(TERMS, v.terms) : to->p->k.hi),
          panels = up(v.columns, SIDE * tc), tiles = up(v.rows, SIDE * tr),
          nb = smaller(panels, (int64_t)v.l2 / 2 / (kc * SIDE * tc)),
          mb = smaller(tiles, (int64_t)v.l2 / 4 / (kc * SIDE * tr)),
          tasks = TASKS * (int64_t)to->threads;
  int team = to->threads < 2 ? 0 : panels >= tasks || panels >= tiles ? 2 : 1;
  if (team == 2) nb = smaller(nb, panels / tasks);
  if (team == 1) mb = smaller(mb, up(tiles, tasks));
  tg_kit_choice c = begin(to);
  put(&c, "TR", tr), put(&c, "TC", tc), put(&c, "KC", kc), put(&c, "MB", listed(tg_gemm_mb, mb));
  put(&c, "NB", listed(tg_gemm_nb, nb)), put(&c, "TEAM", team);
  offer(to, &v, &c);
}

/* ---- small and thin ---- */

/* Terms to unroll by: all, where there are few and the tile's instructions fit the decoder's cache; else some that
 * leave at most one. A loop of a few rounds of MOST terms is no slower than all terms in a row, of which the compiler
 * keeps what the next tile reads again in memory of its own: 943 x 395 x 36 with 6 x 16 takes 1.2 to 1.4 times as long
 * (Zen 3). */
static int64_t unrolled(const tg_gemm_view *v, int64_t tile) {
  enum { INSTRUCTIONS = 1024, MOST = 8 };
  int64_t n = MOST;
  if (!is_fixed(v->p->k)) return 1;
  if (v->terms <= 2 * MOST && v->terms * tile <= INSTRUCTIONS) return 0;
  while (n > 1 && v->terms % n > 1) n--;
  return n;
}

/* May a schedule copy all terms of these lines, at the upper end of their range? */
static bool may_copy(const tg_gemm_points *to, int64_t lines) { return lines <= TG_COPY_MOST / larger(1, to->p->k.hi); }

typedef struct { int64_t vl, nu, mr, sums; bool rows, ahead; } direct_point;

/* rows: tiles of rows one behind another, so that C is written in whole lines; all columns pass each. ahead: of them
 * the next is prefetched, term by term: addresses of several terms in the rows of both tiles would be more than there
 * are general registers. */
static void offer_direct(tg_gemm_points *to, const tg_gemm_view *v, const direct_point *x) {
  tg_kit_choice c = begin(to);
  int64_t uk = unrolled(v, smaller(x->mr, v->rows) * x->nu);
  put(&c, "VL", x->vl), put(&c, "NU", x->nu), put(&c, "MR", x->mr);
  put(&c, "UK", x->ahead ? 1 : uk), put(&c, "ROWS", x->rows), put(&c, "SUMS", x->sums);
  put(&c, "AHEAD", x->ahead);
  offer(to, v, &c);
}

void tg_gemm_propose_direct(tg_gemm_points *to) {
  enum { CHAINS = 4 };
  tg_gemm_view v;
  tg_gemm_look(to->p, to->t, to->at, false, &v);
  int64_t registers = to->t->vector_registers;
  bool far = is_far(&v);
  for (int64_t vl = v.lanes; vl >= narrowest(&v, 4); vl /= 2)
    for (int64_t nu = 1; nu <= 4 && (nu == 1 || (nu - 1) * vl < v.columns); nu++)
      for (const int64_t *mr = tg_gemm_mr; *mr && *mr * nu + nu + 1 <= registers; mr++) {
        if (v.o.column_k && !may_copy(to, nu * vl)) break;
        for (int64_t sums = 1; sums <= CHAINS && sums * *mr * nu + nu + 1 <= registers && sums <= v.terms; sums *= 2) {
          if (sums > 1 && !is_fixed(to->p->k)) break;
          offer_direct(to, &v, &(direct_point){vl, nu, *mr, sums, false, false});
        }
        for (int ahead = is_far_columns(&v); ahead <= far && !v.o.column_k; ahead++)
          offer_direct(to, &v, &(direct_point){vl, nu, *mr, 1, true, ahead});
        if (*mr >= v.rows) break;
      }
}

static const int64_t sides[] = {1, 2, 3, 4, 6, 8, 0};

/* As many columns as there may be. */
static int64_t most_columns(const tg_gemm_points *to, const tg_gemm_view *v) {
  const tg_kit_dim columns = v->o.r == 'i' ? to->p->n : to->p->m;
  return columns.lo == columns.hi ? v->columns : larger(v->columns, tg_gemm_end(to->p, to->t, columns));
}

/* Blocks of columns: tiles whose part of the thin operand's results stays in a quarter of L2; for threads `tasks`
 * each. Of columns that are open as many as there may be: a block that is wider than a call's columns costs nothing,
 * while narrow ones go through the large operand in as many passes, a few lines of each of its rows at a time. */
static int64_t columns_of(const tg_gemm_points *to, const tg_gemm_view *v, int64_t wide, int64_t tasks) {
  int64_t tiles = up(most_columns(to, v), wide),
          nb = larger(1, (int64_t)(v->l2 / 4 / ((double)(v->rows * wide) * v->c_size)));
  if (to->threads > 1) nb = smaller(nb, up(tiles, tasks * (int64_t)to->threads));
  return nb >= tiles ? listed_above(tg_gemm_stream_nb, tiles) : listed(tg_gemm_stream_nb, nb);
}

/* Does a tile take whole pairs of lines of the columns' operand, if that lies in rows that no L2 holds? What misses L2
 * comes in pairs, 128 bytes of an address that 128 divides: the half of a pair that belongs to the next tile is gone
 * again when that begins, since a tile goes through KC rows first. */
static bool whole_pairs(const tg_gemm_points *to, const tg_gemm_view *v, int64_t wide) {
  const tg_kit_dim k = to->p->k;
  int64_t terms = k.lo == k.hi ? v->terms : larger(v->terms, tg_gemm_end(to->p, to->t, k)),
          columns = most_columns(to, v);
  return v->o.column_k || (double)columns * (double)terms * v->column_size <= v->l2 || wide >= columns ||
         (int64_t)((double)wide * v->column_size) % (2 * TG_CACHE_LINE) == 0;
}

/* Does arithmetic take longer than memory sends what it reads? Only then there is something to do in the meantime. */
static bool asks_for_columns(const tg_gemm_view *v, int64_t vl) {
  double bytes = (double)vl * v->column_size, arithmetic = (double)v->rows *
      tg_machine_cycles(v->m->fma, (double)(vl * v->size));
  return (double)(v->columns * v->terms) * v->column_size > v->l3 && arithmetic > bytes / v->m->memory_bandwidth;
}

void tg_gemm_propose_stream(tg_gemm_points *to) {
  static const int64_t terms[] = {4, 8, 16, 32, 64, 128, 256, 0}, uks[] = {1, 2, 4, 8, 0};
  tg_gemm_view v;
  tg_gemm_look(to->p, to->t, to->at, true, &v);
  for (int64_t vl = v.lanes; vl >= narrowest(&v, 2); vl /= 2)
    for (const int64_t *nu = sides; *nu && (*nu == 1 || *nu * vl < 2 * v.columns); nu++) {
      if (!whole_pairs(to, &v, *nu * vl)) continue;
      for (const int64_t *mr = tg_gemm_mr; *mr && *mr * *nu + *nu + 1 <= (int64_t)to->t->vector_registers; mr++) {
        for (const int64_t *kc = terms; *kc; kc++) {
          for (int64_t tasks = to->threads > 1 ? 4 : 2; tasks > 1; tasks /= 2) {   /* fewer: longer runs */
            tg_kit_choice c = begin(to);
            put(&c, "VL", vl), put(&c, "NU", *nu), put(&c, "MR", *mr);
            put(&c, "NB", columns_of(to, &v, *nu * vl, tasks));
            put(&c, "KC", *kc), put(&c, "UK", listed(uks, smaller(*kc, larger(1, 16 / *mr))));
            put(&c, "AHEAD", asks_for_columns(&v, vl)), put(&c, "TEAM", to->threads > 1 ? 2 : 0);
            offer(to, &v, &c);
          }
          if (*kc >= v.terms) break;
        }
        if (*mr >= v.rows) break;
      }
    }
}

/* Blocks of columns whose kc terms are half of a cache, so that the second tile of rows finds them there. */
static int64_t block_in(const tg_gemm_view *v, int64_t wide, int64_t kc, double cache) {
  double tile = (double)(wide * (kc ? kc : v->terms)) * v->column_size;
  return larger(1, (int64_t)(cache / 2 / tile));
}

void tg_gemm_propose_dot(tg_gemm_points *to) {
  enum { TASKS = 4 };
  tg_gemm_view v;
  tg_gemm_look(to->p, to->t, to->at, true, &v);
  int64_t registers = to->t->vector_registers;
  for (int64_t vl = v.lanes; vl >= narrowest(&v, 4); vl /= 2)
    for (const int64_t *nc = sides; *nc && (*nc == 1 || *nc <= v.columns); nc++)
      for (const int64_t *mr = tg_gemm_mr; *mr && *mr * *nc + smaller(*mr, *nc) + 1 <= registers; mr++) {
        for (int64_t b = 0; !b || tg_gemm_dot_kc[b - 1]; b++) {
          int64_t kc = b ? tg_gemm_dot_kc[b - 1] : 0;
          if (kc && kc >= v.terms) break;
          if (!kc && !v.o.row_k && !may_copy(to, v.o.r == 'i' ? to->p->m.hi : to->p->n.hi)) continue;
          const int64_t all = columns_of(to, &v, *nc, TASKS), in_l2 = smaller(all, block_in(&v, *nc, kc, v.l2)),
                        in_l1 = smaller(in_l2, block_in(&v, *nc, kc, v.l1)), blocks[] = {all, in_l2, in_l1};
          for (uint32_t i = 0; i < (*mr < v.rows ? TG_COUNT(blocks) : 1); i++) {
            if (i && listed(tg_gemm_stream_nb, blocks[i]) == listed(tg_gemm_stream_nb, blocks[i - 1])) continue;
            tg_kit_choice c = begin(to);
            put(&c, "VL", vl), put(&c, "NC", *nc), put(&c, "MR", *mr);
            put(&c, "NB", i ? listed(tg_gemm_stream_nb, blocks[i]) : all);
            put(&c, "KC", kc), put(&c, "AHEAD", 0), put(&c, "TEAM", to->threads > 1 ? 2 : 0);
            offer(to, &v, &c);
          }
        }
        if (*mr >= v.rows) break;
      }
}

/* ---- the others ---- */

void tg_gemm_propose_plain(tg_gemm_points *to) {
  tg_gemm_view v = {0};
  tg_kit_choice c = begin(to);
  offer(to, &v, &c);
}

/* The tile with the least work for each element, as panels have it. */
static tg_kit_choice tile_of(const tg_gemm_points *to, uint32_t panel) {
  tg_gemm_problem p = *to->p;
  p.panel = panel, p.bits = 0, p.a = p.b = p.c = p.acc, p.epilogue = NULL;
  tg_kit_choice c;
  tg_gemm_choose_knobs(&p, to->t, 1, &tg_gemm_panel, &c);
  return c;
}

/* A long sum is divided in parts whose number depends on how many threads the plan is for, not on who comes. Two blocks
 * of terms for half of L2. */
void tg_gemm_propose_long(tg_gemm_points *to) {
  enum { TASKS = 4, MOST = 64 };
  tg_gemm_view v;
  tg_gemm_look(to->p, to->t, to->at, false, &v);
  tg_kit_choice t = tile_of(to, 0), c = begin(to);
  int64_t parts = 1;
  while (parts < TASKS * (int64_t)to->threads && parts < MOST) parts *= 2;
  put(&c, "VL", tg_kit_knob_of(&t, "VL", 1)), put(&c, "NU", tg_kit_knob_of(&t, "NU", 1));
  put(&c, "MR", tg_kit_knob_of(&t, "MR", 1));
  put(&c, "UK", 2);
  put(&c, "KC", listed(tg_gemm_packed_kc, (int64_t)(v.l2 / 4 / (double)(v.size * (v.rows + v.columns)))));
  put(&c, "PARTS", to->threads > 1 ? parts : 1);
  offer(to, &v, &c);
}

/* Panels of weights as they are, as many side by side as there are registers for; words are prefetched a line ahead. */
void tg_gemm_propose_grouped(tg_gemm_points *to) {
  enum { WORDS = 8, TASKS = 4 };
  const tg_gemm_problem *p = to->p;
  tg_gemm_view v;
  tg_gemm_look(p, to->t, to->at, false, &v);
  int64_t wide = larger(1, up(p->panel, v.lanes)), rows = p->m.hi, half = to->t->vector_registers / 2,
          np = listed(tg_gemm_side, larger(1, smaller(8, half / (2 * smaller(rows, 4) * wide)))),
          mr = listed(tg_gemm_mr, up(rows, up(rows, larger(1, half / (wide * np))))),
          group = p->group ? p->group : p->k.hi,
          tasks = to->threads > 1 ? TASKS * (int64_t)to->threads : 1;
  tg_kit_choice c = begin(to);
  put(&c, "VL", v.lanes), put(&c, "NP", np), put(&c, "MR", mr), put(&c, "AHEAD", WORDS);
  put(&c, "GROUPS", listed(tg_gemm_side, larger(1, WORDS * 8 / larger(1, group))));
  put(&c, "NB", listed(tg_gemm_nb, larger(1, up(p->n.hi, larger(1, p->panel)) / (np * tasks))));
  put(&c, "TEAM", to->threads > 1 ? 2 : 0);
  offer(to, &v, &c);
}

/* A panel of weights becomes floats once for all rows, in a buffer of half of L2 or L3's part of a thread. */
void tg_gemm_propose_weights(tg_gemm_points *to) {
  enum { BLOCK = 512, ROOM = 4 << 20, TASKS = 4 };
  const tg_gemm_problem *p = to->p;
  tg_gemm_view v;
  tg_gemm_look(p, to->t, to->at, false, &v);
  int64_t widest = v.lanes * (to->t->vector_registers < 32 ? 2 : 4);
  tg_kit_choice t = tile_of(to, is_fixed(p->n) && p->n.lo % widest == 0 ? (uint32_t)widest : 0), c = begin(to);
  int64_t nu = tg_kit_knob_of(&t, "NU", 1), mr = tg_kit_knob_of(&t, "MR", 1), panels = up(p->n.hi, nu * v.lanes),
          tasks = to->threads > 1 ? TASKS * (int64_t)to->threads : 1,
          most = larger(1, smaller(smaller(ROOM / (larger(1, p->k.hi) * nu * v.lanes * 4), 4), panels / tasks));
  while (most > 1 && is_fixed(p->n) && panels % most) most--;
  put(&c, "VL", v.lanes), put(&c, "NU", nu), put(&c, "MR", mr), put(&c, "UK", p->k.hi >= 8 ? 2 : 1);
  put(&c, "KC", listed_above(tg_gemm_panel_kc, smaller(BLOCK, p->k.hi))), put(&c, "NB", listed(tg_gemm_nb, most));
  put(&c, "MB", listed(tg_gemm_mb, smaller(up(v.rows, mr), 16))), put(&c, "TEAM", to->threads > 1 ? 2 : 0);
  offer(to, &v, &c);
}

/* ---- which sketches ---- */

/* One product at a time, of numbers as they lie. */
static bool is_single(const tg_gemm_problem *p) { return !p->bits && !p->panel && p->batch.hi <= 1; }
static bool are_floats(const tg_gemm_problem *p) { return is_float(p->acc) && is_float(p->a) && is_float(p->b); }
static bool is_dense(const tg_gemm_problem *p) { return is_single(p) && are_floats(p) && !tg_gemm_is_strided(p); }

static bool is_open(const tg_gemm_problem *p) { return p->m.lo < p->m.hi || p->n.lo < p->n.hi || p->k.lo < p->k.hi; }

/* Rows and columns for a few tiles only, and terms for many blocks. */
static bool is_long(const tg_gemm_problem *p) {
  enum { MOST = 1 << 15, LEAST = 4096, TIMES = 16 };
  return p->m.hi * p->n.hi <= MOST && p->k.hi >= LEAST && p->k.hi >= TIMES * larger(p->m.hi, p->n.hi);
}

static bool takes_bytes(const tg_gemm_problem *p, const tg_target *t, tg_type a) {
  return is_single(p) && p->a == a && p->b == TG_I8 && p->acc == TG_I32 && p->c_major == TG_GEMM_ROW && t->dot_u8s8 &&
         p->k.hi >= 8 && p->m.hi >= 2 && p->n.hi >= 2;
}

/* Few rows would leave most of a tile idle; a sum that C cannot hold does not wait. */
static bool takes_tiles(const tg_gemm_problem *p, const tg_target *t) {
  enum { FEWEST = 8, TERMS = 64, WHOLE = 2048 };
  return is_single(p) && t->tile_i8 && is_byte(p->a) && is_byte(p->b) && p->acc == TG_I32 &&
         (p->c == TG_I32 || p->k.hi <= WHOLE) && smaller(p->m.hi, p->n.hi) > FEWEST && p->k.hi >= TERMS;
}

static bool takes_pairs(const tg_gemm_problem *p, const tg_target *t) {
  enum { ROWS = 8, COLUMNS = 16, TERMS = 16 };
  return is_single(p) && p->flush && t->dot_bf16 && p->acc == TG_F32 && p->c_major == TG_GEMM_ROW && p->m.hi >= ROWS &&
         p->n.hi >= COLUMNS && p->k.hi >= TERMS;
}

/* Packed weights whose groups are whole words, for rows that share no floats. */
static bool takes_groups(const tg_gemm_problem *p) {
  enum { FEW = 32 };
  int64_t group = p->group ? p->group : p->k.hi;
  return p->bits && p->panel && is_fixed(p->k) && p->k.lo && p->k.lo % group == 0 && (p->bits == 8 || group % 8 == 0) &&
         p->m.hi <= FEW;
}

static bool takes_weights(const tg_gemm_problem *p, const tg_target *t) {
  enum { FROM = 4 };
  int64_t room = t->l2 ? 2 * (int64_t)t->l2 : 4 << 20;
  return p->bits && p->m.hi >= FROM && p->c_major == TG_GEMM_ROW && p->a_major != TG_GEMM_STRIDES &&
         p->b_major != TG_GEMM_STRIDES && p->k.hi <= room / 4 / 64;
}

/* Special instructions and forms come first, and alone: those that take a problem are better than floats in vectors by
 * a factor. NULL: the sketches of floats are compared. */
static const tg_gemm_sketch *only(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  return takes_groups(p)              ? &tg_gemm_grouped
         : takes_weights(p, t)        ? &tg_gemm_weights
         : p->bits                    ? &tg_gemm_plain
         : takes_tiles(p, t)          ? &tg_gemm_tiles
         : takes_bytes(p, t, TG_U8)   ? &tg_gemm_bytes
         : takes_bytes(p, t, TG_I8)   ? &tg_gemm_signed_bytes
         : takes_pairs(p, t)          ? &tg_gemm_pairs
         : !p->panel && (!are_floats(p) || p->batch.hi > 1) ? &tg_gemm_plain
         : threads > 1 && is_single(p) && is_long(p) ? &tg_gemm_long
                                             : NULL;
}

/* Does a sketch of floats suit the layouts? Thin ones have their vectors along the dimension that the large operand has
 * contiguous; the others would gather. */
static bool suits(const tg_gemm_points *to, const tg_gemm_sketch *s) {
  enum { THIN = 160 /* most rows of a thin operand */ };
  const tg_gemm_problem *p = to->p;
  tg_gemm_roles o = tg_gemm_roles_of(p), thin = tg_gemm_thin_roles_of(p);
  bool is_thin =
      is_dense(p) && smaller(to->at ? to->at[0] : p->m.hi, to->at ? to->at[1] : p->n.hi) <= THIN;
  if (s == &tg_gemm_panel)
    return (p->panel || is_dense(p)) && o.row_k && !o.row_any && (o.row == 'A' ? p->a : p->b) == p->acc;
  if (s == &tg_gemm_packed) return true;
  if (s == &tg_gemm_direct) return is_dense(p);
  if (s == &tg_gemm_stream) return is_thin && (!thin.column_k || thin.scattered);
  if (s == &tg_gemm_dot) return is_thin && thin.column_k;
  /* of open sizes the heuristic makes tasks, and a plan for one thread has one, so that its bare code can be called */
  return s == &tg_gemm_plain && is_single(p) && (to->threads > 1 || !is_open(p));
}

static void propose(tg_gemm_points *to, const tg_gemm_sketch *s) {
  to->sketch = s, to->first = to->n;
  s->propose(to);
}

void tg_gemm_propose(const tg_gemm_problem *p, const tg_target *t, const int64_t at[3], uint32_t threads,
                     const tg_gemm_sketch *sketch, tg_gemm_points *to) {
  const tg_gemm_sketch *s = sketch ? sketch : only(p, t, threads);
  *to = (tg_gemm_points){.p = p, .t = t, .at = at, .threads = threads};
  if (s) {
    propose(to, s);
    return;
  }
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    if (tg_gemm_sketches[i] != &tg_gemm_plain && suits(to, tg_gemm_sketches[i])) propose(to, tg_gemm_sketches[i]);
  /* the best of each sketch stay, and of the others those with the least bounds; the first is the least of all */
  for (uint32_t i = 1; i < to->n; i++)
    for (uint32_t k = i; k && to->point[k - 1].bound > to->point[k].bound; k--) {
      tg_gemm_point x = to->point[k];
      to->point[k] = to->point[k - 1], to->point[k - 1] = x;
    }
  uint32_t most = TG_GEMM_POINTS - suits(to, &tg_gemm_plain);
  for (uint32_t i = to->n; i-- > 1 && to->n > most;) {
    bool only_one = true;
    for (uint32_t k = 0; k < i && only_one; k++) only_one = to->point[k].sketch != to->point[i].sketch;
    if (only_one) continue;
    memmove(&to->point[i], &to->point[i + 1], (--to->n - i) * sizeof to->point[i]);
  }
  if (suits(to, &tg_gemm_plain)) propose(to, &tg_gemm_plain);
}

void tg_gemm_choose_knobs(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, const tg_gemm_sketch *s,
                          tg_kit_choice *out) {
  tg_gemm_points to;
  tg_gemm_propose(p, t, NULL, threads, s, &to);
  *out = to.n ? to.point[0].choice : (tg_kit_choice){.sketch = s->kernel};
}

static double least_of(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  tg_gemm_points to;
  tg_gemm_propose(p, t, NULL, threads, NULL, &to);
  *out = to.n ? to.point[0].choice : (tg_kit_choice){.sketch = tg_gemm_plain.kernel};
  return to.n ? to.point[0].bound : 0;
}

void tg_gemm_choose(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  least_of(p, t, threads, out);
}

/* ---- strips ---- */

tg_gemm_problem tg_gemm_strip(const tg_gemm_problem *p, const tg_kit_strips *strips, uint32_t i) {
  tg_gemm_problem q = *p;
  tg_kit_dim *d = strips->rows ? &q.m : &q.n;
  d->lo = d->hi = smaller(d->lo - (int64_t)i * strips->size, strips->size);
  return q;
}

/* As many strips as threads, or fewer: of whole vectors, of `bytes` each, where the elements along them lie side by
 * side, of whole panels where B is packed. */
static tg_kit_strips strips_of(const tg_gemm_problem *p, int64_t bytes, uint32_t threads, bool rows) {
  int64_t n = rows ? p->m.lo : p->n.lo, vector = larger(1, bytes / tg_type_bytes(p->acc)),
          whole = rows != (p->c_major == TG_GEMM_COLUMN) ? 1
                  : p->panel                             ? p->panel
                                                         : vector,
          size = up(up(n, threads), whole) * whole;
  return (tg_kit_strips){.n = (uint32_t)up(n, size), .rows = rows, .size = size};
}

/* Bytes of the narrowest vector that takes no longer for them than the widest: half of it where that is done as
 * halves. */
static int64_t unit_of_strips(const tg_target *t) {
  const double *fma = t->machine.fma;
  int64_t bytes = t->vector_bytes;
  while (bytes > 16 && 2 * tg_machine_cycles(fma, (double)bytes / 2) <= tg_machine_cycles(fma, (double)bytes))
    bytes /= 2;
  return bytes;
}

/* Work whose bound is unknown: as if each multiply-add took its part of a vector's. */
static double least_work(const tg_gemm_problem *p, const tg_target *t) {
  return (double)p->m.hi * (double)p->n.hi * (double)p->k.hi * tg_type_bytes(p->acc) /
         (t->vector_bytes * t->machine.fma[0]);
}

tg_kit_strips tg_gemm_choose_strips(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, bool open_rows) {
  tg_kit_strips best = {.n = 1};
  tg_kit_choice c;
  bool known = is_fixed(p->m) && is_fixed(p->n) && is_fixed(p->k) && p->m.lo && p->n.lo && p->k.lo;
  if (threads < 2 || !known || (p->bits && !p->panel) || only(p, t, threads) == &tg_gemm_long) return best;
  double wake = t->machine.launch * t->machine.clock * 1e-3, least = fmax(least_of(p, t, 1, &c), least_work(p, t));
  for (int64_t bytes = t->vector_bytes, unit = unit_of_strips(t); bytes >= unit; bytes /= 2)
    for (int rows = 0; rows < 2 - open_rows; rows++) {
      tg_kit_strips s = strips_of(p, bytes, threads, rows);
      if (s.n < 2) continue;
      tg_gemm_problem q = tg_gemm_strip(p, &s, 0);
      double cycles = fmax(least_of(&q, t, 1, &c), least_work(&q, t)) + wake;
      if (cycles < least) least = cycles, best = s;
    }
  return best;
}
