/* SPDX-License-Identifier: MIT
 * The layout of a staged copy, given in the word as subscripts over the author's ranges: `Bp[j/32, k, j%32]`. The
 * dimensions of the copy are digits (quotients and remainders) of the offsets into the copied part. Every element must
 * get exactly one place. A digit may be swizzled by one of another dimension, `k/8 ^ i%8`: then lines of the copy that
 * lie in the same banks of LOCAL memory, one below the other, have each their parts in another order. */
#include "schedule/stage.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_stage_part *part;
  uint32_t names_n;
  const char *names[64];
  const tg_uop *values[64];        /* ARG d for dimension d */
  bool twice[64];
  /* by dimension: 2: ranges stand in its subscript; else how many names it got without */
  uint8_t taken[16];
} naming;

static void add_name(naming *n, const char *name, uint32_t d) {
  const tg_uop *value = tg_make(n->s->j, TG_OP_ARG, TG_INDEX, 1, d, 0, NULL);
  for (uint32_t i = 0; i < n->names_n; i++) {
    if (strcmp(n->names[i], name)) continue;
    n->twice[i] |= n->values[i] != value;
    return;
  }
  if (n->names_n == TG_COUNT(n->names)) return;
  n->names[n->names_n] = name;
  n->values[n->names_n++] = value;
}

/* A dimension goes by the author's names of the ranges in its subscript, and by d0, d1, .. where the author uses no
 * such name. */
static void name_dimensions(naming *n) {
  tg_job *j = n->s->j;
  for (uint32_t d = 0; d < n->part->rank; d++) {
    uint32_t count;
    const tg_uop **order = tg_toposort(j, n->part->subscript[d], &count);
    for (uint32_t i = 0; i < count; i++)
      if (order[i]->op == TG_OP_RANGE)
        n->taken[d] = 2, add_name(n, j->ranges.data[j->ranges.data[tg_range_ordinal(order[i])].from].name, d);
  }
  uint32_t ranges = n->names_n;
  for (uint32_t d = 0; d < n->part->rank; d++) {
    const char *name = tg_sym(j, tg_format(&j->env, "d%u", d));
    bool taken = false;
    for (uint32_t i = 0; i < ranges; i++) taken |= !strcmp(n->names[i], name);
    if (!taken) add_name(n, name, d);
  }
}

/* A range of one iteration stands in no subscript any more: its name goes to a dimension without ranges, whose one
 * element any digit counts. */
static bool name_single(naming *n, const char *word, size_t length) {
  tg_job *j = n->s->j;
  const char *name = tg_symbol(j, word, length);
  bool known = false;
  for (uint32_t i = 0; i < j->ranges.n && !known; i++) known = !strcmp(j->ranges.data[i].name, name);
  for (uint8_t most = 0; known && most < 2; most++)
    for (uint32_t d = 0; d < n->part->rank; d++) {
      if (n->taken[d] > most) continue;
      n->taken[d]++;
      add_name(n, name, d);
      return true;
    }
  return false;
}

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static void check_words(naming *n, const char *text) {
  for (const char *at = text; *at;) {
    size_t length = 0;
    while (word_char(at[length])) length++;
    bool is_name = length && !(*at >= '0' && *at <= '9');
    uint32_t i = 0;
    while (is_name && i < n->names_n && (strncmp(n->names[i], at, length) || n->names[i][length])) i++;
    if (is_name && i == n->names_n && !name_single(n, at, length)) {
      tg_str known = tg_str_new(&n->s->j->env);
      for (uint32_t k = 0; k < n->names_n; k++) tg_str_printf(&known, "%s%s", k ? ", " : "", n->names[k]);
      tg_fail_at(n->s->j, n->o->pos, "stage %s: '%.*s' names no dimension of it; there are: %s", n->o->names[0],
                 (int)length, at, known.data);
    }
    if (is_name && n->twice[i])
      tg_fail_at(n->s->j, n->o->pos, "stage %s: '%.*s' runs in several dimensions of it: say d0, d1, ..",
                 n->o->names[0], (int)length, at);
    at += length ? length : 1;
  }
}

static bool constant(const tg_uop *u) { return u->op == TG_OP_CONST && u->arg > 0; }

static tg_digit plain_digit(naming *n, const char *text) {
  check_words(n, text);
  const tg_uop *u = tg_parse_expr(n->s->j, text, n->names_n, n->names, n->values);
  tg_digit g = {.div = 1};
  if (u->op == TG_OP_MOD && constant(u->src[1])) g.mod = u->src[1]->arg, u = u->src[0];
  if (u->op == TG_OP_IDIV && constant(u->src[1])) g.div = u->src[1]->arg, u = u->src[0];
  if (u->op != TG_OP_ARG || g.div > INT32_MAX || g.mod > INT32_MAX)
    tg_fail_at(n->s->j, n->o->pos, "stage %s: '%s' is no digit of an offset: d, d / c, d %% m or d / c %% m",
               n->o->names[0], text);
  g.dim = (uint32_t)u->arg;
  return g;
}

static tg_digit parse_digit(naming *n, const char *text) {
  const char *swizzle = strchr(text, '^');
  if (!swizzle) return plain_digit(n, text);
  tg_digit g = plain_digit(n, tg_strndup(&n->s->j->env, text, (size_t)(swizzle - text))),
           by = plain_digit(n, swizzle + 1);
  if (by.mod < 2 || by.mod & (by.mod - 1))
    tg_fail_at(n->s->j, n->o->pos, "stage %s: '%s' is no digit to swizzle by: d %% m or d / c %% m, m a power of two",
               n->o->names[0], swizzle + 1);
  g.by = by.dim, g.by_div = by.div, g.by_mod = by.mod;
  return g;
}

/* A swizzle keeps the digit's values if they are a power of two that its own do not exceed; and it can be taken back
 * if the other dimension is not swizzled itself. */
static void check_swizzle(const naming *n, const tg_digits *l, const tg_digit *g) {
  tg_job *j = n->s->j;
  if (!g->by_mod) return;
  if (g->extent & (g->extent - 1) || g->by_mod > g->extent)
    tg_fail_at(j, n->o->pos, "stage %s: a digit of %lld values is swizzled by one of %lld: both must be powers of two, "
               "and the second not more", n->o->names[0], (long long)g->extent, (long long)g->by_mod);
  for (uint32_t i = 0; i < l->n; i++)
    if (l->digit[i].dim == g->by && l->digit[i].by_mod)
      tg_fail_at(j, n->o->pos, "stage %s: dimension %u is swizzled itself, and cannot swizzle another", n->o->names[0],
                 g->by);
}

/* The digits of dimension d from the smallest: each begins where the one before ends, the last reaches the extent. */
static void check_dimension(const naming *n, tg_digits *l, uint32_t d) {
  int64_t reached = 1, extent = n->part->extent[d];
  for (bool open = true; open;) {
    tg_digit *next = NULL;
    for (uint32_t i = 0; i < l->n; i++)
      if (l->digit[i].dim == d && !l->digit[i].checked && l->digit[i].div >= reached &&
          (!next || l->digit[i].div < next->div))
        next = &l->digit[i];
    if (!next) break;
    if (next->div != reached)
      tg_fail_at(n->s->j, n->o->pos, "stage %s: no digit of dimension %u counts in steps of %lld", n->o->names[0], d,
                 (long long)reached);
    next->extent = next->mod ? next->mod : (extent + next->div - 1) / next->div;
    if (next->extent < 1) next->extent = 1;
    open = next->mod != 0;
    next->checked = true;
    if (!open) reached = INT64_MAX;
    else if (__builtin_mul_overflow(reached, next->mod, &reached)) reached = INT64_MAX;
  }
  if (reached < extent)
    tg_fail_at(n->s->j, n->o->pos, "stage %s: the layout has room for %lld of the %lld elements in dimension %u",
               n->o->names[0], (long long)(reached == 1 ? 1 : reached), (long long)extent, d);
}

tg_digits tg_digits_parse(tg_schedule *s, const tg_opt *o, const tg_stage_part *part) {
  tg_job *j = s->j;
  tg_digits l = {0};
  if (!o->expr) {
    for (l.n = 0; l.n < part->rank; l.n++)
      l.digit[l.n] = (tg_digit){.dim = l.n, .div = 1, .extent = part->extent[l.n], .checked = true};
    return l;
  }
  naming n = {.s = s, .o = o, .part = part};
  name_dimensions(&n);
  for (const char *at = o->expr;; at++) {
    while (*at == ' ') at++;
    size_t length = strcspn(at, ",");
    if (l.n == TG_COUNT(l.digit))
      tg_fail_at(j, o->pos, "stage %s: a copy of more than %zu dimensions", o->names[0], TG_COUNT(l.digit));
    l.digit[l.n++] = parse_digit(&n, tg_strndup(&j->env, at, length));
    at += length;
    if (!*at) break;
  }
  for (uint32_t d = 0; d < part->rank; d++) check_dimension(&n, &l, d);
  for (uint32_t i = 0; i < l.n; i++)
    if (!l.digit[i].checked)
      tg_fail_at(j, o->pos, "stage %s: two digits hold the same part of dimension %u", o->names[0], l.digit[i].dim);
  for (uint32_t i = 0; i < l.n; i++) check_swizzle(&n, &l, &l.digit[i]);
  return l;
}

static const tg_uop *digit_of(tg_job *j, const tg_uop *offset, int64_t div, int64_t mod) {
  if (div > 1) offset = tg_op2(j, TG_OP_IDIV, offset, tg_index(j, div));
  return mod ? tg_op2(j, TG_OP_MOD, offset, tg_index(j, mod)) : offset;
}

const tg_uop *tg_digits_swizzled(tg_schedule *s, const tg_digit *g, const tg_uop *value, const tg_uop *const *offset) {
  return g->by_mod ? tg_op2(s->j, TG_OP_XOR, value, digit_of(s->j, offset[g->by], g->by_div, g->by_mod)) : value;
}

const tg_uop *tg_digits_place(tg_schedule *s, const tg_digit *g, const tg_uop *const *offset) {
  return tg_digits_swizzled(s, g, digit_of(s->j, offset[g->dim], g->div, g->mod), offset);
}
