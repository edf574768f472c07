/* SPDX-License-Identifier: MIT
 * The wrapper's checks of its arguments: what devices/device.c and devices/signature.c do at a launch, as code. All
 * sizes are kept within 2^62; what passes that is refused, as at a launch. */
#include <stdio.h>
#include "compile/wrapper.h"

/* Arithmetic on sizes. %beyond becomes true where a result passes 2^62. */
static const char helpers[] =
    "declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64 immarg, i1 immarg)\n"
    "declare void @llvm.memset.inline.p0.i64(ptr, i8, i64 immarg, i1 immarg)\n"
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

tg_ir tg_ir_number(int64_t n) {
  tg_ir v;
  snprintf(v.text, sizeof v.text, "%lld", (long long)n);
  return v;
}

tg_ir tg_ir_put(tg_wrapper *w, const char *format, ...) {
  tg_ir v;
  va_list ap;
  snprintf(v.text, sizeof v.text, "%%v%u", w->values++);
  tg_str_printf(&w->out, "  %s = ", v.text);
  va_start(ap, format);
  tg_str_vprintf(&w->out, format, ap);
  va_end(ap);
  tg_str_puts(&w->out, "\n");
  return v;
}

tg_ir tg_ir_add(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_put(w, "add i64 %s, %s", a.text, b.text); }
tg_ir tg_ir_sub(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_put(w, "sub i64 %s, %s", a.text, b.text); }
tg_ir tg_ir_mul(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_put(w, "mul i64 %s, %s", a.text, b.text); }
tg_ir tg_ir_divided(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_put(w, "udiv i64 %s, %s", a.text, b.text); }

tg_ir tg_ir_is(tg_wrapper *w, const char *how, tg_ir a, tg_ir b) {
  return tg_ir_put(w, "icmp %s i64 %s, %s", how, a.text, b.text);
}

tg_ir tg_ir_select(tg_wrapper *w, tg_ir which, tg_ir a, tg_ir b) {
  return tg_ir_put(w, "select i1 %s, i64 %s, i64 %s", which.text, a.text, b.text);
}

tg_ir tg_ir_smaller(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_select(w, tg_ir_is(w, "slt", a, b), a, b); }
tg_ir tg_ir_larger(tg_wrapper *w, tg_ir a, tg_ir b) { return tg_ir_select(w, tg_ir_is(w, "sgt", a, b), a, b); }

static tg_ir place(tg_wrapper *w, const char *type, tg_ir array, uint32_t i) {
  return tg_ir_put(w, "getelementptr %s, ptr %s, i64 %u", type, array.text, i);
}

void tg_ir_store(tg_wrapper *w, const char *type, tg_ir v, tg_ir array, uint32_t i) {
  tg_ir at = place(w, type, array, i);
  tg_str_printf(&w->out, "  store %s %s, ptr %s\n", type, v.text, at.text);
}

tg_ir tg_ir_load(tg_wrapper *w, const char *type, tg_ir array, uint32_t i) {
  return tg_ir_put(w, "load %s, ptr %s", type, place(w, type, array, i).text);
}

void tg_wrapper_check(tg_wrapper *w, tg_ir right, const char *message) {
  uint32_t i = w->messages.n + 1;
  tg_str_printf(&w->out, "  br i1 %s, label %%ok%u, label %%no%u\nno%u:\n  ret i32 %u\nok%u:\n", right.text, i, i, i, i,
                i);
  tg_push(w->env, &w->messages, message);
}

/* ---- sizes ---- */

static tg_ir cut(tg_wrapper *w, tg_type t, tg_ir v) {
  int bits = 8 * tg_type_bytes(t);
  if (t == TG_BOOL) return tg_ir_put(w, "and i64 %s, 1", v.text);
  if (bits == 64 || t == TG_INDEX) return v; /* tg.fit refuses what would not fit */
  tg_ir narrow = tg_ir_put(w, "trunc i64 %s to i%d", v.text, bits);
  return tg_ir_put(w, "%s i%d %s to i64", tg_is_signed(t) ? "sext" : "zext", bits, narrow.text);
}

static tg_ir compare(tg_wrapper *w, const char *how, tg_ir a, tg_ir b) {
  tg_ir is = tg_ir_put(w, "icmp %s i64 %s, %s", how, a.text, b.text);
  return tg_ir_put(w, "zext i1 %s to i64", is.text);
}

static tg_ir call2(tg_wrapper *w, const char *function, tg_ir a, tg_ir b, bool may_pass) {
  return tg_ir_put(w, "call i64 @tg.%s(i64 %s, i64 %s%s)", function, a.text, b.text, may_pass ? ", ptr %beyond" : "");
}

static tg_ir choose(tg_wrapper *w, const char *how, tg_ir a, tg_ir b) {
  tg_ir is = tg_ir_put(w, "icmp %s i64 %s, %s", how, a.text, b.text);
  return tg_ir_put(w, "select i1 %s, i64 %s, i64 %s", is.text, a.text, b.text);
}

static tg_ir operation(tg_wrapper *w, const tg_signature_code *c, const tg_ir *a) {
  tg_ir zero = tg_ir_number(0);
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
  case TG_OP_AND: return tg_ir_put(w, "and i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_OR: return tg_ir_put(w, "or i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_XOR: return tg_ir_put(w, "xor i64 %s, %s", a[0].text, a[1].text);
  case TG_OP_NOT: return tg_ir_put(w, "xor i64 %s, -1", a[0].text);
  case TG_OP_LT: return compare(w, "slt", a[0], a[1]);
  case TG_OP_LE: return compare(w, "sle", a[0], a[1]);
  case TG_OP_EQ: return compare(w, "eq", a[0], a[1]);
  case TG_OP_NE: return compare(w, "ne", a[0], a[1]);
  case TG_OP_ABS: return choose(w, "sgt", a[0], call2(w, "sub", zero, a[0], true));
  case TG_OP_WHERE: {
    tg_ir is = tg_ir_put(w, "icmp ne i64 %s, 0", a[0].text);
    return tg_ir_put(w, "select i1 %s, i64 %s, i64 %s", is.text, a[1].text, a[2].text);
  }
  default:
    tg_fail(w->env, TG_ELIMIT, "%s: a size or a requirement has %s in it; ahead of time they are integer arithmetic",
            w->name, tg_ops[c->op].name);
  }
}

static tg_ir expression(tg_wrapper *w, const tg_signature_expr *e) {
  enum { STACK = 65 };
  tg_ir stack[STACK];
  uint32_t n = 0;
  for (uint32_t i = e->start; i < e->start + e->n; i++) {
    const tg_signature_code *c = &tg_signature_codes(w->signature)[i];
    tg_ir v;
    if (tg_is_float(c->type) || tg_is_float(c->from))
      tg_fail(w->env, TG_ELIMIT, "%s: a requirement compares floats; ahead of time they are integer arithmetic",
              w->name);
    n -= c->arity;
    if (c->op == TG_OP_PARAM)
      v = tg_ir_put(w, "add i64 %%p%lld, 0", (long long)c->arg);
    else if (c->op == TG_OP_CONST)
      v = tg_ir_number(c->arg);
    else
      v = cut(w, c->type, operation(w, c, &stack[n]));
    stack[n++] = v;
  }
  return stack[0];
}

static const char *string(const tg_wrapper *w, uint32_t at) { return tg_signature_strings(w->signature) + at; }

static tg_ir not_beyond(tg_wrapper *w) {
  tg_ir b = tg_ir_put(w, "load i1, ptr %%beyond");
  return tg_ir_put(w, "xor i1 %s, true", b.text);
}

/* The bytes that buffer b must have, as tg_signature_bytes finds them. */
static tg_ir bytes_of(tg_wrapper *w, uint32_t b) {
  const tg_signature_buffer *buffer = &tg_signature_buffers(w->signature)[b];
  const char *name = string(w, buffer->name);
  if (buffer->bytes >= 0 && buffer->before)
    tg_fail(w->env, TG_ELIMIT, "%s: '%s' has a negative stride; ahead of time a stride is 0 or more", w->name, name);
  if (buffer->bytes >= 0) return tg_ir_number(buffer->bytes);
  const tg_signature_expr *e = &tg_signature_exprs(w->signature)[buffer->first];
  tg_ir elements = tg_ir_number(1), last = tg_ir_number(0), empty = tg_ir_number(0);
  for (uint32_t i = 0; i < buffer->rank; i++) {
    tg_ir d = expression(w, &e[i]);
    tg_wrapper_check(w, tg_ir_put(w, "icmp sge i64 %s, 0", d.text),
          tg_format(w->env, "'%s' has a negative size in dimension %u", name, i));
    tg_ir none = compare(w, "eq", d, tg_ir_number(0));
    empty = tg_ir_put(w, "or i64 %s, %s", empty.text, none.text);
    tg_ir factor = tg_ir_put(w, "add i64 %s, %s", d.text, none.text); /* 1 for a dimension of 0 */
    tg_ir_store(w, "i64", d, (tg_ir){"%extent"}, i);
    if (buffer->strided) {
      tg_ir stride = expression(w, &e[buffer->rank + i]);
      tg_wrapper_check(w, tg_ir_put(w, "icmp sge i64 %s, 0", stride.text),
            tg_format(w->env, "'%s' has a negative stride in dimension %u", name, i));
      tg_ir_store(w, "i64", stride, (tg_ir){"%stride"}, i);
      last = call2(w, "add", last, call2(w, "mul", call2(w, "sub", factor, tg_ir_number(1), true), stride, true), true);
    } else
      elements = call2(w, "mul", elements, factor, true);
  }
  if (buffer->strided) elements = call2(w, "add", last, tg_ir_number(1), true);
  tg_ir size = call2(w, "mul", elements, tg_ir_number(tg_type_bytes(buffer->type)), true);
  tg_ir is = tg_ir_put(w, "icmp ne i64 %s, 0", empty.text);
  size = tg_ir_put(w, "select i1 %s, i64 0, i64 %s", is.text, size.text);
  tg_wrapper_check(w, not_beyond(w), tg_format(w->env, "the size of '%s' is out of range: it passes 2^62 bytes", name));
  if (buffer->strided && buffer->role != TG_ROLE_IN) {   /* tg.apart is for tensors that have elements */
    tg_ir apart = tg_ir_put(w, "call i1 @tg.apart(ptr %%extent, ptr %%stride, i64 %u, ptr %%beyond)", buffer->rank);
    tg_wrapper_check(w, tg_ir_put(w, "or i1 %s, %s", is.text, apart.text),
                     tg_format(w->env, "the strides of '%s', which the kernel writes, lay two elements on one place",
                               name));
  }
  return size;
}

void tg_wrapper_check_params(tg_wrapper *w) {
  const tg_signature *s = w->signature;
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_signature_param *p = &tg_signature_params(s)[i];
    const char *name = string(w, p->name);
    const int64_t far = (int64_t)1 << 62;
    int64_t lo = p->lo < -far ? -far : p->lo, hi = p->hi > far ? far : p->hi;
    tg_ir low = tg_ir_put(w, "icmp sge i64 %%p%u, %lld", i, (long long)lo);
    tg_ir high = tg_ir_put(w, "icmp sle i64 %%p%u, %lld", i, (long long)hi);
    tg_wrapper_check(w, tg_ir_put(w, "and i1 %s, %s", low.text, high.text),
          tg_format(w->env, "%s is not within %lld..%lld, for which the kernel was built", name, (long long)lo,
                    (long long)hi));
    if (p->multiple == 1) continue;
    tg_ir left = tg_ir_put(w, "srem i64 %%p%u, %lld", i, (long long)p->multiple);
    tg_wrapper_check(w, tg_ir_put(w, "icmp eq i64 %s, 0", left.text),
          tg_format(w->env, "%s is no multiple of %lld, for which the kernel was built", name, (long long)p->multiple));
  }
  for (uint32_t i = s->exprs_n - s->requires_n; i < s->exprs_n; i++) {
    const tg_signature_expr *e = &tg_signature_exprs(s)[i];
    tg_ir holds = tg_ir_put(w, "icmp ne i64 %s, 0", expression(w, e).text), inside = not_beyond(w);
    tg_wrapper_check(w, tg_ir_put(w, "and i1 %s, %s", holds.text, inside.text),
          tg_format(w->env, "the parameters break a requirement: %s", string(w, e->text)));
  }
}

typedef struct {
  tg_ir from, to;
} span;

static span check_buffer(tg_wrapper *w, uint32_t i) {
  const tg_signature_buffer *b = &tg_signature_buffers(w->signature)[i];
  const char *name = string(w, b->name);
  tg_ir bytes = bytes_of(w, i);
  int element = tg_type_bytes(b->type);
  tg_wrapper_check(w, tg_ir_put(w, "icmp uge i64 %%n%u, %s", i, bytes.text),
                   tg_format(w->env, "'%s' has too few bytes", name));
  tg_ir at = tg_ir_put(w, "ptrtoint ptr %%b%u to i64", i);
  tg_ir is = tg_ir_put(w, "icmp ne i64 %s, 0", at.text), none = tg_ir_put(w, "icmp eq i64 %s, 0", bytes.text);
  tg_wrapper_check(w, tg_ir_put(w, "or i1 %s, %s", is.text, none.text), tg_format(w->env, "'%s' is NULL", name));
  tg_ir low = tg_ir_put(w, "and i64 %s, %d", at.text, element - 1);
  tg_wrapper_check(w, tg_ir_put(w, "icmp eq i64 %s, 0", low.text),
        tg_format(w->env, "'%s' is not aligned to its elements of %d bytes", name, element));
  return (span){at, tg_ir_put(w, "add i64 %s, %s", at.text, bytes.text)};
}

static void check_overlaps(tg_wrapper *w, const span *at) {
  const tg_signature_buffer *b = tg_signature_buffers(w->signature);
  for (uint32_t i = 0; i < w->signature->buffers_n; i++)
    for (uint32_t k = 0; b[i].role != TG_ROLE_IN && k < w->signature->buffers_n; k++) {
      if (k == i || (k < i && b[k].role != TG_ROLE_IN)) continue;
      tg_ir behind = tg_ir_put(w, "icmp uge i64 %s, %s", at[k].from.text, at[i].to.text);
      tg_ir before = tg_ir_put(w, "icmp uge i64 %s, %s", at[i].from.text, at[k].to.text);
      tg_wrapper_check(w, tg_ir_put(w, "or i1 %s, %s", behind.text, before.text),
            tg_format(w->env, "'%s', which the kernel writes, overlaps '%s'", string(w, b[i].name),
                      string(w, b[k].name)));
    }
}

void tg_wrapper_check_buffers(tg_wrapper *w, bool overlaps) {
  span *spans = tg_new(w->env, span, w->signature->buffers_n + 1);
  for (uint32_t i = 0; i < w->signature->buffers_n; i++) spans[i] = check_buffer(w, i);
  if (overlaps) check_overlaps(w, spans);
}

/* ---- functions ---- */

void tg_wrapper_begin(tg_wrapper *w) {
  tg_str_puts(&w->out, helpers);
  tg_wrapper_pick(w);
}

uint32_t tg_wrapper_add(tg_wrapper *w, tg_wrapped kernel) {
  tg_push(w->env, &w->of, kernel);
  return w->of.n - 1;
}

void tg_wrapper_end(tg_wrapper *w) {
  for (uint32_t i = 0; i < w->of.n; i++) tg_wrapper_run(w, i);
}

void tg_wrapper_arguments(tg_wrapper *w) {
  for (uint32_t i = 0; i < w->signature->buffers_n; i++) tg_str_printf(&w->out, "ptr %%b%u, i64 %%n%u, ", i, i);
  for (uint32_t i = 0; i < w->signature->params_n; i++) tg_str_printf(&w->out, "i64 %%a%u, ", i);
}

void tg_wrapper_start(tg_wrapper *w) {
  tg_str_puts(&w->out, "  %beyond = alloca i1\n  store i1 false, ptr %beyond\n"
                       "  %extent = alloca [16 x i64]\n  %stride = alloca [16 x i64]\n");
}

tg_ir tg_wrapper_picked(tg_wrapper *w) {
  tg_ir pick = tg_ir_put(w, "call i32 @tg.pick()");
  tg_wrapper_check(w, tg_ir_put(w, "icmp ne i32 %s, 0", pick.text),
                   "this processor, or its system, has the instruction sets of none of the targets");
  return pick;
}

uint32_t tg_wrapper_no_memory(tg_wrapper *w) {
  tg_push(w->env, &w->messages, "out of memory for the kernel's workspace");
  return w->messages.n;
}
