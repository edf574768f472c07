/* SPDX-License-Identifier: MIT
 * A dispatch while it runs: what run.c, memory.c, scalar.c, vector.c, lanes.c and matrix.c share. */
#ifndef TG_TEST_AMD_MACHINE_H
#define TG_TEST_AMD_MACHINE_H
#include <setjmp.h>
#include "amd.h"

enum { AMD_SCALARS = 128, AMD_VECTORS = 768, AMD_WAVES = 32, AMD_FLIGHTS = 256 };

/* Who last wrote a place, or read it since. What a wave did before a number of barriers that another has passed, too, has
 * happened before. */
typedef struct { uint32_t group, epoch, at; uint16_t wave, flags; } amd_stamp;   /* group: 0 nobody, else 1 + its number */
enum { STAMP_ATOMIC = 1, STAMP_WAVES = 2, STAMP_GROUPS = 4 };   /* several of the same kind */
typedef struct { uint64_t key; amd_stamp wrote, read; } amd_cell;

/* An access on its way: its results come, and others may rely on it, when its wave waits for it; not before. */
typedef enum { FLIGHT_LOAD = 1, FLIGHT_STORE = 2, FLIGHT_LOCAL = 4, FLIGHT_SCALAR = 8 } amd_counter;
typedef struct {
  amd_counter counter;
  const amd_instruction *i;
  uint32_t at, registers, bytes;        /* of the results: their number, and the bytes of one lane's access */
  uint16_t first;                       /* code of the first */
  bool local, writes, atomic;
  uint64_t on, address[2][AMD_LANES];
  uint32_t places;
  uint32_t data[AMD_LANES][16], unknown[AMD_LANES][16], mask[AMD_LANES];   /* mask: the bits of a register that come */
} amd_flight;

typedef struct {
  uint32_t s[AMD_SCALARS], s_unknown[AMD_SCALARS], scc, scc_unknown;       /* unknown: bits that nobody wrote */
  uint32_t v[AMD_VECTORS][AMD_LANES], v_unknown[AMD_VECTORS][AMD_LANES];  /* codes - 256 */
  uint8_t s_flying[AMD_SCALARS], v_flying[AMD_VECTORS][2], v_counter[AMD_VECTORS];   /* loads in flight into a half, and of which kind */
  amd_flight *flight[AMD_FLIGHTS];      /* oldest first */
  uint32_t flights, number, pc, epoch;  /* pc: index of a word behind the first */
  bool ended, waits, signalled;
} amd_wave;

typedef struct {
  amd_dispatch *d;
  amd_family f;
  uint32_t lanes, waves, group, position[3], vectors, accumulators, shift[2];   /* shift: of a cell: global, LOCAL */
  amd_instruction **instruction;        /* by word */
  uint32_t instructions;
  amd_wave *wave, *w;
  const amd_instruction *i;
  uint8_t *local, *local_unknown;
  amd_cell *local_cell, *cell;          /* cell: a hash table */
  uint64_t cells, used, random;
  bool flush, swaps;                    /* swaps: the code has loops of compare and swap */
  jmp_buf trap;
} amd_machine;

_Noreturn void amd_fault(amd_machine *m, const char *format, ...);
uint32_t amd_random(amd_machine *m);
#define AMD_EACH(mask, l) for (uint64_t left_ = (mask), l = 0; left_ && (l = (uint64_t)__builtin_ctzll(left_), 1); left_ &= left_ - 1)

static inline bool amd_rdna(const amd_machine *m) { return m->f <= AMD_RDNA4; }
static inline uint64_t amd_exec(const amd_machine *m) {
  return m->w->s[AMD_EXEC] | (m->lanes == 64 ? (uint64_t)m->w->s[AMD_EXEC + 1] << 32 : 0);
}

/* scalar.c: a scalar operand of 32 or 64 bits; its unknown bits */
uint64_t amd_scalar(amd_machine *m, const amd_operand *o, uint32_t words, uint64_t *unknown);
void amd_scalar_write(amd_machine *m, uint32_t code, uint32_t words, uint64_t v, uint64_t unknown);
bool amd_execute_scalar(amd_machine *m);        /* false: it is none */
/* Unknown bits of sums and products: from the lowest unknown bit of an operand upwards. */
static inline uint64_t amd_upward(uint64_t unknown) { return 0 - (unknown & (0 - unknown)); }
/* The register of a vector code, checked; halves: 1 low, 2 high. */
uint32_t amd_vector_part(amd_machine *m, uint32_t code, uint32_t halves);
static inline uint32_t amd_vector(amd_machine *m, uint32_t code) { return amd_vector_part(m, code, 3); }

/* memory.c */
void amd_open_memory(amd_machine *m);
void amd_begin_group(amd_machine *m);
void amd_close_memory(amd_machine *m);
bool amd_execute_memory(amd_machine *m);
void amd_wait(amd_machine *m, uint32_t counters, uint32_t n);   /* until at most n are in flight */

/* vector.c, lanes.c, matrix.c, number.c */
bool amd_execute_vector(amd_machine *m);
bool amd_execute_lanes(amd_machine *m);
void amd_exchange(amd_machine *m, amd_flight *f);     /* ds_bpermute, ds_swizzle */
bool amd_execute_matrix(amd_machine *m);
/* Lane from which lane l reads its first source under the DPP of the instruction; AMD_LANES: from none, zero; above: the
 * lane keeps its old result. */
uint32_t amd_dpp_lane(amd_machine *m, const amd_instruction *i, uint32_t l, uint64_t on);
float amd_single(uint32_t bits);
uint32_t amd_single_bits(float f);
double amd_double(uint64_t bits);
uint64_t amd_double_bits(double f);
double amd_half(uint32_t bits);
uint32_t amd_round_half(double v, int odd_below, bool to_zero);
double amd_small(char type, uint32_t bits);     /* '4': e4m3, '5': e5m2, 'n', 'z': the same of CDNA3; 'b': bf16 */
uint32_t amd_round_bf16(float f);
/* count.c */
void amd_count_access(amd_machine *m, const amd_flight *f);
#endif
