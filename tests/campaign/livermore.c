/* SPDX-License-Identifier: MIT
 * The Livermore loops. See reference.h for the form, livermore.tg for the texts. */
#include "reference.h"


/* kernels 1 to 24; 16, a Monte Carlo search that jumps back and forth by what it finds,
    has no form without pointers of control */
KERNEL(lk1) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1); ARRAY(real, z, 2); ARRAY(real, q, 3); ARRAY(real, r, 4);
  ARRAY(real, t, 5);
  EACH(k, N) x[k] = q[0] + y[k] * (r[0] * z[k+10] + t[0] * z[k+11]);
}
KERNEL(lk2) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, v, 1);
  int ii = N, ipntp = 0;
  do {
    int ipnt = ipntp;
    ipntp += ii;
    ii /= 2;
    int i = ipntp - 1;
    for (int k = ipnt + 1; k < ipntp; k += 2) { i++; x[i] = x[k] - v[k] * x[k-1] - v[k+1] * x[k+1]; }
  } while (ii > 0);
}
KERNEL(lk3) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, z, 1); ARRAY(real, q, 2);
  real t = 0;
  EACH(k, N) t += z[k] * x[k];
  q[0] = t;
}
KERNEL(lk4) {
  SIZE(N, 0); SIZE(M, 1); ARRAY(int, x, 0); ARRAY(int, y, 1);
  for (int k = 6; k <= 6 + 2 * M; k += M) {
    int lw = k - 6, temp = x[k-1];
    for (int j = 4; j < N; j += 5) { temp -= x[lw] * y[j]; lw++; }
    x[k-1] = y[4] * temp;
  }
}
KERNEL(lk5) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1); ARRAY(int, z, 2);
  for (int i = 1; i <= N; i++) x[i] = z[i-1] * (y[i-1] - x[i-1]);
}
KERNEL(lk6) {
  SIZE(N, 0); ARRAY(int, w, 0); TABLE(int, b, 1, N);
  for (int i = 1; i < N; i++) { w[i] = 1; for (int k = 0; k < i; k++) w[i] += b[k][i] * w[(i-k)-1]; }
}
KERNEL(lk7) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1); ARRAY(int, z, 2); ARRAY(int, u, 3); ARRAY(int, r, 4);
  ARRAY(int, t, 5); ARRAY(int, q, 6);
  int R = r[0], T = t[0], Q = q[0];
  EACH(k, N) x[k] = u[k] + R * (z[k] + R * y[k]) + T * (u[k+3] + R * (u[k+2] + R * u[k+1]) + T * (u[k+6] + Q *
      (u[k+5] + Q * u[k+4])));
}
KERNEL(lk8) {
  SIZE(N, 0); CUBE(int, u, 0, N+2, 5); CUBE(int, v, 1, N+2, 5); CUBE(int, w, 2, N+2, 5); TABLE(int, a, 3, 3);
  ARRAY(int, s, 4);
  for (int kx = 1; kx < 3; kx++)
    for (int ky = 1; ky <= N; ky++) {
      int d1 = u[0][ky+1][kx] - u[0][ky-1][kx], d2 = v[0][ky+1][kx] - v[0][ky-1][kx], d3 = w[0][ky+1][kx] -
          w[0][ky-1][kx];
      u[1][ky][kx] = u[0][ky][kx] + a[0][0] * d1 + a[0][1] * d2 + a[0][2] * d3 + s[0] * (u[0][ky][kx+1] - 2 *
          u[0][ky][kx] + u[0][ky][kx-1]);
      v[1][ky][kx] = v[0][ky][kx] + a[1][0] * d1 + a[1][1] * d2 + a[1][2] * d3 + s[0] * (v[0][ky][kx+1] - 2 *
          v[0][ky][kx] + v[0][ky][kx-1]);
      w[1][ky][kx] = w[0][ky][kx] + a[2][0] * d1 + a[2][1] * d2 + a[2][2] * d3 + s[0] * (w[0][ky][kx+1] - 2 *
          w[0][ky][kx] + w[0][ky][kx-1]);
    }
}
KERNEL(lk9) {
  SIZE(N, 0); TABLE(real, px, 0, 13); ARRAY(real, c, 1); ARRAY(real, c0, 2);
  EACH(i, N) { real t = c0[0] * (px[i][4] + px[i][5]) + px[i][2]; EACH(k, 7) t += c[k] * px[i][6+k]; px[i][0] = t; }
}
KERNEL(lk10) {
  SIZE(N, 0); TABLE(real, px, 0, 14); TABLE(real, cx, 1, 5);
  EACH(i, N) {
    real ar = cx[i][4], br = ar - px[i][4];
    px[i][4] = ar;
    for (int k = 5; k < 13; k++) { ar = br; br = ar - px[i][k]; px[i][k] = ar; }
    px[i][13] = br;
  }
}
KERNEL(lk11) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  x[0] = y[0];
  for (int k = 1; k < N; k++) x[k] = x[k-1] + y[k];
}
KERNEL(lk12) { SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1); EACH(k, N) x[k] = y[k+1] - y[k]; }
KERNEL(lk13) {
  SIZE(N, 0); TABLE(int, p, 0, 4); TABLE(int, b, 1, 32); TABLE(int, c, 2, 32); ARRAY(int, y, 3); ARRAY(int, z, 4);
  ARRAY(int, e, 5); ARRAY(int, f, 6); TABLE(int, h, 7, 32);
  EACH(i, N) {
    int i1 = p[i][0] & 31, j1 = p[i][1] & 31;
    p[i][2] += b[j1][i1]; p[i][3] += c[j1][i1]; p[i][0] += p[i][2]; p[i][1] += p[i][3];
    int i2 = p[i][0] & 31, j2 = p[i][1] & 31;
    p[i][0] += y[i2+32]; p[i][1] += z[j2+32];
    i2 = (i2 + e[i2+32]) & 31; j2 = (j2 + f[j2+32]) & 31;
    h[j2][i2] += 1;
  }
}
KERNEL(lk14) {
  SIZE(N, 0); ARRAY(int, vx, 0); ARRAY(int, xx, 1); ARRAY(int, grd, 2); ARRAY(int, ex, 3); ARRAY(int, dex, 4);
  ARRAY(int, rh, 5); ARRAY(int, flx, 6);
  EACH(k, N) { int ix = grd[k] & 63; vx[k] = ex[ix] + (0 - grd[k]) * dex[ix]; xx[k] = vx[k] + flx[0]; }
  EACH(k, N) { int ir = xx[k] & 63; rh[ir] += 1 - xx[k]; rh[ir+1] += xx[k]; }
}
KERNEL(lk15) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, vy, 0, M); TABLE(int, vh, 1, M); TABLE(int, vf, 2, M); TABLE(int, vg, 3, M);
  EACH(j, N - 1) EACH(k, M - 1) {
    int t, r, s;
    if (vh[j+1][k] > vh[j][k]) t = 3; else t = 2;
    if (vf[j][k] < vf[j][k+1]) { r = imax(vh[j][k+1], vh[j+1][k+1]); s = vf[j][k+1]; }
    else { r = imax(vh[j][k], vh[j+1][k]); s = vf[j][k]; }
    vy[j][k] = vg[j][k] * vg[j][k] + r * r * t - s;
  }
}
KERNEL(lk17) {
  SIZE(N, 0); ARRAY(int, vxne, 0); ARRAY(int, vxnd, 1); ARRAY(int, ve3, 2); ARRAY(int, vlr, 3); ARRAY(int, vlin, 4);
  ARRAY(int, vsp, 5); ARRAY(int, vstp, 6);
  int k = N - 1, xnm = 1, e6 = 3, e3, xnei, xnc;
  goto l61;
  l60: e6 = xnm * vsp[k] + vstp[k]; vxne[k] = e6; xnm = e6; ve3[k] = e6; k--; if (k < 0) goto l62;
  l61: e3 = xnm * vlr[k] + vlin[k]; xnei = vxne[k]; vxnd[k] = e6; xnc = 2 * e3;
  if (xnm > xnc) goto l60;
  if (xnei > xnc) goto l60;
  ve3[k] = e3; e6 = e3 + e3 - xnm; vxne[k] = e3 + e3 - xnei; xnm = e6; k--;
  if (k >= 0) goto l61;
  l62:;
}
KERNEL(lk18) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, za, 0, M); TABLE(int, zb, 1, M); TABLE(int, zm, 2, M); TABLE(int, zp, 3, M);
  TABLE(int, zq, 4, M); TABLE(int, zr, 5, M); TABLE(int, zu, 6, M); TABLE(int, zv, 7, M); TABLE(int, zz, 8, M);
  for (int k = 1; k < N - 1; k++)
    for (int j = 1; j < M - 1; j++) {
      za[k][j] = (zp[k+1][j-1] + zq[k+1][j-1] - zp[k][j-1] - zq[k][j-1]) * (zr[k][j] + zr[k][j-1]) * (zm[k][j-1] +
          zm[k+1][j-1]);
      zb[k][j] = (zp[k][j-1] + zq[k][j-1] - zp[k][j] - zq[k][j]) * (zr[k][j] + zr[k-1][j]) * (zm[k][j] + zm[k][j-1]);
    }
  for (int k = 1; k < N - 1; k++)
    for (int j = 1; j < M - 1; j++) {
      zu[k][j] += 2 * (za[k][j] * (zz[k][j] - zz[k][j+1]) - za[k][j-1] * (zz[k][j] - zz[k][j-1]) - zb[k][j] *
          (zz[k][j] - zz[k-1][j]) + zb[k+1][j] * (zz[k][j] - zz[k+1][j]));
      zv[k][j] += 2 * (za[k][j] * (zr[k][j] - zr[k][j+1]) - za[k][j-1] * (zr[k][j] - zr[k][j-1]) - zb[k][j] *
          (zr[k][j] - zr[k-1][j]) + zb[k+1][j] * (zr[k][j] - zr[k+1][j]));
    }
  for (int k = 1; k < N - 1; k++)
    for (int j = 1; j < M - 1; j++) { zr[k][j] += 3 * zu[k][j]; zz[k][j] += 3 * zv[k][j]; }
}
KERNEL(lk19) {
  SIZE(N, 0); ARRAY(int, b, 0); ARRAY(int, sa, 1); ARRAY(int, sb, 2);
  int s = 1;
  EACH(k, N) { b[k] = sa[k] + s * sb[k]; s = b[k] - s; }
  for (int k = N - 1; k >= 0; k--) { b[k] = sa[k] + s * sb[k]; s = b[k] - s; }
}
KERNEL(lk20) {
  SIZE(N, 0); ARRAY(real, xx, 0); ARRAY(real, x, 1); ARRAY(real, y, 2); ARRAY(real, g, 3); ARRAY(real, w, 4);
  ARRAY(real, v, 5); ARRAY(real, z, 6); ARRAY(real, u, 7); ARRAY(real, vx, 8);
  EACH(k, N) {
    real di = y[k] - g[k] / (xx[k] + w[k]), dn = (real)0.2f;
    if (di != 0) dn = rmax((real)0.1f, rmin(z[k] / di, (real)0.2f));
    x[k] = ((w[k] + v[k] * dn) * xx[k] + u[k]) / (vx[k] + v[k] * dn);
    xx[k+1] = (x[k] - xx[k]) * dn + xx[k];
  }
}
KERNEL(lk21) {
  SIZE(N, 0); SIZE(M, 1); SIZE(K, 2); TABLE(real, px, 0, M); TABLE(real, vy, 1, K); TABLE(real, cx, 2, M);
  EACH(k, K) EACH(i, N) EACH(j, M) px[i][j] += vy[i][k] * cx[k][j];
}
KERNEL(lk22) {
  SIZE(N, 0); ARRAY(real, w, 0); ARRAY(real, y, 1); ARRAY(real, x, 2); ARRAY(real, u, 3); ARRAY(real, v, 4);
  EACH(k, N) { y[k] = u[k] / v[k]; w[k] = x[k] / (R1(exp, y[k]) - 0.5f); }
}
KERNEL(lk23) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, za, 0, M); TABLE(int, zb, 1, M); TABLE(int, zr, 2, M); TABLE(int, zu, 3, M);
  TABLE(int, zv, 4, M); TABLE(int, zz, 5, M);
  for (int j = 1; j < M - 1; j++)
    for (int k = 1; k < N - 1; k++) {
      int qa = za[k+1][j] * zr[k][j] + za[k-1][j] * zb[k][j] + za[k][j+1] * zu[k][j] + za[k][j-1] * zv[k][j] +
          zz[k][j];
      za[k][j] += 3 * (qa - za[k][j]);
    }
}
KERNEL(lk24) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(int, m, 1);
  int j = 0;
  for (int k = 1; k < N; k++) if (x[k] < x[j]) j = k;
  m[0] = j;
}

FAMILY(livermore) = {
  EXACT(lk1), EXACT(lk2), EXACT(lk3), EXACT(lk4), EXACT(lk5), EXACT(lk6), EXACT(lk7), EXACT(lk8), EXACT(lk9),
  EXACT(lk10), EXACT(lk11), EXACT(lk12), EXACT(lk13), EXACT(lk14), EXACT(lk15), EXACT(lk17), EXACT(lk18),
  EXACT(lk19), ROUNDS(lk20, POSITIVE), EXACT(lk21), ROUNDS(lk22, POSITIVE), EXACT(lk23), EXACT(lk24), END,
};
