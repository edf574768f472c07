/* SPDX-License-Identifier: MIT
 * Fusing steps of a program: two launches with a temporary between them become one, if the compiler says that it can be
 * done with the same bits, and that it pays (src/compile/fuse.c); an operation and a launch likewise
 * (program_epilogue.c). Maps become one map first, then operations take the maps behind them, which cost least there,
 * then all others are looked at. Here are the conditions on memory:
 *
 * - a temporary that one step writes, as a whole, and one other reads, as a whole; nobody else uses it;
 * - the writer's work moves to where the reader stands: no step up to there writes what it reads, or uses what else it
 *   writes;
 * - all together never needs more memory than before: what the writer reads now lives until the reader's end. */
#include <stdio.h>
#include "api/program.h"

typedef struct { tg_compilation work; tg_fusion *f; tg_kernel **out; } attempt;

static bool meet(const tg_program_access *a, const tg_program_access *b) {
  return a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static bool is_in(const tg_program_access *a, const tg_program_memory *m) {
  return a->at >= (uintptr_t)m->at && a->at < (uintptr_t)m->at + m->reserved;
}

static bool uses(const tg_program_step *s, const tg_program_memory *m) {
  for (uint32_t i = 0; i < s->accesses_n; i++)
    if (is_in(&s->accesses[i], m)) return true;
  return false;
}

/* The kernel's only buffer in the memory, which begins where that does; UINT32_MAX: there is none such. */
static uint32_t buffer_at(const tg_program_step *s, const tg_program_memory *m) {
  uint32_t found = UINT32_MAX;
  for (uint32_t i = 0; i < s->pointers_n; i++) {
    if (s->pointers[i].value < (uintptr_t)m->at || s->pointers[i].value >= (uintptr_t)m->at + m->reserved) continue;
    if (found != UINT32_MAX || s->pointers[i].value != (uintptr_t)m->at) return UINT32_MAX;
    found = i;
  }
  return found;
}

/* Does any step behind `from`, up to `to`, write what `from` reads, or use what it writes beside the memory? */
static bool is_overtaken(const tg_program_step *from, const tg_program_step *to, const tg_program_memory *m) {
  for (const tg_program_step *s = from; s != to;) {
    s = s->next;
    for (uint32_t i = 0; i < s->accesses_n; i++)
      for (uint32_t k = 0; k < from->accesses_n; k++) {
        const tg_program_access *a = &from->accesses[k];
        bool moves = s->accesses[i].written || (a->written && !is_in(a, m));
        if (moves && meet(&s->accesses[i], a)) return true;
      }
  }
  return false;
}

/* Its result begins where the memory does. */
static bool is_result(const tg_program_step *s, const tg_program_memory *m) {
  for (uint32_t i = 0; i < s->accesses_n; i++)
    if (s->accesses[i].written) return s->accesses[i].at == (uintptr_t)m->at && !s->accesses[i].read;
  return false;
}

/* The two steps that use the memory, if they may become one: launches, or an operation and a launch. */
static bool find_pair(const tg_program *p, const tg_program_memory *m, tg_program_step *pair[2], uint32_t between[2]) {
  uint32_t n = 0;
  for (tg_program_step *s = p->first; s; s = s->next) {
    if (!uses(s, m)) continue;
    bool ends = !n && s->ends && is_result(s, m);
    bool launch = n < 2 && s->kernel && s->kernel->text && (between[n] = buffer_at(s, m)) != UINT32_MAX;
    if (!launch && !ends) return false;
    pair[n++] = s;
  }
  if (n != 2) return false;
  const tg_buffer_desc *r = &pair[1]->kernel->info.buffers[between[1]];
  bool writes = !pair[0]->kernel;
  if (!writes) {
    const tg_buffer_desc *w = &pair[0]->kernel->info.buffers[between[0]];
    writes = w->written && !w->read;
  }
  return writes && r->read && !r->written && !is_overtaken(pair[0], pair[1], m);
}

/* ---- the new step ---- */

static void ask(void *arg) {
  attempt *a = arg;
  tg_context *c = a->work.context;
  tg_fusion *f = a->f;
  if (!c->compiler->fuse(a->work.job, c, f)) return;
  tg_compile_options o = tg_fusion_options(f);
  if (tg_kernel_compile_text(c, "fused", f->text, &o, a->out) != TG_OK) return;
  if (tg_kernel_keep_text(*a->out, f->text, f->words, f->flags)) return;
  tg_kernel_free(*a->out), *a->out = NULL;
}

bool tg_program_same_question(const tg_fusion *a, const tg_fusion *b) {
  for (int i = 0; i < 2; i++)
    if (a->kernel[i] != b->kernel[i] || a->between[i] != b->between[i] ||
        (a->kernel[i] && a->kernel[i]->info.params_n &&
         memcmp(a->params[i], b->params[i], a->kernel[i]->info.params_n * sizeof *a->params[i]))) return false;
  return !memcmp(a->same, b->same, sizeof a->same);
}

/* The answer to the question, found before or now. NULL: out of memory */
static const tg_program_fused *answer(tg_program *p, const tg_fusion *question) {
  for (const tg_program_fused *f = p->fused; f; f = f->next)   /* of two maps the answer is the same for both asks */
    if (tg_program_same_question(&f->question, question) && (f->question.maps || f->question.asks == question->asks))
      return f;
  tg_program_fused *made = tg_program_take(p, sizeof *made);
  if (!made) return NULL;
  *made = (tg_program_fused){.next = p->fused, .question = *question};
  p->fused = made;
  attempt a = {.work = {.context = p->context}, .f = &made->question, .out = &made->kernel};
  tg_compilation_run(&a.work, ask, &a);
  made->question.text = made->question.words = NULL;
  return made;
}

void tg_program_find_same(const tg_program_step *reader, uint32_t between, const uintptr_t *at, uint32_t n,
                          uint8_t same[TG_MAX_BUFFERS]) {
  for (uint32_t i = 0; i < reader->pointers_n; i++)
    for (uint32_t k = 0; k < n && i != between; k++)
      if (reader->pointers[i].value == at[k]) same[i] = (uint8_t)(k + 1);
}

static tg_program_step *fused_step(tg_program *p, uint8_t asks, tg_program_step *const pair[2],
                                   const uint32_t between[2]) {
  tg_fusion question = {.asks = asks,
                        .kernel = {pair[0]->kernel, pair[1]->kernel},
                        .params = {pair[0]->params, pair[1]->params},
                        .between = {between[0], between[1]}};
  uintptr_t at[TG_MAX_BUFFERS];
  for (uint32_t i = 0; i < pair[TG_WRITER]->pointers_n; i++) at[i] = pair[TG_WRITER]->pointers[i].value;
  tg_program_find_same(pair[TG_READER], between[TG_READER], at, pair[TG_WRITER]->pointers_n, question.same);
  tg_argument a[TG_MAX_BUFFERS];
  tg_program_step *step = NULL;
  const tg_program_fused *f = answer(p, &question);
  if (!f || !f->kernel) return NULL;
  for (uint32_t i = 0; i < f->question.buffers_n; i++) {
    const tg_program_step *s = pair[f->question.buffer[i].of];
    uint32_t k = f->question.buffer[i].buffer;
    a[i] = (tg_argument){(void *)s->pointers[k].value, s->bytes[k]};
  }
  tg_launch l = {.buffers = a, .buffers_n = f->question.buffers_n};
  return tg_program_step_of(p, f->kernel, &l, &step) == TG_OK ? step : NULL;
}

static void replace(tg_program *p, tg_program_step *const pair[2], tg_program_step *by) {
  by->next = pair[TG_READER]->next;
  p->last = &p->first;
  for (tg_program_step *s = p->first, *next; s; s = next) {
    next = s->next;
    if (s == pair[TG_WRITER]) continue;
    *p->last = s == pair[TG_READER] ? by : s;
    p->last = &(*p->last)->next;
  }
  *p->last = NULL;
}

/* ---- all of them ---- */

typedef struct { tg_program_step **step; uint32_t n; } order;

static bool keep_order(tg_program *p, order *o) {
  o->step = tg_program_take(p, (p->steps_n + 1) * sizeof *o->step);
  for (tg_program_step *s = p->first; o->step && s; s = s->next) o->step[o->n++] = s;
  return o->step != NULL;
}

static void restore(tg_program *p, const order *o) {
  p->last = &p->first;
  for (uint32_t i = 0; i < o->n; i++) *p->last = o->step[i], p->last = &o->step[i]->next;
  *p->last = NULL;
}

/* How many steps became part of another. */
static uint32_t fuse_all(tg_program *p, uint8_t asks) {
  tg_program_step *pair[2], *by;
  uint32_t between[2], fused = 0;
  for (uint32_t i = 0; i < p->memory_n; i++) {
    if (p->memory[i].argument || !find_pair(p, &p->memory[i], pair, between)) continue;
    if (!pair[TG_WRITER]->kernel != (asks == TG_FUSE_EPILOGUE)) continue;
    by = asks == TG_FUSE_EPILOGUE ? tg_program_extend(p, pair, between[TG_READER]) : fused_step(p, asks, pair, between);
    if (!by) continue;
    replace(p, pair, by);
    fused++;
  }
  return fused;
}

tg_status tg_program_fuse(tg_program *p) {
  size_t before = p->planned + p->scratch;
  order as_put = {0};
  if (!keep_order(p, &as_put)) return TG_ENOMEM;
  uint32_t fused = fuse_all(p, TG_FUSE_MAPS);
  fused += fuse_all(p, TG_FUSE_EPILOGUE);
  fused += fuse_all(p, TG_FUSE_ANY);
  if (!fused) return TG_OK;
  tg_status s = tg_program_plan(p);
  p->fused_n = fused;
  if (s != TG_OK || p->planned + p->scratch <= before) return s;
  restore(p, &as_put);
  p->fused_n = 0;
  return tg_program_plan(p);
}
