/* SPDX-License-Identifier: MIT
 * What is the same for all devices: numbering, checks of a launch's arguments against the kernel's signature, and
 * timing by the host's clock. */
#include <stdio.h>
#include <stdlib.h>
#include "devices/device.h"

enum { MAX_BUFFERS = 255, ALIGN = 64 };

static const tg_driver *const drivers[] = {&tg_driver_cpu, &tg_driver_opencl};

bool tg_device_at(uint32_t number, const tg_driver **driver, uint32_t *i, tg_device_info *out) {
  for (uint32_t d = 0; d < TG_COUNT(drivers); d++)
    for (*i = 0; drivers[d]->describe(*i, out); ++*i)
      if (!number--) {
        *driver = drivers[d];
        return true;
      }
  return false;
}

tg_status tg_device_describe(uint32_t i, tg_device_info *out) {
  const tg_driver *driver;
  uint32_t at;
  if (!out) return TG_EINVAL;
  return tg_device_at(i, &driver, &at, out) ? TG_OK : TG_MISS;
}

size_t tg_device_workspace(const tg_device_kernel *k, uint32_t threads) {
  return k->code ? (size_t)threads * k->info.workspace + k->info.shared : 0;
}

tg_phase_fn *tg_device_entry(const tg_device_kernel *k, size_t scratch) {
  enum { MAX_PARAMS = 32 };
  void *none[MAX_BUFFERS + 1] = {NULL};
  int64_t least[MAX_PARAMS], most[MAX_PARAMS];
  const tg_signature *s = k->signature;
  const tg_signature_param *p = tg_signature_params(s);
  if (!k->code || k->info.phases != 1 || k->info.loops || k->info.shared || k->info.aligned ||
      k->info.workspace > scratch || s->params_n > MAX_PARAMS || s->buffers_n > MAX_BUFFERS)
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

static tg_status check_overlaps(const tg_signature *s, const tg_launch *l, const int64_t *bytes, char *message,
                                size_t message_n) {
  const tg_signature_buffer *b = tg_signature_buffers(s);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    if (b[i].role == TG_ROLE_IN) continue;
    uintptr_t from = (uintptr_t)l->buffers[i].data, to = from + (uintptr_t)bytes[i];
    for (uint32_t k = 0; k < s->buffers_n; k++) {
      uintptr_t other = (uintptr_t)l->buffers[k].data;
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
    uintptr_t at = (uintptr_t)l->buffers[i].data;
    if (tg_signature_bytes(s, i, l->params, &bytes[i], message, message_n)) return TG_EINVAL;
    if (b[i].strided && b[i].role != TG_ROLE_IN && b[i].bytes < 0 && !tg_signature_apart(s, i, l->params))
      return wrong(message, message_n, "the strides of '%s', which the kernel writes, lay two elements on one place",
                   names + b[i].name);
    if (l->buffers[i].bytes < (uint64_t)bytes[i])
      return wrong(message, message_n, "'%s' has %zu bytes, %lld are needed", names + b[i].name, l->buffers[i].bytes,
                   (long long)bytes[i]);
    if (!at && bytes[i]) return wrong(message, message_n, "'%s' is NULL", names + b[i].name);
    if (at % (unsigned)tg_type_bytes(b[i].type))
      return wrong(message, message_n, "'%s' is not aligned to its elements of %d bytes", names + b[i].name,
                   tg_type_bytes(b[i].type));
    buffers[i] = l->buffers[i].data;
  }
  return check_overlaps(s, l, bytes, message, message_n);
}

/* ---- launches ---- */

/* The caller's workspace must have room for every thread that takes part. */
static tg_status check_workspace(const tg_device_kernel *k, const tg_launch *l, tg_work *w, char *message, size_t n) {
  if (!k->code) return wrong(message, n, "a launch on this device takes no workspace of the caller's");
  if (l->parallel_for) w->threads = l->threads > 0 ? (uint32_t)l->threads : 1;
  size_t needed = tg_device_workspace(k, w->threads);
  if ((uintptr_t)l->workspace % ALIGN) return wrong(message, n, "the workspace is not aligned to %d bytes", ALIGN);
  if (l->workspace_bytes < needed)
    return wrong(message, n, "the workspace has %zu bytes, %zu are needed on %u threads", l->workspace_bytes, needed,
                 w->threads);
  w->workspace = l->workspace;
  return TG_OK;
}

tg_status tg_device_start(tg_device_kernel *k, const tg_launch *l, char *message, size_t n) {
  void *buffers[MAX_BUFFERS + 1];
  int64_t bytes[MAX_BUFFERS];
  if (k->signature->buffers_n > MAX_BUFFERS) return wrong(message, n, "a kernel of over %d buffers", MAX_BUFFERS);
  tg_status s = check(k, l, buffers, bytes, message, n);
  if (s != TG_OK) return s;
  tg_work w = {.buffers = buffers,
               .bytes = bytes,
               .params = l->params,
               .threads = tg_pool_asked(k->device->pool, l->threads),
               .parallel_for = l->parallel_for,
               .parallel_user = l->parallel_user};
  if (l->workspace && (s = check_workspace(k, l, &w, message, n)) != TG_OK) return s;
  return k->driver->launch(k, &w, message, n);
}

tg_status tg_device_run(tg_device_kernel *k, const tg_launch *l, char *message, size_t n) {
  tg_status s = tg_device_start(k, l, message, n);
  return s == TG_OK && !k->code ? k->driver->wait(k->device, message, n) : s;   /* on the host's CPU it is complete */
}

/* ---- time ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

tg_status tg_device_time(tg_device_kernel *k, const tg_launch *launch, double seconds, tg_timing *out, char *message,
                         size_t message_n) {
  enum { MOST = 1000 };
  double times[MOST], start = tg_now();
  uint32_t n = 0, inner = 1;
  tg_status s = tg_device_run(k, launch, message, message_n);
  double first = tg_now() - start;
  /* short runs are timed together, so that the cost of reading the clock does not count */
  if (first < 20e-6) inner = (uint32_t)(20e-6 / (first > 1e-8 ? first : 1e-8)) + 1;
  for (start = tg_now(); s == TG_OK && n < MOST && (n < 3 || tg_now() - start < seconds); n++) {
    double t = tg_now();
    for (uint32_t i = 0; i < inner && s == TG_OK; i++) s = tg_device_run(k, launch, message, message_n);
    times[n] = (tg_now() - t) / inner;
  }
  if (s != TG_OK) return s;
  qsort(times, n, sizeof *times, by_value);
  *out = (tg_timing){times[0], times[n / 2], n};
  return TG_OK;
}
