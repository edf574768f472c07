/* SPDX-License-Identifier: MIT
 * What the files of the stand-in share: memory with its caches (caches.c), packets (pm4.c), calls and rings
 * (library.c). */
#ifndef TG_TEST_DRM_MODEL_H
#define TG_TEST_DRM_MODEL_H
#include "drm.h"

enum { LINE = 128, NEARS = 2 };

/* A buffer: `memory` is what the host and the copy engines see. L2 and the caches near the cores hold lines of it, which
 * are valid while their epoch is the cache's; 0 stands for that at which the buffer was mapped. There are two sets of
 * near caches, which dispatches use in turns. */
typedef struct amdgpu_bo {
  struct amdgpu_bo *next;
  char *memory, *l2, *near[NEARS];
  uint64_t bytes, address;
  uint32_t *l2_epoch, *near_epoch[NEARS];
  uint8_t *dirty;
  uint32_t l2_mapped, near_mapped[NEARS], code_epoch;   /* epochs of the caches, instructions' among them, when this was mapped */
  bool written;                /* some line is dirty */
  bool foreign, device_only, mapped, host_mapped, freed;
} buffer;

typedef struct { const char *name; uint32_t family, revision, generation, wave64; } chip;
enum { GFX9 = 9, GFX10, GFX11, GFX12 };

/* Which of the near caches an acquire has invalidated. */
enum { INV_INSTRUCTIONS = 1, INV_SCALARS = 2, INV_VECTORS = 4, INV_L2 = 8, WB_L2 = 16 };

extern drm_model control;
extern buffer *buffers;
const chip *drm_chip(void);

void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t draw(void);
/* The buffer that is mapped there with as many bytes behind; NULL, and a fault: none. */
buffer *buffer_at(uint64_t address, uint64_t bytes, const char *who);

/* caches.c */
/* Memory whose bytes nobody has written, and which takes no room until somebody does: new, or in place of what is at
 * `at`; NULL: there is none. */
char *poisoned(char *at, uint64_t bytes);
void caches_fill(buffer *);                           /* as it is mapped: every cache has its lines, as they are now */
void caches_drop(buffer *);
void caches_do(uint32_t what);
bool cached_read(uint64_t address, void *to, uint64_t bytes, bool instructions);
bool cached_write(uint64_t address, const void *from, uint64_t bytes);
void caches_next(void);                               /* the next dispatch: other cores */

/* pm4.c: false: a fault. finish: all that has begun ends. */
bool run_compute(uint64_t address, uint32_t bytes);
bool run_copies(uint64_t address, uint32_t bytes);
#endif
