# SPDX-License-Identifier: MIT
# NumPy's products over the BLAS front, on whole numbers: f32 and f64 against NumPy's own loops for integers, which call no BLAS. Layouts that NumPy hands over as
# they are, and some that it copies first; stacks; results in place; threads; children by fork, in the middle of products, and by multiprocessing.
#   python3 tests/blas/products.py        under LD_PRELOAD=libtg_blas.so; ends with "N passed, N failed"
#     --one-process: no children, whose calls nobody counts
import concurrent.futures
import multiprocessing
import os
import signal
import sys

import numpy as np

SIZES = [1, 2, 3, 7, 8, 16, 17, 31, 64, 65, 127, 128, 129, 130, 200, 257]
TYPES = [np.float32, np.float64]
passed = failed = 0


def check(good, *what):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print("failed:", *what)


def numbers(rows, columns, kind, seed):
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(kind)


def exact(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


def product_is_right(m, n, k, kind, seed):
    a, b = numbers(m, k, kind, seed), numbers(k, n, kind, seed + 1)
    return bool(np.array_equal(a @ b, exact(a, b)))


LAYOUTS = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "part": lambda x: np.pad(x, ((1, 2), (3, 1)), constant_values=9)[1:-2, 3:-1],
    "part of columns": lambda x: np.asfortranarray(np.pad(x, ((2, 1), (1, 3)), constant_values=9))[2:-1, 1:-3],
    "every other": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
}


def layouts():
    for kind in TYPES:
        for m, n, k in [(5, 9, 13), (64, 48, 80), (129, 140, 131), (1, 300, 400), (300, 2, 20)]:
            a, b = numbers(m, k, kind, 1), numbers(k, n, kind, 2)
            want = exact(a, b)
            for p, left in LAYOUTS.items():
                for q, right in LAYOUTS.items():
                    check(np.array_equal(left(a) @ right(b), want), kind.__name__, m, n, k, p, q)


def sizes():
    for kind in TYPES:
        for i, m in enumerate(SIZES):
            for j, n in enumerate(SIZES):
                k = SIZES[(i * 5 + j * 3) % len(SIZES)]
                check(product_is_right(m, n, k, kind, i + j), kind.__name__, m, n, k)


def others():
    for kind in TYPES:
        a, b = numbers(60, 70, kind, 3), numbers(70, 50, kind, 4)
        out = np.full((60, 100), np.nan, kind)
        np.matmul(a, b, out=out[:, 20:70])
        check(np.array_equal(out[:, 20:70], exact(a, b)) and np.isnan(out[:, :20]).all() and np.isnan(out[:, 70:]).all(), kind.__name__, "part of a larger result")
        check((a[:, :0] @ b[:0] == 0).all() and (a[:0] @ b).shape == (0, 50), kind.__name__, "nothing")
        stack, one = np.stack([numbers(20, 30, kind, s) for s in range(7)]), numbers(30, 40, kind, 9)
        check(all(np.array_equal(x, exact(y, one)) for x, y in zip(stack @ one, stack)), kind.__name__, "stack")
        check(np.array_equal(np.dot(a, b), exact(a, b)) and np.array_equal(np.tensordot(a, b, 1), exact(a, b)), kind.__name__, "dot, tensordot")
        check(np.array_equal(a @ a.T, exact(a, a.T)), kind.__name__, "a matrix by its own transpose")
        a[3, 5] = np.nan
        check(np.isnan((a @ b)[3]).all() and np.isnan(a @ b).sum() == 50, kind.__name__, "NaN")


def vectors():
    """gemv, dot, syrk: the library below."""
    for kind in TYPES:
        a, v = numbers(60, 70, kind, 3), numbers(1, 70, kind, 5)[0]
        whole, w = a.astype(np.int64), v.astype(np.int64)
        check(np.array_equal(a @ v, whole @ w), kind.__name__, "matrix by vector")
        check(np.array_equal(v @ a.T, w @ whole.T), kind.__name__, "vector by matrix")
        check(np.dot(v, v) == int(w @ w), kind.__name__, "vector by vector")
        check(np.array_equal(a.T @ a, whole.T @ whole), kind.__name__, "a transpose by its own matrix")


def exceptions():
    """NumPy warns of FE_INVALID: an infinity alone is no reason."""
    for kind in TYPES:
        for m, n, k in [(17, 2, 200), (3, 2, 33), (33, 31, 3), (100, 48, 65), (129, 48, 15), (9, 9, 9)]:
            for order in "FC":
                a, b = np.full((m, k), 2, kind, order), np.full((k, n), 3, kind, order)
                b[0, 0] = np.inf
                with np.errstate(all="raise"):
                    try:
                        c = a @ b
                    except FloatingPointError as e:
                        c = str(e)
                check(not isinstance(c, str) and np.isinf(c).sum() == m, kind.__name__, m, n, k, order, "one infinity", c if isinstance(c, str) else "")


def work(seed):
    return all(product_is_right(m, m + 3, m + 5, kind, seed) for m in (6, 40, 150, 300) for kind in TYPES)


def threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        children = []
        running = [pool.submit(work, i) for i in range(24)]
        for i in range(6):   # the threads are at it meanwhile
            child = os.fork()
            if not child:
                signal.alarm(60)
                os._exit(0 if work(100 + i) else 1)
            children.append(child)
        for child in children:
            check(os.waitpid(child, 0)[1] == 0, "a child of a process with threads")
        for future in running:
            check(future.result(), "a thread")


def processes():
    for how in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(how)
        with context.Pool(3) as pool:
            try:
                results = pool.map_async(work, range(12)).get(90)
            except multiprocessing.TimeoutError:
                results = [False]
            check(all(results), "multiprocessing by", how)


if __name__ == "__main__":
    layouts()
    sizes()
    others()
    vectors()
    exceptions()
    if "--one-process" not in sys.argv:
        threads()
        processes()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
