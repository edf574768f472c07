// SPDX-License-Identifier: MIT
// Attention from C++, on the program's own threads: the sequences of a batch have lengths of their own and lie one
// behind another, Q, K and V packed in one array [tokens][3][heads][head] as one product gives them. Each sequence
// attends only to itself; an empty one may be among them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>
#include <tg/attention.h>

namespace {

constexpr int64_t heads = 6, head = 80, threads = 3;

// One thread for each task but the first. The last argument is tg's, and goes to each task.
void parallel_for(void *, int64_t n, void (*task)(void *, int64_t), void *arg) {
  std::vector<std::thread> others;
  for (int64_t i = 1; i < n; i++) others.emplace_back(task, arg, i);
  task(arg, 0);
  for (auto &t : others) t.join();
}

struct deleter {
  void operator()(tg_context *c) const { tg_context_free(c); }
  void operator()(tg_attention *a) const { tg_attention_free(a); }
};

class self_attention {
 public:
  explicit self_attention(tg_context *c) : context_(c) {
    tg_attention_desc d = {};
    d.head = head;
    d.heads = heads;
    d.queries = d.keys = {0, 4096};
    d.causal = TG_CAUSAL_TOP_LEFT;
    tg_attention *a = nullptr;
    if (tg_attention_plan(c, &d, &a)) throw std::runtime_error(tg_error_message(c));
    plan_.reset(a);
  }

  // starts: where each sequence begins, and behind them the number of all tokens.
  void operator()(const float *qkv, const std::vector<int32_t> &starts, float *o) {
    const tg_exec exec = {threads, parallel_for, nullptr};
    tg_attention_call call = {};
    call.batch = static_cast<int64_t>(starts.size()) - 1;
    call.query_starts = call.key_starts = starts.data();
    call.q = qkv;
    call.k = qkv + heads * head;
    call.v = qkv + 2 * heads * head;
    call.o = o;                               // its strides stay 0: dense, [tokens][heads][head]
    for (int64_t *strides : {call.q_strides, call.k_strides, call.v_strides})
      strides[1] = head, strides[2] = 3 * heads * head;
    call.exec = &exec;
    workspace_.resize(std::max(workspace_.size(), tg_attention_workspace(plan_.get(), &call)));
    call.workspace = workspace_.data();
    call.workspace_bytes = workspace_.size();
    if (tg_attention_run(plan_.get(), &call)) throw std::runtime_error(tg_error_message(context_));
  }

 private:
  tg_context *context_;
  std::unique_ptr<tg_attention, deleter> plan_;
  std::vector<char> workspace_;
};

// ---- the check ----

// Element e of token i of the sequence that begins at `first`, by the formula in double.
double formula(const float *qkv, int64_t first, int64_t i, int64_t h, int64_t e) {
  auto of = [&](int64_t token, int64_t which) { return qkv + ((first + token) * 3 + which) * heads * head + h * head; };
  double sum = 0, want = 0;
  for (int64_t j = 0; j <= i; j++) {
    double score = 0;
    for (int64_t x = 0; x < head; x++) score += static_cast<double>(of(i, 0)[x]) * static_cast<double>(of(j, 1)[x]);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(head)));
    sum += weight, want += weight * static_cast<double>(of(j, 2)[e]);
  }
  return want / sum;
}

}  // namespace

int main() try {
  tg_context *c = nullptr;
  if (tg_context_create(nullptr, &c)) return 1;
  std::unique_ptr<tg_context, deleter> owner(c);
  const std::vector<int32_t> starts = {0, 5, 5, 71, 72};   // 5 tokens, none, 66, one
  const int64_t tokens = starts.back();
  std::vector<float> qkv(static_cast<size_t>(tokens * 3 * heads * head)), o(static_cast<size_t>(tokens * heads * head));
  for (size_t i = 0; i < qkv.size(); i++) qkv[i] = std::sin(static_cast<float>(i * i % 7919));
  self_attention attend(c);
  attend(qkv.data(), starts, o.data());

  double worst = 0;
  for (size_t s = 0; s + 1 < starts.size(); s++)
    for (int64_t t = starts[s]; t < starts[s + 1]; t++)
      for (int64_t x = 0; x < heads * head; x++) {
        const double want = formula(qkv.data(), starts[s], t - starts[s], x / head, x % head);
        worst = std::max(worst, std::fabs(static_cast<double>(o[static_cast<size_t>(t * heads * head + x)]) - want));
      }
  std::printf("%lld tokens in %zu sequences on up to %lld threads: largest error %.1e\n",
              static_cast<long long>(tokens), starts.size() - 1, static_cast<long long>(threads), worst);
  return !(worst < 1e-5);
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
