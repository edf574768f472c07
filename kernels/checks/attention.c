/* SPDX-License-Identifier: MIT
 * Attention's checks: places operands between guard pages, runs the candidate, compares. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "checks/attended.h"
#include "trial/there.h"

enum {
  Q, K, V, O, LSE, SLOPES, SINKS, K_NEW, V_NEW, BLOCKS, K_SCALE, V_SCALE, COS, SIN, D_O, D_Q, D_K, D_V, ARGUMENT,
  PLACES = ARGUMENT + 1 + TG_ATTENTION_ARGS
};
_Static_assert((int)PLACES <= (int)TG_PLACED_MOST, "more operands than places");

struct tg_attention_checks {
  tg_context *context;
  tg_attention_desc d;           /* with its defaults filled in */
  double scale;
  tg_kernel *mods;
  tg_places at;
  /* for the current check */
  tg_env env;
  tg_attention_candidate *run;
  void *user;
  const tg_attention_case *which;
  tg_check_failure *failure;
  bool wrong;
  char *whole[2];                /* K and V with what is appended */
  /* of random data, over all checks so far: rows, the number of them at the last verdict, sums of the squares of their
   * errors, the kernel's and the plain loop's, each as a share of what is allowed, and of (kernel^2 - 4 naive^2)^2 */
  int64_t rows, judged;
  double kernel, naive, spread;
};

/* Elements from the first one to that of a sequence, a head, a token. */
typedef struct tensor {
  tg_type type;
  int64_t step[3], heads, width;
  bool packed;
  char *data;
  const int32_t *table;          /* in pages of so many tokens, from one sequence to the next */
  int64_t page, table_step;
  uint8_t bits;                  /* of integers, whose scales are of groups of elements */
  const double *scale;
  int64_t groups;
} tensor;
static size_t element(const tensor *t, int64_t b, int64_t h, int64_t first, int64_t token) {
  if (t->page)
    return (size_t)(t->table[b * t->table_step + token / t->page] * t->step[0] + h * t->step[1] +
                    token % t->page * t->step[2]);
  return (size_t)((t->packed ? first * t->step[2] : b * t->step[0]) + h * t->step[1] + token * t->step[2]);
}

const char *tg_attention_kind_name(tg_attention_kind k) {
  static const char *const names[TG_ATTENTION_KINDS] = {"exact", "uniform", "dominant", "random", "special"};
  return k < TG_ATTENTION_KINDS ? names[k] : "none";
}

bool tg_attention_check_at(const tg_attention_checks *g, const void *address, char *out, size_t n) {
  return tg_places_at(&g->at, address, out, n);
}

/* ---- verdicts ---- */

static void wrong(tg_attention_checks *g, int64_t row, int64_t column, double got, double want, const char *format, ...)
    TG_PRINTF(6, 7);
static void wrong(tg_attention_checks *g, int64_t row, int64_t column, double got, double want, const char *format,
                  ...) {
  static const char *const lies[TG_ATTENTION_LIES] = {"dense", "by token", "qkv", "gaps", "packed"};
  const tg_attention_case *w = g->which;
  char which[320], text[512];
  va_list v;
  if (g->wrong) return;
  g->wrong = true;
  snprintf(which, sizeof which, "check '%s', batch %lld, %lld queries, %lld keys, %s%s%s, seed %llu",
           tg_attention_kind_name(w->kind), (long long)w->batch, (long long)w->queries, (long long)w->keys,
           lies[w->lie], w->lengths ? ", lengths" : "", w->front ? ", behind a page" : "",
           (unsigned long long)w->seed);
  va_start(v, format);
  vsnprintf(text, sizeof text, format, v);
  va_end(v);
  tg_check_fail(g->failure, which, row, column, got, want, "%s", text);
}

/* ---- operands ---- */

/* A result: its elements are bits of all ones. `before` keeps the memory as it is before the run. */
static char *place_result(tg_attention_checks *g, uint32_t part, const char *name, size_t bytes, char **before) {
  const tg_guarded *in = &g->at.part[part].in;
  char *at = tg_place_operand(&g->at, &g->env, part, name, bytes, g->which->front);
  *before = tg_alloc(&g->env, in->room_bytes);
  return at;
}

static void keep(const tg_attention_checks *g, uint32_t part, char *before) {
  memcpy(before, g->at.part[part].in.room, g->at.part[part].in.room_bytes);
}

/* Puts back what the run may change; anything else that differs was written beside the elements. */
static void restore(const tg_attention_checks *g, uint32_t part, const char *before, const char *at, size_t bytes) {
  const tg_guarded *in = &g->at.part[part].in;
  memcpy(in->room + (at - in->room), before + (at - in->room), bytes);
}

static void judge_memory(tg_attention_checks *g, uint32_t part, const char *before) {
  const tg_placed *x = &g->at.part[part];
  for (size_t i = 0; i < x->in.room_bytes; i++)
    if (x->in.room[i] != before[i])
      return wrong(g, -1, -1, 0, 0, "written beside the elements of %s, %lld bytes from its beginning", x->name,
                   (long long)(x->in.room + i - x->in.data));
}

/* Steps of a tensor, and its bytes. The steps of a dense one are not told to the call (given stays 0). */
static size_t lie(const attended *p, uint32_t which, tensor *t, int64_t *given) {
  const tg_attention_case *w = p->which;
  bool keys = which == K || which == V || which == K_SCALE || which == V_SCALE || which == D_K || which == D_V;
  int64_t total = keys ? p->total_k : p->total_q, tokens = t->page ? t->page : keys ? p->keys : p->queries,
          W = t->bits == 4 ? t->width / 2 : t->width, H = t->heads, sequences = t->page ? p->pages : w->batch;
  uint64_t odd = w->seed >> 8;
  t->packed = w->lie == TG_ATTENTION_PACKED && !t->page;
  bool gaps = t->packed ? odd & 1 : w->lie == TG_ATTENTION_GAPS;
  int64_t pad = gaps ? 1 + (int64_t)(odd >> 1 & 7) : 0;
  if (t->packed) t->step[1] = W + pad, t->step[2] = H * t->step[1] + pad;
  else if (w->lie == TG_ATTENTION_DENSE || w->lie == TG_ATTENTION_GAPS)
    t->step[2] = W + pad, t->step[1] = tokens * t->step[2] + pad, t->step[0] = H * t->step[1] + pad;
  else t->step[1] = W, t->step[2] = H * W, t->step[0] = tokens * H * W;
  if (pad || (!t->packed && w->lie != TG_ATTENTION_DENSE)) memcpy(given, t->step, sizeof t->step);
  if (!(t->packed ? total : sequences * tokens)) return 0;
  int64_t last = t->packed ? (H - 1) * t->step[1] + (total - 1) * t->step[2]
                           : (sequences - 1) * t->step[0] + (H - 1) * t->step[1] + (tokens - 1) * t->step[2];
  return (size_t)(last + W) * (size_t)tg_type_bytes(t->type);
}

/* since: only the last tokens of each sequence, as many as it has queries; they are the first of t. */
static void put(const attended *p, uint32_t which, const tensor *t, const double *x, bool since) {
  bool keys = which != Q && which != O && which != D_O;
  const int64_t *first = keys ? p->k0 : p->q0, *n = keys ? p->room : p->nq, total = keys ? p->total_k : p->total_q;
  size_t size = (size_t)tg_type_bytes(t->type);
  for (int64_t b = 0; b < p->which->batch; b++)
    for (int64_t h = 0; h < t->heads; h++)
      for (int64_t i = 0; i < (since ? p->nq : n)[b]; i++) {
        char *at = t->data + element(t, b, h, since ? p->q0[b] : first[b], i) * size;
        const double *from = x + (h * total + first[b] + i + (since ? p->nk[b] - p->nq[b] : 0)) * t->width;
        for (int64_t c = 0; c < t->width; c++) {
          if (!t->bits) {
            tg_number_put(t->type, at, (size_t)c, from[c]);
            continue;
          }
          double scale = t->scale[(h * total + first[b] + i) * t->groups + c / (t->width / t->groups)];
          int64_t whole = isfinite(from[c]) && isfinite(scale) ? (int64_t)rint(from[c] / scale) : 1;
          uint8_t *byte = (uint8_t *)at + (t->bits == 4 ? c / 2 : c);
          if (t->bits == 8) *byte = (uint8_t)whole;
          else *byte = (uint8_t)(c % 2 ? (*byte & 15) | whole << 4 : (*byte & 240) | (whole & 15));
        }
      }
}

/* Each sequence has the pages that its keys need, in any order; other entries name no page. */
static void draw_pages(attended *p, tensor *t) {
  int64_t page = p->d->page_size, n = p->which->batch;
  if (!page) return;
  p->table_step = (p->which->keys > p->keys ? p->which->keys : p->keys) / page + 1;
  p->table = tg_new(p->env, int32_t, n * p->table_step);
  for (int64_t b = 0; b < n; b++) p->pages += (p->room[b] + page - 1) / page;
  p->pages += 2;
  int32_t *order = tg_new(p->env, int32_t, p->pages), at = 0;
  for (int32_t i = 0; i < p->pages; i++) {
    int64_t j = (int64_t)(tg_draw(&p->state) % (uint64_t)(i + 1));
    order[i] = order[j], order[j] = i;
  }
  for (int64_t b = 0; b < n; b++)
    for (int64_t i = 0; i < p->table_step; i++)
      p->table[b * p->table_step + i] = i < (p->room[b] + page - 1) / page ? order[at++] : -1;
  for (uint32_t i = K; i <= V; i++) t[i].page = page, t[i].table = p->table, t[i].table_step = p->table_step;
}

/* K and V of new tokens: the cache has what it had before, NaN, in their places. */
static void place_new(tg_attention_checks *g, const attended *p, const tensor *t, tg_attention_call *call) {
  static const char *const names[] = {"K_NEW", "V_NEW"};
  const double *const x[] = {p->k, p->v};
  int64_t *given[] = {call->k_new_strides, call->v_new_strides};
  const void **to[] = {&call->k_new, &call->v_new};
  if (!g->d.append) return;
  for (uint32_t i = 0; i < 2; i++) {
    const tensor *old = &t[K + i];
    tensor fresh = {.type = old->type, .heads = old->heads, .width = old->width};
    size_t bytes = lie(p, K_NEW + i, &fresh, given[i]), size = (size_t)tg_type_bytes(old->type);
    fresh.data = tg_place_operand(&g->at, &g->env, K_NEW + i, names[i], bytes, g->which->front);
    memset(fresh.data, 0xff, bytes);
    put(p, K_NEW + i, &fresh, x[i], true);
    *to[i] = fresh.data;
    g->whole[i] = tg_alloc(&g->env, g->at.part[K + i].in.room_bytes);
    memcpy(g->whole[i], g->at.part[K + i].in.room, g->at.part[K + i].in.room_bytes);
    for (int64_t b = 0; b < p->which->batch; b++)
      for (int64_t h = 0; h < old->heads; h++)
        for (int64_t q = p->nk[b] - p->nq[b]; q < p->nk[b]; q++)
          memset(old->data + element(old, b, h, p->k0[b], q) * size, 0xff, (size_t)old->width * size);
  }
}

static void place_scales(tg_attention_checks *g, const attended *p, const tensor *t, tg_attention_call *call) {
  static const char *const names[] = {"K_SCALE", "V_SCALE"};
  const double *const x[] = {p->k_scale, p->v_scale};
  int64_t *given[] = {call->k_scale_strides, call->v_scale_strides};
  const void **to[] = {&call->k_scale, &call->v_scale};
  for (uint32_t i = 0; i < 2 && g->d.kv_bits; i++) {
    tensor scale = t[K + i];
    scale.type = g->d.kv_scale, scale.width = scale.groups, scale.bits = 0;
    size_t bytes = lie(p, K_SCALE + i, &scale, given[i]);
    scale.data = tg_place_operand(&g->at, &g->env, K_SCALE + i, names[i], bytes, g->which->front);
    memset(scale.data, 0xff, bytes);
    put(p, K_SCALE + i, &scale, x[i], false);
    *to[i] = scale.data;
  }
}

/* Q, K and V: in one array of tokens, or each by itself. What lies between their rows is NaN. */
static void place_inputs(tg_attention_checks *g, attended *p, tensor *t, tg_attention_call *call) {
  const double *const x[] = {p->q, p->k, p->v};
  int64_t *given[] = {call->q_strides, call->k_strides, call->v_strides};
  static const char *const names[] = {"Q", "K", "V"};
  bool together = g->which->lie == TG_ATTENTION_QKV && g->d.q == g->d.k && g->d.k == g->d.v &&
                  !g->d.page_size && !g->d.append && !g->d.kv_bits;
  int64_t tokens = p->queries > p->keys ? p->queries : p->keys, from = 0, row = 0;
  draw_pages(p, t);
  t[K].bits = t[V].bits = g->d.kv_bits;
  t[K].scale = p->k_scale, t[K].groups = p->k_groups, t[V].scale = p->v_scale, t[V].groups = p->v_groups;
  for (uint32_t i = Q; i <= V; i++) row += t[i].heads * t[i].width;
  if (together) {
    size_t bytes = (size_t)(g->which->batch * tokens * row) * (size_t)tg_type_bytes(g->d.q);
    t[Q].data = tg_place_operand(&g->at, &g->env, Q, "QKV", bytes, g->which->front);
    memset(t[Q].data, 0xff, bytes);
  }
  for (uint32_t i = Q; i <= V; i++) {
    size_t bytes = lie(p, i, &t[i], given[i]);
    if (together) {
      t[i].data = t[Q].data + (size_t)(i == Q ? 0 : from) * (size_t)tg_type_bytes(g->d.q);
      t[i].step[0] = tokens * row, t[i].step[1] = t[i].width, t[i].step[2] = row;
      memcpy(given[i], t[i].step, sizeof t[i].step);
      from += t[i].heads * t[i].width;
    } else {
      t[i].data = tg_place_operand(&g->at, &g->env, i, names[i], bytes, g->which->front);
      memset(t[i].data, 0xff, bytes);
    }
    put(p, i, &t[i], x[i], false);
  }
  call->q = t[Q].data, call->k = t[K].data, call->v = t[V].data;
  call->page_table = p->table, call->pages = p->pages, call->page_table_stride = p->table_step;
  place_new(g, p, t, call);
  place_scales(g, p, t, call);
}

/* The mask and the arguments: rows of keys, or of what else they have, with gaps where the tensors have them. */
static void place_arguments(tg_attention_checks *g, const attended *p, tg_attention_call *call) {
  int64_t extent[4] = {g->which->batch, g->d.heads, p->queries, p->keys};
  static const uint8_t bit[4] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  static const char *const names[] = {"mask", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7"};
  for (uint32_t a = 0; a <= TG_ATTENTION_ARGS; a++) {
    if (!p->argument[a]) continue;
    uint8_t per = attended_per(&g->d, a);
    int64_t columns = per & TG_PER_KEY ? p->keys : 1, pad = g->which->lie == TG_ATTENTION_GAPS ? 3 : 0,
            step = columns + pad, *given = a ? call->arg_strides[a - 1] : call->mask_strides;
    tg_lying l = {columns ? p->arguments[a] / columns : 0, columns, step, 1};
    for (uint32_t i = 3; i-- > 0 && pad;)
      if (per & bit[i]) given[i] = step, step *= extent[i];
    if (pad) given[3] = per & TG_PER_KEY ? 1 : 0;
    if (l.rows) tg_place_input(&g->at, &g->env, ARGUMENT + a, names[a], attended_type(&g->d, a), &l, p->argument[a],
                               g->which->front);
    else tg_place_operand(&g->at, &g->env, ARGUMENT + a, names[a], 0, g->which->front);
    *(a ? &call->arg[a - 1] : &call->mask) = g->at.part[ARGUMENT + a].in.data;
  }
}

/* Of a result, the bytes of a row of it. */
static size_t bytes_of_row(const tensor *t) { return (size_t)t->width * (size_t)tg_type_bytes(t->type); }

static char *row_of(const tensor *t, int64_t b, int64_t h, int64_t first, int64_t token) {
  return t->data + element(t, b, h, first, token) * (size_t)tg_type_bytes(t->type);
}

/* A result of rows whose bits are all ones, for the tokens of the queries or of the keys. */
static void place_rows(tg_attention_checks *g, const attended *p, uint32_t which, const char *name, bool keys,
                       tensor *t, int64_t *given, char **before) {
  size_t bytes = lie(p, which, t, given);
  t->data = place_result(g, which, name, bytes, before);
  for (int64_t b = 0; b < g->which->batch; b++)
    for (int64_t h = 0; h < t->heads; h++)
      for (int64_t i = 0; i < (keys ? p->room : p->nq)[b]; i++)
        memset(row_of(t, b, h, (keys ? p->k0 : p->q0)[b], i), 0xff, bytes_of_row(t));
  keep(g, which, *before);
}

static float *lse_of(const attended *p, float *lse, int64_t b, int64_t h, int64_t i) {
  if (p->query_starts) return lse + h * p->total_q + p->q0[b] + i;
  return lse + (b * p->d->heads + h) * p->queries + i;
}

/* ---- gradients ---- */

/* dQ, dK and dV, as they are before a run, and what they must be. */
typedef struct gradients {
  tensor t[ATTENDED_GRADIENTS];
  char *before[ATTENDED_GRADIENTS];
  attended_gradients of;
} gradients;
static const char *const gradient_names[ATTENDED_GRADIENTS] = {"dQ", "dK", "dV"};

static void place_input(tg_attention_checks *g, const attended *p, uint32_t which, const char *name, tensor *t,
                        const double *x, int64_t *given) {
  size_t bytes = lie(p, which, t, given);
  t->data = tg_place_operand(&g->at, &g->env, which, name, bytes, g->which->front);
  memset(t->data, 0xff, bytes);
  put(p, which, t, x, false);
}

static void place_gradients(tg_attention_checks *g, attended *p, const tensor *of, tg_attention_call *call,
                            gradients *out) {
  tensor o = of[O], d_o = of[O];
  int64_t *given[ATTENDED_GRADIENTS] = {call->d_q_strides, call->d_k_strides, call->d_v_strides},
          rows = g->d.heads * (p->query_starts ? p->total_q : g->which->batch * p->queries);
  void **to[ATTENDED_GRADIENTS] = {&call->d_q, &call->d_k, &call->d_v};
  tg_attended_gradients(p, &out->of);
  place_input(g, p, O, "O", &o, out->of.o, call->o_strides);
  place_input(g, p, D_O, "dO", &d_o, out->of.d_o, call->d_o_strides);
  call->o = o.data, call->d_o = d_o.data;
  size_t bytes = (size_t)rows * sizeof(float);
  char *lse = tg_place_operand(&g->at, &g->env, LSE, "LSE", bytes, g->which->front);
  memset(lse, 0xff, bytes);
  call->lse = (float *)(void *)lse;
  for (int64_t b = 0; b < g->which->batch; b++)
    for (int64_t h = 0; h < g->d.heads; h++)
      for (int64_t i = 0; i < p->nq[b]; i++)
        *lse_of(p, call->lse, b, h, i) = (float)out->of.lse[h * p->total_q + p->q0[b] + i];
  for (uint32_t t = 0; t < ATTENDED_GRADIENTS; t++) {
    out->t[t] = (tensor){.type = of[Q + t].type, .heads = of[Q + t].heads, .width = of[Q + t].width};
    place_rows(g, p, D_Q + t, gradient_names[t], t != ATTENDED_DQ, &out->t[t], given[t], &out->before[t]);
    *to[t] = out->t[t].data;
  }
}

/* One row of a result, of token i: each element within its bound. */
static void judge_gradient(tg_attention_checks *g, const attended *p, const gradients *x, uint32_t t, int64_t b,
                           int64_t h, int64_t i) {
  const tensor *of = &x->t[t];
  int64_t first = (t ? p->k0 : p->q0)[b], from = (h * (t ? p->total_k : p->total_q) + first + i) * of->width;
  char *at = row_of(of, b, h, first, i);
  for (int64_t e = 0; e < of->width; e++) {
    double got = tg_number_get(of->type, at, (size_t)e), want = x->of.want[t][from + e],
           allowed = x->of.away[t][from + e] + tg_attended_ulp(of->type, want) + 0x1p-100;
    if (fabs(got - want) <= allowed) continue;
    wrong(g, i, e, got, want, "%s[%lld,%lld] is %.9g instead of %.9g: %.3g away, %.3g allowed (sequence %lld: %lld "
          "queries, %lld keys; head %lld)", gradient_names[t], (long long)i, (long long)e, got, want, fabs(got - want),
          allowed, (long long)b, (long long)p->nq[b], (long long)p->nk[b], (long long)h);
  }
  restore(g, D_Q + t, x->before[t], at, bytes_of_row(of));
}

static void judge_gradients(tg_attention_checks *g, const attended *p, const gradients *x) {
  for (uint32_t t = 0; t < ATTENDED_GRADIENTS; t++) {
    for (int64_t b = 0; b < g->which->batch; b++)
      for (int64_t h = 0; h < x->t[t].heads; h++)
        for (int64_t i = 0; i < (t ? p->room : p->nq)[b] && !g->wrong; i++) judge_gradient(g, p, x, t, b, h, i);
    if (!g->wrong) judge_memory(g, D_Q + t, x->before[t]);
  }
}

/* ---- comparing ---- */

static bool same(double got, double want) { return got == want || (got != got && want != want); }

static void judge_element(tg_attention_checks *g, const attended *p, const attended_row *r, int64_t query, int64_t e,
                          double got) {
  double want = r->o[e], unit = tg_attended_ulp(g->d.o, want), away = fabs(got - want), allowed = r->o_away[e] + unit;
  if (r->loose[e] && !isfinite(got)) return;
  if (!isfinite(want)) {
    if (same(got, want)) return;
    allowed = 0;
  } else if (p->which->kind <= TG_ATTENTION_DOMINANT) {
    want = tg_round_to(g->d.o, (double)(float)want);
    allowed = r->exact ? 0x1p-100 : unit;
    if (fabs(got - want) <= allowed) return;
  } else if (away <= allowed) return;
  wrong(g, query, e, got, want, "O[%lld,%lld] is %.9g instead of %.9g: %.3g away, %.3g allowed%s", (long long)query,
        (long long)e, got, want, fabs(got - want), allowed, r->exact ? " (a power of two)" : "");
}

static void judge_lse(tg_attention_checks *g, const attended *p, const attended_row *r, int64_t query, double got) {
  double away = fabs(got - r->lse), allowed = r->lse_away;
  if (same(got, r->lse) || (r->bad && !isfinite(got) && got > 0)) return;
  if (p->which->kind <= TG_ATTENTION_DOMINANT)
    allowed = r->exact ? 0x1p-100 : 2 * tg_attended_ulp(TG_F32, 16 + fabs(r->lse));
  if (isfinite(r->lse) && away <= allowed) return;
  wrong(g, query, -1, got, r->lse, "LSE[%lld] is %.9g instead of %.9g: %.3g away, %.3g allowed", (long long)query, got,
        r->lse, away, allowed);
}

/* What a run left of a head of a sequence. */
typedef struct { tensor *o; char *before, *lse_before; float *lse; } left;

static void judge_head(tg_attention_checks *g, const attended *p, const left *x, int64_t b, int64_t h) {
  int64_t m = p->nq[b], n = p->nk[b], E = p->d->value_head;
  bool random = g->which->kind == TG_ATTENTION_RANDOM, judged = random || g->which->kind == TG_ATTENTION_SPECIAL;
  double *s = tg_new(p->env, double, m * n), *away = judged ? tg_new(p->env, double, m * n) : NULL,
         *single = random ? tg_new(p->env, double, m * n) : NULL, *naive = tg_new(p->env, double, E);
  attended_row r = {tg_new(p->env, double, E), tg_new(p->env, double, E), .loose = tg_new(p->env, bool, E)};
  size_t size = (size_t)tg_type_bytes(g->d.o);
  tg_attended_scores(p, b, h, false, s, away);
  if (random) tg_attended_scores(p, b, h, true, single, NULL);
  for (int64_t i = 0; i < m && !g->wrong; i++) {
    tg_mark mark = tg_mark_get(p->env);
    char *at = x->o->data + element(x->o, b, h, p->q0[b], i) * size;
    tg_attended_row(p, b, h, i, s, away, &r);
    if (random) tg_attended_naive(p, b, h, i, single, naive);
    double worst = 0, plain = 0;
    for (int64_t e = 0; e < E; e++) {
      double got = tg_number_get(g->d.o, at, (size_t)e), unit = tg_attended_ulp(g->d.o, r.o[e]),
             all = r.o_away[e] + unit;
      judge_element(g, p, &r, i, e, got);
      if (!random) continue;
      /* a plain loop that is nearer than its result is rounded is so by chance */
      worst = fmax(worst, fabs(got - r.o[e]) / all), plain = fmax(plain, fmax(unit / 2, fabs(naive[e] - r.o[e])) / all);
    }
    double excess = worst * worst - 4 * plain * plain;
    g->rows += worst > 0 || plain > 0;
    g->kernel += worst * worst, g->naive += plain * plain, g->spread += excess * excess;
    restore(g, O, x->before, at, (size_t)E * size);
    if (x->lse) {
      float *lse = lse_of(p, x->lse, b, h, i);
      judge_lse(g, p, &r, i, (double)*lse);
      restore(g, LSE, x->lse_before, (char *)lse, sizeof *lse);
    }
    tg_mark_release(p->env, mark);
  }
  if (g->wrong) {
    size_t at = strlen(g->failure->text);
    snprintf(g->failure->text + at, sizeof g->failure->text - at,
             " (sequence %lld: %lld queries, %lld keys; head %lld)", (long long)b, (long long)m, (long long)n,
             (long long)h);
  }
}

/* Is the kernel more than twice as far away as the plain loop, in the mean square? Few rows say little, since a plain
 * loop is at times right by chance, and many rows no more where a few of them have most of the error (a softmax of one
 * key that outweighs the rest is exact in both). Let x and y be a row's two errors. If the kernel's were just twice the
 * plain loop's, x and 2y would be exchangeable, and d = x^2 - 4 y^2 of either sign alike: the sum of all d is above
 * t sqrt(sum d^2) with a probability of at most exp(-t^2 / 2) (Hoeffding, given the |d|), whatever the errors'
 * distribution. Here that is 2^-30 for each verdict; there is one whenever the rows have doubled. */
static void judge_beside_naive(tg_attention_checks *g) {
  enum { ENOUGH = 64 };
  static const double bits = 30;
  if (g->rows < ENOUGH || g->rows < 2 * g->judged) return;
  double n = (double)g->rows, excess = g->kernel - 4 * g->naive;
  if (excess > sqrt(2 * bits * log(2) * g->spread))
    wrong(g, -1, -1, sqrt(g->kernel / n), sqrt(g->naive / n),
          "%lld rows are %.3g of the bound away, those of a plain loop in f32 %.3g", (long long)g->rows,
          sqrt(g->kernel / n), sqrt(g->naive / n));
  g->judged = g->rows;
}

static void judge(tg_attention_checks *g, const attended *p, const left *x) {
  for (int64_t b = 0; b < p->which->batch; b++)
    for (int64_t h = 0; h < g->d.heads && !g->wrong; h++) {
      tg_mark mark = tg_mark_get(p->env);
      judge_head(g, p, x, b, h);
      tg_mark_release(p->env, mark);
    }
  if (g->wrong) return;
  judge_beside_naive(g);
  judge_memory(g, O, x->before);
  if (x->lse) judge_memory(g, LSE, x->lse_before);
}

/* ---- a check ---- */

/* What only some descriptors have: numbers of heads, a mask of blocks, starts and lengths. */
static void place_variants(tg_attention_checks *g, const attended *p, tg_attention_call *call) {
  const tg_attention_desc *d = &g->d;
  const tg_attention_case *w = g->which;
  if (d->alibi) {
    size_t all = (size_t)d->heads * sizeof(float);
    call->slopes = memcpy(tg_place_operand(&g->at, &g->env, SLOPES, "slopes", all, w->front), p->slopes, all);
  }
  if (d->sinks) {
    size_t all = (size_t)d->heads * sizeof(float);
    call->sinks = memcpy(tg_place_operand(&g->at, &g->env, SINKS, "sinks", all, w->front), p->sinks, all);
  }
  for (uint32_t i = 0; i < 2 && d->rotary; i++) {
    size_t all = (size_t)(p->positions * d->rotary / 2) * sizeof(float);
    char *at = tg_place_operand(&g->at, &g->env, COS + i, i ? "sin" : "cos", all, w->front);
    if (all) memcpy(at, i ? p->sin : p->cos, all);
    *(i ? &call->sin : &call->cos) = (const float *)(const void *)at, call->positions = p->positions;
  }
  if (d->block_rows) {
    char *at = tg_place_operand(&g->at, &g->env, BLOCKS, "block_mask", (size_t)p->blocks_n, w->front);
    if (p->blocks_n) memcpy(at, p->blocks, (size_t)p->blocks_n);
    call->block_mask = (const uint8_t *)at;
  }
  if (d->dropout > 0) call->seed = p->seed, call->offset = p->offset;
  call->query_starts = p->query_starts, call->key_starts = d->page_size ? NULL : p->key_starts;
  call->key_lengths = p->key_lengths;
  if (d->page_size && !call->key_lengths) {
    int32_t *n = tg_new(&g->env, int32_t, w->batch);
    for (int64_t b = 0; b < w->batch; b++) n[b] = (int32_t)p->nk[b];
    call->key_lengths = n;
  }
  if (d->append || d->page_size || d->rotary) call->keys = p->keys;
}

static void check(void *arg) {
  tg_attention_checks *g = arg;
  const tg_attention_case *w = g->which;
  const tg_attention_desc *d = &g->d;
  attended p = {.env = &g->env, .context = g->context, .d = d, .which = w, .mods = g->mods, .scale = g->scale};
  tg_attention_call call = {.batch = w->batch, .queries = w->queries, .keys = w->keys};
  tensor t[] = {{.type = d->q, .heads = d->heads, .width = d->head},
                {.type = d->k, .heads = d->kv_heads, .width = d->head},
                {.type = d->v, .heads = d->kv_heads, .width = d->value_head},
                {.type = d->o, .heads = d->heads, .width = d->value_head}};
  left x = {.o = &t[O]};
  gradients back;
  char message[512] = "";
  if (!tg_attention_check_applies(d, w->kind)) tg_fail(&g->env, TG_EINVAL, "error: the check does not apply");
  tg_attended_fill(&p);
  place_inputs(g, &p, t, &call);
  place_arguments(g, &p, &call);
  if (d->backward) place_gradients(g, &p, t, &call, &back);
  else place_rows(g, &p, O, "O", false, &t[O], call.o_strides, &x.before), call.o = t[O].data;
  if (d->lse && w->seed % 4 && !d->backward) {
    int64_t n = d->heads * (p.query_starts ? p.total_q : w->batch * p.queries);
    char *at = place_result(g, LSE, "LSE", (size_t)n * sizeof(float), &x.lse_before);
    call.lse = x.lse = (float *)(void *)at;
    keep(g, LSE, x.lse_before);
  }
  place_variants(g, &p, &call);
  tg_places_seal(&g->at);
  tg_status status = g->run(g->user, &call, message, sizeof message);
  if (status != TG_OK) return wrong(g, -1, -1, 0, 0, "it cannot be run: %s", message);
  if (d->backward) judge_gradients(g, &p, &back);
  else judge(g, &p, &x);
  for (uint32_t i = 0; i < PLACES && !g->wrong; i++) {
    const tg_placed *in = &g->at.part[i];
    bool appended = d->append && (i == K || i == V),
         judged = d->backward ? i >= D_Q && i <= D_V : i == O || i == LSE;
    if (appended && memcmp(in->in.room, g->whole[i - K], in->in.room_bytes))
      wrong(g, -1, -1, 0, 0, "%s is not what was appended to it, or something else of it was written", in->name);
    if (!judged && !appended && in->in.map && tg_hash(in->in.room, in->in.room_bytes, 0) != in->hash)
      wrong(g, -1, -1, 0, 0, "%s was written", in->name);
  }
}

tg_status tg_attention_check_one(tg_attention_checks *g, tg_attention_candidate *run, void *user,
                                 const tg_attention_case *c, tg_check_failure *failure) {
  tg_env_init(&g->env, &g->context->env.allocator);
  g->env.blocks = &g->context->blocks;
  g->run = run, g->user = user, g->which = c, g->failure = failure, g->wrong = false;
  *failure = (tg_check_failure){.kind = (int)c->kind, .row = -1, .column = -1};
  bool decided = tg_protect(&g->env, check, g);
  if (!decided) snprintf(failure->text, sizeof failure->text, "%.1000s", g->env.message);
  tg_status s = g->env.status;
  tg_places_drop(&g->at);
  tg_env_drop(&g->env);
  return !decided ? s == TG_EINVAL ? TG_INTERNAL : s : g->wrong ? TG_EINVAL : TG_OK;
}

/* ---- opening ---- */

bool tg_attention_check_applies(const tg_attention_desc *d, tg_attention_kind kind) {
  bool exact = d->base2 && d->scale && *d->scale == 1 && d->soft_cap == 0 && d->dropout == 0 && !d->rotary;
  if (d->kv_bits && d->alibi) exact = false;   /* its data have large integers */
  if ((d->kv_bits || d->rotary) && kind == TG_ATTENTION_SPECIAL) return false;
  if (d->backward) return kind == TG_ATTENTION_RANDOM;
  return kind < TG_ATTENTION_KINDS && (exact || kind >= TG_ATTENTION_RANDOM);
}

/* The modifications as a kernel of their own, compiled as written. */
static tg_status compile_mods(tg_attention_checks *g) {
  const tg_attention_desc *d = &g->d;
  char text[4096];
  size_t n = 0;
#define ADD(...) n += (size_t)snprintf(text + n, n < sizeof text ? sizeof text - n : 0, __VA_ARGS__)
  ADD("kernel mods(b, h, gate_m, gate_n) { in(gate_score, f32, [gate_m, gate_n]);");
  for (uint32_t a = 0; a < TG_ATTENTION_ARGS && d->arg[a].name; a++)
    ADD(" in(gate_arg%u, %s, [gate_m, gate_n]);", a, tg_type_name[d->arg[a].type]);
  ADD(" out(gate_new, f32, [gate_m, gate_n]); out(gate_seen, i32, [gate_m, gate_n]);\n");
  if (d->backward) ADD(" out(gate_slope, f32, [gate_m, gate_n]);\n");
  ADD("range(q, gate_m) range(k, gate_n) { let score = gate_score[q,k];");
  for (uint32_t a = 0; a < TG_ATTENTION_ARGS && d->arg[a].name; a++) {
    bool narrow = d->arg[a].type == TG_F16 || d->arg[a].type == TG_BF16;
    ADD(narrow ? " let %s = f32(gate_arg%u[q,k]);" : " let %s = gate_arg%u[q,k];", d->arg[a].name, a);
  }
  ADD(" gate_new[q,k] = %s;\ngate_seen[q,k] = where(%s, i32(1), i32(0));", d->score_mod ? d->score_mod : "score",
      d->mask_mod ? d->mask_mod : "q == q");
  if (d->backward) ADD("\ngate_slope[q,k] = derivative(%s, score);", d->score_mod ? d->score_mod : "score");
  ADD(" } }\n");
#undef ADD
  if (n >= sizeof text) return tg_context_fail(g->context, TG_EINVAL, "the modifications' texts are too long to check");
  const int64_t most = INT32_MAX;
  tg_binding bindings[] = {{"b", 0, most, 1}, {"h", 0, most, 1}, {"gate_m", 1, most, 1}, {"gate_n", 1, most, 1}};
  tg_compile_options o = {.bindings = bindings,
                          .bindings_n = TG_COUNT(bindings),
                          .flags = TG_COMPILE_AS_WRITTEN | TG_COMPILE_NO_CACHE};
  return tg_kernel_compile_text(g->context, "modifications", text, &o, &g->mods);
}

tg_status tg_attention_checks_open(tg_context *c, const tg_attention_desc *desc, tg_attention_checks **out) {
  tg_allocator a = c->env.allocator;
  tg_attention_checks *g = *out = a.alloc(a.user, sizeof *g);
  if (!g) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  memset(g, 0, sizeof *g);
  tg_places_init(&g->at);
  g->context = c, g->d = *desc;
  tg_attention_desc *d = &g->d;
  if (!d->q) d->q = TG_F32;
  if (!d->k) d->k = d->kv_bits ? TG_I8 : d->q;
  if (!d->kv_scale) d->kv_scale = TG_F32;
  if (!d->v) d->v = d->k;
  if (!d->o) d->o = d->q;
  if (!d->heads) d->heads = 1;
  if (!d->kv_heads) d->kv_heads = d->heads;
  if (!d->value_head) d->value_head = d->head;
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++)
    if (d->arg[i].name && !d->arg[i].type) d->arg[i].type = TG_F32;
  g->scale = d->scale ? (double)*d->scale : 1 / sqrt((double)d->head);
  tg_status s = d->score_mod || d->mask_mod ? compile_mods(g) : TG_OK;
  if (s != TG_OK) tg_attention_checks_close(g), *out = NULL;
  return s;
}

void tg_attention_checks_close(tg_attention_checks *g) {
  if (!g) return;
  tg_allocator a = g->context->env.allocator;
  tg_kernel_free(g->mods);
  a.free(a.user, g, sizeof *g);
}

/* ---- candidates ---- */

/* The pointer moved to where the device has the operand that it points into. */
static void *moved(const tg_attention_checks *g, const tg_there *t, const uint8_t *there, const void *p) {
  for (uint32_t i = 0; i < PLACES; i++) {
    const tg_guarded *in = &g->at.part[i].in;
    if (p && in->map && (const char *)p >= in->data && (const char *)p < in->data + in->bytes)
      return (char *)t->args[there[i]].data + ((const char *)p - in->data);
  }
  return NULL;
}

static tg_status run_moved(const tg_attention_planned *x, const tg_attention_call *call, const tg_there *t,
                           const uint8_t *there) {
  const tg_attention_checks *g = x->checks;
  tg_attention_call own = *call;
  own.q = moved(g, t, there, own.q), own.k = moved(g, t, there, own.k), own.v = moved(g, t, there, own.v);
  own.o = moved(g, t, there, own.o), own.lse = moved(g, t, there, own.lse);
  own.mask = moved(g, t, there, own.mask), own.slopes = moved(g, t, there, own.slopes);
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++) own.arg[i] = moved(g, t, there, own.arg[i]);
  return tg_attention_run(x->plan, &own);
}

/* On a device, on copies of the operands there. */
static tg_status run_there(const tg_attention_planned *x, const tg_attention_call *call, char *message, size_t n) {
  tg_argument here[PLACES];
  bool written[PLACES], beside = false;
  uint8_t there[PLACES] = {0}, part[PLACES];
  uint32_t count = 0, wrong = 0;
  tg_there *t = malloc(sizeof *t);
  if (!t) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  for (uint32_t i = 0; i < PLACES; i++) {
    const tg_guarded *in = &x->checks->at.part[i].in;
    if (!in->map || !in->bytes) continue;
    here[count] = (tg_argument){in->data, in->bytes};
    written[count] = i == O || i == LSE;
    there[i] = (uint8_t)count, part[count++] = (uint8_t)i;
  }
  tg_status s = tg_there_open(x->plan->plan.device, here, count, t);
  if (s == TG_OK) s = run_moved(x, call, t, there);
  if (s == TG_OK) s = tg_device_finish(t->device);
  if (s == TG_OK) s = tg_there_fetch(t, here, written, &wrong, &beside);
  if (s != TG_OK) snprintf(message, n, "%s", tg_error_message(x->context));
  else if (wrong < t->n) {
    const char *name = x->checks->at.part[part[wrong]].name;
    snprintf(message, n, beside ? "it writes beside %s" : "it writes to %s, which it only reads", name);
    s = TG_EINVAL;
  }
  tg_there_close(t);
  free(t);
  return s;
}

tg_status tg_attention_check_plan(void *user, const tg_attention_call *call, char *message, size_t n) {
  const tg_attention_planned *x = user;
  tg_attention_call own = *call;
  tg_guarded room, blocks = {0};
  tg_status s = TG_OK;
  if (x->plan->plan.device) return run_there(x, call, message, n);
  own.exec = x->exec;
  size_t bytes = x->blocks ? tg_attention_blocks_bytes(x->plan, &own) : 0;
  if (bytes && !tg_guard_take(&blocks, bytes, 0, false)) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  own.workspace_bytes = tg_attention_workspace(x->plan, &own);
  if (!tg_guard_take(&room, own.workspace_bytes, 0, false)) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  own.workspace = room.data;
  if (bytes) s = tg_attention_blocks(x->plan, &own, (uint8_t *)blocks.data);
  if (bytes && s == TG_OK) own.blocks = (const uint8_t *)blocks.data;
  if (s == TG_OK) s = tg_attention_run(x->plan, &own);
  if (s) snprintf(message, n, "%s", tg_error_message(x->context));
  tg_guard_drop(&room);
  if (bytes) tg_guard_drop(&blocks);
  return s;
}
