/* SPDX-License-Identifier: MIT
 * The code of a kernel for tg replay: by a context's own compiler, but for any target, whether it runs here or not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dsl/text.h"
#include "replay.h"
#include "tool.h"

tg_context *replay_context(const char *target, uint32_t threads) {
  static struct {
    char target[64];
    uint32_t threads;
    tg_context *context;
  } made[32];
  uint32_t i = 0;
  tg_target row;
  for (; i < TG_COUNT(made) && made[i].context; i++)
    if (made[i].threads == threads && !strcmp(made[i].target, target)) return made[i].context;
  const tg_context_options o = {.target = target, .threads = 1, .tuned = ""};
  if (i == TG_COUNT(made) || !tg_target_row(&row, target) || tg_context_create(&o, &made[i].context)) return NULL;
  made[i].threads = threads;
  made[i].context->target = row; /* nothing of this machine */
  if (!tg_target_is_device(&row)) made[i].context->target.threads = threads;
  snprintf(made[i].target, sizeof made[i].target, "%s", target);
  return made[i].context;
}

static void append(char **to, size_t *to_n, const void *data, size_t n) {
  char *more = realloc(*to, *to_n + n + 1);
  if (!more) {
    fprintf(stderr, "tg: no memory\n");
    exit(TOOL_BROKEN);
  }
  memcpy(more + *to_n, data, n);
  *to = more, *to_n += n;
}

void replay_note(replay_code *r, const char *text) { append(&r->text, &r->text_n, text, strlen(text)); }

/* ---- one kernel ---- */

typedef struct {
  tg_compilation work;
  replay_code *code;
  bool objects;
} one;

static void pass_or_compile(void *arg) {
  one *o = arg;
  tg_job *j = o->work.job;
  if (o->objects) o->work.context->compiler->compile(j, o->work.context, o->work.source, &o->work.entry, NULL);
  else tg_run_passes(j, o->work.context, o->work.source, NULL, NULL, NULL);
}

/* What packs an operand ahead is a kernel of its own, made of this text. */
static void keep(one *o) {
  tg_job *j = o->work.job;
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, j->sink);
  for (uint32_t i = 0; i < j->packings.n; i++) tg_str_printf(&text, "\npacking:\n%s", j->packings.data[i].text);
  append(&o->code->text, &o->code->text_n, text.data, text.n);
  if (o->objects) append(&o->code->object, &o->code->object_n, o->work.entry.object, o->work.entry.object_n);
}

static void compile(void *arg) {
  one *o = arg;
  tg_job *j = o->work.job;
  tg_kernel_source_check(j, o->work.source);
  tg_kernel_source_read(j, o->work.source);
  tg_on_own_stack(&j->env, pass_or_compile, o);
  keep(o);
}

static tg_status attempt(replay_code *r, const tg_kernel_source *s, bool objects) {
  one o = {.work = {.context = r->context, .source = s}, .code = r, .objects = objects};
  tg_status status = tg_compilation_run(&o.work, compile, &o);
  if (status != TG_OK) snprintf(r->message, sizeof r->message, "%s", tg_error_message(r->context));
  return status;
}

bool replay_add(replay_code *r, const tg_kernel_source *s) {
  tg_status status = attempt(r, s, r->objects), lowering = status;
  if (status != TG_OK && r->objects) { /* who refused it? */
    char message[sizeof r->message];
    memcpy(message, r->message, sizeof message);
    lowering = attempt(r, s, false);
    memcpy(r->message, message, sizeof message);
  }
  r->refused = lowering;
  r->object_refused = lowering == TG_OK ? status : TG_OK;
  return status == TG_OK;
}
