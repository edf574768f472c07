/* SPDX-License-Identifier: MIT
 * A program without LLVM: it runs the kernel that another one has compiled. With a second argument, the folder must lack it. */
#include "scale.h"

int main(int argc, char **argv) {
  tg_context_options options = {};
  tg_context *context;
  if (argc < 2) return 2;
  options.cache = argv[1];
  if (tg_context_create_runtime(&options, &context)) return 1;
  int wrong;
  if (argc > 2) {
    tg_kernel *kernel;
    tg_binding size = {"N", 1, 1000, 1};
    tg_compile_options compile = {&size, 1, NULL, NULL, 0, NULL};
    wrong = tg_kernel_compile(context, &scale, &compile, &kernel) != TG_MISS || kernel;
    printf("%s\n", tg_error_message(context));
  } else wrong = run_scale(context, 1);
  tg_context_free(context);
  return wrong;
}
