/* SPDX-License-Identifier: MIT
 * tg bench model --stage columns: which columns of the machine's row the first choices depend on. Each column is moved
 * down and up, by a factor of two and by a fifth: in how many sets of recorded points is another point the model's
 * first then, for how many of their products does a plan choose something else, on one thread and on several, and how
 * many texts (of tests/bench/kernels and PolyBench) become another program? A price is about linear in a column, and
 * what is cheapest at two values is so between them: where a column neither halved nor doubled changes the choice, a
 * fifth is not asked. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/columns.h"

enum { FAR = 2 };   /* of the moves: those by a factor of two come first */
static const double by[COLUMNS_MOVES] = {0.5, 2, 0.8, 1.2};

bool columns_open(columns *c, const tg_target *t) {
  size_t counts = COLUMNS_MOST * sizeof *c->count, all = COLUMNS_KINDS * sizeof *c->all;
  *c = (columns){.workers = 1};
  char *shared = mmap(NULL, counts + all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return false;
  c->count = (columns_count *)(void *)shared, c->all = (uint32_t *)(void *)(shared + counts);
  for (const tg_machine_column *column; c->n < COLUMNS_MOST && (column = tg_machine_column_at(c->n)); c->n++)
    for (uint32_t k = 0; k < COLUMNS_MOVES; k++) {
      tg_target *moved = &c->moved[c->n][k];
      *moved = *t;
      double *value = tg_machine_value(&moved->machine, column);
      for (uint32_t w = 0; w < column->widths; w++) value[w] *= by[k];
      tg_target_derive(moved);
    }
  return true;
}

void columns_divide(columns *c, int workers) {
  fflush(stdout);
  for (c->workers = workers > 1 ? (uint32_t)workers : 1; c->me + 1 < c->workers; c->me++)
    if (fork() == 0) return;
}

bool columns_join(columns *c) {
  fflush(stdout);
  if (c->me + 1 < c->workers) _exit(TOOL_OK);
  while (wait(NULL) > 0) continue;
  return true;
}

bool columns_mine(columns *c) { return c->turn++ % c->workers == c->me; }

static void count(uint32_t *of) { __atomic_fetch_add(of, 1, __ATOMIC_RELAXED); }

void columns_ask(columns *c, uint32_t kind, const char *name, columns_choice *choice, void *user) {
  const tg_target *on[COLUMNS_MOST * FAR];
  uint64_t far[COLUMNS_MOST * FAR], near[COLUMNS_MOST * FAR], own;
  uint32_t column[COLUMNS_MOST], n = 0;
  if (!choice(user, NULL, 0, &own)) return;
  for (uint32_t i = 0; i < c->n; i++)
    for (uint32_t k = 0; k < FAR; k++) on[i * FAR + k] = &c->moved[i][k];
  if (!choice(user, on, c->n * FAR, far)) return;
  count(&c->all[kind]);
  for (uint32_t i = 0; i < c->n; i++) {
    if (far[i * FAR] == own && far[i * FAR + 1] == own) continue;
    for (uint32_t k = 0; k < FAR; k++) on[n * FAR + k] = &c->moved[i][FAR + k];
    column[n++] = i;
  }
  if (!n || !choice(user, on, n * FAR, near)) return;
  for (uint32_t i = 0; i < n; i++) {
    columns_count *of = &c->count[column[i]];
    const uint64_t now[] = {far[column[i] * FAR], far[column[i] * FAR + 1], near[i * FAR], near[i * FAR + 1]};
    for (uint32_t k = 0; k < COLUMNS_MOVES; k++)
      if (now[k] != own) count(&of->of[kind][k]);
    printf("%s: %s: %s%s%s%s\n", tg_machine_column_at(column[i])->name, name, now[0] != own ? " half" : "",
           now[1] != own ? " twice" : "", now[2] != own ? " -20%" : "", now[3] != own ? " +20%" : "");
  }
  fflush(stdout);
}

/* ---- texts ---- */

typedef struct { tg_context *ctx; tg_target own; const char *name, *text; } text_asked;

/* The program that the text becomes. */
static bool programs(void *user, const tg_target *const *on, uint32_t n, uint64_t *choice) {
  text_asked *t = user;
  const tg_compile_options o = {.flags = TG_COMPILE_UNTUNED};
  tg_kernel_source s = {.file = t->name, .text = t->text, .options = &o};
  for (uint32_t i = 0; i < (on ? n : 1); i++) {
    tg_price p = {.hash = 0};
    t->ctx->target = on ? *on[i] : t->own, t->ctx->target.threads = t->own.threads;
    bool known = !tg_price_of(t->ctx, &s, NULL, 1, &p);
    choice[i] = known ? p.hash : 0;
    if (!known && !on) return false;
  }
  return true;
}

static void ask_text(columns *c, const char *row, int threads, const char *name, const char *text) {
  text_asked t = {.name = name, .text = text};
  char with[300];
  snprintf(with, sizeof with, "%s on %d", name, threads);
  if (tg_context_create(&(tg_context_options){.target = row, .tuned = "", .threads = threads}, &t.ctx)) return;
  t.own = t.ctx->target;
  columns_ask(c, COLUMNS_TEXTS, with, programs, &t);
  tg_context_free(t.ctx);
}

void columns_texts(columns *c, const char *row, const char *folder) {
  static const int threads[] = {1, 8};
  struct dirent **entry;
  int n = scandir(folder, &entry, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *end = strrchr(entry[i]->d_name, '.');
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
    char *text = end && !strcmp(end, ".tg") ? tool_read(path, NULL) : NULL;
    for (uint32_t k = 0; text && k < TG_COUNT(threads); k++)
      if (columns_mine(c)) ask_text(c, row, threads[k], entry[i]->d_name, text);
    free(text), free(entry[i]);
  }
  if (n >= 0) free(entry);
}

/* How many of each kind two moves change. */
static uint32_t put_moves(const columns_count *m, uint32_t first) {
  uint32_t sum = 0;
  for (uint32_t kind = 0; kind < COLUMNS_KINDS; kind++) {
    printf(" %4u+%-3u", m->of[kind][first], m->of[kind][first + 1]);
    sum += m->of[kind][first] + m->of[kind][first + 1];
  }
  printf("  ");
  return sum;
}

void columns_report(const columns *c) {
  uint32_t none = 0, even = 0;
  printf("of %u sets, %u plans, %u texts (less+more):\n%-21s%-29shalf and twice\n", c->all[COLUMNS_SETS],
         c->all[COLUMNS_PLANS], c->all[COLUMNS_TEXTS], "", "by a fifth");
  for (uint32_t i = 0; i < c->n; i++) {
    printf("%-20s", tg_machine_column_at(i)->name);
    uint32_t little = put_moves(&c->count[i], FAR), much = little + put_moves(&c->count[i], 0);
    none += !little, even += !much;
    printf("%s\n", !much ? "none" : !little ? "none by a fifth" : "");
  }
  printf("columns that change no choice: %u of %u by a fifth, %u by a factor of two\n", none, c->n, even);
}
