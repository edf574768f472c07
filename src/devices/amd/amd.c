/* SPDX-License-Identifier: MIT
 * AMD's GPUs through Linux's amdgpu driver: libdrm_amdgpu is opened at run time, packets go to the compute ring by
 * command submission. No HSA and no ROCm. A kernel's object is LLVM's relocatable ELF, placed here. docs/devices.md
 * tells which chips, what is proved and how. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include "devices/amd/amd.h"
#include "devices/amd/place.h"

enum { PAGE = 4096, HUGE = 2 << 20, LEAST_MAJOR = 3, LEAST_MINOR = 32 };   /* 3.32: timelines */

tg_status tg_amd_failure(const char *what, int code, char *message, size_t n) {
  if (code == -ECANCELED || code == -ENODATA || code == -ETIME || code == -ENODEV) {
    snprintf(message, n, "amdgpu: %s failed (%d): the device was reset or removed", what, code);
    return TG_LOST;
  }
  snprintf(message, n, "amdgpu: %s failed: %d", what, code);
  return code == -ENOMEM ? TG_ENOMEM : TG_EIO;
}

/* ---- what there is ---- */

typedef struct { tg_drm_handle device; int node; uint32_t major, minor; tg_drm_chip about; } card;

static bool open_card(const tg_drm *f, uint32_t i, card *c) {
  *c = (card){.node = tg_amd_drm_node(f, i)};
  if (c->node < 0) return false;
  if (f->amdgpu_device_initialize(c->node, &c->major, &c->minor, &c->device)) c->device = NULL;
  else if (f->amdgpu_query_gpu_info(c->device, &c->about)) c->about.family = 0;
  return true;
}

static void close_card(const tg_drm *f, card *c) {
  if (c->device) f->amdgpu_device_deinitialize(c->device);
  if (c->node >= 0) close(c->node);
}

static bool has_ring(const tg_drm *f, const card *c, unsigned kind) {
  tg_drm_ip ip = {0};
  return !f->amdgpu_query_hw_ip_info(c->device, kind, 0, &ip) && ip.rings & 1;
}

static void find_lacks(const tg_drm *f, const card *c, const tg_amd_chip *chip, char *out, size_t n) {
  if (!c->device) snprintf(out, n, "the kernel's driver does not open it");
  else if (c->major != LEAST_MAJOR || c->minor < LEAST_MINOR)
    snprintf(out, n, "the kernel's driver is version %u.%u, which has no timelines; %d.%d has", c->major, c->minor,
             LEAST_MAJOR, LEAST_MINOR);
  else if (!chip)
    snprintf(out, n, "tg has no target for chips of family %u, revision %u", c->about.family,
             c->about.external_revision);
  else if (chip->lacks) snprintf(out, n, "%s", chip->lacks);
  else if (!has_ring(f, c, TG_DRM_COMPUTE)) snprintf(out, n, "it has no compute ring");
  else if (!has_ring(f, c, TG_DRM_DMA)) snprintf(out, n, "it has no copy engine");
}

static bool describe(uint32_t i, tg_device_info *out) {
  tg_drm f;
  card c;
  tg_drm_heap heap = {0};
  if (!tg_amd_drm_open(&f)) return false;
  bool there = open_card(&f, i, &c);
  if (there) {
    const tg_amd_chip *chip = c.device ? tg_amd_chip_of(c.about.family, c.about.external_revision) : NULL;
    const char *name = c.device ? f.amdgpu_get_marketing_name(c.device) : NULL;
    if (c.device && f.amdgpu_query_heap_info(c.device, TG_DRM_VRAM, 0, &heap)) heap.size = 0;
    *out = (tg_device_info){.cores = c.about.compute_units, .memory = heap.size, .index = i};
    snprintf(out->driver, sizeof out->driver, "amd");
    snprintf(out->name, sizeof out->name, "%.100s", name ? name : "an AMD GPU");
    snprintf(out->target, sizeof out->target, "%s", chip ? chip->target : "");
    snprintf(out->chip, sizeof out->chip, "%s", chip ? chip->name : "");
    snprintf(out->version, sizeof out->version, "%u.%u", c.major, c.minor);
    find_lacks(&f, &c, chip, out->lacks, sizeof out->lacks);
  }
  close_card(&f, &c);
  tg_amd_drm_close(&f);
  return there;
}

/* ---- the device ---- */

static void close_device(tg_device *device) {
  tg_amd_device *d = (tg_amd_device *)device;
  tg_allocator a = d->head.allocator;
  if (d->upload) tg_amd_queue_close(&d->upload->head);
  close_card(&d->f, &(card){.device = d->device, .node = d->node});
  tg_amd_drm_close(&d->f);
  pthread_mutex_destroy(&d->lock);
  pthread_mutex_destroy(&d->upload_lock);
  a.free(a.user, d, sizeof *d);
}

static void fill_target(tg_amd_device *d, const card *c) {
  tg_target *t = &d->target;
  tg_target_row(t, d->chip->target);
  snprintf(t->cpu, sizeof t->cpu, "%s", d->chip->name);
  snprintf(t->silicon, sizeof t->silicon, "%s %u", d->chip->name, c->about.compute_units);
  if (c->about.compute_units) t->threads = c->about.compute_units;
}

static tg_status open_device(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  card c;
  char lacks[256] = "";
  if (head->native) return snprintf(message, n, "an AMD device takes no context of the program's"), TG_EINVAL;
  tg_amd_device *d = head->allocator.alloc(head->allocator.user, sizeof *d);
  if (!d) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *d = (tg_amd_device){.head = *head, .node = -1};
  d->head.driver = &tg_driver_amd;
  d->head.target = &d->target;
  pthread_mutex_init(&d->lock, NULL);
  pthread_mutex_init(&d->upload_lock, NULL);
  if (!tg_amd_drm_open(&d->f) || !open_card(&d->f, i, &c)) {
    close_device(&d->head);
    return snprintf(message, n, "the device is gone"), TG_MISS;
  }
  d->device = c.device, d->node = c.node;
  d->chip = tg_amd_chip_of(c.about.family, c.about.external_revision);
  find_lacks(&d->f, &c, d->chip, lacks, sizeof lacks);
  if (lacks[0]) {
    close_device(&d->head);
    return snprintf(message, n, "%s", lacks), TG_EIO;
  }
  d->clock_hertz = 1e3 * c.about.clock_khz;
  fill_target(d, &c);
  tg_queue *upload = NULL;
  tg_status s = tg_amd_queue_open(&(tg_queue){.device = &d->head, .options.kind = TG_QUEUE_COPY}, &upload, message, n);
  d->upload = (tg_amd_queue *)upload;
  if (s == TG_OK) *out = &d->head;
  else close_device(&d->head);
  return s;
}

/* ---- memory ---- */

void tg_amd_release(tg_amd_device *d, tg_amd_memory *m) {
  if (m->mapped) d->f.amdgpu_bo_va_op(m->buffer, 0, m->bytes, m->address, 0, TG_DRM_UNMAP);
  if (m->range) d->f.amdgpu_va_range_free(m->range);
  if (m->host_mapped) d->f.amdgpu_bo_cpu_unmap(m->buffer);
  if (m->buffer) d->f.amdgpu_bo_free(m->buffer);
  *m = (tg_amd_memory){0};
}

/* Puts the buffer of m at an address of the device: at `wanted`, or, if that is 0, anywhere in the upper half. */
static int map(tg_amd_device *d, tg_amd_memory *m, uint64_t wanted) {
  uint64_t align = !wanted && m->bytes >= HUGE ? HUGE : PAGE;   /* large pages of the device's tables */
  int code = d->f.amdgpu_va_range_alloc(d->device, 0, m->bytes, align, wanted, &m->address, &m->range,
                                        wanted ? 0 : TG_DRM_RANGE_HIGH);
  if (!code) code = d->f.amdgpu_bo_va_op(m->buffer, 0, m->bytes, m->address, TG_DRM_PAGES, TG_DRM_MAP);
  m->mapped = !code;
  return code;
}

static tg_status allocate(tg_amd_device *d, uint64_t bytes, uint32_t heap, uint64_t flags, bool host, bool same,
                          tg_amd_memory *m, char *message, size_t n) {
  uint64_t rounded = bytes ? (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1) : PAGE;
  *m = (tg_amd_memory){.bytes = rounded};
  tg_drm_allocation r = {.bytes = rounded, .alignment = PAGE, .heap = heap, .flags = flags | TG_DRM_ALWAYS_VALID};
  int code = rounded < bytes ? -ENOMEM : d->f.amdgpu_bo_alloc(d->device, &r, &m->buffer);
  if (code) m->buffer = NULL;
  if (!code && host) {
    void *at = NULL;
    code = d->f.amdgpu_bo_cpu_map(m->buffer, &at);
    m->host = at, m->host_mapped = !code;
  }
  if (!code) code = map(d, m, same ? (uint64_t)(uintptr_t)m->host : 0);
  if (!code) return TG_OK;
  tg_amd_release(d, m);
  if (code != -ENOMEM) return tg_amd_failure("allocating memory", code, message, n);
  return snprintf(message, n, "out of memory: %llu bytes of the device's", (unsigned long long)bytes), TG_ENOMEM;
}

tg_status tg_amd_allocate(tg_amd_device *d, uint64_t bytes, uint32_t heap, uint64_t flags, bool host, tg_amd_memory *m,
                          char *message, size_t n) {
  return allocate(d, bytes, heap, flags, host, false, m, message, n);
}

static void free_memory(tg_device *device, const tg_piece *p) {
  tg_amd_device *d = (tg_amd_device *)device;
  tg_allocator a = device->allocator;
  tg_amd_settle(d);
  tg_amd_release(d, p->own);
  a.free(a.user, p->own, sizeof(tg_amd_memory));
}

/* own: the memory, as it will be described. */
static tg_status begin_piece(tg_device *d, tg_piece *p, char *message, size_t n) {
  p->own = d->allocator.alloc(d->allocator.user, sizeof(tg_amd_memory));
  if (!p->own) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *(tg_amd_memory *)p->own = (tg_amd_memory){.bytes = p->bytes, .host = (char *)(uintptr_t)p->at};
  return TG_OK;
}

static tg_status end_piece(tg_device *d, tg_piece *p, tg_status s) {
  if (s != TG_OK) free_memory(d, p);
  else p->at = (const char *)(uintptr_t)((tg_amd_memory *)p->own)->address;
  return s;
}

static tg_status alloc_memory(tg_device *device, uint32_t kind, tg_piece *p, char *message, size_t n) {
  tg_amd_device *d = (tg_amd_device *)device;
  bool host = kind == TG_MEMORY_HOST;
  tg_status s = begin_piece(device, p, message, n);
  if (s != TG_OK) return s;
  return end_piece(device, p, allocate(d, p->bytes, host ? TG_DRM_GTT : TG_DRM_VRAM, host ? 0 : TG_DRM_NO_CPU_ACCESS,
                                       host, host, p->own, message, n));
}

static tg_status import(tg_device *device, uint32_t what, tg_piece *p, char *message, size_t n) {
  tg_amd_device *d = (tg_amd_device *)device;
  if (what != TG_IMPORT_PAGES)
    return snprintf(message, n, "an AMD device imports pages of the process alone"), TG_EINVAL;
  tg_status s = begin_piece(device, p, message, n);
  if (s != TG_OK) return s;
  tg_amd_memory *m = p->own;
  int code = d->f.amdgpu_create_bo_from_user_mem(d->device, m->host, m->bytes, &m->buffer);
  if (code) m->buffer = NULL;
  else code = map(d, m, (uint64_t)(uintptr_t)m->host);
  return end_piece(device, p, code ? tg_amd_failure("importing memory", code, message, n) : TG_OK);
}

/* ---- kernels ---- */

static void unload(tg_device_kernel *head) {
  tg_amd_code *k = (tg_amd_code *)head;
  tg_amd_device *d = (tg_amd_device *)head->device;
  tg_allocator a = d->head.allocator;
  tg_amd_settle(d);
  tg_amd_release(d, &k->code);
  if (k->entry) a.free(a.user, k->entry, k->entries * sizeof *k->entry);
  tg_device_kernel_drop(head);
  a.free(a.user, k, sizeof *k);
}

/* Reads the descriptor of each entry. Returns NULL, or what is wrong. */
static const char *find_entries(tg_amd_code *k, const tg_amd_image *m) {
  enum { KNOWN = 1 << 0 | 1 << 3 | 1 << 10 };   /* private segment buffer, arguments, wave32 */
  const tg_code_info *info = &k->head.info;
  const char *name = tg_signature_strings(k->head.signature) + k->head.signature->name;
  uint32_t words = info->buffers + (info->shared > 0) + info->params;
  for (uint32_t i = 0; i < k->entries; i++) {
    char text[256];
    tg_amdgpu_kernel a;
    uint64_t at;
    snprintf(text, sizeof text, "%.200s_%u%s", name, i % info->phases, i < info->phases ? "" : "_unaligned");
    if (!tg_amdgpu_kernel_of(&m->object, text, &a) || !a.entry_known || !tg_amd_image_find(m, a.code, &at) || at % 256)
      return "a kernel is missing";
    if (a.scratch) return "a kernel needs scratch memory";
    if (a.properties & ~KNOWN || a.arguments < 8 * words || a.arguments > 8 * words + 256)
      return "a kernel wants other arguments";
    k->entry[i] = (tg_amd_entry){.entry = at, .rsrc1 = a.rsrc1, .rsrc2 = a.rsrc2, .rsrc3 = a.rsrc3,
                                 .local = a.local, .arguments = a.arguments, .properties = a.properties};
  }
  return NULL;
}

/* Writes the image to memory of the card, by a copy engine: the host may not reach all of that memory. */
static tg_status upload(tg_amd_code *k, const tg_amd_image *m, char *message, size_t n) {
  tg_amd_device *d = (tg_amd_device *)k->head.device;
  tg_allocator a = d->head.allocator;
  char *image = a.alloc(a.user, m->bytes);
  if (!image) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  const char *wrong = tg_amd_image_write(m, image);
  tg_status s = TG_INTERNAL;
  if (wrong) snprintf(message, n, "the object is no AMD kernel: %s", wrong);
  else {
    pthread_mutex_lock(&d->upload_lock);
    s = tg_amd_queue_copy_in(d->upload, k->code.address, image, m->bytes, message, n);
    pthread_mutex_unlock(&d->upload_lock);
  }
  a.free(a.user, image, m->bytes);
  return s;
}

static tg_status place(tg_amd_code *k, const tg_object_view *o, uint64_t *offsets, char *message, size_t n) {
  enum { AHEAD = 256 };   /* instructions are fetched ahead of the last one */
  tg_amd_device *d = (tg_amd_device *)k->head.device;
  tg_amd_image image;
  const char *wrong = tg_amd_image_lay(&image, o, offsets);
  if (!wrong) wrong = find_entries(k, &image);
  if (wrong) return snprintf(message, n, "the object is no AMD kernel: %s", wrong), TG_INTERNAL;
  tg_status s = tg_amd_allocate(d, image.bytes + AHEAD, TG_DRM_VRAM, TG_DRM_NO_CPU_ACCESS, false, &k->code, message, n);
  if (s == TG_OK) s = upload(k, &image, message, n);
  for (uint32_t i = 0; i < k->entries; i++) k->entry[i].entry += k->code.address;
  return s;
}

static tg_status fill(tg_device_kernel *head, const tg_device_object *o, char *message, size_t n) {
  tg_amd_code *k = (tg_amd_code *)head;
  tg_allocator a = head->device->allocator;
  tg_object_view view;
  snprintf(message, n, "out of memory");
  head->scratch = (size_t)o->info->shared;
  k->entries = o->info->phases * (o->info->aligned ? 2 : 1);
  k->entry = k->entries && k->entries < 1 << 16 ? a.alloc(a.user, k->entries * sizeof *k->entry) : NULL;
  void *object = k->entry ? a.alloc(a.user, o->bytes ? o->bytes : 1) : NULL;
  if (!object) return TG_ENOMEM;
  if (o->bytes) memcpy(object, o->data, o->bytes);   /* aligned, as the reader wants it */
  tg_status s = TG_INTERNAL;
  uint64_t *offsets = NULL;
  if (!tg_object_open(&view, object, o->bytes)) snprintf(message, n, "the object is no AMD kernel: it is damaged");
  else if (!(offsets = a.alloc(a.user, view.sections_n * sizeof *offsets))) s = TG_ENOMEM;
  else s = place(k, &view, offsets, message, n);
  if (offsets) a.free(a.user, offsets, view.sections_n * sizeof *offsets);
  a.free(a.user, object, o->bytes ? o->bytes : 1);
  return s;
}

static tg_status load(tg_device *d, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  return tg_device_kernel_load(&tg_driver_amd, d, sizeof(tg_amd_code), o, fill, out, err);
}

const tg_driver tg_driver_amd = {
  .name = "amd",
  .describe = describe,
  .open = open_device,
  .close = close_device,
  .alloc = alloc_memory,
  .import = import,
  .free = free_memory,
  .load = load,
  .unload = unload,
  .queue_open = tg_amd_queue_open,
  .queue_close = tg_amd_queue_close,
  .launch = tg_amd_queue_launch,
  .copy = tg_amd_queue_copy,
  .after = tg_amd_queue_after,
  .stamp = tg_amd_queue_stamp,
  .submit = tg_amd_queue_submit,
  .wait = tg_amd_queue_wait,
  .stamps = tg_amd_queue_stamps,
  .graph_make = tg_amd_graph_make,
  .graph_put = tg_amd_graph_put,
  .graph_drop = tg_amd_graph_drop,
};
