/* SPDX-License-Identifier: MIT
 * Parses and prints schedule words, both driven by the operands of their rows (opts.def). A number may also be the name
 * of a knob or of a parameter bound to a constant. The text that tg_opt_text_of prints parses to the same opt. */
#include "schedule/stage.h"
#include <ctype.h>
#include <stdlib.h>

const tg_opt_row tg_opt_rows[TG_OPT__COUNT] = {
#define OPT(constant, word, operands, apply, change, meaning) {#word, operands, apply, change, meaning},
#include "schedule/opts.def"
#undef OPT
};

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

/* A new name: '#' and a number say which of several of one. What is printed with it is read again, so it is one that
 * the language takes. */
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
_Static_assert(TG_COUNT(space_name) == TG_STAGE_PACKED + 1, "a name for each place of a copy");

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

static bool at_stage_option(const scan *s) {
  static const char *const key[] = {"as", "pitch", "space", "align", "depth", "fill", "with"};
  for (uint32_t k = 0; k < TG_COUNT(key); k++)
    if (is(s, key[k])) return true;
  return !s->n;
}

static void parse_stage(scan *s, tg_opt *o) {
  if (is(s, "of")) {
    next(s);
    for (uint32_t i = 0; !i || !at_stage_option(s); i++) {
      if (i == TG_STAGE_RANGES) bad(s, "expected at most 4 ranges");
      o->of[i] = name(s, "expected a range");
    }
  }
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

static void parse_keys(scan *s, tg_opt *o) {
  static const char *const key[] = {"i", "j", "k", "m", "n"};
  o->n = 3;
  while (s->n && !is(s, "interleaved")) {
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

/* ---- operands: one item of a row after another ---- */

typedef struct { const char *at; size_t n; } item;

/* The next of those in `all`, up to a space outside of brackets; n is 0 at the end. */
static item next_item(item *all) {
  int depth = 0;
  while (all->n && *all->at == ' ') all->at++, all->n--;
  item x = {all->at, 0};
  for (; x.n < all->n && (depth || x.at[x.n] != ' '); x.n++)
    depth += (strchr("[({", x.at[x.n]) != NULL) - (strchr("])}", x.at[x.n]) != NULL);
  all->at += x.n;
  all->n -= x.n;
  return x;
}

static bool item_is(item x, const char *text) { return x.n == strlen(text) && !memcmp(x.at, text, x.n); }
static bool is_choice(item x) {
  return x.at[0] != '[' && x.at[0] != '(' && x.at[0] != '{' && (memchr(x.at, '|', x.n) || memchr(x.at, '=', x.n));
}
static bool is_word(item x) {
  return islower((unsigned char)*x.at) && !is_choice(x) && !item_is(x, "as1") && !item_is(x, "as2") &&
         !item_is(x, "in1");
}
static item inside(item x) { return (item){x.at + 1, x.n - 2}; }

/* Of how many numbers it tells the next. */
static uint32_t numbers_of(item x) {
  if (*x.at != '[') return item_is(x, "N") || item_is(x, "{N}") || item_is(x, "0") || is_choice(x);
  item whole = inside(x), rest = whole, first = next_item(&rest);
  if (first.n == whole.n) return 1;
  return item_is(first, "N") || memchr(whole.at, '|', whole.n) ? 1 : 0;
}

/* The i-th word of a choice; n is 0 behind the last. */
static item word_of_choice(item x, uint32_t i) {
  const char *end = x.at + x.n, *at = x.at;
  for (; i && at < end; i--)
    at = memchr(at, '|', (size_t)(end - at)) ? (const char *)memchr(at, '|', (size_t)(end - at)) + 1 : end;
  size_t n = 0;
  while (at + n < end && islower((unsigned char)at[n])) n++;
  while (at + n < end && isdigit((unsigned char)at[n])) n++;
  return (item){at, n};
}

static uint32_t chosen(const scan *s, item x) {
  uint32_t i = 0;
  for (item w; (w = word_of_choice(x, i)).n; i++)
    if (s->n == w.n && !memcmp(s->token, w.at, w.n)) return i;
  return UINT32_MAX;
}

static void bad_choice(scan *s, item x) {
  tg_str list = tg_str_new(&s->j->env);
  bool expression = x.at[word_of_choice(x, 0).n] == '=';
  for (uint32_t i = expression; word_of_choice(x, i).n; i++) {
    item w = word_of_choice(x, i);
    bool last = !word_of_choice(x, i + 1).n;
    tg_str_printf(&list, "%s%.*s", i == expression ? "" : last && !expression ? " or " : ", ", (int)w.n, w.at);
  }
  item w = word_of_choice(x, 0);
  if (expression) tg_str_printf(&list, "%s'%.*s' and an index", list.n ? ", or " : "", (int)w.n, w.at);
  bad(s, tg_format(&s->j->env, "expected %s", list.data));
}

/* An expression, to the end or to `as`. */
static void parse_expression(scan *s, tg_opt *o) {
  while (isspace((unsigned char)*s->at)) s->at++;
  if (!*s->at) next(s), bad(s, "expected an index");
  const char *from = s->at, *to = s->token + s->n;
  while (next(s) && !is(s, "as")) to = s->token + s->n;
  o->expr = tg_strndup(&s->j->env, from, (size_t)(to - from));
}

/* True: nothing may stand behind it. */
static bool parse_choice(scan *s, tg_opt *o, item x, uint32_t number) {
  uint32_t i = chosen(s, x);
  if (i == UINT32_MAX) bad_choice(s, x);
  item w = word_of_choice(x, i);
  o->number[number] = i;
  if (w.at[w.n] == '=') parse_expression(s, o);
  else next(s);
  return w.at[w.n] == '!';
}

/* What a name of this letter is; NULL: the item is no name. */
static const char *name_meant(item x) {
  static const struct { const char *letter, *meant;
  } names[] = {{"R", "a range"},           {"T", "a second range"},       {"B", "a buffer"},
               {"G", "a register buffer"}, {"I", "a matrix instruction"}, {"N", "a size"},
               {"0", "a number"}};
  for (uint32_t i = 0; i < TG_COUNT(names); i++)
    if (item_is(x, names[i].letter)) return names[i].meant;
  return NULL;
}

static const char *expected(scan *s, const char *what) { return tg_format(&s->j->env, "expected %s", what); }

static void parse_word(scan *s, item x, item behind) {
  const char *word = tg_strndup(&s->j->env, x.at, x.n);
  if (!is(s, word)) bad(s, tg_format(&s->j->env, "expected '%s' and %s", word, name_meant(behind)));
  next(s);
}

static void parse_pairs(scan *s, tg_opt *o) {
  uint32_t m = 0;
  while (s->n && !is(s, "as")) {
    if (m == TG_COUNT(o->number)) bad(s, "expected at most 4 ranges");
    add(s, o, name(s, "expected a range"));
    o->number[m++] = number(s, "expected a size");
  }
  if (!m) bad(s, "expected a range");
}

static void parse_items(scan *s, tg_opt *o, item all, uint32_t from);

static bool is_there(const scan *s, item first) {
  if (item_is(first, "N")) return at_number(s);
  if (is_choice(first)) return chosen(s, first) != UINT32_MAX;
  return s->n == first.n && !memcmp(s->token, first.at, first.n);
}

static void parse_optional(scan *s, tg_opt *o, item x, uint32_t at) {
  item whole = inside(x), rest = whole, first = next_item(&rest);
  if (!is_there(s, first)) return;
  if (is_word(first) && first.n == whole.n) o->number[at] = 1, next(s);
  else parse_items(s, o, whole, at);
}

static void parse_items(scan *s, tg_opt *o, item all, uint32_t from) {
  uint32_t number_at = from;
  for (item x; (x = next_item(&all)).n; number_at += numbers_of(x)) {
    item ahead = all;
    if (*x.at == '[') parse_optional(s, o, x, number_at);
    else if (item_is(x, "{N}") && is(s, "{")) parse_sizes(s, o);
    else if (item_is(x, "N") || item_is(x, "{N}")) o->number[number_at] = number(s, "expected a size");
    else if (item_is(x, "0") && is(s, "0")) next(s);
    else if (item_is(x, "0")) o->number[number_at] = number(s, "expected a number");
    else if (item_is(x, "R+")) {
      while (s->n && !is(s, "in")) add(s, o, name(s, "expected a range"));
      if (o->n < 2) bad(s, "expected two ranges or more");
    } else if (item_is(x, "(R N)+")) parse_pairs(s, o);
    else if (item_is(x, "I")) o->expr = name(s, "expected a matrix instruction");
    else if (name_meant(x)) add(s, o, name(s, expected(s, name_meant(x))));
    else if (item_is(x, "as1")) {
      if (!is(s, "as")) bad(s, "expected 'as' and a name for the range");
      as_names(s, o, 1);
    } else if (item_is(x, "as2")) as_names(s, o, 2 * o->n);
    else if (item_is(x, "in1")) {
      if (is(s, "in")) next(s), o->tile = new_name(s, "expected a name for the register tile");
    }
    else if (item_is(x, "(E)")) parse_test(s, o);
    else if (item_is(x, "{i=R}")) parse_keys(s, o);
    else if (item_is(x, "{..}")) parse_stage(s, o);
    else if (is_choice(x)) {
      if (parse_choice(s, o, x, number_at)) return;
    } else parse_word(s, x, next_item(&ahead));
  }
}

tg_opt tg_opt_parse(tg_job *j, const char *text, tg_pos pos) {
  scan s = {.j = j, .text = text, .at = text, .pos = pos};
  next(&s);
  tg_opt o = {.pos = pos};
  while (o.word < TG_OPT__COUNT && !is(&s, tg_opt_rows[o.word].word)) o.word++;
  if (o.word == TG_OPT__COUNT) {
    const char *words[TG_OPT__COUNT + 1] = {0}, *near;
    tg_str list = tg_str_new(&j->env);
    for (uint32_t i = 0; i < TG_OPT__COUNT; i++)
      tg_str_printf(&list, "%s%s", i ? ", " : "", words[i] = tg_opt_rows[i].word);
    near = tg_nearest(tg_symbol(j, s.token, s.n), words);
    bad(&s, tg_format(&j->env, "expected a word of a schedule (%s%s%s)", list.data, near ? "; perhaps " : "",
                      near ? near : ""));
  }
  if (!pos.text || !pos.column) o.pos.text = text, o.pos.column = 1, o.pos.length = (int)s.n;
  next(&s);
  parse_items(&s, &o, (item){tg_opt_rows[o.word].operands, strlen(tg_opt_rows[o.word].operands)}, 0);
  if (s.n) bad(&s, "expected the end of the opt");
  return o;
}

/* ---- printing ---- */

typedef struct { tg_str *t; const tg_opt *o; uint32_t name, number; } printing;

static void print_items(printing *p, item all);

static void print_stage(tg_str *t, const tg_opt *o) {
  for (uint32_t i = 0; i < TG_STAGE_RANGES && o->of[i]; i++) tg_str_printf(t, "%s %s", i ? "" : " of", o->of[i]);
  if (o->n > 2) tg_str_printf(t, " as %s", o->names[2]);
  if (o->expr) tg_str_printf(t, "[%s]", o->expr);
  if (o->type) tg_str_printf(t, " as %s", o->type);
  if (o->number[0]) tg_str_printf(t, " pitch=%lld", (long long)o->number[0]);
  if (o->fill) tg_str_printf(t, " fill=%s", o->fill);
  if (o->number[2]) tg_str_printf(t, " align=%lld", (long long)o->number[2]);
  if (o->number[1]) tg_str_printf(t, " space=%s", space_name[o->number[1]]);
  if (o->number[3]) tg_str_printf(t, " depth=%lld", (long long)o->number[3]);
  if (o->with) tg_str_printf(t, " with %s", o->with);
}

static void print_size(printing *p) {
  const tg_opt *o = p->o;
  if (!o->sizes) tg_str_printf(p->t, " %lld", (long long)o->number[p->number]);
  for (uint32_t i = 0; i < o->sizes; i++) tg_str_printf(p->t, "%s%lld", i ? ", " : " {", (long long)o->size[i]);
  if (o->sizes) tg_str_puts(p->t, "}");
}

static bool print_choice(printing *p, item x) {
  item w = word_of_choice(x, (uint32_t)p->o->number[p->number]);
  tg_str_printf(p->t, " %.*s", (int)w.n, w.at);
  if (w.at[w.n] == '=') tg_str_printf(p->t, " %s", p->o->expr);
  return w.at[w.n] == '!';
}

/* Said if its number is not 0, or, where it has none, if there is a name more. */
static void print_optional(printing *p, item x) {
  item whole = inside(x), rest = whole, first = next_item(&rest);
  if (numbers_of(x) ? !p->o->number[p->number] : p->name >= p->o->n) return;
  if (is_word(first) && first.n == whole.n) tg_str_printf(p->t, " %.*s", (int)whole.n, whole.at);
  else print_items(p, whole);
}

static void print_names(printing *p, const char *before) {
  if (p->name < p->o->n) tg_str_puts(p->t, before);
  while (p->name < p->o->n) tg_str_printf(p->t, " %s", p->o->names[p->name++]);
}

static void print_items(printing *p, item all) {
  const tg_opt *o = p->o;
  uint32_t number = p->number;
  for (item x; (x = next_item(&all)).n; number += numbers_of(x)) {
    p->number = number;
    if (*x.at == '[') print_optional(p, x);
    else if (item_is(x, "N") || item_is(x, "{N}") || item_is(x, "0")) print_size(p);
    else if (item_is(x, "R+")) print_names(p, "");
    else if (item_is(x, "(R N)+"))
      for (; p->name < TG_COUNT(o->number) && o->number[p->name]; p->name++)
        tg_str_printf(p->t, " %s %lld", o->names[p->name], (long long)o->number[p->name]);
    else if (item_is(x, "I")) tg_str_printf(p->t, " %s", o->expr);
    else if (name_meant(x)) tg_str_printf(p->t, " %s", o->names[p->name++]);
    else if (item_is(x, "as1")) tg_str_printf(p->t, " as %s", o->names[p->name++]);
    else if (item_is(x, "as2")) print_names(p, " as");
    else if (item_is(x, "in1")) {
      if (o->tile) tg_str_printf(p->t, " in %s", o->tile);
    } else if (item_is(x, "(E)")) tg_str_printf(p->t, "(%s)", o->expr);
    else if (item_is(x, "{i=R}")) {
      for (uint32_t i = 0; i < 3; i++)
        if (o->names[i]) tg_str_printf(p->t, " %c=%s", "ijk"[i], o->names[i]);
    } else if (item_is(x, "{..}")) print_stage(p->t, o);
    else if (is_choice(x)) {
      if (print_choice(p, x)) return;
    } else tg_str_printf(p->t, " %.*s", (int)x.n, x.at);
  }
}

const char *tg_opt_text_of(tg_job *j, const tg_opt *o) {
  tg_str t = tg_str_new(&j->env);
  const char *operands = tg_opt_rows[o->word].operands;
  tg_str_puts(&t, tg_opt_rows[o->word].word);
  print_items(&(printing){&t, o, 0, 0}, (item){operands, strlen(operands)});
  return t.data;
}

/* ---- the operands for people ---- */

static const char *item_usage(item x) {
  static const struct { const char *item, *usage;
  } usage[] = {{"R", "r"},
               {"T", "s"},
               {"R+", "r s .."},
               {"B", "B"},
               {"G", "t"},
               {"I", "NAME"},
               {"N", "n"},
               {"0", "n"},
               {"{N}", "n|{n, ..}"},
               {"(R N)+", "r n .."},
               {"(E)", "(p)"},
               {"as1", "as q"},
               {"as2", "[as r0 r1]"},
               {"in1", "[in t]"},
               {"{i=R}", "i=r j=s k=q"},
               {"at=E", "at e"},       {"at=E|first|last|auto!", "at e|first|last|auto"},
               {"{..}", "[of s ..] [as Bp[layout] as type] [pitch=n] [fill=v] [align=n] "
                        "[space=local|reg|thread|team|packed] [depth=n] [with S[j] = sum(k, ..)]"},
               {"[N as2]", "[n [as r0 r1]]"},
               {"[N at=E]", "[m at e]"},
               {"[of R]", "[of s]"},
               {"[at R]", "[at s]"}};
  for (uint32_t i = 0; i < TG_COUNT(usage); i++)
    if (item_is(x, usage[i].item)) return usage[i].usage;
  return NULL;
}

const char *tg_opt_usage(tg_env *env, tg_opt_word word) {
  tg_str t = tg_str_new(env);
  item all = {tg_opt_rows[word].operands, strlen(tg_opt_rows[word].operands)};
  tg_str_puts(&t, tg_opt_rows[word].word);
  for (item x; (x = next_item(&all)).n; ) {
    const char *said = item_usage(x);
    if (said) tg_str_printf(&t, "%s%s", *said == '(' ? "" : " ", said);
    else tg_str_printf(&t, " %.*s", (int)x.n, x.at);
  }
  return t.data;
}
