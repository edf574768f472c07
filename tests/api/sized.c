/* SPDX-License-Identifier: MIT
 * Structs that cross the border in other sizes than the library's, over libtg_jit.so (tests/api/sized.sh). Built twice:
 * against the public headers, where each call is also made with the size of an older struct, whose later fields are
 * noise that must not be read; and (TEST_NEWER) against headers whose structs have grown, where each call runs while
 * the new fields are 0, and is refused by the struct's name once one is set. Likewise with a library whose structs have
 * grown (tests/long). Also C++. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tg/build.h"
#include "tg/dsl.h"
#include "tg/nn.h"
#include "tg/program.h"

static int passed, failed;
static void check(int right, const char *what, const char *why) {
  if (right) passed++;
  else failed++, fprintf(stderr, "sized: %s: %s\n", what, why);
}

TG_KERNEL(twice, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = x[i] * 2);
}

static const char text[] = "kernel twice(N) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }\n";
static tg_context *c;
static char told[4096];

static void listen(void *user, const char *message) {
  (void)user;
  snprintf(told, sizeof told, "%s", message);
}

static void write_nothing(void *user, const char *stage, const char *shown) { (void)user, (void)stage, (void)shown; }

static void good(const char *what, tg_status s) { check(s == TG_OK, what, c ? tg_error_message(c) : told); }

#ifdef TEST_NEWER
static void refused(const char *what, tg_status s, const char *type) {
  const char *message = c ? tg_error_message(c) : told;
  check(s == TG_EINVAL && strstr(message, type) && strstr(message, "newer library"), what, message);
}
#endif

/* Calls with the struct `v` of type T: as it is; then as an older program's or a newer one's. UP_TO: the first field
 * that an older header lacked. */
#ifdef TEST_NEWER
#define CALL(T, v, up_to, call)                        \
  do {                                                 \
    size_t size = sizeof(T);                           \
    memset((v).appended, 0, sizeof (v).appended);      \
    good(#call, call);                                 \
    (v).appended[1] = 5;                               \
    refused(#call, call, #T ":");                      \
    (v).appended[1] = 0;                               \
  } while (0)
#else
#define CALL(T, v, up_to, call)                        \
  do {                                                 \
    T whole = (v);                                     \
    size_t size = sizeof(T);                           \
    good(#call, call);                                 \
    size = offsetof(T, up_to);                         \
    memset((char *)&(v) + size, 0xa5, sizeof(T) - size); \
    good("older: " #call, call);                       \
    (v) = whole;                                       \
  } while (0)
#endif

/* A result of another size: what the program lacks is not written, what it has more is 0. */
#define RESULT(T, call)                                                                           \
  do {                                                                                            \
    struct { T v; unsigned char behind[32]; } room;                                                 \
    size_t size = sizeof(T);                                                                      \
    memset(&room, 0xa5, sizeof room);                                                                   \
    size = sizeof room;                                                                              \
    T *out = &room.v;                                                                                \
    call;                                                                                         \
    int zero = 1;                                                                                 \
    for (size_t i = 0; i < sizeof room.behind; i++) zero &= !room.behind[i];                            \
    check(zero, "newer: " #call, "what the library does not know is not 0");                      \
    memset(&room, 0xa5, sizeof room);                                                                   \
    size = 8;                                                                                     \
    call;                                                                                         \
    check(((unsigned char *)&room)[8] == 0xa5, "older: " #call, "more was written than there is");   \
  } while (0)

static void open_context(void) {
  tg_context_options o;
  memset(&o, 0, sizeof o);
  o.log = listen, o.tuned = "", o.threads = 2;
#ifdef TEST_NEWER
  o.appended[0] = 1;
  refused("tg_context_create", tg_context_create(&o, &c), "tg_context_options:");
  refused("tg_context_create_runtime", tg_context_create_runtime(&o, &c), "tg_context_options:");
  o.appended[0] = 0;
  good("tg_context_create_runtime", tg_context_create_runtime(&o, &c));
  tg_context_free(c);
  c = NULL;
  good("tg_context_create", tg_context_create(&o, &c));
#else
  memset((char *)&o + offsetof(tg_context_options, compiled), 0xa5, sizeof o - offsetof(tg_context_options, compiled));
  good("tg_context_create", tg_context_create_sized(&o, offsetof(tg_context_options, compiled), &c));
#endif
}

static float x[64], y[64];

static void kernels(void) {
  tg_binding n = {"N", 64, 64, 1};
  tg_compile_options o;
  tg_kernel *k = NULL, *other = NULL;
  const tg_kernel_def *defs[1] = {&twice};
  memset(&o, 0, sizeof o);
  o.bindings = &n, o.bindings_n = 1;
#define COMPILE(call) CALL(tg_compile_options, o, kernel, (tg_kernel_free(other), other = NULL, call))
  COMPILE(tg_kernel_compile_sized(c, &twice, &o, size, &other));
  COMPILE(tg_kernel_compile_text_sized(c, "t", text, &o, size, &other));
  COMPILE(tg_kernel_compile_tuned_sized(c, defs, 1, &o, size, &other));
  CALL(tg_compile_options, o, kernel, tg_show_sized(c, &twice, &o, size, "place", write_nothing, NULL));
  CALL(tg_compile_options, o, kernel, tg_show_text_sized(c, "t", text, &o, size, "place", write_nothing, NULL));
  const char *target = "x86-64-v2";
  tg_built *b = NULL;
  CALL(tg_compile_options, o, kernel, (tg_built_free(b), tg_build_sized(c, &twice, &o, size, &target, 1, &b)));
  CALL(tg_compile_options, o, kernel, (tg_built_free(b), tg_build_text_sized(c, "t", text, &o, size, &target, 1, &b)));
  tg_built_free(b);
  tg_kernel_free(other);
  good("tg_kernel_compile", tg_kernel_compile(c, &twice, &o, &k));
  tg_argument a[2];
  tg_launch l;
  tg_timing t;
  memset(a, 0, sizeof a), memset(&l, 0, sizeof l);
  a[0].data = x, a[1].data = y, a[0].bytes = a[1].bytes = sizeof x;
  l.buffers = a, l.buffers_n = 2;
  CALL(tg_launch, l, parallel_for, tg_kernel_run_sized(k, &l, size));
  CALL(tg_launch, l, parallel_for, tg_kernel_start_sized(k, &l, size));
  CALL(tg_launch, l, parallel_for, tg_kernel_time_sized(k, &l, size, 1e-5, &t, sizeof t));
  RESULT(tg_timing, tg_kernel_time_sized(k, &l, sizeof l, 1e-5, out, size));
  tg_device *d;
  tg_queue *q = NULL;
  tg_queue_options qo;
  memset(&qo, 0, sizeof qo);
  good("tg_device_open", tg_device_open(c, 0, &d));
  CALL(tg_queue_options, qo, native, (tg_queue_free(q), q = NULL, tg_queue_open_sized(d, &qo, size, &q)));
  tg_queue_free(q);
  good("tg_queue_open", tg_queue_open(d, NULL, &q));
  CALL(tg_launch, l, parallel_for, tg_queue_launch_sized(q, k, &l, size));
  RESULT(tg_device_info, tg_device_describe_sized(0, out, size));
  tg_graph *g;
  tg_graph_replay r;
  memset(&r, 0, sizeof r);
  good("tg_queue_record", tg_queue_record(q));
  good("tg_queue_launch", tg_queue_launch(q, k, &l));
  good("tg_queue_recorded", tg_queue_recorded(q, &g));
  CALL(tg_graph_replay, r, moves_n, tg_queue_replay_sized(q, g, &r, size));
  tg_graph_free(g);
  tg_queue_free(q);
  tg_program *p = NULL;
  tg_program_options po;
  tg_program_call pc;
  memset(&po, 0, sizeof po), memset(&pc, 0, sizeof pc);
  CALL(tg_program_options, po, threads, (tg_program_free(p), p = NULL, tg_program_begin_sized(c, &po, size, &p)));
  tg_program_free(p);
  good("tg_program_begin", tg_program_begin(c, NULL, &p));
  CALL(tg_launch, l, parallel_for, tg_program_launch_sized(p, k, &l, size));
  good("tg_program_end", tg_program_end(p));
  CALL(tg_program_call, pc, exec, tg_program_run_sized(p, &pc, size));
  RESULT(tg_program_info, tg_program_describe_sized(p, out, size));
  tg_program_free(p);
  tg_kernel_free(k);
  check(y[3] == 2 * x[3], "y[3]", "is wrong");
}

static void products(void) {
  static float a[64], b[64], m[64];
  const char *target = "x86-64-v2", *name = "product";
  tg_gemm_desc d;
  tg_gemm_call call;
  tg_gemm *g = NULL;
  tg_gemm_packing p;
  tg_built *built = NULL;
  tg_tune_result *r;
  memset(&d, 0, sizeof d), memset(&call, 0, sizeof call);
  d.m.lo = d.n.lo = d.k.lo = 8;
  CALL(tg_gemm_desc, d, flags, (tg_gemm_free(g), g = NULL, tg_gemm_plan_sized(c, &d, size, &g)));
  CALL(tg_gemm_desc, d, flags, tg_gemm_packing_choose_sized(c, &d, 1, size, &p));
  CALL(tg_gemm_desc, d, flags, tg_build_packing_sized(c, &d, size, &target, 1, &p));
  CALL(tg_gemm_desc, d, flags,
       (tg_built_free(built), tg_build_gemm_sized(c, &name, &d, size, 1, &target, 1, &built)));
  tg_built_free(built);
  tg_gemm_free(g);
#ifdef TEST_NEWER
  d.appended[0] = 1;
  refused("tg_gemm_tune", tg_gemm_tune(c, &d, 0, 0, 0, NULL, &r), "tg_gemm_desc:");
  d.appended[0] = 0;
  tg_tune_options o;
  memset(&o, 0, sizeof o);
  o.appended[0] = 1;
  const tg_kernel_def *defs[1] = {&twice};
  refused("tg_gemm_tune", tg_gemm_tune(c, &d, 0, 0, 0, &o, &r), "tg_tune_options:");
  refused("tg_tune", tg_tune(c, defs, 1, &o, &r), "tg_tune_options:");
  refused("tg_tune_text", tg_tune_text(c, "t", text, &o, &r), "tg_tune_options:");
#endif
  (void)r;
  good("tg_gemm_plan", tg_gemm_plan(c, &d, &g));
  call.a = a, call.b = b, call.c = m;
  CALL(tg_gemm_call, call, workspace, tg_gemm_run_sized(g, &call, size));
  tg_program *program;
  good("tg_program_begin", tg_program_begin(c, NULL, &program));
  CALL(tg_gemm_call, call, workspace, tg_gemm_put_sized(program, g, &call, size));
  tg_program_free(program);
  RESULT(tg_gemm_info, tg_gemm_describe_sized(g, out, size));
  tg_gemm_free(g);
}

static void attention(void) {
  static float q[64], k[64], v[64], o[64], lse[8];
  const char *target = "x86-64-v2", *name = "attend";
  tg_attention_desc d;
  tg_attention_call call;
  tg_attention_merge_call merge;
  tg_attention *a = NULL;
  tg_built *built = NULL;
  memset(&d, 0, sizeof d), memset(&call, 0, sizeof call), memset(&merge, 0, sizeof merge);
  d.heads = 1, d.head = 8, d.queries.lo = d.keys.lo = 8, d.lse = 1;
  CALL(tg_attention_desc, d, score_mod, (tg_attention_free(a), a = NULL, tg_attention_plan_sized(c, &d, size, &a)));
  CALL(tg_attention_desc, d, score_mod,
       (tg_built_free(built), tg_build_attention_sized(c, &name, &d, size, 1, &target, 1, &built)));
  tg_built_free(built);
  tg_attention_free(a);
  good("tg_attention_plan", tg_attention_plan(c, &d, &a));
  void *workspace = malloc(tg_attention_workspace(a, NULL) + 1);
  call.q = q, call.k = k, call.v = v, call.o = o, call.lse = lse;
  call.workspace = workspace, call.workspace_bytes = tg_attention_workspace(a, NULL);
  CALL(tg_attention_call, call, exec, tg_attention_run_sized(a, &call, size));
  merge.first = q, merge.second = k, merge.first_lse = merge.second_lse = v, merge.o = o, merge.lse = lse;
#ifdef TEST_NEWER
  CALL(tg_attention_merge_call, merge, lse, tg_attention_merge_sized(a, &merge, size));
#endif
  RESULT(tg_attention_info, tg_attention_describe_sized(a, out, size));
  tg_attention_free(a);
  free(workspace);
}

static void rows(void) {
  tg_nn_desc d;
  tg_nn_call call;
  tg_nn *n = NULL;
  memset(&d, 0, sizeof d), memset(&call, 0, sizeof call);
  d.op = TG_NN_ACTIVATION, d.rows.lo = d.columns.lo = 8;
  CALL(tg_nn_desc, d, threads, (tg_nn_free(n), n = NULL, tg_nn_plan_sized(c, &d, size, &n)));
  tg_nn_free(n);
  good("tg_nn_plan", tg_nn_plan(c, &d, &n));
  call.x = x, call.y = y;
  CALL(tg_nn_call, call, workspace, tg_nn_run_sized(n, &call, size));
  tg_program *program;
  good("tg_program_begin", tg_program_begin(c, NULL, &program));
  CALL(tg_nn_call, call, workspace, tg_nn_put_sized(program, n, &call, size));
  tg_program_free(program);
  RESULT(tg_nn_info, tg_nn_describe_sized(n, out, size));
  tg_nn_free(n);
}

int main(void) {
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  open_context();
  if (c) kernels(), products(), attention(), rows();
  tg_context_free(c);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
