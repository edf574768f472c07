/* SPDX-License-Identifier: MIT
 * cuBLAS and cuBLASLt, opened at run time; their functions are declared here as their manual says, and so are those of
 * the driver that give a stream (CUDA Driver API). Both number matrices by columns: row major C = A B is their
 * C' = B' A'. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "bench/vendor.h"

/* Constants of cuBLAS: cublasOperation_t, cudaDataType_t, cublasComputeType_t, cublasMath_t, and of cuBLASLt. */
enum { AS_IS = 0, TRANSPOSED = 1 };
enum { REAL_F32 = 0, REAL_F64 = 1, REAL_F16 = 2, REAL_I8 = 3, REAL_I32 = 10, REAL_BF16 = 14 };
enum { IN_F32 = 68, IN_F64 = 70, IN_I32 = 72, BY_DEFAULT = -1 };
/* Without it, sums in parts of f16 and bf16 may be added up in that type. */
enum { NO_REDUCED_PRECISION = 16 };
enum { LT_TRANSPOSE_A = 3, LT_TRANSPOSE_B = 4, LT_WORKSPACE = 1, LT_REDUCTIONS = 3 };
enum { LT_IN_PLACE = 1, LT_IN_COMPUTE_TYPE = 2 };

enum { WAYS = 8, WORKSPACE = 64 << 20 };
typedef struct lt_choice {     /* cublasLtMatmulHeuristicResult_t */
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_choice;

#define DRIVER(F)                                                                                                      \
  F(cuDeviceGet, (int *, int))                                                                                         \
  F(cuDevicePrimaryCtxRetain, (void **, int))                                                                          \
  F(cuDevicePrimaryCtxRelease_v2, (int))                                                                               \
  F(cuCtxPushCurrent_v2, (void *))                                                                                     \
  F(cuCtxPopCurrent_v2, (void **))                                                                                     \
  F(cuStreamCreate, (void **, unsigned))                                                                               \
  F(cuStreamDestroy_v2, (void *))
#define CUBLAS(F)                                                                                                      \
  F(cublasCreate_v2, (void **))                                                                                        \
  F(cublasDestroy_v2, (void *))                                                                                        \
  F(cublasGetVersion_v2, (void *, int *))                                                                              \
  F(cublasSetStream_v2, (void *, void *))                                                                              \
  F(cublasSetMathMode, (void *, int))                                                                                  \
  F(cublasGemmEx, (void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,      \
                   const void *, void *, int, int, int, int))
/* The library's own dependency has these. */
#define CUBLAS_LT(F)                                                                                                   \
  F(cublasLtMatmulDescCreate, (void **, int, int))                                                                     \
  F(cublasLtMatmulDescDestroy, (void *))                                                                               \
  F(cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t))                                               \
  F(cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))                                           \
  F(cublasLtMatrixLayoutDestroy, (void *))                                                                             \
  F(cublasLtMatmulPreferenceCreate, (void **))                                                                         \
  F(cublasLtMatmulPreferenceDestroy, (void *))                                                                         \
  F(cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t))                                         \
  F(cublasLtMatmulAlgoGetHeuristic, (void *, void *, void *, void *, void *, void *, void *, int, lt_choice *, int *)) \
  F(cublasLtMatmul, (void *, void *, const void *, const void *, void *, const void *, void *, const void *,           \
                     const void *, void *, void *, void *, const uint64_t *, void *, size_t, void *))

struct bench_vendor {
  bench_device *of;
  void *driver, *library;
#define F(name, arguments) int(*name) arguments;
  DRIVER(F) CUBLAS(F) CUBLAS_LT(F)
#undef F
  int number;                  /* CUdevice */
  void *context, *stream, *handle, *workspace;
  bool entered, light;         /* light: cuBLASLt is there, too */
  char version[24];
  /* the product at hand, turned: B' A' */
  int type[3], compute, scale, op[2], ld[3], m, n, k;
  const void *a, *b;
  void *c;
  void *desc, *layout[3];
  lt_choice choice[WAYS];
  struct { int choice; char name[40]; } way[WAYS + 1];   /* choice -1: cublasGemmEx */
  int ways, chosen;
};

static bool functions(void *library, const char *const *names, void **const *to, size_t n, const char **missing) {
  for (size_t i = 0; i < n; i++)
    if (!(*to[i] = dlsym(library, names[i]))) return *missing = names[i], false;
  return true;
}

#define NAME(name, arguments) #name,
#define PLACE(name, arguments) (void **)&v->name,
#define FIND(library, LIST)                                                                                            \
  functions(library, (const char *const[]){LIST(NAME)}, (void **const[]){LIST(PLACE)},                                 \
            sizeof((const char *const[]){LIST(NAME)}) / sizeof(char *), &missing)

/* By its name, as the system finds it, and where CUDA's and Python's packages put it, the newest first. */
static void *find_library(const char *file) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"},
                          *const places[] = {"/usr/local/cuda*/lib64/", "/usr/local/cuda*/lib/", "/opt/cuda/lib64/",
                                             "/usr/lib/python3*/*-packages/nvidia/*/lib/",
                                             "/usr/local/lib/python3*/*-packages/nvidia/*/lib/",
                                             "/opt/*/lib/python3*/site-packages/nvidia/*/lib/"};
  void *library = NULL;
  if (!file) file = getenv("TG_CUBLAS");
  if (file && *file) return dlopen(file, RTLD_NOW | RTLD_LOCAL);
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    if ((library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL))) return library;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
      char pattern[128];
      glob_t found;
      snprintf(pattern, sizeof pattern, "%s%s", places[p], names[n]);
      if (!glob(pattern, 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc && !library; i++)
          library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
      globfree(&found);
      if (library) return library;
    }
  }
  return NULL;
}

static bool open_libraries(bench_vendor *v, const char *file) {
  const char *missing = NULL;
  v->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!v->driver) return fprintf(stderr, "tg bench gemm: %s\n", dlerror()), false;
  v->library = find_library(file);
  if (!v->library)
    return fprintf(stderr, "tg bench gemm: cublas: no libcublas.so.13 or .12 was opened (--vs cublas=FILE or TG_CUBLAS "
                           "says where one is): %s\n", dlerror()), false;
  if (!FIND(v->driver, DRIVER) || !FIND(v->library, CUBLAS))
    return fprintf(stderr, "tg bench gemm: cublas: there is no function %s\n", missing), false;
  v->light = FIND(v->library, CUBLAS_LT);
  return true;
}

/* A stream in the device's primary context, which stays current in this thread: cuBLAS works on the current one. */
static bool open_stream(bench_vendor *v) {
  enum { NON_BLOCKING = 1 };
  bench_device *d = v->of;
  int number = atoi(strchr(d->args->device, ':') ? strchr(d->args->device, ':') + 1 : "0");
  tg_queue *queue;
  if (v->cuDeviceGet(&v->number, number) || v->cuDevicePrimaryCtxRetain(&v->context, v->number) ||
      v->cuCtxPushCurrent_v2(v->context))
    return fprintf(stderr, "tg bench gemm: cublas: the device's context cannot be entered\n"), false;
  v->entered = true;
  if (v->cuStreamCreate(&v->stream, NON_BLOCKING))
    return v->stream = NULL, fprintf(stderr, "tg bench gemm: cublas: no stream\n"), false;
  if (tg_queue_open(d->device, &(tg_queue_options){.native = v->stream}, &queue))
    return fprintf(stderr, "tg bench gemm: %s\n", tg_error_message(d->context)), false;
  tg_queue_free(d->queue);
  d->queue = queue;
  return true;
}

static bool open_handle(bench_vendor *v) {
  int version = 0, code = v->cublasCreate_v2(&v->handle);
  if (code) return v->handle = NULL, fprintf(stderr, "tg bench gemm: cublas: cublasCreate: %d\n", code), false;
  v->cublasGetVersion_v2(v->handle, &version);
  snprintf(v->version, sizeof v->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  if ((code = v->cublasSetStream_v2(v->handle, v->stream)) ||
      (code = v->cublasSetMathMode(v->handle, NO_REDUCED_PRECISION)))
    return fprintf(stderr, "tg bench gemm: cublas %s: its settings: %d\n", v->version, code), false;
  v->light = v->light && (v->workspace = bench_device_take(v->of, NULL, WORKSPACE)) != NULL;
  return true;
}

bench_vendor *bench_vendor_open(const char *vs, bench_device *d) {
  size_t name = strcspn(vs, "=");
  if (name != strlen("cublas") || strncmp(vs, "cublas", name))
    return fprintf(stderr, "tg bench gemm: '%s' is none that a device is measured against: cublas\n", vs), NULL;
  if (strncmp(d->args->device, "cuda", 4))
    return fprintf(stderr, "tg bench gemm: cublas is for cuda:0, not for %s\n", d->args->device), NULL;
  bench_vendor *v = calloc(1, sizeof *v);
  if (!v) return fprintf(stderr, "tg bench gemm: out of memory\n"), NULL;
  v->of = d;
  if (open_libraries(v, vs[name] ? vs + name + 1 : NULL) && open_stream(v) && open_handle(v)) return v;
  bench_device_close(d);
  bench_vendor_close(v);
  return NULL;
}

static void drop_product(bench_vendor *v) {
  if (v->desc) v->cublasLtMatmulDescDestroy(v->desc);
  for (int i = 0; i < 3; i++)
    if (v->layout[i]) v->cublasLtMatrixLayoutDestroy(v->layout[i]);
  v->desc = v->layout[0] = v->layout[1] = v->layout[2] = NULL;
  v->ways = 0;
}

/* The workspace is the device's, and goes with it. */
void bench_vendor_close(bench_vendor *v) {
  void *popped;
  if (!v) return;
  drop_product(v);
  if (v->handle) v->cublasDestroy_v2(v->handle);
  if (v->stream) v->cuStreamDestroy_v2(v->stream);
  if (v->entered) v->cuCtxPopCurrent_v2(&popped);
  if (v->context) v->cuDevicePrimaryCtxRelease_v2(v->number);
  free(v);
}

const char *bench_vendor_version(const bench_vendor *v) { return v->version; }

/* ---- a product ---- */

static int real(tg_type t) {
  return t == TG_F32    ? REAL_F32
         : t == TG_F64  ? REAL_F64
         : t == TG_F16  ? REAL_F16
         : t == TG_BF16 ? REAL_BF16
         : t == TG_I8   ? REAL_I8
         : t == TG_I32  ? REAL_I32
                        : -1;
}

static const void *factor(const bench_vendor *v, bool one) {
  static const float f32[] = {0, 1};
  static const double f64[] = {0, 1};
  static const int32_t i32[] = {0, 1};
  return v->scale == REAL_F64 ? (const void *)&f64[one] : v->scale == REAL_I32 ? (const void *)&i32[one] : &f32[one];
}

static int gemm_ex(const bench_vendor *v) {
  return v->cublasGemmEx(v->handle, v->op[0], v->op[1], v->m, v->n, v->k, factor(v, true), v->a, v->type[0], v->ld[0],
                         v->b, v->type[1], v->ld[1], factor(v, false), v->c, v->type[2], v->ld[2], v->compute,
                         BY_DEFAULT);
}

/* What cuBLASLt would choose, its first choices in its own order. */
static int light_choices(bench_vendor *v) {
  const size_t most = WORKSPACE;
  const uint32_t reductions = LT_IN_PLACE | LT_IN_COMPUTE_TYPE;
  void *wish = NULL;
  int n = 0;
  bool turned[] = {v->op[0] == TRANSPOSED, v->op[1] == TRANSPOSED};
  int rows[] = {turned[0] ? v->k : v->m, turned[1] ? v->n : v->k, v->m},
      columns[] = {turned[0] ? v->m : v->k, turned[1] ? v->k : v->n, v->n};
  bool made = !v->cublasLtMatmulDescCreate(&v->desc, v->compute, v->scale) &&
              !v->cublasLtMatmulDescSetAttribute(v->desc, LT_TRANSPOSE_A, &v->op[0], sizeof v->op[0]) &&
              !v->cublasLtMatmulDescSetAttribute(v->desc, LT_TRANSPOSE_B, &v->op[1], sizeof v->op[1]) &&
              !v->cublasLtMatmulPreferenceCreate(&wish) &&
              !v->cublasLtMatmulPreferenceSetAttribute(wish, LT_WORKSPACE, &most, sizeof most) &&
              !v->cublasLtMatmulPreferenceSetAttribute(wish, LT_REDUCTIONS, &reductions, sizeof reductions);
  for (int i = 0; i < 3 && made; i++)
    made = !v->cublasLtMatrixLayoutCreate(&v->layout[i], v->type[i], (uint64_t)rows[i], (uint64_t)columns[i], v->ld[i]);
  if (made && v->cublasLtMatmulAlgoGetHeuristic(v->handle, v->desc, v->layout[0], v->layout[1], v->layout[2],
                                                v->layout[2], wish, WAYS, v->choice, &n)) n = 0;
  if (wish) v->cublasLtMatmulPreferenceDestroy(wish);
  return n;
}

static int light(const bench_vendor *v, int i) {
  return v->cublasLtMatmul(v->handle, v->desc, factor(v, true), v->a, v->layout[0], v->b, v->layout[1],
                           factor(v, false), v->c, v->layout[2], v->c, v->layout[2], v->choice[i].algorithm,
                           v->workspace, WORKSPACE, v->stream);
}

static void add_way(bench_vendor *v, int choice) {
  v->way[v->ways].choice = choice;
  if (choice < 0) snprintf(v->way[v->ways++].name, sizeof v->way->name, "cublasGemmEx");
  else snprintf(v->way[v->ways++].name, sizeof v->way->name, "cublasLtMatmul, choice %d", choice + 1);
}

int bench_vendor_ways(bench_vendor *v, const bench_product *x, void *const at[3]) {
  const tg_type c = x->type->c;
  drop_product(v);
  v->type[0] = real(x->type->b), v->type[1] = real(x->type->a), v->type[2] = real(c);
  if (v->type[0] < 0 || v->type[1] < 0 || v->type[2] < 0) return 0;
  v->compute = c == TG_F64 ? IN_F64 : c == TG_I32 ? IN_I32 : IN_F32;
  v->scale = c == TG_F64 ? REAL_F64 : c == TG_I32 ? REAL_I32 : REAL_F32;
  v->op[0] = x->tb ? TRANSPOSED : AS_IS, v->op[1] = x->ta ? TRANSPOSED : AS_IS;
  v->ld[0] = x->ldb, v->ld[1] = x->lda, v->ld[2] = x->ldc;
  v->m = x->n, v->n = x->m, v->k = x->k;
  v->a = at[1], v->b = at[0], v->c = at[2];
  if (!gemm_ex(v)) add_way(v, -1);
  for (int i = 0, n = v->light ? light_choices(v) : 0; i < n; i++)
    if (!v->choice[i].state && !light(v, i)) add_way(v, i);
  return v->ways;
}

const char *bench_vendor_choose(bench_vendor *v, int way) { return v->way[v->chosen = way].name; }

tg_status bench_vendor_put(void *user, tg_queue *q) {
  bench_vendor *v = user;
  char message[96];
  int choice = v->way[v->chosen].choice, code = choice < 0 ? gemm_ex(v) : light(v, choice);
  (void)q;   /* it is on the stream */
  if (!code) return TG_OK;
  snprintf(message, sizeof message, "%s: cublasStatus_t %d", v->way[v->chosen].name, code);
  return tg_context_fail(v->of->context, TG_EIO, message);
}
