/* SPDX-License-Identifier: MIT
 * The operations in float64, with the terms that errors come from, and operands in memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dsl/value.h"
#include "reference.h"
#include "trial/placed.h"

enum { GAP = 5 };

/* ---- mathematics ---- */

static double act(uint8_t a, double v) {
  switch (a) {
    case TG_NN_GELU: return 0.5 * v * erfc(-v * sqrt(0.5));
    case TG_NN_GELU_TANH: return 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
    case TG_NN_SILU: return v / (1 + exp(-v));
    case TG_NN_SIGMOID: return 1 / (1 + exp(-v));
    default: return v > 0 ? v : 0;
  }
}

/* The derivative, by a difference in long double steps that float64 can hold: no formula of the library's. */
static double slope(uint8_t a, double v) {
  if (a == TG_NN_RELU) return v > 0;
  const double h = 0x1p-13;
  return (8 * (act(a, v + h) - act(a, v - h)) - (act(a, v + 2 * h) - act(a, v - 2 * h))) / (12 * h);
}

#define X(OPERAND, I, J) (c->of[NN_##OPERAND].value[(I) * c->of[NN_##OPERAND].columns + (J)])

static void out(nn_case *c, uint32_t operand, int64_t i, int64_t j, double value, double scale) {
  nn_operand *o = &c->of[operand];
  if (!o->used) return;
  o->value[i * o->columns + j] = value, o->scale[i * o->columns + j] = scale;
}

static double weight(const nn_case *c, int64_t j) { return c->of[NN_weight].used ? X(weight, 0, j) : 1; }

typedef struct { double max, lse, mean, rstd, size; } row;   /* size: mean of |x| */

static row row_of(const nn_case *c, int64_t i) {
  row r = {.max = -INFINITY};
  double sum = 0, squares = 0, n = (double)c->n, e = c->d.epsilon ? (double)*c->d.epsilon : (double)1e-5f;
  for (int64_t j = 0; j < c->n; j++) r.max = fmax(r.max, X(x, i, j)), r.mean += X(x, i, j), r.size += fabs(X(x, i, j));
  if (c->n) r.mean /= n, r.size /= n;
  for (int64_t j = 0; j < c->n; j++) sum += exp(X(x, i, j) - r.max);
  r.lse = r.max + log(sum);
  if (c->d.op == TG_NN_RMSNORM) r.mean = 0;
  for (int64_t j = 0; j < c->n; j++) squares += (X(x, i, j) - r.mean) * (X(x, i, j) - r.mean);
  r.rstd = 1 / sqrt((c->n ? squares / n : 0) + e);
  return r;
}

static void forward(nn_case *c, int64_t i) {
  row r = c->d.op == TG_NN_ROPE ? (row){0} : row_of(c, i);
  uint8_t a = c->d.activation;
  for (int64_t j = 0; j < c->n; j++) {
    double v = X(x, i, j), g = c->of[NN_gate].used ? X(gate, i, j) : 1, w = weight(c, j),
           b = c->of[NN_bias].used ? X(bias, 0, j) : 0, p = exp(v - r.lse);
    switch (c->d.op) {
      case TG_NN_SOFTMAX: out(c, NN_y, i, j, p, p * (1 + r.max - v)); break;
      case TG_NN_LOG_SOFTMAX: out(c, NN_y, i, j, v - r.lse, fabs(v) + fabs(r.max) + fabs(r.lse - r.max) + 1); break;
      case TG_NN_LAYERNORM:
      case TG_NN_RMSNORM:
        out(c, NN_y, i, j, (v - r.mean) * r.rstd * w + b,
            (fabs(v) + (c->d.op == TG_NN_LAYERNORM ? r.size : 0)) * r.rstd * fabs(w) + fabs(b));
        break;
      case TG_NN_ACTIVATION:
      case TG_NN_GATE: out(c, NN_y, i, j, act(a, v) * g, a == TG_NN_RELU ? 0 : (a == TG_NN_SIGMOID ? 1 : fabs(v)) * fabs(g));
    }
  }
  out(c, NN_mean, 0, i, r.mean, r.size);
  out(c, NN_rstd, 0, i, r.rstd, r.rstd * (1 + (c->d.op == TG_NN_LAYERNORM ? r.size * r.rstd : 0)));
  out(c, NN_lse, 0, i, r.lse, fabs(r.max) + fabs(r.lse - r.max) + 1);
  if (c->d.op != TG_NN_CROSS_ENTROPY) return;
  double t = X(target, 0, i);
  if (t < 0) out(c, NN_loss, 0, i, 0, 0);
  else if (t >= (double)c->n) out(c, NN_loss, 0, i, NAN, 0);
  else out(c, NN_loss, 0, i, r.lse - X(x, i, (int64_t)t), fabs(r.max) + fabs(r.lse) + fabs(X(x, i, (int64_t)t)) + 1);
}

static void backward(nn_case *c, int64_t i) {
  double s = 0, away = 0, g = 0, h = 0, ga = 0, ha = 0, n = (double)c->n;
  uint8_t a = c->d.activation, op = c->d.op;
  bool norm = op == TG_NN_LAYERNORM || op == TG_NN_RMSNORM;
  double mean = op == TG_NN_LAYERNORM ? X(mean, 0, i) : 0, rstd = norm ? X(rstd, 0, i) : 0;
  for (int64_t j = 0; j < c->n; j++) {
    double d = op == TG_NN_CROSS_ENTROPY ? 0 : X(dy, i, j), y = op <= TG_NN_LOG_SOFTMAX ? X(y, i, j) : 0;
    double t = op == TG_NN_SOFTMAX ? y * d : d;
    s += t, away += fabs(t);
    if (!norm) continue;
    double u = d * weight(c, j), v = (X(x, i, j) - mean) * rstd;
    g += u / n, h += u * v / n, ga += fabs(u) / n, ha += fabs(u) * (fabs(X(x, i, j)) + fabs(mean)) * rstd / n;
  }
  for (int64_t j = 0; j < c->n; j++) {
    double d = op == TG_NN_CROSS_ENTROPY ? 0 : X(dy, i, j), y = op <= TG_NN_LOG_SOFTMAX ? X(y, i, j) : 0,
           x = c->of[NN_x].used ? X(x, i, j) : 0, v = (x - mean) * rstd, far = (fabs(x) + fabs(mean)) * rstd,
           u = norm ? d * weight(c, j) : 0, k = fabs(slope(a, x)) + (a == TG_NN_RELU ? 0 : 1 + fabs(x));
    switch (op) {
      case TG_NN_SOFTMAX: out(c, NN_dx, i, j, y * (d - s), y * (fabs(d) + away)); break;
      case TG_NN_LOG_SOFTMAX: out(c, NN_dx, i, j, d - exp(y) * s, fabs(d) + exp(y) * (1 + fabs(y)) * away); break;
      case TG_NN_LAYERNORM: out(c, NN_dx, i, j, rstd * (u - g - v * h), rstd * (fabs(u) + ga + far * ha)); break;
      case TG_NN_RMSNORM: out(c, NN_dx, i, j, rstd * (u - v * h), rstd * (fabs(u) + far * ha)); break;
      case TG_NN_ACTIVATION: out(c, NN_dx, i, j, d * slope(a, x), fabs(d) * k); break;
      case TG_NN_GATE:
        out(c, NN_dx, i, j, d * X(gate, i, j) * slope(a, x), fabs(d * X(gate, i, j)) * k);
        out(c, NN_dgate, i, j, d * act(a, x), fabs(d) * (a == TG_NN_RELU ? fabs(x) : 1 + fabs(x)));
        break;
      case TG_NN_CROSS_ENTROPY: {
        double t = X(target, 0, i), p = exp(x - X(lse, 0, i)), by = t < 0 ? 0 : t < n ? X(dloss, 0, i) : NAN;
        out(c, NN_dx, i, j, (p - ((double)j == t)) * by, (p * (1 + fabs(x) + fabs(X(lse, 0, i))) + 1) * fabs(by));
      }
    }
    if (!norm) continue;
    X(dweight, 0, j) += c->of[NN_dweight].used ? d * v : 0, X(dbias, 0, j) += c->of[NN_dbias].used ? d : 0;
    c->of[NN_dweight].scale[j] += fabs(d) * far, c->of[NN_dbias].scale[j] += fabs(d);
  }
}

static void turn(nn_case *c, int64_t i) {
  int64_t d = c->d.head ? c->d.head : c->n, r = c->d.rotary ? c->d.rotary : d, p = (int64_t)X(position, 0, i);
  bool back = c->d.backward, by_twos = c->d.flags & TG_NN_INTERLEAVED;
  uint32_t from = back ? NN_dy : NN_x, to = back ? NN_dx : NN_y;
  p = p < 0 ? 0 : p >= c->positions ? c->positions - 1 : p;
  for (int64_t j = 0; j < c->n; j++) {
    int64_t e = j % d, k = by_twos ? e / 2 : e % (r / 2), first = by_twos ? 2 * k : k, second = by_twos ? 2 * k + 1 : k + r / 2;
    const double *x = c->of[from].value + i * c->n + j - e;
    if (e >= r) {
      out(c, to, i, j, x[e], 0);
      continue;
    }
    double co = X(cosine, p, k), si = back ? -X(sine, p, k) : X(sine, p, k), a = x[first], b = x[second];
    out(c, to, i, j, e == first ? a * co - b * si : b * co + a * si, fabs(a * co) + fabs(b * si) + fabs(b * co) + fabs(a * si));
  }
}

/* ---- operands ---- */

static void put_elements(nn_operand *o, bool values) {
  size_t size = tg_type_bytes(o->type);
  memset(o->at.data, 0xff, o->at.bytes);
  for (int64_t i = 0; values && i < o->rows; i++)
    for (int64_t j = 0; j < o->columns; j++)
      tg_number_put(o->type, o->at.data, (size_t)(i * o->ld + j), o->value[i * o->columns + j]);
  (void)size;
}

static void make_operand(nn_case *c, const tg_nn_problem *p, uint32_t i, bool front) {
  const tg_nn_operand *x = &tg_nn_operands[i];
  nn_operand *o = &c->of[i];
  int64_t half = (c->d.rotary ? c->d.rotary : c->d.head ? c->d.head : c->n) / 2;
  o->type = p->type[x->type];
  o->rows = x->shape == NN_MATRIX ? c->m : x->shape == NN_TABLE ? c->positions : 1;
  o->columns = x->shape == NN_ROWS ? c->m : x->shape == NN_TABLE ? half : c->n;
  o->ld = o->columns + (x->shape == NN_MATRIX ? GAP + (int64_t)i % 3 : 0);
  if (!o->ld) o->ld = 1;
  size_t count = (size_t)(o->rows * o->columns) + 1;
  o->value = calloc(count, sizeof(double)), o->scale = calloc(count, sizeof(double));
  int64_t elements = o->rows && o->columns ? (o->rows - 1) * o->ld + o->columns : 0;
  if (!o->value || !o->scale || !tg_guard_take(&o->at, (size_t)elements * tg_type_bytes(o->type), 0, front)) abort();
  for (int64_t k = 0; k < o->rows * o->columns && !o->written; k++) {
    double v = tg_draw_unit(&c->seed, TG_F32);
    if (i == NN_x) v = v * c->spread + c->centre;
    if (i == NN_target) v = (double)((int64_t)(tg_draw(&c->seed) >> 40) % (c->n + 2) - 1);
    if (i == NN_position) v = (double)((int64_t)(tg_draw(&c->seed) >> 40) % (c->positions + 2) - 1);
    o->value[k] = o->type == TG_I32 ? v : tg_round_to(o->type, v);
  }
}

/* What gradients read is what the forward pass gives: y of softmax, and statistics. */
static void derive(nn_case *c) {
  for (int64_t i = 0; c->d.backward && i < c->m; i++) {
    double sum = 0;
    if (c->d.op <= TG_NN_LOG_SOFTMAX) {
      for (int64_t j = 0; j < c->n; j++) sum += exp(3 * X(y, i, j));
      for (int64_t j = 0; j < c->n; j++) {
        double l = 3 * X(y, i, j) - log(sum);
        X(y, i, j) = tg_round_to(c->of[NN_y].type, c->d.op == TG_NN_SOFTMAX ? exp(l) : l);
      }
      continue;
    }
    if (!c->of[NN_x].used) continue;
    row r = row_of(c, i);
    if (c->of[NN_mean].used) X(mean, 0, i) = tg_round_to(TG_F32, r.mean);
    if (c->of[NN_rstd].used) X(rstd, 0, i) = tg_round_to(TG_F32, r.rstd);
    if (c->of[NN_lse].used) X(lse, 0, i) = tg_round_to(TG_F32, r.lse);
  }
}

void nn_case_make(nn_case *c, bool front) {
  tg_nn_problem p = {.op = c->d.op, .backward = c->d.backward, .statistics = c->d.statistics};
  const tg_nn_operation *o = tg_nn_operation_of(c->d.op, c->d.backward);
  p.type[NN_OF_X] = c->d.x ? c->d.x : TG_F32, p.type[NN_OF_Y] = c->d.y ? c->d.y : p.type[NN_OF_X];
  p.type[NN_OF_WEIGHT] = c->d.weight, p.type[NN_OF_BIAS] = c->d.bias, p.type[NN_FLOAT] = TG_F32;
  p.type[NN_INTEGER] = TG_I32;
  /* which operands an operation has is asked of the library's own table; a wrong table gives wrong results here */
  uint32_t used = 0;
  char text[8192];
  p.rows = p.columns = (tg_kit_dim){1, 2}, p.head = c->d.op == TG_NN_ROPE ? 2 : 0, p.rotary = p.head;
  tg_nn_write(&p, "k", o->rows, text, sizeof text, &used);
  if (o->columns) tg_nn_write(&p, "k", o->columns, text, sizeof text, &used);
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    static const uint32_t results[2][3] = {{NN_y, NN_loss, NN_loss}, {NN_dx, NN_dgate, NN_dweight}};
    c->of[i].used = used >> i & 1;
    for (uint32_t k = 0; k < 3; k++) c->of[i].written |= c->of[i].used && results[c->d.backward][k] == i;
    bool counted = i == NN_mean || i == NN_rstd || i == NN_lse;
    c->of[i].written |= c->of[i].used && ((counted && !c->d.backward) || i == NN_dbias);
    make_operand(c, &p, i, front);
  }
  derive(c);
  for (int64_t i = 0; i < c->m; i++) {
    if (c->d.op == TG_NN_ROPE) turn(c, i);
    else if (c->d.backward) backward(c, i);
    else forward(c, i);
  }
  if (c->d.flags & TG_NN_IN_PLACE) c->of[o->place].used = false;
  nn_case_reset(c);
}

void nn_case_reset(nn_case *c) {
  const tg_nn_operation *o = tg_nn_operation_of(c->d.op, c->d.backward);
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    nn_operand *x = &c->of[i];
    if (!(c->d.flags & TG_NN_IN_PLACE) || i != o->taken) {
      put_elements(x, !x->written);
      continue;
    }
    double *result = x->value;
    x->value = c->of[o->place].value;
    put_elements(x, true);
    x->value = result;
  }
}

tg_nn_call nn_case_call(nn_case *c) {
  tg_nn_call call = {.rows = c->m, .columns = c->n, .positions = c->d.op == TG_NN_ROPE ? c->positions : 0};
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    const tg_nn_operand *x = &tg_nn_operands[i];
    void *p = c->of[i].at.data;
    if (!c->of[i].used) continue;
    memcpy((char *)&call + x->at, &p, sizeof p);
    if (x->ld) memcpy((char *)&call + x->ld, &c->of[i].ld, sizeof(int64_t));
  }
  return call;
}

static double ulp_of(tg_type t, double v) {
  int e, bits = t == TG_F16 ? 11 : t == TG_BF16 ? 8 : 24, least = t == TG_F16 ? -24 : -133 - (t == TG_F32) * 16;
  frexp(v, &e);
  return ldexp(1, e - bits > least ? e - bits : least);
}

int64_t nn_case_wrong(const nn_case *c, double *worst) {
  int64_t wrong = 0;
  for (uint32_t k = 0; k < NN_OPERANDS; k++) {
    const nn_operand *o = &c->of[k];
    double terms = k == NN_dweight || k == NN_dbias ? (double)c->m : (double)c->n;
    for (int64_t i = 0; o->used && i < o->rows; i++)
      for (int64_t j = 0; j < o->ld && i * o->ld + j < (i + 1 < o->rows ? INT64_MAX : (o->rows - 1) * o->ld + o->columns); j++) {
        size_t at = (size_t)(i * o->ld + j), size = tg_type_bytes(o->type);
        double got = tg_number_get(o->type, o->at.data, at);
        if (j >= o->columns) {
          for (size_t b = 0; b < size; b++) wrong += ((uint8_t *)o->at.data)[at * size + b] != 0xff;
          continue;
        }
        double want = o->value[i * o->columns + j];
        if (!o->written) {
          wrong += !(got == want || (isnan(got) && isnan(want)));
          continue;
        }
        if (isnan(want) || isinf(want)) {
          wrong += isnan(want) ? !isnan(got) : got != want;
          continue;
        }
        double away = (16 + 2 * sqrt(terms)) * 0x1p-24 * o->scale[i * o->columns + j] + 0.51 * ulp_of(o->type, want) + 0x1p-120;
        if (!(fabs(got - want) <= away)) wrong++;
        if (fabs(got - want) / away > *worst) *worst = fabs(got - want) / away;
      }
  }
  return wrong;
}

void nn_case_free(nn_case *c) {
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    free(c->of[i].value), free(c->of[i].scale);
    tg_guard_drop(&c->of[i].at);
    c->of[i] = (nn_operand){0};
  }
}
