/* SPDX-License-Identifier: MIT
 * Compiled rewrite rules: made by rules.c, applied by match.c, inspected by tests. */
#ifndef TG_RANGES_RULES_H
#define TG_RANGES_RULES_H
#include "ranges/known.h"

typedef enum { CLASS_INDEX, CLASS_WRAP, CLASS_FLOAT, CLASS_BOOL, CLASSES } tg_rule_class;

/* Tags of terms that are no ops. */
enum { TERM_NAME = TG_OP__COUNT, TERM_LITERAL, TERM_CONVERT, TERM_PREDICATE, TERM_AND_ALSO, TERM_OR_ELSE, TERM_NEGATE };
enum {
  P_lo,
  P_hi,
  P_type,
  P_bits,
  P_is_const,
  P_is_float,
  P_is_signed,
  P_is_int,
  P_multiple,
  P_widens,
  P_power_of_two,
  P_exponent,
  P_exact_inverse,
  P_same_type,
  P_top,
  P__COUNT
};
enum { RULE_NAMES = 12, RULE_TYPES = 3, RULE_TERMS = 40, RULE_CHOICES = 2 };

typedef struct {
  uint16_t tag;             /* an op, or one of the above */
  int8_t a, b, c;           /* operands: terms; -1 none */
  /* NAME: slot of the name; CONVERT: slot of the type; PREDICATE: P_*; LITERAL: TG_BOOL for true and false */
  uint8_t which;
  /* commutative op whose operands may match in either order: its bit in the mask of choices; -1: match as written */
  int8_t choice;
  bool is_float;
  int64_t i;
  double f;
} tg_rule_term;

typedef struct tg_rule {
  const char *name, *text;
  uint8_t classes, choices, set;
  int8_t left, right, condition;   /* indices of the root terms; condition -1: none */
  uint8_t n, names;
  char letter[RULE_NAMES][4];
  bool constant[RULE_NAMES];       /* matches a CONST only */
  tg_rule_term term[RULE_TERMS];
} tg_rule;

struct tg_rules {
  tg_rule *rule;
  uint32_t n;
  struct { const uint16_t *list; uint32_t n; } at[TG_RULES__COUNT][TG_OP__COUNT][CLASSES];
};

int tg_rule_class_of(tg_type t);   /* -1: none */
/* The result of rule r for v; NULL: it does not match, its condition is not true, or a constant cannot be computed. */
const tg_uop *tg_rule_apply(tg_job *j, const tg_rule *r, const tg_uop *v);
bool tg_type_widens(tg_type from, tg_type to);   /* every value of `from` is a value of `to` */
bool tg_type_has(tg_type t, tg_i128 lo, tg_i128 hi);   /* every integer from lo to hi is a value of t */
#endif
