/* SPDX-License-Identifier: MIT
 * Walks over graphs: sources first, without recursion. Memos are stamped, so a walk costs what it visits. */
#include "dsl/uop.h"

typedef struct { const tg_uop *u; uint32_t next; } frame;

static tg_memo *memo_take(tg_job *j) {
  for (unsigned i = 0; i < TG_COUNT(j->memos); i++) {
    tg_memo *m = &j->memos[i];
    if (m->busy) continue;
    if (m->cap < j->uops.n) {
      uint32_t cap = j->uops.n * 2;
      m->stamp = tg_new(&j->env, uint32_t, cap);
      m->value = tg_new(&j->env, const tg_uop *, cap);
      m->cap = cap;
      m->epoch = 0;
    }
    m->epoch++;
    m->busy = true;
    return m;
  }
  tg_bug(&j->env, "more than %zu graph walks within each other", TG_COUNT(j->memos));
}

static inline const tg_uop *memo_get(const tg_memo *m, const tg_uop *u) {
  return m->stamp[u->id] == m->epoch ? m->value[u->id] : NULL;
}
static inline void memo_set(tg_memo *m, const tg_uop *u, const tg_uop *v) {
  m->stamp[u->id] = m->epoch;
  m->value[u->id] = v;
}

const tg_uop **tg_toposort(tg_job *j, const tg_uop *root, uint32_t *n) {
  tg_memo *m = memo_take(j);
  TG_VEC(const tg_uop *) out = {0};
  TG_VEC(frame) stack = {0};
  tg_push(&j->env, &stack, ((frame){root, 0}));
  memo_set(m, root, root);
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    if (f->next < f->u->n) {
      const tg_uop *s = f->u->src[f->next++];
      if (memo_get(m, s)) continue;
      memo_set(m, s, s);
      tg_push(&j->env, &stack, ((frame){s, 0}));
    } else {
      tg_push(&j->env, &out, f->u);
      stack.n--;
    }
  }
  m->busy = false;
  *n = out.n;
  return out.data;
}

static const tg_uop *rebuild(tg_job *j, const tg_memo *m, const tg_uop *u, tg_map_fn *fn, void *user) {
  const tg_uop *few[16], **src = u->n <= TG_COUNT(few) ? few : tg_new(&j->env, const tg_uop *, u->n);
  bool same = true;
  for (uint32_t i = 0; i < u->n; i++) {
    src[i] = memo_get(m, u->src[i]);
    same &= src[i] == u->src[i];
  }
  const tg_uop *v = fn ? fn(j, u, src, user) : NULL;
  if (!v) v = same ? u : tg_with_sources(j, u, src);
  if (v != u && u->type == TG_VOID && u->id < j->pos.n && j->pos.data[u->id].line && !tg_get_pos(j, v).line)
    tg_set_pos(j, v, j->pos.data[u->id]);
  return v;
}

const tg_uop *tg_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, tg_enter_fn *enter, void *user) {
  tg_memo *m = memo_take(j);
  TG_VEC(frame) stack = {0};
  tg_push(&j->env, &stack, ((frame){root, 0}));
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    const tg_uop *u = f->u;
    if (!f->next && enter) {
      const tg_uop *v = memo_get(m, u) ? NULL : enter(j, u, user);
      if (v) memo_set(m, u, v);
    }
    if (memo_get(m, u)) {
      stack.n--;
      continue;
    }
    while (f->next < u->n && memo_get(m, u->src[f->next])) f->next++;
    if (f->next < u->n) {
      const tg_uop *s = u->src[f->next++];
      tg_push(&j->env, &stack, ((frame){s, 0}));
      continue;
    }
    memo_set(m, u, rebuild(j, m, u, fn, user));
    stack.n--;
  }
  const tg_uop *v = memo_get(m, root);
  m->busy = false;
  return v;
}

typedef struct { uint32_t n; const tg_uop *const *from, *const *to; } substitution;

static const tg_uop *substitute_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  const substitution *s = user;
  for (uint32_t i = 0; i < s->n; i++)
    if (old == s->from[i]) return s->to[i];
  return NULL;
}

const tg_uop *tg_substitute(tg_job *j, const tg_uop *root, uint32_t n, const tg_uop *const *from,
                            const tg_uop *const *to) {
  substitution s = {n, from, to};
  return n ? tg_map(j, root, NULL, substitute_enter, &s) : root;
}

typedef struct { const tg_uop *node; bool found; } search;

static const tg_uop *search_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  search *s = user;
  s->found |= old == s->node;
  return s->found ? old : NULL;
}

bool tg_uses(tg_job *j, const tg_uop *root, const tg_uop *node) {
  search s = {node, false};
  tg_map(j, root, NULL, search_enter, &s);
  return s.found;
}
