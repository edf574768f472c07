/* SPDX-License-Identifier: MIT
 * tg bench attention: prefill and decode of a checked-in list against libraries, each at its best entry point, and
 * against what the machine can do; variants against the plain operation; what a call costs, and the memory it takes. A
 * figure stands on pairs of neighbours: tg, the other, the other, tg. Each sample lies between two bursts of FMAs of 10
 * ms on all its threads, and counts if both are near the largest of the run (bench/turns.h). Every result is
 * verified. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/attention_run.h"
#include "bench/machine.h"
#include "target/target.h"

static const double burst = 0.01, usual_seconds = 3, slow = 0.5 /* seconds of a run that needs no repetition */;

/* ---- figures ---- */

bool attention_wants(attention_bench *b, const char *name) {
  bool wanted = !b->args->cases || strstr(name, b->args->cases);
  b->ran += wanted;
  return wanted;
}

bool attention_wrong(attention_bench *b, const char *name, const char *what) {
  fprintf(stderr, "tg bench attention: %s: %s\n", name, what);
  b->result = TOOL_WRONG;
  return false;
}

void attention_figure(const attention_bench *b, const char *name, const char *metric, double value, const char *unit,
                      const char *of) {
  tool_figure(b->args->json, "attention", name, metric, value, unit, of);
}

bool attention_contest(attention_bench *b, const char *name, bench_contest *c, bench_ratio *out) {
  c->seconds = b->args->seconds > 0 ? b->args->seconds : usual_seconds;
  c->burst = burst;
  if (!bench_contest_run(c, &b->peak[c->threads], out)) return attention_wrong(b, name, "a run failed");
  if (out->quiet < BENCH_PAIRS_LEAST && !b->args->json && out->quiet < out->kept)
    printf("      the machine is not quiet: %d of %d pairs\n", out->quiet, out->kept);
  return true;
}

double attention_share(attention_bench *b, const char *name, const char *whose, double flops, const bench_ratio *r,
                       int i) {
  double share = flops / r->burst[i];
  char what[128];
  snprintf(what, sizeof what, "%s is refused: faster than the FMA peak beside it, so one of both is wrong", whose);
  if (share > 1) attention_wrong(b, name, what);
  return share > 1 ? 0 : share;
}

void attention_count(attention_bench *b, const char *name, const char *unit, double value, double bar_mean,
                     double bar_least) {
  int i = 0;
  while (i < b->tallies && strcmp(b->tally[i].name, name)) i++;
  if (i == ATTENTION_TALLIES || value <= 0) return;
  attention_tally *t = &b->tally[i];
  if (i == b->tallies) {
    *t = (attention_tally){.unit = unit, .least = INFINITY, .bar_mean = bar_mean, .bar_least = bar_least};
    snprintf(t->name, sizeof t->name, "%s", name);
    b->tallies++;
  }
  t->cases++, t->log_sum += log(value), t->least = fmin(t->least, value);
}

/* ---- tg ---- */

/* O, or with --backward gradients. */
static bool right(const attention_case *c, const void *x, tg_type type) {
  return c->d_o ? attention_gradients_right(c, x, type) : attention_right(c, x, type);
}

bool attention_own_run(void *user) {
  attention_own *o = user;
  const attention_case *c = o->c;
  for (int i = 0; i < c->copies; i++) {
    o->call.k = (const char *)c->k + (size_t)i * c->kv_bytes, o->call.v = (const char *)c->v + (size_t)i * c->kv_bytes;
    if (c->integers) o->call.k = c->integers, o->call.v = c->integers + c->integer_bytes;
    if (tg_attention_run(o->plan, &o->call)) return false;
  }
  return true;
}

static bool planned_and_run(attention_bench *b, const tg_attention_desc *d, const char *name, attention_own *o) {
  tg_context *ctx = b->ctx[d->threads];
  if (tg_attention_plan(ctx, d, &o->plan)) return attention_wrong(b, name, tg_error_message(ctx));
  o->call.workspace_bytes = tg_attention_workspace(o->plan, &o->call);
  o->call.workspace = o->workspace = tool_pages(o->call.workspace_bytes + 64);
  return attention_own_run(o) || attention_wrong(b, name, tg_error_message(ctx));
}

/* From the forward run that o holds. */
static bool gradients_of(attention_bench *b, tg_attention_desc *d, const char *name, attention_own *o) {
  const attention_case *c = o->c;
  char *at = c->gradients;
  tg_attention_free(o->plan), free(o->workspace);
  o->plan = NULL, o->workspace = NULL;
  d->backward = 1;
  o->call.d_o = c->d_o;
  o->call.d_q = at, o->call.d_k = at + c->q_bytes, o->call.d_v = at + c->q_bytes + c->kv_bytes;
  memset(at, 0xff, c->q_bytes + 2 * c->kv_bytes);
  return planned_and_run(b, d, name, o) && (right(c, at, c->of.type) || attention_wrong(b, name, "tg: wrong result"));
}

bool attention_own_open(attention_bench *b, const attention_case *c, int threads, const char *name, attention_own *o) {
  const attention_shape *s = &c->of;
  tg_attention_desc d = {.q = (uint8_t)s->type,
                         .causal = s->causal ? TG_CAUSAL_BOTTOM_RIGHT : TG_CAUSAL_NONE,
                         .alibi = s->alibi,
                         .sinks = s->sinks,
                         .page_size = s->page,
                         .dropout = s->dropout,
                         .kv_bits = (uint8_t)s->bits,
                         .kv_group = s->group,
                         .heads = s->heads,
                         .kv_heads = s->kv_heads,
                         .head = s->head,
                         .queries = {s->queries, 0},
                         .keys = {s->keys, 0},
                         .window = s->window,
                         .soft_cap = s->soft_cap,
                         .lse = c->d_o != NULL,
                         .threads = threads};
  if (s->blocks) d.block_rows = d.block_keys = 64;
  else if (s->documents) {
    d.mask_mod = "document_q == document_k";
    d.arg[0].name = "document_q", d.arg[0].type = TG_I32, d.arg[0].per = TG_PER_QUERY;
    d.arg[1].name = "document_k", d.arg[1].type = TG_I32, d.arg[1].per = TG_PER_KEY;
  }
  *o = (attention_own){.of = b, .c = c};
  o->call = (tg_attention_call){.batch = s->batch, .q = c->q, .k = c->k, .v = c->v, .o = c->o, .lse = c->lse};
  if (s->alibi) o->call.slopes = c->slopes;
  if (s->bits) o->call.k_scale = o->call.v_scale = c->scales;
  if (s->sinks) o->call.sinks = c->sinks;
  if (s->page) {   /* pages of all heads: [heads][pages][page][head], whose table has them in any order */
    const int64_t strides[3] = {(int64_t)s->page * s->head, s->keys * s->head, s->head};
    o->call.page_table = c->pages, o->call.pages = s->keys / s->page;
    memcpy(o->call.k_strides, strides, sizeof strides), memcpy(o->call.v_strides, strides, sizeof strides);
  }
  if (s->blocks) o->call.block_mask = c->blocks;
  else if (s->documents) o->call.arg[0] = o->call.arg[1] = c->document;
  attention_poison(c);
  if (!planned_and_run(b, &d, name, o)) return false;
  if (!attention_right(c, c->o, s->type)) return attention_wrong(b, name, "tg: wrong result");
  return !c->d_o || gradients_of(b, &d, name, o);
}

void attention_own_close(attention_own *o) {
  tg_attention_free(o->plan);
  free(o->workspace);
  *o = (attention_own){0};
}

/* ---- peers ---- */

static double timed_peer(void *user, int repeat) { return ((attention_peer *)user)->run(user, repeat); }
static bool run_peer(void *user) { return timed_peer(user, 1) >= 0; }

/* The fastest of the peer's entries for this case, each verified. False: it has none. */
static bool best_entry(attention_bench *b, attention_peer *p, const attention_case *c, const char *name) {
  double best = INFINITY;
  int chosen = -1;
  if (p->here && c->d_o && !p->gradients) return snprintf(p->about, sizeof p->about, "no gradients"), false;
  if (!p->here || !p->open(p, c)) return false;
  for (int e = 0; e < p->entries; e++) {
    char what[256];
    if (!p->use(p, e)) continue;
    memset(c->result, 0xff, c->results * sizeof *c->result);
    if (!p->result(p) || !right(c, c->result, TG_F32)) {
      snprintf(what, sizeof what, "%s, %s: wrong result", p->name, p->entry[e]);
      attention_wrong(b, name, what);
      continue;
    }
    double t = 0;
    for (int i = 0; i < 3 && t >= 0 && t < slow; i++) {
      t = p->run(p, 1);
      if (t >= 0 && t < best) best = t, chosen = e;
    }
  }
  if (chosen < 0) snprintf(p->about, sizeof p->about, "none of its ways gave the right result");
  return chosen >= 0 && p->use(p, chosen);
}

static void report_peer(const attention_bench *b, const char *name, const attention_peer *p, const bench_ratio *r,
                        double flops, double bytes) {
  double rate = bytes > 0 ? bytes / r->seconds[1] * 1e-9 : flops / r->seconds[1] * 1e-9;
  const char *unit = bytes > 0 ? "GB/s" : "GFLOP/s";
  if (b->args->json) {
    attention_figure(b, name, p->name, rate, unit, p->entry[p->used]);
    attention_figure(b, name, "", 1 / r->ratio, "ratio", p->name);
    attention_figure(b, name, "at least", 1 / r->most, "ratio", p->name);
    attention_figure(b, name, "at most", 1 / r->least, "ratio", p->name);
    attention_figure(b, name, "pairs dropped", r->dropped, "pairs", p->name);
    return;
  }
  printf("      %-12s %8.1f %-7s  tg is %6.3f (%.3f .. %.3f)  %d pairs (%d quiet), %d dropped; %s\n", p->name, rate,
         unit, 1 / r->ratio, 1 / r->most, 1 / r->least, r->kept, r->quiet, r->dropped, p->entry[p->used]);
  fflush(stdout);
}

/* Against each peer in turn. The rates of tg beside them: the median goes to *own. Returns the least ratio to those
 * that count for bars; 0: none of them is here. */
static double against_peers(attention_bench *b, attention_own *own, const char *name, double flops, double bytes,
                            bench_ratio *self, int *contests) {
  const attention_case *c = own->c;
  double least = 0;
  for (int i = 0; i < b->peers; i++) {
    attention_peer *p = &b->peer[i];
    bench_ratio r;
    if (!best_entry(b, p, c, name)) {
      if (p->here && !b->args->json) printf("      %-12s not this case: %s\n", p->name, p->about);
      if (p->here && p->of == c) p->close(p);
      continue;
    }
    bench_contest duel = {.side = {{attention_own_run, own}, {run_peer, p}},
                          .timed = {NULL, timed_peer},
                          .threads = c->threads};
    if (attention_contest(b, name, &duel, &r) && attention_share(b, name, p->name, flops, &r, 1) > 0) {
      bool counts = !strcmp(p->name, "torch") || !strcmp(p->name, "onnxruntime");
      report_peer(b, name, p, &r, flops, bytes);
      if (counts && (least <= 0 || 1 / r.ratio < least)) least = 1 / r.ratio;
      self[(*contests)++] = r;
    }
    p->close(p);
  }
  return least;
}

/* ---- prefill ---- */

static void case_name(const attention_shape *s, int threads, char *out, size_t n) {
  attention_shape_name(s, out, n);
  snprintf(out + strlen(out), n - strlen(out), ", %d thread%s", threads, threads > 1 ? "s" : "");
}

/* A case without a peer: tg against itself. */
static bool alone(attention_bench *b, attention_own *own, const char *name, bench_ratio *r) {
  const bench_side side = {attention_own_run, own};
  return attention_contest(b, name, &(bench_contest){.side = {side, side}, .threads = own->c->threads}, r);
}

static double median_of(const bench_ratio *r, int n, bool bursts) {
  double x[ATTENTION_PEERS + 1];
  for (int i = 0; i < n; i++) x[i] = bursts ? r[i].burst[0] : r[i].seconds[0];
  return tool_median(x, n);
}

static double bar_of_share(const attention_bench *b, const attention_shape *s) {
  static const struct { int head; double avx2, avx512; } bars[] = {
      {40, 0.60, 0.60}, {64, 0.65, 0.70}, {80, 0.65, 0.68}, {128, 0.62, 0.72}};
  for (size_t i = 0; i < sizeof bars / sizeof *bars; i++)
    if (bars[i].head == s->head) return (b->wide ? bars[i].avx512 : bars[i].avx2) - (s->causal ? 0.05 : 0);
  return 0;
}

/* tg on two threads against tg on one. */
static void scaling(attention_bench *b, attention_own *two, const char *name) {
  attention_own one;
  bench_ratio r;
  if (attention_own_open(b, two->c, 1, name, &one) &&
      attention_contest(b, name,
                        &(bench_contest){.side = {{attention_own_run, &one}, {attention_own_run, two}},
                                         .threads = two->c->threads},
                        &r)) {
    if (b->args->json) attention_figure(b, name, "two threads", r.ratio, "ratio", "one thread");
    else printf("      two threads are %.3f (%.3f .. %.3f) of one\n", r.ratio, r.least, r.most);
    attention_count(b, "two threads of one, T >= 2048", "times", r.ratio, 0, 1.75);
  }
  attention_own_close(&one);
}

/* O or, with --backward, gradients. */
static void prefill_case(attention_bench *b, const attention_shape *s, int threads, const char *name) {
  attention_case c;
  attention_own own = {0};
  bench_ratio self[ATTENTION_PEERS + 1];
  int n = 0;
  char tally[80];
  bool backward = b->args->backward;
  const char *what = backward ? "gradients" : "prefill";
  double flops = attention_flops(s) * (backward ? 2.5 : 1);   /* five products, not two */
  if (!attention_case_open(s, threads, 1, &c)) return (void)(b->result = TOOL_BROKEN);
  if (backward) attention_case_gradients(&c);
  if (attention_own_open(b, &c, threads, name, &own)) {
    if (!b->args->json) printf("  %s\n", name);
    double least = against_peers(b, &own, name, flops, 0, self, &n);
    if (!n && alone(b, &own, name, &self[0])) n = 1;
    bench_ratio all = {.burst = {median_of(self, n, true)}, .seconds = {median_of(self, n, false)}};
    double share = n ? attention_share(b, name, "tg", flops, &all, 0) : 0, rate = n ? flops / all.seconds[0] * 1e-9 : 0;
    bool tuned = tg_attention_describe(own.plan).tuned;
    if (!b->args->json)
      printf("      %-12s %8.1f GFLOP/s  %5.1f %% of FMA peak%s\n", "tg", rate, 100 * share, tuned ? "   (tuned)" : "");
    else attention_figure(b, name, tuned ? "tuned" : "", rate, "GFLOP/s", NULL),
        attention_figure(b, name, "", share, "ratio", "FMA peak");
    snprintf(tally, sizeof tally, "%s, %s, of the best of %s", what,
             threads > 1 ? "2 threads" : "1 thread", backward ? "torch" : "torch and onnxruntime");
    bool barred = threads == 1 && !backward;
    attention_count(b, tally, "times", least, barred ? 1.2 : 0, barred ? 1.0 : 0);
    snprintf(tally, sizeof tally, "%s, %s, %s, head %d, T >= 1024", what, threads > 1 ? "2 threads" : "1 thread",
             s->causal ? "causal" : "full", s->head);
    if (s->queries >= 1024)
      attention_count(b, tally, "of FMA peak", share, 0, barred ? bar_of_share(b, s) : 0);
    if (threads == 2 && s->queries >= 2048 && !backward) scaling(b, &own, name);
  }
  attention_own_close(&own);
  attention_case_close(&c);
}

/* ---- decode ---- */

typedef struct { const attention_case *c; int streams, prefetch; } reading;
typedef struct { const reading *of; int part; float sum; } reading_part;

static void *read_part(void *arg) {
  reading_part *p = arg;
  const attention_case *c = p->of->c;
  size_t n = c->kv_bytes * (size_t)c->copies / sizeof(float) / (size_t)c->threads, from = n * (size_t)p->part;
  p->sum = bench_read((const float *)c->k + from, n, p->of->streams, p->of->prefetch) +
           bench_read((const float *)c->v + from, n, p->of->streams, p->of->prefetch);
  return NULL;
}

/* All that a run of tg reads: K and V of all copies, each thread a part of both. */
static bool run_reading(void *user) {
  const reading *r = user;
  reading_part part[ATTENTION_THREADS];
  pthread_t id[ATTENTION_THREADS];
  volatile float sum = 0;
  int n = r->c->threads;
  for (int i = 0; i < n; i++) part[i] = (reading_part){r, i, 0};
  for (int i = 1; i < n; i++)
    if (pthread_create(&id[i], NULL, read_part, &part[i])) return false;
  read_part(&part[0]);
  for (int i = 1; i < n; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < n; i++) sum += part[i].sum;
  (void)sum;   /* read, so that the reading is done */
  return true;
}

/* The fastest way of reading. */
static void choose_reading(reading *r) {
  static const int streams[] = {1, 2, 4, 8};
  reading best = *r;
  double least = INFINITY;
  for (int i = 0; i < 8; i++)
    for (int again = 0; again < 2; again++) {
      r->streams = streams[i / 2], r->prefetch = i % 2;
      double t = bench_clock(r->c->threads);
      run_reading(r);
      t = bench_clock(r->c->threads) - t;
      if (t < least) least = t, best = *r;
    }
  *r = best;
}

static void decode_case(attention_bench *b, const attention_shape *s, int threads, const char *name) {
  attention_case c;
  attention_own own = {0};
  bench_ratio r, self[ATTENTION_PEERS + 1];
  int n = 0;
  char tally[80];
  if (!attention_case_open(s, threads, 0, &c)) return (void)(b->result = TOOL_BROKEN);
  double flops = attention_flops(s) * c.copies, bytes = 2.0 * (double)c.kv_bytes * c.copies;
  reading read = {.c = &c};
  choose_reading(&read);
  if (attention_own_open(b, &c, threads, name, &own) &&
      attention_contest(
          b, name, &(bench_contest){.side = {{attention_own_run, &own}, {run_reading, &read}}, .threads = threads},
          &r)) {
    double of_read = 1 / r.ratio, of_peak = attention_share(b, name, "tg", flops, &r, 0),
           share = fmin(fmax(of_read, of_peak), 1);   /* fetching ahead, tg may be faster than a loop that reads */
    if (!b->args->json)
      printf(
          "  %s\n      %-12s %8.1f GB/s     %5.1f %% of min(reading at %.1f GB/s, FMA peak)   (%.1f %%, %.1f %%)%s\n",
          name, "tg", bytes / r.seconds[0] * 1e-9, 100 * share, bytes / r.seconds[1] * 1e-9, 100 * of_read,
          100 * of_peak, tg_attention_describe(own.plan).tuned ? "   (tuned)" : "");
    else {
      attention_figure(b, name, "", bytes / r.seconds[0] * 1e-9, "GB/s", NULL);
      attention_figure(b, name, "reading", bytes / r.seconds[1] * 1e-9, "GB/s", NULL);
      attention_figure(b, name, "", share, "ratio", "min(reading, FMA peak)");
    }
    snprintf(tally, sizeof tally, "decode, %s, GQA %d, %d thread%s",
             s->type == TG_F32   ? "f32"
             : s->type == TG_F16 ? "f16"
                                 : "bf16",
             s->heads / s->kv_heads, threads, threads > 1 ? "s" : "");
    attention_count(b, tally, "of the bound", share, 0, threads > 1 ? 0.80 : 0.75);
    double least = against_peers(b, &own, name, flops, bytes, self, &n);
    attention_count(b, "decode, of the best of torch and onnxruntime", "times", least, 0, 0);
  }
  attention_own_close(&own);
  attention_case_close(&c);
}

/* ---- all ---- */

static void report_tallies(const attention_bench *b) {
  for (int i = 0; i < b->tallies; i++) {
    const attention_tally *t = &b->tally[i];
    double mean = exp(t->log_sum / t->cases);
    bool met = mean >= t->bar_mean && t->least >= t->bar_least;
    if (b->args->json) {
      attention_figure(b, t->name, "geometric mean", mean, "ratio", t->unit);
      attention_figure(b, t->name, "least", t->least, "ratio", t->unit);
      continue;
    }
    printf("  %-58s %3d cases: geometric mean %.3f, least %.3f %s", t->name, t->cases, mean, t->least, t->unit);
    if (t->bar_mean > 0) printf("   bar %.2f and %.2f: %s", t->bar_mean, t->bar_least, met ? "met" : "missed");
    else if (t->bar_least > 0) printf("   bar %.2f: %s", t->bar_least, met ? "met" : "missed");
    printf("\n");
  }
}

static void model_name(char *out, size_t n) {
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[512];
  snprintf(out, n, "unknown processor");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
      snprintf(out, n, "%.100s", strchr(line, ':') + 2);
      out[strcspn(out, "\n\"\\")] = 0;
      break;
    }
  if (f) fclose(f);
}

static void describe_machine(attention_bench *b) {
  char model[128], name[320];
  tg_target t;
  tg_target_host(&t, 0);
  b->wide = t.vector_bytes >= 64;
  b->threads = t.threads < ATTENTION_THREADS ? (int)t.threads : ATTENTION_THREADS;
  model_name(model, sizeof model);
  snprintf(name, sizeof name, "%s, %s, %u cores, vectors of %u bytes, L1 %llu KiB, L2 %llu KiB, L3 %llu KiB", model,
           t.name, t.threads, t.vector_bytes, (unsigned long long)t.l1 >> 10, (unsigned long long)t.l2 >> 10,
           (unsigned long long)t.l3 >> 10);
  for (int threads = 1; threads <= b->threads; threads++)
    for (int i = 0; i < 20; i++) b->peak[threads] = fmax(b->peak[threads], bench_peak(threads, burst));
  if (!b->args->json) printf("machine: %s\n", name);
  for (int threads = 1; threads <= b->threads; threads++) {
    if (b->args->json)
      attention_figure(b, name, threads > 1 ? "FMA peak, 2 threads" : "FMA peak, 1 thread", b->peak[threads] * 1e-9,
                       "GFLOP/s", NULL);
    else
      printf("  FMA peak in f32, %d thread%s: %.1f GFLOP/s\n", threads, threads > 1 ? "s" : "",
             b->peak[threads] * 1e-9);
  }
  if (b->threads < 2 && !b->args->json) printf("  one core: no cases of two threads\n");
}

static void describe_peers(const attention_bench *b) {
  for (int i = 0; i < b->peers; i++)
    if (b->args->json) {
      char about[sizeof b->peer[i].about];
      snprintf(about, sizeof about, "%s", b->peer[i].about);
      for (char *c = about; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '\'';
      attention_figure(b, b->peer[i].name, about, b->peer[i].here, b->peer[i].here ? "measured" : "missing", NULL);
    } else
      printf("  %-12s %s%s\n", b->peer[i].name, b->peer[i].here ? "" : "is not measured: ", b->peer[i].about);
  fflush(stdout);
}

int bench_attention(const tool_args *a) {
  static attention_bench b;
  attention_shape *shapes;
  b = (attention_bench){.args = a};
  int n = attention_read_shapes(a->shapes ? a->shapes : "tests/bench/attention/shapes.txt", &shapes);
  if (n < 0) return TOOL_USAGE;
  signal(SIGPIPE, SIG_IGN);   /* a peer's process may end */
  setvbuf(stdout, NULL, _IOLBF, 0);   /* a run takes long: its lines are shown as they come */
  describe_machine(&b);
  b.peers = attention_peers_open(b.peer, a->backward && !a->vs ? "torch" : a->vs);
  if (b.peers < 0) return free(shapes), TOOL_USAGE;
  describe_peers(&b);
  for (int threads = 1; threads <= b.threads; threads++)
    if (tg_context_create(&(tg_context_options){.threads = threads, .cache = a->cache, .tuned = a->tuned},
                          &b.ctx[threads]))
      return free(shapes), TOOL_BROKEN;
  for (int i = 0; i < n; i++)
    for (int threads = 1; threads <= b.threads; threads++) {
      char name[128];
      if (shapes[i].queries == 1 && a->backward) continue;
      if (a->backward) snprintf(shapes[i].class_of, sizeof shapes[i].class_of, "gradients");
      case_name(&shapes[i], threads, name, sizeof name);
      if (!attention_wants(&b, name)) continue;
      if (shapes[i].queries == 1) decode_case(&b, &shapes[i], threads, name);
      else prefill_case(&b, &shapes[i], threads, name);
    }
  free(shapes);
  if (!a->backward) attention_variants(&b), attention_launch(&b), attention_memory(&b);
  report_tallies(&b);
  attention_peers_leave(b.peer, b.peers);
  for (int threads = 1; threads <= b.threads; threads++) tg_context_free(b.ctx[threads]);
  if (!b.ran)
    return fprintf(stderr, "tg bench attention: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return b.result;
}
