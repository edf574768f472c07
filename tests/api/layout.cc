// SPDX-License-Identifier: MIT
// Sizes and offsets of the public structs as C++ has them.
#include <cstddef>
#include <cstdint>
#include "tg/attention.h"
#include "tg/build.h"
#include "tg/device.h"
#include "tg/dsl.h"
#include "tg/gemm.h"
#include "tg/nn.h"
#include "tg/program.h"

#define SIZE(T, n) static_assert(sizeof(T) == (n), #T " has another size: fields are only ever appended");
#define AT(T, field, n) static_assert(offsetof(T, field) == (n), #T "." #field " has moved");
#include "layout.h"
#undef SIZE
#undef AT

extern "C" int layouts_of_cc(void);

enum {
  LAYOUTS = 0
#define SIZE(T, n) +1
#define AT(T, field, n) +1
#include "layout.h"
};

extern "C" int layouts_of_cc(void) { return LAYOUTS; }
