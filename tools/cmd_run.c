/* SPDX-License-Identifier: MIT
 * tg run: compiles a text program, runs it on made-up data, and checks it against the interpreter or times it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dsl/text.h"
#include "interp/interp.h"
#include "ranges/ranges.h"
#include "tool.h"

static const char usage[] =
  "tg run FILE.tg name=value ... [--kernel NAME] [--check] [--time] [--seconds N] [--threads N] [--opt WORDS ...] [--cache DIR] [--json]\n"
  "\n"
  "Compiles the kernel for this machine and runs it once on small integers.\n"
  "  name=value an integer for a parameter or a knob; a parameter that the file gives a range needs one\n"
  "  --kernel   of a file with several: the one to take, else the first\n"
  "  --check    the outputs must equal the interpreter's of the kernel as written: integers bit for bit, floats within what another\n"
  "             order of summation may give. The interpreter takes some 100 ns for a term: choose small sizes, M=60\n"
  "  --time     runs for --seconds (1) and prints the median\n"
  "  --threads  1; -1 for all cores\n"
  "  --cache    a folder where compiled kernels are kept from run to run\n"
  "  --opt      words of a schedule, in order, instead of the heuristic's choice: --opt 'split j 16 as jo jl' --opt 'lane jl'\n";

typedef struct {
  tool_program program;
  const tool_args *args;
  tg_context *ctx;
  tg_kernel *kernel;
  tg_job job;                              /* the program as written, for contracts and the check */
  uint32_t n;
  tg_argument data[64];
  void *copy[64];                          /* for the interpreter */
} run_state;

static void parse(void *user) {
  run_state *r = user;
  r->job.name = r->args->kernel;
  tg_parse_kernel(&r->job, r->args->file, r->program.text, r->program.options.bindings_n, r->program.bindings);
}

/* Small integers, the same for every type; indices stay within their contracts. */
static void fill(const run_state *r, uint32_t b, tg_type type) {
  tg_i128 lo = tg_is_float(type) || tg_is_signed(type) ? -3 : 0, hi = type == TG_BOOL ? 1 : 3;
  const tg_buffer *info = &r->job.buffers.data[b];
  if (info->lo && info->hi) {
    lo = tg_bounds_of((tg_job *)&r->job, info->lo).hi;
    hi = tg_bounds_of((tg_job *)&r->job, info->hi).lo;
  }
  uint32_t seed = 12345 + b;
  size_t size = (size_t)tg_type_bytes(type), n = r->data[b].bytes / size;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    tg_i128 v = hi >= lo ? lo + (tg_i128)((seed >> 8) % (uint64_t)(hi - lo + 1)) : lo;
    uint64_t bits = tg_value_bits(type, tg_is_float(type) ? (tg_value){.f = (double)v} : (tg_value){.i = v});
    memcpy((char *)r->data[b].data + i * size, &bits, size);
  }
}

static bool allocate(run_state *r) {
  const tg_kernel_info *k = tg_kernel_describe(r->kernel);
  if (k->params_n) {
    fprintf(stderr, "tg: %s: give %s a value: %s=...\n", r->args->file, k->params[0].name, k->params[0].name);
    return false;
  }
  if (k->buffers_n > sizeof r->data / sizeof *r->data) {
    fprintf(stderr, "tg: over %zu buffers\n", sizeof r->data / sizeof *r->data);
    return false;
  }
  r->n = k->buffers_n;
  for (uint32_t b = 0; b < r->n; b++) {
    if (tg_kernel_bytes(r->kernel, NULL, b, &r->data[b].bytes)) {
      fprintf(stderr, "%s\n", tg_error_message(r->ctx));
      return false;
    }
    r->data[b].data = tool_pages(r->data[b].bytes);
    if (k->buffers[b].read) fill(r, b, k->buffers[b].type);
    else memset(r->data[b].data, 0xff, r->data[b].bytes);
    r->copy[b] = tool_pages(r->data[b].bytes);
    memcpy(r->copy[b], r->data[b].data, r->data[b].bytes);
  }
  return true;
}

static void interpret(void *user) {
  run_state *r = user;
  tg_interp_buffer buffers[64];
  for (uint32_t b = 0; b < r->n; b++) buffers[b] = (tg_interp_buffer){r->copy[b], r->data[b].bytes};
  tg_interp in = {.buffers = buffers, .check_uninitialised = true, .check_races = true, .check_contracts = true, .check_merges = true};
  tg_interpret(&r->job, r->job.sink, &in);
}

/* Integers bit for bit; floats within what another order of summation may give. */
static bool same(tg_type type, const char *got, const char *want, size_t bytes, double *worst, size_t *where) {
  size_t size = (size_t)tg_type_bytes(type);
  *worst = 0;
  for (size_t i = 0; i < bytes / size; i++) {
    uint64_t a = 0, b = 0;
    memcpy(&a, got + i * size, size), memcpy(&b, want + i * size, size);
    if (a == b) continue;
    double x = tg_is_float(type) ? tg_value_from_bits(type, a).f : 0, y = tg_is_float(type) ? tg_value_from_bits(type, b).f : INFINITY;
    double e = x != x && y != y ? 0 : fabs(x - y) / (fabs(y) + 1e-6);
    if (!(e <= *worst)) *worst = e, *where = i;
  }
  double tolerance = type == TG_F64 ? 1e-12 : type == TG_F32 ? 1e-5 : 1e-2;
  return *worst <= tolerance;
}

static int check(run_state *r) {
  const tg_kernel_info *k = tg_kernel_describe(r->kernel);
  if (!tg_protect(&r->job.env, interpret, r)) {
    fprintf(stderr, "%s\n", r->job.env.message);
    return TOOL_WRONG;
  }
  for (uint32_t b = 0; b < r->n; b++) {
    double worst;
    size_t where = 0;
    if (!k->buffers[b].written) continue;
    if (!same(k->buffers[b].type, r->data[b].data, r->copy[b], r->data[b].bytes, &worst, &where)) {
      fprintf(stderr, "tg: %s: %s differs from the interpreter's at element %zu, by %g of it\n", r->args->file, k->buffers[b].name, where, worst);
      return TOOL_WRONG;
    }
    if (!r->args->json) printf("%s: right, worst relative difference %.3g\n", k->buffers[b].name, worst);
  }
  return TOOL_OK;
}

static int run(run_state *r) {
  tg_launch l = {.buffers = r->data, .buffers_n = r->n, .threads = r->args->threads};
  if (tg_kernel_compile_text(r->ctx, r->args->file, r->program.text, &r->program.options, &r->kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(r->ctx));
    return TOOL_WRONG;
  }
  if (!tg_protect(&r->job.env, parse, r)) {
    fprintf(stderr, "%s\n", r->job.env.message);
    return TOOL_WRONG;
  }
  if (!allocate(r)) return TOOL_WRONG;
  l.buffers_n = r->n;
  if (tg_kernel_run(r->kernel, &l)) {
    fprintf(stderr, "%s\n", tg_error_message(r->ctx));
    return TOOL_WRONG;
  }
  int result = r->args->check ? check(r) : TOOL_OK;
  if (!r->args->check && !r->args->time && !r->args->json)
    printf("%s: ran; --check compares it with the interpreter, --time measures it\n", tg_kernel_describe(r->kernel)->name);
  if (result == TOOL_OK && r->args->time) {
    tg_timing t;
    if (tg_kernel_time(r->kernel, &l, r->args->seconds > 0 ? r->args->seconds : 1, &t)) {
      fprintf(stderr, "%s\n", tg_error_message(r->ctx));
      return TOOL_WRONG;
    }
    tool_figure(r->args->json, "run", tg_kernel_describe(r->kernel)->name, "time", t.median * 1e6, "us", NULL);
  }
  return result;
}

static void log_line(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

int cmd_run(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  static run_state r;
  r.args = &a;
  if (!tool_load(&a, &r.program)) return TOOL_WRONG;
  tg_job_init(&r.job, NULL);
  tg_context_options co = {.cache = a.cache, .log = log_line};
  int result;
  if (tg_context_create(&co, &r.ctx)) {
    fprintf(stderr, "tg: %s\n", r.ctx ? tg_error_message(r.ctx) : "out of memory");
    result = TOOL_BROKEN;
  } else result = run(&r);
  for (uint32_t b = 0; b < r.n; b++) free(r.data[b].data), free(r.copy[b]);
  if (r.kernel) tg_kernel_free(r.kernel);
  tg_context_free(r.ctx);
  tg_job_drop(&r.job);
  tool_unload(&r.program);
  return result;
}
