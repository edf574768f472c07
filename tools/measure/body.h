/* SPDX-License-Identifier: MIT
 * Probes as loops of exact x86-64 instructions, whatever the compiler was told of the processor; those that run are
 * chosen by what the processor has and the system saves. A text finds the memory's address in rax and a float between 1
 * and 2 in all lanes of vector registers 13 and 14; the others below 16 are 0. It may change these, rax, rdx, rsi, rdi
 * and r8 to r15. The text is several dozen instructions long, so that counting and branching cost nothing beside it. */
#ifndef TG_MEASURE_BODY_H
#define TG_MEASURE_BODY_H
#include "measure/measure.h"
#if defined(__x86_64__)

#define LOWER "0,1,2,3,4,5,6,7"
#define MANY LOWER ",8,9,10,11"
/* The text with \r standing for each of the list in turn; the text n times. */
#define EACH(list, text) ".irp r," list "\n\t" text "\n\t.endr\n\t"
#define TIMES(n, text) ".rept " #n "\n\t" text "\n\t.endr\n\t"
#define THEN "\n\t"

#define BODY(name, V, text)                                                                                        \
  static void name(int64_t n, void *memory) {                                                                      \
    void *at = memory;                                                                                             \
    __asm__ volatile(EACH(MANY ",12,15", "vxorps %%xmm\\r, %%xmm\\r, %%xmm\\r") "vbroadcastss (%%rax), %%" V "13" THEN \
                     "vbroadcastss 4(%%rax), %%" V "14" THEN ".p2align 6\n9:\n\t" text "dec %%rcx" THEN "jnz 9b" THEN \
                     "vzeroupper"                                                                                  \
                     : "+c"(n), "+a"(at)                                                                           \
                     :                                                                                             \
                     : "memory", "cc", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",  \
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",    \
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                               \
  }
/* TEXT(V, S) for each width: V: the registers' name, S: their size. */
#define WIDTHS(name, TEXT)                    \
  BODY(name##_16, "xmm", TEXT("xmm", "16"))   \
  BODY(name##_32, "ymm", TEXT("ymm", "32"))   \
  BODY(name##_64, "zmm", TEXT("zmm", "64"))   \
  static measure_body *const name[TG_MACHINE_WIDTHS] = {name##_16, name##_32, name##_64};
#endif
#endif
