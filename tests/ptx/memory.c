/* SPDX-License-Identifier: MIT
 * Memory of a launch. A buffer lies in the middle of an address space of its own of 2^40 bytes, so that a wrong
 * address is not another buffer's; LOCAL begins at PTX_LOCAL_BASE. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

enum { REGION_BITS = 40, SECTOR = 32, POISON = 0xa5, WORD = 4 };

void ptx_fault(ptx_machine *m, const char *format, ...) {
  va_list list;
  char *to = m->l->message;
  uint32_t n = 0, length = 0;
  while (m->now && m->now->mnemonic[length] > ' ' && m->now->mnemonic[length] != ';') length++;
  if (m->now) n = (uint32_t)snprintf(to, PTX_MESSAGE, "line %u, %.*s, thread %u of group %u: ", m->now->line, (int)length, m->now->mnemonic,
                                     m->at ? m->at->number * PTX_LANES + m->lane : 0, m->group);
  va_start(list, format);
  vsnprintf(to + n, PTX_MESSAGE - n, format, list);
  va_end(list);
  longjmp(m->trap, 1);
}

/* ---- opening ---- */

static void open_one(ptx_memory *p, uint32_t granule) {
  while (1u << (p->shift + 1) <= granule) p->shift++;
  size_t cells = (p->bytes >> p->shift) + 2;
  p->cell = calloc(cells, sizeof *p->cell);
  if (p->local) p->flying = calloc(cells, 1);
  else p->sector = calloc(p->bytes / SECTOR + 3, 1);
}

void ptx_open_memory(ptx_machine *m) {
  const ptx_launch *l = m->l;
  for (uint32_t b = 0; b < l->buffers; b++) {
    const ptx_buffer *from = &l->buffer[b];
    m->buffer[b] = (ptx_memory){.name = from->name, .data = from->data, .bytes = from->bytes, .written = from->written,
                                .base = ((uint64_t)(2 * b + 3) << (REGION_BITS - 1)) + from->misaligned};
    open_one(&m->buffer[b], m->k->granule[SPACE_GLOBAL]);
  }
  uint64_t bytes = m->k->fixed_local + l->local;
  m->local = (ptx_memory){.name = "LOCAL", .data = calloc(bytes + 16, 1), .bytes = bytes, .base = PTX_LOCAL_BASE, .written = true, .local = true};
  open_one(&m->local, m->k->granule[SPACE_SHARED]);
}

static void close_one(ptx_memory *p) {
  free(p->cell);
  free(p->flying);
  free(p->sector);
}

static void add_distinct(const ptx_memory *p, ptx_traffic *t) {
  for (size_t s = 0; s < p->bytes / SECTOR + 3; s++) {
    t->distinct_read += p->sector[s] & 1;
    t->distinct_written += p->sector[s] >> 1 & 1;
  }
}

void ptx_close_memory(ptx_machine *m) {
  for (uint32_t b = 0; b < m->l->buffers; b++) {
    add_distinct(&m->buffer[b], &m->l->traffic[b]);
    close_one(&m->buffer[b]);
  }
  free(m->local.data);
  close_one(&m->local);
}

/* Cells keep the stamps of earlier groups, which are told by their number. */
void ptx_begin_group(ptx_machine *m) {
  memset(m->local.data, POISON ^ (int)(ptx_random(m) & 0x7f), m->local.bytes);
  memset(m->local.flying, 0, (m->local.bytes >> m->local.shift) + 2);
}

/* ---- races ---- */

_Noreturn static void race(ptx_machine *m, const ptx_memory *p, uint64_t at, const char *does, const char *other, const ptx_stamp *s) {
  const char *who = s->flags & STAMP_GROUPS ? "threads of several groups" : s->flags & STAMP_WARPS ? "threads of several warps"
                    : s->flags & STAMP_THREADS ? "several threads" : "a thread";
  ptx_fault(m, "race at byte %llu of %s: it %s what %s (such as %u of group %u, line %u) %s, with no barrier between", (unsigned long long)at, p->name, does,
            who, s->thread, s->group - 1, s->line, other);
}

/* Whether what s says may happen at the same time as what this thread does now. */
static bool at_once(const ptx_machine *m, const ptx_memory *p, const ptx_stamp *s) {
  uint32_t me = m->at->number * PTX_LANES + m->lane;
  if (!s->group) return false;
  if (s->flags & STAMP_GROUPS || s->group != m->group + 1) return !p->local;
  if (s->barriers != m->barriers) return false;
  if (s->flags & STAMP_WARPS || s->thread / PTX_LANES != m->at->number) return true;
  return s->meetings == m->at->meetings && (s->flags & STAMP_THREADS || s->thread != me);
}

static ptx_stamp stamp_of(const ptx_machine *m, uint16_t flags) {
  return (ptx_stamp){.group = m->group + 1, .barriers = m->barriers, .meetings = m->at->meetings, .line = m->now->line,
                     .thread = (uint16_t)(m->at->number * PTX_LANES + m->lane), .flags = flags};
}

static void note_read(const ptx_machine *m, const ptx_memory *p, ptx_stamp *r) {
  ptx_stamp mine = stamp_of(m, 0);
  if (!r->group || (p->local && r->group != mine.group)) *r = mine;
  else if (r->group != mine.group || r->flags & STAMP_GROUPS) r->flags |= STAMP_GROUPS;
  else if (r->barriers != mine.barriers) *r = mine;
  else if (r->flags & STAMP_WARPS || r->thread / PTX_LANES != mine.thread / PTX_LANES) r->flags |= STAMP_WARPS;
  else if (r->meetings != mine.meetings) *r = mine;
  else if (r->thread != mine.thread) r->flags |= STAMP_THREADS;
}

static void look(ptx_machine *m, ptx_memory *p, uint64_t at, ptx_access how) {
  ptx_cell *c = &p->cell[at >> p->shift];
  bool both = how == ACCESS_ATOMIC && c->wrote.flags & STAMP_ATOMIC;
  if (p->local && p->flying[at >> p->shift]) ptx_fault(m, "byte %llu of LOCAL is being copied: a cp.async to it has not been waited for", (unsigned long long)at);
  if (!both && at_once(m, p, &c->wrote)) race(m, p, at, how == ACCESS_READ ? "reads" : "writes", "wrote", &c->wrote);
  if (how == ACCESS_READ) {
    if (p->local && c->wrote.group != m->group + 1) ptx_fault(m, "byte %llu of LOCAL was never written", (unsigned long long)at);
    note_read(m, p, &c->read);
    return;
  }
  if (at_once(m, p, &c->read)) race(m, p, at, "writes", "read", &c->read);
  if (!both) c->wrote = stamp_of(m, how == ACCESS_ATOMIC ? STAMP_ATOMIC : 0);
}

/* ---- an access ---- */

static ptx_memory *memory_at(ptx_machine *m, uint32_t space, uint64_t address, uint32_t bytes) {
  uint64_t region = address >> REGION_BITS;
  ptx_memory *p = space == SPACE_SHARED ? &m->local : region && region <= m->l->buffers ? &m->buffer[region - 1] : NULL;
  if (!p) ptx_fault(m, "address %llx is in no buffer", (unsigned long long)address);
  if (address % bytes) ptx_fault(m, "unaligned: %u bytes at byte %lld of %s", bytes, (long long)(address - p->base), p->name);
  if (address < p->base || address - p->base > p->bytes || p->bytes - (address - p->base) < bytes)
    ptx_fault(m, "out of bounds: %u bytes at byte %lld of %s, which has %zu", bytes, (long long)(address - p->base), p->name, p->bytes);
  return p;
}

uint8_t *ptx_reach(ptx_machine *m, uint32_t space, uint64_t address, uint32_t bytes, ptx_access how) {
  ptx_memory *p = memory_at(m, space, address, bytes);
  uint64_t at = address - p->base;
  if (how != ACCESS_READ && !p->written) ptx_fault(m, "writes to %s, which is only read", p->name);
  for (uint64_t b = at; b < at + bytes; b += (uint64_t)1 << p->shift) look(m, p, b, how);
  if (p->sector) p->sector[(p->base % SECTOR + at) / SECTOR] |= how == ACCESS_READ ? 1 : 2;
  return p->data + at;
}

/* ---- ld, st, atom, red ---- */

/* An address of parameters is the ordinal of one. */
static uint64_t parameter(ptx_machine *m, uint64_t n) {
  const ptx_launch *l = m->l;
  if (n >= l->buffers + (uint64_t)l->params) ptx_fault(m, "the launch gives no parameter %llu", (unsigned long long)n);
  return n < l->buffers ? m->buffer[n].base : (uint64_t)l->param[n - l->buffers];
}

static void load_param(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0);
  const uint64_t *n = ptx_row(m, w, &i->operand[1], 0);
  if (i->operand[1].offset) ptx_fault(m, "an address within a parameter");
  PTX_EACH(on, lane) to[lane] = parameter(m, n[lane]) & ptx_mask(ptx_bits[i->type[0]]);
}

static uint64_t fetch(const uint8_t *from, ptx_type t) {
  uint64_t v = 0;
  memcpy(&v, from, ptx_bytes(t));
  return ptx_is_signed(t) ? (uint64_t)ptx_extend(v, ptx_bits[t]) : v;
}

/* LLVM makes one vector of loads with a gap between or behind them. The element of the gap, which no instruction reads,
 * need not be there: a vector is aligned to its size, so that it faults with the others or not at all. */
static bool unread(const ptx_machine *m, const ptx_operand *o, uint32_t element) {
  int32_t row = m->k->value[o->first + element];
  return row >= 0 && !m->k->read[row];
}

/* A word of a load that is aligned to its size, and of which some bytes, but not all, are the buffer's. It
 * is mapped as they are, so it may be loaded; the other bytes are junk. */
static bool at_an_end(ptx_machine *m, uint32_t space, uint64_t access, uint32_t all, uint32_t at, uint8_t word[WORD]) {
  uint64_t region = access >> REGION_BITS, address = access + at, inside = 0;
  const ptx_memory *p = space != SPACE_SHARED && region && region <= m->l->buffers ? &m->buffer[region - 1] : NULL;
  if (!p || all % WORD || access % all) return false;
  for (uint32_t b = 0; b < all; b++) inside += access + b >= p->base && access + b < p->base + p->bytes;
  if (!inside || inside == all) return false;
  for (uint32_t b = 0; b < WORD; b++)
    word[b] = address + b >= p->base && address + b < p->base + p->bytes ? *ptx_reach(m, space, address + b, 1, ACCESS_READ) : (uint8_t)ptx_random(m);
  return true;
}

static void move(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  bool loads = i->op == PTX_LD;
  const ptx_operand *address = &i->operand[!!loads], *data = &i->operand[!loads];
  uint32_t n = i->field[FIELD_VECTOR] ? i->field[FIELD_VECTOR] : 1, bytes = ptx_bytes(i->type[0]), space = i->field[FIELD_SPACE];
  const uint64_t *at = ptx_row(m, w, address, 0);
  uint64_t addresses[PTX_LANES] = {0};
  if (data->n != n || !space) ptx_fault(m, "operands that do not fit");
  PTX_EACH(on, lane) addresses[lane] = at[lane] + (uint64_t)address->offset;
  ptx_count_access(m, i, space, addresses, bytes * n, on, !loads);
  PTX_EACH(on, lane) {
    m->lane = lane;
    if (addresses[lane] % (bytes * n)) memory_at(m, space, addresses[lane], bytes * n);   /* says that it is unaligned */
    for (uint32_t e = 0; e < n; e++) {
      uint64_t *row = ptx_row(m, w, data, e);
      if (loads && n > 1 && unread(m, data, e)) continue;
      uint8_t word[WORD], *p = word;
      if (!loads || bytes != WORD || !at_an_end(m, space, addresses[lane], bytes * n, e * bytes, word))
        p = ptx_reach(m, space, addresses[lane] + e * bytes, bytes, loads ? ACCESS_READ : ACCESS_WRITE);
      if (loads) row[lane] = fetch(p, i->type[0]);
      else memcpy(p, &row[lane], bytes);
    }
  }
}

/* PTX ISA, "atom", "red". */
static uint64_t combined(ptx_machine *m, const ptx_instruction *i, uint64_t old, uint64_t v) {
  ptx_type t = i->type[0];
  uint32_t bits = ptx_bits[t];
  bool less = ptx_is_signed(t) ? ptx_extend(old, bits) < ptx_extend(v, bits) : old < v;
  switch (i->field[FIELD_HOW]) {
  case HOW_ADD: return ptx_is_float(t) ? ptx_round(t, ptx_to_double(t, old) + ptx_to_double(t, v), 0) : old + v;
  case HOW_MIN: return less ? old : v;
  case HOW_MAX: return less ? v : old;
  case HOW_EXCH: return v;
  case HOW_AND: return old & v;
  case HOW_OR: return old | v;
  case HOW_XOR: return old ^ v;
  default: ptx_fault(m, "no meaning");
  }
}

static void atomic(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  bool returns = i->op == PTX_ATOM, compares = i->field[FIELD_HOW] == HOW_CAS;
  const ptx_operand *address = &i->operand[!!returns];
  const uint64_t *at = ptx_row(m, w, address, 0), *v = ptx_row(m, w, &i->operand[returns + 1], 0);
  const uint64_t *next = compares ? ptx_row(m, w, &i->operand[returns + 2], 0) : NULL;
  uint32_t bytes = ptx_bytes(i->type[0]), space = i->field[FIELD_SPACE];
  uint64_t addresses[PTX_LANES] = {0}, mask = ptx_mask(8 * bytes);
  if (ptx_is_float(i->type[0]) && i->field[FIELD_HOW] != HOW_ADD && i->field[FIELD_HOW] != HOW_EXCH) ptx_fault(m, "no meaning");
  PTX_EACH(on, lane) addresses[lane] = at[lane] + (uint64_t)address->offset;
  ptx_count_access(m, i, space, addresses, bytes, on, true);
  PTX_EACH(on, lane) {
    m->lane = lane;
    uint8_t *p = ptx_reach(m, space, addresses[lane], bytes, ACCESS_ATOMIC);
    uint64_t old = 0, value = v[lane] & mask, now;
    memcpy(&old, p, bytes);
    now = compares ? old == value ? next[lane] : old : combined(m, i, old, value);
    memcpy(p, &now, bytes);
    if (returns) ptx_row(m, w, &i->operand[0], 0)[lane] = old;
  }
}

void ptx_execute_memory(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  if (i->field[FIELD_SPACE] == SPACE_PARAM) load_param(m, w, i, on);
  else if (i->op == PTX_LD || i->op == PTX_ST) move(m, w, i, on);
  else atomic(m, w, i, on);
}
