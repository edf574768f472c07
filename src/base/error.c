/* SPDX-License-Identifier: MIT
 * Records a job's first error and unwinds to the entry point. */
#include <stdio.h>
#include "base/base.h"

bool tg_protect(tg_env *e, void (*fn)(void *), void *arg) {
  jmp_buf here, *volatile outer = e->trap;
  if (setjmp(here)) {
    e->trap = outer;
    return false;
  }
  e->trap = &here;
  fn(arg);
  e->trap = outer;
  return true;
}

void tg_failv(tg_env *e, tg_status s, const char *format, va_list ap) {
  if (e->status == TG_OK) {
    e->status = s;
    size_t n = 0;
    if (s == TG_INTERNAL) n = (size_t)snprintf(e->message, sizeof e->message, "internal error (a bug in tg): ");
    vsnprintf(e->message + n, sizeof e->message - n, format, ap);
  }
  if (!e->trap) __builtin_trap(); /* called outside of tg_protect: there is nowhere to return to */
  longjmp(*e->trap, 1);
}

void tg_fail(tg_env *e, tg_status s, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  tg_failv(e, s, format, ap);
}
