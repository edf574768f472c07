/* SPDX-License-Identifier: MIT
 * What is used of libdrm_amdgpu.so.1, the library over the interface of Linux's amdgpu driver, and of libdrm.so.2
 * below it. Opened at run time; nothing is linked, and no header of theirs is needed. Names and layouts are those of
 * amdgpu.h, amdgpu_drm.h and xf86drm.h. */
#ifndef TG_DEVICES_AMD_DRM_H
#define TG_DEVICES_AMD_DRM_H
#include <stdbool.h>
#include <stdint.h>

typedef void *tg_drm_handle;

enum { TG_DRM_GTT = 2, TG_DRM_VRAM = 4 };                       /* heaps: memory of the host, memory of the card */
enum {                                                          /* flags of an allocation */
  TG_DRM_NO_CPU_ACCESS = 1 << 1,
  TG_DRM_WRITE_COMBINED = 1 << 2,
  TG_DRM_ALWAYS_VALID = 1 << 6                                  /* resident for each submission, without being listed */
};
enum { TG_DRM_MAP = 1, TG_DRM_UNMAP = 2, TG_DRM_RANGE_HIGH = 2, TG_DRM_PAGES = 7 << 1 /* read, write, execute */ };
enum { TG_DRM_COMPUTE = 1, TG_DRM_DMA = 2 };                    /* kinds of rings */
enum { TG_DRM_CHUNK_IB = 1, TG_DRM_CHUNK_WAIT = 8, TG_DRM_CHUNK_SIGNAL = 9 };
enum { TG_DRM_WAIT_FOR_SUBMIT = 1 << 1, TG_DRM_RESET = 1, TG_DRM_VRAM_LOST = 2 };
enum { TG_DRM_RENDER_NODE = 2 };

typedef struct { uint64_t bytes, alignment; uint32_t heap; uint64_t flags; } tg_drm_allocation;
typedef struct {
  uint32_t asic, revision, external_revision, family;
  uint64_t flags, engine_clock, memory_clock;
  uint32_t shader_engines, shader_arrays, pipes[2], cache_entries, contexts, rb_pipes, rb_mask;
  uint32_t clock_khz;                                           /* of the counter that timestamps read */
  uint32_t backend[4], ramcfg, addr_cfg, tile_mode[32], macro_tile_mode[16], raster[4], raster1[4];
  uint32_t compute_units, always_on, cu_bitmap[4][4], vram_type, vram_bits, ce_ram, vce_harvest, pci_revision;
} tg_drm_chip;
typedef struct { uint64_t size, usage, largest; } tg_drm_heap;
typedef struct {
  uint32_t major, minor;
  uint64_t capabilities;
  uint32_t start_alignment, size_alignment, rings, more;        /* rings: a bit for each that there is */
} tg_drm_ip;
typedef struct { uint32_t id, dwords; uint64_t data; } tg_drm_chunk;
typedef struct { uint32_t pad, flags; uint64_t address; uint32_t bytes, ip, instance, ring; } tg_drm_ib;
typedef struct { uint32_t handle, flags; uint64_t point; } tg_drm_point;
typedef struct { int major, minor, patch, name_n; char *name; } tg_drm_version;   /* its first members */
typedef struct { char **nodes; int available; } tg_drm_device;                    /* likewise; available: bits */

typedef struct tg_drm {
  void *library;
#define F(result, name, arguments) result(*name) arguments;
#include "devices/amd/functions.def"
} tg_drm;

/* False: the library or one of its functions is missing. */
bool tg_amd_drm_open(tg_drm *);
void tg_amd_drm_close(tg_drm *);
/* The render node of the i-th card of the amdgpu driver, opened for reading and writing. -1: there are at most i, or
 * it cannot be opened. */
int tg_amd_drm_node(const tg_drm *, uint32_t i);
#endif
