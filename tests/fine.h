/* SPDX-License-Identifier: MIT
 * Calls of tg that must succeed, or be refused with a text, in tests whose state is a struct r with `context` and `name`. */
#ifndef TG_TEST_FINE_H
#define TG_TEST_FINE_H
#include "test.h"
#include "tg/tg.h"

#define why(r) tg_error_message((r)->context)
#define FINE(call)                                                                    \
  do {                                                                                \
    tg_status s_ = (call);                                                            \
    CHECK(s_ == TG_OK, "%s: %s: %s: %s", r->name, #call, tg_status_name(s_), why(r)); \
  } while (0)
#define REFUSED(call, text)                                                                                       \
  do {                                                                                                            \
    tg_status s_ = (call);                                                                                        \
    CHECK(s_ == TG_EINVAL && strstr(why(r), text), "%s: %s: %s: %s", r->name, #call, tg_status_name(s_), why(r)); \
  } while (0)
#endif
