/* SPDX-License-Identifier: MIT
 * Lanes that read each other's registers: DPP, readlane, v_permlane, ds_bpermute, ds_swizzle ("Data Parallel Processing",
 * "V_PERMLANE16", "DS_BPERMUTE_B32", "DS_SWIZZLE_B32"). */
#include <string.h>
#include "machine.h"

enum { NOWHERE = 1000 };

/* Where DPP's control takes lane l's value from; NOWHERE: beyond its row. */
static uint32_t moved(amd_machine *m, const amd_instruction *i, uint32_t l) {
  uint32_t c = i->dpp_control, row = l & ~15u, in = l & 15, n = c & 15;
  if (i->dpp == DPP_8) return (l & ~7u) + (c >> 3 * (l & 7) & 7);
  if (c < 0x100) return (l & ~3u) + (c >> 2 * (l & 3) & 3);
  if (c > 0x100 && c < 0x110) return in + n < 16 ? row + in + n : NOWHERE;       /* row_shl */
  if (c > 0x110 && c < 0x120) return in >= n ? row + in - n : NOWHERE;           /* row_shr */
  if (c > 0x120 && c < 0x130) return row + ((in - n) & 15);                      /* row_ror */
  if (c == 0x140) return row + 15 - in;
  if (c == 0x141) return (l & ~7u) + 7 - (l & 7);
  if (c >= 0x150 && c < 0x160) return row + n;                                   /* row_share, row_newbcast */
  if (c >= 0x160 && c < 0x170 && amd_rdna(m)) return row + (in ^ n);
  if (!amd_rdna(m) && c == 0x138) return l ? l - 1 : NOWHERE;                    /* wave_shr:1 */
  if (!amd_rdna(m) && c == 0x142) return row ? row - 1 : NOWHERE;                /* row_bcast:15 */
  if (!amd_rdna(m) && c == 0x143) return l >= 32 ? 31 : NOWHERE;                 /* row_bcast:31 */
  amd_fault(m, "DPP control 0x%x", c);
}

uint32_t amd_dpp_lane(amd_machine *m, const amd_instruction *i, uint32_t l, uint64_t on) {
  uint32_t from = moved(m, i, l);
  if (i->dpp == DPP_16 && (!(i->dpp_rows >> (l / 16) & 1) || !(i->dpp_banks >> (l / 4 & 3) & 1))) return NOWHERE;
  bool there = from != NOWHERE && (on >> from & 1 || i->dpp_inactive);
  if (there) return from;
  return i->dpp_bound ? AMD_LANES : NOWHERE;
}

static uint32_t known_scalar(amd_machine *m, const amd_operand *o, const char *what) {
  uint64_t u, v = amd_scalar(m, o, 1, &u);
  if (u) amd_fault(m, "%s was never written", what);
  return (uint32_t)v;
}

static void readlane(amd_machine *m) {
  const amd_instruction *i = m->i;
  uint64_t on = amd_exec(m);
  uint32_t lane = i->operation == AMD_V_READLANE ? known_scalar(m, &i->source[1], "the number of a lane") & (m->lanes - 1) : on ? (uint32_t)__builtin_ctzll(on) : 0;
  if (i->source[0].code < AMD_V0) {
    uint64_t u, v = amd_scalar(m, &i->source[0], 1, &u);
    amd_scalar_write(m, i->result[0].code, 1, v, u);
    return;
  }
  uint32_t r = amd_vector(m, i->source[0].code);
  amd_scalar_write(m, i->result[0].code, 1, m->w->v[r][lane], m->w->v_unknown[r][lane]);
}

static void writelane(amd_machine *m) {
  uint64_t u, v = amd_scalar(m, &m->i->source[0], 1, &u);
  uint32_t lane = known_scalar(m, &m->i->source[1], "the number of a lane") & (m->lanes - 1), r = amd_vector(m, m->i->result[0].code);
  m->w->v[r][lane] = (uint32_t)v, m->w->v_unknown[r][lane] = (uint32_t)u;
}

/* low_sources: bit 0: lanes that are off are read, too; bit 1: a lane that is not read gives 0. */
static void permlane(amd_machine *m) {
  const amd_instruction *i = m->i;
  uint64_t on = amd_exec(m), select = known_scalar(m, &i->source[1], "a selector") | (uint64_t)known_scalar(m, &i->source[2], "a selector") << 32;
  uint32_t s = amd_vector(m, i->source[0].code), d = amd_vector(m, i->result[0].code), v[AMD_LANES], u[AMD_LANES];
  memcpy(v, m->w->v[s], sizeof v), memcpy(u, m->w->v_unknown[s], sizeof u);
  AMD_EACH(on, l) {
    uint32_t row = (uint32_t)l & ~15u, from = (i->operation == AMD_V_PERMLANEX16 ? row ^ 16 : row) + (select >> 4 * (l & 15) & 15);
    if (on >> from & 1 || i->low_sources & 1) m->w->v[d][l] = v[from], m->w->v_unknown[d][l] = u[from];
    else if (i->low_sources & 2) m->w->v[d][l] = 0, m->w->v_unknown[d][l] = 0;
  }
}

static uint32_t swizzled(amd_machine *m, uint32_t l) {
  uint32_t p = (uint32_t)m->i->offset;
  if (p & 0x8000) {
    if (p & 0x7f00) amd_fault(m, "ds_swizzle with 0x%x", p);
    return (l & ~3u) + (p >> 2 * (l & 3) & 3);
  }
  return (l & ~31u) + ((((l & 31) & (p & 31)) | (p >> 5 & 31)) ^ (p >> 10 & 31));
}

/* A lane that is off gives bits that nobody wrote. The results come like those of a load from LOCAL. */
void amd_exchange(amd_machine *m, amd_flight *f) {
  const amd_instruction *i = m->i;
  bool swizzle = i->operation == AMD_DS_SWIZZLE;
  uint32_t a = amd_vector(m, i->source[0].code), s = amd_vector(m, i->source[swizzle ? 0 : 1].code);
  if (i->operation == AMD_DS_PERMUTE) amd_fault(m, "ds_permute_b32 is not written yet");
  AMD_EACH(f->on, l) {
    if (!swizzle && m->w->v_unknown[a][l]) amd_fault(m, "the number of a lane was never written");
    uint32_t from = swizzle ? swizzled(m, (uint32_t)l) : ((m->w->v[a][l] + (uint32_t)i->offset) >> 2) & (m->lanes - 1);
    f->data[l][0] = m->w->v[s][from], f->unknown[l][0] = f->on >> from & 1 ? m->w->v_unknown[s][from] : ~0u, f->mask[l] = ~0u;
  }
}

bool amd_execute_lanes(amd_machine *m) {
  switch (m->i->operation) {
  case AMD_V_READFIRSTLANE: case AMD_V_READLANE: return readlane(m), true;
  case AMD_V_WRITELANE: return writelane(m), true;
  case AMD_V_PERMLANE16: case AMD_V_PERMLANEX16: return permlane(m), true;
  default: return false;
  }
}
