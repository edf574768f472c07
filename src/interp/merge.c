/* SPDX-License-Identifier: MIT
 * Tests an author's claim that a loop's carried state can be merged. After the loop has run normally, it runs again in
 * two and in three parts, each from the loop's initial state. The parts' states are merged from the left and from the
 * right, and each result must equal that of the normal run: bit for bit, or for floats within the error of another
 * order of summation. The state of the normal run is kept. */
#include <math.h>
#include "interp/code.h"

enum { PARTS = 3, TERMS = 1024 /* terms that the error bound assumes for each element */ };

typedef struct { char *data[TG_CARRIED]; uint8_t *written[TG_CARRIED]; } state;

typedef struct {
  tg_interpreter *m;
  const tg_step *loop, *merge;
  tg_carry c;
} carried;

static tg_memory *memory_of(const carried *s, const tg_uop *define) { return &s->m->memory[tg_buffer_ordinal(define)]; }

static state save(const carried *s) {
  state x;
  for (uint32_t k = 0; k < s->c.n; k++) {
    const tg_memory *b = memory_of(s, s->c.tile[k].tile);
    x.data[k] = tg_alloc(&s->m->j->env, b->count * b->bytes + 1);
    memcpy(x.data[k], b->data, b->count * b->bytes);
    x.written[k] = NULL;
    if (!b->written) continue;
    x.written[k] = tg_alloc(&s->m->j->env, b->count + 1);
    memcpy(x.written[k], b->written, b->count);
  }
  return x;
}

static void put(const carried *s, uint32_t k, const tg_uop *define, const state *x) {
  tg_memory *b = memory_of(s, define);
  memcpy(b->data, x->data[k], b->count * b->bytes);
  if (b->written) memcpy(b->written, x->written[k], b->count);
}

static void restore(const carried *s, const state *x) {
  for (uint32_t k = 0; k < s->c.n; k++) put(s, k, s->c.tile[k].tile, x);
}

/* Sets the tiles, and both sides of the merge, to the state that a part begins with. */
static void begin(const carried *s) { tg_run_list(s->m, s->merge->children, s->c.first - 1); }

static state merged(const carried *s, const state *left, const state *right) {
  begin(s);
  for (uint32_t k = 0; k < s->c.n; k++) {
    put(s, k, s->c.tile[k].a, left);
    put(s, k, s->c.tile[k].b, right);
  }
  tg_run_list(s->m, s->merge->children + s->c.first - 1, s->merge->n - (s->c.first - 1));
  return save(s);
}

static double largest(tg_type t, const char *data, size_t n, double most) {
  size_t bytes = (size_t)tg_type_bytes(t);
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, data + i * bytes, bytes);
    double v = fabs(tg_value_from_bits(t, bits).f);
    if (isfinite(v) && v > most) most = v;
  }
  return most;
}

/* Sums of parts may cancel; then the error is relative to the largest of the values that were merged. */
static void compare(const carried *s, const state *whole, const state *got, const state *part, int64_t parts,
                    const char *how) {
  tg_interpreter *m = s->m;
  for (uint32_t k = 0; k < s->c.n; k++) {
    const tg_uop *tile = s->c.tile[k].tile;
    const tg_memory *b = memory_of(s, tile);
    double *magnitude = NULL, most = 0;
    char text[160];
    tg_difference d;
    if (tg_is_float(b->type)) {
      most = largest(b->type, got->data[k], b->count, largest(b->type, whole->data[k], b->count, 0));
      for (int64_t p = 0; p < parts; p++) most = largest(b->type, part[p].data[k], b->count, most);
      magnitude = tg_new(&m->j->env, double, b->count + 1);
      for (size_t i = 0; i < b->count; i++) magnitude[i] = most;
    }
    tg_comparison c = {.type = b->type,
                       .n = b->count,
                       .got = got->data[k],
                       .want = whole->data[k],
                       .exact = !magnitude,
                       .terms = TERMS,
                       .magnitude = magnitude};
    if (tg_compare(&c, &d)) continue;
    tg_difference_text(&d, b->count, text, sizeof text);
    m->statement = s->merge->u;
    tg_machine_fail(m, "the merge does not hold: %s of %s is not %s of the whole loop: %s",
                    m->j->buffers.data[tg_buffer_ordinal(tile)].name, how,
                    m->j->buffers.data[tg_buffer_ordinal(tile)].name, text);
  }
}

static void try_parts(const carried *s, tg_run_iterations *run, int64_t n, int64_t parts, const state *entry,
                      const state *whole) {
  state part[PARTS], all;
  int64_t each = (n + parts - 1) / parts;
  for (int64_t p = 0; p < parts; p++) {
    begin(s);
    if (!p) restore(s, entry);
    int64_t from = p * each < n ? p * each : n, to = from + each < n ? from + each : n;
    run(s->m, s->loop, from, to);
    part[p] = save(s);
  }
  all = part[0];
  for (int64_t p = 1; p < parts; p++) all = merged(s, &all, &part[p]);
  compare(s, whole, &all, part, parts, parts == 2 ? "two parts" : "three parts, merged from the left,");
  if (parts < 3) return;
  all = part[parts - 1];
  for (int64_t p = parts - 1; p-- > 0;) all = merged(s, &part[p], &all);
  compare(s, whole, &all, part, parts, "three parts, merged from the right,");
}

void tg_run_carried(tg_interpreter *m, const tg_step *loop, int64_t n, tg_run_iterations *run) {
  carried s = {.m = m, .loop = loop, .merge = &loop->children[loop->n - 1]};
  if (!tg_carry_of(m->j, loop->u, &s.c)) {
    run(m, loop, 0, n);
    return;
  }
  state entry = save(&s), fresh, whole, same;
  run(m, loop, 0, n);
  whole = save(&s);
  begin(&s);
  fresh = save(&s);
  same = merged(&s, &whole, &fresh);
  compare(&s, &whole, &same, NULL, 0, "the whole loop, merged with a part of no iterations,");
  same = merged(&s, &fresh, &whole);
  compare(&s, &whole, &same, NULL, 0, "a part of no iterations, merged with the whole loop,");
  for (int64_t parts = 2; parts <= PARTS; parts++) try_parts(&s, run, n, parts, &entry, &whole);
  restore(&s, &whole);
}
