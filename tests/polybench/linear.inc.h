/* SPDX-License-Identifier: MIT
 * Part of reference.c: products of matrices and vectors. */

enum { mm2_ni = PICK(13, 180), mm2_nj = PICK(35, 190), mm2_nk = PICK(17, 210), mm2_nl = PICK(21, 220) };
KERNEL mm2(int ni, int nj, int nk, int nl, double alpha, double beta, double tmp[restrict ni][nj], double A[restrict ni][nk], double B[restrict nk][nj],
           double C[restrict nj][nl], double D[restrict ni][nl]) {
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nj; j++) {
      tmp[i][j] = 0;
      for (int k = 0; k < nk; k++) tmp[i][j] += alpha * A[i][k] * B[k][j];
    }
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nl; j++) {
      D[i][j] *= beta;
      for (int k = 0; k < nj; k++) D[i][j] += tmp[i][k] * C[k][j];
    }
}
static void mm2_run(void **b) { mm2(mm2_ni, mm2_nj, mm2_nk, mm2_nl, scalar(b[0]), scalar(b[1]), b[6], b[2], b[3], b[4], b[5]); }
static void mm2_init(void **b) {
  enum { ni = mm2_ni, nj = mm2_nj, nk = mm2_nk, nl = mm2_nl };
  double *A = b[2], *B = b[3], *C = b[4], *D = b[5];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, ni) EACH(j, nk) A[i*nk + j] = (double)((i*j + 1) % ni) / ni;
  EACH(i, nk) EACH(j, nj) B[i*nj + j] = (double)(i*(j + 1) % nj) / nj;
  EACH(i, nj) EACH(j, nl) C[i*nl + j] = (double)((i*(j + 3) + 1) % nl) / nl;
  EACH(i, ni) EACH(j, nl) D[i*nl + j] = (double)(i*(j + 2) % nk) / nk;
}

enum { mm3_ni = PICK(13, 180), mm3_nj = PICK(35, 190), mm3_nk = PICK(17, 200), mm3_nl = PICK(21, 210), mm3_nm = PICK(19, 220) };
KERNEL mm3(int ni, int nj, int nk, int nl, int nm, double E[restrict ni][nj], double A[restrict ni][nk], double B[restrict nk][nj], double F[restrict nj][nl],
           double C[restrict nj][nm], double D[restrict nm][nl], double G[restrict ni][nl]) {
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nj; j++) {
      E[i][j] = 0;
      for (int k = 0; k < nk; k++) E[i][j] += A[i][k] * B[k][j];
    }
  for (int i = 0; i < nj; i++)
    for (int j = 0; j < nl; j++) {
      F[i][j] = 0;
      for (int k = 0; k < nm; k++) F[i][j] += C[i][k] * D[k][j];
    }
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nl; j++) {
      G[i][j] = 0;
      for (int k = 0; k < nj; k++) G[i][j] += E[i][k] * F[k][j];
    }
}
static void mm3_run(void **b) { mm3(mm3_ni, mm3_nj, mm3_nk, mm3_nl, mm3_nm, b[5], b[0], b[1], b[6], b[2], b[3], b[4]); }
static void mm3_init(void **b) {
  enum { ni = mm3_ni, nj = mm3_nj, nk = mm3_nk, nl = mm3_nl, nm = mm3_nm };
  double *A = b[0], *B = b[1], *C = b[2], *D = b[3];
  EACH(i, ni) EACH(j, nk) A[i*nk + j] = (double)((i*j + 1) % ni) / (5*ni);
  EACH(i, nk) EACH(j, nj) B[i*nj + j] = (double)((i*(j + 1) + 2) % nj) / (5*nj);
  EACH(i, nj) EACH(j, nm) C[i*nm + j] = (double)(i*(j + 3) % nl) / (5*nl);
  EACH(i, nm) EACH(j, nl) D[i*nl + j] = (double)((i*(j + 2) + 2) % nk) / (5*nk);
}

enum { gemm_ni = PICK(13, 200), gemm_nj = PICK(35, 220), gemm_nk = PICK(17, 240) };
KERNEL gemm(int ni, int nj, int nk, double alpha, double beta, double C[restrict ni][nj], double A[restrict ni][nk], double B[restrict nk][nj]) {
  for (int i = 0; i < ni; i++) {
    for (int j = 0; j < nj; j++) C[i][j] *= beta;
    for (int k = 0; k < nk; k++)
      for (int j = 0; j < nj; j++) C[i][j] += alpha * A[i][k] * B[k][j];
  }
}
static void gemm_run(void **b) { gemm(gemm_ni, gemm_nj, gemm_nk, scalar(b[0]), scalar(b[1]), b[4], b[2], b[3]); }
static void gemm_init(void **b) {
  enum { ni = gemm_ni, nj = gemm_nj, nk = gemm_nk };
  double *A = b[2], *B = b[3], *C = b[4];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, ni) EACH(j, nj) C[i*nj + j] = (double)((i*j + 1) % ni) / ni;
  EACH(i, ni) EACH(j, nk) A[i*nk + j] = (double)(i*(j + 1) % nk) / nk;
  EACH(i, nk) EACH(j, nj) B[i*nj + j] = (double)(i*(j + 2) % nj) / nj;
}

enum { gemver_n = PICK(37, 400) };
KERNEL gemver(int n, double alpha, double beta, double A[restrict n][n], double u1[restrict n], double v1[restrict n], double u2[restrict n], double v2[restrict n],
              double w[restrict n], double x[restrict n], double y[restrict n], double z[restrict n]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x[i] = x[i] + beta * A[j][i] * y[j];
  for (int i = 0; i < n; i++) x[i] = x[i] + z[i];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) w[i] = w[i] + alpha * A[i][j] * x[j];
}
static void gemver_run(void **b) { gemver(gemver_n, scalar(b[0]), scalar(b[1]), b[8], b[2], b[3], b[4], b[5], b[10], b[9], b[6], b[7]); }
static void gemver_init(void **b) {
  enum { n = gemver_n };
  double *u1 = b[2], *v1 = b[3], *u2 = b[4], *v2 = b[5], *y = b[6], *z = b[7], *A = b[8];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, n) {
    u1[i] = i;
    u2[i] = (i + 1) / (double)n / 2, v1[i] = (i + 1) / (double)n / 4, v2[i] = (i + 1) / (double)n / 6, y[i] = (i + 1) / (double)n / 8, z[i] = (i + 1) / (double)n / 9;
    EACH(j, n) A[i*n + j] = (double)(i*j % n) / n;
  }
}

enum { gesummv_n = PICK(37, 250) };
KERNEL gesummv(int n, double alpha, double beta, double A[restrict n][n], double B[restrict n][n], double tmp[restrict n], double x[restrict n], double y[restrict n]) {
  for (int i = 0; i < n; i++) {
    tmp[i] = y[i] = 0;
    for (int j = 0; j < n; j++) {
      tmp[i] = A[i][j] * x[j] + tmp[i];
      y[i] = B[i][j] * x[j] + y[i];
    }
    y[i] = alpha * tmp[i] + beta * y[i];
  }
}
static void gesummv_run(void **b) { gesummv(gesummv_n, scalar(b[0]), scalar(b[1]), b[2], b[3], b[6], b[4], b[5]); }
static void gesummv_init(void **b) {
  enum { n = gesummv_n };
  double *A = b[2], *B = b[3], *x = b[4];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, n) {
    x[i] = (double)(i % n) / n;
    EACH(j, n) A[i*n + j] = (double)((i*j + 1) % n) / n, B[i*n + j] = (double)((i*j + 2) % n) / n;
  }
}

enum { symm_m = PICK(19, 200), symm_n = PICK(37, 240) };
KERNEL symm(int m, int n, double alpha, double beta, double C[restrict m][n], double A[restrict m][m], double B[restrict m][n]) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double t = 0;
      for (int k = 0; k < i; k++) {
        C[k][j] += alpha * B[i][j] * A[i][k];
        t += B[k][j] * A[i][k];
      }
      C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * t;
    }
}
static void symm_run(void **b) { symm(symm_m, symm_n, scalar(b[0]), scalar(b[1]), b[4], b[2], b[3]); }
static void symm_init(void **b) {
  enum { m = symm_m, n = symm_n };
  double *A = b[2], *B = b[3], *C = b[4];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, m) EACH(j, n) C[i*n + j] = (double)((i + j) % 100) / m, B[i*n + j] = (double)((n + i - j) % 100) / m;
  EACH(i, m) EACH(j, m) A[i*m + j] = j <= i ? (double)((i + j) % 100) / m : -999;   /* nobody reads above the diagonal */
}

enum { syr2k_m = PICK(19, 200), syr2k_n = PICK(37, 240) };
KERNEL syr2k(int m, int n, double alpha, double beta, double C[restrict n][n], double A[restrict n][m], double B[restrict n][m]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) C[i][j] *= beta;
    for (int k = 0; k < m; k++)
      for (int j = 0; j <= i; j++) C[i][j] += A[j][k] * alpha * B[i][k] + B[j][k] * alpha * A[i][k];
  }
}
static void syr2k_run(void **b) { syr2k(syr2k_m, syr2k_n, scalar(b[0]), scalar(b[1]), b[4], b[2], b[3]); }
static void syr2k_init(void **b) {
  enum { m = syr2k_m, n = syr2k_n };
  double *A = b[2], *B = b[3], *C = b[4];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, n) EACH(j, m) A[i*m + j] = (double)((i*j + 1) % n) / n, B[i*m + j] = (double)((i*j + 2) % m) / m;
  EACH(i, n) EACH(j, n) C[i*n + j] = (double)((i*j + 3) % n) / m;
}

enum { syrk_m = PICK(19, 200), syrk_n = PICK(37, 240) };
KERNEL syrk(int m, int n, double alpha, double beta, double C[restrict n][n], double A[restrict n][m]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) C[i][j] *= beta;
    for (int k = 0; k < m; k++)
      for (int j = 0; j <= i; j++) C[i][j] += alpha * A[i][k] * A[j][k];
  }
}
static void syrk_run(void **b) { syrk(syrk_m, syrk_n, scalar(b[0]), scalar(b[1]), b[3], b[2]); }
static void syrk_init(void **b) {
  enum { m = syrk_m, n = syrk_n };
  double *A = b[2], *C = b[3];
  put(b[0], 1.5), put(b[1], 1.2);
  EACH(i, n) EACH(j, m) A[i*m + j] = (double)((i*j + 1) % n) / n;
  EACH(i, n) EACH(j, n) C[i*n + j] = (double)((i*j + 2) % m) / m;
}

enum { trmm_m = PICK(19, 200), trmm_n = PICK(37, 240) };
KERNEL trmm(int m, int n, double alpha, double A[restrict m][m], double B[restrict m][n]) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      for (int k = i + 1; k < m; k++) B[i][j] += A[k][i] * B[k][j];
      B[i][j] = alpha * B[i][j];
    }
}
static void trmm_run(void **b) { trmm(trmm_m, trmm_n, scalar(b[0]), b[1], b[2]); }
static void trmm_init(void **b) {
  enum { m = trmm_m, n = trmm_n };
  double *A = b[1], *B = b[2];
  put(b[0], 1.5);
  EACH(i, m) EACH(j, m) A[i*m + j] = j < i ? (double)((i + j) % m) / m : i == j;
  EACH(i, m) EACH(j, n) B[i*n + j] = (double)((n + i - j) % n) / n;
}

enum { mvt_n = PICK(37, 400) };
KERNEL mvt(int n, double x1[restrict n], double x2[restrict n], double y1[restrict n], double y2[restrict n], double A[restrict n][n]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x1[i] = x1[i] + A[i][j] * y1[j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x2[i] = x2[i] + A[j][i] * y2[j];
}
static void mvt_run(void **b) { mvt(mvt_n, b[3], b[4], b[1], b[2], b[0]); }
static void mvt_init(void **b) {
  enum { n = mvt_n };
  double *A = b[0], *y1 = b[1], *y2 = b[2], *x1 = b[3], *x2 = b[4];
  EACH(i, n) {
    x1[i] = (double)(i % n) / n, x2[i] = (double)((i + 1) % n) / n, y1[i] = (double)((i + 3) % n) / n, y2[i] = (double)((i + 4) % n) / n;
    EACH(j, n) A[i*n + j] = (double)(i*j % n) / n;
  }
}

enum { atax_m = PICK(19, 390), atax_n = PICK(37, 410) };
KERNEL atax(int m, int n, double A[restrict m][n], double x[restrict n], double y[restrict n], double tmp[restrict m]) {
  for (int i = 0; i < n; i++) y[i] = 0;
  for (int i = 0; i < m; i++) {
    tmp[i] = 0;
    for (int j = 0; j < n; j++) tmp[i] = tmp[i] + A[i][j] * x[j];
    for (int j = 0; j < n; j++) y[j] = y[j] + A[i][j] * tmp[i];
  }
}
static void atax_run(void **b) { atax(atax_m, atax_n, b[0], b[1], b[2], b[3]); }
static void atax_init(void **b) {
  enum { m = atax_m, n = atax_n };
  double *A = b[0], *x = b[1];
  EACH(i, n) x[i] = 1 + i / (double)n;
  EACH(i, m) EACH(j, n) A[i*n + j] = (double)((i + j) % n) / (5*m);
}

enum { bicg_m = PICK(19, 390), bicg_n = PICK(37, 410) };
KERNEL bicg(int m, int n, double A[restrict n][m], double s[restrict m], double q[restrict n], double p[restrict m], double r[restrict n]) {
  for (int i = 0; i < m; i++) s[i] = 0;
  for (int i = 0; i < n; i++) {
    q[i] = 0;
    for (int j = 0; j < m; j++) {
      s[j] = s[j] + r[i] * A[i][j];
      q[i] = q[i] + A[i][j] * p[j];
    }
  }
}
static void bicg_run(void **b) { bicg(bicg_m, bicg_n, b[0], b[3], b[4], b[1], b[2]); }
static void bicg_init(void **b) {
  enum { m = bicg_m, n = bicg_n };
  double *A = b[0], *p = b[1], *r = b[2];
  EACH(i, m) p[i] = (double)(i % m) / m;
  EACH(i, n) {
    r[i] = (double)(i % n) / n;
    EACH(j, m) A[i*m + j] = (double)(i*(j + 1) % n) / n;
  }
}

enum { doitgen_r = PICK(7, 50), doitgen_q = PICK(9, 40), doitgen_p = PICK(35, 60) };
KERNEL doitgen(int nr, int nq, int np, double A[restrict nr][nq][np], double C4[restrict np][np], double sum[restrict np]) {
  for (int r = 0; r < nr; r++)
    for (int q = 0; q < nq; q++) {
      for (int p = 0; p < np; p++) {
        sum[p] = 0;
        for (int s = 0; s < np; s++) sum[p] += A[r][q][s] * C4[s][p];
      }
      for (int p = 0; p < np; p++) A[r][q][p] = sum[p];
    }
}
static void doitgen_run(void **b) { doitgen(doitgen_r, doitgen_q, doitgen_p, b[1], b[0], b[2]); }
static void doitgen_init(void **b) {
  enum { nr = doitgen_r, nq = doitgen_q, np = doitgen_p };
  double *C4 = b[0], *A = b[1];
  EACH(i, nr) EACH(j, nq) EACH(k, np) A[(i*nq + j)*np + k] = (double)((i*j + k) % np) / np;
  EACH(i, np) EACH(j, np) C4[i*np + j] = (double)(i*j % np) / np;
}

#define D1 READ(TG_F64, 1)
#define LINEAR_CASES \
  {"2mm", true, {{"NI", mm2_ni}, {"NJ", mm2_nj}, {"NK", mm2_nk}, {"NL", mm2_nl}}, \
   {D1, D1, READ(TG_F64, mm2_ni*mm2_nk), READ(TG_F64, mm2_nk*mm2_nj), READ(TG_F64, mm2_nj*mm2_nl), WRITTEN(TG_F64, mm2_ni*mm2_nl), SCRATCH(TG_F64, mm2_ni*mm2_nj)}, \
   mm2_init, mm2_run, NULL}, \
  {"3mm", true, {{"NI", mm3_ni}, {"NJ", mm3_nj}, {"NK", mm3_nk}, {"NL", mm3_nl}, {"NM", mm3_nm}}, \
   {READ(TG_F64, mm3_ni*mm3_nk), READ(TG_F64, mm3_nk*mm3_nj), READ(TG_F64, mm3_nj*mm3_nm), READ(TG_F64, mm3_nm*mm3_nl), WRITTEN(TG_F64, mm3_ni*mm3_nl), \
    SCRATCH(TG_F64, mm3_ni*mm3_nj), SCRATCH(TG_F64, mm3_nj*mm3_nl)}, mm3_init, mm3_run, NULL}, \
  {"gemm", true, {{"NI", gemm_ni}, {"NJ", gemm_nj}, {"NK", gemm_nk}}, \
   {D1, D1, READ(TG_F64, gemm_ni*gemm_nk), READ(TG_F64, gemm_nk*gemm_nj), WRITTEN(TG_F64, gemm_ni*gemm_nj)}, gemm_init, gemm_run, NULL}, \
  {"gemver", true, {{"N", gemver_n}}, {D1, D1, READ(TG_F64, gemver_n), READ(TG_F64, gemver_n), READ(TG_F64, gemver_n), READ(TG_F64, gemver_n), READ(TG_F64, gemver_n), \
   READ(TG_F64, gemver_n), WRITTEN(TG_F64, gemver_n*gemver_n), WRITTEN(TG_F64, gemver_n), WRITTEN(TG_F64, gemver_n)}, gemver_init, gemver_run, NULL}, \
  {"gesummv", true, {{"N", gesummv_n}}, {D1, D1, READ(TG_F64, gesummv_n*gesummv_n), READ(TG_F64, gesummv_n*gesummv_n), READ(TG_F64, gesummv_n), WRITTEN(TG_F64, gesummv_n), \
   SCRATCH(TG_F64, gesummv_n)}, gesummv_init, gesummv_run, NULL}, \
  {"symm", true, {{"M", symm_m}, {"N", symm_n}}, {D1, D1, READ(TG_F64, symm_m*symm_m), READ(TG_F64, symm_m*symm_n), WRITTEN(TG_F64, symm_m*symm_n)}, symm_init, symm_run, NULL}, \
  {"syr2k", true, {{"M", syr2k_m}, {"N", syr2k_n}}, {D1, D1, READ(TG_F64, syr2k_n*syr2k_m), READ(TG_F64, syr2k_n*syr2k_m), WRITTEN(TG_F64, syr2k_n*syr2k_n)}, \
   syr2k_init, syr2k_run, NULL}, \
  {"syrk", true, {{"M", syrk_m}, {"N", syrk_n}}, {D1, D1, READ(TG_F64, syrk_n*syrk_m), WRITTEN(TG_F64, syrk_n*syrk_n)}, syrk_init, syrk_run, NULL}, \
  {"trmm", true, {{"M", trmm_m}, {"N", trmm_n}}, {D1, READ(TG_F64, trmm_m*trmm_m), WRITTEN(TG_F64, trmm_m*trmm_n)}, trmm_init, trmm_run, NULL}, \
  {"mvt", true, {{"N", mvt_n}}, {READ(TG_F64, mvt_n*mvt_n), READ(TG_F64, mvt_n), READ(TG_F64, mvt_n), WRITTEN(TG_F64, mvt_n), WRITTEN(TG_F64, mvt_n)}, mvt_init, mvt_run, NULL}, \
  {"atax", false, {{"M", atax_m}, {"N", atax_n}}, {READ(TG_F64, atax_m*atax_n), READ(TG_F64, atax_n), WRITTEN(TG_F64, atax_n), SCRATCH(TG_F64, atax_m)}, atax_init, atax_run, NULL}, \
  {"bicg", false, {{"M", bicg_m}, {"N", bicg_n}}, {READ(TG_F64, bicg_m*bicg_n), READ(TG_F64, bicg_m), READ(TG_F64, bicg_n), WRITTEN(TG_F64, bicg_m), WRITTEN(TG_F64, bicg_n)}, \
   bicg_init, bicg_run, NULL}, \
  {"doitgen", false, {{"R", doitgen_r}, {"Q", doitgen_q}, {"P", doitgen_p}}, \
   {READ(TG_F64, doitgen_p*doitgen_p), WRITTEN(TG_F64, doitgen_r*doitgen_q*doitgen_p), SCRATCH(TG_F64, doitgen_p)}, doitgen_init, doitgen_run, NULL},
