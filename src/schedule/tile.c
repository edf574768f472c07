/* SPDX-License-Identifier: MIT
 * Register tiles that matrix instructions store to. Other statements fill such a tile, scale its rows, reduce them or
 * store it. Their loops over the tile's axes are split into the digits of the accumulator's layout: a digit in lanes
 * becomes a local range, which pass distribute maps to those lanes; a digit in registers becomes copies. Reductions
 * along an axis are split in the same way: a tree over registers, then exchanges between lanes. This is done when the
 * last word has been applied, since a later contract may take one of these loops. */
#include "schedule/opt.h"
#include "target/matrix.h"

void tg_note_tile(tg_schedule *s, const tg_opt *o, const tg_matrix_row *row, const tg_uop *store,
                  const tg_uop *const *range) {
  for (uint32_t d = 0; d < tg_access_rank(store); d++)
    for (uint32_t w = 0; w < 2; w++)
      if (range[w] && tg_uses(s->j, store->src[1 + d], range[w]))
        tg_push(&s->j->env, &s->tiles,
                ((tg_tile_axis){tg_define_of(store->src[0]), d, w, row, w && o->number[0], o->pos}));
}

/* Does an access of the tile have x as a digit of the dimension, in its place? */
static bool indexes(tg_schedule *s, const tg_tile_axis *t, const tg_uop *access, const tg_uop *x) {
  tg_linear f;
  if (tg_buffer_ordinal(access->src[0]) != tg_buffer_ordinal(t->define)) return false;
  if (access->src[1 + t->dim] == x) return true;
  tg_linear_of(s->j, access->src[1 + t->dim], &f);
  for (uint32_t i = 0; i < f.n; i++)
    if (f.atom[i] == x && f.coefficient[i] == 1) return true;
  return false;
}

/* A range that is no digit yet and runs along the dimension: one of the axis, or any. */
static const tg_uop *runs_along(tg_schedule *s, const tg_tile_axis *t, const tg_axis *axis) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, s->sink, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if ((u->op != TG_OP_LOAD && u->op != TG_OP_STORE) || tg_buffer_ordinal(u->src[0]) != tg_buffer_ordinal(t->define))
      continue;
    for (uint32_t k = 0; axis && k < axis->n; k++)
      if (indexes(s, t, u, axis->site[k].range)) return axis->site[k].range;
    tg_linear f;
    tg_linear_of(s->j, u->src[1 + t->dim], &f);
    for (uint32_t k = 0; k < f.n && !axis; k++) {
      const tg_uop *x = f.atom[k];
      if (x->op == TG_OP_RANGE && f.coefficient[k] == 1 &&
          (tg_range_kind(x) == TG_LOOP || tg_range_kind(x) == TG_REDUCE))
        return x;
    }
  }
  return NULL;
}

int tg_tile_dimension(tg_schedule *s, const tg_axis *axis, const tg_matrix_row *row) {
  for (uint32_t i = 0; i < s->tiles.n; i++)
    if (s->tiles.data[i].row == row && runs_along(s, &s->tiles.data[i], axis)) return (int)s->tiles.data[i].which;
  return -1;
}

static void make_kind(tg_schedule *s, tg_pos pos, const char *name, const tg_layout_digit *d) {
  tg_opt o = {.word = d->place == TG_IN_REG ? TG_OPT_UPCAST : TG_OPT_LOCAL, .pos = pos, .n = 1, .names = {name}};
  tg_opt_kind(s, &o);
}

static const char *digit_name(tg_schedule *s, const tg_uop *range, const tg_layout_digit *d) {
  return tg_sym(s->j, tg_format(&s->j->env, "%s.%c%u", tg_range_name(s, range), "rlt"[d->place], s->digits++));
}

/* The highest digit first. */
static void distribute(tg_schedule *s, const tg_tile_axis *t, const tg_uop *range) {
  tg_job *j = s->j;
  tg_layout l = tg_matrix_layout(t->row, 2);
  tg_dimension dim = l.dim[t->which];
  const tg_uop *extent = tg_extent(range);
  int64_t weight = tg_layout_size(&l, t->which);
  tg_schedule_sites(s);
  if (extent->op != TG_OP_CONST || extent->arg % weight)
    tg_fail_at(j, t->pos, "contract: %s runs along %s too, with %s iterations: not whole tiles of %lld",
               tg_range_text(s, range), tg_buffer_info(j, t->define)->name, tg_text(j, extent), (long long)weight);
  if (extent->arg > weight) {   /* several instructions: the highest digit, or the one above a lane's neighbours */
    uint32_t at = t->interleaved ? 1 : dim.n;
    memmove(&dim.digit[at + 1], &dim.digit[at], (dim.n++ - at) * sizeof *dim.digit);
    dim.digit[at] = (tg_layout_digit){TG_IN_REG, 1, (uint32_t)(extent->arg / weight)};
  }
  const char *name = tg_axis_name(s, range);
  weight = extent->arg;
  for (uint32_t k = dim.n; k-- > 1;) {
    weight /= dim.digit[k].size;
    tg_opt o = {.word = TG_OPT_SPLIT, .pos = t->pos};
    const char *outer = digit_name(s, range, &dim.digit[k]), *inner = digit_name(s, range, &dim.digit[k - 1]);
    tg_split_range(s, &o, name, weight, outer, inner, NULL);
    make_kind(s, t->pos, outer, &dim.digit[k]);
    name = inner;
  }
  if (dim.n) make_kind(s, t->pos, name, &dim.digit[0]);
}

void tg_finish_tiles(tg_schedule *s) {
  s->finishing = true;
  for (uint32_t i = 0; i < s->tiles.n; i++)
    for (const tg_uop *r; (r = runs_along(s, &s->tiles.data[i], NULL));) distribute(s, &s->tiles.data[i], r);
  s->finishing = false;
}
