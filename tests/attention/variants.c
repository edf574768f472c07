/* SPDX-License-Identifier: MIT
 * Attention's variants: which are not combined, and what is refused of their calls. Their results are those of attention_points, which draws them. */
#include <math.h>
#include "../target.h"
#include "../test.h"
#include "tg/attention.h"
#include "philox.h"

enum { T = 6, N = 20, D = 8, H = 4, G = 2, PAGE = 8, PAGES = 5, FLOATS = 1 << 13 };
static float q[FLOATS], k[FLOATS], v[FLOATS], o[FLOATS], fresh[2][FLOATS], sinks[H];
static char workspace[1 << 20];

#define SIZES .head = D, .heads = H, .kv_heads = G, .queries = {0, 64}, .keys = {0, 64}

/* ---- descriptors ---- */

static void refuse(tg_context *c, const tg_attention_desc *d, const char *text) {
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(c, d, &a) == TG_EINVAL && !a && strstr(tg_error_message(c), text), "%s (not: %s)", tg_error_message(c), text);
  tg_attention_free(a);
}
#define REFUSE(TEXT, ...) refuse(c, &(tg_attention_desc){SIZES, __VA_ARGS__}, TEXT)

static void descriptors(tg_context *c) {
  REFUSE("tg_attention_desc.backward with page_size: ", .backward = 1, .page_size = 16);
  REFUSE("tg_attention_desc.backward with append: ", .backward = 1, .append = 1);
  REFUSE("tg_attention_desc.page_size: -1", .page_size = -1);
  REFUSE("tg_attention_desc.page_size: 1048577", .page_size = (1 << 20) + 1);
  REFUSE("tg_attention_desc.append", .append = 2);
  REFUSE("tg_attention_desc.backward with kv_bits: ", .backward = 1, .kv_bits = 8);
  REFUSE("tg_attention_desc.append with kv_bits: ", .append = 1, .kv_bits = 4);
  REFUSE("tg_attention_desc.kv_bits: 3", .kv_bits = 3);
  REFUSE("tg_attention_desc.kv_group: 3 elements of heads of 8 and 8", .kv_bits = 8, .kv_group = 3);
  REFUSE("tg_attention_desc.kv_group: 1 elements of heads of 8 and 8 are no whole groups of whole bytes", .kv_bits = 4, .kv_group = 1);
  REFUSE("tg_attention_desc.kv_group: -8", .kv_bits = 8, .kv_group = -8);
  REFUSE("kv_scale or kv_group without kv_bits", .kv_group = 8);
  REFUSE("tg_attention_desc.kv_scale: type", .kv_bits = 8, .kv_scale = TG_I8);
  REFUSE("tg_attention_desc.k: type", .kv_bits = 8, .k = TG_F32);
  REFUSE("tg_attention_desc.v: type", .v = TG_I8);
  REFUSE("tg_attention_desc.backward with rotary: ", .backward = 1, .rotary = 8);
  REFUSE("tg_attention_desc.rotary with kv_bits: ", .rotary = 8, .kv_bits = 8);
  REFUSE("tg_attention_desc.rotary: 3 ", .rotary = 3);
  REFUSE("tg_attention_desc.rotary: 10 ", .rotary = 10);
  REFUSE("rotary_neighbours: 2", .rotary = 8, .rotary_neighbours = 2);
  REFUSE("tg_attention_desc.block_rows: 64 and block_keys: 0", .block_rows = 64);
  REFUSE("tg_attention_desc.block_rows: -1", .block_rows = -1, .block_keys = 1);
  REFUSE("tg_attention_desc.block_per", .block_per = TG_PER_HEAD);
  REFUSE("tg_attention_desc.block_per", .block_rows = 64, .block_keys = 64, .block_per = TG_PER_KEY);
  REFUSE("tg_attention_desc.dropout: 1 ", .dropout = 1);
  REFUSE("tg_attention_desc.dropout: -0.5 ", .dropout = -0.5f);
  REFUSE("tg_attention_desc.dropout: ", .dropout = NAN);
}
#undef REFUSE

/* ---- calls ---- */

static tg_attention *plan(tg_context *c, const tg_attention_desc *d) {
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(c, d, &a) == TG_OK, "%s", tg_error_message(c));
  return a;
}

static void refuse_call(tg_context *c, const tg_attention *a, const tg_attention_call *call, const char *text) {
  for (int i = 0; i < FLOATS; i++) o[i] = k[i] = v[i] = 777;
  tg_status s = tg_attention_run(a, call);
  int written = 0;
  for (int i = 0; i < FLOATS; i++) written += o[i] != 777 || k[i] != 777 || v[i] != 777;
  CHECK(s == TG_EINVAL && !written && strstr(tg_error_message(c), text), "%d, %d written: %s (not: %s)", s, written, tg_error_message(c), text);
}
#define WRONG(TEXT, ...) do { tg_attention_call x = good; __VA_ARGS__; refuse_call(c, a, &x, (TEXT)); } while (0)
#define RIGHT(WHAT, ...) do { tg_attention_call x = good; __VA_ARGS__; CHECK(tg_attention_run(a, &x) == TG_OK, "%s: %s", WHAT, tg_error_message(c)); } while (0)

static void calls_with_sinks(tg_context *c) {
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .sinks = sinks, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.sinks is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .sinks = 1, .lse = 1});
  RIGHT("sinks", (void)x);
  WRONG("tg_attention_call.sinks is NULL", x.sinks = NULL);
  WRONG("tg_attention_call.o overlaps sinks", x.sinks = o);
  CHECK(tg_attention_merge(a, &(tg_attention_merge_call){.queries = 1}) == TG_EINVAL && strstr(tg_error_message(c), "sinks"), "%s", tg_error_message(c));
  for (int i = 0; i < H; i++) sinks[i] = INFINITY;
  RIGHT("a sink of infinity", (void)x);
  CHECK(isnan(o[0]), "a score that is infinite makes NaN, not %g", (double)o[0]);
  for (int i = 0; i < H; i++) sinks[i] = (float)i;
  RIGHT("no keys", x.keys = 0, x.lse = fresh[0]);
  for (int i = 0; i < H * T; i++) CHECK(o[i * D] == 0 && fresh[0][i] == (float)(i / T), "a query that sees no key has %g, LSE %g", (double)o[i * D], (double)fresh[0][i]);
  tg_attention_free(a);
}

static void calls_with_pages(tg_context *c) {
  static const int32_t table[] = {4, 0, 2, 1, 3, 0}, outside[] = {4, 0, 5, 1, 3, 0}, below[] = {4, -1, 2, 1, 3, 0}, starts[] = {0, N, 2 * N}, lengths[] = {N, 2 * PAGE};
  const tg_attention_call good = {.batch = 2, .queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .pages = PAGES, .page_table = table, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.page_table is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .page_size = PAGE});
  RIGHT("pages", (void)x);
  RIGHT("an entry that no key needs", x.key_lengths = lengths, x.page_table = (const int32_t[]){4, 0, 2, 1, 3, 77});
  WRONG("tg_attention_call.page_table is NULL", x.page_table = NULL);
  WRONG("tg_attention_call.page_table: entry 2 of sequence 0 is 5, of 5 pages", x.page_table = outside);
  WRONG("tg_attention_call.page_table: entry 1 of sequence 0 is -1", x.page_table = below);
  WRONG("tg_attention_call.page_table: entry 0 of sequence 0 is 4, of 3 pages", x.pages = 3);
  WRONG("tg_attention_call.page_table_stride = 2, but sequence 0 has 3 pages", x.page_table_stride = 2);
  WRONG("page_table_stride = -1", x.page_table_stride = -1);
  WRONG("tg_attention_call.pages = -1", x.pages = -1);
  WRONG("tg_attention_call.key_starts: the plan has pages", x.key_starts = starts);
  WRONG("tg_attention_call.o overlaps k", x.k = o);
  tg_attention_free(a);
}

static void calls_that_append(tg_context *c) {
  static const int32_t table[] = {4, 0, 2}, few[] = {T - 1};
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .k_new = fresh[0], .v_new = fresh[1], .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.k_new or v_new is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .append = 1});
  for (int i = 0; i < FLOATS; i++) fresh[0][i] = (float)i, fresh[1][i] = -(float)i, k[i] = v[i] = 777;
  RIGHT("appending", (void)x);
  for (int i = 0; i < G * N * D; i++) {
    int g = i / D / N, token = i / D % N - (N - T), at = (g * T + token) * D + i % D;
    CHECK(token < 0 ? k[i] == 777 && v[i] == 777 : k[i] == (float)at && v[i] == -(float)at, "element %d of K and V is %g and %g", i, (double)k[i], (double)v[i]);
  }
  RIGHT("V is K", x.v = k, x.v_new = NULL);
  WRONG("tg_attention_call.k_new is NULL", x.k_new = NULL);
  WRONG("sequence 0 has 5 keys, of which 6 are to be appended", x.key_lengths = few);
  WRONG("tg_attention_call.k overlaps v", x.v = k);
  WRONG("tg_attention_call.k overlaps k_new", x.k_new = k);
  WRONG("tg_attention_call.k overlaps q", x.k = q);
  WRONG("tg_attention_call.k_strides = {0, 0, 8} lay two elements on one place", x.k_strides[2] = D);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .append = 1, .page_size = PAGE});
  for (int i = 0; i < FLOATS; i++) k[i] = 777;
  RIGHT("appending to pages", x.pages = PAGES, x.page_table = table);
  for (int token = N - T; token < N; token++)
    for (int e = 0; e < D; e++) {
      float got = k[((table[token / PAGE] * G + 1) * PAGE + token % PAGE) * D + e], want = (float)((T + token - (N - T)) * D + e);
      CHECK(got == want, "element %d of key %d is %g, not %g", e, token, (double)got, (double)want);
    }
  tg_attention_free(a);
}

/* ---- dropout ---- */

/* The generator of the references is Philox: counters, keys and results that its authors publish (Random123, kat_vectors). */
static void known_numbers(void) {
  static const struct { uint32_t counter[4]; uint64_t seed; uint32_t out[4]; } known[] = {
    {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (int i = 0; i < 3; i++) {
    uint32_t out[4];
    philox(known[i].counter, known[i].seed, out);
    CHECK(!memcmp(out, known[i].out, sizeof out), "Philox of case %d is %x %x %x %x", i, out[0], out[1], out[2], out[3]);
  }
}

/* V has 1 where key and element are equal, and Q is 0: O is what each weight, 1 / keys, is multiplied by. The same ones whatever the plan's sizes and kernels, and the number of threads. */
static void dropped(tg_context *c) {
  enum { KEYS = 64, QUERIES = 50, BATCH = 2 };
  static float zero[BATCH * H * QUERIES * D], values[BATCH * H * KEYS * KEYS], out[BATCH * H * QUERIES * KEYS];
  static const tg_dim queries[] = {{QUERIES, 0}, {1, 4096}};
  for (int i = 0; i < BATCH * H * KEYS; i++) values[i * KEYS + i % KEYS] = 1;
  for (int n = 0; n < 2; n++)
    for (int threads = 1; threads <= 3; threads += 2) {
      tg_attention *a = plan(c, &(tg_attention_desc){.head = D, .value_head = KEYS, .heads = H, .queries = queries[n], .keys = {1, 4096}, .dropout = 0.3f, .threads = threads});
      tg_attention_call x = {.batch = BATCH, .queries = QUERIES, .keys = KEYS, .q = zero, .k = values, .v = values, .o = out, .workspace = workspace, .workspace_bytes = sizeof workspace, .seed = 0x123456789abcdefu, .offset = 77};
      CHECK(tg_attention_run(a, &x) == TG_OK, "%s", tg_error_message(c));
      int left = 0;
      for (int i = 0; i < BATCH * H * QUERIES * KEYS; i++) {
        double want = philox_kept((double)0.3f, x.seed, x.offset, i / KEYS / QUERIES, i / KEYS % QUERIES, i % KEYS) / KEYS;
        left += out[i] == 0;
        if (test_failed < 9) CHECK(fabs((double)out[i] - want) <= 1e-8, "stream %d, query %d, key %d: %g, not %g", i / KEYS / QUERIES, i / KEYS % QUERIES, i % KEYS, (double)out[i], want);
      }
      double share = (double)left / (BATCH * H * QUERIES * KEYS);
      CHECK(fabs(share - 0.3) < 0.01, "%g of the weights are left out, not 0.3", share);
      tg_attention_free(a);
    }
}

static void calls_with_dropout(tg_context *c) {
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .seed = 1, .offset = 2, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.seed or offset is given", (void)x);
  WRONG("tg_attention_call.seed or offset is given", x.seed = 0);
  tg_attention_free(a);
}

static void calls_with_blocks(tg_context *c) {
  static uint8_t blocks[64];
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .block_mask = blocks, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.block_mask is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .block_rows = 4, .block_keys = 8});
  o[0] = 5;
  RIGHT("a mask of blocks", (void)x);
  CHECK(o[0] == 0, "a query whose blocks are all 0 has %g", (double)o[0]);
  WRONG("tg_attention_call.block_mask is NULL", x.block_mask = NULL);
  WRONG("tg_attention_call.block_mask_strides[2] = -1 ", x.block_mask_strides[2] = -1);
  WRONG("tg_attention_call.o overlaps block_mask", x.block_mask = (const uint8_t *)o);
  tg_attention_free(a);
}

/* Blocks of few rows: what a row has does not depend on them if all are 1. Many keys, which are divided for few rows; as code for vectors of 4, 8 and 16 rows. */
static void blocks_of_few_rows(void) {
  enum { ROWS = 14, KEYS = 1100 };
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a"};
  static const int32_t sizes[] = {0, 4, 8, 12, 40, 100};
  static float few[ROWS], many[2][KEYS], got[2][ROWS];
  static uint8_t blocks[ROWS * (KEYS / 64 + 1)];
  memset(blocks, 1, sizeof blocks);
  for (int i = 0; i < KEYS; i++) many[0][i] = (float)(i % 13) / 8, many[1][i] = (float)(i % 29 - 14) / 16, few[i % ROWS] = (float)(i % 7 - 3) / 4;
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    tg_target t;
    tg_context *c;
    if (!tg_target_named(&t, targets[i]) || !tg_target_runs_here(&t) || tg_context_create(&(tg_context_options){.target = targets[i]}, &c)) continue;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
      int32_t rows = sizes[n];
      tg_attention *a = plan(c, &(tg_attention_desc){.head = 1, .queries = {ROWS, 0}, .keys = {KEYS, 0}, .block_rows = rows, .block_keys = rows ? 64 : 0});
      memset(got[rows > 0], 0xff, sizeof got[0]);
      tg_attention_call x = {.q = few, .k = many[0], .v = many[1], .o = got[rows > 0], .block_mask = rows ? blocks : NULL, .workspace = workspace, .workspace_bytes = sizeof workspace};
      CHECK(tg_attention_run(a, &x) == TG_OK, "%s: %s", targets[i], tg_error_message(c));
      for (int row = 0; row < ROWS; row++) CHECK(fabsf(got[1][row] - got[0][row]) < 1e-5f || !rows, "%s, blocks of %d rows: row %d is %g, not %g", targets[i], rows, row, (double)got[1][row], (double)got[0][row]);
      tg_attention_free(a);
    }
    tg_context_free(c);
  }
}

static void calls_with_integers(tg_context *c) {
  static float scales[2][G * N];
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .k_scale = scales[0], .v_scale = scales[1], .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.k_scale or v_scale is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .kv_bits = 8});
  RIGHT("integers", (void)x);
  RIGHT("bytes anywhere", x.k = (const char *)k + 1);
  WRONG("tg_attention_call.k_scale is NULL", x.k_scale = NULL);
  WRONG("tg_attention_call.v_scale is not aligned", x.v_scale = (const char *)scales[1] + 2);
  WRONG("tg_attention_call.o overlaps k_scale", x.k_scale = o);
  WRONG("tg_attention_call.v_scale_strides[2] = -1 ", x.v_scale_strides[2] = -1);
  tg_attention_free(a);
}

static void calls_with_angles(tg_context *c) {
  const tg_attention_call good = {.queries = T, .keys = N, .q = q, .k = k, .v = v, .o = o, .cos = fresh[0], .sin = fresh[1], .positions = N, .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = plan(c, &(tg_attention_desc){SIZES});
  WRONG("tg_attention_call.cos, sin or positions is given", (void)x);
  tg_attention_free(a);
  a = plan(c, &(tg_attention_desc){SIZES, .rotary = D});
  RIGHT("angles", (void)x);
  WRONG("tg_attention_call.cos is NULL", x.cos = NULL);
  WRONG("tg_attention_call.sin is not aligned", x.sin = (const float *)(const void *)((const char *)fresh[1] + 2));
  WRONG("tg_attention_call.positions = 19, and 20 are needed", x.positions = N - 1);
  WRONG("sequence 0 has 6 queries at the end of 5 keys", x.keys = T - 1);
  WRONG("tg_attention_call.o overlaps cos", x.cos = o);
  tg_attention_free(a);
}

int main(void) {
  tg_context *c;
  if (tg_context_create(&(tg_context_options){.target = test_target()}, &c)) return 1;
  descriptors(c);
  calls_with_sinks(c);
  calls_with_pages(c);
  calls_that_append(c);
  known_numbers();
  dropped(c);
  calls_with_dropout(c);
  calls_with_blocks(c);
  blocks_of_few_rows();
  calls_with_integers(c);
  calls_with_angles(c);
  tg_context_free(c);
  return TEST_END();
}
