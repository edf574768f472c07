/* SPDX-License-Identifier: MIT
 * One lane of a vector instruction: its operands, as bits, and its result. Each function computes the operations that it
 * knows, and says whether this is one. */
#ifndef TG_TEST_AMD_ARITHMETIC_H
#define TG_TEST_AMD_ARITHMETIC_H
#include "machine.h"

typedef struct {
  amd_machine *m;
  const amd_instruction *i;
  uint32_t lane;
  uint64_t v[4], u[4], d;               /* operands, their unknown bits; the result */
  bool carry;                           /* into v_div_fmas; out of additions and v_div_scale */
} amd_lane;
bool amd_floats(amd_lane *x);
bool amd_integers(amd_lane *x);
bool amd_conversions(amd_lane *x);
bool amd_packed(amd_lane *x);
bool amd_compare(amd_lane *x);
#endif
