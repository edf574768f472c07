/* SPDX-License-Identifier: MIT
 * What the printers of statements (print.c) and of expressions (print_expr.c) share. */
#ifndef TG_PRINT_H
#define TG_PRINT_H
#include "dsl/text.h"

/* Precedences, C's. An atom fits everywhere, GATED only where a whole expression stands. */
enum { P_GATED, P_OR = 2, P_XOR, P_AND, P_EQUAL, P_COMPARE, P_SHIFT, P_ADD, P_MUL, P_UNARY, P_ATOM };

typedef struct { uint8_t kind, prec; bool bare; uint32_t number; const char *text; const tg_uop *u; } tg_print_piece;

typedef struct {
  uint32_t stamp, uses, name;   /* name: n + 1 of %n */
  uint32_t height;              /* of the nest of reductions below */
  uint32_t visited;             /* number of the last search for shared nodes that passed */
  uint64_t bound;               /* heights of the reductions whose ranges the node uses */
} tg_print_note;

/* a value statement, and its node's name before it */
typedef struct { const tg_uop *u; uint32_t name; } tg_print_done;

typedef struct {
  tg_job *j;
  tg_str *out;
  bool lets;                    /* false: shared nodes are repeated, names are as in the tables */
  size_t limit;                 /* length of out at which to stop; 0: none */
  tg_print_note *notes;         /* by node id */
  uint32_t epoch, names, indent, visits;
  TG_VEC(const tg_uop *) named; /* by `let` within reductions that are open; marks: how many at the start of each */
  TG_VEC(uint32_t) marks;
  TG_VEC(tg_print_done) done;   /* of the lists that are open */
  uint32_t *range_height;       /* by ordinal: of the reduction that binds it, in this statement */
  const char **range_name, **buffer_name;
  const tg_uop *sink;
  uint32_t *range_number;       /* by ordinal: its place among the ranges of its name; NULL until needed */
  TG_VEC(const char *) scope;
  struct tg_print_bound *bound; uint32_t bound_n, bound_mask;   /* how often each name stands in scope */
  TG_VEC(tg_print_piece) stack;
  TG_VEC(const tg_uop *) order; /* of the present statement, sources first */
  /* before the names of a GENERIC reduction's values, a0, b0, v0, ..: "" unless the kernel has such names too */
  const char *own;
  const tg_uop *combiner;       /* the GENERIC reduction whose combined values are being printed */
} tg_printer;

/* names for what begins here, in scope until they are unbound */
const char *tg_print_bind_range(tg_printer *p, const tg_uop *range);
const char *tg_print_bind_buffer(tg_printer *p, const tg_uop *define);
void tg_print_bind_as(tg_printer *p, const char *symbol);      /* this very name */
void tg_print_unbind(tg_printer *p, uint32_t n);               /* back to n names in scope */
const char *tg_print_range_name(const tg_printer *p, const tg_uop *range);
const char *tg_print_buffer_name(const tg_printer *p, const tg_uop *version);

/* Lists what the text of a statement is made of, counts uses, finds what depends on ranges of reductions; to be
 * forgotten after it. */
void tg_print_survey(tg_printer *p, const tg_uop *root);
void tg_print_forget(tg_printer *p);
bool tg_print_wants_let(const tg_printer *p, const tg_uop *u);

void tg_print_put(tg_printer *p, const tg_uop *u, int precedence);        /* in parentheses if it binds less */
void tg_print_put_whole(tg_printer *p, const tg_uop *u);                  /* the node itself, even if it has a name */
void tg_print_put_list(tg_printer *p, const tg_uop *const *u, uint32_t n, const char *open, const char *close);
#endif
