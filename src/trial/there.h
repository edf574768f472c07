/* SPDX-License-Identifier: MIT
 * Operands of a launch on a device that is not the host's CPU: copies in the device's memory, each between two guard
 * regions whose bytes must not change. */
#ifndef TG_THERE_H
#define TG_THERE_H
#include "base/base.h"
#include "tg/device.h"

enum { TG_THERE_MOST = 64 };
typedef struct tg_there {
  tg_device *device;
  uint32_t n;
  void *block[TG_THERE_MOST];          /* a guard region, the operand, a guard region */
  tg_argument args[TG_THERE_MOST];     /* the operands there, as a launch takes them */
} tg_there;

/* Copies n operands to the device. After a failure, too, tg_there_close frees what there is. */
tg_status tg_there_open(tg_device *, const tg_argument *here, uint32_t n, tg_there *out);
/* Copies back operand b where written[b]; all others must be what they are here. *wrong: the first operand of which a
 * guard region has changed (*beside), or which has changed though it is only read; n: none has. */
tg_status tg_there_fetch(const tg_there *, const tg_argument *here, const bool *written, uint32_t *wrong, bool *beside);
void tg_there_close(tg_there *);
#endif
