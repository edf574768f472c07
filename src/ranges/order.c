/* SPDX-License-Identifier: MIT
 * An order of nodes that depends on structure only: parameters, products, other nodes, ranges, lanes, constants.
 * Within a class the key decides: the ordinal of parameters, ranges and buffers, else a hash of the structure. */
#include "ranges/known.h"

static int class_of(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_PARAM: return 0;
  case TG_OP_MUL: return 1;
  case TG_OP_RANGE: return 3;
  case TG_OP_IOTA: return 4;
  case TG_OP_CONST: return 5;
  default: return 2;
  }
}

/* Nodes that name a buffer have its ordinal in the top bits of the key, so that loads of one buffer are adjacent. */
static uint64_t compute(const tg_known *k, const tg_uop *u) {
  if (u->op == TG_OP_RANGE) return tg_range_ordinal(u) + 1;
  if (u->op == TG_OP_PARAM) return (uint64_t)u->arg + 1;
  uint64_t h = tg_mix((uint64_t)u->op | (uint64_t)u->type << 16 | (uint64_t)u->lanes << 32, (uint64_t)u->arg);
  for (uint32_t i = 0; i < u->n; i++)
    h = tg_mix(h, k->key[u->src[i]->id] ^ (u->src[i]->op == TG_OP_RANGE ? (uint64_t)1 << 40 : 0));
  h ^= h >> 32;
  if (u->op == TG_OP_DEFINE) h = ((uint64_t)u->arg & 0xffff) << 48 | h >> 16;
  else if (u->op == TG_OP_AFTER || u->op == TG_OP_LOAD) h = (k->key[u->src[0]->id] >> 48) << 48 | h >> 16;
  return h ? h : 1;
}

uint64_t tg_key_of(tg_job *j, const tg_uop *u) {
  tg_known *k = tg_known_of(j);
  if (u->id >= k->key_cap) {
    uint32_t cap = j->uops.n + j->uops.n / 2 + 64;
    uint64_t *wider = tg_new(&j->env, uint64_t, cap);
    if (k->key_cap) memcpy(wider, k->key, k->key_cap * sizeof *wider);
    k->key = wider;
    k->key_cap = cap;
  }
  if (k->key[u->id]) return k->key[u->id];
  k->key_stack.n = 0;
  tg_push(&j->env, &k->key_stack, u);
  while (k->key_stack.n) {
    const tg_uop *top = k->key_stack.data[k->key_stack.n - 1];
    uint32_t before = k->key_stack.n;
    if (!k->key[top->id] && top->op != TG_OP_RANGE)
      for (uint32_t i = 0; i < top->n; i++)
        if (!k->key[top->src[i]->id]) tg_push(&j->env, &k->key_stack, top->src[i]);
    if (k->key_stack.n != before) continue;
    if (!k->key[top->id]) k->key[top->id] = compute(k, top);
    k->key_stack.n--;
  }
  return k->key[u->id];
}

int tg_order(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (a == b) return 0;
  int ca = class_of(a), cb = class_of(b);
  if (ca != cb) return ca - cb;
  /* what is computed before what is read: chains as they are mostly written */
  if (a->op != b->op) return (int)b->op - (int)a->op;
  if (a->op == TG_OP_CONST) {
    if (a->type != b->type) return (int)a->type - (int)b->type;
    return a->arg < b->arg ? -1 : 1;
  }
  uint64_t x = tg_key_of(j, a), y = tg_key_of(j, b);
  if (x != y) return x < y ? -1 : 1;
  return a->id < b->id ? -1 : 1; /* two structures of one hash */
}
