/* SPDX-License-Identifier: MIT
 * tg bench attention, what tg is compared with itself: variants with the plain operation, calls of new lengths with
 * calls of one, memory with what inputs and outputs take. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/attention_run.h"

/* ---- variants ---- */

/* at_least: of plain time / variant time. */
typedef struct { const char *name; attention_shape variant, plain; double at_least; } variant;

static void variant_case(attention_bench *b, const variant *v) {
  attention_case of_variant, of_plain;
  attention_own other, plain;
  bench_ratio r;
  if (!attention_wants(b, v->name)) return;
  if (!attention_case_open(&v->variant, 1, 1, &of_variant)) return (void)(b->result = TOOL_BROKEN);
  if (!attention_case_open(&v->plain, 1, 1, &of_plain))
    return attention_case_close(&of_variant), (void)(b->result = TOOL_BROKEN);
  bool good = attention_own_open(b, &of_variant, 1, v->name, &other);
  if (!attention_own_open(b, &of_plain, 1, v->name, &plain)) good = false;
  if (good && attention_contest(b, v->name,
                                &(bench_contest){.side = {{attention_own_run, &plain}, {attention_own_run, &other}},
                                                 .threads = 1},
                                &r)) {
    attention_share(b, v->name, "tg", attention_flops(&v->variant), &r, 1);
    if (b->args->json) attention_figure(b, v->name, "", r.ratio, "ratio", "the plain operation");
    else
      printf("  %-58s %.3f (%.3f .. %.3f) times as fast   bar %.2f: %s\n", v->name, r.ratio, r.least, r.most,
             v->at_least, r.ratio >= v->at_least ? "met" : "missed");
  }
  attention_own_close(&other), attention_own_close(&plain);
  attention_case_close(&of_variant), attention_case_close(&of_plain);
}

void attention_variants(attention_bench *b) {
#define SHAPE(H, T, D, ...) \
  { .batch = 1, .heads = H, .kv_heads = H, .head = D, .queries = T, .keys = T, .type = TG_F32, __VA_ARGS__ }
#define DECODE(H, KV, N, D, ...)                                                                                       \
  { .batch = 1, .heads = H, .kv_heads = KV, .head = D, .queries = 1, .keys = N, .type = TG_F32, __VA_ARGS__ }
  static const variant all[] = {
      {"variant: sinks, causal, window 1024, T4096 D64",
       SHAPE(2, 4096, 64, .causal = true, .window = 1024, .sinks = true),
       SHAPE(2, 4096, 64, .causal = true, .window = 1024), 0.8},
      {"variant: sinks, decode, GQA 8, N4096 D64", DECODE(16, 2, 4096, 64, .sinks = true),
       DECODE(16, 2, 4096, 64), 0.8},
      {"variant: pages of 16, T2048 D128", SHAPE(2, 2048, 128, .page = 16),
       SHAPE(2, 2048, 128), 0.8},
      {"variant: pages of 16, T2048 D64", SHAPE(2, 2048, 64, .page = 16),
       SHAPE(2, 2048, 64), 0.8},
      {"variant: pages of 16, decode, GQA 1, N4096 D128", DECODE(8, 8, 4096, 128, .page = 16),
       DECODE(8, 8, 4096, 128), 0.8},
      {"variant: pages of 16, decode, GQA 4, N4096 D128", DECODE(8, 2, 4096, 128, .page = 16),
       DECODE(8, 2, 4096, 128), 0.8},
      {"variant: i8 by key, decode, GQA 1, N16384 D128", DECODE(8, 8, 16384, 128, .bits = 8, .group = 128),
       DECODE(8, 8, 16384, 128), 0.8},
      {"variant: i8 by key, decode, GQA 4, N16384 D128", DECODE(8, 2, 16384, 128, .bits = 8, .group = 128),
       DECODE(8, 2, 16384, 128), 0.8},
      {"variant: i4 by 32, decode, GQA 1, N16384 D128", DECODE(8, 8, 16384, 128, .bits = 4, .group = 32),
       DECODE(8, 8, 16384, 128), 0.8},
      {"variant: i4 by 32, decode, GQA 4, N16384 D128", DECODE(8, 2, 16384, 128, .bits = 4, .group = 32),
       DECODE(8, 2, 16384, 128), 0.8},
      {"variant: i8 by key, T2048 D128", SHAPE(2, 2048, 128, .bits = 8, .group = 128), SHAPE(2, 2048, 128), 0.8},
      {"variant: blocks, 8 documents, T4096 D64", SHAPE(2, 4096, 64, .documents = 8, .blocks = true),
       SHAPE(2, 4096, 64), 6.4},
      {"variant: blocks, 8 documents, T4096 D128", SHAPE(2, 4096, 128, .documents = 8, .blocks = true),
       SHAPE(2, 4096, 128), 6.4},
      {"variant: dropout, causal, T2048 D64", SHAPE(2, 2048, 64, .causal = true, .dropout = 0.1f),
       SHAPE(2, 2048, 64, .causal = true), 0.8},
      {"variant: dropout, causal, T2048 D128", SHAPE(2, 2048, 128, .causal = true, .dropout = 0.1f),
       SHAPE(2, 2048, 128, .causal = true), 0.8},
      {"variant: causal of full, T4096 D64", SHAPE(2, 4096, 64, .causal = true), SHAPE(2, 4096, 64), 1.85},
      {"variant: causal of full, T4096 D128", SHAPE(2, 4096, 128, .causal = true), SHAPE(2, 4096, 128), 1.85},
      {"variant: causal of full, T8192 D64", SHAPE(1, 8192, 64, .causal = true), SHAPE(1, 8192, 64), 1.85},
      {"variant: window 1024, causal, of full, T16384 D64", SHAPE(1, 16384, 64, .causal = true, .window = 1024),
       SHAPE(1, 16384, 64), 10},
      {"variant: mask_mod of 8 documents of full, T4096 D64", SHAPE(2, 4096, 64, .documents = 8), SHAPE(2, 4096, 64),
       5.5},
      {"variant: mask_mod of 8 documents of full, T8192 D128", SHAPE(1, 8192, 128, .documents = 8),
       SHAPE(1, 8192, 128), 5.5},
      {"variant: ALiBi, causal, T2048 D64", SHAPE(4, 2048, 64, .causal = true, .alibi = true),
       SHAPE(4, 2048, 64, .causal = true), 1 / 1.03},
      {"variant: ALiBi, causal, T2048 D128", SHAPE(4, 2048, 128, .causal = true, .alibi = true),
       SHAPE(4, 2048, 128, .causal = true), 1 / 1.03},
      {"variant: ALiBi and soft cap, causal, T2048 D64",
       SHAPE(4, 2048, 64, .causal = true, .alibi = true, .soft_cap = 30), SHAPE(4, 2048, 64, .causal = true), 1 / 1.2},
      {"variant: ALiBi and soft cap, causal, T2048 D128",
       SHAPE(4, 2048, 128, .causal = true, .alibi = true, .soft_cap = 30), SHAPE(4, 2048, 128, .causal = true),
       1 / 1.1}};
#undef SHAPE
#undef DECODE
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) variant_case(b, &all[i]);
}

/* ---- a call ---- */

enum { CALLS = 1000, LENGTHS = 7 };
typedef struct { tg_attention *plan; tg_attention_call call; bool changing; } calls;

/* Next to no work, so the time is that of the call. */
static bool run_calls(void *user) {
  calls *c = user;
  for (int i = 0; i < CALLS; i++) {
    c->call.queries = 1, c->call.keys = c->changing ? 1 + i % LENGTHS : 1;
    if (tg_attention_run(c->plan, &c->call)) return false;
  }
  return true;
}

void attention_launch(attention_bench *b) {
  for (int threads = 1; threads <= b->threads; threads++) {
    const char *name =
        threads > 1 ? "launch: a call of new lengths, 2 threads" : "launch: a call of new lengths, 1 thread";
    static _Alignas(64) float q[64], k[LENGTHS * 64], v[LENGTHS * 64], o[64];
    tg_attention_desc d = {.head = 64, .queries = {1, 4096}, .keys = {1, 32768}, .threads = threads};
    tg_attention *plan = NULL;
    bench_ratio r;
    if (!attention_wants(b, name)) continue;
    if (tg_attention_plan(b->ctx[threads], &d, &plan)) {
      attention_wrong(b, name, tg_error_message(b->ctx[threads]));
      continue;
    }
    calls one = {.plan = plan, .call = {.q = q, .k = k, .v = v, .o = o}};
    one.call.workspace_bytes = tg_attention_workspace(plan, NULL);
    one.call.workspace = tool_pages(one.call.workspace_bytes + 64);
    calls other = one;
    other.changing = true;
    uint32_t kernels = tg_attention_describe(plan).kernels;
    if (attention_contest(b, name,
                          &(bench_contest){.side = {{run_calls, &other}, {run_calls, &one}}, .threads = threads}, &r)) {
      double us = r.seconds[0] / CALLS * 1e6;
      if (b->args->json) attention_figure(b, name, "", us, "us", NULL);
      else
        printf("  %-58s %.3f us, %.3f of one length; %u kernels of the plan serve all   bar 3 us: %s\n", name, us,
               r.ratio, kernels, us <= 3 ? "met" : "missed");
      if (tg_attention_describe(plan).kernels != kernels) attention_wrong(b, name, "a call compiled a kernel");
    }
    free(one.call.workspace);
    tg_attention_free(plan);
  }
}

/* ---- memory ---- */

static double status_of(const char *field) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  double kib = 0;
  size_t n = strlen(field);
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, field, n) && line[n] == ':') kib = strtod(line + n + 1, NULL);
  if (f) fclose(f);
  return kib * 1024;
}

/* The largest resident set since the last call of this, which begins anew. False: the system does not say. */
static bool reset_peak(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (!f) return false;
  bool ok = fputs("5", f) >= 0;
  return !fclose(f) && ok;
}

void attention_memory(attention_bench *b) {
  const attention_shape s = {.class_of = "memory",
                             .batch = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .head = 64,
                             .queries = 32768,
                             .keys = 32768,
                             .type = TG_F32};
  for (int threads = 1; threads <= b->threads; threads++) {
    const char *name =
        threads > 1 ? "memory: 32768 x 32768, one head, 2 threads" : "memory: 32768 x 32768, one head, 1 thread";
    attention_case c;
    tg_attention_desc d = {.head = s.head, .queries = {s.queries, 0}, .keys = {s.keys, 0}, .threads = threads};
    tg_attention *plan = NULL;
    if (!attention_wants(b, name)) continue;
    if (!attention_case_open(&s, threads, 1, &c)) return (void)(b->result = TOOL_BROKEN);
    if (tg_attention_plan(b->ctx[threads], &d, &plan)) attention_wrong(b, name, tg_error_message(b->ctx[threads]));
    tg_attention_call call = {.q = c.q, .k = c.k, .v = c.v, .o = c.o};
    call.workspace_bytes = plan ? tg_attention_workspace(plan, &call) : 0;
    call.workspace = malloc(call.workspace_bytes + 1);   /* not touched yet: its pages count where a run uses them */
    attention_poison(&c);
    bool known = reset_peak();
    double before = status_of("VmRSS");
    if (plan && tg_attention_run(plan, &call)) attention_wrong(b, name, tg_error_message(b->ctx[threads]));
    double more = (status_of("VmHWM") - before) / threads;
    if (plan && !attention_right(&c, c.o, s.type)) attention_wrong(b, name, "tg: wrong result");
    if (b->args->json)
      attention_figure(b, name, "beyond inputs and outputs, a thread", known ? more : -1, "bytes", NULL);
    else if (known)
      printf("  %-58s %.0f KiB a thread beyond inputs and outputs (%zu KiB of workspace)   bar 1024 KiB: %s\n", name,
             more / 1024, call.workspace_bytes >> 10, more <= 1 << 20 ? "met" : "missed");
    else printf("  %-58s the system does not tell a process's peak\n", name);
    free(call.workspace);
    tg_attention_free(plan);
    attention_case_close(&c);
  }
}
