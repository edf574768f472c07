/* SPDX-License-Identifier: MIT
 * Operations on a device whose driver fails: a product and an attention of f16, put on two queues and recorded as a graph, over the stand-ins. Each call of the driver's fails once: a status
 * and a message, nothing left, nothing done that no driver may do, and the context goes on unless the device is lost; where all went well all the same, the results are those of a whole run.
 *   devices_faults [--all] [TARGET ...]      without --all: every few calls */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "stand_in.h"
#include "tg/attention.h"
#include "tg/device.h"
#include "tg/gemm.h"

enum { M = 24, N = 32, K = 64, HEADS = 2, HEAD = 32, T = 20, PART = 11 };
enum { A, B, C, Q, KEYS, VALUES, O, BUFFERS };
static const size_t elements[BUFFERS] = {M * K, N * K, M * N, T * HEADS * HEAD, T * HEADS * HEAD, T * HEADS * HEAD, T * HEADS * HEAD};

typedef struct { tg_context *context; tg_device *device; tg_gemm *gemm; tg_attention *attention; tg_queue *q[2]; tg_graph *graph; void *at[BUFFERS]; uint16_t got[2][M * N + T * HEADS * HEAD]; } things;

#define TRY(call) \
  do { \
    tg_status s_ = (call); \
    if (s_ != TG_OK) return s_; \
  } while (0)

/* Small integers as f16, so that results are exact up to what the operation rounds. */
static uint16_t half_of(size_t i) { return (uint16_t)((i * 2654435761u >> 7) % 2 ? 0x3c00 : (i * 2654435761u >> 9) % 2 ? 0xbc00 : 0x4000); }

static tg_status put(things *t) {
  tg_queue_mark done = {NULL, 0};
  TRY(tg_gemm_run(t->gemm, &(tg_gemm_call){.m = M, .a = t->at[A], .b = t->at[B], .c = t->at[C], .queue = t->q[0]}));
  TRY(tg_queue_submit(t->q[0], &done));
  TRY(tg_queue_after(t->q[1], done));
  TRY(tg_attention_run(t->attention, &(tg_attention_call){.batch = 1, .queries = T, .keys = T, .q = t->at[Q], .k = t->at[KEYS], .v = t->at[VALUES], .o = t->at[O], .queue = t->q[1]}));
  return tg_device_finish(t->device);
}

static tg_status fetch(things *t, int i) {
  TRY(tg_device_copy(t->device, t->got[i], t->at[C], M * N * 2));
  return tg_device_copy(t->device, t->got[i] + M * N, t->at[O], T * HEADS * HEAD * 2);
}

static tg_status whole(things *t) {
  uint16_t data[T * HEADS * HEAD > M * K ? T * HEADS * HEAD : M * K + N * K];
  const tg_gemm_desc product = {.a = TG_F16, .b = TG_F16, .c = TG_F16, .b_major = TG_COLUMN_MAJOR, .m = {1, 64}, .n = {N, 0}, .k = {K, 0}, .device = t->device};
  const tg_attention_desc attention = {.q = TG_F16, .heads = HEADS, .head = HEAD, .queries = {1, 64}, .keys = {1, 64}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .device = t->device};
  TRY(tg_gemm_plan(t->context, &product, &t->gemm));
  TRY(tg_attention_plan(t->context, &attention, &t->attention));
  for (int i = 0; i < 2; i++) TRY(tg_queue_open(t->device, NULL, &t->q[i]));
  for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = half_of(i);
  for (int i = 0; i < BUFFERS; i++) {
    TRY(tg_device_alloc(t->device, elements[i] * 2, &t->at[i]));
    TRY(tg_device_copy(t->device, t->at[i], data, elements[i] * 2));
  }
  TRY(put(t));
  TRY(fetch(t, 0));
  TRY(tg_queue_record(t->q[0]));
  TRY(tg_gemm_run(t->gemm, &(tg_gemm_call){.m = M, .a = t->at[A], .b = t->at[B], .c = t->at[C], .queue = t->q[0]}));
  TRY(tg_attention_run(t->attention, &(tg_attention_call){.batch = 1, .queries = T, .keys = T, .q = t->at[Q], .k = t->at[KEYS], .v = t->at[VALUES], .o = t->at[O], .queue = t->q[0]}));
  TRY(tg_queue_recorded(t->q[0], &t->graph));
  for (int i = 0; i < 2; i++) TRY(tg_queue_replay(t->q[0], t->graph, NULL));
  TRY(tg_device_finish(t->device));
  return fetch(t, 1);
}

static void drop(things *t) {
  tg_graph_free(t->graph);
  for (int i = 0; i < 2; i++) tg_queue_free(t->q[i]);
  for (int i = 0; i < BUFFERS; i++) tg_device_free(t->device, t->at[i]);
  tg_gemm_free(t->gemm), tg_attention_free(t->attention);
}

typedef struct { tg_status status; uint64_t calls, opened; } outcome;   /* calls in all; until the device was open */

/* want: a whole run's results; NULL: this is one. A chip that does not tell its numbers is lowered for with those of its row, and attention then rounds as other kernels do. */
static outcome run(const char *target, const char *program, const char *cache, uint64_t call, things *t, const things *want) {
  uint32_t number = 0;
  outcome o = {.status = TG_MISS};
  *t = (things){.context = NULL};
  if (!stand_in_begin(target, program, 1, &number)) return o;
  CHECK(tg_context_create(&(tg_context_options){.cache = cache}, &t->context) == TG_OK, "a context");
  uint64_t before = stand_in_calls();
  if (call) stand_in_fail(before + call);
  o.status = tg_device_open(t->context, number, &t->device);
  o.opened = stand_in_calls() - before;
  if (o.status == TG_OK) o.status = whole(t);
  o.calls = stand_in_calls() - before;
  CHECK(o.status == TG_OK || tg_error_message(t->context)[0], "%s: call %llu fails: no message", target, (unsigned long long)call);
  CHECK(call || o.status == TG_OK, "%s: %s", target, tg_error_message(t->context));
  if (o.status == TG_OK)
    for (int i = 0; i < 2; i++)
      CHECK(!memcmp(t->got[i], want ? want->got[0] : t->got[0], call && call <= o.opened ? M * N * 2 : sizeof t->got[i]), "%s: call %llu fails, and the results differ", target, (unsigned long long)call);
  if (t->device) drop(t);
  if (t->device && o.status != TG_OK) {
    things again = {.context = t->context, .device = t->device};
    tg_status s = whole(&again);
    CHECK(s == (o.status == TG_LOST ? TG_LOST : TG_OK), "%s: call %llu fails with %s, then %s: %s", target, (unsigned long long)call, tg_status_name(o.status), tg_status_name(s), tg_error_message(t->context));
    CHECK(s != TG_OK || !memcmp(again.got[0], want->got[0], sizeof again.got[0]), "%s: call %llu fails, and what comes after is wrong", target, (unsigned long long)call);
    drop(&again);
  }
  tg_context_free(t->context);
  const char *fault = stand_in_fault();
  if (*fault && o.status != TG_LOST) printf("%s: call %llu fails with %s: %s\n", target, (unsigned long long)call, tg_status_name(o.status), fault);
  stand_in_end(o.status == TG_LOST);
  return o;
}

static void on(const char *target, const char *program, bool all) {
  static things first, t;
  char cache[TEST_PATH] = "tg-faults-XXXXXX";
  int told = 0, tried = 0;
  CHECK(test_folder(cache), "a folder");
  outcome o = run(target, program, cache, 0, &first, NULL);
  for (uint64_t call = 1; o.status == TG_OK && call <= o.calls; call += all ? 1 : PART, tried++)
    told += run(target, program, cache, call, &t, &first).status != TG_OK;
  printf("%s: %d of %llu calls failed, %d told\n", target, tried, (unsigned long long)o.calls, told);
  CHECK(told * 2 > tried, "%s: %d told of %d", target, told, tried);
  kit_remove(cache);
}

int main(int argc, char **argv) {
  static const char *const targets[] = {"sm_80", "gfx1100"};
  bool all = argc > 1 && !strcmp(argv[1], "--all");
  for (int i = 1 + all; i < argc; i++) on(argv[i], argv[0], all);
  for (size_t i = 0; i < TG_COUNT(targets) && argc < 2 + all; i++) on(targets[i], argv[0], all);
  return TEST_END();
}
