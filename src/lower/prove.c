/* SPDX-License-Identifier: MIT
 * Pass prove: takes the author's program and leaves it with every access proved in bounds and without the gates that
 * are always true, or fails at the author's line. The proofs themselves are in ranges/prove.c. */
#include "lower/lower.h"

const tg_uop *tg_pass_prove(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  (void)l;
  return tg_prove(j, sink);
}
