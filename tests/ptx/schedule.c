/* SPDX-License-Identifier: MIT
 * Words of a schedule, drawn. */
#include <stdio.h>
#include "../fuzz/words.h"
#include "ranges/ranges.h"
#include "schedule.h"

enum { MOST = 5, TRIES = 4, MOST_NODES = 3000 };

typedef struct {
  kit_path *path;
  const kit_program *program;
  tg_job job;
  words words;
  const char *list;
  uint32_t state;
  bool too_large;
} draft;

static uint32_t draw(void *user, uint32_t limit) {
  draft *d = user;
  d->state = d->state * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)(d->state >> 4) * limit) >> 28);
}

void schedule_push(tg_job *j, const char *list) {
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ";");
    const char *text = tg_strndup(&j->env, at, n);
    tg_push(&j->env, &j->opts, ((tg_opt_text){text, {.file = "words", .text = text, .line = 1, .column = 1, .length = (int)n}}));
    at += n + (at[n] == ';');
    at += strspn(at, " ");
  }
}

static void list_names(void *user) {
  draft *d = user;
  words *w = &d->words;
  uint32_t n;
  tg_parse_kernel(&d->job, d->program->path, d->program->text, 0, NULL);
  const tg_uop **order = tg_toposort(&d->job, d->job.sink, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_RANGE) words_add_range(w, d->job.ranges.data[tg_range_ordinal(u)].name, tg_extent(u)->op == TG_OP_CONST);
    if (u->op != TG_OP_DEFINE) continue;
    const tg_buffer *b = tg_buffer_info(&d->job, u);
    if (b->role == TG_ROLE_TEMP) words_add_buffer(w->tile, &w->tiles, b->name);
    else if (b->role == TG_ROLE_IN) words_add_buffer(w->input, &w->inputs, b->name);
    else words_add_buffer(w->output, &w->outputs, b->name);
  }
  for (uint32_t i = 0; i < d->job.params.n; i++) words_add_buffer(w->size, &w->sizes, d->job.params.data[i].name);
}

static void lower(void *user) {
  draft *d = user;
  uint32_t n;
  tg_lowering l = {.target = tg_jit_target(d->path->jit), .rules = d->path->rules};
  tg_parse_kernel(&d->job, d->program->path, d->program->text, 0, NULL);
  schedule_push(&d->job, d->list);
  tg_toposort(&d->job, tg_lower(&d->job, &l, "place", NULL, NULL), &n);
  d->too_large = n > MOST_NODES;
}

static bool attempt(draft *d, void (*fn)(void *)) {
  tg_job_init(&d->job, NULL);
  bool ok = tg_protect(&d->job.env, fn, d);
  tg_job_drop(&d->job);
  return ok;
}

void schedule_draw(kit_path *path, const kit_program *program, uint32_t seed, char list[SCHEDULE_WORDS]) {
  draft d = {.path = path, .program = program, .list = list, .state = seed * 2654435761u + 12345};
  char word[WORDS_TEXT];
  list[0] = 0;
  d.words.draw = draw, d.words.user = &d, d.words.made = 100;
  if (!attempt(&d, list_names) || !d.words.ranges) return;
  for (int wanted = 1 + (int)draw(&d, MOST), kept = 0, tries = wanted * TRIES; kept < wanted && tries > 0; tries--) {
    size_t n = strlen(list);
    words_draw(&d.words, word);
    if (n + strlen(word) + 4 > SCHEDULE_WORDS) return;
    snprintf(list + n, SCHEDULE_WORDS - n, "%s%s", n ? "; " : "", word);
    if (attempt(&d, lower) && !d.too_large) kept++;
    else list[n] = 0;
  }
}
