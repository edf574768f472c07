/* SPDX-License-Identifier: MIT
 * The one place where prices are compared: which of some candidates is taken, and for which sizes. It serves the first
 * choice of any kernel (src/choose: words for each nest) and that of operations (kernels/kit: sketches with knobs).
 * What a candidate is, and what it costs, the asker knows; here it is a point with a number. */
#ifndef TG_PRICES_H
#define TG_PRICES_H
#include "base/base.h"

typedef struct tg_span { int64_t lo, hi; } tg_span;   /* both ends included */
static inline bool tg_span_has(tg_span s, int64_t x) { return x >= s.lo && x <= s.hi; }

enum {
  TG_PRICED = 8,               /* launches that each point is priced at */
  TG_REGIONS = 4,
  TG_REGION_SIZES = 4,
  TG_PRICE_ROWS = 96           /* points that are remembered */
};
enum { TG_POINT_END = -1, TG_POINT_SKIP = -2 };

typedef struct tg_price_question {
  /* seconds of a point in each launch; false: it cannot be made */
  bool (*price)(void *user, uint32_t point, double *seconds);
  /* the turn-th point that differs from `from` in one coordinate alone, which is made for the asking; TG_POINT_SKIP:
   * priced before; TG_POINT_END: there are no more. NULL: none */
  int64_t (*beside)(void *user, uint32_t from, uint32_t axis, uint32_t turn);
  /* the points beside along an axis are alternatives: of those that are clearly cheaper than where it begins, the
   * cheapest is taken. Else each step along it has to be clearly cheaper than the one before */
  bool alternatives;
  void *user;
  uint32_t points;             /* to begin with: 0 and up. Of equal ones the first is taken */
  /* seconds that each launch takes beside: a difference below that divides no sizes. 0: none to speak of, as for plans
   * of products, whose calls of small sizes run a code and nothing else */
  double launch;
  uint32_t axes, prices;       /* coordinates; how many points, at most, are priced beside others */
  uint32_t launches;           /* 1 to TG_PRICED */
  uint32_t likely;             /* of these, from 1 on, the one that weighs as much as all others together; 0: none */
  int64_t size[TG_PRICED][TG_REGION_SIZES];   /* by launch */
  tg_span whole[TG_REGION_SIZES];             /* all sizes, which regions divide; those not in use: {0, 0} */
  uint32_t regions;            /* most regions; 0 or 1: one point for all sizes */
} tg_price_question;

/* The point for all sizes within these bounds. */
typedef struct tg_region { tg_span size[TG_REGION_SIZES]; uint32_t point; } tg_region;
static inline bool tg_region_has(const tg_span *size, const int64_t *x, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!tg_span_has(size[i], x[i])) return false;
  return true;
}

/* cost: logarithms of seconds by launch, so that sums of them compare geometric means; sum: by weight. */
typedef struct tg_priced { uint32_t point; double cost[TG_PRICED], sum; } tg_priced;
static inline double tg_price_weight(uint32_t likely, uint32_t launches, uint32_t launch) {
  return likely == launch + 1 && launches > 1 ? launches - 1 : 1;
}
typedef struct tg_price_table {   /* working memory, of the caller; zeros */
  const tg_price_question *q;
  uint32_t rows, left;
  tg_priced row[TG_PRICE_ROWS];
} tg_price_table;

/* What another price is compared with, if both may be wrong: as wrong as prices may be is each. */
double tg_price_surely_more(double seconds);
/* The cheapest points that were found, and their number: one for all sizes if it is about as cheap as any other at each
 * launch; else regions that have no size in common, and that have all sizes together. 0: no point has a price. */
uint32_t tg_price_choose(const tg_price_question *q, tg_price_table *work, tg_region out[TG_REGIONS]);

/* What is chosen instead in some boxes of sizes, the first TG_REGION_SIZES parameters of a program by ordinal. */
typedef struct tg_division {
  uint32_t n;
  struct { tg_span size[TG_REGION_SIZES]; const char *words; } part[TG_REGIONS];
} tg_division;

/* Regions as text, to be kept: "LO HI .. CHOICE" and a line end for each. put appends one; false: there is no room.
 * get reads one and moves on; the choice is not ended by 0. False: there is none, or the text is something else. */
bool tg_region_put(char *out, size_t room, const tg_span *size, const char *choice);
bool tg_region_get(const char **text, tg_span *size, const char **choice, size_t *choice_n);
#endif
