/* SPDX-License-Identifier: MIT
 * What the language means: each row has statements as an author writes them, and the same program with everything said, behind
 * `stage`. Both must be one program, and its print must read back to it. */
#include <stdlib.h>
#include "dsl/text.h"
#include "test.h"

#define HEAD "in(A, f32, [M, N]); in(idx, i32 in 0..99, [N]); in(raw, i32, [N]); in(H, f16, [N]); in(ptr, i32 in 0..K, [M]); in(s, f32);" \
             "out(C, f32, [M, N]); inout(D, i32, [M]); inout(F, f32, [M]); in(big, f32, [100]);\n"

typedef struct { const char *author, *said; } row;
static const row rows[] = {
  {"range(i, M) F[i] = A[i,0] + 1;", "range(i, M) F[i] = A[i,0] + 1.0f;"},
  {"range(i, M) F[i] = -1;", "range(i, M) F[i] = -1.0f;"},
  {"range(i, M) F[i] = 2 * 3 + A[i,0];", "range(i, M) F[i] = 6.0f + A[i,0];"},
  {"range(i, M) D[i] = 2 * 3;", "range(i, M) D[i] = i32(2) * i32(3);"},
  {"range(i, M) F[i] += s;", "range(i, M) F[i] = F[i] + s;"},
  {"range(i, M) F[i] -= s;", "range(i, M) F[i] = F[i] - s;"},
  {"range(i, M) F[i] *= 2;", "range(i, M) F[i] = F[i] * 2.0f;"},
  {"range(i, M) F[i] /= 2;", "range(i, M) F[i] = F[i] / 2.0f;"},
  {"range(i, M) F[i] max= s;", "range(i, M) F[i] = max(F[i], s);"},
  {"range(i, M) F[i] min= s;", "range(i, M) F[i] = min(F[i], s);"},
  {"range(i, M) D[i] |= 4;", "range(i, M) D[i] = D[i] | i32(4);"},
  {"range(i, M) D[i] %= 4;", "range(i, M) D[i] = D[i] % i32(4);"},
  {"range(i, M) F[i] = where(A[i,0] > s, 1, 0);", "range(i, M) F[i] = where(s < A[i,0], 1.0f, 0.0f);"},
  {"range(i, M) F[i] = 2.0f * where(i < 3, 1, 0.5) - where(i < 3, -1, 0);", "range(i, M) F[i] = 2.0f * where(i < 3, 1.0f, 0.5f) - where(i < 3, -1.0f, 0.0f);"},
  {"range(i, M) D[i] = where(i < 3, 1, 0) + where(i < 2, 1, 0);", "range(i, M) D[i] = where(i < 3, i32(1), i32(0)) + where(i < 2, i32(1), i32(0));"},
  {"range(i, M) F[i] = where(0 <= i < 3, 1, 0);", "range(i, M) F[i] = where(0 <= i & i < 3, 1.0f, 0.0f);"},
  {"range(i, M) F[i] = where(7 > i >= 3, 1, 0);", "range(i, M) F[i] = where(i < 7 & 3 <= i, 1.0f, 0.0f);"},
  {"range(i, M) F[i] = where(i < 3 && i != 1 || i == 9, 1, 0);", "range(i, M) F[i] = where(i < 3 & i != 1 | i == 9, 1.0f, 0.0f);"},
  {"range(i, M) D[i] = D[i] & 1 << 2 ^ 3 | 4;", "range(i, M) D[i] = ((D[i] & (i32(1) << i32(2))) ^ 3) | 4;"},
  {"range(i, M) D[i] = ~D[i] - -D[i];", "range(i, M) D[i] = !D[i] - (-D[i]);"},
  {"range(i, M) D[i] = D[i] / 3 % 5 * 7;", "range(i, M) D[i] = ((D[i] / 3) % 5) * 7;"},
  {"range(i, M) D[i] = ceildiv(D[i], 4) + cdiv(D[i], 3) + cmod(D[i], 3);", "range(i, M) D[i] = D[i] / 4 + i32(D[i] % 4 != 0) + cdiv(D[i], 3) + cmod(D[i], 3);"},
  /* conditions become gates */
  {"range(i, M) F[i] = A[i,0] if i < 3;", "range(i, M) F[i] = A[i,0] if i < 3 else 0.0f if i < 3;"},
  {"range(i, M) F[i] += A[i,0] if i < 3;", "range(i, M) F[i] = (F[i] if i < 3 else 0.0f) + (A[i,0] if i < 3 else 0.0f) if i < 3;"},
  {"range(i, M) F[i] = where(i < 3, A[i,0], A[i,1]);", "range(i, M) F[i] = where(i < 3, A[i,0] if i < 3 else 0.0f, A[i,1] if 3 <= i else 0.0f);"},
  {"range(i, M) F[i] = where(s < 0, A[i,0], A[i,1]);", "range(i, M) F[i] = where(s < 0.0f, A[i,0] if s < 0.0f else 0.0f, A[i,1] if !(s < 0.0f) else 0.0f);"},
  {"range(i, M) { if (i < 3) { F[i] = s; } else F[i] = 2; }", "range(i, M) { F[i] = s if i < 3 else 0.0f if i < 3; F[i] = 2.0f if 3 <= i; }"},
  {"range(i, M) if (i < 3) if (i > 1) F[i] = 1;", "range(i, M) F[i] = 1.0f if i < 3 & 1 < i;"},
  {"range(i, M) if (i < 3) F[i] = A[i,0] else 2;", "range(i, M) F[i] = A[i,0] if i < 3 & (0 <= i & i < M & (0 <= 0 & 0 < N)) else 2.0f if i < 3;"},
  {"range(i, M) F[i] = A[i,i+1] else 0;", "range(i, M) F[i] = A[i,i+1] if 0 <= i & i < M & (0 <= i + 1 & i + 1 < N) else 0.0f;"},
  {"range(i, M) F[i] = A[i,0] else -inf + 1;", "range(i, M) F[i] = (A[i,0] else f32(-inf)) + 1.0f;"},
  {"range(i, M) F[i] = A[i,0] if i < 2 else 7;", "range(i, M) F[i] = A[i,0] if i < 2 else 7.0f;"},
  {"range(i, M) F[i] = where(i < 3 & A[i,0] < 1, 1, 0);", "range(i, M) F[i] = where(i < 3 & (A[i,0] if i < 3 else 0.0f) < 1.0f, 1.0f, 0.0f);"},
  {"range(i, M) if (i < 3) range(j, N) C[i,j] = sum(k : 4, A[i,k]);", "range(i, M) range(j, N) C[i,j] = sum(k : 4, A[i,k] if i < 3 else 0.0f) if i < 3;"},
  /* subscripts and extents are indices; inputs with bounds are clamped */
  {"range(j, N) F[0] = big[idx[j]];", "range(j, N) F[0] = big[min(max(index(idx[j]), 0), 99)];"},
  {"range(j, N) F[0] = big[idx[j] + 1] else 0;", "range(j, N) F[0] = big[min(max(index(idx[j]), 0), 99) + 1] else 0.0f;"},
  {"range(j, N) F[0] = big[raw[j]] else 0;", "range(j, N) F[0] = big[index(raw[j])] else 0.0f;"},
  {"range(j, N) { let p = idx[j]; F[0] = big[p]; D[0] = p; }", "range(j, N) { F[0] = big[min(max(index(idx[j]), 0), 99)]; D[0] = idx[j]; }"},
  {"range(j, N) F[0] = big[index(idx[j])];", "range(j, N) F[0] = big[min(max(index(idx[j]), 0), 99)];"},
  {"range(i, M - 1) range(k, ptr[i+1] - ptr[i]) F[i] += big[ptr[i] + k];",
   "range(i, M - 1) range(k, min(max(index(ptr[i+1]), 0), K) - min(max(index(ptr[i]), 0), K)) F[i] = F[i] + big[min(max(index(ptr[i]), 0), K) + k];"},
  {"range(i, M) range(j, i + 1) C[i,j] = 1;", "range(i, M) range(j, i + 1) C[i,j] = 1.0f;"},
  /* reductions */
  {"range(i, M) F[i] = sum(j : N, k : j + 1, A[i,k]);", "range(i, M) F[i] = sum(j : N, k : j + 1, A[i,k]);"},
  {"range(i, M) F[i] = max(A[i,0], max(k : N, A[i,k]));", "range(i, M) F[i] = max(A[i,0], max(q : N, A[i,q]));"},
  {"range(i, M) { let t = A[i,0]; F[i] = max(i#2 : N, A[0,i#2] - t); }", "range(i, M) F[i] = max(q : N, A[0,q] - A[i,0]);"},
  {"range(i, M) F[i] = where(any(k : N, A[i,k] < 0), 1, 0);", "range(i, M) F[i] = where(any(k : N, A[i,k] < 0.0f), 1.0f, 0.0f);"},
  {"range(i, M) F[i] = sum(k : N upcast, A[i,k]);", "range(i, M) F[i] = sum(k : N upcast, A[i,k]);"},
  {"range(i, M) F[i] = sum_in_order(k : N, A[i,k]) + prod(k : N, A[i,k]);", "range(i, M) F[i] = sum_in_order(k : N, A[i,k]) + prod(k : N, A[i,k]);"},
  {"range(i, M) F[i] = exp(A[i,0] - max(j : N, A[i,j])) / sum(j : N, exp(A[i,j] - max(k : N, A[i,k])));",
   "range(i, M) { let %1 = max(j : N, A[i,j]); F[i] = exp(A[i,0] - %1) / sum(j : N, exp(A[i,j] - %1)); }"},
  {"range(i, M) { let (m, l) = reduce(k : N, (m, l) = (-inf, 0.0f), (A[i,k], 1), (a, b), (c, d) -> (max(a, c), b + d)); F[i] = m / l; }",
   "range(i, M) { let %0 = reduce(k : N, (m, l) = (f32(-inf), 0.0f), (A[i,k], 1.0f), (a, b), (c, d) -> (max(a, c), b + d)); F[i] = get(%0, 0) / get(%0, 1); }"},
  {"range(i, M) D[i] = argmin(k : N, D[k]);",
   "range(i, M) D[i] = get(reduce(k : N, (v, p) = (2147483647, 2147483647), (D[k], i32(k)), (a, b), (c, d) -> "
   "(where(c < a | a == c & d < b, c, a), where(c < a | a == c & d < b, d, b))), 1);"},
  /* values */
  {"range(i, M) { let x = A[i,0]; F[i] = x * x; }", "range(i, M) F[i] = A[i,0] * A[i,0];"},
  {"range(i, M) { let x = F[i]; F[i] = 1; C[i,0] = x; }", "range(i, M) { define_reg(x, f32); x = F[i]; F[i] = 1.0f; C[i,0] = x; }"},
  {"range(i, M) { let x = F[i]; let y = x + 1; F[i] = 1; C[i,0] = y; }", "range(i, M) { define_reg(y, f32); y = F[i] + 1.0f; F[i] = 1.0f; C[i,0] = y; }"},
  {"range(i, M) { let x = F[i]; range(j, N) { C[i,j] = x; F[i] = 2; } }", "range(i, M) { define_reg(x, f32); x = F[i]; range(j, N) { C[i,j] = x; F[i] = 2.0f; } }"},
  {"range(i, M) { if (D[i] > 0) { D[i] = 0; F[i] = 1; } }",
   "range(i, M) { define_reg(c, bool); c = 0 < D[i]; D[i] = i32(0) if 0 < D[i]; F[i] = 1.0f if c; }"},
  {"range(i, M) { let x = A[i,0]; range(j, N) C[i,j] = x; }", "range(i, M) range(j, N) C[i,j] = A[i,0];"},
  /* casts, bits, functions */
  {"range(i, M) F[i] = f32(f16(A[i,0]) * H[0]);", "range(i, M) F[i] = f32(f16(A[i,0]) * H[0]);"},
  {"range(i, M) F[i] = bitcast(f32, bitcast(u32, A[i,0]) & 0x7fffffff);", "range(i, M) F[i] = bitcast(f32, bitcast(u32, A[i,0]) & u32(2147483647));"},
  {"range(i, M) F[i] = f32(i8(3)) + f32(i);", "range(i, M) F[i] = f32(i8(3)) + f32(i);"},
  {"def(gelu(x) = 0.5f*x*(1 + erf(x*0.70710678f)));\nrange(i, M) F[i] = gelu(A[i,0]);", "range(i, M) F[i] = 0.5f * A[i,0] * (1.0f + erf(A[i,0] * 0.70710678f));"},
  {"def(lerp(a, b, t) = a + (b - a) * t);\ndef(mid(a, b) = lerp(a, b, 0.5));\nrange(i, M) F[i] = mid(A[i,0], s);", "range(i, M) F[i] = A[i,0] + (s - A[i,0]) * 0.5f;"},
  {"proc fill(dst, v) { range(q, dim(dst, 0)) dst[q] = v; }\ncall(fill, F, s * 2); call(fill, D, 3);", "range(q, M) F[q] = s * 2.0f; range(q, M) D[q] = i32(3);"},
  {"range(i, M) { define_reg(t, type(H), [4], ssa); t[0] = H[0]; F[i] = f32(t[0]); }", "range(i, M) { define_reg(t, f16, [4], ssa); t[0] = H[0]; F[i] = f32(t[0]); }"},
  {"range(i, M) { range(j, N, upcast) atomic D[idx[j]] += 2 if j < 3; C[i,0] = 1 stream; }",
   "range(i, M) { range(j, N, upcast) atomic D[min(max(index(idx[j] if j < 3 else i32(0)), 0), 99)] += i32(2) if j < 3; C[i,0] = 1.0f stream; }"},
  {"range(i.0, M) { define_reg(acc.1, f32); acc.1 = 0; F[i.0] = acc.1; }", "range(i, M) { define_reg(a, f32); a = 0.0f; F[i] = a; }"},
  {"range(i, M) { barrier(); F[i] = nan; }", "range(i, M) { barrier(); F[i] = f32(nan); }"},
  {"range(i, M) F[i] = pow(A[i,0], 2) + fma(A[i,0], 2, s) + abs(s) + rsqrt(2);", "range(i, M) F[i] = pow(A[i,0], 2.0f) + fma(A[i,0], 2.0f, s) + abs(s) + rsqrt(2.0f);"},
};

typedef struct { tg_job job; const char *text, *printed; } program;

static void parse(void *user) {
  program *p = user;
  tg_parse_kernel(&p->job, "row", p->text, 0, NULL);
  tg_str s = tg_str_new(&p->job.env);
  tg_print(&p->job, &s, p->job.sink);
  p->printed = s.data;
}

static bool read(program *p, const char *stage, const char *body) {
  static char text[4096];
  if (stage) snprintf(text, sizeof text, "kernel k(M = 16, N = 8, K in 1..64) { %s %s %s }", stage, HEAD, body);
  tg_job_init(&p->job, NULL);
  p->text = stage ? text : body;
  return tg_protect(&p->job.env, parse, p);
}

typedef struct { program *a, *b; bool same; } comparison;

static void compare(void *user) {
  comparison *c = user;
  c->same = tg_same_program(&c->a->job, c->a->job.sink, &c->b->job, c->b->job.sink);
}

static bool same(program *a, program *b) {
  comparison c = {a, b, false};
  CHECK(tg_protect(&a->job.env, compare, &c), "%s", a->job.env.message);
  return c.same;
}

static void check_row(const row *r) {
  program a = {0}, said = {0}, again = {0};
  bool ok = read(&a, "", r->author);
  CHECK(ok, "%s\n%s", r->author, a.job.env.message);
  if (ok) {
    bool second = read(&said, "stage author;", r->said);
    CHECK(second, "%s\n%s", r->said, said.job.env.message);
    if (second) CHECK(same(&a, &said), "\n--- author\n%s\n--- said\n%s", a.printed, said.printed);
    bool third = read(&again, NULL, a.printed);
    CHECK(third, "%s\n%s", a.printed, again.job.env.message);
    if (third) CHECK(same(&a, &again), "\n--- printed\n%s\n--- again\n%s", a.printed, again.printed);
    if (second) tg_job_drop(&said.job);
    if (third) tg_job_drop(&again.job);
  }
  tg_job_drop(&a.job);
}

int main(void) {
  for (unsigned i = 0; i < TG_COUNT(rows); i++) check_row(&rows[i]);
  return TEST_END();
}
