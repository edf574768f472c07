/* SPDX-License-Identifier: MIT
 * Programs for the tests of the passes, made with the constructors of uop.h; a random schedule for each of their
 * ranges; and the check that a program means the same before and after every pass. */
#ifndef TG_TEST_LOWER_KIT_H
#define TG_TEST_LOWER_KIT_H
#include <stdlib.h>
#include "dsl/text.h"
#include "interp/interp.h"
#include "compile/pipeline.h"
#include "../test.h"

typedef const tg_uop *node;
static tg_job job, *const j = &job;
static tg_lowering kit_lowering;
static uint64_t kit_seed = 1;

static inline uint32_t pick(uint32_t n) {
  kit_seed = kit_seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((kit_seed >> 33) % n);
}

static inline node I(int64_t v) { return tg_index(j, v); }
static inline node F(double v) { return tg_const_float(j, TG_F32, v); }
static inline node add(node a, node b) { return tg_op2(j, TG_OP_ADD, a, b); }
static inline node sub(node a, node b) { return tg_op2(j, TG_OP_SUB, a, b); }
static inline node mul(node a, node b) { return tg_op2(j, TG_OP_MUL, a, b); }
static inline node lt(node a, node b) { return tg_op2(j, TG_OP_LT, a, b); }
static inline node max2(node a, node b) { return tg_op2(j, TG_OP_MAX, a, b); }
static inline node min2(node a, node b) { return tg_op2(j, TG_OP_MIN, a, b); }

static inline node buffer(const char *name, tg_space space, tg_role role, tg_type type, uint32_t rank, const node *dim) {
  return tg_define(j, (tg_buffer){.name = name, .space = (uint8_t)space, .role = (uint8_t)role, .rank = (uint8_t)rank, .type = (uint8_t)type}, 1, dim, NULL, false);
}
#define GLOBAL(name, role, type, ...) buffer(name, TG_SPACE_GLOBAL, role, type, sizeof((node[]){__VA_ARGS__}) / sizeof(node), (node[]){__VA_ARGS__})
#define LOAD(b, ...) tg_load(j, b, (node[]){__VA_ARGS__}, NULL, NULL, 0)
#define LOAD_IF(b, gate, ...) tg_load(j, b, (node[]){__VA_ARGS__}, gate, gate ? zero_of(b) : NULL, 0)
#define STORE(b, value, gate, ...) tg_store(j, b, (node[]){__VA_ARGS__}, value, gate, 0)
static inline node zero_of(node b) { return tg_is_float(b->type) ? tg_const_float(j, b->type, 0) : tg_const_int(j, b->type, 0); }
static inline node range_of(const char *name, node extent, tg_kind kind) { return tg_range_new(j, name, extent, kind, UINT32_MAX, (tg_pos){0}); }
static inline node sum(tg_op op, node value, uint32_t n, const node *ranges) {
  return tg_reduce(j, (tg_reduce_arg){.op = (uint16_t)op, .values = 1, .ranges = (uint8_t)n}, &value, NULL, NULL, ranges);
}

/* A range of `extent` iterations in up to three parts of random kinds: `index` is its value, `gate` (or NULL) holds inside. */
typedef struct { node part[3], index, gate; uint32_t n; } split_range;
static inline split_range split(const char *name, int64_t extent, uint32_t nkinds, const tg_kind *kinds) {
  split_range s = {.n = 1 + pick(3)};
  int64_t size[3] = {1, 1, 1}, inner = 1, product;
  for (uint32_t i = 1; i < s.n; i++) inner *= size[i] = 1 + pick(5);
  size[0] = (extent + inner - 1) / inner;
  product = size[0] * inner;
  for (uint32_t i = 0; i < s.n; i++) {
    s.part[i] = range_of(tg_format(&j->env, "%s.%u", name, i), I(size[i]), kinds[pick(nkinds)]);
    s.index = s.index ? add(mul(s.index, I(size[i])), s.part[i]) : s.part[i];
  }
  if (product != extent) s.gate = lt(s.index, I(extent));
  return s;
}

/* The statements inside loops over all parts, shuffled; at most one, the outermost, becomes a thread range. */
static inline node nest(uint32_t n, const node *statements, uint32_t nsplit, const split_range *const *splits, bool thread) {
  node all[16], body[16], s;
  uint32_t count = 0;
  for (uint32_t i = 0; i < nsplit; i++)
    for (uint32_t k = 0; k < splits[i]->n; k++) all[count++] = splits[i]->part[k];
  for (uint32_t i = count; i > 1; i--) {
    uint32_t k = pick(i);
    s = all[i - 1], all[i - 1] = all[k], all[k] = s;
  }
  for (uint32_t i = 0; i < n; i++) body[i] = statements[i];
  s = n == 1 ? body[0] : NULL;
  for (uint32_t i = count; i-- > 0;) {
    node r = all[i];
    if (thread && !i && tg_range_kind(r) == TG_LOOP) {
      node as = tg_range_again(j, r, tg_extent(r), TG_THREAD);
      for (uint32_t k = 0; k < n; k++) body[k] = tg_substitute(j, body[k], 1, &r, &as);
      if (s) s = tg_substitute(j, s, 1, &r, &as);
      r = as;
    }
    s = s ? tg_end(j, r, 1, &s) : tg_end(j, r, n, body);
  }
  return s;
}

/* ---- meaning ---- */

enum { KIT_BUFFERS = 8 };
typedef struct { uint32_t n; uint8_t *data[KIT_BUFFERS]; size_t bytes[KIT_BUFFERS]; } kit_memory;

static inline kit_memory kit_fill(node sink, const int64_t *params) {
  kit_memory m = {0};
  (void)params;
  for (uint32_t i = 0; i < sink->n; i++) {
    node d = sink->src[i];
    if (d->op != TG_OP_DEFINE || tg_buffer_info(j, d)->space != TG_SPACE_GLOBAL) continue;
    tg_type t = (tg_type)d->type;
    size_t count = 1;
    bool strided = d->arg >> 32 & TG_STRIDED;
    uint32_t rank = strided ? d->n / 2 : d->n;
    if (strided) {
      size_t last = 0;
      for (uint32_t k = 0; k < rank; k++) last += (size_t)((d->src[k]->arg - 1) * d->src[rank + k]->arg);
      count = last + 1;
    } else {
      for (uint32_t k = 0; k < rank; k++) count *= (size_t)(d->src[k]->op == TG_OP_PARAM ? params[d->src[k]->arg] : d->src[k]->arg);
    }
    size_t width = (size_t)tg_type_bytes(t);
    m.bytes[m.n] = count * width;
    m.data[m.n] = tg_alloc(&j->env, count * width + 1);
    for (size_t e = 0; e < count && tg_buffer_info(j, d)->role != TG_ROLE_OUT; e++) {
      tg_value v;
      static const int64_t odd[] = {0, -1, 1, INT32_MIN, INT32_MAX, 7, -7, 2, -3};
      if (tg_is_float(t)) v.f = (int)pick(7) - 3;
      else v.i = tg_wrap(t, pick(3) ? (int)pick(41) - 20 : odd[pick(9)]);
      uint64_t bits = tg_value_bits(t, v);
      memcpy(m.data[m.n] + e * width, &bits, width);
    }
    m.n++;
  }
  return m;
}

static inline kit_memory kit_run(node sink, const kit_memory *from, const int64_t *params) {
  kit_memory m = *from;
  tg_interp_buffer b[KIT_BUFFERS];
  for (uint32_t i = 0; i < m.n; i++) {
    m.data[i] = tg_alloc(&j->env, m.bytes[i] + 1);
    memcpy(m.data[i], from->data[i], m.bytes[i]);
    b[i] = (tg_interp_buffer){m.data[i], m.bytes[i]};
  }
  tg_interpret(j, sink, &(tg_interp){.buffers = b, .params = params, .check_uninitialised = true, .check_races = true, .check_merges = true});
  return m;
}

static const struct { const char *name; tg_pass_fn *run; } kit_passes[] = {
  {"reduce", tg_pass_reduce}, {"fma", tg_pass_fma}, {"expand", tg_pass_expand}, {"place", tg_pass_place}, {"types", tg_pass_types},
  {"coalesce", tg_pass_coalesce}, {"index", tg_pass_index}, {"linear", tg_pass_linear},
};

/* What is printed parses to the same program. */
typedef struct { tg_job job; const char *text; } kit_text;
static inline void kit_parse(void *arg) {
  kit_text *t = arg;
  tg_parse_kernel(&t->job, "printed", t->text, 0, NULL);
}

static inline void kit_print_and_parse(const char *name, const char *stage, node p) {
  static kit_text t;
  tg_str s = tg_str_new(&j->env);
  j->stage = stage;
  tg_print(j, &s, p);
  t.text = s.data;
  tg_job_init(&t.job, NULL);
  bool parsed = tg_protect(&t.job.env, kit_parse, &t);
  CHECK(parsed, "%s after %s: %s\n%s", name, stage, t.job.env.message, t.text);
  if (parsed) CHECK(tg_same_program(j, p, &t.job, t.job.sink), "%s after %s parses to another program:\n%s", name, stage, t.text);
  tg_job_drop(&t.job);
}

typedef node build_fn(const int64_t *params);
typedef struct { const char *name; build_fn *build; const int64_t *params; const char *first, *at; node before; } kit_case;   /* first: the pass that it is made for; NULL: all */

static inline void kit_case_run(void *arg) {
  kit_case *c = arg;
  tg_push(&j->env, &j->params, ((tg_param){.name = "M", .lo = 0, .hi = 100, .multiple = 1}));
  tg_push(&j->env, &j->params, ((tg_param){.name = "K", .lo = 1, .hi = 100, .multiple = 1}));
  node p = tg_versioned(j, c->build(c->params));
  c->before = p;
  size_t i = 0;
  while (c->first && strcmp(kit_passes[i].name, c->first)) i++;
  c->at = i ? kit_passes[i - 1].name : "schedule";
  tg_verify(j, p, c->at, NULL);
  kit_memory in = kit_fill(p, c->params), want = kit_run(p, &in, c->params);
  for (; i < TG_COUNT(kit_passes); i++) {
    c->at = kit_passes[i].name;
    p = kit_passes[i].run(j, &kit_lowering, p);
    tg_verify(j, p, kit_passes[i].name, NULL);
    CHECK(tg_versioned(j, tg_plain(j, p)) == p, "%s after %s: versions do not agree with the order of statements", c->name, c->at);
    kit_print_and_parse(c->name, c->at, p);
    kit_memory got = kit_run(p, &in, c->params);
    for (uint32_t b = 0; b < got.n; b++) {
      bool same = !memcmp(got.data[b], want.data[b], want.bytes[b]);
      CHECK(same, "%s after %s: buffer %u differs", c->name, c->at, b);
      if (same) continue;
      tg_str s = tg_str_new(&j->env);
      tg_print(j, &s, c->before);
      fprintf(stderr, "seed before: see below\n%s\n", s.data);
      tg_print(j, &s, p);
      fprintf(stderr, "%s\n", s.data + 0);
      return;
    }
    c->before = p;
  }
}

/* One program through all passes, or from one on, for one seed. */
static inline void kit_check(const char *name, build_fn *build, const char *first, const int64_t *params, uint64_t seed) {
  kit_case c = {name, build, params, first, "build", NULL};
  kit_seed = seed * 2654435761u + 12345;
  for (int k = 0; k < 8; k++) pick(2);
  tg_job_init(j, NULL);
  bool ok = tg_protect(&j->env, kit_case_run, &c);
  CHECK(ok, "%s, seed %llu, at %s: %s", name, (unsigned long long)seed, c.at, j->env.message);
  tg_job_drop(j);
}
#endif
