/* SPDX-License-Identifier: MIT
 * Operations on rows: what each is, in the language, for a row of N elements (module.h says what $ and @ are). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ggml/module.h"

/* ---- texts of single elements: of v ---- */

#define GELU_TANH "0.5f * v * (1 + tanh(0.79788456f * v * (1 + 0.044715f * v * v)))"
#define GELU_ERF "0.5f * v * (1 + erf(v * 0.70710678f))"
#define GELU_QUICK "v / (1 + exp(-1.702f * v))"
#define SILU "v / (1 + exp(-v))"

static const char *const unary[GGML_UNARY_OP_COUNT] = {
    [GGML_UNARY_OP_ABS] = "abs(v)",
    [GGML_UNARY_OP_SGN] = "where(v > 0, 1.0f, where(v < 0, -1.0f, 0.0f))",
    [GGML_UNARY_OP_NEG] = "-v",
    [GGML_UNARY_OP_STEP] = "where(v > 0, 1.0f, 0.0f)",
    [GGML_UNARY_OP_TANH] = "tanh(v)",
    [GGML_UNARY_OP_RELU] = "max(v, 0.0f)",
    [GGML_UNARY_OP_SIGMOID] = "1 / (1 + exp(-v))",
    [GGML_UNARY_OP_GELU] = GELU_TANH,
    [GGML_UNARY_OP_GELU_QUICK] = GELU_QUICK,
    [GGML_UNARY_OP_SILU] = SILU,
    [GGML_UNARY_OP_HARDSWISH] = "v * min(1.0f, max(0.0f, (v + 3) / 6))",
    [GGML_UNARY_OP_HARDSIGMOID] = "min(1.0f, max(0.0f, (v + 3) / 6))",
    [GGML_UNARY_OP_EXP] = "exp(v)",
    [GGML_UNARY_OP_GELU_ERF] = GELU_ERF,
    [GGML_UNARY_OP_FLOOR] = "floor(v)",
    [GGML_UNARY_OP_CEIL] = "ceil(v)",
    [GGML_UNARY_OP_TRUNC] = "trunc(v)",
};

/* Of v, which has the activation, and g. */
static const char *const glu[GGML_GLU_OP_COUNT] = {
    [GGML_GLU_OP_REGLU] = "max(v, 0.0f) * g",
    [GGML_GLU_OP_GEGLU] = GELU_TANH " * g",
    [GGML_GLU_OP_SWIGLU] = SILU " * g",
    [GGML_GLU_OP_GEGLU_ERF] = GELU_ERF " * g",
    [GGML_GLU_OP_GEGLU_QUICK] = GELU_QUICK " * g",
    /* $3: alpha, $4: limit */
    [GGML_GLU_OP_SWIGLU_OAI] = "min(v, $4[0]) / (1 + exp(-$3[0] * min(v, $4[0]))) * (min(max(g, -$4[0]), $4[0]) + 1)",
    [GGML_GLU_OP_SWIGLU_CLAMP] = "min(v, $4[0]) / (1 + exp(-min(v, $4[0]))) * min(max(g, -$4[0]), $4[0])",
};

/* ---- texts of rows ---- */

#define SOFTMAX(SCORE, LARGEST, MORE)                                                                                  \
  "    let m = " LARGEST "max(j : N, " SCORE ")" ";\n"                                                                 \
  "    let z = where(m == -inf, 0, m);\n"                                                                              \
  "    range(j, N) {\n      @1[j] = exp(" SCORE " - z);\n    }\n"                                                      \
  "    let s = sum(j : N, $1[j])" MORE ";\n"                                                                           \
  "    let r = where(s == 0, 0, 1 / s);\n"                                                                             \
  "    range(j, N) {\n      @1[j] = $1[j] * r;\n    }\n"
#define PLAIN "$0[j] * $2[0]"
#define MASKED "($0[j] * $2[0] + $3[j] * $4[0])"
static const char softmax[] = SOFTMAX(PLAIN, "", ""), softmax_masked[] = SOFTMAX(MASKED, "", "");
static const char softmax_sinks[] =
    "    let t = $3[0];\n"
    "    let m = max(t, max(j : N, " PLAIN "));\n"
    "    range(j, N) {\n      @1[j] = exp(" PLAIN " - m);\n    }\n"
    "    let s = sum(j : N, $1[j]) + exp(t - m);\n"
    "    range(j, N) {\n      @1[j] = $1[j] / s;\n    }\n";
static const char softmax_both[] =
    "    let t = $5[0];\n"
    "    let m = max(t, max(j : N, " MASKED "));\n"
    "    range(j, N) {\n      @1[j] = exp(" MASKED " - m);\n    }\n"
    "    let s = sum(j : N, $1[j]) + exp(t - m);\n"
    "    range(j, N) {\n      @1[j] = $1[j] / s;\n    }\n";

static const char norm[] =
    "    let m = sum(j : N, $0[j]) / f32(N);\n"
    "    let v = sum(j : N, ($0[j] - m) * ($0[j] - m)) / f32(N);\n"
    "    let r = rsqrt(v + $2[0]);\n"
    "    range(j, N) {\n      @1[j] = ($0[j] - m) * r;\n    }\n";
static const char rms_norm[] =
    "    let r = rsqrt(sum(j : N, $0[j] * $0[j]) / f32(N) + $2[0]);\n"
    "    range(j, N) {\n      @1[j] = $0[j] * r;\n    }\n";
static const char l2_norm[] =
    "    let r = 1 / max(sqrt(sum(j : N, $0[j] * $0[j])), $2[0]);\n"
    "    range(j, N) {\n      @1[j] = $0[j] * r;\n    }\n";
static const char scale[] = "    range(j, N) {\n      @1[j] = $0[j] * $2[0] + $3[0];\n    }\n";
static const char copy[] = "    range(j, N) {\n      @1[j] = $0[j];\n    }\n";

/* ---- which tensors ---- */

static bool is_f32(const struct ggml_tensor *t) { return t->type == GGML_TYPE_F32; }
static bool is_float(const struct ggml_tensor *t) { return tg_ggml_is_float(t->type); }
static bool has_whole_steps(const struct ggml_tensor *t) {
  for (int d = 0; d < 4; d++)
    if (t->nb[d] % ggml_type_size(t->type)) return false;
  return true;
}
/* Written rows lie one behind the other, in the order of their indices. */
static bool is_written_well(const struct ggml_tensor *t) {
  for (int d = 1; d < 4; d++)
    if (t->nb[d] < t->nb[d - 1] * (size_t)t->ne[d - 1]) return false;
  return t->nb[0] == ggml_type_size(t->type) && has_whole_steps(t);
}
static bool is_unary_of(const struct ggml_tensor *node, bool (*type)(const struct ggml_tensor *)) {
  const struct ggml_tensor *x = node->src[0];
  return type(x) && type(node) && has_whole_steps(x) && is_written_well(node);
}
static bool has_rows_of(const struct ggml_tensor *small, const struct ggml_tensor *node) {
  return small->ne[0] == node->ne[0] || small->ne[0] == 1;
}

static bool supports_softmax(const struct ggml_tensor *node) {
  const struct ggml_tensor *mask = node->src[1], *sinks = node->src[2];
  if (!is_unary_of(node, is_f32)) return false;
  if (mask && (!is_float(mask) || !has_whole_steps(mask))) return false;
  return !sinks || (is_f32(sinks) && ggml_is_contiguous(sinks));
}

static bool supports_glu(const struct ggml_tensor *node) {
  const struct ggml_tensor *g = node->src[1];
  if (!glu[ggml_get_glu_op(node)] || !is_unary_of(node, is_float)) return false;
  return node->src[0]->type == node->type && (!g || (g->type == node->type && has_whole_steps(g)));
}

static bool supports_binary(const struct ggml_tensor *node) {
  const struct ggml_tensor *b = node->src[1];
  return is_unary_of(node, is_float) && is_float(b) && has_whole_steps(b) && has_rows_of(b, node);
}

/* Elements keep their order; the shape may be another one where the result has no gaps. */
static bool supports_copy(const struct ggml_tensor *node) {
  const struct ggml_tensor *x = node->src[0];
  return tg_ggml_is_float(x->type) && tg_ggml_is_float(node->type) && has_whole_steps(x) && is_written_well(node) &&
         (ggml_are_same_shape(x, node) || ggml_is_contiguous(node));
}

static bool supports_get_rows(const struct ggml_tensor *node) {
  const struct ggml_tensor *x = node->src[0];
  return (tg_ggml_is_float(x->type) || tg_ggml_has_blocks(x->type)) && x->nb[0] == ggml_type_size(x->type) &&
         node->src[1]->type == GGML_TYPE_I32 && node->type == GGML_TYPE_F32 && node->nb[0] == sizeof(float);
}

bool tg_ggml_rows_supports(const struct ggml_tensor *node) {
  switch (node->op) {
    case GGML_OP_SOFT_MAX: return supports_softmax(node);
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_L2_NORM:
    case GGML_OP_SCALE: return is_unary_of(node, is_f32);
    case GGML_OP_UNARY: return unary[ggml_get_unary_op(node)] && is_unary_of(node, is_float);
    case GGML_OP_GLU: return supports_glu(node);
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV: return supports_binary(node);
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_DUP: return supports_copy(node);
    case GGML_OP_GET_ROWS: return supports_get_rows(node);
    default: return false;
  }
}

/* ---- runs ---- */

/* The loops over all rows of the result, with x as $0 and the result as @1. */
static tg_ggml_loops loops_of(const char *name, const char *body, const struct ggml_tensor *x,
                              const struct ggml_tensor *node) {
  tg_ggml_loops l = {.name = name, .body = body, .operands_n = 2};
  memcpy(l.ne, node->ne, sizeof l.ne);
  l.operand[0] = tg_ggml_reads(x);
  l.operand[1] = tg_ggml_writes(node);
  return l;
}
static void add(tg_ggml_loops *l, tg_ggml_operand o) { l->operand[l->operands_n++] = o; }

/* The slope of head h (Press et al. 2022): powers of one number for the first 2^n heads, of its root between them. */
const float *tg_ggml_slopes(tg_ggml_session *s, int64_t heads, float max_bias) {
  float *out = tg_ggml_scratch(s, GGML_TABLE, (size_t)heads * sizeof *out);
  int64_t whole = 1;
  while (2 * whole <= heads) whole *= 2;
  for (int64_t h = 0; out && h < heads; h++) {
    double e = h < whole ? (double)(h + 1) / (double)whole : (double)(2 * (h - whole) + 1) / (double)(2 * whole);
    out[h] = max_bias > 0 ? (float)exp2(-max_bias * e) : 1.0f;
  }
  return out;
}

static bool run_softmax(tg_ggml_session *s, struct ggml_tensor *node) {
  const struct ggml_tensor *mask = node->src[1], *sinks = node->src[2];
  float factor = ggml_get_op_params_f32(node, 0), max_bias = ggml_get_op_params_f32(node, 1);
  const char *body = mask ? sinks ? softmax_both : softmax_masked : sinks ? softmax_sinks : softmax;
  tg_ggml_loops l = loops_of("soft_max", body, node->src[0], node);
  add(&l, tg_ggml_number(&factor));
  if (mask) {
    const float *slopes = tg_ggml_slopes(s, node->ne[2], max_bias);
    if (!slopes) return false;
    tg_ggml_operand m = tg_ggml_reads(mask);
    m.ne[1] = node->ne[1];     /* a mask may have more rows than there are queries */
    add(&l, m);
    add(&l, tg_ggml_numbers(slopes, node->ne[2]));
  }
  if (sinks) add(&l, tg_ggml_numbers(sinks->data, node->ne[2]));
  return tg_ggml_run_loops(s, &l);
}

static bool run_with_number(tg_ggml_session *s, struct ggml_tensor *node, const char *name, const char *body) {
  float number = ggml_get_op_params_f32(node, 0), bias = ggml_get_op_params_f32(node, 1);
  tg_ggml_loops l = loops_of(name, body, node->src[0], node);
  add(&l, tg_ggml_number(&number));
  if (node->op == GGML_OP_SCALE) add(&l, tg_ggml_number(&bias));
  return tg_ggml_run_loops(s, &l);
}

static bool run_unary(tg_ggml_session *s, struct ggml_tensor *node) {
  char body[512];
  snprintf(body, sizeof body, "    range(j, N) {\n      let v = $0[j];\n      @1[j] = %s;\n    }\n",
           unary[ggml_get_unary_op(node)]);
  tg_ggml_loops l = loops_of("unary", body, node->src[0], node);
  return tg_ggml_run_loops(s, &l);
}

static bool run_glu(tg_ggml_session *s, struct ggml_tensor *node) {
  char body[640];
  const struct ggml_tensor *x = node->src[0], *g = node->src[1];
  bool swapped = ggml_get_op_params_i32(node, 1) != 0;
  float alpha = ggml_get_op_params_f32(node, 2), limit = ggml_get_op_params_f32(node, 3);
  snprintf(body, sizeof body,
           "    range(j, N) {\n      let v = $0[j];\n      let g = $2[j];\n      @1[j] = %s;\n    }\n",
           glu[ggml_get_glu_op(node)]);
  tg_ggml_loops l = loops_of("glu", body, x, node);
  tg_ggml_operand half = tg_ggml_reads(g ? g : x);
  if (!g) {                    /* the two halves of each row */
    tg_ggml_operand *moved = swapped ? &l.operand[0] : &half;
    l.operand[0].ne[0] = half.ne[0] = node->ne[0];
    moved->data = (char *)moved->data + (size_t)node->ne[0] * moved->nb[0];
  }
  add(&l, half);
  if (strstr(body, "$4")) {
    add(&l, tg_ggml_number(&alpha));
    add(&l, tg_ggml_number(&limit));
  }
  return tg_ggml_run_loops(s, &l);
}

static bool run_binary(tg_ggml_session *s, struct ggml_tensor *node) {
  char body[128];
  const struct ggml_tensor *b = node->src[1];
  const char *sign = node->op == GGML_OP_ADD   ? "+"
                     : node->op == GGML_OP_SUB ? "-"
                     : node->op == GGML_OP_MUL ? "*"
                                               : "/";
  snprintf(body, sizeof body, "    range(j, N) {\n      @1[j] = $0[j] %s $2[%s];\n    }\n", sign,
           b->ne[0] == 1 && node->ne[0] != 1 ? "0" : "j");
  tg_ggml_loops l = loops_of("binary", body, node->src[0], node);
  add(&l, tg_ggml_reads(b));
  return tg_ggml_run_loops(s, &l);
}

static bool run_copy(tg_ggml_session *s, struct ggml_tensor *node) {
  const struct ggml_tensor *x = node->src[0];
  tg_ggml_loops l = loops_of("copy", copy, x, node);
  if (!ggml_are_same_shape(x, node)) {
    tg_ggml_operand *y = &l.operand[1];
    memcpy(l.ne, x->ne, sizeof l.ne);
    memcpy(y->ne, x->ne, sizeof y->ne);
    for (int d = 1; d < 4; d++) y->nb[d] = y->nb[d - 1] * (size_t)y->ne[d - 1];
  }
  return tg_ggml_run_loops(s, &l);
}

/* Rows that ids name, as f32. */
static bool run_get_rows(struct ggml_tensor *node) {
  const struct ggml_tensor *x = node->src[0], *ids = node->src[1];
  ggml_to_float_t to_float = ggml_get_type_traits(x->type)->to_float;
  for (int64_t i = 0, all = ggml_nelements(ids); i < all; i++) {
    int64_t i1 = i % ids->ne[0], i2 = i / ids->ne[0] % ids->ne[1], i3 = i / ids->ne[0] / ids->ne[1];
    const char *id = (const char *)ids->data + i1 * (int64_t)ids->nb[0] + i2 * (int64_t)ids->nb[1] +
                     i3 * (int64_t)ids->nb[2];
    char *to = (char *)node->data + i1 * (int64_t)node->nb[1] + i2 * (int64_t)node->nb[2] + i3 * (int64_t)node->nb[3];
    int32_t row;
    memcpy(&row, id, sizeof row);
    if (row < 0 || row >= x->ne[1]) {
      GGML_LOG_ERROR("tg: row %d of %d\n", (int)row, (int)x->ne[1]);
      return false;
    }
    const char *from = (const char *)x->data + row * (int64_t)x->nb[1] + i2 * (int64_t)x->nb[2] +
                       i3 * (int64_t)x->nb[3];
    if (x->type == GGML_TYPE_F32) memcpy(to, from, (size_t)x->ne[0] * sizeof(float));
    else to_float(from, (float *)to, x->ne[0]);
  }
  return true;
}

bool tg_ggml_rows(tg_ggml_session *s, struct ggml_tensor *node) {
  switch (node->op) {
    case GGML_OP_SOFT_MAX: return run_softmax(s, node);
    case GGML_OP_NORM: return run_with_number(s, node, "norm", norm);
    case GGML_OP_RMS_NORM: return run_with_number(s, node, "rms_norm", rms_norm);
    case GGML_OP_L2_NORM: return run_with_number(s, node, "l2_norm", l2_norm);
    case GGML_OP_SCALE: return run_with_number(s, node, "scale", scale);
    case GGML_OP_UNARY: return run_unary(s, node);
    case GGML_OP_GLU: return run_glu(s, node);
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV: return run_binary(s, node);
    case GGML_OP_GET_ROWS: return run_get_rows(node);
    default: return run_copy(s, node);
  }
}
