/* SPDX-License-Identifier: MIT
 * tg measure, latencies: chains of instructions each of which waits for the one before, and what a branch costs that
 * was
 * predicted wrongly. */
#include "measure/body.h"

#if defined(__x86_64__)
enum { LONG = 48 };

BODY(multiply_add, "ymm", TIMES(48, "vfmadd231ps %%ymm13, %%ymm14, %%ymm0"))
BODY(add, "ymm", TIMES(48, "vaddps %%ymm13, %%ymm0, %%ymm0"))

#define FORWARD(V) TIMES(48, "vmovups %%" V "0, 128(%%rax)" THEN "vmovups 128(%%rax), %%" V "0")
BODY(forward_16, "xmm", FORWARD("xmm"))
BODY(forward_32, "ymm", FORWARD("ymm"))
BODY(forward_64, "zmm", FORWARD("zmm"))
static measure_body *const forward[TG_MACHINE_WIDTHS] = {forward_16, forward_32, forward_64};

/* A branch by a bit of a random number (Marsaglia, Xorshift RNGs), which is 1 in half of the cases, or by one that is
 * always 0. The number goes on from round to round and burst to burst in the memory: predictors learn sequences of
 * thousands that come again. */
#define RANDOM                                                                            \
  "mov %%rsi, %%rdx" THEN "shl $13, %%rdx" THEN "xor %%rdx, %%rsi" THEN "mov %%rsi, %%rdx" THEN \
  "shr $7, %%rdx" THEN "xor %%rdx, %%rsi" THEN "mov %%rsi, %%rdx" THEN "shl $17, %%rdx" THEN    \
  "xor %%rdx, %%rsi" THEN
#  define BRANCHES(bit)                                                                                                \
    "mov (%%rax), %%rsi" THEN TIMES(16, RANDOM "test $" bit ", %%esi" THEN "jz 1f" THEN                                \
                                               "nop\n1:") "mov %%rsi, (%%rax)" THEN
BODY(guessed, "xmm", BRANCHES("1"))
BODY(known, "xmm", BRANCHES("0"))
enum { BRANCHED = 16, MANY_BRANCHES = 64000 };

static double cycles(measure *m, measure_body *body, int n) { return measure_cycles(m, m->probe, body, m->l1, 0) / n; }

void measure_latencies(measure *m) {
  tg_machine *r = &m->row;
  r->fma_latency = measure_count(cycles(m, multiply_add, LONG));
  r->add_latency = measure_count(cycles(m, add, LONG));
  r->forward = measure_count(cycles(m, forward[m->widest], LONG));
  /* so many branches that the share of wrong predictions is half in each burst */
  double wrong = measure_cycles(m, m->probe, guessed, m->l1, MANY_BRANCHES / BRANCHED);
  double right = measure_cycles(m, m->probe, known, m->l1, MANY_BRANCHES / BRANCHED);
  r->mispredict = floor(2 * (wrong - right) / BRANCHED + 0.5);
}
#else
void measure_latencies(measure *m) { (void)m; }
#endif
