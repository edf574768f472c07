/* SPDX-License-Identifier: MIT
 * The functions of the stand-in of ggml. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ggml/stand_in/stand_in.h"

char stand_in_told[4096];
bool stand_in_is_another;

void stand_in_log(const char *format, ...) {
  size_t n = strlen(stand_in_told), most = sizeof stand_in_told;
  va_list ap;
  if (n > most / 2) n = 0;
  va_start(ap, format);
  vsnprintf(stand_in_told + n, most - n, format, ap);
  va_end(ap);
}

static const struct { const char *name; size_t bytes; int64_t values; } types[GGML_TYPE_COUNT] = {
    {"f32", 4, 1}, {"f16", 2, 1}, {"bf16", 2, 1}, {"i32", 4, 1}, {"q8_0", 34, 32}, {"q4_0", 18, 32},
    {"q4_K", 144, 256}, {"q6_K", 210, 256}, {"other", 20, 32}};
size_t ggml_type_size(enum ggml_type t) { return types[t].bytes; }
int64_t ggml_blck_size(enum ggml_type t) { return types[t].values; }
const char *ggml_type_name(enum ggml_type t) { return types[t].name; }

static const char *const names[] = {
#define X(NAME) #NAME,
    STAND_IN_OPERATIONS(X)
#undef X
};
const char *ggml_op_name(enum ggml_op op) { return names[stand_in_is_another ? (op + 1) % GGML_OP_COUNT : op]; }
const char *ggml_op_desc(const struct ggml_tensor *t) { return ggml_op_name(t->op); }

/* What stands before a tensor: two sizes, a pointer and a type. */
size_t ggml_tensor_overhead(void) { return 4 * sizeof(size_t) + sizeof(struct ggml_tensor); }

int64_t ggml_nelements(const struct ggml_tensor *t) { return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; }
int64_t ggml_nrows(const struct ggml_tensor *t) { return t->ne[1] * t->ne[2] * t->ne[3]; }
bool ggml_is_empty(const struct ggml_tensor *t) { return ggml_nelements(t) == 0; }
bool ggml_are_same_shape(const struct ggml_tensor *a, const struct ggml_tensor *b) {
  return !memcmp(a->ne, b->ne, sizeof a->ne);
}
bool ggml_is_contiguous(const struct ggml_tensor *t) {
  size_t step = ggml_type_size(t->type);
  for (int d = 0; d < 4; d++) {
    if (t->ne[d] != 1 && t->nb[d] != step) return false;
    step = d ? step * (size_t)t->ne[d] : step * (size_t)(t->ne[0] / ggml_blck_size(t->type));
  }
  return true;
}

enum ggml_unary_op ggml_get_unary_op(const struct ggml_tensor *t) { return (enum ggml_unary_op)t->op_params[0]; }
enum ggml_glu_op ggml_get_glu_op(const struct ggml_tensor *t) { return (enum ggml_glu_op)t->op_params[0]; }
int ggml_graph_n_nodes(struct ggml_cgraph *g) { return g->n_nodes; }
struct ggml_tensor *ggml_graph_node(struct ggml_cgraph *g, int i) { return g->nodes[i]; }

static void blocks_to_float(enum ggml_type t, const void *from, float *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (float)stand_in_value(t, from, i);
}
static void f16_to_float(const void *from, float *to, int64_t n) { blocks_to_float(GGML_TYPE_F16, from, to, n); }
static void q8_0_to_float(const void *from, float *to, int64_t n) { blocks_to_float(GGML_TYPE_Q8_0, from, to, n); }
const struct ggml_type_traits *ggml_get_type_traits(enum ggml_type t) {
  static const struct ggml_type_traits f16 = {f16_to_float}, q8_0 = {q8_0_to_float};
  return t == GGML_TYPE_F16 ? &f16 : &q8_0;
}

void ggml_rope_yarn_corr_dims(int dims, int context, float base, float fast, float slow, float out[2]) {
  (void)context, (void)base, (void)fast, (void)slow;   /* tests stretch nothing */
  out[0] = 0, out[1] = (float)(dims - 1);
}

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) { return NULL; }
ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void *at, size_t bytes) {
  (void)at, (void)bytes;
  return NULL;
}
enum ggml_backend_buffer_usage ggml_backend_buffer_get_usage(ggml_backend_buffer_t b) { return b->usage; }
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t type) { return type == NULL; }

/* ---- values of all types, one at a time ---- */

static double half(const uint8_t *at) {
  uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double v = exponent ? (1024 + fraction) / 1024.0 : fraction / 512.0;
  for (uint32_t e = exponent; e < 15; e++) v /= 2;
  for (uint32_t e = 15; e < exponent; e++) v *= 2;
  return bits >> 15 ? -v : v;
}

static double q4_k(const uint8_t *b, int i) {
  int g = i / 32, q = i / 32 % 2 ? b[16 + i / 64 * 32 + i % 32] >> 4 : b[16 + i / 64 * 32 + i % 32] & 15;
  int scale = g < 4 ? b[4 + g] & 63 : (b[8 + g] & 15) | (b[g] >> 6 << 4);
  int least = g < 4 ? b[8 + g] & 63 : (b[8 + g] >> 4) | (b[4 + g] >> 6 << 4);
  return half(b) * scale * q - half(b + 2) * least;
}

static double q6_k(const uint8_t *b, int i) {
  int part = i / 128, run = i / 32 % 4, l = i % 32;
  int low = b[64 * part + run % 2 * 32 + l] >> (run < 2 ? 0 : 4) & 15, high = b[128 + 32 * part + l] >> 2 * run & 3;
  return half(b + 208) * (int8_t)b[192 + i / 16] * ((low | high << 4) - 32);
}

double stand_in_value(enum ggml_type t, const void *row, int64_t i) {
  const uint8_t *b = (const uint8_t *)row + i / types[t].values * (int64_t)types[t].bytes;
  int j = (int)(i % types[t].values);
  float f;
  switch (t) {
    case GGML_TYPE_F32: memcpy(&f, b, sizeof f); return f;
    case GGML_TYPE_F16: return half(b);
    case GGML_TYPE_Q8_0: return half(b) * (int8_t)b[2 + j];
    case GGML_TYPE_Q4_0: return half(b) * ((j < 16 ? b[2 + j] & 15 : b[2 + j - 16] >> 4) - 8);
    case GGML_TYPE_Q4_K: return q4_k(b, j);
    case GGML_TYPE_Q6_K: return q6_k(b, j);
    default: return 0;
  }
}
