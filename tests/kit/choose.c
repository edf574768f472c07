/* SPDX-License-Identifier: MIT
 * The choice among candidates by price: the cheapest is taken, what was chosen is kept by the context and in its folder,
 * and another machine or another question is asked anew. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "kit/choose.h"

/* A sum of rows whose columns are 1 or 8 lanes: W 1 is far dearer. Counts how often its body is written. */
static int written;
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
  tg_kit_choice out;
  tg_kit_choose(c,
                &(tg_kit_question){.key = key,
                                   .candidate = candidate,
                                   .candidates_n = 2,
                                   .axis = &axis,
                                   .axes_n = walk,
                                   .prices = 8,
                                   .binding = &n,
                                   .bindings_n = 1,
                                   .threads = 1},
                &out);
  return out.knob[0].lo;
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
  tg_context_free(c);
  c = open_for("x86-64-v3", folder);
  before = written;
  CHECK(ask(c, "two", 2, 8, false) == 8 && ask(c, "walk", 2, 2, true) == 8 && written == before, "what is in the folder is priced again");
  c->target.machine.load_latency += 1;
  ask(c, "two", 2, 8, false);
  CHECK(written > before, "with another row of the machine the choice for the first is taken");
  tg_context_free(c);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
