/* SPDX-License-Identifier: MIT
 * Groups of schedule words that several classes of nests are made of: vectors along a range with what is left of it,
 * tasks, and four pages read in turns. */
#include "choose/nest.h"

static uint32_t power_of_two_from(int64_t v) {
  uint32_t p = 1;
  while (p < v) p *= 2;
  return p;
}

static const char *whole_vectors(tg_nest *n, const char *name, const char *base, int64_t extent, uint32_t upcast) {
  const char *outer = extent != (int64_t)n->lanes * upcast ? tg_format(&n->j->env, "%s.o", base) : NULL;
  if (extent != (int64_t)n->lanes * upcast) {
    tg_nest_emit(n, "split %s %u as %s.o %s.i", name, n->lanes * upcast, base, base);
    name = tg_format(&n->j->env, "%s.i", base);
  }
  if (upcast == 1) {
    tg_nest_emit(n, "lane %s", name);
    return outer;
  }
  tg_nest_emit(n, "split %s %u as %s.u %s.v", name, n->lanes, base, base);
  tg_nest_emit(n, "upcast %s.u", base);
  tg_nest_emit(n, "lane %s.v", base);
  return outer;
}

/* Vectorises the remainder of a range, fewer iterations than one block, with masks. */
static void masked_vectors(tg_nest *n, const char *name, const char *base, int64_t extent) {
  if (extent == 1) return;
  uint32_t lanes = extent > 0 && extent < n->lanes ? power_of_two_from(extent) : n->lanes;
  tg_nest_emit(n, "split %s %u as %s.p %s.w", name, lanes, base, base);
  if (extent > lanes) tg_nest_emit(n, "unroll %s.p", base);
  tg_nest_emit(n, "lane %s.w", base);
}

/* The extent of a loop that depends on loops around it (a triangle), as text with their names. NULL: a name is
 * ambiguous, or its loop has been split. */
static const char *text_around(tg_nest *n, const tg_uop *range) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, tg_extent(range), &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op == TG_OP_LOAD) return NULL;
    if (order[i]->op != TG_OP_RANGE) continue;
    const char *name = tg_range_name(&n->s, order[i]);
    if (n->done[tg_range_ordinal(order[i])]) return NULL;
    for (uint32_t k = 0; k < n->s.sites.n; k++)
      if (n->s.sites.data[k].range != order[i] && !strcmp(tg_range_name(&n->s, n->s.sites.data[k].range), name))
        return NULL;
  }
  tg_str t = tg_str_new(&n->j->env);
  tg_print_expr(n->j, &t, tg_extent(range));
  return t.data;
}

/* The extent as text for the word cut. NULL: there is none, or the range is too short for full blocks of vectors. */
const char *tg_nest_cut_text(tg_nest *n, const tg_uop *range, const char *text) {
  if (tg_bounds_of(n->j, tg_extent(range)).hi < 4 * (int64_t)n->lanes) return NULL;
  return text ? text : text_around(n, range);
}

/* How many times the lanes of what is computed a vector of what the loop stores has, if those are integers of fewer
 * bits, packed as vectors are narrowed, and all that is read lies side by side: with so many lanes one is packed whole,
 * where copies side by side are packed piece by piece. 1: else, or no whole number of such vectors. */
static uint32_t packed(const tg_nest *n, const tg_nest_loop *l) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < l->end->n; i++) {
    const tg_uop *store = l->end->src[i];
    if (store->op != TG_OP_STORE || !tg_is_int(tg_stored(store)->type) || tg_gate(store)) return 1;
    uint32_t count, lanes = n->l->target->vector_bytes / (uint32_t)tg_type_bytes(tg_stored(store)->type);
    const tg_uop **order = tg_toposort(n->j, store, &count);
    for (uint32_t k = 0; k < count; k++) {
      if (order[k]->op != TG_OP_LOAD && order[k] != store) continue;
      tg_motion m = tg_access_motion(n->j, order[k], l->range);
      if (m != TG_CONTIGUOUS && (m != TG_STILL || order[k] == store)) return 1;
    }
    if (most && lanes != most) return 1;
    most = lanes;
  }
  return most > n->lanes && l->extent > 0 && l->extent % most == 0 ? most / n->lanes : 1;
}

static const char *loop_vector(tg_nest *n, const tg_nest_loop *l, uint32_t upcast) {
  tg_nest_axis a = tg_nest_axis_of(n, l->name);
  int64_t rest = l->extent > (int64_t)n->lanes && n->lanes > 1 ? l->extent % n->lanes : 0;
  if (a.alike && a.cut && rest > 1 && !(rest & (rest - 1))) { /* what is left fills a narrower vector: no mask */
    const char *whole = tg_format(&n->j->env, "%s.f", l->base);
    tg_nest_emit(n, "cut %s at %lld as %s %s.g", l->name, (long long)(l->extent - rest), whole, l->base);
    const char *outer = tg_nest_vector(n, whole, l->base, l->extent - rest, NULL, upcast, true);
    tg_nest_emit(n, "lane %s.g", l->base);
    return outer;
  }
  if (a.alike || n->lanes < 2)
    return tg_nest_vector(n, l->name, l->base, l->extent, tg_nest_cut_text(n, l->range, l->extent_text), upcast, a.cut);
  tg_nest_emit(n, "lane %s %u as %s.p %s.w", l->name, n->lanes, l->base, l->base);
  return tg_format(&n->j->env, "%s.p", l->base);
}

const char *tg_nest_loop_vector(tg_nest *n, const tg_nest_loop *l, uint32_t upcast) {
  uint32_t lanes = n->lanes, times = packed(n, l);
  n->lanes *= times;
  const char *outer = loop_vector(n, l, upcast > times ? upcast / times : 1);
  n->lanes = lanes;
  return outer;
}

const char *tg_nest_vector(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text,
                           uint32_t upcast, bool may_cut) {
  if (n->lanes < 2 || extent == 0 || extent == 1) return NULL;
  while (upcast > 1 && extent >= 0 && (int64_t)n->lanes * upcast > extent) upcast /= 2;
  int64_t block = (int64_t)n->lanes * upcast;
  if (extent >= 0 && extent % block == 0) return whole_vectors(n, name, base, extent, upcast);
  if (!may_cut || (extent < 0 && !text) || (extent >= 0 && extent < block)) {
    bool loop = extent > 4 * (int64_t)n->lanes || extent < 0;
    if (loop) tg_nest_emit(n, "lane %s %u as %s.p %s.w", name, n->lanes, base, base);
    else masked_vectors(n, name, base, extent);
    return loop ? tg_format(&n->j->env, "%s.p", base) : NULL;
  }
  if (extent >= 0)
    tg_nest_emit(n, "cut %s at %lld as %s.m %s.e", name, (long long)(extent / block * block), base, base);
  else
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.m %s.e", name, text, (long long)block, (long long)block, base,
                 base);
  const char *outer =
      whole_vectors(n, tg_format(&n->j->env, "%s.m", base), base, extent < 0 ? -1 : extent / block * block, upcast);
  const char *rest = tg_format(&n->j->env, "%s.e", base);
  if (extent < 0) tg_nest_emit(n, "lane %s %u as %s.p %s.w", rest, n->lanes, rest, rest);
  else masked_vectors(n, rest, rest, extent % block);
  return outer;
}

void tg_nest_thread(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text, double each) {
  double task =
      TG_TASK_WORK * (n->l->target->threads > 1 ? (double)TG_CHOOSE(n, "task", 4, 1, 2, 4, 8, 16, 64) / 4 : 1);
  int64_t chunk = each >= task ? 1 : (int64_t)(task / (each < 1 ? 1 : each));
  if (extent == 0 || extent == 1 || (extent < 0 && !text)) {
    if (chunk == 1 && extent < 0) tg_nest_emit(n, "thread %s", name);
    return;
  }
  int64_t fair = extent / (4 * (int64_t)n->l->target->threads);   /* at least 4 tasks for each thread */
  if (extent > 0 && chunk > fair) chunk = fair < 1 ? 1 : fair;
  if (chunk <= 1) {
    tg_nest_emit(n, "thread %s", name);
    return;
  }
  for (int64_t c = chunk; c < 2 * chunk && extent > 0; c++) {
    if (extent % c) continue;
    tg_nest_emit(n, "split %s %lld as %s.t %s.r", name, (long long)c, base, base);
    tg_nest_emit(n, "thread %s.t", base);
    return;
  }
  if (extent > 0) tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", name, (long long)(extent / chunk * chunk), base, base);
  else
    tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.b %s.c", name, text, (long long)chunk, (long long)chunk, base,
                 base);
  tg_nest_emit(n, "split %s.b %lld as %s.t %s.r", base, (long long)chunk, base, base);
  tg_nest_emit(n, "thread %s.t", base);
}

/* Vectors to unroll by: at most `most`, and fewer if the nest's unrolled copies would need over half the registers. */
uint32_t tg_nest_upcast(const tg_nest *n, uint32_t most) {
  while (most > 1 && most * n->copies > n->registers / 2 && n->copies > 1) most /= 2;
  return most;
}

void tg_nest_cut_masks(tg_nest *n, const char *name, const char *blocks) {
  bool pays = false;
  if (!blocks) return;
  tg_axis axis = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < axis.n && !pays; i++) pays = tg_cut_pays(&n->s, &axis.site[i]);
  if (pays) tg_push(&n->j->env, &n->masked, blocks);
}

/* Block size, in elements, for data that comes from DRAM: four pages of 4 KiB, read one vector from each in turn. The
 * hardware prefetcher of most cores follows several streams, which together get more bandwidth than one. */
int64_t tg_nest_pages_block(const tg_nest *n) {
  return n->l->target->vector_bytes >= 16 ? 4 * (4096 / (int64_t)n->l->target->vector_bytes) * n->lanes : 0;
}

bool tg_nest_wants_pages(const tg_nest *n, int64_t extent, uint32_t streams) {
  int64_t block = tg_nest_pages_block(n);
  double bytes = (double)extent * n->l->target->vector_bytes / n->lanes * streams;
  return !n->l->target->one_stream && extent > 0 && block && extent % block == 0 && n->lanes > 1 && n->copies == 1 &&
         streams <= 6 && bytes > 2.0 * (double)n->l->target->l2;
}

void tg_nest_page_vectors(tg_nest *n, const char *name, const char *b, int64_t extent, uint32_t upcast, bool loops) {
  int64_t block = tg_nest_pages_block(n);
  if (extent != block) tg_nest_emit(n, "split %s %lld as %s.q %s.s", name, (long long)block, b, b);
  if (extent != block) name = tg_format(&n->j->env, "%s.s", b);
  tg_nest_emit(n, "split %s %lld as %s.p %s.w", name, (long long)(block / 4), b, b);
  tg_nest_emit(n, "split %s.w %u as %s.o %s.x", b, upcast * n->lanes, b, b);
  if (loops) tg_nest_emit(n, "order %s.o %s.p", b, b);
  tg_nest_emit(n, "upcast %s.p", b);
  if (upcast > 1) tg_nest_emit(n, "split %s.x %u as %s.u %s.v", b, n->lanes, b, b);
  if (upcast > 1) tg_nest_emit(n, "upcast %s.u", b);
  tg_nest_emit(n, "lane %s.%s", b, upcast > 1 ? "v" : "x");
}

/* So many elements for a task, at least: whole pages of each array, since prefetchers begin anew at each page, and so
 * that no two tasks store to one line. */
int64_t tg_nest_whole_pages(const tg_nest *n, int64_t elements) {
  uint32_t bytes = 64;
  for (uint32_t i = 0; i < n->stores.n; i++) {
    uint32_t b = (uint32_t)tg_type_bytes(tg_define_of(n->stores.data[i]->src[0])->type);
    if (b < bytes) bytes = b;
  }
  int64_t page = 4096 / bytes;
  return (elements + page - 1) / page * page;
}

/* A single loop that is both shared by threads and vectorised. */
void tg_nest_flat(tg_nest *n, const tg_nest_loop *l, uint32_t upcast) {
  int64_t block = (int64_t)n->lanes * upcast;
  double each = n->work / tg_nest_trips(l->extent);
  int64_t chunk = tg_nest_whole_pages(n, (int64_t)(TG_TASK_WORK / (each < 1 ? 1 : each))),
          most = l->extent / (4 * (int64_t)n->l->target->threads);
  if (l->extent > 0 && chunk > most) chunk = most;
  int64_t four = tg_nest_pages_block(n);
  bool pages = four && l->extent > 0 && !n->reductions.n && chunk >= four &&
               tg_nest_wants_pages(n, l->extent / four * four, n->loads.n + n->stores.n);
  if (pages) pages = TG_CHOOSE(n, "pages", 1, 0, 1) != 0;
  if (pages) block = four;
  if (pages && chunk < 8 * block && most >= 8 * block) chunk = 8 * block;
  if (chunk < block && most >= block && !pages) chunk = block;
  chunk = chunk / block * block;
  bool threads = n->threads && l->parallel && chunk >= block &&
                 (l->extent > 0 ? n->work >= TG_THREAD_WORK : l->extent_text != NULL);
  if (!threads) {
    tg_nest_vector(n, l->name, l->base, l->extent, tg_nest_cut_text(n, l->range, l->extent_text), upcast, true);
    return;
  }
  const char *main_part = l->name, *b = l->base;
  int64_t rest = l->extent < 0 ? -1 : l->extent % chunk;
  if (rest) {
    if (l->extent > 0) tg_nest_emit(n, "cut %s at %lld as %s.b %s.c", l->name, (long long)(l->extent - rest), b, b);
    else
      tg_nest_emit(n, "cut %s at (%s)/%lld*%lld as %s.b %s.c", l->name, l->extent_text, (long long)chunk,
                   (long long)chunk, b, b);
    main_part = tg_format(&n->j->env, "%s.b", b);
    const char *left = tg_format(&n->j->env, "%s.c", b);
    const char *text = l->extent < 0 ? tg_format(&n->j->env, "(%s)%%%lld", l->extent_text, (long long)chunk) : NULL;
    tg_nest_vector(n, left, left, rest, text, upcast, true);
  }
  tg_nest_emit(n, "split %s %lld as %s.t %s.r", main_part, (long long)chunk, b, b);
  tg_nest_emit(n, "thread %s.t", b);
  const char *inner = tg_format(&n->j->env, "%s.r", b);
  if (pages) tg_nest_page_vectors(n, inner, inner, chunk, 1, true);
  else tg_nest_vector(n, inner, inner, chunk, NULL, upcast, true);
}
