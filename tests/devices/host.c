/* SPDX-License-Identifier: MIT
 * The host's CPU through tg/device.h: device 0 of every context, its memory, a launch that is done when it returns, tasks that
 * are dealt out in shares; and that all memory goes with the context. */
#include <stdlib.h>
#include "../test.h"
#include "tg/device.h"

static long pieces;

static void *counted(void *user, size_t bytes) { return (void)user, pieces++, malloc(bytes); }
static void returned(void *user, void *p, size_t bytes) { (void)user, (void)bytes, pieces--, free(p); }

static const char add[] = "kernel add(N in 1..1000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] + 1; }";

/* A task for each element: one by one up to 64 for each of two threads, beyond that in shares of unequal length. */
static void shares(tg_context *c) {
  enum { MOST = 1000 };
  static const int64_t sizes[] = {1, 2, 128, 129, 255, 256, 257, MOST};
  static const char many[] = "kernel many(N in 1..1000) { in(x, f32, [N]); inout(y, f32, [N]); range(i, N, thread) y[i] = y[i] + x[i]; }";
  static float x[MOST], y[MOST];
  tg_kernel *k = NULL;
  CHECK(!tg_kernel_compile_text(c, "many", many, &(tg_compile_options){.flags = TG_COMPILE_AS_WRITTEN}, &k), "%s", tg_error_message(c));
  for (size_t s = 0; k && s < sizeof sizes / sizeof *sizes; s++) {
    const int64_t n = sizes[s];
    int64_t wrong = 0;
    for (int64_t i = 0; i < MOST; i++) x[i] = (float)(i + 1), y[i] = 1;
    tg_argument a[] = {{x, (size_t)n * 4}, {y, (size_t)n * 4}};
    CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1, .threads = 2}), "%s", tg_error_message(c));
    for (int64_t i = 0; i < MOST; i++) wrong += y[i] != (i < n ? (float)(i + 2) : 1);
    CHECK(!wrong, "%lld of %lld elements were not added once", (long long)wrong, (long long)n);
  }
  tg_kernel_free(k);
}

int main(void) {
  tg_context_options options = {.allocator = {counted, returned, NULL}, .threads = 2};
  tg_device_info about;
  tg_context *c;
  tg_device *d = NULL, *again = NULL;
  tg_kernel *k = NULL, *same = NULL;
  float mine[100] = {[0] = 1, [99] = -3}, back[100];
  int64_t n = 100;
  void *x = NULL, *y = NULL, *none = NULL;
  CHECK(tg_device_describe(0, NULL) == TG_EINVAL && tg_device_describe(0, &about) == TG_OK && !strcmp(about.driver, "cpu") && about.host_memory && about.cores && !about.lacks[0], "described");
  CHECK(tg_device_describe(UINT32_MAX, &about) == TG_MISS, "as many as there are");
  CHECK(tg_context_create(&options, &c) == TG_OK, "a context");
  CHECK(tg_device_open(NULL, 0, &d) == TG_EINVAL && tg_device_open(c, 0, NULL) == TG_EINVAL, "nothing to open");
  CHECK(!tg_device_open(c, 0, &d) && !tg_device_open(c, 0, &again) && d == again, "device 0");
  CHECK(!tg_device_alloc(d, sizeof mine, &x) && !tg_device_alloc(d, sizeof mine, &y) && !tg_device_alloc(d, 0, &none) && !((uintptr_t)x % 64) && !((uintptr_t)y % 64) && x != y, "memory");
  CHECK(tg_device_alloc(d, SIZE_MAX - 8, &none) == TG_ENOMEM && !none && strstr(tg_error_message(c), "out of memory"), "%s", tg_error_message(c));
  CHECK(!tg_device_copy(d, x, mine, sizeof mine) && !memcmp(x, mine, sizeof mine) && tg_device_copy(d, x, NULL, 1) == TG_EINVAL, "copies");
  CHECK(!tg_kernel_compile_text(c, "add", add, &(tg_compile_options){.device = d}, &k) && !tg_kernel_compile_text(c, "add", add, NULL, &same), "%s", tg_error_message(c));
  tg_argument a[] = {{x, sizeof mine}, {y, sizeof mine}}, own[] = {{mine, sizeof mine}, {back, sizeof back}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1}, host = l;
  host.buffers = own;
  CHECK(!tg_kernel_start(k, &l) && ((float *)y)[0] == 2 && ((float *)y)[99] == -2 && !tg_device_finish(d), "done when it returns: %s", tg_error_message(c));
  CHECK(!tg_kernel_run(k, &host) && back[0] == 2 && back[99] == -2, "any memory: %s", tg_error_message(c));
  memset(y, 0, sizeof mine);
  CHECK(!tg_kernel_run(same, &l) && ((float *)y)[0] == 2, "a kernel of no device is the CPU's");
  CHECK(tg_kernel_start(NULL, &l) == TG_EINVAL && tg_device_finish(NULL) == TG_EINVAL && tg_device_copy(NULL, x, y, 1) == TG_EINVAL, "nothing");
  tg_kernel_free(k), tg_kernel_free(same);
  shares(c);
  tg_device_free(d, x), tg_device_free(d, NULL);
  tg_context_free(c);   /* y and the piece of no bytes go too */
  CHECK(pieces == 0, "%ld pieces are left", pieces);
  return TEST_END();
}
