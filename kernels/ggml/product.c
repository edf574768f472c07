/* SPDX-License-Identifier: MIT
 * MUL_MAT and MUL_MAT_ID. In ggml's order, the innermost dimension first: weights [K, N, ..], x [K, M, ..], and the
 * result [N, M, ..]; so A is x, B the weights as columns, and C the result, row major. Weights may be repeated over the
 * outer dimensions of x. Block-quantised weights are read as they lie: some rows at a time become f32 in a panel that
 * stays in the cache, and the product follows. */
#include <string.h>
#include "ggml/module.h"

/* Matrices of one product; distances in bytes. */
typedef struct {
  enum ggml_type weights, type;   /* types of b and of a */
  int64_t m, n, k;
  const char *a, *b;
  float *c;
  size_t a_row, a_step, b_row, b_step;
  bool fixed;                     /* b is of a model: n and k are the same in each graph */
  int64_t c_row;                  /* elements */
} product;

/* ---- plans ---- */

/* Sizes are open in a plan, within a class, so that graphs whose sizes grow need few plans; those of a model's weights
 * are fixed. */
static tg_dim class_of(int64_t size, int64_t few, int64_t many) {
  if (size == 1) return (tg_dim){.lo = 1};
  if (size <= few) return (tg_dim){.lo = 2, .hi = few};
  return (tg_dim){.lo = few + 1, .hi = size <= many ? many : INT64_C(1) << 31};
}

static tg_gemm_desc desc_of(const tg_ggml_session *s, const product *p) {
  tg_gemm_desc d;
  memset(&d, 0, sizeof d);
  d.a = tg_ggml_type(p->type), d.b = tg_ggml_has_blocks(p->weights) ? TG_F32 : tg_ggml_type(p->weights), d.c = TG_F32;
  d.m = class_of(p->m, 16, INT64_C(1) << 31);
  d.n = p->fixed ? (tg_dim){.lo = p->n} : class_of(p->n, 16, INT64_C(1) << 31);
  d.k = p->fixed ? (tg_dim){.lo = p->k} : class_of(p->k, 128, 65536);
  d.a_major = p->a_step == ggml_type_size(p->type) ? TG_ROW_MAJOR : TG_ANY_STRIDES;
  d.b_major = p->b_step == ggml_type_size(p->weights) ? TG_COLUMN_MAJOR : TG_ANY_STRIDES;
  d.threads = s->threads;
  return d;
}

static bool run(tg_ggml_session *s, tg_gemm *g, tg_gemm_call *call) {
  if (!g) return false;
  call->workspace_bytes = tg_gemm_workspace(g, call);
  call->workspace = tg_ggml_scratch(s, GGML_WORKSPACE, call->workspace_bytes);
  if (!call->workspace) return false;
  return !tg_gemm_run(g, call) || tg_ggml_failed("a product");
}

static void strides_of_a(const product *p, tg_gemm_call *call) {
  size_t a = ggml_type_size(p->type);
  call->a_strides[0] = (int64_t)(p->a_row / a), call->a_strides[1] = (int64_t)(p->a_step / a);
  call->c_strides[0] = p->c_row, call->c_strides[1] = 1;
}

/* One plan serves open sizes only where the descriptor has a range. */
static int64_t open_size(tg_dim d, int64_t size) { return d.hi ? size : 0; }

static void sizes_of(const tg_gemm_desc *d, const product *p, tg_gemm_call *call) {
  call->m = open_size(d->m, p->m), call->n = open_size(d->n, p->n), call->k = open_size(d->k, p->k);
}

/* ---- one matrix of weights ---- */

static bool multiply(tg_ggml_session *s, const product *p) {
  size_t b = ggml_type_size(p->weights);
  tg_gemm_desc d = desc_of(s, p);
  tg_gemm_call call = {.a = p->a, .b = p->b, .c = p->c};
  sizes_of(&d, p, &call);
  strides_of_a(p, &call);
  call.b_strides[0] = (int64_t)(p->b_step / b), call.b_strides[1] = (int64_t)(p->b_row / b);
  return run(s, tg_ggml_gemm(&d), &call);
}

/* Bytes of the panel of unpacked weights: what a second-level cache of today holds beside the rows of A. */
enum { PANEL_BYTES = 512 * 1024, PANEL_ROWS = 16 };

static int64_t panel_rows(const product *p) {
  int64_t rows = PANEL_BYTES / (4 * p->k) / PANEL_ROWS * PANEL_ROWS;
  return rows < PANEL_ROWS ? PANEL_ROWS : rows;
}

/* The same weights for several matrices A. */
static bool multiply_blocks(tg_ggml_session *s, const product *p, int64_t count, const char *const *a,
                            float *const *c) {
  int64_t rows = panel_rows(p);
  float *panel = tg_ggml_scratch(s, GGML_PANEL, (size_t)(rows * p->k) * sizeof *panel);
  if (!panel) return false;
  for (int64_t n = 0; n < p->n; n += rows) {
    product part = *p;
    part.n = p->n - n < rows ? p->n - n : rows;
    if (!tg_ggml_unpack(s, p->weights, p->b + (size_t)n * p->b_row, p->b_row, part.n, p->k, panel)) return false;
    tg_gemm_desc d = desc_of(s, &part);
    tg_gemm *g = tg_ggml_gemm(&d);
    for (int64_t i = 0; i < count; i++) {
      tg_gemm_call call = {.a = a[i], .b = panel, .c = c[i] + n};
      sizes_of(&d, &part, &call);
      strides_of_a(&part, &call);
      call.b_strides[0] = 1, call.b_strides[1] = p->k;
      if (!run(s, g, &call)) return false;
    }
  }
  return true;
}

static bool multiply_any(tg_ggml_session *s, const product *p) {
  return tg_ggml_has_blocks(p->weights) ? multiply_blocks(s, p, 1, &p->a, &p->c) : multiply(s, p);
}

/* ---- MUL_MAT ---- */

static bool is_matrix(const struct ggml_tensor *t) {
  return t->nb[0] % ggml_type_size(t->type) == 0 && t->nb[1] % ggml_type_size(t->type) == 0;
}

static bool operands_are_supported(const struct ggml_tensor *node) {
  const struct ggml_tensor *w = node->src[0], *x = node->src[1];
  if (node->type != GGML_TYPE_F32 || node->nb[0] != sizeof(float) || node->nb[1] % sizeof(float)) return false;
  if (!tg_ggml_is_float(x->type) || !is_matrix(x)) return false;
  if (tg_ggml_has_blocks(w->type)) return w->nb[0] == ggml_type_size(w->type);
  return tg_ggml_is_float(w->type) && is_matrix(w);
}

bool tg_ggml_product_supports(const struct ggml_tensor *node) {
  const struct ggml_tensor *w = node->src[0];
  return operands_are_supported(node) && w->ne[0] <= INT32_MAX && w->ne[1] <= INT32_MAX &&
         node->src[1]->ne[1] <= INT32_MAX;
}

static product product_of(const struct ggml_tensor *node) {
  const struct ggml_tensor *w = node->src[0], *x = node->src[1];
  return (product){.weights = w->type, .type = x->type, .m = x->ne[1], .n = w->ne[1], .k = w->ne[0],
                   .a = x->data, .b = w->data, .c = node->data, .a_row = x->nb[1], .a_step = x->nb[0],
                   .b_row = w->nb[1], .b_step = w->nb[0], .c_row = (int64_t)(node->nb[1] / sizeof(float)),
                   .fixed = w->buffer && ggml_backend_buffer_get_usage(w->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS};
}

/* Pointers to the operands of each product of a batch. */
typedef struct { const char **a, **b; float **c; } lists;

static bool make_lists(tg_ggml_session *s, const struct ggml_tensor *node, lists *l) {
  const struct ggml_tensor *w = node->src[0], *x = node->src[1];
  int64_t count = x->ne[2] * x->ne[3], i = 0;
  l->a = tg_ggml_scratch(s, GGML_LISTS, (size_t)count * 3 * sizeof(void *));
  if (!l->a) return false;
  l->b = l->a + count;
  l->c = (float **)(l->b + count);
  for (int64_t i3 = 0; i3 < x->ne[3]; i3++)
    for (int64_t i2 = 0; i2 < x->ne[2]; i2++, i++) {
      int64_t w2 = i2 / (x->ne[2] / w->ne[2]), w3 = i3 / (x->ne[3] / w->ne[3]);
      l->a[i] = (const char *)x->data + i2 * (int64_t)x->nb[2] + i3 * (int64_t)x->nb[3];
      l->b[i] = (const char *)w->data + w2 * (int64_t)w->nb[2] + w3 * (int64_t)w->nb[3];
      l->c[i] = (float *)((char *)node->data + i2 * (int64_t)node->nb[2] + i3 * (int64_t)node->nb[3]);
    }
  return true;
}

bool tg_ggml_product(tg_ggml_session *s, struct ggml_tensor *node) {
  product p = product_of(node);
  int64_t count = node->src[1]->ne[2] * node->src[1]->ne[3];
  if (count == 1) return multiply_any(s, &p);
  lists l;
  if (!make_lists(s, node, &l)) return false;
  if (tg_ggml_has_blocks(p.weights)) {
    for (int64_t i = 0, same; i < count; i += same) {
      for (same = 1; i + same < count && l.b[i + same] == l.b[i]; same++) {}
      p.b = l.b[i];
      if (!multiply_blocks(s, &p, same, l.a + i, l.c + i)) return false;
    }
    return true;
  }
  size_t b = ggml_type_size(p.weights);
  tg_gemm_desc d = desc_of(s, &p);
  tg_gemm_call call = {.batch = count, .a_list = (const void *const *)l.a, .b_list = (const void *const *)l.b,
                       .c_list = (void *const *)l.c};
  sizes_of(&d, &p, &call);
  strides_of_a(&p, &call);
  call.b_strides[0] = (int64_t)(p.b_step / b), call.b_strides[1] = (int64_t)(p.b_row / b);
  return run(s, tg_ggml_gemm(&d), &call);
}

/* ---- MUL_MAT_ID: each row of x is multiplied with the weights of the expert that ids names ---- */

bool tg_ggml_experts_supports(const struct ggml_tensor *node) {
  return operands_are_supported(node) && node->src[2]->type == GGML_TYPE_I32 && node->src[0]->ne[3] == 1 &&
         node->src[1]->ne[3] == 1 && node->src[1]->nb[0] == ggml_type_size(node->src[1]->type);
}

/* Row (slot, token) of x, and of the result. */
static const char *row_of_x(const struct ggml_tensor *x, int64_t slot, int64_t token) {
  return (const char *)x->data + slot % x->ne[1] * (int64_t)x->nb[1] + token * (int64_t)x->nb[2];
}
static char *row_of_result(const struct ggml_tensor *node, int64_t slot, int64_t token) {
  return (char *)node->data + slot * (int64_t)node->nb[1] + token * (int64_t)node->nb[2];
}

/* The rows of one expert, which lie apart, are brought together, multiplied, and their results brought back. */
static bool run_expert(tg_ggml_session *s, struct ggml_tensor *node, int32_t expert, const int64_t *rows, int64_t n) {
  const struct ggml_tensor *x = node->src[1];
  product p = product_of(node);
  int64_t slots = node->src[2]->ne[0];
  size_t row = (size_t)p.k * ggml_type_size(x->type), result = (size_t)p.n * sizeof(float);
  p.m = n;
  p.b += expert * (int64_t)node->src[0]->nb[2];
  if (n == 1) {
    p.a = row_of_x(x, rows[0] % slots, rows[0] / slots);
    p.c = (float *)row_of_result(node, rows[0] % slots, rows[0] / slots);
    return multiply_any(s, &p);
  }
  char *a = tg_ggml_scratch(s, GGML_ROWS, (size_t)n * row);
  float *c = tg_ggml_scratch(s, GGML_RESULT, (size_t)n * result);
  if (!a || !c) return false;
  for (int64_t i = 0; i < n; i++) memcpy(a + (size_t)i * row, row_of_x(x, rows[i] % slots, rows[i] / slots), row);
  p.a = a, p.a_row = row, p.c = c, p.c_row = p.n;
  if (!multiply_any(s, &p)) return false;
  for (int64_t i = 0; i < n; i++)
    memcpy(row_of_result(node, rows[i] % slots, rows[i] / slots), c + i * p.n, result);
  return true;
}

bool tg_ggml_experts(tg_ggml_session *s, struct ggml_tensor *node) {
  const struct ggml_tensor *ids = node->src[2];
  int64_t slots = ids->ne[0], total = slots * ids->ne[1], experts = node->src[0]->ne[2];
  int64_t *rows = tg_ggml_scratch(s, GGML_LISTS, (size_t)(total + experts + 1) * sizeof *rows), *start = rows + total;
  if (!rows) return false;
  memset(start, 0, (size_t)(experts + 1) * sizeof *start);
  for (int pass = 0; pass < 2; pass++) {   /* counts, which become ends; then rows, from the last to the first */
    for (int64_t i = total - 1; i >= 0; i--) {
      const char *at = (const char *)ids->data + i % slots * (int64_t)ids->nb[0] + i / slots * (int64_t)ids->nb[1];
      int32_t expert;
      memcpy(&expert, at, sizeof expert);
      if (expert < 0 || expert >= experts) {
        GGML_LOG_ERROR("tg: expert %d of %d\n", (int)expert, (int)experts);
        return false;
      }
      if (pass) rows[--start[expert]] = i;
      else start[expert]++;
    }
    for (int64_t e = 0; !pass && e < experts; e++) start[e + 1] += start[e];
  }
  for (int64_t e = 0; e < experts; e++)
    if (start[e + 1] > start[e] &&
        !run_expert(s, node, (int32_t)e, rows + start[e], start[e + 1] - start[e])) return false;
  return true;
}
