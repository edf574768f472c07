/* SPDX-License-Identifier: MIT
 * Queues of NVIDIA's devices: streams, each mark an event behind the work. Events are used again once their marks are
 * reached. A wait with a limit looks at the event again and again, since the driver has no such wait. Times are those
 * of events, counted from one that the device's first queue recorded. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "devices/cuda/cuda.h"

enum { NOT_READY = 600 };

static cuda_device *device_of(const cuda_queue *q) { return (cuda_device *)q->head.device; }

/* ---- life ---- */

static tg_status take_native(cuda_queue *q, void *native, char *message, size_t n) {
  cuda_device *d = device_of(q);
  void *context = NULL;
  int code = d->f.cuStreamGetCtx(native, &context);
  if (code || context != d->context)
    return snprintf(message, n, code ? "this is no CUstream"
                                     : "the CUstream is not of the CUcontext that the device was opened with"),
           TG_EINVAL;
  q->stream = native;
  return TG_OK;
}

/* Streams of tg do not wait for the program's default stream, nor it for them. Call with the context current. */
static tg_status make_stream(cuda_queue *q, char *message, size_t n) {
  enum { NON_BLOCKING = 1 };
  cuda_device *d = device_of(q);
  int code = d->f.cuStreamCreate(&q->stream, NON_BLOCKING);
  if (code) return q->stream = NULL, tg_cuda_failure(&d->f, message, n, "making a stream", code);
  return TG_OK;
}

/* The first queue, which is opened before any other can be, records the event that times count from. */
static tg_status start_clock(cuda_queue *q, char *message, size_t n) {
  cuda_device *d = device_of(q);
  int code = d->started ? 0 : d->f.cuEventRecord(d->zero, q->stream);
  if (code) return tg_cuda_failure(&d->f, message, n, "starting the clock", code);
  d->started = true;
  return TG_OK;
}

tg_status tg_cuda_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n) {
  const tg_allocator *a = &head->device->allocator;
  cuda_queue *q = a->alloc(a->user, sizeof *q);
  if (!q) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *q = (cuda_queue){.head = *head};
  q->last = &q->first;
  pthread_mutex_init(&q->lock, NULL);
  cuda_device *d = device_of(q);
  int code = tg_cuda_enter(d);
  if (code) {
    tg_cuda_queue_close(&q->head);
    return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  }
  tg_status s = head->options.native ? take_native(q, head->options.native, message, n) : make_stream(q, message, n);
  if (s == TG_OK) s = start_clock(q, message, n);
  tg_cuda_leave(d);
  if (s == TG_OK) *out = &q->head;
  else tg_cuda_queue_close(&q->head);
  return s;
}

static void drop_marks(const cuda_queue *q, cuda_mark *m) {
  const tg_allocator *a = &q->head.device->allocator;
  for (cuda_mark *next; m; m = next) {
    next = m->next;
    device_of(q)->f.cuEventDestroy_v2(m->event);
    a->free(a->user, m, sizeof *m);
  }
}

static void drop_all(const cuda_queue *q) {
  const cuda_functions *f = &device_of(q)->f;
  drop_marks(q, q->first);
  drop_marks(q, q->spare);
  for (uint32_t i = 0; i < TG_QUEUE_STAMPS; i++)
    if (q->stamp[i]) f->cuEventDestroy_v2(q->stamp[i]);
  if (q->stream && !q->head.options.native) f->cuStreamDestroy_v2(q->stream);
}

void tg_cuda_queue_close(tg_queue *head) {
  cuda_queue *q = (cuda_queue *)head;
  const tg_allocator *a = &head->device->allocator;
  TG_CUDA_GIVE_BACK(device_of(q), drop_all(q));
  pthread_mutex_destroy(&q->lock);
  a->free(a->user, q, sizeof *q);
}

/* ---- work ---- */

/* A call of the driver's that puts something, with the context current. */
#define PUT(d, what, call)                                                                  \
  do {                                                                                      \
    int code_ = tg_cuda_enter(d);                                                           \
    if (!code_) {                                                                           \
      code_ = (d)->f.call;                                                                  \
      tg_cuda_leave(d);                                                                     \
    }                                                                                       \
    return code_ ? tg_cuda_failure(&(d)->f, message, n, what, code_) : TG_OK;               \
  } while (0)

tg_status tg_cuda_copy(tg_queue *head, void *to, const void *from, size_t bytes, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  PUT(d, "a copy", cuMemcpyAsync((cuda_address)(uintptr_t)to, (cuda_address)(uintptr_t)from, bytes, q->stream));
}

static tg_status record(cuda_queue *q, void *event, char *message, size_t n) {
  cuda_device *d = device_of(q);
  PUT(d, "recording an event", cuEventRecord(event, q->stream));
}

static tg_status make_event(cuda_device *d, void **event, unsigned flags, char *message, size_t n) {
  PUT(d, "making an event", cuEventCreate(event, flags));
}

tg_status tg_cuda_stamp(tg_queue *head, uint32_t slot, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  void *event = NULL;
  pthread_mutex_lock(&q->lock);
  tg_status s = q->stamp[slot] ? TG_OK : make_event(device_of(q), &event, 0, message, n);
  if (event) q->stamp[slot] = event;
  if (s == TG_OK) s = record(q, q->stamp[slot], message, n);
  pthread_mutex_unlock(&q->lock);
  return s;
}

/* A difference of two events is a float in milliseconds, so the slots are counted from the first of them: near ones are
 * told apart even when the device's zero is long ago. */
tg_status tg_cuda_stamps(tg_queue *head, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  float start = 0, ms = 0;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&q->lock);
  code = d->f.cuEventElapsedTime(&start, d->zero, q->stamp[first]);
  for (uint32_t i = 0; i < slots && !code; i++) {
    ms = 0;
    if (i) code = d->f.cuEventElapsedTime(&ms, q->stamp[first], q->stamp[first + i]);
    seconds[i] = 1e-3 * (double)start + 1e-3 * (double)ms;
  }
  pthread_mutex_unlock(&q->lock);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "reading a time", code) : TG_OK;
}

/* ---- marks ---- */

/* Takes marks that are reached from the list. Returns the code of a failure. Call with the lock held and the context
 * current. */
static int forget_reached(cuda_queue *q) {
  int code = 0;
  while (q->first && !q->first->waiters && !(code = device_of(q)->f.cuEventQuery(q->first->event))) {
    cuda_mark *m = q->first;
    if (!(q->first = m->next)) q->last = &q->first;
    m->next = q->spare;
    q->spare = m;
  }
  return code == NOT_READY ? 0 : code;
}

/* A mark that is not in the list. Call with the lock held. */
static tg_status take_mark(cuda_queue *q, cuda_mark **out, char *message, size_t n) {
  enum { DISABLE_TIMING = 2 };
  const tg_allocator *a = &q->head.device->allocator;
  cuda_mark *m = q->spare;
  tg_status s = TG_OK;
  if (m) q->spare = m->next;
  else if (!(m = a->alloc(a->user, sizeof *m))) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  else {
    *m = (cuda_mark){.next = NULL};
    s = make_event(device_of(q), &m->event, DISABLE_TIMING, message, n);
    if (s != TG_OK) a->free(a->user, m, sizeof *m);
  }
  *out = m;
  return s;
}

/* Puts a mark's event on the stream. Call with the lock held and the context current. */
static tg_status put_mark(cuda_queue *q, char *message, size_t n) {
  cuda_mark *m = NULL;
  tg_status s = take_mark(q, &m, message, n);
  if (s != TG_OK) return s;
  if ((s = record(q, m->event, message, n)) != TG_OK) {
    m->next = q->spare;
    q->spare = m;
    return s;
  }
  m->value = q->submitted + 1;
  m->next = NULL;
  *q->last = m;
  q->last = &m->next;
  return TG_OK;
}

/* Where there is no event to be had, the work is waited for: then the mark is reached, and nothing that is freed
 * because of it is in use. */
tg_status tg_cuda_submit(tg_queue *head, uint64_t *value, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&q->lock);
  code = forget_reached(q);
  tg_status s = code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : put_mark(q, message, n);
  if (s != TG_OK && s != TG_LOST) {
    code = d->f.cuStreamSynchronize(q->stream);
    s = code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : TG_OK;
  }
  if (s == TG_OK) *value = ++q->submitted;
  pthread_mutex_unlock(&q->lock);
  tg_cuda_leave(d);
  return s;
}

/* The first mark in the list at or behind the value; NULL: it is reached. Call with the lock held. */
static cuda_mark *mark_at(cuda_queue *q, uint64_t value) {
  cuda_mark *m = q->first;
  while (m && m->value < value) m = m->next;
  return m;
}

/* The lock of the other queue is held, so that its event is not recorded again, further on, before this queue waits. */
tg_status tg_cuda_after(tg_queue *head, tg_queue *other, uint64_t value, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head, *of = (cuda_queue *)other;
  cuda_device *d = device_of(q);
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&of->lock);
  const cuda_mark *m = mark_at(of, value);
  if (m) code = d->f.cuStreamWaitEvent(q->stream, m->event, 0);
  pthread_mutex_unlock(&of->lock);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "waiting for another queue", code) : TG_OK;
}

/* Looks at the event at growing intervals until the time is up. */
static int finishes_within(const cuda_device *d, void *event, double seconds) {
  double end = tg_now() + seconds;
  int code;
  for (long pause = 5000; (code = d->f.cuEventQuery(event)) == NOT_READY; pause = pause < 1000000 ? 2 * pause : pause) {
    double left = end - tg_now();
    if (left <= 0) break;
    long most = left < 1 ? (long)(1e9 * left) : 1000000;
    nanosleep(&(struct timespec){.tv_nsec = pause < most ? pause : most}, NULL);
  }
  return code;
}

tg_status tg_cuda_wait(tg_queue *head, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&q->lock);
  cuda_mark *m = mark_at(q, value);
  if (m) {                     /* which stays in the list, with its event, while it has waiters */
    m->waiters++;
    pthread_mutex_unlock(&q->lock);
    code = nanoseconds < 0 ? d->f.cuEventSynchronize(m->event)
                           : finishes_within(d, m->event, 1e-9 * (double)nanoseconds);
    pthread_mutex_lock(&q->lock);
    m->waiters--;
  }
  if (!code) code = forget_reached(q);
  pthread_mutex_unlock(&q->lock);
  tg_cuda_leave(d);
  if (code == NOT_READY) return snprintf(message, n, "the mark is not reached"), TG_TIMEOUT;
  return code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : TG_OK;
}
