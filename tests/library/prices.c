/* SPDX-License-Identifier: MIT
 * Which candidate is taken, and for which sizes: prices of a table, on both sides of each threshold. */
#include <math.h>
#include "../test.h"
#include "prices/prices.h"

typedef struct { const double (*row)[2]; uint32_t asked; } table;

static bool price(void *user, uint32_t point, double *seconds) {
  table *t = user;
  t->asked++;
  memcpy(seconds, t->row[point], sizeof t->row[point]);
  return isfinite(seconds[0]);
}

/* Two candidates at the sizes 1 and 100: how many regions there are, and the point of each. */
static uint32_t regions_of(const double row[2][2], double launch, uint32_t regions, uint32_t point[2]) {
  static tg_price_table work;
  tg_region out[TG_REGIONS];
  table t = {row, 0};
  tg_price_question q = {.price = price, .user = &t, .points = 2, .launches = 2, .launch = launch,
                         .regions = regions, .size = {{1}, {100}}, .whole = {{1, 200}}};
  memset(&work, 0, sizeof work);
  uint32_t n = tg_price_choose(&q, &work, out);
  CHECK(t.asked == 2, "%u prices", t.asked);
  for (uint32_t i = 0; i < n && i < 2; i++) point[i] = out[i].point;
  CHECK(n < 2 || (out[0].size[0].lo == 1 && out[0].size[0].hi == 10 && out[1].size[0].lo == 11 &&
                  out[1].size[0].hi == 200),
        "the sizes are divided elsewhere: at %lld", (long long)out[0].size[0].hi);
  CHECK(n != 1 || (out[0].size[0].lo == 1 && out[0].size[0].hi == 200), "one region has not all sizes");
  return n;
}

static void expect(const char *what, const double row[2][2], double launch, uint32_t regions, uint32_t n,
                   uint32_t first, uint32_t last) {
  uint32_t point[2] = {9, 9}, made = regions_of(row, launch, regions, point);
  CHECK(made == n && (!n || (point[0] == first && point[n - 1] == last)), "%s: %u regions, points %u and %u", what,
        made, point[0], point[1]);
}

static bool price_of_three(void *user, uint32_t point, double *seconds) {
  static const double row[2][3] = {{1e-3, 1e-3, 1e-3}, {1.2e-3, 1.2e-3, 0.8e-3}};
  (void)user;
  memcpy(seconds, row[point], sizeof row[point]);
  return true;
}

/* The launch that is likely weighs as much as the two others, where one code is for all. */
static void likely(uint32_t which, uint32_t point) {
  static tg_price_table work;
  tg_region out[TG_REGIONS];
  tg_price_question q = {.price = price_of_three, .points = 2, .launches = 3, .likely = which, .regions = 1,
                         .size = {{1}, {10}, {100}}, .whole = {{1, 200}}};
  memset(&work, 0, sizeof work);
  CHECK(tg_price_choose(&q, &work, out) == 1 && out[0].point == point, "launch %u is likely: point %u", which,
        out[0].point);
}

int main(void) {
  likely(0, 0), likely(1, 0), likely(3, 1);
  const double crossed[2][2] = {{1e-6, 1.9e-3}, {2e-6, 1e-3}}, near[2][2] = {{1e-6, 1.03e-3}, {1.03e-6, 1e-3}},
               small[2][2] = {{1e-7, 1.2e-3}, {3e-7, 1e-3}}, none[2][2] = {{INFINITY, 1}, {INFINITY, 1}},
               one[2][2] = {{INFINITY, 1}, {1, 1}}, worse[2][2] = {{1e-6, 1e-3}, {2e-6, 2e-3}};
  expect("each is best at its end", crossed, 0, 4, 2, 0, 1);
  expect("one code is asked for", crossed, 0, 1, 1, 0, 0);
  expect("no more than 5 % apart", near, 0, 4, 1, 0, 0);
  expect("less than a launch apart", small, 2.2e-7, 4, 1, 1, 1);
  expect("more than a launch apart", small, 1e-8, 4, 2, 0, 1);
  expect("the launch counts at both", crossed, 9e-7, 4, 2, 0, 1);
  expect("worse at each size", worse, 0, 4, 1, 0, 0);
  expect("one cannot be made", one, 0, 4, 1, 1, 1);
  expect("none can be made", none, 0, 4, 0, 9, 9);
  return TEST_END();
}
