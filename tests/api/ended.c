/* SPDX-License-Identifier: MIT
 * Products of a program that take the maps behind them as their epilogue, against the same launches one after another,
 * bit for bit: drawn products (sizes, types, epilogues of their own, packed weights) with one to four drawn maps behind
 * them; chains that must become one step, and chains that must not.
 *   api_ended [--seed N] [--count N] */
#include <stdbool.h>
#include <stdlib.h>
#include "drawn.h"
#include "tg/gemm.h"

/* Maps of x [T, W], a matrix r [T, W], a row b [W] and a column c [T]; those without the letters do not read them. E is
 * the type of elements, V(..) their value as f32. */
static const struct { const char *name, *body; bool r, b, c; } kinds[] = {
    {"bias", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) + V(b[k]));", false, true, false},
    {"scale", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) * V(b[k]));", false, true, false},
    {"rows", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) * c[t]);", false, false, true},
    {"axpb", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) * V(r[t,k]) + V(b[k]));", true, true, false},
    {"residual", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) + V(r[t,k]));", true, false, false},
    {"across", "range(k, W) range(t, T) y[t,k] = E(V(r[t,k]) - V(x[t,k]) * 0.75f);", true, false, false},
    {"gelu", "range(t, T) range(k, W) y[t,k] = E(0.5 * V(x[t,k]) * (1 + erf(V(x[t,k]) * 0.70710678)));", false, false,
     false},
    {"gate", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) / (1 + exp(-V(x[t,k]))) * V(r[t,k]));", true, false, false},
    {"relu", "range(t, T) range(k, W) y[t,k] = E(max(V(x[t,k]), 0));", false, false, false},
    {"two", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) * V(b[k]) + V(r[t,k]) * V(x[t,k]));", true, true, false},
    {"next", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) - V(x[t,(k + 1) % W]));", false, false, false},
    {"where", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) + f32(k));", false, false, false},
    {"shared", "range(t, T) range(k, W) y[t,k] = E(V(x[t,k]) * V(x[t,k]) + V(b[k]));", false, true, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds, TYPES = 3, ROWS = 40, WIDTH = 384, DEPTH = 1600, MOST = 4 };
static const struct { const char *name; uint8_t type; uint32_t bytes; } types[TYPES] = {
    {"f32", TG_F32, 4}, {"f16", TG_F16, 2}, {"bf16", TG_BF16, 2}};
static const char *const epilogues[] = {NULL, "acc + bias", "acc * bias", "max(acc + bias, 0)",
                                        "0.5 * acc * (1 + erf(acc * 0.7))", "acc + bias + f32(n)"};
enum { EPILOGUES = sizeof epilogues / sizeof *epilogues };

typedef struct { tg_context *context; const char *name; uint32_t seed; void *data[TYPES][4]; float *column; } run;

/* The body with its type and with conversions. */
static void write_body(const char *body, uint32_t type, char *out) {
  for (; *body; body++) {
    if (*body == 'E' && body[1] == '(') out += sprintf(out, "%s", types[type].name);
    else if (*body == 'V' && body[1] == '(') out += sprintf(out, "f32");
    else *out++ = *body;
  }
  *out = 0;
}

static tg_kernel *map_of(run *r, uint32_t kind, uint32_t type) {
  char body[1024], text[2048];
  const char *t = types[type].name;
  tg_binding sizes[] = {{"T", 1, ROWS, 1}, {"W", 1, WIDTH, 1}};
  tg_kernel *k = NULL;
  write_body(kinds[kind].body, type, body);
  int n = snprintf(text, sizeof text, "kernel %s(T, W) {\n in(x, %s, [T, W]);\n", kinds[kind].name, t);
  if (kinds[kind].r) n += snprintf(text + n, sizeof text - (size_t)n, " in(r, %s, [T, W]);\n", t);
  if (kinds[kind].b) n += snprintf(text + n, sizeof text - (size_t)n, " in(b, %s, [W]);\n", t);
  if (kinds[kind].c) n += snprintf(text + n, sizeof text - (size_t)n, " in(c, f32, [T]);\n");
  snprintf(text + n, sizeof text - (size_t)n, " out(y, %s, [T, W]);\n %s\n}\n", t, body);
  FINE(tg_kernel_compile_text(r->context, kinds[kind].name, text,
                              &(tg_compile_options){.bindings = sizes, .bindings_n = 2}, &k));
  return k;
}

typedef struct {
  int64_t m, n, k;
  uint32_t type, epilogue, maps, kind[MOST];
  int threads;
  bool packed, open, rows;      /* rows: B is row major */
  tg_kernel *kernel[MOST];
  tg_gemm *gemm;
  void *weights;
} chain;

/* Step i: 0 is the product. */
static void put(run *r, tg_program *p, const chain *c, uint32_t i, void *x, void *y) {
  size_t each = types[c->type].bytes, all = (size_t)(c->m * c->n) * each;
  if (!i) {
    tg_gemm_call call = {.m = c->m, .a = x, .b = c->weights, .c = y, .arg = {r->data[c->type][2]}};
    size_t bytes = p ? 0 : tg_gemm_workspace(c->gemm, NULL);
    if (!p) call.workspace = malloc(bytes + 64), call.workspace_bytes = bytes;
    if (!c->epilogue || !strstr(epilogues[c->epilogue], "bias")) call.arg[0] = NULL;
    FINE(p ? tg_gemm_put(p, c->gemm, &call) : tg_gemm_run(c->gemm, &call));
    if (!p) free(call.workspace);
    return;
  }
  uint32_t n = 0, kind = c->kind[i - 1];
  int64_t size[] = {c->m, c->n};
  tg_argument a[5] = {{x, all}};
  n++;
  if (kinds[kind].r) a[n++] = (tg_argument){r->data[c->type][1], all};
  if (kinds[kind].b) a[n++] = (tg_argument){(char *)r->data[c->type][2] + WIDTH * each * i, (size_t)c->n * each};
  if (kinds[kind].c) a[n++] = (tg_argument){r->column, (size_t)c->m * 4};
  a[n++] = (tg_argument){y, all};
  tg_launch l = {.buffers = a, .buffers_n = n, .params = size, .params_n = 2};
  FINE(p ? tg_program_launch(p, c->kernel[i - 1], &l) : tg_kernel_run(c->kernel[i - 1], &l));
}

static void open_chain(run *r, chain *c) {
  uint8_t t = types[c->type].type;
  tg_gemm_packing packing;
  tg_gemm_desc d = {.a = t, .b = t, .m = {c->open ? 1 : c->m, c->open ? ROWS : 0}, .n = {c->n, 0}, .k = {c->k, 0},
                    .threads = c->threads, .b_major = c->rows ? TG_ROW_MAJOR : TG_COLUMN_MAJOR,
                    .epilogue = epilogues[c->epilogue]};
  if (c->epilogue && strstr(d.epilogue, "bias"))
    d.arg[0].name = "bias", d.arg[0].type = t, d.arg[0].per = TG_PER_COLUMN;
  c->weights = r->data[c->type][3];
  if (c->packed) {
    FINE(tg_gemm_packing_choose(r->context, &d, 1, &packing));
    d.packing = &packing;
    c->weights = aligned_alloc(64, (packing.bytes + 63) / 64 * 64);
    FINE(tg_gemm_pack(&packing, r->data[c->type][3], c->rows ? (int64_t[]){c->n, 1} : (int64_t[]){1, c->k},
                      c->weights));
  }
  FINE(tg_gemm_plan(r->context, &d, &c->gemm));
  for (uint32_t i = 0; i < c->maps; i++) c->kernel[i] = map_of(r, c->kind[i], c->type);
}

static void close_chain(run *r, chain *c) {
  for (uint32_t i = 0; i < c->maps; i++) tg_kernel_free(c->kernel[i]);
  tg_gemm_free(c->gemm);
  if (c->weights != r->data[c->type][3]) free(c->weights);
}

/* Runs it both ways. Returns how many steps are part of another. */
static uint32_t both_ways(run *r, chain *c) {
  size_t each = types[c->type].bytes, all = (size_t)(c->m * c->n) * each, x_bytes = (size_t)(c->m * c->k) * each;
  void *own[2] = {malloc(all), malloc(all)}, *got = malloc(all), *x, *y, *from;
  tg_program_info info = {0};
  tg_program *p = NULL;
  char name[16];
  open_chain(r, c);
  put(r, NULL, c, 0, r->data[c->type][0], own[0]);
  for (uint32_t i = 1; i <= c->maps; i++) put(r, NULL, c, i, own[(i - 1) % 2], own[i % 2]);
  FINE(tg_program_begin(r->context, &(tg_program_options){.threads = 2}, &p));
  FINE(tg_program_argument(p, "x", x_bytes, &x));
  FINE(tg_program_argument(p, "y", all, &y));
  from = x;
  for (uint32_t i = 0; i <= c->maps; i++) {
    void *to = y;
    snprintf(name, sizeof name, "t%u", i);
    if (i < c->maps) FINE(tg_program_temporary(p, name, all, &to));
    put(r, p, c, i, from, to);
    from = to;
  }
  FINE(tg_program_end(p));
  FINE(tg_program_describe(p, &info));
  tg_argument a[] = {{r->data[c->type][0], x_bytes}, {got, all}};
  memset(got, 0xee, all);
  FINE(tg_program_run(p, &(tg_program_call){.arguments = a, .arguments_n = 2}));
  tg_program_free(p);
  bool same = !memcmp(got, own[c->maps % 2], all);
  CHECK(same, "other bits: %lld x %lld x %lld, %s, epilogue %s%s%s", (long long)c->m, (long long)c->n,
        (long long)c->k, types[c->type].name, epilogues[c->epilogue] ? epilogues[c->epilogue] : "none",
        c->packed ? ", packed" : "", c->open ? ", open" : "");
  for (uint32_t i = 0; !same && i < c->maps; i++) printf("  %s\n", kinds[c->kind[i]].name);
  close_chain(r, c);
  free(own[0]), free(own[1]), free(got);
  return info.fused;
}

static uint32_t kind_named(const char *name) {
  uint32_t k = 0;
  while (strcmp(kinds[k].name, name)) k++;
  return k;
}

/* fused: how many of the steps become part of another. */
static void check_chain(run *r, uint32_t type, uint32_t epilogue, uint32_t fused, const char *const *names) {
  chain c = {.m = ROWS, .n = 160, .k = 200, .type = type, .epilogue = epilogue, .threads = 2};
  for (; names[c.maps]; c.maps++) c.kind[c.maps] = kind_named(names[c.maps]);
  uint32_t n = both_ways(r, &c);
  CHECK(n == fused, "%s, epilogue %u, %s ..: %u steps are fused, not %u", types[type].name, epilogue, names[0], n,
        fused);
}
#define CHAIN(type, epilogue, fused, ...) \
  check_chain(r, type, epilogue, fused, (const char *const[]){__VA_ARGS__, NULL})

static void chains(run *r) {
  CHAIN(0, 0, 1, "bias");
  CHAIN(0, 0, 3, "bias", "gelu", "residual");
  CHAIN(0, 0, 1, "axpb");                  /* the product is joined to the sum in both */
  CHAIN(0, 0, 1, "rows");
  CHAIN(0, 3, 1, "across");                /* loops in the other order */
  CHAIN(0, 3, 2, "relu", "residual");
  CHAIN(0, 4, 1, "scale");
  CHAIN(1, 1, 2, "relu", "residual");      /* elements of the memory between are rounded to f16 */
  CHAIN(2, 3, 1, "scale");
  CHAIN(0, 2, 1, "residual");              /* the product acc * bias is not joined to the sum */
  CHAIN(0, 0, 0, "two");                   /* which product is joined is the schedule's choice */
  CHAIN(0, 0, 0, "next");                  /* reads its neighbours */
  CHAIN(0, 0, 0, "where");                 /* asks where it is, which a strip of the product does not know */
}

/* A sum in blocks starts with what is added to it, if nothing else is done: the maps may not change whether it does. */
static void blocks(run *r) {
  static const char *const maps[][2] = {{"bias", "relu"}, {"scale", "bias"}, {"residual", "gelu"}};
  for (uint32_t i = 0; i < 12; i++) {
    chain c = {.m = 16, .n = 384, .k = 1536, .epilogue = i % 2, .threads = 1, .rows = true, .maps = 1 + i / 2 % 2};
    for (uint32_t k = 0; k < c.maps; k++) c.kind[k] = kind_named(maps[i / 4][k]);
    both_ways(r, &c);
  }
}

static void drawn_chains(run *r, int count) {
  uint32_t fused = 0, steps = 0;
  for (int i = 0; i < count && !test_failed; i++) {
    chain c = {.m = 1 + draw(r, ROWS), .n = 1 + draw(r, WIDTH), .k = 1 + draw(r, 200), .type = draw(r, 2 * TYPES),
               .epilogue = draw(r, EPILOGUES), .maps = 1 + draw(r, MOST), .packed = draw(r, 2), .open = draw(r, 2),
               .rows = draw(r, 2)};
    if (draw(r, 3)) c.n = 16 * (1 + (int64_t)draw(r, WIDTH / 16));
    if (draw(r, 2)) c.k *= 8;      /* sums in blocks */
    c.threads = 1 + (int)draw(r, 2);
    c.type = c.type < TYPES ? c.type : 0;
    for (uint32_t k = 0; k < c.maps; k++) c.kind[k] = draw(r, KINDS);
    fused += both_ways(r, &c), steps += c.maps;
  }
  printf("%d drawn products with %u maps behind them, %u of which are part of another step\n", count, steps, fused);
  CHECK(!count || fused > steps / 4, "%u of %u", fused, steps);
}

/* In f16 and bf16 as in f32: values of -2 to 2. */
static void fill(run *r, uint32_t type, void *to, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float x = (float)draw(r, 1 << 24) / (1 << 22) - 2;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!type) ((float *)to)[i] = x;
    else if (type == 2) ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    else ((uint16_t *)to)[i] = (uint16_t)((bits >> 31) << 15 | (uint32_t)(draw(r, 4) + 12) << 10 | draw(r, 1 << 10));
  }
}

int main(int argc, char **argv) {
  int count = 6;
  run own = {.name = "the host", .seed = 1}, *r = &own;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seed")) r->seed = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--count")) count = atoi(argv[i + 1]);
  }
  if (tg_context_create(&(tg_context_options){.threads = 2}, &r->context)) {
    CHECK(0, "no context");
    return TEST_END();
  }
  const size_t elements[] = {ROWS * DEPTH, ROWS * WIDTH, WIDTH * (MOST + 1), WIDTH * DEPTH};
  for (uint32_t t = 0; t < TYPES; t++)
    for (uint32_t i = 0; i < 4; i++)
      r->data[t][i] = malloc(elements[i] * types[t].bytes), fill(r, t, r->data[t][i], elements[i]);
  r->column = malloc(ROWS * sizeof(float)), fill(r, 0, r->column, ROWS);
  chains(r), blocks(r), drawn_chains(r, count);
  for (uint32_t t = 0; t < TYPES; t++)
    for (uint32_t i = 0; i < 4; i++) free(r->data[t][i]);
  free(r->column);
  tg_context_free(r->context);
  return TEST_END();
}
