/* SPDX-License-Identifier: MIT
 * The calls of libdrm and libdrm_amdgpu that tg opens, with the prototypes and structs of their own headers. Submitted
 * work runs at the latest moment: when somebody waits for it, in a drawn order of the rings. */
#define _GNU_SOURCE
#include <errno.h>
#include <libdrm/amdgpu.h>
#include <libdrm/amdgpu_drm.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <xf86drm.h>
#include "model.h"

#define EXPORT __attribute__((visibility("default")))
enum { PAGE = 4096, MOST_JOBS = 256, MOST_POINTS = 64 };

struct amdgpu_device { int uses; };
struct amdgpu_context { int uses; };
struct amdgpu_va { uint64_t address, bytes; bool high; };

typedef struct { uint32_t handle; uint64_t point; } point;
typedef struct {
  struct amdgpu_context *context;
  uint64_t address;
  uint32_t bytes, ip, waits_n, signals_n;
  point waits[MOST_POINTS], signals[4];
} job;

drm_model control;
buffer *buffers;
static struct amdgpu_device device;
static job jobs[MOST_JOBS];
static uint32_t jobs_n;
static struct { uint64_t reached, submitted; bool live; } timelines[MOST_POINTS];
static uint64_t next_address = 0xffff800100000000, drawn;
static bool lost, told;   /* told: the driver knows that the device is lost */

EXPORT drm_model *drm_model_of(void);
EXPORT void drm_reset(void);
drm_model *drm_model_of(void) { return &control; }

void fault(const char *format, ...) {
  va_list a;
  va_start(a, format);
  if (!control.faults++) vsnprintf(control.message, sizeof control.message, format, a);
  va_end(a);
}

void trace(const char *format, ...) {
  va_list a;
  size_t room = DRM_MOST_TRACE - control.trace_n;
  va_start(a, format);
  int n = vsnprintf(control.trace + control.trace_n, room, format, a);
  va_end(a);
  control.trace_n += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

uint64_t draw(void) {
  drawn = (drawn + control.seed) * 6364136223846793005ull + 1442695040888963407ull;
  return drawn >> 33;
}

static const chip chips[] = {{"gfx1030", 143, 0x28, GFX10, 0}, {"gfx1100", 145, 1, GFX11, 0}, {"gfx1201", 152, 0x51, GFX12, 0},
                             {"gfx90a", 141, 0x3c, GFX9, 1},   {"gfx942", 141, 0x46, GFX9, 1}};
const chip *drm_chip(void) {
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
    if (control.chip && !strcmp(chips[i].name, control.chip)) return &chips[i];
  return &chips[1];
}

/* Counts the call, and makes it fail if its turn has come. */
static int enter(void) {
  int64_t n = __atomic_add_fetch(&control.calls, 1, __ATOMIC_RELAXED);
  return control.fail_call == n ? control.fail_code ? control.fail_code : -EIO : 0;
}
#define ENTER()                   \
  do {                            \
    int failed_ = enter();        \
    if (failed_) return failed_;  \
  } while (0)

void drm_reset(void) {
  for (buffer *b = buffers, *next; b; b = next) {
    next = b->next;
    caches_drop(b);
    if (!b->foreign) munmap(b->memory, b->bytes);
    free(b);
  }
  buffers = NULL, jobs_n = 0, lost = told = false;
  memset(timelines, 0, sizeof timelines);
  memset(&control, 0, sizeof control);
  drawn = 0;
}

buffer *buffer_at(uint64_t address, uint64_t bytes, const char *who) {
  for (buffer *b = buffers; b; b = b->next)
    if (b->mapped && address >= b->address && address - b->address <= b->bytes && bytes <= b->bytes - (address - b->address)) return b;
  fault("%s %llu bytes at %llx, where nothing is mapped", who, (unsigned long long)bytes, (unsigned long long)address);
  return NULL;
}

/* ---- cards ---- */

static char node_name[] = "/dev/null";
static char *nodes[DRM_NODE_MAX] = {[DRM_NODE_RENDER] = node_name};

EXPORT int drmGetDevices2(uint32_t flags, drmDevicePtr *out, int most) {
  (void)flags;
  if (most < 1) return 1;
  out[0] = calloc(1, sizeof *out[0]);
  out[0]->nodes = nodes, out[0]->available_nodes = 1 << DRM_NODE_RENDER;
  control.live++;
  return 1;
}
EXPORT void drmFreeDevices(drmDevicePtr *d, int n) {
  for (int i = 0; i < n; i++) free(d[i]), control.live--;
}
EXPORT drmVersionPtr drmGetVersion(int fd) {
  static char name[] = "amdgpu";
  drmVersionPtr v = fd < 0 ? NULL : calloc(1, sizeof *v);
  if (v) v->name = name, v->version_major = 3, control.live++;
  return v;
}
EXPORT void drmFreeVersion(drmVersionPtr v) { free(v), control.live--; }

EXPORT int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *out) {
  ENTER();
  if (fd < 0) return -EBADF;
  *major = 3, *minor = control.minor ? control.minor : 57, *out = &device;
  device.uses++, control.live++;
  return 0;
}
EXPORT int amdgpu_device_deinitialize(amdgpu_device_handle d) {
  if (d != &device || !device.uses) return fault("a device is closed that is not open"), -EINVAL;
  device.uses--, control.live--;
  return 0;
}
EXPORT const char *amdgpu_get_marketing_name(amdgpu_device_handle d) { return d == &device ? "a card of the tests" : NULL; }

EXPORT int amdgpu_query_gpu_info(amdgpu_device_handle d, struct amdgpu_gpu_info *i) {
  ENTER();
  memset(i, 0, sizeof *i);
  i->family_id = control.family ? control.family : drm_chip()->family;
  i->chip_external_rev = control.family ? control.revision : drm_chip()->revision;
  i->cu_active_number = 4, i->gpu_counter_freq = 100000;
  return d != &device;
}
EXPORT int amdgpu_query_heap_info(amdgpu_device_handle d, uint32_t heap, uint32_t flags, struct amdgpu_heap_info *i) {
  ENTER();
  *i = (struct amdgpu_heap_info){.heap_size = heap == AMDGPU_GEM_DOMAIN_VRAM && !flags ? 1ull << 34 : 0};
  return d != &device;
}
EXPORT int amdgpu_query_hw_ip_info(amdgpu_device_handle d, unsigned ip, unsigned instance, struct drm_amdgpu_info_hw_ip *i) {
  ENTER();
  if (d != &device || instance) return -EINVAL;
  memset(i, 0, sizeof *i);
  i->hw_ip_version_major = drm_chip()->generation, i->ib_start_alignment = 256, i->ib_size_alignment = 4;
  i->available_rings = ip == AMDGPU_HW_IP_COMPUTE ? control.without_compute ? 0 : 0xf : ip == AMDGPU_HW_IP_DMA && !control.without_dma ? 3 : 0;
  return 0;
}

/* ---- memory ---- */

static uint64_t used;

static buffer *add_buffer(char *memory, uint64_t bytes) {
  buffer *b = calloc(1, sizeof *b);
  *b = (buffer){.memory = memory, .bytes = bytes, .next = buffers};
  buffers = b;
  control.live++;
  return b;
}

EXPORT int amdgpu_bo_alloc(amdgpu_device_handle d, struct amdgpu_bo_alloc_request *r, amdgpu_bo_handle *out) {
  const uint64_t known = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID;
  ENTER();
  bool vram = r->preferred_heap == AMDGPU_GEM_DOMAIN_VRAM;
  if (d != &device || !r->alloc_size || r->alloc_size % PAGE || r->phys_alignment % PAGE || (!vram && r->preferred_heap != AMDGPU_GEM_DOMAIN_GTT) || r->flags & ~known ||
      !(r->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID) || (vram && r->flags & AMDGPU_GEM_CREATE_CPU_GTT_USWC))
    return fault("amdgpu_bo_alloc: size %llu, heap %u, flags %llx", (unsigned long long)r->alloc_size, r->preferred_heap, (unsigned long long)r->flags), -EINVAL;
  if (control.memory && vram && used + r->alloc_size > control.memory) return -ENOMEM;
  char *memory = poisoned(NULL, r->alloc_size);
  if (!memory) return -ENOMEM;
  *out = add_buffer(memory, r->alloc_size);
  (*out)->device_only = (r->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) != 0;
  if (vram) used += r->alloc_size;
  return 0;
}
EXPORT int amdgpu_create_bo_from_user_mem(amdgpu_device_handle d, void *at, uint64_t bytes, amdgpu_bo_handle *out) {
  ENTER();
  if (d != &device || (uintptr_t)at % PAGE || bytes % PAGE || !bytes) return -EINVAL;
  *out = add_buffer(at, bytes);
  (*out)->foreign = true;
  return 0;
}
EXPORT int amdgpu_bo_free(amdgpu_bo_handle b) {
  if (b->freed || b->mapped || b->host_mapped) fault("a buffer is freed %s", b->freed ? "twice" : "that is still mapped");
  if (!b->foreign) poisoned(b->memory, b->bytes);
  b->freed = true, control.live--;
  return 0;
}
EXPORT int amdgpu_bo_cpu_map(amdgpu_bo_handle b, void **out) {
  ENTER();
  if (b->device_only || b->freed) return fault("the host maps a buffer that it may not reach"), -EINVAL;
  b->host_mapped = true, *out = b->memory, control.live++;
  return 0;
}
EXPORT int amdgpu_bo_cpu_unmap(amdgpu_bo_handle b) {
  if (!b->host_mapped) return fault("a buffer is unmapped that is not mapped"), -EINVAL;
  b->host_mapped = false, control.live--;
  return 0;
}
EXPORT int amdgpu_va_range_alloc(amdgpu_device_handle d, enum amdgpu_gpu_va_range range, uint64_t bytes, uint64_t alignment, uint64_t wanted, uint64_t *address,
                                 amdgpu_va_handle *out, uint64_t flags) {
  ENTER();
  if (d != &device || range != amdgpu_gpu_va_range_general || bytes % PAGE || alignment % PAGE || wanted % PAGE || (!wanted && flags != AMDGPU_VA_RANGE_HIGH) || (wanted && flags))
    return fault("amdgpu_va_range_alloc: %llu bytes", (unsigned long long)bytes), -EINVAL;
  struct amdgpu_va *v = malloc(sizeof *v);
  if (!wanted) {
    if (alignment) next_address = (next_address + alignment - 1) / alignment * alignment;
    wanted = next_address, next_address += bytes + 16 * PAGE;   /* what lies beyond is not mapped */
  }
  *v = (struct amdgpu_va){.address = *address = wanted, .bytes = bytes};
  *out = v, control.live++;
  return 0;
}
EXPORT int amdgpu_va_range_free(amdgpu_va_handle v) { return free(v), control.live--, 0; }
EXPORT int amdgpu_bo_va_op(amdgpu_bo_handle b, uint64_t offset, uint64_t bytes, uint64_t address, uint64_t flags, uint32_t what) {
  if (what == AMDGPU_VA_OP_MAP) {
    ENTER();
    const uint64_t all = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;
    if (offset || bytes != b->bytes || flags != all || b->mapped || b->freed || address % PAGE) return fault("amdgpu_bo_va_op: a wrong mapping"), -EINVAL;
    b->address = address, b->mapped = true;
    caches_fill(b);
    control.live++;
    return 0;
  }
  if (what != AMDGPU_VA_OP_UNMAP || !b->mapped || address != b->address) return fault("amdgpu_bo_va_op: what is not mapped is unmapped"), -EINVAL;
  b->mapped = false, control.live--;
  caches_drop(b);
  return 0;
}

/* ---- contexts and timelines ---- */

EXPORT int amdgpu_cs_ctx_create2(amdgpu_device_handle d, uint32_t priority, amdgpu_context_handle *out) {
  ENTER();
  if (d != &device || priority) return -EINVAL;
  *out = calloc(1, sizeof **out), control.live++;
  return 0;
}
EXPORT int amdgpu_cs_ctx_free(amdgpu_context_handle c) {
  for (uint32_t i = 0; i < jobs_n; i++) if (jobs[i].context == c && !lost) fault("a context is freed while its work is under way");
  return free(c), control.live--, 0;
}
EXPORT int amdgpu_cs_query_reset_state2(amdgpu_context_handle c, uint64_t *flags) {
  ENTER();
  told |= lost;
  *flags = lost ? AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST : 0;
  return c ? 0 : -EINVAL;
}
EXPORT int amdgpu_cs_create_syncobj(amdgpu_device_handle d, uint32_t *out) {
  ENTER();
  for (uint32_t i = 1; i < MOST_POINTS && d == &device; i++)
    if (!timelines[i].live) {
      timelines[i].live = true, timelines[i].reached = timelines[i].submitted = 0;
      *out = i, control.live++;
      return 0;
    }
  return -ENOMEM;
}
EXPORT int amdgpu_cs_destroy_syncobj(amdgpu_device_handle d, uint32_t h) {
  if (d != &device || h >= MOST_POINTS || !timelines[h].live) return fault("a timeline is freed that is not there"), -EINVAL;
  timelines[h].live = false, control.live--;
  return 0;
}

static void run_job(uint32_t i) {
  job j = jobs[i];
  memmove(&jobs[i], &jobs[i + 1], (--jobs_n - i) * sizeof j);
  trace("%s %u words%s\n", j.ip == AMDGPU_HW_IP_COMPUTE ? "compute" : "copies", j.bytes / 4, j.waits_n ? ", behind others" : "");
  if (!lost) j.ip == AMDGPU_HW_IP_COMPUTE ? run_compute(j.address, j.bytes) : run_copies(j.address, j.bytes);
  for (uint32_t k = 0; k < j.signals_n; k++)
    if (timelines[j.signals[k].handle].reached < j.signals[k].point) timelines[j.signals[k].handle].reached = j.signals[k].point;
}

static bool may_run(uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (jobs[k].context == jobs[i].context && jobs[k].ip == jobs[i].ip) return false;   /* a ring is in order */
  for (uint32_t k = 0; k < jobs[i].waits_n; k++)
    if (timelines[jobs[i].waits[k].handle].reached < jobs[i].waits[k].point) return false;
  return true;
}

EXPORT int amdgpu_cs_syncobj_timeline_wait(amdgpu_device_handle d, uint32_t *h, uint64_t *points, unsigned n, int64_t deadline, unsigned flags, uint32_t *first) {
  ENTER();
  (void)first;
  if (d != &device || n != 1 || flags || *h >= MOST_POINTS || !timelines[*h].live) return fault("amdgpu_cs_syncobj_timeline_wait: wrong arguments"), -EINVAL;
  if (*points > timelines[*h].submitted) return fault("a wait for a point that was not submitted"), -EINVAL;
  if (timelines[*h].reached >= *points) return 0;
  if (!deadline) return -ETIME;
  if (control.hang_waits && control.hang_waits--) return -ETIME;
  while (timelines[*h].reached < *points) {
    uint32_t ready[MOST_JOBS], ready_n = 0;
    for (uint32_t i = 0; i < jobs_n; i++)
      if (may_run(i)) ready[ready_n++] = i;
    if (!ready_n) return fault("all rings wait for one another"), -ETIME;
    run_job(ready[draw() % ready_n]);
  }
  return 0;
}

/* ---- submissions ---- */

static int take_chunk(job *j, const struct drm_amdgpu_cs_chunk *c) {
  const void *data = (const void *)(uintptr_t)c->chunk_data;
  if (c->chunk_id == AMDGPU_CHUNK_ID_IB) {
    const struct drm_amdgpu_cs_chunk_ib *ib = data;
    if (c->length_dw != sizeof *ib / 4 || j->bytes || ib->flags || ib->ip_instance || ib->ring || ib->_pad || !ib->ib_bytes || ib->ib_bytes % 32 || ib->va_start % 256) return -EINVAL;
    j->address = ib->va_start, j->bytes = ib->ib_bytes, j->ip = ib->ip_type;
    return j->ip == AMDGPU_HW_IP_COMPUTE || j->ip == AMDGPU_HW_IP_DMA ? 0 : -EINVAL;
  }
  bool wait = c->chunk_id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT;
  if (!wait && c->chunk_id != AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL) return -EINVAL;
  const struct drm_amdgpu_cs_chunk_syncobj *s = data;
  if (!c->length_dw || c->length_dw % (sizeof *s / 4)) return -EINVAL;
  for (uint32_t i = 0; i < c->length_dw / (sizeof *s / 4); i++) {
    if (s[i].handle >= MOST_POINTS || !timelines[s[i].handle].live || s[i].flags || !s[i].point) return -EINVAL;
    if (wait && s[i].point > timelines[s[i].handle].submitted) return -EINVAL;
    if (!wait && s[i].point <= timelines[s[i].handle].submitted) return -EINVAL;
    if (wait ? j->waits_n == MOST_POINTS : j->signals_n == 4) return -EINVAL;
    (wait ? j->waits : j->signals)[wait ? j->waits_n++ : j->signals_n++] = (point){s[i].handle, s[i].point};
  }
  return 0;
}

EXPORT int amdgpu_cs_submit_raw2(amdgpu_device_handle d, amdgpu_context_handle c, uint32_t list, int n, struct drm_amdgpu_cs_chunk *chunks, uint64_t *number) {
  ENTER();
  job j = {.context = c};
  if (control.busy_submits && control.busy_submits--) return -ENOMEM;
  if (++control.submits == control.lose_submit) {
    lost = true;
    for (uint32_t i = 0; i < jobs_n; i++)
      for (uint32_t k = 0; k < jobs[i].signals_n; k++) timelines[jobs[i].signals[k].handle].reached = jobs[i].signals[k].point;
    jobs_n = 0;
    if (!control.lose_later) return told = true, -ECANCELED;
  } else if (lost) {
    if (told) fault("a submission to a device that is known to be lost");
    return told = true, -ECANCELED;
  }
  if (d != &device || !c || list || n < 1) return fault("amdgpu_cs_submit_raw2: wrong arguments"), -EINVAL;
  for (int i = 0; i < n; i++)
    if (take_chunk(&j, &chunks[i])) return fault("amdgpu_cs_submit_raw2: chunk %d (of kind %u) is wrong", i, chunks[i].chunk_id), -EINVAL;
  if (!j.bytes || j.signals_n != 1) return fault("a submission without words, or without a point"), -EINVAL;
  for (uint32_t k = 0; k < j.signals_n; k++) timelines[j.signals[k].handle].submitted = j.signals[k].point;
  if (control.nothing) return timelines[j.signals[0].handle].reached = j.signals[0].point, *number = (uint64_t)control.submits, 0;
  if (jobs_n == MOST_JOBS) run_job(0);
  jobs[jobs_n++] = j;
  if (lost) run_job(jobs_n - 1);
  *number = (uint64_t)control.submits;
  return 0;
}
