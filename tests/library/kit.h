/* SPDX-License-Identifier: MIT
 * What the tests of the library share: the programs on disk, and memory for their buffers. Run from the root of the source. */
#ifndef TG_LIBRARY_KIT_H
#define TG_LIBRARY_KIT_H
#include <stdbool.h>
#include "base/guard.h"
#include "dsl/text.h"
#include "compile/pipeline.h"
#include "generator/generator.h"

enum { KIT_BUFFERS = 16, KIT_BAND = 64, KIT_THREADS = 7 };   /* first choices depend on the threads: never on the host's */

typedef struct { char path[256]; char *text; } kit_program;

/* examples, tests/corpus, tests/ranges/accept and tests/polybench, sorted; malloc'd. */
kit_program *kit_programs(int *n);
kit_program *kit_programs_of(size_t folders, const char *const *folder, int *n);
void kit_programs_free(kit_program *p, int n);

/* The way from a text to a linear program, as tg_kernel_compile goes it. Inside tg_protect. */
typedef struct { tg_jit *jit; const tg_rules *rules; tg_job tables; tg_target target; } kit_path;
bool kit_path_open(kit_path *p, const char *target);   /* says on stderr why not */
void kit_path_close(kit_path *p);
void kit_lower(kit_path *p, tg_job *j, bool verify, tg_stage_fn *seen, void *user);   /* from the author's form */

/* Buffers of a program under these parameters, 64-aligned, with a band behind each that nobody may touch; or between
 * pages without access (kit_memory_guard). */
typedef struct {
  uint32_t n;
  void *data[KIT_BUFFERS];
  size_t bytes[KIT_BUFFERS];
  bool written[KIT_BUFFERS], read[KIT_BUFFERS];
  tg_type type[KIT_BUFFERS];
  const char *name[KIT_BUFFERS];
  tg_guarded guard[KIT_BUFFERS];
} kit_memory;
/* A small value that each parameter may have: the round-th. */
void kit_params(const tg_job *j, int round, int64_t *params);
/* The sizes of the text's call of that number, from 0 on: "// calls: M=5 K=64; M=17 K=96". False: it has fewer. Without
 * such a line there is one, of the sizes that params has. */
bool kit_call(const tg_job *j, const char *text, int call, int64_t *params);
bool kit_memory_make(tg_job *j, const int64_t *params, kit_memory *m);   /* small integers, within the promised ranges of indices */
/* A program on such a way, its memory, and what it is compiled to. */
typedef struct {
  kit_path path;
  tg_job job;
  const char *where, *text;
  const tg_binding *size;         /* of its sizes; NULL: as the text has them */
  uint32_t sizes;
  int64_t params[32];
  kit_memory memory;
  tg_object object;
  tg_code_info info;
} kit_code;
/* From path, where, text and sizes to the rest. False: job.env.message says why. The job is to be dropped either way. */
bool kit_compile(kit_code *c, tg_stage_fn *seen, void *user);
/* The same for the buffers of a scheduled program: operands that it takes packed are what the interpreter makes of their packing programs. Inside tg_protect. */
void kit_memory_pack(tg_job *j, const tg_uop *sink, const int64_t *params, kit_memory *m);
void kit_memory_copy(kit_memory *to, const kit_memory *from);
/* A copy in which each buffer lies between two pages without access, and begins directly behind the first of them
 * (front) or ends directly before the second. Whatever its size, it is aligned to its elements, which is all that a
 * launch asks for. What is only read cannot be written to. False: no memory. */
bool kit_memory_guard(kit_memory *to, const kit_memory *from, bool front);
/* Where an address lies that was not to be touched. Calls nothing that a handler of signals may not. */
void kit_memory_at(const kit_memory *m, const void *address, char *text, size_t n);
void kit_memory_free(kit_memory *m);
bool kit_bands_whole(const kit_memory *m);
/* Are results of that type equal bit for bit; or, where the program has fast functions, within what these may be off by
 * (a few of them one after the other: 2^-19; with fast_tanh 2^-10.8; of 16 bits 2^-10 or 2^-7 of the largest)? text: where
 * not. */
bool kit_same(const tg_job *j, tg_type type, size_t bytes, const void *got, const void *want, char text[256]);

const char *kit_find_ptxas(char *path, size_t n);          /* on PATH or in the CUDA toolkit; NULL: not installed */
/* What the errors of n results are measured by where these are sums and differences of terms as large as the largest
 * of them: tg_comparison.magnitude, to be freed. */
double *kit_scale(tg_type type, const void *data, size_t n);
bool kit_no_spills(const char *report, int *kernels);      /* of ptxas -v: no frame, no spills; counts the kernels */
long kit_resident(void);        /* KiB of this process's own memory, without pages of files such as LLVM's code */
void kit_remove(const char *folder);
#endif
