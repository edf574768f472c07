/* SPDX-License-Identifier: MIT
 * The C headers of functions that are built ahead of time: what all of them have. */
#include <ctype.h>
#include "compile/wrapper.h"
#include "tg/tg.h"

static bool is_kept(const char *name) {
  static const char *const kept[] = {
      "alignas",      "alignof",      "and",       "and_eq",   "asm",      "auto",      "bitand",   "bitor",
      "bool",         "break",        "case",      "catch",    "char",     "class",     "compl",    "concept",
      "const",        "constexpr",    "continue",  "decltype", "default",  "delete",    "do",       "double",
      "else",         "enum",         "explicit",  "export",   "extern",   "false",     "float",    "for",
      "friend",       "goto",         "if",        "inline",   "int",      "long",      "main",     "mutable",
      "namespace",    "new",          "noexcept",  "not",      "not_eq",   "nullptr",   "operator", "or",
      "or_eq",        "private",      "protected", "public",   "register", "requires",  "restrict", "return",
      "short",        "signed",       "sizeof",    "static",   "struct",   "switch",    "template", "this",
      "thread_local", "throw",        "true",      "try",      "typedef",  "typeid",    "typename", "union",
      "unsigned",     "using",        "virtual",   "void",     "volatile", "wchar_t",   "while",    "xor",
      "xor_eq",       "parallel_for", "user",      "malloc",   "free",     "getauxval", "prctl"};
  for (size_t i = 0; i < TG_COUNT(kept); i++)
    if (!strcmp(kept[i], name)) return true;
  return false;
}

bool tg_wrapper_name_fits(const char *name) {
  if (!isalpha((unsigned char)*name) || is_kept(name)) return false;
  for (; *name; name++)
    if (!isalnum((unsigned char)*name) && *name != '_') return false;
  return true;
}

const char *tg_wrapper_c_name(tg_wrapper *w, const char *name) {
  char *own = tg_format(w->env, "%s%s", name, is_kept(name) ? "_" : "");
  for (char *c = own; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  return own;
}

static const char *c_type(tg_type t) {
  static const char *const of[TG_TYPE__COUNT] = {
      [TG_BOOL] = "uint8_t", [TG_I8] = "int8_t",    [TG_I16] = "int16_t",   [TG_I32] = "int32_t",
      [TG_I64] = "int64_t",  [TG_U8] = "uint8_t",   [TG_U16] = "uint16_t",  [TG_U32] = "uint32_t",
      [TG_U64] = "uint64_t", [TG_F16] = "uint16_t", [TG_BF16] = "uint16_t", [TG_F32] = "float",
      [TG_F64] = "double",   [TG_E4M3] = "uint8_t", [TG_E5M2] = "uint8_t"};
  return of[t] ? of[t] : "void";
}

/* An expression of sizes as people write it, from its postfix code. */
static const char *size_text(tg_wrapper *w, const tg_signature_expr *e) {
  const char *stack[65];
  uint32_t n = 0;
  for (uint32_t i = e->start; i < e->start + e->n; i++) {
    const tg_signature_code *c = &tg_signature_codes(w->signature)[i];
    const tg_signature_param *p = tg_signature_params(w->signature);
    const char *op = tg_ops[c->op].text, *text;
    n -= c->arity;
    if (c->op == TG_OP_PARAM)
      text = tg_signature_strings(w->signature) + p[c->arg].name;
    else if (c->op == TG_OP_CONST)
      text = tg_format(w->env, "%lld", (long long)c->arg);
    else if (c->arity == 2 && !isalpha((unsigned char)*op))
      text = tg_format(w->env, "(%s %s %s)", stack[n], op, stack[n + 1]);
    else if (c->arity == 2)
      text = tg_format(w->env, "%s(%s, %s)", op, stack[n], stack[n + 1]);
    else if (c->arity == 1)
      text = c->op == TG_OP_CAST ? stack[n] : tg_format(w->env, "%s(%s)", op, stack[n]);
    else
      text = tg_format(w->env, "where(%s, %s, %s)", stack[n], stack[n + 1], stack[n + 2]);
    stack[n++] = text;
  }
  return stack[0];
}

static void put_shape(tg_wrapper *w, tg_str *o, const tg_signature_buffer *b) {
  const tg_signature_expr *e = &tg_signature_exprs(w->signature)[b->first];
  for (uint32_t part = 0; part < (b->strided ? 2u : 1u); part++) {
    tg_str_puts(o, part ? ", strides [" : "[");
    for (uint32_t i = 0; i < b->rank; i++)
      tg_str_printf(o, "%s%s", i ? ", " : "", size_text(w, &e[part * b->rank + i]));
    tg_str_puts(o, "]");
  }
}

void tg_wrapper_header_targets(tg_wrapper *w, tg_str *o) {
  for (uint32_t i = 0; i < w->targets_n; i++) tg_str_printf(o, "%s %s", i ? "," : "", w->target[i]->name);
}

void tg_wrapper_header_lines(tg_wrapper *w, tg_str *o) {
  static const char *const roles[] = {
      [TG_ROLE_IN] = "read", [TG_ROLE_OUT] = "written", [TG_ROLE_INOUT] = "read and written"};
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_signature_buffer *b = &tg_signature_buffers(s)[i];
    const char *name = tg_signature_strings(s) + b->name;
    tg_str_printf(o, " *   %-10s %s, %s ", tg_wrapper_c_name(w, name), roles[b->role], tg_type_name[b->type]);
    put_shape(w, o, b);
    tg_str_puts(o, "\n");
  }
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_signature_param *p = &tg_signature_params(s)[i];
    tg_str_printf(o, " *   %-10s %lld..%lld", tg_wrapper_c_name(w, tg_signature_strings(s) + p->name), (long long)p->lo,
                  (long long)p->hi);
    tg_str_puts(o, p->multiple > 1 ? tg_format(w->env, ", a multiple of %lld\n", (long long)p->multiple) : "\n");
  }
  for (uint32_t i = s->exprs_n - s->requires_n; i < s->exprs_n; i++)
    tg_str_printf(o, " *   it must hold: %s\n", tg_signature_strings(s) + tg_signature_exprs(s)[i].text);
}

void tg_wrapper_header_before(tg_str *o, const char *guard) {
  tg_str_printf(o,
                "#ifndef TG_BUILT_%s_H\n#define TG_BUILT_%s_H\n#include <stddef.h>\n#include <stdint.h>\n"
                "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                guard, guard);
}

void tg_wrapper_header_behind(tg_str *o) { tg_str_puts(o, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"); }

void tg_wrapper_header_arguments(tg_wrapper *w, tg_str *o) {
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_signature_buffer *b = &tg_signature_buffers(s)[i];
    const char *name = tg_wrapper_c_name(w, tg_signature_strings(s) + b->name);
    tg_str_printf(o, "%s%s *%s, size_t %s_bytes,\n    ", b->role == TG_ROLE_IN ? "const " : "", c_type(b->type), name,
                  name);
  }
  for (uint32_t i = 0; i < s->params_n; i++)
    tg_str_printf(o, "int64_t %s, ", tg_wrapper_c_name(w, tg_signature_strings(s) + tg_signature_params(s)[i].name));
  if (s->params_n) tg_str_puts(o, "\n    ");
}

void tg_wrapper_header_messages(tg_wrapper *w, tg_str *o) {
  tg_str_printf(o,
                "/* What a result means; \"\" for 0. */\nstatic inline const char *%s_message(int result) {\n"
                "  switch (result) {\n",
                w->name);
  for (uint32_t i = 0; i < w->messages.n; i++) {
    tg_str_printf(o, "  case %u: return \"", i + 1);
    for (const char *c = w->messages.data[i]; *c; c++) {
      if (*c == '"' || *c == '\\') tg_str_puts(o, "\\");
      tg_str_put(o, *c == '\n' ? " " : c, 1);
    }
    tg_str_puts(o, "\";\n");
  }
  tg_str_puts(o, "  default: return \"\";\n  }\n}\n");
}
