/* SPDX-License-Identifier: MIT
 * Part of reference.c: stencils, filters, dynamic programming. */

enum { adi_t = PICK(3, 100), adi_n = PICK(21, 200) };
KERNEL adi(int steps, int n, double a, double b, double c, double d, double e, double f, double u[restrict n][n], double v[restrict n][n], double p[restrict n][n], double q[restrict n][n]) {
  for (int t = 1; t <= steps; t++) {
    for (int i = 1; i < n - 1; i++) {
      v[0][i] = 1;
      p[i][0] = 0;
      q[i][0] = v[0][i];
      for (int j = 1; j < n - 1; j++) {
        p[i][j] = -c / (a * p[i][j-1] + b);
        q[i][j] = (-d * u[j][i-1] + (1 + 2 * d) * u[j][i] - f * u[j][i+1] - a * q[i][j-1]) / (a * p[i][j-1] + b);
      }
      v[n-1][i] = 1;
      for (int j = n - 2; j >= 1; j--) v[j][i] = p[i][j] * v[j+1][i] + q[i][j];
    }
    for (int i = 1; i < n - 1; i++) {
      u[i][0] = 1;
      p[i][0] = 0;
      q[i][0] = u[i][0];
      for (int j = 1; j < n - 1; j++) {
        p[i][j] = -f / (d * p[i][j-1] + e);
        q[i][j] = (-a * v[i-1][j] + (1 + 2 * a) * v[i][j] - c * v[i+1][j] - d * q[i][j-1]) / (d * p[i][j-1] + e);
      }
      u[i][n-1] = 1;
      for (int j = n - 2; j >= 1; j--) u[i][j] = p[i][j] * u[i][j+1] + q[i][j];
    }
  }
}
static void adi_run(void **b) {
  adi(adi_t, adi_n, scalar(b[0]), scalar(b[1]), scalar(b[2]), scalar(b[3]), scalar(b[4]), scalar(b[5]), b[6], b[7], b[8], b[9]);
}
static void adi_init(void **b) {
  enum { n = adi_n };
  double *u = b[6], dt = 1.0 / adi_t, mul1 = 2 * dt * n * n, mul2 = dt * n * n;
  put(b[0], -mul1 / 2), put(b[1], 1 + mul1), put(b[2], -mul1 / 2), put(b[3], -mul2 / 2), put(b[4], 1 + mul2), put(b[5], -mul2 / 2);
  EACH(i, n) EACH(j, n) u[i*n + j] = (double)(i + n - j) / n;
}

enum { deriche_w = PICK(21, 720), deriche_h = PICK(37, 480) };
KERNEL deriche(int w, int h, float a1, float a2, float a3, float a4, float b1, float b2, float in[restrict w][h], float out[restrict w][h], float y1[restrict w][h], float y2[restrict w][h]) {
  for (int i = 0; i < w; i++) {
    float ym1 = 0, ym2 = 0, xm1 = 0;
    for (int j = 0; j < h; j++) {
      y1[i][j] = a1 * in[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
      xm1 = in[i][j];
      ym2 = ym1;
      ym1 = y1[i][j];
    }
  }
  for (int i = 0; i < w; i++) {
    float yp1 = 0, yp2 = 0, xp1 = 0, xp2 = 0;
    for (int j = h - 1; j >= 0; j--) {
      y2[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
      xp2 = xp1;
      xp1 = in[i][j];
      yp2 = yp1;
      yp1 = y2[i][j];
    }
  }
  for (int i = 0; i < w; i++)
    for (int j = 0; j < h; j++) out[i][j] = y1[i][j] + y2[i][j];
  for (int j = 0; j < h; j++) {
    float tm1 = 0, ym1 = 0, ym2 = 0;
    for (int i = 0; i < w; i++) {
      y1[i][j] = a1 * out[i][j] + a2 * tm1 + b1 * ym1 + b2 * ym2;
      tm1 = out[i][j];
      ym2 = ym1;
      ym1 = y1[i][j];
    }
  }
  for (int j = 0; j < h; j++) {
    float tp1 = 0, tp2 = 0, yp1 = 0, yp2 = 0;
    for (int i = w - 1; i >= 0; i--) {
      y2[i][j] = a3 * tp1 + a4 * tp2 + b1 * yp1 + b2 * yp2;
      tp2 = tp1;
      tp1 = out[i][j];
      yp2 = yp1;
      yp1 = y2[i][j];
    }
  }
  for (int i = 0; i < w; i++)
    for (int j = 0; j < h; j++) out[i][j] = y1[i][j] + y2[i][j];
}
static void deriche_run(void **b) {
  deriche(deriche_w, deriche_h, scalar32(b[0]), scalar32(b[1]), scalar32(b[2]), scalar32(b[3]), scalar32(b[4]), scalar32(b[5]), b[6], b[7], b[8], b[9]);
}
static void deriche_init(void **b) {
  enum { w = deriche_w, h = deriche_h };
  float *x = b[6], alpha = 0.25f, k = (1 - expf(-alpha)) * (1 - expf(-alpha)) / (1 + 2 * alpha * expf(-alpha) - expf(2 * alpha));
  *(float *)b[0] = k, *(float *)b[1] = k * expf(-alpha) * (alpha - 1), *(float *)b[2] = k * expf(-alpha) * (alpha + 1), *(float *)b[3] = -k * expf(-2 * alpha);
  *(float *)b[4] = powf(2, -alpha), *(float *)b[5] = -expf(-2 * alpha);
  EACH(i, w) EACH(j, h) x[i*h + j] = (float)((313*i + 991*j) % 65536) / 65535.0f;
}

enum { fdtd_t = PICK(5, 100), fdtd_nx = PICK(13, 200), fdtd_ny = PICK(37, 240) };
KERNEL fdtd(int tmax, int nx, int ny, double ex[restrict nx][ny], double ey[restrict nx][ny], double hz[restrict nx][ny], double fict[restrict tmax]) {
  for (int t = 0; t < tmax; t++) {
    for (int j = 0; j < ny; j++) ey[0][j] = fict[t];
    for (int i = 1; i < nx; i++)
      for (int j = 0; j < ny; j++) ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i-1][j]);
    for (int i = 0; i < nx; i++)
      for (int j = 1; j < ny; j++) ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j-1]);
    for (int i = 0; i < nx - 1; i++)
      for (int j = 0; j < ny - 1; j++) hz[i][j] = hz[i][j] - 0.7 * (ex[i][j+1] - ex[i][j] + ey[i+1][j] - ey[i][j]);
  }
}
static void fdtd_run(void **b) { fdtd(fdtd_t, fdtd_nx, fdtd_ny, b[1], b[2], b[3], b[0]); }
static void fdtd_init(void **b) {
  enum { nx = fdtd_nx, ny = fdtd_ny };
  double *fict = b[0], *ex = b[1], *ey = b[2], *hz = b[3];
  EACH(i, fdtd_t) fict[i] = i;
  EACH(i, nx) EACH(j, ny) ex[i*ny + j] = (double)i*(j + 1) / nx, ey[i*ny + j] = (double)i*(j + 2) / ny, hz[i*ny + j] = (double)i*(j + 3) / nx;
}

enum { floyd_n = PICK(37, 500) };
KERNEL floyd(int n, int32_t path[restrict n][n]) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) path[i][j] = path[i][j] < path[i][k] + path[k][j] ? path[i][j] : path[i][k] + path[k][j];
}
static void floyd_run(void **b) { floyd(floyd_n, b[0]); }
static void floyd_init(void **b) {
  int32_t *path = b[0];
  EACH(i, floyd_n) EACH(j, floyd_n) path[i*floyd_n + j] = (i + j) % 13 == 0 || (i + j) % 7 == 0 || (i + j) % 11 == 0 ? 999 : i*j % 7 + 1;
}

enum { heat_t = PICK(3, 100), heat_n = PICK(15, 40) };
#define HEAT(A) 0.125 * (A[i+1][j][k] - 2.0 * A[i][j][k] + A[i-1][j][k]) + 0.125 * (A[i][j+1][k] - 2.0 * A[i][j][k] + A[i][j-1][k]) \
  + 0.125 * (A[i][j][k+1] - 2.0 * A[i][j][k] + A[i][j][k-1]) + A[i][j][k]
KERNEL heat(int steps, int n, double A[restrict n][n][n], double B[restrict n][n][n]) {
  for (int t = 1; t <= steps; t++) {
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        for (int k = 1; k < n - 1; k++) B[i][j][k] = HEAT(A);
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        for (int k = 1; k < n - 1; k++) A[i][j][k] = HEAT(B);
  }
}
static void heat_run(void **b) { heat(heat_t, heat_n, b[0], b[1]); }
static void heat_init(void **b) {
  enum { n = heat_n };
  double *A = b[0], *B = b[1];
  EACH(i, n) EACH(j, n) EACH(k, n) A[(i*n + j)*n + k] = B[(i*n + j)*n + k] = (double)(i + j + n - k) * 10 / n;
}

enum { jacobi1_t = PICK(5, 100), jacobi1_n = PICK(61, 400) };
KERNEL jacobi1(int steps, int n, double A[restrict n], double B[restrict n]) {
  for (int t = 0; t < steps; t++) {
    for (int i = 1; i < n - 1; i++) B[i] = 0.33333 * (A[i-1] + A[i] + A[i+1]);
    for (int i = 1; i < n - 1; i++) A[i] = 0.33333 * (B[i-1] + B[i] + B[i+1]);
  }
}
static void jacobi1_run(void **b) { jacobi1(jacobi1_t, jacobi1_n, b[0], b[1]); }
static void jacobi1_init(void **b) {
  double *A = b[0], *B = b[1];
  EACH(i, jacobi1_n) A[i] = (i + 2.0) / jacobi1_n, B[i] = (i + 3.0) / jacobi1_n;
}

enum { jacobi2_t = PICK(5, 100), jacobi2_n = PICK(37, 250) };
KERNEL jacobi2(int steps, int n, double A[restrict n][n], double B[restrict n][n]) {
  for (int t = 0; t < steps; t++) {
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++) B[i][j] = 0.2 * (A[i][j] + A[i][j-1] + A[i][j+1] + A[i+1][j] + A[i-1][j]);
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++) A[i][j] = 0.2 * (B[i][j] + B[i][j-1] + B[i][j+1] + B[i+1][j] + B[i-1][j]);
  }
}
static void jacobi2_run(void **b) { jacobi2(jacobi2_t, jacobi2_n, b[0], b[1]); }
static void jacobi2_init(void **b) {
  enum { n = jacobi2_n };
  double *A = b[0], *B = b[1];
  EACH(i, n) EACH(j, n) A[i*n + j] = ((double)i*(j + 2) + 2) / n, B[i*n + j] = ((double)i*(j + 3) + 3) / n;
}

enum { nussinov_n = PICK(41, 500) };
#define MOST(a, b) ((a) >= (b) ? (a) : (b))
KERNEL nussinov(int n, int32_t seq[restrict n], int32_t t[restrict n][n]) {
  for (int i = n - 1; i >= 0; i--)
    for (int j = i + 1; j < n; j++) {
      if (j - 1 >= 0) t[i][j] = MOST(t[i][j], t[i][j-1]);
      if (i + 1 < n) t[i][j] = MOST(t[i][j], t[i+1][j]);
      if (j - 1 >= 0 && i + 1 < n) {
        if (i < j - 1) t[i][j] = MOST(t[i][j], t[i+1][j-1] + (seq[i] + seq[j] == 3 ? 1 : 0));
        else t[i][j] = MOST(t[i][j], t[i+1][j-1]);
      }
      for (int k = i + 1; k < j; k++) t[i][j] = MOST(t[i][j], t[i][k] + t[k+1][j]);
    }
}
static void nussinov_run(void **b) { nussinov(nussinov_n, b[0], b[1]); }
static void nussinov_init(void **b) {
  int32_t *seq = b[0];
  EACH(i, nussinov_n) seq[i] = (i + 1) % 4;
}

enum { seidel_t = PICK(3, 100), seidel_n = PICK(25, 400) };
KERNEL seidel(int steps, int n, double A[restrict n][n]) {
  for (int t = 0; t <= steps - 1; t++)
    for (int i = 1; i <= n - 2; i++)
      for (int j = 1; j <= n - 2; j++)
        A[i][j] = (A[i-1][j-1] + A[i-1][j] + A[i-1][j+1] + A[i][j-1] + A[i][j] + A[i][j+1] + A[i+1][j-1] + A[i+1][j] + A[i+1][j+1]) / 9.0;
}
static void seidel_run(void **b) { seidel(seidel_t, seidel_n, b[0]); }
static void seidel_init(void **b) {
  enum { n = seidel_n };
  double *A = b[0];
  EACH(i, n) EACH(j, n) A[i*n + j] = ((double)i*(j + 2) + 2) / n;
}

#define F1 READ(TG_F32, 1)
#define STENCIL_CASES \
  {"adi", false, {{"T", adi_t}, {"N", adi_n}}, {D1, D1, D1, D1, D1, D1, WRITTEN(TG_F64, adi_n*adi_n), SCRATCH(TG_F64, adi_n*adi_n), SCRATCH(TG_F64, adi_n*adi_n), \
   SCRATCH(TG_F64, adi_n*adi_n)}, adi_init, adi_run, NULL}, \
  {"deriche", false, {{"W", deriche_w}, {"H", deriche_h}}, {F1, F1, F1, F1, F1, F1, READ(TG_F32, deriche_w*deriche_h), WRITTEN(TG_F32, deriche_w*deriche_h), \
   SCRATCH(TG_F32, deriche_w*deriche_h), SCRATCH(TG_F32, deriche_w*deriche_h)}, deriche_init, deriche_run, NULL}, \
  {"fdtd-2d", false, {{"T", fdtd_t}, {"NX", fdtd_nx}, {"NY", fdtd_ny}}, {READ(TG_F64, fdtd_t), WRITTEN(TG_F64, fdtd_nx*fdtd_ny), WRITTEN(TG_F64, fdtd_nx*fdtd_ny), \
   WRITTEN(TG_F64, fdtd_nx*fdtd_ny)}, fdtd_init, fdtd_run, NULL}, \
  {"floyd-warshall", false, {{"N", floyd_n}}, {WRITTEN(TG_I32, floyd_n*floyd_n)}, floyd_init, floyd_run, NULL}, \
  {"heat-3d", false, {{"T", heat_t}, {"N", heat_n}}, {WRITTEN(TG_F64, heat_n*heat_n*heat_n), WRITTEN(TG_F64, heat_n*heat_n*heat_n)}, heat_init, heat_run, NULL}, \
  {"jacobi-1d", false, {{"T", jacobi1_t}, {"N", jacobi1_n}}, {WRITTEN(TG_F64, jacobi1_n), WRITTEN(TG_F64, jacobi1_n)}, jacobi1_init, jacobi1_run, NULL}, \
  {"jacobi-2d", false, {{"T", jacobi2_t}, {"N", jacobi2_n}}, {WRITTEN(TG_F64, jacobi2_n*jacobi2_n), WRITTEN(TG_F64, jacobi2_n*jacobi2_n)}, jacobi2_init, jacobi2_run, NULL}, \
  {"nussinov", false, {{"N", nussinov_n}}, {READ(TG_I32, nussinov_n), WRITTEN(TG_I32, nussinov_n*nussinov_n)}, nussinov_init, nussinov_run, NULL}, \
  {"seidel-2d", false, {{"T", seidel_t}, {"N", seidel_n}}, {WRITTEN(TG_F64, seidel_n*seidel_n)}, seidel_init, seidel_run, NULL},
