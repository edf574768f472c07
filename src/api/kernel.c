/* SPDX-License-Identifier: MIT
 * A compiled kernel: what it is, running it, timing it. */
#include <stdio.h>
#include "api/api.h"

void tg_kernel_free(tg_kernel *k) {
  if (!k) return;
  tg_allocator a = k->context->env.allocator;
  for (uint32_t i = 0; i < k->versions_n; i++)
    if (!k->version[i].again) tg_device_unload(k->version[i].loaded);
  tg_device_unload(k->loaded);
  tg_kernel_drop_text(k);
  a.free(a.user, k, k->bytes);
}

const tg_kernel_info *tg_kernel_describe(const tg_kernel *k) { return k ? &k->info : NULL; }

tg_status tg_kernel_bytes(const tg_kernel *k, const int64_t *params, uint32_t b, size_t *bytes) {
  if (!k) return TG_EINVAL; /* from a failed compile; there is no context to set a message in */
  if (!bytes) return tg_context_fail(k->context, TG_EINVAL, "no place is given for the bytes");
  const tg_signature *s = k->loaded->signature;
  char message[512];
  int64_t n, before;
  *bytes = 0;
  if (b >= s->buffers_n) return tg_context_fail(k->context, TG_EINVAL, "the kernel has no such buffer");
  if (s->params_n && !params) return tg_context_fail(k->context, TG_EINVAL, "the kernel's parameters are missing");
  if (s->params_n && tg_signature_check_params(s, params, message, sizeof message))
    return tg_context_fail(k->context, TG_EINVAL, message);
  if (tg_signature_bytes(s, b, params, &n, &before, message, sizeof message))
    return tg_context_fail(k->context, TG_EINVAL, message);
  *bytes = (size_t)n;
  return TG_OK;
}

size_t tg_kernel_workspace(const tg_kernel *k, int threads) {
  if (!k) return 0;
  uint32_t pool = tg_pool_asked(k->context->pool, threads), n = threads > 0 ? (uint32_t)threads : 1;
  size_t most = tg_device_workspace(k->loaded, n > pool ? n : pool);
  for (uint32_t i = 0; i < k->versions_n; i++) {
    size_t bytes = tg_device_workspace(k->version[i].loaded, n > pool ? n : pool);
    if (bytes > most) most = bytes;
  }
  return most;
}

tg_device_kernel *tg_kernel_for(const tg_kernel *k, const int64_t *params, uint32_t params_n) {
  uint32_t n = k->info.params_n < TG_REGION_SIZES ? k->info.params_n : TG_REGION_SIZES;
  if (params_n >= n)   /* else the launch is refused */
    for (uint32_t i = 0; i < k->versions_n; i++)
      if (tg_region_has(k->version[i].size, params, n)) return k->version[i].loaded;
  return k->loaded;
}

/* The program's struct, which may lie in copy then. */
static tg_status read_launch(const tg_kernel *k, const tg_launch **l, size_t bytes, tg_launch *copy) {
  tg_status s = TG_WHOLE(k->context, tg_launch, copy, l, bytes);
  if (s != TG_OK) return s;
  if (!*l || (!(*l)->buffers && (*l)->buffers_n) || (!(*l)->params && (*l)->params_n))
    return tg_context_fail(k->context, TG_EINVAL, "the launch lacks its buffers or parameters");
  return TG_OK;
}

static tg_status put(tg_queue *q, tg_kernel *k, const tg_launch *l) {
  char message[512];
  tg_device_kernel *code = tg_kernel_for(k, l->params, l->params_n);
  tg_status s = q ? tg_device_put(q, code, l, message, sizeof message)
                  : tg_device_run(code, l, message, sizeof message);
  return s == TG_OK ? s : tg_context_fail(k->context, s, message);
}

/* Apart, for its large frame. */
__attribute__((noinline)) static tg_status put_named(tg_queue *q, tg_kernel *k, const tg_launch *l) {
  char message[512];
  tg_ordered_launch o;
  tg_status s = tg_launch_order(k, l, &o, message, sizeof message);
  return s == TG_OK ? put(q, k, &o.launch) : tg_context_fail(k->context, s, message);
}

/* queue NULL: the default one of the kernel's device, and wait */
static tg_status start(tg_queue *q, tg_kernel *k, const tg_launch *l, size_t bytes) {
  tg_launch copy;
  if (read_launch(k, &l, bytes, &copy) != TG_OK) return TG_EINVAL;
  return tg_launch_has_names(l) ? put_named(q, k, l) : put(q, k, l);
}

/* k is NULL if it is from a failed compile */
tg_status tg_kernel_run_sized(tg_kernel *k, const tg_launch *l, size_t bytes) {
  return k ? start(NULL, k, l, bytes) : TG_EINVAL;
}

tg_status tg_kernel_start_sized(tg_kernel *k, const tg_launch *l, size_t bytes) {
  tg_status s = k ? start(k->loaded->device->queue, k, l, bytes) : TG_EINVAL;
  return s == TG_OK ? tg_queue_submit(k->loaded->device->queue, NULL) : s;
}

tg_status tg_queue_launch_sized(tg_queue *q, tg_kernel *k, const tg_launch *l, size_t bytes) {
  return q && k ? start(q, k, l, bytes) : TG_EINVAL;
}

tg_status tg_kernel_time_sized(tg_kernel *k, const tg_launch *l, size_t bytes, double seconds, tg_timing *out,
                               size_t out_bytes) {
  char message[512];
  tg_launch copy;
  tg_ordered_launch o;
  tg_timing t = {.runs = 0};
  if (!k) return TG_EINVAL;
  if (!out) return tg_context_fail(k->context, TG_EINVAL, "no place is given for the timing");
  if (read_launch(k, &l, bytes, &copy) != TG_OK) return TG_EINVAL;
  tg_status s = tg_launch_order(k, l, &o, message, sizeof message);
  l = &o.launch;
  if (s == TG_OK)
    s = tg_device_time(tg_kernel_for(k, l->params, l->params_n), l, seconds, &t, message, sizeof message);
  tg_sized_write(out, out_bytes, &t, sizeof t);
  return s == TG_OK ? s : tg_context_fail(k->context, s, message);
}
