/* SPDX-License-Identifier: MIT
 * A map behind an operation of a program as the operation's epilogue. The operation tells what it does with its sums
 * now, as a map; the compiler puts the two maps together, with the bits of both one after another (src/compile/fuse.c),
 * and gives them back as an expression; the operation makes a plan that ends with it, and says whether that pays. */
#include <stdio.h>
#include "api/program.h"

typedef struct {
  tg_compilation work;
  tg_program_extended *x;
  const void *call;
  const tg_program_ends *ends;
  tg_program_epilogue e;
} attempt;

static void ask(void *arg) {
  attempt *a = arg;
  tg_context *c = a->work.context;
  tg_program_extended *x = a->x;
  if (!c->compiler->fuse(a->work.job, c, &x->question) || x->question.buffers_n > TG_PROGRAM_VALUES + 2) return;
  a->e.text = x->question.text, a->e.in_blocks = x->question.in_blocks, a->e.seconds = x->question.seconds;
  a->e.arguments_n = x->question.buffers_n - 2;   /* without sums and result */
  for (uint32_t i = 0; i < a->e.arguments_n; i++)
    a->e.argument[i].type = x->question.value[1 + i].type, a->e.argument[i].per = x->question.value[1 + i].per;
  a->e.adds = x->question.adds;
  a->e.type = x->question.value[1 + a->e.arguments_n].type;
  x->extended = a->ends->extend(x->plan, a->call, &a->e);
}

/* The answer to the question, found before or now. NULL: out of memory */
static const tg_program_extended *answer(tg_program *p, const tg_program_step *w, const tg_fusion *question,
                                         const tg_program_ending *ending) {
  for (const tg_program_extended *x = p->extended; x; x = x->next)
    if (x->plan == w->plan && !memcmp(x->shape, ending->shape, sizeof x->shape) &&
        tg_program_same_question(&x->question, question)) return x;
  tg_program_extended *made = tg_program_take(p, sizeof *made);
  if (!made) return NULL;
  *made = (tg_program_extended){.next = p->extended, .question = *question, .plan = w->plan, .ends = w->ends};
  memcpy(made->shape, ending->shape, sizeof made->shape);
  p->extended = made;
  /* looks like a kernel to the compiler, which reads its text */
  tg_kernel now = {.context = p->context,
                   .text = (char *)(uintptr_t)ending->text,
                   .info = {.name = "ending", .buffers = ending->buffer, .buffers_n = ending->buffers_n}};
  attempt a = {.work = {.context = p->context}, .x = made, .call = w->call, .ends = w->ends};
  made->question.kernel[TG_WRITER] = &now;
  tg_compilation_run(&a.work, ask, &a);
  made->question.kernel[TG_WRITER] = NULL;
  made->question.text = made->question.in_blocks = made->question.words = NULL;
  return made;
}

static tg_program_step *extend(tg_program *p, tg_program_step *const pair[2], uint32_t between,
                               tg_program_ending *ending) {
  const tg_program_step *w = pair[TG_WRITER], *r = pair[TG_READER];
  tg_program_step *step = NULL;
  if (!w->ends->ends(w->plan, w->call, ending)) return NULL;
  tg_fusion question = {.asks = TG_FUSE_EPILOGUE,
                        .kernel = {NULL, r->kernel},
                        .params = {NULL, r->params},
                        .between = {ending->buffers_n - 1, between}};
  tg_program_find_same(r, between, ending->at, ending->buffers_n - 1, question.same);
  const tg_program_extended *x = answer(p, w, &question, ending);
  if (!x || !x->extended) return NULL;
  tg_program_epilogue e = {.arguments_n = x->question.buffers_n - 2};
  for (uint32_t i = 1; i < x->question.buffers_n; i++) {
    uint32_t k = x->question.buffer[i].buffer;
    uintptr_t at = x->question.buffer[i].of == TG_WRITER ? ending->at[k] : r->pointers[k].value;
    if (i > e.arguments_n) e.result = at;
    else e.argument[i - 1].at = at;
  }
  return w->ends->step(p, x->extended, w->call, &e, &step) == TG_OK ? step : NULL;
}

tg_program_step *tg_program_extend(tg_program *p, tg_program_step *const pair[2], uint32_t between) {
  const tg_allocator *a = &p->context->env.allocator;
  tg_program_ending *ending = a->alloc(a->user, sizeof *ending);   /* threads of callers may have small stacks */
  if (!ending) return NULL;
  memset(ending, 0, sizeof *ending);
  tg_program_step *step = extend(p, pair, between, ending);
  a->free(a->user, ending, sizeof *ending);
  return step;
}
