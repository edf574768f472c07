/* SPDX-License-Identifier: MIT
 * From a descriptor to a plan: defaults, the problem, the numbers of rows that runs may have, with a kernel for each of
 * a few ranges of them. Kernels are compiled by the context, or taken from its cache. */
#include <math.h>
#include "attention/plan.h"
#include "kit/words.h"
#include "target/matrix.h"

static const int64_t most_tokens = (int64_t)1 << 31;
static const char desc_name[] = "tg_attention_desc";
enum { MOST_PER = TG_PER_QUERY | TG_PER_KEY | TG_PER_HEAD | TG_PER_BATCH | TG_PACKED };

typedef struct { tg_attention *a; const tg_attention_desc *desc; } planning;

#define wrong(p, ...) tg_kit_fail((p)->a->plan.context, TG_EINVAL, __VA_ARGS__)

/* ---- the descriptor ---- */

static tg_status read_types(planning *p) {
  const tg_attention_desc *d = p->desc;
  tg_attention_problem *q = &p->a->problem;
  q->q = d->q ? d->q : TG_F32;
  q->k = d->k ? d->k : d->kv_bits ? TG_I8 : q->q;
  q->v = d->v ? d->v : q->k;
  q->o = d->o ? d->o : q->q;
  const struct { const char *name; tg_type t; } types[] = {{"q", q->q}, {"k", q->k}, {"v", q->v}, {"o", q->o}};
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < TG_COUNT(types) && s == TG_OK; i++)
    s = tg_kit_check_type(p->a->plan.context, desc_name, types[i].name, types[i].t,
                          d->kv_bits && (i == 1 || i == 2) ? "i8" : "f32, f16, bf16");
  q->mask = d->mask, q->mask_per = d->mask_per;
  if (s == TG_OK && q->mask)
    s = tg_kit_check_type(p->a->plan.context, desc_name, "mask", q->mask, "bool, f32, f16, bf16");
  if (s != TG_OK) return s;
  if (q->mask_per && !q->mask) return wrong(p, "tg_attention_desc.mask_per without a type of mask");
  if (q->mask_per > MOST_PER)
    return wrong(p, "tg_attention_desc.mask_per: %u has bits that mean nothing", q->mask_per);
  return TG_OK;
}

static tg_status read_sizes(planning *p) {
  const tg_attention_desc *d = p->desc;
  tg_attention *a = p->a;
  enum { MOST_HEAD = 576, MOST_HEADS = 1 << 20 };
  const tg_kit_sized sizes[] = {{"queries", d->queries, &a->queries}, {"keys", d->keys, &a->keys}};
  tg_status s = tg_kit_read_dims(a->plan.context, desc_name, sizes, TG_COUNT(sizes));
  if (s != TG_OK) return s;
  a->heads = d->heads ? d->heads : 1;
  a->kv_heads = d->kv_heads ? d->kv_heads : a->heads;
  if (a->heads < 1 || a->heads > MOST_HEADS)
    return wrong(p, "tg_attention_desc.heads: %d is not within 1..%d", a->heads, MOST_HEADS);
  if (a->kv_heads < 1 || a->heads % a->kv_heads)
    return wrong(p, "tg_attention_desc.kv_heads: %d is no divisor of the %d heads of Q", a->kv_heads, a->heads);
  a->problem.head = d->head;
  a->problem.value_head = d->value_head ? d->value_head : d->head;
  if (d->head < 1 || d->head > MOST_HEAD || a->problem.value_head < 1 || a->problem.value_head > MOST_HEAD)
    return wrong(p, "tg_attention_desc.head: %d and value_head: %lld are not both within 1..%d", d->head,
                 (long long)a->problem.value_head, MOST_HEAD);
  return TG_OK;
}

static tg_status read_scores(planning *p) {
  const tg_attention_desc *d = p->desc;
  tg_attention *a = p->a;
  tg_attention_problem *q = &a->problem;
  if (d->causal > TG_CAUSAL_BOTTOM_RIGHT)
    return wrong(p,
                 "tg_attention_desc.causal: %u is none of TG_CAUSAL_NONE, TG_CAUSAL_TOP_LEFT, TG_CAUSAL_BOTTOM_RIGHT",
                 d->causal);
  if (d->window < 0 || d->window > most_tokens)
    return wrong(p, "tg_attention_desc.window: %lld is no number of tokens within 0..2^31", (long long)d->window);
  if (d->scale && !isfinite(*d->scale))
    return wrong(p, "tg_attention_desc.scale: %g is no finite number", (double)*d->scale);
  if (!(d->soft_cap >= 0) || isinf(d->soft_cap))
    return wrong(p, "tg_attention_desc.soft_cap: %g is no positive number", (double)d->soft_cap);
  if (d->lse > 1 || d->base2 > 1 || d->alibi > 1 || d->backward > 1 || d->sinks > 1)
    return wrong(p, "tg_attention_desc: lse, base2, alibi, backward and sinks are 0 or 1");
  if (!(d->dropout >= 0 && d->dropout < 1))
    return wrong(p, "tg_attention_desc.dropout: %g is not within 0 and 1, 1 not included", (double)d->dropout);
  a->causal = d->causal, a->window = d->window;
  q->dropout = (uint32_t)fmin(rint((double)d->dropout * 65536), 65535);
  q->causal = d->causal != TG_CAUSAL_NONE;
  q->window = d->window != 0, q->cap = d->soft_cap != 0;
  q->backward = d->backward;
  q->lse = d->lse, q->base2 = d->base2, q->alibi = d->alibi, q->sinks = d->sinks;
  /* scores leave the last factor as binary logarithms: Q is multiplied by what belongs before tanh and score_mod */
  const double log2e = q->base2 ? 1 : 1.4426950408889634;
  double scale = d->scale ? (double)*d->scale : 1 / sqrt((double)q->head);
  tg_attention_factors *to = &a->factors;
  to->scale = (float)(q->cap ? scale / (double)d->soft_cap : d->score_mod ? scale : scale * log2e);
  to->change = (float)(q->base2 ? scale * 0.6931471805599453 : scale);
  to->cap = (float)(d->score_mod ? (double)d->soft_cap : (double)d->soft_cap * log2e);
  return TG_OK;
}

static tg_status read_mods(planning *p) {
  const tg_attention_desc *d = p->desc;
  tg_attention_problem *q = &p->a->problem;
  tg_kit_given given[TG_ATTENTION_ARGS];
  for (uint32_t i = 0; i < TG_ATTENTION_ARGS; i++)
    given[i] = (tg_kit_given){d->arg[i].name, d->arg[i].type, d->arg[i].per};
  q->score_mod = d->score_mod, q->mask_mod = d->mask_mod;
  /* the words are for loops that compute scores; without them nothing of Q and K would be left */
  if (d->score_mod && *d->score_mod && !tg_kit_reads(d->score_mod, "score"))
    return wrong(p,
                 "<score_mod>:1:1: error: score is not read; for scores that do not depend on Q and K set scale to 0 "
                 "and write score + ..\n    %.*s\n    ^",
                 (int)strcspn(d->score_mod, "\n"), d->score_mod);
  const tg_kit_formals formals = {.desc = desc_name,
                                  .formals = "score, b, h, q, k, score_mod, mask_mod, pick",
                                  .spoken = "score, b, h, q and k",
                                  .read = d->score_mod || d->mask_mod,
                                  .reader = "a score_mod or mask_mod",
                                  .type = TG_F32,
                                  .most_per = MOST_PER,
                                  .pers = "TG_PER_QUERY, TG_PER_KEY, TG_PER_HEAD, TG_PER_BATCH, TG_PACKED and their "
                                          "sums"};
  return tg_kit_read_arguments(p->a->plan.context, &formals, given, q->argument, &q->arguments_n);
}

static tg_status read_cache(planning *p) {
  enum { MOST_PAGE = 1 << 20 };
  const tg_attention_desc *d = p->desc;
  if (d->page_size < 0 || d->page_size > MOST_PAGE)
    return wrong(p, "tg_attention_desc.page_size: %lld is not within 0..%d", (long long)d->page_size, MOST_PAGE);
  if (d->append > 1) return wrong(p, "tg_attention_desc.append is 0 or 1");
  tg_attention_problem *q = &p->a->problem;
  q->kv_bits = d->kv_bits, q->kv_scale = d->kv_scale ? d->kv_scale : TG_F32;
  q->k_group = d->kv_group ? d->kv_group : q->head, q->v_group = d->kv_group ? d->kv_group : q->value_head;
  if (d->kv_bits && d->kv_bits != 4 && d->kv_bits != 8)
    return wrong(p, "tg_attention_desc.kv_bits: %u is none of 0, 4, 8", d->kv_bits);
  if (!d->kv_bits && (d->kv_scale || d->kv_group))
    return wrong(p, "tg_attention_desc: kv_scale or kv_group without kv_bits");
  tg_status s = d->kv_bits ? tg_kit_check_type(p->a->plan.context, desc_name, "kv_scale", q->kv_scale, "f32, f16, bf16")
                           : TG_OK;
  if (s != TG_OK) return s;
  if (d->kv_bits && (d->kv_group < 0 || q->head % q->k_group || q->value_head % q->v_group ||
                     (d->kv_bits == 4 && (q->k_group % 2 || q->v_group % 2))))
    return wrong(p, "tg_attention_desc.kv_group: %d elements of heads of %lld and %lld are no whole groups%s",
                 d->kv_group, (long long)q->head, (long long)q->value_head, d->kv_bits == 4 ? " of whole bytes" : "");
  if (d->rotary < 0 || d->rotary % 2 || d->rotary > d->head || d->rotary_neighbours > 1)
    return wrong(p, "tg_attention_desc.rotary: %d is no even number within the head of %d (rotary_neighbours: %u)",
                 d->rotary, d->head, d->rotary_neighbours);
  q->rotary = d->rotary, q->neighbours = d->rotary && d->rotary_neighbours;
  if (d->block_rows < 0 || d->block_keys < 0 || !d->block_rows != !d->block_keys)
    return wrong(p, "tg_attention_desc.block_rows: %d and block_keys: %d are no size of a block", d->block_rows,
                 d->block_keys);
  if (d->block_per & ~(TG_PER_BATCH | TG_PER_HEAD) || (d->block_per && !d->block_rows))
    return wrong(p, "tg_attention_desc.block_per is 0, TG_PER_BATCH, TG_PER_HEAD or both, of a mask of blocks");
  q->block_rows = d->block_rows, q->block_keys = d->block_keys, q->block_per = d->block_per;
  q->page = d->page_size, p->a->append = d->append;
  return TG_OK;
}

static tg_status read_descriptor(planning *p) {
  const uint32_t known = TG_ATTENTION_NO_COMPILE | TG_ATTENTION_OVERLAP_UNCHECKED | TG_ATTENTION_LENGTHS |
                         TG_ATTENTION_QUERY_STARTS | TG_ATTENTION_KEY_STARTS;
  p->a->flags = p->desc->flags;
  tg_status s = tg_kit_check_flags(p->a->plan.context, desc_name, p->desc->flags, known);
  if (s == TG_OK) s = read_types(p);
  if (s == TG_OK) s = read_sizes(p);
  if (s == TG_OK) s = read_scores(p);
  if (s == TG_OK) s = read_cache(p);
  if (s == TG_OK) s = tg_attention_check_combination(p->a->plan.context, p->desc);
  if (s == TG_OK) s = read_mods(p);
  if (s == TG_OK) tg_attention_list_tensors(p->a);
  return s;
}

/* ---- kernels ---- */

void tg_attention_narrow(tg_attention_problem *q, tg_kit_dim rows) {
  q->rows = rows;
  q->lists = tg_attention_is_masked(q) && rows.lo > ATTENTION_FEW && !q->backward;
  q->keys = (tg_kit_dim){q->lists ? ATTENTION_BLOCK : 1, most_tokens};
}

uint32_t tg_attention_sketches_for(const tg_attention_problem *q, const tg_kit_choice *choice, tg_attention_def *def,
                                   const tg_kernel_def **defs) {
  const tg_kernel_def *const all[] = {choice->sketch, tg_attention_prefill, tg_attention_decode};
  uint32_t n = 0;
  /* a kernel of a grid, of gradients or of the states of blocks is the only one that computes what it does */
  bool alone = q->grid || (choice->sketch != tg_attention_prefill && choice->sketch != tg_attention_decode);
  for (uint32_t i = 0; i < (alone ? 1 : TG_COUNT(all)); i++) {
    bool other = all[i] == tg_attention_decode && (q->rows.hi > ATTENTION_DECODE_ROWS || q->dropout);
    if (i && (all[i] == choice->sketch || other)) continue;
    tg_attention_kernel_of(q, all[i], &def[n]);
    defs[n] = &def[n].def, n++;
  }
  return n;
}

/* Compiles a kernel of problem q, or finds it; all but this is in the source already. */
static tg_status compile_source(planning *p, tg_kit_source *s, const tg_attention_problem *q, tg_kit_kernel *out) {
  s->names = &tg_attention_names;
  s->user = (void *)(uintptr_t)q;
  s->cached_only = p->a->flags & TG_ATTENTION_NO_COMPILE;
  return tg_kit_compile(&p->a->plan, s, out);
}

static tg_status compile(planning *p, const tg_attention_problem *q, const tg_kit_choice *choice, tg_kit_kernel *out) {
  tg_binding b[ATTENTION_VALUES];
  tg_attention_def own, def[ATTENTION_SKETCHES];
  const tg_kernel_def *defs[ATTENTION_SKETCHES];
  tg_kit_source s = {.def = &own.def, .binding = b, .choice = choice};
  tg_attention_kernel_of(q, choice->sketch, &own);
  s.bindings_n = tg_attention_bind(q, choice->sketch, b);
  if (tg_context_has_choices(p->a->plan.context))   /* then look for a choice that tg_attention_tune has kept */
    s.others = defs, s.others_n = tg_attention_sketches_for(q, choice, def, defs);
  return compile_source(p, &s, q, out);
}

/* A kernel that merges: its parameters are named, and have any of their values. */
static tg_status compile_merge(planning *p, const tg_kernel_def *def, const tg_attention_problem *q,
                               tg_kit_kernel *out) {
  const int64_t most = (int64_t)1 << 40;
  bool sinks = q->sinks && def == tg_attention_merge_parts;
  tg_kernel_def own = *def;
  const tg_kit_choice none = {.sketch = &own};
  const tg_binding b[] = {{"M", 1, most, 1}, {"parts", 1, ATTENTION_MOST_PARTS, 1},
                          {def == tg_attention_sum ? "lddq" : "ldo", 1, most, 1}, {"sink_step", 0, 1, 1}};
  tg_kit_source s = {.def = &own, .binding = b, .choice = &none};
  s.bindings_n = def == tg_attention_join ? 1 : 3 + sinks;
  if (sinks) own.params = "M, parts, ldo, sink_step";
  return compile_source(p, &s, q, out);
}

static tg_status compile_states(planning *p) {
  tg_attention *a = p->a;
  tg_attention_problem q = a->problem;
  int64_t lanes = a->plan.context->target.vector_bytes / 4;
  const tg_kit_choice none = {.sketch = tg_attention_states, .knob = {{"VL", lanes, lanes, 1}}, .knobs_n = 1};
  q.rows = (tg_kit_dim){1, a->rows};
  q.keys = (tg_kit_dim){1, most_tokens};
  q.score_mod = NULL, q.block_rows = 0;   /* a mask of blocks is looked at by find_states */
  uint8_t per = q.mask == TG_BOOL ? q.mask_per : 0;
  for (uint32_t i = 0; i < q.arguments_n; i++) per |= q.argument[i].per;
  a->by_batch |= per & TG_PER_BATCH || (q.mask_mod && tg_kit_reads(q.mask_mod, "b"));
  a->by_head |= per & TG_PER_HEAD || (q.mask_mod && tg_kit_reads(q.mask_mod, "h"));
  return compile(p, &q, &none, &a->states);
}

/* May a run have from..to rows? */
static bool occurs(const tg_attention *a, int64_t from, int64_t to) {
  tg_kit_dim q = a->queries;
  int64_t group = a->heads / a->kv_heads, whole = q.hi < a->rows ? q.hi : a->rows;
  if (a->heads_are_rows) { /* in runs of a->rows of them, and the rest */
    int64_t most = group < a->rows ? group : a->rows, rest = group % a->rows;
    if ((most >= from && most <= to) || (rest >= from && rest <= to)) return true;
  }
  /* key_lengths may leave less than a block, whatever the plan's keys */
  if (tg_attention_is_masked(&a->problem) && from <= ATTENTION_FEW) {
    int64_t few = q.hi < ATTENTION_FEW ? q.hi : ATTENTION_FEW, rest = q.hi % ATTENTION_FEW;
    if (q.lo < q.hi || (few >= from && few <= to) || (rest >= from && rest <= to)) return true;
  }
  if (q.lo < q.hi) return from <= whole && (q.hi > a->rows || to >= q.lo);
  return (whole >= from && whole <= to) || (q.hi % a->rows >= from && q.hi % a->rows <= to && q.hi > a->rows);
}

/* ---- gradients ---- */

/* One choice for all numbers of rows. */
static void lay_out_backward(tg_attention *a) {
  tg_attention_problem q = a->problem;
  tg_kit_part *part = &a->part[0];
  a->rows = 1;
  if (!a->queries.hi || !a->keys.hi) return;
  tg_attention_narrow(&q, (tg_kit_dim){1, a->queries.hi});
  *part = (tg_kit_part){.size = {q.rows}, .strips = {.n = 1}};
  a->parts_n = 1;
  part->size[0].hi = a->rows = tg_attention_choose(&q, &a->plan.context->target, &part->choice);
}

/* A kernel for all numbers of rows, and a second one for parts of the keys, whose dQ is summed up. */
static tg_status make_backward(planning *p) {
  tg_attention *a = p->a;
  tg_attention_problem q = a->problem, sum = q;
  tg_kit_part *part = &a->part[0];
  if (!a->parts_n) return TG_OK;
  tg_attention_narrow(&q, part->size[0]);
  bool split = tg_attention_most_parts(true, a->kv_heads, a->keys.hi) > 1;
  tg_status s = compile(p, &q, &part->choice, &part->kernel[ATTENTION_WHOLE]);
  q.partial = true;
  if (s == TG_OK && split) s = compile(p, &q, &part->choice, &part->kernel[ATTENTION_PARTIAL]);
  const struct { bool is; tg_type type; int64_t width; } sums[] = {
      {split, q.q, q.head}, {q.k != TG_F32, q.k, q.head}, {q.v != TG_F32, q.v, q.value_head}};
  for (uint32_t i = 0; i < TG_COUNT(sums) && s == TG_OK; i++) {
    sum.o = sums[i].type, sum.value_head = sums[i].width;
    if (sums[i].is) s = compile_merge(p, tg_attention_sum, &sum, &a->sum[i]);
  }
  return s;
}

/* ---- which rows there are ---- */

/* One part for each range of rows that has a choice of its own. */
static void cut(tg_attention *a) {
  static const int64_t ends[] = {1, 2, 4, 8, 16, 32, 1 << 20};
  tg_attention_problem q = a->problem;
  tg_kit_choice choice;
  int64_t group = a->heads / a->kv_heads, most = a->queries.hi > group ? a->queries.hi : group, from = 1;
  q.rows = (tg_kit_dim){1, most < ends[TG_COUNT(ends) - 1] ? most : ends[TG_COUNT(ends) - 1]};
  q.keys = a->keys;
  if (!most) return;
  a->rows = tg_attention_choose(&q, &a->plan.context->target, &choice);
  for (uint32_t i = 0; i < TG_COUNT(ends) && from <= a->rows; i++) {
    int64_t to = ends[i] < a->rows ? ends[i] : a->rows;
    q.rows = (tg_kit_dim){from, to};
    tg_kit_part next = {.size = {q.rows}, .strips = {.n = 1}};
    const tg_kit_part *last = a->parts_n ? &a->part[a->parts_n - 1] : NULL;
    tg_attention_choose(&q, &a->plan.context->target, &next.choice);
    from = to + 1;
    if (!occurs(a, q.rows.lo, to)) continue;
    tg_kit_add_part(a->part, &a->parts_n, &next, 0,
                    last && last->size[0].hi + 1 == q.rows.lo && last->size[0].hi != ATTENTION_FEW);
  }
}

/* ---- on a device ---- */

static tg_status take_device(planning *p) {
  const tg_attention_desc *d = p->desc;
  tg_attention_problem *q = &p->a->problem;
  if (!d->device || d->device->driver->immediate) return TG_OK;
  if (d->device->context != p->a->plan.context) return wrong(p, "tg_attention_desc.device is another context's");
  uint8_t packed = q->mask_per & TG_PACKED;
  for (uint32_t i = 0; i < q->arguments_n; i++) packed |= q->argument[i].per & TG_PACKED;
  if (packed) return wrong(p, "tg_attention_desc: masks and arguments on a device are not TG_PACKED");
  p->a->plan.device = d->device;
  return TG_OK;
}

/* A part of the rows; it returns the most rows that one warp of its kernel takes, or 0. */
static int64_t add_grid(tg_attention *a, tg_kit_dim rows) {
  tg_attention_problem *q = &a->grid[a->parts_n];
  *q = a->problem, q->rows = rows;
  if (q->q == q->k && q->k == q->v && !q->rotary && !q->backward)
    tg_attention_device_tiles(a->plan.device->target, q);
  const tg_kernel_def *sketch = q->backward ? tg_attention_device_dq : tg_attention_device;
  a->part[a->parts_n++] = (tg_kit_part){.size = {rows}, .strips = {.n = 1}, .choice = {.sketch = sketch}};
  return q->matrix ? tg_matrix_find(q->matrix)->m / (q->row_heads > 1 ? q->row_heads : 1) : 0;
}

/* Kernels for all sequences and heads: one for rows that fill a warp, as when tokens are decoded, and one for more. */
static void lay_out_grid(tg_attention *a) {
  tg_attention_problem *q = &a->problem;
  a->rows = a->queries.hi ? a->queries.hi : 1;
  if (!a->queries.hi || !a->keys.hi) return;
  q->grid = true, q->group = a->heads / a->kv_heads;
  q->rows = (tg_kit_dim){a->queries.lo ? a->queries.lo : 1, a->queries.hi};
  /* key_lengths may leave fewer keys than any call has */
  q->keys = (tg_kit_dim){a->keys.lo && q->backward ? a->keys.lo : 1, a->keys.hi};
  int64_t few = add_grid(a, q->rows);
  if (few < q->rows.lo || few >= q->rows.hi) return;
  a->parts_n = 0;
  add_grid(a, (tg_kit_dim){q->rows.lo, few});
  add_grid(a, (tg_kit_dim){few + 1, q->rows.hi});
}

/* What appends K, and V. */
static tg_status make_puts(planning *p) {
  const tg_attention_problem *q = &p->a->problem;
  const tg_kit_choice choice = {.sketch = tg_attention_device_append};
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < 2 && s == TG_OK; i++) {
    const tg_attention_problem of = {.k = i ? q->v : q->k, .head = i ? q->value_head : q->head, .rows = q->rows,
                                     .keys = q->keys, .page = q->page, .grid = true, .group = q->group};
    s = compile(p, &of, &choice, &p->a->put[i]);
  }
  return s;
}

/* The kernels of the grid, and the constants that they read. */
static tg_status make_grid(planning *p) {
  tg_attention *a = p->a;
  tg_device *d = a->plan.device;
  const tg_kit_choice of_keys = {.sketch = tg_attention_device_dkv};
  tg_status s = TG_OK;
  if (!a->parts_n) return TG_OK;
  for (uint32_t i = 0; i < a->parts_n && s == TG_OK; i++) {
    tg_attention_problem *q = &a->grid[i], divided = *q;
    tg_kit_part *part = &a->part[i];
    int64_t of_part;
    s = compile(p, q, &part->choice, &part->kernel[ATTENTION_WHOLE]);
    if (s == TG_OK && q->backward) s = compile(p, q, &of_keys, &part->kernel[1]);
    divided.slots = a->plan.device->target->threads * q->groups_of_core;
    if (s == TG_OK && tg_attention_parts_of_grid(a, q, 1, q->rows.lo, q->keys.hi, &of_part) > 1)
      s = compile(p, &divided, &part->choice, &part->kernel[ATTENTION_PARTIAL]);
    q->score_mod = q->mask_mod = NULL;
    for (uint32_t k = 0; k < q->arguments_n; k++) q->argument[k].name = NULL;
  }
  if (s == TG_OK && a->append) s = make_puts(p);
  if (s == TG_OK) s = tg_device_alloc(d, sizeof a->factors, (void **)&a->on_device);
  return s == TG_OK ? tg_device_copy(d, a->on_device, &a->factors, sizeof a->factors) : s;
}

/* ---- plans ---- */

static tg_status lay_out(planning *p) {
  tg_attention *a = p->a;
  tg_status s = read_descriptor(p);
  if (s == TG_OK) s = tg_kit_plan_open(&a->plan, a->plan.context, desc_name, p->desc->threads);
  a->plan.cancel = p->desc->cancel;
  if (s == TG_OK) s = take_device(p);
  if (s == TG_OK && a->plan.device) lay_out_grid(a);
  else if (s == TG_OK && p->desc->backward) lay_out_backward(a);
  if (s != TG_OK || a->plan.device || p->desc->backward) return s;
  const tg_attention_problem *q = &a->problem;
  a->heads_are_rows = a->heads > a->kv_heads && a->queries.lo <= 1 && a->queries.hi >= 1 && !q->alibi && !q->mask &&
                      !q->score_mod && !q->mask_mod && !q->dropout && !q->block_rows;
  cut(a);
  return TG_OK;
}

tg_status tg_attention_lay_out(tg_context *c, const tg_attention_desc *desc, tg_attention *out) {
  memset(out, 0, sizeof *out);
  out->plan.context = c;
  return lay_out(&(planning){.a = out, .desc = desc});
}

static bool may_split(const tg_attention *a) {
  return tg_attention_most_parts(false, a->heads_are_rows ? a->kv_heads : a->heads, a->keys.hi) > 1;
}

static tg_status make(planning *p) {
  tg_attention *a = p->a;
  const tg_attention_problem *q = &a->problem;
  tg_status s = lay_out(p);
  bool split = false, listed = tg_attention_is_masked(q) && !a->plan.device && !q->backward;
  if (s == TG_OK && q->backward && !a->plan.device) s = make_backward(p);
  if (s == TG_OK && a->plan.device) s = make_grid(p);
  a->lists = listed && a->rows > ATTENTION_FEW;
  a->by_batch = p->desc->block_per & TG_PER_BATCH, a->by_head = p->desc->block_per & TG_PER_HEAD;
  if (s == TG_OK && a->lists && (q->mask_mod || q->mask == TG_BOOL)) s = compile_states(p);
  for (uint32_t i = 0; i < a->parts_n && s == TG_OK && !a->plan.device && !q->backward; i++) {
    tg_attention_problem part = *q;
    tg_attention_narrow(&part, a->part[i].size[0]);
    s = compile(p, &part, &a->part[i].choice, &a->part[i].kernel[ATTENTION_WHOLE]);
    if (s != TG_OK || part.rows.lo > ATTENTION_FEW || !may_split(a)) continue;
    part.partial = true, part.lse = false;
    s = compile(p, &part, &a->part[i].choice, &a->part[i].kernel[ATTENTION_PARTIAL]);
    split = true;
  }
  if (s == TG_OK && split) s = compile_merge(p, tg_attention_merge_parts, q, &a->merge);
  if (s == TG_OK && q->lse && !a->plan.device && !q->backward) s = compile_merge(p, tg_attention_join, q, &a->join);
  a->problem.score_mod = a->problem.mask_mod = NULL;   /* the caller may free the texts after the call */
  for (uint32_t i = 0; i < a->problem.arguments_n; i++) a->problem.argument[i].name = NULL;
  return s;
}

tg_status tg_attention_plan_sized(tg_context *c, const tg_attention_desc *desc, size_t desc_bytes, tg_attention **out) {
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  tg_attention_desc d;
  if (TG_READ(c, tg_attention_desc, &d, desc, desc_bytes) != TG_OK) return TG_EINVAL;
  tg_attention *a = tg_kit_new(c, sizeof *a);
  if (!a) return TG_ENOMEM;
  a->plan.context = c;
  tg_status s = make(&(planning){.a = a, .desc = &d});
  a->plan.cancel = NULL;
  if (s == TG_OK) *out = a;
  else tg_attention_free(a);
  return s;
}

void tg_attention_free(tg_attention *a) {
  if (!a) return;
  tg_kernel_free(a->merge.kernel), tg_kernel_free(a->join.kernel), tg_kernel_free(a->states.kernel);
  for (uint32_t i = 0; i < TG_COUNT(a->sum); i++) tg_kernel_free(a->sum[i].kernel);
  for (uint32_t i = 0; i < TG_COUNT(a->put); i++) tg_kernel_free(a->put[i].kernel);
  for (uint32_t i = 0; i < a->parts_n; i++) tg_kit_part_free(&a->part[i]);
  tg_device_free(a->plan.device, a->on_device);
  tg_kit_delete(a->plan.context, a, sizeof *a);
}

void tg_attention_describe_sized(const tg_attention *a, tg_attention_info *out, size_t info_bytes) {
  tg_attention_info info = {0};
  if (!out) return;
  if (a)
    info = (tg_attention_info){.kernels = a->plan.compiled,
                               .from_cache = a->plan.found,
                               .workspace = a->plan.per_thread,
                               .tuned = a->plan.tuned};
  tg_sized_write(out, info_bytes, &info, sizeof info);
}
