/* SPDX-License-Identifier: MIT
 * Planning a program: which steps may run at the same time, from when to when each temporary lives, and where it lies.
 *
 * Steps keep their order. A kernel of one phase joins the group before it if it shares no memory that one of both
 * writes with any step of the group. A temporary lives from the first group that uses it to the last. Two that live in
 * one group never share a byte; so no step finds memory changed that another one, which may run beside it, uses.
 *
 * To place them in as few bytes as possible is a hard problem (dynamic storage allocation). Each is placed as low as it
 * can be, in several orders; then, in the best order, whatever ends highest is placed earlier, as long as there is
 * something to gain and the bound (what lives in the fullest group) is not reached. */
#include <stdlib.h>
#include "api/program.h"

enum { ALIGN = 64 };

static bool meet(const tg_program_access *a, const tg_program_access *b) {
  return (a->written || b->written) && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static bool depends(const tg_program_step *a, const tg_program_step *b) {
  for (uint32_t i = 0; i < a->accesses_n; i++)
    for (uint32_t k = 0; k < b->accesses_n; k++)
      if (meet(&a->accesses[i], &b->accesses[k])) return true;
  return false;
}

/* ---- groups ---- */

static bool joins(const tg_program *p, const tg_program_step *s) {
  return p->host && s->code && tg_device_is_single(s->code);
}

static void find_groups(tg_program *p) {
  const tg_program_step *start = p->first;   /* of the group */
  uint32_t n = 0, pointers = 0;
  bool open = false;
  for (tg_program_step *s = p->first; s; s = s->next) {
    bool may = open && joins(p, s) && n < TG_TOGETHER && pointers + s->pointers_n < TG_MAX_BUFFERS;
    for (const tg_program_step *other = start; may && other != s; other = other->next) may = !depends(other, s);
    if (!may) start = s, n = pointers = 0, p->groups_n++;
    open = joins(p, s);
    s->group = p->groups_n - 1;
    n++, pointers += s->pointers_n + 1;
  }
}

/* The largest working memory of any group. Kernels of a group have one part each thread in common. */
static void find_scratch(tg_program *p) {
  for (const tg_program_step *s = p->first; s && p->host; s = s->next)
    if (s->workspace > p->scratch) p->scratch = s->workspace;
  p->scratch = (p->scratch + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- lives ---- */

static void find_lives(tg_program *p) {
  for (const tg_program_step *s = p->first; s; s = s->next)
    for (uint32_t i = 0; i < s->accesses_n; i++) {
      tg_program_memory *m = tg_program_memory_of(p, s->accesses[i].at);
      if (!m) continue;
      if (m->first == UINT32_MAX) m->first = s->group;
      m->last = s->group;
    }
}

static size_t rounded(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static void find_live_bytes(tg_program *p) {
  for (uint32_t i = 0; i < p->memory_n; i++)
    if (!p->memory[i].argument) p->all += p->memory[i].bytes;
  for (uint32_t g = 0; g < p->groups_n; g++) {
    size_t live = 0;
    for (uint32_t i = 0; i < p->memory_n; i++) {
      const tg_program_memory *m = &p->memory[i];
      if (!m->argument && m->first <= g && g <= m->last) live += m->bytes;
    }
    if (live > p->live) p->live = live;
  }
}

/* ---- places ---- */

typedef struct { tg_program_memory *m; size_t bytes, at; double key; } item;

static int by_key(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  return (x->m > y->m) - (x->m < y->m);
}

static bool live_together(const item *a, const item *b) {
  return a->m->first <= b->m->last && b->m->first <= a->m->last;
}

static int by_place(const void *a, const void *b) {
  const item *x = *(const item *const *)a, *y = *(const item *const *)b;
  return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x > y) - (x < y);
}

/* Places the items in their order, each as low as those before it leave room. beside: n pointers of room. Returns the
 * bytes that all take. */
static size_t place(item *all, uint32_t n, const item **beside) {
  size_t height = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t others = 0;
    for (uint32_t k = 0; k < i; k++)
      if (live_together(&all[i], &all[k])) beside[others++] = &all[k];
    qsort(beside, others, sizeof *beside, by_place);
    all[i].at = 0;
    for (uint32_t k = 0; k < others && beside[k]->at < all[i].at + all[i].bytes; k++)
      if (beside[k]->at + beside[k]->bytes > all[i].at) all[i].at = beside[k]->at + beside[k]->bytes;
    if (all[i].at + all[i].bytes > height) height = all[i].at + all[i].bytes;
  }
  return height;
}

static size_t keep_best(tg_program *p, const item *all, uint32_t n, size_t height) {
  if (p->planned && p->planned <= height) return p->planned;
  for (uint32_t i = 0; i < n; i++) all[i].m->offset = all[i].at;
  return p->planned = height;
}

/* The item that ends highest goes before others in the order, to half its rank. False: it is the first already. */
static bool lift(item *all, uint32_t n) {
  uint32_t top = 0;
  for (uint32_t i = 1; i < n; i++)
    if (all[i].at + all[i].bytes > all[top].at + all[top].bytes) top = i;
  if (!top) return false;
  item moved = all[top];
  memmove(&all[top / 2 + 1], &all[top / 2], (top - top / 2) * sizeof *all);
  all[top / 2] = moved;
  return true;
}

static double key_of(const item *x, uint32_t order) {
  double bytes = (double)x->bytes, lives = (double)(x->m->last - x->m->first + 1);
  return order == 0 ? bytes : order == 1 ? bytes * lives : order == 2 ? lives : -(double)x->m->first;
}

static bool place_all(tg_program *p) {
  enum { ORDERS = 4, WORK = 20000000 };
  item *all = tg_program_take(p, p->memory_n * sizeof *all);
  const item **beside = tg_program_take(p, p->memory_n * sizeof *beside);
  uint32_t n = 0;
  if (!all || !beside) return false;
  for (uint32_t i = 0; i < p->memory_n; i++) {
    tg_program_memory *m = &p->memory[i];
    if (!m->argument && m->first <= m->last) all[n++] = (item){.m = m, .bytes = rounded(m->bytes)};
  }
  for (uint32_t order = 0; order < ORDERS && n; order++) {
    for (uint32_t i = 0; i < n; i++) all[i].key = key_of(&all[i], order);
    qsort(all, n, sizeof *all, by_key);
    size_t height = place(all, n, beside);
    keep_best(p, all, n, height);
    for (uint64_t left = WORK / ((uint64_t)n * n + 1); left && p->planned > p->live && lift(all, n); left--)
      keep_best(p, all, n, place(all, n, beside));
  }
  return true;
}

/* ---- pointers ---- */

static void resolve(tg_program *p, tg_program_pointer *x) {
  const tg_program_memory *m = tg_program_memory_of(p, x->value);
  if (!m) return;
  x->of = m->argument ? TG_GIVEN + m->number : TG_PLANNED;
  x->value = x->value - (uintptr_t)m->at + m->offset;
}

static bool find_fixed(tg_program *p) {
  uint32_t most = 0;
  for (const tg_program_step *s = p->first; s; s = s->next) most += s->accesses_n;
  p->fixed = tg_program_take(p, most * sizeof *p->fixed);
  if (!p->fixed) return false;
  for (const tg_program_step *s = p->first; s; s = s->next)
    for (uint32_t i = 0; i < s->accesses_n; i++)
      if (!tg_program_memory_of(p, s->accesses[i].at)) p->fixed[p->fixed_n++] = s->accesses[i];
  return true;
}

tg_status tg_program_plan(tg_program *p) {
  p->groups_n = 0, p->all = p->live = p->planned = p->scratch = 0;
  for (uint32_t i = 0; i < p->memory_n; i++) p->memory[i].first = UINT32_MAX, p->memory[i].last = 0;
  find_groups(p);
  find_scratch(p);
  find_lives(p);
  find_live_bytes(p);
  return place_all(p) ? TG_OK : TG_ENOMEM;
}

tg_status tg_program_settle(tg_program *p) {
  if (!find_fixed(p)) return TG_ENOMEM;
  for (tg_program_step *s = p->first; s; s = s->next)
    for (uint32_t i = 0; i < s->pointers_n; i++) resolve(p, &s->pointers[i]);
  return TG_OK;
}
