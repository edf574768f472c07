/* SPDX-License-Identifier: MIT
 * Random plans of attention, each with many calls, through the checks: types, head dims, layouts, masks, modifications, causal forms, windows, ranges of sizes, the caller's threads.
 *   attention_points [CASES [SEED [EACH]]]  about so many calls (1500), EACH of a plan (20); plans are numbered from SEED
 *   attention_points --plan NUMBER [EACH]   one plan again, as a failure names it, and what it is
 * A run that broke off goes on from the number that it printed last. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../test.h"
#include "checks/attention.h"

static tg_context *context;
static tg_attention_checks *checks;
static uint64_t state, number;
static long each = 20;       /* calls of a plan */
static char at_work[1600];   /* for the message of a crash */

static int64_t below(int64_t n) { return (int64_t)(tg_draw(&state) % (uint64_t)n); }
static bool often(int percent) { return below(100) < percent; }

/* ---- plans ---- */

static const struct { const char *score, *mask; struct { const char *name; uint8_t type, per; } arg[3]; } mods[] = {
  {"score - f32((q + k) % 4)", NULL, {{0}}},
  {"score - abs(by)", NULL, {{"by", TG_F32, TG_PER_HEAD | TG_PER_KEY}}},
  {"where(at >= 2, score - 1, score - x)", NULL, {{"at", TG_I32, TG_PER_QUERY}, {"x", TG_F16, TG_PER_BATCH}}},
  {NULL, "doc_q == doc_k", {{"doc_q", TG_I32, TG_PER_QUERY}, {"doc_k", TG_I32, TG_PER_KEY}}},
  {NULL, "k <= q + h", {{0}}},
  {NULL, "(q + k) % 3 != b % 2", {{0}}},
  {"score - f32(k % 2)", "k < q + 5 | part == 1", {{"part", TG_U8, TG_PER_QUERY | TG_PER_KEY | TG_PER_BATCH}}},
  {"score - x * y", "i32(k) >= from", {{"x", TG_BF16, 0}, {"y", TG_F32, TG_PER_QUERY}, {"from", TG_I32, TG_PER_HEAD}}},
};

static void draw_types(tg_attention_desc *d) {
  static const uint8_t floats[] = {TG_F32, TG_F16, TG_BF16};
  d->q = floats[below(3)];
  d->k = d->v = d->o = 0;
  if (often(25)) d->k = floats[below(3)];
  if (often(15)) d->v = floats[below(3)];
  if (often(25)) d->o = floats[below(3)];
}

static void draw_mask(tg_attention_desc *d) {
  static const uint8_t types[] = {TG_BOOL, TG_BOOL, TG_F32, TG_F16, TG_BF16};
  if (often(25)) d->mask = types[below(5)], d->mask_per = (uint8_t)(often(60) ? TG_PER_QUERY | TG_PER_KEY | below(16) : below(16));
  if (!often(25)) return;
  int64_t m = below(TG_COUNT(mods));
  d->score_mod = mods[m].score, d->mask_mod = mods[m].mask;
  for (int a = 0; a < 3 && mods[m].arg[a].name; a++) d->arg[a].name = mods[m].arg[a].name, d->arg[a].type = mods[m].arg[a].type, d->arg[a].per = mods[m].arg[a].per;
}

/* A size that all calls have, or a range: mostly one that needs few kernels. */
static tg_dim draw_queries(bool split) {
  static const tg_dim few[] = {{0, 1}, {1, 1}, {0, 2}, {2, 4}, {5, 8}, {0, 8}, {9, 16}}, more[] = {{17, 300}, {33, 300}, {33, 1000}, {1, 20}, {33, 70}, {0, 300}};
  if (often(15)) return (tg_dim){1 + below(split ? 16 : 130), 0};
  return split || often(30) ? few[below(TG_COUNT(few))] : more[below(often(10) ? 6 : 5)];
}

static tg_dim draw_keys(bool split) {
  if (split) return often(10) ? (tg_dim){1025 + below(3000), 0} : (tg_dim){often(50) ? 0 : 1000, 5000};
  return often(12) ? (tg_dim){1 + below(200), 0} : (tg_dim){often(70) ? 0 : 1 + below(3), often(20) ? 40 : 1000};
}

static void draw_plan(tg_attention_desc *d) {
  static const int heads[] = {8, 16, 32, 40, 64, 72, 80, 96, 112, 128, 256, 1, 2, 7, 33, 65, 100, 191}, few[][2] = {{1, 1}, {2, 1}, {4, 2}, {3, 3}, {8, 1}, {6, 2}};
  static const float one = 1, small = 0.25f;
  int64_t g = below(TG_COUNT(few));
  *d = (tg_attention_desc){.causal = (uint8_t)below(3), .lse = often(60), .heads = few[g][0], .kv_heads = few[g][1]};
  draw_types(d);
  d->head = heads[below(TG_COUNT(heads))];
  if (often(20)) d->value_head = heads[below(TG_COUNT(heads))];
  if (often(4)) d->head = 192, d->value_head = 128;   /* as in latent attention */
  if (often(3)) d->head = 576, d->value_head = 512;
  d->base2 = often(70);
  d->scale = d->base2 && often(85) ? &one : often(30) ? &small : NULL;
  if (often(12)) d->soft_cap = often(50) ? 5 : 30;
  if (often(15)) d->alibi = 1;
  if (often(15)) d->sinks = 1;
  if (often(30)) d->window = often(50) ? 1 + below(20) : 1 + below(300);
  draw_mask(d);
  bool split = often(35);
  d->queries = draw_queries(split), d->keys = draw_keys(split);
  static const int groups[] = {0, 0, 8, 16, 32, 64};
  if (!d->append && often(15)) {
    int of = groups[below(6)], value = d->value_head ? d->value_head : d->head;
    d->kv_bits = often(50) ? 8 : 4, d->k = d->v = 0, d->kv_scale = often(50) ? 0 : TG_F16;
    d->kv_group = of && d->head % of == 0 && value % of == 0 ? of : 0;
    if (d->kv_bits == 4 && (d->head % 2 || value % 2)) d->kv_bits = 8;
  }
  if (!d->kv_bits && often(12) && d->head > 1 && (d->causal == TG_CAUSAL_TOP_LEFT || (d->queries.hi && d->keys.hi >= d->queries.hi))) {
    d->rotary = often(70) ? d->head / 2 * 2 : 2 * (1 + (int)below(d->head / 2)), d->rotary_neighbours = often(40);
  }
  static const int sides[] = {1, 7, 16, 32, 64, 64, 100, 128, 256};
  if (often(12)) d->block_rows = sides[below(9)], d->block_keys = sides[below(9)], d->block_per = (uint8_t)(TG_PER_HEAD * below(4));
  if (often(8)) d->dropout = often(50) ? 0.5f : 0.1f;
  static const int64_t pages[] = {1, 2, 7, 16, 16, 64, 100, 256};
  if (often(20)) d->page_size = pages[below(TG_COUNT(pages))];
  d->append = often(15) && !d->kv_bits && d->queries.hi && d->keys.hi >= d->queries.hi;
}

static void describe(const tg_attention_desc *d) {
  snprintf(at_work, sizeof at_work, "plan %llu: q %s k %s v %s o %s, heads %d/%d of %d and %d, queries %lld..%lld, keys %lld..%lld, causal %d, window %lld%s%s%s%s, pages of %d%s, dropout %g, blocks of %d by %d per %d, %d bits of groups of %d, rotary %d%s, scale %g, cap %g, mask %s per %d, score_mod %s, mask_mod %s", (unsigned long long)number, tg_type_name[d->q],
           tg_type_name[d->k], tg_type_name[d->v], tg_type_name[d->o], d->heads, d->kv_heads, d->head, d->value_head, (long long)d->queries.lo, (long long)d->queries.hi, (long long)d->keys.lo, (long long)d->keys.hi, d->causal, (long long)d->window, d->lse ? ", lse" : "", d->base2 ? ", base2" : "", d->alibi ? ", alibi" : "", d->sinks ? ", sinks" : "", (int)d->page_size, d->append ? ", append" : "", (double)d->dropout, d->block_rows, d->block_keys, d->block_per, d->kv_bits, d->kv_group, d->rotary, d->rotary_neighbours ? " of neighbours" : "",
           d->scale ? (double)*d->scale : 0.0, (double)d->soft_cap, tg_type_name[d->mask], d->mask_per, d->score_mod ? d->score_mod : "-", d->mask_mod ? d->mask_mod : "-");
}

/* ---- calls ---- */

static int64_t draw_size(tg_dim d, int64_t most) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 47, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 193, 255, 257};
  if (!d.hi) return d.lo;
  int64_t v = often(5) ? 0 : often(15) ? 1 : most > 1024 && often(60) ? 1025 + below(most - 1024) : sizes[below(TG_COUNT(sizes))];
  v = v < most ? v : most;
  return v < d.lo ? d.lo : v > d.hi ? d.hi : v;
}

static void draw_case(const tg_attention_desc *d, tg_attention_case *c) {
  static const tg_attention_kind usual[] = {TG_ATTENTION_EXACT, TG_ATTENTION_EXACT, TG_ATTENTION_EXACT, TG_ATTENTION_UNIFORM, TG_ATTENTION_DOMINANT, TG_ATTENTION_RANDOM, TG_ATTENTION_RANDOM, TG_ATTENTION_SPECIAL};
  do *c = (tg_attention_case){.kind = usual[below(TG_COUNT(usual))], .seed = tg_draw(&state)};
  while (!tg_attention_check_applies(d, c->kind));
  c->lie = (tg_attention_lie)below(TG_ATTENTION_LIES);
  c->batch = often(60) ? 1 : 1 + below(4);
  c->lengths = often(20), c->front = often(30);
  c->queries = draw_size(d->queries, d->queries.hi), c->keys = draw_size(d->keys, d->keys.hi);
  /* sums of a millisecond or few: fewer sequences, then smaller ones */
  double most = 4e6, head = (double)(d->heads * (d->head + (d->value_head ? d->value_head : d->head)));
  while (c->batch > 1 && head * (double)(c->batch * c->queries * c->keys) > most) c->batch--;
  while (d->queries.hi && c->queries / 2 >= d->queries.lo && c->queries > 1 && head * (double)(c->queries * c->keys) > most) c->queries /= 2;
  if ((d->append || (d->rotary && d->causal != TG_CAUSAL_TOP_LEFT)) && c->keys < c->queries) c->keys = c->queries;
  while (d->keys.hi && c->keys / 2 >= d->keys.lo && c->keys > 1 && head * (double)(c->queries * c->keys) > 4 * most) c->keys /= 2;
}

static void in_reverse(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static double compiling, calling;
static long cases, kinds[TG_ATTENTION_KINDS], lies[TG_ATTENTION_LIES];

static void one_plan(void) {
  static const tg_exec execs[] = {{1, in_reverse, NULL}, {2, in_reverse, NULL}, {5, in_reverse, NULL}};
  tg_attention_desc d;
  tg_attention *plan = NULL;
  state = tg_mix(number, 0xD1342543DE82EF95u);   /* the streams of neighbours must not overlap */
  draw_plan(&d);
  describe(&d);
  double start = tg_now();
  tg_status s = tg_attention_plan(context, &d, &plan);
  CHECK(s == TG_OK, "%s: refused: %s", at_work, tg_error_message(context));
  if (s != TG_OK) return;
  s = tg_attention_checks_open(context, &d, &checks);
  CHECK(s == TG_OK, "%s: %s", at_work, tg_error_message(context));
  compiling += tg_now() - start, start = tg_now();
  for (int i = 0; i < each && s == TG_OK; i++) {
    tg_attention_case c;
    tg_check_failure f;
    draw_case(&d, &c);
    int64_t way = below(4);
    tg_attention_planned by = {.context = context, .plan = plan, .exec = way < 3 ? &execs[way] : NULL, .blocks = often(30)};
    tg_status done = tg_attention_check_one(checks, tg_attention_check_plan, &by, &c, &f);
    CHECK(done == TG_OK, "%s\n  call %d, way %d: %s", at_work, i, (int)way, f.text);
    cases++, kinds[c.kind]++, lies[c.lie]++;
  }
  calling += tg_now() - start;
  tg_attention_checks_close(checks);
  checks = NULL;
  tg_attention_free(plan);
}

static void crashed(int sig, siginfo_t *info, void *more) {
  char where[160] = "";
  (void)sig, (void)more;
  if (checks) tg_attention_check_at(checks, info->si_addr, where, sizeof where);
  dprintf(2, "%s\n  access %s\n", at_work, where);
  _exit(1);
}

int main(int argc, char **argv) {
  bool again = argc > 2 && !strcmp(argv[1], "--plan");
  long most = !again && argc > 1 ? atol(argv[1]) : 1500;
  uint64_t seed = again ? strtoull(argv[2], NULL, 10) : argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  if (argc > 3) each = atol(argv[3]);
  struct sigaction act = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &act, NULL), sigaction(SIGBUS, &act, NULL);
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &context)) return 1;
  for (number = seed; cases < (again ? 1 : most) && test_failed < 20; number++) {
    one_plan();
    if (!again && number % 100 == 99) printf("plan %llu: %ld calls, %d failed\n", (unsigned long long)number, cases, test_failed), fflush(stdout);
  }
  if (again) printf("%s\n", at_work);
  printf("plans %llu..%llu, %ld calls: exact %ld, uniform %ld, dominant %ld, random %ld, special %ld; dense %ld, by token %ld, qkv %ld, gaps %ld, packed %ld; %.1f s of plans, %.1f s of calls\n", (unsigned long long)seed, (unsigned long long)number - 1, cases, kinds[0], kinds[1], kinds[2], kinds[3], kinds[4],
         lies[0], lies[1], lies[2], lies[3], lies[4], compiling, calling);
  tg_context_free(context);
  return TEST_END();
}
