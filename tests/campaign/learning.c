/* SPDX-License-Identifier: MIT
 * Kernels of machine learning. See reference.h for the form, learning.tg for the texts. */
#include "reference.h"


/* normalisation and activation */
KERNEL(softmax_row) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  real m = x[0], s = 0;
  EACH(i, N) m = rmax(m, x[i]);
  EACH(i, N) s += R1(exp, x[i] - m);
  EACH(i, N) y[i] = R1(exp, x[i] - m) / s;
}
KERNEL(softmax) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); TABLE(real, y, 1, N);
  EACH(i, M) {
    real m = x[i][0], s = 0;
    EACH(j, N) m = rmax(m, x[i][j]);
    EACH(j, N) s += R1(exp, x[i][j] - m);
    EACH(j, N) y[i][j] = R1(exp, x[i][j] - m) / s;
  }
}
KERNEL(softmax_causal) {
  SIZE(N, 0); TABLE(real, x, 0, N); TABLE(real, y, 1, N);
  EACH(i, N) {
    real m = x[i][0], s = 0;
    EACH(j, i + 1) m = rmax(m, x[i][j]);
    EACH(j, i + 1) s += R1(exp, x[i][j] - m);
    EACH(j, N) y[i][j] = j <= i ? R1(exp, x[i][j] - m) / s : 0;
  }
}
KERNEL(softmax_online) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  real m = x[0], s = 0;
  EACH(i, N) m = rmax(m, x[i]);
  EACH(i, N) s += R1(exp, x[i] - m);
  EACH(i, N) y[i] = R1(exp, x[i] - m) / s;
}
KERNEL(log_softmax) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); TABLE(real, y, 1, N);
  EACH(i, M) {
    real m = x[i][0], s = 0;
    EACH(j, N) m = rmax(m, x[i][j]);
    EACH(j, N) s += R1(exp, x[i][j] - m);
    s = R1(log, s);
    EACH(j, N) y[i][j] = x[i][j] - m - s;
  }
}
KERNEL(layer_norm) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(real, g, 1); ARRAY(real, b, 2); TABLE(real, y, 3, N);
  EACH(i, M) {
    real u = 0, v = 0;
    EACH(j, N) u += x[i][j];
    u /= N;
    EACH(j, N) v += (x[i][j] - u) * (x[i][j] - u);
    v /= N;
    EACH(j, N) y[i][j] = (x[i][j] - u) / R1(sqrt, v + 0.0625f) * g[j] + b[j];
  }
}
KERNEL(rms_norm) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(real, g, 1); TABLE(real, y, 2, N);
  EACH(i, M) {
    real s = 0;
    EACH(j, N) s += x[i][j] * x[i][j];
    s = 1 / R1(sqrt, s / N + 0.0625f);
    EACH(j, N) y[i][j] = x[i][j] * s * g[j];
  }
}
KERNEL(batch_norm) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(real, u, 1); ARRAY(real, v, 2); TABLE(real, y, 3, N);
  EACH(i, M) EACH(j, N) y[i][j] = (x[i][j] - u[j]) * (1 / R1(sqrt, v[j] * v[j] + 0.5f));
}
KERNEL(group_norm_sums) {
  SIZE(G, 0); SIZE(C, 1); SIZE(S, 2); TABLE(real, x, 0, S); ARRAY(real, s, 1); ARRAY(real, q, 2);
  EACH(g, G) { s[g] = q[g] = 0; EACH(c, C) EACH(t, S) { s[g] += x[g*C+c][t]; q[g] += x[g*C+c][t] * x[g*C+c][t]; } }
}
KERNEL(gelu) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  EACH(i, N) y[i] = 0.5f * x[i] * (1 + R1(erf, x[i] * 0.70710678f));
}
KERNEL(gelu_tanh) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  EACH(i, N) y[i] = 0.5f * x[i] * (1 + R1(tanh, 0.75f * (x[i] + 0.0625f * x[i] * x[i] * x[i])));
}
KERNEL(swiglu) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, 2*N); TABLE(real, y, 1, N);
  EACH(i, M) EACH(j, N) y[i][j] = x[i][j] / (1 + R1(exp, -x[i][j])) * x[i][j+N];
}
KERNEL(relu_bias) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(real, b, 1);
  EACH(i, M) EACH(j, N) x[i][j] = rmax(x[i][j] + b[j], 0);
}
KERNEL(leaky_relu) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  EACH(i, N) y[i] = x[i] > 0 ? x[i] : 0.125f * x[i];
}
KERNEL(clip_and_mask) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(unsigned char, m, 1); ARRAY(real, y, 2);
  EACH(i, N) y[i] = m[i] ? rmax(rmin(x[i], 2), -2) : 0;
}
KERNEL(cross_entropy) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(int, t, 1); ARRAY(real, l, 2);
  EACH(i, M) {
    real m = x[i][0], s = 0;
    EACH(j, N) m = rmax(m, x[i][j]);
    EACH(j, N) s += R1(exp, x[i][j] - m);
    l[i] = R1(log, s) + m - x[i][t[i]];
  }
}
KERNEL(squared_loss) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, t, 1); ARRAY(real, l, 2); ARRAY(real, g, 3);
  real s = 0;
  EACH(i, N) { s += (x[i] - t[i]) * (x[i] - t[i]); g[i] = 2 * (x[i] - t[i]); }
  l[0] = s;
}
KERNEL(cosine_similarity) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); TABLE(real, y, 1, N); ARRAY(real, c, 2);
  EACH(i, M) {
    real a = 0, b = 0, d = 0;
    EACH(j, N) { d += x[i][j] * y[i][j]; a += x[i][j] * x[i][j]; b += y[i][j] * y[i][j]; }
    c[i] = d / R1(sqrt, a * b);
  }
}

/* attention */
KERNEL(attention_scores) {
  SIZE(M, 0); SIZE(N, 1); SIZE(D, 2); TABLE(real, q, 0, D); TABLE(real, k, 1, D); TABLE(real, s, 2, N);
  EACH(i, M) EACH(j, N) { real t = 0; EACH(d, D) t += q[i][d] * k[j][d]; s[i][j] = t; }
}
KERNEL(attention) {
  SIZE(M, 0); SIZE(N, 1); SIZE(D, 2); TABLE(real, q, 0, D); TABLE(real, k, 1, D); TABLE(real, v, 2, D);
  TABLE(real, o, 3, D);
  real s[16];
  EACH(i, M) {
    real m = -INFINITY, l = 0;
    EACH(j, N) { s[j] = 0; EACH(d, D) s[j] += q[i][d] * k[j][d]; m = rmax(m, s[j]); }
    EACH(j, N) { s[j] = R1(exp, s[j] - m); l += s[j]; }
    EACH(d, D) { real t = 0; EACH(j, N) t += s[j] * v[j][d]; o[i][d] = t / l; }
  }
}
KERNEL(attention_causal) {
  SIZE(N, 0); SIZE(D, 1); TABLE(real, q, 0, D); TABLE(real, k, 1, D); TABLE(real, v, 2, D); TABLE(real, o, 3, D);
  real s[16];
  EACH(i, N) {
    real m = -INFINITY, l = 0;
    EACH(j, i + 1) { s[j] = 0; EACH(d, D) s[j] += q[i][d] * k[j][d]; m = rmax(m, s[j]); }
    EACH(j, i + 1) { s[j] = R1(exp, s[j] - m); l += s[j]; }
    EACH(d, D) { real t = 0; EACH(j, i + 1) t += s[j] * v[j][d]; o[i][d] = t / l; }
  }
}
KERNEL(attention_window) {
  SIZE(N, 0); SIZE(D, 1); SIZE(W, 2); TABLE(int, q, 0, D); TABLE(int, k, 1, D); TABLE(int, v, 2, D);
  TABLE(int, o, 3, D);
  EACH(i, N) EACH(d, D) {
    int t = 0;
    for (int j = imax(i - W + 1, 0); j <= i; j++) { int s = 0; EACH(e, D) s += q[i][e] * k[j][e]; t += s * v[j][d]; }
    o[i][d] = t;
  }
}
KERNEL(linear_attention) {
  SIZE(N, 0); SIZE(D, 1); TABLE(int, q, 0, D); TABLE(int, k, 1, D); TABLE(int, v, 2, D); TABLE(int, o, 3, D);
  int s[6][6] = {{0}};
  EACH(i, N) {
    EACH(a, D) EACH(b, D) s[a][b] += k[i][a] * v[i][b];
    EACH(b, D) { o[i][b] = 0; EACH(a, D) o[i][b] += q[i][a] * s[a][b]; }
  }
}
KERNEL(group_query) {
  SIZE(H, 0); SIZE(G, 1); SIZE(N, 2); SIZE(D, 3); TABLE(real, q, 0, D); CUBE(real, k, 1, N, D); TABLE(real, s, 2, N);
  EACH(x, H * G) EACH(j, N) { real t = 0; EACH(d, D) t += q[x][d] * k[x/G][j][d]; s[x][j] = t; }
}
KERNEL(rope) {
  SIZE(N, 0); SIZE(D, 1); TABLE(real, x, 0, 2*D); TABLE(real, c, 1, D); TABLE(real, s, 2, D);
  EACH(t, N) EACH(d, D) {
    real a = x[t][2*d], b = x[t][2*d+1];
    x[t][2*d] = a * c[t][d] - b * s[t][d];
    x[t][2*d+1] = a * s[t][d] + b * c[t][d];
  }
}
KERNEL(rope_halves) {
  SIZE(N, 0); SIZE(D, 1); TABLE(real, x, 0, 2*D); TABLE(real, c, 1, D); TABLE(real, s, 2, D); TABLE(real, y, 3, 2*D);
  EACH(t, N) EACH(d, 2 * D) y[t][d] = d < D ? x[t][d] * c[t][d] - x[t][d+D] * s[t][d] : x[t][d-D] * s[t][d-D] +
      x[t][d] * c[t][d-D];
}
KERNEL(cache_append) {
  SIZE(N, 0); SIZE(D, 1); SIZE(P, 2); TABLE(real, cache, 0, D); TABLE(real, k, 1, D); ARRAY(int, p, 2);
  EACH(i, N) EACH(d, D) cache[p[0]+i][d] = k[i][d];
}
KERNEL(alibi) {
  SIZE(H, 0); SIZE(N, 1); CUBE(real, s, 0, N, N); ARRAY(real, m, 1);
  EACH(h, H) EACH(i, N) EACH(j, N) s[h][i][j] -= m[h] * (real)(i - j);
}

/* recurrent */
KERNEL(ssm) {
  SIZE(T, 0); SIZE(D, 1); TABLE(int, a, 0, D); TABLE(int, x, 1, D); ARRAY(int, h, 2); TABLE(int, y, 3, D);
  EACH(d, D) EACH(t, T) { h[d] = a[t][d] * h[d] + x[t][d]; y[t][d] = h[d]; }
}
KERNEL(ssm_states) {
  SIZE(T, 0); SIZE(D, 1); SIZE(S, 2); TABLE(int, a, 0, S); TABLE(int, b, 1, S); TABLE(int, c, 2, S);
  TABLE(int, x, 3, D); TABLE(int, h, 4, S); TABLE(int, y, 5, D);
  EACH(t, T) EACH(d, D) {
    y[t][d] = 0;
    EACH(s, S) { h[d][s] = a[d][s] * h[d][s] + b[t][s] * x[t][d]; y[t][d] += c[t][s] * h[d][s]; }
  }
}
KERNEL(moving_average) {
  SIZE(T, 0); SIZE(D, 1); TABLE(real, x, 0, D); TABLE(real, y, 1, D);
  EACH(d, D) { y[0][d] = x[0][d]; for (int t = 1; t < T; t++) y[t][d] = 0.5f * y[t-1][d] + 0.5f * x[t][d]; }
}
KERNEL(lstm_cell) {
  SIZE(B, 0); SIZE(H, 1); TABLE(real, z, 0, 4*H); TABLE(real, c, 1, H); TABLE(real, h, 2, H);
  EACH(b, B) EACH(j, H) {
    real i = 1 / (1 + R1(exp, -z[b][j])), f = 1 / (1 + R1(exp, -z[b][j+H])), g = R1(tanh, z[b][j+2*H]), o = 1 / (1 +
        R1(exp, -z[b][j+3*H]));
    c[b][j] = f * c[b][j] + i * g;
    h[b][j] = o * R1(tanh, c[b][j]);
  }
}
KERNEL(recurrent_net) {
  SIZE(T, 0); SIZE(H, 1); TABLE(int, w, 0, H); TABLE(int, x, 1, H); TABLE(int, h, 2, H);
  EACH(j, H) h[0][j] = x[0][j];
  for (int t = 1; t < T; t++) EACH(j, H) {
    int u = x[t][j];
    EACH(k, H) u += w[j][k] * h[t-1][k];
    h[t][j] = imax(0, u);
  }
}
KERNEL(cumulative_product) {
  SIZE(M, 0); SIZE(N, 1); TABLE(int, x, 0, N); TABLE(int, y, 1, N);
  EACH(i, M) { int p = 1; EACH(j, N) { p *= x[i][j]; y[i][j] = p; } }
}

/* convolution and pooling */
KERNEL(conv1d) {
  SIZE(C, 0); SIZE(O, 1); SIZE(N, 2); SIZE(K, 3); TABLE(real, x, 0, N+K-1); CUBE(real, w, 1, C, K);
  TABLE(real, y, 2, N);
  EACH(o, O) EACH(i, N) { real t = 0; EACH(c, C) EACH(k, K) t += x[c][i+k] * w[o][c][k]; y[o][i] = t; }
}
KERNEL(conv1d_causal) {
  SIZE(N, 0); SIZE(K, 1); SIZE(D, 2); TABLE(real, x, 0, D); TABLE(real, w, 1, D); TABLE(real, y, 2, D);
  EACH(t, N) EACH(d, D) { real s = 0; EACH(k, K) if (t >= k) s += x[t-k][d] * w[k][d]; y[t][d] = s; }
}
KERNEL(conv2d) {
  SIZE(C, 0); SIZE(O, 1); SIZE(N, 2); CUBE(real, x, 0, N+2, N+2); real(*w)[C][3][3] = buffer_[1];
  CUBE(real, y, 2, N, N);
  EACH(o, O) EACH(i, N) EACH(j, N) {
    real t = 0;
    EACH(c, C) EACH(a, 3) EACH(b, 3) t += x[c][i+a][j+b] * w[o][c][a][b];
    y[o][i][j] = t;
  }
}
KERNEL(conv2d_same) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, x, 0, M); TABLE(real, w, 1, 3); TABLE(real, y, 2, M);
  EACH(i, N) EACH(j, M) {
    real t = 0;
    EACH(a, 3) EACH(b, 3) if (i + a >= 1 && i + a <= N && j + b >= 1 && j + b <= M) t += x[i+a-1][j+b-1] * w[a][b];
    y[i][j] = t;
  }
}
KERNEL(conv2d_strided) {
  SIZE(N, 0); TABLE(real, x, 0, 2*N+1); TABLE(real, w, 1, 3); TABLE(real, y, 2, N);
  EACH(i, N) EACH(j, N) { real t = 0; EACH(a, 3) EACH(b, 3) t += x[2*i+a][2*j+b] * w[a][b]; y[i][j] = t; }
}
KERNEL(conv_transposed) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(real, x, 0); ARRAY(real, w, 1); ARRAY(real, y, 2);
  EACH(i, 2 * N + K) {
    y[i] = 0;
    EACH(k, K) if (i - k >= 0 && (i - k) % 2 == 0 && (i - k) / 2 < N) y[i] += x[(i-k)/2] * w[k];
  }
}
KERNEL(depthwise) {
  SIZE(C, 0); SIZE(N, 1); CUBE(real, x, 0, N+2, N+2); CUBE(real, w, 1, 3, 3); CUBE(real, y, 2, N, N);
  EACH(c, C) EACH(i, N) EACH(j, N) {
    real t = 0;
    EACH(a, 3) EACH(b, 3) t += x[c][i+a][j+b] * w[c][a][b];
    y[c][i][j] = t;
  }
}
KERNEL(im2col) {
  SIZE(N, 0); TABLE(real, x, 0, N+2); TABLE(real, y, 1, 9);
  EACH(p, N * N) EACH(q, 9) y[p][q] = x[p/N+q/3][p%N+q%3];
}
KERNEL(max_pool) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, x, 0, 2*M); TABLE(real, y, 1, M);
  EACH(i, N) EACH(j, M) y[i][j] = rmax(rmax(x[2*i][2*j], x[2*i+1][2*j]), rmax(x[2*i][2*j+1], x[2*i+1][2*j+1]));
}
KERNEL(average_pool) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, x, 0, 2*M); TABLE(real, y, 1, M);
  EACH(i, N) EACH(j, M) y[i][j] = (x[2*i][2*j] + x[2*i+1][2*j] + x[2*i][2*j+1] + x[2*i+1][2*j+1]) * 0.25f;
}
KERNEL(max_pool_index) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(real, x, 0); ARRAY(real, y, 1); ARRAY(int, at, 2);
  EACH(i, N) { int j = 0; EACH(k, K) if (x[i*K+k] > x[i*K+j]) j = k; at[i] = j; y[i] = x[i*K+j]; }
}
KERNEL(upsample) {
  SIZE(N, 0); SIZE(S, 1); ARRAY(real, x, 0); ARRAY(real, y, 1);
  EACH(i, N) EACH(k, S) y[i*S+k] = x[i];
}
KERNEL(bilinear) {
  SIZE(N, 0); TABLE(real, x, 0, N); TABLE(real, y, 1, 2*N-2);
  EACH(i, 2 * N - 2) EACH(j, 2 * N - 2) y[i][j] = 0.25f * (x[i/2][j/2] + x[(i+1)/2][j/2] + x[i/2][(j+1)/2] +
      x[(i+1)/2][(j+1)/2]);
}

/* quantised and half types */
KERNEL(dot_i8) {
  SIZE(M, 0); SIZE(N, 1); TABLE(signed char, a, 0, N); ARRAY(signed char, b, 1); ARRAY(int, c, 2);
  EACH(i, M) { c[i] = 0; EACH(k, N) c[i] += a[i][k] * b[k]; }
}
KERNEL(dot_u8i8) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(unsigned char, a, 0, K); TABLE(signed char, b, 1, N);
  TABLE(int, c, 2, N);
  EACH(i, M) EACH(j, N) { c[i][j] = 0; EACH(k, K) c[i][j] += a[i][k] * b[k][j]; }
}
KERNEL(dot_4bit) {
  SIZE(M, 0); SIZE(K, 1); TABLE(unsigned char, w, 0, K); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, M) {
    real t = 0;
    EACH(k, K) t += (real)((w[i][k] & 15) - 8) * x[2*k] + (real)((w[i][k] >> 4) - 8) * x[2*k+1];
    y[i] = t;
  }
}
KERNEL(quantise) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(signed char, q, 1);
  EACH(i, N) q[i] = (signed char)rmax(rmin(R1(rint, x[i] * 16), 127), -128);
}
KERNEL(dequantise) {
  SIZE(M, 0); SIZE(N, 1); TABLE(signed char, q, 0, N); ARRAY(real, s, 1); ARRAY(signed char, z, 2);
  TABLE(real, y, 3, N);
  EACH(i, M) EACH(j, N) y[i][j] = (real)(q[i][j] - z[i]) * s[i];
}
KERNEL(zero_points) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(unsigned char, a, 0, K); TABLE(unsigned char, b, 1, N);
  ARRAY(unsigned char, za, 2); ARRAY(unsigned char, zb, 3); TABLE(int, c, 4, N);
  EACH(i, M) EACH(j, N) { c[i][j] = 0; EACH(k, K) c[i][j] += (a[i][k] - za[i]) * (b[k][j] - zb[j]); }
}
KERNEL(requantise) {
  SIZE(M, 0); SIZE(N, 1); TABLE(int, c, 0, N); ARRAY(int, s, 1); TABLE(unsigned char, y, 2, N);
  EACH(i, M) EACH(j, N) y[i][j] = (unsigned char)imax(imin(fdiv(c[i][j] * s[j] + 2, 4) + 8, 255), 0);
}
KERNEL(matmul_f16) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, a, 0, K); TABLE(real, b, 1, N); TABLE(real, c, 2, N);
  EACH(i, M) EACH(j, N) { real t = 0; EACH(k, K) t += a[i][k] * b[k][j]; c[i][j] = t; }
}
KERNEL(matvec_bf16) {
  SIZE(M, 0); SIZE(K, 1); TABLE(real, a, 0, K); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, M) { real t = 0; EACH(k, K) t += a[i][k] * x[k]; y[i] = t; }
}
KERNEL(add_f16) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1); ARRAY(real, z, 2);
  EACH(i, N) z[i] = x[i] * y[i] + x[i];
}
KERNEL(add_bf16) { SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1); EACH(i, N) y[i] += x[i]; }

/* data movement, optimisers, choice */
KERNEL(matmul_bias_relu) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, A, 0, K); TABLE(real, B, 1, N); ARRAY(real, b, 2);
  TABLE(real, C, 3, N);
  EACH(i, M) EACH(j, N) { real t = b[j]; EACH(k, K) t += A[i][k] * B[k][j]; C[i][j] = rmax(t, 0); }
}
KERNEL(embedding) {
  SIZE(T, 0); SIZE(V, 1); SIZE(D, 2); TABLE(real, table, 0, D); ARRAY(int, id, 1); TABLE(real, y, 2, D);
  EACH(t, T) memcpy(y[t], table[id[t]], (size_t)D * sizeof(real));
}
KERNEL(embedding_bag) {
  SIZE(B, 0); SIZE(L, 1); SIZE(V, 2); SIZE(D, 3); TABLE(real, table, 0, D); TABLE(int, id, 1, L);
  TABLE(real, y, 2, D);
  EACH(b, B) EACH(d, D) { y[b][d] = 0; EACH(l, L) y[b][d] += table[id[b][l]][d]; }
}
KERNEL(embedding_gradient) {
  SIZE(T, 0); SIZE(V, 1); SIZE(D, 2); TABLE(real, g, 0, D); ARRAY(int, id, 1); TABLE(real, table, 2, D);
  EACH(t, T) EACH(d, D) table[id[t]][d] += g[t][d];
}
KERNEL(one_hot) {
  SIZE(N, 0); SIZE(C, 1); ARRAY(int, id, 0); TABLE(real, y, 1, C);
  EACH(i, N) { EACH(c, C) y[i][c] = 0; y[i][id[i]] = 1; }
}
KERNEL(argmax_rows) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(int, a, 1);
  EACH(i, M) { int b = 0; EACH(j, N) if (x[i][j] > x[i][b]) b = j; a[i] = b; }
}
KERNEL(argmin_columns) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(int, a, 1);
  EACH(j, N) { int b = 0; EACH(i, M) if (x[i][j] < x[b][j]) b = i; a[j] = b; }
}
KERNEL(top_two) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); ARRAY(real, a, 1); ARRAY(real, b, 2);
  EACH(i, M) {
    real p = -INFINITY, q = -INFINITY;
    EACH(j, N) if (x[i][j] > p) { q = p; p = x[i][j]; } else if (x[i][j] > q) q = x[i][j];
    a[i] = p;
    b[i] = q;
  }
}
KERNEL(gate_experts) {
  SIZE(T, 0); SIZE(E, 1); TABLE(real, x, 0, E); ARRAY(int, n, 1);
  EACH(e, E) n[e] = 0;
  EACH(t, T) { int b = 0; EACH(f, E) if (x[t][f] > x[t][b]) b = f; n[b]++; }
}
KERNEL(momentum) {
  SIZE(N, 0); ARRAY(real, w, 0); ARRAY(real, m, 1); ARRAY(real, g, 2);
  EACH(i, N) { m[i] = 2 * m[i] + g[i]; w[i] -= 3 * m[i]; }
}
KERNEL(adam) {
  SIZE(N, 0); ARRAY(real, w, 0); ARRAY(real, m, 1); ARRAY(real, v, 2); ARRAY(real, g, 3);
  EACH(i, N) {
    m[i] = (real)0.9f * m[i] + (real)0.1f * g[i];
    v[i] = (real)0.99f * v[i] + (real)0.01f * g[i] * g[i];
    w[i] -= (real)0.1f * m[i] / (R1(sqrt, v[i]) + (real)0.01f);
  }
}
KERNEL(concat) {
  SIZE(M, 0); SIZE(N, 1); SIZE(P, 2); TABLE(real, x, 0, N); TABLE(real, y, 1, P); TABLE(real, z, 2, N+P);
  EACH(i, M) { EACH(j, N) z[i][j] = x[i][j]; EACH(j, P) z[i][N+j] = y[i][j]; }
}
KERNEL(pad_edges) {
  SIZE(N, 0); SIZE(P, 1); TABLE(real, x, 0, N); TABLE(real, y, 1, N+2*P);
  EACH(i, N + 2 * P) EACH(j, N + 2 * P) y[i][j] = x[imin(imax(i - P, 0), N - 1)][imin(imax(j - P, 0), N - 1)];
}
KERNEL(permute) {
  SIZE(A, 0); SIZE(B, 1); SIZE(C, 2); SIZE(D, 3); real(*x)[B][C][D] = buffer_[0]; real(*y)[C][B][D] = buffer_[1];
  EACH(a, A) EACH(b, B) EACH(c, C) EACH(d, D) y[a][c][b][d] = x[a][b][c][d];
}
KERNEL(pixel_shuffle) {
  SIZE(C, 0); SIZE(N, 1); CUBE(real, x, 0, N, N); CUBE(real, y, 1, 2*N, 2*N);
  EACH(k, 4 * C) EACH(i, N) EACH(j, N) y[k/4][2*i+k%4/2][2*j+k%2] = x[k][i][j];
}
KERNEL(gather_rows) {
  SIZE(M, 0); SIZE(N, 1); SIZE(R, 2); TABLE(real, x, 0, N); ARRAY(int, r, 1); TABLE(real, y, 2, N);
  EACH(i, R) EACH(j, N) y[i][j] = x[r[i]][j];
}
KERNEL(scatter_rows) {
  SIZE(M, 0); SIZE(N, 1); SIZE(R, 2); TABLE(real, x, 0, N); ARRAY(int, r, 1); TABLE(real, y, 2, N);
  EACH(i, R) EACH(j, N) y[r[i]][j] = x[i][j];
}
KERNEL(masked_fill) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, x, 0, N); TABLE(unsigned char, m, 1, N);
  EACH(i, M) EACH(j, N) if (m[i][j]) x[i][j] = -9;
}

FAMILY(learning) = {
  ROUNDS(softmax_row, UNIT), ROUNDS(softmax, UNIT), ROUNDS(softmax_causal, UNIT), ROUNDS(softmax_online, UNIT),
  ROUNDS(log_softmax, UNIT), ROUNDS(layer_norm, UNIT), ROUNDS(rms_norm, UNIT), ROUNDS(batch_norm, UNIT),
  EXACT(group_norm_sums), ROUNDS(gelu, UNIT), ROUNDS(gelu_tanh, UNIT), ROUNDS(swiglu, UNIT), EXACT(relu_bias),
  EXACT(leaky_relu), EXACT(clip_and_mask), ROUNDS(cross_entropy, UNIT), EXACT(squared_loss),
  ROUNDS(cosine_similarity, POSITIVE), EXACT(attention_scores), ROUNDS(attention, UNIT),
  ROUNDS(attention_causal, UNIT), EXACT(attention_window), EXACT(linear_attention), EXACT(group_query), EXACT(rope),
  EXACT(rope_halves), EXACT(cache_append), EXACT(alibi), EXACT(ssm), EXACT(ssm_states), ROUNDS(moving_average, UNIT),
  ROUNDS(lstm_cell, UNIT), EXACT(recurrent_net), EXACT(cumulative_product), EXACT(conv1d), EXACT(conv1d_causal),
  EXACT(conv2d), EXACT(conv2d_same), EXACT(conv2d_strided), EXACT(conv_transposed), EXACT(depthwise), EXACT(im2col),
  EXACT(max_pool), EXACT(average_pool), EXACT(max_pool_index), EXACT(upsample), EXACT(bilinear), BYTES(dot_i8),
  BYTES(dot_u8i8), BYTES(dot_4bit), EXACT(quantise), BYTES(dequantise), BYTES(zero_points), EXACT(requantise),
  EXACT(matmul_f16), EXACT(matvec_bf16), EXACT(add_f16), EXACT(add_bf16), EXACT(matmul_bias_relu), EXACT(embedding),
  EXACT(embedding_bag), EXACT(embedding_gradient), EXACT(one_hot), EXACT(argmax_rows), EXACT(argmin_columns),
  EXACT(top_two), EXACT(gate_experts), EXACT(momentum), ROUNDS(adam, POSITIVE), EXACT(concat), EXACT(pad_edges),
  EXACT(permute), EXACT(pixel_shuffle), EXACT(gather_rows), EXACT(scatter_rows), EXACT(masked_fill), END,
};
