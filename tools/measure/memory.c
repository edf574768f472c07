/* SPDX-License-Identifier: MIT
 * tg measure, caches and memory: bytes per cycle of sequences, cycles of a load at the end of a chain of loads in
 * random order, and how many sequences and pages the hardware follows. Sizes of caches are those that the system
 * reports. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "measure/body.h"

enum { BLOCK = 256, PAGE = 4096, MOST_PAGES = 1 << 13 };

/* ---- sequences ---- */

typedef float vector __attribute__((vector_size(16)));

#if defined(__x86_64__)
#define READ(V, S, list) EACH(list, "vmovaps " S "*\\r(%%rax), %%" V "\\r") "add $256, %%rax" THEN
BODY(read_16, "xmm", READ("xmm", "16", MANY ",12,13,14,15"))
BODY(read_32, "ymm", READ("ymm", "32", LOWER))
BODY(read_64, "zmm", READ("zmm", "64", "0,1,2,3"))
static measure_body *const reads[] = {read_16, read_32, read_64};
#endif

/* By vectors that each machine has. */
static void read_any(int64_t blocks, void *memory) {
  const volatile vector *v = memory;
  for (; blocks; blocks--, v += BLOCK / sizeof *v)
    for (size_t i = 0; i < BLOCK / sizeof *v; i++) (void)v[i];
}

measure_body *measure_reader(const measure *m) {
#if defined(__x86_64__)
  if (m->widest < TG_MACHINE_WIDTHS) return reads[m->widest];
#endif
  (void)m;
  return read_any;
}

typedef struct { measure_body *body; char *memory; int64_t blocks; } sequence;

static void again(int64_t n, void *memory) {
  const sequence *s = memory;
  for (; n; n--) s->body(s->blocks, s->memory);
}

/* Bytes per cycle of a sequence that is passed through again and again. */
static double rate(measure *m, measure_body *body, size_t bytes, double seconds) {
  sequence s = {body, m->memory, (int64_t)(bytes / BLOCK)};
  return (double)bytes / measure_cycles(m, seconds, again, &s, 0);
}

/* ---- sequences in turns ---- */

enum { MOST_SEQUENCES = 64 };
typedef struct { char *at[MOST_SEQUENCES]; uint32_t n; } sequences;

static inline void read_line(const char *p) {
  const volatile vector *v = (const volatile vector *)(const volatile void *)p;
  (void)v[0], (void)v[1], (void)v[2], (void)v[3];
}

static void in_turns(int64_t lines, void *memory) {
  const sequences *s = memory;
  for (int64_t i = 0; i < lines; i++)
    for (uint32_t k = 0; k < s->n; k++) read_line(s->at[k] + i * MEASURE_LINE);
}

/* One half of the memory copied to the other, in blocks of four pages: a vector of each page in turn (along: 4), or one
 * after the other (1). Stores go past the caches where the compiler has an instruction for it. */
typedef struct { char *from, *to; int64_t along, unit; } copying;

static inline void put_past(char *to, vector v) {
#if defined(__x86_64__)
  __asm__ volatile("movntps %1, %0" : "=m"(*(vector *)(void *)to) : "x"(v));
#else
  *(volatile vector *)(volatile void *)to = v;
#endif
}

static void copy(int64_t blocks, void *memory) {
  const copying *c = memory;
  const int64_t bytes = 4 * PAGE, each = bytes / c->along;
  const char *from = c->from;
  char *to = c->to;
  for (; blocks; blocks--, from += bytes, to += bytes)
    for (int64_t i = 0; i < each; i += c->unit)
      for (int64_t k = i; k < bytes; k += each)
        for (int64_t v = k; v < k + c->unit; v += (int64_t)sizeof(vector))
          put_past(to + v, *(const volatile vector *)(const volatile void *)(from + v));
}

/* Cycles per block. The halves are not a power of two apart. */
static double copied(measure *m, int64_t along, double seconds) {
  size_t half = m->memory_bytes / 2;
  copying c = {m->memory, m->memory + half + 5 * MEASURE_LINE, along, m->target.vector_bytes};
  return measure_cycles(m, seconds, copy, &c, (int64_t)(half / (4 * PAGE)) - 1);
}

/* Cycles per line, of n sequences that share the memory out. They begin at different sets of the caches. */
static double turns(measure *m, uint32_t n, double seconds) {
  sequences s = {.n = n};
  size_t each = m->memory_bytes / n / PAGE * PAGE, skew = 5 * MEASURE_LINE;
  for (uint32_t k = 0; k < n; k++) s.at[k] = m->memory + k * (each + skew);
  int64_t lines = (int64_t)((each - n * skew) / MEASURE_LINE);
  return measure_cycles(m, seconds, in_turns, &s, lines) / n;
}

/* ---- chains ---- */

typedef struct { void **at; } chain;

static void follow(int64_t loads, void *memory) {
  chain *c = memory;
  void **p = c->at;
  for (; loads; loads--) p = *(void **volatile *)p;
  c->at = p;
}

/* Places i = 0 .. n-1 of a chain are `apart` bytes apart; if each is in a page of its own, each is in another line of
 * its page, or they would share a set of the cache. */
static char *place(char *memory, size_t apart, uint32_t i) {
  return memory + i * apart + (apart >= PAGE ? i % (PAGE / MEASURE_LINE) * MEASURE_LINE : 0);
}

/* A random order of n numbers from `from` (Fisher and Yates). */
static void shuffle(uint32_t *order, uint32_t from, uint32_t n, uint64_t *x) {
  for (uint32_t i = 0; i < n; i++) order[i] = from + i;
  for (uint32_t i = n; i > 1; i--) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;   /* Marsaglia, Xorshift RNGs */
    uint32_t k = (uint32_t)(*x % i), t = order[i - 1];
    order[i - 1] = order[k], order[k] = t;
  }
}

/* Links n places in a circle: groups of some of them in random order, and at random within a group. */
static bool link_places(char *memory, size_t apart, uint32_t n, uint32_t group) {
  uint32_t groups = n / group, *which = malloc(((size_t)groups + n) * sizeof *which), *order = which + groups;
  uint64_t x = 88172645463325252u;
  if (!which) return false;
  shuffle(which, 0, groups, &x);
  n = groups * group;
  for (uint32_t g = 0; g < groups; g++) shuffle(order + g * group, which[g] * group, group, &x);
  for (uint32_t i = 0; i < n; i++)
    *(void **)(void *)place(memory, apart, order[i]) = place(memory, apart, order[i + 1 < n ? i + 1 : 0]);
  free(which);
  return true;
}

/* Cycles of a load in a chain through n places; NaN: out of memory. */
static double chase(measure *m, char *memory, size_t apart, uint32_t n, uint32_t group, double seconds) {
  enum { LOADS = 20000 };
  if (!link_places(memory, apart, n, group)) return NAN;
  chain c = {(void **)(void *)place(memory, apart, 0)};
  follow(n < LOADS ? LOADS : n, &c);   /* brings it into the caches that can hold it */
  return measure_cycles(m, seconds, follow, &c, LOADS);
}

/* A load of a line in the first `bytes` of the memory. The lines of 128 KiB come together, so that what pages cost
 * stays out of it: the first levels of all TLBs hold that. */
static double latency(measure *m, size_t bytes, double seconds) {
  enum { TOGETHER = 32 * PAGE / MEASURE_LINE };
  return chase(m, m->memory, MEASURE_LINE, (uint32_t)(bytes / MEASURE_LINE), TOGETHER, seconds);
}

/* ---- the columns ---- */

/* A number from the system's description of a cache of data; 0: it does not say. */
static uint32_t described(uint32_t level, const char *what) {
  for (uint32_t i = 0; i < 8; i++) {
    char path[128], text[32], kind[32];
    uint32_t of = 0;
    static const char *const files[] = {"level", "type", ""};
    char *const into[] = {text, kind, text};
    for (uint32_t k = 0; k < 3; k++) {
      snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", i, k < 2 ? files[k] : what);
      FILE *f = fopen(path, "re");
      if (!f) return 0;
      if (!fgets(into[k], 32, f)) into[k][0] = 0;
      fclose(f);
      if (k == 0) of = (uint32_t)strtoul(text, NULL, 10);
    }
    if (of == level && kind[0] != 'I') return (uint32_t)strtoul(text, NULL, 10);
  }
  return 0;
}

static void describe(double *column, uint32_t level, const char *what) {
  uint32_t v = described(level, what);
  if (v) *column = v;
}

/* ---- how many the hardware follows ---- */

/* The most sequences at which the rate is at least half of the best. */
static void measure_streams(measure *m, double seconds) {
  static const uint32_t some[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64};
  double cycles[TG_COUNT(some)], least = INFINITY;
  for (uint32_t i = 0; i < TG_COUNT(some); i++) {
    cycles[i] = turns(m, some[i], seconds);
    least = fmin(least, cycles[i]);
  }
  for (uint32_t i = 0; i < TG_COUNT(some); i++)
    if (cycles[i] <= 2 * least) m->row.streams = some[i];
}

/* One line in each of n pages, against as many lines side by side. The TLB holds as many pages as cost half of what
 * those cost that it surely does not hold. */
static void measure_pages(measure *m, double seconds) {
  enum { FEW = 256, STEPS = 16 };
  size_t bytes = (size_t)MOST_PAGES * PAGE;
  char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  double extra[STEPS + 1], pages[STEPS + 1];
  if (p == MAP_FAILED) return;
  madvise(p, bytes, MADV_NOHUGEPAGE);
  for (int i = 0; i <= STEPS; i++) {
    uint32_t n = (uint32_t)(FEW * pow((double)MOST_PAGES / FEW, (double)i / STEPS) + 0.5);
    extra[i] = chase(m, p, PAGE, n, n, seconds) - chase(m, m->memory, MEASURE_LINE, n, n, seconds);
    pages[i] = n;
  }
  munmap(p, bytes);
  double half = (extra[0] + extra[STEPS]) / 2;
  m->row.page_miss = extra[STEPS];
  m->row.pages = MOST_PAGES;
  for (int i = STEPS; i > 0 && extra[i] > half; i--)
    m->row.pages = pages[i - 1] + (pages[i] - pages[i - 1]) * fmax(0, half - extra[i - 1]) / (extra[i] - extra[i - 1]);
}

enum { CHAINS = 4 };
typedef struct { void **at[CHAINS]; } chains;

static void follow_all(int64_t loads, void *memory) {
  chains *c = memory;
  for (; loads; loads--)
    for (int i = 0; i < CHAINS; i++) c->at[i] = *(void **volatile *)c->at[i];
}

/* What a core finds again in L3, which other cores fill as well: the bytes half of whose lines it still holds when
 * they are wanted again. Several chains, so that lines are wanted about as often as arithmetic wants them; of one
 * alone they come around many times as late. */
static void measure_kept(measure *m, double seconds) {
  enum { STEPS = 10, TOGETHER = 32 * PAGE / MEASURE_LINE };
  const double least = fmax(1.5 * (double)m->target.l2, (double)m->target.l3 / 32), most = 1.5 * (double)m->target.l3;
  double cycles[STEPS + 1], bytes[STEPS + 1];
  if (!m->target.l3 || least >= most || most > (double)m->memory_bytes) return;
  for (int i = 0; i <= STEPS; i++) {
    uint32_t n = (uint32_t)(least * pow(most / least, (double)i / STEPS)) / MEASURE_LINE / TOGETHER * TOGETHER;
    chains c;
    if (!link_places(m->memory, MEASURE_LINE, n, TOGETHER)) return;
    void **at = (void **)(void *)place(m->memory, MEASURE_LINE, 0);
    for (uint32_t k = 0; k < n; k++, at = *at)
      if (k % (n / CHAINS) == 0 && k / (n / CHAINS) < CHAINS) c.at[k / (n / CHAINS)] = at;
    follow_all(n / CHAINS, &c);
    cycles[i] = measure_cycles(m, seconds, follow_all, &c, n / CHAINS), bytes[i] = n * (double)MEASURE_LINE;
  }
  double half = (cycles[0] + cycles[STEPS]) / 2;
  m->row.l3_kept = 1;
  for (int i = STEPS; i > 0 && cycles[i] > half; i--)
    m->row.l3_kept = fmin(1, (bytes[i - 1] + (bytes[i] - bytes[i - 1]) * fmax(0, half - cycles[i - 1]) /
                                                 (cycles[i] - cycles[i - 1])) / (double)m->target.l3);
}

void measure_memory(measure *m) {
  tg_machine *r = &m->row;
  double some = m->probe, much = 3 * m->probe;
  describe(&r->l1_ways, 1, "ways_of_associativity");
  describe(&r->l2_ways, 2, "ways_of_associativity");
  r->l2_bandwidth = rate(m, measure_reader(m), m->l2_bytes, some);
  r->l3_bandwidth = rate(m, measure_reader(m), m->l3_bytes, much);
  r->memory_bandwidth = rate(m, measure_reader(m), m->memory_bytes, much);
  measure_streams(m, much);
  r->interleave = copied(m, 1, much) / copied(m, 4, much);
  r->l2_latency = latency(m, m->l2_bytes, some);
  /* loads one by one come around so late that what other cores read has evicted much of a larger part */
  r->l3_latency = latency(m, 8 * m->l2_bytes < m->l3_bytes ? 8 * m->l2_bytes : m->l3_bytes, much);
  r->memory_latency = latency(m, m->memory_bytes, much);
  measure_kept(m, some);
  measure_pages(m, some);
}
