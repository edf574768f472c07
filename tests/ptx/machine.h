/* SPDX-License-Identifier: MIT
 * A launch while it runs: what run.c, memory.c, execute.c, matrix.c and count.c share. */
#ifndef TG_TEST_PTX_MACHINE_H
#define TG_TEST_PTX_MACHINE_H
#include <setjmp.h>
#include "ptx.h"

/* Who last wrote a place, or read it since. A thread passes `barriers` of its group and `meetings` (bar.warp.sync) of
 * its warp; what stands in a lower number of either, on the same side, has happened before. */
typedef struct { uint32_t group, barriers, meetings, line; uint16_t thread, flags; } ptx_stamp;
enum { STAMP_ATOMIC = 1, STAMP_THREADS = 2, STAMP_WARPS = 4, STAMP_GROUPS = 8 };   /* several of the same kind */
typedef struct { ptx_stamp wrote, read; } ptx_cell;      /* group 0: nobody; else 1 + its number */

/* A piece of memory: a buffer, or LOCAL of the group that runs. */
typedef struct {
  const char *name;
  uint8_t *data;
  size_t bytes;
  uint64_t base;                        /* address of data */
  uint32_t shift;                       /* of the granule that cells stand for */
  bool written, local;
  ptx_cell *cell;
  uint8_t *flying;                      /* LOCAL, by granule: a cp.async that has not been waited for */
  uint8_t *sector;                      /* by sector of 32 bytes: 1 read, 2 written */
} ptx_memory;

typedef struct { uint64_t to, from; uint32_t bytes, taken, line; uint8_t seen[16]; } ptx_copy;
/* Copies of a thread, oldest first; ends[g]: copies in the groups up to g. */
typedef struct { ptx_copy *copy; uint32_t *end; uint32_t copies, landed, ends, room_copies, room_ends; } ptx_flight;

typedef struct {
  uint64_t *row;                        /* rows of PTX_LANES values */
  uint32_t pc[PTX_LANES];
  uint32_t number, there, ended, met, halted;   /* masks: lanes that wait for others of the warp; for the group */
  uint32_t meetings;
  ptx_flight flight[PTX_LANES];
} ptx_warp;

typedef struct {
  ptx_launch *l;
  const ptx_kernel *k;
  const ptx_instruction *now;           /* being executed, by `warp`, and the lane that memory.c looks at */
  ptx_warp *warp, *at;
  uint32_t lane, warps, group, barriers;
  uint64_t *constant;                   /* rows */
  ptx_memory buffer[PTX_BUFFERS], local;
  uint64_t random, steps;
  jmp_buf trap;
} ptx_machine;

_Noreturn void ptx_fault(ptx_machine *m, const char *format, ...);
uint32_t ptx_random(ptx_machine *m);

/* Lanes of a mask, one after the other. */
#define PTX_EACH(mask, l) for (uint32_t left_ = (mask), l = 0; left_ && (l = (uint32_t)__builtin_ctz(left_), 1); left_ &= left_ - 1)

static inline uint64_t *ptx_row(const ptx_machine *m, ptx_warp *w, const ptx_operand *o, uint32_t element) {
  int32_t row = m->k->value[o->first + element];
  return row < 0 ? m->constant + (size_t)~row * PTX_LANES : w->row + (size_t)row * PTX_LANES;
}
static inline uint64_t ptx_mask(uint32_t bits) { return bits >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1; }
static inline int64_t ptx_extend(uint64_t v, uint32_t bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }

/* memory.c */
typedef enum { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC } ptx_access;
void ptx_open_memory(ptx_machine *m);
void ptx_close_memory(ptx_machine *m);
void ptx_begin_group(ptx_machine *m);   /* LOCAL as it is before anything was written */
/* The place of an access by lane m->lane of m->at, checked and recorded. */
uint8_t *ptx_reach(ptx_machine *m, uint32_t space, uint64_t address, uint32_t bytes, ptx_access how);
void ptx_execute_memory(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);   /* ld, st, atom, red */
/* copies.c: cp.async; a copy is made when its thread waits for it, the latest moment that the rules allow */
void ptx_execute_copy(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);
void ptx_free_copies(ptx_warp *w);

/* execute.c: on: lanes whose guard holds */
void ptx_execute(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);
/* convert.c */
void ptx_execute_cvt(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);
double ptx_to_double(ptx_type t, uint64_t bits);
/* To nearest even, odd_below: the value lies a little above v in magnitude, if it is > 0, or below, if < 0; NaN is the
 * one that PTX calls canonical. */
uint64_t ptx_round(ptx_type t, double v, int odd_below);
/* warp.c: instructions for which lanes of a warp meet */
uint32_t ptx_members(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);   /* 0: it is none of them */
void ptx_execute_meeting(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t on);
void ptx_execute_mma(ptx_machine *m, ptx_warp *w, const ptx_instruction *i);
void ptx_execute_ldmatrix(ptx_machine *m, ptx_warp *w, const ptx_instruction *i);
/* count.c: an access of a warp, each lane of `on` at its address */
void ptx_count_access(ptx_machine *m, const ptx_instruction *i, uint32_t space, const uint64_t *address, uint32_t bytes, uint32_t on, bool writes);
#endif
