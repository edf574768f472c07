/* SPDX-License-Identifier: MIT
 * A libcublas.so.13 for tests beside the stand-in of the driver, whose memory is the host's: products by plain loops,
 * matrices by columns as in cuBLAS. What the library would refuse is refused: no current context, sizes and leading
 * dimensions that do not fit, 8-bit operands beside its layouts. Work stands in order on the stream.
 * TG_TEST_CUBLAS_WRONG: the first element of a product is off by one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define API(name, arguments)                                                                                           \
  EXPORT int name arguments;                                                                                           \
  int name arguments
enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { F32 = 0, F64 = 1, F16 = 2, I8 = 3, I32 = 10, BF16 = 14 };

typedef struct { void *stream; int math; } handle;
typedef struct { int type; int64_t rows, columns, ld; } layout;
typedef struct { int compute, scale, turned[2]; } operation;

/* A product C = op(A) op(B), m by n. */
typedef struct {
  void *stream;
  layout a, b, c;
  bool ta, tb;
  int compute;
  const void *at[2];
  void *to;
} product;

static void *driver(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? dlsym(library, name) : NULL;
}

static size_t bytes_of(int type) { return type == F64 ? 8 : type == F32 || type == I32 ? 4 : type == I8 ? 1 : 2; }

static double read_16(int type, uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  if (type == F16) {
    uint32_t e = h >> 10 & 31;
    bits = (uint32_t)(h & 0x8000) << 16 | (e ? (e + 112) << 23 | (uint32_t)(h & 1023) << 13 : 0);
  }
  memcpy(&f, &bits, 4);
  return (double)f;
}

static double read(int type, const void *x, size_t i) {
  switch (type) {
  case F32: return (double)((const float *)x)[i];
  case F64: return ((const double *)x)[i];
  case I8: return ((const int8_t *)x)[i];
  default: return read_16(type, ((const uint16_t *)x)[i]);
  }
}

/* To nearest even, of numbers that are not subnormal in the type. */
static uint16_t round_16(int type, float v) {
  uint32_t bits, drop = type == F16 ? 13 : 16;
  memcpy(&bits, &v, 4);
  uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  size += (1u << (drop - 1)) - 1 + (size >> drop & 1);
  if (type == BF16) return (uint16_t)(sign | size >> 16);
  return (uint16_t)(sign | (size >> 23 < 113 ? 0 : (size >> 13) - (112 << 10)));
}

static void write(int type, void *x, size_t i, double v) {
  switch (type) {
  case F32: ((float *)x)[i] = (float)v; return;
  case F64: ((double *)x)[i] = v; return;
  case I32: ((int32_t *)x)[i] = (int32_t)v; return;
  default: ((uint16_t *)x)[i] = round_16(type, (float)v);
  }
}

static int refuses(const product *p) {
  int64_t m = p->c.rows, n = p->c.columns, k = p->ta ? p->a.rows : p->a.columns;
  if (p->a.ld < p->a.rows || p->b.ld < p->b.rows || p->c.ld < m) return INVALID_VALUE;
  if ((p->ta ? p->a.columns : p->a.rows) != m || (p->tb ? p->b.rows : p->b.columns) != n ||
      (p->tb ? p->b.columns : p->b.rows) != k) return INVALID_VALUE;
  if (p->a.type != p->b.type) return NOT_SUPPORTED;
  if (p->a.type == I8)
    return p->compute != 72 || p->c.type != I32 || p->a.ld % 4 || p->b.ld % 4 || p->c.ld % 4 || !p->ta || p->tb
               ? NOT_SUPPORTED : 0;
  return p->c.type != p->a.type || p->compute != (p->a.type == F64 ? 70 : 68) ? NOT_SUPPORTED : 0;
}

static void compute(const product *p, void *to) {
  int64_t depth = p->ta ? p->a.rows : p->a.columns;
  for (int64_t j = 0; j < p->c.columns; j++)
    for (int64_t i = 0; i < p->c.rows; i++) {
      double sum = getenv("TG_TEST_CUBLAS_WRONG") && !i && !j;
      for (int64_t k = 0; k < depth; k++)
        sum += read(p->a.type, p->at[0], (size_t)(p->ta ? k + i * p->a.ld : i + k * p->a.ld)) *
               read(p->b.type, p->at[1], (size_t)(p->tb ? j + k * p->b.ld : k + j * p->b.ld));
      write(p->c.type, to, (size_t)(i + j * p->c.ld), sum);
    }
}

/* Behind what the stream has; the copy into C takes the time that the driver's clock gives an operation. */
static int run(const product *p) {
  int (*wait)(void *) = (int (*)(void *))(uintptr_t)driver("cuStreamSynchronize"),
      (*copy)(uint64_t, uint64_t, size_t, void *) =
          (int (*)(uint64_t, uint64_t, size_t, void *))(uintptr_t)driver("cuMemcpyAsync"),
      (*current)(void **) = (int (*)(void **))(uintptr_t)driver("cuCtxGetCurrent");
  void *context = NULL;
  int code = refuses(p);
  if (code) return code;
  if (!wait || !copy || !current || current(&context) || !context) return NOT_INITIALIZED;
  if ((code = wait(p->stream))) return 14;
  size_t bytes = (size_t)(p->c.ld * p->c.columns) * bytes_of(p->c.type);
  void *to = malloc(bytes);
  memcpy(to, p->to, bytes);
  compute(p, to);
  code = copy((uint64_t)(uintptr_t)p->to, (uint64_t)(uintptr_t)to, bytes, p->stream);
  if (!code) code = wait(p->stream);
  free(to);
  return code ? 14 : 0;
}

static bool zero(int compute, const void *x) {
  return compute == 72 ? !*(const int32_t *)x : compute == 70 ? *(const double *)x == 0 : *(const float *)x == 0;
}

/* ---- cublas ---- */

API(cublasCreate_v2, (handle * *out)) { return (*out = calloc(1, sizeof **out)) ? 0 : 3; }
API(cublasDestroy_v2, (handle * h)) { return free(h), 0; }
API(cublasGetVersion_v2, (handle * h, int *version)) { return (void)h, *version = 130000, 0; }
API(cublasSetStream_v2, (handle * h, void *stream)) { return h->stream = stream, 0; }
API(cublasSetMathMode, (handle * h, int mode)) { return h->math = mode, 0; }

API(cublasGemmEx, (handle * h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int of_a, int lda,
                   const void *b, int of_b, int ldb, const void *beta, void *c, int of_c, int ldc, int compute_type,
                   int algorithm)) {
  product p = {.stream = h->stream, .a = {of_a, ta ? k : m, ta ? m : k, lda}, .b = {of_b, tb ? n : k, tb ? k : n, ldb},
               .c = {of_c, m, n, ldc}, .ta = ta, .tb = tb, .compute = compute_type, .at = {a, b}, .to = c};
  if (algorithm != -1 || zero(compute_type, alpha) || !zero(compute_type, beta)) return NOT_SUPPORTED;
  return run(&p);
}

/* ---- cublasLt ---- */

API(cublasLtMatmulDescCreate, (operation * *out, int compute_type, int scale)) {
  if (!(*out = calloc(1, sizeof **out))) return 3;
  (*out)->compute = compute_type, (*out)->scale = scale;
  return 0;
}
API(cublasLtMatmulDescDestroy, (operation * o)) { return free(o), 0; }
API(cublasLtMatmulDescSetAttribute, (operation * o, int what, const void *value, size_t bytes)) {
  if (bytes != 4 || what < 3 || what > 4) return INVALID_VALUE;
  memcpy(&o->turned[what - 3], value, bytes);
  return 0;
}
API(cublasLtMatrixLayoutCreate, (layout * *out, int type, uint64_t rows, uint64_t columns, int64_t ld)) {
  if (!(*out = malloc(sizeof **out))) return 3;
  **out = (layout){type, (int64_t)rows, (int64_t)columns, ld};
  return 0;
}
API(cublasLtMatrixLayoutDestroy, (layout * l)) { return free(l), 0; }
API(cublasLtMatmulPreferenceCreate, (void **out)) { return (*out = malloc(1)) ? 0 : 3; }
API(cublasLtMatmulPreferenceDestroy, (void *p)) { return free(p), 0; }
API(cublasLtMatmulPreferenceSetAttribute, (void *p, int what, const void *value, size_t bytes)) {
  return !p || !value || !((what == 1 && bytes == 8) || (what == 3 && bytes == 4)) ? INVALID_VALUE : 0;
}

static product light(handle *h, const operation *o, const layout *a, const layout *b, const layout *c) {
  return (product){.stream = h->stream, .a = *a, .b = *b, .c = *c, .ta = o->turned[0], .tb = o->turned[1],
                   .compute = o->compute};
}

typedef struct { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; } choice;
API(cublasLtMatmulAlgoGetHeuristic, (handle * h, operation *o, layout *a, layout *b, layout *c, layout *d, void *wish,
                                     int most, choice *out, int *n)) {
  product p = light(h, o, a, b, c);
  *n = 0;
  if (!wish || c != d || refuses(&p)) return NOT_SUPPORTED;
  for (; *n < most && *n < 2; ++*n) out[*n] = (choice){.algorithm = {77, (uint64_t)*n}};
  return 0;
}

API(cublasLtMatmul, (handle * h, operation *o, const void *alpha, const void *at_a, layout *a, const void *at_b,
                     layout *b, const void *beta, const void *at_c, layout *c, void *at_d, layout *d,
                     const uint64_t *algorithm, void *workspace, size_t bytes, void *stream)) {
  product p = light(h, o, a, b, c);
  if (algorithm[0] != 77 || at_c != at_d || c != d || zero(o->compute, alpha) || !zero(o->compute, beta) ||
      (bytes && !workspace) || stream != h->stream) return INVALID_VALUE;
  p.at[0] = at_a, p.at[1] = at_b, p.to = at_d;
  return run(&p);
}
