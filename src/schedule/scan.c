/* SPDX-License-Identifier: MIT
 * `thread` and `group` on a scan: a loop whose first statement adds to a register, and whose others store what they
 * make of the value so far. (So too for products, maxima and minima.)
 *
 *   s = a; for r: E { s = s op e(r); y[r] = f(s) }
 *
 * `thread r n as p q`: parts of n iterations. One launch computes the sum of each; in the next each part begins with
 * the sum of those before it, combined as a reduction is, so the bits do not depend on which part runs when:
 *
 *   for p, tasks { parts[p] = sum(q: n, e) }                             (parts[o, p] where loops o stand around)
 *   for p, tasks { s = a op sum(k: P, parts[k] where k < p); for q: n { s = s op e; y[..] = f(s) } }
 *
 * `group r n as b t`, on a target with warps: blocks of n iterations, one after the other, each by the threads of a
 * workgroup. A thread has as many neighbours as fit 16 bytes; what the threads of a warp have before them comes in
 * log2 of its lanes exchanges, what the warps have from LOCAL memory.
 *
 * The terms are combined in another order than they stand in, as those of every sum are. */
#include "lower/sweep.h"
#include "schedule/opt.h"

enum { MOST_PARTS = 1 << 16, MOST_ELEMENTS = 1 << 26, DEEPEST = 12, MOST_WARPS = 32, RUN_BYTES = 16 };

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *end, *range, *tile, *term;   /* the loop; the register; e */
  tg_op op;
  const char *word;
} scan;

TG_NORETURN static void refuse(const scan *c, const char *why) {
  tg_fail_at(c->s->j, c->o->pos, "%s %s: %s", c->word, tg_range_text(c->s, c->range), why);
}

/* ---- is it one ---- */

static bool combines(tg_op op, tg_type t) {
  bool exact = t != TG_F16 && t != TG_BF16 && t != TG_E4M3 && t != TG_E5M2 && t != TG_BOOL;
  return (exact && (op == TG_OP_ADD || op == TG_OP_MUL)) || op == TG_OP_MAX || op == TG_OP_MIN;
}

/* The term that the statement adds to a register without dimensions; NULL: it is another statement. */
static const tg_uop *term_of(tg_job *j, const tg_uop *store) {
  if (store->op != TG_OP_STORE || tg_gate(store) || tg_access_rank(store) || store->arg & TG_ATOMIC) return NULL;
  const tg_uop *value = tg_stored(store), *tile = store->src[0];
  if (tg_buffer_info(j, tile)->space != TG_SPACE_REG || value->lanes != 1 || !combines(value->op, value->type))
    return NULL;
  for (uint32_t i = 0; i < 2; i++) {
    const tg_uop *own = value->src[i], *term = value->src[1 - i];
    if (own->op == TG_OP_LOAD && own->src[0] == tile && !tg_gate(own) &&
        !tg_loads_from(j, term, tg_buffer_ordinal(tile)))
      return term;
  }
  return NULL;
}

bool tg_scan_of(tg_schedule *s, const tg_uop *end) {
  tg_job *j = s->j;
  const tg_uop *term = end->op == TG_OP_END && end->n > 2 ? term_of(j, end->src[1]) : NULL;
  if (!term) return false;
  for (uint32_t i = 2; i < end->n; i++) {
    const tg_uop *u = end->src[i];
    if (u->op != TG_OP_STORE || u->arg & TG_ATOMIC || tg_buffer_info(j, u->src[0])->space == TG_SPACE_REG) return false;
    uint32_t b = tg_buffer_ordinal(u->src[0]);
    for (uint32_t k = 1; k < end->n; k++)   /* what the loop reads must not be what it stores */
      if (tg_loads_from(j, end->src[k], b)) return false;
  }
  return true;
}

static scan find(tg_schedule *s, const tg_opt *o, const tg_uop *end, const char *word) {
  scan c = {.s = s, .o = o, .end = end, .range = end->src[0], .word = word};
  c.tile = end->src[1]->src[0];
  c.op = tg_stored(end->src[1])->op;
  c.term = term_of(s->j, end->src[1]);
  return c;
}

/* ---- pieces ---- */

static const tg_uop *none(const scan *c) { return tg_identity(c->s->j, c->op, c->term->type); }
static const tg_uop *both(const scan *c, const tg_uop *a, const tg_uop *b) { return tg_op2(c->s->j, c->op, a, b); }

static const tg_uop *only_where(const scan *c, const tg_uop *cond, const tg_uop *value) {
  return cond ? tg_op3(c->s->j, TG_OP_WHERE, cond, value, none(c)) : value;
}

/* e for the iteration `value`; cond: that there is one, NULL if it is sure. */
static const tg_uop *term_at(const scan *c, const tg_uop *value, const tg_uop *cond) {
  return only_where(c, cond, tg_gated_substitute(c->s, c->term, c->range, value, cond, NULL));
}

static const tg_uop *inside(const scan *c, const tg_uop *value, int64_t each, const tg_uop *extent) {
  return tg_divides(c->s->j, each, extent) ? NULL : tg_op2(c->s->j, TG_OP_LT, value, extent);
}

typedef struct { const tg_uop *tile, *value; } replacing;

static const tg_uop *replace_load(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const replacing *r = user;
  (void)j, (void)src;
  return old->op == TG_OP_LOAD && old->src[0] == r->tile ? r->value : NULL;
}

/* The loop's other statements for the iteration `value`, where the register is `sum` by then. */
static void put_results(const scan *c, const tg_uop *value, const tg_uop *cond, const tg_uop *sum,
                        tg_statements *out) {
  const uint8_t *marks = cond ? tg_marked_buffers(c->s, c->end) : NULL;
  replacing r = {c->tile, sum};
  for (uint32_t i = 2; i < c->end->n; i++) {
    const tg_uop *u = tg_gated_substitute(c->s, c->end->src[i], c->range, value, cond, marks);
    tg_push(&c->s->j->env, out, tg_map(c->s->j, u, replace_load, NULL, &r));
  }
}

static const tg_uop *reg(const scan *c, const char *name, uint32_t rank, const tg_uop *const *dims, tg_space space) {
  tg_job *j = c->s->j;
  tg_buffer info = {.name = tg_format(&j->env, "%s.%s", tg_buffer_info(j, c->tile)->name, name),
                    .space = space,
                    .rank = (uint8_t)rank,
                    .type = c->term->type,
                    .pos = c->o->pos};
  if (space == TG_SPACE_LOCAL) info.align = 64;
  return tg_define(j, info, 1, dims, NULL, true);
}

static const tg_uop *read(const scan *c, const tg_uop *tile, const tg_uop *const *sub) {
  return tg_load(c->s->j, tile, sub, NULL, NULL, 0);
}
static const tg_uop *write(const scan *c, const tg_uop *tile, const tg_uop *const *sub, const tg_uop *v) {
  return tg_store(c->s->j, tile, sub, v, NULL, 0);
}

static const tg_uop *plain_range(const scan *c, const char *name, const char *part, const tg_uop *extent,
                                 tg_kind kind) {
  tg_job *j = c->s->j;
  return tg_range_new(j, tg_format(&j->env, "%s.%s", name, part), extent, kind, UINT32_MAX, (tg_pos){0});
}

/* A part of the loop's range: two iterations of it never meet in an element that the loop stores. */
static const tg_uop *part_range(const scan *c, const char *name, const char *part, int64_t extent, tg_kind kind) {
  tg_job *j = c->s->j;
  return tg_axis_range(c->s, c->range, tg_sym(j, tg_format(&j->env, "%s.%s", name, part)), tg_index(j, extent), kind);
}

static void names_of(const scan *c, const char *name[2]) {
  tg_job *j = c->s->j;
  for (uint32_t i = 0; i < 2; i++) {
    if (c->o->n > 1 + i) tg_axis_check_name(c->s, c->o, c->o->names[1 + i]);
    name[i] = c->o->n > 1 + i ? c->o->names[1 + i]
                              : tg_sym(j, tg_format(&j->env, "%s.%u", tg_range_name(c->s, c->range), i));
  }
}

/* ---- thread: parts ---- */

typedef struct {
  scan c;
  const tg_uop *outer[DEEPEST];   /* ENDs around, outermost first */
  uint32_t depth;
  const tg_uop *define, *init;    /* statements that make the register and fill it */
  int64_t each, parts;
  const tg_uop *memory;
  const char *name[2];
} parting;

static void find_around(parting *p, const tg_site *site) {
  tg_schedule *s = p->c.s;
  for (uint32_t q = site->parent; q != UINT32_MAX; q = s->sites.data[q].parent) p->depth++;
  if (p->depth > DEEPEST) refuse(&p->c, "over 12 loops stand around it");
  uint32_t d = p->depth;
  for (uint32_t q = site->parent; q != UINT32_MAX; q = s->sites.data[q].parent) p->outer[--d] = s->sites.data[q].owner;
  tg_i128 elements = p->parts;
  for (uint32_t i = 0; i < p->depth; i++) {
    const tg_uop *r = p->outer[i]->src[0];
    tg_kind k = tg_range_kind(r);
    if (k != TG_LOOP && k != TG_GLOBAL)
      refuse(&p->c, tg_format(&s->j->env, "it stands inside %s, which is %s already", tg_range_text(s, r),
                              tg_kind_name[k]));
    if (tg_extent(r)->op != TG_OP_CONST || (i + 1 < p->depth && p->outer[i]->n != 2))
      refuse(&p->c, tg_format(&s->j->env, "%s around it has other statements, or an extent that is no constant",
                              tg_range_text(s, r)));
    elements *= tg_extent(r)->arg < 1 ? 1 : tg_extent(r)->arg;
    if (elements > MOST_ELEMENTS) refuse(&p->c, "its parts would have more than 2^26 elements");
  }
}

/* Where the register is made and filled: beside the loop, and nothing else has to do with it. */
static void find_beginning(parting *p) {
  tg_schedule *s = p->c.s;
  const tg_uop *nest = p->depth ? p->outer[p->depth - 1] : s->sink;
  uint32_t b = tg_buffer_ordinal(p->c.tile), others = 0;
  for (uint32_t i = p->depth > 0; i < nest->n; i++) {
    const tg_uop *u = nest->src[i];
    if (u == p->c.end) continue;
    if (u == p->c.tile) p->define = u;
    else if (u->op == TG_OP_STORE && u->src[0] == p->c.tile && !tg_gate(u) && !p->init) p->init = u;
    else others += p->depth > 0 || tg_loads_from(s->j, u, b) || tg_uses(s->j, u, p->c.tile);
  }
  if (!p->define || !p->init || others)
    refuse(&p->c, "beside it stand other statements than the one that fills its register");
  if (tg_loads_below(s->j, tg_stored(p->init))) refuse(&p->c, "its register begins with what is read from memory");
}

/* for p, tasks { for o.parts { parts[o.parts, p] = sum(q, e) } } */
static const tg_uop *sums(parting *p, tg_kind kind) {
  const scan *c = &p->c;
  tg_job *j = c->s->j;
  const tg_uop *from[DEEPEST], *to[DEEPEST], *sub[1 + DEEPEST];
  const tg_uop *t = sub[p->depth] = plain_range(c, p->name[0], "parts", tg_index(j, p->parts), kind);
  const tg_uop *q = plain_range(c, p->name[1], "sum", tg_index(j, p->each), TG_REDUCE);
  const tg_uop *value = tg_idx_add(j, tg_idx_mul(j, t, p->each), q);
  const tg_uop *e = term_at(c, value, inside(c, value, p->each, tg_extent(c->range)));
  for (uint32_t i = 0; i < p->depth; i++) {
    from[i] = p->outer[i]->src[0];
    sub[i] = to[i] = plain_range(c, tg_range_name(c->s, from[i]), "parts", tg_extent(from[i]), TG_LOOP);
  }
  e = tg_substitute(j, e, p->depth, from, to);
  const tg_uop *sum =
      tg_reduce(j, (tg_reduce_arg){.op = (uint16_t)c->op, .values = 1, .ranges = 1}, &e, NULL, NULL, &q);
  const tg_uop *u = write(c, p->memory, sub, sum);
  tg_set_pos(j, u, tg_get_pos(j, c->end->src[1]));
  for (uint32_t i = p->depth; i-- > 0;) u = tg_end(j, to[i], 1, &u);
  return tg_end(j, t, 1, &u);
}

/* for p, tasks { for o { s = a op sum(k, parts[o, k] where k < p); for q { s = s op e; .. } } } */
static const tg_uop *scans(parting *p, tg_kind kind) {
  const scan *c = &p->c;
  tg_schedule *s = c->s;
  tg_job *j = s->j;
  const tg_uop *t = tg_axis_range(s, c->range, p->name[0], tg_index(j, p->parts), kind);
  const tg_uop *q = tg_axis_range(s, c->range, p->name[1], tg_index(j, p->each), TG_LOOP);
  const tg_uop *k = plain_range(c, p->name[0], "before", tg_index(j, p->parts), TG_REDUCE), *sub[1 + DEEPEST];
  for (uint32_t i = 0; i < p->depth; i++) sub[i] = p->outer[i]->src[0];
  sub[p->depth] = k;
  const tg_uop *part = only_where(c, tg_op2(j, TG_OP_LT, k, t), read(c, p->memory, sub));
  const tg_uop *before =
      tg_reduce(j, (tg_reduce_arg){.op = (uint16_t)c->op, .values = 1, .ranges = 1}, &part, NULL, NULL, &k);
  const tg_uop *tile = reg(c, "part", 0, NULL, TG_SPACE_REG), *list[3];
  const tg_uop *value = tg_idx_add(j, tg_idx_mul(j, t, p->each), q);
  const tg_uop *cond = inside(c, value, p->each, tg_extent(c->range));
  tg_statements body = {0};
  tg_push(&j->env, &body, write(c, tile, NULL, both(c, read(c, tile, NULL), term_at(c, value, cond))));
  tg_set_pos(j, body.data[0], tg_get_pos(j, c->end->src[1]));
  put_results(c, value, cond, read(c, tile, NULL), &body);
  list[0] = tile;
  list[1] = write(c, tile, NULL, both(c, tg_stored(p->init), before));
  list[2] = tg_end_like(s, c->end, q, body.n, body.data);
  const tg_uop *u = NULL;
  for (uint32_t i = p->depth; i-- > 0;)
    u = u ? tg_end_like(s, p->outer[i], p->outer[i]->src[0], 1, &u)
          : tg_end_like(s, p->outer[i], p->outer[i]->src[0], 3, list);
  return p->depth ? tg_end_like(s, c->end, t, 1, &u) : tg_end_like(s, c->end, t, 3, list);
}

bool tg_scan_in_parts(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  if (axis.n != 1 || !tg_scan_of(s, axis.site[0].owner)) return false;
  parting p = {.c = find(s, o, axis.site[0].owner, "thread"), .each = o->number[0]};
  const tg_uop *extent = tg_extent(p.c.range), *dims[1 + DEEPEST];
  tg_kind kind = s->l->target->lanes > 1 ? TG_GLOBAL : TG_THREAD;
  if (!p.each) refuse(&p.c, "it is a scan: say how many iterations a part has");
  if (extent->op != TG_OP_CONST)
    refuse(&p.c, "the sums of its parts need memory whose size is known, and its extent is no constant");
  p.parts = extent->arg < 1 ? 1 : (extent->arg + p.each - 1) / p.each;
  if (p.parts > MOST_PARTS) refuse(&p.c, "over 65536 parts");
  if (o->number[1]) refuse(&p.c, "static is for loops; the parts of a scan are tasks of one size");
  names_of(&p.c, p.name);
  find_around(&p, &axis.site[0]);
  find_beginning(&p);
  for (uint32_t i = 0; i < p.depth; i++) dims[i] = tg_extent(p.outer[i]->src[0]);
  dims[p.depth] = tg_index(j, p.parts);
  p.memory = reg(&p.c, "parts", 1 + p.depth, dims, TG_SPACE_LOCAL);
  const tg_uop *top = p.depth ? p.outer[0] : p.c.end;
  tg_statements out = {0};
  for (uint32_t i = 0; i < s->sink->n; i++) {
    const tg_uop *u = s->sink->src[i];
    if (!p.depth && (u == p.define || u == p.init)) continue;
    if (u == top) {
      tg_push(&j->env, &out, p.memory);
      tg_push(&j->env, &out, sums(&p, kind));
      u = scans(&p, kind);
    }
    tg_push(&j->env, &out, u);
  }
  s->sink = tg_sink(j, out.n, out.data);
  tg_schedule_sites(s);
  tg_schedule_check(s, o);
  return true;
}

/* ---- group: blocks ---- */

typedef struct {
  scan c;
  int64_t run, lanes, warps;                  /* neighbours of a thread */
  const tg_uop *block, *warp, *lane;          /* ranges */
  const tg_uop *terms, *before, *totals;      /* sums of neighbours [warp, lane, run]; of lanes before; of warps */
  const char *name[2];
} blocking;

static const tg_uop *iteration(const blocking *g, const tg_uop *u) {
  tg_job *j = g->c.s->j;
  const tg_uop *thread = tg_idx_add(j, tg_idx_mul(j, g->warp, g->lanes), g->lane);
  const tg_uop *within = tg_idx_add(j, tg_idx_mul(j, thread, g->run), u);
  return tg_idx_add(j, tg_idx_mul(j, g->block, g->run * g->lanes * g->warps), within);
}

static const tg_uop *when(const blocking *g, const tg_uop *value) {
  return inside(&g->c, value, g->run * g->lanes * g->warps, tg_extent(g->c.range));
}

/* The sum up to this neighbour of the thread. */
static const tg_uop *term(const blocking *g, const tg_uop *u) {
  const tg_uop *sub[3] = {g->warp, g->lane, u};
  return read(&g->c, g->terms, sub);
}

static const tg_uop *set_term(const blocking *g, const tg_uop *u, const tg_uop *value) {
  const tg_uop *sub[3] = {g->warp, g->lane, u};
  return write(&g->c, g->terms, sub, value);
}

/* What the lane `by` before this one has; nothing for the first ones. */
static const tg_uop *from_before(const blocking *g, const tg_uop *value, int64_t by) {
  tg_job *j = g->c.s->j;
  const tg_uop *other = tg_shuffle(j, value, g->lane, tg_idx_sub(j, g->lane, tg_index(j, by)));
  return only_where(&g->c, tg_op2(j, TG_OP_LE, tg_index(j, by), g->lane), other);
}

static void in_threads(blocking *g, const char *warp, const char *lane, const blocking *like) {
  g->warp = part_range(&g->c, g->name[1], warp, g->warps, TG_LOCAL);
  g->lane = part_range(&g->c, g->name[1], lane, g->lanes, TG_LANE);
  if (!like) return;
  tg_axis_tie(g->c.s, g->warp, like->warp);
  tg_axis_tie(g->c.s, g->lane, like->lane);
}

static const tg_uop *threads_end(const blocking *g, const tg_statements *list) {
  tg_job *j = g->c.s->j;
  const tg_uop *u = tg_end(j, g->lane, list->n, list->data);
  return tg_end(j, g->warp, 1, &u);
}

/* The sums up to each neighbour; those up to each lane of the warp, of which each keeps what is before it, and the last
 * one is the warp's. */
static const tg_uop *sums_of_threads(const blocking *g) {
  const scan *c = &g->c;
  tg_job *j = c->s->j;
  tg_statements out = {0};
  const tg_uop *u = plain_range(c, g->name[1], "run", tg_index(j, g->run), TG_UPCAST), *value = iteration(g, u);
  const tg_uop *fill = set_term(g, u, term_at(c, value, when(g, value)));
  tg_set_pos(j, fill, tg_get_pos(j, c->end->src[1]));
  tg_push(&j->env, &out, tg_end(j, u, 1, &fill));
  for (int64_t i = 1; i < g->run; i++) {
    const tg_uop *at = tg_index(j, i), *before = tg_index(j, i - 1);
    tg_push(&j->env, &out, set_term(g, at, both(c, term(g, before), term(g, at))));
  }
  const tg_uop *sum = term(g, tg_index(j, g->run - 1)), *sub[2] = {g->warp, g->lane};
  for (int64_t by = 0; by < g->lanes; by = by ? 2 * by : 1) {
    const tg_uop *next = reg(c, "upto", 0, NULL, TG_SPACE_REG);
    tg_push(&j->env, &out, next);
    tg_push(&j->env, &out, write(c, next, NULL, by ? both(c, from_before(g, sum, by), sum) : sum));
    sum = read(c, next, NULL);
  }
  tg_push(&j->env, &out, write(c, g->before, sub, from_before(g, sum, 1)));
  const tg_uop *last = tg_op2(j, TG_OP_EQ, g->lane, tg_index(j, g->lanes - 1));
  tg_push(&j->env, &out, tg_store(j, g->totals, &g->warp, sum, last, 0));
  return threads_end(g, &out);
}

static const tg_uop *results_of_threads(const blocking *g) {
  const scan *c = &g->c;
  tg_job *j = c->s->j;
  tg_statements out = {0}, results = {0};
  const tg_uop *sub[2] = {g->warp, g->lane}, *before = read(c, c->tile, NULL);
  const tg_uop *begin = reg(c, "begin", 0, NULL, TG_SPACE_REG);
  for (int64_t w = 0; w + 1 < g->warps; w++) {
    const tg_uop *at = tg_index(j, w);
    before = both(c, before, only_where(c, tg_op2(j, TG_OP_LT, at, g->warp), read(c, g->totals, &at)));
  }
  tg_push(&j->env, &out, begin);
  tg_push(&j->env, &out, write(c, begin, NULL, both(c, before, read(c, g->before, sub))));
  const tg_uop *u = part_range(c, g->name[1], "out", g->run, TG_UPCAST), *value = iteration(g, u);
  put_results(c, value, when(g, value), both(c, read(c, begin, NULL), term(g, u)), &results);
  tg_push(&j->env, &out, tg_end(j, u, results.n, results.data));
  return threads_end(g, &out);
}

static void put_blocks(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  blocking *g = user, after;
  tg_job *j = s->j;
  const scan *c = &g->c;
  int64_t each = g->run * g->lanes * g->warps;
  const tg_uop *dim[3] = {tg_index(j, g->warps), tg_index(j, g->lanes), tg_index(j, g->run)}, *body[6];
  g->block = tg_axis_range(s, c->range, g->name[0], tg_idx_ceildiv(j, tg_extent(c->range), each), TG_LOOP);
  body[0] = g->totals = reg(c, "totals", 1, dim, TG_SPACE_LOCAL);
  body[1] = g->terms = reg(c, "run", 3, dim, TG_SPACE_REG);
  body[2] = g->before = reg(c, "before", 2, dim, TG_SPACE_REG);
  in_threads(g, "warp", "lane", NULL);
  body[3] = sums_of_threads(g);
  after = *g;
  in_threads(&after, "warps", "lanes", g);
  body[4] = results_of_threads(&after);
  const tg_uop *sum = read(c, c->tile, NULL);
  for (int64_t w = 0; w < g->warps; w++) {
    const tg_uop *at = tg_index(j, w);
    sum = both(c, sum, read(c, g->totals, &at));
  }
  body[5] = write(c, c->tile, NULL, sum);
  tg_push(&j->env, out, tg_end_like(s, end, g->block, 6, body));
}

bool tg_scan_in_blocks(tg_schedule *s, const tg_opt *o) {
  tg_axis axis = tg_axis_find(s, o, o->names[0]);
  if (axis.n != 1 || !tg_scan_of(s, axis.site[0].owner)) return false;
  blocking g = {.c = find(s, o, axis.site[0].owner, "group"), .lanes = s->l->target->lanes};
  if (g.lanes < 2) refuse(&g.c, "it is a scan, and this target has no warps");
  if (!o->number[0]) refuse(&g.c, "it is a scan: say how many iterations a block has");
  tg_kind kind = tg_range_kind(g.c.range);
  if (kind != TG_LOOP) refuse(&g.c, tg_format(&s->j->env, "it is %s already", tg_kind_name[kind]));
  for (uint32_t q = axis.site[0].parent; q != UINT32_MAX; q = s->sites.data[q].parent) {
    tg_kind around = tg_range_kind(s->sites.data[q].range);
    if (around == TG_LANE || around == TG_LOCAL)
      refuse(&g.c, tg_format(&s->j->env, "it stands inside %s, which is %s already",
                             tg_range_text(s, s->sites.data[q].range), tg_kind_name[around]));
  }
  g.run = RUN_BYTES / tg_type_bytes(g.c.term->type);
  while (g.run > 1 && o->number[0] % (g.run * g.lanes)) g.run /= 2;
  g.warps = o->number[0] / (g.run * g.lanes);
  if (o->number[0] % (g.run * g.lanes) || g.warps > MOST_WARPS)
    refuse(&g.c, tg_format(&s->j->env, "a block of a scan has %lld iterations, or a multiple up to %lld",
                           (long long)g.lanes, (long long)(MOST_WARPS * g.run * g.lanes)));
  names_of(&g.c, g.name);
  s->sink = tg_replace_end(s, s->sink, g.c.range, put_blocks, &g);
  tg_schedule_sites(s);
  tg_schedule_check(s, o);
  return true;
}
