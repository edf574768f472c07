/* SPDX-License-Identifier: MIT
 * A plan of attention as a function: the division of attention/divide.c and the runs of attention/run.c as IR, for
 * sequences of one length. Masks, arguments, packed sequences and keys of 0 are refused. */
#include <stdio.h>
#include "ahead/attention.h"
#include "ahead/function.h"
#include "attention/call.h"
#include "kit/words.h"

/* The words of the closure %c, in which all parts of a call find what they need. */
enum {
  A_TENSOR,                    /* Q, K, V, O */
  A_LSE = A_TENSOR + 4,
  A_SLOPES,
  A_SINKS,
  A_MEMORY,
  A_SUMS,
  A_BATCH,
  A_QUERIES,
  A_KEYS,                      /* that are not skipped */
  A_STEP,                      /* of Q, K, V, O: from one sequence, head, token to the next */
  A_HEADS_ARE_ROWS = A_STEP + 12,
  A_HEADS,
  A_ROWS,
  A_BLOCKS,
  A_PARTS,
  A_PART,
  A_SKIPPED,
  A_SUMS_OF_HEAD,
  A_RUNS,
  A_MERGES,
  A_TASKS,
  A_WORDS
};

typedef struct {
  tg_function f;
  const tg_attention *const *a;
  uint32_t number;
} attention;

static const tg_ir operands = {"%o"}, values = {"%v"}, closure = {"%c"};

static tg_ir n_of(int64_t n) { return tg_ir_number(n); }
static tg_ir word(tg_wrapper *w, uint32_t i) { return tg_ir_load(w, "i64", closure, i); }
static void put_word(tg_wrapper *w, uint32_t i, tg_ir v) { tg_ir_store(w, "i64", v, closure, i); }
static tg_ir rounded_up(tg_wrapper *w, tg_ir a, tg_ir b) {
  return tg_ir_divided(w, tg_ir_sub(w, tg_ir_add(w, a, b), n_of(1)), b);
}
static tg_ir rest(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_put(w, "urem i64 %s, %s", a.text, b.text); }
static tg_ir behind(tg_wrapper *w, tg_ir p, tg_ir elements, int64_t size) {
  return tg_ir_put(w, "getelementptr i8, ptr %s, i64 %s", p.text, tg_ir_mul(w, elements, n_of(size)).text);
}

/* ---- how a call is divided: tg_attention_sequence_of and tg_attention_count ---- */

static void put_division(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  tg_str_printf(&w->out, "define internal i64 @divide.s%u.%u(ptr %%c, i64 %%t) {\n", p->number, t);
  tg_ir queries = word(w, A_QUERIES), all = word(w, A_KEYS), batch = word(w, A_BATCH), one = n_of(1), zero = n_of(0);
  bool never = a->causal == TG_CAUSAL_TOP_LEFT || (a->window && a->causal == TG_CAUSAL_NONE);
  tg_ir single = tg_ir_put(w, "and i1 %s, %s", tg_ir_is(w, "eq", queries, one).text, never ? "false" : "true"),
        skipped = a->window ? tg_ir_select(w, single, tg_ir_larger(w, zero, tg_ir_sub(w, all, n_of(a->window))), zero)
                            : zero,
        keys = tg_ir_sub(w, all, skipped),
        har = tg_ir_put(w, "and i1 %s, %s", single.text, a->heads_are_rows ? "true" : "false"),
        heads = tg_ir_select(w, har, n_of(a->kv_heads), n_of(a->heads)),
        rows = tg_ir_select(w, har, n_of(a->heads / a->kv_heads), queries),
        blocks = rounded_up(w, rows, n_of(a->rows ? a->rows : 1)), parts = one, part = keys, most = one;
  if (a->merge.kernel) {
    tg_ir pieces = rounded_up(w, n_of(ATTENTION_PIECES), heads), least = rounded_up(w, keys, n_of(ATTENTION_SPLIT)),
          few = tg_ir_smaller(w, pieces, rounded_up(w, keys, n_of(ATTENTION_LEAST))),
          some = tg_ir_larger(w, one, tg_ir_smaller(w, tg_ir_larger(w, least, few), n_of(ATTENTION_MOST_PARTS))),
          size = tg_ir_mul(w, rounded_up(w, rounded_up(w, keys, some), n_of(ATTENTION_BLOCK)), n_of(ATTENTION_BLOCK)),
          divided = tg_ir_larger(w, one, rounded_up(w, keys, tg_ir_larger(w, size, one))),
          split = tg_ir_is(w, "sle", rows, n_of(ATTENTION_FEW));
    most = tg_ir_select(w, split, some, one), part = tg_ir_select(w, split, size, keys);
    parts = tg_ir_select(w, split, divided, one);
  }
  tg_ir sums = tg_ir_mul(w, tg_ir_mul(w, most, rows), n_of(a->problem.value_head + 2));
  sums = tg_ir_select(w, tg_ir_is(w, "sgt", most, one), sums, zero);
  tg_ir all_heads = tg_ir_mul(w, batch, heads),
        merges = tg_ir_select(w, tg_ir_is(w, "sgt", parts, one), all_heads, zero);
  put_word(w, A_HEADS_ARE_ROWS, tg_ir_put(w, "zext i1 %s to i64", har.text)), put_word(w, A_HEADS, heads);
  put_word(w, A_ROWS, rows), put_word(w, A_BLOCKS, blocks), put_word(w, A_PARTS, parts), put_word(w, A_PART, part);
  put_word(w, A_SKIPPED, skipped), put_word(w, A_KEYS, keys), put_word(w, A_SUMS_OF_HEAD, sums);
  put_word(w, A_RUNS, tg_ir_mul(w, tg_ir_mul(w, all_heads, blocks), parts)), put_word(w, A_MERGES, merges);
  /* bytes of the workspace: of the threads, then the partial sums */
  tg_ir own = tg_ir_put(w, "call i64 @%s.side()", w->name), threads = tg_ir_put(w, "mul i64 %%t, %s", own.text),
        floats = tg_ir_mul(w, tg_ir_mul(w, all_heads, sums), n_of(4)), bytes = tg_ir_add(w, threads, floats);
  tg_ir more = tg_ir_add(w, bytes, n_of(64));
  tg_str_printf(&w->out, "  ret i64 %s\n}\n",
                tg_ir_select(w, tg_ir_is(w, "eq", bytes, zero), zero, more).text);
}

/* ---- one run, or one merge ---- */

typedef struct { tg_ir seq, head, block, part, rows, har; } place;

/* What a kernel gets: gather of attention/run.c. */
static void gather(attention *p, uint32_t t, place *x) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  const tg_attention_problem *q = &a->problem;
  const int64_t size[4] = {tg_type_bytes(q->q), tg_type_bytes(q->k), tg_type_bytes(q->v), tg_type_bytes(q->o)};
  tg_ir group = n_of(a->heads / a->kv_heads), zero = n_of(0), wide = n_of(a->rows ? a->rows : 1),
        part = word(w, A_PART), keys = word(w, A_KEYS), skipped = word(w, A_SKIPPED), queries = word(w, A_QUERIES),
        lacking = zero, rows = word(w, A_ROWS);
  x->har = tg_ir_is(w, "ne", word(w, A_HEADS_ARE_ROWS), zero);
  if (a->causal)
    lacking = tg_ir_select(w, x->har, zero, tg_ir_sub(w, tg_ir_mul(w, word(w, A_BLOCKS), wide), rows));
  tg_ir start = tg_ir_sub(w, tg_ir_mul(w, x->block, wide), lacking), from = tg_ir_larger(w, zero, start);
  tg_ir kv_head = tg_ir_select(w, x->har, x->head, tg_ir_divided(w, x->head, group)),
        q_head = tg_ir_select(w, x->har, tg_ir_add(w, tg_ir_mul(w, x->head, group), from), x->head),
        first_query = tg_ir_select(w, x->har, zero, from), before = tg_ir_mul(w, x->part, part),
        first_key = tg_ir_add(w, skipped, before);
  for (uint32_t k = 0; k < 4; k++) {
    bool of_keys = k == ATTENTION_K || k == ATTENTION_V;
    tg_ir s0 = word(w, A_STEP + 3 * k), s1 = word(w, A_STEP + 3 * k + 1), s2 = word(w, A_STEP + 3 * k + 2);
    tg_ir at = tg_ir_add(w, tg_ir_add(w, tg_ir_mul(w, x->seq, s0), tg_ir_mul(w, of_keys ? kv_head : q_head, s1)),
                         tg_ir_mul(w, of_keys ? first_key : first_query, s2));
    tg_ir_store(w, "ptr", behind(w, tg_ir_load(w, "ptr", closure, A_TENSOR + k), at, size[k]), operands, k);
    tg_ir line = of_keys ? s2 : tg_ir_select(w, x->har, tg_ir_larger(w, n_of(k == ATTENTION_O), s1), s2);
    tg_ir_store(w, "i64", line, values, ATTENTION_LDQ + k);
  }
  x->rows = tg_ir_sub(w, tg_ir_smaller(w, rows, tg_ir_add(w, start, wide)), from);
  tg_ir left = tg_ir_larger(w, zero, tg_ir_smaller(w, tg_ir_sub(w, keys, before), part));
  tg_ir stands = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? tg_ir_sub(w, tg_ir_add(w, skipped, keys), queries) : zero,
        at = tg_ir_sub(w, tg_ir_add(w, stands, first_query), first_key);
  tg_ir_store(w, "i64", x->rows, values, ATTENTION_ROWS), tg_ir_store(w, "i64", left, values, ATTENTION_KEYS);
  tg_ir_store(w, "i64", tg_ir_select(w, x->har, keys, at), values, ATTENTION_AT);
  tg_ir_store(w, "i64", tg_ir_select(w, x->har, n_of((int64_t)1 << 31), n_of(a->window)), values, ATTENTION_WINDOW);
  tg_ir_store(w, "i64", first_query, values, ATTENTION_QUERY0);
  tg_ir_store(w, "i64", first_key, values, ATTENTION_KEY0);
  tg_ir_store(w, "i64", x->seq, values, ATTENTION_BATCH), tg_ir_store(w, "i64", q_head, values, ATTENTION_HEAD);
  tg_ir_store(w, "i64", word(w, A_PARTS), values, ATTENTION_PARTS);
  const char *const constants[] = {"scale", "cap"};
  for (uint32_t i = 0; i < 2; i++) {
    tg_ir g = tg_ir_put(w, "getelementptr i8, ptr @%s.s%u.%u, i64 0", constants[i], p->number, t);
    tg_ir_store(w, "ptr", g, operands, ATTENTION_SCALE + i);
  }
  tg_ir_store(w, "ptr", behind(w, tg_ir_load(w, "ptr", closure, A_SLOPES), q_head, 4), operands, ATTENTION_SLOPE);
  tg_ir_store(w, "ptr", behind(w, tg_ir_load(w, "ptr", closure, A_SINKS), q_head, 4), operands, ATTENTION_SINK);
  tg_ir_store(w, "i64", word(w, A_HEADS_ARE_ROWS), values, ATTENTION_SINK_STEP);
  tg_ir of_lse = tg_ir_select(w, x->har, tg_ir_mul(w, x->head, group), x->head),
        lse = tg_ir_add(w, tg_ir_mul(w, tg_ir_add(w, tg_ir_mul(w, x->seq, n_of(a->heads)), of_lse), queries), from);
  tg_ir_store(w, "ptr", behind(w, tg_ir_load(w, "ptr", closure, A_LSE), lse, 4), operands, ATTENTION_LSE);
}

/* Where the partial results of the head lie: sums, then maxima, then sums of exponentials. */
static void partial(attention *p, uint32_t t, const place *x, tg_ir out[3]) {
  tg_wrapper *w = p->f.w;
  tg_ir heads = word(w, A_HEADS), head = tg_ir_add(w, tg_ir_mul(w, x->seq, heads), x->head),
        mine = tg_ir_mul(w, head, word(w, A_SUMS_OF_HEAD)), rows = tg_ir_mul(w, word(w, A_PARTS), word(w, A_ROWS)),
        m = tg_ir_add(w, mine, tg_ir_mul(w, rows, n_of(p->a[t]->problem.value_head)));
  out[0] = mine, out[1] = m, out[2] = tg_ir_add(w, m, rows);
}

static void call(attention *p, const tg_kit_kernel *k) {
  tg_str_printf(&p->f.w->out,
                "  call void @call.t%u(ptr %%o, ptr %%v, ptr %%own, i64 1, ptr null, ptr null)\n  ret void\n",
                tg_function_add(&p->f, k));
}

/* The kernel for the numbers of rows. */
static void call_for_rows(attention *p, uint32_t t, tg_ir rows, int which) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  for (uint32_t i = 0; i < a->parts_n; i++) {
    if (!a->part[i].kernel[which].kernel) continue;
    uint32_t id = w->values++;
    tg_ir fits = tg_ir_is(w, "sle", rows, n_of(a->part[i].size[0].hi));
    tg_str_printf(&w->out, "  br i1 %s, label %%rows%u, label %%more%u\nrows%u:\n", fits.text, id, id, id);
    call(p, &a->part[i].kernel[which]);
    tg_str_printf(&w->out, "more%u:\n", id);
  }
  tg_str_puts(&w->out, "  ret void\n");
}

static void begin_unit(attention *p, const char *what, uint32_t t) {
  tg_str_printf(&p->f.w->out,
                "define internal void @%s.s%u.%u(ptr %%c, i64 %%x, ptr %%own) {\n"
                "  %%o = alloca [%d x ptr]\n  %%v = alloca [%d x i64]\n",
                what, p->number, t, ATTENTION_OPERANDS, ATTENTION_VALUES);
}

static void put_run(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  const tg_ir x = {"%x"};
  const tg_attention *a = p->a[t];
  begin_unit(p, "compute", t);
  tg_ir parts = word(w, A_PARTS), blocks = word(w, A_BLOCKS), heads = word(w, A_HEADS), y = tg_ir_divided(w, x, parts),
        z = tg_ir_divided(w, y, blocks);
  place at = {.part = rest(w, x, parts), .head = rest(w, z, heads), .seq = tg_ir_divided(w, z, heads)};
  at.block = tg_ir_sub(w, tg_ir_sub(w, blocks, n_of(1)), rest(w, y, blocks));
  gather(p, t, &at);
  if (a->merge.kernel) {
    tg_ir sum[3], several = tg_ir_is(w, "sgt", parts, n_of(1));
    tg_str_printf(&w->out, "  br i1 %s, label %%split, label %%whole\nsplit:\n", several.text);
    partial(p, t, &at, sum);
    tg_ir rows = tg_ir_mul(w, at.part, at.rows), sums = tg_ir_load(w, "ptr", closure, A_SUMS);
    sum[0] = tg_ir_add(w, sum[0], tg_ir_mul(w, rows, n_of(a->problem.value_head)));
    tg_ir_store(w, "ptr", behind(w, sums, sum[0], 4), operands, ATTENTION_O);
    tg_ir_store(w, "ptr", behind(w, sums, tg_ir_add(w, sum[1], rows), 4), operands, ATTENTION_M);
    tg_ir_store(w, "ptr", behind(w, sums, tg_ir_add(w, sum[2], rows), 4), operands, ATTENTION_L);
    call_for_rows(p, t, at.rows, ATTENTION_PARTIAL);
    tg_str_puts(&w->out, "whole:\n");
  }
  call_for_rows(p, t, at.rows, ATTENTION_WHOLE);
  tg_str_puts(&w->out, "}\n");
}

static void put_merge(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  const tg_ir x = {"%x"};
  begin_unit(p, "merge", t);
  if (p->a[t]->merge.kernel) {
    tg_ir heads = word(w, A_HEADS), sum[3];
    place at = {.part = n_of(0), .block = n_of(0), .head = rest(w, x, heads), .seq = tg_ir_divided(w, x, heads)};
    gather(p, t, &at);
    partial(p, t, &at, sum);
    tg_ir sums = tg_ir_load(w, "ptr", closure, A_SUMS);
    tg_ir_store(w, "ptr", behind(w, sums, sum[0], 4), operands, ATTENTION_Q);
    tg_ir_store(w, "ptr", behind(w, sums, sum[1], 4), operands, ATTENTION_M);
    tg_ir_store(w, "ptr", behind(w, sums, sum[2], 4), operands, ATTENTION_L);
    call(p, &p->a[t]->merge);
  } else tg_str_puts(&w->out, "  ret void\n");
  tg_str_puts(&w->out, "}\n");
}

/* The task of a thread: units j, j + tasks, .. of `count`. */
static void put_task(attention *p, const char *what, uint32_t count, uint32_t t) {
  tg_wrapper *w = p->f.w;
  tg_str_printf(&w->out, "define internal void @%s.task.s%u.%u(ptr %%c, i64 %%j) {\nstart:\n", what, p->number, t);
  tg_ir n = word(w, count), by = word(w, A_TASKS), memory = tg_ir_load(w, "ptr", closure, A_MEMORY);
  tg_str_printf(&w->out,
                "  %%bytes = call i64 @%s.side()\n  %%far = mul i64 %%j, %%bytes\n"
                "  %%own = getelementptr i8, ptr %s, i64 %%far\n  br label %%next\n"
                "next:\n  %%x = phi i64 [ %%j, %%start ], [ %%up, %%run ]\n  %%more = icmp slt i64 %%x, %s\n"
                "  br i1 %%more, label %%run, label %%done\n"
                "run:\n  call void @%s.s%u.%u(ptr %%c, i64 %%x, ptr %%own)\n  %%up = add i64 %%x, %s\n"
                "  br label %%next\ndone:\n  ret void\n}\n",
                w->name, memory.text, n.text, what, p->number, t, by.text);
}

/* ---- the function ---- */

static void declare(tg_builder *tg_b_, void *user) {
  const tg_attention *a = user;
  const tg_attention_problem *q = &a->problem;
  tg_let(H, (int64_t)a->heads);
  tg_let(G, (int64_t)a->kv_heads);
  tg_let(D, q->head);
  tg_let(E, q->value_head);
  tg_kit_declare(tg_b_, "in", "Q, %s, [batch, H, queries, D], [q_batch, q_head, q_token, 1]", tg_type_name[q->q]);
  tg_kit_declare(tg_b_, "in", "K, %s, [batch, G, keys, D], [k_batch, k_head, k_token, 1]", tg_type_name[q->k]);
  tg_kit_declare(tg_b_, "in", "V, %s, [batch, G, keys, E], [v_batch, v_head, v_token, 1]", tg_type_name[q->v]);
  tg_kit_declare(tg_b_, "out", "O, %s, [batch, H, queries, E], [o_batch, o_head, o_token, 1]", tg_type_name[q->o]);
  if (q->lse) tg_kit_declare(tg_b_, "out", "LSE, f32, [batch, H, queries]");
  if (q->alibi) tg_kit_declare(tg_b_, "in", "slopes, f32, [H]");
  if (q->sinks) tg_kit_declare(tg_b_, "in", "sinks, f32, [H]");
}

static const char params[] = "batch, queries, keys, q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, "
                             "v_head, v_token, o_batch, o_head, o_token";
static const char *const steps[] = {"q_batch", "q_head", "q_token", "k_batch", "k_head", "k_token",
                                    "v_batch", "v_head", "v_token", "o_batch", "o_head", "o_token"};

static void refuse(const tg_wrapper *w, const tg_attention *a, const char *name) {
  const tg_attention_problem *q = &a->problem;
  const struct { bool is; const char *what; } none[] = {
      {q->mask, "a mask"},    {q->arguments_n, "arguments"}, {a->lists, "mask_mod or a mask of blocks"},
      {q->page, "pages"},            {q->block_rows, "a mask of blocks"},
      {a->append, "append"},  {q->dropout, "dropout"},
      {q->kv_bits, "K and V in integers"}, {q->rotary, "rotary"}};
  const char *what = NULL;
  for (uint32_t i = TG_COUNT(none); i-- > 0;)
    if (none[i].is) what = none[i].what;
  if (what) tg_fail(w->env, TG_ELIMIT, "%s: %s: functions of attention have none ahead of time", name, what);
  if (!a->keys.lo || !a->queries.hi)
    tg_fail(w->env, TG_ELIMIT, "%s: keys or queries of 0: functions of attention have some ahead of time", name);
}

static const tg_signature *signature_of(const tg_wrapper *w, const tg_attention *a, const char *name) {
  const tg_kernel_def def = {.name = name, .params = params, .body = declare, .file = __FILE__, .line = __LINE__};
  const int64_t far = (int64_t)1 << 40;
  tg_binding b[15] = {{"batch", 0, 1 << 20, 1},
                      {"queries", a->queries.lo, a->queries.hi, 1},
                      {"keys", a->keys.lo, a->keys.hi, 1}};
  for (uint32_t i = 0; i < 12; i++) b[3 + i] = (tg_binding){steps[i], 0, far, 1};
  return tg_function_signature(w->env, &def, b, 15, (void *)(uintptr_t)a);
}

/* Gives each parameter %aN its value %pN: strides that are all 0 are dense. */
static void complete(attention *p, tg_ir queries, tg_ir keys) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[0];
  const int64_t heads[] = {a->heads, a->kv_heads, a->kv_heads, a->heads},
                wide[] = {a->problem.head, a->problem.head, a->problem.value_head, a->problem.value_head};
  uint32_t first = w->signature->params_n - 12;
  for (uint32_t i = 0; i < first; i++) tg_str_printf(&w->out, "  %%p%u = add i64 %%a%u, 0\n", i, i);
  for (uint32_t k = 0; k < 4; k++) {
    uint32_t at = first + 3 * k;
    tg_ir any = tg_ir_put(w, "or i64 %%a%u, %%a%u", at, at + 1);
    tg_ir dense = tg_ir_is(w, "eq", tg_ir_put(w, "or i64 %s, %%a%u", any.text, at + 2), n_of(0));
    tg_ir token = n_of(wide[k]), head = tg_ir_mul(w, k == 1 || k == 2 ? keys : queries, token),
          seq = tg_ir_mul(w, head, n_of(heads[k]));
    const tg_ir step[] = {seq, head, token};
    for (uint32_t i = 0; i < 3; i++) {
      tg_ir given = tg_ir_put(w, "add i64 %%a%u, 0", at + i);
      tg_str_printf(&w->out, "  %%p%u = add i64 %s, 0\n", at + i, tg_ir_select(w, dense, step[i], given).text);
    }
  }
}

static void fill_closure(attention *p, tg_ir queries, tg_ir keys) {
  tg_wrapper *w = p->f.w;
  const tg_attention_problem *q = &p->a[0]->problem;
  uint32_t more[3], n = 0;   /* behind Q, K, V, O, as they are declared */
  if (q->lse) more[n++] = A_LSE;
  if (q->alibi) more[n++] = A_SLOPES;
  if (q->sinks) more[n++] = A_SINKS;
  for (uint32_t i = 0; i < A_WORDS; i++) put_word(w, i, n_of(0));
  for (uint32_t i = 0; i < w->signature->buffers_n; i++) {
    uint32_t at = i < 4 ? A_TENSOR + i : more[i - 4];
    tg_ir_store(w, "ptr", tg_ir_put(w, "getelementptr i8, ptr %%b%u, i64 0", i), closure, at);
  }
  put_word(w, A_BATCH, tg_function_value(w, "batch", 0));
  put_word(w, A_QUERIES, queries), put_word(w, A_KEYS, keys);
  for (uint32_t i = 0; i < 12; i++) {
    tg_ir s = tg_function_value(w, steps[i], 0);
    put_word(w, A_STEP + i, i == 11 ? tg_ir_larger(w, s, n_of(1)) : s);   /* O of a single token */
  }
}

static void put_phase(attention *p, const char *what, uint32_t count, uint32_t t) {
  tg_wrapper *w = p->f.w;
  uint32_t id = w->values++;
  tg_ir n = word(w, count), by = tg_ir_smaller(w, n, (tg_ir){"%t"}), several = tg_ir_is(w, "sgt", by, n_of(1));
  put_word(w, A_TASKS, tg_ir_larger(w, by, n_of(1)));
  tg_str_printf(&w->out,
                "  br i1 %s, label %%many%u, label %%alone%u\n"
                "many%u:\n  call void %%each(ptr %%user, i64 %s, ptr @%s.task.s%u.%u, ptr %%c)\n  br label %%did%u\n"
                "alone%u:\n  call void @%s.task.s%u.%u(ptr %%c, i64 0)\n  br label %%did%u\ndid%u:\n",
                several.text, id, id, id, by.text, what, p->number, t, id, id, what, p->number, t, id, id);
}

static void put_target(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  tg_str_printf(&w->out, "target%u:\n", t);
  tg_ir memory = tg_function_workspace(w, tg_ir_put(w, "call i64 @divide.s%u.%u(ptr %%c, i64 %%t)", p->number, t)),
        own = tg_ir_put(w, "call i64 @%s.side()", w->name);
  put_word(w, A_MEMORY, memory);
  put_word(w, A_SUMS, tg_ir_add(w, memory, tg_ir_put(w, "mul i64 %%t, %s", own.text)));
  put_phase(p, "compute", A_RUNS, t);
  put_phase(p, "merge", A_MERGES, t);
  tg_str_puts(&w->out, "  ret i32 0\n");
}

static void put_header(attention *p, tg_str *o) {
  tg_wrapper *w = p->f.w;
  tg_function_header_begin(w, o, "attention");
  tg_str_puts(o, " *   *_batch, *_head, *_token: elements from one of them to the next; all three 0: dense\n");
  tg_function_header_end(w, o, "int64_t batch, int64_t queries, int64_t keys, ");
}

/* NAME_workspace of a call; 0 where no target runs. */
static void put_workspace(attention *p) {
  tg_wrapper *w = p->f.w;
  tg_str_printf(&w->out,
                "define i64 @%s_workspace(i64 %%batch, i64 %%queries, i64 %%keys, i32 %%threads) {\n"
                "  %%c = alloca [%d x i64]\n  %%few = icmp slt i32 %%threads, 1\n"
                "  %%some = select i1 %%few, i32 1, i32 %%threads\n  %%t = zext i32 %%some to i64\n",
                w->name, A_WORDS);
  put_word(w, A_BATCH, (tg_ir){"%batch"}), put_word(w, A_QUERIES, (tg_ir){"%queries"});
  put_word(w, A_KEYS, (tg_ir){"%keys"});
  tg_str_puts(&w->out, "  %pick = call i32 @tg.pick()\n  switch i32 %pick, label %none [");
  for (uint32_t t = 0; t < w->targets_n; t++) tg_str_printf(&w->out, " i32 %u, label %%target%u", t + 1, t);
  tg_str_puts(&w->out, " ]\nnone:\n  ret i64 0\n");
  for (uint32_t t = 0; t < w->targets_n; t++)
    tg_str_printf(&w->out, "target%u:\n  %%n%u = call i64 @divide.s%u.%u(ptr %%c, i64 %%t)\n  ret i64 %%n%u\n", t, t,
                  p->number, t, t);
  tg_str_puts(&w->out, "}\n");
}

static void put_targets(attention *p) {
  tg_wrapper *w = p->f.w;
  for (uint32_t t = 0; t < w->targets_n; t++) {
    const float constants[] = {p->a[t]->factors.scale, p->a[t]->factors.cap};
    for (uint32_t i = 0; i < 2; i++) {
      uint32_t bits;
      memcpy(&bits, &constants[i], sizeof bits);
      tg_str_printf(&w->out, "@%s.s%u.%u = internal constant i32 %u, align 4\n", i ? "cap" : "scale", p->number, t,
                    bits);
    }
    put_division(p, t), put_run(p, t), put_merge(p, t);
    put_task(p, "compute", A_RUNS, t), put_task(p, "merge", A_MERGES, t);
  }
  tg_function_end(&p->f);
}

void tg_attention_function(tg_wrapper *w, const tg_attention *const *a, const char *name, uint32_t number,
                           tg_str *header) {
  attention p = {.f = {.w = w}, .a = a, .number = number};
  refuse(w, a[0], name);
  w->name = name, w->messages = (tg_messages){0}, w->signature = signature_of(w, a[0], name);
  tg_ir queries = tg_function_value(w, "queries", a[0]->queries.lo), keys = tg_function_value(w, "keys", a[0]->keys.lo);
  tg_function_open(w);
  tg_str_printf(&w->out, "  %%c = alloca [%d x i64]\n", A_WORDS);
  complete(&p, queries, keys);
  tg_wrapper_check_params(w);
  tg_wrapper_check_buffers(w, !(a[0]->flags & TG_ATTENTION_OVERLAP_UNCHECKED));
  tg_function_unless_empty(w, tg_function_value(w, "batch", 0), queries);
  fill_closure(&p, queries, keys);
  tg_function_switch(&p.f);
  for (uint32_t t = 0; t < w->targets_n; t++) put_target(&p, t);
  tg_str_puts(&w->out, "}\n");
  put_workspace(&p);
  put_targets(&p);
  put_header(&p, header);
}
