/* SPDX-License-Identifier: MIT
 * A descriptor of attention in words. */
#define _GNU_SOURCE
#include "attention_words.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

tg_type tool_type_named(const char *name) {
  static const struct { const char *name; tg_type type; } all[] = {
      {"bool", TG_BOOL}, {"i8", TG_I8},   {"u8", TG_U8},     {"i32", TG_I32},
      {"f16", TG_F16},   {"bf16", TG_BF16}, {"f32", TG_F32}, {"f64", TG_F64}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, name)) return all[i].type;
  return TG_VOID;
}

bool tool_size(const char *text, tg_dim *out) {
  char *end;
  errno = 0;
  *out = (tg_dim){strtoll(text, &end, 10), 0};
  if (end == text || errno || out->lo < 0) return false;
  if (!*end) return true;
  if (strncmp(end, "..", 2)) return false;
  const char *from = end + 2;
  out->hi = strtoll(from, &end, 10);
  return end != from && !*end && !errno && out->hi >= out->lo && out->hi > 0;
}

bool tool_number(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && !*end && !errno;
}

const char *tool_value_of(const char *word, const char *key) {
  size_t n = strlen(key);
  return !strncmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static bool read_real(const char *text, float *out) {
  char *end;
  *out = strtof(text, &end);
  return end != text && !*end;
}

/* "all", or some of batch, head, query, key, packed with '+' between them. */
static bool read_per(char *text, uint8_t *out) {
  static const struct { const char *name; uint8_t bit; } all[] = {
      {"batch", TG_PER_BATCH}, {"head", TG_PER_HEAD}, {"query", TG_PER_QUERY}, {"key", TG_PER_KEY},
      {"packed", TG_PACKED}, {"all", 0}};
  *out = 0;
  for (char *one; (one = strsep(&text, "+"));) {
    size_t i = 0, n = sizeof all / sizeof *all;
    while (i < n && strcmp(all[i].name, one)) i++;
    if (i == n) return false;
    *out |= all[i].bit;
  }
  return true;
}

static bool read_mask(char *text, tg_attention_desc *d) {
  char *type = strsep(&text, ":");
  d->mask = (uint8_t)tool_type_named(type), d->mask_per = TG_PER_QUERY | TG_PER_KEY;
  return d->mask && (!text || read_per(text, &d->mask_per));
}

static bool read_blocks(char *text, tg_attention_desc *d) {
  char *size = strsep(&text, ":"), *keys = strchr(size, 'x'), *end;
  if (!keys) return false;
  d->block_rows = (int32_t)strtol(size, &end, 10);
  if (end != keys || end == size) return false;
  d->block_keys = (int32_t)strtol(keys + 1, &end, 10);
  return end != keys + 1 && !*end && (!text || read_per(text, &d->block_per));
}

/* NAME:TYPE:PER */
static bool read_argument(char *word, tg_attention_desc *d) {
  uint32_t a = 0;
  char *name = strsep(&word, ":"), *type = strsep(&word, ":");
  while (a < TG_ATTENTION_ARGS && d->arg[a].name) a++;
  if (!type || !word || a == TG_ATTENTION_ARGS) return false;
  d->arg[a].name = name, d->arg[a].type = (uint8_t)tool_type_named(type);
  return d->arg[a].type && read_per(word, &d->arg[a].per);
}

bool tool_attention_word(char *word, tool_attention *to) {
  tg_attention_desc *d = &to->desc;
  const struct { const char *name; uint8_t *field, value; } flags[] = {
      {"causal", &d->causal, TG_CAUSAL_BOTTOM_RIGHT}, {"causal_top_left", &d->causal, TG_CAUSAL_TOP_LEFT},
      {"lse", &d->lse, 1}, {"base2", &d->base2, 1}, {"alibi", &d->alibi, 1}, {"sinks", &d->sinks, 1},
      {"backward", &d->backward, 1}, {"append", &d->append, 1}, {"rotary_neighbours", &d->rotary_neighbours, 1}};
  const struct { const char *name; int32_t *number; } numbers[] = {
      {"heads", &d->heads}, {"kv_heads", &d->kv_heads}, {"head", &d->head}, {"value_head", &d->value_head},
      {"kv_group", &d->kv_group}, {"rotary", &d->rotary}};
  const struct { const char *name; uint8_t *type; } types[] = {
      {"types", &d->q}, {"k", &d->k}, {"v", &d->v}, {"o", &d->o}, {"kv_scale", &d->kv_scale}};
  const char *v;
  int64_t n = 0;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(word, flags[i].name)) return *flags[i].field = flags[i].value, true;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if ((v = tool_value_of(word, numbers[i].name)))
      return tool_number(v, &n) && (*numbers[i].number = (int32_t)n) == n;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if ((v = tool_value_of(word, types[i].name))) return (*types[i].type = (uint8_t)tool_type_named(v)) != TG_VOID;
  if (!strcmp(word, "lengths")) return d->flags |= TG_ATTENTION_LENGTHS, true;
  if (!strcmp(word, "query_starts")) return d->flags |= TG_ATTENTION_QUERY_STARTS, true;
  if (!strcmp(word, "key_starts")) return d->flags |= TG_ATTENTION_KEY_STARTS, true;
  if (!strcmp(word, "unchecked")) return d->flags |= TG_ATTENTION_OVERLAP_UNCHECKED, true;
  if ((v = tool_value_of(word, "queries"))) return tool_size(v, &d->queries);
  if ((v = tool_value_of(word, "keys"))) return tool_size(v, &d->keys);
  if ((v = tool_value_of(word, "window"))) return tool_number(v, &d->window);
  if ((v = tool_value_of(word, "page_size"))) return tool_number(v, &d->page_size);
  if ((v = tool_value_of(word, "kv_bits"))) return tool_number(v, &n) && (d->kv_bits = (uint8_t)n, n == 4 || n == 8);
  if ((v = tool_value_of(word, "scale"))) return d->scale = &to->scale, read_real(v, &to->scale);
  if ((v = tool_value_of(word, "soft_cap"))) return read_real(v, &d->soft_cap);
  if ((v = tool_value_of(word, "dropout"))) return read_real(v, &d->dropout);
  if ((v = tool_value_of(word, "mask"))) return read_mask(word + (v - word), d);
  if ((v = tool_value_of(word, "blocks"))) return read_blocks(word + (v - word), d);
  if ((v = tool_value_of(word, "score_mod"))) return d->score_mod = v, *v;
  if ((v = tool_value_of(word, "mask_mod"))) return d->mask_mod = v, *v;
  return strchr(word, ':') && read_argument(word, d);
}

/* Cuts KEY=TEXT off the line where a word begins so; NULL: there is none. */
static char *cut_text(char *line, const char *key) {
  for (char *at = line; (at = strstr(at, key)); at++)
    if (at > line && strchr(" \t", at[-1]) && at[strlen(key)] == '=') return at[-1] = 0, at;
  return NULL;
}

static bool read_text(char *text, tool_attention *to, const char **wrong) {
  if (!text) return true;
  for (size_t n = strlen(text); n && strchr(" \t\r", text[n - 1]); n--) text[n - 1] = 0;
  *wrong = text;
  bool good = tool_attention_word(text, to);
  if (good) *wrong = NULL;
  return good;
}

bool tool_attention_line(char *line, tool_attention *to, const char **name, const char **wrong) {
  char *texts[] = {cut_text(line, "score_mod"), NULL}, *rest = line, *word;
  texts[1] = texts[0] ? cut_text(texts[0], "mask_mod") : NULL;
  if (!texts[1]) texts[1] = cut_text(line, "mask_mod");
  while ((word = strsep(&rest, " \t\r"))) {
    if (!*word) continue;
    *wrong = word;
    if (!*name) *name = word;
    else if (!tool_attention_word(word, to)) return false;
    *wrong = NULL;
  }
  return *name && read_text(texts[0], to, wrong) && read_text(texts[1], to, wrong);
}
