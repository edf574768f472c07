/* SPDX-License-Identifier: MIT
 * A product of matrices whose sizes are open until the call, on a target with warps: one program with a version for
 * each of a few cases (`specialize`). The tests are of extents of loops, which are computed once at the launch, and a
 * launch of no workgroups is left out.
 *
 *   rows of memory that are whole vectors, of the output too, and whole blocks of terms (K % 32 == 0): copies and
 *     stores of 16 bytes, and no condition on terms in the main loop
 *   the same without the output: its rows begin anywhere
 *   classes of the number of rows (M <= 16, M <= 128, ..): tiles, and parts of the sum, for few rows
 *   everything else */
#include "choose/device_product.h"
#include "ranges/ranges.h"

enum {
  FEWEST = 16,     /* rows of the first class: those of an instruction */
  NEXT = 8,        /* and from one class to the next: within one, tiles for the most rows waste at most as much */
  CLASSES = 3
};

/* The parameter that the extent of the loop is; NULL: it is none. */
static const tg_param *open_extent(const tg_device_product *c, const tg_uop *range) {
  const tg_uop *e = tg_extent(range);
  return e->op == TG_OP_PARAM ? &c->n->j->params.data[e->arg] : NULL;
}

/* That the parameter is a multiple of n, once. */
static void add_test(tg_str *tests, const tg_param *p, uint32_t n) {
  const char *text = tg_format(tests->env, "%s %% %u == 0", p->name, n);
  if (tests->data && strstr(tests->data, text)) return;
  tg_str_printf(tests, "%s%s", tests->n ? " & " : "", text);
}

/* Rows of this buffer begin at multiples of 16 bytes: what must be known for that. along: the dimension of a row. */
static void add_rows(const tg_device_product *c, tg_str *tests, const tg_uop *access, uint32_t along,
                     const tg_param *terms) {
  tg_job *j = c->n->j;
  const tg_uop *define = tg_define_of(access->src[0]);
  uint32_t unit = TG_UNIT / (uint32_t)tg_type_bytes(define->type), rank = tg_access_rank(access);
  bool strided = define->arg >> 32 & TG_STRIDED;
  if (strided && !tg_is_const(define->src[rank + along], 1)) return;
  /* rows lie apart by the last dimension, or by strides of their own */
  for (uint32_t i = strided ? 0 : rank - 1; i < rank; i++) {
    const tg_uop *apart = define->src[strided ? rank + i : i];
    if ((strided && i == along) || apart->op != TG_OP_PARAM) continue;
    const tg_param *p = &j->params.data[apart->arg];
    if (p != terms && !tg_divides(j, unit, apart)) add_test(tests, p, unit);
  }
}

/* What must be known for copies of whole vectors; out: and for such stores. */
static tg_str tests_of(const tg_device_product *c, bool out) {
  tg_job *j = c->n->j;
  tg_str tests = tg_str_new(&j->env);
  const tg_param *terms = open_extent(c, c->sum);
  if (terms) add_test(&tests, terms, c->terms);
  for (int w = 0; w < 2; w++) {
    const tg_device_operand *o = w ? &c->b : &c->a;
    add_rows(c, &tests, o->load, o->along_terms ? o->term : o->own, terms);
  }
  uint32_t rank = tg_access_rank(c->store);
  if (out && rank && tg_access_motion(j, c->store, c->b.loop) == TG_CONTIGUOUS)
    add_rows(c, &tests, c->store, rank - 1, NULL);
  return tests;
}

static bool same_sizes(const tg_device_product *a, const tg_device_product *b) {
  return a->warp_rows == b->warp_rows && a->warp_columns == b->warp_columns && a->warps_down == b->warps_down &&
         a->warps_across == b->warps_across && a->terms == b->terms && a->parts == b->parts;
}

/* Bounds of the classes, of those that are chosen otherwise than the next larger one. */
static uint32_t classes_of(const tg_device_product *c, uint32_t depth, const tg_uop *const *chain, bool rows,
                           const tg_param *size, int64_t *most) {
  tg_device_product next = {.n = c->n}, now;
  uint32_t n = 0;
  if (!tg_device_product_choose(&next, depth, chain)) return 0;
  for (int64_t k = CLASSES, bound; k-- > 0;) {
    bound = FEWEST;
    for (int64_t i = 0; i < k; i++) bound *= NEXT;
    if (bound < size->lo || bound >= size->hi) continue;
    now = (tg_device_product){.n = c->n, .most_rows = rows ? bound : 0, .most_columns = rows ? 0 : bound};
    if (!tg_device_product_choose(&now, depth, chain) || same_sizes(&now, &next)) continue;
    most[n++] = bound;
    next = now;
  }
  return n;
}

void tg_device_versions(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  tg_device_product c = {.n = n};
  int64_t most[CLASSES];
  if (depth != 2 || !tg_device_product_choose(&c, depth, chain)) return;
  const tg_param *rows = open_extent(&c, c.a.loop), *size = rows ? rows : open_extent(&c, c.b.loop);
  tg_str tests = tests_of(&c, true), copies = tests_of(&c, false);
  uint32_t classes = size ? classes_of(&c, depth, chain, rows, size, most) : 0;
  while (classes-- > 0)
    n->versioned |= tg_device_word(n, "specialize(%s%s%s <= %lld)", tests.n ? tests.data : "", tests.n ? " & " : "",
                                   size->name, (long long)most[classes]);
  if (tests.n) n->versioned |= tg_device_word(n, "specialize(%s)", tests.data);
  if (copies.n && copies.n < tests.n) n->versioned |= tg_device_word(n, "specialize(%s)", copies.data);
}
