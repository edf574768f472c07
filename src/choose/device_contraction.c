/* SPDX-License-Identifier: MIT
 * The schedule of a contraction on a GPU: a sum of products of which one operand moves with rows of the output and the
 * other with its columns; by a matrix instruction that takes their types, or else by multiplications and additions.
 *
 *   a workgroup's tile of the output = warps x a warp's tile, in registers, as accumulators of the instruction;
 *     or else 16 x 16 threads x 4 x 4 or 8 x 8 elements
 *   the sum in blocks of terms: each block of both operands is copied to LOCAL memory, in a ring of several blocks
 *   while an earlier one is multiplied
 *
 * The copies are swizzled: 16 bytes are one unit, and units that lie in the same banks of LOCAL memory in lines one
 * below the other change places, so that eight lines' units, which ldmatrix reads at once, are in different banks.
 * Sizes are chosen by what the target's row says: registers, LOCAL memory, and how fast a core multiplies, reads LOCAL
 * memory and is given data from outside. The words are applied together: if one is refused, none stays. */
#include <string.h>
#include "choose/block.h"
#include "choose/device_product.h"

enum {
  SECTOR = 32         /* bytes of memory, of which a part is written as slowly as all of it */
};

/* ---- words ---- */

/* " of r s": of which iterations the operand's block is a copy, or "". */
static const char *of_iterations(const tg_device_product *c, const tg_words *w, const tg_device_operand *o) {
  return o->iterations ? tg_format(w->env, " of %s.t %s.t", c->base[o->loop == c->b.loop], c->base[2]) : "";
}

/* Dimensions of what is copied. */
static uint32_t own_of(const tg_device_operand *o) { return o->iterations ? 0 : o->own; }
static uint32_t term_of(const tg_device_operand *o) { return o->iterations ? 1 : o->term; }

/* Of the sum s of c's; rows: of the operand, in a workgroup's tile; warp: in that of a warp. */
static void copy(const tg_device_product *c, tg_words *w, const tg_device_product *s, const tg_device_operand *o,
                 uint32_t rows, uint32_t warp, const char *at) {
  const tg_target *t = c->n->l->target;
  const tg_device_block of = {.name = o->name, .copy = o->copy, .at = at, .own = own_of(o), .term = term_of(o),
                             .of = of_iterations(s, w, o),
                             .along_terms = o->along_terms, .loads_matrices = t->loads_matrices,
                             .anywhere = !o->iterations, .gathered = o->gathered,
                             .bytes = (uint32_t)tg_type_bytes(c->row->a_type), .vector = o->vector, .rows = rows,
                             .together = o == &s->b ? c->together : 0,
                             .warp = warp, .terms = c->terms, .stages = c->stages,
                             .threads = c->warps_down * c->warps_across * t->lanes};
  tg_device_block_words(&of, w);
}

/* Versions have buffers of their own. */
static const char *own_name(const tg_device_product *c, const char *buffer) {
  tg_nest *n = c->n;
  return n->versioned ? tg_format(&n->j->env, "%s.%s", buffer, tg_range_name(&n->s, n->top->src[0])) : buffer;
}

/* What the words call the loops of both operands, the range of the sum, and the loops around. */
static void find_names(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  const tg_uop *const range[3] = {c->a.loop, c->b.loop, c->sum};
  for (int x = 0; x < 3; x++) {
    c->name[x] = tg_device_name(c->n, range[x]);
    c->base[x] = tg_nest_base(c->n, c->name[x]);
  }
  c->outers = 0;
  for (uint32_t d = 0; d < depth; d++)
    if (chain[d]->src[0] != c->a.loop && chain[d]->src[0] != c->b.loop)
      c->outer[c->outers++] = tg_device_name(c->n, chain[d]->src[0]);
}

/* Of several sums whose ranges have one name with numbers the last is split first: the others keep theirs. */
static void say_terms(const tg_device_product *c, tg_words *w) {
  const tg_device_product *of[TG_MOST_SUMS];
  uint32_t n = 0;
  for (const tg_device_product *s = c; s; s = s->next) {
    uint32_t at = n++;
    for (; at && strcmp(of[at - 1]->name[2], s->name[2]) < 0; at--) of[at] = of[at - 1];
    of[at] = s;
  }
  for (uint32_t i = 0; i < n; i++)
    tg_say(w, "split %s %u as %s.b %s.t", of[i]->name[2], c->terms, of[i]->base[2], of[i]->base[2]);
}

/* Tiles and blocks of terms. In a version the others' names have that of the outermost loop, which is split last. */
static void say_tiles(const tg_device_product *c, tg_words *w, uint32_t rows, uint32_t columns) {
  const uint32_t size[2] = {rows, columns};
  const tg_uop *const range[2] = {c->a.loop, c->b.loop}, *last = c->n->versioned ? c->n->top->src[0] : NULL;
  for (uint32_t turn = 0; turn < 2; turn++) {
    for (int x = 0; x < 2; x++)
      if ((last && range[x] == last) == turn)
        tg_say(w, "split %s %u as %s.b %s.t", c->name[x], size[x], c->base[x], c->base[x]);
    if (!turn) say_terms(c, w);
  }
}

/* Blocks of terms around the tile, whose sums wait in registers: of several one behind the other. */
static void say_order(const tg_device_product *c, tg_words *w) {
  const char *ib = c->base[0], *jb = c->base[1];
  uint32_t number = 0;
  tg_str order = tg_str_new(w->env);
  for (uint32_t d = 0; d < c->outers; d++) tg_str_printf(&order, " %s", c->outer[d]);
  tg_str_printf(&order, " %s.b %s.b", ib, jb);
  const char *output = own_name(c, tg_buffer_info(c->n->j, c->store->src[0])->name), *outside = order.data;
  for (const tg_device_product *s = c; s; s = s->next, outside = "") {
    const char *tile = number ? tg_format(w->env, "%s.sum%u", output, number) : tg_format(w->env, "%s.sum", output);
    tile = tg_device_new_name(c->n->j, tile);
    tg_say(w, "order%s %s.b %s.t %s.t in %s", outside, s->base[2], ib, jb, tile);
    number++;
  }
}

static void say_grid(const tg_device_product *c, tg_words *w) {
  tg_say(w, "global %s.b", c->base[0]);
  tg_say(w, "global %s.b", c->base[1]);
  for (uint32_t d = c->outers; d-- > 0;) tg_say(w, "global %s", c->outer[d]);
}

/* Where four lanes' neighbours along a row of the output fill no sector, those of several instructions are interleaved,
 * as many as are one store of 16 bytes. Columns of B must be rows of its copy: a matrix load takes any eight of
 * them. */
static uint32_t columns_together(const tg_device_product *c) {
  uint32_t bytes = (uint32_t)tg_type_bytes(tg_define_of(c->store->src[0])->type), together = TG_UNIT / bytes;
  bool partly = c->row->form == TG_MATRIX_PTX && c->row->n == 8 && c->row->n * bytes < SECTOR;
  bool lines = c->terms * (uint32_t)tg_type_bytes(c->row->b_type) == TG_LINE / 2;   /* rows of its copy, in pairs */
  return partly && lines && c->b.along_terms && c->warp_columns % (4 * together) == 0 ? together : 0;
}

/* By instructions of one block of terms behind the other. */
static void say_instruction(const tg_device_product *c, const tg_device_product *s, tg_words *w) {
  const char *kb = s->base[2];
  if (c->terms > c->row->k) {
    tg_say(w, "split %s.t %u as %s.s %s.m", kb, c->row->k, kb, kb);
    tg_say(w, "unroll %s.s", kb);
  }
  tg_say(w, "contract %s i=%s.u j=%s.u k=%s.%s%s", c->row->name, c->base[0], c->base[1], kb,
         c->terms > c->row->k ? "m" : "t", c->together ? " interleaved" : "");
}

static void write_words(const tg_device_product *c, tg_words *w) {
  const char *ib = c->base[0], *jb = c->base[1];
  uint32_t rows = c->warp_rows * c->warps_down, columns = c->warp_columns * c->warps_across;
  say_tiles(c, w, rows, columns);
  say_order(c, w);
  for (const tg_device_product *s = c; s; s = s->next) {
    const char *at = tg_format(w->env, "%s.b", s->base[2]);
    copy(c, w, s, &s->a, rows, c->warp_rows, at);
    copy(c, w, s, &s->b, columns, c->warp_columns, at);
  }
  tg_say(w, "split %s.t %u as %s.w %s.u", ib, c->warp_rows, ib, ib);
  const bool several = c->together && c->warp_columns > 4 * c->together;
  tg_say(w, "split %s.t %u as %s.w %s.%s", jb, c->warp_columns, jb, jb, several ? "x" : "u");
  if (several) {
    tg_say(w, "split %s.x %u as %s.p %s.u", jb, 4 * c->together, jb, jb);
    tg_say(w, "order %s.w %s.w %s.p %s.u %s.u", ib, jb, jb, ib, jb);
    tg_say(w, "upcast %s.p", jb);
  } else tg_say(w, "order %s.w %s.w %s.u %s.u", ib, jb, ib, jb);
  if (c->warps_down > 1) tg_say(w, "local %s.w", ib);
  if (c->warps_across > 1) tg_say(w, "local %s.w", jb);
  for (const tg_device_product *s = c; s; s = s->next) say_instruction(c, s, w);
  say_grid(c, w);
}

/* ---- by multiplications and additions ---- */

enum { UNROLLED = 8 /* terms */ };

/* Rows of terms, each along the operand's own loop, so that a thread reads four neighbours at once. */
static void copy_of_terms(const tg_device_product *c, tg_words *w, const tg_device_product *s,
                          const tg_device_operand *o, uint32_t own) {
  uint32_t vector = o->along_terms ? 1 : o->vector < 4 ? o->vector : 4;
  while (vector > 1 && own % vector) vector /= 2;
  uint32_t first = o->along_terms ? c->terms : own / vector;
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = o->copy;
  tg_say(w, "stage %s at %s.b%s as %s[d%u, d%u] pitch=%u%s", o->name, s->base[2], of_iterations(s, w, o), b, term_of(o),
         own_of(o), own + 4, depth);
  if (first > TG_SIDE * TG_SIDE) first = TG_SIDE * TG_SIDE;
  uint32_t second = TG_SIDE * TG_SIDE / first;
  if (o->along_terms) {   /* threads along the terms, which are neighbours in memory, and then along rows */
    tg_say(w, "local %s.0", b);
    tg_say(w, "split %s.1 %u as %s.o %s.i", b, second, b, b);
    tg_say(w, "order %s.o %s.i %s.0", b, b, b);
    if (second > 1) tg_say(w, "local %s.i", b);
    tg_say(w, "upcast %s.o", b);
    return;
  }
  const char *along = tg_format(w->env, "%s.1", b);
  if (vector > 1) {
    tg_say(w, "split %s %u as %s.p %s.v", along, vector, b, b);
    tg_say(w, "upcast %s.v", b);
    along = tg_format(w->env, "%s.p", b);
  }
  tg_say(w, "local %s", along);
  if (second >= c->terms) {
    tg_say(w, "local %s.0", b);
    return;
  }
  tg_say(w, "split %s.0 %u as %s.o %s.i", b, second, b, b);
  if (second > 1) tg_say(w, "local %s.i", b);
  tg_say(w, "upcast %s.o", b);
}

/* Element o * 64 + thread * 4 + v of the tile: four neighbours of each 64, or as many as there are. */
static void thread_elements(tg_words *w, const char *b, uint32_t elements) {
  const char *name = tg_format(w->env, "%s.t", b);
  const uint32_t together = elements < 4 ? elements : 4;
  if (elements > 4) {
    tg_say(w, "split %s %u as %s.o %s.u", name, TG_SIDE * 4, b, b);
    name = tg_format(w->env, "%s.u", b);
    tg_say(w, "upcast %s.o", b);
  }
  tg_say(w, "split %s %u as %s.w %s.v", name, together, b, b);
  tg_say(w, "upcast %s.v", b);
  tg_say(w, "local %s.w", b);
}

static void by_threads(const tg_device_product *c, tg_words *w) {
  const char *ib = c->base[0], *jb = c->base[1];
  uint32_t size = TG_SIDE * c->warp_rows;
  say_tiles(c, w, size, size);
  say_order(c, w);
  for (const tg_device_product *s = c; s; s = s->next) {
    tg_say(w, "order %s.t %s.t %s.t", s->base[2], ib, jb);   /* each term to the sums that wait: a block has none */
    copy_of_terms(c, w, s, &s->a, size);
    copy_of_terms(c, w, s, &s->b, size);
    for (uint32_t i = 0; i < s->mores; i++) copy_of_terms(c, w, s, &s->more[i], size);
  }
  thread_elements(w, ib, c->warp_rows);
  thread_elements(w, jb, c->warp_columns);
  for (const tg_device_product *s = c; s; s = s->next) {
    const char *kb = s->base[2];
    if (c->terms > UNROLLED) tg_say(w, "unroll %s.t %u as %s.s %s.m", kb, UNROLLED, kb, kb);
    else tg_say(w, "unroll %s.t", kb);
  }
  say_grid(c, w);
}

void tg_device_product_words(const tg_device_product *c, tg_words *w) {
  tg_device_product sized = *c;
  if (!c->n->l->target->async_copy) sized.stages = 1;
  if (c->row) sized.together = columns_together(c);
  for (const tg_device_product *s = c->next; s; s = s->next)
    if (s->b.along_terms != c->b.along_terms) sized.together = 0;
  if (c->row) write_words(&sized, w);
  else by_threads(&sized, w);
}

/* For the instruction, or else for threads; false: neither is worth it. */
static bool sizes(tg_device_product *c) {
  return c->n->l->target->core_registers && (c->row ? tg_device_product_tiles(c) : tg_device_product_elements(c));
}

bool tg_device_product_choose(tg_device_product *c, uint32_t depth, const tg_uop *const *chain) {
  return tg_device_product_find(c, depth, chain) && sizes(c);
}

/* Names of the sum's range, and of copies, which versions and several sums have of their own. */
static void name(tg_device_product *c, uint32_t number, uint32_t depth, const tg_uop *const *chain) {
  tg_device_operand *of[2 + TG_MORE_OPERANDS] = {&c->a, &c->b};
  find_names(c, depth, chain);
  for (uint32_t i = 0; i < c->mores; i++) of[2 + i] = &c->more[i];
  for (uint32_t i = 0; i < 2 + c->mores; i++) {
    of[i]->copy = own_name(c, of[i]->copy);
    if (number) of[i]->copy = tg_format(&c->n->j->env, "%s.s%u", of[i]->copy, number);
  }
}

bool tg_device_contraction(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  tg_device_product c[TG_MOST_SUMS] = {{.n = n}};
  tg_words w = {.env = &n->j->env};
  bool several = !n->versioned && tg_device_product_several(c, depth, chain);
  if (!several) *c = (tg_device_product){.n = n};
  if (several ? !sizes(c) : !tg_device_product_choose(c, depth, chain)) return false;
  for (uint32_t i = 0; i < c->sums; i++) name(&c[i], i, depth, chain);
  tg_device_product_words(c, &w);
  return tg_device_try(n, &w);
}

int64_t tg_device_product_part(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop **sum,
                               int64_t *terms) {
  tg_device_product c = {.n = n};
  if (!tg_device_product_choose(&c, depth, chain)) return 0;
  *sum = c.sum;
  *terms = tg_device_product_terms(&c);
  return c.parts > 1 ? (*terms / c.terms + c.parts - 1) / c.parts * c.terms : *terms;
}

/* ---- for other products ---- */

bool tg_device_stage(tg_nest *n, tg_words *w, const tg_device_tile *t) {
  tg_device_product c = {.n = n, .row = t->row, .sum = t->sum, .terms = t->terms, .stages = t->stages,
                         .warps_down = t->warps, .warps_across = 1};
  tg_device_operand o = {.load = t->load, .loop = t->loop};
  if (!tg_device_operand_lies(n->j, &o, t->sum, t->row->b_type)) return false;
  copy(&c, w, &c, &o, t->own, t->own, t->at);
  return true;
}
