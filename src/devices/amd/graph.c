/* SPDX-License-Identifier: MIT
 * Recorded graphs of launches: their packets and arguments are written once, into memory of the graph, and a replay
 * submits them as they are. A replay with other pointers or parameters puts its steps one after another instead, since
 * an earlier one may still read what is written here; so do graphs that copy, which other rings take part in. */
#include <stdio.h>
#include "devices/amd/amd.h"

enum { AROUND = 4 * (TG_AMD_BEGIN_WORDS + TG_AMD_END_WORDS + TG_AMD_PAD_WORDS), MOST = 4 << 20 };   /* bytes */

typedef struct { tg_amd_memory memory; tg_amd_block block; } image;

void tg_amd_graph_drop(tg_device *device, void *graph) {
  tg_amd_device *d = (tg_amd_device *)device;
  image *g = graph;
  tg_amd_forget(d, &g->block);
  tg_amd_settle(d);
  tg_amd_release(d, &g->memory);
  device->allocator.free(device->allocator.user, g, sizeof *g);
}

static tg_status write(image *g, tg_amd_device *d, const tg_graph_step *steps, uint32_t steps_n, char *message,
                       size_t n) {
  tg_status s = TG_OK;
  g->block = (tg_amd_block){.stream = {.at = (uint32_t *)g->memory.host, .generation = d->chip->generation},
                            .address = g->memory.address, .bytes = (uint32_t)g->memory.bytes};
  tg_amd_block_begin(&g->block, TG_DRM_COMPUTE);
  for (uint32_t i = 0; i < steps_n && s == TG_OK; i++)
    s = tg_amd_put(&g->block, NULL, steps[i].kernel, &steps[i].work, message, n);
  tg_amd_block_end(&g->block, TG_DRM_COMPUTE);
  return s;
}

tg_status tg_amd_graph_make(tg_device *device, const tg_graph_step *steps, uint32_t steps_n, void **out, char *message,
                            size_t n) {
  tg_amd_device *d = (tg_amd_device *)device;
  const tg_allocator *a = &device->allocator;
  uint64_t bytes = AROUND;
  *out = NULL;
  for (uint32_t i = 0; i < steps_n; i++) {
    if (!steps[i].kernel || bytes > MOST) return TG_OK;
    bytes += tg_amd_room(steps[i].kernel);
  }
  if (bytes > MOST) return TG_OK;
  image *g = a->alloc(a->user, sizeof *g);
  if (!g) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *g = (image){.block = {.bytes = 0}};
  tg_status s = tg_amd_allocate(d, bytes, TG_DRM_GTT, TG_DRM_WRITE_COMBINED, true, &g->memory, message, n);
  if (s == TG_OK) s = write(g, d, steps, steps_n, message, n);
  if (s == TG_OK) *out = g;
  else tg_amd_graph_drop(device, g);
  return s;
}

tg_status tg_amd_graph_put(tg_queue *q, void *graph, const tg_graph_step *steps, uint32_t steps_n, const bool *changed,
                           char *message, size_t n) {
  const image *g = graph;
  bool same = true;
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < steps_n && changed; i++) same &= !changed[i];
  if (same) return tg_amd_queue_replay(q, &g->block, message, n);
  for (uint32_t i = 0; i < steps_n && s == TG_OK; i++)
    s = tg_amd_queue_launch(q, steps[i].kernel, &steps[i].work, message, n);
  return s;
}
