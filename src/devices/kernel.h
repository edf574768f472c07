/* SPDX-License-Identifier: MIT
 * For drivers: what loaded kernels have in common. */
#ifndef TG_DEVICES_KERNEL_H
#define TG_DEVICES_KERNEL_H
#include "devices/device.h"

/* Makes a kernel: the driver's struct, of this size, with its head, which has copies of the object's facts, list of
 * launches and signature; the rest is 0, for `fill` to set. What fails leaves a kernel for the driver's unload, which
 * ends with drop. Whether the object fits the signature has been checked, since it may come from the cache, which is
 * not trusted. */
typedef tg_status tg_device_kernel_fill(tg_device_kernel *, const tg_device_object *, char *message, size_t n);
tg_status tg_device_kernel_load(const tg_driver *, tg_device *, size_t bytes, const tg_device_object *,
                                tg_device_kernel_fill *, tg_device_kernel **out, tg_env *err);
void tg_device_kernel_drop(tg_device_kernel *);
/* Must the entry be called that assumes nothing of addresses? */
bool tg_device_unaligned(const tg_device_kernel *, const tg_work *);
/* Does all that a launch reads and writes lie in memory of the device or of its peers? TG_EINVAL names what does
 * not. */
tg_status tg_device_owns(const tg_device_kernel *, const tg_work *, char *message, size_t n);
/* How a phase is launched, on a device of such limits; 0 groups along an axis: there is nothing to run. */
typedef struct tg_grid_limits { uint64_t local; uint32_t threads; } tg_grid_limits;
tg_status tg_device_kernel_grid(const tg_device_kernel *, const tg_work *, uint32_t phase, const tg_grid_limits *,
                                tg_grid *, char *message, size_t n);
#endif
