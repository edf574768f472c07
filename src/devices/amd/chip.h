/* SPDX-License-Identifier: MIT
 * The chips that tg knows, by what the kernel says of them, and what its packets need to know of each. */
#ifndef TG_DEVICES_AMD_CHIP_H
#define TG_DEVICES_AMD_CHIP_H
#include <stdint.h>

/* How packets and caches differ: one row of src/devices/amd/caches.def each. */
typedef enum { TG_AMD_GFX9, TG_AMD_GFX10, TG_AMD_GFX11, TG_AMD_GFX12 } tg_amd_generation;

typedef struct {
  uint32_t family, from, to;      /* the kernel's family; external revisions from <= r < to */
  char name[12];                  /* LLVM's name of the processor; "": tg has no target for it */
  char target[12];                /* the row of targets whose choices fit */
  tg_amd_generation generation;
  uint32_t local_unit;            /* LOCAL is given out in multiples of this many bytes */
  const char *lacks;              /* why it is not launched on; NULL: it is */
} tg_amd_chip;

/* NULL: unknown. */
const tg_amd_chip *tg_amd_chip_of(uint32_t family, uint32_t external_revision);
#endif
