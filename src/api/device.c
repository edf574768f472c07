/* SPDX-License-Identifier: MIT
 * The devices of a context: opened at their first use, closed with the context; their memory. */
#include <stdio.h>
#include "api/api.h"

tg_status tg_device_add(tg_context *c, const tg_driver *driver, uint32_t i, uint32_t number, tg_device **out,
                        char *message, size_t n) {
  tg_device head = {.driver = driver,
                    .context = c,
                    .number = number,
                    .allocator = c->env.allocator,
                    .target = &c->target,
                    .pool = c->pool},
            **last = &c->devices;
  tg_status s = driver->open(&head, i, out, message, n);
  while (*last) last = &(*last)->next;
  if (s == TG_OK) *last = *out;
  return s;
}

/* Takes the lock, so that two threads do not open a device twice. */
static tg_status find_or_open(tg_context *c, uint32_t number, tg_device **out, char *message, size_t n) {
  tg_device_info about;
  const tg_driver *driver;
  uint32_t i;
  for (*out = c->devices; *out; *out = (*out)->next)
    if ((*out)->number == number) return TG_OK;
  if (!tg_device_at(number, &driver, &i, &about)) return snprintf(message, n, "there is no device %u", number), TG_MISS;
  if (about.lacks[0]) return snprintf(message, n, "%s cannot be used: %s", about.name, about.lacks), TG_EIO;
  return tg_device_add(c, driver, i, number, out, message, n);
}

tg_status tg_device_open(tg_context *c, uint32_t i, tg_device **out) {
  char message[512] = "";
  if (!c) return TG_EINVAL;
  if (!out) return tg_context_fail(c, TG_EINVAL, "no place is given for the device");
  pthread_mutex_lock(&c->lock);
  tg_status s = find_or_open(c, i, out, message, sizeof message);
  pthread_mutex_unlock(&c->lock);
  if (s == TG_OK) return s;
  *out = NULL;
  return tg_context_fail(c, s, message);
}

tg_status tg_device_alloc(tg_device *d, size_t bytes, void **out) {
  char message[512] = "";
  if (!d) return TG_EINVAL;
  if (!out) return tg_context_fail(d->context, TG_EINVAL, "no place is given for the memory");
  *out = NULL;
  tg_status s = d->driver->alloc(d, bytes, out, message, sizeof message);
  return s == TG_OK ? s : tg_context_fail(d->context, s, message);
}

void tg_device_free(tg_device *d, void *memory) {
  if (d && memory) d->driver->free(d, memory);
}

tg_status tg_device_copy(tg_device *d, void *to, const void *from, size_t bytes) {
  char message[512] = "";
  if (!d) return TG_EINVAL;
  if (bytes && (!to || !from)) return tg_context_fail(d->context, TG_EINVAL, "a copy from or to NULL");
  tg_status s = d->driver->copy(d, to, from, bytes, message, sizeof message);
  return s == TG_OK ? s : tg_context_fail(d->context, s, message);
}

tg_status tg_device_finish(tg_device *d) {
  char message[512] = "";
  if (!d) return TG_EINVAL;
  tg_status s = d->driver->wait(d, message, sizeof message);
  return s == TG_OK ? s : tg_context_fail(d->context, s, message);
}
