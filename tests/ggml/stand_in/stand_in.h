/* SPDX-License-Identifier: MIT
 * What tests of the back end see of the stand-in of ggml beside ggml's own names. */
#ifndef TESTS_GGML_STAND_IN_OWN_H
#define TESTS_GGML_STAND_IN_OWN_H
#include <ggml-backend-impl.h>
#include <ggml-impl.h>

extern char stand_in_told[4096];   /* the log since the last node */
extern bool stand_in_is_another;   /* true: operations have other numbers */
double stand_in_value(enum ggml_type, const void *row, int64_t i);
#endif
