/* SPDX-License-Identifier: MIT
 * Cases of tg bench attention: lists of shapes, data, and whether a result is right. Elements are multiples of 1/64
 * within -2..2, which every type holds. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/attention.h"
#include "bench/bench.h"
#include "shapes.h"

/* ---- lists ---- */

static bool read_line(const char *line, void *out) {
  attention_shape *s = out;
  char mask[8] = "", type[8] = "";
  long long queries = 0, keys = 0;
  *s = (attention_shape){0};
  int got = sscanf(line, "%15s %d %d %d %lld %lld %d %7s %7s", s->class_of, &s->batch, &s->heads, &s->kv_heads,
                   &queries, &keys, &s->head, mask, type);
  s->queries = queries, s->keys = keys, s->causal = !strcmp(mask, "causal");
  s->type = !strcmp(type, "f32") ? TG_F32 : !strcmp(type, "f16") ? TG_F16 : !strcmp(type, "bf16") ? TG_BF16 : TG_VOID;
  return got == 9 && s->batch > 0 && s->heads > 0 && s->kv_heads > 0 && s->heads % s->kv_heads == 0 && queries > 0 &&
         keys > 0 && s->head > 0 && (s->causal || !strcmp(mask, "full")) && s->type != TG_VOID;
}

int attention_read_shapes(const char *path, attention_shape **out) {
  static const tool_list list = {sizeof(attention_shape), read_line,
                                 "class batch heads kv_heads queries keys head full|causal f32|f16|bf16",
                                 "tests/bench/attention"};
  void *rows;
  int n = tool_read_list(path, &list, &rows);
  *out = rows;
  return n;
}

void attention_shape_name(const attention_shape *s, char *out, size_t n) {
  char heads[32], keys[32] = "";
  snprintf(heads, sizeof heads, s->kv_heads == s->heads ? "H%d" : "H%d KV%d", s->heads, s->kv_heads);
  if (s->keys != s->queries) snprintf(keys, sizeof keys, " N%lld", (long long)s->keys);
  snprintf(out, n, "%s B%d %s T%lld%s D%d %s %s", s->class_of, s->batch, heads, (long long)s->queries, keys, s->head,
           s->causal ? "causal" : "full",
           s->type == TG_F32   ? "f32"
           : s->type == TG_F16 ? "f16"
                               : "bf16");
}

/* The keys that query i sees: first..behind - 1, of which its document is part. */
static void seen(const attention_shape *s, int64_t i, int64_t *first, int64_t *behind) {
  int64_t at = i + s->keys - s->queries;
  *first = 0, *behind = s->keys;
  if (s->causal && at + 1 < *behind) *behind = at + 1;
  if (s->window && !s->causal && at + s->window < *behind) *behind = at + s->window;
  if (s->window && at - s->window + 1 > 0) *first = at - s->window + 1;
  if (s->documents) {
    int64_t each = (s->keys + s->documents - 1) / s->documents, own = at / each * each;
    if (own > *first) *first = own;
    if (own + each < *behind) *behind = own + each;
  }
}

double attention_flops(const attention_shape *s) {
  double pairs = 0;
  int64_t first, behind;
  for (int64_t i = 0; i < s->queries; i++) seen(s, i, &first, &behind), pairs += (double)(behind - first);
  return 4.0 * s->head * s->batch * s->heads * pairs;
}

/* ---- elements ---- */

static uint32_t random_next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static size_t size_of(tg_type t) { return t == TG_F32 ? 4 : 2; }

static void put(tg_type t, void *x, size_t i, float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (t == TG_F32) ((float *)x)[i] = f;
  else if (t == TG_BF16) ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
  else
    ((uint16_t *)x)[i] =
        f == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
}

double attention_element(tg_type t, const void *x, size_t i) {
  if (t == TG_F32) return (double)((const float *)x)[i];
  uint16_t h = ((const uint16_t *)x)[i];
  if (t == TG_BF16) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return (double)f;
  }
  int exponent = h >> 10 & 31;
  double fraction = h & 1023,
         value = exponent == 31 ? (fraction > 0 ? NAN : INFINITY)
                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
  return h & 0x8000 ? -value : value;
}

static void fill(tg_type t, void *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) put(t, x, i, (float)((int32_t)(random_next(&seed) >> 16 & 255) - 128) / 64.0f);
}

/* ---- what rows must be ---- */

/* The first, the last, and others here and there. */
attention_row attention_row_checked(const attention_shape *s, int n) {
  uint64_t all = (uint64_t)s->batch * (uint64_t)s->heads * (uint64_t)s->queries,
           which = n == 1 ? all - 1 : (uint64_t)n * 0x9E3779B97F4A7C15u % all;
  int64_t i = (int64_t)which;
  return (attention_row){i / s->queries / s->heads, i / s->queries % s->heads, i % s->queries};
}

static void reference(const attention_case *c, attention_row r, double *weight, double *out) {
  const attention_shape *s = &c->of;
  size_t d = (size_t)s->head, kv = (size_t)(r.b * s->kv_heads + r.h / (s->heads / s->kv_heads)) * (size_t)s->keys,
         q = ((size_t)(r.b * s->heads + r.h) * (size_t)s->queries + (size_t)r.i) * d;
  int64_t first, behind, stands = r.i + s->keys - s->queries;
  double largest = -INFINITY, sum = 0;
  seen(s, r.i, &first, &behind);
  for (int64_t j = first; j < behind; j++) {
    double x = 0;
    for (size_t e = 0; e < d; e++)
      x += attention_element(s->type, c->q, q + e) * attention_element(s->type, c->k, (kv + (size_t)j) * d + e);
    x /= sqrt((double)d);
    if (s->soft_cap > 0) x = (double)s->soft_cap * tanh(x / (double)s->soft_cap);
    if (s->alibi) x -= (double)c->slopes[r.h] * fabs((double)(j - stands));
    weight[j] = x, largest = fmax(largest, x);
  }
  if (s->sinks) largest = fmax(largest, (double)c->sinks[r.h]), sum = exp((double)c->sinks[r.h] - largest);
  memset(out, 0, d * sizeof *out);
  for (int64_t j = first; j < behind; j++) {
    double w = exp(weight[j] - largest);
    sum += w;
    for (size_t e = 0; e < d; e++) out[e] += w * attention_element(s->type, c->v, (kv + (size_t)j) * d + e);
  }
  for (size_t e = 0; e < d; e++) out[e] = sum > 0 ? out[e] / sum : 0;
}

bool attention_right(const attention_case *c, const void *o, tg_type type) {
  const attention_shape *s = &c->of;
  double allowed = s->type == TG_F32 ? 5e-5 : s->type == TG_F16 ? 4e-3 : 3e-2;
  size_t d = (size_t)s->head, all = (size_t)s->batch * (size_t)s->heads * (size_t)s->queries * d;
  for (size_t i = 0; i < all; i++)
    if (isnan(attention_element(type, o, i))) return false;
  for (int n = 0; n < ATTENTION_ROWS_CHECKED && s->dropout == 0; n++) {
    attention_row r = attention_row_checked(s, n);
    size_t from = ((size_t)(r.b * s->heads + r.h) * (size_t)s->queries + (size_t)r.i) * d;
    for (size_t e = 0; e < d; e++)
      if (!(fabs(attention_element(type, o, from + e) - c->want[(size_t)n * d + e]) <= allowed)) return false;
  }
  return true;
}

void attention_poison(const attention_case *c) { memset(c->o, 0xff, c->q_bytes); }

/* ---- a case ---- */

static size_t last_level(void) {
  enum { LIKELY = 32 << 20 };
  long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return l3 > 0 ? (size_t)l3 : l2 > 0 ? (size_t)l2 : LIKELY;
}

/* K and V as integers, which fill() has put into them: steps of 1/64, or 1/4 for 4 bits. */
static bool to_integers(attention_case *c, size_t n) {
  const attention_shape *s = &c->of;
  float by = s->bits == 8 ? 64 : 4;
  c->integer_bytes = n * (size_t)s->bits / 8;
  c->integers = tool_pages(2 * c->integer_bytes), c->scales = tool_pages(n / (size_t)s->group * sizeof *c->scales);
  if (!c->integers || !c->scales || s->type != TG_F32) return false;
  for (size_t i = 0; i < n / (size_t)s->group; i++) c->scales[i] = 1 / by;
  for (size_t i = 0; i < 2 * n; i++) {
    float *x = i < n ? (float *)c->k + i : (float *)c->v + (i - n);
    int whole = (int)floorf(*x * by);
    *x = (float)whole / by;
    if (s->bits == 8) c->integers[i] = (uint8_t)whole;
    else c->integers[i / 2] |= (uint8_t)((whole & 15) << i % 2 * 4);
  }
  return true;
}

bool attention_case_open(const attention_shape *s, int threads, int copies, attention_case *c) {
  size_t size = size_of(s->type), q = (size_t)s->batch * (size_t)s->heads * (size_t)s->queries * (size_t)s->head,
         kv = (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->keys * (size_t)s->head;
  *c = (attention_case){.of = *s, .threads = threads, .q_bytes = q * size, .kv_bytes = kv * size};
  c->q_elements = c->results = q;
  c->copies = copies ? copies : (int)((4 * last_level() + 2 * c->kv_bytes - 1) / (2 * c->kv_bytes));
  c->q = tool_pages(c->q_bytes), c->o = tool_pages(c->q_bytes);
  c->k = tool_pages(c->kv_bytes * (size_t)c->copies), c->v = tool_pages(c->kv_bytes * (size_t)c->copies);
  fill(s->type, c->q, q, 1), fill(s->type, c->k, kv, 2), fill(s->type, c->v, kv, 3);
  bool fits = !s->bits || to_integers(c, kv);
  for (int i = 1; i < c->copies; i++) {
    memcpy((char *)c->k + (size_t)i * c->kv_bytes, c->k, c->kv_bytes);
    memcpy((char *)c->v + (size_t)i * c->kv_bytes, c->v, c->kv_bytes);
  }
  c->slopes = calloc((size_t)s->heads, sizeof *c->slopes);
  c->sinks = calloc((size_t)s->heads, sizeof *c->sinks);
  c->pages = calloc((size_t)s->keys, sizeof *c->pages);
  c->document = calloc((size_t)s->keys, sizeof *c->document);
  c->blocks = calloc((size_t)((s->queries + 63) / 64), (size_t)((s->keys + 63) / 64));
  c->result = tool_pages(q * sizeof(float));
  c->want = calloc(ATTENTION_ROWS_CHECKED * (size_t)s->head, sizeof *c->want);
  double *weight = calloc((size_t)s->keys, sizeof *weight);
  bool good = fits && c->blocks && c->slopes && c->sinks && c->pages && c->document && c->want && weight;
  if (!good) perror("tg bench attention");
  for (int h = 0; good && h < s->heads; h++) c->slopes[h] = exp2f(-8.0f * (float)(h + 1) / (float)s->heads);
  for (int h = 0; good && h < s->heads; h++) c->sinks[h] = (float)(h % 5 - 2);
  uint32_t order = 5;
  for (int32_t i = 0; good && s->page && i < s->keys / s->page; i++) {
    int32_t j = (int32_t)(random_next(&order) >> 8) % (i + 1);
    c->pages[i] = c->pages[j], c->pages[j] = i;
  }
  for (int64_t i = 0; good && i < s->keys && s->documents; i++)
    c->document[i] = (int32_t)(i / ((s->keys + s->documents - 1) / s->documents));
  for (int64_t i = 0, n = (s->keys + 63) / 64; good && s->blocks && i < n * n; i++)
    c->blocks[i] = c->document[i / n * 64] == c->document[i % n * 64];
  for (int n = 0; good && n < ATTENTION_ROWS_CHECKED; n++)
    reference(c, attention_row_checked(s, n), weight, c->want + (size_t)n * (size_t)s->head);
  free(weight);
  if (!good) attention_case_close(c);
  return good;
}

void attention_case_gradients(attention_case *c) {
  size_t size = size_of(c->of.type);
  c->results = c->q_elements + 2 * c->kv_bytes / size;
  free(c->result);
  c->result = tool_pages(c->results * sizeof(float));
  c->gradients = tool_pages(c->results * size), c->d_o = tool_pages(c->q_bytes);
  c->lse = tool_pages(c->q_elements / (size_t)c->of.head * sizeof(float));
  fill(c->of.type, c->d_o, c->q_elements, 4);
}

void attention_case_close(attention_case *c) {
  void *const all[] = {c->q,        c->k,    c->v,      c->o,   c->slopes,    c->sinks, c->pages,
                       c->integers, c->scales, c->blocks, c->document, c->want, c->result, c->d_o, c->gradients,
                       c->lse};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  *c = (attention_case){0};
}
