/* SPDX-License-Identifier: MIT
 * The table of chips. Families and ranges of revisions: Mesa, src/amd/addrlib/src/amdgpu_asic_addr.h; names of
 * processors: LLVM, "User Guide for AMDGPU Backend", Processors. */
#include <stddef.h>
#include "base/base.h"
#include "devices/amd/chip.h"

/* docs/devices.md tells what is unproved. */
static const char xcc[] = "its compute rings each reach one of its dies (XCC) alone, which tg does not use";

static const tg_amd_chip chips[] = {
  {141, 0x3c, 0x46, "gfx90a", "gfx90a", TG_AMD_GFX9, 512, NULL},     /* Instinct MI210, MI250 */
  {141, 0x46, 0xff, "gfx942", "gfx942", TG_AMD_GFX9, 512, xcc},      /* Instinct MI300 */
  {143, 0x28, 0x32, "gfx1030", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* Radeon RX 6800, 6900 */
  {143, 0x32, 0x3c, "gfx1031", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* RX 6700 */
  {143, 0x3c, 0x46, "gfx1032", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* RX 6600 */
  {143, 0x46, 0x50, "gfx1034", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* RX 6400, 6500 */
  {144, 0x01, 0xff, "gfx1033", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* Van Gogh */
  {146, 0x01, 0xff, "gfx1035", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* Rembrandt */
  {149, 0x01, 0xff, "gfx1036", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* Raphael */
  {151, 0x01, 0xff, "gfx1036", "gfx1030", TG_AMD_GFX10, 512, NULL},  /* Mendocino */
  {145, 0x01, 0x10, "gfx1100", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* RX 7900 */
  {145, 0x10, 0x20, "gfx1102", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* RX 7600 */
  {145, 0x20, 0xff, "gfx1101", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* RX 7700, 7800 */
  {148, 0x01, 0xff, "gfx1103", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* Phoenix, Hawk Point */
  {150, 0x01, 0x40, "gfx1150", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* Strix */
  {150, 0x40, 0x50, "gfx1152", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* Krackan */
  {150, 0x50, 0xc0, "gfx1153", "gfx1100", TG_AMD_GFX11, 512, NULL},
  {150, 0xc0, 0xff, "gfx1151", "gfx1100", TG_AMD_GFX11, 512, NULL},  /* Strix Halo */
  {152, 0x40, 0x50, "gfx1200", "gfx1201", TG_AMD_GFX12, 512, NULL},  /* RX 9060 */
  {152, 0x50, 0xff, "gfx1201", "gfx1201", TG_AMD_GFX12, 512, NULL},  /* RX 9070 */
};

const tg_amd_chip *tg_amd_chip_of(uint32_t family, uint32_t revision) {
  for (uint32_t i = 0; i < TG_COUNT(chips); i++)
    if (chips[i].family == family && revision >= chips[i].from && revision < chips[i].to) return &chips[i];
  return NULL;
}
