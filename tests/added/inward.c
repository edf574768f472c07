/* SPDX-License-Identifier: MIT
 * inward: a loop changes places with those of the perfect nest inside of it. The function of a word that stands in no
 * other file of tg; tests/added/word.sh builds tg with it. */
#include "schedule/opt.h"

void tg_opt_inward(tg_schedule *s, const tg_opt *o) {
  const char *order[8];
  uint32_t n = 0;
  const tg_axis axis = tg_axis_find(s, o, o->names[0]);
  const tg_uop *end = axis.site[0].owner;
  if (end->op == TG_OP_REDUCE)
    tg_fail_at(s->j, o->pos, "inward %s: it is a range of a reduction", tg_range_text(s, axis.site[0].range));
  for (; end->n == 2 && end->src[1]->op == TG_OP_END && n + 1 < TG_COUNT(order); end = end->src[1])
    order[n++] = tg_axis_name(s, end->src[1]->src[0]);
  if (!n)
    tg_fail_at(s->j, o->pos, "inward %s: no loop stands directly inside it, and alone",
               tg_range_text(s, axis.site[0].range));
  order[n++] = o->names[0];
  tg_order_ranges(s, o, n, order);
}
