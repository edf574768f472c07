/* SPDX-License-Identifier: MIT
 * cut: one range becomes two siblings, one after the other, that later opts schedule apart. A reduction becomes the
 * op of two reductions. Always legal for loops, since the order of the iterations stays. */
#include "schedule/opt.h"
#include <ctype.h>

static const tg_uop *part_range(tg_schedule *s, tg_cutting *c, uint32_t i) {
  const tg_part *p = &c->part[i];
  tg_kind kind = tg_range_kind(c->range);
  return c->made[i] = c->names.base ? tg_axis_part(s, c->range, &c->names, p->name, p->extent, kind)
                                    : tg_axis_range(s, c->range, p->name, p->extent, kind);
}

/* What stands in part i for a node of the body. */
static const tg_uop *in_part(tg_schedule *s, const tg_cutting *c, uint32_t i, const tg_uop *u) {
  const tg_uop *value = tg_idx_add(s->j, c->part[i].start, c->made[i]);
  if (c->part[i].known) u = tg_substitute(s->j, u, 1, &c->cond, &c->part[i].known);
  return tg_substitute(s->j, u, 1, &c->range, &value);
}

static void cut_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  tg_cutting *c = user;
  const tg_uop **list = tg_new(&s->j->env, const tg_uop *, end->n);
  for (uint32_t i = 0; i < c->n; i++) {
    if (c->part[i].nothing) continue;
    const tg_uop *r = part_range(s, c, i);
    for (uint32_t k = 0; k + 1 < end->n; k++) list[k] = in_part(s, c, i, end->src[1 + k]);
    if (c->copied >> i & 1) tg_copy_statements(s, end->n - 1, list, list);
    tg_push(&s->j->env, out, tg_end_like(s, end, r, end->n - 1, list));
  }
}

typedef struct { tg_schedule *s; const tg_opt *o; tg_cutting *c; } reduce_cutting;

static const tg_uop *cut_reduce(tg_job *j, const tg_uop *old, const tg_uop *const *unused, void *user) {
  (void)unused;
  const reduce_cutting *x = user;
  if (old->op != TG_OP_REDUCE) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  const tg_uop *const *ranges = tg_reduce_ranges(old), *all = NULL, *fresh[8];
  uint32_t at = 0;
  while (at < a.ranges && ranges[at] != x->c->range) at++;
  if (at == a.ranges) return NULL;
  if (a.in_order)
    tg_fail_at(j, x->o->pos, "cut %s: a sum_in_order keeps the order of its terms", tg_range_text(x->s, x->c->range));
  if (a.generic)
    tg_fail_at(j, x->o->pos, "cut %s: a general reduction cannot be cut", tg_range_text(x->s, x->c->range));
  for (uint32_t i = 0; i < x->c->n; i++) {
    if (x->c->part[i].nothing) continue;
    const tg_uop *r = part_range(x->s, x->c, i), *body = in_part(x->s, x->c, i, old->src[0]);
    for (uint32_t k = 0; k < a.ranges; k++) fresh[k] = k == at ? r : in_part(x->s, x->c, i, ranges[k]);
    const tg_uop *part = tg_reduce_like(j, old, &body, a.ranges, fresh);
    if (x->c->copied >> i & 1) part = tg_copy_reduction(x->s, part);
    all = all ? tg_op2(j, a.op, all, part) : part;
  }
  return all ? all : tg_identity(j, a.op, old->type);
}

void tg_cut_site(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_cutting *c) {
  if (site->owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, site->range, cut_loop, c);
  else {
    reduce_cutting x = {s, o, c};
    s->sink = tg_map(s->j, s->sink, cut_reduce, NULL, &x);
  }
}

static void check_names(tg_schedule *s, const tg_opt *o, const char *word, uint32_t n, const char *const *names) {
  for (const char *at = o->expr; *at;) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_' || at[length] == '.') length++;
    uint32_t i = 0;
    while (i < n && (strncmp(names[i], at, length) || names[i][length])) i++;
    bool is_name = length && !isdigit((unsigned char)*at) && at[length] != '(';
    if (is_name && i == n)
      tg_fail_at(s->j, o->pos, "%s %s: '%.*s' is no parameter, knob or range around it", word, o->names[0],
                 (int)length, at);
    at += length ? length : 1;
  }
}

static bool stands_in(tg_job *j, const tg_uop *inner, const tg_uop *outer) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, outer, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i] == inner) return true;
  return false;
}

/* Is x a range summed over around the site: an earlier one of the same reduction, or one of a reduction that this
 * one stands in? */
static bool summed_around(tg_schedule *s, const tg_site *x, const tg_site *site) {
  if (x->owner->op != TG_OP_REDUCE || site->owner->op != TG_OP_REDUCE || x->store != site->store ||
      x->range == site->range)
    return false;
  if (x->owner != site->owner) return stands_in(s->j, site->owner, x->owner);
  for (const tg_uop *const *r = tg_reduce_ranges(site->owner); *r != site->range; r++)
    if (*r == x->range) return true;
  return false;
}

/* From the inside to the outside: the nearest of a name is meant. */
static uint32_t add_range(const char *name, const tg_uop *range, uint32_t n, const char **names,
                          const tg_uop **values) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return n;
  names[n] = name;
  values[n] = range;
  return n + 1;
}

/* The ranges around the site by their own names; shared: by what copies of one range are called together, so that one
 * word serves all of them. */
static uint32_t add_around(tg_schedule *s, const tg_site *site, bool shared, uint32_t n, const char **names,
                           const tg_uop **values) {
  for (uint32_t i = s->sites.n; i-- > 0;) {
    const tg_uop *r = s->sites.data[i].range;
    if (summed_around(s, &s->sites.data[i], site))
      n = add_range(shared ? tg_axis_base(s, r) : tg_range_name(s, r), r, n, names, values);
  }
  for (uint32_t p = site->parent; p != UINT32_MAX; p = s->sites.data[p].parent) {
    const tg_uop *r = s->sites.data[p].range;
    n = add_range(shared ? tg_axis_base(s, r) : tg_range_name(s, r), r, n, names, values);
  }
  return n;
}

const tg_uop *tg_index_around(tg_schedule *s, const tg_opt *o, const char *word, const tg_site *site) {
  tg_job *j = s->j;
  uint32_t n = 0, most = j->params.n + j->constants.n + 2 * s->sites.n;
  const char **names = tg_new(&j->env, const char *, most);
  const tg_uop **values = tg_new(&j->env, const tg_uop *, most);
  n = add_around(s, site, false, n, names, values);
  n = add_around(s, site, true, n, names, values);
  for (uint32_t i = 0; i < j->params.n; i++) {
    names[n] = j->params.data[i].name;
    values[n++] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, i, 0, NULL);
  }
  for (uint32_t i = 0; i < j->constants.n; i++) {
    names[n] = j->constants.data[i].name;
    values[n++] = tg_index(j, j->constants.data[i].value);
  }
  check_names(s, o, word, n, names);
  const tg_uop *e = tg_parse_expr(j, o->expr, n, names, values);
  if (e->type != TG_INDEX) tg_fail_at(j, o->pos, "%s %s: '%s' is no index", word, o->names[0], o->expr);
  e = tg_in_version(s, site, e);
  if (tg_bounds_of(j, e).lo == tg_bounds_of(j, e).hi) return tg_index(j, (int64_t)tg_bounds_of(j, e).lo);
  return e;
}

static tg_cutting parts_of(tg_schedule *s, const tg_opt *o, const tg_site *site) {
  tg_job *j = s->j;
  const tg_uop *extent = tg_extent(site->range), *one = tg_idx_min(j, tg_index(j, 1), extent);
  const tg_uop *zero = tg_index(j, 0), *rest = tg_idx_sub(j, extent, tg_index(j, 1));
  tg_cutting c = {.range = site->range, .n = 2, .copied = 1};
  if (tg_bounds_of(j, extent).lo >= 1) one = tg_index(j, 1);
  if (o->number[0] == TG_CUT_FIRST) {
    c.part[0] = (tg_part){.name = "first", .start = zero, .extent = one};
    c.part[1] = (tg_part){.name = "main", .start = tg_index(j, 1), .extent = rest};
  } else if (o->number[0] == TG_CUT_LAST) {
    c.part[0] = (tg_part){.name = "main", .start = zero, .extent = rest};
    c.part[1] = (tg_part){.name = "last", .start = tg_idx_not_negative(j, rest), .extent = one};
    c.copied = 2;
  } else {
    const tg_uop *at = tg_idx_not_negative(j, tg_index_around(s, o, "cut", site));
    bool within = at->op == TG_OP_CONST && tg_bounds_of(j, extent).lo >= at->arg;
    if (!within && tg_proves(j, NULL, tg_op2(j, TG_OP_LE, at, extent))) within = true;
    if (!within) at = tg_idx_min(j, at, extent);
    c.part[0] = (tg_part){.name = "0", .start = zero, .extent = at};
    c.part[1] = (tg_part){.name = "1", .start = at, .extent = tg_idx_sub(j, extent, at)};
    c.copied = 2;
  }
  for (uint32_t i = 0; i < 2 && o->n > 1; i++) c.part[i].name = o->names[1 + i];
  return c;
}

/* All of an axis' ranges, before any of them is cut. */
static tg_naming *name_parts(tg_schedule *s, const tg_opt *o, const tg_axis *axis) {
  static const char *const suffix[][2] = {
      [TG_CUT_AT] = {"0", "1"}, [TG_CUT_FIRST] = {"first", "main"}, [TG_CUT_LAST] = {"main", "last"}};
  tg_naming *names = tg_new(&s->j->env, tg_naming, axis->n);
  for (uint32_t i = 0; i < axis->n && o->n < 2 && o->number[0] != TG_CUT_AUTO; i++)
    names[i] = tg_axis_naming(s, axis->site[i].range, 2, suffix[o->number[0]]);
  return names;
}

void tg_opt_cut(tg_schedule *s, const tg_opt *o) {
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  const tg_naming *names = name_parts(s, o, &axis);
  /* from the inside: the copy that a cut loop makes of its body has ranges of its own, which this list does not know */
  for (uint32_t i = axis.n; i-- > 0;) {
    const tg_site *site = &axis.site[i];
    tg_kind kind = tg_range_kind(site->range);
    if (kind != TG_LOOP && kind != TG_REDUCE && kind != TG_THREAD && kind != TG_GLOBAL)
      tg_fail_at(s->j, o->pos, "cut %s: it is %s already", tg_range_text(s, site->range), tg_kind_name[kind]);
    if (o->number[0] == TG_CUT_AUTO) continue;
    tg_cutting c = parts_of(s, o, site);
    c.names = names[i];
    tg_cut_site(s, o, site, &c);
  }
  if (o->number[0] == TG_CUT_AUTO) tg_cut_auto(s, o);
}
