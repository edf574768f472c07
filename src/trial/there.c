/* SPDX-License-Identifier: MIT
 * Copies of operands in a device's memory, between guard regions. */
#include <stdlib.h>
#include <string.h>
#include "trial/there.h"

enum { GUARD = 4096, MARK = 0xA5, PART = 1 << 20 };

tg_status tg_there_open(tg_device *device, const tg_argument *here, uint32_t n, tg_there *t) {
  char mark[GUARD];
  tg_status s = TG_OK;
  memset(mark, MARK, GUARD);
  *t = (tg_there){.device = device};
  if (n > TG_THERE_MOST) return TG_ELIMIT;
  for (uint32_t b = 0; b < n && s == TG_OK; b++) {
    if ((s = tg_device_alloc(device, here[b].bytes + 2 * GUARD, &t->block[b])) != TG_OK) break;
    char *at = t->block[b];
    t->n = b + 1;
    t->args[b] = (tg_argument){at + GUARD, here[b].bytes};
    s = tg_device_copy(device, at, mark, GUARD);
    if (s == TG_OK && here[b].bytes) s = tg_device_copy(device, at + GUARD, here[b].data, here[b].bytes);
    if (s == TG_OK) s = tg_device_copy(device, at + GUARD + here[b].bytes, mark, GUARD);
  }
  return s;
}

/* Are these bytes of the device's those at `want`? NULL: all MARK. */
static tg_status same(const tg_there *t, const char *at, const char *want, size_t bytes, char *room, bool *out) {
  *out = true;
  for (size_t from = 0; from < bytes && *out; from += PART) {
    size_t part = bytes - from < PART ? bytes - from : PART;
    tg_status s = tg_device_copy(t->device, room, at + from, part);
    if (s != TG_OK) return s;
    if (want) *out = !memcmp(room, want + from, part);
    for (size_t i = 0; i < part && !want && *out; i++) *out = (unsigned char)room[i] == MARK;
  }
  return TG_OK;
}

static tg_status fetch(const tg_there *t, const tg_argument *here, bool written, uint32_t b, char *room, bool *guards,
                       bool *kept) {
  char *at = t->block[b], *data = at + GUARD;
  size_t bytes = t->args[b].bytes;
  bool front = false, behind = false;
  *kept = true;
  tg_status s = same(t, at, NULL, GUARD, room, &front);
  if (s == TG_OK) s = same(t, data + bytes, NULL, GUARD, room, &behind);
  if (s == TG_OK && written && bytes) s = tg_device_copy(t->device, here->data, data, bytes);
  if (s == TG_OK && !written) s = same(t, data, here->data, bytes, room, kept);
  *guards = front && behind;
  return s;
}

tg_status tg_there_fetch(const tg_there *t, const tg_argument *here, const bool *written, uint32_t *wrong,
                         bool *beside) {
  char *room = malloc(PART);
  tg_status s = room ? TG_OK : TG_ENOMEM;
  *wrong = t->n, *beside = false;
  for (uint32_t b = 0; b < t->n && s == TG_OK; b++) {
    bool guards = true, kept = true;
    s = fetch(t, &here[b], written[b], b, room, &guards, &kept);
    if (s == TG_OK && *wrong == t->n && (!guards || !kept)) *wrong = b, *beside = !guards;
  }
  free(room);
  return s;
}

void tg_there_close(tg_there *t) {
  for (uint32_t b = 0; b < t->n; b++) tg_device_free(t->device, t->block[b]);
  t->n = 0;
}
