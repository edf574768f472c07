/* SPDX-License-Identifier: MIT
 * Launches as a driver makes them, from what tg keeps beside the object. Buffers stand far apart in the device's
 * addresses, so that what runs over the end of one meets no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "launch.h"

enum { PIECES = KIT_BUFFERS + 3 };
typedef struct { uint64_t base; uint8_t *data; size_t bytes; bool written, read; } piece;
typedef struct { piece piece[PIECES]; uint32_t n; amd_object object; } device;

static bool access_piece(void *user, uint64_t address, void *data, uint32_t bytes, amd_access how) {
  device *d = user;
  for (uint32_t k = 0; k < d->n; k++) {
    piece *p = &d->piece[k];
    if (address < p->base || address - p->base > p->bytes || bytes > p->bytes - (address - p->base)) continue;
    uint8_t *at = p->data + (address - p->base);
    if (how == AMD_WRITE && !p->written) return false;
    if (how == AMD_WRITE) memcpy(at, data, bytes);
    else memcpy(data, at, bytes);
    return true;
  }
  return false;
}

static uint64_t add(device *d, void *data, size_t bytes, bool written, uint64_t misaligned) {
  uint64_t base = ((uint64_t)0x7a << 36) + ((uint64_t)d->n << 33) + misaligned;
  d->piece[d->n++] = (piece){base, data, bytes, written, true};
  return base;
}

static bool phase(const amd_program *p, device *d, uint32_t number, const uint64_t *argument, uint32_t arguments, char *message) {
  char name[160];
  tg_grid grid;
  uint8_t block[4096] = {0};
  snprintf(name, sizeof name, "%s_%u%s", p->job->name, number, p->unaligned && p->info->aligned ? "_unaligned" : "");
  const amd_kernel *k = amd_object_find(&d->object, name);
  if (!k || !tg_grid_of(p->info, number, p->params, &grid) || k->arguments > sizeof block) return snprintf(message, AMD_MESSAGE, "no kernel %s, or no grid for it", name), false;
  if (k->scratch) return snprintf(message, AMD_MESSAGE, "%s spills %u bytes", name, k->scratch), false;
  memcpy(block, argument, 8 * arguments);
  amd_dispatch l = {.processor = p->processor, .code = k->entry, .rsrc1 = k->rsrc1, .rsrc2 = k->rsrc2, .rsrc3 = k->rsrc3, .properties = k->properties,
                    .threads = {grid.threads, 1, 1}, .local = (uint32_t)(grid.local > k->local ? grid.local : k->local), .seed = p->seed + number, .drawn = p->drawn, .limit = p->limit,
                    .access = access_piece, .user = d};
  for (int x = 0; x < 3; x++) l.groups[x] = (uint32_t)grid.groups[x];
  l.arguments = add(d, block, (k->arguments + 15) / 16 * 16, false, 0);   /* LLVM loads whole blocks of 16 bytes, to which arguments are aligned */
  bool ok = amd_run(&l);
  d->n--;
  if (!ok) snprintf(message, AMD_MESSAGE, "%.100s: %.400s", name, l.message);
  else if (p->seen) p->seen(p->user, &l);
  return ok;
}

bool amd_program_run(const amd_program *p, kit_memory *memory, char message[AMD_MESSAGE]) {
  device d = {.n = 1};
  uint64_t argument[KIT_BUFFERS + 1 + 64];
  uint32_t n = 0;
  void *shared = malloc(p->info->shared + 16);
  memset(shared, 0xff, p->info->shared + 16);
  bool ok = amd_object_load(&d.object, p->object->data, p->object->bytes, (uint64_t)0x79 << 36);
  if (!ok) memcpy(message, d.object.message, AMD_MESSAGE);
  d.piece[0] = (piece){d.object.base, d.object.image, d.object.bytes, false, true};
  if (ok && p->changed) p->changed(p->user, &d.object);
  for (uint32_t b = 0; b < memory->n; b++)
    argument[n++] = add(&d, memory->data[b], memory->bytes[b], memory->written[b], p->unaligned ? (uint64_t)tg_type_bytes(memory->type[b]) : 0);
  if (p->info->shared) argument[n++] = add(&d, shared, p->info->shared, true, 0);
  for (uint32_t k = 0; k < p->info->params; k++) argument[n++] = (uint64_t)p->params[k];
  for (uint32_t k = 0; ok && k < p->info->phases; k++) ok = phase(p, &d, k, argument, n, message);
  amd_object_free(&d.object);
  free(shared);
  return ok;
}
