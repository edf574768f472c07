/* SPDX-License-Identifier: MIT
 * The encoder: four products of a packed matrix, with bias, gelu and residual in their epilogues, attention over packed
 * sequences, and layer normalisation. One plan of each kind serves all layers. The whole model is one program for the
 * lengths of the sentences at hand, which plans the memory between its steps. */
#include "encoder.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/attention.h>
#include <tg/nn.h>
#include <tg/program.h>

enum { QKV, OUT, UP, DOWN, PRODUCTS };  /* the products of a layer */

typedef struct norm_weights { const float *weight, *bias; } norm_weights;

typedef struct layer_weights {
  void *packed[PRODUCTS];
  const float *bias[PRODUCTS];
  float *qkv_bias;                      /* of Q, K, V one behind the other: bias[QKV] */
  norm_weights attention, output;
} layer_weights;

struct encoder {
  tg_context *context;
  safetensors *file;
  char *error;                          /* where the call in progress writes its error */
  int64_t width, inner, words, longest;
  int heads, tokens, layers_n;
  layer_weights *layers;
  const float *word, *position, *type;  /* tables of embeddings */
  norm_weights embedding;
  tg_gemm_packing packing[PRODUCTS];
  tg_gemm *product[PRODUCTS];
  tg_attention *attention;
  tg_nn *norm;
  float *x, *y;                         /* [tokens][width]: what comes out of the program, and goes into it */
  int32_t *starts;                      /* of the sentences that are computed at a time */
  int32_t *recorded;                    /* those that the program is for */
  tg_program *program;
  int sentences, temporaries;           /* of the program */
  void *workspace;                      /* of all programs: one of each would be the system's to clear */
  size_t workspace_bytes;
};

static int fail(encoder *e, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(e->error, SAFETENSORS_ERROR, format, list);
  va_end(list);
  return 1;
}

static int failed(encoder *e) { return fail(e, "%s", tg_error_message(e->context)); }

/* ---- opening ---- */

static const float *floats(encoder *e, const char *name, int64_t rows, int64_t columns) {
  int64_t shape[] = {rows, columns};
  const float *data = safetensors_floats(e->file, name, shape, columns ? 2 : 1);
  if (!data) fail(e, "%s", e->file->error);
  return data;
}

static const float *of_layer(encoder *e, int layer, const char *name, int64_t rows, int64_t columns) {
  char whole[192];
  snprintf(whole, sizeof whole, "encoder.layer.%d.%s", layer, name);
  return floats(e, whole, rows, columns);
}

static int open_norm(encoder *e, int layer, const char *name, norm_weights *out) {
  char whole[128];
  snprintf(whole, sizeof whole, "%s.weight", name);
  out->weight = layer < 0 ? floats(e, whole, e->width, 0) : of_layer(e, layer, whole, e->width, 0);
  snprintf(whole, sizeof whole, "%s.bias", name);
  out->bias = layer < 0 ? floats(e, whole, e->width, 0) : of_layer(e, layer, whole, e->width, 0);
  return !out->weight || !out->bias;
}

/* The sizes, from the tensors' shapes. */
static int open_sizes(encoder *e) {
  int64_t table[] = {-1, -1}, rows[] = {-1, -1}, inner[] = {-1, -1};
  if (!(e->word = safetensors_floats(e->file, "embeddings.word_embeddings.weight", table, 2)))
    return fail(e, "%s", e->file->error);
  e->words = table[0], e->width = rows[1] = inner[1] = table[1];
  if (!(e->position = safetensors_floats(e->file, "embeddings.position_embeddings.weight", rows, 2)) ||
      !safetensors_floats(e->file, "encoder.layer.0.intermediate.dense.weight", inner, 2))
    return fail(e, "%s", e->file->error);
  e->longest = rows[0], e->inner = inner[0];
  if (e->width < 1 || e->longest < 1 || e->inner < 1 || e->width > 1 << 16 || e->inner > 1 << 20 ||
      e->words > INT32_MAX)
    return fail(e, "a width of %lld and %lld, %lld positions: out of bounds", (long long)e->width, (long long)e->inner,
                (long long)e->longest);
  if (e->heads < 1 || e->width % e->heads) return fail(e, "%lld columns for %d heads", (long long)e->width, e->heads);
  if (e->longest > e->tokens) e->longest = e->tokens;
  char name[64];
  do snprintf(name, sizeof name, "encoder.layer.%d.intermediate.dense.weight", ++e->layers_n);
  while (safetensors_find(e->file, name));
  int64_t types[] = {-1, e->width};
  if (!(e->type = safetensors_floats(e->file, "embeddings.token_type_embeddings.weight", types, 2)))
    return fail(e, "%s", e->file->error);
  if (types[0] < 1) return fail(e, "there is no embedding of a type");
  return open_norm(e, -1, "embeddings.LayerNorm", &e->embedding);
}

static int plan_products(encoder *e) {
  int64_t n[] = {3 * e->width, e->width, e->inner, e->width}, k[] = {e->width, e->width, e->width, e->inner};
  const char *gelu = "0.5f * (acc + bias) * (1 + erf((acc + bias) * 0.70710678f))";
  const char *epilogue[] = {"acc + bias", "acc + bias + residual", gelu, "acc + bias + residual"};
  for (int p = 0; p < PRODUCTS; p++) {
    tg_gemm_desc d = {.m = {1, e->tokens}, .n = {n[p], 0}, .k = {k[p], 0}, .threads = -1, .epilogue = epilogue[p],
                      .b_major = TG_COLUMN_MAJOR, .arg = {{"bias", 0, TG_PER_COLUMN}}};
    if (p == OUT || p == DOWN) d.arg[1].name = "residual", d.arg[1].per = TG_PER_ELEMENT;
    if (tg_gemm_packing_choose(e->context, &d, 1, &e->packing[p])) return failed(e);
    d.packing = &e->packing[p];
    if (tg_gemm_plan(e->context, &d, &e->product[p])) return failed(e);
  }
  return 0;
}

static int plan_others(encoder *e) {
  static const float epsilon = 1e-12f;
  tg_nn_desc norm = {.op = TG_NN_LAYERNORM, .rows = {1, e->tokens}, .columns = {e->width, 0}, .weight = TG_F32,
                     .bias = TG_F32, .epsilon = &epsilon, .threads = -1};
  if (tg_nn_plan(e->context, &norm, &e->norm)) return failed(e);
  tg_attention_desc attention = {.heads = e->heads, .head = (int32_t)(e->width / e->heads), .threads = -1,
                                 .queries = {1, e->longest}, .keys = {1, e->longest}};
  if (tg_attention_plan(e->context, &attention, &e->attention)) return failed(e);
  return 0;
}

/* One matrix of Q, K and V: their products are one. */
static int pack_qkv(encoder *e, int at) {
  static const char *name[] = {"query", "key", "value"};
  layer_weights *l = &e->layers[at];
  size_t part = (size_t)(e->width * e->width), bias_part = (size_t)e->width;
  float *all = malloc(3 * part * sizeof *all);
  l->packed[QKV] = malloc(e->packing[QKV].bytes);
  l->qkv_bias = malloc(3 * bias_part * sizeof *l->qkv_bias);
  int status = !all || !l->packed[QKV] || !l->qkv_bias ? fail(e, "out of memory") : 0;
  for (int i = 0; i < 3 && !status; i++) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "attention.self.%s.weight", name[i]);
    snprintf(bias, sizeof bias, "attention.self.%s.bias", name[i]);
    const float *w = of_layer(e, at, weight, e->width, e->width), *b = w ? of_layer(e, at, bias, e->width, 0) : NULL;
    if (!w || !b) status = 1;
    else {
      memcpy(all + (size_t)i * part, w, part * sizeof *all);
      memcpy(l->qkv_bias + (size_t)i * bias_part, b, bias_part * sizeof *b);
    }
  }
  if (!status && tg_gemm_pack(&e->packing[QKV], all, (int64_t[]){1, e->width}, l->packed[QKV]))
    status = fail(e, "the weights cannot be packed");
  l->bias[QKV] = l->qkv_bias;
  free(all);
  return status;
}

static int pack(encoder *e, int at, int product, const char *name) {
  layer_weights *l = &e->layers[at];
  tg_gemm_packing *packing = &e->packing[product];
  char whole[64];
  snprintf(whole, sizeof whole, "%s.weight", name);
  const float *weight = of_layer(e, at, whole, packing->n, packing->k);
  snprintf(whole, sizeof whole, "%s.bias", name);
  if (!weight || !(l->bias[product] = of_layer(e, at, whole, packing->n, 0))) return 1;
  if (!(l->packed[product] = malloc(packing->bytes))) return fail(e, "out of memory");
  if (tg_gemm_pack(packing, weight, (int64_t[]){1, packing->k}, l->packed[product]))
    return fail(e, "the weights cannot be packed");
  return 0;
}

static int open_layers(encoder *e) {
  if (!(e->layers = calloc((size_t)e->layers_n, sizeof *e->layers))) return fail(e, "out of memory");
  for (int i = 0; i < e->layers_n; i++)
    if (pack_qkv(e, i) || pack(e, i, OUT, "attention.output.dense") || pack(e, i, UP, "intermediate.dense") ||
        pack(e, i, DOWN, "output.dense") || open_norm(e, i, "attention.output.LayerNorm", &e->layers[i].attention) ||
        open_norm(e, i, "output.LayerNorm", &e->layers[i].output)) return 1;
  return 0;
}

static int open_buffers(encoder *e) {
  size_t row = (size_t)e->tokens * (size_t)e->width * sizeof(float);
  size_t starts = ((size_t)e->tokens + 1) * sizeof *e->starts;
  e->x = malloc(row), e->y = malloc(row), e->starts = malloc(starts), e->recorded = malloc(starts);
  return e->x && e->y && e->starts && e->recorded ? 0 : fail(e, "out of memory");
}

encoder *encoder_open(tg_context *context, safetensors *file, const encoder_options *options,
                      char error[SAFETENSORS_ERROR]) {
  encoder *e = calloc(1, sizeof *e);
  if (!e) return snprintf(error, SAFETENSORS_ERROR, "out of memory"), NULL;
  e->context = context, e->file = file, e->error = error;
  e->heads = options->heads, e->tokens = options->tokens ? options->tokens : 1024;
  if (open_sizes(e) || plan_products(e) || plan_others(e) || open_layers(e) || open_buffers(e))
    return encoder_close(e), NULL;
  return e;
}

void encoder_close(encoder *e) {
  if (!e) return;
  tg_program_free(e->program);
  for (int i = 0; e->layers && i < e->layers_n; i++) {
    for (int p = 0; p < PRODUCTS; p++) free(e->layers[i].packed[p]);
    free(e->layers[i].qkv_bias);
  }
  for (int p = 0; p < PRODUCTS; p++)
    if (e->product[p]) tg_gemm_free(e->product[p]);
  if (e->attention) tg_attention_free(e->attention);
  if (e->norm) tg_nn_free(e->norm);
  free(e->layers), free(e->x), free(e->y), free(e->starts), free(e->recorded), free(e->workspace), free(e);
}

int encoder_width(const encoder *e) { return (int)e->width; }
int encoder_longest(const encoder *e) { return (int)e->longest; }

/* ---- the program ---- */

/* A temporary of the program, [tokens][columns]; NULL: it failed. */
static float *temporary(encoder *e, int tokens, int64_t columns) {
  char name[16];
  void *at;
  snprintf(name, sizeof name, "t%d", e->temporaries++);
  size_t bytes = (size_t)tokens * (size_t)columns * sizeof(float);
  return tg_program_temporary(e->program, name, bytes, &at) ? (failed(e), NULL) : at;
}

/* Each step returns its result; NULL: it, or the step before it, failed. */
static float *product(encoder *e, int p, const layer_weights *l, int tokens, const float *a, const float *residual) {
  float *c = a ? temporary(e, tokens, e->packing[p].n) : NULL;
  tg_gemm_call call = {.m = tokens, .a = a, .b = l->packed[p], .c = c, .arg = {l->bias[p], residual}};
  return c && tg_gemm_put(e->program, e->product[p], &call) ? (failed(e), NULL) : c;
}

static float *normalise(encoder *e, const norm_weights *by, int tokens, const float *x, float *y) {
  tg_nn_call call = {.rows = tokens, .x = x, .y = y, .weight = by->weight, .bias = by->bias};
  return x && y && !tg_nn_put(e->program, e->norm, &call) ? y : (x && y ? failed(e) : 0, NULL);
}

static float *attend(encoder *e, int sentences, int tokens, const float *qkv) {
  int64_t head = e->width / e->heads, w = e->width;
  float *seen = qkv ? temporary(e, tokens, w) : NULL;
  tg_attention_call call = {.batch = sentences, .q = qkv, .k = qkv + w, .v = qkv + 2 * w, .o = seen,
                            .q_strides = {0, head, 3 * w}, .k_strides = {0, head, 3 * w},
                            .v_strides = {0, head, 3 * w}, .o_strides = {0, head, w},
                            .query_starts = e->starts, .key_starts = e->starts};
  return seen && tg_attention_put(e->program, e->attention, &call) ? (failed(e), NULL) : seen;
}

/* Room for the program, which earlier ones may have left. */
static int make_room(encoder *e) {
  enum { LINE = 64 };
  tg_program_info info;
  if (tg_program_describe(e->program, &info)) return failed(e);
  if (info.workspace <= e->workspace_bytes) return 0;
  free(e->workspace);
  e->workspace_bytes = (info.workspace + LINE - 1) / LINE * LINE;
  if ((e->workspace = aligned_alloc(LINE, e->workspace_bytes))) return 0;
  e->workspace_bytes = 0;
  return fail(e, "out of memory");
}

/* The program for e->starts, unless it is for these lengths already. */
static int record(encoder *e, int sentences) {
  int tokens = e->starts[sentences];
  size_t starts = ((size_t)sentences + 1) * sizeof *e->starts;
  size_t bytes = (size_t)tokens * (size_t)e->width * sizeof(float);
  void *embedded, *out;
  if (e->program && e->sentences == sentences && !memcmp(e->starts, e->recorded, starts)) return 0;
  tg_program_free(e->program);
  e->program = NULL, e->temporaries = 0;
  if (tg_program_begin(e->context, &(tg_program_options){.threads = -1}, &e->program) ||
      tg_program_argument(e->program, "embedded", bytes, &embedded) ||
      tg_program_argument(e->program, "out", bytes, &out)) return failed(e);
  const float *x = normalise(e, &e->embedding, tokens, embedded, temporary(e, tokens, e->width));
  for (int i = 0; i < e->layers_n; i++) {
    const layer_weights *l = &e->layers[i];
    float *seen = attend(e, sentences, tokens, product(e, QKV, l, tokens, x, NULL));
    float *mid = normalise(e, &l->attention, tokens, product(e, OUT, l, tokens, seen, x),
                           temporary(e, tokens, e->width));
    float *sum = product(e, DOWN, l, tokens, product(e, UP, l, tokens, mid, NULL), mid);
    x = normalise(e, &l->output, tokens, sum, i + 1 < e->layers_n ? temporary(e, tokens, e->width) : out);
  }
  if (!x) {
    tg_program_free(e->program);
    return e->program = NULL, 1;
  }
  memcpy(e->recorded, e->starts, starts), e->sentences = sentences;
  return tg_program_end(e->program) ? failed(e) : make_room(e);
}

/* ---- running ---- */

/* Sums of the three embeddings of each token; all tokens are of type 0. */
static void embed(encoder *e, const int32_t *ids, int sentences) {
  size_t w = (size_t)e->width;
  for (int s = 0; s < sentences; s++)
    for (int t = e->starts[s]; t < e->starts[s + 1]; t++) {
      const float *word = e->word + (size_t)ids[t] * w, *position = e->position + (size_t)(t - e->starts[s]) * w;
      float *y = e->y + (size_t)t * w;
      for (size_t i = 0; i < w; i++) y[i] = word[i] + position[i] + e->type[i];
    }
}

/* The mean over a sentence's tokens, divided by its length. The sums' scale falls out, so there is no division by the
 * number of tokens. */
static void pool(const encoder *e, int sentence, float *out) {
  int64_t w = e->width;
  memset(out, 0, (size_t)w * sizeof *out);
  for (int t = e->starts[sentence]; t < e->starts[sentence + 1]; t++)
    for (int64_t i = 0; i < w; i++) out[i] += e->x[t * w + i];
  double squares = 0;
  for (int64_t i = 0; i < w; i++) squares += (double)out[i] * (double)out[i];
  float factor = squares > 0 ? (float)(1 / sqrt(squares)) : 0;
  for (int64_t i = 0; i < w; i++) out[i] *= factor;
}

static int run_some(encoder *e, const int32_t *ids, int sentences, float *out) {
  size_t bytes = (size_t)e->starts[sentences] * (size_t)e->width * sizeof(float);
  const tg_argument arguments[] = {{.data = e->y, .bytes = bytes}, {.data = e->x, .bytes = bytes}};
  if (record(e, sentences)) return 1;
  embed(e, ids, sentences);
  const tg_program_call call = {.arguments = arguments, .arguments_n = 2, .workspace = e->workspace,
                                .workspace_bytes = e->workspace_bytes};
  if (tg_program_run(e->program, &call)) return failed(e);
  for (int s = 0; s < sentences; s++) pool(e, s, out + (int64_t)s * e->width);
  return 0;
}

int encoder_run(encoder *e, const int32_t *ids, const int32_t *starts, int sentences, float *out,
                char error[SAFETENSORS_ERROR]) {
  e->error = error;
  for (int s = 0; s < sentences; s++) {
    int64_t tokens = (int64_t)starts[s + 1] - starts[s];
    if (tokens < 1 || tokens > e->longest)
      return fail(e, "sentence %d has %lld tokens, not 1 to %lld", s, (long long)tokens, (long long)e->longest);
    for (int t = starts[s]; t < starts[s + 1]; t++)
      if (ids[t] < 0 || ids[t] >= e->words) return fail(e, "sentence %d: token %d is in no table", s, ids[t]);
  }
  for (int from = 0, to; from < sentences; from = to) {
    for (to = from; to < sentences && starts[to + 1] - starts[from] <= e->tokens; to++)
      e->starts[to - from + 1] = starts[to + 1] - starts[from];
    e->starts[0] = 0;
    if (run_some(e, ids + starts[from], to - from, out + (int64_t)from * e->width)) return 1;
  }
  return 0;
}
