/* SPDX-License-Identifier: MIT
 * A layer whose weights have four bits: quantised in groups of 32 with a scale and a zero point each, packed once, and used for a single token and for a
 * prompt by one plan. The weights stay four bits wide in memory; they become floats in registers, or in a cache where many rows share them. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tg/gemm.h>

enum { IN = 512, OUT = 384, GROUP = 32, GROUPS = IN / GROUP, TOKENS = 64 };

static float weights[OUT][IN], x[TOKENS][IN], y[TOKENS][OUT];
static uint8_t q[OUT][IN / 2];            /* two in a byte, of neighbours along IN the first in the low bits */
static float scale[GROUPS][OUT];          /* weight = scale * (q - zero) */
static uint8_t zero[GROUPS][OUT];

static float unit(uint32_t *state) { return (float)((*state = *state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1; }

/* From the least to the largest weight of a group in 15 steps. */
static void quantise(int o, int g) {
  const float *w = &weights[o][g * GROUP];
  float least = 0, most = 0;
  for (int i = 0; i < GROUP; i++) least = fminf(least, w[i]), most = fmaxf(most, w[i]);
  float s = (most - least) / 15, step = s > 0 ? s : 1;
  scale[g][o] = step;
  zero[g][o] = (uint8_t)lrintf(-least / step);
  for (int i = 0; i < GROUP; i++) {
    int v = (int)lrintf(w[i] / step) + zero[g][o], at = g * GROUP + i;
    v = v < 0 ? 0 : v > 15 ? 15 : v;
    q[o][at / 2] = (uint8_t)(q[o][at / 2] | v << at % 2 * 4);
  }
}

static double weight_of(int o, int i) { return (double)scale[i / GROUP][o] * ((q[o][i / 2] >> i % 2 * 4 & 15) - zero[i / GROUP][o]); }

static int is_wrong(int tokens, double *off) {
  for (int t = 0; t < tokens; t++)
    for (int o = 0; o < OUT; o++) {
      double want = 0, size = 0, exact = 0;
      for (int i = 0; i < IN; i++) want += x[t][i] * weight_of(o, i), size += fabs(x[t][i] * weight_of(o, i)), exact += (double)x[t][i] * weights[o][i];
      if (fabs(y[t][o] - want) > 1e-5 * size) return 1;
      *off = fmax(*off, fabs(want - exact));
    }
  return 0;
}

int main(void) {
  uint32_t state = 1;
  for (int o = 0; o < OUT; o++)
    for (int i = 0; i < IN; i++) weights[o][i] = unit(&state) / 16;
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < IN; i++) x[t][i] = unit(&state);
  for (int o = 0; o < OUT; o++)
    for (int g = 0; g < GROUPS; g++) quantise(o, g);

  tg_context *context;
  if (tg_context_create(NULL, &context)) return 1;
  tg_gemm_desc d = {.m = {1, TOKENS}, .n = {OUT, 0}, .k = {IN, 0}, .b = TG_U8, .b_bits = 4, .b_zero = TG_U8, .b_group = GROUP};
  tg_gemm_packing packing;                /* plain data: what is packed by it may be kept in a file and mapped */
  if (tg_gemm_packing_choose(context, &d, 1, &packing)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
  void *packed = malloc(packing.bytes);
  if (!packed || tg_gemm_pack(&packing, q, (int64_t[2]){1, IN}, packed)) return 1;   /* strides in elements: along IN, and from an output to the next */
  d.packing = &packing;

  tg_gemm *layer;
  if (tg_gemm_plan(context, &d, &layer)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
  size_t bytes = tg_gemm_workspace(layer, NULL);
  void *workspace = malloc(bytes + 1);
  tg_gemm_call call = {.a = x, .b = packed, .c = y, .b_scale = scale, .b_zero = zero, .workspace = workspace, .workspace_bytes = bytes};
  printf("%zu bytes of weights, scales and zero points, %zu as floats\n", packing.bytes + sizeof scale + sizeof zero, sizeof weights);
  int wrong = 0;
  for (call.m = 1; call.m <= TOKENS; call.m *= 8) {
    double off = 0;
    if (tg_gemm_run(layer, &call)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
    wrong |= is_wrong((int)call.m, &off);
    printf("%2lld tokens: %s; four bits are off by %.3f at most\n", (long long)call.m, wrong ? "wrong" : "right", off);
  }
  free(workspace), free(packed);
  tg_gemm_free(layer);
  tg_context_free(context);
  return wrong;
}
