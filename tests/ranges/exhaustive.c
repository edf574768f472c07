/* SPDX-License-Identifier: MIT
 * Every rule on integers and bools, in every type of 8 bits of its domain, in bool and INDEX, over all values; and wrong rules, which
 * must be found out. */
#include <stdlib.h>
#include "../test.h"
#include "exhaustive.h"

static const tg_type types[] = {TG_BOOL, TG_I8, TG_U8, TG_INDEX}, conversions[] = {TG_BOOL, TG_I8, TG_U8, TG_I16, TG_U16, TG_I32, TG_U64, TG_INDEX};

static void of_typing(void *user, const typing *t) { check_exhaustively(t, user); }

static bool converts(const tg_rule *r) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->term[i].tag == TERM_CONVERT) return true;
  return false;
}

static exhaustion of_rule(const tg_rule *r, uint32_t *typings) {
  exhaustion x = {0};
  *typings = converts(r) ? each_typing(r, conversions, TG_COUNT(conversions), of_typing, &x) : each_typing(r, types, TG_COUNT(types), of_typing, &x);
  return x;
}

static const tg_rule_text wrong[] = {
  {"w_add", "wrap", "x + 1 -> x", 0},
  {"w_difference", "wrap", "(x - y) - y -> x", 0},
  {"w_div", "wrap", "(x * y) / y -> x", 0},
  {"w_div_constants", "wrap", "(x / c) / d -> x / (c * d) if c > 0 & d > 0", 0},
  {"w_div_self", "int", "x / x -> 1", 0},
  {"w_max", "int", "max(x, y) -> x if lo(x) >= lo(y)", 0},
  {"w_mod_small", "int", "x % y -> x if hi(x) < lo(y)", 0},
  {"w_cdiv", "int", "cdiv(x, y) -> x / y if lo(x) >= 0", 0},
  {"w_shift", "index", "x >> c -> x / (1 << c)", 0},
  {"w_mask", "int", "x & c -> x if lo(x) >= 0 & hi(x) <= c", 0},
  {"w_absorbs", "logic", "(x | y) & x -> y", 0},
  {"w_where", "any", "where(p, where(q, x, y), y) -> where(p | q, x, y)", 0},
  {"w_cast", "any", "T(U(x)) -> T(x)", 0},
  {"w_narrower", "int", "T(U(x)) -> T(x) if is_int(T) & is_int(U)", 0},
  {"w_not", "logic", "!(x == y) -> x == y", 0},
};

static void every_rule(void *user) {
  tg_job *j = user;
  const tg_rules *rs = tg_rules_compile(&j->env), *ws = tg_rules_compile_text(&j->env, TG_COUNT(wrong), wrong);
  uint32_t rules = 0, typings;
  uint64_t points = 0;
  for (uint32_t i = 0; i < rs->n; i++) {
    const tg_rule *r = &rs->rule[i];
    if (r->classes == 1 << CLASS_FLOAT) continue;
    exhaustion x = of_rule(r, &typings);
    rules++;
    points += x.points;
    CHECK(typings && x.met, "rule %s is met by no value: %s", r->name, r->text);
    CHECK(!x.wrong, "rule %s: %s", r->name, x.first);
  }
  for (uint32_t i = 0; i < ws->n; i++) {
    exhaustion x = of_rule(&ws->rule[i], &typings);
    CHECK(x.wrong, "the wrong rule %s passes", ws->rule[i].text);
  }
  printf("%u rules, %.1f million points\n", rules, (double)points * 1e-6);
}

int main(void) {
  static tg_job j;
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, every_rule, &j), "%s", j.env.message);
  tg_job_drop(&j);
  return TEST_END();
}
