/* SPDX-License-Identifier: MIT
 * carry and merge: state that the iterations of a loop hand on, and how two states become one. The loop runs in order
 * like any other. The merge is kept with it as a block that is not executed (uop.h), so that a schedule may run parts
 * of the loop separately. The checks here make that exact: the body stores only to the carried tiles and to what it
 * defines itself; the merge reads two states and writes one whole state; and each tile begins as a constant, with which
 * a part that begins later begins too. */
#include "dsl/parse.h"

enum { DEEP = 64 };

/* ---- stores that fill a tile ---- */

typedef struct { const tg_uop *store, *loop[DEEP]; uint32_t stores, depth; } filling;

static void find_stores(const tg_uop *u, const tg_uop *define, const tg_uop **loop, uint32_t depth, filling *f) {
  if (u->op == TG_OP_STORE && u->src[0] == define) {
    f->stores++;
    f->store = u;
    f->depth = depth;
    memcpy(f->loop, loop, depth * sizeof *loop);
  }
  if (u->op != TG_OP_END || depth == DEEP) return;
  loop[depth] = u->src[0];
  for (uint32_t i = 1; i < u->n; i++) find_stores(u->src[i], define, loop, depth + 1, f);
}

static filling stores_in(const tg_uop *u, const tg_uop *define) {
  filling f = {0};
  const tg_uop *loop[DEEP];
  find_stores(u, define, loop, 0, &f);
  return f;
}

/* Does the store, under its loops and no gate, write each element once? */
static bool fills(const filling *f, const tg_uop *define) {
  bool used[DEEP] = {false};
  if (tg_gate(f->store)) return false;
  for (uint32_t d = 0; d < tg_access_rank(f->store); d++) {
    uint32_t k = 0;
    while (k < f->depth && (used[k] || f->loop[k] != f->store->src[1 + d])) k++;
    if (k == f->depth || tg_extent(f->loop[k]) != define->src[d]) return false;
    used[k] = true;
  }
  for (uint32_t k = 0; k < f->depth; k++)
    if (!used[k]) return false;
  return true;
}

/* The constant that the tile holds in all of its elements before the loop that is open now, or NULL with the store
 * that is to blame. */
static const tg_uop *initial_value(tg_builder *b, const tg_uop *define, tg_pos *blame) {
  uint32_t at = b->frames.n - 1;
  while (b->frames.data[at].kind != FRAME_RANGE) at--;
  for (; at-- > 0;) {
    tg_frame *f = &b->frames.data[at];
    for (uint32_t i = f->items.n; i-- > 0;) {
      if (!f->items.data[i].node) continue;
      filling s = stores_in(f->items.data[i].node, define);
      if (!s.stores) continue;
      *blame = f->items.data[i].pos;
      return s.stores == 1 && fills(&s, define) && tg_stored(s.store)->op == TG_OP_CONST ? tg_stored(s.store) : NULL;
    }
  }
  return NULL;
}

/* ---- carry ---- */

static tg_carried parse_tile(tg_parser *p) {
  tg_builder *b = p->b;
  tg_token t = p->tok;
  tg_pos blame = {0};
  tg_name *n = tg_name_find(b, tg_take_name(p, "a register tile"));
  if (!n) tg_name_unknown(p, &t, false);
  if (n->kind != NAME_BUFFER || tg_buffer_info(p->j, n->u)->space != TG_SPACE_REG)
    tg_token_fail(p, &t, "'%s' is no register tile: a loop carries what define_reg makes", n->name);
  tg_carried c = {.tile = n->u};
  c.neutral = initial_value(b, n->u, &blame);
  if (!c.neutral)
    tg_token_fail(p, &t,
                  "'%s' does not begin as a constant%s\na part of the loop begins as the whole does: fill all of '%s' "
                  "with one constant before it",
                  n->name, blame.line ? tg_format(&p->j->env, " (line %d)", blame.line) : "", n->name);
  return c;
}

void tg_parse_carry(tg_parser *p, uint32_t off) {
  tg_builder *b = p->b;
  tg_frame *loop = &b->frames.data[b->frames.n - 1];
  tg_carry *c = tg_new(&p->j->env, tg_carry, 1);
  if (loop->kind != FRAME_RANGE || loop->items.n || loop->carry)
    tg_parse_fail(p, off, p->tok.off > off ? p->tok.off - off : 1,
                  "a carry is the whole body of a range: range(k, N) carry(m, l) { ..; merge { .. } }");
  if (tg_range_kind(loop->range) != TG_LOOP)
    tg_fail_at(p->j, loop->pos, "a loop that carries is of kind loop: its iterations are in order");
  do {
    tg_token t = p->tok;
    if (c->n == TG_CARRIED) tg_token_fail(p, &t, "a loop carries at most %d tiles", TG_CARRIED);
    c->tile[c->n] = parse_tile(p);
    for (uint32_t i = 0; i < c->n; i++)
      if (c->tile[i].tile == c->tile[c->n].tile) tg_token_fail(p, &t, "%s is named twice", tg_token_text(p, &t));
    c->n++;
  } while (tg_take(p, ','));
  b->frames.data[b->frames.n - 1].carry = c;
  tg_frame *f =
      tg_frame_push(b, FRAME_CARRY, tg_source_pos(p->j, p->src, off, p->tok.off > off ? p->tok.off - off : 1));
  f->carry = c;
}

typedef struct { tg_builder *b; const tg_carry *carry; uint8_t *mine; } body;

static void note_defines(const tg_item *items, uint32_t n, uint8_t *mine) {
  for (uint32_t i = 0; i < n; i++) {
    if (!items[i].node) continue;
    if (items[i].node->op == TG_OP_DEFINE) mine[tg_buffer_ordinal(items[i].node)] = 1;
    note_defines(items[i].children, items[i].n, mine);
  }
}

static void check_stores(const body *s, const tg_item *items, uint32_t n) {
  tg_job *j = s->b->job;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = items[i].node;
    if (!u || tg_is_merge(u)) continue;
    check_stores(s, items[i].children, items[i].n);
    if (u->op != TG_OP_STORE || s->mine[tg_buffer_ordinal(u->src[0])]) continue;
    const tg_buffer *x = tg_buffer_info(j, u->src[0]);
    if (x->space == TG_SPACE_REG)
      tg_fail_at(j, items[i].pos,
                 "'%s' is defined outside of the loop, and the loop does not name it as carried\nname it: carry(.., "
                 "%s), or define it inside",
                 x->name, x->name);
    tg_fail_at(j, items[i].pos,
               "a loop that carries stores to what it carries and to what it defines: '%s' is neither\nstore to '%s' "
               "behind the loop",
               x->name, x->name);
  }
}

void tg_carry_close(tg_builder *b, const tg_frame *carry) {
  tg_frame *loop = &b->frames.data[b->frames.n - 1];
  uint32_t n = loop->items.n;
  if (!n || !loop->items.data[n - 1].node || !tg_is_merge(loop->items.data[n - 1].node))
    tg_fail_at(b->job, carry->pos, "a carry ends with how two of its states merge: merge { m = max(a.m, b.m); .. }");
  body s = {b, carry->carry, tg_new(&b->job->env, uint8_t, b->job->buffers.n)};
  note_defines(loop->items.data, n, s.mine);
  for (uint32_t i = 0; i < s.carry->n; i++) s.mine[tg_buffer_ordinal(s.carry->tile[i].tile)] = 1;
  check_stores(&s, loop->items.data, n);
}

/* ---- merge ---- */

static const tg_uop *side_of(tg_builder *b, const tg_uop *tile, const char *side, tg_pos pos) {
  tg_job *j = b->job;
  tg_buffer info = *tg_buffer_info(j, tile);
  info.name = tg_format(&j->env, "%s.%s", side, info.name);
  info.pos = pos;
  info.demand = TG_PLACE_NONE;
  const tg_uop *define = tg_define(j, info, tile->lanes, tile->src, NULL, true);
  tg_push(&j->env, &b->stores, 1);
  return define;
}

static const tg_uop *fill(tg_job *j, const tg_uop *define, const tg_uop *value, tg_pos pos) {
  const tg_uop *sub[16] = {0};
  uint32_t rank = tg_buffer_info(j, define)->rank;
  for (uint32_t d = 0; d < rank; d++)
    sub[d] = tg_range_new(j, tg_format(&j->env, "i%u", d), define->src[d], TG_LOOP, UINT32_MAX, pos);
  const tg_uop *u = tg_store(j, define, sub, value, NULL, 0);
  tg_set_pos(j, u, pos);
  for (uint32_t d = rank; d-- > 0;) {
    u = tg_end(j, sub[d], 1, &u);
    tg_set_pos(j, u, pos);
  }
  return u;
}

void tg_parse_merge(tg_parser *p, uint32_t off) {
  tg_builder *b = p->b;
  tg_job *j = p->j;
  tg_frame *around = &b->frames.data[b->frames.n - 1];
  uint32_t end = p->tok.off + p->tok.len;
  tg_pos pos = tg_source_pos(j, p->src, off, end > off ? end - off : 1);
  if (around->kind != FRAME_CARRY)
    tg_fail_at(j, pos, "merge stands at the end of a carry: carry(m, l) { ..; merge { .. } }");
  tg_carry *c = around->carry;
  if (c->tile[0].a) tg_fail_at(j, pos, "a carry has one merge");
  const tg_uop *range = tg_range_new(j, "merge", tg_index(j, 1), TG_MERGE, UINT32_MAX, pos);
  tg_frame *f = tg_frame_push(b, FRAME_MERGE, pos);
  f->range = range;
  f->name = "merge";
  f->carry = c;
  for (uint32_t i = 0; i < c->n; i++) {
    tg_carried *t = &c->tile[i];
    const char *name = NULL;
    for (uint32_t k = b->names.n; k-- > 0 && !name;)   /* its name in the text */
      if (b->names.data[k].kind == NAME_BUFFER && b->names.data[k].u == t->tile) name = b->names.data[k].name;
    t->a = side_of(b, t->tile, "a", pos);
    t->b = side_of(b, t->tile, "b", pos);
    tg_name_add(b, tg_sym(j, tg_format(&j->env, "a.%s", name)), NAME_BUFFER, pos)->u = t->a;
    tg_name_add(b, tg_sym(j, tg_format(&j->env, "b.%s", name)), NAME_BUFFER, pos)->u = t->b;
    tg_emit(b, t->a, pos, b->notes.n);
    tg_emit(b, t->b, pos, b->notes.n);
    tg_emit(b, fill(j, t->a, t->neutral, pos), pos, b->notes.n);
    tg_emit(b, fill(j, t->b, t->neutral, pos), pos, b->notes.n);
    tg_emit(b, fill(j, t->tile, t->neutral, pos), pos, b->notes.n);
  }
}

/* What a statement of the merge may read: the two states, what the merge has written, memory of its own, its own
 * loops. */
static void check_reads(tg_builder *b, const tg_item *x, const uint8_t *readable, const uint8_t *mine, uint8_t *loops) {
  tg_job *j = b->job;
  const tg_uop *u = x->node;
  if (!u || u->op == TG_OP_DEFINE) return;
  if (u->op == TG_OP_END) loops[tg_range_ordinal(u->src[0])] = 1;
  if (u->op == TG_OP_END)
    for (uint32_t i = 0; i < x->n; i++) check_reads(b, &x->children[i], readable, mine, loops);
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u->op == TG_OP_END ? tg_extent(u->src[0]) : u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE)
      for (uint32_t k = 0; k < tg_reduce_info(order[i]).ranges; k++)
        loops[tg_range_ordinal(tg_reduce_ranges(order[i])[k])] = 1;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = order[i];
    if (v->op == TG_OP_RANGE && !loops[tg_range_ordinal(v)])
      tg_fail_at(j, x->pos, "a merge knows nothing of the loops around it: it reads '%s'",
                 j->ranges.data[tg_range_ordinal(v)].name);
    if (v->op != TG_OP_LOAD && v->op != TG_OP_STORE) continue;
    uint32_t o = tg_buffer_ordinal(v->src[0]);
    const char *name = j->buffers.data[o].name;
    if (v->op == TG_OP_STORE && !mine[o]) tg_fail_at(j, x->pos, "a merge stores to what is carried: '%s' is not", name);
    if (v->op == TG_OP_LOAD && !readable[o] && !mine[o])
      tg_fail_at(j, x->pos, "a merge reads two states, as a.m and b.m, and what it has written: '%s' is neither", name);
  }
}

/* Does a statement of the nest read another element than the store wrote in the same iteration, or read it earlier? */
static bool early(tg_job *j, const tg_uop *u, const tg_uop *store, const tg_uop *load, bool *stored) {
  if (u->op == TG_OP_END) {
    for (uint32_t i = 1; i < u->n; i++)
      if (early(j, u->src[i], store, load, stored)) return true;
    return false;
  }
  if (!*stored && tg_uses(j, u, load)) return true;
  *stored |= u == store;
  return false;
}

static bool reads_early(tg_job *j, const tg_uop *nest, const tg_uop *store, const tg_uop *load) {
  bool stored = false;
  return memcmp(load->src + 1, store->src + 1, tg_access_rank(store) * sizeof *store->src) ||
         early(j, nest, store, load, &stored);
}

void tg_merge_close(tg_builder *b, const tg_frame *merge) {
  tg_job *j = b->job;
  const tg_carry *c = merge->carry;
  uint8_t *readable = tg_new(&j->env, uint8_t, j->buffers.n), *mine = tg_new(&j->env, uint8_t, j->buffers.n),
          *loops = tg_new(&j->env, uint8_t, j->ranges.n);
  uint32_t first = 5 * c->n;
  note_defines(merge->items.data + first, merge->items.n - first, mine);
  for (uint32_t k = 0; k < c->n; k++) {
    uint32_t o = tg_buffer_ordinal(c->tile[k].tile), at = first;
    readable[tg_buffer_ordinal(c->tile[k].a)] = readable[tg_buffer_ordinal(c->tile[k].b)] = mine[o] = 1;
    filling f = {0};
    while (at < merge->items.n && !(f = stores_in(merge->items.data[at].node, c->tile[k].tile)).stores) at++;
    const char *name = j->buffers.data[o].name;
    if (at == merge->items.n) tg_fail_at(j, merge->pos, "the merge does not write '%s'", name);
    if (f.stores != 1 || !fills(&f, c->tile[k].tile))
      tg_fail_at(j, merge->items.data[at].pos, "the merge writes all of '%s' first: %s", name,
                 "one statement, each element once, under no condition");
    for (uint32_t i = first; i <= at; i++) {
      uint32_t n;
      const tg_uop **order = tg_toposort(j, merge->items.data[i].node, &n);
      for (uint32_t q = 0; q < n; q++)
        if (order[q]->op == TG_OP_LOAD && tg_buffer_ordinal(order[q]->src[0]) == o &&
            (i < at || reads_early(j, merge->items.data[i].node, f.store, order[q])))
          tg_fail_at(j, merge->items.data[i].pos, "the merge reads '%s' before it writes it: a.%s or b.%s is meant",
                     name, name, name);
    }
  }
  for (uint32_t i = first; i < merge->items.n; i++) check_reads(b, &merge->items.data[i], readable, mine, loops);
}

/* ---- reading it back ---- */

/* Stores of constants, whatever loops a schedule has made of them: the buffer and the constant. */
static bool fills_constant(const tg_uop *u, const tg_uop **define, const tg_uop **value) {
  while (u->op == TG_OP_END && u->n == 2) u = u->src[1];
  if (u->op != TG_OP_STORE || tg_stored(u)->op != TG_OP_CONST) return false;
  *define = tg_define_of(u->src[0]);
  *value = tg_stored(u);
  return true;
}

bool tg_carry_of(tg_job *j, const tg_uop *end, tg_carry *c) {
  const tg_uop *m = tg_merge_of(end), *define, *value;
  (void)j;
  if (!m) return false;
  *c = (tg_carry){.end = m, .first = 1};
  while (c->n < TG_CARRIED && c->first + 4 < m->n) {
    tg_carried t = {.a = m->src[c->first], .b = m->src[c->first + 1]};
    uint32_t at = c->first + 2;
    if (t.a->op != TG_OP_DEFINE || t.b->op != TG_OP_DEFINE) break;
    for (; at < m->n && fills_constant(m->src[at], &define, &value); at++) {
      bool known = false;
      for (uint32_t i = 0; i < c->n; i++) known |= c->tile[i].tile == define;
      if (known || (t.tile && define != t.tile && define != t.a && define != t.b)) break;
      if (define != t.a && define != t.b) t.tile = define;
      t.neutral = value;
    }
    if (!t.tile) break;
    c->tile[c->n++] = t;
    c->first = at;
  }
  return c->n > 0;
}
