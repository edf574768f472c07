/* SPDX-License-Identifier: MIT
 * What the tests of a schedule's words share: the statements of a program after its words, its result beside the unscheduled program's under the interpreter,
 * with parallel iterations in both orders, and the first line of a refusal. TG_SHOW in the environment prints each program. */
#ifndef TG_SCHEDULE_KIT_H
#define TG_SCHEDULE_KIT_H
#include "dsl/text.h"
#include "interp/interp.h"
#include "schedule/schedule.h"
#include "choose/heuristic.h"
#include "test.h"
#include <stdlib.h>

typedef struct {
  const char *kernel, *opts;      /* opts: one a line; "heuristic" */
  const tg_binding *bindings;
  uint32_t bindings_n;
  int64_t params[4];              /* run-time values */
  bool run;
  char *text;                     /* of the program after */
  char *message;
  uint32_t applied;
} job;

static tg_target target_of(void) {
  tg_target t = {.name = "test", .dot_u8s8 = true, .dot_bf16 = true, .tile_i8 = true, .vector_bytes = 64, .vector_registers = 32, .threads = 2, .lanes = 1, .l1 = 48 << 10, .l2 = 2 << 20, .fma = true, .masked_access = true};
  return t;
}

static char *copy_text(const char *s) {
  char *t = malloc(strlen(s) + 1);
  return strcpy(t, s);
}

/* The statements of a printed program: its lines without those of the frame. */
static char *statements_of(const char *text) {
  char *body = malloc(strlen(text) + 1), *to = body;
  static const char *const frame[] = {"kernel", "{", "}", "  stage ", "stage ", "  opt(", "  in(", "  out(", "  inout("};
  for (const char *at = text; *at;) {
    size_t n = strcspn(at, "\n");
    bool skip = !n;
    for (size_t i = 0; i < TG_COUNT(frame); i++) skip |= !strncmp(at, frame[i], strlen(frame[i]));
    if (!skip) {
      memcpy(to, at + 2, n - 1);
      to += n - 1;
    }
    at += n + (at[n] == '\n');
  }
  *to = 0;
  return body;
}

/* ---- running ---- */

typedef struct { tg_interp_buffer data[16]; uint32_t n; } memory;

static size_t number(tg_job *j, const tg_lowering *l, const tg_uop *u, const int64_t *params) {
  for (uint32_t p = 0; p < j->params.n; p++) {
    const tg_uop *from = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, p, 0, NULL), *to = tg_index(j, params[p]);
    u = tg_substitute(j, u, 1, &from, &to);
  }
  return (size_t)tg_simplify(j, l->rules, u)->arg;
}

static memory memory_of(tg_job *j, const tg_lowering *l, const tg_uop *sink, const int64_t *params, bool guard) {
  memory m = {.n = 0};
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *d = sink->src[i];
    if (d->op != TG_OP_DEFINE || tg_buffer_info(j, d)->space != TG_SPACE_GLOBAL) continue;
    size_t elements = 1, size = (size_t)tg_type_bytes((tg_type)d->type);
    uint32_t rank = tg_buffer_info(j, d)->rank;
    bool strided = d->arg >> 32 & TG_STRIDED;
    for (uint32_t k = 0; k < rank; k++) {
      size_t dim = number(j, l, d->src[k], params);
      elements = strided ? elements + (dim - 1) * number(j, l, d->src[rank + k], params) : elements * dim;
    }
    char *bytes = tg_alloc(&j->env, elements * size + 1);
    for (size_t e = 0; e < elements; e++) {
      int64_t v = (int64_t)((e * 2654435761u + i * 40503u) >> 7) % 7 - 3;
      if (guard && tg_buffer_info(j, d)->role == TG_ROLE_OUT) v = 99;
      tg_value x = {0};
      if (tg_is_float((tg_type)d->type)) x.f = (double)v;
      else x.i = v & 3;
      uint64_t bits = tg_value_bits((tg_type)d->type, x);
      memcpy(bytes + e * size, &bits, size);
    }
    m.data[m.n++] = (tg_interp_buffer){bytes, elements * size};
  }
  return m;
}

static const tg_uop *global(tg_job *j, const tg_uop *sink, uint32_t n) {
  for (uint32_t i = 0; i < sink->n; i++)
    if (sink->src[i]->op == TG_OP_DEFINE && tg_buffer_info(j, sink->src[i])->space == TG_SPACE_GLOBAL && !n--) return sink->src[i];
  return NULL;
}

static uint32_t position(tg_job *j, const tg_uop *sink, const char *name) {
  uint32_t n = 0;
  for (const tg_uop *d; (d = global(j, sink, n)) && strcmp(tg_buffer_info(j, d)->name, name);) n++;
  return n;
}

/* What a packing makes of the memory of the program before: 1: the copy, 2: sums beside it. */
static void make_packed(tg_job *j, const tg_uop *before, const tg_packing *p, const memory *m, const int64_t *params, const tg_interp_buffer *into, uint32_t wanted) {
  tg_interp_buffer all[3] = {m->data[position(j, before, p->source)]};
  for (uint32_t k = 1; k < (p->sum ? 3 : 2); k++) all[k] = k == wanted ? *into : (tg_interp_buffer){tg_alloc(&j->env, 1 << 16), 1 << 16};
  tg_interp in = {.buffers = all, .params = params, .check_uninitialised = true};
  tg_interpret(j, p->sink, &in);
}

/* In the order of the program after; operands that the schedule takes packed are what their packings make. */
static memory scheduled_memory(tg_job *j, const tg_lowering *l, const tg_uop *before, const tg_uop *after, const int64_t *params) {
  memory m = memory_of(j, l, before, params, true), to = j->packings.n ? memory_of(j, l, after, params, true) : m;
  for (uint32_t b = 0; b < to.n && j->packings.n; b++) {
    const char *name = tg_buffer_info(j, global(j, after, b))->name;
    if (global(j, before, position(j, before, name))) to.data[b] = m.data[position(j, before, name)];
    for (uint32_t p = 0; p < j->packings.n; p++) {
      const tg_packing *k = &j->packings.data[p];
      if (!strcmp(name, k->copy)) make_packed(j, before, k, &m, params, &to.data[b], 1);
      else if (k->sum && !strcmp(name, k->sum)) make_packed(j, before, k, &m, params, &to.data[b], 2);
    }
  }
  return to;
}

static void same_outputs(tg_job *j, const tg_uop *before, const tg_uop *after, const memory *a, const memory *b, const char *what) {
  const tg_uop *d;
  for (uint32_t i = 0; (d = global(j, before, i)); i++) {
    uint32_t k = position(j, after, tg_buffer_info(j, d)->name);
    if (!global(j, after, k)) continue;   /* packed ahead */
    if (memcmp(a->data[i].data, b->data[k].data, a->data[i].bytes)) tg_fail(&j->env, TG_EINVAL, "buffer %u %s", i, what);
  }
}

static void run_both(tg_job *j, const tg_lowering *l, const tg_uop *before, const tg_uop *after, const job *x) {
  memory a = memory_of(j, l, before, x->params, true), b = scheduled_memory(j, l, before, after, x->params);
  tg_interp in = {.buffers = a.data, .params = x->params, .check_uninitialised = true, .check_races = true, .check_merges = true};
  tg_interpret(j, before, &in);
  in.buffers = b.data;
  tg_interpret(j, after, &in);
  same_outputs(j, before, after, &a, &b, "differs from the unscheduled program's");
  in.order = 1;
  b = scheduled_memory(j, l, before, after, x->params);
  in.buffers = b.data;
  tg_interpret(j, after, &in);
  same_outputs(j, before, after, &a, &b, "depends on the order of parallel iterations");
}

typedef struct { tg_job *j; job *x; } call;

static void work(void *p) {
  call *c = p;
  tg_job *j = c->j;
  job *x = c->x;
  tg_target target = target_of();
  tg_parse_kernel(j, "test.tg", x->kernel, x->bindings_n, x->bindings);
  tg_lowering l = {.target = &target, .rules = tg_rules_compile(&j->env), .verify = true};
  const tg_uop *author = tg_prove(j, j->sink), *raised = tg_pass_raise(j, &l, author);
  if (!strcmp(x->opts, "heuristic")) tg_heuristic(j, &l, raised);
  else
    for (const char *at = x->opts; *at;) {
      int line = (int)j->opts.n + 1;
      size_t n = strcspn(at, "\n");
      const char *text = tg_strndup(&j->env, at, n);
      tg_push(&j->env, &j->opts, ((tg_opt_text){text, {.file = "opts", .line = line, .text = text, .column = 1}}));
      at += n + (at[n] == '\n');
    }
  for (uint32_t i = 0; i < j->opts.n; i++) { /* printed opts parse to themselves */
    tg_opt o = tg_opt_parse(j, j->opts.data[i].text, j->opts.data[i].pos);
    const char *once = tg_opt_text_of(j, &o);
    o = tg_opt_parse(j, once, j->opts.data[i].pos);
    if (strcmp(once, tg_opt_text_of(j, &o))) tg_fail(&j->env, TG_EINVAL, "'%s' prints as '%s'", once, tg_opt_text_of(j, &o));
  }
  x->applied = j->opts.n;
  const tg_uop *after = tg_pass_schedule(j, &l, raised);
  tg_verify(j, after, "schedule", NULL);
  tg_str out = tg_str_new(&j->env);
  if (getenv("TG_SHOW"))
    for (uint32_t i = 0; i < j->opts.n; i++) fprintf(stderr, "  %s\n", j->opts.data[i].text);
  tg_print(j, &out, after);
  if (getenv("TG_SHOW")) fprintf(stderr, "%s\n", out.data);
  x->text = statements_of(out.data);
  if (x->run) run_both(j, &l, j->sink, after, x);
}

/* True if all went well; text or message are the caller's. */
static bool go(job *x) {
  tg_job j;
  tg_job_init(&j, NULL);
  call c = {&j, x};
  bool ok = tg_protect(&j.env, work, &c);
  x->message = copy_text(ok ? "" : j.env.message);
  tg_job_drop(&j);
  return ok;
}

static void done(job *x) {
  free(x->text);
  free(x->message);
}

typedef struct { const char *kernel, *sizes, *opts, *want; } expectation;   /* sizes: "M=4 N=1..9" */

static const char matmul_kernel[] =
    "kernel matmul(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n"
    "}\n";

/* "M=4 N=1..9 K=0..9@2": a constant, or a run-time value; run with the last of its range, or what is said. */
static void bind(job *x, tg_binding *b, char *names, const char *sizes) {
  x->bindings = b;
  x->bindings_n = 0;
  uint32_t params = 0;
  for (const char *at = sizes; *at;) {
    size_t n = strcspn(at, "=");
    char *name = names + 16 * x->bindings_n, *end;
    memcpy(name, at, n);
    name[n] = 0;
    int64_t lo = strtol(at + n + 1, &end, 10), hi = lo;
    if (!strncmp(end, "..", 2)) hi = strtol(end + 2, &end, 10);
    if (lo != hi) x->params[params++] = *end == '@' ? strtol(end + 1, &end, 10) : hi;
    b[x->bindings_n++] = (tg_binding){name, lo, hi, 1};
    at = end + strspn(end, " ");
  }
}

static void expect(const expectation *e, bool refused) {
  tg_binding b[4];
  char names[64];
  job x = {.kernel = e->kernel, .opts = e->opts, .run = !refused};
  bind(&x, b, names, e->sizes);
  bool ok = go(&x);
  CHECK(ok != refused, "%s: %s", e->opts, x.message);
  char *line = strchr(x.message, '\n');
  if (refused && line) *line = 0;
  if (refused) CHECK_TEXT(x.message, e->want);
  else CHECK_TEXT(x.text ? x.text : "", e->want);
  done(&x);
}

/* A kernel under a schedule for many sizes; run-time parameters too. */
static void equal(const char *kernel, const char *opts, const char *sizes) {
  tg_binding b[4];
  char names[64];
  job x = {.kernel = kernel, .opts = opts, .run = true};
  bind(&x, b, names, sizes);
  bool ok = go(&x);
  CHECK(ok, "%s under\n%s\n%s\n%s", sizes, opts, x.message, x.text ? x.text : "");
  done(&x);
}
#endif
