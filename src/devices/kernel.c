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

static bool keep(tg_device_kernel *k, const tg_device_object *o) {
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

tg_status tg_device_owns(const tg_device_kernel *k, const tg_work *w, char *message, size_t n) {
  tg_device *d = k->device;
  const char *name = NULL;
  for (uint32_t b = 0; b < k->info.buffers && !name; b++)
    if (w->bytes[b] && !tg_memory_has(d, w->buffers[b], (size_t)w->bytes[b]))
      name = tg_signature_strings(k->signature) + tg_signature_buffers(k->signature)[b].name;
  if (!name && k->scratch && !tg_memory_has(d, w->workspace, k->scratch)) name = "workspace";
  if (!name) return TG_OK;
  return snprintf(message, n, "'%s' does not lie in memory of this device", name), TG_EINVAL;
}

tg_status tg_device_kernel_load(const tg_driver *driver, tg_device *d, size_t bytes, const tg_device_object *o,
                                tg_device_kernel_fill *fill, tg_device_kernel **out, tg_env *err) {
  const tg_allocator *a = &d->allocator;
  tg_status s = TG_ENOMEM;
  snprintf(err->message, sizeof err->message, "out of memory");
  tg_device_kernel *k = a->alloc(a->user, bytes);
  if (!k) return err->status = s;
  memset(k, 0, bytes);
  k->driver = driver, k->device = d;
  if (o->signature->buffers_n != o->info->buffers || o->signature->params_n != o->info->params || !o->info->launch) {
    snprintf(err->message, sizeof err->message, "the object does not fit the kernel's signature");
    s = TG_INTERNAL;
  } else if (keep(k, o)) s = fill(k, o, err->message, sizeof err->message);
  if (s == TG_OK) *out = k;
  else driver->unload(k);
  return err->status = tg_device_noted(d, s);
}

tg_status tg_device_kernel_grid(const tg_device_kernel *k, const tg_work *w, uint32_t phase,
                                const tg_grid_limits *most, tg_grid *g, char *message, size_t n) {
  if (!tg_grid_of(&k->info, phase, w->params, g))
    return snprintf(message, n, "phase %u needs 2^31 workgroups or more along an axis", phase), TG_ELIMIT;
  if (g->threads > most->threads)
    return snprintf(message, n, "phase %u needs workgroups of %u threads, the device has at most %u", phase,
                    g->threads, most->threads),
           TG_ELIMIT;
  if (g->local > most->local)
    return snprintf(message, n, "phase %u needs %llu bytes of LOCAL, the device gives %llu", phase,
                    (unsigned long long)g->local, (unsigned long long)most->local),
           TG_ELIMIT;
  return TG_OK;
}
