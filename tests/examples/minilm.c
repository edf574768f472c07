/* SPDX-License-Identifier: MIT
 * The encoder of examples/minilm on weights of its own: a small file in the safetensors format is written, encoded and
 * compared with the same layers in float64; the tokenizer on cases; damaged files are refused with a reason. */
#define _XOPEN_SOURCE 700
#include "../folder.h"
#include "../test.h"
#include "minilm/encoder.h"
#include "minilm/tokenizer.h"
#include <math.h>
#include <stdarg.h>

enum { WIDTH = 32, HEADS = 4, HEAD = WIDTH / HEADS, INNER = 72, LAYERS = 2, WORDS = 50, POSITIONS = 40 };
enum { TENSORS = 5 + 16 * LAYERS, SENTENCES = 5 };

/* ---- the file ---- */

typedef struct weights {
  char name[TENSORS][80];
  int rows[TENSORS], columns[TENSORS];  /* columns 0: one dimension */
  float *data[TENSORS];
  int n;
} weights;

static uint32_t state = 1;
static float unit(void) { return (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1; }

static void add(weights *w, int rows, int columns, float middle, float spread, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(w->name[w->n], sizeof w->name[0], format, list);
  va_end(list);
  int elements = rows * (columns ? columns : 1);
  float *data = w->data[w->n] = malloc((size_t)elements * sizeof *data);
  for (int i = 0; i < elements; i++) data[i] = middle + spread * unit();
  w->rows[w->n] = rows, w->columns[w->n++] = columns;
}

static void fill(weights *w) {
  w->n = 0;
  add(w, WORDS, WIDTH, 0, 1, "embeddings.word_embeddings.weight");
  add(w, POSITIONS, WIDTH, 0, 1, "embeddings.position_embeddings.weight");
  add(w, 2, WIDTH, 0, 1, "embeddings.token_type_embeddings.weight");
  add(w, WIDTH, 0, 1, 0.3f, "embeddings.LayerNorm.weight");
  add(w, WIDTH, 0, 0, 0.3f, "embeddings.LayerNorm.bias");
  for (int l = 0; l < LAYERS; l++) {
    static const struct { const char *name; int rows, columns; } product[] = {
      {"attention.self.query", WIDTH, WIDTH}, {"attention.self.key", WIDTH, WIDTH},
      {"attention.self.value", WIDTH, WIDTH}, {"attention.output.dense", WIDTH, WIDTH},
      {"intermediate.dense", INNER, WIDTH}, {"output.dense", WIDTH, INNER}};
    for (int p = 0; p < 6; p++) {
      add(w, product[p].rows, product[p].columns, 0, 0.4f, "encoder.layer.%d.%s.weight", l, product[p].name);
      add(w, product[p].rows, 0, 0, 0.4f, "encoder.layer.%d.%s.bias", l, product[p].name);
    }
    for (int n = 0; n < 2; n++) {
      const char *name = n ? "output.LayerNorm" : "attention.output.LayerNorm";
      add(w, WIDTH, 0, 1, 0.3f, "encoder.layer.%d.%s.weight", l, name);
      add(w, WIDTH, 0, 0, 0.3f, "encoder.layer.%d.%s.bias", l, name);
    }
  }
}

static const float *tensor(const weights *w, const char *format, ...) {
  char name[80];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  for (int i = 0; i < w->n; i++)
    if (!strcmp(w->name[i], name)) return w->data[i];
  abort();
}

static size_t bytes_of(const weights *w, int i) {
  return (size_t)w->rows[i] * (size_t)(w->columns[i] ? w->columns[i] : 1) * sizeof(float);
}

static void write_bytes(const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, n, file) == n && !fclose(file), "%s", path);
}

/* A header of this text, then n bytes. */
static void write_headed(const char *path, const char *header, const void *data, size_t n) {
  size_t length = strlen(header);
  char *all = malloc(8 + length + n);
  for (int i = 0; i < 8; i++) all[i] = (char)((uint64_t)length >> 8 * i);
  memcpy(all + 8, header, length);
  if (n) memcpy(all + 8 + length, data, n);
  write_bytes(path, all, 8 + length + n);
  free(all);
}

static void write_weights(const weights *w, const char *path) {
  static char header[TENSORS * 200], data[1 << 20];
  size_t at = 0;
  int n = sprintf(header, "{\"__metadata__\": {\"format\": \"p\\\"t\"}");
  for (int i = 0; i < w->n; i++) {
    size_t bytes = bytes_of(w, i);
    char columns[32] = "";
    if (w->columns[i]) sprintf(columns, ", %d", w->columns[i]);
    n += sprintf(header + n, ",\n\"%s\":{\"dtype\":\"F32\",\"shape\":[%d%s],\"data_offsets\":[%zu,%zu]}", w->name[i],
                 w->rows[i], columns, at, at + bytes);
    memcpy(data + at, w->data[i], bytes);
    at += bytes;
  }
  n += sprintf(header + n, "}");
  while (n % 8) header[n++] = ' ';
  header[n] = 0;
  write_headed(path, header, data, at);
}

/* ---- the layers in float64 ---- */

static void linear64(const weights *w, int layer, const char *name, int n, int k, const double *x, double *y) {
  const float *weight = tensor(w, "encoder.layer.%d.%s.weight", layer, name);
  const float *bias = tensor(w, "encoder.layer.%d.%s.bias", layer, name);
  for (int i = 0; i < n; i++) {
    y[i] = (double)bias[i];
    for (int e = 0; e < k; e++) y[i] += (double)weight[i * k + e] * x[e];
  }
}

static void norm64(const float *weight, const float *bias, double *x) {
  double mean = 0, square = 0;
  for (int i = 0; i < WIDTH; i++) mean += x[i] / WIDTH;
  for (int i = 0; i < WIDTH; i++) square += (x[i] - mean) * (x[i] - mean) / WIDTH;
  for (int i = 0; i < WIDTH; i++)
    x[i] = (x[i] - mean) / sqrt(square + 1e-12) * (double)weight[i] + (double)bias[i];
}

/* seen[t] = softmax(q[t] k / sqrt(head)) v for each head. */
static void attend64(int tokens, double (*q)[WIDTH], double (*k)[WIDTH], double (*v)[WIDTH], double (*seen)[WIDTH]) {
  memset(seen, 0, (size_t)tokens * sizeof *seen);
  for (int h = 0; h < WIDTH; h += HEAD)
    for (int t = 0; t < tokens; t++) {
      double weight[POSITIONS], sum = 0;
      for (int j = 0; j < tokens; j++) {
        double score = 0;
        for (int e = h; e < h + HEAD; e++) score += q[t][e] * k[j][e];
        sum += weight[j] = exp(score / sqrt(HEAD));
      }
      for (int j = 0; j < tokens; j++)
        for (int e = h; e < h + HEAD; e++) seen[t][e] += weight[j] / sum * v[j][e];
    }
}

static void layer64(const weights *w, int l, int tokens, double (*x)[WIDTH]) {
  static double q[POSITIONS][WIDTH], k[POSITIONS][WIDTH], v[POSITIONS][WIDTH], seen[POSITIONS][WIDTH];
  for (int t = 0; t < tokens; t++) {
    linear64(w, l, "attention.self.query", WIDTH, WIDTH, x[t], q[t]);
    linear64(w, l, "attention.self.key", WIDTH, WIDTH, x[t], k[t]);
    linear64(w, l, "attention.self.value", WIDTH, WIDTH, x[t], v[t]);
  }
  attend64(tokens, q, k, v, seen);
  for (int t = 0; t < tokens; t++) {
    double y[WIDTH], mid[INNER];
    linear64(w, l, "attention.output.dense", WIDTH, WIDTH, seen[t], y);
    for (int i = 0; i < WIDTH; i++) x[t][i] += y[i];
    norm64(tensor(w, "encoder.layer.%d.attention.output.LayerNorm.weight", l),
           tensor(w, "encoder.layer.%d.attention.output.LayerNorm.bias", l), x[t]);
    linear64(w, l, "intermediate.dense", INNER, WIDTH, x[t], mid);
    for (int i = 0; i < INNER; i++) mid[i] = mid[i] * (1 + erf(mid[i] / sqrt(2))) / 2;
    linear64(w, l, "output.dense", WIDTH, INNER, mid, y);
    for (int i = 0; i < WIDTH; i++) x[t][i] += y[i];
    norm64(tensor(w, "encoder.layer.%d.output.LayerNorm.weight", l),
           tensor(w, "encoder.layer.%d.output.LayerNorm.bias", l), x[t]);
  }
}

static void encode64(const weights *w, const int32_t *ids, int tokens, double *out) {
  static double x[POSITIONS][WIDTH];
  const float *word = tensor(w, "embeddings.word_embeddings.weight");
  const float *position = tensor(w, "embeddings.position_embeddings.weight");
  const float *type = tensor(w, "embeddings.token_type_embeddings.weight");
  for (int t = 0; t < tokens; t++) {
    for (int i = 0; i < WIDTH; i++)
      x[t][i] = (double)word[ids[t] * WIDTH + i] + (double)position[t * WIDTH + i] + (double)type[i];
    norm64(tensor(w, "embeddings.LayerNorm.weight"), tensor(w, "embeddings.LayerNorm.bias"), x[t]);
  }
  for (int l = 0; l < LAYERS; l++) layer64(w, l, tokens, x);
  double squares = 0;
  for (int i = 0; i < WIDTH; i++) {
    out[i] = 0;
    for (int t = 0; t < tokens; t++) out[i] += x[t][i] / tokens;
    squares += out[i] * out[i];
  }
  for (int i = 0; i < WIDTH; i++) out[i] /= sqrt(squares);
}

/* ---- the tests ---- */

/* Sentences of unequal lengths, the longest of all positions, which do not fit into what is computed at a time. */
static void test_encoder(tg_context *context, const weights *w, const char *path) {
  static const int lengths[SENTENCES] = {1, POSITIONS, 7, 2, 33};
  safetensors file;
  char error[SAFETENSORS_ERROR] = "";
  CHECK(!safetensors_open(&file, path), "%s", file.error);
  encoder *e = encoder_open(context, &file, &(encoder_options){.heads = HEADS, .tokens = 48}, error);
  CHECK(e != NULL, "%s", error);
  if (!e) return;
  CHECK(encoder_width(e) == WIDTH && encoder_longest(e) == POSITIONS, "%d, %d", encoder_width(e), encoder_longest(e));
  int32_t ids[SENTENCES * POSITIONS], starts[SENTENCES + 1] = {0};
  float got[SENTENCES][WIDTH];
  for (int s = 0; s < SENTENCES; s++) starts[s + 1] = starts[s] + lengths[s];
  for (int i = 0; i < starts[SENTENCES]; i++) ids[i] = (int32_t)((unit() + 1) / 2 * (WORDS - 1));
  CHECK(!encoder_run(e, ids, starts, SENTENCES, got[0], error), "%s", error);
  for (int s = 0; s < SENTENCES; s++) {
    double want[WIDTH], worst = 0;
    encode64(w, ids + starts[s], lengths[s], want);
    for (int i = 0; i < WIDTH; i++) worst = fmax(worst, fabs((double)got[s][i] - want[i]));
    CHECK(worst < 1e-5, "sentence %d: off by %g", s, worst);
  }
  ids[3] = WORDS;
  CHECK(encoder_run(e, ids, starts, SENTENCES, got[0], error));
  CHECK_TEXT(error, "sentence 1: token 50 is in no table");
  CHECK(encoder_run(e, ids, (int32_t[]){0, 0}, 1, got[0], error));
  CHECK_TEXT(error, "sentence 0 has 0 tokens, not 1 to 40");
  CHECK(encoder_run(e, ids, (int32_t[]){0, POSITIONS + 1}, 1, got[0], error));
  CHECK_TEXT(error, "sentence 0 has 41 tokens, not 1 to 40");
  encoder_close(e);
  CHECK(!encoder_open(context, &file, &(encoder_options){.heads = 5}, error));
  CHECK_TEXT(error, "32 columns for 5 heads");
  safetensors_close(&file);
}

static void refused(const char *path, const char *want) {
  safetensors file;
  CHECK(safetensors_open(&file, path), "%s", want);
  CHECK(strstr(file.error, want) != NULL, "\n--- got\n%s\n--- want\n%s", file.error, want);
}

static void test_damaged(tg_context *context, weights *w, const char *path) {
  static const struct { const char *header, *want; } cases[] = {
    {"", "byte 0: '{' expected"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", "'}' expected"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} x", "behind the last brace"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", "bytes 4 to 12 of data, but the file has 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "bytes 8 to 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
     "8 bytes of data, but its type and shape need 12"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4611686018427387904],\"data_offsets\":[0,8]}}",
     "its shape is too large"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}}", "a number is too large"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,8]}}", "a number expected"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "lacks dtype, shape or data_offsets"},
    {"{\"a\":{\"dtype\":\"FLOAT32X\",\"shape\":[2]}}", "the name of a type is too long"},
    {"{\"a", "a string does not end"}, {"{\"a\\", "a string does not end"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_headed(path, cases[i].header, "12345678", 8);
    refused(path, cases[i].want);
  }
  write_bytes(path, "1234567", 7), refused(path, "7 bytes are too few");
  write_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  refused(path, "the header has 18446744073709551615 bytes");
  CHECK(!remove(path), "%s", path);
  refused(path, "cannot be opened");

  /* A tensor that a layer lacks, or that has another shape. */
  safetensors file;
  char error[SAFETENSORS_ERROR] = "";
  int last = w->n - 1;
  w->n--;
  write_weights(w, path), w->n++;
  CHECK(!safetensors_open(&file, path), "%s", file.error);
  CHECK(!encoder_open(context, &file, &(encoder_options){.heads = HEADS, .tokens = 48}, error));
  CHECK_TEXT(error, "there is no tensor encoder.layer.1.output.LayerNorm.bias");
  safetensors_close(&file);
  w->rows[last]--;
  write_weights(w, path), w->rows[last]++;
  CHECK(!safetensors_open(&file, path), "%s", file.error);
  CHECK(!encoder_open(context, &file, &(encoder_options){.heads = HEADS, .tokens = 48}, error));
  CHECK_TEXT(error, "tensor encoder.layer.1.output.LayerNorm.bias: dimension 0 is 31, not 32");
  safetensors_close(&file);
}

static void test_tokenizer(const char *path) {
  static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "want", "##want",
                                      "##ed", "the", "cafe", ",", "!", "\xe4\xbd\xa0", "a", "##b",
                                      "\xd0\xb5\xd0\xb6", "-"};
  static const struct { const char *text, *want; } cases[] = {
    {"", "2 3"}, {"UNwanted, the  unaffable", "2 4 8 9 12 10 4 5 6 3"}, {"want want", "2 7 7 3"},
    {"Caf\xc3\xa9 CAFE\xcc\x81", "2 11 11 3"}, {"the\xe4\xbd\xa0the", "2 10 14 10 3"}, 
    {"\xd0\x81\xd0\x96", "2 17 3"},
    {"wanting the", "2 1 10 3"}, {"!the-the\xc2\xa0the\t!", "2 13 10 18 10 10 13 3"},
    {"\xff th\x01" "e \xe2\x82", "2 10 3"},
    {"\xc0\x80 the", "2 10 3"}, {"a b", "2 15 1 3"},
    {"the the the the the the the the the", "2 10 10 10 10 10 10 10 10 3"}};
  char text[512] = "";
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) strcat(strcat(text, words[i]), i % 2 ? "\r\n" : "\n");
  write_bytes(path, text, strlen(text));
  tokenizer t;
  CHECK(!tokenizer_open(&t, path), "%s", t.error);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t ids[10];
    char got[128];
    int n = tokenizer_encode(&t, cases[i].text, strlen(cases[i].text), ids, 10), at = 0;
    for (int w = 0; w < n; w++) at += sprintf(got + at, w ? " %d" : "%d", ids[w]);
    CHECK_TEXT(got, cases[i].want);
  }
  /* A word of 100 characters, and one of 101. */
  char longest[102];
  int32_t ids[128];
  memset(longest, 'b', sizeof longest), longest[0] = 'a';
  CHECK(tokenizer_encode(&t, longest, 100, ids, 128) == 102 && ids[1] == 15 && ids[100] == 16);
  CHECK(tokenizer_encode(&t, longest, 101, ids, 128) == 3 && ids[1] == 1);
  CHECK(tokenizer_encode(&t, longest, 100, ids, 2) == 2 && ids[0] == 2 && ids[1] == 3);
  tokenizer_close(&t);
  write_bytes(path, "[CLS]\n[SEP]\n", 12);
  CHECK(tokenizer_open(&t, path) && strstr(t.error, "it lacks [CLS], [SEP] or [UNK]"), "%s", t.error);
  CHECK(!remove(path) && tokenizer_open(&t, path) && strstr(t.error, "cannot be read"), "%s", t.error);
}

int main(void) {
  static weights w;
  char folder[TEST_PATH] = "tg-minilm-XXXXXX", path[TEST_PATH + 32];
  tg_context *context;
  CHECK(test_folder(folder) && !tg_context_create(NULL, &context), "%s", folder);
  if (test_failed) return TEST_END();
  snprintf(path, sizeof path, "%s/file", folder);
  fill(&w);
  write_weights(&w, path);
  test_encoder(context, &w, path);
  test_damaged(context, &w, path);
  test_tokenizer(path);
  for (int i = 0; i < w.n; i++) free(w.data[i]);
  remove(path), rmdir(folder);
  tg_context_free(context);
  return TEST_END();
}
