% SPDX-License-Identifier: MIT
% Octave's products over the BLAS front, single and double, on whole numbers, against sums that
% call no BLAS; and a system of equations through the system's LAPACK.
%   octave-cli --norc tests/clients/products.m    under LD_PRELOAD=libtg_blas.so; ends with "N passed, N failed"
1;
function n = count(good, varargin)
  n = [good, !good];
  if !good, printf("failed: %s\n", disp(varargin)); end
end
function c = sums(a, b)
  c = zeros(rows(a), columns(b), class(a));
  for j = 1:columns(b), c(:, j) = sum(a .* b(:, j).', 2); end
end
total = [0, 0];
rand("seed", 1);
numbers = @(m, n, kind) cast(floor(7 * rand(m, n)) - 3, kind);
for kind = {"single", "double"}
  for sizes = {[2, 2, 2], [5, 9, 13], [31, 17, 64], [64, 48, 80], [129, 140, 131], [200, 3, 257]}
    k = kind{1}; s = sizes{1};
    a = numbers(s(1), s(3), k); b = numbers(s(3), s(2), k); at = a.'; bt = b.';
    want = sums(a, b);
    total += count(isequal(a * b, want), "a * b", k, s);
    total += count(isequal(at' * b, want), "a' * b", k, s);
    total += count(isequal(a * bt', want), "a * b'", k, s);
    total += count(isequal(at' * bt', want), "a' * b'", k, s);
    part = [a, a](:, 1:s(3));
    total += count(isequal(part * b, want), "a part", k, s);
  end
  k = kind{1};
  total += count(isequal(zeros(0, 5, k) * zeros(5, 7, k), zeros(0, 7, k)), "no rows", k);
  total += count(isequal(zeros(3, 0, k) * zeros(0, 4, k), zeros(3, 4, k)), "no terms", k);
  a = numbers(300, 300, k) + 1000 * eye(300, k); x = numbers(300, 40, k);
  total += count(max(abs(a \ sums(a, x) - x)(:)) < 3000 * eps(k), "a \\ b", k);
end
printf("%d passed, %d failed\n", total(1), total(2));
exit(total(2) > 0);
