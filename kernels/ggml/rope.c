/* SPDX-License-Identifier: MIT
 * ROPE: pairs of each head's elements, turned by angles of the token's position (Su et al. 2021). Which elements are a
 * pair, and which of a token's up to four positions a pair takes, are modes of ggml; the angles can be stretched (YaRN,
 * Peng et al. 2023). Cosines and sines of all tokens are a table first, which all heads share. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ggml/module.h"

typedef struct {
  int dims, mode, context, offset, sections[4];
  float base, scale, ext, magnitude, fast, slow;
  /* of a head: pairs, elements from one pair to the next, and from a pair's first one to its second one */
  int64_t pairs, step, far;
  float low, high;              /* pairs between which the angles go from stretched to not stretched */
} rotation;

static rotation rotation_of(const struct ggml_tensor *node) {
  rotation r;
  r.dims = ggml_get_op_params_i32(node, 1), r.mode = ggml_get_op_params_i32(node, 2);
  r.context = ggml_get_op_params_i32(node, 4), r.offset = ggml_get_op_params_i32(node, 15);
  r.base = ggml_get_op_params_f32(node, 5), r.scale = ggml_get_op_params_f32(node, 6);
  r.ext = ggml_get_op_params_f32(node, 7), r.magnitude = ggml_get_op_params_f32(node, 8);
  r.fast = ggml_get_op_params_f32(node, 9), r.slow = ggml_get_op_params_f32(node, 10);
  for (uint32_t i = 0; i < 4; i++) r.sections[i] = ggml_get_op_params_i32(node, 11 + i);
  bool vision = r.mode == GGML_ROPE_TYPE_VISION, normal = r.mode == GGML_ROPE_TYPE_NORMAL;
  r.pairs = vision ? node->ne[0] / 2 : r.dims / 2;
  r.step = normal ? 2 : 1;
  r.far = normal ? 1 : r.pairs;
  float ends[2];
  ggml_rope_yarn_corr_dims(r.dims, r.context, r.base, r.fast, r.slow, ends);
  r.low = ends[0], r.high = ends[1];
  return r;
}

bool tg_ggml_rope_supports(const struct ggml_tensor *node) {
  const struct ggml_tensor *x = node->src[0], *factors = node->src[2];
  if ((x->type != GGML_TYPE_F32 && x->type != GGML_TYPE_F16) || node->type != x->type) return false;
  size_t size = ggml_type_size(x->type);
  if (x->nb[0] != size || node->nb[0] != size) return false;
  for (int d = 1; d < 4; d++)
    if (x->nb[d] % size || node->nb[d] < node->nb[d - 1] * (size_t)node->ne[d - 1]) return false;
  rotation r = rotation_of(node);
  int all = r.sections[0] + r.sections[1] + r.sections[2] + r.sections[3];
  switch (r.mode) {
    case GGML_ROPE_TYPE_NORMAL:
    case GGML_ROPE_TYPE_NEOX: break;
    case GGML_ROPE_TYPE_MROPE:
    case GGML_ROPE_TYPE_IMROPE:
    case GGML_ROPE_TYPE_VISION:
      if (all <= 0) return false;
      break;
    default: return false;
  }
  return !factors || factors->type == GGML_TYPE_F32;
}

/* ---- angles ---- */

/* Which of the token's positions pair k takes, and how many steps its frequency has. */
static int position_of(const rotation *r, int64_t k, int64_t *steps) {
  *steps = k;
  if (!(r->mode & GGML_ROPE_TYPE_MROPE)) return 0;
  const int *n = r->sections, all = n[0] + n[1] + n[2] + n[3], sector = (int)(k % all);
  int which = sector < n[0] ? 0 : sector < n[0] + n[1] ? 1 : sector < n[0] + n[1] + n[2] ? 2 : 3;
  if (r->mode == GGML_ROPE_TYPE_VISION) {   /* each section has its own frequencies */
    for (int s = 0; s < which; s++) *steps -= n[s];
    *steps -= k / all * all;
  } else if (r->mode == GGML_ROPE_TYPE_IMROPE) {   /* the first three positions in turn */
    which = sector % 3;
    if (sector >= 3 * n[which]) which = 3;
  }
  return which;
}

static void put_angle(const rotation *r, float extrapolated, int64_t k, float sign, float *cosine, float *sine) {
  float angle = r->scale * extrapolated, magnitude = r->magnitude;
  if (r->ext != 0) {
    float width = r->high - r->low, at = ((float)k - r->low) / (width > 0.001f ? width : 0.001f);
    float mix = (1 - fminf(1, fmaxf(0, at))) * r->ext;
    angle = angle * (1 - mix) + extrapolated * mix;
    magnitude *= 1 + 0.1f * logf(1 / r->scale);
  }
  *cosine = cosf(angle) * magnitude;
  *sine = sign * sinf(angle) * magnitude;
}

/* [tokens][2][pairs]: cosines and sines. */
static float *make_table(tg_ggml_session *s, const struct ggml_tensor *node, const rotation *r) {
  const struct ggml_tensor *positions = node->src[1], *factors = node->src[2];
  int64_t tokens = node->ne[2], n = r->pairs;
  float *table = tg_ggml_scratch(s, GGML_TABLE, (size_t)((2 * tokens + 1) * n) * sizeof *table);
  if (!table) return NULL;
  float *frequency = table + 2 * tokens * n;
  for (int64_t k = 0; k < n; k++) {
    int64_t steps;
    position_of(r, k, &steps);
    float f = factors ? ((const float *)factors->data)[k] : 1;
    frequency[k] = (float)(pow((double)r->base, -2.0 * (double)steps / r->dims) / (double)f);
  }
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t k = 0; k < n; k++) {
      int64_t steps;
      int32_t p = ((const int32_t *)positions->data)[t + position_of(r, k, &steps) * tokens];
      put_angle(r, (float)p * frequency[k], k, node->op == GGML_OP_ROPE_BACK ? -1 : 1, &table[2 * t * n + k],
                &table[(2 * t + 1) * n + k]);
    }
  return table;
}

/* ---- the turn ---- */

static tg_ggml_operand row_of_table(const float *at, int64_t pairs, int64_t tokens) {
  size_t bytes = (size_t)pairs * sizeof(float);
  return (tg_ggml_operand){.data = (void *)at, .type = TG_F32, .ne = {pairs, 1, tokens, 1}, .read = true,
                           .nb = {sizeof(float), bytes, 2 * bytes, 2 * bytes * (size_t)tokens}};
}

bool tg_ggml_rope(tg_ggml_session *s, struct ggml_tensor *node) {
  rotation r = rotation_of(node);
  float *table = make_table(s, node, &r);
  if (!table) return false;
  char body[1024];
  long long pairs = r.pairs, offset = r.offset, step = r.step, far = r.far, end = offset + 2 * pairs;
  snprintf(body, sizeof body,
           "    range(k, %lld) {\n"
           "      let c = $2[k];\n"
           "      let s = $3[k];\n"
           "      let a = $0[%lld + k*%lld];\n"
           "      let b = $0[%lld + k*%lld];\n"
           "      @1[%lld + k*%lld] = a * c - b * s;\n"
           "      @1[%lld + k*%lld] = b * c + a * s;\n"
           "    }\n"
           "    range(k, %lld) {\n      @1[k] = $0[k];\n    }\n"
           "    range(k, %lld) {\n      @1[%lld + k] = $0[%lld + k];\n    }\n",
           pairs, offset, step, offset + far, step, offset, step, offset + far, step, offset,
           (long long)node->ne[0] - end, end, end);
  tg_ggml_loops l = {.name = "rope", .body = body, .fixed = true, .operands_n = 4};
  memcpy(l.ne, node->ne, sizeof l.ne);
  l.operand[0] = tg_ggml_reads(node->src[0]);
  l.operand[1] = tg_ggml_writes(node);
  l.operand[2] = row_of_table(table, r.pairs, node->ne[2]);
  l.operand[3] = row_of_table(table + r.pairs, r.pairs, node->ne[2]);
  return tg_ggml_run_loops(s, &l);
}
