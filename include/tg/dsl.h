/* SPDX-License-Identifier: MIT
 * The language: kernels written in C, for C11 and C++17.
 *
 *   TG_KERNEL(matmul, M, N, K) {
 *       tg_in (A, f32, [M, K]);
 *       tg_in (B, f32, [K, N]);
 *       tg_out(C, f32, [M, N]);
 *       tg_range(i, M) tg_range(j, N)
 *           tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
 *   }
 *
 * A macro turns its argument into text and hands it to the builder; docs/language.md has the grammar. C code in the
 * body runs while the kernel is built: C's `if`, `for` and functions serve as the macro language. Leaving a scope by
 * break, return or goto is an error, reported at the line of the range. After the first error later calls do nothing,
 * and compiling reports that error. A kernel or call without parameters is written with a comma after its name:
 * TG_KERNEL(name, ) { .. }.
 */
#ifndef TG_DSL_H
#define TG_DSL_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_builder tg_builder;

/* A kernel: what TG_KERNEL defines. The body must be pure: it may run many times, with different knobs. After an error
 * it still runs to its end; but if a million more statements follow (an endless C loop), the builder leaves the body
 * by longjmp, and no C++ destructors run. */
typedef struct tg_kernel_def {
  const char *name, *params, *file;
  int line;
  void (*body)(tg_builder *, void *user);
} tg_kernel_def;

/* A piece of a kernel with formal parameters: what TG_PROC defines. */
typedef struct tg_proc_def {
  const char *name, *formals, *file;
  int line;
  void (*body)(tg_builder *, void *user);
} tg_proc_def;

typedef struct tg_scope { tg_builder *builder; int live; unsigned id; } tg_scope;

/* ---- the builder, for programs that generate kernels: statements and declarations as text ---- */

/* One statement: "C[i,j] = A[i,k] * 2", "let t = A[i]", "atomic C[i] += x", "barrier()". */
TG_API void tg_add_statement(tg_builder *b, const char *text, const char *file, int line);
/* word: in, out, inout, define_reg, define_local, knob, require, opt, def or stage; text: the macro's arguments, such
 * as "A, f32, [M, K]" for tg_in. */
TG_API void tg_add_declaration(tg_builder *b, const char *word, const char *text, const char *file, int line);
/* word: "range" with text "i, M, upcast", "if" with a condition, "carry" with the tiles, or "merge" with "". After an
 * error the returned scope's live is 0. */
TG_API tg_scope tg_scope_open(tg_builder *b, const char *word, const char *text, const char *file, int line);
TG_API void tg_scope_close(tg_scope *s);
/* The same without a tg_scope variable, for scopes that have no name. The first tg_scope_next after a begin returns 1,
 * so that a `for` runs its body once; the second closes the scope that began at this line and returns 0. */
TG_API void tg_scope_begin(tg_builder *b, const char *word, const char *text, const char *file, int line);
TG_API int tg_scope_next(tg_builder *b, int line);
/* Gives a C value a name in the kernel. It acts as a literal: it takes the type of the operand beside it. */
TG_API void tg_let_integer(tg_builder *b, const char *name, int64_t value, const char *file, int line);
TG_API void tg_let_unsigned(tg_builder *b, const char *name, uint64_t value, const char *file, int line);
TG_API void tg_let_double(tg_builder *b, const char *name, double value, const char *file, int line);
/* The value of an expression of constants, knobs and parameters bound to constants; 1 after an error. */
TG_API int64_t tg_constant_of(tg_builder *b, const char *text, const char *file, int line);
TG_API void tg_call_proc(tg_builder *b, const tg_proc_def *proc, const char *arguments, const char *file, int line);
/* Defines the function `name` whose body is text, given at run time; text may use only the formals, such as
 * "s, i, j". "s, i, j -> f32": and its value must be of this type. */
TG_API void tg_add_splice(tg_builder *b, const char *name, const char *text, const char *formals, const char *file,
                          int line);
/* tg_compile_options.user of the compile call. */
TG_API void *tg_builder_user(tg_builder *b);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#define TG_UNUSED_ __attribute__((unused))
#else
#define TG_UNUSED_
#endif

#define TG_KERNEL(NAME, ...)                                                                                       \
  static void NAME##_tg_body(tg_builder *tg_b_, void *tg_user);                                                    \
  TG_UNUSED_ static const tg_kernel_def NAME = {#NAME, #__VA_ARGS__, __FILE__, __LINE__, NAME##_tg_body};          \
  static void NAME##_tg_body(TG_UNUSED_ tg_builder *tg_b_, TG_UNUSED_ void *tg_user)

#define TG_PROC(NAME, ...)                                                                                         \
  static void NAME##_tg_body(tg_builder *tg_b_, void *tg_user);                                                    \
  TG_UNUSED_ static const tg_proc_def NAME = {#NAME, #__VA_ARGS__, __FILE__, __LINE__, NAME##_tg_body};            \
  static void NAME##_tg_body(TG_UNUSED_ tg_builder *tg_b_, TG_UNUSED_ void *tg_user)

#define tg(...) tg_add_statement(tg_b_, #__VA_ARGS__, __FILE__, __LINE__)

#define tg_in(...) tg_add_declaration(tg_b_, "in", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_out(...) tg_add_declaration(tg_b_, "out", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_inout(...) tg_add_declaration(tg_b_, "inout", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_define_reg(...) tg_add_declaration(tg_b_, "define_reg", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_define_local(...) tg_add_declaration(tg_b_, "define_local", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_knob(...) tg_add_declaration(tg_b_, "knob", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_require(...) tg_add_declaration(tg_b_, "require", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_opt(...) tg_add_declaration(tg_b_, "opt", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_def(...) tg_add_declaration(tg_b_, "def", #__VA_ARGS__, __FILE__, __LINE__)
#define tg_barrier() tg_add_statement(tg_b_, "barrier()", __FILE__, __LINE__)

#define tg_range(NAME, ...)                                                                                        \
  for (tg_scope tg_scope_##NAME = tg_scope_open(tg_b_, "range", #NAME ", " #__VA_ARGS__, __FILE__, __LINE__);      \
       tg_scope_##NAME.live; tg_scope_close(&tg_scope_##NAME))
#define tg_if(...)                                                                                                 \
  for (tg_scope_begin(tg_b_, "if", #__VA_ARGS__, __FILE__, __LINE__); tg_scope_next(tg_b_, __LINE__);)
/* tg_carry encloses the whole body of a range and names the tiles that its iterations carry. tg_merge, at the end of
 * that body, says how two states of these tiles become one:
 * tg_range(k, N) tg_carry(m, l) { ..; tg_merge { tg(m = max(a.m, b.m)); .. } } */
#define tg_carry(...)                                                                                              \
  for (tg_scope_begin(tg_b_, "carry", #__VA_ARGS__, __FILE__, __LINE__); tg_scope_next(tg_b_, __LINE__);)
#define tg_merge for (tg_scope_begin(tg_b_, "merge", "", __FILE__, __LINE__); tg_scope_next(tg_b_, __LINE__);)

#define tg_call(PROC, ...) tg_call_proc(tg_b_, &PROC, #__VA_ARGS__, __FILE__, __LINE__)
#define tg_splice(NAME, TEXT, FORMALS) tg_add_splice(tg_b_, #NAME, (TEXT), (FORMALS), __FILE__, __LINE__)
#define tg_c(...) tg_constant_of(tg_b_, #__VA_ARGS__, __FILE__, __LINE__)

#ifdef __cplusplus
inline void tg_let_(tg_builder *b, const char *n, int v, const char *f, int l) { tg_let_integer(b, n, v, f, l); }
inline void tg_let_(tg_builder *b, const char *n, long v, const char *f, int l) { tg_let_integer(b, n, v, f, l); }
inline void tg_let_(tg_builder *b, const char *n, long long v, const char *f, int l) { tg_let_integer(b, n, v, f, l); }
inline void tg_let_(tg_builder *b, const char *n, unsigned v, const char *f, int l) { tg_let_unsigned(b, n, v, f, l); }
inline void tg_let_(tg_builder *b, const char *n, unsigned long v, const char *f, int l) {
  tg_let_unsigned(b, n, v, f, l);
}
inline void tg_let_(tg_builder *b, const char *n, unsigned long long v, const char *f, int l) {
  tg_let_unsigned(b, n, v, f, l);
}
inline void tg_let_(tg_builder *b, const char *n, double v, const char *f, int l) { tg_let_double(b, n, v, f, l); }
inline void tg_let_(tg_builder *b, const char *n, float v, const char *f, int l) {
  tg_let_double(b, n, static_cast<double>(v), f, l);
}
#  define tg_let(NAME, VALUE) tg_let_(tg_b_, #  NAME, (VALUE), __FILE__, __LINE__)
#else
#define tg_let(NAME, VALUE)                                                                                        \
  _Generic((VALUE), float: tg_let_double, double: tg_let_double, unsigned: tg_let_unsigned,                        \
           unsigned long: tg_let_unsigned, unsigned long long: tg_let_unsigned, default: tg_let_integer)           \
  (tg_b_, #NAME, (VALUE), __FILE__, __LINE__)
#endif
#endif
