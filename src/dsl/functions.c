/* SPDX-License-Identifier: MIT
 * The definitions of functions: texts of functions.def as graphs over ARG, made once a job when first requested. */
#include "dsl/functions.h"
#include "dsl/text.h"

typedef struct { uint16_t op; uint8_t type; const char *text; } definition;

static const definition definitions[] = {
#define F(op, type, text) {TG_OP_##op, type, text},
#define f16 TG_F16
#define f32 TG_F32
#define f64 TG_F64
#include "dsl/functions.def"
#undef f64
#undef f32
#undef f16
#undef F
};

enum { EXACT = TG_OP_POW - TG_OP_RSQRT + 1, FAST = TG_OP_FAST_TANH - TG_OP_FAST_EXP2 + 1 };
_Static_assert(EXACT == 10 && FAST == 4, "the functions stand together in the opcode table");

static uint32_t number_of(tg_op op) {
  return tg_is_fast(op) ? EXACT + (uint32_t)(op - TG_OP_FAST_EXP2) : (uint32_t)(op - TG_OP_RSQRT);
}

static const tg_uop *argument(tg_job *j, tg_type type, int64_t position) {
  return tg_make(j, TG_OP_ARG, type, 1, position, 0, NULL);
}

/* What a fast function is where a target has no instruction for it, and in the interpreter. */
static tg_op exact_form(tg_op op) {
  return op == TG_OP_FAST_EXP2    ? TG_OP_EXP2
         : op == TG_OP_FAST_RSQRT ? TG_OP_RSQRT
         : op == TG_OP_FAST_TANH  ? TG_OP_TANH
                                  : op;
}

/* type: of the definition; that of its arguments, where it is f16, is f32. */
static const tg_uop *parse(tg_job *j, tg_op op, tg_type type) {
  static const char *const names[2] = {"x", "y"};
  const tg_type of = type == TG_F16 ? TG_F32 : type;
  const tg_uop *args[2] = {argument(j, of, 0), argument(j, of, 1)};
  for (size_t i = 0; i < TG_COUNT(definitions); i++)
    if (definitions[i].op == op && definitions[i].type == type) {
      const char *text = definitions[i].text;
      return tg_parse_expr(j, text, (uint32_t)tg_ops[op].arity, names, args);
    }
  return NULL;
}

const tg_uop *tg_function_definition(tg_job *j, tg_op op, tg_type type) {
  if (!tg_is_function(op) || type < TG_F16 || type > TG_F64) return NULL;
  if (!j->functions) j->functions = tg_new(&j->env, const tg_uop *, (EXACT + FAST) * 4);
  const tg_uop **kept = &j->functions[number_of(op) * 4 + (type - TG_F16)];
  if (*kept) return *kept;
  if (type == TG_F32 || type == TG_F64) return *kept = parse(j, exact_form(op), type);
  const tg_uop *wide[2];
  for (int i = 0; i < 2; i++) wide[i] = tg_cast(j, TG_F32, argument(j, type, i));
  return *kept = tg_cast(j, type, tg_function_expand(j, op, TG_F32, wide));
}

const tg_uop *tg_function_expand(tg_job *j, tg_op op, tg_type type, const tg_uop *const *operands) {
  const tg_uop *args[2] = {argument(j, type, 0), argument(j, type, 1)};
  const tg_uop *d = tg_function_definition(j, op, type);
  if (!d) tg_bug(&j->env, "%s has no definition on %s", tg_ops[op].text, tg_type_name[type]);
  return tg_substitute(j, d, (uint32_t)tg_ops[op].arity, args, operands);
}

const tg_uop *tg_function_to_half(tg_job *j, tg_op op, const tg_uop *x) {
  if (op != TG_OP_EXP2 && op != TG_OP_EXP) return NULL;
  const tg_uop **kept = &j->halves[op == TG_OP_EXP], *arg = argument(j, TG_F32, 0);
  if (!*kept) *kept = tg_cast(j, TG_F16, parse(j, op, TG_F16));
  return tg_substitute(j, *kept, 1, &arg, &x);
}
