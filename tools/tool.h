/* SPDX-License-Identifier: MIT
 * What the commands of tg share: arguments, output for people and for programs, samples and their medians. */
#ifndef TG_TOOL_H
#define TG_TOOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tg/tg.h>

/* Exit codes. */
enum {
  TOOL_OK = 0,
  TOOL_WRONG = 1 /* the kernel, the check or the file */,
  TOOL_USAGE = 2,
  TOOL_BROKEN = 3 /* a bug or the machine */,
  TOOL_INTERRUPTED = 4 /* by a signal, before it was done */
};

/* value: the only one, or the least; a range also has the largest, most, which is a multiple of `multiple`. */
typedef struct { char *name; int64_t value, most, multiple; } tool_binding;

/* The command line after the command: FILE name=value... --flag --key=value (or --key value). */
typedef struct {
  char *file;
  tool_binding binding[32];
  int bindings;
  const char *opt[32];            /* --opt, in order */
  int opts;
  char *word[32];                 /* of tg tune attention: what stands behind it and is no option */
  int words;
  const char *kernel, *stage, *pass, *pack, *target, *cache, *cases, *vs, *shapes, *types, *transposes, *expect;
  const char *device;             /* its name, as in tg_device_named; NULL: the CPU */
  const char *journal, *spool, *tuned, *csv, *sweep, *with, *sketch, *plot, *object, *header;
  bool check, time, json, help, rules, diff, update, knobs, resume, rows, causal, cost, counters, save, explain;
  bool backward;
  int threads, candidates, seed, beam, workers;
  double seconds, budget;
} tool_args;

/* Says on stderr what a command was not given; TOOL_USAGE. */
int tool_missing(const char *command, const char *what);
/* Fills a; prints what is wrong and gives false for an option that the command does not know. */
bool tool_parse(int argc, char **argv, tool_args *a, const char *usage);

int cmd_devices(int argc, char **argv), cmd_show(int argc, char **argv), cmd_run(int argc, char **argv),
    cmd_replay(int argc, char **argv), cmd_bench(int argc, char **argv), cmd_demo(int argc, char **argv),
    cmd_tune(int argc, char **argv), cmd_worker(int argc, char **argv), cmd_store(int argc, char **argv),
    cmd_measure(int argc, char **argv), cmd_build(int argc, char **argv), cmd_pack(int argc, char **argv),
    cmd_trace(int argc, char **argv);

/* Prints the machine code that ptxas makes of the PTX for that target (sass.c). An exit code. */
int tool_sass(const char *target, const char *ptx);

const char *tool_benches(void);   /* the names of all benchmarks: "lower|kernels|.." */

/* One figure: a line of JSON, or a row of a table. of: what a ratio is against, or NULL. */
void tool_figure(bool json, const char *bench, const char *name, const char *metric, double value, const char *unit,
                 const char *of);

/* Hears of each figure; NULL: nobody does. */
extern void (*tool_figure_heard)(const char *name, const char *metric, double value, const char *unit, const char *of);

double tool_now(void);
double tool_median(double *samples, int n);   /* sorts */
/* 64-byte aligned, touched; exits the tool with a message if there are none */
void *tool_pages(size_t bytes);
char *tool_read(const char *path, size_t *n); /* malloc'd, or NULL with errno */

/* The device that --device names, opened; NULL: none is named. false: there is no such device, and stderr says so. */
bool tool_device(const tool_args *a, tg_context *c, tg_device **out);

/* Where tuned choices are kept: --tuned, else TG_TUNED, else the user's own folder, which contexts read by default;
 * NULL: there is no such place. */
const char *tool_tuned(const tool_args *a, char *buffer, size_t n);

/* A text program and how to compile it, from the command line. */
typedef struct { char *text, *opts; tg_binding bindings[32]; tg_compile_options options; } tool_program;
bool tool_load(const tool_args *a, tool_program *p);   /* says on stderr why not */
void tool_unload(tool_program *p);

/* c_file.c: the kernel that the arguments name, or the first, of a C file, as a text program on the same lines;
 * malloc'd. NULL, and what is wrong on stderr. taken: which of the bindings are names of C. */
bool tool_is_c_file(const char *path);
char *tool_c_kernel(const tool_args *a, const char *text, bool *taken);

/* sketch.c: tg show --sketch. */
int tool_show_sketch(const tool_args *a);

/* cmd_run.c: seconds of a launch here, on the data that tg run makes up, measured for a->seconds. 0: it could not be
 * measured, and stderr says why. */
double tool_time(const tool_args *a, const tool_program *p, tg_context *c);
uint32_t tool_threads(const tool_args *a);   /* of a launch: no more than there are cores */

/* run_cost.c: prints where the time of a kernel goes by the cost model (report), beside the time that a launch took,
 * and what the processor counted in `launches` of them (counted, NULL: nothing), a launch. */
typedef struct {
  const char *file;
  const tool_program *program;
  uint32_t threads;
  bool report;
  double seconds, launches;
  const struct counters *counted;
} tool_cost;
int tool_run_cost(tg_context *c, const tool_cost *asked);   /* an exit code */
/* The model's report, malloc'd, and its time; NULL: it has none, and tg_error_message says why. */
char *tool_cost_report(tg_context *c, const tool_cost *asked, double *seconds);
#endif
