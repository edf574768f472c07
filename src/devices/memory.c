/* SPDX-License-Identifier: MIT
 * Memory of all devices: drivers allocate, import and give back pieces; here they are kept by address, so that it is
 * known what lies in memory of a device or of its peers. */
#include <stdio.h>
#include "devices/device.h"

static tg_status keep(tg_device *d, const tg_piece *p, void **out, char *message, size_t n) {
  if (tg_pieces_add(&d->pieces, &d->allocator, *p, message, n)) return *out = (void *)(uintptr_t)p->at, TG_OK;
  d->driver->free(d, p);
  return TG_ENOMEM;
}

tg_status tg_memory_alloc(tg_device *d, size_t bytes, uint32_t kind, void **out, char *message, size_t n) {
  tg_piece p = {.bytes = bytes};
  tg_status s = tg_device_noted(d, d->driver->alloc(d, kind, &p, message, n));
  return s == TG_OK ? keep(d, &p, out, message, n) : s;
}

tg_status tg_memory_import(tg_device *d, uint32_t what, void *memory, size_t bytes, void **out, char *message,
                           size_t n) {
  tg_piece p = {.at = memory, .bytes = bytes};
  if (!d->driver->import) return snprintf(message, n, "this device imports no memory"), TG_EINVAL;
  tg_status s = tg_device_noted(d, d->driver->import(d, what, &p, message, n));
  return s == TG_OK ? keep(d, &p, out, message, n) : s;
}

void tg_memory_free(tg_device *d, void *memory) {
  tg_piece p;
  if (tg_pieces_take(&d->pieces, memory, &p)) d->driver->free(d, &p);
}

bool tg_memory_has(tg_device *d, const void *at, size_t bytes) { return tg_pieces_have(&d->pieces, at, bytes); }

void tg_memory_close(tg_device *d) {
  for (size_t i = 0; i < d->pieces.n; i++) d->driver->free(d, &d->pieces.piece[i]);
  tg_pieces_close(&d->pieces, &d->allocator);
}

tg_status tg_memory_join(tg_device *d, tg_device *other, char *message, size_t n) {
  if (d->driver != other->driver || !d->driver->peer)
    return snprintf(message, n, "these two devices cannot reach each other's memory"), TG_EINVAL;
  if (tg_pieces_joined(&d->pieces, &other->pieces)) return TG_OK;
  tg_status s = tg_device_noted(d, d->driver->peer(d, other, message, n));
  if (s == TG_OK && !tg_pieces_join(&d->pieces, &d->allocator, &other->pieces))
    s = (snprintf(message, n, "out of memory"), TG_ENOMEM);
  return s;
}
