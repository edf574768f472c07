/* SPDX-License-Identifier: MIT
 * Random points of the space of products through the gates: a sketch, values from its knobs' lists, types, majors, alpha and beta, sizes that
 * are constants or known at launch, one to three threads; at sizes around tiles and vectors.
 *   gemm_points [N [SEED]]      about N points: one is a compiled kernel at one size, under one or two gates
 *   gemm_points --group SEED    one kernel again, as a failure names it, and what it is
 * Kernels run in a child, so that one that crashes or hangs is told and the others go on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../test.h"
#include "dsl/text.h"
#include "gemm/gates.h"

enum { SKETCHES = 32, CHUNK = 40, SECONDS = 60, FAILURES = 20 };

/* What a child leaves. */
typedef struct {
  uint64_t group;                     /* at work */
  char at[1536];                      /* what it is, for the message of a crash */
  long passed, failed, refused, compiled;
  struct { char name[48]; long tried, compiled, passed; char refusal[400]; } sketch[SKETCHES];
} ledger;

static ledger *shared;
static tg_gates *gates;
static bool verbose;

/* ---- random choices ---- */

static uint64_t state;

static uint64_t next(void) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }
static bool often(int percent) { return below(100) < percent; }

static int64_t size(const int64_t *tile, uint32_t tiles) {
  static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  if (tiles && often(30)) {
    int64_t v = tile[below(tiles)] + below(3) - 1;
    if (v >= 1 && v <= 520) return v;
  }
  return sizes[below(sizeof sizes / sizeof *sizes)];
}

static const struct { tg_type a, b, c, acc; } types[] = {
  {TG_F32, TG_F32, TG_F32, TG_F32}, {TG_F32, TG_F32, TG_F32, TG_F32}, {TG_F64, TG_F64, TG_F64, TG_F64}, {TG_F16, TG_F16, TG_F16, TG_F32}, {TG_F16, TG_F16, TG_F32, TG_F32},
  {TG_BF16, TG_BF16, TG_BF16, TG_F32}, {TG_BF16, TG_BF16, TG_F32, TG_F32}, {TG_U8, TG_I8, TG_I32, TG_I32}, {TG_I8, TG_I8, TG_I32, TG_I32}};

static void choose_problem(tg_gemm_problem *p) {
  unsigned t = (unsigned)below(sizeof types / sizeof *types);
  *p = (tg_gemm_problem){.a = types[t].a, .b = types[t].b, .c = types[t].c, .acc = types[t].acc, .a_major = (uint8_t)often(30), .b_major = (uint8_t)often(30), .c_major = (uint8_t)often(20),
                         .alpha = often(40), .beta = often(40), .batch = {1, 1}};
}

/* ---- a kernel ---- */

typedef struct {
  tg_job job;
  const tg_kernel_def *def;
  tg_gemm_problem *problem;
  tg_binding bind[6 + TG_GEMM_KNOBS];
  uint32_t n;
  int64_t tile[64];
  uint32_t tiles;
} choice;

static void read_knobs(void *arg) {
  choice *c = arg;
  tg_author(&c->job, c->def, c->n, c->bind, c->problem);
  for (uint32_t i = 0; i < c->job.knobs.n && c->n < 6 + TG_GEMM_KNOBS; i++) {
    const tg_knob *k = &c->job.knobs.data[i];
    int64_t v = k->values[often(40) ? 0 : below(k->n)];
    c->bind[c->n++] = (tg_binding){tg_strdup(&c->job.env, k->name), v, v, 1};
    if (c->tiles < 60 && v > 1 && v <= 512) c->tile[c->tiles++] = v;
  }
}

static void bind(choice *c, const char *name, tg_gemm_dim d) { c->bind[c->n++] = (tg_binding){name, d.lo, d.hi, 1}; }

/* What is at work, for messages. */
static void describe(const choice *c, int threads) {
  const tg_gemm_problem *p = c->problem;
  size_t n = sizeof shared->at;
  int at = snprintf(shared->at, n, "%s %s%c x %s%c -> %s%c (%s)%s%s, %d threads;", c->def->name, tg_type_name[p->a], "NT"[p->a_major], tg_type_name[p->b], "NT"[p->b_major], tg_type_name[p->c],
                    "NT"[p->c_major], tg_type_name[p->acc], p->alpha ? " alpha" : "", p->beta ? " beta" : "", threads);
  for (uint32_t i = 0; i < c->n && (size_t)at < n; i++)
    at += c->bind[i].lo == c->bind[i].hi ? snprintf(shared->at + at, n - (size_t)at, " %s=%lld", c->bind[i].name, (long long)c->bind[i].lo)
                                         : snprintf(shared->at + at, n - (size_t)at, " %s=%lld..%lld", c->bind[i].name, (long long)c->bind[i].lo, (long long)c->bind[i].hi);
}

static void fail(const char *why) {
  shared->failed++;
  fprintf(stderr, "gemm_points --group %llu: %s\n  %s\n", (unsigned long long)shared->group, shared->at, why);
}

/* ---- points ---- */

static tg_gemm_gate some_gate(const tg_gemm_problem *p) {
  for (;;) {
    tg_gemm_gate g = (tg_gemm_gate)below(TG_GATE__COUNT);
    if (tg_gate_applies(p, g)) return g;
  }
}

static bool one_point(const choice *c, const tg_gate_kernel *k, const int64_t size_of[3], const int64_t pad[3], bool fixed) {
  static const double factors[][2] = {{1, 0}, {-1, 1}, {2, -2}, {1, 1}, {-2, 0}};
  int gates_n = often(50) ? 2 : 1;
  for (int i = 0; i < gates_n; i++) {
    tg_gate_failure f;
    tg_gate_case w = {.gate = i == 0 && often(50) ? tg_gate_applies(c->problem, TG_GATE_EPILOGUE) ? TG_GATE_EPILOGUE : TG_GATE_EXACT : some_gate(c->problem), .m = size_of[0], .n = size_of[1],
                      .k = size_of[2], .front = often(25), .seed = next()};
    const double *by = factors[below(w.gate == TG_GATE_ROUNDED ? 2 : 5)];
    w.alpha = by[0], w.beta = by[1];
    w.pad_a = fixed ? pad[0] : often(30) ? 0 : 1 + below(9), w.pad_b = fixed ? pad[1] : often(30) ? 0 : 1 + below(9), w.pad_c = fixed ? pad[2] : often(30) ? 0 : 1 + below(9);
    tg_status s = tg_gate_check(gates, tg_gate_run_kernel, (void *)(uintptr_t)k, &w, &f);
    if (verbose) printf("  %s %lldx%lldx%lld: %s\n", tg_gate_name(w.gate), (long long)w.m, (long long)w.n, (long long)w.k, s ? f.text : "passed");
    if (s) return fail(f.text), false;
  }
  return true;
}

static double inner(uint8_t major, int64_t rows, int64_t columns) { return (double)(major == TG_GEMM_COLUMN ? rows : columns); }

/* One kernel, and several sizes if it takes them at launch. */
static void group(tg_context *ctx, uint64_t seed) {
  tg_gemm_problem p;
  choice c = {.problem = &p};
  int64_t sizes[3], pad[3] = {often(40) ? 0 : 1 + below(7), often(40) ? 0 : 1 + below(7), often(40) ? 0 : 1 + below(7)};
  uint32_t sketch = 0, count = 0;
  state = seed, shared->group = seed;
  shared->at[0] = 0;
  while (tg_gemm_sketches[count] && count < SKETCHES) count++;
  sketch = (uint32_t)below(count);
  c.def = tg_gemm_sketches[sketch];
  snprintf(shared->sketch[sketch].name, sizeof shared->sketch[sketch].name, "%s", c.def->name);
  choose_problem(&p);
  for (int i = 0; i < 3; i++) sizes[i] = size(NULL, 0), pad[i] = often(40) ? 0 : 1 + below(7);
  bool fixed = often(40);
  int64_t most = often(50) ? 4096 : 300;
  tg_gemm_dim *dim[] = {&p.m, &p.n, &p.k};
  for (int i = 0; i < 3; i++) *dim[i] = fixed || often(15) ? (tg_gemm_dim){sizes[i], sizes[i]} : (tg_gemm_dim){1, most};
  bind(&c, "M", p.m), bind(&c, "N", p.n), bind(&c, "K", p.k);
  tg_gemm_dim lda = {1, 4096}, ldb = lda, ldc = lda;
  if (fixed) {
    lda.lo = lda.hi = (int64_t)inner(p.a_major, sizes[0], sizes[2]) + pad[0];
    ldb.lo = ldb.hi = (int64_t)inner(p.b_major, sizes[2], sizes[1]) + pad[1];
    ldc.lo = ldc.hi = (int64_t)inner(p.c_major, sizes[0], sizes[1]) + pad[2];
  }
  bind(&c, "lda", lda), bind(&c, "ldb", ldb), bind(&c, "ldc", ldc);
  tg_job_init(&c.job, NULL);
  tg_protect(&c.job.env, read_knobs, &c);
  int threads = 1 + (int)below(3);
  describe(&c, threads);
  shared->sketch[sketch].tried++;
  tg_kernel *kernel = NULL;
  tg_compile_options o = {.bindings = c.bind, .bindings_n = c.n, .user = &p, .flags = TG_COMPILE_NO_CACHE};
  tg_status s = c.job.env.status ? c.job.env.status : tg_kernel_compile(ctx, c.def, &o, &kernel);
  const char *why = c.job.env.status ? c.job.env.message : tg_error_message(ctx);
  if (verbose) printf("%s\n%s\n", shared->at, s ? why : "compiled");
  if (s == TG_EINVAL) {
    shared->refused++;
    snprintf(shared->sketch[sketch].refusal, sizeof shared->sketch[sketch].refusal, "%.399s", why);
  } else if (s) fail(why);
  if (!s && tg_gates_open(ctx, &p, 0, &gates)) abort();
  if (!s) {
    tg_gate_kernel k = {.context = ctx, .problem = &p, .kernel = kernel, .threads = threads};
    int64_t points = fixed ? 1 : 4 + below(5);
    bool good = true;
    shared->compiled++, shared->sketch[sketch].compiled++;
    for (int64_t i = 0; i < points && good; i++) {
      for (int d = 0; d < 3; d++)
        if (dim[d]->lo < dim[d]->hi)
          do sizes[d] = size(c.tile, c.tiles);
          while (sizes[d] > dim[d]->hi);
      if ((double)sizes[0] * (double)sizes[1] * (double)sizes[2] > 0x1p22 && !fixed && often(80)) sizes[below(3)] = 1 + below(9);
      for (int d = 0; d < 3; d++)
        if (dim[d]->lo == dim[d]->hi) sizes[d] = dim[d]->lo;
      good = one_point(&c, &k, sizes, pad, fixed);
      if (good) shared->passed++, shared->sketch[sketch].passed++;
    }
    tg_gates_close(gates);
    gates = NULL;
    tg_kernel_free(kernel);
  }
  tg_job_drop(&c.job);
}

/* ---- children ---- */

static void crashed(int signal, siginfo_t *info, void *frame) {
  char where[200] = "outside of all operands", text[2200];
  (void)frame;
  if (gates) tg_gate_at(gates, info->si_addr, where, sizeof where);
  int n = signal == SIGALRM ? snprintf(text, sizeof text, "gemm_points --group %llu: %s\n  takes longer than %d seconds\n", (unsigned long long)shared->group, shared->at, SECONDS)
                            : snprintf(text, sizeof text, "gemm_points --group %llu: %s\n  signal %d: an access %s\n", (unsigned long long)shared->group, shared->at, signal, where);
  if (write(2, text, (size_t)n) < 0) _exit(9);
  _exit(8);
}

static void watch(void) {
  struct sigaction a = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
  int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &a, NULL);
}

static void child(uint64_t seed, long until) {
  tg_context *ctx;
  watch();
  if (tg_context_create(&(tg_context_options){.threads = 3, .flags = TG_CONTEXT_VERIFY}, &ctx)) _exit(7);
  for (int i = 0; i < CHUNK && shared->passed < until && shared->failed < FAILURES; i++) {
    alarm(SECONDS);
    group(ctx, seed + (uint64_t)i);
  }
  _exit(0);
}

int main(int argc, char **argv) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  if (argc > 2 && !strcmp(argv[1], "--group")) {
    tg_context *ctx;
    verbose = true;
    watch();
    if (tg_context_create(&(tg_context_options){.threads = 3, .flags = TG_CONTEXT_VERIFY}, &ctx)) return 1;
    group(ctx, strtoull(argv[2], NULL, 10));
    return shared->failed != 0;
  }
  long points = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
  uint64_t seed = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) << 32;
  for (int chunk = 0; shared->passed < points && shared->failed < FAILURES && chunk < points; chunk++) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) child(seed + (uint64_t)chunk * CHUNK, points);
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
      shared->failed++;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 8) fprintf(stderr, "gemm_points --group %llu: %s\n  the process died\n", (unsigned long long)shared->group, shared->at);
    }
  }
  for (int i = 0; i < SKETCHES; i++) {
    if (!shared->sketch[i].tried) continue;
    printf("%-24s %6ld kernels tried, %6ld compiled, %8ld points passed\n", shared->sketch[i].name, shared->sketch[i].tried, shared->sketch[i].compiled, shared->sketch[i].passed);
    if (shared->sketch[i].compiled < shared->sketch[i].tried) printf("  refused, for instance: %s\n", shared->sketch[i].refusal);
    CHECK(shared->sketch[i].compiled > 0 || shared->sketch[i].tried < 20, "no kernel of %s is legal: %s", shared->sketch[i].name, shared->sketch[i].refusal);
  }
  CHECK(shared->passed >= points || shared->failed, "%ld points only", shared->passed);
  CHECK(shared->compiled > 3 * shared->refused, "%ld of %ld kernels are refused", shared->refused, shared->refused + shared->compiled);
  test_passed += (int)shared->passed, test_failed += (int)shared->failed;
  return TEST_END();
}
