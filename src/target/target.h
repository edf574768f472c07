/* SPDX-License-Identifier: MIT
 * Targets as data: what a schedule and the passes may ask of a machine. Compiling never needs the device. */
#ifndef TG_TARGET_H
#define TG_TARGET_H
#include "base/base.h"

typedef enum { TG_ARCH_X86_64, TG_ARCH_AARCH64, TG_ARCH_NVPTX, TG_ARCH_AMDGPU, TG_ARCH_OPENCL } tg_arch;

/* How much of memory it pays to ask for ahead: some lines; none, the processor sees what comes next better than a
 * program; much, from each loop. */
typedef enum { TG_ASK_SOME, TG_ASK_NOTHING, TG_ASK_MUCH } tg_asking;

/* Elements from a lane to the next, at most, that are loaded and stored as vectors (src/jit/emit_steps.c): beyond,
 * most of what is read would be of no use, and lanes are gathered. */
enum { TG_MOST_STEP = 4 };

typedef struct tg_target {
  tg_arch arch;
  char name[32];              /* "x86-64-v4", "sm_90a", .. */
  char triple[64], cpu[64];
  char tune[32];              /* processor whose timings LLVM orders instructions by; "": cpu's own */
  char features[2048];        /* LLVM's text */
  uint64_t needs;             /* instructions that its code may use: a set of src/target/feature.def */
  char lacks[384];            /* why its code does not run on this machine; "": it does */
  /* what machine it is, as the processor itself says: part of the cache's key, needs no LLVM */
  char silicon[192];
  uint32_t vector_bytes;      /* widest SIMD register: 64 with AVX-512; of a GPU, one lane's register */
  uint32_t vector_registers;  /* 32 with AVX-512, 16 with AVX2; of a GPU, those a thread may have */
  uint32_t sve_bytes;         /* AArch64: a register of SVE has at least so many; 0: without SVE */
  uint32_t amd_family;        /* of x86-64: AMD's number of the family, 0: of another maker, or of any */
  uint32_t threads;           /* cores that this process may use; of a GPU, its cores (SM, CU) */
  uint32_t lanes;             /* of a warp or wave; 1 on a CPU */
  uint32_t max_threads;       /* of a workgroup; 1 on a CPU */
  uint32_t access_bytes;      /* the widest access of one thread to memory */
  uint64_t local_bytes;       /* LOCAL memory that a workgroup may have; 0: as much as wanted */
  uint64_t l1, l2, l3;        /* bytes; 0 unknown */
  /* global to LOCAL memory past the registers, 4, 8 or 16 bytes of each thread, waited for in groups (cp.async) */
  bool async_copy;
  bool fma, f16_arithmetic, f16_convert, bf16_convert, masked_access;
  bool dot_u8s8;              /* VPDPBUSD on 512 bits */
  bool dot_bf16;              /* VDPBF16PS on 512 bits */
  bool tile_i8;               /* products of tiles of bytes (AMX-INT8). Of the host: and this process may use them */
  bool prefer_i64_address;    /* scalar offsets in 64 bits */
  /* the widest vectors go through arithmetic, loads and stores in two halves: half as wide ones do as much in a
   * cycle */
  bool double_pumped;
  /* lanes that lie apart are loaded and stored one by one sooner than by a gather or a scatter */
  bool gathers_slowly;
  /* what is copied goes fastest in one sequence, not in several side by side: heuristics read it */
  bool one_stream;
  tg_asking asking;           /* likewise */
} tg_target;

/* Where the processor has tiles (AMX), Linux gives their registers to processes that ask: this asks, for the process
 * and those that it forks. A process whose alternate signal stack is too small for them is refused, and so is a
 * smaller stack afterwards; refused, the host is a target without tiles. So does asking for a target by name that
 * has some. */
void tg_target_host(tg_target *t, uint32_t threads /* 0: all */);
/* By name: "host", or one of those that tg_target_name lists, or another name of one ("icelake"); false if unknown.
 * Any machine compiles for any of them; lacks says whether it can run the code. */
bool tg_target_named(tg_target *t, const char *name);
/* The row of that name and nothing of this machine: lacks is "". */
bool tg_target_row(tg_target *t, const char *name);
/* What follows from needs, sve_bytes and amd_family. */
void tg_target_derive(tg_target *t);
const char *tg_target_name(uint32_t i);   /* NULL behind the last */

/* LLVM's name of the instruction that picks among so many words of 32 bits in a vector, or NULL. In the language:
 * d[l] = shuffle(v, l, i[l]), of floats by words. */
const char *tg_target_shuffle(const tg_target *t, uint32_t lanes);

/* A target of lanes in warps and workgroups: its programs are in device form (docs/ir.md). */
static inline bool tg_target_is_device(const tg_target *t) { return t->lanes > 1; }

/* Its code is text that the device's own driver compiles (src/source), not an object of LLVM's. Its programs are
 * those of a CPU whose vectors have one lane. */
static inline bool tg_target_is_source(const tg_target *t) { return t->arch == TG_ARCH_OPENCL; }

/* Code for it runs on this machine: the processor has the instructions, and the system saves the registers. */
static inline bool tg_target_runs_here(const tg_target *t) { return !t->lacks[0]; }
#endif
