/* SPDX-License-Identifier: MIT
 * Queues: work is written as packets into a slot of the queue, which is submitted as one command buffer. Memory of the
 * process that the device does not reach is copied through the queue's staging memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include "devices/amd/amd.h"

enum { HALF = 4 << 20, PART = HALF - 64, SECONDS = 10 };
enum { WORDS_AROUND = TG_AMD_BEGIN_WORDS + TG_AMD_END_WORDS + TG_AMD_PAD_WORDS };
_Static_assert((int)PART <= (int)TG_AMD_COPY_MOST, "a half of the staging memory is one copy");

static tg_amd_device *device_of(const tg_amd_queue *q) { return (tg_amd_device *)q->head.device; }

/* ---- life ---- */

/* 0, -ETIME or another error. */
static int look(tg_amd_queue *q, uint64_t point, int64_t nanoseconds) {
  tg_amd_device *d = device_of(q);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t deadline = now.tv_sec * 1000000000ll + now.tv_nsec + nanoseconds;
  if (!nanoseconds) deadline = 0;
  return d->f.amdgpu_cs_syncobj_timeline_wait(d->device, &q->timeline, &point, 1, deadline, 0, NULL);
}

static void settle(tg_amd_queue *q) {
  enum { TRIES = 3 };
  const int64_t second = 1000000000;
  uint64_t flags = 0, point = q->submitted;
  for (int i = 0; i < TRIES && point; i++) {
    int code = look(q, point, second);
    if (!code || device_of(q)->f.amdgpu_cs_query_reset_state2(q->context, &flags) || flags) return;
    if (code == -ETIME) i = -1;
  }
}

void tg_amd_settle(tg_amd_device *d) {
  pthread_mutex_lock(&d->lock);
  for (tg_amd_queue *q = d->queues; q; q = q->next) settle(q);
  pthread_mutex_unlock(&d->lock);
}

void tg_amd_queue_close(tg_queue *head) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  tg_amd_device *d = device_of(q);
  pthread_mutex_lock(&d->lock);
  tg_amd_queue **at = &d->queues;
  while (*at && *at != q) at = &(*at)->next;
  if (*at) *at = q->next;
  pthread_mutex_unlock(&d->lock);
  settle(q);
  if (q->timeline) d->f.amdgpu_cs_destroy_syncobj(d->device, q->timeline);
  if (q->context) d->f.amdgpu_cs_ctx_free(q->context);
  tg_amd_release(d, &q->slots);
  tg_amd_release(d, &q->stamps);
  tg_amd_release(d, &q->staging);
  d->head.allocator.free(d->head.allocator.user, q, sizeof *q);
}

tg_status tg_amd_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n) {
  tg_amd_device *d = (tg_amd_device *)head->device;
  if (head->options.native) return snprintf(message, n, "an AMD device takes no queue of the program's"), TG_EINVAL;
  tg_amd_queue *q = d->head.allocator.alloc(d->head.allocator.user, sizeof *q);
  if (!q) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *q = (tg_amd_queue){.head = *head};
  q->ring = head->options.kind == TG_QUEUE_COPY ? TG_DRM_DMA : TG_DRM_COMPUTE;
  int code = d->f.amdgpu_cs_ctx_create2(d->device, 0, &q->context);
  if (code) q->context = NULL;
  if (!code && (code = d->f.amdgpu_cs_create_syncobj(d->device, &q->timeline))) q->timeline = 0;
  tg_status s = code ? tg_amd_failure("opening a queue", code, message, n) : TG_OK;
  if (s == TG_OK)
    s = tg_amd_allocate(d, TG_AMD_SLOTS * TG_AMD_SLOT_BYTES, TG_DRM_GTT, TG_DRM_WRITE_COMBINED, true, &q->slots,
                        message, n);
  if (s == TG_OK) s = tg_amd_allocate(d, 8 * TG_QUEUE_STAMPS, TG_DRM_GTT, 0, true, &q->stamps, message, n);
  if (s != TG_OK) {
    tg_amd_queue_close(&q->head);
    return s;
  }
  pthread_mutex_lock(&d->lock);
  q->next = d->queues;
  d->queues = q;
  pthread_mutex_unlock(&d->lock);
  *out = &q->head;
  return TG_OK;
}

/* ---- waiting ---- */

/* Tells the log of the first submission that has not ended, with its packets. Other threads may submit meanwhile; slots
 * of points that are not reached stay as they are. */
static void report(tg_amd_queue *q, uint64_t point) {
  tg_amd_device *d = device_of(q);
  tg_allocator a = d->head.allocator;
  uint64_t first = point > TG_AMD_SLOTS ? point - TG_AMD_SLOTS : 1;
  while (first < point && !look(q, first, 0)) first++;
  if (!d->head.log || atomic_exchange(&q->reported, first) == first) return;
  pthread_mutex_lock(&d->lock);
  const tg_amd_sent *sent = &q->sent[(first - 1) % TG_AMD_SLOTS];
  size_t bytes = 160 + 9 * (size_t)sent->n, at;
  char *text = a.alloc(a.user, bytes);
  if (text) {
    at = (size_t)snprintf(text, bytes, "amd: work has not ended after %d s; the %s ring's packets:", SECONDS,
                          sent->ring == TG_DRM_COMPUTE ? "compute" : "copy");
    for (uint32_t i = 0; i < sent->n; i++)
      at += (size_t)snprintf(text + at, bytes - at, "%c%08x", i % 8 ? ' ' : '\n', sent->words[i]);
  }
  pthread_mutex_unlock(&d->lock);
  if (!text) return;
  d->head.log(d->head.log_user, text);
  a.free(a.user, text, bytes);
}

static tg_status check_reset(tg_amd_queue *q, char *message, size_t n) {
  tg_amd_device *d = device_of(q);
  uint64_t flags = 0;
  int code = d->f.amdgpu_cs_query_reset_state2(q->context, &flags);
  if (code) return tg_amd_failure("asking for resets", code, message, n);
  if (!(flags & (TG_DRM_RESET | TG_DRM_VRAM_LOST))) return TG_OK;
  return snprintf(message, n, "amdgpu: the device was reset"), TG_LOST;
}

tg_status tg_amd_queue_wait(tg_queue *head, uint64_t point, int64_t nanoseconds, char *message, size_t n) {
  const int64_t most = SECONDS * 1000000000ll;
  tg_amd_queue *q = (tg_amd_queue *)head;
  int code = point ? -ETIME : 0;
  while (code == -ETIME) {
    int64_t part = nanoseconds < 0 || nanoseconds > most ? most : nanoseconds;
    code = look(q, point, part);
    if (code != -ETIME) break;
    if (nanoseconds >= 0) nanoseconds -= part;
    if (part == most) report(q, point);
    tg_status s = check_reset(q, message, n);
    if (s != TG_OK) return s;
    if (!nanoseconds) return snprintf(message, n, "the work has not ended yet"), TG_TIMEOUT;
  }
  if (code) return tg_amd_failure("waiting", code, message, n);
  return check_reset(q, message, n);
}

/* ---- submissions ---- */

/* The kernel has no memory for a submission for a moment when many are under way. */
static int submit_chunks(tg_amd_queue *q, tg_drm_chunk *chunks, int chunks_n) {
  enum { TRIES = 1000 };
  tg_amd_device *d = device_of(q);
  uint64_t number;
  int code = -ENOMEM;
  for (int i = 0; i < TRIES && code == -ENOMEM; i++) {
    if (i) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    code = d->f.amdgpu_cs_submit_raw2(d->device, q->context, 0, chunks_n, chunks, &number);
  }
  return code;
}

static void note(tg_amd_queue *q, const tg_amd_block *b) {
  tg_amd_device *d = device_of(q);
  pthread_mutex_lock(&d->lock);
  q->sent[q->submitted % TG_AMD_SLOTS] = (tg_amd_sent){b->stream.at, b->stream.n, q->ring};
  pthread_mutex_unlock(&d->lock);
}

void tg_amd_forget(tg_amd_device *d, const tg_amd_block *b) {
  pthread_mutex_lock(&d->lock);
  for (tg_amd_queue *q = d->queues; q; q = q->next)
    for (uint32_t i = 0; i < TG_AMD_SLOTS; i++)
      if (q->sent[i].words == b->stream.at) q->sent[i].n = 0;
  pthread_mutex_unlock(&d->lock);
}

/* Submits the block as the next point. */
static tg_status submit(tg_amd_queue *q, const tg_amd_block *b, char *message, size_t n) {
  tg_drm_ib ib = {.address = b->address, .bytes = 4 * b->stream.n, .ip = q->ring};
  tg_drm_point signal = {.handle = q->timeline, .point = q->submitted + 1};
  tg_drm_chunk chunks[3] = {{TG_DRM_CHUNK_IB, sizeof ib / 4, (uint64_t)(uintptr_t)&ib},
                            {TG_DRM_CHUNK_SIGNAL, sizeof signal / 4, (uint64_t)(uintptr_t)&signal},
                            {TG_DRM_CHUNK_WAIT, q->waits_n * (uint32_t)sizeof signal / 4,
                             (uint64_t)(uintptr_t)q->waits}};
  note(q, b);
  int code = submit_chunks(q, chunks, q->waits_n ? 3 : 2);
  q->waits_n = 0;
  if (code) return tg_amd_failure("a submission", code, message, n);
  q->last_ring = q->ring;
  q->submitted++;
  return TG_OK;
}

void tg_amd_block_begin(tg_amd_block *b, uint32_t ring) {
  b->stream.n = b->arguments = 0;
  b->busy = false;
  if (ring == TG_DRM_COMPUTE) tg_amd_begin(&b->stream);
}

void tg_amd_block_end(tg_amd_block *b, uint32_t ring) {
  if (ring == TG_DRM_COMPUTE) tg_amd_end(&b->stream), tg_amd_pad(&b->stream);
  else tg_amd_copy_pad(&b->stream);
}

/* Ends the stream under way, and submits it. */
static tg_status flush(tg_amd_queue *q, char *message, size_t n) {
  if (!q->open) return TG_OK;
  q->open = false;
  tg_amd_block_end(&q->block, q->ring);
  return submit(q, &q->block, message, n);
}

/* The next point is to be one of this ring's: once what had its slot has ended, and behind the other ring. */
static tg_status turn_to(tg_amd_queue *q, uint32_t ring, char *message, size_t n) {
  uint64_t point = q->submitted + 1;
  tg_status s = TG_OK;
  if (point > TG_AMD_SLOTS) s = tg_amd_queue_wait(&q->head, point - TG_AMD_SLOTS, -1, message, n);
  if (s != TG_OK) return s;
  if (q->submitted && q->last_ring != ring)
    q->waits[q->waits_n++] = (tg_drm_point){.handle = q->timeline, .point = q->submitted};
  q->ring = ring;
  return TG_OK;
}

/* The stream gets `words` words and `arguments` bytes more on this ring: the one under way, or a new one in the next
 * slot. */
static tg_status use(tg_amd_queue *q, uint32_t ring, uint32_t words, uint32_t arguments, char *message, size_t n) {
  uint64_t room = q->open ? TG_AMD_SLOT_BYTES - 4ull * q->block.stream.n - q->block.arguments : 0;
  if (q->open && q->ring == ring && 4ull * (words + WORDS_AROUND) + arguments <= room) return TG_OK;
  tg_status s = flush(q, message, n);
  if (s == TG_OK) s = turn_to(q, ring, message, n);
  if (s != TG_OK) return s;
  uint64_t offset = q->submitted % TG_AMD_SLOTS * TG_AMD_SLOT_BYTES;
  q->open = true;
  q->block = (tg_amd_block){.stream = {.at = (uint32_t *)(q->slots.host + offset),
                                       .generation = device_of(q)->chip->generation},
                            .address = q->slots.address + offset, .bytes = TG_AMD_SLOT_BYTES};
  tg_amd_block_begin(&q->block, ring);
  return TG_OK;
}

tg_status tg_amd_queue_replay(tg_queue *head, const tg_amd_block *b, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  tg_status s = flush(q, message, n);
  if (s == TG_OK) s = turn_to(q, TG_DRM_COMPUTE, message, n);
  return s == TG_OK ? submit(q, b, message, n) : s;
}

tg_status tg_amd_queue_submit(tg_queue *head, uint64_t *value, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  tg_status s = flush(q, message, n);
  *value = q->submitted;
  return s;
}

tg_status tg_amd_queue_after(tg_queue *head, tg_queue *of, uint64_t value, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  tg_status s = flush(q, message, n);
  if (s != TG_OK || !value) return s;
  if (q->waits_n + 1 >= TG_COUNT(q->waits)) {   /* one place is kept for the ring before */
    s = use(q, q->ring, 0, 0, message, n);
    if (s == TG_OK) s = flush(q, message, n);
    if (s != TG_OK) return s;
  }
  q->waits[q->waits_n++] = (tg_drm_point){.handle = ((tg_amd_queue *)of)->timeline, .point = value};
  return TG_OK;
}

/* ---- launches ---- */

static uint32_t arguments_bytes(const tg_amd_entry *e) { return (e->arguments + 63) & ~63u; }

static void write_arguments(const tg_amd_code *k, const tg_work *w, const tg_amd_entry *e, char *to) {
  const tg_code_info *info = &k->head.info;
  uint64_t *at = (uint64_t *)to;
  memset(to, 0, arguments_bytes(e));
  for (uint32_t b = 0; b < info->buffers; b++) *at++ = (uint64_t)(uintptr_t)w->buffers[b];
  if (info->shared) *at++ = (uint64_t)(uintptr_t)w->workspace;
  for (uint32_t p = 0; p < info->params; p++) *at++ = (uint64_t)w->params[p];
}

uint64_t tg_amd_room(const tg_device_kernel *kernel) {
  const tg_amd_code *k = (const tg_amd_code *)kernel;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < k->entries; i++)   /* with those for buffers that are not aligned */
    bytes += 4 * (TG_AMD_BETWEEN_WORDS + TG_AMD_DISPATCH_WORDS) + arguments_bytes(&k->entry[i]);
  return bytes;
}

static void put_phase(tg_amd_block *b, const tg_amd_code *k, const tg_work *w, const tg_amd_entry *e,
                      const tg_grid *grid) {
  enum { PRIVATE_BUFFER = 1 << 0, WAVE32 = 1 << 10, PRIVATE_BUFFER_REGISTERS = 4 };
  b->arguments += arguments_bytes(e);
  uint32_t offset = b->bytes - b->arguments;
  write_arguments(k, w, e, (char *)b->stream.at + offset);
  tg_amd_dispatch d = {.entry = e->entry, .arguments = b->address + offset, .rsrc1 = e->rsrc1,
                       .rsrc2 = e->rsrc2, .rsrc3 = e->rsrc3, .threads = grid->threads,
                       .local = grid->local > e->local ? (uint32_t)grid->local : e->local,
                       .local_unit = ((tg_amd_device *)k->head.device)->chip->local_unit,
                       .wave32 = (e->properties & WAVE32) != 0,
                       .arguments_register = e->properties & PRIVATE_BUFFER ? PRIVATE_BUFFER_REGISTERS : 0};
  for (int i = 0; i < 3; i++) d.groups[i] = (uint32_t)grid->groups[i];
  if (b->busy) tg_amd_between(&b->stream);
  tg_amd_dispatch_put(&b->stream, &d);
  b->busy = true;
}

tg_status tg_amd_put(tg_amd_block *b, tg_amd_queue *q, const tg_device_kernel *kernel, const tg_work *w, char *message,
                     size_t n) {
  const tg_amd_code *k = (const tg_amd_code *)kernel;
  const tg_code_info *info = &kernel->info;
  const tg_target *t = &((tg_amd_device *)kernel->device)->target;
  const tg_grid_limits most = {.local = t->local_bytes, .threads = t->max_threads};
  tg_status s = tg_device_owns(kernel, w, message, n);
  const tg_amd_entry *e = k->entry + (tg_device_unaligned(kernel, w) ? info->phases : 0);
  for (uint32_t p = 0; p < info->phases && s == TG_OK; p++) {
    tg_grid grid = {.threads = 0};
    s = tg_device_kernel_grid(kernel, w, p, &most, &grid, message, n);
    bool some = grid.groups[0] && grid.groups[1] && grid.groups[2];
    if (s == TG_OK && some && q)
      s = use(q, TG_DRM_COMPUTE, TG_AMD_BETWEEN_WORDS + TG_AMD_DISPATCH_WORDS, arguments_bytes(&e[p]), message, n);
    if (s == TG_OK && some) put_phase(b, k, w, &e[p], &grid);
  }
  return s;
}

tg_status tg_amd_queue_launch(tg_queue *head, tg_device_kernel *kernel, const tg_work *w, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  return tg_amd_put(&q->block, q, kernel, w, message, n);
}

/* ---- copies ---- */

/* Both addresses are the device's. */
static tg_status put_copy(tg_amd_queue *q, uint64_t to, uint64_t from, uint64_t bytes, char *message, size_t n) {
  while (bytes) {
    uint32_t part = bytes < TG_AMD_COPY_MOST ? (uint32_t)bytes : TG_AMD_COPY_MOST;
    tg_status s = use(q, TG_DRM_DMA, TG_AMD_COPY_WORDS + 1, 0, message, n);
    if (s != TG_OK) return s;
    if (q->block.busy) tg_amd_copy_between(&q->block.stream);
    tg_amd_copy(&q->block.stream, to, from, part);
    q->block.busy = true;
    to += part, from += part, bytes -= part;
  }
  return TG_OK;
}

static tg_status need_staging(tg_amd_queue *q, char *message, size_t n) {
  if (q->staging.buffer) return TG_OK;
  return tg_amd_allocate(device_of(q), 2 * HALF, TG_DRM_GTT, 0, true, &q->staging, message, n);
}

tg_status tg_amd_queue_copy_in(tg_amd_queue *q, uint64_t to, const char *from, uint64_t bytes, char *message,
                               size_t n) {
  tg_status s = need_staging(q, message, n);
  for (uint64_t at = 0; at < bytes && s == TG_OK; at += PART) {
    uint64_t part = bytes - at < PART ? bytes - at : PART;
    uint32_t half = q->half ^= 1;
    s = tg_amd_queue_wait(&q->head, q->staging_point[half], -1, message, n);
    if (s != TG_OK) return s;
    memcpy(q->staging.host + (size_t)half * HALF, from + at, part);
    s = put_copy(q, to + at, q->staging.address + (uint64_t)half * HALF, part, message, n);
    if (s == TG_OK) s = flush(q, message, n);
    q->staging_point[half] = q->submitted;
  }
  /* code that was just brought must be there before any queue runs it, which no queue waits for */
  return s == TG_OK && q == device_of(q)->upload ? tg_amd_queue_wait(&q->head, q->submitted, -1, message, n) : s;
}

/* While a part is taken out of the staging memory, the next is on its way. */
static tg_status copy_out(tg_amd_queue *q, char *to, uint64_t from, uint64_t bytes, char *message, size_t n) {
  tg_status s = need_staging(q, message, n);
  uint64_t put = 0, taken = 0;
  while (taken < bytes && s == TG_OK) {
    while (put < bytes && put - taken < 2ull * PART && s == TG_OK) {
      uint64_t part = bytes - put < PART ? bytes - put : PART;
      uint32_t half = q->half ^= 1;
      s = tg_amd_queue_wait(&q->head, q->staging_point[half], -1, message, n);
      if (s == TG_OK) s = put_copy(q, q->staging.address + (uint64_t)half * HALF, from + put, part, message, n);
      if (s == TG_OK) s = flush(q, message, n);
      q->staging_point[half] = q->submitted;
      put += part;
    }
    /* parts go to the halves in turns, so the older of two parts is not in the half of the last */
    uint64_t part = bytes - taken < PART ? bytes - taken : PART;
    uint32_t half = put - taken > PART ? q->half ^ 1 : q->half;
    if (s == TG_OK) s = tg_amd_queue_wait(&q->head, q->staging_point[half], -1, message, n);
    if (s == TG_OK) memcpy(to + taken, q->staging.host + (size_t)half * HALF, part);
    taken += part;
  }
  return s;
}

tg_status tg_amd_queue_copy(tg_queue *head, void *to, const void *from, size_t bytes, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  tg_amd_device *d = device_of(q);
  bool in = tg_memory_has(&d->head, to, bytes), out = tg_memory_has(&d->head, from, bytes);
  uint64_t there = (uint64_t)(uintptr_t)to, here = (uint64_t)(uintptr_t)from;
  if (in && out) return put_copy(q, there, here, bytes, message, n);
  if (in) return tg_amd_queue_copy_in(q, there, from, bytes, message, n);
  if (out) return copy_out(q, to, here, bytes, message, n);
  tg_status s = flush(q, message, n);
  if (s == TG_OK) s = tg_amd_queue_wait(head, q->submitted, -1, message, n);
  if (s == TG_OK) memcpy(to, from, bytes);
  return s;
}

/* ---- times ---- */

tg_status tg_amd_queue_stamp(tg_queue *head, uint32_t slot, char *message, size_t n) {
  tg_amd_queue *q = (tg_amd_queue *)head;
  uint64_t to = q->stamps.address + 8ull * slot;
  tg_status s = use(q, q->ring, TG_AMD_STAMP_WORDS, 0, message, n);
  if (s != TG_OK) return s;
  if (q->ring == TG_DRM_COMPUTE) tg_amd_stamp(&q->block.stream, to);
  else tg_amd_copy_stamp(&q->block.stream, to);
  return TG_OK;
}

tg_status tg_amd_queue_stamps(tg_queue *head, uint32_t first, uint32_t slots, double *seconds, char *message,
                              size_t n) {
  const tg_amd_queue *q = (const tg_amd_queue *)head;
  (void)message, (void)n;
  for (uint32_t i = 0; i < slots; i++) {
    uint64_t ticks;
    memcpy(&ticks, q->stamps.host + 8 * (size_t)(first + i), sizeof ticks);
    seconds[i] = (double)ticks / device_of(q)->clock_hertz;
  }
  return TG_OK;
}
