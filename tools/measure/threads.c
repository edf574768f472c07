/* SPDX-License-Identifier: MIT
 * tg measure, threads: what all cores read together, and what it takes to start a task on another core and to wait for
 * one, with the pool that contexts have. With one core there is nothing to measure: no launch there has two threads. */
#include <stdatomic.h>
#include "devices/pool.h"
#include "measure/measure.h"

enum { BLOCK = 256, LAUNCHES = 2000, MEETINGS = 200 };

/* ---- all cores read ---- */

typedef struct { tg_pool *pool; measure_body *reader; uint32_t threads; char *memory; int64_t blocks; } reading;

static void read_share(void *arg, int64_t i, uint32_t worker) {
  reading *r = arg;
  (void)worker;
  r->reader(r->blocks, r->memory + i * r->blocks * BLOCK);
}

static void read_all(int64_t n, void *memory) {
  reading *r = memory;
  for (; n; n--) tg_pool_run(r->pool, r->threads, r->threads, read_share, r);
}

/* ---- two threads meet ---- */

/* Waits until both threads have come n times; false: the other one is held up. */
static bool meet(atomic_uint *count, uint32_t n) {
  const int64_t patience = 10000000;
  atomic_fetch_add_explicit(count, 1, memory_order_acq_rel);
  for (int64_t k = 0; atomic_load_explicit(count, memory_order_acquire) < 2 * n; k++)
    if (k == patience) return false;
  return true;
}

typedef struct { _Alignas(64) atomic_uint count; atomic_bool late; _Alignas(64) double began, ran, met; } meeting;

/* Worker 0 is the thread that launches: the other one's first step is what is waited for. Neither takes both tasks, as
 * each waits for the other. */
static void run_pair(void *arg, int64_t i, uint32_t worker) {
  meeting *p = arg;
  (void)i;
  if (worker) p->ran = tg_now();
  if (!meet(&p->count, 1)) atomic_store(&p->late, true);
  double t = tg_now();
  for (uint32_t n = 2; n < MEETINGS + 2 && !atomic_load_explicit(&p->late, memory_order_relaxed); n++)
    if (!meet(&p->count, n)) atomic_store(&p->late, true);
  if (!worker) p->met = (tg_now() - t) / MEETINGS;
}

static void measure_pairs(measure *m, tg_pool *pool, double seconds) {
  static double launch[LAUNCHES], barrier[LAUNCHES];   /* of all rounds */
  static uint32_t n;
  uint32_t enough = n + LAUNCHES / MEASURE_ROUNDS;
  for (double end = tg_now() + seconds; n < enough && (tg_now() < end || n < 3);) {
    meeting p = {.began = tg_now()};
    tg_pool_run(pool, 2, 2, run_pair, &p);
    if (atomic_load(&p.late) && tg_now() > end + seconds) return;
    if (atomic_load(&p.late)) continue;
    launch[n] = 1e9 * (p.ran - p.began), barrier[n++] = 1e9 * p.met;
  }
  m->row.launch = measure_quantile(launch, n, 0.1);   /* as of all probes: the others met a neighbour */
  m->row.barrier = measure_quantile(barrier, n, 0.1);
}

void measure_threads(measure *m) {
  uint32_t threads = m->target.threads;
  tg_allocator a = tg_allocator_default();
  tg_pool *pool = threads > 1 ? tg_pool_open(&a, threads) : NULL;
  m->row.memory_bandwidth_all = m->row.memory_bandwidth;
  if (!pool) {
    m->row.launch = m->target.machine.launch, m->row.barrier = m->target.machine.barrier;
    return;
  }
  reading r = {pool, measure_reader(m), threads, m->memory, (int64_t)(m->memory_bytes / threads / BLOCK)};
  double all = (double)r.blocks * BLOCK * threads / measure_cycles(m, 4 * m->probe, read_all, &r, 1);
  if (all > m->row.memory_bandwidth_all) m->row.memory_bandwidth_all = all;
  measure_pairs(m, pool, 4 * m->probe);
  tg_pool_close(pool);
}
