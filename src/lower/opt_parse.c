/* SPDX-License-Identifier: MIT
 * The words of a schedule as text, both ways. docs/schedules.md has the grammar; a number may be the name of a knob or
 * of a parameter bound to a constant. What tg_opt_text_of prints parses to the same opt. */
#include "dsl/text.h"
#include "lower/schedule.h"
#include <ctype.h>
#include <stdlib.h>

static const char *const word_name[TG_OPT__COUNT] = {"split", "fuse", "fission", "order", "swap", "tile", "upcast", "unroll", "lane", "thread", "local", "group", "global",
                                                     "stage", "pad", "cut", "stream", "prefetch", "specialize", "place", "contract"};

typedef struct { tg_job *j; const char *text, *at; tg_pos pos; const char *token; size_t n; } scan;

TG_NORETURN static void bad(scan *s, const char *what) {
  tg_pos p = s->pos;
  size_t before = p.column > 0 ? (size_t)p.column - 1 : 0, n = strlen(s->text);
  bool within = p.text && p.column > 0 && strlen(p.text) >= before + n && !memcmp(p.text + before, s->text, n);
  if (!within) p.text = s->text, p.column = 1;   /* a word from elsewhere: shown by itself */
  p.column += (int)(s->token - s->text);
  p.length = s->n ? (int)s->n : 1;
  if (s->n) tg_fail_at(s->j, p, "%s, not '%.*s'", what, (int)s->n, s->token);
  tg_fail_at(s->j, p, "%s at the end of '%s'", what, s->text);
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '#'; }

static bool next(scan *s) {
  while (isspace((unsigned char)*s->at)) s->at++;
  s->token = s->at;
  if (!*s->at) return s->n = 0, false;
  if (name_char(*s->at)) while (name_char(*s->at)) s->at++;
  else s->at++;
  s->n = (size_t)(s->at - s->token);
  return true;
}

static bool is(const scan *s, const char *word) { return s->n == strlen(word) && !memcmp(s->token, word, s->n); }

static const char *name(scan *s, const char *what) {
  if (!s->n || isdigit((unsigned char)*s->token) || !name_char(*s->token)) bad(s, what);
  const char *v = tg_symbol(s->j, s->token, s->n);
  next(s);
  return v;
}

/* A new name: '#' and a number say which of several of one. What is printed with it is read again, so it is one that the language takes. */
static const char *new_name(scan *s, const char *what) {
  const char *symbol = s->n ? tg_symbol(s->j, s->token, s->n) : "", *refused = tg_name_refused(symbol);
  if (refused) bad(s, tg_format(&s->j->env, "%s ('%s' %s)", what, symbol, refused));
  if (strchr(symbol, '#') || *symbol == '.' || strstr(symbol, "..") || (s->n && symbol[s->n - 1] == '.')) bad(s, what);
  return name(s, what);
}

static int64_t number(scan *s, const char *what) {
  int64_t v = 0;
  if (s->n && isdigit((unsigned char)*s->token)) {
    for (size_t i = 0; i < s->n; i++) {
      if (!isdigit((unsigned char)s->token[i]) || v > INT32_MAX) bad(s, what);
      v = v * 10 + (s->token[i] - '0');
    }
  } else {
    const char *symbol = s->n ? tg_symbol(s->j, s->token, s->n) : NULL;
    uint32_t i = 0;
    while (i < s->j->constants.n && (!symbol || strcmp(s->j->constants.data[i].name, symbol))) i++;
    if (i == s->j->constants.n) bad(s, what);
    v = s->j->constants.data[i].value;
  }
  if (v < 1 || v > INT32_MAX) bad(s, what);
  next(s);
  return v;
}

static void add(scan *s, tg_opt *o, const char *n) {
  if (o->n == TG_COUNT(o->names)) bad(s, "expected at most 16 names");
  o->names[o->n++] = n;
}

static void as_names(scan *s, tg_opt *o, uint32_t count) {
  if (!is(s, "as")) return;
  next(s);
  for (uint32_t i = 0; i < count; i++) add(s, o, new_name(s, "expected a name for a range"));
}

static bool at_number(const scan *s) {
  if (!s->n || is(s, "as")) return false;
  if (isdigit((unsigned char)*s->token)) return true;
  for (uint32_t i = 0; i < s->j->constants.n; i++)
    if (is(s, s->j->constants.data[i].name)) return true;
  return false;
}

static const char *const space_name[] = {"", "local", "reg", "thread", "team", "packed"};

static void parse_stage_option(scan *s, tg_opt *o) {
  static const char *const key[] = {"pitch", "space", "align", "depth"};
  uint32_t k = 0, v = 1;
  while (k < TG_COUNT(key) && !is(s, key[k])) k++;
  bool fill = is(s, "fill");
  if (is(s, "with")) {   /* to the end */
    while (isspace((unsigned char)*s->at)) s->at++;
    const char *text = s->at;
    while (next(s)) {}
    if (!*text) bad(s, "expected S[j] = sum(k, ..)");
    o->with = tg_strdup(&s->j->env, text);
    return;
  }
  if (k == TG_COUNT(key) && !fill) bad(s, "expected pitch=, fill=, align=, space=, depth= or with");
  next(s);
  if (!is(s, "=")) bad(s, "expected '='");
  if (fill) {
    while (isspace((unsigned char)*s->at)) s->at++;
    const char *from = s->at;
    while (*s->at && !isspace((unsigned char)*s->at)) s->at++;
    o->fill = tg_strndup(&s->j->env, from, (size_t)(s->at - from));
    s->token = from;
    s->n = (size_t)(s->at - from);
    if (!s->n) bad(s, "expected a number");
    next(s);
    return;
  }
  next(s);
  if (k != 1) {
    o->number[k] = number(s, "expected a number");
    return;
  }
  while (v < TG_COUNT(space_name) && !is(s, space_name[v])) v++;
  if (v == TG_COUNT(space_name)) bad(s, "expected local, reg, thread, team or packed");
  o->number[1] = v;
  next(s);
}

static void parse_stage(scan *s, tg_opt *o) {
  add(s, o, name(s, "expected a buffer"));
  if (!is(s, "at")) bad(s, "expected 'at' and a range");
  next(s);
  add(s, o, name(s, "expected a range"));
  if (is(s, "as")) {
    next(s);
    add(s, o, new_name(s, "expected a name for the copy"));
    if (is(s, "[")) {
      const char *from = s->at;
      while (s->n && !is(s, "]")) next(s);
      if (!s->n) bad(s, "expected ']'");
      o->expr = tg_strndup(&s->j->env, from, (size_t)(s->token - from));
      next(s);
    }
    if (is(s, "as")) {
      next(s);
      o->type = name(s, "expected a type");
    }
  }
  while (s->n) parse_stage_option(s, o);
}

static void parse_tile(scan *s, tg_opt *o) {
  uint32_t m = 0;
  while (s->n && !is(s, "as")) {
    if (m == TG_COUNT(o->number)) bad(s, "expected at most 4 ranges");
    add(s, o, name(s, "expected a range"));
    o->number[m++] = number(s, "expected a size");
  }
  if (!m) bad(s, "expected a range");
  as_names(s, o, 2 * m);
}

/* {14, 8, 1}: each below the one before. */
static void parse_sizes(scan *s, tg_opt *o) {
  for (const char *after = ","; !is(s, "}"); ) {
    if (!is(s, after) && o->sizes) bad(s, "expected ',' or '}'");
    next(s);
    if (o->sizes == TG_COUNT(o->size)) bad(s, "expected at most 8 sizes");
    scan at = *s;
    int64_t n = number(s, "expected a size");
    if (o->sizes && n >= o->size[o->sizes - 1]) bad(&at, "expected a size below the one before");
    o->size[o->sizes++] = n;
  }
  next(s);
}

/* (condition) */
static void parse_test(scan *s, tg_opt *o) {
  int open = 1;
  if (!is(s, "(")) bad(s, "expected '(' and a condition");
  const char *from = s->at;
  while (open && next(s)) open += is(s, "(") - is(s, ")");
  if (open) bad(s, "expected ')'");
  o->expr = tg_strndup(&s->j->env, from, (size_t)(s->token - from));
  next(s);
}

static void parse_cut(scan *s, tg_opt *o) {
  add(s, o, name(s, "expected a range"));
  if (is(s, "first") || is(s, "last")) {
    o->number[0] = is(s, "last") ? TG_CUT_LAST : TG_CUT_FIRST;
    next(s);
    as_names(s, o, 2);
    return;
  }
  if (is(s, "auto")) {
    o->number[0] = TG_CUT_AUTO;
    next(s);
    return;
  }
  if (!is(s, "at")) bad(s, "expected first, last, auto, or 'at' and an index");
  while (isspace((unsigned char)*s->at)) s->at++;
  if (!*s->at) next(s), bad(s, "expected an index");
  const char *from = s->at, *to = s->token + s->n;
  while (next(s) && !is(s, "as")) to = s->token + s->n;
  o->expr = tg_strndup(&s->j->env, from, (size_t)(to - from));
  as_names(s, o, 2);
}

static void parse_contract(scan *s, tg_opt *o) {
  static const char *const key[] = {"i", "j", "k", "m", "n"};
  o->expr = name(s, "expected a matrix instruction");
  o->n = 3;
  while (s->n) {
    uint32_t k = 0;
    while (k < TG_COUNT(key) && !is(s, key[k])) k++;
    if (k == TG_COUNT(key)) bad(s, "expected i=, j= or k=");
    k = k > 2 ? k - 3 : k;
    if (o->names[k]) bad(s, "expected each of i=, j=, k= once");
    next(s);
    if (!is(s, "=")) bad(s, "expected '='");
    next(s);
    o->names[k] = name(s, "expected a range");
  }
}

static void parse_rest(scan *s, tg_opt *o) {
  switch (o->word) {
  case TG_OPT_SPLIT: case TG_OPT_PAD:
    add(s, o, name(s, "expected a range"));
    if (o->word == TG_OPT_SPLIT && is(s, "{")) parse_sizes(s, o);
    else o->number[0] = number(s, "expected a size");
    if (o->word == TG_OPT_SPLIT && !o->sizes && is(s, "clip")) o->number[1] = 1, next(s);
    if (o->word == TG_OPT_SPLIT) as_names(s, o, 2);
    break;
  case TG_OPT_FUSE: case TG_OPT_SWAP:
    add(s, o, name(s, "expected a range"));
    add(s, o, name(s, "expected a second range"));
    if (o->word == TG_OPT_SWAP) break;
    if (!is(s, "as")) bad(s, "expected 'as' and a name for the range");
    as_names(s, o, 1);
    break;
  case TG_OPT_ORDER:
    while (s->n) add(s, o, name(s, "expected a range"));
    if (o->n < 2) bad(s, "expected two ranges or more");
    break;
  case TG_OPT_TILE: parse_tile(s, o); break;
  case TG_OPT_UPCAST: case TG_OPT_UNROLL: case TG_OPT_LANE: case TG_OPT_THREAD: case TG_OPT_LOCAL: case TG_OPT_GROUP: case TG_OPT_GLOBAL:
    add(s, o, name(s, "expected a range"));
    if (at_number(s)) {
      o->number[0] = number(s, "expected a size");
      as_names(s, o, 2);
    }
    if (o->word == TG_OPT_THREAD && (is(s, "static") || is(s, "dynamic"))) {
      o->number[1] = is(s, "static");
      next(s);
    }
    break;
  case TG_OPT_STAGE: parse_stage(s, o); break;
  case TG_OPT_CUT: parse_cut(s, o); break;
  case TG_OPT_FISSION: add(s, o, name(s, "expected a range")); break;
  case TG_OPT_STREAM: add(s, o, name(s, "expected a buffer")); break;
  case TG_OPT_PREFETCH:
    add(s, o, name(s, "expected a buffer"));
    if (!is(s, "at")) bad(s, "expected 'at' and a range");
    next(s);
    add(s, o, name(s, "expected a range"));
    if (!is(s, "ahead")) bad(s, "expected 'ahead' and a number");
    next(s);
    if (is(s, "0")) next(s);
    else o->number[0] = number(s, "expected a number");
    if (is(s, "of")) {
      next(s);
      add(s, o, name(s, "expected a range"));
    }
    o->number[1] = 1;
    if (is(s, "to")) {
      next(s);
      if (!is(s, "l1") && !is(s, "l2")) bad(s, "expected l1 or l2");
      o->number[1] = is(s, "l2") ? 2 : 1;
      next(s);
    }
    o->number[2] = is(s, "rw");
    if (o->number[2]) next(s);
    break;
  case TG_OPT_SPECIALIZE: parse_test(s, o); break;
  case TG_OPT_PLACE:
    add(s, o, name(s, "expected a register buffer"));
    if (!is(s, "ssa") && !is(s, "memory")) bad(s, "expected ssa or memory");
    o->number[0] = is(s, "memory");
    next(s);
    break;
  case TG_OPT_CONTRACT: parse_contract(s, o); break;
  case TG_OPT__COUNT: break;
  }
}

tg_opt tg_opt_parse(tg_job *j, const char *text, tg_pos pos) {
  scan s = {.j = j, .text = text, .at = text, .pos = pos};
  next(&s);
  tg_opt o = {.pos = pos};
  while (o.word < TG_OPT__COUNT && !is(&s, word_name[o.word])) o.word++;
  if (o.word == TG_OPT__COUNT) {
    tg_str list = tg_str_new(&j->env);
    for (uint32_t i = 0; i < TG_OPT__COUNT; i++) tg_str_printf(&list, "%s%s", i ? ", " : "", word_name[i]);
    const char *words[TG_OPT__COUNT + 1] = {0}, *near;
    memcpy(words, word_name, sizeof word_name);
    near = tg_nearest(tg_symbol(j, s.token, s.n), words);
    bad(&s, tg_format(&j->env, "expected a word of a schedule (%s%s%s)", list.data, near ? "; perhaps " : "", near ? near : ""));
  }
  if (!pos.text || !pos.column) o.pos.text = text, o.pos.column = 1, o.pos.length = (int)s.n;
  next(&s);
  parse_rest(&s, &o);
  if (s.n) bad(&s, "expected the end of the opt");
  return o;
}

const char *tg_opt_text_of(tg_job *j, const tg_opt *o) {
  tg_str t = tg_str_new(&j->env);
  uint32_t named = 1; /* names before `as` */
  tg_str_puts(&t, word_name[o->word]);
  switch (o->word) {
  case TG_OPT_ORDER: case TG_OPT_SWAP:
    for (uint32_t i = 0; i < o->n; i++) tg_str_printf(&t, " %s", o->names[i]);
    return t.data;
  case TG_OPT_FUSE: tg_str_printf(&t, " %s %s as %s", o->names[0], o->names[1], o->names[2]); return t.data;
  case TG_OPT_TILE:
    for (named = 0; named < 4 && o->number[named]; named++) tg_str_printf(&t, " %s %lld", o->names[named], (long long)o->number[named]);
    break;
  case TG_OPT_STAGE:
    tg_str_printf(&t, " %s at %s", o->names[0], o->names[1]);
    if (o->n > 2) tg_str_printf(&t, " as %s", o->names[2]);
    if (o->expr) tg_str_printf(&t, "[%s]", o->expr);
    if (o->type) tg_str_printf(&t, " as %s", o->type);
    if (o->number[0]) tg_str_printf(&t, " pitch=%lld", (long long)o->number[0]);
    if (o->fill) tg_str_printf(&t, " fill=%s", o->fill);
    if (o->number[2]) tg_str_printf(&t, " align=%lld", (long long)o->number[2]);
    if (o->number[1]) tg_str_printf(&t, " space=%s", space_name[o->number[1]]);
    if (o->number[3]) tg_str_printf(&t, " depth=%lld", (long long)o->number[3]);
    if (o->with) tg_str_printf(&t, " with %s", o->with);
    return t.data;
  case TG_OPT_CUT:
    if (o->number[0] == TG_CUT_AT) tg_str_printf(&t, " %s at %s", o->names[0], o->expr);
    else tg_str_printf(&t, " %s %s", o->names[0], o->number[0] == TG_CUT_LAST ? "last" : o->number[0] == TG_CUT_FIRST ? "first" : "auto");
    break;
  case TG_OPT_SPECIALIZE: tg_str_printf(&t, "(%s)", o->expr); return t.data;
  case TG_OPT_CONTRACT:
    tg_str_printf(&t, " %s", o->expr);
    for (uint32_t i = 0; i < 3; i++)
      if (o->names[i]) tg_str_printf(&t, " %c=%s", "ijk"[i], o->names[i]);
    return t.data;
  case TG_OPT_PREFETCH:
    tg_str_printf(&t, " %s at %s ahead %lld%s%s to l%lld%s", o->names[0], o->names[1], (long long)o->number[0], o->n > 2 ? " of " : "", o->n > 2 ? o->names[2] : "", (long long)o->number[1], o->number[2] ? " rw" : "");
    return t.data;
  case TG_OPT_PLACE: tg_str_printf(&t, " %s %s", o->names[0], o->number[0] ? "memory" : "ssa"); return t.data;
  default:
    tg_str_printf(&t, " %s", o->names[0]);
    if (o->number[0]) tg_str_printf(&t, " %lld", (long long)o->number[0]);
    for (uint32_t i = 0; i < o->sizes; i++) tg_str_printf(&t, "%s%lld", i ? ", " : " {", (long long)o->size[i]);
    if (o->word == TG_OPT_SPLIT && o->number[1]) tg_str_puts(&t, " clip");
    if (o->sizes) tg_str_puts(&t, "}");
  }
  if (o->n > named) tg_str_puts(&t, " as");
  for (uint32_t i = named; i < o->n; i++) tg_str_printf(&t, " %s", o->names[i]);
  if (o->word == TG_OPT_THREAD && o->number[1]) tg_str_puts(&t, " static");
  return t.data;
}
