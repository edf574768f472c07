/* SPDX-License-Identifier: MIT
 * Which ranges an opt means. Ranges are one axis when they came from one by splits and copies and have one name, or when they
 * index the same dimension of a register tile. `i` names the axis if only one has that name; `B.i` is range i of the
 * statements that store to B; `x.i` is range i inside the loop x (a name may hold dots itself: whole names are tried first); `i#2` is the
 * second axis of that name in program order. */
#include "lower/opt.h"
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
  s->sites.n = s->stores.n = 0;
  collect(s, s->sink, UINT32_MAX);
  s->sites_of = s->sink;
}

/* Is the memory that the extent at a site reads defined in the loop over range, so that each iteration has its own? */
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
    if (e->op != TG_OP_CONST && e->op != TG_OP_PARAM && (tg_uses(s->j, e, range) || reads_private(s, i, range))) return r;
  }
  return NULL;
}

const char *tg_range_text(tg_schedule *s, const tg_uop *range) {
  const tg_range_info *info = &s->j->ranges.data[tg_range_ordinal(range)];
  return info->pos.line ? tg_format(&s->j->env, "%s (line %d)", info->name, info->pos.line) : info->name;
}

const tg_uop *tg_axis_range(tg_schedule *s, const tg_uop *like, const char *name, const tg_uop *extent, tg_kind kind) {
  uint32_t ordinal = tg_range_ordinal(like);
  tg_pos pos = s->j->ranges.data[ordinal].pos;
  const tg_uop *r = tg_range_new(s->j, name, extent, kind, s->j->ranges.data[ordinal].from, pos);
  if (kind == TG_THREAD && tg_range_static(like)) r = tg_range_dealt(s->j, r, true);
  while (s->axis.n <= tg_range_ordinal(r)) tg_push(&s->j->env, &s->axis, 0);
  s->axis.data[tg_range_ordinal(r)] = ordinal < s->axis.n ? s->axis.data[ordinal] : 0;
  const char *family = ordinal < s->family.n ? s->family.data[ordinal] : NULL;
  if (family && !strcmp(name, s->j->ranges.data[ordinal].name)) tg_axis_join(s, r, family); /* a copy */
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

static bool answers_to(tg_schedule *s, const tg_uop *range, const char *name) {
  const char *family = family_of(s, range);
  return !strcmp(tg_range_name(s, range), name) || (family && !strcmp(family, name));
}

void tg_axis_tie(tg_schedule *s, const tg_uop *range, const tg_uop *with) {
  uint32_t a = tg_range_ordinal(range), b = tg_range_ordinal(with);
  while (s->tied.n <= (a > b ? a : b)) tg_push(&s->j->env, &s->tied, 0);
  if (!s->tied.data[b]) s->tied.data[b] = b + 1;
  s->tied.data[a] = s->tied.data[b];
}

void tg_axis_check_name(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_schedule_sites(s);
  for (uint32_t i = 0; i < s->sites.n; i++)
    if (answers_to(s, s->sites.data[i].range, name)) tg_fail_at(s->j, o->pos, "the name '%s' is taken by a range", name);
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

/* In the loop of that name, or in a reduction beside the range of that name. */
static bool inside_range(tg_schedule *s, uint32_t site, const char *name) {
  const tg_site *x = &s->sites.data[site];
  if (x->owner->op == TG_OP_REDUCE)
    for (uint32_t i = 0; i < tg_reduce_info(x->owner).ranges; i++)
      if (answers_to(s, tg_reduce_ranges(x->owner)[i], name)) return true;
  for (uint32_t parent = x->parent; parent != UINT32_MAX; parent = s->sites.data[parent].parent)
    if (answers_to(s, s->sites.data[parent].range, name)) return true;
  return false;
}

static bool stores_to(tg_schedule *s, uint32_t site, const char *buffer) {
  const tg_site *x = &s->sites.data[site];
  if (x->store) return !strcmp(tg_buffer_info(s->j, x->store->src[0])->name, buffer);
  for (uint32_t i = 0; i < s->stores.n; i++) {
    if (strcmp(tg_buffer_info(s->j, s->stores.data[i].store->src[0])->name, buffer)) continue;
    for (uint32_t p = s->stores.data[i].parent; p != UINT32_MAX; p = s->sites.data[p].parent)
      if (p == site) return true;
  }
  return false;
}

static bool matches(tg_schedule *s, uint32_t site, const char *name, size_t prefix) {
  const tg_uop *range = s->sites.data[site].range;
  if (!prefix) return answers_to(s, range, name);
  if (!answers_to(s, range, name + prefix + 1)) return false;
  const char *scope = tg_symbol(s->j, name, prefix);
  return stores_to(s, site, scope) || inside_range(s, site, scope);
}

TG_NORETURN static void unknown(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_str t = tg_str_new(&s->j->env);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    bool seen = false;
    for (uint32_t k = 0; k < i && !seen; k++) seen = s->sites.data[k].range == s->sites.data[i].range;
    if (!seen) tg_str_printf(&t, "%s%s", t.n ? ", " : "", tg_range_text(s, s->sites.data[i].range));
  }
  tg_fail_at(s->j, o->pos, "no range '%s' here; there are: %s", name, t.n ? t.data : "none");
}

TG_NORETURN static void ambiguous(tg_schedule *s, const tg_opt *o, const char *name, uint32_t n, const uint32_t *found) {
  tg_str t = tg_str_new(&s->j->env);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *r = s->sites.data[found[i]].range;
    tg_pos p = s->j->ranges.data[tg_range_ordinal(r)].pos;
    if (p.line) tg_str_printf(&t, "%s%d", t.n ? ", " : " of lines ", p.line);
  }
  tg_fail_at(s->j, o->pos, "'%s' may mean the ranges%s: say which with BUFFER.%s or %s#1, %s#2, ..", name, t.n ? t.data : "", name, name, name);
}

/* The sites that a name, its number left out, may mean: the whole name, or a scope and a name in it. */
static uint32_t find_sites(tg_schedule *s, const tg_opt *o, const char *name, uint32_t *found) {
  uint32_t n = 0;
  for (size_t prefix = 0;;) {
    for (uint32_t i = 0; i < s->sites.n; i++)
      if (matches(s, i, name, prefix)) found[n++] = i;
    if (n) return n;
    const char *dot = strchr(name + prefix + (prefix != 0), '.');
    if (!dot || !dot[1] || dot == name) unknown(s, o, name);
    prefix = (size_t)(dot - name);
  }
}

/* Ties the copies of one range among the sites, and keeps those of one axis: the only one, or the one with the number. */
static uint32_t choose(tg_schedule *s, const tg_opt *o, const char *name, const ties *t, uint32_t n, uint32_t *found, uint32_t number) {
  uint32_t axes = 0, kept = 0, *first = tg_new(&s->j->env, uint32_t, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t ordinal = tg_range_ordinal(s->sites.data[found[i]].range), k = 0;
    while (k < axes && axis_of(s, first[k]) != axis_of(s, ordinal) && root_of(t, first[k]) != root_of(t, ordinal)) k++;
    if (k == axes) first[axes++] = ordinal;
    else tie(t, first[k], ordinal);
  }
  if (axes > 1 && !number) ambiguous(s, o, name, n, found);
  if (number > axes) tg_fail_at(s->j, o->pos, "'%s#%u': only %u such range%s here", name, number, axes, axes == 1 ? " is" : "s are");
  uint32_t want = root_of(t, first[number ? number - 1 : 0]);
  for (uint32_t i = 0; i < n; i++)
    if (root_of(t, tg_range_ordinal(s->sites.data[found[i]].range)) == want) found[kept++] = found[i];
  return kept;
}

tg_axis tg_axis_find(tg_schedule *s, const tg_opt *o, const char *name) {
  tg_job *j = s->j;
  tg_schedule_sites(s);
  const char *mark = strchr(name, '#');
  uint32_t number = mark ? (uint32_t)strtoul(mark + 1, NULL, 10) : 0, *found = tg_new(&j->env, uint32_t, s->sites.n + 1);
  if (mark) name = tg_symbol(j, name, (size_t)(mark - name));
  ties t = tie_ranges(s);
  uint32_t *groups = tg_new(&j->env, uint32_t, s->sites.n + 1), *group = tg_new(&j->env, uint32_t, s->sites.n + 1);
  for (uint32_t i = 0; i < s->sites.n; i++) groups[i] = root_of(&t, tg_range_ordinal(s->sites.data[i].range));
  uint32_t n = choose(s, o, name, &t, find_sites(s, o, name, found), found, number);
  uint32_t want = root_of(&t, tg_range_ordinal(s->sites.data[found[0]].range)), members = 0;
  tg_assert(&j->env, n > 0);
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
  for (uint32_t i = 0; i < members; i++) { /* what is one axis now stays one when its subscripts are no longer plain ranges */
    uint32_t ordinal = tg_range_ordinal(site[i].range);
    while (s->axis.n <= ordinal) tg_push(&j->env, &s->axis, 0);
    s->axis.data[ordinal] = id + 1;
  }
  return (tg_axis){members, site, group};
}

/* The axes of that name, among all sites or those of statements that store to a buffer; *mine: the number of the range's, from 1. */
static uint32_t count_axes(tg_schedule *s, const ties *t, const tg_uop *range, const char *buffer, uint32_t *mine) {
  const char *name = tg_range_name(s, range);
  uint32_t axes = 0, *first = tg_new(&s->j->env, uint32_t, s->sites.n + 1);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_uop *r = s->sites.data[i].range;
    uint32_t ordinal = tg_range_ordinal(r), k = 0;
    if (strcmp(tg_range_name(s, r), name) || (buffer && !stores_to(s, i, buffer))) continue;
    while (k < axes && axis_of(s, first[k]) != axis_of(s, ordinal) && root_of(t, first[k]) != root_of(t, ordinal)) k++;
    if (k == axes) first[axes++] = ordinal;
    if (r == range) *mine = k + 1;
  }
  return axes;
}

const char *tg_axis_name(tg_schedule *s, const tg_uop *range) {
  const char *name = tg_range_name(s, range), *numbered = NULL;
  ties t = tie_ranges(s);
  uint32_t mine = 0;
  if (count_axes(s, &t, range, NULL, &mine) == 1) return name;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    const char *buffer = tg_buffer_info(s->j, s->stores.data[i].store->src[0])->name;
    mine = 0;
    uint32_t axes = count_axes(s, &t, range, buffer, &mine);
    if (mine && axes == 1) return tg_format(&s->j->env, "%s.%s", buffer, name);
    if (mine && !numbered) numbered = tg_format(&s->j->env, "%s.%s#%u", buffer, name, mine);
  }
  return numbered;
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
