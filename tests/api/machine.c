/* SPDX-License-Identifier: MIT
 * A row of the user's own in the folder of tuned choices: contexts for the host use it, and what is compiled under it is kept apart. A row that is as wrong as
 * can be makes no result wrong; a file that is damaged, another processor's or open to others is not used, and the log says so. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "api/api.h"
#include "../folder.h"
#include "../test.h"

static const char text[] =
    "kernel product(M in 1..300, N in 1..300, K in 1..300) {\n"
    "  in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n"
    "}\n"
    "kernel transposed(M in 1..300, N in 1..300) {\n"
    "  in(A, f32, [M, N]); out(C, f32, [N, M]);\n"
    "  range(i, M) range(j, N) C[j,i] = A[i,j] + 1;\n"
    "}\n";

static char tuned[TEST_PATH] = "tg-machine-XXXXXX", cache[TEST_PATH] = "tg-machine-XXXXXX", logged[4096];

static void keep_log(void *user, const char *message) {
  (void)user;
  snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", message);
}

static tg_context *open_context(const char *target, const char *folder) {
  tg_context *c = NULL;
  logged[0] = 0;
  tg_context_options o = {.target = target, .cache = cache, .tuned = folder, .threads = 2, .log = keep_log};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context: %s", logged);
  return c;
}

static bool right(tg_context *c, tg_kernel *k, bool product, int64_t m, int64_t n, int64_t kk) {
  float *a = calloc((size_t)(m * (product ? kk : n)), sizeof *a), *b = calloc((size_t)(kk * n), sizeof *b), *got = calloc((size_t)(m * n), sizeof *got);
  for (int64_t i = 0; i < m * (product ? kk : n); i++) a[i] = (float)(i % 7 - 3);
  for (int64_t i = 0; i < kk * n; i++) b[i] = (float)(i % 5 - 2);
  tg_argument all[] = {{a, (size_t)(m * (product ? kk : n)) * 4}, {b, (size_t)(kk * n) * 4}, {got, (size_t)(m * n) * 4}}, two[] = {all[0], all[2]};
  int64_t params[] = {m, n, kk};
  tg_launch l = {.buffers = product ? all : two, .buffers_n = product ? 3 : 2, .params = params, .params_n = product ? 3 : 2, .threads = 2};
  bool good = tg_kernel_run(k, &l) == TG_OK;
  CHECK(good, "%s", tg_error_message(c));
  for (int64_t i = 0; i < m && good; i++)
    for (int64_t j = 0; j < n; j++) {
      float want = 0;
      for (int64_t q = 0; product && q < kk; q++) want += a[i * kk + q] * b[q * n + j];
      good &= product ? got[i * n + j] == want : got[j * m + i] == a[i * n + j] + 1;
    }
  free(a), free(b), free(got);
  return good;
}

/* Compiles and runs both kernels. cached: they must, or must not, come from the cache. */
static void uses(tg_context *c, const char *what, bool cached) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {17, 33, 5}, {64, 64, 64}, {131, 97, 203}, {300, 300, 300}};
  for (int product = 0; product < 2; product++) {
    tg_kernel *k = NULL;
    tg_compile_options o = {.kernel = product ? "product" : "transposed"};
    CHECK(tg_kernel_compile_text(c, "machine.tg", text, &o, &k) == TG_OK, "%s: %s", what, tg_error_message(c));
    if (!k) continue;
    CHECK(tg_kernel_describe(k)->from_cache == cached, "%s: %s from the cache", what, cached ? "not" : "is");
    for (size_t i = 0; i < TG_COUNT(sizes); i++) CHECK(right(c, k, product, sizes[i][0], sizes[i][1], sizes[i][2]), "%s: sizes %zu", what, i);
    tg_kernel_free(k);
  }
  tg_context_free(c);
}

/* The host's row with all columns times a factor, or every other one over it; rates as far as the file takes them. */
static tg_machine wrong_row(const tg_machine *m, double factor, int turn) {
  tg_machine w = *m;
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *c = tg_machine_column_at(i);
    bool rate = !strcmp(c->unit, "instructions/cycle");
    for (uint32_t k = 0; k < c->widths; k++) {
      double *v = &tg_machine_value(&w, c)[k];
      *v = tg_machine_round(*v * (i % 2 == (uint32_t)turn ? factor : 1 / factor));
      if (rate && *v > 32) *v = 32;
    }
  }
  w.clock = m->clock, w.l1_ways = w.l2_ways = turn ? 1 : 16;
  w.streams = turn ? 1 : 100;
  return w;
}

static void write_row(const tg_machine *m, const char *silicon) {
  tg_env env;
  tg_env_init(&env, NULL);
  CHECK(!tg_machine_file_write(&env, tuned, m, silicon), "%s", tuned);
  tg_env_drop(&env);
}

int main(void) {
  tg_target host;
  char path[TEST_PATH + 32];
  if (!test_folder(tuned) || !test_folder(cache)) {
    CHECK(false, "no folder");
    return TEST_END();
  }
  snprintf(path, sizeof path, "%s/" TG_MACHINE_FILE, tuned);
  tg_target_host(&host, 2);
  tg_context *c = open_context(NULL, tuned);
  CHECK(!logged[0] && tg_machine_hash(&c->target.machine) == tg_machine_hash(&host.machine), "no file, the tree's row: %s", logged);
  uses(c, "the tree's row", false);
  for (int turn = 0; turn < 2; turn++) {
    tg_machine wrong = wrong_row(&host.machine, 5, turn);
    write_row(&wrong, host.silicon);
    c = open_context(turn ? "host" : NULL, tuned);
    CHECK(!logged[0] && tg_machine_hash(&c->target.machine) == tg_machine_hash(&wrong) && !strcmp(c->target.machine.name, "measured"), "the user's row: %s", logged);
    tg_target derived = c->target;
    tg_target_derive(&derived);
    CHECK(derived.gathers_slowly == c->target.gathers_slowly && derived.one_stream == c->target.one_stream,
          "what follows from the row");
    CHECK(c->target.gathers_slowly != host.gathers_slowly || c->target.one_stream != host.one_stream,
          "a row so wrong changes what follows from it");
    uses(c, "a wrong row", false);
    uses(open_context(NULL, tuned), "a wrong row again", true);
  }
  c = open_context("x86-64-v2", tuned);
  CHECK(!logged[0] && strcmp(c->target.machine.name, "measured"), "the row is the host's alone: %s", logged);
  tg_context_free(c);
  uses(open_context(NULL, ""), "without the folder", true);
  static const char *const others[] = {"another processor's", "open to others", "cut"};
  for (int i = 0; i < 3; i++) {
    write_row(&host.machine, i ? host.silicon : "AuthenticAMD 1 2 3");
    if (i == 1) CHECK(!chmod(path, 0666), "%s", path);
    if (i == 2) CHECK(!truncate(path, 200), "%s", path);
    c = open_context(NULL, tuned);
    CHECK(strstr(logged, path) && strstr(logged, "is not used") && strcmp(c->target.machine.name, "measured"), "%s: %s", others[i], logged);
    uses(c, "a file that is not used", true);
  }
  unlink(path);
  char command[TEST_PATH * 2 + 32];
  snprintf(command, sizeof command, "rm -rf %s %s", tuned, cache);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
