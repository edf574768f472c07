/* SPDX-License-Identifier: MIT
 * The BLAS front: sgemm_, dgemm_, cblas_sgemm and cblas_dgemm of libtg_blas.so, with the reference's checks, in its order, reported through xerbla_ and
 * cblas_xerbla. Here, and nowhere else, the process has state: one context, made by the first call, and a plan for each class of call (type, transposes,
 * alpha and beta, coarse sizes), made by the first call of its class; sizes are run-time values, so later calls compile nothing. Kernels are kept between
 * processes in a folder of the user's. LLVM takes 30 ms to load, so it is in a library of its own, libtg_blas_jit.so beside this one, opened when a
 * kernel is not in the folder.
 *   TG_BLAS_CACHE    the folder; empty: none. Else XDG_CACHE_HOME/tg, HOME/.cache/tg
 *   TG_BLAS_THREADS  threads at most; else OMP_NUM_THREADS; else all
 * Where there is no kernel at all (out of memory, an unknown processor, no second library) plain loops compute the result. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tg/gemm.h"

#define EXPORT __attribute__((visibility("default")))

/* The program's, or another BLAS library's. */
extern void xerbla_(const char *name, const int *info, size_t name_n) __attribute__((weak));
extern void cblas_xerbla(int info, const char *name, const char *format, ...) __attribute__((weak));
extern int CBLAS_CallFromC __attribute__((weak)), RowMajorStrg __attribute__((weak));   /* by which the reference's xerbla_ knows who asked */

EXPORT void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                   const float *beta, float *c, const int *ldc);
EXPORT void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
                   const double *beta, double *c, const int *ldc);
EXPORT void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
EXPORT void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);

/* Column major, checked. */
typedef struct {
  bool wide;                   /* f64 */
  bool ta, tb;
  int m, n, k, lda, ldb, ldc;
  const void *alpha, *a, *b, *beta;
  void *c;
} product;

/* ---- the process's state ---- */

enum { ROW_CLASSES = 5, TERM_CLASSES = 4, CLASSES = 2 * 2 * 2 * 2 * 2 * ROW_CLASSES * ROW_CLASSES * TERM_CLASSES };

/* tg with a compiler, or without: one is linked here, the other one opened. */
typedef struct {
  tg_status (*create)(const tg_context_options *, tg_context **);
  tg_status (*plan)(tg_context *, const tg_gemm_desc *, size_t, tg_gemm **);
  size_t (*workspace)(const tg_gemm *, const tg_gemm_call *, size_t);
  tg_status (*run)(const tg_gemm *, const tg_gemm_call *, size_t);
  tg_gemm_code *(*function)(const tg_gemm *);
  tg_context *context;         /* NULL: none could be made */
} engine;

enum { LINKED, OPENED, ENGINES };

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;        /* of making plans */
  pthread_key_t workspace;     /* each thread's own, as long as it lives */
  bool has_key;
  engine engine[ENGINES];
  bool opened;                 /* or tried to */
  tg_context_options options;
  char folder[4096];
  int threads;
  _Atomic(tg_gemm *) plan[ENGINES][CLASSES];
  tg_gemm_code *code[ENGINES][CLASSES];   /* of the plans that have such a form; written before them */
  atomic_bool refused[CLASSES];   /* no plan can be made */
} state = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER,
           .engine = {{.create = tg_context_create_runtime, .plan = tg_gemm_plan_sized, .workspace = tg_gemm_workspace_sized, .run = tg_gemm_run_sized, .function = tg_gemm_function}}};

typedef struct { size_t bytes; char memory[]; } scratch;

static void before_fork(void) { pthread_mutex_lock(&state.lock); }
static void after_fork(void) { pthread_mutex_unlock(&state.lock); }

static int number(const char *name) {
  const char *text = getenv(name);
  char *end;
  long n = text ? strtol(text, &end, 10) : 0;
  return text && end > text && n > 0 && n < INT_MAX ? (int)n : 0;
}

static const char *cache_folder(char *text, size_t n) {
  const char *given = getenv("TG_BLAS_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (given) return *given ? given : NULL;
  int length = xdg && *xdg == '/' ? snprintf(text, n, "%s/tg", xdg) : home && *home == '/' ? snprintf(text, n, "%s/.cache/tg", home) : -1;
  return length > 0 && (size_t)length < n ? text : NULL;
}

static void begin(void) {
  state.options.cache = cache_folder(state.folder, sizeof state.folder);
  state.threads = number("TG_BLAS_THREADS");
  if (!state.threads) state.threads = number("OMP_NUM_THREADS");
  state.options.threads = state.threads;
  state.has_key = !pthread_key_create(&state.workspace, free);
  state.opened = pthread_atfork(before_fork, after_fork, after_fork);   /* out of memory: nothing is compiled, whose locks a child would inherit */
  state.engine[LINKED].create(&state.options, &state.engine[LINKED].context);
}

/* The library beside this one. Under the lock. */
static void open_compiler(void) {
  Dl_info here;
  char path[4096];
  engine *e = &state.engine[OPENED];
  if (state.opened) return;
  state.opened = true;
  const char *end = dladdr((void *)&state, &here) && here.dli_fname ? strrchr(here.dli_fname, '/') : NULL;
  int n = end ? snprintf(path, sizeof path, "%.*s/libtg_blas_jit.so", (int)(end - here.dli_fname), here.dli_fname) : snprintf(path, sizeof path, "libtg_blas_jit.so");
  void *library = n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) return;
  *(void **)&e->create = dlsym(library, "tg_context_create");
  *(void **)&e->plan = dlsym(library, "tg_gemm_plan_sized");
  *(void **)&e->workspace = dlsym(library, "tg_gemm_workspace_sized");
  *(void **)&e->run = dlsym(library, "tg_gemm_run_sized");
  *(void **)&e->function = dlsym(library, "tg_gemm_function");
  if (e->create && e->plan && e->workspace && e->run && e->function) e->create(&state.options, &e->context);
}

static void *workspace_of(size_t bytes, bool *own) {
  *own = !state.has_key;
  scratch *s = *own ? NULL : pthread_getspecific(state.workspace);
  if (s && s->bytes >= bytes) return s->memory;
  scratch *more = malloc(sizeof *more + bytes);
  if (!more) return NULL;
  more->bytes = bytes;
  if (!*own && pthread_setspecific(state.workspace, more)) *own = true;
  else if (!*own) free(s);
  return more->memory;
}

/* ---- classes ---- */

enum { SMALL = 128, MIDDLE = 512, SHORT = 1024, LONG = 1 << 16 };   /* what tiles leave over counts up to MIDDLE; a panel has all terms up to SHORT */
static const tg_dim row_class[ROW_CLASSES] = {{1, 0}, {2, 16}, {17, SMALL}, {SMALL + 1, MIDDLE}, {MIDDLE + 1, INT_MAX}},
                    term_class[TERM_CLASSES] = {{1, SMALL}, {SMALL + 1, SHORT}, {SHORT + 1, LONG}, {LONG + 1, INT_MAX}};

static int class_of(const tg_dim *classes, int last, int n) {
  while (last && n < classes[last].lo) last--;
  return last;
}
static int class_of_rows(int n) { return class_of(row_class, ROW_CLASSES - 1, n); }
static int class_of_terms(int k) { return class_of(term_class, TERM_CLASSES - 1, k); }

static bool is(const product *p, const void *x, double value) { return p->wide ? *(const double *)x == value : (double)*(const float *)x == value; }

/* A plan, and who made it. */
typedef struct { const engine *by; tg_gemm *plan; tg_gemm_code *code; } chosen;

static chosen find(int at) {
  for (int e = 0; e < ENGINES; e++) {
    tg_gemm *g = atomic_load_explicit(&state.plan[e][at], memory_order_acquire);
    if (g) return (chosen){&state.engine[e], g, state.code[e][at]};
  }
  return (chosen){NULL, NULL, NULL};
}

static chosen make_plan(const product *p, int at, bool scaled, bool update) {
  tg_gemm_desc d = {.a = p->wide ? TG_F64 : TG_F32, .a_major = p->ta ? TG_ROW_MAJOR : TG_COLUMN_MAJOR, .b_major = p->tb ? TG_ROW_MAJOR : TG_COLUMN_MAJOR, .c_major = TG_COLUMN_MAJOR,
                    .alpha = scaled, .beta = update, .m = row_class[class_of_rows(p->m)], .n = row_class[class_of_rows(p->n)], .k = term_class[class_of_terms(p->k)],
                    .threads = state.threads ? state.threads : -1, .flags = TG_GEMM_OVERLAP_UNCHECKED};
  bool small = p->m <= SMALL && p->n <= SMALL && p->k <= SMALL;
  if (small) d.threads = 1, d.flags |= TG_GEMM_BATCH_INVARIANT;   /* one kernel, bare */
  pthread_mutex_lock(&state.lock);
  chosen found = find(at);
  for (int e = 0; e < ENGINES && !found.plan && !atomic_load(&state.refused[at]); e++) {
    if (e == OPENED) open_compiler();
    tg_gemm *g = NULL;
    if (state.engine[e].context && state.engine[e].plan(state.engine[e].context, &d, sizeof d, &g) == TG_OK) {
      state.code[e][at] = small ? state.engine[e].function(g) : NULL;
      atomic_store_explicit(&state.plan[e][at], g, memory_order_release);
    }
    found = find(at);
  }
  if (!found.plan) atomic_store(&state.refused[at], true);
  pthread_mutex_unlock(&state.lock);
  return found;
}

static chosen plan_for(const product *p) {
  bool scaled = !is(p, p->alpha, 1), update = !is(p, p->beta, 0);
  int at = p->wide | p->ta << 1 | p->tb << 2 | scaled << 3 | update << 4;
  at = ((at * ROW_CLASSES + class_of_rows(p->m)) * ROW_CLASSES + class_of_rows(p->n)) * TERM_CLASSES + class_of_terms(p->k);
  chosen found = find(at);
  if (found.plan || atomic_load_explicit(&state.refused[at], memory_order_relaxed)) return found;
  pthread_once(&state.once, begin);
  return make_plan(p, at, scaled, update);
}

/* ---- computing ---- */

#define LOOPS(NAME, T)                                                                                                            \
  static void NAME(const product *p, bool scale) {                                                                                \
    const T *a = p->a, *b = p->b, alpha = *(const T *)p->alpha, beta = *(const T *)p->beta;                                       \
    for (int j = 0; j < p->n; j++)                                                                                                \
      for (int i = 0; i < p->m; i++) {                                                                                            \
        T *c = (T *)p->c + (size_t)j * (size_t)p->ldc + i, sum = 0;                                                               \
        for (int k = 0; k < p->k && !scale; k++)                                                                                  \
          sum += a[p->ta ? (size_t)i * (size_t)p->lda + (size_t)k : (size_t)k * (size_t)p->lda + (size_t)i] *                     \
                 b[p->tb ? (size_t)k * (size_t)p->ldb + (size_t)j : (size_t)j * (size_t)p->ldb + (size_t)k];                      \
        *c = (beta == 0 ? 0 : beta * *c) + (scale ? 0 : alpha * sum);                                                             \
      }                                                                                                                           \
  }
LOOPS(loop_f32, float)
LOOPS(loop_f64, double)

/* Without tg, and where neither A nor B counts. */
static void loop(const product *p, bool scale) { (p->wide ? loop_f64 : loop_f32)(p, scale); }

/* Small: no more is to be checked, and a call of tg would take longer than the product. */
static void compute_bare(const product *p, tg_gemm_code *code) {
  _Alignas(64) char room[TG_GEMM_SCRATCH];
  void *operands[5] = {(void *)(uintptr_t)p->a, (void *)(uintptr_t)p->b, p->c};
  int64_t sizes[6];
  int n = 0, scalars = 3;
  if (!is(p, p->alpha, 1)) operands[scalars++] = (void *)(uintptr_t)p->alpha;
  if (!is(p, p->beta, 0)) operands[scalars] = (void *)(uintptr_t)p->beta;
  if (p->m > 1) sizes[n++] = p->m;
  if (p->n > 1) sizes[n++] = p->n;   /* 1 is a class of its own */
  sizes[n] = p->k, sizes[n + 1] = p->lda, sizes[n + 2] = p->ldb, sizes[n + 3] = p->ldc;
  code(operands, sizes, room, 0);
}

static void compute(const product *p) {
  bool scale = !p->k || is(p, p->alpha, 0), own = false;
  if (!p->m || !p->n || (scale && is(p, p->beta, 1))) return;
  if (scale) {
    loop(p, true);
    return;
  }
  chosen with = plan_for(p);
  if (with.code) {
    compute_bare(p, with.code);
    return;
  }
  tg_gemm_call call = {.m = p->m, .n = p->n, .k = p->k, .a = p->a, .b = p->b, .c = p->c, .alpha = is(p, p->alpha, 1) ? NULL : p->alpha, .beta = is(p, p->beta, 0) ? NULL : p->beta};
  call.a_strides[!p->ta] = p->lda, call.b_strides[!p->tb] = p->ldb, call.c_strides[1] = p->ldc;
  if ((double)p->m * p->n * p->k < 2e5) call.threads = 1;   /* some 10 us */
  call.workspace_bytes = with.plan ? with.by->workspace(with.plan, &call, sizeof call) : 0;
  call.workspace = call.workspace_bytes ? workspace_of(call.workspace_bytes, &own) : NULL;
  if (!with.plan || (call.workspace_bytes && !call.workspace) || with.by->run(with.plan, &call, sizeof call)) loop(p, false);
  if (call.workspace && own) free((char *)call.workspace - offsetof(scratch, memory));
}

/* ---- checks, in the reference's order ---- */

static int transposed(char c) {
  switch (c) {
  case 'N': case 'n': return 0;
  case 'T': case 't': case 'C': case 'c': return 1;
  default: return -1;
  }
}

typedef enum { FORTRAN, C_COLUMNS, C_ROWS } caller;

static void report(const char *name, int info, caller from) {
  if (&CBLAS_CallFromC) CBLAS_CallFromC = from != FORTRAN;
  if (&RowMajorStrg) RowMajorStrg = from == C_ROWS;
  if (xerbla_) xerbla_(name, &info, 6);
  else fprintf(stderr, " ** On entry to %s parameter number %2d had an illegal value\n", name, info);
  if (&CBLAS_CallFromC) CBLAS_CallFromC = 0;
  if (&RowMajorStrg) RowMajorStrg = 0;
}

static int most(int a, int b) { return a > b ? a : b; }

static void gemm(caller from, const char *name, bool wide, char ta, char tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb, const void *beta, void *c, int ldc) {
  int x = transposed(ta), y = transposed(tb);
  int info = x < 0 ? 1 : y < 0 ? 2 : m < 0 ? 3 : n < 0 ? 4 : k < 0 ? 5 : lda < most(1, x ? k : m) ? 8 : ldb < most(1, y ? n : k) ? 10 : ldc < most(1, m) ? 13 : 0;
  if (info) report(name, info, from);
  else compute(&(product){wide, x, y, m, n, k, lda, ldb, ldc, alpha, a, b, beta, c});
}

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc) {
  gemm(FORTRAN, "SGEMM ", false, *ta, *tb, *m, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc);
}

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc) {
  gemm(FORTRAN, "DGEMM ", true, *ta, *tb, *m, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc);
}

/* CBLAS_LAYOUT and CBLAS_TRANSPOSE of cblas.h. */
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113 };

static char letter(int t) { return t == NO_TRANS ? 'N' : t == TRANS || t == CONJ_TRANS ? 'T' : 0; }

static void report_cblas(const char *name, int info, const char *format, int value) {
  if (cblas_xerbla) cblas_xerbla(info, name, format, value);
  else {
    fprintf(stderr, "Parameter %d to routine %s was incorrect\n", info, name);
    fprintf(stderr, format, value);
  }
}

/* Row major is column major of the transposes: C^T = B^T A^T. */
static void cblas(const char *name, const char *fortran, bool wide, int layout, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                  const void *beta, void *c, int ldc) {
  char x = letter(ta), y = letter(tb);
  if (layout != ROW_MAJOR && layout != COLUMN_MAJOR) report_cblas(name, 1, "Illegal layout setting, %d\n", layout);
  else if (!x) report_cblas(name, 2, "Illegal TransA setting, %d\n", ta);
  else if (!y) report_cblas(name, 3, "Illegal TransB setting, %d\n", tb);
  else if (layout == COLUMN_MAJOR) gemm(C_COLUMNS, fortran, wide, x, y, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else gemm(C_ROWS, fortran, wide, y, x, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);
}

void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  cblas("cblas_sgemm", "SGEMM ", false, layout, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}

void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc) {
  cblas("cblas_dgemm", "DGEMM ", true, layout, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
