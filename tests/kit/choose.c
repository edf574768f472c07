/* SPDX-License-Identifier: MIT
 * The choice among candidates by price: the cheapest is taken, what was chosen is kept by the context and in its folder,
 * and another machine or another question is asked anew. Sizes
 * that vary are divided where prices tell to. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "kit/choose.h"

/* A sum of rows whose columns are 1 or 8 lanes: W 1 is far dearer. Counts how often its body is written. */
static int written;   /* bodies of both kernels */
TG_KERNEL(sums, N) {
  tg_knob(W, 1, 2, 4, 8);
  tg_in(x, f32, [N, 1024]);
  tg_out(y, f32, [1024]);
  tg_range(j, 1024) tg(y[j] = sum(i : N, x[i,j]));
  written++;
  tg_opt(split j W as jo jl);
  if (tg_c(W) > 1) tg_opt(lane jl);
}

static tg_kit_choice of_width(int64_t w) {
  tg_kit_choice c = {.sketch = &sums, .knobs_n = 1};
  c.knob[0] = (tg_binding){"W", w, w, 1};
  return c;
}

static int64_t ask(tg_context *c, const char *key, int64_t first, int64_t second, bool walk) {
  static const int64_t widths[] = {1, 2, 4, 8, 0};
  static const tg_kit_axis axis = {"W", widths};
  const tg_kit_candidate candidate[] = {{&sums, of_width(first)}, {&sums, of_width(second)}};
  const tg_binding n = {"N", 64, 64, 1};
  tg_kit_region out[TG_REGIONS];
  const tg_kit_priced launch = {.size = {0}};
  tg_kit_choose(c,
                &(tg_kit_question){.key = key,
                                   .candidate = candidate,
                                   .candidates_n = 2,
                                   .axis = &axis,
                                   .axes_n = walk,
                                   .prices = 8,
                                   .binding = &n,
                                   .bindings_n = 1,
                                   .launch = &launch,
                                   .launches_n = 1,
                                   .threads = 1},
                out);
  return out[0].choice.knob[0].lo;
}

/* Eight rows at a time or one: of one row alone, seven of eight are computed in vain. */
TG_KERNEL(product, M, N) {
  tg_knob(U, 1, 8);
  tg_in(a, f32, [M, N]);
  tg_in(b, f32, [N, 512]);
  tg_out(c, f32, [M, 512]);
  tg_range(i, M) tg_range(j, 512) tg(c[i,j] = sum(k : N, a[i,k] * b[k,j]));
  written++;
  tg_opt(split i U as io iu);
  tg_opt(split j 8 as jo jl);
  tg_opt(order io jo iu jl);
  if (tg_c(U) > 1) tg_opt(upcast iu);
  tg_opt(lane jl);
}

/* The rows that one of the two is for, by its knob; 0: none. */
typedef struct { tg_kit_region region[TG_REGIONS]; uint32_t n; } answer;

static answer divide(tg_context *c, const char *key, uint32_t regions, bool kept_only) {
  tg_kit_candidate candidate[2] = {{&product, {&product, {{"U", 1, 1, 1}}, 1}}, {&product, {&product, {{"U", 8, 8, 1}}, 1}}};
  const tg_binding sizes[] = {{"M", 1, 4096, 1}, {"N", 1, 4096, 1}};
  const tg_kit_priced launch[] = {{.size = {1, 64}, .params = {1, 64}}, {.size = {64, 64}, .params = {64, 64}}, {.size = {4096, 64}, .params = {4096, 64}}};
  answer a;
  a.n = tg_kit_choose(c,
                      &(tg_kit_question){.key = key,
                                         .candidate = candidate,
                                         .candidates_n = 2,
                                         .binding = sizes,
                                         .bindings_n = 2,
                                         .launch = launch,
                                         .launches_n = 3,
                                         .whole = {{1, 4096}, {1, 4096}},
                                         .regions = regions,
                                         .threads = 1,
                                         .kept_only = kept_only},
                      a.region);
  return a;
}

static void regions(tg_context *c) {
  answer a = divide(c, "rows", TG_REGIONS, false);
  CHECK(a.n == 2, "%u regions", a.n);
  for (int64_t m = 1; m <= 4096; m++) {   /* each number of rows has one, and the few have the short tile */
    uint32_t in = 0, at = 0;
    for (uint32_t i = 0; i < a.n; i++)
      if (tg_span_has(a.region[i].size[0], m)) at = i, in++;
    CHECK(in == 1, "%lld rows are in %u regions", (long long)m, in);
    if (m == 1 || m >= 64) CHECK(a.region[at].choice.knob[0].lo == (m == 1 ? 1 : 8), "the tile of %lld rows", (long long)m);
  }
  CHECK(a.region[0].size[1].lo == 1 && a.region[0].size[1].hi == 4096, "columns are divided");
  int before = written;
  answer again = divide(c, "rows", TG_REGIONS, true);
  CHECK(written == before && again.n == a.n, "asked twice, priced twice");
  for (uint32_t i = 0; i < a.n && again.n == a.n; i++)
    CHECK(!memcmp(again.region[i].size, a.region[i].size, sizeof a.region[i].size) &&
              tg_kit_same_choice(&again.region[i].choice, &a.region[i].choice),
          "region %u was not kept", i);
  a = divide(c, "one", 1, false);
  CHECK(a.n == 1 && a.region[0].size[0].lo == 1 && a.region[0].size[0].hi == 4096, "one kernel for all");
  static const char *const damaged[] = {"", "1 4096", "1 4096 1 4096 0 0 0 0 product U=8", "1 4096 1 4096 0 0 0 0 product V=8\n",
                                        "1 4096 1 4096 0 0 0 0 other U=8\n", "product U=8\n", "1 4096 1 4096 0 0 0 0 product U=8\nx"};
  for (uint32_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    char key[32];
    snprintf(key, sizeof key, "damaged %u", i);
    tg_kept_write(c, key, damaged[i]);
    CHECK(divide(c, key, TG_REGIONS, false).n == 2, "taken: %s", damaged[i]);
  }
}

static tg_context *open_for(const char *target, const char *folder) {
  tg_context *c = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = target, .threads = 1, .cache = folder}, &c) == TG_OK, "%s", target);
  return c;
}

int main(void) {
  char folder[TEST_PATH] = "tg-choose-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(folder) != NULL, "no folder");
  tg_context *c = open_for("x86-64-v3", folder);
  CHECK(ask(c, "two", 2, 8, false) == 8, "the cheaper is not taken");
  int before = written;
  CHECK(ask(c, "two", 2, 8, false) == 8 && written == before, "asked twice, priced twice");
  CHECK(ask(c, "equal", 8, 8, false) == 8, "equal candidates");
  CHECK(ask(c, "walk", 2, 2, true) == 8, "no way from 2 by 4 to 8");
  regions(c);
  tg_context_free(c);
  c = open_for("x86-64-v3", folder);
  before = written;
  CHECK(ask(c, "two", 2, 8, false) == 8 && ask(c, "walk", 2, 2, true) == 8 && written == before, "what is in the folder is priced again");
  c->target.machine.page_miss += 1;
  ask(c, "two", 2, 8, false);
  CHECK(written > before, "with another row of the machine the choice for the first is taken");
  tg_context_free(c);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
