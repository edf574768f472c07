/* SPDX-License-Identifier: MIT
 * Data of products in benches, and whether a C is right. */
#ifndef TG_BENCH_PRODUCT_H
#define TG_BENCH_PRODUCT_H
#include <stdint.h>
#include "bench/peers.h"

size_t bench_bytes(tg_type t);
/* Whole numbers of -3..4 (u8: 0..7): exact in every type. */
void bench_fill(tg_type t, void *x, size_t n, uint32_t seed);
/* What a right C must come to, malloc'd; NULL: no memory. Then whether it does; of 16-bit results elements of a
 * dozen rows. */
double *bench_sums(const bench_product *p);
bool bench_verified(const bench_product *p, const double *sums);
void bench_poison(const bench_product *p);
#endif
