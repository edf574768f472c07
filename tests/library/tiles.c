/* SPDX-License-Identifier: MIT
 * Register tiles that matrix instructions update in loops: a matrix product whose accumulators are filled, updated, reduced along rows and
 * stored in statements of their own, and the loop of flash attention, for each instruction that has them. Each stage computes under the
 * interpreter what the author's form computes, accumulators stay in registers, operands that are made in registers are converted as
 * often as their layouts demand and no more, and the code has no spills. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "dsl/value.h"
#include "interp/interp.h"
#include "kit.h"
#include "target/matrix.h"

enum { ROUNDS = 2, ROWS = 128 };

typedef struct {
  kit_path path;
  tg_job job;
  const tg_matrix_row *row;
  const char *text, *name, *stage;
  const char *ptxas;
  const tg_uop *computed;        /* what the interpreter ran last */
  kit_memory start[ROUNDS], want[ROUNDS], got;
  int64_t params[ROUNDS][8];
  uint32_t stages, seen, locals, expected;   /* DEFINEs of LOCAL memory in device form */
  uint32_t assembled;
  bool failed, exact, copies;    /* copies: operands are copied past the registers */
} run;

#define WRONG(r, ...) ((r)->failed = true, fprintf(stderr, "%s, %s on %s: %s: ", (r)->name, (r)->row->name, (r)->path.target.name, (r)->stage), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

static const char *factor(tg_env *e, tg_type operand, tg_type sum, const char *element) {
  return operand == sum ? element : tg_format(e, "%s(%s)", tg_type_name[sum], element);
}

/* Two by two tiles of accumulators, scaled by rows on the way, whose rows are reduced too. */
static const char *product_text(tg_env *e, const tg_matrix_row *r) {
  tg_str s = tg_str_new(e);
  const char *a = tg_type_name[r->a_type], *b = tg_type_name[r->b_type], *c = tg_type_name[r->c_type];
  tg_str_printf(&s, "kernel product(BM = %u, BN = %u, BK = %u, M in 1..70, N in 1..70, K in 1..40) {\n", 2u * r->m, 2u * r->n, 2u * r->k);
  tg_str_printf(&s, "  in(A, %s, [M, K]); in(B, %s, [K, N]); inout(C, %s, [M, N]); out(R, %s, [M, ceildiv(N, BN)]);\n", a, b, c, c);
  tg_str_printf(&s, "  opt(local As.k); opt(local Bs.j); opt(contract %s i=acc.i j=acc.j k=acc.k);\n", r->name);
  tg_str_printf(&s, "  range(bm, ceildiv(M, BM), global) range(bn, ceildiv(N, BN), global) {\n"
                    "    define_local(As, %s, [BM, BK]); define_local(Bs, %s, [BK, BN]); define_reg(acc, %s, [BM, BN]); define_reg(f, %s, [BM]);\n", a, b, c, c);
  tg_str_puts(&s, "    range(i, BM) { f[i] = where(i % 3 == 0, 2, 1); range(j, BN) acc[i,j] = C[bm*BM + i, bn*BN + j] else 1; }\n"
                  "    range(kb, ceildiv(K, BK)) {\n"
                  "      range(i, BM) range(k, BK) As[i,k] = A[bm*BM + i, kb*BK + k] else 0;\n"
                  "      range(k, BK) range(j, BN) Bs[k,j] = B[kb*BK + k, bn*BN + j] else 0;\n");
  tg_str_printf(&s, "      range(i, BM) range(j, BN) acc[i,j] = acc[i,j] * f[i] + sum(k : BK, %s * %s);\n    }\n", factor(e, r->a_type, r->c_type, "As[i,k]"), factor(e, r->b_type, r->c_type, "Bs[k,j]"));
  tg_str_puts(&s, "    range(i, BM) R[bm*BM + i, bn] = max(j : BN, acc[i,j]) + sum(j : BN, acc[i,j]) if bm*BM + i < M;\n"
                  "    range(i, BM) range(j, BN) C[bm*BM + i, bn*BN + j] = max(acc[i,j], -3) if bm*BM + i < M & bn*BN + j < N;\n  }\n}\n");
  return s.data;
}

/* The operands in rings of two depths, filled 16 bytes a thread: the row of blocks has an end inside of one, and a loop as long as a ring. */
static const char *ring_text(tg_env *e, const tg_matrix_row *r) {
  tg_str s = tg_str_new(e);
  const char *a = tg_type_name[r->a_type], *b = tg_type_name[r->b_type], *c = tg_type_name[r->c_type];
  uint32_t bm = 2u * r->m, bn = 2u * r->n, bk = 2u * r->k, each = 16 / (uint32_t)tg_type_bytes(r->a_type);
  tg_str_printf(&s, "kernel ring(BM = %u, BN = %u, BK = %u, N = %u, K = %u, M in 1..70) {\n", bm, bn, bk, bn, 4 * bk);
  tg_str_printf(&s, "  in(A, %s, [M, K]); in(B, %s, [K, N]); out(C, %s, [M, N]);\n", a, b, c);
  tg_str_printf(&s, "  opt(stage A at kb as As depth=3); opt(split As.1 %u as Aq Av); opt(upcast Av); opt(local Aq); opt(local As.0);\n", each);
  tg_str_printf(&s, "  opt(stage B at kb as Bs depth=4); opt(split Bs.1 %u as Bq Bv); opt(upcast Bv); opt(local Bq); opt(local Bs.0);\n", each);
  tg_str_printf(&s, "  opt(contract %s i=acc.i j=acc.j k=acc.k);\n  range(bm, ceildiv(M, BM), global) {\n    define_reg(acc, %s, [BM, BN]); define_reg(f, %s, [BM]);\n", r->name, c, c);
  tg_str_printf(&s, "    range(i, BM) { f[i] = where(i %% 3 == 0, 2, 1); range(j, BN) acc[i,j] = 1; }\n"
                    "    range(kb, K/BK) range(i, BM) range(j, BN)\n      acc[i,j] = acc[i,j] * f[i] + sum(k : BK, %s * %s);\n",
                factor(e, r->a_type, r->c_type, "(A[bm*BM + i, kb*BK + k] else 0)"), factor(e, r->b_type, r->c_type, "B[kb*BK + k, j]"));
  tg_str_puts(&s, "    range(i, BM) range(j, BN) C[bm*BM + i, j] = acc[i,j] if bm*BM + i < M;\n  }\n}\n");
  return s.data;
}

static const char *flash_text(tg_env *e, const tg_matrix_row *r) {
  tg_str s = tg_str_new(e);
  const char *t = tg_type_name[r->a_type];
  uint32_t block = 2 * (r->n > r->k ? r->n : r->k);
  tg_str_printf(&s, "kernel flash(H = 2, G = 2, BQ = %u, BK = %u, D = %u, Tq in 1..40, Tk in 1..70) {\n", r->m, block, block);
  tg_str_printf(&s, "  in(Q, %s, [H, Tq, D]); in(Kc, %s, [ceildiv(H, G), Tk, D]); in(Vc, %s, [ceildiv(H, G), Tk, D]); out(O, f32, [H, Tq, D]);\n", t, t, t);
  tg_str_printf(&s, "  opt(contract %s i=i j=s.j k=s.d); opt(contract %s i=i j=o.d k=p.j);\n", r->name, r->name);
  tg_str_printf(&s, "  range(h, H, global) range(qb, ceildiv(Tq, BQ), global) {\n"
                    "    define_reg(s, f32, [BQ, BK]); define_reg(p, %s, [BQ, BK]); define_reg(o, f32, [BQ, D]);\n", t);
  tg_str_puts(&s, "    define_reg(m, f32, [BQ]); define_reg(m1, f32, [BQ]); define_reg(z, f32, [BQ]); define_reg(c, f32, [BQ]); define_reg(l, f32, [BQ]);\n"
                  "    range(i, BQ) { range(d, D) o[i,d] = 0; m[i] = -inf; l[i] = 0; }\n"
                  "    range(kb, ceildiv(Tk, BK)) {\n"
                  "      range(i, BQ) range(j, BK)\n"
                  "        s[i,j] = where(kb*BK + j < Tk, 0.0625 * sum(d : D, f32(Q[h, qb*BQ + i, d] else 0) * f32(Kc[h/G, kb*BK + j, d] else 0)), -inf);\n"
                  "      range(i, BQ) {\n"
                  "        m1[i] = max(m[i], max(j : BK, s[i,j]));\n"
                  "        z[i] = where(m1[i] == -inf, 0, m1[i]);\n"
                  "        c[i] = exp2(m[i] - z[i]);\n");
  tg_str_printf(&s, "        range(j, BK) p[i,j] = %s(exp2(s[i,j] - z[i]));\n", t);
  tg_str_puts(&s, "        l[i] = l[i] * c[i] + sum(j : BK, f32(p[i,j]));\n"
                  "        range(d, D) o[i,d] = o[i,d] * c[i] + sum(j : BK, f32(p[i,j]) * f32(Vc[h/G, kb*BK + j, d] else 0));\n"
                  "        m[i] = m1[i];\n"
                  "      }\n    }\n"
                  "    range(i, BQ) range(d, D) O[h, qb*BQ + i, d] = where(l[i] == 0, 0, o[i,d] / l[i]) if qb*BQ + i < Tq;\n  }\n}\n");
  return s.data;
}

static void interpret(run *r, const tg_uop *sink, int round, kit_memory *m, bool threads) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  kit_memory_copy(m, &r->start[round]);
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interp in = {.buffers = buffers, .params = r->params[round], .check_uninitialised = true, .check_races = true, .check_barriers = threads};
  tg_interpret(&r->job, sink, &in);
}

/* Exact data has one result; exponentials, and what they weigh, one but for rounding. */
static bool equal(const run *r, int round, uint32_t b) {
  const kit_memory *w = &r->want[round];
  if (r->exact || w->type[b] != TG_F32) return !memcmp(w->data[b], r->got.data[b], w->bytes[b]);
  const float *x = w->data[b], *y = r->got.data[b];
  for (size_t i = 0; i < w->bytes[b] / 4; i++)
    if (!(fabsf(x[i] - y[i]) <= 1e-2f * (r->row->a_type == TG_BF16 ? 1.0f : 0.125f) * (1 + fabsf(x[i])))) return false;
  return true;
}

static void count(run *r, const tg_uop *sink, bool device) {
  uint32_t n;
  bool matrix = false;
  const tg_uop **order = tg_toposort(&r->job, sink, &n);
  r->locals = device ? 0 : r->locals;
  for (uint32_t i = 0; i < n; i++) {
    matrix |= order[i]->op == TG_OP_MATRIX;
    r->locals += device && order[i]->op == TG_OP_DEFINE && tg_buffer_info(&r->job, order[i])->space == TG_SPACE_LOCAL;
  }
  r->seen += matrix;
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  r->stage = pass;
  if (r->failed || tg_stage_index(pass) < tg_stage_index("schedule")) return;
  bool device = tg_stage_index(pass) >= tg_stage_index("distribute");
  r->stages++;
  count(r, sink, device);
  bool passed_much = !strcmp(pass, "schedule") || !strcmp(pass, "distribute") || !strcmp(pass, "linear");
  bool passed_little = !strcmp(pass, "place") || !strcmp(pass, "functions") || !strcmp(pass, "types") || !strcmp(pass, "coalesce");   /* seen with the next one */
  if (passed_little || (sink == r->computed && !passed_much)) return;   /* nodes are shared: a pass that changed nothing gives the same program */
  r->computed = sink;
  for (int round = 0; round < (passed_much ? ROUNDS : 1); round++) {   /* other sizes after the passes that have the work */
    interpret(r, sink, round, &r->got, device);
    for (uint32_t b = 0; b < r->got.n; b++)
      if (!equal(r, round, b)) WRONG(r, "buffer %u differs in round %d", b, round);
  }
}

static void assemble(run *r, const char *assembly) {
  char file[TEST_PATH] = "tg-tiles-XXXXXX.ptx", command[512];
  static char report[1 << 16];
  test_place(file);
  int at = mkstemps(file, 4), kernels = 0;
  if (at < 0) return;
  if (write(at, assembly, strlen(assembly)) < 0) WRONG(r, "no room for %s", file);
  close(at);
  snprintf(command, sizeof command, "'%s' -arch=%s -v -o /dev/null '%s' 2>&1", r->ptxas, r->path.target.name, file);
  FILE *pipe = popen(command, "r");
  size_t n = pipe ? fread(report, 1, sizeof report - 1, pipe) : 0;
  report[n] = 0;
  if (!pipe || pclose(pipe)) WRONG(r, "ptxas: %s", report);
  else if (!kit_no_spills(report, &kernels) || !kernels) WRONG(r, "ptxas: %s", report);
  unlink(file);
  r->assembled++;
}

static void whole(void *user) {
  run *r = user;
  r->stage = "author";
  tg_parse_kernel(&r->job, r->name, r->text, 0, NULL);
  for (int round = 0; round < ROUNDS; round++) {
    kit_params(&r->job, round, r->params[round]);
    if (!kit_memory_make(&r->job, r->params[round], &r->start[round])) WRONG(r, "no memory");
    interpret(r, r->job.sink, round, &r->want[round], false);
  }
  kit_lower(&r->path, &r->job, true, seen, r);
  r->stage = "code";
  const char *assembly = NULL, *wanted = r->row->form == TG_MATRIX_PTX ? r->row->code : r->row->form == TG_MATRIX_MFMA ? "v_mfma_" : "v_wmma_";
  tg_code_info info;
  tg_jit_compile(r->path.jit, &r->job, r->job.sink, &info, NULL, &assembly);
  if (!assembly || !strstr(assembly, wanted)) WRONG(r, "no %s in\n%s", wanted, assembly ? assembly : "");
  else if (r->row->form == TG_MATRIX_PTX && r->ptxas && (!r->exact || r->copies)) assemble(r, assembly);
  if (r->copies && assembly && !strstr(assembly, "cp.async.cg.shared.global")) WRONG(r, "no asynchronous copy of 16 bytes in\n%s", assembly);
}

static void one(run *r, const char *name, const char *(*text)(tg_env *, const tg_matrix_row *), uint32_t locals) {
  tg_env e;
  r->failed = false;
  r->computed = NULL;
  r->stages = r->seen = r->locals = 0;
  r->name = name;
  tg_job_init(&r->job, NULL);
  tg_env_init(&e, NULL);
  r->text = text(&e, r->row);
  bool ok = tg_protect(&r->job.env, whole, r);
  CHECK(ok && !r->failed, "%s, %s on %s: %s\n%s", name, r->row->name, r->path.target.name, ok ? "" : r->job.env.message, r->text);
  CHECK(!ok || (r->stages > 8 && r->seen == r->stages), "%s, %s on %s: the instruction stands in %u of %u stages", name, r->row->name, r->path.target.name, r->seen, r->stages);
  CHECK(!ok || r->locals == locals, "%s, %s on %s: %u buffers in LOCAL memory, not %u", name, r->row->name, r->path.target.name, r->locals, locals);
  tg_job_drop(&r->job);
  tg_env_drop(&e);
}

int main(void) {
  static run r;
  static bool done[ROWS];
  char path[512];
  uint32_t products = 0, flashes = 0, rings = 0;
  static const char *const targets[] = {"sm_80", "gfx1100", "gfx1201", "gfx90a", "gfx942"};
  r.ptxas = kit_find_ptxas(path, sizeof path);
  for (size_t t = 0; t < TG_COUNT(targets); t++) {
    if (!kit_path_open(&r.path, targets[t])) {
      CHECK(false, "no way to %s", targets[t]);
      continue;
    }
    for (uint32_t i = 0; (r.row = tg_matrix_at(i)); i++) {
      if (strstr(r.row->name, "fnuz") || r.row->c_type == TG_F16 || r.row->n == 1 || !tg_matrix_on(r.row, &r.path.target) || i >= ROWS || done[i]) continue;
      done[i] = true;   /* on the first target that has it */
      r.exact = true;
      one(&r, "product", product_text, 2);   /* A and B, as the author wrote */
      products++;
      uint32_t bytes = (uint32_t)tg_type_bytes(r.row->a_type);   /* a ring for one instruction of each size of elements */
      r.copies = r.path.target.async_copy && !(rings & bytes);
      if (r.copies) one(&r, "ring", ring_text, 2), rings |= bytes;
      r.copies = false;
      if (r.row->a_type != TG_F16 && r.row->a_type != TG_BF16) continue;
      r.exact = false;
      one(&r, "flash", flash_text, targets[t][0] == 's' ? 0 : 1);   /* P: on NVIDIA an accumulator is an operand as it is */
      flashes++;
    }
    kit_path_close(&r.path);
  }
  CHECK(products > 20 && flashes > 9 && rings == 7, "%u products, %u attentions, rings of %u", products, flashes, rings);
  for (int i = 0; i < ROUNDS; i++) kit_memory_free(&r.start[i]), kit_memory_free(&r.want[i]);
  kit_memory_free(&r.got);
  return TEST_END();
}
