/* SPDX-License-Identifier: MIT
 * Reading and checking the fields of descriptors and calls. */
#include <stdio.h>
#include "api/api.h"
#include "dsl/parse.h"
#include "kit/fields.h"
#include "kit/words.h"

tg_status tg_kit_fail(tg_context *c, tg_status s, const char *format, ...) {
  char message[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  return tg_context_fail(c, s, message);
}

bool tg_kit_read_dim(tg_dim d, int64_t most, tg_kit_dim *out) {
  *out = (tg_kit_dim){d.lo, d.hi ? d.hi : d.lo};
  return d.lo >= 0 && out->hi >= d.lo && out->hi <= most;
}

bool tg_kit_read_size(tg_kit_dim d, int64_t given, int64_t *out) {
  bool fixed = d.lo == d.hi;
  *out = fixed ? d.lo : given;
  return fixed ? !given || given == d.lo : tg_span_has(d, given);
}

tg_status tg_kit_read_dims(tg_context *c, const char *desc, const tg_kit_sized *sizes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!tg_kit_read_dim(sizes[i].given, (int64_t)1 << 31, sizes[i].to))
      return tg_kit_fail(c, TG_EINVAL, "%s.%s: %lld..%lld is no range of sizes within 0..2^31", desc, sizes[i].name,
                         (long long)sizes[i].given.lo, (long long)sizes[i].given.hi);
  return TG_OK;
}

tg_status tg_kit_check_size(tg_context *c, const char *call, const char *name, tg_kit_dim d, int64_t given,
                            int64_t *out) {
  if (tg_kit_read_size(d, given, out)) return TG_OK;
  return tg_kit_fail(c, TG_EINVAL, "%s.%s = %lld, but the plan is for %lld..%lld", call, name, (long long)given,
                     (long long)d.lo, (long long)d.hi);
}

tg_status tg_kit_check_type(tg_context *c, const char *desc, const char *field, tg_type t, const char *names) {
  if (t < TG_TYPE__COUNT && tg_kit_reads(names, tg_type_name[t])) return TG_OK;
  return tg_kit_fail(c, TG_EINVAL, "%s.%s: type %d is none of %s", desc, field, (int)t, names);
}

tg_status tg_kit_check_flags(tg_context *c, const char *desc, uint32_t flags, uint32_t known) {
  return flags & ~known ? tg_kit_fail(c, TG_EINVAL, "%s.flags: 0x%x has bits that mean nothing", desc, flags) : TG_OK;
}

bool tg_kit_is_integer(tg_type t) { return t >= TG_I8 && t <= TG_U64; }
bool tg_kit_is_float(tg_type t) { return t == TG_F16 || t == TG_BF16 || t == TG_F32 || t == TG_F64; }

/* Is this an identifier that neither the language nor the formals nor the n arguments before it have? */
static bool is_name(const char *name, const char *formals, const tg_kit_argument *before, uint32_t n) {
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  bool taken = tg_name_refused(name) || tg_kit_reads(formals, name);
  for (uint32_t i = 0; i < n; i++) taken |= !strcmp(name, before[i].name);
  return length && length < 40 && !name[length] && !(*name >= '0' && *name <= '9') && !taken;
}

tg_status tg_kit_read_arguments(tg_context *c, const tg_kit_formals *f, const tg_kit_given given[TG_KIT_ARGUMENTS],
                                tg_kit_argument out[TG_KIT_ARGUMENTS], uint32_t *out_n) {
  *out_n = 0;
  for (uint32_t a = 0; a < TG_KIT_ARGUMENTS; a++) {
    const tg_kit_given *x = &given[a];
    if (!x->name) continue;
    if (!f->read) return tg_kit_fail(c, TG_EINVAL, "%s.arg[%u]: '%s' without %s", f->desc, a, x->name, f->reader);
    if (a != *out_n)
      return tg_kit_fail(c, TG_EINVAL, "%s.arg[%u]: '%s' stands behind an argument without a name", f->desc, a,
                         x->name);
    if (!is_name(x->name, f->formals, out, a))
      return tg_kit_fail(c, TG_EINVAL, "%s.arg[%u]: '%s' is no name, or one that is taken (as %s are)", f->desc, a,
                         x->name, f->spoken);
    tg_type t = x->type ? x->type : f->type;
    char field[24];
    snprintf(field, sizeof field, "arg[%u].type", a);
    tg_status s = tg_kit_check_type(c, f->desc, field, t, TG_KIT_ELEMENTS);
    if (s != TG_OK) return s;
    if (x->per > f->most_per)
      return tg_kit_fail(c, TG_EINVAL, "%s.arg[%u].per: %u is none of %s", f->desc, a, x->per, f->pers);
    out[(*out_n)++] = (tg_kit_argument){x->name, t, x->per};
  }
  return TG_OK;
}
