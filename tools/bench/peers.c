/* SPDX-License-Identifier: MIT
 * The peers' entry points. Nothing of theirs is needed to build: their functions are declared here as their manuals
 * say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/machine.h"
#include "bench/peers.h"

static void *symbol(bench_peer *p, const char *name) { return dlsym(p->library, name); }

/* ---- CBLAS: OpenBLAS, BLIS, MKL ---- */

enum { ROWS = 101, AS_IS = 111, TRANSPOSED = 112 };
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);
typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                         double *, int);

static bool of(const bench_product *x, tg_type t) { return x->type->a == t && x->type->c == t; }
static bool cblas_prepare(bench_peer *p, const bench_product *x) {
  return (of(x, TG_F32) && p->f32) || (of(x, TG_F64) && p->f64);
}

static void cblas_run(bench_peer *p, const bench_product *x) {
  int ta = x->ta ? TRANSPOSED : AS_IS, tb = x->tb ? TRANSPOSED : AS_IS;
  if (of(x, TG_F32))
    ((sgemm_fn)(uintptr_t)p->f32)(ROWS, ta, tb, x->m, x->n, x->k, 1, x->a, x->lda, x->b, x->ldb, 0, x->c, x->ldc);
  else ((dgemm_fn)(uintptr_t)p->f64)(ROWS, ta, tb, x->m, x->n, x->k, 1, x->a, x->lda, x->b, x->ldb, 0, x->c, x->ldc);
}

static void open_cblas(bench_peer *p, const char *threads, const char *entry) {
  p->f32 = symbol(p, "cblas_sgemm");
  p->f64 = symbol(p, "cblas_dgemm");
  p->set_threads = symbol(p, threads);
  p->entry[p->entries++] = (bench_entry){.name = entry, .prepare = cblas_prepare, .run = cblas_run};
}

static void open_openblas(bench_peer *p) { open_cblas(p, "openblas_set_num_threads", "cblas_?gemm"); }

static void open_blis(bench_peer *p) {
  open_cblas(p, "bli_thread_set_num_threads", "cblas_?gemm, BLIS_ARCH_TYPE=0 (its AVX-512 kernels)");
}

/* ---- MKL's compiled products for small sizes ---- */

typedef int (*mkl_create_s)(void **, int, int, int, size_t, size_t, size_t, float, size_t, size_t, float, size_t);
typedef int (*mkl_create_d)(void **, int, int, int, size_t, size_t, size_t, double, size_t, size_t, double, size_t);
typedef void *(*mkl_pointer)(const void *);
typedef void (*mkl_call)(void *, const void *, const void *, void *);
enum { MKL_JITTER, MKL_CODE };

static void mkl_release(bench_peer *p) {
  int (*destroy)(void *) = (int (*)(void *))(uintptr_t)symbol(p, "mkl_jit_destroy");
  if (p->state[MKL_JITTER] && destroy) destroy(p->state[MKL_JITTER]);
  memset(p->state, 0, sizeof p->state);
}

static bool mkl_jit_prepare(bench_peer *p, const bench_product *x) {
  int ta = x->ta ? TRANSPOSED : AS_IS, tb = x->tb ? TRANSPOSED : AS_IS, status;
  size_t m = (size_t)x->m, n = (size_t)x->n, k = (size_t)x->k, lda = (size_t)x->lda, ldb = (size_t)x->ldb,
         ldc = (size_t)x->ldc;
  void *create = symbol(p, of(x, TG_F32) ? "mkl_cblas_jit_create_sgemm" : "mkl_cblas_jit_create_dgemm"),
       *pointer = symbol(p, of(x, TG_F32) ? "mkl_jit_get_sgemm_ptr" : "mkl_jit_get_dgemm_ptr");
  mkl_release(p);
  if ((!of(x, TG_F32) && !of(x, TG_F64)) || !create || !pointer || m > 128 || n > 128 || k > 128 || x->threads > 1)
    return false;
  if (of(x, TG_F32))
    status = ((mkl_create_s)(uintptr_t)create)(&p->state[MKL_JITTER], ROWS, ta, tb, m, n, k, 1, lda, ldb, 0, ldc);
  else status = ((mkl_create_d)(uintptr_t)create)(&p->state[MKL_JITTER], ROWS, ta, tb, m, n, k, 1, lda, ldb, 0, ldc);
  if (status) return false;   /* 1: it would call cblas_?gemm */
  p->state[MKL_CODE] = ((mkl_pointer)(uintptr_t)pointer)(p->state[MKL_JITTER]);
  return p->state[MKL_CODE] != NULL;
}

static void mkl_jit_run(bench_peer *p, const bench_product *x) {
  ((mkl_call)(uintptr_t)p->state[MKL_CODE])(p->state[MKL_JITTER], x->a, x->b, x->c);
}

static void open_mkl(bench_peer *p) {
  open_cblas(p, "MKL_Set_Num_Threads", "cblas_?gemm, MKL_THREADING_LAYER=GNU");
  p->entry[p->entries++] = (bench_entry){.name = "mkl_jit_?gemm", .prepare = mkl_jit_prepare, .run = mkl_jit_run};
  p->release = mkl_release;
}

/* ---- oneDNN ---- */

typedef int (*dnnl_sgemm_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                             int64_t, float, float *, int64_t);
enum {
  DNNL_F16 = 1,
  DNNL_BF16,
  DNNL_F32,
  DNNL_S32,
  DNNL_S8,
  DNNL_U8,
  DNNL_ANY = 1,
  DNNL_CPU = 1,
  DNNL_IN_ORDER = 1,
  DNNL_SRC = 1,
  DNNL_WEIGHTS = 33,
  DNNL_DST = 17,
  DNNL_FROM = 1,
  DNNL_QUERY_WEIGHTS = 131
};
enum {
  DNNL_ENGINE,
  DNNL_STREAM,
  DNNL_MATMUL,
  DNNL_MEMORY_A,
  DNNL_MEMORY_B,
  DNNL_MEMORY_C,
  DNNL_REORDER,
  DNNL_MEMORY_PACKED
};
typedef struct { int arg; void *memory; } dnnl_arg;

static bool dnnl_sgemm_prepare(bench_peer *p, const bench_product *x) { return of(x, TG_F32) && p->f32; }

static void dnnl_sgemm_run(bench_peer *p, const bench_product *x) {
  ((dnnl_sgemm_fn)(uintptr_t)p->f32)(x->ta ? 'T' : 'N', x->tb ? 'T' : 'N', x->m, x->n, x->k, 1, x->a, x->lda, x->b,
                                     x->ldb, 0, x->c, x->ldc);
}

static void destroy(bench_peer *p, const char *name, void **what) {
  int (*f)(void *) = (int (*)(void *))(uintptr_t)symbol(p, name);
  if (*what && f) f(*what);
  *what = NULL;
}

static void dnnl_release(bench_peer *p) {
  destroy(p, "dnnl_primitive_destroy", &p->state[DNNL_MATMUL]);
  destroy(p, "dnnl_primitive_destroy", &p->state[DNNL_REORDER]);
  for (int i = DNNL_MEMORY_A; i <= DNNL_MEMORY_PACKED; i++)
    if (i != DNNL_REORDER) destroy(p, "dnnl_memory_destroy", &p->state[i]);
  destroy(p, "dnnl_stream_destroy", &p->state[DNNL_STREAM]);
  destroy(p, "dnnl_engine_destroy", &p->state[DNNL_ENGINE]);
}

typedef struct {
  int (*engine)(void **, int, size_t), (*stream)(void **, void *, unsigned),
      (*strides)(void **, int, const int64_t *, int, const int64_t *), (*tag)(void **, int, const int64_t *, int, int),
      (*matmul)(void **, void *, void *, void *, void *, void *, void *),
      (*reorder)(void **, const void *, void *, const void *, void *, void *), (*primitive)(void **, void *),
      (*memory)(void **, const void *, void *, void *), (*execute)(void *, void *, int, const dnnl_arg *),
      (*wait)(void *), (*drop_md)(void *), (*drop_pd)(void *);
  const void *(*query)(const void *, int, int);
} dnnl_api;

/* Version 3; before it there is no memory_desc_create. */
static bool dnnl_functions(bench_peer *p, dnnl_api *f) {
  const struct { const char *name; void **to;
  } all[] = {{"dnnl_engine_create", (void **)&f->engine},
             {"dnnl_stream_create", (void **)&f->stream},
             {"dnnl_memory_desc_create_with_strides", (void **)&f->strides},
             {"dnnl_memory_desc_create_with_tag", (void **)&f->tag},
             {"dnnl_matmul_primitive_desc_create", (void **)&f->matmul},
             {"dnnl_reorder_primitive_desc_create", (void **)&f->reorder},
             {"dnnl_primitive_create", (void **)&f->primitive},
             {"dnnl_memory_create", (void **)&f->memory},
             {"dnnl_primitive_execute", (void **)&f->execute},
             {"dnnl_stream_wait", (void **)&f->wait},
             {"dnnl_memory_desc_destroy", (void **)&f->drop_md},
             {"dnnl_primitive_desc_destroy", (void **)&f->drop_pd},
             {"dnnl_primitive_desc_query_md", (void **)&f->query}};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    if (!(*all[i].to = symbol(p, all[i].name))) return false;
  return true;
}

static int dnnl_type(tg_type t) {
  return t == TG_F16    ? DNNL_F16
         : t == TG_BF16 ? DNNL_BF16
         : t == TG_F32  ? DNNL_F32
         : t == TG_I32  ? DNNL_S32
         : t == TG_I8   ? DNNL_S8
         : t == TG_U8   ? DNNL_U8
                        : 0;
}

/* any: B in the layout that it likes best, brought there by its reorder. */
static bool dnnl_prepare(bench_peer *p, const bench_product *x, bool any) {
  dnnl_api f;
  /* the library's own memory */
  void *a = NULL, *b = NULL, *c = NULL, *liked = NULL, *pd = NULL, *rd = NULL, *const everything = (void *)UINTPTR_MAX;
  int64_t da[] = {x->m, x->k}, db[] = {x->k, x->n}, dc[] = {x->m, x->n},
          sa[] = {x->ta ? 1 : x->lda, x->ta ? x->lda : 1}, sb[] = {x->tb ? 1 : x->ldb, x->tb ? x->ldb : 1},
          sc[] = {x->ldc, 1};
  void **s = p->state;
  int ta = dnnl_type(x->type->a), tb = dnnl_type(x->type->b), tc = dnnl_type(x->type->c);
  dnnl_release(p);
  if (!ta || !tb || !tc || !dnnl_functions(p, &f)) return false;
  bool good = !f.engine(&s[DNNL_ENGINE], DNNL_CPU, 0) && !f.stream(&s[DNNL_STREAM], s[DNNL_ENGINE], DNNL_IN_ORDER) &&
              !f.strides(&a, 2, da, ta, sa) && !f.strides(&b, 2, db, tb, sb) && !f.strides(&c, 2, dc, tc, sc) &&
              (!any || !f.tag(&liked, 2, db, tb, DNNL_ANY)) &&
              !f.matmul(&pd, s[DNNL_ENGINE], a, any ? liked : b, NULL, c, NULL) && !f.primitive(&s[DNNL_MATMUL], pd) &&
              !f.memory(&s[DNNL_MEMORY_A], a, s[DNNL_ENGINE], (void *)(uintptr_t)x->a) &&
              !f.memory(&s[DNNL_MEMORY_B], b, s[DNNL_ENGINE], (void *)(uintptr_t)x->b) &&
              !f.memory(&s[DNNL_MEMORY_C], c, s[DNNL_ENGINE], x->c);
  if (good && any) {
    const void *packed = f.query(pd, DNNL_QUERY_WEIGHTS, 0);
    good = packed && !f.memory(&s[DNNL_MEMORY_PACKED], packed, s[DNNL_ENGINE], everything) &&
           !f.reorder(&rd, b, s[DNNL_ENGINE], packed, s[DNNL_ENGINE], NULL) && !f.primitive(&s[DNNL_REORDER], rd);
  }
  void *mds[] = {a, b, c, liked}, *pds[] = {pd, rd};
  for (int i = 0; i < 4; i++)
    if (mds[i]) f.drop_md(mds[i]);
  for (int i = 0; i < 2; i++)
    if (pds[i]) f.drop_pd(pds[i]);
  return good;
}

static bool dnnl_plain_prepare(bench_peer *p, const bench_product *x) { return dnnl_prepare(p, x, false); }
static bool dnnl_any_prepare(bench_peer *p, const bench_product *x) { return dnnl_prepare(p, x, true); }

static void dnnl_run(bench_peer *p, const bench_product *x) {
  int (*execute)(void *, void *, int, const dnnl_arg *) =
      (int (*)(void *, void *, int, const dnnl_arg *))(uintptr_t)p->execute;
  int (*wait)(void *) = (int (*)(void *))(uintptr_t)p->wait;
  void **s = p->state;
  const dnnl_arg reorder[] = {{DNNL_FROM, s[DNNL_MEMORY_B]}, {DNNL_DST, s[DNNL_MEMORY_PACKED]}};
  const dnnl_arg args[] = {{DNNL_SRC, s[DNNL_MEMORY_A]},
                           {DNNL_WEIGHTS, s[DNNL_MEMORY_PACKED] ? s[DNNL_MEMORY_PACKED] : s[DNNL_MEMORY_B]},
                           {DNNL_DST, s[DNNL_MEMORY_C]}};
  (void)x;
  if (s[DNNL_REORDER]) execute(s[DNNL_REORDER], s[DNNL_STREAM], 2, reorder);
  execute(s[DNNL_MATMUL], s[DNNL_STREAM], 3, args);
  wait(s[DNNL_STREAM]);
}

static void open_dnnl(bench_peer *p) {
  p->f32 = symbol(p, "dnnl_sgemm");
  p->execute = symbol(p, "dnnl_primitive_execute");
  p->wait = symbol(p, "dnnl_stream_wait");
  p->entry[p->entries++] = (bench_entry){.name = "dnnl_sgemm", .prepare = dnnl_sgemm_prepare, .run = dnnl_sgemm_run};
  p->entry[p->entries++] =
      (bench_entry){.name = "matmul, plain layouts", .prepare = dnnl_plain_prepare, .run = dnnl_run};
  p->entry[p->entries++] = (bench_entry){
      .name = "matmul, B in 'any' layout, its reorder timed", .prepare = dnnl_any_prepare, .run = dnnl_run};
  p->release = dnnl_release;
}

/* ---- libxsmm: code for one size; row major C = A B is column major C' = B' A' ---- */

enum { XSMM_TRANS_A = 1, XSMM_TRANS_B = 2 };
typedef void *(*xsmm_dispatch)(int, int, int, const int *, const int *, const int *, const void *, const void *,
                               const int *, const int *);
typedef void (*xsmm_code)(const void *, const void *, void *);

static bool xsmm_prepare(bench_peer *p, const bench_product *x) {
  void *dispatch = symbol(p, of(x, TG_F32) ? "libxsmm_smmdispatch" : "libxsmm_dmmdispatch");
  float one = 1, zero = 0;
  double wide_one = 1, wide_zero = 0;
  bool narrow = of(x, TG_F32);
  int flags = (x->tb ? XSMM_TRANS_A : 0) | (x->ta ? XSMM_TRANS_B : 0), none = 0;
  if ((!narrow && !of(x, TG_F64)) || !dispatch || x->threads > 1 || (double)x->m * x->n * x->k > 1 << 21) return false;
  p->state[0] = ((xsmm_dispatch)(uintptr_t)dispatch)(x->n, x->m, x->k, &x->ldb, &x->lda, &x->ldc,
                                                     narrow ? (void *)&one : &wide_one,
                                                     narrow ? (void *)&zero : &wide_zero, &flags, &none);
  return p->state[0] != NULL;
}

static void xsmm_run(bench_peer *p, const bench_product *x) { ((xsmm_code)(uintptr_t)p->state[0])(x->b, x->a, x->c); }

static void open_xsmm(bench_peer *p) {
  void (*init)(void) = (void (*)(void))(uintptr_t)symbol(p, "libxsmm_init");
  if (init) init();
  p->entry[p->entries++] =
      (bench_entry){.name = "libxsmm_?mmdispatch's code", .prepare = xsmm_prepare, .run = xsmm_run};
}

/* ---- reading alone ---- */

typedef struct { const float *x; size_t n; int streams, prefetch; float sum; } reading;

static void *read_part(void *arg) {
  reading *r = arg;
  r->sum = bench_read(r->x, r->n, r->streams, r->prefetch);
  return NULL;
}

static size_t bytes_of(tg_type t) {
  return t == TG_F64 ? 8 : t == TG_F32 || t == TG_I32 ? 4 : t == TG_F16 || t == TG_BF16 ? 2 : 1;
}

/* Threads of its own, each a part: starting them is little beside what a product that is bound by memory takes. */
static void read_all(const bench_product *x, int streams, int prefetch) {
  enum { MOST = 16 };
  size_t a = (size_t)x->m * (size_t)x->k * bytes_of(x->type->a), b = (size_t)x->k * (size_t)x->n * bytes_of(x->type->b),
         n = (a > b ? a : b) / sizeof(float);
  const float *larger = a > b ? x->a : x->b;
  reading part[MOST];
  pthread_t id[MOST];
  int threads = x->threads < MOST ? x->threads : MOST;
  volatile float sum = 0;
  for (int i = 0; i < threads; i++)
    part[i] = (reading){larger + n / (size_t)threads * (size_t)i, n / (size_t)threads, streams, prefetch, 0};
  for (int i = 1; i < threads; i++)
    if (pthread_create(&id[i], NULL, read_part, &part[i])) threads = i;
  read_part(&part[0]);
  for (int i = 1; i < threads; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < threads; i++) sum += part[i].sum;
  (void)sum;   /* read, so that the reading is done */
}

#define READ_LOOP(S, P)                                                                                                \
  static void read_##S##_##P(bench_peer *p, const bench_product *x) { (void)p, read_all(x, S, P); }
READ_LOOP(1, 0)
READ_LOOP(2, 0) READ_LOOP(4, 0) READ_LOOP(8, 0) READ_LOOP(1, 1) READ_LOOP(2, 1) READ_LOOP(4, 1) READ_LOOP(8, 1)
#undef READ_LOOP

    static bool read_prepare(bench_peer *p, const bench_product *x) { return (void)p, x->m <= 16 || x->n <= 16; }

void bench_peers_read_loop(bench_peer *p) {
  static const bench_entry entries[] = {{"1 stream", read_prepare, read_1_0},
                                        {"2 streams", read_prepare, read_2_0},
                                        {"4 streams", read_prepare, read_4_0},
                                        {"8 streams", read_prepare, read_8_0},
                                        {"1 stream, prefetched", read_prepare, read_1_1},
                                        {"2 streams, prefetched", read_prepare, read_2_1},
                                        {"4 streams, prefetched", read_prepare, read_4_1},
                                        {"8 streams, prefetched", read_prepare, read_8_1}};
  *p = (bench_peer){.name = "reading", .reads = true};
  for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) p->entry[p->entries++] = entries[i];
}

/* ---- all ---- */

static const struct {
  const char *name;
  void (*open)(bench_peer *);
  const char *file[3];
} known[] = {
  {"openblas", open_openblas, {"libopenblas.so.0", "libopenblas.so"}},
  {"blis", open_blis, {"libblis.so.4", "libblis.so.3", "libblis.so"}},
  {"onednn", open_dnnl, {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}},
  {"mkl", open_mkl, {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}},
  {"libxsmm", open_xsmm, {"libxsmm.so.1", "libxsmm.so"}},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool open_one(bench_peer *p, int k, const char *path) {
  *p = (bench_peer){.name = known[k].name};
  for (int i = 0; i < (path ? 1 : 3) && !p->library && (path || known[k].file[i]); i++)
    p->library = dlopen(path ? path : known[k].file[i], RTLD_NOW | RTLD_LOCAL);
  if (!p->library) {
    const char *why = dlerror();
    snprintf(p->missing, sizeof p->missing, "%.255s", why ? why : "not found");
    return false;
  }
  known[k].open(p);
  return true;
}

int bench_peers_open(bench_peer *peers, const char *vs) {
  int n = 0;   /* one place stays free, for the read loop */
  setenv("BLIS_ARCH_TYPE", "0", 0);
  setenv("MKL_THREADING_LAYER", "GNU", 0);
  if (!vs) {
    for (int k = 0; k < KNOWN && n < BENCH_PEERS - 1; k++) n += open_one(&peers[n], k, NULL);
    return n;
  }
  for (const char *at = vs; *at;) {
    size_t whole = strcspn(at, ","), name = strcspn(at, ",=");
    char path[512] = "";
    int k = 0;
    while (k < KNOWN && (strlen(known[k].name) != name || strncmp(known[k].name, at, name))) k++;
    if (name < whole) snprintf(path, sizeof path, "%.*s", (int)(whole - name - 1), at + name + 1);
    if (k == KNOWN || n == BENCH_PEERS - 1)
      return fprintf(stderr, "tg bench gemm: '%.*s' is none of openblas, blis, onednn, mkl, libxsmm\n", (int)name, at),
             -1;
    if (!open_one(&peers[n], k, path[0] ? path : NULL))
      return fprintf(stderr, "tg bench gemm: %s: %s\n", known[k].name, peers[n].missing), -1;
    n++;
    at += whole + (at[whole] == ',');
  }
  return n;
}

void bench_peers_threads(bench_peer *p, int threads) {
  void *openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  void (*set)(int) = openmp ? (void (*)(int))(uintptr_t)dlsym(openmp, "omp_set_num_threads") : NULL;
  if (!strcmp(p->name, "blis") && p->set_threads) ((void (*)(long))(uintptr_t)p->set_threads)(threads);
  else if (p->set_threads) ((void (*)(int))(uintptr_t)p->set_threads)(threads);
  else if (set) set(threads);
}
