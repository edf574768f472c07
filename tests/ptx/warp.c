/* SPDX-License-Identifier: MIT
 * Instructions at which lanes of a warp meet: bar.warp.sync, shfl.sync, vote.sync, mma, ldmatrix. */
#include "machine.h"

static uint32_t mask_operand(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on, uint32_t which) {
  uint32_t first = (uint32_t)__builtin_ctz(on);
  if (i->operands <= which) ptx_fault(m, "no mask of lanes");
  const uint64_t *mask = ptx_row(m, w, &i->operand[which], 0);
  PTX_EACH(on, lane) if ((uint32_t)mask[lane] != (uint32_t)mask[first]) ptx_fault(m, "lanes name different masks");
  return (uint32_t)mask[first];
}

/* A group whose threads do not fill its last warp: the mask of all lanes means those that there are (CUDA programming
 * guide, "Warp Shuffle Functions": lanes named must not have exited). */
uint32_t ptx_members(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  if (!on) return 0;
  switch (i->op) {
  case PTX_BAR: return i->field[FIELD_HOW] == HOW_WARP ? mask_operand(m, w, i, on, 0) : 0;
  case PTX_SHFL: return mask_operand(m, w, i, on, 4);
  case PTX_VOTE: return mask_operand(m, w, i, on, 2);
  case PTX_MMA:
  case PTX_LDMATRIX: return w->there;   /* .aligned: all threads of the warp execute it */
  default: return 0;
  }
}

/* PTX ISA, "shfl.sync": c holds the clamp in bits 0 to 4 and the mask of a segment in bits 8 to 12. */
static void shuffle(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0), *in = i->operand[0].n > 1 ? ptx_row(m, w, &i->operand[0], 1) : NULL, from[PTX_LANES];
  const uint64_t *a = ptx_row(m, w, &i->operand[1], 0), *b = ptx_row(m, w, &i->operand[2], 0), *c = ptx_row(m, w, &i->operand[3], 0);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) from[lane] = a[lane] & 0xffffffffu;
  PTX_EACH(on, lane) {
    uint32_t by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31, most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int64_t j = lane;
    bool valid;
    switch (i->field[FIELD_HOW]) {
    case HOW_UP: j -= by, valid = j >= (int64_t)most; break;
    case HOW_DOWN: j += by, valid = j <= (int64_t)most; break;
    case HOW_BFLY: j ^= by, valid = j <= (int64_t)most; break;
    default: j = least | (by & ~segment), valid = j <= (int64_t)most;
    }
    if (!valid) j = lane;
    m->lane = lane;
    if (!(on >> j & 1)) ptx_fault(m, "reads lane %d, which does not take part", (int)j);
    to[lane] = from[j];
    if (in) in[lane] = valid;
  }
}

static void vote(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  uint64_t *to = ptx_row(m, w, &i->operand[0], 0);
  const uint64_t *p = ptx_row(m, w, &i->operand[1], 0);
  uint32_t yes = 0, how = i->field[FIELD_HOW];
  PTX_EACH(on, lane) yes |= (uint32_t)(p[lane] & 1) << lane;
  PTX_EACH(on, lane) to[lane] = how == HOW_BALLOT ? yes : how == HOW_ANY ? yes != 0 : yes == on;
}

void ptx_execute_meeting(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on) {
  switch (i->op) {
  case PTX_BAR: w->meetings++; return;
  case PTX_SHFL: shuffle(m, w, i, on); return;
  case PTX_VOTE: vote(m, w, i, on); return;
  case PTX_MMA: ptx_execute_mma(m, w, i); return;
  default: ptx_execute_ldmatrix(m, w, i);
  }
}
