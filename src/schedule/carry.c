/* SPDX-License-Identifier: MIT
 * `thread` on a loop that carries state: its iterations are divided into parts of equal length, in order. Each part is
 * a task, which starts from the loop's initial state and leaves its final state in shared memory. Then the states are
 * merged as a tree: neighbours first, then pairs of pairs. The word gives the number of parts, so the result does not
 * depend on the number of threads.
 *
 *   for o { S; for k carry T { B }; R }   becomes   for t, thread { for o' { S'; for k' { B' }; parts[t, o'] = T' } }
 *   for o { S; T = merged parts[.., o]; R }
 *
 * The loops around (o) must be a perfect nest of constant extents. S' is the part of S that B and T need; the S that
 * remains in the second loop is the part that R needs. */
#include "schedule/opt.h"

enum { MAX_PARTS = 1024, MAX_OUTER = 12 };

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *end, *outer[MAX_OUTER];   /* the loop; the ENDs around it, outermost first */
  uint32_t depth;
  int64_t parts;
  tg_carry c;
  const tg_uop *states[TG_CARRIED];       /* by tile: [parts, outer.., dims..] */
  const tg_uop *like[TG_CARRIED][16];     /* by tile and dimension: a range of its axis, once there is one */
} parting;

static const char *range_text(const parting *p) { return tg_range_text(p->s, p->end->src[0]); }

#define REFUSE(p, ...) tg_fail_at((p)->s->j, (p)->o->pos, __VA_ARGS__)

/* ---- what is touched ---- */

static void touch(tg_job *j, const tg_uop *u, uint8_t *loads, uint8_t *stores) {
  uint32_t n;
  if (tg_is_merge(u)) return;
  if (u->op == TG_OP_END) {
    for (uint32_t i = 1; i < u->n; i++) touch(j, u->src[i], loads, stores);
    u = tg_extent(u->src[0]);
  }
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_LOAD) loads[tg_buffer_ordinal(order[i]->src[0])] = 1;
    if (order[i]->op == TG_OP_STORE) stores[tg_buffer_ordinal(order[i]->src[0])] = 1;
  }
}

static uint8_t *flags(const parting *p) { return tg_new(&p->s->j->env, uint8_t, p->s->j->buffers.n + 1); }

static bool is_private(tg_job *j, uint32_t buffer) { return j->buffers.data[buffer].role == TG_ROLE_TEMP; }

/* Selects those of list[0 .. n - 1] whose results are needed, with the definitions of the buffers they access; adds the
 * buffers they read to needed. outputs: stores to other memory count as needed too. */
static bool *slice(const parting *p, const tg_uop *const *list, uint32_t n, uint8_t *needed, uint8_t *touched,
                   bool outputs) {
  tg_job *j = p->s->j;
  bool *keep = tg_new(&j->env, bool, n + 1);
  for (uint32_t i = n; i-- > 0;) {
    uint8_t *loads = flags(p), *stores = flags(p);
    if (list[i]->op == TG_OP_DEFINE) {
      keep[i] = touched[tg_buffer_ordinal(list[i])];
      continue;
    }
    touch(j, list[i], loads, stores);
    for (uint32_t b = 0; b < j->buffers.n; b++) keep[i] |= stores[b] && (needed[b] || (outputs && !is_private(j, b)));
    for (uint32_t b = 0; b < j->buffers.n && keep[i]; b++) {
      needed[b] |= loads[b];
      touched[b] |= loads[b] | stores[b];
    }
  }
  return keep;
}

/* ---- legality ---- */

static const tg_uop *last_fill(const tg_uop *u, const tg_uop *tile, bool *other) {
  const tg_uop *found = NULL;
  if (u->op == TG_OP_STORE && tg_define_of(u->src[0]) == tile) return u;
  if (u->op != TG_OP_END) return NULL;
  for (uint32_t i = 1; i < u->n; i++) {
    const tg_uop *f = last_fill(u->src[i], tile, other);
    if (f && found) *other = true;
    if (f) found = f;
  }
  return found;
}

/* A part starts from the loop's initial constant; check that the statements before the loop still set it. */
static void check_fresh(const parting *p, const tg_uop *const *list, uint32_t n) {
  for (uint32_t k = 0; k < p->c.n; k++) {
    bool other = false;
    const tg_uop *fill = NULL;
    for (uint32_t i = n; i-- > 0 && !fill;) fill = last_fill(list[i], p->c.tile[k].tile, &other);
    if (!fill || other || tg_stored(fill) != p->c.tile[k].neutral || tg_gate(fill))
      REFUSE(p, "thread %s: %s does not begin as its merge says: another part of the loop stands before", range_text(p),
             tg_buffer_info(p->s->j, p->c.tile[k].tile)->name);
  }
}

static void find_around(parting *p, const tg_site *site) {
  tg_schedule *s = p->s;
  uint32_t depth = 0;
  for (uint32_t q = site->parent; q != UINT32_MAX; q = s->sites.data[q].parent) depth++;
  if (depth > MAX_OUTER) REFUSE(p, "thread %s: over %d loops around it", range_text(p), MAX_OUTER);
  p->depth = depth;
  for (uint32_t q = site->parent; q != UINT32_MAX; q = s->sites.data[q].parent)
    p->outer[--depth] = s->sites.data[q].owner;
  for (uint32_t i = 0; i < p->depth; i++) {
    const tg_uop *r = p->outer[i]->src[0];
    tg_kind k = tg_range_kind(r);
    if (k != TG_LOOP && k != TG_GLOBAL)
      REFUSE(p, "thread %s: it stands inside %s, which is %s already", range_text(p), tg_range_text(s, r),
             tg_kind_name[k]);
    if (i + 1 < p->depth && p->outer[i]->n != 2)
      REFUSE(p, "thread %s: other statements stand beside the loop %s around it", range_text(p),
             tg_range_text(s, p->outer[i + 1]->src[0]));
    if (tg_extent(r)->op != TG_OP_CONST)
      REFUSE(p,
             "thread %s: the extent of %s around it is %s, and the states of its parts need memory whose size is known",
             range_text(p), tg_range_text(s, r), tg_text(s->j, tg_extent(r)));
  }
}

/* ---- the tasks ---- */

static void define_states(parting *p, tg_statements *out) {
  tg_job *j = p->s->j;
  for (uint32_t k = 0; k < p->c.n; k++) {
    const tg_uop *tile = p->c.tile[k].tile, *dims[16];
    tg_buffer info = *tg_buffer_info(j, tile);
    uint32_t n = 0, rank = info.rank;
    if (1 + p->depth + rank > 16)
      REFUSE(p, "thread %s: the states of its parts have over 16 dimensions", range_text(p));
    dims[n++] = tg_index(j, p->parts);
    for (uint32_t i = 0; i < p->depth; i++) dims[n++] = tg_extent(p->outer[i]->src[0]);
    for (uint32_t d = 0; d < rank; d++) dims[n++] = tile->src[d];
    info = (tg_buffer){.name = tg_format(&j->env, "%s.parts", info.name),
                       .space = TG_SPACE_LOCAL,
                       .rank = (uint8_t)n,
                       .type = info.type,
                       .pos = info.pos};
    p->states[k] = tg_define(j, info, tile->lanes, dims, NULL, true);
    tg_push(&j->env, out, p->states[k]);
  }
}

/* Loops that copy a tile to or from the state of a part: prefix are the subscripts before the tile's own. */
static const tg_uop *move_state(parting *p, uint32_t k, const tg_uop *tile, uint32_t n, const tg_uop *const *prefix,
                                bool save) {
  tg_job *j = p->s->j;
  const tg_uop *sub[16];
  uint32_t rank = tg_buffer_info(j, tile)->rank;
  memcpy(sub, prefix, n * sizeof *sub);
  for (uint32_t d = 0; d < rank; d++) {
    const char *name = tg_format(&j->env, "%s.%u", tg_buffer_info(j, p->states[k])->name, d);
    const tg_uop *like = p->like[k][d];
    sub[n + d] = like ? tg_axis_range(p->s, like, name, tile->src[d], TG_LOOP)
                      : tg_range_new(j, name, tile->src[d], TG_LOOP, UINT32_MAX, (tg_pos){0});
    if (like) tg_axis_tie(p->s, sub[n + d], like);
    else p->like[k][d] = sub[n + d];
  }
  const tg_uop *u = save ? tg_store(j, p->states[k], sub, tg_load(j, tile, sub + n, NULL, NULL, 0), NULL, 0)
                         : tg_store(j, tile, sub + n, tg_load(j, p->states[k], sub, NULL, NULL, 0), NULL, 0);
  for (uint32_t d = rank; d-- > 0;) u = tg_end(j, sub[n + d], 1, &u);
  return u;
}

/* The loop over the iterations of part t, from t * each on. t: gets the range of parts. */
static const tg_uop *loop_of_part(parting *p, const tg_uop **t) {
  tg_schedule *s = p->s;
  tg_job *j = s->j;
  const tg_opt *o = p->o;
  const tg_uop *range = p->end->src[0], *extent = tg_extent(range), *list[2];
  bool single = !o->number[0];
  const char *outer = o->n > 1 ? o->names[1] : tg_format(&j->env, "%s.0", tg_range_name(s, range)),
             *inner = o->n > 2 ? o->names[2] : tg_format(&j->env, "%s.1", tg_range_name(s, range));
  const tg_uop *each = tg_idx_ceildiv(j, extent, p->parts);
  *t = single ? tg_range_again(j, range, extent, TG_THREAD)
              : tg_axis_range(s, range, tg_sym(j, outer), tg_index(j, p->parts), TG_THREAD);
  const tg_uop *from = each->op == TG_OP_CONST ? tg_idx_mul(j, *t, each->arg) : tg_op2(j, TG_OP_MUL, *t, each),
               *length = each;
  if (!single && !tg_divides(j, p->parts, extent))
    length = tg_op2(j, TG_OP_MIN, each, tg_op2(j, TG_OP_SUB, extent, from));
  const tg_uop *k = single ? *t : tg_axis_range(s, range, tg_sym(j, inner), length, TG_LOOP),
               *value = single ? *t : tg_idx_add(j, from, k);
  uint32_t n = p->end->n - 2;
  const tg_uop **body = tg_new(&j->env, const tg_uop *, n + 1);
  for (uint32_t i = 0; i < n; i++) body[i] = tg_substitute(j, p->end->src[1 + i], 1, &range, &value);
  if (!single) return tg_end_like(s, p->end, k, n, body);
  /* a loop of one iteration, which will dissolve */
  list[0] = tg_range_new(j, tg_format(&j->env, "%s.once", tg_range_name(s, range)), tg_index(j, 1), TG_LOOP, UINT32_MAX,
                         (tg_pos){0});
  return tg_end(j, list[0], n, body);
}

static const tg_uop *tasks(parting *p, const tg_uop *const *list, uint32_t before) {
  tg_schedule *s = p->s;
  tg_job *j = s->j;
  uint8_t *needed = flags(p), *touched = flags(p), *stores = flags(p);
  const tg_uop *t, *loop = loop_of_part(p, &t);
  tg_statements all = {0};
  touch(j, p->end, needed, stores);
  for (uint32_t b = 0; b < j->buffers.n; b++) touched[b] = needed[b] | stores[b];
  for (uint32_t k = 0; k < p->c.n; k++)
    needed[tg_buffer_ordinal(p->c.tile[k].tile)] = touched[tg_buffer_ordinal(p->c.tile[k].tile)] = 1;
  for (uint32_t i = 0; i < before; i++)
    if (list[i]->op == TG_OP_DEFINE && !is_private(j, tg_buffer_ordinal(list[i])))
      touched[tg_buffer_ordinal(list[i])] = 0;
  bool *keep = slice(p, list, before, needed, touched, false);
  for (uint32_t i = 0; i < before; i++) {
    if (!keep[i] || (list[i]->op == TG_OP_DEFINE && !is_private(j, tg_buffer_ordinal(list[i])))) continue;
    uint8_t *l = flags(p), *st = flags(p);
    if (list[i]->op != TG_OP_DEFINE) touch(j, list[i], l, st);
    for (uint32_t b = 0; b < j->buffers.n; b++)
      if (st[b] && !is_private(j, b))
        REFUSE(p, "thread %s: a statement before it that each part needs stores to %s too", range_text(p),
               j->buffers.data[b].name);
    tg_push(&j->env, &all, list[i]);
  }
  tg_push(&j->env, &all, loop);
  const tg_uop *prefix[16], *from[MAX_OUTER], *to[MAX_OUTER];
  prefix[0] = t;
  for (uint32_t i = 0; i < p->depth; i++) prefix[1 + i] = p->outer[i]->src[0];
  for (uint32_t k = 0; k < p->c.n; k++)
    tg_push(&j->env, &all, move_state(p, k, p->c.tile[k].tile, 1 + p->depth, prefix, true));
  const tg_uop **copy = tg_new(&j->env, const tg_uop *, all.n);
  tg_copy_statements(s, all.n, all.data, copy);
  for (uint32_t k = 0; k < p->c.n; k++) { /* loops of the merges will be in one axis with the loops of the parts */
    const tg_uop *end = copy[all.n - p->c.n + k];
    for (uint32_t d = 0; end->op == TG_OP_END; end = end->src[1]) p->like[k][d++] = end->src[0];
  }
  const tg_uop *u = NULL;
  for (uint32_t i = p->depth; i-- > 0;) {
    const tg_uop *r = from[i] = p->outer[i]->src[0];
    to[i] = tg_range_new(j, tg_format(&j->env, "%s.parts", tg_range_name(s, r)), tg_extent(r), TG_LOOP, UINT32_MAX,
                         (tg_pos){0});
  }
  for (uint32_t i = 0; i < all.n; i++) copy[i] = tg_substitute(j, copy[i], p->depth, from, to);
  for (uint32_t i = p->depth; i-- > 0;) {
    u = i + 1 == p->depth ? tg_end(j, to[i], all.n, copy) : tg_end(j, to[i], 1, &u);
  }
  return tg_end_like(s, p->end, t, p->depth ? 1 : all.n, p->depth ? &u : copy);
}

/* ---- the merges ---- */

typedef struct { parting *p; const tg_uop *left, *right, *const *result; } merging;

/* a.t and b.t become the states of two parts, t the result. */
static const tg_uop *merge_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const merging *g = user;
  const parting *p = g->p;
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE && old->op != TG_OP_DEFINE) return NULL;
  for (uint32_t k = 0; k < p->c.n; k++) {
    const tg_carried *t = &p->c.tile[k];
    if (old == t->tile) return g->result[k];
    if (old->op != TG_OP_LOAD || (old->src[0] != t->a && old->src[0] != t->b)) continue;
    const tg_uop *sub[16], *gate = old->arg & TG_GATED ? src[old->n - 2] : NULL;
    uint32_t n = 0;
    sub[n++] = old->src[0] == t->a ? g->left : g->right;
    for (uint32_t i = 0; i < p->depth; i++) sub[n++] = p->outer[i]->src[0];
    for (uint32_t d = 0; d < tg_access_rank(old); d++) sub[n++] = src[1 + d];
    return tg_load(j, p->states[k], sub, gate, gate ? src[old->n - 1] : NULL, 0);
  }
  return NULL;
}

static void tie_stores(parting *p, const tg_uop *u, const tg_uop *const *tiles) {
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) tie_stores(p, u->src[i], tiles);
  for (uint32_t k = 0; k < p->c.n && u->op == TG_OP_STORE; k++)
    for (uint32_t d = 0; d < tg_access_rank(u); d++)
      if (u->src[0] == tiles[k] && u->src[1 + d]->op == TG_OP_RANGE) tg_axis_tie(p->s, u->src[1 + d], p->like[k][d]);
}

static void merge_pair(parting *p, const tg_uop *left, const tg_uop *right, const tg_uop *const *result,
                       tg_statements *out) {
  tg_job *j = p->s->j;
  const tg_uop *m = p->c.end;
  uint32_t n = m->n - p->c.first;
  const tg_uop **copy = tg_new(&j->env, const tg_uop *, n + 1);
  merging g = {p, left, right, result};
  tg_copy_statements(p->s, n, m->src + p->c.first, copy);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = tg_map(j, copy[i], merge_node, NULL, &g);
    tie_stores(p, u, result);
    tg_push(&j->env, out, u);
  }
}

static void merges(parting *p, tg_statements *out) {
  tg_job *j = p->s->j;
  const tg_uop *tiles[TG_CARRIED], *prefix[16];
  for (uint32_t k = 0; k < p->c.n; k++) tiles[k] = p->c.tile[k].tile;
  for (uint32_t i = 0; i < p->depth; i++) prefix[1 + i] = p->outer[i]->src[0];
  for (int64_t step = 1; step < p->parts; step *= 2) {
    int64_t pairs = (p->parts - step + 2 * step - 1) / (2 * step);
    if (2 * step >= p->parts) {
      merge_pair(p, tg_index(j, 0), tg_index(j, step), tiles, out);
      return;
    }
    tg_statements body = {0};
    const tg_uop *results[TG_CARRIED],
        *q = tg_range_new(j, tg_format(&j->env, "%s.merge", tg_range_name(p->s, p->end->src[0])), tg_index(j, pairs),
                          TG_LOOP, UINT32_MAX, (tg_pos){0});
    for (uint32_t k = 0; k < p->c.n; k++) {
      tg_buffer info = *tg_buffer_info(j, tiles[k]);
      results[k] = tg_define(j, info, tiles[k]->lanes, tiles[k]->src, NULL, true);
      tg_push(&j->env, &body, results[k]);
    }
    prefix[0] = tg_idx_mul(j, q, 2 * step);
    merge_pair(p, prefix[0], tg_idx_add(j, prefix[0], tg_index(j, step)), results, &body);
    for (uint32_t k = 0; k < p->c.n; k++)
      tg_push(&j->env, &body, move_state(p, k, results[k], 1 + p->depth, prefix, true));
    tg_push(&j->env, out, tg_end(j, q, body.n, body.data));
  }
  prefix[0] = tg_index(j, 0);   /* only for one part: nothing to merge, its state is copied */
  for (uint32_t k = 0; k < p->c.n; k++) tg_push(&j->env, out, move_state(p, k, tiles[k], 1 + p->depth, prefix, false));
}

/* ---- all of it ---- */

/* list: of the innermost loop around; the loop is list[at]. */
static void rest_of_list(parting *p, const tg_uop *const *list, uint32_t n, uint32_t at, tg_statements *out) {
  tg_job *j = p->s->j;
  uint8_t *needed = flags(p), *touched = flags(p), *stores = flags(p);
  for (uint32_t i = at + 1; i < n; i++)
    if (list[i]->op != TG_OP_DEFINE) touch(j, list[i], needed, stores);
  for (uint32_t b = 0; b < j->buffers.n; b++) touched[b] = needed[b] | stores[b];
  for (uint32_t k = 0; k < p->c.n; k++) {
    uint32_t b = tg_buffer_ordinal(p->c.tile[k].tile);
    needed[b] = 0;
    touched[b] = 1;
  }
  bool *keep = slice(p, list, at, needed, touched, true);
  for (uint32_t i = 0; i < at; i++)
    if (keep[i]) tg_push(&j->env, out, list[i]);
  merges(p, out);
  for (uint32_t i = at + 1; i < n; i++) tg_push(&j->env, out, list[i]);
}

static void check_apart(const parting *p, const tg_uop *part, const tg_uop *nest) {
  tg_job *j = p->s->j;
  uint8_t *loads = flags(p), *stores = flags(p), *none = flags(p);
  touch(j, part, loads, none);
  touch(j, nest, none, stores);
  for (uint32_t b = 0; b < j->buffers.n; b++)
    if (loads[b] && stores[b] && !is_private(j, b))
      REFUSE(p, "thread %s: its parts run before the rest of the nest, which stores to %s that they read",
             range_text(p), j->buffers.data[b].name);
}

bool tg_opt_carry(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  parting p = {.s = s, .o = o};
  bool any = false;
  for (uint32_t i = 0; i < axis.n; i++)
    any |= axis.site[i].owner->op == TG_OP_END && tg_merge_of(axis.site[i].owner) != NULL;
  if (!any) return false;
  p.end = axis.site[0].owner;
  if (axis.n > 1) REFUSE(&p, "thread %s: %u loops have this name: name one of them", range_text(&p), axis.n);
  if (!tg_carry_of(j, p.end, &p.c)) tg_bug(&j->env, "the merge of %s has lost its form", range_text(&p));
  const tg_uop *extent = tg_extent(p.end->src[0]), *ring = tg_ring_stored(s, p.end);
  if (ring)
    REFUSE(&p, "thread %s: each iteration reads what the one before has copied to %s, and a part has none before it "
               "(stage it afterwards)", range_text(&p), tg_buffer_info(j, ring)->name);
  if (!o->number[0] && extent->op != TG_OP_CONST)
    REFUSE(&p, "thread %s: its extent is %s, so say how many parts: thread %s 2", range_text(&p), tg_text(j, extent),
           o->names[0]);
  p.parts = o->number[0] ? o->number[0] : extent->arg < 1 ? 1 : extent->arg;
  if (p.parts > MAX_PARTS)
    REFUSE(&p, "thread %s: %lld parts, over the limit of %d", range_text(&p), (long long)p.parts, MAX_PARTS);
  for (uint32_t i = 0; i < 2 && o->number[0]; i++)
    if (o->n > 1 + i) tg_axis_check_name(s, o, o->names[1 + i]);
  find_around(&p, &axis.site[0]);
  const tg_uop *nest = p.depth ? p.outer[p.depth - 1] : s->sink, *top = p.depth ? p.outer[0] : p.end;
  const tg_uop *const *list = nest->src + (p.depth > 0);
  uint32_t n = nest->n - (p.depth > 0), at = 0;
  while (list[at] != p.end) at++;
  check_fresh(&p, list, at);
  tg_statements out = {0}, rest = {0};
  const tg_uop *const *outside = s->sink->src;
  tg_statements states = {0};
  define_states(&p, &states);
  const tg_uop *part = tasks(&p, list, at);
  if (!p.depth) {
    for (uint32_t i = 0; i < at; i++) tg_push(&j->env, &out, list[i]);
    for (uint32_t i = 0; i < states.n; i++) tg_push(&j->env, &out, states.data[i]);
    tg_push(&j->env, &out, part);
    merges(&p, &out);
    for (uint32_t i = at + 1; i < n; i++) tg_push(&j->env, &out, list[i]);
    s->sink = tg_sink(j, out.n, out.data);
    return true;
  }
  rest_of_list(&p, list, n, at, &rest);
  const tg_uop *u = tg_end_like(s, nest, nest->src[0], rest.n, rest.data);
  check_apart(&p, part, u);
  for (uint32_t i = p.depth - 1; i-- > 0;) u = tg_end_like(s, p.outer[i], p.outer[i]->src[0], 1, &u);
  for (uint32_t i = 0; i < s->sink->n; i++) {
    if (outside[i] != top) {
      tg_push(&j->env, &out, outside[i]);
      continue;
    }
    for (uint32_t k = 0; k < states.n; k++) tg_push(&j->env, &out, states.data[k]);
    tg_push(&j->env, &out, part);
    tg_push(&j->env, &out, u);
  }
  s->sink = tg_sink(j, out.n, out.data);
  return true;
}
