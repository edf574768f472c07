/* SPDX-License-Identifier: MIT
 * Queues of NVIDIA's devices: streams, each mark an event behind the work. Times are those of events, counted from one
 * that the device's first queue recorded. */
#include "devices/cuda/cuda.h"

enum { NOT_READY = 600 };

static cuda_device *device_of(const cuda_queue *q) { return (cuda_device *)q->head.device; }

/* ---- events of marks: the context is current ---- */

static int put_event(tg_queue *head, void **event) {
  enum { DISABLE_TIMING = 2 };
  const cuda_queue *q = (cuda_queue *)head;
  const cuda_functions *f = &device_of(q)->f;
  int code = *event ? 0 : f->cuEventCreate(event, DISABLE_TIMING);
  if (code) return *event = NULL, code;
  return f->cuEventRecord(*event, q->stream);
}

static int look_at(tg_queue *q, void *event) { return ((cuda_device *)q->device)->f.cuEventQuery(event); }
static int wait_for(tg_queue *q, void *event) { return ((cuda_device *)q->device)->f.cuEventSynchronize(event); }
static void drop_event(tg_queue *q, void *event) { ((cuda_device *)q->device)->f.cuEventDestroy_v2(event); }
static int wait_behind(tg_queue *q, void *event) {
  return ((cuda_device *)q->device)->f.cuStreamWaitEvent(((cuda_queue *)q)->stream, event, 0);
}

static const tg_mark_events events = {.pending = NOT_READY,
                                      .again = true,
                                      .put = put_event,
                                      .look = look_at,
                                      .wait = wait_for,
                                      .after = wait_behind,
                                      .drop = drop_event};

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
  tg_marks_open(&q->marks, &events);
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

static void drop_all(cuda_queue *q) {
  const cuda_functions *f = &device_of(q)->f;
  tg_marks_close(&q->marks, &q->head);
  for (uint32_t i = 0; i < TG_QUEUE_STAMPS; i++)
    if (q->stamp[i]) f->cuEventDestroy_v2(q->stamp[i]);
  if (q->stream && !q->head.options.native) f->cuStreamDestroy_v2(q->stream);
}

void tg_cuda_queue_close(tg_queue *head) {
  cuda_queue *q = (cuda_queue *)head;
  const tg_allocator *a = &head->device->allocator;
  TG_CUDA_GIVE_BACK(device_of(q), drop_all(q));
  a->free(a->user, q, sizeof *q);
}

/* ---- work ---- */

tg_status tg_cuda_copy(tg_queue *q, void *to, const void *from, size_t bytes, char *message, size_t n) {
  cuda_device *d = (cuda_device *)q->device;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  code = d->f.cuMemcpyAsync((cuda_address)(uintptr_t)to, (cuda_address)(uintptr_t)from, bytes,
                            ((cuda_queue *)q)->stream);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "a copy", code) : TG_OK;
}

tg_status tg_cuda_stamp(tg_queue *head, uint32_t slot, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  void **event = &q->stamp[slot];
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&q->marks.lock);
  if (!*event && (code = d->f.cuEventCreate(event, 0))) *event = NULL;
  if (!code) code = d->f.cuEventRecord(*event, q->stream);
  pthread_mutex_unlock(&q->marks.lock);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "recording an event", code) : TG_OK;
}

/* A difference of two events is a float in milliseconds, so the slots are counted from the first of them: near ones are
 * told apart even when the device's zero is long ago. */
tg_status tg_cuda_stamps(tg_queue *head, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  float start = 0, ms = 0;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  pthread_mutex_lock(&q->marks.lock);
  code = d->f.cuEventElapsedTime(&start, d->zero, q->stamp[first]);
  for (uint32_t i = 0; i < slots && !code; i++) {
    ms = 0;
    if (i) code = d->f.cuEventElapsedTime(&ms, q->stamp[first], q->stamp[first + i]);
    seconds[i] = 1e-3 * (double)start + 1e-3 * (double)ms;
  }
  pthread_mutex_unlock(&q->marks.lock);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "reading a time", code) : TG_OK;
}

/* ---- marks ---- */

/* Where there is no event to be had, the work is waited for: then the mark is reached, and nothing that is freed
 * because of it is in use. */
tg_status tg_cuda_submit(tg_queue *head, uint64_t *value, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_device *d = device_of(q);
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  code = tg_marks_submit(&q->marks, head, value);
  tg_status s = code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : TG_OK;
  if (s != TG_LOST && !*value) {
    code = d->f.cuStreamSynchronize(q->stream);
    s = code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : TG_OK;
    if (s == TG_OK) *value = tg_marks_pass(&q->marks);
  }
  tg_cuda_leave(d);
  return s;
}

tg_status tg_cuda_after(tg_queue *head, tg_queue *other, uint64_t value, char *message, size_t n) {
  cuda_device *d = (cuda_device *)head->device;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  code = tg_marks_after(&((cuda_queue *)other)->marks, head, value);
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "waiting for another queue", code) : TG_OK;
}

tg_status tg_cuda_wait(tg_queue *head, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  cuda_device *d = (cuda_device *)head->device;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  code = tg_marks_wait(&((cuda_queue *)head)->marks, head, value, nanoseconds);
  tg_cuda_leave(d);
  if (code == NOT_READY) return snprintf(message, n, "the mark is not reached"), TG_TIMEOUT;
  return code ? tg_cuda_failure(&d->f, message, n, "work on the device", code) : TG_OK;
}
