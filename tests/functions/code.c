/* SPDX-License-Identifier: MIT
 * Functions and conversions as machine code, bit by bit against the definitions: every f16 and bf16, a dense sample of f32 and f64, every
 * pair of types that convert. What the definitions are worth, functions.c measures against MPFR. */
#include <float.h>
#include <math.h>
#include "../target.h"
#include "batch.h"
#include "dsl/functions.h"
#include "interp/interp.h"
#include "test.h"
#include <tg/tg.h>

static tg_job job;
static tg_context *context;

static const tg_op functions[] = {TG_OP_EXP, TG_OP_EXP2, TG_OP_LOG, TG_OP_LOG2, TG_OP_SIN, TG_OP_COS, TG_OP_TANH, TG_OP_ERF, TG_OP_RSQRT, TG_OP_SQRT};

static tg_kernel *compile(const char *body, tg_type from, tg_type to) {
  char text[512];
  tg_kernel *k = NULL;
  snprintf(text, sizeof text, "kernel f(N in 0..1073741824) { in(x, %s, [N]); out(y, %s, [N]); range(i, N) y[i] = %s; }", tg_type_name[from], tg_type_name[to], body);
  CHECK(tg_kernel_compile_text(context, "code", text, NULL, &k) == TG_OK, "%s", tg_error_message(context));
  return k;
}

static bool run(tg_kernel *k, int64_t n, const void *x, size_t x_bytes, void *y, size_t y_bytes) {
  tg_argument a[] = {{(void *)(uintptr_t)x, x_bytes}, {y, y_bytes}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
  bool ok = tg_kernel_run(k, &l) == TG_OK;
  CHECK(ok, "%s", tg_error_message(context));
  return ok;
}

enum { CHUNK = 1 << 16 };
static uint64_t in[CHUNK], got[CHUNK];   /* as bytes of the types */

static uint64_t element(const void *p, tg_type t, size_t i) {
  uint64_t v = 0;
  memcpy(&v, (const char *)p + i * (size_t)tg_type_bytes(t), (size_t)tg_type_bytes(t));
  return v;
}

static bool is_nan(tg_type t, uint64_t bits) {
  switch (t) {
  case TG_F64: return (bits & ~(uint64_t)0 >> 1) > 0x7ff0000000000000u;
  case TG_F32: return (bits & 0x7fffffff) > 0x7f800000;
  case TG_F16: case TG_BF16: case TG_E4M3: case TG_E5M2: return isnan(batch_decode(t, (uint32_t)bits));
  default: return false;
  }
}

/* What one element must become: the definition by the interpreter. */
typedef struct { tg_interp_function *f; tg_type from, to; } definition;

static uint64_t wanted(const definition *d, uint64_t bits) {
  tg_value v = tg_value_from_bits(d->from, bits);
  return tg_value_bits(d->to, tg_interpret_call(d->f, &v));
}

static void compare(tg_kernel *k, const definition *d, const char *name, size_t n) {
  size_t wrong = 0, first = 0;
  memset(got, 0xa5, sizeof got);
  if (!k || !run(k, (int64_t)n, in, n * (size_t)tg_type_bytes(d->from), got, n * (size_t)tg_type_bytes(d->to))) return;
  for (size_t i = 0; i < n; i++) {
    uint64_t want = wanted(d, element(in, d->from, i)), have = element(got, d->to, i);
    if (want == have || (is_nan(d->to, want) && is_nan(d->to, have))) continue;
    if (!wrong++) first = i;
  }
  CHECK(!wrong, "%s %s to %s: %zu of %zu; %llx gives %llx, not %llx", name, tg_type_name[d->from], tg_type_name[d->to], wrong, n,
        (unsigned long long)element(in, d->from, first), (unsigned long long)element(got, d->to, first), (unsigned long long)wanted(d, element(in, d->from, first)));
}

static void put(tg_type t, size_t i, uint64_t bits) { memcpy((char *)in + i * (size_t)tg_type_bytes(t), &bits, (size_t)tg_type_bytes(t)); }

static uint64_t random_bits(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = (*s ^ *s >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* Every value of a small type; of a large one values of every size, and those whose rounding to a small type is close: all high bits with few low ones. */
static size_t fill(tg_type t, uint64_t seed) {
  int bits = tg_type_bits(t);
  size_t n = bits <= 16 ? (size_t)1 << bits : CHUNK;
  for (size_t i = 0; i < n; i++) {
    uint64_t r = random_bits(&seed), b = i;
    if (bits == 32) b = i % 2 ? r : (uint64_t)i << 16 | (uint64_t[]){0, 1, 0xffff, 0x8000, 0x7fff, 0x8001, 0x1000, 0xefff}[i / 2 % 8];
    if (bits == 64) b = i % 2 ? r : (uint64_t)i << 48 | (i % 4 ? r >> 16 & ((uint64_t)1 << (r % 48)) : (uint64_t)1 << (r % 48));
    if (t == TG_BOOL) b = i & 1;
    put(t, i, b);
  }
  return n;
}

static void every_function(tg_type t) {
  for (size_t f = 0; f < TG_COUNT(functions); f++) {
    char body[64];
    const char *name = tg_ops[functions[f]].text;
    const tg_uop *u = functions[f] == TG_OP_SQRT ? tg_op1(&job, TG_OP_SQRT, tg_make(&job, TG_OP_ARG, t, 1, 0, 0, NULL)) : tg_function_definition(&job, functions[f], t);
    definition d = {tg_interpret_prepare(&job, u, 1), t, t};
    snprintf(body, sizeof body, "%s(x[i])", name);
    tg_kernel *k = compile(body, t, t);
    compare(k, &d, name, fill(t, f + 1));
    tg_kernel_free(k);
  }
}

static void every_conversion(tg_type from) {
  for (tg_type to = TG_BOOL; to < TG_INDEX; to++) {
    char body[64];
    if (to == from) continue;
    definition d = {tg_interpret_prepare(&job, tg_cast(&job, to, tg_make(&job, TG_OP_ARG, from, 1, 0, 0, NULL)), 1), from, to};
    snprintf(body, sizeof body, "%s(x[i])", tg_type_name[to]);
    tg_kernel *k = compile(body, from, to);
    compare(k, &d, "conversion,", fill(from, to));
    tg_kernel_free(k);
  }
}

static void all(void *unused) {
  (void)unused;
  static const tg_type floats[] = {TG_F16, TG_BF16, TG_F32, TG_F64};
  for (size_t i = 0; i < TG_COUNT(floats); i++) every_function(floats[i]);
  for (tg_type t = TG_BOOL; t < TG_INDEX; t++) every_conversion(t);
}

/* The host, then a level that converts the small floats otherwise. */
int main(int argc, char **argv) {
  const char *const targets[] = {test_target(), "x86-64-v3"};
  tg_job_init(&job, NULL);
  for (size_t i = 0; i < (argc > 1 ? 1 : TG_COUNT(targets)); i++) {
    tg_target t;
    if (i && (!tg_target_named(&t, targets[i]) || !tg_target_runs_here(&t))) continue;
    tg_context_options o = {.target = argc > 1 ? argv[1] : targets[i]};
    if (tg_context_create(&o, &context)) { CHECK(false, "no context for %s", o.target); continue; }
    bool ok = tg_protect(&job.env, all, NULL);
    CHECK(ok, "%s: %s", o.target, job.env.message);
    tg_context_free(context);
  }
  tg_job_drop(&job);
  return TEST_END();
}
