/* SPDX-License-Identifier: MIT
 * tg bench model --stage columns: which columns of the machine's row the first choices depend on. Each column is moved
 * down and up, by a fifth and by a factor of two: in how many sets of recorded points is another point the model's
 * first then, and how many texts (of tests/bench/kernels and PolyBench, on one thread and on several) become another
 * program? */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/columns.h"

static const double by[] = {0.8, 1.2, 0.5, 2};

bool columns_open(columns *c, const tg_target *t) {
  *c = (columns){.n = 0};
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *column = tg_machine_column_at(i);
    for (uint32_t f = 0; f < TG_COUNT(by); f++) {
      if (c->n == COLUMNS_MOST) return false;
      columns_moved *m = &c->moved[c->n++];
      *m = (columns_moved){.target = *t, .column = column};
      double *value = tg_machine_value(&m->target.machine, column);
      for (uint32_t w = 0; w < column->widths; w++) value[w] *= by[f];
      tg_target_derive(&m->target);
    }
  }
  return true;
}

void columns_set(columns *c, uint32_t points, const double *base, const double *seconds, const double *measured) {
  uint32_t first = 0;
  for (uint32_t p = 1; p < points; p++)
    if (base[p] < base[first]) first = p;
  for (uint32_t i = 0; i < c->n; i++) {
    uint32_t now = 0;
    for (uint32_t p = 1; p < points; p++)
      if (seconds[p * c->n + i] < seconds[now * c->n + i]) now = p;
    c->moved[i].sets += now != first && measured[now] != measured[first];
  }
}

/* ---- texts ---- */

/* Of the program that the text becomes; 0: none. */
static uint64_t program(const char *row, const tg_target *t, int threads, const char *name, const char *text) {
  tg_context *ctx;
  tg_price p = {.hash = 0};
  if (tg_context_create(&(tg_context_options){.target = row, .tuned = "", .threads = threads}, &ctx)) return 0;
  if (t) {
    uint32_t own = ctx->target.threads;
    ctx->target = *t, ctx->target.threads = own;
  }
  const tg_compile_options o = {.flags = TG_COMPILE_UNTUNED};
  tg_kernel_source s = {.file = name, .text = text, .options = &o};
  if (tg_price_of(ctx, &s, NULL, 1, &p)) p.hash = 0;
  tg_context_free(ctx);
  return p.hash;
}

static void text_moved(columns *c, const char *row, const char *name, const char *text) {
  static const int threads[] = {1, 8};
  for (uint32_t k = 0; k < TG_COUNT(threads); k++) {
    uint64_t first = program(row, NULL, threads[k], name, text);
    c->texts += first != 0;
    for (uint32_t i = 0; first && i < c->n; i++)
      c->moved[i].texts += program(row, &c->moved[i].target, threads[k], name, text) != first;
  }
}

void columns_texts(columns *c, const char *row, const char *folder) {
  DIR *d = opendir(folder);
  for (const struct dirent *e; d && (e = readdir(d));) {
    const char *end = strrchr(e->d_name, '.');
    char path[4096];
    if (!end || strcmp(end, ".tg")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    char *text = tool_read(path, NULL);
    if (text) text_moved(c, row, e->d_name, text);
    free(text);
  }
  if (d) closedir(d);
}

void columns_report(const columns *c) {
  uint32_t none = 0, even = 0;
  printf("%-22s %18s %18s   sets of %u, texts of %u\n", "", "by a fifth", "half and twice", c->sets, c->texts);
  for (uint32_t i = 0; i + 3 < c->n; i += 4) {
    const columns_moved *m = &c->moved[i];
    uint32_t little = m[0].sets + m[1].sets + m[0].texts + m[1].texts,
             much = little + m[2].sets + m[3].sets + m[2].texts + m[3].texts;
    none += !little, even += !much;
    printf("%-22s", m->column->name);
    for (int k = 0; k < 4; k += 2)
      printf("  %3u+%-3u  %3u+%-3u ", m[k].sets, m[k + 1].sets, m[k].texts, m[k + 1].texts);
    printf("%s\n", !much ? " none" : !little ? " none by a fifth" : "");
  }
  printf("columns that change no choice: %u of %u by a fifth, %u by a factor of two\n", none, c->n / 4, even);
}
