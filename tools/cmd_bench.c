/* SPDX-License-Identifier: MIT
 * tg bench: picks the benchmark. */
#include <stdio.h>
#include <string.h>
#include "bench/bench.h"

static const char usage[] =
  "tg bench lower|kernels|launch|start|polybench [--json] [--seconds N] [--case TEXT]\n"
  "tg bench engine [--json] [--seconds N] [--case TEXT] [--cache DIR]\n"
  "tg bench tune --sweep DIR [--stage lower|model|build|time|first|tune|generated|report] [--shapes FILE] [--candidates N] [--seed N] ..\n"
  "tg bench gemm [--vs NAME[=FILE],..] [--shapes FILE] [--types f32,f64,f16,bf16,bf16flush,u8i8,i8i8] [--threads N] [--expect FILE [--update]] [--tuned DIR] [--cache DIR] ..\n"
  "\n"
  "  lower     from the author's C to LLVM IR, to callable code, and from the object cache, for one matmul\n"
  "  kernels   matmul, sgemm_packed, microkernel and attention against this machine's FMA peak, OpenBLAS and plain C; copy, axpy, sum, softmax,\n"
  "            layernorm against plain C; *_runtime: sizes known at launch only against the same sizes as constants\n"
  "  launch    what it costs to start a kernel of one element\n"
  "  start     from the start of a process to its first product, kernels and tuned choices on file among 1,000 of each, nothing compiled:\n"
  "            programs with libtg.a alone, with libtg_jit.a, and without tg\n"
  "  gemm      products of a list of shapes (tests/bench/gemm/shapes.txt) against openblas, blis, onednn, mkl, libxsmm: those of --vs, or all that\n"
  "            are installed, each at its best entry point. --expect: parts of the machine's best that peers must come near to, or the case is void. --tuned: with the choices\n"
  "            that tg tune gemm --shapes left there\n"
  "  engine    what engines use of tg/gemm.h: an epilogue against a pass behind the product, one plan for any number of rows, one packing, strides, long\n"
  "            sums on two threads, many small products, weights of 4 bits against the bytes they are, each against the plain way, with the bar that it has to reach\n"
  "  tune      sweeps of the spaces of products (tests/bench/gemm/sweep.txt), kept in files of DIR: how good the search, its cost model and the\n"
  "            first choice are (the latter with --shapes tests/bench/gemm/random.txt --stage first)\n"
  "  polybench the 30 kernels of PolyBench at MEDIUM on one core against plain C, with and without -ffast-math\n"
  "\n"
  "Contestants take turns in one run on the same buffers; medians are printed. --json: one object a line with\n"
  "bench, case, metric, value, unit and, for a ratio, of. --seconds: about how long each case runs. --case: those that contain TEXT.\n";

int cmd_bench(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  if (!strcmp(a.file, "gemm")) return bench_gemm(&a);
  if (!strcmp(a.file, "engine")) return bench_engine(&a);
  if (!strcmp(a.file, "start")) return bench_start(&a);
  if (!strcmp(a.file, "tune")) return bench_tune(&a);
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) {
    fprintf(stderr, "tg: no context: %s\n", ctx ? tg_error_message(ctx) : "out of memory");
    return TOOL_BROKEN;
  }
  int r = TOOL_USAGE;
  if (!strcmp(a.file, "lower")) r = bench_lower(ctx, &a);
  else if (!strcmp(a.file, "launch")) r = bench_launch(ctx, &a);
  else if (!strcmp(a.file, "polybench")) r = bench_polybench(ctx, &a);
  else if (!strcmp(a.file, "kernels")) {
    r = a.cases && !strstr("matmul", a.cases) ? TOOL_OK : bench_matmul(ctx, &a, 1024);
    if (r == TOOL_OK && (!a.cases || strstr("microkernel", a.cases))) r = bench_microkernel(ctx, &a);
    if (r == TOOL_OK && (!a.cases || strstr("sgemm_packed", a.cases))) r = bench_sgemm_packed(ctx, &a, 2048, 2048, 2048);
    if (r == TOOL_OK && a.cases && strstr("sgemm_packed", a.cases)) r = bench_sgemm_packed(ctx, &a, 1023, 1025, 1021);
    int s = a.cases && !strstr("attention", a.cases) ? TOOL_OK : bench_attention(ctx, &a);
    r = s > r ? s : r;
    s = bench_streams(ctx, &a);
    r = s > r ? s : r;
    s = bench_runtime(ctx, &a);
    r = s > r ? s : r;
  } else fprintf(stderr, "tg bench: no '%s'; there are lower, kernels, launch, start, gemm, engine, tune and polybench\n", a.file);
  tg_context_free(ctx);
  return r;
}
