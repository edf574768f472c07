/* SPDX-License-Identifier: MIT
 * tg_attention_tune, with this program as its own worker: what it keeps is what plans of the same descriptor run from then on, and no others. What the search's own data do not
 * tell, the checks do. Times are made up (tests/search/modelled.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../search/modelled.h"
#include "../folder.h"
#include "../test.h"
#include "api/api.h"
#include "checks/attention.h"
#include "checks/attention_tune.h"
#include "tg/dsl.h"

static char self[4096], tuned[TEST_PATH] = "tg-tuned-XXXXXX";
static const char *const worker[] = {self, "worker", NULL};
enum { PATIENCE = 300 /* seconds: the number of candidates ends a search before */ };

static tg_context *open_context(const char *folder) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .tuned = folder, .threads = 1};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  if (c) c->target.l3 = 1 << 20;   /* few rows are timed on twice as many bytes of keys: on any machine no more than this */
  return c;
}

/* Of the kernels of a plan for this, how many are tuned; it is right for so many queries and keys. */
static uint32_t tuned_of(tg_context *c, const tg_attention_desc *d, int64_t queries, int64_t keys) {
  tg_attention *a = NULL;
  tg_attention_checks *checks = NULL;
  tg_check_failure failure;
  CHECK(tg_attention_plan(c, d, &a) == TG_OK && tg_attention_checks_open(c, d, &checks) == TG_OK, "%s", tg_error_message(c));
  if (!a || !checks) return 0;
  tg_attention_planned planned = {.context = c, .plan = a};
  for (int lie = TG_ATTENTION_DENSE; lie <= TG_ATTENTION_GAPS; lie += TG_ATTENTION_GAPS) {
    const tg_attention_case x = {.kind = TG_ATTENTION_RANDOM, .batch = 2, .queries = queries, .keys = keys, .lie = (tg_attention_lie)lie, .seed = 3};
    CHECK(tg_attention_check_one(checks, tg_attention_check_plan, &planned, &x, &failure) == TG_OK, "%s", failure.text);
  }
  uint32_t n = tg_attention_describe(a).tuned;
  tg_attention_checks_close(checks);
  tg_attention_free(a);
  return n;
}

/* A slow point of the sketch as the start: what wins against it is sure. */
static void tune(tg_context *c, const tg_attention_desc *d, int64_t queries, int64_t keys, const tg_binding *slow, uint32_t slow_n) {
  tg_tune_options o = {.seconds = PATIENCE, .candidates = 10, .worker = worker, .start = slow, .start_n = slow_n, .flags = TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  tg_status s = tg_attention_tune(c, d, queries, keys, &o, &r);
  CHECK(s == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  CHECK(r->tuned && r->kept, "nothing was faster than the slow start: %u points, %u built, %u timed; %s", r->points, r->built, r->timed, r->why ? r->why : "");
  CHECK(!r->classes[TG_TUNE_WRONG] && !r->classes[TG_TUNE_CRASHED] && !r->classes[TG_TUNE_HUNG], "%lld queries, mask_mod %s, pages of %u: %u wrong, %u crashed, %u hung", (long long)d->queries.hi, d->mask_mod ? d->mask_mod : "none",
        (unsigned)d->page_size, r->classes[TG_TUNE_WRONG], r->classes[TG_TUNE_CRASHED], r->classes[TG_TUNE_HUNG]);
  tg_tune_result_free(r);
}

/* Its groups of four rows hold what any processor takes at a time of 24 queries: 24 to 48 rows, in whole vectors. */
static const tg_binding slow_prefill[] = {{"VL", 4, 4, 1}, {"NV", 1, 1, 1}, {"G", 12, 12, 1}, {"KT", 4, 4, 1}},
                        slow_decode[] = {{"VL", 4, 4, 1}, {"DL", 4, 4, 1}, {"DU", 2, 2, 1}, {"BQ", 4, 4, 1}, {"KT", 4, 4, 1}};

static void of_many_rows(tg_context *c, tg_context *none) {
  const tg_attention_desc d = {.head = 16, .heads = 2, .queries = {24, 0}, .keys = {40, 0}, .causal = TG_CAUSAL_BOTTOM_RIGHT};
  tg_attention_desc other = d;
  other.causal = TG_CAUSAL_NONE;
  CHECK(tuned_of(c, &d, 24, 40) == 0, "tuned before anything was");
  tune(c, &d, 0, 0, slow_prefill, 4);
  CHECK(tuned_of(c, &d, 24, 40) == 1, "the plan does not use what was tuned");
  CHECK(tuned_of(c, &other, 24, 40) == 0, "a plan of another kernel uses it");
  CHECK(tuned_of(none, &d, 24, 40) == 0, "tuned without a folder");
  /* neither heads nor lengths are part of the kernel, if its numbers of rows are the same */
  tg_attention_desc more = d;
  more.heads = more.kv_heads = 3, more.keys = (tg_dim){1, 500};
  CHECK(tuned_of(c, &more, 24, 77) == 1, "a plan of more heads and of other lengths does not use it");
}

/* Parts of the keys: the kernel that writes sums is tuned, and the whole one is not. */
static void of_few_rows(tg_context *c) {
  const tg_attention_desc d = {.head = 16, .heads = 4, .kv_heads = 1, .queries = {1, 0}, .keys = {1, 4096}, .lse = 1};
  tune(c, &d, 0, 2000, slow_decode, 5);
  CHECK(tuned_of(c, &d, 1, 1500) == 1, "the plan does not use what was tuned for parts of the keys");
  tune(c, &d, 0, 250, slow_decode, 5);
  CHECK(tuned_of(c, &d, 1, 250) == 2, "the plan does not use what was tuned for all keys at once");
}

/* Runs that are told their blocks of keys, by an expression or by bools, and runs of few rows of the same plan. */
static void of_lists(tg_context *c) {
  static const tg_binding slow_forty[] = {{"VL", 4, 4, 1}, {"NV", 1, 1, 1}, {"G", 24, 24, 1}, {"KT", 4, 4, 1}};
  tg_attention_desc d = {.head = 16, .heads = 2, .queries = {40, 0}, .keys = {150, 0}, .mask_mod = "at_q == at_k", .arg = {{"at_q", TG_I32, TG_PER_QUERY}, {"at_k", TG_I32, TG_PER_KEY}}},
                    bools = {.head = 16, .queries = {24, 0}, .keys = {150, 0}, .mask = TG_BOOL, .mask_per = TG_PER_QUERY | TG_PER_KEY}, range = d;
  CHECK(tuned_of(c, &d, 40, 150) == 0, "tuned before anything was");
  tune(c, &d, 0, 0, slow_forty, 4);
  CHECK(tuned_of(c, &d, 40, 150) == 1, "the plan does not use what was tuned under a mask_mod");
  CHECK(tuned_of(c, &bools, 24, 150) == 0, "a plan of another mask uses it");
  tune(c, &bools, 0, 0, slow_prefill, 4);
  CHECK(tuned_of(c, &bools, 24, 150) == 1, "the plan does not use what was tuned under a mask of bools");
  range.queries = (tg_dim){1, 40}, range.keys = (tg_dim){1, 300};
  uint32_t before = tuned_of(c, &range, 40, 200);
  tune(c, &range, 40, 63, slow_prefill, 4);   /* no whole block of keys: runs of few rows */
  CHECK(tuned_of(c, &range, 40, 63) == before + 1, "the plan does not use what was tuned for less than a block of keys");
}

/* Everything that the text about a problem has to carry to the worker. */
static void of_variants(tg_context *c) {
  static const float scale = 0.5f;
  static const tg_binding slow_variant[] = {{"VL", 4, 4, 1}, {"DL", 4, 4, 1}, {"DU", 2, 2, 1}, {"BQ", 8, 8, 1}, {"KT", 4, 4, 1}};
  tg_attention_desc d = {.q = TG_F16, .k = TG_BF16, .o = TG_F32, .head = 16, .value_head = 32, .heads = 2, .queries = {7, 0}, .keys = {64, 0}, .window = 9, .scale = &scale, .soft_cap = 3, .alibi = 1,
                         .score_mod = "score + bias * 0.25f", .mask_mod = "place_q + i32(k) != 7", .arg = {{"bias", TG_F16, TG_PER_KEY}, {"place_q", TG_I32, TG_PER_QUERY}}};
  tune(c, &d, 0, 0, slow_variant, 5);
  CHECK(tuned_of(c, &d, 7, 64) == 1, "the plan of a descriptor with everything does not use what was tuned");
  d.mask_mod = "place_q + i32(k) != 8";
  CHECK(tuned_of(c, &d, 7, 64) == 0, "a plan with another mask uses it");
}

/* Pages, integers, rotary embedding, dropout and masks of blocks: few rows and many, and a plan without them uses nothing of it. */
static void of_fields(tg_context *c, bool all) {
  static const tg_binding slow_few[] = {{"VL", 4, 4, 1}, {"DL", 4, 4, 1}, {"DU", 2, 2, 1}, {"BQ", 4, 4, 1}, {"KT", 4, 4, 1}};
  static const struct { const char *name; int64_t queries; tg_attention_desc d; } rows[] = {
    {"pages of 8 bits", 4, {.head = 16, .heads = 2, .kv_heads = 2, .queries = {4, 0}, .keys = {64, 0}, .page_size = 16, .kv_bits = 8, .kv_group = 8}},
    {"rotary", 24, {.head = 16, .heads = 2, .queries = {24, 0}, .keys = {64, 0}, .rotary = 8, .causal = TG_CAUSAL_BOTTOM_RIGHT}},
    {"4 bits", 40, {.head = 16, .value_head = 32, .heads = 2, .queries = {40, 0}, .keys = {64, 0}, .kv_bits = 4, .kv_scale = TG_F16}},
    {"dropout, pages", 40, {.head = 16, .heads = 2, .queries = {40, 0}, .keys = {128, 0}, .dropout = 0.25f, .page_size = 8}},
    {"blocks", 40, {.head = 16, .heads = 2, .queries = {40, 0}, .keys = {128, 0}, .block_rows = 16, .block_keys = 32}},
  };
  for (size_t i = 0; i < (all ? TG_COUNT(rows) : 1); i++) {
    tg_attention_desc d = rows[i].d, other = rows[i].d;
    bool few = rows[i].queries <= 8;
    tune(c, &d, 0, 0, few ? slow_few : slow_prefill, few ? 5 : 4);
    CHECK(tuned_of(c, &d, rows[i].queries, d.keys.lo) == 1, "%s: the plan does not use what was tuned", rows[i].name);
    other.page_size = d.page_size ? 0 : 4, other.kv_group = 0;
    CHECK(tuned_of(c, &other, rows[i].queries, d.keys.lo) == 0, "%s: a plan with other pages uses it", rows[i].name);
  }
}

/* Gradients: of all keys at once and of parts, which have a kernel each; forward plans use nothing of it. */
static void of_gradients(tg_context *c, tg_context *none, bool all) {
  static const float scale = 0.5f;
  static const tg_binding slow[] = {{"VL", 4, 4, 1}, {"NV", 1, 1, 1}, {"G", 12, 12, 1}, {"KT", 4, 4, 1}, {"EV", 1, 1, 1}};
  const tg_attention_desc d = {.head = 16, .heads = 4, .kv_heads = 2, .queries = {24, 0}, .keys = {40, 0}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .backward = 1};
  tg_attention_desc forward = d, other = d, more = d;
  forward.backward = 0, forward.lse = 1, other.causal = TG_CAUSAL_NONE;
  more.heads = more.kv_heads = 3, more.keys = (tg_dim){1, 80};
  CHECK(tuned_of(c, &d, 24, 40) == 0, "gradients are tuned before anything was");
  tune(c, &d, 0, 0, slow, 5);
  CHECK(tuned_of(c, &d, 24, 40) == 1, "the plan for gradients does not use what was tuned");
  CHECK(tuned_of(c, &more, 24, 77) == 1, "gradients of more heads and of other lengths do not use it");
  CHECK(tuned_of(c, &forward, 24, 40) == 0, "a forward plan uses what was tuned for gradients");
  CHECK(tuned_of(c, &other, 24, 40) == 0, "gradients of another kernel use it");
  CHECK(tuned_of(none, &d, 24, 40) == 0, "gradients are tuned without a folder");
  if (!all) return;
  const tg_attention_desc parts = {.q = TG_F16, .o = TG_F32, .head = 16, .heads = 2, .kv_heads = 1, .queries = {24, 0}, .keys = {1, 700}, .backward = 1};
  tune(c, &parts, 0, 600, slow, 5);
  CHECK(tuned_of(c, &parts, 24, 600) == 1, "gradients of parts of the keys do not use what was tuned for them");
  tune(c, &parts, 0, 200, slow, 5);
  CHECK(tuned_of(c, &parts, 24, 200) == 2, "gradients of all keys at once do not use what was tuned for them");
  tg_attention_desc mods = {.k = TG_BF16, .head = 16, .value_head = 32, .heads = 2, .queries = {24, 0}, .keys = {64, 0}, .window = 9, .scale = &scale, .soft_cap = 3, .alibi = 1, .sinks = 1, .dropout = 0.25f,
                            .score_mod = "score + bias * score * 0.25f", .mask_mod = "place_q + i32(k) != 7", .arg = {{"bias", TG_F16, TG_PER_KEY}, {"place_q", TG_I32, TG_PER_QUERY}}, .backward = 1};
  tune(c, &mods, 0, 0, slow, 5);
  CHECK(tuned_of(c, &mods, 24, 64) == 1, "gradients of a descriptor with everything do not use what was tuned");
}

/* ---- a candidate that the search's own data do not tell ---- */

/* Right, and slower than anything by a sum that is never below 0. */
static void slow(tg_builder *tg_b_, void *user) {
  tg_attention_prefill->body(tg_b_, user);
  tg_define_reg(sum, f32, [1]);
  tg(sum[0] = 0);
  tg_range(z, 100000) tg(sum[0] = sum[0] * 0.5f + f32(z));
  tg_range(y, 1) tg(O[y, 0] = 0 if sum[0] < 0);
}

/* Right wherever N is not one more than a multiple of four. */
static void plant(tg_builder *tg_b_, void *user) {
  tg_attention_prefill->body(tg_b_, user);
  tg_range(z, 1) tg(O[z, 0] = 0 if N > 4 & N % 4 == 1);
}

/* The same of gradients. */
static void slow_gradients(tg_builder *tg_b_, void *user) {
  tg_attention_backward->body(tg_b_, user);
  tg_define_reg(long_sum, f32, [1]);
  tg(long_sum[0] = 0);
  tg_range(turn, 100000) tg(long_sum[0] = long_sum[0] * 0.5f + f32(turn));
  tg_range(never, 1) tg(dV[never, 0] = 0 if long_sum[0] < 0);
}

static void plant_gradients(tg_builder *tg_b_, void *user) {
  tg_attention_backward->body(tg_b_, user);
  tg_range(once, 1) tg(dV[once, 0] = 0 if N > 4 & N % 4 == 1);
}

static void wrong_at_tails(tg_context *c, bool checked, bool backward) {
  const tg_attention_desc d = {.head = 16, .queries = {24, 0}, .keys = {64, 0}, .backward = backward};
  char about[4096];
  tg_attention_space w;
  tg_attention_def first, planted;
  tg_tune_result *r = NULL;
  CHECK(tg_attention_space_of(c, &d, 0, 0, &w) == TG_OK, "%s", tg_error_message(c));
  tg_attention_about(&d, &w.problem, about, sizeof about);
  first = planted = w.def[0];
  first.def.params = first.params, first.def.name = "slow", first.def.body = backward ? slow_gradients : slow;
  planted.def.params = planted.params, planted.def.name = "planted", planted.def.body = backward ? plant_gradients : plant;
  const tg_kernel_def *defs[] = {&first.def, &planted.def};
  tg_tune_options o = {.bindings = w.binding, .bindings_n = w.bindings_n, .user = &w.problem, .params = w.params, .params_n = w.params_n, .start = slow_prefill, .start_n = 4, .seconds = PATIENCE, .candidates = 4, .worker = worker, .flags = TG_TUNE_KNOBS_ONLY | TG_TUNE_NOT_KEPT, .threads = 1};
  const tg_tune_kind kind = {.checks = tg_attention_trial, .about = about};
  CHECK(tg_tune_checked(c, defs, 2, &o, checked ? &kind : NULL, &r) == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  bool won = r->tuned && !strcmp(r->kernel, "planted");
  CHECK(won == !checked, "%s%s: %s won, %u wrong", backward ? "gradients, " : "", checked ? "with the checks" : "without them", r->kernel, r->classes[TG_TUNE_WRONG]);
  tg_tune_result_free(r);
}

static void mistake(tg_context *c, const tg_attention_desc *d, int64_t queries, int64_t keys, const char *want) {
  tg_tune_result *r = NULL;
  CHECK(tg_attention_tune(c, d, queries, keys, NULL, &r) == TG_EINVAL && !r, "accepted: %s", want);
  CHECK(strstr(tg_error_message(c), want), "'%s' does not say '%s'", tg_error_message(c), want);
}

static void empty(const char *folder) {
  DIR *d = opendir(folder);
  char path[4096];
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name), unlink(path);
  if (d) closedir(d);
  rmdir(folder);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "worker")) {
    modelled_worker(tg_attention_trial, 0, 1);
    return 0;
  }
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0 || !test_folder(tuned)) return 1;
  self[n] = 0;
  tg_context *c = open_context(tuned), *none = open_context(NULL);
  of_many_rows(c, none);
  wrong_at_tails(none, true, false);
  of_fields(c, argc > 1 && !strcmp(argv[1], "all"));
  of_gradients(c, none, argc > 1 && !strcmp(argv[1], "all"));
  if (argc > 1 && !strcmp(argv[1], "all")) { /* a minute more */
    of_few_rows(c);
    of_variants(c);
    of_lists(c);
    wrong_at_tails(none, false, false);
    wrong_at_tails(none, true, true);
    wrong_at_tails(none, false, true);
  }
  const tg_attention_desc range = {.head = 16, .queries = {1, 64}, .keys = {0, 64}}, nothing = {.queries = {1, 0}, .keys = {1, 0}};
  mistake(c, &range, 65, 64, "no plan of this descriptor serves 65 queries of 64 keys");
  mistake(c, &range, 0, 64, "no plan of this descriptor serves 0 queries");
  mistake(c, &range, 1, 0, "no plan of this descriptor serves 1 queries of 0 keys");
  mistake(c, &nothing, 0, 0, "tg_attention_desc.head: 0");
  tg_context_free(c), tg_context_free(none);
  empty(tuned);
  return TEST_END();
}
