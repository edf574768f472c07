/* SPDX-License-Identifier: MIT
 * A loop that carries a state, and threads that share it out: one query for each head against a long cache of keys. The
 * loop over the keys says what it carries and how two states of it merge; `thread kb 4` then runs four parts of it as
 * tasks. Into how many parts the keys are split is in the schedule, so the result has the same bits however many threads
 * there are. It is an example of the language: the operation that engines call is in attend.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/dsl.h>

TG_KERNEL(decode, H, T, D) {
  tg_let(BK, 32);
  tg_in(Q, f32, [H, D]);
  tg_in(K, f32, [H, T, D]);
  tg_in(V, f32, [H, T, D]);
  tg_out(O, f32, [H, D]);
  tg_opt(thread kb 4 as part block);
  tg_opt(lane d 16);
  tg(let scale = 1.44269504f / sqrt(f32(D))); /* log2(e): exponentials are of two */
  tg_range(h, H) {
    tg_define_reg(m, f32, []);
    tg_define_reg(l, f32, []);
    tg_define_reg(o, f32, [D]);
    tg(m = -inf);
    tg(l = 0);
    tg_range(d, D) tg(o[d] = 0);
    tg_range(kb, ceildiv(T, BK)) tg_carry(m, l, o) {
      tg_define_reg(s, f32, [BK]);
      tg_define_reg(m1, f32, []);
      tg_define_reg(c, f32, []);
      tg_range(j, BK) tg(s[j] = where(kb*BK + j < T, scale * sum(e : D, Q[h,e] * K[h, kb*BK + j, e]), -inf));
      tg(m1 = max(m, max(j : BK, s[j])));
      tg(c = exp2(m - m1));
      tg_range(j, BK) tg(s[j] = exp2(s[j] - m1));
      tg(l = l * c + sum(j : BK, s[j]));
      tg_range(d, D) tg(o[d] = o[d] * c + sum(j : BK, s[j] * (V[h, kb*BK + j, d] else 0)));
      tg(m = m1);
      tg_merge {
        tg(m = max(a.m, b.m));
        tg(let z = where(m == -inf, 0, m)); /* a part may have seen no key */
        tg(l = a.l * exp2(a.m - z) + b.l * exp2(b.m - z));
        tg_range(d, D) tg(o[d] = a.o[d] * exp2(a.m - z) + b.o[d] * exp2(b.m - z));
      }
    }
    tg_range(d, D) tg(O[h,d] = o[d] / l);
  }
}

enum { H = 4, MOST = 1000, D = 64 };
static float Q[H][D], K[H * MOST * D], V[H * MOST * D], O[H][D], again[H][D];

static double reference(int t, int h, int d) {
  double most = -INFINITY, sum = 0, out = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int j = 0; j < t; j++) {
      double s = 0;
      for (int e = 0; e < D; e++) s += (double)Q[h][e] * (double)K[(h * t + j) * D + e];
      s /= sqrt((double)D);
      if (!pass) most = fmax(most, s);
      else sum += exp(s - most), out += exp(s - most) * (double)V[(h * t + j) * D + d];
    }
  return out / sum;
}

static float random_float(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

int main(void) {
  srand(1);
  for (int h = 0; h < H; h++)
    for (int d = 0; d < D; d++) Q[h][d] = random_float();
  for (int i = 0; i < H * MOST * D; i++) K[i] = random_float(), V[i] = random_float();
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return 1;
  tg_binding sizes[] = {{"H", H, H, 1}, {"T", 1, MOST, 1}, {"D", D, D, 1}}; /* one compile for any number of keys */
  tg_kernel *kernel;
  if (tg_kernel_compile(ctx, &decode, &(tg_compile_options){.bindings = sizes, .bindings_n = 3}, &kernel)) {
    printf("%s\n", tg_error_message(ctx));
    return 1;
  }
  double worst = 0;
  int same = 1;
  static const int lengths[] = {1, 31, 64, 129, MOST};
  for (int x = 0; x < 5; x++) {
    int t = lengths[x];
    size_t bytes = sizeof(float) * (size_t)(H * t * D);
    tg_argument arguments[] = {{Q, sizeof Q}, {K, bytes}, {V, bytes}, {O, sizeof O}};
    int64_t params[] = {t};
    tg_launch launch = {.buffers = arguments, .buffers_n = 4, .params = params, .params_n = 1, .threads = 1};
    if (tg_kernel_run(kernel, &launch)) break;
    memcpy(again, O, sizeof O);
    launch.threads = 2;
    if (tg_kernel_run(kernel, &launch)) break;
    same &= !memcmp(again, O, sizeof O);
    for (int h = 0; h < H; h++)
      for (int d = 0; d < D; d++) worst = fmax(worst, fabs((double)O[h][d] - reference(t, h, d)));
  }
  if (*tg_error_message(ctx)) printf("%s\n", tg_error_message(ctx));
  printf("attention of %d heads over up to %d keys: largest error %.2g, one thread and two %s\n", H, MOST, worst, same ? "agree bit for bit" : "differ");
  tg_kernel_free(kernel);
  tg_context_free(ctx);
  return !(worst < 1e-5 && same);
}
