/* SPDX-License-Identifier: MIT
 * The body of the gradients: for a block of rows of one head and all keys of a part, the weights are computed again
 * from Q, K and the rows' LSE (Dao et al. 2022, algorithm 4). With P[i,j] = exp(score[i,j] - LSE[i]):
 *
 *     delta[i] = sum_e dO[i,e] O[i,e]         dV[j] += sum_i P[i,j] dO[i]
 *     dP[i,j]  = dO[i].V[j]                   dQ[i]  = sum_j dS[i,j] K[j]
 *     dS[i,j]  = P[i,j] (dP[i,j] - delta[i]) score'(Q[i].K[j])          dK[j] += sum_i dS[i,j] Q[i]
 *
 * Rows are lanes where scores, dP and dQ are summed, as in the forward words; dV and dK have elements of a head as
 * lanes, and are sums of f32 in memory that each run adds to. */
#include "attention/body.h"

typedef tg_attention_section section;

/* to[j,i] = sum of rows[g,c,i] * the element c of key j of a source, over `width` elements. Ranges: x, the letter
 * `what`, then t over tiles, b over the keys of a tile, i over rows, c over elements. */
static void products(tg_builder *tg_b_, const section *c, const tg_attention_source *s, char what, const char *to,
                     const char *rows, const char *width) {
  const char *n = text("%s%c", c->x, what), *at = text("%s*KT + %sb", tg_attention_tile(tg_b_, c, text("%st", n)), n),
             *element = text("%sc", n);
  TG_KIT_RANGE(t, text("%st, %s", n, c->extent)) TG_KIT_RANGE(b, text("%sb, KT", n)) TG_KIT_RANGE(i, text("%si, BQ", n))
    say("%s[%s, %si] = sum(%s : %s, %s[g,%s,%si] * %s)", to, at, n, element, width, rows, element, n,
        tg_attention_read_key(tg_b_, s, at, element, c->cut));
}

/* Where s is the product of scores and t is dP: s becomes the weights, and t dS. A row behind the last has LSE inf. */
static void weights(tg_builder *tg_b_, const tg_attention_problem *p, const section *c) {
  const char *n = text("%sw", c->x), *at = text("%s*KT + %sb", tg_attention_tile(tg_b_, c, text("%st", n)), n),
             *key = text("kb*BK + %s", at), *x = text("s[%s, i]", at), *slope = tg_attention_slope(tg_b_, p, x, key),
             *seen = "z[g,i] != inf", *weight = text("exp2(%s - z[g,i])", tg_attention_score(tg_b_, p, x, key)),
             *keep = p->dropout ? text(" * keep[%s, i]", at) : "";
  if (c->cut) seen = text("%s & %s", seen, tg_attention_seen(tg_b_, p, key, text("%s < N", key)));
  TG_KIT_RANGE(t, text("%st, %s", n, c->extent)) TG_KIT_RANGE(b, text("%sb, KT", n))
    TG_KIT_RANGE(i, text("%si, BQ", n)) {
      say("let i = %si", n);
      say("let seen = %s", seen);
      say("let weight = pick(seen, %s, 0)", weight);
      say("let by = pick(seen, weight * (t[%s, i]%s - delta[g,i])%s, 0)", at, keep, slope ? text(" * %s", slope) : "");
      say("s[%s, i] = weight%s", at, keep);
      say("t[%s, i] = by", at);
    }
}

/* sums[key, e] += sum over rows of by[j,i] * rows[g,i,e]: dV or dK. A row that does not see a key has the weight 0,
 * and its dO or Q is left out, whatever it holds. */
static void outer(tg_builder *tg_b_, const section *c, char what, const char *sums, const char *by, const char *rows,
                  const char *width) {
  const char *n = text("%s%c", c->x, what), *at = text("%s*KT + %sb", tg_attention_tile(tg_b_, c, text("%st", n)), n),
             *key = text("kb*BK + %s", at), *factor = text("%s[%s, %si]", by, at, n),
             *x = text("%s[g,%si,%se]", rows, n, n);
  if (c->cut) x = text("pick(%s != 0, %s, 0)", factor, x);
  TG_KIT_RANGE(t, text("%st, %s", n, c->extent)) TG_KIT_RANGE(b, text("%sb, KT", n))
    TG_KIT_RANGE(e, text("%se, %s", n, width))
      say("%s[%s, %se] += sum(%si : BQ, %s * %s)%s", sums, key, n, n, factor, x, c->cut ? text(" if %s < N", key) : "");
}

/* What the keys of a section add to dq[g,d,i]. */
static const char *sum_of(tg_builder *tg_b_, const section *c, const tg_attention_source *k, const char *d,
                          const char *i) {
  const char *n = text("%sq", c->x), *at = strcmp(c->first, "0") ? text("%s*KT + %s", c->first, n) : n,
             *x = tg_attention_read_key(tg_b_, k, at, d, c->cut);
  if (c->cut) x = text("pick(t[%s, %s] != 0, %s, 0)", at, i, x);
  return text("sum(%s : (%s)*KT, t[%s, %s] * %s)", n, c->extent, at, i, x);
}

static void block(tg_builder *tg_b_, const tg_attention_problem *p, const tg_attention_source *k,
                  const tg_attention_source *v, bool full) {
  tg_attention_copy_block(tg_b_, k, full ? "kf" : "ke", "D");
  tg_attention_copy_block(tg_b_, v, full ? "vf" : "ve", "E");
  tg_range(g, ceildiv(M, BQ)) {
    const tg_attention_tiles t = tg_attention_divide(tg_b_, p, full ? "f" : NULL);
    if (p->dropout) tg_range(dg, BK/8) tg_range(di, BQ) tg_attention_drop(tg_b_, p, "keep", "di");
    const char *all = "", *d = full ? "fd" : "xd", *i = full ? "fi" : "xi";
    for (const section *c = t.part; c < t.part + t.n; c++) {
      products(tg_b_, c, k, 's', "s", "q", "D");
      products(tg_b_, c, v, 'p', "t", "u", "E");
      weights(tg_b_, p, c);
      outer(tg_b_, c, 'v', "dV", "s", "u_row", "E");
      outer(tg_b_, c, 'k', "dK", "t", "q_row", "D");
      all = text("%s + %s", all, sum_of(tg_b_, c, k, d, i));
    }
    TG_KIT_RANGE(d, text("%s, D", d)) TG_KIT_RANGE(i, text("%s, BQ", i))
      say("dq[g,%s,%s] = dq[g,%s,%s]%s", d, i, d, i, all);
  }
}

/* What runs know of their rows: Q and dO as lanes, with their factors, and as they lie; LSE to the base 2; delta. */
static void begin(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *q = tg_attention_f32(tg_b_, p->q, text("(Q[g*BQ + %s, %s] else 0)", "ai", "ae")),
             *u = tg_attention_f32(tg_b_, p->o, "(dO[g*BQ + bi, be] else 0)"),
             *o = tg_attention_f32(tg_b_, p->o, "(O[g*BQ + hi, he] else 0)");
  tg_range(g, ceildiv(M, BQ)) {
    tg_range(ae, D) tg_range(ai, BQ) say("q[g,ae,ai] = scale * %s", q);
    tg_range(be, E) tg_range(bi, BQ) say("u[g,be,bi] = change * %s", u);
    tg_range(ci, BQ) tg_range(ce, D)
      say("q_row[g,ci,ce] = %s", tg_attention_f32(tg_b_, p->q, "(Q[g*BQ + ci, ce] else 0)"));
    tg_range(ei, BQ) tg_range(ee, E)
      say("u_row[g,ei,ee] = %s", tg_attention_f32(tg_b_, p->o, "(dO[g*BQ + ei, ee] else 0)"));
    tg_range(hi, BQ) {
      say("delta[g,hi] = change * sum(he : E, u_row[g,hi,he] * %s)", o);
      tg(let sum = (lse[g*BQ + hi] else inf));
      say("z[g,hi] = where(sum == -inf, 0, %ssum)", p->base2 ? "" : "1.4426950408889634f * ");
    }
    tg_range(ye, D) tg_range(yi, BQ) tg(dq[g,ye,yi] = 0);
  }
}

static void words(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *const memory[] = {"q", "u", "q_row", "u_row", "dq", "s", "t", "z", "delta", p->dropout ? "keep" : NULL},
             *const rows[] = {"ai", "bi", "yi", "w", "xi", p->dropout ? "di" : NULL, p->lists ? "fi" : NULL},
             *const elements[] = {"ce", "ee", "he"};
  char list[64];
  bool full = !tg_attention_is_masked(p);
  for (uint32_t i = 0; i < TG_COUNT(memory); i++)
    if (memory[i]) tg_kit_word(tg_b_, "place %s memory", memory[i]);
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    if (!rows[i]) continue;
    tg_kit_word(tg_b_, "split %s VL as %su %sl", rows[i], rows[i], rows[i]);
    tg_kit_word(tg_b_, "upcast %su", rows[i]);
    tg_kit_word(tg_b_, "lane %sl", rows[i]);
  }
  for (uint32_t i = 0; i < TG_COUNT(elements); i++) tg_kit_word(tg_b_, "lane %s VL", elements[i]);
  for (const char *x = p->lists ? "fx" : !full ? "x" : p->window ? "jxv" : "jx"; *x; x++) {
    for (const char *what = "spw"; *what; what++) {
      tg_kit_word(tg_b_, "split %c%ci VL as %c%cu %c%cl", *x, *what, *x, *what, *x, *what);
      tg_kit_word(tg_b_, "upcast %c%cu", *x, *what);
      tg_kit_word(tg_b_, "lane %c%cl", *x, *what);
      if (*what != 'w') tg_kit_word(tg_b_, "upcast %c%cb", *x, *what);
    }
    for (const char *what = "vk"; *what; what++) {
      int64_t vectors = ((*what == 'v' ? p->value_head : p->head) + tg_c(VL) - 1) / tg_c(VL);
      tg_kit_word(tg_b_, "split %c%ce VL as %c%cf %c%cl", *x, *what, *x, *what, *x, *what);
      tg_kit_word(tg_b_, "lane %c%cl", *x, *what);
      tg_kit_word(tg_b_, "split %c%cf %s as %c%cg %c%ch", *x, *what,
                  tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){vectors, vectors}, tg_c(EV)), *x, *what, *x,
                  *what);
      tg_kit_word(tg_b_, "upcast %c%ch", *x, *what);
      tg_kit_word(tg_b_, "upcast %c%cb", *x, *what);
    }
  }
  tg_attention_copy_words(tg_b_, p);
  tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){p->head, p->head}, tg_c(KT));
  tg_kit_word(tg_b_, "split xd %s as xda xdb", list);
  tg_kit_word(tg_b_, "upcast xdb");
  if (p->lists) tg_kit_word(tg_b_, "split fd %s as fda fdb", list), tg_kit_word(tg_b_, "upcast fdb");
}

TG_KERNEL(attention_backward, ) {
  const tg_attention_problem *p = tg_user;
  const tg_attention_source k = {.p = p, .name = 'K'}, v = {.p = p, .name = 'V'};
  tg_kit_lanes(tg_b_, TG_F32);
  tg_knob(NV, 3, 1, 2, 4, 6);
  tg_knob(G, 2, 1, 3, 4, 6, 8, 12, 24);
  if (p->lists) tg_kit_knob(tg_b_, "BK", ATTENTION_BLOCK, (const int64_t[]){0});
  else tg_knob(BK, 64, 32, 128);
  tg_knob(KT, 4, 8);
  tg_knob(EV, 4, 1, 2, 3, 6);   /* vectors of a head that dV and dK are summed for at a time, for each of KT keys */
  tg_let(BQ, tg_c(NV) * tg_c(VL));
  tg_attention_declare(tg_b_, p);
  tg_attention_copy_rows(tg_b_, p);
  tg_define_reg(q, f32, [G, D, BQ]);
  tg_define_reg(u, f32, [G, E, BQ]);
  tg_define_reg(q_row, f32, [G, BQ, D]);
  tg_define_reg(u_row, f32, [G, BQ, E]);
  tg_define_reg(dq, f32, [G, D, BQ]);
  tg_define_reg(z, f32, [G, BQ]);
  tg_define_reg(delta, f32, [G, BQ]);
  tg_define_reg(s, f32, [BK, BQ]);
  tg_define_reg(t, f32, [BK, BQ]);
  if (p->dropout) tg_define_reg(keep, f32, [BK, BQ]);
  tg_range(wk, BK) tg_range(w, BQ) {
    tg(s[wk,w] = 0);
    tg(t[wk,w] = 0);
    if (p->dropout) tg(keep[wk,w] = 0);
  }
  begin(tg_b_, p);
  tg_attention_blocks_of_keys(tg_b_, p, block, &k, &v);
  tg_range(g, ceildiv(M, BQ)) tg_range(zi, BQ) tg_range(ze, D)
    say("dQ[g*BQ + zi, ze] = %s if g*BQ + zi < M",
        p->partial || p->q == TG_F32 ? "dq[g,ze,zi]" : text("%s(dq[g,ze,zi])", tg_type_name[p->q]));
  words(tg_b_, p);
}
const tg_kernel_def *const tg_attention_backward = &attention_backward;

/* ---- sums of parts ---- */

/* dQ[r,d] = the sum of `parts` results of f32, in the type of the problem's o. */
TG_KERNEL(attention_sum, M, parts, lddq) {
  const tg_attention_problem *p = tg_user;
  tg_let(E, p->value_head);
  tg_in(Q, f32, [parts, M, E]);
  tg_kit_declare(tg_b_, "out", "dQ, %s, [M, E], [lddq, 1]", tg_type_name[p->o]);
  tg_range(r, M) tg_range(d, E)
    say("dQ[r,d] = %s(sum_in_order(s : parts, Q[s,r,d]))", p->o == TG_F32 ? "" : tg_type_name[p->o]);
}
const tg_kernel_def *const tg_attention_sum = &attention_sum;
