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

TG_KERNEL(softmax_sum, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, []);
  tg_define_reg(m, f32, []);
  tg_define_reg(l, f32, []);
  tg(m = -inf);
  tg(l = 0);
  tg_range(k, N) tg_carry(m, l) {
    tg_define_reg(m1, f32, []);
    tg(m1 = max(m, x[k]));
    tg(l = l * exp2(m - m1) + exp2(x[k] - m1));
    tg(m = m1);
    tg_merge {
      tg(m = max(a.m, b.m));
      tg(l = a.l * exp2(a.m - m) + b.l * exp2(b.m - m));
    }
  }
  tg(y = m + log2(l));
}

static const char softmax_text[] =
    "kernel softmax_sum(N in 1..50) { in(x, f32, [N]); out(y, f32, []); define_reg(m, f32, []); define_reg(l, f32, []); m = -inf; l = 0;\n"
    "  range(k, N) carry(m, l) { define_reg(m1, f32, []); m1 = max(m, x[k]); l = l * exp2(m - m1) + exp2(x[k] - m1); m = m1;\n"
    "    merge { m = max(a.m, b.m); l = a.l * exp2(a.m - m) + b.l * exp2(b.m - m); } }\n  y = m + log2(l); }";

static void author_softmax(void *user) { tg_author(user, &softmax_sum, 1, (tg_binding[]){{"N", 1, 50, 1}}, NULL); }
static void parse_softmax(void *user) { tg_parse_kernel(user, "softmax.tg", softmax_text, 0, NULL); }

/* Macros and text give one program. */
static void carry_twice(void) {
  tg_job a, b;
  tg_job_init(&a, NULL);
  tg_job_init(&b, NULL);
  CHECK(tg_protect(&a.env, author_softmax, &a), "%s", a.env.message);
  CHECK(tg_protect(&b.env, parse_softmax, &b), "%s", b.env.message);
  if (a.sink && b.sink) CHECK(tg_same_program(&a, a.sink, &b, b.sink), "%s", "the macros' program is not the text's");
  tg_job_drop(&a);
  tg_job_drop(&b);
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

/* ---- trials ---- */

typedef struct { tg_job *job; const char *text; bool fails; } trying;

static const tg_uop *sum_of(tg_job *j, int64_t from, int64_t to) {
  const tg_uop *u = tg_index(j, from);
  for (int64_t i = from; i < to; i++) u = tg_op2(j, TG_OP_ADD, u, tg_index(j, i));
  return u;
}

static void make_much(void *arg) {
  trying *t = arg;
  tg_job *j = t->job;
  char name[32];
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "name%d", i);
    tg_range_new(j, name, tg_index(j, 1000 + i), TG_LOOP, UINT32_MAX, (tg_pos){0});
  }
  tg_uop const *u = sum_of(j, 100, 20000);
  uint32_t n;
  tg_toposort(j, u, &n);
  j->buffers.data[0].name = "other";
  t->text = tg_format(&j->env, "%u nodes", n);
  if (t->fails) tg_fail(&j->env, TG_EINVAL, "refused");
}

static void see_nothing(void *arg) {
  tg_job *j = arg;
  const tg_uop *before = sum_of(j, 0, 90);
  uint32_t nodes = j->uops.n, ranges = j->ranges.n, symbols = j->symbols_n, visited;
  const char *name = j->buffers.data[0].name;
  size_t total = j->env.arena.total;
  for (int fails = 0; fails < 2; fails++) {
    trying t = {.job = j, .fails = fails};
    CHECK(tg_job_trial(j, make_much, &t, &t.text) == !fails, "a trial that %s", fails ? "fails" : "succeeds");
    CHECK(t.text && !strcmp(t.text, "39800 nodes"), "its text: %s", t.text);
    CHECK(j->uops.n == nodes && j->ranges.n == ranges && j->symbols_n == symbols, "%u nodes, %u ranges, %u names left", j->uops.n - nodes, j->ranges.n - ranges, j->symbols_n - symbols);
    CHECK(j->buffers.data[0].name == name, "a buffer is named %s", j->buffers.data[0].name);
    CHECK(j->env.arena.total <= total + 65536, "%zu bytes are left", j->env.arena.total - total);
    CHECK(sum_of(j, 0, 90) == before, "nodes of before are made again");
    const tg_uop *next = tg_index(j, 1000 + fails);   /* among the trial's first, before its table grew */
    CHECK(next->id == nodes, "the next node is %u, not %u", next->id, nodes);
    CHECK(tg_toposort(j, before, &visited)[visited - 1] == before && visited < 200, "a walk sees %u nodes", visited);
    nodes++;
  }
}

static void trials(void) {
  tg_job j;
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, parse_matmul, &j) && tg_protect(&j.env, see_nothing, &j), "%s", j.env.message);
  tg_job_drop(&j);
}

int main(void) {
  trials();
  for (int i = 0; i < 2; i++) {
    tg_job j;
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, i ? parse_matmul : author_matmul, &j), "%s", j.env.message);
    if (j.sink && getenv("SHOW")) tg_protect(&j.env, print_it, &j);
    tg_job_drop(&j);
  }
  carry_twice();
  return TEST_END();
}
