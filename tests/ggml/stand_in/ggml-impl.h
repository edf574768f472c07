/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GGML_STAND_IN_IMPL_H
#define TESTS_GGML_STAND_IN_IMPL_H
#include <string.h>
#include "ggml.h"

__attribute__((format(printf, 1, 2))) void stand_in_log(const char *format, ...);
#define GGML_LOG_WARN(...) stand_in_log(__VA_ARGS__)
#define GGML_LOG_ERROR(...) stand_in_log(__VA_ARGS__)

static inline int32_t ggml_get_op_params_i32(const struct ggml_tensor *t, uint32_t i) { return t->op_params[i]; }
static inline float ggml_get_op_params_f32(const struct ggml_tensor *t, uint32_t i) {
  float f;
  memcpy(&f, &t->op_params[i], sizeof f);
  return f;
}
#endif
