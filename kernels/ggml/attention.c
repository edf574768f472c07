/* SPDX-License-Identifier: MIT
 * FLASH_ATTN_EXT by tg/attention.h. Q, K and V are read where they lie, by their strides; block-quantised K and V
 * become f32 in memory first. ggml's mask has the slopes of heads (ALiBi) as factors, which is a score_mod here. */
#include <math.h>
#include <string.h>
#include "ggml/module.h"

enum { LARGEST_HEAD = 576 };

static bool has_rows(const struct ggml_tensor *t) {
  size_t size = ggml_type_size(t->type);
  if (!tg_ggml_is_float(t->type) && !tg_ggml_has_blocks(t->type)) return false;
  if (t->nb[0] != size || t->ne[0] > LARGEST_HEAD) return false;
  for (int d = 1; d < 4; d++)
    if (!tg_ggml_has_blocks(t->type) && t->nb[d] % size) return false;
  return true;
}

bool tg_ggml_attend_supports(const struct ggml_tensor *node) {
  const struct ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3];
  if (!has_rows(q) || !has_rows(k) || !has_rows(v) || !tg_ggml_is_float(q->type)) return false;
  if (node->type != GGML_TYPE_F32 || !ggml_is_contiguous(node)) return false;
  if (k->ne[2] != v->ne[2] || q->ne[2] % k->ne[2] || k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3]) return false;
  if (node->src[4] && (node->src[4]->type != GGML_TYPE_F32 || !ggml_is_contiguous(node->src[4]))) return false;
  if (!mask) return true;
  return mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && (mask->ne[2] == 1 || mask->ne[2] == q->ne[2]) &&
         (mask->ne[3] == 1 || mask->ne[3] == q->ne[3]);
}

/* K or V as the call wants it: its pointer, type and strides (sequence, head, token). */
typedef struct { const void *at; tg_type type; int64_t strides[3]; } operand;

static bool unpack(tg_ggml_session *s, const struct ggml_tensor *t, int which, operand *out) {
  int64_t n = t->ne[0], tokens = t->ne[1], heads = t->ne[2];
  float *at = tg_ggml_scratch(s, which, (size_t)ggml_nelements(t) * sizeof *at);
  if (!at) return false;
  *out = (operand){at, TG_F32, {heads * tokens * n, tokens * n, n}};
  for (int64_t b = 0; b < t->ne[3]; b++)
    for (int64_t h = 0; h < heads; h++) {
      const char *rows = (const char *)t->data + h * (int64_t)t->nb[2] + b * (int64_t)t->nb[3];
      if (!tg_ggml_unpack(s, t->type, rows, t->nb[1], tokens, n, at + (b * heads + h) * tokens * n)) return false;
    }
  return true;
}

static bool read_operand(tg_ggml_session *s, const struct ggml_tensor *t, int which, operand *out) {
  if (tg_ggml_has_blocks(t->type)) return unpack(s, t, which, out);
  int64_t size = (int64_t)ggml_type_size(t->type);
  *out = (operand){t->data, tg_ggml_type(t->type),
                   {(int64_t)t->nb[3] / size, (int64_t)t->nb[2] / size, (int64_t)t->nb[1] / size}};
  return true;
}

static uint8_t values_of(const struct ggml_tensor *mask) {
  return (uint8_t)(TG_PER_QUERY | TG_PER_KEY | (mask->ne[2] > 1 ? TG_PER_HEAD : 0) |
                   (mask->ne[3] > 1 ? TG_PER_BATCH : 0));
}

static tg_attention_desc desc_of(const tg_ggml_session *s, const struct ggml_tensor *node, const operand *k,
                                 const operand *v) {
  const struct ggml_tensor *q = node->src[0], *mask = node->src[3];
  tg_attention_desc d;
  memset(&d, 0, sizeof d);
  d.q = tg_ggml_type(q->type), d.k = k->type, d.v = v->type, d.o = TG_F32;
  d.heads = (int32_t)q->ne[2], d.kv_heads = (int32_t)node->src[1]->ne[2];
  d.head = (int32_t)q->ne[0], d.value_head = (int32_t)node->src[2]->ne[0];
  if (q->ne[1] == 1) d.queries.lo = 1;
  else if (q->ne[1] <= 16) d.queries = (tg_dim){.lo = 2, .hi = 16};
  else d.queries = (tg_dim){.lo = 17, .hi = INT64_C(1) << 31};
  d.keys = (tg_dim){.lo = 1, .hi = INT64_C(1) << 31};
  d.sinks = node->src[4] != NULL;
  d.soft_cap = ggml_get_op_params_f32(node, 2);
  d.threads = s->threads;
  if (mask && ggml_get_op_params_f32(node, 1) > 0) {
    static const char mod[] = "score + slope * m", m[] = "m", slope[] = "slope";
    d.score_mod = mod;
    d.arg[0].name = m, d.arg[0].type = TG_F16, d.arg[0].per = values_of(mask);
    d.arg[1].name = slope, d.arg[1].type = TG_F32, d.arg[1].per = TG_PER_HEAD;
  } else if (mask) d.mask = TG_F16, d.mask_per = values_of(mask);
  return d;
}

static void set_mask(const struct ggml_tensor *node, const float *slopes, tg_attention_call *call) {
  const struct ggml_tensor *mask = node->src[3];
  if (!mask) return;
  int64_t strides[4] = {mask->ne[3] > 1 ? (int64_t)mask->nb[3] / 2 : 0, mask->ne[2] > 1 ? (int64_t)mask->nb[2] / 2 : 0,
                        (int64_t)mask->nb[1] / 2, 1};
  if (slopes) {
    call->arg[0] = mask->data, call->arg[1] = slopes;
    memcpy(call->arg_strides[0], strides, sizeof strides);
  } else {
    call->mask = mask->data;
    memcpy(call->mask_strides, strides, sizeof strides);
  }
}

bool tg_ggml_attend(tg_ggml_session *s, struct ggml_tensor *node) {
  const struct ggml_tensor *q = node->src[0];
  operand k, v;
  if (!read_operand(s, node->src[1], GGML_PANEL, &k) || !read_operand(s, node->src[2], GGML_ROWS, &v)) return false;
  tg_attention_desc d = desc_of(s, node, &k, &v);
  tg_attention *a = tg_ggml_attention(&d, ggml_get_op_params_f32(node, 0));
  if (!a) return false;
  int64_t size = (int64_t)ggml_type_size(q->type), row = node->ne[0];
  tg_attention_call call = {
      .batch = q->ne[3], .queries = d.queries.hi ? q->ne[1] : 0, .keys = node->src[1]->ne[1],
      .q = q->data, .k = k.at, .v = v.at, .o = node->data,
      .q_strides = {(int64_t)q->nb[3] / size, (int64_t)q->nb[2] / size, (int64_t)q->nb[1] / size},
      .o_strides = {row * node->ne[1] * node->ne[2], row, row * node->ne[1]},
  };
  memcpy(call.k_strides, k.strides, sizeof k.strides);
  memcpy(call.v_strides, v.strides, sizeof v.strides);
  const float *slopes = NULL;
  if (d.score_mod && !(slopes = tg_ggml_slopes(s, q->ne[2], ggml_get_op_params_f32(node, 1)))) return false;
  set_mask(node, slopes, &call);
  if (d.sinks) call.sinks = node->src[4]->data;
  call.workspace_bytes = tg_attention_workspace(a, &call);
  if (!(call.workspace = tg_ggml_scratch(s, GGML_WORKSPACE, call.workspace_bytes))) return false;
  return !tg_attention_run(a, &call) || tg_ggml_failed("attention");
}
