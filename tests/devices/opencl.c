/* SPDX-License-Identifier: MIT
 * An OpenCL device through tg/device.h: every program of the corpus is compiled for the first that can be used, launched there on memory of its own, and compared with the interpreter at stage linear, bit for bit.
 * A device that has f64 and 64-bit atomics launches all of them; of another, what is refused must say what there is none of, and most must be launched. No device: skipped.
 * PoCL compiles with LLVM at its highest level, which takes two thirds of the time and shows what a program leaves undefined: it does so for every fourth program, and
 * for each with --optimised or where programs are named.
 *   devices_opencl [--spirv] [--optimised] [PROGRAM.tg ...]
 *   devices_opencl --every N                       every Nth program
 *   devices_opencl [--spirv] --drawn N [SEED]      N kernels of the fuzzer's instead
 * --spirv: through a layer (layer.c) that takes SPIR-V for a driver that does not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "../folder.h"
#include "../fuzz/generate.h"
#include "corpus.h"
#include "../test.h"
#include "api/api.h"
#include "generator/generator.h"
#include "tg/device.h"

enum { SKIPPED = 77, LEAST_PERCENT = 60 };

typedef struct { corpus c; tg_context *context; tg_device *device; uint32_t number; } run;

/* ---- the corpus ---- */

static bool optimised;
static void begin(const corpus *c) {
  if (optimised || c->number % 4 == 0) unsetenv("POCL_EXTRA_BUILD_FLAGS");   /* which PoCL reads at each build */
  else setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 1);
}

static void programs_of(run *r, int every, int argc, char **argv) {
  static const char *const folders[] = {"tests/corpus"};
  CHECK(kit_path_open(&r->c.path, "opencl"), "a path");
  optimised |= argc > 1;
  r->c.begin = begin;
  int tried = corpus_run(&r->c, 1, folders, every, argc - 1, argv + 1);
  printf("opencl: %d of %d programs launched\n", r->c.launched, tried);
  CHECK(tried && r->c.launched * 100 >= tried * LEAST_PERCENT, "%d of %d launched", r->c.launched, tried);
  unsetenv("POCL_EXTRA_BUILD_FLAGS");
  corpus_close(&r->c);
}

/* ---- drawn programs ---- */

/* The text with the first n of the words; false: they are fewer. */
static bool with_words(const fuzz_program *drawn, int n, char *text, size_t room) {
  const char *body = strchr(drawn->text, '{') + 1, *w = drawn->opts;
  for (int i = 0; i < n; i++) {
    if (!(w = strchr(w, ';'))) return false;
    w++;
  }
  snprintf(text, room, "%.*s %.*s%s", (int)(body - drawn->text), drawn->text, (int)(w - drawn->opts), drawn->opts, body);
  return true;
}

/* As many of the words as are legal in their order. What the interpreter does not get through all the same is not
 * launched. Returns whether it was. */
static bool one_drawn(run *r, const fuzz_program *drawn, const char *name) {
  static kit_program p;
  static char text[sizeof drawn->text + sizeof drawn->opts + 8];
  enum { WORDS = 64 };
  tg_kernel *k = NULL;
  corpus *c = &r->c;
  bool interpreted = false, launched = false;
  int n = 0;
  snprintf(p.path, sizeof p.path, "%s", name);
  p.text = text;
  while (n < WORDS && with_words(drawn, n + 1, text, sizeof text)) n++;
  for (; n >= 0 && !interpreted; n--) {
    with_words(drawn, n, text, sizeof text);
    interpreted = corpus_interpret(c, &p);
    if (!interpreted) tg_job_drop(&c->job);
  }
  if (!interpreted) return false;
  tg_status s = tg_kernel_compile_text(r->context, name, text, &(tg_compile_options){.device = r->device}, &k);
  bool lacks = s == TG_EINVAL && strstr(tg_error_message(r->context), "this target has no ");
  CHECK(s == TG_OK || lacks, "%s: %s\n%s", name, tg_error_message(r->context), text);
  if (s == TG_OK) {
    int before = test_failed;
    s = corpus_launch(c, k, false);
    CHECK(s == TG_OK, "%s: %s", name, tg_error_message(r->context));
    if (s == TG_OK) corpus_compare(c);
    if (test_failed > before) printf("%s\n", text);
    launched = s == TG_OK;
  }
  tg_kernel_free(k);
  tg_job_drop(&c->job);
  return launched;
}

static void drawn_programs(run *r, int n, uint64_t seed) {
  static fuzz_program drawn;
  int launched = 0;
  CHECK(kit_path_open(&r->c.path, "opencl"), "a path");
  setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 1);
  for (int i = 0; i < n; i++) {
    char name[64];
    fuzz_source s = {.state = seed + (uint64_t)i};
    fuzz_generate(&s, &drawn, false);
    snprintf(name, sizeof name, "drawn, seed %llu", (unsigned long long)seed + (unsigned long long)i);
    launched += one_drawn(r, &drawn, name);
  }
  printf("opencl: %d of %d drawn programs launched\n", launched, n);
  CHECK(launched * 100 >= n * LEAST_PERCENT, "%d of %d launched", launched, n);
  unsetenv("POCL_EXTRA_BUILD_FLAGS");
  corpus_close(&r->c);
}

/* ---- what is refused ---- */

static void refusals(run *r) {
  static const char matrix[] = "kernel mm() { in(A, u8, [16, 64]); in(B, i8, [64, 16]); out(C, i32, [16, 16]); opt(contract vpdpbusd n=j k=k);"
                               "range(i, 16) range(j, 16) C[i, j] = sum(k : 64, i32(A[i, k]) * i32(B[k, j])); }";
  static const char atomic[] = "kernel h() { in(x, i32 in 0..15, [300]); out(h, i16, [16]); range(b, 16) h[b] = 0; range(i, 300, global) atomic h[x[i]] += 1; }";
  tg_compile_options o = {.device = r->device};
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(r->context, "atomic", atomic, &o, &k) == TG_EINVAL && strstr(tg_error_message(r->context), "this target has no atomic add to i16"), "%s", tg_error_message(r->context));
  CHECK(tg_kernel_compile_text(r->context, "matrix", matrix, &o, &k) == TG_EINVAL && strstr(tg_error_message(r->context), "vpdpbusd is an instruction of avx512vnni, not of "), "%s", tg_error_message(r->context));
}

/* ---- the surface ---- */

static const char add[] = "kernel add(N in 1..1000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] + 1; }";

static void misuse(run *r) {
  tg_kernel *k = NULL;
  tg_device *again = NULL, *cpu = NULL;
  tg_timing t;
  tg_compile_options o = {.device = r->device};
  int64_t n = 100;
  _Alignas(64) float mine[100] = {1};
  float back[100];
  void *x = NULL, *y = NULL;
  CHECK(tg_device_open(r->context, r->number, &again) == TG_OK && again == r->device, "a device is opened once");
  CHECK(tg_device_open(r->context, 1000, &again) == TG_MISS && !again && strstr(tg_error_message(r->context), "there is no device 1000"), "%s", tg_error_message(r->context));
  CHECK(tg_device_open(r->context, 0, &cpu) == TG_OK && cpu && cpu != r->device, "the CPU is device 0");
  CHECK(tg_kernel_compile_text(r->context, "add", add, &o, &k) == TG_OK, "%s", tg_error_message(r->context));
  CHECK(!tg_device_alloc(r->device, sizeof mine, &x) && !tg_device_alloc(r->device, sizeof mine, &y) && !((uintptr_t)x % 64), "%s", tg_error_message(r->context));
  CHECK(!tg_device_copy(r->device, x, mine, sizeof mine), "%s", tg_error_message(r->context));
  tg_argument a[] = {{x, sizeof mine}, {y, sizeof mine}}, host[] = {{mine, sizeof mine}, {y, sizeof mine}}, beyond[] = {{(char *)x + 4, sizeof mine}, {y, sizeof mine}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1}, foreign = l, over = l, worked = l, small = l;
  foreign.buffers = host, over.buffers = beyond, worked.workspace = mine, worked.workspace_bytes = sizeof mine;
  a[1].bytes = 4;
  CHECK(tg_kernel_run(k, &small) == TG_EINVAL && strstr(tg_error_message(r->context), "'y' has 4 bytes, 400 are needed"), "%s", tg_error_message(r->context));
  a[1].bytes = sizeof mine;
  CHECK(tg_kernel_run(k, &foreign) == TG_EINVAL && strstr(tg_error_message(r->context), "'x' does not lie in memory of this device"), "%s", tg_error_message(r->context));
  CHECK(tg_kernel_run(k, &over) == TG_EINVAL && strstr(tg_error_message(r->context), "'x' does not lie in memory of this device"), "%s", tg_error_message(r->context));
  CHECK(tg_kernel_run(k, &worked) == TG_EINVAL && strstr(tg_error_message(r->context), "are needed"), "%s", tg_error_message(r->context));
  worked.workspace_bytes = tg_kernel_workspace(k, 4);
  CHECK(worked.workspace_bytes && tg_kernel_run(k, &worked) == TG_EINVAL && strstr(tg_error_message(r->context), "'workspace' does not lie in memory of this device"), "%s", tg_error_message(r->context));
  CHECK(!tg_kernel_start(k, &l) && !tg_device_finish(r->device) && !tg_device_copy(r->device, back, y, sizeof back) && back[0] == 2 && back[99] == 1, "%s", tg_error_message(r->context));
  CHECK(!tg_kernel_time(k, &l, 0.01, &t) && t.runs >= 3 && t.median > 0, "%s", tg_error_message(r->context));
  CHECK(tg_device_copy(r->device, NULL, y, 4) == TG_EINVAL && !tg_device_copy(r->device, NULL, NULL, 0), "copies");
  tg_device_free(r->device, x), tg_device_free(r->device, NULL);   /* y goes with the context */
  tg_kernel_free(k);
  tg_context *other;
  CHECK(!tg_context_create(NULL, &other) && tg_kernel_compile_text(other, "add", add, &o, &k) == TG_EINVAL && strstr(tg_error_message(other), "another context's"), "%s", tg_error_message(other));
  tg_context_free(other);
}

/* The text is kept, and a program without a compiler of tg's launches it. */
/* Threads with so much memory of their own that it lies in the workspace, between phases that share memory: each has its own, and none lies where the phases' does. */
static void workspaces(run *r) {
  enum { N = 40, TURNS = 3 };
  static const char apart[] = "kernel apart(N in 1..64, K in 0..8) { in(x, f32, [K, 64]); inout(y, f32, [N]); range(k, K) { define_local(s, f32, [64]); range(i, 64, thread) s[i] = x[k, i];"
                              " range(i, N, thread) { define_reg(own, f32, [1500]); own[0] = f32(i); range(j, 1499) own[j + 1] = own[j] + s[j % 64]; y[i] = y[i] * 2 + own[23 * i] + s[i]; } } }";
  static const int64_t params[] = {N, TURNS};
  tg_kernel *k = NULL;
  float in[TURNS][64], back[N] = {0}, want[N] = {0};
  void *x = NULL, *y = NULL;
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < 64; i++) in[t][i] = (float)(100 * t + i);
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < N; i++) {
      want[i] = want[i] * 2 + (float)i + in[t][i];
      for (int j = 0; j < 23 * i; j++) want[i] += in[t][j % 64];
    }
  CHECK(!tg_kernel_compile_text(r->context, "apart", apart, &(tg_compile_options){.device = r->device, .flags = TG_COMPILE_AS_WRITTEN}, &k), "%s", tg_error_message(r->context));
  CHECK(!tg_device_alloc(r->device, sizeof in, &x) && !tg_device_alloc(r->device, sizeof back, &y) && !tg_device_copy(r->device, x, in, sizeof in) && !tg_device_copy(r->device, y, back, sizeof back), "%s", tg_error_message(r->context));
  tg_argument a[] = {{x, sizeof in}, {y, sizeof back}};
  CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .params = params, .params_n = 2}) && !tg_device_copy(r->device, back, y, sizeof back), "%s", tg_error_message(r->context));
  for (int i = 0; i < N; i++) CHECK(back[i] == want[i], "thread %d: %g, wanted %g", i, back[i], want[i]);
  tg_kernel_free(k), tg_device_free(r->device, x), tg_device_free(r->device, y);
}

static void from_cache(const run *r) {
  char folder[TEST_PATH] = "tg-opencl-XXXXXX";
  tg_context *c = NULL;
  tg_device *d = NULL;
  tg_kernel *k = NULL;
  CHECK(test_folder(folder), "a folder");
  for (int without = 0; without < 2; without++) {
    tg_context_options o = {.cache = folder};
    CHECK(!(without ? tg_context_create_runtime(&o, &c) : tg_context_create(&o, &c)) && !tg_device_open(c, r->number, &d), "%s", tg_error_message(c));
    CHECK(!tg_kernel_compile_text(c, "add", add, &(tg_compile_options){.device = d}, &k) && tg_kernel_describe(k)->from_cache == without, "%s", tg_error_message(c));
    tg_kernel_free(k);
    tg_context_free(c);
  }
  kit_remove(folder);
}

/* ---- beside a program's own use of OpenCL ---- */

typedef struct {
  int (*clGetPlatformIDs)(unsigned, void **, unsigned *);
  int (*clGetDeviceIDs)(void *, uint64_t, unsigned, void **, unsigned *);
  void *(*clCreateContext)(const intptr_t *, unsigned, void *const *, void *, void *, int *);
  void *(*clCreateCommandQueueWithProperties)(void *, void *, const uint64_t *, int *);
  void *(*clCreateUserEvent)(void *, int *);
  int (*clSetUserEventStatus)(void *, int);
  int (*clEnqueueBarrierWithWaitList)(void *, unsigned, void *const *, void **);
  void *(*clSVMAlloc)(void *, uint64_t, size_t, unsigned);
  void (*clSVMFree)(void *, void *);
  int (*clReleaseCommandQueue)(void *), (*clReleaseContext)(void *), (*clReleaseEvent)(void *);
} own_opencl;

static bool own_open(own_opencl *f) {
  static const char *const names[] = {"clGetPlatformIDs", "clGetDeviceIDs", "clCreateContext", "clCreateCommandQueueWithProperties", "clCreateUserEvent", "clSetUserEventStatus", "clEnqueueBarrierWithWaitList", "clSVMAlloc", "clSVMFree", "clReleaseCommandQueue", "clReleaseContext", "clReleaseEvent"};
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *at;
  _Static_assert(sizeof names / sizeof *names * sizeof at == sizeof *f, "a name for each");
  for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
    if (!(at = dlsym(library, names[i]))) return false;
    memcpy((char *)f + i * sizeof at, &at, sizeof at);
  }
  return library != NULL;
}

/* The program's context, queue and memory under tg; and a mark that is not reached while the program's own event before it is open. */
static void native(const run *r) {
  own_opencl f;
  void *platform[16], *device[16], *of = NULL, *x = NULL, *other = NULL;
  unsigned platforms = 0, n = 0, at = 0;
  tg_device_info about;
  tg_device *d = NULL;
  tg_queue *q = NULL, *behind = NULL, *none = NULL;
  tg_queue_mark mark = {0}, late = {0};
  tg_kernel *k = NULL;
  float in[100] = {1}, out[100] = {0};
  int64_t hundred = 100;
  CHECK(own_open(&f) && !tg_device_describe(r->number, &about) && !f.clGetPlatformIDs(16, platform, &platforms), "OpenCL of one's own");
  for (unsigned p = 0; p < platforms && p < 16 && !of; p++, at += n)
    if (!f.clGetDeviceIDs(platform[p], 0xffffffff, 16, device, &n) && about.index - at < n) of = device[about.index - at];
  void *context = f.clCreateContext(NULL, 1, &of, NULL, NULL, NULL), *foreign = f.clCreateContext(NULL, 1, &of, NULL, NULL, NULL);
  void *queue = f.clCreateCommandQueueWithProperties(context, of, NULL, NULL), *strange = f.clCreateCommandQueueWithProperties(foreign, of, NULL, NULL);
  void *event = f.clCreateUserEvent(context, NULL), *memory = f.clSVMAlloc(context, 1, sizeof in, 64);
  CHECK(of && context && queue && strange && event && memory, "made");
  CHECK(!tg_device_open_native(r->context, r->number, context, &d) && d != r->device, "%s", tg_error_message(r->context));
  CHECK(tg_queue_open(d, &(tg_queue_options){.native = strange}, &none) == TG_EINVAL && strstr(tg_error_message(r->context), "not of the cl_context"), "%s", tg_error_message(r->context));
  CHECK(tg_device_import(r->device, TG_IMPORT_NATIVE, memory, sizeof in, &other) == TG_EINVAL, "a device on tg's own context imports none");
  CHECK(!tg_queue_open(d, &(tg_queue_options){.native = queue}, &q) && !tg_device_import(d, TG_IMPORT_NATIVE, memory, sizeof in, &x) && x == memory, "%s", tg_error_message(r->context));
  CHECK(!tg_device_alloc(d, sizeof out, &other) && !tg_kernel_compile_text(r->context, "add", add, &(tg_compile_options){.device = d}, &k), "%s", tg_error_message(r->context));
  CHECK(!tg_device_copy(d, x, in, sizeof in), "%s", tg_error_message(r->context));
  CHECK(tg_queue_stamp(q, 0) == TG_EINVAL && strstr(tg_error_message(r->context), "PROFILING"), "%s", tg_error_message(r->context));
  CHECK(!f.clEnqueueBarrierWithWaitList(queue, 1, &event, NULL), "held up");
  tg_argument a[] = {{x, sizeof in}, {other, sizeof out}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &hundred, .params_n = 1};
  CHECK(!tg_queue_launch(q, k, &l) && !tg_queue_submit(q, &mark), "%s", tg_error_message(r->context));
  CHECK(!tg_queue_open(d, NULL, &behind) && !tg_queue_after(behind, mark) && !tg_queue_submit(behind, &late) && tg_queue_wait(late, 3000000) == TG_TIMEOUT, "another queue waits for the mark on the device");
  CHECK(tg_queue_wait(mark, 0) == TG_TIMEOUT && tg_queue_wait(mark, 3000000) == TG_TIMEOUT, "behind what the program put");
  CHECK(!f.clSetUserEventStatus(event, 0) && !tg_queue_wait(mark, -1) && !tg_queue_wait(mark, 0) && !tg_queue_wait(late, -1), "%s", tg_error_message(r->context));
  CHECK(!tg_device_copy(d, out, other, sizeof out) && out[0] == 2 && out[99] == 1, "%g %g", out[0], out[99]);
  tg_kernel_free(k), tg_queue_free(q), tg_device_free(d, x), tg_device_free(d, other);
  f.clSVMFree(context, memory);   /* it is still the program's */
  f.clReleaseEvent(event), f.clReleaseCommandQueue(queue), f.clReleaseCommandQueue(strange), f.clReleaseContext(context), f.clReleaseContext(foreign);
}

typedef unsigned programs_fn(void);

/* Puts the layer between the loader and the driver; NULL: it cannot be, and the reason has been said. */
static programs_fn *put_layer(const char *program) {
  char path[TEST_PATH + 64], full[PATH_MAX];
  programs_fn *programs;
  const char *end = strrchr(program, '/');
  tg_target t;
  tg_target_row(&t, "spirv");
  if (!tg_jit_knows(&t) || system("command -v llvm-spirv-15 >/dev/null")) {
    printf("skipped: %s\n", tg_jit_knows(&t) ? "there is no llvm-spirv-15" : "this LLVM has no back end for SPIR-V");
    return NULL;
  }
  snprintf(path, sizeof path, "%.*s/devices/liblayer.so", end ? (int)(end - program) : 1, end ? program : ".");
  void *library = realpath(path, full) ? dlopen(full, RTLD_NOW) : NULL, *found = library ? dlsym(library, "layer_programs") : NULL;
  CHECK(found, "%s: %s", path, dlerror());
  setenv("OPENCL_LAYERS", full, 1);
  memcpy(&programs, &found, sizeof programs);
  return programs;
}

int main(int argc, char **argv) {
  static run r;
  programs_fn *programs = NULL;
  tg_device_info about;
  char folder[TEST_PATH] = "tg-opencl-XXXXXX";
  CHECK(test_folder(folder), "a folder");
  bool spirv = argc > 1 && !strcmp(argv[1], "--spirv");
  if (spirv && !(programs = put_layer(argv[0]))) {
    kit_remove(folder);
    return SKIPPED;
  }
  argc -= spirv, argv += spirv;
  int every = 1;
  if (argc > 2 && !strcmp(argv[1], "--every")) every = atoi(argv[2]) > 0 ? atoi(argv[2]) : 1, argc -= 2, argv += 2;
  optimised = argc > 1 && !strcmp(argv[1], "--optimised");
  argc -= optimised, argv += optimised;
  setenv("POCL_CACHE_DIR", folder, 1);   /* what an earlier run has compiled shall not count */
  while (tg_device_describe(r.number, &about) == TG_OK && (strcmp(about.driver, "opencl") || about.lacks[0])) r.number++;
  if (tg_device_describe(r.number, &about) != TG_OK) {
    printf("skipped: there is no OpenCL device that can be used\n");
    kit_remove(folder);
    return SKIPPED;
  }
  printf("opencl: %s\n", about.name);
  CHECK(!about.host_memory && about.cores && !strcmp(about.target, spirv ? "spirv" : "opencl"), "described as %s", about.target);
  CHECK(tg_context_create(NULL, &r.context) == TG_OK && tg_device_open(r.context, r.number, &r.device) == TG_OK, "%s", tg_error_message(r.context));
  r.c.context = r.context, r.c.device = r.device;
  r.c.whole = strstr(r.device->target->features, "fp64") && strstr(r.device->target->features, "int64_atomics");
  if (argc < 2) misuse(&r), workspaces(&r), refusals(&r), from_cache(&r), native(&r);
  if (argc > 2 && !strcmp(argv[1], "--drawn")) drawn_programs(&r, atoi(argv[2]), argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
  else programs_of(&r, every, argc, argv);
  CHECK(!spirv || programs() >= (unsigned)r.c.launched, "%u programs came as SPIR-V, %d were launched", programs(), r.c.launched);
  tg_context_free(r.context);
  kit_remove(folder);
  return TEST_END();
}
