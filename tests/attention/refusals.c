/* SPDX-License-Identifier: MIT
 * What tg/attention.h refuses, in descriptors, calls and merges: the status, a message that names the field, and an O
 * that is as it was. And calls that come close to a refusal and are right. */
#include <math.h>
#include <stddef.h>
#include "../target.h"
#include "../test.h"
#include "tg/attention.h"

enum { QUERIES = 8, KEYS = 8, HEADS = 4, KV_HEADS = 2, HEAD = 16, FLOATS = 1 << 14 };
static float q[FLOATS], k[FLOATS], v[FLOATS], o[FLOATS], lse[FLOATS], mask[FLOATS];
static char workspace[1 << 20];

/* ---- descriptors ---- */

static void refuse(tg_context *ctx, const tg_attention_desc *d, const char *text) {
  tg_attention *a = (tg_attention *)ctx;
  CHECK(tg_attention_plan(ctx, d, &a) == TG_EINVAL && !a && strstr(tg_error_message(ctx), text), "%s (not: %s)",
        tg_error_message(ctx), text);
}

#define SIZES .head = HEAD, .heads = HEADS, .kv_heads = KV_HEADS, .queries = {0, 64}, .keys = {0, 64}
#define REFUSE(TEXT, ...) refuse(ctx, &(tg_attention_desc){__VA_ARGS__}, TEXT)

static void wrong_sizes(tg_context *ctx) {
  const int64_t most = (int64_t)1 << 31;
  REFUSE("tg_attention_desc.head: 0", .queries = {1, 0}, .keys = {1, 0});
  REFUSE("tg_attention_desc.head: -1", .head = -1);
  REFUSE("tg_attention_desc.head: 577", .head = 577);
  REFUSE("value_head: 600", .head = 16, .value_head = 600);
  REFUSE("value_head: -2", .head = 16, .value_head = -2);
  REFUSE("tg_attention_desc.heads: -1", .head = 16, .heads = -1);
  REFUSE("tg_attention_desc.heads: 1048577", .head = 16, .heads = (1 << 20) + 1);
  REFUSE("tg_attention_desc.kv_heads: 2 is no divisor of the 3 heads", .head = 16, .heads = 3, .kv_heads = 2);
  REFUSE("tg_attention_desc.kv_heads: 2 is no divisor of the 1 heads", .head = 16, .kv_heads = 2);
  REFUSE("tg_attention_desc.kv_heads: -1", .head = 16, .heads = 4, .kv_heads = -1);
  REFUSE("tg_attention_desc.queries: 10..3", .head = 16, .queries = {10, 3});
  REFUSE("tg_attention_desc.queries: -1..3", .head = 16, .queries = {-1, 3});
  REFUSE("tg_attention_desc.keys: 0..2147483649", .head = 16, .keys = {0, most + 1});
}

static void wrong_fields(tg_context *ctx) {
  REFUSE("tg_attention_desc.q: type", SIZES, .q = TG_F64);
  REFUSE("tg_attention_desc.k: type 200", SIZES, .k = 200);
  REFUSE("tg_attention_desc.v: type", SIZES, .v = TG_I8);
  REFUSE("tg_attention_desc.o: type", SIZES, .o = TG_I32);
  REFUSE("tg_attention_desc.causal: 3", SIZES, .causal = 3);
  REFUSE("lse, base2, alibi, backward and sinks are 0 or 1", SIZES, .lse = 2);
  REFUSE("lse, base2, alibi, backward and sinks are 0 or 1", SIZES, .base2 = 2);
  REFUSE("lse, base2, alibi, backward and sinks are 0 or 1", SIZES, .alibi = 255);
  REFUSE("lse, base2, alibi, backward and sinks are 0 or 1", SIZES, .backward = 2);
  REFUSE("lse, base2, alibi, backward and sinks are 0 or 1", SIZES, .sinks = 2);
  REFUSE("tg_attention_desc.window: -1", SIZES, .window = -1);
  REFUSE("tg_attention_desc.window: 1099511627776", SIZES, .window = (int64_t)1 << 40);
  static const float no_number = NAN, endless = INFINITY;
  REFUSE("tg_attention_desc.scale: ", SIZES, .scale = &no_number);
  REFUSE("tg_attention_desc.scale: ", SIZES, .scale = &endless);
  REFUSE("tg_attention_desc.soft_cap: -1", SIZES, .soft_cap = -1);
  REFUSE("tg_attention_desc.soft_cap: ", SIZES, .soft_cap = NAN);
  REFUSE("tg_attention_desc.soft_cap: ", SIZES, .soft_cap = INFINITY);
  REFUSE("tg_attention_desc.mask: type", SIZES, .mask = TG_I32);
  REFUSE("tg_attention_desc.mask_per without", SIZES, .mask_per = TG_PER_KEY);
  REFUSE("tg_attention_desc.mask_per: 32", SIZES, .mask = TG_F32, .mask_per = 32);
  REFUSE("tg_attention_desc.flags: 0x40", SIZES, .flags = 64);
  REFUSE("tg_attention_desc.threads: -5", SIZES, .threads = -5);
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(NULL, &(tg_attention_desc){SIZES}, &a) == TG_EINVAL &&
            tg_attention_plan(ctx, &(tg_attention_desc){SIZES}, NULL) == TG_EINVAL &&
            tg_attention_plan(ctx, NULL, &a) == TG_EINVAL && !tg_attention_workspace(NULL, NULL) &&
            !tg_attention_describe(NULL).kernels && tg_attention_run(NULL, NULL) == TG_EINVAL &&
            tg_attention_merge(NULL, NULL) == TG_EINVAL,
        "nothing at all");
  tg_attention_free(NULL);
}

static void wrong_texts(tg_context *ctx) {
  REFUSE("<score_mod>:1:9: error: unknown name 'speed'\n    score - speed * 2\n            ^~~~~", SIZES,
         .score_mod = "score - speed * 2");
  REFUSE("<score_mod>:2:4: error: unknown name 'foo'\n    + foo\n      ^~~", SIZES, .score_mod = "score\n + foo");
  REFUSE("<score_mod>:1:8: error: a value expected, not the end", SIZES, .score_mod = "score +");
  REFUSE("<score_mod>:1:1: error: a value expected, not the end", SIZES, .score_mod = "");
  REFUSE("<score_mod>:1:9: error: '*' of f32 and index", SIZES, .score_mod = "score * k");
  REFUSE("<score_mod>:1:9: error: unknown function 'sigmoid'", SIZES, .score_mod = "score * sigmoid(score)");
  REFUSE("<score_mod>:1:9: error: 'batch' is not seen here", SIZES, .score_mod = "score + batch");
  REFUSE("<score_mod>:1:1: error: score is not read;", SIZES, .score_mod = "f32(k - q)");
  REFUSE("\n    0.0f *\n    ^", SIZES, .score_mod = "0.0f *\nf32(k)");
  REFUSE("<score_mod>:1:1: error: f32 is expected, not index", SIZES, .score_mod = "k + index(i32(score))");
  REFUSE("<score_mod>:1:1: error: f32 is expected, not bool", SIZES, .score_mod = "score < 1");
  REFUSE("<score_mod>:1:1: error: f32 is expected, not f64", SIZES, .score_mod = "f64(score)");
  REFUSE("<mask_mod>:1:1: error: a bool is expected, not index", SIZES, .mask_mod = "k");
  REFUSE("<mask_mod>:1:1: error: a bool is expected, not the number 1", SIZES, .mask_mod = "1");
  REFUSE("<mask_mod>:1:1: error: unknown name 'score'", SIZES, .mask_mod = "score > 0");
  REFUSE("<mask_mod>:1:5: error: a value expected, not the end", SIZES, .mask_mod = "k < ");
  REFUSE("<mask_mod>:1:6: error: unknown name 'doc'", SIZES, .mask_mod = "k == doc");
  REFUSE("<score_mod>:1:9: error: '+' of f32 and i32", SIZES, .score_mod = "score + a", .arg = {{"a", TG_I32, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'x' without a score_mod or mask_mod", SIZES, .arg = {{"x", 0, 0}});
  REFUSE("tg_attention_desc.arg[1]: 'x' stands behind", SIZES, .score_mod = "score", .arg = {{0}, {"x", 0, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'q' is no name", SIZES, .score_mod = "score", .arg = {{"q", 0, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'f32' is no name", SIZES, .score_mod = "score", .arg = {{"f32", 0, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'else' is no name", SIZES, .mask_mod = "k < 3", .arg = {{"else", 0, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'mask_mod' is no name", SIZES, .score_mod = "score", .arg = {{"mask_mod", 0, 0}});
  REFUSE("tg_attention_desc.arg[0]: 'a b' is no name", SIZES, .score_mod = "score", .arg = {{"a b", 0, 0}});
  REFUSE("tg_attention_desc.arg[1]: 'x' is no name", SIZES, .score_mod = "score", .arg = {{"x", 0, 0}, {"x", 0, 0}});
  REFUSE("tg_attention_desc.arg[0].type: type", SIZES, .score_mod = "score", .arg = {{"x", TG_BOOL, 0}});
  REFUSE("tg_attention_desc.arg[0].per: 32", SIZES, .score_mod = "score", .arg = {{"x", 0, 32}});
}
#undef REFUSE

/* ---- calls ---- */

static tg_attention *plan(tg_context *ctx, const tg_attention_desc *d) {
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(ctx, d, &a) == TG_OK, "%s", tg_error_message(ctx));
  return a;
}

static const tg_attention_call good = {.queries = QUERIES, .keys = KEYS, .q = q, .k = k, .v = v, .o = o,
                                       .workspace = workspace, .workspace_bytes = sizeof workspace};

static void refuse_call(tg_context *ctx, const tg_attention *a, const tg_attention_call *call, const char *text) {
  for (int i = 0; i < FLOATS; i++) o[i] = 777;
  tg_status s = tg_attention_run(a, call);
  int written = 0;
  for (int i = 0; i < FLOATS; i++) written += o[i] != 777;
  CHECK(s == TG_EINVAL && !written && strstr(tg_error_message(ctx), text), "%d, %d written: %s (not: %s)", s, written,
        tg_error_message(ctx), text);
}
static void accept_call(tg_context *ctx, const tg_attention *a, const tg_attention_call *call, const char *what) {
  CHECK(tg_attention_run(a, call) == TG_OK, "%s: %s", what, tg_error_message(ctx));
}
static const void *behind(const void *p, int bytes) { return (const char *)p + bytes; }

#define REFUSE(TEXT, ...) do { tg_attention_call c = good; __VA_ARGS__; refuse_call(ctx, a, &c, (TEXT)); } while (0)
#define ACCEPT(WHAT, ...) do { tg_attention_call c = good; __VA_ARGS__; accept_call(ctx, a, &c, (WHAT)); } while (0)

static void wrong_calls(tg_context *ctx) {
  tg_attention *a = plan(ctx, &(tg_attention_desc){SIZES});
  if (!a) return;
  tg_attention *named = plan(ctx, &(tg_attention_desc){SIZES, .score_mod = "score + f32(sum(r : 4, i32(r) * i32(k)))",
                                                       .mask_mod = "sum(i : 3, i32(i)) < sum(d : 4, i32(d))"});
  CHECK(named != NULL, "ranges of the texts are called as ranges of the kernel are: %s", tg_error_message(ctx));
  tg_attention_free(named);
  ACCEPT("a plain call");
  CHECK(tg_attention_run(a, NULL) == TG_EINVAL, "no call");
  REFUSE("tg_attention_call.q is NULL", c.q = NULL);
  REFUSE("tg_attention_call.k is NULL", c.k = NULL);
  REFUSE("tg_attention_call.v is NULL", c.v = NULL);
  REFUSE("tg_attention_call.o is NULL", c.o = NULL);
  REFUSE("tg_attention_call.queries = 65, but the plan is for 0..64", c.queries = 65);
  REFUSE("tg_attention_call.queries = -1", c.queries = -1);
  REFUSE("tg_attention_call.keys = 65, but the plan is for 0..64", c.keys = 65);
  REFUSE("tg_attention_call.batch = -1", c.batch = -1);
  REFUSE("tg_attention_call.q is not aligned", c.q = behind(q, 1));
  REFUSE("tg_attention_call.v is not aligned", c.v = behind(v, 2));
  REFUSE("tg_attention_call.workspace has 0 bytes", c.workspace = NULL);
  REFUSE("tg_attention_call.workspace has 1 bytes", c.workspace_bytes = 1);
  REFUSE("tg_attention_call.q_strides[1] = -16", c.q_strides[1] = -16, c.q_strides[2] = 16);
  REFUSE("tg_attention_call.k_strides[2] = 2199023255552", c.k_strides[2] = (int64_t)1 << 41);
  REFUSE("tg_attention_call.o_strides = {0, 0, 16}", c.o_strides[2] = 16);
  REFUSE("tg_attention_call.o_strides = {0, 16, 8}", c.o_strides[1] = 16, c.o_strides[2] = 8);
  REFUSE("tg_attention_call.o overlaps q", c.q = o);
  REFUSE("tg_attention_call.o overlaps k", c.k = o + 10);
  REFUSE("tg_attention_call.o overlaps v", c.v = o);
  REFUSE("tg_attention_call.lse is given", c.lse = lse);
  REFUSE("tg_attention_call.mask is given", c.mask = mask);
  REFUSE("tg_attention_call.slopes is given", c.slopes = mask);
  REFUSE("tg_attention_call.arg[3] is given", c.arg[3] = mask);
  static const int32_t starts[] = {0, 3, 3, 8}, falling[] = {0, 5, 3, 8}, negative[] = {-1, 3, 3, 8},
                       long_one[] = {0, 65, 65, 65}, lengths[] = {1, 0, 9}, less[] = {1, 0, -1};
  REFUSE("tg_attention_call.query_starts: sequence 1 from 5 to 3", c.batch = 3, c.query_starts = falling);
  REFUSE("tg_attention_call.query_starts: sequence 0 from 0 to 65", c.batch = 3, c.query_starts = long_one);
  REFUSE("tg_attention_call.key_starts: sequence 0 from -1 to 3", c.batch = 3, c.key_starts = negative);
  REFUSE("tg_attention_call.key_lengths[2] = 9 is not within 0..5", c.batch = 3,
         c.query_starts = c.key_starts = starts, c.key_lengths = lengths);
  REFUSE("tg_attention_call.key_lengths[2] = -1", c.batch = 3, c.key_lengths = less);
  CHECK(tg_attention_merge(a, &(tg_attention_merge_call){.queries = 1}) == TG_EINVAL &&
            strstr(tg_error_message(ctx), "the plan has no LSE"), "%s", tg_error_message(ctx));
  ACCEPT("no queries", c.queries = 0, c.q = NULL, c.o = NULL);
  ACCEPT("no queries, with strides", c.queries = 0, c.o_strides[1] = HEAD, c.o_strides[2] = HEADS * HEAD);
  ACCEPT("no keys", c.keys = 0, c.k = NULL, c.v = NULL);
  ACCEPT("packed sequences", c.batch = 3, c.query_starts = c.key_starts = starts);
  ACCEPT("a workspace that is not aligned", c.workspace = workspace + 1, c.workspace_bytes--);
  ACCEPT("keys that are all the same one", c.k_strides[1] = HEAD);
  tg_attention_call old = good;   /* of a program built before the last fields were there */
  old.exec = (const tg_exec *)q;
  CHECK(tg_attention_run_sized(a, &old, offsetof(tg_attention_call, exec)) == TG_OK, "%s", tg_error_message(ctx));
  tg_attention_free(a);
}

/* Q, K, V and O in one tensor: rows of O between those of Q, and what lies one element too near. */
static void interleaved(tg_context *ctx) {
  tg_attention *a = plan(ctx, &(tg_attention_desc){SIZES, .lse = 1});
  enum { ROW = 4 * HEADS * HEAD };   /* [tokens][q, o, k, v][heads][head] */
  static float all[QUERIES * ROW + 1];
#define WITH c.q = all, c.o = all + HEADS * HEAD, c.k = all + 2 * HEADS * HEAD, c.v = all + 3 * HEADS * HEAD; \
  c.q_strides[1] = c.k_strides[1] = c.v_strides[1] = c.o_strides[1] = HEAD; \
  c.q_strides[2] = c.k_strides[2] = c.v_strides[2] = c.o_strides[2] = ROW
  if (!a) return;
  ACCEPT("rows of O between rows of Q", WITH);
  ACCEPT("two sequences of such", WITH, c.batch = 2, c.queries = c.keys = QUERIES / 2, c.q_strides[0] = c.k_strides[0] =
         c.v_strides[0] = c.o_strides[0] = QUERIES / 2 * ROW);
  REFUSE("tg_attention_call.o overlaps q", WITH, c.o = all + HEADS * HEAD - 1);
  REFUSE("tg_attention_call.o overlaps k", WITH, c.o = all + HEADS * HEAD + 1);
  REFUSE("tg_attention_call.o overlaps q", WITH, c.q = all + 1);
  REFUSE("tg_attention_call.o overlaps v", WITH, c.k = k; c.o = all + 2 * HEADS * HEAD + 1);
  REFUSE("tg_attention_call.o overlaps v", WITH, c.v_strides[2] = ROW - 1);
  REFUSE("tg_attention_call.lse overlaps q", WITH, c.lse = all + ROW);
  /* by heads: [tokens][heads][q, o][head] */
  ACCEPT("heads of O between heads of Q", c.q = all, c.o = all + HEAD, c.q_strides[1] = c.o_strides[1] = 2 * HEAD,
         c.q_strides[2] = c.o_strides[2] = 2 * HEADS * HEAD);
  REFUSE("tg_attention_call.o overlaps q", c.q = all, c.o = all + HEAD, c.q_strides[1] = c.o_strides[1] = 2 * HEAD,
         c.q_strides[2] = c.o_strides[2] = (2 * HEADS + 1) * HEAD);
#undef WITH
  tg_attention_free(a);
}

static void wrong_masks(tg_context *ctx) {
  tg_attention *a = plan(ctx, &(tg_attention_desc){SIZES, .mask = TG_F32, .mask_per = TG_PER_QUERY | TG_PER_KEY,
                                                   .alibi = 1, .lse = 1, .score_mod = "score + x",
                                                   .arg = {{"x", TG_F32, TG_PER_KEY}}});
  if (!a) return;
#define WITH c.mask = mask, c.slopes = mask, c.arg[0] = mask, c.lse = lse
  ACCEPT("a mask, slopes, an argument, LSE", WITH);
  REFUSE("tg_attention_call.mask is NULL", WITH, c.mask = NULL);
  REFUSE("tg_attention_call.slopes is NULL", WITH, c.slopes = NULL);
  REFUSE("tg_attention_call.arg[0] is NULL", WITH, c.arg[0] = NULL);
  REFUSE("tg_attention_call.arg[1] is given", WITH, c.arg[1] = mask);
  REFUSE("tg_attention_call.mask is not aligned", WITH, c.mask = behind(mask, 1));
  REFUSE("tg_attention_call.arg[0] is not aligned", WITH, c.arg[0] = behind(mask, 2));
  REFUSE("tg_attention_call.slopes is not aligned", WITH, c.slopes = (const float *)behind(mask, 1));
  REFUSE("tg_attention_call.lse is not aligned", WITH, c.lse = (float *)(void *)((char *)lse + 2));
  REFUSE("tg_attention_call.mask_strides[2] = -1 ", WITH, c.mask_strides[2] = -1);
  REFUSE("tg_attention_call.arg_strides[0][3] = -4 ", WITH, c.arg_strides[0][3] = -4);
  REFUSE("tg_attention_call.o overlaps slopes", WITH, c.slopes = o);
  REFUSE("tg_attention_call.o overlaps mask", WITH, c.mask = o);
  REFUSE("tg_attention_call.o overlaps arg[0]", WITH, c.arg[0] = o);
  REFUSE("tg_attention_call.lse overlaps q", WITH, c.lse = q + 3);
  REFUSE("overlaps", WITH, c.lse = o);
  ACCEPT("LSE is not wanted", WITH, c.lse = NULL);
#undef WITH
  tg_attention_free(a);
}

static void wrong_merges(tg_context *ctx) {
  tg_attention *a = plan(ctx, &(tg_attention_desc){SIZES, .lse = 1});
  if (!a) return;
  const tg_attention_merge_call right = {.queries = QUERIES, .first = q, .second = k, .first_lse = v,
                                         .second_lse = v + 1000, .o = o, .lse = lse};
#define MERGE(TEXT, ...) do { tg_attention_merge_call c = right; __VA_ARGS__; \
    CHECK(tg_attention_merge(a, &c) == TG_EINVAL && strstr(tg_error_message(ctx), (TEXT)), "%s (not: %s)", \
          tg_error_message(ctx), (TEXT)); } while (0)
  CHECK(tg_attention_merge(a, &right) == TG_OK, "%s", tg_error_message(ctx));
  CHECK(tg_attention_merge(a, NULL) == TG_EINVAL, "no call");
  MERGE("tg_attention_merge_call: 99 queries", c.queries = 99);
  MERGE("tg_attention_merge_call: 8 queries of -1 sequences", c.batch = -1);
  MERGE("tg_attention_merge_call.first is NULL", c.first = NULL);
  MERGE("tg_attention_merge_call.second_lse is NULL", c.second_lse = NULL);
  MERGE("tg_attention_merge_call.lse is NULL", c.lse = NULL);
  MERGE("tg_attention_merge_call.second is not aligned", c.second = behind(k, 1));
  MERGE("tg_attention_merge_call.first_lse is not aligned", c.first_lse = (const float *)behind(v, 2));
  MERGE("tg_attention_merge_call.o overlaps first", c.o = q);
  MERGE("tg_attention_merge_call.o overlaps second_lse", c.o = v + 1001);
  MERGE("tg_attention_merge_call.lse overlaps first_lse", c.lse = v);
  MERGE("overlaps", c.lse = o);
#undef MERGE
  tg_attention_free(a);
}

int main(void) {
  tg_context *ctx = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target()}, &ctx) == TG_OK, "a context");
  if (!ctx) return TEST_END();
  wrong_sizes(ctx);
  wrong_fields(ctx);
  wrong_texts(ctx);
  wrong_calls(ctx);
  wrong_masks(ctx);
  interleaved(ctx);
  wrong_merges(ctx);
  tg_context_free(ctx);
  return TEST_END();
}
