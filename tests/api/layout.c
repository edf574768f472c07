/* SPDX-License-Identifier: MIT
 * Sizes and offsets of the public structs as C11 has them; layout.cc is the same of C++. What is wrong does not compile. */
#include <stddef.h>
#include <stdio.h>
#include "tg/attention.h"
#include "tg/build.h"
#include "tg/device.h"
#include "tg/dsl.h"
#include "tg/gemm.h"
#include "tg/nn.h"
#include "tg/program.h"

#define SIZE(T, n) _Static_assert(sizeof(T) == (n), #T " has another size: fields are only ever appended");
#define AT(T, field, n) _Static_assert(offsetof(T, field) == (n), #T "." #field " has moved");
#include "layout.h"
#undef SIZE
#undef AT

int layouts_of_cc(void);

enum {
  LAYOUTS = 0
#define SIZE(T, n) +1
#define AT(T, field, n) +1
#include "layout.h"
};

int main(void) {
  int cc = layouts_of_cc();
  printf("%d passed, %d failed\n", LAYOUTS + (cc == LAYOUTS ? cc : 0), cc != LAYOUTS);
  return cc != LAYOUTS;
}
