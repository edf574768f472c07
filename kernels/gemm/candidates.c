/* SPDX-License-Identifier: MIT
 * The choice of a kernel by price: what was proposed is lowered and priced by the cost model, and the least is
 * taken. */
#include <math.h>
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "kit/choose.h"

/* Knobs that the choice by price may change: the tile, its unrolling, the blocks. */
static const int64_t few[] = {1, 2, 3, 4, 6, 8, 0}, powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 0};
static const tg_kit_axis axes[] = {
    {"MR", tg_gemm_mr}, {"NU", few}, {"NC", few}, {"UK", powers}, {"KC", powers}};

/* ---- the question ---- */

enum { KEY = 1024 };

/* Is the call that the descriptor says is likely one of the plan's? Then it is a launch to price for. */
static bool is_likely(const tg_gemm *g, const tg_gemm_problem *q) {
  return g->likely[0] && tg_span_has(q->m, g->likely[0]) && tg_span_has(q->n, g->likely[1]) &&
         tg_span_has(q->k, g->likely[2]);
}

/* Lines of operand i of the call that is likely are a multiple of this apart, in bytes: of L1's way, where all meet in
 * one set, of a quarter of it, or of a cache line. Only of calls that are like each other. */
static int64_t spread_of(const tg_gemm *g, const tg_gemm_problem *q, uint32_t i) {
  const tg_type type[] = {q->a, q->b, q->c};
  bool some = g->mostly[0].hi || g->mostly[1].hi || g->mostly[2].hi;
  int64_t bytes = some && is_likely(g, q) ? g->likely[3 + i] * (int64_t)tg_type_bytes(type[i]) : 0,
          line = TG_CACHE_LINE;
  return !bytes || !g->way ? line : bytes % g->way == 0 ? g->way : bytes % (g->way / 4) == 0 ? g->way / 4 : line;
}

/* Which of the candidates computes the problem fastest, as text: all that prices depend on. any: without the call that
 * is likely, of which is left how far apart its lines are, since all launches are priced with lines like these. */
static void put_question(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                         uint32_t regions, bool any, char out[KEY]) {
  const int64_t value[] = {q->a,      q->b,      q->c,       q->acc,     q->a_major,  q->b_major, q->c_major, q->a_step,
                           q->b_step, q->c_step, q->m.lo,    q->m.hi,    q->n.lo,     q->n.hi,    q->k.lo,    q->k.hi,
                           whole->m.lo, whole->m.hi, whole->n.lo, whole->n.hi, whole->k.lo, whole->k.hi,
                           g->ld[0].lo, g->ld[1].lo, g->ld[2].lo,
                           q->alpha,  q->beta,   q->flush,   q->panel,   q->bits,     q->group,   q->scale,   q->zero,
                           q->group_major, q->batch.lo, q->batch.hi, threads, regions, g->way,
                           g->whole};
  uint64_t epilogue = q->epilogue ? tg_hash(q->epilogue, strlen(q->epilogue), 0) : 0;
  for (uint32_t i = 0; i < q->arguments_n; i++)
    epilogue = tg_mix(epilogue, (uint64_t)q->argument[i].type << 8 | q->argument[i].per);
  int n = snprintf(out, KEY, "gemm %016llx", (unsigned long long)epilogue);
  for (uint32_t i = 0; i < TG_COUNT(value) && n < KEY; i++)
    n += snprintf(out + n, (size_t)(KEY - n), " %lld", (long long)value[i]);
  for (uint32_t i = 0; regions && i < TG_COUNT(g->mostly) && n < KEY; i++)
    if (g->mostly[i].hi)
      n += snprintf(out + n, (size_t)(KEY - n), " %c %lld..%lld", "mnk"[i], (long long)g->mostly[i].lo,
                    (long long)g->mostly[i].hi);
  if (any)
    snprintf(out + n, (size_t)(KEY - n), " any apart %lld %lld %lld", (long long)spread_of(g, q, 0),
             (long long)spread_of(g, q, 1), (long long)spread_of(g, q, 2));
  for (uint32_t i = 0; !any && regions && is_likely(g, q) && i < TG_COUNT(g->likely) && n < KEY; i++)
    n += snprintf(out + n, (size_t)(KEY - n), "%s%lld", i ? " " : " likely ", (long long)g->likely[i]);
}

/* On the heap: threads of callers may have small stacks. */
typedef struct {
  const tg_gemm *g;
  const tg_gemm_problem *q;
  tg_gemm_points points[TG_PRICED][2];   /* by launch; [1]: of its pieces, for one thread */
  tg_gemm_pieces pieces[TG_PRICED];
  tg_gemm_def def[TG_KIT_CANDIDATES];
  tg_kit_candidate candidate[TG_KIT_CANDIDATES];
  tg_binding binding[GEMM_VALUES];
  tg_kit_priced launch[TG_PRICED];
  tg_kit_region region[TG_REGIONS];
  uint32_t candidates, bindings, launches, likely;   /* likely: 1 + the launch that is, the last one */
  bool has_pieces, terms;             /* terms: some launch divides its sums */
  char key[KEY], any[KEY];
} choosing;

/* ---- launches ---- */

/* of: m, n, k. */
static void add_launch(choosing *w, const int64_t of[3], const int64_t ld[3]) {
  uint32_t row = w->q->c_major == TG_GEMM_COLUMN;
  const tg_type type = row ? w->q->b : w->q->a;
  tg_kit_priced *l = &w->launch[w->launches++];
  int64_t line[3];
  tg_gemm_lines(w->q, of, line);
  memcpy(l->size, of, 3 * sizeof *of);
  l->size[GEMM_ALIASED] =
      w->g->way && (w->g->ld[row].lo ? w->g->ld[row].lo : ld && ld[row] ? ld[row] : line[row]) *
                           (int64_t)tg_type_bytes(type) % w->g->way == 0;
  tg_gemm_params(w->q, of, ld, w->binding, w->bindings, l->params);
}

/* What threads make of the launches. Lines of a piece are those of the whole. Whether sums are divided depends on the
 * launches that any plan like this has, not on the likely one. */
static void divide_launches(choosing *w) {
  const tg_gemm *g = w->g;
  bool may = tg_gemm_may_divide_terms(g, w->q);
  for (uint32_t i = 0; i < w->launches && may; i++)
    w->terms |= i + 1 != w->likely && tg_gemm_divide(g, w->launch[i].size, true).parts[2] > 1;
  for (uint32_t i = 0; i < w->launches; i++) {
    tg_kit_priced *l = &w->launch[i];
    tg_gemm_pieces *p = &w->pieces[i];
    *p = tg_gemm_divide(g, l->size, w->terms);
    l->pieces = p->n;
    l->beside[0] = g->plan.context->target.machine.launch * 1e-9;   /* waiting for each other is in their price */
    l->beside[1] = tg_gemm_meeting(g, p, l->size);
    memcpy(l->piece, l->params, sizeof l->piece);
    for (uint32_t b = 0, at = 0; b < w->bindings; b++) {
      bool open = w->binding[b].lo != w->binding[b].hi;
      if (open && b < 3) l->piece[at] = p->size[b];
      at += open;
    }
  }
}

/* Dense lines, an odd number of cache lines long: of these none meet in one set; or as far apart as those of the likely
 * call. apart: the rows' operand's are a multiple of its cache's way apart. */
static void add_spread(choosing *w, const int64_t of[3], bool apart) {
  const tg_gemm_problem *q = w->q;
  const tg_type type[] = {q->a, q->b, q->c};
  int64_t ld[3];
  tg_gemm_lines(q, of, ld);
  for (uint32_t i = 0; i < 3; i++) {
    bool aliased = apart && i == (q->c_major == TG_GEMM_COLUMN);
    int64_t to = (aliased ? w->g->way : spread_of(w->g, q, i)) / (int64_t)tg_type_bytes(type[i]);
    if (to < 1) to = 1;
    ld[i] = ((ld[i] + to - 1) / to | 1) * to;
  }
  add_launch(w, of, ld);
}

/* Sizes that vary: the middle of all; of one range its ends; of two the four corners; of three every other of the eight
 * corners, so that each range has both of its ends twice, beside all ends of the others. If calls mostly have some of
 * the sizes, of those the middle and the corners of all lower and of all upper ends, with lines as far apart as the
 * likely call's. */
static void add_launches(choosing *w) {
  const tg_target *t = &w->g->plan.context->target;
  const tg_gemm_problem *q = w->q;
  const tg_kit_dim *near = w->g->mostly;
  const tg_kit_dim dim[] = {near[0].hi ? near[0] : q->m, near[1].hi ? near[1] : q->n, near[2].hi ? near[2] : q->k};
  bool some = near[0].hi || near[1].hi || near[2].hi;
  int64_t middle[3], lo[3], hi[3], range[3];
  uint32_t n = 0, row = q->c_major == TG_GEMM_COLUMN;
  for (uint32_t i = 0; i < 3; i++) {
    middle[i] = tg_gemm_middle(q, t, dim[i]), lo[i] = dim[i].lo, hi[i] = tg_gemm_end(q, t, dim[i]);
    if (lo[i] < hi[i]) range[n++] = i;
  }
  add_spread(w, middle, false);
  for (uint32_t corner = 0; n && corner < 1u << n; corner++) {
    int64_t of[3];
    if (some ? corner && corner + 1 < 1u << n : n == 3 && __builtin_parity(corner) == 0) continue;
    memcpy(of, middle, sizeof of);
    for (uint32_t i = 0; i < n; i++) of[range[i]] = corner >> i & 1 ? hi[range[i]] : lo[range[i]];
    add_spread(w, of, false);
  }
  if (!some && w->g->way && !w->g->ld[row].lo && (row ? q->b_major : q->a_major) != TG_GEMM_STRIDES) add_spread(w,
      middle, true);
  if (is_likely(w->g, q)) add_launch(w, w->g->likely, w->g->likely + 3), w->likely = w->launches;
}

/* ---- candidates ---- */

static void add_candidate(choosing *w, const tg_gemm_point *p) {
  for (uint32_t i = 0; i < w->candidates; i++)
    if (tg_kit_same_choice(&w->candidate[i].choice, &p->choice)) return;
  tg_gemm_def *def = &w->def[w->candidates];
  tg_gemm_kernel_of(w->q, p->choice.sketch, def);
  w->candidate[w->candidates++] = (tg_kit_candidate){&def->def, p->choice};
}

/* Has a candidate its sketch, or (tile) its tile? */
static bool has_like(const choosing *w, const tg_gemm_point *p, bool tile) {
  for (uint32_t i = 0; i < w->candidates; i++) {
    const tg_kit_choice *c = &w->candidate[i].choice;
    if (tg_gemm_is_alone(c) != tg_gemm_is_alone(&p->choice)) continue;
    if (tile ? tg_gemm_same_tile(c, &p->choice) : c->sketch == p->choice.sketch) return true;
  }
  return false;
}

static void propose(choosing *w, uint32_t l, uint32_t threads, bool open) {
  const tg_target *t = &w->g->plan.context->target;
  tg_gemm_propose(w->q, t, open ? w->launch[l].size : NULL, threads, NULL, &w->points[l][0]);
  if (w->has_pieces) tg_gemm_propose(w->q, t, w->pieces[l].size, 1, NULL, &w->points[l][1]);
}

/* Of each launch the points with the least bounds, in turns: first one of each sketch, whose bounds tell least beside
 * each other's, the likely call's before others', then one of each tile, then tiles with other blocks. first: the first
 * alone. */
static void add_candidates(choosing *w, uint32_t threads, bool open, bool first) {
  enum { SKETCHES, TILES, ALL, PASSES };
  uint32_t most = w->has_pieces ? TG_KIT_CANDIDATES : open ? TG_GEMM_OPEN_POINTS : TG_GEMM_POINTS + 1,
           last = w->launches - 1, kinds = w->has_pieces ? 2 : 1;
  for (uint32_t l = first && w->likely ? last : 0; l < w->launches; l++) {
    propose(w, l, threads, open);
    if (first && w->points[l][0].n) add_candidate(w, &w->points[l][0].point[0]);
    if (first && w->candidates) return;
  }
  for (uint32_t k = 0; last && w->likely && k < kinds; k++)
    for (uint32_t i = 0; i < w->points[last][k].n; i++)   /* it is the last launch */
      if (!has_like(w, &w->points[last][k].point[i], false)) add_candidate(w, &w->points[last][k].point[i]);
  for (uint32_t pass = last ? SKETCHES : ALL; pass < PASSES; pass++)
    for (uint32_t i = 0; i < TG_COUNT(w->points[0][0].point); i++)
      for (uint32_t l = 0; l < kinds * w->launches && w->candidates < most; l++) {
        const tg_gemm_points *p = &w->points[l / kinds][l % kinds];
        if (i < p->n && (pass == ALL || !has_like(w, &p->point[i], pass == TILES))) add_candidate(w, &p->point[i]);
      }
}

/* What a choice takes at least, over all launches (bound.c). */
static double least(void *of, const tg_kit_choice *c) {
  const choosing *w = of;
  const tg_target *t = &w->g->plan.context->target;
  const tg_gemm_sketch *s = NULL;
  double sum = 0;
  for (uint32_t i = 0; tg_gemm_sketches[i] && !s; i++)
    if (tg_gemm_sketches[i]->kernel == c->sketch) s = tg_gemm_sketches[i];
  for (uint32_t i = 0; i < w->launches; i++) {
    tg_gemm_view v;
    tg_gemm_look(w->q, t, w->launch[i].size, s == &tg_gemm_stream || s == &tg_gemm_dot, &v);
    double cycles = s && s->bound ? s->bound(&v, c) : 0;
    double weight = tg_price_weight(w->likely, w->launches, i);
    sum += cycles > 0 ? weight * log(cycles / t->machine.clock * 1e-6) : -INFINITY;
  }
  return sum;
}

/* ---- the choice ---- */

static uint32_t choose(choosing *w, const tg_gemm_problem *whole, uint32_t threads, uint32_t regions) {
  enum { PRICES = 8 };
  const tg_gemm *g = w->g;
  const tg_gemm_problem *q = w->q;
  const int64_t middle[] = {tg_gemm_middle(whole, &g->plan.context->target, whole->m),
                            tg_gemm_middle(whole, &g->plan.context->target, whole->n),
                            tg_gemm_middle(whole, &g->plan.context->target, whole->k)};
  w->bindings = tg_gemm_bind(g, q, w->binding);
  if (regions) add_launches(w);
  else add_launch(w, middle, NULL);
  w->has_pieces = regions && tg_gemm_has_pieces(g, q);
  if (w->has_pieces) divide_launches(w);
  put_question(g, whole, q, threads, regions, false, w->key);
  put_question(g, whole, q, threads, regions, true, w->any);
  tg_kit_question question = {.key = w->key,
                              .any = regions ? w->any : NULL,
                              .candidate = w->candidate,
                              .axis = axes,
                              .axes_n = TG_COUNT(axes),
                              .prices = PRICES,
                              .fits = tg_gemm_fits,
                              .least = threads > 1 ? NULL : least,
                              .of = w,
                              .binding = w->binding,
                              .bindings_n = w->bindings,
                              .launch = w->launch,
                              .launches_n = w->launches,
                              .likely = w->likely,
                              .whole = {q->m, q->n, q->k, {0, 1}},
                              .regions = regions,
                              .user = (void *)(uintptr_t)q,
                              .threads = threads,
                              .alone = w->has_pieces ? tg_gemm_is_alone : NULL,
                              .cancel = g->plan.cancel,
                              .kept_only = g->flags & TG_GEMM_NO_COMPILE};
  add_candidates(w, threads, regions, tg_kit_takes_first(g->plan.context, &question));
  question.candidates_n = w->candidates;
  return tg_kit_choose(g->plan.context, &question, w->region);
}

static choosing *begin(const tg_gemm *g, const tg_gemm_problem *q) {
  const tg_allocator *a = &g->plan.context->env.allocator;
  choosing *w = a->alloc(a->user, sizeof *w);
  if (w) memset(w, 0, sizeof *w), w->g = g, w->q = q;
  return w;
}

static void end(choosing *w) {
  const tg_allocator *a = &w->g->plan.context->env.allocator;
  a->free(a->user, w, sizeof *w);
}

void tg_gemm_choose_kernel(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                           tg_kit_choice *out) {
  choosing *w = begin(g, q);
  if (!w) {
    tg_gemm_choose(q, &g->plan.context->target, threads, out);
    return;
  }
  choose(w, whole, threads, 0);
  *out = w->region[0].choice;
  end(w);
}

uint32_t tg_gemm_choose_parts(const tg_gemm *g, const tg_gemm_problem *q, tg_kit_part *out) {
  uint32_t n = 1;
  choosing *w = begin(g, q);
  out[0] = (tg_kit_part){.size = {q->m, q->n, q->k, {0, 1}}, .strips = {.n = 1}};
  if (!w) {
    tg_gemm_choose(q, &g->plan.context->target, g->plan.most, &out[0].choice);
    return n;
  }
  n = choose(w, q, g->plan.most, g->flags & TG_GEMM_ONE_KERNEL ? 1 : TG_REGIONS);
  for (uint32_t i = 0; i < n; i++) {
    bool pieces = w->has_pieces && tg_gemm_is_alone(&w->region[i].choice);
    out[i] = (tg_kit_part){.choice = w->region[i].choice, .strips = {.n = 1}, .pieces = pieces,
                           .terms = pieces && w->terms};
    memcpy(out[i].size, w->region[i].size, sizeof out[i].size);
  }
  end(w);
  return n;
}
