/* SPDX-License-Identifier: MIT
 * What tg/gemm.h refuses, in descriptors and in calls: the status, and a message that names the field. */
#include <stddef.h>
#include "../target.h"
#include "../test.h"
#include "tg/gemm.h"

static tg_gemm *plan(tg_context *ctx, const tg_gemm_desc *d) {
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(ctx, d, &g) == TG_OK, "%s", tg_error_message(ctx));
  return g;
}

static void refuse(tg_context *ctx, const tg_gemm_desc *d, const char *text) {
  tg_gemm *g = (tg_gemm *)ctx;
  CHECK(tg_gemm_plan(ctx, d, &g) == TG_EINVAL && !g && strstr(tg_error_message(ctx), text), "%s (not: %s)", tg_error_message(ctx), text);
}

static void refuse_call(tg_context *ctx, const tg_gemm *g, const tg_gemm_call *call, const char *text) {
  CHECK(tg_gemm_run(g, call) == TG_EINVAL && strstr(tg_error_message(ctx), text), "%s (not: %s)", tg_error_message(ctx), text);
}

#define DIMS .m = {4, 0}, .n = {5, 0}, .k = {6, 0}

static void wrong_descriptors(tg_context *ctx) {
  refuse(ctx, &(tg_gemm_desc){.m = {-1, 0}, .n = {5, 0}, .k = {6, 0}}, "tg_gemm_desc.m: -1..0 is no range");
  refuse(ctx, &(tg_gemm_desc){.m = {4, 0}, .n = {5, 4}, .k = {6, 0}}, "tg_gemm_desc.n: 5..4 is no range");
  refuse(ctx, &(tg_gemm_desc){.m = {4, 0}, .n = {5, 0}, .k = {6, (int64_t)1 << 40}}, "tg_gemm_desc.k: ");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a = TG_BOOL}, "tg_gemm_desc.a: type");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a = TG_I8, .b = TG_F32}, "only b may be of integers");
  refuse(ctx, &(tg_gemm_desc){DIMS, .acc = TG_I32}, "tg_gemm_desc.acc is of integers");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a = TG_F16, .acc = TG_F16}, "tg_gemm_desc.acc is a type of 8 or 16 bits");
  refuse(ctx, &(tg_gemm_desc){DIMS, .b_major = 3}, "tg_gemm_desc.b_major: 3");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a_ld = {5, 0}}, "tg_gemm_desc.a_ld: 5 is less than the 6 elements");
  refuse(ctx, &(tg_gemm_desc){DIMS, .b_ld = {9, 12}}, "no fixed leading dimension");
  refuse(ctx, &(tg_gemm_desc){DIMS, .c_ld = {9, 0}, .c_major = TG_ANY_STRIDES}, "tg_gemm_desc.c_ld: of an operand with strides");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a_step = -1}, "tg_gemm_desc.a_step: -1 is no number of elements");
  refuse(ctx, &(tg_gemm_desc){DIMS, .b_step = ((int64_t)1 << 20) + 1}, "tg_gemm_desc.b_step: 1048577 is no number");
  refuse(ctx, &(tg_gemm_desc){DIMS, .c_step = 2, .c_major = TG_ANY_STRIDES}, "tg_gemm_desc.c_step: of an operand with strides");
  refuse(ctx, &(tg_gemm_desc){DIMS, .b_step = 2, .b = TG_I8, .b_bits = 8}, "tg_gemm_desc.b_step: weights of few bits");
  refuse(ctx, &(tg_gemm_desc){DIMS, .a_step = 2, .a_ld = {10, 0}}, "tg_gemm_desc.a_ld: 10 is less than the 11 elements");
  refuse(ctx, &(tg_gemm_desc){DIMS, .arg = {{"bias", 0, TG_PER_COLUMN}}}, "'bias' without an epilogue");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{NULL, 0, 0}, {"bias", 0, 0}}}, "stands behind an argument without a name");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{"acc", 0, 0}}}, "'acc' is no name, or one that is taken");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{"x y", 0, 0}}}, "'x y' is no name");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{"f32", 0, 0}}}, "tg_gemm_desc.arg[0]: 'f32' is no name");
  refuse(ctx, &(tg_gemm_desc){DIMS, .mostly = {{4, 5}}}, "tg_gemm_desc.mostly[0]: 4..5 is no part of the sizes 4..4 of m");
  refuse(ctx, &(tg_gemm_desc){DIMS, .mostly = {{0, 0}, {0, 5}}}, "tg_gemm_desc.mostly[1]: 0..5 is no part");
  refuse(ctx, &(tg_gemm_desc){.m = {4, 0}, .n = {5, 0}, .k = {6, 60}, .mostly = {{0, 0}, {0, 0}, {5, 20}}}, "tg_gemm_desc.mostly[2]: 5..20 is no part");
  refuse(ctx, &(tg_gemm_desc){DIMS, .threads = -5}, "tg_gemm_desc.threads: -5 is neither");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{"x", TG_BOOL, 0}}}, "arg[0].type");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc", .arg = {{"x", 0, 4}}}, "arg[0].per: 4");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc + bios", .arg = {{"bias", 0, TG_PER_COLUMN}}}, "<epilogue>:1:7: error: unknown name 'bios'");
  refuse(ctx, &(tg_gemm_desc){DIMS, .epilogue = "acc +"}, "<epilogue>:1:");
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(NULL, &(tg_gemm_desc){DIMS}, &g) == TG_EINVAL && tg_gemm_plan(ctx, &(tg_gemm_desc){DIMS}, NULL) == TG_EINVAL && tg_gemm_plan(ctx, NULL, &g) == TG_EINVAL, "nothing at all");
}

/* A plan for no call with a zero has one kernel, and says so to other calls. */
static void not_zero(tg_context *ctx) {
  static float x[4096], y[4096];
  static const float one = 1, zero = 0;
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {1, 400}, .n = {5, 0}, .k = {0, 6}, .alpha = 1, .beta = 1, .flags = TG_GEMM_ONE_KERNEL | TG_GEMM_NOT_ZERO});
  if (!g) return;
  CHECK(tg_gemm_describe(g).kernels == 1, "%u kernels", tg_gemm_describe(g).kernels);
  const tg_gemm_call good = {.m = 4, .k = 6, .a = x, .b = x + 1000, .c = y, .alpha = &one, .beta = &one};
  CHECK(tg_gemm_run(g, &good) == TG_OK, "%s", tg_error_message(ctx));
  tg_gemm_call call = good;
  call.k = 0, refuse_call(ctx, g, &call, "tg_gemm_call.k = 0, and the plan is for others");
  call = good, call.alpha = &zero, refuse_call(ctx, g, &call, "tg_gemm_call.alpha = 0, and");
  call = good, call.beta = &zero, refuse_call(ctx, g, &call, "tg_gemm_call.beta = 0, and");
  call = good, call.beta = NULL, refuse_call(ctx, g, &call, "tg_gemm_call.beta = 0, and");
  tg_gemm_free(g);
}

static void wrong_calls(tg_context *ctx) {
  static float x[4096], y[4096];
  static const float one = 1;
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {1, 8}, .n = {5, 0}, .k = {6, 0}}), *s = plan(ctx, &(tg_gemm_desc){DIMS, .c_major = TG_ANY_STRIDES, .epilogue = "acc + r", .arg = {{"r", 0, TG_PER_ELEMENT}}});
  tg_gemm *fixed = plan(ctx, &(tg_gemm_desc){DIMS, .a_ld = {8, 0}});
  tg_gemm *stepped = plan(ctx, &(tg_gemm_desc){DIMS, .b_step = 2, .c_step = 3});
  if (!g || !s || !fixed || !stepped) return;
  const tg_gemm_call good = {.m = 4, .a = x, .b = x + 1000, .c = y};
  CHECK(tg_gemm_run(g, &good) == TG_OK, "%s", tg_error_message(ctx));
#define REFUSE(PLAN, TEXT, ...) do { tg_gemm_call call = good; call.m = (PLAN) == g ? 4 : 0; __VA_ARGS__; refuse_call(ctx, (PLAN), &call, (TEXT)); } while (0)
  REFUSE(g, "tg_gemm_call.m = 9, but the plan is for 1..8", call.m = 9);
  REFUSE(g, "tg_gemm_call.m = 0, but the plan is for 1..8", call.m = 0);
  REFUSE(g, "tg_gemm_call.n = 6, but the plan is for 5..5", call.n = 6);
  REFUSE(g, "tg_gemm_call.k = -1, but the plan is for 6..6", call.k = -1);
  REFUSE(g, "tg_gemm_call.a is NULL", call.a = NULL);
  REFUSE(g, "tg_gemm_call.c is NULL", call.c = NULL);
  REFUSE(g, "tg_gemm_call.b is not aligned", call.b = (const char *)call.b + 2);
  REFUSE(g, "tg_gemm_call.c overlaps a", call.c = x + 23);
  REFUSE(g, "tg_gemm_call.c overlaps b", call.c = x + 1029);
  REFUSE(g, "a stride is negative", call.a_strides[0] = -6);
  REFUSE(g, "the plan has neighbours side by side", call.b_strides[0] = 5, call.b_strides[1] = 2);
  REFUSE(g, "rows or columns of 5 elements would overlap", call.c_strides[0] = 4);
  REFUSE(g, "tg_gemm_call.alpha is given", call.alpha = &one);
  REFUSE(g, "tg_gemm_call.beta is given", call.beta = &one);
  REFUSE(g, "tg_gemm_call.batch = -1", call.batch = -1);
  REFUSE(g, "the products' C overlap", call.batch = 2; static const int64_t apart[3] = {24, 30, 19}; call.batch_strides = apart);
  REFUSE(g, "tg_gemm_call.group_m[1] = 9", call.batch = 2; static const int64_t rows[2] = {1, 9}; call.group_m = rows);
  REFUSE(fixed, "the plan is for a leading dimension of 8", call.a_strides[0] = 9);
  REFUSE(stepped, "the plan has neighbours 2 elements apart", call.b_strides[0] = 10, call.b_strides[1] = 1);
  REFUSE(stepped, "the plan has neighbours 3 elements apart", call.c_strides[0] = 20, call.c_strides[1] = 4);
  REFUSE(stepped, "the plan has neighbours side by side", call.a_strides[0] = 20, call.a_strides[1] = 2);
  REFUSE(stepped, "rows or columns of 5 elements would overlap", call.c_strides[0] = 12);
  REFUSE(s, "lay two elements on one place", call.arg[0] = x + 2000; call.c_strides[0] = 2, call.c_strides[1] = 1);
  REFUSE(s, "tg_gemm_call.arg[0] is NULL", call.c_strides[0] = 9, call.c_strides[1] = 1);
  REFUSE(s, "tg_gemm_call.c overlaps arg[0]", call.arg[0] = y + 1);
  REFUSE(s, "tg_gemm_call.arg_ld[0] = -1", call.arg[0] = x + 2000; call.arg_ld[0] = -1);
  CHECK(tg_gemm_run(NULL, &good) == TG_EINVAL && tg_gemm_run(g, NULL) == TG_EINVAL, "nothing at all");
  /* Blocks of one larger matrix, between each other's rows. */
  tg_gemm_call beside = {.m = 4, .a = x, .b = x + 1000, .c = x + 6, .a_strides = {16, 1}, .c_strides = {16, 1}};
  CHECK(tg_gemm_run(g, &beside) == TG_OK, "%s", tg_error_message(ctx));
  beside.c = x + 5;
  refuse_call(ctx, g, &beside, "tg_gemm_call.c overlaps a");
  beside.c = x + 11;   /* and past the end of a row: 11 + 5 = 16 */
  CHECK(tg_gemm_run(g, &beside) == TG_OK, "%s", tg_error_message(ctx));
  beside.c = x + 12;
  refuse_call(ctx, g, &beside, "tg_gemm_call.c overlaps a");
  /* A program built before the last fields were there. */
  tg_gemm_call old = good;
  old.exec = (const tg_exec *)x;
  CHECK(tg_gemm_run_sized(g, &old, offsetof(tg_gemm_call, exec)) == TG_OK, "%s", tg_error_message(ctx));
  tg_gemm_free(g), tg_gemm_free(s), tg_gemm_free(fixed), tg_gemm_free(stepped);
}
int main(void) {
  tg_context *ctx = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target()}, &ctx) == TG_OK, "a context");
  wrong_descriptors(ctx);
  wrong_calls(ctx);
  not_zero(ctx);
  tg_context_free(ctx);
  return TEST_END();
}
