/* SPDX-License-Identifier: MIT
 * Is a schedule legal? All words so far are judged together: with the kinds that its ranges have now, does the program
 * keep every dependence of the author's program (ranges/kept.c)? Words that move loops keep the order of sequential
 * loops; but whether a loop's iterations may run in parallel depends on all other loops. So a verdict about one range
 * is not inherited by its parts, nor kept when the range moves.
 *
 * There is one exception, which saves most searches. Suppose that two accesses of a buffer in the author's program can
 * never meet in one element if they differ in the iteration of range r, whatever the other ranges do. Then this holds
 * after any split, move or change of kind, because every access still is one of the author's. Such a range r separates
 * the buffer's accesses, and so does each part of r. */
#include "schedule/opt.h"
#include "ranges/kept.h"

/* ---- where ranges and buffers came from ---- */

void tg_axis_made_of(tg_schedule *s, const tg_uop *range, const tg_uop *a, const tg_uop *b) {
  uint32_t ordinal = tg_range_ordinal(range);
  while (s->made_of.n <= ordinal) tg_push(&s->j->env, &s->made_of, ((tg_made_of){0}));
  s->made_of.data[ordinal] = (tg_made_of){.range = {tg_range_ordinal(a) + 1, b ? tg_range_ordinal(b) + 1 : 0}};
}

void tg_buffer_copied(tg_schedule *s, const tg_uop *copy, const tg_uop *from) {
  uint32_t b = tg_buffer_ordinal(copy);
  while (s->copy_of.n <= b) tg_push(&s->j->env, &s->copy_of, 0);
  uint32_t of = tg_buffer_ordinal(from);
  s->copy_of.data[b] = of < s->copy_of.n && s->copy_of.data[of] ? s->copy_of.data[of] : of + 1;
}

/* The author's buffer that it is, or a copy of; UINT32_MAX: none. */
static uint32_t authors_buffer(const tg_schedule *s, uint32_t buffer) {
  if (buffer < s->author_buffers) return buffer;
  return buffer < s->copy_of.n && s->copy_of.data[buffer] && s->copy_of.data[buffer] <= s->author_buffers
             ? s->copy_of.data[buffer] - 1
             : UINT32_MAX;
}

/* ---- what separates ---- */

static const tg_uop *find_end(const tg_uop *u, uint32_t ordinal) {
  if (u->op == TG_OP_END && tg_range_ordinal(u->src[0]) == ordinal) return u;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return NULL;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *e = find_end(u->src[i], ordinal);
    if (e) return e;
  }
  return NULL;
}

static uint32_t depth_in(const tg_access *a, const tg_uop *range) {
  uint32_t d = 0;
  while (d < a->depth && a->loop[d] != range) d++;
  return d;
}

/* The author's loops around that one, outermost first. */
static uint32_t loops_around(const tg_uop *u, uint32_t ordinal, const tg_uop **loops, uint32_t depth, uint32_t most) {
  if (u->op == TG_OP_END && tg_range_ordinal(u->src[0]) == ordinal) return depth;
  if ((u->op != TG_OP_END && u->op != TG_OP_SINK) || depth == most) return UINT32_MAX;
  if (u->op == TG_OP_END) loops[depth++] = u->src[0];
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    uint32_t found = loops_around(u->src[i], ordinal, loops, depth, most);
    if (found != UINT32_MAX) return found;
  }
  return UINT32_MAX;
}

/* Of the author's program: do accesses to the buffer that differ in this loop's iteration never meet? rel[0] is the
 * loop, the rest what is known of others. */
static bool separates_with(tg_schedule *s, uint32_t buffer, uint32_t n, const tg_relation *rel) {
  tg_touched *t = s->touched;
  const tg_uop *range = rel[0].range;
  if (tg_bounds_of(s->j, tg_extent(range)).hi <= 1) return true;
  bool yes = true;
  t->polys = tg_polys_take(s->j);
  for (uint32_t i = 0; i < t->all.n && yes; i++) {
    const tg_access *a = &t->all.data[i];
    uint32_t depth = a->buffer == buffer ? depth_in(a, range) : a->depth;
    /* elsewhere, or another memory in each iteration */
    if (depth == a->depth || t->define_depth[buffer] > depth) continue;
    for (uint32_t k = 0; k < t->all.n && yes; k++) {
      const tg_access *b = &t->all.data[k];
      if (b->buffer != buffer || (!a->store && !b->store) || (a->atomic && b->atomic) || depth_in(b, range) == b->depth)
        continue;
      yes = tg_accesses_apart(t, a, b, n, rel);
    }
  }
  tg_polys_give(s->j, t->polys);
  return yes;
}

/* When can accesses in two different iterations of the range meet? NEVER: never. WITHIN: not while the author's loops
 * around it are in the same iteration. MEET: possibly always. */
typedef enum { MEET = 1, WITHIN, NEVER } meeting;

static meeting meeting_of(tg_schedule *s, const tg_uop *range, uint32_t buffer) {
  tg_relation rel[66] = {{range, TG_LATER}};
  const tg_uop *around[64];
  if (separates_with(s, buffer, 1, rel)) return NEVER;
  uint32_t depth = loops_around(s->author, tg_range_ordinal(range), around, 0, TG_COUNT(around));
  if (!depth || depth > TG_COUNT(around)) return MEET;
  for (uint32_t i = 0; i < depth; i++) rel[1 + i] = (tg_relation){around[i], TG_SAME};
  return separates_with(s, buffer, 1 + depth, rel) ? WITHIN : MEET;
}

/* Does its value depend on that range of the author's? */
static bool part_of(const tg_schedule *s, uint32_t ordinal, uint32_t author) {
  uint32_t from = s->j->ranges.data[ordinal].from;
  if (from == author) return true;
  if (from >= s->made_of.n) return false;
  const uint32_t *of = s->made_of.data[from].range;
  return (of[0] && part_of(s, of[0] - 1, author)) || (of[1] && part_of(s, of[1] - 1, author));
}

static bool is_same(const tg_uop *range, uint32_t n, const tg_relation *rel) {
  for (uint32_t i = 0; i < n; i++)
    if (rel[i].range == range) return rel[i].how == TG_SAME;
  return false;
}

/* Where an access stands: the loops around it. rel: what is known of the other access' iteration. */
typedef struct { uint32_t depth, n; const tg_uop *const *loop; const tg_relation *rel; } standing;

/* Are all loops that the author's range has become the same iteration? */
static bool same_there(const tg_schedule *s, uint32_t author, const standing *at) {
  bool any = false;
  for (uint32_t i = 0; i < at->depth; i++) {
    if (!part_of(s, tg_range_ordinal(at->loop[i]), author)) continue;
    if (!is_same(at->loop[i], at->n, at->rel)) return false;
    any = true;
  }
  return any;
}

static bool same_around(const tg_schedule *s, uint32_t author, uint32_t places, const standing *at) {
  const tg_uop *around[64];
  uint32_t depth = loops_around(s->author, author, around, 0, TG_COUNT(around));
  if (depth > TG_COUNT(around)) return false;
  for (uint32_t i = 0; i < depth; i++)
    for (uint32_t k = 0; k < places; k++)
      if (tg_bounds_of(s->j, tg_extent(around[i])).hi > 1 && !same_there(s, tg_range_ordinal(around[i]), &at[k]))
        return false;
  return true;
}

static bool range_separates(tg_schedule *s, uint32_t ordinal, uint32_t buffer, uint32_t places, const standing *at) {
  uint32_t from = s->j->ranges.data[ordinal].from;
  const tg_made_of *m = from < s->made_of.n && s->made_of.data[from].range[0] ? &s->made_of.data[from] : NULL;
  if (m)
    return range_separates(s, m->range[0] - 1, buffer, places, at) &&
           (!m->range[1] || range_separates(s, m->range[1] - 1, buffer, places, at));
  const tg_uop *end = from < s->author_ranges ? find_end(s->author, from) : NULL;
  if (!end || buffer == UINT32_MAX) return false;
  while (s->separates.n <= from) tg_push(&s->j->env, &s->separates, NULL);
  if (!s->separates.data[from]) s->separates.data[from] = tg_new(&s->j->env, uint8_t, s->author_buffers + 1);
  uint8_t *known = &s->separates.data[from][buffer];
  if (!s->touched) {
    s->touched = tg_touched_by(s->j, s->author, NULL);
    tg_polys_give(s->j, s->touched->polys);
  }
  if (!*known) *known = (uint8_t)meeting_of(s, end->src[0], buffer);
  return *known == NEVER || (*known == WITHIN && at && same_around(s, from, places, at));
}

/* Is it a statement of the author's? A copy that a word makes is not: it may read more of a buffer. */
static bool authors_statement(const tg_schedule *s, const tg_uop *statement) {
  return statement->op != TG_OP_STORE || authors_buffer(s, tg_buffer_ordinal(statement->src[0])) != UINT32_MAX;
}

static bool separates(void *user, const tg_uop *range, const tg_access *a, const tg_access *b, uint32_t n,
                      const tg_relation *rel) {
  tg_schedule *s = user;
  const standing at[2] = {{a->depth, n, a->loop, rel}, {b->depth, n, b->loop, rel}};
  uint32_t buffer = authors_statement(s, a->statement) && authors_statement(s, b->statement)
                        ? authors_buffer(s, a->buffer)
                        : UINT32_MAX;
  return range_separates(s, tg_range_ordinal(range), buffer, 2, at);
}

/* Ranges to which the author gave these kinds are in lockstep in the order that is kept. No word splits or cuts
 * them. */
static bool was_lockstep(void *user, const tg_uop *range) {
  tg_schedule *s = user;
  uint32_t from = s->j->ranges.data[tg_range_ordinal(range)].from;
  const tg_uop *end = from < s->author_ranges ? find_end(s->author, from) : NULL;
  tg_kind k = end ? tg_range_kind(end->src[0]) : TG_LOOP;
  return k == TG_LANE || k == TG_LOCAL || k == TG_UPCAST;
}

/* ---- a loop by itself ---- */

enum { INSIDE = 1, STORED };

/* Does the range separate all stores of the loop, except those to memory private to an iteration? marks: by buffer. */
static bool stores_apart(tg_schedule *s, const tg_uop *u, uint32_t ordinal, uint8_t *marks, const standing *at) {
  if (u->op == TG_OP_DEFINE) marks[tg_buffer_ordinal(u)] = INSIDE;
  if (u->op == TG_OP_STORE) {
    uint32_t b = tg_buffer_ordinal(u->src[0]);
    if (marks[b]) return true;
    marks[b] = STORED;
    return authors_statement(s, u) && range_separates(s, ordinal, authors_buffer(s, b), 1, at);
  }
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++)
    if (!stores_apart(s, u->src[i], ordinal, marks, at)) return false;
  return true;
}

/* Does a statement that is none of the author's read what is stored to? */
static bool copies_read(tg_schedule *s, const tg_uop *u, const uint8_t *marks) {
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++)
    if (copies_read(s, u->src[i], marks)) return true;
  if (u->op != TG_OP_STORE || authors_statement(s, u)) return false;
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && marks[tg_buffer_ordinal(order[i]->src[0])] == STORED) return true;
  return false;
}

static bool independent_at(tg_schedule *s, const tg_uop *end, const standing *at) {
  if (tg_bounds_of(s->j, tg_extent(end->src[0])).hi <= 1) return true;
  uint8_t *marks = tg_new(&s->j->env, uint8_t, s->j->buffers.n + 1);
  return stores_apart(s, end, tg_range_ordinal(end->src[0]), marks, at) && !copies_read(s, end, marks);
}

bool tg_surely_independent(tg_schedule *s, const tg_uop *end) { return independent_at(s, end, NULL); }

/* Appends the ranges of u and of all loops inside it. They get no relation, since nothing says that two accesses are in
 * the same iteration of them. They must be listed all the same: if one is a part of the same author's range as a loop
 * around, two accesses need not be in one iteration of that author's range. */
static void list_inside(const tg_uop *u, const tg_uop **loops, uint32_t *n, uint32_t most) {
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++) list_inside(u->src[i], loops, n, most);
  if (u->op == TG_OP_END && *n < most) loops[(*n)++] = u->src[0];
}

static bool independent_here(tg_schedule *s, const tg_uop *end) {
  const tg_uop *loops[256];
  tg_relation rel[64];
  uint32_t around = loops_around(s->sink, tg_range_ordinal(end->src[0]), loops, 0, TG_COUNT(rel)), n;
  if (around > TG_COUNT(rel)) return false;
  for (n = 0; n < around; n++) rel[n] = (tg_relation){loops[n], TG_SAME};
  list_inside(end, loops, &n, TG_COUNT(loops));
  const standing at = {n, around, loops, rel};
  return n < TG_COUNT(loops) && independent_at(s, end, &at);
}

tg_verdict tg_range_verdict(tg_schedule *s, const tg_uop *end, const char **why) {
  *why = NULL;
  const tg_uop *now = find_end(s->sink, tg_range_ordinal(end->src[0]));   /* a word before may have changed its body */
  if (!now) tg_bug(&s->j->env, "%s is no loop any more", tg_range_text(s, end->src[0]));
  return independent_here(s, now) ? TG_INDEPENDENT : tg_loop_verdict(s->j, s->sink, now, why);
}

/* ---- the list ---- */

/* Attributes ranges to the word that made or moved them, so that an error can name it. */
void tg_schedule_note(tg_schedule *s, const tg_opt *o) {
  tg_push(&s->j->env, &s->words, *o);
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_site *x = &s->sites.data[i];
    uint32_t ordinal = tg_range_ordinal(x->range), place = 1;
    for (uint32_t p = x->parent; p != UINT32_MAX; p = s->sites.data[p].parent)
      place = place * 31 + tg_range_ordinal(s->sites.data[p].range) + 1;
    while (s->changed.n <= ordinal) tg_push(&s->j->env, &s->changed, ((tg_changed){0}));
    tg_changed *c = &s->changed.data[ordinal];
    if (ordinal >= s->author_ranges && !c->place) c->word = s->words.n;
    else if (s->moved && c->place && c->place != place) c->word = s->words.n;
    c->place = place;
  }
}

/* The last word that changed or moved a range around either access; NULL: none did. */
static const tg_opt *last_word(const tg_schedule *s, const tg_reordered *r) {
  uint32_t last = 0;
  for (uint32_t side = 0; side < 2; side++)
    for (uint32_t i = 0; i < r->depth[side]; i++) {
      uint32_t ordinal = tg_range_ordinal(r->loop[side][i]);
      if (ordinal < s->changed.n && s->changed.data[ordinal].word > last) last = s->changed.data[ordinal].word;
    }
  return last ? &s->words.data[last - 1] : NULL;
}

static bool has_kinds(const tg_schedule *s) {
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_uop *r = s->sites.data[i].range;
    tg_kind k = s->sites.data[i].owner->op == TG_OP_END ? tg_range_kind(r) : TG_LOOP;
    if (k != TG_LOOP && k != TG_UNROLL && k != TG_REDUCE) return true;
  }
  return false;
}

void tg_schedule_check(tg_schedule *s, const tg_opt *o) {
  tg_reference ref = {was_lockstep, separates, s};
  tg_reordered r;
  if (s->l->unjudged || !has_kinds(s) || tg_order_kept(s->j, s->sink, &ref, &r)) return;
  if (o)
    tg_fail_at(s->j, o->pos, "%s %s: its iterations depend on one another: %s", tg_kind_name[tg_range_kind(r.range)],
               tg_range_text(s, r.range), r.why);
  const tg_opt *word = last_word(s, &r);
  if (!word)
    tg_fail_at(
        s->j, (tg_pos){0},
        "the kinds of the ranges do not keep the order of the program: iterations of %s depend on one another: %s",
        tg_range_text(s, r.range), r.why);
  tg_fail_at(s->j, word->pos,
             "`%s`, with the other words, does not keep the order of the program: iterations of the %s range %s depend "
             "on one another: %s",
             tg_opt_text_of(s->j, word), tg_kind_name[tg_range_kind(r.range)], tg_range_text(s, r.range), r.why);
}
