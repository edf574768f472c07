/* SPDX-License-Identifier: MIT
 * Queues of OpenCL: in order, each mark an event. Times are those of markers' ends (clGetEventProfilingInfo). */
#include "devices/opencl/opencl.h"

static opencl_device *device_of(const opencl_queue *q) { return (opencl_device *)q->head.device; }
static const opencl_functions *functions_of(const opencl_queue *q) { return &device_of(q)->f; }

/* ---- events of marks ---- */

enum { PENDING = 1 };

static int put_event(tg_queue *head, void **event) {
  opencl_queue *q = (opencl_queue *)head;
  return functions_of(q)->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, event);
}

/* A status below 0: its work failed. */
static int look_at(tg_queue *q, void *event) {
  int status = 0,
      code = functions_of((opencl_queue *)q)
                 ->clGetEventInfo(event, CL_EXECUTION_STATUS, sizeof status, &status, NULL);
  return code ? code : status > 0 ? PENDING : status;
}

static int wait_for(tg_queue *q, void *event) {
  functions_of((opencl_queue *)q)->clWaitForEvents(1, &event);   /* the event's status tells whether it failed */
  return 0;
}

static int wait_behind(tg_queue *head, void *event) {
  opencl_queue *q = (opencl_queue *)head;
  return functions_of(q)->clEnqueueBarrierWithWaitList(q->queue, 1, &event, NULL);
}

static void drop_event(tg_queue *q, void *event) { functions_of((opencl_queue *)q)->clReleaseEvent(event); }

static const tg_mark_events events = {.pending = PENDING,
                                      .final = true,
                                      .put = put_event,
                                      .look = look_at,
                                      .wait = wait_for,
                                      .after = wait_behind,
                                      .drop = drop_event};

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
  opencl_device *d = device_of(q);
  if (head->options.native) why = take_native(q, head->options.native);
  else q->queue = d->f.clCreateCommandQueueWithProperties(d->context, d->device, profiled, &code);
  if (q->queue) {
    tg_marks_open(&q->marks, &events);
    *out = &q->head;
    return TG_OK;
  }
  a->free(a->user, q, sizeof *q);
  return why ? (snprintf(message, n, "%s", why), TG_EINVAL) : tg_opencl_failure(message, n, "making a queue", code);
}

void tg_opencl_queue_close(tg_queue *head) {
  opencl_queue *q = (opencl_queue *)head;
  const tg_allocator *a = &head->device->allocator;
  const opencl_functions *f = functions_of(q);
  tg_marks_close(&q->marks, head);
  for (uint32_t i = 0; i < TG_QUEUE_STAMPS; i++)
    if (q->stamp[i]) f->clReleaseEvent(q->stamp[i]);
  f->clReleaseCommandQueue(q->queue);
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
  pthread_mutex_lock(&q->marks.lock);
  if (q->stamp[slot]) f->clReleaseEvent(q->stamp[slot]);
  q->stamp[slot] = event;
  pthread_mutex_unlock(&q->marks.lock);
  return TG_OK;
}

tg_status tg_opencl_stamps(tg_queue *head, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  int code = 0;
  pthread_mutex_lock(&q->marks.lock);
  for (uint32_t i = 0; i < slots && !code; i++) {
    uint64_t at = 0;
    code = functions_of(q)->clGetEventProfilingInfo(q->stamp[first + i], CL_COMMAND_END, sizeof at, &at, NULL);
    seconds[i] = 1e-9 * (double)at;
  }
  pthread_mutex_unlock(&q->marks.lock);
  return code ? tg_opencl_failure(message, n, "reading a time", code) : TG_OK;
}

/* ---- marks ---- */

tg_status tg_opencl_submit(tg_queue *head, uint64_t *value, char *message, size_t n) {
  opencl_queue *q = (opencl_queue *)head;
  int code = tg_marks_submit(&q->marks, head, value);
  if (code) return tg_opencl_failure(message, n, "a marker", code);
  if (!*value) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  code = functions_of(q)->clFlush(q->queue);
  return code ? tg_opencl_failure(message, n, "starting work", code) : TG_OK;
}

tg_status tg_opencl_after(tg_queue *head, tg_queue *of, uint64_t value, char *message, size_t n) {
  int code = tg_marks_after(&((opencl_queue *)of)->marks, head, value);
  return code ? tg_opencl_failure(message, n, "a barrier", code) : TG_OK;
}

tg_status tg_opencl_wait(tg_queue *head, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  int code = tg_marks_wait(&((opencl_queue *)head)->marks, head, value, nanoseconds);
  if (code == PENDING) return snprintf(message, n, "the mark is not reached"), TG_TIMEOUT;
  return code ? tg_opencl_failure(message, n, "work on the device", code) : TG_OK;
}
