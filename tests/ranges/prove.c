/* SPDX-License-Identifier: MIT
 * The prover on text: programs of real shape that must be accepted with no require beyond their shapes (accept/), conditions
 * that are provable and conditions that are not, verdicts of loops. Given files as arguments, says what becomes of each. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <time.h>
#include "dsl/text.h"
#include "ranges/ranges.h"
#include "test.h"

typedef struct { tg_job *j; const char *file; char *text; double seconds; } program;

static char *read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  text[n] = 0;
  fclose(f);
  return text;
}

static double cpu_seconds(void) {   /* of this thread: what else runs on the machine does not count */
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void parse_and_prove(void *user) {
  program *p = user;
  tg_parse_kernel(p->j, p->file, p->text, 0, NULL);
  double t = cpu_seconds();
  p->j->sink = tg_prove(p->j, p->j->sink);
  p->seconds = cpu_seconds() - t;
}

static bool accepted(const char *path, char *message, size_t size, double *seconds) {
  tg_job j;
  program p = {&j, path, read_text(path), 0};
  if (!p.text) {
    snprintf(message, size, "cannot be read");
    return false;
  }
  tg_job_init(&j, NULL);
  bool ok = tg_protect(&j.env, parse_and_prove, &p);
  snprintf(message, size, "%s", j.env.message);
  *seconds = p.seconds;
  tg_job_drop(&j);
  free(p.text);
  return ok;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { SLOWER = 500 /* times what half of the programs take: the slowest takes 30 times that */ };

static void test_accept(const char *folder) {
  char *names[512], message[4096], path[1024];
  double took[512], sorted[512];
  int n = 0;
  DIR *d = opendir(folder);
  CHECK(d != NULL, "%s", folder);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d)) && n < 512;)
    if (strstr(e->d_name, ".tg")) {
      names[n] = malloc(strlen(e->d_name) + 1);
      strcpy(names[n++], e->d_name);
    }
  closedir(d);
  qsort(names, (size_t)n, sizeof *names, by_name);
  CHECK(n >= 60, "%d programs", n);
  for (int i = 0; i < n; i++) {
    double seconds = 0;
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    bool ok = accepted(path, message, sizeof message, &seconds);
    CHECK(ok, "%s", message);
    took[i] = sorted[i] = seconds;
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_size);
  for (int i = 0; i < n; i++) {   /* none takes a time of another kind than most do, whatever this machine's pace is */
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    for (int again = 0; took[i] > SLOWER * sorted[n / 2] && again < 3; again++) {
      double seconds = 0;
      accepted(path, message, sizeof message, &seconds);
      if (seconds < took[i]) took[i] = seconds;
    }
    CHECK(took[i] <= SLOWER * sorted[n / 2], "%s took %.2f ms to prove, half of them %.3f", names[i], took[i] * 1e3, sorted[n / 2] * 1e3);
    free(names[i]);
  }
}

/* ---- conditions ---- */

/* Over parameters M, N, K in 1..2^30, P a multiple of 16, ranges i < M, j < N, k < K, c < 64, b < ceildiv(M, 64), t < i + 1, q < P / 16. */
static const struct { const char *fact, *condition; bool holds; } conditions[] = {
  {NULL, "i < M", true}, {NULL, "0 <= i", true}, {NULL, "i < M - 1", false}, {NULL, "i + 1 <= M", true}, {NULL, "i * N + j < M * N", true},
  {NULL, "i * N + j < M * N - 1", false}, {NULL, "(i * N + j) * K + k < M * N * K", true}, {NULL, "i * M + j < M * N", false},
  {NULL, "b * 64 + c < ceildiv(M, 64) * 64", true}, {NULL, "b * 64 + c < M", false}, {"b * 64 + c < M", "b * 64 + c < M", true},
  {"b * 64 + c < M", "(b * 64 + c) * N + j < M * N", true}, {"b * 64 + c < M", "b * 64 < M", true}, {NULL, "b * 64 < M", true}, {NULL, "b * 65 < M", false},
  {NULL, "t <= i", true}, {NULL, "t < i", false}, {NULL, "t < M", true}, {NULL, "i - t >= 0", true}, {NULL, "M / 64 * 64 <= M", true}, {NULL, "M / 64 * 64 > M - 64", true},
  {NULL, "M / 64 * 64 > M - 63", false}, {NULL, "ceildiv(M, 64) * 64 >= M", true}, {NULL, "ceildiv(M, 64) * 64 <= M + 63", true}, {NULL, "ceildiv(M, 64) * 64 <= M + 62", false},
  {NULL, "(M * 16 - 1) / 16 == M - 1", true}, {NULL, "(M * K - 1) / K == M - 1", true}, {NULL, "M % 16 < 16", true}, {NULL, "M % 16 >= 0", true}, {NULL, "M % 16 < 15", false},
  {NULL, "M % N < N", true}, {NULL, "M / N * N + M % N == M", true}, {NULL, "min(M, N) <= M & min(M, N) <= N", true}, {NULL, "max(M, N) >= M", true},
  {NULL, "min(M, N) >= M", false}, {NULL, "min(i, j) < N", true}, {NULL, "max(i, j) < max(M, N)", true}, {NULL, "P % 16 == 0", true}, {NULL, "P % 32 == 0", false},
  {NULL, "q * 16 + 15 < P", true}, {NULL, "P / 16 * 16 == P", true}, {NULL, "(i * 64 + c) / 64 == i", true}, {NULL, "(i * 64 + c) % 64 == c", true}, {NULL, "(i * N + j) / N == i", true},
  {NULL, "(i * N + j) % N == j", true}, {NULL, "i / 8 * 8 + i % 8 == i", true}, {NULL, "i % 8 / 4 < 2", true}, {NULL, "i % 8 / 4 < 1", false}, {NULL, "i / 4 / 2 == i / 8", true},
  {NULL, "(c + 1) % 64 < 64", true}, {NULL, "c / 14 < 5", true}, {NULL, "c / 14 < 4", false}, {"i < N", "i < min(M, N)", true}, {"i < N / 4", "4 * i + 3 < N", true}, {"i < N / 4", "4 * i + 4 < N", false},
  {"i / 4 < N", "i < 4 * N", true}, {"i / 4 < N", "i < 4 * N - 1", false}, {"M % 64 == 0", "b * 64 + c < M", true}, {"M == N", "i * M + j < M * N", true}, {"max(i, j) < K", "i < K & j < K", true},
  {"i != 0", "i - 1 >= 0", true}, {"i != 1", "i - 1 >= 0", false}, {"i < j | i < k", "i < max(N, K)", true}, {"M < N & N < K", "M + 1 < K", true}, {"M < N & N < K", "M + 2 < K", false},
  {NULL, "i * (i + 1) / 2 + t < M * (M + 1) / 2", true}, {NULL, "i * i <= (M - 1) * (M - 1)", true}, {NULL, "i * j <= (M - 1) * (N - 1)", true}, {NULL, "i * j < (M - 1) * (N - 1)", false},
  {NULL, "M * M >= M", true}, {NULL, "M - i > 0", true}, {NULL, "2 * i != 2 * j + 1", false}, {"i < 3 & i > 1", "i == 2", true}, {"j <= i & i <= j", "i == j", true},
  {NULL, "!(i >= M)", true}, {NULL, "i < M | j > 5", true}, {NULL, "i > 5 | i <= 5", true}, {"3 * i < N", "2 * i < N", true}, {"2 * i < N", "3 * i < N", false},
  {"min(max(i - j, 0), N - 1) >= 1 & N >= 2 & max(i - j, 0) >= 1 & 4 * ceildiv(N, 4) <= N + 3 & N <= 4 * ceildiv(N, 4) & ceildiv(N, 4) >= 1", "min(max(i - j, 0), N - 1) * ceildiv(N, 4) <= N * ceildiv(N, 4) - ceildiv(N, 4)", true},
  {NULL, "M * N * K * M * N * K >= 1", true}, {NULL, "M * N * K * M * N * K * M >= 1", true},
};

typedef struct { tg_job *j; const char *fact, *condition; bool result; } claim;

static void decide(void *user) {
  claim *c = user;
  tg_job *j = c->j;
  static const char *const names[] = {"M", "N", "K", "P", "i", "j", "k", "c", "b", "t", "q"};
  const tg_uop *v[11], *q;
  for (int i = 0; i < 4; i++) {
    tg_push(&j->env, &j->params, ((tg_param){.name = names[i], .lo = i < 3 ? 1 : 16, .hi = 1 << 30, .multiple = i < 3 ? 1 : 16}));
    v[i] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, i, 0, NULL);
  }
  for (int i = 0; i < 3; i++) v[4 + i] = tg_range_new(j, names[4 + i], v[i], TG_LOOP, UINT32_MAX, (tg_pos){0});
  v[7] = tg_range_new(j, "c", tg_index(j, 64), TG_LOOP, UINT32_MAX, (tg_pos){0});
  q = tg_op2(j, TG_OP_IDIV, tg_op2(j, TG_OP_ADD, v[0], tg_index(j, 63)), tg_index(j, 64));
  v[8] = tg_range_new(j, "b", q, TG_LOOP, UINT32_MAX, (tg_pos){0});
  v[9] = tg_range_new(j, "t", tg_op2(j, TG_OP_ADD, v[4], tg_index(j, 1)), TG_LOOP, UINT32_MAX, (tg_pos){0});
  v[10] = tg_range_new(j, "q", tg_op2(j, TG_OP_IDIV, v[3], tg_index(j, 16)), TG_LOOP, UINT32_MAX, (tg_pos){0});
  tg_facts fact = {NULL, c->fact ? tg_parse_expr(j, c->fact, 11, names, v) : NULL};
  c->result = tg_proves(j, c->fact ? &fact : NULL, tg_parse_expr(j, c->condition, 11, names, v));
}

static void test_conditions(void) {
  for (size_t i = 0; i < TG_COUNT(conditions); i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    claim c = {&j, conditions[i].fact, conditions[i].condition, false};
    CHECK(tg_protect(&j.env, decide, &c), "%s: %s", c.condition, j.env.message);
    CHECK(c.result == conditions[i].holds, "%s%s%s is %sproved", c.fact ? c.fact : "", c.fact ? " -> " : "", c.condition, c.result ? "" : "not ");
    tg_job_drop(&j);
  }
}

/* ---- verdicts ---- */

static const struct { const char *body, *range; tg_verdict verdict; } verdicts[] = {
  {"range(i, N) y[i] = x[i];", "i", TG_INDEPENDENT},
  {"range(i, N) y[i] += x[i];", "i", TG_INDEPENDENT},
  {"range(i, N - 1) y[i + 1] = y[i] + x[i];", "i", TG_SEQUENTIAL},
  {"range(i, N - 1) y[i] = y[i + 1] + x[i];", "i", TG_SEQUENTIAL},
  {"range(i, 2) y[i] = y[1 - i];", "i", TG_SEQUENTIAL},
  {"range(i, 2) range(j, N) z[i, j] = z[1 - i, j];", "i", TG_SEQUENTIAL},
  {"range(i, 1) y[i] = y[1 - i];", "i", TG_INDEPENDENT},
  {"range(i, N) y[0] += x[i];", "i", TG_REDUCTION},
  {"range(i, N) y[0] = max(y[0], x[i]);", "i", TG_REDUCTION},
  {"range(i, N) y[0] = x[i] + y[0];", "i", TG_REDUCTION},
  {"range(i, N) y[0] = y[0] * x[i] + 1;", "i", TG_SEQUENTIAL},
  {"range(i, N) y[0] = x[i];", "i", TG_SEQUENTIAL},
  {"range(i, N) { y[0] += x[i]; z[i, 0] = y[0]; }", "i", TG_SEQUENTIAL},
  {"range(i, N) { y[0] += x[i]; y[1] *= x[i]; }", "i", TG_SEQUENTIAL},
  {"range(i, N - 1) { y[i] = x[i]; z[i, 0] = y[i + 1]; }", "i", TG_SEQUENTIAL},
  {"range(i, N - 1) { y[i + 1] = x[i]; z[i, 0] = y[i]; }", "i", TG_LOCKSTEP},
  {"range(i, N) { y[i] = x[i]; z[i, 0] = y[N - 1 - i]; }", "i", TG_SEQUENTIAL},
  {"range(i, N) { y[i] = x[i]; z[i, 0] = y[0]; }", "i", TG_LOCKSTEP},
  {"range(i, N) range(j, N) z[i,j] = x[j];", "i", TG_INDEPENDENT},
  {"range(i, N) range(j, N) z[i,j] = x[j];", "j", TG_INDEPENDENT},
  {"range(i, N) range(j, N) y[i] += z[i,j];", "i", TG_INDEPENDENT},
  {"range(i, N) range(j, N) y[i] += z[i,j];", "j", TG_REDUCTION},
  {"range(i, N) range(j, N) y[j] += z[i,j];", "i", TG_REDUCTION},
  {"range(i, N) range(j, N) y[j] += z[i,j];", "j", TG_INDEPENDENT},
  {"range(i, N - 1) range(j, N - 1) z[i + 1, j] = z[i, j + 1];", "i", TG_SEQUENTIAL},
  {"range(i, N - 1) range(j, N - 1) z[i + 1, j] = z[i, j + 1];", "j", TG_INDEPENDENT},
  {"range(i, N/2) y[2*i] = y[2*i + 1];", "i", TG_INDEPENDENT},
  {"range(i, N/16) range(j, 16) y[i*16 + j] = y[i*16 + j] + 1;", "i", TG_INDEPENDENT},
  {"range(i, N/16) range(j, 16) y[i*16 + j] = y[i*16 + j] + 1;", "j", TG_INDEPENDENT},
  {"range(i, N/16) range(j, 17) y[min(i*16 + j, N - 1)] = 1;", "i", TG_SEQUENTIAL},
  {"range(i, N) range(j, N) w[i*N + j] = x[j];", "i", TG_INDEPENDENT},
  {"range(i, N) range(j, N) w[i*N + j] = x[j];", "j", TG_INDEPENDENT},
  {"range(i, N*16) z[i/16, i%16] = w[i];", "i", TG_INDEPENDENT},
  {"range(i, N*N) z[i/N, i%N] = w[i];", "i", TG_INDEPENDENT},
  {"range(i, N) { define_reg(t, f32, [4]); range(j, 4) t[j] = x[i]; y[i] = t[3]; }", "i", TG_INDEPENDENT},
  {"define_reg(t, f32, [4]); range(i, N) { range(j, 4) t[j] = x[i]; y[i] = t[3]; }", "i", TG_SEQUENTIAL},
  {"range(i, N) y[idx[i]] = x[i];", "i", TG_SEQUENTIAL},
  {"range(i, N) y[idx[i]] += x[i];", "i", TG_REDUCTION},
  {"range(i, N) atomic y[idx[i]] += x[i];", "i", TG_INDEPENDENT},
  {"range(i, N) if (i < 8) { y[i] = x[i]; } ", "i", TG_INDEPENDENT},
  {"range(i, N) { y[i] = x[i] if i < 8; z[i, 0] = where(i >= 8, y[i - 8], 0); }", "i", TG_LOCKSTEP},
  {"range(i, N) { if (i >= 8) { z[0, i] = y[i]; } if (i < 8) { y[i] = x[i]; } }", "i", TG_INDEPENDENT},
  {"range(i, N) range(j, i) z[i,j] = z[j,i];", "i", TG_INDEPENDENT},
  {"range(i, N) range(j, N) if (i < j) { z[i,j] = z[j,i]; }", "j", TG_INDEPENDENT},
};

typedef struct { tg_job *j; const char *text, *range, *inner, *why; tg_verdict verdict; bool swap; double seconds; } loop_question;

static const tg_uop *find_loop(tg_job *j, const tg_uop *u, const char *name) {
  if (u->op == TG_OP_END && !strcmp(j->ranges.data[tg_range_ordinal(u->src[0])].name, name)) return u;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++) {
    const tg_uop *found = find_loop(j, u->src[i], name);
    if (found) return found;
  }
  return NULL;
}

static void ask(void *user) {
  loop_question *q = user;
  tg_job *j = q->j;
  tg_parse_kernel(j, "loop.tg", q->text, 0, NULL);
  const tg_uop *a = find_loop(j, j->sink, q->range);
  if (q->inner) q->swap = tg_may_swap(j, j->sink, a, find_loop(j, j->sink, q->inner), &q->why);
  else q->verdict = tg_loop_verdict(j, j->sink, a, &q->why);
  double t = tg_now();
  if (!q->inner) tg_loop_verdict(j, j->sink, a, NULL);
  q->seconds = tg_now() - t;
  const tg_uop *plain = tg_plain(j, j->sink);   /* the plain form says the same */
  if (!q->inner && tg_loop_verdict(j, plain, find_loop(j, plain, q->range), NULL) != q->verdict) q->verdict = (tg_verdict)-1;
}

static const char *in_kernel(const char *body) {
  static char text[2048];
  snprintf(text, sizeof text, "kernel f(N in 16..1024 %% 16) {\n in(x, f32, [N]); in(idx, i32 in 0..N - 1, [N]); inout(y, f32, [N]); inout(z, f32, [N, N]); inout(w, f32, [N*N]);\n%s\n}\n", body);
  return text;
}

static void test_verdicts(void) {
  static const char *const name[] = {"independent", "lockstep", "reduction", "sequential"};
  for (size_t i = 0; i < TG_COUNT(verdicts); i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    loop_question q = {.j = &j, .text = in_kernel(verdicts[i].body), .range = verdicts[i].range};
    bool ok = tg_protect(&j.env, ask, &q);
    CHECK(ok, "%s: %s", verdicts[i].body, j.env.message);
    if (ok) CHECK(q.verdict == verdicts[i].verdict, "%s: %s is %s: %s", verdicts[i].body, q.range, (unsigned)q.verdict < 4 ? name[q.verdict] : "otherwise in plain form", q.why ? q.why : "");
    if (ok) CHECK((q.verdict == TG_INDEPENDENT) == !q.why, "%s: why", verdicts[i].body);
    tg_job_drop(&j);
  }
}

static const struct { const char *body; bool may; } swaps[] = {
  {"range(i, N) range(j, N) z[i,j] = x[j];", true},
  {"range(i, N - 1) range(j, N - 1) z[i + 1, j] = z[i, j + 1];", false},
  {"range(i, N - 1) range(j, N - 1) z[i + 1, j + 1] = z[i, j];", true},
  {"range(i, N) range(j, N) y[i] += z[i,j];", true},
  {"range(i, N) range(b, N) range(j, b + 1) z[b,j] = x[i];", true},
  {"range(i, N) { y[i] = 0; range(j, N) y[i] += z[i,j]; }", true},
  {"range(i, N) { range(j, N) y[i] += z[i,j]; y[i] = 0; }", true},
  {"range(i, N - 1) { y[i] = 0; range(j, N) z[i,j] = y[i + 1]; }", false},
  {"range(i, N) { define_reg(t, f32, [1]); t[0] = x[i]; range(j, N) z[i,j] = t[0]; }", false},
  {"range(i, N) range(j, N) y[0] = z[i,j];", false},
};

static void test_swaps(void) {
  for (size_t i = 0; i < TG_COUNT(swaps); i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    loop_question q = {.j = &j, .text = in_kernel(swaps[i].body), .range = "i", .inner = "j"};
    bool ok = tg_protect(&j.env, ask, &q);
    CHECK(ok, "%s: %s", swaps[i].body, j.env.message);
    if (ok) CHECK(q.swap == swaps[i].may && (q.swap || q.why), "%s: %s: %s", swaps[i].body, q.swap ? "may" : "may not", q.why ? q.why : "");
    tg_job_drop(&j);
  }
}

/* ---- gates ---- */

static const struct { const char *body; int gates; } gates[] = {
  {"range(i, N) y[i] = x[i] else 0;", 0},
  {"range(i, N) y[i] = x[i + 1] else 0;", 1},
  {"range(i, N) if (i < N) { y[i] = x[i]; }", 0},
  {"range(i, N) y[i] = where(i > 0, x[i - 1], 0);", 1},
  {"range(b, ceildiv(N, 16)) range(i, 16) y[b*16 + i] = x[b*16 + i] if b*16 + i < N;", 0},
  {"range(b, ceildiv(N, 32)) range(i, 32) y[b*32 + i] = x[b*32 + i] if b*32 + i < N;", 2},
};

static void count_gates(void *user) {
  loop_question *q = user;
  uint32_t n;
  tg_parse_kernel(q->j, "gates.tg", q->text, 0, NULL);
  const tg_uop *proved = tg_prove(q->j, q->j->sink), **all = tg_toposort(q->j, proved, &n);
  for (uint32_t i = 0; i < n; i++)
    if (all[i]->op == TG_OP_LOAD || all[i]->op == TG_OP_STORE) q->seconds += tg_gate(all[i]) != NULL;
}

static void test_gates(void) {
  for (size_t i = 0; i < TG_COUNT(gates); i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    loop_question q = {.j = &j, .text = in_kernel(gates[i].body)};
    CHECK(tg_protect(&j.env, count_gates, &q), "%s: %s", gates[i].body, j.env.message);
    CHECK((int)q.seconds == gates[i].gates, "%s: %d gates left", gates[i].body, (int)q.seconds);
    tg_job_drop(&j);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    for (int i = 1; i < argc; i++) {
      char message[4096];
      double seconds = 0;
      bool ok = accepted(argv[i], message, sizeof message, &seconds);
      printf("%s: %s %.0f us\n%s\n", argv[i], ok ? "accepted" : "rejected", seconds * 1e6, message);
    }
    return 0;
  }
  test_accept("tests/ranges/accept");
  test_conditions();
  test_verdicts();
  test_swaps();
  test_gates();
  return TEST_END();
}
