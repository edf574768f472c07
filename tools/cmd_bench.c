/* SPDX-License-Identifier: MIT
 * tg bench: picks the benchmark. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/device.h"

static int bench_kernels(tg_context *ctx, const tool_args *a) {
  if (a->sweep) return bench_choices(ctx, a);
  if (a->plot) tool_figure_heard = bench_plot_note;
  int r = a->cases && !strstr("matmul", a->cases) ? TOOL_OK : bench_matmul(ctx, a, 1024);
  if (r == TOOL_OK && (!a->cases || strstr("microkernel", a->cases))) r = bench_microkernel(ctx, a);
  if (r == TOOL_OK && (!a->cases || strstr("sgemm_packed", a->cases))) r = bench_sgemm_packed(ctx, a, 2048, 2048, 2048);
  if (r == TOOL_OK && a->cases && strstr("sgemm_packed", a->cases)) r = bench_sgemm_packed(ctx, a, 1023, 1025, 1021);
  int s = bench_streams(ctx, a);
  r = s > r ? s : r;
  s = bench_runtime(ctx, a);
  r = s > r ? s : r;
  if (a->plot && r == TOOL_OK) r = bench_plot(ctx, a->plot);
  return r;
}

/* One of them in a row: with a context of its own, or none; options beside those of all; what it measures, by lines. */
static const struct {
  const char *name;
  int (*run)(tg_context *, const tool_args *);
  int (*alone)(const tool_args *);
  const char *options, *what;
} benches[] = {
    {"lower", bench_lower, NULL, "",
     "from the author's C to LLVM IR, to callable code, and from the object cache, for one matmul\n"},
    {"kernels", bench_kernels, NULL, " [--plot FILE.svg] [--sweep FOLDER]",
     "matmul, sgemm_packed and microkernel against this machine's FMA peak and OpenBLAS; copy, axpy, sum, softmax,\n"
     "layernorm against plain C; *_runtime: sizes known at launch only against the same sizes as constants.\n"
     "--plot: the ratios as a picture, with the machine (docs/results.svg)\n"
     "--sweep: instead the first choice of each text of a folder (tests/bench/kernels) against the best of the words "
     "kept beside it, and plain C\n"},
    {"launch", bench_launch, NULL, "", "what it costs to start a kernel of one element\n"},
    {"start", NULL, bench_start, "",
     "from the start of a process to its first product, kernels and tuned choices on file among 1,000 of each, nothing "
     "compiled:\n"
     "programs with libtg.a alone, with libtg_jit.so.0, with libtg_jit.a, and without tg\n"},
    {"gemm", NULL, bench_gemm,
     " [--vs NAME[=FILE],..] [--shapes FILE] [--types f32,f64,f16,bf16,bf16flush,u8i8,i8i8] [--threads N] [--expect "
     "FILE [--update]] [--tuned DIR] [--cache DIR]",
     "products of a list of shapes (tests/bench/gemm/shapes.txt) against openblas, blis, onednn, mkl, libxsmm: those "
     "of --vs, or all that\n"
     "are installed, each at its best entry point. --expect: parts of the machine's best that peers must come near to, "
     "or the case is void.\n"
     "--tuned: with the choices that tg tune gemm --shapes left there\n"},
    {"attention", NULL, bench_attention,
     " [--backward] [--vs NAME[=FILE],..] [--shapes FILE] [--tuned DIR] [--cache DIR]",
     "prefill and decode of a list of shapes (tests/bench/attention/shapes.txt) against torch, onnxruntime, onednn, "
     "ggml and the unfused path\n"
     "over a BLAS: those of --vs, or all that are installed, each at its best entry point. FILE: of torch and "
     "onnxruntime the Python that has it,\n"
     "of ggml the folder of its libraries. Variants against the plain operation, what a call costs, the memory it "
     "takes. --tuned: with the choices\n"
     "that tg tune attention left there. --backward: gradients of the prefills instead, against torch\n"},
    {"nn", NULL, bench_nn, " [--vs torch=PYTHON] [--cache DIR]",
     "the small operations of tg/nn.h on rows of 100 to 50,257, one and two threads, against PyTorch, where that "
     "Python (python3) has it\n"},
    {"engine", NULL, bench_engine, " [--cache DIR]",
     "what engines use of tg/gemm.h: an epilogue against a pass behind the product, one plan for any number of rows, "
     "one packing, strides, long\n"
     "sums on two threads, many small products, weights of 4 bits against the bytes they are, each against the plain "
     "way, with the bar that it\n"
     "has to reach\n"},
    {"tune", NULL, bench_tune,
     " --sweep DIR [--stage lower|model|build|time|first|tune|generated|report] [--shapes FILE] [--candidates N] "
     "[--seed N] ..",
     "sweeps of the spaces of products (tests/bench/gemm/sweep.txt), kept in files of DIR: how good the search, its "
     "cost model and the\n"
     "first choice are (the latter with --shapes tests/bench/gemm/random.txt --stage first)\n"},
    {"model", NULL, bench_model,
     " --sweep FILE [--target ROW] [--knobs] [--shapes FILE] [--types f32] [--candidates N] [--seed N] "
     "[--stage build|again|first|confirm|columns] [--workers N] [--cache DIR]",
     "the points of FILE (tests/bench/model) priced by the cost model, for the machine of ROW, against the times that "
     "they took; with --seed\n"
     "new points of the shapes that FILE lacks are timed on this machine, and appended (--stage build: compiled into "
     "DIR alone, so that\n"
     "recording them takes less); --stage again: all points of FILE timed anew, and printed as they are recorded;\n"
     "--stage first: what plans choose is timed where it was not recorded, and appended; --stage confirm: it is timed "
     "in turns\n"
     "with the eight best recorded points of its product;\n"
     "--stage columns: which columns of the row change the model's first of a set, or what a text of "
     "tests/bench/kernels\n"
     "or of PolyBench becomes, when they are moved by a fifth and by a factor of two, by N processes (1)\n"},
    {"polybench", bench_polybench, NULL, "",
     "the 30 kernels of PolyBench at MEDIUM on one core against plain C, with and without -ffast-math\n"},
};
enum { BENCHES = sizeof benches / sizeof *benches };

const char *tool_benches(void) {
  static char list[256];
  list[0] = 0;
  for (int i = 0; i < BENCHES; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? "|" : "", benches[i].name);
  return list;
}

static void write_usage(FILE *to) {
  fprintf(to, "tg bench %s [--json] [--seconds N] [--case TEXT]\n", tool_benches());
  for (int i = 0; i < BENCHES; i++)
    if (*benches[i].options) fprintf(to, "tg bench %s%s\n", benches[i].name, benches[i].options);
  fputs("tg bench gemm|attention|kernels --device NAME [--shapes FILE] [--types f32,..] [--tuned DIR] [--cache DIR]\n"
        "tg bench gemm --device cuda:0 --vs cublas[=FILE]\n",
        to);
  for (int i = 0; i < BENCHES; i++) {
    fprintf(to, "%s  %-10s", i ? "" : "\n", benches[i].name);
    for (const char *c = benches[i].what; *c; c++) fprintf(to, *c == '\n' && c[1] ? "%c            " : "%c", *c);
  }
  fputs("\nContestants take turns in one run on the same buffers; medians are printed. --json: one object a line with\n"
        "bench, case, metric, value, unit and, for a ratio, of. --seconds: about how long each case runs. --case: "
        "those that contain TEXT. --device: on one that tg devices lists (opencl:0), alone, by its clock.\n",
        to);
}

int cmd_bench(int argc, char **argv) {
  tool_args a;
  char *usage = NULL;
  size_t bytes;
  FILE *text = open_memstream(&usage, &bytes);
  if (!text) return TOOL_BROKEN;
  write_usage(text);
  fclose(text);
  bool known = tool_parse(argc, argv, &a, usage);
  if (known && a.help) fputs(usage, stdout);
  free(usage);
  if (!known) return TOOL_USAGE;
  if (a.help) return TOOL_OK;
  if (!a.file)
    return fprintf(stderr, "tg bench: which one is missing: %s; tg bench --help tells more\n", tool_benches()),
           TOOL_USAGE;
  int i = 0;
  while (i < BENCHES && strcmp(a.file, benches[i].name)) i++;
  if (i == BENCHES) {
    fprintf(stderr, "tg bench: no '%s'; there are %s\n", a.file, tool_benches());
    return TOOL_USAGE;
  }
  setenv("TG_TUNED", "", 0);   /* figures are of what anybody gets: choices that were tuned only where it is said */
  if (a.device) return bench_on_device(&a);
  if (benches[i].alone) return benches[i].alone(&a);
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) {
    fprintf(stderr, "tg: no context: %s\n", ctx ? tg_error_message(ctx) : "out of memory");
    return TOOL_BROKEN;
  }
  int r = benches[i].run(ctx, &a);
  tg_context_free(ctx);
  return r;
}
