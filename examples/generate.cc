// SPDX-License-Identifier: MIT
// A C++ program that writes a kernel: one statement for each tap of an FIR filter whose coefficients are known only at run
// time, no statement for those that are zero. C runs while the kernel is built, so a loop around tg_add_statement is
// all the template language there is; what it makes is an ordinary program, proved and scheduled like any other.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>
#include <tg/dsl.h>

// The macro form: C's loops and conditions stand among the words of the language.
TG_KERNEL(filter, N) {
  const auto &taps = *static_cast<const std::vector<float> *>(tg_user);
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) {
    std::string sum = "0.0f";
    for (size_t k = 0; k < taps.size(); k++) {
      if (taps[k] == 0) continue;
      char term[80];
      std::snprintf(term, sizeof term, " + %.9g * (x[i - %zu] else 0)", static_cast<double>(taps[k]), k);
      sum += term;
    }
    tg_add_statement(tg_b_, ("y[i] = " + sum).c_str(), __FILE__, __LINE__);
  }
}

// The builder form, for programs that have their own idea of a scope: here, a polynomial of any degree in any type.
struct polynomial { const char *type; std::vector<double> coefficients; };

static void polynomial_body(tg_builder *b, void *user) {
  const auto &p = *static_cast<const polynomial *>(user);
  tg_add_declaration(b, "in", (std::string("x, ") + p.type + ", [N]").c_str(), __FILE__, __LINE__);
  tg_add_declaration(b, "out", (std::string("y, ") + p.type + ", [N]").c_str(), __FILE__, __LINE__);
  tg_scope loop = tg_scope_open(b, "range", "i, N", __FILE__, __LINE__);
  std::string horner = "0.0";
  for (double c : p.coefficients) {
    char term[64];
    std::snprintf(term, sizeof term, ") * x[i] + %.17g", c);
    horner = "(" + horner + term;
  }
  if (loop.live) tg_add_statement(b, ("y[i] = " + horner).c_str(), __FILE__, __LINE__);
  tg_scope_close(&loop);
}

static tg_context *context;

static tg_kernel *compile(const tg_kernel_def &def, const void *user) {
  tg_binding sizes[] = {{"N", 1, 1000, 1}};   // any length up to 1000, given at each launch
  tg_compile_options options = {};
  options.bindings = sizes;
  options.bindings_n = 1;
  options.user = const_cast<void *>(user);
  tg_kernel *kernel = nullptr;
  if (tg_kernel_compile(context, &def, &options, &kernel)) std::fprintf(stderr, "%s\n", tg_error_message(context));
  return kernel;
}

template <class T> static bool run(tg_kernel *kernel, std::vector<T> &x, std::vector<T> &y) {
  int64_t n = static_cast<int64_t>(x.size());
  tg_argument arguments[] = {{x.data(), x.size() * sizeof(T)}, {y.data(), y.size() * sizeof(T)}};
  tg_launch launch = {};
  launch.buffers = arguments;
  launch.buffers_n = 2;
  launch.params = &n;
  launch.params_n = 1;
  bool bad = !kernel || tg_kernel_run(kernel, &launch);
  if (bad && kernel) std::fprintf(stderr, "%s\n", tg_error_message(context));
  tg_kernel_free(kernel);
  return !bad;
}

int main() {
  if (tg_context_create(nullptr, &context)) return 1;
  int wrong = 0;

  std::vector<float> taps = {0.5f, 0, 0.25f, 0, 0, -0.125f}, x(777), y(777);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 16);
  if (!run(compile(filter, &taps), x, y)) return 1;
  for (size_t i = 0; i < x.size(); i++) {
    float want = 0;
    for (size_t k = 0; k < taps.size() && k <= i; k++) want += taps[k] * x[i - k];
    wrong += y[i] != want;   // exact in f32
  }
  std::printf("filter of %zu taps: %d wrong\n", taps.size(), wrong);

  polynomial cube = {"f64", {1, -2, 3, -4}};
  tg_kernel_def def = {"cube", "N", __FILE__, __LINE__, polynomial_body};
  std::vector<double> u(100), v(100);
  for (size_t i = 0; i < u.size(); i++) u[i] = static_cast<double>(i) / 8;
  if (!run(compile(def, &cube), u, v)) return 1;
  int off = 0;
  for (size_t i = 0; i < u.size(); i++) off += std::fabs(v[i] - (((u[i] - 2) * u[i] + 3) * u[i] - 4)) > 1e-9;
  std::printf("polynomial of degree %zu: %d wrong\n", cube.coefficients.size() - 1, off);
  tg_context_free(context);
  return wrong + off != 0;
}
