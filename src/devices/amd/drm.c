/* SPDX-License-Identifier: MIT
 * Opens libdrm_amdgpu, and finds the cards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"
#include "devices/amd/drm.h"

bool tg_amd_drm_open(tg_drm *f) {
  *f = (tg_drm){.library = dlopen("libdrm_amdgpu.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!f->library) return false;
  const struct { void *to; const char *name;
  } names[] = {
#define F(name) {&f->name, #name}
    F(drmGetDevices2), F(drmFreeDevices), F(drmGetVersion), F(drmFreeVersion), F(amdgpu_device_initialize),
    F(amdgpu_device_deinitialize), F(amdgpu_get_marketing_name), F(amdgpu_query_gpu_info), F(amdgpu_query_heap_info),
    F(amdgpu_query_hw_ip_info), F(amdgpu_bo_alloc), F(amdgpu_bo_free), F(amdgpu_create_bo_from_user_mem),
    F(amdgpu_bo_cpu_map), F(amdgpu_bo_cpu_unmap), F(amdgpu_va_range_alloc), F(amdgpu_va_range_free),
    F(amdgpu_bo_va_op), F(amdgpu_cs_ctx_create2), F(amdgpu_cs_ctx_free), F(amdgpu_cs_query_reset_state2),
    F(amdgpu_cs_create_syncobj), F(amdgpu_cs_destroy_syncobj), F(amdgpu_cs_syncobj_timeline_wait),
    F(amdgpu_cs_submit_raw2)
#undef F
  };
  for (uint32_t i = 0; i < TG_COUNT(names); i++) {
    void *at = dlsym(f->library, names[i].name);   /* finds libdrm's as well, on which the library depends */
    memcpy(names[i].to, &at, sizeof at);
    if (at) continue;
    tg_amd_drm_close(f);
    return false;
  }
  return true;
}

void tg_amd_drm_close(tg_drm *f) {
  if (f->library) dlclose(f->library);
  f->library = NULL;
}

/* Is the card driven by amdgpu? The library would print to stderr if it were given another's. */
static bool is_amdgpu(const tg_drm *f, int fd) {
  tg_drm_version *v = f->drmGetVersion(fd);
  bool is = v && v->name && !strcmp(v->name, "amdgpu");
  if (v) f->drmFreeVersion(v);
  return is;
}

int tg_amd_drm_node(const tg_drm *f, uint32_t i) {
  enum { MOST = 64 };
  tg_drm_device *devices[MOST];
  int n = f->drmGetDevices2(0, devices, MOST), found = -1;
  for (int d = 0; d < n && found < 0; d++) {
    if (!(devices[d]->available >> TG_DRM_RENDER_NODE & 1)) continue;
    int fd = open(devices[d]->nodes[TG_DRM_RENDER_NODE], O_RDWR | O_CLOEXEC);
    if (fd >= 0 && is_amdgpu(f, fd) && !i--) found = fd;
    else if (fd >= 0) close(fd);
  }
  if (n > 0) f->drmFreeDevices(devices, n);
  return found;
}
