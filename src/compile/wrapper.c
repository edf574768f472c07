/* SPDX-License-Identifier: MIT
 * The wrapper's checks of its arguments: what devices/device.c and devices/signature.c do at a launch, as code. All
 * sizes are kept within 2^62; what passes that is refused, as at a launch. */
#include <stdio.h>
#include "compile/wrapper.h"

/* Arithmetic on sizes. %beyond becomes true where a result passes 2^62. */
static const char helpers[] =
    "define internal i64 @tg.fit(i128 %v, ptr %beyond) {\n"
    "  %high = icmp sgt i128 %v, 4611686018427387904\n"
    "  %low = icmp slt i128 %v, -4611686018427387904\n"
    "  %far = or i1 %high, %low\n"
    "  br i1 %far, label %bad, label %good\n"
    "bad:\n  store i1 true, ptr %beyond\n  ret i64 1\n"
    "good:\n  %r = trunc i128 %v to i64\n  ret i64 %r\n}\n"
    "define internal i64 @tg.add(i64 %a, i64 %b, ptr %beyond) {\n"
    "  %x = sext i64 %a to i128\n  %y = sext i64 %b to i128\n  %v = add i128 %x, %y\n"
    "  %r = call i64 @tg.fit(i128 %v, ptr %beyond)\n  ret i64 %r\n}\n"
    "define internal i64 @tg.sub(i64 %a, i64 %b, ptr %beyond) {\n"
    "  %x = sext i64 %a to i128\n  %y = sext i64 %b to i128\n  %v = sub i128 %x, %y\n"
    "  %r = call i64 @tg.fit(i128 %v, ptr %beyond)\n  ret i64 %r\n}\n"
    "define internal i64 @tg.mul(i64 %a, i64 %b, ptr %beyond) {\n"
    "  %x = sext i64 %a to i128\n  %y = sext i64 %b to i128\n  %v = mul i128 %x, %y\n"
    "  %r = call i64 @tg.fit(i128 %v, ptr %beyond)\n  ret i64 %r\n}\n"
    "define internal i64 @tg.cdiv(i64 %a, i64 %b) {\n"
    "  %zero = icmp eq i64 %b, 0\n  br i1 %zero, label %none, label %some\n"
    "none:\n  ret i64 0\n"
    "some:\n  %r = sdiv i64 %a, %b\n  ret i64 %r\n}\n"
    "define internal i64 @tg.cmod(i64 %a, i64 %b) {\n"
    "  %zero = icmp eq i64 %b, 0\n  br i1 %zero, label %none, label %some\n"
    "none:\n  ret i64 0\n"
    "some:\n  %r = srem i64 %a, %b\n  ret i64 %r\n}\n"
    "define internal i64 @tg.idiv(i64 %a, i64 %b) {\n"
    "  %q = call i64 @tg.cdiv(i64 %a, i64 %b)\n  %r = call i64 @tg.cmod(i64 %a, i64 %b)\n"
    "  %left = icmp ne i64 %r, 0\n  %x = xor i64 %r, %b\n  %apart = icmp slt i64 %x, 0\n"
    "  %down = and i1 %left, %apart\n  %d = zext i1 %down to i64\n  %v = sub i64 %q, %d\n  ret i64 %v\n}\n"
    "define internal i64 @tg.mod(i64 %a, i64 %b) {\n"
    "  %r = call i64 @tg.cmod(i64 %a, i64 %b)\n"
    "  %left = icmp ne i64 %r, 0\n  %x = xor i64 %r, %b\n  %apart = icmp slt i64 %x, 0\n"
    "  %up = and i1 %left, %apart\n  %d = select i1 %up, i64 %b, i64 0\n  %v = add i64 %r, %d\n  ret i64 %v\n}\n"
    /* shifts by fewer than 0 or more than 62 bits give 0, to the right 0 or -1 */
    "define internal i64 @tg.shl(i64 %a, i64 %b, ptr %beyond) {\n"
    "  %less = icmp slt i64 %b, 0\n  %more = icmp sge i64 %b, 63\n  %out = or i1 %less, %more\n"
    "  br i1 %out, label %none, label %some\n"
    "none:\n  ret i64 0\n"
    "some:\n  %far = icmp sgt i64 %b, 62\n  %by = select i1 %far, i64 63, i64 %b\n"
    "  %x = sext i64 %a to i128\n  %n = zext i64 %by to i128\n  %v = shl i128 %x, %n\n"
    "  %r = call i64 @tg.fit(i128 %v, ptr %beyond)\n  ret i64 %r\n}\n"
    "define internal i64 @tg.shr(i64 %a, i64 %b) {\n"
    "  %less = icmp slt i64 %b, 0\n  %more = icmp sge i64 %b, 64\n  %out = or i1 %less, %more\n"
    "  %by = select i1 %out, i64 63, i64 %b\n  %r = ashr i64 %a, %by\n  ret i64 %r\n}\n"
    /* Do the strides lay all elements on places of their own? Each stride must pass what all shorter ones, and equal
     * ones before it, span together. */
    "define internal i1 @tg.apart(ptr %extent, ptr %stride, i64 %n, ptr %beyond) {\n"
    "entry:\n  br label %one\n"
    "one:\n  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]\n"
    "  %done = icmp eq i64 %i, %n\n  br i1 %done, label %yes, label %look\n"
    "look:\n  %ei.at = getelementptr i64, ptr %extent, i64 %i\n  %ei = load i64, ptr %ei.at\n"
    "  %si.at = getelementptr i64, ptr %stride, i64 %i\n  %si = load i64, ptr %si.at\n"
    "  %empty = icmp sle i64 %ei, 0\n  br i1 %empty, label %yes, label %any\n"
    "any:\n  br label %other\n"
    "other:\n  %k = phi i64 [ 0, %any ], [ %k.next, %add ]\n  %reach = phi i64 [ 0, %any ], [ %reach.next, %add ]\n"
    "  %end = icmp eq i64 %k, %n\n  br i1 %end, label %judge, label %add\n"
    "add:\n  %ek.at = getelementptr i64, ptr %extent, i64 %k\n  %ek = load i64, ptr %ek.at\n"
    "  %sk.at = getelementptr i64, ptr %stride, i64 %k\n  %sk = load i64, ptr %sk.at\n"
    "  %shorter = icmp slt i64 %sk, %si\n  %equal = icmp eq i64 %sk, %si\n  %before = icmp slt i64 %k, %i\n"
    "  %tie = and i1 %equal, %before\n  %counts = or i1 %shorter, %tie\n"
    "  %m = sub i64 %ek, 1\n  %span = call i64 @tg.mul(i64 %m, i64 %sk, ptr %beyond)\n"
    "  %part = select i1 %counts, i64 %span, i64 0\n"
    "  %reach.next = call i64 @tg.add(i64 %reach, i64 %part, ptr %beyond)\n"
    "  %k.next = add i64 %k, 1\n  br label %other\n"
    "judge:\n  %over = icmp sgt i64 %si, %reach\n  %single = icmp eq i64 %ei, 1\n  %fine = or i1 %over, %single\n"
    "  br i1 %fine, label %next, label %no\n"
    "next:\n  %i.next = add i64 %i, 1\n  br label %one\n"
    "yes:\n  ret i1 true\n"
    "no:\n  ret i1 false\n}\n";

/* ---- text ---- */

typedef struct {
  char text[24];
} value; /* of a value's name, or of a number */

static value number(int64_t n) {
  value v;
  snprintf(v.text, sizeof v.text, "%lld", (long long)n);
  return v;
}

static value next(tg_wrapper *w) {
  value v;
  snprintf(v.text, sizeof v.text, "%%v%u", w->values++);
  return v;
}

static value put(tg_wrapper *w, const char *format, ...) TG_PRINTF(2, 3);
static value put(tg_wrapper *w, const char *format, ...) {
  value v = next(w);
  va_list ap;
  tg_str_printf(&w->out, "  %s = ", v.text);
  va_start(ap, format);
  tg_str_vprintf(&w->out, format, ap);
  va_end(ap);
  tg_str_puts(&w->out, "\n");
  return v;
}

/* Returns a result of its own, which stands for the message, unless `right` holds. */
static void check(tg_wrapper *w, value right, const char *message) {
  uint32_t i = w->messages.n + 1;
  tg_str_printf(&w->out, "  br i1 %s, label %%ok%u, label %%no%u\nno%u:\n  ret i32 %u\nok%u:\n", right.text, i, i, i, i,
                i);
  tg_push(w->env, &w->messages, message);
}

/* ---- sizes ---- */

static value cut(tg_wrapper *w, tg_type t, value v) {
  int bits = 8 * tg_type_bytes(t);
  if (t == TG_BOOL) return put(w, "and i64 %s, 1", v.text);
  if (bits == 64 || t == TG_INDEX) return v; /* tg.fit refuses what would not fit */
  value narrow = put(w, "trunc i64 %s to i%d", v.text, bits);
  return put(w, "%s i%d %s to i64", tg_is_signed(t) ? "sext" : "zext", bits, narrow.text);
}

static value compare(tg_wrapper *w, const char *how, value a, value b) {
  value is = put(w, "icmp %s i64 %s, %s", how, a.text, b.text);
  return put(w, "zext i1 %s to i64", is.text);
}

static value call2(tg_wrapper *w, const char *function, value a, value b, bool may_pass) {
  return put(w, "call i64 @tg.%s(i64 %s, i64 %s%s)", function, a.text, b.text, may_pass ? ", ptr %beyond" : "");
}

static value choose(tg_wrapper *w, const char *how, value a, value b) {
  value is = put(w, "icmp %s i64 %s, %s", how, a.text, b.text);
  return put(w, "select i1 %s, i64 %s, i64 %s", is.text, a.text, b.text);
}

static value operation(tg_wrapper *w, const tg_signature_code *c, const value *a) {
  value zero = number(0);
  switch (c->op) {
  case TG_OP_CAST: return c->type == TG_BOOL ? compare(w, "ne", a[0], zero) : a[0];
  case TG_OP_ADD: return call2(w, "add", a[0], a[1], true);
  case TG_OP_SUB: return call2(w, "sub", a[0], a[1], true);
  case TG_OP_MUL: return call2(w, "mul", a[0], a[1], true);
  case TG_OP_NEG: return call2(w, "sub", zero, a[0], true);
  case TG_OP_IDIV: return call2(w, "idiv", a[0], a[1], false);
  case TG_OP_MOD: return call2(w, "mod", a[0], a[1], false);
  case TG_OP_CDIV: return call2(w, "cdiv", a[0], a[1], false);
  case TG_OP_CMOD: return call2(w, "cmod", a[0], a[1], false);
  case TG_OP_SHL: return call2(w, "shl", a[0], a[1], true);
  case TG_OP_SHR: return call2(w, "shr", a[0], a[1], false);
  case TG_OP_MAX: return choose(w, "sgt", a[0], a[1]);
  case TG_OP_MIN: return choose(w, "slt", a[0], a[1]);
  case TG_OP_AND: return put(w, "and i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_OR: return put(w, "or i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_XOR: return put(w, "xor i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_NOT: return put(w, "xor i64 %s, -1", a[0].text);
  case TG_OP_LT: return compare(w, "slt", a[0], a[1]);
  case TG_OP_LE: return compare(w, "sle", a[0], a[1]);
  case TG_OP_EQ: return compare(w, "eq", a[0], a[1]);
  case TG_OP_NE: return compare(w, "ne", a[0], a[1]);
  case TG_OP_ABS: return choose(w, "sgt", a[0], call2(w, "sub", zero, a[0], true));
  case TG_OP_WHERE: {
    value is = put(w, "icmp ne i64 %s, 0", a[0].text);
    return put(w, "select i1 %s, i64 %s, i64 %s", is.text, a[1].text, a[2].text);
  }
  default:
    tg_fail(w->env, TG_ELIMIT, "%s: a size or a requirement has %s in it; ahead of time they are integer arithmetic",
            w->name, tg_ops[c->op].name);
  }
}

static value expression(tg_wrapper *w, const tg_signature_expr *e) {
  enum { STACK = 65 };
  value stack[STACK];
  uint32_t n = 0;
  for (uint32_t i = e->start; i < e->start + e->n; i++) {
    const tg_signature_code *c = &tg_signature_codes(w->signature)[i];
    value v;
    if (tg_is_float(c->type) || tg_is_float(c->from))
      tg_fail(w->env, TG_ELIMIT, "%s: a requirement compares floats; ahead of time they are integer arithmetic",
              w->name);
    n -= c->arity;
    if (c->op == TG_OP_PARAM)
      v = put(w, "add i64 %%p%lld, 0", (long long)c->arg);
    else if (c->op == TG_OP_CONST)
      v = number(c->arg);
    else
      v = cut(w, c->type, operation(w, c, &stack[n]));
    stack[n++] = v;
  }
  return stack[0];
}

static const char *string(const tg_wrapper *w, uint32_t at) { return tg_signature_strings(w->signature) + at; }

static value not_beyond(tg_wrapper *w) {
  value b = put(w, "load i1, ptr %%beyond");
  return put(w, "xor i1 %s, true", b.text);
}

static void store(tg_wrapper *w, value v, const char *array, uint32_t i) {
  value at = put(w, "getelementptr i64, ptr %%%s, i64 %u", array, i);
  tg_str_printf(&w->out, "  store i64 %s, ptr %s\n", v.text, at.text);
}

/* The bytes that buffer b must have, as tg_signature_bytes finds them. */
static value bytes_of(tg_wrapper *w, uint32_t b) {
  const tg_signature_buffer *buffer = &tg_signature_buffers(w->signature)[b];
  const char *name = string(w, buffer->name);
  if (buffer->bytes >= 0) return number(buffer->bytes);
  const tg_signature_expr *e = &tg_signature_exprs(w->signature)[buffer->first];
  value elements = number(1), last = number(0), empty = number(0);
  for (uint32_t i = 0; i < buffer->rank; i++) {
    value d = expression(w, &e[i]);
    check(w, put(w, "icmp sge i64 %s, 0", d.text),
          tg_format(w->env, "'%s' has a negative size in dimension %u", name, i));
    value none = compare(w, "eq", d, number(0));
    empty = put(w, "or i64 %s, %s", empty.text, none.text);
    value factor = put(w, "add i64 %s, %s", d.text, none.text); /* 1 for a dimension of 0 */
    store(w, d, "extent", i);
    if (buffer->strided) {
      value stride = expression(w, &e[buffer->rank + i]);
      check(w, put(w, "icmp sge i64 %s, 0", stride.text),
            tg_format(w->env, "'%s' has a negative stride in dimension %u", name, i));
      store(w, stride, "stride", i);
      last = call2(w, "add", last, call2(w, "mul", call2(w, "sub", factor, number(1), true), stride, true), true);
    } else
      elements = call2(w, "mul", elements, factor, true);
  }
  if (buffer->strided) elements = call2(w, "add", last, number(1), true);
  value size = call2(w, "mul", elements, number(tg_type_bytes(buffer->type)), true);
  value is = put(w, "icmp ne i64 %s, 0", empty.text);
  size = put(w, "select i1 %s, i64 0, i64 %s", is.text, size.text);
  check(w, not_beyond(w), tg_format(w->env, "the size of '%s' is out of range: it passes 2^62 bytes", name));
  if (buffer->strided && buffer->role != TG_ROLE_IN)
    check(w, put(w, "call i1 @tg.apart(ptr %%extent, ptr %%stride, i64 %u, ptr %%beyond)", buffer->rank),
          tg_format(w->env, "the strides of '%s', which the kernel writes, lay two elements on one place", name));
  return size;
}

static void check_params(tg_wrapper *w) {
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_signature_param *p = &tg_signature_params(s)[i];
    const char *name = string(w, p->name);
    const int64_t far = (int64_t)1 << 62;
    int64_t lo = p->lo < -far ? -far : p->lo, hi = p->hi > far ? far : p->hi;
    value low = put(w, "icmp sge i64 %%p%u, %lld", i, (long long)lo);
    value high = put(w, "icmp sle i64 %%p%u, %lld", i, (long long)hi);
    check(w, put(w, "and i1 %s, %s", low.text, high.text),
          tg_format(w->env, "%s is not within %lld..%lld, for which the kernel was built", name, (long long)lo,
                    (long long)hi));
    if (p->multiple == 1) continue;
    value left = put(w, "srem i64 %%p%u, %lld", i, (long long)p->multiple);
    check(w, put(w, "icmp eq i64 %s, 0", left.text),
          tg_format(w->env, "%s is no multiple of %lld, for which the kernel was built", name, (long long)p->multiple));
  }
  for (uint32_t i = s->exprs_n - s->requires_n; i < s->exprs_n; i++) {
    const tg_signature_expr *e = &tg_signature_exprs(s)[i];
    value holds = put(w, "icmp ne i64 %s, 0", expression(w, e).text), inside = not_beyond(w);
    check(w, put(w, "and i1 %s, %s", holds.text, inside.text),
          tg_format(w->env, "the parameters break a requirement: %s", string(w, e->text)));
  }
}

typedef struct {
  value from, to;
} span;

static span check_buffer(tg_wrapper *w, uint32_t i) {
  const tg_signature_buffer *b = &tg_signature_buffers(w->signature)[i];
  const char *name = string(w, b->name);
  value bytes = bytes_of(w, i);
  int element = tg_type_bytes(b->type);
  check(w, put(w, "icmp uge i64 %%n%u, %s", i, bytes.text), tg_format(w->env, "'%s' has too few bytes", name));
  value at = put(w, "ptrtoint ptr %%b%u to i64", i);
  value is = put(w, "icmp ne i64 %s, 0", at.text), none = put(w, "icmp eq i64 %s, 0", bytes.text);
  check(w, put(w, "or i1 %s, %s", is.text, none.text), tg_format(w->env, "'%s' is NULL", name));
  value low = put(w, "and i64 %s, %d", at.text, element - 1);
  check(w, put(w, "icmp eq i64 %s, 0", low.text),
        tg_format(w->env, "'%s' is not aligned to its elements of %d bytes", name, element));
  return (span){at, put(w, "add i64 %s, %s", at.text, bytes.text)};
}

static void check_overlaps(tg_wrapper *w, const span *at) {
  const tg_signature_buffer *b = tg_signature_buffers(w->signature);
  for (uint32_t i = 0; i < w->signature->buffers_n; i++)
    for (uint32_t k = 0; b[i].role != TG_ROLE_IN && k < w->signature->buffers_n; k++) {
      if (k == i || (k < i && b[k].role != TG_ROLE_IN)) continue;
      value behind = put(w, "icmp uge i64 %s, %s", at[k].from.text, at[i].to.text);
      value before = put(w, "icmp uge i64 %s, %s", at[i].from.text, at[k].to.text);
      check(w, put(w, "or i1 %s, %s", behind.text, before.text),
            tg_format(w->env, "'%s', which the kernel writes, overlaps '%s'", string(w, b[i].name),
                      string(w, b[k].name)));
    }
}

/* ---- the function ---- */

static void gather_arguments(tg_wrapper *w) {
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    value at = put(w, "getelementptr ptr, ptr %%buffers, i64 %u", i);
    tg_str_printf(&w->out, "  store ptr %%b%u, ptr %s\n", i, at.text);
  }
  for (uint32_t i = 0; i < s->params_n; i++) {
    value at = put(w, "getelementptr i64, ptr %%params, i64 %u", i);
    tg_str_printf(&w->out, "  store i64 %%p%u, ptr %s\n", i, at.text);
  }
}

static void pick_and_run(tg_wrapper *w) {
  value pick = put(w, "call i32 @tg.pick()");
  check(w, put(w, "icmp ne i32 %s, 0", pick.text),
        "this processor, or its system, has the instruction sets of none of the targets");
  uint32_t memory = w->messages.n + 1;
  tg_push(w->env, &w->messages, "out of memory for the kernel's workspace");
  tg_str_printf(&w->out, "  switch i32 %s, label %%run0 [", pick.text);
  for (uint32_t i = 1; i < w->n; i++) tg_str_printf(&w->out, " i32 %u, label %%run%u", i + 1, i);
  tg_str_puts(&w->out, " ]\n");
  for (uint32_t i = 0; i < w->n; i++) {
    tg_str_printf(&w->out, "run%u:\n", i);
    value failed = put(w, "call i32 @run.t%u(ptr %%buffers, ptr %%params, ptr %%each, ptr %%user)", i);
    value out = put(w, "mul i32 %s, %u", failed.text, memory);
    tg_str_printf(&w->out, "  ret i32 %s\n", out.text);
  }
}

void tg_wrapper_write(tg_wrapper *w) {
  const tg_signature *s = w->signature;
  span *spans = tg_new(w->env, span, s->buffers_n + 1);
  tg_str_puts(&w->out, helpers);
  tg_wrapper_pick(w);
  for (uint32_t i = 0; i < w->n; i++) tg_wrapper_run(w, i);
  tg_str_printf(&w->out, "define i32 @%s(", w->name);
  for (uint32_t i = 0; i < s->buffers_n; i++) tg_str_printf(&w->out, "ptr %%b%u, i64 %%n%u, ", i, i);
  for (uint32_t i = 0; i < s->params_n; i++) tg_str_printf(&w->out, "i64 %%p%u, ", i);
  tg_str_printf(&w->out,
                "ptr %%each, ptr %%user) {\n  %%beyond = alloca i1\n  store i1 false, ptr %%beyond\n"
                "  %%extent = alloca [16 x i64]\n  %%stride = alloca [16 x i64]\n"
                "  %%buffers = alloca [%u x ptr]\n  %%params = alloca [%u x i64]\n",
                s->buffers_n + 1, s->params_n + 1);
  check_params(w);
  for (uint32_t i = 0; i < s->buffers_n; i++) spans[i] = check_buffer(w, i);
  check_overlaps(w, spans);
  gather_arguments(w);
  pick_and_run(w);
  tg_str_puts(&w->out, "}\n");
}
