/* SPDX-License-Identifier: MIT
 * Lists of plans for tg build: each line a name and the fields of a descriptor. */
#define _GNU_SOURCE
#include "build_shapes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attention_words.h"
#include "shapes.h"

enum { MOST = 1000 };

/* ---- products ---- */

static bool read_types(const char *name, tg_gemm_desc *d) {
  const tool_types *t = tool_types_named(name);
  if (!t) return false;
  d->a = (uint8_t)t->a, d->b = (uint8_t)t->b, d->c = (uint8_t)t->c, d->flags |= t->flags;
  return true;
}

/* NAME:TYPE:PER */
static bool read_argument(char *word, tg_gemm_desc *d) {
  static const char *const pers[] = {"all", "row", "column", "element"};
  uint32_t a = 0, per = 0;
  char *type = strchr(word, ':'), *by = type ? strchr(type + 1, ':') : NULL;
  while (a < TG_GEMM_ARGS && d->arg[a].name) a++;
  if (!by || a == TG_GEMM_ARGS) return false;
  *type++ = 0, *by++ = 0;
  while (per < 4 && strcmp(pers[per], by)) per++;
  d->arg[a].name = word, d->arg[a].type = (uint8_t)tool_type_named(type), d->arg[a].per = (uint8_t)per;
  return per < 4 && tool_type_named(type);
}

static bool read_product_word(char *word, tg_gemm_desc *d, bool *packed) {
  const struct { const char *name; uint32_t flag; } flags[] = {
      {"invariant", TG_GEMM_BATCH_INVARIANT}, {"one", TG_GEMM_ONE_KERNEL}, {"unchecked", TG_GEMM_OVERLAP_UNCHECKED},
      {"not_zero", TG_GEMM_NOT_ZERO}};
  const struct { const char *name; uint8_t *type; } types[] = {
      {"c", &d->c}, {"scale", &d->b_scale}, {"zero", &d->b_zero}, {"a", &d->a}, {"b", &d->b}};
  const struct { const char *name; int64_t *number; } numbers[] = {
      {"lda", &d->a_ld.lo}, {"ldb", &d->b_ld.lo}, {"ldc", &d->c_ld.lo}, {"group", &d->b_group}};
  const char *v;
  int64_t n;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(word, flags[i].name)) return d->flags |= flags[i].flag, true;
  if (!strcmp(word, "alpha") || !strcmp(word, "beta")) return *(word[0] == 'a' ? &d->alpha : &d->beta) = 1, true;
  if (!strcmp(word, "packed")) return *packed = true;
  if ((v = tool_value_of(word, "types"))) return read_types(v, d);
  if ((v = tool_value_of(word, "bits"))) return tool_number(v, &n) && (d->b_bits = (uint8_t)n, n == 4 || n == 8);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if ((v = tool_value_of(word, types[i].name))) return (*types[i].type = (uint8_t)tool_type_named(v)) != TG_VOID;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if ((v = tool_value_of(word, numbers[i].name))) return tool_number(v, numbers[i].number);
  return strchr(word, ':') && read_argument(word, d);
}

static bool read_product(char *line, tg_gemm_desc *d, bool *packed, const char **name, const char **wrong) {
  tg_dim *const sizes[] = {&d->m, &d->n, &d->k};
  char *epilogue = strstr(line, "epilogue="), *rest = line, *word;
  if (epilogue) {
    d->epilogue = epilogue + strlen("epilogue=");
    *epilogue = 0;
  }
  for (int at = 0; (word = strsep(&rest, " \t\r"));) {
    if (!*word) continue;
    *wrong = word;
    if (at == 0) *name = word;
    else if (at <= 3) {
      if (!tool_size(word, sizes[at - 1])) return false;
    } else if (at == 4 && strlen(word) == 2 && strspn(word, "NT") == 2) {
      d->a_major = word[0] == 'T', d->b_major = word[1] == 'T';
    } else if (!read_product_word(word, d, packed)) return false;
    at++;
    if (at > 3) *wrong = NULL;
  }
  return !*wrong;
}

/* ---- the list ---- */

static bool make(tool_plans *p) {
  p->name = calloc(MOST, sizeof *p->name);
  p->gemm = calloc(MOST, sizeof *p->gemm);
  p->attention = calloc(MOST, sizeof *p->attention);
  p->packing = calloc(MOST, sizeof *p->packing);
  p->packed = calloc(MOST, sizeof *p->packed);
  return p->name && p->gemm && p->attention && p->packing && p->packed;
}

bool tool_read_plans(const char *path, bool attention, tool_plans *p) {
  char *rest;
  *p = (tool_plans){.text = tool_read(path, NULL)};
  if (!p->text) return fprintf(stderr, "tg: %s: %s\n", path, strerror(errno)), false;
  if (!make(p)) return perror("tg"), false;
  int number = 0;
  rest = p->text;
  for (char *line; (line = strsep(&rest, "\n"));) {
    const char *wrong = NULL;
    line[strcspn(line, "#")] = 0;
    number++;
    if (!line[strspn(line, " \t\r")]) continue;
    if (p->n == MOST) return fprintf(stderr, "tg: %s: more than %d lines\n", path, MOST), false;
    int i = p->n++;
    bool good = attention ? tool_attention_line(line, &p->attention[i], &p->name[i], &wrong)
                          : read_product(line, &p->gemm[i], &p->packed[i], &p->name[i], &wrong);
    if (!good)
      return fprintf(stderr, "tg: %s:%d: '%s': %s is wanted\n", path, number, wrong ? wrong : line,
                     attention ? "NAME queries=N keys=N head=N [WORD ..]" : "NAME M N K [NN] [types=f32 ..]"),
             false;
  }
  return p->n > 0 || (fprintf(stderr, "tg: %s: no line names a function\n", path), false);
}

void tool_plans_free(tool_plans *p) {
  free(p->text), free(p->name), free(p->gemm), free(p->attention), free(p->packing), free(p->packed);
}
