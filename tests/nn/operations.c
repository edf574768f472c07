/* SPDX-License-Identifier: MIT
 * Every operation of tg/nn.h against float64: all types, fixed and open numbers of columns, odd lengths, rows apart,
 * operands that are aligned to their elements alone and lie between guard pages, in place, with the same bits on any
 * threads and in a program; rows with infinities and NaN; gradients. */
#include <math.h>
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "reference.h"

static tg_context *context;
static double worst;

/* The tasks one after another, the last first. */
static void backwards(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static bool run(const tg_nn *nn, tg_nn_call call) {
  call.workspace_bytes = tg_nn_workspace(nn, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  tg_status s = tg_nn_run(nn, &call);
  free(call.workspace);
  CHECK(s == TG_OK, "%s", tg_error_message(context));
  return s == TG_OK;
}

/* Results as bytes, one behind the other, without gaps. */
static char *results(const nn_case *c, size_t *n) {
  char *all = NULL;
  *n = 0;
  for (uint32_t k = 0; k < NN_OPERANDS; k++) {
    const nn_operand *o = &c->of[k];
    if (!o->used || !o->written) continue;
    all = realloc(all, *n + o->at.bytes + 1);
    memcpy(all + *n, o->at.data, o->at.bytes);
    *n += o->at.bytes;
  }
  return all;
}

/* The same call as a step of a program, whose arguments are its operands: the same bits. */
static void check_program(const tg_nn *nn, nn_case *c, const char *bits, size_t n, const char *what) {
  tg_program *p = NULL;
  tg_argument argument[NN_OPERANDS];
  tg_nn_call call = nn_case_call(c);
  uint32_t arguments = 0;
  size_t again = 0;
  nn_case_reset(c);
  CHECK(tg_program_begin(context, &(tg_program_options){.threads = 2}, &p) == TG_OK, "%s", tg_error_message(context));
  for (uint32_t k = 0; k < NN_OPERANDS; k++) {
    const nn_operand *o = &c->of[k];
    void *at;
    if (!o->used) continue;
    CHECK(tg_program_argument(p, tg_nn_operands[k].name, o->at.bytes, &at) == TG_OK, "%s", tg_error_message(context));
    memcpy((char *)&call + tg_nn_operands[k].at, &at, sizeof at);
    argument[arguments++] = (tg_argument){.data = o->at.data, .bytes = o->at.bytes};
  }
  bool ok = tg_nn_put(p, nn, &call) == TG_OK && tg_program_end(p) == TG_OK &&
            tg_program_run(p, &(tg_program_call){.arguments = argument, .arguments_n = arguments}) == TG_OK;
  CHECK(ok, "%s: %s", what, tg_error_message(context));
  char *others = results(c, &again);
  CHECK(!ok || (n == again && !memcmp(bits, others, n)), "%s, %lld x %lld: other bits in a program", what, (long long)c->m, (long long)c->n);
  free(others);
  tg_program_free(p);
}

static void check_one(const tg_nn *nn, nn_case *c, const char *what) {
  static const tg_exec three = {3, backwards, NULL};
  size_t n, again;
  double before = worst;
  if (!run(nn, nn_case_call(c))) return;
  int64_t wrong = nn_case_wrong(c, &worst);
  CHECK(!wrong, "%s%s, types %d %d, %lld x %lld: %lld are wrong, by %g of the bound", what,
        c->d.flags & TG_NN_IN_PLACE ? " in place" : "", c->d.x, c->d.y, (long long)c->m, (long long)c->n,
        (long long)wrong, worst);
  if (wrong) worst = before;
  char *bits = results(c, &n);
  nn_case_reset(c);
  tg_nn_call call = nn_case_call(c);
  call.exec = &three;
  if (run(nn, call)) {
    char *others = results(c, &again);
    CHECK(n == again && !memcmp(bits, others, n), "%s, %lld x %lld: other bits on other threads", what, (long long)c->m,
          (long long)c->n);
    free(others);
  }
  check_program(nn, c, bits, n, what);
  free(bits);
}

static void check_sizes(const tg_nn_desc *d, const int64_t *columns, size_t columns_n, const char *what) {
  static const int64_t rows[] = {1, 2, 5, 33};
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan(context, d, &nn) == TG_OK, "%s: %s", what, tg_error_message(context));
  for (size_t k = 0; nn && k < columns_n; k++) {
    nn_case c = {.d = *d, .m = rows[k % TG_COUNT(rows)], .n = columns[k], .positions = 9, .seed = 5 + k, .spread = 4};
    if (k % 3 == 1) c.centre = 3;
    nn_case_make(&c, k % 2);
    check_one(nn, &c, what);
    nn_case_free(&c);
  }
  tg_nn_free(nn);
}

/* ---- all operations, all types ---- */

static void check_types(tg_nn_desc d, const char *what) {
  static const uint8_t types[][2] = {{0, 0}, {TG_F16, 0}, {TG_BF16, 0}, {TG_F16, TG_F32}, {0, TG_BF16}};
  static const int64_t some[] = {1, 2, 3, 7, 16, 17, 31, 64, 100, 129, 385}, wide[] = {1000};
  bool rope = d.op == TG_NN_ROPE, entropy = d.op == TG_NN_CROSS_ENTROPY;
  for (size_t t = 0; t < TG_COUNT(types); t++) {
    if (entropy && types[t][1]) continue;
    d.x = types[t][0], d.y = types[t][1];
    if (d.weight) d.weight = t % 2 ? TG_F32 : d.x ? d.x : TG_F32;
    if (d.bias) d.bias = t % 2 ? TG_BF16 : d.x ? d.x : TG_F32;
    for (int place = 0; place < 2; place++) {
      if (place && ((d.y && d.y != d.x) || (entropy && !d.backward))) continue;
      d.flags = (d.flags & ~(uint32_t)TG_NN_IN_PLACE) | (place ? TG_NN_IN_PLACE : 0);
      d.rows = (tg_dim){0, 64}, d.columns = (tg_dim){1, 500};
      if (!rope) check_sizes(&d, some, TG_COUNT(some), what);
      int64_t heads[] = {d.head ? d.head * 3 : 80};
      d.columns = (tg_dim){rope ? heads[0] : wide[0], 0};
      if (rope || (t < 2 && !place)) check_sizes(&d, rope ? heads : wide, 1, what);
    }
  }
}

static void all_operations(void) {
  char what[64];
  for (uint8_t op = TG_NN_SOFTMAX; op <= TG_NN_GATE; op++)
    for (uint8_t back = 0; back < 2; back++) {
      bool acts = op >= TG_NN_ACTIVATION, counts = op == TG_NN_LAYERNORM || op == TG_NN_RMSNORM || op == TG_NN_CROSS_ENTROPY;
      for (uint8_t a = 0; a <= (acts ? TG_NN_RELU : 0); a++) {
        tg_nn_desc d = {.op = op, .backward = back, .activation = a, .statistics = counts && !back, .threads = 1};
        if (op == TG_NN_LAYERNORM || op == TG_NN_RMSNORM) d.weight = TG_F32;
        if (op == TG_NN_LAYERNORM) d.bias = TG_F32;
        if (op == TG_NN_ROPE) d.head = 32, d.rotary = back ? 0 : 18, d.flags = back ? TG_NN_INTERLEAVED : 0;
        snprintf(what, sizeof what, "operation %d%s, activation %d", op, back ? " backward" : "", a);
        if (test_part() && (op + back + a) % 3u != test_part() % 3) continue;
        if (!acts || a == TG_NN_GELU || a == TG_NN_SILU) check_types(d, what);
        else {
          static const int64_t some[] = {100, 1, 17};
          d.rows = (tg_dim){1, 64}, d.columns = (tg_dim){1, 100};
          check_sizes(&d, some, TG_COUNT(some), what);
        }
      }
    }
}

/* Norms without weights, statistics or bias; heads of other kinds. */
static void variants(void) {
  static const int64_t some[] = {37, 1, 100}, one[] = {24};
  static const float epsilon = 0.25f, none = 0;
  for (int k = test_part() ? (int)test_part() % 4 : 0; k < 4; k += test_part() ? 4 : 1) {
    tg_nn_desc d = {.rows = {1, 64}, .columns = {1, 100}, .weight = k & 1 ? TG_F16 : 0, .epsilon = k ? &epsilon : NULL};
    d.op = TG_NN_LAYERNORM, d.bias = k & 2 ? TG_F32 : 0;
    check_sizes(&d, some, 3, "layernorm with less");
    d.backward = 1, d.epsilon = NULL;
    check_sizes(&d, some, 3, "layernorm's gradient with less");
    if (k > 1) continue;
    d.bias = 0, d.op = TG_NN_RMSNORM;
    check_sizes(&d, some, 3, "rmsnorm's gradient with less");
    d.backward = 0, d.epsilon = k ? &none : NULL;
    check_sizes(&d, some, 3, "rmsnorm with less");
    d = (tg_nn_desc){.op = TG_NN_ROPE, .rows = {1, 64}, .columns = {24, 0}, .head = k ? 0 : 12, .rotary = k ? 2 : 12};
    check_sizes(&d, one, 1, "one head, or one pair");
    d.flags = TG_NN_INTERLEAVED, d.rotary = 6;
    check_sizes(&d, one, 1, "interleaved");
    for (int pairs = k ? 12 : 9; pairs <= 28; pairs += k ? 8 : 1) {   /* 12, 28: what LLVM cannot select as one vector */
      int64_t columns = 4 * pairs;
      d.columns.lo = columns, d.head = 2 * pairs, d.rotary = 0, d.backward = (uint8_t)k;
      check_sizes(&d, &columns, 1, "interleaved pairs");
    }
  }
}

/* A row's bits are the same in a call of any number of rows, also those that are left over: 50 pairs. */
static void check_rows_alone(void) {
  enum { ROWS = 61, COLUMNS = 100 };
  static float x[ROWS * COLUMNS], all[ROWS * COLUMNS], some[ROWS * COLUMNS], cosine[50], sine[50];
  static int32_t position[ROWS];
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = sinf((float)(i * i % 1009));
  for (int i = 0; i < 50; i++) cosine[i] = cosf((float)i / 7), sine[i] = sinf((float)i / 7);
  for (int k = 0; k < 4; k++) {
    tg_nn_desc d = {.op = TG_NN_ROPE, .rows = {1, 64}, .columns = {COLUMNS, 0}, .backward = k & 1,
                    .flags = k & 2 ? TG_NN_INTERLEAVED : 0};
    tg_nn *nn = NULL;
    CHECK(tg_nn_plan(context, &d, &nn) == TG_OK, "%s", tg_error_message(context));
    for (int rows = ROWS; nn && rows > 0; rows = rows > 30 ? 30 : rows / 2) {
      float *to = rows == ROWS ? all : some;
      tg_nn_call call = {.rows = rows, .position = position, .cosine = cosine, .sine = sine, .positions = 1};
      if (k & 1) call.dy = x, call.dx = to;
      else call.x = x, call.y = to;
      if (run(nn, call))
        CHECK(!memcmp(all, to, (size_t)rows * COLUMNS * sizeof *to), "rotary %d: other bits in %d rows", k, rows);
    }
    tg_nn_free(nn);
  }
}

/* ---- rows that are not finite, and none ---- */

enum { WIDE = 37 };

static void check_softmax(uint8_t op) {
  static const struct { float at3, others; float y3[2], rest[2]; } cases[] = {
      {NAN, 1, {NAN, NAN}, {NAN, NAN}},
      {INFINITY, 1, {NAN, NAN}, {NAN, NAN}},
      {-INFINITY, -INFINITY, {0, -INFINITY}, {0, -INFINITY}},
      {2, -INFINITY, {1, 0}, {0, -INFINITY}},
      {-INFINITY, 3e38f, {0, -INFINITY}, {1.0f / (WIDE - 1), -3.58351894f}},
      {3e38f, -3e38f, {1, 0}, {0, -INFINITY}}};
  bool log = op == TG_NN_LOG_SOFTMAX;
  tg_nn_desc d = {.op = op, .rows = {1, 0}, .columns = {WIDE, 0}};
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan(context, &d, &nn) == TG_OK, "%s", tg_error_message(context));
  for (size_t k = 0; nn && k < TG_COUNT(cases); k++) {
    float x[WIDE], y[WIDE];
    for (int j = 0; j < WIDE; j++) x[j] = j == 3 ? cases[k].at3 : cases[k].others;
    if (!run(nn, (tg_nn_call){.x = x, .y = y})) continue;
    for (int j = 0; j < WIDE; j++) {
      double want = (double)(j == 3 ? cases[k].y3[log] : cases[k].rest[log]), got = (double)y[j];
      CHECK(isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 4e-7 * fabs(want),
            "case %zu of operation %d: y[%d] = %g, not %g", k, op, j, got, want);
    }
  }
  tg_nn_free(nn);
}

static void check_losses(void) {
  enum { N = 5 };
  static const float x[][N] = {{1, 2, 3, 4, 5}, {1, NAN, 2, 3, 4}, {-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY}};
  static const int32_t targets[] = {-1, INT32_MIN, 5, INT32_MAX, 1, 0};
  static const double want[][3] = {{0, 0, 0}, {0, 0, 0}, {NAN, NAN, NAN}, {NAN, NAN, NAN}, {3.4519143, NAN, 0},
                                   {4.4519143, NAN, INFINITY}};
  tg_nn_desc d = {.op = TG_NN_CROSS_ENTROPY, .rows = {3, 0}, .columns = {N, 0}};
  tg_nn *nn = NULL, *back = NULL;
  CHECK(tg_nn_plan(context, &d, &nn) == TG_OK, "%s", tg_error_message(context));
  d.backward = 1;
  CHECK(tg_nn_plan(context, &d, &back) == TG_OK, "%s", tg_error_message(context));
  for (size_t k = 0; nn && back && k < TG_COUNT(targets); k++) {
    int32_t target[3] = {targets[k], targets[k], targets[k]};
    float loss[3], dx[3][N], lse[3] = {5.4519143f, 4, 0}, dloss[3] = {2, 2, 2};
    if (!run(nn, (tg_nn_call){.x = x, .target = target, .loss = loss})) continue;
    for (int i = 0; i < 3; i++)
      CHECK(isnan(want[k][i]) ? isnan(loss[i]) : (double)loss[i] == want[k][i] || fabs((double)loss[i] - want[k][i]) < 1e-6,
            "target %d, row %d: %g, not %g", target[i], i, (double)loss[i], want[k][i]);
    if (!run(back, (tg_nn_call){.x = x, .target = target, .lse = lse, .dloss = dloss, .dx = dx})) continue;
    for (int j = 0; j < N; j++) {
      double w = k < 2 ? 0 : k < 4 ? NAN : 2 * (exp((double)x[0][j] - (double)lse[0]) - (j == target[0]));
      CHECK(isnan(w) ? isnan(dx[0][j]) : fabs((double)dx[0][j] - w) < 1e-6, "target %d: dx[%d] = %g, not %g", target[0],
            j, (double)dx[0][j], w);
    }
  }
  tg_nn_free(nn), tg_nn_free(back);
}

/* No rows: nothing to do, but sums over them are 0. Rows without columns: they have nothing to write but statistics. */
static void check_empty(void) {
  float dweight[7], mean[2] = {9, 9}, rstd[2] = {9, 9}, nothing[1] = {0};
  tg_nn_desc d = {.op = TG_NN_LAYERNORM, .backward = 1, .rows = {0, 8}, .columns = {7, 0}, .weight = TG_F32};
  tg_nn *nn = NULL;
  CHECK(tg_nn_plan(context, &d, &nn) == TG_OK, "%s", tg_error_message(context));
  for (int j = 0; j < 7; j++) dweight[j] = 9;
  if (nn && run(nn, (tg_nn_call){.weight = mean + 0, .dweight = dweight, .x = nothing, .dy = nothing, .dx = nothing}))
    for (int j = 0; j < 7; j++) CHECK(dweight[j] == 0, "a sum of no rows is %g", (double)dweight[j]);
  tg_nn_free(nn), nn = NULL;
  d = (tg_nn_desc){.op = TG_NN_LAYERNORM, .rows = {0, 8}, .columns = {0, 8}, .statistics = 1};
  CHECK(tg_nn_plan(context, &d, &nn) == TG_OK, "%s", tg_error_message(context));
  if (nn && run(nn, (tg_nn_call){.rows = 2, .mean = mean, .rstd = rstd}))
    CHECK(isnan(mean[0]) && isnan(rstd[1]), "the mean of nothing: %g, %g", (double)mean[0], (double)rstd[1]);
  tg_nn_free(nn);
}

int main(void) {
  tg_context_options options = {.target = test_target()};
  if (tg_context_create(&options, &context)) return 1;
  all_operations();
  variants();
  check_softmax(TG_NN_SOFTMAX), check_softmax(TG_NN_LOG_SOFTMAX);
  check_losses();
  check_rows_alone();
  check_empty();
  fprintf(stderr, "the largest error is %.2f of its bound\n", worst);
  tg_context_free(context);
  return TEST_END();
}
