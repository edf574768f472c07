/* SPDX-License-Identifier: MIT
 * The body for devices: a workgroup for each block of BQ rows, which are the queries of a head, or of all heads that
 * share a head of K and V, whose K and V are then read once for all of these. Both products are by matrix instructions,
 * whose tiles stay in registers. A warp has as many rows as the instruction has rows, so that maximum, sum and
 * rescaling are done where they lie. Where there is no such instruction, a block is one query, and its sums are plain.
 * Blocks of keys that all its queries see come first: their K and V are copied to LOCAL memory, in rings where the
 * target copies asynchronously. Then come those that the masks or the last key cut. */
#include <stdio.h>
#include "attention/body.h"
#include "choose/block.h"
#include "dsl/parse.h"
#include "target/matrix.h"

enum {
  GROUPS_A_CORE = 2,   /* so that one computes while another waits */
  ROW_VALUES = 5,      /* of each row: the greatest score, before and with this block, its place, the factor, the sum */
  POINTER = 2,         /* registers of an address */
  OPERANDS = 4,        /* Q, K, V, O: an address and a stride of each */
  CHAINS = 4,          /* exponentials under way: a sum takes about 4 cycles until it can be used */
  LIVE = 4,            /* values of one */
  PLAIN_KEYS = 16
};

static bool has_whole(const tg_attention_problem *p, int64_t keys_of_block) {
  return !tg_attention_is_masked(p) && p->keys.hi >= keys_of_block;
}

static bool has_cut(const tg_attention_problem *p) {
  bool multiple = p->keys.lo == p->keys.hi && p->keys.lo % p->keys_of_block == 0;
  return tg_attention_is_masked(p) || p->causal || p->window || !multiple;
}

/* Of copies of a block of K and V, those of a thread. */
static uint64_t copies_of(const tg_target *t, const tg_attention_problem *p) {
  const uint64_t threads = p->warps * t->lanes, bytes = (uint64_t)tg_type_bytes(p->v);
  return (p->keys_of_block * ((uint64_t)p->head + (uint64_t)p->value_head) * bytes / TG_UNIT + threads - 1) / threads;
}

/* Registers of a thread: for accumulators of a warp, scores and weights of a block, fragments, what each row has, and
 * what is computed and copied. */
static uint64_t registers_of(const tg_target *t, const tg_attention_problem *p, const tg_matrix_row *r) {
  const uint64_t keys = p->keys_of_block, wide = (uint64_t)p->value_head,
                 halves = tg_matrix_registers(r, 0) + tg_matrix_registers(r, 1), sums = tg_matrix_registers(r, 2);
  uint64_t n = r->m * (2 * wide + 3 * keys) / 2 / t->lanes + halves / 2 + sums + ROW_VALUES * sums / 2 +
               2 * POINTER * OPERANDS + CHAINS * LIVE;
  if (r->form != TG_MATRIX_PTX) n += halves / 2;   /* the next ones are loaded meanwhile */
  if (p->stages) n += copies_of(t, p) * (t->async_copy ? POINTER : TG_UNIT / 4);   /* or what is copied passes them */
  return n;
}

static uint64_t local_of(const tg_attention_problem *p, const tg_matrix_row *r) {
  const uint64_t keys = p->keys_of_block, wide = (uint64_t)p->value_head, bytes = (uint64_t)tg_type_bytes(p->v);
  uint64_t local = p->stages * keys * ((uint64_t)p->head + wide) * bytes;
  if (has_cut(p)) local += (wide * bytes + TG_UNIT) * keys + (uint64_t)p->warps * r->m * wide * sizeof(float);
  /* weights that do not lie as operands do pass LOCAL memory, for each product of their own */
  if (r->form != TG_MATRIX_PTX) local += 3 * p->warps * r->m * keys * bytes;
  return local;
}

/* Do these fit, and the copies LOCAL memory beside those of another group? */
static bool has_room(const tg_target *t, const tg_attention_problem *p, const tg_matrix_row *r) {
  return registers_of(t, p, r) <= t->vector_registers && local_of(p, r) <= t->local_bytes / GROUPS_A_CORE;
}

/* Workgroups that a core has registers and LOCAL memory for. */
static uint32_t groups_of_core(const tg_target *t, const tg_attention_problem *p, const tg_matrix_row *r) {
  uint64_t local = local_of(p, r), registers = registers_of(t, p, r) * p->warps * t->lanes,
           by_registers = t->core_registers / registers, by_local = local ? t->local_bytes / local : by_registers,
           n = by_local < by_registers || !by_registers ? by_local : by_registers;
  return n ? (uint32_t)n : 1;
}

/* Is there nothing of a score that differs from head to head but Q? */
static bool heads_are_alike(const tg_attention_problem *p) {
  return !p->alibi && !p->mask && !p->score_mod && !p->mask_mod && !p->dropout && !p->block_rows;
}

/* The most keys of a block for as many warps, of which there is room: no more than rows, so that a thread has as many
 * copies under way, whatever the warps, and a mask cuts no more than it must. 0: there is none. */
static uint32_t keys_of(const tg_target *t, tg_attention_problem *p, const tg_matrix_row *r, uint32_t warps) {
  const uint32_t least = r->n > r->k ? r->n : r->k;
  p->warps = warps, p->keys_of_block = least * warps;
  while (p->keys_of_block / 2 >= least && (p->keys_of_block / 2 >= p->keys.hi || !has_room(t, p, r)))
    p->keys_of_block /= 2;
  return has_room(t, p, r) ? p->keys_of_block : 0;
}

/* As many warps as leave another group its registers, if each thread has the most that there are, as compilers let
 * it. */
static uint32_t most_warps(const tg_target *t) {
  uint32_t warps = t->core_registers / (GROUPS_A_CORE * t->vector_registers * t->lanes);
  return warps ? tg_block_power_of_two_below(warps) : 1;
}

/* Of the tiles of which there is room that of the most scores, which K, V and barriers serve; of equal ones that of the
 * most keys, for which sums are rescaled less often. */
static void choose_tile(const tg_target *t, tg_attention_problem *p, const tg_matrix_row *r, int64_t rows) {
  uint32_t best = 0, best_keys = 0;
  for (uint32_t warps = most_warps(t); warps; warps /= 2) {
    if (warps > 1 && rows <= warps / 2 * r->m) continue;
    uint32_t keys = keys_of(t, p, r, warps);
    if (keys && warps * keys >= best * best_keys) best = warps, best_keys = keys;
  }
  p->warps = best, p->keys_of_block = best_keys;
}

void tg_attention_device_tiles(const tg_target *t, tg_attention_problem *p) {
  const tg_matrix_row *r = NULL;
  for (uint32_t i = 0; (r = tg_matrix_at(i)); i++)
    if (tg_matrix_on(r, t) && r->a_type == p->q && r->b_type == p->q && r->c_type == TG_F32 && tg_matrix_is_plain(r) &&
        p->head % r->k == 0 && p->value_head % r->n == 0)
      break;
  if (!r) return;
  uint32_t least = r->n > r->k ? r->n : r->k;
  int64_t together = heads_are_alike(p) ? p->group : 1, rows = p->rows.hi * together;
  p->matrix = r->name;
  p->loads_matrices = t->loads_matrices;
  p->stages = p->page || tg_attention_is_masked(p) ? 0 : t->async_copy ? 2 : 1;
  bool narrow = p->dropout && r->form != TG_MATRIX_PTX;   /* Philox takes what registers operands held twice leave */
  if (narrow) p->warps = 0;
  else choose_tile(t, p, r, rows);
  if (p->warps) {
    uint64_t queries = r->m * (uint64_t)p->head * (uint64_t)tg_type_bytes(p->q) / 4 / t->lanes;
    p->keeps_queries = t->async_copy && p->stages && registers_of(t, p, r) + queries <= t->vector_registers;
  } else p->warps = 1, p->keys_of_block = least, p->stages = 0;   /* the least that there is */
  p->groups_of_core = groups_of_core(t, p, r);
  for (p->row_heads = together; p->row_heads > p->warps * r->m || together % p->row_heads;) p->row_heads--;
}

/* ---- operands ---- */

/* The subscripts of a key in memory. */
static const char *place_of(tg_builder *tg_b_, const tg_attention_problem *p, const char *head, const char *key) {
  if (!p->page) return text("batch, %s, %s", head, key);
  long long page = p->page;
  /* the remainder's bounds are said since they are not seen through which block is next */
  return text("page_table[batch, max(min((%s)/%lld, table_n - 1), 0)], %s, max(min((%s) %% %lld, %lld), 0)", key, page,
              head, key, page, page - 1);
}

/* A value of integers: its scale times the integer; of four bits the first is in the low half of its byte. */
static const char *integer_of(tg_builder *tg_b_, const tg_attention_problem *p, char name, const char *at,
                              const char *x) {
  const char *scale = text("%c_scale[%s, (%s)/%lld]", name - 'A' + 'a', at, x,
                           (long long)(name == 'K' ? p->k_group : p->v_group)),
             *whole = text("%c[%s, %s]", name, at, x);
  if (p->kv_bits == 4) whole = text("((i32(%c[%s, (%s)/2] >> u8((%s) %% 2*4)) & 15 ^ 8) - 8)", name, at, x, x);
  return text("(%s * f32(%s))", tg_attention_f32(tg_b_, p->kv_scale, scale), whole);
}

static const char *value_of(tg_builder *tg_b_, const tg_attention_problem *p, char name, const char *at,
                            const char *x) {
  if (p->kv_bits) return integer_of(tg_b_, p, name, at, x);
  return text("f32(%c[%s, %s])", name, at, x);
}

const char *tg_attention_device_key(tg_builder *tg_b_, const tg_attention_problem *p, char name, const char *head,
                                    const char *key, const char *x, bool cut) {
  if (cut) key = text("min(%s, N - 1)", key);
  const char *at = place_of(tg_b_, p, head, key), *own = value_of(tg_b_, p, name, at, x);
  if (!p->rotary || name != 'K') return own;
  const char *other = value_of(tg_b_, p, name, at, tg_attention_partner(tg_b_, p, x));
  return tg_attention_turned(tg_b_, p, x, own, other, text("min(%s, positions - 1)", key));
}

const char *tg_attention_device_query(tg_builder *tg_b_, const tg_attention_problem *p, const char *x) {
  const char *own = text("f32(Q[%s, %s] else 0)", tg_attention_grid_row(tg_b_, p), x);
  if (!p->rotary) return own;
  const char *other = text("f32(Q[%s, %s] else 0)", tg_attention_grid_row(tg_b_, p), tg_attention_partner(tg_b_, p, x));
  return tg_attention_turned(tg_b_, p, x, own, other, "min(turn_q + g*BQ + i, positions - 1)");
}

/* A block of keys is whole, if all rows of the workgroup see all its keys, or cut. A cut one has the condition in each
 * score, and a key behind the last one stands for the last one, so that no load needs a condition. */
static const char *element(tg_builder *tg_b_, const tg_attention_problem *p, char name, const char *x, bool cut) {
  long long sets = p->group / (p->row_heads > 1 ? p->row_heads : 1);
  return tg_attention_device_key(tg_b_, p, name, text("head/%lld", sets), "kb*BK + j", x, cut);
}

/* The type of weights as they are multiplied with V. */
static const char *type_of_weights(const tg_attention_problem *p) { return tg_type_name[p->kv_bits ? TG_F32 : p->v]; }

static void scores(tg_builder *tg_b_, const tg_attention_problem *p, bool cut) {
  const char *c = cut ? "x" : "c", *key = "kb*BK + j",
             *sum = text("(scale * sum(%s : D, %s * %s))", c, tg_attention_device_query(tg_b_, p, c),
                         element(tg_b_, p, 'K', c, cut)),
             *score = tg_attention_score(tg_b_, p, sum, key);
  tg_range(i, BQ) tg_range(j, BK) {
    if (cut) say("s[i,j] = pick(%s, %s, -inf)", tg_attention_seen(tg_b_, p, key, "kb*BK + j < N"), score);
    else say("s[i,j] = %s", score);
  }
}

/* Does a matrix load turn what it reads, so that V may lie as it does in memory? */
static bool turns(const tg_attention_problem *p) { return p->loads_matrices && tg_type_bytes(p->v) == 2; }

/* A function of V of a cut block. It lies as the target reads operands: by matrix loads that turn, whose rows are
 * elements of a key, and a unit longer than these so that eight of them begin in different banks; else with the keys of
 * an element side by side. Then threads lie along the elements of a key; here each has a whole unit of them. */
static void copy_cut(tg_builder *tg_b_, const tg_attention_problem *p, const char *value, bool most) {
  if (!turns(p)) {
    tg_range(jo, BK/WARPS) tg_range(ji, WARPS, local) tg_range(wo, ceildiv(E, LANES)) tg_range(wi, LANES, lane) {
      tg(let j = jo*WARPS + ji);
      tg(let w = wo*LANES + wi);
      say("let v = %s", element(tg_b_, p, 'V', "min(w, E - 1)", true));
      say("cut[w,j] = %s(%s) if w < E", tg_type_name[p->v], value);
      if (most) tg(most[ji,wi] = max(most[ji,wi], abs(v)));
    }
    return;
  }
  tg_range(jo, ceildiv(BK, CUT_ROWS)) tg_range(ji, CUT_ROWS, local) tg_range(wo, ceildiv(E, CUT_UNITS*UNIT))
    tg_range(wi, CUT_UNITS, local) tg_range(wv, UNIT, upcast) {
      tg(let j = jo*CUT_ROWS + ji);
      tg(let w = (wo*CUT_UNITS + wi)*UNIT + wv);
      say("let v = %s", element(tg_b_, p, 'V', "min(w, E - 1)", true));
      say("cut[j,w] = %s(%s) if w < E", tg_type_name[p->v], value);
      if (most) tg(most[ji,wi,wv] = max(most[ji,wi,wv], abs(v)));
    }
}

/* The same with 0 for what is not finite, and whether there is such a value: each thread has the greatest of what it
 * copies, and these are combined. */
static void copy_finite(tg_builder *tg_b_, const tg_attention_problem *p) {
  tg_define_reg(odd, f32, [1]);
  if (turns(p)) {
    tg_define_reg(most, f32, [CUT_ROWS, CUT_UNITS, UNIT]);
    tg_range(ji, CUT_ROWS, local) tg_range(wi, CUT_UNITS, local) tg_range(wv, UNIT, upcast) tg(most[ji,wi,wv] = 0);
    copy_cut(tg_b_, p, "where(abs(v) < inf, v, 0)", true);
    tg(odd[0] = max(r : CUT_ROWS group, max(u : CUT_UNITS group, max(v : UNIT unroll, most[r, u, v]))));
    return;
  }
  tg_define_reg(most, f32, [WARPS, LANES]);
  tg_range(ji, WARPS, local) tg_range(wi, LANES, lane) tg(most[ji,wi] = 0);
  copy_cut(tg_b_, p, "where(abs(v) < inf, v, 0)", true);
  tg(odd[0] = max(r : WARPS group, max(u : LANES lane, most[r,u])));
}

/* A product cannot leave out a key that only some of its rows see, and the weight 0 times an infinity or NaN in V is
 * NaN. So the product of a cut block takes 0 for these, and a second one counts for each row and element how many of
 * them have a weight, of each kind in digits of their own: 1 for inf, 2^8 for -inf, 2^15 for NaN. f16 and bf16 hold
 * these exactly, and f32 adds them exactly. Then o gets what they add up to. */
static void add_infinite(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *type = tg_type_name[p->v];
  tg_let(ED, tg_matrix_find(p->matrix)->n);   /* elements at a time: sums for all at once take too many registers */
  tg_define_local(counts, f32, [BQ, E]);
  copy_cut(tg_b_, p, "where(v == inf, 1.0f, where(v == -inf, 256.0f, where(v == v, 0.0f, 32768.0f)))", false);
  tg_range(i, BQ) tg_range(j, BK) say("p[i,j] = where(p[i,j] > 0, %s(1), %s(0))", type, type);
  tg_range(e, E/ED) tg_range(i, BQ) tg_range(y, ED)
    say("counts[i, e*ED + y] = sum(j : BK, f32(p[i,j]) * f32(%s))",
        turns(p) ? "cut[j, e*ED + y]" : "cut[e*ED + y, j]");
  tg_range(i, BQ) tg_range(d, E) {
    tg(let n = counts[i,d]);
    tg(o[i,d] = o[i,d] + where(n == 0, 0, where(n < 256, inf, where(n < 32768 & (i32(n) & 255) == 0, -inf, nan))));
  }
}

static void block(tg_builder *tg_b_, const tg_attention_problem *p, bool cut) {
  const char *type = type_of_weights(p), *v = element(tg_b_, p, 'V', "d", cut);
  if (cut && !p->matrix) v = text("pick(p[i,j] != 0, %s, 0)", v);
  if (cut && p->matrix) {
    v = turns(p) ? "f32(cut[j,d])" : "f32(cut[d,j])";
    tg_kit_declare(tg_b_, "define_local", turns(p) ? "cut, %s, [BK, E + 8]" : "cut, %s, [E, BK]", type);
    copy_finite(tg_b_, p);
  }
  scores(tg_b_, p, cut);
  tg_range(i, BQ) {
    tg(m1[i] = max(m[i], max(j : BK, s[i,j])));
    tg(z[i] = where(m1[i] == -inf, 0, m1[i]));
    tg(by[i] = exp2(m[i] - z[i]));
    tg_range(j, BK) say("p[i,j] = %s(exp2(s[i,j] - z[i]))", type);
    tg(l[i] = l[i] * by[i] + sum(j : BK, f32(p[i,j])));
    if (p->dropout)
      tg_range(j, BK) {
        const char *keep = tg_attention_keep(tg_b_, p, "g*BQ + i", "kb*BK + j");
        say("p[i,j] = %s(f32(p[i,j]) * %s)", type, keep);
      }
    tg_range(d, E) say("o[i,d] = o[i,d] * by[i] + sum(j : BK, f32(p[i,j]) * %s)", v);
    tg(m[i] = m1[i]);
  }
  if (cut && p->matrix) tg_range(again, where(odd[0] < inf, 0, 1)) add_infinite(tg_b_, p);
}

/* A bound of blocks; of divided keys within those of the part, or none where the workgroup has no part. */
static const char *below(tg_builder *tg_b_, const tg_attention_problem *p, const char *x) {
  return p->slots ? text("min(%s, where(here, part*(part_keys/BK) + part_keys/BK, 0))", x) : x;
}

static const char *above(tg_builder *tg_b_, const tg_attention_problem *p, const char *x) {
  return p->slots ? text("max(%s, part*(part_keys/BK))", x) : x;
}

void tg_attention_device_divide(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *queries = p->row_heads > 1 ? "QB" : "BQ", *row = text("at + g*%s", queries),
             *behind = text("g*%s + %s", queries, queries), *last = text("min(M, %s) + at", behind), *end = "N",
             *full = "(N - N % BK)/BK", *upper = NULL, *first = "index(0)", *whole = first;
  if (p->causal) end = text("min(N, %s)", last), upper = text("(%s + 1)", row);
  else if (p->window) end = text("min(N, %s + window - 1)", last), upper = text("(%s + window)", row);
  if (upper) full = text("min(%s, (%s - %s %% BK)/BK)", full, upper, upper);
  if (p->window) {
    say("let from = %s - window + 1", row);
    first = "max(0, (from - from % BK)/BK)", whole = text("max(0, ceildiv(at + %s - window, BK))", behind);
  }
  say("let blocks = %s", below(tg_b_, p, text("ceildiv(%s, BK)", end)));
  say("let first = %s", above(tg_b_, p, first));
  say("let whole = %s", above(tg_b_, p, whole));
  if (tg_attention_is_masked(p)) tg(let full = whole);
  else say("let full = %s", below(tg_b_, p, full));
  tg(let front = max(0, min(whole, blocks) - first));
  tg(let behind = max(whole, full));
  tg(let back = max(0, blocks - behind));
}

/* ---- words ---- */

/* K, or V: its block of a ring in LOCAL memory, which all threads fill. */
static void stage(tg_builder *tg_b_, const tg_attention_problem *p, tg_words *w, bool keys) {
  const tg_matrix_row *r = tg_matrix_find(p->matrix);
  uint32_t block = (uint32_t)tg_c(BK), wide = (uint32_t)p->value_head, bytes = (uint32_t)tg_type_bytes(p->v);
  const tg_device_block copy = {.name = keys ? "K" : "V", .copy = keys ? "K.tile" : "V.tile", .at = "kf",
                               .own = keys ? 2 : 3, .term = keys ? 3 : 2, .along_terms = keys,
                               .loads_matrices = p->loads_matrices, .bytes = bytes, .vector = TG_UNIT / bytes,
                               .rows = keys ? block : wide, .warp = keys ? block : wide,
                               .terms = keys ? (uint32_t)p->head : block, .threads = p->warps * tg_matrix_lanes(r),
                               .stages = p->stages};
  w->n = 0;
  tg_device_block_words(&copy, w);
  for (uint32_t i = 0; i < w->n; i++) tg_kit_word(tg_b_, "%s", w->data[i]);
}

static void words(tg_builder *tg_b_, const tg_attention_problem *p) {
  const tg_matrix_row *r = tg_matrix_find(p->matrix);
  tg_words w = {.env = &tg_b_->job->env};
  bool whole = has_whole(p, tg_c(BK));
  if (p->stages && whole) stage(tg_b_, p, &w, true), stage(tg_b_, p, &w, false);
  tg_kit_word(tg_b_, "split i %u as i.w i.u", r->m);
  if (p->warps > 1) tg_kit_word(tg_b_, "local i.w");
  if (whole && p->keeps_queries && p->head > r->k) {
    tg_kit_word(tg_b_, "split s.c %u as c.s c.m", r->k);
    tg_kit_word(tg_b_, "unroll c.s");
    tg_kit_word(tg_b_, "contract %s i=i.u j=s.j k=c.m", p->matrix);
  } else if (whole) tg_kit_word(tg_b_, "contract %s i=i.u j=s.j k=s.c", p->matrix);
  if (has_cut(p)) tg_kit_word(tg_b_, "contract %s i=i.u j=s.j k=s.x", p->matrix);
  /* where weights lie as operands do, their sums are one more column of them */
  if (r->form == TG_MATRIX_PTX) tg_kit_word(tg_b_, "contract %s i=i.u k=l.j", p->matrix);
  tg_kit_word(tg_b_, "contract %s i=i.u j=o.d k=p.j", p->matrix);
  if (has_cut(p)) tg_kit_word(tg_b_, "contract %s i=i.u j=counts.y k=counts.j", p->matrix);
  /* rows that begin at 16 bytes are copied so */
  static const char *const strides[] = {"ldk", "ldv", "k_h", "v_h", "k_b", "v_b", "ldq", "q_h", "q_b", "ldo", "o_h",
      "o_b"};
  char test[320];
  size_t n = 0;
  for (uint32_t i = 0; i < TG_COUNT(strides); i++)
    n += (size_t)snprintf(test + n, sizeof test - n, "%s%s %% %u == 0", i ? " & " : "", strides[i],
                          TG_UNIT / (uint32_t)tg_type_bytes(p->v));
  tg_add_declaration(tg_b_, "opt", text("specialize(%s)", test), __FILE__, __LINE__);
}

/* ---- parts of the keys ---- */

/* Which part of which rows the workgroup `slot` has; the last ones may have none. */
static void find_part(tg_builder *tg_b_, const char *sets, const char *blocks) {
  tg(let part = slot % parts);
  tg(let of_rows = (slot - slot % parts)/parts);
  say("let g = of_rows %% %s", blocks);
  say("let of_set = (of_rows - of_rows %% %s)/%s", blocks, blocks);
  say("let head = of_set %% (%s)", sets);
  say("let sequence = (of_set - of_set %% (%s))/(%s)", sets, sets);
  tg(let batch = min(sequence, B - 1));
  tg(let here = sequence < B);
}

/* What attention_merge does, by the places of the parts. */
static void merge(tg_builder *tg_b_, const tg_attention_problem *p, const char *sets, const char *blocks) {
  long long heads = p->row_heads > 1 ? p->row_heads : 1;
  TG_KIT_RANGE(batch, "batch, B, global") TG_KIT_RANGE(head, text("head, %s, global", sets))
    TG_KIT_RANGE(g, text("g, %s, global", blocks)) tg_range(row, BQ, global) {
      tg(let i = row);   /* a loop that no word means */
      say("let at_part = ((batch*(%s) + head)*%s + g)*parts", sets, blocks);
      const char *slot = "min(at_part + %s, SLOTS - 1)", *m = text("of_parts_m[%s, i]", text(slot, "n")),
                 *of_sink = heads > 1 ? text("head, i %% %lld", heads) : "head",
                 *sink = p->sinks ? tg_attention_sink(tg_b_, p, of_sink) : NULL;
      say("let most = %smax(n : parts, %s)%s", sink ? text("max(%s, ", sink) : "", m, sink ? ")" : "");
      tg(let z = where(most == -inf, 0, most));
      say("let all = %ssum(n : parts, exp2(%s - z) * of_parts_l[%s, i])",
          sink ? text("exp2(%s - z) + ", sink) : "", m, text(slot, "n"));
      const char *place = tg_attention_grid_row(tg_b_, p), *exists = tg_attention_grid_exists(tg_b_, p),
                 *sum = text("sum(n : parts, exp2(%s - z) * of_parts[%s, i, y])", m, text(slot, "n"));
      tg_range(y, E) say("O[%s, y] = %s if %s", place, tg_attention_result(tg_b_, p, sum, "all"), exists);
      if (p->lse) say("lse[%s] = %s if %s", place, tg_attention_lse(tg_b_, p, "most", "all"), exists);
    }
}

/* ---- the kernel ---- */

/* The rows g of a head, or of those that are rows, over the blocks of keys that they have. */
static void attend(tg_builder *tg_b_, const tg_attention_problem *p) {
  long long heads = p->row_heads > 1 ? p->row_heads : 1;
  tg_define_reg(s, f32, [BQ, BK]);
  tg_kit_declare(tg_b_, "define_reg", "p, %s, [BQ, BK]", type_of_weights(p));
  tg_define_reg(o, f32, [BQ, E]);
  tg_define_reg(m, f32, [BQ]);
  tg_define_reg(m1, f32, [BQ]);
  tg_define_reg(z, f32, [BQ]);
  tg_define_reg(by, f32, [BQ]);
  tg_define_reg(l, f32, [BQ]);
  tg_range(i, BQ) {
    tg_range(d, E) tg(o[i,d] = 0);
    if (p->sinks && !p->slots) {   /* a score without a value, with its weight */
      say("m[i] = %s", tg_attention_sink(tg_b_, p, heads > 1 ? text("head, i %% %lld", heads) : "head"));
      tg(l[i] = where(m[i] == -inf, 0, 1));
    } else {
      tg(m[i] = -inf);
      tg(l[i] = 0);
    }
  }
  tg_attention_device_divide(tg_b_, p);
  if (!p->matrix || has_whole(p, tg_c(BK))) tg_range(kf, full - whole) {
    tg(let kb = whole + kf);
    block(tg_b_, p, false);
  }
  if (!p->matrix || has_cut(p)) tg_range(kc, front + back) {
    tg(let kb = where(kc < front, first + kc, behind + kc - front));
    block(tg_b_, p, true);
  }
  if (p->slots) {
    tg_range(i, BQ) tg_range(d, E) tg(of_parts[slot, i, d] = o[i,d]);
    tg_range(i, BQ) {
      tg(of_parts_m[slot, i] = m[i]);
      tg(of_parts_l[slot, i] = l[i]);
    }
    return;
  }
  const char *place = tg_attention_grid_row(tg_b_, p), *exists = tg_attention_grid_exists(tg_b_, p);
  tg_range(i, BQ) tg_range(d, E)
    say("O[%s, d] = %s if %s", place, tg_attention_result(tg_b_, p, "o[i,d]", "l[i]"), exists);
  if (p->lse)
    tg_range(i, BQ) say("lse[%s] = %s if %s", place, tg_attention_lse(tg_b_, p, "m[i]", "l[i]"), exists);
}

TG_KERNEL(attention_device, ) {
  const tg_attention_problem *p = tg_user;
  const tg_matrix_row *r = p->matrix ? tg_matrix_find(p->matrix) : NULL;
  const long long heads = p->row_heads > 1 ? p->row_heads : 1;
  tg_let(WARPS, r ? p->warps : 1);
  tg_let(LANES, r ? tg_matrix_lanes(r) : 1);
  tg_let(BQ, r ? tg_c(WARPS) * r->m : 1);
  tg_let(QB, tg_c(BQ) / heads);
  uint32_t keys = r ? p->keys_of_block : PLAIN_KEYS, least = r && r->k > r->n ? r->k : r ? r->n : 1;
  if (r && keys / 2 >= least) tg_kit_declare(tg_b_, "knob", "BK, %u, %u", keys, keys / 2);
  else if (r) tg_kit_declare(tg_b_, "knob", "BK, %u", keys);
  else tg_kit_declare(tg_b_, "knob", "BK, %u, %u, %u", keys, 2 * keys, 4 * keys);
  /* threads for cut blocks of V: a row's units of 16 bytes, and rows */
  tg_let(UNIT, TG_UNIT / tg_type_bytes(p->v));
  tg_let(CUT_UNITS, tg_block_power_of_two_below((uint32_t)(p->value_head / tg_c(UNIT))));
  int64_t cut_rows = tg_c(WARPS) * tg_c(LANES) / tg_c(CUT_UNITS);
  tg_let(CUT_ROWS, cut_rows < tg_c(BK) ? cut_rows : tg_c(BK));
  tg_attention_declare(tg_b_, p);
  const char *sets = text("H/%lld", heads), *blocks = "ceildiv(M, QB)";
  if (p->slots) {
    tg_let(SLOTS, p->slots);
    tg_define_local(of_parts, f32, [SLOTS, BQ, E]);
    tg_define_local(of_parts_m, f32, [SLOTS, BQ]);
    tg_define_local(of_parts_l, f32, [SLOTS, BQ]);
    tg_range(slot, SLOTS, global) {
      find_part(tg_b_, sets, blocks);
      attend(tg_b_, p);
    }
    merge(tg_b_, p, sets, blocks);
  } else {
    TG_KIT_RANGE(batch, "batch, B, global") TG_KIT_RANGE(head, text("head, %s, global", sets))
      TG_KIT_RANGE(g, text("g, %s, global", blocks)) attend(tg_b_, p);
  }
  if (r) words(tg_b_, p);
}
const tg_kernel_def *const tg_attention_device = &attention_device;

/* ---- appending ---- */

/* The last M keys of each sequence get k_new, for V as well: the problem's k and head are those of the tensor. Tokens
 * go one after the other, since a table may name any pages. */
TG_KERNEL(attention_device_append, ) {
  const tg_attention_problem *p = tg_user;
  const char *type = tg_type_name[p->k];
  long long group = p->group, page = p->page;
  tg_let(D, p->head);
  tg_attention_declare_tensor(tg_b_, p, "inout", "K", "k", p->k, "N", "D");
  if (page) tg_in(page_table, i32 in 0..pages - 1, [B, table_n], [table_step, 1]);
  tg_kit_declare(tg_b_, "in", "k_new, %s, [B, H/%lld, M, D], [kn_b, kn_h, ldkn, 1]", type, group);
  TG_KIT_RANGE(head, text("head, H/%lld, global", group)) tg_range(d, D, global) tg_range(batch, B) tg_range(i, M) {
    const char *key = "max(min(N - M + i, N - 1), 0)";
    if (page) key = text("min(%s, table_n*%lld - 1)", key, page);
    say("K[%s, d] = k_new[batch, head, i, d] if N >= M", place_of(tg_b_, p, "head", key));
  }
}
const tg_kernel_def *const tg_attention_device_append = &attention_device_append;
