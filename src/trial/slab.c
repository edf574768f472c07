/* SPDX-License-Identifier: MIT
 * If a kernel takes too long without a schedule, the reference is the kernel with the heuristic's schedule. To check
 * that reference, the kernel as written is run on a slab: a few iterations of its outermost loop, evenly spread from
 * the first to the last. */
#include "trial/trial.h"
#include "dsl/text.h"

/* The single loop around the whole program, of constant extent; NULL: the program has another form. */
static const tg_uop *only_loop(const tg_uop *plain) {
  const tg_uop *end = NULL;
  for (uint32_t i = 0; i < plain->n; i++) {
    if (plain->src[i]->op == TG_OP_DEFINE) continue;
    if (end || plain->src[i]->op != TG_OP_END) return NULL;
    end = plain->src[i];
  }
  return end && tg_extent(end->src[0])->op == TG_OP_CONST && tg_range_kind(end->src[0]) != TG_REDUCE &&
                 !tg_merge_of(end)
             ? end
             : NULL;
}

const char *tg_trial_slab(tg_job *j, tg_env *env, const tg_uop *author, double share) {
  const tg_uop *plain = tg_plain(j, author), *end = only_loop(plain);
  const char *why;
  if (!end || tg_loop_verdict(j, plain, end, &why) != TG_INDEPENDENT) return NULL;
  int64_t extent = tg_extent(end->src[0])->arg, n = (int64_t)((double)extent * share);
  if (n < 2) n = 2;
  if (n > 64) n = 64;
  if (extent <= n) return NULL;
  const tg_uop *r = end->src[0], *some = tg_range_new(j, "slab", tg_index(j, n), TG_LOOP, UINT32_MAX, (tg_pos){0});
  const tg_uop *at = tg_op2(j, TG_OP_IDIV, tg_op2(j, TG_OP_MUL, some, tg_index(j, extent - 1)), tg_index(j, n - 1));
  const tg_uop **body = tg_new(&j->env, const tg_uop *, end->n), **list = tg_new(&j->env, const tg_uop *, plain->n);
  for (uint32_t i = 1; i < end->n; i++) body[i - 1] = tg_substitute(j, end->src[i], 1, &r, &at);
  for (uint32_t i = 0; i < plain->n; i++)
    list[i] = plain->src[i] == end ? tg_end(j, some, end->n - 1, body) : plain->src[i];
  bool *partial = tg_new(&j->env, bool, j->buffers.n + 1);
  for (uint32_t b = 0; b < j->buffers.n; b++) {
    partial[b] = j->buffers.data[b].partial;
    if (j->buffers.data[b].role == TG_ROLE_OUT) j->buffers.data[b].partial = true;
  }
  tg_str text = tg_str_new(env);
  tg_print(j, &text, tg_versioned(j, tg_sink(j, plain->n, list)));
  for (uint32_t b = 0; b < j->buffers.n; b++) j->buffers.data[b].partial = partial[b];
  return text.data;
}

/* Copies the reference's result, overwrites it with the elements that the slab wrote, and compares: if the copy still
 * agrees with the reference, the slab does. */
const char *tg_trial_judge_slab(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind,
                                const void *slab) {
  const tg_trial_operand *o = &s->op[b];
  size_t size = (size_t)tg_type_bytes(o->type), written = 0;
  char *got = tg_alloc(env, o->bytes + 1), poison[16];
  memset(poison, 0xff, sizeof poison);
  memcpy(got, s->shared + o->want[kind], o->bytes);
  for (size_t i = 0; i < o->n; i++) {
    const char *x = (const char *)slab + i * size;
    if (!memcmp(x, poison, size)) continue;
    memcpy(got + i * size, x, size);
    written++;
  }
  return written || !o->n ? tg_trial_judge(s, env, b, kind, got)
                          : tg_format(env, "%s: the slab wrote nothing", o->name);
}
