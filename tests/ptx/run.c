/* SPDX-License-Identifier: MIT
 * A launch: group after group; in a group, warps; in a warp, threads with their own pc.
 *
 * In order: a warp runs until all of its lanes wait or have ended; of lanes at different places the lowest pc runs, so
 * that they meet again behind a branch, as they do on hardware. Drawn: any lane of any warp may be next, with some of
 * those that are at the same place, for a drawn number of instructions. Where lanes meet (bar.warp.sync, shfl, mma) they
 * wait for the others, and at bar.sync for the whole group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

uint32_t ptx_random(ptx_machine *m) {   /* xorshift64* */
  m->random ^= m->random >> 12;
  m->random ^= m->random << 25;
  m->random ^= m->random >> 27;
  return (uint32_t)((m->random * 2685821657736338717u) >> 32);
}

static uint32_t ready(const ptx_warp *w) { return w->there & ~(w->ended | w->met | w->halted); }

/* ---- a burst: lanes that run together ---- */

/* Lanes wait for the others that the instruction names; the last to come run it for all. True: it ran. */
static bool meet(ptx_machine *m, ptx_warp *w, uint32_t at, uint32_t mask, uint32_t members) {
  m->lane = (uint32_t)__builtin_ctz(mask);
  if (mask & ~members) ptx_fault(m, "the lane is not among those that it names: %08x", members);
  if (members & ~w->there || members & w->ended) ptx_fault(m, "waits for lanes that %s: %08x", members & ~w->there ? "there are not" : "have ended", members & (~w->there | w->ended));
  w->met |= mask;
  PTX_EACH(mask, lane) w->pc[lane] = at;
  uint32_t here = 0;
  PTX_EACH(w->met & members, lane) if (w->pc[lane] == at) here |= 1u << lane;
  if (here != members) return false;
  w->met &= ~members;
  ptx_execute_meeting(m, w, m->now, members);
  PTX_EACH(members, lane) w->pc[lane] = at + 1;
  return true;
}

static void count(ptx_machine *m, uint32_t at, uint32_t on) {
  ptx_count *c = &m->l->count[at];
  c->warps++;
  c->lanes += (uint32_t)__builtin_popcount(on);
  if (m->l->limit && ++m->steps > m->l->limit) ptx_fault(m, "more than %llu warp instructions", (unsigned long long)m->l->limit);
}

static void leave(ptx_warp *w, uint32_t mask, uint32_t at) { PTX_EACH(mask, lane) w->pc[lane] = at; }

static uint32_t guarded(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t mask) {
  if (i->guard < 0) return mask;
  uint32_t on = 0;
  const uint64_t *p = w->row + (size_t)i->guard * PTX_LANES;
  PTX_EACH(mask, lane) on |= (uint32_t)(p[lane] & 1) << lane;
  (void)m;
  return mask & (i->negated ? ~on : on);
}

/* Runs the lanes of mask from `at` on, while they stay together and below `until`. */
static void burst(ptx_machine *m, ptx_warp *w, uint32_t at, uint32_t mask, uint32_t until, uint32_t most) {
  m->at = w;
  for (; most && at < until; most--) {
    if (at >= m->k->instructions) ptx_fault(m, "runs beyond the last instruction");
    const ptx_instruction *i = m->now = &m->k->instruction[at];
    uint32_t on = guarded(m, w, i, mask), members = ptx_members(m, w, i, on);
    count(m, at, i->op == PTX_BRA ? mask : on);
    if (i->op == PTX_BRA) {
      if (on != mask && on) {
        leave(w, on, i->target);
        leave(w, mask & ~on, at + 1);
        return;
      }
      at = on ? i->target : at + 1;
    } else if (i->op == PTX_RET) {
      w->ended |= on;
      leave(w, mask & ~on, at + 1);
      return;
    } else if (members || (i->op == PTX_BAR && on)) {
      if (on != mask) ptx_fault(m, "some lanes have it off");
      if (!members) {
        if (ptx_row(m, w, &i->operand[0], 0)[0] || i->operands != 1) ptx_fault(m, "another barrier than 0");
        w->halted |= mask;
        leave(w, mask, at + 1);
        return;
      }
      if (!meet(m, w, at, mask, members) || mask != members) return;
      at++;
    } else {
      if (on) ptx_execute(m, w, i, on);
      at++;
    }
  }
  leave(w, mask, at);
}

/* ---- who is next ---- */

static uint32_t lanes_at(const ptx_warp *w, uint32_t mask, uint32_t pc) {
  uint32_t here = 0;
  PTX_EACH(mask, lane) if (w->pc[lane] == pc) here |= 1u << lane;
  return here;
}

static void in_order(ptx_machine *m, ptx_warp *w) {
  for (uint32_t r; (r = ready(w));) {
    uint32_t least = UINT32_MAX, next = UINT32_MAX;
    PTX_EACH(r, lane) if (w->pc[lane] < least) least = w->pc[lane];
    uint32_t mask = lanes_at(w, r, least);
    PTX_EACH(r & ~mask, lane) if (w->pc[lane] < next) next = w->pc[lane];
    burst(m, w, least, mask, next, UINT32_MAX);
  }
}

static void drawn(ptx_machine *m, ptx_warp *w) {
  uint32_t r = ready(w), turns = 1 + ptx_random(m) % 8;
  for (; r && turns; turns--, r = ready(w)) {
    uint32_t lane = ptx_random(m) % PTX_LANES;
    while (!(r >> lane & 1)) lane = (lane + 1) % PTX_LANES;
    uint32_t mask = lanes_at(w, r, w->pc[lane]);
    if (!(ptx_random(m) & 3)) mask &= ptx_random(m) | 1u << lane;
    burst(m, w, w->pc[lane], mask, UINT32_MAX, 1 + ptx_random(m) % 64);
  }
}

/* ---- a group ---- */

/* Nobody can run: the barrier is passed, or threads wait for what does not come. True: the group goes on. */
static bool release(ptx_machine *m, ptx_warp *warps) {
  uint64_t halted = 0, ended = 0;
  ptx_warp *one = NULL;
  for (uint32_t w = 0; w < m->warps; w++) {
    if (warps[w].met) {
      m->at = &warps[w];
      m->lane = (uint32_t)__builtin_ctz(warps[w].met);
      m->now = &m->k->instruction[warps[w].pc[m->lane]];
      ptx_fault(m, "waits for lanes of its warp that wait elsewhere: %08x wait here or in other places, %08x at the barrier, %08x have ended", warps[w].met,
                warps[w].halted, warps[w].ended);
    }
    halted += (uint32_t)__builtin_popcount(warps[w].halted);
    ended += (uint32_t)__builtin_popcount(warps[w].ended);
    if (warps[w].halted) one = &warps[w];
  }
  if (!halted) return false;
  m->at = one;
  m->lane = (uint32_t)__builtin_ctz(one->halted);
  m->now = &m->k->instruction[one->pc[m->lane] - 1];
  if (ended) ptx_fault(m, "%llu threads wait at the barrier, and %llu have ended", (unsigned long long)halted, (unsigned long long)ended);
  for (uint32_t w = 0; w < m->warps; w++) warps[w].halted = 0;
  m->barriers++;
  return true;
}

static void begin_warp(ptx_machine *m, ptx_warp *w, uint32_t number, const uint32_t *group) {
  const ptx_launch *l = m->l;
  uint64_t *row = w->row;
  ptx_free_copies(w);
  *w = (ptx_warp){.row = row, .number = number};
  for (size_t i = 0; i < (size_t)m->k->rows * PTX_LANES; i += 2) row[i] = row[i + 1] = ((uint64_t)ptx_random(m) << 32 | ptx_random(m)) ^ i;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
    if (number * PTX_LANES + lane < l->threads) w->there |= 1u << lane;
    for (uint32_t d = 0; d < 3; d++) {
      row[(ROW_TID + d) * PTX_LANES + lane] = d ? 0 : number * PTX_LANES + lane;
      row[(ROW_NTID + d) * PTX_LANES + lane] = d ? 1 : l->threads;
      row[(ROW_CTAID + d) * PTX_LANES + lane] = group[d];
      row[(ROW_NCTAID + d) * PTX_LANES + lane] = l->groups[d];
    }
    row[ROW_LANEID * PTX_LANES + lane] = lane;
    row[ROW_WARPID * PTX_LANES + lane] = number;
  }
}

static void run_group(ptx_machine *m, const uint32_t *group) {
  m->barriers = 0;
  m->now = NULL;
  ptx_begin_group(m);
  for (uint32_t w = 0; w < m->warps; w++) begin_warp(m, &m->warp[w], w, group);
  do {
    for (uint32_t left = m->warps, w; left;) {
      if (m->l->drawn) {
        w = ptx_random(m) % m->warps;
        drawn(m, &m->warp[w]);
        for (left = 0, w = 0; w < m->warps; w++) left += ready(&m->warp[w]) != 0;
      } else in_order(m, &m->warp[m->warps - left--]);
    }
  } while (release(m, m->warp));
}

/* ---- a launch ---- */

static void open_machine(ptx_machine *m) {
  const ptx_launch *l = m->l;
  m->warps = (l->threads + PTX_LANES - 1) / PTX_LANES;
  m->warp = calloc(m->warps, sizeof *m->warp);
  for (uint32_t w = 0; w < m->warps; w++) m->warp[w].row = calloc((size_t)m->k->rows * PTX_LANES + 2, sizeof(uint64_t));
  m->constant = calloc((size_t)m->k->constants * PTX_LANES + 1, sizeof(uint64_t));
  for (size_t c = 0; c < (size_t)m->k->constants * PTX_LANES; c++) m->constant[c] = m->k->constant[c / PTX_LANES];
  ptx_open_memory(m);
}

static void close_machine(ptx_machine *m) {
  ptx_close_memory(m);
  for (uint32_t w = 0; w < m->warps; w++) {
    ptx_free_copies(&m->warp[w]);
    free(m->warp[w].row);
  }
  free(m->warp);
  free(m->constant);
}

bool ptx_run(ptx_launch *l) {
  ptx_machine *m = calloc(1, sizeof *m);
  m->l = l;
  m->k = l->kernel;
  m->random = l->seed * 2862933555777941757u + 3037000493u;
  l->message[0] = 0;
  free(l->count);
  l->count = calloc(m->k->instructions + 1, sizeof *l->count);
  memset(l->traffic, 0, sizeof l->traffic);
  open_machine(m);
  bool ok = !setjmp(m->trap);
  if (ok) {
    if (m->k->threads && m->k->threads != l->threads) ptx_fault(m, "%s is for groups of %u threads, not of %u", m->k->name, m->k->threads, l->threads);
    if (m->k->params != l->buffers + l->params) ptx_fault(m, "%s takes %u arguments, not %u", m->k->name, m->k->params, l->buffers + l->params);
    for (uint32_t z = 0; z < l->groups[2]; z++)
      for (uint32_t y = 0; y < l->groups[1]; y++)
        for (uint32_t x = 0; x < l->groups[0]; x++, m->group++) run_group(m, (uint32_t[]){x, y, z});
  }
  close_machine(m);
  free(m);
  return ok;
}

void ptx_launch_free(ptx_launch *l) {
  free(l->count);
  l->count = NULL;
}
