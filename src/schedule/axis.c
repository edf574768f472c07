/* SPDX-License-Identifier: MIT
 * Names of ranges in the text of a schedule. An axis is a set of ranges that one name means: ranges that came from one
 * range by splits and copies and have the same name, and ranges that index the same dimension of a register tile.
 *
 *   i      the axis i, if only one has that name
 *   B.i    the range i of the statements that store to B
 *   x.i    the range i inside the loop x
 *   i#2    the second axis named i, in program order
 *
 * Names may contain dots themselves; whole names are tried first. Parts of B.i#2 that a word makes without naming them
 * are called after the range itself: i.0, or i_2.0 if another axis has a range i.0 already. Then i_2.0 answers to i.0
 * as well, so that it can be written B.i.0. */
#include "schedule/opt.h"
#include <stdlib.h>

static void collect_reductions(tg_schedule *s, const tg_uop *store, uint32_t parent) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, store, &n);
  for (uint32_t i = n; i-- > 0;) {
    if (order[i]->op != TG_OP_REDUCE) continue;
    const tg_uop *const *ranges = tg_reduce_ranges(order[i]);
    for (uint32_t k = 0; k < tg_reduce_info(order[i]).ranges; k++)
      tg_push(&s->j->env, &s->sites, ((tg_site){ranges[k], order[i], store, parent}));
  }
}

static void collect(tg_schedule *s, const tg_uop *u, uint32_t parent) {
  if (u->op == TG_OP_STORE) {
    tg_push(&s->j->env, &s->stores, ((tg_store_site){u, parent}));
    collect_reductions(s, u, parent);
  }
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return;
  uint32_t inside = parent;
  if (u->op == TG_OP_END) {
    inside = s->sites.n;
    tg_push(&s->j->env, &s->sites, ((tg_site){u->src[0], u, NULL, parent}));
  }
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) collect(s, u->src[i], inside);
}

void tg_schedule_sites(tg_schedule *s) {
  if (s->sites_of == s->sink) return;
  if (s->sites_of == s->author && s->author) {   /* these stay: numbers in names count them */
    s->first = tg_new(&s->j->env, tg_sites, 1);
    *s->first = (tg_sites){s->sites.data, s->sites.n, s->stores.data, s->stores.n};
    memset(&s->sites, 0, sizeof s->sites);
    memset(&s->stores, 0, sizeof s->stores);
  }
  s->sites.n = s->stores.n = 0;
  collect(s, s->sink, UINT32_MAX);
  s->sites_of = s->sink;
}

static tg_sites sites_now(const tg_schedule *s) {
  return (tg_sites){s->sites.data, s->sites.n, s->stores.data, s->stores.n};
}

static tg_sites sites_first(const tg_schedule *s) { return s->first ? *s->first : sites_now(s); }

/* Does the extent at a site read memory that is defined inside the loop over range, so private to its iterations? */
static bool reads_private(tg_schedule *s, uint32_t site, const tg_uop *range) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, tg_extent(s->sites.data[site].range), &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_LOAD) continue;
    bool private = false;
    for (uint32_t p = s->sites.data[site].parent; p != UINT32_MAX; p = s->sites.data[p].parent) {
      const tg_uop *end = s->sites.data[p].owner;
      for (uint32_t k = 1; k < end->n; k++) private |= end->src[k] == tg_define_of(order[i]->src[0]);
      if (end->src[0] != range) continue;
      if (private) return true;
      break;
    }
  }
  return false;
}

const tg_uop *tg_extent_following(tg_schedule *s, const tg_uop *range) {
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_uop *r = s->sites.data[i].range, *e = tg_extent(r);
    if (e->op != TG_OP_CONST && e->op != TG_OP_PARAM && (tg_uses(s->j, e, range) || reads_private(s, i, range)))
      return r;
  }
  return NULL;
}

const char *tg_range_text(tg_schedule *s, const tg_uop *range) {
  const tg_range_info *info = &s->j->ranges.data[tg_range_ordinal(range)];
  return info->pos.line ? tg_format(&s->j->env, "%s (line %d)", info->name, info->pos.line) : info->name;
}

void tg_axis_call_plainly(tg_schedule *s, const tg_uop *range, const char *plain) {
  while (s->plain.n <= tg_range_ordinal(range)) tg_push(&s->j->env, &s->plain, NULL);
  s->plain.data[tg_range_ordinal(range)] = plain;
}

const tg_uop *tg_axis_range(tg_schedule *s, const tg_uop *like, const char *name, const tg_uop *extent, tg_kind kind) {
  uint32_t ordinal = tg_range_ordinal(like);
  tg_pos pos = s->j->ranges.data[ordinal].pos;
  const tg_uop *r = tg_range_new(s->j, name, extent, kind, s->j->ranges.data[ordinal].from, pos);
  if (kind == TG_THREAD && tg_range_static(like)) r = tg_range_dealt(s->j, r, true);
  while (s->axis.n <= tg_range_ordinal(r)) tg_push(&s->j->env, &s->axis, 0);
  s->axis.data[tg_range_ordinal(r)] = ordinal < s->axis.n ? s->axis.data[ordinal] : 0;
  if (strcmp(name, s->j->ranges.data[ordinal].name)) return r;
  const char *family = ordinal < s->family.n ? s->family.data[ordinal] : NULL,
             *plain = ordinal < s->plain.n ? s->plain.data[ordinal] : NULL;
  if (family) tg_axis_join(s, r, family); /* a copy */
  if (plain) tg_axis_call_plainly(s, r, plain);
  return r;
}

void tg_axis_join(tg_schedule *s, const tg_uop *range, const char *family) {
  while (s->family.n <= tg_range_ordinal(range)) tg_push(&s->j->env, &s->family, NULL);
  s->family.data[tg_range_ordinal(range)] = family;
}

static const char *family_of(const tg_schedule *s, const tg_uop *range) {
  return tg_range_ordinal(range) < s->family.n ? s->family.data[tg_range_ordinal(range)] : NULL;
}

const char *tg_axis_base(tg_schedule *s, const tg_uop *range) {
  const char *family = family_of(s, range);
  return family ? family : tg_range_name(s, range);
}

static const char *plain_of(const tg_schedule *s, const tg_uop *range) {
  return tg_range_ordinal(range) < s->plain.n ? s->plain.data[tg_range_ordinal(range)] : NULL;
}

static bool answers_to(tg_schedule *s, const tg_uop *range, const char *name) {
  const char *family = family_of(s, range), *plain = plain_of(s, range);
  return !strcmp(tg_range_name(s, range), name) || (family && !strcmp(family, name)) || (plain && !strcmp(plain, name));
}

static bool is_taken(tg_schedule *s, const char *name) {
  for (uint32_t i = 0; i < s->sites.n; i++)
    if (answers_to(s, s->sites.data[i].range, name)) return true;
  return false;
}

tg_naming tg_axis_naming(tg_schedule *s, const tg_uop *range, uint32_t n, const char *const *suffix) {
  const char *own = tg_axis_base(s, range), *plain = plain_of(s, range);
  tg_naming names = {own, plain ? plain : own};
  for (uint32_t k = 2;; k++) {
    bool taken = k > 2 && is_taken(s, names.base);
    for (uint32_t i = 0; i < n && !taken; i++)
      taken = is_taken(s, tg_format(&s->j->env, "%s.%s", names.base, suffix[i]));
    if (!taken) return names;
    names.base = tg_format(&s->j->env, "%s_%u", own, k);
  }
}

const tg_uop *tg_axis_part(tg_schedule *s, const tg_uop *like, const tg_naming *names, const char *suffix,
                           const tg_uop *extent, tg_kind kind) {
  const tg_uop *r = tg_axis_range(s, like, tg_format(&s->j->env, "%s.%s", names->base, suffix), extent, kind);
  if (strcmp(names->base, names->plain))
    tg_axis_call_plainly(s, r, tg_format(&s->j->env, "%s.%s", names->plain, suffix));
  return r;
}

static void tie_ordinals(tg_schedule *s, uint32_t a, uint32_t b) {
  while (s->tied.n <= (a > b ? a : b)) tg_push(&s->j->env, &s->tied, 0);
  if (!s->tied.data[b]) s->tied.data[b] = b + 1;
  s->tied.data[a] = s->tied.data[b];
}

void tg_axis_tie(tg_schedule *s, const tg_uop *range, const tg_uop *with) {
  tie_ordinals(s, tg_range_ordinal(range), tg_range_ordinal(with));
}

void tg_axis_check_name(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_schedule_sites(s);
  if (is_taken(s, name)) tg_fail_at(s->j, o->pos, "the name '%s' is taken by a range", name);
}

static uint32_t axis_of(const tg_schedule *s, uint32_t ordinal) {
  uint32_t a = ordinal < s->axis.n ? s->axis.data[ordinal] : 0;
  return a ? a - 1 : s->j->ranges.data[ordinal].from;
}

/* ---- tiles in registers tie ranges together ---- */

typedef struct { uint32_t *up, ranges; } ties;

static uint32_t root_of(const ties *t, uint32_t x) {
  while (t->up[x] != x) x = t->up[x] = t->up[t->up[x]];
  return x;
}

static void tie(const ties *t, uint32_t a, uint32_t b) {
  a = root_of(t, a);
  b = root_of(t, b);
  if (a < b) t->up[b] = a;
  else t->up[a] = b;
}

static void tie_access(tg_schedule *s, const ties *t, const tg_uop *access) {
  const tg_buffer *b = tg_buffer_info(s->j, access->src[0]);
  if (b->space != TG_SPACE_REG || b->demand == TG_PLACE_MEMORY) return; /* in memory any range may index it */
  for (uint32_t d = 0; d < tg_access_rank(access); d++)
    if (access->src[1 + d]->op == TG_OP_RANGE)
      tie(t, tg_range_ordinal(access->src[1 + d]), t->ranges + tg_buffer_ordinal(access->src[0]) * 16 + d);
}

/* By ordinal: a number that the ranges of one axis share. */
static ties tie_ranges(tg_schedule *s) {
  tg_job *j = s->j;
  bool tiles = false;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    const tg_uop *store = s->stores.data[i].store;
    tiles |= tg_buffer_info(j, store->src[0])->space == TG_SPACE_REG && tg_access_rank(store);
  }
  ties t = {.ranges = j->ranges.n};
  uint32_t n = t.ranges + (tiles ? 16 * j->buffers.n : 0);
  t.up = tg_new(&j->env, uint32_t, n + 1);
  for (uint32_t i = 0; i < n; i++) t.up[i] = i;
  for (uint32_t i = 0; i < t.ranges && i < s->tied.n; i++)
    if (s->tied.data[i]) tie(&t, i, s->tied.data[i] - 1);
  if (!tiles) return t;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    uint32_t count;
    const tg_uop **order = tg_toposort(j, s->stores.data[i].store, &count);
    for (uint32_t k = 0; k < count; k++)
      if (order[k]->op == TG_OP_LOAD || order[k]->op == TG_OP_STORE) tie_access(s, &t, order[k]);
  }
  return t;
}

/* ---- names ---- */

/* Is the site inside a loop of that name, or in a reduction that also has a range of that name? */
static bool inside_range(tg_schedule *s, const tg_sites *v, uint32_t site, const char *name) {
  const tg_site *x = &v->site[site];
  if (x->owner->op == TG_OP_REDUCE)
    for (uint32_t i = 0; i < tg_reduce_info(x->owner).ranges; i++)
      if (answers_to(s, tg_reduce_ranges(x->owner)[i], name)) return true;
  for (uint32_t parent = x->parent; parent != UINT32_MAX; parent = v->site[parent].parent)
    if (answers_to(s, v->site[parent].range, name)) return true;
  return false;
}

static bool stores_to(tg_schedule *s, const tg_sites *v, uint32_t site, const char *buffer) {
  const tg_site *x = &v->site[site];
  if (x->store) return !strcmp(tg_buffer_info(s->j, x->store->src[0])->name, buffer);
  for (uint32_t i = 0; i < v->stores; i++) {
    if (strcmp(tg_buffer_info(s->j, v->store[i].store->src[0])->name, buffer)) continue;
    for (uint32_t p = v->store[i].parent; p != UINT32_MAX; p = v->site[p].parent)
      if (p == site) return true;
  }
  return false;
}

static bool matches(tg_schedule *s, const tg_sites *v, uint32_t site, const char *name, size_t prefix) {
  const tg_uop *range = v->site[site].range;
  if (tg_range_kind(range) == TG_MERGE) return false;   /* what merges two states is no loop that words could change */
  if (!prefix) return answers_to(s, range, name);
  if (!answers_to(s, range, name + prefix + 1)) return false;
  const char *scope = tg_symbol(s->j, name, prefix);
  return stores_to(s, v, site, scope) || inside_range(s, v, site, scope);
}

TG_NORETURN static void unknown(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_str t = tg_str_new(&s->j->env);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    bool seen = tg_range_kind(s->sites.data[i].range) == TG_MERGE;
    for (uint32_t k = 0; k < i && !seen; k++) seen = s->sites.data[k].range == s->sites.data[i].range;
    if (!seen) tg_str_printf(&t, "%s%s", t.n ? ", " : "", tg_range_text(s, s->sites.data[i].range));
  }
  tg_fail_at(s->j, o->pos, "no range '%s' here; there are: %s", name, t.n ? t.data : "none");
}

TG_NORETURN static void ambiguous(tg_schedule *s, const tg_opt *o, const char *name, uint32_t n,
                                  const uint32_t *found) {
  tg_str t = tg_str_new(&s->j->env);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *r = s->sites.data[found[i]].range;
    tg_pos p = s->j->ranges.data[tg_range_ordinal(r)].pos;
    if (p.line) tg_str_printf(&t, "%s%d", t.n ? ", " : " of lines ", p.line);
  }
  tg_fail_at(s->j, o->pos, "'%s' may mean the ranges%s: say which with BUFFER.%s or %s#1, %s#2, ..", name,
             t.n ? t.data : "", name, name, name);
}

/* The meanings of a name without its #number: a whole name, or a scope and a name inside it. */
typedef struct {
  const char *name;
  size_t prefix;                  /* the scope's length, 0: none */
  uint32_t n, *site, *group;      /* sites now, in program order, and which of the axes each belongs to */
  uint32_t axes, *number;         /* by axis */
  uint32_t first;                 /* how many there were before the first word */
} meaning;

/* Groups the sites found by axis: copies of one range are one axis. Sets the group of each site and the number of
 * axes. */
static uint32_t group_sites(tg_schedule *s, const tg_sites *v, const ties *t, uint32_t n, const uint32_t *found,
                            bool first, uint32_t *group) {
  /* by axis: a range of it, + 1; by root: the group, + 1 */
  uint32_t axes = 0, *one = tg_new(&s->j->env, uint32_t, 2 * (size_t)t->ranges), *of = one + t->ranges;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t ordinal = tg_range_ordinal(v->site[found[i]].range),
             *like = &one[first ? s->j->ranges.data[ordinal].from : axis_of(s, ordinal)];
    if (*like) tie(t, *like - 1, ordinal);
    else *like = ordinal + 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t *g = &of[root_of(t, tg_range_ordinal(v->site[found[i]].range))];
    if (!*g) *g = ++axes;
    group[i] = *g - 1;
  }
  return axes;
}

/* #numbers first count the axes that existed before the first word, in program order, even if they are gone by now,
 * then those that words made. So a number means the same axis after any word. */
static void number_axes(tg_schedule *s, meaning *m) {
  tg_sites v = sites_first(s);
  uint32_t n = 0, next, *found = tg_new(&s->j->env, uint32_t, 2 * (size_t)v.n + 1), *group = found + v.n,
           *of = tg_new(&s->j->env, uint32_t, s->j->ranges.n);
  uint8_t *taken;
  ties t = {.up = tg_new(&s->j->env, uint32_t, s->j->ranges.n), .ranges = s->j->ranges.n};
  for (uint32_t i = 0; i < s->j->ranges.n; i++) t.up[i] = i < s->first_ranges ? s->first_root[i] : i;
  for (uint32_t i = 0; i < v.n; i++)
    if (matches(s, &v, i, m->name, m->prefix)) found[n++] = i;
  m->first = group_sites(s, &v, &t, n, found, true, group);
  for (uint32_t i = 0; i < n; i++) of[s->j->ranges.data[tg_range_ordinal(v.site[found[i]].range)].from] = group[i] + 1;
  taken = tg_new(&s->j->env, uint8_t, m->first + 1);
  for (uint32_t i = 0; i < m->n; i++) {
    uint32_t k = of[s->j->ranges.data[tg_range_ordinal(s->sites.data[m->site[i]].range)].from];
    if (!k || taken[k] || m->number[m->group[i]]) continue;
    m->number[m->group[i]] = k;
    taken[k] = 1;
  }
  next = m->first;
  for (uint32_t g = 0; g < m->axes; g++)
    if (!m->number[g]) m->number[g] = ++next;
}

static bool meaning_of(tg_schedule *s, const ties *t, const char *name, size_t prefix, meaning *m) {
  tg_sites v = sites_now(s);
  *m = (meaning){.name = name, .prefix = prefix, .site = tg_new(&s->j->env, uint32_t, 2 * (size_t)v.n + 1)};
  for (uint32_t i = 0; i < v.n; i++)
    if (matches(s, &v, i, name, prefix)) m->site[m->n++] = i;
  if (!m->n) return false;
  m->group = m->site + v.n;
  m->axes = group_sites(s, &v, t, m->n, m->site, false, m->group);
  m->number = tg_new(&s->j->env, uint32_t, m->axes);
  return true;
}

/* False if no range has this name. */
static bool find_meaning(tg_schedule *s, const ties *t, const char *name, meaning *m) {
  for (size_t prefix = 0;;) {
    if (meaning_of(s, t, name, prefix, m)) return true;
    const char *dot = strchr(name + prefix + (prefix != 0), '.');
    if (!dot || !dot[1] || dot == name) return false;
    prefix = (size_t)(dot - name);
  }
}

/* The axis among those: the only one, or the one with the number. */
static uint32_t choose(tg_schedule *s, const tg_opt *o, meaning *m, uint32_t number) {
  if (m->axes > 1 && !number) ambiguous(s, o, m->name, m->n, m->site);
  if (!number) return 0;
  number_axes(s, m);
  for (uint32_t g = 0; g < m->axes; g++)
    if (m->number[g] == number) return g;
  if (number <= m->first)
    tg_fail_at(s->j, o->pos, "'%s#%u': words before this one have made other ranges of it", m->name, number);
  uint32_t most = m->first;
  for (uint32_t g = 0; g < m->axes; g++) most = m->number[g] > most ? m->number[g] : most;
  tg_fail_at(s->j, o->pos, "'%s#%u': only %u such range%s here", m->name, number, most, most == 1 ? " is" : "s are");
}

/* Cuts `#2` off a name. 0: it has no number. */
static uint32_t numbered(tg_schedule *s, const tg_opt *o, const char **name) {
  const char *mark = strchr(*name, '#');
  char *end = NULL;
  if (!mark) return 0;
  unsigned long number = mark[1] >= '0' && mark[1] <= '9' ? strtoul(mark + 1, &end, 10) : 0;
  if (!number || *end != 0 || number > INT32_MAX)
    tg_fail_at(s->j, o->pos, "'%s': a number from 1 on follows the '#', and ends the name", *name);
  *name = tg_symbol(s->j, *name, (size_t)(mark - *name));
  return (uint32_t)number;
}

tg_axis tg_axis_find(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_job *j = s->j;
  tg_schedule_sites(s);
  uint32_t number = numbered(s, o, &name);
  ties t = tie_ranges(s);
  meaning m;
  uint32_t *groups = tg_new(&j->env, uint32_t, s->sites.n + 1), *group = tg_new(&j->env, uint32_t, s->sites.n + 1);
  for (uint32_t i = 0; i < s->sites.n; i++) groups[i] = root_of(&t, tg_range_ordinal(s->sites.data[i].range));
  if (!find_meaning(s, &t, name, &m)) unknown(s, o, name);
  uint32_t meant = choose(s, o, &m, number), at = 0, members = 0;
  while (m.group[at] != meant) at++;
  uint32_t want = root_of(&t, tg_range_ordinal(s->sites.data[m.site[at]].range));
  tg_site *site = tg_new(&j->env, tg_site, s->sites.n);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_site *x = &s->sites.data[i];
    bool seen = root_of(&t, tg_range_ordinal(x->range)) != want;
    for (uint32_t k = 0; k < members && !seen; k++) seen = site[k].range == x->range;
    if (seen) continue;
    group[members] = groups[i];
    site[members++] = *x;
  }
  uint32_t id = axis_of(s, tg_range_ordinal(site[0].range));
  /* what is one axis now stays one when its subscripts are no longer plain ranges */
  for (uint32_t i = 0; i < members; i++) {
    uint32_t ordinal = tg_range_ordinal(site[i].range);
    while (s->axis.n <= ordinal) tg_push(&j->env, &s->axis, 0);
    s->axis.data[ordinal] = id + 1;
  }
  return (tg_axis){members, site, group};
}

/* The axis of the range among those that a name means; UINT32_MAX: it is none of them. */
static uint32_t group_of(const tg_schedule *s, const meaning *m, const tg_uop *range) {
  for (uint32_t i = 0; i < m->n; i++)
    if (s->sites.data[m->site[i]].range == range) return m->group[i];
  return UINT32_MAX;
}

static bool stands_where(tg_schedule *s, const tg_uop *range, const char *buffer) {
  tg_sites v = sites_now(s);
  for (uint32_t i = 0; i < v.n; i++)
    if (v.site[i].range == range && stores_to(s, &v, i, buffer)) return true;
  return false;
}

const char *tg_axis_name(tg_schedule *s, const tg_uop *range) {
  const char *name = tg_range_name(s, range), *last = NULL;
  ties t = tie_ranges(s);
  meaning plain, m, scoped = {0};
  if (find_meaning(s, &t, name, &plain) && plain.axes == 1) return name;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    const char *buffer = tg_buffer_info(s->j, s->stores.data[i].store->src[0])->name;
    if (buffer == last || !stands_where(s, range, buffer)) continue;
    last = buffer;
    t = tie_ranges(s);
    if (!find_meaning(s, &t, tg_format(&s->j->env, "%s.%s", buffer, name), &m) || group_of(s, &m, range) == UINT32_MAX)
      continue;
    if (m.axes == 1) return m.name;
    if (!scoped.n) scoped = m;
  }
  if (!scoped.n) scoped = plain;
  uint32_t group = group_of(s, &scoped, range);
  number_axes(s, &scoped);
  return tg_format(&s->j->env, "%s#%u", scoped.name, scoped.number[group == UINT32_MAX ? 0 : group]);
}

void tg_axis_begin(tg_schedule *s) {
  tg_schedule_sites(s);
  for (uint32_t i = 0; i < s->sites.n; i++) {   /* sums of one loop */
    uint32_t ordinal = tg_range_ordinal(s->sites.data[i].range), from = s->j->ranges.data[ordinal].from;
    if (from != ordinal) tie_ordinals(s, ordinal, from);
  }
  ties t = tie_ranges(s);
  s->first_root = tg_new(&s->j->env, uint32_t, t.ranges + 1);
  s->first_ranges = t.ranges;
  for (uint32_t i = 0; i < t.ranges; i++) s->first_root[i] = root_of(&t, i);
}

const tg_uop *tg_ring_stored(const tg_schedule *s, const tg_uop *u) {
  if (u->op == TG_OP_STORE)
    for (uint32_t i = 0; i < s->rings.n; i++)
      if (s->rings.data[i] == tg_define_of(u->src[0])) return s->rings.data[i];
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) {
      const tg_uop *ring = tg_ring_stored(s, u->src[i]);
      if (ring) return ring;
    }
  return NULL;
}
