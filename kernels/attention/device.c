/* SPDX-License-Identifier: MIT
 * The body for devices: a workgroup for each block of BQ queries of a head, both products by matrix instructions,
 * whose tiles stay in registers. Where there is no such instruction, a block is one query, and its sums are plain. The
 * tiles of scores, weights and results have the layout of the accumulator, so maximum, sum and rescaling are done where
 * they lie. */
#include "attention/body.h"
#include "target/matrix.h"

const char *tg_attention_matrix(const tg_target *t, tg_type type) {
  const tg_matrix_row *r;
  for (uint32_t i = 0; (r = tg_matrix_at(i)); i++)
    if (tg_matrix_on(r, t) && r->a_type == type && r->b_type == type && r->c_type == TG_F32) return r->name;
  return NULL;
}

/* V of a key that a row does not see is multiplied by a weight of 0: there an infinity or NaN in V shows, as in the
 * products of matrix instructions nothing can be left out. */
TG_KERNEL(attention_device, ) {
  const tg_attention_problem *p = tg_user;
  const tg_matrix_row *r = p->matrix ? tg_matrix_find(p->matrix) : NULL;
  const char *type = tg_type_name[p->v], *key = "kb*BK + j",
             *k = text("K[batch, head/%lld, kb*BK + j, c] else 0", (long long)p->group),
             *v = text("V[batch, head/%lld, kb*BK + j, d] else 0", (long long)p->group),
             *end = p->causal   ? "min(N, min(M, g*BQ + BQ) + at)"
                    : p->window ? "min(N, min(M, g*BQ + BQ) + at + window - 1)"
                                : "N";
  enum { PLAIN_KEYS = 16 };
  tg_let(BQ, r ? r->m : 1);
  tg_knob(BLOCKS, 1, 2, 4);
  tg_let(BK, tg_c(BLOCKS) * (!r ? PLAIN_KEYS : r->n > r->k ? r->n : r->k));
  tg_attention_declare(tg_b_, p);
  tg_range(batch, B, global) tg_range(head, H, global) tg_range(g, ceildiv(M, BQ), global) {
    tg_define_reg(s, f32, [BQ, BK]);
    tg_kit_declare(tg_b_, "define_reg", "p, %s, [BQ, BK]", type);
    tg_define_reg(o, f32, [BQ, E]);
    tg_define_reg(m, f32, [BQ]);
    tg_define_reg(m1, f32, [BQ]);
    tg_define_reg(z, f32, [BQ]);
    tg_define_reg(by, f32, [BQ]);
    tg_define_reg(l, f32, [BQ]);
    tg_range(i, BQ) {
      tg_range(d, E) tg(o[i,d] = 0);
      tg(m[i] = -inf);
      tg(l[i] = 0);
    }
    TG_KIT_RANGE(kb, text("kb, ceildiv(%s, BK)", end)) {
      const char *sum = text("sum(c : D, f32(Q[batch, head, g*BQ + i, c] else 0) * f32(%s))", k);
      tg_range(i, BQ) tg_range(j, BK)
        say("s[i,j] = pick(%s, %s, -inf)", tg_attention_seen(tg_b_, p, key, "kb*BK + j < N"),
            tg_attention_score(tg_b_, p, text("(scale * %s)", sum), key));
      tg_range(i, BQ) {
        tg(m1[i] = max(m[i], max(j : BK, s[i,j])));
        tg(z[i] = where(m1[i] == -inf, 0, m1[i]));
        tg(by[i] = exp2(m[i] - z[i]));
        tg_range(j, BK) say("p[i,j] = %s(exp2(s[i,j] - z[i]))", type);
        tg(l[i] = l[i] * by[i] + sum(j : BK, f32(p[i,j])));
        tg_range(d, E) say("o[i,d] = o[i,d] * by[i] + sum(j : BK, f32(p[i,j]) * f32(%s))", v);
        tg(m[i] = m1[i]);
      }
    }
    tg_range(i, BQ) tg_range(d, E)
      say("O[batch, head, g*BQ + i, d] = %s if g*BQ + i < M", tg_attention_result(tg_b_, p, "o[i,d]", "l[i]"));
    if (p->lse)
      tg_range(i, BQ)
        say("lse[batch, head, g*BQ + i] = %s if g*BQ + i < M", tg_attention_lse(tg_b_, p, "m[i]", "l[i]"));
  }
  if (!r) return;
  tg_kit_word(tg_b_, "contract %s i=i j=s.j k=s.c", p->matrix);
  tg_kit_word(tg_b_, "contract %s i=i j=o.d k=p.j", p->matrix);
}
const tg_kernel_def *const tg_attention_device = &attention_device;
