/* SPDX-License-Identifier: MIT
 * A program under words of a schedule: its statements afterwards; its result, compared with that of the unscheduled
 * program under the interpreter, with parallel iterations in both orders; the message of a refusal. TG_SHOW in the
 * environment prints each program. */
#ifndef TG_TEST_LOWER_WORDS_H
#define TG_TEST_LOWER_WORDS_H
#include "dsl/text.h"
#include "interp/interp.h"
#include "schedule/schedule.h"
#include "choose/heuristic.h"
#include "test.h"
#include <stdlib.h>

enum { MOST_SIZES = 4 };

typedef struct {
  const char *kernel, *words;     /* words: one a line; or "heuristic" */
  tg_binding bindings[MOST_SIZES];
  uint32_t bindings_n;
  int64_t params[MOST_SIZES];     /* values of what is known at launch only */
  bool run;
  char *text;                     /* the statements afterwards; NULL if the words are refused */
  char *message;                  /* "" if all went well */
} job;

static tg_target target_of(void) {
  tg_target t = {.name = "test",
                 .dot_u8s8 = true,
                 .dot_bf16 = true,
                 .tile_i8 = true,
                 .vector_bytes = 64,
                 .vector_registers = 32,
                 .threads = 2,
                 .lanes = 1,
                 .l1 = 48 << 10,
                 .l2 = 2 << 20,
                 .fma = true,
                 .masked_least = 4};
  return t;
}

/* The statements of a printed program: its lines without those of the frame. */
static char *statements_of(const char *text) {
  char *body = malloc(strlen(text) + 1), *to = body;
  static const char *const frame[] = {"kernel", "{",      "}",     "  stage ", "stage ",
                                      "  opt(", "  in(", "  out(", "  inout("};
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
    if (sink->src[i]->op == TG_OP_DEFINE && tg_buffer_info(j, sink->src[i])->space == TG_SPACE_GLOBAL && !n--)
      return sink->src[i];
  return NULL;
}

static uint32_t position(tg_job *j, const tg_uop *sink, const char *name) {
  uint32_t n = 0;
  for (const tg_uop *d; (d = global(j, sink, n)) && strcmp(tg_buffer_info(j, d)->name, name);) n++;
  return n;
}

/* What a packing makes of the memory of the program before: 1: the copy, 2: sums beside it. */
static void make_packed(tg_job *j, const tg_uop *before, const tg_packing *p, const memory *m, const int64_t *params,
                        const tg_interp_buffer *into, uint32_t wanted) {
  tg_interp_buffer all[3] = {m->data[position(j, before, p->source)]};
  for (uint32_t k = 1; k < (p->sum ? 3 : 2); k++)
    all[k] = k == wanted ? *into : (tg_interp_buffer){tg_alloc(&j->env, 1 << 16), 1 << 16};
  tg_interp in = {.buffers = all, .params = params, .check_uninitialised = true};
  tg_interpret(j, p->sink, &in);
}

/* In the order of the program after; operands that the schedule takes packed are what their packings make. */
static memory scheduled_memory(tg_job *j, const tg_lowering *l, const tg_uop *before, const tg_uop *after,
                               const int64_t *params) {
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

static void same_outputs(tg_job *j, const tg_uop *before, const tg_uop *after, const memory *a, const memory *b,
                         const char *what) {
  const tg_uop *d;
  for (uint32_t i = 0; (d = global(j, before, i)); i++) {
    uint32_t k = position(j, after, tg_buffer_info(j, d)->name);
    if (!global(j, after, k)) continue;   /* packed ahead */
    if (memcmp(a->data[i].data, b->data[k].data, a->data[i].bytes))
      tg_fail(&j->env, TG_EINVAL, "buffer %u %s", i, what);
  }
}

static void run_both(tg_job *j, const tg_lowering *l, const tg_uop *before, const tg_uop *after, const job *x) {
  memory a = memory_of(j, l, before, x->params, true), b = scheduled_memory(j, l, before, after, x->params);
  tg_interp in = {.buffers = a.data,
                  .params = x->params,
                  .check_uninitialised = true,
                  .check_races = true,
                  .check_merges = true};
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

/* The heuristic tells of words that it takes back. */
static void told(void *user, const char *message) {
  tg_job *j = user;
  tg_fail(&j->env, TG_EINVAL, "%s", message);
}

/* Those of the heuristic, all of which are legal, or the lines of the text. */
static void take_words(tg_job *j, const tg_lowering *l, const tg_uop *raised, const char *words) {
  tg_lowering tells = *l;
  tells.log = told, tells.log_user = j;
  if (!strcmp(words, "heuristic\n")) tg_heuristic(j, &tells, raised);
  else
    for (const char *at = words; *at;) {
      int line = (int)j->opts.n + 1;
      size_t n = strcspn(at, "\n");
      const char *text = tg_strndup(&j->env, at, n);
      tg_pos pos = {.file = "words", .line = line, .text = text, .column = 1};
      tg_push(&j->env, &j->opts, ((tg_opt_text){text, pos}));
      at += n + (at[n] == '\n');
    }
}

/* What is printed of a word parses to the same word. */
static void print_words(tg_job *j) {
  for (uint32_t i = 0; i < j->opts.n; i++) {
    tg_opt o = tg_opt_parse(j, j->opts.data[i].text, j->opts.data[i].pos);
    const char *once = tg_opt_text_of(j, &o);
    o = tg_opt_parse(j, once, j->opts.data[i].pos);
    if (strcmp(once, tg_opt_text_of(j, &o)))
      tg_fail(&j->env, TG_EINVAL, "'%s' prints as '%s'", once, tg_opt_text_of(j, &o));
  }
}

static void work(void *p) {
  call *c = p;
  tg_job *j = c->j;
  job *x = c->x;
  tg_target target = target_of();
  tg_parse_kernel(j, "test.tg", x->kernel, x->bindings_n, x->bindings);
  tg_lowering l = {.target = &target, .rules = tg_rules_compile(&j->env), .verify = true};
  const tg_uop *author = tg_prove(j, j->sink), *raised = tg_pass_raise(j, &l, author);
  take_words(j, &l, raised, x->words);
  print_words(j);
  const tg_uop *after = tg_pass_schedule(j, &l, raised);
  tg_verify(j, after, "schedule", NULL);
  tg_str out = tg_str_new(&j->env);
  tg_print(j, &out, after);
  if (getenv("TG_SHOW")) {
    for (uint32_t i = 0; i < j->opts.n; i++) fprintf(stderr, "  %s\n", j->opts.data[i].text);
    fprintf(stderr, "%s\n", out.data);
  }
  x->text = statements_of(out.data);
  if (x->run) run_both(j, &l, j->sink, after, x);
}

/* True if all went well; text and message are to be freed. */
static bool go(job *x) {
  tg_job j;
  tg_job_init(&j, NULL);
  call c = {&j, x};
  bool ok = tg_protect(&j.env, work, &c);
  const char *message = ok ? "" : j.env.message;
  x->message = strcpy(malloc(strlen(message) + 1), message);
  tg_job_drop(&j);
  return ok;
}
#endif
