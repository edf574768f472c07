/* SPDX-License-Identifier: MIT
 * A processor as data, as CPUID or the auxiliary vector describes it, and what follows from that: its instruction
 * sets, its name in the cache key, the target "host". Tests fill the struct by hand to play other processors. */
#ifndef TG_TARGET_PROCESSOR_H
#define TG_TARGET_PROCESSOR_H
#include "target/target.h"

enum {
  TG_CPUID_1_C,
  TG_CPUID_1_D,
  TG_CPUID_7_B,
  TG_CPUID_7_C,
  TG_CPUID_7_D,
  TG_CPUID_71_A,
  TG_CPUID_EXT_C,
  TG_CPUID_EXT_D,
  TG_CPUID_WORDS
};
enum { TG_STATE_AVX = 6, TG_STATE_AVX512 = 0xe6, TG_STATE_TILES = 3 << 17, TG_PROCESSOR_KINDS = 4 };

typedef struct tg_processor {
  tg_arch arch;
  /* x86-64 */
  char maker[16];                   /* "AuthenticAMD" */
  uint32_t model;                   /* stepping, model and family: CPUID 1, EAX */
  uint32_t word[TG_CPUID_WORDS];
  uint64_t state;                   /* XCR0: register state that the system saves */
  bool tiles;                       /* this process may use AMX tiles */
  /* AArch64 */
  uint64_t midr[TG_PROCESSOR_KINDS];   /* MIDR_EL1 (implementer, part, revision) of each kind of core (big, LITTLE) */
  uint32_t kinds;
  uint64_t hwcap[2];                /* HWCAP, HWCAP2: features that all cores have */
  uint32_t sve_bytes;               /* size of an SVE register in this process */
} tg_processor;

/* Bit numbers of features in a set; those of x86-64 and of AArch64 both count from 0. */
enum {
#define X86(id, name, word, bit, state) TG_X86_##id,
#define ARM(id, name, word, bit)
#include "target/feature.def"
#undef X86
#undef ARM
  TG_X86_FEATURES
};
enum {
#define X86(id, name, word, bit, state)
#define ARM(id, name, word, bit) TG_ARM_##id,
#include "target/feature.def"
#undef X86
#undef ARM
  TG_ARM_FEATURES
};

/* A row of feature.def. name: LLVM's. state: bits of XCR0 that the system must have enabled (x86-64). */
typedef struct tg_feature { const char *name; uint8_t word, bit; uint32_t state; } tg_feature;
/* NULL after the last. */
const tg_feature *tg_feature_at(tg_arch arch, uint32_t i);

/* Describes the processor that this runs on. ask: request permission for AMX tiles from the system (see
 * tg_target_host for the consequences). */
void tg_processor_read(tg_processor *p, bool ask);
/* The features of feature.def that the processor has and the system supports. */
uint64_t tg_processor_features(const tg_processor *p);
/* The target "host" on that processor, without cache sizes and the number of cores. */
void tg_target_of(tg_target *t, const tg_processor *p);
/* The nearest row of machines.def: of that width of vectors rather than another, then of that maker
 * ("GenuineIntel"). */
const tg_machine *tg_machine_nearest(tg_arch arch, uint32_t vector_bytes, const char *maker);
/* Its maker, family and model as machines.def writes them. */
void tg_processor_number(const tg_processor *p, const char **maker, uint32_t *family, uint32_t *model);
/* The row of machines.def for the processor; of one that the tree does not know, the nearest. vector_bytes: the
 * width of the vectors that code for it has. */
const tg_machine *tg_machine_of(const tg_processor *p, uint32_t vector_bytes);
/* Sets t->lacks: why code for t cannot run on that processor; "": it can. */
void tg_target_judge(tg_target *t, const tg_processor *p);
#endif
