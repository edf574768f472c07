/* SPDX-License-Identifier: MIT
 * Targets as data: all that the schedule and the passes know about a machine. Compiling for a target needs no such
 * machine. */
#ifndef TG_TARGET_H
#define TG_TARGET_H
#include <string.h>
#include "target/machine.h"

typedef enum { TG_ARCH_X86_64, TG_ARCH_AARCH64, TG_ARCH_NVPTX, TG_ARCH_AMDGPU, TG_ARCH_OPENCL } tg_arch;

/* Largest stride between lanes, in elements, at which lanes are picked out of whole vectors (src/jit/emit_steps.c).
 * With a larger stride most of each vector would be unused, so the lanes are gathered. */
enum { TG_MOST_STEP = 4 };

typedef struct tg_target {
  tg_arch arch;
  char name[32];              /* "x86-64-v4", "sm_90a", .. */
  char triple[64], cpu[64];   /* as LLVM names them; cpu "": not filled in yet */
  char tune[32];              /* LLVM's name of the processor to tune for; "": cpu */
  char features[2048];        /* LLVM's feature string */
  uint64_t needs;             /* instruction sets that its code may use, as bits numbered by src/target/feature.def */
  char lacks[384];            /* why its code cannot run on this machine; "": it can */
  /* identification read from the processor itself (model, features): part of the cache key, needs no LLVM */
  char silicon[192];
  uint32_t vector_bytes;      /* widest SIMD register: 64 with AVX-512; GPU: one lane's register */
  uint32_t vector_registers;  /* 32 with AVX-512, 16 with AVX2; GPU: the most that a thread may have */
  uint32_t sve_bytes;         /* AArch64: minimum size of an SVE register in bytes; 0: no SVE */
  uint32_t threads;           /* cores that this process may use; GPU: its cores (SM, CU) */
  uint32_t lanes;             /* per warp or wave; 1 on a CPU */
  uint32_t max_threads;       /* per workgroup; 1 on a CPU */
  uint32_t access_bytes;      /* widest memory access of one thread */
  uint64_t local_bytes;       /* limit of LOCAL memory per workgroup; 0: no limit */
  /* GPU, of one core: 32-bit registers; multiplications and additions of 16-bit elements that its matrix instructions
   * do in a cycle; bytes that it is given from outside in a cycle. 0: unknown */
  uint32_t core_registers, matrix_macs, core_bytes;
  /* GPU: multiplications and additions of f32 that a core does in a cycle without these instructions; its boost clock
   * in MHz; nanoseconds from the end of a launch to the work of the next one behind it. 0: unknown */
  uint32_t core_macs, clock, launch_ns;
  /* GPU: instructions of warps that a core issues in a cycle: its schedulers, or SIMDs; 0: unknown */
  uint32_t core_issue;
  uint64_t l1, l2, l3;        /* cache sizes in bytes; 0: unknown */
  tg_machine machine;         /* CPU: what its operations cost; read by the cost model and by heuristics only */
  /* can copy from global to LOCAL memory asynchronously, bypassing registers: 4, 8 or 16 bytes per thread, waited for
   * in groups (cp.async) */
  bool async_copy;
  /* GPU: an instruction with three operands may have 32 bits in it as one of them */
  bool wide_constants;
  bool loads_matrices;        /* a warp loads 8 x 8 matrices of 16-bit elements from LOCAL together (ldmatrix) */
  bool fma, f16_arithmetic, f16_convert, bf16_convert;
  /* bytes of the smallest elements that an instruction loads by a mask of lanes; 0: there is none */
  uint32_t masked_least;
  /* multiply-adds of vectors of this size take one lane of a vector as a factor (FMLA by element); 0: none do */
  uint32_t lane_bytes;
  bool dot_u8s8;              /* VPDPBUSD on 512 bits */
  bool dot_bf16;              /* VDPBF16PS on 512 bits */
  bool tile_i8;               /* AMX-INT8; on the host, also that the system lets this process use it */
  bool prefer_i64_address;    /* compute scalar offsets in 64 bits, not 32 */
  /* strided lanes are faster as scalar loads and stores than as a gather or scatter */
  bool gathers_slowly;
  /* copies run fastest as one sequential stream (AMD); false: as several interleaved streams (Intel). Read by
   * heuristics only */
  bool one_stream;
} tg_target;

/* Has it instructions for fast_exp2, fast_rcp, fast_rsqrt, and for what fast_tanh is made of? */
static inline bool tg_fast_functions(const tg_target *t) {
  return t->arch == TG_ARCH_NVPTX || t->arch == TG_ARCH_AMDGPU;
}

/* The target "host". If the processor has AMX, this requests permission for its tile registers from Linux, for this
 * process and its future children. Linux refuses if the alternate signal stack is too small to save them (and later
 * refuses to make it smaller); the host is then a target without tiles. tg_target_named does the same for a target
 * that has tiles. */
void tg_target_host(tg_target *t, uint32_t threads /* 0: all */);
/* By name: "host", a name that tg_target_name lists, or an alias of one ("icelake"); false if unknown. Any machine can
 * compile for any target; t->lacks says whether this one can run the code. */
bool tg_target_named(tg_target *t, const char *name);
/* The table's row of that name, without looking at this machine: t->lacks is "". */
bool tg_target_row(tg_target *t, const char *name);
/* Sets the fields that follow from needs and sve_bytes, and those that follow from the machine. */
void tg_target_derive(tg_target *t);
const char *tg_target_name(uint32_t i);   /* NULL after the last */
/* The name of the newest row whose code a chip of NVIDIA's runs, of compute capability major.minor, with a driver of
 * this version of CUDA (times 1000, plus ten times its minor number); NULL: there is none. */
const char *tg_target_of_nvidia(uint32_t major, uint32_t minor, uint32_t driver);

/* LLVM's name of the instruction that permutes a vector of `lanes` 32-bit elements by a vector of indices, or NULL.
 * In the language: d[l] = shuffle(v, l, i[l]), with floats v and 32-bit indices i. */
const char *tg_target_shuffle(const tg_target *t, uint32_t lanes);
/* Does an instruction give the greater and the less of two floats, NaN if one is NaN, and +0 above -0? */
static inline bool tg_target_has_extremum(const tg_target *t) { return t->arch != TG_ARCH_X86_64; }
/* LLVM's name of the instruction that gives the greater (5) or the less (4) of two vectors of floats of so many bits,
 * +0 above -0, or NULL: (a, b, 4 or 5, what masked lanes have, mask, rounding). Of a NaN and a number it gives the
 * number. */
const char *tg_target_extremum(const tg_target *t, uint32_t bits, uint32_t lanes);

/* Is it a GPU with warps and workgroups? Its programs are then in device form (docs/ir.md). */
static inline bool tg_target_is_device(const tg_target *t) { return t->lanes > 1; }

/* Is its code source text that the device's driver compiles (src/source), instead of an object from LLVM? Its programs
 * have the form of a CPU's whose vectors have one lane. */
static inline bool tg_target_is_source(const tg_target *t) { return t->arch == TG_ARCH_OPENCL; }

/* GPU: may a load of global memory of whatever width begin at any element? */
static inline bool tg_target_loads_anywhere(const tg_target *t) { return t->arch == TG_ARCH_AMDGPU; }

/* Does a device of that kind take SPIR-V, too? Then its code is that, if LLVM can write it. */
static inline bool tg_target_takes_spirv(const tg_target *t) {
  return tg_target_is_source(t) && strstr(t->features, "spirv");
}

/* Can this machine run its code? The processor must have the instructions, and the system must save the registers. */
/* Does an instruction load elements of this size by a mask of lanes? */
static inline bool tg_target_masks(const tg_target *t, uint32_t bytes) {
  return t->masked_least && bytes >= t->masked_least;
}
static inline bool tg_target_runs_here(const tg_target *t) { return !t->lacks[0]; }
/* Bytes of the last cache that a core finds again: of L3 what other cores leave. */
static inline double tg_target_kept(const tg_target *t) {
  double part = t->machine.l3_kept > 0 ? t->machine.l3_kept : 1;
  return (t->l3 ? (double)t->l3 : 8 << 20) * part;
}
#endif
