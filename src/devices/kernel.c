/* SPDX-License-Identifier: MIT
 * What loaded kernels of devices have in common: copies of what their objects say, which may lie in a file that goes,
 * and questions about the operands of a launch. */
#include <stdio.h>
#include "devices/kernel.h"

static void *copied(const tg_allocator *a, const void *from, size_t bytes) {
  void *p = a->alloc(a->user, bytes ? bytes : 1);
  return p && bytes ? memcpy(p, from, bytes) : p;
}

static void drop(const tg_allocator *a, const void *p, size_t bytes) {
  if (p) a->free(a->user, (void *)(uintptr_t)p, bytes ? bytes : 1);
}

bool tg_device_kernel_keep(tg_device_kernel *k, const tg_device_object *o) {
  const tg_allocator *a = &k->device->allocator;
  k->info = *o->info;
  k->info.launch = copied(a, o->info->launch, o->info->launch_n * sizeof *o->info->launch);
  k->signature = copied(a, o->signature, o->signature->bytes);
  return k->info.launch && k->signature;
}

void tg_device_kernel_drop(tg_device_kernel *k) {
  const tg_allocator *a = &k->device->allocator;
  drop(a, k->info.launch, k->info.launch_n * sizeof *k->info.launch);
  if (k->signature) drop(a, k->signature, k->signature->bytes);
}

bool tg_device_unaligned(const tg_device_kernel *k, const tg_work *w) {
  enum { ASSUMED = 16 };
  for (uint32_t b = 0; b < k->info.buffers && b < 64; b++)
    if (k->info.aligned >> b & 1 && (uintptr_t)w->buffers[b] % ASSUMED) return true;
  return false;
}

tg_status tg_device_owns(const tg_device_kernel *k, const tg_work *w, tg_device_has *has, void *user, char *message,
                         size_t n) {
  const char *name = NULL;
  for (uint32_t b = 0; b < k->info.buffers && !name; b++)
    if (w->bytes[b] && !has(user, w->buffers[b], (size_t)w->bytes[b]))
      name = tg_signature_strings(k->signature) + tg_signature_buffers(k->signature)[b].name;
  if (!name && k->scratch && !has(user, w->workspace, k->scratch)) name = "workspace";
  if (!name) return TG_OK;
  return snprintf(message, n, "'%s' does not lie in memory of this device", name), TG_EINVAL;
}
