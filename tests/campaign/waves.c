/* SPDX-License-Identifier: MIT
 * Wavefronts, skewed stencils and recurrences in plain C: see reference.h for the form, waves.tg for the texts. */
#include "reference.h"

KERNEL(anti1) {
  SIZE(N, 0);
  ARRAY(int, b, 0);
  ARRAY(int, a, 1);
  ARRAY(int, c, 2);
  EACH(i, N) {
    b[i] = a[i + 1] + 1;
    a[i] = c[i] * b[i];
  }
}
KERNEL(anti3) {
  SIZE(N, 0);
  ARRAY(int, b, 0);
  ARRAY(int, a, 1);
  ARRAY(int, c, 2);
  EACH(i, N) {
    b[i] = a[i + 3] + c[i];
    a[i] = b[i] * 2;
  }
}
KERNEL(flow1) { SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, c, 1); EACH(i, N) a[i+1] = a[i] * 3 + c[i]; }
KERNEL(flow4) { SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, c, 1); EACH(i, N) a[i+4] = a[i] * 3 + c[i]; }
KERNEL(ring2) { SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); EACH(i, N) { a[i+1] = b[i] + 1; b[i+1] = a[i] * 3; } }
KERNEL(ring_anti) {
  SIZE(N, 0);
  ARRAY(int, a, 0);
  ARRAY(int, b, 1);
  ARRAY(int, c, 2);
  EACH(i, N) {
    b[i] = a[i + 1] + c[i];
    a[i] = b[i + 1] - c[i];
  }
}
KERNEL(output1) {
  SIZE(N, 0);
  ARRAY(int, a, 0);
  ARRAY(int, b, 1);
  ARRAY(int, c, 2);
  EACH(i, N) {
    a[i + 1] = b[i];
    a[i] = c[i] + 1;
  }
}
KERNEL(three_anti) {
  SIZE(N, 0);
  ARRAY(int, a, 0);
  ARRAY(int, b, 1);
  ARRAY(int, c, 2);
  EACH(i, N) {
    c[i] = a[i + 2] + b[i + 1];
    b[i] = c[i] * 5;
    a[i] = b[i] - c[i];
  }
}

#define DISTANCE(name, columns, to_i, to_j, from_i, from_j) \
  KERNEL(name) { \
    SIZE(N, 0); \
    SIZE(M, 1); \
    TABLE(int, a, 0, columns); \
    TABLE(int, b, 1, M); \
    EACH(i, N) EACH(j, M) a[i + to_i][j + to_j] = a[i + from_i][j + from_j] * 3 + b[i][j]; \
  }
DISTANCE(dist01, M+1, 0, 1, 0, 0)
DISTANCE(dist10, M+1, 1, 0, 0, 0)
DISTANCE(dist11, M+1, 1, 1, 0, 0)
DISTANCE(dist1m1, M+1, 1, 0, 0, 1)
DISTANCE(dist21, M+1, 2, 1, 0, 0)
DISTANCE(dist12, M+2, 1, 2, 0, 0)
DISTANCE(dist2m1, M+1, 2, 0, 0, 1)
DISTANCE(anti11, M+1, 0, 0, 1, 1)
DISTANCE(anti1m1, M+1, 0, 1, 1, 0)
DISTANCE(anti01, M+1, 0, 0, 0, 1)
KERNEL(pair11) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  TABLE(int, b, 1, M + 1);
  EACH(i, N) EACH(j, M) {
    a[i + 1][j + 1] = b[i][j] + 1;
    b[i + 1][j + 1] = a[i][j + 1] * 3;
  }
}
KERNEL(pair_mixed) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  TABLE(int, b, 1, M + 1);
  EACH(i, N) EACH(j, M) {
    a[i][j] = b[i + 1][j + 1] + 1;
    b[i][j] = a[i][j] * 3;
  }
}
KERNEL(beside_rows) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M);
  ARRAY(int, s, 1);
  EACH(i, N) {
    int t = 0;
    EACH(j, M) t += a[i][j];
    s[i] = t;
    EACH(j, M) a[i + 1][j] = a[i][j] + s[i];
  }
}

KERNEL(wave_sum) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  EACH(i, N) EACH(j, M) a[i + 1][j + 1] = a[i][j + 1] + a[i + 1][j] - a[i][j];
}
KERNEL(wave_min) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, d, 0, M + 1);
  TABLE(int, c, 1, M);
  EACH(i, N) EACH(j, M) d[i + 1][j + 1] = imin(imin(d[i][j + 1], d[i + 1][j]), d[i][j]) + c[i][j];
}
KERNEL(edit_distance) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, x, 0); ARRAY(int, y, 1); TABLE(int, d, 2, M+1);
  EACH(i, N+1) d[i][0] = i;
  EACH(j, M+1) d[0][j] = j;
  EACH(i, N) EACH(j, M) d[i+1][j+1] = imin(imin(d[i][j+1] + 1, d[i+1][j] + 1), d[i][j] + (x[i] != y[j]));
}
KERNEL(common_subsequence) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, x, 0); ARRAY(int, y, 1); TABLE(int, d, 2, M+1);
  EACH(i, N + 1)
  EACH(j, M + 1) d[i][j] = i == 0 || j == 0       ? 0
                           : x[i - 1] == y[j - 1] ? d[i - 1][j - 1] + 1
                                                  : imax(d[i - 1][j], d[i][j - 1]);
}
KERNEL(smith_waterman) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, x, 0); ARRAY(int, y, 1); TABLE(int, h, 2, M+1);
  EACH(i, N + 1)
  EACH(j, M + 1) h[i][j] =
      i == 0 || j == 0
          ? 0
          : imax(imax(0, h[i - 1][j - 1] + (x[i - 1] == y[j - 1] ? 2 : -1)), imax(h[i - 1][j], h[i][j - 1]) - 1);
}
KERNEL(warping) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, x, 0); ARRAY(int, y, 1); TABLE(int, d, 2, M+1);
  EACH(i, N)
  EACH(j, M) d[i + 1][j + 1] =
      (x[i] < y[j] ? y[j] - x[i] : x[i] - y[j]) + imin(d[i][j], imin(d[i][j + 1], d[i + 1][j]));
}
KERNEL(wave_reversed) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  for (int i = N - 1; i >= 0; i--)
    for (int j = M - 1; j >= 0; j--) a[i][j] = a[i + 1][j] + a[i][j + 1] * 3;
}
KERNEL(wave_up) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  EACH(i, N) for (int j = M - 1; j >= 0; j--) a[i + 1][j] = a[i][j + 1] + a[i + 1][j + 1] * 3;
}
KERNEL(wave_diagonal) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M + 1);
  EACH(i, N) EACH(j, M) a[i + 1][j + 1] = a[i][j + 1] + a[i + 1][j] * 3;
}
KERNEL(triangle_wave) {
  SIZE(N, 0);
  TABLE(int, a, 0, N + 1);
  EACH(i, N) EACH(j, i + 1) a[i + 1][j + 1] = a[i][j] + a[i][j + 1] * 3;
}
KERNEL(pascal) {
  SIZE(N, 0);
  TABLE(unsigned, p, 0, N);
  EACH(i, N) EACH(j, N) p[i][j] = j == 0 ? 1 : i == 0 ? 0 : p[i - 1][j] + p[i - 1][j - 1];
}

#define CUBES(name) KERNEL(name) { SIZE(N, 0); CUBE(int, a, 0, N+1, N+1); EACH(i, N) EACH(j, N) EACH(k, N)
KERNEL(cube_up) {
  SIZE(M, 0);
  SIZE(N, 1);
  CUBE(int, a, 0, N + 1, N + 1);
  EACH(i, M) EACH(j, N) EACH(k, N) a[i + 1][j + 1][k] = a[i][j][k + 1] * 5 + 1;
}
CUBES(cube111) a[i+1][j+1][k+1] = a[i][j][k] * 3 + 1; }
CUBES(cube011) a[i][j+1][k+1] = a[i][j][k] * 3 + 1; }
CUBES(cube11m1) a[i+1][j+1][k] = a[i][j][k+1] * 3 + a[i+1][j][k]; }
KERNEL(cube1m10) {
  SIZE(N, 0);
  CUBE(int, a, 0, N + 1, N);
  EACH(i, N) EACH(j, N) EACH(k, N) a[i + 1][j][k] = a[i][j + 1][k] * 3 + 2;
}
CUBES(cube_wave) a[i+1][j+1][k+1] = a[i][j+1][k+1] + a[i+1][j][k+1] + a[i+1][j+1][k]; }
CUBES(cube_anti) a[i][j][k] = a[i+1][j+1][k+1] * 3 + a[i][j][k+1]; }
KERNEL(cube_ring) {
  SIZE(N, 0);
  CUBE(int, a, 0, N + 1, N + 1);
  CUBE(int, b, 1, N + 1, N + 1);
  EACH(i, N) EACH(j, N) EACH(k, N) {
    a[i + 1][j][k + 1] = b[i][j + 1][k] + 1;
    b[i][j + 1][k + 1] = a[i][j][k] * 3;
  }
}
CUBES(cube_shift) a[i+2][j][k] = a[i][j+1][k+1] * 3 + a[i+1][j][k]; }

KERNEL(jacobi1) {
  SIZE(T, 0);
  SIZE(N, 1);
  TABLE(int, a, 0, N);
  EACH(t, T) EACH(i, N - 2) a[t + 1][i + 1] = a[t][i] + a[t][i + 1] + a[t][i + 2];
}
KERNEL(seidel1) {
  SIZE(T, 0);
  SIZE(N, 1);
  ARRAY(int, a, 0);
  EACH(t, T) EACH(i, N - 2) a[i + 1] = a[i] + a[i + 1] * 3 + a[i + 2];
}
KERNEL(seidel2) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, a, 0, M);
  EACH(i, N - 2)
  EACH(j, M - 2) a[i + 1][j + 1] = a[i][j + 1] + a[i + 1][j] + a[i + 1][j + 1] + a[i + 1][j + 2] + a[i + 2][j + 1];
}
KERNEL(seidel2_nine) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, a, 0, M);
  EACH(i, N - 2) EACH(j, M - 2) {
    int t = 0;
    EACH(y, 3) EACH(x, 3) t += a[i+y][j+x];
    a[i+1][j+1] = t;
  }
}
KERNEL(red_black) {
  SIZE(T, 0); SIZE(N, 1); ARRAY(int, a, 0);
  EACH(t, T) {
    for (int i = 0; i + 1 < N; i += 2) a[i] = (i ? a[i-1] : 0) + a[i+1];
    for (int i = 1; i + 1 < N; i += 2) a[i] = a[i-1] + a[i+1];
  }
}
KERNEL(heat2) {
  SIZE(T, 0); SIZE(N, 1); SIZE(M, 2); TABLE(int, a, 0, M); int b[14][14];
  EACH(t, T) {
    EACH(i, N) EACH(j, M) b[i][j] = a[i][j];
    EACH(i, N - 2) EACH(j, M - 2) a[i+1][j+1] = b[i][j+1] + b[i+2][j+1] + b[i+1][j] + b[i+1][j+2] - 4 * b[i+1][j+1];
  }
}
KERNEL(diagonal_sweep) {
  SIZE(N, 0);
  TABLE(int, a, 0, N);
  EACH(i, N - 1) EACH(j, N - 1) a[i + 1][j] = a[i][j + 1] + a[i + 1][j];
}
KERNEL(snake) { SIZE(N, 0); SIZE(M, 1); ARRAY(int, a, 0); EACH(i, N) EACH(j, M) a[i*M+j+1] = a[i*M+j] + j; }
KERNEL(column_scan) { SIZE(N, 0); SIZE(M, 1); TABLE(int, a, 0, M); EACH(j, M) EACH(i, N) a[i+1][j] += a[i][j]; }
KERNEL(row_scan) { SIZE(N, 0); SIZE(M, 1); TABLE(int, a, 0, M+1); EACH(i, N) EACH(j, M) a[i][j+1] += a[i][j]; }
KERNEL(summed_area) {
  SIZE(N, 0);
  SIZE(M, 1);
  TABLE(int, x, 0, M);
  TABLE(int, s, 1, M + 1);
  EACH(i, N + 1)
  EACH(j, M + 1) s[i][j] = i == 0 || j == 0 ? 0 : x[i - 1][j - 1] + s[i - 1][j] + s[i][j - 1] - s[i - 1][j - 1];
}
KERNEL(tridiagonal) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, l, 0, M); TABLE(int, x, 1, M);
  EACH(i, N) EACH(j, M) x[i+1][j] -= l[i][j] * x[i][j];
  for (int i = N - 1; i >= 0; i--) EACH(j, M) x[i][j] -= l[i][j] * x[i+1][j];
}
KERNEL(fibonacci) { SIZE(N, 0); ARRAY(unsigned, f, 0); EACH(i, N) f[i] = i < 2 ? (unsigned)i : f[i-1] + f[i-2]; }
KERNEL(lookback) { SIZE(N, 0); ARRAY(int, a, 0); EACH(i, N) a[i+5] = a[i] + a[i+3] * 3 - a[i+4]; }
KERNEL(reversed_flow) { SIZE(N, 0); ARRAY(int, a, 0); for (int i = N - 1; i >= 0; i--) a[i] = a[i+1] * 3 + 1; }
KERNEL(reversed_anti) { SIZE(N, 0); ARRAY(int, a, 0); for (int i = N; i >= 1; i--) a[i] = a[i-1] * 3 + 1; }
KERNEL(fold_half) { SIZE(N, 0); ARRAY(int, a, 0); EACH(i, N) a[i] += a[2*N-1-i]; }
KERNEL(strided_flow) { SIZE(N, 0); ARRAY(int, a, 0); EACH(i, N) a[3*i+3] = a[3*i] + a[3*i+1]; }
KERNEL(apart) { SIZE(N, 0); ARRAY(int, a, 0); EACH(i, N) a[2*i] = a[2*i+1] * 3 + 1; }

FAMILY(waves) = {
    EXACT(anti1),
    EXACT(anti3),
    EXACT(flow1),
    EXACT(flow4),
    EXACT(ring2),
    EXACT(ring_anti),
    EXACT(output1),
    EXACT(three_anti),
    EXACT(dist01),
    EXACT(dist10),
    EXACT(dist11),
    EXACT(dist1m1),
    EXACT(dist21),
    EXACT(dist12),
    EXACT(dist2m1),
    EXACT(anti11),
    EXACT(anti1m1),
    EXACT(anti01),
    EXACT(pair11),
    EXACT(pair_mixed),
    EXACT(beside_rows),
    EXACT(wave_sum),
    EXACT(wave_min),
    EXACT(edit_distance),
    EXACT(common_subsequence),
    EXACT(smith_waterman),
    EXACT(warping),
    EXACT(wave_reversed),
    EXACT(wave_up),
    EXACT(wave_diagonal),
    EXACT(triangle_wave),
    EXACT(pascal),
    EXACT(cube_up),
    EXACT(cube111),
    EXACT(cube011),
    EXACT(cube11m1),
    EXACT(cube1m10),
    EXACT(cube_wave),
    EXACT(cube_anti),
    EXACT(cube_ring),
    EXACT(cube_shift),
    EXACT(jacobi1),
    {"jacobi1_skewed", jacobi1, false, CAMPAIGN_WHOLE, 0},
    EXACT(seidel1),
    EXACT(seidel2),
    EXACT(seidel2_nine),
    EXACT(red_black),
    EXACT(heat2),
    EXACT(diagonal_sweep),
    EXACT(snake),
    EXACT(column_scan),
    EXACT(row_scan),
    EXACT(summed_area),
    EXACT(tridiagonal),
    EXACT(fibonacci),
    EXACT(lookback),
    EXACT(reversed_flow),
    EXACT(reversed_anti),
    EXACT(fold_half),
    EXACT(strided_flow),
    EXACT(apart),
    {NULL, NULL, false, CAMPAIGN_WHOLE, 0},
};
