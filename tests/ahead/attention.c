/* SPDX-License-Identifier: MIT
 * Plans of attention that are built ahead of time (tg_build_attention): for each level of x86-64 that this machine runs
 * the functions give the bits of tg_attention_run with a plan for that level, prefill and decode, in one task and dealt
 * to several, dense and with strides; what is wrong is refused with nothing written, and what functions lack by name.
 * The object calls nothing: it is linked with no library at all. */
#include <stdlib.h>
#include "../test.h"
#include "object.h"

enum { CASES = 7, FLOATS = 1 << 19 };

typedef struct { const char *name; tg_attention_desc d; int64_t size[4][2]; } one_case;

static const one_case cases[CASES] = {
    {"plain", {.head = 32, .heads = 2, .queries = {1, 70}, .keys = {1, 200}}, {{1, 7}, {33, 200}, {70, 64}}},
    {"decode", {.head = 40, .heads = 8, .kv_heads = 2, .queries = {1, 9}, .keys = {1, 1500}, .causal = TG_CAUSAL_BOTTOM_RIGHT},
     {{1, 1500}, {9, 700}, {1, 3}, {2, 300}}},
    {"window", {.head = 16, .heads = 4, .kv_heads = 4, .queries = {1, 80}, .keys = {1, 400}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .window = 90,
                .lse = 1}, {{1, 400}, {80, 90}, {5, 300}}},
    {"sinks", {.head = 16, .heads = 4, .kv_heads = 2, .queries = {1, 40}, .keys = {1, 2000}, .sinks = 1, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, {{1, 9}, {1, 1500}, {17, 40}}},
    {"alibi", {.head = 24, .value_head = 20, .heads = 3, .queries = {50}, .keys = {60}, .alibi = 1, .lse = 1}, {{50, 60}}},
    {"rule", {.head = 16, .heads = 2, .queries = {1, 20}, .keys = {1, 100}, .score_mod = "score * f32(h + 1) - f32(k % 3)", .soft_cap = 20},
     {{1, 100}, {20, 31}}},
    {"top", {.head = 16, .heads = 2, .queries = {40}, .keys = {1, 64}, .causal = TG_CAUSAL_TOP_LEFT, .threads = 2}, {{40, 64}, {40, 9}}},
};

typedef struct { float *q, *k, *v, *o, *want, *lse, *want_lse, *slopes, *sinks; char *workspace; } memory;

static float *floats(void) {
  float *p = aligned_alloc(64, FLOATS * sizeof *p);
  static uint32_t state = 1;
  for (int i = 0; i < FLOATS; i++) state = state * 1664525u + 1013904223u, p[i] = (float)(state >> 20) / 4096 - 0.5f;
  return p;
}

static void steps_of(int64_t s[3], int64_t heads, int64_t tokens, int64_t wide, bool by_token) {
  s[0] = by_token ? heads * tokens * wide : 0, s[1] = by_token ? wide : 0, s[2] = by_token ? heads * wide : 0;
}

static object_call words_of(const one_case *c, const memory *m, const tg_attention_call *x, size_t workspace, int threads, int64_t *dealt) {
  const size_t room = FLOATS * sizeof(float);
  object_call w = {.n = 0};
  object_buffer(&w, m->q, room), object_buffer(&w, m->k, room), object_buffer(&w, m->v, room), object_buffer(&w, m->o, room);
  if (c->d.lse) object_buffer(&w, m->lse, room);
  if (c->d.alibi) object_buffer(&w, m->slopes, room);
  if (c->d.sinks) object_buffer(&w, m->sinks, room);
  object_word(&w, x->batch);
  if (c->d.queries.hi) object_word(&w, x->queries);
  if (c->d.keys.hi) object_word(&w, x->keys);
  const int64_t *const strides[] = {x->q_strides, x->k_strides, x->v_strides, x->o_strides};
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < 3; i++) object_word(&w, strides[t][i]);
  object_buffer(&w, m->workspace, workspace);
  object_word(&w, threads), object_pointer(&w, threads > 1 ? (void *)object_last_first : NULL), object_pointer(&w, dealt);
  return w;
}

static void compare(const one_case *c, const memory *m, const tg_attention *a, object_function *f, object_function *workspace, int64_t queries,
                    int64_t keys, bool by_token, const char *level) {
  const size_t room = FLOATS * sizeof(float);
  int64_t heads = c->d.heads, kv = c->d.kv_heads ? c->d.kv_heads : heads, e = c->d.value_head ? c->d.value_head : c->d.head;
  tg_attention_call x = {.batch = 2, .q = m->q, .k = m->k, .v = m->v, .o = m->want, .lse = c->d.lse ? m->want_lse : NULL,
                         .slopes = c->d.alibi ? m->slopes : NULL, .sinks = c->d.sinks ? m->sinks : NULL, .workspace = m->workspace, .workspace_bytes = room};
  x.queries = c->d.queries.hi ? queries : 0, x.keys = c->d.keys.hi ? keys : 0;
  steps_of(x.q_strides, heads, queries, c->d.head, by_token), steps_of(x.k_strides, kv, keys, c->d.head, by_token);
  steps_of(x.v_strides, kv, keys, e, by_token), steps_of(x.o_strides, heads, queries, e, by_token);
  for (int threads = 1; threads <= 3; threads++) {
    int64_t dealt = 0;
    memset(m->o, 0x5a, room), memset(m->want, 0x5a, room), memset(m->lse, 0x5a, room), memset(m->want_lse, 0x5a, room);
    tg_status s = tg_attention_run(a, &x);
    object_call sizes = {.n = 4, .word = {2, queries, keys, threads}};
    size_t bytes = (size_t)(unsigned)object_run(workspace, &sizes);
    object_call w = words_of(c, m, &x, bytes, threads, &dealt);
    int got = object_run(f, &w);
    CHECK(s == TG_OK && !got && !memcmp(m->o, m->want, room) && !memcmp(m->lse, m->want_lse, room),
          "%s, %s: %d queries, %d keys, by token %d, threads %d: plan %d, function %d", c->name, level, (int)queries, (int)keys, by_token,
          threads, (int)s, got);
    if (bytes) {
      w = words_of(c, m, &x, bytes - 1, threads, &dealt);
      CHECK(object_run(f, &w) > 0, "%s: a byte less of workspace", c->name);
    }
  }
  object_call w = words_of(c, m, &x, room, 1, NULL);
  for (uint32_t i = 0; i < 8; i++) {
    object_call bad = w;
    bad.word[i] = i % 2 ? 3 : 0;   /* too few bytes; NULL */
    memset(m->o, 0x5a, room);
    CHECK(object_run(f, &bad) > 0 && ((unsigned char *)m->o)[0] == 0x5a, "%s: word %u", c->name, i);
  }
}

static void one(const one_case *c, memory *m, const char *const *levels, uint32_t n) {
  const char *level = levels[n - 1];
  char name[64];
  tg_context *x = NULL;
  tg_attention *a = NULL;
  tg_built *b = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = level, .threads = 3}, &x) == TG_OK, "%s", level);
  CHECK(tg_attention_plan(x, &c->d, &a) == TG_OK, "%s: %s", c->name, tg_error_message(x));
  CHECK(tg_build_attention(x, &c->name, &c->d, 1, levels, n, &b) == TG_OK, "%s: %s", c->name, tg_error_message(x));
  void *library = b ? object_open(b, c->name) : NULL;
  snprintf(name, sizeof name, "%s_workspace", c->name);
  object_function *f = library ? object_find(library, c->name) : NULL, *workspace = library ? object_find(library, name) : NULL;
  CHECK(f && workspace, "%s: its functions", c->name);
  for (int i = 0; i < 4 && c->size[i][0] && f && workspace && a; i++)
    for (int by_token = 0; by_token < 2; by_token++) compare(c, m, a, f, workspace, c->size[i][0], c->size[i][1], by_token, level);
  object_close(library);
  tg_built_free(b);
  tg_attention_free(a);
  tg_context_free(x);
}

static void refusals(const char *const *levels, uint32_t n) {
  const tg_attention_desc mask = {.head = 16, .queries = {4}, .keys = {8}, .mask = TG_F32}, wrong = {.head = 0, .queries = {4}, .keys = {8}},
                          none = {.head = 16, .queries = {4}, .keys = {0, 8}};
  const char *name = "a";
  tg_context *c = NULL;
  tg_built *b = NULL;
  CHECK(tg_context_create(NULL, &c) == TG_OK, "a context");
  CHECK(tg_build_attention(c, &name, &mask, 1, levels, n, &b) == TG_ELIMIT && !b && strstr(tg_error_message(c), "a: a mask"), "%s", tg_error_message(c));
  CHECK(tg_build_attention(c, &name, &none, 1, levels, n, &b) == TG_ELIMIT && !b, "%s", tg_error_message(c));
  CHECK(tg_build_attention(c, &name, &wrong, 1, levels, n, &b) == TG_EINVAL && strstr(tg_error_message(c), "a: tg_attention_desc.head"), "%s", tg_error_message(c));
  tg_context_free(c);
}

int main(int argc, char **argv) {
  const char *level[OBJECT_LEVELS];
  uint32_t levels = object_levels(level);
  memory m = {floats(), floats(), floats(), floats(), floats(), floats(), floats(), floats(), floats(), aligned_alloc(64, FLOATS * 4)};
  CHECK(object_begin(), "a folder");
  if (!levels) return printf("skipped: no level of x86-64 runs here\n"), TEST_END();
  refusals(level, levels);
  /* a third of the cases with code for all levels, the others for one, each level in its turn; "all": all for all */
  const bool all = argc > 1 && !strcmp(argv[1], "all");
  for (int i = 0; i < CASES; i++) {
    if (argc > 1 && !all && strcmp(argv[1], cases[i].name)) continue;
    if (i % 3 == 0 || all) one(&cases[i], &m, level, levels);
    else one(&cases[i], &m, &level[(uint32_t)i / 3 % levels], 1);
    for (uint32_t k = 0; k + 1 < levels && all; k++) one(&cases[i], &m, &level[k], 1);
  }
  float *const floats_of[] = {m.q, m.k, m.v, m.o, m.want, m.lse, m.want_lse, m.slopes, m.sinks};
  for (size_t i = 0; i < sizeof floats_of / sizeof *floats_of; i++) free(floats_of[i]);
  free(m.workspace);
  object_end();
  return TEST_END();
}
