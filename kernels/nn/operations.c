/* SPDX-License-Identifier: MIT
 * The small operations in the language: one text for each, in which operands are read as f32 and a line that begins
 * with one writes it (text.c makes a kernel of it). */
#include <stddef.h>
#include "nn/operations.h"

const tg_nn_operand tg_nn_operands[NN_OPERANDS] = {
#define NN_LD_NN_MATRIX(NAME) offsetof(tg_nn_call, NAME##_ld)
#define NN_LD_NN_COLUMNS(NAME) 0
#define NN_LD_NN_ROWS(NAME) 0
#define NN_LD_NN_TABLE(NAME) 0
#define TG_NN_OPERAND(NAME, SHAPE, TYPE, NEEDS, NEUTRAL)                                                               \
  {#NAME, NEUTRAL, SHAPE, TYPE, NEEDS, offsetof(tg_nn_call, NAME), NN_LD_##SHAPE(NAME)},
#include "nn/operands.def"
#undef TG_NN_OPERAND
};

/* KEEP keeps the weights exp(x - max), TERM is one of them, so that exponentials are computed once. A row of -inf has
 * z = 0, so that all its weights are 0. */
#define SOFTMAX(KEEP, TERM)                                                                                            \
  "range(i, M) {\n"                                                                                                    \
  "  let m = max(j : N, x[i,j]);\n"                                                                                    \
  "  let z = where(m == -inf, 0, m);\n" KEEP                                                                           \
  "  let s = sum(j : N, " TERM ");\n"                                                                                  \
  "  let r = where(s == 0, 0, 1 / s);\n"                                                                               \
  "  range(j, N) {\n"                                                                                                  \
  "    y[i,j] = " TERM " * r;\n"                                                                                       \
  "  }\n"                                                                                                              \
  "}\n"
static const char softmax[] = SOFTMAX("  range(j, N) {\n"
                                      "    y[i,j] = exp(x[i,j] - z);\n"
                                      "  }\n",
                                      "y[i,j]");
static const char softmax_narrow[] = SOFTMAX("  define_local(kept, f32, [N]);\n"
                                             "  range(j, N) kept[j] = exp(x[i,j] - z);\n",
                                             "kept[j]");
static const char softmax_device[] = SOFTMAX("", "exp(x[i,j] - z)");

static const char log_softmax[] =
    "range(i, M) {\n"
    "  let m = max(j : N, x[i,j]);\n"
    "  let z = where(m == -inf, 0, m);\n"
    "  let l = where(m == -inf, 0, log(sum(j : N, exp(x[i,j] - z))));\n"   /* and so y = -inf */
    "  range(j, N) {\n"
    "    y[i,j] = x[i,j] - z - l;\n"
    "  }\n"
    "}\n";

static const char layernorm[] =
    "range(i, M) {\n"
    "  let m = sum(j : N, x[i,j]) / f32(N);\n"
    "  let v = sum(j : N, (x[i,j] - m) * (x[i,j] - m)) / f32(N);\n"
    "  let r = rsqrt(v + epsilon);\n"
    "  mean[i] = m;\n"
    "  rstd[i] = r;\n"
    "  range(j, N) {\n"
    "    y[i,j] = (x[i,j] - m) * r * weight[j] + bias[j];\n"
    "  }\n"
    "}\n";

static const char rmsnorm[] =
    "range(i, M) {\n"
    "  let r = rsqrt(sum(j : N, x[i,j] * x[i,j]) / f32(N) + epsilon);\n"
    "  rstd[i] = r;\n"
    "  range(j, N) {\n"
    "    y[i,j] = x[i,j] * r * weight[j];\n"
    "  }\n"
    "}\n";

/* SIGN: of the angle. FIRST, SECOND: the elements of the turned pair. */
#define TURN(FROM, TO, SIGN, FIRST, SECOND)                                                                            \
  "    let c = cosine[position[i], d];\n"                                                                              \
  "    let s = " SIGN "sine[position[i], d];\n"                                                                        \
  "    let a = " FROM "[i, h, d*STEP];\n"                                                                              \
  "    let b = " FROM "[i, h, d*STEP + FAR];\n"                                                                        \
  "    " TO "[i, h, d*STEP] = " FIRST ";\n"                                                                            \
  "    " TO "[i, h, d*STEP + FAR] = " SECOND ";\n"
#define ROPE(FROM, TO, SIGN, FIRST, SECOND)                                                                            \
  "range(i, M) range(h, H) {\n"                                                                                        \
  "  range(d, R/2) {\n" TURN(FROM, TO, SIGN, FIRST, SECOND) "  }\n"                                                   \
  "  range(d, D - R) {\n"                                                                                              \
  "    " TO "[i, h, R + d] = " FROM "[i, h, R + d];\n"                                                                 \
  "  }\n"                                                                                                              \
  "}\n"
#define ROUNDED "a * c - b * s", "b * c + a * s"
#define FUSED "fma(a, c, -(b * s))", "fma(b, c, a * s)"
#define ROPE_OF(...) ROPE(__VA_ARGS__)
static const char rope[] = ROPE_OF("x", "y", "", ROUNDED), rope_backward[] = ROPE_OF("dy", "dx", "-", ROUNDED),
                  rope_fused[] = ROPE_OF("x", "y", "", FUSED), rope_backward_fused[] = ROPE_OF("dy", "dx", "-", FUSED);

static const char cross_entropy[] =
    "range(i, M) {\n"
    "  let m = max(j : N, x[i,j]);\n"
    "  let z = where(m == -inf, 0, m);\n"
    "  let l = log(sum(j : N, exp(x[i,j] - z)));\n"
    "  let t = index(target[i]);\n"
    "  lse[i] = z + l;\n"
    "  loss[i] = where(t < 0, 0, where(t >= 0 & t < N, z - x[i,t] + l, nan));\n"
    "}\n";

static const char activation[] =
    "range(i, M) range(j, N) {\n"
    "  y[i,j] = act(x[i,j]);\n"
    "}\n";

static const char gate[] =
    "range(i, M) range(j, N) {\n"
    "  y[i,j] = act(x[i,j]) * gate[i,j];\n"
    "}\n";

/* ---- gradients ---- */

static const char softmax_backward[] =
    "range(i, M) {\n"
    "  let s = sum(j : N, y[i,j] * dy[i,j]);\n"
    "  range(j, N) {\n"
    "    dx[i,j] = y[i,j] * (dy[i,j] - s);\n"
    "  }\n"
    "}\n";

static const char log_softmax_backward[] =
    "range(i, M) {\n"
    "  let s = sum(j : N, dy[i,j]);\n"
    "  range(j, N) {\n"
    "    dx[i,j] = dy[i,j] - exp(y[i,j]) * s;\n"
    "  }\n"
    "}\n";

static const char layernorm_backward[] =
    "range(i, M) {\n"
    "  let m = mean[i];\n"
    "  let r = rstd[i];\n"
    "  let a = sum(j : N, dy[i,j] * weight[j]) / f32(N);\n"
    "  let b = sum(j : N, dy[i,j] * weight[j] * ((x[i,j] - m) * r)) / f32(N);\n"
    "  range(j, N) {\n"
    "    dx[i,j] = r * (dy[i,j] * weight[j] - a - (x[i,j] - m) * r * b);\n"
    "  }\n"
    "}\n";
static const char layernorm_columns[] =
    "range(j, N) {\n"
    "  dweight[j] = sum(i : M, dy[i,j] * ((x[i,j] - mean[i]) * rstd[i]));\n"
    "  dbias[j] = sum(i : M, dy[i,j]);\n"
    "}\n";

static const char rmsnorm_backward[] =
    "range(i, M) {\n"
    "  let r = rstd[i];\n"
    "  let b = sum(j : N, dy[i,j] * weight[j] * (x[i,j] * r)) / f32(N);\n"
    "  range(j, N) {\n"
    "    dx[i,j] = r * (dy[i,j] * weight[j] - x[i,j] * r * b);\n"
    "  }\n"
    "}\n";
static const char rmsnorm_columns[] =
    "range(j, N) {\n"
    "  dweight[j] = sum(i : M, dy[i,j] * (x[i,j] * rstd[i]));\n"
    "}\n";

static const char cross_entropy_backward[] =
    "range(i, M) {\n"
    "  let t = index(target[i]);\n"
    "  let g = where(t < 0, 0, where(t < N, dloss[i], nan));\n"
    "  range(j, N) {\n"
    "    dx[i,j] = (exp(x[i,j] - lse[i]) - where(j == t, 1, 0)) * g;\n"
    "  }\n"
    "}\n";

static const char activation_backward[] =
    "range(i, M) range(j, N) {\n"
    "  dx[i,j] = dy[i,j] * slope(x[i,j]);\n"
    "}\n";

static const char gate_backward[] =
    "range(i, M) range(j, N) {\n"
    "  let g = dy[i,j];\n"
    "  let z = x[i,j];\n"
    "  dgate[i,j] = g * act(z);\n"
    "  dx[i,j] = g * gate[i,j] * slope(z);\n"
    "}\n";

/* ---- the table ---- */

#define BOTH(OP) [2 * (OP)]
#define BACK(OP) [2 * (OP) + 1]
static const tg_nn_operation operations[] = {
    BOTH(TG_NN_SOFTMAX) = {.name = "softmax", .rows = softmax, .narrow = softmax_narrow, .device = softmax_device,
                           .place = NN_x, .taken = NN_y},
    BACK(TG_NN_SOFTMAX) = {.name = "softmax_backward", .rows = softmax_backward, .place = NN_dy, .taken = NN_dx},
    BOTH(TG_NN_LOG_SOFTMAX) = {.name = "log_softmax", .rows = log_softmax, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_LOG_SOFTMAX) = {.name = "log_softmax_backward", .rows = log_softmax_backward, .place = NN_dy,
                               .taken = NN_dx},
    BOTH(TG_NN_LAYERNORM) = {.name = "layernorm", .rows = layernorm, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_LAYERNORM) = {.name = "layernorm_backward", .rows = layernorm_backward, .columns = layernorm_columns,
                             .place = NN_dy, .taken = NN_dx},
    BOTH(TG_NN_RMSNORM) = {.name = "rmsnorm", .rows = rmsnorm, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_RMSNORM) = {.name = "rmsnorm_backward", .rows = rmsnorm_backward, .columns = rmsnorm_columns,
                           .place = NN_dy, .taken = NN_dx},
    BOTH(TG_NN_ROPE) = {.name = "rope", .rows = rope, .fused = rope_fused, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_ROPE) = {.name = "rope_backward", .rows = rope_backward, .fused = rope_backward_fused, .place = NN_dy,
                        .taken = NN_dx},
    BOTH(TG_NN_CROSS_ENTROPY) = {.name = "cross_entropy", .rows = cross_entropy},
    BACK(TG_NN_CROSS_ENTROPY) = {.name = "cross_entropy_backward", .rows = cross_entropy_backward, .place = NN_x,
                                 .taken = NN_dx},
    BOTH(TG_NN_ACTIVATION) = {.name = "activation", .rows = activation, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_ACTIVATION) = {.name = "activation_backward", .rows = activation_backward, .place = NN_dy,
                              .taken = NN_dx},
    BOTH(TG_NN_GATE) = {.name = "gate", .rows = gate, .place = NN_x, .taken = NN_y},
    BACK(TG_NN_GATE) = {.name = "gate_backward", .rows = gate_backward, .place = NN_dy, .taken = NN_dx},
};

const tg_nn_operation *tg_nn_operation_of(uint8_t op, bool backward) {
  uint32_t i = 2u * op + backward;
  return op && i < TG_COUNT(operations) ? &operations[i] : NULL;
}
