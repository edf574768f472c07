/* SPDX-License-Identifier: MIT
 * Tuning attention: searches all sketches for a kernel that a plan would compile, and keeps the choice under the key
 * that the plan looks up. A candidate is checked as the kernel of a plan. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "checks/attention.h"
#include "checks/attention_tune.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- the kernel and its run ---- */

/* Few rows read K and V from memory, since other heads and other layers have passed through the caches before: as many
 * keys as the last level does not hold twice over, within what the kernel as written computes as a reference. */
static int64_t keys_in_memory(const tg_target *t, const tg_attention_problem *q, int64_t rows) {
  const double l3 = t->l3 ? (double)t->l3 : 32 << 20, most_flops = TG_TRIAL_AS_WRITTEN / 2;
  double of_key = (double)(q->head * tg_type_bytes(q->k) + q->value_head * tg_type_bytes(q->v)),
         flops = 2.0 * (double)rows * (double)(q->head + q->value_head);
  return (int64_t)fmin(2 * l3 / of_key, most_flops / flops);
}

/* Of what only some plans have: pages in a table of their own, dense scales and masks of blocks, a row of angles for
 * each position. */
static void choose_variants(const tg_attention *a, const tg_attention_problem *q, int64_t queries, int64_t keys,
                            int64_t first, bool heads, int64_t *value) {
  int64_t half = q->kv_bits == 4 ? 2 : 1, stands = a->causal == TG_CAUSAL_TOP_LEFT ? 0 : larger(0, keys - queries);
  value[ATTENTION_LDK] /= half, value[ATTENTION_LDV] /= half;
  if (q->kv_bits) value[ATTENTION_LDKS] = q->head / q->k_group, value[ATTENTION_LDVS] = q->value_head / q->v_group;
  if (q->page) {
    value[ATTENTION_PAGES] = value[ATTENTION_TABLE_N] = (keys + q->page - 1) / q->page;
    value[ATTENTION_K_PAGE] = q->page * value[ATTENTION_LDK], value[ATTENTION_V_PAGE] = q->page * value[ATTENTION_LDV];
    value[ATTENTION_KS_PAGE] = q->page * value[ATTENTION_LDKS];
    value[ATTENTION_VS_PAGE] = q->page * value[ATTENTION_LDVS];
  }
  if (q->block_rows) {
    value[ATTENTION_BLOCKS_M] = (queries + q->block_rows - 1) / q->block_rows;
    value[ATTENTION_BLOCKS_N] = value[ATTENTION_BLOCKS_Q] = (keys + q->block_keys - 1) / q->block_keys;
    value[ATTENTION_BLOCKS_K] = 1;
  }
  value[ATTENTION_POSITIONS] = larger(queries, keys);
  value[ATTENTION_TURN_Q] = stands + first, value[ATTENTION_TURN_STEP] = !heads;
}

/* The values of the parameters of a run over dense operands: some rows in the middle of the queries. */
static void choose_values(const tg_attention *a, const tg_attention_problem *q, int64_t queries, int64_t keys,
                          int64_t rows, bool heads, int64_t *value) {
  int64_t blocks = (queries + a->rows - 1) / a->rows, first = heads ? 0 : blocks / 2 * a->rows;
  if (first + rows > queries && !heads) first = larger(0, queries - rows);
  memset(value, 0, ATTENTION_VALUES * sizeof *value);
  value[ATTENTION_ROWS] = rows, value[ATTENTION_KEYS] = keys;
  value[ATTENTION_LDQ] = value[ATTENTION_LDK] = q->head;
  value[ATTENTION_LDV] = value[ATTENTION_LDO] = q->value_head;
  value[ATTENTION_LDDQ] = value[ATTENTION_LDDK] = q->head;
  value[ATTENTION_LDDO] = value[ATTENTION_LDDV] = q->value_head;
  value[ATTENTION_AT] = (a->causal == TG_CAUSAL_BOTTOM_RIGHT ? keys - queries : 0) + first;
  /* of gradients, rows in the middle of the part's keys, of which they see as many as rows do on the mean */
  if (q->backward && q->partial) value[ATTENTION_AT] = keys / 2;
  value[ATTENTION_WINDOW] = larger(1, a->window);
  if (heads) value[ATTENTION_AT] = keys, value[ATTENTION_WINDOW] = (int64_t)1 << 31;
  value[ATTENTION_QUERY0] = first;
  for (uint32_t i = 0; i <= q->arguments_n; i++) {
    uint8_t per = i ? q->argument[i - 1].per : q->mask_per;
    value[ATTENTION_STEPS + 2 * i] = per & TG_PER_KEY ? keys : 1;
    value[ATTENTION_STEPS + 2 * i + 1] = 1;
  }
  choose_variants(a, q, queries, keys, first, heads, value);
  int64_t blocks_of_keys = keys / ATTENTION_BLOCK;   /* which are listed is data: a quarter of them as cut */
  value[ATTENTION_CUT_N] = (blocks_of_keys + 3) / 4;
  value[ATTENTION_FULL_N] = blocks_of_keys - value[ATTENTION_CUT_N];
}

/* The values of the parameters of a grid over dense operands [heads][tokens][head] of one sequence. */
static void choose_grid_values(const tg_attention *a, int64_t queries, int64_t keys, int64_t *value) {
  const tg_attention_problem *q = &a->problem;
  const int64_t tokens[] = {queries, keys, keys, queries}, width[] = {q->head, q->head, q->value_head, q->value_head},
                heads[] = {a->heads, a->kv_heads, a->kv_heads, a->heads};
  choose_values(a, q, queries, keys, queries, false, value);
  value[ATTENTION_AT] = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? keys - queries : 0;
  value[ATTENTION_SEQUENCES] = 1, value[ATTENTION_HEADS] = a->heads;
  for (uint32_t t = 0; t < TG_COUNT(width); t++) {
    value[ATTENTION_FAR + 2 * t + 1] = tokens[t] * width[t];
    value[ATTENTION_FAR + 2 * t] = heads[t] * tokens[t] * width[t];
  }
}

/* The roundings behind one another in one sum of a run of these rows and keys: as in tg_attention_space. */
static uint64_t roundings_of(const tg_attention_problem *q, int64_t rows, int64_t keys) {
  if (!q->backward) return 2 * (uint64_t)keys;
  /* a score is a sum over a head, what its weight is multiplied by one over a value_head, and both stand in a sum over
   * keys (dQ) or rows (dK, dV) */
  return (uint64_t)(q->head + q->value_head + larger(rows, keys));
}

tg_status tg_attention_space_of(tg_context *c, const tg_attention_desc *d, int64_t queries, int64_t keys,
                                tg_attention_space *out) {
  int64_t value[ATTENTION_VALUES];
  tg_status s = tg_attention_lay_out(c, d, &out->plan);
  if (s != TG_OK) return s;
  const tg_attention *a = &out->plan;
  const tg_attention_problem *p = &a->problem;
  if (p->backward && a->plan.device)
    return tg_kit_fail(c, TG_EINVAL, "tg_attention_tune: on a device a plan with backward is not tuned: its kernels, "
                                     "with a task for each query or key, have no knobs");
  if (a->plan.device && (p->page || p->dropout || p->block_rows || p->kv_bits || p->rotary || a->append))
    return tg_kit_fail(c, TG_EINVAL, "tg_attention_tune: on a device a plan with page_size, append, dropout, "
                                     "block_rows, kv_bits or rotary is not tuned");
  if (!tg_kit_read_size(a->queries, queries, &queries) || !tg_kit_read_size(a->keys, keys, &keys) || queries < 1 ||
      keys < 1)
    return tg_kit_fail(c, TG_EINVAL, "tg_attention_tune: no plan of this descriptor serves %lld queries of %lld keys",
                       (long long)queries, (long long)keys);
  bool heads = a->heads_are_rows && queries == 1;
  bool few = keys < ATTENTION_BLOCK && tg_attention_is_masked(&a->problem) && !p->backward;
  int64_t most = few ? ATTENTION_FEW : a->rows,
          rows = smaller(heads ? a->heads / a->kv_heads : queries, smaller(a->rows, most));
  const tg_kit_part *part = tg_kit_part_for(a->part, a->parts_n, &rows, 1);
  if (!part) return tg_kit_fail(c, TG_INTERNAL, "internal error: no part has %lld rows", (long long)rows);
  bool grid = a->plan.device != NULL;
  out->problem = grid ? a->grid[part - a->part] : a->problem;
  int64_t of_keys = heads || p->backward ? a->kv_heads : a->heads;   /* whose keys are divided */
  if (!grid) tg_attention_narrow(&out->problem, part->size[0]);
  if (grid) choose_grid_values(a, queries, keys, value);
  else if ((p->backward || rows <= ATTENTION_FEW) && tg_attention_most_parts(p->backward, of_keys, keys) > 1)
    out->problem.partial = true, out->problem.lse = p->backward && p->lse;
  if (p->backward && out->problem.partial) keys = tg_attention_keys_of_part(true, of_keys, keys);
  if (!grid && !p->backward && rows <= ATTENTION_FEW)
    keys = larger(smaller(keys, ATTENTION_SPLIT), keys_in_memory(&c->target, &a->problem, rows));
  if (!grid) choose_values(a, &out->problem, queries, keys, rows, heads, value);
  out->roundings = roundings_of(p, rows, keys);
  out->choice = &part->choice;
  out->bindings_n = tg_attention_bind(&out->problem, part->choice.sketch, out->binding);
  out->params_n = 0;
  for (uint32_t i = 0; i < out->bindings_n; i++)
    for (uint32_t v = 0; v < ATTENTION_VALUES; v++)
      if (out->binding[i].lo != out->binding[i].hi && !strcmp(out->binding[i].name, tg_attention_names.value[v]))
        out->params[out->params_n++] = value[v];
  out->defs_n = tg_attention_sketches_for(&out->problem, &part->choice, out->def, out->defs);
  return TG_OK;
}

tg_status tg_attention_tune_sized(tg_context *c, const tg_attention_desc *desc, size_t desc_bytes, int64_t queries,
                                  int64_t keys, const tg_tune_options *options, size_t options_bytes,
                                  tg_tune_result **out) {
  tg_attention_desc d;
  tg_attention_space w;
  char about[8192];
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  tg_tune_options o;
  if (TG_READ(c, tg_attention_desc, &d, desc, desc_bytes) != TG_OK ||
      TG_READ(c, tg_tune_options, &o, options, options_bytes) != TG_OK)
    return TG_EINVAL;
  tg_status s = tg_attention_space_of(c, &d, queries, keys, &w);
  if (s != TG_OK) return s;
  o.threads = 1;   /* a plan gives its runs to threads, each of which is one task */
  o.device = d.device;
  o.bindings = w.binding, o.bindings_n = w.bindings_n, o.user = &w.problem, o.params = w.params,
  o.params_n = w.params_n;
  if (!o.start && !o.start_kernel) o.start = w.choice->knob, o.start_n = w.choice->knobs_n;
  if (tg_attention_about(&d, &w.problem, about, sizeof about) >= sizeof about)
    return tg_context_fail(c, TG_ELIMIT, "tg_attention_tune: score_mod or mask_mod is too long");
  const tg_tune_kind kind = {.checks = tg_attention_trial, .about = about, .roundings = w.roundings};
  return tg_tune_checked(c, w.defs, w.defs_n, &o, &kind, out);
}

/* ---- the problem as text: numbers, then texts, each behind its length ---- */

enum { FIELDS = 34, NUMBERS = FIELDS + 3 * TG_ATTENTION_ARGS, TEXTS = 2 + TG_ATTENTION_ARGS };

/* Heads, batches and lengths do not change the kernel of a run: two heads of K and V, each of its group, show how they
 * lie. A grid's group and numbers of keys do. Of gradients two heads share one of K and V, and both add to its. */
static void list_numbers(const tg_attention_desc *d, const tg_attention_problem *q, int64_t *v) {
  uint32_t scale = 0, cap, dropout, n = 0;
  if (d->scale) memcpy(&scale, d->scale, sizeof scale);
  memcpy(&cap, &d->soft_cap, sizeof cap), memcpy(&dropout, &d->dropout, sizeof dropout);
  const int64_t fields[FIELDS] = {
      d->q,     d->k,    d->v,        d->o,       d->causal,     d->lse,    d->base2,
      d->alibi, d->mask, d->mask_per, d->head,    d->value_head, d->window, d->scale != NULL,
      scale,    cap,     q->rows.lo,  q->rows.hi, q->partial,    d->sinks,  q->grid ? q->group : 0,
      q->keys.lo, q->keys.hi, d->page_size, dropout, d->block_rows, d->block_keys, d->block_per,
      d->kv_bits, d->kv_scale, d->kv_group, d->rotary, d->rotary_neighbours, d->backward};
  for (; n < FIELDS; n++) v[n] = fields[n];
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++)
    v[n++] = d->arg[i].name != NULL, v[n++] = d->arg[i].type, v[n++] = d->arg[i].per;
}

size_t tg_attention_about(const tg_attention_desc *d, const tg_attention_problem *kernel, char *out, size_t n) {
  int64_t v[NUMBERS];
  const char *texts[TEXTS] = {d->score_mod, d->mask_mod};
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++) texts[2 + i] = d->arg[i].name;
  list_numbers(d, kernel, v);
  size_t k = (size_t)snprintf(out, n, "attention");
  for (uint32_t i = 0; i < NUMBERS; i++)
    k += (size_t)snprintf(k < n ? out + k : NULL, k < n ? n - k : 0, " %lld", (long long)v[i]);
  for (uint32_t i = 0; i < TEXTS; i++)
    k += (size_t)snprintf(k < n ? out + k : NULL, k < n ? n - k : 0, " %zu:%s", texts[i] ? strlen(texts[i]) : 0,
                          texts[i] ? texts[i] : "");
  return k;
}

typedef struct {
  tg_attention_desc desc;
  tg_kit_dim rows, keys;
  bool partial, grid;
  float scale;
  char text[8192];
} described;

static bool read_texts(const char *at, described *d) {
  size_t used = 0;
  for (uint32_t i = 0; i < TEXTS; i++) {
    char *end, *to = d->text + used;
    size_t n = strtoul(at, &end, 10);
    if (*end != ':' || n >= sizeof d->text - used || strlen(end + 1) < n) return false;
    memcpy(to, end + 1, n), to[n] = 0;
    at = end + 1 + n, used += n + 1;
    if (i < 2 && n) *(i ? &d->desc.mask_mod : &d->desc.score_mod) = to;
    if (i >= 2 && d->desc.arg[i - 2].name) d->desc.arg[i - 2].name = to;
  }
  return true;
}

static bool read_about(const char *at, described *d) {
  int64_t v[NUMBERS];
  static const size_t word = sizeof "attention" - 1;
  if (strncmp(at, "attention", word)) return false;
  at += word;
  for (uint32_t i = 0; i < NUMBERS; i++) {
    char *end;
    v[i] = strtoll(at, &end, 10);
    if (end == at) return false;
    at = end;
  }
  uint32_t scale = (uint32_t)v[14], cap = (uint32_t)v[15], dropout = (uint32_t)v[24];
  d->desc = (tg_attention_desc){.q = (uint8_t)v[0], .k = (uint8_t)v[1], .v = (uint8_t)v[2], .o = (uint8_t)v[3],
                                .causal = (uint8_t)v[4], .lse = (uint8_t)v[5], .base2 = (uint8_t)v[6],
                                .alibi = (uint8_t)v[7], .mask = (uint8_t)v[8], .mask_per = (uint8_t)v[9],
                                .head = (int32_t)v[10], .value_head = (int32_t)v[11], .window = v[12],
                                .heads = 2 * (int32_t)larger(v[33] ? 2 : 1, v[20]), .kv_heads = 2, .page_size = v[23],
                                .block_rows = (int32_t)v[25], .block_keys = (int32_t)v[26],
                                .block_per = (uint8_t)v[27], .kv_bits = (uint8_t)v[28], .kv_scale = (uint8_t)v[29],
                                .kv_group = (int32_t)v[30], .rotary = (int32_t)v[31],
                                .rotary_neighbours = (uint8_t)v[32], .backward = (uint8_t)v[33]};
  memcpy(&d->desc.dropout, &dropout, sizeof dropout);
  memcpy(&d->scale, &scale, sizeof scale), memcpy(&d->desc.soft_cap, &cap, sizeof cap);
  if (v[13]) d->desc.scale = &d->scale;
  d->rows = (tg_kit_dim){v[16], v[17]}, d->partial = v[18] != 0;
  d->desc.sinks = (uint8_t)v[19];
  d->grid = v[20] > 0, d->keys = (tg_kit_dim){1, (int64_t)1 << 31};
  if (d->grid) d->keys = (tg_kit_dim){v[21], v[22]};
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++) {
    d->desc.arg[i].name = v[FIELDS + 3 * i] ? d->text : NULL;
    d->desc.arg[i].type = (uint8_t)v[FIELDS + 3 * i + 1], d->desc.arg[i].per = (uint8_t)v[FIELDS + 3 * i + 2];
  }
  d->desc.keys = (tg_dim){d->keys.lo, d->keys.lo < d->keys.hi ? d->keys.hi : 0};
  d->desc.queries = (tg_dim){d->rows.lo, d->rows.lo < d->rows.hi ? d->rows.hi : 0};
  return read_texts(at, d);
}

/* ---- checks ---- */

enum { CHECKS = 12, MORE_KEYS = 300, MORE_ROWS = 200 };

/* Of a plan on a device, masks and arguments are dense, and LSE, which checks leave out by some seeds, is written. */
static void suit_device(const described *d, const tg_attention *plan, tg_attention_case *x) {
  if (!plan->plan.device) return;
  if (d->desc.mask || plan->problem.arguments_n) x->lie = TG_ATTENTION_DENSE;
  if (d->desc.lse && x->seed % 4 == 0) x->seed++;
}

/* Calls whose runs have numbers of rows that the kernel takes, and so many keys that it is the one that they run. */
static tg_status check_calls(tg_context *c, const described *d, const tg_attention *plan, const char *words,
                             uint64_t seed, char *message, size_t n) {
  tg_attention_checks *g = NULL;
  tg_attention_planned planned = {.context = c, .plan = plan};
  /* keys are divided if there are more than so many; fewer of gradients' are not */
  int64_t split = d->desc.backward ? ATTENTION_LEAST : ATTENTION_SPLIT,
          least = larger(d->partial ? split + 1 : 1, d->keys.lo),
          most_keys = smaller(least + MORE_KEYS, d->keys.hi), most_rows = smaller(d->rows.lo + MORE_ROWS, d->rows.hi);
  if (!d->grid) most_rows = d->rows.hi;
  if (d->desc.backward && !d->partial) most_keys = smaller(most_keys, split);
  tg_cuts cuts = {.state = seed};
  static const int64_t blocks[] = {8, 24, 32, 64, 128};   /* of rows and of keys, whose knobs the words name only */
  int64_t v[TG_CUT_NUMBERS];
  tg_check_failure failure;
  tg_cuts_add(&cuts, blocks, TG_COUNT(blocks));
  tg_cuts_add(&cuts, v, tg_numbers_in(words, v, TG_CUT_NUMBERS));
  tg_status s = tg_attention_checks_open(c, &d->desc, &g);
  planned.checks = g;
  if (s != TG_OK) return snprintf(message, n, "%.1000s", tg_error_message(c)), s;
  for (int i = 0; i < CHECKS && s == TG_OK; i++) {
    tg_attention_case x = {.kind = i % 4 == 3 ? TG_ATTENTION_SPECIAL : TG_ATTENTION_RANDOM,
                           .batch = 1,
                           .queries = i < 2 ? (i ? d->rows.lo : most_rows)
                                            : tg_cuts_size(&cuts, d->rows.lo, most_rows),
                           .keys = tg_cuts_size(&cuts, least, most_keys),
                           .lie = i % 2 ? TG_ATTENTION_GAPS : TG_ATTENTION_DENSE,
                           .front = i % 4 < 2,
                           .seed = seed + (uint64_t)i};
    if (!tg_attention_check_applies(&d->desc, x.kind)) x.kind = TG_ATTENTION_RANDOM;
    if (d->desc.rotary) x.keys = larger(x.keys, x.queries);   /* queries stand at the last keys */
    suit_device(d, plan, &x);
    s = tg_attention_check_one(g, tg_attention_check_plan, &planned, &x, &failure);
  }
  for (int i = 0; i < TG_ATTENTION_RANDOM && s == TG_OK; i++) {
    tg_attention_case x = {.kind = (tg_attention_kind)i, .batch = 1, .queries = most_rows,
                           .keys = larger(least, smaller((d->partial ? split : 0) + 64, most_keys)),
                           .seed = seed};
    if (d->desc.rotary) x.keys = larger(x.keys, x.queries);
    suit_device(d, plan, &x);
    if (tg_attention_check_applies(&d->desc, x.kind))
      s = tg_attention_check_one(g, tg_attention_check_plan, &planned, &x, &failure);
  }
  if (s != TG_OK) snprintf(message, n, "%.1000s", failure.text);
  tg_attention_checks_close(g);
  return s;
}

tg_status tg_attention_trial(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                             uint64_t seed, double *whole, char *message, size_t message_n) {
  described d = {.partial = false};
  tg_attention *plan = NULL;
  (void)threads, (void)whole;   /* a run is one task; and there are no candidates for a part of the problem */
  if (!read_about(about, &d)) return snprintf(message, message_n, "'%.100s' is no attention", about), TG_EBACKEND;
  if (d.grid) d.desc.device = k->loaded->device;
  tg_status s = tg_attention_plan(c, &d.desc, &plan);
  if (s != TG_OK) return snprintf(message, message_n, "%.1000s", tg_error_message(c)), TG_EBACKEND;
  /* the candidate is the kernel of all its parts; they have their own again before they are freed */
  tg_kit_kernel own[ATTENTION_RANGES], candidate = {.kernel = k};
  int which = d.partial ? ATTENTION_PARTIAL : ATTENTION_WHOLE;
  s = tg_kit_connect(&plan->plan, &tg_attention_names, &candidate);
  /* the kernel that finds the states of blocks takes no more rows than the plan has chosen for its runs */
  plan->rows = plan->lists ? smaller(d.rows.hi, plan->rows) : d.rows.hi;
  for (uint32_t i = 0; i < plan->parts_n; i++) {
    bool takes = !plan->lists || (plan->part[i].size[0].lo > ATTENTION_FEW) == (d.rows.lo > ATTENTION_FEW);
    own[i] = plan->part[i].kernel[which];
    if (takes) plan->part[i].kernel[which] = candidate;
  }
  if (s == TG_OK) s = check_calls(c, &d, plan, words, seed, message, message_n);
  else snprintf(message, message_n, "%.1000s", tg_error_message(c)), s = TG_EBACKEND;
  for (uint32_t i = 0; i < plan->parts_n; i++) plan->part[i].kernel[which] = own[i];
  tg_attention_free(plan);
  return s;
}
