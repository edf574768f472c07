/* SPDX-License-Identifier: MIT
 * A processor as it tells itself, as data: what of a row's instructions it has, its name in the cache's key, and the
 * target "host" that it makes. Tests write such words by hand. */
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
  uint64_t state;                   /* that the system saves: XCR0 */
  bool tiles;                       /* and this process may use those of AMX */
  /* AArch64 */
  uint64_t midr[TG_PROCESSOR_KINDS];   /* implementer, part, revision: of each kind of core (big and small ones) */
  uint32_t kinds;
  uint64_t hwcap[2];                /* of the auxiliary vector; the system tells what all cores have */
  uint32_t sve_bytes;               /* a register of SVE, for this process */
} tg_processor;

/* Where a feature stands in the sets: of x86-64 and of AArch64, each counted from 0. */
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

/* LLVM's name of a feature; NULL behind the last. */
const char *tg_feature_name(tg_arch arch, uint32_t i);

/* The processor that this runs on. ask: for the use of tiles, of the system, which then is given to the process
 * (tg_target_host tells what it costs). */
void tg_processor_read(tg_processor *p, bool ask);
/* What of the table it has, and the system lets be used. */
uint64_t tg_processor_features(const tg_processor *p);
/* The target "host" there, but for caches and cores. */
void tg_target_of(tg_target *t, const tg_processor *p);
/* Sets t->lacks: why code for t does not run there, or "". */
void tg_target_judge(tg_target *t, const tg_processor *p);
#endif
