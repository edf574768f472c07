/* SPDX-License-Identifier: MIT
 * A library whose constructor compiles: a kernel as text, one in C, and a product (tests/library/opened.c). */
#include "tg/dsl.h"
#include "tg/gemm.h"

__attribute__((visibility("default"))) int opened_inside_good;

TG_KERNEL(doubled, M) {
  tg_in(x, f32, [M]);
  tg_out(y, f32, [M]);
  tg_range(i, M) tg(y[i] = x[i] * 2);
}

__attribute__((constructor)) static void compile_all(void) {
  tg_context *c;
  tg_kernel *text = NULL, *def = NULL;
  tg_gemm *g = NULL;
  tg_binding size = {"M", 1, 100, 1};
  if (tg_context_create(&(tg_context_options){.threads = 1}, &c) != TG_OK) return;
  opened_inside_good += tg_kernel_compile_text(c, "k.tg", "kernel one() { out(y, f32, [4]); range(i, 4) y[i] = 1; }", NULL, &text) == TG_OK;
  opened_inside_good += tg_kernel_compile(c, &doubled, &(tg_compile_options){.bindings = &size, .bindings_n = 1}, &def) == TG_OK;
  opened_inside_good += tg_gemm_plan(c, &(tg_gemm_desc){.m = {4, 0}, .n = {8, 0}, .k = {8, 0}}, &g) == TG_OK;
  tg_kernel_free(text), tg_kernel_free(def), tg_gemm_free(g);
  tg_context_free(c);
}
