/* SPDX-License-Identifier: MIT
 * What is used of libdrm_amdgpu.so.1, the library over the interface of Linux's amdgpu driver, and of libdrm.so.2
 * below it. Opened at run time; nothing is linked, and no header of theirs is needed. Names and layouts are those of
 * amdgpu.h, amdgpu_drm.h and xf86drm.h. Functions return 0 or a negative errno unless said otherwise. */
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
  int (*drmGetDevices2)(uint32_t flags, tg_drm_device **out, int most);           /* returns how many */
  void (*drmFreeDevices)(tg_drm_device **, int n);
  tg_drm_version *(*drmGetVersion)(int fd);
  void (*drmFreeVersion)(tg_drm_version *);
  int (*amdgpu_device_initialize)(int fd, uint32_t *major, uint32_t *minor, tg_drm_handle *out);
  int (*amdgpu_device_deinitialize)(tg_drm_handle);
  const char *(*amdgpu_get_marketing_name)(tg_drm_handle);                        /* NULL: unknown */
  int (*amdgpu_query_gpu_info)(tg_drm_handle, tg_drm_chip *);
  int (*amdgpu_query_heap_info)(tg_drm_handle, uint32_t heap, uint32_t flags, tg_drm_heap *);
  int (*amdgpu_query_hw_ip_info)(tg_drm_handle, unsigned ip, unsigned instance, tg_drm_ip *);
  int (*amdgpu_bo_alloc)(tg_drm_handle, tg_drm_allocation *, tg_drm_handle *out);
  int (*amdgpu_bo_free)(tg_drm_handle);
  int (*amdgpu_create_bo_from_user_mem)(tg_drm_handle, void *, uint64_t bytes, tg_drm_handle *out);
  int (*amdgpu_bo_cpu_map)(tg_drm_handle, void **out);
  int (*amdgpu_bo_cpu_unmap)(tg_drm_handle);
  int (*amdgpu_va_range_alloc)(tg_drm_handle, int range, uint64_t bytes, uint64_t alignment, uint64_t wanted,
                               uint64_t *address, tg_drm_handle *out, uint64_t flags);
  int (*amdgpu_va_range_free)(tg_drm_handle);
  int (*amdgpu_bo_va_op)(tg_drm_handle, uint64_t offset, uint64_t bytes, uint64_t address, uint64_t flags,
                         uint32_t what);
  int (*amdgpu_cs_ctx_create2)(tg_drm_handle, uint32_t priority, tg_drm_handle *out);
  int (*amdgpu_cs_ctx_free)(tg_drm_handle);
  int (*amdgpu_cs_query_reset_state2)(tg_drm_handle context, uint64_t *flags);
  int (*amdgpu_cs_create_syncobj)(tg_drm_handle, uint32_t *out);
  int (*amdgpu_cs_destroy_syncobj)(tg_drm_handle, uint32_t);
  int (*amdgpu_cs_syncobj_timeline_wait)(tg_drm_handle, uint32_t *syncobjs, uint64_t *points, unsigned n,
                                         int64_t deadline, unsigned flags, uint32_t *first);
  int (*amdgpu_cs_submit_raw2)(tg_drm_handle, tg_drm_handle context, uint32_t list, int chunks_n, tg_drm_chunk *chunks,
                               uint64_t *number);
} tg_drm;

/* False: the library or one of its functions is missing. */
bool tg_amd_drm_open(tg_drm *);
void tg_amd_drm_close(tg_drm *);
/* The render node of the i-th card of the amdgpu driver, opened for reading and writing. -1: there are at most i, or
 * it cannot be opened. */
int tg_amd_drm_node(const tg_drm *, uint32_t i);
#endif
