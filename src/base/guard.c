/* SPDX-License-Identifier: MIT
 * Memory between two inaccessible guard pages. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "base/guard.h"

/* Reserves the address space, without access, and sets where the data will be. */
static bool reserve(tg_guarded *g, size_t bytes, size_t beside, bool front) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + beside + page - 1) / page * page;
  if (!room) room = page;
  *g = (tg_guarded){.map_bytes = room + 2 * page, .room_bytes = room, .bytes = bytes, .page = page};
  char *map = mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  g->map = map;
  g->room = map + page;
  g->data = g->room + (front ? 0 : room - bytes);
  return true;
}

static bool fill(tg_guarded *g, int access, int flags, int file, size_t at) {
  if (mmap(g->room, g->room_bytes, access, flags | MAP_FIXED, file, (off_t)at) != MAP_FAILED) return true;
  tg_guard_drop(g);
  return false;
}

bool tg_guard_take(tg_guarded *g, size_t bytes, size_t beside, bool front) {
  return reserve(g, bytes, beside, front) && fill(g, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool tg_guard_map(tg_guarded *g, size_t bytes, bool front, int file, size_t at, bool own) {
  return reserve(g, bytes, 0, front) &&
         fill(g, own ? PROT_READ | PROT_WRITE : PROT_READ, own ? MAP_PRIVATE : MAP_SHARED, file, at);
}

void tg_guard_lock(const tg_guarded *g, bool locked) {
  mprotect(g->room, g->room_bytes, locked ? PROT_READ : PROT_READ | PROT_WRITE);
}

void tg_guard_drop(tg_guarded *g) {
  if (g->map) munmap(g->map, g->map_bytes);
  *g = (tg_guarded){.map = NULL};
}
