/* SPDX-License-Identifier: MIT
 * Which bytes come from where. An access touches, in one run of a loop, a piece that its strides say. Where all that an iteration touches fits a cache, what the
 * next iteration touches again comes from there; else it is fetched in each of them. */
#include <math.h>
#include "search/cost_memory.h"

enum { LINE = 64 };

uint32_t tg_cost_loop(tg_cost_loops *l, const tg_uop *range, uint32_t outer, double trips, bool thread) {
  tg_cost_loop_info i = {range, outer, outer == TG_COST_NONE ? 0 : l->loop.data[outer].depth + 1, trips, thread};
  tg_push(&l->j->env, &l->loop, i);
  return l->loop.n - 1;
}

const tg_uop *tg_cost_root(const tg_uop *u, double *constant) {
  for (; u->op == TG_OP_ADD || u->op == TG_OP_IOTA; u = u->src[u->src[0]->op == TG_OP_CONST || u->src[0]->op == TG_OP_IOTA]) {
    if (u->op == TG_OP_IOTA) return NULL;
    const tg_uop *added = u->src[0]->op == TG_OP_CONST ? u->src[0] : u->src[1];
    if (added->op == TG_OP_CONST) *constant += (double)added->arg;
    else if (u->src[0]->op != TG_OP_IOTA && u->src[1]->op != TG_OP_IOTA) break;
  }
  return u->op == TG_OP_CONST ? *constant += (double)u->arg, NULL : u;
}

void tg_cost_access(tg_cost_loops *l, const tg_uop *u, uint32_t loop) {
  const tg_uop *value = u->op == TG_OP_STORE ? tg_stored(u) : u, *define = tg_define_of(u->src[0]);
  double each = fmax(1, tg_type_bytes((tg_type)define->type)) * define->lanes, size = each;
  for (uint32_t d = 0; d < tg_buffer_info(l->j, define)->rank; d++) {
    tg_bounds extent = tg_bounds_of(l->j, define->src[d]);
    size *= extent.hi < 1 ? 1 : extent.hi > (tg_i128)1 << 50 ? 0x1p50 : (double)extent.hi;
  }
  tg_cost_access_info a = {.access = u, .loop = loop, .bytes = fmax(each, (double)value->lanes * tg_type_bytes((tg_type)value->type)), .size = size, .same = 1};
  a.root = tg_cost_root(u->src[1], &a.at);
  a.at *= each;
  if (loop == TG_COST_NONE || l->loop.data[loop].depth < TG_COST_DEPTH) tg_push(&l->j->env, &l->access, a);
}

/* ---- strides ---- */

/* The value of what is made of constants only: parameters stand there as such. NAN: it is not. */
static double value_of(tg_job *j, const tg_uop *u) {
  tg_bounds b = tg_bounds_of(j, u);
  return b.lo == b.hi ? (double)b.lo : NAN;
}

static double stride_of(tg_job *j, const tg_uop *u, const tg_uop *range, const double *s) {
  double a = u->n ? s[u->src[0]->id] : 0, b = u->n > 1 ? s[u->src[1]->id] : 0;
  switch (u->op) {
  case TG_OP_RANGE: return u == range;
  case TG_OP_ADD: return a + b;
  case TG_OP_SUB: return a - b;
  case TG_OP_MUL:
    if (a == 0 && b == 0) return 0;
    return b == 0 ? a * value_of(j, u->src[1]) : a == 0 ? b * value_of(j, u->src[0]) : NAN;
  case TG_OP_SHL:
    if (u->src[1]->op == TG_OP_CONST) return ldexp(a, (int)(u->src[1]->arg & 63));
    break;
  case TG_OP_CAST: return a;
  case TG_OP_AFTER: case TG_OP_DEFINE: case TG_OP_END: return 0;
  default: break;
  }
  for (uint32_t k = 0; k < u->n; k++)
    if (s[u->src[k]->id] != 0) return NAN;
  return 0;
}

static bool within(const tg_cost_loops *l, uint32_t loop, uint32_t outer) {
  while (loop != TG_COST_NONE && loop != outer) loop = l->loop.data[loop].outer;
  return loop == outer;
}

static void find_strides(tg_cost_loops *l, const tg_uop *linear) {
  uint32_t n;
  const tg_uop **order = tg_toposort(l->j, linear, &n);
  double *s = tg_new(&l->j->env, double, l->j->uops.n + 1);
  for (uint32_t r = 0; r < l->loop.n; r++) {
    for (uint32_t i = 0; i < n; i++) s[order[i]->id] = stride_of(l->j, order[i], l->loop.data[r].range, s);
    for (uint32_t i = 0; i < l->access.n; i++) {
      tg_cost_access_info *a = &l->access.data[i];
      if (l->loop.data[r].depth < TG_COST_DEPTH && within(l, a->loop, r)) a->stride[l->loop.data[r].depth] = s[a->access->src[1]->id];
    }
  }
}

static bool moves_alike(const tg_cost_loops *l, const tg_cost_access_info *a, const tg_cost_access_info *b) {
  uint32_t depth = a->loop == TG_COST_NONE ? 0 : l->loop.data[a->loop].depth + 1;
  return b->loop == a->loop && tg_define_of(b->access->src[0]) == tg_define_of(a->access->src[0]) && !memcmp(a->stride, b->stride, depth * sizeof *a->stride);
}

/* Copies side by side: neighbours, in lines that follow each other, are one longer access; others at a distance count as so many of the same. */
static void join_alike(tg_cost_loops *l) {
  enum { BACK = 256 };
  for (int apart = 0; apart <= 1; apart++) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->access.n; i++) {
      tg_cost_access_info *a = &l->access.data[i];
      bool found = false;
      for (uint32_t k = kept > BACK ? kept - BACK : 0; k < kept && !found; k++) {
        tg_cost_access_info *b = &l->access.data[k];
        if (!moves_alike(l, a, b)) continue;
        if (apart) found = fabs(a->bytes - b->bytes) < LINE, b->same += found ? a->same : 0;
        else if (a->root == b->root && a->at <= b->at + b->bytes + LINE && b->at <= a->at + a->bytes + LINE) {
          double end = fmax(a->at + a->bytes, b->at + b->bytes);
          found = true;
          b->at = fmin(a->at, b->at);
          b->bytes = end - b->at;
        }
      }
      if (!found) l->access.data[kept++] = *a;
    }
    l->access.n = kept;
  }
}

/* ---- bytes ---- */

/* In one run of the loop `outer`, all within it included; NONE: in one execution. */
static double touched(const tg_cost_loops *l, const tg_cost_access_info *a, uint32_t outer) {
  double piece = a->bytes, pieces = a->same, each = tg_type_bytes((tg_type)tg_define_of(a->access->src[0])->type);
  if (outer == TG_COST_NONE) return piece * pieces;
  for (uint32_t r = a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
    double step = fabs(a->stride[l->loop.data[r].depth]) * each, trips = l->loop.data[r].trips;
    if (isnan(step)) pieces *= trips, piece = fmax(piece, LINE);
    else if (step > 0 && step <= fmax(piece, LINE)) piece += step * (trips - 1);
    else if (step > 0) {
      if (step <= piece * pieces) pieces += trips * step / piece;   /* between rows that are there already */
      else pieces *= trips;
    }
    if (r == outer) break;
  }
  if (pieces > 1) piece = fmax(piece, LINE);
  return fmin(piece * pieces, fmax(a->size, a->bytes));
}

/* How sure what lies between two uses of a byte leaves it in a cache: caches are no perfect queues, so there is no edge. */
static double stays(double between, double cache) { return fmin(1, fmax(0, 1.75 - between / cache)); }

/* Bytes from behind a cache of this size. What an iteration uses is there for the next one if all that the iteration touches fits. */
static double misses(const tg_cost_loops *l, const double *iteration, double all, double cache) {
  double bytes = 0, again = 1 - stays(all, cache);   /* what the whole program holds there, it held when it began */
  for (uint32_t i = 0; i < l->access.n; i++) {
    const tg_cost_access_info *a = &l->access.data[i];
    double run = a->bytes * a->same;
    for (uint32_t r = a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
      double kept = stays(iteration[r], cache);
      run = kept * fmin(touched(l, a, r), run * l->loop.data[r].trips) + (1 - kept) * run * l->loop.data[r].trips;
    }
    bytes += run * again;
  }
  return bytes;
}

double tg_cost_memory(tg_cost_loops *l, const tg_target *t, const tg_uop *linear, int threads, tg_cost *c) {
  static const double l2_rate = 48, l3_rate = 10, memory_rate = 4.5;   /* bytes a cycle of one core */
  if (!l->loop.n || l->loop.n > 256) return 0;
  find_strides(l, linear);
  join_alike(l);
  double *iteration = tg_new(&l->j->env, double, l->loop.n), all = 0;
  for (uint32_t i = 0; i < l->access.n; i++) {
    const tg_cost_access_info *a = &l->access.data[i];
    double once = a->bytes * a->same;
    for (uint32_t r = a->loop; r != TG_COST_NONE; r = l->loop.data[r].outer) {
      iteration[r] += once;
      once = touched(l, a, r);
    }
    all += once;
  }
  c->l2_bytes = misses(l, iteration, all, 0.8 * (double)(t->l1 ? t->l1 : 32 << 10));
  c->l3_bytes = misses(l, iteration, all, 0.8 * (double)(t->l2 ? t->l2 : 1 << 20));
  c->memory_bytes = misses(l, iteration, all, 0.8 * (double)(t->l3 ? t->l3 : 8 << 20));
  double n = threads < 1 ? 1 : threads;
  return c->l2_bytes / (l2_rate * n) + c->l3_bytes / (l3_rate * n) + c->memory_bytes / (memory_rate * fmin(n, 2));
}
