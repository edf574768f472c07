/* SPDX-License-Identifier: MIT
 * What all bodies of attention share: parameters, declarations, and the variants of a score as texts. */
#include <stdio.h>
#include "attention/body.h"
#include "target/matrix.h"

static const char *const operands[] = {
#define OPERAND(name, text) text,
#include "attention/names.def"
};
static const char *const values[] = {
#define VALUE(name, text, has, least, most) text,
#include "attention/names.def"
};
const tg_kit_names tg_attention_names = {operands, values, ATTENTION_OPERANDS, ATTENTION_VALUES};

/* ---- parameters ---- */

/* Has the mask or the argument, ATTENTION_MASK on, an element for each query, or key? A grid's are dense. */
static bool steps(const tg_attention_problem *p, uint32_t t, uint8_t per) {
  bool has = t > ATTENTION_MASK ? t - ATTENTION_ARG0 < p->arguments_n : p->mask != TG_VOID;
  return !p->grid && has && tg_attention_mask(p, t).per & per;
}

/* Has the mask or the argument a value for each query and no more? A kernel of a CPU copies these of its rows once,
 * since their step is known only when a call comes: as lanes they would be gathered for each key. */
static bool of_rows(const tg_attention_problem *p, uint32_t t) {
  return steps(p, t, TG_PER_QUERY) && !steps(p, t, TG_PER_KEY);
}

/* Has a grid masks or arguments with an element for each query, or key? */
static bool dense(const tg_attention_problem *p, uint8_t per) {
  uint8_t all = p->mask ? p->mask_per : 0;
  for (uint32_t a = 0; a < p->arguments_n; a++) all |= p->argument[a].per;
  return p->grid && all & per;
}

uint32_t tg_attention_bind(const tg_attention_problem *p, const tg_kernel_def *sketch, tg_binding *b) {
  /* a grid's steps have 31 bits, so that its addresses take few registers */
  const int64_t size = (int64_t)1 << 31, step = p->grid ? size - 1 : (int64_t)1 << 40;
  bool states = sketch == tg_attention_states, gradients = sketch == tg_attention_backward,
       append = sketch == tg_attention_device_append, dq = sketch == tg_attention_device_dq,
       dkv = sketch == tg_attention_device_dkv,
       mods = (p->score_mod || p->mask_mod) && !p->grid,
       places = mods || (!p->grid && (p->block_rows || (p->dropout && !states)));   /* of queries and keys */
  const struct { bool has; int64_t least, most; } all[] = {
#define VALUE(name, text, has, least, most) {has, least, most},
#include "attention/names.def"
  };
  uint32_t n = 0;
  for (uint32_t v = 0; v < ATTENTION_VALUES; v++)
    if (all[v].has)
      b[n++] = (tg_binding){values[v], all[v].least, all[v].most,
                            v == ATTENTION_HEADS       ? p->group
                            : v == ATTENTION_PART_KEYS ? p->keys_of_block
                                                       : 1};
  return n;
}

void tg_attention_kernel_of(const tg_attention_problem *p, const tg_kernel_def *sketch, tg_attention_def *out) {
  tg_binding b[ATTENTION_VALUES];
  uint32_t of = tg_attention_bind(p, sketch, b);
  size_t n = 0;
  for (uint32_t v = 0; v < of; v++)
    n += (size_t)snprintf(out->params + n, sizeof out->params - n, "%s%s", n ? ", " : "", b[v].name);
  out->def = *sketch;
  out->def.params = out->params;
}

/* ---- texts ---- */

const char *tg_attention_f32(tg_builder *tg_b_, tg_type t, const char *element) {
  return t == TG_F32 ? element : text("f32(%s)", element);
}

/* Where rows are heads that do not fill a workgroup, that all results are written is more than coverage proves. */
static const char *unproved(const tg_attention_problem *p) {
  int64_t rows = p->matrix ? p->warps * tg_matrix_find(p->matrix)->m : 1;
  return p->row_heads > 1 && rows % p->row_heads ? ", partial" : "";
}

const char *tg_attention_grid_query(tg_builder *tg_b_, const tg_attention_problem *p) {
  return p->row_heads > 1 ? text("g*QB + i/%lld", (long long)p->row_heads) : "g*BQ + i";
}

const char *tg_attention_grid_row(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *query = tg_attention_grid_query(tg_b_, p);
  return p->row_heads > 1 ? text("batch, head, i %% %lld, %s", (long long)p->row_heads, query)
                          : text("batch, head, %s", query);
}

const char *tg_attention_grid_exists(tg_builder *tg_b_, const tg_attention_problem *p) {
  const char *query = text("%s < M", tg_attention_grid_query(tg_b_, p));
  return *unproved(p) ? text("i/%lld < QB & %s", (long long)p->row_heads, query) : query;
}

/* The element of the mask or an argument, ATTENTION_MASK on, at the row in hand and a key. Rows and keys behind the
 * last stand for the last. */
static const char *element_of(tg_builder *tg_b_, const tg_attention_problem *p, uint32_t t, const char *key) {
  uint8_t per = tg_attention_mask(p, t).per;
  const char *at = "";
  if (of_rows(p, t)) return text("%s_rows[g, i]", operands[t]);
  if (p->grid && per & TG_PER_BATCH) at = "batch, ";
  if (p->grid && per & TG_PER_HEAD) at = text("%shead, ", at);
  if (per & TG_PER_QUERY) at = text("%smin(g*BQ + i, %s - 1), ", at, p->grid ? "mask_m" : "M");
  if (per & TG_PER_KEY) at = text("%smin(%s, %s - 1), ", at, key, p->grid ? "mask_n" : "N");
  return *at ? text("%s[%.*s]", operands[t], (int)strlen(at) - 2, at) : text("%s[0]", operands[t]);
}

void tg_attention_copy_rows(tg_builder *tg_b_, const tg_attention_problem *p) {
  for (uint32_t t = ATTENTION_MASK; t <= ATTENTION_MASK + p->arguments_n; t++) {
    const char *name = operands[t];
    if (!of_rows(p, t)) continue;
    tg_kit_declare(tg_b_, "define_reg", "%s_rows, %s, [G, BQ]", name, tg_type_name[tg_attention_mask(p, t).type]);
    TG_KIT_RANGE(g, text("%s_g, ceildiv(M, BQ)", name)) TG_KIT_RANGE(i, text("%s_i, BQ", name))
      say("%s_rows[%s_g, %s_i] = %s[min(%s_g*BQ + %s_i, M - 1)]", name, name, name, name, name, name);
    tg_kit_word(tg_b_, "place %s_rows memory", name);
  }
}

/* The call of a modification: name(first, b, h, q, k, arguments). */
static const char *call_mod(tg_builder *tg_b_, const tg_attention_problem *p, const char *name, const char *first,
                            const char *key) {
  const char *call = text("%s(%s%s%sbatch, head, %sg*BQ + i, %s%s", name, first, *first ? ", " : "",
                          p->grid ? "first_b + " : "", p->grid ? "" : "query0 + ", p->grid ? "" : "key0 + ", key);
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    const char *x = element_of(tg_b_, p, ATTENTION_ARG0 + a, key);
    tg_type t = p->argument[a].type;
    call = text(t == TG_F16 || t == TG_BF16 ? "%s, f32(%s)" : "%s, %s", call, x);
  }
  return text("%s)", call);
}

const char *tg_attention_score(tg_builder *tg_b_, const tg_attention_problem *p, const char *sum, const char *key) {
  const char *log2e = p->base2 ? "" : "1.4426950408889634f * ", *x = sum;
  if (p->cap) x = text("cap * tanh(%s)", x);
  if (p->score_mod) x = text("%s%s", log2e, call_mod(tg_b_, p, "score_mod", x, key));
  if (p->alibi) {   /* two differences, each of which f32 holds exactly up to 2^24 */
    const char *far = p->grid ? "(f32(kb*BK - at - g*BQ) + (f32(j) - f32(i)))"
                              : text("(f32(%s - at - g*BQ) - f32(i))", key);
    x = text("%s + %sslope%s * %s", x, log2e, p->grid ? "[head]" : "", p->causal ? far : text("(-abs%s)", far));
  }
  if (p->mask && p->mask != TG_BOOL)
    x = text("%s + %s%s", x, log2e, tg_attention_f32(tg_b_, p->mask, element_of(tg_b_, p, ATTENTION_MASK, key)));
  return x;
}

const char *tg_attention_sink(tg_builder *tg_b_, const tg_attention_problem *p, const char *row) {
  return text("%ssink[%s]", p->base2 ? "" : "1.4426950408889634f * ", row);
}

const char *tg_attention_slope(tg_builder *tg_b_, const tg_attention_problem *p, const char *sum, const char *key) {
  const char *capped = p->cap ? text("cap * tanh(%s)", sum) : sum,
             *of_cap = p->cap ? text("(1 - tanh(%s) * tanh(%s))", sum, sum) : NULL;
  if (!p->score_mod) return of_cap;
  const char *slope = text("derivative(%s, %s)", call_mod(tg_b_, p, "score_mod", capped, key), capped);
  return of_cap ? text("%s * %s", slope, of_cap) : slope;
}

const char *tg_attention_seen(tg_builder *tg_b_, const tg_attention_problem *p, const char *key, const char *exists) {
  const char *all = exists, *query = tg_attention_grid_query(tg_b_, p);
  if (p->causal) all = text("%s & %s <= at + %s", all, key, query);
  else if (p->window) all = text("%s & %s < at + %s + window", all, key, query);
  if (p->window) all = text("%s & at + %s < %s + window", all, query, key);
  if (p->mask == TG_BOOL) all = text("%s & %s", all, element_of(tg_b_, p, ATTENTION_MASK, key));
  if (p->block_rows && p->grid)
    all = text("%s & block_mask[%s%smin(min(g*BQ + i, M - 1)/%lld, blocks_m - 1), "
               "max(min(min(%s, N - 1)/%lld, blocks_n - 1), 0)]",   /* of a window's blocks no bound is seen */
               all, p->block_per & TG_PER_BATCH ? "batch, " : "", p->block_per & TG_PER_HEAD ? "head, " : "",
               (long long)p->block_rows, key, (long long)p->block_keys);
  else if (p->block_rows)
    all = text("%s & block_mask[min((query0 + min(g*BQ + i, M - 1))/%lld, blocks_m - 1), "
               "min((key0 + min(%s, N - 1))/%lld, blocks_n - 1)]",
               all, (long long)p->block_rows, key, (long long)p->block_keys);
  return p->mask_mod ? text("%s & %s", all, call_mod(tg_b_, p, "mask_mod", "", key)) : all;
}

/* ---- rotary embedding ---- */

const char *tg_attention_partner(tg_builder *tg_b_, const tg_attention_problem *p, const char *x) {
  if (p->neighbours) return text("max(min(%s + 1 - %s %% 2*2, D - 1), 0)", x, x);
  return text("(%s + %lld) %% %lld", x, (long long)p->rotary / 2, (long long)p->rotary);
}

const char *tg_attention_turned(tg_builder *tg_b_, const tg_attention_problem *p, const char *x, const char *own,
                                const char *other, const char *position) {
  long long all = p->rotary, half = all / 2;
  const char *pair = p->neighbours ? text("min(%s/2, %lld)", x, half - 1) : text("%s %% %lld", x, half),
             *first = p->neighbours ? text("%s %% 2 == 0", x) : text("%s < %lld", x, half),
             *turned = text("(%s * cos_of[%s, %s] + where(%s, -1.0f, 1.0f) * %s * sin_of[%s, %s])", own, position, pair,
                            first, other, position, pair);
  return all < p->head ? text("where(%s < %lld, %s, %s)", x, all, turned, own) : turned;
}

/* ---- dropout ---- */

enum { ROUNDS = 10 };

/* Philox4x32-10 (Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3) of c0 .. c3: words c010 .. c310. */
static void philox(tg_builder *tg_b_, const char *low, const char *high) {
  uint32_t by[2] = {0, 0};
  for (int i = 0; i < ROUNDS; i++) {
    const char *from = i ? text("%d", i) : "";
    say("let x%d = u64(c0%s) * 3528531795", i, from);
    say("let y%d = u64(c2%s) * 3449720151", i, from);
    say("let c0%d = u32(y%d >> 32) ^ c1%s ^ (%s + %u)", i + 1, i, from, low, by[0]);
    say("let c1%d = u32(y%d)", i + 1, i);
    say("let c2%d = u32(x%d >> 32) ^ c3%s ^ (%s + %u)", i + 1, i, from, high, by[1]);
    say("let c3%d = u32(x%d)", i + 1, i);
    by[0] += 0x9E3779B9u, by[1] += 0xBB67AE85u;
  }
}

static double kept(const tg_attention_problem *p) { return 65536.0 / (65536 - p->dropout); }

void tg_attention_drop(tg_builder *tg_b_, const tg_attention_problem *p, const char *to, const char *row) {
  enum { KEYS = 8 };
  say("let c0 = u32((key0 + kb*BK)/8 + dg)");
  say("let c1 = u32(query0 + g*BQ + %s)", row);
  tg(let c2 = u32(sequence_head));
  tg(let c3 = philox[2]);
  philox(tg_b_, "philox[0]", "philox[1]");
  for (int k = 0; k < KEYS; k++) {
    const char *at = text("%s[dg*8 + %d, %s]", to, k, row), *half = k % 2 ? ">> 16" : "& 65535";
    say("%s = where((c%d%d %s) < %u, 0, %.9gf%s)", at, k / 2, ROUNDS, half, p->dropout, kept(p),
        p->backward ? "" : text(" * %s", at));
  }
}

const char *tg_attention_keep(tg_builder *tg_b_, const tg_attention_problem *p, const char *query, const char *key) {
  say("let c0 = u32((%s)/8)", key);
  say("let c1 = u32(%s)", query);
  tg(let c2 = u32(sequence_head + batch*H + head));
  tg(let c3 = u32(offset));
  philox(tg_b_, "u32(seed_low)", "u32(seed_high)");
  say("let word = where((%s) %% 8 < 2, c010, where((%s) %% 8 < 4, c110, where((%s) %% 8 < 6, c210, c310)))", key, key,
      key);
  say("let half = where((%s) %% 2 == 0, word & 65535, word >> 16)", key);
  return text("where(half < %u, 0.0f, %.9gf)", p->dropout, kept(p));
}

/* ---- declarations ---- */

static void declare_mask(tg_builder *tg_b_, const tg_attention_problem *p, uint32_t t) {
  const tg_kit_argument of = tg_attention_mask(p, t);
  const char *name = operands[t], *sizes = "", *steps = "";
  uint8_t per = of.per;
  if (p->grid && per & TG_PER_BATCH) sizes = "B, ";
  if (p->grid && per & TG_PER_HEAD) sizes = text("%sH, ", sizes);
  if (per & TG_PER_QUERY) sizes = text("%s%s, ", sizes, p->grid ? "mask_m" : "M"), steps = text("%s_q, ", name);
  if (per & TG_PER_KEY) sizes = text("%s%s, ", sizes, p->grid ? "mask_n" : "N"), steps = text("%s%s_k, ", steps, name);
  if (!*sizes) sizes = "1, ";
  const char *type = tg_type_name[of.type], *dims = text("%.*s", (int)strlen(sizes) - 2, sizes);
  if (p->grid || !*steps) tg_kit_declare(tg_b_, "in", "%s, %s, [%s]", name, type, dims);
  else tg_kit_declare(tg_b_, "in", "%s, %s, [%s], [%.*s]", name, type, dims, (int)strlen(steps) - 2, steps);
}

#define declare_tensor tg_attention_declare_tensor

void tg_attention_declare_tensor(tg_builder *tg_b_, const tg_attention_problem *p, const char *word, const char *name,
                                 const char *low, tg_type t, const char *rows, const char *width) {
  bool keys = *rows == 'N', paged = keys && p->page;
  long long group = p->group, rows_of = p->row_heads;
  const char *type = tg_type_name[t], *tokens = paged ? text("%lld", (long long)p->page) : rows,
             *heads = keys ? text("H/%lld", group) : "H",
             *far = p->grid && !strstr(name, "scale") ? "b" : "page";   /* scales have one step for both */
  if (!keys && rows_of > 1)
    tg_kit_declare(tg_b_, word, "%s, %s, [B, H/%lld, %lld, %s, %s], [%s_b, %lld*%s_h, %s_h, ld%s, 1]%s", name, type,
                   rows_of, rows_of, tokens, width, low, rows_of, low, low, low, *word == 'o' ? unproved(p) : "");
  else if (p->grid)
    tg_kit_declare(tg_b_, word, "%s, %s, [%s, %s, %s, %s], [%s_%s, %s_h, ld%s, 1]", name, type, paged ? "pages" : "B",
                   heads, tokens, width, low, far, low, low);
  else if (paged)
    tg_kit_declare(tg_b_, word, "%s, %s, [pages, %s, %s], [%s_%s, ld%s, 1]", name, type, tokens, width, low, far, low);
  else tg_kit_declare(tg_b_, word, "%s, %s, [%s, %s], [ld%s, 1]", name, type, rows, width, low);
}

void tg_attention_declare_masks(tg_builder *tg_b_, const tg_attention_problem *p) {
  tg_def(pick(c, x, y) = where(c, x, y));
  if (p->mask) declare_mask(tg_b_, p, ATTENTION_MASK);
  if (p->block_rows && p->grid)
    tg_kit_declare(tg_b_, "in", "block_mask, bool, [%s%sblocks_m, blocks_n]", p->block_per & TG_PER_BATCH ? "B, " : "",
                   p->block_per & TG_PER_HEAD ? "H, " : "");
  else if (p->block_rows) tg_in(block_mask, bool, [blocks_m, blocks_n], [blocks_q, blocks_k]);
  const char *formals = "b, h, q, k";
  for (uint32_t a = 0; a < p->arguments_n; a++) {
    declare_mask(tg_b_, p, ATTENTION_ARG0 + a);
    formals = text("%s, %s", formals, p->argument[a].name);
  }
  if (p->score_mod)
    tg_add_splice(tg_b_, "score_mod", p->score_mod, text("score, %s -> f32", formals), __FILE__, __LINE__);
  if (p->mask_mod)
    tg_add_splice(tg_b_, "mask_mod", p->mask_mod, text("%s -> bool", formals), __FILE__, __LINE__);
}

void tg_attention_declare(tg_builder *tg_b_, const tg_attention_problem *p) {
  tg_let(D, p->head);
  tg_let(E, p->value_head);
  bool pairs = p->kv_bits == 4;   /* of integers in a byte */
  declare_tensor(tg_b_, p, "in", "Q", "q", p->q, "M", "D");
  declare_tensor(tg_b_, p, "in", "K", "k", pairs ? TG_U8 : p->k, "N", pairs ? "D/2" : "D");
  declare_tensor(tg_b_, p, "in", "V", "v", pairs ? TG_U8 : p->v, "N", pairs ? "E/2" : "E");
  if (p->page && p->grid) tg_in(page_table, i32 in 0..pages - 1, [B, table_n], [table_step, 1]);
  else if (p->page) tg_in(page_table, i32 in 0..pages - 1, [table_n]);
  if (p->kv_bits) {
    long long k = p->head / p->k_group, v = p->value_head / p->v_group;
    declare_tensor(tg_b_, p, "in", "k_scale", "ks", p->kv_scale, "N", text("%lld", k));
    declare_tensor(tg_b_, p, "in", "v_scale", "vs", p->kv_scale, "N", text("%lld", v));
  }
  if (p->rotary) {
    tg_kit_declare(tg_b_, "in", "cos_of, f32, [positions, %lld]", (long long)p->rotary / 2);
    tg_kit_declare(tg_b_, "in", "sin_of, f32, [positions, %lld]", (long long)p->rotary / 2);
  }
  if (p->dropout && !p->grid) tg_in(philox, u32, [3]);
  tg_in(scale, f32, []);
  if (p->cap) tg_in(cap, f32, []);
  if (p->alibi) tg_kit_declare(tg_b_, "in", "slope, f32, [%s]", p->grid ? "H" : "");
  tg_attention_declare_masks(tg_b_, p);
  if (p->lists) {
    tg_in(full_list, i32 in 0..N/BK - 1, [full_n]);
    tg_in(cut_list, i32 in 0..(N + BK - 1)/BK - 1, [cut_n]);
  }
  if (p->backward) {
    tg_in(change, f32, []);
    declare_tensor(tg_b_, p, "in", "O", "o", p->o, "M", "E");
    tg_kit_declare(tg_b_, "in", "lse, f32, [%sM]", p->grid ? "B, H, " : "");
    declare_tensor(tg_b_, p, "in", "dO", "do", p->o, "M", "E");
    if (p->grid) return;   /* each of its kernels has results of its own */
    if (p->partial) tg_out(dQ, f32, [M, D]);
    else declare_tensor(tg_b_, p, "out", "dQ", "dq", p->q, "M", "D");
    declare_tensor(tg_b_, p, "inout", "dK", "dk", TG_F32, "N", "D");
    declare_tensor(tg_b_, p, "inout", "dV", "dv", TG_F32, "N", "E");
  } else if (p->partial) {
    tg_out(O, f32, [M, E]);
    tg_out(part_m, f32, [M]);
    tg_out(part_l, f32, [M]);
  } else {
    declare_tensor(tg_b_, p, "out", "O", "o", p->o, "M", "E");
    long long heads = p->row_heads;
    if (p->lse && heads > 1)
      tg_kit_declare(tg_b_, "out", "lse, f32, [B, H/%lld, %lld, M], [H*lse_n, %lld*lse_n, lse_n, 1]%s", heads, heads,
                     heads, unproved(p));
    else if (p->lse) tg_kit_declare(tg_b_, "out", "lse, f32, %s", p->grid ? "[B, H, M], [H*lse_n, lse_n, 1]" : "[M]");
    if (p->sinks && heads > 1) tg_kit_declare(tg_b_, "in", "sink, f32, [H/%lld, %lld]", heads, heads);
    else if (p->sinks && p->grid) tg_in(sink, f32, [H]);
    else if (p->sinks) tg_in(sink, f32, [M], [sink_step]);
  }
}

/* ---- results ---- */

const char *tg_attention_result(tg_builder *tg_b_, const tg_attention_problem *p, const char *value, const char *l) {
  const char *x = text("where(%s == 0, 0, %s / %s)", l, value, l);
  return p->o == TG_F32 ? x : text("%s(%s)", tg_type_name[p->o], x);
}

const char *tg_attention_lse(tg_builder *tg_b_, const tg_attention_problem *p, const char *m, const char *l) {
  return text("where(%s == 0, -inf, %s(%s + log2(%s)))", l, p->base2 ? "" : "0.6931471805599453f * ", m, l);
}
