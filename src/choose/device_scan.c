/* SPDX-License-Identifier: MIT
 * Scans on GPUs: a loop that stores its sums so far. It is taken by blocks of threads (`group`); and where one
 * workgroup for each scan would leave most of the GPU idle, in parts by workgroups of their own (`thread`), after a
 * launch that sums each part. */
#include "choose/device.h"

enum {
  WARPS = 8,           /* of a workgroup */
  GROUPS_A_CORE = 2,   /* at least, so that one computes while another waits for memory */
  BLOCKS = 4,          /* of a part, at least: the sum of the parts before it, which a group takes once, is about one */
  RUN_BYTES = 16       /* neighbours of a thread: the widest access */
};

static int64_t block_of(const tg_nest *n, const tg_uop *end) {
  int64_t lanes = n->l->target->lanes, run = RUN_BYTES / tg_type_bytes(tg_stored(end->src[1])->type);
  int64_t block = WARPS * lanes * (run < 1 ? 1 : run), extent = tg_iterations(end->src[0]);
  while (block > lanes && extent > 0 && block / 2 >= extent) block /= 2;
  return block;
}

/* Iterations of a part: whole blocks, as many as leave each core its groups. 0: one part. */
static int64_t part_of(const tg_nest *n, int64_t extent, double scans, int64_t block) {
  int64_t parts = (int64_t)(GROUPS_A_CORE * (double)n->l->target->threads / scans + 0.999);
  int64_t most = extent / (BLOCKS * block);
  if (parts > most) parts = most;
  if (parts < 2 || scans >= n->l->target->threads) return 0;
  for (int64_t p = parts; p <= 2 * parts && p <= most; p++)
    if (extent % (p * block) == 0) return extent / p;
  return (extent / parts + block - 1) / block * block;
}

/* The scan below u, as the last of its list; around: the iterations of the loops around it, -1 if not known. */
static const tg_uop *scan_below(tg_nest *n, const tg_uop *u, double *around) {
  *around = 1;
  for (; u->op == TG_OP_END; u = u->src[u->n - 1]) {
    tg_kind kind = tg_range_kind(u->src[0]);
    if (tg_scan_of(&n->s, u)) return kind == TG_LOOP ? u : NULL;
    if (kind != TG_LOOP && kind != TG_GLOBAL) return NULL;
    *around = *around > 0 && tg_iterations(u->src[0]) > 0 ? *around * (double)tg_iterations(u->src[0]) : -1;
  }
  return NULL;
}

bool tg_device_scan(tg_nest *n, const tg_uop *top) {
  double around;
  const tg_uop *end = scan_below(n, top, &around);
  if (!end || tg_type_bytes(tg_stored(end->src[1])->type) > RUN_BYTES) return false;
  const char *name = tg_device_name(n, end->src[0]), *b = tg_nest_base(n, name);
  int64_t block = block_of(n, end), extent = tg_iterations(end->src[0]);
  int64_t part = around > 0 && extent > 0 ? part_of(n, extent, around, block) : 0;
  if (part && tg_device_word(n, "thread %s %lld as %s.p %s.q", name, (long long)part, b, b))
    name = tg_format(&n->j->env, "%s.q", b);
  return tg_device_word(n, "group %s %lld as %s.b %s.t", name, (long long)block, b, b);
}
