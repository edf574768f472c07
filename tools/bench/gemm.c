/* SPDX-License-Identifier: MIT
 * tg bench gemm: products of checked-in lists of shapes, tg against libraries on the same buffers. A figure stands on
 * pairs of neighbours: tg, the
 * peer, the peer, tg again; each sample lies between two bursts of FMAs and is dropped, and counted, when one of them
 * is more than 3 % under the
 * largest of the run: the processor was slower, or somebody else's. Where hardly any pair is quiet the twelve quietest
 * count, and the line says so. Every contestant's
 * result is verified. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/peers.h"
#include "bench/product.h"
#include "bench/turns.h"
#include "tg/gemm.h"

enum { PAIRS_MOST = 400, CLASSES = 16 };

typedef struct { tool_shape of; const tool_types *type; int threads; } shape;

enum { TYPES = 7 };

/* ---- tg as a contestant ---- */

typedef struct {
  tg_gemm *plan;
  tg_gemm_call call;
  tg_gemm_code *code;          /* bare, where there is one */
  void *operands[3], *workspace;
  _Alignas(64) char scratch[TG_GEMM_SCRATCH];
} contestant;

/* open: leading dimensions are known at the call only, as tg tune gemm has them. */
static bool tg_open(tg_context *ctx, const bench_product *x, bool open, contestant *t) {
  tg_gemm_desc d = {.a = (uint8_t)x->type->a,
                    .b = (uint8_t)x->type->b,
                    .c = (uint8_t)x->type->c,
                    .a_major = x->ta ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                    .b_major = x->tb ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                    .m = {x->m, 0},
                    .n = {x->n, 0},
                    .k = {x->k, 0},
                    .threads = x->threads,
                    .flags = x->type->flags};
  if (!open) d.a_ld.lo = x->lda, d.b_ld.lo = x->ldb, d.c_ld.lo = x->ldc;
  memset(t, 0, sizeof *t);
  if (tg_gemm_plan(ctx, &d, &t->plan)) return fprintf(stderr, "tg bench gemm: %s\n", tg_error_message(ctx)), false;
  t->call = (tg_gemm_call){.a = x->a, .b = x->b, .c = x->c};
  t->operands[0] = (void *)(uintptr_t)x->a, t->operands[1] = (void *)(uintptr_t)x->b, t->operands[2] = x->c;
  t->call.workspace_bytes = tg_gemm_workspace(t->plan, &t->call);
  t->call.workspace = t->workspace = tool_pages(t->call.workspace_bytes + 64);
  if (!open && x->threads == 1 && (double)x->m * x->n * x->k <= 1 << 21) t->code = tg_gemm_function(t->plan);
  return true;
}

static bool tg_run_once(tg_context *ctx, contestant *t) {
  if (t->code) return t->code(t->operands, NULL, t->scratch, 0), true;
  if (!tg_gemm_run(t->plan, &t->call)) return true;
  return fprintf(stderr, "tg bench gemm: %s\n", tg_error_message(ctx)), false;
}

static void tg_close(contestant *t) {
  tg_gemm_free(t->plan);
  free(t->workspace);
}

/* ---- samples ---- */

typedef struct { double seconds, probe; } sample_of;
typedef struct { sample_of tg, peer; } pair;

typedef struct {
  bench_peer *peer;
  int entry;
  pair pairs[PAIRS_MOST];
  int n, kept, dropped, quiet;
  /* of the kept: the peer's median, that of its rate in FMA bursts beside it; ln(peer / tg) and its standard error */
  double seconds, part, log_mean, log_error;
} duel;

typedef struct {
  tg_context *ctx;
  const tool_args *args;
  bench_product x;
  contestant tg;
  double *sums;                /* what C must come to */
  int repeat;
  double peak;                 /* the largest probe of the run for this number of threads */
} match_of;

static bool run_side(match_of *m, duel *d, bool peer) {
  if (!peer) return tg_run_once(m->ctx, &m->tg);
  d->peer->entry[d->entry].run(d->peer, &m->x);
  return true;
}

typedef struct { match_of *m; duel *d; bool peer; } side_of;

static bool run_side_of(void *user) {
  side_of *s = user;
  return run_side(s->m, s->d, s->peer);
}

static double time_side(match_of *m, duel *d, bool peer) {
  double t = bench_clock(m->x.threads);
  for (int i = 0; i < m->repeat; i++)
    if (!run_side(m, d, peer)) return -1;
  return (bench_clock(m->x.threads) - t) / m->repeat;
}

/* Between the burst before it, which was made, and one behind it. */
static sample_of sample(match_of *m, duel *d, bool peer, double *before) {
  side_of side = {m, d, peer};
  sample_of s = {.seconds =
                     bench_change_sides(&(bench_side){run_side_of, &side}, m->x.threads) ? time_side(m, d, peer) : -1};
  double behind = bench_probe(m->x.threads);
  s.probe = behind < *before ? behind : *before;
  *before = behind;
  if (behind > m->peak) m->peak = behind;
  return s;
}

static double burst_of(const pair *p) { return fmin(p->tg.probe, p->peer.probe); }

static double least_burst(const match_of *m, duel *d) {
  double bursts[PAIRS_MOST];
  for (int i = 0; i < d->n; i++) bursts[i] = burst_of(&d->pairs[i]);
  return bench_least_burst(bursts, d->n, m->peak, &d->quiet);
}

static void judge(match_of *m, duel *d) {
  double sum = 0, square = 0, seconds[PAIRS_MOST], part[PAIRS_MOST], least = least_burst(m, d),
         flops = 2.0 * m->x.m * m->x.n * (double)m->x.k;
  d->kept = 0;
  for (int i = 0; i < d->n; i++) {
    if (burst_of(&d->pairs[i]) < least) continue;
    double l = log(d->pairs[i].peer.seconds / d->pairs[i].tg.seconds);
    sum += l, square += l * l;
    part[d->kept] = flops / d->pairs[i].peer.seconds / (d->pairs[i].peer.probe * m->x.type->lanes);
    seconds[d->kept++] = d->pairs[i].peer.seconds;
  }
  d->dropped = d->n - d->kept;
  if (!d->kept) return;
  d->log_mean = sum / d->kept;
  d->log_error = d->kept > 1 ? sqrt(fmax(0, square - sum * d->log_mean) / (d->kept - 1) / d->kept) : 1;
  d->seconds = tool_median(seconds, d->kept);
  d->part = tool_median(part, d->kept);
}

/* tg, peer, peer, tg. */
static void abba(match_of *m, duel *d) {
  double before = bench_probe(m->x.threads);
  if (d->n + 2 > PAIRS_MOST) return;
  sample_of first = sample(m, d, false, &before), second = sample(m, d, true, &before),
            third = sample(m, d, true, &before), fourth = sample(m, d, false, &before);
  d->pairs[d->n++] = (pair){first, second};
  d->pairs[d->n++] = (pair){fourth, third};
}

/* Where no peer has the product: tg's own rate. */
static void alone(match_of *m, duel *d, double end) {
  double before = bench_probe(m->x.threads);
  for (*d = (duel){0}; d->quiet < BENCH_PAIRS_LEAST && d->n < PAIRS_MOST && tool_now() < end; least_burst(m, d)) {
    sample_of s = sample(m, NULL, false, &before);
    d->pairs[d->n++] = (pair){s, s};
  }
}

/* The fastest of the peer's entries for this product, each verified. False: it has none, or is wrong. */
static bool best_entry(match_of *m, duel *d, bool *wrong) {
  double best = INFINITY;
  int chosen = -1;
  bench_peer *p = d->peer;
  bench_peers_threads(p, m->x.threads);
  for (int e = 0; e < p->entries; e++) {
    if (!p->entry[e].prepare(p, &m->x)) continue;
    d->entry = e;
    bench_poison(&m->x);
    if (!run_side(m, d, true) || (!p->reads && !bench_verified(&m->x, m->sums))) {
      fprintf(stderr, "tg bench gemm: %s, %s: wrong result\n", p->name, p->entry[e].name);
      *wrong = true;
      continue;
    }
    for (int i = 0; i < 5; i++) {
      double t = time_side(m, d, true);
      if (t < best) best = t, chosen = e;
    }
  }
  if (chosen < 0) return false;
  d->entry = chosen;
  return p->entry[chosen].prepare(p, &m->x);
}

/* ---- a case ---- */

typedef struct { char name[24]; const tool_types *type; int threads, cases; double sum, variance, worst; } class_sum;

static void case_name(const shape *s, char *out, size_t n) {
  snprintf(out, n, "%.23s %dx%dx%d %c%c %s", s->of.class_of, s->of.m, s->of.n, s->of.k, "NT"[s->of.ta], "NT"[s->of.tb],
           s -> type -> name);
}

static void figure(const tool_args *a, const char *name, int threads, const char *what, double v, const char *unit,
                   const char *of) {
  char metric[96];
  snprintf(metric, sizeof metric, "%d thread%s%s%s", threads, threads > 1 ? "s" : "", *what ? ", " : "", what);
  tool_figure(a->json, "gemm", name, metric, v, unit, of);
}

static size_t larger_operand(const bench_product *x) {
  size_t a = (size_t)x->m * (size_t)x->k * bench_bytes(x->type->a),
         b = (size_t)x->k * (size_t)x->n * bench_bytes(x->type->b);
  return a > b ? a : b;
}

/* For people one line: the peer's rate, tg's ratio to it with its 95 % interval. */
static void report_duel(const match_of *m, const char *name, const duel *d, double flops) {
  double half = bench_interval(d->kept) * d->log_error, rate = flops / d->seconds * 1e-9;
  const char *peer = d->peer->name;
  int t = m->x.threads;
  if (m->args->json) {
    figure(m->args, name, t, "pairs dropped", d->dropped, "pairs", peer);
    if (!d->kept) return;
    if (d->peer->reads) rate = (double)(larger_operand(&m->x)) / d->seconds * 1e-9;
    figure(m->args, name, t, peer, rate, d->peer->reads ? "GB/s" : "GFLOP/s", d->peer->entry[d->entry].name);
    figure(m->args, name, t, "", exp(d->log_mean), "ratio", peer);
    figure(m->args, name, t, "at least", exp(d->log_mean - half), "ratio", peer);
    figure(m->args, name, t, "at most", exp(d->log_mean + half), "ratio", peer);
    return;
  }
  if (d->peer->reads && d->kept) rate = (double)(larger_operand(&m->x)) / d->seconds * 1e-9;
  printf("    %-9s", peer);
  if (d->kept) printf(" %8.1f %s   tg is %6.3f ", rate, d->peer->reads ? "GB/s   " : "GFLOP/s", exp(d->log_mean));
  if (d->kept > 2) printf("(%.3f .. %.3f)  ", exp(d->log_mean - half), exp(d->log_mean + half));
  printf(" %d pairs (%d quiet), %d dropped; %s\n", d->kept, d->quiet < d->kept ? d->quiet : d->kept, d->dropped,
         d->peer->entry[d->entry].name);
}

/* tg's own: the median of all its samples that count, and of the ratio to the burst beside each. */
static void report_tg(const match_of *m, const char *name, duel *d, int duels, double flops, double lanes) {
  static double seconds[BENCH_PEERS * PAIRS_MOST], part[BENCH_PEERS * PAIRS_MOST];
  int n = 0;
  for (int i = 0; i < duels; i++) {
    double least = least_burst(m, &d[i]);
    for (int q = 0; q < d[i].n; q++) {
      const sample_of *s = &d[i].pairs[q].tg;
      if (s->probe < least) continue;
      seconds[n] = s->seconds;
      part[n++] = flops / s->seconds / (s->probe * lanes);
    }
  }
  bool tuned = tg_gemm_describe(m->tg.plan).tuned;
  double rate = n ? flops / tool_median(seconds, n) * 1e-9 : 0, of_peak = n ? tool_median(part, n) : 0;
  if (!m->args->json)
    printf("  %-34s %8.1f GFLOP/s   %5.1f %% of FMA peak%s%s\n", name, rate, 100 * of_peak,
           m->tg.code ? "   (bare code)" : "", tuned ? "   (tuned)" : "");
  else if (n) {
    figure(m->args, name, m->x.threads, m->tg.code ? "bare code" : "", rate, "GFLOP/s", NULL);
    figure(m->args, name, m->x.threads, "", of_peak, "ratio", "FMA peak");
  }
}

/* Is the peer what the table knows it to be? As a part of the FMA bursts beside it; of the read loop where the
 * product reads more than caches give at once. A case that the table lacks is written to it, if that is asked for. */
static bool is_expected(const match_of *m, const char *name, const duel *d, const duel *reading) {
  enum { FROM = 1 << 20, PAIRS = 12 };
  const tool_args *a = m->args;
  const char *peer = d->peer->name;
  bool reads = reading && reading->kept && larger_operand(&m->x) >= FROM;
  double part = reads ? reading->seconds / d->seconds : d->part,
         known = bench_expected(a->expect, peer, name, m->x.threads);
  if (a->update && known <= 0 && d->kept >= PAIRS) bench_expect(a->expect, peer, name, m->x.threads, part);
  if (part >= 0.9 * known) return true;
  if (a->json) figure(a, name, m->x.threads, "void: of what is known", part / known, "ratio", peer);
  else
    printf("    VOID: %s reaches %.3f of the %s, and %.3f is known of it: the case tells nothing (%s)\n", peer, part,
           reads ? "read loop" : "FMA peak", known, a->expect);
  return false;
}

static void add_to_class(class_sum *classes, int *n, const shape *s, const duel *best) {
  int i = 0;
  while (i < *n &&
         (strcmp(classes[i].name, s->of.class_of) || classes[i].type != s->type || classes[i].threads != s->threads))
    i++;
  if (i == *n) {
    if (*n == CLASSES) return;
    classes[(*n)++] = (class_sum){.type = s->type, .threads = s->threads};
    snprintf(classes[i].name, sizeof classes[i].name, "%.23s", s->of.class_of);
  }
  if (!classes[i].cases++ || best->log_mean < classes[i].worst) classes[i].worst = best->log_mean;
  classes[i].sum += best->log_mean;
  classes[i].variance += best->log_error * best->log_error;
}

static bool prepare_case(match_of *m, const shape *s) {
  const tool_shape *o = &s->of;
  size_t M = (size_t)o->m, N = (size_t)o->n, K = (size_t)o->k;
  void *a = tool_pages(M * K * bench_bytes(s->type->a)), *b = tool_pages(K * N * bench_bytes(s->type->b));
  m->x = (bench_product){.type = s->type,
                         .m = o->m,
                         .n = o->n,
                         .k = o->k,
                         .lda = o->ta ? o->m : o->k,
                         .ldb = o->tb ? o->k : o->n,
                         .ldc = o->n,
                         .ta = o->ta,
                         .tb = o->tb,
                         .a = a,
                         .b = b,
                         .c = tool_pages(M * N * bench_bytes(s->type->c)),
                         .threads = s->threads};
  bench_fill(s->type->a, a, M * K, 1), bench_fill(s->type->b, b, K * N, 2);
  m->sums = bench_sums(&m->x);
  m->repeat = 1;
  if (!tg_open(m->ctx, &m->x, m->args->tuned != NULL, &m->tg)) return false;
  bench_poison(&m->x);
  if (!tg_run_once(m->ctx, &m->tg)) return false;
  if (!bench_verified(&m->x, m->sums)) return fprintf(stderr, "tg bench gemm: tg: wrong result\n"), false;
  /* samples of 2 ms and more */
  for (double t = time_side(m, NULL, false); t * m->repeat < 0.002 && m->repeat < 1 << 20;
       t = time_side(m, NULL, false))
    m->repeat *= 2;
  return true;
}

static int run_case(match_of *m, const shape *s, bench_peer *peers, int peers_n, class_sum *classes, int *classes_n,
                    int *voided) {
  static duel d[BENCH_PEERS];
  char name[96];
  const duel *reading = NULL;
  bool wrong = false, expected = true, library;
  int n = 0, best = -1;
  case_name(s, name, sizeof name);
  if (!prepare_case(m, s)) return TOOL_WRONG;
  for (int i = 0; i < peers_n; i++) {
    d[n] = (duel){.peer = &peers[i]};
    n += best_entry(m, &d[n], &wrong);
  }
  double end = tool_now() + (m->args->seconds > 0 ? m->args->seconds : 3);
  if (!n) alone(m, &d[0], end);
  for (int short_of = n; short_of && tool_now() < end;) {
    short_of = 0;
    for (int i = 0; i < n; i++) {
      judge(m, &d[i]);   /* a larger burst may have come since */
      if (d[i].quiet >= BENCH_PAIRS_LEAST || d[i].n + 2 > PAIRS_MOST) continue;
      abba(m, &d[i]);
      short_of++;
    }
  }
  double flops = 2.0 * s->of.m * s->of.n * (double)s->of.k, lanes = s->type->lanes;
  bench_poison(&m->x);
  if (!tg_run_once(m->ctx, &m->tg) || !bench_verified(&m->x, m->sums))
    wrong = true, fprintf(stderr, "tg bench gemm: %s: tg: wrong result\n", name);
  report_tg(m, name, d, n ? n : 1, flops, lanes);
  for (int i = 0; i < n; i++) {
    judge(m, &d[i]);   /* by the largest burst known by now */
    report_duel(m, name, &d[i], flops);
    library = !d[i].peer->reads;
    if (library && d[i].kept && (best < 0 || d[i].seconds < d[best].seconds)) best = i;
    if (d[i].peer->release) d[i].peer->release(d[i].peer);
    if (!library) reading = &d[i];
  }
  for (int i = 0; i < n && m->args->expect; i++)
    if (!d[i].peer->reads && d[i].kept && !is_expected(m, name, &d[i], reading)) expected = false;
  *voided += !expected;
  if (best >= 0 && d[best].quiet < BENCH_PAIRS_LEAST)
    fprintf(stderr,
            "tg bench gemm: %s: only %d quiet pairs against %s: the machine is not quiet, or --seconds too few\n", name,
            d[best].quiet, d[best].peer->name);
  if (best >= 0 && expected) add_to_class(classes, classes_n, s, &d[best]);
  tg_close(&m->tg);
  free(m->sums);
  free((void *)(uintptr_t)m->x.a), free((void *)(uintptr_t)m->x.b), free(m->x.c);
  return wrong ? TOOL_WRONG : TOOL_OK;
}

/* ---- lists ---- */

static void report_classes(const tool_args *a, const class_sum *c, int n) {
  for (int i = 0; i < n; i++) {
    char name[64];
    double mean = c[i].sum / c[i].cases, half = 1.96 * sqrt(c[i].variance) / c[i].cases;
    snprintf(name, sizeof name, "%.23s %s, %d cases", c[i].name, c[i].type->name, c[i].cases);
    if (!a->json)
      printf("  %-34s geometric mean %.3f of the best peer (%.3f .. %.3f), worst %.3f\n", name, exp(mean),
             exp(mean - half), exp(mean + half), exp(c[i].worst));
    if (!a->json) continue;
    figure(a, name, c[i].threads, "geometric mean", exp(mean), "ratio", "best peer");
    figure(a, name, c[i].threads, "at least", exp(mean - half), "ratio", "best peer");
    figure(a, name, c[i].threads, "at most", exp(mean + half), "ratio", "best peer");
    figure(a, name, c[i].threads, "worst case", exp(c[i].worst), "ratio", "best peer");
  }
}

int bench_gemm(const tool_args *a) {
  static class_sum classes[CLASSES];
  bench_peer peers[BENCH_PEERS];
  match_of m = {.args = a};
  const tool_types *types[TYPES];
  tool_shape *shapes;
  int types_n = 0, classes_n = 0, result = TOOL_OK, ran = 0, voided = 0;
  char wanted[128], *rest = NULL;
  snprintf(wanted, sizeof wanted, "%s", a->types ? a->types : "f32");
  for (char *name = strtok_r(wanted, ",", &rest); name && types_n < TYPES; name = strtok_r(NULL, ",", &rest))
    if (!(types[types_n++] = tool_types_named(name))) return TOOL_USAGE;
  int n = tool_read_shapes(a->shapes ? a->shapes : "tests/bench/gemm/shapes.txt", &shapes),
      peers_n = n < 0 ? -1 : bench_peers_open(peers, a->vs);
  if (n < 0 || peers_n < 0) return free(shapes), TOOL_USAGE;
  bench_peers_read_loop(&peers[peers_n]);
  if (!peers_n++)
    return fprintf(stderr, "tg bench gemm: no peer is installed (--vs NAME=FILE says where one is)\n"), free(shapes),
           TOOL_BROKEN;
  int threads = a->threads > 0 ? a->threads : 1;
  if (tg_context_create(&(tg_context_options){.threads = threads, .cache = a->cache, .tuned = a->tuned}, &m.ctx))
    return free(shapes), TOOL_BROKEN;
  for (int i = 0; i < 200; i++) m.peak = fmax(m.peak, bench_probe(threads));
  for (int t = 0; t < types_n; t++)
    for (int i = 0; i < n; i++) {
      char name[96];
      const shape s = {shapes[i], types[t], threads};
      case_name(&s, name, sizeof name);
      if (a->cases && !strstr(name, a->cases)) continue;
      int r = run_case(&m, &s, peers, peers_n, classes, &classes_n, &voided);
      result = r > result ? r : result;
      ran++;
    }
  free(shapes);
  if (a->json) figure(a, "machine", threads, "FMA peak, f32", m.peak * 1e-9, "GFLOP/s", NULL);
  else
    printf("  %-34s %8.1f GFLOP/s in f32 on %d thread%s\n", "FMA peak", m.peak * 1e-9, threads, threads > 1 ? "s" : "");
  report_classes(a, classes, classes_n);
  if (voided && a->json) figure(a, "machine", threads, "void", voided, "cases", NULL);
  else if (voided)
    printf("  VOID: in %d of %d cases a peer is below 0.9 of what is known of it; they are in no mean\n", voided, ran);
  if (voided && result == TOOL_OK) result = TOOL_WRONG;
  tg_context_free(m.ctx);
  if (!ran) return fprintf(stderr, "tg bench gemm: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}
