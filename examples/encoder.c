/* SPDX-License-Identifier: MIT
 * An encoder of sentences as one program: six layers of attention and two products, with the sizes of MiniLM (384
 * elements, 12 heads, 1536 between), for one sentence. The same steps also run as separate launches: both give the same
 * bits. Weights are random, and packed once.
 *   encoder [TOKENS [THREADS [maps]]]
 * With `maps`, bias, GELU and residual are launches behind the products, not their epilogues: the program makes them
 * that. What makes the program is encode(); put or run is one word's difference at each step. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tg/attention.h>
#include <tg/dsl.h>
#include <tg/gemm.h>
#include <tg/program.h>

enum { WIDTH = 384, HEADS = 12, HEAD = WIDTH / HEADS, INNER = 1536, LAYERS = 6, STEPS = 7 * LAYERS, MAPS = 7 };

TG_KERNEL(normalise, T) {
  tg_let(W, WIDTH);
  tg_in(x, f32, [T, W]);
  tg_in(gain, f32, [W]);
  tg_in(bias, f32, [W]);
  tg_out(y, f32, [T, W]);
  tg_range(t, T) {
    tg(let mean = sum(i : W, x[t,i]) / f32(W));
    tg(let spread = sum(j : W, (x[t,j] - mean) * (x[t,j] - mean)) / f32(W));
    tg_range(k, W) tg(y[t,k] = (x[t,k] - mean) * rsqrt(spread + 1e-12) * gain[k] + bias[k]);
  }
}

TG_KERNEL(add_bias, T, W) {
  tg_in(x, f32, [T, W]);
  tg_in(bias, f32, [W]);
  tg_out(y, f32, [T, W]);
  tg_range(t, T) tg_range(k, W) tg(y[t,k] = x[t,k] + bias[k]);
}

TG_KERNEL(gelu, T, W) {
  tg_in(x, f32, [T, W]);
  tg_out(y, f32, [T, W]);
  tg_range(t, T) tg_range(k, W) tg(y[t,k] = 0.5 * x[t,k] * (1 + erf(x[t,k] * 0.70710678)));
}

TG_KERNEL(add_residual, T, W) {
  tg_in(x, f32, [T, W]);
  tg_in(old, f32, [T, W]);
  tg_out(y, f32, [T, W]);
  tg_range(t, T) tg_range(k, W) tg(y[t,k] = x[t,k] + old[t,k]);
}

enum { QKV, OUT, UP, DOWN, PRODUCTS };
static const int64_t wide[PRODUCTS] = {3 * WIDTH, WIDTH, INNER, WIDTH},
                     deep[PRODUCTS] = {WIDTH, WIDTH, WIDTH, INNER};

typedef struct {
  void *packed[PRODUCTS];      /* weights */
  float qkv_bias[3 * WIDTH], out_bias[WIDTH], up_bias[INNER], down_bias[WIDTH], gain[2][WIDTH], bias[2][WIDTH];
} layer;
typedef struct {
  tg_context *context;
  int64_t tokens;
  int threads;
  tg_gemm *product[PRODUCTS];
  tg_gemm_packing packing[PRODUCTS];
  tg_attention *attention;
  tg_kernel *normal, *add_bias, *gelu, *add_residual;
  int maps, maps_n;            /* maps: they are launches of their own; of which so many so far */
  layer *layers;
  float *own[STEPS + MAPS * LAYERS];   /* of separate launches: memory of each step's result */
  void *workspace;
  size_t workspace_bytes;
} encoder;

static void must(const encoder *e, tg_status s) {
  if (s) printf("%s\n", tg_error_message(e->context)), exit(1);
}

/* ---- the steps: into the program p, or (NULL) run at once ---- */

/* Memory for the result of step n. */
static float *result(encoder *e, tg_program *p, int n, int64_t columns) {
  char name[24];
  void *at = e->own[n];
  snprintf(name, sizeof name, "step %d", n);
  if (p) must(e, tg_program_temporary(p, name, (size_t)(e->tokens * columns) * sizeof(float), &at));
  return at;
}

/* y = map(x, more); more is a row or a matrix, or NULL. */
static float *map(encoder *e, tg_program *p, tg_kernel *k, int64_t columns, float *x, const float *more,
                  int64_t more_rows, float *y) {
  int64_t size[] = {e->tokens, columns};
  size_t bytes = (size_t)(e->tokens * columns) * sizeof *x;
  tg_argument a[3] = {{.data = x, .bytes = bytes}};
  uint32_t n = 1;
  if (more) a[n].data = (void *)(uintptr_t)more, a[n++].bytes = (size_t)(more_rows * columns) * sizeof *more;
  if (!y) y = result(e, p, STEPS + e->maps_n++, columns);
  a[n].data = y, a[n++].bytes = bytes;
  tg_launch l = {.buffers = a, .buffers_n = n, .params = size, .params_n = 2, .threads = e->threads};
  must(e, p ? tg_program_launch(p, k, &l) : tg_kernel_run(k, &l));
  return y;
}

/* acts: GELU; old: the residual, or NULL. */
static void multiply(encoder *e, tg_program *p, const layer *l, int which, const float *a, const float *bias, int acts,
                     const float *old, float *c) {
  int64_t n = wide[which];
  tg_gemm *g = e->product[which];
  float *sums = e->maps ? result(e, p, STEPS + e->maps_n++, n) : c;
  tg_gemm_call call = {.m = e->tokens, .a = a, .b = l->packed[which], .c = sums, .arg = {bias, old}};
  if (e->maps) call.arg[0] = call.arg[1] = NULL;
  if (p) must(e, tg_gemm_put(p, g, &call));
  else call.workspace = e->workspace, call.workspace_bytes = e->workspace_bytes, must(e, tg_gemm_run(g, &call));
  if (!e->maps) return;
  float *biased = map(e, p, e->add_bias, n, sums, bias, 1, acts || old ? NULL : c);
  if (acts) map(e, p, e->gelu, n, biased, NULL, 0, c);
  if (old) map(e, p, e->add_residual, n, biased, old, e->tokens, c);
}

static void attend(encoder *e, tg_program *p, const float *qkv, float *o) {
  tg_attention_call call = {.queries = e->tokens, .keys = e->tokens,
                            .q = qkv, .k = qkv + WIDTH, .v = qkv + 2 * WIDTH, .o = o,
                            .q_strides = {0, HEAD, 3 * WIDTH}, .k_strides = {0, HEAD, 3 * WIDTH},
                            .v_strides = {0, HEAD, 3 * WIDTH}, .o_strides = {0, HEAD, WIDTH}};
  if (p) must(e, tg_attention_put(p, e->attention, &call));
  else call.workspace = e->workspace, call.workspace_bytes = e->workspace_bytes,
       must(e, tg_attention_run(e->attention, &call));
}

static void normalised(encoder *e, tg_program *p, float *x, float *gain, float *bias, float *y) {
  size_t bytes = (size_t)e->tokens * WIDTH * sizeof *x;
  tg_argument a[] = {{.data = x, .bytes = bytes}, {.data = gain, .bytes = WIDTH * sizeof *gain},
                     {.data = bias, .bytes = WIDTH * sizeof *bias}, {.data = y, .bytes = bytes}};
  tg_launch l = {.buffers = a, .buffers_n = 4, .params = &e->tokens, .params_n = 1, .threads = e->threads};
  must(e, p ? tg_program_launch(p, e->normal, &l) : tg_kernel_run(e->normal, &l));
}

static void encode(encoder *e, tg_program *p, float *x, float *y) {
  e->maps_n = 0;
  for (int i = 0, n = 0; i < LAYERS; i++) {
    layer *l = &e->layers[i];
    float *qkv = result(e, p, n++, 3 * WIDTH), *seen = result(e, p, n++, WIDTH), *sum = result(e, p, n++, WIDTH),
          *mid = result(e, p, n++, WIDTH), *inner = result(e, p, n++, INNER), *whole = result(e, p, n++, WIDTH),
          *next = result(e, p, n++, WIDTH);
    if (i + 1 == LAYERS) next = y;
    multiply(e, p, l, QKV, x, l->qkv_bias, 0, NULL, qkv);
    attend(e, p, qkv, seen);
    multiply(e, p, l, OUT, seen, l->out_bias, 0, x, sum);
    normalised(e, p, sum, l->gain[0], l->bias[0], mid);
    multiply(e, p, l, UP, mid, l->up_bias, 1, NULL, inner);
    multiply(e, p, l, DOWN, inner, l->down_bias, 0, mid, whole);
    normalised(e, p, whole, l->gain[1], l->bias[1], next);
    x = next;
  }
}

/* ---- plans ---- */

static void open_product(encoder *e, int which, const char *epilogue) {
  tg_gemm_desc d = {.m = {e->tokens, 0}, .n = {wide[which], 0}, .k = {deep[which], 0}, .threads = e->threads,
                    .epilogue = epilogue};
  if (e->maps) d.epilogue = NULL;
  else d.arg[0].name = "bias", d.arg[0].per = TG_PER_COLUMN;
  if (d.epilogue && strstr(epilogue, "old")) d.arg[1].name = "old", d.arg[1].per = TG_PER_ELEMENT;
  must(e, tg_gemm_packing_choose(e->context, &d, 1, &e->packing[which]));
  d.packing = &e->packing[which];
  must(e, tg_gemm_plan(e->context, &d, &e->product[which]));
}

static void fill(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = (float)rand() / (float)RAND_MAX * 0.1f - 0.05f;
}

static void open_layer(encoder *e, layer *l) {
  float *weights = malloc((size_t)WIDTH * INNER * sizeof *weights);
  fill(l->qkv_bias, (sizeof *l - offsetof(layer, qkv_bias)) / sizeof(float));
  for (int i = 0; i < PRODUCTS; i++) {
    fill(weights, (size_t)(deep[i] * wide[i]));
    l->packed[i] = malloc(e->packing[i].bytes);
    must(e, tg_gemm_pack(&e->packing[i], weights, (int64_t[]){wide[i], 1}, l->packed[i]));
  }
  free(weights);
}

static void open_encoder(encoder *e) {
  tg_attention_desc a = {.heads = HEADS, .head = HEAD, .queries = {e->tokens, 0}, .keys = {e->tokens, 0},
                         .threads = e->threads};
  tg_binding sizes[] = {{"T", 1, 4096, 1}, {"W", 1, 3 * WIDTH + INNER, 1}};
  if (tg_context_create(&(tg_context_options){.threads = e->threads}, &e->context)) exit(1);
  open_product(e, QKV, "acc + bias");
  open_product(e, OUT, "acc + bias + old");
  open_product(e, UP, "0.5 * (acc + bias) * (1 + erf((acc + bias) * 0.70710678))");
  open_product(e, DOWN, "acc + bias + old");
  must(e, tg_attention_plan(e->context, &a, &e->attention));
  tg_compile_options o = {.bindings = sizes, .bindings_n = 1}, of_maps = {.bindings = sizes, .bindings_n = 2};
  must(e, tg_kernel_compile(e->context, &normalise, &o, &e->normal));
  must(e, tg_kernel_compile(e->context, &add_bias, &of_maps, &e->add_bias));
  must(e, tg_kernel_compile(e->context, &gelu, &of_maps, &e->gelu));
  must(e, tg_kernel_compile(e->context, &add_residual, &of_maps, &e->add_residual));
  e->layers = malloc(LAYERS * sizeof(layer));
  for (int i = 0; i < LAYERS; i++) open_layer(e, &e->layers[i]);
  for (int i = 0; i < STEPS + MAPS * LAYERS; i++)
    e->own[i] = aligned_alloc(64, (size_t)e->tokens * INNER * sizeof(float));
  for (int i = 0; i < PRODUCTS; i++) {
    size_t bytes = tg_gemm_workspace(e->product[i], NULL);
    if (bytes > e->workspace_bytes) e->workspace_bytes = bytes;
  }
  size_t for_attention = tg_attention_workspace(e->attention, NULL);
  if (for_attention > e->workspace_bytes) e->workspace_bytes = for_attention;
  e->workspace = malloc(e->workspace_bytes);
}

/* ---- both ways ---- */

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv) {
  enum { ROUNDS = 61 };
  static double times[2][ROUNDS];
  encoder e = {.tokens = argc > 1 ? atoi(argv[1]) : 16, .threads = argc > 2 ? atoi(argv[2]) : 2,
               .maps = argc > 3 && !strcmp(argv[3], "maps")};
  if (e.tokens < 1 || e.threads < 1 || (argc > 3 && !e.maps)) return puts("encoder [TOKENS [THREADS [maps]]]"), 1;
  open_encoder(&e);
  size_t bytes = (size_t)e.tokens * WIDTH * sizeof(float);
  /* both ways read and write the same memory, so that neither has it in better places */
  float *x = aligned_alloc(64, bytes), *y = aligned_alloc(64, bytes), *first = malloc(bytes), *px, *py;
  for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  tg_program *p;
  must(&e, tg_program_begin(e.context, &(tg_program_options){.threads = e.threads}, &p));
  must(&e, tg_program_argument(p, "x", bytes, (void **)&px));
  must(&e, tg_program_argument(p, "y", bytes, (void **)&py));
  encode(&e, p, px, py);
  must(&e, tg_program_end(p));
  tg_argument a[] = {{.data = x, .bytes = bytes}, {.data = y, .bytes = bytes}};
  int differs = 0;
  for (int i = 0; i < ROUNDS; i++) {
    double start = now();
    encode(&e, NULL, x, y);
    times[0][i] = now() - start;
    memcpy(first, y, bytes), memset(y, 0, bytes);
    start = now();
    must(&e, tg_program_run(p, &(tg_program_call){.arguments = a, .arguments_n = 2}));
    times[1][i] = now() - start;
    differs |= memcmp(first, y, bytes) != 0;
  }
  for (int i = 0; i < 2; i++) qsort(times[i], ROUNDS, sizeof **times, by_value);
  tg_program_info about;
  tg_program_describe(p, &about);
  printf("%d tokens, %d threads, %u steps, %u of them part of another: %s bits\n", (int)e.tokens, e.threads,
         about.steps, about.fused, differs ? "OTHER" : "the same");
  printf("temporaries of %zu bytes lie in %zu, of which %zu live at once; %zu more for the threads\n",
         about.temporary_bytes, about.planned_bytes, about.live_bytes, about.scratch_bytes);
  printf("separate launches %.0f us, the program %.0f us (medians): %.3f\n", 1e6 * times[0][ROUNDS / 2],
         1e6 * times[1][ROUNDS / 2], times[1][ROUNDS / 2] / times[0][ROUNDS / 2]);
  tg_program_free(p);
  for (int i = 0; i < PRODUCTS; i++) tg_gemm_free(e.product[i]);
  for (int i = 0; i < LAYERS * PRODUCTS; i++) free(e.layers[i / PRODUCTS].packed[i % PRODUCTS]);
  tg_attention_free(e.attention);
  tg_kernel_free(e.normal), tg_kernel_free(e.add_bias), tg_kernel_free(e.gelu), tg_kernel_free(e.add_residual);
  tg_context_free(e.context);
  for (int i = 0; i < STEPS + MAPS * LAYERS; i++) free(e.own[i]);
  free(e.layers), free(e.workspace), free(x), free(y), free(first);
  return differs;
}
