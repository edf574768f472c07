/* SPDX-License-Identifier: MIT
 * The thin path: one kernel from macros and from text gives one program. */
#include <stdlib.h>
#include "dsl/text.h"
#include "tg/dsl.h"
#include "test.h"

TG_KERNEL(matmul, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
}

static void author_matmul(void *user) {
  tg_author(user, &matmul, 3, (tg_binding[]){{"M", 64, 64, 0}, {"N", 1, 4096, 16}, {"K", 32, 32, 0}}, NULL);
}

static void parse_matmul(void *user) {
  tg_parse_kernel(user, "matmul.tg", "kernel matmul(M = 64, N in 1..4096 % 16, K = 32) {\n in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
    " range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n}", 0, NULL);
}

static void print_it(void *user) {
  tg_job *j = user;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, j->sink, &n);
  for (uint32_t i = 0; i < n; i++) {
    printf("%u %s %s(", order[i]->id, tg_ops[order[i]->op].name, tg_type_name[order[i]->type]);
    for (uint32_t k = 0; k < order[i]->n; k++) printf(" %u", order[i]->src[k]->id);
    printf(") %lld\n", (long long)order[i]->arg);
  }
  for (uint32_t i = 0; i < j->occurrences.n; i++) printf("occ %u in %u at %d:%d+%d %s\n", j->occurrences.data[i].node->id, j->occurrences.data[i].stmt->id, j->occurrences.data[i].pos.line, j->occurrences.data[i].pos.column, j->occurrences.data[i].pos.length, j->occurrences.data[i].pos.text);
}

int main(void) {
  for (int i = 0; i < 2; i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, i ? parse_matmul : author_matmul, &j), "%s", j.env.message);
    if (j.sink && getenv("SHOW")) tg_protect(&j.env, print_it, &j);
    tg_job_drop(&j);
  }
  return TEST_END();
}
