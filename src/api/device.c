/* SPDX-License-Identifier: MIT
 * The devices of a context: opened at their first use, closed with the context; their memory. */
#include <stdio.h>
#include "api/api.h"
#include "target/chip.h"

typedef struct { tg_context *c; tg_device *d; } opening;

/* What `tg measure --device --save` left of this chip in the folder of tuned choices. */
static void take_chip(void *arg) {
  const opening *o = arg;
  tg_context *c = o->c;
  const char *why;
  tg_target *t = tg_new(&c->env, tg_target, 1);
  *t = *o->d->target;
  if (tg_chip_file_read(&c->env, c->tuned, t, &why)) o->d->target = t;
  else if (why && c->log)
    c->log(c->log_user, tg_format(&c->env, "%s: what was measured of %s is not used: %s", c->tuned, t->silicon, why));
}

tg_status tg_device_add(tg_context *c, const tg_driver *driver, uint32_t i, uint32_t number, void *native,
                        tg_device **out, char *message, size_t n) {
  tg_device head = {.driver = driver,
                    .context = c,
                    .number = number,
                    .native = native,
                    .allocator = c->env.allocator,
                    .target = &c->target,
                    .pool = c->pool,
                    .check_promises = c->flags & TG_CONTEXT_CHECK_PROMISES && driver == &tg_driver_cpu,
                    .log = c->log,
                    .log_user = c->log_user},
            **last = &c->devices;
  tg_status s = tg_device_begin(&head, i, out, message, n);
  while (*last) last = &(*last)->next;
  if (s == TG_OK) *last = *out;
  if (s == TG_OK && c->tuned && tg_target_is_device((*out)->target))
    tg_protect(&c->env, take_chip, &(opening){c, *out});   /* without memory: the row's numbers */
  return s;
}

/* Call with the lock held, so that two threads do not open a device twice. */
static tg_status find_or_open(tg_context *c, uint32_t number, void *native, tg_device **out, char *message, size_t n) {
  tg_device_info about;
  const tg_driver *driver;
  uint32_t i;
  for (*out = c->devices; *out; *out = (*out)->next)
    if ((*out)->number == number && (*out)->native == native) return TG_OK;
  if (!tg_device_at(number, &driver, &i, &about)) return snprintf(message, n, "there is no device %u", number), TG_MISS;
  if (about.lacks[0]) return snprintf(message, n, "%s cannot be used: %s", about.name, about.lacks), TG_EIO;
  return tg_device_add(c, driver, i, number, native, out, message, n);
}

static tg_status open_device(tg_context *c, uint32_t i, void *native, tg_device **out) {
  char message[512] = "";
  if (!c) return TG_EINVAL;
  if (!out) return tg_context_fail(c, TG_EINVAL, "no place is given for the device");
  pthread_mutex_lock(&c->lock);
  tg_status s = find_or_open(c, i, native, out, message, sizeof message);
  pthread_mutex_unlock(&c->lock);
  if (s == TG_OK) return s;
  *out = NULL;
  return tg_context_fail(c, s, message);
}

tg_status tg_device_open(tg_context *c, uint32_t i, tg_device **out) { return open_device(c, i, NULL, out); }

tg_status tg_device_open_native(tg_context *c, uint32_t i, void *native, tg_device **out) {
  if (c && !native) return tg_context_fail(c, TG_EINVAL, "no context of the driver is given");
  return open_device(c, i, native, out);
}

static tg_status told(const tg_device *d, tg_status s, const char *message) {
  return s == TG_OK || s == TG_TIMEOUT ? s : tg_context_fail(d->context, s, message);
}

tg_status tg_device_peers(tg_device *d, tg_device *other) {
  char message[512] = "";
  if (!d || !other) return TG_EINVAL;
  if (d == other) return TG_OK;
  tg_status s = TG_EINVAL;
  if (d->context != other->context) snprintf(message, sizeof message, "the other device is another context's");
  else s = tg_memory_join(d, other, message, sizeof message);
  return told(d, s, message);
}

/* ---- memory ---- */

tg_status tg_device_alloc_kind(tg_device *d, size_t bytes, uint32_t kind, void **out) {
  char message[512] = "";
  if (!d) return TG_EINVAL;
  if (!out) return tg_context_fail(d->context, TG_EINVAL, "no place is given for the memory");
  *out = NULL;
  if (kind > TG_MEMORY_HOST) return tg_context_fail(d->context, TG_EINVAL, "there is no such kind of memory");
  tg_status s = tg_device_alive(d, message, sizeof message);
  if (s == TG_OK) s = tg_memory_alloc(d, bytes, kind, out, message, sizeof message);
  return told(d, s, message);
}

tg_status tg_device_import(tg_device *d, uint32_t what, void *memory, size_t bytes, void **out) {
  enum { PAGE = 4096 };
  char message[512] = "";
  if (!d) return TG_EINVAL;
  if (!out || !memory) return tg_context_fail(d->context, TG_EINVAL, "no memory, or no place for it, is given");
  *out = NULL;
  if (what > TG_IMPORT_PAGES) return tg_context_fail(d->context, TG_EINVAL, "there is no such kind of import");
  if (what == TG_IMPORT_PAGES && ((uintptr_t)memory % PAGE || bytes % PAGE) && !d->driver->immediate)
    return tg_context_fail(d->context, TG_EINVAL, "imported memory is not whole pages");
  tg_status s = tg_device_alive(d, message, sizeof message);
  if (s == TG_OK) s = tg_memory_import(d, what, memory, bytes, out, message, sizeof message);
  return told(d, s, message);
}

void tg_device_free(tg_device *d, void *memory) {
  char message[512];
  if (!d || !memory) return;
  tg_device_wait_all(d, message, sizeof message);
  tg_memory_free(d, memory);
}

/* ---- the default queue ---- */

tg_status tg_device_copy(tg_device *d, void *to, const void *from, size_t bytes) {
  tg_queue_mark done;
  tg_status s = d ? tg_queue_copy(d->queue, to, from, bytes) : TG_EINVAL;
  if (s == TG_OK) s = tg_queue_submit(d->queue, &done);
  return s == TG_OK ? tg_queue_wait(done, -1) : s;
}

tg_status tg_device_finish(tg_device *d) {
  char message[512] = "";
  return d ? told(d, tg_device_wait_all(d, message, sizeof message), message) : TG_EINVAL;
}

/* ---- queues ---- */

tg_status tg_queue_open_sized(tg_device *d, const tg_queue_options *options, size_t options_bytes, tg_queue **out) {
  char message[512] = "";
  tg_queue_options o;
  if (!d) return TG_EINVAL;
  if (!out) return tg_context_fail(d->context, TG_EINVAL, "no place is given for the queue");
  *out = NULL;
  if (TG_READ(d->context, tg_queue_options, &o, options, options_bytes) != TG_OK) return TG_EINVAL;
  return told(d, tg_queue_make(d, &o, out, message, sizeof message), message);
}

void tg_queue_free(tg_queue *q) {
  if (q) tg_queue_drop(q);
}

tg_status tg_queue_copy(tg_queue *q, void *to, const void *from, size_t bytes) {
  char message[512] = "";
  if (!q) return TG_EINVAL;
  if (bytes && (!to || !from)) return tg_context_fail(q->device->context, TG_EINVAL, "a copy from or to NULL");
  return told(q->device, tg_queue_put_copy(q, to, from, bytes, message, sizeof message), message);
}

tg_status tg_queue_after(tg_queue *q, tg_queue_mark mark) {
  char message[512] = "";
  return q ? told(q->device, tg_queue_put_after(q, mark, message, sizeof message), message) : TG_EINVAL;
}

tg_status tg_queue_stamp(tg_queue *q, uint32_t slot) {
  char message[512] = "";
  return q ? told(q->device, tg_queue_put_stamp(q, slot, message, sizeof message), message) : TG_EINVAL;
}

tg_status tg_queue_submit(tg_queue *q, tg_queue_mark *mark) {
  char message[512] = "";
  uint64_t value = 0;
  if (!q) return TG_EINVAL;
  tg_status s = tg_queue_hand(q, &value, message, sizeof message);
  if (mark) *mark = (tg_queue_mark){s == TG_OK ? q : NULL, value};
  return told(q->device, s, message);
}

tg_status tg_queue_wait(tg_queue_mark mark, int64_t nanoseconds) {
  char message[512] = "";
  if (!mark.queue) return TG_OK;
  tg_device *d = mark.queue->device;
  return told(d, tg_queue_await(mark.queue, mark.value, nanoseconds, message, sizeof message), message);
}

tg_status tg_queue_stamps(tg_queue *q, uint32_t first, uint32_t slots, double *seconds) {
  char message[512] = "";
  if (!q) return TG_EINVAL;
  if (slots && !seconds) return tg_context_fail(q->device->context, TG_EINVAL, "no place is given for the times");
  return told(q->device, tg_queue_times(q, first, slots, seconds, message, sizeof message), message);
}

/* ---- graphs ---- */

tg_status tg_queue_record(tg_queue *q) {
  char message[512] = "";
  return q ? told(q->device, tg_graph_begin(q, message, sizeof message), message) : TG_EINVAL;
}

tg_status tg_queue_recorded(tg_queue *q, tg_graph **out) {
  char message[512] = "";
  if (!q) return TG_EINVAL;
  if (!out) return tg_context_fail(q->device->context, TG_EINVAL, "no place is given for the graph");
  *out = NULL;
  return told(q->device, tg_graph_end(q, out, message, sizeof message), message);
}

tg_status tg_queue_replay_sized(tg_queue *q, tg_graph *g, const tg_graph_replay *replay, size_t replay_bytes) {
  char message[512] = "";
  tg_graph_replay r;
  if (!q) return TG_EINVAL;
  if (!g) return tg_context_fail(q->device->context, TG_EINVAL, "no graph is given");
  if (TG_READ(q->device->context, tg_graph_replay, &r, replay, replay_bytes) != TG_OK) return TG_EINVAL;
  if ((r.moves_n && !r.moves) || (r.params_n && !r.params))
    return tg_context_fail(q->device->context, TG_EINVAL, "the replay lacks its moves or parameters");
  return told(q->device, tg_graph_put(q, g, &r, message, sizeof message), message);
}

void tg_graph_free(tg_graph *g) { tg_graph_drop(g); }
