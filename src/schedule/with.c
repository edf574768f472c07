/* SPDX-License-Identifier: MIT
 * stage .. space=packed with S[j] = sum(k, e): a reduction over whole dimensions of B, computed when B is packed. Equal
 * reductions in the kernel then read S. In e, an expression over B[k, j], the names stand for dimensions of B, as the
 * word's own subscripts B[k, j] define them. */
#include "schedule/stage.h"
#include <ctype.h>

typedef struct { tg_schedule *s; const tg_opt *o; const char *at; } scan;

TG_NORETURN static void bad(const scan *c, const char *what) {
  tg_fail_at(c->s->j, c->o->pos, "stage %s with %s: %s", c->o->names[0], c->o->with, what);
}

static bool name_char(char x) { return isalnum((unsigned char)x) || x == '_' || x == '.'; }

static void skip(scan *c) {
  while (isspace((unsigned char)*c->at)) c->at++;
}

static bool take(scan *c, char what) {
  skip(c);
  if (*c->at != what) return false;
  c->at++;
  return true;
}

static const char *name(scan *c) {
  size_t n = 0;
  skip(c);
  while (name_char(c->at[n])) n++;
  if (!n || isdigit((unsigned char)*c->at)) bad(c, "expected S[j] = sum(k, an expression over the element)");
  c->at += n;
  return tg_symbol(c->s->j, c->at - n, n);
}

static bool at_summed(const scan *c) {   /* k, */
  scan ahead = *c;
  size_t n = 0;
  skip(&ahead);
  while (name_char(ahead.at[n])) n++;
  ahead.at += n;
  return n && take(&ahead, ',');
}

/* Other names than these, functions and types: said at the opt, and not in the words of the expression's parser. */
static void check_words(const scan *c, const char *text, uint32_t n, const char *const *names) {
  for (const char *at = text; *at;) {
    size_t length = 0, k = 0;
    while (name_char(at[length])) length++;
    const char *after = at + length;
    while (isspace((unsigned char)*after)) after++;
    while (k < n && (strncmp(names[k], at, length) || names[k][length])) k++;
    if (length && !isdigit((unsigned char)*at) && k == n && *after != '(')
      bad(c, tg_format(&c->s->j->env, "'%.*s' is none of its names", (int)length, at));
    at += length ? length : 1;
  }
}

static const tg_uop *element_of(const scan *c, const tg_uop *e, const tg_uop *source) {
  uint32_t n;
  const tg_uop **order = tg_toposort(c->s->j, e, &n), *found = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_REDUCE) bad(c, "the expression is over the element alone");
    if (order[i]->op != TG_OP_LOAD) continue;
    if (found || tg_define_of(order[i]->src[0]) != source) bad(c, "the expression is over one element alone");
    found = order[i];
  }
  if (!found || tg_gate(found)) bad(c, "the expression is over one element");
  return found;
}

tg_stage_sum tg_stage_sum_parse(tg_schedule *s, const tg_opt *o, const tg_uop *source) {
  static const struct {
    const char *name;
    tg_op op;
  } ops[] = {{"sum", TG_OP_ADD}, {"prod", TG_OP_MUL}, {"max", TG_OP_MAX}, {"min", TG_OP_MIN}};
  scan c = {s, o, o->with};
  tg_job *j = s->j;
  tg_stage_sum sum = {.source = source, .name = name(&c)};
  const char *names[33];
  const tg_uop *values[33];
  uint32_t kept, all, k = 0, rank = tg_buffer_info(j, source)->rank;
  if (!take(&c, '[')) bad(&c, "expected '['");
  for (all = 0; !take(&c, ']'); all++) {
    if (all == 16) bad(&c, "over 16 subscripts");
    if (all && !take(&c, ',')) bad(&c, "expected ',' or ']'");
    names[all] = name(&c);
  }
  kept = all;
  if (!take(&c, '=')) bad(&c, "expected '='");
  const char *op = name(&c);
  while (k < TG_COUNT(ops) && strcmp(ops[k].name, op)) k++;
  if (k == TG_COUNT(ops) || !take(&c, '(')) bad(&c, "expected sum(, prod(, max( or min(");
  sum.op = ops[k].op;
  for (; at_summed(&c); all++) {
    if (all == 32) bad(&c, "over 16 subscripts");
    names[all] = name(&c);
    take(&c, ',');
  }
  size_t n = strlen(c.at);
  while (n && isspace((unsigned char)c.at[n - 1])) n--;
  if (!n || c.at[n - 1] != ')') bad(&c, "expected ')' at the end");
  const char *text = tg_strndup(&j->env, c.at, n - 1);
  for (uint32_t i = 0; i < all; i++) values[i] = tg_make(j, TG_OP_ARG, TG_INDEX, 1, i, 0, NULL);
  names[all] = tg_buffer_info(j, source)->name;
  values[all] = source;
  check_words(&c, text, all + 1, names);
  sum.value = tg_parse_expr(j, text, all + 1, names, values);
  sum.element = element_of(&c, sum.value, source);
  if (all != rank || kept == all)
    bad(&c, "each dimension of it is a subscript or summed over, and one is summed over at least");
  for (uint32_t d = 0; d < rank; d++) {
    const tg_uop *at = sum.element->src[1 + d];
    if (at->op != TG_OP_ARG) bad(&c, "the element's subscripts are those names alone");
    for (uint32_t e = 0; e < d; e++)
      if (sum.element->src[1 + e] == at) bad(&c, "two dimensions go by one name");
    if (at->arg < kept) sum.kept[at->arg] = d;
    else sum.summed[d] = true;
  }
  sum.rank = kept;
  return sum;
}

const tg_uop *tg_stage_sum_define(tg_schedule *s, const tg_opt *o, const tg_stage_sum *sum, bool output) {
  const tg_uop *dims[16];
  for (uint32_t i = 0; i < sum->rank; i++) dims[i] = sum->source->src[sum->kept[i]];
  tg_buffer info = {.name = sum->name,
                    .space = TG_SPACE_GLOBAL,
                    .role = output ? TG_ROLE_OUT : TG_ROLE_IN,
                    .rank = (uint8_t)sum->rank,
                    .type = sum->value->type,
                    .pos = o->pos};
  return tg_define(s->j, info, 1, dims, NULL, !output);
}

static const tg_uop *over(tg_job *j, const tg_stage_sum *sum, const tg_uop *element) {
  return tg_substitute(j, sum->value, 1, &sum->element, &element);
}

/* The statement that makes S, in author form. */
const tg_uop *tg_stage_sum_statement(tg_schedule *s, const tg_opt *o, const tg_stage_sum *sum, const tg_uop *target) {
  tg_job *j = s->j;
  const tg_uop *at[16], *reduced[16], *place[16], *element;
  uint32_t n = 0, rank = tg_buffer_info(j, sum->source)->rank;
  for (uint32_t d = 0; d < rank; d++) {
    at[d] = tg_range_new(j, tg_format(&j->env, "%s_%u", sum->name, d), sum->source->src[d],
                         sum->summed[d] ? TG_REDUCE : TG_LOOP, UINT32_MAX, o->pos);
    if (sum->summed[d]) reduced[n++] = at[d];
  }
  if (n > 8) tg_fail_at(j, o->pos, "stage %s with %s: over 8 dimensions are summed over", o->names[0], o->with);
  for (uint32_t i = 0; i < sum->rank; i++) place[i] = at[sum->kept[i]];
  element = tg_load(j, sum->source, at, NULL, NULL, 0);
  const tg_uop *value = over(j, sum, element);
  value = tg_reduce(j, (tg_reduce_arg){.op = sum->op, .values = 1, .ranges = (uint8_t)n}, &value, NULL, NULL, reduced);
  const tg_uop *u = tg_store(j, target, place, value, NULL, 0);
  tg_set_pos(j, u, o->pos);
  for (uint32_t i = sum->rank; i-- > 0;) {
    u = tg_end(j, place[i], 1, &u);
    tg_set_pos(j, u, o->pos);
  }
  return u;
}

/* ---- the kernel's own reductions ---- */

static bool is_one_of(const tg_uop *u, uint32_t n, const tg_uop *const *list) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == u) return true;
  return false;
}

/* Does the load run over all of the summed dimensions with the reduction's ranges, and over the others without? */
static bool runs_over(tg_job *j, const tg_stage_sum *sum, const tg_uop *reduce, const tg_uop *load) {
  uint32_t n = tg_reduce_info(reduce).ranges, used = 0;
  const tg_uop *const *ranges = tg_reduce_ranges(reduce);
  for (uint32_t d = 0; d < tg_access_rank(load); d++) {
    const tg_uop *at = load->src[1 + d];
    if (!sum->summed[d]) {
      for (uint32_t i = 0; i < n; i++)
        if (tg_uses(j, at, ranges[i])) return false;
      continue;
    }
    /* a range of one iteration has left its subscript */
    if (tg_is_const(at, 0) && tg_is_const(sum->source->src[d], 1)) continue;
    if (!is_one_of(at, n, ranges) || is_one_of(at, d, load->src + 1)) return false;
    if (tg_extent(at) != sum->source->src[d] &&
        !tg_proves(j, NULL, tg_op2(j, TG_OP_EQ, tg_extent(at), sum->source->src[d])))
      return false;
    used++;
  }
  for (uint32_t i = 0; i < n && tg_gate(load); i++)
    if (tg_uses(j, tg_gate(load), ranges[i])) return false;
  for (uint32_t i = 0; i < n; i++)
    used += tg_is_const(tg_extent(ranges[i]), 1) && !is_one_of(ranges[i], tg_access_rank(load), load->src + 1);
  return used == n;
}

/* The load that makes this reduction the sum; NULL: it is another. */
static const tg_uop *found_in(const tg_replaced_sums *r, const tg_uop *reduce) {
  tg_job *j = r->s->j;
  tg_reduce_arg a = tg_reduce_info(reduce);
  uint32_t n;
  if (a.generic || a.in_order || a.op != r->sum->op || reduce->type != r->sum->value->type) return NULL;
  const tg_uop **order = tg_toposort(j, reduce->src[0], &n), *simple = tg_simplify(j, r->s->l->rules, reduce->src[0]);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_LOAD || tg_define_of(order[i]->src[0]) != r->sum->source ||
        !runs_over(j, r->sum, reduce, order[i]))
      continue;
    if (tg_simplify(j, r->s->l->rules, over(j, r->sum, order[i])) != simple) continue;
    const tg_uop *none =
        tg_gate(order[i]) ? tg_simplify(j, r->s->l->rules, over(j, r->sum, tg_alternative(order[i]))) : NULL;
    if (none && none != tg_identity(j, a.op, reduce->type)) continue;
    return order[i];
  }
  return NULL;
}

const tg_uop *tg_stage_sum_replace(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  tg_replaced_sums *r = user;
  const tg_uop *load = old->op == TG_OP_REDUCE ? found_in(r, old) : NULL, *at[16];
  (void)src;
  if (!load) return NULL;
  for (uint32_t i = 0; i < r->sum->rank; i++) at[i] = load->src[1 + r->sum->kept[i]];
  r->found++;
  const tg_uop *gate = tg_gate(load);
  return tg_load(j, r->define, at, gate, gate ? tg_identity(j, r->sum->op, old->type) : NULL, 0);
}
