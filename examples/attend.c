/* SPDX-License-Identifier: MIT
 * Attention for an engine: a prompt, then token by token against a cache that grows, all by one plan. Four heads of Q
 * share one of K and V. Everything lies as [tokens][heads][head], so a new token is behind the others in the cache.
 * All that an engine needs is the lines down to the end of attend(); the others fill arrays and check the result. */
#include <stdio.h>
#include <stdlib.h>
#include <tg/attention.h>

enum { HEADS = 8, KV_HEADS = 2, HEAD = 64, PROMPT = 100, TOKENS = 140 };
static float q[TOKENS][HEADS][HEAD], k[TOKENS][KV_HEADS][HEAD], v[TOKENS][KV_HEADS][HEAD], o[TOKENS][HEADS][HEAD];

static int attend(void) {
  tg_context *context;
  if (tg_context_create(NULL, &context)) return 1;
  tg_attention_desc d = {.head = HEAD, .heads = HEADS, .kv_heads = KV_HEADS, .queries = {1, TOKENS},
                         .keys = {1, TOKENS}, .causal = TG_CAUSAL_BOTTOM_RIGHT};
  tg_attention *plan;
  if (tg_attention_plan(context, &d, &plan)) return puts(tg_error_message(context)), 1;
  size_t bytes = tg_attention_workspace(plan, NULL);
  tg_attention_call call = {.workspace = malloc(bytes), .workspace_bytes = bytes, .k = k, .v = v,
                            .q_strides = {0, HEAD, HEADS * HEAD}, .k_strides = {0, HEAD, KV_HEADS * HEAD},
                            .o_strides = {0, HEAD, HEADS * HEAD}, .v_strides = {0, HEAD, KV_HEADS * HEAD}};
  for (int cached = 0, fresh = PROMPT; cached < TOKENS; cached += fresh, fresh = 1) {
    call.queries = fresh, call.keys = cached + fresh;   /* the prompt, then one token at a time */
    call.q = q[cached], call.o = o[cached];
    if (tg_attention_run(plan, &call)) return puts(tg_error_message(context)), 1;
  }
  free(call.workspace), tg_attention_free(plan), tg_context_free(context);
  return 0;
}

/* ---- the check ---- */

#include <math.h>

/* The largest error against the formula in f64; token i sees the tokens 0..i. */
static double largest_error(void) {
  double worst = 0;
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < TOKENS; i++) {
      int kv = h / (HEADS / KV_HEADS);
      double weight[TOKENS], sum = 0;
      for (int j = 0; j <= i; j++) {
        double score = 0;
        for (int e = 0; e < HEAD; e++) score += (double)q[i][h][e] * (double)k[j][kv][e];
        sum += weight[j] = exp(score / sqrt(HEAD));
      }
      for (int e = 0; e < HEAD; e++) {
        double want = 0;
        for (int j = 0; j <= i; j++) want += weight[j] / sum * (double)v[j][kv][e];
        worst = fmax(worst, fabs((double)o[i][h][e] - want));
      }
    }
  return worst;
}

static float random_float(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

int main(void) {
  srand(1);
  for (int t = 0; t < TOKENS; t++)
    for (int e = 0; e < HEADS * HEAD; e++) {
      q[t][e / HEAD][e % HEAD] = random_float();
      if (e < KV_HEADS * HEAD) k[t][e / HEAD][e % HEAD] = random_float(), v[t][e / HEAD][e % HEAD] = random_float();
    }
  if (attend()) return 1;
  double worst = largest_error();
  printf("%d heads, a prompt of %d tokens and %d more: largest error %.1e\n", HEADS, PROMPT, TOKENS - PROMPT, worst);
  return !(worst < 1e-5);
}
