/* SPDX-License-Identifier: MIT
 * The 30 kernels of PolyBench against plain C, at small odd sizes: as the heuristic schedules them, as they are written, and with
 * sizes given at launch; on one thread and on three. What a kernel only reads must stay as it was.
 *   polybench_kernels [NAME]      default: all */
#include "../target.h"
#include "../test.h"
#include "polybench.h"

enum { SCHEDULED, AS_WRITTEN, RUN_TIME, WAYS };
static const char *const way_name[] = {"scheduled", "as written", "sizes at run time"};

static void compare(const polybench_case *c, const char *how, polybench_memory *got, const polybench_memory *want, const polybench_memory *initial) {
  if (c->settle) c->settle(got->data, (void **)(uintptr_t)initial->data);
  for (int i = 0; i < POLYBENCH_BUFFERS && c->buffer[i].role; i++) {
    const polybench_buffer *b = &c->buffer[i];
    int64_t where;
    if (b->role == POLYBENCH_READ) CHECK(!memcmp(got->data[i], initial->data[i], (size_t)polybench_bytes(b)), "%s, %s: wrote to buffer %d", c->name, how, i);
    if (b->role != POLYBENCH_WRITTEN) continue;
    int64_t wrong = polybench_differences(b, got->data[i], want->data[i], &where);
    CHECK(!wrong, "%s, %s: %lld elements of buffer %d, the first at %lld", c->name, how, (long long)wrong, i, (long long)where);
  }
}

static void one(tg_context *ctx, const polybench_case *c) {
  polybench_memory initial, want, got;
  const char *text = polybench_text_of(c->name);
  bool ready = polybench_allocate(c, &initial) && polybench_allocate(c, &want) && polybench_allocate(c, &got);
  CHECK(ready && text, "%s", c->name);
  c->init(initial.data);
  polybench_restore(c, &want, &initial);
  c->run(want.data);
  if (c->settle) c->settle(want.data, initial.data);
  tg_binding bind[6];
  uint32_t n = 0;
  while (n < 6 && c->size[n].name) n++;
  for (int way = 0; way < WAYS; way++) {
    tg_kernel *k = NULL;
    int64_t params[6];
    for (uint32_t i = 0; i < n; i++) {
      params[i] = c->size[i].value;
      bind[i] = (tg_binding){c->size[i].name, way == RUN_TIME ? 3 : params[i], way == RUN_TIME ? 1000 : params[i], 1};
    }
    tg_compile_options o = {.bindings = bind, .bindings_n = n, .flags = way == AS_WRITTEN ? TG_COMPILE_AS_WRITTEN : 0};
    tg_status s = tg_kernel_compile_text(ctx, c->name, text, &o, &k);
    CHECK(!s, "%s: %s", c->name, tg_error_message(ctx));
    if (s) continue;
    tg_argument a[POLYBENCH_BUFFERS];
    tg_launch l = {.buffers = a, .params = params, .params_n = way == RUN_TIME ? n : 0};
    for (int i = 0; i < POLYBENCH_BUFFERS && (c->buffer[i].role == POLYBENCH_READ || c->buffer[i].role == POLYBENCH_WRITTEN); i++)
      a[l.buffers_n++] = (tg_argument){got.data[i], (size_t)polybench_bytes(&c->buffer[i])};
    for (l.threads = 1; l.threads <= 3; l.threads += 2) {
      polybench_restore(c, &got, &initial);
      CHECK(!tg_kernel_run(k, &l), "%s: %s", c->name, tg_error_message(ctx));
      compare(c, way_name[way], &got, &want, &initial);
    }
    tg_kernel_free(k);
  }
  polybench_free(&initial), polybench_free(&want), polybench_free(&got);
}

int main(int argc, char **argv) {
  tg_context *ctx;
  int cases = 0;
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &ctx)) return 1;
  for (const polybench_case *c = polybench_small; c->name; c++, cases++)
    if (argc > 1 ? !strcmp(argv[1], c->name) : !test_part() || (unsigned)cases % 2 == test_part() % 2) one(ctx, c);
  CHECK(cases == POLYBENCH_KERNELS, "%d", cases);
  tg_context_free(ctx);
  return TEST_END();
}
