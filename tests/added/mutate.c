/* SPDX-License-Identifier: MIT
 * A search varies a word as its row says, also one that search knows nothing of: `inward` has the change `fission`. */
#include "../test.h"
#include "search/search.h"

int main(void) {
  tg_env env = {0};
  bool changed = false, once = false;
  tg_env_init(&env, NULL);
  for (uint64_t i = 0; i < 1000; i++) {
    const char *words = tg_words_mutate(&env, "inward i; lane j 8", i);
    changed |= words && !strncmp(words, "fission i", 9);
    once |= words && !strncmp(words, "inward i", 8);
  }
  CHECK(changed, "no inward became fission");
  CHECK(once, "each inward was changed");
  tg_env_drop(&env);
  return TEST_END();
}
