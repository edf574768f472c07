/* SPDX-License-Identifier: MIT
 * Memory of a dispatch. A load's results land in their registers when the wave waits for them, the latest moment that the
 * rules allow ("Data Dependency Resolution"); until then the registers may be neither read nor written. For the race
 * check an access happens both where it is issued and where it is waited for: what lies between may come in any order. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

/* ---- who accessed a place, and when ---- */

static bool other(const amd_machine *m, const amd_stamp *s) {
  if (!s->group) return false;
  if (s->group != m->group + 1 || s->flags & STAMP_GROUPS) return true;
  return s->epoch >= m->w->epoch && (s->wave != m->w->number || s->flags & STAMP_WAVES);
}

static void race(amd_machine *m, const amd_flight *f, const amd_stamp *s, uint64_t address, const char *what) {
  uint32_t g = s->group - 1, mine = f->at;
  amd_fault(m, "race: %s %llx by the instruction at +%x and %s at +%x by wave %u of group %u, with no barrier between their ends",
            f->local ? "LOCAL" : "address", (unsigned long long)address, 4 * mine, what, 4 * s->at, s->wave, g);
}

static void stamp(const amd_machine *m, amd_stamp *s, const amd_flight *f) {
  uint16_t flags = f->atomic ? STAMP_ATOMIC : 0;
  if (s->group && s->group != m->group + 1) flags |= STAMP_GROUPS;
  else if (s->group && s->epoch == m->w->epoch && s->wave != m->w->number) flags |= STAMP_WAVES;
  if (s->group) flags |= s->flags & STAMP_GROUPS, flags |= s->group == m->group + 1 && s->epoch == m->w->epoch ? s->flags & STAMP_WAVES : 0;
  *s = (amd_stamp){m->group + 1, m->w->epoch, f->at, (uint16_t)m->w->number, flags};
}

static amd_cell *find(amd_machine *m, uint64_t key) {
  if (2 * m->used >= m->cells) {
    amd_cell *old = m->cell;
    uint64_t n = m->cells;
    m->cells = n ? 2 * n : 4096, m->used = 0;
    m->cell = calloc(m->cells, sizeof *m->cell);
    for (uint64_t k = 0; k < n; k++)
      if (old[k].key) *find(m, old[k].key) = old[k];
    free(old);
  }
  uint64_t at = key * 0x9e3779b97f4a7c15u >> 20 & (m->cells - 1);
  while (m->cell[at].key && m->cell[at].key != key) at = (at + 1) & (m->cells - 1);
  if (!m->cell[at].key) m->cell[at].key = key, m->used++;
  return &m->cell[at];
}

static void touch(amd_machine *m, const amd_flight *f, uint64_t address, uint32_t bytes, bool writes) {
  uint32_t shift = m->shift[f->local];
  for (uint64_t a = address >> shift; a <= (address + bytes - 1) >> shift; a++) {
    amd_cell *c = f->local ? &m->local_cell[a] : find(m, a + 1);
    bool tries = !writes && m->swaps && c->wrote.flags & STAMP_ATOMIC;     /* what a loop of compare and swap begins with */
    if (other(m, &c->wrote) && !tries && !(f->atomic && c->wrote.flags & STAMP_ATOMIC)) race(m, f, &c->wrote, a << shift, "a write");
    if (writes && other(m, &c->read) && !(f->atomic && (m->swaps || c->read.flags & STAMP_ATOMIC))) race(m, f, &c->read, a << shift, "a read");
    stamp(m, writes ? &c->wrote : &c->read, f);
  }
}

static void touch_all(amd_machine *m, const amd_flight *f) {
  if (f->counter == FLIGHT_SCALAR) return;
  for (uint32_t p = 0; p < f->places; p++) AMD_EACH(f->on, l) touch(m, f, f->address[p][l], f->bytes, f->writes);
}

/* ---- flights ---- */

/* The halves of its registers that a load writes. */
static uint32_t halves(const amd_flight *f) {
  char k = f->i->kind;
  bool loads = f->i->operation == AMD_G_LOAD || f->i->operation == AMD_DS_LOAD;
  return !loads ? 3 : k == 'l' || k == 'm' ? 1 : k == 'h' || k == 'n' ? 2 : 3;
}

static void landed(amd_machine *m, amd_flight *f) {
  amd_wave *w = m->w;
  const amd_instruction *now = m->i;
  m->i = f->i;
  /* The waves of a group of CDNA reach global memory through one cache, in the order of issue, unless TG_SPLIT spreads
   * them ("User Guide for AMDGPU Backend", "Memory Model gfx90a"). */
  bool in_order = !amd_rdna(m) && !f->local && !(m->d->rsrc3 >> 16 & 1);
  if (!in_order) touch_all(m, f);
  for (uint32_t r = 0; r < f->registers; r++)
    if (f->counter == FLIGHT_SCALAR) {
      w->s_flying[f->first + r] = 0, w->s[f->first + r] = f->data[0][r], w->s_unknown[f->first + r] = f->unknown[0][r];
    } else {
      uint32_t k = f->first - AMD_V0 + r, h = halves(f);
      w->v_flying[k][0] -= h & 1, w->v_flying[k][1] -= h >> 1;
      AMD_EACH(f->on, l) {
        w->v[k][l] = (w->v[k][l] & ~f->mask[l]) | (f->data[l][r] & f->mask[l]);
        w->v_unknown[k][l] = (w->v_unknown[k][l] & ~f->mask[l]) | (f->unknown[l][r] & f->mask[l]);
      }
    }
  m->i = now;
  free(f);
}

/* Scalar loads come in any order: a wait for fewer than all of a kind among which there is one lands nothing. */
void amd_wait(amd_machine *m, uint32_t counters, uint32_t n) {
  amd_wave *w = m->w;
  uint32_t there = 0, kept = 0;
  bool scalar = false;
  for (uint32_t k = 0; k < w->flights; k++)
    if (w->flight[k]->counter & counters) there++, scalar |= w->flight[k]->counter == FLIGHT_SCALAR;
  if (n && scalar) return;
  for (uint32_t k = 0; k < w->flights; k++)
    if (w->flight[k]->counter & counters && there > n) there--, landed(m, w->flight[k]);
    else w->flight[kept++] = w->flight[k];
  w->flights = kept;
}

static void fly(amd_machine *m, amd_flight *f) {
  amd_wave *w = m->w;
  touch_all(m, f);
  amd_count_access(m, f);
  for (uint32_t r = 0; r < f->registers; r++) {
    if (f->counter == FLIGHT_SCALAR) {
      if (w->s_flying[f->first + r]) amd_fault(m, "s%u is loaded while another load into it is in flight", f->first + r);
      w->s_flying[f->first + r] = 1;
    } else {                            /* loads of one kind land in order, so that two may be on the way to one register */
      uint32_t k = f->first - AMD_V0 + r, h = halves(f);
      bool same = w->v_counter[k] == f->counter && (f->first >= AMD_A0 || k < m->vectors);
      if (!same) amd_vector_part(m, f->first + r, h);
      w->v_counter[k] = (uint8_t)f->counter, w->v_flying[k][0] += h & 1, w->v_flying[k][1] += h >> 1;
    }
  }
  uint32_t alike = 0;                   /* counters have 6 bits at most: an access beyond them stalls until others are done */
  for (uint32_t k = 0; k < w->flights; k++) alike += w->flight[k]->counter == f->counter;
  if (alike == AMD_FLIGHTS / 4 - 1) amd_wait(m, f->counter, f->counter == FLIGHT_SCALAR ? 0 : alike - 1);
  w->flight[w->flights++] = f;
}

static amd_flight *flight(amd_machine *m, amd_counter counter, bool local) {
  amd_flight *f = calloc(1, sizeof *f);
  f->counter = counter, f->i = m->i, f->at = m->w->pc, f->local = local, f->bytes = m->i->bytes, f->on = amd_exec(m), f->places = 1;
  return f;
}

/* ---- bytes ---- */

static void reach(amd_machine *m, const amd_flight *f, uint64_t address, void *data, uint32_t bytes, bool write, uint8_t *unknown) {
  /* Accesses but atomics may stand at any byte, those of LOCAL too: Linux sets SH_MEM_CONFIG.ALIGNMENT_MODE to
   * UNALIGNED for all programs (gfx_v*_0_constants_init), and LLVM relies on it (feature unaligned-access-mode of
   * amdhsa). */
  if (f->atomic && address % bytes)
    amd_fault(m, "unaligned: %u bytes at %s%llx", bytes, f->local ? "LOCAL " : "", (unsigned long long)address);
  if (!f->local) {
    if (!m->d->access(m->d->user, address, data, bytes, write ? AMD_WRITE : AMD_READ))
      amd_fault(m, "%s %u bytes at %llx, where no memory is for that", write ? "writes" : "reads", bytes, (unsigned long long)address);
    return;
  }
  if (address + bytes > m->d->local) amd_fault(m, "%u bytes at %llx of LOCAL, which has %u", bytes, (unsigned long long)address, m->d->local);
  if (write) memcpy(m->local + address, data, bytes), memcpy(m->local_unknown + address, unknown, bytes);
  else memcpy(data, m->local + address, bytes), memcpy(unknown, m->local_unknown + address, bytes);
}

static uint32_t known(amd_machine *m, uint32_t code, uint64_t l, const char *what) {
  uint32_t r = amd_vector(m, code);
  if (m->w->v_unknown[r][l]) amd_fault(m, "%s in v%u of lane %llu was never written (bits %08x)", what, r, (unsigned long long)l, m->w->v_unknown[r][l]);
  return m->w->v[r][l];
}

/* The bytes that come, as the register has them. */
static void place(amd_flight *f, char kind, uint64_t l, uint32_t at, uint32_t bytes, const uint8_t *data, const uint8_t *unknown) {
  uint32_t v[4] = {0}, u[4] = {0};
  memcpy(v, data, bytes), memcpy(u, unknown, bytes);
  bool sign = kind == 's' || kind == 'm' || kind == 'n', high = kind == 'h' || kind == 'n', half = high || kind == 'l' || kind == 'm';
  if (sign && bytes < 4) v[0] = (uint32_t)((int32_t)(v[0] << (32 - 8 * bytes)) >> (32 - 8 * bytes));
  if (u[0] && bytes < 4) u[0] = sign || !half ? ~0u : u[0];
  f->mask[l] = half ? high ? 0xffff0000u : 0xffff : ~0u;
  for (uint32_t k = 0; k < (bytes + 3) / 4; k++) f->data[l][at + k] = v[k] << (high ? 16 : 0), f->unknown[l][at + k] = u[k] << (high ? 16 : 0);
}

static void load(amd_machine *m, amd_flight *f) {
  uint32_t registers = (f->bytes + 3) / 4;
  f->registers = registers * f->places, f->first = m->i->result[0].code;
  for (uint32_t p = 0; p < f->places; p++) AMD_EACH(f->on, l) {
    uint8_t data[16], unknown[16] = {0};
    reach(m, f, f->address[p][l], data, f->bytes, false, unknown);
    place(f, m->i->kind, l, p * registers, f->bytes, data, unknown);
  }
  fly(m, f);
}

/* Two lanes of one store that put different bytes into one place: which of them stays, nobody says. */
static void store(amd_machine *m, amd_flight *f) {
  const amd_instruction *i = m->i;
  f->writes = true;
  for (uint32_t p = 0; p < f->places; p++) AMD_EACH(f->on, l) {
    uint32_t v[4] = {0}, u[4] = {0}, shift = i->kind == 'h' ? 16 : 0;
    for (uint32_t k = 0; k < (f->bytes + 3) / 4; k++) {
      uint32_t r = amd_vector(m, i->source[f->local ? 1 + p : 1].code + k);
      v[k] = m->w->v[r][l] >> shift, u[k] = m->w->v_unknown[r][l] >> shift;
      uint32_t mask = f->bytes < 4 ? (1u << 8 * f->bytes) - 1 : ~0u;
      if (!f->local && u[k] & mask) amd_fault(m, "stores bits of v%u of lane %llu that nobody wrote (%08x)", r, (unsigned long long)l, u[k] & mask);
    }
    uint64_t a = f->address[p][l];
    if (!f->local || a + f->bytes <= m->d->local) {
      uint8_t old[16];
      for (uint64_t k = 0; k < l; k++)
        if (f->on >> k & 1 && a < f->address[p][k] + f->bytes && f->address[p][k] < a + f->bytes && !f->local &&
            m->d->access(m->d->user, a, old, f->bytes, AMD_READ) && memcmp(old, v, f->bytes))
          amd_fault(m, "lanes %llu and %llu of one store put different bytes at %llx", (unsigned long long)k, (unsigned long long)l, (unsigned long long)a);
    }
    reach(m, f, a, v, f->bytes, true, (uint8_t *)u);
  }
  fly(m, f);
}

static double as_double(const amd_instruction *i, uint64_t v) { return i->bytes == 8 ? amd_double(v) : (double)amd_single((uint32_t)v); }

static uint64_t combined(amd_machine *m, uint64_t old, uint64_t v, uint64_t then) {
  int32_t a = (int32_t)old, b = (int32_t)v;
  switch (m->i->operation) {
  case AMD_G_ATOMIC_ADD_U32: case AMD_G_ATOMIC_ADD_U64: case AMD_DS_ATOMIC_ADD_U32: return old + v;
  case AMD_G_ATOMIC_SUB_U32: case AMD_DS_ATOMIC_SUB_U32: return old - v;
  case AMD_G_ATOMIC_MIN_I32: case AMD_DS_ATOMIC_MIN_I32: return a < b ? old : v;
  case AMD_G_ATOMIC_MAX_I32: case AMD_DS_ATOMIC_MAX_I32: return a > b ? old : v;
  case AMD_G_ATOMIC_MIN_U32: case AMD_DS_ATOMIC_MIN_U32: return old < v ? old : v;
  case AMD_G_ATOMIC_MAX_U32: case AMD_DS_ATOMIC_MAX_U32: return old > v ? old : v;
  case AMD_G_ATOMIC_AND_B32: case AMD_DS_ATOMIC_AND_B32: return old & v;
  case AMD_G_ATOMIC_OR_B32: case AMD_DS_ATOMIC_OR_B32: return old | v;
  case AMD_G_ATOMIC_XOR_B32: case AMD_DS_ATOMIC_XOR_B32: return old ^ v;
  case AMD_G_ATOMIC_SWAP_B32: return v;
  case AMD_G_ATOMIC_CMPSWAP_B32: case AMD_G_ATOMIC_CMPSWAP_B64: return old == then ? v : old;
  case AMD_G_ATOMIC_ADD_F32: case AMD_DS_ATOMIC_ADD_F32: return amd_single_bits(amd_single((uint32_t)old) + amd_single((uint32_t)v));
  case AMD_G_ATOMIC_ADD_F64: return amd_double_bits(as_double(m->i, old) + as_double(m->i, v));
  default: amd_fault(m, "an atomic operation that is not known");
  }
}

static void atomic(amd_machine *m, amd_flight *f) {
  const amd_instruction *i = m->i;
  bool swaps = i->operation == AMD_G_ATOMIC_CMPSWAP_B32 || i->operation == AMD_G_ATOMIC_CMPSWAP_B64;
  f->bytes = swaps ? i->bytes / 2 : i->bytes;
  f->atomic = f->writes = true;
  uint32_t words = f->bytes / 4;
  if (i->returns) f->registers = words, f->first = i->result[0].code;
  AMD_EACH(f->on, l) {
    uint64_t old = 0, v = 0, then = 0, now;
    uint8_t unknown[16] = {0};
    for (uint32_t k = 0; k < words; k++) {
      v |= (uint64_t)known(m, i->source[1].code + k, l, "an operand of an atomic operation") << 32 * k;
      if (swaps) then |= (uint64_t)known(m, i->source[1].code + words + k, l, "an operand of an atomic operation") << 32 * k;
    }
    reach(m, f, f->address[0][l], &old, f->bytes, false, unknown);
    if (unknown[0]) amd_fault(m, "an atomic operation on LOCAL that nobody wrote");
    now = combined(m, old, v, then);
    reach(m, f, f->address[0][l], &now, f->bytes, true, unknown);
    f->mask[l] = ~0u;
    for (uint32_t k = 0; k < words; k++) f->data[l][k] = (uint32_t)(old >> 32 * k);
  }
  fly(m, f);
}

/* ---- instructions ---- */

static void global(amd_machine *m) {
  const amd_instruction *i = m->i;
  bool loads = i->operation == AMD_G_LOAD, stores = i->operation == AMD_G_STORE;
  if (i->operation == AMD_G_TR) amd_fault(m, "transposing loads are not written yet");
  amd_flight *f = flight(m, loads || (!stores && i->returns) ? FLIGHT_LOAD : FLIGHT_STORE, false);
  bool off = i->source[2].code == AMD_NULL;
  uint64_t base = 0, unknown = 0;
  if (!off) base = amd_scalar(m, &i->source[2], 2, &unknown);
  if (unknown) amd_fault(m, "an address in s%u was never written", i->source[2].code);
  AMD_EACH(f->on, l) {
    uint64_t a = known(m, i->source[0].code, l, "an address");
    if (off) a |= (uint64_t)known(m, i->source[0].code + 1, l, "an address") << 32;
    f->address[0][l] = base + a + (uint64_t)i->offset;
  }
  if (loads) load(m, f);
  else if (stores) store(m, f);
  else atomic(m, f);
}

static void local(amd_machine *m) {
  const amd_instruction *i = m->i;
  amd_flight *f = flight(m, FLIGHT_LOCAL, true);
  if (i->operation == AMD_DS_BPERMUTE || i->operation == AMD_DS_PERMUTE || i->operation == AMD_DS_SWIZZLE) {
    f->places = 0, f->registers = 1, f->first = i->result[0].code;
    amd_exchange(m, f);
    fly(m, f);
    return;
  }
  f->places = i->two ? 2 : 1;
  AMD_EACH(f->on, l) {
    uint32_t a = known(m, i->source[0].code, l, "an address");
    f->address[0][l] = (uint32_t)(a + (uint32_t)i->offset), f->address[1][l] = a + i->offset2;
  }
  if (i->operation == AMD_DS_LOAD) load(m, f);
  else if (i->operation == AMD_DS_STORE) store(m, f);
  else atomic(m, f);
}

static void scalar_load(amd_machine *m) {
  const amd_instruction *i = m->i;
  uint64_t unknown = 0, more = 0, offset = 0, base = amd_scalar(m, &i->source[0], 2, &unknown);
  if (i->source[1].code != AMD_NULL) offset = amd_scalar(m, &i->source[1], 1, &more) & 0xffffffffu;
  if (unknown || more) amd_fault(m, "an address in s%u was never written", i->source[0].code);
  amd_flight *f = flight(m, FLIGHT_SCALAR, false);
  bool small = i->operation == AMD_SMEM_LOAD_SMALL;
  uint64_t a = base + offset + (uint64_t)i->offset;
  f->on = 1, f->address[0][0] = small ? a : a & ~(uint64_t)3, f->registers = (i->bytes + 3) / 4, f->first = i->result[0].code;
  uint32_t bytes = i->bytes;            /* of a word at the end of memory the bytes that are there: so narrow loads are widened */
  while (bytes && bytes + 4 > i->bytes && !m->d->access(m->d->user, f->address[0][0], f->data[0], bytes, AMD_READ)) bytes--;
  bool astray = !bytes || bytes + 4 <= i->bytes || (small && bytes < i->bytes);
  if (astray) amd_fault(m, "reads %u bytes at %llx, where no memory is for that", i->bytes, (unsigned long long)a);
  if (bytes < i->bytes) f->unknown[0][(i->bytes - 1) / 4] = ~0u << 8 * (bytes & 3);
  if (small && i->kind == 's') f->data[0][0] = (uint32_t)((int32_t)(f->data[0][0] << (32 - 8 * i->bytes)) >> (32 - 8 * i->bytes));
  fly(m, f);
}

bool amd_execute_memory(amd_machine *m) {
  switch (m->i->row->format) {
  case AMD_GLOBAL: return global(m), true;
  case AMD_DS: return local(m), true;
  case AMD_SMEM: return scalar_load(m), true;
  default: return false;
  }
}

/* ---- a launch, a group ---- */

void amd_open_memory(amd_machine *m) {
  uint32_t narrow[2] = {16, 16};
  for (uint32_t k = 0; k < m->instructions; k++) {
    const amd_instruction *i = m->instruction[k];
    if (!i || !i->bytes) continue;
    uint32_t space = i->row->format == AMD_DS;
    m->swaps |= i->operation == AMD_G_ATOMIC_CMPSWAP_B32 || i->operation == AMD_G_ATOMIC_CMPSWAP_B64;
    if ((space || i->row->format == AMD_GLOBAL) && i->bytes < narrow[space]) narrow[space] = i->bytes;
  }
  for (uint32_t s = 0; s < 2; s++) m->shift[s] = narrow[s] >= 4 ? 2 : narrow[s] == 2;
  m->local = malloc(m->d->local + 16), m->local_unknown = malloc(m->d->local + 16);
  m->local_cell = calloc((m->d->local >> m->shift[1]) + 16, sizeof *m->local_cell);
}

void amd_begin_group(amd_machine *m) {
  for (uint32_t k = 0; k < m->d->local; k++) m->local[k] = (uint8_t)amd_random(m);
  memset(m->local_unknown, 0xff, m->d->local);
  memset(m->local_cell, 0, ((m->d->local >> m->shift[1]) + 16) * sizeof *m->local_cell);
}

void amd_close_memory(amd_machine *m) {
  free(m->local), free(m->local_unknown), free(m->local_cell), free(m->cell);
}
