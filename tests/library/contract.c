/* SPDX-License-Identifier: MIT
 * The word contract, for every matrix instruction that it can choose on every target: a product of several tiles with an epilogue is
 * scheduled onto it; each stage computes what the author's form computes, under the interpreter, which runs the instruction from its
 * own table; and the linear form becomes code that holds the instruction. And the dot products of one lane, which no word asks for. */
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "dsl/value.h"
#include "interp/interp.h"
#include "kit.h"
#include "target/matrix.h"

typedef struct {
  kit_path path;
  tg_job job;
  const tg_matrix_row *row;
  const char *text, *stage;
  kit_memory start, want, got;
  uint32_t stages, seen;         /* seen: MATRIX in a stage */
  bool failed;
} run;

#define WRONG(r, ...) ((r)->failed = true, fprintf(stderr, "%s on %s: %s: ", (r)->row->name, (r)->path.target.name, (r)->stage), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

static void put_factor(tg_str *s, tg_type operand, tg_type sum, const char *element) {
  if (operand == sum) tg_str_puts(s, element);
  else tg_str_printf(s, "%s(%s)", tg_type_name[sum], element);
}

/* C = max(A B, -3) for two or three tiles in each direction. uneven: of an instruction without rows, each row of A has some terms more, so that a list leaves some of them. */
static const char *text_of(tg_env *e, const tg_matrix_row *r, bool device, bool uneven) {
  static const char tiles[] = " opt(stage A at io as Ap[i/16, k/64, i%16, k%64]); opt(stage B at io as Bp[j/16, k/64, k/4%16, j%16, k%4]);";
  tg_str s = tg_str_new(e);
  tg_str_printf(&s, "kernel product(M = %u, N = %u, K = %u) {\n  in(A, %s, [M, K]); in(B, %s, [K, N]); out(C, %s, [M, N]);\n", (uneven ? 4u : 2u) * r->m, 2u * r->n, (uneven ? 12u : 3u) * r->k, tg_type_name[r->a_type],
                tg_type_name[r->b_type], tg_type_name[r->c_type]);
  tg_str_printf(&s, "  opt(split j %u as jo ji); opt(split k %s as ko ki);\n", r->n, tg_format(e, uneven ? "{%u, 1}" : "%u", r->k));
  if (r->m > 1) tg_str_printf(&s, "  opt(split i %u as io ii); opt(order io jo ii ji);%s opt(contract %s i=ii j=ji k=ki);\n", r->m, r->form == TG_MATRIX_TILE ? tiles : "", r->name);
  else tg_str_printf(&s, "  opt(contract %s n=ji k=ki);\n", r->name);
  tg_str_printf(&s, "  range(i, M%s) range(j, N) C[i, j] = max(sum(k : %s, ", device && r->m == 1 ? ", global" : "", uneven ? "K - 3*i" : "K");
  put_factor(&s, r->a_type, r->c_type, "A[i, k]");
  tg_str_puts(&s, " * ");
  put_factor(&s, r->b_type, r->c_type, "B[k, j]");
  tg_str_puts(&s, "), -3);\n}\n");
  return s.data;
}

static void interpret(run *r, const tg_uop *sink, kit_memory *m, bool threads) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  kit_memory_copy(m, &r->start);
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = (tg_interp_buffer){m->data[b], m->bytes[b]};
  tg_interp in = {.buffers = buffers, .check_uninitialised = true, .check_races = true, .check_barriers = threads};
  tg_interpret(&r->job, sink, &in);
}

static bool holds_matrix(tg_job *j, const tg_uop *sink) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, sink, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_MATRIX) return true;
  return false;
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  r->stage = pass;
  if (r->failed || tg_stage_index(pass) < tg_stage_index("schedule")) return;
  r->stages++;
  r->seen += holds_matrix(&r->job, sink);
  interpret(r, sink, &r->got, tg_stage_index(pass) >= tg_stage_index("distribute") && r->path.target.lanes > 1);
  for (uint32_t b = 0; b < r->want.n; b++)
    if (memcmp(r->want.data[b], r->got.data[b], r->want.bytes[b])) WRONG(r, "buffer %u differs", b);
}

static const char *mnemonic_of(const tg_matrix_row *r) {
  switch (r->form) {
  case TG_MATRIX_PTX: return r->code;
  case TG_MATRIX_MFMA: return "v_mfma_";
  case TG_MATRIX_DOT:
  case TG_MATRIX_TILE: return r->name;
  default: return "v_wmma_";
  }
}

static void whole(void *user) {
  run *r = user;
  r->stage = "author";
  tg_parse_kernel(&r->job, "product", r->text, 0, NULL);
  if (!kit_memory_make(&r->job, (int64_t[1]){0}, &r->start)) WRONG(r, "no memory");
  interpret(r, r->job.sink, &r->want, false);
  kit_lower(&r->path, &r->job, true, seen, r);
  r->stage = "code";
  const char *assembly = NULL;
  tg_code_info info;
  tg_jit_compile(r->path.jit, &r->job, r->job.sink, &info, NULL, &assembly);
  if (!assembly || !strstr(assembly, mnemonic_of(r->row))) WRONG(r, "no %s in\n%s", mnemonic_of(r->row), assembly ? assembly : "");
}

/* The same on this machine's processor, where it can. */
static void run_here(run *r) {
  tg_context_options o = {.target = r->path.target.name, .flags = TG_CONTEXT_VERIFY};
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  tg_argument a[KIT_BUFFERS];
  kit_memory_copy(&r->got, &r->start);
  for (uint32_t b = 0; b < r->got.n; b++) a[b] = (tg_argument){r->got.data[b], r->got.bytes[b]};
  bool ok = tg_context_create(&o, &c) == TG_OK && tg_kernel_compile_text(c, "product", r->text, NULL, &k) == TG_OK;
  tg_launch l = {.buffers = a, .buffers_n = r->got.n, .threads = 1};
  ok = ok && tg_kernel_run(k, &l) == TG_OK;
  CHECK(ok, "%s runs here: %s", r->row->name, c ? tg_error_message(c) : "no context");
  for (uint32_t b = 0; ok && b < r->want.n; b++) CHECK(!memcmp(r->want.data[b], r->got.data[b], r->want.bytes[b]), "%s here: buffer %u differs", r->row->name, b);
  tg_kernel_free(k);
  tg_context_free(c);
}

static void one(run *r, bool uneven) {
  r->failed = false;
  r->stages = r->seen = 0;
  tg_job_init(&r->job, NULL);
  tg_env text;
  tg_env_init(&text, NULL);
  r->text = text_of(&text, r->row, r->path.target.lanes > 1, uneven);
  bool ok = tg_protect(&r->job.env, whole, r);
  CHECK(ok && !r->failed, "%s on %s: %s\n%s", r->row->name, r->path.target.name, r->job.env.message, r->text);
  CHECK(!ok || (r->stages > 8 && r->seen == r->stages), "%s on %s: the instruction stands in %u of %u stages", r->row->name, r->path.target.name, r->seen, r->stages);
  tg_job_drop(&r->job);
  if (ok && tg_target_runs_here(&r->path.target)) run_here(r);
  tg_env_drop(&text);
}

/* Sums of products of types that the language sums: not the floats of gfx94 as bytes, not sums in f16. And not dot products
 * of one lane, which pass reduce takes by itself. */
static bool can_be_chosen(const tg_matrix_row *r) { return !strstr(r->name, "fnuz") && r->c_type != TG_F16 && r->n > 1; }

/* ---- dot products, which pass reduce takes by itself: of bytes, and of weights of four bits ---- */

static const char *dots_of(tg_env *e, const tg_matrix_row *r, bool packed) {
  const char *a = tg_type_name[r->a_type], *b = tg_type_name[r->b_type];
  if (!packed) return tg_format(e, "kernel dots(N = 40, K = 640) { in(A, %s, [N, K]); in(B, %s, [K]); out(C, i32, [N]);\n  range(j, N) C[j] = sum(k : K, i32(A[j,k]) * i32(B[k])); }\n", a, b);
  return tg_format(e, "kernel dots(N = 40, K = 512) { in(A, u8, [N, K/2]); in(B, %s, [K]); out(C, i32, [N]);\n"
                      "  range(j, N) C[j] = sum(g : K/32, sum(k : 32, (i32(A[j, g*16 + k/2] >> u8(k%%2*4) & 15) %s) * %s)); }\n", b,
                   r->b_type == TG_I8 ? "- 8" : "+ 5", r->b_type == TG_I8 ? "(i32(B[g*32 + k]) + 3)" : "i32(B[g*32 + k])");
}

static void whole_dots(void *user) {
  run *r = user;
  r->stage = "author";
  tg_parse_kernel(&r->job, "dots", r->text, 0, NULL);
  if (!kit_memory_make(&r->job, (int64_t[1]){0}, &r->start)) WRONG(r, "no memory");
  uint32_t seed = 7;   /* any bytes: sums of integers are exact */
  for (uint32_t b = 0; b < 2; b++)
    for (size_t i = 0; i < r->start.bytes[b]; i++) ((uint8_t *)r->start.data[b])[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
  interpret(r, r->job.sink, &r->want, false);
  kit_lower(&r->path, &r->job, true, seen, r);
  r->stage = "code";
  const char *assembly = NULL, *wanted = r->path.target.arch == TG_ARCH_NVPTX ? "dp4a" : "v_dot4";
  tg_code_info info;
  tg_jit_compile(r->path.jit, &r->job, r->job.sink, &info, NULL, &assembly);
  if (!assembly || !strstr(assembly, wanted)) WRONG(r, "no %s in\n%s", wanted, assembly ? assembly : "");
}

static void dots(run *r, bool packed) {
  tg_env text;
  tg_env_init(&text, NULL);
  r->failed = false;
  r->stages = r->seen = 0;
  tg_job_init(&r->job, NULL);
  r->text = dots_of(&text, r->row, packed);
  bool ok = tg_protect(&r->job.env, whole_dots, r);
  CHECK(ok && !r->failed, "%s on %s: %s\n%s", r->row->name, r->path.target.name, r->job.env.message, r->text);
  CHECK(!ok || (r->stages > 8 && r->seen == r->stages - 1), "%s on %s: a dot product stands in %u of %u stages\n%s", r->row->name, r->path.target.name, r->seen, r->stages, r->text);
  tg_job_drop(&r->job);
  tg_env_drop(&text);
}

int main(void) {
  static run r;
  uint32_t chosen = 0;
  const char *const targets[] = {test_target(), "sapphirerapids", "sm_80", "sm_90a", "gfx1100", "gfx1201", "gfx90a", "gfx942"};
  for (size_t t = 0; t < TG_COUNT(targets); t++) {
    if (!kit_path_open(&r.path, targets[t])) {
      CHECK(false, "no way to %s", targets[t]);
      continue;
    }
    for (uint32_t i = 0; (r.row = tg_matrix_at(i)); i++) {
      if (r.row->n == 1 && tg_matrix_on(r.row, &r.path.target)) {
        dots(&r, false);
        dots(&r, true);
      }
      if (!can_be_chosen(r.row) || !tg_matrix_on(r.row, &r.path.target)) continue;
      one(&r, false);
      if (r.row->m == 1) one(&r, true);
      chosen++;
    }
    kit_path_close(&r.path);
  }
  CHECK(chosen > 49, "%u instructions are chosen", chosen);
  kit_memory_free(&r.start), kit_memory_free(&r.want), kit_memory_free(&r.got);
  return TEST_END();
}
