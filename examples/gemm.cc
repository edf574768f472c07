// SPDX-License-Identifier: MIT
// The GEMM operation from C++: a plan in a class, calls with std::vector, an error in the epilogue with its place, and products in groups of rows
// as a mixture of experts has them.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <tg/gemm.h>

namespace {

struct deleter {
  void operator()(tg_context *c) const { tg_context_free(c); }
  void operator()(tg_gemm *g) const { tg_gemm_free(g); }
};
using context = std::unique_ptr<tg_context, deleter>;

class product {
 public:
  product(tg_context *c, const tg_gemm_desc &d) : context_(c) {
    tg_gemm *g = nullptr;
    if (tg_gemm_plan(c, &d, &g)) throw std::runtime_error(tg_error_message(c));
    plan_.reset(g);
    workspace_.resize(tg_gemm_workspace(g, nullptr));
  }
  void operator()(tg_gemm_call call) {
    call.workspace = workspace_.data();
    call.workspace_bytes = workspace_.size();
    if (tg_gemm_run(plan_.get(), &call)) throw std::runtime_error(tg_error_message(context_));
  }

 private:
  tg_context *context_;
  std::unique_ptr<tg_gemm, deleter> plan_;
  std::vector<char> workspace_;
};

}  // namespace

int main() try {
  const int64_t in = 48, out = 32, experts = 4;
  tg_context *c = nullptr;
  if (tg_context_create(nullptr, &c)) return 1;
  context owner(c);

  tg_gemm_desc d = {};
  d.m = {0, 4096};
  d.n = {out, 0};
  d.k = {in, 0};
  d.epilogue = "acc * sigmoid(acc)";
  try {
    product refused(c, d);
    return 1;
  } catch (const std::runtime_error &e) {
    std::printf("%s\n", e.what());
  }

  d.epilogue = nullptr;
  product experts_of(c, d);
  std::vector<int64_t> rows = {5, 0, 17, 2};   // tokens that the router gave to each
  std::vector<float> x(24 * in), weights(experts * in * out), y(24 * out);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  for (size_t i = 0; i < weights.size(); i++) weights[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
  tg_gemm_call call = {};
  call.a = x.data();
  call.b = weights.data();
  call.c = y.data();
  call.batch = experts;
  call.group_m = rows.data();
  experts_of(call);

  int wrong = 0;
  int64_t row = 0;
  for (int64_t e = 0; e < experts; e++)
    for (int64_t r = 0; r < rows[static_cast<size_t>(e)]; r++, row++)
      for (int64_t j = 0; j < out; j++) {
        float want = 0;
        for (int64_t k = 0; k < in; k++) want += x[static_cast<size_t>(row * in + k)] * weights[static_cast<size_t>((e * in + k) * out + j)];
        wrong += y[static_cast<size_t>(row * out + j)] != want;
      }
  std::printf("%lld rows by %lld experts: %s\n", static_cast<long long>(row), static_cast<long long>(experts), wrong ? "wrong" : "right");
  return wrong != 0;
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
