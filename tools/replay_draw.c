/* SPDX-License-Identifier: MIT
 * tg replay draw: words of schedules drawn at random (tests/fuzz/words.c) over the kernels of a file, as lines for a
 * list. Each word stands behind those that were accepted, and is dropped if the list is refused with it. The same seed
 * draws the same from the same compiler. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../tests/fuzz/words.h"
#include "dsl/text.h"
#include "replay.h"

enum {
  MOST_WORDS = 8,
  TRIES = 5,
  LIST = 1200,
  MOST_TEXT = 60000
}; /* bytes of a linear form: larger ones cost the replay more than they tell */

typedef struct {
  tg_compilation work;
  words words;
  uint64_t state;
  const char **names;
  uint32_t kernels;
} drawing;

static uint32_t draw(void *user, uint32_t limit) {
  drawing *d = user;
  uint64_t z = d->state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return limit > 1 ? (uint32_t)((z ^ z >> 31) >> 20) % limit : 0;
}

/* Names of the file's kernels, which outlive the job. */
static void list_kernels(void *user) {
  drawing *d = user;
  const char **names = tg_kernel_names(d->work.job, d->work.source->file, d->work.source->text, &d->kernels);
  d->names = malloc((d->kernels + 1) * sizeof *d->names);
  if (!d->names) abort();
  for (uint32_t i = 0; i < d->kernels; i++)
    if (!(d->names[i] = strdup(names[i]))) abort();
}

/* Ranges, buffers and sizes that words may name. */
static void list_names(void *user) {
  drawing *d = user;
  words *w = &d->words;
  tg_job *j = d->work.job;
  uint32_t n;
  tg_kernel_source_read(j, d->work.source);
  memset(w, 0, sizeof *w);
  w->draw = draw, w->user = d, w->made = 100;
  const tg_uop **order = tg_toposort(j, j->sink, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_RANGE) {
      const char *name = j->ranges.data[tg_range_ordinal(u)].name;
      bool known = false;
      for (int k = 0; k < w->ranges; k++) known |= !strcmp(w->range[k].name, name);
      if (!known) words_add_range(w, name, tg_extent(u)->op == TG_OP_CONST);
    } else if (u->op == TG_OP_DEFINE) {
      const tg_buffer *b = tg_buffer_info(j, u);
      if (b->role == TG_ROLE_TEMP) words_add_buffer(w->tile, &w->tiles, b->name);
      else if (b->role == TG_ROLE_IN) words_add_buffer(w->input, &w->inputs, b->name);
      else words_add_buffer(w->output, &w->outputs, b->name);
    }
  }
  for (uint32_t i = 0; i < j->params.n; i++) words_add_buffer(w->size, &w->sizes, j->params.data[i].name);
}

static bool is_accepted(tg_context *c, tg_kernel_source s, const char *list) {
  tg_compile_options o = *s.options;
  replay_code code = {.context = c};
  o.opts = list;
  s.options = &o;
  bool good = replay_add(&code, &s) && code.text_n < MOST_TEXT;
  free(code.text);
  return good;
}

static bool draw_list(drawing *d, char list[LIST]) {
  char word[WORDS_TEXT];
  int wanted = 1 + (int)draw(d, MOST_WORDS), kept = 0;
  *list = 0;
  if (tg_compilation_run(&d->work, list_names, d) || !d->words.ranges) return false;
  for (int tries = wanted * TRIES; kept < wanted && tries > 0; tries--) {
    size_t n = strlen(list);
    words_draw(&d->words, word);
    if (n + strlen(word) + 4 > LIST) break;
    snprintf(list + n, LIST - n, "%s%s", n ? "; " : "", word);
    if (is_accepted(d->work.context, *d->work.source, list)) kept++;
    else list[n] = 0;
  }
  return kept > 0;
}

bool replay_draw(const char *file, const char *text, const char *target, const char *kernel, uint64_t seed, int lists) {
  tg_compile_options o = {.flags = TG_COMPILE_AS_WRITTEN | TG_COMPILE_OPTS_ONLY};
  tg_kernel_source s = {.file = file, .text = text, .options = &o};
  drawing d = {.work = {.context = replay_context(target, 1), .source = &s}};
  char list[LIST];
  if (!d.work.context) return fprintf(stderr, "tg: no row is named '%s'\n", target), false;
  if (tg_compilation_run(&d.work, list_kernels, &d))
    return fprintf(stderr, "%s\n", tg_error_message(d.work.context)), false;
  for (uint32_t i = 0; i < d.kernels; i++) {
    if (kernel && strcmp(d.names[i], kernel)) continue;
    o.kernel = d.names[i];
    d.state = tg_hash(d.names[i], strlen(d.names[i]), seed);
    for (int n = 0; n < lists; n++)
      if (draw_list(&d, list))
        printf("%s%s%s %s - - - | %s\n", file, d.kernels > 1 ? ":" : "", d.kernels > 1 ? d.names[i] : "", target, list);
  }
  for (uint32_t i = 0; i < d.kernels; i++) free((void *)(uintptr_t)d.names[i]);
  free(d.names);
  return true;
}
