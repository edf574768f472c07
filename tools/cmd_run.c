/* SPDX-License-Identifier: MIT
 * tg run: compiles a text program, runs it on made-up data, and checks it against the interpreter or times it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "dsl/text.h"
#include "interp/interp.h"
#include "ranges/ranges.h"
#include "counters.h"
#include "tg/device.h"
#include "tool.h"

static const char usage[] =
    "tg run FILE.tg name=value ... [--kernel NAME] [--check] [--time [--cost] [--counters]] [--seconds N] "
    "[--threads N] [--device NAME] [--opt WORDS ...] [--cache DIR] [--tuned DIR] [--json]\n"
    "\n"
    "Compiles the kernel for this machine and runs it once on small integers. FILE may be a C file (mine.c:matmul): "
    "tg show --help\n"
    "  name=value an integer for a parameter or a knob; a parameter that the file gives a range needs one\n"
    "  --kernel   of a file with several: the one to take, else the first\n"
    "  --check    the outputs must equal the interpreter's of the kernel as written: integers bit for bit; floats too, "
    "or be as near to\n"
    "             what it gives in f64 as the kernel as written is: an error at most twice as large, and 2 ulp. What "
    "the schedule leaves is interpreted too, its tasks in a shuffled\n"
    "             order: two of them that touch one element are a race. The interpreter takes some 100 ns for a term: "
    "choose small sizes, M=60\n"
    "  --time     runs for --seconds (1) and prints the median\n"
    "  --cost     with --time: where the time goes as the cost model sees it, as tg show --cost prints it, beside what "
    "was measured\n"
    "  --counters with --time: what the processor counts in as many launches again (cycles, instructions, misses, "
    "stalls; Linux),\n"
    "             beside what the model says; a counter that this machine or its kernel does not give says why\n"
    "  --threads  1; -1 for all cores\n"
    "  --device   where it runs, as tg devices lists them: opencl:0; else the CPU. Timed by the device's clock\n"
    "  --cache    a folder where compiled kernels are kept from run to run\n"
    "  --tuned    a folder of tuned choices, else $TG_TUNED, else tg/tuned in the user's data folder: with the one "
    "that tg tune found, if it is there; '' for none\n"
    "  --opt      words of a schedule, in order, instead of the heuristic's choice: --opt 'split j 16 as jo jl' --opt "
    "'lane jl'\n";

typedef struct {
  tool_program program;
  const tool_args *args;
  tg_context *ctx;
  tg_kernel *kernel;
  tg_device *device;                       /* NULL: the CPU */
  tg_job job;                              /* the program as written, for promised ranges and the check */
  uint32_t n;
  counters counters;                       /* with --counters */
  tg_argument data[64];
  void *copy[64];                          /* for the interpreter */
  void *wide[64];                          /* the same with f64 for floats */
  /* the buffers of the program as written, among these; operands that a schedule takes packed come behind the
   * kernel's own */
  uint32_t as_written[64], as_written_n;
} run_state;

static void parse(void *user) {
  run_state *r = user;
  r->job.name = r->args->kernel;
  tg_parse_kernel(&r->job, r->args->file, r->program.text, r->program.options.bindings_n, r->program.bindings);
}

/* Small integers, the same for every type; indices stay within their promised ranges. */
static void fill(const run_state *r, uint32_t b, uint32_t author, tg_type type) {
  tg_i128 lo = tg_is_float(type) || tg_is_signed(type) ? -3 : 0, hi = type == TG_BOOL ? 1 : 3;
  const tg_buffer *info = &r->job.buffers.data[author];
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

static size_t elements(tg_type type, const tg_argument *a) { return a->bytes / (size_t)tg_type_bytes(type); }

static void *widened(tg_type type, const tg_argument *a) {
  size_t n = elements(type, a), size = (size_t)tg_type_bytes(type);
  double *wide = tool_pages(n * 8 > a->bytes ? n * 8 : a->bytes);
  if (!tg_is_float(type)) return memcpy(wide, a->data, a->bytes);
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (char *)a->data + i * size, size);
    wide[i] = tg_value_from_bits(type, bits).f;
  }
  return wide;
}

static const char *name_of(const run_state *r, uint32_t b) { return tg_kernel_describe(r->kernel)->buffers[b].name; }

static void keep_for_check(run_state *r, uint32_t b, tg_type type) {
  r->copy[b] = tool_pages(r->data[b].bytes);
  memcpy(r->copy[b], r->data[b].data, r->data[b].bytes);
  if (r->args->check) r->wide[b] = widened(type, &r->data[b]);
}

/* Launches once, or times; on a device on copies of the buffers. */
static tg_status launch(run_state *r, tg_kernel *k, const tg_argument *data, tg_timing *t) {
  const tg_kernel_info *info = tg_kernel_describe(k);
  tg_argument there[64];
  tg_launch l = {.buffers = data, .buffers_n = info->buffers_n, .threads = r->args->threads};
  tg_status s = TG_OK;
  uint32_t n = 0;
  for (; r->device && n < info->buffers_n && s == TG_OK; n++) {
    there[n] = (tg_argument){NULL, data[n].bytes};
    s = tg_device_alloc(r->device, data[n].bytes, &there[n].data);
    if (s == TG_OK) s = tg_device_copy(r->device, there[n].data, data[n].data, data[n].bytes);
  }
  if (r->device) l.buffers = there;
  if (s == TG_OK)
    s = t ? tg_kernel_time(k, &l, r->args->seconds > 0 ? r->args->seconds : 1, t) : tg_kernel_run(k, &l);
  for (uint32_t b = 0; b < n; b++) {
    if (s == TG_OK && !t && info->buffers[b].written)
      s = tg_device_copy(r->device, data[b].data, there[b].data, data[b].bytes);
    tg_device_free(r->device, there[b].data);
  }
  return s;
}

/* The operand as written, and what the schedule's packing makes of it in the kernel's buffer. */
static bool pack(run_state *r, const char *operand, uint32_t author) {
  tg_compile_options o = r->program.options;
  tg_kernel *packing;
  uint32_t to = 0, at = r->n++;
  o.pack = operand;
  bool ok = r->n <= sizeof r->data / sizeof *r->data &&
            !tg_kernel_compile_text(r->ctx, r->args->file, r->program.text, &o, &packing);
  if (ok) {
    const tg_kernel_info *k = tg_kernel_describe(packing);
    tg_argument all[3] = {{0}};
    for (uint32_t b = 1; b < k->buffers_n; b++) {
      for (to = 0; strcmp(name_of(r, to), k->buffers[b].name);) to++;
      all[b] = r->data[to];
    }
    ok = !tg_kernel_bytes(packing, NULL, 0, &r->data[at].bytes);
    r->data[at].data = tool_pages(r->data[at].bytes);
    fill(r, at, author, k->buffers[0].type);
    keep_for_check(r, at, k->buffers[0].type);
    all[0] = r->data[at];
    ok = ok && !launch(r, packing, all, NULL);
    tg_kernel_free(packing);
    r->as_written[r->as_written_n++] = at;
  }
  if (!ok) fprintf(stderr, "%s\n", tg_error_message(r->ctx));
  return ok;
}

static bool find_as_written(run_state *r) {
  uint32_t own = r->n;
  for (uint32_t i = 0; i < r->job.sink->n; i++) {
    const tg_uop *d = r->job.sink->src[i];
    uint32_t b = 0;
    if (d->op != TG_OP_DEFINE || tg_buffer_info(&r->job, d)->role == TG_ROLE_TEMP) continue;
    const char *name = tg_buffer_info(&r->job, d)->name;
    while (b < own && strcmp(name_of(r, b), name)) b++;
    if (b < own) r->as_written[r->as_written_n++] = b;
    else if (!pack(r, name, tg_buffer_ordinal(d))) return false;
  }
  return true;
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
    uint32_t author = 0;
    while (author < r->job.buffers.n && strcmp(r->job.buffers.data[author].name, k->buffers[b].name)) author++;
    if (k->buffers[b].read && author < r->job.buffers.n) fill(r, b, author, k->buffers[b].type);
    else memset(r->data[b].data, 0xff, r->data[b].bytes);
    keep_for_check(r, b, k->buffers[b].type);
  }
  return find_as_written(r);
}

static void interpret(void *user) {
  run_state *r = user;
  tg_interp_buffer buffers[64];
  for (uint32_t i = 0; i < r->as_written_n; i++)
    buffers[i] = (tg_interp_buffer){r->copy[r->as_written[i]], r->data[r->as_written[i]].bytes};
  tg_interp in = {.buffers = buffers,
                  .check_uninitialised = true,
                  .check_races = true,
                  .check_promises = true,
                  .check_merges = true};
  tg_interpret(&r->job, r->job.sink, &in);
}

/* In f64. Without such a form what the kernel as written gives in its own types is the measure. */
static void interpret_wide(void *user) {
  run_state *r = user;
  const tg_kernel_info *k = tg_kernel_describe(r->kernel);
  const tg_uop *wide = tg_widen(&r->job, r->job.sink);
  tg_interp_buffer buffers[64];
  for (uint32_t i = 0; i < r->as_written_n; i++) {
    uint32_t b = r->as_written[i];
    tg_type type = r->job.buffers.data[i].type;   /* the program's own buffers come first */
    buffers[i] = (tg_interp_buffer){r->wide[b], tg_is_float(type) ? elements(type, &r->data[b]) * 8 : r->data[b].bytes};
    if (wide || b >= k->buffers_n || !k->buffers[b].written) continue;
    free(r->wide[b]);
    r->wide[b] = widened(type, &(tg_argument){r->copy[b], r->data[b].bytes});
  }
  tg_interp in = {.buffers = buffers};
  if (wide) tg_interpret(&r->job, wide, &in);
}

static bool interpreted(run_state *r, void (*how)(void *)) {
  if (tg_protect(&r->job.env, how, r)) return true;
  fprintf(stderr, "%s\n", r->job.env.message);
  return false;
}

/* ---- what the schedule leaves ---- */

typedef struct { run_state *run; tg_job job; const char *text; } scheduled;

static void keep_text(void *user, const char *stage, const char *text) {
  scheduled *s = user;
  (void)stage;
  s->text = tg_strdup(&s->job.env, text);
}

/* On copies of what the kernel began with. */
static void interpret_scheduled(void *user) {
  scheduled *s = user;
  run_state *r = s->run;
  tg_interp_buffer buffers[64];
  uint32_t n = 0;
  if (s->text) tg_parse_kernel(&s->job, "schedule", s->text, 0, NULL);
  else
    tg_parse_kernel(&s->job, r->args->file, r->program.text, r->program.options.bindings_n,
                    r->program.bindings); /* it has that stage behind it */
  for (uint32_t i = 0; i < s->job.sink->n; i++) {
    const tg_uop *d = s->job.sink->src[i];
    uint32_t b = 0;
    if (d->op != TG_OP_DEFINE || tg_buffer_info(&s->job, d)->role == TG_ROLE_TEMP) continue;
    while (strcmp(name_of(r, b), tg_buffer_info(&s->job, d)->name)) b++;
    buffers[n] = (tg_interp_buffer){tg_alloc(&s->job.env, r->data[b].bytes + 1), r->data[b].bytes};
    memcpy(buffers[n++].data, r->copy[b], r->data[b].bytes);
  }
  tg_interpret(&s->job, s->job.sink,
               &(tg_interp){.buffers = buffers, .check_uninitialised = true, .check_races = true});
}

/* Before the copies are interpreted. A tuned choice's schedule was looked at when it was found. */
static bool orderly(run_state *r) {
  static scheduled s;
  if (tg_kernel_describe(r->kernel)->tuned) return true;
  s = (scheduled){.run = r};
  tg_job_init(&s.job, NULL);
  bool ok = !tg_show_text(r->ctx, r->args->file, r->program.text, &r->program.options, "schedule", keep_text, &s);
  if (!ok) fprintf(stderr, "%s\n", tg_error_message(r->ctx));
  else if (!(ok = tg_protect(&s.job.env, interpret_scheduled, &s)))
    fprintf(stderr, "%s\nin what the schedule leaves of %s: tg show --stage schedule\n", s.job.env.message,
            r->args->file);
  tg_job_drop(&s.job);
  return ok;
}

/* The f64 form runs only if bits differ. */
static int check(run_state *r) {
  const tg_kernel_info *k = tg_kernel_describe(r->kernel);
  bool wide = false;
  if (!orderly(r) || !interpreted(r, interpret)) return TOOL_WRONG;
  for (uint32_t b = 0; b < k->buffers_n; b++) {
    tg_type type = k->buffers[b].type;
    const char *name = k->buffers[b].name;
    if (!k->buffers[b].written) continue;
    bool exact = !memcmp(r->data[b].data, r->copy[b], r->data[b].bytes);
    if (!exact && !tg_is_float(type)) {
      fprintf(stderr, "tg: %s: %s differs from the interpreter's\n", r->args->file, name);
      return TOOL_WRONG;
    }
    if (!exact && !wide && !interpreted(r, interpret_wide)) return TOOL_WRONG;
    wide |= !exact;
    size_t n = elements(type, &r->data[b]);
    double error = exact ? 0 : tg_block_error(type, r->data[b].data, r->wide[b], n),
           own = exact ? 0 : tg_block_error(type, r->copy[b], r->wide[b], n);
    if (!exact && !(error <= tg_block_bound(type, own))) {
      fprintf(stderr,
              "tg: %s: %s is off by %.3g of the largest value nearby; the kernel as written is off by %.3g, and %.3g "
              "is allowed\n",
              r->args->file, name, error, own, tg_block_bound(type, own));
      return TOOL_WRONG;
    }
    if (r->args->json) continue;
    if (exact) printf("%s: right, the same bits\n", name);
    else printf("%s: right, off by %.3g of the largest value nearby (the kernel as written: %.3g)\n", name, error, own);
  }
  return TOOL_OK;
}

/* Launches for about as long as the timing took, counted; their number. 0: one failed. The threads of launches begin
 * with the first one, so r->counters were opened before it. */
static double count(run_state *r, double median) {
  double seconds = r->args->seconds > 0 ? r->args->seconds : 1, most = median > 0 ? ceil(seconds / median) : 1;
  double n = 0;
  tg_status s = TG_OK;
  counters_start(&r->counters);
  for (; n < most && s == TG_OK; n++) s = launch(r, r->kernel, r->data, NULL);
  counters_stop(&r->counters);
  return s == TG_OK ? n : 0;
}

uint32_t tool_threads(const tool_args *a) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = a->threads;
  if (threads < 0 || threads > cores) threads = cores > 0 ? (int)cores : 1;
  return threads > 0 ? (uint32_t)threads : 1;
}

/* As the launches were: on as many threads. */
static int put_cost(run_state *r, double seconds) {
  tool_cost c = {.file = r->args->file,
                 .program = &r->program,
                 .threads = tool_threads(r->args),
                 .report = r->args->cost,
                 .seconds = seconds,
                 .counted = r->args->counters ? &r->counters : NULL};
  if (r->args->counters && (c.launches = count(r, seconds)) == 0) {
    fprintf(stderr, "%s\n", tg_error_message(r->ctx));
    return TOOL_WRONG;
  }
  return tool_run_cost(r->ctx, &c);
}

static void drop(run_state *r) {
  for (uint32_t b = 0; b < r->n; b++) free(r->data[b].data), free(r->copy[b]), free(r->wide[b]);
  if (r->args->counters) counters_close(&r->counters);
  if (r->kernel) tg_kernel_free(r->kernel);
  tg_job_drop(&r->job);
}

static int run(run_state *r) {
  if (!tool_device(r->args, r->ctx, &r->device)) return TOOL_USAGE;
  r->program.options.device = r->device;
  if (tg_kernel_compile_text(r->ctx, r->args->file, r->program.text, &r->program.options, &r->kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(r->ctx));
    return TOOL_WRONG;
  }
  const char *tuned = r->args->tuned ? r->args->tuned : getenv("TG_TUNED");
  if (tuned && *tuned && !r->args->opts && !tg_kernel_describe(r->kernel)->tuned)
    fprintf(stderr, "tg: %s: it runs untuned: %s has no choice for it\n", r->args->file, tuned);
  if (!tg_protect(&r->job.env, parse, r)) {
    fprintf(stderr, "%s\n", r->job.env.message);
    return TOOL_WRONG;
  }
  if (!allocate(r)) return TOOL_WRONG;
  if (launch(r, r->kernel, r->data, NULL)) {
    fprintf(stderr, "%s\n", tg_error_message(r->ctx));
    return TOOL_WRONG;
  }
  int result = r->args->check ? check(r) : TOOL_OK;
  if (!r->args->check && !r->args->time && !r->args->json)
    printf("%s: ran; --check compares it with the interpreter, --time measures it\n",
           tg_kernel_describe(r->kernel)->name);
  if (result == TOOL_OK && r->args->time) {
    tg_timing t;
    if (launch(r, r->kernel, r->data, &t)) {
      fprintf(stderr, "%s\n", tg_error_message(r->ctx));
      return TOOL_WRONG;
    }
    tool_figure(r->args->json, "run", tg_kernel_describe(r->kernel)->name,
                tg_kernel_describe(r->kernel)->tuned ? "time, tuned" : "time", t.median * 1e6, "us", NULL);
    if (r->args->cost || r->args->counters) result = put_cost(r, t.median);
  }
  return result;
}

double tool_time(const tool_args *a, const tool_program *p, tg_context *c) {
  static run_state r;
  tg_timing t = {0};
  r = (run_state){.args = a, .program = *p, .ctx = c};
  tg_job_init(&r.job, NULL);
  if (tg_kernel_compile_text(c, a->file, p->text, &p->options, &r.kernel)) fprintf(stderr, "%s\n", tg_error_message(c));
  else if (!tg_protect(&r.job.env, parse, &r)) fprintf(stderr, "%s\n", r.job.env.message);
  else if (allocate(&r) && launch(&r, r.kernel, r.data, &t)) fprintf(stderr, "%s\n", tg_error_message(c));
  drop(&r);
  return t.median;
}

static void log_line(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

int cmd_run(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg run", "a kernel (FILE.tg)");
  const char *word = a.cost ? "--cost" : "--counters";
  if ((a.cost || a.counters) && (!a.time || a.json)) {
    fprintf(stderr, "tg run: %s is for people, and beside --time%s\n", word,
            a.cost ? ": without it, tg show --cost" : "");
    return TOOL_USAGE;
  }
  if ((a.cost || a.counters) && a.device)
    return fprintf(stderr, "tg run: %s is of the CPU, not of a device\n", word), TOOL_USAGE;
  static run_state r;
  r.args = &a;
  if (!tool_load(&a, &r.program)) return TOOL_WRONG;
  if (a.counters) counters_open(&r.counters, NULL);
  tg_job_init(&r.job, NULL);
  tg_context_options co = {.cache = a.cache, .tuned = a.tuned, .log = log_line};
  int result;
  if (tg_context_create(&co, &r.ctx)) {
    fprintf(stderr, "tg: %s\n", r.ctx ? tg_error_message(r.ctx) : "out of memory");
    result = TOOL_BROKEN;
  } else result = run(&r);
  drop(&r);
  tg_context_free(r.ctx);
  tool_unload(&r.program);
  return result;
}
