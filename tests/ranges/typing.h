/* SPDX-License-Identifier: MIT
 * The ways to give types to the names of a rule, integers and bools only: what its proof and its exhaustive check run over. */
#ifndef TG_TEST_TYPING_H
#define TG_TEST_TYPING_H
#include "ranges/rules.h"

/* name, convert: type of each name and of T, U, V; root: of both sides. */
typedef struct { const tg_rule *r; tg_type root, name[RULE_NAMES], convert[RULE_TYPES]; } typing;

/* Types that a pattern leaves open: of the operands of a comparison, of what is converted. */
typedef struct { const tg_type *list; uint32_t n, pick[3], used; } open_types;

static inline bool type_term(typing *t, int8_t at, tg_type type, open_types *o) {
  const tg_rule_term *p = &t->r->term[at];
  if (p->tag == TERM_NAME) return t->name[p->which] == TG_VOID || t->name[p->which] == type ? t->name[p->which] = type, true : false;
  if (p->tag == TERM_LITERAL) return (p->which == TG_BOOL) == (type == TG_BOOL);
  if (p->tag == TERM_CONVERT) {
    tg_type from = o->list[o->pick[o->used++]];
    t->convert[p->which] = type;
    return from != type && type_term(t, p->a, from, o);
  }
  tg_type inner = type;
  if (tg_ops[p->tag].flags & TG_OPF_B) {
    if (type != TG_BOOL) return false;
    inner = o->list[o->pick[o->used++]];
  }
  if (p->a >= 0 && !type_term(t, p->a, p->tag == TG_OP_WHERE ? TG_BOOL : inner, o)) return false;
  return (p->b < 0 || type_term(t, p->b, inner, o)) && (p->c < 0 || type_term(t, p->c, inner, o));
}

/* Calls fn for every typing of r over the types of list; gives how many there are. */
static inline uint32_t each_typing(const tg_rule *r, const tg_type *list, uint32_t n, void (*fn)(void *user, const typing *t), void *user) {
  uint32_t count = 0, open = 0;
  for (uint32_t i = 0; i < r->n; i++) open += i <= (uint32_t)r->left && r->term[i].tag < TG_OP__COUNT && (tg_ops[r->term[i].tag].flags & TG_OPF_B);
  for (uint32_t i = 0; i <= (uint32_t)r->left; i++) open += r->term[i].tag == TERM_CONVERT;
  uint32_t ways = 1;
  for (uint32_t i = 0; i < open; i++) ways *= n;
  bool compares = r->term[r->left].tag < TG_OP__COUNT && tg_ops[r->term[r->left].tag].flags & TG_OPF_B;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t w = 0; w < ways; w++) {
      typing t = {.r = r, .root = list[k]};
      open_types o = {list, n, {w % n, w / n % n, w / n / n % n}, 0};
      tg_type judged = compares ? list[o.pick[0]] : t.root;   /* a comparison belongs to the domain of its operands */
      if (!(r->classes >> tg_rule_class_of(judged) & 1) || !type_term(&t, r->left, t.root, &o)) continue;
      count++;
      fn(user, &t);
    }
  return count;
}

/* Of a term of the right side; TG_VOID if it is a literal alone. */
static inline tg_type type_of_right(const typing *t, int8_t at) {
  const tg_rule_term *p = &t->r->term[at];
  if (p->tag == TERM_NAME) return t->name[p->which];
  if (p->tag == TERM_CONVERT) return t->convert[p->which];
  if (p->tag == TERM_LITERAL) return p->which == TG_BOOL ? TG_BOOL : TG_VOID;
  if (p->tag == TERM_PREDICATE) return TG_VOID;
  if (tg_ops[p->tag].flags & TG_OPF_B) return TG_BOOL;
  const int8_t operand[3] = {p->tag == TG_OP_WHERE ? -1 : p->a, p->b, p->c};
  for (int i = 0; i < 3; i++) {
    tg_type x = operand[i] < 0 ? TG_VOID : type_of_right(t, operand[i]);
    if (x != TG_VOID) return x;
  }
  return TG_VOID;
}

/* In which type the operands of an op are that gives `type`: of a comparison, what one of them has. */
static inline tg_type operand_type(const typing *t, const tg_rule_term *p, int i, tg_type type) {
  if (p->tag == TG_OP_WHERE && i == 0) return TG_BOOL;
  if (!(tg_ops[p->tag].flags & TG_OPF_B)) return type;
  tg_type a = type_of_right(t, p->a);
  return a != TG_VOID ? a : type_of_right(t, p->b);
}

/* What a condition says of types alone; -1: it is of values. */
static inline int typed_predicate(const typing *t, const tg_rule_term *p) {
  const tg_rule_term *x = &t->r->term[p->a], *y = p->b >= 0 ? &t->r->term[p->b] : NULL;
  tg_type a = x->tag == TERM_NAME ? t->name[x->which] : x->tag == TERM_CONVERT ? t->convert[x->which] : TG_VOID;
  tg_type b = !y ? TG_VOID : y->tag == TERM_NAME ? t->name[y->which] : t->convert[y->which];
  switch (p->which) {
  case P_bits: return tg_type_bits(a);
  case P_is_float: return tg_is_float(a);
  case P_is_signed: return tg_is_signed(a);
  case P_is_int: return tg_is_int(a);
  case P_same_type: return a == b;
  case P_widens: return tg_type_widens(a, b);
  default: return -1;
  }
}
#endif
