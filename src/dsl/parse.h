/* SPDX-License-Identifier: MIT
 * The front: what the lexer, the parser of expressions and statements and the builder share. Text comes from macros
 * (one statement each) or from .tg files (kernels); both end in the same calls on the same builder. */
#ifndef TG_PARSE_H
#define TG_PARSE_H
#include "dsl/text.h"
#include "tg/dsl.h"

/* Kept out of its caller, whose frame stands on the stack once per level of an expression. */
#define TG_APART __attribute__((noinline))

/* What one kernel may be made of: a loop of C without an end, or functions that each call another twice, would go on
 * for ever. */
enum { TG_MOST_STATEMENTS = 1000000, TG_MOST_NODES = 1 << 24, TG_DEEPEST_BLOCK = 128, TG_DEEPEST_CALL = 64 };

/* A piece of source. macro: the text is a macro's argument, whose blanks the preprocessor has changed. */
typedef struct { uint32_t start; const char *text; } tg_line;
typedef struct tg_source {
  const char *file, *text;
  int line;
  bool macro;
  TG_VEC(tg_line) lines;         /* as far as anyone has asked, the copy of a line's text once it is requested */
  uint32_t at;                   /* the line found last */
} tg_source;

enum { TK_END, TK_NAME = 256, TK_INT, TK_FLOAT, TK_F32 };   /* others: the characters, packed: TK2('<', '=') */
#define TK2(a, b) ((a) << 8 | (b) | 1 << 20)
typedef struct { int kind; uint32_t off, len; tg_i128 i; double f; } tg_token;

/* A parsed expression. A literal takes its type from what it meets: lit is its kind, i or f its value, and u, if
 * set, the unfolded node at the type it has alone. */
enum { LIT_NONE, LIT_INT, LIT_FLOAT };
typedef struct {
  const tg_uop *u;
  uint8_t lit;
  tg_i128 i;
  double f;
  uint32_t off, end;
  const struct tg_where_literal *choice;
} tg_expr;
/* where(cond, 1, 0): a literal still, of so many */
typedef struct tg_where_literal { const tg_uop *cond; tg_expr yes, no; uint32_t literals; } tg_where_literal;
enum { TG_MOST_LITERALS = 256 };   /* of one choice: each use walks all of them */

typedef enum { NAME_CONST, NAME_PARAM, NAME_RANGE, NAME_BUFFER, NAME_VALUE, NAME_DEF, NAME_PROC } tg_name_kind;

/* An expression function, or a proc of a .tg file: text parsed again at each call. */
typedef struct {
  const char *name;
  const char **formals;
  uint32_t n;
  tg_source *source;
  uint32_t body;
  bool alone, active;
  tg_type type;                  /* that the value must have; VOID: any */
} tg_macro;

typedef struct tg_name {
  const char *name;
  uint8_t kind;
  bool kept;                     /* VALUE: lives in a register of its own by now */
  const tg_uop *u;               /* RANGE, PARAM, CONST, the DEFINE of a BUFFER */
  tg_expr value;
  const uint32_t *reads;         /* VALUE: pairs (buffer, its count of stores then) */
  uint32_t reads_n;
  /* VALUE: the statement list it stands in, the two places reserved there, loops around */
  uint32_t frame, slot, depth;
  uint32_t notes, notes_n;       /* VALUE: the accesses of its text, in builder->notes */
  uint32_t serial;
  tg_macro *macro;
  tg_pos pos;
  int32_t shadowed;              /* the entry of the same name below, or -1 */
} tg_name;

/* An access or range of a statement, by its plain node; node NULL: those of the VALUE with this serial, [first,
 * first + n). */
typedef struct { const tg_uop *node; tg_pos pos; uint32_t serial, first, n; } tg_note;

typedef struct tg_item tg_item;
struct tg_item { const tg_uop *node; tg_pos pos; uint32_t notes, notes_n; tg_item *children; uint32_t n; };

typedef enum { FRAME_KERNEL, FRAME_RANGE, FRAME_IF, FRAME_PROC, FRAME_CARRY, FRAME_MERGE } tg_frame_kind;
typedef struct tg_frame {
  uint8_t kind;
  const tg_uop *range;
  tg_pos pos;
  const char *name;
  TG_VEC(tg_item) items;         /* KERNEL, RANGE, MERGE */
  tg_carry *carry;               /* CARRY, and the RANGE that it is in */
  uint32_t names, notes, notes_n, id;
  tg_name condition;             /* IF: held like a let */
  bool negated, entered;         /* entered: of tg_scope_begin, once its body has begun */
  int line;                      /* where tg_scope_begin stands */
  uint32_t barrier;              /* PROC: the caller's */
  const char *prefix;
  tg_macro *macro;
} tg_frame;

typedef struct { const char *name; uint8_t kind; tg_pos pos; } tg_dead_name;

struct tg_builder {
  tg_job *job;
  void *user;
  bool failed;
  bool raw;                      /* a printed stage: nothing is implied, no gates are pushed, no conversion made */
  TG_VEC(tg_name) names;
  int32_t *table;                /* by symbol: the innermost entry + 1 */
  const char **keys;
  uint32_t table_mask, table_n;
  TG_VEC(tg_dead_name) dead;
  TG_VEC(tg_frame) frames;
  TG_VEC(const tg_uop *) arms;   /* conditions under which the operand in hand is evaluated */
  /* it is what a shuffle picks from: arms before first_arm, and ifs, are another lane's */
  bool all_lanes;
  uint32_t first_arm;
  TG_VEC(uint32_t) reads;        /* buffers that the expression in hand reads */
  TG_VEC(tg_note) notes;
  TG_VEC(tg_note) rough;         /* the calls that have no derivative */
  TG_VEC(uint32_t) stores;       /* by buffer: how often it has been stored to */
  TG_VEC(tg_item) globals;
  uint32_t barrier;              /* names below are seen only if they are parameters, knobs, functions */
  bool formals_only;             /* spliced text: not even those */
  const char *prefix;            /* of names made inside a proc */
  uint32_t depth, scopes, serial, calls;
  /* statements, declarations, scopes and calls so far; calls of the builder since it failed */
  uint32_t steps, idle;
  uint32_t n;
  const tg_binding *bindings;
  bool *used;
};

typedef struct tg_parser {
  tg_builder *b;
  tg_job *j;
  tg_source *src;
  uint32_t at;
  tg_token tok, ahead;
  bool index, extent;            /* inside [ ] or an extent; in an extent, outside of further [ ] */
  uint32_t depth;
} tg_parser;

/* lex.c */
void tg_lex(tg_parser *p, tg_token *t);
void tg_parser_init(tg_parser *p, tg_builder *b, tg_source *src, uint32_t at);
void tg_next(tg_parser *p);
bool tg_take(tg_parser *p, int kind);
void tg_expect(tg_parser *p, int kind, const char *what);
bool tg_at_word(const tg_parser *p, const char *word);
bool tg_token_is(const tg_parser *p, const tg_token *t, const char *word);
bool tg_take_word(tg_parser *p, const char *word);
/* What a range or buffer is called whose name ends in `#2`, which tells it from others that are called so. */
const char *tg_called(tg_job *j, const char *name);
const char *tg_take_name(tg_parser *p, const char *what);   /* a symbol; %12 too */
const char *tg_token_text(tg_parser *p, const tg_token *t);
tg_source *tg_source_new(tg_job *j, const char *file, const char *text, int line, bool macro);

/* position.c */
tg_pos tg_source_pos(tg_job *j, tg_source *s, uint32_t off, uint32_t len);
#define tg_parse_fail(p, off, len, ...) tg_fail_at((p)->j, tg_source_pos((p)->j, (p)->src, (off), (len)), __VA_ARGS__)
#define tg_token_fail(p, t, ...) tg_parse_fail((p), (t)->off, (t)->len, __VA_ARGS__)
#define tg_expr_fail(p, e, ...) tg_parse_fail((p), (e)->off, (e)->end - (e)->off, __VA_ARGS__)

/* names.c */
tg_name *tg_name_find(tg_builder *b, const char *symbol);
tg_name *tg_name_add(tg_builder *b, const char *symbol, tg_name_kind kind, tg_pos pos);   /* fails if it is in scope */
void tg_names_cut(tg_builder *b, uint32_t n);      /* back to n names: a scope ends */
TG_NORETURN void tg_name_unknown(tg_parser *p, const tg_token *t, bool function);
/* of a name that is a type elsewhere: what it is called here; NULL */
const char *tg_type_hint(const char *name);
TG_NORETURN void tg_type_unknown(tg_parser *p, const tg_token *t);
TG_NORETURN void tg_kind_unknown(tg_parser *p, const tg_token *t);
/* an expression follows that is to be held by a name */
void tg_value_begin(tg_builder *b, tg_name *hold);
void tg_value_end(tg_builder *b, tg_name *hold, tg_expr e);
tg_expr tg_value_use(tg_builder *b, tg_name *hold);
void tg_note_read(tg_builder *b, uint32_t buffer);

/* parse_expr.c */
tg_expr tg_parse_expression(tg_parser *p);
tg_expr tg_parse_unary(tg_parser *p);
/* the node at type t; an error that tells the cast */
const tg_uop *tg_settle(tg_parser *p, const tg_expr *e, tg_type t);
const tg_uop *tg_settle_alone(tg_parser *p, const tg_expr *e);         /* a literal gets the type it has alone */
const tg_uop *tg_parse_index(tg_parser *p, bool extent);
const tg_uop *tg_parse_condition(tg_parser *p);
void tg_unify(tg_parser *p, tg_expr *a, tg_expr *b, const char *what);
/* false, nothing taken, if no type stands here */
bool tg_parse_type(tg_parser *p, tg_type *t, uint32_t *lanes);
tg_type tg_type_of_word(const char *s, size_t n);                      /* TG_TYPE__COUNT: none */
const tg_uop *tg_to_index(tg_parser *p, const tg_expr *e);
const tg_uop *tg_path(tg_builder *b);                                  /* what holds where we stand, NULL: everything */
const tg_uop *tg_negate(tg_job *j, const tg_uop *c);
tg_expr tg_parse_access(tg_parser *p, tg_name *buffer, const tg_token *t);
const tg_uop *tg_parse_prefetch(tg_parser *p);
uint32_t tg_parse_subscripts(tg_parser *p, const tg_name *buffer, const tg_token *t, const tg_uop **idx);
tg_expr tg_load_of(tg_parser *p, const tg_uop *define, const tg_uop *const *idx, const tg_uop *gate, const tg_uop *alt,
                   uint32_t off);
tg_expr tg_combine(tg_parser *p, tg_op op, tg_expr a, tg_expr b, const tg_token *at);
void tg_note_node(tg_parser *p, const tg_uop *node, uint32_t off, uint32_t len);
bool tg_constant_value(tg_job *j, const tg_uop *u, tg_i128 *v);       /* of an expression of constants */

/* call.c */
void tg_parse_inner_lets(tg_parser *p);           /* let NAME = e; any number of them */
tg_expr tg_parse_call(tg_parser *p);         /* at the name, `(` ahead */
/* Behind `NAME(`, NAME being t. False: it is no reduction, and nothing was taken. */
bool tg_parse_reduction(tg_parser *p, tg_token t, tg_expr *e);
/* The call's `)`; got: the arguments that were given. */
void tg_close_call(tg_parser *p, const tg_token *t, uint32_t got, uint32_t want);
/* u as an expression that was written from t on. */
tg_expr tg_call_result(tg_parser *p, const tg_uop *u, const tg_token *t);
bool tg_is_function(const char *s, size_t n);
extern const char *const tg_function_words[];
tg_kind tg_kind_of(const tg_parser *p, const tg_token *t);   /* TG_KIND__COUNT: none */
tg_macro *tg_parse_formals(tg_parser *p, const char *name, bool alone);

/* statement.c */
void tg_parse_simple(tg_parser *p);          /* up to `;` or the end, which is left */
void tg_parse_declaration(tg_parser *p, const char *word);   /* what stands between the parentheses */
bool tg_is_declaration(const tg_parser *p, const tg_token *t);
void tg_parse_range(tg_parser *p, uint32_t off);     /* i, M [, kind]: opens the scope */
void tg_parse_if(tg_parser *p, uint32_t off);        /* the condition: opens the scope */
void tg_parse_parameters(tg_parser *p);

/* carry.c */
void tg_parse_carry(tg_parser *p, uint32_t off);     /* m, l, o: opens the scope */
void tg_parse_merge(tg_parser *p, uint32_t off);     /* opens the scope */
void tg_carry_close(tg_builder *b, const tg_frame *carry);          /* of FRAME_CARRY */
void tg_merge_close(tg_builder *b, const tg_frame *merge);          /* of FRAME_MERGE, its items settled */

/* kernel.c */
void tg_enter_proc(tg_parser *p, tg_macro *m, tg_pos pos);

/* builder.c */
void tg_builder_start(tg_builder *b, tg_job *j, uint32_t n, const tg_binding *bindings);
tg_frame *tg_frame_push(tg_builder *b, tg_frame_kind kind, tg_pos pos);
void tg_frame_pop(tg_builder *b);
/* a statement, a scope or a call more: an error at TG_MOST_STATEMENTS */
void tg_step(tg_parser *p, const tg_token *t);
void tg_emit(tg_builder *b, const tg_uop *statement, tg_pos pos, uint32_t notes);
tg_frame *tg_list_frame(tg_builder *b, uint32_t *index);
void tg_builder_finish(tg_builder *b);
const tg_binding *tg_binding_find(tg_builder *b, const char *name);
#endif
