/* SPDX-License-Identifier: MIT
 * The first answer without a search: for each sketch its tile by the registers and its blocks by the caches; of the
 * sketches the one whose estimate (estimate.c) is the least where sizes are known, or by the shape of the problem. For
 * one thread and known sizes candidates.c goes on from there. */
#include <math.h>
#include "gemm/template.h"
#include "gemm/sketch.h"

static uint32_t bytes_of(tg_type t) {
  static const uint8_t bytes[TG_TYPE__COUNT] = {
      [TG_I8] = 1, [TG_U8] = 1, [TG_F16] = 2, [TG_BF16] = 2, [TG_I32] = 4, [TG_F32] = 4, [TG_F64] = 8};
  return bytes[t];
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

static bool is_fixed(tg_kit_dim d) { return d.lo == d.hi; }

static void knob(tg_kit_choice *c, const char *name, int64_t value) {
  c->knob[c->knobs_n++] = (tg_binding){name, value, value, 1};
}

/* Of the values that a sketch lists, 0 ends: the largest that is at most x, or the smallest. */
static int64_t listed(const int64_t *values, int64_t x) {
  int64_t best = 0, least = values[0];
  for (; *values; values++) {
    if (*values <= x && *values > best) best = *values;
    if (*values < least) least = *values;
  }
  return best ? best : least;
}

/* The smallest that is at least x, or the largest. */
static int64_t listed_above(const int64_t *values, int64_t x) {
  int64_t best = 0, most = 0;
  for (; *values; values++) {
    if (*values >= x && (!best || *values < best)) best = *values;
    if (*values > most) most = *values;
  }
  return best ? best : most;
}

/* ---- the tile ---- */

typedef struct { int64_t mr, nu, vl; double cycles; } shape;

/* Cycles of a term: two multiply-adds and three loads in two of them, vectors of a panel from the second cache in
 * 2.2 each, and as many chains as hide a latency of four. */
static double cycles_of(int64_t rows, int64_t nu, double beat) {
  double work = fmax((double)(rows * nu) * beat, 4), loads = (double)rows * 0.65 + (double)nu * 1.3 * beat,
         panel = (double)nu * 2.2;
  double most = work > loads ? work : loads;
  /* what is as good either way reads less of the panel */
  return (most > panel ? most : panel) + (beat > 0.5 ? panel * 0.04 : 0) + 0.3;
}

/* Rows are padded as the sketches do, by a list of smaller tiles; columns to whole panels. each: what a tile of
 * gemm_stream's shared blocks costs besides, a term, where the rows that are left are one tile; else 0. */
static double cost_of_rows(int64_t rows, int64_t mr, int64_t nu, double beat, double each) {
  double sum = (double)(rows / mr) * (cycles_of(mr, nu, beat) + each);
  int64_t rest = rows % mr, power = 1;
  if (each > 0) return sum + (rest ? cycles_of(rest, nu, beat) + each : 0);
  while (power * 2 < mr) power *= 2;
  for (; rest && power; power /= 2)
    if (rest >= power) sum += (double)(rest / power) * cycles_of(power, nu, beat), rest %= power;
  return sum;
}

/* All sizes of ranges together: the rests of small ones count for as little as they are of the whole. */
static double cost_of_range(tg_kit_dim rows, tg_kit_dim columns, int64_t mr, int64_t nu, int64_t vl, double beat,
                            double each) {
  enum { STEPS = 15 };
  double down = 0, across = 0, m = 0, n = 0;
  for (int64_t i = 0; i <= STEPS; i++) {
    int64_t r = larger(1, rows.lo + (rows.hi - rows.lo) * i / STEPS),
            c = larger(1, columns.lo + (columns.hi - columns.lo) * i / STEPS);
    down += cost_of_rows(r, mr, nu, beat, each), m += (double)r;
    across += (double)up(c, nu * vl), n += (double)c;
  }
  return down / m * across / n;
}

/* panel: columns of the panels that come, or 0. view: of sizes that are known, or NULL; where there are few terms
 * what is stored counts. */
static shape choose_tile(const tg_gemm_view *view, double beat, tg_kit_dim rows, tg_kit_dim columns, int64_t vl,
                         int64_t registers, int64_t panel) {
  enum { STREAMS = 14 };
  shape best = {0};
  for (int64_t nu = registers >= 32 ? 4 : 3; nu >= 1; nu--)
    for (const int64_t *mr = tg_gemm_mr; (!panel || nu * vl == panel) && *mr && *mr * nu + nu + 1 <= registers; mr++) {
      if (*mr > rows.hi) break;
      double c = cost_of_range(rows, columns, *mr, nu, vl, beat, 0);
      if (view)
        c += tg_gemm_store_cycles(view, *mr, nu, vl) / (double)view->terms / (double)*mr *
             (double)up(columns.hi, nu * vl) / (double)columns.hi;
      /* wide tiles read memory in longer pieces; many rows are many streams */
      c *= (nu * 2 < *mr && *mr > 8 ? 1.02 : 1) * (*mr > STREAMS ? 1.25 : 1);
      /* for little of what a range leaves over a panel is not made narrower */
      if (best.mr && c >= best.cycles * (best.nu == nu || columns.lo == columns.hi ? 0.999 : 0.99)) continue;
      best = (shape){*mr, nu, vl, c};
    }
  return best;
}

/* ---- panels ---- */

/* Blocks of terms of about one length. */
static int64_t terms_of(const int64_t *values, int64_t k, int64_t most) {
  return listed_above(values, smaller(most, up(k, up(k, most))));
}

/* Panels of a block: those that there is room for, or some more where the blocks are of one size then. */
static int64_t panels_of(int64_t panels, int64_t room) {
  int64_t most = larger(1, smaller(panels, room)), even = listed_above(tg_gemm_nb, up(panels, up(panels, most)));
  return even <= most + most / 4 ? even : listed(tg_gemm_nb, most);
}

/* Is the next block of columns asked for while the tiles of this one are computed? From the second cache it comes as
 * fast as it is copied. Where rows lie in memory the tile has an address for each, and no registers are left for one
 * more from so many rows on. */
static bool asks_next(const tg_gemm_view *v, const tg_gemm_problem *p, const tg_target *t, int64_t mr) {
  enum { ADDRESSES = 8 };
  int64_t step = larger(1, tg_gemm_roles_of(p).column == 'A' ? p->a_step : p->b_step);
  return t->asking == TG_ASK_MUCH && !p->panel && !p->bits && mr <= ADDRESSES &&
         (double)(v->columns * v->terms * v->size * step) > v->l2;
}

void tg_gemm_knobs_panels(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  /* rows read where they lie: addresses of more of them fill the registers, and what a second term loads would wait
   * in memory */
  enum { ADDRESSES = 12 };
  /* terms: C is written once where all of them fit in a panel */
  enum { WHOLE = 2048, BLOCK = 1024, SHORT = 512 };
  enum { GROUP = 128 };                            /* tiles of a group of rows that share blocks of terms */
  /* of the third cache, from where on rows do not stay in it until the next columns; for copies of them */
  const double AFAR = 0.4, COPIED = 0.3;
  enum { WIDE = 512 };                             /* rows and columns for which long blocks of terms pay */
  /* for which a block of columns is soon done; its terms, where the next one is asked for: both stay in the second
   * cache */
  enum { FEW_ROWS = 192, NEXT = 512 };
  /* sums that wait: tiles of a block, rows that share panels; terms that are taken at once, so that none waits */
  enum { WAITING = 64, ROWS = 2048, FEW = 1024 };
  tg_gemm_roles o = tg_gemm_roles_of(p);
  bool both = out->sketch == tg_gemm_packed.kernel,
       bytes = out->sketch == tg_gemm_bytes.kernel || out->sketch == tg_gemm_signed_bytes.kernel,
       dwords = bytes || out->sketch == tg_gemm_pairs.kernel, whole = p->k.hi <= WHOLE,
       waits = p->c != p->acc && !bytes;
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  int64_t size = bytes_of(p->acc), vl = smaller(t->vector_bytes / size, 16), l2 = t->l2 ? (int64_t)t->l2 : 1 << 20;
  tg_gemm_view v;
  tg_gemm_look(p, t, false, &v);
  /* copies of columns are transposed by as many terms */
  if (v.double_pumped && v.column_k && !dwords && !p->panel && is_fixed(p->k) && v.terms < vl && v.terms >= vl / 2 &&
      vl * size == 64)
    vl /= 2;
  bool known = is_fixed(rows) && is_fixed(columns) && is_fixed(p->k) && rows.lo && columns.lo && p->k.lo;
  /* rows are transposed for each block of columns: then those are large, and their panels narrow and short */
  bool across = bytes && !o.row_k && columns.hi >= 2 * vl;
  shape s = choose_tile(known ? &v : NULL, tg_gemm_beat(&v, vl), rows, columns, vl, t->vector_registers,
                        across ? 2 * vl : p->panel);
  bool next = known && asks_next(&v, p, t, s.mr), few = next && rows.hi < FEW_ROWS;
  /* longer pieces of rows */
  if (few && s.mr > 6 && t->vector_registers >= 32) s = (shape){.mr = 6, .nu = 4, .vl = vl};
  int64_t nr = s.nu * vl, panels_n = up(columns.hi, nr), tiles = up(rows.hi, s.mr);
  if (dwords) size = bytes ? 1 : 2;
  bool apart = tg_gemm_is_strided(p);
  /* Rows that are converted, transposed or picked out of longer lines are copied once for all columns, into the
   * third cache; of f32 and f64 that fit in the second one the copies are cheap, and may be repeated. */
  bool once = both && !dwords && !p->panel && is_fixed(p->k) && is_fixed(columns) &&
              (p->c != p->acc || (o.row == 'A' ? p->a : p->b) != p->acc || rows.hi * p->k.hi * size > l2);
  int64_t kc = both ? terms_of(tg_gemm_packed_kc, p->k.hi,
                               apart || (once && (waits || smaller(rows.hi, columns.hi) >= WIDE)) ? FEW
                               : once                                                             ? FEW / 2
                               : !waits                                                           ? 256
                               : p->k.hi <= FEW                                                   ? FEW
                                                                                                  : FEW / 2)
                    : terms_of(tg_gemm_panel_kc, p->k.hi,
                               across  ? SHORT
                               : whole ? WHOLE
                                       : BLOCK);
  int64_t panel = smaller(kc, p->k.hi) * nr * size, room = l2 / (apart                                              ? 1
                                                                 : both || !whole || across || (dwords && !o.row_k) ? 2
                                                                 : dwords                                           ? 4
                                                                          : 3);
  int64_t nb = panels_of(panels_n, room / panel),
          mb = both ? listed(tg_gemm_mb, smaller(tiles, l2 / 8 / (kc * s.mr * size))) : listed(tg_gemm_mb, 1 << 20);
  if (dwords) mb = listed(tg_gemm_mb, smaller(tiles, l2 / 4 / (kc * s.mr * size)));
  if (waits && !both) mb = listed(tg_gemm_mb, smaller(smaller(mb, tiles), WAITING));
  /* threads read the same rows at about the same time */
  bool grouped = once || (known && !both && !dwords && !waits && !p->panel &&
                          (double)(rows.hi * p->k.hi * size) > v.l3 * (threads > 1 ? 2 * AFAR : AFAR));
  if (grouped) mb = listed(tg_gemm_mb, smaller(GROUP, tiles));
  if (once) {
    int64_t most = (int64_t)(v.l3 * COPIED) / (smaller(kc, p->k.hi) * s.mr * size);
    mb = tiles <= most ? listed_above(tg_gemm_mb, tiles) : listed(tg_gemm_mb, larger(GROUP, most));
    nb = 1;
  }
  if (few && !dwords && !once)
    kc = p->k.hi <= FEW ? listed_above(both ? tg_gemm_packed_kc : tg_gemm_panel_kc, p->k.hi)
                        : terms_of(both ? tg_gemm_packed_kc : tg_gemm_panel_kc, p->k.hi, NEXT),
    nb = 1;
  int64_t team = 0;
  /* some four tasks for each thread: of columns where there are enough, since each task packs its own */
  if (threads > 1) {
    int64_t tasks = 4 * (int64_t)threads;
    team = (grouped && !once) || panels_n >= tasks || panels_n * s.nu >= tiles ? 2 : 1;
    if (team == 2) nb = listed(tg_gemm_nb, larger(1, smaller(nb, panels_n / tasks)));
    else mb = listed(tg_gemm_mb, smaller(mb, up(tiles, tasks)));
  }
  if (!dwords) knob(out, "VL", vl);
  knob(out, "NU", s.nu);
  knob(out, "MR", s.mr);
  if (!dwords) knob(out, "UK", p->k.hi >= 8 && (both || s.mr <= ADDRESSES) ? 2 : 1);
  knob(out, "KC", kc);
  knob(out, "MB", mb);
  knob(out, "NB", nb);
  if (waits) knob(out, "GB", team == 1 ? 1 : listed_above(tg_gemm_nb, up(up(tiles, mb), up(rows.hi, ROWS))));
  knob(out, "TEAM", team);
  /* which block of columns a thread has next it does not know */
  if (!dwords) knob(out, "NEXT", next && !(grouped && team == 2)), knob(out, "GROUPED", grouped);
}

/* ---- tiles of bytes ---- */

static bool is_byte(tg_type t) { return t == TG_I8 || t == TG_U8; }

/* Few rows would leave most of a tile idle; a sum that C cannot hold does not wait. */
static bool takes_tiles(const tg_gemm_problem *p, const tg_target *t) {
  enum { FEWEST = 8, TERMS = 64, WHOLE = 2048 };
  return t->tile_i8 && is_byte(p->a) && is_byte(p->b) && p->acc == TG_I32 && (p->c == TG_I32 || p->k.hi <= WHOLE) &&
         smaller(p->m.hi, p->n.hi) > FEWEST && p->k.hi >= TERMS;
}

/* A panel of rows for half the first cache, panels of columns for half the second one, and rows for a quarter of it. */
void tg_gemm_knobs_tiles(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  enum { SIDE = 16, TERMS = 512 };
  tg_gemm_roles o = tg_gemm_roles_of(p);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  int64_t l2 = t->l2 ? (int64_t)t->l2 : 1 << 20, tr = rows.hi <= SIDE ? 1 : 2,
          tc = tr == 1              ? larger(1, smaller(4, up(columns.hi, SIDE)))
               : columns.hi <= SIDE ? 1
                                    : 2;
  int64_t kc = p->c == p->acc ? terms_of(tg_gemm_panel_kc, p->k.hi, TERMS) : listed_above(tg_gemm_panel_kc, p->k.hi);
  int64_t panels = up(columns.hi, SIDE * tc), tiles = up(rows.hi, SIDE * tr),
          nb = panels_of(panels, l2 / 2 / (kc * SIDE * tc)),
          mb = listed(tg_gemm_mb, smaller(tiles, l2 / 4 / (kc * SIDE * tr))), team = 0;
  if (threads > 1) {
    int64_t tasks = 4 * (int64_t)threads;
    team = panels >= tasks || panels >= tiles ? 2 : 1;
    if (team == 2) nb = listed(tg_gemm_nb, smaller(nb, larger(1, panels / tasks)));
    else mb = listed(tg_gemm_mb, smaller(mb, up(tiles, tasks)));
  }
  knob(out, "TR", tr);
  knob(out, "TC", tc);
  knob(out, "KC", kc);
  knob(out, "MB", mb);
  knob(out, "NB", nb);
  knob(out, "TEAM", team);
}

/* ---- thin and small ---- */

/* Tiles of mr rows; those that are left are powers of two. */
static int64_t tiles_of(int64_t rows, int64_t mr) {
  return rows / mr + __builtin_popcountll((unsigned long long)(rows % mr));
}

/* Rows of a tile: eight at most, of one size; nine where that makes fewer tiles, each of which reads the large
 * operand, or what a cache has of it. nine: it is read from beyond the first cache. */
static int64_t thin_rows(int64_t rows, bool nine) {
  int64_t mr = listed(tg_gemm_mr, up(rows, up(rows, 8)));
  return nine && tiles_of(rows, 9) < tiles_of(rows, mr) ? 9 : mr;
}

/* Another tile, where the estimate says that it is better by more than the estimate knows. */
static void improve_thin(const tg_gemm_problem *p, const tg_target *t, bool dot, int64_t *vl, int64_t *mr,
                         int64_t *side, int64_t *kc) {
  static const int64_t sides[] = {8, 6, 4, 3, 2, 1, 0}, terms[] = {8, 16, 32, 0};
  /* of a tile; for which no blocks are compared; rows that lie apart, each with an address; columns of so many terms
   * that are read side by side */
  enum { ROWS = 16, TERMS = 16, ADDRESSES = 9, FOUR = 4, LONG = 640 };
  const double surely = 0.95;
  int64_t most = *vl, own = *kc, registers = t->vector_registers;
  tg_gemm_view v;
  tg_gemm_look(p, t, true, &v);
  double best = surely * (dot ? tg_gemm_dot_cycles(&v, *mr, *side, *vl, 0)
                              : tg_gemm_stream_cycles(&v, *mr, *side, *vl, *kc, false));
  for (const int64_t *r = tg_gemm_mr; *r && *r <= smaller(v.rows, ROWS); r++)
    for (const int64_t *s = sides; *s; s++) {
      /* a single tile: its columns need not stay in registers */
      bool whole =
          v.asks_much && v.scattered && *s >= up(v.columns, most) && *s <= up(v.columns, most) + 1 && *r == v.rows;
      if (*r * *s + (dot || whole ? smaller(*r, *s) : *s) + 2 > registers || (*r < 4 && v.rows >= 8) ||
          (v.asks_much && v.row_k && *r > ADDRESSES) ||
          (v.asks_much && dot && v.rows == 1 && *s > FOUR && v.terms >= LONG))
        continue;
      if (dot)
        for (int64_t lanes = most; lanes >= 4 && (lanes == most || v.terms % most); lanes /= 2) {
          double c = tg_gemm_dot_cycles(&v, *r, *s, lanes, 0);
          if (c < best) best = c, *mr = *r, *side = *s, *vl = lanes;
        }
      else
        for (const int64_t *k = terms; *k; k++) {
          if (*k != own && (v.rows <= 8 || v.scattered || v.terms <= TERMS)) continue;
          double c = tg_gemm_stream_cycles(&v, *r, *s, most, *k, false);
          if (c < best) best = c, *mr = *r, *side = *s, *kc = *k;
        }
    }
}

/* A tile for rows that share blocks of terms of the large operand where it lies. Each row has an address. */
static shape choose_shared_tile(tg_kit_dim rows, tg_kit_dim columns, int64_t vl, int64_t registers, double beat) {
  enum { ADDRESSES = 9 };
  const double EACH = 0.8;   /* cycles of a term: addresses, and sums that are stored and read again */
  shape best = {0};
  for (int64_t nu = 6; nu >= 1; nu -= nu == 6 ? 2 : 1)
    for (const int64_t *mr = tg_gemm_mr;
         *mr <= smaller(rows.hi, ADDRESSES) && *mr * nu + nu + (rows.hi > *mr) <= registers; mr++) {
      double c = cost_of_range(rows, columns, *mr, nu, vl, beat, EACH);
      if (!best.mr || c < best.cycles * 0.999) best = (shape){*mr, nu, vl, c};
    }
  return best;
}

typedef struct { int64_t mr, nu, kc, uk, ahead; } thin_blocks;

/* Blocks of terms of the large operand where they lie, which all rows share; the panel after next is asked for a
 * term at a time. From afar, where lines of many terms push each other out, the next panel, some terms at a time.
 * afar: it comes from memory. */
static thin_blocks share_blocks(const tg_gemm_problem *p, const tg_target *t, int64_t vl, bool afar) {
  enum { SOME = 16, MANY = 32, PLENTY = 48, SHORT = 64, LONG = 256 };   /* rows; terms */
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  tg_gemm_view v;
  tg_gemm_look(p, t, true, &v);
  shape s = choose_shared_tile(rows, columns, vl, t->vector_registers, tg_gemm_beat(&v, vl));
  bool crowded = tg_gemm_is_crowded(&v), converted = (o.column == 'A' ? p->a : p->b) != p->acc;
  thin_blocks b = {
      .mr = s.mr, .nu = s.nu, .kc = crowded || converted || rows.hi >= MANY ? LONG : SHORT, .uk = 1, .ahead = 2};
  if (crowded && afar && !converted && rows.hi < PLENTY) b.uk = rows.hi <= SOME ? 2 : 4;
  if (afar && (b.uk > 1 || converted)) b.ahead = 1;
  return b;
}

typedef enum { FROM_HAND /* a small part of the third cache: it comes unasked */, FROM_CACHE, FROM_MEMORY } origin;

/* Rows of a tile, from least to most: the fewest tiles, of about one size. */
static int64_t some_rows(int64_t rows, int64_t least, int64_t most) {
  int64_t best = least;
  for (int64_t mr = least + 1; mr <= most; mr++)
    if (tiles_of(rows, mr) < tiles_of(rows, best) ||
        (tiles_of(rows, mr) == tiles_of(rows, best) && rows % mr == 0 && rows % best))
      best = mr;
  return best;
}

/* A tile of sums along k, of columns that come from beyond the second cache: in blocks of terms for which the rows
 * are copied, up to nine rows beside few columns, more in tiles of some. From memory more columns are read side by
 * side, by fewer rows at a time. Where columns are long and rows few, or columns short and uneven (their vectors lie
 * across lines), all terms in place are faster. Measured on Zen 5. */
static thin_blocks dot_blocks(int64_t rows, int64_t terms, int64_t size, int64_t l1, origin from, bool even) {
  enum {
    ONE = 1,
    PAIR = 2,
    THREE = 3,
    FOUR = 4,
    SIX = 6,
    SEVEN = 7,
    EIGHT = 8,
    NINE = 9,
    TWELVE = 12,
    TWENTY = 20,
    PAGE = 4096,
    FAR = 4 * PAGE /* bytes of a row, to ask for far ones */
  };
  bool is_long = rows * PAGE * 5 <= l1 * 4, one = terms * size <= PAGE, uneven = !even && rows > ONE;
  thin_blocks b = {.mr = rows, .nu = uneven && !one ? 3 : 2, .uk = 1, .ahead = 1};
  if (from == FROM_MEMORY ? rows <= FOUR
                          : uneven && (one ? rows < EIGHT || rows > NINE : from == FROM_HAND && rows <= FOUR)) {
    b.mr = rows > NINE ? some_rows(rows, SIX, SEVEN) : rows;
    b.nu = b.mr == SEVEN || (from != FROM_MEMORY && rows == THREE) || (from != FROM_MEMORY && rows == PAIR && !one) ||
                   (from == FROM_HAND && rows == FOUR)
               ? 3
               : 4;
    b.ahead = terms * size >= FAR ? 24 : 8;
    return b;
  }
  if (from == FROM_MEMORY && rows <= TWELVE) {
    b.mr = rows <= SEVEN ? rows : rows == EIGHT ? FOUR : EIGHT;
    b.nu = rows <= SIX || rows == EIGHT ? 4 : 3;
    is_long &= rows == EIGHT;
  } else if (rows > NINE) {
    bool fours = rows % FOUR == 0 && rows <= TWENTY;
    b.mr = from == FROM_MEMORY || rows > TWENTY ? FOUR
           : uneven                             ? some_rows(rows, SEVEN, EIGHT)
           : fours                              ? FOUR
                                                : some_rows(rows, FOUR, SIX);
    b.nu = b.mr > SIX ? 3 : b.mr == FOUR && (from == FROM_MEMORY || !fours) ? 6 : 4;
  }
  b.kc = terms_of(tg_gemm_dot_kc, terms, (is_long ? PAGE : PAGE / 2) / size);
  /* sums of short blocks are folded more of them side by side; columns a page apart are in the same sets */
  bool is_short = b.kc * size <= PAGE * 3 / 4, page = terms * size == PAGE;
  if (rows == ONE) b.nu = terms * size % PAGE ? 4 : 2;
  else if (rows == PAIR) b.nu = page && from == FROM_HAND ? 2 : 4;
  else if (rows <= FOUR) b.nu = is_short ? 4 : page && (rows == FOUR || from == FROM_HAND) ? 2 : 3;
  if (from == FROM_HAND && (rows == NINE || (uneven && rows >= SEVEN))) b.ahead = 0;
  if (uneven && one && from != FROM_MEMORY) b.ahead = 0;
  return b;
}

/* The product of a thin operand and one that is read once. Tiles were measured: more columns side by side are more
 * streams of memory at a time. */
void tg_gemm_knobs_thin(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  enum {
    ONE_BY_ONE = 1,
    ROWS = 4,
    SHORT = 16 /* vectors of a column */,
    SHARED = 4,
    SHARED_AFAR = 7 /* rows that share blocks of terms */
  };
  int64_t rows = o.r == 'i' ? p->m.hi : p->n.hi, columns = o.r == 'i' ? p->n.hi : p->m.hi, size = bytes_of(p->acc),
          vl = smaller(t->vector_bytes / size, 16);
  int64_t side, uk = 8, ahead = 0, l2 = t->l2 ? (int64_t)t->l2 : 1 << 20, l1 = t->l1 ? (int64_t)t->l1 : 32 << 10,
                l3 = t->l3 ? (int64_t)t->l3 : 8 << 20;
  bool few = t->vector_registers < 32, dot = out->sketch == tg_gemm_dot.kernel;
  /* it comes unasked: tiles need not spare it */
  bool at_hand = dot && t->asking == TG_ASK_MUCH && columns * p->k.hi * size <= l3 / 4;
  int64_t kc = rows > 8 ? 16 : 8, mr = thin_rows(rows, !few && !at_hand && (!dot || p->k.hi * 3 * size > l1 / 2));
  if (dot) side = mr <= 4 ? 4 : 3;
  else if (o.scattered) side = mr <= 2 ? 8 : 3;
  else side = mr == 1 ? 8 : rows == mr && mr > 4 && mr <= 8 ? 1 : 3;
  if (few && mr * side > 12) side = larger(1, 12 / mr);
  if (is_fixed(p->m) && is_fixed(p->n) && is_fixed(p->k) && p->a == p->acc && p->b == p->acc)
    improve_thin(p, t, dot, &vl, &mr, &side, &kc);
  /* What comes unasked comes in a sequence: of rows that are read side by side a vector at a time, to their ends; of
   * columns as many as there are registers for, which several rows share. */
  if (t->asking == TG_ASK_NOTHING && dot && mr > 1 && mr <= 4 && !few) side = 6;
  int64_t along = up(p->k.hi, vl);
  /* short columns one behind another are one long stream */
  if (t->asking == TG_ASK_MUCH && dot && mr == 1 && along <= SHORT && columns * p->k.hi * size > l1)
    side = along > SHORT / 2 ? 1 : 2;
  if (t->asking == TG_ASK_MUCH && !dot && o.scattered && along == 1) side = 1;
  bool sequence = t->asking == TG_ASK_NOTHING && !dot && !o.scattered && rows <= ONE_BY_ONE,
       much = t->asking == TG_ASK_MUCH && rows > 1 && !few && columns * p->k.hi * size > l2;
  if (sequence) side = 1;
  bool afar = columns * p->k.hi * size > l3 / 5 * 3, even = is_fixed(p->k) && p->k.hi % vl == 0,
       dot_shared =
           dot && t->asking == TG_ASK_MUCH && !few && columns * p->k.hi * size > l2 && (rows > 1 || (even && !afar)),
       shared = much && !dot && !o.scattered && !o.column_k && rows >= (afar ? SHARED_AFAR : SHARED);
  /* from memory four lines of each of eight rows, asked for four times as far ahead; from the third cache pairs of
   * lines, unasked */
  if (much && !dot && !o.scattered) {
    if (shared) {
      thin_blocks b = share_blocks(p, t, vl, afar);
      side = b.nu, mr = b.mr, kc = b.kc, uk = b.uk, ahead = b.ahead;
    } else if (afar) side = 4, mr = smaller(mr, ROWS), kc = 8;
    else side = 2, mr = rows, kc = rows < ROWS ? 8 : 16;
  }
  if (dot_shared) {
    thin_blocks b = dot_blocks(rows, p->k.hi, size, l1, afar ? FROM_MEMORY : at_hand ? FROM_HAND : FROM_CACHE, even);
    side = b.nu, mr = b.mr, kc = b.kc, ahead = b.ahead;
  }
  const int64_t *list = tg_gemm_stream_nb;
  int64_t wide = dot ? side : side * vl, tiles = up(columns, wide), room = dot ? 64 : l2 / 4 / (rows * wide * size),
          nb = tiles <= room && tiles <= 64 ? listed_above(list, tiles) : listed(list, smaller(tiles, room));
  if (t->asking != TG_ASK_NOTHING) nb = smaller(nb, 64);
  if (threads > 1) nb = listed(list, smaller(nb, up(columns, wide * 4 * (int64_t)threads)));
  /* rows are copied once */
  if (dot && threads <= 1 && (dot_shared ? kc != 0 : !o.row_k)) nb = listed_above(list, tiles);
  knob(out, "VL", vl);
  knob(out, dot ? "NC" : "NU", side);
  knob(out, "MR", mr);
  knob(out, "NB", nb);
  knob(out, "KC", dot && !dot_shared ? 0 : kc);
  if (!dot) knob(out, "UK", uk);
  knob(out, "AHEAD",
       shared || dot_shared              ? ahead
       : sequence                        ? 1
       : much                            ? afar && !dot && !o.scattered ? 4 : 0
       : dot && t->asking == TG_ASK_SOME ? 8
                                         : 0);
  knob(out, "TEAM", threads > 1 ? 2 : 0);
}

/* Cycles of a tile of sizes that are known: as cycles_of, from the first cache, where vectors that lie across lines
 * are loaded twice; its sums are stored. */
static double cycles_of_small(int64_t rows, int64_t vectors, int64_t terms, bool across, double beat) {
  double work = fmax((double)(rows * vectors) * beat, 4.0 / (double)tg_gemm_sums(rows * vectors, terms)),
         loads = (double)rows * 0.5 + (double)(vectors * (across ? 2 : 1)) * beat;
  return (double)terms * (work > loads ? work : loads) + (double)(rows * vectors) * (across ? 4 : 2) * beat + 8;
}

static double cycles_of_columns(int64_t rows, int64_t mr, int64_t vectors, int64_t terms, bool across, double beat) {
  return (double)(rows / mr) * cycles_of_small(mr, vectors, terms, across, beat) +
         (rows % mr ? cycles_of_small(rows % mr, vectors, terms, across, beat) : 0);
}

static double cycles_of_tiles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl) {
  int64_t wide = nu * vl, rest = v->columns % wide, tile = smaller(mr, v->rows);
  bool across = v->columns % vl;
  double beat = tg_gemm_beat(v, vl);
  return (double)(v->columns / wide) * cycles_of_columns(v->rows, tile, nu, v->terms, across, beat) +
         (rest ? cycles_of_columns(v->rows, tile, up(rest, vl), v->terms, across, beat) : 0);
}

/* All of it in the first cache: then nothing is waited for. */
static bool is_near(const tg_gemm_view *v) {
  return (double)((v->rows * v->columns + (v->rows + v->columns) * v->terms) * v->size) <= v->l1;
}

/* Rows and columns that tiles leave are tiles as well. */
static shape choose_small_tile(const tg_gemm_view *v, int64_t most, int64_t registers) {
  const int64_t most_rows = 28;
  shape best = {0};
  /* halves, where they are as fast: less is left over */
  for (int64_t vl = most; vl >= most / (v->double_pumped && most * v->size == 64 ? 2 : 1); vl /= 2)
    for (int64_t nu = registers >= 32 ? 4 : 3; nu >= 1; nu--)
      for (const int64_t *mr = tg_gemm_mr; *mr && *mr * nu + nu + 1 <= registers; mr++) {
        double c = is_near(v) ? cycles_of_tiles(v, *mr, nu, vl) : tg_gemm_direct_cycles(v, *mr, nu, vl);
        /* fewer elements are copied one by one */
        if (vl < most && v->column_k && v->terms % vl < v->terms % most) c *= 0.9;
        if (!best.mr || c < best.cycles * (best.vl == vl ? 0.999 : 0.97)) best = (shape){*mr, nu, vl, c};
        /* of a few columns long tiles were slower */
        if (*mr >= v->rows || ((v->double_pumped || (v->asks_much && v->terms * v->size <= 64)) && *mr >= 8 &&
                               v->rows > most_rows && (vl * v->size <= 16 || vl >= v->columns)))
          break;
      }
  return best;
}

/* The rows of a panel, by a list of tiles of powers of two. */
static double cycles_of_list(int64_t rows, int64_t mr, int64_t vectors, int64_t terms, double beat) {
  double sum = (double)(rows / mr) * cycles_of_small(mr, vectors, terms, true, beat);
  int64_t power = 1;
  while (power * 2 < mr) power *= 2;
  for (rows %= mr; rows && power; rows %= power, power /= 2)
    sum += (double)(rows / power) * cycles_of_small(power, vectors, terms, true, beat);
  return sum;
}

static int64_t sample_of(tg_kit_dim d, int64_t i, int64_t n) { return d.lo + (d.hi - d.lo) * (2 * i + 1) / (2 * n); }

/* Sizes that are known at launch only: the average over some of the range. What tiles leave of the columns are
 * single vectors. */
static shape choose_open_tile(tg_kit_dim rows, tg_kit_dim columns, int64_t vl, int64_t registers, double beat) {
  enum { SAMPLES = 4, TERMS = 32 };
  shape best = {0};
  for (int64_t nu = registers >= 32 ? 4 : 3; nu >= 1; nu--)
    for (const int64_t *mr = tg_gemm_mr; *mr && *mr * nu + nu + 1 <= registers; mr++) {
      double c = 0;
      for (int64_t i = 0; i < SAMPLES; i++) {
        int64_t m = sample_of(rows, i, SAMPLES);
        double wide = cycles_of_list(m, *mr, nu, TERMS, beat) / (double)m,
               single = cycles_of_list(m, *mr, 1, TERMS, beat) / (double)m;
        for (int64_t k = 0; k < SAMPLES; k++) {
          int64_t n = sample_of(columns, k, SAMPLES);
          c += ((double)(n / (nu * vl)) * wide + (double)up(n % (nu * vl), vl) * single) / (double)n;
        }
      }
      if (!best.mr || c < best.cycles * 0.999) best = (shape){*mr, nu, vl, c};
      if (*mr >= rows.hi) break;
    }
  return best;
}

/* All terms in a row where they are few, or where one tile has all rows (the columns' vectors of several would be
 * kept, and there are not as many registers); else some that divide them. Of what is not near, fewer: where each row
 * of a tile has an address of its own, many of them leave none to more terms, and what those load would wait in
 * memory. */
static int64_t terms_in_a_row(const tg_gemm_view *v, int64_t mr, int64_t tile) {
  enum { MOST = 16, FEW = 4, ADDRESSES = 8, INSTRUCTIONS = 1024, DECODED = 256, SUMS = 20 };
  int64_t n = MOST, rest = 0;
  if ((v->rows <= mr || v->terms <= FEW) &&
      v->terms * tile <= (v->double_pumped || v->asks_much ? DECODED : INSTRUCTIONS))
    return 0;
  if (!is_near(v)) {
    if (v->asks_much && v->row_k && !v->column_k) return 1;
    if (v->row_k) n = mr <= 7 ? 8 : mr <= 9 ? 4 : mr == 10 ? 2 : 1;
    else if (v->terms > MOST) n = tile <= SUMS ? 4 : 1;
    rest = 1;
  } else if (v->row_k && mr >= ADDRESSES && v->terms > MOST)
    return 1; /* addresses of more rows fill the registers, and more terms would have some wait in memory */
  if (v->terms <= n) return 0;
  while (v->terms % n > rest) n--;   /* a rest of several terms would have sums of its own, in as many registers */
  return n;
}

void tg_gemm_knobs_direct(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  (void)threads;
  /* terms: little but stores, which go row by row; without a loop; rows: few, some */
  enum { SHORT = 4, ROW = 128, FEW = 4, ROWS = 16 };
  bool turned = p->c_major == TG_GEMM_COLUMN;
  tg_kit_dim rows = turned ? p->n : p->m, columns = turned ? p->m : p->n;
  int64_t size = bytes_of(p->acc), vl = smaller(t->vector_bytes / size, 16);
  while (vl * size > 16 && columns.hi <= vl / 2) vl /= 2;
  bool known = rows.lo == rows.hi && columns.lo == columns.hi && p->k.lo == p->k.hi;
  tg_gemm_view v;
  tg_gemm_look(p, t, false, &v);
  shape s = known ? choose_small_tile(&v, vl, t->vector_registers)
                  : choose_open_tile(rows, columns, vl, t->vector_registers, tg_gemm_beat(&v, vl));
  if (known && v.column_k && v.terms <= vl) {   /* columns are transposed in registers and used there */
    s.nu = 1;
    if (v.terms <= vl / 2 && v.rows <= FEW && s.vl == vl && vl >= 8) s.vl = vl / 2;
    if (v.asks_much && v.rows <= FEW && v.terms > vl / 2 && v.terms < vl) s.mr = 1;
  }
  bool turned_there = known && v.column_k && v.terms <= vl && v.asks_much;   /* then all terms in a row */
  bool in_rows = known && !v.column_k && v.columns > s.nu * s.vl && v.terms <= SHORT;
  /* what few terms come to is stored while the next tile begins */
  if (known && v.asks_much && !v.column_k && v.terms <= 2 * SHORT && v.rows >= ROWS && v.columns > s.vl)
    s.mr = is_near(&v) ? 4 : v.terms == 2 ? 2 : 3;
  if (in_rows && v.terms == 1) s.mr = 1;   /* C is all that there is, and is written from end to end */
  knob(out, "VL", s.vl);
  knob(out, "NU", s.nu);
  knob(out, "MR", s.mr);
  /* its columns come as fast as they are asked for: without a loop */
  bool one_row = known && v.asks_much && v.rows == 1 && !v.column_k && !is_near(&v) && v.terms <= ROW;
  knob(out, "UK", turned_there || one_row ? 0 : is_fixed(p->k) ? terms_in_a_row(&v, s.mr, s.mr * s.nu) : 1);
  knob(out, "ROWS", in_rows);
  knob(out, "SUMS",
       known && !one_row ? tg_gemm_sums(smaller(s.mr, v.rows) * smaller(s.nu, up(v.columns, s.vl)), v.terms) : 1);
}

/* A long sum is shared out in parts that depend on how many threads the plan is for, not on who comes. Two blocks of
 * terms for the second cache at a time. */
void tg_gemm_knobs_long(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  tg_gemm_roles o = tg_gemm_roles_of(p);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  int64_t size = bytes_of(p->acc), vl = smaller(t->vector_bytes / size, 16), l2 = t->l2 ? (int64_t)t->l2 : 1 << 20,
          parts = 1;
  shape s = choose_tile(NULL, t->double_pumped ? 1 : 0.5, rows, columns, vl, t->vector_registers, 0);
  while (parts < 4 * (int64_t)threads && parts < 64) parts *= 2;
  knob(out, "VL", vl);
  knob(out, "NU", s.nu);
  knob(out, "MR", s.mr);
  knob(out, "UK", 2);
  knob(out, "KC", listed(tg_gemm_packed_kc, smaller(512, l2 / 4 / (size * (rows.hi + columns.hi)))));
  knob(out, "PARTS", threads > 1 ? parts : 1);
}

/* ---- whole numbers with scales ---- */

/* Few rows take the panels as they are, where groups are of whole words. More of them share floats, for which there
 * must be room in a cache. */
bool tg_gemm_first_grouped(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  enum { FEW = 32 };
  int64_t group = p->group ? p->group : p->k.hi;
  (void)t, (void)threads;
  return p->bits && p->panel && is_fixed(p->k) && p->k.lo && p->k.lo % group == 0 && (p->bits == 8 || group % 8 == 0) &&
         p->m.hi <= FEW;
}

bool tg_gemm_first_weights(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  enum { FROM = 4 };
  int64_t room = t->l2 ? 2 * (int64_t)t->l2 : 4 << 20;
  (void)threads;
  return p->bits && p->m.hi >= FROM && p->c_major == TG_GEMM_ROW && p->a_major != TG_GEMM_STRIDES &&
         p->b_major != TG_GEMM_STRIDES && p->k.hi <= room / 4 / 64;
}

void tg_gemm_knobs_quantised(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  /* panels of a single row, as many as memory reads fastest; words that are asked for ahead; bytes of floats */
  enum { SIDE_BY_SIDE = 8, WORDS = 8, MORE_WORDS = 24, ROOM = 4 << 20 };
  int64_t vl = smaller(t->vector_bytes / 4, 16), rows = p->m.hi, registers = t->vector_registers < 32 ? 6 : 16,
          tasks = threads > 1 ? 4 * (int64_t)threads : 1;
  knob(out, "VL", vl);
  if (out->sketch == tg_gemm_grouped.kernel) {
    int64_t wide = up(p->panel, vl), np = listed(tg_gemm_side, larger(1, smaller(rows == 1   ? SIDE_BY_SIDE
                                                                                 : rows <= 4 ? 4
                                                                                             : 2,
                                                                                 registers / 2) /
                                                                             wide));
    int64_t mr = listed(tg_gemm_mr, up(rows, up(rows, larger(1, registers / (wide * np))))),
            group = p->group ? p->group : p->k.hi;
    knob(out, "NP", np);
    knob(out, "MR", mr);
    /* two threads have as much asked for as memory brings */
    knob(out, "AHEAD", t->asking == TG_ASK_MUCH && threads <= 1 ? MORE_WORDS : WORDS);
    knob(out, "GROUPS", listed(tg_gemm_side, larger(1, WORDS * 8 / group)));
    knob(out, "NB", listed(tg_gemm_nb, larger(1, up(p->n.hi, p->panel) / (np * tasks))));
  } else {
    int64_t widest = vl * (t->vector_registers < 32 ? 2 : 4);
    /* no gates, where that can be */
    shape s = choose_tile(NULL, t->double_pumped ? 1 : 0.5, p->m, p->n, vl, t->vector_registers,
                          is_fixed(p->n) && p->n.lo % widest == 0 ? widest : 0);
    int64_t panels = up(p->n.hi, s.nu * vl), kc = terms_of(tg_gemm_panel_kc, p->k.hi, 512);
    int64_t most = smaller(smaller(ROOM / (p->k.hi * s.nu * vl * 4), 4), larger(1, panels / tasks));
    while (most > 1 && is_fixed(p->n) && panels % most) most--;
    knob(out, "NU", s.nu);
    knob(out, "MR", s.mr);
    knob(out, "UK", p->k.hi >= 8 ? 2 : 1);
    knob(out, "KC", kc);
    knob(out, "NB", listed(tg_gemm_nb, larger(1, most)));
    knob(out, "MB", listed(tg_gemm_mb, smaller(up(rows, s.mr), 16)));
  }
  knob(out, "TEAM", threads > 1 ? 2 : 0);
}

/* ---- which sketch ---- */

static bool is_float(tg_type t) { return t == TG_F16 || t == TG_BF16 || t == TG_F32 || t == TG_F64; }

static bool is_integer(tg_type t) { return t == TG_I8 || t == TG_U8 || t == TG_I32; }

/* Rows and columns for a few tiles only, and terms for many blocks. */
static bool is_long(const tg_gemm_problem *p) {
  enum { MOST = 1 << 15, LEAST = 4096, TIMES = 16 };
  return p->m.hi * p->n.hi <= MOST && p->k.hi >= LEAST && p->k.hi >= TIMES * larger(p->m.hi, p->n.hi) &&
         smaller(p->m.hi, p->n.hi) >= (tg_gemm_thin_roles_of(p).column_k ? 8 : 4);
}

/* Products with work enough to pack columns for it. */
static bool takes_pairs(const tg_gemm_problem *p, const tg_target *t) {
  enum { ROWS = 8, COLUMNS = 16, TERMS = 16 };
  return p->flush && t->dot_bf16 && p->a == TG_BF16 && p->b == TG_BF16 && p->acc == TG_F32 &&
         p->c_major == TG_GEMM_ROW && p->m.hi >= ROWS && p->n.hi >= COLUMNS && p->k.hi >= TERMS;
}

/* One product at a time, of numbers as they lie. */
static bool is_single(const tg_gemm_problem *p) { return !p->bits && !p->panel && p->batch.hi <= 1; }

static bool are_integers(const tg_gemm_problem *p) { return is_integer(p->a) && is_integer(p->b) && p->acc == TG_I32; }

static bool are_floats(const tg_gemm_problem *p) { return is_float(p->acc) && is_float(p->a) && is_float(p->b); }

bool tg_gemm_first_tiles(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)threads;
  return is_single(p) && takes_tiles(p, t);
}

static bool takes_bytes(const tg_gemm_problem *p, const tg_target *t, tg_type a) {
  return is_single(p) && p->a == a && p->b == TG_I8 && p->acc == TG_I32 && p->c_major == TG_GEMM_ROW && t->dot_u8s8 &&
         p->k.hi >= 8 && p->m.hi >= 2 && p->n.hi >= 2;
}

bool tg_gemm_first_bytes(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)threads;
  return takes_bytes(p, t, TG_U8);
}

bool tg_gemm_first_signed_bytes(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)threads;
  return takes_bytes(p, t, TG_I8);
}

bool tg_gemm_first_pairs(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)threads;
  return is_single(p) && takes_pairs(p, t);
}

/* What none of the sketches above it in the list has, and those below are not for. */
bool tg_gemm_first_plain(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  enum { TINY = 16 };
  (void)t;
  if (p->bits || p->panel) return p->bits;
  if (p->batch.hi > 1) return true;
  if (are_integers(p)) return p->a_major == TG_GEMM_ROW && p->b_major == TG_GEMM_ROW;
  if (!are_floats(p)) return true;
  return !(is_long(p) && threads > 1) && tg_gemm_is_strided(p) && larger(p->m.hi, p->n.hi) <= TINY;
}

bool tg_gemm_first_long(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)t;
  return is_single(p) && are_floats(p) && is_long(p) && threads > 1;
}

/* Floats as they lie, or in panels. */
static bool is_dense(const tg_gemm_problem *p) { return !p->panel && are_floats(p) && !tg_gemm_is_strided(p); }

/* Is one operand so much smaller than the other that this is read once, where it lies? */
static bool is_thin(const tg_gemm_problem *p, const tg_target *t) {
  enum {
    THIN_ALONG = 48,
    THIN_ACROSS = 32,
    FEW_DOT = 14,
    FEW_NEAR = 3,
    FEW_AFAR = 10,
    FEW_SHARED = 48,
    FROM = 64 << 10,
    COPY = 1 << 20
  };
  tg_gemm_roles o = tg_gemm_roles_of(p), thin = tg_gemm_thin_roles_of(p);
  tg_type rows = o.row == 'A' ? p->a : p->b, streamed = thin.column == 'A' ? p->a : p->b;
  int64_t least = smaller(p->m.hi, p->n.hi), most = larger(p->m.hi, p->n.hi);
  /* the few columns fill a vector, or nearly: then panels of them are better than sums along k */
  bool narrow = thin.column_k && thin.scattered && o.row_k && rows == p->acc &&
                least * 4 * bytes_of(p->acc) > t->vector_bytes * 3;
  /* by each tile of the few rows again; in panels once */
  bool converted = streamed != p->acc && is_fixed(p->k) && is_fixed(p->m) && is_fixed(p->n);
  int64_t nearby = most * p->k.hi * bytes_of(streamed) <= (int64_t)t->l2 ? FEW_NEAR
                   : t->asking == TG_ASK_MUCH && !thin.scattered         ? FEW_SHARED
                                                                         : FEW_AFAR;
  int64_t thinnest = converted                         ? thin.column_k ? FEW_DOT : nearby
                     : thin.column_k || thin.scattered ? THIN_ACROSS
                                                       : THIN_ALONG;
  return least <= thinnest && most * p->k.hi >= FROM / bytes_of(streamed) && most > least * 4 && !narrow &&
         (!thin.column_k || thin.row_k || least * p->k.hi <= COPY);
}

bool tg_gemm_first_direct(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  enum { SMALL = 128 };
  (void)threads;
  return is_dense(p) && larger(p->m.hi, p->n.hi) <= SMALL && p->k.hi <= SMALL && !is_thin(p, t);
}

bool tg_gemm_first_panel(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  tg_gemm_roles o = tg_gemm_roles_of(p);
  (void)threads;
  return (p->panel || (is_dense(p) && !is_thin(p, t))) && o.row_k && (o.row == 'A' ? p->a : p->b) == p->acc;
}

bool tg_gemm_first_packed(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)threads;
  return !is_dense(p) || !is_thin(p, t);
}

bool tg_gemm_first_stream(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)t, (void)threads;
  return !tg_gemm_thin_roles_of(p).column_k;
}

bool tg_gemm_first_dot(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  (void)p, (void)t, (void)threads;
  return true;
}

static const tg_gemm_sketch *sketch_of(const tg_gemm_problem *p, const tg_target *t, uint32_t threads) {
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    if (tg_gemm_sketches[i]->first(p, t, threads)) return tg_gemm_sketches[i];
  return &tg_gemm_plain;
}

void tg_gemm_choose_knobs(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, const tg_gemm_sketch *s,
                          tg_kit_choice *out) {
  *out = (tg_kit_choice){.sketch = s->kernel};
  if (s->knobs) s->knobs(p, t, threads, out);
}

/* Of sizes that are known, in floats as they lie: the least by the estimate. Those that threads share are divided;
 * waking them takes time. */
bool tg_gemm_is_estimated(const tg_gemm_problem *p) {
  return is_fixed(p->m) && is_fixed(p->n) && is_fixed(p->k) && p->batch.hi <= 1 && !p->panel && !p->bits &&
         !tg_gemm_is_strided(p) && p->a == p->acc && p->b == p->acc && p->c == p->acc && is_float(p->acc) && p->m.lo &&
         p->n.lo && p->k.lo;
}

enum { WAKE = 15000 };   /* cycles until other threads are at work */

static double choose_least(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  enum { THIN = 96, THIN_SHARED = 160 };   /* rows that a thin sketch may take: more share copies */
  /* cycles; what the estimate cannot tell apart goes to the one that comes first: most of all where each cycle
   * counts, and it copies nothing */
  const double surely = 0.98, near = 0.75, near_thin = t->asking == TG_ASK_MUCH ? 0.85 : near;
  tg_gemm_view v;
  double best = 0;
  tg_gemm_look(p, t, false, &v);
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++) {
    const tg_gemm_sketch *s = tg_gemm_sketches[i];
    tg_kit_choice c;
    if (!s->cycles) continue;
    bool stream = s == &tg_gemm_stream, thin = stream || s == &tg_gemm_dot;
    tg_gemm_roles o = tg_gemm_thin_roles_of(p);
    /* the other one would gather, or transpose a few terms at a time */
    if (thin && (smaller(p->m.hi, p->n.hi) > (stream && t->asking == TG_ASK_MUCH ? THIN_SHARED : THIN) ||
                 (stream ? o.column_k && !o.scattered : !o.column_k)))
      continue;
    tg_gemm_choose_knobs(p, t, threads, s, &c);
    double cycles = s->cycles(p, t, &c);
    if (threads > 1 && s != &tg_gemm_direct) cycles = cycles / threads + WAKE;
    if (best == 0 || cycles < best * (is_near(&v) && out->sketch == tg_gemm_direct.kernel &&
                                              !(v.asks_much && v.column_k && v.terms * v.size > t->vector_bytes &&
                                                v.columns * v.size > 4 * t->vector_bytes /* many are transposed */)
                                          ? thin ? near_thin : near
                                          : surely))
      best = cycles, *out = c;
  }
  return best;
}

tg_gemm_problem tg_gemm_strip(const tg_gemm_problem *p, const tg_kit_strips *strips, uint32_t i) {
  tg_gemm_problem q = *p;
  tg_kit_dim *d = strips->rows ? &q.m : &q.n;
  d->lo = d->hi = smaller(d->lo - (int64_t)i * strips->size, strips->size);
  return q;
}

/* As many strips as threads, or fewer: of whole vectors where the elements along them lie side by side, of whole
 * panels where B is packed. */
static tg_kit_strips strips_of(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, bool rows) {
  int64_t n = rows ? p->m.lo : p->n.lo, vector = larger(1, t->vector_bytes / bytes_of(p->acc)),
          whole = rows != (p->c_major == TG_GEMM_COLUMN) ? 1
                  : p->panel                             ? p->panel
                                                         : vector,
          size = up(up(n, threads), whole) * whole;
  return (tg_kit_strips){.n = (uint32_t)up(n, size), .rows = rows, .size = size};
}

tg_kit_strips tg_gemm_choose_strips(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, bool open_rows) {
  enum { WORK = 1000000, THIN = 64 };   /* multiplications, columns or rows of a strip: below, one thread is as fast */
  /* what one kernel for all threads costs besides: who has what, waiting for each other, sizes that its words know
   * less of */
  const double together = 1.06;
  tg_kit_strips best = {.n = 1};
  tg_kit_choice c;
  bool known = is_fixed(p->m) && is_fixed(p->n) && is_fixed(p->k) && p->m.lo && p->n.lo && p->k.lo;
  if (threads < 2 || !known || (p->bits && !p->panel) || (is_long(p) && is_float(p->acc))) return best;
  if (!tg_gemm_is_estimated(p)) {
    bool rows = p->m.lo > p->n.lo;
    tg_kit_strips s = strips_of(p, t, threads, rows);
    return (rows && open_rows) || s.n < 2 || s.size < THIN || (double)p->m.lo * (double)p->n.lo * (double)p->k.lo < WORK
               ? best
               : s;
  }
  double least = choose_least(p, t, threads, &c) * together;
  for (int rows = 0; rows < 2 - open_rows; rows++) {
    tg_kit_strips s = strips_of(p, t, threads, rows);
    tg_gemm_problem q = tg_gemm_strip(p, &s, 0);
    if (s.n < 2) continue;
    double cycles = choose_least(&q, t, 1, &c) + WAKE;
    if (cycles < least) least = cycles, best = s;
  }
  return best;
}

void tg_gemm_choose(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out) {
  if (tg_gemm_is_estimated(p) && !(is_long(p) && threads > 1)) choose_least(p, t, threads, out);
  else tg_gemm_choose_knobs(p, t, threads, sketch_of(p, t, threads), out);
}
