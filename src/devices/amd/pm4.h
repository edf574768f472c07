/* SPDX-License-Identifier: MIT
 * Streams of commands: PM4 packets for a compute ring, and packets for a copy engine (SDMA). Nothing here calls the
 * driver: a stream is words in memory, as the ring will read them. */
#ifndef TG_DEVICES_AMD_PM4_H
#define TG_DEVICES_AMD_PM4_H
#include <stdbool.h>
#include <stddef.h>
#include "devices/amd/chip.h"

/* Words at `at`, of which n are written. The caller sees to it that there is room. */
typedef struct { uint32_t *at; uint32_t n; tg_amd_generation generation; } tg_amd_stream;

/* One dispatch. */
typedef struct {
  uint64_t entry;                     /* address of the code, 256-aligned */
  uint64_t arguments;                 /* address of the kernel's arguments */
  uint32_t rsrc1, rsrc2, rsrc3;       /* of the kernel's descriptor */
  uint32_t local, local_unit;         /* bytes of LOCAL, and of the unit in which it is given out */
  uint32_t arguments_register;        /* the user register in which the address of the arguments begins */
  bool wave32;
  uint32_t groups[3], threads;
} tg_amd_dispatch;

enum {
  TG_AMD_BEGIN_WORDS = 32,            /* words of each at most */
  TG_AMD_BETWEEN_WORDS = 10,
  TG_AMD_DISPATCH_WORDS = 28,
  TG_AMD_END_WORDS = 8,
  TG_AMD_STAMP_WORDS = 8,
  TG_AMD_COPY_WORDS = 7,
  TG_AMD_PAD_WORDS = 8
};

/* The three orders of caches (caches.def). begin also sets the registers that are the same for all dispatches. */
void tg_amd_begin(tg_amd_stream *);
void tg_amd_between(tg_amd_stream *);
void tg_amd_end(tg_amd_stream *);
void tg_amd_dispatch_put(tg_amd_stream *, const tg_amd_dispatch *);
/* The clock to 8 bytes at the address, when all work before has finished. */
void tg_amd_stamp(tg_amd_stream *, uint64_t address);
/* No operations up to a multiple of 8 words. */
void tg_amd_pad(tg_amd_stream *);

/* For a copy engine. bytes: at most TG_AMD_COPY_MOST. */
enum { TG_AMD_COPY_MOST = 0x3fffe0 };
void tg_amd_copy(tg_amd_stream *, uint64_t to, uint64_t from, uint32_t bytes);
void tg_amd_copy_between(tg_amd_stream *);   /* the next copy begins when those before have ended */
void tg_amd_copy_stamp(tg_amd_stream *, uint64_t address);
void tg_amd_copy_pad(tg_amd_stream *);
#endif
