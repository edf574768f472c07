# SPDX-License-Identifier: MIT
"""A kernel, a product and attention over NumPy arrays, each against NumPy; what a mistake says; what a call costs."""
import sys
import time

import numpy as np

import tg

rng = np.random.default_rng(7)
c = tg.Context()
wrong = 0


def near(what, got, want, bound):
    global wrong
    error = float(np.max(np.abs(got.astype(np.float64) - want)))
    wrong += not error <= bound
    print(f"{what:24} largest error {error:.2g}")


softmax = c.kernel("""kernel softmax(R in 1..4096, D in 1..4096) {
  in(x, f32, [R, D]); out(y, f32, [R, D]);
  range(i, R) { let m = max(j : D, x[i,j]); let s = sum(j : D, exp(x[i,j] - m)); range(j, D) y[i,j] = exp(x[i,j] - m) / s; }
}""")
x = rng.standard_normal((50, 1000), np.float32)
y = np.empty_like(x)
softmax(x, y, R=50, D=1000)
e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
near("softmax 50 x 1000", y, e / e.sum(1, keepdims=True), 1e-6)

a, b, bias = (rng.standard_normal(s, np.float32) for s in ((130, 300), (300, 77), (77,)))
near("product", c.matmul(a, b), a.astype(np.float64) @ b, 1e-4)
near("with bias and relu", c.matmul(a, b, epilogue="max(acc + bias, 0)", bias=bias), np.maximum(a.astype(np.float64) @ b + bias, 0), 1e-4)
near("of a transposed B", c.matmul(a, np.asfortranarray(b)), a.astype(np.float64) @ b, 1e-4)

q, k, v = (rng.standard_normal((2, 4, 65, 32), np.float32) for _ in range(3))
s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / np.sqrt(32)
s[..., np.triu(np.ones((65, 65), bool), 1)] = -np.inf
p = np.exp(s - s.max(-1, keepdims=True))
near("causal attention", c.attention(q, k, v, causal=True), np.einsum("bhij,bhjd->bhid", p / p.sum(-1, keepdims=True), v), 1e-5)

try:
    c.kernel("kernel shift(N in 1..100) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i + 1]; }")
    wrong += 1
except tg.Error as error:
    print(error)

def refused(what, call, *words):
    global wrong
    try:
        call()
        print(f"{what} is accepted")
    except tg.Error as error:
        if all(w in str(error) for w in words):
            return
        print(f"{what}: {error}")
    wrong += 1


one = c.kernel("kernel one() { in(x, f32, [1]); out(y, f32, [1]); y[0] = x[0]; }")
u, w = np.ones(1, np.float32), np.zeros(1, np.float32)
fixed = np.full(1, 3, np.float32)
fixed.flags.writeable = False
one(fixed, w)
wrong += int(w[0] != 3)
refused("a read-only result", lambda: one(u, fixed), "y is read-only")
refused("another type", lambda: one(u.astype(np.float64), w), "x is of float64, not of float32")
refused("one array", lambda: one(u), "takes the buffers ['x', 'y']")
refused("a parameter too many", lambda: one(u, w, N=1), "the parameters []")
refused("every other element", lambda: softmax(x[:, ::2], y, R=50, D=500), "x is not contiguous")
start = time.perf_counter()
for _ in range(20000):
    one(u, w, threads=1)
print(f"a launch: {(time.perf_counter() - start) / 20000 * 1e6:.1f} us")
print("right" if not wrong else f"{wrong} wrong")
sys.exit(wrong != 0)
