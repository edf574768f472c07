/* SPDX-License-Identifier: MIT
 * tg measure, ports: how many independent instructions of a kind are done per cycle, or how many cycles lie between two
 * that are done one after another. */
#include "measure/body.h"

#if defined(__x86_64__)

/* ---- by width ---- */

#define FMA(V, S) TIMES(4, EACH(MANY, "vfmadd231ps %%" V "13, %%" V "12, %%" V "\\r"))
WIDTHS(multiply_add, FMA)
#define ADD(V, S) TIMES(4, EACH(MANY, "vaddps %%" V "13, %%" V "14, %%" V "\\r"))
WIDTHS(add, ADD)
#define LOAD(V, S) TIMES(4, EACH(MANY, "vmovaps " S "*\\r(%%rax), %%" V "\\r"))
WIDTHS(load, LOAD)
#define STORE(V, S) TIMES(4, EACH(MANY, "vmovaps %%" V "\\r, 8192+" S "*\\r(%%rax)"))
WIDTHS(store, STORE)
#define SHUFFLE(V, S) TIMES(4, EACH(MANY, "vunpcklps %%" V "13, %%" V "14, %%" V "\\r"))
WIDTHS(shuffle, SHUFFLE)
enum { OF_WIDTHS = 48 };

/* ---- of the widest kind ---- */

#define DIVIDE(V, S) EACH(MANY, "vdivps %%" V "13, %%" V "14, %%" V "\\r")
WIDTHS(divide, DIVIDE)
enum { OF_DIVISION = 12 };

#define CONVERT(from, to) TIMES(4, EACH(MANY, "vcvtph2ps %%" from "14, %%" to "\\r"))
BODY(convert_16, "xmm", CONVERT("xmm", "xmm"))
BODY(convert_32, "ymm", CONVERT("xmm", "ymm"))
BODY(convert_64, "zmm", CONVERT("ymm", "zmm"))
static measure_body *const convert[TG_MACHINE_WIDTHS] = {convert_16, convert_32, convert_64};

/* The lanes of a gather are 68 bytes apart; its mask is set each time, as the instruction clears it. */
#define GATHER(V)                                                      \
  "vmovups 12288(%%rax), %%" V "12" THEN                               \
  TIMES(2, EACH(LOWER, "vpcmpeqd %%" V "15, %%" V "15, %%" V "15" THEN \
                "vgatherdps %%" V "15, (%%rax,%%" V "12), %%" V "\\r"))
BODY(gather_16, "xmm", GATHER("xmm"))
BODY(gather_32, "ymm", GATHER("ymm"))
BODY(gather_64, "zmm", "vmovups 12288(%%rax), %%zmm12" THEN
     TIMES(2, EACH(LOWER, "kxnorw %%k0, %%k0, %%k1" THEN "vgatherdps (%%rax,%%zmm12), %%zmm\\r%{%%k1%}")))
static measure_body *const gather[TG_MACHINE_WIDTHS] = {gather_16, gather_32, gather_64};

/* Eight lanes from eight places, in two halves, as code without gathers has it. */
#define HALF(from, to)                                                                             \
  "vmovss " #from "(%%rax), %%xmm" to THEN "vinsertps $0x10, 68+" #from "(%%rax), %%xmm" to ", %%xmm" to THEN \
  "vinsertps $0x20, 136+" #from "(%%rax), %%xmm" to ", %%xmm" to THEN                                 \
  "vinsertps $0x30, 204+" #from "(%%rax), %%xmm" to ", %%xmm" to THEN
BODY(insert, "ymm", EACH(LOWER, HALF(0, "\\r") HALF(272, "12") "vinsertf128 $1, %%xmm12, %%ymm\\r, %%ymm\\r"))
enum { INSERTED = 8 * 8 };

/* Masks of the lower lanes but three, as at the end of a row. */
#define MASK "vmovups 12352(%%rax), %%ymm12" THEN
BODY(masked_store_32, "ymm", MASK TIMES(4, EACH(LOWER, "vmaskmovps %%ymm\\r, %%ymm12, 8192+32*\\r(%%rax)")))
#define MASK64 "mov $0x1fff, %%edx" THEN "kmovw %%edx, %%k1" THEN
BODY(masked_store_64, "zmm", MASK64 TIMES(4, EACH(LOWER, "vmovups %%zmm\\r, 8192+64*\\r(%%rax)%{%%k1%}")))
enum { MASKED = 32 };

/* ---- all together ---- */

/* Additions, address arithmetic, vectors and loads, in proportions that no kind of port is the limit of. */
BODY(mixed, "xmm",
     EACH("8,9,10,11,12,13,14,15", "add %%rdx, %%r\\r" THEN "lea 1(%%rdx), %%rsi" THEN "lea 2(%%rdx), %%rdi" THEN
          "vaddps %%xmm13, %%xmm14, %%xmm0" THEN "vmulps %%xmm13, %%xmm14, %%xmm1" THEN
          "vmovaps (%%rax), %%xmm2" THEN "vmovaps 16(%%rax), %%xmm3" THEN "nop"))
enum { MIXED = 64 };

static double cycles(measure *m, measure_body *body, int n) { return measure_cycles(m, m->probe, body, m->l1, 0) / n; }

static void by_width(measure *m, double *column, measure_body *const *bodies) {
  for (int w = 0; w < TG_MACHINE_WIDTHS; w++)
    column[w] = m->vectors[w] ? measure_rate(1 / cycles(m, bodies[w], OF_WIDTHS)) : 0;
}

void measure_ports(measure *m) {
  static const int lanes[TG_MACHINE_WIDTHS] = {4, 8, 16};
  tg_machine *r = &m->row;
  uint32_t w = m->widest;
  by_width(m, r->fma, multiply_add);
  r->clock = 1000 * measure_clock();
  by_width(m, r->add, add);
  by_width(m, r->load, load);
  by_width(m, r->store, store);
  by_width(m, r->shuffle, shuffle);
  r->issue = floor(1 / cycles(m, mixed, MIXED) + 0.5);
  r->divide = measure_halves(cycles(m, divide[w], OF_DIVISION));
  r->convert = measure_rate(1 / cycles(m, convert[w], OF_WIDTHS));
  r->gather_lane = cycles(m, gather[w], 2 * 8 * lanes[w]);
  r->insert_lane = cycles(m, insert, INSERTED);
  r->masked_store = cycles(m, w == 2 ? masked_store_64 : masked_store_32, MASKED);
}
#else
void measure_ports(measure *m) { (void)m; }
#endif
