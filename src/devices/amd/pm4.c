/* SPDX-License-Identifier: MIT
 * Builds streams of commands. Sources: Mesa, src/amd/common/sid.h (opcodes and fields) and src/amd/vulkan/radv_cs.c;
 * Linux, drivers/gpu/drm/amd/amdgpu (soc15d.h, nvd.h; sdma_v4_0.c to sdma_v7_0.c); AMD, "Radeon Southern Islands
 * Programming Guide" (the form of packets). docs/devices.md has the order of caches. */
#include <stdbool.h>
#include "devices/amd/pm4.h"

enum { DISPATCH_DIRECT = 0x15, EVENT_WRITE = 0x46, RELEASE_MEM = 0x49, ACQUIRE_MEM = 0x58, SET_SH_REG = 0x76 };
enum { CS_PARTIAL_FLUSH = 7 | 4 << 8, CACHE_FLUSH_AND_INV_TS = 0x14 | 5 << 8 };   /* event and its index */
enum { REGISTERS = 0xb000 };
enum {                                      /* addresses of registers, in bytes */
  START_X = 0xb810, PGM_LO = 0xb830, PGM_RSRC1 = 0xb848, RESOURCE_LIMITS = 0xb854, TMPRING_SIZE = 0xb860,
  SCRATCH_BASE_LO = 0xb840, USER_ACCUM_0 = 0xb890, PGM_RSRC3 = 0xb8a0, PGM_RSRC3_GFX9 = 0xb8b4,
  INTERLEAVE = 0xb8bc, USER_DATA_0 = 0xb900
};

typedef enum { BEGIN, BETWEEN, END } order;

static uint32_t order_bits(order o, tg_amd_generation g) {
#define ORDER(name, generation, bits) [name][TG_AMD_##generation] = bits,
  static const uint32_t rows[3][4] = {
#include "devices/amd/caches.def"
  };
  return rows[o][g];
}

static void word(tg_amd_stream *s, uint32_t w) { s->at[s->n++] = w; }
static void address(tg_amd_stream *s, uint64_t a) { word(s, (uint32_t)a), word(s, (uint32_t)(a >> 32)); }

/* words: how many follow. compute: it concerns shaders of compute, where a packet is for those of graphics as well */
static void packet(tg_amd_stream *s, uint32_t op, uint32_t words, bool compute) {
  word(s, 3u << 30 | (words - 1) << 16 | op << 8 | (compute ? 2 : 0));
}

/* The values of n registers from this one on follow. */
static void registers(tg_amd_stream *s, uint32_t first, uint32_t n) {
  packet(s, SET_SH_REG, n + 1, true);
  word(s, (first - REGISTERS) / 4);
}

static void set(tg_amd_stream *s, uint32_t which, uint32_t value) { registers(s, which, 1), word(s, value); }

/* ---- order ---- */

/* Waits for all dispatches before, of earlier streams of the ring as well. */
static void wait_for_dispatches(tg_amd_stream *s) {
  packet(s, EVENT_WRITE, 1, false);
  word(s, CS_PARTIAL_FLUSH);
}

static void acquire(tg_amd_stream *s, uint32_t bits) {
  bool gfx9 = s->generation == TG_AMD_GFX9;
  packet(s, ACQUIRE_MEM, gfx9 ? 6 : 7, false);
  word(s, gfx9 ? bits : 0);
  word(s, 0xffffffff), word(s, 0xffffff);   /* all of memory */
  address(s, 0);
  word(s, 10);                              /* how often to ask whether it is done */
  if (!gfx9) word(s, bits);
}

/* data: 0 none, 3 the clock. */
static void release(tg_amd_stream *s, uint32_t bits, uint32_t data, uint64_t to) {
  packet(s, RELEASE_MEM, 7, false);
  word(s, CACHE_FLUSH_AND_INV_TS | bits);
  word(s, data << 29 | (data ? 3u << 24 : 0));   /* the data are written once all writes before have arrived */
  address(s, to);
  address(s, 0);
  word(s, 0);
}

void tg_amd_between(tg_amd_stream *s) { wait_for_dispatches(s), acquire(s, order_bits(BETWEEN, s->generation)); }
void tg_amd_end(tg_amd_stream *s) { release(s, order_bits(END, s->generation), 0, 0); }
void tg_amd_stamp(tg_amd_stream *s, uint64_t to) { release(s, 0, 3, to); }

/* ---- dispatches ---- */

/* Registers keep what an earlier stream has written, another program's as well: all that matter are written, those that
 * are the same for all dispatches once in a stream. */
static void set_common(tg_amd_stream *s) {
  set(s, RESOURCE_LIMITS, 0);
  set(s, TMPRING_SIZE, 0);
  if (s->generation != TG_AMD_GFX9) {
    registers(s, USER_ACCUM_0, 4);
    for (int i = 0; i < 4; i++) word(s, 0);
  }
  if (s->generation >= TG_AMD_GFX11) {
    registers(s, SCRATCH_BASE_LO, 2);
    address(s, 0);
    set(s, INTERLEAVE, 64);
  }
}

void tg_amd_begin(tg_amd_stream *s) {
  wait_for_dispatches(s), acquire(s, order_bits(BEGIN, s->generation));
  set_common(s);
}

void tg_amd_dispatch_put(tg_amd_stream *s, const tg_amd_dispatch *d) {
  enum { ENABLE = 1, START_AT_000 = 1 << 2, ANY_ORDER = 1 << 6, WAVE32 = 1 << 15, LOCAL_SHIFT = 15 };
  uint32_t local = (d->local + d->local_unit - 1) / d->local_unit;
  registers(s, PGM_LO, 2);
  word(s, (uint32_t)(d->entry >> 8)), word(s, (uint32_t)(d->entry >> 40) & 0xff);
  registers(s, PGM_RSRC1, 2);
  word(s, d->rsrc1), word(s, d->rsrc2 | local << LOCAL_SHIFT);
  set(s, s->generation == TG_AMD_GFX9 ? PGM_RSRC3_GFX9 : PGM_RSRC3, d->rsrc3);
  registers(s, USER_DATA_0 + 4 * d->arguments_register, 2);
  address(s, d->arguments);
  registers(s, START_X, 6);
  for (int i = 0; i < 3; i++) word(s, 0);
  word(s, d->threads), word(s, 1), word(s, 1);
  packet(s, DISPATCH_DIRECT, 4, true);
  for (int i = 0; i < 3; i++) word(s, d->groups[i]);
  word(s, ENABLE | START_AT_000 | ANY_ORDER | (d->wave32 ? WAVE32 : 0));
}

static void no_operation(tg_amd_stream *s) { word(s, 0xffff1000); }   /* of one word alone */

void tg_amd_pad(tg_amd_stream *s) {
  while (s->n % 8) no_operation(s);
}

/* ---- copy engines ---- */

void tg_amd_copy(tg_amd_stream *s, uint64_t to, uint64_t from, uint32_t bytes) {
  word(s, 1);                               /* a copy, linear */
  word(s, bytes - 1), word(s, 0);
  address(s, from), address(s, to);
}

/* An engine waits for its copies at a no operation: Mesa, src/amd/common/ac_cmdbuf_sdma.c. */
void tg_amd_copy_between(tg_amd_stream *s) { word(s, 0); }

void tg_amd_copy_stamp(tg_amd_stream *s, uint64_t to) {
  tg_amd_copy_between(s);
  word(s, 13 | 2 << 8);                     /* the clock that all rings read */
  address(s, to);
}

void tg_amd_copy_pad(tg_amd_stream *s) {
  while (s->n % 8) word(s, 0);
}
