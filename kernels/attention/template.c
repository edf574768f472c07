/* SPDX-License-Identifier: MIT
 * The body for CPUs: online softmax over blocks of keys for G groups of BQ rows, which share each block (Dao et al.
 * 2022). The words make either rows or elements of a head the lanes of vectors. */
#include "attention/body.h"

/* ---- tiles of keys ---- */

typedef tg_attention_source source;
typedef tg_attention_tiles tiles;
typedef tg_attention_section section;
#define read_key tg_attention_read_key
#define copy_block tg_attention_copy_block

int64_t tg_attention_page_unit(const tg_attention_problem *p) {
  int64_t unit = ATTENTION_BLOCK;
  if (!p->page || p->window) return 1;
  for (int64_t rest = p->page % unit; rest;) {
    int64_t next = unit % rest;
    unit = rest, rest = next;
  }
  return unit;
}

static long long width_of(const source *s) { return s->name == 'K' ? s->p->head : s->p->value_head; }
static long long scales_of(const source *s) { return width_of(s) / (s->name == 'K' ? s->p->k_group : s->p->v_group); }
static tg_type type_of(const source *s) { return s->name == 'K' ? s->p->k : s->p->v; }
static bool is_turned(const source *s) { return s->name == 'K' && s->p->rotary; }
static bool is_copied(const source *s) { return !s->lanes && (type_of(s) != TG_F32 || s->p->page || is_turned(s)); }

void tg_attention_copy_words(tg_builder *tg_b_, const tg_attention_problem *p) {
  for (const char *x = "KV"; *x; x++) {
    if (!is_copied(&(source){.p = p, .name = *x})) continue;
    tg_kit_word(tg_b_, "lane %ce VL", *x == 'K' ? 'k' : 'v');
    if (p->lists) tg_kit_word(tg_b_, "lane %cf VL", *x == 'K' ? 'k' : 'v');
  }
}

/* Do keys of a tile lie in one page, one behind the other? Then their place is found once for all. */
static bool holds_tiles(tg_builder *tg_b_, const source *s) {
  return s->p->page && s->lanes && tg_attention_page_unit(s->p) % tg_c(KT) == 0;
}

/* The subscripts of a key in memory. */
static const char *place_of(tg_builder *tg_b_, const source *s, const char *key) {
  long long page = s->p->page, unit = tg_attention_page_unit(s->p);
  if (!page) return key;
  return text("page_table[min((%s + page_at*%lld)/%lld, table_n - 1)], (%s + page_at*%lld) %% %lld", key, unit, page,
              key, unit, page);
}

const char *tg_attention_nth(tg_builder *tg_b_, const tg_attention_problem *p, const char *x, const char *width) {
  return p->kv_bits == 4 ? text("2*(%s %% (%s/2)) + %s/(%s/2)", x, width, x, width) : x;
}

/* Of integers: the group of element x, and the scale of a group of the key at subscripts `at`, as f32. */
static const char *group_of(tg_builder *tg_b_, const source *s, const char *x) {
  long long group = width_of(s) / scales_of(s);
  return s->p->kv_bits == 4 ? text("%s/%lld %% %lld", x, group / 2, scales_of(s)) : text("%s/%lld", x, group);
}

static const char *scale_of(tg_builder *tg_b_, const source *s, const char *at, const char *group) {
  return tg_attention_f32(tg_b_, s->p->kv_scale, text("%c_scale[%s, %s]", s->name - 'A' + 'a', at, group));
}

/* The integer, as f32. Of 4 bits in one instruction: 2^28 times it if it lies in the low half of a byte, which is
 * shifted up to the sign, and 2^4 times it if in the high half. in_ones: a number of such units of element x as it is;
 * powers of two change no bits of sums of them (below 2^99). */
static const char *whole_of(tg_builder *tg_b_, const source *s, const char *at, const char *x) {
  long long half = width_of(s) / 2;
  if (s->p->kv_bits == 8) return text("f32(%c[%s, %s])", s->name, at, x);
  return text("f32(i32(bitcast(i8, %c[%s, %s %% %lld])) << 28 - i32(%s/%lld)*28 & -16)", s->name, at, x, half, x, half);
}

static const char *in_ones(tg_builder *tg_b_, uint8_t bits, const char *value, const char *x, int64_t half) {
  if (bits != 4) return value;
  return text("(%s * where(%s < %lld, %.9gf, %.9gf))", value, x, (long long)half, 0x1p-28, 0x1p-4);
}

/* Element x (of SOURCE_SCALE: group x) of the key at subscripts `at` as f32. */
static const char *value_of(tg_builder *tg_b_, const source *s, const char *at, const char *x) {
  if (!s->p->kv_bits) return tg_attention_f32(tg_b_, type_of(s), text("%c[%s, %s]", s->name, at, x));
  if (s->part == SOURCE_WHOLE) return whole_of(tg_b_, s, at, x);
  if (s->part == SOURCE_SCALE) return scale_of(tg_b_, s, at, x);
  return text("(%s * %s)", scale_of(tg_b_, s, at, group_of(tg_b_, s, x)),
              in_ones(tg_b_, s->p->kv_bits, whole_of(tg_b_, s, at, x), x, width_of(s) / 2));
}

static const char *turned_value_of(tg_builder *tg_b_, const source *s, const char *key, const char *at, const char *x) {
  const char *own = value_of(tg_b_, s, at, x);
  if (!is_turned(s)) return own;
  const char *other = value_of(tg_b_, s, at, tg_attention_partner(tg_b_, s->p, x));
  return tg_attention_turned(tg_b_, s->p, x, own, other, text("min(turn_k + %s, positions - 1)", key));
}

const char *tg_attention_read_key(tg_builder *tg_b_, const source *s, const char *at, const char *x, bool cut) {
  if (is_copied(s)) return text("%c_block[%s, %s]", s->name, at, x);
  const char *key = text(cut ? "min(kb*BK + %s, N - 1)" : "kb*BK + %s", at);
  return turned_value_of(tg_b_, s, key, place_of(tg_b_, s, key), x);
}

/* Element x of key `nth` of a tile of section c. */
static const char *read_in(tg_builder *tg_b_, const source *s, const section *c, const char *tile, const char *nth,
                           const char *x) {
  const char *at = text("%s*KT + %s", tile, nth);
  long long page = s->p->page, unit = tg_attention_page_unit(s->p);
  if (c->cut || !holds_tiles(tg_b_, s)) return read_key(tg_b_, s, at, x, c->cut);
  const char *begin = text("(kb*BK + %s*KT + page_at*%lld)", tile, unit),
             *place = text("page_table[min(%s/%lld, table_n - 1)], %s %% %lld/KT*KT + %s", begin, page, begin, page,
                           nth);
  return turned_value_of(tg_b_, s, text("kb*BK + %s", at), place, x);
}

void tg_attention_copy_block(tg_builder *tg_b_, const source *s, const char *x, const char *width) {
  if (!is_copied(s)) return;
  const char *copy = text("%c_block", s->name), *key = text("min(kb*BK + %s_key, N - 1)", copy);
  tg_kit_declare(tg_b_, "define_local", "%s, f32, [BK, %s]", copy, width);
  TG_KIT_RANGE(key, text("%s_key, BK", copy)) TG_KIT_RANGE(x, text("%s, %s", x, width))
    say("%s[%s_key, %s] = %s", copy, copy, x, turned_value_of(tg_b_, s, key, place_of(tg_b_, s, key), x));
}

/* Each bound is a quotient of its own, so that the proof of the accesses finds what it needs in the extents. */
tiles tg_attention_divide(tg_builder *tg_b_, const tg_attention_problem *p, const char *all) {
  const char *first = p->window && !p->lists ? "first" : "0", *whole = p->window ? "whole" : "0";
  const tiles cut = {first, {{"x", first, text("tiles - %s", first), true}}, 1};
  bool upper = p->causal || p->window;
  if (all || p->lists) {
    tg(let tiles = BK/KT);
    return all ? (tiles){"0", {{all, "0", "BK/KT", false}}, 1} : cut;
  }
  tg(let a = N - kb*BK);
  if (p->causal) tg(let b = at + 1 + g*BQ - kb*BK);
  else if (p->window) tg(let b = at + window + g*BQ - kb*BK);
  if (upper) tg(let tiles = min(BK/KT, min(ceildiv(a, KT), ceildiv(b + BQ - 1, KT))));
  else tg(let tiles = min(BK/KT, ceildiv(a, KT)));
  if (p->window) tg(let first = max(0, (at + g*BQ - window + 1 - kb*BK - (at + g*BQ - window + 1 - kb*BK) % KT)/KT));
  if (tg_attention_is_masked(p)) return cut;
  if (p->window) tg(let whole = max(0, ceildiv(at + g*BQ - window + BQ - kb*BK, KT)));
  const char *full = upper ? "min(BK/KT, min((a - a % KT)/KT, (b - b % KT)/KT))" : "min(BK/KT, (a - a % KT)/KT)";
  say("let full = max(%s, %s)", whole, full);
  return (tiles){first,
                 {{"j", whole, p->window ? text("%s - whole", full) : full, false},
                  {"x", "full", "tiles - full", true},
                  {"v", "first", "min(whole, tiles) - first", true}},
                 p->window ? 3 : 2};
}

const char *tg_attention_tile(tg_builder *tg_b_, const section *c, const char *nth) {
  return strcmp(c->first, "0") ? text("(%s + %s)", c->first, nth) : nth;
}

/* ---- the body ---- */

/* The score of a key that the row may not see. */
static void store_cut(tg_builder *tg_b_, const tg_attention_problem *p, const char *at, const char *key,
                      const char *value) {
  say("s[%s, i] = pick(%s, %s, -inf)", at, tg_attention_seen(tg_b_, p, key, text("%s < N", key)), value);
}

/* Of lanes: the sum of products of a row and a key over the vectors of a head. Of integers each group is summed up by
 * itself, and the sum multiplied by the scale. */
static const char *products_of(tg_builder *tg_b_, const source *k, const section *c, const char *tile) {
  const char *x = c->x, *nth = text("%sk", x), *element = text("(%sc*DL + %sl)", x, x);
  if (!k->p->kv_bits)
    return text("sum(%sc : D/DL, q[g,%s,%si] * %s)", x, element, x, read_in(tg_b_, k, c, tile, nth, element));
  source scale = *k, whole = *k;
  scale.part = SOURCE_SCALE, whole.part = SOURCE_WHOLE;
  long long parts = k->p->kv_bits == 4 ? 2 : 1, scales = scales_of(k), group = width_of(k) / scales / parts;
  element = text("(%sh*%lld + %sg*%lld + %sc*DL + %sl)", x, width_of(k) / 2, x, group, x, x);
  return text("sum(%sg : %lld, %s * sum(%sh : %lld, %sc : %lld/DL, q[g,%s,%si] * %s))", x, scales,
              read_in(tg_b_, &scale, c, tile, nth, text("%sg", x)), x, parts, x, group, element, x,
              read_in(tg_b_, &whole, c, tile, nth, element));
}

/* The scores of a section. Ranges, where its x is "j": jt over tiles, jb over the keys of a tile, jc over the elements
 * of a head. If these are lanes jl, the sums of lanes are kept for all keys jk of the tile, so that each key is read
 * once, in the order of memory; then js adds them up. */
static void scores_of(tg_builder *tg_b_, const tg_attention_problem *p, const source *k, const section *c) {
  const char *x = c->x, *tile = tg_attention_tile(tg_b_, c, text("%st", x)), *at = text("%s*KT + %sb", tile, x),
             *key = text("kb*BK + %s", at), *element = text("%sc", x);
  TG_KIT_RANGE(x, text("%st, %s", x, c->extent)) {
    const char *sum = text("sum(%s : D, q[g,%s,i] * %s)", element, element, read_key(tg_b_, k, at, element, c->cut));
    if (k->lanes) {
      TG_KIT_RANGE(y, text("%sk, KT", x)) TG_KIT_RANGE(r, text("%si, BQ", x)) TG_KIT_RANGE(z, text("%sl, DL", x))
        say("lanes[%sk,%si,%sl] = %s", x, x, x, products_of(tg_b_, k, c, tile));
      sum = text("sum(%ss : DL, lanes[%sb,i,%ss])", x, x, x);
    }
    const char *value = tg_attention_score(tg_b_, p, sum, key);
    TG_KIT_RANGE(y, text("%sb, KT", x)) tg_range(i, BQ) {
      if (c->cut) store_cut(tg_b_, p, at, key, value);
      else say("s[%s, i] = %s", at, value);
    }
  }
}

/* ---- tiles that a causal mask cuts ---- */

/* Where rows are lanes, a cut tile is computed vector by vector of rows, since each sees more keys than the one before:
 * as one tile for all of them half would be computed for nothing. */
static bool by_vectors(tg_builder *tg_b_, const tg_attention_problem *p, const source *k) {
  return p->causal && !p->window && !tg_attention_is_masked(p) && !k->lanes && tg_c(NV) > 1;
}

/* The end of the tiles that vector x of the rows sees. */
static void end_of_vector(tg_builder *tg_b_, const char *x) {
  say("let %s_end = max(full, min(BK/KT, min(ceildiv(a, KT), ceildiv(b + %s*VL + VL - 1, KT))))", x, x);
}

/* Scores of cut tiles; those that a vector does not see are -inf. */
static void scores_of_vectors(tg_builder *tg_b_, const tg_attention_problem *p, const source *k) {
  const char *at = "(full + xt)*KT + xb", *key = text("kb*BK + %s", at),
             *sum = text("sum(xc : D, q[g,xc,i] * %s)", read_key(tg_b_, k, at, "xc", true)),
             *value = tg_attention_score(tg_b_, p, sum, key);
  TG_KIT_RANGE(xv, "xv, min(NV, (tiles - full)*NV)") {
    end_of_vector(tg_b_, "xv");
    TG_KIT_RANGE(xt, "xt, xv_end - full") TG_KIT_RANGE(xb, "xb, KT") TG_KIT_RANGE(xl, "xl, VL") {
      tg(let i = xv*VL + xl);
      store_cut(tg_b_, p, at, key, value);
    }
    TG_KIT_RANGE(xe, "xe, tiles - xv_end") TG_KIT_RANGE(xk, "xk, KT") TG_KIT_RANGE(xm, "xm, VL")
      tg(s[(xv_end + xe)*KT + xk, xv*VL + xm] = -inf);
  }
}

/* s[j,i]: scores of a block, section by section from the first key on. */
static void scores(tg_builder *tg_b_, const tg_attention_problem *p, const source *k, const tiles *t) {
  bool vectors = by_vectors(tg_b_, p, k);
  if (t->n == 3) scores_of(tg_b_, p, k, &t->part[2]);
  for (const section *c = t->part; c < t->part + t->n && c < t->part + 2; c++) {
    if (c->cut && vectors) scores_of_vectors(tg_b_, p, k);
    else scores_of(tg_b_, p, k, c);
  }
}

/* The weights of a block, and what they change in m and l. */
static void weights(tg_builder *tg_b_, const tg_attention_problem *p, const tiles *t) {
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
  if (p->dropout) tg_range(dg, BK/8) tg_range(i, BQ) tg_attention_drop(tg_b_, p, "s", "i");
}

/* Of V in integers: the weights of a section times the scales of each group. */
static void scale_weights(tg_builder *tg_b_, const source *v, const section *c) {
  const char *x = c->x, *nth = text("w%sk", x), *group = text("w%sg", x),
             *tile = tg_attention_tile(tg_b_, c, text("w%st", x)), *at = text("%s*KT + %s", tile, nth),
             *weight = text("s[%s, w%si]", at, x);
  source scale = *v;
  scale.part = SOURCE_SCALE;
  TG_KIT_RANGE(t, text("w%st, %s", x, c->extent)) TG_KIT_RANGE(k, text("%s, KT", nth))
    TG_KIT_RANGE(i, text("w%si, BQ", x)) TG_KIT_RANGE(g, text("%s, SCALES", group)) {
      const char *value = text("%s * %s", weight, read_in(tg_b_, &scale, c, tile, nth, group));
      if (c->cut) value = text("pick(%s != 0, %s, 0)", weight, value);
      say("scaled[%s, w%si, %s] = %s", at, x, group, value);
    }
}

/* The sum of weights * V over a section. A key that a row does not see has the weight 0, and its V is left out,
 * whatever it holds; finite: it holds nothing that the weight does not leave out. */
static const char *sum_of(tg_builder *tg_b_, const source *v, const section *c, const char *d, bool finite) {
  const char *i = v->lanes ? "di" : "i", *k = *c->x == 'j' ? "k" : text("k%s", c->x), *nth = text("%sq", k),
             *from = strcmp(c->first, "0") ? text("%s + ", c->first) : "";
  bool whole = !c->cut && holds_tiles(tg_b_, v);
  const char *tile = tg_attention_tile(tg_b_, c, text("%st", k)),
             *at = whole ? text("%s*KT + %s", tile, nth) : *from ? text("%s*KT + %s", c->first, k) : k,
             *over = whole ? text("%st : %s, %s : KT", k, c->extent, nth) : text("%s : (%s)*KT", k, c->extent),
             *weight = text("s[%s, %s]", at, i);
  source of = *v;
  if (v->lanes && v->p->kv_bits) {
    of.part = SOURCE_WHOLE, finite = true;
    weight = text("scaled[%s, %s, %s]", at, i, group_of(tg_b_, v, d));
  }
  const char *x = whole ? read_in(tg_b_, &of, c, tile, nth, d) : read_key(tg_b_, &of, at, d, c->cut);
  if (c->cut && !finite) x = text("pick(%s != 0, %s, 0)", weight, x);
  return text("sum(%s, %s * %s)", over, weight, x);
}

/* o += weights * V of cut tiles. */
static void sums_of_vectors(tg_builder *tg_b_, const source *v) {
  TG_KIT_RANGE(xw, "xw, min(NV, (tiles - full)*NV)") {
    end_of_vector(tg_b_, "xw");
    TG_KIT_RANGE(dx, "dx, E") TG_KIT_RANGE(xn, "xn, VL") {
      tg(let i = xw*VL + xn);
      const section seen = {"x", "full", "xw_end - full", true};
      say("o[g,dx,i] = o[g,dx,i] + %s", sum_of(tg_b_, v, &seen, "dx", false));
    }
  }
}

/* o += weights * V */
static void sums(tg_builder *tg_b_, const tg_attention_problem *p, const source *v, const tiles *t, bool full) {
  const char *all = "", *d = full ? "df" : "d", *i = v->lanes ? "di" : "i";
  const section finite = {"p", "0", "finite", true}, others = {"x", "0", "tiles - finite", true};
  bool vectors = by_vectors(tg_b_, p, v), listed = p->lists && !full;
  const char *range = text("%s, E", d);
  if (v->lanes && p->kv_bits == 4) range = text("d, E/2"), d = "(dh*(E/2) + d)";   /* both halves by one load */
  if (listed) all = text("%s + %s", sum_of(tg_b_, v, &finite, d, true), sum_of(tg_b_, v, &others, d, false));
  for (const section *c = t->part; c < t->part + t->n && !listed; c++)
    if (!c->cut || !vectors) all = text("%s%s%s", all, *all ? " + " : "", sum_of(tg_b_, v, c, d, false));
  TG_KIT_RANGE(h, *d == '(' ? "dh, 2" : "dh, 1") TG_KIT_RANGE(d, range) TG_KIT_RANGE(i, text("%s, BQ", i))
    say("o[g,%s,%s] = o[g,%s,%s] * by[%s] + %s", d, i, d, i, i, all);
  if (!full && vectors) sums_of_vectors(tg_b_, v);
}

/* finite: the tiles of a block in which V is left out nowhere, all or none. Where all of V is finite the weight 0 does
 * that, and to look at each V once costs less than to look at its weight for each row. */
static void find_finite(tg_builder *tg_b_, const source *v) {
  const uint32_t infinite = 0x7f800000;
  tg_define_reg(exponent, u32, [1]);
  say("exponent[0] = max(vk : BK, vc : E, bitcast(u32, %s) & %u)", read_key(tg_b_, v, "vk", "vc", true), infinite);
  say("let finite = where(exponent[0] == %u, 0, %lld)", infinite, (long long)(tg_c(BK) / tg_c(KT)));
}

static void finish(tg_builder *tg_b_, const tg_attention_problem *p, bool lanes) {
  tg_range(g, ceildiv(M, BQ)) tg_range(i, BQ) {
    const char *x = p->kv_bits == 4 ? "fh*(E/2) + f" : "f",
               *value = in_ones(tg_b_, lanes ? p->kv_bits : 0, text("o[g,%s,i]", x), x, p->value_head / 2);
    if (!p->partial) value = tg_attention_result(tg_b_, p, value, "l[g,i]");
    if (p->kv_bits == 4) {
      tg_range(fh, 2) tg_range(f, E/2) say("O[g*BQ + i, 2*f + fh] = %s if g*BQ + i < M", value);
    } else tg_range(f, E) say("O[g*BQ + i, f] = %s if g*BQ + i < M", value);
    if (p->partial) {
      tg(part_m[g*BQ + i] = m[g,i] if g*BQ + i < M);
      tg(part_l[g*BQ + i] = l[g,i] if g*BQ + i < M);
    } else {
      if (p->lse) say("lse[g*BQ + i] = %s if g*BQ + i < M", tg_attention_lse(tg_b_, p, "m[g,i]", "l[g,i]"));
    }
  }
}

/* Block kb for all groups. full: all rows see all its keys. */
static void block(tg_builder *tg_b_, const tg_attention_problem *p, const source *k, const source *v, bool full) {
  copy_block(tg_b_, k, full ? "kf" : "ke", "D");
  copy_block(tg_b_, v, full ? "vf" : "ve", "E");
  if (p->lists && !full) find_finite(tg_b_, v);
  tg_range(g, ceildiv(M, BQ)) {
    tg_define_reg(m1, f32, [BQ]);
    tg_define_reg(z, f32, [BQ]);
    tg_define_reg(by, f32, [BQ]);
    const tiles t = tg_attention_divide(tg_b_, p, full ? "j" : NULL);
    scores(tg_b_, p, k, &t);
    weights(tg_b_, p, &t);
    for (uint32_t c = 0; v->lanes && p->kv_bits && c < t.n; c++) scale_weights(tg_b_, v, &t.part[c]);
    sums(tg_b_, p, v, &t, full);
  }
}

void tg_attention_blocks_of_keys(tg_builder *tg_b_, const tg_attention_problem *p, tg_attention_block *one,
                                 const source *k, const source *v) {
  const char *end = p->causal ? "M + at" : p->window ? "M + at + window - 1" : "N";
  const char *from = p->window ? "max(0, (at - window + 1 - (at - window + 1) % BK)/BK)" : "0";
  if (p->lists) {
    TG_KIT_RANGE(fn, "fn, full_n") {
      tg(let kb = index(full_list[fn]));
      one(tg_b_, p, k, v, true);
    }
    TG_KIT_RANGE(kn, "kn, cut_n") {
      tg(let kb = index(cut_list[kn]));
      one(tg_b_, p, k, v, false);
    }
  } else TG_KIT_RANGE(kn, text("kn, min(ceildiv(N, BK), ceildiv(%s, BK)) - %s", end, from)) {
    say("let kb = %s + kn", from);
    one(tg_b_, p, k, v, false);
  }
}

static void body(tg_builder *tg_b_, const tg_attention_problem *p, bool lanes) {
  const source k = {.p = p, .name = 'K', .lanes = lanes}, v = {.p = p, .name = 'V', .lanes = lanes};
  tg_attention_declare(tg_b_, p);
  tg_attention_copy_rows(tg_b_, p);
  tg_define_reg(q, f32, [G, D, BQ]);
  tg_define_reg(o, f32, [G, E, BQ]);
  tg_define_reg(m, f32, [G, BQ]);
  tg_define_reg(l, f32, [G, BQ]);
  tg_define_reg(s, f32, [BK, BQ]);   /* out here since a block may leave elements of it as they were */
  tg_range(w, BK) tg_range(i, BQ) tg(s[w,i] = 0);
  if (lanes) {
    tg_define_reg(lanes, f32, [KT, BQ, DL]);
    tg_range(wk, KT) tg_range(wi, BQ) tg_range(wl, DL) tg(lanes[wk,wi,wl] = 0);
    if (p->kv_bits) {
      tg_let(SCALES, p->value_head / p->v_group);
      tg_define_reg(scaled, f32, [BK, BQ, SCALES]);
      tg_range(sk, BK) tg_range(si, BQ) tg_range(sg, SCALES) tg(scaled[sk,si,sg] = 0);
    }
  }
  tg_range(g, ceildiv(M, BQ)) {
    tg_range(i, BQ) {
      if (p->sinks && !p->partial) {   /* a score without a value, with its weight; parts get it when they are merged */
        say("m[g,i] = %s", tg_attention_sink(tg_b_, p, "min(g*BQ + i, M - 1)"));
        tg(l[g,i] = where(m[g,i] == -inf, 0, 1));
      } else {
        tg(m[g,i] = -inf);
        tg(l[g,i] = 0);
      }
    }
    const char *at = tg_attention_nth(tg_b_, p, "e", "D"),
               *q = tg_attention_f32(tg_b_, p->q, text("Q[min(g*BQ + i, M - 1), %s]", at));
    if (p->rotary) {
      const char *other = text("Q[min(g*BQ + i, M - 1), %s]", tg_attention_partner(tg_b_, p, "e"));
      q = tg_attention_turned(tg_b_, p, "e", q, tg_attention_f32(tg_b_, p->q, other),
                              "min(turn_q + (g*BQ + i)*turn_step, positions - 1)");
    }
    q = in_ones(tg_b_, lanes ? p->kv_bits : 0, q, "e", p->head / 2);
    tg_range(e, D) tg_range(i, BQ) say("q[g,e,i] = scale * %s", q);
    tg_range(y, E) tg_range(i, BQ) tg(o[g,y,i] = 0);
  }
  tg_attention_blocks_of_keys(tg_b_, p, block, &k, &v);
  finish(tg_b_, p, lanes);
}

/* ---- words ---- */

/* Rows are lanes: maximum, sum and rescaling need nothing across lanes, K and V are broadcast element by element and
 * never copied. A tile of products is KT keys (then KT elements of a head) by BQ rows. */
TG_KERNEL(attention_prefill, ) {
  const tg_attention_problem *p = tg_user;
  char list[64];
  tg_kit_lanes(tg_b_, TG_F32);
  tg_knob(NV, 3, 1, 2, 4, 6);
  tg_knob(G, 4, 1, 2, 3, 6, 8, 12, 24);
  if (p->lists) tg_kit_knob(tg_b_, "BK", ATTENTION_BLOCK, (const int64_t[]){0});   /* the blocks that are listed */
  else tg_knob(BK, 64, 32, 128);
  tg_knob(KT, 4, 8);
  tg_let(BQ, tg_c(NV) * tg_c(VL));
  body(tg_b_, p, false);
  tg_kit_word(tg_b_, "split i VL as iu il");
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "lane il");
  tg_kit_word(tg_b_, "place o memory");
  tg_kit_word(tg_b_, "place q memory");
  tg_kit_word(tg_b_, "place s memory");
  tg_attention_copy_words(tg_b_, p);
  bool full = !tg_attention_is_masked(p);
  if (full || p->lists) tg_kit_word(tg_b_, "upcast jb");
  if (p->lists) tg_kit_word(tg_b_, "place exponent memory"), tg_kit_word(tg_b_, "lane vc VL");
  if (full && p->window) tg_kit_word(tg_b_, "upcast vb");
  tg_kit_word(tg_b_, "upcast xb");
  const source k = {.p = p, .name = 'K'};
  bool vectors = by_vectors(tg_b_, p, &k);
  if (p->kv_bits != 4 && !p->rotary) {   /* blocks of Q are loaded along its rows, and transposed in registers */
    tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){p->head, p->head}, tg_c(VL));
    tg_kit_word(tg_b_, "split e %s as ea eb", list);
    tg_kit_word(tg_b_, "upcast eb");
  }
  static const char *const rows[] = {"xl", "xm", "xn"};
  for (uint32_t i = 0; vectors && i < TG_COUNT(rows); i++) tg_kit_word(tg_b_, "lane %s", rows[i]);
  tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){p->value_head, p->value_head}, tg_c(KT));
  tg_kit_word(tg_b_, "split d %s as da db", list);
  tg_kit_word(tg_b_, "upcast db");
  if (vectors) tg_kit_word(tg_b_, "split dx %s as dxa dxb", list), tg_kit_word(tg_b_, "upcast dxb");
  if (p->lists) tg_kit_word(tg_b_, "split df %s as dc de", list), tg_kit_word(tg_b_, "upcast de");
}
const tg_kernel_def *const tg_attention_prefill = &attention_prefill;

/* Words for weights times scales: lanes are the scales of a key, or keys (of these sections) that have one each. */
static void scale_words(tg_builder *tg_b_, const char *sections) {
  bool several = tg_c(SCALES) > 1;
  int64_t all = several ? tg_c(SCALES) : tg_c(KT), lanes = tg_c(VL);
  while (all % lanes) lanes /= 2;
  tg_kit_word(tg_b_, "place scaled memory");
  if (several) tg_kit_word(tg_b_, "lane sg %lld", (long long)lanes);
  for (const char *x = sections; *x; x++) {
    tg_kit_word(tg_b_, "upcast w%ci", *x);
    tg_kit_word(tg_b_, "lane w%c%c %lld", *x, several ? 'g' : 'k', (long long)lanes);
  }
}

/* V is read vector by vector of the keys of a block, which hardware does not fetch: it comes while K is read. */
static void fetch_words(tg_builder *tg_b_, const tg_attention_problem *p, bool full) {
  const source v = {.p = p, .name = 'V', .lanes = true};
  bool in_tiles = holds_tiles(tg_b_, &v);
  if (p->page && !(full && in_tiles)) return;   /* where a key lies is found for each by itself */
  tg_kit_word(tg_b_, "prefetch V at %sk ahead 0 of %s to l2", full ? "j" : "x", !full ? "kx" : in_tiles ? "kq" : "k");
}

/* Elements of a head are lanes, DL of them. K and V are read once for all rows (V for VR of them at a time), vector by
 * vector as they lie in memory, since hardware prefetches a sequence of lines and nothing else. Weights have keys as
 * lanes. */
TG_KERNEL(attention_decode, ) {
  const tg_attention_problem *p = tg_user;
  bool full = !tg_attention_is_masked(p);
  tg_kit_lanes(tg_b_, TG_F32);
  tg_knob(DL, 8, 16, 4);
  tg_knob(DU, 8, 4, 2);
  tg_knob(VR, 1, 2, 4);
  tg_knob(BQ, 1, 2, 4, 8);
  tg_knob(BK, 64, 32, 128);
  tg_knob(KT, 8, 4, 16);
  tg_knob(AHEAD, 1, 0);
  tg_let(G, 1);
  body(tg_b_, p, true);
  tg_kit_word(tg_b_, "place o memory");
  tg_kit_word(tg_b_, "place q memory");
  tg_kit_word(tg_b_, "place s memory");
  tg_kit_word(tg_b_, "place lanes memory");
  tg_kit_word(tg_b_, "split w VL as wa wb");   /* what begins and ends a run, which may have few keys */
  tg_kit_word(tg_b_, "lane wb");
  tg_kit_word(tg_b_, "lane wl");
  static const char *const ends[] = {"e", "y", "f"};
  for (uint32_t i = 0; i < TG_COUNT(ends); i++) {
    if ((p->kv_bits == 4 && i != 1) || (p->rotary && !i)) continue;   /* every other element of Q and O */
    tg_kit_word(tg_b_, "split %s DL as %sa %sl", ends[i], ends[i], ends[i]);
    tg_kit_word(tg_b_, "lane %sl", ends[i]);
  }
  static const char *const loops[] = {"j", "v", "x"};
  for (uint32_t i = full ? 0 : 2; i < TG_COUNT(loops); i++) {
    if (i == 1 && !p->window) continue;
    tg_kit_word(tg_b_, "lane %sl", loops[i]);
    tg_kit_word(tg_b_, "upcast %si", loops[i]);
    tg_kit_word(tg_b_, "lane %ss", loops[i]);
    tg_kit_word(tg_b_, "upcast %sb", loops[i]);
  }
  if (p->kv_bits) scale_words(tg_b_, !full ? "x" : p->window ? "jvx" : "jx");
  tg_kit_word(tg_b_, "unroll %sc", full ? "j" : "x");
  for (const char *x = p->kv_bits ? "gh" : ""; *x; x++) tg_kit_word(tg_b_, "unroll %c%c", full ? 'j' : 'x', *x);
  tg_kit_word(tg_b_, "split d DL as da dl");
  tg_kit_word(tg_b_, "lane dl");
  int64_t halves = p->kv_bits == 4 ? 2 : 1, vectors = p->value_head / halves / tg_c(DL);
  if (vectors > 1) {
    char list[64];
    tg_kit_word(tg_b_, "split da %s as db du",
                tg_kit_tile_and_rest(list, sizeof list, (tg_kit_dim){vectors, vectors}, tg_c(DU) / halves));
    tg_kit_word(tg_b_, "upcast du");
  }
  if (halves > 1) tg_kit_word(tg_b_, "upcast dh");
  tg_kit_word(tg_b_, "split di VR as dg dr");
  tg_kit_word(tg_b_, "upcast dr");
  static const char *const rows[] = {"r", "t", "u"};
  int64_t lanes = tg_c(KT) < tg_c(VL) ? tg_c(KT) : tg_c(VL);
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    tg_kit_word(tg_b_, "split %s %lld as %sa %sl", rows[i], (long long)lanes, rows[i], rows[i]);
    tg_kit_word(tg_b_, "lane %sl", rows[i]);
  }
  if (tg_c(AHEAD)) fetch_words(tg_b_, p, full);
}
const tg_kernel_def *const tg_attention_decode = &attention_decode;

/* ---- which blocks are seen ---- */

/* The pairs of a row and a key of each block that are seen, against all there are. Keys behind the last are the last
 * again, which changes neither none nor all; they are no part of a block that is seen as a whole. */
TG_KERNEL(attention_states, ) {
  const tg_attention_problem *p = tg_user;
  tg_kit_lanes(tg_b_, TG_I32);
  tg_let(BK, ATTENTION_BLOCK);
  tg_let(BQ, 1);
  tg_let(G, p->rows.hi);
  tg_attention_declare_masks(tg_b_, p);
  tg_attention_copy_rows(tg_b_, p);
  tg_out(states, u8, [ceildiv(N, BK)]);
  tg_range(kb, ceildiv(N, BK)) {
    tg(let i = index(0));
    say("let n = sum(g : M, j : BK, i32(%s))", tg_attention_seen(tg_b_, p, "min(kb*BK + j, N - 1)", "true"));
    tg(states[kb] = where(n == 0, u8(0), where(index(n) == M*BK & kb*BK + BK <= N, u8(2), u8(1))));
  }
  tg_kit_word(tg_b_, "split j VL as jb jl");
  tg_kit_word(tg_b_, "lane jl");
  tg_kit_word(tg_b_, "upcast jb");
}
const tg_kernel_def *const tg_attention_states = &attention_states;

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
  if (p->sinks) tg_in(sink, f32, [M], [sink_step]);
  const char *sink = p->sinks ? tg_attention_sink(tg_b_, p, "r") : "-inf";
  tg_range(r, M) {
    tg_define_reg(w, f32, [PARTS]);
    if (p->sinks) say("let m = max(%s, max(s : parts, part_m[s,r]))", sink);
    else tg(let m = max(s : parts, part_m[s,r]));
    tg(let z = where(m == -inf, 0, m));
    tg_range(t, parts) tg(w[t] = exp2(part_m[t,r] - z));
    say("let l = %ssum(u : parts, w[u] * part_l[u,r])", p->sinks ? text("exp2(%s - z) + ", sink) : "");
    tg_range(d, E) say("O[r,d] = %s", tg_attention_result(tg_b_, p, "sum(v : parts, w[v] * Q[v,r,d])", "l"));
    if (p->lse) say("lse[r] = %s", tg_attention_lse(tg_b_, p, "m", "l"));
  }
}
const tg_kernel_def *const tg_attention_merge_parts = &attention_merge;

/* O and LSE over two sets of keys, from Q and part_m (its LSE) over one of them and other and other_lse over the
 * other. */
TG_KERNEL(attention_join, M) {
  const tg_attention_problem *p = tg_user;
  const char *log2e = p->base2 ? "" : "1.4426950408889634f * ", *t = tg_type_name[p->o],
             *sum = text("(x * %s + y * %s)", tg_attention_f32(tg_b_, p->o, "Q[r,d]"),
                         tg_attention_f32(tg_b_, p->o, "other[r,d]"));
  tg_let(E, p->value_head);
  tg_kit_declare(tg_b_, "in", "Q, %s, [M, E]", t);
  tg_kit_declare(tg_b_, "in", "other, %s, [M, E]", t);
  tg_in(part_m, f32, [M]);
  tg_in(other_lse, f32, [M]);
  tg_kit_declare(tg_b_, "out", "O, %s, [M, E]", t);
  tg_out(lse, f32, [M]);
  tg_range(r, M) {
    say("let m = %smax(part_m[r], other_lse[r])", log2e);
    tg(let z = where(m == -inf, 0, m));
    say("let x = exp2(%spart_m[r] - z)", log2e);
    say("let y = exp2(%sother_lse[r] - z)", log2e);
    tg(let l = x + y);
    tg_range(d, E) say("O[r,d] = %s", tg_attention_result(tg_b_, p, sum, "l"));
    say("lse[r] = %s", tg_attention_lse(tg_b_, p, "m", "l"));
  }
}
const tg_kernel_def *const tg_attention_join = &attention_join;
