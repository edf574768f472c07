/* SPDX-License-Identifier: MIT
 * The mathematics of a product, the same for all sketches: the declarations, and one statement with the parts that the
 * problem has (alpha, beta, epilogue, conversions). */
#include <stdio.h>
#include "dsl/uop.h"
#include "gemm/sketch.h"

static void operand(tg_builder *b, const char *word, const char *name, tg_type t, const char *rows, const char *columns,
                    uint8_t major, int64_t step) {
  char low = (char)(name[0] - 'A' + 'a');
  long long by = step > 1 ? step : 1;
  if (major == TG_GEMM_ROW)
    tg_kit_declare(b, word, "%s, %s, [%s, %s], [ld%c, %lld]", name, tg_type_name[t], rows, columns, low, by);
  else if (major == TG_GEMM_COLUMN)
    tg_kit_declare(b, word, "%s, %s, [%s, %s], [%lld, ld%c]", name, tg_type_name[t], rows, columns, by, low);
  else tg_kit_declare(b, word, "%s, %s, [%s, %s], [ld%c, step%c]", name, tg_type_name[t], rows, columns, low, low);
}

static tg_kit_epilogue epilogue_of(const tg_gemm_problem *p) {
  return (tg_kit_epilogue){p->epilogue, "acc, m, n", p->acc, p->argument, p->arguments_n};
}

void tg_gemm_declare_result(tg_builder *tg_b_, const tg_gemm_problem *p) {
  operand(tg_b_, p->beta ? "inout" : "out", "C", p->c, "M", "N", p->c_major, p->c_step);
  if (p->alpha) tg_kit_declare(tg_b_, "in", "alpha, %s, [1]", tg_type_name[p->acc]);
  if (p->beta) tg_kit_declare(tg_b_, "in", "beta, %s, [1]", tg_type_name[p->acc]);
  tg_kit_epilogue e = epilogue_of(p);
  tg_kit_declare_arguments(tg_b_, &e, "M", "N");
}

static void declare(tg_builder *tg_b_, const tg_gemm_problem *p, bool packed) {
  operand(tg_b_, "in", "A", p->a, "M", "K", p->a_major, p->a_step);
  if (p->bits) tg_gemm_quantised(tg_b_, p);
  else if (packed) {
    tg_let(PANEL, (int64_t)p->panel);
    tg_kit_declare(tg_b_, "in", "Bp, %s, [ceildiv(N, PANEL), K, PANEL]", tg_type_name[p->b]);
  } else operand(tg_b_, "in", "B", p->b, "K", "N", p->b_major, p->b_step);
  tg_gemm_declare_result(tg_b_, p);
}

void tg_gemm_declare(tg_builder *b, const tg_gemm_problem *p) { declare(b, p, false); }
void tg_gemm_declare_call(tg_builder *b, const tg_gemm_problem *p) { declare(b, p, p->panel != 0); }

void tg_gemm_store(tg_builder *b, const tg_gemm_problem *p, const char *j, const char *sum, const char *condition) {
  char at[64], c[80], all[TG_GEMM_TEXT], value[TG_GEMM_TEXT + 1024], text[TG_GEMM_TEXT + 1200];
  snprintf(at, sizeof at, "C[i,%s]", j);
  tg_kit_cast(c, sizeof c, p->c, p->acc, at);
  snprintf(all, sizeof all, "%s%s%s%s", p->beta ? "beta[0] * " : "", p->beta ? c : "",
           p->beta    ? p->alpha ? " + alpha[0] * " : " + "
           : p->alpha ? "alpha[0] * "
                      : "",
           sum);
  tg_kit_epilogue e = epilogue_of(p);
  if (p->epilogue) tg_kit_wrap(b, &e, "i", j, all, value, sizeof value);
  else snprintf(value, sizeof value, "%s", all);
  if (p->c == p->acc && !p->epilogue) snprintf(text, sizeof text, "%s = %s%s", at, value, condition);
  else snprintf(text, sizeof text, "%s = %s(%s)%s", at, tg_type_name[p->c], value, condition);
  tg_add_statement(b, text, __FILE__, __LINE__);
}

void tg_gemm_value_of_a(const tg_gemm_problem *p, const char *i, const char *k, char *out, size_t size) {
  char at[96];
  snprintf(at, sizeof at, "A[%s,%s]", i, k);
  tg_kit_cast(out, size, p->a, p->acc, at);
}

void tg_gemm_term(const tg_gemm_problem *p, const char *k, char *out, size_t size) {
  char a[128], b[TG_GEMM_TEXT / 2], at[96];
  tg_gemm_value_of_a(p, "i", k, a, sizeof a);
  snprintf(at, sizeof at, "B[%s,j]", k);
  if (p->bits) tg_gemm_weight(p, k, "j", b, sizeof b);
  else tg_kit_cast(b, sizeof b, p->b, p->acc, at);
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
  return p->a_major == TG_GEMM_STRIDES || p->b_major == TG_GEMM_STRIDES || p->c_major == TG_GEMM_STRIDES ||
         p->a_step > 1 || p->b_step > 1 || p->c_step > 1;
}

void tg_gemm_kernel_of(const tg_gemm_problem *p, const tg_kernel_def *sketch, tg_gemm_def *out) {
  const uint8_t majors[] = {p->a_major, p->b_major, p->c_major};
  size_t n = (size_t)snprintf(out->params, sizeof out->params, "%s", sketch->params);
  for (uint32_t i = 0; i < TG_COUNT(majors); i++)
    if (majors[i] == TG_GEMM_STRIDES)
      n += (size_t)snprintf(out->params + n, sizeof out->params - n, ", step%c", "abc"[i]);
  for (uint32_t i = 0; i < p->arguments_n; i++)
    if (p->argument[i].per == 3) n += (size_t)snprintf(out->params + n, sizeof out->params - n, ", ld_arg%u", i);
  if (p->bits) snprintf(out->params + n, sizeof out->params - n, ", ld_group");
  out->def = *sketch;
  out->def.params = out->params;
}
