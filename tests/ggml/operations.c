/* SPDX-License-Identifier: MIT
 * The back end of ggml without ggml: the module over a stand-in, each operation against float64, in place, over views,
 * with repeated rows; what it refuses; what a ggml of other numbers gets. */
#include <math.h>
#include <stdlib.h>
#include "ggml/stand_in/stand_in.h"
#include "test.h"

ggml_backend_reg_t ggml_backend_init(void);

static ggml_backend_dev_t device;
static ggml_backend_t backend;

/* ---- tensors ---- */

static uint32_t state = 1;
static double drawn(double from, double to) {
  state = state * 1664525u + 1013904223u;
  return from + (to - from) * (double)(state >> 8) / 16777216.0;
}

static struct ggml_tensor *tensor(enum ggml_type t, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  struct ggml_tensor *x = calloc(1, sizeof *x);
  *x = (struct ggml_tensor){.type = t, .ne = {n0, n1, n2, n3}, .flags = GGML_TENSOR_FLAG_COMPUTE};
  x->nb[0] = ggml_type_size(t);
  x->nb[1] = x->nb[0] * (size_t)(n0 / ggml_blck_size(t));
  x->nb[2] = x->nb[1] * (size_t)n1, x->nb[3] = x->nb[2] * (size_t)n2;
  x->data = calloc(1, x->nb[3] * (size_t)n3 + 64);
  return x;
}

/* An f16 with a drawn fraction, from 2^(lowest - 15) to 2^(highest - 14). */
static uint16_t drawn_f16(int lowest, int highest) {
  return (uint16_t)((int)drawn(0, 2) << 15 | (int)drawn(lowest, highest + 1) << 10 | (int)drawn(0, 1024));
}

/* Values of +-1 for floats; blocks of random bytes, whose scales are small. */
static struct ggml_tensor *filled(enum ggml_type t, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  struct ggml_tensor *x = tensor(t, n0, n1, n2, n3);
  size_t size = ggml_type_size(t), all = x->nb[3] * (size_t)n3 / size;
  for (size_t i = 0; i < all; i++) {
    uint8_t *at = (uint8_t *)x->data + i * size;
    uint16_t scale = drawn_f16(6, 9);
    if (t == GGML_TYPE_F32) *(float *)(void *)at = (float)drawn(-1, 1);
    else if (t == GGML_TYPE_F16) scale = drawn_f16(9, 14), memcpy(at, &scale, 2);
    else {
      for (size_t k = 0; k < size; k++) at[k] = (uint8_t)drawn(0, 256);
      memcpy(at + (t == GGML_TYPE_Q6_K ? 208 : 0), &scale, 2);
      if (t == GGML_TYPE_Q4_K) memcpy(at + 2, &scale, 2);
    }
  }
  return x;
}

static void *row(const struct ggml_tensor *x, int64_t i1, int64_t i2, int64_t i3) {
  return (char *)x->data + i1 * (int64_t)x->nb[1] + i2 * (int64_t)x->nb[2] + i3 * (int64_t)x->nb[3];
}
static double value(const struct ggml_tensor *x, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  if (ggml_blck_size(x->type) > 1) return stand_in_value(x->type, row(x, i1, i2, i3), i0);
  return stand_in_value(x->type, (char *)row(x, i1, i2, i3) + i0 * (int64_t)x->nb[0], 0);
}
static void set_float(struct ggml_tensor *x, int i, float v) { memcpy(&x->op_params[i], &v, sizeof v); }

static struct ggml_tensor *node_of(enum ggml_op op, struct ggml_tensor *out, struct ggml_tensor *a,
                                   struct ggml_tensor *b, struct ggml_tensor *c) {
  out->op = op, out->src[0] = a, out->src[1] = b, out->src[2] = c;
  return out;
}

static bool compute(struct ggml_tensor *node) {
  struct ggml_cgraph g = {1, &node};
  stand_in_told[0] = 0;
  return device->iface.supports_op(device, node) &&
         backend->iface.graph_compute(backend, &g) == GGML_STATUS_SUCCESS;
}

static double worst;
static void near(double got, double want, double size) {
  double e = fabs(got - want) / (size + 1e-30);
  if (!(e <= worst)) worst = e;
}
#define IS_NEAR(MOST, NAME)                                               \
  do {                                                                    \
    CHECK(worst <= (MOST), "%s: %g, at most %g", NAME, worst, (double)(MOST)); \
    worst = 0;                                                            \
  } while (0)
#define EACH(T)                                                                                            \
  for (int64_t i3 = 0; i3 < (T)->ne[3]; i3++)                                                              \
    for (int64_t i2 = 0; i2 < (T)->ne[2]; i2++)                                                            \
      for (int64_t i1 = 0; i1 < (T)->ne[1]; i1++)

/* ---- products ---- */

static void product(enum ggml_type weights, enum ggml_type type, int64_t m, int64_t k) {
  static struct ggml_backend_buffer of_a_model = {GGML_BACKEND_BUFFER_USAGE_WEIGHTS};
  struct ggml_tensor *w = filled(weights, k, 33, 2, 1), *x = filled(type, k, m, 4, 3),
                     *y = node_of(GGML_OP_MUL_MAT, tensor(GGML_TYPE_F32, 33, m, 4, 3), w, x, NULL);
  if (m == 3) w->buffer = &of_a_model;
  bool computed = compute(y);
  CHECK(computed, "%s by %s: %s", ggml_type_name(weights), ggml_type_name(type), stand_in_told);
  if (computed) EACH(y) for (int64_t n = 0; n < 33; n++) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < k; i++) {
      double p = value(w, i, n, i2 / 2, 0) * value(x, i, i1, i2, i3);
      sum += p, size += fabs(p);
    }
    near(value(y, n, i1, i2, i3), sum, size);
  }
  IS_NEAR(1e-6, ggml_type_name(weights));
}

static void experts(enum ggml_type weights) {
  enum { EXPERTS = 5, SLOTS = 2, TOKENS = 7, K = 256, N = 20 };
  struct ggml_tensor *w = filled(weights, K, N, EXPERTS, 1), *x = filled(GGML_TYPE_F32, K, 1, TOKENS, 1),
                     *ids = tensor(GGML_TYPE_I32, SLOTS, TOKENS, 1, 1),
                     *y = node_of(GGML_OP_MUL_MAT_ID, tensor(GGML_TYPE_F32, N, SLOTS, TOKENS, 1), w, x, ids);
  int32_t *id = ids->data;
  for (int i = 0; i < SLOTS * TOKENS; i++) id[i] = i % 3 == 0 ? 0 : i % EXPERTS;
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) for (int64_t n = 0; n < N; n++) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < K; i++) {
      double p = value(w, i, n, id[i2 * SLOTS + i1], 0) * value(x, i, 0, i2, 0);
      sum += p, size += fabs(p);
    }
    near(value(y, n, i1, i2, 0), sum, size);
  }
  IS_NEAR(1e-6, "experts");
  id[3] = EXPERTS;
  CHECK(!compute(y) && strstr(stand_in_told, "not computed"), "an expert that is not there: %s", stand_in_told);
}

/* ---- rows ---- */

static void softmax(bool masked, bool sinks, float max_bias) {
  struct ggml_tensor *x = filled(GGML_TYPE_F32, 37, 5, 6, 2), *mask = filled(GGML_TYPE_F16, 37, 5, 1, 1),
                     *sink = filled(GGML_TYPE_F32, 6, 1, 1, 1);
  struct ggml_tensor *y = node_of(GGML_OP_SOFT_MAX, tensor(GGML_TYPE_F32, 37, 5, 6, 2), x, masked ? mask : NULL,
                                  sinks ? sink : NULL);
  set_float(y, 0, 1.5f), set_float(y, 1, max_bias);
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) {
    double sum = sinks ? exp(value(sink, i2, 0, 0, 0)) : 0, e[37];
    /* six heads: 2^(-b/4), .. of the first four, then the odd powers of 2^(-b/8) */
    double slope = i2 < 4 ? pow(2, -max_bias * (double)(i2 + 1) / 4) : pow(2, -max_bias * (double)(2 * i2 - 7) / 8);
    for (int j = 0; j < 37; j++)
      sum += e[j] = exp(1.5 * value(x, j, i1, i2, i3) + (masked ? slope * value(mask, j, i1, 0, 0) : 0));
    for (int j = 0; j < 37; j++) near(value(y, j, i1, i2, i3), e[j] / sum, e[j] / sum);
  }
  IS_NEAR(1e-5, "softmax");
}

/* A view of every other row, its result in x's own place or elsewhere. */
static void norm(enum ggml_op op, bool in_place) {
  struct ggml_tensor *all = filled(GGML_TYPE_F32, 70, 8, 2, 3), *x = tensor(GGML_TYPE_F32, 64, 4, 2, 3),
                     *y = tensor(GGML_TYPE_F32, 64, 4, 2, 3), *before = filled(GGML_TYPE_F32, 70, 8, 2, 3);
  memcpy(before->data, all->data, all->nb[3] * 3);
  x->data = all->data, x->nb[1] = 2 * all->nb[1], x->nb[2] = all->nb[2], x->nb[3] = all->nb[3];
  if (in_place) y->data = x->data, memcpy(y->nb, x->nb, sizeof y->nb);
  node_of(op, y, x, NULL, NULL);
  set_float(y, 0, 1e-5f);
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) {
    double mean = 0, square = 0;
    for (int j = 0; j < 64; j++) mean += value(before, j, 2 * i1, i2, i3) / 64;
    if (op == GGML_OP_RMS_NORM) mean = 0;
    for (int j = 0; j < 64; j++) square += pow(value(before, j, 2 * i1, i2, i3) - mean, 2) / 64;
    for (int j = 0; j < 64; j++)
      near(value(y, j, i1, i2, i3), (value(before, j, 2 * i1, i2, i3) - mean) / sqrt(square + 1e-5), 1);
    if (in_place)
      CHECK(value(all, 65, 2 * i1, i2, i3) == value(before, 65, 2 * i1, i2, i3), "written beside the row");
  }
  IS_NEAR(2e-6, "norm");
}

static void rotary(int mode, enum ggml_type type) {
  enum { HEAD = 36, PAIRS = 12, TOKENS = 5 };
  struct ggml_tensor *x = filled(type, HEAD, 3, TOKENS, 2), *at = tensor(GGML_TYPE_I32, TOKENS, 1, 1, 1),
                     *y = node_of(GGML_OP_ROPE, tensor(type, HEAD, 3, TOKENS, 2), x, at, NULL);
  for (int t = 0; t < TOKENS; t++) ((int32_t *)at->data)[t] = 7 * t;
  y->op_params[1] = 2 * PAIRS, y->op_params[2] = mode, y->op_params[15] = 4;
  set_float(y, 5, 10000), set_float(y, 6, 1), set_float(y, 8, 1);
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) for (int j = 0; j < HEAD; j++) {
    int k = mode ? (j - 4) % PAIRS : (j - 4) / 2, first = mode ? 4 + k : 4 + 2 * k, far = mode ? PAIRS : 1;
    double a = 0, b = 0, want = value(x, j, i1, i2, i3), angle = 7.0 * (double)i2 * pow(10000, -k / (double)PAIRS);
    if (j >= 4 && j < 4 + 2 * PAIRS) {
      a = value(x, first, i1, i2, i3), b = value(x, first + far, i1, i2, i3);
      want = j == first ? a * cos(angle) - b * sin(angle) : b * cos(angle) + a * sin(angle);
    }
    near(value(y, j, i1, i2, i3), want, 1);
  }
  IS_NEAR(type == GGML_TYPE_F16 ? 1e-3 : 1e-5, "rotary");
}

static void gates(enum ggml_glu_op op, bool split, bool swapped) {
  struct ggml_tensor *x = filled(GGML_TYPE_F32, split ? 9 : 18, 4, 2, 1), *g = filled(GGML_TYPE_F32, 9, 4, 2, 1),
                     *y = node_of(GGML_OP_GLU, tensor(GGML_TYPE_F32, 9, 4, 2, 1), x, split ? g : NULL, NULL);
  y->op_params[0] = op, y->op_params[1] = swapped;
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) for (int j = 0; j < 9; j++) {
    double v = value(x, swapped ? j + 9 : j, i1, i2, 0);
    double u = split ? value(g, j, i1, i2, 0) : value(x, swapped ? j : j + 9, i1, i2, 0);
    double act = op == GGML_GLU_OP_SWIGLU ? v / (1 + exp(-v)) : op == GGML_GLU_OP_REGLU ? fmax(v, 0) : NAN;
    near(value(y, j, i1, i2, 0), act * u, 1);
  }
  IS_NEAR(1e-6, "gates");
}

/* b repeats: rows in one dimension, all in another; and takes the place of the result if it can. */
static void sums(int64_t n0, int64_t n2, bool in_place) {
  struct ggml_tensor *a = filled(GGML_TYPE_F32, 10, 3, 4, 2), *b = filled(GGML_TYPE_F16, n0, 1, n2, 1),
                     *before = tensor(GGML_TYPE_F32, 10, 3, 4, 2),
                     *y = node_of(GGML_OP_SUB, in_place ? a : tensor(GGML_TYPE_F32, 10, 3, 4, 2), a, b, NULL);
  memcpy(before->data, a->data, a->nb[3] * 2);
  if (in_place) {
    y = tensor(GGML_TYPE_F32, 10, 3, 4, 2), y->data = a->data, a->op = GGML_OP_NONE;
    node_of(GGML_OP_SUB, y, a, b, NULL);
  }
  CHECK(compute(y), "%s", stand_in_told);
  EACH(y) for (int j = 0; j < 10; j++)
    near(value(y, j, i1, i2, i3), value(before, j, i1, i2, i3) - value(b, n0 == 1 ? 0 : j, 0, i2 % n2, 0), 1);
  IS_NEAR(1e-6, "differences");
}

static void copies(void) {
  struct ggml_tensor *x = filled(GGML_TYPE_F32, 6, 5, 4, 1), *ids = tensor(GGML_TYPE_I32, 3, 1, 1, 1),
                     *y = node_of(GGML_OP_CONT, tensor(GGML_TYPE_F32, 20, 6, 1, 1), x, NULL, NULL);
  struct ggml_tensor turned = *x, *w = filled(GGML_TYPE_Q8_0, 64, 9, 1, 1),
                     *r = node_of(GGML_OP_GET_ROWS, tensor(GGML_TYPE_F32, 64, 3, 1, 1), w, ids, NULL);
  turned.ne[0] = 4, turned.ne[1] = 5, turned.ne[2] = 6;
  turned.nb[0] = x->nb[2], turned.nb[2] = x->nb[0];
  y->src[0] = &turned;
  CHECK(compute(y), "%s", stand_in_told);
  for (int64_t i = 0; i < 120; i++) near(value(y, i % 20, i / 20, 0, 0), value(x, i / 20, i / 4 % 5, i % 4, 0), 1);
  IS_NEAR(0, "a turned copy of another shape");
  ((int32_t *)ids->data)[0] = 8, ((int32_t *)ids->data)[2] = 3;
  CHECK(compute(r), "%s", stand_in_told);
  for (int64_t j = 0; j < 64; j++) {
    near(value(r, j, 0, 0, 0), value(w, j, 8, 0, 0), 1);
    near(value(r, j, 2, 0, 0), value(w, j, 3, 0, 0), 1);
  }
  IS_NEAR(1e-7, "rows by index");
  ((int32_t *)ids->data)[1] = 9;
  CHECK(!compute(r), "a row that is not there");
}

/* ---- attention ---- */

static void attention(enum ggml_type kind, int64_t queries, bool masked, bool seen, float max_bias, bool sinks) {
  enum { HEAD = 64, KEYS = 50, HEADS = 4 };
  struct ggml_tensor *q = filled(GGML_TYPE_F32, HEAD, queries, HEADS, 2), *k = filled(kind, HEAD, KEYS, 2, 2),
                     *v = filled(kind, HEAD, KEYS, 2, 2), *mask = filled(GGML_TYPE_F16, KEYS, queries, 1, 1),
                     *sink = filled(GGML_TYPE_F32, HEADS, 1, 1, 1);
  struct ggml_tensor *y = node_of(GGML_OP_FLASH_ATTN_EXT, tensor(GGML_TYPE_F32, HEAD, HEADS, queries, 2), q, k, v);
  y->src[3] = masked ? mask : NULL, y->src[4] = sinks ? sink : NULL;
  for (int i = 0; masked && i < queries * KEYS; i++) {
    uint16_t *m = (uint16_t *)mask->data + i;
    if (seen) *m = i % KEYS > i / KEYS ? 0xfc00 : 0;   /* which keys are seen, alone: the first ones */
    else if (i % 3 == 0) *m = 0xfc00;                  /* -inf */
  }
  set_float(y, 0, 0.125f), set_float(y, 1, max_bias);
  CHECK(compute(y), "%s", stand_in_told);
  EACH(q) {
    double e[KEYS], sum = sinks ? exp(value(sink, i2, 0, 0, 0)) : 0;
    for (int j = 0; j < KEYS; j++) {
      double s = 0, slope = max_bias > 0 ? pow(2, -max_bias * (double)(i2 + 1) / HEADS) : 1;
      for (int d = 0; d < HEAD; d++) s += value(q, d, i1, i2, i3) * value(k, d, j, i2 / 2, i3);
      bool absent = masked && ((uint16_t *)mask->data)[i1 * KEYS + j] == 0xfc00;
      sum += e[j] = absent ? 0 : exp(0.125 * s + (masked ? slope * value(mask, j, i1, 0, 0) : 0));
    }
    for (int d = 0; d < HEAD; d++) {
      double o = 0;
      for (int j = 0; j < KEYS; j++) o += e[j] / sum * value(v, d, j, i2 / 2, i3);
      near(value(y, d, i2, i1, i3), o, 1);
    }
  }
  IS_NEAR(1e-5, "attention");
}

/* ---- what is refused ---- */

static void refusals(void) {
  struct ggml_tensor *other = tensor(GGML_TYPE_OTHER, 32, 4, 1, 1), *x = filled(GGML_TYPE_F32, 32, 4, 1, 1),
                     *y = node_of(GGML_OP_MUL_MAT, tensor(GGML_TYPE_F32, 4, 4, 1, 1), other, x, NULL);
  CHECK(!device->iface.supports_op(device, y), "weights of a type that it does not know");
  node_of(GGML_OP_OTHER, y, x, x, NULL);
  CHECK(!device->iface.supports_op(device, y), "an operation that it does not have");
  node_of(GGML_OP_MUL_MAT, y, x, x, NULL)->type = GGML_TYPE_F16;
  CHECK(!device->iface.supports_op(device, y), "a product of f16");
  node_of(GGML_OP_ADD, tensor(GGML_TYPE_F32, 32, 4, 1, 1), x, filled(GGML_TYPE_F32, 16, 4, 1, 1), NULL);
  stand_in_is_another = true;
  CHECK(!ggml_backend_init() && strstr(stand_in_told, "not the one"), "a ggml of other numbers");
  stand_in_is_another = false;
}

int main(void) {
  setenv("TG_GGML_CACHE", "", 1);
  ggml_backend_reg_t registry = ggml_backend_init();
  CHECK(registry && registry->api_version == 2 && registry->iface.get_device_count(registry) == 1, "the registry");
  device = registry->iface.get_device(registry, 0);
  backend = device->iface.init_backend(device, NULL);
  CHECK(backend != NULL, "the back end");
  void (*threads)(ggml_backend_t, int) = NULL;
  *(void **)&threads = registry->iface.get_proc_address(registry, "ggml_backend_set_n_threads");
  threads(backend, 2);
  static const enum ggml_type weights[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q6_K};
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) product(weights[i], GGML_TYPE_F32, 3, 512);
  product(GGML_TYPE_F32, GGML_TYPE_F16, 1, 20), product(GGML_TYPE_F16, GGML_TYPE_F32, 40, 130);
  experts(GGML_TYPE_F32), experts(GGML_TYPE_Q4_K);
  softmax(false, false, 0), softmax(true, false, 8), softmax(true, true, 0), softmax(false, true, 0);
  norm(GGML_OP_NORM, false), norm(GGML_OP_RMS_NORM, false), norm(GGML_OP_NORM, true), norm(GGML_OP_RMS_NORM, true);
  rotary(GGML_ROPE_TYPE_NORMAL, GGML_TYPE_F32), rotary(GGML_ROPE_TYPE_NEOX, GGML_TYPE_F16);
  gates(GGML_GLU_OP_SWIGLU, true, false), gates(GGML_GLU_OP_REGLU, false, false);
  gates(GGML_GLU_OP_SWIGLU, false, true);
  sums(10, 4, false), sums(1, 1, true), sums(10, 2, true);
  copies();
  attention(GGML_TYPE_F16, 1, true, false, 0, false), attention(GGML_TYPE_Q8_0, 20, true, false, 8, true);
  attention(GGML_TYPE_F32, 5, false, false, 0, true), attention(GGML_TYPE_F32, 40, true, true, 0, true);
  attention(GGML_TYPE_F16, 3, true, true, 0, false), attention(GGML_TYPE_F16, 3, true, true, 8, false);
  refusals();
  backend->iface.free(backend);
  return TEST_END();
}
