/* SPDX-License-Identifier: MIT
 * Kernels that were built for a device ahead of time (compile/wrapper_data.c), from memory. The block is that of the
 * cache's files, whose key names the target alone. */
#include <stdio.h>
#include <stdlib.h>
#include "api/api.h"

typedef struct {
  tg_device *device;
  const void *data;
  size_t bytes;
  tg_kernel *kernel;
  tg_env env;
} loading;

/* Code of NVIDIA's generations runs on later ones, but for those of one chip alone (sm_90a). A device that takes SPIR-V
 * takes text as well. */
static bool runs_on(const tg_device *d, const char *target) {
  unsigned built, own;
  char letter;
  if (!strcmp(d->target->name, target)) return true;
  if (!strcmp(target, "opencl") && tg_target_takes_spirv(d->target)) return true;
  return d->target->arch == TG_ARCH_NVPTX && sscanf(target, "sm_%u%c", &built, &letter) == 1 &&
         sscanf(d->target->name, "sm_%u", &own) == 1 && built <= own;
}

static void load(void *arg) {
  enum { ALIGN = 16 };
  loading *l = arg;
  tg_env *e = &l->env;
  tg_device *d = l->device;
  tg_cache_entry entry = {.key = NULL};
  const void *data = l->data;
  if ((uintptr_t)data % ALIGN) data = memcpy(tg_alloc(e, l->bytes), data, l->bytes);
  if (!tg_cache_block_read(data, l->bytes, &entry) || !tg_signature_valid(entry.signature, entry.signature_n))
    tg_fail(e, TG_EINVAL, "the data is no kernel that was built by this release of tg, or is damaged");
  size_t head = strlen(TG_BUILT_KEY);
  if (entry.key_n < head || memcmp(entry.key, TG_BUILT_KEY, head))
    tg_fail(e, TG_EINVAL, "the data is a kernel of a cache, and was not built ahead of time");
  const char *target = tg_strndup(e, entry.key + head, entry.key_n - head);
  if (!runs_on(d, target))
    tg_fail(e, TG_EINVAL, "the kernel was built for %s, and the device is %s", target, d->target->name);
  tg_device_object o = {
      .data = entry.object, .bytes = entry.object_n, .info = &entry.info, .signature = entry.signature};
  tg_device_kernel *loaded;
  tg_status s = d->driver == &tg_driver_cpu ? TG_EINVAL : d->driver->load(d, &o, &loaded, e);
  if (d->driver == &tg_driver_cpu) tg_fail(e, s, "kernels for the CPU are functions of the object that was built");
  if (s != TG_OK) tg_fail(e, s, "%s", target);   /* the driver's own message stands */
  l->kernel = tg_kernel_new(d->context, loaded, false, false);
  if (l->kernel) return;
  tg_device_unload(loaded);
  tg_fail(e, TG_ENOMEM, "out of memory");
}

tg_status tg_device_load(tg_device *d, const void *data, size_t bytes, tg_kernel **out) {
  if (!d) return TG_EINVAL;
  if (!data || !out) return tg_context_fail(d->context, TG_EINVAL, "no data, or no place for the kernel, is given");
  loading l = {.device = d, .data = data, .bytes = bytes};
  char message[512];
  *out = NULL;
  if (tg_device_alive(d, message, sizeof message) != TG_OK) return tg_context_fail(d->context, TG_LOST, message);
  tg_env_init(&l.env, &d->context->env.allocator);
  bool ok = tg_protect(&l.env, load, &l);
  tg_status s = ok ? TG_OK : tg_device_noted(d, tg_context_fail(d->context, l.env.status, l.env.message));
  tg_env_drop(&l.env);
  *out = l.kernel;
  return s;
}
