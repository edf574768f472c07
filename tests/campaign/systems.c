/* SPDX-License-Identifier: MIT
 * Kernels of simulation, image processing, search and graphs, of the kinds that Rodinia has. See reference.h for the
 * form, systems.tg for the texts. */
#include "reference.h"


/* grids */
KERNEL(hotspot) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, t, 0, M); TABLE(int, p, 1, M); TABLE(int, o, 2, M);
  EACH(i, N) EACH(j, M) o[i][j] = t[i][j] + p[i][j] + t[imax(i-1, 0)][j] + t[imin(i+1, N-1)][j] - 2 * t[i][j] + 3 *
      (t[i][imax(j-1, 0)] + t[i][imin(j+1, M-1)] - 2 * t[i][j]);
}
KERNEL(hotspot3d) {
  SIZE(N, 0); CUBE(int, t, 0, N, N); CUBE(int, o, 1, N, N);
  EACH(z, N) EACH(y, N) EACH(x, N) o[z][y][x] = (z ? t[z-1][y][x] : 1) + (z < N - 1 ? t[z+1][y][x] : 1) + (y ?
      t[z][y-1][x] : 1) + (y < N - 1 ? t[z][y+1][x] : 1) + (x ? t[z][y][x-1] : 1) + (x < N - 1 ? t[z][y][x+1] : 1) -
      6 * t[z][y][x];
}
KERNEL(pathfinder) {
  SIZE(T, 0); SIZE(N, 1); TABLE(int, w, 0, N); ARRAY(int, d, 1);
  int e[64];
  EACH(t, T) {
    EACH(i, N) { int m = d[i]; if (i) m = imin(m, d[i-1]); if (i < N - 1) m = imin(m, d[i+1]); e[i] = w[t][i] + m; }
    EACH(i, N) d[i] = e[i];
  }
}
KERNEL(needle) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, r, 0, M); TABLE(int, h, 1, M+1); ARRAY(int, g, 2);
  EACH(i, N + 1) h[i][0] = -i * g[0];
  EACH(j, M + 1) h[0][j] = -j * g[0];
  for (int i = 1; i <= N; i++) for (int j = 1; j <= M; j++) h[i][j] = imax(h[i-1][j-1] + r[i-1][j-1],
      imax(h[i][j-1] - g[0], h[i-1][j] - g[0]));
}
KERNEL(needle_diagonals) {
  SIZE(N, 0); TABLE(int, r, 0, N); TABLE(int, h, 1, N+1);
  for (int i = 1; i <= N; i++) for (int j = 1; j <= N; j++) h[i][j] = imax(h[i-1][j-1] + r[i-1][j-1],
      imax(h[i][j-1], h[i-1][j]) - 2);
}
KERNEL(srad_derivatives) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, J, 0, M); TABLE(real, c, 1, M);
  EACH(i, N) EACH(j, M) {
    real v = J[i][j], n = J[imax(i-1, 0)][j] - v, s = J[imin(i+1, N-1)][j] - v, w = J[i][imax(j-1, 0)] - v,
        e = J[i][imin(j+1, M-1)] - v;
    real g = (n * n + s * s + w * w + e * e) / (v * v), l = (n + s + w + e) / v;
    real q = (0.5f * g - 0.0625f * (l * l)) / ((1 + 0.25f * l) * (1 + 0.25f * l) + 1);
    c[i][j] = rmax(0, rmin(1, 1 / (1 + (q - 0.5f) / 3)));
  }
}
KERNEL(srad_update) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, J, 0, M); TABLE(int, c, 1, M);
  EACH(i, N) EACH(j, M) J[i][j] += c[imin(i+1, N-1)][j] * c[i][j] + c[i][imin(j+1, M-1)];
}
KERNEL(life) {
  SIZE(N, 0); SIZE(M, 1); TABLE(unsigned char, x, 0, M); TABLE(unsigned char, y, 1, M);
  EACH(i, N) EACH(j, M) {
    int s = 0;
    for (int a = -1; a < 2; a++) for (int b = -1; b < 2; b++) if ((a || b) && i + a >= 0 && i + a < N && j +
        b >= 0 && j + b < M) s += x[i+a][j+b] & 1;
    y[i][j] = s == 3 || (s == 2 && (x[i][j] & 1));
  }
}
KERNEL(wave_equation) {
  SIZE(T, 0); SIZE(N, 1); TABLE(int, u, 0, N);
  EACH(t, T) for (int i = 1; i < N - 1; i++) u[(t+1)%2][i] = u[t%2][i-1] + u[t%2][i+1] - u[(t+1)%2][i];
}
KERNEL(fdtd) {
  SIZE(T, 0); SIZE(N, 1); SIZE(M, 2); TABLE(int, ex, 0, M); TABLE(int, ey, 1, M); TABLE(int, hz, 2, M);
  EACH(t, T) {
    EACH(j, M) ey[0][j] = t;
    for (int i = 1; i < N; i++) EACH(j, M) ey[i][j] -= hz[i][j] - hz[i-1][j];
    EACH(i, N) for (int j = 1; j < M; j++) ex[i][j] -= hz[i][j] - hz[i][j-1];
    EACH(i, N - 1) EACH(j, M - 1) hz[i][j] -= ex[i][j+1] - ex[i][j] + ey[i+1][j] - ey[i][j];
  }
}
KERNEL(lattice_stream) {
  SIZE(N, 0); SIZE(M, 1); CUBE(int, f, 0, M, 4); CUBE(int, g, 1, M, 4);
  EACH(i, N) EACH(j, M) {
    g[(i+N-1)%N][j][0] = f[i][j][0];
    g[(i+1)%N][j][1] = f[i][j][1];
    g[i][(j+M-1)%M][2] = f[i][j][2];
    g[i][(j+1)%M][3] = f[i][j][3];
  }
}
KERNEL(multigrid_restrict) {
  SIZE(N, 0); TABLE(int, x, 0, 2*N); TABLE(int, y, 1, N);
  EACH(i, N) EACH(j, N) y[i][j] = 0;
  EACH(i, 2 * N) EACH(j, 2 * N) y[i/2][j/2] += x[i][j];
}
KERNEL(multigrid_prolong) {
  SIZE(N, 0); TABLE(int, x, 0, N); TABLE(int, y, 1, 2*N);
  EACH(i, 2 * N) EACH(j, 2 * N) y[i][j] = x[i/2][j/2] * ((i + j) % 2 ? 1 : 2);
}

/* images */
KERNEL(sobel) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, x, 0, M); TABLE(int, y, 1, M-2);
  EACH(i, N - 2) EACH(j, M - 2) {
    int a = 0, b = 0;
    EACH(k, 3) { int w = k == 1 ? 2 : 1; a += w * (x[i][j+k] - x[i+2][j+k]); b += w * (x[i+k][j] - x[i+k][j+2]); }
    y[i][j] = (a < 0 ? -a : a) + (b < 0 ? -b : b);
  }
}
KERNEL(median3) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1);
  EACH(i, N) {
    int a = x[i], b = x[i+1], c = x[i+2];
    y[i] = a < b ? (b < c ? b : imax(a, c)) : (a < c ? a : imax(b, c));
  }
}
KERNEL(dilate) {
  SIZE(N, 0); SIZE(M, 1); TABLE(unsigned char, x, 0, M); TABLE(unsigned char, y, 1, M);
  EACH(i, N) EACH(j, M) {
    unsigned char m = 0;
    for (int a = imax(i-1, 0); a <= imin(i+1, N-1); a++) for (int b = imax(j-1, 0); b <= imin(j+1, M-1);
        b++) if (x[a][b] > m) m = x[a][b];
    y[i][j] = m;
  }
}
KERNEL(haar) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, x, 0, 2*M); TABLE(int, y, 1, 2*M);
  EACH(i, N) EACH(j, M) EACH(p, 2) EACH(q, 2) {
    int t = 0;
    EACH(u, 2) EACH(v, 2) t += ((p & u) ^ (q & v) ? -1 : 1) * x[2*i+u][2*j+v];
    y[i+p*N][j+q*M] = t;
  }
}
KERNEL(histogram) { SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, h, 1); EACH(b, 16) h[b] = 0; EACH(i, N) h[x[i]]++; }
KERNEL(histogram_atomic) { SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, h, 1); EACH(i, N) h[x[i]]++; }
KERNEL(integral_box) {
  SIZE(N, 0); SIZE(M, 1); SIZE(R, 2); TABLE(int, s, 0, M+1); TABLE(int, y, 1, M);
  EACH(i, N) EACH(j, M) {
    int a = imax(i - R, 0), b = imin(i + R + 1, N), c = imax(j - R, 0), d = imin(j + R + 1, M);
    y[i][j] = s[b][d] - s[a][d] - s[b][c] + s[a][c];
  }
}
KERNEL(colour) {
  SIZE(N, 0); TABLE(unsigned char, rgb, 0, 3); ARRAY(unsigned char, y, 1);
  EACH(i, N) y[i] = (unsigned char)(((66 * rgb[i][0] + 129 * rgb[i][1] + 25 * rgb[i][2] + 128) >> 8) + 16);
}
KERNEL(mandelbrot) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(real, c, 0); TABLE(int, n, 1, M);
  EACH(i, N) EACH(j, M) {
    float x = 0, y = 0;
    int k = 0;
    while (k < 6 && x * x + y * y <= 4) {
      float u = x * x - y * y + (float)j * 0.25f - 1 + (float)c[0] * 0, v = 2 * x * y + (float)i * 0.25f - 1;
      x = u;
      y = v;
      k++;
    }
    n[i][j] = k;
  }
}

/* search and learning by distances */
KERNEL(nearest_distance) {
  SIZE(N, 0); TABLE(real, p, 0, 2); ARRAY(real, q, 1); ARRAY(real, d, 2);
  EACH(i, N) d[i] = R1(sqrt, (p[i][0] - q[0]) * (p[i][0] - q[0]) + (p[i][1] - q[1]) * (p[i][1] - q[1]));
}
KERNEL(kmeans_assign) {
  SIZE(N, 0); SIZE(K, 1); SIZE(D, 2); TABLE(real, x, 0, D); TABLE(real, c, 1, D); ARRAY(int, a, 2);
  EACH(i, N) {
    int best = 0;
    real least = 0;
    EACH(k, K) {
      real t = 0;
      EACH(d, D) t += (x[i][d] - c[k][d]) * (x[i][d] - c[k][d]);
      if (!k || t < least) { least = t; best = k; }
    }
    a[i] = best;
  }
}
KERNEL(kmeans_update) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(real, x, 0); ARRAY(int, a, 1); ARRAY(real, s, 2); ARRAY(int, n, 3);
  EACH(k, K) { s[k] = 0; n[k] = 0; EACH(i, N) if (a[i] == k) { s[k] += x[i]; n[k]++; } }
}
KERNEL(cluster_gain) {
  SIZE(N, 0); TABLE(real, x, 0, 2); ARRAY(real, c, 1); ARRAY(real, cost, 2); ARRAY(real, g, 3);
  real t = 0;
  EACH(i, N) {
    real d = (x[i][0] - c[0]) * (x[i][0] - c[0]) + (x[i][1] - c[1]) * (x[i][1] - c[1]) - cost[i];
    if (d < 0) t += d;
  }
  g[0] = t;
}
KERNEL(backprop_forward) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(real, x, 0); TABLE(real, w, 1, M); ARRAY(real, h, 2);
  EACH(j, M) { real t = w[0][j]; EACH(i, N) t += w[i+1][j] * x[i]; h[j] = 1 / (1 + R1(exp, -t)); }
}
KERNEL(backprop_adjust) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, w, 0, M); TABLE(real, o, 1, M); ARRAY(real, d, 2); ARRAY(real, y, 3);
  EACH(j, M) EACH(i, N) { real n = 3 * d[j] * y[i] + 2 * o[i][j]; w[i][j] += n; o[i][j] = n; }
}
KERNEL(bfs_level) {
  SIZE(N, 0); SIZE(E, 1); ARRAY(int, from, 0); ARRAY(int, to, 1); ARRAY(int, level, 2);
  EACH(e, E) if (level[from[e]] == 1 && level[to[e]] < 0) level[to[e]] = 2;
}
KERNEL(bfs_pull) {
  SIZE(N, 0); TABLE(unsigned char, adj, 0, N); ARRAY(unsigned char, front, 1); ARRAY(unsigned char, seen, 2);
  ARRAY(unsigned char, next, 3);
  EACH(v, N) { int t = 0; EACH(u, N) t |= adj[u][v] & front[u]; next[v] = (unsigned char)(!seen[v] && t); }
}
KERNEL(page_rank_step) {
  SIZE(N, 0); TABLE(int, adj, 0, N); ARRAY(int, r, 1); ARRAY(int, y, 2);
  EACH(v, N) { y[v] = 3; EACH(u, N) if (adj[u][v] > 0) y[v] += r[u]; }
}
KERNEL(shortest_paths) {
  SIZE(N, 0); TABLE(int, d, 0, N);
  EACH(k, N) EACH(i, N) EACH(j, N) d[i][j] = imin(d[i][j], d[i][k] + d[k][j]);
}
KERNEL(closure) {
  SIZE(N, 0); TABLE(unsigned char, r, 0, N);
  EACH(k, N) EACH(i, N) EACH(j, N) r[i][j] |= r[i][k] & r[k][j];
}
KERNEL(bellman_ford) {
  SIZE(N, 0); SIZE(E, 1); SIZE(T, 2); ARRAY(int, u, 0); ARRAY(int, v, 1); ARRAY(int, w, 2); ARRAY(int, d, 3);
  EACH(t, T) EACH(e, E) if (d[u[e]] + w[e] < d[v[e]]) d[v[e]] = d[u[e]] + w[e];
}
KERNEL(degrees) {
  SIZE(N, 0); SIZE(E, 1); ARRAY(int, u, 0); ARRAY(int, d, 1);
  EACH(v, N) d[v] = 0;
  EACH(e, E) d[u[e]]++;
}
KERNEL(spmv_ell) {
  SIZE(N, 0); SIZE(K, 1); TABLE(real, v, 0, K); TABLE(int, c, 1, K); ARRAY(real, x, 2); ARRAY(real, y, 3);
  EACH(i, N) { real t = 0; EACH(k, K) t += v[i][k] * x[c[i][k]]; y[i] = t; }
}
KERNEL(spmv_csr) {
  SIZE(N, 0); SIZE(E, 1); ARRAY(int, p, 0); ARRAY(int, c, 1); ARRAY(real, v, 2); ARRAY(real, x, 3);
  ARRAY(real, y, 4);
  EACH(i, N) { real t = 0; for (int k = p[i]; k < p[i+1]; k++) t += v[k] * x[c[k]]; y[i] = t; }
}
KERNEL(spmv_coo) {
  SIZE(N, 0); SIZE(E, 1); ARRAY(int, r, 0); ARRAY(int, c, 1); ARRAY(real, v, 2); ARRAY(real, x, 3);
  ARRAY(real, y, 4);
  EACH(i, N) y[i] = 0;
  EACH(e, E) y[r[e]] += v[e] * x[c[e]];
}

/* elimination and dynamic programmes */
KERNEL(lud) {
  SIZE(N, 0); TABLE(real, A, 0, N);
  EACH(i, N) A[i][i] += 16;
  EACH(k, N) {
    for (int i = k + 1; i < N; i++) {
      A[i][k] /= A[k][k];
      for (int j = k + 1; j < N; j++) A[i][j] -= A[i][k] * A[k][j];
    }
  }
}
KERNEL(gaussian_integers) {
  SIZE(N, 0); TABLE(int, A, 0, N); ARRAY(int, b, 1);
  EACH(k, N) for (int i = k + 1; i < N; i++) {
    int m = A[i][k];
    EACH(j, N) A[i][j] = A[k][k] * A[i][j] - m * A[k][j];
    b[i] = A[k][k] * b[i] - m * b[k];
  }
}
KERNEL(matrix_chain) {
  SIZE(N, 0); ARRAY(int, p, 0); TABLE(int, m, 1, N);
  EACH(i, N) EACH(j, N) m[i][j] = 0;
  for (int l = 1; l < N; l++) EACH(i, N - l) {
    int best = 0x7fffffff;
    for (int k = i; k < i + l; k++) best = imin(best, m[i][k] + m[k+1][i+l] + p[i] * p[k+1] * p[i+l+1]);
    m[i][i+l] = best;
  }
}
KERNEL(knapsack) {
  SIZE(N, 0); SIZE(W, 1); ARRAY(int, w, 0); ARRAY(int, v, 1); TABLE(int, d, 2, W+1);
  EACH(c, W + 1) d[0][c] = 0;
  EACH(i, N) EACH(c, W + 1) { d[i+1][c] = d[i][c]; if (c >= w[i]) d[i+1][c] = imax(d[i][c], d[i][c-w[i]] + v[i]); }
}
KERNEL(coins) {
  SIZE(K, 0); SIZE(N, 1); ARRAY(int, c, 0); ARRAY(unsigned, ways, 1);
  EACH(k, K) for (int s = c[k]; s <= N; s++) ways[s] += ways[s-c[k]];
}
KERNEL(longest_increasing) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, l, 1);
  EACH(i, N) { l[i] = 1; EACH(j, i) if (x[j] < x[i]) l[i] = imax(l[i], l[j] + 1); }
}
KERNEL(viterbi) {
  SIZE(T, 0); SIZE(S, 1); TABLE(int, tr, 0, S); TABLE(int, em, 1, S); TABLE(int, v, 2, S);
  EACH(s, S) v[0][s] = em[0][s];
  for (int t = 1; t < T; t++) EACH(s, S) {
    int best = v[t-1][0] + tr[0][s];
    EACH(r, S) best = imax(best, v[t-1][r] + tr[r][s]);
    v[t][s] = em[t][s] + best;
  }
}
KERNEL(hidden_forward) {
  SIZE(T, 0); SIZE(S, 1); TABLE(int, tr, 0, S); TABLE(int, em, 1, S); TABLE(int, a, 2, S);
  EACH(s, S) a[0][s] = em[0][s];
  for (int t = 1; t < T; t++) EACH(s, S) { int u = 0; EACH(r, S) u += a[t-1][r] * tr[r][s]; a[t][s] = em[t][s] * u; }
}

/* particles, finance, transforms */
KERNEL(n_body) {
  SIZE(N, 0); TABLE(real, p, 0, 3); ARRAY(real, m, 1); TABLE(real, f, 2, 3);
  EACH(i, N) EACH(d, 3) {
    real t = 0;
    EACH(j, N) {
      real r = 0.5f;
      EACH(e, 3) r += (p[j][e] - p[i][e]) * (p[j][e] - p[i][e]);
      t += m[j] * (p[j][d] - p[i][d]) / r;
    }
    f[i][d] = t;
  }
}
KERNEL(particle_weights) {
  SIZE(N, 0); ARRAY(real, w, 0); ARRAY(real, l, 1);
  real s = 0;
  EACH(i, N) { w[i] *= R1(exp, l[i]); s += w[i]; }
  EACH(i, N) w[i] /= s;
}
KERNEL(particle_find) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, c, 0); ARRAY(int, u, 1); ARRAY(int, a, 2);
  EACH(j, M) { int t = N - 1; EACH(i, N) if (c[i] >= u[j]) { t = i; break; } a[j] = t; }
}
KERNEL(verlet) {
  SIZE(N, 0); TABLE(real, x, 0, 2); TABLE(real, v, 1, 2); TABLE(real, f, 2, 2);
  EACH(i, N) EACH(d, 2) { v[i][d] += f[i][d]; x[i][d] += 2 * v[i][d]; }
}
KERNEL(black_scholes) {
  SIZE(N, 0); ARRAY(real, s, 0); ARRAY(real, k, 1); ARRAY(real, t, 2); ARRAY(real, c, 3);
  EACH(i, N) {
    real d = (R1(log, s[i] / k[i]) + 0.5f * t[i]) / R1(sqrt, t[i]);
    c[i] = s[i] * 0.5f * (1 + R1(erf, d * 0.70710678f)) - k[i] * R1(exp, -t[i]) * 0.25f;
  }
}
KERNEL(binomial_tree) { SIZE(N, 0); ARRAY(int, v, 0); EACH(t, N) EACH(i, N - t) v[i] = v[i] + 2 * v[i+1]; }
KERNEL(hadamard_stage) {
  SIZE(N, 0); ARRAY(int, x, 0);
  for (int h = 1; h < 4; h *= 2) EACH(j, 4) if (!(j & h)) EACH(i, N) {
    int a = x[j*N+i], b = x[(j+h)*N+i];
    x[j*N+i] = a + b;
    x[(j+h)*N+i] = a - b;
  }
}
KERNEL(bitonic_stage) {
  SIZE(N, 0); ARRAY(int, x, 0);
  EACH(i, 4 * N) { int k = i ^ 2; if (k > i && x[i] > x[k]) { int t = x[i]; x[i] = x[k]; x[k] = t; } }
}
KERNEL(odd_even_sort) {
  SIZE(N, 0); ARRAY(int, x, 0);
  EACH(i, N) for (int j = i; j > 0 && x[j-1] > x[j]; j--) { int t = x[j]; x[j] = x[j-1]; x[j-1] = t; }
}
KERNEL(rank_sort) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1);
  EACH(i, N) y[i] = x[i];
  EACH(i, N) for (int j = i; j > 0 && y[j-1] > y[j]; j--) { int t = y[j]; y[j] = y[j-1]; y[j-1] = t; }
}
KERNEL(prefix_doubling) { SIZE(N, 0); ARRAY(int, x, 0); for (int i = 1; i < N; i++) x[i] += x[i-1]; }
KERNEL(run_lengths) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(int, r, 1);
  r[0] = 1;
  for (int i = 1; i < N; i++) r[i] = (x[i] & 1) == (x[i-1] & 1) ? r[i-1] + 1 : 1;
}
KERNEL(butterfly) {
  SIZE(N, 0); TABLE(int, x, 0, 2); TABLE(int, w, 1, 2);
  EACH(i, N) {
    int re = x[i+N][0] * w[i][0] - x[i+N][1] * w[i][1], im = x[i+N][0] * w[i][1] + x[i+N][1] * w[i][0];
    x[i+N][0] = x[i][0] - re; x[i+N][1] = x[i][1] - im; x[i][0] += re; x[i][1] += im;
  }
}
KERNEL(fir) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(real, x, 0); ARRAY(real, h, 1); ARRAY(real, y, 2);
  EACH(i, N) { real t = 0; EACH(k, K) t += h[k] * x[i+K-1-k]; y[i] = t; }
}
KERNEL(iir) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1);
  y[0] = x[0];
  y[1] = x[1];
  for (int i = 2; i < N; i++) y[i] = x[i] + 2 * y[i-1] - 3 * y[i-2];
}
KERNEL(correlate) {
  SIZE(N, 0); SIZE(L, 1); ARRAY(int, x, 0); ARRAY(int, y, 1); ARRAY(int, r, 2);
  EACH(l, L) r[l] = 0;
  EACH(i, N) EACH(l, L) r[l] += x[i+l] * y[i];
}

FAMILY(systems) = {
  EXACT(hotspot), EXACT(hotspot3d), EXACT(pathfinder), EXACT(needle), EXACT(needle_diagonals),
  ROUNDS(srad_derivatives, POSITIVE), EXACT(srad_update), EXACT(life), EXACT(wave_equation), EXACT(fdtd),
  EXACT(lattice_stream), EXACT(multigrid_restrict), EXACT(multigrid_prolong), EXACT(sobel), EXACT(median3),
  BYTES(dilate), EXACT(haar), EXACT(histogram), EXACT(histogram_atomic), EXACT(integral_box), BYTES(colour),
  EXACT(mandelbrot), ROUNDS(nearest_distance, UNIT), EXACT(kmeans_assign), EXACT(kmeans_update), EXACT(cluster_gain),
  ROUNDS(backprop_forward, UNIT), EXACT(backprop_adjust), EXACT(bfs_level), EXACT(bfs_pull), EXACT(page_rank_step),
  EXACT(shortest_paths), EXACT(closure), EXACT(bellman_ford), EXACT(degrees), EXACT(spmv_ell), EXACT(spmv_csr),
  EXACT(spmv_coo), ROUNDS(lud, UNIT), EXACT(gaussian_integers), EXACT(matrix_chain), EXACT(knapsack), EXACT(coins),
  EXACT(longest_increasing), EXACT(viterbi), EXACT(hidden_forward), ROUNDS(n_body, UNIT),
  ROUNDS(particle_weights, POSITIVE), EXACT(particle_find), EXACT(verlet), ROUNDS(black_scholes, POSITIVE),
  EXACT(binomial_tree), EXACT(hadamard_stage), EXACT(bitonic_stage), EXACT(odd_even_sort), EXACT(rank_sort),
  EXACT(prefix_doubling), EXACT(run_lengths), EXACT(butterfly), EXACT(fir), EXACT(iir), EXACT(correlate), END,
};
