/* SPDX-License-Identifier: MIT
 * Data for attention's checks, and what must come out, by plain C in doubles.
 *
 * How far a kernel in f32 may be away, u = 2^-24, for a row over N keys with scores s, weights w and their sum l:
 * - A score: a sum of D products, (2 sqrt(D) + 16) u sum |q k| scale, since roundings add up as a random walk; each
 *   factor, summand and function behind it a few u of its own size, tanh 3.02 u (docs/functions.md: 1.51 ulp); a
 *   modification as far as its value moves when its score does.
 * - A weight: exp2 turns an absolute error of its argument into a relative one; the argument is a difference, taken
 *   once and again at each rescaling, together 2 u (max - s); exp2 itself is off by 0.80 ulp, 1.6 u. This is e_j.
 * - O = sum w V / l: sum w e |V| + |O| sum w e from the weights; sums of N terms, each rescaled in each block, off by
 *   (2 sqrt(2 N) + 24) u (sum w |V| + |O| l); all over l; a division, and one rounding to O's type.
 * - LSE: as the logarithm of l, with an error of log2 of 0.95 ulp. */
#include <math.h>
#include "checks/attended.h"

static const double u = 0x1p-24, log2e = 1.4426950408889634;
static const double none = -(double)INFINITY;

static int64_t below(attended *p, int64_t n) { return (int64_t)(tg_draw(&p->state) % (uint64_t)n); }
static bool is_exact(const attended *p) { return p->which->kind <= TG_ATTENTION_DOMINANT; }

double tg_attended_ulp(tg_type t, double v) {
  int e, least = t == TG_F16 ? -24 : t == TG_BF16 ? -133 : -149;
  frexp(v, &e);
  e -= tg_significand(t);
  return ldexp(1, v == 0 || e < least ? least : e);
}

/* ---- sizes ---- */

static int64_t within(attended *p, tg_dim d, int64_t most) {
  if (below(p, 5) == 0) return 0;
  int64_t lo = d.lo > 1 ? d.lo : 1;
  return most <= lo || !d.hi ? most : lo + below(p, most - lo + 1);
}

static void draw_sizes(attended *p) {
  const tg_attention_case *w = p->which;
  int64_t n = w->batch, **const all[] = {&p->nq, &p->nk, &p->room, &p->q0, &p->k0};
  bool packed = w->lie == TG_ATTENTION_PACKED;
  for (uint32_t i = 0; i < TG_COUNT(all); i++) *all[i] = tg_new(p->env, int64_t, n);
  if (packed) {
    p->query_starts = tg_new(p->env, int32_t, n + 1), p->key_starts = tg_new(p->env, int32_t, n + 1);
    p->total_q = below(p, 3), p->total_k = below(p, 3);   /* tokens of no sequence */
  }
  if (w->lengths) p->key_lengths = tg_new(p->env, int32_t, n);
  for (int64_t b = 0; b < n; b++) {
    p->nq[b] = packed ? within(p, p->d->queries, w->queries) : w->queries;
    p->room[b] = packed ? within(p, p->d->keys, w->keys) : w->keys;
    bool behind = p->d->append || (p->d->rotary && p->d->causal != TG_CAUSAL_TOP_LEFT);   /* queries are keys */
    if (behind && p->room[b] < p->nq[b]) p->room[b] = p->nq[b] > p->d->keys.lo ? p->nq[b] : p->d->keys.lo;
    p->nk[b] = !w->lengths ? p->room[b] : below(p, 5) ? below(p, p->room[b] + 1) : p->room[b];
    if (behind && p->nk[b] < p->nq[b]) p->nk[b] = p->nq[b];
    if (w->lengths) p->key_lengths[b] = (int32_t)p->nk[b];
    p->q0[b] = p->total_q, p->k0[b] = p->total_k;
    if (packed) p->query_starts[b] = (int32_t)p->total_q, p->key_starts[b] = (int32_t)p->total_k;
    p->total_q += p->nq[b], p->total_k += p->room[b];
    if (p->nq[b] > p->queries) p->queries = p->nq[b];
    if (p->room[b] > p->keys) p->keys = p->room[b];
  }
  if (packed && p->d->page_size && p->keys < w->keys) p->keys = w->keys;   /* as the call has no key_starts */
  if (packed) p->query_starts[n] = (int32_t)p->total_q, p->key_starts[n] = (int32_t)p->total_k;
}

/* ---- masks and arguments ---- */

int64_t tg_attended_at(const attended *p, uint8_t per, int64_t b, int64_t h, int64_t i, int64_t j) {
  static const uint8_t bit[4] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  const int64_t extent[4] = {p->which->batch, p->d->heads, p->queries, p->keys}, x[4] = {b, h, i, j};
  int64_t at = 0;
  for (uint32_t c = 0; c < 4; c++)
    if (per & bit[c]) at = at * extent[c] + x[c];
  return at;
}

/* In exact data masks are 0 to -3, arguments 0 to 3. */
static double draw_argument(attended *p, uint32_t a) {
  tg_type t = attended_type(p->d, a);
  bool mask = a == 0;
  if (t == TG_BOOL) return below(p, 10) < 7;
  if (mask && below(p, 8) == 0) return none;
  if (mask && p->which->kind == TG_ATTENTION_UNIFORM) return 0;
  if (is_exact(p) || !tg_is_float(t)) return mask ? -(double)below(p, 4) : (double)below(p, 4);
  if (mask && p->which->kind == TG_ATTENTION_SPECIAL && below(p, 200) == 0) return below(p, 2) ? NAN : INFINITY;
  return 2 * tg_draw_unit(&p->state, t);
}

static void draw_arguments(attended *p) {
  for (uint32_t a = 0; a <= TG_ATTENTION_ARGS; a++) {
    if (a ? !p->d->arg[a - 1].name : !p->d->mask) continue;
    int64_t last[4] = {p->which->batch - 1, p->d->heads - 1, p->queries - 1, p->keys - 1};
    uint8_t per = attended_per(p->d, a);
    bool empty = (!p->queries && per & TG_PER_QUERY) || (!p->keys && per & TG_PER_KEY);
    int64_t n = empty ? 0 : tg_attended_at(p, per, last[0], last[1], last[2], last[3]) + 1;
    p->argument[a] = tg_new(p->env, double, n), p->arguments[a] = n;
    for (int64_t i = 0; i < n; i++) p->argument[a][i] = draw_argument(p, a);
  }
}

/* The modifications alone, for all queries and keys of a head. slope: of gradients, their derivative; NULL: it is not
 * wanted. */
static void modify(const attended *p, int64_t b, int64_t h, const float *score, float *out, int32_t *seen,
                   float *slope) {
  int64_t m = p->nq[b], n = p->nk[b], params[] = {b, h, m, n};
  size_t all = (size_t)(m * n);
  tg_argument buffers[4 + TG_ATTENTION_ARGS] = {{(void *)(uintptr_t)score, all * sizeof *score}};
  uint32_t count = 1;
  for (uint32_t a = 1; a <= TG_ATTENTION_ARGS && p->d->arg[a - 1].name; a++) {
    tg_type t = p->d->arg[a - 1].type;
    size_t bytes = all * (size_t)tg_type_bytes(t);
    char *x = tg_alloc(p->env, bytes);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        tg_number_put(t, x, (size_t)(i * n + j), p->argument[a][tg_attended_at(p, p->d->arg[a - 1].per, b, h, i, j)]);
    buffers[count++] = (tg_argument){x, bytes};
  }
  buffers[count++] = (tg_argument){out, all * sizeof *out}, buffers[count++] = (tg_argument){seen, all * sizeof *seen};
  if (p->d->backward && !slope) slope = tg_new(p->env, float, m * n);
  if (p->d->backward) buffers[count++] = (tg_argument){slope, all * sizeof *slope};
  tg_launch l = {.buffers = buffers, .buffers_n = count, .params = params, .params_n = TG_COUNT(params)};
  tg_status s = all ? tg_kernel_run(p->mods, &l) : TG_OK;
  if (s) tg_fail(p->env, s, "%s", tg_error_message(p->context));
}

/* ---- which keys are seen ---- */

static int64_t stands(const attended *p, int64_t b, int64_t i) {
  return i + (p->d->causal == TG_CAUSAL_BOTTOM_RIGHT ? p->nk[b] - p->nq[b] : 0);
}

/* Which element of the mask of blocks a query and a key have; for one past the last of each, their number. */
static int64_t block_of(const attended *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  const tg_attention_desc *d = p->d;
  int64_t m = (p->queries + d->block_rows - 1) / d->block_rows, n = (p->keys + d->block_keys - 1) / d->block_keys,
          at = d->block_per & TG_PER_BATCH ? b : 0;
  at = d->block_per & TG_PER_HEAD ? at * d->heads + h : at;
  return (at * m + i / d->block_rows) * n + j / d->block_keys;
}

static void draw_blocks(attended *p) {
  if (!p->d->block_rows || !p->queries || !p->keys) return;
  p->blocks_n = block_of(p, p->which->batch - 1, p->d->heads - 1, p->queries - 1, p->keys - 1) + 1;
  p->blocks = tg_new(p->env, uint8_t, p->blocks_n);
  int64_t share = 1 + below(p, 9);
  for (int64_t i = 0; i < p->blocks_n; i++) p->blocks[i] = below(p, 10) < share;
}

static bool sees(const attended *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  const tg_attention_desc *d = p->d;
  int64_t at = stands(p, b, i);
  if (d->causal && j > at) return false;
  if (d->window && (at - j >= d->window || j - at >= d->window)) return false;
  if (d->block_rows && !p->blocks[block_of(p, b, h, i, j)]) return false;
  return d->mask != TG_BOOL || p->argument[0][tg_attended_at(p, d->mask_per, b, h, i, j)] != 0;
}

static void look(attended *p) {
  p->seen = tg_new(p->env, uint8_t *, p->which->batch * p->d->heads);
  for (int64_t b = 0; b < p->which->batch; b++)
    for (int64_t h = 0; h < p->d->heads; h++) {
      int64_t m = p->nq[b], n = p->nk[b];
      uint8_t *seen = p->seen[b * p->d->heads + h] = tg_new(p->env, uint8_t, m * n);
      int32_t *by = p->mods ? tg_new(p->env, int32_t, m * n) : NULL;
      if (by) modify(p, b, h, tg_new(p->env, float, m * n), tg_new(p->env, float, m * n), by, NULL);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) seen[i * n + j] = sees(p, b, h, i, j) && (!by || by[i * n + j]);
    }
}

/* ---- Q, K, V ---- */

static double special(attended *p) {
  int64_t x = below(p, 3);
  return x == 0 ? (double)NAN : x == 1 ? (double)INFINITY : none;
}

/* Integers: each key has up to three elements that are not 0, so scores are sums of so many elements of Q. With ALiBi
 * two more elements of Q and K undo the slopes: slope (at - key). */
static void fill_exact(attended *p) {
  const tg_attention_desc *d = p->d;
  int64_t D = d->head, least = d->mask && d->mask != TG_BOOL ? 6 : 9, group = d->heads / d->kv_heads, far = 0;
  if (d->score_mod) least -= 3;
  for (int64_t b = 0; b < p->which->batch; b++) far = far > p->keys + p->nq[b] ? far : p->keys + p->nq[b];
  double room = ldexp(1, tg_significand(d->q) < tg_significand(d->k) ? tg_significand(d->q) : tg_significand(d->k));
  bool dominant = p->which->kind == TG_ATTENTION_DOMINANT, undo = d->alibi && d->causal && D >= 3 && 2.0 * far < room &&
                                                                  p->which->kind == TG_ATTENTION_EXACT;
  int64_t first = undo ? 1 : 0, some = undo ? D - 2 : D, terms = some < 3 ? some : 3,
          chief = first + below(p, some), *sign = tg_new(p->env, int64_t, D);
  for (int64_t c = 0; c < D; c++) sign[c] = below(p, 2) ? 1 : -1;
  for (int64_t h = 0; d->alibi && h < d->heads; h++) p->slopes[h] = undo ? (float)below(p, 3) : 0;
  for (int64_t x = 0; x < d->kv_heads * p->total_k; x++) {
    double *k = p->k + x * D;
    for (int64_t t = 0; t < terms && !dominant; t++) k[first + below(p, some)] = 1;
    if (dominant) k[chief] = -1;
    for (int64_t c = 0; c < D; c++) k[c] *= (double)sign[c];
  }
  for (int64_t x = 0; x < d->heads * p->total_q; x++)
    for (int64_t c = first; c < first + some; c++)
      p->q[x * D + c] = dominant                                  ? c == chief ? (double)(200 * sign[c]) : 0
                        : p->which->kind == TG_ATTENTION_UNIFORM ? 0
                                                                  : -(double)(sign[c] * below(p, least / terms + 1));
  for (int64_t b = 0; b < p->which->batch; b++)
    for (int64_t h = 0; h < d->heads; h++) {
      double *k = p->k + (h / group * p->total_k + p->k0[b]) * D, *q = p->q + (h * p->total_q + p->q0[b]) * D;
      if (dominant && h % group == 0 && p->nk[b]) k[below(p, p->nk[b]) * D + chief] = (double)sign[chief];
      for (int64_t j = 0; undo && j < p->nk[b]; j++) k[j * D] = -(double)j, k[j * D + D - 1] = 1;
      for (int64_t i = 0; undo && i < p->nq[b]; i++)
        q[i * D] = (double)p->slopes[h], q[i * D + D - 1] = (double)p->slopes[h] * (double)stands(p, b, i);
    }
  int64_t most = 32768 / (p->keys ? p->keys : 1), nv = d->kv_heads * p->total_k * d->value_head;
  p->most = most < 1 ? 1 : most > 7 ? 7 : (double)most;
  for (int64_t x = 0; x < nv; x++) p->v[x] = tg_draw_whole(&p->state, d->v, (int64_t)p->most);
}

/* Integers times scales: x[heads * tokens][width], `groups` scales for each row. */
static void fill_integers(attended *p, double *x, int64_t rows, int64_t width, int64_t groups, double *scale) {
  int64_t least = p->d->kv_bits == 4 ? -8 : -128;
  for (int64_t i = 0; i < rows * groups; i++)
    scale[i] = (0.5 + fabs(tg_draw_unit(&p->state, p->d->kv_scale)) / 2) / (double)-least;
  for (int64_t i = 0; i < rows * groups; i++) scale[i] = tg_round_to(p->d->kv_scale, scale[i]);
  for (int64_t i = 0; i < rows * width; i++)
    x[i] = (double)(least + below(p, -2 * least)) * scale[i / width * groups + i % width / (width / groups)];
}

static void fill_random(attended *p) {
  const tg_attention_desc *d = p->d;
  double more = p->which->kind == TG_ATTENTION_SPECIAL ? 1 : (double)(1 << 2 * below(p, 3));
  int64_t nq = d->heads * p->total_q * d->head, nk = d->kv_heads * p->total_k * d->head,
          nv = d->kv_heads * p->total_k * d->value_head;
  for (int64_t x = 0; x < nq; x++) p->q[x] = more * tg_draw_unit(&p->state, d->q);
  for (int64_t x = 0; x < nk && !d->kv_bits; x++) p->k[x] = tg_draw_unit(&p->state, d->k);
  for (int64_t x = 0; x < nv && !d->kv_bits; x++) p->v[x] = tg_draw_unit(&p->state, d->v);
  if (d->kv_bits) {
    fill_integers(p, p->k, nk / d->head, d->head, p->k_groups, p->k_scale);
    fill_integers(p, p->v, nv / d->value_head, d->value_head, p->v_groups, p->v_scale);
  }
  for (int64_t h = 0; d->alibi && h < d->heads; h++) p->slopes[h] = ldexpf(1, -(int)below(p, 9));
  if (p->which->kind != TG_ATTENTION_SPECIAL) return;
  for (int64_t n = below(p, 3); n > 0 && nq; n--) p->q[below(p, nq)] = special(p);
  for (int64_t n = below(p, 4); n > 0 && nk; n--) p->k[below(p, nk)] = special(p);
  for (int64_t n = 1 + below(p, 4); n > 0 && nv; n--) p->v[below(p, nv)] = special(p);
}

/* K and V of keys that no query sees are NaN or infinite. */
static void poison(attended *p) {
  const tg_attention_desc *d = p->d;
  uint8_t *any = tg_new(p->env, uint8_t, p->total_k);
  for (int64_t h = 0, group = d->heads / d->kv_heads; h < d->heads; h++) {
    if (h % group == 0) memset(any, 0, (size_t)p->total_k);
    for (int64_t b = 0; b < p->which->batch; b++)
      for (int64_t i = 0; i < p->nq[b]; i++)
        for (int64_t j = 0; j < p->nk[b]; j++)
          any[p->k0[b] + j] |= p->seen[b * d->heads + h][i * p->nk[b] + j];
    if (h % group != group - 1) continue;
    for (int64_t t = 0; t < p->total_k; t++) {
      if (any[t]) continue;
      int64_t x = h / group * p->total_k + t;
      for (int64_t c = 0; c < p->k_groups; c++) p->k_scale[x * p->k_groups + c] = special(p);
      for (int64_t c = 0; c < p->v_groups; c++) p->v_scale[x * p->v_groups + c] = special(p);
      if (d->kv_bits) continue;
      for (int64_t c = 0; c < d->head; c++) p->k[x * d->head + c] = special(p);
      for (int64_t c = 0; c < d->value_head; c++) p->v[x * d->value_head + c] = special(p);
    }
  }
}

void tg_attended_fill(attended *p) {
  const tg_attention_desc *d = p->d;
  p->state = tg_mix(p->which->seed, (uint64_t)p->which->kind);
  draw_sizes(p);
  p->q = tg_new(p->env, double, d->heads * p->total_q * d->head);
  p->k = tg_new(p->env, double, d->kv_heads * p->total_k * d->head);
  p->v = tg_new(p->env, double, d->kv_heads * p->total_k * d->value_head);
  if (d->kv_bits) {
    p->k_groups = d->kv_group ? d->head / d->kv_group : 1, p->v_groups = d->kv_group ? d->value_head / d->kv_group : 1;
    p->k_scale = tg_new(p->env, double, d->kv_heads * p->total_k * p->k_groups);
    p->v_scale = tg_new(p->env, double, d->kv_heads * p->total_k * p->v_groups);
  }
  p->slopes = tg_new(p->env, float, d->heads), p->sinks = tg_new(p->env, float, d->heads);
  draw_arguments(p);
  if (is_exact(p)) fill_exact(p);
  else fill_random(p);
  for (int64_t h = 0; d->sinks && h < d->heads; h++) {
    p->sinks[h] = is_exact(p) ? -(float)below(p, 4) : (float)(4 * tg_draw_unit(&p->state, TG_F32));
    if (p->which->kind == TG_ATTENTION_SPECIAL && below(p, 8) == 0) p->sinks[h] = -INFINITY;
  }
  p->seed = tg_draw(&p->state), p->offset = (uint32_t)tg_draw(&p->state);
  p->positions = d->rotary ? (p->queries > p->keys ? p->queries : p->keys) + below(p, 3) : 0;
  p->cos = tg_new(p->env, float, p->positions * d->rotary / 2);
  p->sin = tg_new(p->env, float, p->positions * d->rotary / 2);
  for (int64_t i = 0; i < p->positions * d->rotary / 2; i++) {
    double angle = 6.3 * tg_draw_unit(&p->state, TG_F32);
    p->cos[i] = (float)cos(angle), p->sin[i] = (float)sin(angle);
  }
  draw_blocks(p);
  for (int64_t i = 0; is_exact(p) && i < d->kv_heads * p->total_k * p->k_groups; i++) p->k_scale[i] = 1;
  for (int64_t i = 0; is_exact(p) && i < d->kv_heads * p->total_k * p->v_groups; i++) p->v_scale[i] = 1;
  look(p);
  poison(p);
}

/* ---- scores ---- */

static double rounded(bool single, double v) { return single ? (double)(float)v : v; }

/* As the language defines it (docs/functions.md), which is coarser than most libraries. */
static float plain_tanh(float x) {
  return fabsf(x) < 0.5625f ? tanhf(x) : copysignf(1 - 2 / (expf(2 * fabsf(x)) + 1), x);
}

static double base_of(const attended *p) { return p->d->base2 ? 1 : log2e; }

/* The product of a query and a key, with the scale and the soft cap. */
static double product(const attended *p, const double *q, const double *k, double *away) {
  double x = 0, size = 0, cap = (double)p->d->soft_cap;
  for (int64_t c = 0; c < p->d->head; c++) x += q[c] * k[c], size += fabs(q[c] * k[c]);
  x *= p->scale;
  if (away && p->d->rotary) {   /* what is turned has the errors of both elements of a pair */
    double of_q = 0, of_k = 0;
    for (int64_t c = 0; c < p->d->head; c++) of_q += q[c] * q[c], of_k += k[c] * k[c];
    size += sqrt(of_q * of_k);
  }
  if (away) *away = u * (2 * sqrt((double)p->d->head) + 16) * fabs(p->scale) * size;
  if (cap == 0) return x;
  x = cap * tanh(x / cap);
  if (away) *away = fmin(*away < INFINITY ? *away : 0, 2 * cap) + 8 * u * fabs(x);
  return x;
}

/* The same by a plain loop in f32, which multiplies Q by all factors before tanh or a modification; to the base 2, but
 * for a modification. */
static double plain_product(const attended *p, const double *q, const double *k) {
  const tg_attention_desc *d = p->d;
  double base = d->score_mod ? 1 : base_of(p), cap = (double)d->soft_cap;
  float factor = (float)(cap > 0 ? p->scale / cap : p->scale * base), x = 0;
  for (int64_t c = 0; c < d->head; c++) x += factor * (float)q[c] * (float)k[c];
  return cap > 0 ? (double)((float)(cap * base) * plain_tanh(x)) : (double)x;
}

static void modify_scores(const attended *p, int64_t b, int64_t h, double *s, double *away) {
  int64_t n = p->nq[b] * p->nk[b];
  float *in = tg_new(p->env, float, n), *out = tg_new(p->env, float, n), *moved = tg_new(p->env, float, n);
  int32_t *seen = tg_new(p->env, int32_t, n);
  for (int64_t x = 0; x < n; x++) in[x] = (float)s[x];
  modify(p, b, h, in, out, seen, NULL);
  double *spread = tg_new(p->env, double, n);
  for (int side = -1; side <= 1 && away; side += 2) {
    for (int64_t x = 0; x < n; x++) in[x] = (float)(s[x] + side * (away[x] + 2 * u * fabs(s[x])));
    modify(p, b, h, in, moved, seen, NULL);
    for (int64_t x = 0; x < n; x++) spread[x] = fmax(spread[x], fabs((double)moved[x] - (double)out[x]));
  }
  for (int64_t x = 0; x < n; x++) {
    s[x] = (double)out[x];
    if (away) away[x] = spread[x] + 8 * u * fabs(s[x]);
  }
}

/* A head of Q or K as it is in the product: n rows, from the position `first` on. */
static const double *turned(const attended *p, const double *x, int64_t n, int64_t first) {
  int64_t D = p->d->head, R = p->d->rotary, half = R / 2;
  if (!R) return x;
  double *out = tg_new(p->env, double, n * D);
  memcpy(out, x, (size_t)(n * D) * sizeof *out);
  for (int64_t i = 0; i < n; i++)
    for (int64_t c = 0; c < half; c++) {
      int64_t a = p->d->rotary_neighbours ? 2 * c : c, b = p->d->rotary_neighbours ? a + 1 : a + half;
      double cosine = (double)p->cos[(first + i) * half + c], sine = (double)p->sin[(first + i) * half + c];
      out[i * D + a] = x[i * D + a] * cosine - x[i * D + b] * sine;
      out[i * D + b] = x[i * D + b] * cosine + x[i * D + a] * sine;
    }
  return out;
}

void tg_attended_scores(const attended *p, int64_t b, int64_t h, bool single, double *s, double *away) {
  const tg_attention_desc *d = p->d;
  int64_t n = p->nk[b], kv = h / (d->heads / d->kv_heads);
  const double *q = p->q + (h * p->total_q + p->q0[b]) * d->head, *k = p->k + (kv * p->total_k + p->k0[b]) * d->head;
  const uint8_t *seen = p->seen[b * d->heads + h];
  q = turned(p, q, p->nq[b], d->causal == TG_CAUSAL_TOP_LEFT ? 0 : n - p->nq[b]), k = turned(p, k, n, 0);
  double base = single ? base_of(p) : 1;
  for (int64_t x = 0; x < p->nq[b] * n; x++) {
    const double *i = q + x / n * d->head, *j = k + x % n * d->head;
    s[x] = !seen[x] ? 0 : single ? plain_product(p, i, j) : product(p, i, j, away ? &away[x] : NULL);
  }
  if (d->score_mod) modify_scores(p, b, h, s, away);
  for (int64_t x = 0; x < p->nq[b] * n; x++) {
    int64_t i = x / n, j = x % n;
    double slope = d->alibi ? (double)p->slopes[h] * fabs((double)(stands(p, b, i) - j)) : 0, more = 0;
    if (d->mask && d->mask != TG_BOOL) more = p->argument[0][tg_attended_at(p, d->mask_per, b, h, i, j)];
    if (d->score_mod) s[x] = rounded(single, s[x] * base);
    s[x] = !seen[x] ? none : rounded(single, rounded(single, s[x] - slope * base) + more * base);
    if (away && isfinite(s[x])) away[x] += 4 * u * (fabs(s[x]) + fabs(slope) + fabs(more));
  }
}

/* ---- derivatives of scores ---- */

/* slope *= the derivative of score_mod at s, which may be `away`. */
static void modify_slopes(const attended *p, int64_t b, int64_t h, const double *s, const double *away, double *slope,
                          double *slope_away) {
  int64_t n = p->nq[b] * p->nk[b];
  float *in = tg_new(p->env, float, n), *out = tg_new(p->env, float, n), *at = tg_new(p->env, float, n),
        *moved = tg_new(p->env, float, n);
  int32_t *seen = tg_new(p->env, int32_t, n);
  double *spread = tg_new(p->env, double, n);
  for (int64_t x = 0; x < n; x++) in[x] = (float)s[x];
  modify(p, b, h, in, out, seen, at);
  for (int side = -1; side <= 1; side += 2) {
    for (int64_t x = 0; x < n; x++) in[x] = (float)(s[x] + side * (away[x] + 2 * u * fabs(s[x])));
    modify(p, b, h, in, out, seen, moved);
    for (int64_t x = 0; x < n; x++) spread[x] = fmax(spread[x], fabs((double)moved[x] - (double)at[x]));
  }
  for (int64_t x = 0; x < n; x++) {
    double own = (double)at[x], off = spread[x] + 8 * u * (fabs(own) + 1);
    slope_away[x] = fabs(own) * slope_away[x] + fabs(slope[x]) * off;
    slope[x] *= own;
  }
}

/* 1 - tanh^2 of what is away from its place by `off` moves by 2 tanh off, and is rounded twice. */
void tg_attended_slopes(const attended *p, int64_t b, int64_t h, double *slope, double *away) {
  const tg_attention_desc *d = p->d;
  int64_t n = p->nk[b], all = p->nq[b] * n, kv = h / (d->heads / d->kv_heads);
  const double *q = p->q + (h * p->total_q + p->q0[b]) * d->head, *k = p->k + (kv * p->total_k + p->k0[b]) * d->head;
  const uint8_t *seen = p->seen[b * d->heads + h];
  double *s = tg_new(p->env, double, all), *off = tg_new(p->env, double, all), cap = (double)d->soft_cap;
  for (int64_t x = 0; x < all; x++) {
    slope[x] = 1, away[x] = 0;
    if (!seen[x] || (cap == 0 && !d->score_mod)) continue;
    s[x] = product(p, q + x / n * d->head, k + x % n * d->head, &off[x]);
    if (cap == 0) continue;
    double t = s[x] / cap;
    slope[x] = 1 - t * t, away[x] = 2 * fabs(t) * off[x] / cap + 2 * u;
  }
  if (d->score_mod) modify_slopes(p, b, h, s, off, slope, away);
}

/* ---- dropout ---- */

/* In plain steps from the definition in tg/attention.h. */
double tg_attended_kept(const attended *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  uint32_t c[4] = {(uint32_t)(j / 8), (uint32_t)i, (uint32_t)(b * p->d->heads + h), p->offset},
           key[2] = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)};
  double share = rint((double)p->d->dropout * 65536);
  if (share <= 0) return 1;
  for (int round = 0; round < 10; round++) {
    uint64_t x = (uint64_t)c[0] * 0xD2511F53u, y = (uint64_t)c[2] * 0xCD9E8D57u;
    uint32_t next[4] = {(uint32_t)(y >> 32) ^ c[1] ^ key[0], (uint32_t)y, (uint32_t)(x >> 32) ^ c[3] ^ key[1],
                        (uint32_t)x};
    memcpy(c, next, sizeof c);
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return (double)(c[j % 8 / 2] >> 16 * (j % 2) & 65535) < share ? 0 : 65536 / (65536 - share);
}

/* ---- rows ---- */

/* In exact data everything is an integer, and no sum needs more than the 24 bits of f32. */
static void demand_exact(const attended *p, const double *s, int64_t n, double max, double sink) {
  double sum = 0, min = fmax(sink, none) > none ? fmin(sink, max) : max;
  for (int64_t j = 0; j < n; j++)
    if (s[j] > none && s[j] < min) min = s[j];
  for (int64_t j = 0; j < n; j++)
    if (s[j] > none) sum += s[j] == trunc(s[j]) ? exp2(s[j] - min) * p->most : (double)INFINITY;
  if (sink > none) sum += exp2(sink - min);
  if (p->which->kind != TG_ATTENTION_DOMINANT && !(sum <= 0x1p24))
    tg_fail(p->env, TG_INTERNAL, "the data of the check are not exact: %lld scores from %g to %g", (long long)n, min,
            max);
}

/* V of a head of a sequence. */
static const double *values_of(const attended *p, int64_t b, int64_t h) {
  return p->v + (h / (p->d->heads / p->d->kv_heads) * p->total_k + p->k0[b]) * p->d->value_head;
}

static void fill_row(const attended *p, attended_row *out, double o, double lse) {
  for (int64_t e = 0; e < p->d->value_head; e++) out->o[e] = o, out->o_away[e] = 0;
  out->lse = lse, out->lse_away = 0;
}

void tg_attended_row(const attended *p, int64_t b, int64_t h, int64_t i, const double *all, const double *away,
                     attended_row *out) {
  const tg_attention_desc *d = p->d;
  int64_t n = p->nk[b], E = d->value_head, seen = 0;
  const double *s = all + i * n, *v = values_of(p, b, h), base = base_of(p);
  const uint8_t *sees_it = p->seen[b * d->heads + h] + i * n;
  double sink = d->sinks ? (double)p->sinks[h] : none, max = sink, l = 0, le = 0;
  double *size = tg_new(p->env, double, E), *off = tg_new(p->env, double, E);
  out->exact = out->bad = false;
  memset(out->loose, 0, (size_t)E * sizeof *out->loose);
  for (int64_t j = 0; j < n; j++) {
    seen += sees_it[j];
    if (sees_it[j] && (isnan(s[j]) || s[j] > max)) max = isnan(max) ? max : s[j];
  }
  if (isnan(max) || max > 0x1p1000) out->bad = true, fill_row(p, out, NAN, NAN);
  else fill_row(p, out, 0, sink), out->lse_away = sink > none ? 4 * u * (fabs(sink) + 1) : 0;
  if (!seen || !isfinite(max)) return;
  if (is_exact(p)) demand_exact(p, s, n, max, sink);
  if (sink > none) {
    l = exp2((sink - max) * base);
    le = l * (2 * u * (fabs(sink) + max - sink) * base / log2e + 4 * u);
  }
  for (int64_t j = 0; j < n; j++) {
    if (!sees_it[j]) continue;
    double w = exp2((s[j] - max) * base);
    double e = away && w > 0 ? (away[i * n + j] + 2 * u * (max - s[j])) * base / log2e + 4 * u : 0;
    l += w, le += w * e, w *= tg_attended_kept(p, b, h, i, j);
    for (int64_t c = 0; c < E; c++) {
      if (w < 0x1p-120 && !isfinite(v[j * E + c])) {
        out->loose[c] = true;
        continue;
      }
      double x = w * v[j * E + c];
      out->o[c] += x, size[c] += fabs(x), off[c] += fabs(x) * e;
    }
  }
  double walk = u * (2 * sqrt(2 * (double)n) + 24), log_l = log2(l) / base;
  int exponent;
  out->exact = frexp((double)(float)l, &exponent) == 0.5;
  for (int64_t c = 0; c < E; c++) {
    double o = out->o[c] /= l;
    out->o_away[c] = (off[c] + fabs(o) * le + walk * (size[c] + fabs(o) * l)) / l + 2 * u * fabs(o) + 0x1p-120;
  }
  out->lse = max + log_l;
  out->lse_away = (le / l + walk) * log2e / base + 4 * u * (fabs(max) + fabs(log_l) + 1);
}

void tg_attended_naive(const attended *p, int64_t b, int64_t h, int64_t i, const double *all, double *o) {
  const tg_attention_desc *d = p->d;
  int64_t n = p->nk[b], E = d->value_head;
  const double *s = all + i * n, *v = values_of(p, b, h);
  float sink = d->sinks ? p->sinks[h] * (float)base_of(p) : -INFINITY, max = sink, l = 0,
        *sum = tg_new(p->env, float, E);
  for (int64_t j = 0; j < n; j++) max = s[j] > (double)max ? (float)s[j] : max;
  if (sink > -INFINITY) l = exp2f(sink - max);
  for (int64_t j = 0; j < n && max > -INFINITY; j++) {
    if (!(s[j] > none)) continue;
    float w = exp2f((float)s[j] - max);
    l += w, w *= (float)tg_attended_kept(p, b, h, i, j);
    for (int64_t c = 0; c < E; c++) sum[c] += w * (float)v[j * E + c];
  }
  for (int64_t c = 0; c < E; c++) o[c] = l > 0 ? tg_round_to(d->o, (double)(sum[c] / l)) : 0;
}
