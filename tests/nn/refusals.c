/* SPDX-License-Identifier: MIT
 * What tg/nn.h refuses, in descriptors and calls: the status, a message that names the field, and results that are as
 * they were. Structs of older headers, workspaces, plans without a compiler. */
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "tg/nn.h"

static tg_context *context;

/* ---- descriptors ---- */

static void refuse(const tg_nn_desc *d, const char *text) {
  tg_nn *nn = (tg_nn *)(void *)&context;
  CHECK(tg_nn_plan(context, d, &nn) == TG_EINVAL && !nn && strstr(tg_error_message(context), text), "%s (not: %s)",
        tg_error_message(context), text);
}

#define SIZES .rows = {0, 64}, .columns = {16, 0}
#define REFUSE(TEXT, ...) refuse(&(tg_nn_desc){__VA_ARGS__}, TEXT)

static void descriptors(void) {
  static const float negative = -1, endless = INFINITY, small = 1e-6f;
  REFUSE("tg_nn_desc.op: 0", SIZES);
  REFUSE("tg_nn_desc.op: 9", SIZES, .op = 9);
  REFUSE("tg_nn_desc.op: 255", SIZES, .op = 255);
  REFUSE("tg_nn_desc.backward: 2", SIZES, .op = TG_NN_SOFTMAX, .backward = 2);
  REFUSE("tg_nn_desc.activation: 5", SIZES, .op = TG_NN_GATE, .activation = 5);
  REFUSE("tg_nn_desc.activation: softmax has none", SIZES, .op = TG_NN_SOFTMAX, .activation = TG_NN_SILU);
  REFUSE("tg_nn_desc.x: type", SIZES, .op = TG_NN_SOFTMAX, .x = TG_F64);
  REFUSE("tg_nn_desc.y: type", SIZES, .op = TG_NN_SOFTMAX, .y = TG_I8);
  REFUSE("tg_nn_desc.weight: type", SIZES, .op = TG_NN_LAYERNORM, .weight = TG_I32);
  REFUSE("tg_nn_desc.bias: type 200", SIZES, .op = TG_NN_LAYERNORM, .bias = 200);
  REFUSE("tg_nn_desc.weight: gate has none", SIZES, .op = TG_NN_GATE, .weight = TG_F32);
  REFUSE("tg_nn_desc.bias: rmsnorm has none", SIZES, .op = TG_NN_RMSNORM, .bias = TG_F32);
  REFUSE("tg_nn_desc.bias: rmsnorm_backward has none", SIZES, .op = TG_NN_RMSNORM, .backward = 1, .bias = TG_F32);
  REFUSE("tg_nn_desc.statistics: 2", SIZES, .op = TG_NN_RMSNORM, .statistics = 2);
  REFUSE("tg_nn_desc.statistics: softmax has none", SIZES, .op = TG_NN_SOFTMAX, .statistics = 1);
  REFUSE("tg_nn_desc.rows: 5..3", .op = TG_NN_SOFTMAX, .rows = {5, 3}, .columns = {4, 0});
  REFUSE("tg_nn_desc.columns: -1..", .op = TG_NN_SOFTMAX, .rows = {5, 0}, .columns = {-1, 0});
  REFUSE("tg_nn_desc.columns: 0..2147483649", .op = TG_NN_SOFTMAX, .columns = {0, ((int64_t)1 << 31) + 1});
  REFUSE("tg_nn_desc: head, rotary", SIZES, .op = TG_NN_SOFTMAX, .head = 16);
  REFUSE("tg_nn_desc: head, rotary", SIZES, .op = TG_NN_SOFTMAX, .flags = TG_NN_INTERLEAVED);
  REFUSE("tg_nn_desc.columns: those of TG_NN_ROPE", .op = TG_NN_ROPE, .rows = {1, 0}, .columns = {4, 8});
  REFUSE("tg_nn_desc.columns: 1 are no pair", .op = TG_NN_ROPE, .rows = {1, 0}, .columns = {1, 0});
  REFUSE("tg_nn_desc.head: 5 is no divisor", SIZES, .op = TG_NN_ROPE, .head = 5);
  REFUSE("tg_nn_desc.head: -16 is no divisor", SIZES, .op = TG_NN_ROPE, .head = -16);
  REFUSE("tg_nn_desc.rotary: 3 is no even", SIZES, .op = TG_NN_ROPE, .rotary = 3);
  REFUSE("tg_nn_desc.rotary: 18 is no even number within 2..8", SIZES, .op = TG_NN_ROPE, .head = 8, .rotary = 18);
  REFUSE("tg_nn_desc.rotary: -2", SIZES, .op = TG_NN_ROPE, .rotary = -2);
  REFUSE("tg_nn_desc.epsilon: -1", SIZES, .op = TG_NN_RMSNORM, .epsilon = &negative);
  REFUSE("tg_nn_desc.epsilon: inf", SIZES, .op = TG_NN_RMSNORM, .epsilon = &endless);
  REFUSE("tg_nn_desc.epsilon: softmax has none", SIZES, .op = TG_NN_SOFTMAX, .epsilon = &small);
  REFUSE("tg_nn_desc.flags: 0x40", SIZES, .op = TG_NN_SOFTMAX, .flags = 64);
  REFUSE("TG_NN_IN_PLACE: x and y", SIZES, .op = TG_NN_SOFTMAX, .flags = TG_NN_IN_PLACE, .y = TG_F16);
  REFUSE("TG_NN_IN_PLACE: cross_entropy has no", SIZES, .op = TG_NN_CROSS_ENTROPY, .flags = TG_NN_IN_PLACE);
  REFUSE("tg_nn_desc.threads: -5", SIZES, .op = TG_NN_SOFTMAX, .threads = -5);
  tg_nn_desc d = {.op = TG_NN_SOFTMAX, SIZES};
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan(NULL, &d, &nn) == TG_EINVAL && tg_nn_plan(context, &d, NULL) == TG_EINVAL &&
            tg_nn_plan(context, NULL, &nn) == TG_EINVAL && !tg_nn_workspace(NULL, NULL) &&
            !tg_nn_describe(NULL).kernels && tg_nn_run(NULL, NULL) == TG_EINVAL && !*tg_nn_text(NULL),
        "nothing at all");
  tg_nn_free(NULL);
}

/* ---- calls ---- */

enum { N = 16, M = 8, FLOATS = 1 << 10 };
static float x[FLOATS], y[FLOATS], weight[FLOATS], bias[FLOATS], mean[M], rstd[M], none[FLOATS];

static void refuse_call(const tg_nn *nn, const tg_nn_call *call, const char *text) {
  for (int i = 0; i < FLOATS; i++) y[i] = 777;
  tg_status s = tg_nn_run(nn, call);
  CHECK(s == TG_EINVAL && strstr(tg_error_message(context), text), "%d: %s (not: %s)", s, tg_error_message(context),
        text);
  int changed = 0;
  for (int i = 0; i < FLOATS; i++) changed += y[i] != 777;
  CHECK(!changed, "%s: %d are written", text, changed);
}

static tg_nn *plan(const tg_nn_desc *d) {
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan(context, d, &nn) == TG_OK, "%s", tg_error_message(context));
  if (!nn) exit(1);
  return nn;
}

static void calls(void) {
  tg_nn *nn = plan(&(tg_nn_desc){.op = TG_NN_LAYERNORM, .rows = {0, M}, .columns = {N, 0}, .weight = TG_F32,
                                 .bias = TG_F32, .statistics = 1});
  const tg_nn_call good = {.rows = M, .x = x, .y = y, .weight = weight, .bias = bias, .mean = mean, .rstd = rstd};
#define WRONG(TEXT, ...)                                                                                               \
  do {                                                                                                                 \
    tg_nn_call c = good;                                                                                               \
    __VA_ARGS__;                                                                                                       \
    refuse_call(nn, &c, TEXT);                                                                                         \
  } while (0)
  WRONG("tg_nn_call.rows = 9, but the plan is for 0..8", c.rows = 9);
  WRONG("tg_nn_call.rows = -1", c.rows = -1);
  WRONG("tg_nn_call.columns = 15", c.columns = 15);
  WRONG("tg_nn_call.x is NULL", c.x = NULL);
  WRONG("tg_nn_call.y is NULL", c.y = NULL);
  WRONG("tg_nn_call.bias is NULL", c.bias = NULL);
  WRONG("tg_nn_call.mean is NULL", c.mean = NULL);
  WRONG("tg_nn_call.x is not aligned", c.x = (char *)x + 2);
  WRONG("tg_nn_call.rstd is not aligned", c.rstd = (float *)(void *)((char *)rstd + 1));
  WRONG("tg_nn_call.x_ld = 15: rows of 16 elements would overlap", c.x_ld = 15);
  WRONG("tg_nn_call.y_ld = -16 is negative", c.y_ld = -16);
  WRONG("tg_nn_call.x_ld = 2199023255552 is", c.x_ld = (int64_t)1 << 41);
  WRONG("tg_nn_call.y overlaps x", c.x = y);
  WRONG("tg_nn_call.y overlaps bias", c.bias = y + 100);
  WRONG("overlaps", c.mean = y);
  WRONG("overlaps", c.mean = c.rstd);
  WRONG("tg_nn_call.gate is given", c.gate = none);
  WRONG("tg_nn_call.dweight is given", c.dweight = none);
  WRONG("tg_nn_call.target is given", c.target = (const int32_t *)(const void *)none);
  WRONG("tg_nn_call.queue is given", c.queue = (tg_queue *)(void *)none);
#undef WRONG
  CHECK(tg_nn_run(nn, NULL) == TG_EINVAL, "no call");
  /* close to a refusal, and right */
  tg_nn_call c = good;
  c.rows = 1, c.x_ld = 3;
  CHECK(tg_nn_run(nn, &c) == TG_OK, "one row has no next: %s", tg_error_message(context));
  c = good, c.x = y + 16, c.x_ld = c.y_ld = 32;
  CHECK(tg_nn_run(nn, &c) == TG_OK, "rows between rows: %s", tg_error_message(context));
  c = (tg_nn_call){.rows = 0, .columns = N};
  CHECK(tg_nn_run(nn, &c) == TG_EINVAL, "weights are there also without rows");
  c.weight = weight, c.bias = bias;
  CHECK(tg_nn_run(nn, &c) == TG_OK, "no rows: %s", tg_error_message(context));
  tg_nn_free(nn);
}

static void rotary(void) {
  static const int32_t position[M] = {0};
  tg_nn *nn = plan(&(tg_nn_desc){.op = TG_NN_ROPE, .rows = {1, M}, .columns = {N, 0}, .flags = TG_NN_IN_PLACE});
  tg_nn_call c = {.rows = 2, .y = y, .position = position, .cosine = weight, .sine = bias};
  refuse_call(nn, &c, "tg_nn_call.positions = 0");
  c.positions = -3, refuse_call(nn, &c, "tg_nn_call.positions = -3");
  c.positions = 4, c.x = x, refuse_call(nn, &c, "tg_nn_call.x is given");
  c.x = NULL, c.sine = NULL, refuse_call(nn, &c, "tg_nn_call.sine is NULL");
  tg_nn_free(nn);
}

/* ---- what plans share ---- */

/* A program of an older header knows fewer fields. */
static void older(void) {
  tg_nn_desc d = {.op = TG_NN_SOFTMAX, .rows = {2, 0}, .columns = {4, 0}};
  memset((char *)&d + offsetof(tg_nn_desc, epsilon), 0x5a, sizeof d - offsetof(tg_nn_desc, epsilon));
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan_sized(context, &d, offsetof(tg_nn_desc, epsilon), &nn) == TG_OK, "%s", tg_error_message(context));
  if (!nn) return;
  tg_nn_call c;
  memset(&c, 0x5a, sizeof c);
  memset(&c, 0, offsetof(tg_nn_call, x_ld));
  c.x = x, c.y = y;
  for (int i = 0; i < 8; i++) x[i] = 1;
  CHECK(tg_nn_run_sized(nn, &c, offsetof(tg_nn_call, x_ld)) == TG_OK && y[7] == 0.25f, "%s", tg_error_message(context));
  tg_nn_free(nn);
}

/* In a program, what lies in place is read, and a result is not. */
static void programs(void) {
  tg_program *p = NULL;
  void *t = NULL, *u = NULL;
  tg_nn *apart = plan(&(tg_nn_desc){.op = TG_NN_SOFTMAX, .rows = {2, 0}, .columns = {4, 0}}),
        *placed = plan(&(tg_nn_desc){.op = TG_NN_SOFTMAX, .rows = {2, 0}, .columns = {4, 0}, .flags = TG_NN_IN_PLACE});
  static const tg_exec mine = {0};
  CHECK(tg_program_begin(context, NULL, &p) == TG_OK && tg_program_temporary(p, "t", 32, &t) == TG_OK && tg_program_temporary(p, "u", 31, &u) == TG_OK,
        "%s", tg_error_message(context));
#define PUT(plan, text, ...)                                                                                       \
  CHECK(tg_nn_put(p, plan, &(tg_nn_call){__VA_ARGS__}) == TG_EINVAL && strstr(tg_error_message(context), text), "%s", tg_error_message(context))
  PUT(placed, "reads 't', which no step before it writes", .y = t);
  PUT(apart, "reads 't', which no step before it writes", .x = t, .y = y);
  PUT(apart, "step 0, softmax: uses bytes 0 to 32 of 'u', which has 31", .x = x, .y = u);
  PUT(apart, "the program brings workspace", .x = x, .y = t, .exec = &mine);
  PUT(apart, "the program brings workspace", .x = x, .y = t, .threads = 1);
  PUT(apart, "tg_nn_call.x is NULL", .y = t);
#undef PUT
  CHECK(tg_nn_put(NULL, apart, NULL) == TG_EINVAL && tg_nn_put(p, NULL, NULL) == TG_EINVAL && tg_nn_put(p, apart, NULL) == TG_EINVAL, "NULL");
  CHECK(tg_nn_put(p, apart, &(tg_nn_call){.x = x, .y = t}) == TG_OK && tg_nn_put(p, placed, &(tg_nn_call){.y = t}) == TG_OK, "%s",
        tg_error_message(context));
  tg_program_free(p);
  tg_nn_free(apart), tg_nn_free(placed);
}

static void workspaces(void) {
  tg_nn *nn = plan(&(tg_nn_desc){.op = TG_NN_SOFTMAX, .x = TG_F16, .rows = {1, M}, .columns = {1, 3000}, .threads = 1});
  size_t bytes = tg_nn_workspace(nn, NULL);
  uint16_t half[16] = {0}, out[16];
  tg_nn_call c = {.rows = 1, .columns = 16, .x = half, .y = out};
  CHECK(bytes >= 3000 * sizeof(float) && bytes == tg_nn_workspace(nn, &c), "%zu bytes", bytes);
  refuse_call(nn, &c, "tg_nn_call.workspace has 0 bytes");
  char *workspace = malloc(bytes);
  c.workspace = workspace, c.workspace_bytes = bytes - 1;
  refuse_call(nn, &c, "are needed on 1 threads");
  c.workspace_bytes = bytes;
  CHECK(tg_nn_run(nn, &c) == TG_OK && out[15] == 0x2c00, "%s", tg_error_message(context));
  free(workspace);
  tg_nn_free(nn);
}

/* Kernels that are kept in a folder serve a context without a compiler; others are a miss. */
static void kept(void) {
  char folder[TEST_PATH] = "tg-nn-XXXXXX", command[TEST_PATH + 16];
  CHECK(test_folder(folder), "no folder");
  tg_context_options o = {.target = test_target(), .cache = folder};
  tg_nn_desc d = {.op = TG_NN_LAYERNORM, .backward = 1, .rows = {0, M}, .columns = {N, 0}, .weight = TG_F32};
  tg_context *a = NULL, *b = NULL;
  tg_nn *nn = NULL;
  CHECK(tg_context_create(&o, &a) == TG_OK && tg_context_create_runtime(&o, &b) == TG_OK, "contexts");
  if (!a || !b) return;
  CHECK(tg_nn_plan(b, &d, &nn) == TG_MISS && !nn, "nothing is kept yet: %s", tg_error_message(b));
  d.flags = TG_NN_NO_COMPILE;
  CHECK(tg_nn_plan(a, &d, &nn) == TG_MISS && !nn, "nothing may be compiled: %s", tg_error_message(a));
  d.flags = 0;
  CHECK(tg_nn_plan(a, &d, &nn) == TG_OK && tg_nn_describe(nn).kernels == 2 && !tg_nn_describe(nn).from_cache, "%s",
        tg_error_message(a));
  tg_nn_free(nn);
  CHECK(tg_nn_plan(b, &d, &nn) == TG_OK && tg_nn_describe(nn).from_cache == 2, "%s", tg_error_message(b));
  CHECK(!strncmp(tg_nn_text(nn), "kernel layernorm_backward_columns(", 34), "%s", tg_nn_text(nn));
  tg_nn_free(nn);
  tg_context_free(a), tg_context_free(b);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(!system(command), "%s", command);
}

int main(void) {
  tg_context_options options = {.target = test_target()};
  if (tg_context_create(&options, &context)) return 1;
  descriptors();
  calls();
  rotary();
  older();
  programs();
  workspaces();
  kept();
  tg_context_free(context);
  return TEST_END();
}
