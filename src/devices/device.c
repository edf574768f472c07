/* SPDX-License-Identifier: MIT
 * What is the same for all devices: numbering, checks of a launch's arguments against the kernel's signature, and
 * timing. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "devices/device.h"

enum { ALIGN = 64 };

static const tg_driver *const drivers[] = {&tg_driver_cpu, &tg_driver_cuda, &tg_driver_opencl, &tg_driver_amd};

bool tg_device_at(uint32_t number, const tg_driver **driver, uint32_t *i, tg_device_info *out) {
  for (uint32_t d = 0; d < TG_COUNT(drivers); d++)
    for (*i = 0; drivers[d]->describe(*i, out); ++*i)
      if (!number--) {
        *driver = drivers[d];
        return true;
      }
  return false;
}

tg_status tg_device_describe_sized(uint32_t i, tg_device_info *out, size_t bytes) {
  const tg_driver *driver;
  tg_device_info about;
  uint32_t at;
  if (!out) return TG_EINVAL;
  if (!tg_device_at(i, &driver, &at, &about)) return TG_MISS;
  about.index = at;
  tg_sized_write(out, bytes, &about, sizeof about);
  return TG_OK;
}

tg_status tg_device_named(const char *name, uint32_t *i) {
  tg_device_info about;
  uint32_t number = 0, index = 0;
  const char *colon = name ? strchr(name, ':') : NULL;
  size_t n = colon ? (size_t)(colon - name) : name ? strlen(name) : 0;
  if (!n || !i || n >= sizeof about.driver) return TG_EINVAL;
  for (const char *p = colon ? colon + 1 : "0"; *p || (colon && p == colon + 1); p++) {
    if (!isdigit((unsigned char)*p) || index > 99999) return TG_EINVAL;
    index = 10 * index + (uint32_t)(*p - '0');
  }
  for (uint32_t d = 0; d < TG_COUNT(drivers); d++) {
    bool wanted = strlen(drivers[d]->name) == n && !memcmp(drivers[d]->name, name, n);
    uint32_t k = 0;
    for (; drivers[d]->describe(k, &about); k++, number++)
      if (wanted && k == index) return *i = number, TG_OK;
    if (wanted) return TG_MISS;
  }
  return TG_EINVAL;
}

size_t tg_device_workspace(const tg_device_kernel *k, uint32_t threads) {
  return k->code ? (size_t)threads * k->info.workspace + k->info.shared : k->scratch;
}

tg_phase_fn *tg_device_entry(const tg_device_kernel *k, size_t scratch) {
  enum { MAX_PARAMS = 32 };
  void *none[TG_MAX_BUFFERS + 1] = {NULL};
  int64_t least[MAX_PARAMS], most[MAX_PARAMS];
  const tg_signature *s = k->signature;
  const tg_signature_param *p = tg_signature_params(s);
  if (!k->code || k->info.phases != 1 || k->info.loops || k->info.shared || k->info.aligned ||
      k->info.workspace > scratch || s->params_n > MAX_PARAMS || s->buffers_n > TG_MAX_BUFFERS)
    return NULL;
  for (uint32_t i = 0; i < s->params_n; i++) least[i] = p[i].lo, most[i] = p[i].hi;
  return tg_code_tasks(k->code, 0, none, least) == 1 && tg_code_tasks(k->code, 0, none, most) == 1
             ? tg_code_entry(k->code, 0, false)
             : NULL;
}

/* ---- checks ---- */

static tg_status wrong(char *message, size_t n, const char *format, ...) TG_PRINTF(3, 4);
static tg_status wrong(char *message, size_t n, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, n, format, ap);
  va_end(ap);
  return TG_EINVAL;
}

static tg_status check_overlaps(const tg_signature *s, void *const *at, const int64_t *bytes, char *message,
                                size_t message_n) {
  const tg_signature_buffer *b = tg_signature_buffers(s);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    if (b[i].role == TG_ROLE_IN) continue;
    uintptr_t from = (uintptr_t)at[i], to = from + (uintptr_t)bytes[i];
    for (uint32_t k = 0; k < s->buffers_n; k++) {
      uintptr_t other = (uintptr_t)at[k];
      if (k == i || (k < i && b[k].role != TG_ROLE_IN) || other >= to || from >= other + (uintptr_t)bytes[k]) continue;
      return wrong(message, message_n, "'%s', which the kernel writes, overlaps '%s'",
                   tg_signature_strings(s) + b[i].name, tg_signature_strings(s) + b[k].name);
    }
  }
  return TG_OK;
}

static tg_status check(const tg_device_kernel *k, const tg_launch *l, void **buffers, int64_t *bytes, char *message,
                       size_t message_n) {
  const tg_signature *s = k->signature;
  const tg_signature_buffer *b = tg_signature_buffers(s);
  const char *names = tg_signature_strings(s);
  if (l->buffers_n != s->buffers_n)
    return wrong(message, message_n, "kernel '%s' takes %u buffers, %u are given", names + s->name, s->buffers_n,
                 l->buffers_n);
  if (l->params_n != s->params_n)
    return wrong(message, message_n, "kernel '%s' takes %u parameters, %u are given", names + s->name, s->params_n,
                 l->params_n);
  if (s->params_n && tg_signature_check_params(s, l->params, message, message_n)) return TG_EINVAL;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_argument *a = &l->buffers[i];
    int64_t before;
    if (tg_signature_bytes(s, i, l->params, &bytes[i], &before, message, message_n)) return TG_EINVAL;
    size_t offset = l->offsets && l->offsets[i] ? l->offsets[i] : (size_t)before, skipped = offset - (size_t)before;
    if (offset < (size_t)before)
      return wrong(message, message_n,
                   "'%s' reaches %lld bytes before its element of subscripts 0, whose offset is %zu",
                   names + b[i].name, (long long)before, offset);
    uintptr_t at = (uintptr_t)a->data + skipped;
    if (b[i].strided && b[i].role != TG_ROLE_IN && b[i].bytes < 0 && !tg_signature_apart(s, i, l->params))
      return wrong(message, message_n, "the strides of '%s', which the kernel writes, lay two elements on one place",
                   names + b[i].name);
    if (a->bytes < skipped || a->bytes - skipped < (uint64_t)bytes[i])
      return wrong(message, message_n, "'%s' has %zu bytes, %zu are needed", names + b[i].name, a->bytes,
                   skipped + (size_t)bytes[i]);
    if (!a->data && bytes[i]) return wrong(message, message_n, "'%s' is NULL", names + b[i].name);
    if (at % (unsigned)tg_type_bytes(b[i].type))
      return wrong(message, message_n, "'%s' is not aligned to its elements of %d bytes", names + b[i].name,
                   tg_type_bytes(b[i].type));
    buffers[i] = (void *)at;
  }
  return check_overlaps(s, buffers, bytes, message, message_n);
}

static tg_status check_promises(const tg_device_kernel *k, const tg_work *w, char *message, size_t n) {
  for (uint32_t i = 0; i < k->signature->buffers_n; i++)
    if (tg_signature_check_promise(k->signature, i, w->params, w->buffers[i], message, n)) return TG_EINVAL;
  return TG_OK;
}

/* ---- launches ---- */

/* The caller's workspace must have room for every thread that takes part. */
static tg_status check_workspace(const tg_device_kernel *k, const tg_launch *l, tg_work *w, char *message, size_t n) {
  if (l->parallel_for) w->threads = l->threads > 0 ? (uint32_t)l->threads : 1;
  size_t needed = tg_device_workspace(k, w->threads);
  if ((uintptr_t)l->workspace % ALIGN) return wrong(message, n, "the workspace is not aligned to %d bytes", ALIGN);
  if (l->workspace_bytes < needed)
    return k->code ? wrong(message, n, "the workspace has %zu bytes, %zu are needed on %u threads", l->workspace_bytes,
                           needed, w->threads)
                   : wrong(message, n, "the workspace has %zu bytes, %zu are needed", l->workspace_bytes, needed);
  w->workspace = l->workspace;
  return TG_OK;
}

tg_status tg_device_check(const tg_device_kernel *k, const tg_launch *l, void **buffers, int64_t *bytes, tg_work *w,
                          char *message, size_t n) {
  if (k->signature->buffers_n > TG_MAX_BUFFERS)
    return wrong(message, n, "a kernel of over %d buffers", TG_MAX_BUFFERS);
  tg_status s = check(k, l, buffers, bytes, message, n);
  *w = (tg_work){.buffers = buffers,
                 .bytes = bytes,
                 .params = l->params,
                 .threads = tg_pool_asked(k->device->pool, l->threads),
                 .parallel_for = l->parallel_for,
                 .parallel_user = l->parallel_user};
  return s == TG_OK && l->workspace ? check_workspace(k, l, w, message, n) : s;
}

tg_status tg_device_put(tg_queue *q, tg_device_kernel *k, const tg_launch *l, char *message, size_t n) {
  void *buffers[TG_MAX_BUFFERS + 1];
  int64_t bytes[TG_MAX_BUFFERS];
  tg_work w;
  if (k->device != q->device) return wrong(message, n, "the kernel was compiled for another device than the queue's");
  if (q->options.kind == TG_QUEUE_COPY) return wrong(message, n, "a queue of kind COPY takes no launches");
  tg_status s = tg_device_check(k, l, buffers, bytes, &w, message, n);
  if (s != TG_OK) return s;
  tg_graph *graph = atomic_load_explicit(&q->recording, memory_order_acquire);
  if (q->device->check_promises && !graph && (s = check_promises(k, &w, message, n)) != TG_OK) return s;
  return graph ? tg_graph_add_launch(graph, k, l, &w, message, n) : tg_queue_put(q, k, &w, message, n);
}

tg_status tg_device_run(tg_device_kernel *k, const tg_launch *l, char *message, size_t n) {
  tg_queue *q = k->device->queue;
  uint64_t value;
  tg_status s = tg_device_put(q, k, l, message, n);
  if (s != TG_OK || k->driver->immediate) return s;
  s = tg_queue_hand(q, &value, message, n);
  return s == TG_OK ? tg_queue_await(q, value, -1, message, n) : s;
}

void tg_device_unload(tg_device_kernel *k) {
  char message[256];
  tg_device_wait_all(k->device, message, sizeof message);
  k->driver->unload(k);
}

/* ---- time ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* `inner` launches one after another, seconds of all: by the host's clock, or the device's on a queue of their own. */
static tg_status measure(tg_queue *q, tg_device_kernel *k, const tg_launch *l, uint32_t inner, double *seconds,
                         char *message, size_t n) {
  double at[2] = {tg_now()};
  tg_status s = TG_OK;
  bool host = k->driver->immediate;
  if (!host) s = tg_queue_put_stamp(q, 0, message, n);
  for (uint32_t i = 0; i < inner && s == TG_OK; i++) s = tg_device_put(q, k, l, message, n);
  if (s == TG_OK && !host) s = tg_queue_put_stamp(q, 1, message, n);
  if (s == TG_OK && !host) s = tg_queue_times(q, 0, 2, at, message, n);
  else at[1] = tg_now();
  *seconds = at[1] - at[0];
  return s;
}

static tg_status time_on(tg_queue *q, tg_device_kernel *k, const tg_launch *l, double seconds, tg_timing *out,
                         char *message, size_t message_n) {
  enum { MOST = 1000 };
  const double least = 20e-6;   /* shorter runs are timed together, so that reading the clock does not count */
  double times[MOST], start, first = 0;
  uint32_t n = 0, inner = 1;
  tg_status s = measure(q, k, l, 1, &first, message, message_n);
  if (first < least) inner = (uint32_t)(least / (first > 1e-8 ? first : 1e-8)) + 1;
  for (start = tg_now(); s == TG_OK && n < MOST && (n < 3 || tg_now() - start < seconds); n++) {
    s = measure(q, k, l, inner, &times[n], message, message_n);
    times[n] /= inner;
  }
  if (s != TG_OK) return s;
  qsort(times, n, sizeof *times, by_value);
  *out = (tg_timing){.best = times[0], .median = times[n / 2], .runs = n};
  return TG_OK;
}

tg_status tg_device_time(tg_device_kernel *k, const tg_launch *l, double seconds, tg_timing *out, char *message,
                         size_t n) {
  tg_queue *q = k->device->queue;
  if (k->driver->immediate) return time_on(q, k, l, seconds, out, message, n);
  tg_status s = tg_device_wait_all(k->device, message, n);
  if (s == TG_OK) s = tg_queue_make(k->device, &(tg_queue_options){.kind = TG_QUEUE_COMPUTE}, &q, message, n);
  if (s != TG_OK) return s;
  s = time_on(q, k, l, seconds, out, message, n);
  tg_queue_drop(q);
  return s;
}
