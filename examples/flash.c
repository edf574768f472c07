/* SPDX-License-Identifier: MIT
 * Flash attention, as its paper writes it: one pass over the keys with a running maximum and sum, and no T x T scores
 * in memory. The tail of the keys is masked, so any T will do. It is an example of the language: the operation that
 * engines call is in attend.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tg/dsl.h>

TG_KERNEL(flash, H, T, D) {
  tg_knob(BQ, 16, 8, 32);
  tg_knob(BK, 32, 16, 64);
  tg_in(Q, f32, [H, T, D]);
  tg_in(K, f32, [H, T, D]);
  tg_in(V, f32, [H, T, D]);
  tg_out(O, f32, [H, T, D]);
  tg(let scale = 1.44269504f / sqrt(f32(D))); /* log2(e): exponentials are of two */
  tg_range(h, H, global) tg_range(qb, ceildiv(T, BQ), global) {
    tg_define_reg(m, f32, [BQ]);
    tg_define_reg(l, f32, [BQ]);
    tg_define_reg(o, f32, [BQ, D]);
    tg_define_reg(s, f32, [BQ, BK]);
    tg_range(i, BQ) {
      tg(m[i] = -inf);
      tg(l[i] = 0);
      tg_range(d, D) tg(o[i,d] = 0);
    }
    tg_range(kb, ceildiv(T, BK)) {
      tg_range(i, BQ) tg_range(j, BK)
        tg(s[i,j] = where(kb*BK + j < T, scale * sum(d : D, (Q[h, qb*BQ + i, d] else 0) * K[h, kb*BK + j, d]), -inf));
      tg_range(i, BQ) {
        tg(let m1 = max(m[i], max(j : BK, s[i,j])));
        tg(let z = where(m1 == -inf, 0, m1));
        tg(let c = exp2(m[i] - z));
        tg_range(j, BK) tg(s[i,j] = exp2(s[i,j] - z));
        tg(l[i] = l[i] * c + sum(j : BK, s[i,j]));
        tg_range(d, D) tg(o[i,d] = o[i,d] * c + sum(j : BK, s[i,j] * (V[h, kb*BK + j, d] else 0)));
        tg(m[i] = m1);
      }
    }
    tg_range(i, BQ) tg_range(d, D)
      tg(O[h, qb*BQ + i, d] = where(l[i] == 0, 0, o[i,d] / l[i]) if qb*BQ + i < T);
  }
}

enum { H = 2, T = 75, D = 32 };
static float Q[H][T][D], K[H][T][D], V[H][T][D], O[H][T][D];

static double reference(int h, int i, int d) {
  double s[T], most = -INFINITY, sum = 0, out = 0;
  for (int j = 0; j < T; j++) {
    s[j] = 0;
    for (int e = 0; e < D; e++) s[j] += (double)Q[h][i][e] * (double)K[h][j][e];
    s[j] /= sqrt((double)D);
    most = fmax(most, s[j]);
  }
  for (int j = 0; j < T; j++) sum += exp(s[j] - most), out += exp(s[j] - most) * (double)V[h][j][d];
  return out / sum;
}

int main(void) {
  float *all[] = {&Q[0][0][0], &K[0][0][0], &V[0][0][0]};
  srand(1);
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < H * T * D; i++) all[t][i] = (float)rand() / (float)RAND_MAX * 2 - 1;
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return 1;
  tg_binding sizes[] = {{"H", H, H, 1}, {"T", T, T, 1}, {"D", D, D, 1}};
  tg_compile_options options = {.bindings = sizes, .bindings_n = 3};
  tg_kernel *kernel;
  if (tg_kernel_compile(ctx, &flash, &options, &kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return 1;
  }
  tg_argument args[] = {{Q, sizeof Q}, {K, sizeof K}, {V, sizeof V}, {O, sizeof O}};
  tg_launch launch = {.buffers = args, .buffers_n = 4, .threads = -1};
  if (tg_kernel_run(kernel, &launch)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return 1;
  }
  double worst = 0;
  for (int h = 0; h < H; h++)
    for (int i = 0; i < T; i++)
      for (int d = 0; d < D; d++) worst = fmax(worst, fabs((double)O[h][i][d] - reference(h, i, d)));
  printf("flash attention, %d heads, %d tokens, head size %d: largest error %.1e\n", H, T, D, worst);
  tg_kernel_free(kernel);
  tg_context_free(ctx);
  return !(worst < 1e-5);
}
