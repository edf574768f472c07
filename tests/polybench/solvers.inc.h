/* SPDX-License-Identifier: MIT
 * Part of reference.c: factorisations, triangular systems, statistics. */

enum { cholesky_n = PICK(37, 400), lu_n = PICK(37, 400), ludcmp_n = PICK(37, 400), trisolv_n = PICK(41, 400), durbin_n = PICK(41, 400) };

/* Positive definite: L L' of the suite's L. */
static void definite(int n, double *A, double *L) {
  EACH(i, n) EACH(j, n) L[i*n + j] = j < i ? 1 - j / (double)n : i == j;
  EACH(i, n) EACH(j, n) {
    double s = 0;
    EACH(k, (i < j ? i : j) + 1) s += L[i*n + k] * L[j*n + k];
    A[i*n + j] = s;
  }
}

KERNEL cholesky(int n, double A[restrict n][n]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = sqrt(A[i][i]);
  }
}
static void cholesky_run(void **b) { cholesky(cholesky_n, b[0]); }
static void cholesky_init(void **b) { definite(cholesky_n, b[0], b[1]); }

KERNEL durbin(int n, double r[restrict n], double y[restrict n], double z[restrict n]) {
  y[0] = -r[0];
  double beta = 1, alpha = -r[0];
  for (int k = 1; k < n; k++) {
    beta = (1 - alpha * alpha) * beta;
    double sum = 0;
    for (int i = 0; i < k; i++) sum += r[k - i - 1] * y[i];
    alpha = -(r[k] + sum) / beta;
    for (int i = 0; i < k; i++) z[i] = y[i] + alpha * y[k - i - 1];
    for (int i = 0; i < k; i++) y[i] = z[i];
    y[k] = alpha;
  }
}
static void durbin_run(void **b) { durbin(durbin_n, b[0], b[1], b[2]); }
static void durbin_init(void **b) {
  double *r = b[0];
  EACH(i, durbin_n) r[i] = durbin_n + 1 - i;
}

enum { gramschmidt_m = PICK(21, 200), gramschmidt_n = PICK(37, 240) };
KERNEL gramschmidt(int m, int n, double A[restrict m][n], double R[restrict n][n], double Q[restrict m][n]) {
  for (int k = 0; k < n; k++) {
    double norm = 0;
    for (int i = 0; i < m; i++) norm += A[i][k] * A[i][k];
    R[k][k] = sqrt(norm);
    for (int i = 0; i < m; i++) Q[i][k] = A[i][k] / R[k][k];
    for (int j = k + 1; j < n; j++) {
      R[k][j] = 0;
      for (int i = 0; i < m; i++) R[k][j] += Q[i][k] * A[i][j];
      for (int i = 0; i < m; i++) A[i][j] = A[i][j] - Q[i][k] * R[k][j];
    }
  }
}
static void gramschmidt_run(void **b) { gramschmidt(gramschmidt_m, gramschmidt_n, b[0], b[1], b[2]); }
/* The suite's values and a diagonal: without it columns come twice, and what is left of the second is 0 / 0. */
static void gramschmidt_init(void **b) {
  enum { m = gramschmidt_m, n = gramschmidt_n };
  double *A = b[0];
  EACH(i, m) EACH(j, n) A[i*n + j] = (double)(i*j % m) / m * 100 + 10 + (i == j % m ? 50 + j : 0);
}
/* There are more columns than rows: the last of Q are made of rounding errors. What holds is A = Q R. */
static void gramschmidt_settle(void **b, void **initial) {
  enum { m = gramschmidt_m, n = gramschmidt_n };
  double *A = b[0], *R = b[1], *Q = b[2];
  (void)initial;
  EACH(i, m) EACH(j, n) {
    double s = 0;
    EACH(k, j + 1) s += Q[i*n + k] * R[k*n + j];
    A[i*n + j] = s;
  }
  memset(R, 0, sizeof *R * n * n), memset(Q, 0, sizeof *Q * m * n);
}

KERNEL lu(int n, double A[restrict n][n]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
      A[i][j] /= A[j][j];
    }
    for (int j = i; j < n; j++)
      for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
  }
}
static void lu_run(void **b) { lu(lu_n, b[0]); }
static void lu_init(void **b) { definite(lu_n, b[0], b[1]); }

KERNEL ludcmp(int n, double A[restrict n][n], double b[restrict n], double x[restrict n], double y[restrict n]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      double w = A[i][j];
      for (int k = 0; k < j; k++) w -= A[i][k] * A[k][j];
      A[i][j] = w / A[j][j];
    }
    for (int j = i; j < n; j++) {
      double w = A[i][j];
      for (int k = 0; k < i; k++) w -= A[i][k] * A[k][j];
      A[i][j] = w;
    }
  }
  for (int i = 0; i < n; i++) {
    double w = b[i];
    for (int j = 0; j < i; j++) w -= A[i][j] * y[j];
    y[i] = w;
  }
  for (int i = n - 1; i >= 0; i--) {
    double w = y[i];
    for (int j = i + 1; j < n; j++) w -= A[i][j] * x[j];
    x[i] = w / A[i][i];
  }
}
static void ludcmp_run(void **b) { ludcmp(ludcmp_n, b[1], b[0], b[2], b[3]); }
static void ludcmp_init(void **b) {
  double *v = b[0];
  EACH(i, ludcmp_n) v[i] = (i + 1) / (double)ludcmp_n / 2 + 4;
  definite(ludcmp_n, b[1], b[4]);
}

KERNEL trisolv(int n, double L[restrict n][n], double x[restrict n], double b[restrict n]) {
  for (int i = 0; i < n; i++) {
    x[i] = b[i];
    for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];
    x[i] = x[i] / L[i][i];
  }
}
static void trisolv_run(void **b) { trisolv(trisolv_n, b[0], b[2], b[1]); }
static void trisolv_init(void **b) {
  enum { n = trisolv_n };
  double *L = b[0], *v = b[1];
  EACH(i, n) {
    v[i] = i;
    EACH(j, n) L[i*n + j] = j <= i ? (double)(i + n - j + 1) * 2 / n : 0;
  }
}

enum { correlation_m = PICK(27, 240), correlation_n = PICK(37, 260) };
KERNEL correlation(int m, int n, double fn, double data[restrict n][m], double corr[restrict m][m], double mean[restrict m], double stddev[restrict m]) {
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i][j];
    mean[j] /= fn;
  }
  for (int j = 0; j < m; j++) {
    stddev[j] = 0;
    for (int i = 0; i < n; i++) stddev[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
    stddev[j] /= fn;
    stddev[j] = sqrt(stddev[j]);
    stddev[j] = stddev[j] <= 0.1 ? 1.0 : stddev[j];
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      data[i][j] -= mean[j];
      data[i][j] /= sqrt(fn) * stddev[j];
    }
  for (int i = 0; i < m - 1; i++) {
    corr[i][i] = 1;
    for (int j = i + 1; j < m; j++) {
      corr[i][j] = 0;
      for (int k = 0; k < n; k++) corr[i][j] += data[k][i] * data[k][j];
      corr[j][i] = corr[i][j];
    }
  }
  corr[m-1][m-1] = 1;
}
static void correlation_run(void **b) { correlation(correlation_m, correlation_n, scalar(b[0]), b[1], b[2], b[3], b[4]); }
static void correlation_init(void **b) {
  enum { m = correlation_m, n = correlation_n };
  double *data = b[1];
  put(b[0], n);
  EACH(i, n) EACH(j, m) data[i*m + j] = (double)(i*j) / m + i;
}

enum { covariance_m = PICK(27, 240), covariance_n = PICK(37, 260) };
KERNEL covariance(int m, int n, double fn, double data[restrict n][m], double cov[restrict m][m], double mean[restrict m]) {
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i][j];
    mean[j] /= fn;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) data[i][j] -= mean[j];
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      cov[i][j] = 0;
      for (int k = 0; k < n; k++) cov[i][j] += data[k][i] * data[k][j];
      cov[i][j] /= fn - 1;
      cov[j][i] = cov[i][j];
    }
}
static void covariance_run(void **b) { covariance(covariance_m, covariance_n, scalar(b[0]), b[1], b[2], b[3]); }
static void covariance_init(void **b) {
  enum { m = covariance_m, n = covariance_n };
  double *data = b[1];
  put(b[0], n);
  EACH(i, n) EACH(j, m) data[i*m + j] = (double)(i*j) / m;
}

#define SOLVER_CASES \
  {"cholesky", false, {{"N", cholesky_n}}, {WRITTEN(TG_F64, cholesky_n*cholesky_n), SCRATCH(TG_F64, cholesky_n*cholesky_n)}, cholesky_init, cholesky_run, NULL}, \
  {"correlation", false, {{"M", correlation_m}, {"N", correlation_n}}, {D1, WRITTEN(TG_F64, correlation_n*correlation_m), WRITTEN(TG_F64, correlation_m*correlation_m), \
   SCRATCH(TG_F64, correlation_m), SCRATCH(TG_F64, correlation_m)}, correlation_init, correlation_run, NULL}, \
  {"covariance", false, {{"M", covariance_m}, {"N", covariance_n}}, {D1, WRITTEN(TG_F64, covariance_n*covariance_m), WRITTEN(TG_F64, covariance_m*covariance_m), \
   SCRATCH(TG_F64, covariance_m)}, covariance_init, covariance_run, NULL}, \
  {"durbin", false, {{"N", durbin_n}}, {READ(TG_F64, durbin_n), WRITTEN(TG_F64, durbin_n), SCRATCH(TG_F64, durbin_n)}, durbin_init, durbin_run, NULL}, \
  {"gramschmidt", false, {{"M", gramschmidt_m}, {"N", gramschmidt_n}}, {WRITTEN(TG_F64, gramschmidt_m*gramschmidt_n), WRITTEN(TG_F64, gramschmidt_n*gramschmidt_n), \
   WRITTEN(TG_F64, gramschmidt_m*gramschmidt_n)}, gramschmidt_init, gramschmidt_run, gramschmidt_settle}, \
  {"lu", false, {{"N", lu_n}}, {WRITTEN(TG_F64, lu_n*lu_n), SCRATCH(TG_F64, lu_n*lu_n)}, lu_init, lu_run, NULL}, \
  {"ludcmp", false, {{"N", ludcmp_n}}, {READ(TG_F64, ludcmp_n), WRITTEN(TG_F64, ludcmp_n*ludcmp_n), WRITTEN(TG_F64, ludcmp_n), WRITTEN(TG_F64, ludcmp_n), \
   SCRATCH(TG_F64, ludcmp_n*ludcmp_n)}, ludcmp_init, ludcmp_run, NULL}, \
  {"trisolv", false, {{"N", trisolv_n}}, {READ(TG_F64, trisolv_n*trisolv_n), READ(TG_F64, trisolv_n), WRITTEN(TG_F64, trisolv_n)}, trisolv_init, trisolv_run, NULL},
