/* SPDX-License-Identifier: MIT
 * The words of a schedule and the raising before it: the program after each word to the letter, its result equal to the
 * unscheduled program's under the interpreter on exact data for many sizes, the text of every refusal, and the heuristics. */
#include "schedule_kit.h"
#include "schedule_programs.h"
#include "schedule_cases.h"
#include "schedule_copies_cases.h"
#include "schedule_refusals.h"

static const char *const matmul_schedules[] = {
    "tile i 4 j 8\nupcast i.1\nlane j.1",
    "order j i\nsplit j 8\norder j.0 i j.1\nsplit i 3\nupcast i.1\nlane j.1\nstage B at j.0 as Bp\nthread j.0",
    "split i 4\ncut i.0 last\nupcast i.1\nlane j 4\nunroll k 4",
    "split k 4\nlane k.1\nupcast i 2",
    "cut k at K/4*4\nsplit k.0 4\nupcast k.0.1\nthread i 3",
    "pad j 8\npad i 3\nlane j 8\nupcast i 3",
    "cut j at N/8*8 as a b\nlane a 8\nlane b 8\ncut i at 2",
    "tile i 5 j 3 as io jo ir jr\nstage A at io as Ap space=reg\nstage B at jo\nunroll ir",
    "tile i 4 j 8 as io jo ir jr\nstage B at jo as Bp[j/4, k, j%4]\nstage A at io as Ap[i/2, k, i%2] as f64 space=thread\nupcast ir\nlane jr",
    "split j 4 as jo jr\norder jo i jr\nstage B at jo as Bp[k/3, j, k%3] pitch=5 fill=0 depth=2\nstage A at i as Ap[k, i] depth=3\nlane jr",
    "split k 3 clip as kc kr\norder kc j i\nsplit i 2 clip\nlane j 8",
    ("split j 8 as jt jv\nsplit jt 2 clip as jc jr\nsplit k 4 clip as kc kr\norder kc jc i jr jv\nstage A at kc as Ap[i/3, i%3, k] space=team\n"
    "stage B at jc as Bp[j/8, k, j%8]\nsplit i {3, 2, 1} as ir iu\norder jr iu\nupcast iu\nlane jv"),
    "split k 4 as kc kr\norder i kc j\ncut kc first\nlane j 4",
    "thread k 3",
    "cut k first\ncut j last\ncut i first",
    "split i {5, 3, 1} as io ii\nlane j 4\nupcast ii\nsplit k {4, 2} as ko ki\nunroll ki",
    "split i {4, 2, 1} as io ii\norder io j ii\nsplit j {8, 3} as jo ji\norder ii ji\nupcast ii.by4\nunroll ii.by2\nlane ji",
    "split k {6, 4, 3} as ko ki\nlane ki.by4\nupcast ki.by6\nthread i 2",
    "split i 2 as io ii\norder io j ii\nunroll ii\nprefetch C at io ahead 3 to l2 rw\nprefetch A at io ahead 1\nlane j 4",
    "specialize(N % 8 == 0 & M >= 3)\nlane j 8\nupcast i 2",
    "specialize(K == 5)\nsplit i 3\nunroll i.1\nthread i.0\nlane j 4",
    "specialize(M <= 4 & N == K)\nsplit j {8, 1} as jo ji\nlane ji.by8",
    "fuse i j as e\nsplit e 4 as eo ei\nlane ei\nthread eo",
    "split j 4 as jo ji\nfuse i jo as t\nlane ji\nsplit t {8, 2, 1} as to ti\nunroll ti",
    "split k 3 as ko ki\nfuse ko ki as q\nlane q 4\nupcast i 2",
};

static const char *const pair_schedules[] = {
    "fission i", "fission i\norder s.i k", "split i 2\nfission i.1\nupcast q.i.1\nunroll s.i.1\nlane k 4\nlane j 4", "split i {3, 1} as io ii\nfission ii\nupcast q.ii.by3\nlane k 4",
    "cut i at M/2*2 as im ie\nsplit im 2 clip\nfission im.1\nlane s.im.1\nlane j 4", "fission i\nthread q.i 2\nlane s.i 4", "heuristic",
};

static void pairs(void) {
  static const int sizes[] = {2, 1, 3, 5, 8, 11, 17};
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(pair_schedules); s++)
    for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
      int m = sizes[i], n = 1 + sizes[(i * 3 + s) % TG_COUNT(sizes)];   /* of one column s[k] is no loop, and nothing is raised */
      snprintf(text, sizeof text, "M=%d N=%d", m, n);
      equal(pair_kernel, pair_schedules[s], text);
      snprintf(text, sizeof text, "M=1..%d N=1..%d", m, n);
      equal(pair_kernel, pair_schedules[s], text);
    }
}

static void tails(void) {
  static const int sizes[] = {1, 2, 3, 4, 7, 8, 9, 13};
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(matmul_schedules); s++) {
    for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
      int m = sizes[i], n = sizes[(i * 3 + s) % TG_COUNT(sizes)], k = sizes[(i * 5 + 2 * s + 1) % TG_COUNT(sizes)];
      snprintf(text, sizeof text, "M=%d N=%d K=%d", m, n, k);
      equal(matmul_kernel, matmul_schedules[s], text);
      bool constant = strstr(matmul_schedules[s], "stage") || strstr(matmul_schedules[s], "prefetch") || strstr(matmul_schedules[s], "thread k");
      snprintf(text, sizeof text, "M=1..%d N=0..%d K=1..%d", m, n, k);
      if (!constant) equal(matmul_kernel, matmul_schedules[s], text);
    }
  }
}

/* ---- heuristics: right for every size; the shape of what they choose ---- */


static const char heuristic_kernels[][700] = {
    "kernel matmul(M, N, K) {\n  in(A, f32, [M, K]);\n  in(B, f32, [K, N]);\n  out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n}\n",
    "kernel transposed(M, N, K) {\n  in(A, f32, [M, K]);\n  in(B, f32, [N, K]);\n  out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[j,k]);\n}\n",
    "kernel batched(M, N, K) {\n  in(A, f32, [3, M, K]);\n  in(B, f32, [3, K, N]);\n  in(bias, f32, [N]);\n  out(C, f32, [3, M, N]);\n"
    "  range(b, 3) range(i, M) range(j, N) C[b,i,j] = max(sum(k : K, A[b,i,k] * B[b,k,j]) + bias[j], 0);\n}\n",
    "kernel gemv(M, N, K) {\n  in(A, f32, [M, K]);\n  in(x, f32, [K]);\n  out(y, f32, [M]);\n  out(z, f32, [N]);\n"
    "  range(i, M) y[i] = sum(k : K, A[i,k] * x[k]);\n  range(i, N) z[i] = 1;\n}\n",
    "kernel gemvt(M, N, K) {\n  in(A, f32, [K, M]);\n  in(x, f32, [K]);\n  out(y, f32, [M]);\n  out(z, f32, [N]);\n"
    "  range(i, M) y[i] = sum(k : K, A[k,i] * x[k]);\n  range(i, N) z[i] = y[0];\n}\n",
    "kernel axpy(M, N, K) {\n  in(x, f32, [M, N, K]);\n  inout(y, f32, [M, N, K]);\n"
    "  range(i, M) range(j, N) range(k, K) y[i,j,k] = y[i,j,k] + 2 * x[i,j,k];\n}\n",
    "kernel copies(M, N, K) {\n  in(x, f32, [M * 37]);\n  out(y, f32, [M * 37]);\n  in(a, f32, [N, K]);\n  out(b, f32, [K, N]);\n"
    "  range(i, M * 37) y[i] = x[i];\n  range(i, K) range(j, N) b[i,j] = a[j,i];\n}\n",
    "kernel rows(M, N, K) {\n  in(x, f32, [M, N * 9]);\n  out(y, f32, [M, N * 9]);\n  in(u, f32, [K]);\n  out(v, f32, [K]);\n"
    "  range(i, M) range(j, N * 9) y[i,j] = (x[i,j] - max(k : N * 9, x[i,k])) * sum(l : N * 9, x[i,l] - max(k : N * 9, x[i,k]));\n"
    "  range(i, K) v[i] = u[i];\n}\n",
    "kernel totals(M, N, K) {\n  in(x, f32, [M, N]);\n  in(z, f32, [K * 29]);\n  out(y, f32, []);\n  out(w, f32, []);\n"
    "  y = sum(i : M, j : N, x[i,j]);\n  w = max(k : K * 29, z[k]);\n}\n",
    "kernel scan(M, N, K) {\n  in(x, f32, [M, N]);\n  out(y, f32, [M, N]);\n  in(u, f32, [K, M + 2]);\n  out(v, f32, [K, M]);\n"
    "  range(i, M) range(j, N) y[i,j] = x[i,j] + (y[i,j - 1] if j > 0 else 0);\n"
    "  range(i, K) range(j, M) v[i,j] = u[i,j] + u[i,j + 1] * 2 + u[i,j + 2];\n}\n",
    "kernel steps(M, N, K) {\n  in(x, f32, [M, N]);\n  out(y, f32, [M, N]);\n  out(z, f32, [M]);\n  in(u, f32, [K]);\n  out(v, f32, [K]);\n"
    "  range(i, M) {\n    z[i] = sum(j : N, x[i,j]);\n    range(j, N) y[i,j] = x[i,j] * z[i];\n  }\n  range(k, K) v[k] = u[K - 1 - k];\n}\n",
    "kernel triangle(M, N, K) {\n  in(x, f32, [N, N]);\n  inout(y, f32, [N, N]);\n  in(u, i32 in 0..M-1, [K]);\n  in(t, f32, [M]);\n  out(v, f32, [K]);\n"
    "  range(i, N) range(j, i + 1) y[i,j] = x[i,j] * 2;\n  range(k, K) v[k] = t[u[k]];\n}\n",
};

/* Conditions that are monotone in a range, at the edges of what a cut must get right: empty parts, bounds that vary within the loop and
 * within lanes, both directions at once, steps above 1, extents below 1, parts that do nothing. */
static const struct { const char *kernel, *opts; } monotone[] = {
    {"kernel causal(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N, N]);\n  range(i, N) range(j, N) y[i,j] = where(j <= i, x[i,j] * 2, -1);\n}\n", "cut j auto"},
    {"kernel causal(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N, N]);\n  range(i, N) range(j, N) y[i,j] = where(j <= i, x[i,j] * 2, -1);\n}\n", "cut i auto"},
    {"kernel causal(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N, N]);\n  range(i, N) range(j, N) y[i,j] = where(j <= i, x[i,j] * 2, -1);\n}\n",
     "split j 4 as jo ji\nsplit i 3 as io ii\norder io jo ii ji\ncut jo auto\nlane jo.main.ji\nupcast jo.main.ii"},
    {"kernel causal(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N, N]);\n  range(i, N) range(j, N) y[i,j] = where(j <= i, x[i,j] * 2, -1);\n}\n",
     "split i 4\norder i.0 i.1 j\nlane i.1\ncut j auto"},
    {"kernel window(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = sum(j : N, where(j <= i & i - 5 < j, x[i,j], 0));\n}\n", "cut j auto"},
    {"kernel window(N) {\n  in(x, f32, [N, N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = sum(j : N, where(j <= i & i - 5 < j, x[i,j], 0));\n}\n",
     "split j 4 as jo ji\ncut jo auto\nlane jo.main.ji"},
    {"kernel steps(N) {\n  in(x, f32, [N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = max(j : N, where(3*j + 2 < 2*i + 4, x[j], -inf));\n}\n", "cut j auto"},
    {"kernel quarter(N) {\n  in(x, f32, [ceildiv(N, 4)]);\n  out(y, f32, [ceildiv(N, 4)]);\n  range(i, ceildiv(N, 4)) y[i] = x[i];\n}\n",
     "split i 2 as io ii\ncut ii auto\nsplit io 2"},
    {"kernel steps(N) {\n  in(x, f32, [N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = where(5 - 2*i <= 0, x[i], 3);\n}\n", "split i 3\ncut i.0 auto"},
    {"kernel half(N) {\n  in(x, f32, [N]);\n  inout(y, f32, [N]);\n  range(i, N) if (2*i < N) { y[i] = x[i]; }\n}\n", "cut i auto"},
    {"kernel none(N) {\n  in(x, f32, [N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = where(i < 0, x[i], where(N < i, 1, where(i < N + 3, x[i] + 2, 3)));\n}\n", "split i 2\ncut i.0 auto"},
    {"kernel inner(N) {\n  in(x, f32, [N, N + 2]);\n  inout(y, f32, [N, N + 2]);\n  range(a, N) range(b, N + 2) { range(c, b) if (a + c < 6) { y[a,b] = x[a,c]; }\n    y[a,b] = y[a,b] + 1; }\n}\n"
     , "cut a auto"},
};

static void monotone_cuts(void) {
  static const int sizes[] = {2, 3, 5, 8, 13};
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(monotone); s++)
    for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
      snprintf(text, sizeof text, "N=%d", sizes[i]);
      equal(monotone[s].kernel, monotone[s].opts, text);
      snprintf(text, sizeof text, "N=1..%d", sizes[i]);
      equal(monotone[s].kernel, monotone[s].opts, text);
    }
}

/* A reduction may have lanes although its statement has: it is computed outside of them. */
static void lanes_apart(void) {
  equal("kernel f(N) {\n  in(x, f32, [N]);\n  out(y, f32, [N]);\n  range(k, N) y[k] = x[k] * sum(l : N, x[l]);\n}\n", "lane k 4\nlane l 4", "N=13");
}

/* Extents that are negative, or a multiple and something; loops that run once at most, so that their iterations may meet: those that a split adds touch nothing. */
static void odd_extents(void) {
  static const struct { const char *kernel, *opts[12]; } cases[] = {
      {"kernel one(N) {\n  in(x, f32, [2]);\n  inout(t, f32, [2]);\n  range(i, min(N, 1)) t[1] = t[0] * 2 + t[1] + x[i];\n}\n",
       {"split i 4\nthread i.1", "split i 4\nlane i.1", "split i 4\nlocal i.1", "split i {4, 2} as io ii\nlocal ii.by2", "split i 3\nthread i.0"}},
      {"kernel more(N) {\n  in(x, f32, [4*N + 9]);\n  out(y, f32, [4*N + 1]);\n  range(i, 4*N + 1) y[i] = x[i] + 1;\n}\n",
       {"split i 4", "split i 4\nlane i.1", "pad i 4", "pad i 2\nthread i", "split i 4 clip", "split i {8, 4} as io ii", "split i 4\ncut i.0 last", "cut i auto"}},
      {"kernel below(N) {\n  in(x, f32, [N + 1, N + 1]);\n  inout(y, f32, [N + 1, N + 1]);\n  range(a, N - 3) range(b, N - 2) y[a,b] = x[b,a] * 2;\n}\n",
       {"cut a at N - 6", "cut b at 2 - N", "cut a first", "cut a last\ncut b first", "fuse a b as q", "fuse a b as q\nsplit q 4\nthread q.0", "split a {3, 1} as ao ai", "split b {4, 3} as bo bi\nlane bi.by4", "split b 2 clip",
        "tile a 3 b 2\nupcast a.1", "pad a 4\nlane a 4", "cut b auto"}},
      {"kernel sums(N) {\n  in(x, f32, [N + 1]);\n  out(y, f32, []);\n  y = sum(k : N - 3, x[k]);\n}\n",
       {"split k 4\nlane k.1", "split k {4, 3} as ko ki", "cut k at N - 5", "cut k first", "cut k last", "pad k 4"}},
  };
  char text[32];
  for (uint32_t c = 0; c < TG_COUNT(cases); c++)
    for (uint32_t o = 0; o < 12 && cases[c].opts[o]; o++)
      for (int n = 0; n < 10; n++) {
        snprintf(text, sizeof text, "N=0..9@%d", n);
        equal(cases[c].kernel, cases[c].opts[o], text);
      }
}

static void carried(void) {
  static const char best[] =   /* the largest, its sum of weights, and where: merged in order */
      "kernel best(M, N) {\n  in(x, i32, [M, N]);\n  out(y, i32, [M, 3]);\n  range(i, M) {\n    define_reg(m, i32, []);\n    define_reg(n, i32, [2]);\n"
      "    m = -9;\n    range(q, 2) n[q] = 0;\n    range(k, N) carry(m, n) {\n      range(q, 2) n[q] = where(x[i,k] > m, i32(k) * 2 + i32(q), n[q]);\n      m max= x[i,k];\n"
      "      merge {\n        m = max(a.m, b.m);\n        range(q, 2) n[q] = where(b.m > a.m, b.n[q], a.n[q]);\n      }\n    }\n"
      "    y[i,0] = m;\n    range(q, 2) y[i,q+1] = n[q];\n  }\n}\n";
  static const char *const opts[] = {"thread k 2", "thread k 3 as p r\nupcast q", "thread k 7", "thread k 1", "split k 2\nthread k.0 2", "thread k 2\nthread i 2", "split k 3 as a b\nunroll b", "heuristic",
                                     "cut k first\nunroll q"};
  char text[64];
  for (uint32_t o = 0; o < TG_COUNT(opts); o++)
    for (int n = 2; n < 14; n++) {
      snprintf(text, sizeof text, "M=%d N=%d", 5, n);
      equal(best, opts[o], text);
      snprintf(text, sizeof text, "M=5 N=1..%d", n);
      equal(best, opts[o], text);
    }
}

static void heuristics(void) {
  static const int sizes[] = {1, 2, 5, 8, 16, 17, 33, 48, 64, 100};
  char text[64];
  for (uint32_t s = 0; s < TG_COUNT(heuristic_kernels); s++) {
    for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
      enum { MOST = 1 << 16 };   /* terms: an interpreter runs them all, twice */
      int m = sizes[i], n = sizes[(i * 3 + s) % TG_COUNT(sizes)], k = sizes[(i * 7 + 2 * s + 1) % TG_COUNT(sizes)];
      if (strstr(heuristic_kernels[s], "kernel rows(") && n > 8) n = 8;   /* its terms are as the cube of a row of 9 N */
      if (m * n * k > MOST && k > 17) k = 17;
      if (m * n * k > MOST && m > 33) m = 33;
      snprintf(text, sizeof text, "M=%d N=%d K=%d", m, n, k);
      equal(heuristic_kernels[s], "heuristic", text);
      snprintf(text, sizeof text, "M=1..%d N=1..%d K=1..%d", m, n, k);
      equal(heuristic_kernels[s], "heuristic", text);
    }
  }
}

static void words(void) {
  for (uint32_t i = 0; i < TG_COUNT(word_cases); i++) expect(&word_cases[i], false);
  for (uint32_t i = 0; i < TG_COUNT(copies_cases); i++) expect(&copies_cases[i], false);
  for (uint32_t i = 0; i < TG_COUNT(refusal_cases); i++) expect(&refusal_cases[i], true);
  for (uint32_t i = 0; i < TG_COUNT(raise_cases); i++) expect(&raise_cases[i], false);
}

/* What is fetched ahead is told in ranges of the program, also where a simplified subscript has simpler extents: words behind split them. */
static void behind_prefetch(void) {
  static const char kernel[] =
    "kernel upwards(N in 1..20) {\n"
    "  inout(a, i32, [N]); in(b, i32, [N, N]);\n"
    "  range(i, N-1) range(j, i + 1) a[i+1] += b[j,i+1] * a[i-j];\n"
    "}\n";
  static const char *const sizes[] = {"N=2", "N=7", "N=20", "N=1..20"};
  for (uint32_t i = 0; i < TG_COUNT(sizes); i++) {
    equal(kernel, "split i 32 as io ii\nprefetch b at j ahead 9 of ii\nsplit j {6, 3}", sizes[i]);
    equal(kernel, "split i 32 as io ii\nprefetch b at j ahead 9 of ii to l2\nsplit ii 16\nsplit j 6", sizes[i]);
  }
}

/* docs/schedules.md lists the words as their rows have them, in their order. */
static void documented(void) {
  tg_env env = {0};
  tg_env_init(&env, NULL);
  const char *at = tg_read_file(&env, "docs/schedules.md", NULL);
  CHECK(at, "docs/schedules.md cannot be read");
  for (uint32_t i = 0; i < TG_OPT__COUNT && at; i++) {
    const char *line = tg_format(&env, "\n- `%s`: %s\n", tg_opt_usage(&env, (tg_opt_word)i), tg_opt_rows[i].meaning);
    const char *found = strstr(at, line);
    CHECK(found, "docs/schedules.md lacks, or has elsewhere:%s", line);
    at = found ? found + strlen(line) - 1 : at;
  }
  tg_env_drop(&env);
}

/* All parts, or those that arguments name. */
int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } parts[] = {{"documented", documented}, {"behind_prefetch", behind_prefetch}, {"words", words}, {"cuts", monotone_cuts}, {"tails", tails}, {"pairs", pairs}, {"apart", lanes_apart}, {"extents", odd_extents}, {"carried", carried}, {"heuristics", heuristics}};
  for (uint32_t i = 0; i < TG_COUNT(parts); i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], parts[i].name);
    if (wanted) parts[i].run();
  }
  return TEST_END();
}
