/* SPDX-License-Identifier: MIT
 * The body: online softmax over blocks of keys for G groups of BQ rows, which share each block (Dao et al. 2022). Its
 * variants are texts that stand in it. The words make either rows or elements of a head the lanes of vectors. */
#include <stdio.h>
#include "attention/template.h"
#include "dsl/uop.h"
#include "kit/words.h"
#include "tg/attention.h"

#define NAMES_8(x) x "0", x "1", x "2", x "3", x "4", x "5", x "6", x "7"
static const char *const operands[ATTENTION_OPERANDS] = {"Q",   "K",     "V",         "O",    "scale", "cap", "slope",
                                                         "lse", "part_m", "part_l", "other", "other_lse", "mask",
                                                         NAMES_8("arg")};
static const char *const values[ATTENTION_VALUES] = {
    "M",      "N",      "ldq",    "ldk",    "ldv",    "ldo",    "at",     "window", "query0", "key0",
    "batch",  "head",   "parts",  "mask_q", "mask_k", "arg0_q", "arg0_k", "arg1_q", "arg1_k", "arg2_q",
    "arg2_k", "arg3_q", "arg3_k", "arg4_q", "arg4_k", "arg5_q", "arg5_k", "arg6_q", "arg6_k", "arg7_q",
    "arg7_k"};
const tg_kit_names tg_attention_names = {operands, values, ATTENTION_OPERANDS, ATTENTION_VALUES};

/* ---- parameters ---- */

static bool has_value(const tg_attention_problem *p, uint32_t v) {
  bool mods = p->score_mod || p->mask_mod;
  if (v <= ATTENTION_LDO) return !(p->partial && v == ATTENTION_LDO);
  if (v == ATTENTION_AT) return p->causal || p->window || p->alibi;
  if (v == ATTENTION_WINDOW) return p->window;
  if (v < ATTENTION_PARTS) return mods;
  if (v == ATTENTION_PARTS) return false;
  uint32_t a = (v - ATTENTION_STEPS) / 2, bit = (v - ATTENTION_STEPS) % 2 ? TG_PER_KEY : TG_PER_QUERY;
  if (!a) return p->mask && p->mask_per & bit;
  return a - 1 < p->arguments_n && p->argument[a - 1].per & bit;
}

void tg_attention_kernel_of(const tg_attention_problem *p, const tg_kernel_def *sketch, tg_attention_def *out) {
  size_t n = 0;
  for (uint32_t v = 0; v < ATTENTION_VALUES; v++)
    if (has_value(p, v))
      n += (size_t)snprintf(out->params + n, sizeof out->params - n, "%s%s", n ? ", " : "", values[v]);
  out->def = *sketch;
  out->def.params = out->params;
}

uint32_t tg_attention_bind(const tg_attention_problem *p, tg_binding *b) {
  static const int64_t most = (int64_t)1 << 31, most_step = (int64_t)1 << 40;
  uint32_t n = 0;
  for (uint32_t v = 0; v < ATTENTION_VALUES; v++) {
    if (!has_value(p, v)) continue;
    b[n++] = v == ATTENTION_ROWS                         ? (tg_binding){values[v], p->rows.lo, p->rows.hi, 1}
             : v == ATTENTION_KEYS                       ? (tg_binding){values[v], p->keys.lo, p->keys.hi, 1}
             : v == ATTENTION_AT                         ? (tg_binding){values[v], -most, most, 1}
             : v >= ATTENTION_LDQ && v <= ATTENTION_LDO  ? (tg_binding){values[v], 1, most_step, 1}
             : v == ATTENTION_WINDOW                     ? (tg_binding){values[v], 1, most, 1}
             : v >= ATTENTION_STEPS                      ? (tg_binding){values[v], 0, most_step, 1}
                                                         : (tg_binding){values[v], 0, most, 1};
  }
  return n;
}

/* ---- texts ---- */

#define text(...) tg_kit_text(tg_b_, __VA_ARGS__)
#define say(...) tg_kit_say(tg_b_, __VA_ARGS__)

static const char *as_f32(tg_builder *tg_b_, tg_type t, const char *element) {
  return t == TG_F32 ? element : text("f32(%s)", element);
}

/* The element of the mask (a 0) or of argument a - 1 at the row g*BQ + i and a key. Rows and keys behind the last stand
 * for the last. */
static const char *element_of(tg_builder *tg_b_, const tg_attention_problem *p, uint32_t a, const char *key) {
  uint8_t per = a ? p->argument[a - 1].per : p->mask_per;
  bool rows = per & TG_PER_QUERY, keys = per & TG_PER_KEY;
  const char *at = rows && keys ? text("min(g*BQ + i, M - 1), min(%s, N - 1)", key)
                   : rows       ? "min(g*BQ + i, M - 1)"
                   : keys       ? text("min(%s, N - 1)", key)
                                : "0";
  return text("%s[%s]", operands[ATTENTION_MASK + a], at);
}

/* The call of a modification: name(first, b, h, q, k, arguments). */
static const char *call_mod(tg_builder *tg_b_, const tg_attention_problem *p, const char *name, const char *first,
                            const char *key) {
  const char *call = text("%s(%s%sbatch, head, query0 + g*BQ + i, key0 + %s", name, first, *first ? ", " : "", key);
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    const char *x = element_of(tg_b_, p, a + 1, key);
    tg_type t = p->argument[a].type;
    call = text(t == TG_F16 || t == TG_BF16 ? "%s, f32(%s)" : "%s, %s", call, x);
  }
  return text("%s)", call);
}

/* The score, to the base 2, of the row g*BQ + i and a key, from the sum of products. */
static const char *score(tg_builder *tg_b_, const tg_attention_problem *p, const char *sum, const char *key) {
  const char *log2e = p->base2 ? "" : "1.4426950408889634f * ", *x = sum;
  if (p->cap) x = text("cap * tanh(%s)", x);
  if (p->score_mod) x = text("%s%s", log2e, call_mod(tg_b_, p, "score_mod", x, key));
  if (p->alibi) {   /* two differences, each of which f32 holds exactly up to 2^24 */
    const char *far = text("(f32(%s - at - g*BQ) - f32(i))", key);
    x = text("%s + %sslope * %s", x, log2e, p->causal ? far : text("(-abs%s)", far));
  }
  if (p->mask && p->mask != TG_BOOL)
    x = text("%s + %s%s", x, log2e, as_f32(tg_b_, p->mask, element_of(tg_b_, p, 0, key)));
  return x;
}

/* Is this key one of those that the row g*BQ + i sees? */
static const char *seen(tg_builder *tg_b_, const tg_attention_problem *p, const char *key) {
  const char *all = text("%s < N", key);
  if (p->causal) all = text("%s & %s <= at + g*BQ + i", all, key);
  else if (p->window) all = text("%s & %s < at + g*BQ + i + window", all, key);
  if (p->window) all = text("%s & at + g*BQ + i < %s + window", all, key);
  if (p->mask == TG_BOOL) all = text("%s & %s", all, element_of(tg_b_, p, 0, key));
  return p->mask_mod ? text("%s & %s", all, call_mod(tg_b_, p, "mask_mod", "", key)) : all;
}

/* ---- declarations ---- */

static void declare_argument(tg_builder *tg_b_, const char *name, tg_type type, uint8_t per) {
  const char *t = tg_type_name[type];
  bool rows = per & TG_PER_QUERY, keys = per & TG_PER_KEY;
  if (rows && keys) tg_kit_declare(tg_b_, "in", "%s, %s, [M, N], [%s_q, %s_k]", name, t, name, name);
  else if (rows || keys)
    tg_kit_declare(tg_b_, "in", "%s, %s, [%s], [%s_%s]", name, t, rows ? "M" : "N", name, rows ? "q" : "k");
  else tg_kit_declare(tg_b_, "in", "%s, %s, [1]", name, t);
}

static void declare(tg_builder *tg_b_, const tg_attention_problem *p) {
  tg_let(D, p->head);
  tg_let(E, p->value_head);
  tg_kit_declare(tg_b_, "in", "Q, %s, [M, D], [ldq, 1]", tg_type_name[p->q]);
  tg_kit_declare(tg_b_, "in", "K, %s, [N, D], [ldk, 1]", tg_type_name[p->k]);
  tg_kit_declare(tg_b_, "in", "V, %s, [N, E], [ldv, 1]", tg_type_name[p->v]);
  tg_in(scale, f32, []);
  if (p->cap) tg_in(cap, f32, []);
  if (p->alibi) tg_in(slope, f32, []);
  if (p->mask) declare_argument(tg_b_, "mask", p->mask, p->mask_per);
  const char *formals = "b, h, q, k";
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    declare_argument(tg_b_, operands[ATTENTION_ARG + a], p->argument[a].type, p->argument[a].per);
    formals = text("%s, %s", formals, p->argument[a].name);
  }
  if (p->score_mod)
    tg_add_splice(tg_b_, "score_mod", p->score_mod, text("score, %s -> f32", formals), __FILE__, __LINE__);
  if (p->mask_mod)
    tg_add_splice(tg_b_, "mask_mod", p->mask_mod, text("%s -> bool", formals), __FILE__, __LINE__);
  if (p->partial) {
    tg_out(O, f32, [M, E]);
    tg_out(part_m, f32, [M]);
    tg_out(part_l, f32, [M]);
  } else {
    tg_kit_declare(tg_b_, "out", "O, %s, [M, E], [ldo, 1]", tg_type_name[p->o]);
    if (p->lse) tg_out(lse, f32, [M]);
  }
}

/* ---- tiles of keys ---- */

/* K or V, and the copy of a block of it as f32, or NULL if it is read in place. */
typedef struct { const char *name, *copy; tg_type type; } source;

/* The element x of key `key` = kb*BK + at as f32; cut: the key may lie behind the last, and stands for it then. */
static const char *read_key(tg_builder *tg_b_, const source *s, const char *at, const char *x, bool cut) {
  if (s->copy) return text("%s[%s, %s]", s->copy, at, x);
  return as_f32(tg_b_, s->type,
                text(cut ? "%s[min(kb*BK + %s, N - 1), %s]" : "%s[kb*BK + %s, %s]", s->name, at, x));
}

/* Copies block kb; keys behind the last are copies of the last. */
static void copy_block(tg_builder *tg_b_, const source *s, const char *x, const char *width) {
  if (!s->copy) return;
  tg_kit_declare(tg_b_, "define_local", "%s, f32, [BK, %s]", s->copy, width);
  TG_KIT_RANGE(key, text("%s_key, BK", s->copy)) TG_KIT_RANGE(x, text("%s, %s", x, width))
    say("%s[%s_key, %s] = f32(%s[min(kb*BK + %s_key, N - 1), %s])", s->copy, s->copy, x, s->name, s->copy, x);
}

/* A group computes the keys of block kb in tiles of KT: `first` to `tiles`, of which some row sees some key. All rows
 * see all keys of the tiles whole..full - 1; those before and behind are cut by the masks. Each bound is a quotient of
 * its own, so that the proof of the accesses finds what it needs in the extents. full NULL: there are none. */
typedef struct { const char *first, *whole, *full; } tiles;

static tiles divide(tg_builder *tg_b_, const tg_attention_problem *p) {
  bool never_full = p->mask_mod || p->mask == TG_BOOL, upper = p->causal || p->window;
  tg(let a = N - kb*BK);
  if (p->causal) tg(let b = at + 1 + g*BQ - kb*BK);
  else if (p->window) tg(let b = at + window + g*BQ - kb*BK);
  if (upper) tg(let tiles = min(BK/KT, min(ceildiv(a, KT), ceildiv(b + BQ - 1, KT))));
  else tg(let tiles = min(BK/KT, ceildiv(a, KT)));
  if (p->window) tg(let first = max(0, (at + g*BQ - window + 1 - kb*BK - (at + g*BQ - window + 1 - kb*BK) % KT)/KT));
  if (never_full) return (tiles){p->window ? "first" : "0", p->window ? "first" : "0", NULL};
  if (p->window) tg(let whole = max(0, ceildiv(at + g*BQ - window + BQ - kb*BK, KT)));
  const char *full = upper ? "min(BK/KT, min((a - a % KT)/KT, (b - b % KT)/KT))" : "min(BK/KT, (a - a % KT)/KT)";
  say("let full = max(%s, %s)", p->window ? "whole" : "0", full);
  return (tiles){p->window ? "first" : "0", p->window ? "whole" : "0", full};
}

/* ---- the body ---- */

/* The scores of `extent` tiles from tile `first` on, with masks or without. x, y, c: names of the ranges over tiles,
 * over the keys of a tile and over the elements of a head. */
static void scores_of(tg_builder *tg_b_, const tg_attention_problem *p, const source *k, const char *x, const char *y,
                      const char *c, const char *first, const char *extent, bool cut) {
  const char *tile = strcmp(first, "0") ? text("(%s + %s)", first, x) : x, *at = text("%s*KT + %s", tile, y),
             *key = text("kb*BK + %s", at),
             *value = score(tg_b_, p, text("sum(%s : D, q[g,%s,i] * %s)", c, c, read_key(tg_b_, k, at, c, cut)), key);
  TG_KIT_RANGE(x, text("%s, %s", x, extent)) TG_KIT_RANGE(y, text("%s, KT", y)) tg_range(i, BQ) {
    if (cut) say("s[%s, i] = pick(%s, %s, -inf)", at, seen(tg_b_, p, key), value);
    else say("s[%s, i] = %s", at, value);
  }
}

/* s[j,i]: scores of a block. */
static void scores(tg_builder *tg_b_, const tg_attention_problem *p, const source *k, const tiles *t) {
  if (!t->full) {
    scores_of(tg_b_, p, k, "xt", "xb", "xc", t->first, text("tiles - %s", t->first), true);
    return;
  }
  if (p->window) scores_of(tg_b_, p, k, "vt", "vb", "vc", "first", "min(whole, tiles) - first", true);
  scores_of(tg_b_, p, k, "jt", "jb", "jc", t->whole, p->window ? text("%s - whole", t->full) : t->full, false);
  scores_of(tg_b_, p, k, "xt", "xb", "xc", "full", "tiles - full", true);
}

/* The weights of a block, and what they change in m and l. */
static void weights(tg_builder *tg_b_, const tiles *t) {
  const char *n = text("(tiles - %s)*KT", t->first), *first = t->first;
  tg_range(i, BQ) {
    say("m1[i] = max(m[g,i], max(r : %s, s[%s*KT + r, i]))", n, first);
    tg(z[i] = where(m1[i] == -inf, 0, m1[i]));
    tg(by[i] = exp2(m[g,i] - z[i]));
    TG_KIT_RANGE(t, text("t, %s", n))
      say("s[%s*KT + t, i] = exp2(s[%s*KT + t, i] - z[i])", first, first);
    say("l[g,i] = l[g,i] * by[i] + sum(u : %s, s[%s*KT + u, i])", n, first);
    tg(m[g,i] = m1[i]);
  }
}

/* The sum of weights * V over `extent` tiles from tile `first` on; k: name of the range. A key that a row does not see
 * has the weight 0, and its V is not looked at. */
static const char *sum_of(tg_builder *tg_b_, const tg_attention_problem *p, const source *v, const char *k,
                          const char *first, const char *extent, bool cut) {
  const char *at = strcmp(first, "0") ? text("%s*KT + %s", first, k) : k, *x = read_key(tg_b_, v, at, "d", cut);
  if (cut) x = text("pick(%s, %s, 0)", seen(tg_b_, p, text("kb*BK + %s", at)), x);
  return text("sum(%s : (%s)*KT, s[%s, i] * %s)", k, extent, at, x);
}

/* o += weights * V */
static void sums(tg_builder *tg_b_, const tg_attention_problem *p, const source *v, const tiles *t) {
  const char *all = "";
  if (!t->full) all = sum_of(tg_b_, p, v, "kx", t->first, text("tiles - %s", t->first), true);
  else
    all = text("%s + %s",
               sum_of(tg_b_, p, v, "k", t->whole, p->window ? text("%s - whole", t->full) : t->full, false),
               sum_of(tg_b_, p, v, "kx", "full", "tiles - full", true));
  if (t->full && p->window)
    all = text("%s + %s", all, sum_of(tg_b_, p, v, "kv", "first", "min(whole, tiles) - first", true));
  tg_range(d, E) tg_range(i, BQ) say("o[g,d,i] = o[g,d,i] * by[i] + %s", all);
}

static void finish(tg_builder *tg_b_, const tg_attention_problem *p) {
  tg_range(g, ceildiv(M, BQ)) tg_range(i, BQ) {
    if (p->partial) {
      tg_range(f, E) tg(O[g*BQ + i, f] = o[g,f,i] if g*BQ + i < M);
      tg(part_m[g*BQ + i] = m[g,i] if g*BQ + i < M);
      tg(part_l[g*BQ + i] = l[g,i] if g*BQ + i < M);
    } else {
      const char *value = "where(l[g,i] == 0, 0, o[g,f,i] / l[g,i])";
      tg_range(f, E)
        say("O[g*BQ + i, f] = %s if g*BQ + i < M", p->o == TG_F32 ? value : text("%s(%s)", tg_type_name[p->o], value));
      if (p->lse)
        say("lse[g*BQ + i] = where(l[g,i] == 0, -inf, %s(m[g,i] + log2(l[g,i]))) if g*BQ + i < M",
            p->base2 ? "" : "0.6931471805599453f * ");
    }
  }
}

/* copies: K and V that are not f32 are copied block by block, for words that read them element by element. */
static void body(tg_builder *tg_b_, const tg_attention_problem *p, bool copies) {
  const source k = {"K", copies && p->k != TG_F32 ? "K_block" : NULL, p->k},
               v = {"V", copies && p->v != TG_F32 ? "V_block" : NULL, p->v};
  declare(tg_b_, p);
  /* where(c, a, b) whose a is read under any condition: a gate on each load would cost more than the load */
  tg_def(pick(c, a, b) = where(c, a, b));
  tg_define_reg(q, f32, [G, D, BQ]);
  tg_define_reg(o, f32, [G, E, BQ]);
  tg_define_reg(m, f32, [G, BQ]);
  tg_define_reg(l, f32, [G, BQ]);
  tg_define_reg(s, f32, [BK, BQ]);   /* out here since a block may leave elements of it as they were */
  tg_range(w, BK) tg_range(i, BQ) tg(s[w,i] = 0);
  tg_range(g, ceildiv(M, BQ)) {
    tg_range(i, BQ) {
      tg(m[g,i] = -inf);
      tg(l[g,i] = 0);
    }
    tg_range(e, D) tg_range(i, BQ) say("q[g,e,i] = scale * %s", as_f32(tg_b_, p->q, "(Q[g*BQ + i, e] else 0)"));
    tg_range(y, E) tg_range(i, BQ) tg(o[g,y,i] = 0);
  }
  const char *end = p->causal ? "M + at" : p->window ? "M + at + window - 1" : "N";
  const char *from = p->window ? "max(0, (at - window + 1 - (at - window + 1) % BK)/BK)" : "0";
  TG_KIT_RANGE(kn, text("kn, min(ceildiv(N, BK), ceildiv(%s, BK)) - %s", end, from)) {
    say("let kb = %s + kn", from);
    copy_block(tg_b_, &k, "ke", "D");
    copy_block(tg_b_, &v, "ve", "E");
    tg_range(g, ceildiv(M, BQ)) {
      tg_define_reg(m1, f32, [BQ]);
      tg_define_reg(z, f32, [BQ]);
      tg_define_reg(by, f32, [BQ]);
      tiles t = divide(tg_b_, p);
      scores(tg_b_, p, &k, &t);
      weights(tg_b_, &t);
      sums(tg_b_, p, &v, &t);
    }
  }
  finish(tg_b_, p);
}

/* ---- words ---- */

/* Rows are lanes: maximum, sum and rescaling need nothing across lanes, K and V are broadcast element by element and
 * never copied. A tile of products is KT keys (then KT elements of a head) by BQ rows. */
TG_KERNEL(attention_prefill, ) {
  const tg_attention_problem *p = tg_user;
  char list[64];
  tg_kit_lanes(tg_b_, TG_F32);
  tg_knob(NV, 3, 1, 2, 4, 6);
  tg_knob(G, 4, 1, 2, 3, 6);
  tg_knob(BK, 64, 32, 128);
  tg_knob(KT, 4, 8);
  tg_let(BQ, tg_c(NV) * tg_c(VL));
  body(tg_b_, p, true);
  tg_kit_word(tg_b_, "split i VL as iu il");
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "lane il");
  tg_kit_word(tg_b_, "place o memory");
  tg_kit_word(tg_b_, "place q memory");
  tg_kit_word(tg_b_, "place s memory");
  if (p->k != TG_F32) tg_kit_word(tg_b_, "lane ke VL");
  if (p->v != TG_F32) tg_kit_word(tg_b_, "lane ve VL");
  bool full = !p->mask_mod && p->mask != TG_BOOL;
  if (full) tg_kit_word(tg_b_, "upcast jb");
  if (full && p->window) tg_kit_word(tg_b_, "upcast vb");
  tg_kit_word(tg_b_, "upcast xb");
  tg_kit_word(tg_b_, "split d %s as da db",
              tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){p->value_head, p->value_head}, tg_c(KT)));
  tg_kit_word(tg_b_, "upcast db");
}
const tg_kernel_def *const tg_attention_prefill = &attention_prefill;

/* Elements of a head are lanes, DL of them, so K and V are read once, as they lie in memory: KT keys side by side, then
 * DU vectors of V. Weights have keys as lanes. */
TG_KERNEL(attention_decode, ) {
  const tg_attention_problem *p = tg_user;
  bool full = !p->mask_mod && p->mask != TG_BOOL;
  tg_kit_lanes(tg_b_, TG_F32);
  tg_knob(DL, 8, 16, 4);
  tg_knob(DU, 8, 4, 2);
  tg_knob(BQ, 1, 2, 4, 8);
  tg_knob(BK, 64, 32, 128);
  tg_knob(KT, 8, 4, 16);
  tg_knob(AHEAD, 1, 0);
  tg_let(G, 1);
  body(tg_b_, p, false);
  tg_kit_word(tg_b_, "place o memory");
  tg_kit_word(tg_b_, "place q memory");
  tg_kit_word(tg_b_, "place s memory");
  static const char *const loops[] = {"j", "v", "x"};
  for (uint32_t i = 0; i < TG_COUNT(loops); i++) {
    if (i < 2 && (!full || (i == 1 && !p->window))) continue;
    tg_kit_word(tg_b_, "split %sc DL as %sa %sl", loops[i], loops[i], loops[i]);
    tg_kit_word(tg_b_, "lane %sl", loops[i]);
    tg_kit_word(tg_b_, "upcast %sb", loops[i]);
  }
  tg_kit_word(tg_b_, "split d DL as da dl");
  tg_kit_word(tg_b_, "lane dl");
  if (p->value_head > tg_c(DL)) {
    char list[64];
    int64_t vectors = p->value_head / tg_c(DL);
    tg_kit_word(tg_b_, "split da %s as db du",
                tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){vectors, vectors}, tg_c(DU)));
    tg_kit_word(tg_b_, "upcast du");
  }
  static const char *const rows[] = {"r", "t", "u"};
  int64_t lanes = tg_c(KT) < tg_c(VL) ? tg_c(KT) : tg_c(VL);
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    tg_kit_word(tg_b_, "split %s %lld as %sa %sl", rows[i], (long long)lanes, rows[i], rows[i]);
    tg_kit_word(tg_b_, "lane %sl", rows[i]);
  }
  if (!full || !tg_c(AHEAD)) return;
  /* while the scores of a block are computed, K of the next one is fetched, and V while V is added up */
  tg_kit_word(tg_b_, "prefetch K at jt ahead %lld", (long long)(tg_c(BK) / tg_c(KT)));
  tg_kit_word(tg_b_, "prefetch V at k ahead BK");
}
const tg_kernel_def *const tg_attention_decode = &attention_decode;

/* ---- merging ---- */

/* O = sum_s 2^(m_s - m) O_s / sum_s 2^(m_s - m) l_s over parts of the keys, m = max_s m_s: each part has its sums O_s,
 * which are not divided, its maximum m_s and its sum l_s. */
TG_KERNEL(attention_merge, M, parts, ldo) {
  const tg_attention_problem *p = tg_user;
  tg_let(E, p->value_head);
  tg_let(PARTS, ATTENTION_MOST_PARTS);
  tg_in(Q, f32, [parts, M, E]);
  tg_in(part_m, f32, [parts, M]);
  tg_in(part_l, f32, [parts, M]);
  tg_kit_declare(tg_b_, "out", "O, %s, [M, E], [ldo, 1]", tg_type_name[p->o]);
  if (p->lse) tg_out(lse, f32, [M]);
  tg_range(r, M) {
    tg_define_reg(w, f32, [PARTS]);
    tg(let m = max(s : parts, part_m[s,r]));
    tg(let z = where(m == -inf, 0, m));
    tg_range(t, parts) tg(w[t] = exp2(part_m[t,r] - z));
    tg(let l = sum(u : parts, w[u] * part_l[u,r]));
    const char *value = "where(l == 0, 0, sum(v : parts, w[v] * Q[v,r,d]) / l)";
    tg_range(d, E) say("O[r,d] = %s", p->o == TG_F32 ? value : text("%s(%s)", tg_type_name[p->o], value));
    if (p->lse)
      say("lse[r] = where(l == 0, -inf, %s(m + log2(l)))", p->base2 ? "" : "0.6931471805599453f * ");
  }
}
const tg_kernel_def *const tg_attention_merge_parts = &attention_merge;

/* O and LSE over two sets of keys, from Q and lse_q over one of them and other and other_lse over the other. */
TG_KERNEL(attention_join, M) {
  const tg_attention_problem *p = tg_user;
  const char *log2e = p->base2 ? "" : "1.4426950408889634f * ";
  tg_let(E, p->value_head);
  tg_kit_declare(tg_b_, "in", "Q, %s, [M, E]", tg_type_name[p->o]);
  tg_kit_declare(tg_b_, "in", "other, %s, [M, E]", tg_type_name[p->o]);
  tg_in(part_m, f32, [M]);
  tg_in(other_lse, f32, [M]);
  tg_kit_declare(tg_b_, "out", "O, %s, [M, E]", tg_type_name[p->o]);
  tg_out(lse, f32, [M]);
  tg_range(r, M) {
    say("let m = %smax(part_m[r], other_lse[r])", log2e);
    tg(let z = where(m == -inf, 0, m));
    say("let x = exp2(%spart_m[r] - z)", log2e);
    say("let y = exp2(%sother_lse[r] - z)", log2e);
    tg(let l = x + y);
    const char *q = as_f32(tg_b_, p->o, "Q[r,d]"), *other = as_f32(tg_b_, p->o, "other[r,d]"),
               *sum = text("where(l == 0, 0, (x * %s + y * %s) / l)", q, other);
    tg_range(d, E) say("O[r,d] = %s", p->o == TG_F32 ? sum : text("%s(%s)", tg_type_name[p->o], sum));
    say("lse[r] = where(l == 0, -inf, %s(m + log2(l)))", p->base2 ? "" : "0.6931471805599453f * ");
  }
}
const tg_kernel_def *const tg_attention_join = &attention_join;
