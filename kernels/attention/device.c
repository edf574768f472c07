/* SPDX-License-Identifier: MIT
 * The body for devices: a workgroup for each block of BQ queries of a head, both products by matrix instructions,
 * whose tiles stay in registers. Where there is no such instruction, a block is one query, and its sums are plain.
 * Blocks of keys that all its queries see come first, then those that the masks or the last key cut. The tiles of
 * scores, weights and results have the layout of the accumulator, so maximum, sum and rescaling are done where they
 * lie. */
#include "attention/body.h"
#include "target/matrix.h"

const char *tg_attention_matrix(const tg_target *t, tg_type type, int64_t head, int64_t value_head) {
  const tg_matrix_row *r;
  for (uint32_t i = 0; (r = tg_matrix_at(i)); i++)
    if (tg_matrix_on(r, t) && r->a_type == type && r->b_type == type && r->c_type == TG_F32 && tg_matrix_is_plain(r) &&
        head % r->k == 0 && value_head % r->n == 0)
      return r->name;
  return NULL;
}

/* A block of keys is whole, if all rows of the workgroup see all its keys, or cut. A cut one has the condition in each
 * score, and a key behind the last one stands for the last one, so that no load needs a condition. */
static const char *element(tg_builder *tg_b_, const tg_attention_problem *p, char name, const char *x, bool cut) {
  return text(cut ? "%c[batch, head/%lld, min(kb*BK + j, N - 1), %s]" : "%c[batch, head/%lld, kb*BK + j, %s]", name,
              (long long)p->group, x);
}

static void scores(tg_builder *tg_b_, const tg_attention_problem *p, bool cut) {
  const char *c = cut ? "x" : "c", *key = "kb*BK + j",
             *sum = text("(scale * sum(%s : D, f32(Q[batch, head, g*BQ + i, %s] else 0) * f32(%s)))", c, c,
                         element(tg_b_, p, 'K', c, cut)),
             *score = tg_attention_score(tg_b_, p, sum, key);
  tg_range(i, BQ) tg_range(j, BK) {
    if (cut) say("s[i,j] = pick(%s, %s, -inf)", tg_attention_seen(tg_b_, p, key, "kb*BK + j < N"), score);
    else say("s[i,j] = %s", score);
  }
}

/* A function of V of a cut block, laid out so that an instruction's lane reads the keys of an element side by side. */
static void copy_cut(tg_builder *tg_b_, const tg_attention_problem *p, const char *value) {
  tg_range(j, BK) tg_range(w, E, lane) {
    say("let v = f32(%s)", element(tg_b_, p, 'V', "w", true));
    say("cut[w,j] = %s(%s)", tg_type_name[p->v], value);
  }
}

/* A product cannot leave out a key that only some of its rows see, and the weight 0 times an infinity or NaN in V is
 * NaN. So the product of a cut block takes 0 for these, and a second one counts for each row and element how many of
 * them have a weight, of each kind in digits of their own: 1 for inf, 2^8 for -inf, 2^15 for NaN. f16 and bf16 hold
 * these exactly, and f32 adds them exactly. Then o gets what they add up to. */
static void add_infinite(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *type = tg_type_name[p->v];
  tg_let(ED, tg_matrix_find(p->matrix)->n);   /* elements at a time: sums for all at once take too many registers */
  tg_define_local(counts, f32, [BQ, E]);
  copy_cut(tg_b_, p, "where(v == inf, 1, where(v == -inf, 256, where(v == v, 0, 32768)))");
  tg_range(i, BQ) tg_range(j, BK) say("p[i,j] = where(p[i,j] > 0, %s(1), %s(0))", type, type);
  tg_range(e, E/ED) tg_range(i, BQ) tg_range(y, ED)
    tg(counts[i, e*ED + y] = sum(j : BK, f32(p[i,j]) * f32(cut[e*ED + y, j])));
  tg_range(i, BQ) tg_range(d, E) {
    tg(let n = counts[i,d]);
    tg(o[i,d] = o[i,d] + where(n == 0, 0, where(n < 256, inf, where(n < 32768 & (i32(n) & 255) == 0, -inf, nan))));
  }
}

static void block(tg_builder *tg_b_, const tg_attention_problem *p, bool cut) {
  const char *type = tg_type_name[p->v], *v = element(tg_b_, p, 'V', "d", cut);
  if (cut && !p->matrix) v = text("pick(p[i,j] != 0, %s, 0)", v);
  if (cut && p->matrix) {
    v = "cut[d,j]";
    tg_kit_declare(tg_b_, "define_local", "cut, %s, [E, BK]", type);
    copy_cut(tg_b_, p, "where(abs(v) < inf, v, 0)");
  }
  scores(tg_b_, p, cut);
  tg_range(i, BQ) {
    tg(m1[i] = max(m[i], max(j : BK, s[i,j])));
    tg(z[i] = where(m1[i] == -inf, 0, m1[i]));
    tg(by[i] = exp2(m[i] - z[i]));
    tg_range(j, BK) say("p[i,j] = %s(exp2(s[i,j] - z[i]))", type);
    tg(l[i] = l[i] * by[i] + sum(j : BK, f32(p[i,j])));
    tg_range(d, E) say("o[i,d] = o[i,d] * by[i] + sum(j : BK, f32(p[i,j]) * f32(%s))", v);
    tg(m[i] = m1[i]);
  }
  if (cut && p->matrix) add_infinite(tg_b_, p);
}

/* Which blocks there are, and which of them are whole: `front` cut ones from block `first` on (of a window), then the
 * whole ones from `whole` to full - 1, then `back` cut ones. */
static void divide(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *row = "at + g*BQ", *last = "min(M, g*BQ + BQ) + at", *end = "N", *full = "(N - N % BK)/BK", *upper = NULL;
  if (p->causal) end = text("min(N, %s)", last), upper = text("(%s + 1)", row);
  else if (p->window) end = text("min(N, %s + window - 1)", last), upper = text("(%s + window)", row);
  if (upper) full = text("min(%s, (%s - %s %% BK)/BK)", full, upper, upper);
  say("let blocks = ceildiv(%s, BK)", end);
  if (p->window) {
    say("let from = %s - window + 1", row);
    tg(let first = max(0, (from - from % BK)/BK));
    say("let whole = max(0, ceildiv(%s + BQ - window, BK))", row);
  } else {
    tg(let first = index(0));
    tg(let whole = index(0));
  }
  if (p->mask_mod || p->mask == TG_BOOL) tg(let full = whole);
  else say("let full = %s", full);
  tg(let front = max(0, min(whole, blocks) - first));
  tg(let behind = max(whole, full));
  tg(let back = max(0, blocks - behind));
}

TG_KERNEL(attention_device, ) {
  const tg_attention_problem *p = tg_user;
  const tg_matrix_row *r = p->matrix ? tg_matrix_find(p->matrix) : NULL;
  enum { PLAIN_KEYS = 16 };
  tg_let(BQ, r ? r->m : 1);
  tg_knob(BLOCKS, 1, 2, 4);
  tg_let(BK, tg_c(BLOCKS) * (!r ? PLAIN_KEYS : r->n > r->k ? r->n : r->k));
  tg_attention_declare(tg_b_, p);
  tg_range(batch, B, global) tg_range(head, H, global) tg_range(g, ceildiv(M, BQ), global) {
    tg_define_reg(s, f32, [BQ, BK]);
    tg_kit_declare(tg_b_, "define_reg", "p, %s, [BQ, BK]", tg_type_name[p->v]);
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
    divide(tg_b_, p);
    tg_range(kf, full - whole) {
      tg(let kb = whole + kf);
      block(tg_b_, p, false);
    }
    tg_range(kc, front + back) {
      tg(let kb = where(kc < front, first + kc, behind + kc - front));
      block(tg_b_, p, true);
    }
    tg_range(i, BQ) tg_range(d, E)
      say("O[batch, head, g*BQ + i, d] = %s if g*BQ + i < M", tg_attention_result(tg_b_, p, "o[i,d]", "l[i]"));
    if (p->lse)
      tg_range(i, BQ)
        say("lse[batch, head, g*BQ + i] = %s if g*BQ + i < M", tg_attention_lse(tg_b_, p, "m[i]", "l[i]"));
  }
  if (!r) return;
  if (!p->mask_mod && p->mask != TG_BOOL) tg_kit_word(tg_b_, "contract %s i=i j=s.j k=s.c", p->matrix);
  tg_kit_word(tg_b_, "contract %s i=i j=s.j k=s.x", p->matrix);
  tg_kit_word(tg_b_, "contract %s i=i j=o.d k=p.j", p->matrix);
  tg_kit_word(tg_b_, "contract %s i=i j=counts.y k=counts.j", p->matrix);
}
const tg_kernel_def *const tg_attention_device = &attention_device;
