/* SPDX-License-Identifier: MIT
 * Launches as a driver makes them, from what tg keeps beside the object. */
#include <stdio.h>
#include <stdlib.h>
#include "launch.h"

static bool phase(const ptx_program *p, const ptx_module *m, uint32_t number, kit_memory *memory, void *shared, char *message) {
  char name[128];
  tg_grid grid;
  ptx_launch l = {.param = p->params, .params = p->info->params, .seed = p->seed + number, .drawn = p->drawn, .limit = p->limit};
  snprintf(name, sizeof name, "%s_%u%s", p->job->name, number, p->unaligned && p->info->aligned ? "_unaligned" : "");
  l.kernel = ptx_find(m, name);
  if (!l.kernel || !tg_grid_of(p->info, number, p->params, &grid)) {
    snprintf(message, PTX_MESSAGE, "no kernel %s, or no grid for it", name);
    return false;
  }
  l.threads = grid.threads, l.local = grid.local;
  for (int d = 0; d < 3; d++) l.groups[d] = (uint32_t)grid.groups[d];
  for (uint32_t b = 0; b < memory->n; b++)
    l.buffer[l.buffers++] = (ptx_buffer){.name = memory->name[b], .data = memory->data[b], .bytes = memory->bytes[b], .written = memory->written[b],
                                         .misaligned = p->unaligned ? (size_t)tg_type_bytes(memory->type[b]) : 0};
  if (p->info->shared) l.buffer[l.buffers++] = (ptx_buffer){.name = "memory of the launch", .data = shared, .bytes = p->info->shared, .written = true};
  bool ok = ptx_run(&l);
  if (!ok) memcpy(message, l.message, PTX_MESSAGE);
  else if (p->seen) p->seen(p->user, &l);
  ptx_launch_free(&l);
  return ok;
}

bool ptx_program_run(const ptx_program *p, kit_memory *memory, char message[PTX_MESSAGE]) {
  ptx_module m;
  void *shared = malloc(p->info->shared + 16);
  memset(shared, 0xff, p->info->shared + 16);
  bool ok = ptx_parse(&m, p->text ? p->text : p->object->data);
  if (!ok) memcpy(message, m.message, PTX_MESSAGE);
  for (uint32_t n = 0; ok && n < p->info->phases; n++) ok = phase(p, &m, n, memory, shared, message);
  ptx_module_free(&m);
  free(shared);
  return ok;
}
