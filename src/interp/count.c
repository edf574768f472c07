/* SPDX-License-Identifier: MIT
 * Counts a program's operations, independently of the machine. The counts of two forms of one kernel differ by what the
 * schedule recomputes and by what lanes with nothing to store compute. The cost of a block is known when it is
 * compiled; loads, iterations of reductions and calls are counted at run time. */
#include "interp/code.h"

static bool of_floats(const tg_instr *x) { return tg_is_float(x->type) || tg_is_float(x->from); }

void tg_count_block(tg_block *b) {
  for (uint32_t i = 0; i < b->n; i++) {
    const tg_instr *x = &b->code[i];
    switch (x->code) {
    case C_LOAD: case C_REDUCE: case C_CALL: break;
    case C_CAST: case C_BITCAST: case C_WHERE: case C_SHUFFLE: case C_PERMUTE: b->moves += x->lanes; break;
    case C_FOLD: *(tg_is_float(x->type) ? &b->floats : &b->integers) += x->lanes - 1; break;
    case C_MATRIX: b->floats += x->lanes; break;
    default: *(of_floats(x) ? &b->floats : &b->integers) += x->op == TG_OP_FMA ? 2 * x->lanes : x->lanes;
    }
  }
}

void tg_count_run(tg_interpreter *m, const tg_block *b) {
  tg_interp_counts *c = m->counts;
  c->floats += b->floats;
  c->integers += b->integers;
  c->moves += b->moves;
}

/* The share shut / lanes of what was counted since then is counted as masked instead. */
void tg_count_masked(tg_interpreter *m, const tg_interp_counts *since, uint64_t shut, uint64_t lanes) {
  tg_interp_counts *c = m->counts;
  uint64_t floats = (c->floats - since->floats) * shut / lanes,
           functions = (c->functions - since->functions) * shut / lanes,
           loads = (c->loads - since->loads) * shut / lanes;
  c->floats -= floats;
  c->functions -= functions;
  c->loads -= loads;
  c->masked += floats + functions + loads;
}
