/* SPDX-License-Identifier: MIT
 * Programs: several launches as one. A program is a list of launches of kernels, products, attention and operations on
 * rows (nn.h), recorded once, with the temporary memory between them. tg finds out which step depends on which, lets
 * temporaries that do not live at the same time share memory, and runs everything as one launch: on the CPU's threads,
 * or as one graph on a device.
 *
 *   tg_program *p;
 *   tg_program_begin(context, &(tg_program_options){.threads = -1}, &p);
 *   float *x, *h, *y;                                   addresses that stand for memory; nothing may be read there
 *   tg_program_argument(p, "x", x_bytes, (void **)&x);   given at each run
 *   tg_program_argument(p, "y", y_bytes, (void **)&y);
 *   tg_program_temporary(p, "h", h_bytes, (void **)&h);  the program's own
 *   tg_program_launch(p, scale, &(tg_launch){.buffers = (tg_argument[]){{x, x_bytes}, {h, h_bytes}}, .buffers_n = 2});
 *   tg_gemm_put(p, gemm, &(tg_gemm_call){.m = m, .a = h, .b = weights, .c = y});     gemm.h; attention.h, nn.h likewise
 *   if (tg_program_end(p)) puts(tg_error_message(context));
 *
 *   tg_argument arguments[] = {{mine, x_bytes}, {out, y_bytes}};
 *   tg_program_run(p, &(tg_program_call){.arguments = arguments, .arguments_n = 2});
 *   tg_program_free(p);                                  before its kernels and plans
 *
 * Results have the bits of the same launches one after another. Steps take effect in the order in which they were put;
 * those that share no memory that one of them writes may run at the same time. Addresses inside of an argument or
 * a temporary (h + 100) stand for that part of it. Any other address is memory of the caller's, such as weights: it is
 * used at each run, and must stay until tg_program_free. Sizes, strides and parameters are those of the recording:
 * a program is for one set of them.
 *
 * Each step is checked as it is put, as a launch would be; a run checks its arguments alone, before anything is
 * written. A finished program is immutable; on the CPU any number of threads may run it at a time. */
#ifndef TG_PROGRAM_H
#define TG_PROGRAM_H
#include "tg/device.h"
#include "tg/exec.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_program tg_program;

typedef struct tg_program_options {   /* zero means default; fields are only ever appended */
  tg_device *device;          /* on which all steps run. NULL: the host's CPU */
  /* the most threads that a run uses. 0 or 1: only the calling thread; n: at most n of the context's pool, or n tasks
   * of a parallel_for; -1: the whole pool */
  int32_t threads;
  /* TG_PROGRAM_.. (of 64 bits: older programs have padding in front of it, which may hold anything) */
  uint64_t flags;
} tg_program_options;

enum {                        /* tg_program_options.flags */
  /* Steps stay apart. Else, on the CPU and with a context that compiles, tg_program_end makes one kernel of two
   * launches where that is found to be faster and has the same bits, so that a temporary between them is gone
   * (docs/programs.md says which) */
  TG_PROGRAM_SEPARATE = 1
};

/* Begins a program, which takes memory and steps until tg_program_end. options may be NULL. */
TG_API tg_status tg_program_begin_sized(tg_context *, const tg_program_options *options, size_t options_bytes,
                                        tg_program **out);
static inline tg_status tg_program_begin(tg_context *context, const tg_program_options *options, tg_program **out) {
  return tg_program_begin_sized(context, options, sizeof *options, out);
}

/* Memory that each run is given: arguments are numbered from 0 in the order of these calls. *out: the address that
 * stands for it until tg_program_end, aligned to a page. name is for messages. */
TG_API tg_status tg_program_argument(tg_program *, const char *name, size_t bytes, void **out);
/* Memory that holds values between steps of one run. A step must have written to it before one reads it. */
TG_API tg_status tg_program_temporary(tg_program *, const char *name, size_t bytes, void **out);

/* Puts a launch. Of the launch buffers and parameters are used. TG_EINVAL: as for tg_kernel_run; the kernel is another
 * device's; a step reads a temporary that nothing has written; or memory reaches over the end of an argument or
 * a temporary. A step that failed is not part of the program. */
TG_API tg_status tg_program_launch_sized(tg_program *, tg_kernel *, const tg_launch *, size_t launch_bytes);
static inline tg_status tg_program_launch(tg_program *program, tg_kernel *kernel, const tg_launch *launch) {
  return tg_program_launch_sized(program, kernel, launch, sizeof *launch);
}

/* Plans the memory. On a device, also allocates it. On the CPU it may compile kernels that do the work of several
 * steps: some ten milliseconds for each that differs. */
TG_API tg_status tg_program_end(tg_program *);

typedef struct tg_program_info {
  uint32_t steps, arguments, temporaries;
  /* groups of steps that run one after another; steps of one group do not depend on each other, and on the CPU run at
   * the same time if they are kernels of one phase */
  uint32_t groups;
  size_t temporary_bytes;     /* of all temporaries */
  size_t live_bytes;          /* the most that live at the same time: from the first group that uses one to the last */
  size_t planned_bytes;       /* that the temporaries take together */
  size_t scratch_bytes;       /* of working memory that steps need while they run, beside it; CPU only */
  size_t workspace;           /* bytes of tg_program_call.workspace; 0 on a device */
  uint32_t fused;             /* of the steps put: how many have become part of another */
} tg_program_info;
TG_API tg_status tg_program_describe_sized(const tg_program *, tg_program_info *out, size_t info_bytes);
static inline tg_status tg_program_describe(const tg_program *program, tg_program_info *out) {
  return tg_program_describe_sized(program, out, sizeof *out);
}

typedef struct tg_program_call {      /* zero means default; fields are only ever appended */
  const tg_argument *arguments;       /* in order of definition; on a device: memory of the device */
  uint32_t arguments_n;
  /* tg_program_info.workspace bytes of the caller's, aligned to 64: then a run on the CPU allocates nothing and takes
   * no lock. NULL: tg allocates. On a device it must be NULL */
  void *workspace;
  size_t workspace_bytes;
  const tg_exec *exec;                /* the caller's threads, CPU only. NULL: the context's pool */
  /* Only on a device: the queue on which the program is put, without waiting for its end. NULL: the device's default
   * queue, and the call waits. A run begins when the program's earlier one has ended */
  tg_queue *queue;
} tg_program_call;

/* Runs all steps. TG_EINVAL: an argument is missing, too small or not aligned to its elements; or one that is written
 * overlaps another argument or memory that the program uses. Then nothing was written. */
TG_API tg_status tg_program_run_sized(tg_program *, const tg_program_call *, size_t call_bytes);
static inline tg_status tg_program_run(tg_program *program, const tg_program_call *call) {
  return tg_program_run_sized(program, call, sizeof *call);
}
TG_API void tg_program_free(tg_program *);   /* after its last run has ended. NULL: does nothing */

#ifdef __cplusplus
}
#endif
#endif
