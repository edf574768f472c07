/* SPDX-License-Identifier: MIT
 * fuse: two loops of a perfect nest, or two neighbouring ranges of a reduction, become one range: a = r / extent(b),
 * b = r % extent(b). The iterations keep their order, so it is always legal where the nest is perfect. */
#include "schedule/opt.h"

typedef struct { tg_schedule *s; const tg_opt *o; const tg_uop *a, *b, *fused, *value[2]; bool found; } fusing;

static bool is_member(const tg_axis *axis, const tg_uop *range) {
  for (uint32_t i = 0; i < axis->n; i++)
    if (axis->site[i].range == range) return true;
  return false;
}

static tg_kind fused_kind(tg_schedule *s, const tg_opt *o, const tg_uop *a, const tg_uop *b) {
  tg_kind ka = tg_range_kind(a), kb = tg_range_kind(b);
  for (uint32_t i = 0; i < 2; i++) {
    tg_kind k = i ? kb : ka;
    if (k != TG_LOOP && k != TG_REDUCE && k != TG_THREAD && k != TG_GLOBAL)
      tg_fail_at(s->j, o->pos, "fuse: %s is %s already", tg_range_text(s, i ? b : a), tg_kind_name[k]);
  }
  if (ka == TG_THREAD && kb != TG_THREAD)
    tg_fail_at(s->j, o->pos, "fuse: %s is thread already, and %s is not", tg_range_text(s, a), tg_range_text(s, b));
  return ka == kb ? ka : TG_LOOP;
}

/* The range of a site that stands directly inside the first one's loop, or next to it in its reduction. */
static const tg_uop *partner_of(tg_schedule *s, const tg_opt *o, const tg_site *site, const tg_axis *inner) {
  const tg_uop *owner = site->owner;
  if (owner->op == TG_OP_END) {
    if (owner->n == 2 && owner->src[1]->op == TG_OP_END && is_member(inner, owner->src[1]->src[0]))
      return owner->src[1]->src[0];
    tg_fail_at(s->j, o->pos, "fuse: %s does not stand directly inside %s, and alone", o->names[1],
               tg_range_text(s, site->range));
  }
  tg_reduce_arg a = tg_reduce_info(owner);
  for (uint32_t i = 0; i + 1 < a.ranges; i++)
    if (tg_reduce_ranges(owner)[i] == site->range && is_member(inner, tg_reduce_ranges(owner)[i + 1]))
      return tg_reduce_ranges(owner)[i + 1];
  tg_fail_at(s->j, o->pos, "fuse: %s does not stand directly behind %s in its reduction", o->names[1],
             tg_range_text(s, site->range));
}

static void fuse_loops(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  fusing *f = user;
  const tg_uop *inner = end->src[1], *from[2] = {f->a, f->b};
  const tg_uop **list = tg_new(&s->j->env, const tg_uop *, inner->n);
  for (uint32_t i = 1; i < inner->n; i++) list[i - 1] = tg_substitute(s->j, inner->src[i], 2, from, f->value);
  tg_push(&s->j->env, out, tg_end_like(s, end, f->fused, inner->n - 1, list));
}

static const tg_uop *fuse_ranges(tg_job *j, const tg_uop *old, const tg_uop *const *unused, void *user) {
  (void)unused;
  fusing *f = user;
  if (old->op != TG_OP_REDUCE) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  const tg_uop *const *ranges = tg_reduce_ranges(old), *from[2] = {f->a, f->b}, *src[3 * 8 + 8], *fresh[8];
  uint32_t at = 0, n = 0;
  while (at < a.ranges && ranges[at] != f->a) at++;
  if (at == a.ranges) return NULL;
  for (uint32_t i = 0; i < old->n - a.ranges; i++) src[i] = tg_substitute(j, old->src[i], 2, from, f->value);
  for (uint32_t i = 0; i < a.ranges; i++)
    if (i != at + 1) fresh[n++] = i == at ? f->fused : tg_substitute(j, ranges[i], 2, from, f->value);
  return tg_reduce_like(j, old, src, n, fresh);
}

void tg_opt_fuse(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  tg_axis outer = tg_axis_find(s, o, o->names[0]), inner = tg_axis_find(s, o, o->names[1]);
  const tg_uop **made = tg_new(&j->env, const tg_uop *, outer.n);
  if (outer.site[0].range == inner.site[0].range) tg_fail_at(j, o->pos, "fuse: %s is named twice", o->names[0]);
  tg_axis_check_name(s, o, o->names[2]);
  if (outer.n != inner.n)
    tg_fail_at(j, o->pos, "fuse: %s stands in %u places and %s in %u", o->names[0], outer.n, o->names[1], inner.n);
  for (uint32_t i = 0; i < outer.n; i++) {
    fusing f = {.s = s, .o = o, .a = outer.site[i].range, .b = partner_of(s, o, &outer.site[i], &inner)};
    if (tg_uses(j, tg_extent(f.b), f.a))
      tg_fail_at(j, o->pos, "fuse: the extent of %s depends on %s", tg_range_text(s, f.b), tg_range_text(s, f.a));
    const tg_uop *ea = tg_idx_not_negative(j, tg_extent(f.a)), *eb = tg_idx_not_negative(j, tg_extent(f.b));
    const tg_uop *extent = eb->op == TG_OP_CONST ? tg_idx_mul(j, ea, eb->arg) : tg_op2(j, TG_OP_MUL, ea, eb);
    tg_kind kind = fused_kind(s, o, f.a, f.b);
    /* A range of its own: what was found out about a is not true of it. */
    if (i) f.fused = tg_axis_range(s, made[0], o->names[2], extent, kind);
    else f.fused = tg_range_new(j, o->names[2], extent, kind, UINT32_MAX, j->ranges.data[tg_range_ordinal(f.a)].pos);
    f.value[0] =
        eb->op == TG_OP_CONST ? tg_idx_div(j, f.fused, eb->arg ? eb->arg : 1) : tg_op2(j, TG_OP_IDIV, f.fused, eb);
    f.value[1] = tg_op2(j, TG_OP_MOD, f.fused, eb);
    if (outer.site[i].owner->op == TG_OP_END) tg_axis_made_of(s, f.fused, f.a, f.b);
    made[i] = f.fused;
    for (uint32_t k = 0; k < i; k++)
      if (outer.group[k] == outer.group[i]) tg_axis_tie(s, f.fused, made[k]);
    if (outer.site[i].owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, f.a, fuse_loops, &f);
    else s->sink = tg_map(j, s->sink, fuse_ranges, NULL, &f);
  }
}
