/* SPDX-License-Identifier: MIT
 * A product of a program takes a map behind it as its epilogue (src/api/program_epilogue.c): the plan for one call,
 * with the sketch and the knobs that it has, so that its sums have the same bits, and more behind them. */
#include <stdio.h>
#include "api/program.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"

/* ---- what ends a product now ---- */

typedef struct { char *text; size_t n; bool full; } writer;
static void put(writer *w, const char *format, ...) TG_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(w->text, w->n, format, ap);
  va_end(ap);
  if (n < 0 || (size_t)n >= w->n) w->full = true;
  else w->text += n, w->n -= (size_t)n;
}

/* As a kernel: C[i,j] of total[i,j] and the arguments. */
static bool write_ending(const tg_gemm *g, const int64_t size[3], tg_program_ending *out) {
  static const char *const index[] = {"0", "i", "j", "i,j"};
  const tg_gemm_problem *q = &g->problem;
  writer w = {out->text, sizeof out->text, false};
  const long long m = size[0], n = size[1];
  put(&w, "kernel ending() {\n  in(total, %s, [%lld, %lld]);\n", tg_type_name[q->acc], m, n);
  for (uint32_t a = 0; a < q->arguments_n; a++) {
    put(&w, "  in(arg%u, %s, [", a, tg_type_name[q->argument[a].type]);
    if (q->argument[a].per == TG_PER_ELEMENT) put(&w, "%lld, %lld]);\n", m, n);
    else put(&w, "%lld]);\n", q->argument[a].per == TG_PER_ROW ? m : q->argument[a].per == TG_PER_COLUMN ? n : 1);
  }
  put(&w, "  out(C, %s, [%lld, %lld]);\n", tg_type_name[q->c], m, n);
  if (q->epilogue) {
    put(&w, "  def(epilogue(acc, m, n");
    for (uint32_t a = 0; a < q->arguments_n; a++) put(&w, ", %s", q->argument[a].name);
    put(&w, ") = %s\n  );\n", q->epilogue);
  }
  put(&w, "  range(i, %lld) range(j, %lld) C[i,j] = %s(", m, n, tg_type_name[q->c]);
  if (q->epilogue) put(&w, "epilogue(total[i,j], i, j");
  else put(&w, "total[i,j]");
  for (uint32_t a = 0; a < q->arguments_n && q->epilogue; a++)
    put(&w, ", %s(arg%u[%s])", tg_type_name[q->acc], a, index[q->argument[a].per]);
  put(&w, "%s);\n}\n", q->epilogue ? ")" : "");
  return !w.full;
}

static bool is_dense(const int64_t strides[2], int64_t n) {
  return (!strides[0] || strides[0] == n) && (!strides[1] || strides[1] == 1);
}

/* A product of one term is a product of floats, which an addition behind it would be joined to; so is one that is
 * multiplied by alpha. */
static bool ends(const void *plan, const void *given, tg_program_ending *out) {
  static const char *const names[TG_GEMM_ARGS] = {"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7"};
  const tg_gemm *g = plan;
  const tg_gemm_call *c = given;
  const tg_gemm_problem *q = &g->problem;
  int64_t size[3], ld[3];
  if (q->alpha || q->beta || q->c_major != TG_ROW_MAJOR || q->c_step > 1 || q->k.lo < 2) return false;
  if (c->batch > 1 || c->batch_strides || !tg_gemm_part_of(g, c, size, ld) || !is_dense(c->c_strides, size[1]))
    return false;
  out->buffers_n = q->arguments_n + 2;
  out->at[0] = UINTPTR_MAX;   /* sums are in no memory */
  out->buffer[0] = (tg_buffer_desc){.name = "total", .type = q->acc, .read = true};
  out->buffer[q->arguments_n + 1] = (tg_buffer_desc){.name = "C", .type = q->c, .written = true};
  for (uint32_t a = 0; a < q->arguments_n; a++) {
    if (q->argument[a].per == TG_PER_ELEMENT && c->arg_ld[a] && c->arg_ld[a] != size[1]) return false;
    out->at[1 + a] = (uintptr_t)c->arg[a];
    out->buffer[1 + a] = (tg_buffer_desc){.name = names[a], .type = q->argument[a].type, .read = true};
  }
  memcpy(out->shape, size, sizeof size);
  memcpy(out->shape + 3, ld, sizeof ld);
  return write_ending(g, size, out);
}

/* ---- a plan that ends otherwise ---- */

/* Does the kernel have the choice's words? */
static bool is_chosen(const tg_kit_kernel *k, const tg_kit_choice *c) {
  if (!k->kernel) return true;
  const tg_kernel_info *i = tg_kernel_describe(k->kernel);
  return !i->tuned && !strcmp(i->name, c->sketch->name);
}

/* Are sums taken in blocks, as far as is known? A sum to which something is added, and nothing else done, then starts
 * with that (src/schedule/block.c). */
static bool in_blocks(const tg_kit_part *part) {
  const tg_kit_choice *last = &part->last_choice;
  return part->terms || part->size[2].hi > tg_kit_knob_of(&part->choice, "KC", 0) ||
         (last->sketch && part->size[2].hi > tg_kit_knob_of(last, "KC", 0));
}

/* Seconds of the part's kernels for a call of this size, by the cost model; words: a hash of their words, some of which
 * the compiler may have chosen. */
static bool price(const tg_gemm *g, const tg_kit_part *part, const int64_t size[3], const int64_t ld[3],
                  double *seconds, uint64_t *words) {
  tg_gemm_problem q = tg_gemm_of_part(g, part);
  bool strips = part->strips.n > 1;
  if (strips) q = tg_gemm_strip(&q, &part->strips, 0);
  int64_t of[3] = {strips && part->strips.rows ? part->strips.size : size[0],
                   strips && !part->strips.rows ? part->strips.size : size[1], size[2]};
  if (part->pieces) memcpy(of, tg_gemm_divide(g, size, part->terms).size, sizeof of);
  tg_binding b[GEMM_VALUES + TG_KIT_KNOBS];
  int64_t params[GEMM_VALUES];
  uint32_t n = tg_gemm_bind(g, &q, b);
  tg_gemm_def own;
  tg_gemm_kernel_of(&q, part->choice.sketch, &own);
  tg_gemm_params(&q, of, ld, b, n, params);
  memcpy(b + n, part->choice.knob, part->choice.knobs_n * sizeof *b);
  tg_compile_options o = {.bindings = b, .bindings_n = n + part->choice.knobs_n, .user = &q,
                          .flags = TG_COMPILE_UNTUNED};
  const int64_t *const all[] = {params};
  const tg_launches launches = {all, 1, strips || part->pieces ? 1 : g->plan.most, words, NULL};
  return tg_kernel_price(g->plan.context, &own.def, &o, &launches, seconds);
}

static tg_status compile(tg_gemm *e, const tg_gemm *g, const tg_kit_part *part, const int64_t size[3],
                         const int64_t ld[3], double gain) {
  const bool chosen = part->choice.sketch == tg_gemm_plain.kernel;
  double before, after;
  uint64_t words[2];
  e->parts_n = 1;
  e->part[0] = *part;
  memset(e->part[0].kernel, 0, sizeof e->part[0].kernel), memset(e->part[0].last, 0, sizeof e->part[0].last);
  memset(&e->part[0].partial, 0, sizeof e->part[0].partial);
  if (!price(g, part, size, ld, &before, &words[0]) || !price(e, &e->part[0], size, ld, &after, &words[1]) ||
      after >= before + gain || (chosen && words[0] != words[1])) return TG_MISS;
  tg_status s = tg_gemm_compile_part(e, &e->part[0]);
  return s == TG_OK ? tg_gemm_keep_texts(e) : s;
}

static void *extend(const void *plan, const void *given, const tg_program_epilogue *more) {
  static const char *const names[TG_GEMM_ARGS] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"};
  const tg_gemm *g = plan;
  int64_t size[3], ld[3];
  const tg_kit_part *part = tg_gemm_part_of(g, given, size, ld);
  if (!part || more->arguments_n > TG_GEMM_ARGS || more->type != g->problem.c ||
      !is_chosen(&part->kernel[GEMM_FRESH], &part->choice) || !is_chosen(&part->last[GEMM_FRESH], &part->last_choice))
    return NULL;
  const char *text = in_blocks(part) ? more->in_blocks : more->text;
  if (!text || (more->adds && in_blocks(part))) return NULL;
  tg_gemm *e = tg_kit_new(g->plan.context, sizeof *e);
  if (!e) return NULL;
  *e = *g;
  e->plan = (tg_kit_plan){.context = g->plan.context, .threads = g->plan.threads, .most = g->plan.most,
                          .strips = part->strips.n > 1 || part->pieces};
  e->texts = NULL, e->texts_n = 0, e->parts_n = 0;
  memset(e->nothing, 0, sizeof e->nothing), memset(e->merge, 0, sizeof e->merge);
  e->problem.epilogue = text, e->problem.arguments_n = more->arguments_n;
  for (uint32_t a = 0; a < more->arguments_n; a++)
    e->problem.argument[a] = (tg_kit_argument){names[a], more->argument[a].type, more->argument[a].per};
  if (compile(e, g, part, size, ld, more->seconds) == TG_OK) return e;
  tg_gemm_free(e);
  return NULL;
}

static tg_status step(tg_program *p, const void *extended, const void *given, const tg_program_epilogue *e,
                      tg_program_step **out) {
  tg_gemm_call c;
  memcpy(&c, given, sizeof c);
  memset(c.arg, 0, sizeof c.arg), memset(c.arg_ld, 0, sizeof c.arg_ld);
  for (uint32_t a = 0; a < e->arguments_n; a++) c.arg[a] = (const void *)e->argument[a].at;
  c.c = (void *)e->result;
  return tg_gemm_put_call(p, extended, &c, out);
}

static void drop(void *extended) { tg_gemm_free(extended); }

const tg_program_ends tg_gemm_ends = {ends, extend, step, drop};
