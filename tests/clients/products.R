# SPDX-License-Identifier: MIT
# R's products over the BLAS front, on whole numbers, against sums that call no BLAS; and a system of
# equations through the system's LAPACK.
#   Rscript --vanilla tests/clients/products.R      under LD_PRELOAD=libtg_blas.so; ends with "N passed, N failed"
passed <- failed <- 0
check <- function(good, ...) {
  if (isTRUE(good)) passed <<- passed + 1
  else { failed <<- failed + 1; cat("failed:", ..., "\n") }
}
set.seed(1)
numbers <- function(m, n) matrix(sample(-3:3, m * n, replace = TRUE) + 0, m, n)
sums <- function(a, b) matrix(vapply(seq_len(ncol(b)), function(j) rowSums(a * rep(b[, j], each = nrow(a))),
                                     numeric(nrow(a))), nrow(a), ncol(b))
for (size in list(c(2, 2, 2), c(5, 9, 13), c(31, 17, 64), c(64, 48, 80), c(129, 140, 131), c(200, 3, 257))) {
  a <- numbers(size[1], size[3]); b <- numbers(size[3], size[2])
  want <- sums(a, b)
  check(identical(a %*% b, want), "a %*% b", size)
  check(identical(crossprod(t(a), b), want), "crossprod", size)
  check(identical(tcrossprod(a, t(b)), want), "tcrossprod", size)
}
a <- numbers(0, 5) %*% numbers(5, 7)
check(identical(dim(a), c(0L, 7L)), "no rows")
check(all(numbers(3, 0) %*% numbers(0, 4) == 0), "no terms")
a <- numbers(300, 300) + diag(1000, 300); x <- numbers(300, 40)
check(max(abs(solve(a, sums(a, x)) - x)) < 1e-12, "solve")
cat(passed, "passed,", failed, "failed\n")
quit(status = failed > 0)
