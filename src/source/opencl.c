/* SPDX-License-Identifier: MIT
 * Emits a linear program as OpenCL C.
 *
 * Every value is a variable of its function, a vector one variable per lane; register tiles are arrays, which the
 * device's compiler splits. Whatever OpenCL C leaves undefined is written out: integers are added as unsigned;
 * quotients, shifts, extrema and conversions are functions of the prelude; float constants are given by their bits;
 * a multiply and an add are never fused. f16, bf16 and the 8-bit floats are represented by their bits. A value computed
 * between phases is recomputed in each phase that needs it if it depends only on parameters and inputs; other such
 * values, and all buffers defined there, are in the shared memory. */
#include <stdio.h>
#include "dsl/value.h"
#include "source/source.h"

enum { NONE = -1, MOST_PRIVATE = 4096 };

/* slot: offset in the shared memory for a value that other phases may need */
typedef struct { const tg_uop *u; int phase, loop; uint64_t slot; } item;
typedef struct { const tg_uop *end; int outer, depth; } phase_loop;
typedef struct { const tg_uop *thread; int loop; } phase;

typedef struct {
  tg_job *j;
  const tg_target *t;
  TG_VEC(item) items;
  TG_VEC(phase) phases;
  TG_VEC(phase_loop) loops;
  TG_VEC(int64_t) steps;
  uint8_t *pure;               /* by node: depends on parameters, inputs and counters alone */
  /* equal to stamp if the function being emitted needs the node (seen), has declared it, has defined the buffer */
  uint32_t *seen, *declared, *made, stamp;
  uint64_t *shared;            /* by buffer: 1 + its offset in the shared memory */
  uint64_t shared_at, private_at, private_top;
  tg_str text, head, body;     /* finished functions; declarations and statements of the present one */
  bool f64, wide_atomics;
} source;

static const char *const type_name[TG_TYPE__COUNT] = {
    [TG_BOOL] = "uchar",  [TG_I8] = "char",    [TG_I16] = "short",  [TG_I32] = "int",    [TG_I64] = "long",
    [TG_U8] = "uchar",    [TG_U16] = "ushort", [TG_U32] = "uint",   [TG_U64] = "ulong",  [TG_F16] = "ushort",
    [TG_BF16] = "ushort", [TG_F32] = "float",  [TG_F64] = "double", [TG_E4M3] = "uchar", [TG_E5M2] = "uchar"};

static const char prelude[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    /* A work-item's tasks. On GPUs neighbours in a workgroup take neighbours in memory; where each runs alone, on a
     * core of a CPU, it takes tasks one behind another, which reads memory in order and can be vectorized. */
    "#ifdef TG_ALONE\n"
    "#define TASKS(N) for (long all = (N), each = (all + (long)get_global_size(0) - 1) / (long)get_global_size(0), t = "
    "(long)get_global_id(0) * each, end = all - t < each ? all : t + each; t < end; t++)\n"
    "#else\n"
    "#define TASKS(N) for (long t = get_global_id(0); t < (N); t += get_global_size(0))\n"
    "#endif\n"
    "#define INTEGER(T, U, S) \\\n"
    "static T max_##T(T a, T b) { return a > b ? a : b; } static T min_##T(T a, T b) { return a < b ? a : b; } \\\n"
    "static T cdiv_##T(T a, T b) { return b == 0 ? 0 : S && b == (T)-1 ? (T)(0 - (U)a) : (T)(a / b); } \\\n"
    "static T cmod_##T(T a, T b) { return b == 0 || (S && b == (T)-1) ? 0 : (T)(a % b); } \\\n"
    "static T idiv_##T(T a, T b) { T r = cmod_##T(a, b); return (T)((U)cdiv_##T(a, b) - (U)(r != 0 && (r < 0) != (b < "
    "0))); } \\\n"
    "static T mod_##T(T a, T b) { T r = cmod_##T(a, b); return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r; } \\\n"
    "static T shl_##T(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((U)a << (U)b); } \\\n"
    "static T shr_##T(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b); } \\\n"
    "static T abs_##T(T a) { return a < 0 ? (T)(0 - (U)a) : a; }\n"
    "INTEGER(char, uint, 1) INTEGER(short, uint, 1) INTEGER(int, uint, 1) INTEGER(long, ulong, 1) INTEGER(uchar, uint, "
    "0) INTEGER(ushort, uint, 0) INTEGER(uint, uint, 0) INTEGER(ulong, ulong, 0)\n"
    "#define FLOAT(T, I) \\\n"
    "static T max_##T(T a, T b) { return a != a || b != b ? (T)NAN : a > b || (a == b && as_##I(a) >= 0) ? a : b; } "
    "\\\n"
    "static T min_##T(T a, T b) { return a != a || b != b ? (T)NAN : a < b || (a == b && as_##I(a) < 0) ? a : b; }\n"
    "#define SATURATE(F, T, LO, HI, END) static T T##_of_##F(F x) { return x != x ? (T)0 : x <= (F)LO ? LO : x >= "
    "(F)END ? HI : (T)x; }\n"
    "#define SATURATES(F) SATURATE(F, char, CHAR_MIN, CHAR_MAX, 128) SATURATE(F, short, SHRT_MIN, SHRT_MAX, 32768) "
    "SATURATE(F, int, INT_MIN, INT_MAX, 2147483648u) \\\n"
    "SATURATE(F, long, LONG_MIN, LONG_MAX, 9223372036854775808ul) SATURATE(F, uchar, 0, UCHAR_MAX, 256) SATURATE(F, "
    "ushort, 0, USHRT_MAX, 65536) SATURATE(F, uint, 0u, UINT_MAX, 4294967296ul) \\\n"
    "SATURATE(F, ulong, 0ul, ULONG_MAX, 18446744073709551616.0f)\n"
    "#define ATOMIC(T, I, CAS) static void add_##T(volatile __global T *p, T v) { I was, now; do { was = *(volatile "
    "__global I *)p; now = as_##I((T)(as_##T(was) + v)); } while (CAS((volatile __global I *)p, was, now) != was); }\n"
    "FLOAT(float, int) SATURATES(float) ATOMIC(float, int, atomic_cmpxchg)\n"
    "static float float_of_bf16(ushort x) { return as_float((uint)x << 16); }\n"
    "static ushort bf16_of_float(float x) { uint i = as_uint(x); return x != x ? (ushort)((i | 0x400000u) >> 16) : "
    "(ushort)((i + 0x7fffu + (i >> 16 & 1)) >> 16); }\n";

static const char prelude_f64[] =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "FLOAT(double, long) SATURATES(double)\n"
    "static float odd_float(double x) { float y = (float)x; uint i = as_uint(y); return (double)y == x || x != x || (i "
    "& 1) ? y : as_float(fabs((double)y) < fabs(x) ? i + 1 : i - 1); }\n"
    "static double odd_double(double y, ulong size, ulong back) { ulong i = as_ulong(y); return size == back || (i & "
    "1) ? y : as_double(back < size ? i + 1 : i - 1); }\n"
    "static ushort bf16_of_double(double x) { return bf16_of_float(odd_float(x)); }\n"
    "static ushort bf16_of_ulong(ulong x) { double y = (double)x; return bf16_of_double(odd_double(y, x, y >= "
    "18446744073709551616.0 ? ULONG_MAX : (ulong)y)); }\n"
    "static ushort bf16_of_long(long x) { ushort b = bf16_of_ulong(x < 0 ? 0ul - (ulong)x : (ulong)x); return x < 0 ? "
    "(ushort)(b | 0x8000) : b; }\n";

static const char prelude_atomics[] = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n";

/* ---- names ---- */

static const char *type_of(source *s, tg_type t) {
  if (t == TG_F64 && !s->f64) {
    if (!strstr(s->t->features, "fp64"))
      tg_fail(&s->j->env, TG_EINVAL, "error: %s computes in f64: this target has no f64", s->j->name);
    s->f64 = true;
  }
  return type_name[t];
}

static const char *literal(source *s, tg_type t, uint64_t bits) {
  const char *name = type_of(s, t);
  if (t == TG_F32) return tg_format(&s->j->env, "as_float(0x%llxu)", (unsigned long long)bits);
  if (t == TG_F64) return tg_format(&s->j->env, "as_double(0x%llxul)", (unsigned long long)bits);
  return tg_format(&s->j->env, tg_type_bits(t) == 64 ? "(%s)0x%llxul" : "(%s)0x%llxu", name, (unsigned long long)bits);
}

/* Lane l of a value; a scalar is the same in all lanes. */
static const char *lane_of(source *s, const tg_uop *u, uint32_t l) {
  if (u->op == TG_OP_CONST) return literal(s, u->type, tg_value_bits(u->type, tg_value_of(u)));
  if (u->op == TG_OP_PARAM) return tg_format(&s->j->env, "(%s)p%lld", type_of(s, u->type), (long long)u->arg);
  if (u->op == TG_OP_IOTA) return literal(s, u->type, u->lanes == 1 ? 0 : l);
  if (u->op == TG_OP_RANGE) return tg_format(&s->j->env, "i%u", u->id);
  return tg_format(&s->j->env, u->lanes > 1 ? "v%u_%u" : "v%u", u->id, l);
}

static void declare(source *s, const tg_uop *u) {
  if (s->declared[u->id] == s->stamp) return;
  s->declared[u->id] = s->stamp;
  for (uint32_t l = 0; l < u->lanes; l++)
    tg_str_printf(&s->head, "%s%s", l ? ", " : type_of(s, u->type), tg_format(&s->j->env, " %s", lane_of(s, u, l)));
  tg_str_printf(&s->head, ";\n");
}

/* ---- operations, of one lane ---- */

TG_NORETURN static void refuse(source *s, const tg_uop *u) {
  tg_fail(&s->j->env, TG_EINVAL, "error: %s has %s of %s: this target has no such operation", s->j->name,
          tg_ops[u->op].name, tg_type_name[u->n ? u->src[0]->type : u->type]);
}

static const char *binary(source *s, const tg_uop *u, tg_op op, tg_type t, const char *a, const char *b) {
  static const char *const sign[TG_OP__COUNT] = {
      [TG_OP_ADD] = "+", [TG_OP_SUB] = "-", [TG_OP_MUL] = "*", [TG_OP_FDIV] = "/", [TG_OP_AND] = "&", [TG_OP_OR] = "|",
      [TG_OP_XOR] = "^", [TG_OP_LT] = "<",  [TG_OP_LE] = "<=", [TG_OP_EQ] = "==",  [TG_OP_NE] = "!="};
  static const char *const function[TG_OP__COUNT] = {
      [TG_OP_IDIV] = "idiv", [TG_OP_MOD] = "mod", [TG_OP_CDIV] = "cdiv", [TG_OP_CMOD] = "cmod",
      [TG_OP_MAX] = "max",   [TG_OP_MIN] = "min", [TG_OP_SHL] = "shl",   [TG_OP_SHR] = "shr"};
  const char *name = type_of(s, t);
  bool real = t == TG_F32 || t == TG_F64;
  if (tg_is_float(t) && !real) refuse(s, u);
  if (function[op]) return tg_format(&s->j->env, "%s_%s(%s, %s)", function[op], name, a, b);
  if (!sign[op]) refuse(s, u);
  if (real || tg_ops[op].flags & TG_OPF_B || op == TG_OP_AND || op == TG_OP_OR || op == TG_OP_XOR)
    return tg_format(&s->j->env, "(%s %s %s)", a, sign[op], b);
  const char *wide = tg_type_bits(t) == 64 ? "ulong" : "uint";
  return tg_format(&s->j->env, "(%s)(((%s)%s %s (%s)%s)%s)", name, wide, a, sign[op], wide, b,
                   t == TG_BOOL ? " & 1" : "");
}

static const char *unary(source *s, const tg_uop *u, tg_type t, const char *a) {
  static const char *const function[TG_OP__COUNT] = {
      [TG_OP_FLOOR] = "floor", [TG_OP_CEIL] = "ceil", [TG_OP_ROUND] = "rint",
      [TG_OP_TRUNC] = "trunc", [TG_OP_SQRT] = "sqrt", [TG_OP_ABS] = "fabs"};
  const char *name = type_of(s, t);
  if (t == TG_F32 || t == TG_F64) {
    if (u->op == TG_OP_NEG) return tg_format(&s->j->env, "-%s", a);
    if (function[u->op]) return tg_format(&s->j->env, "%s(%s)", function[u->op], a);
  } else if (!tg_is_float(t)) {
    if (u->op == TG_OP_NEG)
      return tg_format(&s->j->env, "(%s)((0 - (%s)%s)%s)", name, tg_type_bits(t) == 64 ? "ulong" : "uint", a,
                       t == TG_BOOL ? " & 1" : "");
    if (u->op == TG_OP_NOT) return tg_format(&s->j->env, t == TG_BOOL ? "(%s)(%s ^ 1)" : "(%s)~%s", name, a);
    if (u->op == TG_OP_ABS) return tg_is_signed(t) ? tg_format(&s->j->env, "abs_%s(%s)", name, a) : a;
    if (function[u->op] && u->op != TG_OP_SQRT) return a;
  }
  refuse(s, u);
}

static const char *cast(source *s, const tg_uop *u, const char *a) {
  tg_type to = u->type, from = u->src[0]->type;
  const char *name = type_of(s, to), *was = type_of(s, from);
  if (to == from) return a;
  if (to == TG_F16 || from == TG_F16 || to == TG_E4M3 || from == TG_E4M3 || to == TG_E5M2 || from == TG_E5M2)
    refuse(s, u);
  if (from == TG_BF16) a = tg_format(&s->j->env, "float_of_bf16(%s)", a), from = TG_F32, was = "float";
  if (to == TG_BF16) {
    if (from == TG_F32) return tg_format(&s->j->env, "bf16_of_float(%s)", a);
    type_of(s, TG_F64);
    return tg_format(&s->j->env, "bf16_of_%s(%s)",
                     from == TG_F64       ? "double"
                     : tg_is_signed(from) ? "long"
                                          : "ulong",
                     a);
  }
  if (to == TG_BOOL) return tg_format(&s->j->env, "(uchar)(%s != 0)", a);
  if (tg_is_float(from) && !tg_is_float(to)) return tg_format(&s->j->env, "%s_of_%s(%s)", name, was, a);
  return tg_format(&s->j->env, "(%s)%s", name, a);
}

static const char *ternary(source *s, const tg_uop *u, uint32_t l) {
  const char *a = lane_of(s, u->src[0], l), *b = lane_of(s, u->src[1], l), *c = lane_of(s, u->src[2], l);
  if (u->op == TG_OP_WHERE) return tg_format(&s->j->env, "%s ? %s : %s", a, b, c);
  if (u->op != TG_OP_FMA) refuse(s, u);
  if (u->type == TG_F32 || u->type == TG_F64) return tg_format(&s->j->env, "fma(%s, %s, %s)", a, b, c);
  return binary(s, u, TG_OP_ADD, u->type, binary(s, u, TG_OP_MUL, u->type, a, b), c);
}

static const char *alu(source *s, const tg_uop *u, uint32_t l) {
  if (u->op == TG_OP_MATRIX || u->op == TG_OP_REDUCE || u->op == TG_OP_GET || !u->n) refuse(s, u);
  const char *a = lane_of(s, u->src[0], l);
  if (u->op == TG_OP_CAST) return cast(s, u, a);
  if (u->op == TG_OP_BITCAST) return tg_format(&s->j->env, "as_%s(%s)", type_of(s, u->type), a);
  if (tg_ops[u->op].arity == 1) return unary(s, u, u->type, a);
  if (tg_ops[u->op].arity == 2) return binary(s, u, u->op, u->src[0]->type, a, lane_of(s, u->src[1], l));
  return ternary(s, u, l);
}

/* Combines v[i] and v[i + half] until one is left, as src/interp does. */
static const char *fold(source *s, const tg_uop *u) {
  const tg_uop *v = u->src[0];
  const char **x = tg_new(&s->j->env, const char *, v->lanes);
  for (uint32_t i = 0; i < v->lanes; i++) x[i] = lane_of(s, v, i);
  for (uint32_t n = v->lanes, half; n > 1; n = half) {
    half = (n + 1) / 2;
    for (uint32_t i = 0; i + half < n; i++) x[i] = binary(s, u, u->arg, v->type, x[i], x[i + half]);
  }
  return x[0];
}

/* ---- memory ---- */

/* The element that lane l accesses. */
static const char *element(source *s, const tg_uop *u, uint32_t l) {
  const tg_uop *define = tg_define_of(u->src[0]);
  const char *at = lane_of(s, u->src[1], define->lanes > 1 ? 0 : l);
  if (tg_access_rank(u) != 1) tg_bug(&s->j->env, "linear form: an access of %u subscripts", tg_access_rank(u));
  return define->lanes > 1 ? tg_format(&s->j->env, "b%u[%s * %u + %u]", (uint32_t)define->arg, at, define->lanes, l)
                           : tg_format(&s->j->env, "b%u[%s]", (uint32_t)define->arg, at);
}

static void put_load(source *s, const tg_uop *u, uint32_t l) {
  const tg_uop *gate = tg_gate(u);
  const char *b = tg_define_of(u->src[0])->type == TG_BOOL ? " & 1" : "", *from = element(s, u, l);
  if (gate)
    tg_str_printf(&s->body, "%s = %s ? %s%s : %s;\n", lane_of(s, u, l), lane_of(s, gate, l), from, b,
                  lane_of(s, tg_alternative(u), l));
  else tg_str_printf(&s->body, "%s = %s%s;\n", lane_of(s, u, l), from, b);
}

static void put_store(source *s, const tg_uop *u) {
  const tg_uop *define = tg_define_of(u->src[0]), *gate = tg_gate(u), *value = tg_stored(u);
  const tg_buffer *info = tg_buffer_info(s->j, u->src[0]);
  tg_type t = define->type;
  bool alone = info->role == TG_ROLE_TEMP && !s->shared[(uint32_t)define->arg];   /* no other thread has it */
  uint32_t lanes = define->lanes;
  for (uint32_t i = 1; i < u->n; i++) lanes = u->src[i]->lanes > lanes ? u->src[i]->lanes : lanes;
  for (uint32_t l = 0; l < lanes; l++) {
    const char *to = element(s, u, l), *v = lane_of(s, value, l);
    if (gate) tg_str_printf(&s->body, "if (%s) ", lane_of(s, gate, l));
    if (!(u->arg & TG_ATOMIC)) tg_str_printf(&s->body, "%s = %s;\n", to, v);
    else if (alone) tg_str_printf(&s->body, "%s = %s;\n", to, binary(s, u, TG_OP_ADD, t, to, v));
    else if (t == TG_I32 || t == TG_U32) tg_str_printf(&s->body, "atomic_add(&%s, %s);\n", to, v);
    else if (t == TG_F32) tg_str_printf(&s->body, "add_float(&%s, %s);\n", to, v);
    else if (tg_type_bytes(t) == 8 && strstr(s->t->features, "int64_atomics")) {
      s->wide_atomics = true;
      tg_str_printf(&s->body, t == TG_F64 ? "add_double(&%s, %s);\n" : "atom_add(&%s, %s);\n", to, v);
    } else tg_fail_at(s->j, tg_get_pos(s->j, u), "this target has no atomic add to %s", tg_type_name[t]);
  }
}

static uint64_t round64(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

static uint64_t elements_of(source *s, const tg_uop *define) {
  const tg_buffer *info = &s->j->buffers.data[(uint32_t)define->arg];
  uint64_t n = define->lanes;
  for (uint32_t i = 0; i < info->rank; i++) {
    if (define->src[i]->op != TG_OP_CONST)
      tg_fail_at(s->j, info->pos, "the size of '%s' must be known when the kernel is compiled", info->name);
    n *= define->src[i]->arg > 0 ? (uint64_t)define->src[i]->arg : 0;
    if (n > (uint64_t)1 << 40) tg_fail_at(s->j, info->pos, "'%s' is too large", info->name);
  }
  return n ? n : 1;
}

static void put_define(source *s, const tg_uop *u) {
  uint32_t b = (uint32_t)u->arg;
  uint64_t n = elements_of(s, u), bytes = n * (uint64_t)tg_type_bytes(u->type);
  const char *type = type_of(s, u->type);
  if (s->made[b] == s->stamp || s->shared[b]) return;
  s->made[b] = s->stamp;
  if (bytes <= MOST_PRIVATE) {
    tg_str_printf(&s->head, "%s b%u[%llu];\n", type, b, (unsigned long long)n);
    return;
  }
  tg_str_printf(&s->head, "__global %s *b%u = (__global %s *)(workspace + get_global_id(0) * WORKSPACE + %lluul);\n",
                type, b, type, (unsigned long long)s->private_at);
  s->private_at += round64(bytes);
  if (s->private_at > s->private_top) s->private_top = s->private_at;
}

/* ---- statements ---- */

static bool is_effect(const tg_uop *u) { return u->op == TG_OP_STORE || u->op == TG_OP_END; }
static bool is_leaf(const tg_uop *u) { return u->op == TG_OP_CONST || u->op == TG_OP_PARAM || u->op == TG_OP_IOTA; }
static bool is_value(const tg_uop *u) {
  return u->type != TG_VOID && !is_leaf(u) && u->op != TG_OP_DEFINE && u->op != TG_OP_AFTER && u->op != TG_OP_RANGE;
}

static void put_value(source *s, const tg_uop *u) {
  declare(s, u);
  if (u->op == TG_OP_SHUFFLE) {   /* the index is taken modulo the number of lanes */
    if (u->src[1]->op != TG_OP_CONST) refuse(s, u);
    uint32_t n = (uint32_t)u->src[1]->arg;
    tg_str_printf(&s->body, "{ %s from[] = {", type_of(s, u->type));
    for (uint32_t l = 0; l < n; l++) tg_str_printf(&s->body, "%s, ", lane_of(s, u->src[0], l));
    tg_str_printf(&s->body, "};\n");
    for (uint32_t l = 0; l < u->lanes; l++)
      tg_str_printf(&s->body, "%s = from[mod_long(%s, %u)];\n", lane_of(s, u, l), lane_of(s, u->src[2], l), n);
    tg_str_printf(&s->body, "}\n");
    return;
  }
  if (u->op == TG_OP_FOLD) tg_str_printf(&s->body, "%s = %s;\n", lane_of(s, u, 0), fold(s, u));
  for (uint32_t l = 0; l < u->lanes && u->op != TG_OP_FOLD; l++)
    if (u->op == TG_OP_LOAD) put_load(s, u, l);
    else tg_str_printf(&s->body, "%s = %s;\n", lane_of(s, u, l), alu(s, u, l));
}

static void put_list(source *s, const tg_uop *const *list, uint32_t n);

static void put_statement(source *s, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE) put_define(s, u);
  else if (u->op == TG_OP_STORE) put_store(s, u);
  else if (is_value(u)) put_value(s, u);
  else if (u->op == TG_OP_END) {
    const tg_uop *r = u->src[0];
    tg_str_printf(&s->body, "for (%s i%u = 0; i%u < %s; i%u++) {\n", type_of(s, r->type), r->id, r->id,
                  lane_of(s, tg_extent(r), 0), r->id);
    put_list(s, u->src + 1, u->n - 1);
    tg_str_printf(&s->body, "}\n");
  }
}

static void put_list(source *s, const tg_uop *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) put_statement(s, list[i]);
}

/* ---- phases ---- */

static bool is_phase(const tg_uop *u) { return u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_THREAD; }

static bool has_phases(const tg_uop *u) {
  if (u->op != TG_OP_END || is_phase(u)) return false;
  for (uint32_t i = 1; i < u->n; i++)
    if (is_phase(u->src[i]) || has_phases(u->src[i])) return true;
  return false;
}

static bool purity(const source *s, const tg_uop *u) {
  bool load = u->op == TG_OP_LOAD;
  if (load && tg_buffer_info(s->j, u->src[0])->role != TG_ROLE_IN) return false;
  for (uint32_t i = load; i < u->n; i++)
    if (!is_leaf(u->src[i]) && !s->pure[u->src[i]->id]) return false;
  return true;
}

static void find_phases(source *s, const tg_uop *const *list, uint32_t n, int loop) {
  bool open = false;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (has_phases(u)) {
      int inner = (int)s->loops.n;
      uint32_t at = s->steps.n;
      tg_push(&s->j->env, &s->loops, ((phase_loop){u, loop, loop == NONE ? 0 : s->loops.data[loop].depth + 1}));
      tg_push(&s->j->env, &s->steps, ~(int64_t)inner);
      tg_push(&s->j->env, &s->steps, 0);
      s->pure[u->src[0]->id] = true;
      find_phases(s, u->src + 1, u->n - 1, inner);
      s->steps.data[at + 1] = s->steps.n - at - 2;
      open = false;
      continue;
    }
    item it = {u, NONE, loop, 0};
    if (u->op == TG_OP_DEFINE && tg_buffer_info(s->j, u)->role == TG_ROLE_TEMP) {
      s->shared[(uint32_t)u->arg] = 1 + s->shared_at;
      s->shared_at += round64(elements_of(s, u) * (uint64_t)tg_type_bytes(u->type));
    }
    if (is_value(u) && !(s->pure[u->id] = purity(s, u))) {
      it.slot = s->shared_at;
      s->shared_at += round64((uint64_t)tg_type_bytes(u->type) * u->lanes);
    }
    if (is_effect(u) || (is_value(u) && !s->pure[u->id])) {
      if (is_phase(u) || !open) {
        tg_push(&s->j->env, &s->steps, (int64_t)s->phases.n);
        tg_push(&s->j->env, &s->phases, ((phase){is_phase(u) ? u : NULL, loop}));
      }
      open = !is_phase(u);
      it.phase = (int)s->phases.n - 1;
    }
    tg_push(&s->j->env, &s->items, it);
  }
}

/* Marks all nodes below root as needed by the function being emitted. */
static void want(source *s, const tg_uop *root) {
  TG_VEC(const tg_uop *) stack = {0};
  tg_push(&s->j->env, &stack, root);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (s->seen[u->id] == s->stamp || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER) continue;
    s->seen[u->id] = s->stamp;
    for (uint32_t i = 0; i < u->n; i++) tg_push(&s->j->env, &stack, u->src[i]);
  }
}

static void begin(source *s, const char *name, uint32_t index, int loop) {
  s->head = tg_str_new(&s->j->env);
  s->body = tg_str_new(&s->j->env);
  s->private_at = 0;
  tg_str_printf(&s->head, "__kernel void tg_%s_%u(", name, index);
  for (uint32_t i = 0; i < s->items.n; i++) {
    const tg_uop *u = s->items.data[i].u;
    if (u->op == TG_OP_DEFINE && !s->shared[(uint32_t)u->arg])
      tg_str_printf(&s->head, "__global %s *b%u, ", type_of(s, u->type), (uint32_t)u->arg);
  }
  tg_str_printf(&s->head, "__global uchar *shared, __global uchar *workspace");
  for (uint32_t i = 0; i < s->j->params.n; i++) tg_str_printf(&s->head, ", long p%u", i);
  tg_str_printf(&s->head, ") {\n");
  for (uint32_t i = 0; i < s->items.n; i++) {
    const tg_uop *u = s->items.data[i].u;
    if (u->op == TG_OP_DEFINE && s->shared[(uint32_t)u->arg])
      tg_str_printf(&s->head, "__global %s *b%u = (__global %s *)(shared + %lluul);\n", type_of(s, u->type),
                    (uint32_t)u->arg, type_of(s, u->type), (unsigned long long)s->shared[(uint32_t)u->arg] - 1);
  }
  for (int l = loop; l != NONE; l = s->loops.data[l].outer) {
    const tg_uop *r = s->loops.data[l].end->src[0];
    tg_str_printf(&s->head, "%s i%u = (%s)((__global long *)shared)[%d];\n", type_of(s, r->type), r->id,
                  type_of(s, r->type), s->loops.data[l].depth);
  }
}

static void finish(source *s) {
  tg_str_printf(&s->text, "%s%s}\n", s->head.data, s->body.data ? s->body.data : "");
}

static const char *slot_of(source *s, const item *it, uint32_t l) {
  return tg_format(&s->j->env, "((__global %s *)(shared + %lluul))[%u]", type_of(s, it->u->type),
                   (unsigned long long)it->slot, l);
}

static void put_phase(source *s, int p) {
  const phase *ph = &s->phases.data[p];
  s->stamp++;
  for (uint32_t i = 0; i < s->items.n; i++)
    if (s->items.data[i].phase == p) want(s, s->items.data[i].u);
  begin(s, "phase", (uint32_t)p, ph->loop);
  for (uint32_t i = 0; i < s->items.n; i++) {
    const item *it = &s->items.data[i];
    const tg_uop *u = it->u;
    if (it->phase == p && is_phase(u)) {
      const tg_uop *r = u->src[0];
      tg_str_printf(&s->body, "TASKS(%s) {\n%s i%u = (%s)t;\n",
                    lane_of(s, tg_extent(r), 0), type_of(s, r->type), r->id, type_of(s, r->type));
      put_list(s, u->src + 1, u->n - 1);
      tg_str_printf(&s->body, "}\n");
    } else if (it->phase == p) {
      put_statement(s, u);
      for (uint32_t l = 0; is_value(u) && l < u->lanes; l++)
        tg_str_printf(&s->body, "%s = %s;\n", slot_of(s, it, l), lane_of(s, u, l));
    } else if (is_value(u) && s->seen[u->id] == s->stamp) {
      if (s->pure[u->id]) put_value(s, u);
      else if (it->phase < p) {
        declare(s, u);
        for (uint32_t l = 0; l < u->lanes; l++)
          tg_str_printf(&s->body, "%s = %s;\n", lane_of(s, u, l), slot_of(s, it, l));
      }
    }
  }
  finish(s);
}

static void put_turns(source *s, int loop) {
  const tg_uop *end = s->loops.data[loop].end, *extent = tg_extent(end->src[0]);
  s->stamp++;
  want(s, extent);
  begin(s, "turns", (uint32_t)loop, s->loops.data[loop].outer);
  for (uint32_t i = 0; i < s->items.n; i++) {
    const tg_uop *u = s->items.data[i].u;
    if (!is_value(u) || s->seen[u->id] != s->stamp) continue;
    if (!s->pure[u->id])
      tg_bug(&s->j->env, "linear form: the turns of a loop of phases depend on what the kernel writes");
    put_value(s, u);
  }
  tg_str_printf(&s->body, "((__global long *)shared)[%d] = %s;\n", s->loops.data[loop].depth, lane_of(s, extent, 0));
  finish(s);
}

const char *tg_source_opencl(tg_job *j, const tg_target *t, const tg_uop *linear, tg_code_info *info) {
  uint32_t n = j->uops.n, globals = 0;
  source *s = tg_new(&j->env, source, 1);
  *s = (source){.j = j,
                .t = t,
                .text = tg_str_new(&j->env),
                .pure = tg_new(&j->env, uint8_t, n),
                .seen = tg_new(&j->env, uint32_t, n),
                .declared = tg_new(&j->env, uint32_t, n),
                .made = tg_new(&j->env, uint32_t, j->buffers.n + 1),
                .shared = tg_new(&j->env, uint64_t, j->buffers.n + 1)};
  enum { COUNTERS = 512 };
  s->shared_at = COUNTERS;   /* first come the counters of loops of phases */
  find_phases(s, linear->src, linear->n, NONE);
  for (uint32_t i = 0; i < s->loops.n; i++)
    if (8 * (s->loops.data[i].depth + 1) > COUNTERS)
      tg_fail(&j->env, TG_ELIMIT, "loops of phases nested more than %d deep", COUNTERS / 8);
  for (uint32_t i = 0; i < s->phases.n; i++) put_phase(s, (int)i);
  for (uint32_t i = 0; i < s->loops.n; i++) put_turns(s, (int)i);
  for (uint32_t i = 0; i < s->items.n; i++)
    globals += s->items.data[i].u->op == TG_OP_DEFINE && !s->shared[(uint32_t)s->items.data[i].u->arg];
  int64_t *launch = tg_new(&j->env, int64_t, 1 + s->steps.n + s->phases.n);
  launch[0] = s->steps.n;
  for (uint32_t i = 0; i < s->steps.n; i++) launch[1 + i] = s->steps.data[i];
  for (uint32_t i = 0; i < s->phases.n; i++) {
    const tg_uop *extent = s->phases.data[i].thread ? tg_extent(s->phases.data[i].thread->src[0]) : NULL;
    launch[1 + s->steps.n + i] = !extent ? 1 : extent->op != TG_OP_CONST ? 0 : extent->arg < 1 ? 1 : extent->arg;
  }
  *info = (tg_code_info){.buffers = globals,
                         .params = j->params.n,
                         .phases = s->phases.n,
                         .workspace = s->private_top,
                         .shared = round64(s->shared_at),
                         .launch = launch,
                         .launch_n = 1 + s->steps.n + s->phases.n,
                         .loops = s->loops.n};
  return tg_format(&j->env, "%s%s%s%s#define WORKSPACE %lluul\n%s", prelude, s->f64 ? prelude_f64 : "",
                   s->wide_atomics ? prelude_atomics : "",
                   s->wide_atomics && s->f64 ? "ATOMIC(double, long, atom_cmpxchg)\n" : "",
                   (unsigned long long)s->private_top, s->text.data ? s->text.data : "");
}
