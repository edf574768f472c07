/* SPDX-License-Identifier: MIT
 * See plain.h. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "plain.h"

#define IN(type, x, i) const type *restrict x = b[i]
#define OUT(type, x, i) type *restrict x = b[i]
#define KERNEL(name) static void name(void *const *b, const long *n)

static float from_bf16(uint16_t v) {
  uint32_t u = (uint32_t)v << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

/* of a finite number */
static float from_f16(uint16_t v) {
  uint32_t u = (uint32_t)(v & 0x7fff) << 13, sign = (uint32_t)(v & 0x8000) << 16;
  float f;
  memcpy(&f, &u, 4);
  f *= 0x1p112f;
  memcpy(&u, &f, 4);
  u |= sign;
  memcpy(&f, &u, 4);
  return f;
}

static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

KERNEL(knn) {
  long Q = n[0], P = n[1], D = n[2], N = n[3];
  IN(float, q, 0); IN(float, p, 1); OUT(float, y, 2);
  for (long i = 0; i < Q; i++) {
    float *best = y + i * N;
    for (long k = 0; k < N; k++) best[k] = INFINITY;
    for (long j = 0; j < P; j++) {
      float s = 0;
      for (long d = 0; d < D; d++) s += (q[i * D + d] - p[j * D + d]) * (q[i * D + d] - p[j * D + d]);
      if (!(s < best[N - 1])) continue;
      long k = N - 1;
      for (; k > 0 && best[k - 1] > s; k--) best[k] = best[k - 1];
      best[k] = s;
    }
  }
}

KERNEL(q4) {
  long O = n[0], I = n[1];
  IN(uint8_t, q, 0); IN(uint16_t, sc, 1); IN(float, x, 2); OUT(float, y, 3);
  for (long o = 0; o < O; o++) {
    float s = 0;
    for (long g = 0; g < I / 32; g++) {
      const uint8_t *p = q + (o * (I / 32) + g) * 16;
      float t = 0;
      for (long k = 0; k < 16; k++)
        t += (float)((p[k] & 15) - 8) * x[g * 32 + k] + (float)((p[k] >> 4) - 8) * x[g * 32 + k + 16];
      s += t * from_f16(sc[o * (I / 32) + g]);
    }
    y[o] = s;
  }
}

KERNEL(swiglu) {
  long T = n[0], I = n[1], F = n[2];
  IN(float, x, 0); IN(float, w, 1); IN(float, v, 2); OUT(float, y, 3);
  for (long t = 0; t < T; t++)
    for (long f = 0; f < F; f++) {
      float a = 0, c = 0;
      for (long i = 0; i < I; i++) a += x[t * I + i] * w[f * I + i], c += x[t * I + i] * v[f * I + i];
      y[t * F + f] = a / (1 + expf(-a)) * c;
    }
}

KERNEL(convolution) {
  long N = n[0], C = n[1], O = n[2], H = n[3], W = n[4], S = n[5], OH = (H + S - 1) / S, OW = (W + S - 1) / S;
  IN(float, x, 0); IN(float, w, 1); OUT(float, y, 2);
  for (long m = 0; m < N; m++)
    for (long o = 0; o < O; o++) {
      float *to = y + (m * O + o) * OH * OW;
      memset(to, 0, sizeof *to * (size_t)(OH * OW));
      for (long c = 0; c < C; c++)
        for (long a = 0; a < 3; a++)
          for (long e = 0; e < 3; e++)
            for (long h = 0; h < OH; h++) {
              long row = h * S + a - 1;
              if (row < 0 || row >= H) continue;
              for (long v = 0; v < OW; v++) {
                long column = v * S + e - 1;
                if (column >= 0 && column < W)
                  to[h * OW + v] += x[((m * C + c) * H + row) * W + column] * w[((o * C + c) * 3 + a) * 3 + e];
              }
            }
    }
}

KERNEL(flash) {
  long H = n[0], T = n[1], D = n[2];
  IN(float, Q, 0); IN(float, K, 1); IN(float, V, 2); OUT(float, O, 3);
  static float s[1 << 16];
  for (long i = 0; i < H * T; i++) {
    const float *q = Q + i * D, *keys = K + i / T * T * D, *values = V + i / T * T * D;
    float m = -INFINITY, l = 0, *o = O + i * D;
    for (long j = 0; j < T; j++) {
      float a = 0;
      for (long d = 0; d < D; d++) a += q[d] * keys[j * D + d];
      s[j] = a / sqrtf((float)D);
      m = s[j] > m ? s[j] : m;
    }
    memset(o, 0, sizeof *o * (size_t)D);
    for (long j = 0; j < T; j++) {
      float p = expf(s[j] - m);
      l += p;
      for (long d = 0; d < D; d++) o[d] += p * values[j * D + d];
    }
    for (long d = 0; d < D; d++) o[d] /= l;
  }
}

KERNEL(softmax) {
  long R = n[0], N = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  for (long i = 0; i < R; i++) {
    float m = -INFINITY, s = 0;
    for (long j = 0; j < N; j++) m = x[i * N + j] > m ? x[i * N + j] : m;
    for (long j = 0; j < N; j++) s += y[i * N + j] = expf(x[i * N + j] - m);
    for (long j = 0; j < N; j++) y[i * N + j] /= s;
  }
}

KERNEL(softmax_causal) {
  long B = n[0], T = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  for (long r = 0; r < B * T; r++) {
    const float *p = x + r * T;
    float m = -INFINITY, s = 0, *to = y + r * T;
    long i = r % T;
    for (long j = 0; j <= i; j++) m = p[j] > m ? p[j] : m;
    for (long j = 0; j <= i; j++) s += to[j] = expf(p[j] - m);
    for (long j = 0; j <= i; j++) to[j] /= s;
    for (long j = i + 1; j < T; j++) to[j] = 0;
  }
}

KERNEL(layernorm) {
  long R = n[0], D = n[1];
  IN(float, x, 0); IN(float, g, 1); IN(float, e, 2); OUT(float, y, 3);
  for (long r = 0; r < R; r++) {
    float m = 0, v = 0;
    for (long d = 0; d < D; d++) m += x[r * D + d];
    m /= (float)D;
    for (long d = 0; d < D; d++) v += (x[r * D + d] - m) * (x[r * D + d] - m);
    v = 1 / sqrtf(v / (float)D + 1e-5f);
    for (long d = 0; d < D; d++) y[r * D + d] = (x[r * D + d] - m) * v * g[d] + e[d];
  }
}

KERNEL(argmax) {
  long R = n[0], D = n[1];
  IN(float, x, 0); OUT(int32_t, y, 1);
  for (long r = 0; r < R; r++) {
    long at = 0;
    for (long d = 1; d < D; d++)
      if (x[r * D + d] > x[r * D + at]) at = d;
    y[r] = (int32_t)at;
  }
}

KERNEL(cumsum) {
  long R = n[0], D = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  for (long r = 0; r < R; r++) {
    float s = 0;
    for (long d = 0; d < D; d++) y[r * D + d] = s += x[r * D + d];
  }
}

KERNEL(scan) {
  long N = n[0];
  IN(float, x, 0); OUT(float, y, 1);
  float s = 0;
  for (long i = 0; i < N; i++) y[i] = s += x[i];
}

KERNEL(bmm) {
  long B = n[0], M = n[1], N = n[2], K = n[3];
  IN(float, A, 0); IN(float, T, 1); OUT(float, C, 2);
  for (long m = 0; m < B; m++)
    for (long i = 0; i < M; i++)
      for (long j = 0; j < N; j++) {
        float s = 0;
        for (long k = 0; k < K; k++) s += A[(m * M + i) * K + k] * T[(m * N + j) * K + k];
        C[(m * M + i) * N + j] = s;
      }
}

KERNEL(rope) {
  long T = n[0], H = n[1], D = n[2];
  IN(float, x, 0); OUT(float, y, 1);
  for (long t = 0; t < T; t++)
    for (long h = 0; h < H; h++)
      for (long d = 0; d < D / 2; d++) {
        float angle = (float)t * powf(10000.0f, -2.0f * (float)d / (float)D), c = cosf(angle), s = sinf(angle);
        const float *p = x + (t * H + h) * D + 2 * d;
        float *to = y + (t * H + h) * D + 2 * d;
        to[0] = p[0] * c - p[1] * s;
        to[1] = p[0] * s + p[1] * c;
      }
}

KERNEL(rmsnorm) {
  long R = n[0], D = n[1];
  IN(float, x, 0); IN(float, more, 1); IN(float, g, 2); OUT(float, sum, 3); OUT(float, y, 4);
  for (long r = 0; r < R; r++) {
    float s = 0;
    for (long d = 0; d < D; d++) {
      float v = x[r * D + d] + more[r * D + d];
      sum[r * D + d] = v;
      s += v * v;
    }
    s = 1 / sqrtf(s / (float)D + 1e-5f);
    for (long d = 0; d < D; d++) y[r * D + d] = sum[r * D + d] * s * g[d];
  }
}

KERNEL(embedding) {
  long N = n[0], D = n[2];
  IN(int32_t, id, 0); IN(float, W, 1); OUT(float, y, 2);
  for (long i = 0; i < N; i++) memcpy(y + i * D, W + (long)id[i] * D, sizeof *y * (size_t)D);
}

KERNEL(histogram) {
  long N = n[0], B = n[1];
  IN(int32_t, id, 0); OUT(int32_t, h, 1);
  memset(h, 0, sizeof *h * (size_t)B);
  for (long i = 0; i < N; i++) h[id[i]]++;
}

KERNEL(i8dot) {
  long M = n[0], N = n[1], K = n[2];
  IN(int8_t, A, 0); IN(int8_t, B, 1); OUT(int32_t, C, 2);
  for (long i = 0; i < M; i++)
    for (long j = 0; j < N; j++) {
      int32_t s = 0;
      for (long k = 0; k < K; k++) s += A[i * K + k] * B[j * K + k];
      C[i * N + j] = s;
    }
}

KERNEL(f16mv) {
  long O = n[0], I = n[1];
  IN(uint16_t, W, 0); IN(float, x, 1); OUT(float, y, 2);
  for (long o = 0; o < O; o++) {
    float s = 0;
    for (long i = 0; i < I; i++) s += from_f16(W[o * I + i]) * x[i];
    y[o] = s;
  }
}

KERNEL(stencil) {
  long T = n[0], H = n[1], W = n[2];
  OUT(float, u, 0);
  for (long t = 0; t < T; t++) {
    const float *from = u + t % 2 * H * W;
    float *restrict to = u + (t + 1) % 2 * H * W;
    for (long i = 1; i < H - 1; i++)
      for (long j = 1; j < W - 1; j++)
        to[i * W + j] = 0.5f * from[i * W + j] + 0.125f * (from[i * W + j - 1] + from[i * W + j + 1] +
                                                           from[(i - 1) * W + j] + from[(i + 1) * W + j]);
  }
}

KERNEL(bf16mm) {
  long M = n[0], N = n[1], K = n[2];
  IN(uint16_t, A, 0); IN(uint16_t, B, 1); OUT(uint16_t, C, 2);
  static float sum[1 << 16];
  for (long i = 0; i < M; i++) {
    memset(sum, 0, sizeof *sum * (size_t)N);
    for (long k = 0; k < K; k++) {
      float a = from_bf16(A[i * K + k]);
      for (long j = 0; j < N; j++) sum[j] += a * from_bf16(B[k * N + j]);
    }
    for (long j = 0; j < N; j++) C[i * N + j] = to_bf16(sum[j]);
  }
}

KERNEL(groupnorm) {
  long N = n[0], C = n[1], S = n[2], G = n[3], K = C / G;
  IN(float, x, 0); IN(float, ga, 1); IN(float, be, 2); OUT(float, y, 3);
  for (long r = 0; r < N * G; r++) {
    const float *p = x + r * K * S;
    float m = 0, v = 0, *to = y + r * K * S;
    for (long i = 0; i < K * S; i++) m += p[i];
    m /= (float)(K * S);
    for (long i = 0; i < K * S; i++) v += (p[i] - m) * (p[i] - m);
    v = 1 / sqrtf(v / (float)(K * S) + 1e-5f);
    for (long c = 0; c < K; c++)
      for (long i = 0; i < S; i++)
        to[c * S + i] = (p[c * S + i] - m) * v * ga[r % G * K + c] + be[r % G * K + c];
  }
}

KERNEL(cross_entropy) {
  long R = n[0], V = n[1];
  IN(float, x, 0); IN(int32_t, label, 1); OUT(float, y, 2);
  for (long r = 0; r < R; r++) {
    const float *p = x + r * V;
    float m = -INFINITY, s = 0;
    for (long j = 0; j < V; j++) m = p[j] > m ? p[j] : m;
    for (long j = 0; j < V; j++) s += expf(p[j] - m);
    y[r] = logf(s) + m - p[label[r]];
  }
}

KERNEL(distances) {
  long N = n[0], M = n[1], D = n[2];
  IN(float, x, 0); IN(float, y, 1); OUT(float, d, 2);
  for (long i = 0; i < N; i++)
    for (long j = 0; j < M; j++) {
      float s = 0;
      for (long k = 0; k < D; k++) s += (x[i * D + k] - y[j * D + k]) * (x[i * D + k] - y[j * D + k]);
      d[i * M + j] = s;
    }
}

KERNEL(nearest) {
  long N = n[0], M = n[1], D = n[2];
  IN(float, x, 0); IN(float, c, 1); OUT(int32_t, at, 2);
  for (long i = 0; i < N; i++) {
    float least = INFINITY;
    for (long j = 0; j < M; j++) {
      float s = 0;
      for (long k = 0; k < D; k++) s += (x[i * D + k] - c[j * D + k]) * (x[i * D + k] - c[j * D + k]);
      if (s < least) least = s, at[i] = (int32_t)j;
    }
  }
}

KERNEL(depthwise) {
  long C = n[0], H = n[1], W = n[2];
  IN(float, x, 0); IN(float, w, 1); OUT(float, y, 2);
  for (long c = 0; c < C; c++) {
    float *to = y + c * H * W;
    memset(to, 0, sizeof *to * (size_t)(H * W));
    for (long a = 0; a < 3; a++)
      for (long e = 0; e < 3; e++)
        for (long h = 0; h < H; h++) {
          if (h + a < 1 || h + a > H) continue;
          for (long v = e ? 0 : 1; v < (e == 2 ? W - 1 : W); v++)
            to[h * W + v] += x[(c * H + h + a - 1) * W + v + e - 1] * w[(c * 3 + a) * 3 + e];
        }
  }
}

KERNEL(linear_relu) {
  long T = n[0], I = n[1], O = n[2];
  IN(float, x, 0); IN(float, w, 1); IN(float, bias, 2); OUT(float, y, 3);
  for (long t = 0; t < T; t++)
    for (long o = 0; o < O; o++) {
      float s = 0;
      for (long i = 0; i < I; i++) s += x[t * I + i] * w[o * I + i];
      y[t * O + o] = s + bias[o] > 0 ? s + bias[o] : 0;
    }
}

KERNEL(moments) {
  long R = n[0], D = n[1];
  IN(float, x, 0); OUT(float, m, 1); OUT(float, v, 2);
  for (long r = 0; r < R; r++) {
    float s = 0, q = 0;
    for (long d = 0; d < D; d++) s += x[r * D + d], q += x[r * D + d] * x[r * D + d];
    m[r] = s / (float)D;
    v[r] = q / (float)D - m[r] * m[r];
  }
}

KERNEL(columns) {
  long R = n[0], D = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  memset(y, 0, sizeof *y * (size_t)D);
  for (long r = 0; r < R; r++)
    for (long d = 0; d < D; d++) y[d] += x[r * D + d];
}

KERNEL(gram) {
  long M = n[0], K = n[1];
  IN(float, x, 0); OUT(float, g, 1);
  for (long i = 0; i < M; i++)
    for (long j = 0; j < M; j++) {
      float s = 0;
      for (long k = 0; k < K; k++) s += x[i * K + k] * x[j * K + k];
      g[i * M + j] = s;
    }
}

KERNEL(maxpool) {
  long C = n[0], H = n[1], W = n[2];
  IN(float, x, 0); OUT(float, y, 1);
  for (long r = 0; r < C * (H / 2); r++)
    for (long v = 0; v < W / 2; v++) {
      const float *p = x + 2 * r * W + 2 * v;
      float a = p[0] > p[1] ? p[0] : p[1], c = p[W] > p[W + 1] ? p[W] : p[W + 1];
      y[r * (W / 2) + v] = a > c ? a : c;
    }
}

KERNEL(gelu) {
  IN(float, x, 0); OUT(float, y, 1);
  for (long i = 0; i < n[0]; i++) y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

KERNEL(transpose) {
  long N = n[0], M = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  for (long i = 0; i < N; i++)
    for (long j = 0; j < M; j++) y[j * N + i] = x[i * M + j];
}

KERNEL(covariance) {
  long R = n[0], D = n[1];
  IN(float, x, 0); IN(float, m, 1); OUT(float, c, 2);
  memset(c, 0, sizeof *c * (size_t)(D * D));
  for (long r = 0; r < R; r++)
    for (long i = 0; i < D; i++)
      for (long j = 0; j < D; j++) c[i * D + j] += (x[r * D + i] - m[i]) * (x[r * D + j] - m[j]);
  for (long i = 0; i < D * D; i++) c[i] /= (float)(R - 1);
}

KERNEL(decode) {
  long H = n[0], T = n[1], D = n[2];
  IN(float, q, 0); IN(float, K, 1); IN(float, V, 2); OUT(float, o, 3);
  static float s[1 << 16];
  for (long h = 0; h < H; h++) {
    float m = -INFINITY, l = 0;
    for (long t = 0; t < T; t++) {
      float a = 0;
      for (long d = 0; d < D; d++) a += q[h * D + d] * K[(h * T + t) * D + d];
      s[t] = a * 0.125f;
      m = s[t] > m ? s[t] : m;
    }
    memset(o + h * D, 0, sizeof *o * (size_t)D);
    for (long t = 0; t < T; t++) {
      float p = expf(s[t] - m);
      l += p;
      for (long d = 0; d < D; d++) o[h * D + d] += p * V[(h * T + t) * D + d];
    }
    for (long d = 0; d < D; d++) o[h * D + d] /= l;
  }
}

KERNEL(q8) {
  long O = n[0], I = n[1];
  IN(int8_t, q, 0); IN(float, sc, 1); IN(float, x, 2); OUT(float, y, 3);
  for (long o = 0; o < O; o++) {
    float s = 0;
    for (long g = 0; g < I / 32; g++) {
      float t = 0;
      for (long k = 0; k < 32; k++) t += (float)q[o * I + g * 32 + k] * x[g * 32 + k];
      s += t * sc[o * (I / 32) + g];
    }
    y[o] = s;
  }
}

KERNEL(layernorm_channels) {
  long B = n[0], C = n[1], P = n[2];
  IN(float, x, 0); IN(float, g, 1); OUT(float, y, 2);
  for (long b = 0; b < B; b++, x += C * P, y += C * P) {
    float mean[P], over[P];
    for (long p = 0; p < P; p++) mean[p] = over[p] = 0;
    for (long c = 0; c < C; c++)
      for (long p = 0; p < P; p++) mean[p] += x[c * P + p];
    for (long p = 0; p < P; p++) mean[p] /= (float)C;
    for (long c = 0; c < C; c++)
      for (long p = 0; p < P; p++) over[p] += (x[c * P + p] - mean[p]) * (x[c * P + p] - mean[p]);
    for (long p = 0; p < P; p++) over[p] = 1 / sqrtf(over[p] / (float)C + 1e-5f);
    for (long c = 0; c < C; c++)
      for (long p = 0; p < P; p++) y[c * P + p] = (x[c * P + p] - mean[p]) * over[p] * g[c];
  }
}

KERNEL(quantise) {
  long R = n[0], D = n[1];
  IN(float, x, 0); OUT(int8_t, q, 1); OUT(float, s, 2);
  for (long r = 0; r < R; r++) {
    float m = 0;
    for (long d = 0; d < D; d++) m = fmaxf(m, fabsf(x[r * D + d]));
    float z = m > 0 ? 127 / m : 0;
    s[r] = m / 127;
    for (long d = 0; d < D; d++) q[r * D + d] = (int8_t)rintf(x[r * D + d] * z);
  }
}

KERNEL(rgb2y) {
  long N = n[0];
  IN(uint8_t, x, 0); OUT(uint8_t, y, 1);
  for (long i = 0; i < N; i++) y[i] = (uint8_t)((x[3 * i] * 77 + x[3 * i + 1] * 150 + x[3 * i + 2] * 29) >> 8);
}

KERNEL(blend) {
  long N = n[0];
  IN(uint8_t, a, 0); IN(uint8_t, c, 1); OUT(uint8_t, y, 2);
  for (long i = 0; i < N; i++)
    for (long k = 0; k < 4; k++)
      y[4 * i + k] = (uint8_t)((a[4 * i + k] * a[4 * i + 3] + c[4 * i + k] * (255 - a[4 * i + 3]) + 127) / 255);
}

KERNEL(options) {
  long N = n[0];
  IN(float, S, 0); IN(float, K, 1); IN(float, T, 2); OUT(float, call, 3); OUT(float, put, 4);
  for (long i = 0; i < N; i++) {
    float s = fabsf(S[i]) + 1, k = fabsf(K[i]) + 1, t = fabsf(T[i]) + 0.1f, q = 0.3f * sqrtf(t);
    float a = (logf(s / k) + 0.065f * t) / q, e = k * expf(-0.02f * t);
    float c = 0.5f * (s * (1 + erff(a * 0.70710678f)) - e * (1 + erff((a - q) * 0.70710678f)));
    call[i] = c;
    put[i] = c + e - s;
  }
}

KERNEL(sobel) {
  long H = n[0], W = n[1];
  IN(float, x, 0); OUT(float, y, 1);
  for (long i = 0; i < H; i++) {
    const float *u = x + (i ? i - 1 : 0) * W, *v = x + i * W, *d = x + (i + 1 < H ? i + 1 : i) * W;
    for (long j = 0; j < W; j++) {
      long l = j ? j - 1 : 0, r = j + 1 < W ? j + 1 : j;
      float a = u[r] + 2 * v[r] + d[r] - u[l] - 2 * v[l] - d[l], b = d[l] + 2 * d[j] + d[r] - u[l] - 2 * u[j] - u[r];
      y[i * W + j] = sqrtf(a * a + b * b);
    }
  }
}

KERNEL(selective_scan) {
  long T = n[0], C = n[1], S = n[2];
  IN(float, x, 0); IN(float, dt, 1); IN(float, A, 2); IN(float, B, 3); IN(float, D, 4); OUT(float, y, 5);
  for (long c = 0; c < C; c++) {
    float h[S];
    for (long s = 0; s < S; s++) h[s] = 0;
    for (long t = 0; t < T; t++) {
      float d = fabsf(dt[t * C + c]), sum = 0;
      for (long s = 0; s < S; s++) {
        h[s] = h[s] * expf(d * -fabsf(A[c * S + s])) + d * B[t * S + s] * x[t * C + c];
        sum += h[s] * D[t * S + s];
      }
      y[t * C + c] = sum;
    }
  }
}

KERNEL(max_plus) {
  long M = n[0], N = n[1], K = n[2];
  IN(float, A, 0); IN(float, B, 1); OUT(float, C, 2);
  for (long i = 0; i < M; i++) {
    for (long j = 0; j < N; j++) C[i * N + j] = -INFINITY;
    for (long k = 0; k < K; k++)
      for (long j = 0; j < N; j++) {
        float way = A[i * K + k] + B[k * N + j];
        if (way > C[i * N + j]) C[i * N + j] = way;
      }
  }
}

KERNEL(greatest) {
  long R = n[0], D = n[1], N = n[2];
  IN(float, x, 0); OUT(float, y, 1);
  for (long r = 0; r < R; r++) {
    float *best = y + r * N;
    for (long k = 0; k < N; k++) best[k] = -INFINITY;
    for (long j = 0; j < D; j++) {
      float d = x[r * D + j];
      if (!(d > best[N - 1])) continue;
      long k = N - 1;
      for (; k > 0 && best[k - 1] < d; k--) best[k] = best[k - 1];
      best[k] = d;
    }
  }
}

KERNEL(layers) {
  long M = n[0], K = n[1], H = n[2], N = n[3];
  IN(float, x, 0); IN(float, w, 1); IN(float, v, 2); OUT(float, y, 3);
  float *t = malloc((size_t)H * sizeof *t);
  for (long i = 0; i < M && t; i++) {
    for (long h = 0; h < H; h++) t[h] = 0;
    for (long k = 0; k < K; k++)
      for (long h = 0; h < H; h++) t[h] += x[i * K + k] * w[k * H + h];
    for (long j = 0; j < N; j++) y[i * N + j] = 0;
    for (long h = 0; h < H; h++)
      for (long j = 0; j < N; j++) y[i * N + j] += (t[h] > 0 ? t[h] : 0) * v[h * N + j];
  }
  free(t);
}

KERNEL(scores) {
  long H = n[0], T = n[1], D = n[2];
  IN(float, q, 0); IN(float, k, 1); IN(float, bias, 2); OUT(float, y, 3);
  for (long h = 0; h < H; h++)
    for (long i = 0; i < T; i++) {
      float *row = y + (h * T + i) * T, m = -INFINITY, s = 0;
      for (long j = 0; j < T; j++) {
        float sum = 0;
        for (long d = 0; d < D; d++) sum += q[(h * T + i) * D + d] * k[(h * T + j) * D + d];
        row[j] = sum * 0.125f + bias[i * T + j];
        m = row[j] > m ? row[j] : m;
      }
      for (long j = 0; j < T; j++) s += row[j] = expf(row[j] - m);
      for (long j = 0; j < T; j++) row[j] /= s;
    }
}

const bench_plain bench_plains[] = {{"argmax", argmax},
                                    {"bf16mm", bf16mm},
                                    {"blend", blend},
                                    {"bmm", bmm},
                                    {"columns", columns},
                                    {"conv3x3", convolution},
                                    {"conv3x3_stride2", convolution},
                                    {"covariance", covariance},
                                    {"cross_entropy", cross_entropy},
                                    {"cumsum", cumsum},
                                    {"decode", decode},
                                    {"depthwise", depthwise},
                                    {"distances", distances},
                                    {"embedding", embedding},
                                    {"f16mv", f16mv},
                                    {"flash", flash},
                                    {"gelu", gelu},
                                    {"gram", gram},
                                    {"greatest", greatest},
                                    {"groupnorm", groupnorm},
                                    {"histogram", histogram},
                                    {"i8dot", i8dot},
                                    {"knn", knn},
                                    {"layernorm", layernorm},
                                    {"layernorm_channels", layernorm_channels},
                                    {"layers", layers},
                                    {"linear_relu", linear_relu},
                                    {"max_plus", max_plus},
                                    {"maxpool", maxpool},
                                    {"moments", moments},
                                    {"nearest", nearest},
                                    {"options", options},
                                    {"q4", q4},
                                    {"q8", q8},
                                    {"quantise", quantise},
                                    {"rgb2y", rgb2y},
                                    {"rmsnorm", rmsnorm},
                                    {"rope", rope},
                                    {"scan", scan},
                                    {"scores", scores},
                                    {"selective_scan", selective_scan},
                                    {"sobel", sobel},
                                    {"softmax", softmax},
                                    {"softmax_causal", softmax_causal},
                                    {"stencil", stencil},
                                    {"swiglu", swiglu},
                                    {"transpose", transpose},
                                    {0}};
