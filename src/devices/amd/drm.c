/* SPDX-License-Identifier: MIT
 * Opens libdrm_amdgpu, and finds the cards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "devices/amd/drm.h"
#include "devices/library.h"

bool tg_amd_drm_open(tg_drm *f) {
  static const tg_entry_point points[] = {   /* libdrm's are found as well, on which the library depends */
#define F(result, name, arguments) {#name, offsetof(tg_drm, name), false},
#include "devices/amd/functions.def"
  };
  const char *missing = NULL;
  *f = (tg_drm){.library = NULL};
  f->library = tg_library_open("libdrm_amdgpu.so.1", false, points, TG_COUNT(points), f, &missing);
  if (missing) tg_amd_drm_close(f);
  return f->library != NULL;
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
