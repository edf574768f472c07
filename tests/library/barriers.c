/* SPDX-License-Identifier: MIT
 * Barriers that pass distribute puts in: a tiled matmul has exactly two a step, and is right for every size; nothing has one that each thread
 * could do without; and those of the corpus are needed: without one the interpreter sees two threads at one element, or the result is wrong. Waits for asynchronous copies likewise. (Barriers
 * that only a proof over two subscripts at once would spare are one in ten at most. Those of versions that these sizes do not run are not counted.)
 */
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "interp/interp.h"
#include "kit.h"
#include "choose/heuristic.h"

typedef struct {
  tg_job tables, job;
  tg_target target;
  const tg_rules *rules;
  const char *path, *text;
  int64_t params[32];
  const tg_uop *sink;          /* in device form */
  uint64_t steps;
  kit_memory start, want, now;
} run;

static void compile_rules(void *user) {
  run *r = user;
  r->rules = tg_rules_compile(&r->tables.env);
}

static void distribute(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_lowering l = {.target = &r->target, .rules = r->rules, .verify = true};
  tg_parse_kernel(j, r->path, r->text, 0, NULL);
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!j->opts.n) tg_heuristic(j, &l, j->sink);
  r->sink = tg_lower(j, &l, "distribute", NULL, NULL);
}

static void interpret(void *user) {
  run *r = user;
  tg_interp_buffer buffers[KIT_BUFFERS];
  kit_memory_copy(&r->now, &r->start);
  for (uint32_t b = 0; b < r->now.n; b++) buffers[b] = (tg_interp_buffer){r->now.data[b], r->now.bytes[b]};
  tg_interp in = {.buffers = buffers, .params = r->params, .step_limit = r->steps, .check_races = true, .check_barriers = true, .check_uninitialised = true, .check_promises = true};
  tg_interpret(&r->job, r->sink, &in);
}

static bool runs(run *r) {
  bool ok = tg_protect(&r->job.env, interpret, r);
  return ok;
}

static bool same(const kit_memory *a, const kit_memory *b) {
  for (uint32_t k = 0; k < a->n; k++)
    if (a->written[k] && memcmp(a->data[k], b->data[k], a->bytes[k])) return false;
  return true;
}

/* ---- counting ---- */

static uint32_t barriers_in(const tg_uop *u) {
  uint32_t n = u->op == TG_OP_BARRIER;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++) n += barriers_in(u->src[i]);
  return n;
}

static const tg_uop *loop_named(const run *r, const tg_uop *u, const char *name) {
  if (u->op == TG_OP_END && !strcmp(r->job.ranges.data[tg_range_ordinal(u->src[0])].name, name)) return u;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++) {
    const tg_uop *found = loop_named(r, u->src[i], name);
    if (found) return found;
  }
  return NULL;
}

/* ---- the tiled matmul ---- */

#ifdef TG_SANITIZED
enum { MOST = 70, STEP = 7 };
#else
enum { MOST = 70, STEP = 1 };
#endif

static const char matmul_tiled[] =
  "kernel matmul_tiled(M in 1..70, N in 1..70, K in 1..70) {\n"
  "  in(A, f16, [M, K]); in(B, f16, [K, N]); out(C, f32, [M, N]);\n"
  "  range(bm, ceildiv(M, %d), global) range(bn, ceildiv(N, %d), global) {\n"
  "    define_local(As, f16, [%d, %d]); define_local(Bs, f16, [%d, %d]); define_reg(acc, f32, [%d, %d]);\n"
  "    range(i, %d) range(j, %d) acc[i,j] = 0;\n"
  "    range(kb, ceildiv(K, %d)) {\n"
  "      range(i, %d) range(k, %d) As[i,k] = A[bm*%d + i, kb*%d + k] else 0;\n"
  "      range(k, %d) range(j, %d) Bs[k,j] = B[kb*%d + k, bn*%d + j] else 0;\n"
  "      range(i, %d) range(j, %d) acc[i,j] += sum(k : %d, f32(As[i,k]) * f32(Bs[k,j]));\n"
  "    }\n"
  "    range(i, %d) range(j, %d) C[bm*%d + i, bn*%d + j] = acc[i,j] if bm*%d + i < M & bn*%d + j < N;\n"
  "  }\n"
  "}\n";

static void write_matmul(char *text, size_t bytes, int m, int n, int k) {
  snprintf(text, bytes, matmul_tiled, m, n, m, k, k, n, m, n, m, n, k, m, k, m, k, k, n, k, n, m, n, k, m, n, m, n, m, n);
}

static int element(int row, int column) { return (row * 7 + column * 3 + row * column) % 5 - 2; }
static uint16_t half_of(int v) { /* of -2..2 */
  static const uint16_t bits[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000};
  return bits[v + 2];
}

static float prefix[MOST + 1][MOST][MOST];   /* [K][i][j]: A and B are the same functions of their subscripts for every size */

static void make_reference(void) {
  for (int k = 0; k < MOST; k++)
    for (int i = 0; i < MOST; i++)
      for (int c = 0; c < MOST; c++) prefix[k + 1][i][c] = prefix[k][i][c] + (float)(element(i, k) * element(k, c));
}

static void fill(uint16_t *a, int rows, int columns) {
  for (int i = 0; i < rows; i++)
    for (int c = 0; c < columns; c++) a[i * columns + c] = half_of(element(i, c));
}

static int wrong_elements(const float *c, int m, int n, int k) {
  int wrong = 0;
  for (int i = 0; i < m; i++)
    for (int x = 0; x < n; x++) wrong += c[i * n + x] != prefix[k][i][x];
  return wrong;
}

static void test_machine_code(int step) {
  static uint16_t a[MOST * MOST], b[MOST * MOST];
  static float c[MOST * MOST];
  char text[4096];
  tg_context *context;
  tg_kernel *kernel = NULL;
  long sizes = 0, bad = 0;
  write_matmul(text, sizeof text, 64, 64, 16);
  tg_context_options o = {.target = test_target(), .threads = 1};
  CHECK(tg_context_create(&o, &context) == TG_OK, "a context");
  CHECK(tg_kernel_compile_text(context, "matmul_tiled", text, NULL, &kernel) == TG_OK, "%s", tg_error_message(context));
  for (int64_t m = 1; kernel && m <= MOST; m += step)
    for (int64_t k = 1; k <= MOST; k += step) {
      fill(a, (int)m, (int)k);
      for (int64_t n = 1; n <= MOST; n += step, sizes++) {
        int64_t params[] = {m, n, k};
        fill(b, (int)k, (int)n);
        tg_argument args[] = {{a, (size_t)(m * k * 2)}, {b, (size_t)(k * n * 2)}, {c, (size_t)(m * n * 4)}};
        tg_launch l = {.buffers = args, .buffers_n = 3, .params = params, .params_n = 3, .threads = 1};
        bad += tg_kernel_run(kernel, &l) != TG_OK || wrong_elements(c, (int)m, (int)n, (int)k);
      }
    }
  CHECK(!bad && sizes > 0, "matmul_tiled: %ld of %ld sizes are wrong", bad, sizes);
  tg_kernel_free(kernel);
  tg_context_free(context);
}

static void one_size(run *r, int m, int n, int k) {
  static uint16_t a[MOST * MOST], b[MOST * MOST];
  static float c[MOST * MOST];
  fill(a, m, k), fill(b, k, n);
  r->params[0] = m, r->params[1] = n, r->params[2] = k;
  r->start = (kit_memory){.n = 3, .data = {a, b, c}, .bytes = {(size_t)(m * k * 2), (size_t)(k * n * 2), (size_t)(m * n * 4)}};
  bool ok = runs(r);
  CHECK(ok, "%s: %d x %d x %d: %s", r->target.name, m, n, k, r->job.env.message);
  if (ok) CHECK(!wrong_elements(r->now.data[2], m, n, k), "%s: %d x %d x %d is wrong", r->target.name, m, n, k);
  r->start.n = 0;
}

static void test_matmul(run *r, const char *target, int bm, int bn, int bk, bool sizes) {
  static const int some[][3] = {{70, 70, 70}, {64, 64, 16}, {65, 63, 17}, {1, 70, 33}, {70, 1, 15}, {33, 17, 1}, {16, 16, 64}, {31, 32, 48}, {47, 70, 16}};
  char text[4096];
  write_matmul(text, sizeof text, bm, bn, bk);
  r->path = "matmul_tiled";
  r->text = text;
  r->steps = 0;
  CHECK(tg_target_named(&r->target, target), "%s", target);
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, distribute, r);
  CHECK(ok, "%s for %s: %s", r->path, target, r->job.env.message);
  const tg_uop *step = ok ? loop_named(r, r->sink, "kb") : NULL;
  if (step) {
    CHECK(barriers_in(step) == 2, "%s, %d x %d x %d: %u barriers a step", target, bm, bn, bk, barriers_in(step));
    CHECK(barriers_in(r->sink) == 2, "%s, %d x %d x %d: %u barriers", target, bm, bn, bk, barriers_in(r->sink));
  }
  for (int m = 1; step && m <= 3; m++)
    for (int n = 1; n <= 3; n++)
      for (int k = 1; k <= 3; k++) one_size(r, m, n, k);
  for (size_t i = 0; step && sizes && i < sizeof some / sizeof *some; i++) one_size(r, some[i][0], some[i][1], some[i][2]);
  kit_memory_free(&r->now);
  tg_job_drop(&r->job);
}

/* ---- threads that keep to themselves ---- */

static void test_count(run *r, const char *text, uint32_t want) {
  r->path = "counted";
  r->text = text;
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, distribute, r);
  CHECK(ok, "%s\n%s", r->job.env.message, text);
  if (ok) {
    tg_str s = tg_str_new(&r->job.env);
    tg_print(&r->job, &s, r->sink);
    CHECK(barriers_in(r->sink) == want, "%u barriers instead of %u in\n%s", barriers_in(r->sink), want, s.data);
  }
  tg_job_drop(&r->job);
}

static void test_counts(run *r) {
  CHECK(tg_target_named(&r->target, "sm_80"), "sm_80");
  /* each thread its own elements: of LOCAL, of an output, of a register that lies in it */
  test_count(r, "kernel k() { in(A, f32, [256]); out(B, f32, [256]); define_local(t, f32, [256]);\n"
                "  range(i, 256, local) { t[i] = A[i]; t[i] = t[i] * 2; B[i] = t[i]; B[i] = B[i] + 1; } }", 0);
  test_count(r, "kernel k() { in(A, f32, [16, 16]); out(B, f32, [16, 16]); define_local(t, f32, [16, 16]);\n"
                "  range(i, 16, local) range(j, 16, lane) t[i,j] = A[i,j]; range(i, 16, local) range(j, 16, lane) B[i,j] = t[i,j]; }", 0);
  test_count(r, "kernel k() { in(A, f32, [32]); out(B, f32, [32]); range(i, 32, lane) { define_reg(x, f32, []); x = A[i]; x = x * x; B[i] = x; } }", 0);
  /* reversed: one; transposed: one; in a loop: both ways */
  test_count(r, "kernel k() { in(A, f32, [256]); out(B, f32, [256]); define_local(t, f32, [256]);\n"
                "  range(i, 256, local) { t[i] = A[i]; B[i] = t[255 - i]; } }", 1);
  test_count(r, "kernel k() { in(A, f32, [16, 16]); out(B, f32, [16, 16]); define_local(t, f32, [16, 16]);\n"
                "  range(i, 16, local) range(j, 16, lane) t[i,j] = A[i,j]; range(i, 16, local) range(j, 16, lane) B[i,j] = t[j,i]; }", 1);
  test_count(r, "kernel k() { in(A, f32, [8, 256]); out(B, f32, [8, 256]); define_local(t, f32, [256]);\n"
                "  range(n, 8) range(i, 256, local) { t[i] = A[n,i]; B[n,i] = t[255 - i]; } }", 2);
  /* two buffers by turns: the store of a step meets no load of it, so that one barrier a step does for both ways; two stores share one */
  test_count(r, "kernel k() { in(A, f32, [9, 256]); out(B, f32, [8, 256]); define_local(t, f32, [2, 256]);\n"
                "  range(i, 256, local) t[0,i] = A[0,i];\n"
                "  range(n, 8) { range(i, 256, local) t[(n + 1) % 2,i] = A[n + 1,i]; range(i, 256, local) B[n,i] = t[n % 2,255 - i]; } }", 1);   /* in the loop, behind the wait for the copy */
  test_count(r, "kernel k() { in(A, f32, [256]); out(B, f32, [256]); define_local(t, f32, [256]); define_local(u, f32, [256]);\n"
                "  range(i, 256, local) { t[i] = A[i]; u[i] = A[i] * 2; B[i] = t[255 - i] + u[255 - i]; } }", 1);
  /* a sum over a warp needs none, one over eight warps two a row: partial sums are read, and written again */
  test_count(r, "kernel k() { in(A, f32, [8, 32]); out(B, f32, [8]); opt(lane k); range(r, 8) B[r] = sum(k : 32, A[r,k]); }", 0);
  test_count(r, "kernel k() { in(A, f32, [8, 256]); out(B, f32, [8]); opt(group k); range(r, 8) B[r] = sum(k : 256, A[r,k]); }", 2);
}

/* ---- without one of them ---- */

/* wait: it was one. stop: in its place comes a store that the interpreter refuses, so that the program fails where the
 * place is reached */
typedef struct { tg_job *j; uint32_t skip, seen; bool wait, stop; const tg_uop *program; } removal;

static uint32_t waits_in(const tg_uop *u) {
  uint32_t n = u->op == TG_OP_WAIT;
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++) n += waits_in(u->src[i]);
  return n;
}

static const tg_uop *refused_store(tg_job *j, const tg_uop *program) {
  const tg_uop *index[16], *to = NULL;
  for (uint32_t i = 0; i < sizeof index / sizeof *index; i++) index[i] = tg_index(j, -1);
  for (uint32_t i = 0; i < program->n && !to; i++)
    if (program->src[i]->op == TG_OP_DEFINE && tg_buffer_info(j, program->src[i])->rank) to = program->src[i];
  if (!to) tg_fail(&j->env, TG_EINVAL, "no array");
  return tg_store(j, to, index, tg_is_float(to->type) ? tg_const_float(j, to->type, 0) : tg_const_int(j, to->type, 0), NULL, 0);
}

static const tg_uop *without(removal *m, const tg_uop *u) {
  const tg_uop **list = tg_new(&m->j->env, const tg_uop *, u->n + 1);
  uint32_t n = 0;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *v = u->src[i];
    if ((v->op == TG_OP_BARRIER || v->op == TG_OP_WAIT) && m->seen++ == m->skip) {
      m->wait = v->op == TG_OP_WAIT;
      if (m->stop) list[n++] = refused_store(m->j, m->program);
      continue;
    }
    list[n++] = v->op == TG_OP_END ? without(m, v) : v;
  }
  const tg_uop *made = u->op == TG_OP_END ? tg_end(m->j, u->src[0], n, list) : tg_sink(m->j, n, list);
  if (u->op == TG_OP_END && tg_get_pos(m->j, u).line) tg_set_pos(m->j, made, tg_get_pos(m->j, u));
  return made;
}

typedef struct { run *r; uint32_t skip; bool wait, stop; } removing;

static void remove_one(void *user) {
  removing *x = user;
  const tg_uop *program = tg_plain(&x->r->job, x->r->sink);
  removal m = {.j = &x->r->job, .skip = x->skip, .stop = x->stop, .program = program};
  x->r->sink = tg_versioned(&x->r->job, without(&m, program));
  x->wait = m.wait;
}

static void make_memory(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, r->path, r->text, 0, NULL);
  kit_params(&r->job, 0, r->params);
  for (uint32_t i = 0; i < r->job.params.n; i++) {   /* more than one warp */
    const tg_param *q = &r->job.params.data[i];
    int64_t step = q->multiple > 1 ? q->multiple : 1;
    if (q->hi >= 70) r->params[i] = 70 / step * step;
  }
  kit_memory_make(&r->job, r->params, &r->start);
}

/* Is the place of that barrier or wait reached at all? */
static bool reached(run *r, uint32_t skip) {
  removing x = {.r = r, .skip = skip, .stop = true};
  tg_job_init(&r->job, NULL);
  bool made = tg_protect(&r->job.env, distribute, r) && tg_protect(&r->job.env, remove_one, &x), ran = made && runs(r);
  CHECK(made && (ran || strstr(r->job.env.message, "index 0 is -1")), "%s: %s", r->path, r->job.env.message);
  tg_job_drop(&r->job);
  return !ran;
}

static void test_removal(run *r, const kit_program *p, long total[2], long missed[2]) {   /* barriers, waits */
  r->path = p->path;
  r->text = p->text;
  r->steps = 30000000;
  uint32_t n = 1;
  tg_job_init(&r->job, NULL);
  bool made = tg_protect(&r->job.env, make_memory, r);
  tg_job_drop(&r->job);
  for (uint32_t i = 0; made && i <= n; i++) {   /* 0: as it is */
    tg_job_init(&r->job, NULL);
    bool ok = tg_protect(&r->job.env, distribute, r);
    removing x = {.r = r, .skip = i - 1};
    bool noticed = true;
    if (ok) n = barriers_in(r->sink) + waits_in(r->sink);
    if (ok && i) ok = tg_protect(&r->job.env, remove_one, &x);
    if (!ok || !n) {
      CHECK(ok || strstr(r->job.env.message, "this target has no"), "%s: %s", p->path, r->job.env.message);
      tg_job_drop(&r->job);
      return;
    }
    bool ran = runs(r), limit = r->job.env.status == TG_ELIMIT;
    if (!i) {
      CHECK(ran || limit, "%s: %s", p->path, r->job.env.message);
      if (ran) kit_memory_copy(&r->want, &r->now);
    } else if (!limit) {
      noticed = !ran || !same(&r->want, &r->now);
      total[x.wait] += noticed;
    }
    tg_job_drop(&r->job);
    if (!noticed && reached(r, i - 1)) {
      total[x.wait]++, missed[x.wait]++;
      fprintf(stderr, "%s for %s: barrier or wait %u of %u may go, and nothing is seen\n", p->path, r->target.name, i, n);
    }
    if (limit) return;
  }
}

int main(void) {
  static run r;
  int n;
  long total[2] = {0, 0}, missed[2] = {0, 0};
  tg_job_init(&r.tables, NULL);
  CHECK(tg_protect(&r.tables.env, compile_rules, &r), "rules");
  make_reference();
  test_counts(&r);
  test_matmul(&r, "sm_80", 16, 16, 8, true);
  test_matmul(&r, "sm_80", 64, 64, 16, false);
  test_matmul(&r, "sm_80", 32, 64, 16, false);
  test_matmul(&r, "gfx90a", 16, 32, 8, true);
  test_matmul(&r, "gfx1100", 48, 40, 12, false);
  test_machine_code(STEP);
  kit_program *p = kit_programs(&n);
  CHECK(tg_target_named(&r.target, "sm_80"), "sm_80");
  for (int i = 0; i < n; i++)
    if (!strstr(p[i].text, "barrier()")) test_removal(&r, &p[i], total, missed);
  CHECK(total[0] > 50 && missed[0] * 10 <= total[0], "of %ld barriers %ld could go unseen", total[0], missed[0]);
  CHECK(total[1] > 10 && missed[1] * 4 <= total[1], "of %ld waits %ld could go unseen", total[1], missed[1]);
  kit_programs_free(p, n);
  kit_memory_free(&r.start), kit_memory_free(&r.want), kit_memory_free(&r.now);
  tg_job_drop(&r.tables);
  return TEST_END();
}
