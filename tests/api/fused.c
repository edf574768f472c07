/* SPDX-License-Identifier: MIT
 * Programs that fuse their steps, against the same launches one after another, bit for bit: drawn programs of maps and
 * sums over rows; pairs that must become one, and pairs that must not; memory; cancelled and failing allocations are
 * those of programs.c.
 *   api_fused [--seed N] [--count N] */
#include <stdbool.h>
#include <stdlib.h>
#include "drawn.h"
#include "tg/nn.h"

/* Kernels of x [T, W], a second matrix r [T, W] and a row b [W]; those without the letters do not read them. */
static const struct { const char *name, *body; bool r, b; } kinds[] = {
    {"bias", "range(t, T) range(k, W) y[t,k] = x[t,k] + b[k];", false, true},
    {"scale", "range(t, T) range(k, W) y[t,k] = x[t,k] * b[k];", false, true},
    {"axpb", "range(t, T) range(k, W) y[t,k] = x[t,k] * r[t,k] + b[k];", true, true},
    {"residual", "range(t, T) range(k, W) y[t,k] = x[t,k] + r[t,k];", true, false},
    {"gate", "range(t, T) range(k, W) y[t,k] = x[t,k] / (1 + exp(-x[t,k])) * r[t,k];", true, false},
    {"gelu", "range(t, T) range(k, W) y[t,k] = 0.5 * x[t,k] * (1 + erf(x[t,k] * 0.70710678));", false, false},
    {"away", "range(t, T) range(k, W) y[t,k] = r[t,k] - 0.75 * x[t,k];", true, false},
    {"two", "range(t, T) range(k, W) y[t,k] = x[t,k] * b[k] + r[t,k] * x[t,k];", true, true},
    {"row", "range(t, T) range(k, W) y[t,k] = x[t,k] + b[k] * b[k];", false, true},
    {"again", "range(t, T) range(k, W) y[t,k] = x[t,k] * r[t,k] - (x[t,k] * r[t,k] + 1) * (x[t,k] - r[t,k]);", true, false},
    {"next", "range(t, T) range(k, W) y[t,k] = x[t,k] - x[t,(k + 1) % W];", false, false},
    {"rounded", "range(t, T) range(k, W) y[t,k] = f32(f16(x[t,k])) + r[t,k];", true, false},
    {"norm", "range(t, T) {\n let m = sum(i : W, x[t,i]) / f32(W);\n"
             " let v = sum(j : W, (x[t,j] - m) * (x[t,j] - m)) / f32(W);\n"
             " range(k, W) y[t,k] = (x[t,k] - m) * rsqrt(v + 1e-5) * b[k];\n}", false, true},
    {"shifted", "range(t, T) {\n let s = sum(i : W, x[t,i] * r[t,i]);\n range(k, W) y[t,k] = x[t,k] - s;\n}", true, false},
    {"softmax", "range(t, T) {\n let m = max(i : W, x[t,i]);\n let s = sum(j : W, exp(x[t,j] - m));\n"
                " range(k, W) y[t,k] = exp(x[t,k] - m) / s;\n}", false, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds, ROWS = 40, WIDTH = 130, MOST = 8, BYTES = ROWS * WIDTH * 4 };

typedef struct { tg_context *context; const char *name; tg_kernel *kernel[KINDS]; uint32_t seed; float *data[3]; } run;

static tg_status text_of(run *r, const char *name, const char *body, bool has_r, bool has_b, tg_kernel **out) {
  char text[1024];
  tg_binding sizes[] = {{"T", 1, ROWS, 1}, {"W", 1, WIDTH, 1}};
  snprintf(text, sizeof text, "kernel %s(T, W) {\n in(x, f32, [T, W]);\n%s%s out(y, f32, [T, W]);\n %s\n}\n", name,
           has_r ? " in(r, f32, [T, W]);\n" : "", has_b ? " in(b, f32, [W]);\n" : "", body);
  return tg_kernel_compile_text(r->context, name, text, &(tg_compile_options){.bindings = sizes, .bindings_n = 2}, out);
}

/* A step: its kernel, and which memory x, r and y are. Memory 0, 1: inputs; 2: two rows; 3: the result; from 4 on:
 * temporaries. */
typedef struct { uint32_t kind, x, r, y; } step;
typedef struct { uint32_t n, memory_n; int64_t size[2]; step at[MOST]; } drawn;

static void put(run *r, tg_program *p, const drawn *d, const step *s, void *const *at) {
  size_t all = (size_t)(d->size[0] * d->size[1]) * 4;
  uint32_t n = 0;
  tg_argument a[4] = {{at[s->x], all, }};
  n++;
  if (kinds[s->kind].r) a[n].data = at[s->r], a[n++].bytes = all;
  /* maps and sums have a row each: kernels that read memory in common are fused less */
  bool sums = strstr(kinds[s->kind].body, "(i : W") != NULL;
  if (kinds[s->kind].b) a[n].data = (float *)at[2] + (sums ? d->size[1] : 0), a[n++].bytes = (size_t)d->size[1] * 4;
  a[n].data = at[s->y], a[n++].bytes = all;
  tg_launch l = {.buffers = a, .buffers_n = n, .params = d->size, .params_n = 2};
  FINE(p ? tg_program_launch(p, r->kernel[s->kind], &l) : tg_kernel_run(r->kernel[s->kind], &l));
}

/* Runs it both ways; what the program is goes to info, and that of the one whose steps stay apart to apart. */
static void both_ways(run *r, const drawn *d, tg_program_info *info, tg_program_info *apart) {
  size_t all = (size_t)(d->size[0] * d->size[1]) * 4;
  void *own[MOST + 4] = {r->data[0], r->data[1], r->data[2]};
  float *got = malloc(BYTES);
  for (uint32_t i = 3; i < d->memory_n; i++) own[i] = malloc(BYTES);
  for (uint32_t i = 0; i < d->n; i++) put(r, NULL, d, &d->at[i], own);
  for (int way = 0; way < 2; way++) {
    tg_program *p = NULL;
    void *at[MOST + 4] = {NULL};
    char name[16];
    FINE(tg_program_begin(r->context, &(tg_program_options){.threads = 2, .flags = way ? TG_PROGRAM_SEPARATE : 0}, &p));
    for (uint32_t i = 0; i < d->memory_n; i++) {
      snprintf(name, sizeof name, "m%u", i);
      if (i < 4) FINE(tg_program_argument(p, name, i == 2 ? (size_t)d->size[1] * 8 : all, &at[i]));
      else FINE(tg_program_temporary(p, name, all, &at[i]));
    }
    for (uint32_t i = 0; i < d->n; i++) put(r, p, d, &d->at[i], at);
    FINE(tg_program_end(p));
    FINE(tg_program_describe(p, way ? apart : info));
    tg_argument a[] = {{r->data[0], all}, {r->data[1], all}, {r->data[2], (size_t)d->size[1] * 8}, {got, all}};
    memset(got, 0xee, BYTES);
    FINE(tg_program_run(p, &(tg_program_call){.arguments = a, .arguments_n = 4}));
    tg_program_free(p);
    CHECK(!memcmp(got, own[3], all), "%s: other bits", way ? "apart" : "fused");
  }
  CHECK(info->workspace <= apart->workspace, "%zu bytes, apart %zu", info->workspace, apart->workspace);
  CHECK(!apart->fused && info->steps == apart->steps, "%u fused", apart->fused);
  for (uint32_t i = 3; i < d->memory_n; i++) free(own[i]);
  free(got);
}

static void print_steps(const drawn *d) {
  printf("%lld x %lld:", (long long)d->size[0], (long long)d->size[1]);
  for (uint32_t i = 0; i < d->n; i++) printf(" %u = %s(%u, %u);", d->at[i].y, kinds[d->at[i].kind].name, d->at[i].x, d->at[i].r);
  puts("");
}

static void drawn_programs(run *r, int count) {
  uint32_t fused = 0, steps = 0;
  for (int i = 0; i < count && !test_failed; i++) {
    drawn d = {.n = 2 + draw(r, MOST - 1), .memory_n = 4, .size = {1 + draw(r, ROWS), 1 + draw(r, WIDTH)}};
    for (uint32_t s = 0; s < d.n; s++) {
      step *x = &d.at[s];
      x->kind = draw(r, KINDS);
      x->x = s && draw(r, 8) ? d.memory_n - 1 : draw(r, 2);
      x->r = draw(r, 3) ? draw(r, 2) : s ? 4 + draw(r, s) : 0;
      x->y = s + 1 < d.n ? d.memory_n++ : 3;
    }
    tg_program_info info = {0}, apart = {0};
    both_ways(r, &d, &info, &apart);
    if (test_failed) print_steps(&d);
    fused += info.fused, steps += info.steps;
  }
  printf("%d drawn programs of %u steps, %u of them part of another\n", count, steps, fused);
  CHECK(fused > steps / 10, "%u of %u", fused, steps);
}

static uint32_t kind_named(const char *name) {
  uint32_t k = 0;
  while (strcmp(kinds[k].name, name)) k++;
  return k;
}

/* fused: how many of the steps become part of another. Each reads the one before; r is argument 1. */
static void chain(run *r, uint32_t fused, const char *const *names) {
  drawn d = {.memory_n = 4, .size = {ROWS, WIDTH}};
  tg_program_info info = {0}, apart = {0};
  for (; names[d.n]; d.n++) {
    step *x = &d.at[d.n];
    x->kind = kind_named(names[d.n]), x->r = 1, x->x = d.n ? d.memory_n - 1 : 0, x->y = names[d.n + 1] ? d.memory_n++ : 3;
  }
  both_ways(r, &d, &info, &apart);
  CHECK(info.fused == fused, "%s, %s, ..: %u steps are fused, not %u", names[0], names[1], info.fused, fused);
}
#define CHAIN(r, fused, ...) chain(r, fused, (const char *const[]){__VA_ARGS__, NULL})

static void chains(run *r) {
  CHAIN(r, 1, "bias", "gelu");
  CHAIN(r, 2, "bias", "gelu", "residual");
  CHAIN(r, 1, "residual", "norm");              /* into all three places where it loads */
  CHAIN(r, 1, "norm", "gelu");                  /* into its store */
  CHAIN(r, 1, "softmax", "residual");
  CHAIN(r, 1, "scale", "bias");                 /* the product is not joined to the sum */
  CHAIN(r, 0, "two", "gelu");                   /* which product is joined is the schedule's choice */
  CHAIN(r, 0, "norm", "bias");                  /* the norm ends with a product */
  CHAIN(r, 0, "norm", "softmax");               /* both have sums */
  CHAIN(r, 0, "scale", "shifted");
}

/* An operation of tg/nn.h of one kernel is a launch like others: layer normalisation, and a residual. */
static void operations(run *r) {
  float *middle = malloc(BYTES), *want = malloc(BYTES), *got = malloc(BYTES);
  int64_t size[] = {ROWS, WIDTH};
  tg_kernel *residual = r->kernel[kind_named("residual")];
  tg_nn_desc d = {.op = TG_NN_LAYERNORM, .rows = {1, ROWS}, .columns = {WIDTH, 0}, .weight = TG_F32, .bias = TG_F32};
  tg_nn_call call = {.rows = ROWS, .x = r->data[0], .y = middle, .weight = r->data[2], .bias = r->data[2] + WIDTH};
  tg_nn *norm = NULL;
  tg_program *p = NULL;
  tg_program_info info = {0};
  void *at[3];
  FINE(tg_nn_plan(r->context, &d, &norm));
  FINE(tg_nn_run(norm, &call));
  tg_argument a[] = {{middle, BYTES}, {r->data[1], BYTES}, {want, BYTES}};
  tg_launch l = {.buffers = a, .buffers_n = 3, .params = size, .params_n = 2};
  FINE(tg_kernel_run(residual, &l));
  FINE(tg_program_begin(r->context, NULL, &p));
  FINE(tg_program_argument(p, "x", BYTES, &at[0]));
  FINE(tg_program_argument(p, "y", BYTES, &at[1]));
  FINE(tg_program_temporary(p, "middle", BYTES, &at[2]));
  call.x = at[0], call.y = at[2], a[0].data = at[2], a[2].data = at[1];
  FINE(tg_nn_put(p, norm, &call));
  FINE(tg_program_launch(p, residual, &l));
  FINE(tg_program_end(p));
  FINE(tg_program_describe(p, &info));
  CHECK(info.fused == 1 && !info.planned_bytes, "%u fused, %zu bytes", info.fused, info.planned_bytes);
  tg_argument given[] = {{r->data[0], BYTES}, {got, BYTES}};
  FINE(tg_program_run(p, &(tg_program_call){.arguments = given, .arguments_n = 2}));
  CHECK(!memcmp(got, want, BYTES), "an operation and a launch: other bits");
  tg_program_free(p), tg_nn_free(norm);
  free(middle), free(want), free(got);
}

/* ---- kernels of other shapes ---- */

enum { SIZE = 20, ALL = SIZE * SIZE * 4, GIVEN = 4, MEMORY = 5 };
#define HEAD(name) "kernel " name "(T=20, W=20) { in(x, f32, [T, W]); "
static const char copies[] = HEAD("copies") "out(y, f32, [T, W]); range(t, T) range(k, W) y[t,k] = x[t,k] + 1; }",
                  totals[] = HEAD("totals") "out(y, f32, [T, W]); out(s, f32, [T, W]);\n range(t, T) {\n"
                             "  let v = sum(i : W, x[t,i]);\n  range(k, W) y[t,k] = x[t,k] - v;\n"
                             "  range(l, W) s[t,l] = v;\n } }",
                  backwards[] = HEAD("backwards") "out(y, f32, [T, W]);\n range(t, T) {\n  define_reg(a, f32, []);\n"
                                "  a = 0;\n  range(k, W) {\n   a = a + abs(x[t,k]);\n   y[t,W - 1 - k] = a;\n  }\n } }",
                  last[] = HEAD("last") "out(y, f32, [T, W], partial); range(t, T) range(k, W) y[t,0] = x[t,k] + 1; }",
                  halves[] = HEAD("halves") "out(y, f32, [T, W], partial);\n"
                             " range(t, T) range(k, W) y[t,k/2] = x[t,k]; }";

/* A step's buffers in order. 0 to 3: arguments of the program; 4: a temporary */
typedef struct { const char *text; uint32_t at[3]; } text_step;

static void run_texts(run *r, const text_step *steps, uint64_t flags, float *const *given, uint32_t *fused) {
  tg_program *p = NULL;
  tg_program_info info = {0};
  tg_kernel *kernel[4] = {NULL};
  tg_argument a[GIVEN];
  void *at[MEMORY] = {NULL};
  char name[16];
  FINE(tg_program_begin(r->context, &(tg_program_options){.flags = flags}, &p));
  for (int i = 0; i < MEMORY; i++) {
    snprintf(name, sizeof name, "m%d", i);
    if (i < GIVEN) a[i] = (tg_argument){given[i], ALL};
    FINE((i < GIVEN ? tg_program_argument : tg_program_temporary)(p, name, ALL, &at[i]));
  }
  for (int i = 0; steps[i].text; i++) {
    tg_argument own[3] = {{at[steps[i].at[0]], ALL}, {at[steps[i].at[1]], ALL}, {at[steps[i].at[2]], ALL}};
    FINE(tg_kernel_compile_text(r->context, "text", steps[i].text, &(tg_compile_options){0}, &kernel[i]));
    FINE(tg_program_launch(p, kernel[i], &(tg_launch){.buffers = own, .buffers_n = steps[i].at[2] ? 3 : 2}));
  }
  FINE(tg_program_end(p));
  FINE(tg_program_describe(p, &info));
  FINE(tg_program_run(p, &(tg_program_call){.arguments = a, .arguments_n = GIVEN}));
  *fused = info.fused;
  tg_program_free(p);
  for (int i = 0; i < 4; i++) tg_kernel_free(kernel[i]);
}

static void texts(run *r, const char *what, uint32_t fused, const text_step *steps) {
  float *given[2][GIVEN];
  uint32_t n[2];
  for (int i = 0; i < GIVEN; i++)
    for (int way = 0; way < 2; way++) given[way][i] = malloc(ALL), memcpy(given[way][i], r->data[i % 3], ALL);
  for (int way = 0; way < 2; way++) run_texts(r, steps, way ? TG_PROGRAM_SEPARATE : 0, given[way], &n[way]);
  CHECK(n[0] == fused, "%s: %u steps are fused, not %u", what, n[0], fused);
  for (int i = 0; i < GIVEN; i++) {
    CHECK(!memcmp(given[0][i], given[1][i], ALL), "%s: other bits in argument %d", what, i);
    free(given[0][i]), free(given[1][i]);
  }
}
#define TEXTS(r, what, fused, ...) texts(r, what, fused, (const text_step[]){__VA_ARGS__, {NULL, {0}}})

/* The writer would run where the reader stands: steps between them must not miss what else it writes. */
static void several_results(run *r) {
  TEXTS(r, "nothing between", 1, {totals, {0, 4, 1}}, {copies, {4, 2, 0}});
  TEXTS(r, "a second result is read between", 0, {totals, {0, 4, 1}}, {copies, {1, 2, 0}}, {copies, {4, 3, 0}});
  TEXTS(r, "a second result is written between", 0, {totals, {0, 4, 1}}, {copies, {2, 1, 0}}, {copies, {4, 3, 0}});
}

/* The reader's iterations would take the order of the writer's. */
static void overwriting(run *r) {
  TEXTS(r, "backwards, then the last of each row", 0, {backwards, {0, 4, 0}}, {last, {4, 1, 0}});
  TEXTS(r, "backwards, then each second", 0, {backwards, {0, 4, 0}}, {halves, {4, 1, 0}});
}

int main(int argc, char **argv) {
  int count = 10;
  run own = {.name = "the host", .seed = 1}, *r = &own;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seed")) r->seed = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--count")) count = atoi(argv[i + 1]);
  }
  if (tg_context_create(&(tg_context_options){.threads = 2}, &r->context)) { CHECK(0, "no context"); return TEST_END(); }
  for (int i = 0; i < 3; i++) {
    r->data[i] = malloc(BYTES);
    for (int k = 0; k < BYTES / 4; k++) r->data[i][k] = (float)draw(r, 1 << 24) / (1 << 22) - 2;
  }
  for (uint32_t k = 0; k < KINDS; k++)
    FINE(text_of(r, kinds[k].name, kinds[k].body, kinds[k].r, kinds[k].b, &r->kernel[k]));
  chains(r), operations(r), several_results(r), overwriting(r), drawn_programs(r, count);
  for (uint32_t k = 0; k < KINDS; k++) tg_kernel_free(r->kernel[k]);
  for (int i = 0; i < 3; i++) free(r->data[i]);
  tg_context_free(r->context);
  return TEST_END();
}
