/* SPDX-License-Identifier: MIT
 * A dispatch: its code decoded once, its groups one after the other, the waves of a group in drawn turns. Which registers
 * a wave begins with is what the kernel's descriptor asks for (LLVM's "User Guide for AMDGPU Backend", "Initial Kernel
 * Execution State"). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

enum { WORDS = 1 << 20 };

void amd_fault(amd_machine *m, const char *format, ...) {
  char what[AMD_MESSAGE / 2];
  va_list a;
  va_start(a, format);
  vsnprintf(what, sizeof what, format, a);
  va_end(a);
  if (m->w) snprintf(m->d->message, AMD_MESSAGE, "+%x %s, group %u %u %u, wave %u: %s", 4 * m->w->pc, m->i ? m->i->name : "?", m->position[0],
                     m->position[1], m->position[2], m->w->number, what);
  else snprintf(m->d->message, AMD_MESSAGE, "%s", what);
  longjmp(m->trap, 1);
}

uint32_t amd_random(amd_machine *m) {
  m->random = m->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(m->random >> 33);
}

/* ---- code ---- */

static bool branches(const amd_instruction *i) {
  return i->operation == AMD_BRANCH || (i->operation >= AMD_CBRANCH_EXECNZ && i->operation <= AMD_CBRANCH_VCCZ);
}

static void keep(amd_machine *m, uint32_t at, const amd_instruction *i, const amd_instruction *second) {
  if (at >= m->instructions) {
    uint32_t n = m->instructions ? 2 * m->instructions : 1024;
    while (n <= at) n *= 2;
    m->instruction = realloc(m->instruction, n * sizeof *m->instruction);
    memset(m->instruction + m->instructions, 0, (n - m->instructions) * sizeof *m->instruction);
    m->instructions = n;
  }
  amd_instruction *x = malloc((i->second ? 2 : 1) * sizeof *x);
  x[0] = *i;
  if (i->second) x[1] = *second, x[0].second = &x[1];
  m->instruction[at] = x;
}

/* From a place to the end of the program, or to what is decoded already; places of branches are left on the stack. */
static void decode_from(amd_machine *m, uint32_t at, uint32_t **stack, uint32_t *n, uint32_t *room) {
  while (at >= m->instructions || !m->instruction[at]) {
    uint32_t word[4] = {0}, words = 0;
    amd_instruction i, second;
    char what[AMD_MESSAGE];
    if (at >= WORDS) amd_fault(m, "+%x: code longer than %u words", 4 * at, WORDS);
    while (words < 4 && m->d->access(m->d->user, m->d->code + 4 * (uint64_t)(at + words), &word[words], 4, AMD_FETCH)) words++;
    if (!amd_decode(m->f, word, words, &i, &second, what)) amd_fault(m, "+%x: %.200s", 4 * at, what);
    keep(m, at, &i, &second);
    if (branches(&i)) {
      if (*n == *room) *room = *room ? 2 * *room : 64, *stack = realloc(*stack, *room * sizeof **stack);
      int64_t to = (int64_t)at + 1 + i.offset;
      if (to < 0) amd_fault(m, "+%x: a branch to before the first instruction", 4 * at);
      (*stack)[(*n)++] = (uint32_t)to;
    }
    if (i.operation == AMD_ENDPGM || i.operation == AMD_BRANCH || i.operation == AMD_S_SETPC) return;
    at += i.words;
  }
}

static void decode_all(amd_machine *m) {
  uint32_t *stack = NULL, n = 0, room = 0;
  decode_from(m, 0, &stack, &n, &room);
  while (n) decode_from(m, stack[--n], &stack, &n, &room);
  free(stack);
}

/* ---- waves ---- */

static void put(amd_wave *w, uint32_t *at, uint32_t v, bool known) {
  if (*at < AMD_SCALARS) w->s[*at] = v, w->s_unknown[*at] = known ? 0 : ~0u;
  ++*at;
}

static void scalars(amd_machine *m, amd_wave *w) {
  static const uint32_t words[] = {4, 2, 2, 2, 2, 2, 1};   /* by bit of properties; bit 3: the arguments */
  const amd_dispatch *d = m->d;
  uint32_t user = d->rsrc2 >> 1 & 31, at = 0;
  for (uint32_t b = 0; b < 7; b++)
    for (uint32_t k = 0; d->properties >> b & 1 && k < words[b]; k++) put(w, &at, b == 3 ? (uint32_t)(d->arguments >> 32 * k) : 0, b == 3);
  if (at > user) amd_fault(m, "the descriptor has %u user registers, and asks for %u", user, at);
  at = user;
  if (m->f == AMD_RDNA4) {
    w->s[117] = m->position[0], w->s_unknown[117] = 0;
    w->s[115] = m->position[1] | m->position[2] << 16, w->s_unknown[115] = 0;
    return;
  }
  for (uint32_t k = 0; k < 3; k++)
    if (d->rsrc2 >> (7 + k) & 1) put(w, &at, m->position[k], true);
}

static void begin_wave(amd_machine *m, uint32_t number) {
  amd_wave *w = &m->wave[number];
  const uint32_t *t = m->d->threads;
  memset(w, 0, sizeof *w);
  memset(w->s_unknown, 0xff, sizeof w->s_unknown), memset(w->v_unknown, 0xff, sizeof w->v_unknown);
  for (uint32_t k = 0; k < AMD_SCALARS; k++) w->s[k] = amd_random(m);
  for (uint32_t k = 0; k < m->vectors; k++) for (uint32_t l = 0; l < m->lanes; l++) w->v[k][l] = amd_random(m);
  w->number = number, w->scc_unknown = 1;
  scalars(m, w);
  uint64_t on = 0;
  for (uint32_t l = 0; l < m->lanes; l++) {
    uint32_t n = number * m->lanes + l, x = n % t[0], y = n / t[0] % t[1], z = n / t[0] / t[1];
    if (n >= t[0] * t[1] * t[2]) break;
    on |= (uint64_t)1 << l;
    w->v[0][l] = x | y << 10 | z << 20, w->v_unknown[0][l] = 0;
  }
  w->s[AMD_EXEC] = (uint32_t)on, w->s[AMD_EXEC + 1] = (uint32_t)(on >> 32);
  w->s_unknown[AMD_EXEC] = w->s_unknown[AMD_EXEC + 1] = 0;
}

/* ---- instructions that wait and branch ---- */

static void wait_counters(amd_machine *m) {
  uint32_t v = (uint32_t)m->i->offset & 0xffff;
  if (m->f == AMD_RDNA3) {
    amd_wait(m, FLIGHT_LOCAL | FLIGHT_SCALAR, v >> 4 & 63);
    amd_wait(m, FLIGHT_LOAD, v >> 10 & 63);
  } else {
    amd_wait(m, FLIGHT_LOCAL | FLIGHT_SCALAR, v >> 8 & 15);
    amd_wait(m, FLIGHT_LOAD | FLIGHT_STORE, (v & 15) | (v >> 14 & 3) << 4);
  }
}

static bool waits(amd_machine *m) {
  uint32_t v = (uint32_t)m->i->offset & 0xffff;
  switch (m->i->operation) {
  case AMD_WAITCNT: return wait_counters(m), true;
  case AMD_WAIT_VSCNT: return amd_wait(m, FLIGHT_STORE, v & 63), true;
  case AMD_WAIT_LOADCNT: return amd_wait(m, FLIGHT_LOAD, v & 63), true;
  case AMD_WAIT_STORECNT: return amd_wait(m, FLIGHT_STORE, v & 63), true;
  case AMD_WAIT_DSCNT: return amd_wait(m, FLIGHT_LOCAL, v & 63), true;
  case AMD_WAIT_KMCNT: return amd_wait(m, FLIGHT_SCALAR, v & 31), true;
  case AMD_WAIT_LOADCNT_DSCNT: return amd_wait(m, FLIGHT_LOCAL, v & 63), amd_wait(m, FLIGHT_LOAD, v >> 8 & 63), true;
  case AMD_WAIT_STORECNT_DSCNT: return amd_wait(m, FLIGHT_LOCAL, v & 63), amd_wait(m, FLIGHT_STORE, v >> 8 & 63), true;
  case AMD_WAIT_EXPCNT: case AMD_WAIT_SAMPLECNT: case AMD_WAIT_BVHCNT: case AMD_NOTHING: return true;
  default: return false;
  }
}

static bool taken(amd_machine *m) {
  amd_wave *w = m->w;
  bool wide = m->lanes == 64;
  uint32_t operation = m->i->operation;
  if (operation == AMD_CBRANCH_SCC0 || operation == AMD_CBRANCH_SCC1) {
    if (w->scc_unknown) amd_fault(m, "a branch by SCC, which comes of what nobody wrote");
    return w->scc == (operation == AMD_CBRANCH_SCC1);
  }
  if (operation == AMD_CBRANCH_VCCZ || operation == AMD_CBRANCH_VCCNZ) {
    if (w->s_flying[AMD_VCC] || w->s_unknown[AMD_VCC] || (wide && w->s_unknown[AMD_VCC + 1])) amd_fault(m, "a branch by VCC, of which nobody wrote bits %08x", w->s_unknown[AMD_VCC]);
    return (w->s[AMD_VCC] || (wide && w->s[AMD_VCC + 1])) == (operation == AMD_CBRANCH_VCCNZ);
  }
  return operation == AMD_BRANCH || (amd_exec(m) != 0) == (operation == AMD_CBRANCH_EXECNZ);
}

static bool control(amd_machine *m) {
  amd_wave *w = m->w;
  if (waits(m)) return true;
  if (branches(m->i)) {
    if (taken(m)) w->pc = (uint32_t)((int64_t)w->pc + m->i->offset);
    return true;
  }
  switch (m->i->operation) {
  case AMD_ENDPGM: return amd_wait(m, ~0u, 0), w->ended = true;
  case AMD_BARRIER_SIGNAL: return w->signalled = true;
  case AMD_BARRIER_WAIT:
    if (!w->signalled) amd_fault(m, "a wait for a barrier that this wave has not signalled");
    return w->waits = true;
  case AMD_BARRIER: return w->waits = true;
  default: return false;
  }
}

static void step(amd_machine *m) {
  amd_wave *w = m->w;
  uint32_t at = w->pc;
  amd_instruction *i = at < m->instructions ? m->instruction[at] : NULL;
  m->i = i;
  if (!i) amd_fault(m, "no instruction here");
  if (m->d->limit && m->d->count.instructions >= m->d->limit) amd_fault(m, "over %llu instructions", (unsigned long long)m->d->limit);
  if (m->w->s_unknown[AMD_EXEC] || (m->lanes == 64 && m->w->s_unknown[AMD_EXEC + 1])) amd_fault(m, "EXEC comes of what nobody wrote");
  m->d->count.instructions++;
  m->d->count.lanes += (uint64_t)__builtin_popcountll(amd_exec(m));
  bool done = i->row->format <= AMD_SOPP ? control(m) || amd_execute_scalar(m) : i->operation == AMD_NOTHING || amd_execute_memory(m) || amd_execute_matrix(m) || amd_execute_lanes(m) || amd_execute_vector(m);
  if (!done) amd_fault(m, "what this instruction does is not written yet");
  if (i->operation != AMD_S_SETPC) w->pc += i->words;
}

/* A wave that has ended counts as arrived at every barrier. */
static bool release(amd_machine *m) {
  uint32_t waiting = 0, alive = 0;
  for (uint32_t k = 0; k < m->waves; k++) alive += !m->wave[k].ended, waiting += m->wave[k].waits;
  if (!alive || waiting < alive) return false;
  for (uint32_t k = 0; k < m->waves; k++)
    if (m->wave[k].waits) m->wave[k].waits = m->wave[k].signalled = false, m->wave[k].epoch++;
  return true;
}

static void run_group(amd_machine *m) {
  for (uint32_t k = 0; k < m->waves; k++) m->w = NULL, begin_wave(m, k);
  amd_begin_group(m);
  for (;;) {
    uint32_t ready[AMD_WAVES], n = 0;
    for (uint32_t k = 0; k < m->waves; k++)
      if (!m->wave[k].ended && !m->wave[k].waits) ready[n++] = k;
    if (!n) {
      if (!release(m)) return;
      continue;
    }
    m->w = &m->wave[ready[m->d->drawn ? amd_random(m) % n : 0]];
    for (uint32_t turn = m->d->drawn ? 1 + amd_random(m) % 64 : ~0u; turn && !m->w->ended && !m->w->waits; turn--) step(m);
  }
}

/* ---- a dispatch ---- */

static void limits(amd_machine *m) {
  const amd_dispatch *d = m->d;
  uint64_t threads = (uint64_t)d->threads[0] * d->threads[1] * d->threads[2], narrow = d->properties >> 10 & 1;
  m->lanes = m->f <= AMD_RDNA4 && narrow ? 32 : 64;
  if (m->f <= AMD_RDNA4 && !narrow) amd_fault(m, "waves of 64 lanes on RDNA are not interpreted");
  if (!threads || threads > 1024) amd_fault(m, "a group of %llu threads", (unsigned long long)threads);
  if (d->rsrc2 & 1) amd_fault(m, "the kernel asks for scratch memory");
  if (d->properties >> 11 & 1) amd_fault(m, "the kernel asks for a stack");
  if (d->rsrc1 >> 12 & 15) amd_fault(m, "the kernel asks for another way of rounding than to nearest");
  m->flush = !(d->rsrc1 >> 16 & 3);
  m->waves = (uint32_t)(threads + m->lanes - 1) / m->lanes;
  m->vectors = 8 * ((d->rsrc1 & 63) + 1);
  if (m->f > AMD_RDNA4) {
    uint32_t all = m->vectors;
    m->vectors = 4 * ((d->rsrc3 & 63) + 1);
    if (m->vectors > all) m->vectors = all;
    m->accumulators = all - m->vectors;
  }
  if (m->vectors > 256) m->vectors = 256;
}

static void groups(amd_machine *m) {
  const uint32_t *g = m->d->groups;
  uint64_t n = (uint64_t)g[0] * g[1] * g[2], step = 1;
  if (m->d->drawn && n > 2) {
    uint64_t a, b;
    do {
      step = 1 + amd_random(m) % n;
      for (a = n, b = step; b;) { uint64_t r = a % b; a = b, b = r; }
    } while (a != 1);
  }
  for (uint64_t k = 0, at = 0; k < n; k++, at = (at + step) % n) {
    m->group = (uint32_t)at;
    m->position[0] = (uint32_t)(at % g[0]), m->position[1] = (uint32_t)(at / g[0] % g[1]), m->position[2] = (uint32_t)(at / g[0] / g[1]);
    run_group(m);
  }
}

static void clear(amd_machine *m) {
  for (uint32_t k = 0; m->wave && k < m->waves; k++)
    for (uint32_t n = 0; n < m->wave[k].flights; n++) free(m->wave[k].flight[n]);
  for (uint32_t k = 0; k < m->instructions; k++) free(m->instruction[k]);
  free(m->instruction), free(m->wave);
  amd_close_memory(m);
}

bool amd_run(amd_dispatch *d) {
  amd_machine *m = calloc(1, sizeof *m);
  volatile bool ok = false;
  m->d = d, m->random = d->seed * 2654435761u + 12345;
  d->message[0] = 0;
  d->count = (amd_count){0};
  if (setjmp(m->trap) == 0) {
    if (!amd_family_of(d->processor, &m->f)) amd_fault(m, "no interpreter of %s", d->processor);
    limits(m);
    decode_all(m);
    m->wave = calloc(m->waves, sizeof *m->wave);
    amd_open_memory(m);
    groups(m);
    ok = true;
  }
  clear(m);
  free(m);
  return ok;
}
