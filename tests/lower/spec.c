/* SPDX-License-Identifier: MIT
 * Every violation of the spec that is planted here is reported, and nothing else is. */
#include "kit.h"

typedef struct { node X, Y, i; } parts;
static parts sized(tg_type type, node n) {
  parts p = {GLOBAL("X", TG_ROLE_IN, type, n), GLOBAL("Y", TG_ROLE_OUT, type, n), range_of("i", I(8), TG_LOOP)};
  p.i = tg_make(j, TG_OP_RANGE, n->type, 1, p.i->arg, 1, &n);
  return p;
}
static parts base(tg_type type) { return sized(type, I(8)); }
static parts late(tg_type type) { return sized(type, tg_const_int(j, TG_I64, 8)); }
static node whole(parts p, node statement) { return tg_sink(j, 3, (node[]){p.X, p.Y, tg_end(j, p.i, 1, &statement)}); }
static node raw2(tg_op op, tg_type t, uint32_t lanes, node a, node b) { return tg_make(j, op, t, lanes, 0, 2, (node[]){a, b}); }

static node good(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, add(LOAD(p.X, p.i), F(1)), lt(p.i, I(8)), p.i)));
}
static node operand_types(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, raw2(TG_OP_ADD, TG_F32, 1, LOAD(p.X, p.i), tg_const_float(j, TG_F64, 1)), NULL, p.i)));
}
static node result_type(void) {
  parts p = base(TG_F32);
  node c = raw2(TG_OP_LT, TG_F32, 1, LOAD(p.X, p.i), F(1));
  return tg_versioned(j, whole(p, STORE(p.Y, c, NULL, p.i)));
}
static node condition(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, tg_op3(j, TG_OP_WHERE, p.i, F(1), F(2)), NULL, p.i)));
}
static node lanes(void) {
  parts p = base(TG_F32);
  node v = raw2(TG_OP_ADD, TG_INDEX, 4, tg_iota(j, TG_INDEX, 4), tg_iota(j, TG_INDEX, 3));
  return tg_versioned(j, whole(p, STORE(p.Y, tg_cast(j, TG_F32, v), NULL, v)));
}
static node lanes_early(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, LOAD(p.X, tg_iota(j, TG_INDEX, 8)), NULL, tg_iota(j, TG_INDEX, 8))));
}
static node stored_type(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, tg_const_int(j, TG_I32, 1), NULL, p.i)));
}
static node gate_type(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, F(1), p.i, p.i)));
}
static node subscripts(void) {
  parts p = base(TG_F32);
  node s = tg_make(j, TG_OP_STORE, TG_VOID, 1, 0, 4, (node[]){p.Y, p.i, p.i, F(1)});
  return tg_versioned(j, whole(p, s));
}
static node outside(void) {
  parts p = base(TG_F32);
  node other = range_of("k", I(8), TG_LOOP);
  return tg_versioned(j, whole(p, STORE(p.Y, F(1), NULL, other)));
}
static node twice(void) {
  parts p = base(TG_F32);
  node s = STORE(p.Y, F(1), NULL, p.i), e = tg_end(j, p.i, 1, &s);
  return tg_versioned(j, tg_sink(j, 4, (node[]){p.X, p.Y, e, e}));
}
static node stale(void) {   /* reads what stood there before the first store */
  parts p = base(TG_F32);
  node first = STORE(p.Y, F(1), NULL, I(0)), second = STORE(p.Y, LOAD(p.Y, I(0)), NULL, I(1));
  return tg_sink(j, 4, (node[]){p.X, p.Y, first, second});
}
static node reduce_left(void) {
  parts p = base(TG_F32);
  node k = range_of("k", I(8), TG_REDUCE);
  return tg_versioned(j, whole(p, STORE(p.Y, sum(TG_OP_ADD, LOAD(p.X, k), 1, &k), NULL, p.i)));
}
static node upcast_left(void) {
  parts p = base(TG_F32);
  p.i = range_of("i", I(8), TG_UPCAST);
  return tg_versioned(j, whole(p, STORE(p.Y, F(1), NULL, p.i)));
}
static node inner_thread(void) {
  parts p = base(TG_F32);
  node t = range_of("t", I(2), TG_THREAD), g = range_of("g", I(2), TG_GLOBAL), s = STORE(p.Y, F(1), NULL, p.i), e = tg_end(j, t, 1, &s);
  return tg_versioned(j, whole(p, tg_end(j, g, 1, &e)));
}
static node function_left(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, tg_op1(j, TG_OP_EXP, LOAD(p.X, p.i)), NULL, p.i)));
}
static node no_place(void) {
  parts p = base(TG_F32);
  node r = buffer("r", TG_SPACE_REG, TG_ROLE_TEMP, TG_F32, 0, NULL);
  node body[3] = {r, tg_store(j, r, NULL, F(1), NULL, 0), STORE(p.Y, tg_load(j, r, NULL, NULL, NULL, 0), NULL, p.i)};
  return tg_versioned(j, tg_sink(j, 3, (node[]){p.X, p.Y, tg_end(j, p.i, 3, body)}));
}
static node division_left(void) {
  parts p = late(TG_I32);
  return tg_versioned(j, whole(p, STORE(p.Y, raw2(TG_OP_IDIV, TG_I32, 1, LOAD(p.X, p.i), LOAD(p.X, p.i)), NULL, p.i)));
}
static node no_statement(void) {
  parts p = late(TG_F32);
  return tg_versioned(j, whole(p, STORE(p.Y, LOAD(p.X, p.i), NULL, p.i)));
}
static node value_early(void) {
  parts p = base(TG_F32);
  return tg_versioned(j, tg_sink(j, 4, (node[]){p.X, p.Y, add(F(1), F(2)), STORE(p.Y, F(1), NULL, I(0))}));
}
/* Y[l] = shuffle of a register, or of Y itself, over a range of the kind. */
static node exchange(tg_kind kind, bool remote) {
  parts p = base(TG_F32);
  p.i = range_of("l", I(8), kind);
  node r = buffer("r", TG_SPACE_REG, TG_ROLE_TEMP, TG_F32, 0, NULL);
  node first = remote ? STORE(p.Y, F(1), NULL, p.i) : tg_store(j, r, NULL, F(1), NULL, 0);
  node value = remote ? LOAD(p.Y, p.i) : tg_load(j, r, NULL, NULL, NULL, 0);
  node body[3] = {r, first, STORE(p.Y, tg_shuffle(j, value, p.i, tg_op2(j, TG_OP_XOR, p.i, I(1))), NULL, p.i)};
  return tg_versioned(j, tg_sink(j, 3, (node[]){p.X, p.Y, tg_end(j, p.i, 3, body)}));
}
static node shuffled(void) { return exchange(TG_LANE, false); }
static node shuffle_loop(void) { return exchange(TG_LOOP, false); }
static node shuffle_memory(void) { return exchange(TG_LANE, true); }
static node barriers(bool read_before) {   /* a load behind the barrier at the version in front of it */
  parts p = base(TG_F32);
  node first = STORE(p.Y, F(1), NULL, I(0)), second = STORE(p.Y, LOAD(p.Y, I(0)), NULL, I(1)), b = tg_barrier_new(j);
  node sink = tg_versioned(j, tg_sink(j, 5, (node[]){p.X, p.Y, first, b, second}));
  if (!read_before) return sink;
  node old = tg_make(j, TG_OP_AFTER, TG_F32, 1, 0, 3, (node[]){p.Y, sink->src[2], p.Y}), now = sink->src[4]->src[0];
  return tg_sink(j, 5, (node[]){p.X, p.Y, sink->src[2], b, STORE(now, LOAD(old, I(0)), NULL, I(1))});
}
static node barrier_good(void) { return barriers(false); }
static node barrier_stale(void) { return barriers(true); }
static node copied(int64_t flags, tg_type type, bool input, bool wait) {   /* an asynchronous copy in linear form, and a wait */
  parts p = late(type);
  node L = buffer("L", TG_SPACE_LOCAL, TG_ROLE_TEMP, type, 1, (node[]){tg_const_int(j, TG_I64, 8)}), from = input ? p.X : p.Y;
  node t = tg_range_new(j, "t", tg_const_int(j, TG_I64, 8), TG_LANE, UINT32_MAX, (tg_pos){0});
  t = tg_make(j, TG_OP_RANGE, TG_I64, 1, t->arg, 1, (node[]){tg_const_int(j, TG_I64, 8)});
  node s = tg_store(j, L, &t, LOAD(from, t), NULL, flags);
  node body[3] = {tg_end(j, p.i, 1, &s), tg_wait_new(j, wait ? 0 : -1)}, init = STORE(p.Y, zero_of(p.Y), NULL, tg_const_int(j, TG_I64, 0));
  return tg_versioned(j, tg_sink(j, 5, (node[]){p.X, p.Y, L, init, tg_end(j, t, 2, body)}));
}
static node copy_good(void) { return copied(TG_ASYNC, TG_F32, true, true); }
static node copy_value(void) { return copied(0, TG_F32, true, true); }
static node copy_narrow(void) { return copied(TG_ASYNC, TG_F16, true, true); }
static node copy_output(void) { return copied(TG_ASYNC, TG_F32, false, true); }
static node copy_streamed(void) { return copied(TG_ASYNC | TG_STREAM, TG_F32, true, true); }
static node wait_none(void) { return copied(TG_ASYNC, TG_F32, true, false); }
static node multiply(const char *name, tg_type t) {
  node l = range_of("l", I(32), TG_LANE), size[1] = {I(128)};
  node a = buffer("a", TG_SPACE_GLOBAL, TG_ROLE_IN, t, 1, size), c = buffer("c", TG_SPACE_GLOBAL, TG_ROLE_INOUT, TG_F32, 1, size);
  node at = tg_op2(j, TG_OP_ADD, mul(l, I(4)), tg_iota(j, TG_INDEX, 4)), at8 = tg_op2(j, TG_OP_ADD, l, tg_iota(j, TG_INDEX, 8));
  node d = tg_matrix(j, name, LOAD(a, at8), LOAD(a, at), LOAD(c, at), l), s = STORE(c, d, NULL, at);
  return tg_versioned(j, tg_sink(j, 3, (node[]){a, c, tg_end(j, l, 1, &s)}));
}
static node barrier_twice(void) {
  node size[1] = {I(8)}, b = tg_barrier_new(j);
  node y = buffer("y", TG_SPACE_LOCAL, TG_ROLE_TEMP, TG_F32, 1, size), l = range_of("i", I(3), TG_LOOP);
  return tg_versioned(j, tg_sink(j, 3, (node[]){y, b, tg_end(j, l, 1, &b)}));
}
static node matrix(void) { return multiply("mma.m16n8k16.f16", TG_F16); }
static node matrix_type(void) { return multiply("mma.m16n8k16.f16", TG_BF16); }
static node matrix_lanes(void) { return multiply("mma.m16n8k8.f16", TG_F16); }
static node matrix_name(void) { return multiply("mma.m1n1k1", TG_F16); }

static const struct { const char *name, *stage; node (*build)(void); const char *want; } cases[] = {
  {"good", "schedule", good, NULL},
  {"operand types", "schedule", operand_types, "ADD: operands of types f32 and f64"},
  {"result type", "schedule", result_type, "LT: type f32, of operands of bool"},
  {"condition", "schedule", condition, "WHERE: the condition is index"},
  {"lanes", "expand", lanes, "ADD: operand 1 has 3 lanes, the result 4"},
  {"lanes too early", "raise", lanes_early, "IOTA: 8 lanes before pass schedule"},
  {"stored type", "schedule", stored_type, "STORE: i32 into f32"},
  {"gate type", "schedule", gate_type, "STORE: the gate is index"},
  {"subscripts", "schedule", subscripts, "STORE: 2 subscripts of Y, which has 1"},
  {"outside", "schedule", outside, "STORE: range k is used outside of its loop"},
  {"twice", "schedule", twice, "END: two loops over range i"},
  {"barrier twice", "schedule", barrier_twice, "BARRIER: stands in two places"},
  {"stale", "schedule", stale, "STORE: reads Y at a version that is not the current one"},
  {"reduce left", "reduce", reduce_left, "REDUCE: left after pass reduce"},
  {"upcast left", "expand", upcast_left, "END: a range of kind upcast after pass expand"},
  {"inner thread", "reduce", inner_thread, "END: a thread range inside a range of another kind than loop"},
  {"function left", "functions", function_left, "EXP: left after pass functions"},
  {"no place", "place", no_place, "DEFINE: r has no place"},
  {"index left", "index", good, "RANGE: of type index after pass index"},
  {"division left", "index", division_left, "IDIV: left after pass index"},
  {"no statement", "linear", no_statement, "which is no statement before it"},
  {"shuffle", "reduce", shuffled, NULL},
  {"shuffle over a loop", "reduce", shuffle_loop, "SHUFFLE: not over a lane range"},
  {"shuffle of memory", "reduce", shuffle_memory, "SHUFFLE: a value that depends on memory which lanes share"},
  {"barrier", "reduce", barrier_good, NULL},
  {"read across a barrier", "reduce", barrier_stale, "STORE: reads Y at a version that is not the current one"},
  {"copy", "linear", copy_good, NULL},
  {"copy of a value", "linear", copy_value, "which is no statement before it"},
  {"copy early", "reduce", copy_good, "STORE: asynchronous before pass distribute"},
  {"wait early", "reduce", copy_good, "WAIT: before pass distribute"},
  {"narrow copy", "index", copy_narrow, "STORE: an asynchronous copy of 2 bytes"},
  {"copy of an output", "index", copy_output, "STORE: asynchronous, and what is stored is no element of an input"},
  {"copy past the caches", "index", copy_streamed, "STORE: asynchronous, and not a copy to LOCAL memory"},
  {"wait for nothing", "index", wait_none, "WAIT: -1 groups in flight"},
  {"matrix", "reduce", matrix, NULL},
  {"matrix of another type", "reduce", matrix_type, "MATRIX: a is bf16[8], where mma.m16n8k16.f16 has f16[8]"},
  {"matrix of other lanes", "reduce", matrix_lanes, "MATRIX: a is f16[8], where mma.m16n8k8.f16 has f16[4]"},
  {"matrix without a row", "reduce", matrix_name, "MATRIX: no row of the table is named mma.m1n1k1"},
  {"value early", "schedule", value_early, "ADD: is no statement"},
};

/* ---- order: forms as text ---- */

#define TWO "in(X, f32, [64]); inout(Y, f32, [64]);"
static const struct { const char *name, *text, *want; } forms[] = {
  {"tasks that meet", "stage reduce; inout(a, f32, [33, 33]); range(j, 32, thread) range(i, 32) a[i + 1, j + 1] = a[i, j];", "nothing orders the iterations of the thread range j"},
  {"tasks that do not", "stage reduce; inout(a, f32, [33, 33]); range(j, 32, thread) range(i, 32) a[i + 1, j] = a[i, j];", NULL},
  {"tasks under a loop", "stage reduce; inout(a, f32, [33, 33]); range(i, 32) range(j, 32, thread) a[i + 1, j + 1] = a[i, j];", NULL},
  {"tasks far apart", "stage place; inout(a, f32, [200000]); range(t, 100000, thread) a[t + 70001] = a[t];", "a[70001]"},
  {"tasks farther apart", "stage place; inout(a, f32, [200000]); range(t, 100000, thread) a[t + 100000] = a[t];", NULL},
  {"tasks that add", "stage place; inout(a, f32, [8]); range(t, 100, thread) atomic a[t % 8] += 1.0f;", NULL},
  {"a gate between", "stage expand; " TWO " range(t, 64, thread) Y[t / 2] = X[t] if t % 2 == 0;", NULL},
  {"a gate that is open", "stage expand; " TWO " range(t, 64, thread) Y[t / 2] = X[t] if t % 3 < 2;", "nothing orders the iterations of the thread range t"},
  {"sizes", "stage place; inout(a, f32, [N, N]); range(t, N - 1, thread) range(i, N) a[t + 1, i] = a[t, i];", "when N = 33"},
  {"elements from memory", "stage place; in(at, i32, [64]); inout(a, f32, [64]); range(t, 64, thread) a[min(max(index(at[t]), 0), 63)] = 1.0f;", NULL},
  {"memory of a task", "stage expand; " TWO " range(t, 64, thread) { define_local(L, f32, [8]); range(i, 8) L[i] = X[t]; Y[t] = L[3]; }", NULL},
  {"memory of all tasks", "stage expand; " TWO " define_local(L, f32, [8]); range(t, 64, thread) { range(i, 8) L[i] = X[t]; Y[t] = L[3]; }", "nothing orders the iterations of the thread range t"},
  {"phases", "stage reduce; " TWO " define_local(L, f32, [64]); range(t, 64, thread) L[t] = X[t]; range(u, 64, thread) Y[u] = L[63 - u];", NULL},
  {"phases made one", "stage reduce; " TWO " define_local(L, f32, [64]); range(t, 64, thread) { L[t] = X[t]; Y[t] = L[63 - t]; }", "nothing orders the iterations of the thread range t"},
  {"phases of a loop made one", "stage place; " TWO " range(t, 8, thread) range(k, 4) Y[t * 8 + k + 1] = Y[(t * 8 + k + 9) % 64];", "nothing orders the iterations of the thread range t"},
  {"vectors of tasks", "stage expand; " TWO " range(t, 8, thread) Y[t * 8 + iota(8)] = X[t * 8 + iota(8)];", NULL},
  {"vectors of tasks that meet", "stage expand; " TWO " range(t, 8, thread) Y[t * 7 + iota(8)] = X[t * 8 + iota(8)];", "nothing orders the iterations of the thread range t"},
  {"lanes of a store", "stage expand; " TWO " range(t, 8, thread) Y[t * 8 + iota(8) / 2] = X[t * 8 + iota(8)];", "lanes 0 and 1 of one store"},
  {"one statement", "stage schedule; inout(a, f32, [64]); range(i, 63, upcast) a[i + 1] = a[i];", "one statement of iterations of the upcast range i"},
  {"lockstep as written", "stage schedule; " TWO " define_local(L, f32, [64]); range(i, 64, lane) { L[i] = X[i]; Y[i] = L[63 - i]; }", NULL},
  {"barrier of lanes", "stage expand; " TWO " define_local(L, f32, [64]); range(l, 32, lane) { L[l] = X[l]; barrier(); Y[l] = L[31 - l]; }", NULL},
  {"no barrier of lanes", "stage expand; " TWO " define_local(L, f32, [64]); range(l, 32, lane) { L[l] = X[l]; Y[l] = L[31 - l]; }", "no barrier stands between iterations of the lane range l"},
  {"own elements of lanes", "stage expand; " TWO " define_local(L, f32, [64]); range(l, 32, lane) { L[l] = X[l]; Y[l] = L[l]; }", NULL},
  {"barriers of a loop", "stage expand; " TWO " define_local(L, f32, [64]); range(l, 32, lane) range(k, 4) { L[l] = X[l + k]; barrier(); Y[l] = L[31 - l]; barrier(); }", NULL},
  {"one barrier of a loop", "stage expand; " TWO " define_local(L, f32, [64]); range(l, 32, lane) range(k, 4) { L[l] = X[l + k]; barrier(); Y[l] = L[31 - l]; }", "no barrier stands between iterations of the lane range l"},
  {"the next half of a ring", "stage expand; " TWO " define_local(L, f32, [2, 32]); range(l, 32, lane) range(k, 4) { L[k % 2, l] = X[l + k]; barrier(); Y[l] = L[k % 2, 31 - l]; }", NULL},
};

static void verify_form(void *arg) {
  size_t c = *(size_t *)arg;
  const char *text = tg_format(&j->env, "kernel form(N in 1..1000) { %s }", forms[c].text);
  tg_parse_kernel(j, "form", text, 0, NULL);
  tg_verify(j, j->sink, j->stage, NULL);
}

/* ---- order: programs that words break, or do not, at every stage behind the words ---- */

#define S119 "kernel s119(N = 33) { inout(a, f32, [N, N]); in(b, f32, [N, N]); range(i, N - 1) range(j, N - 1) a[i + 1, j + 1] = a[i, j] + b[i + 1, j + 1]; }"
#define STATED "kernel stated() { inout(a, f32, [64]); inout(c, f32, [64]); range(i, 60) { c[i] = a[i + 1] * 2.0f; a[i] = c[i] + 1.0f; } }"
#define FRESH "kernel fresh() { inout(a, f32, [64]); inout(c, f32, [64]); range(i, 60) { a[i] = c[i]; c[i + 1] = a[i] + 1.0f; } }"
#define SIZED "kernel sized(M in 1..1000, N in 1..1000, lda in 1..100000) { require(lda >= N); inout(a, f32, [M, N], [lda, 1]); in(b, f32, [M, N]); range(i, M) range(j, N) a[i, j] = a[i, j] + b[i, j]; }"
#define CARRIED "kernel carried(M in 2..1000, N in 1..1000) { inout(a, f32, [M, N]); range(i, M - 1) range(j, N) a[i + 1, j] = a[i, j] * 2.0f; }"
static const struct { const char *name, *text, *words, *until, *want; } programs[] = {
  {"s119, tasks", S119, "thread j", "linear", "nothing orders the iterations of the thread range j"},
  {"s119, lockstep outside", S119, "split i 4 as z y\nupcast z", "fma", "of the upcast range z, in lockstep, come in another order than the author's"},
  {"s119, lockstep", S119, "upcast j", "linear", NULL},
  {"s119, lanes inside", S119, "split j 8 as jo jl\nlane jl", "linear", NULL},
  {"statements in lockstep", STATED, "split i 4 as io ii\nupcast ii", "linear", NULL},
  {"statements that lockstep turns", FRESH, "split i 4 as io ii\nupcast ii", "fma", "of the upcast range ii, in lockstep, come in another order than the author's"},
  {"tasks that carry", CARRIED, "thread i", "linear", "nothing orders the iterations of the thread range i"},
  {"columns as tasks", CARRIED, "thread j", "linear", NULL},
  {"rows as tasks", SIZED, "thread i\nsplit j 8 as jo jl\nlane jl", "linear", NULL},
};

typedef struct { size_t c; const char *stage; } lowered;

static void lower_and_verify(void *arg) {
  const lowered *x = arg;
  tg_target target;
  if (!tg_target_named(&target, "x86-64-v3")) tg_fail(&j->env, TG_EINVAL, "no target");
  tg_parse_kernel(j, "program", programs[x->c].text, 0, NULL);
  for (const char *at = programs[x->c].words; *at;) {
    size_t n = strcspn(at, "\n");
    tg_push(&j->env, &j->opts, ((tg_opt_text){tg_strndup(&j->env, at, n), {.file = "words", .line = 1, .text = at}}));
    at += n + (at[n] == '\n');
  }
  tg_lowering l = {.target = &target, .rules = tg_rules_compile(&j->env), .unjudged = true};
  tg_authored *author = tg_authored_of(j, tg_lower(j, &l, "raise", NULL, NULL), "raise");
  tg_authored_scheduled(j, author, tg_lower(j, &l, "schedule", NULL, NULL), false);
  if (strcmp(x->stage, "schedule")) tg_lower(j, &l, x->stage, NULL, NULL);
  tg_verify(j, j->sink, j->stage, author);
}

static void check_program(size_t c) {
  int first = tg_stage_index("schedule"), last = tg_stage_index(programs[c].until);
  for (int i = first; i <= last; i++) {
    lowered x = {c, tg_passes[i - 1].name};
    tg_job_init(j, NULL);
    bool ok = tg_protect(&j->env, lower_and_verify, &x);
    if (!programs[c].want) CHECK(ok, "%s after %s: %s", programs[c].name, x.stage, j->env.message);
    else CHECK(!ok && strstr(j->env.message, programs[c].want) && strstr(j->env.message, "in\n"), "%s after %s: %s", programs[c].name, x.stage, ok ? "not reported" : j->env.message);
    tg_job_drop(j);
  }
}

static void plant(void *arg) {
  size_t c = *(size_t *)arg;
  tg_verify(j, cases[c].build(), cases[c].stage, NULL);
}

int main(void) {
  for (int i = 0; tg_passes[i].name; i++) CHECK(tg_stage_index(tg_passes[i].name) == i + 1, "%s", tg_passes[i].name);
  for (size_t c = 0; c < TG_COUNT(cases); c++) {
    tg_job_init(j, NULL);
    bool ok = tg_protect(&j->env, plant, &c);
    if (!cases[c].want) CHECK(ok, "%s: %s", cases[c].name, j->env.message);
    else CHECK(!ok && strstr(j->env.message, cases[c].want) && strstr(j->env.message, "in\n"), "%s: %s", cases[c].name, ok ? "not reported" : j->env.message);
    tg_job_drop(j);
  }
  for (size_t c = 0; c < TG_COUNT(forms); c++) {
    tg_job_init(j, NULL);
    bool ok = tg_protect(&j->env, verify_form, &c);
    if (!forms[c].want) CHECK(ok, "%s: %s", forms[c].name, j->env.message);
    else CHECK(!ok && strstr(j->env.message, forms[c].want) && strstr(j->env.message, "in\n"), "%s: %s", forms[c].name, ok ? "not reported" : j->env.message);
    tg_job_drop(j);
  }
  for (size_t c = 0; c < TG_COUNT(programs); c++) check_program(c);
  return TEST_END();
}
