/* SPDX-License-Identifier: MIT
 * The loops of TSVC, as published: loop bounds, gotos and induction variables included. See reference.h for the
 * form, tsvc.tg for the texts. */
#include "reference.h"


/* linear dependence */
KERNEL(s000) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i] = b[i] + 1; }
KERNEL(s111) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  for (int i = 1; i < 2 * N; i += 2) a[i] = a[i-1] + b[i];
}
KERNEL(s1111) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) a[2*i] = c[i] * b[i] + d[i] * b[i] + c[i] * c[i] + d[i] * b[i] + d[i] * c[i];
}
KERNEL(s112) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  for (int i = N - 1; i >= 0; i--) a[i+1] = a[i] + b[i];
}
KERNEL(s1112) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); for (int i = N - 1; i >= 0; i--) a[i] = b[i] + 1; }
KERNEL(s113) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); for (int i = 1; i < N; i++) a[i] = a[0] + b[i]; }
KERNEL(s1113) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, 2 * N) a[i] = a[N] + b[i]; }
KERNEL(s114) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N);
  EACH(i, N) EACH(j, i) aa[i][j] = aa[j][i] + bb[i][j];
}
KERNEL(s115) {
  SIZE(N, 0); ARRAY(int, a, 0); TABLE(int, aa, 1, N);
  EACH(j, N) for (int i = j + 1; i < N; i++) a[i] -= aa[j][i] * a[j];
}
KERNEL(s1115) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  EACH(i, N) EACH(j, N) aa[i][j] = aa[i][j] * cc[j][i] + bb[i][j];
}
KERNEL(s116) { SIZE(N, 0); ARRAY(int, a, 0); EACH(i, 5 * N) a[i] = a[i+1] * a[i]; }
KERNEL(s118) {
  SIZE(N, 0); ARRAY(int, a, 0); TABLE(int, bb, 1, N);
  for (int i = 1; i < N; i++) for (int j = 0; j <= i - 1; j++) a[i] += bb[j][i] * a[i-j-1];
}
KERNEL(s119) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N);
  for (int i = 1; i < N; i++) for (int j = 1; j < N; j++) aa[i][j] = aa[i-1][j-1] + bb[i][j];
}
KERNEL(s1119) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N);
  for (int i = 1; i < N; i++) EACH(j, N) aa[i][j] = aa[i-1][j] + bb[i][j];
}

/* induction variables */
KERNEL(s121) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  EACH(i, N - 1) { int j = i + 1; a[i] = a[j] + b[i]; }
}
KERNEL(s122) {
  SIZE(N, 0); SIZE(S, 1); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int j = 1, k = 0;
  for (int i = 0; i < N; i += S) { k += j; a[i] += b[N-k]; }
}
KERNEL(s123) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  int j = -1;
  EACH(i, N) { j++; a[j] = b[i] + d[i] * e[i]; if (c[i] > 0) { j++; a[j] = c[i] + d[i] * e[i]; } }
}
KERNEL(s124) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  int j = -1;
  EACH(i, N) { if (b[i] > 0) { j++; a[j] = b[i] + d[i] * e[i]; } else { j++; a[j] = c[i] + d[i] * e[i]; } }
}
KERNEL(s125) {
  SIZE(N, 0); ARRAY(real, f, 0); TABLE(real, aa, 1, N); TABLE(real, bb, 2, N); TABLE(real, cc, 3, N);
  int k = -1;
  EACH(i, N) EACH(j, N) { k++; f[k] = aa[i][j] + bb[i][j] * cc[i][j]; }
}
KERNEL(s126) {
  SIZE(N, 0); TABLE(real, bb, 0, N); ARRAY(real, f, 1); TABLE(real, cc, 2, N);
  int k = 1;
  EACH(i, N) { for (int j = 1; j < N; j++) { bb[j][i] = bb[j-1][i] + f[k-1] * cc[j][i]; ++k; } ++k; }
}
KERNEL(s127) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  int j = -1;
  EACH(i, N) { j++; a[j] = b[i] + c[i] * d[i]; j++; a[j] = b[i] + d[i] * e[i]; }
}
KERNEL(s128) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  int j = -1;
  EACH(i, N) { int k = j + 1; a[i] = b[k] - d[i]; j = k + 1; b[k] = a[i] + c[k]; }
}
KERNEL(s131) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); int m = 1; EACH(i, N) a[i] = a[i+m] + b[i]; }
KERNEL(s132) {
  SIZE(N, 0); TABLE(real, aa, 0, N); ARRAY(real, b, 1); ARRAY(real, c, 2);
  int m = 0, j = m, k = m + 1;
  for (int i = 1; i < N; i++) aa[j][i] = aa[k][i-1] + b[i] * c[1];
}
KERNEL(s141) {
  SIZE(N, 0); ARRAY(real, f, 0); TABLE(real, bb, 1, N);
  EACH(i, N) { int k = (i + 1) * i / 2 + i; for (int j = i; j < N; j++) { f[k] += bb[j][i]; k += j + 1; } }
}
KERNEL(s151) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i] = a[i+1] + b[i]; }
KERNEL(s152) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { b[i] = d[i] * e[i]; a[i] += b[i] * c[i]; }
}

/* control flow */
KERNEL(s161) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(real, b, 1); ARRAY(int, c, 2); ARRAY(int, d, 3); ARRAY(int, e, 4);
  EACH(i, N) { if (b[i] < 0) goto L20; a[i] = c[i] + d[i] * e[i]; goto L10; L20: c[i+1] = a[i] + d[i] * d[i]; L10:; }
}
KERNEL(s1161) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { if (c[i] < 0) b[i] = a[i] + d[i] * d[i]; else a[i] = c[i] + d[i] * e[i]; }
}
KERNEL(s162) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  if (K > 0) EACH(i, N) a[i] = a[i+K] + b[i] * c[i];
}
KERNEL(s171) { SIZE(N, 0); SIZE(S, 1); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i*S] += b[i]; }
KERNEL(s172) {
  SIZE(N, 0); SIZE(S, 1); ARRAY(real, a, 0); ARRAY(real, b, 1);
  for (int i = 0; i < N; i += S) a[i] += b[i];
}
KERNEL(s173) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); int k = N; EACH(i, N) a[i+k] = a[i] + b[i]; }
KERNEL(s174) { SIZE(N, 0); SIZE(M, 1); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i+M] = a[i] + b[i]; }
KERNEL(s175) {
  SIZE(N, 0); SIZE(S, 1); ARRAY(real, a, 0); ARRAY(real, b, 1);
  for (int i = 0; i < N; i += S) a[i] = a[i+S] + b[i];
}
KERNEL(s176) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(j, N) EACH(i, N) a[i] += b[i+N-j-1] * c[j];
}

/* statement reordering, loop distribution */
KERNEL(s211) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  for (int i = 1; i < N - 1; i++) { a[i] = b[i-1] + c[i] * d[i]; b[i] = b[i+1] - e[i] * d[i]; }
}
KERNEL(s212) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) { a[i] *= c[i]; b[i] += a[i+1] * d[i]; }
}
KERNEL(s1213) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2); ARRAY(int, d, 3);
  for (int i = 1; i < N - 1; i++) { a[i] = b[i-1] + c[i]; b[i] = a[i+1] * d[i]; }
}
KERNEL(s221) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  for (int i = 1; i < N; i++) { a[i] += c[i] * d[i]; b[i] = b[i-1] + a[i] + d[i]; }
}
KERNEL(s1221) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  for (int i = 4; i < N + 4; i++) b[i] = b[i-4] + a[i-4];
}
KERNEL(s222) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2); ARRAY(int, e, 3);
  for (int i = 1; i < N; i++) { a[i] += b[i] * c[i]; e[i] = e[i-1] * e[i-1]; a[i] -= b[i] * c[i]; }
}

/* loop interchange */
KERNEL(s231) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N);
  EACH(i, N) for (int j = 1; j < N; j++) aa[j][i] = aa[j-1][i] + bb[j][i];
}
KERNEL(s232) {
  SIZE(N, 0); TABLE(int, aa, 0, N); TABLE(int, bb, 1, N);
  for (int j = 1; j < N; j++) for (int i = 1; i <= j; i++) aa[j][i] = aa[j][i-1] * aa[j][i-1] + bb[j][i];
}
KERNEL(s1232) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  EACH(j, N) for (int i = j; i < N; i++) aa[i][j] = bb[i][j] + cc[i][j];
}
KERNEL(s233) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  for (int i = 1; i < N; i++) {
    for (int j = 1; j < N; j++) aa[j][i] = aa[j-1][i] + cc[j][i];
    for (int j = 1; j < N; j++) bb[j][i] = bb[j][i-1] + cc[j][i];
  }
}
KERNEL(s2233) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  for (int i = 1; i < N; i++) {
    for (int j = 1; j < N; j++) aa[j][i] = aa[j-1][i] + cc[j][i];
    for (int j = 1; j < N; j++) bb[i][j] = bb[i-1][j] + cc[i][j];
  }
}
KERNEL(s235) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); TABLE(real, aa, 3, N); TABLE(real, bb, 4, N);
  EACH(i, N) { a[i] += b[i] * c[i]; for (int j = 1; j < N; j++) aa[j][i] = aa[j-1][i] + bb[j][i] * a[i]; }
}

/* node splitting */
KERNEL(s241) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2); ARRAY(int, d, 3);
  EACH(i, N) { a[i] = b[i] * c[i] * d[i]; b[i] = a[i] * a[i+1] * d[i]; }
}
KERNEL(s242) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, s1, 4);
  ARRAY(real, s2, 5);
  for (int i = 1; i <= N; i++) a[i] = a[i-1] + s1[0] + s2[0] + b[i-1] + c[i-1] + d[i-1];
}
KERNEL(s243) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { a[i] = b[i] + c[i] * d[i]; b[i] = a[i] + d[i] * e[i]; a[i] = b[i] + a[i+1] * d[i]; }
}
KERNEL(s244) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2); ARRAY(int, d, 3);
  EACH(i, N) { a[i] = b[i] + c[i] * d[i]; b[i] = c[i] + b[i]; a[i+1] = b[i] + a[i+1] * d[i]; }
}
KERNEL(s1244) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) { a[i] = b[i] + c[i] * c[i] + b[i] * b[i] + c[i]; d[i] = a[i] + a[i+1]; }
}
KERNEL(s2244) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, e, 3);
  EACH(i, N) { a[i+1] = b[i] + e[i]; a[i] = b[i] + c[i]; }
}

/* scalar and array expansion */
KERNEL(s251) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) { real s = b[i] + c[i] * d[i]; a[i] = s * s; }
}
KERNEL(s1251) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { real s = b[i] + c[i]; b[i] = a[i] + d[i]; a[i] = s * e[i]; }
}
KERNEL(s2251) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  real s = 0;
  EACH(i, N) { a[i] = s * e[i]; s = b[i] + c[i]; b[i] = a[i] + d[i]; }
}
KERNEL(s3251) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { a[i+1] = b[i] + c[i]; b[i] = c[i] * e[i]; d[i] = a[i] * e[i]; }
}
KERNEL(s252) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  real t = 0;
  EACH(i, N) { real s = b[i] * c[i]; a[i] = s + t; t = s; }
}
KERNEL(s253) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) if (a[i] > b[i]) { real s = a[i] - b[i] * d[i]; c[i] += s; a[i] = s; }
}
KERNEL(s254) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  real x = b[N-1];
  EACH(i, N) { a[i] = (b[i] + x) * 0.5f; x = b[i]; }
}
KERNEL(s255) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  real x = b[N-1], y = b[N-2];
  EACH(i, N) { a[i] = (b[i] + x + y) * (real)0.333f; y = x; x = b[i]; }
}
KERNEL(s256) {
  SIZE(N, 0); ARRAY(real, a, 0); TABLE(real, aa, 1, N); TABLE(real, bb, 2, N); ARRAY(real, d, 3);
  EACH(i, N) for (int j = 1; j < N; j++) { a[j] = 1 - a[j-1]; aa[j][i] = a[j] + bb[j][i] * d[j]; }
}
KERNEL(s257) {
  SIZE(N, 0); ARRAY(real, a, 0); TABLE(real, aa, 1, N); TABLE(real, bb, 2, N);
  for (int i = 1; i < N; i++) EACH(j, N) { a[i] = aa[j][i] - a[i-1]; aa[j][i] = a[i] + bb[j][i]; }
}
KERNEL(s258) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  TABLE(real, aa, 5, N);
  real s = 0;
  EACH(i, N) { if (a[i] > 0) s = d[i] * d[i]; b[i] = s * c[i] + d[i]; e[i] = (s + 1) * aa[0][i]; }
}
KERNEL(s261) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  for (int i = 1; i < N; i++) { real t = a[i] + b[i]; a[i] = t + c[i-1]; t = c[i] * d[i]; c[i] = t; }
}

/* control flow within loops */
KERNEL(s271) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) if (b[i] > 0) a[i] += b[i] * c[i];
}
KERNEL(s272) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  ARRAY(real, t, 5);
  EACH(i, N) if (e[i] >= t[0]) { a[i] += c[i] * d[i]; b[i] += c[i] * c[i]; }
}
KERNEL(s273) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { a[i] += d[i] * e[i]; if (a[i] < 0) b[i] += d[i] * e[i]; c[i] += a[i] * d[i]; }
}
KERNEL(s274) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { a[i] = c[i] + e[i] * d[i]; if (a[i] > 0) b[i] = a[i] + b[i]; else a[i] = d[i] * e[i]; }
}
KERNEL(s275) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  EACH(i, N) if (aa[0][i] > 0) for (int j = 1; j < N; j++) aa[j][i] = aa[j-1][i] + bb[j][i] * cc[j][i];
}
KERNEL(s2275) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N); ARRAY(real, a, 3);
  ARRAY(real, b, 4); ARRAY(real, c, 5); ARRAY(real, d, 6);
  EACH(i, N) { EACH(j, N) aa[j][i] += bb[j][i] * cc[j][i]; a[i] = b[i] + c[i] * d[i]; }
}
KERNEL(s276) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) if (i + 1 < M) a[i] += b[i] * c[i]; else a[i] += b[i] * d[i];
}
KERNEL(s277) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2); ARRAY(int, d, 3); ARRAY(int, e, 4);
  EACH(i, N) {
    if (a[i] >= 0) goto L20;
    if (b[i] >= 0) goto L30;
    a[i] += c[i] * d[i];
    L30: b[i+1] = c[i] + d[i] * e[i];
    L20:;
  }
}
KERNEL(s278) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) {
    if (a[i] > 0) goto L20;
    b[i] = -b[i] + d[i] * e[i];
    goto L30;
    L20: c[i] = -c[i] + d[i] * e[i];
    L30: a[i] = b[i] + c[i] * d[i];
  }
}
KERNEL(s279) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) {
    if (a[i] > 0) goto L20;
    b[i] = -b[i] + d[i] * d[i];
    if (b[i] <= a[i]) goto L30;
    c[i] += d[i] * e[i];
    goto L30;
    L20: c[i] = -c[i] + e[i] * e[i];
    L30: a[i] = b[i] + c[i] * d[i];
  }
}
KERNEL(s1279) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) if (a[i] < 0) if (b[i] > a[i]) c[i] += d[i] * e[i];
}
KERNEL(s2710) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  ARRAY(real, x, 5);
  EACH(i, N) {
    if (a[i] > b[i]) { a[i] += b[i] * d[i]; if (N > 10) c[i] += d[i] * d[i]; else c[i] = d[i] * e[i] + 1; }
    else { b[i] = a[i] + e[i] * e[i]; if (x[0] > 0) c[i] = a[i] + d[i] * d[i]; else c[i] += e[i] * e[i]; }
  }
}
KERNEL(s2711) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) if (b[i] != 0) a[i] += b[i] * c[i];
}
KERNEL(s2712) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) if (a[i] > b[i]) a[i] += b[i] * c[i];
}

/* crossing thresholds, loop peeling, diagonals, wavefronts */
KERNEL(s281) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2);
  EACH(i, N) { int x = a[N-i-1] + b[i] * c[i]; a[i] = x - 1; b[i] = x; }
}
KERNEL(s1281) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { real x = b[i] * c[i] + a[i] * d[i] + e[i]; a[i] = x - 1; b[i] = x; }
}
KERNEL(s291) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int im1 = N - 1;
  EACH(i, N) { a[i] = (b[i] + b[im1]) * 0.5f; im1 = i; }
}
KERNEL(s292) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int im1 = N - 1, im2 = N - 2;
  EACH(i, N) { a[i] = (b[i] + b[im1] + b[im2]) * (real)0.333f; im2 = im1; im1 = i; }
}
KERNEL(s293) { SIZE(N, 0); ARRAY(real, a, 0); EACH(i, N) a[i] = a[0]; }
KERNEL(s2101) {
  SIZE(N, 0); TABLE(real, aa, 0, N); TABLE(real, bb, 1, N); TABLE(real, cc, 2, N);
  EACH(i, N) aa[i][i] += bb[i][i] * cc[i][i];
}
KERNEL(s2102) { SIZE(N, 0); TABLE(real, aa, 0, N); EACH(i, N) { EACH(j, N) aa[j][i] = 0; aa[i][i] = 1; } }
KERNEL(s2111) {
  SIZE(N, 0); TABLE(real, aa, 0, N);
  for (int j = 1; j < N; j++) for (int i = 1; i < N; i++) aa[j][i] = (aa[j][i-1] + aa[j-1][i]) / (real)1.9f;
}

/* reductions */
KERNEL(s311) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1); real t = 0; EACH(i, N) t += a[i]; s[0] = t; }
KERNEL(s31111) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1); real t = 0; EACH(i, 4 * N) t += a[i]; s[0] = t; }
KERNEL(s312) { SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, s, 1); int t = 1; EACH(i, N) t *= a[i]; s[0] = t; }
KERNEL(s313) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, s, 2);
  real t = 0;
  EACH(i, N) t += a[i] * b[i];
  s[0] = t;
}
KERNEL(s314) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1);
  real t = a[0];
  EACH(i, N) if (a[i] > t) t = a[i];
  s[0] = t;
}
KERNEL(s315) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1); ARRAY(int, at, 2);
  real x = a[0];
  int j = 0;
  EACH(i, N) if (a[i] > x) { x = a[i]; j = i; }
  s[0] = x;
  at[0] = j;
}
KERNEL(s316) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1);
  real x = a[0];
  EACH(i, N) if (a[i] < x) x = a[i];
  s[0] = x;
}
KERNEL(s317) { SIZE(N, 0); ARRAY(real, s, 0); real q = 1; EACH(i, N) q *= (real)0.99f; s[0] = q; }
KERNEL(s318) {
  SIZE(N, 0); SIZE(S, 1); ARRAY(real, a, 0); ARRAY(int, s, 1);
  int j = 0;
  real x = rabs(a[0]);
  for (int i = 1; i < N; i++) if (rabs(a[i*S]) > x) { j = i; x = rabs(a[i*S]); }
  s[0] = j;
}
KERNEL(s319) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  ARRAY(real, s, 5);
  real t = 0;
  EACH(i, N) { a[i] = c[i] + d[i]; t += a[i]; b[i] = c[i] + e[i]; t += b[i]; }
  s[0] = t;
}
KERNEL(s3110) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, aa, 0, M); ARRAY(real, s, 1); ARRAY(int, x, 2); ARRAY(int, y, 3);
  real v = aa[0][0];
  int p = 0, q = 0;
  EACH(i, N) EACH(j, M) if (aa[i][j] > v) { v = aa[i][j]; p = i; q = j; }
  s[0] = v;
  x[0] = p;
  y[0] = q;
}
KERNEL(s13110) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, aa, 0, M); ARRAY(real, s, 1); ARRAY(int, x, 2);
  real v = aa[0][0];
  int p = 0;
  EACH(i, N) EACH(j, M) if (aa[i][j] > v) { v = aa[i][j]; p = i * M + j; }
  s[0] = v;
  x[0] = p;
}
KERNEL(s3111) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1);
  real t = 0;
  EACH(i, N) if (a[i] > 0) t += a[i];
  s[0] = t;
}
KERNEL(s3112) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); real t = 0; EACH(i, N) { t += a[i]; b[i] = t; } }
KERNEL(s3113) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1);
  real t = rabs(a[0]);
  EACH(i, N) if (rabs(a[i]) > t) t = rabs(a[i]);
  s[0] = t;
}

/* recurrences */
KERNEL(s321) { SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); for (int i = 1; i < N; i++) a[i] += a[i-1] * b[i]; }
KERNEL(s322) {
  SIZE(N, 0); ARRAY(int, a, 0); ARRAY(int, b, 1); ARRAY(int, c, 2);
  for (int i = 2; i < N; i++) a[i] = a[i] + a[i-1] * b[i] + a[i-2] * c[i];
}
KERNEL(s323) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  for (int i = 1; i < N; i++) { a[i] = b[i-1] + c[i] * d[i]; b[i] = a[i] + c[i] * e[i]; }
}

/* search loops, packing */
KERNEL(s331) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(int, s, 1);
  int j = -1;
  EACH(i, N) if (a[i] < 0) j = i;
  s[0] = j;
}
KERNEL(s332) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, t, 1); ARRAY(real, v, 2); ARRAY(int, at, 3);
  int j = -1;
  real x = -1;
  EACH(i, N) if (a[i] > t[0]) { j = i; x = a[i]; break; }
  at[0] = j;
  v[0] = x;
}
KERNEL(s341) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int j = -1;
  EACH(i, N) if (b[i] > 0) { j++; a[j] = b[i]; }
}
KERNEL(s342) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int j = -1;
  EACH(i, N) if (a[i] > 0) { j++; a[i] = b[j]; }
}
KERNEL(s343) {
  SIZE(N, 0); ARRAY(real, f, 0); TABLE(real, aa, 1, N); TABLE(real, bb, 2, N);
  int k = -1;
  EACH(i, N) EACH(j, N) if (bb[j][i] > 0) { k++; f[k] = aa[j][i]; }
}

/* loops unrolled by hand */
KERNEL(s351) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, 5 * N) a[i] += c[0] * b[i];
}
KERNEL(s1351) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  real *A = a, *B = b, *C = c;
  EACH(i, N) { *A = *B + *C; A++; B++; C++; }
}
KERNEL(s352) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, s, 2);
  real t = 0;
  EACH(i, 5 * N) t += a[i] * b[i];
  s[0] = t;
}
KERNEL(s353) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(int, ip, 3);
  EACH(i, 5 * N) a[i] += c[0] * b[ip[i]];
}

/* storage classes and equivalencing: one array under two names is one array */
KERNEL(s421) { SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, a, 1); real *y = x; EACH(i, N) x[i] = y[i+1] + a[i]; }
KERNEL(s1421) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); real *x = &b[N]; EACH(i, N) b[i] = x[i] + a[i]; }
KERNEL(s422) { SIZE(N, 0); ARRAY(real, f, 0); ARRAY(real, a, 1); real *x = f + 4; EACH(i, N) x[i] = f[i+8] + a[i]; }
KERNEL(s423) { SIZE(N, 0); ARRAY(real, f, 0); ARRAY(real, a, 1); real *x = f + 64; EACH(i, N) f[i+1] = x[i] + a[i]; }
KERNEL(s424) { SIZE(N, 0); ARRAY(real, f, 0); ARRAY(real, a, 1); real *x = f + 63; EACH(i, N) x[i+1] = f[i] + a[i]; }
KERNEL(s431) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1);
  int k1 = 1, k2 = 2, k = 2 * k1 - k2;
  EACH(i, N) a[i] = a[i+k] + b[i];
}
KERNEL(s441) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) if (d[i] < 0) a[i] += b[i] * c[i]; else if (d[i] == 0) a[i] += b[i] * b[i]; else a[i] += c[i] * c[i];
}
KERNEL(s442) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  ARRAY(int, x, 5);
  EACH(i, N) switch (x[i]) {
    case 1: a[i] += b[i] * b[i];
    break;
    case 2: a[i] += c[i] * c[i];
    break;
    case 3: a[i] += d[i] * d[i];
    break;
    case 4: a[i] += e[i] * e[i];
  }
}
KERNEL(s443) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) {
    if (d[i] <= 0) goto L20;
    goto L30;
    L20: a[i] += b[i] * c[i];
    goto L50;
    L30: a[i] += b[i] * b[i];
    L50:;
  }
}
KERNEL(s451) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) a[i] = R1(sin, b[i]) + R1(cos, c[i]);
}
KERNEL(s452) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) a[i] = b[i] + c[i] * (real)(i + 1);
}
KERNEL(s453) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); real s = 0; EACH(i, N) { s += 2; a[i] = s * b[i]; } }
KERNEL(s471) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(real, e, 4);
  EACH(i, N) { x[i] = b[i] + d[i] * d[i]; b[i] = c[i] + d[i] * e[i]; }
}

/* exits that depend on data: a flag says that the loop has ended */
KERNEL(s481) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) { if (d[i] < 0) return; a[i] += b[i] * c[i]; }
}
KERNEL(s482) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) { a[i] += b[i] * c[i]; if (c[i] > b[i]) break; }
}

/* indirect addressing */
KERNEL(s491) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(int, ip, 4);
  EACH(i, N) a[ip[i]] = b[i] + c[i] * d[i];
}
KERNEL(s4112) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(int, ip, 2); ARRAY(real, s, 3);
  EACH(i, N) a[i] += b[ip[i]] * s[0];
}
KERNEL(s4113) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(int, ip, 3);
  EACH(i, N) a[ip[i]] = b[ip[i]] + c[i];
}
KERNEL(s4114) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3); ARRAY(int, ip, 4);
  EACH(i, N) { int k = ip[i]; a[i] = b[i] + c[N-k-1] * d[i]; }
}
KERNEL(s4115) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(int, ip, 2); ARRAY(real, s, 3);
  real t = 0;
  EACH(i, N) t += a[i] * b[ip[i]];
  s[0] = t;
}
KERNEL(s4116) {
  SIZE(N, 0); SIZE(J, 1); ARRAY(real, a, 0); TABLE(real, aa, 1, N); ARRAY(int, ip, 2); ARRAY(real, s, 3);
  real t = 0;
  EACH(i, N - 1) { int off = 1 + i; t += a[off] * aa[J][ip[i]]; }
  s[0] = t;
}
KERNEL(s4117) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); ARRAY(real, d, 3);
  EACH(i, N) a[i] = b[i] + c[i/2] * d[i];
}
KERNEL(s4121) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); EACH(i, N) a[i] += b[i] * c[i]; }

/* vector operations */
KERNEL(va) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i] = b[i]; }
KERNEL(vag) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(int, ip, 2); EACH(i, N) a[i] = b[ip[i]]; }
KERNEL(vas) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(int, ip, 2); EACH(i, N) a[ip[i]] = b[i]; }
KERNEL(vif) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) if (b[i] > 0) a[i] = b[i]; }
KERNEL(vpv) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i] += b[i]; }
KERNEL(vtv) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); EACH(i, N) a[i] *= b[i]; }
KERNEL(vpvtv) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); EACH(i, N) a[i] += b[i] * c[i]; }
KERNEL(vpvts) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, s, 2); EACH(i, N) a[i] += b[i] * s[0]; }
KERNEL(vpvpv) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2); EACH(i, N) a[i] += b[i] + c[i]; }
KERNEL(vtvtv) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, c, 2);
  EACH(i, N) a[i] = a[i] * b[i] * c[i];
}
KERNEL(vsumr) { SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, s, 1); real t = 0; EACH(i, N) t += a[i]; s[0] = t; }
KERNEL(vdotr) {
  SIZE(N, 0); ARRAY(real, a, 0); ARRAY(real, b, 1); ARRAY(real, s, 2);
  real t = 0;
  EACH(i, N) t += a[i] * b[i];
  s[0] = t;
}
KERNEL(vbor) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(int, a, 1); ARRAY(int, b, 2); ARRAY(int, c, 3); ARRAY(int, d, 4);
  ARRAY(int, e, 5); ARRAY(int, f, 6);
  EACH(i, N) {
    int s = a[i] * b[i] * (c[i] + d[i] + e[i] + f[i]) + a[i] * c[i] * (d[i] + e[i] + f[i]) + a[i] * d[i] * (e[i] +
        f[i]) + a[i] * e[i] * f[i];
    int t = b[i] * c[i] * (d[i] + e[i] + f[i]) + b[i] * d[i] * (e[i] + f[i]) + b[i] * e[i] * f[i];
    int u = c[i] * d[i] * (e[i] + f[i]) + c[i] * e[i] * f[i], v = d[i] * e[i] * f[i];
    x[i] = (real)fmod_(s * t * u * v, 1024);
  }
}

FAMILY(tsvc) = {
  EXACT(s000), EXACT(s111), EXACT(s1111), EXACT(s112), EXACT(s1112), EXACT(s113), EXACT(s1113), EXACT(s114),
  EXACT(s115), EXACT(s1115), EXACT(s116), EXACT(s118), EXACT(s119), EXACT(s1119), EXACT(s121), EXACT(s122),
  EXACT(s123), EXACT(s124), EXACT(s125), EXACT(s126), EXACT(s127), EXACT(s128), EXACT(s131), EXACT(s132),
  EXACT(s141), EXACT(s151), EXACT(s152), EXACT(s161), EXACT(s1161), EXACT(s162), EXACT(s171), EXACT(s172),
  EXACT(s173), EXACT(s174), EXACT(s175), EXACT(s176), EXACT(s211), EXACT(s212), EXACT(s1213), EXACT(s221),
  EXACT(s1221), EXACT(s222), EXACT(s231), EXACT(s232), EXACT(s1232), EXACT(s233), EXACT(s2233), EXACT(s235),
  EXACT(s241), EXACT(s242), EXACT(s243), EXACT(s244), EXACT(s1244), EXACT(s2244), EXACT(s251), EXACT(s1251),
  EXACT(s2251), EXACT(s3251), EXACT(s252), EXACT(s253), EXACT(s254), ROUNDS(s255, UNIT), EXACT(s256), EXACT(s257),
  EXACT(s258), EXACT(s261), EXACT(s271), EXACT(s272), EXACT(s273), EXACT(s274), EXACT(s275), EXACT(s2275),
  EXACT(s276), EXACT(s277), EXACT(s278), EXACT(s279), EXACT(s1279), EXACT(s2710), EXACT(s2711), EXACT(s2712),
  EXACT(s281), EXACT(s1281), EXACT(s291), ROUNDS(s292, UNIT), EXACT(s293), EXACT(s2101), EXACT(s2102),
  ROUNDS(s2111, POSITIVE), EXACT(s311), EXACT(s31111), EXACT(s312), EXACT(s313), EXACT(s314), EXACT(s315),
  EXACT(s316), ROUNDS(s317, WHOLE), EXACT(s318), EXACT(s319), EXACT(s3110), EXACT(s13110), EXACT(s3111),
  EXACT(s3112), EXACT(s3113), EXACT(s321), EXACT(s322), EXACT(s323), EXACT(s331), EXACT(s332), EXACT(s341),
  EXACT(s342), EXACT(s343), EXACT(s351), EXACT(s1351), EXACT(s352), EXACT(s353), EXACT(s421), EXACT(s1421),
  EXACT(s422), EXACT(s423), EXACT(s424), EXACT(s431), EXACT(s441), EXACT(s442), EXACT(s443), ROUNDS(s451, UNIT),
  EXACT(s452), EXACT(s453), EXACT(s471), EXACT(s481), EXACT(s482), EXACT(s491), EXACT(s4112), EXACT(s4113),
  EXACT(s4114), EXACT(s4115), EXACT(s4116), EXACT(s4117), EXACT(s4121), EXACT(va), EXACT(vag), EXACT(vas),
  EXACT(vif), EXACT(vpv), EXACT(vtv), EXACT(vpvtv), EXACT(vpvts), EXACT(vpvpv), EXACT(vtvtv), EXACT(vsumr),
  EXACT(vdotr), EXACT(vbor), END,
};
