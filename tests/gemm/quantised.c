/* SPDX-License-Identifier: MIT
 * Products with weights of 4 and 8 bits: the sketches through the checks at every number of rows up to 64 and some beyond, as they lie and packed ahead; and what
 * descriptors and calls may not say. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../target.h"
#include "../test.h"
#include "checks/gemm.h"
#include "tg/gemm.h"

static tg_context *context;

/* A plan as a candidate of the checks; packed: through tg_gemm_pack. */
typedef struct { tg_gemm *gemm; const tg_gemm_problem *problem; tg_gemm_packing packing; void *b; } planned;

static tg_status run_plan(void *user, const tg_gemm_operands *o, char *message, size_t n) {
  const planned *x = user;
  const tg_gemm_problem *p = x->problem;
  int64_t ld = p->bits == 4 ? 2 * o->ldb : o->ldb;
  tg_gemm_call call = {.m = o->m, .n = o->n, .k = o->k, .a = o->a.data, .b = o->b.data, .c = o->c.data, .alpha = o->alpha.data, .beta = o->beta.data, .a_strides = {o->lda, 1}, .c_strides = {o->ldc, 1},
                       .b_strides = {p->b_major ? 1 : ld, p->b_major ? ld : 1}, .b_scale = o->scale.data, .b_zero = o->zero.data, .b_group_ld = o->ld_group};
  if (x->b) {
    if (tg_gemm_pack(&x->packing, o->b.data, call.b_strides, x->b)) return snprintf(message, n, "packing"), TG_EINVAL;
    call.b = x->b, call.b_strides[0] = call.b_strides[1] = 0;
  }
  call.workspace_bytes = tg_gemm_workspace(x->gemm, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  tg_status s = tg_gemm_run(x->gemm, &call);
  free(call.workspace);
  if (s) snprintf(message, n, "%s", tg_error_message(context));
  return s;
}

static tg_gemm_desc desc_of(const tg_gemm_problem *p) {
  return (tg_gemm_desc){.a = (uint8_t)p->a, .b = (uint8_t)p->b, .c = (uint8_t)p->c, .b_major = p->b_major, .alpha = p->alpha, .beta = p->beta, .m = {p->m.lo, p->m.hi}, .n = {p->n.lo, p->n.hi}, .k = {p->k.lo, p->k.hi},
                        .threads = 2, .b_bits = p->bits, .b_scale = (uint8_t)p->scale, .b_zero = (uint8_t)p->zero, .b_group = p->group, .b_group_major = p->group_major};
}

/* Every check at these numbers of rows. */
static void check(const tg_gemm_problem *p, bool packed, const int64_t *rows, uint32_t rows_n) {
  tg_gemm_desc d = desc_of(p);
  planned x = {.problem = p};
  tg_checks *g = NULL;
  tg_check_failure f = {0};
  if (packed) {
    CHECK(tg_gemm_packing_choose(context, &d, 1, &x.packing) == TG_OK, "%s", tg_error_message(context));
    x.b = malloc(x.packing.bytes), d.packing = &x.packing;
  }
  CHECK(tg_gemm_plan(context, &d, &x.gemm) == TG_OK, "%s", tg_error_message(context));
  CHECK(tg_checks_open(context, p, 0, &g) == TG_OK, "%s", tg_error_message(context));
  for (uint32_t i = 0; x.gemm && i < rows_n; i++) {
    tg_check_size size = {rows[i], p->n.lo, p->k.lo};
    tg_status s = tg_checks_run(g, run_plan, &x, &size, 1, (uint64_t)(rows[i] * 7 + p->group), &f);
    CHECK(s == TG_OK, "%u bits, %s, group %lld, zero %d%s: %s", p->bits, p->b == TG_I8 ? "signed" : "unsigned", (long long)p->group, (int)p->zero, packed ? ", packed" : "", f.text);
  }
  tg_checks_close(g);
  tg_gemm_free(x.gemm);
  free(x.b);
}

static const tg_gemm_problem usual = {.a = TG_F32, .b = TG_I8, .c = TG_F32, .acc = TG_F32, .bits = 4, .scale = TG_F32, .group = 32, .m = {1, 600}, .n = {70, 70}, .k = {128, 128}, .batch = {1, 1}};

static void rows(void) {
  static int64_t all[70];
  uint32_t n = 0;
  for (int64_t i = 1; i <= 64; i++) all[n++] = i;
  all[n++] = 65, all[n++] = 129, all[n++] = 600;
  for (int packed = 0; packed < 2; packed++) {
    tg_gemm_problem p = usual;
    check(&p, packed, all, n);
    p.b = TG_U8, p.zero = TG_U8, p.scale = TG_F16;
    check(&p, packed, all, n);
  }
}

/* Groups that do not divide k, one group, all majors, all types. */
/* all: of each pair of values one more. */
static void forms(bool all) {
  static const int64_t some[] = {1, 2, 5, 16, 17, 40};
  static const tg_type zeros[] = {TG_VOID, TG_U8, TG_I8, TG_F32, TG_F16, TG_BF16}, floats[] = {TG_F32, TG_F16, TG_BF16};
  static const struct { int64_t n, k, group; } sizes[] = {{1, 1, 1}, {64, 64, 64}, {33, 71, 32}, {128, 96, 0}, {15, 40, 5}, {130, 136, 8}, {96, 256, 128}, {31, 33, 100}};
  for (uint32_t i = 0; i < (all ? 24 : 16); i++) {
    tg_gemm_problem p = usual;
    p.bits = i % 3 == 2 ? 8 : 4, p.b = i % 2 ? TG_U8 : TG_I8, p.b_major = i / 2 % 2, p.group_major = i / 4 % 2, p.zero = zeros[i % 6], p.scale = floats[i / 3 % 3];
    p.a = floats[i / 5 % 3], p.c = i % 4 == 1 ? p.a : TG_F32, p.alpha = i % 5 == 0, p.beta = i % 5 < 2;
    p.n.lo = p.n.hi = sizes[i % 8].n, p.k.lo = p.k.hi = sizes[i % 8].k, p.group = sizes[i % 8].group;
    p.m = i % 2 ? (tg_kit_dim){1, 64} : (tg_kit_dim){some[i / 2 % 6], some[i / 2 % 6]};
    check(&p, i / 8 % 2, i % 2 ? some : &p.m.lo, i % 2 ? 6 : 1);
  }
}

/* Strips of packed weights on two threads: of whole panels, with the scales and zero points of their columns; the last one smaller. */
static void strips(bool all) {
  static const int64_t some[] = {8, 16, 40, 64};
  for (uint32_t i = 0; i < 4; i += all ? 1 : 3) {
    tg_gemm_problem p = usual;
    p.bits = i < 3 ? 4 : 8, p.group_major = i % 2, p.zero = i ? TG_U8 : TG_VOID, p.scale = i & 2 ? TG_F16 : TG_F32;
    p.n.lo = p.n.hi = 420, p.k.lo = p.k.hi = 320, p.m = (tg_kit_dim){1, 64};
    check(&p, true, some, 4);
  }
}

static void is_wrong(tg_gemm_desc d, const char *what) {
  tg_gemm *g = NULL;
  tg_status s = tg_gemm_plan(context, &d, &g);
  CHECK(s == TG_EINVAL && strstr(tg_error_message(context), what), "'%s': %s", what, s ? tg_error_message(context) : "accepted");
  tg_gemm_free(g);
}

static void errors(void) {
  tg_gemm_desc good = desc_of(&usual), d;
  good.threads = 1;
  is_wrong((d = good, d.b_bits = 3, d), "b_bits");
  is_wrong((d = good, d.b_bits = 0, d.b = 0, d), "without b_bits");
  is_wrong((d = good, d.b = TG_F32, d), "tg_gemm_desc.b:");
  is_wrong((d = good, d.a = TG_F64, d), "tg_gemm_desc.a:");
  is_wrong((d = good, d.acc = TG_F64, d), "tg_gemm_desc.acc:");
  is_wrong((d = good, d.b_scale = TG_I8, d), "b_scale");
  is_wrong((d = good, d.b_zero = TG_I32, d), "b_zero");
  is_wrong((d = good, d.b_group = -32, d), "b_group");
  is_wrong((d = good, d.b_group_major = TG_ANY_STRIDES, d), "b_group_major");
  is_wrong((d = good, d.b_major = TG_ANY_STRIDES, d), "b_major");
  is_wrong((d = good, d.b_ld.lo = 71, d), "b_ld");
  tg_gemm_packing packing;
  d = good, d.b_bits = 8;
  CHECK(tg_gemm_packing_choose(context, &d, 1, &packing) == TG_OK, "%s", tg_error_message(context));
  is_wrong((d = good, d.packing = &packing, d), "packing");
  static float a[128], c[70], scale[4 * 70];
  static uint8_t b[128 * 35];
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(context, &good, &g) == TG_OK, "%s", tg_error_message(context));
  static char workspace[1 << 17];
  const tg_gemm_call call = {.m = 1, .a = a, .b = b, .c = c, .b_scale = scale, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_gemm_call x;
  const struct { tg_gemm_call call; const char *what; } calls[] = {
    {(x = call, x.b_scale = NULL, x), "b_scale is NULL"}, {(x = call, x.b_scale = (char *)scale + 2, x), "b_scale is not aligned"}, {(x = call, x.b_scale = c, x), "c overlaps b_scale"},
    {(x = call, x.b_strides[0] = 71, x), "whole bytes"},  {(x = call, x.batch = 2, x), "one at a time"},                              {(x = call, x.b_group_ld = -1, x), "b_group_ld"}};
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(context));
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
    CHECK(tg_gemm_run(g, &calls[i].call) == TG_EINVAL && strstr(tg_error_message(context), calls[i].what), "'%s': %s", calls[i].what, tg_error_message(context));
  tg_gemm_free(g);
}

/*   gemm_quantised [all] */
int main(int argc, char **argv) {
  bool all = argc > 1 && !strcmp(argv[1], "all");
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3, .flags = TG_CONTEXT_VERIFY}, &context)) return 1;
  errors();
  rows();
  forms(all);
  strips(all);
  tg_context_free(context);
  return TEST_END();
}
