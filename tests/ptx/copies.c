/* SPDX-License-Identifier: MIT
 * cp.async (PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group"). A thread's copies are made when it
 * waits for them, the latest moment that the rules allow. Until then their destination may be neither read nor written,
 * by anyone, and their source must stay as it is. What other threads see of them is a matter of barriers: for the race
 * check a copy is a write both where it is issued and where it is waited for. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

static void mark(ptx_machine *m, uint64_t to, uint32_t bytes, uint8_t flying) {
  ptx_memory *p = &m->local;
  for (uint64_t b = to - p->base; b < to - p->base + bytes; b += (uint64_t)1 << p->shift) p->flying[b >> p->shift] = flying;
}

static void issue(ptx_machine *m, ptx_flight *f, uint64_t to, uint64_t from, uint32_t bytes, uint32_t taken) {
  if (f->copies == f->room_copies) {
    f->room_copies = f->room_copies ? 2 * f->room_copies : 16;
    f->copy = realloc(f->copy, f->room_copies * sizeof *f->copy);
  }
  ptx_copy *c = &f->copy[f->copies++];
  *c = (ptx_copy){.to = to, .from = from, .bytes = bytes, .taken = taken, .line = m->now->line};
  if (from % bytes) ptx_fault(m, "unaligned: %u bytes from %llx", bytes, (unsigned long long)from);
  for (uint32_t b = 0; b < taken; b += 4) memcpy(c->seen + b, ptx_reach(m, SPACE_GLOBAL, from + b, 4, ACCESS_READ), 4);
  ptx_reach(m, SPACE_SHARED, to, bytes, ACCESS_WRITE);
  mark(m, to, bytes, 1);
}

static void land(ptx_machine *m, const ptx_copy *c) {
  uint8_t bytes[16] = {0};
  mark(m, c->to, c->bytes, 0);
  for (uint32_t b = 0; b < c->taken; b += 4) memcpy(bytes + b, ptx_reach(m, SPACE_GLOBAL, c->from + b, 4, ACCESS_READ), 4);
  if (memcmp(bytes, c->seen, c->taken)) ptx_fault(m, "the source of the cp.async of line %u was written while it was in flight", c->line);
  memcpy(ptx_reach(m, SPACE_SHARED, c->to, c->bytes, ACCESS_WRITE), bytes, c->bytes);
}

static void commit(ptx_flight *f) {
  if (f->ends == f->room_ends) {
    f->room_ends = f->room_ends ? 2 * f->room_ends : 16;
    f->end = realloc(f->end, f->room_ends * sizeof *f->end);
  }
  f->end[f->ends++] = f->copies;
}

static void wait(ptx_machine *m, ptx_flight *f, uint32_t upto) {
  for (; f->landed < upto; f->landed++) land(m, &f->copy[f->landed]);
}

static void start(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  const uint64_t *to = ptx_row(m, w, &i->operand[0], 0), *from = ptx_row(m, w, &i->operand[1], 0);
  uint32_t bytes = (uint32_t)ptx_row(m, w, &i->operand[2], 0)[0], reading = 0;
  uint64_t target[PTX_LANES] = {0}, source[PTX_LANES] = {0};
  uint32_t taken[PTX_LANES] = {0};
  bool wide = !strncmp(i->mnemonic, "cp.async.cg", 11);
  if (wide ? bytes != 16 : bytes != 4 && bytes != 8 && bytes != 16) ptx_fault(m, "a copy of %u bytes", bytes);
  PTX_EACH(on, lane) {
    taken[lane] = i->operands > 3 ? (uint32_t)ptx_row(m, w, &i->operand[3], 0)[lane] : bytes;
    target[lane] = to[lane] + (uint64_t)i->operand[0].offset;
    source[lane] = from[lane] + (uint64_t)i->operand[1].offset;
    m->lane = lane;
    if (taken[lane] > bytes || taken[lane] % 4) ptx_fault(m, "%u bytes of %u to be read", taken[lane], bytes);
    if (taken[lane]) reading |= 1u << lane;
  }
  ptx_count_access(m, i, SPACE_SHARED, target, bytes, on, true);
  ptx_count_access(m, i, SPACE_GLOBAL, source, bytes, reading, false);
  PTX_EACH(on, lane) {
    m->lane = lane;
    issue(m, &w->flight[lane], target[lane], source[lane], bytes, taken[lane]);
  }
}

void ptx_execute_copy(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  uint32_t how = i->field[FIELD_HOW];
  if (!how) {
    start(m, w, i, on);
    return;
  }
  uint32_t n = how == HOW_WAIT ? (uint32_t)ptx_row(m, w, &i->operand[0], 0)[0] : 0;
  PTX_EACH(on, lane) {
    ptx_flight *f = &w->flight[lane];
    m->lane = lane;
    if (how == HOW_COMMIT) commit(f);
    else if (how == HOW_WAIT_ALL) wait(m, f, f->copies);
    else if (f->ends > n) wait(m, f, f->end[f->ends - 1 - n]);
  }
}

void ptx_free_copies(ptx_warp *w) {
  for (uint32_t l = 0; l < PTX_LANES; l++) {
    free(w->flight[l].copy);
    free(w->flight[l].end);
    w->flight[l] = (ptx_flight){0};
  }
}
