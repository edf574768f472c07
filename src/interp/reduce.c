/* SPDX-License-Identifier: MIT
 * Runs a reduction: each combination of its parallel ranges has an accumulator of its own, and these are combined at
 * the end, in the order in which generated code does it. */
#include "interp/code.h"

void tg_machine_reserve(tg_interpreter *m, uint32_t n) {
  if (n <= m->scratch_cap - m->scratch_n) return;
  uint32_t cap = m->scratch_cap * 2 + n + 64;
  tg_value *wider = tg_new(&m->j->env, tg_value, cap);
  if (m->scratch_n) memcpy(wider, m->scratch, m->scratch_n * sizeof *wider);
  m->scratch = wider;
  m->scratch_cap = cap;
}

static void combine(tg_interpreter *m, const tg_reduction *r, tg_value *left, const tg_value *right) {
  if (!r->info.generic) {
    for (uint32_t l = 0; l < r->width; l++) {
      tg_value pair[2] = {left[l], right[l]};
      if (!tg_evaluate(r->info.op, r->type[0], r->type[0], pair, &left[l]))
        tg_machine_fail(m, "a reduction passes 128 bits");
    }
    return;
  }
  uint32_t at = 0;
  for (uint32_t i = 0; i < r->info.values; i++)
    for (uint32_t l = 0; l < r->lanes[i]; l++, at++) {
      m->v[r->left[i] + l] = left[at];
      m->v[r->right[i] + l] = right[at];
    }
  tg_run_block(m, &r->combine);
  at = 0;
  for (uint32_t i = 0; i < r->info.values; i++)
    for (uint32_t l = 0; l < r->lanes[i]; l++) left[at++] = m->v[r->combined[i].at + (r->combined[i].step ? l : 0)];
}

/* Kinds in the order in which their copies are combined at the end; -1: sequential. */
static int turn_of(tg_kind k) {
  switch (k) {
  case TG_UPCAST: case TG_LOCAL: case TG_GROUP: return 0;
  case TG_LANE: return 1;
  case TG_THREAD: return 2;
  case TG_GLOBAL: return 3;
  default: return -1;
  }
}

typedef struct { const tg_reduction *r; uint32_t base, copies, stride[8], size[8]; int64_t extent[8]; } reducing;

int64_t tg_machine_extent(tg_interpreter *m, const tg_formula *f) {
  tg_run_block(m, &f->block);
  tg_i128 e = m->v[f->result.at].i;
  if (e > INT64_MAX) tg_machine_fail(m, "an extent passes 64 bits");
  return e < 0 ? 0 : (int64_t)e;
}

/* Combines the value of the current iteration with the accumulator of the current copies of parallel ranges. */
static void accumulate(tg_interpreter *m, const reducing *s) {
  const tg_reduction *r = s->r;
  tg_interp_counts before = m->counts ? *m->counts : (tg_interp_counts){0};
  uint64_t shut = m->shut;
  tg_run_block(m, &r->body);
  uint32_t copy = 0, at = 0;
  for (uint32_t i = 0; i < r->info.ranges; i++) copy += s->stride[i] * (uint32_t)m->v[r->range[i]].i;
  tg_value few[16], *value = few;
  if (r->width > TG_COUNT(few)) {
    tg_machine_reserve(m, r->width);
    value = m->scratch + m->scratch_n;
    m->scratch_n += r->width;
  }
  for (uint32_t i = 0; i < r->info.values; i++)
    for (uint32_t l = 0; l < r->lanes[i]; l++) value[at++] = m->v[r->value[i].at + (r->value[i].step ? l : 0)];
  combine(m, r, m->scratch + s->base + copy * r->width, value);
  if (value != few) m->scratch_n -= r->width;
  if (!m->counts) return;
  if (!r->info.generic) *(tg_is_float(r->type[0]) ? &m->counts->floats : &m->counts->integers) += r->width;
  if (m->shut > shut && m->counts->loads == before.loads) tg_count_masked(m, &before, 1, 1);
}

static void iterate(tg_interpreter *m, reducing *s) {
  const tg_reduction *r = s->r;
  uint32_t n = r->info.ranges, d = 0;
  bool enter = true;
  for (;;) { /* counts like an odometer; an extent is computed when its range is entered */
    if (enter) {
      s->extent[d] = tg_machine_extent(m, &r->extent[d]);
      m->v[r->range[d]].i = 0;
    } else m->v[r->range[d]].i++;
    if (s->stride[d] && s->extent[d] > s->size[d])
      tg_machine_fail(m, "the extent of a parallel range of a reduction depends on another range of it");
    enter = false;
    if (m->v[r->range[d]].i >= s->extent[d]) {
      if (!d) return;
      d--;
    } else if (d + 1 < n) {
      d++;
      enter = true;
    } else {
      tg_machine_count_steps(m, 1);
      accumulate(m, s);
    }
  }
}

/* Kind by kind and range by range: combines copy k with copy k + ceil(n/2), until copy 0 of that range holds all. */
static void combine_copies(tg_interpreter *m, const reducing *s) {
  const tg_reduction *r = s->r;
  bool done[8] = {false};
  for (int turn = 0; turn <= 3; turn++)
    for (uint32_t i = 0; i < r->info.ranges; i++) {
      if (turn_of(r->kind[i]) != turn || s->size[i] < 2) continue;
      done[i] = true;
      for (uint32_t n = s->size[i]; n > 1; n = (n + 1) / 2)
        for (uint32_t half = (n + 1) / 2, at = 0; at < s->copies; at++) {
          bool wanted = at / s->stride[i] % s->size[i] + half < n;
          for (uint32_t o = 0; wanted && o < r->info.ranges; o++)
            wanted = !done[o] || o == i || at / s->stride[o] % s->size[o] == 0;
          if (!wanted) continue;
          tg_value *left = m->scratch + s->base + at * r->width;
          combine(m, r, left, left + half * s->stride[i] * r->width);
        }
    }
}

static void reduce(tg_interpreter *m, const tg_instr *x) {
  const tg_reduction *r = x->extra;
  reducing s = {.r = r, .copies = 1, .base = m->scratch_n};
  uint32_t opened = m->open.n;
  for (uint32_t i = 0; i < r->info.ranges; i++) {
    m->v[r->range[i]].i = 0;
    if (turn_of(r->kind[i]) < 0) continue;
    int64_t e = tg_machine_extent(m, &r->extent[i]);
    if (e > (1 << 24) / s.copies) tg_machine_fail(m, "a reduction with over 2^24 accumulators");
    s.stride[i] = s.copies;
    s.size[i] = (uint32_t)e;
    if (e) s.copies *= (uint32_t)e;
  }
  for (uint32_t i = 0; i < r->info.ranges; i++) tg_machine_open(m, r->range[i], r->ordinal[i]);
  tg_machine_reserve(m, s.copies * r->width + r->width);
  m->scratch_n += s.copies * r->width;
  for (uint32_t c = 0, at = s.base; c < s.copies; c++)
    for (uint32_t i = 0; i < r->info.values; i++)
      for (uint32_t l = 0; l < r->lanes[i]; l++)
        m->scratch[at++] = r->info.generic ? m->v[r->init[i].at + (r->init[i].step ? l : 0)] : r->identity;
  iterate(m, &s);
  m->open.n = opened;
  if (s.copies > 1) combine_copies(m, &s);
  memcpy(m->v + x->dst, m->scratch + s.base, r->width * sizeof *m->v);
  m->scratch_n = s.base;
}

/* What is counted is what the program says, so nothing is left out then. */
void tg_run_reduce(tg_interpreter *m, const tg_instr *x) {
  const tg_reduction *r = x->extra;
  bool held = false;
  tg_value *kept = r->results && !m->counts ? tg_remembered_entry(m, r->results, &held) : NULL;
  if (!held) reduce(m, x);
  if (held) memcpy(m->v + x->dst, kept, r->width * sizeof *kept);
  else if (kept) memcpy(kept, m->v + x->dst, r->width * sizeof *kept);
}
