/* SPDX-License-Identifier: MIT
 * The plans of the BLAS front. Only this file has global state: one context, created by the first call, a plan for each
 * class of calls (type, transposes, alpha and beta, coarse sizes), compiled once the class's calls are worth it, and
 * plans that many classes share until then. Sizes are
 * run-time values, so later calls compile nothing; classes whose kernels are chosen alike have the same code. Kernels
 * are kept between processes in a folder of the user. What compiles is in a second library, libtg_jit.so.0 beside this
 * one, which is opened only when a kernel is not in the folder, and loads LLVM then.
 *   TG_BLAS_CACHE    the folder; empty: none. If not set: XDG_CACHE_HOME/tg, else HOME/.cache/tg
 *   TG_BLAS_THREADS  most threads; if not set: OMP_NUM_THREADS, else all
 *   TG_BLAS_COMPILE  first: each class at its first call
 *   TG_BLAS_TARGET   name of the target to compile for. If not set, or if this processor cannot run it: the host
 * If there is no kernel at all (out of memory, an unknown processor, no second library), the next BLAS library
 * computes; without one, plain loops do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "blas/front.h"
#include "target/target.h"
#include "tg/gemm.h"

typedef tg_blas_product product;

/* ---- the process's state ---- */

/* Of rows, of columns and of terms. The last factors: are lines of A and of B a multiple of APART apart? */
enum {
  RANGES = 15,
  SIZE_CLASSES = RANGES * RANGES * RANGES * 2 * 2,
  KINDS = 2 * 2 * 2 * 2 * 2,
  CLASSES = KINDS * SIZE_CLASSES,
  SHARED = KINDS * 2 * 2 * 2
};

/* The functions of tg: LINKED is the tg without compiler in this library, OPENED the tg with LLVM in the second one. */
typedef struct {
  tg_status (*create)(const tg_context_options *, size_t, tg_context **);
  tg_status (*plan)(tg_context *, const tg_gemm_desc *, size_t, tg_gemm **);
  size_t (*workspace)(const tg_gemm *, const tg_gemm_call *, size_t);
  tg_status (*run)(const tg_gemm *, const tg_gemm_call *, size_t);
  tg_gemm_code *(*function)(const tg_gemm *);
  void (*describe)(const tg_gemm *, tg_gemm_info *, size_t);
  tg_context *context;         /* NULL: it could not be created */
} engine;

enum { LINKED, OPENED, ENGINES };

/* The plan of a class, and the engine that made it. code: bare code, where the plan has it, else NULL; scratch: that
 * needs scratch memory. plan NULL: none can be made. */
typedef struct { const engine *by; tg_gemm *plan; tg_gemm_code *code; bool scratch; } planned;

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;        /* held while a plan is made */
  pthread_key_t workspace;     /* each thread's workspace, freed when the thread ends */
  bool has_key;
  engine engine[ENGINES];
  bool opened;                 /* opening the second library has been tried, or must not be */
  tg_context_options options;
  char folder[4096];
  int threads;
  bool at_first;               /* each class is compiled at its first call */
  _Atomic(const planned *) plan[CLASSES], shared[SHARED];   /* NULL: none yet */
  _Atomic uint64_t spent[CLASSES];   /* nanoseconds of the class's calls by a shared plan; 0: no call yet */
  _Atomic uint64_t price;            /* nanoseconds that a plan of a class takes to compile */
} state = {.once = PTHREAD_ONCE_INIT,
           .price = 100000000,   /* until one was compiled here */
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .engine = {{.create = tg_context_create_runtime_sized,
                       .plan = tg_gemm_plan_sized,
                       .workspace = tg_gemm_workspace_sized,
                       .run = tg_gemm_run_sized,
                       .function = tg_gemm_function,
                       .describe = tg_gemm_describe_sized}}};

typedef struct { size_t bytes; char memory[]; } scratch;
enum { SCRATCH_ALIGN = 64 };

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
  int length = xdg && *xdg == '/'     ? snprintf(text, n, "%s/tg", xdg)
               : home && *home == '/' ? snprintf(text, n, "%s/.cache/tg", home)
                                      : -1;
  return length > 0 && (size_t)length < n ? text : NULL;
}

/* The target that the environment names, if this processor can run it; NULL: the host. */
static const char *target_name(void) {
  const char *name = getenv("TG_BLAS_TARGET");
  tg_target t;
  if (!name || !*name) return NULL;
  bool known = tg_target_named(&t, name);
  if (known && tg_target_runs_here(&t)) {
    tg_blas_say("kernels are for %s", name);
    return name;
  }
  tg_blas_say("TG_BLAS_TARGET=%.64s: %s; kernels are for the host", name, known ? t.lacks : "tg has no such target");
  return NULL;
}

static void create(void *user) {
  engine *e = user;
  e->create(&state.options, sizeof state.options, &e->context);
}

static void begin(void) {
  state.options.target = target_name();
  state.options.cache = cache_folder(state.folder, sizeof state.folder);
  state.threads = number("TG_BLAS_THREADS");
  if (!state.threads) state.threads = number("OMP_NUM_THREADS");
  state.options.threads = state.threads;
  const char *when = getenv("TG_BLAS_COMPILE");
  state.at_first = when && !strcmp(when, "first");
  state.has_key = !pthread_key_create(&state.workspace, free);
  /* if this fails (out of memory), the compiler is never opened: a fork might inherit its locks in a locked state */
  state.opened = pthread_atfork(before_fork, after_fork, after_fork);
  tg_run_on_own_stack(create, &state.engine[LINKED]);
}

/* Opens libtg_jit.so.0, and LLVM. The caller holds the lock. */
static void open_compiler(void) {
  engine *e = &state.engine[OPENED];
  if (state.opened) return;
  state.opened = true;
  void *library = tg_open_beside(&state, "libtg_jit.so.0");
  int (*version)(void) = NULL;
  tg_status (*load)(tg_context *) = NULL;
  if (library) *(void **)&version = dlsym(library, "tg_version");
  if (!version || version() != TG_VERSION) return;   /* another release's: its structs may be others */
  *(void **)&load = dlsym(library, "tg_compiler_load");
  *(void **)&e->create = dlsym(library, "tg_context_create_sized");
  *(void **)&e->plan = dlsym(library, "tg_gemm_plan_sized");
  *(void **)&e->workspace = dlsym(library, "tg_gemm_workspace_sized");
  *(void **)&e->run = dlsym(library, "tg_gemm_run_sized");
  *(void **)&e->function = dlsym(library, "tg_gemm_function");
  *(void **)&e->describe = dlsym(library, "tg_gemm_describe_sized");
  if (!e->create || !e->plan || !e->workspace || !e->run || !e->function || !e->describe || !load) return;
  tg_run_on_own_stack(create, e);
  if (e->context && load(e->context) != TG_OK) e->context = NULL;   /* no compiler: nothing of it is used */
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

/* Multiply-adds of a call that one thread computes: about 10 us of work, what it may take to wake another. */
static const double alone = 2e5;

/* A product is small if none of its sizes is above SMALL: then its plan is for one thread, unless its class has some
 * with more work than that. Kernels are compiled for the wider of these ranges that a class lies in, so that classes
 * can have the same code: up to SMALL terms, copies of all terms of a tile's columns are possible, and up to LONG terms
 * those of FEW rows. */
enum { FEW = 16, SMALL = 128, LONG = 1 << 16 };
static const tg_dim small_rows[] = {{1, 0}, {2, FEW}, {FEW + 1, SMALL}}, rows[] = {{1, 0}, {2, FEW}, {FEW + 1,
    INT_MAX}},
                    terms[] = {{1, SMALL}, {SMALL + 1, LONG}, {LONG + 1, INT_MAX}};

static inline bool is_small(const product *p) { return p->m <= SMALL && p->n <= SMALL && p->k <= SMALL; }
static int range_of_rows(int64_t n) { return (n > 1) + (n > FEW); }
static int range_of_terms(int64_t k) { return (k > SMALL) + (k > LONG); }

/* Classes of rows, of columns and of terms: within a factor of two, so that one kernel, which is chosen for all of a
 * class, suits each of its calls; up to 2^LEAST terms are one class, and so is what is beyond the last. */
enum { ROWS_LEAST = 0, TERMS_LEAST = 3 };

static inline int digits(int64_t n) { return n > 1 ? 64 - __builtin_clzll((unsigned long long)n - 1) : 0; }
static inline int range_of(int64_t n, int least) {
  int r = digits(n) - least;
  return r < 0 ? 0 : r < RANGES ? r : RANGES - 1;
}

/* The sizes of the class that n is in. */
static tg_dim sizes_of(int64_t n, int least) {
  int r = range_of(n, least);
  return (tg_dim){r ? ((int64_t)1 << (r + least - 1)) + 1 : 1,
                  r < RANGES - 1 ? (int64_t)1 << (r + least) : INT_MAX};
}

/* Has the product's class one that several threads should compute? */
static bool is_shared(const product *p) {
  return (double)sizes_of(p->m, ROWS_LEAST).hi * (double)sizes_of(p->n, ROWS_LEAST).hi *
             (double)sizes_of(p->k, TERMS_LEAST).hi > alone;
}

/* By bits: a comparison of numbers would raise FE_INVALID for a signaling NaN. */
static inline bool is_one(const product *p, const void *x) {
  return p->wide ? *(const uint64_t *)x == (uint64_t)0x3FF << 52 : *(const uint32_t *)x == (uint32_t)0x7F << 23;
}
static inline bool is_zero(const product *p, const void *x) {
  return p->wide ? !(*(const uint64_t *)x << 1) : !(*(const uint32_t *)x << 1);
}

/* A call's class. */
typedef struct { int at; bool scaled, update; } class;

/* Lines that are a multiple of a page apart meet in one set of L1, whose sets no processor finds by more of an address
 * than what it has within a page; of a quarter of it, in four. */
enum { APART = 1024 };

static inline bool is_apart(const product *p, int64_t line) { return !((uint64_t)line << (2 + p->wide) & (APART - 1)); }

static inline class class_of(const product *p) {
  bool scaled = !is_one(p, p->alpha), update = !is_zero(p, p->beta);
  int apart = (!p->ta && is_apart(p, p->lda)) | (!p->tb && is_apart(p, p->ldb)) << 1;
  int kind = p->wide | p->ta << 1 | p->tb << 2 | scaled << 3 | update << 4,
      size = (range_of(p->k, TERMS_LEAST) * RANGES + range_of(p->m, ROWS_LEAST)) * RANGES + range_of(p->n, ROWS_LEAST);
  return (class){(kind << 2 | apart) * (SIZE_CLASSES / 4) + size, scaled, update};
}

/* Planning needs more stack than some threads have, so it runs on a thread of its own. But the second library is opened
 * on the caller's thread, which may itself be inside dlopen and then holds the loader's lock. */
typedef struct { const engine *by; const tg_gemm_desc *desc; tg_gemm *plan; } planning;

static void make(void *user) {
  planning *p = user;
  if (p->by->plan(p->by->context, p->desc, sizeof *p->desc, &p->plan) != TG_OK) p->plan = NULL;
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const planned none;

/* A plan by the first of so many engines that can make it, or none; the caller holds the lock. */
static const planned *make_first(const tg_gemm_desc *d, int engines) {
  for (int e = 0; e < engines; e++) {
    if (e == OPENED) open_compiler();
    planning work = {&state.engine[e], d, NULL};
    uint64_t from = now();
    if (work.by->context) tg_run_on_own_stack(make, &work);
    if (work.plan && e == OPENED) state.price = now() - from;
    planned *made = work.plan ? malloc(sizeof *made) : NULL;
    if (!made) continue;
    tg_gemm_info info;
    work.by->describe(work.plan, &info, sizeof info);
    *made = (planned){work.by, work.plan, work.by->function(work.plan), info.workspace != 0};
    return made;
  }
  return &none;
}

/* Of a plan for the call's class, or of the one that it shares with others: those of its kind that are small like it or
 * not, and rows and columns one or several. */
static tg_gemm_desc desc_of(const product *p, class c, bool shared) {
  bool small = is_small(p);
  const tg_dim *of = small ? small_rows : rows;
  tg_gemm_desc d = {
      .a = p->wide ? TG_F64 : TG_F32,
      .a_major = p->ta ? TG_ROW_MAJOR : TG_COLUMN_MAJOR,
      .b_major = p->tb ? TG_ROW_MAJOR : TG_COLUMN_MAJOR,
      .c_major = TG_COLUMN_MAJOR,
      .alpha = c.scaled,
      .beta = c.update,
      .m = of[range_of_rows(p->m)],
      .n = of[range_of_rows(p->n)],
      .k = terms[range_of_terms(p->k)],
      .threads = small && (shared || !is_shared(p)) ? 1 : state.threads ? state.threads : -1,
      .likely = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc},
      .mostly = {sizes_of(p->m, ROWS_LEAST), sizes_of(p->n, ROWS_LEAST), sizes_of(p->k, TERMS_LEAST)},
      .flags = TG_GEMM_OVERLAP_UNCHECKED | TG_GEMM_NOT_ZERO | TG_GEMM_ONE_KERNEL};
  if (!shared) return d;
  const tg_dim all = {2, small ? SMALL : INT_MAX}, often = small ? (tg_dim){2, SMALL} : (tg_dim){FEW + 1, FEW * SMALL};
  d.m = p->m == 1 ? (tg_dim){1, 0} : all, d.n = p->n == 1 ? (tg_dim){1, 0} : all, d.k = (tg_dim){1, all.hi};
  memset(d.likely, 0, sizeof d.likely);
  d.mostly[0] = p->m == 1 ? d.m : often, d.mostly[1] = p->n == 1 ? d.n : often, d.mostly[2] = often;
  return d;
}

/* The plan at *at, made by one of so many engines if it is not there. NULL: the engines that were asked have none. */
static const planned *make_plan(_Atomic(const planned *) *at, const tg_gemm_desc *d, int engines) {
  pthread_mutex_lock(&state.lock);
  const planned *found = atomic_load(at);
  if (!found) found = make_first(d, engines);
  if (found != &none || engines == ENGINES) atomic_store_explicit(at, found, memory_order_release);
  else found = NULL;
  pthread_mutex_unlock(&state.lock);
  return found;
}

/* To rent or to buy: a plan of its own is compiled for a class as soon as its calls have taken as long, by a plan that
 * many classes share, as compiling takes. So no program waits for more than twice what it would have with the best
 * foresight (Karlin, Manasse, Rudolph, Sleator 1988). Own plans that are on file cost nothing, and are used at once.
 * spent: where to count the call's time; NULL: it is the class's own plan. */
static const planned *plan_for(const product *p, class c, _Atomic uint64_t **spent) {
  const planned *found = atomic_load_explicit(&state.plan[c.at], memory_order_acquire);
  *spent = NULL;
  if (found) return found;
  pthread_once(&state.once, begin);
  uint64_t taken = atomic_load(&state.spent[c.at]);
  bool buy = state.at_first || taken >= atomic_load(&state.price);
  if (buy || !taken) {
    const tg_gemm_desc own = desc_of(p, c, false);
    found = make_plan(&state.plan[c.at], &own, buy ? ENGINES : OPENED);
    if (found) return found;
  }
  int which = ((c.at / SIZE_CLASSES << 1 | is_small(p)) << 1 | (p->m == 1)) << 1 | (p->n == 1);
  found = atomic_load_explicit(&state.shared[which], memory_order_acquire);
  if (!found) {
    const tg_gemm_desc shared = desc_of(p, c, true);
    found = make_plan(&state.shared[which], &shared, ENGINES);
  }
  if (!found->plan) atomic_store_explicit(&state.plan[c.at], found, memory_order_release);
  *spent = &state.spent[c.at];
  return found;
}

/* ---- computing ---- */

#define LOOPS(NAME, T)                                                                                     \
  static void NAME(const product *p, bool scale) {                                                         \
    const T *a = p->a, *b = p->b, alpha = *(const T *)p->alpha, beta = *(const T *)p->beta;                \
    for (int64_t j = 0; j < p->n; j++)                                                                     \
      for (int64_t i = 0; i < p->m; i++) {                                                                 \
        T *c = (T *)p->c + j * p->ldc + i, sum = 0;                                                        \
        for (int64_t k = 0; k < p->k && !scale; k++) sum += a[tg_blas_at_a(p, i, k)] * b[tg_blas_at_b(p, k, j)]; \
        *c = (beta == 0 ? 0 : beta * *c) + (scale ? 0 : alpha * sum);                                      \
      }                                                                                                    \
  }
LOOPS(loop_f32, float)
LOOPS(loop_f64, double)

/* Computes by plain loops; scale: only C = beta C. */
static void loop(const product *p, bool scale) { (p->wide ? loop_f64 : loop_f32)(p, scale); }

void tg_blas_loops(const product *p) { loop(p, false); }

/* Runs a small product by its bare code: all is checked already, and tg_gemm_run would take longer than the product.
 * Scratch memory is on the heap, as it is too large for the stacks of some threads. False: there is none. */
static bool run_bare(const product *p, class c, const planned *with) {
  bool own = false;
  char *room = NULL;
  product q;
  const product *from = p;
  if (with->scratch) {
    room = workspace_of(TG_GEMM_SCRATCH + SCRATCH_ALIGN, &own);
    if (!room) return false;
  }
  /* a size of 1 is fixed in its class, and has no place among the sizes; nor has a scalar that the class does not read
   * among the operands */
  if ((p->n == 1 && p->m > 1) || (c.update && !c.scaled)) {
    q = *p, from = &q;
    if (p->n == 1) q.n = p->m;
    if (!c.scaled) q.alpha = p->beta;
  }
  with->code(from->operands, from->sizes + (p->m == 1) + (p->n == 1),
       room ? room + (SCRATCH_ALIGN - (uintptr_t)room % SCRATCH_ALIGN) % SCRATCH_ALIGN : NULL, 0);
  if (own) free(room - offsetof(scratch, memory));
  return true;
}

static bool run(const product *p, class c, const planned *with) {
  bool own = false, ran = false;
  tg_gemm_call call = {.m = p->m, .n = p->n, .k = p->k, .a = p->a, .b = p->b, .c = p->c,
                       .alpha = c.scaled ? p->alpha : NULL, .beta = c.update ? p->beta : NULL};
  call.a_strides[!p->ta] = p->lda, call.b_strides[!p->tb] = p->ldb, call.c_strides[1] = p->ldc;
  if ((double)p->m * (double)p->n * (double)p->k < alone) call.threads = 1;
  call.workspace_bytes = with->by->workspace(with->plan, &call, sizeof call);
  call.workspace = call.workspace_bytes ? workspace_of(call.workspace_bytes, &own) : NULL;
  if (call.workspace || !call.workspace_bytes) ran = with->by->run(with->plan, &call, sizeof call) == TG_OK;
  if (call.workspace && own) free((char *)call.workspace - offsetof(scratch, memory));
  return ran;
}

/* Computes a product whose sizes are below 2^31. */
static bool compute(const product *p) {
  class c = class_of(p);
  _Atomic uint64_t *spent;
  const planned *with = plan_for(p, c, &spent);
  tg_blas_flags flags;
  if (!with->plan) return false;
  uint64_t from = spent ? now() : 0;
  tg_blas_flags_begin(&flags);
  bool ran = with->code ? run_bare(p, c, with) : run(p, c, with);
  tg_blas_flags_end(&flags, p);
  if (spent) atomic_fetch_add(spent, now() - from + 1);
  return ran;
}

/* Larger products are computed in parts of at most PART. Parts of k after the first add to C (beta is 1). */
enum { PART = 1 << 30 };

static int64_t part(int64_t n, int64_t at) { return n <= INT_MAX ? n : n - at < PART ? n - at : PART; }

static bool compute_parts(const product *p) {
  static const float one = 1;
  static const double wide_one = 1;
  size_t size = p->wide ? 8 : 4;
  for (int64_t j = 0; j < p->n; j += part(p->n, j))
    for (int64_t i = 0; i < p->m; i += part(p->m, i))
      for (int64_t k = 0; k < p->k; k += part(p->k, k)) {
        product q = *p;
        q.m = part(p->m, i), q.n = part(p->n, j), q.k = part(p->k, k);
        q.a = (const char *)p->a + (size_t)tg_blas_at_a(p, i, k) * size;
        q.b = (const char *)p->b + (size_t)tg_blas_at_b(p, k, j) * size;
        q.c = (char *)p->c + (size_t)(j * p->ldc + i) * size;
        if (k > 0) q.beta = p->wide ? (const void *)&wide_one : &one;
        if (!compute(&q)) {
          if (!i && !j && !k) return false;
          loop(&q, false);   /* out of memory after the first part */
        }
      }
  return true;
}

bool tg_blas_compute(const product *p) {
  bool scale = !p->k || is_zero(p, p->alpha);
  if (!p->m || !p->n || (scale && is_one(p, p->beta))) return true;
  if (scale) {
    loop(p, true);
    return true;
  }
  return p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX ? compute(p) : compute_parts(p);
}
