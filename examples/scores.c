/* SPDX-License-Identifier: MIT
 * Attention with rules of its own, as texts given at run time: which keys a query sees (documents that lie in one
 * sequence must not see each other), and what becomes of a score (a decay with the distance, for each head another).
 * The third rule needs no text: a window, where four heads share one head of K and V. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tg/attention.h>

enum { HEADS = 4, HEAD = 40, TOKENS = 200, WINDOW = 32 };
static float q[HEADS][TOKENS][HEAD], k[HEADS][TOKENS][HEAD], v[HEADS][TOKENS][HEAD], o[HEADS][TOKENS][HEAD];
static int32_t doc[TOKENS];
static float rate[HEADS];

/* ---- three descriptors, and what goes with each into a call ---- */

typedef struct {
  const char *name;
  tg_attention_desc desc;
  tg_attention_call call;
  int (*sees)(int i, int j);                             /* the same in C, for the check */
  double (*score)(double score, int h, int i, int j);
} rule;

static int same_document(int i, int j) { return doc[i] == doc[j] && j <= i; }
static int any(int i, int j) { return i >= 0 && j >= 0; }
static int near(int i, int j) { return j <= i && i - j < WINDOW; }
static double plain(double score, int h, int i, int j) { return h < 0 || i < 0 || j < 0 ? 0 : score; }
static double decayed(double score, int h, int i, int j) { return score - (double)rate[h] * abs(i - j); }

static const rule rules[] = {
    {"documents, causal",
     {.head = HEAD, .heads = HEADS, .queries = {TOKENS, 0}, .keys = {TOKENS, 0}, .causal = TG_CAUSAL_TOP_LEFT,
      .mask_mod = "doc_q == doc_k",
      .arg = {{"doc_q", TG_I32, TG_PER_QUERY}, {"doc_k", TG_I32, TG_PER_KEY}}},
     {.arg = {doc, doc}}, same_document, plain},
    {"decay by the distance",
     {.head = HEAD, .heads = HEADS, .queries = {TOKENS, 0}, .keys = {TOKENS, 0},
      .score_mod = "score - rate * f32(abs(q - k))",
      .arg = {{"rate", TG_F32, TG_PER_HEAD}}},
     {.arg = {rate}}, any, decayed},
    {"window, four heads to one of K and V",
     {.head = HEAD, .heads = HEADS, .kv_heads = 1, .queries = {TOKENS, 0}, .keys = {TOKENS, 0},
      .causal = TG_CAUSAL_TOP_LEFT, .window = WINDOW},
     {0}, near, plain}};

/* ---- the check ---- */

static double largest_error(const rule *r) {
  double worst = 0;
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < TOKENS; i++) {
      int kv = r->desc.kv_heads ? h / (HEADS / r->desc.kv_heads) : h;
      double weight[TOKENS], sum = 0;
      for (int j = 0; j < TOKENS; j++) {
        double score = 0;
        for (int e = 0; e < HEAD; e++) score += (double)q[h][i][e] * (double)k[kv][j][e];
        sum += weight[j] = r->sees(i, j) ? exp(r->score(score / sqrt(HEAD), h, i, j)) : 0;
      }
      for (int e = 0; e < HEAD; e++) {
        double want = 0;
        for (int j = 0; j < TOKENS; j++) want += weight[j] / sum * (double)v[kv][j][e];
        worst = fmax(worst, fabs((double)o[h][i][e] - want));
      }
    }
  return worst;
}

static int is_wrong(tg_context *context, const rule *r) {
  tg_attention *plan;
  if (tg_attention_plan(context, &r->desc, &plan)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
  size_t bytes = tg_attention_workspace(plan, NULL);
  void *workspace = malloc(bytes + 1);
  tg_attention_call call = r->call;
  call.q = q, call.k = k, call.v = v, call.o = o;        /* dense: [heads][tokens][head], so no strides */
  call.workspace = workspace, call.workspace_bytes = bytes;
  tg_status s = tg_attention_run(plan, &call);
  if (s != TG_OK) fprintf(stderr, "%s\n", tg_error_message(context));
  free(workspace);
  tg_attention_free(plan);
  if (s != TG_OK) return 1;
  double worst = largest_error(r);
  printf("%-40s largest error %.1e\n", r->name, worst);
  return !(worst < 1e-5);
}

int main(void) {
  float *all[] = {&q[0][0][0], &k[0][0][0], &v[0][0][0]};
  srand(1);
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < HEADS * TOKENS * HEAD; i++) all[t][i] = (float)rand() / (float)RAND_MAX * 2 - 1;
  for (int t = 0; t < TOKENS; t++) doc[t] = t < 70 ? 0 : t < 71 ? 1 : 2;
  for (int h = 0; h < HEADS; h++) rate[h] = 0.25f / (float)(h + 1);
  tg_context *context;
  if (tg_context_create(NULL, &context)) return 1;
  int wrong = 0;
  for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) wrong |= is_wrong(context, &rules[r]);

  /* a mistake in a text: the message shows the place */
  tg_attention_desc d = rules[1].desc;
  d.score_mod = "score - speed * f32(abs(q - k))";
  tg_attention *plan;
  wrong |= tg_attention_plan(context, &d, &plan) != TG_EINVAL;
  printf("%s\n", tg_error_message(context));
  tg_context_free(context);
  return wrong;
}
