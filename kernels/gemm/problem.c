/* SPDX-License-Identifier: MIT
 * The mathematics of a product, the same for all sketches: declarations, and one statement made of what the problem has. */
#include <stdio.h>
#include "gemm/sketch.h"

const char *tg_gemm_type(tg_type t) {
  static const char *const text[TG_TYPE__COUNT] = {[TG_I8] = "i8", [TG_U8] = "u8", [TG_I32] = "i32", [TG_F16] = "f16", [TG_BF16] = "bf16", [TG_F32] = "f32", [TG_F64] = "f64"};
  return text[t];
}

static void declare(tg_builder *b, const char *word, const char *text) { tg_add_declaration(b, word, text, __FILE__, __LINE__); }

static void operand(tg_builder *b, const char *word, const char *name, tg_type t, const char *rows, const char *columns, uint8_t major, int64_t step) {
  char text[160];
  char low = (char)(name[0] - 'A' + 'a');
  long long by = step > 1 ? step : 1;
  if (major == TG_GEMM_ROW) snprintf(text, sizeof text, "%s, %s, [%s, %s], [ld%c, %lld]", name, tg_gemm_type(t), rows, columns, low, by);
  else if (major == TG_GEMM_COLUMN) snprintf(text, sizeof text, "%s, %s, [%s, %s], [%lld, ld%c]", name, tg_gemm_type(t), rows, columns, by, low);
  else snprintf(text, sizeof text, "%s, %s, [%s, %s], [ld%c, step%c]", name, tg_gemm_type(t), rows, columns, low, low);
  declare(b, word, text);
}

static void scalar(tg_builder *b, const char *name, tg_type t) {
  char text[64];
  snprintf(text, sizeof text, "%s, %s, [1]", name, tg_gemm_type(t));
  declare(b, "in", text);
}

static void argument(tg_builder *b, const tg_gemm_problem *p, uint32_t a) {
  static const char *const shapes[4] = {"[1]", "[M]", "[N]", "[M, N]"};
  char text[96];
  int n = snprintf(text, sizeof text, "arg%u, %s, %s", a, tg_gemm_type(p->argument[a].type), shapes[p->argument[a].per]);
  if (p->argument[a].per == 3) snprintf(text + n, sizeof text - (size_t)n, ", [ld_arg%u, 1]", a);
  declare(b, "in", text);
}

/* "T(x)", or x where it has the type already. */
static void cast(char *out, size_t n, tg_type from, tg_type to, const char *x) {
  if (from == to) snprintf(out, n, "%s", x);
  else snprintf(out, n, "%s(%s)", tg_gemm_type(to), x);
}

/* The epilogue as a function of the sum, the subscripts and the arguments, and its call around the sum. */
static void wrap(tg_builder *b, const tg_gemm_problem *p, const char *j, const char *sum, char *out, size_t size) {
  static const char *const places[4] = {"0", "i", "", "i, "};
  char formals[512] = "acc, m, n", value[128], load[96];
  int f = 9, n = snprintf(out, size, "epilogue(%s, i, %s", sum, j);
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    f += snprintf(formals + f, sizeof formals - (size_t)f, ", %s", p->argument[a].name);
    snprintf(load, sizeof load, "arg%u[%s%s]", a, places[p->argument[a].per], p->argument[a].per & 2 ? j : "");
    cast(value, sizeof value, p->argument[a].type, p->acc, load);
    n += snprintf(out + n, size - (size_t)n, ", %s", value);
  }
  snprintf(out + n, size - (size_t)n, ")");
  tg_add_splice(b, "epilogue", p->epilogue, formals, __FILE__, __LINE__);
}

void tg_gemm_declare(tg_builder *tg_b_, const tg_gemm_problem *p) {
  operand(tg_b_, "in", "A", p->a, "M", "K", p->a_major, p->a_step);
  if (p->bits) tg_gemm_quantised(tg_b_, p);
  else operand(tg_b_, "in", "B", p->b, "K", "N", p->b_major, p->b_step);
  operand(tg_b_, p->beta ? "inout" : "out", "C", p->c, "M", "N", p->c_major, p->c_step);
  if (p->alpha) scalar(tg_b_, "alpha", p->acc);
  if (p->beta) scalar(tg_b_, "beta", p->acc);
  for (uint32_t a = 0; a < p->arguments_n; a++) argument(tg_b_, p, a);
}

void tg_gemm_store(tg_builder *b, const tg_gemm_problem *p, const char *j, const char *sum, const char *condition) {
  char at[64], c[80], all[TG_GEMM_TEXT], value[TG_GEMM_TEXT + 1024], text[TG_GEMM_TEXT + 1200];
  snprintf(at, sizeof at, "C[i,%s]", j);
  cast(c, sizeof c, p->c, p->acc, at);
  snprintf(all, sizeof all, "%s%s%s%s", p->beta ? "beta[0] * " : "", p->beta ? c : "", p->beta ? p->alpha ? " + alpha[0] * " : " + " : p->alpha ? "alpha[0] * " : "", sum);
  if (p->epilogue) wrap(b, p, j, all, value, sizeof value);
  else snprintf(value, sizeof value, "%s", all);
  if (p->c == p->acc && !p->epilogue) snprintf(text, sizeof text, "%s = %s%s", at, value, condition);
  else snprintf(text, sizeof text, "%s = %s(%s)%s", at, tg_gemm_type(p->c), value, condition);
  tg_add_statement(b, text, __FILE__, __LINE__);
}

void tg_gemm_value_of_a(const tg_gemm_problem *p, const char *i, const char *k, char *out, size_t size) {
  char at[96];
  snprintf(at, sizeof at, "A[%s,%s]", i, k);
  cast(out, size, p->a, p->acc, at);
}

void tg_gemm_term(const tg_gemm_problem *p, const char *k, char *out, size_t size) {
  char a[128], b[TG_GEMM_TEXT / 2], at[96];
  tg_gemm_value_of_a(p, "i", k, a, sizeof a);
  snprintf(at, sizeof at, "B[%s,j]", k);
  if (p->bits) tg_gemm_weight(p, k, "j", b, sizeof b);
  else cast(b, sizeof b, p->b, p->acc, at);
  snprintf(out, size, "%s * %s", a, b);
}

void tg_gemm_product(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char term[TG_GEMM_TEXT - 32], sum[TG_GEMM_TEXT];
  tg_gemm_declare(tg_b_, p);
  tg_gemm_term(p, "k", term, sizeof term);
  snprintf(sum, sizeof sum, "sum(k : K, %s)", term);
  tg_range(i, M) tg_range(j, N)
    tg_gemm_store(tg_b_, p, "j", sum, "");
}

bool tg_gemm_is_strided(const tg_gemm_problem *p) {
  return p->a_major == TG_GEMM_STRIDES || p->b_major == TG_GEMM_STRIDES || p->c_major == TG_GEMM_STRIDES || p->a_step > 1 || p->b_step > 1 || p->c_step > 1;
}

void tg_gemm_kernel_of(const tg_gemm_problem *p, const tg_kernel_def *sketch, tg_gemm_def *out) {
  const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
  size_t n = (size_t)snprintf(out->params, sizeof out->params, "%s", sketch->params);
  for (uint32_t i = 0; i < TG_COUNT(majors); i++)
    if (majors[i] == TG_GEMM_STRIDES) n += (size_t)snprintf(out->params + n, sizeof out->params - n, ", step%c", "abc"[i]);
  for (uint32_t i = 0; i < p->arguments_n; i++)
    if (p->argument[i].per == 3) n += (size_t)snprintf(out->params + n, sizeof out->params - n, ", ld_arg%u", i);
  if (p->bits) snprintf(out->params + n, sizeof out->params - n, ", ld_group");
  out->def = *sketch;
  out->def.params = out->params;
}
