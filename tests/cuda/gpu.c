/* SPDX-License-Identifier: MIT
 * tg's PTX on a real GPU of NVIDIA's: every program of tests/ptx/gpu is compiled, launched through the driver, held to
 * tg's interpreter at the sizes that it has, bit for bit but for what a chip's matrix instructions round, then run and timed at its large sizes, where its result is held
 * to the code that tg makes for this CPU. Each runs in a process of its own, so that one that faults spoils no other.
 * Where there is no driver it says so in one line; that is neither a failure nor a pass.
 *   cuda_gpu [--report=FILE] [--small] [PROGRAM.tg ...]      --small: not at the large sizes
 * TG_TEST_CUDA: a library that stands in for libcuda.so.1. `sh tools/gpu-check` builds and runs it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../target.h"
#include "../test.h"
#include "../devices/corpus.h"
#include "cuda.h"
#include "interp/interp.h"
#include "tg/tg.h"

enum { BINDINGS = 8, SECONDS = 120, MESSAGE = 4096, BAND = 256 };
enum { RIGHT = 0, WRONG = 1, NO_DRIVER = 2 };   /* how a child ends */

typedef struct {
  machine m;
  kit_path path;
  tg_job job;
  const kit_program *program;
  tg_binding binding[BINDINGS];
  uint32_t bindings;
  bool large, rounds;
  int64_t params[32];
  kit_memory start, want, got;
  FILE *report;
} run;

static void say(run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(run *r, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  vprintf(format, list);
  vfprintf(r->report, format, again);
  va_end(again);
  va_end(list);
  fflush(stdout);
  fflush(r->report);
}

/* ---- what a program says of itself, in comments ---- */

static void read_sizes(run *r) {
  static char names[BINDINGS][32];
  const char *at = strstr(r->program->text, "// large:");
  r->bindings = 0;
  r->rounds = strstr(r->program->text, "// rounds") != NULL;
  for (at = at && r->large ? at + 9 : ""; r->bindings < BINDINGS; r->bindings++) {
    long long v;
    int n = 0;
    if (sscanf(at, " %31[A-Za-z]=%lld%n", names[r->bindings], &v, &n) != 2) return;
    r->binding[r->bindings] = (tg_binding){names[r->bindings], v, v, 1};
    at += n;
  }
}

/* The product of the numbers and sizes behind "flops:". 0: it counts bytes. */
static double flops(const run *r) {
  const char *at = strstr(r->program->text, "// flops:");
  double product = at ? 1 : 0;
  char word[32];
  int n;
  for (at = at ? at + 9 : ""; *at && *at != '\n' && sscanf(at, " %31[A-Za-z0-9]%n", word, &n) == 1; at += n) {
    double v = atof(word);
    for (uint32_t b = 0; b < r->bindings; b++)
      if (!strcmp(r->binding[b].name, word)) v = (double)r->binding[b].lo;
    product *= v;
  }
  return product;
}

/* ---- compiling, and what must come out ---- */

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

static void lower(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, r->bindings, r->binding);
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  corpus_lower(r->m.device, &r->path, j, seen, r);
}

static void interpret(void *user) {
  run *r = user;
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) buffers[b] = (tg_interp_buffer){r->want.data[b], r->want.bytes[b]};
  tg_interpret(&r->job, r->job.sink, &(tg_interp){.buffers = buffers, .params = r->params});
}

/* By the code for this CPU, under words of its own: NULL, or why not. */
static const char *on_host(run *r) {
  static char message[512];
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  tg_argument a[KIT_BUFFERS];
  for (uint32_t b = 0; b < r->want.n; b++) a[b] = (tg_argument){r->want.data[b], r->want.bytes[b]};
  tg_launch l = {.buffers = a, .buffers_n = r->want.n, .params = r->params, .params_n = r->job.params.n, .threads = -1};
  tg_compile_options o = {.bindings = r->binding, .bindings_n = r->bindings, .opts = "", .flags = TG_COMPILE_NO_CACHE | TG_COMPILE_UNTUNED | TG_COMPILE_OPTS_ONLY};
  bool ok = tg_context_create(NULL, &c) == TG_OK && tg_kernel_compile_text(c, r->program->path, r->program->text, &o, &k) == TG_OK && tg_kernel_run(k, &l) == TG_OK;
  if (!ok) snprintf(message, sizeof message, "%.*s", (int)strcspn(tg_error_message(c), "\n"), tg_error_message(c));
  tg_kernel_free(k);
  tg_context_free(c);
  return ok ? NULL : message;
}

/* The first element that differs, or how far off the worst is. */
static bool compare(run *r, bool exact, char *text, size_t n) {
  for (uint32_t b = 0; b < r->want.n; b++) {
    tg_difference d;
    size_t size = (size_t)tg_type_bytes(r->want.type[b]), elements = r->want.bytes[b] / size, first = 0;
    double *scale = exact ? NULL : kit_scale(r->want.type[b], r->want.data[b], elements);
    tg_comparison c = {.type = r->want.type[b], .n = elements, .got = r->got.data[b], .want = r->want.data[b], .exact = exact, .terms = 4096, .magnitude = scale};
    bool same = tg_compare(&c, &d);
    free(scale);
    if (same) continue;
    while (first < elements && !memcmp((char *)r->got.data[b] + first * size, (char *)r->want.data[b] + first * size, size)) first++;
    int at = snprintf(text, n, "%s: first at %zu: ", r->want.name[b], first);
    tg_difference_text(&d, elements, text + at, n - (size_t)at);
    return false;
  }
  return true;
}

/* ---- on the device ---- */

typedef struct { double compile; tg_timing time; } measured;

/* Buffers stand between bands, which nothing may write. */
static tg_status put(const run *r, uint32_t b, void **memory) {
  size_t bytes = r->start.bytes[b] + 2 * BAND;
  char *image = malloc(bytes);
  memset(image, 0xa5, bytes);
  if (r->start.bytes[b]) memcpy(image + BAND, r->start.data[b], r->start.bytes[b]);
  tg_status s = tg_device_alloc(r->m.device, bytes, memory);
  if (s == TG_OK) s = tg_device_copy(r->m.device, *memory, image, bytes);
  free(image);
  return s;
}

static tg_status get(run *r, uint32_t b, const void *memory, bool *whole) {
  size_t bytes = r->start.bytes[b] + 2 * BAND;
  char *image = malloc(bytes);
  tg_status s = tg_device_copy(r->m.device, image, memory, bytes);
  for (size_t i = 0; i < BAND; i++) *whole &= image[i] == (char)0xa5 && image[bytes - 1 - i] == (char)0xa5;
  if (r->start.bytes[b] && r->start.written[b]) memcpy(r->got.data[b], image + BAND, r->start.bytes[b]);
  free(image);
  return s;
}

/* NULL: it ran; else what went wrong. */
static const char *on_device(run *r, double seconds, measured *out) {
  static char message[MESSAGE - 512];
  tg_argument a[KIT_BUFFERS];
  void *memory[KIT_BUFFERS] = {NULL};
  tg_kernel *k = NULL;
  bool whole = true;
  tg_compile_options o = {.bindings = r->binding, .bindings_n = r->bindings, .flags = TG_COMPILE_NO_CACHE | TG_COMPILE_UNTUNED, .device = r->m.device};
  double begin = tg_now();
  tg_status s = tg_kernel_compile_text(r->m.context, r->program->path, r->program->text, &o, &k);
  out->compile = tg_now() - begin;
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) {
    s = put(r, b, &memory[b]);
    a[b] = (tg_argument){(char *)memory[b] + BAND, r->start.bytes[b]};
  }
  tg_launch l = {.buffers = a, .buffers_n = r->start.n, .params = r->params, .params_n = r->job.params.n};
  if (s == TG_OK) s = tg_kernel_run(k, &l);
  for (uint32_t b = 0; b < r->start.n && s == TG_OK; b++) s = get(r, b, memory[b], &whole);
  if (s == TG_OK && seconds > 0) s = tg_kernel_time(k, &l, seconds, &out->time);
  snprintf(message, sizeof message, "%s", s == TG_OK ? "wrote beside a buffer" : tg_error_message(r->m.context));
  for (uint32_t b = 0; b < r->start.n; b++) tg_device_free(r->m.device, memory[b]);
  tg_kernel_free(k);
  return s == TG_OK && whole ? NULL : message;
}

/* ---- one program at one size ---- */

static void tell(run *r, const measured *t) {
  double work = flops(r), bytes = 0;
  for (uint32_t b = 0; b < r->start.n; b++) bytes += (double)r->start.bytes[b] * (r->start.written[b] + r->start.read[b]);
  say(r, "    %.1f us (median of %u), %.1f GB/s", t->time.median * 1e6, t->time.runs, bytes / t->time.median * 1e-9);
  if (work > 0) say(r, ", %.3f TFLOP/s", work / t->time.median * 1e-12);
  say(r, "; compiled in %.0f ms, the driver's part included\n", t->compile * 1e3);
}

static bool one(run *r, bool large) {
  char message[MESSAGE];
  measured t = {0};
  const char *unchecked = NULL, *failed;
  r->large = large;
  read_sizes(r);
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, lower, r);
  if (!ok) snprintf(message, sizeof message, "not compiled: %.3000s", r->job.env.message);
  if (ok) {
    kit_memory_copy(&r->want, &r->start);
    kit_memory_copy(&r->got, &r->start);
    if (large) unchecked = on_host(r);
    else ok = tg_protect(&r->job.env, interpret, r);
    if (!ok) snprintf(message, sizeof message, "not interpreted: %.3000s", r->job.env.message);
  }
  if (ok && (failed = on_device(r, large ? 0.3 : 0, &t))) {
    snprintf(message, sizeof message, "%s", failed);
    ok = false;
  }
  ok = ok && (unchecked || compare(r, !r->rounds || (!large && r->m.standin), message, sizeof message));
  say(r, "  %s: %s%s%s\n", large ? "large" : "small", !ok ? "WRONG: " : unchecked ? "ran, not checked: " : "ok", ok ? "" : message, ok && unchecked ? unchecked : "");
  if (ok && large) tell(r, &t);
  tg_job_drop(&r->job);
  return ok;
}

/* ---- processes ---- */

typedef struct { const char *library, *report; bool small; } options;

static void describe(run *r) {
  time_t now = time(NULL);
  const tg_device_info *d = &r->m.about;
  const tg_target *t = r->m.device->target;
  say(r, "tg on a GPU, %s%s (%s), driver of CUDA %s, %u multiprocessors, memory %.1f GB, L2 %.1f MB, LOCAL %llu bytes a group; code for %s, by LLVM %s\n\n", ctime(&now), d->name,
      d->chip, d->version, d->cores, (double)d->memory * 1e-9, (double)t->l2 * 1e-6, (unsigned long long)t->local_bytes, d->target, tg_llvm_version());
}

/* In a child: a program, or, if there is none, what device it is. */
static int child(const options *o, const kit_program *p) {
  static run r;
  alarm(SECONDS);
  if (!machine_open(&r.m, o->library, 0, NULL) || !(r.report = fopen(o->report, "a"))) {
    printf("skipped: there is no GPU of NVIDIA's to be used: %s\n", r.m.context ? o->report : r.m.about.lacks[0] ? r.m.about.lacks : "no driver (libcuda.so.1) with a device");
    return NO_DRIVER;
  }
  if (r.m.standin) r.m.standin->wrong = getenv("TG_TEST_CUDA_WRONG") != NULL;
  if (!p) {
    describe(&r);
    return RIGHT;
  }
  r.program = p;
  say(&r, "%s\n", p->path);
  if (!kit_path_open(&r.path, r.m.about.target)) return WRONG;
  return one(&r, false) && (o->small || one(&r, true)) ? RIGHT : WRONG;
}

static int in_child(const options *o, const kit_program *p) {
  int status = 0;
  fflush(stdout);
  pid_t id = fork();
  if (!id) {
    int code = child(o, p);
    fflush(stdout);
    _exit(code);
  }
  if (id < 0 || waitpid(id, &status, 0) < 0) return WRONG;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  FILE *f = fopen(o->report, "a");
  if (f) fprintf(f, "  WRONG: ended by signal %d%s\n", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
  if (f) fclose(f);
  return WRONG;
}

int main(int argc, char **argv) {
  static const char *const folders[] = {"tests/ptx/gpu"};
  const char *library = getenv("TG_TEST_CUDA");
  options o = {.library = library && *library ? library : NULL, .report = "build/gpu-check.txt"};
  int n, at = 1, right = 0, wrong = 0;
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--report=", 9)) o.report = argv[at] + 9;
    else if (!strcmp(argv[at], "--small")) o.small = true;
  FILE *empty = fopen(o.report, "w");
  if (empty) fclose(empty);
  if (in_child(&o, NULL) != RIGHT) {
    remove(o.report);
    return TEST_SKIPPED;
  }
  kit_program *p = kit_programs_of(1, folders, &n);
  for (int i = 0; i < n; i++) {
    bool wanted = at == argc;
    for (int k = at; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (!wanted) continue;
    int end = in_child(&o, &p[i]);
    right += end == RIGHT, wrong += end != RIGHT;
    CHECK(end == RIGHT, "%s", p[i].path);
  }
  FILE *f = fopen(o.report, "a");
  if (f) fprintf(f, "\n%d programs right, %d wrong\n", right, wrong);
  if (f) fclose(f);
  printf("%s: %d programs right, %d wrong\n", o.report, right, wrong);
  kit_programs_free(p, n);
  return TEST_END();
}
