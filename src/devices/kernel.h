/* SPDX-License-Identifier: MIT
 * For drivers: what loaded kernels have in common. */
#ifndef TG_DEVICES_KERNEL_H
#define TG_DEVICES_KERNEL_H
#include "devices/device.h"

/* Copies the object's facts, list of launches and signature into k, whose device is set. False: no memory; what there
 * is is given back by drop. */
bool tg_device_kernel_keep(tg_device_kernel *k, const tg_device_object *);
void tg_device_kernel_drop(tg_device_kernel *);
/* Must the entry be called that assumes nothing of addresses? */
bool tg_device_unaligned(const tg_device_kernel *, const tg_work *);
/* Does all that a launch reads and writes lie where `has` says that the device has memory? TG_EINVAL names what does
 * not. */
typedef bool tg_device_has(void *user, const void *at, size_t bytes);
tg_status tg_device_owns(const tg_device_kernel *, const tg_work *, tg_device_has *has, void *user, char *message,
                         size_t n);
#endif
