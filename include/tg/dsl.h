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
 * A macro turns its argument into text and hands it to the builder; docs/language.md has the grammar. C runs while
 * the kernel is built: its `if`, `for` and functions are the macro language. A scope that is left by break, return
 * or goto is an error at the range's line. The first error sticks; later calls do nothing; compiling reports it.
 * A kernel or call without parameters is written with a comma behind its name: TG_KERNEL(name, ) { .. }.
 */
#ifndef TG_DSL_H
#define TG_DSL_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_builder tg_builder;

/* A kernel: what TG_KERNEL defines. The body is pure: it may run many times, with other knobs. It runs to its end
 * also after an error, which sticks; a body that goes on for a million statements more (a loop of C without an end)
 * is left by longjmp, without destructors of C++. */
typedef struct tg_kernel_def {
  const char *name, *params, *file;
  int line;
  void (*body)(tg_builder *, void *user);
} tg_kernel_def;

/* A piece of kernel with formal names: what TG_PROC defines. */
typedef struct tg_proc_def {
  const char *name, *formals, *file;
  int line;
  void (*body)(tg_builder *, void *user);
} tg_proc_def;

typedef struct tg_scope { tg_builder *builder; int live; unsigned id; } tg_scope;

/* ---- the builder, for programs that generate kernels: the words of the language as text ---- */

/* One statement: "C[i,j] = A[i,k] * 2", "let t = A[i]", "atomic C[i] += x", "barrier()". */
TG_API void tg_add_statement(tg_builder *b, const char *text, const char *file, int line);
/* word: in, out, inout, define_reg, define_local, knob, require, opt, def, stage; text: what stands between its
 * parentheses. */
TG_API void tg_add_declaration(tg_builder *b, const char *word, const char *text, const char *file, int line);
/* word: "range" with text "i, M, upcast", "if" with a condition, "carry" with the tiles, or "merge" with "". live is
 * 0 after an error. */
TG_API tg_scope tg_scope_open(tg_builder *b, const char *word, const char *text, const char *file, int line);
TG_API void tg_scope_close(tg_scope *s);
/* The same without a variable, for scopes that have no name: next is 1 once behind begin, then 0, when it closes the
 * scope that began at this line. */
TG_API void tg_scope_begin(tg_builder *b, const char *word, const char *text, const char *file, int line);
TG_API int tg_scope_next(tg_builder *b, int line);
/* A C value by name: a literal that takes the type of what it meets. */
TG_API void tg_let_integer(tg_builder *b, const char *name, int64_t value, const char *file, int line);
TG_API void tg_let_unsigned(tg_builder *b, const char *name, uint64_t value, const char *file, int line);
TG_API void tg_let_double(tg_builder *b, const char *name, double value, const char *file, int line);
/* The value of an expression of constants, knobs and parameters bound to constants; 1 after an error. */
TG_API int64_t tg_constant_of(tg_builder *b, const char *text, const char *file, int line);
TG_API void tg_call_proc(tg_builder *b, const tg_proc_def *proc, const char *arguments, const char *file, int line);
/* text, given at run time, as the body of a function over the formals only: "s, i, j". */
TG_API void tg_add_splice(tg_builder *b, const char *name, const char *text, const char *formals, const char *file,
                          int line);
/* What was given to the compile call for the body. */
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
/* Around the whole body of a range, the tiles that its iterations carry; at the end, how two of their states become
 * one: tg_range(k, N) tg_carry(m, l) { ..; tg_merge { tg(m = max(a.m, b.m)); .. } } */
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
