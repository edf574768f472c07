/* SPDX-License-Identifier: MIT
 * A program that compiles its kernel into the folder given. Also C++. */
#include "scale.h"

int main(int argc, char **argv) {
  tg_context_options options = {};
  tg_context *context;
  if (argc < 2) return 2;
  options.cache = argv[1];
  if (tg_context_create(&options, &context)) return 1;
  int wrong = run_scale(context, argc > 2);
  tg_context_free(context);
  return wrong;
}
