/* SPDX-License-Identifier: MIT
 * A module of SPIR-V as LLVM writes it, made right: the ids of its blocks.
 *
 * LLVM keeps the ids of blocks by the address of the function and the number of the block, and forgets them when the
 * process ends. A later module whose function happens to lie at an address of an earlier one gets that one's ids for
 * some of its blocks, or all (docs/llvm.md, "Blocks of another module"). Everything else is numbered anew. So blocks
 * are given ids here, behind all others, in their order; which makes equal programs equal bytes as well. Two blocks of
 * a function with one id cannot be told apart: then the module is of no use.
 *
 * SPIR-V specification 1.0, section 2.3 (the layout of words) and 3.32 (the instructions). */
#include "jit/emit.h"

enum { HEAD = 5, BOUND = 3 };
enum {
  OP_STRING = 7,
  OP_IMPORT = 11,
  OP_ENTRY = 15,
  OP_MODE = 16,
  OP_FIRST_TYPE = 19,
  OP_LAST_TYPE = 38,
  OP_FUNCTION_END = 56,
  OP_PHI = 245,
  OP_LOOP_MERGE = 246,
  OP_SELECTION_MERGE = 247,
  OP_LABEL = 248,
  OP_BRANCH = 249,
  OP_BRANCH_CONDITIONAL = 250,
  OP_SWITCH = 251
};
enum { CONTRACTION_OFF = 31 };

/* Instructions of tg's programs that have no result. */
static bool has_none(uint32_t op) {
  static const uint16_t none[] = {0, 2, 3, 4, 5, 6, 8, 10, 14, 15, 16, 17, 39, 56, 62, 63, 64, 71, 72, 74, 75, 224, 225,
                                  228, 246, 247, 249, 250, 251, 252, 253, 254, 255, 256, 257, 317, 330, 331, 332};
  for (uint32_t i = 0; i < TG_COUNT(none); i++)
    if (none[i] == op) return true;
  return false;
}

/* The id that an instruction defines; 0: none, or a block's. */
static uint32_t result_of(const uint32_t *w) {
  uint32_t op = w[0] & 0xffff, words = w[0] >> 16;
  if (op == OP_LABEL || has_none(op)) return 0;
  bool first = op == OP_STRING || op == OP_IMPORT || (op >= OP_FIRST_TYPE && op <= OP_LAST_TYPE);
  return words > (first ? 1 : 2) ? w[first ? 1 : 2] : 0;
}

/* Which words of an instruction name blocks: those from `from` to `end`, `step` apart. */
typedef struct { uint32_t from, step, end; } places;

static places blocks_in(const uint32_t *w) {
  uint32_t words = w[0] >> 16;
  switch (w[0] & 0xffff) {
  case OP_LABEL: case OP_BRANCH: case OP_SELECTION_MERGE: return (places){1, 1, 2};
  case OP_LOOP_MERGE: return (places){1, 1, 3};
  case OP_BRANCH_CONDITIONAL: return (places){2, 1, 4};
  case OP_PHI: return (places){4, 2, words};
  default: return (places){0, 1, 0};
  }
}

typedef struct { uint32_t *w; size_t n; uint32_t next; } module;

/* Renames the blocks of the function between the words from and to. False: two have one id. */
static bool rename_blocks(module *m, tg_env *env, size_t from, size_t to) {
  struct pair { uint32_t was, is; };
  TG_VEC(struct pair) blocks = {0};
  for (size_t i = from; i < to; i += m->w[i] >> 16) {
    if ((m->w[i] & 0xffff) != OP_LABEL) continue;
    for (uint32_t b = 0; b < blocks.n; b++)
      if (blocks.data[b].was == m->w[i + 1]) return false;
    tg_push(env, &blocks, ((struct pair){m->w[i + 1], m->next++}));
  }
  for (size_t i = from; i < to; i += m->w[i] >> 16) {
    places p = blocks_in(&m->w[i]);
    for (uint32_t k = p.from; k < p.end && k < m->w[i] >> 16; k += p.step) {
      uint32_t b = 0;
      while (b < blocks.n && blocks.data[b].was != m->w[i + k]) b++;
      if (b == blocks.n) return false;
      m->w[i + k] = blocks.data[b].is;
    }
  }
  return true;
}

bool tg_spirv_mend(tg_env *env, void *data, size_t bytes) {
  module m = {data, bytes / sizeof(uint32_t), 1};
  uint32_t kernels = 0, uncontracted = 0;
  if (m.n <= HEAD || bytes % sizeof(uint32_t)) return false;
  for (size_t i = HEAD; i < m.n; i += m.w[i] >> 16) {
    uint32_t op = m.w[i] & 0xffff, words = m.w[i] >> 16, id;
    if (!words || words > m.n - i || op == OP_SWITCH) return false;
    if ((id = result_of(&m.w[i])) >= m.next) m.next = id + 1;
    kernels += op == OP_ENTRY;
    uncontracted += op == OP_MODE && m.w[i + 2] == CONTRACTION_OFF;
  }
  size_t from = HEAD;
  for (size_t i = HEAD; i < m.n; i += m.w[i] >> 16) {
    if ((m.w[i] & 0xffff) != OP_FUNCTION_END) continue;
    if (!rename_blocks(&m, env, from, i)) return false;
    from = i + (m.w[i] >> 16);
  }
  m.w[BOUND] = m.next;
  return kernels && uncontracted == kernels;
}
