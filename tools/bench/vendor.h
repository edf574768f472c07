/* SPDX-License-Identifier: MIT
 * The products of a GPU maker's own library, as a contestant of tg bench gemm --device: cuBLAS, on the device's memory
 * and on the queue of tg's own work. */
#ifndef TG_BENCH_VENDOR_H
#define TG_BENCH_VENDOR_H
#include "bench/device.h"
#include "bench/peers.h"

typedef struct bench_vendor bench_vendor;

/* vs: "cublas" or "cublas=FILE"; without FILE, TG_CUBLAS names it, or it lies in a usual place. d->queue becomes a
 * queue on a stream of the driver's, which both put their work on. NULL, and a line on stderr: there is none, or this
 * is no device of its maker's. Close it behind the device. */
bench_vendor *bench_vendor_open(const char *vs, bench_device *d);
void bench_vendor_close(bench_vendor *);
const char *bench_vendor_version(const bench_vendor *);   /* "13.1.0" */

/* The ways in which the library computes this product of operands at these places of the device; 0: in none. */
int bench_vendor_ways(bench_vendor *, const bench_product *, void *const at[3]);
/* Which of them bench_vendor_put puts on the queue; its name. */
const char *bench_vendor_choose(bench_vendor *, int way);
bench_device_put bench_vendor_put;   /* of a bench_vendor */
#endif
