/* SPDX-License-Identifier: MIT
 * The form of attention for GPUs: for each target, type, head and variant it compiles to matrix instructions without
 * spills, and after every pass the interpreter computes from it what it computes from the author's form, bit for bit.
 * The data make every exponential, sum and rescaling exact: scores are whole numbers in -9..0 to the base 2. With a
 * causal mask some V are infinite or NaN, which only rows may have that see them.
 *   attention_device          of one target of each maker all types and heads, and every other further variant, each in
 *                             the other's place; of the others f16 with heads of 64, full and causal. After every pass
 *                             where those differ: causal, of one target for each kind of matrix instruction
 *   attention_device all      all of all */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "attention/template.h"
#include "dsl/value.h"
#include "interp/interp.h"
#include "target/matrix.h"
#include "tg/attention.h"

enum { ROUNDS = 2, LEAST_AT = -5, SLOTS = 5 };   /* workgroups of divided keys: one more than parts */

typedef struct {
  kit_path path;
  tg_job job;
  tg_attention_problem problem;
  tg_attention_def def;
  const char *name, *stage, *ptxas;
  kit_memory start[ROUNDS], want[ROUNDS], got;
  int64_t params[ROUNDS][ATTENTION_VALUES];
  uint32_t stages, assembled;
  bool failed, brief, few, all, divided;
  uint32_t passed;              /* forms of matrix instructions for which every pass has been looked at */
  uint32_t turn;                /* of the further variants this target takes those of this turn */
} run;

#define WRONG(r, ...)                                                                                                  \
  ((r)->failed = true, fprintf(stderr, "%s on %s, head %lld, %s: ", (r)->name, (r)->path.target.name,                  \
                               (long long)(r)->problem.head, (r)->stage),                                              \
   fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

/* ---- data ---- */

/* Values of the parameters, in the order of the kernel: a group of heads of Q, which share one of K and V. */
static void fill_params(run *r, int round) {
  tg_binding b[ATTENTION_VALUES];
  int64_t m = round ? 17 : 16, n = round ? 37 : 32, d = r->problem.head, e = r->problem.value_head,
          sequences = 1 + round, heads = r->problem.group, kv = 1;
  if (m > r->problem.rows.hi) m = r->problem.rows.hi;
  const struct { const char *name; int64_t value; } all[] = {
      {"M", m}, {"N", n}, {"ldq", d}, {"ldk", d}, {"ldv", e}, {"ldo", e}, {"at", round ? n - m : LEAST_AT},
      {"window", 8}, {"B", sequences}, {"H", heads}, {"q_b", heads * m * d}, {"q_h", m * d}, {"k_b", kv * n * d},
      {"k_h", n * d}, {"v_b", kv * n * e}, {"v_h", n * e}, {"o_b", heads * m * e}, {"o_h", m * e}, {"lse_n", m}, {"parts", 2},
      {"part_keys", r->problem.keys_of_block}};
  uint32_t count = tg_attention_bind(&r->problem, tg_attention_device, b);
  for (uint32_t i = 0, at = 0; i < count; i++) {
    if (b[i].lo == b[i].hi) continue;   /* a constant */
    for (uint32_t k = 0; k < TG_COUNT(all); k++)
      if (!strcmp(b[i].name, all[k].name)) r->params[round][at] = all[k].value;
    at++;
  }
}

static void put(kit_memory *m, uint32_t b, size_t i, double x) {
  size_t size = (size_t)tg_type_bytes(m->type[b]);
  uint64_t bits = tg_value_bits(m->type[b], (tg_value){.f = x});
  memcpy((char *)m->data[b] + i * size, &bits, size);
}

enum { FEW_ROWS = 32 };

/* Each row of Q has one 1, which picks an element of K. */
static void fill(const run *r, kit_memory *m) {
  uint32_t seed = 7;
  size_t d = (size_t)r->problem.head;
  for (uint32_t b = 0; b < m->n; b++) {
    size_t n = m->bytes[b] / (size_t)tg_type_bytes(m->type[b]);
    for (size_t i = 0; i < n; i++) {
      seed = seed * 1664525u + 1013904223u;
      uint32_t x = seed >> 16;
      if (!strcmp(m->name[b], "Q")) put(m, b, i, i % d == (i / d * 7) % d);
      else if (!strcmp(m->name[b], "K")) put(m, b, i, -(double)(x % 10));
      else if (!strcmp(m->name[b], "V")) put(m, b, i, (double)(x % 9) - 4);
      else if (!strcmp(m->name[b], "slope")) put(m, b, i, (double)(x % 2));
      else if (!strcmp(m->name[b], "scale")) put(m, b, i, 1);
    }
  }
}

/* ---- V that is not finite ---- */

/* Row i of the second round sees keys 0..FIRST_SEEN + i. Of its last keys, V is NaN in element 0 of the first, inf in
 * elements 1 and 3 of the second, -inf in elements 2 and 3 of the third. */
enum { ODD_ROW = 12, FIRST_SEEN = 20, ODD_KEY = FIRST_SEEN + ODD_ROW };

static void fill_odd(const run *r, kit_memory *m) {
  static const struct { int key, element; double value; } odd[] = {
      {0, 0, NAN}, {1, 1, INFINITY}, {1, 3, INFINITY}, {2, 2, -INFINITY}, {2, 3, -INFINITY}};
  size_t e = (size_t)r->problem.value_head, keys = 37;
  for (uint32_t b = 0; b < m->n; b++)
    for (size_t i = 0; i < TG_COUNT(odd) && !strcmp(m->name[b], "V"); i++)
      for (size_t at = 0; at < m->bytes[b]; at += keys * e * (size_t)tg_type_bytes(m->type[b]))
        put(m, b, at / (size_t)tg_type_bytes(m->type[b]) + ((size_t)(ODD_KEY + odd[i].key)) * e +
                      (size_t)odd[i].element, odd[i].value);
}

static double result(const kit_memory *m, size_t i) {
  for (uint32_t b = 0; b < m->n; b++)
    if (!strcmp(m->name[b], "O")) {
      size_t size = (size_t)tg_type_bytes(m->type[b]);
      uint64_t bits = 0;
      memcpy(&bits, (const char *)m->data[b] + i * size, size);
      return tg_value_from_bits(m->type[b], bits).f;
    }
  return 0;
}

/* Rows before those that see such keys are what they are without; in the first head the others are by the formula, if
 * no weight is rounded to 0. */
static void check_odd(run *r, const kit_memory *plain, const kit_memory *odd, bool weighted) {
  size_t e = (size_t)r->problem.value_head, rows = 17;
  static const struct { size_t row, element; double value; } want[] = {
      {12, 0, NAN}, {13, 0, NAN}, {13, 1, INFINITY}, {14, 2, -INFINITY}, {13, 3, INFINITY}, {14, 3, NAN}};
  for (size_t head = 0; head < 4; head++)
    for (size_t row = 0; row < ODD_ROW; row++)
      for (size_t d = 0; d < e; d++) {
        size_t i = (head * rows + row) * e + d;
        if (result(plain, i) != result(odd, i)) WRONG(r, "V of keys that row %zu does not see reaches it", row);
      }
  for (size_t i = 0; i < TG_COUNT(want) && weighted; i++) {
    double x = result(odd, want[i].row * e + want[i].element);
    if (isnan(want[i].value) ? !isnan(x) : x != want[i].value)
      WRONG(r, "row %zu, element %zu: %g instead of %g", want[i].row, want[i].element, x, want[i].value);
  }
}

/* ---- stages ---- */

static void interpret(run *r, const tg_uop *sink, int round, kit_memory *m, bool threads) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  kit_memory_copy(m, &r->start[round]);
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interpret(&r->job, sink,
               &(tg_interp){.buffers = buffers,
                            .params = r->params[round],
                            .check_uninitialised = true,
                            .check_races = true,
                            .check_barriers = threads});
}

/* Bit for bit; with ALiBi weights are far apart, so that f32 rounds their sums, which LSE shows. */
static bool same(const run *r, uint32_t b, int round) {
  const float *want = r->want[round].data[b], *got = r->got.data[b];
  if (!memcmp(want, got, r->got.bytes[b])) return true;
  bool near = r->problem.alibi && !strcmp(r->got.name[b], "lse");
  for (size_t i = 0; near && i < r->got.bytes[b] / sizeof *got; i++)
    near = want[i] == got[i] || fabsf(want[i] - got[i]) <= 1e-6f * (1 + fabsf(want[i]));
  return near;
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  r->stage = pass;
  if (r->failed || tg_stage_index(pass) < tg_stage_index("schedule")) return;
  bool much = !strcmp(pass, "schedule") || !strcmp(pass, "linear");
  r->stages++;
  if (r->brief && !much) return;   /* of a head of another size or type the passes do nothing else */
  for (int round = 0; round < (much ? ROUNDS : 1); round++) {
    interpret(r, sink, round, &r->got, tg_stage_index(pass) >= tg_stage_index("distribute"));
    for (uint32_t b = 0; b < r->got.n; b++)
      if (!same(r, b, round))
        WRONG(r, "buffer %s differs in round %d", r->got.name[b], round);
  }
}

static void assemble(run *r, const char *assembly) {
  static char report[1 << 16];
  char file[TEST_PATH] = "tg-attention-XXXXXX.ptx", command[512];
  int kernels = 0;
  test_place(file);
  int at = mkstemps(file, 4);
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
  tg_binding b[ATTENTION_VALUES];
  uint32_t n = tg_attention_bind(&r->problem, tg_attention_device, b);
  r->stage = "author";
  tg_author(&r->job, &r->def.def, n, b, &r->problem);
  for (int round = 0; round < ROUNDS; round++) {
    fill_params(r, round);
    if (!kit_memory_make(&r->job, r->params[round], &r->start[round])) WRONG(r, "no memory");
    fill(r, &r->start[round]);
    interpret(r, r->job.sink, round, &r->want[round], false);
    if (!round || !r->problem.causal) continue;
    fill_odd(r, &r->start[round]);
    interpret(r, r->job.sink, round, &r->got, false);
    check_odd(r, &r->want[round], &r->got, !r->problem.alibi && !r->problem.score_mod);
    kit_memory_copy(&r->want[round], &r->got);
  }
  kit_lower(&r->path, &r->job, true, seen, r);
  r->stage = "code";
  const tg_matrix_row *row = tg_matrix_find(r->problem.matrix);
  const char *assembly = NULL, *wanted = row->form == TG_MATRIX_PTX    ? row->code
                                         : row->form == TG_MATRIX_MFMA ? "v_mfma_"
                                                                       : "v_wmma_";
  tg_code_info info;
  tg_jit_compile(r->path.jit, &r->job, r->job.sink, &info, NULL, &assembly);
  if (!assembly || !strstr(assembly, wanted)) WRONG(r, "no %s in the code", wanted);
  else if (row->form == TG_MATRIX_PTX && strstr(assembly, "st.shared.b16"))
    WRONG(r, "V of cut blocks is stored element by element, those of a warp in one bank");
  else if (row->form == TG_MATRIX_PTX && r->ptxas && !r->problem.alibi && !r->problem.score_mod && r->problem.q == TG_F16)
    assemble(r, assembly);
}

static void one(run *r, const char *name) {
  r->failed = false, r->stages = 0, r->name = name;
  tg_attention_device_tiles(&r->path.target, &r->problem);
  CHECK(r->problem.matrix, "%s has no instruction for %s", r->path.target.name, tg_type_name[r->problem.q]);
  if (!r->problem.matrix) return;
  if (r->divided) r->problem.slots = SLOTS;
  uint32_t form = 1u << tg_matrix_find(r->problem.matrix)->form;
  if (!r->brief && !r->all) r->brief = r->passed & form, r->passed |= form;
  tg_attention_kernel_of(&r->problem, tg_attention_device, &r->def);
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, whole, r);
  CHECK(ok && !r->failed, "%s on %s, head %lld: %s", name, r->path.target.name, (long long)r->problem.head,
        ok ? "" : r->job.env.message);
  CHECK(!ok || r->stages > 8, "%s on %s: %u stages", name, r->path.target.name, r->stages);
  tg_job_drop(&r->job);
}

static bool takes(const run *r, uint32_t turn) { return r->all || r->turn == turn; }

/* Rows are the heads of a group: all of it for one query, also where they do not fill a workgroup, and as many as
 * divide a group that is larger than it. */
static void grouped(run *r) {
  const tg_attention_problem plain = r->problem;
  static const struct { int64_t group, rows, together; bool parts; } all[] = {
      {4, 1, 4, false}, {7, 17, 7, false}, {96, 1, 48, false}, {4, 1, 4, true}};
  for (size_t i = 0; i < TG_COUNT(all); i++) {
    r->problem = plain;
    r->problem.group = all[i].group, r->problem.rows.hi = all[i].rows, r->problem.causal = i == 1, r->problem.sinks = i >= 2, r->divided = all[i].parts;
    one(r, "grouped");
    int64_t rows = r->problem.warps * tg_matrix_find(r->problem.matrix)->m, most = all[i].together;
    while (most > rows || all[i].group % most) most--;
    CHECK(r->problem.row_heads == most, "%s: %lld of %lld heads are rows of %lld", r->path.target.name,
          (long long)r->problem.row_heads, (long long)all[i].group, (long long)rows);
  }
  r->problem = plain, r->divided = false;
}

static void variants(run *r, tg_type type, int64_t head) {
  const tg_attention_problem plain = {.q = type, .k = type, .v = type, .o = TG_F32, .head = head, .value_head = head,
                                      .rows = {1, 1 << 20}, .keys = {1, 1 << 20}, .base2 = true, .grid = true,
                                      .group = 2, .lse = true};
  r->problem = plain;
  bool other = head != 64 || type != TG_F16;
  if (other) r->problem.rows.hi = FEW_ROWS;   /* two warps are enough */
  r->brief = other || !r->all;   /* causal has the same loops, and the cut blocks besides */
  one(r, "full");
  r->problem.causal = true, r->problem.o = type;
  r->brief = other;
  one(r, "causal");
  r->brief = true;
  r->problem.rows.hi = FEW_ROWS;
  if (type != TG_F16) return;
  if (r->few) return;
  if (head == 64) grouped(r);
  r->problem.alibi = true;
  if (takes(r, head == 64)) one(r, "causal, alibi");
  if (head != 64) return;
  r->problem.window = true;
  if (takes(r, 0)) one(r, "causal, window, alibi");
  r->problem.causal = false;
  if (takes(r, 1)) one(r, "window, alibi");
  r->problem.causal = true, r->problem.window = r->problem.alibi = false;
  r->problem.score_mod = "where(k % 3 == h % 2, score, score - 1)", r->problem.mask_mod = "k / 8 <= q / 8 + b";
  if (takes(r, 0)) one(r, "modified");
}

int main(int argc, char **argv) {
  static run r;
  static const char *const targets[] = {"sm_80", "gfx1100", "sm_90a", "gfx1201", "gfx942"};
  r.all = argc > 1 && !strcmp(argv[1], "all");
  char path[512];
  r.ptxas = kit_find_ptxas(path, sizeof path);
  for (size_t t = 0; t < TG_COUNT(targets); t++) {
    if (!kit_path_open(&r.path, targets[t])) {
      CHECK(false, "no way to %s", targets[t]);
      continue;
    }
    r.few = t >= 2 && !r.all, r.turn = t % 2;
    variants(&r, TG_F16, 64);
    if (!r.few) variants(&r, TG_F16, 128), variants(&r, TG_BF16, 64);
    kit_path_close(&r.path);
  }
  CHECK(!r.ptxas || r.assembled > 5, "%u kernels assembled", r.assembled);
  for (int i = 0; i < ROUNDS; i++) kit_memory_free(&r.start[i]), kit_memory_free(&r.want[i]);
  kit_memory_free(&r.got);
  return TEST_END();
}
