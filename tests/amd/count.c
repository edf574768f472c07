/* SPDX-License-Identifier: MIT
 * What accesses cost. LOCAL: 32 banks of 4 bytes; a wave's access takes as many wavefronts as the fullest bank has
 * different words of it, for each group of lanes whose bytes fill a row of banks. Global memory: sectors of 64 bytes. */
#include "machine.h"

static void count_local(amd_machine *m, const amd_flight *f, uint32_t p) {
  uint32_t words = (f->bytes + 3) / 4, together = AMD_LANES / 2 / words, lanes = (uint32_t)__builtin_popcountll(f->on);
  uint64_t word[2 * AMD_LANES];
  uint32_t n = 0, in_row = 0;
  m->d->count.local++;
  m->d->count.wavefronts_fewest += (lanes * words + 31) / 32;
  uint64_t left = f->on;
  while (left) {
    uint32_t bank[32] = {0}, most = 0;
    for (n = in_row = 0; left && in_row < together; in_row++, left &= left - 1) {
      uint64_t a = f->address[p][__builtin_ctzll(left)];
      for (uint64_t k = a / 4; k <= (a + f->bytes - 1) / 4; k++) {
        uint32_t seen = 0;
        for (uint32_t j = 0; j < n && !seen; j++) seen = word[j] == k;
        if (seen) continue;
        word[n++] = k;
        if (++bank[k % 32] > most) most = bank[k % 32];
      }
    }
    m->d->count.wavefronts += most;
  }
}

static void count_global(amd_machine *m, const amd_flight *f) {
  uint64_t seen[AMD_LANES * 2];
  uint32_t n = 0, lanes = 0;
  AMD_EACH(f->on, l) {
    lanes++;
    for (uint64_t s = f->address[0][l] / 64; s <= (f->address[0][l] + f->bytes - 1) / 64; s++) {
      uint32_t k = 0;
      while (k < n && seen[k] != s) k++;
      if (k == n) seen[n++] = s;
    }
  }
  m->d->count.global++;
  m->d->count.sectors += n;
  m->d->count.sectors_fewest += (lanes * f->bytes + 63) / 64;
}

void amd_count_access(amd_machine *m, const amd_flight *f) {
  if (f->counter == FLIGHT_SCALAR || !f->on) return;
  if (!f->local) count_global(m, f);
  else for (uint32_t p = 0; p < f->places; p++) count_local(m, f, p);
}
