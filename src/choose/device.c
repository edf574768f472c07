/* SPDX-License-Identifier: MIT
 * The heuristic for targets with warps (GPUs): which loops become workgroups, and which threads. It is simple, and the
 * schedule is always legal: each word is tried on the program as scheduled so far, and is kept only if it is accepted.
 * Perfect nests (loops in loops, with stores in the innermost alone) are for the files that follow, of which
 * device_plain.c takes any. In other nests, innermost loops become lanes, and the loops around them warps; where none
 * can, since each iteration needs the one before, iterations of a loop around are lanes. Iterations beyond the number
 * of lanes or warps are unrolled. Loops whose kind the author set keep it. */
#include <stdio.h>
#include "choose/device.h"

enum { MOST_WARPS = 8, MOST_COPIES = 8, MOST_WRITTEN = 16 };

typedef struct { tg_nest *n; tg_opt opt; } attempt;

static const tg_uop *outermost(const tg_nest *n, const tg_site *site) {
  const tg_uop *range = site->range;
  for (uint32_t p = site->parent; p != UINT32_MAX; p = n->s.sites.data[p].parent) range = n->s.sites.data[p].range;
  return range;
}

const char *tg_device_name(tg_nest *n, const tg_uop *range) {
  const char *name = tg_axis_name(&n->s, range);
  if (!n->versioned || n->top->op != TG_OP_END || n->top->src[0] == range) return name;
  tg_axis axis = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < axis.n; i++)
    if (outermost(n, &axis.site[i]) != n->top->src[0])
      return tg_format(&n->j->env, "%s.%s", tg_range_name(&n->s, n->top->src[0]), tg_axis_base(&n->s, range));
  return name;
}

/* The list of sites is memory that a trial has written to: it is made again. */
static void restore(tg_nest *n, const tg_schedule *before) {
  n->s = *before;
  n->s.sites_of = NULL;
  tg_schedule_sites(&n->s);
}

static void apply(void *user) {
  attempt *a = user;
  tg_schedule_apply(&a->n->s, &a->opt);
  tg_schedule_sites(&a->n->s);
}

bool tg_device_word(tg_nest *n, const char *format, ...) {
  const char *message;
  va_list ap;
  tg_str t = tg_str_new(&n->j->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  attempt a = {n, tg_opt_parse(n->j, t.data, (tg_pos){.file = "heuristic", .text = t.data, .column = 1})};
  tg_schedule before = n->s;
  if (tg_job_try(n->j, apply, &a, &message)) {
    tg_nest_emit(n, "%s", t.data);
    return true;
  }
  restore(n, &before);
  return false;
}

bool tg_device_all(tg_nest *n, bool (*words)(void *), void *user) {
  tg_job *j = n->j;
  tg_schedule before = n->s;
  uint32_t said = j->opts.n, owned = n->owner.n, buffers = j->buffers.n;
  uint8_t *demand = tg_new(&j->env, uint8_t, buffers + 1);
  for (uint32_t b = 0; b < buffers; b++) demand[b] = j->buffers.data[b].demand;
  if (words(user)) return true;
  j->opts.n = said, n->owner.n = owned;
  for (uint32_t b = 0; b < buffers; b++) j->buffers.data[b].demand = demand[b];
  restore(n, &before);
  return false;
}

typedef struct { tg_nest *n; const tg_words *words; bool accepted; } attempts;

static void apply_all(void *user) {
  attempts *a = user;
  tg_job *j = a->n->j;
  tg_pos pos = {.file = "heuristic", .text = "", .column = 1};
  for (uint32_t i = 0; i < a->words->n; i++) {
    pos.text = a->words->data[i];
    tg_opt o = tg_opt_parse(j, pos.text, pos);
    tg_schedule_apply(&a->n->s, &o);
    tg_schedule_sites(&a->n->s);
  }
  tg_schedule_check(&a->n->s, NULL);
  a->accepted = true;
}

bool tg_device_try(tg_nest *n, const tg_words *words) {
  attempts a = {n, words, false};
  const char *none;
  tg_schedule before = n->s;
  tg_job_trial(n->j, apply_all, &a, &none);   /* names of copies are free again when the words are applied */
  restore(n, &before);
  for (uint32_t i = 0; i < words->n && a.accepted; i++)
    if (n->steps) tg_device_word(n, "%s", words->data[i]);
    else tg_nest_emit(n, "%s", words->data[i]);
  return a.accepted;
}

/* Is there a word that gives something this name? */
static bool is_named(const tg_job *j, const char *name) {
  const size_t length = strlen(name);
  for (uint32_t i = 0; i < j->opts.n; i++) {
    const char *text = j->opts.data[i].text;
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
      if (at > text && at[-1] == ' ' && (!at[length] || at[length] == ' ' || at[length] == '[')) return true;
  }
  return false;
}

const char *tg_device_new_name(tg_job *j, const char *name) {
  const char *made = name;
  for (unsigned i = 2; is_named(j, made); i++) made = tg_format(&j->env, "%s%u", name, i);
  return made;
}

/* ---- perfect nests ---- */

/* The loop that, definitions aside, is the only statement in this one; NULL: there is none. */
static const tg_uop *only_loop(const tg_uop *end) {
  const tg_uop *found = NULL;
  for (uint32_t i = 1; i < end->n; i++) {
    if (end->src[i]->op == TG_OP_DEFINE) continue;
    if (found || end->src[i]->op != TG_OP_END) return NULL;
    found = end->src[i];
  }
  return found;
}

static uint32_t chain_of(const tg_uop *top, const tg_uop **chain) {
  uint32_t n = 0;
  for (const tg_uop *u = top; u && n < NEST_MAX; u = only_loop(u)) chain[n++] = u;
  return n;
}

const tg_uop *tg_nest_loop_of(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->s.sites.n; i++)
    if (n->s.sites.data[i].range == range && n->s.sites.data[i].owner->op == TG_OP_END) return n->s.sites.data[i].owner;
  return NULL;
}

/* Has the range's reduction another range that the author gave threads? A workgroup has too few for both. */
static bool has_threads(const tg_nest *n, const tg_uop *range) {
  for (uint32_t i = 0; i < n->s.sites.n; i++) {
    const tg_uop *owner = n->s.sites.data[i].owner;
    if (n->s.sites.data[i].range != range || owner->op != TG_OP_REDUCE) continue;
    for (uint32_t k = 0; k < tg_reduce_info(owner).ranges; k++) {
      tg_kind kind = tg_range_kind(tg_reduce_ranges(owner)[k]);
      if ((kind == TG_GROUP || kind == TG_LOCAL || kind == TG_LANE) && tg_iterations(tg_reduce_ranges(owner)[k]) != 1)
        return true;
    }
  }
  return false;
}

typedef struct { tg_nest *n; const tg_uop *range; } spread;

static bool spread_words(void *user) {
  const spread *c = user;
  const char *outer;
  return tg_device_spread(c->n, c->range, "group", &outer);
}

static bool reductions_along_threads(tg_nest *n, const tg_uop *in) {
  const tg_uop *ranges[NEST_MAX];
  bool any = false;
  uint32_t count = tg_device_contiguous(n, in, NULL, ranges);
  for (uint32_t i = 0; i < count; i++) {
    bool there = false;   /* the range still exists: no word has split it */
    for (uint32_t k = 0; k < n->s.sites.n; k++) there |= n->s.sites.data[k].range == ranges[i];
    if (there && !has_threads(n, ranges[i])) any |= tg_device_all(n, spread_words, &(spread){n, ranges[i]});
  }
  return any;
}

/* ---- other nests ---- */

static bool warps_along(tg_nest *n, const tg_uop *range) {
  const char *name = tg_device_name(n, range), *base = tg_nest_base(n, name);
  int64_t extent = tg_iterations(range);
  if (extent < 2 || extent > MOST_WARPS * MOST_COPIES) return false;
  if (extent <= MOST_WARPS) return tg_device_word(n, "local %s", name);
  if (!tg_device_word(n, "split %s %d as %s.c %s.w", name, MOST_WARPS, base, base)) return false;
  bool warps = tg_device_word(n, "local %s.w", base);
  tg_device_word(n, "upcast %s.c", base);
  return warps;
}

static void lanes_along(tg_nest *n, const tg_uop *range) {
  const char *name = tg_device_name(n, range), *base = tg_nest_base(n, name);
  int64_t extent = tg_iterations(range), lanes = n->l->target->lanes;
  if (extent < 2) {
    if (extent < 0 && tg_device_word(n, "split %s %lld as %s.o %s.l", name, (long long)lanes, base, base))
      tg_device_word(n, "lane %s.l", base);
    return;
  }
  if (extent <= lanes) {
    tg_device_word(n, "lane %s", name);
    return;
  }
  if (!tg_device_word(n, "split %s %lld as %s.c %s.l", name, (long long)lanes, base, base)) return;
  tg_device_word(n, "lane %s.l", base);
  if (extent <= lanes * MOST_COPIES) tg_device_word(n, "upcast %s.c", base);
}

/* Schedules the loops inside: one call for those around others (inner false), then one for innermost ones, since a
 * range is scheduled once, together with its axis. warps: a loop around already has the warps. */
static void loops_within(tg_nest *n, const tg_uop *end, bool inner, bool warps) {
  for (uint32_t i = 1; i < end->n; i++) {
    const tg_uop *u = end->src[i];
    if (u->op != TG_OP_END) continue;
    bool innermost = tg_stores_only(u), taken = warps, around = only_loop(u) && tg_stores_only(only_loop(u));
    if (tg_is_free(u->src[0]) && tg_nest_loop_of(n, u->src[0]) &&
        (inner ? innermost : !innermost && (around || tg_iterations(u->src[0]) > 0))) {
      if (inner) lanes_along(n, u->src[0]);
      else if (!warps) taken = warps_along(n, u->src[0]);
    }
    loops_within(n, u, inner, taken);
  }
}

/* Has a word made lanes in it? */
static bool has_lanes(const tg_nest *n, const tg_uop *u) {
  if (u->op != TG_OP_END) return false;
  if (tg_range_kind(u->src[0]) == TG_LANE && tg_range_ordinal(u->src[0]) >= n->s.author_ranges) return true;
  for (uint32_t i = 1; i < u->n; i++)
    if (has_lanes(n, u->src[i])) return true;
  return false;
}

static uint32_t lanes_in_program(const tg_nest *n) {
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < n->s.sites.n; i++) lanes += tg_range_kind(n->s.sites.data[i].range) == TG_LANE;
  return lanes;
}

/* Is every reduction inside shorter than a warp has lanes? */
static bool short_reductions(tg_nest *n, const tg_uop *in) {
  const tg_uop *ranges[NEST_MAX];
  uint32_t count = tg_device_contiguous(n, in, NULL, ranges);
  for (uint32_t i = 0; i < count; i++)
    if (tg_iterations(ranges[i]) < 1 || tg_iterations(ranges[i]) >= n->l->target->lanes) return false;
  return true;
}

static void write_out_range(tg_nest *n, const tg_uop *range) {
  int64_t extent = tg_iterations(range);
  bool there = false;
  for (uint32_t i = 0; i < n->s.sites.n; i++) there |= n->s.sites.data[i].range == range;
  if (there && tg_is_free(range) && extent > 1 && extent <= MOST_WRITTEN)
    tg_device_word(n, "unroll %s", tg_device_name(n, range));
}

/* Short loops and sums are written out: what they number are registers, and what is the same around is read once. */
static void write_out(tg_nest *n, const tg_uop *end) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, end, &count);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; order[i]->op == TG_OP_REDUCE && k < tg_reduce_info(order[i]).ranges; k++)
      write_out_range(n, tg_reduce_ranges(order[i])[k]);
  for (uint32_t i = 1; i < end->n; i++) {
    const tg_uop *u = end->src[i];
    if (u->op != TG_OP_END) continue;
    if (tg_stores_only(u)) write_out_range(n, u->src[0]);
    write_out(n, u);
  }
}

/* Nothing inside can have threads, as each iteration there needs the one before: iterations of a loop around are lanes,
 * and warps of a group where there are enough for the cores. */
static bool lanes_around(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  const tg_target *t = n->l->target;
  const char *why;
  for (uint32_t k = depth; k-- > 0;) {
    const tg_uop *range = chain[k]->src[0];
    int64_t extent = tg_iterations(range), warps = MOST_WARPS;
    if (tg_range_kind(range) != TG_LOOP || extent == 1 || !tg_nest_loop_of(n, range) ||
        tg_range_verdict(&n->s, tg_nest_loop_of(n, range), &why) != TG_INDEPENDENT || (extent > 0 && extent < t->lanes))
      continue;
    while (warps > 1 && extent > 0 && extent < warps * t->lanes * t->threads) warps /= 2;
    const char *name = tg_device_name(n, range), *b = tg_nest_base(n, name);
    if (!tg_device_word(n, "split %s %lld as %s.o %s.t", name, (long long)(warps * t->lanes), b, b)) continue;
    if (warps > 1 && tg_device_word(n, "split %s.t %u as %s.w %s.l", b, t->lanes, b, b)) {
      tg_device_word(n, "local %s.w", b);
      tg_device_word(n, "lane %s.l", b);
    } else tg_device_word(n, "lane %s.t", b);
    tg_device_word(n, "global %s.o", b);
    write_out(n, chain[depth - 1]);
    return true;
  }
  return false;
}

static void device_nest(tg_nest *n, const tg_uop *top) {
  const tg_uop *chain[NEST_MAX] = {NULL};
  if (top->op != TG_OP_END) {
    if (!tg_device_rows(n, 0, chain, top)) reductions_along_threads(n, top);
    return;
  }
  uint32_t depth = chain_of(top, chain);
  if (tg_device_weights(n, depth, chain) || tg_device_windows(n, depth, chain) ||
      tg_device_contraction(n, depth, chain))
    return;
  bool perfect = tg_stores_only(chain[depth - 1]);
  uint32_t lanes = lanes_in_program(n);
  if (perfect && (tg_device_sums(n, depth, chain) || tg_device_transpose(n, depth, chain))) return;
  if (perfect ? tg_device_rows(n, depth, chain, top) : tg_device_rows_in_tiles(n, depth, chain)) return;
  if (perfect && tg_device_plain(n, depth, chain)) return;
  if (perfect) reductions_along_threads(n, chain[depth - 1]);
  else if (tg_device_attention(n, chain[depth - 1]) || tg_device_scores(n, chain[depth - 1]) ||
           tg_device_terms(n, chain[depth - 1]) || tg_device_states(n, depth, chain)) {}
  else if (has_lanes(n, top)) reductions_along_threads(n, chain[depth - 1]);
  else {
    loops_within(n, chain[depth - 1], false, false);
    loops_within(n, chain[depth - 1], true, false);
    bool around = lanes_in_program(n) == lanes && short_reductions(n, chain[depth - 1]);
    if (!around || !lanes_around(n, depth, chain)) reductions_along_threads(n, chain[depth - 1]);
  }
  for (uint32_t k = depth; k-- > 0;)   /* innermost first: each moves outside the one before */
    if (tg_range_kind(chain[k]->src[0]) == TG_LOOP && tg_nest_loop_of(n, chain[k]->src[0]))
      tg_device_word(n, "global %s", tg_device_name(n, chain[k]->src[0]));
}

static bool a_sum_in_parts(tg_nest *n) {
  for (uint32_t i = 0; i < n->s.sink->n; i++) {
    const tg_uop *chain[NEST_MAX] = {NULL}, *only = n->top = n->s.sink->src[i];
    uint32_t depth = only->op == TG_OP_END ? chain_of(only, chain) : 0;
    if (depth) only = chain[depth - 1]->n == 2 ? chain[depth - 1]->src[1] : NULL;
    if (only && only->op == TG_OP_STORE && tg_device_parts(n, depth, chain, only)) return true;
  }
  return false;
}

static bool a_scan(tg_nest *n) {
  for (uint32_t i = 0; i < n->s.sink->n; i++)
    if (tg_device_scan(n, n->s.sink->src[i])) return true;
  return false;
}

static bool a_loop_of_steps(tg_nest *n) {
  for (uint32_t i = 0; i < n->s.sink->n; i++)
    if (tg_device_steps(n, n->top = n->s.sink->src[i])) return true;
  return false;
}

/* Have words for another step given it threads? */
static bool is_done(const tg_nest *n, const tg_uop *u) {
  if (u->op != TG_OP_END) return false;
  tg_kind kind = tg_range_kind(u->src[0]);
  if ((kind == TG_LANE || kind == TG_GLOBAL) && tg_range_ordinal(u->src[0]) >= n->s.author_ranges) return true;
  for (uint32_t i = 1; i < u->n; i++)
    if (is_done(n, u->src[i])) return true;
  return false;
}

/* A program of one nest that is a product with sizes known at the call alone. */
static void open_sizes(tg_nest *n) {
  const tg_uop *chain[NEST_MAX] = {NULL}, *only = NULL;
  uint32_t statements = 0;
  for (uint32_t i = 0; i < n->s.sink->n; i++)
    if (n->s.sink->src[i]->op != TG_OP_DEFINE) only = n->s.sink->src[i], statements++;
  n->top = only;
  if (statements == 1 && only->op == TG_OP_END) tg_device_versions(n, chain_of(only, chain), chain);
}

void tg_nest_device(tg_nest *n) {
  open_sizes(n);
  while (a_sum_in_parts(n)) {}
  while (a_scan(n)) {}
  while (a_loop_of_steps(n)) n->steps = true;
  uint32_t count = n->s.sink->n;
  for (uint32_t i = count; i-- > 0;) {
    if (n->s.sink->n != count) return;   /* a word has added top-level statements, so i is no longer valid */
    const tg_uop *u = n->top = n->s.sink->src[i];
    if (n->steps && is_done(n, u)) continue;
    if (u->op == TG_OP_END || u->op == TG_OP_STORE) device_nest(n, u);
  }
}
