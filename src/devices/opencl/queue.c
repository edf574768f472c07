/* SPDX-License-Identifier: MIT
 * Queues of OpenCL: in order, each mark an event. An event is kept until it is seen finished, so marks cost nothing
 * that grows. A wait with a limit looks at the event again and again, since OpenCL has no such wait. Times are those of
 * markers' ends (clGetEventProfilingInfo). */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "devices/opencl/opencl.h"

static opencl_device *device_of(const opencl_queue *q) { return (opencl_device *)q->head.device; }
static const opencl_functions *functions_of(const opencl_queue *q) { return &device_of(q)->f; }

/* ---- life ---- */

/* Takes the program's own queue, if tg can work on it. */
static const char *take_native(opencl_queue *q, opencl_handle native) {
  opencl_device *d = device_of(q);
  opencl_handle context = NULL, device = NULL;
  opencl_bits properties = 0;
  const opencl_functions *f = &d->f;
  if (f->clGetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof context, &context, NULL) ||
      f->clGetCommandQueueInfo(native, CL_QUEUE_DEVICE, sizeof device, &device, NULL) ||
      f->clGetCommandQueueInfo(native, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL))
    return "this is no cl_command_queue";
  if (context != d->context) return "the queue is not of the cl_context that the device was opened with";
  if (device != d->device) return "the queue is another device's";
  if (properties & CL_OUT_OF_ORDER) return "the queue runs out of order";
  if (f->clRetainCommandQueue(native)) return "the queue cannot be kept";
  q->queue = native;
  q->clock = properties & CL_PROFILING;
  return NULL;
}

tg_status tg_opencl_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n) {
  enum { QUEUE_PROPERTIES = 0x1093 };
  static const opencl_bits profiled[] = {QUEUE_PROPERTIES, CL_PROFILING, 0};
  const tg_allocator *a = &head->device->allocator;
  opencl_queue *q = a->alloc(a->user, sizeof *q);
  int code = 0;
  const char *why = NULL;
  if (!q) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *q = (opencl_queue){.head = *head, .clock = true};
  q->last = &q->first;
  opencl_device *d = device_of(q);
  if (head->options.native) why = take_native(q, head->options.native);
  else q->queue = d->f.clCreateCommandQueueWithProperties(d->context, d->device, profiled, &code);
  if (q->queue) {
    pthread_mutex_init(&q->lock, NULL);
    *out = &q->head;
    return TG_OK;
  }
  a->free(a->user, q, sizeof *q);
  return why ? (snprintf(message, n, "%s", why), TG_EINVAL) : tg_opencl_failure(message, n, "making a queue", code);
}

static void drop_mark(opencl_queue *q, opencl_mark *m) {
  const tg_allocator *a = &q->head.device->allocator;
  functions_of(q)->clReleaseEvent(m->event);
  a->free(a->user, m, sizeof *m);
}

void tg_opencl_queue_close(tg_queue *head) {
  opencl_queue *q = (opencl_queue *)head;
  const tg_allocator *a = &head->device->allocator;
  const opencl_functions *f = functions_of(q);
  for (opencl_mark *m = q->first, *next; m; m = next) next = m->next, drop_mark(q, m);
  for (uint32_t i = 0; i < TG_QUEUE_STAMPS; i++)
    if (q->stamp[i]) f->clReleaseEvent(q->stamp[i]);
  f->clReleaseCommandQueue(q->queue);
  pthread_mutex_destroy(&q->lock);
  a->free(a->user, q, sizeof *q);
}

/* ---- work ---- */

tg_status tg_opencl_copy(tg_queue *head, void *to, const void *from, size_t bytes, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  int code = functions_of(q)->clEnqueueSVMMemcpy(q->queue, 0, to, from, bytes, 0, NULL, NULL);
  return code ? tg_opencl_failure(message, n, "a copy", code) : TG_OK;
}

tg_status tg_opencl_stamp(tg_queue *head, uint32_t slot, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  const opencl_functions *f = functions_of(q);
  opencl_handle event = NULL;
  if (!q->clock) return snprintf(message, n, "the queue was made without CL_QUEUE_PROFILING_ENABLE"), TG_EINVAL;
  int code = f->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &event);
  if (code) return tg_opencl_failure(message, n, "a marker", code);
  pthread_mutex_lock(&q->lock);
  if (q->stamp[slot]) f->clReleaseEvent(q->stamp[slot]);
  q->stamp[slot] = event;
  pthread_mutex_unlock(&q->lock);
  return TG_OK;
}

tg_status tg_opencl_stamps(tg_queue *head, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  int code = 0;
  pthread_mutex_lock(&q->lock);
  for (uint32_t i = 0; i < slots && !code; i++) {
    uint64_t at = 0;
    code = functions_of(q)->clGetEventProfilingInfo(q->stamp[first + i], CL_COMMAND_END, sizeof at, &at, NULL);
    seconds[i] = 1e-9 * (double)at;
  }
  pthread_mutex_unlock(&q->lock);
  return code ? tg_opencl_failure(message, n, "reading a time", code) : TG_OK;
}

/* ---- marks ---- */

/* 0: finished; positive: not yet; negative: it failed. */
static int status_of(const opencl_queue *q, opencl_handle event) {
  int status = 0, code = functions_of(q)->clGetEventInfo(event, CL_EXECUTION_STATUS, sizeof status, &status, NULL);
  return code ? code : status;
}

/* Drops marks that are reached. Call with the lock held. */
static void forget_reached(opencl_queue *q) {
  int status;
  while (q->first && (status = status_of(q, q->first->event)) <= 0) {
    opencl_mark *m = q->first;
    if (status < 0 && !q->failed) q->failed = status;
    if (!(q->first = m->next)) q->last = &q->first;
    drop_mark(q, m);
  }
}

tg_status tg_opencl_submit(tg_queue *head, uint64_t *value, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  const opencl_functions *f = functions_of(q);
  const tg_allocator *a = &head->device->allocator;
  opencl_mark *m = a->alloc(a->user, sizeof *m);
  if (!m) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *m = (opencl_mark){0};
  int code = f->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &m->event);
  if (code) {
    a->free(a->user, m, sizeof *m);
    return tg_opencl_failure(message, n, "a marker", code);
  }
  pthread_mutex_lock(&q->lock);
  *value = m->value = ++q->submitted;
  *q->last = m;
  q->last = &m->next;
  forget_reached(q);
  pthread_mutex_unlock(&q->lock);
  code = f->clFlush(q->queue);
  return code ? tg_opencl_failure(message, n, "starting work", code) : TG_OK;
}

/* The event of the mark, which the caller releases; NULL: it is reached. */
static opencl_handle event_at(opencl_queue *q, uint64_t value) {
  opencl_handle event = NULL;
  pthread_mutex_lock(&q->lock);
  forget_reached(q);
  for (opencl_mark *m = q->first; m && !event; m = m->next)
    if (m->value >= value && !functions_of(q)->clRetainEvent(m->event)) event = m->event;
  pthread_mutex_unlock(&q->lock);
  return event;
}

tg_status tg_opencl_after(tg_queue *head, tg_queue *of, uint64_t value, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  const opencl_functions *f = functions_of(q);
  opencl_handle event = event_at((opencl_queue *)of, value);
  if (!event) return TG_OK;
  int code = f->clEnqueueBarrierWithWaitList(q->queue, 1, &event, NULL);
  f->clReleaseEvent(event);
  return code ? tg_opencl_failure(message, n, "a barrier", code) : TG_OK;
}

/* Looks at the event at growing intervals until the time is up; false: it is, and the event has not finished. */
static bool finishes_within(const opencl_queue *q, opencl_handle event, double seconds) {
  double end = tg_now() + seconds;
  for (long pause = 5000; status_of(q, event) > 0; pause = pause < 1000000 ? 2 * pause : pause) {
    double left = end - tg_now();
    if (left <= 0) return false;
    long most = left < 1 ? (long)(1e9 * left) : 1000000;
    nanosleep(&(struct timespec){.tv_nsec = pause < most ? pause : most}, NULL);
  }
  return true;
}

tg_status tg_opencl_wait(tg_queue *head, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  const opencl_functions *f = functions_of(q);
  opencl_handle event = event_at(q, value);
  if (event) {
    bool done = true;
    if (nanoseconds < 0) f->clWaitForEvents(1, &event);   /* the event's status tells whether it failed */
    else done = finishes_within(q, event, 1e-9 * (double)nanoseconds);
    f->clReleaseEvent(event);
    if (!done) return snprintf(message, n, "the mark is not reached"), TG_TIMEOUT;
  }
  pthread_mutex_lock(&q->lock);
  forget_reached(q);
  int code = q->failed;
  pthread_mutex_unlock(&q->lock);
  return code ? tg_opencl_failure(message, n, "work on the device", code) : TG_OK;
}
