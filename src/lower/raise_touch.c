/* SPDX-License-Identifier: MIT
 * Which buffers statements load and store (raise_touch.h). */
#include "lower/raise_touch.h"

static const tg_touch_known *known_of(const tg_touching *t, const tg_uop *u) {
  return u->id < t->known.n && t->known.data[u->id].known ? &t->known.data[u->id] : NULL;
}

static tg_touch_set own_touch(const tg_uop *u) {
  if (u->op == TG_OP_LOAD) return (tg_touch_set){.loads = tg_touch_bit(tg_buffer_ordinal(u->src[0]))};
  if (u->op == TG_OP_STORE) return (tg_touch_set){.stores = tg_touch_bit(tg_buffer_ordinal(u->src[0]))};
  return (tg_touch_set){0};
}

tg_touch_set tg_touch_set_of(tg_touching *t, const tg_uop *u) {
  const tg_touch_known *found = known_of(t, u);
  if (found) return found->set;
  tg_env *env = &t->job->env;
  TG_VEC(const tg_uop *) stack = {0};
  while (t->known.n <= u->id) tg_push(env, &t->known, (tg_touch_known){0});
  tg_push(env, &stack, u);
  while (stack.n) {
    const tg_uop *x = stack.data[stack.n - 1];
    tg_touch_set set = own_touch(x);
    uint32_t above = stack.n;
    for (uint32_t i = 0; i < x->n; i++) {
      const tg_touch_known *k = known_of(t, x->src[i]);
      if (!k) tg_push(env, &stack, x->src[i]);
      else set.loads |= k->set.loads, set.stores |= k->set.stores;
    }
    if (stack.n > above) continue;
    t->known.data[x->id] = (tg_touch_known){set, true};
    stack.n--;
  }
  return t->known.data[u->id].set;
}

tg_touches tg_touches_of(tg_touching *t, const tg_uop *u, uint32_t buffer) {
  tg_touches found = {0};
  tg_touch_set set = tg_touch_set_of(t, u);
  if (!((set.loads | set.stores) & tg_touch_bit(buffer))) return found;
  uint32_t n;
  const tg_uop **order = tg_toposort(t->job, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_LOAD) found.loads += tg_buffer_ordinal(order[i]->src[0]) == buffer;
    if (order[i]->op == TG_OP_STORE) found.stores += tg_buffer_ordinal(order[i]->src[0]) == buffer;
  }
  return found;
}

tg_touches tg_touches_sum(tg_touching *t, const tg_uop *u, uint32_t buffer) {
  if (u->op != TG_OP_END) return tg_touches_of(t, u, buffer);
  tg_touch_set set = tg_touch_set_of(t, u);
  if (!((set.loads | set.stores) & tg_touch_bit(buffer))) return (tg_touches){0};
  tg_touches all = tg_touches_of(t, u->src[0], buffer);
  for (uint32_t i = 1; i < u->n; i++) {
    tg_touches x = tg_touches_sum(t, u->src[i], buffer);
    all.loads += x.loads;
    all.stores += x.stores;
  }
  return all;
}

void tg_touches_add(tg_touching *t, const tg_uop *u, tg_touches *all, int sign) {
  if (u->op == TG_OP_END || u->op == TG_OP_SINK) {
    for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) tg_touches_add(t, u->src[i], all, sign);
    if (u->op == TG_OP_SINK) return;
    u = u->src[0];
  }
  uint32_t n;
  const tg_uop **order = tg_toposort(t->job, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_LOAD) all[tg_buffer_ordinal(order[i]->src[0])].loads += (uint32_t)sign;
    if (order[i]->op == TG_OP_STORE) all[tg_buffer_ordinal(order[i]->src[0])].stores += (uint32_t)sign;
  }
}

bool tg_touch_disturbs(tg_touching *t, const tg_uop *u, const tg_uop *value) {
  if (!(tg_touch_set_of(t, u).stores & tg_touch_set_of(t, value).loads)) return false;
  if (u->op == TG_OP_STORE) return tg_touches_of(t, value, tg_buffer_ordinal(u->src[0])).loads > 0;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++)
      if (tg_touch_disturbs(t, u->src[i], value)) return true;
  return false;
}
