/* SPDX-License-Identifier: MIT
 * What is the same for the queues of all devices: the default queue, one order of what several threads put, the scratch
 * memory of launches, marks of devices that are no peers, and devices that are lost. A device that is `immediate` needs
 * no order: its calls run side by side, as the caller's threads do. */
#include <stdio.h>
#include "devices/device.h"

/* ---- lost devices ---- */

tg_status tg_device_alive(const tg_device *d, char *message, size_t n) {
  if (!atomic_load_explicit(&d->lost, memory_order_relaxed)) return TG_OK;
  snprintf(message, n, "the device is lost: close its context, and open it in a new one");
  return TG_LOST;
}

tg_status tg_device_noted(tg_device *d, tg_status s) {
  if (s == TG_LOST) atomic_store_explicit(&d->lost, true, memory_order_relaxed);
  return s;
}

/* ---- life ---- */

tg_status tg_queue_make(tg_device *d, const tg_queue_options *o, tg_queue **out, char *message, size_t n) {
  tg_queue head = {.device = d, .options = *o};
  if (o->kind > TG_QUEUE_COPY) return snprintf(message, n, "there is no kind %u of queues", o->kind), TG_EINVAL;
  tg_status s = tg_device_alive(d, message, n);
  if (s == TG_OK) s = tg_device_noted(d, d->driver->queue_open(&head, out, message, n));
  if (s != TG_OK) return s;
  tg_queue *q = *out;
  pthread_mutex_init(&q->lock, NULL);
  pthread_mutex_lock(&d->lock);
  q->next = d->queues;
  d->queues = q;
  q->identity = ++d->identities;
  pthread_mutex_unlock(&d->lock);
  return TG_OK;
}

static tg_status wait_for(tg_queue *q, char *message, size_t n) {
  uint64_t value;
  tg_status s = tg_queue_hand(q, &value, message, n);
  return s == TG_OK ? tg_queue_await(q, value, -1, message, n) : s;
}

static void end_queue(tg_queue *q) {
  tg_device *d = q->device;
  char message[256];
  if (!d->driver->immediate) wait_for(q, message, sizeof message);
  tg_graph_drop(atomic_load(&q->recording));
  if (q->scratch) tg_memory_free(d, q->scratch);
  pthread_mutex_destroy(&q->lock);
  d->driver->queue_close(q);
}

void tg_queue_drop(tg_queue *q) {
  tg_device *d = q->device;
  pthread_mutex_lock(&d->lock);
  tg_queue **at = &d->queues;
  while (*at != q) at = &(*at)->next;
  *at = q->next;
  pthread_mutex_unlock(&d->lock);
  end_queue(q);
}

tg_status tg_device_begin(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  tg_status s = head->driver->open(head, i, out, message, n);
  if (s != TG_OK) return s;
  tg_device *d = *out;
  pthread_mutex_init(&d->lock, NULL);
  tg_pieces_open(&d->pieces);
  atomic_init(&d->lost, false);
  s = tg_queue_make(d, &(tg_queue_options){.kind = TG_QUEUE_COMPUTE}, &d->queue, message, n);
  if (s != TG_OK) tg_device_end(d), *out = NULL;
  return s;
}

void tg_device_end(tg_device *d) {
  for (tg_queue *q = d->queues, *next; q; q = next) next = q->next, end_queue(q);
  tg_memory_close(d);
  pthread_mutex_destroy(&d->lock);
  d->driver->close(d);
}

/* Waits for every queue, also if one fails: what is freed afterwards must not be in use. */
tg_status tg_device_wait_all(tg_device *d, char *message, size_t n) {
  tg_status first = TG_OK;
  char other[256];
  if (d->driver->immediate) return TG_OK;
  pthread_mutex_lock(&d->lock);
  for (tg_queue *q = d->queues; q; q = q->next) {
    tg_status s = wait_for(q, first == TG_OK ? message : other, first == TG_OK ? n : sizeof other);
    if (first == TG_OK) first = s;
  }
  pthread_mutex_unlock(&d->lock);
  return first;
}

/* ---- putting work ---- */

/* Before and after a driver is called to put something. */
static tg_status enter(tg_queue *q, char *message, size_t n) {
  tg_status s = tg_device_alive(q->device, message, n);
  if (s == TG_OK && !q->device->driver->immediate) pthread_mutex_lock(&q->lock);
  return s;
}

static tg_status leave(tg_queue *q, tg_status s) {
  if (!q->device->driver->immediate) pthread_mutex_unlock(&q->lock);
  return tg_device_noted(q->device, s);
}

/* Call with the queue's lock held. Work that uses the old memory ends first. */
static tg_status grow_scratch(tg_queue *q, size_t bytes, char *message, size_t n) {
  tg_device *d = q->device;
  const tg_driver *f = d->driver;
  uint64_t value;
  if (q->scratch_bytes >= bytes) return TG_OK;
  tg_status s = q->scratch ? f->submit(q, &value, message, n) : TG_OK;
  if (s == TG_OK && q->scratch) s = f->wait(q, value, -1, message, n);
  if (s != TG_OK) return s;
  if (q->scratch) tg_memory_free(d, q->scratch);
  q->scratch = NULL, q->scratch_bytes = 0;
  s = tg_memory_alloc(d, bytes, TG_MEMORY_DEVICE, &q->scratch, message, n);
  if (s == TG_OK) q->scratch_bytes = bytes;
  return s;
}

tg_status tg_queue_put(tg_queue *q, tg_device_kernel *k, tg_work *w, char *message, size_t n) {
  tg_status s = enter(q, message, n);
  if (s != TG_OK) return s;
  if (k->scratch && !w->workspace) {
    s = grow_scratch(q, k->scratch, message, n);
    w->workspace = q->scratch;
  }
  if (s == TG_OK) s = k->driver->launch(q, k, w, message, n);
  return leave(q, s);
}

tg_status tg_queue_put_copy(tg_queue *q, void *to, const void *from, size_t bytes, char *message, size_t n) {
  if (!bytes) return TG_OK;
  tg_graph *graph = atomic_load_explicit(&q->recording, memory_order_acquire);
  if (graph) return tg_graph_add_copy(graph, to, from, bytes, message, n);
  tg_status s = enter(q, message, n);
  return s == TG_OK ? leave(q, q->device->driver->copy(q, to, from, bytes, message, n)) : s;
}

static tg_status not_recorded(const tg_queue *q, char *message, size_t n) {
  if (!atomic_load_explicit(&q->recording, memory_order_relaxed)) return TG_OK;
  snprintf(message, n, "the queue is recording: only launches and copies are put on it until tg_queue_recorded");
  return TG_EINVAL;
}

static bool are_peers(tg_queue *q, tg_queue *of) {
  tg_device *d = q->device;
  char message[256];
  if (of->device == d) return true;
  return tg_memory_join(d, of->device, message, sizeof message) == TG_OK;
}

tg_status tg_queue_put_after(tg_queue *q, tg_queue_mark m, char *message, size_t n) {
  tg_status s = not_recorded(q, message, n);
  if (s != TG_OK || !m.queue || m.queue == q || m.queue->device->driver->immediate) return s;
  if (q->device->driver->immediate || !are_peers(q, m.queue)) return tg_queue_await(m.queue, m.value, -1, message, n);
  s = enter(q, message, n);
  return s == TG_OK ? leave(q, q->device->driver->after(q, m.queue, m.value, message, n)) : s;
}

tg_status tg_queue_put_stamp(tg_queue *q, uint32_t slot, char *message, size_t n) {
  tg_status s = not_recorded(q, message, n);
  if (s == TG_OK && slot >= TG_QUEUE_STAMPS)
    s = (snprintf(message, n, "slot %u of %d", slot, TG_QUEUE_STAMPS), TG_EINVAL);
  if (s != TG_OK || (s = enter(q, message, n)) != TG_OK) return s;
  s = q->device->driver->stamp(q, slot, message, n);
  if (s == TG_OK) q->stamped |= 1ull << slot;
  return leave(q, s);
}

tg_status tg_queue_hand(tg_queue *q, uint64_t *value, char *message, size_t n) {
  tg_status s = enter(q, message, n);
  return s == TG_OK ? leave(q, q->device->driver->submit(q, value, message, n)) : s;
}

tg_status tg_queue_await(tg_queue *q, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  tg_status s = tg_device_alive(q->device, message, n);
  return s == TG_OK ? tg_device_noted(q->device, q->device->driver->wait(q, value, nanoseconds, message, n)) : s;
}

tg_status tg_queue_times(tg_queue *q, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  uint64_t value, wanted;
  tg_status s = not_recorded(q, message, n);
  if (s != TG_OK || !slots) return s;
  wanted = slots >= 64 ? UINT64_MAX : (1ull << slots) - 1;
  bool there = first < TG_QUEUE_STAMPS && slots <= TG_QUEUE_STAMPS - first;
  if ((s = enter(q, message, n)) != TG_OK) return s;
  there = there && (q->stamped >> first & wanted) == wanted;
  leave(q, TG_OK);
  if (!there) return snprintf(message, n, "slots %u to %u were not all stamped", first, first + slots - 1), TG_EINVAL;
  s = tg_queue_hand(q, &value, message, n);
  if (s == TG_OK) s = tg_queue_await(q, value, -1, message, n);
  return s == TG_OK ? tg_device_noted(q->device, q->device->driver->stamps(q, first, slots, seconds, message, n)) : s;
}
