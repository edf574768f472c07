/* SPDX-License-Identifier: MIT
 * Small programs by the C constructors: a stack of open loops, plain statements, versions threaded at the end. */
#ifndef TG_TEST_BUILD_H
#define TG_TEST_BUILD_H
#include <math.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "interp/interp.h"
#include "../test.h"

typedef const tg_uop *U;
static tg_job J, *j = &J;
static U lists[32][64];
static U loops[32];
static uint32_t counts[32], depth;

static inline void begin(void) {
  tg_job_init(j, NULL);
  depth = 0;
  counts[0] = 0;
  j->name = "test";
}
static inline void add(U u) { lists[depth][counts[depth]++] = u; }
static inline U idx(int64_t v) { return tg_index(j, v); }
static inline U f32c(double v) { return tg_const_float(j, TG_F32, v); }
static inline U buffer(const char *name, tg_space space, tg_role role, tg_type type, uint32_t lanes, uint32_t rank, U d0, U d1) {
  U dims[2] = {d0, d1};
  U d = tg_define(j, (tg_buffer){.name = name, .space = (uint8_t)space, .role = (uint8_t)role, .rank = (uint8_t)rank, .type = (uint8_t)type}, lanes, dims, NULL, false);
  add(d);
  return d;
}
static inline U in_(const char *name, tg_type t, uint32_t rank, int64_t d0, int64_t d1) { return buffer(name, TG_SPACE_GLOBAL, TG_ROLE_IN, t, 1, rank, idx(d0), idx(d1)); }
static inline U out_(const char *name, tg_type t, uint32_t rank, int64_t d0, int64_t d1) { return buffer(name, TG_SPACE_GLOBAL, TG_ROLE_OUT, t, 1, rank, idx(d0), idx(d1)); }
static inline U reg(const char *name, tg_type t, uint32_t rank, int64_t d0, int64_t d1) { return buffer(name, TG_SPACE_REG, TG_ROLE_TEMP, t, 1, rank, idx(d0), idx(d1)); }
static inline U local_(const char *name, tg_type t, uint32_t rank, int64_t d0, int64_t d1) { return buffer(name, TG_SPACE_LOCAL, TG_ROLE_TEMP, t, 1, rank, idx(d0), idx(d1)); }
static inline U range_x(const char *name, U extent, tg_kind k) { return tg_range_new(j, name, extent, k, UINT32_MAX, (tg_pos){0}); }
static inline U range_(const char *name, int64_t extent, tg_kind k) { return range_x(name, idx(extent), k); }
static inline U open_x(const char *name, U extent, tg_kind k) {
  U r = range_x(name, extent, k);
  loops[depth++] = r;
  counts[depth] = 0;
  return r;
}
static inline U open_(const char *name, int64_t extent, tg_kind k) { return open_x(name, idx(extent), k); }
static inline void close_(void) {
  U e = tg_end(j, loops[depth - 1], counts[depth], lists[depth]);
  depth--;
  add(e);
}
static inline U load1(U b, U i) { return tg_load(j, b, &i, NULL, NULL, 0); }
static inline U load2(U b, U i, U k) {
  U x[2] = {i, k};
  return tg_load(j, b, x, NULL, NULL, 0);
}
static inline void store1(U b, U i, U v) { add(tg_store(j, b, &i, v, NULL, 0)); }
static inline void store2(U b, U i, U k, U v) {
  U x[2] = {i, k};
  add(tg_store(j, b, x, v, NULL, 0));
}
static inline U op(tg_op o, U a, U b) { return tg_op2(j, o, a, b); }
static inline U reduce1(tg_op o, U r, U v) { return tg_reduce(j, (tg_reduce_arg){.op = (uint16_t)o, .values = 1, .ranges = 1}, &v, NULL, NULL, &r); }
static inline U finish(void) { return j->sink = tg_versioned(j, tg_sink(j, counts[0], lists[0])); }

typedef struct { U sink; const tg_interp *in; } job_of;
static inline void run_it(void *p) {
  job_of *x = p;
  tg_interpret(j, x->sink, x->in);
}
/* True if it ran; the message is j->env.message. */
static inline bool interpret(U sink, tg_interp in) {
  job_of x = {sink, &in};
  j->env.status = TG_OK;
  return tg_protect(&j->env, run_it, &x);
}
typedef struct { tg_job *j; const char *text; } parse_of;
static inline void parse_it(void *p) {
  parse_of *x = p;
  tg_parse_kernel(x->j, "printed", x->text, 0, NULL);
}
/* The program's text, which must read back as the same program (with the same text, where no equal reductions have other names). */
static inline const char *reads_back(U sink, bool text_too, const char *file, int line) {
  tg_str s = tg_str_new(&j->env), t;
  tg_job again;
  tg_print(j, &s, sink);
  tg_job_init(&again, NULL);
  parse_of x = {&again, s.data};
  bool ok = tg_protect(&again.env, parse_it, &x);
  CHECK(ok, "%s:%d: %s\n%s", file, line, again.env.message, s.n < 20000 ? s.data : "");
  if (ok) {
    CHECK(tg_same_program(j, sink, &again, again.sink), "%s:%d: reads back as another program\n%s", file, line, s.n < 20000 ? s.data : "");
    CHECK(tg_structural_hash(j, sink) == tg_structural_hash(&again, again.sink), "%s:%d: hashes", file, line);
    t = tg_str_new(&again.env);
    tg_print(&again, &t, again.sink);
    CHECK(!text_too || !strcmp(s.data, t.data), "%s:%d: prints otherwise when read back\n--- first\n%s\n--- then\n%s", file, line, s.n < 20000 ? s.data : "", s.n < 20000 ? t.data : "");
  }
  tg_job_drop(&again);
  return s.data;
}
#define printed(sink) reads_back((sink), true, __FILE__, __LINE__)
#endif
