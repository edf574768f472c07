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

/* Masks of models mostly have 0 where a query sees a key, and -inf elsewhere. Such a mask becomes bools in GGML_SEEN,
 * with which blocks without keys are left out; they serve all layers of a graph. False: it has other values, or there
 * is no memory. */
static bool says_seen(tg_ggml_session *s, const struct ggml_tensor *mask, int64_t queries) {
  if (s->mask.of == mask && s->mask.graph == s->graph) return s->mask.says_seen;
  s->mask.of = mask, s->mask.graph = s->graph, s->mask.says_seen = false, s->mask.blocks_of = NULL;
  int64_t keys = mask->ne[0];
  uint8_t *seen = tg_ggml_scratch(s, GGML_SEEN, (size_t)(keys * queries * mask->ne[2] * mask->ne[3]));
  if (!seen) return false;
  for (int64_t i3 = 0; i3 < mask->ne[3]; i3++)
    for (int64_t i2 = 0; i2 < mask->ne[2]; i2++)
      for (int64_t i1 = 0; i1 < queries; i1++, seen += keys) {
        const uint16_t *row = (const uint16_t *)((const char *)mask->data + i1 * (int64_t)mask->nb[1] +
                                                 i2 * (int64_t)mask->nb[2] + i3 * (int64_t)mask->nb[3]);
        unsigned other = 0;
        for (int64_t j = 0; j < keys; j++) {
          seen[j] = row[j] != 0xfc00;
          other |= seen[j] & (row[j] != 0);
        }
        if (other) return false;
      }
  return s->mask.says_seen = true;
}

/* Which blocks of keys the bools leave, for all layers that have the same plan. */
static bool find_blocks(tg_ggml_session *s, const tg_attention *a, tg_attention_call *call) {
  size_t bytes = tg_attention_blocks_bytes(a, call);
  uint8_t *blocks = bytes ? tg_ggml_scratch(s, GGML_BLOCKS, bytes) : NULL;
  if (!blocks) return !bytes;
  if (s->mask.blocks_of != a && tg_attention_blocks(a, call, blocks)) return tg_ggml_failed("blocks of a mask");
  s->mask.blocks_of = a;
  call->blocks = blocks;
  return true;
}

static uint8_t values_of(const struct ggml_tensor *mask) {
  return (uint8_t)(TG_PER_QUERY | TG_PER_KEY | (mask->ne[2] > 1 ? TG_PER_HEAD : 0) |
                   (mask->ne[3] > 1 ? TG_PER_BATCH : 0));
}

static tg_attention_desc desc_of(tg_ggml_session *s, const struct ggml_tensor *node, const operand *k,
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
  } else if (mask) {
    d.mask = says_seen(s, mask, q->ne[1]) ? TG_BOOL : TG_F16;
    d.mask_per = values_of(mask);
  }
  return d;
}

static void set_mask(tg_ggml_session *s, const struct ggml_tensor *node, const tg_attention_desc *d,
                     const float *slopes, tg_attention_call *call) {
  const struct ggml_tensor *mask = node->src[3];
  if (!mask) return;
  if (d->mask == TG_BOOL) {
    call->mask = s->scratch[GGML_SEEN].at;   /* dense */
    return;
  }
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
  if (d.sinks) call.sinks = node->src[4]->data;
  const float *slopes = NULL;
  if (d.score_mod && !(slopes = tg_ggml_slopes(s, q->ne[2], ggml_get_op_params_f32(node, 1)))) return false;
  set_mask(s, node, &d, slopes, &call);
  call.workspace_bytes = tg_attention_workspace(a, &call);
  if (!(call.workspace = tg_ggml_scratch(s, GGML_WORKSPACE, call.workspace_bytes))) return false;
  if (d.mask == TG_BOOL && !find_blocks(s, a, &call)) return false;
  return !tg_attention_run(a, &call) || tg_ggml_failed("attention");
}
