/* SPDX-License-Identifier: MIT
 * Cycles that a sketch should take under its knobs, on one thread: tiles and what they leave, where their operands come
 * from, copies and transposes, sums that are stored and
 * read again. It is as rough as it is quick: it has to tell sketches and tiles apart, not to foretell a time. */
#include "gemm/template.h"
#include "gemm/sketch.h"

/* Cycles of a vector unless it is said, fitted to some 4000 points of 100 products in f32 on a processor with
 * AVX-512; a multiply-add takes half of one. */
static const double LOAD = 0.5, ACROSS = 1.6 /* two lines */, FROM_L2 = 2.4, FROM_L3 = 5,
                    FROM_AFAR = 10 /* where nothing asks ahead */; /* of what is read again and again */
/* of what is read once, from end to end or in pieces of rows */
static const double ONCE_L2 = 1.1, PIECES_L2 = 1.9, ONCE_L3 = 2.9, PIECES_L3 = 6.5, ONCE_MEMORY = 12,
                    PIECES_MEMORY = 20;
static const double STORE = 1, STORE_L2 = 3.1, STORE_L3 = 8, SIDE_BY_SIDE = 0.2 /* more for each row */,
                    AGAIN = 2.5 /* stored, and read by the next terms */, SCATTERED = 2.4 /* an element */,
                    SCATTERED_EASILY = 0.6;
static const double TILE = 10, UNROLLED = 0.3 /* of it, without a loop */, TERM = 0.3,
                    FEW_CHAINS = 5 /* a term at least: its sums wait for those before */,
                    BLOCK = 12 /* of terms, a tile */, PANEL = 60, ROW = 6 /* copied */;
static const double
    COPY = 2.4,
    TRANSPOSED = 0.38 /* an element */, FEWER = 0.6 /* part, at least, of a block of fewer terms */,
    ALONE = 0.5 /* part of it, where one vector is transposed at a time */, GATHERED = 1.4 /* an element */,
    FOLD = 4.2 /* lanes of a sum */, FOLD_EASILY = 2.2, FOLD_BLOCK = 2.5 /* and what has waited in C is added */,
    FAR_ROWS = 1.1 /* times: of blocks of terms that the first cache does not hold */,
    CROWDED_TILE = 1.2 /* times, of so many rows side by side */,
    TURNED_EASILY = 0.65 /* times: of what has been asked for */,
    TURNED_THERE =
        0.5 /* times: columns of few terms, transposed and multiplied in registers while others are stored */,
    TURNED_REST =
        1.3 /* times: the last columns, and all where they are few, have nothing beside which they are transposed */,
    SINGLE = 1.15 /* a term of a sum */;
static const double LINE = 1.5, PAGE = 6 /* a term whose row operand is in another */,
                    ADDRESS = 0.03 /* part, for each row beyond ADDRESSES */;
static const double WHOLE_LINES = 1.4 /* times, to store one in two halves */, UNALIGNED = 1.3,
                    CROWDED = 4 /* a vector that its neighbours have pushed out */;
static const double HIDDEN = 0.4, ASKED = 0.25, BESIDE = 0.15 /* parts of what goes on side by side */, STREAM = 1.08,
                    STREAM_ASKED = 0.7 /* of what is asked for far ahead, or comes in pairs of lines */, TURNED = 1.15,
                    MANY_ROWS = 1.1, IN_TURN = 1.2 /* times */;
enum {
  ASKING_ROWS = 16,
  ROWS_IN_TURN = 16 /* that the columns' tiles pass, each from the caches */,
  STREAMS = 16,
  ADDRESSES = 6,
  IN_A_ROW = 1024 /* multiplications without a loop */,
  SHORT = 16 /* sums: little but stores */,
  FEW_TERMS = 4,
  FEW_IN_A_ROW = 8,
  FEW_SCATTERED = 3,
  MANY_IN_DOT = 8,
  DOT_COLUMNS = 64 /* tiles of columns that rows share */,
  DOT_OVERLAP = 16 /* vectors: the next sums begin meanwhile */
};
static const double SEQUENCE = 0.36 /* part of a vector that comes unasked, from end to end */,
                    EASY = 0.5 /* of the third cache */, EASILY = 0.3;
/* of rows that each block of columns reads from beyond the second cache */
static const double AGAIN_BYTE = 0.03, AGAIN_EASILY = 0.01;
enum {
  FEW_SETS = 1024 /* rows of the columns' operand that share them */,
  FAR_APART = 8192 /* bytes, from a row to the next */,
  EASY_ADDRESSES = 8
};
static const double page = 4096, pages = 80 /* that are at hand */,
                    many_pages = 600 /* likewise, where much is asked for */, full = 0.7 /* of a cache */;

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }
/* two that go on side by side, nearly */
static double meanwhile(double a, double b) { return most(a, b) + HIDDEN * least(a, b); }
static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n; }

void tg_gemm_look(const tg_gemm_problem *p, const tg_target *t, bool thin, tg_gemm_view *v) {
  tg_gemm_roles o = thin ? tg_gemm_thin_roles_of(p) : tg_gemm_roles_of(p);
  *v = (tg_gemm_view){.rows = o.r == 'i' ? p->m.hi : p->n.hi,
                      .columns = o.r == 'i' ? p->n.hi : p->m.hi,
                      .terms = p->k.hi,
                      .size = p->acc == TG_F64 ? 8 : 4,
                      .row_k = o.row_k,
                      .column_k = o.column_k,
                      .scattered = o.scattered,
                      .double_pumped = t->double_pumped,
                      .asks_much = t->asking == TG_ASK_MUCH,
                      .l1 = t->l1 ? (double)t->l1 : 32 << 10,
                      .l2 = t->l2 ? (double)t->l2 : 1 << 20,
                      .l3 = t->l3 ? (double)t->l3 : 8 << 20};
}

/* A multiply-add of vectors of so many elements, or a load of one that is near. */
double tg_gemm_beat(const tg_gemm_view *v, int64_t vl) { return v->double_pumped && vl * v->size > 32 ? 1 : 0.5; }

/* A vector of what is read again and again, and is so large. */
static double comes_from(const tg_gemm_view *v, int64_t vl, double bytes) {
  double line = (double)(vl * v->size) / 64;
  return bytes <= v->l1 * full ? tg_gemm_beat(v, vl) : line * (bytes <= v->l2 * full ? FROM_L2 : FROM_L3);
}

/* An operand of so many elements, once: from end to end, or in pieces of rows. */
static double arrives(const tg_gemm_view *v, int64_t elements, bool pieces) {
  double bytes = (double)(elements * v->size), vectors = bytes / 64;
  return bytes <= v->l2 * full ? 0
                               : vectors * (bytes <= v->l3 * full ? pieces ? PIECES_L3 : ONCE_L3
                                            : pieces              ? PIECES_MEMORY
                                                                  : ONCE_MEMORY);
}

/* Vectors of columns that lie along k, copied: blocks of as many terms as a vector has lanes are transposed, and one
 * of fewer; a single term is gathered. */
static double copied(int64_t vectors, int64_t vl, int64_t terms) {
  int64_t rest = terms % vl;
  double last = rest > 1 ? most((double)rest, (double)vl * FEWER) * TRANSPOSED : (double)rest * GATHERED;
  return (double)(vectors * vl) * ((double)(terms - rest) * TRANSPOSED + last) * (rest && terms > vl ? UNALIGNED : 1);
}

/* Do as many rows of the columns' operand, which lie as far apart as C's are long, share few sets of a cache, and
 * find no room in them? A way is so many bytes, a power of two. */
static bool crowded(const tg_gemm_view *v, double cache, int64_t way) {
  int64_t stride = v->columns * v->size, period = least_of(way, stride & -stride);
  return period && (double)v->terms > full * (cache / (double)way) * (double)(way / period);
}
static bool crowded_l1(const tg_gemm_view *v) { return crowded(v, v->l1, 4096); }
static bool crowded_l2(const tg_gemm_view *v) {
  const double ways = 16;
  return crowded(v, v->l2, (int64_t)1 << (63 - __builtin_clzll((unsigned long long)(v->l2 / ways) | 1)));
}

bool tg_gemm_is_crowded(const tg_gemm_view *v) { return crowded_l2(v); }

/* The columns' operand in panels or strips: where it lies in rows, pieces of them. */
static double columns_arrive(const tg_gemm_view *v) {
  return arrives(v, v->columns * v->terms, !v->column_k) * (!v->column_k && crowded_l2(v) ? 2 : 1);
}

/* The rows' operand, besides so many cycles of work on it: in pieces, each as long as a block of terms. What brings
 * in much has it from the third cache meanwhile. */
static double with_rows(const tg_gemm_view *v, double work) {
  double once = arrives(v, v->rows * v->terms, true);
  return v->asks_much && v->row_k && (double)(v->rows * v->terms * v->size) <= v->l3 * full ? most(work, once)
                                                                                            : work + once;
}

/* What a term of a tile waits for where its rows lie across k: each term has a line of its own, and a page where
 * rows are long. */
static double waits(const tg_gemm_view *v, int64_t terms, int64_t mr) {
  const double line = 64;
  if (v->row_k) return 0;
  double lines = (double)terms * least((double)(v->rows * v->size), (double)up(mr * v->size, 64) * line),
         far = (double)terms * least(1, (double)(v->rows * v->size) / page);
  int64_t stride = v->rows * v->size, period = least_of(4096, stride & -stride);
  /* where rows as long as a power of two lie: the next tile does not find them */
  bool few_sets = (double)terms > full * v->l1 / (double)period;
  return (lines > v->l1 * 0.6 ? v->asks_much && !few_sets ? LINE * EASILY : LINE : 0) +
         (far > (v->asks_much ? many_pages : pages) ? PAGE : 0);
}

/* The sums of a tile, stored: beyond the first cache a line of C is read before it is written, and the more rows are
 * written side by side the later. */
static double stored(const tg_gemm_view *v, int64_t vl, int64_t mr, int64_t nu, bool across) {
  double bytes = (double)(v->rows * v->columns * v->size), lines = (double)(mr * (nu + across)),
         apart = 1 + SIDE_BY_SIDE * (double)(mr - 1);
  if (v->double_pumped && v->terms < SHORT)
    apart = (1 + 2 * SIDE_BY_SIDE * (double)(mr - 1)) * (vl * v->size > 32 ? WHOLE_LINES : 1);
  return lines * (bytes <= v->l1 * full
                      ? STORE * 2 * tg_gemm_beat(v, vl)
                      : (bytes <= v->l2 * full ? STORE_L2 : STORE_L3) * apart * (double)(vl * v->size) / 64);
}

/* A tile of mr rows and nu vectors: columns: cycles of a vector of them; extra: of a term. Its sums are stored once. */
static double tile_of_sums(const tg_gemm_view *v, int64_t vl, int64_t mr, int64_t nu, double terms, double columns,
                           double extra, bool across, int64_t each) {
  double beat = tg_gemm_beat(v, vl), work = most((double)(mr * nu) * beat, FEW_CHAINS / (double)each),
         ports = (double)mr * LOAD + (double)nu * beat;
  double sums = terms * (most(work, most(ports, (double)nu * columns)) + TERM + extra),
         stores = stored(v, vl, mr, nu, across);
  return meanwhile(sums, stores) + TILE;
}

static double tile(const tg_gemm_view *v, int64_t vl, int64_t mr, int64_t nu, double terms, double columns,
                   double extra, bool across) {
  return tile_of_sums(v, vl, mr, nu, terms, columns, extra, across, 1);
}

int64_t tg_gemm_sums(int64_t vectors, int64_t terms) {
  enum { CHAINS = 8 /* a latency of four cycles, two a cycle */, TERMS = 32, MOST = 4 };
  int64_t n = 1;
  while (terms >= TERMS && n < MOST && n * vectors * 4 <= CHAINS * 3) n *= 2;
  return n;
}

/* ---- sketches ---- */

/* Rows of the columns' operand, in the third cache at the farthest, on a processor that brings in much at a time:
 * tiles read them as fast as copies of them. */
static bool comes_easily(const tg_gemm_view *v) {
  bool few_sets = crowded_l2(v) && (v->terms > FEW_SETS || v->columns * v->size > FAR_APART);
  return v->asks_much && !v->column_k && (double)(v->columns * v->terms * v->size) <= v->l3 * EASY && !few_sets;
}

/* All rows of nu vectors of columns: tiles of mr, and one of those that are left. Many rows are many streams, and
 * where each has an address, those are short. */
static double direct_columns(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl, int64_t sums) {
  double strip = (double)(v->terms * nu * vl * v->size), columns, sum = 0, turns = 0 /* of pages, a term */;
  bool across = v->columns % vl != 0;
  if (v->column_k) columns = comes_from(v, vl, strip);
  else if (comes_easily(v)) columns = comes_from(v, vl, strip);
  else {
    columns = most(comes_from(v, vl, strip), crowded_l1(v) ? FROM_L2 : 0) + (across ? ACROSS - LOAD : 0);
    if (crowded_l2(v)) columns = most(columns, FROM_AFAR);
    if ((double)v->terms * least(1, (double)(v->columns * v->size) / page) > pages) {
      if (v->double_pumped) turns = PAGE / 4;   /* nothing waits for two multipliers: it adds up */
      else columns += PAGE / 2 / (double)nu;
    }
  }
  if (v->rows >= mr)
    sum += (double)(v->rows / mr) *
           tile_of_sums(v, vl, mr, nu, (double)v->terms, columns, waits(v, v->terms, mr) + turns, across, sums);
  if (v->rows % mr)
    sum += tile_of_sums(v, vl, v->rows % mr, nu, (double)v->terms, columns, waits(v, v->terms, v->rows % mr) + turns,
                        across, sums);
  /* the next tile begins meanwhile */
  if (v->asks_much &&
      (v->column_k ? v->rows > 1 && v->terms * v->size <= 64 && v->terms > FEW_TERMS : v->terms <= FEW_IN_A_ROW))
    sum -= (double)up(v->rows, mr) * TILE * (1 - UNROLLED);
  int64_t together = least_of(v->rows, mr), most_rows = v->rows <= mr && v->terms * together * nu <= IN_A_ROW ? STREAMS
                                                        : comes_easily(v) ? EASY_ADDRESSES
                                                                          : ADDRESSES;
  if (v->row_k) sum *= 1 + ADDRESS * most(0, (double)(together - most_rows));
  else if (together > STREAMS) sum *= MANY_ROWS;
  if (!v->row_k && !v->asks_much) sum *= TURNED;
  if (v->column_k) sum += copied(nu, vl, v->terms) + (v->terms <= vl ? 0 : PANEL);
  return sum + (double)(v->rows * v->terms * v->size) * (v->rows * v->terms * v->size > v->l2 * full ? 0.06 : 0);
}

double tg_gemm_direct_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl) {
  int64_t wide = nu * vl, rest = v->columns % wide,
          sums = tg_gemm_sums(least_of(mr, v->rows) * least_of(nu, up(v->columns, vl)), v->terms);
  double sum = (double)(v->columns / wide) * (v->columns >= wide ? direct_columns(v, mr, nu, vl, sums) : 0) +
               (rest ? direct_columns(v, mr, up(rest, vl), vl, sums) *
                           (v->asks_much && v->column_k && v->terms > vl ? TURNED_REST : 1)
                     : 0);
  if (v->asks_much && v->column_k && v->rows > 1 && v->terms * v->size <= 64 && v->terms > FEW_TERMS &&
      (double)(v->rows * v->columns * v->size) <= v->l2 * full)
    sum *= TURNED_THERE;
  /* beside the first rows' multiplications */
  if (comes_easily(v)) sum = most(sum, arrives(v, v->columns * v->terms, false));
  else sum = v->asks_much && v->column_k ? meanwhile(sum, columns_arrive(v)) : sum + columns_arrive(v);
  return with_rows(v, sum);
}

/* Rows by a list: tiles of mr, then powers of two. */
typedef struct { int64_t mr, times; } some_rows;
static int list_rows(int64_t rows, int64_t mr, some_rows *out) {
  int n = 0;
  int64_t power = 1;
  if (rows >= mr) out[n++] = (some_rows){mr, rows / mr};
  while (power * 2 < mr) power *= 2;
  for (rows %= mr; rows; rows %= power, power /= 2)
    if (rows >= power) out[n++] = (some_rows){power, rows / power};
  return n;
}

static int tile_and_rest(int64_t rows, int64_t mr, some_rows *out) {
  int n = 0;
  if (rows >= mr) out[n++] = (some_rows){mr, rows / mr};
  if (rows % mr) out[n++] = (some_rows){rows % mr, 1};
  return n;
}

double tg_gemm_store_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl) {
  return stored(v, vl, mr, nu, v->columns % vl);
}

double tg_gemm_panel_cycles(const tg_gemm_view *v, bool both, bool grouped, bool next, int64_t mr, int64_t nu,
                            int64_t vl, int64_t kc, int64_t nb) {
  some_rows list[8];
  int n = list_rows(v->rows, mr, list);
  int64_t wide = nu * vl, panels = up(v->columns, wide), blocks = up(v->terms, kc), blocks_n = up(panels, nb),
          rest = v->terms % vl;
  double terms = (double)v->terms / (double)blocks, from = comes_from(v, vl, terms * (double)(wide * v->size)), sum = 0,
         elements = (double)(v->rows * v->terms);
  for (int i = 0; i < n; i++)
    sum += (double)list[i].times *
           ((double)blocks * tile(v, vl, list[i].mr, nu, terms, from, both ? 0 : waits(v, (int64_t)terms, list[i].mr),
                                  v->columns % vl) +
            BLOCK + (double)(blocks - 1) * (double)(list[i].mr * nu) * tg_gemm_beat(v, vl) * 2);
  sum *= (double)panels;
  if (!v->column_k) sum += (double)(panels * nu * v->terms) * COPY;
  else
    sum += (blocks == 1 ? copied(up(v->columns, vl), vl, v->terms)
                        : (double)v->columns * ((double)(v->terms - rest) * TRANSPOSED + (double)rest * GATHERED)) *
           (next ? TURNED_EASILY : 1);
  sum += (double)panels * PANEL;
  double once = arrives(v, v->columns * v->terms, false);
  sum = next ? most(sum, once) + ASKED * least(sum, once) : sum + columns_arrive(v);
  sum = with_rows(v, sum);
  if (both)
    return sum + (grouped ? 1 : (double)blocks_n) *
                     (elements * (v->row_k ? COPY / (double)vl : TRANSPOSED) + (double)v->rows * ROW * (double)blocks);
  return sum + (elements * v->size > v->l2 * full
                    ? elements * v->size * (v->asks_much ? AGAIN_EASILY : AGAIN_BYTE) * (double)blocks_n
                    : 0);
}

/* asked: the lines of the next panels of a block of terms, a term at a time, while this one is computed: nothing is
 * waited for but memory itself. */
double tg_gemm_stream_cycles(const tg_gemm_view *v, int64_t mr, int64_t nu, int64_t vl, int64_t kc, bool asked) {
  some_rows list[8];
  int n = asked ? tile_and_rest(v->rows, mr, list) : list_rows(v->rows, mr, list);
  int64_t wide = nu * vl, rest = v->columns % wide ? nu : 0 /* all of them, under masks */,
          blocks = v->scattered ? 1 : up(v->terms, kc);
  double terms = (double)v->terms / (double)blocks, sum = 0,
         from =
             v->column_k
                 ? copied(1, vl, least_of(v->terms, v->scattered ? v->terms : kc)) /
                       (double)least_of(v->terms, v->scattered ? v->terms : kc)
                 : (v->rows > mr
                        ? comes_from(v, vl,
                                     (double)((v->scattered ? v->terms * least_of(wide, v->columns) : kc * v->columns) *
                                              v->size))
                        : LOAD * 1.5) +
                       (v->columns % vl ? ACROSS - LOAD : 0);
  for (int i = 0; i < n; i++)
    for (int part = 0; part < 2; part++) {
      int64_t vectors = part ? rest : nu, m = list[i].mr, times = part ? rest != 0 : v->columns / wide;
      double again = (double)(blocks - 1) * (double)(m * vectors) * AGAIN, beat = tg_gemm_beat(v, vl);
      if (asked)
        sum += (double)(times * list[i].times) *
               ((double)blocks * (terms * (most((double)(m * vectors) * beat,
                                                (double)m * LOAD + (double)vectors * beat * (v->columns % vl ? 2 : 1)) +
                                           TERM) +
                                  TILE) +
                again);
      else
        sum += (double)(times * list[i].times) *
               ((double)blocks * tile(v, vl, m, vectors, terms, v->column_k ? LOAD : from,
                                      waits(v, v->terms, m) * 0.5 +
                                          (v->column_k ? (double)vectors * from * (vectors > 1 ? 1 : ALONE) : 0),
                                      v->columns % vl) +
                again);
    }
  if (v->scattered && (double)v->terms * least(1, (double)(v->columns * v->size) / page) > pages)
    sum += (double)(v->terms * up(v->columns, wide) * up(v->rows, mr)) * PAGE / 2;
  double once = arrives(v, v->columns * v->terms, v->column_k);
  if (asked) return most(sum, once * STREAM_ASKED) + ASKED * least(sum, once * STREAM_ASKED);
  if (v->column_k) sum += once;   /* so many columns at a time are too many streams */
  else if (v->asks_much && mr > 1 && v->rows <= ASKING_ROWS && once > 0)
    sum = most(sum, once) * STREAM_ASKED + ASKED * STREAM_ASKED * least(sum, once);
  else sum = meanwhile(sum * STREAM, once);
  /* beside the next columns' terms */
  bool easily = v->asks_much && v->terms <= vl && v->rows <= FEW_SCATTERED && v->terms >= 3 * v->rows;
  return (sum + (v->scattered ? (double)(v->rows * v->columns) * SCATTERED : 0)) *
         (v->scattered && easily ? SCATTERED_EASILY : 1);
}

/* Do rows side by side lie so far apart that a set of the first cache has more of them than ways? */
static bool crowded_rows(const tg_gemm_view *v, int64_t rows) {
  int64_t stride = v->terms * v->size, period = least_of(4096, stride & -stride);
  return period >= 64 && (double)rows > v->l1 / 4096 * (double)(4096 / period);
}

tg_gemm_rest tg_gemm_dot_rest(int64_t terms, int64_t vl, int64_t mr, int64_t nc) {
  enum { MOST = 256, FEW = 4 };   /* multiply-adds of vectors without a loop; terms */
  if (terms % vl == 0) return GEMM_NO_REST;
  if (up(terms, vl) * mr * nc <= MOST) return GEMM_REST_UNROLLED;
  return terms % vl > FEW && terms > vl ? GEMM_REST_BEHIND : GEMM_REST_ONE_BY_ONE;
}

/* In blocks of kc terms: rows are copied, and come from the first cache; all lines of columns are asked for a tile
 * ahead. */
static double dot_blocks(const tg_gemm_view *v, int64_t mr, int64_t nc, int64_t vl, int64_t kc) {
  some_rows list[8];
  int n = list_rows(v->rows, mr, list);
  int64_t blocks = up(v->terms, kc);
  double vectors = (double)up(up(v->terms, blocks), vl), sum = 0, beat = tg_gemm_beat(v, vl),
         once = arrives(v, v->columns * v->terms, false) * STREAM_ASKED;
  for (int i = 0; i < n; i++) {
    double m = (double)list[i].mr, sums = m * (double)nc,
           work = most(sums * beat, most((m + (double)nc) * beat, FEW_CHAINS));
    sum += (double)(list[i].times * blocks * up(v->columns, nc)) * (vectors * (work + TERM) + sums * FOLD_BLOCK + TILE);
  }
  if ((double)(v->rows * kc * v->size) > v->l1 * 1.25) sum *= FAR_ROWS;
  if (v->terms % vl) sum *= FAR_ROWS;   /* vectors of columns across lines */
  sum += v->row_k ? (double)(v->rows * up(v->terms, vl)) * COPY : copied(up(v->terms, vl), vl, v->rows);
  return most(sum, once) + ASKED * least(sum, once);
}

double tg_gemm_dot_cycles(const tg_gemm_view *v, int64_t mr, int64_t nc, int64_t vl, int64_t kc) {
  if (kc) return dot_blocks(v, mr, nc, vl, kc);
  some_rows list[8];
  int n = list_rows(v->rows, mr, list);
  int64_t vectors = v->terms / vl, rest = v->terms % vl, left = 0;   /* one by one */
  tg_gemm_rest kind = tg_gemm_dot_rest(v->terms, vl, mr, nc);
  bool again_folded = kind == GEMM_REST_BEHIND, in_a_row = kind == GEMM_REST_UNROLLED;
  if (again_folded || in_a_row) vectors++;
  else left = rest;
  double sum = 0, from = comes_from(v, vl, (double)(v->rows * v->terms * v->size)),
         again = v->rows > mr ? comes_from(v, vl,
                                           (double)(least((double)v->columns, (double)(DOT_COLUMNS * nc)) *
                                                    (double)(v->terms * v->size)))
                              : LOAD;
  if (v->asks_much)
    from = most(least(from, tg_gemm_beat(v, vl)), from * SEQUENCE),
    again = most(least(again, tg_gemm_beat(v, vl)), again * SEQUENCE);
  for (int i = 0; i < n; i++)
    for (int part = 0; part < 2; part++) {
      int64_t m = list[i].mr, wide = part ? 1 : nc, times = part ? v->columns % nc : v->columns / nc;
      /* in order: asked ahead */
      double crowd = crowded_rows(v, m + wide) ? CROWDED : 0, near = most(from, crowd),
             next = v->double_pumped ? least(again, FROM_L2) : again;
      double work = most((double)(m * wide) * tg_gemm_beat(v, vl), vectors > DOT_OVERLAP ? FEW_CHAINS : 0),
             loads = ((double)m * near + (double)wide * (v->column_k ? most(next, crowd) : GATHERED * (double)vl)) *
                     (!rest                              ? 1
                      : v->double_pumped || v->asks_much ? UNALIGNED
                                                         : 2);
      sum += (double)(times * list[i].times) *
             ((double)vectors * ((most(work, loads) + least(work, loads) * BESIDE) *
                                     (v->asks_much && m >= MANY_IN_DOT ? CROWDED_TILE : 1) +
                                 TERM) +
              (double)left * most((double)(m * wide) * SINGLE, FEW_CHAINS) +
              (double)(m * wide) *
                  (v->asks_much ? FOLD_EASILY * (again_folded ? 1.4 : 1) : FOLD * (again_folded ? 2 : 1)) +
              (in_a_row ? TILE * UNROLLED : TILE));
    }
  double bytes = (double)(v->columns * v->terms * v->size);
  bool pieces = nc > 1 && v->rows == 1 && v->terms * v->size < page && !v->asks_much;
  if (v->asks_much && v->row_k && v->rows > ROWS_IN_TURN && bytes > v->l2) sum *= IN_TURN;
  double once = bytes > v->l2 * full   ? arrives(v, v->columns * v->terms, pieces)
                : bytes > v->l1 * full ? bytes / 64 * (pieces ? PIECES_L2 : ONCE_L2)
                                       : 0;
  return meanwhile(sum, once) + (v->row_k        ? 0
                                 : v->terms < vl ? (double)(v->rows * v->terms) * GATHERED
                                                 : copied(up(v->terms, vl), vl, v->rows));
}

/* ---- of the rows of sketches ---- */

typedef struct { tg_gemm_view v; int64_t vl, mr, nu, nc, kc, nb, ahead, next, grouped; } looked;

static looked look(const tg_gemm_problem *p, const tg_target *t, bool thin, const tg_kit_choice *c) {
  looked x = {.vl = tg_kit_knob_of(c, "VL", 1),
              .mr = tg_kit_knob_of(c, "MR", 1),
              .nu = tg_kit_knob_of(c, "NU", 1),
              .nc = tg_kit_knob_of(c, "NC", 1),
              .kc = tg_kit_knob_of(c, "KC", 0),
              .nb = tg_kit_knob_of(c, "NB", 1),
              .ahead = tg_kit_knob_of(c, "AHEAD", 0),
              .next = tg_kit_knob_of(c, "NEXT", 0),
              .grouped = tg_kit_knob_of(c, "GROUPED", 0)};
  tg_gemm_look(p, t, thin, &x.v);
  return x;
}

double tg_gemm_cycles_direct(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c) {
  looked x = look(p, t, false, c);
  return tg_gemm_direct_cycles(&x.v, x.mr, x.nu, x.vl);
}

static double of_panels(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c, bool both) {
  looked x = look(p, t, false, c);
  return tg_gemm_panel_cycles(&x.v, both, x.grouped != 0, x.next != 0, x.mr, x.nu, x.vl, x.kc, x.nb);
}

double tg_gemm_cycles_panel(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c) {
  return of_panels(p, t, c, false);
}
double tg_gemm_cycles_packed(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c) {
  return of_panels(p, t, c, true);
}

double tg_gemm_cycles_stream(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c) {
  looked x = look(p, t, true, c);
  return tg_gemm_stream_cycles(&x.v, x.mr, x.nu, x.vl, x.kc, x.kc >= TG_GEMM_SHARED_KC && x.ahead);
}

double tg_gemm_cycles_dot(const tg_gemm_problem *p, const tg_target *t, const tg_kit_choice *c) {
  looked x = look(p, t, true, c);
  return tg_gemm_dot_cycles(&x.v, x.mr, x.nc, x.vl, x.kc);
}
