/* SPDX-License-Identifier: MIT
 * The table of chips. Families and ranges of revisions: Mesa, src/amd/addrlib/src/amdgpu_asic_addr.h; names of
 * processors: LLVM, "User Guide for AMDGPU Backend", Processors. */
#include <stddef.h>
#include "base/base.h"
#include "devices/amd/chip.h"

/* docs/devices.md tells what is unproved. */
static const char xcc[] = "its compute rings each reach one of its dies (XCC) alone, which tg does not use";

static const tg_amd_chip chips[] = {
#define CHIP(...) {__VA_ARGS__},
#include "devices/amd/chips.def"
};

const tg_amd_chip *tg_amd_chip_of(uint32_t family, uint32_t revision) {
  for (uint32_t i = 0; i < TG_COUNT(chips); i++)
    if (chips[i].family == family && revision >= chips[i].from && revision < chips[i].to) return &chips[i];
  return NULL;
}
